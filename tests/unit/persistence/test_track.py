"""What a run knows of a series: it writes what changed, misses nothing, and lets no chain of parts grow too long."""

import dataclasses
from collections import deque
from typing import Any

import numpy
import pytest

from juncture.engine.state import State, TaskRecord
from juncture.errors import SerializationError
from juncture.persistence import track
from juncture.persistence.codec import Codec
from juncture.persistence.format import body_of_parts
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.track import PART_COST, SLACK, SMALL, Track, extended
from juncture.savers import Part
from juncture.types import Send
from tests.unit.persistence.exact import same


@dataclasses.dataclass
class Note:
    text: Any
    more: Any = None


@dataclasses.dataclass(eq=False)
class Handle:
    """Known by identity."""

    text: Any


def _codec():
    registry = Registry(DEFAULT)
    for cls in (Note, Handle):
        registry.register(cls)
    return Codec(registry)


CODEC = _codec()


@pytest.fixture(autouse=True)
def _no_state_is_small(request, monkeypatch):
    """The states of these tests are as small as can be, and are to be saved as changes all the same."""
    if "small_states" not in request.fixturenames:
        monkeypatch.setattr(track, "SMALL", -1)


@pytest.fixture
def small_states():
    """Small states are what they are."""


LONG = "a text of more than thirty-two characters"


class Series:
    """The parts that a track made."""

    def __init__(self, *, exposed=False, untracked=frozenset()):
        self.options = {"untracked": untracked, "exposed": exposed}
        self.track = Track(CODEC, **self.options)
        self.parts = {}

    def save(self, state=None, **values):
        """The place of a new checkpoint."""
        seq = len(self.parts) + 1
        self.parts[seq] = self.track.encode(State(values=values) if state is None else state, seq)
        return seq

    def size(self, seq=None):
        """How many bytes a part has."""
        return len(self.parts[len(self.parts) if seq is None else seq][0])

    def chain(self, seq):
        payload, builds_on = self.parts[seq]
        places = [place for first, last in builds_on for place in range(first, last + 1)]
        return [*(Part(place, "", self.parts[place][0]) for place in places), Part(seq, "", payload)]

    def body(self, seq):
        return body_of_parts(CODEC, [part.payload for part in self.chain(seq)])

    def read(self, seq=None):
        return self.body(len(self.parts) if seq is None else seq).values

    def go_on_from(self, seq, size=0):
        """As another run does; its state's values."""
        self.track = Track(CODEC, **self.options)
        body = self.body(seq)
        self.track.read(body, tuple(self.chain(seq)), size)
        return body.values

    def cost(self, seq):
        return sum(len(part.payload) + PART_COST for part in self.chain(seq))


def whole(**values):
    """The bytes of a state as one part."""
    series = Series()
    series.save(**values)
    return series.size()


# ── small ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_did_not_change_is_not_written_again():
    series = Series()
    big, notes = ["x" * 1_000] * 100, [Note("n" * 1_000) for _ in range(10)]
    series.save(big=big, notes=notes, count=0)
    for count in range(1, 20):
        series.save(big=big, notes=notes, count=count)
        assert series.size() < 30
    assert series.read() == {"big": big, "notes": notes, "count": 19}


def test_what_was_replaced_by_the_same_is_not_written_again():
    series = Series()
    for _ in range(3):
        series.save(big=["x" * 1_000] * 100, notes=[Note("n" * 1_000)], text="t" * 1_000)
    assert series.size() < 30


@pytest.mark.parametrize("make", [lambda text: text, lambda text: {"role": "user", "content": text}, Note])
def test_appending_messages_writes_the_messages(make):
    text, count = "m" * 500, 1_000
    series, messages = Series(), []
    for number in range(count):
        messages = [*messages, make(f"{number:>4}{text}")]
        series.save(messages=messages, count=number)
    written = sum(len(payload) for payload, _ in series.parts.values())
    assert written < 4 * count * len(text)
    assert same(series.read(), {"messages": messages, "count": count - 1})
    for seq in range(1, count, 97):
        assert len(series.read(seq)["messages"]) == seq


def test_a_growing_text_and_a_growing_object_write_what_is_new():
    series, text = Series(), LONG
    note = Note(text, "y" * 5_000)
    series.save(text=text, note=note)
    for number in range(100):
        text += f" and number {number}"
        note = Note(text, "y" * 5_000)
        series.save(text=text, note=note)
        if series.parts[len(series.parts)][1]:
            assert series.size() < 200
    assert series.read() == {"text": text, "note": note}


# ── reading costs at most twice ──────────────────────────────────────────────────────────────────────────────


def bounded(series, seq):
    """What is read for a checkpoint is at most twice what it would be in one part."""
    values = series.read(seq)
    return series.cost(seq) <= 2 * whole(**values) + SLACK + PART_COST


@pytest.mark.parametrize("big", [0, 10_000, 100_000])
def test_many_small_changes_are_put_together_in_time(big):
    series = Series()
    for count in range(400):
        series.save(big="b" * big, count=count, last=f"{count:>50}")
    assert all(bounded(series, seq) for seq in range(1, 401, 7))
    rebased = [seq for seq, (_, builds_on) in series.parts.items() if not builds_on]
    assert 1 < len(rebased) < 50 or big == 100_000


def test_after_a_state_shrank_reading_it_is_cheap_soon():
    series = Series()
    series.save(big="x" * 1_000_000, count=0)
    for count in range(1, 5):
        series.save(count=count)
    assert bounded(series, 5)


def test_a_sliding_window_is_put_together_in_time():
    series, window = Series(), []
    for number in range(500):
        window = [*window, f"{number:>4}" + "w" * 100][-10:]
        series.save(window=window)
    assert all(bounded(series, seq) for seq in range(1, 501, 11))
    written = sum(len(payload) for payload, _ in series.parts.values())
    assert written < 500 * 104 * 4


# ── nothing is missed ────────────────────────────────────────────────────────────────────────────────────────


def change(note):
    note.text = "now"


@pytest.mark.parametrize(
    ("make", "show"),
    [
        (lambda o: o, lambda v: v),
        (lambda o: [o], lambda v: v[0]),
        (lambda o: (1, {"x": [o]}), lambda v: v[1]["x"][0]),
        (lambda o: deque([o]), lambda v: v[0]),
        (lambda o: {o}, lambda v: next(iter(v))),
        (lambda o: {o: 1}, lambda v: next(iter(v))),
        (lambda o: Note([1, o]), lambda v: v.text[1]),
        (lambda o: numpy.array([o], dtype=object), lambda v: v[0]),
    ],
    ids=["itself", "list", "deep", "deque", "set", "key", "object", "array"],
)
@pytest.mark.parametrize("exposed", [False, True])
def test_an_object_changed_in_place_is_saved_wherever_it_stands(make, show, exposed):
    series, handle = Series(exposed=exposed), Handle("then")
    value = make(handle)
    series.save(k=value, other=1)
    series.save(k=value, other=2)
    handle.text = "now"
    series.save(k=value, other=2)
    handle.text = "later"
    series.save(k=value, other=2)
    assert [show(series.read(seq)["k"]).text for seq in (1, 2, 3, 4)] == ["then", "then", "now", "later"]


def test_an_object_is_followed_from_key_to_key():
    series, note = Series(), Note("then")
    series.save(a=note, b=None)
    series.save(a=None, b=[note])
    note.text = "now"
    series.save(a=None, b=[note])
    assert series.read() == {"a": None, "b": [Note("now")]}
    assert series.read(2) == {"a": None, "b": [Note("then")]}


def test_an_object_in_two_keys_is_saved_in_both():
    series, note = Series(), Note("then")
    series.save(a=note, b=[note])
    note.text = "now"
    series.save(a=note, b=[note])
    assert series.read() == {"a": Note("now"), "b": [Note("now")]}
    note.text = "later"
    series.save(a=note, b=[Note("now")])
    assert series.read() == {"a": Note("later"), "b": [Note("now")]}


def test_an_object_replaced_by_an_equal_one_is_followed_from_then_on():
    series, first, second = Series(), Note("then"), Note("then")
    series.save(k=first)
    series.save(k=second)
    assert series.size() < 10
    first.text = "not the state's any more"
    series.save(k=second)
    assert series.size() < 10
    second.text = "now"
    series.save(k=second)
    assert series.read() == {"k": Note("now")}


def test_an_object_that_was_changed_by_a_part_is_followed_from_then_on():
    series, first, second = Series(), Note(LONG, [1]), Note(LONG, [1, 2])
    series.save(k=first)
    series.save(k=second)
    series.save(k=second)
    assert series.size() < 10, "it didn't change"
    second.more.append(3)
    series.save(k=second)
    assert series.read() == {"k": Note(LONG, [1, 2, 3])}
    assert series.read(2) == {"k": Note(LONG, [1, 2])}


def test_an_object_changed_and_changed_back_is_the_same_again():
    series, note = Series(), Note("then", "x" * 1_000)
    series.save(k=note)
    note.text = "now"
    series.save(k=note)
    note.text = "then"
    series.save(k=note)
    assert [series.read(seq)["k"].text for seq in (1, 2, 3)] == ["then", "now", "then"]


@pytest.mark.parametrize("where", ["values", "cells"])
def test_objects_in_values_cells_and_writes_are_followed(where):
    series, note = Series(), Note("then")
    state = State(written=(("k", note),), **{where: {"k": [note]}})
    series.save(state)
    note.text = "now"
    series.save(state)
    body = series.body(2)
    assert getattr(body, where) == {"k": [Note("now")]}
    assert body.written == [("k", Note("now"))]


def test_containers_that_nodes_can_reach_are_compared_in_full():
    series = Series(exposed=True)
    values = {"list": [1, [2]], "dict": {"a": {"b": 1}}, "set": {1, 2}, "deque": deque([[1]]), "more": 1}
    series.save(**values)
    values["list"][1].append(3)
    values["dict"]["a"]["c"] = 2
    values["set"].add(3)
    values["deque"][0].append(2)
    series.save(**values)
    expected = {
        "list": [1, [2, 3]],
        "dict": {"a": {"b": 1, "c": 2}},
        "set": {1, 2, 3},
        "deque": deque([[1, 2]]),
    }
    assert same(series.read(), expected | {"more": 1})
    assert same(series.read(1)["list"], [1, [2]])
    series.save(**values)
    assert series.size() < 10


def test_the_order_of_keys_is_kept():
    series = Series()
    series.save(a=1, b=2, c=3)
    for values in ({"a": 1, "c": 3, "b": 2}, {"c": 3, "b": 2}, {"c": 3, "b": 2, "a": 1}, {"d": 1, "c": 3}):
        series.save(**values)
        assert list(series.read().items()) == list(values.items())


# ── going on ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_goes_on_from_what_it_read():
    series = Series()
    series.save(log=[1], note=Note("a"), big="x" * 5_000)
    series.save(log=[1, 2], note=Note("a"), big="x" * 5_000)
    values = series.go_on_from(2)
    values["note"].text = "changed in place"
    values = {**values, "log": [*values["log"], 3]}
    series.save(**values)
    assert series.size() < 100
    assert series.read() == {"log": [1, 2, 3], "note": Note("changed in place"), "big": "x" * 5_000}


def test_forks_never_see_each_other():
    series = Series()
    for number in range(3):
        series.save(log=list(range(number + 1)))
    for base in (1, 2, 1):
        values = series.go_on_from(base)
        series.save(log=[*values["log"], f"fork of {base}"])
        series.save(log=[*values["log"], f"fork of {base}", "more"])
    assert [series.read(seq)["log"] for seq in range(1, 10)] == [
        [0],
        [0, 1],
        [0, 1, 2],
        [0, "fork of 1"],
        [0, "fork of 1", "more"],
        [0, 1, "fork of 2"],
        [0, 1, "fork of 2", "more"],
        [0, "fork of 1"],
        [0, "fork of 1", "more"],
    ]
    assert series.parts[9][1] == ((1, 1), (8, 8))


def test_ranges_of_places_grow_at_their_end():
    assert extended((), 3) == ((3, 3),)
    assert extended(((3, 3),), 4) == ((3, 4),)
    assert extended(((1, 2), (5, 5)), 9) == ((1, 2), (5, 5), (9, 9))


def test_what_is_sent_and_carried_stands_only_where_it_was_saved():
    series = Series()
    carried = (TaskRecord("t", "failed", "", "x"),)
    series.save(State(values={"k": 1}, sends=(Send("n", Note("s")),), carried=carried))
    series.save(State(values={"k": 1}))
    series.save(State(values={"k": 1}, sends=(Send("n", 5),)))
    assert [series.body(seq).more for seq in (1, 2, 3)] == [
        {"sends": [Note("s")], "carried": [["t", "failed", "", "x"]]},
        {},
        {"sends": [5]},
    ]


def test_untracked_keys_are_never_saved():
    series = Series(untracked=frozenset({"client"}))
    for number in range(3):
        series.save(State(values={"client": object(), "k": number}, cells={"client": object()}))
    assert series.read() == {"k": 2}


# ── what can't be stored ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chained", [False, True])
def test_a_value_that_cannot_be_stored_changes_nothing(chained):
    series, note = Series(), Note("a")
    if chained:
        series.save(log=[1], note=note)
    with pytest.raises(SerializationError, match=r"^state\.docs\[0\]: ") as caught:
        series.track.encode(
            State(values={"log": [1, 2], "note": note, "docs": [object()]}), len(series.parts) + 1
        )
    assert caught.value.key == "docs"
    note.more = object()
    with pytest.raises(SerializationError, match=r"^state\.note\.more: ") as caught:
        series.track.encode(State(values={"log": [1, 2], "note": note}), len(series.parts) + 1)
    assert caught.value.key == "note"
    note.more = None
    series.save(log=[1, 2], note=note)
    series.save(log=[1, 2, 3], note=note)
    assert series.read() == {"log": [1, 2, 3], "note": Note("a")}


@pytest.mark.parametrize("depth", [100, 200, 250, 252])
def test_what_can_be_stored_whole_can_be_stored_as_it_changes(depth):
    def nested(leaf):
        for _ in range(depth):
            leaf = [0, leaf]
        return leaf

    series = Series()
    for leaf in (1, 2, [2]):
        series.save(k=nested(leaf), big="x" * 5_000)
    assert series.read(2)["k"] == nested(2)


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_objects_of_the_newest_state_are_kept():
    series = Series()
    kept = Note("kept")
    for number in range(2_000):
        payload, _ = series.track.encode(State(values={"note": Note(number), "kept": [kept]}), number + 1)
        assert payload
    assert len(series.track._objects) <= 4  # nothing else shows what is kept
    assert len(series.track.builds_on) <= 1


def test_objects_that_a_send_carried_are_forgotten():
    series = Series()
    for number in range(50):
        series.save(State(values={"k": number}, sends=tuple(Send("n", Note(i)) for i in range(20))))
    series.save(k=0)
    assert len(series.track._objects) == 0  # as above


# ── small states ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("small_states")
def test_a_small_state_is_saved_whole_and_a_grown_one_as_changes():
    series = Series()
    for count in range(3):
        series.save(count=count)
    assert [builds_on for _, builds_on in series.parts.values()] == [(), (), ()]
    series.save(count=3, text="x" * SMALL)
    series.save(count=4, text="x" * SMALL)
    assert series.parts[4][1] == ()
    assert series.parts[5][1] == ((4, 4),)
    assert series.read(5) == {"count": 4, "text": "x" * SMALL}
