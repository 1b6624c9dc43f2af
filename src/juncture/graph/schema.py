"""Users' types read as schemas: which keys they have, how each merges, and what a node is handed.

`read_schema` is the entry. A schema may be a TypedDict, a dataclass, a pydantic model or dataclass, a msgspec struct,
any other class with annotations (then a dict is handed out, as in LangGraph), None (an open state), or a bare type such
as ``Annotated[list, add]``: then the whole state is one unnamed value under the key `ROOT`.

Nothing of pydantic or msgspec is imported unless the given class comes from there.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typing_extensions

from juncture.channels.base import Channel
from juncture.channels.hints import bare
from juncture.channels.last_value import LastValue
from juncture.errors import GraphBuildError
from juncture.graph.overall_state import OverAllState
from juncture.graph.schema_adapter import add_validators
from juncture.graph.schema_base import Field, Kind, ObjectSchema, Schema, Snapshot, Validate, field_of
from juncture.graph.schema_dataclass import read_dataclass
from juncture.graph.schema_hints import Unresolved, class_hints, first_parameter, generic_hints
from juncture.types import ROOT, Runtime


def read_schema(tp: Any, *, validate: bool = False, strict: bool = True) -> Schema:
    """The schema of a type.

    Args:
        tp: The type; None for an open state, whose keys aren't declared.
        validate: Validate the keys of types that don't say by themselves how (TypedDict, dataclass, single values)
            with pydantic. Pydantic's classes and structs are validated anyway.
        strict: False follows LangGraph: nothing is validated when it is written unless `validate` says so, pydantic
            models validate all that a node is handed each time, and an unusable schema is only warned about.

    Raises:
        GraphBuildError: The type can't be a schema, an annotation can't be read, or what validates it isn't installed.
    """
    if tp is None:
        return Schema(None, "open", "the open state", {})
    alone, extras = bare(tp)
    cls = _class_of(alone)
    if _is_overall_state(cls):
        raise GraphBuildError(
            f"{getattr(tp, '__name__', tp)} isn't a schema: it shows whatever state a graph has to the nodes and routers that ask for it, "
            "def node(state: OverAllState). For an open state leave the schema out: StateGraph(key_strategies=…)"
        )
    if cls is None or _says_how_to_merge(extras) or not _has_fields(cls):
        schema = _read_root(tp, alone, strict=strict)
    elif _is_subclass(cls, "pydantic.main", "BaseModel"):
        from juncture.graph.schema_pydantic import read_model

        return read_model(cls, strict=strict, validates=strict or validate)
    elif _is_subclass(cls, "msgspec", "Struct"):
        from juncture.graph.schema_msgspec import read_msgspec

        return read_msgspec(alone, cls, lenient=not strict, validates=strict or validate)
    elif dataclasses.is_dataclass(cls):
        if "__pydantic_validator__" in vars(cls):
            from juncture.graph.schema_pydantic import read_pydantic_dataclass

            return read_pydantic_dataclass(alone, cls, strict=strict, validates=strict or validate)
        schema = read_dataclass(alone, cls, lenient=not strict)
    else:
        schema = _read_class(alone, cls, lenient=not strict)
    if validate:
        add_validators(schema)
    return schema


def refuse_managed(schema: Schema, role: str) -> None:
    """Makes sure that a schema has no managed values, which are neither given to a graph nor returned by it.

    Raises:
        GraphBuildError: It has some; all are named.
    """
    names = [name for name, field in schema.fields.items() if field.managed is not None]
    if names:
        raise GraphBuildError(
            f"Invalid managed channels detected in {schema.name}: {', '.join(names)}. Managed values are computed by "
            f"the engine and can't be part of the {role} schema: leave them out of it, and declare them in the state's",
            key=names[0],
        )


def union_of_keys(schemas: Sequence[tuple[str, Schema]], *, strict: bool = True) -> dict[str, Field]:
    """The keys of several schemas, each with the first field that declares it.

    A later declaration must store the key in the same way, or be a plain last value, which says nothing. Types of
    values may differ as long as reducers start from the same kind of value (``list`` and ``list[int]``).

    Args:
        schemas: Who declares it, for the message (``"state"``, ``"the input of node 'a'"``), and the schema.
        strict: False follows LangGraph, for which a lambda is equal to any reducer.

    Raises:
        GraphBuildError: Two declarations of a key contradict each other; both are named.
    """
    keys: dict[str, Field] = {}
    owners: dict[str, str] = {}
    for owner, schema in schemas:
        for name, field in schema.fields.items():
            first = keys.setdefault(name, field)
            owners.setdefault(name, owner)
            if not _agree(first, field, strict=strict):
                raise GraphBuildError(
                    f"Channel '{name}' already exists with a different type: {_told(first)} in {owners[name]}, "
                    f"{_told(field)} in {owner}. Give it one reducer (the same object), or leave the annotation out "
                    "in the later schema",
                    key=name,
                )
    return keys


def schema_from_callable(function: Callable[..., Any]) -> Any:
    """The schema that a node's first parameter is annotated with: a class with fields, or an alias of a generic one.

    None where the annotation is no such class (`OverAllState` is none), is missing, or can't be resolved. Never raises.
    """
    try:
        annotation, _ = bare(first_parameter(function))
        cls = _class_of(annotation)
        if cls is None or cls is Runtime or _is_overall_state(cls):
            return None
        names = class_hints(cls) if _has_fields(cls) else {}
    except Exception:  # noqa: BLE001 - whatever keeps an annotation from being read: it names no schema
        return None
    return annotation if names else None


def asks_for_overall_state(function: Callable[..., Any]) -> bool:
    """Whether a function's first parameter is annotated with `OverAllState`.

    A name that is there for type checkers only (imported under ``if TYPE_CHECKING``) counts if it is spelled so, and so
    does a union with it (``OverAllState | None``).

    Raises:
        GraphBuildError: It is annotated with a class derived from it, of which nobody could make an object.
    """
    try:
        annotation, _ = bare(first_parameter(function))
        cls = _class_of(annotation)
    except Exception:  # noqa: BLE001 - whatever keeps an annotation from being read: it doesn't ask
        return False
    if get_origin(annotation) in (Union, UnionType):
        return OverAllState in get_args(annotation)
    if isinstance(annotation, (Unresolved, str)):  # a str was quoted twice
        name = annotation if isinstance(annotation, str) else annotation.name
        return name.strip("\"' ").rpartition(".")[2] == OverAllState.__name__
    if _is_overall_state(cls) and cls is not OverAllState:
        raise GraphBuildError(
            f"{annotation.__name__} derives from OverAllState, and the engine only makes an OverAllState itself: ask for that"
        )
    return cls is OverAllState


def schema_of_object(value: Any) -> Schema | None:
    """The schema of an object's own class, to read what a node returned; None if the class has no fields.

    Whoever calls it for every object keeps the schemas by class.
    """
    return read_schema(type(value), strict=False) if _has_fields(type(value)) else None


def _class_of(annotation: Any) -> type | None:
    """The class itself, or the one that a generic alias is made from."""
    cls: Any = get_origin(annotation) or annotation
    return cls if isinstance(cls, type) else None


def _is_overall_state(cls: type | None) -> bool:
    return cls is not None and issubclass(cls, OverAllState)


def _has_fields(cls: Any) -> bool:
    """Whether a class is read as keys, not as one value. An empty TypedDict is."""
    if (
        _is_typed_dict(cls)
        or dataclasses.is_dataclass(cls)
        or _is_subclass(cls, "pydantic.main", "BaseModel")
        or _is_subclass(cls, "msgspec", "Struct")
    ):
        return True
    return cls.__module__ not in {"builtins", "typing"} and bool(class_hints(cls))


def _is_typed_dict(cls: Any) -> bool:
    return typing.is_typeddict(cls) or typing_extensions.is_typeddict(cls)


def _is_subclass(cls: Any, module: str, name: str) -> bool:
    """Whether a class derives from one of a library, which is imported if so."""
    base = getattr(sys.modules.get(module), name, None)
    return isinstance(base, type) and issubclass(cls, base)


def _says_how_to_merge(extras: tuple[Any, ...]) -> bool:
    return bool(extras) and not isinstance(
        field_of("the state", ROOT, Annotated[(Any, *extras)]).channel, LastValue
    )


def _read_root(tp: Any, alone: Any, *, strict: bool) -> Schema:
    usable = isinstance(alone, type) or get_origin(tp) or get_origin(alone) or alone is Any
    if not usable:
        told = (
            f"Invalid state_schema: {tp!r}. Expected a type or Annotated[type, reducer]: a TypedDict, dataclass, "
            "pydantic model or msgspec struct, or a bare type for a state of one value"
        )
        if strict:
            raise GraphBuildError(told)
        warnings.warn(told, UserWarning, stacklevel=4)
    field = field_of("the state", ROOT, tp if usable else Any, lenient=not strict)
    if field.managed is not None:
        raise GraphBuildError(
            f"{tp!r} is a managed value, which can't be the whole state. Make it a key of the state"
        )
    return Schema(tp, "root", tp.__name__ if isinstance(tp, type) else repr(tp), {ROOT: field})


def _read_class(tp: Any, cls: Any, *, lenient: bool) -> Schema:
    """The schema of a TypedDict, or of another class with annotations."""
    optional: frozenset[str] = getattr(cls, "__optional_keys__", frozenset())
    fields = {
        name: field_of(cls.__name__, name, hint, required=name not in optional, lenient=lenient)
        for name, hint in generic_hints(tp).items()
        if name != "__slots__" and get_origin(hint) is not typing.ClassVar and hint is not typing.ClassVar
    }
    if _is_typed_dict(cls):
        return Schema(tp, "typed_dict", cls.__name__, fields)
    return _AnnotatedClass(tp, "typed_dict", cls.__name__, fields, cls)


class _AnnotatedClass(ObjectSchema):
    """A class that only has annotations: nodes are handed a dict, and may return an instance."""

    def snapshot(self, handed: Any, committed: Any = None) -> Snapshot | None:
        """None: a dict was handed out."""
        return None

    def updates_of(self, returned: Any, before: Snapshot | None = None) -> dict[str, Any] | None:
        """See `Schema.updates_of`: all attributes that are there, since nothing tells which were set."""
        is_object = isinstance(returned, self.cls) and not isinstance(returned, dict)
        return self.read_attributes(returned) if is_object else None


def _agree(first: Field, later: Field, *, strict: bool) -> bool:
    """Whether a later declaration of a key may stand beside the first."""
    if later.managed is not None or first.managed is not None:
        return later.managed is first.managed or (later.managed is None and type(later.channel) is LastValue)
    if first.channel == later.channel or type(later.channel) is LastValue:
        return True
    if type(first.channel) is not type(later.channel):
        return False
    alike = copy(later.channel)
    alike.typ = first.channel.typ
    if not strict and (_is_lambda(_reducer(first.channel)) or _is_lambda(_reducer(alike))):
        for name in ("operator", "reducer"):
            if hasattr(alike, name):
                setattr(alike, name, _reducer(first.channel))
    same_start = type(first.channel.initial()) is type(later.channel.initial()) or not strict
    return first.channel == alike and same_start


def _reducer(channel: Channel) -> Any:
    return getattr(channel, "operator", None) or getattr(channel, "reducer", None)


def _is_lambda(reducer: Any) -> bool:
    return getattr(reducer, "__name__", "") == "<lambda>"


def _told(field: Field) -> str:
    """A field's channel for a message."""
    if field.managed is not None:
        return f"the managed value {getattr(field.managed, '__name__', field.managed)}"
    reducer = _reducer(field.channel)
    if reducer is None:
        return type(field.channel).__name__
    return f"reducer {getattr(reducer, '__qualname__', None) or repr(reducer)}"


__all__ = [
    "Field",
    "Kind",
    "Schema",
    "Snapshot",
    "Validate",
    "asks_for_overall_state",
    "read_schema",
    "refuse_managed",
    "schema_from_callable",
    "schema_of_object",
    "union_of_keys",
]
