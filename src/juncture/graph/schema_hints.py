"""The annotations of a class, resolved as far as they can be.

1. What a module can resolve is resolved by `typing.get_type_hints`, with extras.
2. A name that can't be found (a class made inside a function, under ``from __future__ import annotations``) becomes an
   `Unresolved` placeholder: ``Annotated[list[Local], add]`` still tells its reducer. Whoever needs the missing part
   asks `unresolved_name` and refuses.
3. ``Required``, ``NotRequired``, ``ReadOnly`` and ``Final`` are taken off, and reported where they say something.
4. Type variables of generic classes are replaced by what the alias or the subclass gives for them.
"""

from __future__ import annotations

import builtins
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, cast, get_args, get_origin

import typing_extensions

_REQUIRED = (typing.Required, typing_extensions.Required)
_NOT_REQUIRED = (typing.NotRequired, typing_extensions.NotRequired)
_QUALIFIERS = (*_REQUIRED, *_NOT_REQUIRED, typing_extensions.ReadOnly, typing.Final)


class Unresolved:
    """Stands for a name in an annotation that couldn't be found."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, _: object) -> Unresolved:
        return self

    def __getattr__(self, attribute: str) -> Unresolved:
        # typing asks its operands for dunder attributes and takes having one for being a generic.
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Unresolved(f"{self.name}.{attribute}")

    def __or__(self, _: object) -> Unresolved:
        return self

    __ror__ = __or__

    def __call__(self, *_: object) -> Unresolved:
        """Itself: typing takes only what can be called for a type."""
        return self


class _Names(dict[str, Any]):
    """Local names for `eval` in which every name is found: here, in the module, in the builtins, or as `Unresolved`."""

    def __init__(self, known: Mapping[str, Any], module: Mapping[str, Any]) -> None:
        super().__init__(known)
        self._module = module

    def __missing__(self, name: str) -> Any:
        found = self._module.get(name, self)
        if found is self:
            found = vars(builtins).get(name, self)
        return Unresolved(name) if found is self else found


def evaluate(annotation: Any, module: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    """An annotation given as text (or forward reference), with `Unresolved` for the names that can't be found."""
    if isinstance(annotation, ForwardRef):
        owner = sys.modules.get(str(annotation.__forward_module__))
        module = vars(owner) if owner is not None else module
        annotation = annotation.__forward_arg__
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, {"__builtins__": builtins}, _Names(known, module))
    except Exception:  # noqa: BLE001 - any expression may stand there: what it raises tells that it can't be read
        return Unresolved(annotation)


def class_hints(tp: type) -> dict[str, Any]:
    """The annotations of a class and its bases by name, base classes first, with extras."""
    try:
        return typing.get_type_hints(tp, include_extras=True)
    except Exception:  # noqa: BLE001 - a name that can't be found fails them all: resolve them one by one
        hints: dict[str, Any] = {}
    for base in reversed(tp.__mro__):
        for name, raw in _own_annotations(base).items():
            hints[name] = _one_hint(raw, base, {tp.__name__: tp})
    return hints


def _own_annotations(cls: type) -> Mapping[str, Any]:
    try:
        return inspect.get_annotations(cls)
    except Exception:  # noqa: BLE001 - Python 3.14 evaluates here, and raises what the annotation raises
        return {}


def _one_hint(raw: Any, owner: type, known: Mapping[str, Any]) -> Any:
    alone = type(owner.__name__, (), {"__annotations__": {"it": raw}, "__module__": owner.__module__})
    try:
        return typing.get_type_hints(alone, include_extras=True)["it"]
    except Exception:  # noqa: BLE001 - evaluated below with placeholders instead
        module = sys.modules.get(owner.__module__)
        return evaluate(raw, vars(module) if module is not None else {}, known)


def generic_hints(tp: Any) -> dict[str, Any]:
    """The annotations of a class or of a generic alias such as ``State[int]``, type variables replaced."""
    cls: type = get_origin(tp) or tp
    hints = class_hints(cls)
    if not _is_generic(cls):
        return hints
    owners: dict[str, Mapping[Any, Any]] = {}
    _assign_owners(cls, _arguments(tp, {}), owners)
    return {name: substituted(hint, owners.get(name, {})) for name, hint in hints.items()}


def _is_generic(cls: type) -> bool:
    return bool(getattr(cls, "__parameters__", ())) or hasattr(cls, "__orig_bases__")


def _arguments(alias: Any, outer: Mapping[Any, Any]) -> dict[Any, Any]:
    origin = get_origin(alias)
    names = getattr(origin, "__parameters__", ())
    return {name: substituted(given, outer) for name, given in zip(names, get_args(alias), strict=False)}


def _assign_owners(cls: type, given: Mapping[Any, Any], owners: dict[str, Mapping[Any, Any]]) -> None:
    """Notes for each annotation which type arguments hold where it was written: one variable may serve two classes."""
    inherited: dict[str, Any] = {}
    bases: tuple[Any, ...] = cls.__dict__.get("__orig_bases__", cls.__bases__)
    for base in reversed(bases):
        origin = get_origin(base) or base
        if isinstance(origin, type) and origin is not typing.Generic:
            _assign_owners(origin, _arguments(base, given), owners)
            inherited.update(_own_annotations(origin))
    repeats = typing.is_typeddict(cls) or typing_extensions.is_typeddict(cls)
    for name, raw in _own_annotations(cls).items():
        # A TypedDict repeats the annotations of its bases as its own.
        if not repeats or name not in inherited or inherited[name] != raw:
            owners[name] = given


def substituted(annotation: Any, given: Mapping[Any, Any]) -> Any:
    """The annotation with type variables replaced."""
    if not given:
        return annotation
    if isinstance(annotation, TypeVar):
        return given.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if not parameters or isinstance(annotation, type):
        return annotation
    return annotation[tuple(given.get(name, name) for name in parameters)]


def unqualified(annotation: Any) -> tuple[Any, bool | None]:
    """The annotation without qualifiers, and whether they say that the key is required (None: they don't)."""
    if annotation is typing.Final:
        return Any, None
    required: bool | None = None
    while get_origin(annotation) in _QUALIFIERS:
        origin = get_origin(annotation)
        if required is None and origin not in {typing_extensions.ReadOnly, typing.Final}:
            required = origin in _REQUIRED
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is Annotated:
        inner, nested = unqualified(annotation.__origin__)
        if inner is not annotation.__origin__:
            annotation = Annotated[(inner, *annotation.__metadata__)]
        required = nested if required is None else required
    return annotation, required


def unresolved_name(annotation: Any) -> str | None:
    """The first name inside an annotation that couldn't be found; None if all were."""
    if isinstance(annotation, Unresolved):
        return annotation.name
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    if get_origin(annotation) is Literal:
        return None
    for part in get_args(annotation):  # of Annotated: the type, and what is annotated on it
        for each in cast("list[Any]", part) if isinstance(part, list) else (part,):
            # Builtin generics keep text as it is: list["Local"].
            name = each if isinstance(each, str) else unresolved_name(each)
            if name is not None and (not isinstance(each, str) or get_origin(annotation) is not Annotated):
                return name
    return None


def known_part(annotation: Any) -> Any:
    """A type that is good enough to tell what is stored: without arguments, or `Any`, if a name can't be found."""
    if unresolved_name(annotation) is None:
        return annotation
    origin = get_origin(annotation)
    return origin if isinstance(origin, type) and origin is not UnionType else Any


def first_parameter(function: Callable[..., Any]) -> Any:
    """The annotation of the parameter that gets the first positional argument, `Unresolved` where it can't be found.

    Raises:
        Exception: There is no such parameter, or no way to tell.
    """
    parameters = inspect.signature(function).parameters.values()
    annotation = next(
        p.annotation for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}
    )
    if not isinstance(annotation, str):
        return annotation
    written = _written(function)
    known = {p.__name__: p for p in getattr(written, "__type_params__", ())} | _enclosed(written)
    return evaluate(annotation, written.__globals__, known)


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """The names that a function took from the functions around it."""
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return found


def _written(function: Any) -> FunctionType:
    """The function that was written, below partials, methods, callable objects and decorators."""
    while not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        if hasattr(function, "__wrapped__"):
            function = cast("Any", function).__wrapped__
        elif isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isroutine(function):
            raise TypeError(f"{function!r} isn't written in Python")
        else:
            function = function.__init__ if isinstance(function, type) else type(function).__call__
    return function
