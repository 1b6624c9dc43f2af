"""What changed between two values, exactly, and how to make the second of the first.

A *change* is a list that begins with its kind:

    [0, value]                            it is this value now
    [1, start, end, [item, …]]            list or tuple: these items instead of those from start to before end
    [2, index, change, index, change, …]  list or tuple: some of its items changed
    [3, [key, …], key, change, …]         dict: these keys are gone; then those that changed, and new ones (kind 0) at
                                          the end, in their order
    [4, length, text]                     str: so many of its first characters, then this text
    [5, [item, …], [item, …]]             set or frozenset: these are gone, these are new
    [6, change]                           object of a registered class: what changed in the parts that its shape takes
    [7, change, change]                   one after the other

Dicts are those of any builtin class; a tuple, set or dict keeps its class. Nothing else is looked into: a value of
another type is replaced. A change never says what a reducer did: it is found by comparing two values, so applying it
gives the second value whatever made it, order of keys and types (``1`` is not ``True``) included.

How a value that was changed in place is never missed
-----------------------------------------------------
Containers of the committed state can't be reached by user code (`juncture.engine.values`), so a container that *is*
the one saved last is unchanged in itself. Objects are shared with user code, so being the same object says nothing:
each is compared by its bytes, with those that were saved or read (`Objects`). A key without objects costs one
identity check; one with objects costs encoding them, which `juncture.persistence.columns` does for a long list of them
at once: only where it finds a difference is each looked at here. Where nodes get the state itself (``isolation="shared"``), a copy
of what was saved is kept, and compared in full.

Rejected: comparing hashes or bytes of whole values (a step would cost as much time as the state is big, though
nothing changed); recording what reducers did (wrong as soon as one isn't a pure function).
"""

from __future__ import annotations

# Values of any type and containers of anything are what this file is about: there is no type to be known.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from operator import is_
from typing import Any, Final, TypeAlias

from juncture.engine.values import ATOMS
from juncture.errors import SerializationError
from juncture.persistence.codec import Codec, Objects

Change: TypeAlias = list[Any]
SAME: Final[Change] = []
"""Nothing changed."""

WHOLE, SPLICE, ITEMS, ENTRIES, TEXT, MEMBERS, OBJECT, BOTH = range(8)

_SEQUENCES = frozenset((list, tuple))
_MAPPINGS = frozenset((dict, OrderedDict, Counter, defaultdict))
_SETS = frozenset((set, frozenset))
_SMALL = frozenset((bool, int, type(None)))
"""Types whose equal values may be one object by chance."""
_FOUND_AGAIN = frozenset((str, bytes, int, bool, type(None)))
_UNMISTAKABLE = frozenset((str, bytes, int))
"""Types of which two equal values are the same value."""


class Comparison:
    """Finds what changed in one value since it was saved.

    Args:
        codec: Gives the bytes of objects.
        known: The bytes of the objects in the value as it was saved, by identity. None: objects are now as they were.
        trusted: The value holds no objects, and nobody can have reached its containers.
    """

    def __init__(self, codec: Codec, known: Objects | None, *, trusted: bool) -> None:
        self._codec = codec
        self._known = known
        self._trusted = trusted
        self.met: Objects = {}
        """The objects in the new value that a change doesn't hold as a whole, with their bytes."""
        self.removed: list[Any] = []
        """What is no longer in the value."""

    def change(self, old: Any, new: Any) -> Change:
        """What makes ``new`` of ``old``; `SAME` if nothing does.

        Raises:
            SerializationError: An object in ``new`` can't be stored.
            RecursionError: The values are nested too deep for what is left of Python's stack.
        """
        kind = type(new)
        if old is new and (self._trusted or kind in ATOMS):
            return SAME
        if type(old) is not kind:
            return self._whole(old, new)
        if kind in ATOMS:
            return self._atom(old, new)
        if kind in _SEQUENCES:
            return self._sequence(old, new)
        if kind in _MAPPINGS:
            return self._mapping(old, new)
        if kind in _SETS:
            return self._set(old, new)
        if self._codec.is_object(kind):
            return self._object(old, new)
        return self._opaque(old, new)

    def _whole(self, old: Any, new: Any) -> Change:
        self.removed.append(old)
        return [WHOLE, new]

    def _atom(self, old: Any, new: Any) -> Change:
        if old == new and (type(new) in _UNMISTAKABLE or repr(old) == repr(new)):  # 0.0 and -0.0
            return SAME
        if type(new) is str and len(old) > 32 and new.startswith(old):
            return [TEXT, len(old), new[len(old) :]]
        return self._whole(old, new)

    def _opaque(self, old: Any, new: Any) -> Change:
        """A value that isn't looked into: its bytes are compared, and those of each object in it with what was saved."""
        now, objects = self._codec.pack_noting(new)
        if objects and self._known is not None:
            for identity, (_, payload) in objects.items():
                saved = self._known.get(identity)
                if saved is None or saved[1] != payload:
                    return self._whole(old, new)
        if self._codec.pack(old) != now:
            return self._whole(old, new)
        self.met.update(objects)
        return SAME

    # ---- lists and tuples

    def _sequence(self, old: Any, new: Any) -> Change:
        shared = min(len(old), len(new))
        if self._trusted and all(map(is_, old, new)):
            start, first = shared, SAME
        else:
            start, first = self._alike(old, new, range(shared))
        if start == len(old) == len(new):
            return SAME
        if start == len(old):
            return [SPLICE, start, start, list(new[start:])]
        if (moved := self._moved(old, new, start)) is not None:
            return moved
        if len(old) == len(new):
            return self._items(old, new, start, first)
        tail, _ = self._alike(old, new, range(-1, start - shared - 1, -1))
        end = len(old) - tail
        self.removed += old[start:end]
        return [SPLICE, start, end, list(new[start : len(new) - tail])]

    def _moved(self, old: Any, new: Any, start: int) -> Change | None:
        """Items went and what came after them moved up, as in a window over the newest: None if it isn't that."""
        wanted = new[start] if start < len(new) else None
        gone = next((place for place in range(start + 1, len(old)) if old[place] is wanted), None)
        if gone is None or type(wanted) in _SMALL:
            return None
        left = len(old) - gone
        kept, _ = self._alike(old[gone:], new[start : start + left], range(min(left, len(new) - start)))
        if kept < left:
            return None
        self.removed += old[start:gone]
        end = start + left
        return [BOTH, [SPLICE, start, gone, []], [SPLICE, end, end, list(new[end:])]]

    def _alike(self, old: Any, new: Any, places: range) -> tuple[int, Change]:
        """How many items, in the order of these places, are the same in both, and what changed in the next."""
        for count, place in enumerate(places):
            if change := self.change(old[place], new[place]):
                return count, change
        return len(places), SAME

    def _items(self, old: Any, new: Any, start: int, first: Change) -> Change:
        """Both are as long: which items changed."""
        later = range(start + 1, len(new))
        more = [(place, change) for place in later if (change := self.change(old[place], new[place]))]
        changed = [(start, first), *more]
        last = changed[-1][0]
        if 2 * len(changed) > last - start and all(change[0] == WHOLE for _, change in changed):
            return [SPLICE, start, last + 1, list(new[start : last + 1])]
        return [ITEMS, *(part for pair in changed for part in pair)]

    # ---- dicts

    def _mapping(self, old: Any, new: Any) -> Change:
        if type(new) is defaultdict and old.default_factory is not new.default_factory:
            return self._whole(old, new)
        if not (all(map(_finds_itself, old)) and all(map(_finds_itself, new))):
            return self._opaque(old, new)
        gone = [key for key in old if key not in new]
        stay = [key for key in old if key in new]
        keys = iter(new)
        for key, other in zip(stay, keys, strict=False):
            if key is not other and self.change(key, other):
                return self._whole(old, new)  # in another order, or 1 became True
        added = list(islice(new, len(stay), None))
        changed = [(key, change) for key in stay if (change := self.change(old[key], new[key]))]
        if not (gone or added or changed):
            return SAME
        self.removed += [old[key] for key in gone]
        if len(changed) == len(stay) and all(change[0] == WHOLE for _, change in changed):
            return [WHOLE, new]
        changed += [(key, [WHOLE, new[key]]) for key in added]
        return [ENTRIES, gone, *(part for pair in changed for part in pair)]

    # ---- sets

    def _set(self, old: Any, new: Any) -> Change:
        kinds = {*map(type, old), *map(type, new)}
        if len(kinds) > 1 or not kinds <= _UNMISTAKABLE:
            return self._opaque(old, new)
        gone, added = old - new, new - old
        if not (gone or added):
            return SAME
        if len(gone) + len(added) >= len(new):
            return self._whole(old, new)
        self.removed += gone
        return [MEMBERS, list(gone), list(added)]

    # ---- objects

    def _object(self, old: Any, new: Any) -> Change:
        codec = self._codec
        now = codec.object_bytes(new)
        saved = self._saved_bytes(old)
        if saved == now:
            self.met[id(new)] = (new, now)
            return SAME
        if old is new or saved is None or (self._known is not None and codec.object_bytes(old) != saved):
            return self._whole(old, new)  # what was saved can't be told from the object any more
        parts = codec.object_parts(new)
        if parts is None or not codec.keeps_name(new, saved):
            return self._whole(old, new)
        change = Comparison(codec, None, trusted=False).change(codec.object_parts(old), parts)
        if not change or change[0] == WHOLE:
            return self._whole(old, new)
        self.met[id(new)] = (new, now)
        return [OBJECT, change]

    def _saved_bytes(self, old: Any) -> bytes | None:
        if self._known is None:
            return self._codec.object_bytes(old)
        known = self._known.get(id(old))
        return None if known is None else known[1]


def _finds_itself(key: Any) -> bool:
    """Whether a key that was stored and read is found under the one that it was."""
    kind = type(key)
    return kind in _FOUND_AGAIN or (kind is tuple and all(map(_finds_itself, key)))


def applied(codec: Codec, old: Any, change: Change, objects: Objects) -> Any:
    """What a change makes of a value. The value may be changed in place, and is given up.

    Objects that are rebuilt are put into `objects`, with their bytes.

    Raises:
        SerializationError: The change isn't one of this value.
    """
    try:
        if type(change) is list:
            return _ARMS[change[0]](codec, old, change, objects)
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, SerializationError):
            raise
        raise SerializationError(f"a stored change doesn't fit the value that it is of: {error!r}") from error
    raise SerializationError("a stored change isn't one")


def _apply_whole(_codec: Codec, _old: Any, change: Change, _objects: Objects) -> Any:
    _, value = change
    return value


def _apply_splice(_codec: Codec, old: Any, change: Change, _objects: Objects) -> Any:
    _, start, end, items = change
    if not (type(items) is list and 0 <= start <= end <= len(old)):
        raise ValueError(f"there are no items from {start!r} to {end!r} to replace")
    if type(old) is tuple:
        return (*old[:start], *items, *old[end:])
    _a_list(old)[start:end] = items
    return old


def _apply_items(codec: Codec, old: Any, change: Change, objects: Objects) -> Any:
    made = list(old) if type(old) is tuple else _a_list(old)
    for place, inner in _pairs(change[1:]):
        made[place] = applied(codec, made[place], inner, objects)
    return tuple(made) if type(old) is tuple else made


def _apply_entries(codec: Codec, old: Any, change: Change, objects: Objects) -> Any:
    gone = change[1]
    if type(old) not in _MAPPINGS or type(gone) is not list:
        raise ValueError(f"it is of a dict, and the value is a {type(old).__name__}")
    for key in gone:
        del old[key]
    key = None
    try:
        for key, inner in _pairs(change[2:]):
            old[key] = applied(codec, old.get(key), inner, objects)
    except SerializationError as error:
        if type(key) is str:  # the outermost one in the end
            error.key = key
        raise
    return old


def _apply_text(_codec: Codec, old: Any, change: Change, _objects: Objects) -> Any:
    _, length, text = change
    if type(old) is not str or type(text) is not str or length != len(old):
        raise ValueError(f"it is of a text of {length!r} characters")
    return old + text


def _apply_members(_codec: Codec, old: Any, change: Change, _objects: Objects) -> Any:
    _, gone, added = change
    if type(old) not in _SETS:
        raise ValueError(f"it is of a set, and the value is a {type(old).__name__}")
    return type(old)(set(old).difference(gone).union(added))


def _apply_object(codec: Codec, old: Any, change: Change, objects: Objects) -> Any:
    _, inner = change
    made, payload = codec.rebuilt(
        objects[id(old)][1], lambda parts, within: applied(codec, parts, inner, within)
    )
    objects[id(made)] = (made, payload)
    return made


def _apply_both(codec: Codec, old: Any, change: Change, objects: Objects) -> Any:
    _, first, second = change
    return applied(codec, applied(codec, old, first, objects), second, objects)


_ARMS: Final[dict[int, Callable[[Codec, Any, Change, Objects], Any]]] = {
    WHOLE: _apply_whole,
    SPLICE: _apply_splice,
    ITEMS: _apply_items,
    ENTRIES: _apply_entries,
    TEXT: _apply_text,
    MEMBERS: _apply_members,
    OBJECT: _apply_object,
    BOTH: _apply_both,
}
"""How each kind of change is applied."""


def _a_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"it is of a list, and the value is a {type(value).__name__}")
    return value


def _pairs(flat: list[Any]) -> Iterator[tuple[Any, Any]]:
    each = iter(flat)
    return zip(each, each, strict=True)
