"""Findings that follow from where nodes lead: what is never reached, never ends, never fills, or runs twice.

What is certain is found in one pass over the edges, so that `compile` can afford it. What is only possible (notes) is
looked for by `check` alone. Where a route is only known when the graph runs, nothing is said.

Plain edges give every node a base and a distance: it runs so many steps after its base did, each time. `START` is a
base, and so is a node that plain edges of different bases lead to, or none, or a deferred one. Two nodes with one base
and one distance always run in the same superstep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from juncture.graph.builder import StateGraph
from juncture.graph.check_calls import callables_of, graphs_of, may_ask
from juncture.graph.check_findings import Finding, Severity
from juncture.graph.check_loops import components
from juncture.graph.compiled import CompiledGraph
from juncture.graph.outline import Outline, Reader, Ways, choices, ways_of
from juncture.graph.specs import JoinSpec
from juncture.types import END, START


def names_of(nodes: Iterable[str]) -> str:
    """Some nodes in a message."""
    several = list(dict.fromkeys("START" if name == START else repr(name) for name in nodes))
    return ", ".join(several[:4]) + (f" and {len(several) - 4} more" if len(several) > 4 else "")


def place_of(nodes: list[str]) -> str:
    """Some nodes as a place."""
    return f"node {nodes[0]!r}" if len(nodes) == 1 else f"nodes {', '.join(map(repr, nodes))}"


@dataclass(slots=True, eq=False)
class Depths:
    """When nodes run, as far as plain edges tell."""

    at: dict[str, tuple[str, int]]
    """Node -> its base, and how many steps after it."""
    unequal: dict[str, tuple[tuple[str, int], tuple[str, int]]]
    """Node -> the nearest and the farthest of the nodes before it that share a base, with their distances."""
    cyclic: bool
    """Plain edges form a loop."""


def depths_of(graph: Outline, reached: set[str]) -> Depths:
    """Bases and distances of the nodes that are reached, in one pass in topological order."""
    waiting = Counter(chain.from_iterable(ends for name, ends in graph.edges.items() if name in reached))
    ready = [name for name in (START, *graph.nodes) if name in reached and name not in waiting]
    before: dict[str, _Before] = {}
    mixed = {
        name for name, spec in graph.nodes.items() if spec.defer
    }  # bases by themselves, wherever they come from
    found = Depths({}, {}, cyclic=False)
    while ready:
        name = ready.pop()
        here = (name, 0)
        span = before.get(name)
        if span is not None and name not in mixed:
            here = (span.base, span.last + 1)
            if span.first != span.last:
                found.unequal[name] = (span.nearest, span.first), (span.farthest, span.last)
        found.at[name] = here
        base, distance = here
        for end in graph.edges.get(name, ()):
            span = before.get(end)
            if span is None:
                before[end] = _Before(base, distance, name, distance, name)
            elif span.base != base:
                mixed.add(end)
            elif distance < span.first:
                span.first, span.nearest = distance, name
            elif distance > span.last:
                span.last, span.farthest = distance, name
            waiting[end] -= 1
            if not waiting[end] and end != END:
                ready.append(end)
    found.cyclic = len(found.at) < len(reached)
    return found


@dataclass(slots=True, eq=False)
class _Before:
    """The distances of the nodes before one, from their common base, and which they are."""

    base: str
    first: int
    nearest: str
    last: int
    farthest: str


@dataclass(slots=True, eq=False)
class Structure:
    """A graph with what is known of its ways, each computed when it is first asked for."""

    graph: Outline
    reader: Reader
    depths: Depths = field(default_factory=lambda: Depths({}, {}, cyclic=False))
    reached: set[str] = field(default_factory=set[str])
    everything: bool = False
    """A route is only known when the graph runs, and may lead to any node."""
    hidden: list[str] = field(default_factory=list[str])
    """Reached nodes that may return a command to anywhere, for all that can be seen."""
    _ways: dict[str, Ways] = field(default_factory=dict[str, Ways])
    _joins: dict[str, list[JoinSpec]] = field(default_factory=dict[str, list[JoinSpec]])

    def ways(self, name: str) -> Ways:
        """Where a node leads besides plain edges."""
        ways = self._ways.get(name)
        if ways is None:
            ways = self._ways[name] = ways_of(self.graph, name, self.reader)
        return ways

    def next(self, name: str) -> Iterator[str]:
        """The nodes that may run after a node, joins included, as far as known."""
        for end in (*self.graph.edges.get(name, ()), *sorted(self.ways(name).targets)):
            if end in self.graph.nodes:
                yield end
        for join in self._joins.get(name, ()):
            yield join.target

    def plain(self, name: str) -> bool:
        """Whether only edges and joins lead out of a node, whatever its code does."""
        graph = self.graph
        if name in graph.nodes and graph.nodes[name].error_handler is not None:
            return False
        return graph.strict and name not in graph.branches and graph.routes(name)


def structure(graph: Outline, reader: Reader) -> Structure:
    """What `compile` needs to know: distances, and what can be reached."""
    found = Structure(graph, reader)
    for join in graph.joins:
        for source in join.sources:
            found._joins.setdefault(source, []).append(join)  # pyright: ignore[reportPrivateUsage] - filled here once
    _reach(found, found._joins)  # pyright: ignore[reportPrivateUsage] - filled here, and read by its own methods
    found.depths = depths_of(graph, found.reached)
    return found


def _reach(found: Structure, joins: dict[str, list[JoinSpec]]) -> None:
    """Walks from `START`. Code is read only while some node isn't reached without it."""
    graph, reached = found.graph, found.reached
    queue, later = [START], list[str]()
    reached.add(START)
    arrived: dict[int, int] = {}
    while queue or (later and len(reached) <= len(graph.nodes)):
        name = queue.pop() if queue else ""
        if name:
            to = list(graph.edges.get(name, ()))
            for join in joins.get(name, ()):
                arrived[id(join)] = arrived.get(id(join), 0) + 1
                if join.policy == "arrived" or arrived[id(join)] == len(join.sources):
                    to.append(join.target)
            if not found.plain(name):
                later.append(name)
        else:
            name = later.pop()
            ways = found.ways(name)
            to = list(ways.targets)
            found.everything = found.everything or ways.anywhere
            if ways.hidden:
                found.hidden.append(name)
        for end in to:
            if end not in reached and end in graph.nodes:
                reached.add(end)
                queue.append(end)
    if len(reached) <= len(graph.nodes):
        found.hidden = [
            name
            for name in sorted(reached - {START})
            if name in found.hidden or may_escape(graph.nodes[name].action, found.reader)
        ]


def may_escape(action: Any, reader: Reader) -> bool:
    """Whether a node runs a graph whose own nodes may return a command for this one."""
    graphs: list[Any] = [action] if isinstance(action, (CompiledGraph, StateGraph)) else graphs_of(action)
    for graph in graphs:
        for inner in callables_of(graph):
            shown = reader.shown(inner)
            if not isinstance(inner, (CompiledGraph, StateGraph)) and (shown is None or shown.up):
                return True
    return False


# ---- certain


def unreachable(found: Structure) -> Iterator[Finding]:
    """Nodes that nothing leads to."""
    if found.everything:
        return
    graph = found.graph
    severity: Severity = "note" if found.hidden else "warning"
    before: dict[str, list[str]] = {}
    lost = [name for name in graph.nodes if name not in found.reached]
    for name in lost:
        for end in found.next(name):
            before.setdefault(end, []).append(name)
    waited = {join.target for join in graph.joins if not found.reached.isdisjoint(join.sources)}
    for name in lost:
        if name in waited:
            continue  # its join is reported
        given = before.get(name)
        message = (
            f"only {names_of(given)} leads to it, which isn't reached" if given else "no way leads to it"
        )
        remedy = f"Add an edge or a route to {name!r}, or remove it"
        if found.hidden:
            message += f", unless {names_of(found.hidden)} returns a command to it"
            remedy = "Declare where that node's commands lead: destinations=, or Command[Literal[...]] as its annotation"
        yield Finding("unreachable-node", severity, f"node {name!r}", message, remedy, (name,))


def unequal(found: Structure) -> Iterator[Finding]:
    """Nodes that plain edges make run once for each of several branches."""
    for name, (near, far) in found.depths.unequal.items():
        if name in found.reached:
            base = names_of([found.depths.at[name][0]])
            yield Finding(
                "unequal-branches",
                "warning",
                f"node {name!r}",
                f"branches of different length lead to it, so it runs more than once: in step {near[1] + 1} after {base} "
                f"because of {names_of([near[0]])}, in step {far[1] + 1} because of {names_of([far[0]])}",
                f"Join the branches: add_edge([...], {name!r}), or hold the node back: defer=True",
                (name,),
            )


def loops(found: Structure) -> Iterator[Finding]:
    """Loops that a run can't leave: each of their nodes certainly leads to another of them."""
    graph = found.graph
    if not found.depths.cyclic and not graph.branches:
        return
    caught = _caught(found, sure=False)
    if caught:
        caught = _caught(found, sure=True)
    for loop in components(
        {name: [e for e in _onward(found, name) if e in caught] for name in sorted(caught)}
    ):
        nodes = sorted(loop)
        if not found.reached.issuperset(nodes):
            continue
        yield Finding(
            "endless-loop",
            "warning",
            place_of(nodes),
            "each of these leads to another of them whatever happens, so the run only ends at its limit"
            if len(nodes) > 1
            else "it leads to itself whatever happens, so the run only ends at its limit",
            "Let a conditional edge or a Command(goto=…) choose between going on and END, instead of a plain edge",
            tuple(nodes),
        )


def _caught(found: Structure, *, sure: bool) -> set[str]:
    """The nodes after which a run can't end: the largest set in which each certainly leads to another.

    Args:
        found: The graph.
        sure: Read code: that a router takes just one of its targets, and that no node asks or leaves the graph.
    """
    graph = found.graph
    certain = {name: _certain(found, name, sure=sure) for name in graph.nodes}
    caught = {name for name, ways in certain.items() if ways}
    before: dict[str, list[str]] = {}
    for name in caught:
        for ways in certain[name]:
            for end in ways:
                before.setdefault(end, []).append(name)
    if sure:
        stuck = [name for name in caught if _pauses(found, name)]
        caught.difference_update(stuck)
    else:
        stuck = []
    queue = stuck + [name for name in before if name not in caught]
    while queue:
        gone = queue.pop()
        for name in before.get(gone, ()):
            if name in caught and not any(ways <= caught for ways in certain[name]):
                caught.discard(name)
                queue.append(name)
    return caught


def _certain(found: Structure, name: str, *, sure: bool) -> list[frozenset[str]]:
    """Sets of nodes of which one certainly runs after a node."""
    ways = [frozenset((end,)) for end in found.graph.edges.get(name, ()) if end != END]
    for branch in found.graph.branches.get(name, ()):
        taken = (
            choices(branch, found.reader)
            if sure or branch.targets is None
            else frozenset(branch.targets.values())
        )
        if taken and END not in taken:
            ways.append(taken)
    return ways


def _onward(found: Structure, name: str) -> list[str]:
    return [end for ways in _certain(found, name, sure=True) for end in ways]


def _pauses(found: Structure, name: str) -> bool:
    """Whether a run may pause or leave the graph at a node, for all that can be seen."""
    graph, action = found.graph, found.graph.nodes[name].action
    return not graph.pauses.isdisjoint((name, "*")) or may_ask(action) or may_escape(action, found.reader)


def stuck_joins(found: Structure) -> Iterator[Finding]:
    """Joins with a source that can't arrive, or with sources of which a router takes only one."""
    if found.everything:
        return
    entries: dict[str, set[tuple[str, str]]] | None = None
    for join in found.graph.joins:
        if join.policy != "all":
            continue
        lost = [source for source in join.sources if source not in found.reached]
        if lost:
            yield Finding(
                "stuck-join",
                "note" if found.hidden else "warning",
                f"join {', '.join(map(repr, join.sources))} -> {join.target!r}",
                f"it waits for {names_of(lost)}, which can't be reached",
                "Lead a way there, or take it out of the join",
                (join.target, *join.sources),
            )
        elif found.graph.branches:
            entries = _entries(found) if entries is None else entries
            yield from _exclusive(found, join, entries)


def _entries(found: Structure) -> dict[str, set[tuple[str, str]]]:
    """Node -> the ways into it: a node before it, and the router that leads on, or nothing for an edge."""
    graph = found.graph
    entries: dict[str, set[tuple[str, str]]] = {}
    for source, ends in graph.edges.items():
        for end in ends:
            entries.setdefault(end, set()).add((source, ""))
    for join in graph.joins:
        entries.setdefault(join.target, set()).update((source, "") for source in join.sources)
    for source in (START, *graph.nodes):
        for end in () if found.plain(source) else found.ways(source).targets:
            branches = graph.branches.get(source, ())
            by = [b.name for b in branches if b.targets is None or end in b.targets.values()] or [""]
            entries.setdefault(end, set()).update((source, name) for name in by)
    return entries


def _choices(entries: dict[str, set[tuple[str, str]]], node: str) -> dict[tuple[str, str], str]:
    """The choices of routers without which a node isn't reached: router -> what it took. It has one way in, and so on."""
    taken: dict[tuple[str, str], str] = {}
    while node != START and len(ways := entries.get(node, ())) == 1:
        ((before, router),) = ways
        if router:
            taken[before, router] = node
        node = before
    return taken


def _exclusive(
    found: Structure, join: JoinSpec, entries: dict[str, set[tuple[str, str]]]
) -> Iterator[Finding]:
    """Whether two sources depend on different choices of one router."""
    known = {source: _choices(entries, source) for source in join.sources}
    for source, taken in known.items():
        for other, others in known.items():
            for way in taken.keys() & others.keys():
                if (
                    other > source
                    and taken[way] != others[way]
                    and (severity := _settled(found, way, entries))
                ):
                    at = "START" if way[0] == START else f"node {way[0]!r}"
                    yield Finding(
                        "stuck-join",
                        severity,
                        f"join {', '.join(map(repr, join.sources))} -> {join.target!r}",
                        f"it waits for {names_of((source, other))}, of which router {way[1]!r} of {at} only ever takes one",
                        'Draw plain edges instead of the join, or let it fire with what arrived: join="arrived"',
                        (join.target, *join.sources),
                    )
                    return


def _settled(
    found: Structure, way: tuple[str, str], entries: dict[str, set[tuple[str, str]]]
) -> Severity | None:
    """How sure it is that a router takes just one of its targets, once in a run; None if it may take several."""
    source, name = way
    branch = next((b for b in found.graph.branches.get(source, ()) if b.name == name), None)
    if branch is None or choices(branch, found.reader) is None:
        return None
    if source != START and source in walk(found, found.next(source)):
        return None  # it may be asked again
    chosen = [found.ways(name) for name in (START, *found.graph.nodes) if not found.plain(name)]
    if any(ways.anywhere for ways in chosen):
        return None
    sent = {name for ways in chosen for name in ways.sends}
    return "note" if any(ways.hidden for ways in chosen) or not _once(source, entries, sent) else "warning"


def _once(node: str, entries: dict[str, set[tuple[str, str]]], sent: set[str]) -> bool:
    """Whether one way leads to a node from `START`, so that it runs once."""
    while node != START:
        ways = entries.get(node, ())
        if len(ways) != 1 or node in sent:
            return False
        ((node, _),) = ways
    return True


def walk(found: Structure, starts: Iterable[str]) -> set[str]:
    """Every node that may run after some nodes, and these."""
    queue = list(starts)
    reach = set(queue)
    while queue:
        for end in found.next(queue.pop()):
            if end not in reach:
                reach.add(end)
                queue.append(end)
    return reach


__all__ = ["Depths", "Structure", "loops", "names_of", "place_of", "structure", "stuck_joins", "unequal",
           "unreachable"]  # fmt: skip
