"""Types of answers, checked by pydantic. Imported only where a question has a type and pydantic is there.

The JSON schema tells people what to answer, and answers are judged by it beforehand (`juncture.engine.answers`). Where a
type takes more than pydantic's schema says, the part is marked `UNSURE`: validators that see a value first, enums with a
``_missing_``, fields with several names, numbers taken as text, iterables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, PydanticInvalidForJsonSchema, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from juncture.drivers.response import Response
from juncture.engine.answers import UNSURE

if TYPE_CHECKING:
    from pydantic_core import core_schema


def response_of(tp: Any) -> Response:
    """A type as a check of answers.

    Raises:
        TypeError: Pydantic doesn't know it.
    """
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(tp)
    except PydanticSchemaGenerationError as error:
        raise TypeError(str(error).partition("\n")[0]) from error
    except PydanticUserError as error:
        raise TypeError(error.message) from error

    def check(answer: Any) -> Any:
        try:
            return adapter.validate_python(answer)
        except ValidationError as error:
            raise ValueError(_told(error)) from None

    def describe() -> Mapping[str, Any]:
        try:
            return adapter.json_schema(schema_generator=_Schema)
        except PydanticInvalidForJsonSchema:
            return {"title": getattr(tp, "__name__", None) or repr(tp), UNSURE: True}

    return Response(check, describe)


def _told(error: ValidationError) -> str:
    """What is wrong, without pydantic's addresses."""
    told: list[str] = []
    for each in error.errors(include_url=False, include_context=False):
        place = ".".join(str(step) for step in each["loc"])
        told.append(f"{place}: {each['msg']}" if place else each["msg"])
    return "; ".join(told)


def _unsure(schema: JsonSchemaValue) -> JsonSchemaValue:
    return {**schema, UNSURE: True}


class _Schema(GenerateJsonSchema):
    """Pydantic's schema, with marks where the type takes more than it says."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        return _unsure(super().function_before_schema(schema))

    def function_wrap_schema(self, schema: core_schema.WrapValidatorFunctionSchema) -> JsonSchemaValue:
        return _unsure(super().function_wrap_schema(schema))

    def function_plain_schema(self, schema: core_schema.PlainValidatorFunctionSchema) -> JsonSchemaValue:
        return _unsure(super().function_plain_schema(schema))

    def generator_schema(self, schema: core_schema.GeneratorSchema) -> JsonSchemaValue:
        return _unsure(super().generator_schema(schema))

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        made = super().enum_schema(schema)
        return _unsure(made) if schema.get("missing") is not None else made

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        made = super().str_schema(schema)
        coerces = schema.get("coerce_numbers_to_str", self._config.coerce_numbers_to_str)
        return _unsure(made) if coerces else made

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        config: ConfigDict = schema["cls"].model_config
        return _unsure(made) if _by_name(config) or _renamed(schema) else made

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        made = super().dataclass_schema(schema)
        return _unsure(made) if _by_name(schema.get("config", {})) or _renamed(schema) else made

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        made = super().typed_dict_schema(schema)
        return _unsure(made) if _by_name(schema.get("config", {})) or _renamed(schema) else made


def _by_name(config: Mapping[str, Any]) -> bool:
    """Whether fields may be given by their own name as well as by an alias."""
    return bool(config.get("populate_by_name") or config.get("validate_by_name"))


def _renamed(schema: Any) -> bool:
    """Whether a field has an alias of several names or a path."""
    found = schema if schema["type"] == "typed-dict" else schema["schema"]
    while "fields" not in found:
        if "schema" not in found:
            return False
        found = found["schema"]  # what is around the fields
    fields: Any = found["fields"]
    each: Any = fields.values() if hasattr(fields, "values") else fields
    return any(not isinstance(field.get("validation_alias", ""), str) for field in each)


__all__ = ["response_of"]
