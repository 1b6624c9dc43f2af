"""A drawing as values that JSON has, in the shape that LangGraph's users know, with more beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from juncture.graph.drawing.drawn import DrawnEdge, DrawnGraph, DrawnNode


def as_json(graph: DrawnGraph) -> dict[str, list[dict[str, Any]]]:
    """The nodes, each with `id`, `name` and `type`, and the edges, each with `source`, `target` and `kind`.

    What doesn't apply is left out: of nodes `data`, `metadata`, `frame` and `run`; of edges `data` (the label),
    `conditional`, `via` and `taken`.
    """
    return {
        "nodes": [_node(node) for node in graph.nodes.values()],
        "edges": [_edge(edge) for edge in graph.edges],
    }


def _node(node: DrawnNode) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": node.id, "name": node.name, "type": node.kind}
    if node.data is not None:
        shown["data"] = _described(node.data)
    if node.metadata:
        shown["metadata"] = {str(name): _plain(value) for name, value in node.metadata.items()}
    if node.frame is not None:
        shown["frame"] = node.frame
    if node.run is not None:
        shown["run"] = asdict(node.run)
    return shown


def _edge(edge: DrawnEdge) -> dict[str, Any]:
    shown: dict[str, Any] = {"source": edge.source, "target": edge.target, "kind": edge.kind}
    if edge.data is not None:
        shown["data"] = edge.data
    if edge.conditional:
        shown["conditional"] = True
    if edge.via:
        shown["via"] = edge.via
    if edge.taken:
        shown["taken"] = True
    return shown


def _described(action: Any) -> dict[str, Any]:
    """Where an action comes from: the module and the name of a function, or of an object's class."""
    kind = cast("type[Any]", type(action))
    module = str(getattr(action, "__module__", kind.__module__))
    qualified = str(getattr(action, "__qualname__", kind.__qualname__))
    name = getattr(action, "name", None) or getattr(action, "__name__", None) or kind.__qualname__
    return {"id": [*module.split("."), qualified], "name": str(name)}


def _plain(value: Any) -> Any:
    """A value of metadata; what JSON doesn't have is shown as text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        return {str(name): _plain(inner) for name, inner in mapping.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in cast("list[Any]", value)]
    return repr(value)


__all__ = ["as_json"]
