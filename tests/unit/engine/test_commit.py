"""Writes merged into the state: all or none, in plan order, and named by node and key where they can't be."""

from __future__ import annotations

import copy
import dataclasses
import operator
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture import StateGraph
from juncture.channels import (
    Append,
    EphemeralValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    Topic,
    add_messages,
)
from juncture.engine.commit import Changes, apply, finish, merge, view
from juncture.engine.state import State
from juncture.engine.tables import CHANNEL, LAST, REDUCE
from juncture.errors import InvalidUpdateError
from juncture.types import MARK_FOR_REMOVAL, MISSING, START, Overwrite
from tests.unit.engine.script import notes, typed


def mixed(old, new):
    """Neither known to be pure nor well behaved: it changes both."""
    old += new
    new.clear()
    return old


def refusing(old, new):
    if "bad" in new:
        raise ValueError(f"can't take {new}")
    return old + new


class Keys(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list, operator.add]
    biggest: Annotated[int, max]
    mixed: Annotated[list, mixed]
    picky: Annotated[list, refusing]
    items: Annotated[list, Append()]
    messages: Annotated[list, add_messages]
    topic: Annotated[list, Topic(str)]
    once: Annotated[Any, EphemeralValue(Any)]
    barrier: Annotated[Any, NamedBarrierValue(str, {"p", "q"})]
    late: Annotated[Any, LastValueAfterFinish(Any)]


def graph(schema=Keys, **options):
    builder = StateGraph(schema, **options)
    builder.add_node("n", lambda state: None)
    builder.add_edge(START, "n")
    return builder.compile().tables


TABLES = graph()


def merged(state: State, *entries: tuple[str, list[tuple[str, Any]]], tables=TABLES) -> State:
    """The state afterwards; checks that merging alone changed neither it nor the writes."""
    before, given_ = copy.deepcopy(state), copy.deepcopy(entries)
    changes = merge(tables, state, list(entries))
    assert (state, entries) == (before, given_)
    apply(state, changes)
    return state


def values(*entries, tables=TABLES, **held):
    return merged(State(values=held), *entries, tables=tables).values


# ── one value a step ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_kinds_of_keys():
    kinds = {name: key.merge for name, key in TABLES.keys.items()}
    assert kinds["x"] == LAST
    assert (kinds["log"], kinds["biggest"], kinds["items"]) == (REDUCE, REDUCE, REDUCE)
    assert (kinds["topic"], kinds["once"], kinds["barrier"]) == (CHANNEL, CHANNEL, CHANNEL)
    assert (TABLES.keys["items"].pure, TABLES.keys["mixed"].pure) == (True, False)


def test_nothing_written_changes_nothing():
    assert values(x=1) == {"x": 1}
    assert values(("a", []), ("b", []), x=1) == {"x": 1}


@pytest.mark.parametrize("value", [None, 0, "", [], {}, {"type": "human"}])
def test_the_last_value_is_what_was_written(value):
    assert values(("a", [("x", value)]), x=1, y=2) == {"x": value, "y": 2}


@pytest.mark.parametrize("mark", [MARK_FOR_REMOVAL, Overwrite(MARK_FOR_REMOVAL), {"type": "__removal__"}])
def test_a_removal_removes(mark):
    assert values(("a", [("x", mark)]), ("b", [("y", 3)]), x=1, y=2) == {"y": 3}
    assert values(("a", [("x", mark)])) == {}


@pytest.mark.parametrize("mark", [Overwrite([1]), {"__overwrite__": [1]}])
def test_an_overwrite_of_a_last_value_is_its_value(mark):
    assert values(("a", [("x", mark)]), x=0) == {"x": [1]}


@pytest.mark.parametrize(
    ("entries", "text", "node"),
    [
        ([("a", [("x", 1)]), ("b", [("x", 1)])], "nodes 'a' and 'b' wrote it", "b"),
        (
            [("a", [("x", 1)]), ("b", []), ("c", [("x", 1)]), ("d", [("x", 1)])],
            "nodes 'a', 'c' and 'd' wrote it",
            "d",
        ),
        ([("a", [("x", 1), ("x", 2)])], "node 'a' wrote it 2 times", "a"),
        ([("a", [("x", Overwrite(1))]), ("b", [("x", MARK_FOR_REMOVAL)])], "nodes 'a' and 'b' wrote it", "b"),
    ],
)
def test_two_writes_of_a_last_value_conflict(entries, text, node):
    with pytest.raises(InvalidUpdateError) as caught:
        merge(TABLES, State(values={"x": 0}), entries)
    assert "key 'x' can receive only one value per step" in str(caught.value)
    assert text in str(caught.value)
    assert (caught.value.node, caught.value.key) == (node, "x")
    assert "INVALID_CONCURRENT_GRAPH_UPDATE" in notes(caught.value)


def test_the_input_is_called_so_in_a_conflict():
    with pytest.raises(InvalidUpdateError, match="the input wrote it 2 times"):
        merge(TABLES, State(), [(START, [("x", 1), ("x", 2)])])


# ── reducers ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_writes_are_folded_in_the_order_given():
    entries = ("b", [("log", ["b"])]), ("a", [("log", ["a1"]), ("log", ["a2"])])
    assert values(*entries, log=["old"])["log"] == ["old", "b", "a1", "a2"]


def test_the_first_write_of_a_key_without_a_value():
    assert values(("a", [("biggest", 3)]))["biggest"] == 3
    assert values(("a", [("biggest", 3)]), ("b", [("biggest", 2)]))["biggest"] == 3
    assert values(("a", [("picky", [1])]))["picky"] == [1]


def test_an_overwrite_replaces_what_came_earlier():
    entries = ("a", [("log", ["a"])]), ("b", [("log", Overwrite(["b"]))]), ("c", [("log", ["c"])])
    assert values(*entries, log=["old"])["log"] == ["b", "c"]
    assert values(("a", [("log", Overwrite(["b"]))]), log=["old"])["log"] == ["b"]
    assert values(("a", [("log", {"__overwrite__": ["b"]})]), log=["old"])["log"] == ["b"]


def test_a_removal_of_a_reduced_key():
    assert values(("a", [("log", MARK_FOR_REMOVAL)]), log=["old"]) == {}
    assert values(("a", [("log", MARK_FOR_REMOVAL)]), ("b", [("log", ["b"])]), log=["old"]) == {"log": ["b"]}


def test_a_dict_that_means_nothing_special_is_given_to_the_reducer():
    schema = typed({"d": Annotated[dict, operator.or_]}, total=True)
    assert values(("a", [("d", {"b": 2})]), tables=graph(schema), d={"a": 1})["d"] == {"a": 1, "b": 2}


def test_a_reducer_that_isnt_known_to_be_pure_is_given_copies():
    assert values(("a", [("mixed", [2])]), mixed=[1])["mixed"] == [1, 2]
    assert values(("a", [("mixed", [2])]), ("b", [("mixed", [3])]), mixed=[1])["mixed"] == [1, 2, 3]
    assert values(("a", [("mixed", [[2]])]), ("b", [("mixed", Overwrite([3]))]), mixed=[1])["mixed"] == [3]


@pytest.mark.parametrize("writes", [1, 2])
def test_a_reducer_cant_put_a_stream_into_the_state(writes):
    schema = typed({"s": Annotated[Any, lambda old, new: iter([old, new])]}, total=True)
    with pytest.raises(InvalidUpdateError) as caught:
        merge(graph(schema), State(values={"s": 1}), [("a", [("s", 2)] * writes)])
    assert (caught.value.node, caught.value.key) == ("a", "s")
    assert "node 'a' wrote to key 's'" in notes(caught.value)


@pytest.mark.parametrize(
    ("entries", "node", "before"),
    [
        ([("a", [("picky", ["bad"])])], "a", ""),
        ([("a", [("picky", [1])]), ("b", [("picky", ["bad"])])], "b", " after what 'a' wrote"),
        ([("a", [("picky", ["bad"])]), ("b", [("picky", [1])])], "a", ""),
        (
            [("a", [("picky", [1])]), ("b", [("picky", [2])]), ("c", [("picky", ["bad"])])],
            "c",
            " after what 'b', 'a' wrote",
        ),
        (
            [("a", [("picky", [1])]), ("b", [("picky", ["bad"])]), ("c", [("picky", [3])])],
            "b",
            " after what 'a' wrote",
        ),
    ],
)
def test_a_reducer_that_raises_is_named_with_the_node_whose_write_it_was(entries, node, before):
    state = State(values={"picky": [0], "x": 1})
    with pytest.raises(ValueError, match="can't take") as caught:
        merge(TABLES, state, [("z", [("x", 2)]), *entries])
    assert f"node {node!r} wrote to key 'picky'{before}; nothing of this step was applied" in notes(
        caught.value
    )
    assert state == State(values={"picky": [0], "x": 1})


def test_our_own_error_gets_its_place_but_keeps_the_one_it_has():
    def placed(old, new):
        raise InvalidUpdateError("no", node="theirs", key="theirs")

    schema = typed({"p": Annotated[list, placed], "q": Annotated[list, Append()]}, total=True)
    for name, value, place in (("p", [1], ("theirs", "theirs")), ("q", {1}, ("a", "q"))):
        for count in (1, 2):
            with pytest.raises(InvalidUpdateError) as caught:
                merge(graph(schema), State(values={"p": [], "q": []}), [("a", [(name, value)] * count)])
            assert (caught.value.node, caught.value.key) == place


def test_what_isnt_an_exception_is_raised_too():
    def stop(old, new):
        raise KeyboardInterrupt

    schema = typed({"p": Annotated[list, stop]}, total=True)
    for count in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt) as caught:
            merge(graph(schema), State(values={"p": []}), [("a", [("p", [1])])] * count)
        assert "node 'a'" in notes(caught.value)


# ── validation of merged values ──────────────────────────────────────────────────────────────────────────────


class Checked(TypedDict):
    numbers: Annotated[list[int], operator.add]
    x: int


CHECKED = graph(Checked, validate=True)


@pytest.mark.parametrize(
    "entries", [[("a", [("numbers", ["2"])])], [("a", [("numbers", [2])]), ("b", [("numbers", ["3"])])]]
)
def test_what_a_merged_value_is_coerced_to_is_stored(entries):
    assert values(*entries, tables=CHECKED, numbers=[1])["numbers"] == list(range(1, 2 + len(entries)))


@pytest.mark.parametrize(
    ("entries", "text", "node"),
    [
        ([("a", [("numbers", ["two"])])], "node 'a'", "a"),
        ([("a", [("numbers", [2])]), ("b", [("numbers", ["two"])])], "node 'a', node 'b'", "b"),
        ([(START, [("numbers", ["two"])])], "the input", START),
    ],
)
def test_a_merged_value_that_the_schema_refuses(entries, text, node):
    with pytest.raises(InvalidUpdateError, match="its schema refuses") as caught:
        merge(CHECKED, State(values={"numbers": [1]}), entries)
    assert f"by {text}:" in str(caught.value)
    assert (caught.value.node, caught.value.key) == (node, "numbers")


@pytest.mark.parametrize("name", ["numbers", "x"])
def test_a_required_key_cant_be_removed(name):
    with pytest.raises(InvalidUpdateError, match="a required key") as caught:
        merge(CHECKED, State(values={"numbers": [1], "x": 1}), [("a", [(name, MARK_FOR_REMOVAL)])])
    assert (caught.value.node, caught.value.key) == ("a", name)
    assert "node 'a'" in str(caught.value)


def test_a_required_key_may_be_removed_and_written_in_one_step():
    entries = ("a", [("numbers", MARK_FOR_REMOVAL)]), ("b", [("numbers", [5])])
    assert values(*entries, tables=CHECKED, numbers=[1])["numbers"] == [5]


# ── other channels ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_channel_that_shows_something_else_than_it_stores():
    state = merged(State(), ("a", [("barrier", "p")]))
    assert (state.values, state.cells) == ({}, {"barrier": ("p",)})
    state = merged(state, ("a", [("barrier", "q")]))
    assert (state.values, state.cells) == ({"barrier": None}, {"barrier": ("p", "q")})
    state = merged(state, ("a", [("barrier", MARK_FOR_REMOVAL)]))
    assert (state.values, state.cells) == ({}, {})


def test_volatile_keys_are_emptied_by_a_step_without_a_write():
    state = merged(State(), ("a", [("once", 1), ("topic", "t")]))
    assert state.values == {"once": 1, "topic": ["t"]}
    state = merged(state, ("a", [("topic", "u"), ("x", 1)]))
    assert state.values == {"topic": ["u"], "x": 1}
    assert merged(state, ("a", [])).values == {"x": 1}


def test_volatile_keys_without_a_value_stay_so():
    assert merge(TABLES, State(), [("a", [])]).values == {}
    assert merge(TABLES, State(), [("a", [("log", ["a"])])]).values == {"log": ["a"]}


def test_a_channel_that_refuses_is_named():
    with pytest.raises(InvalidUpdateError, match="EphemeralValue") as caught:
        merge(TABLES, State(), [("a", [("once", 1)]), ("b", [("once", 2)])])
    assert (caught.value.node, caught.value.key) == ("b", "once")


def test_what_waits_for_the_end_is_shown_in_the_end():
    state = merged(State(), ("a", [("late", 1)]), ("b", [("x", 2)]))
    assert state.values == {"x": 2}
    finish(TABLES, state)
    assert state.values == {"x": 2, "late": 1}
    after = copy.deepcopy(state)
    finish(TABLES, state)
    assert state == after


def test_nothing_to_finish_changes_nothing():
    state = State(values={"x": 1})
    finish(TABLES, state)
    assert state == State(values={"x": 1})


# ── open states ──────────────────────────────────────────────────────────────────────────────────────────────


def test_keys_that_no_schema_names():
    tables = graph(None)
    assert values(("a", [("whatever", [1])]), tables=tables, other=2) == {"whatever": [1], "other": 2}
    with pytest.raises(InvalidUpdateError, match="key 'k' can receive only one"):
        merge(tables, State(), [("a", [("k", 1)]), ("b", [("k", 1)])])
    assert values(("a", [("k", MARK_FOR_REMOVAL)]), tables=tables, k=1) == {}


def test_keys_that_no_schema_names_with_a_strategy():
    tables = graph(None, default_strategy=Append())
    assert values(("a", [("k", 1)]), ("b", [("k", [2, 3])]), tables=tables) == {"k": [1, 2, 3]}


def test_a_write_to_a_key_that_nothing_declares_is_kept_for_what_it_is():
    assert values(("a", [("undeclared", 1)])) == {"undeclared": 1}


# ── a router's view ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_view_is_the_state_with_one_nodes_writes():
    state = State(values={"x": 1, "y": 2, "log": ["old"]})
    before = copy.deepcopy(state)
    seen, changes = view(TABLES, state, "a", [("x", MARK_FOR_REMOVAL), ("log", ["a"])])
    assert seen == {"y": 2, "log": ["old", "a"]}
    assert state == before
    apply(state, changes)
    assert state.values == seen


def test_a_view_without_removals():
    seen, changes = view(TABLES, State(values={"x": 1}), "a", [("y", 2)])
    assert (seen, changes.values, changes.removes) == ({"x": 1, "y": 2}, {"y": 2}, False)


def test_a_new_change_changes_nothing():
    state = State(values={"x": 1}, cells={"c": 2})
    apply(state, Changes())
    assert state == State(values={"x": 1}, cells={"c": 2})


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────────

numbers = st.integers(0, 3)
writes = st.one_of(
    st.tuples(st.sampled_from(["log", "items", "mixed"]), st.lists(numbers, max_size=2)),
    st.tuples(st.sampled_from(["log", "items"]), st.builds(Overwrite, st.lists(numbers, max_size=2))),
    st.tuples(st.just("biggest"), numbers),
    st.tuples(st.just("log"), st.just(MARK_FOR_REMOVAL)),
)
entries = st.lists(st.tuples(st.sampled_from("abc"), st.lists(writes, max_size=3)), max_size=4)


@given(entries=entries, old=st.lists(numbers, max_size=2))
def test_it_only_matters_in_which_order_the_writes_stand(entries, old):
    """Cut differently into nodes, the same writes give the same state, or are refused alike."""

    def attempt(cut):
        state = State(values={"log": list(old), "items": list(old), "mixed": list(old)})
        try:
            apply(state, merge(TABLES, state, cut))
        except InvalidUpdateError as error:
            return error.key, str(error)
        return state.values

    together = [("a", [write for _, writes in entries for write in writes])]
    assert attempt(entries) == attempt(together)


@given(entries=entries)
def test_merging_touches_nothing(entries):
    state = State(values={"log": [0], "items": [0], "mixed": [0], "biggest": 1})
    before, given_ = copy.deepcopy(state), copy.deepcopy(entries)
    try:
        changes = merge(TABLES, state, entries)
    except InvalidUpdateError:
        changes = None
    assert (state, entries) == (before, given_)
    if changes is not None:
        assert all(value is not MISSING for value in changes.values.values()) or changes.removes


# ── a reducer that says that the key goes ────────────────────────────────────────────────────────────────────


def _gone(old, new):
    return MARK_FOR_REMOVAL if new == "gone" else new


class Kept(TypedDict, total=False):
    a: Annotated[str, _gone]


@dataclasses.dataclass
class Needed:
    a: Annotated[str, _gone]


@pytest.mark.parametrize("writes", [["gone"], ["there", "gone"]], ids=["one write", "several"])
def test_a_reducer_may_say_that_the_key_goes(writes):
    graph = StateGraph(Kept).add_node("a", lambda state: None).add_edge(START, "a").compile().tables
    state = State(values={"a": "old"})
    apply(state, merge(graph, state, [("a", [("a", write)]) for write in writes]))
    assert state.values == {}


@pytest.mark.parametrize("writes", [["gone"], ["there", "gone"]], ids=["one write", "several"])
def test_a_required_key_cannot_go_that_way_either(writes):
    graph = (
        StateGraph(Needed, validate=True)
        .add_node("a", lambda state: None)
        .add_edge(START, "a")
        .compile()
        .tables
    )
    state = State(values={"a": "old"})
    with pytest.raises(InvalidUpdateError, match="removes key 'a'"):
        merge(graph, state, [("a", [("a", write)]) for write in writes])
    assert state.values == {"a": "old"}
