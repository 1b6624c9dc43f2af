"""The checker: reads a graph as a compiler reads a program, and runs nothing of it.

`certain_findings` is what `compile` warns of: it costs about as much as to lay out the tables. `every_finding` adds the notes.
A graph that `validate` refuses is reported with all the reasons, and isn't looked into any further.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from juncture.errors import GraphBuildError, GraphCheckWarning
from juncture.graph.assemble import assemble
from juncture.graph.check_barriers import barriers
from juncture.graph.check_findings import Finding, Report
from juncture.graph.check_hints import closed_loops, dead_ends, sent_collisions, side_by_side
from juncture.graph.check_keys import collisions, unknown_keys, unused_keys
from juncture.graph.check_routes import routes
from juncture.graph.check_structure import loops, structure, stuck_joins, unequal, unreachable
from juncture.graph.compiled import CompiledGraph
from juncture.graph.outline import Outline, Reader, outline
from juncture.graph.pausing import Wanted
from juncture.graph.validate import faults

if TYPE_CHECKING:
    from juncture.graph.builder import StateGraph

_RANK: Final = {"error": 0, "warning": 1, "note": 2}


def check_builder(graph: StateGraph[Any, Any, Any, Any]) -> Report:
    """See `StateGraph.check`."""
    wrong = list(faults(graph))
    if wrong:
        return _sorted(wrong)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphCheckWarning)  # of nested graphs, which are reported below
            tables = assemble(
                graph,
                "graph",
                checkpointer=None,
                pauses=Wanted(),
                debug=False,
                dataflow=False,
            )
    except GraphBuildError as error:
        return Report([_refused(error)])
    return every_finding(outline(graph, tables))


def every_finding(graph: Outline) -> Report:
    """Everything that can be said of a graph and those nested in it."""
    reader = Reader()
    found = structure(graph, reader)
    certain = list(_certain(graph, reader))
    looped = {name for finding in certain if finding.code == "endless-loop" for name in finding.nodes}
    notes = [
        *unused_keys(graph, found, reader),
        *dead_ends(graph, found, reader),
        *closed_loops(graph, found, reader, looped),
        *side_by_side(graph, found, reader),
        *sent_collisions(graph, found, reader),
        *barriers(graph),
    ]
    return _sorted([*_loud(graph, [*certain, *notes]), *_nested(graph)])


def certain_findings(graph: Outline) -> Iterator[Finding]:
    """What `compile` warns of."""
    return (finding for finding in _loud(graph, _certain(graph, Reader())) if finding.severity == "warning")


def _certain(graph: Outline, reader: Reader) -> Iterator[Finding]:
    found = structure(graph, reader)
    yield from unreachable(found)
    yield from stuck_joins(found)
    yield from unequal(found)
    yield from loops(found)
    yield from routes(graph, reader)
    yield from unknown_keys(graph, found, reader)
    yield from collisions(graph, found, reader)


def warn_of(graph: Outline, name: str) -> None:
    """Warns of what is certain. Called by a compiled graph's constructor, itself called by `compile`."""
    for finding in certain_findings(graph):
        told = f"graph {name!r}: {finding.place}: {finding.message}. {finding.remedy} (silence it by its code, {finding.code!r})"
        warnings.warn(GraphCheckWarning(told, finding.code), stacklevel=5)


def _loud(graph: Outline, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Without what the graph or one of the nodes concerned silences."""
    for finding in findings:
        if finding.code not in graph.silence and not any(
            finding.code in graph.nodes[name].silence for name in finding.nodes if name in graph.nodes
        ):
            yield finding


def _nested(graph: Outline) -> Iterator[Finding]:
    for name in sorted(graph.nested):
        action = graph.nodes[name].action
        report = action.check() if isinstance(action, CompiledGraph) else check_builder(action)
        for finding in report:
            yield replace(finding, place=f"node {name!r}: {finding.place}")


def _refused(error: GraphBuildError) -> Finding:
    place = f"node {error.node!r}" if error.node else f"key {error.key!r}" if error.key else "the graph"
    nodes = (error.node,) if error.node else ()
    message, _, remedy = str(error).rstrip(".").rpartition(". ")
    return Finding(
        "cannot-compile",
        "error",
        place,
        message or remedy,
        remedy if message else "Mend it",
        nodes,
        error.key,
    )


def _sorted(findings: Iterable[Finding]) -> Report:
    distinct = dict.fromkeys(findings)
    return Report(sorted(distinct, key=lambda f: (_RANK[f.severity], f.code, f.place)))


__all__ = ["certain_findings", "check_builder", "every_finding", "warn_of"]
