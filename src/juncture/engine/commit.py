"""The writes of a step, merged into the state: all or none.

`merge` computes what changes and touches nothing; `apply` puts that into the state and can't fail. Writes are merged
in the order they are given, which is the plan's, so the result never depends on which task ended first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from juncture.channels.base import Channel
from juncture.channels.marks import settled
from juncture.engine.state import State
from juncture.engine.tables import LAST, Key, Tables
from juncture.engine.values import ATOMS, WRAPPERS, admitted, copied
from juncture.errors import InvalidUpdateError, note, who
from juncture.types import MARK_FOR_REMOVAL, MISSING


class Changes:
    """What a step changes: new values by key (`MISSING`: the key goes), and the same for `State.cells`."""

    __slots__ = ("cells", "removes", "values")

    def __init__(self) -> None:
        """Nothing changes."""
        self.values: dict[str, Any] = {}
        self.cells: dict[str, Any] = {}
        self.removes = False
        """Some value or cell is `MISSING`."""


Entry = tuple[str, Sequence[tuple[str, Any]]]
"""(node, its writes), one for every task in plan order."""


def merge(tables: Tables, state: State, entries: Sequence[Entry]) -> Changes:  # noqa: C901 - one loop, in every step: a call for each write would cost more than the merge
    """What the writes make of the state. The state isn't touched.

    Raises:
        InvalidUpdateError: A key without a reducer was written twice, or a channel refuses its writes.
        Exception: Whatever a reducer raised, with a note naming key and node.
    """
    changes = Changes()
    values = changes.values
    keys = tables.keys
    folds: dict[str, tuple[Key, list[tuple[Any, str]]]] | None = None
    for node, writes in entries:
        for name, value in writes:
            key = keys.get(name)
            if key is None and tables.open_key is not None:
                key = tables.open_key(name)
            if key is None or key.merge == LAST:
                if name in values:
                    raise _conflict(name, entries)
                if type(value) not in ATOMS:
                    value = settled(value)  # noqa: PLW2901 - the write as it is kept
                    if value is MISSING:
                        changes.removes = True
                        if key is not None and key.required:
                            raise _required(name, node)
                values[name] = value
            else:
                if folds is None:
                    folds = {}
                if name in folds:
                    folds[name][1].append((value, node))
                else:
                    folds[name] = (key, [(value, node)])
    if folds is not None:
        for key, group in folds.values():
            _fold(key, state, group, changes)
    for key in tables.volatile:
        if folds is None or key.name not in folds:
            _idle(key, state, changes)
    return changes


def _conflict(name: str, entries: Iterable[Entry]) -> InvalidUpdateError:
    writers = [node for node, writes in entries for key, _ in writes if key == name]
    nodes = list(dict.fromkeys(writers))
    wrote = f"{who(nodes[0])} wrote it {len(writers)} times"
    if len(nodes) > 1:
        wrote = f"nodes {', '.join(repr(node) for node in nodes[:-1])} and {nodes[-1]!r} wrote it"
    error = InvalidUpdateError(
        f"key {name!r} can receive only one value per step, and {wrote}. "
        "Give the key a reducer (Annotated[type, reducer]), or let one node write it",
        node=nodes[-1],
        key=name,
    )
    error.nodes = tuple(nodes)
    note(error, "INVALID_CONCURRENT_GRAPH_UPDATE: Can receive only one value per step")
    return error


def _required(name: str, node: str) -> InvalidUpdateError:
    return InvalidUpdateError(
        f"{who(node)} removes key {name!r}, a required key of its schema; write a value, or give it a default",
        node=node,
        key=name,
    )


def _stored(key: Key, state: State) -> Any:
    return (state.values if key.channel.plain else state.cells).get(key.name, MISSING)


def _fold(key: Key, state: State, group: list[tuple[Any, str]], changes: Changes) -> None:
    """Merges one key's writes into `changes`."""
    old = _stored(key, state)
    reducer = key.reducer
    if reducer is not None and old is not MISSING and len(group) == 1:
        value, node = group[0]
        kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the type of Any is asked for
        if kind is not dict and kind not in WRAPPERS and value is not MARK_FOR_REMOVAL:
            try:
                new = reducer(old, value) if key.pure else admitted(reducer(copied(old), copied(value)))
            except BaseException as error:
                _blame(error, key.name, node)
                raise
            if new is not MARK_FOR_REMOVAL:
                changes.values[key.name] = _validated(key, old, group, new)
                return
            if key.required:
                raise _required(key.name, node)
            _put(key, MISSING, changes)
            return
    # A write lives on after this: in streams, records, a router's view. So a reducer that isn't known gets copies.
    given = old if key.pure else copied(old)
    writes = [value if key.pure else copied(value) for value, _ in group]
    try:
        new = key.channel.update(given, writes)
        if not key.pure and new is not MISSING:
            new = admitted(new)
    except BaseException as error:
        _blame(error, key.name, *_culprits(key.channel, old, group))
        raise
    if new is MARK_FOR_REMOVAL:  # a reducer's way to say that the key goes
        new = MISSING
    if new is MISSING and key.required:
        raise _required(key.name, group[-1][1])
    _put(key, _validated(key, old, group, new), changes)


def _validated(key: Key, old: Any, group: list[tuple[Any, str]], new: Any) -> Any:
    if key.validate_merged is None or new is MISSING:
        return new
    try:
        return key.validate_merged(old, [value for value, _ in group], new)
    except Exception as error:
        nodes = ", ".join(who(node) for node in dict.fromkeys(node for _, node in group))
        raise InvalidUpdateError(
            f"key {key.name!r} would become a {type(new).__name__} that its schema refuses, by what was written by {nodes}: {error}. "
            "Nothing of this step was applied",
            node=group[-1][1],
            key=key.name,
        ) from error


def _put(key: Key, new: Any, changes: Changes) -> None:
    if new is MISSING:
        changes.removes = True
    if key.channel.plain:
        changes.values[key.name] = new
    else:
        shown = MISSING if new is MISSING else key.channel.show(new)
        changes.removes |= shown is MISSING
        changes.cells[key.name] = new
        changes.values[key.name] = shown


def _idle(key: Key, state: State, changes: Changes) -> None:
    old = _stored(key, state)
    if old is not MISSING:
        _put(key, key.channel.update(old, []), changes)


def _culprits(channel: Channel, old: Any, group: list[tuple[Any, str]]) -> list[str]:
    """The node whose write couldn't be merged, first, and those before it: the first prefix of the writes that fails."""
    count = 1
    while count < len(group):
        try:
            channel.update(copied(old), [copied(value) for value, _ in group[:count]])
        except BaseException:  # noqa: BLE001 - only looking for the place; the first error is the one raised
            break
        count += 1
    return list(dict.fromkeys(node for _, node in reversed(group[:count])))


def _blame(error: BaseException, key: str, node: str, *others: str) -> None:
    if isinstance(error, InvalidUpdateError):
        error.key = error.key or key
        error.node = error.node or node
    before = f" after what {', '.join(repr(other) for other in others)} wrote" if others else ""
    note(
        error,
        f"juncture: while merging what node {node!r} wrote to key {key!r}{before}; nothing of this step was applied",
    )


def apply(state: State, changes: Changes) -> None:
    """Puts the changes into the state's own mappings."""
    state.values.update(changes.values)
    if changes.cells:
        state.cells.update(changes.cells)
    if changes.removes:
        _drop(state.values, changes.values)
        _drop(state.cells, changes.cells)


def _drop(target: dict[str, Any], changed: dict[str, Any]) -> None:
    for name, value in changed.items():
        if value is MISSING:
            del target[name]


class Before(NamedTuple):
    """What a step is about to replace, and where the state stands; for `restore`."""

    values: dict[str, Any]
    cells: dict[str, Any]
    rest: tuple[Any, ...]
    """The other fields that a step changes, as `_stands` gives them."""


_REST = (
    "step",
    "due",
    "sends",
    "joins",
    "deferred",
    "written",
    "touched",
    "ran",
    "branch",
    "memory",
    "unrouted",
)
_stands = attrgetter(*_REST)


def remember(state: State, changes: Changes) -> Before:
    """What the changes are about to replace, and where the state stands."""
    values, cells = state.values, state.cells
    rest = _stands(state)
    state.joins = dict(state.joins)  # so that the one in `rest` isn't changed
    return Before(
        {name: values.get(name, MISSING) for name in changes.values},
        {name: cells.get(name, MISSING) for name in changes.cells} if changes.cells else {},
        rest,
    )


def restore(state: State, before: Before) -> None:
    """Makes a state what it was when it was remembered."""
    for now, was in ((state.values, before.values), (state.cells, before.cells)):
        for name, value in was.items():
            if value is MISSING:
                now.pop(name, None)
            else:
                now[name] = value
    for name, value in zip(_REST, before.rest, strict=True):
        setattr(state, name, value)


def finish(tables: Tables, state: State) -> None:
    """Tells channels that nothing else is left to run."""
    changes = Changes()
    for key in tables.finishing:
        old = _stored(key, state)
        if old is not MISSING and (new := key.channel.finish(old)) is not old:
            _put(key, new, changes)
    apply(state, changes)


def view(
    tables: Tables, state: State, node: str, writes: Sequence[tuple[str, Any]]
) -> tuple[dict[str, Any], Changes]:
    """The values as they would be with one node's own writes applied, for its routers; and what they change."""
    changes = merge(tables, state, ((node, writes),))
    values = state.values | changes.values
    if changes.removes:
        _drop(values, changes.values)
    return values, changes


def log_own(state: State, shared: frozenset[str], writes: Sequence[tuple[str, Any]]) -> None:
    """Remembers a nested graph's own writes for its parent."""
    written = tuple((name, value) for name, value in writes if name in shared)
    if written:
        state.written += written
    touched = {name for name, _ in writes if name not in shared}
    if not touched.issubset(state.touched):
        state.touched = tuple(sorted(touched.union(state.touched)))
