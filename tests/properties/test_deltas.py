"""What changed between two values, applied to the first, gives exactly the second: every type, order and bit.

The second value is made of the first by random edits at random places, as nodes and reducers make them: replaced on
the way down, with everything else shared; so what is the same object in both is met as often as what is only equal.
Objects are changed in place as well.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

import numpy
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.engine.state import State
from juncture.engine.values import copied
from juncture.persistence import columns
from juncture.persistence.codec import Codec
from juncture.persistence.deltas import Comparison, applied
from juncture.persistence.format import body_of_parts
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.track import Track
from juncture.savers import Part
from tests.properties.strategies import examples

pytestmark = pytest.mark.timeout(400)  # a failure takes minutes to be made small


@dataclasses.dataclass
class Note:
    """Changed in place."""

    text: Any
    more: Any = None


@dataclasses.dataclass(frozen=True)
class Fixed:
    """Replaced."""

    text: Any
    more: Any = None


class Model(pydantic.BaseModel):
    text: Any
    more: Any = None


class Rich(pydantic.BaseModel):
    """A model with all that one can have beside its fields."""

    model_config = pydantic.ConfigDict(extra="allow")
    text: Any
    more: Any = None
    _hidden: Any = pydantic.PrivateAttr(None)


@dataclasses.dataclass(slots=True)
class Slotted:
    text: Any
    more: Any = None


@dataclasses.dataclass
class Twin:
    """As a Note; a Note can become one."""

    text: Any
    more: Any = None


class Pair(NamedTuple):
    text: Any
    more: Any = None


@dataclasses.dataclass(eq=False)
class Handle:
    """Known by identity: may stand in sets and be a key, though it is changed in place."""

    text: Any
    more: Any = None


def _codec() -> Codec:
    registry = Registry(DEFAULT)
    for cls in (Note, Fixed, Model, Pair, Handle, Rich, Slotted, Twin):
        registry.register(cls)
    return Codec(registry)


CODEC = _codec()
OBJECTS = (Note, Fixed, Model, Pair, Handle)
IN_PLACE = (Note, Model, Handle)
NAN = math.nan

ATOMS = st.one_of(
    st.sampled_from([None, True, False, 0, 1, 2, 0.0, -0.0, 1.0, NAN, "", "a", "b", b"", b"a", 2**70, 1j]),
    st.sampled_from([Decimal("1.0"), Decimal("1.00"), datetime.date(2026, 1, 2), (), frozenset({1})]),
    st.text("ab", min_size=33, max_size=40),
)
KEYS = st.sampled_from(["a", "b", "c", 1, True, 0, 0.0, -0.0, (1, "a"), (True, "a"), None, NAN, (NAN,)])
MEMBERS = st.sampled_from(["a", "b", 1, 2, 3, 0.0, None, (1,), (True,), frozenset({1}), NAN, b"x"])


def _mapped(cls: Any) -> Any:
    return lambda pairs: defaultdict(list, pairs) if cls is defaultdict else cls(pairs)


def _counter(pairs: list[Any]) -> Counter[Any]:
    made: Counter[Any] = Counter()
    dict.update(made, pairs)
    return made


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.lists(st.tuples(KEYS, inner), max_size=4)
    items = st.lists(inner, max_size=4)
    return st.one_of(
        items,
        items.map(tuple),
        items.map(deque),
        items.map(lambda v: deque(v, 5)),
        *(pairs.map(_mapped(cls)) for cls in (dict, OrderedDict, defaultdict)),
        st.lists(st.tuples(KEYS, st.integers(0, 3)), max_size=4).map(_counter),
        st.sets(MEMBERS, max_size=4),
        st.frozensets(MEMBERS, max_size=4),
        st.integers(0, 3).map(lambda n: {Handle(n)}),
        inner.map(lambda v: {Handle(v): copied(v), "a": 1}),
        *(st.builds(cls, text=inner, more=inner) for cls in OBJECTS),
        st.lists(st.integers(0, 9), min_size=1, max_size=4).map(numpy.array),
        st.lists(st.floats(), min_size=1, max_size=4).map(numpy.array),
        st.binary(max_size=3).map(bytearray),
    )


VALUES = st.recursive(ATOMS, _containers, max_leaves=12)


# ── edits ────────────────────────────────────────────────────────────────────────────────────────────────────


class Editor:
    """Makes another value of one, sharing what isn't edited."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data

    def pick(self, options: Any) -> Any:
        return self.data.draw(st.sampled_from(list(options)))

    def edited(self, value: Any) -> Any:
        kind = type(value)
        if self.data.draw(st.integers(0, 5)) == 0:
            return self.data.draw(VALUES)
        if kind in (list, tuple, deque):
            items = self.items(list(value))
            return deque(items, value.maxlen) if kind is deque else kind(items)
        if kind in (dict, OrderedDict, defaultdict, Counter):
            return self.mapping(value)
        if kind in (set, frozenset):
            return kind(value ^ self.data.draw(st.sets(MEMBERS, max_size=2)))
        if kind in OBJECTS:
            return self.replaced(value)
        return self.alike(value)

    def items(self, items: list[Any]) -> list[Any]:
        edit = self.pick(["append", "insert", "delete", "replace", "into", "into", "swap", "extend", "equal"])
        place = self.data.draw(st.integers(0, len(items)))
        if edit == "append":
            return [*items, self.data.draw(VALUES)]
        if edit == "extend":
            return items + self.data.draw(st.lists(VALUES, max_size=3))
        if edit == "insert":
            return [*items[:place], self.data.draw(VALUES), *items[place:]]
        if edit == "delete":
            return items[:place] + items[place + 1 :]
        if edit == "equal":
            return copy.deepcopy(items)
        if not items:
            return items
        place = min(place, len(items) - 1)
        new = list(items)
        if edit == "swap":
            new[place], new[0] = new[0], new[place]
        else:
            new[place] = self.edited(new[place]) if edit == "into" else self.data.draw(VALUES)
        return new

    def mapping(self, value: Any) -> Any:
        pairs = list(dict.items(value))
        edit = self.pick(
            ["add", "delete", "into", "into", "rename", "reorder", "same key", "factory", "move"]
        )
        key = self.pick([k for k, _ in pairs]) if pairs else None
        if edit == "add" or not pairs:
            pairs.append((self.data.draw(KEYS), self.data.draw(VALUES)))
        elif edit == "delete":
            pairs = [(k, v) for k, v in pairs if k is not key]
        elif edit == "into":
            pairs = [(k, self.edited(v) if k is key else v) for k, v in pairs]
        elif edit == "rename":
            pairs = [(self.data.draw(KEYS) if k is key else k, v) for k, v in pairs]
        elif edit == "reorder":
            pairs = self.data.draw(st.permutations(pairs))
        elif edit == "same key":
            pairs = [(self.alike(k) if k is key else k, v) for k, v in pairs]
        elif edit == "move":
            pairs = [*((k, v) for k, v in pairs if k is not key), *((k, v) for k, v in pairs if k is key)]
        kind = type(value)
        if kind is Counter:
            return _counter(pairs)
        if kind is defaultdict:
            return defaultdict(dict if edit == "factory" else value.default_factory, pairs)
        return kind(pairs)

    def replaced(self, value: Any) -> Any:
        text, more = value.text, value.more
        if self.data.draw(st.booleans()):
            text = self.edited(text)
        else:
            more = self.edited(more)
        if isinstance(value, Model):
            return value.model_copy(update={"text": text, "more": more})
        return type(value)(text, more)

    def alike(self, value: Any) -> Any:
        """Something that is easily taken for it, or another value."""
        twins: list[Any] = [1, True, 1.0, 0, False, 0.0, -0.0, Decimal("1.0"), Decimal("1.00"), (1,), (True,)]
        found = [twin for twin in twins if type(value) in map(type, twins) and twin == value]
        if type(value) is str:
            found += [value + "x", value * 2 + "longer than it was before", value[:-1]]
        return self.pick(found) if found else self.data.draw(ATOMS)


def in_place(data: st.DataObject, value: Any) -> None:
    """Changes an object somewhere in a value, as user code can."""
    found = [one for one in objects_in(value) if isinstance(one, (*IN_PLACE, numpy.ndarray))]
    if not found:
        return
    one = data.draw(st.sampled_from(found))
    if isinstance(one, numpy.ndarray):
        one[0] = data.draw(st.integers(0, 9))
    elif isinstance(one.more, list) and data.draw(st.booleans()):
        one.more.append(data.draw(ATOMS))
    else:
        one.text = data.draw(VALUES)


def objects_in(value: Any) -> list[Any]:
    todo, found = [value], []
    while todo:
        one = todo.pop()
        if isinstance(one, (*OBJECTS, numpy.ndarray)):
            found.append(one)
        if isinstance(one, dict):
            todo += [part for pair in one.items() for part in pair]
        elif isinstance(one, list | tuple | deque | set | frozenset):
            todo += one
        elif isinstance(one, OBJECTS):
            todo += [one.text, one.more]
    return found


def as_saved(value: Any) -> bytes:
    return CODEC.pack(value)


# ── two values ───────────────────────────────────────────────────────────────────────────────────────────────


@examples(400)
@given(data=st.data())
def test_a_change_applied_to_the_old_value_gives_the_new_one_exactly(data):
    editor = Editor(data)
    old = data.draw(VALUES)
    stored, known = CODEC.pack_noting(old)
    new = old
    for _ in range(data.draw(st.integers(1, 3))):
        new = editor.edited(new)
    if data.draw(st.booleans()):
        in_place(data, data.draw(st.sampled_from([old, new])))
    change = Comparison(CODEC, known, trusted=False).change(old, new)
    decoded, objects = CODEC.unpack_noting(stored)
    written, more = CODEC.unpack_noting(CODEC.pack(change))
    objects.update(more)
    made = applied(CODEC, decoded, written, objects) if change else decoded
    assert as_saved(made) == as_saved(new)


@examples(200)
@given(data=st.data())
def test_a_change_between_unrelated_values_gives_the_second_exactly(data):
    old, new = data.draw(VALUES), data.draw(VALUES)
    stored, known = CODEC.pack_noting(old)
    change = Comparison(CODEC, known, trusted=False).change(old, new)
    decoded, objects = CODEC.unpack_noting(stored)
    written, more = CODEC.unpack_noting(CODEC.pack(change))
    objects.update(more)
    assert as_saved(applied(CODEC, decoded, written, objects) if change else decoded) == as_saved(new)


# ── a series ─────────────────────────────────────────────────────────────────────────────────────────────────


class Series:
    """The parts that a track made."""

    def __init__(self, *, exposed: bool = False) -> None:
        self.exposed = exposed
        self.parts: dict[int, tuple[bytes, Any]] = {}
        self.tracks = Track(CODEC, frozenset(), exposed=exposed)
        self.newest = 0

    def save(self, state: State) -> int:
        seq = self.newest + 1
        self.parts[seq] = self.tracks.encode(state, seq)
        self.newest = seq
        return seq

    def payloads(self, seq: int) -> list[tuple[int, bytes]]:
        payload, builds_on = self.parts[seq]
        places = [place for first, last in builds_on for place in range(first, last + 1)]
        return [*((place, self.parts[place][0]) for place in places), (seq, payload)]

    def read(self, seq: int) -> Any:
        return body_of_parts(CODEC, [payload for _, payload in self.payloads(seq)])


def frozen(values: dict[str, Any]) -> bytes:
    return as_saved(list(values.items()))


def next_values(data: st.DataObject, editor: Editor, values: dict[str, Any]) -> dict[str, Any]:
    """The state after one more step: some keys changed, moved, shared, added, or gone."""
    values = dict(values)
    edit = data.draw(
        st.sampled_from(["edit", "edit", "edit", "share", "move", "drop", "add", "order", "none", "equal"])
    )
    key = data.draw(st.sampled_from(list(values)))
    other = data.draw(st.sampled_from(["a", "b", "c", "d"]))
    if edit == "edit":
        values[key] = editor.edited(values[key])
    elif edit == "equal":
        values[key] = copy.deepcopy(values[key])
    elif edit == "share":
        values[other] = copied(values[key])
    elif edit == "move" and other != key:
        values[other] = values.pop(key)
    elif edit == "drop" and len(values) > 1:
        del values[key]
    elif edit == "add":
        values[other] = data.draw(VALUES)
    elif edit == "order":
        values = dict(data.draw(st.permutations(list(values.items()))))
    return values


@examples(250)
@given(data=st.data(), exposed=st.booleans())
def test_every_checkpoint_of_a_series_reads_back_as_it_was_saved(data, exposed):
    editor, series = Editor(data), Series(exposed=exposed)
    values = {"a": data.draw(VALUES), "b": data.draw(VALUES)}
    saved: dict[int, bytes] = {}
    for _ in range(data.draw(st.integers(1, 8))):
        saved[series.save(State(values=values))] = frozen(values)
        values = next_values(data, editor, values)
        for _ in range(data.draw(st.integers(0, 2))):
            in_place(data, list(values.values()))
        if exposed and data.draw(st.booleans()):
            containers = [value for value in values.values() if isinstance(value, list)]
            if containers:
                data.draw(st.sampled_from(containers)).append(data.draw(ATOMS))
    for seq, expected in saved.items():
        assert frozen(series.read(seq).values) == expected


@examples(150)
@given(data=st.data())
def test_going_on_from_any_checkpoint_reads_back_as_it_was_saved(data):
    editor, series = Editor(data), Series()
    values = {"a": data.draw(VALUES), "b": data.draw(VALUES)}
    saved: dict[int, bytes] = {}
    for _ in range(data.draw(st.integers(2, 8))):
        saved[series.save(State(values=values))] = frozen(values)
        if data.draw(st.booleans()):
            base = data.draw(st.sampled_from(list(saved)))
            body = series.read(base)
            series.tracks = Track(CODEC, frozenset(), exposed=False)
            series.tracks.read(body, tuple(Part(p, "c", payload) for p, payload in series.payloads(base)), 0)
            values = dict(body.values)
            assert frozen(values) == saved[base]
        in_place(data, list(values.values()))
        values = next_values(data, editor, values)
    for seq, expected in saved.items():
        assert frozen(series.read(seq).values) == expected


# ── long lists of objects ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def lists_are_long_from(length: int) -> Iterator[None]:
    """What a list is read by columns from; and in chunks that a test fills."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "LONG", length)
        patch.setattr(columns, "CHUNK", 3)
        yield


NEVER = 10**9
KINDS = st.sampled_from(
    [(Note,), (Note, Fixed, Twin), (Model, Rich), (Rich,), (Slotted,), (Note, Model), (Note, Pair)]
)


def made_of(kinds: tuple[Any, ...], most: int) -> st.SearchStrategy[list[Any]]:
    each = st.one_of(*(st.builds(cls, text=VALUES, more=VALUES) for cls in kinds))
    return st.lists(each, max_size=most)


def spoilt(data: st.DataObject, items: list[Any]) -> None:
    """Changes one of some objects in place, in any way that user code can."""
    one = data.draw(st.sampled_from(items))
    how = data.draw(st.sampled_from([how for how, classes in SPOILT.items() if isinstance(one, classes)]))
    if how == "text":
        object.__setattr__(one, "text", data.draw(VALUES))
    elif how == "copy":
        object.__setattr__(one, "more", copy.copy(one.more))  # another container, which holds the same
    elif how == "nested":
        in_place(data, one)
    elif how == "order":
        vars(one)["text"] = vars(one).pop("text")
    elif how == "class":
        one.__class__ = Twin if type(one) is Note else Note
    elif how == "beyond":
        vars(one)["beyond"] = data.draw(VALUES)
    else:
        spoilt_model(data, one, how)


SPOILT = {
    "text": (Note, Fixed, Twin, Slotted, Model, Rich),
    "copy": (Note, Fixed, Twin, Slotted, Model, Rich),
    "nested": (*OBJECTS, Twin, Slotted, Rich),
    "order": (Note, Fixed, Twin, Model, Rich),
    "class": (Note, Twin),
    "beyond": (Note, Fixed, Twin),
    "set": (Model, Rich),
    "extra": (Rich,),
    "private": (Rich,),
}
"""What can be done to objects of which classes."""


def spoilt_model(data: st.DataObject, one: Any, how: str) -> None:
    if how == "set":
        one.__pydantic_fields_set__ ^= {data.draw(st.sampled_from(["text", "more", "any"]))}
    elif how == "extra":
        one.__pydantic_extra__[data.draw(st.sampled_from("ab"))] = data.draw(VALUES)
    else:
        one._hidden = data.draw(VALUES)


def next_items(data: st.DataObject, kinds: tuple[Any, ...], items: list[Any]) -> list[Any]:
    edit = data.draw(
        st.sampled_from(["grow", "grow", "same", "other list", "replace", "drop", "swap", "equal"])
    )
    place = data.draw(st.integers(0, max(0, len(items) - 1)))
    if edit == "grow":
        return items + data.draw(made_of(kinds, 3))
    if edit == "same":
        return items
    if edit == "equal":
        return copy.deepcopy(items)
    new = list(items)
    if new and edit == "replace":
        new[place : place + 1] = data.draw(made_of(kinds, 1))
    elif new and edit == "drop":
        del new[place]
    elif new and edit == "swap":
        new[place], new[0] = new[0], new[place]
    return new


@examples(250)
@given(data=st.data())
def test_a_list_of_objects_is_saved_as_if_each_were_looked_at(data):
    """By columns or one by one: the very same bytes are written, whatever was done to the objects."""
    kinds = data.draw(KINDS)
    items = data.draw(made_of(kinds, 8))
    quick, slow = Series(), Series()
    for _ in range(data.draw(st.integers(1, 6))):
        state = State(values={"a": items, "b": [*items[:2]]})
        with lists_are_long_from(2):
            seq = quick.save(state)
        with lists_are_long_from(NEVER):
            slow.save(state)
        assert quick.parts[seq] == slow.parts[seq]
        assert quick.tracks.size == slow.tracks.size
        if items and data.draw(st.booleans()):
            spoilt(data, items)
        items = next_items(data, kinds, items)


@examples(250)
@given(data=st.data())
def test_a_list_of_objects_that_was_put_away_is_as_it_was_saved(data):
    """A run that goes on with what the one before kept begins with what reading gives, and misses nothing either."""
    kinds = data.draw(KINDS)
    items = data.draw(made_of(kinds, 8))
    series = Series()
    with lists_are_long_from(2):
        for _ in range(data.draw(st.integers(1, 6))):
            saved = frozen({"a": items, "n": 1})
            seq = series.save(State(values={"a": items, "n": 1}))
            assert frozen(series.read(seq).values) == saved
            if items and data.draw(st.booleans()):
                spoilt(data, items)
            if series.tracks.can_be_kept and data.draw(st.booleans()):
                series.tracks.put_away()
                assert series.tracks.can_be_taken
                values = series.tracks.body().values
                assert frozen(values) == saved
                items = values["a"]
            items = next_items(data, kinds, items)
