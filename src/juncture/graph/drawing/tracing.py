"""From a compiled graph to what is drawn of it: its outline, read as far as declarations and code tell.

A nested graph that is drawn open becomes a frame around its own nodes, its start and its end; what leads to it leads to
its start, and what leads out of it leads out of its end. A command for the graph around leads from the node that returns
it straight to its target.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from juncture.engine.tables import Pauses
from juncture.graph.builder import StateGraph
from juncture.graph.check_calls import callables_of, graphs_of, may_route
from juncture.graph.compiled import CompiledGraph
from juncture.graph.drawing.drawn import DrawnEdge, DrawnGraph, DrawnNode, EdgeKind, merged
from juncture.graph.outline import (
    Outline,
    Reader,
    branch_ways,
    command_ways,
    declared_targets,
    fallback_ways,
    outline,
)
from juncture.graph.specs import BranchSpec, NodeSpec
from juncture.types import END, START

if TYPE_CHECKING:
    from juncture.graph.check_code import Shown

_Compiled: TypeAlias = CompiledGraph[Any, Any, Any, Any]


def traced(graph: _Compiled, *, xray: bool | int = False) -> DrawnGraph:
    """A graph's nodes and edges.

    Args:
        graph: The graph.
        xray: True: nested graphs are drawn open, at every depth; a number: so many levels of them.
    """
    tracer = _Tracer(graph.name, sys.maxsize if xray is True else int(xray))
    tracer.graph(_Level(graph.outline, "", None, None))
    drawn = tracer.drawn
    drawn.edges = merged(drawn.edges)
    touched = {name for edge in drawn.edges for name in (edge.source, edge.target)}
    drawn.nodes = {name: node for name, node in drawn.nodes.items() if node.kind != "end" or name in touched}
    return drawn


@dataclass(slots=True, eq=False)
class _Level:
    """One of the graphs that are drawn: the outermost, or one inside an open frame."""

    graph: Outline
    prefix: str
    """Of its nodes' ids."""
    frame: str | None
    around: _Level | None
    """The graph that it is a node of."""


class _Tracer:
    """Fills one drawing."""

    def __init__(self, name: str, depth: int) -> None:
        self.drawn = DrawnGraph(name)
        self.reader = Reader()
        self.depth = depth
        self.frames: set[str] = set()
        """The ids of open nested graphs."""

    def graph(self, level: _Level) -> None:
        """Adds one graph's nodes, then its edges."""
        graph, prefix = level.graph, level.prefix
        self._put(DrawnNode(prefix + START, START, "start", frame=level.frame))
        for spec in graph.nodes.values():
            self._node(level, spec)
        self._put(DrawnNode(prefix + END, END, "end", frame=level.frame))
        for source in (START, *graph.nodes):
            known = [*self._edges(level, source), *self._chosen(level, source)]
            self.drawn.edges += known
            if not (known or graph.routes(source)) and self._may_end(graph, source):
                self.drawn.edges.append(self._edge(level, source, END))
            self.drawn.edges += self._beyond(level, source)

    def _put(self, node: DrawnNode) -> None:
        self.drawn.nodes[node.id] = node

    def _node(self, level: _Level, spec: NodeSpec) -> None:
        name = level.prefix + spec.name
        nested = spec.name in level.graph.nested
        opened = nested and level.prefix.count(":") < self.depth
        kind = "frame" if opened else "graph" if nested else "node"
        self._put(DrawnNode(name, spec.name, kind, spec.action, _metadata(level.graph, spec), level.frame))
        if opened:
            self.frames.add(name)
            self.graph(_Level(_inner(level.graph, spec), f"{name}:", name, level))

    # ---- edges

    def _edges(self, level: _Level, name: str) -> Iterator[DrawnEdge]:
        """Plain edges and joins."""
        graph = level.graph
        ends = graph.edges.get(name, ())
        for end in ends if name not in graph.joined_end or END in ends else (*ends, END):
            yield self._edge(level, name, end)
        for join in graph.joins:
            if name in join.sources:
                via = f"{level.prefix}{'|'.join(join.sources)}:{join.target}"
                label = None if join.policy == "all" else join.policy
                yield self._edge(level, name, join.target, "join", label, via)

    def _chosen(self, level: _Level, name: str) -> Iterator[DrawnEdge]:
        """What routers and the node's own commands are known to choose, within its graph."""
        graph = level.graph
        for branch in graph.branches.get(name, ()):
            ways, shown = branch_ways(branch, self.reader), self.reader.shown(branch.path)
            for target in _known(graph, ways.targets):
                kind: EdgeKind = "send" if _only_sent(shown, target) else "conditional"
                yield self._edge(level, name, target, kind, _label(branch, target), branch.name)
            if ways.anywhere:
                yield self._unknown(level, name, branch.name)
        if name == START:
            return
        spec = graph.nodes[name]
        if name in graph.nested:
            return
        shown = self._shown(spec)
        declared = declared_targets(spec)
        for target in _known(graph, command_ways(graph, spec, self.reader).targets):
            kind = "send" if not declared and _only_sent(shown, target) else "command"
            label = spec.destinations.get(target) if isinstance(spec.destinations, Mapping) else None
            yield self._edge(level, name, target, kind, label)

    def _handled(self, level: _Level, name: str) -> Iterator[DrawnEdge]:
        """Where a node's error handler leads, which runs in its place if it fails."""
        spec = level.graph.nodes[name]
        if spec.error_handler is None:
            return
        ways, shown = fallback_ways(spec, self.reader), self.reader.shown(spec.error_handler)
        known = _known(level.graph, ways.targets)
        for target in known:
            yield self._edge(level, name, target, "error")
        if not known and not (shown is not None and (shown.up or shown.gotos) and not shown.hidden):
            yield self._edge(level, name, END, "error")
        if ways.anywhere or (ways.hidden and may_route(spec.error_handler)):
            yield self._unknown(level, name)

    def _beyond(self, level: _Level, name: str) -> Iterator[DrawnEdge]:
        """Where a node's commands lead that can't be read, or that are for another graph; a router's for another graph."""
        graph = level.graph
        actions = [branch.path for branch in graph.branches.get(name, ())]
        if name != START:
            spec = graph.nodes[name]
            nested = name in graph.nested
            yield from self._handled(level, name)
            if spec.error_handler is not None:
                actions.append(spec.error_handler)
            if not nested:
                actions.append(spec.action)
                ways = command_ways(graph, spec, self.reader)
                if ways.anywhere or (ways.hidden and may_route(spec.action)):
                    yield self._unknown(level, name)
            if level.prefix + name not in self.frames:
                for inner in [spec.action] if nested else graphs_of(spec.action):
                    yield from self._out_of(level, name, inner)
        if level.around is not None:
            for action in actions:
                yield from self._upward(level, name, level.around, action)

    def _out_of(self, level: _Level, name: str, inner: Any) -> Iterator[DrawnEdge]:
        """Where the commands of a closed nested graph lead that are for the graph of its node."""
        for action in callables_of(inner):
            if not isinstance(action, (CompiledGraph, StateGraph)):  # whose commands are for `inner`
                yield from self._upward(level, name, level, action)

    def _upward(self, level: _Level, name: str, around: _Level, action: Any) -> Iterator[DrawnEdge]:
        """Where the commands lead that an action of a node's has for the graph `around`."""
        shown = None if action is None else self.reader.shown(action)
        if shown is None or shown.hidden:
            if may_route(action):
                yield self._unknown(level, name)
            return
        for name_above in _known(around.graph, shown.up_targets):
            source = self._leaving(level.prefix + name)
            target = self._entering(around.prefix + name_above)
            yield DrawnEdge(source, target, conditional=True, kind="command")
        if shown.up_anywhere:
            yield self._unknown(level, name)

    def _edge(
        self,
        level: _Level,
        source: str,
        target: str,
        kind: EdgeKind = "edge",
        label: str | None = None,
        via: str = "",
    ) -> DrawnEdge:
        ends = self._leaving(level.prefix + source), self._entering(level.prefix + target)
        return DrawnEdge(*ends, label, kind not in ("edge", "join"), kind, via)

    def _unknown(self, level: _Level, source: str, via: str = "") -> DrawnEdge:
        name = level.prefix + source
        place = DrawnNode(f"{name}|?", "?", "unknown", frame=level.frame)
        self._put(place)
        return DrawnEdge(self._leaving(name), place.id, conditional=True, kind="unknown", via=via)

    def _leaving(self, name: str) -> str:
        return f"{name}:{END}" if name in self.frames else name

    def _entering(self, name: str) -> str:
        return f"{name}:{START}" if name in self.frames else name

    # ---- what code shows

    def _shown(self, spec: NodeSpec) -> Shown | None:
        return None if spec.action is None else self.reader.shown(spec.action)

    def _may_end(self, graph: Outline, name: str) -> bool:
        """Whether a node that nothing is known to follow may be followed by nothing."""
        if name == START:
            return False
        shown = None if name in graph.nested else self._shown(graph.nodes[name])
        if shown is None or shown.hidden or shown.nowhere or shown.writes or shown.writes_rest:
            return True
        return not (shown.up or shown.gotos)


def _inner(graph: Outline, spec: NodeSpec) -> Outline:
    """The outline of a nested graph."""
    if isinstance(spec.action, CompiledGraph):
        return cast("_Compiled", spec.action).outline
    tables = graph.tables.nodes[spec.name].graph
    assert tables is not None, "it is nested"
    return outline(spec.action, tables)


def _metadata(graph: Outline, spec: NodeSpec) -> dict[str, Any]:
    shown = dict(spec.metadata)
    if spec.defer:
        shown["defer"] = True
    pauses = graph.tables.pauses or Pauses()
    when = [
        when
        for when, names in (
            ("before", pauses.before.names),
            ("after", pauses.after.names | pauses.route.names),
        )
        if not names.isdisjoint((spec.name, "*"))
    ]
    if when:
        shown["__interrupt"] = ",".join(when)
    return shown


def _known(graph: Outline, targets: AbstractSet[str]) -> list[str]:
    """Targets that exist, in the order of the graph's nodes; a name that doesn't leads nowhere."""
    return [name for name in (*graph.nodes, END) if name in targets]


def _label(branch: BranchSpec, target: str) -> str | None:
    """What a router returns for a target, where that isn't its name."""
    labels = [str(label) for label, name in (branch.targets or {}).items() if name == target != label]
    return ", ".join(labels) or None


def _only_sent(shown: Shown | None, target: str) -> bool:
    """Whether code is known to lead somewhere by `Send` alone."""
    return shown is not None and not shown.hidden and target in shown.sends and target not in shown.targets


__all__ = ["traced"]
