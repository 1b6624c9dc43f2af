"""Notes: what may be a fault and may be meant so. `compile` doesn't ask for them.

A note says what could happen on the ways that are declared or shown. Routes that are only known when the graph runs
are left out, so there is no note about what they might do.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import combinations

from juncture.graph.check_calls import actions_of, may_ask
from juncture.graph.check_findings import Finding
from juncture.graph.check_keys import is_single
from juncture.graph.check_loops import components, post_order
from juncture.graph.check_structure import Structure, may_escape, names_of, place_of
from juncture.graph.outline import Outline, Reader, declared_targets
from juncture.types import END, START


def dead_ends(graph: Outline, found: Structure, reader: Reader) -> Iterator[Finding]:
    """Nodes where a branch ends without an edge to `END`, in a graph that has such edges elsewhere."""
    if not graph.joined_end and not any(END in ends for ends in graph.edges.values()):
        return
    for spec in graph.nodes.values():
        if spec.name not in found.reached or graph.routes(spec.name) or declared_targets(spec):
            continue
        shown = reader.shown(spec.action)
        nested = spec.name in graph.nested
        if not nested and (shown is None or shown.hidden or shown.gotos or shown.up):
            continue
        if may_escape(spec.action, reader):
            continue
        yield Finding(
            "dead-end",
            "note",
            f"node {spec.name!r}",
            "no edge leads out of it, so its branch ends here, and other branches say so with an edge to END",
            f"Add the missing edge, or say so as well: add_edge({spec.name!r}, END)",
            (spec.name,),
        )


def closed_loops(graph: Outline, found: Structure, reader: Reader, certain: set[str]) -> Iterator[Finding]:
    """Loops that no declared way leads out of, though a router may end them with an empty result."""
    for loop in components({name: list(found.next(name)) for name in graph.nodes}):
        nodes = sorted(loop)
        if not found.reached.issuperset(nodes) or not certain.isdisjoint(nodes):
            continue
        if all(_stays(graph, found, reader, name, set(nodes)) for name in nodes):
            yield Finding(
                "endless-loop",
                "note",
                place_of(nodes),
                "no declared way leads out, so only an empty result of a router ends the run before its limit",
                "Give one of the routers END among its targets",
                tuple(nodes),
            )


def _stays(graph: Outline, found: Structure, reader: Reader, name: str, loop: set[str]) -> bool:
    """Whether each way out of a node stays in a loop, for all that is known, and nothing pauses there."""
    ways, spec = found.ways(name), graph.nodes[name]
    if ways.anywhere or ways.hidden or not ways.targets <= loop or declared_targets(spec):
        return False
    if not found.plain(name) and name not in graph.branches:
        return False
    for branch in graph.branches.get(name, ()):
        shown = reader.shown(branch.path)
        if shown is not None and not shown.hidden and shown.nowhere:
            return False  # it says itself that it may end the loop
    pauses = (
        not graph.pauses.isdisjoint((name, "*")) or may_ask(spec.action) or may_escape(spec.action, reader)
    )
    return not pauses and loop.issuperset(graph.edges.get(name, ())) and not _joined(graph, name, loop)


def _joined(graph: Outline, name: str, loop: set[str]) -> bool:
    return any(name in join.sources and join.target not in loop for join in graph.joins)


# ---- branches that run side by side


def side_by_side(graph: Outline, found: Structure, reader: Reader) -> Iterator[Finding]:
    """Branches of one fan-out that may meet at different steps, or write one key in the same step."""
    edges = _edges(found)
    looped = {n: index for index, loop in enumerate(components(edges)) for n in loop}
    order = {name: place for place, name in enumerate(reversed(post_order(edges, edges)))}
    for source in (START, *graph.nodes):
        if source not in found.reached:
            continue
        starts = [end for end in graph.edges.get(source, ()) if end in graph.nodes]
        fans = [starts, *_together(graph, source, reader)]
        for fan in fans:
            if len(fan) < 2:
                continue
            steps = _steps(graph, found, fan, order, looped)
            yield from _meetings(graph, found, source, steps)
            yield from _possible_collisions(graph, found, steps, reader)


def _together(graph: Outline, source: str, reader: Reader) -> Iterator[list[str]]:
    """Lists of nodes that a router of the source returns."""
    for branch in graph.branches.get(source, ()):
        shown = reader.shown(branch.path)
        for names in shown.together if shown is not None else ():
            targets = [name if branch.targets is None else branch.targets.get(name) for name in names]
            yield sorted({target for target in targets if target is not None and target in graph.nodes})


def _edges(found: Structure) -> dict[str, list[str]]:
    return {name: list(found.next(name)) for name in (START, *found.graph.nodes)}


Span = tuple[int, int]
"""The first and the last step, after a fan-out, in which a node may run."""


def _steps(
    graph: Outline, found: Structure, fan: list[str], order: dict[str, int], looped: dict[str, int]
) -> dict[str, dict[int, Span]]:
    """Where the branches of a fan-out lead until they meet again: node -> branch -> its steps. Loops count once."""
    steps: dict[str, dict[int, Span]] = {}
    todo: list[tuple[int, str]] = []

    def enter(name: str, branch: int, span: Span) -> None:
        if name not in steps:
            heappush(todo, (order[name], name))
        spans = steps.setdefault(name, {})
        first, last = spans.get(branch, span)
        spans[branch] = min(first, span[0]), max(last, span[1])

    for branch, start in enumerate(fan):
        enter(start, branch, (1, 1))
    while todo:
        _, name = heappop(todo)
        if len(steps[name]) > 1 or graph.nodes[name].defer or name in looped:
            continue
        ((branch, (first, last)),) = steps[name].items()
        for end in (*graph.edges.get(name, ()), *found.ways(name).targets):
            if end in graph.nodes:
                enter(end, branch, (first + 1, last + 1))
    return steps


def _meetings(
    graph: Outline, found: Structure, source: str, steps: dict[str, dict[int, Span]]
) -> Iterator[Finding]:
    """The nodes where branches meet in steps that may differ."""
    base = names_of([source])
    for name, spans in sorted(steps.items()):
        same = len(set(spans.values())) < 2
        if len(spans) < 2 or same or graph.nodes[name].defer or name in found.depths.unequal:
            continue
        yield Finding(
            "unequal-branches",
            "note",
            f"node {name!r}",
            f"branches that part after {base} may lead to it in different steps, and then it runs once for each",
            f"Join the branches: add_edge([...], {name!r}), or hold the node back: defer=True",
            (name,),
        )


def _possible_collisions(
    graph: Outline, found: Structure, steps: dict[str, dict[int, Span]], reader: Reader
) -> Iterator[Finding]:
    writers: dict[str, list[tuple[int, str, Span]]] = {}
    for name, spans in steps.items():
        for key in _written(graph, name, reader) if len(spans) == 1 else ():
            if is_single(graph.tables, key):
                writers.setdefault(key, []).extend((branch, name, span) for branch, span in spans.items())
    for key, uses in sorted(writers.items()):
        nodes = {
            name
            for (i, one, a), (j, other, b) in combinations(uses, 2)
            if i != j and a[0] <= b[1] and b[0] <= a[1] and not _certain(found, reader, key, one, other)
            for name in (one, other)
        }
        if nodes:
            yield _collision(key, sorted(nodes), "may write it in the same superstep")


def _written(graph: Outline, name: str, reader: Reader) -> list[str]:
    """The keys that a node's code, or that of the nodes of a nested graph, shows to be written to this graph."""
    nested, action = graph.tables.nodes[name].graph, graph.nodes[name].action
    shown = (
        [reader.shown(action)] if nested is None else [reader.shown(inner) for inner in actions_of(action)]
    )
    keys = {key for each in shown if each is not None for key in each.writes}
    back = None if nested is None else nested.output_keys
    return sorted(keys if back is None else keys & back)


def _certain(found: Structure, reader: Reader, key: str, one: str, other: str) -> bool:
    """Whether `check_keys.collisions` reports the two."""
    shown = [reader.shown(found.graph.nodes[name].action) for name in (one, other)]
    always = all(s is not None and s.writes.get(key) for s in shown)
    return always and found.depths.at.get(one) == found.depths.at.get(other)


def sent_collisions(graph: Outline, found: Structure, reader: Reader) -> Iterator[Finding]:
    """Nodes that a router sends to, which may so run several times in one step, and write a key without a reducer."""
    tables = graph.tables
    for name, senders in _sent_to(graph, reader).items():
        shown = reader.shown(graph.nodes[name].action)
        for key in sorted(shown.writes) if shown is not None else ():
            if is_single(tables, key):
                yield _collision(
                    key, [name], f"may run several times in a superstep, sent to by {senders}, and writes it"
                )


def _sent_to(graph: Outline, reader: Reader) -> dict[str, str]:
    sent: dict[str, str] = {}
    for source in (START, *graph.nodes):
        actions = [branch.path for branch in graph.branches.get(source, ())]
        if source in graph.nodes:
            actions.append(graph.nodes[source].action)
        for action in actions:
            texts = reader.texts(action)
            shown = reader.shown(action) if texts is not None and "Send" in texts else None
            for name in sorted(shown.sends & graph.nodes.keys()) if shown is not None else ():
                sent.setdefault(name, names_of([source]))
    return sent


def _collision(key: str, nodes: list[str], what: str) -> Finding:
    return Finding(
        "concurrent-writes",
        "note",
        f"key {key!r}",
        f"{names_of(nodes)} {what}, and it has no reducer",
        f"Give {key!r} a reducer, such as Annotated[list, Append()], or let only one of them write it",
        tuple(nodes),
        key,
    )


__all__ = ["closed_loops", "dead_ends", "sent_collisions", "side_by_side"]
