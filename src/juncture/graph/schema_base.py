"""What a schema gives to the graph, whatever kind of type it was read from.

A `Schema` is read once, when a graph is built; what runs on every step (`build`, `snapshot`, `updates_of`) is made
then, so that a step doesn't branch on kinds. Each kind has its module: this one has what they share, and the kinds
that hand out plain values (``typed_dict``, ``open``, ``root``).

Objects that nodes are handed are told apart by identity:

1. `snapshot` remembers a handed-out object's fields: the values themselves, and what they are to be compared with.
2. A node that returns that very object wrote the fields that changed since; see `Schema.changed`.
3. Any other object of the schema's type is new: it wrote what its kind says was set.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

from juncture.channels.annotations import channel_of
from juncture.channels.base import Channel
from juncture.channels.hints import bare
from juncture.channels.last_value import LastValue
from juncture.engine.values import CONTAINERS, copied, same
from juncture.errors import GraphBuildError
from juncture.graph.schema_hints import known_part, unqualified, unresolved_name
from juncture.types import MISSING

Kind: TypeAlias = Literal["typed_dict", "dataclass", "pydantic", "msgspec", "root", "open"]
"""Which kind of type a schema was read from."""

Validate: TypeAlias = Callable[[Any], Any]
"""Gives the validated and coerced value, or raises the validating library's own error."""

Snapshot: TypeAlias = tuple[dict[str, Any], Mapping[str, Any], frozenset[str]]
"""A handed-out object's fields: the very values it held, the values to tell a change in place by, and the names that
counted as set already."""

NOTHING_SET: Final[frozenset[str]] = frozenset()

_VALIDATING: Final = frozenset(
    {"pydantic", "pydantic_core", "annotated_types", "msgspec", "typing_extensions"}
)


@dataclass(slots=True, eq=False)
class Field:
    """One key of a schema."""

    name: str
    annotation: Any
    """As written, resolved, without ``Required`` and the like."""
    base: Any
    """The annotation without what is annotated on it; the part of it that is known where names can't be found."""
    channel: Channel
    """How the key is stored and merged: a last value unless the annotation says otherwise."""
    managed: Any = None
    """What the engine provides under this name instead of a key of the state; None for a key."""
    required: bool = True
    """The type demands it and gives no default."""
    default: Any = MISSING
    """The type's default; `MISSING` for none."""
    default_factory: Any = MISSING
    """Makes the type's default, called without arguments; `MISSING` for none."""


def field_of(
    owner: str,
    name: str,
    annotation: Any,
    *,
    required: bool = True,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    lenient: bool = False,
) -> Field:
    """A field from its resolved annotation; lenient: with a channel that follows LangGraph.

    Raises:
        GraphBuildError: What tells its channel uses a name that can't be found, or isn't a channel or reducer.
    """
    annotation, qualified = unqualified(annotation)
    base, extras = bare(annotation)
    for extra in extras:
        refuse_unresolved(owner, name, extra)
    base = known_part(base)
    # What validates a value says nothing about its channel, so it may stand before or after the reducer.
    telling = [extra for extra in extras if not validates(extra)]
    try:
        base, found = channel_of(Annotated[(base, *telling)] if telling else base, lenient=lenient)
    except GraphBuildError as error:
        error.key = name
        error.add_note(f"juncture: in the annotation of {owner}.{name}")
        raise
    channel = found if isinstance(found, Channel) else LastValue(base)
    return Field(
        name=name,
        annotation=annotation,
        base=base,
        channel=channel,
        managed=None if isinstance(found, Channel) else found,
        required=required if qualified is None else qualified,
        default=default,
        default_factory=default_factory,
    )


def validates(extra: Any) -> bool:
    """Whether something annotated on a type is there for validation and documentation (``Field``, ``Gt``, ``Meta``)."""
    kinds = type(extra).__mro__
    return hasattr(extra, "__get_pydantic_core_schema__") or any(
        kind.__module__.partition(".")[0] in _VALIDATING for kind in kinds
    )


def refuse_unresolved(owner: str, name: str, annotation: Any) -> None:
    """Makes sure that an annotation can be used to validate values.

    Raises:
        GraphBuildError: It uses a name that can't be found.
    """
    if (missing := unresolved_name(annotation)) is not None:
        raise GraphBuildError(
            f"the annotation of {owner}.{name} uses {missing!r}, which can't be found from the module of {owner}. "
            "Define it at module level, or leave out `from __future__ import annotations` there",
            key=name,
        )


class Schema:
    """A type of state, input or output, read as keys; this class serves kinds that are handed out as plain values."""

    def __init__(self, tp: Any, kind: Kind, name: str, fields: dict[str, Field]) -> None:
        """Takes the type as given, its kind and name, and its fields in the order of the type."""
        self.type = tp
        self.kind: Kind = kind
        self.name = name
        self.fields = fields
        self.required = frozenset(f.name for f in fields.values() if f.required and f.managed is None)
        """The keys without which `build` fails, or that a TypedDict demands."""
        self.build: Callable[[dict[str, Any]], Any] = _the_value(*fields) if kind == "root" else _itself
        """What a node is handed, from copied values of this schema's keys, of which some may be absent.

        The dict itself for a TypedDict and an open state; the value of a root; for classes an instance whose defaults
        fill the gaps. A missing required field raises the class's own error, as does anything its constructor raises.
        """
        self.validators: dict[str, Validate] = {}
        self.item_validators: dict[str, Validate] = {}
        self.has_model_check = False
        """Whether `check_model` has something to do."""

    def __repr__(self) -> str:
        return f"<Schema {self.name} ({self.kind}): {', '.join(self.fields)}>"

    @property
    def only_key(self) -> str | None:
        """The key of which it is the value, where it is one value without keys."""
        return next(iter(self.fields)) if self.kind == "root" else None

    def validator(self, key: str) -> Validate | None:
        """What checks and coerces a value of the key: what is written or, where the key has a reducer, the merged value.

        None where nothing is validated: a dataclass or TypedDict without ``validate=True``, a managed value, an
        unknown key, and in lenient mode.
        """
        return self.validators.get(key)

    def item_validator(self, key: str) -> Validate | None:
        """What checks and coerces one item of the key's list; None where the items alone can't tell.

        It is there for keys of type ``list[T]`` without constraints or validators on the list as a whole: their merged
        value is right if each new item is.
        """
        return self.item_validators.get(key)

    def check_model(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the type's own checks over several fields make of the values at the end of a step: the changed keys.

        `values` may hold more than this schema's keys, and isn't changed: what user code sees is a copy. While a
        required key is absent there is no model to check, and the result is empty.

        Raises:
            Exception: The library's own validation error.
        """
        return {}

    def output(self, values: Mapping[str, Any]) -> Any:
        """A result of this schema's type from the values of its keys, as `build` makes it; a new dict for dicts."""
        return self.build(dict(values) if self.kind == "open" else self.own(values))

    def own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of this schema's keys, in the order of the type."""
        return {key: values[key] for key in self.fields if key in values}

    def missing(self, values: Mapping[str, Any]) -> list[str]:
        """The required keys that have no value, in the order of the type."""
        return [name for name in self.fields if name in self.required and name not in values]

    def snapshot(self, handed: Any, committed: Mapping[str, Any] | None = None) -> Snapshot | None:
        """What `updates_of` needs to tell later what was changed in a handed-out object; None for plain values.

        Args:
            handed: What `build` gave.
            committed: The values that were copied to build it. They must not change until the comparison. Without
                them the object's containers are copied here, which costs as much as they are long.
        """
        return None

    def updates_of(self, returned: Any, before: Snapshot | None = None) -> dict[str, Any] | None:
        """The update in a returned object of this schema's type; None if it isn't such an object.

        Plain dicts and the value of a root state are no objects: what they mean is the engine's to say.

        Args:
            returned: What a node returned.
            before: The snapshot, if it is the very object that was handed out; then the fields that changed are the
                update. None for a new object: then what was set is the update: pydantic's ``model_fields_set``, and of
                dataclasses and structs the required fields and those that differ from their default.
        """
        return None


def _itself(values: dict[str, Any]) -> dict[str, Any]:
    return values


def _the_value(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda values: values.get(key)


class ObjectSchema(Schema):
    """A schema whose nodes are handed an instance of a class."""

    def __init__(self, tp: Any, kind: Kind, name: str, fields: dict[str, Field], cls: type) -> None:
        """Takes, beyond what `Schema` takes, the class of the instances."""
        super().__init__(tp, kind, name, fields)
        self.cls = cls
        self.readable = tuple(f for f in fields.values() if f.managed is None)
        """The fields whose values can be read off an instance."""
        self.reworks = False
        """Building may give an instance other values than those it is built from."""
        self.read: Callable[[Any], dict[str, Any]] = self.read_attributes
        """The instance's values by name, at least those of `readable`."""

    def read_from_dict(self) -> bool:
        """Makes `read` the fast one where each instance keeps all its fields in its ``__dict__``; whether it does."""
        kept = self.cls.__dictoffset__ != 0 and not any(
            inspect.isdatadescriptor(inspect.getattr_static(self.cls, f.name, None)) for f in self.readable
        )
        if kept:
            self.read = _instance_dict
        return kept

    def read_attributes(self, instance: Any) -> dict[str, Any]:
        """The instance's values by name, without those it doesn't have."""
        found = {f.name: getattr(instance, f.name, MISSING) for f in self.readable}
        return {name: value for name, value in found.items() if value is not MISSING}

    def snapshot(self, handed: Any, committed: Mapping[str, Any] | None = None) -> Snapshot | None:
        """See `Schema.snapshot`."""
        values = self.read(handed)
        return values, self.reference(values) if committed is None or self.reworks else committed, NOTHING_SET

    def reference(self, values: dict[str, Any]) -> dict[str, Any]:
        """Copies of what may be changed in place."""
        return {name: copied(value) for name, value in values.items() if type(value) in CONTAINERS}

    def updates_of(self, returned: Any, before: Snapshot | None = None) -> dict[str, Any] | None:
        """See `Schema.updates_of`."""
        if not isinstance(returned, self.cls):
            return None
        return self.written(returned) if before is None else self.changed(returned, before)

    def changed(self, handed: Any, before: Snapshot) -> dict[str, Any]:
        """The fields of a handed-out object whose values changed since the snapshot, in the order of the type."""
        values, committed, _ = before
        changes: dict[str, Any] = {}
        for field in self.readable:
            name = field.name
            now = getattr(handed, name, MISSING)
            was = values.get(name, MISSING)
            if now is was and type(now) not in CONTAINERS:
                continue
            if type(was) in CONTAINERS:
                # A container may have been changed in place, and rebound as well: only the value that it was copied
                # from tells. A container that a default made was copied from nothing: compare it with the default.
                was = committed[name] if name in committed else default_of(field)
            if now is not MISSING and not same(now, was):
                changes[name] = now
        return changes

    def written(self, new: Any) -> dict[str, Any]:
        """The fields of a new object that count as set: required ones, and those that differ from their default."""
        values: dict[str, Any] = {}
        for field in self.readable:
            value = getattr(new, field.name, MISSING)
            if value is not MISSING and (field.required or not same(value, default_of(field))):
                values[field.name] = value
        return values


def _instance_dict(instance: Any) -> dict[str, Any]:
    return instance.__dict__.copy()


def default_of(field: Field) -> Any:
    """The field's default, made afresh; `MISSING` for none."""
    return field.default if field.default_factory is MISSING else field.default_factory()
