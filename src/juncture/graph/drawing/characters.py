"""Drawings in characters: boxes and lines, in a grid of cells."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from juncture.graph.drawing.drawn import LABELS, DrawnGraph, title_of, told
from juncture.graph.drawing.placing import Box, Metric, Route, placed

_METRIC: Final = Metric(
    advance=None,
    name=1,
    small=1,
    padding=(2, 1),
    options={
        "spacing": {
            "layer_gap": 4.0, "node_gap": 5.0, "dummy_gap": 3.0, "port_gap": 3.0, "port_stroke_clear": 1.0, "stub": 2.0,
            "bundle_lane_gap": 2.0, "self_loop_gap": 2.0, "edge_label_margin": 2.0, "edge_label_stack_gap": 1.0,
            "reroute_node_gap": 4.0, "isolated_gap": 4.0,
        },
        "routing": {"lane_gap": 2.0},
        "self_loops": {"size": 3.0, "gap": 2.0, "label_gap": 1.0},
        "labels": {"clearance": 1.0},
        "tuning": {"routing": {"diagonal_clear": 1.0, "bundle_nest_gap": 2.0, "endpoint_snap": 1.0,
                               "endpoint_snap_min_track": 3.0, "port_relax_clear": 1.0, "port_relax_step": 1.0,
                               "overlap_repair_step": 1.0, "step_flatten": 2.0}},
    },
    frame=(2, 0),
    join=(5, 1),
    apart=4,
)  # fmt: skip
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES: Final = " │││─┘┐┤─└┌├─┴┬┼"
"""By the directions in which a cell is left, as bits."""
_DASHED: Final[Mapping[str, str]] = {"│": "┊", "─": "┈"}
_OPPOSITE: Final = {_UP: _DOWN, _DOWN: _UP, _LEFT: _RIGHT, _RIGHT: _LEFT}
_HEADS: Final = {_UP: "▲", _DOWN: "▼", _LEFT: "◀", _RIGHT: "▶"}


def characters(graph: DrawnGraph, *, title: str | None) -> str:
    """A drawing in characters.

    Raises:
        ImportError: The extra ``draw`` isn't installed.
    """
    picture = placed(graph, _METRIC)
    page = _Page({box.node.id: (round(box.x), round(box.x) + round(box.width) - 1) for box in picture.boxes})
    for box in picture.boxes:
        page.box(box)
    page.solid = set(page.cells)
    for route in picture.routes:
        page.route(route)
    for route in picture.routes:
        page.label(route)
    lines = page.lines()
    return "\n".join([_visible(title), "", *lines] if title is not None else lines) + "\n"


class _Page:
    """A grid that grows as it is drawn on."""

    def __init__(self, spans: Mapping[str, tuple[int, int]]) -> None:
        self.spans = spans
        """Where a box begins and ends, by its node's id."""
        self.cells: dict[tuple[int, int], str] = {}
        """(row, column) -> a character; empty beside a wide one."""
        self.ways: dict[tuple[int, int], int] = {}
        """Cells that ways go through -> their directions."""
        self.dashed: dict[tuple[int, int], bool] = {}
        self.solid: set[tuple[int, int]] = set()
        """Cells of boxes and borders, which no way goes through."""

    def lines(self) -> list[str]:
        rows = max((row for row, _ in self.cells), default=-1) + 1
        widths = [0] * rows
        for row, column in self.cells:
            widths[row] = max(widths[row], column + 1)
        return [
            "".join(self.cells.get((row, column), " ") for column in range(widths[row])).rstrip()
            for row in range(rows)
        ]

    def box(self, box: Box) -> None:
        top, left = round(box.y), round(box.x)
        bottom, right = top + round(box.height) - 1, left + round(box.width) - 1
        node = box.node
        if node.kind == "join" and not node.name:
            self.text(top, left, "━" * (right - left + 1))
            return
        corners, across, down = _border(node.kind, dashed=node.deferred)
        inside = " " * (right - left - 1)
        self.text(top, left, corners[0] + across * len(inside) + corners[1])
        for row in range(top + 1, bottom):
            self.text(row, left, down)
            if node.kind != "frame":
                self.text(row, left + 1, inside)
            self.text(row, right, down)
        self.text(bottom, left, corners[2] + across * len(inside) + corners[3])
        name = LABELS[node.name] if node.kind in ("start", "end") else node.name
        texts = [title_of(node)] if node.kind == "frame" else [name, *told(node)]
        for row, line in enumerate(texts, top + (0 if node.kind == "frame" else 1)):
            shown = f" {_visible(line)} " if node.kind == "frame" else _visible(line)
            self.text(row, left + (right - left + 1 - _cells(shown)) // 2, shown)

    def text(self, row: int, column: int, text: str) -> None:
        for character in text:
            if unicodedata.combining(character):
                self.cells[row, column - 1] = self.cells.get((row, column - 1), "") + character
                continue
            self.cells[row, column] = character
            if _cells(character) == 2:
                self.cells[row, column + 1] = ""
            column += _cells(character)

    def route(self, route: Route) -> None:
        dashed = route.edge.kind not in ("edge", "join")
        cells = _walk(self._kept_beneath(route))
        open_cells = [place for place, cell in enumerate(cells) if cell not in self.solid]
        if not open_cells:
            return
        first, last = open_cells[0], open_cells[-1]
        for place in range(first, last + 1):
            ways = 0
            if place > 0:
                ways |= _direction(cells[place], cells[place - 1])
            if place + 1 < len(cells):
                ways |= _direction(cells[place], cells[place + 1])
            self._way(cells[place], ways, dashed=dashed)
        if route.edge.kind != "join" and last > 0:
            self.cells[cells[last]] = _HEADS[_direction(cells[last - 1], cells[last])]

    def _kept_beneath(self, route: Route) -> list[tuple[int, int]]:
        """A way's corners as cells; rounded, its ends might miss the boxes that they touch."""
        spots = [(round(y), round(x)) for x, y in route.points]
        for name, end, next_ in ((route.ends[0], 0, 1), (route.ends[1], -1, -2)):
            left, right = self.spans[name]
            (row, column), (other, beside) = spots[end], spots[next_]
            if row == other and column != beside:
                continue  # it comes from the side
            kept = min(max(column, left + 1), right - 1)
            spots[end] = row, kept
            if column == beside and (len(spots) > 2 or kept == column):
                spots[next_] = other, kept
        return spots

    def _way(self, cell: tuple[int, int], ways: int, *, dashed: bool) -> None:
        if cell in self.solid or self.cells.get(cell) in _HEADS.values():
            return
        if ways in _HEADS:  # a way's end goes straight on into what it leads to
            ways |= _OPPOSITE[ways]
        ways |= self.ways.get(cell, 0)
        self.ways[cell] = ways
        self.dashed[cell] = dashed and self.dashed.get(cell, True)
        line = _LINES[ways]
        self.cells[cell] = _DASHED.get(line, line) if self.dashed[cell] else line

    def label(self, route: Route) -> None:
        if route.label is not None:
            shown = _visible(route.label)
            self.text(round(route.at[1] - 0.5), round(route.at[0] - _cells(shown) / 2), shown)


def _border(kind: str, *, dashed: bool) -> tuple[str, str, str]:
    if dashed:
        return "╭╮╰╯", "╌", "╎"
    match kind:
        case "graph":
            return "╔╗╚╝", "═", "║"
        case "end":
            return "┏┓┗┛", "━", "┃"
        case "frame":
            return "┌┐└┘", "─", "│"
        case _:
            return "╭╮╰╯", "─", "│"


def _walk(spots: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Every cell of a way; what isn't straight goes down first."""
    cells = [spots[0]]
    for row, column in spots[1:]:
        while cells[-1][0] != row:
            cells.append((cells[-1][0] + (1 if row > cells[-1][0] else -1), cells[-1][1]))
        while cells[-1][1] != column:
            cells.append((cells[-1][0], cells[-1][1] + (1 if column > cells[-1][1] else -1)))
    return cells


def _direction(cell: tuple[int, int], other: tuple[int, int]) -> int:
    if cell[0] != other[0]:
        return _DOWN if other[0] > cell[0] else _UP
    return _RIGHT if other[1] > cell[1] else _LEFT


def _cells(text: str) -> int:
    return round(_METRIC.width(text, 1))


def _visible(text: str) -> str:
    return "".join(each if each.isprintable() else "�" for each in text)


__all__ = ["characters"]
