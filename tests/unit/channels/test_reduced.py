"""Keys with a reducer: the zero, the fold, overwrites and removals, strict and lenient."""

import collections.abc
import enum
import operator
import typing
from collections import deque
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.channels import (
    Append,
    BinaryOperatorAggregate,
    DeltaChannel,
    Merge,
    add_messages,
    fold,
    is_pure,
)
from juncture.errors import GraphBuildError, InvalidUpdateError
from juncture.types import MARK_FOR_REMOVAL, MISSING, Overwrite


class Point(TypedDict):
    x: int


class Colour(enum.Enum):
    RED = 1


def concatenated(old, new):
    return f"{old}{new}"


def refusing(old, new):
    raise AssertionError(f"called with {old!r}, {new!r}")


ZEROS = [
    (list, []),
    (list[int], []),
    (typing.List[int], []),  # noqa: UP006 - as people have written it
    (collections.abc.Sequence[int], []),
    (typing.Sequence[int], []),
    (collections.abc.MutableSequence, []),
    (dict, {}),
    (dict[str, int], {}),
    (collections.abc.Mapping[str, int], {}),
    (typing.MutableMapping[str, int], {}),
    (set, set()),
    (set[int], set()),
    (collections.abc.Set[int], set()),
    (typing.AbstractSet[int], set()),
    (collections.abc.MutableSet, set()),
    (str, ""),
    (Annotated[list[int], "documented"], []),
    (NotRequired[Annotated[list, "documented"]], []),
]
CALLABLE = [int, float, bool, tuple, bytes, frozenset, deque, Point]
NOT_CALLABLE = [Colour, Any, typing.Optional[list], list | None, Literal["a"], "list", None, [1]]  # noqa: UP045 - the older spelling is what is tested
"""Types by whether they can be called without arguments; none of them has a zero for `max`."""


@pytest.mark.parametrize(("typ", "zero"), ZEROS, ids=str)
def test_lists_dicts_sets_and_strings_have_a_zero(typ, zero):
    channel = BinaryOperatorAggregate(typ, refusing)
    assert channel.initial() == zero
    assert type(channel.initial()) is type(zero)


@pytest.mark.parametrize(("typ", "zero"), [(int, 0), (float, 0.0)])
def test_numbers_have_a_zero_where_the_reducer_adds(typ, zero):
    assert repr(BinaryOperatorAggregate(typ, operator.add).initial()) == repr(zero)
    assert BinaryOperatorAggregate(typ, operator.mul).initial() is MISSING


@pytest.mark.parametrize("typ", [*CALLABLE, *NOT_CALLABLE, object, type("Mine", (list,), {})], ids=str)
def test_nothing_else_has_a_zero(typ):
    assert BinaryOperatorAggregate(typ, max).initial() is MISSING
    assert BinaryOperatorAggregate(bool, operator.add).initial() is MISSING


@pytest.mark.parametrize("typ", CALLABLE, ids=str)
def test_lenient_gives_every_type_a_zero_that_can_be_called_without_arguments(typ):
    assert BinaryOperatorAggregate(typ, max, lenient=True).initial() == typ()


@pytest.mark.parametrize("typ", NOT_CALLABLE, ids=str)
def test_lenient_gives_none_to_types_that_can_not(typ):
    assert BinaryOperatorAggregate(typ, max, lenient=True).initial() is MISSING


@pytest.mark.parametrize(("typ", "zero"), ZEROS, ids=str)
def test_lenient_agrees_where_strict_has_a_zero(typ, zero):
    assert BinaryOperatorAggregate(typ, max, lenient=True).initial() == zero


def test_a_write_of_none_reaches_the_reducer():
    assert fold(concatenated, "a", [None]) == "aNone"


@pytest.mark.parametrize("lenient", [True, False])
def test_writes_are_folded_in_plan_order_from_the_first_where_there_is_no_zero(lenient):
    channel = BinaryOperatorAggregate(Colour, concatenated, lenient=lenient)
    assert channel.update(MISSING, ["a", "b", "c"]) == "abc"
    assert BinaryOperatorAggregate(str, concatenated, lenient=lenient).update("x", ["a", "b"]) == "xab"


@pytest.mark.parametrize("lenient", [True, False])
def test_the_first_write_is_merged_into_the_zero_where_there_is_one(lenient):
    channel = BinaryOperatorAggregate(list[int], lambda old, new: [*old, new], lenient=lenient)
    assert channel.update(MISSING, [1, 2]) == [1, 2]
    assert channel.update([9], [8, MARK_FOR_REMOVAL, 1, 2]) == [1, 2]


@pytest.mark.parametrize("lenient", [True, False])
def test_the_first_write_is_stored_as_it_is_without_calling_the_reducer(lenient):
    first = {"a": 1}
    assert BinaryOperatorAggregate(Colour, refusing, lenient=lenient).update(MISSING, [first]) is first


def test_c20_a_custom_reducer():
    channel = BinaryOperatorAggregate(Any, lambda old, new: f"{new}-merged")
    stored = channel.update(MISSING, ["meta"])
    assert channel.update(stored, ["new meta"]) == "new meta-merged"


def test_c26_what_a_reducer_raises_is_raised_and_leaves_what_is_stored():
    stored = [1]
    with pytest.raises(TypeError, match="can only concatenate list"):
        BinaryOperatorAggregate(list, operator.add).update(stored, [[2], 3])
    assert stored == [1]


@pytest.mark.parametrize(
    ("writes", "strict", "lenient"),
    [
        ([Overwrite("o")], "o", "o"),
        (["a", Overwrite("o")], "o", "o"),
        (["a", Overwrite("o"), "b", "c"], "obc", "o"),
        ([Overwrite("o"), "b"], "ob", "o"),
        ([Overwrite(None)], None, None),
        ([Overwrite(None), "b"], "Noneb", None),
        ([{"__overwrite__": "o"}, "b"], "ob", "o"),
        ([{"type": "__overwrite__", "value": "o"}, "b"], "ob", "o"),
        ([MARK_FOR_REMOVAL], MISSING, MISSING),
        (["a", MARK_FOR_REMOVAL], MISSING, MISSING),
        (["a", MARK_FOR_REMOVAL, "b", "c"], "bc", "bc"),
        ([MARK_FOR_REMOVAL, "a", MARK_FOR_REMOVAL, "b"], "b", "b"),
        ([{"type": "__removal__"}, "b"], "b", "b"),
    ],
    ids=str,
)
def test_overwrites_and_removals(writes, strict, lenient):
    assert BinaryOperatorAggregate(str, concatenated).update("x", writes) == strict
    assert BinaryOperatorAggregate(str, concatenated, lenient=True).update("x", writes) == lenient


def test_the_reducer_is_not_called_for_writes_that_are_replaced():
    assert fold(refusing, 1, [2, Overwrite(3)]) == 3
    assert fold(refusing, 1, [2, MARK_FOR_REMOVAL]) is MISSING


def test_after_a_removal_the_key_starts_anew_from_its_zero():
    channel = BinaryOperatorAggregate(list, operator.add)
    assert channel.update([1], [MARK_FOR_REMOVAL, [2]]) == [2]
    assert channel.update(channel.update([1], [MARK_FOR_REMOVAL]), [[2]]) == [2]
    assert BinaryOperatorAggregate(int, operator.add).update(5, [MARK_FOR_REMOVAL, 2, 3]) == 5


@pytest.mark.parametrize("lenient", [True, False])
@pytest.mark.parametrize(
    ("writes", "phrase"),
    [
        ([Overwrite(1), Overwrite(1)], "Can receive only one Overwrite value per super-step"),
        ([Overwrite(1), 2, {"__overwrite__": 3}], "Can receive only one Overwrite value per super-step"),
        ([Overwrite(1), MARK_FOR_REMOVAL], "overwritten and removed in the same super-step"),
        ([MARK_FOR_REMOVAL, Overwrite(1)], "overwritten and removed in the same super-step"),
    ],
    ids=str,
)
def test_writes_that_contradict_each_other_are_refused(writes, phrase, lenient):
    for stored in (0, MISSING):
        with pytest.raises(InvalidUpdateError, match=phrase):
            BinaryOperatorAggregate(int, operator.add, lenient=lenient).update(stored, writes)


@given(
    st.lists(
        st.integers(0, 3) | st.just(MARK_FOR_REMOVAL) | st.builds(Overwrite, st.integers(0, 3)), max_size=5
    )
)
def test_a_fold_is_what_applying_one_write_after_the_other_gives(writes):
    expected = "x"
    for write in writes:
        if write is MARK_FOR_REMOVAL:
            expected = MISSING
        elif isinstance(write, Overwrite):
            expected = write.value
        else:
            expected = write if expected is MISSING else concatenated(expected, write)
    overwrites = sum(isinstance(write, Overwrite) for write in writes)
    if overwrites > 1 or (overwrites and MARK_FOR_REMOVAL in writes):
        with pytest.raises(InvalidUpdateError):
            fold(concatenated, "x", writes)
    else:
        assert fold(concatenated, "x", writes) == expected


def test_lenient_stores_an_overwrite_whole_where_there_is_no_zero():
    lenient = BinaryOperatorAggregate(Colour, concatenated, lenient=True)
    assert lenient.update(MISSING, [Overwrite(1)]) == Overwrite(1)
    assert lenient.update(MISSING, [1, Overwrite(2), 3]) == 2
    assert BinaryOperatorAggregate(Colour, concatenated).update(MISSING, [Overwrite(1)]) == 1


def test_lenient_removes_where_there_is_no_zero():
    lenient = BinaryOperatorAggregate(Colour, concatenated, lenient=True)
    assert lenient.update(MISSING, [MARK_FOR_REMOVAL]) is MISSING
    assert lenient.update(MISSING, [Overwrite(MARK_FOR_REMOVAL), "a", "b"]) == "ab"


@pytest.mark.parametrize("lenient", [True, False])
def test_a_reducer_may_say_what_the_first_write_makes(lenient):
    append = BinaryOperatorAggregate(Any, Append(), lenient=lenient)
    assert append.update(MISSING, ["a", "b"]) == ["a", "b"]
    assert append.update(MISSING, [Overwrite("a"), "b"]) == ("a" if lenient else ["a", "b"])
    wrapped = BinaryOperatorAggregate(Any, partial(Append()), lenient=lenient)
    assert wrapped.update(MISSING, ["a"]) == ["a"]
    assert BinaryOperatorAggregate(Any, Merge(), lenient=lenient).update(MISSING, [{"a": 1}]) == {"a": 1}


class Unhashable:
    __hash__ = None

    def __call__(self, old, new):
        return old


@pytest.mark.parametrize(
    "reducer", [operator.add, operator.or_, operator.and_, operator.mul, max, min, Append(), Merge(), add_messages,
                add_messages(), partial(partial(Append()))]
)  # fmt: skip
def test_reducers_that_are_known_to_leave_the_old_value_alone(reducer):
    assert is_pure(reducer)
    assert BinaryOperatorAggregate(list, reducer).pure


@pytest.mark.parametrize(
    "reducer", [operator.iadd, operator.ior, list.extend, lambda old, new: old, Unhashable()]
)
def test_reducers_of_which_nothing_is_known(reducer):
    assert not is_pure(reducer)
    assert not BinaryOperatorAggregate(list, reducer).pure


def test_an_attribute_that_only_looks_like_the_word_is_none():
    def reducer(old, new):
        return old

    reducer.pure = "yes"
    assert not is_pure(reducer)


# ── a reducer that takes the writes of a step at once ────────────────────────────────────────────────────────


def batches(state, writes):
    assert type(writes) is list
    return [*state, writes]


@pytest.mark.parametrize(
    ("writes", "strict", "lenient"),
    [
        ([1], ["x", [1]], ["x", [1]]),
        ([1, 2], ["x", [1, 2]], ["x", [1, 2]]),
        ([1, Overwrite(["o"])], ["o"], ["o"]),
        ([1, Overwrite(["o"]), 2, 3], ["o", [2, 3]], ["o"]),
        ([Overwrite(None)], [], []),
        ([1, Overwrite(None), 2], [[2]], []),
        ([1, MARK_FOR_REMOVAL], MISSING, MISSING),
        ([1, MARK_FOR_REMOVAL, 2], [[2]], [[2]]),
    ],
    ids=str,
)
def test_a_delta_channel_gets_the_writes_of_a_step_at_once(writes, strict, lenient):
    assert DeltaChannel(batches).update(["x"], writes) == strict
    assert DeltaChannel(batches, lenient=True).update(["x"], writes) == lenient


def test_a_delta_channel_starts_from_the_type_called_without_arguments():
    assert DeltaChannel(batches).initial() == []
    assert DeltaChannel(batches, dict[str, int]).initial() == {}
    assert DeltaChannel(batches, deque).initial() == deque()
    assert DeltaChannel(batches).update(MISSING, [1]) == [[1]]


def test_a_delta_channel_refuses_two_overwrites():
    with pytest.raises(InvalidUpdateError, match="only one Overwrite"):
        DeltaChannel(batches).update([], [Overwrite(None), Overwrite(None)])


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ({"reducer": None}, "needs a reducer"),
        ({"reducer": batches, "typ": list | None}, "called without arguments"),
        ({"reducer": batches, "snapshot_frequency": 0}, "positive int, got 0"),
    ],
)
def test_a_delta_channel_that_can_not_work_is_refused(arguments, phrase):
    with pytest.raises(GraphBuildError, match=phrase):
        DeltaChannel(**arguments)


def test_a_delta_channel_knows_whether_its_reducer_is_pure():
    assert not DeltaChannel(batches).pure
    assert DeltaChannel(add_messages).pure
