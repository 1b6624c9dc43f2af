"""A graph as it is drawn: nodes and edges, the same for every format.

Rules: an edge is here if a run can take it, and only then. What a declaration or readable code tells is drawn as that;
what nobody can know before the graph runs leads to a node of the kind ``unknown``, drawn as a question mark. Nodes stand
in the order in which they were declared, edges by their sources in that order, so that a drawing only changes with the
graph.

Ids are the nodes' names; those of a nested graph that is drawn open stand behind its own and a colon. Neither ``:`` nor
``|`` can be in a name, so an id never means two things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from juncture.types import END, START

if TYPE_CHECKING:
    from juncture.graph.drawing.ran import Record

NodeKind: TypeAlias = Literal["start", "end", "node", "graph", "frame", "condition", "join", "unknown"]
"""``graph`` is a nested graph drawn closed, ``frame`` one drawn open. ``condition`` and ``join`` are no nodes of the graph:
a router drawn by itself, and the place where a join waits."""
EdgeKind: TypeAlias = Literal["edge", "join", "conditional", "send", "command", "error", "unknown"]
"""How it is taken: ``edge`` always; ``join`` once all of its sources ran; ``conditional`` if a router says so; ``send`` once
for every `Send`, by a router or a node; ``command`` if the node returns a `Command` with that ``goto``; ``error`` if the node fails for good, by its error handler."""


@dataclass(frozen=True, slots=True)
class NodeRun:
    """What a run did at a node."""

    visits: int = 0
    """How often it ran."""
    seconds: float | None = None
    """How long it ran in all; None where that isn't known."""
    at_most: bool = False
    """The time is that of the steps in which it ran, as a history has it, with what else happened in them."""
    error: str | None = None
    """What it failed with, the last time that it ran."""
    waits: bool = False
    """It waits for an answer, or for the run to go on."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One node of a drawing."""

    id: str
    name: str
    """What is written on it."""
    kind: NodeKind = "node"
    data: Any = field(default=None, compare=False)
    """The node's action: a function or a graph."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What it was added with; ``defer``, and ``__interrupt``: ``before``, ``after`` or ``before,after``."""
    frame: str | None = None
    """The id of the open nested graph that it is in."""
    run: NodeRun | None = None
    """What the run that is drawn did there; None where it never was."""

    @property
    def deferred(self) -> bool:
        """It runs when nothing else is left."""
        return bool(self.metadata.get("defer"))

    @property
    def interrupts(self) -> str:
        """Where a run pauses: ``before``, ``after``, ``before,after`` or nothing."""
        return str(self.metadata.get("__interrupt", ""))


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """One edge of a drawing."""

    source: str
    target: str
    data: str | None = None
    """Its label: what a router returns for it, where that isn't the node's name."""
    conditional: bool = False
    """It isn't taken every time."""
    kind: EdgeKind = "edge"
    via: str = ""
    """The id of its join, or the name of the router that chooses it."""
    taken: bool = False
    """The run that is drawn surely took it."""


@dataclass(slots=True)
class DrawnGraph:
    """A graph's nodes and edges, and its pictures."""

    name: str
    nodes: dict[str, DrawnNode] = field(default_factory=dict[str, DrawnNode])
    edges: list[DrawnEdge] = field(default_factory=list[DrawnEdge])
    ran: bool = False
    """A run is drawn over it."""

    def draw_mermaid(self, *, title: str | None = None, with_styles: bool = True) -> str:
        """A Mermaid flowchart; `with_styles` gives the kinds of node their colours."""
        from juncture.graph.drawing.mermaid import mermaid

        return mermaid(self, title=title, with_styles=with_styles)

    def draw_plantuml(self, *, title: str | None = None) -> str:
        """A PlantUML diagram."""
        from juncture.graph.drawing.plantuml import plantuml

        return plantuml(self, title=title)

    def draw_dot(self, *, title: str | None = None) -> str:
        """A graph in Graphviz's language."""
        from juncture.graph.drawing.dot import dot

        return dot(self, title=title)

    def draw_svg(self, *, title: str | None = None, background: str | None = "#ffffff") -> str:
        """An SVG document; needs the extra ``draw``.

        Raises:
            ImportError: The extra isn't installed.
        """
        from juncture.graph.drawing.svg import svg

        return svg(self, title=title, background=background)

    def draw_png(
        self,
        output_file_path: str | Path | None = None,
        *,
        title: str | None = None,
        background: str | None = "#ffffff",
        scale: float = 2.0,
    ) -> bytes:
        """A PNG, made here: without a network, a browser or another program. Needs the extra ``draw``.

        Args:
            output_file_path: It is written there as well.
            title: Written above it.
            background: A colour, or None for none.
            scale: Pixels for each of the SVG's.

        Raises:
            ImportError: The extra isn't installed.
        """
        from juncture.graph.drawing.png import png

        drawn = png(self.draw_svg(title=title, background=background), scale=scale)
        if output_file_path is not None:
            Path(output_file_path).write_bytes(drawn)
        return drawn

    draw_mermaid_png = draw_png
    """The name that users of LangGraph know."""

    def draw_ascii(self, *, title: str | None = None) -> str:
        """A drawing in characters, for a terminal or a comment; needs the extra ``draw``.

        Raises:
            ImportError: The extra isn't installed.
        """
        from juncture.graph.drawing.characters import characters

        return characters(self, title=title)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """The nodes and edges as values that JSON has."""
        from juncture.graph.drawing.as_json import as_json

        return as_json(self)

    def with_run(self, record: Record) -> DrawnGraph:
        """The same with what a run did: how often each node ran, for how long, what it failed with.

        Args:
            record: The states of a thread, from the newest to the oldest, as ``get_state_history`` gives them; or the
                events that a listener was told, with exact times and what happened in nested graphs.

        Raises:
            ConfigError: It is neither, or a history lacks the states of some steps.
        """
        from juncture.graph.drawing.ran import with_record

        return with_record(self, record)

    def with_times(self, seconds: Mapping[str, float]) -> DrawnGraph:
        """The same with exact times, by the ids of nodes, where a run is drawn over it."""
        nodes = {
            name: replace(node, run=replace(node.run, seconds=seconds[name], at_most=False))
            if node.run is not None and name in seconds
            else node
            for name, node in self.nodes.items()
        }
        return DrawnGraph(self.name, nodes, self.edges, ran=self.ran)

    def with_conditions(self) -> DrawnGraph:
        """The same with each router as a node of its own."""
        shown = DrawnGraph(self.name, dict(self.nodes), ran=self.ran)
        asked: dict[str, int] = {}
        for edge in self.edges:
            if edge.kind not in _CHOSEN or not edge.via:
                shown.edges.append(edge)
                continue
            choice = DrawnNode(
                f"{edge.source}|{edge.via}", edge.via, "condition", frame=self.nodes[edge.source].frame
            )
            shown.lead(asked, DrawnEdge(edge.source, choice.id), choice, taken=edge.taken)
            shown.edges.append(replace(edge, source=choice.id, via=""))
        return shown

    def with_joins(self) -> DrawnGraph:
        """The same with each join's edges meeting in one place, so that they can be told from edges that don't wait."""
        shown = DrawnGraph(self.name, dict(self.nodes), ran=self.ran)
        met: dict[str, int] = {}
        for edge in self.edges:
            if edge.kind != "join":
                shown.edges.append(edge)
                continue
            target = self.nodes[edge.target]
            if target.kind == "start":  # of an open nested graph, which it stands before
                target = self.nodes[target.frame or ""]
            place = DrawnNode(f"|{edge.via}", edge.data or "", "join", frame=target.frame)
            shown.edges.append(DrawnEdge(edge.source, place.id, kind="join", taken=edge.taken))
            shown.lead(met, DrawnEdge(place.id, edge.target), place, taken=edge.taken)
        return shown

    def lead(self, known: dict[str, int], edge: DrawnEdge, place: DrawnNode, *, taken: bool) -> None:
        """Adds a place and its edge, once; the edge is taken if one of those that it stands for is."""
        if place.id not in known:
            known[place.id] = len(self.edges)
            self.nodes[place.id] = place
            self.edges.append(edge)
        if taken:
            at = known[place.id]
            self.edges[at] = replace(self.edges[at], taken=True)
            self.nodes[place.id] = replace(place, run=NodeRun())

    def member(self, name: str, frame: str | None) -> str | None:
        """The node directly in a frame that a node is, or is in; None if it is elsewhere."""
        while self.nodes[name].frame != frame:
            above = self.nodes[name].frame
            if above is None:
                return None
            name = above
        return name

    def between(self, frame: str | None) -> Iterator[tuple[DrawnEdge, str, str]]:
        """The edges of one level, each with the nodes directly in the frame between which it leads."""
        for edge in self.edges:
            source, target = self.member(edge.source, frame), self.member(edge.target, frame)
            if (
                source is not None
                and target is not None
                and (source != target or edge.source == edge.target == source)
            ):
                yield edge, source, target

    def unvisited(self, node: DrawnNode) -> bool:
        """Whether a run is drawn that never was at a node."""
        return self.ran and node.run is None and node.kind not in ("start", "end", "frame")

    def shown(self) -> dict[str, str]:
        """What a notebook shows: the SVG, or Mermaid's text if the extra ``draw`` isn't installed."""
        try:
            return {"image/svg+xml": self.draw_svg()}
        except ImportError:
            return {"text/vnd.mermaid": self.draw_mermaid()}

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": repr(self), **self.shown()}

    def inside(self, frame: str | None) -> Iterator[DrawnNode]:
        """The nodes that stand directly in an open nested graph, or in none."""
        return (node for node in self.nodes.values() if node.frame == frame)


_LONGEST: Final = 48
"""How many characters of an error are shown."""
_CHOSEN: Final = frozenset({"conditional", "send", "unknown"})


def merged(edges: Iterable[DrawnEdge]) -> list[DrawnEdge]:
    """The edges without doubles: those that differ only in their labels become one with all labels."""
    found: dict[tuple[str, str, str, str], DrawnEdge] = {}
    for edge in edges:
        by = (edge.source, edge.target, edge.kind, edge.via)
        before = found.get(by)
        if before is None:
            found[by] = edge
        elif edge.data is not None and edge.data != before.data:
            label = edge.data if before.data is None else f"{before.data}, {edge.data}"
            found[by] = replace(before, data=label)
    return list(found.values())


def told(node: DrawnNode) -> list[str]:
    """What is written beneath a node's name."""
    lines = ["deferred"] if node.deferred else []
    if node.interrupts:
        lines.append(f"pauses {node.interrupts.replace(',', ' and ')}")
    return lines if node.run is None or node.kind == "join" else [*lines, *_told_of_run(node.run)]


def _told_of_run(run: NodeRun) -> Iterator[str]:
    counted = [f"{run.visits}×"] if run.visits else []
    if run.seconds is not None:
        counted.append(f"{'≤ ' if run.at_most else ''}{shown_time(run.seconds)}")
    if counted:
        yield "  ".join(counted)
    if run.error is not None:
        yield run.error if len(run.error) <= _LONGEST else f"{run.error[: _LONGEST - 1]}…"
    if run.waits:
        yield "waits"


def shown_time(seconds: float) -> str:
    """A time in three digits or so."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def title_of(node: DrawnNode) -> str:
    """What is written on a frame, in one line."""
    return " · ".join([node.name, *told(node)])


def label_of(edge: DrawnEdge) -> str | None:
    """What is written at an edge."""
    return edge.kind if edge.data is None and edge.kind in ("send", "error") else edge.data


LABELS: Final[Mapping[str, str]] = {START: "start", END: "end"}
"""What stands on the pills of `START` and `END`."""
