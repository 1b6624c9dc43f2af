"""Where in a value the trouble is: ``state.docs[3].client``.

Looked for only after encoding or decoding has failed, because knowing the place at all times would cost more than
the work itself: from the whole downwards, always into the first part that fails by itself. A place is the list of
steps that lead there: a position, the name of a key or field, or a key of another type.
"""

from __future__ import annotations

# Values of any type and containers of anything are what this file is about: there is no type to be known.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
import reprlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ormsgpack import unpackb

from juncture.errors import SerializationError
from juncture.persistence import tags

if TYPE_CHECKING:
    from juncture.persistence.codec import Codec


class Found(NamedTuple):
    """What is wrong, and where."""

    steps: list[Any]
    error: SerializationError

    def told(self, where: str) -> SerializationError:
        """An error that says both; ``where`` is the name of the whole."""
        said = SerializationError(f"{where}{''.join(map(_shown_step, self.steps))}: {self.error}")
        said.__cause__ = self.error.__cause__
        return said


class _TooDeepError(SerializationError):
    """Not one thing in the value is the trouble, but how deep it is nested, or that it contains itself."""


def too_deep(why: str) -> SerializationError:
    """An error for which no place is looked for, except that of a loop."""
    return _TooDeepError(why)


class Tagged(NamedTuple):
    """An extension type that wasn't decoded."""

    tag: int
    payload: bytes


class _Key(NamedTuple):
    """The step to a key itself, instead of its value."""

    key: Any


def of_writing(codec: Codec, value: Any, error: SerializationError) -> Found:
    """The first thing in a value that can't be written, given the error of the whole."""
    if isinstance(error, _TooDeepError):
        return _loop(codec, value) or Found([], error)
    steps: list[Any] = []
    while True:
        failing = _first((step, item, _refused(codec, item)) for step, item in _inside(codec, value))
        if failing is None:
            return Found(steps, error)
        step, value, error = failing
        steps.append(step)


def _loop(codec: Codec, value: Any) -> Found | None:
    """The first thing in a value that is also around it."""
    steps: list[Any] = []
    around = {id(value): value}
    fine: dict[int, Any] = {}  # with the objects, as above: an id is its own only while its object lives
    levels = [(value, iter(_inside(codec, value)))]
    while levels:
        whole, inside = levels[-1]
        step, item = next(inside, (_END, None))
        if step is _END:
            levels.pop()
            fine[id(whole)] = around.pop(id(whole))
            if steps:
                steps.pop()
        elif id(item) in around:
            return Found([*steps, step], SerializationError("refers to itself; such a value can't be stored"))
        elif id(item) not in fine:
            steps.append(step)
            around[id(item)] = item
            levels.append((item, iter(_inside(codec, item))))
    return None


_END = object()


def of_reading(codec: Codec, stored: bytes, error: SerializationError) -> Found:
    """The first thing in stored bytes that can't be read, given the error of the whole."""
    steps: list[Any] = []
    if isinstance(error, _TooDeepError):
        return Found(steps, error)
    try:
        part = unpackb(stored, ext_hook=Tagged)
    except ValueError:
        return Found(steps, error)
    while len(steps) < _FURTHEST:
        inside = _inside_tagged(part) if isinstance(part, Tagged) else _steps(part)
        failing = _first((step, item, _unreadable(codec, item)) for step, item in inside)
        if failing is None:
            break
        step, part, error = failing
        steps.append(step)
    return Found(steps, error)


_FURTHEST = 32
"""Each step reads everything anew: in bytes that were made up for it, the way to the end would take minutes."""


def item_of(stored: bytes, steps: Iterable[int]) -> str | None:
    """The text that stands at a place in stored lists; None if none does."""
    part: Any = unpackb(stored, ext_hook=Tagged)
    for step in steps:
        if not isinstance(part, list) or not 0 <= step < len(part):
            return None
        part = part[step]
    return part if isinstance(part, str) else None


def _first(
    tried: Iterable[tuple[Any, Any, SerializationError | None]],
) -> tuple[Any, Any, SerializationError] | None:
    return next(((step, item, error) for step, item, error in tried if error is not None), None)


def _refused(codec: Codec, value: Any) -> SerializationError | None:
    try:
        codec.pack(value)
    except SerializationError as error:
        return error
    return None


def _unreadable(codec: Codec, part: Any) -> SerializationError | None:
    todo = [part]
    while todo:
        item = todo.pop()
        if isinstance(item, Tagged):
            try:
                codec.value_of(*item)
            except SerializationError as error:
                return error
        else:
            todo.extend(inner for _, inner in _steps(item))
    return None


def _inside(codec: Codec, value: Any) -> Iterable[tuple[Any, Any]]:
    """What a value is made of, each with the step that leads to it."""
    cls = type(value)
    if cls is list or cls in tags.SEQUENCES or cls in tags.MAPPINGS:
        return _steps(value)
    entry = codec.registry.for_class(cls)
    if entry is None:
        return ()
    try:
        return entry.shape.fields(value).items()
    except Exception:  # noqa: BLE001 - users' code; what it raises is told when the object itself is tried
        return ()


def _inside_tagged(part: Tagged) -> Iterator[tuple[Any, Any]]:
    """What stands inside an extension type whose payload is a value, as far as there are names for it."""
    try:
        content = unpackb(part.payload, ext_hook=Tagged)
    except ValueError:
        return
    match part.tag, content:
        case (tags.OBJECT, [str(), [dict(fields), *_]]):
            yield from _steps(fields)
        case (tags.TUPLE, list(items)):
            yield from _steps(items)
        case (tags.MAPPING, list(flat)):
            yield from zip(flat[::2], flat[1::2], strict=False)
        case _:
            pass


def _steps(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            if type(key) is not str:
                yield (_Key(key), key)
            yield (key, item)
    elif type(value) is list or type(value) in tags.SEQUENCES:
        yield from enumerate(value)


def _shown_step(step: Any) -> str:
    if isinstance(step, _Key):
        return f".key({_shown(step.key)})"
    if type(step) is str and step.isidentifier():
        return f".{step}"
    return f"[{_shown(step)}]"


_shown = reprlib.Repr().repr
