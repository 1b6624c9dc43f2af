"""The laws of `juncture.channels.base`, for every channel, over any steps of any writes."""

import copy
import operator
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.channels import (
    AnyValue,
    Append,
    BinaryOperatorAggregate,
    Channel,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    Merge,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Remove,
    ReplaceAll,
    Topic,
    UntrackedValue,
    add_messages,
)
from juncture.errors import InvalidUpdateError
from juncture.types import MARK_FOR_REMOVAL, MISSING, Overwrite

values = st.integers(0, 3) | st.none() | st.text("ab", max_size=2)
lists = st.lists(st.integers(0, 3), max_size=3)
dicts = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=2)
messages = st.sampled_from(["hi", ("assistant", "yes"), {"type": "human", "content": [1], "id": "m"}, []])


def extended(state, writes):
    return [*state, *[item for write in writes for item in write]]


def marked(plain):
    overwriting = plain.filter(lambda write: not isinstance(write, (Remove, ReplaceAll)))
    return plain | st.builds(Overwrite, overwriting) | st.just(MARK_FOR_REMOVAL)


CASES = {
    "last value": (LastValue(int), values),
    "last value after finish": (LastValueAfterFinish(int), values),
    "any value": (AnyValue(int), values),
    "ephemeral": (EphemeralValue(int), values),
    "ephemeral without guard": (EphemeralValue(int, guard=False), values),
    "untracked": (UntrackedValue(int), values),
    "untracked without guard": (UntrackedValue(int, guard=False), values),
    "topic": (Topic(int), values | lists),
    "topic that accumulates": (Topic(int, accumulate=True), values | lists),
    "barrier": (NamedBarrierValue(str, {"a", "b"}), st.sampled_from("ab")),
    "barrier after finish": (NamedBarrierValueAfterFinish(str, {"a", "b"}), st.sampled_from("ab")),
    "delta": (DeltaChannel(extended, list[int]), lists),
    "delta, lenient": (DeltaChannel(extended, list[int], lenient=True), lists),
    "sum": (BinaryOperatorAggregate(int, operator.add), st.integers(0, 3)),
    "lists": (BinaryOperatorAggregate(list[int], operator.add), lists),
    "lists, lenient": (BinaryOperatorAggregate(list[int], operator.add, lenient=True), lists),
    "maximum, which has no zero": (BinaryOperatorAggregate(int, max), st.integers(0, 3)),
    "maximum, lenient": (BinaryOperatorAggregate(int, max, lenient=True), st.integers(0, 3)),
    "append": (
        BinaryOperatorAggregate(list, Append()),
        values | lists | st.builds(Remove, values) | st.builds(ReplaceAll, lists),
    ),
    "append distinct, without a type": (
        BinaryOperatorAggregate(object, Append(distinct=True)),
        values | lists,
    ),
    "merge": (BinaryOperatorAggregate(object, Merge()), dicts | st.none()),
    "messages": (BinaryOperatorAggregate(list, add_messages), messages),
}
each_channel = pytest.mark.parametrize(("channel", "writes"), CASES.values(), ids=CASES)


def reachable(channel, steps):
    """Every stored value that the steps lead through, with the writes that come next."""
    stored = channel.initial()
    for writes in steps:
        yield stored, writes
        try:
            stored = channel.update(stored, writes)
        except InvalidUpdateError:
            continue
        yield channel.finish(stored), []
        stored = channel.consume(stored)


def outcome(channel, stored, writes):
    try:
        return channel.update(stored, writes)
    except InvalidUpdateError as error:
        return str(error)


def update_is_pure(channel, stored, writes):
    """Law 1."""
    before = copy.deepcopy((stored, writes))
    first = outcome(channel, stored, writes)
    assert (stored, writes) == before
    assert outcome(channel, *copy.deepcopy(before)) == first
    assert (stored, writes) == before


def an_idle_step_leaves_what_is_stored(channel, stored, _):
    """Law 3."""
    left = channel.update(stored, [])
    assert left is MISSING if channel.volatile else left is stored


def a_plain_channel_shows_what_it_stores(channel, stored, _):
    """Law 4."""
    assert channel.show(stored) is stored if channel.plain else channel.show(MISSING) is MISSING


def finish_and_consume_leave_what_is_stored_unless_overridden(channel, stored, _):
    """Law 5; and where they are overridden, once is enough."""
    for own, inherited in ((channel.finish, Channel.finish), (channel.consume, Channel.consume)):
        if own.__func__ is inherited:
            assert own(stored) is stored
        assert own(own(stored)) == own(stored)


def no_marker_is_stored_or_shown(channel, stored, _):
    for seen in (stored, channel.show(stored)):
        assert seen is not MARK_FOR_REMOVAL
        held = seen if isinstance(seen, (list, tuple)) else [seen]
        if channel != CASES["maximum, lenient"][0]:
            assert not any(isinstance(item, (Overwrite, Remove, ReplaceAll)) for item in held)


LAWS = [
    update_is_pure,
    an_idle_step_leaves_what_is_stored,
    a_plain_channel_shows_what_it_stores,
    finish_and_consume_leave_what_is_stored_unless_overridden,
    no_marker_is_stored_or_shown,
]


@each_channel
@given(data=st.data())
def test_the_laws_hold_after_any_steps(channel, writes, data):
    steps = data.draw(st.lists(st.lists(marked(writes), max_size=4), min_size=1, max_size=5))
    for stored, step in reachable(channel, steps):
        for law in LAWS:
            law(channel, stored, step)


@each_channel
def test_a_removal_leaves_nothing(channel, writes):
    assert channel.update(channel.initial(), [MARK_FOR_REMOVAL]) is MISSING


@each_channel
def test_what_is_stored_first_is_new_each_time(channel, writes):
    first, second = channel.initial(), channel.initial()
    assert first == second
    assert first is not second or not isinstance(first, (list, dict, set))


@each_channel
def test_a_channel_equals_its_copies(channel, writes):
    for twin in (copy.copy(channel), copy.deepcopy(channel), pickle.loads(pickle.dumps(channel))):
        assert twin == channel
        assert hash(twin) == hash(channel)


@each_channel
def test_a_channel_equals_no_other(channel, writes):
    assert [other for other, _ in CASES.values() if other == channel] == [channel]
    assert channel != "a channel"


@given(st.lists(st.lists(lists, max_size=3), max_size=4))
def test_how_ordinary_writes_are_cut_into_steps_does_not_matter_to_a_reducer(steps):
    for channel in (
        CASES["lists"][0],
        CASES["delta"][0],
        BinaryOperatorAggregate(list, Append(distinct=True)),
    ):
        stored = channel.initial()
        for writes in steps:
            stored = channel.update(stored, writes)
        assert stored == channel.update(channel.initial(), [write for writes in steps for write in writes])


def test_a_repr_names_the_class_and_what_it_was_made_with():
    assert repr(EphemeralValue(int, guard=False)) == "EphemeralValue(typ=<class 'int'>, guard=False)"


class Doubled(Channel):
    """A channel of a user: no slots, or one slot as a string."""

    def __init__(self, factor):
        super().__init__(int)
        self.factor = factor


class Named(Channel):
    __slots__ = "name"  # noqa: PLC0205 - Python allows it, so somebody writes it

    def __init__(self, name):
        super().__init__(int)
        self.name = name


def test_attributes_of_users_channels_tell_them_apart():
    assert Doubled(2) == Doubled(2) != Doubled(3)
    assert Named("a") == Named("a") != Named("b")
    assert repr(Doubled(2)) == "Doubled(typ=<class 'int'>, factor=2)"


def test_a_channel_that_calls_no_reducer_needs_no_copy_of_what_is_stored():
    assert LastValue().pure
    assert Topic(int, accumulate=True).pure


def test_a_channel_without_a_type_takes_any():
    assert LastValue().typ is EphemeralValue().typ is UntrackedValue().typ is Topic().typ is Any


def test_a_channel_that_says_no_way_to_merge_is_told_what_to_do():
    with pytest.raises(NotImplementedError, match="Doubled must say how it merges writes: override update"):
        Doubled(2).update(MISSING, [1])
