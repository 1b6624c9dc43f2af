"""Key strategies: `Replace`, `Append`, `Merge`; cases C14 to C24 at the level of one key."""

import copy
import pickle
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.channels import (
    Append,
    BinaryOperatorAggregate,
    LastValue,
    Merge,
    Remove,
    Replace,
    ReplaceAll,
    channel_for,
)
from juncture.errors import InvalidUpdateError
from juncture.types import MARK_FOR_REMOVAL, MISSING


def run(strategy, *steps, stored=MISSING):
    """One key through steps of one write each."""
    return reduce(lambda value, write: channel_for(strategy).update(value, [write]), steps, stored)


# ── Replace ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_c18_replace_takes_the_new_value_none_included():
    assert run(Replace(), "o1", "n1") == "n1"
    assert run(Replace(), "o1", None) is None
    assert Replace()("o1", "n1") == "n1"


def test_two_writes_to_a_key_that_is_replaced_conflict():
    assert channel_for(Replace(), int) == LastValue(int)
    with pytest.raises(InvalidUpdateError, match="only one value per step"):
        channel_for(Replace()).update(0, [1, 2])


# ── Append ───────────────────────────────────────────────────────────────────────────────────────────────────


class Record(NamedTuple):
    x: int
    y: int


def test_c14_a_value_is_appended_and_a_list_flattened_one_level():
    assert run(Append(), "m1", ["m2"], "m3") == ["m1", "m2", "m3"]
    assert run(Append(), "m1", ["m2", ["m3"]]) == ["m1", "m2", ["m3"]]


def test_c15_remove_one():
    assert run(Append(), "m1", ["m2"], Remove("m2")) == ["m1"]


def test_c16_append_and_remove_in_one_list():
    assert run(Append(), "m1", ["m2"], ["m3", Remove("m2")], ["m4"]) == ["m1", "m3", "m4"]


def test_c17_the_old_list_never_changes():
    old = ["q"]
    for write in ("a", ["a"], Remove("q"), ["a", Remove("q")], ReplaceAll(["a"])):
        assert Append()(old, write) is not old
        assert old == ["q"]
    assert Append()(old, "a") == ["q", "a"]


def test_c19_an_old_value_that_is_no_list_comes_first_in_the_new_one():
    assert Append()("original", "x") == ["original", "x"]
    assert Append()({"a": 1}, ["x"]) == [{"a": 1}, "x"]
    assert Append()(None, "x") == ["x"]
    assert Append()(("a", "b"), "x") == ["a", "b", "x"]
    assert Append()(Record(1, 2), "x") == [Record(1, 2), "x"]
    assert Append()("original", None) == ["original"]


def test_c22_a_key_that_was_removed_starts_anew_also_among_parallel_writes():
    channel = channel_for(Append(), list)
    assert channel.update(["a"], [MARK_FOR_REMOVAL]) is MISSING
    assert channel.update(["a"], ["b", MARK_FOR_REMOVAL]) is MISSING
    assert channel.update(["a"], [MARK_FOR_REMOVAL, "b"]) == ["b"]


def test_c23_replace_all_keeps_what_is_appended_after_it_in_plan_order():
    channel = channel_for(Append(), list)
    assert channel.update([1, 2], [ReplaceAll([9])]) == [9]
    assert channel.update([1, 2], [ReplaceAll([9]), "b"]) == [9, "b"]
    assert channel.update([1, 2], ["a", ReplaceAll((9,)), "b"]) == [9, "b"]


def test_the_list_that_replaces_is_not_kept():
    given = [9]
    assert Append()([1], ReplaceAll(given)) is not given


@pytest.mark.parametrize("items", [[], (), deque()])
def test_an_empty_list_and_none_keep_the_old_list(items):
    old = [1]
    assert Append()(old, items) is old
    assert Append()(old, None) is old


@pytest.mark.parametrize("items", [[2, 3], (2, 3), deque([2, 3])], ids=repr)
def test_lists_tuples_and_deques_are_flattened(items):
    assert Append()([1], items) == [1, 2, 3]


@pytest.mark.parametrize("item", ["ab", b"ab", {"a": 1}, Record(1, 2), range(2), 0, False], ids=repr)
def test_everything_else_is_one_item(item):
    assert Append()([1], item) == [1, item]


@pytest.mark.parametrize("items", [{1}, frozenset({1})])
def test_a_set_has_no_order_and_is_refused(items):
    with pytest.raises(InvalidUpdateError, match="a set has no order"):
        Append()([1], items)
    assert Append()([1], [items]) == [1, items]


def test_none_within_a_list_is_an_item():
    assert Append()([1], [None]) == [1, None]


def test_a_removal_takes_the_first_match_from_the_old_list_only():
    assert Append()([1, 2, 1], Remove(1)) == [2, 1]
    assert Append()([1, 2, 1], [Remove(1), Remove(1), Remove(1)]) == [2]
    assert Append()([1], [2, Remove(2)]) == [1, 2]
    assert Append()([[1], [2]], Remove([1])) == [[2]]
    assert Append()([1], Remove(7)) == [1]
    assert Append()("original", Remove("original")) == []


def test_replace_all_among_other_items_is_refused():
    with pytest.raises(InvalidUpdateError, match="a ReplaceAll stands in a list with other items"):
        Append()([1], [2, ReplaceAll([3])])


@pytest.mark.parametrize("items", ["ab", 5, {1}, None])
def test_replace_all_takes_a_list(items):
    with pytest.raises(TypeError, match="ReplaceAll takes the new items as a list"):
        ReplaceAll(items)


def test_the_first_write_gives_a_list():
    assert run(Append(), "a") == ["a"]
    assert run(Append(), None) == []
    assert run(Append(), ReplaceAll([1])) == [1]
    assert run(Append(), Remove(1)) == []
    assert run(Append(distinct=True), [1, 1]) == [1]


def test_distinct_keeps_the_first_of_equal_items_over_the_whole_list():
    append = Append(distinct=True)
    assert append([1, 2, 1], [2, 3, 3]) == [1, 2, 3]
    assert append([1], ReplaceAll([2, 2])) == [2]
    assert append([[1], {"a": 1}], [[1], {"a": 1}, [2]]) == [[1], {"a": 1}, [2]]
    assert append([frozenset({1})], [{1}, frozenset({2})]) == [frozenset({1}), frozenset({2})]
    assert append([{1}], [frozenset({1})]) == [{1}]
    assert Append()([1], [1]) == [1, 1]


@given(st.lists(st.integers(0, 3) | st.lists(st.integers(0, 1), max_size=1)), st.lists(st.integers(0, 3)))
def test_distinct_is_what_comparing_each_with_each_gives(old, new):
    expected = []
    for item in [*old, *new]:
        if item not in expected:
            expected.append(item)
    if new:
        assert Append(distinct=True)(old, new) == expected


# ── Merge ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Address:
    city: str | None = None
    street: str | None = None


@dataclass
class Person:
    name: str | None = None
    address: Address | None = None
    tags: dict[str, Any] | None = None
    notes: list[str] | None = None


@dataclass(slots=True)
class Slotted:
    a: int | None = None
    b: int | None = field(default=None, init=False)


@dataclass(frozen=True)
class Frozen:
    a: int | None = None
    b: int | None = None


class Model(pydantic.BaseModel):
    a: int | None = None
    b: int | None = None
    inner: Address | None = None


class Open(pydantic.BaseModel, extra="allow"):
    a: int | None = None


class FrozenModel(pydantic.BaseModel, frozen=True):
    a: int | None = None
    b: int | None = None


class Struct(msgspec.Struct):
    a: int | None = None
    b: int | None = None


class FrozenStruct(msgspec.Struct, frozen=True):
    a: int | None = None
    b: int | None = None


class Plain:
    def __init__(self):
        self.a = None
        self.b = None


class Demanding:
    def __init__(self, a):
        self.a = a


class Unreadable:
    """A class whose signature can't be read."""

    __signature__ = "no signature"


class Colour(Enum):
    RED = 1
    BLUE = 2


def having(thing, **attributes):
    for name, value in attributes.items():
        setattr(thing, name, value)
    return thing


def test_c21_none_says_nothing():
    assert Merge()(1, None) == 1
    assert Merge()(None, 1) == 1
    assert Merge()(None, None) is None


def test_c21_two_mappings_make_a_shallow_union():
    old, new = {"a": 1, "c": {"x": 1}}, {"b": 2, "c": {"y": 1}}
    assert Merge()(old, new) == {"a": 1, "b": 2, "c": {"y": 1}}
    assert (old, new) == ({"a": 1, "c": {"x": 1}}, {"b": 2, "c": {"y": 1}})
    assert Merge()({"a": 1}, {"a": None}) == {"a": None}


@pytest.mark.parametrize(
    "old",
    [OrderedDict(a=1), Counter(a=1), defaultdict(list, a=1), UserDict(a=1), type("Mine", (dict,), {})(a=1)],
    ids=lambda old: type(old).__name__,
)
@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType])
def test_a_union_is_of_the_old_kind_and_replaces_entries(old, kind):
    before = copy.copy(old)
    union = Merge()(old, kind({"a": 2, "b": 3}))
    assert union == {"a": 2, "b": 3}
    assert type(union) is type(old)
    assert old == before


def test_a_union_with_a_mapping_that_can_not_be_changed_is_a_dict():
    union = Merge()(MappingProxyType({"a": 1}), {"b": 2})
    assert union == {"a": 1, "b": 2}
    assert type(union) is dict


def test_c21_objects_of_one_class_are_merged_by_field():
    old = Person("Ann", Address("Rome", "Via A"), {"x": 1}, ["n"])
    new = Person(None, Address("Oslo"), {"y": 2}, ["m"])
    before = copy.deepcopy((old, new))
    assert Merge()(old, new) == Person("Ann", Address("Oslo", "Via A"), {"x": 1, "y": 2}, ["m"])
    assert (old, new) == before
    assert Merge()(Person(), new) == new
    assert Merge()(old, Person()) == old


@pytest.mark.parametrize("kind", [Slotted, Model, Open, Struct, Plain], ids=lambda kind: kind.__name__)
def test_every_kind_of_object_with_fields_is_merged(kind):
    old, new = having(kind(), a=1), having(kind(), a=2)
    if kind is not Open:
        old.b = 3
    else:
        old, new = Open(a=1, b=3), Open(a=2, c=4)
    merged = Merge()(old, new)
    assert (merged.a, merged.b) == (2, 3)
    assert type(merged) is kind
    assert old.a == 1
    assert kind is not Open or merged.c == 4


def test_objects_in_the_fields_of_models_are_merged_too():
    merged = Merge()(Model(inner=Address("Rome", "Via A")), Model(a=1, inner=Address("Oslo")))
    assert merged == Model(a=1, inner=Address("Oslo", "Via A"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Frozen(1, 2), Frozen(3)),
        (FrozenModel(a=1, b=2), FrozenModel(a=3)),
        (FrozenStruct(1, 2), FrozenStruct(3)),
        (Demanding(1), Demanding(2)),
        (having(Unreadable(), a=1), having(Unreadable(), a=2)),
        (Colour.RED, Colour.BLUE),
        (ValueError(1), ValueError(2)),
        ([1], [2]),
        ({1}, {2}),
        ("a", "b"),
        (1, 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_c21_of_other_values_of_one_class_the_new_one_wins(old, new):
    assert Merge()(old, new) is new


def test_a_field_may_change_its_class():
    assert Merge()(Model(a=1), Model.model_construct(a="x")).a == "x"


@pytest.mark.parametrize(
    ("old", "new"), [(1, "a"), ({"a": 1}, [1]), (Address(), Person()), (True, 1), ([1], (1,))]
)
def test_c21_different_classes_are_refused(old, new):
    with pytest.raises(InvalidUpdateError, match="Cannot merge incompatible types"):
        Merge()(old, new)


def test_mappings_of_different_classes_are_merged():
    class Other(Mapping):
        def __getitem__(self, key):
            return {"b": 2}[key]

        def __iter__(self):
            return iter(["b"])

        def __len__(self):
            return 1

    assert Merge()({"a": 1}, Other()) == {"a": 1, "b": 2}


def test_merge_as_the_strategy_of_a_key():
    assert run(Merge(), {"a": 1}, {"b": 2}, None) == {"a": 1, "b": 2}
    assert run(Merge(), None, {"b": 2}) == {"b": 2}


# ── as values ────────────────────────────────────────────────────────────────────────────────────────────────


def test_c20_any_callable_is_a_strategy():
    assert run(lambda old, new: f"{new}-merged", "meta", "new meta") == "new meta-merged"


@pytest.mark.parametrize(
    "strategy", [Replace(), Append(), Append(distinct=True), Merge(), Remove(1), ReplaceAll((1,))], ids=repr
)
def test_strategies_are_equal_by_content_and_survive_copies(strategy):
    for twin in (copy.deepcopy(strategy), pickle.loads(pickle.dumps(strategy))):
        assert twin == strategy
        assert hash(twin) == hash(strategy)
    assert Append() != Append(distinct=True)
    assert BinaryOperatorAggregate(list, Append()) == BinaryOperatorAggregate(list, Append())
    assert BinaryOperatorAggregate(list, Append()) != BinaryOperatorAggregate(list, Append(distinct=True))


@pytest.mark.parametrize("strategy", [Replace(), Append(), Merge()])
def test_strategies_say_that_they_never_change_the_old_value(strategy):
    assert strategy.pure
