"""Which texts of a value are indexed: paths into it.

::

    title            the field of that name
    author.name      a field in a field
    tags[0]          an element of a list; from the end, [-1]
    tags[*].label    every element
    {title,summary}  several fields
    $                the whole value, as JSON

What a path leads to is indexed as text: a string as it is, a number or a truth value written out, a dict or list as
JSON; None and what isn't there, not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias, cast

from juncture.errors import ConfigError

_Step: TypeAlias = str | int | tuple[str, ...] | None
"""A field, an element, several fields, or (None) every element."""
Path: TypeAlias = tuple[_Step, ...]

_TOKEN = re.compile(r"(?P<field>[^.\[\]{}$]+)|\[(?P<index>-?\d+|\*)\]|\{(?P<fields>[^{}]+)\}")


@lru_cache(maxsize=256)  # the paths of a program are few, and read at each put
def parsed(path: str) -> Path:
    """The steps of a path; none for ``$``.

    Raises:
        ConfigError: It isn't one.
    """
    if path == "$":
        return ()
    steps: list[_Step] = []
    at = 0
    while at < len(path):
        if steps and path[at] == ".":
            at += 1
            opens = False
        else:
            opens = bool(steps)
        found = _TOKEN.match(path, at)
        if found is None or (opens and found["index"] is None):
            raise _no_path(path)
        if found["field"] is not None:
            steps.append(found["field"])
        elif found["index"] is not None:
            steps.append(None if found["index"] == "*" else int(found["index"]))
        else:
            steps.append(tuple(name.strip() for name in found["fields"].split(",")))
        at = found.end()
    if not steps or path.endswith("."):
        raise _no_path(path)
    return tuple(steps)


def texts_at(value: Any, path: Path) -> list[str]:
    """The texts that a path leads to, in the order of the value."""
    return [text for found in values_at(value, path) if (text := _text(found)) is not None]


def values_at(value: Any, path: Path) -> list[Any]:
    """What a path leads to; empty where there is nothing."""
    found = [value]
    for step in path:
        found = [after for one in found for after in _after(one, step)]
    return found


def _after(value: Any, step: _Step) -> list[Any]:
    if isinstance(step, (str, tuple)):
        if not isinstance(value, Mapping):
            return []
        fields = cast("Mapping[str, Any]", value)
        names = (step,) if isinstance(step, str) else step
        return [fields[name] for name in names if name in fields]
    if not isinstance(value, (list, tuple)):
        return []
    elements = cast("list[Any]", value)
    if step is None:
        return list(elements)
    return [elements[step]] if -len(elements) <= step < len(elements) else []


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value or None
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return str(value)


def _no_path(path: str) -> ConfigError:
    return ConfigError(
        f"{path!r} isn't a path to texts of a value. Paths look like 'title', 'author.name', 'tags[0]', 'tags[*].label', "
        "'{title,summary}' or '$'."
    )
