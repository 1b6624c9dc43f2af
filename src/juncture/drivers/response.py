"""What a question wants as its answer: the type that was given with it, as a check and as a JSON schema.

Structs are checked by msgspec, every other type by pydantic's `TypeAdapter`; what pydantic doesn't know, by msgspec as well
if it is there. Neither is imported before a question with a type is asked. An answer is coerced as they do it for a state
that is validated, and the node gets what they make of it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_origin

from juncture.errors import ConfigError


class Response(NamedTuple):
    """A type of answers."""

    check: Callable[[Any], Any]
    """What the node gets for an answer. Raises ValueError, saying why, for one that isn't of the type."""
    describe: Callable[[], Mapping[str, Any]]
    """The JSON schema."""


def response_of(tp: Any) -> Response:
    """A type as a check of answers; what is one already stays it.

    Raises:
        ConfigError: The libraries that could check it aren't installed, or don't know it.
    """
    if isinstance(tp, Response):
        return tp
    reason: Exception | None = None
    if not _is_struct(tp):
        try:
            return importlib.import_module("juncture.drivers.response_pydantic").response_of(tp)
        except (ImportError, TypeError) as error:
            reason = error
    try:
        return _of_msgspec(tp)
    except (ImportError, TypeError) as error:
        reason = reason or error
    if isinstance(reason, ImportError):
        raise ConfigError(
            f"an answer of the type {tp!r} is checked with pydantic (or msgspec), which isn't installed. Install "
            "juncture[pydantic], or leave response_type out"
        ) from reason
    raise ConfigError(
        f"response_type={tp!r} can't be checked: {reason}. Give a type that pydantic or msgspec knows: a builtin type, a "
        "Literal, an Enum, a dataclass, a TypedDict, a model, a struct, or a union or list of those"
    ) from reason


def _is_struct(tp: Any) -> bool:
    msgspec = sys.modules.get("msgspec")
    cls = get_origin(tp) or tp
    return msgspec is not None and isinstance(cls, type) and issubclass(cls, msgspec.Struct)


def _of_msgspec(tp: Any) -> Response:
    import msgspec

    def check(answer: Any) -> Any:
        try:
            return msgspec.convert(answer, tp)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    schema = msgspec.json.schema(tp)  # raises for a type that has no form in JSON
    return Response(check, lambda: schema)


__all__ = ["Response", "response_of"]
