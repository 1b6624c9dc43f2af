"""Reducers of (old, new) for common cases, to put in an annotation or to name as a key's strategy.

They are values: equal by content, and callable. None of them ever changes ``old``, which they say with ``pure``. Any
other callable of (old, new) is a strategy as well.

A reducer may have two attributes that are known here:

``pure``         True: it neither changes ``old`` nor keeps it anywhere but in its result, so the engine can spare the
                 copy that it makes for others.
``first_write``  A function of the first write to a key that has no value: what is stored. Without it, the write is.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import operator
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from juncture.errors import InvalidUpdateError

_OPERATORS: Final = "add and_ concat floordiv mod mul or_ pow sub truediv xor"
_PURE_BUILTINS: Final = frozenset[object](
    [max, min, *(getattr(operator, name) for name in _OPERATORS.split())]
)


def _plain(reducer: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(reducer, functools.partial):
        reducer = cast("Callable[..., Any]", reducer.func)
    return reducer


def is_pure(reducer: Callable[..., Any]) -> bool:
    """Whether a reducer is known never to change ``old`` nor to keep it anywhere but in its result."""
    known = _plain(reducer)
    if getattr(known, "pure", False) is True:
        return True
    try:
        return known in _PURE_BUILTINS
    except TypeError:  # a callable that can't be hashed is none of them
        return False


def first_write_of(reducer: Callable[..., Any]) -> Callable[[Any], Any] | None:
    """What makes the first value of a key from the first write to it; None if that write is stored as it is."""
    return getattr(_plain(reducer), "first_write", None)


@dataclass(frozen=True, slots=True)
class Replace:
    """Takes the new value, ``None`` included. As a key's strategy it takes one write a step, like no reducer."""

    pure: ClassVar[bool] = True

    def __call__(self, old: Any, new: Any) -> Any:
        """The new value."""
        return new


@dataclass(frozen=True, slots=True)
class Remove:
    """Written to an `Append` key, alone or in a list: takes the first item that equals `value` out of the old list.

    If there is none, nothing happens: it is gone as it should be.
    """

    value: Any


@dataclass(frozen=True, slots=True)
class ReplaceAll:
    """Written to an `Append` key: its items are the new list. What other nodes append later in the step is added."""

    items: list[Any] | tuple[Any, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.items, (list, tuple)):
            raise TypeError(f"ReplaceAll takes the new items as a list, got {type(self.items).__qualname__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Appends to a list. The result is always a list, and a new one where anything changed.

    * What is written is one item; a list, tuple or deque is flattened one level (a named tuple is an item). A set
      has no order and is refused.
    * ``None`` appends nothing. To append ``None`` itself, write ``[None]``.
    * `Remove` takes out and isn't stored; `ReplaceAll` starts the list anew.
    * An old value that isn't a list is the first item of the new one; ``None`` is none.

    Source:
        Spring AI Alibaba's AppendStrategy, which throws an old value away that isn't a list.
    """

    distinct: bool = False
    """Keep only the first of equal items, over the whole list; items needn't be hashable."""
    pure: ClassVar[bool] = True

    def __call__(self, old: Any, new: Any) -> list[Any]:
        """The old list with the new items.

        Raises:
            InvalidUpdateError: A set, or a `ReplaceAll` among other items.
        """
        if isinstance(new, ReplaceAll):
            return self._finished(list(new.items))
        kept = cast("list[Any]", old) if isinstance(old, list) else _items(old)
        added = _items(new)
        if not added:
            return kept
        removed = [item.value for item in added if isinstance(item, Remove)]
        if removed:
            kept = _without(kept, removed)
            added = [item for item in added if not isinstance(item, Remove)]
        if any(isinstance(item, ReplaceAll) for item in added):
            raise InvalidUpdateError(
                "a ReplaceAll stands in a list with other items, and what becomes of those is unclear. "
                "Write it alone, with all items in it"
            )
        return self._finished([*kept, *added])

    def first_write(self, new: Any) -> list[Any]:
        """The items written, as a list."""
        return self([], new)

    def _finished(self, items: list[Any]) -> list[Any]:
        return _distinct(items) if self.distinct else items


_SEQUENCES: Final[tuple[Any, ...]] = (list, tuple, deque)


def _items(value: Any) -> list[Any]:
    """The items that a value stands for."""
    if value is None:
        return []
    if isinstance(value, (set, frozenset)):
        raise InvalidUpdateError(
            "a set has no order, so what the list would look like is unclear. "
            "Write a list in the order that you mean, or the set within a list to append it whole"
        )
    if isinstance(value, _SEQUENCES) and not hasattr(value, "_fields"):
        return list(value)
    return [value]


def _without(items: list[Any], removed: list[Any]) -> list[Any]:
    left = list(items)
    for value in removed:
        if value in left:
            left.remove(value)
    return left


def _distinct(items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    hashed: set[Any] = set()
    unhashable: list[Any] = []
    for item in items:
        try:
            known = item in hashed or item in unhashable
            if not known:
                hashed.add(item)
        except TypeError:
            known = item in kept
            if not known:
                unhashable.append(item)
        if not known:
            kept.append(item)
    return kept


@dataclass(frozen=True, slots=True)
class Merge:
    """Merges two values of one kind.

    * ``None`` says nothing: the other value stays.
    * Two mappings: a new one like the old, with the new one's entries (not merged any deeper).
    * Two objects of one class with fields that can be set: a copy of the old one with those fields of the new one
      that aren't ``None``; mappings and objects in fields are merged in the same way. Dataclasses, pydantic models,
      msgspec structs, and plain classes that can be called without arguments have such fields; frozen ones
      don't.
    * Anything else of one class: the new value.

    Source:
        Spring AI Alibaba's MergeStrategy.
    """

    pure: ClassVar[bool] = True

    def __call__(self, old: Any, new: Any) -> Any:
        """The merged value.

        Raises:
            InvalidUpdateError: The values are of different classes, and not both mappings.
        """
        if old is None or new is None or type(old) is type(new) or _are_mappings(old, new):
            return _merged(old, new)
        raise InvalidUpdateError(
            f"Cannot merge incompatible types: {type(old).__qualname__} and {type(new).__qualname__}. "
            "Write a value of the old one's class, or Overwrite(value) to replace it"
        )


def _are_mappings(old: Any, new: Any) -> bool:
    return isinstance(old, Mapping) and isinstance(new, Mapping)


def _merged(old: Any, new: Any) -> Any:
    if new is None:
        return old
    if _are_mappings(old, new):
        return _union(old, new)
    if type(old) is not type(new):
        return new
    names = _settable(old, new)
    if not names:
        return new
    given = {name: value for name in names if (value := getattr(new, name, None)) is not None}
    changed = {name: _merged(getattr(old, name, None), value) for name, value in given.items()}
    if hasattr(old, "model_copy"):
        return old.model_copy(update=changed)
    merged = copy.copy(old)
    for name, value in changed.items():
        setattr(merged, name, value)
    return merged


def _union(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> Mapping[Any, Any]:
    if type(old) is dict or not isinstance(old, MutableMapping):
        return {**old, **new}
    union = copy.copy(old)
    for key, value in new.items():  # not update(): a Counter would add
        union[key] = value
    return union


def _settable(old: Any, new: Any) -> list[str]:
    """The names of the fields that can be merged one by one; none if the class has no fields or is frozen."""
    kind = cast("Any", type(old))
    if dataclasses.is_dataclass(kind):
        frozen = cast("Any", kind).__dataclass_params__.frozen
        return [] if frozen else [field.name for field in dataclasses.fields(kind)]
    if hasattr(kind, "model_fields"):
        frozen = kind.model_config.get("frozen")
        return [] if frozen else [*kind.model_fields, *(new.__pydantic_extra__ or ())]
    if hasattr(kind, "__struct_fields__"):
        return [] if kind.__struct_config__.frozen else list(kind.__struct_fields__)
    return [*vars(new)] if hasattr(old, "__dict__") and _made_without_arguments(kind) else []


def _made_without_arguments(kind: type) -> bool:
    """Whether all state of its instances is in their attributes, and it can be called without arguments."""
    # Enums, exceptions and subclasses of built-in types have another, and keep state elsewhere.
    if kind.__new__ is not object.__new__:
        return False
    try:
        inspect.signature(kind).bind()
    except (TypeError, ValueError):
        return False
    return True
