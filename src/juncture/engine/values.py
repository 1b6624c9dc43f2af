"""Copies at the border between user code and the state.

The rule of isolation: what crosses the border in either direction is a copy of the mutable built-in containers, nested
ones included; leaves are shared. So no list, dict or set of the committed state is ever reachable from user code, and
a node changes the state only by what it returns. Objects (messages, models, dataclasses) are leaves.

`copied` is for values that are known to be storable: out of the state. `admitted` is for what comes from outside: it
copies as well, and refuses what can never be state (streams, futures, coroutines, generators).

Cost: linear in the containers, about 15 ns an element where all elements are atoms (one C-level pass to see that, one
to copy), so a state of numbers and strings costs one `dict.copy`. In a long list of dicts of atoms (messages, rows) seeing
that costs twice what copying does; `Flat` remembers it, so that of a list that grows only what is new is looked at.
"""

from __future__ import annotations

import operator
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from operator import is_
from typing import Any, Final, TypeAlias, cast

from juncture.channels.strategies import Remove, ReplaceAll
from juncture.errors import InvalidUpdateError
from juncture.types import Overwrite

ATOMS: Final = frozenset({str, int, float, bool, type(None), bytes, complex})
"""Types whose instances are immutable and hold nothing: shared as they are."""

only_atoms = ATOMS.issuperset
_only_dicts = frozenset((dict,)).issuperset
_values_of, _copy_of = dict[Any, Any].values, dict[Any, Any].copy

Flat: TypeAlias = dict[str, list[Any]]
"""By key, the last of its lists that was found to hold nothing but dicts of atoms. That stays true: what is committed is
never changed in place, and the list holds its dicts, so none of them can be mistaken for another."""
LONG: Final = 16
"""From how many items on it pays to remember a list."""


def copied_values(values: dict[str, Any], flat: Flat | None = None) -> dict[str, Any]:
    """As `copied`, of the committed values of one state.

    Args:
        values: By key.
        flat: What was found so far in the values of this state, or of one that it was made from, and is to be found again;
            None where code outside can reach the containers, so that nothing stays as it was found.
    """
    if only_atoms(map(type, values.values())):
        return values.copy()
    return {k: v if type(v) in ATOMS else copied_value(k, v, flat) for k, v in values.items()}


def copied_value(key: str, value: Any, flat: Flat | None) -> Any:
    """As `copied`, of the committed value of a key; ``flat`` as in `copied_values`."""
    if type(value) is not list or flat is None or len(cast("list[Any]", value)) < LONG:
        return copied(value)
    items = cast("list[Any]", value)
    seen = flat.get(key)
    if seen is not items:
        known = (
            len(seen) if seen is not None and len(seen) <= len(items) and all(map(is_, seen, items)) else 0
        )
        if not _holds_flat_dicts(items[known:] if known else items):
            return copied(items)
        flat[key] = items
    return list(map(_copy_of, items))


def _holds_flat_dicts(value: list[Any]) -> bool:
    return _only_dicts(map(type, value)) and only_atoms(
        map(type, chain.from_iterable(map(_values_of, value)))  # at C speed
    )


def _copy_list(value: list[Any]) -> list[Any]:
    if only_atoms(map(type, value)):
        return value[:]
    if type(value[0]) is dict:
        if _holds_flat_dicts(value):
            return list(map(_copy_of, value))
    elif _no_containers(map(type, value)):
        return value[:]
    return [v if type(v) in ATOMS else copied(v) for v in value]


def copied_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    """The same as `copied`, for what is known to be a dict."""
    if only_atoms(map(type, value.values())):
        return value.copy()
    return {k: v if type(v) in ATOMS else copied(v) for k, v in value.items()}


def _copy_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if only_atoms(map(type, value)):
        return value
    new = tuple([v if type(v) in ATOMS else copied(v) for v in value])
    return value if all(map(_same, value, new)) else new


def _same(a: Any, b: Any) -> bool:
    return a is b


def _copy_deque(value: deque[Any]) -> deque[Any]:
    return deque([copied(v) for v in value], value.maxlen)


def _copy_ordered(value: OrderedDict[Any, Any]) -> OrderedDict[Any, Any]:
    return OrderedDict((k, copied(v)) for k, v in value.items())


def _copy_counter(value: Counter[Any]) -> Counter[Any]:
    return Counter({k: copied(v) for k, v in value.items()})


def _copy_defaultdict(value: defaultdict[Any, Any]) -> defaultdict[Any, Any]:
    return defaultdict(value.default_factory, {k: copied(v) for k, v in value.items()})


def _copy_overwrite(value: Overwrite[Any]) -> Overwrite[Any]:
    return Overwrite(copied(value.value))


def _copy_remove(value: Remove) -> Remove:
    return Remove(copied(value.value))


def _copy_replace_all(value: ReplaceAll) -> ReplaceAll:
    return ReplaceAll(copied(value.items))


WRAPPERS: Final[Mapping[type, Callable[[Any], Any]]] = {
    Overwrite: operator.attrgetter("value"),
    Remove: operator.attrgetter("value"),
    ReplaceAll: operator.attrgetter("items"),
}
"""Marks around a written value, and how to get at what is in them."""

CONTAINERS: Final = dict[type, Callable[[Any], Any]](
    {
        list: _copy_list,
        dict: copied_dict,
        tuple: _copy_tuple,
        set: set[Any].copy,
        bytearray: bytearray.copy,
        deque: _copy_deque,
        OrderedDict: _copy_ordered,
        defaultdict: _copy_defaultdict,
        Counter: _copy_counter,
        Overwrite: _copy_overwrite,
        Remove: _copy_remove,
        ReplaceAll: _copy_replace_all,
    }
)
"""How each built-in container, and each mark around a written value, is copied; by exact type, so that a subclass is a leaf."""

_no_containers = CONTAINERS.keys().isdisjoint


def copied(value: Any) -> Any:
    """The value with its built-in containers copied, whatever is nested in what.

    Raises:
        InvalidUpdateError: It contains itself, or is nested deeper than Python's stack allows.
    """
    copy = CONTAINERS.get(type(value))  # pyright: ignore[reportUnknownArgumentType] - its type is what is asked for
    if copy is None:
        return value
    try:
        return copy(value)
    except RecursionError:
        raise _too_deep(value) from None


def admitted(value: Any) -> Any:
    """A copy of a value from outside, as `copied` makes it.

    Raises:
        InvalidUpdateError: It is or holds a stream, future, coroutine or generator, or contains itself.
    """
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the type of Any is asked for
    if kind in ATOMS:
        return value
    try:
        if kind is list:
            if only_atoms(map(type, value)):
                return value[:]
            return [v if type(v) in ATOMS else admitted(v) for v in value]
        if kind is dict:
            if only_atoms(map(type, value.values())):
                return value.copy()
            return {k: v if type(v) in ATOMS else admitted(v) for k, v in value.items()}
        if kind in CONTAINERS:
            for nested in _inside(kind, value):  # pyright: ignore[reportUnknownArgumentType] - the type of Any is asked for
                admitted(nested)
            return CONTAINERS[kind](value)
    except RecursionError:
        raise _too_deep(value) from None
    if is_stream(kind):  # pyright: ignore[reportUnknownArgumentType] - the type of Any is asked for
        raise InvalidUpdateError(
            f"a {kind.__name__} can't be part of the state: it is used up by reading it and can't be stored. "
            "Consume it in the node (list(...), await) and return what it gave"
        )
    return value


def _inside(kind: type, value: Any) -> Iterable[Any]:
    """What a container or mark holds that isn't an atom by its kind; of a mapping, its values."""
    if kind in WRAPPERS:
        return (WRAPPERS[kind](value),)
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    return () if kind is bytearray else value


def is_stream(kind: type) -> bool:
    """Whether instances of the type are iterators, awaitables or futures, which can't be stored."""
    return (
        hasattr(kind, "__next__")
        or hasattr(kind, "__await__")
        or hasattr(kind, "__anext__")
        or hasattr(kind, "add_done_callback")
    )


def _too_deep(value: Any) -> InvalidUpdateError:
    return InvalidUpdateError(
        f"a {type(value).__name__} contains itself or is nested too deeply to be copied; "
        "state values must be trees of containers"
    )


_MAPPINGS: Final = frozenset({dict, OrderedDict, defaultdict, Counter})


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal with their types, containers item by item; ``[1]`` and ``[True]`` are not.

    Values that can't be compared (arrays) count as different unless they are one object.
    """
    if a is b:
        return True
    kind = type(a)  # pyright: ignore[reportUnknownVariableType] - the type of Any is asked for
    if kind is not type(b):
        return False
    if kind in ATOMS:
        return bool(a == b)
    if kind is list or kind is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    if kind in _MAPPINGS:
        left: dict[Any, Any] = a
        right: dict[Any, Any] = b
        return (
            len(left) == len(right)
            and all(map(same, left, right))
            and all(map(same, left.values(), right.values()))
        )
    if kind is set or kind is frozenset:
        return len(a) == len(b) and {(type(v), v) for v in a} == {(type(v), v) for v in b}
    if kind is deque:
        return a.maxlen == b.maxlen and len(a) == len(b) and all(map(same, a, b))
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001 - whatever a comparison raises, it doesn't say that they are equal
        return False


def is_handed_out(kind: type) -> bool:
    """Whether the identity of a returned value can tell that it is what was handed out.

    Containers are handed out as fresh copies, so the same object can only be that copy. Atoms and tuples may be the
    same object by interning, so returning one is always a write.
    """
    return kind not in ATOMS and kind is not tuple
