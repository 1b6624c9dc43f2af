"""The shape of a graph as the checker and the pictures see it: where each node leads.

An `Outline` is taken when a graph is compiled, and doesn't change with the builder afterwards. `Ways` tells what is
declared, what a function's code shows, and what nobody can know before the graph runs. A declaration (edges, a
path_map, ``Literal[...]``, ``destinations``) is taken for the truth; code is read only where nothing is declared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, get_origin

from juncture.engine.tables import Tables
from juncture.graph.builder import StateGraph
from juncture.graph.check_code import Shown, read
from juncture.graph.check_source import function_of, texts_of
from juncture.graph.inject import return_hint
from juncture.graph.schema import Schema
from juncture.graph.specs import BranchSpec, JoinSpec, NodeSpec, command_targets
from juncture.types import END, START, Command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(slots=True, eq=False)
class Outline:
    """A graph at one moment."""

    nodes: dict[str, NodeSpec]
    edges: dict[str, tuple[str, ...]]
    """Source -> ends of plain edges; sorted, `END` last."""
    branches: dict[str, list[BranchSpec]]
    joins: list[JoinSpec]
    """Without those that end at `END`, which wait for nothing."""
    joined: set[str]
    """Sources of any join."""
    joined_end: frozenset[str]
    """Sources of joins that end at `END`."""
    nested: set[str]
    """Nodes that are graphs."""
    strict: bool
    silence: frozenset[str]
    schemas: Mapping[Any, Schema]
    state: Schema
    tables: Tables
    pauses: frozenset[str] = frozenset()
    """Nodes that it pauses before or after; ``*`` for all."""

    def routes(self, name: str) -> bool:
        """Whether edges of any kind lead out of a node."""
        return name in self.edges or name in self.branches or name in self.joined


def outline(
    graph: StateGraph[Any, Any, Any, Any],
    tables: Tables,
    *,
    pauses: Iterable[str] = (),
) -> Outline:
    """The graph as it was laid out in the tables just made."""
    edges = {node.name: node.successors for node in (tables.entry, *tables.nodes.values()) if node.successors}
    for start, end in graph.edges:
        if end == END:
            edges[start] = (*edges.get(start, ()), END)
    return Outline(
        nodes={
            name: replace(spec, error_handler=spec.error_handler or graph.default_fallback)
            for name, spec in graph.nodes.items()
        },
        edges=edges,
        branches={source: list(branches.values()) for source, branches in graph.branches.items()},
        joins=[join for join in graph.joins if join.target != END],
        joined={source for join in graph.joins for source in join.sources},
        joined_end=frozenset(s for join in graph.joins if join.target == END for s in join.sources),
        nested={
            name
            for name, spec in graph.nodes.items()
            if hasattr(spec.action, "add_node") or hasattr(spec.action, "tables")
        },
        strict=graph.strict,
        silence=graph.silence,
        schemas=graph.schemas,
        state=graph.schema(graph.state_schema),
        tables=tables,
        pauses=frozenset(pauses),
    )


@dataclass(slots=True, eq=False)
class Reader:
    """Reads functions, each once."""

    _shown: dict[int, tuple[Any, Shown | None]] = field(default_factory=dict[int, tuple[Any, Shown | None]])
    _texts: dict[int, tuple[Any, frozenset[str] | None]] = field(
        default_factory=dict[int, tuple[Any, frozenset[str] | None]]
    )

    def shown(self, action: Any) -> Shown | None:
        """What an action's code shows; None if it can't be read."""
        # Functions that differ in nothing that could be read, such as a lambda made anew in a loop, are read once.
        plain = isinstance(action, FunctionType) and action.__closure__ is None
        by = id(action.__code__) if plain else id(action)
        known = self._shown.get(by)
        if known is None:
            known = self._shown[by] = (action, read(action))
        return known[1]

    def texts(self, action: Any) -> frozenset[str] | None:
        """The texts and names in an action's code, which is much cheaper than to read it; None if there is none."""
        known = self._texts.get(id(action))
        if known is None:
            function = function_of(action)
            texts = (
                None if function is None else frozenset(texts_of(function.code)).union(function.code.co_names)
            )
            known = self._texts[id(action)] = (action, texts)
        return known[1]


@dataclass(slots=True, eq=False)
class Ways:
    """Where a node leads, besides its plain edges and joins."""

    targets: set[str] = field(default_factory=set[str])
    """Nodes and `END` that its routers or commands may choose, sends included."""
    sends: set[str] = field(default_factory=set[str])
    """Those among them that it may send to, so that they may run several times at once, with an input of their own."""
    anywhere: bool = False
    """It chooses when it runs, among all nodes."""
    hidden: bool = False
    """Its code can't be followed, so it may return a command that leads anywhere."""


def ways_of(graph: Outline, name: str, reader: Reader) -> Ways:
    """Where a node or `START` leads, besides its plain edges and joins."""
    ways = Ways()
    for branch in graph.branches.get(name, ()):
        _add_branch(branch, reader, ways)
    if name != START:
        _add_fallback(graph.nodes[name], reader, ways)
        _add_commands(graph, graph.nodes[name], reader, ways)
    return ways


def branch_ways(branch: BranchSpec, reader: Reader) -> Ways:
    """Where one router leads."""
    ways = Ways()
    _add_branch(branch, reader, ways)
    return ways


def command_ways(graph: Outline, spec: NodeSpec, reader: Reader) -> Ways:
    """Where a node's own commands lead."""
    ways = Ways()
    _add_commands(graph, spec, reader, ways)
    return ways


def _add_branch(branch: BranchSpec, reader: Reader, ways: Ways) -> None:
    if branch.default is not None:
        ways.targets.add(branch.default)
    shown = None if is_one_name(branch) else reader.shown(branch.path)
    if branch.targets is not None:
        ways.targets.update(branch.targets.values())
        if not is_one_name(branch):
            hidden = shown is None or shown.hidden or shown.anywhere
            ways.sends.update(branch.targets.values() if hidden else ())
    elif shown is None or shown.anywhere:
        ways.anywhere = True
    else:
        ways.targets |= shown.targets
    if shown is not None:
        ways.targets |= shown.sends
        ways.sends |= shown.sends


def fallback_ways(spec: NodeSpec, reader: Reader) -> Ways:
    """Where the error handler of a node leads."""
    ways = Ways()
    _add_fallback(spec, reader, ways)
    return ways


def _add_fallback(spec: NodeSpec, reader: Reader, ways: Ways) -> None:
    fallback = spec.error_handler
    if fallback is None:
        return
    declared = command_targets(fallback)
    shown = None if declared else reader.shown(fallback)
    if shown is not None and shown.gotos:
        ways.anywhere = ways.anywhere or shown.anywhere
        ways.targets |= shown.goto_names | shown.sends
        ways.sends |= shown.sends
    ways.hidden = ways.hidden or (not declared and (shown is None or shown.hidden))
    ways.targets.update(target for target in declared if target != Command.PARENT)


def _add_commands(graph: Outline, spec: NodeSpec, reader: Reader, ways: Ways) -> None:
    declared = declared_targets(spec)
    if declared:
        ways.targets.update(declared)
        ways.sends.update(declared)
    elif graph.strict and graph.routes(spec.name):
        return  # a goto would be refused when it runs
    elif spec.action is None or (shown := reader.shown(spec.action)) is None or shown.hidden:
        ways.hidden = True
    else:
        ways.anywhere = ways.anywhere or (shown.gotos and shown.anywhere)
        if shown.gotos:
            ways.targets |= shown.goto_names | shown.sends
            ways.sends |= shown.sends


def declared_targets(spec: NodeSpec) -> tuple[str, ...]:
    """The destinations that a node declares, without the enclosing graph."""
    declared = tuple(spec.destinations or ()) or command_targets(spec.action)
    return tuple(target for target in declared if target != Command.PARENT)


def is_one_name(branch: BranchSpec) -> bool:
    """Whether a router is annotated to return exactly one name."""
    return get_origin(return_hint(branch.path)) is Literal


def choices(branch: BranchSpec, reader: Reader) -> frozenset[str] | None:
    """The nodes among which a router certainly takes exactly one; None if that isn't known."""
    if is_one_name(branch) and branch.targets is not None:
        return frozenset(branch.targets.values())
    shown = reader.shown(branch.path)
    if shown is None or shown.hidden or shown.anywhere or shown.several or shown.nowhere or shown.sends:
        return None
    if shown.gotos or shown.writes or shown.writes_rest or not shown.targets:
        return None
    if branch.targets is None:
        return frozenset(shown.targets)
    if not shown.targets <= branch.targets.keys():
        return None
    return frozenset(branch.targets[name] for name in shown.targets)


__all__ = ["Outline", "Reader", "Ways", "branch_ways", "choices", "command_ways", "declared_targets", "fallback_ways", "is_one_name",
           "outline", "ways_of"]  # fmt: skip
