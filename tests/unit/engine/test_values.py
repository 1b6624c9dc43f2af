"""Copies at the border: equal to the original, and sharing no container with it."""

import asyncio
import math
import threading
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.channels.strategies import Remove, ReplaceAll
from juncture.engine.state import State
from juncture.engine.streaming import values_payload
from juncture.engine.values import (
    ATOMS,
    CONTAINERS,
    LONG,
    WRAPPERS,
    Flat,
    admitted,
    copied,
    copied_dict,
    copied_value,
    copied_values,
    is_handed_out,
    is_stream,
    same,
)
from juncture.errors import InvalidUpdateError
from juncture.types import MARK_FOR_REMOVAL, MISSING, Overwrite

Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - the untyped form is as common


class Items(list):
    """A subclass of a container: a leaf."""


@dataclass
class Box:
    """An object: a leaf."""

    items: list[Any] = field(default_factory=list)


atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.complex_numbers()
)
leaves = (
    st.builds(Box, st.just([1])) | st.builds(Pair, st.just([1]), st.none()) | st.builds(Items, st.just([1]))
)
hashables = st.integers() | st.text(max_size=2) | st.frozensets(st.integers(), max_size=2)


def containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=3)
    dicts = st.dictionaries(hashables, children, max_size=3)
    return st.one_of(
        lists,
        dicts,
        lists.map(tuple),
        st.sets(hashables, max_size=3),
        st.builds(bytearray, st.binary(max_size=3)),
        st.builds(deque, lists, st.none() | st.integers(3, 5)),
        dicts.map(OrderedDict),
        dicts.map(lambda d: defaultdict(list, d)),
        dicts.map(Counter),
        st.builds(Overwrite, children),
        st.builds(Remove, children),
        st.builds(ReplaceAll, lists),
    )


values = st.recursive(atoms | leaves | st.just(MARK_FOR_REMOVAL), containers, max_leaves=12)


def parts(value: Any) -> list[Any]:
    """A value's containers that can be changed, nested ones included, and its marks."""
    kind = type(value)
    if kind not in CONTAINERS:
        return []
    if kind in WRAPPERS:
        nested = [WRAPPERS[kind](value)]
    else:
        nested = list(value.values()) if isinstance(value, dict) else [] if kind is bytearray else list(value)
    return [*([] if kind is tuple else [value]), *(part for v in nested for part in parts(v))]


def shape(value: Any) -> Any:
    """A value as something that compares equal only if types, order and leaves are the same."""
    kind = type(value)
    if kind in WRAPPERS:
        return kind, shape(WRAPPERS[kind](value))
    if kind in CONTAINERS and isinstance(value, dict):
        more = value.default_factory if kind is defaultdict else None
        return kind, more, [(key, shape(v)) for key, v in value.items()]
    if kind is set or kind is bytearray:
        return kind, value
    if kind in CONTAINERS:
        return kind, getattr(value, "maxlen", None), [shape(v) for v in value]
    return kind, repr(value) if kind in (float, complex) else value if kind in ATOMS else id(value)


@pytest.mark.parametrize("copy", [copied, admitted])
@given(value=values)
def test_a_copy_is_equal_and_shares_no_container(copy, value):
    before = shape(value)
    made = copy(value)
    assert shape(made) == before == shape(value)
    assert {id(part) for part in parts(made)}.isdisjoint({id(part) for part in parts(value)})


@given(value=st.dictionaries(hashables, values, max_size=3))
def test_copied_dict_is_copied_for_dicts(value):
    made = copied_dict(value)
    assert shape(made) == shape(value)
    assert {id(part) for part in parts(made)}.isdisjoint({id(part) for part in parts(value)})


@pytest.mark.parametrize("copy", [copied, admitted])
@pytest.mark.parametrize(
    "value", [Box(), Pair([1], 2), Items([1]), frozenset({1}), MARK_FOR_REMOVAL, len, Box, 2**70]
)
def test_a_leaf_is_shared(copy, value):
    assert copy(value) is value
    assert copy([value])[0] is value


@pytest.mark.parametrize("copy", [copied, admitted])
def test_a_tuple_is_copied_only_if_something_in_it_is(copy):
    flat, leafy, deep = (1, "a"), (Box(), 1), (1, [2])
    assert copy(flat) is flat
    assert copy(leafy) is leafy
    assert copy(deep) is not deep
    assert copy((flat, leafy))[1] is leafy


@pytest.mark.parametrize("copy", [copied, admitted])
def test_keys_are_shared(copy):
    key = (1, frozenset({2}))
    assert next(iter(copy({key: [1]}))) is key


def cyclic_list():
    value = [1]
    value.append(value)
    return value


def cyclic_dict():
    value = {}
    value["me"] = {"deeper": value}
    return value


def cyclic_tuple():
    inner = []
    value = (inner,)
    inner.append(value)
    return value


def cyclic_deque():
    value = deque([1])
    value.append(value)
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("copy", [copied, admitted])
@pytest.mark.parametrize("make", [cyclic_list, cyclic_dict, cyclic_tuple, cyclic_deque, deep])
def test_what_contains_itself_or_is_too_deep_is_refused(copy, make):
    value = make()
    try:
        with pytest.raises(InvalidUpdateError, match="contains itself or is nested too deeply"):
            copy(value)
    finally:
        while (
            isinstance(value, list) and len(value) == 1 and value[0] is not value
        ):  # unwound by hand: no deep recursion
            value = value[0]


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────


def generator():
    yield 1


async def async_generator():
    yield 1


STREAMS = {
    "generator": generator,
    "async generator": async_generator,
    "iterator": lambda: iter([1]),
    "map": lambda: map(str, [1]),
    "enumerate": lambda: enumerate([1]),
    "future": Future,
    "event loop's future": lambda: asyncio.Future(loop=asyncio.new_event_loop()),
}
PLACES = {
    "alone": lambda v: v,
    "list": lambda v: [1, v],
    "dict": lambda v: {"a": {"b": v}},
    "tuple": lambda v: (1, (v,)),
    "deque": lambda v: deque([v]),
    "ordered": lambda v: OrderedDict(a=v),
    "defaultdict": lambda v: defaultdict(list, a=v),
    "set": lambda v: {v},
    "overwrite": Overwrite,
    "replace all": lambda v: ReplaceAll([v]),
    "remove": lambda v: Remove([v]),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_is_refused_wherever_it_is(kind, place):
    stream = STREAMS[kind]()
    try:
        with pytest.raises(InvalidUpdateError, match=f"a {type(stream).__name__} can't be part of the state"):
            admitted(PLACES[place](stream))
    finally:
        if isinstance(stream, asyncio.Future):
            stream.get_loop().close()


def test_a_coroutine_is_refused():
    async def node():
        return 1

    coroutine = node()
    with pytest.raises(InvalidUpdateError, match="a coroutine can't"):
        admitted([coroutine])
    coroutine.close()


def test_a_file_is_refused(tmp_path):
    with (
        (tmp_path / "file").open("w") as file,
        pytest.raises(InvalidUpdateError, match="a TextIOWrapper can't"),
    ):
        admitted({"f": file})


@pytest.mark.parametrize(
    "value", [range(3), "text", b"x", {}.keys(), Box(), threading.Lock(), type, lambda: 1]
)
def test_what_isnt_a_stream_is_admitted(value):
    assert admitted(value) is value
    assert not is_stream(type(value))


def test_copied_takes_what_is_in_the_state_as_it_is():
    stream = iter([1])
    assert copied({"s": stream})["s"] is stream


# ── comparing ────────────────────────────────────────────────────────────────────────────────────────────────


@given(value=values)
def test_a_value_is_the_same_as_its_copy_unless_it_holds_what_isnt_itself(value):
    has_nan = "nan" in repr(value)
    assert same(value, copied(value)) or has_nan
    assert same(value, value)


class Incomparable:
    def __eq__(self, other):
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (1, True),
        (1, 1.0),
        (1, 2),
        ([1], [True]),
        ([1], [1, 2]),
        ([1], (1,)),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"a": 1, "b": 1}),
        ({1: 0}, {True: 0}),
        ({"a": 1}, OrderedDict(a=1)),
        ({1}, {2}),
        ({1}, {True}),
        (deque([1]), deque([True])),
        (deque([[1]]), deque([[True]])),
        (deque([1], 2), deque([1], 3)),
        (Incomparable(), Incomparable()),
        (math.nan, -math.nan),
    ],
)
def test_what_isnt_the_same(one, two):
    assert not same(one, two)
    assert not same(two, one)
    assert not same([one], [two])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([1, [2]], [1, [2]]),
        ({"a": (1,)}, {"a": (1,)}),
        (OrderedDict(a=1), OrderedDict(a=1)),
        ({1, 2}, {2, 1}),
        (Box([1]), Box([1])),
        (MISSING, MISSING),
    ],
)
def test_what_is_the_same(one, two):
    assert same(one, two)


def test_an_incomparable_object_is_the_same_as_itself():
    one = Incomparable()
    assert same([one], [one])


@pytest.mark.parametrize("value", [None, 1, "a", (1, [2]), b"", 1.5, True, 1j])
def test_identity_of_what_may_be_interned_says_nothing(value):
    assert not is_handed_out(type(value))


@pytest.mark.parametrize("value", [[], {}, set(), deque(), Box(), Items()])
def test_identity_of_what_is_copied_says_something(value):
    assert is_handed_out(type(value))


# ── what is remembered of a state's lists ────────────────────────────────────────────────────────────────────


def assert_apart(made: Any, value: Any) -> None:
    assert {id(part) for part in parts(made)}.isdisjoint({id(part) for part in parts(value)})


ROW = st.dictionaries(st.sampled_from("abc"), atoms, max_size=3)
ODD = st.sampled_from(
    [{"a": bytearray(b"x")}, {"a": [1]}, {"a": ()}, [1], 1, OrderedDict(a=1), {"a": Box([1])}]
)


@given(
    st.lists(st.tuples(st.integers(0, 3 * LONG), st.lists(ROW | ODD, max_size=LONG)), max_size=6),
    st.booleans(),
)
def test_copies_are_the_same_whatever_was_remembered(edits, again):
    # A key's values one after the other: each keeps so many items of the one before, and has others after them.
    flat: Flat = {}
    value = [{"a": i} for i in range(LONG)]
    for kept, added in edits:
        value = [*value[:kept], *added]
        for _ in range(1 + again):
            copy = copied_value("rows", value, flat)
            assert shape(copy) == shape(value)
            assert_apart(copy, value)
            assert shape(copied_values({"rows": value}, flat)) == shape({"rows": value})


@pytest.mark.parametrize("odd", [{"a": bytearray(b"x")}, {"a": [1]}, {"a": {}}, {"a": ([],)}], ids=str)
def test_what_a_grown_list_holds_inside_is_copied_where_the_rest_was_flat(odd):
    flat: Flat = {}
    rows = [{"a": i} for i in range(LONG)]
    copied_value("rows", rows, flat)
    grown = [*rows, odd]
    copy = copied_value("rows", grown, flat)
    assert_apart(copy, grown)
    equal = [dict(row) for row in rows]  # other dicts, though they are equal: none of them was looked at
    equal[0]["a"] = odd["a"]
    copy = copied_value("rows", equal, flat)
    assert_apart(copy, equal)


def test_keys_are_remembered_apart_and_only_long_lists_are():
    flat: Flat = {}
    rows, few = [{"a": i} for i in range(LONG)], [{"a": 1}]
    held = {"rows": rows, "few": few, "n": 1, "more": rows[:]}
    copy = copied_values(held, flat)
    assert copy == held
    assert flat["rows"] is rows
    assert flat["more"] is held["more"]
    assert "few" not in flat
    assert copied_values(held)["rows"] == rows  # nothing is remembered where nothing may be


def test_where_nodes_reach_the_state_nothing_is_remembered():
    rows: list[Any] = [{"a": i} for i in range(LONG)]
    state = State(values={"rows": rows}, flat=None)
    assert values_payload(state, None)["rows"] == rows
    rows[0]["a"] = [1]  # in place, as a node with isolation="shared" may
    copy = values_payload(state, frozenset({"rows"}))["rows"]
    assert copy == rows
    assert copy[0]["a"] is not rows[0]["a"]
