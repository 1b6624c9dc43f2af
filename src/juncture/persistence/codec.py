"""Values to bytes and back, exactly: the value equals what was written, and so does every type in it.

The encoding, version 1
-----------------------
A value is one MessagePack object. What MessagePack has a word for is written as such:

    None, bool, float (64 bits), int from -2**63 to 2**64 - 1, str, bytes, list, and dict whose keys are all str

of exactly these types, no subclasses. Everything else is an extension type. Its tag says which, and its payload is
described in `juncture.persistence.tags`; in most it is again a value in this encoding:

     1  int beyond that          big-endian two's complement
     2  str with lone surrogates "utf-8" with "surrogatepass"
     3  bytearray                its bytes
     4  complex                  two big-endian doubles
     5  range                    [start, stop, step]
     6  Decimal                  its text
     7  Fraction                 [numerator, denominator]
    16  tuple                    [item, …]
    17  dict with other keys     [key, value, key, value, …]
    18  set, 19 frozenset        [item, …], ascending as bytes
    20  deque                    [maxlen or nil, item, …]
    21  defaultdict              [name of the factory or nil, key, value, …]
    22  OrderedDict, 23 Counter  [key, value, …]
    32  datetime                 [year, month, day, hour, minute, second, microsecond, fold, zone]
    33  date                     [year, month, day]
    34  time                     [hour, minute, second, microsecond, fold, zone]
    35  timedelta                [days, seconds, microseconds]
    36  timezone                 [offset] or [offset, name]
    37  ZoneInfo                 its key
    40  UUID                     16 bytes
    41  path                     [name of the class, text]
    48  numpy array              [dtype, shape, "C" or "F", bytes; or for objects a list]
    49  numpy scalar             as 48, without dimensions
    64  object                   [name of the class in the registry, parts as its shape says]

A zone is nil, true for UTC, or a value of tag 36 or 37. Dicts keep their order. Objects that stood in two places
are written twice and come back as two; what refers to itself can't be written.

How it is fast
--------------
ormsgpack does the work, and calls back for what isn't its own. It has no word for three things and either raises or
writes something else: keys that aren't str and text with surrogates (it raises), and bytearray (it writes bytes).
So the fast path is tried first; if it raises, or if its output has a byte that starts binary content and a look at
the value finds such content, the containers on the way to the odd thing are rebuilt (`_Level._rebuilt`).
"""

from __future__ import annotations

# Values of any type and containers of anything are what this file is about: there is no type to be known.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
import sys
from _thread import get_ident
from collections.abc import Callable
from enum import EnumMeta
from itertools import chain
from typing import Any, TypeAlias

import ormsgpack
from ormsgpack import Ext, Fragment, packb, unpackb

from juncture.errors import SerializationError
from juncture.persistence import places, tags
from juncture.persistence.places import Tagged, too_deep
from juncture.persistence.registry import Registered, Registry, full_name

# Whatever ormsgpack would write as something that reads back otherwise is passed to the callback instead.
_EXACT = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
DEEPEST_PLAIN = 255
"""How deep lists and dicts may be nested in one another: ormsgpack's own limit."""
DEEPEST_OTHER = 100
"""How deep tuples, sets, objects and the like may be nested in one another."""
_TOO_DEEP = f"lists and dicts nested more than {DEEPEST_PLAIN} deep"
_TOO_DEEP_INSIDE = f"tuples, sets or objects nested more than {DEEPEST_OTHER} deep"
_NO_STACK = "nested too deep for what is left of Python's stack"

Objects: TypeAlias = dict[int, tuple[Any, bytes]]
"""Objects that user code can change in place, with their bytes, by identity; an id is its own while its object lives."""


class Codec:
    """Turns values into bytes and back, with the classes of one registry. Shared by any number of runs at once.

    Objects of ormsgpack's own classes ``Ext`` and ``Fragment`` are bytes already and not values: don't store them.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.encoders = dict(tags.ENCODERS)
        # ormsgpack drops whatever its callbacks raise and raises its own; this is where they leave it, by worker.
        self._left: dict[int, BaseException] = {}
        # What was tagged since something odd was met in an encoding, by worker and identity: see `_Level.pack`.
        self.kept: dict[int, dict[int, tuple[Any, Ext]]] = {}
        # Where the objects that are met are noted, by worker: see `pack_noting`.
        self._noted: dict[int, Objects] = {}
        self._top = _Level(self, 0)
        self._reading = _Reading(self, 0)

    def encode(self, value: Any, where: str = "value") -> bytes:
        """The bytes of a value.

        Args:
            value: Isn't changed, and isn't referred to afterwards.
            where: What to call the value in an error.

        Raises:
            SerializationError: Something in it can't be stored exactly. Says where it stands, its class and what to
                do.
        """
        try:
            return self.pack(value)
        except SerializationError as error:
            told = places.of_writing(self, value, error).told(where)
            raise told from told.__cause__

    def pack(self, value: Any) -> bytes:
        """As `encode`, without saying where."""
        try:
            return self._top.pack(value)
        finally:
            if self.kept:
                self.kept.pop(get_ident(), None)

    def decode(self, stored: bytes, where: str = "value") -> Any:
        """The value of bytes that `encode` gave; equal, of the same types, and new in every container.

        Raises:
            SerializationError: The bytes aren't such, or name a class that isn't registered or can't be rebuilt.
                Nothing was imported, and no code of an unregistered class was called.
        """
        try:
            return self.unpack(stored)
        except SerializationError as error:
            told = places.of_reading(self, stored, error).told(where)
            raise told from told.__cause__

    # ── one value that ormsgpack has no word for; for the levels and `places` ────────────────────────────────

    def extension(self, value: Any, pack: tags.Pack) -> Ext:
        """The tagged bytes of a value that is not of a builtin type.

        Raises:
            SerializationError: Its class isn't registered, or this object of it can't be stored.
        """
        entry = self.registry.for_writing(type(value))
        if entry is not None:
            tag, payload = tags.OBJECT, pack([entry.name, self.taken(entry, value)])
        else:
            tagged = self._late(value)
            if tagged is None:
                raise SerializationError(_refusal(value))
            tag, payload = tagged[0], tagged[1](value, pack)
        if self._noted and _is_mutable(tag, type(value)):
            self._note(value, payload)
        return Ext(tag, payload)

    def taken(self, entry: Registered, value: Any) -> Any:
        """The parts of an object of a registered class."""
        try:
            return entry.shape.take(value)
        except Exception as error:
            raise SerializationError(f"this {full_name(entry.cls)} can't be stored: {error}") from error

    def _late(self, value: Any) -> tuple[int, tags.Encoder] | None:
        """The encoder of a class that isn't loaded with Juncture."""
        cls = type(value)
        tagged = tags.LATE_ENCODERS.get((cls.__module__, cls.__name__))
        if tagged is not None and getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls:
            self.encoders[cls] = tagged
            return tagged
        if (numpy := sys.modules.get("numpy")) is not None:
            if cls is numpy.ndarray:
                return (tags.ARRAY, tags.array)
            if issubclass(cls, numpy.generic) and value.dtype.type is cls:
                return (tags.NUMPY_SCALAR, tags.numpy_scalar)
        return None

    # ── objects, which may have been changed in place; for `deltas` ──────────────────────────────────────────

    def pack_noting(self, value: Any) -> tuple[bytes, Objects]:
        """As `pack`, with the objects in it."""
        worker = get_ident()
        noted = self._noted[worker] = {}
        try:
            return self.pack(value), noted
        finally:
            self._noted.pop(worker, None)

    def unpack_noting(self, stored: bytes, noted: Objects | None = None) -> tuple[Any, Objects]:
        """As `unpack`, with the objects in it; added to those that were noted, if any are given."""
        if noted is None:
            noted = {}
        worker = get_ident()
        self._noted[worker] = noted
        try:
            return self.unpack(stored), noted
        finally:
            self._noted.pop(worker, None)

    def _note(self, value: Any, payload: bytes) -> None:
        noted = self._noted.get(get_ident())
        if noted is not None:
            noted[id(value)] = (value, payload)

    def is_object(self, cls: type) -> bool:
        """Whether values of a class are what `pack_noting` notes, if they can be stored at all."""
        if isinstance(cls, EnumMeta):
            return False
        return self.registry.for_writing(cls) is not None or cls.__name__ == "ndarray"

    def object_bytes(self, value: Any) -> bytes:
        """The bytes of one object, as they are noted.

        Raises:
            SerializationError: It can't be stored.
        """
        _, noted = self.pack_noting(value)
        return noted[id(value)][1]

    def object_parts(self, value: Any) -> Any:
        """What the shape of an object's class takes of it; None where it has no shape."""
        entry = self.registry.for_writing(type(value))
        return None if entry is None else self.taken(entry, value)

    def keeps_name(self, value: Any, payload: bytes) -> bool:
        """Whether the bytes of an object were written under the name that its class has now."""
        entry = self.registry.for_writing(type(value))
        return entry is not None and payload.startswith(b"\x92" + packb(entry.name))

    def rebuilt(self, payload: bytes, change: Callable[[Any, Objects], Any]) -> tuple[Any, bytes]:
        """The object of changed parts, and its bytes.

        Args:
            payload: The bytes of the object that it was, by whatever name its class had then.
            change: Makes the new parts of the old ones; gets the objects in them as well.

        Raises:
            SerializationError: The bytes aren't an object's, or its class doesn't take the parts.
        """
        stored, objects = self.unpack_noting(payload)
        match stored:
            case [str(name), parts]:
                parts = change(parts, objects)
                changed = self.pack([name, parts])
                return self._object(changed, self.unpack), changed
            case _:
                raise SerializationError("a change of an object is of something else")

    def unpack(self, stored: bytes) -> Any:
        """As `decode`, without saying where."""
        match self._reading.unpack(b"".join((_PAIR, stored, _END))):
            case [value, bytes(end)] if end == _END_READ:
                return value
            case _:
                raise _no_value("something follows the value")

    def value_of(self, tag: int, payload: bytes, unpack: tags.Unpack | None = None) -> Any:
        """The value of tagged bytes; ``unpack`` reads what stands in them."""
        unpack = unpack or self.unpack
        if tag == tags.OBJECT:
            value = self._object(payload, unpack)
            if self._noted and not isinstance(type(value), EnumMeta):
                self._note(value, payload)
            return value
        decoder = tags.DECODERS.get(tag)
        if decoder is None:
            raise SerializationError(
                f"a value of kind {tag}, which this version of Juncture doesn't know; update it"
            )
        try:
            value = decoder(payload, unpack)
        except (SerializationError, RecursionError):
            raise
        except Exception as error:
            raise SerializationError(f"the stored value of kind {tag} can't be rebuilt: {error}") from error
        if tag == tags.ARRAY and self._noted:
            self._note(value, payload)
        return value

    def _object(self, payload: bytes, unpack: tags.Unpack) -> Any:
        match unpack(payload):
            case [str(name), parts]:
                pass
            case _:
                raise SerializationError("a stored object doesn't say its class")
        entry = self.registry.for_name(name)
        if entry is None:
            raise SerializationError(
                f"an object of class {name}, which isn't registered here; it was not imported. Name the class in the "
                "graph's schema, or call juncture.register_type before reading"
            )
        return self._made(entry, name, parts)

    def _made(self, entry: Registered, name: str, parts: Any) -> Any:
        try:
            return entry.shape.make(parts)
        except RecursionError:
            raise
        except Exception as error:
            raise SerializationError(
                f"the stored object of class {name} can't be rebuilt: {error}"
            ) from error

    def leave(self, error: BaseException) -> None:
        """Keeps what a callback raised, for whoever called ormsgpack."""
        self._left[get_ident()] = error

    def raised(self, instead: Exception) -> BaseException | None:
        """What the callback raised, once; None if ormsgpack's own error is about something else.

        Where Python had no stack left to call it, it left nothing, and only the text of ormsgpack's error says so.
        """
        error = self._left.pop(get_ident(), None)
        uncalled = error is None and str(instead).startswith(("ext_hook failed", "Type is not"))
        return too_deep(_NO_STACK) if uncalled or isinstance(error, RecursionError) else error


class _Reading:
    """Unpacks the values at one depth of extension types within extension types.

    ormsgpack needs half a kilobyte of the C stack for each list or dict within another, and takes 1024 of them. Read
    one inside the other, a hundred such towers would be the end of the process. So from some depth on, an extension
    type is read after ormsgpack has returned; unless it is too short to hold a tower.
    """

    __slots__ = ("_below", "_codec", "_depth", "_hook", "unpack")

    def __init__(self, codec: Codec, depth: int) -> None:
        self._codec = codec
        self._depth = depth
        self._below: tags.Unpack | None = None
        self._hook = self._value
        self.unpack: tags.Unpack = self._at_once if depth < _DEEPEST_AT_ONCE else self._in_turn

    def _inner(self) -> tags.Unpack:
        """Unpacks what stands inside an extension type of this depth."""
        if self._below is None:
            if self._depth >= DEEPEST_OTHER:
                raise too_deep(_TOO_DEEP_INSIDE)
            self._below = _Reading(self._codec, self._depth + 1).unpack
        return self._below

    def _value(self, tag: int, payload: bytes) -> Any:
        try:
            return self._codec.value_of(tag, payload, self._below or self._inner())
        except BaseException as error:
            self._codec.leave(error)
            raise

    def _at_once(self, stored: bytes) -> Any:
        try:
            return unpackb(stored, ext_hook=self._hook)
        except ValueError as error:
            raised = self._codec.raised(error) or _no_value(error)
            try:
                raise raised from raised.__cause__
            finally:
                del raised  # or it would keep this frame, and the frame it, and both the bytes

    def _in_turn(self, stored: bytes) -> Any:
        """As `_at_once`. Python's own stack is the limit: its calls of its own functions need none of C's."""
        if len(stored) <= _TOO_SHORT_FOR_A_TOWER:
            return self._at_once(stored)
        try:
            read = [unpackb(stored, ext_hook=Tagged)]
        except ValueError as error:
            raise _no_value(error) from None
        todo: list[Any] = [read]
        while todo:
            part = todo.pop()
            for place, item in part.items() if type(part) is dict else enumerate(part):
                kind = type(item)
                if kind is Tagged:
                    part[place] = self._codec.value_of(item.tag, item.payload, self._inner())
                elif kind is list or kind is dict:
                    todo.append(item)
        return read[0]


_DEEPEST_AT_ONCE = 4
_TOO_SHORT_FOR_A_TOWER = 256


_PAIR, _END = b"\x92", b"\xc4\x08end here"
_END_READ = b"end here"
"""ormsgpack doesn't say that bytes follow the value; in an array with this it shows."""


def _no_value(error: ValueError | str) -> SerializationError:
    return SerializationError(f"these bytes are no stored value: {error}")


class _Level:
    """Packs the values at one depth of extension types within extension types."""

    __slots__ = ("_codec", "_depth", "_encoders", "_hook", "_inner")

    def __init__(self, codec: Codec, depth: int) -> None:
        self._codec = codec
        self._depth = depth
        self._encoders = codec.encoders
        self._inner: tags.Pack | None = None
        self._hook = self._tagged  # bound once; binding costs as much as a small value

    def _below(self) -> tags.Pack:
        """Packs what stands inside an extension type of this level."""
        if self._inner is None:
            if self._depth >= DEEPEST_OTHER:
                raise too_deep(_TOO_DEEP_INSIDE)
            self._inner = _Level(self._codec, self._depth + 1).pack
        return self._inner

    def pack(self, value: Any) -> bytes:
        """The bytes of a value.

        Raises:
            SerializationError: Something in it can't be stored.
        """
        packed = self._packed(value)
        if packed is not None:
            return packed
        # From here on, what is tagged is kept: it is met again below, and again in every value around that is odd
        # itself. Without that, the time would double with each level of such values.
        self._codec.kept.setdefault(get_ident(), {})
        try:
            ready = self._rebuilt(value, 0) if type(value) in _NESTING else self._leaf(value)
        except RecursionError:
            raise too_deep(_NO_STACK) from None
        try:
            return packb(ready, self._hook, _EXACT)
        except TypeError as error:  # what is left for ormsgpack to object to by itself is the depth
            raised = self._codec.raised(error) or too_deep(_TOO_DEEP)
            raise raised from raised.__cause__

    def _packed(self, value: Any) -> bytes | None:
        """The bytes of a value, or None if ormsgpack by itself gets something in it wrong."""
        try:
            packed = packb(value, self._hook, _EXACT)
        except TypeError as error:
            if (raised := self._codec.raised(error)) is not None:
                raise raised from raised.__cause__
            return None
        # 0xc4 to 0xc6 start binary content; they occur elsewhere too, so this only says when to look.
        if (196 in packed or 197 in packed or 198 in packed) and _holds_buffer(value):
            return None
        return packed

    def _rebuilt(self, value: Any, depth: int) -> Any:
        """A list or dict with everything that ormsgpack gets wrong replaced by its bytes.

        What stands inside is rebuilt in turn only where it has such a thing itself. One call of this a level: a deep
        value shouldn't need a deep stack.
        """
        if depth >= DEEPEST_PLAIN:
            raise too_deep(_TOO_DEEP)
        if type(value) is dict and not all(type(key) is str and _is_utf8(key) for key in value):
            return Ext(tags.MAPPING, tags.mapping(value, self._below()))
        made: dict[Any, Any] = {}
        for key, item in value.items() if type(value) is dict else enumerate(value):
            cls = type(item)
            if cls in _SIMPLE:
                made[key] = item
            elif cls not in _NESTING:
                made[key] = self._leaf(item)
            elif self._packed(item) is not None:
                made[key] = item
            else:
                made[key] = self._rebuilt(item, depth + 1)
        return made if type(value) is dict else list(made.values())

    def _leaf(self, value: Any) -> Any:
        cls = type(value)
        if cls is str and not _is_utf8(value):
            return Ext(tags.STRING, tags.string(value, self.pack))
        if cls is bytearray:
            return Ext(tags.BYTEARRAY, bytes(value))
        if cls in _NEVER:
            raise SerializationError(_refusal(value))
        return value

    def _tagged(self, value: Any) -> Ext:
        """What ormsgpack calls for a value that isn't its own."""
        try:
            if self._codec.kept:
                return self._tagged_once(value)
            return self._extension(value)
        except BaseException as error:
            self._codec.leave(error)
            raise

    def _tagged_once(self, value: Any) -> Ext:
        """As `_extension`, once for each object in an encoding that has met something odd."""
        kept = self._codec.kept.get(get_ident())
        if kept is None:  # it is another worker's encoding that has
            return self._extension(value)
        found = kept.get(id(value))
        if found is None:
            found = kept[id(value)] = (
                value,
                self._extension(value),
            )  # with the value: an id is its own while it lives
        return found[1]

    def _extension(self, value: Any) -> Ext:
        pack = self._inner or self._below()
        tagged = self._encoders.get(type(value))
        if tagged is not None:
            return Ext(tagged[0], tagged[1](value, pack))
        return self._codec.extension(value, pack)


def _is_mutable(tag: int, cls: type) -> bool:
    return (tag == tags.OBJECT and not isinstance(cls, EnumMeta)) or tag == tags.ARRAY


_SIMPLE = frozenset((type(None), bool, int, float, bytes))
_NESTING = frozenset((list, dict))
_NEVER = frozenset((memoryview, Ext, Fragment))  # ormsgpack takes them, but they are no values
_BUFFERS = _NEVER | {bytearray}


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _holds_buffer(value: Any) -> bool:
    """Whether lists and dicts nested in one another hold a bytearray, or what ormsgpack writes as if it were one."""
    level = [value]
    while level:  # what stands as deep, at once: of a long list of dicts, at C speed
        kinds = set(map(type, level))
        if not kinds.isdisjoint(_BUFFERS):
            return True
        lists = [part for part in level if type(part) is list] if list in kinds else []
        dicts = [part for part in level if type(part) is dict] if dict in kinds else []
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, dicts))]
    return False


def _refusal(value: Any) -> str:
    """Why an object of an unknown class isn't stored, and what to do."""
    cls = type(value)
    base = next((b for b in cls.__mro__[1:-1] if b in tags.ENCODERS or b in _SIMPLE or b in _NESTING), None)
    kind = f"an object of class {full_name(cls)}"
    if base is not None:
        kind += f", a subclass of {base.__name__}, which would come back as a plain {base.__name__}"
    return (
        f"{kind}, is not of a class that this graph may store. Name the class in the schema's annotations, or call "
        f"juncture.register_type({cls.__name__}); for a connection, stream or the like, keep it out of the state"
    )
