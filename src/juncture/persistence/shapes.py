"""How objects of each kind of class are taken apart to be stored, and rebuilt exactly.

A `Shape` is made once for a class, when the class is registered. `take` gives the parts of an object as a list or dict
of values, which the codec stores like any others; `make` builds an equal object from parts that were read. The rules:

* Exact: an object is rebuilt by setting what was stored, never by calling its constructor, so validators, defaults
  and ``__post_init__`` have no say. (The exception is `msgspec.Struct`, which can't be made otherwise: its
  ``__post_init__`` runs, and afterwards every field is set to what was stored.)
* Whole: attributes beyond the declared fields are stored too. Only what a ``cached_property`` computed and what
  ``typing`` notes on an object (``Box[int](…)`` is a plain ``Box``) are left out.
* By name: a field keeps its name in the bytes. Read by a newer class, a field that is missing gets its default; one
  that has no default, or a stored field that the class no longer has, is an error.
* Of the very class: a subclass is another class, and is registered by itself.

pydantic and msgspec are looked up among the loaded modules: objects of classes that don't exist can't be met.
"""

from __future__ import annotations

# Objects of any class and containers of anything are what this file is about: there is no type to be known.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
import dataclasses
import enum
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

Parts = list[Any] | dict[str, Any]
Migrate = Callable[[Any, int], Any]
"""What an older version of a class stored, and that version → what the present class would have stored."""


def _in_first(parts: Any, change: Callable[[Any], Any]) -> Any:
    return [change(parts[0]), *parts[1:]]


def _in_whole(parts: Any, change: Callable[[Any], Any]) -> Any:
    return change(parts)


class Held(NamedTuple):
    """All that `Shape.take` looks at in an object, by where it stands: for `juncture.persistence.columns`."""

    names: tuple[str, ...] | None
    """The keys of its ``__dict__``, in their order, unless there is more in it; None: it has none."""
    slots: tuple[tuple[Any, bool], ...]
    """The slots beside it, by their descriptors; and whether it is a set of which only the members count."""
    new: Callable[[], Any]
    """Makes an object in which nothing is set."""


class Shape(NamedTuple):
    """How objects of one class are stored."""

    take: Callable[[Any], Any]
    """The parts of an object. Changes nothing; may raise ValueError for an object that it can't take apart."""
    make: Callable[[Any], Any]
    """An equal object. Raises ValueError, saying which part is the trouble."""
    fields: Callable[[Any], dict[Any, Any]]
    """What an object holds, by field, key or position: to say where a value stands."""
    within: Callable[[Any, Callable[[Any], Any]], Any] = _in_first
    """Parts in which what the class's author knows (fields, content, name of a member) is changed by a function."""
    held: Held | None = None
    """None where it can't be told, or `take` calls foreign code."""

    def migrated(self, migrate: Migrate, version: int) -> Shape:
        """The shape of the objects that an older version of the class stored: they are rebuilt as the present one's."""

        def change(stored: Any) -> Any:
            was_fields = isinstance(stored, dict)
            made = migrate(stored, version)
            if was_fields and not isinstance(made, dict):
                raise ValueError(f"its migrate gave {type(made).__qualname__} instead of a dict of fields")
            return made

        return self._replace(make=lambda parts: self.make(self.within(parts, change)))


def shape_of(cls: type) -> Shape | None:
    """The shape of a class, or None if objects of its kind can't be stored exactly without being told how."""
    if issubclass(cls, enum.Enum):
        return _enum_shape(cls)
    if (pydantic := sys.modules.get("pydantic")) and issubclass(cls, pydantic.BaseModel):
        kind = _Pydantic(cls)
        return Shape(kind.take, kind.make, kind.fields, held=kind.held)
    if msgspec := sys.modules.get("msgspec"):
        if issubclass(cls, msgspec.Struct):
            kind = _Struct(cls, msgspec)
            return Shape(kind.take, kind.make, kind.fields)
        if cls is msgspec.UnsetType:
            return Shape(lambda _: None, lambda _: msgspec.UNSET, lambda _: {})
    base = _builtin_base(cls)
    if base is tuple and hasattr(cls, "_field_defaults"):
        return _namedtuple_shape(cls)
    if base is object and dataclasses.is_dataclass(cls):
        return _dataclass_shape(cls)
    if base in _PLAIN and base is not cls:
        return _subclass_shape(cls, _PLAIN[base])
    return None


def converted(cls: type, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> Shape:
    """The shape of a class whose author says how to turn an object into a storable value and back."""

    def make(parts: Any) -> Any:
        made = decode(parts)
        if type(made) is not cls:
            raise ValueError(f"its decode gave {type(made).__qualname__} instead")
        return made

    return Shape(encode, make, lambda o: {"encoded": encode(o)}, _in_whole)


# ── attributes ───────────────────────────────────────────────────────────────────────────────────────────────


class _Attributes:
    """What an object of one class carries in slots and in its ``__dict__``."""

    __slots__ = ("computed", "slots")

    def __init__(self, cls: type) -> None:
        self.slots: dict[str, Any] = {}
        self.computed: set[str] = {"__orig_class__"}
        for base in reversed(cls.__mro__):
            for name, member in vars(base).items():
                if isinstance(member, types.MemberDescriptorType):
                    if _is_python(base):
                        self.slots[name] = member
                elif isinstance(member, functools.cached_property):
                    self.computed.add(name)

    def of(self, o: Any) -> dict[str, Any]:
        """A new dict of what is set."""
        held = dict(getattr(o, "__dict__", ()))
        for name in self.computed:
            held.pop(name, None)
        for name, member in self.slots.items():
            try:
                held[name] = member.__get__(o)
            except AttributeError:
                continue  # a slot that was never set
        return held

    def held(self, cls: type, names: tuple[str, ...], new: Callable[[], Any], a_set: str = "") -> Held | None:
        """All that can be set in an object of the class; None where something in it is computed and not stored.

        Args:
            cls: The class.
            names: Its declared fields.
            new: Makes an object in which nothing is set.
            a_set: The slot that holds a set.
        """
        if len(self.computed) > 1:
            return None
        named = tuple([name for name in names if name not in self.slots])
        slots = tuple([(member, name == a_set) for name, member in self.slots.items()])
        if cls.__dictoffset__:
            return Held(named, slots, new)
        return None if named else Held(None, slots, new)

    def set(self, o: Any, values: dict[str, Any]) -> None:
        """Sets attributes past ``__setattr__`` and properties, which have no say in what was stored."""
        for name, value in values.items():
            if (member := self.slots.get(name)) is not None:
                member.__set__(o, value)
            else:
                try:
                    o.__dict__[name] = value
                except AttributeError:
                    raise ValueError(f"the class no longer has room for the attribute {name!r}") from None


def _is_python(cls: type) -> bool:
    """Whether a class was made by a class statement: of HEAPTYPE (bit 9) and IMMUTABLETYPE (bit 8), only the first."""
    return cls.__flags__ & 0x300 == 0x200


def _builtin_base(cls: type) -> type:
    """The nearest base that isn't written in Python; `object` where there is nothing but Python."""
    for base in cls.__mro__:
        if base is not object and base is not typing.Generic and not _is_python(base):
            return base
    return object


def _fill(fields: dict[str, Any], names: tuple[str, ...], default: Callable[[str], Any]) -> None:
    """Adds defaults for fields that weren't stored, where the stored and the present class differ.

    Raises:
        ValueError: A stored field is unknown, or a missing one has no default.
    """
    for name in fields:
        if name not in names:
            raise ValueError(f"the stored field {name!r} no longer exists in the class; {_MIGRATE}")
    for name in names:
        if name not in fields:
            value = default(name)
            if value is _REQUIRED:
                raise ValueError(
                    f"the field {name!r} is required, and was not stored; give it a default, or {_MIGRATE}"
                )
            if value is not _ABSENT:
                fields[name] = value


def _check_set(fields: dict[str, Any], needed: tuple[str, ...]) -> None:
    """Refuses an object that has lost a field: read back, it would have got a default, or be refused then."""
    for name in needed:
        if name not in fields:
            raise ValueError(f"its field {name!r} was never set, or was deleted")


_MIGRATE = "call register_type with version= and migrate="
_REQUIRED = object()
_ABSENT = object()


def _split(held: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    """``[fields]``, or ``[fields, other attributes]`` if there are others."""
    fields = {name: held.pop(name) for name in names if name in held}
    return [fields, held] if held else [fields]


def _split_fields(parts: list[Any]) -> dict[str, Any]:
    return {**parts[1], **parts[0]} if len(parts) > 1 else parts[0]


# ── each kind ────────────────────────────────────────────────────────────────────────────────────────────────


def _dataclass_shape(cls: type) -> Shape:
    attributes = _Attributes(cls)
    # A field behind a property keeps its value in another attribute, which is stored as such.
    declared = {f.name: f for f in dataclasses.fields(cls) if not _is_property(cls, f.name)}
    names = tuple(declared)
    needed = tuple(name for name, field in declared.items() if field.init)

    def default(name: str) -> Any:
        field = declared[name]
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
        if not field.init:
            return _ABSENT  # the class's own attribute serves, or the field was never set
        return _REQUIRED if field.default is dataclasses.MISSING else field.default

    def take(o: Any) -> list[Any]:
        parts = _split(attributes.of(o), names)
        if len(parts[0]) != len(names):
            _check_set(parts[0], needed)
        return parts

    def make(parts: list[Any]) -> Any:
        fields = parts[0]
        if fields.keys() != declared.keys():
            _fill(fields, names, default)
        made = object.__new__(cls)
        attributes.set(made, fields)
        if len(parts) > 1:
            attributes.set(made, parts[1])
        return made

    held = attributes.held(cls, names, functools.partial(object.__new__, cls))
    return Shape(take, make, lambda o: _split_fields(take(o)), held=held)


def _is_property(cls: type, name: str) -> bool:
    member = inspect.getattr_static(cls, name, None)
    return hasattr(type(member), "__set__") and not isinstance(member, types.MemberDescriptorType)


def _namedtuple_shape(cls: Any) -> Shape:
    attributes = _Attributes(cls)
    names: tuple[str, ...] = cls._fields
    defaults: dict[str, Any] = cls._field_defaults

    def take(o: Any) -> list[Any]:
        fields = dict(zip(names, tuple.__iter__(o), strict=True))
        others = attributes.of(o)
        return [fields, others] if others else [fields]

    def make(parts: list[Any]) -> Any:
        fields = parts[0]
        if tuple(fields) != names:
            _fill(fields, names, lambda name: defaults.get(name, _REQUIRED))
        made = tuple.__new__(cls, [fields[name] for name in names])
        if len(parts) > 1:
            attributes.set(made, parts[1])
        return made

    return Shape(take, make, lambda o: _split_fields(take(o)))


def _enum_shape(cls: type[enum.Enum]) -> Shape:
    def take(o: enum.Enum) -> Any:
        member = cls.__members__.get(o.name) if o.name is not None else None  # pyright: ignore[reportUnnecessaryComparison] - a Flag's combination may have no name
        return o.name if member is o else [o.value]

    def make(parts: Any) -> Any:
        if isinstance(parts, list):
            return cls(parts[0])  # a combination of flags, which has a value but no name of its own
        member = cls.__members__.get(parts)
        if member is None:
            raise ValueError(f"the member {parts!r} no longer exists in the class; {_MIGRATE}")
        return member

    return Shape(take, make, lambda o: {"value": o.value}, _in_whole)


class _Pydantic:
    """``[fields]`` or ``[fields, {what differs from the usual}]``."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        self.attributes = _Attributes(cls)
        self.declared: dict[str, Any] = cls.model_fields
        self.names = tuple(self.declared)
        self.private: dict[str, Any] = cls.__private_attributes__
        self.no_extra: dict[str, Any] | None = {} if cls.model_config.get("extra") == "allow" else None
        new = functools.partial(cls.__new__, cls)
        self.held = self.attributes.held(cls, self.names, new, "__pydantic_fields_set__")

    def take(self, o: Any) -> list[Any]:
        held = self.attributes.of(o)
        touched = held.pop("__pydantic_fields_set__")
        extra = held.pop("__pydantic_extra__", None)
        private = held.pop("__pydantic_private__", None)
        fields = {name: held.pop(name) for name in self.names if name in held}
        if len(fields) != len(self.names):
            _check_set(fields, self.names)
        more = {
            "untouched": [name for name in fields if name not in touched],
            "beyond": sorted(name for name in touched if name not in fields),
            "private": private,
            "attributes": held,
        }
        more = {name: value for name, value in more.items() if value}
        if extra != self.no_extra:
            more["extra"] = extra
        return [fields, more] if more else [fields]

    def make(self, parts: list[Any]) -> Any:
        fields, more = parts[0], _more(parts)
        touched = fields.keys() - set(more.get("untouched", ())) | set(more.get("beyond", ()))
        if fields.keys() != self.declared.keys():
            _fill(fields, self.names, lambda name: self._default(name, fields))
            fields = {name: fields[name] for name in self.names}  # their order shows in dumps
        made = self.cls.__new__(self.cls)
        object.__setattr__(made, "__dict__", fields)
        object.__setattr__(made, "__pydantic_fields_set__", touched)
        object.__setattr__(made, "__pydantic_extra__", self._extra(more))
        object.__setattr__(made, "__pydantic_private__", self._private(more.get("private", {})))
        self.attributes.set(made, more.get("attributes", {}))
        return made

    def fields(self, o: Any) -> dict[str, Any]:
        parts = self.take(o)
        more = _more(parts)
        return parts[0] | (more.get("extra") or {}) | more.get("private", {}) | more.get("attributes", {})

    def _default(self, name: str, fields: dict[str, Any]) -> Any:
        field = self.declared[name]
        if field.is_required():
            return _REQUIRED
        if getattr(field, "default_factory_takes_validated_data", False):
            return field.get_default(call_default_factory=True, validated_data=fields)
        return field.get_default(call_default_factory=True)

    def _extra(self, more: dict[str, Any]) -> dict[str, Any] | None:
        if "extra" not in more:
            return copy(self.no_extra)
        if self.no_extra is None:
            raise ValueError("it has extra fields, which the class no longer allows")
        return more["extra"]

    def _private(self, stored: dict[str, Any]) -> dict[str, Any] | None:
        for name in stored:
            if name not in self.private:
                raise ValueError(f"the stored private attribute {name!r} no longer exists in the class")
        if not self.private:
            return None
        undefined = sys.modules["pydantic_core"].PydanticUndefined
        missing = {n: p.get_default() for n, p in self.private.items() if n not in stored}
        return {n: v for n, v in missing.items() if v is not undefined} | stored


def _more(parts: list[Any]) -> dict[str, Any]:
    return parts[1] if len(parts) > 1 else {}


class _Struct:
    """``[fields]`` or ``[fields, other attributes]`` of a msgspec struct."""

    def __init__(self, cls: Any, msgspec: Any) -> None:
        self.cls = cls
        self.msgspec = msgspec
        self.names: tuple[str, ...] = cls.__struct_fields__
        self.changes_itself = hasattr(cls, "__post_init__")

    def take(self, o: Any) -> list[Any]:
        fields = {name: getattr(o, name) for name in self.names if hasattr(o, name)}
        if len(fields) != len(self.names):
            _check_set(fields, self.names)
        others = dict(getattr(o, "__dict__", ()))
        return [fields, others] if others else [fields]

    def make(self, parts: list[Any]) -> Any:
        fields = parts[0]
        if tuple(fields) != self.names:
            _fill(fields, self.names, self._default)
        made = self.cls(**fields)
        if self.changes_itself:
            for name in self.names:
                self.msgspec.structs.force_setattr(made, name, fields[name])
        if len(parts) > 1:
            made.__dict__.update(parts[1])
        return made

    def fields(self, o: Any) -> dict[str, Any]:
        return _split_fields(self.take(o))

    def _default(self, name: str) -> Any:
        field = next(f for f in self.msgspec.structs.fields(self.cls) if f.name == name)
        if field.default is not self.msgspec.NODEFAULT:
            return field.default
        if field.default_factory is not self.msgspec.NODEFAULT:
            return field.default_factory()
        return _REQUIRED


class _Plain(NamedTuple):
    """How the content of a builtin is read from an object of a subclass, and put into a new one."""

    read: Callable[[Any], Any]
    new: Callable[[type, Any], Any]


def _filled(base: type, put: Callable[[Any, Any], Any]) -> Callable[[type, Any], Any]:
    def new(cls: type, content: Any) -> Any:
        made = base.__new__(cls)  # pyright: ignore[reportCallIssue] - list, dict or set: each takes just the class
        put(made, content)
        return made

    return new


# Each `read` calls the builtin's own method, because a subclass may have overridden what `int(x)` or `x[:]` call.
_PLAIN: dict[type, _Plain] = {
    str: _Plain(str.__str__, str.__new__),
    int: _Plain(int.__int__, int.__new__),
    float: _Plain(float.__float__, float.__new__),
    bytes: _Plain(lambda o: bytes.__getitem__(o, slice(None)), bytes.__new__),
    tuple: _Plain(lambda o: list(tuple.__iter__(o)), tuple.__new__),
    frozenset: _Plain(lambda o: set(frozenset.__iter__(o)), frozenset.__new__),
    list: _Plain(list.copy, _filled(list, list.extend)),
    dict: _Plain(lambda o: dict(dict.items(o)), _filled(dict, dict.update)),
    set: _Plain(lambda o: set(set.__iter__(o)), _filled(set, set.update)),
}


def _subclass_shape(cls: type, plain: _Plain) -> Shape:
    attributes = _Attributes(cls)

    def take(o: Any) -> list[Any]:
        content, others = plain.read(o), attributes.of(o)
        return [content, others] if others else [content]

    def make(parts: list[Any]) -> Any:
        made = plain.new(cls, parts[0])
        if len(parts) > 1:
            attributes.set(made, parts[1])
        return made

    def fields(o: Any) -> dict[Any, Any]:
        content = plain.read(o)
        if isinstance(content, dict):
            inside = content
        else:
            inside = dict(enumerate(content)) if isinstance(content, list | set) else {}
        return inside | attributes.of(o)

    return Shape(take, make, fields)
