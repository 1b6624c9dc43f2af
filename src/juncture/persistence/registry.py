"""Which classes may be stored, and the name by which each is found again.

The registry is closed. Bytes name a class by text; the text is looked up here and nowhere else, so nothing is ever
imported or called because stored bytes say so. Classes come in on three ways: those found in the annotations of a
graph's schemas (`classes_in`), those named with `register_type`, and Juncture's own.

Every compiled graph has a registry whose parent is the one of this process, `DEFAULT`: the only mutable state at
module level in Juncture, there because `register_type` has no graph to belong to. It only ever grows, except that
a class which is defined again under its name (a notebook's cell that is run twice) replaces the former. What it says
of a class goes before what a graph found in its schemas, whichever came first.

Names and versions
------------------
A class is called by its module and qualified name (``shop.orders:Order``), or by a name given for it. The author of a
class may give it versions: what stands in the bytes is then its name, ``@``, and the version, if that isn't 1. So
stored bytes say which version of which class wrote them. They are rebuilt

1. as they are, if the class is known by that name, or by one that it had formerly, in that version;
2. by what `migrate` makes of the stored fields, if the class has a greater version now;
3. not at all otherwise: the class is unknown here, or newer.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, overload

import typing_extensions

from juncture.channels import Remove, RemoveMessage, ReplaceAll
from juncture.channels.base import Channel
from juncture.errors import GraphBuildError, SerializationError
from juncture.persistence import tags
from juncture.persistence.limits import packed_limits, unpacked_limits
from juncture.persistence.shapes import Migrate, Shape, converted, shape_of
from juncture.types import (
    MARK_FOR_REMOVAL,
    MISSING,
    UNSET,
    Answer,
    Answers,
    CheckpointRef,
    Command,
    Interrupt,
    Overwrite,
    RunResult,
    Send,
    Timings,
)

C = TypeVar("C", bound=type)
T = TypeVar("T")


class Registered(NamedTuple):
    """A class that may be stored."""

    name: str
    """What stands for it in the bytes: its name, and its version if that isn't 1."""
    cls: type
    shape: Shape
    version: int = 1
    migrate: Migrate | None = None

    def of_version(self, version: int) -> Registered:
        """The entry for reading what an older version stored.

        Raises:
            SerializationError: It is newer than this program's.
        """
        if version == self.version:
            return self
        if version > self.version or self.migrate is None:
            raise SerializationError(
                f"an object of version {version} of {full_name(self.cls)}, of which this program has version "
                f"{self.version}: a newer program stored it. Update this one; nothing was changed"
            )
        return self._replace(shape=self.shape.migrated(self.migrate, version))


class Registry:
    """The classes that may be stored, on top of those of a parent.

    Args:
        parent: Looked at for what isn't found here.
        learn: Whether a class that is met when writing is registered then, if its kind can be stored. The next
            process has to register it before it can read. For ``strict=False``.
    """

    def __init__(self, parent: Registry | None = None, *, learn: bool = False) -> None:
        self._parent = parent
        self._learn = learn
        self._by_class: dict[type, Registered] = {}
        self._by_name: dict[str, Registered] = {}

    def register(
        self,
        cls: type[T],
        *,
        name: str | None = None,
        encode: Callable[[T], Any] | None = None,
        decode: Callable[[Any], T] | None = None,
        version: int = 1,
        migrate: Migrate | None = None,
        formerly: Collection[str] = (),
        replace: bool = False,
    ) -> None:
        """Lets objects of exactly this class be stored.

        Args:
            cls: An enum, dataclass, named tuple, pydantic model, msgspec struct or a subclass of a builtin value or
                container; any other class with `encode` and `decode`.
            name: What stands for it in the bytes; by default its module and qualified name. Give one if the class
                may move.
            encode: Turns an object into a value that can be stored.
            decode: Turns that back into an equal object of this class.
            version: Raise it by one whenever the class changes so that what was stored doesn't fit it any more.
            migrate: What an older version stored, and that version, to what this one would have stored: a dict of
                fields; of an enum the name of the member; of a subclass of a builtin its content; and with `encode`
                what that gave.
            formerly: The names under which objects of it were stored before, as the error of reading them says them
                (``old.module:Old``), without a version.
            replace: Take the names from a class of the same module and qualified name that has them.

        Raises:
            GraphBuildError: The class can't be stored in this way, the arguments don't fit one another, or another
                class has one of the names. Nothing changed.
        """
        shape = _shape(cls, encode, decode)
        called = full_name(cls) if name is None else name
        _check_versions(cls, version, migrate)
        if isinstance(formerly, str):
            raise GraphBuildError(f"formerly= of {full_name(cls)} takes a list of names, not {formerly!r}.")
        for one in (called, *formerly):
            if not one or "@" in one:
                raise GraphBuildError(
                    f"the name {one!r} for {full_name(cls)} is empty or has an '@', which versions use."
                )
        entry = Registered(called if version == 1 else f"{called}@{version}", cls, shape, version, migrate)
        self._add(entry, (called, *formerly), replace=replace)

    def register_annotation(self, annotation: Any) -> None:
        """Registers every class found in an annotation or schema that needs no `encode` (see `classes_in`).

        Raises:
            GraphBuildError: Two different classes have one name. Register one of them with a ``name=``.
        """
        for cls in classes_in(annotation):
            if self.for_class(cls) is None and (shape := shape_of(cls)) is not None:
                self._add(Registered(full_name(cls), cls, shape), (full_name(cls),), replace=False)

    def include(self, other: Registry) -> None:
        """Registers what another registry holds itself: a nested graph's, for example.

        Raises:
            GraphBuildError: As `register_annotation`.
        """
        for entry in other._by_class.values():
            if self.for_class(entry.cls) is None:
                names = [name for name, known in other._by_name.items() if known is entry]
                self._add(entry, names, replace=False)

    def for_class(self, cls: type) -> Registered | None:
        """The entry of a class, or None if it may not be stored."""
        entry = None if self._parent is None else self._parent.for_class(cls)
        return self._by_class.get(cls) if entry is None else entry

    def for_writing(self, cls: type) -> Registered | None:
        """As `for_class`; a registry that learns registers the class first, if its kind can be stored."""
        entry = self.for_class(cls)
        if entry is None and self._learn and (shape := shape_of(cls)) is not None:
            entry = Registered(full_name(cls), cls, shape)
            self._add(entry, (entry.name,), replace=True)
        return entry

    def for_name(self, stored: str) -> Registered | None:
        """The entry that a name in the bytes stands for, with its version; None if the class is unknown.

        Raises:
            SerializationError: The version is newer than that of the class.
        """
        name, at, digits = stored.rpartition("@")
        if not at:
            entry, version = self._named(stored), 1
        elif digits.isdecimal() and digits.isascii() and len(digits) < 10 and digits[0] != "0":
            entry, version = self._named(name), int(digits)
        else:
            return None
        return None if entry is None else entry.of_version(version)

    def _named(self, name: str) -> Registered | None:
        entry = self._by_name.get(name)
        if entry is not None:
            return self.for_class(entry.cls)
        return None if self._parent is None else self._parent._named(name)

    def _add(self, entry: Registered, names: Iterable[str], *, replace: bool) -> None:
        names = list(names)
        former = [
            known for name in names if (known := self._named(name)) is not None and known.cls is not entry.cls
        ]
        for known in former:
            if not replace or full_name(known.cls) != full_name(entry.cls):
                called = next(name for name in names if self._named(name) is known)
                raise GraphBuildError(
                    f"two different classes are both called {called}: stored objects could not be told apart. "
                    "Give one of them a name of its own with register_type(cls, name=…)."
                )
        gone = [
            known
            for cls in {entry.cls, *(known.cls for known in former)}
            if (known := self._by_class.get(cls))
        ]
        self._by_class[entry.cls] = entry
        if gone:
            kept = {
                name: known for name, known in self._by_name.items() if all(known is not one for one in gone)
            }
            self._by_name = kept | dict.fromkeys(names, entry)  # at once: others may be reading
            for known in former:
                self._by_class.pop(known.cls, None)
        else:
            self._by_name.update(dict.fromkeys(names, entry))


def _shape(cls: Any, encode: Callable[[Any], Any] | None, decode: Callable[[Any], Any] | None) -> Shape:
    """How objects of a class that is being registered are stored."""
    if not isinstance(cls, type) or isinstance(cls, types.GenericAlias):
        raise GraphBuildError(f"only classes can be registered, and {cls!r} isn't one.")
    if cls in _STORED_AS_THEY_ARE or (cls.__module__, cls.__name__) in tags.LATE_ENCODERS:
        raise GraphBuildError(
            f"objects of class {full_name(cls)} are stored exactly as they are; leave it unregistered."
        )
    if (encode is None) is not (decode is None):
        raise GraphBuildError(f"register {cls.__qualname__} with both encode and decode, or with neither")
    if encode is not None and decode is not None:
        return converted(cls, encode, decode)
    shape = shape_of(cls)
    if shape is None:
        raise GraphBuildError(
            f"objects of class {full_name(cls)} can't be stored exactly by looking at them: it is not an enum, "
            "dataclass, named tuple, pydantic model, msgspec struct or a subclass of a builtin value. "
            "Give encode= and decode= as well."
        )
    return shape


_STORED_AS_THEY_ARE = frozenset((type(None), bool, float, bytes, list, *tags.ENCODERS))


def _check_versions(cls: type, version: int, migrate: Migrate | None) -> None:
    if version < 1:
        raise GraphBuildError(f"version {version} of {full_name(cls)}: versions are counted from 1.")
    if (version > 1) is not (migrate is not None):
        raise GraphBuildError(
            f"{full_name(cls)} has version {version}, and {'no ' if migrate is None else ''}migrate=: from version 2 on, "
            "say with migrate= what becomes of what older versions stored."
        )


def full_name(cls: type) -> str:
    """The module and the qualified name of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


# ── Juncture's own ───────────────────────────────────────────────────────────────────────────────────────────


def _only(_: Any) -> None:
    """Encodes a class that has one object."""


def _result_parts(result: RunResult) -> list[Any]:
    places = {name: getattr(result, name) for name in RunResult.__slots__ if name != "value"}
    return [dict(result), places, MISSING if result.value is result else result.value]


def _result(parts: list[Any]) -> RunResult:
    return RunResult(parts[0], value=parts[2], **parts[1])


def _own() -> Registry:
    registry = Registry()
    for cls in (
        Overwrite,
        Command,
        Interrupt,
        Answer,
        Answers,
        CheckpointRef,
        Remove,
        ReplaceAll,
        RemoveMessage,
        Timings,
    ):
        registry.register(cls, name=f"juncture:{cls.__name__}")
    for name, only in (("MISSING", MISSING), ("MARK_FOR_REMOVAL", MARK_FOR_REMOVAL), ("UNSET", UNSET)):
        registry.register(type(only), name=f"juncture:{name}", encode=_only, decode=lambda _, only=only: only)
    registry.register(
        Send,
        name="juncture:Send",
        encode=lambda send: (
            [send.node, send.arg]
            if send.timeout is None
            else [send.node, send.arg, packed_limits(send.timeout)]
        ),
        decode=lambda parts: Send(*parts[:2], timeout=unpacked_limits(parts[2]) if len(parts) > 2 else None),
    )
    registry.register(RunResult, name="juncture:RunResult", encode=_result_parts, decode=_result)
    return registry


DEFAULT = _own()
"""The registry of this process."""


@overload
def register_type(
    cls: C,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    version: int = 1,
    migrate: Migrate | None = None,
    formerly: Collection[str] = (),
) -> C: ...
@overload
def register_type(
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    version: int = 1,
    migrate: Migrate | None = None,
    formerly: Collection[str] = (),
) -> Callable[[C], C]: ...
def register_type(
    cls: C | None = None,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    version: int = 1,
    migrate: Migrate | None = None,
    formerly: Collection[str] = (),
) -> C | Callable[[C], C]:
    """Lets objects of exactly this class be stored by every graph of this process; also as a decorator.

    Classes in a graph's schemas needn't be registered, unless they have a name or versions of their own. See
    `Registry.register` for the arguments and errors; a class that is defined again under its name replaces the former.
    """

    def register(cls: C) -> C:
        DEFAULT.register(
            cls,
            name=name,
            encode=encode,
            decode=decode,
            version=version,
            migrate=migrate,
            formerly=formerly,
            replace=True,
        )
        return cls

    return register if cls is None else register(cls)


# ── classes in annotations ───────────────────────────────────────────────────────────────────────────────────


def classes_in(annotation: Any) -> list[type]:
    """The classes that a value of this annotation may hold by its own words, each once, in the order found.

    Goes through generics, unions, ``Annotated``, ``Literal``, type variables and aliases, channels, and through
    the fields of TypedDicts, dataclasses, named tuples, pydantic models and msgspec structs. What an annotation
    doesn't name isn't found: subclasses, or a forward reference that can't be resolved. Builtins and TypedDicts, whose
    objects are plain dicts, aren't listed.
    """
    found: dict[type, None] = {}
    seen: list[Any] = []  # kept alive, so that an id isn't given to another object meanwhile
    known: set[int] = set()
    todo = [annotation]
    while todo:
        part = todo.pop()
        if id(part) in known:
            continue
        known.add(id(part))
        seen.append(part)
        if isinstance(part, type) and not isinstance(part, types.GenericAlias):
            if part.__module__ not in _SPEAK_OF_TYPES and not typing_extensions.is_typeddict(part):
                found[part] = None
            todo.extend(reversed(list(_of_fields(part))))
        else:
            todo.extend(reversed(list(_of_form(part))))
    return list(found)


def _of_form(form: Any) -> Iterator[Any]:
    """What a form of the typing module, or something that stands in for a type, is made of."""
    if isinstance(form, Channel):
        yield form.typ
        return
    yield from (part for name in _NAMES_A_TYPE if (part := getattr(form, name, None)) is not None)
    yield from getattr(form, "__constraints__", ())
    origin, parts = typing_extensions.get_origin(form), typing_extensions.get_args(form)
    if origin is typing.Annotated:
        yield parts[0]
        parts = [part for part in parts[1:] if isinstance(part, Channel)]
    elif isinstance(origin, type):
        yield origin
    for part in parts:
        if isinstance(part, enum.Enum):  # Literal[Color.RED]
            yield type(part)
        elif isinstance(part, list):  # the parameters of a Callable
            yield from typing.cast("list[Any]", part)
        elif not isinstance(part, str | int | bytes):
            yield part


_SPEAK_OF_TYPES = frozenset(("builtins", "typing", "typing_extensions", "types", "collections.abc"))

# NewType; a TypeVar's bound and default; an alias made by `type` or TypeAliasType.
_NAMES_A_TYPE = ("__supertype__", "__bound__", "__default__", "__value__")


def _of_fields(cls: type) -> Iterator[Any]:
    """The annotations of the fields of a class that has declared fields."""
    generic: dict[str, Any] = getattr(cls, "__pydantic_generic_metadata__", None) or {}
    if generic.get("origin") is not None:
        yield generic["origin"]
        yield from generic["args"]
    if (fields := getattr(cls, "__pydantic_fields__", None)) is not None and not dataclasses.is_dataclass(
        cls
    ):
        yield from (field.annotation for field in fields.values())
    elif _has_fields(cls):
        yield from _hints(cls)


def _has_fields(cls: Any) -> bool:
    msgspec = sys.modules.get("msgspec")
    return (
        dataclasses.is_dataclass(cls)
        or typing_extensions.is_typeddict(cls)
        or hasattr(cls, "_field_defaults")
        or (msgspec is not None and issubclass(cls, msgspec.Struct))
    )


def _hints(cls: type) -> Iterable[Any]:
    try:
        return typing_extensions.get_type_hints(cls, include_extras=True).values()
    except Exception:  # noqa: BLE001 - a reference that can't be resolved may raise anything; look at each alone
        return list(_hints_one_by_one(cls))


def _hints_one_by_one(cls: type) -> Iterator[Any]:
    for base in cls.__mro__:
        module = sys.modules.get(base.__module__)
        scope = {} if module is None else vars(module)
        for name, hint in inspect.get_annotations(base).items():
            alone = type("alone", (), {"__annotations__": {name: hint}, "__module__": base.__module__})
            try:
                yield from typing_extensions.get_type_hints(
                    alone, scope, dict(vars(base)), include_extras=True
                ).values()
            except Exception:  # noqa: BLE001 - whatever users' annotations raise
                continue
