"""Ids ascend in the order in which they were made, whatever clocks do."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.errors import SaverError
from juncture.persistence.checkpoint_ids import CheckpointIds

NOW = 1_750_000_000_123_456_789
CLOCKS = st.integers(0, 2**47 * 1_000_000)


def ids(seed=0):
    return CheckpointIds(lambda count: bytes([seed]) * count)


def test_an_id_has_the_form_of_a_uuid_of_version_7():
    made = uuid.UUID(ids().next(NOW, None))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert made.int >> 80 == NOW // 1_000_000
    assert uuid.UUID(ids(255).next(NOW, None)).variant == uuid.RFC_4122


@given(st.lists(CLOCKS, min_size=2, max_size=20))
def test_ids_of_one_run_ascend_whatever_its_clock_does(clocks):
    maker = ids()
    made = [maker.next(now, None) for now in clocks]
    assert made == sorted(set(made))
    assert len({len(each) for each in made}) == 1


@given(CLOCKS, CLOCKS)
def test_an_id_ascends_from_the_head_of_another_machine(theirs, ours):
    head = ids(1).next(theirs, None)
    mine = ids(2)
    first = mine.next(ours, head)
    second = mine.next(ours, first)
    assert head < first < second


def test_an_id_follows_its_own_of_another_namespace():
    maker = ids()
    root = maker.next(NOW, None)
    inner = maker.next(NOW, None)
    assert root < inner < maker.next(NOW, root)


def test_runs_do_not_make_the_same_ids():
    assert CheckpointIds().next(NOW, None) != CheckpointIds().next(NOW, None)


@pytest.mark.parametrize(
    "head", ["", "x", "not-an-id", "1f0e7a5c-0000-6000-8000-000000000001", "z" * 14 + "7" + "z" * 21]
)
def test_nothing_is_guessed_about_an_id_of_another_form(head):
    with pytest.raises(SaverError, match="wasn't made by Juncture"):
        ids().next(NOW, head)
