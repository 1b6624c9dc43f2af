"""Findings about keys: unknown ones, ones that nobody writes or reads, and writes that collide.

A key counts as read or written where a function's code shows it (`check_code`), and where a graph's input, output and
nested graphs take or give it. Whoever uses its input in another way counts as reading all of it; whoever returns
something else than literals counts as writing every key. So these findings appear only where all code can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from juncture.engine.tables import LAST, Key, Tables
from juncture.graph.builder import StateGraph
from juncture.graph.check_code import Shown
from juncture.graph.check_findings import Finding
from juncture.graph.check_routes import near
from juncture.graph.check_structure import Structure, names_of
from juncture.graph.compiled import CompiledGraph
from juncture.graph.outline import Outline, Reader
from juncture.graph.schema import Schema, asks_for_overall_state, schema_from_callable
from juncture.graph.specs import NodeSpec
from juncture.types import MISSING, START


@dataclass(slots=True, eq=False)
class _User:
    """A node or router that uses keys."""

    place: str
    node: str
    action: Any
    is_node: bool
    graph: Tables | None = None
    """It is a nested graph."""

    @property
    def nodes(self) -> tuple[str, ...]:
        return () if self.node == START else (self.node,)


def _users(graph: Outline) -> Iterator[_User]:
    for spec in graph.nodes.values():
        nested = graph.tables.nodes[spec.name].graph
        yield _User(f"node {spec.name!r}", spec.name, spec.action, is_node=True, graph=nested)
    for source, branches in graph.branches.items():
        at = "START" if source == START else f"node {source!r}"
        for branch in branches:
            yield _User(f"router {branch.name!r} of {at}", source, branch.path, is_node=False)


def _schema(graph: Outline, user: _User) -> Schema | None:
    """What a node or router is handed; None if that isn't known."""
    if isinstance(user.action, (CompiledGraph, StateGraph)):
        return None
    tp = None if user.action is None else schema_from_callable(user.action)
    if user.node != START and (user.is_node or tp is None):
        spec = graph.nodes[user.node]
        if spec.input_schema is not None:
            tp = spec.input_schema
        elif tp is None and callable(spec.action):
            tp = schema_from_callable(spec.action)
    return graph.state if tp is None else graph.schemas.get(id(tp))


# ---- keys that don't exist


def unknown_keys(graph: Outline, found: Structure, reader: Reader) -> Iterator[Finding]:
    """Keys that a function uses and the graph, or the function's input, doesn't have."""
    tables = graph.tables
    if tables.open_key is not None or graph.state.kind == "root":
        return
    everywhere = set[str](tables.keys).intersection(*(s.fields for s in graph.schemas.values()))
    odd: set[str] | None = None
    for user in _users(graph):
        texts = reader.texts(user.action)
        if texts is None or not any(text.isidentifier() for text in texts - everywhere):
            continue
        shown, schema = reader.shown(user.action), _schema(graph, user)
        if shown is None:
            continue
        if user.is_node and graph.strict:
            yield from _written_unknown(tables, user, shown)
        missing = _missing(tables, user, schema, shown) if user.is_node or graph.strict else []
        if missing and odd is None:
            odd = sent(found)
        for key in missing:
            if not user.is_node or (odd is not None and user.node not in odd):
                yield _read_unknown(tables, user, key, needed=shown.reads[key])


def _missing(tables: Tables, user: _User, schema: Schema | None, shown: Shown) -> list[str]:
    """The keys that somebody reads and isn't handed."""
    if schema is None or schema.kind != "typed_dict":
        return []
    known = set(schema.fields)
    if asks_for_overall_state(user.action):
        known |= tables.keys.keys()  # it is shown every key
    return sorted(shown.reads.keys() - known)


def sent(found: Structure) -> set[str]:
    """The nodes that may be handed something else than the state, by a `Send`."""
    nodes: set[str] = set()
    for name in (START, *found.graph.nodes):
        if not found.plain(name):
            ways = found.ways(name)
            nodes |= ways.sends
            if ways.anywhere or ways.hidden:
                return set(found.graph.nodes)
    return nodes


def _written_unknown(tables: Tables, user: _User, shown: Shown) -> Iterator[Finding]:
    for key in sorted(shown.writes.keys() - tables.keys.keys()):
        yield Finding(
            "unknown-key",
            "warning",
            user.place,
            f"it writes {key!r}, which the state doesn't have",
            near(key, tables.keys, f"Declare it in the state. Declared: {', '.join(sorted(tables.keys))}"),
            user.nodes,
            key,
        )


def _read_unknown(tables: Tables, user: _User, key: str, *, needed: bool) -> Finding:
    there = key in tables.keys
    return Finding(
        "unknown-key",
        "warning" if needed else "note",
        user.place,
        f"it reads {key!r}, which {'its input' if there else 'the state'} doesn't have",
        "Add it to the input schema of the node"
        if there
        else near(key, tables.keys, "Declare it in the state"),
        user.nodes,
        key,
    )


# ---- keys that nobody uses


def unused_keys(graph: Outline, found: Structure, reader: Reader) -> Iterator[Finding]:
    """Keys that are read and never written, or never read: notes, since people may write and read them from outside."""
    if graph.state.kind == "root":
        return
    tables = graph.tables
    read, rest, written = _uses(graph, sent(found), reader)
    if written is not None and tables.input_keys is not None:
        for key in sorted(tables.keys.keys() & read.keys() - written - tables.input_keys):
            if not _starts(graph, tables.keys[key]):
                yield _unwritten(key, read[key])
    if tables.output_keys is not None:
        for key in sorted(tables.keys.keys() - tables.output_keys - rest - read.keys()):
            yield Finding(
                "unread-key",
                "note",
                f"key {key!r}",
                "no node or router reads it, and it isn't part of the output"
                + ("" if written is None or key in written else "; no node writes it either"),
                "Remove it, or add it to the output schema",
                key=key,
            )


def _uses(
    graph: Outline, odd: set[str], reader: Reader
) -> tuple[dict[str, list[_User]], set[str], set[str] | None]:
    """Who certainly reads a key; the keys that are perhaps read; and those that nodes may write, None for any.

    Args:
        graph: The graph.
        odd: Nodes that may be handed something else than the state, so that what they read may not be its keys.
        reader: Reads code.
    """
    read: dict[str, list[_User]] = {}
    rest: set[str] = set()
    written: set[str] | None = set()
    for user in _users(graph):
        keys, more = _read_by(graph, user, reader)
        rest |= more
        if user.is_node:
            own = _written_by(graph.tables, user, reader)
            written = None if written is None or own is None else written | own
        if user.is_node and user.node in odd:
            rest |= keys
            continue
        for key in keys:
            read.setdefault(key, []).append(user)
    return read, rest, written


def _read_by(graph: Outline, user: _User, reader: Reader) -> tuple[set[str], set[str]]:
    """The keys that somebody certainly reads, and those that it may read."""
    tables = graph.tables
    if user.graph is not None:
        return set(), set(tables.keys if user.graph.input_keys is None else user.graph.input_keys)
    shown, schema = reader.shown(user.action), _schema(graph, user)
    keys = set[str](shown.reads if shown is not None else ())
    objects = schema is not None and schema.kind not in ("open", "typed_dict")
    if shown is not None and not shown.reads_rest:
        if objects and schema is not None and shown.attributes <= schema.fields.keys():
            return keys | shown.attributes, set()
        if not shown.attributes:
            return keys, set()
    narrow = schema is not None and schema.kind != "open" and not asks_for_overall_state(user.action)
    return keys, set[str](schema.fields if narrow and schema is not None else tables.keys)


def _written_by(tables: Tables, user: _User, reader: Reader) -> set[str] | None:
    """The keys that a node may write; None for any."""
    if user.graph is not None:
        back = user.graph.output_keys
        return None if back is None else set(back & tables.keys.keys())
    shown = reader.shown(user.action)
    return None if shown is None or shown.hidden or shown.writes_rest else set(shown.writes)


def _unwritten(key: str, users: list[_User]) -> Finding:
    places = ", ".join(user.place for user in users)
    return Finding(
        "unwritten-key",
        "note",
        f"key {key!r}",
        f"read by {places}, but no node writes it, and it isn't part of the input",
        "Write it in a node, or add it to the input schema",
        tuple(dict.fromkeys(name for user in users for name in user.nodes)),
        key,
    )


def _starts(graph: Outline, key: Key) -> bool:
    """Whether a key holds something before it is first written, or its schema gives nodes a default."""
    if key.channel.initial() is not MISSING:
        return True
    fields = [schema.fields[key.name] for schema in graph.schemas.values() if key.name in schema.fields]
    return any(f.default is not MISSING or f.default_factory is not MISSING for f in fields)


# ---- writes that collide


def collisions(graph: Outline, found: Structure, reader: Reader) -> Iterator[Finding]:
    """Keys without a reducer that nodes of one superstep write, whatever happens."""
    tables = graph.tables
    groups: dict[tuple[str, int], list[NodeSpec]] = {}
    for name, at in found.depths.at.items():
        if name in found.reached and at[1] and not graph.nodes[name].defer:
            groups.setdefault(at, []).append(graph.nodes[name])
    single = {name for name, key in tables.keys.items() if key.merge == LAST}
    for group in groups.values():
        if len(group) < 2:
            continue
        for key, nodes in sorted(_writers(group, single, tables, reader).items()):
            if len(nodes) > 1:
                yield Finding(
                    "concurrent-writes",
                    "warning",
                    f"key {key!r}",
                    f"{names_of(nodes)} write it in the same superstep, and it has no reducer",
                    f"Give {key!r} a reducer, such as Annotated[list, Append()], or let only one of them write it",
                    tuple(nodes),
                    key,
                )


def _writers(group: list[NodeSpec], single: set[str], tables: Tables, reader: Reader) -> dict[str, list[str]]:
    """Key -> the nodes of a group that write it whenever they return."""
    near: dict[str, int] = {}
    texts = {spec.name: reader.texts(spec.action) for spec in group}
    for found in texts.values():
        for text in found or ():
            near[text] = near.get(text, 0) + 1
    shared = {text for text, count in near.items() if count > 1}
    if tables.open_key is None:
        shared &= single
    writers: dict[str, list[str]] = {}
    for spec in sorted(group, key=lambda spec: spec.name):
        if shared.isdisjoint(texts[spec.name] or ()):
            continue
        shown = reader.shown(spec.action)
        for key in shown.writes if shown is not None else ():
            if shown is not None and shown.writes[key] and is_single(tables, key):
                writers.setdefault(key, []).append(spec.name)
    return writers


def is_single(tables: Tables, name: str) -> bool:
    """Whether a key takes one write a step."""
    key = tables.keys.get(name)
    if key is None:
        return tables.open_key is not None and tables.open_key(name).merge == LAST
    return key.merge == LAST


__all__ = ["collisions", "is_single", "unknown_keys", "unused_keys"]
