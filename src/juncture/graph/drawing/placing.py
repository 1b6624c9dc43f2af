"""Where everything stands in a picture: sizes of texts, then layers from top to bottom by the library `graphlay`.

Open nested graphs are placed by themselves and are one box each in the graph around them, so that their inside stays the
same wherever they are used. Loops are opened so that a run reads downwards: where they lead back to what is nearer to the
start, or, if fewer edges then lead upwards, where a walk from the start first closes them.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from juncture.graph.check_loops import post_order
from juncture.graph.drawing.drawn import LABELS, DrawnEdge, DrawnGraph, DrawnNode, label_of, title_of, told

Point: TypeAlias = tuple[float, float]


class Metric(NamedTuple):
    """How large things are, in the units of one format."""

    advance: Mapping[str, float] | None
    """Widths of characters as parts of their height; None where each has a cell."""
    name: float
    """The height of a name's text."""
    small: float
    """The height of a text beneath a name, or at an edge."""
    padding: Point
    """Between a node's text and its border."""
    options: Mapping[str, Any]
    """Distances, as the layout library names them."""
    frame: tuple[float, float]
    """Between a frame and its inside, and the height of its title."""
    join: Point
    """The least size of the place where a join waits."""
    apart: float
    """Between two edges at one side of a box."""

    def width(self, text: str, size: float) -> float:
        """The width of a text."""
        return sum(map(self._advance, text)) * (size if self.advance is not None else 1)

    def _advance(self, character: str) -> float:
        if unicodedata.combining(character):
            return 0
        wide = unicodedata.east_asian_width(character) in ("W", "F")
        if self.advance is None:
            return 2 if wide else 1
        return 1 if wide else self.advance.get(character, 0.62)


@dataclass(slots=True)
class Box:
    """A node and where it stands: its upper left corner, and its size."""

    node: DrawnNode
    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Route:
    """An edge and its way, from border to border, with the middle of its label."""

    edge: DrawnEdge
    ends: tuple[str, str]
    """The ids of the boxes that it leads from and to: of an edge of a node inside a frame, the frame's."""
    points: list[Point]
    label: str | None
    at: Point
    size: Point


@dataclass(slots=True)
class Placed:
    """A whole picture; nothing is left of or above the origin."""

    width: float = 0
    height: float = 0
    boxes: list[Box] = field(default_factory=list[Box])
    """Frames before what is in them."""
    routes: list[Route] = field(default_factory=list[Route])

    def include(self, other: Placed, x: float, y: float) -> None:
        """Adds a picture, moved."""
        for box in other.boxes:
            self.boxes.append(Box(box.node, box.x + x, box.y + y, box.width, box.height))
        for route in other.routes:
            points = [(px + x, py + y) for px, py in route.points]
            at = route.at[0] + x, route.at[1] + y
            self.routes.append(Route(route.edge, route.ends, points, route.label, at, route.size))

    def at_origin(self) -> Placed:
        """The same with its upper left corner at the origin, and its size."""
        spots = [(box.x, box.y) for box in self.boxes]
        spots += [(box.x + box.width, box.y + box.height) for box in self.boxes]
        for route in self.routes:
            spots += route.points
            if route.label is not None:
                (x, y), (width, height) = route.at, route.size
                spots += [(x - width / 2, y - height / 2), (x + width / 2, y + height / 2)]
        left, top = min(x for x, _ in spots), min(y for _, y in spots)
        moved = Placed(max(x for x, _ in spots) - left, max(y for _, y in spots) - top)
        moved.include(self, -left, -top)
        return moved


def placed(graph: DrawnGraph, metric: Metric) -> Placed:
    """Where everything in a drawing stands.

    Raises:
        ImportError: The extra ``draw`` isn't installed.
    """
    return _place(graph.with_joins(), None, metric)


def _place(graph: DrawnGraph, frame: str | None, metric: Metric) -> Placed:
    members = list(graph.inside(frame))
    inner = {node.id: _place(graph, node.id, metric) for node in members if node.kind == "frame"}
    edges = _own_edges(graph, frame)
    sizes = {node.id: _size(node, inner.get(node.id), metric) for node in members}
    for name, count in _busiest_sides(edges).items():
        width, height = sizes[name]
        sizes[name] = max(width, metric.apart * (count + 1)), height
    laid = _laid_out(sizes, edges, metric)
    turned = _turned(edges, sizes)
    if sum(edge.turned for edge in turned) < len(laid["reversed"]):
        edges, laid = turned, _laid_out(sizes, turned, metric)
    found = Placed()
    for node, spot in zip(members, laid["nodes"], strict=True):
        width, height = sizes[node.id]
        x, y = spot["center"]["x"] - width / 2, spot["center"]["y"] - height / 2
        found.boxes.append(Box(node, x, y, width, height))
        if node.id in inner:
            below = inner[node.id]
            pad, head = metric.frame
            found.include(below, x + (width - below.width) / 2, y + head + pad)
    for edge, way in zip(edges, laid["edges"], strict=True):
        points = _straightened([(point["x"], point["y"]) for point in way["points"]])
        size = _label_size(edge.label, metric)
        at = _label_spot(way, points, loops=edge.source == edge.target, width=size[0])
        ordered = points[::-1] if edge.turned else points
        ends = (edge.target, edge.source) if edge.turned else (edge.source, edge.target)
        found.routes.append(Route(edge.edge, ends, ordered, edge.label, at, size))
    return found.at_origin()


def _label_spot(way: Mapping[str, Any], points: Sequence[Point], *, loops: bool, width: float) -> Point:
    """The middle of an edge's label: beside a loop, else where the layout says."""
    if loops:
        return max(x for x, _ in points) + width * 0.55, (points[0][1] + points[-1][1]) / 2
    anchor = way.get("label_anchor") or way["points"][len(points) // 2]
    return anchor["x"], anchor["y"]


def _straightened(points: list[Point]) -> list[Point]:
    """A way whose inner segments don't slant by less than can be meant."""
    for place in range(1, len(points) - 2):
        (x, y), (_, other) = points[place + 1], points[place]
        if 0 < abs(y - other) < 1:
            points[place + 1] = x, other
    return points


class _Own(NamedTuple):
    """An edge of one level: between two of its boxes."""

    edge: DrawnEdge
    source: str
    target: str
    label: str | None
    turned: bool = False


def _own_edges(graph: DrawnGraph, frame: str | None) -> list[_Own]:
    """The edges between the boxes of one level."""
    own: list[_Own] = []
    for edge, source, target in graph.between(frame):
        label = label_of(edge)
        if edge.kind == "command" and source != edge.source:  # it leaves from inside
            name = graph.nodes[edge.source].name
            label = f"{name}: {label}" if label else name
        own.append(_Own(edge, source, target, label))
    return own


def _turned(own: Sequence[_Own], members: Iterable[str]) -> list[_Own]:
    """The edges, those turned around with which a walk from the start closes a loop."""
    after: dict[str, list[str]] = {}
    for each in own:
        after.setdefault(each.source, []).append(each.target)
    order = {name: place for place, name in enumerate(reversed(post_order(after, members)))}
    return [
        each._replace(source=each.target, target=each.source, turned=True)
        if order[each.source] > order[each.target]
        else each
        for each in own
    ]


def _busiest_sides(own: Iterable[_Own]) -> dict[str, int]:
    """How many edges lead out of a box or into it, whichever are more."""
    ends = Counter[tuple[str, bool]]()
    for each in own:
        ends[each.source, True] += 1
        ends[each.target, False] += 1
    return {name: max(ends[name, True], ends[name, False]) for name, _ in ends}


def _size(node: DrawnNode, inside: Placed | None, metric: Metric) -> Point:
    if node.kind == "join" and not node.name:
        return metric.join
    across, down = metric.padding
    name = metric.width(
        LABELS.get(node.name, node.name) if node.kind in ("start", "end") else node.name, metric.name
    )
    if inside is not None:
        pad, head = metric.frame
        title = metric.width(title_of(node), metric.name)
        return max(inside.width, title) + 2 * pad, inside.height + head + 2 * pad
    beneath = told(node)
    width = max([name, *(metric.width(line, metric.small) for line in beneath)])
    slant = 2 * across if node.kind == "condition" else 0
    return width + 2 * across + slant, metric.name + metric.small * len(beneath) + 2 * down


def _label_size(label: str | None, metric: Metric) -> Point:
    return (0, 0) if label is None else (metric.width(label, metric.small), metric.small)


def _laid_out(sizes: Mapping[str, Point], edges: Iterable[_Own], metric: Metric) -> Mapping[str, Any]:
    try:
        import graphlay
    except ImportError as error:
        raise ImportError(
            "this format is laid out with graphlay, which isn't installed: install juncture[draw]. "
            "Mermaid, PlantUML, DOT and JSON need nothing"
        ) from error
    graph = graphlay.Graph()
    for name, (width, height) in sizes.items():
        graph.node(name, width=width, height=height)
    for edge in edges:
        width, height = _label_size(edge.label, metric)
        more: dict[str, Any] = (
            {"label_size": {"width": width, "height": height}} if edge.label is not None else {}
        )
        graph.edge(edge.source, edge.target, **more)
    return graphlay.layout(
        graph, preset="process_map", options={**metric.options, "cycles": {"strategy": "follow_flow"}}
    ).raw
