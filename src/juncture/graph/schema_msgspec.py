"""`msgspec.Struct` as a schema. Imported only where a struct was given, so msgspec is there.

1. Keys are the fields' names in Python, whatever ``rename`` makes of them in a message.
2. Constructing a struct validates nothing, so keys are validated by `msgspec.convert` when they are written. It is
   strict as msgspec is: ``"1"`` is no int.
3. A field that holds ``UNSET`` wasn't set.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import NODEFAULT, UNSET, ValidationError, convert

from juncture.errors import GraphBuildError
from juncture.graph.schema_adapter import item_type
from juncture.graph.schema_base import Field, ObjectSchema, Validate, field_of, refuse_unresolved
from juncture.graph.schema_dataclass import calling
from juncture.graph.schema_hints import generic_hints
from juncture.types import MISSING


class MsgspecSchema(ObjectSchema):
    """The schema of a struct."""

    def written(self, new: Any) -> dict[str, Any]:
        """See `ObjectSchema.written`; a field that is ``UNSET`` wasn't written."""
        return {name: value for name, value in super().written(new).items() if value is not UNSET}


def read_msgspec(tp: Any, cls: type, *, lenient: bool, validates: bool) -> ObjectSchema:
    """The schema of a struct, or of a generic alias of one.

    Raises:
        GraphBuildError: An annotation can't be read, or has no meaning for a key.
    """
    fields = {f.name: f for f in _fields(tp, cls, lenient=lenient)}
    schema = MsgspecSchema(tp, "msgspec", cls.__name__, fields, cls)
    schema.reworks = hasattr(cls, "__post_init__")
    schema.build = calling(cls)
    schema.read = _reading(tuple(f.name for f in schema.readable))
    if validates:
        for field in schema.readable:
            refuse_unresolved(schema.name, field.name, field.annotation)
            schema.validators[field.name] = _validator(schema.name, field, field.annotation)
            items = item_type(field)
            if items is not None:
                schema.item_validators[field.name] = _validator(schema.name, field, items)
    return schema


def _reading(names: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    if len(names) < 2:
        return lambda struct: {name: getattr(struct, name) for name in names}
    values = attrgetter(*names)
    return lambda struct: dict(zip(names, values(struct), strict=True))


def _fields(tp: Any, cls: Any, *, lenient: bool) -> list[Field]:
    hints = generic_hints(tp)
    names: tuple[str, ...] = cls.__struct_fields__
    defaults: tuple[Any, ...] = cls.__struct_defaults__  # of the last fields
    padded = (NODEFAULT,) * (len(names) - len(defaults)) + defaults
    found: list[Field] = []
    for name, default in zip(names, padded, strict=True):
        factory = (
            getattr(default, "factory", MISSING)
            if type(default).__module__.startswith("msgspec")
            else MISSING
        )
        found.append(
            field_of(
                cls.__name__,
                name,
                hints[name],
                required=default is NODEFAULT,
                default=default if default is not NODEFAULT and factory is MISSING else MISSING,
                default_factory=factory,
                lenient=lenient,
            )
        )
    return found


def _validator(owner: str, field: Field, annotation: Any) -> Validate:
    def validate(value: Any) -> Any:
        return convert(value, annotation)

    try:
        validate(None)
    except ValidationError:
        pass  # None isn't of that type
    except TypeError as error:
        raise GraphBuildError(
            f"msgspec can't validate {owner}.{field.name} ({annotation!r}): {error}. "
            "Annotate it with a type that msgspec knows, or build the graph with strict=False, which validates nothing",
            key=field.name,
        ) from error
    return validate
