"""Graphviz's language. Names and labels are quoted strings, in which nothing but quotes and backslashes means anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from juncture.graph.drawing.drawn import (
    LABELS,
    DrawnEdge,
    DrawnGraph,
    DrawnNode,
    EdgeKind,
    NodeKind,
    label_of,
    told,
)

_NODES: Final[Mapping[NodeKind, str]] = {
    "start": 'shape=box style="rounded,filled" fillcolor="#334155" fontcolor="#ffffff"',
    "end": 'shape=box style=rounded penwidth=2 color="#334155"',
    "node": 'shape=box style="rounded,filled" fillcolor="#eef2ff" color="#6366f1"',
    "graph": 'shape=box peripheries=2 style="rounded,filled" fillcolor="#ecfeff" color="#0891b2"',
    "condition": 'shape=hexagon style=filled fillcolor="#f8fafc" color="#64748b"',
    "join": 'shape=box height=0.1 style=filled fillcolor="#334155" fontcolor="#ffffff"',
    "unknown": 'shape=circle style=dashed color="#94a3b8" fontcolor="#64748b"',
}
_EDGES: Final[Mapping[EdgeKind, str]] = {
    "edge": "",
    "join": "dir=none",
    "conditional": "style=dashed",
    "send": "style=dashed",
    "command": "style=dashed",
    "error": 'style=dashed color="#dc2626"',
    "unknown": 'style=dotted color="#94a3b8"',
}


def dot(graph: DrawnGraph, *, title: str | None) -> str:
    """A drawing as a Graphviz digraph."""
    shown = graph.with_joins()
    lines = [f"digraph {quoted(graph.name)} {{"]
    if title is not None:
        lines.append(f"  label={quoted(title)} labelloc=t")
    lines.append('  node [fontname="Helvetica" fontsize=12]')
    lines.append('  edge [fontname="Helvetica" fontsize=10 color="#475569"]')
    lines += _nodes(shown, None, "  ")
    lines += [_edge(edge) for edge in shown.edges]
    return "\n".join([*lines, "}"]) + "\n"


def quoted(text: str) -> str:
    """A string that stands for itself; what can't be seen is shown as a replacement character."""
    visible = "".join(each if each.isprintable() else "�" for each in text)
    # An entity such as &lt; is read in labels, so that & has to be one.
    written = visible.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return f'"{written}"'


def _nodes(graph: DrawnGraph, frame: str | None, indent: str) -> Iterator[str]:
    for node in graph.inside(frame):
        if node.kind == "frame":
            yield f"{indent}subgraph {quoted(f'cluster {node.id}')} {{"
            yield f'{indent}  label={_label(node)} style=rounded color="#0891b2"'
            yield from _nodes(graph, node.id, f"{indent}  ")
            yield f"{indent}}}"
        else:
            yield f"{indent}{quoted(node.id)} [label={_label(node)} {_style(node)}]"


def _label(node: DrawnNode) -> str:
    if node.kind in ("start", "end"):
        return quoted(LABELS[node.name])
    text = quoted(node.name)
    return text[:-1] + "".join(f"\\n{quoted(line)[1:-1]}" for line in told(node)) + '"'


def _style(node: DrawnNode) -> str:
    style = _NODES[node.kind]
    if node.interrupts:
        style = (
            style.replace("#eef2ff", "#fef3c7").replace("#ecfeff", "#fef3c7").replace("#6366f1", "#d97706")
        )
    if node.run is not None and node.run.error is not None:
        style += ' fillcolor="#fee2e2" color="#dc2626" penwidth=2'
    if node.deferred:
        style = style.replace("rounded,filled", "rounded,filled,dashed")
    return style


def _edge(edge: DrawnEdge) -> str:
    label = label_of(edge)
    attributes = [f"label={quoted(label)}"] if label is not None else []
    if style := _EDGES[edge.kind]:
        attributes.append(style)
    if edge.taken:
        attributes.append("penwidth=2.5")
    text = f"  {quoted(edge.source)} -> {quoted(edge.target)}"
    return f"{text} [{' '.join(attributes)}]" if attributes else text


__all__ = ["dot"]
