"""Pydantic models and pydantic dataclasses as schemas. Imported only where one was given, so pydantic is there.

1. Keys are the names of the fields, in Python; aliases are for messages from outside and play no part here.
2. Strict: a key is validated when it is written, by the field's own part of the model's core schema, so constraints
   and field validators of every kind run, and an error looks as pydantic makes it. What a node is handed is then put
   together without validating again: defaults fill the gaps, ``model_fields_set`` is the given keys, private
   attributes and ``model_post_init`` are dealt with as by ``model_construct``.
3. Validators of the whole model run at the end of a step, on an instance put together in the same way. So do field
   validators that look at other fields (``info.data``): they can't be run while those may still change. Field
   validators that take ``info`` therefore run again at the end of each step.
4. Lenient: nothing is validated when written, and what a node is handed is validated each time, as in LangGraph.
5. A pydantic dataclass validates in its constructor, which makes what a node is handed, in both modes.

The core schema is what pydantic itself compiles models from. What is taken from it here: the ``model`` or
``dataclass`` node, the functions around it and inside it, and the fields' schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, PydanticUserError, RootModel, TypeAdapter, ValidationError
from pydantic.dataclasses import rebuild_dataclass
from pydantic_core import PydanticUndefined, SchemaError

from juncture.engine.values import ATOMS, CONTAINERS, copied, same
from juncture.errors import GraphBuildError
from juncture.graph.schema_base import (
    Field,
    ObjectSchema,
    Snapshot,
    Validate,
    default_of,
    field_of,
    refuse_unresolved,
)
from juncture.graph.schema_core import Core, Put, read_core
from juncture.graph.schema_dataclass import calling, key_hints
from juncture.graph.schema_hints import class_hints
from juncture.types import MISSING

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Build = Callable[[dict[str, Any]], Any]

_ANY_CLASS: Final = ConfigDict(arbitrary_types_allowed=True)


class PydanticSchema(ObjectSchema):
    """The schema of a model or of a pydantic dataclass."""

    core: Core | None = None
    """What validates it; None where nothing is validated when written."""
    check: Build | None = None
    """Runs what is left to the end of a step on copied values, and gives the instance."""

    def use_core(self, core: Core, check: Build) -> None:
        """Makes the schema validate its keys, and itself at the end of a step."""
        self.core, self.check = core, check
        for field in self.fields.values():
            if field.managed is None:
                self.validators[field.name] = core.validator(field.name)
                items = core.item_validator(field.name)
                if items is not None:
                    self.item_validators[field.name] = items
        self.has_model_check = core.checks_model

    def check_model(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """See `Schema.check_model`."""
        core, check = self.core, self.check
        if core is None or check is None or not core.checks_model:
            return {}
        incomplete = bool(self.missing(values))
        if incomplete and not core.runs_before:
            return {}
        given = {name: value for name, value in self.own(values).items() if self.fields[name].managed is None}
        try:
            checked = check({name: copied(value) for name, value in given.items()})
        except ValidationError as error:
            # A validator that runs before the fields may supply what is missing; this one didn't.
            if incomplete and all(each["type"] == "missing" for each in error.errors(include_url=False)):
                return {}
            raise
        return {f.name: now for f in self.readable if (now := _coerced(f, checked, given)) is not MISSING}


def _coerced(field: Field, checked: Any, given: Mapping[str, Any]) -> Any:
    """The field's value if validators of the whole model changed it; `MISSING` if not."""
    now = getattr(checked, field.name, MISSING)
    if field.name in given:
        return MISSING if same(now, given[field.name]) else now
    # Absent keys show defaults. They are changed if they were set, or if the default was changed in place.
    set_names: set[str] = getattr(checked, "__pydantic_fields_set__", set[str]())
    if field.name in set_names:
        return now
    return now if type(now) in CONTAINERS and not same(now, default_of(field)) else MISSING


class ModelSchema(PydanticSchema):
    """The schema of a model: pydantic knows which fields were set."""

    def snapshot(self, handed: Any, committed: Mapping[str, Any] | None = None) -> Snapshot | None:
        """See `Schema.snapshot`."""
        values = self.read(handed)
        committed = self.reference(values) if committed is None or self.reworks else committed
        return values, committed, frozenset(handed.__pydantic_fields_set__)

    def changed(self, handed: Any, before: Snapshot) -> dict[str, Any]:
        """See `ObjectSchema.changed`; a field that was set for the first time changed, whatever its value."""
        changes = super().changed(handed, before)
        for name in self._ordered(handed.__pydantic_fields_set__ - before[2]):
            changes[name] = getattr(handed, name)
        return changes

    def written(self, new: Any) -> dict[str, Any]:
        """See `Schema.updates_of`. Extra values of a model that allows them are part of it, declared or not."""
        return {name: getattr(new, name) for name in self._ordered(new.__pydantic_fields_set__)}

    def _ordered(self, names: set[str]) -> list[str]:
        own = [f.name for f in self.readable if f.name in names]
        return own + sorted(names - self.fields.keys())


def read_model(cls: type[BaseModel], *, strict: bool, validates: bool) -> ModelSchema:
    """The schema of a pydantic model.

    Raises:
        GraphBuildError: It is a `RootModel`, isn't fully defined, or an annotation has no meaning for a key.
    """
    name = cls.__name__
    if issubclass(cls, RootModel):
        raise GraphBuildError(
            f"{name} is a RootModel, which has no fields that could be keys. Give its root type as the schema, "
            "or a model with a field"
        )
    if not cls.__pydantic_complete__:
        cls.model_rebuild(raise_errors=False)
        _refuse_incomplete(cls)
    fields = {n: _field(name, n, _annotation(i), i, lenient=not strict) for n, i in cls.model_fields.items()}
    schema = ModelSchema(cls, "pydantic", name, fields, cls)
    schema.read_from_dict()
    schema.reworks = (
        not strict or cls.__pydantic_post_init__ is not None or any(map(_reads_others, _declarations(cls)))
    )
    put = _putting(cls)
    aliased = any(i.alias is not None or i.validation_alias is not None for i in _declarations(cls))
    if not (strict or validates or aliased):
        schema.build = calling(cls)
        return schema
    core = read_core(cls)
    assemble = _assembling(cls, put, core)
    full = core.full(put)
    if strict:
        schema.build = _trusting(cls, assemble, full)
    else:
        schema.build = full if aliased else calling(cls)
    if validates:
        managed = [f.name for f in fields.values() if f.managed is not None]
        schema.use_core(core, core.model_check(assemble, managed))
    return schema


def _declarations(cls: type[BaseModel]) -> list[FieldInfo]:
    return list(cls.model_fields.values())


def _refuse_incomplete(cls: Any) -> None:
    if cls.__pydantic_complete__:
        return
    for key, hint in class_hints(cls).items():
        refuse_unresolved(cls.__name__, key, hint)
    raise GraphBuildError(
        f"{cls.__name__} isn't fully defined: an annotation uses a name that pydantic can't find. Define it before "
        f"the graph is built, at module level, or call {cls.__name__}.model_rebuild() where it is known"
    )


def _annotation(declared: FieldInfo) -> Any:
    return Annotated[(declared.annotation, *declared.metadata)] if declared.metadata else declared.annotation


def _field(owner: str, name: str, annotation: Any, declared: FieldInfo, *, lenient: bool) -> Field:
    default: Any = MISSING
    factory: Any = MISSING
    if declared.default_factory is not None:
        factory = MISSING if _reads_others(declared) else declared.default_factory
    elif _is_static(declared):
        default = declared.default
    elif declared.default is not PydanticUndefined:
        factory = declared.get_default  # which copies it
    return field_of(
        owner,
        name,
        annotation,
        required=declared.is_required(),
        default=default,
        default_factory=factory,
        lenient=lenient,
    )


def _reads_others(declared: FieldInfo) -> bool:
    """Whether its default is made from the values of other fields."""
    return bool(getattr(declared, "default_factory_takes_validated_data", False))


def _is_static(declared: FieldInfo) -> bool:
    """Whether its default is one immutable value, so that instances may share it."""
    return declared.default_factory is None and type(declared.default) in ATOMS


def _putting(cls: type[BaseModel]) -> Put:
    """Puts an instance together without validating, as ``model_construct`` does, in a third of the time."""
    new, put = cls.__new__, object.__setattr__
    post_init = cls.__pydantic_post_init__ is not None
    nothing_extra: dict[str, Any] | None = {} if cls.model_config.get("extra") == "allow" else None

    def put_together(values: dict[str, Any], names: set[str], extra: dict[str, Any] | None) -> Any:
        instance = new(cls)
        put(instance, "__dict__", values)
        put(instance, "__pydantic_fields_set__", names)
        put(instance, "__pydantic_extra__", extra if extra is not None or nothing_extra is None else {})
        put(instance, "__pydantic_private__", None)
        if post_init:
            instance.model_post_init(None)
        return instance

    return put_together


def _assembling(cls: type[BaseModel], put: Put, core: Core) -> Build:
    """Makes an instance from values that are valid. Defaults fill the gaps; required fields may be left out."""
    template: dict[str, Any] = {}
    made: dict[str, Build | None] = {}
    for name, declared in cls.model_fields.items():
        if _is_static(declared) and not _validates_default(cls, declared):
            template[name] = declared.default
        else:
            template[name] = MISSING  # keeps the place: values are shown in the order of the fields
            made[name] = _default_maker(cls, name, declared, core)
    dynamic = frozenset(made)

    def assemble(values: dict[str, Any]) -> Any:
        filled = {**template, **values}
        if not values.keys() >= dynamic:
            for name, make in made.items():
                if name not in values:
                    if make is None:
                        del filled[name]
                    else:
                        filled[name] = make(filled)
        return put(filled, set(values), None)

    return assemble


def _default_maker(cls: type[BaseModel], name: str, declared: FieldInfo, core: Core) -> Build | None:
    """What makes a field's default from the values of the fields before it; None for a required field."""
    if declared.is_required():
        return None
    make = _default_from(declared)
    if not _validates_default(cls, declared):
        return make
    validate = core.validator(name)
    return lambda values: validate(make(values))


def _default_from(declared: FieldInfo) -> Build:
    if _reads_others(declared):
        factory = cast("Build", declared.default_factory)
        return lambda values: factory({name: value for name, value in values.items() if value is not MISSING})
    return lambda _: declared.get_default(call_default_factory=True)


def _validates_default(cls: type[BaseModel], declared: FieldInfo) -> bool:
    own = declared.validate_default
    return (
        bool(cls.model_config.get("validate_default") if own is None else own) and not declared.is_required()
    )


def _trusting(cls: type[BaseModel], assemble: Build, full: Build) -> Build:
    required = frozenset(name for name, declared in cls.model_fields.items() if declared.is_required())

    def build(values: dict[str, Any]) -> Any:
        # Without a required field the model's own error is due, unless a validator supplies it.
        return assemble(values) if values.keys() >= required else full(values)

    return build


def read_pydantic_dataclass(tp: Any, cls: Any, *, strict: bool, validates: bool) -> PydanticSchema:
    """The schema of a dataclass made by pydantic, or of a generic alias of one.

    Raises:
        GraphBuildError: It isn't fully defined, or an annotation has no meaning for a key.
    """
    if not cls.__pydantic_complete__:
        rebuild_dataclass(cls, raise_errors=False)
        _refuse_incomplete(cls)
    declarations: dict[str, FieldInfo] = cls.__pydantic_fields__
    hints = key_hints(tp, cls)
    fields = {
        n: _field(cls.__name__, n, hint, declarations[n], lenient=not strict) for n, hint in hints.items()
    }
    schema = PydanticSchema(tp, "dataclass", cls.__name__, fields, cls)
    schema.readable = tuple(f for f in schema.readable if not getattr(declarations[f.name], "init_var", None))
    schema.reworks = True
    aliases = {n: i.validation_alias or i.alias for n, i in declarations.items()}
    aliases = {n: alias for n, alias in aliases.items() if isinstance(alias, str)}
    build = schema.build = _renaming(cls, aliases) if aliases else calling(cls)
    if validates:
        schema.use_core(read_core(cls), build)
    return schema


def _renaming(cls: Callable[..., Any], aliases: Mapping[str, str]) -> Build:
    def build(values: dict[str, Any]) -> Any:
        return cls(**{aliases.get(name, name): value for name, value in values.items()})

    return build


def adapter(where: str, annotation: Any, config: Mapping[str, Any]) -> Validate:
    """Validates values of one annotation as pydantic does; classes that it doesn't know with ``isinstance``.

    Raises:
        GraphBuildError: Pydantic can't validate it.
    """
    try:
        try:
            return TypeAdapter(annotation, config=_ANY_CLASS | cast("Any", config)).validate_python
        except PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
            return TypeAdapter(annotation).validate_python  # its class has a config of its own
    except (PydanticUserError, SchemaError, TypeError, NameError) as error:
        raise GraphBuildError(
            f"pydantic can't validate {where} ({annotation!r}): {error}. "
            "Annotate it with a type that pydantic knows, or leave validate out",
            key=where.rpartition(".")[2],
        ) from error
