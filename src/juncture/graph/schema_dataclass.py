"""Dataclasses as schemas.

1. Keys are the fields and the ``InitVar``s that the constructor takes. An ``InitVar`` can be written like any key and
   is passed on at each construction; it can't be read off a returned object, which doesn't keep it.
2. A field with ``init=False`` is a key as well: its value is set on the instance after the constructor ran.
3. ``__post_init__`` runs at each construction; it is no check of the state, what it raises fails the node.
4. What pydantic makes of a dataclass is read in `schema_pydantic`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, cast, get_origin

from juncture.channels.hints import bare
from juncture.graph.schema_base import Field, ObjectSchema, field_of
from juncture.graph.schema_hints import generic_hints
from juncture.types import MISSING


def read_dataclass(tp: Any, cls: type, *, lenient: bool) -> ObjectSchema:
    """The schema of a dataclass of the standard library, or of a generic alias of one.

    Raises:
        GraphBuildError: An annotation can't be read, or has no meaning for a key.
    """
    fields = {f.name: f for f in _fields(tp, cls, lenient=lenient)}
    schema = ObjectSchema(tp, "dataclass", cls.__name__, fields, cls)
    constructed = {f.name: f for f in dataclasses.fields(cls)}
    schema.readable = tuple(f for f in schema.readable if f.name in constructed)
    schema.reworks = hasattr(cls, "__post_init__")
    schema.read_from_dict()
    after = frozenset(f.name for f in constructed.values() if not f.init)
    schema.build = _setting(cls, after) if after else calling(cls)
    return schema


def key_hints(tp: Any, cls: type) -> dict[str, Any]:
    """The annotations of a dataclass's keys by name: fields and ``InitVar``s, in the order of the constructor."""
    hints = generic_hints(tp)
    keys: dict[str, Any] = {}
    for name in _declared(cls):
        hint = hints.get(name, Any)
        plain = bare(hint)[0]
        if plain is not ClassVar and get_origin(plain) is not ClassVar:
            keys[name] = cast("Any", plain).type if isinstance(plain, dataclasses.InitVar) else hint
    return keys


def _declared(cls: Any) -> dict[str, dataclasses.Field[Any]]:
    """Its fields and those that only its constructor or its class have, which `dataclasses.fields` leaves out."""
    return cls.__dataclass_fields__


def _fields(tp: Any, cls: type, *, lenient: bool) -> list[Field]:
    declared = _declared(cls)
    fields: list[Field] = []
    for name, hint in key_hints(tp, cls).items():
        field = declared[name]
        default = MISSING if field.default is dataclasses.MISSING else field.default
        factory = MISSING if field.default_factory is dataclasses.MISSING else field.default_factory
        fields.append(
            field_of(
                cls.__name__,
                name,
                hint,
                required=field.init and default is MISSING and factory is MISSING,
                default=default,
                default_factory=factory,
                lenient=lenient,
            )
        )
    return fields


def calling(cls: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    """Builds by calling the class with the values as keywords."""

    def build(values: dict[str, Any]) -> Any:
        return cls(**values)

    return build


def _setting(cls: Callable[..., Any], after: frozenset[str]) -> Callable[[dict[str, Any]], Any]:
    def build(values: dict[str, Any]) -> Any:
        instance = cls(**{name: value for name, value in values.items() if name not in after})
        for name in after & values.keys():
            object.__setattr__(instance, name, values[name])  # also where the class is frozen
        return instance

    return build
