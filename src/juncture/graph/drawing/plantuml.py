"""PlantUML diagrams, as rectangles, hexagons and usecases.

Everything in a text but letters, digits and single spaces is written as its code point, because a name can be markup, an
included file or the end of a label to PlantUML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from juncture.graph.drawing.drawn import LABELS, DrawnEdge, DrawnGraph, DrawnNode, NodeKind, label_of, told
from juncture.graph.drawing.mermaid import written_ids

_SHAPES: Final[Mapping[NodeKind, str]] = {
    "start": "usecase",
    "end": "usecase",
    "node": "rectangle",
    "graph": "component",
    "condition": "hexagon",
    "join": "rectangle",
    "unknown": "usecase",
}
_COLOURS: Final[Mapping[NodeKind, str]] = {
    "start": "#334155;text:white",
    "end": "#white;line:334155;line.bold",
    "node": "#eef2ff;line:6366f1",
    "graph": "#ecfeff;line:0891b2",
    "condition": "#f8fafc;line:64748b",
    "join": "#334155;text:white",
    "unknown": "#white;line:94a3b8;line.dashed",
}
_RESERVED: Final = frozenset(
    {"as", "end", "footer", "header", "left", "legend", "note", "right", "together", "top", "bottom"}
)
_SAFE: Final = re.compile(r"[\w ]")


def plantuml(graph: DrawnGraph, *, title: str | None) -> str:
    """A drawing as a PlantUML diagram."""
    shown = graph.with_joins()
    ids = written_ids(shown, lambda name: not name[0].isalpha() or "__" in name or name.lower() in _RESERVED)
    lines = ["@startuml", "skinparam shadowing false", "skinparam rectangle {", "  RoundCorner 12", "}"]
    if title is not None:
        lines.append(f"title {escaped(title)}")
    lines += _nodes(shown, None, ids, "")
    lines += [_edge(edge, ids) for edge in shown.edges]
    return "\n".join([*lines, "@enduml"]) + "\n"


def escaped(text: str) -> str:
    """A text that stands for itself."""
    coded = "".join(each if _SAFE.fullmatch(each) else _coded(each) for each in text)
    return coded.replace("__", "<U+005F><U+005F>").replace("  ", " <U+0020>")


def _coded(character: str) -> str:
    return f"<U+{ord(character) if character.isprintable() else 0xFFFD:04X}>"


def _nodes(graph: DrawnGraph, frame: str | None, ids: Mapping[str, str], indent: str) -> Iterator[str]:
    for node in graph.inside(frame):
        if node.kind == "frame":
            yield f'{indent}rectangle "{_label(node)}" as {ids[node.id]} #white;line:0891b2 {{'
            yield from _nodes(graph, node.id, ids, f"{indent}  ")
            yield f"{indent}}}"
        else:
            yield f'{indent}{_SHAPES[node.kind]} "{_label(node)}" as {ids[node.id]} {_colour(node)}'


def _label(node: DrawnNode) -> str:
    if node.kind in ("start", "end"):
        return LABELS[node.name]
    if node.kind == "join":
        return escaped(node.name or "all")
    return "\\n".join(map(escaped, [node.name, *told(node)]))


def _colour(node: DrawnNode) -> str:
    colour = "#fef3c7;line:d97706" if node.interrupts else _COLOURS[node.kind]
    if node.run is not None and node.run.error is not None:
        colour = "#fee2e2;line:dc2626;line.bold"
    return f"{colour};line.dashed" if node.deferred else colour


def _edge(edge: DrawnEdge, ids: Mapping[str, str]) -> str:
    label = label_of(edge)
    line = ("." if edge.conditional else "-") + ("[thickness=3]" if edge.taken else "")
    arrow = f"{line}{line[0]}{'' if edge.kind == 'join' else '>'}"
    text = f"{ids[edge.source]} {arrow} {ids[edge.target]}"
    return text if label is None else f"{text} : {escaped(label)}"


__all__ = ["plantuml"]
