"""Options that hold JSON: the text itself, ``@file``, or ``-`` for standard input.

What is read is JSON and not more: NaN, and a key that stands twice in an object, are refused as errors, because one
of the two values would be lost.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from math import isinf
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from juncture.errors import ConfigError

_KINDS: Final[Mapping[type, str]] = {list: "an array", str: "a string", bool: "a boolean"}


def read_options(given: Sequence[tuple[str, str | None]]) -> list[Any]:
    """The values of several options, in their order; None for one that wasn't given.

    Args:
        given: Pairs of the option's name, as it is typed, and its text.

    Raises:
        ConfigError: One isn't JSON (with line and column), its file can't be read, or two want standard input.
    """
    from_stdin = [option for option, text in given if text == "-"]
    if len(from_stdin) > 1:
        raise ConfigError(
            f"{' and '.join(from_stdin)} can't both be read from standard input: give one of them as @file"
        )
    return [None if text is None else _read(option, text) for option, text in given]


def as_object(option: str, value: Any) -> dict[str, Any] | None:
    """A value that must be a JSON object; None if the option wasn't given.

    Raises:
        ConfigError: It is something else.
    """
    if value is None or isinstance(value, dict):
        return cast("dict[str, Any] | None", value)
    kind = next((name for cls, name in _KINDS.items() if isinstance(value, cls)), "a number")
    raise ConfigError(f"{option} is a JSON object such as '{{\"key\": 1}}', and not {kind}")


def _read(option: str, text: str) -> Any:
    if text == "-":
        if sys.stdin is None:
            raise ConfigError(f"{option} - reads standard input, which is closed")
        return read_text(f"{option} (from standard input)", _decoded(option, sys.stdin.buffer.read()))
    if not text.startswith("@"):
        return read_text(option, text)
    path = Path(text[1:])
    if path == Path():
        raise ConfigError(f"{option} @ names no file: {option} @input.json")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{option}: the file {str(path)!r} can't be read: {error.strerror or error}. "
            f"A relative path starts at {str(Path.cwd())!r}"
        ) from error
    return read_text(f"{option} (from {path})", _decoded(f"{option} (from {path})", content))


def _decoded(option: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{option} isn't UTF-8: byte {error.start} is 0x{content[error.start]:02x}. Save it as UTF-8"
        ) from error


def read_text(option: str, text: str) -> Any:
    """A text that is JSON; `option` is what it is called in messages.

    Raises:
        ConfigError: It isn't JSON, with line and column.
    """
    try:
        return json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_key_twice
        )
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1] if text.strip() else ""
        start = max(0, error.colno - 61)
        shown = line[start : start + 76]
        pointer = (
            f"\n    {shown}\n    {' ' * (error.colno - 1 - start)}^" if shown.isprintable() and shown else ""
        )
        advice = (
            ""
            if "\n" in text or "(" in option or not option.startswith("--")
            else '\n  In a shell, put it in single quotes: \'{"key": "value"}\''
        )
        raise ConfigError(
            f"{option} isn't JSON: line {error.lineno}, column {error.colno}: {error.msg}{pointer}{advice}"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(f"{option} can't be read as JSON: {reason}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} isn't JSON. Write null, or a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise ValueError(f"the number {digits} is larger than a float can be. Write it as a string")
    return number


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object. Keep one")
    return found
