"""Findings that a function's code shows about where it leads: names that don't exist, and two ways of routing at once.

What is declared is checked by `validate`, which refuses it. Code is only read if its constants hold out that there is
something to find, so that `compile` stays cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from juncture.graph.check_findings import Finding
from juncture.graph.outline import Outline, Reader, declared_targets
from juncture.graph.specs import BranchSpec, NodeSpec
from juncture.types import END, START


def routes(graph: Outline, reader: Reader) -> Iterator[Finding]:
    """What is wrong with routers and commands, as far as their code shows it."""
    for source, branches in graph.branches.items():
        for branch in branches:
            yield from _router(graph, source, branch, reader)
    for spec in graph.nodes.values():
        texts = reader.texts(spec.action)
        if texts is not None and ("goto" in texts or "Send" in texts):
            yield from _commands(graph, spec, reader)
    if not graph.strict:
        for spec in graph.nodes.values():
            yield from _declared(graph, spec)


def near(name: str, known: Iterable[str], otherwise: str) -> str:
    """What to do about a name that doesn't exist."""
    close = get_close_matches(name, list(known), n=1)
    return f"Did you mean {close[0]!r}?" if close else otherwise


def _router(graph: Outline, source: str, branch: BranchSpec, reader: Reader) -> Iterator[Finding]:
    at = "START" if source == START else f"node {source!r}"
    place = f"router {branch.name!r} of {at}"
    nodes = () if source == START else (source,)
    texts = reader.texts(branch.path)
    if texts is None:
        return
    if branch.targets is not None:
        labels = set(map(str, branch.targets))
        if all(text in labels or text in graph.nodes or text in graph.tables.keys for text in texts):
            return
    shown = reader.shown(branch.path)
    if shown is None:
        return
    for name in sorted(shown.sends - graph.nodes.keys()):
        yield _unknown(graph, place, f"it sends to {name!r}", name, nodes)
    if shown.gotos and not shown.sends:
        return  # it returns commands, whose targets aren't looked up in its path_map
    for name in sorted(shown.targets - shown.sends):
        if branch.targets is None and name not in graph.nodes and name != END:
            yield _unknown(graph, place, f"it returns {name!r}", name, nodes)
        elif branch.targets is not None and name not in branch.targets:
            yield Finding(
                "unknown-target",
                "warning",
                place,
                f"it returns {name!r}, which its path_map doesn't have",
                near(name, map(str, branch.targets), "Add it to the path_map, or remove it"),
                nodes,
            )


def _commands(graph: Outline, spec: NodeSpec, reader: Reader) -> Iterator[Finding]:
    """A node's own commands."""
    shown = reader.shown(spec.action)
    if shown is None or not shown.gotos:
        return
    place = f"node {spec.name!r}"
    if graph.routes(spec.name):
        yield Finding(
            "mixed-routing",
            "warning" if graph.strict and shown.surely else "note",
            place,
            "its code returns a Command(goto=…) or a Send, and edges lead out of it, so two ways would route at once"
            + ("" if graph.strict else "; both are followed"),
            "Remove its edges, or return an update without goto",
            (spec.name,),
        )
    for name in sorted((shown.goto_names | shown.sends) - graph.nodes.keys() - {END}):
        yield _unknown(graph, place, f"its code leads to {name!r}", name, (spec.name,))


def _declared(graph: Outline, spec: NodeSpec) -> Iterator[Finding]:
    """Lenient graphs: what `validate` lets pass."""
    declared = declared_targets(spec)
    for name in declared:
        if name not in graph.nodes and name != END:
            message = f"it declares the destination {name!r}"
            yield _unknown(graph, f"node {spec.name!r}", message, name, (spec.name,))
    if declared and graph.routes(spec.name):
        yield Finding(
            "mixed-routing",
            "note",
            f"node {spec.name!r}",
            "it declares destinations of a Command(goto=…) and has edges out of it; both are followed",
            "Remove its edges, or return an update without goto",
            (spec.name,),
        )


def _unknown(graph: Outline, place: str, message: str, name: str, nodes: tuple[str, ...]) -> Finding:
    remedy = near(name, graph.nodes, f"Known nodes: {', '.join(sorted(graph.nodes))}")
    return Finding("unknown-target", "warning", place, f"{message}, which isn't a node", remedy, nodes)


__all__ = ["near", "routes"]
