"""Every reason why `compile` refuses a graph's structure, in the order in which it reports.

`faults` gives them one after the other, as findings, so that `check` can show all; `validate` raises the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from juncture.errors import GraphBuildError
from juncture.graph.check_findings import Finding
from juncture.graph.specs import command_targets
from juncture.types import END, START, Command

if TYPE_CHECKING:
    from juncture.graph.builder import StateGraph
    from juncture.graph.pausing import Wanted
    from juncture.graph.specs import BranchSpec


def validate(graph: StateGraph[Any, Any, Any, Any], pauses: Wanted) -> None:
    """Checks that the graph can run.

    Raises:
        GraphBuildError: What is wrong, where, and what to do.
    """
    for fault in faults(graph):
        raise GraphBuildError(
            f"{fault.message}. {fault.remedy}", node=fault.nodes[0] if fault.nodes else None
        )
    check_pauses(pauses, graph.nodes)


def faults(graph: StateGraph[Any, Any, Any, Any]) -> Iterator[Finding]:
    """Why the graph can't run; nothing if it can."""
    nodes = graph.nodes
    for source in (*sorted(start for start, _ in graph.edges), *graph.branches):
        if source != START and source not in nodes:
            message = f"Found edge starting at unknown node '{source}'"
            yield _fault("unknown-target", f"node {source!r}", message, _near(source, nodes), source)
    if not any(start == START for start, _ in graph.edges) and START not in graph.branches:
        yield Finding(
            "no-entry",
            "error",
            "START",
            "Graph must have an entrypoint: add at least one edge from START to another node",
            'For example add_edge(START, "first")',
        )
    for source, branches in graph.branches.items():
        for branch in branches.values():
            yield from _branch_faults(graph, source, branch)
    for start, end in sorted(graph.edges):
        if end != END and end not in nodes:
            message = f"Found edge ending at unknown node `{end}` (from {start!r})"
            yield _fault("unknown-target", f"edge {start!r} -> {end!r}", message, _near(end, nodes), end)
    if graph.strict:
        yield from _destination_faults(graph)


def check_pauses(pauses: Wanted, nodes: Iterable[str]) -> None:
    """Checks the lists of nodes to pause at.

    Raises:
        GraphBuildError: A name isn't a node.
    """
    for names in (pauses.before, pauses.after, pauses.route):
        if names is None or callable(names) or names == "*":
            continue
        if not isinstance(names, (list, tuple, set, frozenset)):
            raise GraphBuildError(
                f'nodes to interrupt are a list of names or "*", got {names!r}; or give a function of the state'
            )
        for name in names:
            if name not in nodes and name != "*":
                raise GraphBuildError(f"Interrupt node `{name}` not found. {_near(name, nodes)}", node=name)


def _branch_faults(
    graph: StateGraph[Any, Any, Any, Any], source: str, branch: BranchSpec
) -> Iterator[Finding]:
    targets = list((branch.targets or {}).values())
    for target in [*targets, *([branch.default] if branch.default is not None else [])]:
        if target != END and target not in graph.nodes:
            message = f"At '{source}' node, '{branch.name}' branch found unknown target '{target}'"
            place = f"router {branch.name!r} of {'START' if source == START else f'node {source!r}'}"
            yield _fault("unknown-target", place, message, _near(target, graph.nodes), source)


def _destination_faults(graph: StateGraph[Any, Any, Any, Any]) -> Iterator[Finding]:
    routed = (
        {start for start, _ in graph.edges}
        | set(graph.branches)
        | {s for j in graph.joins for s in j.sources}
    )
    for spec in graph.nodes.values():
        declared = tuple(spec.destinations or ()) or command_targets(spec.action)
        declared = tuple(target for target in declared if target != Command.PARENT)
        place = f"node {spec.name!r}"
        for target in declared:
            if target != END and target not in graph.nodes:
                message = f"node {spec.name!r} declares the unknown destination {target!r}"
                yield _fault("unknown-target", place, message, _near(target, graph.nodes), spec.name)
        if declared and spec.name in routed:
            message = (
                f"node {spec.name!r} declares destinations of a Command(goto=…) and has edges out of it, so two mechanisms "
                "would route at once"
            )
            remedy = "Remove its edges, or return an update without goto"
            yield _fault("mixed-routing", place, message, remedy, spec.name)


def _fault(code: str, place: str, message: str, remedy: str, node: str) -> Finding:
    return Finding(code, "error", place, message, remedy, (node,))


def _near(name: str, nodes: Iterable[str]) -> str:
    near = get_close_matches(str(name), nodes, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known nodes: {', '.join(sorted(nodes)) or 'none'}"
