"""A run over a drawing: how often each node ran, for how long, what it failed with, and which edges were surely taken.

What is known comes from a thread's history, or from the events that a listener was told. A history has a state for every
step, so its times are those of whole steps; events have the nodes' own times, and those of nested graphs.

An edge is marked where nothing else can explain what ran next: a plain edge out of a node that ended; a join's once all
of its sources ran; of the others the only one into a node that was due next. Where two could explain it, none is marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from juncture.errors import ConfigError
from juncture.graph.drawing.drawn import DrawnEdge, DrawnGraph, NodeRun
from juncture.observe.listeners import Event
from juncture.types import END, START, StateSnapshot

Record: TypeAlias = Sequence[StateSnapshot] | Sequence[Event]


@dataclass(slots=True)
class Trail:
    """What ran in one graph, step by step."""

    prefix: str = ""
    """Of its nodes' ids."""
    began: bool = False
    """It began at the start, and not in the middle."""
    steps: list[set[str]] = field(default_factory=list[set[str]])
    ended: bool = False
    """Nothing is due after the last step."""


@dataclass(slots=True)
class _Count:
    """What is known of one node so far."""

    visits: int = 0
    seconds: float | None = None
    at_most: bool = False
    error: str | None = None
    waits: bool = False

    def add(self, seconds: float | None, *, at_most: bool) -> None:
        self.visits += 1
        if seconds is not None:
            self.seconds = (self.seconds or 0.0) + seconds
            self.at_most = self.at_most or at_most


def with_record(graph: DrawnGraph, record: Record) -> DrawnGraph:
    """The drawing with what ran.

    Raises:
        ConfigError: The record is neither states nor events, or a history lacks the states of some steps.
    """
    if all(isinstance(each, Event) for each in record):
        counts, trails = _of_events(cast("Sequence[Event]", record))
    elif all(isinstance(each, StateSnapshot) for each in record):
        counts, trails = _of_states(cast("Sequence[StateSnapshot]", record))
    else:
        raise ConfigError(
            "a run is drawn from the states of a thread (get_state_history) or from the events that a listener was told"
        )
    taken: set[DrawnEdge] = set()
    for trail in trails:
        taken |= _taken(graph, trail)
    nodes = {
        name: replace(node, run=NodeRun(**_fields(counts[name]))) if name in counts else node
        for name, node in graph.nodes.items()
    }
    edges = [replace(edge, taken=True) if edge in taken else edge for edge in graph.edges]
    return DrawnGraph(graph.name, nodes, edges, ran=True)


def _fields(count: _Count) -> dict[str, Any]:
    return {name: getattr(count, name) for name in ("visits", "seconds", "at_most", "error", "waits")}


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────


def _of_events(events: Sequence[Event]) -> tuple[dict[str, _Count], list[Trail]]:
    counts: dict[str, _Count] = {}
    trails: dict[tuple[str, tuple[str, ...]], Trail] = {}
    started = {event.run_id for event in events if event.kind == "start"}
    ended = {
        (event.run_id, ()) for event in events if event.kind == "complete" and event.status == "completed"
    }
    ended |= {
        (e.run_id, (*e.namespace, e.task_id)) for e in events if e.kind == "after" and e.task_id is not None
    }
    for event in events:
        if event.node is None or event.kind == "checkpoint":
            continue
        prefix = "".join(f"{level.partition(':')[0]}:" for level in event.namespace)
        _add_event(event, counts.setdefault(prefix + event.node, _Count()))
        if event.kind == "before":
            which = (event.run_id, event.namespace)
            trail = trails.setdefault(
                which, Trail(prefix, began=event.run_id in started, ended=which in ended)
            )
            while len(trail.steps) < event.step:
                trail.steps.append(set())
            trail.steps[event.step - 1].add(event.node)
    for trail in trails.values():
        trail.steps = [step for step in trail.steps if step]
    return counts, list(trails.values())


def _add_event(event: Event, count: _Count) -> None:
    match event.kind:
        case "before":
            count.add(None, at_most=False)
            count.error, count.waits = None, False
        case "error":
            count.error = "it failed" if event.error is None else _text(event.error)
        case "interrupt":
            count.waits = True
        case _:
            pass
    if event.duration is not None:
        count.seconds = (count.seconds or 0.0) + event.duration


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────────


def _of_states(states: Sequence[StateSnapshot]) -> tuple[dict[str, _Count], list[Trail]]:
    counts: dict[str, _Count] = {}
    trails: list[Trail] = []
    before: StateSnapshot | None = None
    for state in _lineage(states):
        metadata = state.metadata or {}
        if before is not None and metadata.get("source") == "loop":
            _add_step(before, state, counts, trails)
        else:
            trails.append(Trail(began=metadata.get("source") == "input"))
        trails[-1].ended = not state.next
        before = state
    if before is not None:
        _add_unfinished(before, counts, trails[-1])
    return counts, trails


def _lineage(states: Sequence[StateSnapshot]) -> list[StateSnapshot]:
    """From the oldest to the newest, without branches that were left."""
    by_id = {_id(state.config): state for state in states}
    found: list[StateSnapshot] = []
    state = states[0] if states else None
    while state is not None:
        found.append(state)
        state = None if state.parent_config is None else by_id.get(_id(state.parent_config))
    return found[::-1]


def _id(config: Mapping[str, Any]) -> Any:
    return config["configurable"].get("checkpoint_id")


def _add_step(
    before: StateSnapshot, after: StateSnapshot, counts: dict[str, _Count], trails: list[Trail]
) -> None:
    first, second = before.metadata or {}, after.metadata or {}
    if second["step"] != first["step"] + 1:
        raise ConfigError(
            f"the thread has no state of the steps between {first['step']} and {second['step']}, as with "
            "durability='exit', so what ran isn't known. Draw the run from its events: listeners=[events.append]"
        )
    # A run that was paused and went on waited in between.
    same = first.get("run_id") == second.get("run_id")
    seconds = _seconds(before, after) if same else None
    names = [task.name for task in before.tasks]
    for name in names:
        count = counts.setdefault(name, _Count())
        count.add(seconds, at_most=True)
    trails[-1].steps.append(set(names))


def _seconds(before: StateSnapshot, after: StateSnapshot) -> float | None:
    from datetime import datetime

    if before.created_at is None or after.created_at is None:
        return None
    return (
        datetime.fromisoformat(after.created_at) - datetime.fromisoformat(before.created_at)
    ).total_seconds()


def _add_unfinished(state: StateSnapshot, counts: dict[str, _Count], trail: Trail) -> None:
    """The tasks of the step that isn't done."""
    due: set[str] = set()
    for task in state.tasks:
        due.add(task.name)
        count = counts.setdefault(task.name, _Count())
        if (
            task.error is not None
            or task.result is not None
            or any(q.when == "inside" for q in task.interrupts)
        ):
            count.add(None, at_most=True)
        count.error = task.error
        count.waits = count.waits or bool(task.interrupts)
    if due:
        trail.steps.append(due)


# ── edges ────────────────────────────────────────────────────────────────────────────────────────────────────


def _taken(graph: DrawnGraph, trail: Trail) -> set[DrawnEdge]:
    """The edges of one graph that were surely taken."""
    frame = trail.prefix[:-1] or None
    into: dict[str, list[tuple[str, DrawnEdge]]] = {}
    anywhere: dict[str, DrawnEdge] = {}
    for edge, source, target in graph.between(frame):
        into.setdefault(target, []).append((source, edge))
        if edge.kind == "unknown":
            anywhere[source] = edge
    start, end = trail.prefix + START, trail.prefix + END
    before = {start} if trail.began else set[str]()
    ran = set(before)
    taken: set[DrawnEdge] = set()
    for names in trail.steps:
        now = {trail.prefix + name for name in names}
        for name in now:
            late = name in graph.nodes and graph.nodes[name].deferred
            sources = ran if late else before
            known = into.get(name, ())
            taken.update(_explaining(known, sources, ran))
            if not any(source in (ran if edge.kind == "join" else sources) for source, edge in known):
                guessed = [edge for source, edge in anywhere.items() if source in sources]
                taken.update(guessed if len(guessed) == 1 else ())
        before = now
        ran |= now
    if trail.ended:
        taken.update(edge for source, edge in into.get(end, ()) if edge.kind == "edge" and source in ran)
        # Of the nodes that ended the run, those that chose to.
        taken.update(edge for source, edge in into.get(end, ()) if edge.conditional and source in before)
    return taken


def _explaining(
    edges: Iterable[tuple[str, DrawnEdge]], before: AbstractSet[str], ran: AbstractSet[str]
) -> Iterator[DrawnEdge]:
    """Those of the edges into a node because of which it ran."""
    plain, chosen = list[DrawnEdge](), list[DrawnEdge]()
    joins: dict[str, list[tuple[str, DrawnEdge]]] = {}
    for source, edge in edges:
        if edge.kind == "join":
            joins.setdefault(edge.via, []).append((source, edge))
        elif source in before:
            (chosen if edge.conditional else plain).append(edge)
    full = [
        edge
        for members in joins.values()
        if all(source in ran for source, _ in members) or members[0][1].data == "arrived"
        for source, edge in members
        if source in ran
    ]
    yield from plain
    if plain or (full and chosen):
        return  # a choice isn't needed to explain it
    yield from full or (chosen if len(chosen) == 1 else ())


__all__ = ["Record", "with_record"]
