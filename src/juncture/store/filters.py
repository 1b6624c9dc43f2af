"""What a search compares: filters, sorting, and the plain query of a store without an index.

A filter names fields of the value, each with what it must be. A field that isn't there counts as None. ::

    {"kind": "note"}                        equal
    {"size": {"$gte": 3, "$lt": 9}}         every operator: $eq $ne $gt $gte $lt $lte
    {"author": {"name": "Ada"}}             in a field that is a dict: those fields, the same way
    {"tags": ["a", {"$gt": 3}]}             a list of as many elements, each the same way
    {"author": {"$eq": {"name": "Ada"}}}    equal as a whole

Names of fields are exact: a dot in one is part of the name. Equal are values that Python calls so, except that True is
no 1; a tuple and a list of the same are. Only like is ordered with like: numbers, texts, bytes, dates, and times with
or without a zone; anything else doesn't match.

Source: the operators of LangGraph's stores, which order everything as floats, and so fail on texts and times.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, cast

from juncture.errors import ConfigError
from juncture.store.base import Filter, SearchItem, Sort

_NUMBERS: Final = (int, float, Decimal, Fraction)
_ORDERED: Final = (str, bytes, datetime, date, time, timedelta)
_ORDERINGS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_OPERATORS: Final = ("$eq", "$ne", *_ORDERINGS)


# ---- filters


def check_filter(given: Filter | None) -> None:
    """Refuses a filter that can't be meant.

    Raises:
        ConfigError: It isn't one.
    """
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise ConfigError(f"a filter is a dict of fields and what they must be, not {given!r}.")
    for field, wanted in given.items():
        if not isinstance(field, str):
            raise ConfigError(f"a filter names fields by strings, not by {field!r}.")
        if field.startswith("$"):
            raise ConfigError(
                f"{field!r} stands where the filter names a field. Operators come after one: {{'size': {{{field!r}: …}}}}."
            )
        _check_wanted(wanted, field)


def _check_wanted(wanted: Any, where: str) -> None:
    if isinstance(wanted, (list, tuple)):
        for one in cast("Sequence[Any]", wanted):
            _check_wanted(one, where)
    if not isinstance(wanted, Mapping):
        return
    asked = cast("Mapping[Any, Any]", wanted)
    if not _has_operators(asked):
        for field, one in asked.items():
            if not isinstance(field, str):
                raise ConfigError(f"the filter for {where!r} names fields by strings, not by {field!r}.")
            _check_wanted(one, f"{where}.{field}")
        return
    for name, operand in asked.items():
        if name not in _OPERATORS:
            raise ConfigError(
                f"the filter for {where!r} has {name!r} among its operators. There are: {', '.join(_OPERATORS)}."
            )
        if name in _ORDERINGS and (
            isinstance(operand, bool) or not isinstance(operand, (*_NUMBERS, *_ORDERED))
        ):
            raise ConfigError(
                f"the filter for {where!r} can't order by {name} {operand!r}: give a number, a text, a date or a time."
            )


def matches(value: Mapping[str, Any], given: Filter) -> bool:
    """Whether a value has everything that a checked filter asks for."""
    return all(_matches(value.get(field), wanted) for field, wanted in given.items())


def _matches(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        asked = cast("Mapping[str, Any]", wanted)
        if _has_operators(asked):
            return all(_holds(found, name, operand) for name, operand in asked.items())
        return isinstance(found, Mapping) and matches(cast("Mapping[str, Any]", found), asked)
    if isinstance(wanted, (list, tuple)):
        elements = cast("Sequence[Any]", wanted)
        if not isinstance(found, (list, tuple)):
            return False
        there = cast("Sequence[Any]", found)
        return len(there) == len(elements) and all(map(_matches, there, elements))
    return same(found, wanted)


def _holds(found: Any, name: str, operand: Any) -> bool:
    if name == "$eq":
        return same(found, operand)
    if name == "$ne":
        return not same(found, operand)
    if isinstance(found, _NUMBERS) and not isinstance(found, bool):
        alike = isinstance(operand, _NUMBERS)
    else:
        alike = type(found) is type(operand)
    try:
        return alike and bool(_ORDERINGS[name](found, operand))
    except TypeError:  # a time with a zone and one without
        return False


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, where True is no 1, and a tuple and a list of the same are."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        left, right = cast("Mapping[Any, Any]", one), cast("Mapping[Any, Any]", other)
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        first, second = cast("Sequence[Any]", one), cast("Sequence[Any]", other)
        return len(first) == len(second) and all(map(same, first, second))
    equal = one == other
    return equal if isinstance(equal, bool) else False  # an array says it for each element


def _has_operators(wanted: Mapping[Any, Any]) -> bool:
    return any(isinstance(name, str) and name.startswith("$") for name in wanted)


# ---- queries without an index


def mentions(key: str, value: Mapping[str, Any], text: str) -> bool:
    """Whether a text, casefolded, is in an item's key or in a text of its value."""
    return text in key.casefold() or _mentions(value, text)


def _mentions(value: Any, text: str) -> bool:
    if isinstance(value, str):
        return text in value.casefold()
    if isinstance(value, Mapping):
        return any(_mentions(one, text) for one in cast("Mapping[Any, Any]", value).values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_mentions(one, text) for one in cast("Sequence[Any]", value))
    return False


# ---- sorting


def checked_sort(sort: Sort | None) -> list[tuple[str, bool]]:
    """The fields to sort by, and whether each is descending.

    Raises:
        ConfigError: There is no such field.
    """
    named: Any = [] if sort is None else [sort] if isinstance(sort, str) else sort
    fields: list[tuple[str, bool]] = []
    for one in named:
        field = one.removeprefix("-") if isinstance(one, str) else ""
        if field not in _COLUMNS and not (field.startswith("value.") and field != "value."):
            raise ConfigError(
                f"items can't be sorted by {one!r}. They can by {', '.join(map(repr, _COLUMNS))}, and by 'value.' and the name "
                "of a field; with '-' before it, descending."
            )
        fields.append((field, one.startswith("-")))
    return fields


_COLUMNS: Final[dict[str, Callable[[SearchItem], Any]]] = {
    "created_at": lambda item: item.created_at,
    "updated_at": lambda item: item.updated_at,
    "key": lambda item: item.key,
    "namespace": lambda item: item.namespace,
}


def in_order(items: list[SearchItem], fields: Sequence[tuple[str, bool]]) -> None:
    """Sorts items, which come in their natural order, by checked fields."""
    for field, descending in reversed(fields):
        # Python's sort keeps what ties in its order, also where it is reversed.
        items.sort(key=_COLUMNS.get(field) or _by_value(field), reverse=descending)


def _by_value(field: str) -> Callable[[SearchItem], Any]:
    names = field.split(".")[1:]

    def key(item: SearchItem) -> Any:
        value: Any = item.value
        for name in names:
            value = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
        return _rank(value)

    return key


def _rank(value: Any) -> tuple[int, Any]:
    """A place in one order of everything: by kind, and within a kind by value."""
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, _NUMBERS):
        return (2, 0) if value != value else (3, value)  # noqa: PLR0124 - not a number: it has no place among them
    if isinstance(value, datetime):
        return (8 if value.tzinfo is None else 9), value
    for place, kind in enumerate((str, bytes, date, timedelta), 4):
        if type(value) is kind:
            return place, value
    return 10, 0
