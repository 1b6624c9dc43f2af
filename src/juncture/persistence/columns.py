"""Many objects as bytes of what they hold: to tell at C speed that none was changed in place, and to make them anew.

A chat's messages are a long list of objects that user code shares. To save such a list, each object has to be looked
into, since any may have been changed; one by one that takes ten times as long as writing down what they hold. So a list
is read here by columns: the ``__dict__`` of all its objects, then each of their slots, each column packed as one value.

Why the same bytes mean that nothing changed
--------------------------------------------
1. `juncture.persistence.shapes.Held` names all that the shape's ``take`` looks at. Objects of a class that has more to
   it (their own ``encode``, a subclass of a builtin, something computed and cached) aren't taken here.
2. What is packed is read back as what it was, types and order included: it is the checkpoint's own encoding
   (`juncture.persistence.codec`). So the same bytes are the same content, of objects nested in it as well: ``1`` and ``True``
   differ, and so do bytes and a bytearray of the same bytes.
3. The classes are compared beside it, and the list must begin with the very objects that it began with.
4. The bytes that are kept are made *before* the objects are encoded to be saved. What changes an object in between shows the
   next time.

Whatever isn't so, and whatever can't be packed, is left to `juncture.persistence.deltas`, which looks at each object.

An object made anew is one whose ``__dict__`` and slots hold what was read back from those bytes: the same as reading it from
the checkpoint, since a ``__dict__`` is only taken that holds the declared fields in their order.
"""

from __future__ import annotations

# Objects of any class are what this file is about: there is no type to be known.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter, is_
from typing import Any, Final, NamedTuple

from juncture.errors import SerializationError
from juncture.persistence.codec import Codec, Objects
from juncture.persistence.shapes import Held
from juncture.persistence.tags import array_head

LONG: Final = 16
"""From how many objects on a list is read by columns."""
CHUNK: Final = 128
"""How many objects are packed at once: bytes of a few kilobytes are made without asking the system for memory."""

_dict_of = attrgetter("__dict__")


class _Chunk(NamedTuple):
    """Some objects that follow one another."""

    size: int
    packed: list[bytes]
    """Each column's items, without the head of the list that they were packed as."""


class Columns:
    """What the objects of one list held when they were last saved. Never changed, except by `drop_items`."""

    __slots__ = ("_chunks", "_codec", "_helds", "_kinds", "_payloads", "items", "weight")

    def __init__(self, codec: Codec) -> None:
        """Of no objects yet."""
        self._codec = codec
        self._chunks: list[_Chunk] = []
        self._helds: dict[type, Held] = {}
        self._kinds: list[type] = []
        self._payloads: list[bytes] = []
        self.items: list[Any] = []
        """The list. It isn't changed."""
        self.weight = 0
        """How many bytes are kept here."""

    @classmethod
    def of(cls, codec: Codec, value: Any) -> Columns | None:
        """Those of a value that is about to be saved; None unless it is a long list of objects that can be read so."""
        if type(value) is not list or len(value) < LONG:
            return None
        return cls(codec)._followed_by(value)

    def grown(self, value: Any) -> Columns | None:
        """Those of a list that begins with the objects of this one, none of which was changed; None otherwise."""
        items = self.items
        if type(value) is not list or len(value) < len(items):
            return None
        if not (value is items or all(map(is_, items, value))):
            return None
        return self._followed_by(value) if self.is_known and self._is_unchanged() else None

    def noted(self, known: Objects) -> bool:
        """Takes up the bytes of those objects that are new here, as they were saved.

        Returns:
            False if one's aren't known, so that this can't be gone on from.
        """
        new = self.items[len(self._payloads) :]
        try:
            payloads = [known[id(item)][1] for item in new]
        except KeyError:
            return False
        self._payloads = [*self._payloads, *payloads]
        self.weight += sum(map(len, payloads))
        return True

    def known(self) -> Objects:
        """The objects with their bytes, as they were saved."""
        each = zip(self.items, self._payloads, strict=True)
        return {id(item): (item, payload) for item, payload in each}

    # ---- to be kept while nobody runs

    def drop_items(self) -> None:
        """Forgets the objects themselves, which others may change; `anew` makes them again."""
        self.items = []

    @property
    def is_known(self) -> bool:
        """Whether the classes are still stored as they were."""
        return all(_held(self._codec, cls) is held for cls, held in self._helds.items())

    def anew(self) -> Columns:
        """The same of new objects that hold what these held when they were saved.

        Raises:
            SerializationError: One can't be rebuilt.
        """
        made: list[Any] = []
        try:
            for chunk in self._chunks:
                made += self._made(chunk, self._kinds[len(made) : len(made) + chunk.size])
        except Exception as error:
            raise SerializationError(f"the objects of a list can't be rebuilt: {error}") from error
        same = self._copy()
        same.items = made
        return same

    def _made(self, chunk: _Chunk, kinds: Sequence[type]) -> list[Any]:
        helds = self._helds
        objects = [helds[cls].new() for cls in kinds]
        head = array_head(chunk.size)
        columns = iter([self._codec.unpack(head + packed) for packed in chunk.packed])
        held = helds[kinds[0]]
        if held.names is not None:
            _each(object.__setattr__, objects, repeat("__dict__"), next(columns))
        for slot, is_set in held.slots:
            column = next(columns)
            _each(slot.__set__, objects, map(set, column) if is_set else column)
        return objects

    # ---- reading objects

    def _is_unchanged(self) -> bool:
        items, start = self.items, 0
        if not all(map(is_, map(type, items), self._kinds)):
            return False
        for size, packed in self._chunks:
            if self._packed(items[start : start + size]) != packed:
                return False
            start += size
        return True

    def _followed_by(self, value: list[Any]) -> Columns | None:
        """The same with the rest of a list."""
        made = self._copy()
        made.items = value
        new = value[len(self.items) :]
        if not made._takes(new):
            return None
        while new:
            last = made._chunks[-1].size if made._chunks else CHUNK
            some = new[: CHUNK - last or CHUNK]
            new = new[len(some) :]
            packed = made._packed(some)
            if packed is None:
                return None
            made.weight += sum(map(len, packed))
            if last < CHUNK:
                before = made._chunks.pop()
                some_more = [old + more for old, more in zip(before.packed, packed, strict=True)]
                made._chunks.append(_Chunk(last + len(some), some_more))
            else:
                made._chunks.append(_Chunk(len(some), packed))
        return made

    def _takes(self, new: list[Any]) -> bool:
        """Takes up the classes of objects that are to follow; False if one can't be read as those before it."""
        kinds = list(map(type, new))
        for cls in dict.fromkeys(kinds):
            if cls in self._helds:
                continue
            held = _held(self._codec, cls)
            if held is None:
                return False
            first = next(iter(self._helds.values()), held)
            if (held.names is None, held.slots) != (first.names is None, first.slots):
                return False
            self._helds[cls] = held
        self._kinds = [*self._kinds, *kinds]
        helds = self._helds
        return all(
            (names := helds[cls].names) is None or tuple(_dict_of(item)) == names
            for cls, item in zip(kinds, new, strict=True)
        )

    def _packed(self, items: list[Any]) -> list[bytes] | None:
        """The columns of some objects; None where they can't be packed, or one lacks a slot."""
        held = self._helds[type(items[0])]
        pack, head = self._codec.pack, len(array_head(len(items)))
        packed: list[bytes] = []
        try:
            if held.names is not None:
                packed.append(pack(list(map(_dict_of, items)))[head:])
            for slot, is_set in held.slots:
                column = map(slot.__get__, items)
                packed.append(pack(list(map(list, column) if is_set else column))[head:])
        except (AttributeError, TypeError, SerializationError):
            return None
        return packed

    def _copy(self) -> Columns:
        made = Columns(self._codec)
        made._chunks, made._helds = list(self._chunks), dict(self._helds)
        made._kinds, made._payloads, made.weight = self._kinds, self._payloads, self.weight
        return made


def _held(codec: Codec, cls: type) -> Held | None:
    entry = codec.registry.for_writing(cls)
    return None if entry is None else entry.shape.held


def _each(call: Any, *arguments: Any) -> None:
    """Calls with the first of each, the second of each, and so on: at C speed."""
    deque(map(call, *arguments), maxlen=0)
