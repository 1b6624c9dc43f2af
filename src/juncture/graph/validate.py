"""Every structural check of a graph, in the order in which it reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from juncture.errors import GraphBuildError
from juncture.graph.builder import command_targets
from juncture.types import END, START, Command

if TYPE_CHECKING:
    from juncture.graph.builder import StateGraph


def validate(
    graph: StateGraph[Any, Any, Any, Any],
    interrupt_before: Sequence[str] | str | None,
    interrupt_after: Sequence[str] | str | None,
) -> None:
    """Checks that the graph can run.

    Raises:
        GraphBuildError: What is wrong, where, and what to do.
    """
    nodes = graph.nodes
    for source in (*sorted(start for start, _ in graph.edges), *graph.branches):
        if source != START and source not in nodes:
            raise GraphBuildError(
                f"Found edge starting at unknown node '{source}'.{_near(source, nodes)}", node=source
            )
    if not any(start == START for start, _ in graph.edges) and START not in graph.branches:
        raise GraphBuildError(
            "Graph must have an entrypoint: add at least one edge from START to another node, "
            'for example add_edge(START, "first")'
        )
    _check_branches(graph)
    for start, end in sorted(graph.edges):
        if end != END and end not in nodes:
            raise GraphBuildError(
                f"Found edge ending at unknown node `{end}` (from {start!r}).{_near(end, nodes)}", node=end
            )
    for names in (interrupt_before, interrupt_after):
        check_interrupts(names, nodes)
    _check_destinations(graph)


def check_interrupts(names: Sequence[str] | str | None, nodes: Iterable[str]) -> None:
    """Checks a list of nodes to pause at.

    Raises:
        GraphBuildError: A name isn't a node.
    """
    if names is None or names == "*":
        return
    if isinstance(names, str):
        raise GraphBuildError(f'nodes to interrupt are a list of names or "*", got {names!r}')
    for name in names:
        if name not in nodes and name != "*":
            raise GraphBuildError(f"Interrupt node `{name}` not found.{_near(name, nodes)}", node=name)


def _check_branches(graph: StateGraph[Any, Any, Any, Any]) -> None:
    nodes = graph.nodes
    for source, branches in graph.branches.items():
        for branch in branches.values():
            targets = list((branch.targets or {}).values())
            for target in [*targets, *([branch.default] if branch.default is not None else [])]:
                if target != END and target not in nodes:
                    raise GraphBuildError(
                        f"At '{source}' node, '{branch.name}' branch found unknown target '{target}'.{_near(target, nodes)}",
                        node=source,
                    )


def _check_destinations(graph: StateGraph[Any, Any, Any, Any]) -> None:
    routed = (
        {start for start, _ in graph.edges}
        | set(graph.branches)
        | {s for j in graph.joins for s in j.sources}
    )
    for spec in graph.nodes.values():
        declared = tuple(spec.destinations or ()) or command_targets(spec.action)
        declared = tuple(target for target in declared if target != Command.PARENT)
        for target in declared:
            if target != END and target not in graph.nodes and graph.strict:
                raise GraphBuildError(
                    f"node {spec.name!r} declares the unknown destination {target!r}.{_near(target, graph.nodes)}",
                    node=spec.name,
                )
        if declared and spec.name in routed and graph.strict:
            raise GraphBuildError(
                f"node {spec.name!r} declares destinations of a Command(goto=…) and has edges out of it, so two mechanisms "
                "would route at once. Remove its edges, or return an update without goto",
                node=spec.name,
            )


def _near(name: str, nodes: Iterable[str]) -> str:
    near = get_close_matches(str(name), nodes, n=1)
    return f" Did you mean {near[0]!r}?" if near else f" Known nodes: {', '.join(sorted(nodes)) or 'none'}"
