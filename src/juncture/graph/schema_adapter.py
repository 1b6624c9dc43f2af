"""Validation of single keys by pydantic's `TypeAdapter`, for types that don't validate themselves.

TypedDicts, dataclasses and single values are validated with ``validate=True`` only. Values are checked and coerced as
pydantic does it (``"1"`` becomes 1 for an int); classes that pydantic doesn't know are checked with ``isinstance``.
"""

from __future__ import annotations

from typing import Any, get_args, get_origin

from juncture.channels.hints import bare
from juncture.errors import GraphBuildError
from juncture.graph.schema_base import Field, Schema, refuse_unresolved, validates


def add_validators(schema: Schema) -> None:
    """Makes the schema validate its keys.

    Raises:
        GraphBuildError: Pydantic isn't installed, or can't validate one of the annotations.
    """
    try:
        from juncture.graph.schema_pydantic import adapter
    except ImportError as error:
        raise GraphBuildError(
            f"validate=True checks {schema.name} ({schema.kind}) with pydantic, which isn't installed. "
            "Install juncture[pydantic], or leave validate out"
        ) from error
    config = getattr(schema.type, "__pydantic_config__", {})
    for field in schema.fields.values():
        if field.managed is None:
            refuse_unresolved(schema.name, field.name, field.annotation)
            where = f"{schema.name}.{field.name}"
            schema.validators[field.name] = adapter(where, field.annotation, config)
            items = item_type(field)
            if items is not None:
                schema.item_validators[field.name] = adapter(where, items, config)


def item_type(field: Field) -> Any:
    """The type of one item, for lists without constraints or validators as a whole; None for anything else."""
    base, extras = bare(field.annotation)
    if any(map(validates, extras)):
        return None
    if base is list:
        return Any
    return get_args(base)[0] if get_origin(base) is list else None
