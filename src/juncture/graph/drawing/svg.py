"""SVG documents. Texts are escaped, and what can't be seen is shown as a replacement character."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from juncture.graph.drawing.drawn import LABELS, DrawnGraph, DrawnNode, EdgeKind, NodeKind, title_of, told
from juncture.graph.drawing.placing import Box, Metric, Placed, Point, Route, placed

FONTS: Final = "'Open Sans', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
_NARROW: Final = "fijltI.,:;|!'()[]{}/\\ "
_WIDTHS: Final[Mapping[str, float]] = (
    dict.fromkeys('abcdefghknopqsuvxyz0123456789_-+=*?<>~#$"^', 0.58)
    | dict.fromkeys(_NARROW, 0.31)
    | dict.fromkeys("r", 0.38)
    | dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ&w", 0.72)
    | dict.fromkeys("mMW@%", 0.92)
)
"""Generous for sans-serif fonts, because nobody knows which one a reader has."""
_METRIC: Final = Metric(
    advance=_WIDTHS,
    name=14,
    small=11.5,
    padding=(16, 10),
    options={
        "spacing": {
            "layer_gap": 44.0,
            "node_gap": 34.0,
            "dummy_gap": 22.0,
            "port_gap": 14.0,
            "edge_label_margin": 10.0,
        },
        "coords": {"branch_style": "symmetric"},
        # A label beside a line, and not farther away: it might seem to be another line\'s.
        "tuning": {"labels": {"side_steps": [0.6, 0.8, 1.0, 1.2]}},
    },
    frame=(18, 22),
    join=(56, 7),
    apart=16,
)
_MARGIN: Final = 24.0
_ROUND: Final = 7.0

_FILLS: Final[Mapping[NodeKind, tuple[str, str, str]]] = {
    "start": ("#334155", "#334155", "#ffffff"),
    "end": ("#ffffff", "#334155", "#334155"),
    "node": ("#eef2ff", "#6366f1", "#1e1b4b"),
    "graph": ("#ecfeff", "#0891b2", "#083344"),
    "frame": ("#f8fdff", "#0891b2", "#0e7490"),
    "condition": ("#f8fafc", "#64748b", "#1e293b"),
    "join": ("#334155", "#334155", "#ffffff"),
    "unknown": ("#ffffff", "#94a3b8", "#64748b"),
}
"""Inside, border, text."""
_FAILED: Final = ("#fee2e2", "#dc2626", "#450a0a")
_INTERRUPTING: Final = ("#fef3c7", "#d97706", "#451a03")
_LINES: Final[Mapping[EdgeKind, tuple[str, str]]] = {
    "edge": ("#475569", ""),
    "join": ("#475569", ""),
    "conditional": ("#475569", "6 4"),
    "send": ("#7c3aed", "6 4"),
    "command": ("#0f766e", "6 4"),
    "error": ("#dc2626", "6 4"),
    "unknown": ("#94a3b8", "2 4"),
}
"""Colour and dashes."""

_FAINT: Final = ' opacity="0.4"'


def svg(graph: DrawnGraph, *, title: str | None, background: str | None) -> str:
    """A drawing as an SVG document.

    Raises:
        ImportError: The extra ``draw`` isn't installed.
    """
    picture = placed(graph, _METRIC)
    head = 30.0 if title is not None else 0.0
    width = picture.width + 2 * _MARGIN
    if title is not None:
        width = max(width, _METRIC.width(title, 16) + 2 * _MARGIN)
    height = picture.height + 2 * _MARGIN + head
    size = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONTS}" role="img">']
    lines.append(f"<title>{_text(title or graph.name)}</title>")
    if background is not None:
        lines.append(f'<rect width="100%" height="100%" fill={quoteattr(background)}/>')
    if title is not None:
        lines.append(_line(title, (width / 2, 34), 16, "#1e293b", bold=True))
    left = (width - picture.width) / 2
    lines.append(f'<g transform="translate({_n(left)} {_n(_MARGIN + head)})">')
    lines += _inside(graph, picture)
    return "\n".join([*lines, "</g>", "</svg>"]) + "\n"


def _inside(graph: DrawnGraph, picture: Placed) -> Iterator[str]:
    for box in picture.boxes:
        if box.node.kind == "frame":
            yield from _frame(box)
    for route in picture.routes:
        yield from _route(route, faint=graph.ran and not route.edge.taken)
    for route in picture.routes:
        yield from _label(route)
    for box in picture.boxes:
        if box.node.kind != "frame":
            yield from _node(box, faint=graph.unvisited(box.node))


def _frame(box: Box) -> Iterator[str]:
    inside, border, colour = _FILLS["frame"]
    yield _rectangle(box, 12, f'fill="{inside}" stroke="{border}" stroke-width="1.2"')
    yield _line(title_of(box.node), (box.x + box.width / 2, box.y + 20), 13, colour, bold=True)


def _node(box: Box, *, faint: bool) -> Iterator[str]:
    node = box.node
    inside, border, colour = _colours(node)
    style = f'fill="{inside}" stroke="{border}" stroke-width="{2.5 if node.kind == "end" else 1.3}"'
    if node.deferred or node.kind == "unknown":
        style += ' stroke-dasharray="5 3"'
    yield f"<g{_FAINT if faint else ''}><title>{_text(node.id)}</title>"
    if node.kind == "condition":
        yield _hexagon(box, style)
    else:
        yield _rectangle(box, _corner(node, box), style)
    if node.kind == "graph":
        inner = Box(node, box.x + 3, box.y + 3, box.width - 6, box.height - 6)
        yield _rectangle(inner, 6, f'fill="none" stroke="{border}" stroke-width="0.8"')
    yield from _texts(box, colour)
    yield "</g>"


def _colours(node: DrawnNode) -> tuple[str, str, str]:
    if node.run is not None and node.run.error is not None:
        return _FAILED
    waits = node.run is not None and node.run.waits
    return _INTERRUPTING if node.interrupts or waits else _FILLS[node.kind]


def _corner(node: DrawnNode, box: Box) -> float:
    if node.kind in ("start", "end", "unknown"):
        return box.height / 2
    return 2 if node.kind == "join" else 8


def _texts(box: Box, colour: str) -> Iterator[str]:
    node = box.node
    name = LABELS[node.name] if node.kind in ("start", "end") else node.name
    if not name:
        return
    beneath = told(node)
    middle = box.x + box.width / 2
    top = box.y + (box.height - _METRIC.name - _METRIC.small * len(beneath)) / 2
    yield _line(name, (middle, top + _METRIC.name * 0.84), _METRIC.name, colour, bold=False)
    for place, line in enumerate(beneath, 1):
        at = middle, top + _METRIC.name + _METRIC.small * place - 1
        yield _line(line, at, _METRIC.small - 1.5, colour, bold=False, faint=True)


def _route(route: Route, *, faint: bool) -> Iterator[str]:
    colour, dashes = _LINES[route.edge.kind]
    points = route.points
    arrow = route.edge.kind != "join"
    shown = [*points[:-1], _before(points[-1], points[-2], 6)] if arrow and len(points) > 1 else points
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    width, faded = (2.6 if route.edge.taken else 1.4), (_FAINT if faint else "")
    yield f'<path d="{_path(shown)}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}{faded}/>'
    if arrow and len(points) > 1:
        yield f'<path d="{_head(points[-1], points[-2])}" fill="{colour}"{faded}/>'


def _label(route: Route) -> Iterator[str]:
    if route.label is None:
        return
    colour, _ = _LINES[route.edge.kind]
    (x, y), (width, height) = route.at, route.size
    box = f'x="{_n(x - width / 2 - 3)}" y="{_n(y - height / 2 - 2)}" width="{_n(width + 6)}" height="{_n(height + 4)}"'
    yield f'<rect {box} rx="3" fill="#ffffff" fill-opacity="0.9"/>'
    yield _line(route.label, (x, y + 4), _METRIC.small - 0.5, colour, bold=False)


def _path(points: Sequence[Point]) -> str:
    """A way with its corners rounded."""
    parts = [f"M{_pair(points[0])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        reach = min(_ROUND, _distance(before, corner) / 2, _distance(corner, after) / 2)
        parts.append(
            f"L{_pair(_before(corner, before, reach))}Q{_pair(corner)} {_pair(_before(corner, after, reach))}"
        )
    parts.append(f"L{_pair(points[-1])}")
    return "".join(parts)


def _before(point: Point, other: Point, by: float) -> Point:
    """The point so far from one, towards the other."""
    distance = _distance(point, other)
    if distance == 0:
        return point
    part = by / distance
    return point[0] + (other[0] - point[0]) * part, point[1] + (other[1] - point[1]) * part


def _distance(one: Point, other: Point) -> float:
    return ((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2) ** 0.5


def _head(tip: Point, other: Point) -> str:
    back = _before(tip, other, 9)
    across = (back[1] - tip[1]) * 0.45, (tip[0] - back[0]) * 0.45
    left, right = (back[0] + across[0], back[1] + across[1]), (back[0] - across[0], back[1] - across[1])
    return f"M{_pair(tip)}L{_pair(left)}L{_pair(right)}Z"


def _rectangle(box: Box, corner: float, style: str) -> str:
    where = f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'
    return f'<rect {where} rx="{_n(corner)}" {style}/>'


def _hexagon(box: Box, style: str) -> str:
    x, y, width, height = box.x, box.y, box.width, box.height
    corners = [
        (x, y + height / 2),
        (x + 14, y),
        (x + width - 14, y),
        (x + width, y + height / 2),
        (x + width - 14, y + height),
        (x + 14, y + height),
    ]
    return f'<polygon points="{" ".join(map(_pair, corners))}" {style}/>'


def _line(text: str, at: Point, size: float, colour: str, *, bold: bool, faint: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    opacity = ' fill-opacity="0.75"' if faint else ""
    place = f'x="{_n(at[0])}" y="{_n(at[1])}" font-size="{_n(size)}" text-anchor="middle"'
    return f'<text {place} fill="{colour}"{weight}{opacity} xml:space="preserve">{_text(text)}</text>'


def _text(text: str) -> str:
    return escape("".join(each if each.isprintable() else "�" for each in text))


def _pair(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _n(number: float) -> str:
    """A number as short as can be seen."""
    return f"{number:.1f}".removesuffix(".0") if abs(number) >= 0.05 else "0"


__all__ = ["svg"]
