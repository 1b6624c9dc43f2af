"""Mermaid flowcharts.

Labels are quoted, and every character in them that Mermaid, Markdown or HTML could take for something is written as its
code, so that a name can't end a label, begin a list or smuggle in markup. Ids are names where Mermaid can't mistake
them; other nodes are numbered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, assert_never

from juncture.graph.drawing.drawn import LABELS, DrawnEdge, DrawnGraph, DrawnNode, NodeKind, label_of, told

_SHAPES: Final[Mapping[NodeKind, tuple[str, str]]] = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "node": ("(", ")"),
    "graph": ("[[", "]]"),
    "condition": ("{{", "}}"),
    "join": ("[", "]"),
    "unknown": ("((", "))"),
}
_CLASSES: Final[Mapping[str, str]] = {
    "start": "fill:#334155,stroke:#334155,color:#ffffff",
    "end": "fill:#ffffff,stroke:#334155,stroke-width:3px,color:#334155",
    "node": "fill:#eef2ff,stroke:#6366f1,color:#1e1b4b",
    "graph": "fill:#ecfeff,stroke:#0891b2,color:#083344",
    "condition": "fill:#f8fafc,stroke:#64748b,color:#1e293b",
    "join": "fill:#334155,stroke:#334155,color:#ffffff",
    "unknown": "fill:#ffffff,stroke:#94a3b8,stroke-dasharray:3 3,color:#64748b",
    "deferred": "stroke-dasharray:6 4",
    "interrupting": "fill:#fef3c7,stroke:#d97706,color:#451a03",
    "failed": "fill:#fee2e2,stroke:#dc2626,stroke-width:3px,color:#450a0a",
    "unvisited": "opacity:0.4",
}
_RESERVED: Final = ("call", "class", "click", "default", "direction", "end", "flowchart", "graph", "href", "interpolate",
                    "linkstyle", "style", "subgraph")  # fmt: skip
_SAFE: Final = re.compile(r"[\w ]", re.ASCII)


def mermaid(graph: DrawnGraph, *, title: str | None, with_styles: bool = True) -> str:
    """A drawing as a Mermaid flowchart."""
    shown = graph.with_joins()
    ids = written_ids(shown, _is_reserved)
    lines = ["---", f"title: {_yaml(title)}", "---"] if title is not None else []
    lines += ["flowchart TD", *_nodes(shown, None, ids, "    ")]
    lines += [f"    {_edge(shown, edge, ids)}" for edge in shown.edges]
    if with_styles:
        lines += _styles(shown, ids)
    return "\n".join(lines) + "\n"


def written_ids(graph: DrawnGraph, reserved: Callable[[str], bool]) -> dict[str, str]:
    """An id for every node that the format can't mistake: letters, digits and underscores, as much of its own as can be."""
    ids: dict[str, str] = {}
    taken = set[str]()
    for place, node in enumerate(graph.nodes.values(), 1):
        name = re.sub(r"[^A-Za-z0-9_]", "_", node.id)
        if not name.strip("_") or name[0].isdigit() or reserved(name):
            name = f"n{place}_{name.strip('_')}".rstrip("_")
        if name in taken:
            name = f"{name}_{place}"
        while name in taken:
            name += "_"
        taken.add(name)
        ids[node.id] = name
    return ids


def _is_reserved(name: str) -> bool:
    # A word that Mermaid knows is one in any case, and also where more follows it.
    return name.lower().startswith(_RESERVED)


def _nodes(graph: DrawnGraph, frame: str | None, ids: Mapping[str, str], indent: str) -> Iterator[str]:
    for node in graph.inside(frame):
        if node.kind == "frame":
            yield f'{indent}subgraph {ids[node.id]}["{_label(node)}"]'
            yield from _nodes(graph, node.id, ids, f"{indent}    ")
            yield f"{indent}end"
        else:
            before, after = _SHAPES[node.kind]
            yield f'{indent}{ids[node.id]}{before}"{_label(node)}"{after}'


def _label(node: DrawnNode) -> str:
    if node.kind in ("start", "end"):
        return LABELS[node.name]
    if node.kind == "join":
        return escaped(node.name or "all")
    return "<br/>".join([escaped(node.name), *(f"<small>{escaped(line)}</small>" for line in told(node))])


def escaped(text: str) -> str:
    """A text that stands for itself in a quoted label."""
    return "".join(each if _SAFE.fullmatch(each) else _coded(each) for each in text)


def _coded(character: str) -> str:
    if character.isprintable() and not character.isascii():
        return character
    return f"#{ord(character)};" if character.isprintable() else "#65533;"


def _edge(graph: DrawnGraph, edge: DrawnEdge, ids: Mapping[str, str]) -> str:
    source, target = ids[edge.source], ids[edge.target]
    text = label_of(edge)
    label = "" if text is None else f'|"{escaped(text)}"|'
    match edge.kind:
        case "edge":
            arrow = "-->"
        case "join":
            arrow = "---"
        case "conditional" | "send" | "command" | "error" | "unknown":
            arrow = "-.->"
        case _:
            assert_never(edge.kind)
    return f"{source} {arrow}{label} {target}"


def _styles(graph: DrawnGraph, ids: Mapping[str, str]) -> Iterator[str]:
    members: dict[str, list[str]] = {name: [] for name in _CLASSES}
    for node in graph.nodes.values():
        if node.kind != "frame":
            members["interrupting" if node.interrupts else node.kind].append(ids[node.id])
        if node.deferred and node.kind != "frame":
            members["deferred"].append(ids[node.id])
        if node.run is not None and node.run.error is not None:
            members["failed"].append(ids[node.id])
        if graph.unvisited(node):
            members["unvisited"].append(ids[node.id])
    for name, style in _CLASSES.items():
        if members[name]:
            yield f"    classDef j-{name} {style}"
            yield f"    class {','.join(members[name])} j-{name}"
    taken = [str(place) for place, edge in enumerate(graph.edges) if edge.taken]
    if taken:
        yield f"    linkStyle {','.join(taken)} stroke-width:3px"


def _yaml(text: str) -> str:
    import json

    return json.dumps(text)


__all__ = ["mermaid"]
