"""Graphs as plain descriptions, what their nodes do, and how a library builds them.

A description says everything about a graph: keys, nodes, edges. What a node does is a pure function of its
description and its input (`act`), and where a router leads is one of its table and the state it sees (`choose`).
So a description has one meaning, which `naive` interprets and which `build` hands to a real library, Juncture or
LangGraph. Nearly everything that a node writes contains a digest of all that it saw: a task that ran with a wrong
input shows in the final state.
"""

from __future__ import annotations

import operator
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, TypedDict

START, END = "__start__", "__end__"
NOWHERE = "nowhere"
"""A target that no graph has."""


class Boom(Exception):
    """What a failing node raises; it carries the node's name."""


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


def cat(old: list[Any], new: list[Any]) -> list[Any]:
    """Like `operator.add` for lists, but another object."""
    return old + new


def mix(old: int, new: int) -> int:
    """Neither commutative nor associative: shows the order of writes."""
    return (old * 3 + new) % 10007


def join_dicts(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The merged dict; a key met again keeps its place."""
    return {**old, **new}


REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "cat": cat,
    "sum": operator.add,
    "max": max,
    "mix": mix,
    "merge": join_dicts,
}
"""The kinds of key that have one; the other kind is ``last``."""
TYPES: dict[str, type] = {
    "last": object,
    "add": list,
    "cat": list,
    "sum": int,
    "max": int,
    "mix": int,
    "merge": dict,
}
PALETTE: dict[str, tuple[str, ...]] = {
    "log": ("add", "cat"),
    "n": ("sum", "max", "mix"),
    "top": ("max", "mix", "sum"),
    "seen": ("merge",),
    "x": ("last",),
    "y": ("last",),
}
"""The keys that a graph may have, with the kinds that each may be of; every graph has ``log``."""


# ── descriptions ─────────────────────────────────────────────────────────────────────────────────────────────


class _Described:
    """A repr that leaves out what is as by default: falsifying examples are read by people."""

    def __repr__(self) -> str:
        shown = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)  # type: ignore[arg-type]  # only dataclasses derive from this
            if getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_pretty_(self, printer: Any, *_: Any) -> None:  # hypothesis prints examples by it
        printer.text(repr(self))


@dataclass(frozen=True, repr=False)
class Packet(_Described):
    """A `Send` to `node`; its argument is ``{key: value}``."""

    node: str
    key: str = "log"
    value: Any = None

    @property
    def arg(self) -> dict[str, Any]:
        return {self.key: self.value}


Target = str | Packet


@dataclass(frozen=True, repr=False)
class Write(_Described):
    """One write of a node: `value` as it is, or made from what the node saw."""

    key: str
    how: str = "mark"
    """``mark`` a digest shaped for the key's kind · ``const`` `value` · ``copy`` of the key `value` ·
    ``overwrite`` and ``remove``: the markers."""
    value: Any = None


@dataclass(frozen=True, repr=False)
class Node(_Described):
    """One node, and what it does."""

    name: str
    writes: tuple[Write, ...] = ()
    form: str = "dict"
    """How it returns: ``dict`` · ``nothing`` (None) · ``command`` · ``pairs`` (a Command with a list of pairs) ·
    ``pieces`` (a generator, one write each) · ``parent`` (a Command to the enclosing graph) · ``wrong`` (a
    number) · ``graph`` (it is `inner`)."""
    goto: tuple[Target, ...] = ()
    fails: int = 0
    """0 never; otherwise when the digest of its input is divisible by this."""
    defer: bool = False
    colour: str = "sync"
    """``sync`` or ``async``; a library that can't run both in one graph is given one."""
    inner: Graph | None = None


@dataclass(frozen=True, repr=False)
class Router(_Described):
    """A conditional edge: the digest of the state it sees picks a row of `table`."""

    source: str
    table: tuple[tuple[Target, ...], ...]


@dataclass(frozen=True, repr=False)
class Join(_Described):
    """`target` runs when all of `sources` ran; with ``arrived``, also when the run would end before that."""

    sources: tuple[str, ...]
    target: str
    policy: str = "all"


@dataclass(frozen=True, repr=False)
class Graph(_Described):
    """A whole graph. Nodes stand in the order in which they are declared, which must not matter."""

    keys: Mapping[str, str]
    """Kind by key."""
    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...] = ()
    routers: tuple[Router, ...] = ()
    joins: tuple[Join, ...] = ()

    def node(self, name: str) -> Node | None:
        return next((n for n in self.nodes if n.name == name), None)

    def forms(self) -> set[str]:
        """How its nodes return, nested ones too."""
        inner = [node.inner.forms() for node in self.nodes if node.inner is not None]
        return {node.form for node in self.nodes}.union(*inner)

    def sources(self) -> set[str]:
        """The nodes that edges of any kind lead out of, be it to `END`."""
        edges = {source for source, _ in self.edges} | {router.source for router in self.routers}
        return edges.union(*(join.sources for join in self.joins))


# ── what a description means ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Marker:
    """An `Overwrite` of `value`, or a removal; each library has its own."""

    how: str
    value: Any = None


@dataclass
class Act:
    """What a node did: its writes in order, and where it goes."""

    writes: list[tuple[str, Any]] = field(default_factory=list)
    goto: tuple[Target, ...] = ()


def digest(view: Any) -> int:
    """A number below 1000 that depends on everything in `view` but the order of its keys."""
    content = sorted(view.items()) if isinstance(view, Mapping) else view
    return zlib.crc32(repr(content).encode()) % 1000


def act(node: Node, kinds: Mapping[str, str], view: Mapping[str, Any]) -> Act:
    """What `node` does with this input.

    Raises:
        Boom: It fails.
    """
    seen = digest(view)
    if node.fails and seen % node.fails == 0:
        raise Boom(node.name)
    writes: list[tuple[str, Any]] = []
    for place, write in enumerate(node.writes if node.form not in {"nothing", "wrong"} else ()):
        if write.how == "copy":
            if write.value in view:
                writes.append((write.key, view[write.value]))
        elif write.how == "const":
            writes.append((write.key, write.value))
        elif write.how == "remove":
            writes.append((write.key, Marker("remove")))
        else:
            value = _mark(kinds.get(write.key, "last"), f"{node.name}{place}", seen + place)
            writes.append((write.key, Marker("overwrite", value) if write.how == "overwrite" else value))
    if node.form in {"dict", "command"}:  # a dict holds one value for each key
        writes = list(dict(writes).items())
    if node.form == "pieces":  # of keys without a reducer, the last piece counts
        last = {key: place for place, (key, _) in enumerate(writes) if kinds.get(key) not in REDUCERS}
        writes = [write for place, write in enumerate(writes) if last.get(write[0], place) == place]
    return Act(writes, node.goto)


def _mark(kind: str, name: str, number: int) -> Any:
    match kind:
        case "add" | "cat":
            return [f"{name}.{number}"]
        case "sum" | "max" | "mix":
            return number % 50
        case "merge":
            return {name[0]: number}
        case _:
            return f"{name}.{number}"


def choose(router: Router, view: Mapping[str, Any]) -> tuple[Target, ...]:
    """Where `router` leads, with what it sees."""
    return router.table[digest(view) % len(router.table)]


# ── building them ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Library:
    """What `build` needs of a library."""

    state_graph: Callable[[Any], Any]
    send: Callable[[str, Any], Any]
    command: Callable[..., Any]
    overwrite: Callable[[Any], Any]
    removal: Any = None
    colours: tuple[str, ...] = ("sync", "async")
    """The colours of node that its graphs may have; others become the first."""
    strict: bool = False
    """It refuses a node that declares destinations and has edges."""
    reducers: Mapping[str, Callable[[Any, Any], Any]] = field(default_factory=lambda: REDUCERS)


def juncture(*, strict: bool = True) -> Library:
    """Juncture, strict or lenient."""
    import juncture as j
    from juncture.graph.check_findings import CODES

    def graph(schema: Any) -> Any:
        return j.StateGraph(
            schema, strict=strict, silence=tuple(CODES)
        )  # random graphs have every fault there is

    return Library(graph, j.Send, j.Command, j.Overwrite, j.MARK_FOR_REMOVAL, strict=strict)


def langgraph(colour: str = "sync") -> Library:
    """LangGraph, with nodes of one colour: an ``async`` node there can't be run by ``invoke``.

    It asks a reducer for its signature, which `max` has not.
    """
    from langgraph.graph import StateGraph
    from langgraph.types import Command, Overwrite, Send

    return Library(
        StateGraph, Send, Command, Overwrite, None, (colour,), reducers={**REDUCERS, "max": _larger}
    )


def _larger(old: int, new: int) -> int:
    return max(old, new)


class Probe:
    """Is told of each node that begins, with the names of the nested graphs around it; does nothing."""

    def enter(self, path: tuple[str, ...], node: Node, view: Any) -> None:
        """Called in the node's own thread, before it does anything."""

    async def aenter(self, path: tuple[str, ...], node: Node, view: Any) -> None:
        """The same for an async node."""
        self.enter(path, node, view)

    def leave(self, path: tuple[str, ...], node: Node, *, failed: bool) -> None:
        """Called when it is about to return or raise."""


class Recorder(Probe):
    """Keeps what ran: (path, node, digest of its input)."""

    def __init__(self) -> None:
        self.ran: list[tuple[tuple[str, ...], str, int]] = []

    def enter(self, path: tuple[str, ...], node: Node, view: Any) -> None:
        self.ran.append((path, node.name, digest(view)))


def named(targets: Iterable[Target], graph: Graph) -> list[str]:
    """The nodes and `END` among targets, sorted; what doesn't exist is left out."""
    names = {target.node if isinstance(target, Packet) else target for target in targets}
    return sorted(names & {*(node.name for node in graph.nodes), END})


def build(
    graph: Graph,
    library: Library,
    *,
    probe: Probe | None = None,
    path: tuple[str, ...] = (),
    declared: bool = False,
    **options: Any,
) -> Any:
    """The compiled graph of a description; `options` go to ``compile``.

    With `declared`, routers have a path_map and nodes their destinations, as far as there is something to declare.
    """
    probe = probe or Probe()
    schema = {
        key: Annotated[TYPES[kind], library.reducers[kind]] if kind in REDUCERS else TYPES[kind]
        for key, kind in graph.keys.items()
    }
    builder = library.state_graph(TypedDict("State", schema, total=False))  # type: ignore[operator] # the merge of a description is any function
    for node in graph.nodes:
        if node.inner is not None:
            action = build(node.inner, library, probe=probe, path=(*path, node.name), declared=declared)
        else:
            action = _action(node, graph.keys, library, probe, path)
        more = {}
        single = node.name not in graph.sources() or not library.strict
        if declared and node.form in {"command", "pairs"} and single:
            more = {"destinations": tuple(named(node.goto, graph))}
        builder.add_node(node.name, action, defer=node.defer, **more)
    for source, target in graph.edges:
        builder.add_edge(source, target)
    for join in graph.joins:
        more = {} if join.policy == "all" else {"join": join.policy}
        builder.add_edge(list(join.sources), join.target, **more)
    for number, router in enumerate(graph.routers):
        targets = named((target for row in router.table for target in row), graph) if declared else []
        builder.add_conditional_edges(router.source, _path(router, number, library), targets or None)
    with warnings.catch_warnings():  # a checker may warn of what is drawn here on purpose
        warnings.simplefilter("ignore")
        return builder.compile(**options)


def _action(
    node: Node, kinds: Mapping[str, str], library: Library, probe: Probe, path: tuple[str, ...]
) -> Callable[[Any], Any]:
    def perform(state: Any) -> Any:
        try:
            done = act(node, kinds, state)
        except Boom:
            probe.leave(path, node, failed=True)
            raise
        answer = _answer(node, done, library)
        probe.leave(path, node, failed=False)
        return answer

    def plain(state: Any) -> Any:
        probe.enter(path, node, state)
        return perform(state)

    async def waiting(state: Any) -> Any:
        await probe.aenter(path, node, state)
        return perform(state)

    def pieces(state: Any) -> Any:
        probe.enter(path, node, state)
        yield from perform(state)

    async def waiting_pieces(state: Any) -> Any:
        await probe.aenter(path, node, state)
        for piece in perform(state):
            yield piece

    colour = node.colour if node.colour in library.colours else library.colours[0]
    if node.form == "pieces":
        return pieces if colour == "sync" else waiting_pieces
    return plain if colour == "sync" else waiting


def _answer(node: Node, done: Act, library: Library) -> Any:
    writes = [(key, _theirs(value, library)) for key, value in done.writes]
    goto = tuple(_theirs(target, library) for target in done.goto)
    match node.form:
        case "nothing":
            return None
        case "wrong":
            return 7
        case "dict":
            return dict(writes)
        case "pieces":
            return [{key: value} for key, value in writes]
        case "pairs":
            return library.command(update=writes, goto=goto)
        case "parent":
            return library.command(graph="__parent__", update=writes, goto=goto)
        case _:
            return library.command(update=dict(writes), goto=goto)


def _path(router: Router, number: int, library: Library) -> Callable[[Any], Any]:
    def route(state: Any) -> Any:
        return [_theirs(target, library) for target in choose(router, state)]

    route.__name__ = f"route{number}"  # LangGraph tells the branches of a node by their names
    return route


def _theirs(value: Any, library: Library) -> Any:
    match value:
        case Marker("overwrite", inner):
            return library.overwrite(inner)
        case Marker():
            return library.removal
        case Packet():
            return library.send(value.node, value.arg)
        case _:
            return value
