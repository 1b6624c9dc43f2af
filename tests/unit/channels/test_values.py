"""Channels that keep, show or collect values without a reducer."""

import pytest

from juncture.channels import (
    AnyValue,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from juncture.errors import GraphBuildError, InvalidUpdateError
from juncture.types import MARK_FOR_REMOVAL, MISSING, Overwrite

GUARDED = {
    "last value": LastValue(int),
    "after finish": LastValueAfterFinish(int),
    "ephemeral": EphemeralValue(int),
    "untracked": UntrackedValue(int),
}
ONE_VALUE = {
    "last": LastValue(),
    "ephemeral": EphemeralValue(),
    "any": AnyValue(),
    "untracked": UntrackedValue(),
}


@pytest.mark.parametrize("channel", GUARDED.values(), ids=GUARDED)
def test_two_writes_in_one_step_are_refused(channel):
    with pytest.raises(InvalidUpdateError, match=r"Can receive only one value per step.* got 2"):
        channel.update(MISSING, [1, 1])


@pytest.mark.parametrize("write", [Overwrite(2), MARK_FOR_REMOVAL])
def test_an_overwrite_or_a_removal_counts_as_a_write(write):
    with pytest.raises(InvalidUpdateError, match="only one value per step"):
        LastValue().update(0, [1, write])


@pytest.mark.parametrize("channel", [AnyValue(), EphemeralValue(guard=False), UntrackedValue(guard=False)])
def test_the_last_write_in_plan_order_wins_where_several_are_taken(channel):
    assert channel.update(0, [1, 2, 3]) == 3


@pytest.mark.parametrize("channel", ONE_VALUE.values(), ids=ONE_VALUE)
def test_none_is_a_value(channel):
    assert channel.update(1, [None]) is None


@pytest.mark.parametrize("channel", ONE_VALUE.values(), ids=ONE_VALUE)
@pytest.mark.parametrize(
    ("write", "left"),
    [
        (Overwrite(2), 2),
        ({"__overwrite__": 2}, 2),
        ({"type": "__overwrite__", "value": 2}, 2),
        ({"type": "__overwrite__", "value": 2, "more": 1}, 2),
        (Overwrite(None), None),
        (MARK_FOR_REMOVAL, MISSING),
        ({"type": "__removal__"}, MISSING),
        (Overwrite(MARK_FOR_REMOVAL), MISSING),
        ({"__overwrite__": 2, "more": 1}, {"__overwrite__": 2, "more": 1}),
        ({"type": "__overwrite__"}, {"type": "__overwrite__"}),
        ({"type": "__removal__", "more": 1}, {"type": "__removal__", "more": 1}),
        ({"type": ["__overwrite__"], "value": 2}, {"type": ["__overwrite__"], "value": 2}),
        ({"type": "human", "value": 2}, {"type": "human", "value": 2}),
    ],
)
def test_markers_are_unwrapped_in_each_of_their_forms_and_nothing_else_is(channel, write, left):
    assert channel.update(1, [write]) == left


def test_an_ephemeral_value_lives_for_one_step():
    for channel in (EphemeralValue(), AnyValue()):
        assert channel.update(channel.update(MISSING, [1]), []) is MISSING


def test_an_untracked_value_stays_but_is_part_of_no_checkpoint():
    channel = UntrackedValue()
    assert channel.update(channel.update(MISSING, [1]), []) == 1
    assert not channel.tracked
    assert LastValue().tracked


def test_a_value_after_finish_is_shown_then_and_gone_once_read():
    channel = LastValueAfterFinish(int)
    stored = channel.update(MISSING, [1])
    assert channel.show(stored) is MISSING
    assert channel.consume(stored) == stored
    finished = channel.finish(stored)
    assert channel.show(finished) == 1
    assert channel.finish(finished) is finished
    assert channel.consume(finished) is MISSING
    assert channel.show(channel.update(finished, [2])) is MISSING
    assert channel.finish(MISSING) is MISSING


def test_a_falsy_value_after_finish_is_shown_as_well():
    channel = LastValueAfterFinish(int)
    assert channel.show(channel.finish(channel.update(MISSING, [None]))) is None


def test_a_topic_holds_what_one_step_wrote_with_lists_flattened_one_level():
    channel = Topic(int)
    stored = channel.update([9], [1, [2, [3]], (4, 5)])
    assert stored == [1, 2, [3], (4, 5)]
    assert channel.update(stored, []) is MISSING
    assert channel.update(stored, [[]]) is MISSING


def test_a_topic_that_accumulates_keeps_what_earlier_steps_wrote():
    channel = Topic(int, accumulate=True)
    assert channel.update([1], [2, [3]]) == [1, 2, 3]
    assert channel.update(MISSING, [2]) == [2]
    assert (channel.volatile, Topic(int).volatile) == (False, True)


@pytest.mark.parametrize("accumulate", [True, False])
def test_an_overwrite_starts_a_topic_anew_for_the_writes_after_it(accumulate):
    channel = Topic(int, accumulate)
    assert channel.update([1], [2, Overwrite([7]), 3]) == [7, 3]
    assert channel.update([1], [2, Overwrite(7), 3]) == [7, 3]
    assert channel.update([1], [2, MARK_FOR_REMOVAL, 3]) == [3]
    with pytest.raises(InvalidUpdateError, match="only one Overwrite"):
        channel.update([1], [Overwrite([7]), Overwrite([7])])


def test_an_overwriting_list_is_not_kept_by_a_topic():
    given = [7]
    assert Topic(int).update(MISSING, [Overwrite(given)]) is not given


BARRIERS = {
    "barrier": NamedBarrierValue(str, ["a", "b"]),
    "later": NamedBarrierValueAfterFinish(str, ["a", "b"]),
}


@pytest.mark.parametrize("channel", BARRIERS.values(), ids=BARRIERS)
def test_a_barrier_opens_once_all_names_came_and_closes_once_read(channel):
    partly = channel.update(MISSING, ["b", "b"])
    assert channel.show(channel.finish(partly)) is MISSING
    assert channel.consume(partly) is partly
    stored = channel.finish(channel.update(partly, ["a"]))
    assert channel.show(stored) is None
    assert channel.consume(stored) is MISSING


def test_a_barrier_after_finish_stays_closed_until_then():
    channel = NamedBarrierValueAfterFinish(str, {"a"})
    stored = channel.update(MISSING, ["a"])
    assert channel.show(stored) is MISSING
    finished = channel.finish(stored)
    assert channel.finish(finished) is finished
    assert channel.show(channel.update(finished, ["a"])) is None
    assert channel.finish(MISSING) is MISSING


@pytest.mark.parametrize("channel", BARRIERS.values(), ids=BARRIERS)
def test_a_barrier_can_be_started_anew(channel):
    stored = channel.update(MISSING, ["a", "b"])
    assert channel.update(stored, [MARK_FOR_REMOVAL]) is MISSING
    assert channel.update(stored, [MARK_FOR_REMOVAL, "a"]) == channel.update(MISSING, ["a"])


@pytest.mark.parametrize("channel", BARRIERS.values(), ids=BARRIERS)
@pytest.mark.parametrize("write", ["c", ["a"]])
def test_a_barrier_refuses_what_it_does_not_wait_for(channel, write):
    with pytest.raises(InvalidUpdateError, match=r"doesn't wait for .* Write one of: 'a', 'b'"):
        channel.update(MISSING, ["a", write])


def test_a_barrier_can_not_be_overwritten():
    with pytest.raises(InvalidUpdateError, match="a barrier can't be overwritten"):
        NamedBarrierValue(str, {"a"}).update(MISSING, [Overwrite("a")])


def test_a_barrier_that_would_never_open_is_refused():
    with pytest.raises(GraphBuildError, match="at least one name"):
        NamedBarrierValue(str, [])
