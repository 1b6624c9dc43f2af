"""What a node returned, read once: writes, routes, or a command for an enclosing graph.

Every kind of node ends here, so a write means the same whichever way it was produced. Values are copied and checked
while the task can still fail (`values.admitted`); what is read here never changes afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import Any, cast

from juncture.engine.routing import Routes, resolve
from juncture.engine.tables import LAST, Node, Tables
from juncture.engine.values import ATOMS, CONTAINERS, admitted, is_handed_out, only_atoms, same
from juncture.errors import InvalidUpdateError, RoutingError, who
from juncture.types import MARK_FOR_REMOVAL, ROOT, START, Command, Overwrite, Send


@dataclass(slots=True)
class Returned:
    """What a node returned."""

    writes: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    routes: Routes = field(default_factory=Routes)
    escape: Command[Any] | None = None
    """The first command for an enclosing graph."""
    routed: bool = False
    """It chose where to go."""


@dataclass(slots=True)
class Reader:
    """Reads what one try of one node returns.

    `handed` and `before` are what the node was given and a way to tell what it changed in it: for a dict input,
    the committed values it was copied from; for an object, what `Node.snapshot` remembered.
    """

    tables: Tables
    node: Node
    handed: Any
    committed: Mapping[str, Any]
    before: Any = None
    place: str = ""
    """Unique for this try of this task: what ids of new items are made from."""

    def read(self, result: Any) -> Returned:
        """The meaning of one returned value.

        Raises:
            InvalidUpdateError: It isn't an update, or writes something that the state can't take.
            RoutingError: It routes to no node, or in two ways.
        """
        got = Returned()
        self.add(result, got)
        self.check_routes(got)
        return got

    def check_routes(self, got: Returned) -> None:
        """Refuses a goto beside edges.

        Raises:
            RoutingError: Both would route.
        """
        if got.routed and self.tables.strict and got.escape is None and self.node.routes:
            raise RoutingError(
                f"node {self.node.name!r} returned a goto and also has edges out of it, so two mechanisms would route "
                "at once. Remove the edges, or return an update without goto",
                node=self.node.name,
            )

    def add(self, result: Any, got: Returned) -> None:
        """Adds the meaning of one returned value."""
        if result is None:
            return
        if isinstance(result, Command):
            self._add_command(cast("Command[Any]", result), got)
        elif isinstance(result, Send):
            got.routed = True
            resolve(self.tables, self.node.name, result, None, got.routes)
        elif self.node.root_value and not self._has_commands(result):
            got.writes.append((ROOT, self._admit_value(ROOT, result)))
        elif isinstance(result, dict):
            self._add_mapping(cast("dict[str, Any]", result), got)
        elif isinstance(result, (list, tuple)) and self._has_commands(result):
            for part in cast("Sequence[Any]", result):
                self.add(part, got)
        else:
            self._add_object(result, got)

    def _has_commands(self, result: Any) -> bool:
        return isinstance(result, (list, tuple)) and any(
            isinstance(part, Command) for part in cast("Sequence[Any]", result)
        )

    def _add_object(self, result: Any, got: Returned) -> None:
        updates = (
            self.node.updates_of(result, self.before if result is self.handed else None)
            if (self.node.updates_of is not None)
            else None
        )
        if updates is None:
            if not isinstance(result, Mapping):
                if self.node.name == START:
                    raise InvalidUpdateError(
                        f"Expected dict, got {type(result).__name__} as the input: {_short(result)}. "
                        "An input is a dict of state keys, an object of the input schema's type, None or a Command",
                        node=START,
                    )
                raise InvalidUpdateError(
                    f"Expected dict, got {type(result).__name__} from node {self.node.name!r}: {_short(result)}. "
                    "A node returns a dict of state keys, a Command, or None for no update",
                    node=self.node.name,
                )
            updates = cast("Mapping[str, Any]", result)
        self._add_mapping(updates, got)

    def _add_command(self, command: Command[Any], got: Returned) -> None:
        if command.graph is not None:
            if got.escape is None:
                got.escape = command
            return
        if command.update is not None:
            self.add_update(command.update, got)
        goto: Any = command.goto
        if not (isinstance(goto, (list, tuple)) and not goto):
            got.routed = True
            resolve(self.tables, self.node.name, goto, None, got.routes)

    def add_update(self, update: Any, got: Returned) -> None:
        """Adds the update of a command: a mapping, pairs, an object, or a single value's new value."""
        pairs = _pairs(update)
        if pairs is not None and not self.node.root_value:
            for name, value in pairs:
                self.add_write(name, value, got.writes)
        else:
            self.add(update, got)

    def _add_mapping(self, mapping: Mapping[str, Any], got: Returned) -> None:
        plain = quick(self.tables, mapping, self.handed)
        if plain is not None:
            got.writes += plain
            return
        if mapping is self.handed and self.tables.strict:
            # The whole input came back: what it still holds as it was given is no write, whatever its type.
            mapping = {name: v for name, v in mapping.items() if not self._as_given(name, v)}
        for name, value in mapping.items():
            self.add_write(name, value, got.writes)

    def add_write(self, name: Any, value: Any, writes: list[tuple[str, Any]]) -> None:
        """Adds one write, copied and checked; nothing if it is no write."""
        tables = self.tables
        key = tables.keys.get(name)
        if key is None:
            if not isinstance(name, str):
                raise InvalidUpdateError(
                    f"{who(self.node.name)} wrote the key {name!r}, a {type(name).__name__}; keys are strings",
                    node=self.node.name,
                )
            if name in self.node.managed or tables.open_key is None:
                if tables.strict:
                    raise undeclared(tables, self.node, name)
                return
            key = tables.open_key(name)
        if type(value) not in ATOMS:
            if tables.strict and self._came_back(name, value, key.merge != LAST):
                return
            value = self._admit_value(name, value)
        if key.identify is not None and value is not MARK_FOR_REMOVAL and type(value) is not Overwrite:
            value = key.identify(value, f"{self.place}\x1f{len(writes)}")
        if key.validate is not None and value is not MARK_FOR_REMOVAL:
            value = self._validate(name, value, key.validate)
        writes.append((name, value))

    def _as_given(self, name: str, value: Any) -> bool:
        return name in self.node.managed or (name in self.committed and same(value, self.committed[name]))

    def _came_back(self, name: str, value: Any, reduces: bool) -> bool:
        """Whether a value is what was handed out for that key, unchanged: returning it is no write."""
        handed = self.handed
        if self.before is not None:
            given = self.before[0].get(name)  # what the object held when it was handed out
        else:
            given = cast("dict[str, Any]", handed).get(name) if type(handed) is dict else None
        kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the type of Any is asked for
        if given is not value or not is_handed_out(kind) or isinstance(value, Enum):  # pyright: ignore[reportUnknownArgumentType] - the type of Any is asked for
            return False
        if type(value) not in CONTAINERS:
            return True  # an object is a leaf: nothing was copied, so there is nothing to compare it with
        if same(value, self.committed.get(name)):
            return True
        if reduces:
            raise InvalidUpdateError(
                f"node {self.node.name!r} changed the value of {name!r} in place and returned it. {name!r} has a "
                "reducer, which would merge the old part once more: return only the new part",
                node=self.node.name,
                key=name,
            )
        return False

    def _admit_value(self, name: str, value: Any) -> Any:
        try:
            return admitted(value)
        except InvalidUpdateError as error:
            raise InvalidUpdateError(
                f"{who(self.node.name)} wrote to key {name!r}: {error}", node=self.node.name, key=name
            ) from None

    def _validate(self, name: str, value: Any, validate: Any) -> Any:
        try:
            if type(value) is Overwrite:
                return Overwrite(validate(value.value))
            return validate(value)
        except Exception as error:
            raise invalid(self.node.name, name, value, error) from error


def quick(tables: Tables, result: Any, handed: Any) -> list[tuple[str, Any]] | None:
    """The writes of the common case, a dict of known keys and new values; None for anything else.

    `Reader.read` says the same of it, and is the oracle of its test.
    """
    if type(result) is not dict or not tables.quick_keys:
        return None
    update: dict[str, Any] = result  # pyright: ignore[reportUnknownVariableType] - a cast would cost a call
    if update is handed or not tables.quick_keys >= update.keys():
        return None
    if only_atoms(map(type, update.values())):
        return list(update.items())
    writes: list[tuple[str, Any]] = []
    for name, value in update.items():
        if type(value) not in ATOMS:
            if type(value) is Overwrite or (type(handed) is not dict or handed.get(name) is value):  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] - a cast would cost a call
                return None
            try:
                value = admitted(value)  # noqa: PLW2901 - the write as it is kept
            except InvalidUpdateError:  # the reader says where
                return None
        writes.append((name, value))
    return writes


def followed_by(
    tables: Tables, writes: list[tuple[str, Any]], later: list[tuple[str, Any]]
) -> list[tuple[str, Any]]:
    """One task's writes and what it wrote afterwards: a key without a reducer takes the later value."""
    again = {name for name, _ in later}
    return [write for write in writes if write[0] not in again or not is_last(tables, write[0])] + later


def is_last(tables: Tables, name: str) -> bool:
    """Whether a key keeps the last value."""
    key = tables.keys.get(name)
    return key is None or key.merge == LAST


def invalid(node: str, key: str, value: Any, error: Exception) -> InvalidUpdateError:
    """The error for a write that the schema refuses."""
    return InvalidUpdateError(
        f"{who(node)} wrote a {type(value).__name__} to key {key!r} that its schema refuses: {error}. Nothing was applied",
        node=node,
        key=key,
    )


def undeclared(tables: Tables, node: Node, name: str) -> InvalidUpdateError:
    """The error for a write to a key that the graph doesn't have."""
    writer = who(node.name)
    if name in node.managed:
        return InvalidUpdateError(
            f"{writer} wrote {name!r}, a managed value that nodes only read", node=node.name, key=name
        )
    near = get_close_matches(name, tables.keys, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InvalidUpdateError(
        f"{writer} wrote the key {name!r}, which the state doesn't have.{hint} "
        f"Declared keys: {', '.join(sorted(tables.keys)) or 'none'}",
        node=node.name,
        key=name,
    )


def _pairs(update: Any) -> Sequence[tuple[str, Any]] | None:
    if isinstance(update, (list, tuple)) and all(
        isinstance(p, tuple) and len(cast("tuple[Any, ...]", p)) == 2 and isinstance(p[0], str)
        for p in cast("Sequence[Any]", update)
    ):
        return cast("Sequence[tuple[str, Any]]", update)
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


__all__ = ["Reader", "Returned", "invalid", "quick", "undeclared"]
