"""Every kind of change: when it is made, what it looks like, and what it makes of the old value."""

import dataclasses
import math
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from typing import Any

import numpy
import pytest

from juncture.errors import SerializationError
from juncture.persistence.codec import Codec
from juncture.persistence.deltas import Comparison, applied
from juncture.persistence.registry import DEFAULT, Registry
from juncture.types import Overwrite
from tests.unit.persistence.exact import same


@dataclasses.dataclass
class Note:
    text: Any
    more: Any = None


@dataclasses.dataclass(frozen=True)
class Fixed:
    text: Any
    more: Any = None


def _codec():
    registry = Registry(DEFAULT)
    for cls in (Note, Fixed):
        registry.register(cls)
    return Codec(registry)


CODEC = _codec()
LONG = "a text of more than thirty-two characters"
NAN = math.nan


def between(old, new, *, trusted=False):
    """The change, once it was seen to make the new value of the old one as it is read."""
    stored, known = CODEC.pack_noting(old)
    change = Comparison(CODEC, known, trusted=trusted).change(old, new)
    decoded, objects = CODEC.unpack_noting(stored)
    written, more = CODEC.unpack_noting(CODEC.pack(change))
    made = applied(CODEC, decoded, written, objects | more) if change else decoded
    assert CODEC.pack(made) == CODEC.pack(new)
    assert same(made, new)
    return change


SHARED = [1, 2]


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        # atoms
        (1, 1, []),
        (NAN, NAN, []),
        (1, 2, [0, 2]),
        (1, True, [0, True]),
        (1, 1.0, [0, 1.0]),
        (0.0, -0.0, [0, -0.0]),
        (0j, complex(0, -0.0), [0, complex(0, -0.0)]),
        (None, 0, [0, 0]),
        ("a", b"a", [0, b"a"]),
        (Decimal("1.0"), Decimal("1.00"), [0, Decimal("1.00")]),
        # text
        (LONG, LONG + " and more", [4, len(LONG), " and more"]),
        (LONG, LONG[:-1], [0, LONG[:-1]]),
        ("short", "short and more", [0, "short and more"]),
        # lists and tuples
        ([1, 2], [1, 2], []),
        ([], [1], [1, 0, 0, [1]]),
        ([1, 2], [1, 2, 3, 4], [1, 2, 2, [3, 4]]),
        ([1, 2, 3], [0, 1, 2, 3], [1, 0, 0, [0]]),
        ([1, 2, 3], [1, 9, 9, 3], [1, 1, 2, [9, 9]]),
        ([1, 2, 3], [1, 3], [1, 1, 2, []]),
        ([1, 2, 3], [], [1, 0, 3, []]),
        ([1, 1], [1, 1, 1], [1, 2, 2, [1]]),
        ([1, 2, 3, 4, 5], [1, 2, 9, 4, 5], [1, 2, 3, [9]]),
        ([1] * 9, [2, *[1] * 7, 3], [2, 0, [0, 2], 8, [0, 3]]),
        ([1, 2], [1, True], [1, 1, 2, [True]]),
        ([1, 2], (1, 2), [0, (1, 2)]),
        ((1, 2), (1, 2, 3), [1, 2, 2, [3]]),
        (([1], 2), ([1, 5], 2), [2, 0, [1, 1, 1, [5]]]),
        ([[1, 2], 3, 4], [[1, 2, 9], 3, 4], [2, 0, [1, 2, 2, [9]]]),
        # dicts
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, []),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [3, [], "b", [0, 3]]),
        ({"a": 1, "b": 2}, {"b": 2}, [3, ["a"]]),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, [3, [], "c", [0, 3]]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [0, {"b": 2, "a": 1}]),
        ({"a": 1, "b": 2}, {"a": 3, "b": 4}, [0, {"a": 3, "b": 4}]),
        ({1: "x", "b": 2}, {True: "x", "b": 2}, [0, {True: "x", "b": 2}]),
        ({0.0: "x", "b": 2}, {-0.0: "x", "b": 2}, [0, {-0.0: "x", "b": 2}]),
        ({"a": {"x": [1], "y": 1}, "b": 1}, {"a": {"x": [1, 2], "y": 1}, "b": 1}, None),
        (OrderedDict(a=1, b=2), OrderedDict(a=1, b=3), [3, [], "b", [0, 3]]),
        (OrderedDict(a=1), {"a": 1}, [0, {"a": 1}]),
        (Counter(a=1, b=2), Counter(a=1, b=3), [3, [], "b", [0, 3]]),
        (defaultdict(list, a=[1], b=1), defaultdict(list, a=[1, 2], b=1), [3, [], "a", [1, 1, 1, [2]]]),
        (defaultdict(list, a=[1]), defaultdict(dict, a=[1]), [0, defaultdict(dict, a=[1])]),
        # sets
        ({1, 2}, {2, 1}, []),
        ({1, 2, 3}, {2, 3, 4}, [5, [1], [4]]),
        (frozenset("abc"), frozenset("abcd"), [5, [], ["d"]]),
        ({1}, {2, 3}, [0, {2, 3}]),
        ({1}, {True}, [0, {True}]),
        ({(1,)}, {(True,)}, [0, {(True,)}]),
        ({1.0, 2.0}, {1.0, 2.0}, []),
        # what isn't looked into
        (deque([1], 3), deque([1], 4), [0, deque([1], 4)]),
        (bytearray(b"a"), bytearray(b"ab"), [0, bytearray(b"ab")]),
        (range(3), range(3), []),
        # objects
        (Note(LONG, 1), Note(LONG, 1), []),
        (Note(LONG, 1), Note(LONG, 2), [6, [2, 0, [3, [], "more", [0, 2]]]]),
        (Fixed(LONG, [1]), Fixed(LONG, [1, 2]), [6, [2, 0, [3, [], "more", [1, 1, 1, [2]]]]]),
        (Note(1), Fixed(1), [0, Fixed(1)]),
        (Note(1, 2), Note(3, 4), None),
        ([Note(LONG), 1], [Note(LONG + "!"), 1], None),
    ],
)
def test_a_change_says_what_is_different(old, new, change):
    found = between(old, new)
    if change is not None:
        assert same(found, change)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({NAN: 1, "x": 1}, {NAN: 2, "x": 1}),
        ({NAN: 1, "x": 1}, {"x": 1}),
        ({(NAN, 1): [1], "x": 1}, {(NAN, 1): [1, 2], "x": 1}),
        ({NAN: 1, "x": 1, "y": 1}, {NAN: 1, "x": 1, "y": 2}),
        ({NAN, 1}, {1}),
        ({Decimal(1): 1, "x": 1}, {Decimal("1.0"): 1, "x": 1}),
        ({1, 2, 3}, {True, 2, 3}),
        ({Fixed(1): 1, "x": 2}, {Fixed(1): 2, "x": 2}),
        ({Fixed(1): 1, "x": 2}, {Fixed(text=True): 1, "x": 2}),
    ],
)
def test_keys_and_members_that_are_easily_confused_come_back_exactly(old, new):
    stored, known = CODEC.pack_noting(old)
    change = Comparison(CODEC, known, trusted=False).change(old, new)
    decoded, objects = CODEC.unpack_noting(stored)
    written, more = CODEC.unpack_noting(CODEC.pack(change))
    made = applied(CODEC, decoded, written, objects | more) if change else decoded
    assert CODEC.pack(made) == CODEC.pack(new)


def test_what_cannot_have_changed_is_not_looked_at():
    class Watched(list):
        def __iter__(self):
            raise AssertionError("looked at")

        def __getitem__(self, place):
            raise AssertionError("looked at")

    inside = Watched([1])
    old = [inside, 1]
    assert Comparison(CODEC, {}, trusted=True).change(old, old) == []
    assert Comparison(CODEC, {}, trusted=True).change(old, [inside, 1, 2]) == [1, 2, 2, [2]]


@pytest.mark.parametrize(
    "wrap", [lambda o: o, lambda o: [o], lambda o: (1, o), lambda o: {"k": o}, lambda o: Overwrite(o)]
)
def test_an_object_changed_in_place_is_written_again(wrap):
    note = Note("then", [1])
    value = wrap(note)
    _, known = CODEC.pack_noting(value)
    assert Comparison(CODEC, known, trusted=False).change(value, value) == []
    note.more.append(2)
    assert Comparison(CODEC, known, trusted=False).change(value, value) != []


@pytest.mark.parametrize(
    "wrap", [lambda o: deque([o]), lambda o: (deque([1, o]),), lambda o: defaultdict(list, k=[o])]
)
def test_an_object_changed_in_place_in_a_rare_container_is_written_again(wrap):
    test_an_object_changed_in_place_is_written_again(wrap)


def test_an_array_changed_in_place_is_written_again():
    for array in (numpy.zeros(3), numpy.array([Note(1)], dtype=object)):
        value = [array]
        _, known = CODEC.pack_noting(value)
        assert Comparison(CODEC, known, trusted=False).change(value, value) == []
        if array.dtype == object:
            array[0].text = 2
        else:
            array[1] = 5.0
        assert Comparison(CODEC, known, trusted=False).change(value, value) != []


def test_an_object_that_was_changed_in_place_and_then_replaced_is_written_whole():
    old = Note(LONG)
    _, known = CODEC.pack_noting(old)
    old.text = LONG + "!"
    new = Note(LONG + "!")
    assert Comparison(CODEC, known, trusted=False).change(old, new) == [0, new]


def test_objects_that_did_not_change_are_known_afterwards():
    kept, grown = Note("kept"), Note(LONG)
    _, known = CODEC.pack_noting([kept, grown])
    equal, new = Note("kept"), Note(LONG + "!")
    comparison = Comparison(CODEC, known, trusted=False)
    change = comparison.change([kept, grown], [equal, new])
    assert change == [2, 1, [6, [2, 0, [3, [], "text", [4, len(LONG), "!"]]]]]
    assert comparison.met[id(equal)] == (equal, CODEC.object_bytes(equal))
    assert comparison.met[id(new)] == (new, CODEC.object_bytes(new))


class Counted(Codec):
    """Counts how often an object is turned into bytes."""

    count = 0

    def object_bytes(self, value):
        self.count += 1
        return super().object_bytes(value)


@pytest.mark.parametrize("depth", [4, 8, 12])
def test_the_cost_grows_with_the_depth_and_not_with_its_power(depth):
    def nested(leaf):
        for _ in range(depth):
            leaf = [leaf, 0]
        return leaf

    codec = Counted(CODEC.registry)
    old, new = nested(Note(1)), nested(Note(2))
    _, known = codec.pack_noting(old)
    assert Comparison(codec, known, trusted=False).change(old, new)
    assert codec.count <= 4


def test_an_object_that_cannot_be_stored_is_refused():
    with pytest.raises(SerializationError):
        Comparison(CODEC, {}, trusted=False).change([Note(1)], [Note(object())])
