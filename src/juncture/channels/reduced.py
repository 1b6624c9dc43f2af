"""Keys with a reducer: several writes in one step are merged by a function of (old, new), in plan order.

`fold` is the whole rule. Strict, which is the default:

* Before the first write there is the zero of the type: ``[]``, ``{}``, ``set()`` or ``""`` for lists, dicts, sets and
  strings (their generics included), and 0 for ``int`` and ``float`` where the reducer adds. No other type has one.
* The first write of a key without a zero is stored as it is, or as the reducer's ``first_write`` makes it.
* An overwrite replaces what the step's earlier writes left; later ones are merged into its value. Two are refused.
* `MARK_FOR_REMOVAL` removes the key. Later writes of the same step start anew from the zero, as does the first write
  of a later step; without one the key is absent.

Lenient, as LangGraph 1.2.24: the zero is ``typ()`` for everything that can be called without arguments; the first
write of a key without one is stored as it is even if it is an `Overwrite`; writes after an overwrite are ignored.
"""

from __future__ import annotations

import collections.abc
import operator as operators
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, get_origin

from juncture.channels.base import Channel, Reducer
from juncture.channels.hints import bare
from juncture.channels.marks import last_replacement, replacement
from juncture.channels.strategies import first_write_of, is_pure
from juncture.types import MARK_FOR_REMOVAL, MISSING

_CONCRETE: Final[dict[Any, Callable[[], Any]]] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
"""What stands for an abstract container."""
_ZEROS: Final[dict[Any, Callable[[], Any]]] = {list: list, dict: dict, set: set, str: str, **_CONCRETE}


def zero_of(typ: Any, reducer: Callable[..., Any] | None = None, *, lenient: bool = False) -> Any:
    """The value before the first write, new each time; `MISSING` where the type has none.

    Args:
        typ: As annotated; its arguments don't matter (``list[int]`` is a list).
        reducer: ``operator.add`` gives numbers a zero.
        lenient: Call any type that can be called without arguments.
    """
    typ, _ = bare(typ)
    typ = get_origin(typ) or typ
    if lenient:
        try:
            return (_CONCRETE.get(typ) or typ)()
        except Exception:  # noqa: BLE001 - whatever a type raises when it is called without arguments: it has no zero
            return MISSING
    if typ in (int, float) and reducer is operators.add:
        return typ()
    zero = _ZEROS.get(typ) if isinstance(typ, type) else None
    return MISSING if zero is None else zero()


def fold(
    reducer: Reducer,
    stored: Any,
    writes: Sequence[Any],
    *,
    initial: Callable[[], Any] = lambda: MISSING,
    lenient: bool = False,
) -> Any:
    """What is stored after the writes of one step; `MISSING` if they removed the key.

    Args:
        reducer: Merges (old, new). It is called for ordinary writes only, and not for those that an overwrite or
            removal of the same step replaces.
        stored: The value so far, `MISSING` for none. It is what ``reducer`` gets as its first ``old``.
        writes: In plan order, as they were written.
        initial: Gives the zero to start from where nothing is stored; `MISSING` for none.
        lenient: Follow LangGraph where it differs; see the module.

    Raises:
        InvalidUpdateError: Two overwrites, or an overwrite and a removal.
        Exception: Whatever the reducer raises.
    """
    make = first_write_of(reducer)
    if lenient and stored is MISSING and make is None and writes and initial() is MISSING:
        stored, writes = _as_it_is(writes[0]), writes[1:]
    place, value = last_replacement(writes)
    if place < 0:
        value = stored
    elif lenient and value is not MISSING:
        return value
    for write in writes[place + 1 :]:
        if value is MISSING:
            value = initial()
        if value is not MISSING:
            value = reducer(value, write)
        elif make is not None:
            value = make(write)
        else:
            value = write
    return value


def _as_it_is(write: Any) -> Any:
    """The write, wrapper and all, unless it removes."""
    return MISSING if replacement(write) is MARK_FOR_REMOVAL else write


class BinaryOperatorAggregate(Channel):
    """Merges every write into the value with a reducer. Its rules are those of the module."""

    __slots__ = ("lenient", "operator")
    reduces: ClassVar[bool] = True

    def __init__(self, typ: Any, operator: Reducer, *, lenient: bool = False) -> None:
        """Takes the type of the value, the function of (old, new), and whether to follow LangGraph where it differs."""
        super().__init__(typ)
        self.operator = operator
        self.lenient = lenient

    @property
    def pure(self) -> bool:
        """Whether the reducer is known to leave the old value alone."""
        return is_pure(self.operator)

    def initial(self) -> Any:
        """The zero of the type, if it has one."""
        return zero_of(self.typ, self.operator, lenient=self.lenient)

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """The value with the writes merged into it."""
        return fold(self.operator, stored, writes, initial=self.initial, lenient=self.lenient)
