"""In data-flow mode: the nodes that wait for the whole step before theirs, and why; what waits is decided in `engine.ahead`."""

from __future__ import annotations

from collections.abc import Iterator

from juncture.engine.ahead import may_run_ahead
from juncture.engine.tables import CHANNEL, FACTORY, Node, Tables
from juncture.graph.check_findings import Finding
from juncture.graph.outline import Outline


def barriers(graph: Outline) -> Iterator[Finding]:
    """A note for each node that never runs ahead, or that others can't run ahead of."""
    tables = graph.tables
    if not tables.dataflow:
        return
    for name, node in tables.nodes.items():
        why = _why(tables, node)
        if why is not None:
            message, remedy = why
            yield Finding("barrier", "note", f"edges into node {name!r}", message, remedy, (name,))


def _why(tables: Tables, node: Node) -> tuple[str, str] | None:
    if node.writes is None:
        return (
            "it doesn't declare what it writes, so it waits for the step before, and others wait for it",
            'Declare it: add_node(…, writes=["key"])',
        )
    if node.leads is None:
        return (
            "it may lead anywhere by a command or a router, so nothing runs ahead of it by more than a step",
            "Give it an edge (to END), a path_map, or destinations=",
        )
    if may_run_ahead(tables, node) is not None:
        return None
    return _waits(tables, node)


def _waits(tables: Tables, node: Node) -> tuple[str, str]:
    if node.name in tables.deferred:
        return "it is deferred, and so waits for everything", "Leave out defer=True"
    if node.kind == FACTORY or (node.graph is not None and node.graph.remembers):
        return (
            "what a factory makes, or what a graph remembers, isn't known before its step",
            "Make it a plain node",
        )
    if tables.check_model is not None or tables.volatile:
        return (
            "the state has a validator of the whole model, or keys that every step changes",
            "Validate single fields, and use last values or reducers",
        )
    if node.reads is None or any(router.reads is None for router in node.routers):
        return (
            "it, or its router, is handed keys that nothing names",
            "Hand it a schema with the keys that it reads: input_schema=, or an annotation",
        )
    others = sorted(
        name
        for name in node.reads.union(*(router.reads or () for router in node.routers))
        if name not in tables.keys or tables.keys[name].merge == CHANNEL
    )
    return (
        f"it reads {', '.join(map(repr, others))}, whose channel isn't a last value or a reducer",
        "Read another key",
    )


__all__ = ["barriers"]
