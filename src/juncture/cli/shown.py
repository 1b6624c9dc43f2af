"""Any value as JSON, honestly: what JSON doesn't know can be told from what it does.

===============================================  ================================================================
value                                            JSON
===============================================  ================================================================
None, booleans, integers, finite floats, text    themselves
lists, tuples                                    arrays
mappings whose keys are text                     objects
dataclasses, pydantic models, msgspec structs,   objects of their fields
named tuples
other mappings                                   ``{"$pairs": [[key, value], …]}``
sets                                             ``{"$set": […]}``, in the order of the items' JSON
anything else, also enums, bytes, NaN, what      ``{"$repr": "…"}``: Python's `repr`
contains itself or is nested too deeply
integers of more than 600 digits                 ``{"$repr": "0x…"}``
===============================================  ================================================================
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from math import isfinite
from typing import Any, Final, cast

_LONG: Final = 2_000
"""How many bits an integer may have to be a number of JSON: safely less than the digits that Python may be set to allow."""
DEPTH: Final = 100
"""How deep a value may be nested; what lies deeper is shown as its `repr`."""


def line_of(value: Any) -> str:
    """A value as one line of JSON, without the line's end. Never raises for the value's sake."""
    text = json.dumps(shown(value), ensure_ascii=False, separators=(", ", ": "), allow_nan=False)
    # What is no text (half of a surrogate pair) can't be written as UTF-8: it becomes JSON's own escape.
    return text.encode("utf-8", "backslashreplace").decode()


def shown(value: Any, above: tuple[int, ...] = ()) -> Any:
    """A value made of what JSON knows; `above` are the ids of the values that it stands in."""
    try:
        return _plain(value, above)
    except Exception:  # noqa: BLE001 - a user's class may raise anything when it is looked into
        return marked(value)


def marked(value: Any) -> dict[str, str]:
    """What JSON doesn't know."""
    return {"$repr": described_value(value)}


def described_value(value: Any) -> str:
    """The `repr` of a value, or that there is none."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - whatever its own code raises, there is still its class
        return f"<{type(value).__name__} that can't be shown>"


def message_of(error: BaseException) -> str:
    """What an exception says; empty if it says nothing, or can't."""
    if isinstance(error, SystemExit):
        return f"exit({'' if error.code is None else described_value(error.code)})"
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever its own code raises, there is still its class
        return ""


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, Enum):
        return marked(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        # One that Python refuses to write with its digits still has a `repr` that is Python.
        return int(value) if value.bit_length() < _LONG else {"$repr": hex(value)}
    if isinstance(value, float):
        return float(value) if isfinite(value) else marked(value)
    if id(value) in above or len(above) >= DEPTH:
        return marked(value)
    return _composed(value, (*above, id(value)))


def _composed(value: Any, above: tuple[int, ...]) -> Any:
    names = fields_of(value)
    if names is not None:
        return {name: shown(getattr(value, name), above) for name in names}
    if isinstance(value, (list, tuple)):
        return [shown(item, above) for item in cast("Iterable[Any]", value)]
    if isinstance(value, Mapping):
        items = [(key, shown(item, above)) for key, item in cast("Mapping[Any, Any]", value).items()]
        if all(type(key) is str for key, _ in items):
            return dict(items)
        return {"$pairs": [[shown(key, above), item] for key, item in items]}
    if isinstance(value, AbstractSet):
        return {
            "$set": sorted((shown(item, above) for item in cast("AbstractSet[Any]", value)), key=json.dumps)
        }
    return marked(value)


def fields_of(value: Any) -> list[str] | None:
    """The names of a value's fields, if its class declares some."""
    cls = cast("Any", type(value))
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    if hasattr(cls, "model_dump") and isinstance(getattr(cls, "model_fields", None), Mapping):
        return [*cls.model_fields, *(getattr(value, "model_extra", None) or ())]
    if hasattr(cls, "__struct_fields__"):
        return list(cls.__struct_fields__)
    if isinstance(value, tuple) and hasattr(cls, "_fields"):
        return list(cls._fields)
    return None
