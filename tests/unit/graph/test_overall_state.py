"""The state as one object: what it shows, that it can't be changed, and what an update makes of it."""

import copy
import gc
import operator
import pickle
import re
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import pytest

from juncture import (
    MARK_FOR_REMOVAL,
    Append,
    GraphBuildError,
    InvalidUpdateError,
    Merge,
    OverAllState,
    Overwrite,
    Remove,
    Replace,
    ReplaceAll,
    add_messages,
)
from juncture.channels import BinaryOperatorAggregate, LastValue, LastValueAfterFinish, Topic
from juncture.engine.values import admitted, copied
from juncture.graph.overall_state import Rules, StateView
from tests.house._source import ROOT


class Typed(TypedDict):
    n: int


@dataclass
class Leaf:
    items: list[int]


OPEN = Rules({"log": BinaryOperatorAggregate(list, Append())}, LastValue(Any))
CLOSED = Rules({"log": BinaryOperatorAggregate(list, operator.add), "n": LastValue(int)}, None)


def view(values: Mapping[str, Any], rules: Rules = OPEN, *, shared: bool = False) -> StateView:
    """What a node would be handed of these values."""
    return StateView(dict(values), rules, shared=shared)


@pytest.fixture(params=["made", "handed out", "shared"])
def make(request):
    """Makes a state of some values, in each way that there is."""
    if request.param == "made":
        return OverAllState
    return lambda values: view(values, shared=request.param == "shared")


# ── a mapping ────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_a_mapping(make):
    values = {"b": [1], "a": None, "c": {"k": (1, [2])}}
    state = make(values)
    assert isinstance(state, Mapping)
    assert isinstance(state, OverAllState)
    assert (list(state), len(state), "a" in state, "z" in state) == (["b", "a", "c"], 3, True, False)
    assert (dict(state), {**state}, dict(state.items()), list(state.values())) == (
        values,
        values,
        values,
        list(values.values()),
    )
    assert (state["b"], state.get("a", 1), state.get("z", 1)) == ([1], None, 1)
    assert (state.contains("a"), state.contains("z"), state.contains("b")) == (True, False, True)
    with pytest.raises(KeyError):
        state["z"]


def test_it_matches_as_mappings_do(make):
    match make({"kind": "a", "n": 1}):
        case {"kind": "b"}:
            found = "b"
        case {"kind": "a", "n": n}:
            found = n
        case _:
            found = "nothing"
    assert found == 1


def test_nothing_can_be_assigned(make):
    state = make({"a": 1})
    with pytest.raises(TypeError):
        state["a"] = 2
    with pytest.raises(TypeError):
        del state["a"]
    with pytest.raises(TypeError):
        state.data["a"] = 2
    with pytest.raises(TypeError):
        state |= {"a": 2}
    with pytest.raises(AttributeError):
        state.a = 2
    for name in ("clear", "reset", "cover", "input", "pop", "setdefault", "update_state"):
        assert not hasattr(state, name), name
    assert state == {"a": 1}


def test_it_equals_every_mapping_with_the_same_values(make):
    state = make({"a": [1], "b": 2})
    assert state == make({"b": 2, "a": [1]}) == {"a": [1], "b": 2}
    assert state == OverAllState({"a": [1], "b": 2}, key_strategies={"a": Append()}, store=object())
    assert OrderedDict(a=[1], b=2) == state
    assert state != {"a": [1]}
    assert state != make({"a": [1], "b": 3})
    assert state != [("a", [1]), ("b", 2)]
    with pytest.raises(TypeError, match="unhashable"):
        hash(state)


def test_no_constructor_registers_or_holds_anything_by_itself():
    assert (dict(OverAllState()), dict(OverAllState().key_strategies), OverAllState().store) == ({}, {}, None)
    assert dict(OverAllState({"a": 1}, store=1).key_strategies) == {}


@pytest.mark.parametrize(
    ("values", "text"),
    [({1: 2}, "key 1, a int"), ({"a": iter([1])}, "iterator"), ({"a": [(x for x in "ab")]}, "generator")],
)
def test_what_no_state_holds_is_refused(values, text):
    with pytest.raises(InvalidUpdateError, match=text) as caught:
        OverAllState(values)
    if "a" in values:
        assert (caught.value.key, "'a'" in "".join(caught.value.__notes__)) == ("a", True)


@pytest.mark.parametrize("values", [[("a", 1)], "a", 0])
def test_its_values_come_in_a_mapping(values):
    with pytest.raises(TypeError, match="takes the values as a mapping"):
        OverAllState(values)


# ── isolation ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_state_that_is_made_holds_copies():
    values = {"a": [{"b": {1}}]}
    state = OverAllState(values)
    values["a"][0]["b"].add(2)
    values["c"] = 1
    assert state == {"a": [{"b": {1}}]}
    assert OverAllState(state)["a"] is not state["a"]


def test_a_view_hands_out_copies_and_always_the_same_ones():
    committed = {"a": [{"b": {1}}], "c": (1, [2]), "d": deque([[1]])}
    state = view(committed)
    for key, value in committed.items():
        assert state[key] is state[key] is state.data[key] is state.value(key) is dict(state)[key]
        assert (state[key], state[key] is value) == (value, False)
    state["a"][0]["b"].add(2)
    state["c"][1].append(3)
    state["d"][0].clear()
    assert committed == {"a": [{"b": {1}}], "c": (1, [2]), "d": deque([[1]])}
    assert state == {"a": [{"b": {1, 2}}], "c": (1, [2, 3]), "d": deque([[]])}


def test_a_shared_view_hands_out_the_values_themselves():
    committed = {"a": [1]}
    state = view(committed, shared=True)
    assert state["a"] is committed["a"] is state.data["a"]


def test_a_view_copies_what_is_read_when_it_is_read():
    mark = Leaf([])  # in a list, it can be told who holds it

    def lists() -> int:
        return sum(type(holder) is list for holder in gc.get_referrers(mark))

    committed = {"big": [mark], "next": "b"}
    state = view(committed)
    assert (state.value("next"), "big" in state, len(state), list(state), repr(state)) == (
        "b",
        True,
        2,
        ["big", "next"],
        "OverAllState(big: list[1], next: str[1])",
    )
    assert lists() == 1
    assert state["big"] == [mark]
    assert lists() == 2
    assert state.data["big"] is state["big"]
    assert lists() == 2


def test_data_is_in_the_order_of_the_state():
    state = view({"a": 1, "b": [2], "c": 3})
    assert state["c"] == 3
    assert list(state.data) == ["a", "b", "c"]


def test_a_snapshot_never_changes(make):
    state = make({"a": [{"b": 1}], "c": [1]})
    state["a"][0]["b"] = 2
    taken = state.snapshot()
    assert taken == {"a": [{"b": 2}], "c": [1]}
    state["a"][0]["b"] = 3
    state["a"].append(4)
    state["c"].append(2)
    assert taken == {"a": [{"b": 2}], "c": [1]}
    taken["c"].append(9)
    assert state["c"] == [1, 2]


def test_threads_share_a_view_without_a_lock():
    """Whoever reads first, all get one copy."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            state = view({"a": [[i] for i in range(50)]})
            start = threading.Barrier(4)

            def read(state=state, start=start):
                start.wait()
                return state["a"]

            with ThreadPoolExecutor(4) as pool:
                got = [future.result() for future in [pool.submit(read) for _ in range(4)]]
            assert len({id(found) for found in got}) == 1
    finally:
        sys.setswitchinterval(before)


def test_objects_are_shared_as_everywhere(make):
    leaf = Leaf([1])
    assert make({"a": leaf})["a"] is leaf


# ── typed reading ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "tp"),
    [
        (1, int), (True, int), ("x", str), (None, None), (None, type(None)), (None, int | None), (1, Optional[int]),  # noqa: UP045 - older code has it
        (1, Union[str, int]),  # noqa: UP007 - older code has it
        ("x", (int, str)), ([1], list), ([1], list[int]), ({"a": 1}, dict[str, int]),
        ({"n": 1}, Typed), (1, Annotated[int, "unit"]), (1, Any), (object, type), (Leaf([]), Leaf), ([1], list[int] | None),
        ((1,), tuple[int, ...]), ({"a": 1}, Mapping[str, int]),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_of_the_type_is_given(make, value, tp):
    assert make({"k": value}).value("k", tp) == value


@pytest.mark.parametrize(
    ("value", "tp", "told"),
    [
        (1, str, "type int, not str"),
        (None, int, "type NoneType, not int"),
        ("1", int | None, "type str, not int | None"),
        (1.5, (int, str), "type float, not"),
        ([1], tuple[int, ...], "type list, not tuple[int, ...]"),
        ({"n": 1}, Leaf, "type dict, not Leaf"),
    ],
)
def test_a_value_of_another_type_is_refused_and_never_looks_absent(make, value, tp, told):
    state = make({"k": value})
    for options in ({}, {"default": 5}):
        with pytest.raises(TypeError) as caught:
            state.value("k", tp, **options)
        assert "key 'k'" in str(caught.value)
        assert told in str(caught.value)


def test_absent_is_not_none(make):
    state = make({"none": None, "total": 1})
    assert (state.value("none"), state.value("none", default=5)) == (None, None)
    assert state.value("other", default=5) == 5
    assert state.value("other", int, default=None) is None
    assert state.value("other", str, 5) == 5
    for options in ({}, {"type": int}):
        with pytest.raises(KeyError) as caught:
            state.value("totl", **options)
        assert "'totl'" in str(caught.value)
        assert "'total'" in str(caught.value)
        assert "default=" in str(caught.value)


@pytest.mark.parametrize("tp", [0, "int", [], Literal["a"]], ids=str)
def test_a_default_in_the_place_of_the_type_is_refused(make, tp):
    """Spring's ``value(key, default)`` has it there; so the first use tells, also where the key is absent."""
    for key in ("k", "other"):
        with pytest.raises(TypeError, match=r"a type as its second argument.*default="):
            make({"k": 1}).value(key, tp)


# ── as a value ───────────────────────────────────────────────────────────────────────────────────────────────


def test_its_repr_tells_keys_types_and_sizes_and_no_values():
    state = OverAllState(
        {
            "messages": ["secret"] * 3,
            "name": "secret",
            "n": 1,
            "leaf": Leaf([1]),
            "d": {"a": 1},
            "mark": Overwrite(1),
            "x" * 50: 1,
        }
    )
    assert repr(state) == (
        f"OverAllState(messages: list[3], name: str[6], n: int, leaf: Leaf, d: dict[1], mark: Overwrite, {'x' * 39}…: int)"
    )
    assert repr(view({"a": "secret"})) == "OverAllState(a: str[6])"
    assert repr(OverAllState()) == "OverAllState()"
    assert repr(OverAllState({"a\nb\x1b[31m": 1})) == r"OverAllState(a\nb\x1b[31m: int)"
    many = repr(OverAllState({f"k{i}": i for i in range(1000)}))
    assert many.endswith("k19: int, … 980 more)")


@pytest.mark.parametrize("way", ["pickle", "copy", "deepcopy"])
def test_copies_and_pickles_are_states_of_their_own(make, way):
    state = make({"log": [{"a": 1}], "n": 2})
    state["log"][0]["a"] = 3
    twin = {"pickle": lambda s: pickle.loads(pickle.dumps(s)), "copy": copy.copy, "deepcopy": copy.deepcopy}[
        way
    ](state)
    assert type(twin) is OverAllState
    assert twin == state == {"log": [{"a": 3}], "n": 2}
    assert twin.key_strategies == state.key_strategies
    twin["log"][0]["a"] = 4
    assert state["log"][0]["a"] == 3
    assert twin.register("n", max) is twin
    assert "n" not in state.key_strategies


def test_a_pickle_keeps_how_updates_are_merged():
    for rules, written in ((OPEN, {"log": [1, 2], "new": 3}), (CLOSED, {"log": [1, 2]})):
        twin = pickle.loads(pickle.dumps(view({"log": [1]}, rules)))
        update = {"log": [2], **({"new": 3} if "new" in written else {})}
        assert OverAllState.update(twin, update) == written
    with pytest.raises(InvalidUpdateError, match="'new'"):
        OverAllState.update(twin, {"new": 3})
    default = Rules({}, BinaryOperatorAggregate(Any, Append()))
    assert OverAllState.update(pickle.loads(pickle.dumps(view({"a": 1}, default))), {"a": 2}) == {"a": [1, 2]}


def test_a_deep_copy_copies_leaves_and_keeps_the_store():
    store = object()
    state = OverAllState({"a": Leaf([1])}, store=store)
    assert copy.copy(state)["a"] is state["a"]
    assert copy.deepcopy(state)["a"] is not state["a"]
    assert copy.deepcopy(state) == state
    assert copy.copy(state).store is copy.deepcopy(state).store is state.snapshot().store is store


def test_inside_what_a_node_writes_it_becomes_a_plain_dict(make):
    state = make({"a": [1]})
    for across in (admitted, copied):
        became = across({"k": [state], "s": state})
        assert became == {"k": [{"a": [1]}], "s": {"a": [1]}}
        assert type(became["s"]) is type(became["k"][0]) is dict
        assert became["s"]["a"] is not state["a"]


# ── strategies ───────────────────────────────────────────────────────────────────────────────────────────────


def test_strategies_are_registered_with_ones_own_state():
    state = OverAllState(key_strategies={"a": Append()})
    assert state.register("b", max).register("c", Merge) is state
    assert state.key_strategies == {"a": Append(), "b": max, "c": Merge()}
    with pytest.raises(TypeError):
        state.key_strategies["d"] = max
    taken = state.snapshot()
    state.register("a", operator.add)
    assert (taken.key_strategies["a"], state.key_strategies["a"]) == (Append(), operator.add)
    assert "b" in state.key_strategies
    assert "z" not in state.key_strategies


def test_a_view_shows_its_graphs_strategies_and_takes_no_others():
    state = view({"log": [1]}, CLOSED)
    assert state.key_strategies == {"log": operator.add, "n": Replace()}
    with pytest.raises(TypeError) as caught:
        state.register("log", Append())
    assert "'log'" in str(caught.value)
    assert "key_strategies=" in str(caught.value)
    assert state.key_strategies["log"] is operator.add
    assert state.snapshot().register("log", Append()).key_strategies["log"] == Append()
    assert CLOSED.channels["log"].operator is operator.add


@pytest.mark.parametrize("strategy", [3, lambda: Append(), lambda old: old, None])
def test_what_isnt_a_strategy_is_refused(strategy):
    for give in (
        lambda: OverAllState().register("a", strategy),
        lambda: OverAllState(key_strategies={"a": strategy}),
        lambda: OverAllState.update({}, {}, {"a": strategy}),
    ):
        with pytest.raises(GraphBuildError) as caught:
            give()
        assert (caught.value.key, "'a'" in "".join(caught.value.__notes__)) == ("a", True)


@pytest.mark.parametrize(
    "given", [{1: Append()}, [("a", Append())], lambda: {"a": Append()}], ids=["int", "pairs", "factory"]
)
def test_strategies_come_in_a_mapping_from_strings(given):
    with pytest.raises(GraphBuildError, match="key_strategies"):
        OverAllState(key_strategies=given)


def test_a_state_has_the_mark():
    assert OverAllState.MARK_FOR_REMOVAL is MARK_FOR_REMOVAL


def test_the_page_on_state_names_what_there_is():
    """And leaves nothing out."""
    page = (ROOT / "docs" / "explanation" / "state.md").read_text(encoding="utf-8")
    table = page.split("Beyond that:")[1].split("\n- ")[0]
    named = set(re.findall(r"^\| `(?:OverAllState\.)?(\w+)", table, re.MULTILINE))
    assert named == {name for name in vars(OverAllState) if not name.startswith("_")} - {"MARK_FOR_REMOVAL"}


# ── updates ──────────────────────────────────────────────────────────────────────────────────────────────────


def updated(old: Any, *writes: Any, strategy: Any = Append) -> Any:
    """What one key holds after updates one after another."""
    state: Mapping[str, Any] = {} if old is MARK_FOR_REMOVAL else {"k": old}
    for write in writes:
        state = OverAllState.update(state, {"k": write}, {"k": strategy})
    return state["k"]


def test_c14_append():
    assert updated(MARK_FOR_REMOVAL, "m1", ["m2"], "m3") == ["m1", "m2", "m3"]


def test_c15_c16_remove():
    assert updated(MARK_FOR_REMOVAL, "m1", ["m2"], Remove("m2")) == ["m1"]
    assert updated(MARK_FOR_REMOVAL, "m1", ["m2"], ["m3", Remove("m2")], ["m4"]) == ["m1", "m3", "m4"]


def test_c17_nothing_given_is_changed():
    state = OverAllState({"q": ["q"], "deep": [[1]]}, key_strategies={"q": Append()})
    partial = {"q": ["a", ["b"]], "deep": [[2]]}
    new = OverAllState.update(state, partial)
    assert (state, partial) == ({"q": ["q"], "deep": [[1]]}, {"q": ["a", ["b"]], "deep": [[2]]})
    assert new == {"q": ["q", "a", ["b"]], "deep": [[2]]}
    new["q"][2].append("c")
    new["deep"][0].append(3)
    OverAllState.update(state, {"n": 1})["deep"][0].append(3)
    assert state == {"q": ["q"], "deep": [[1]]}
    assert partial == {"q": ["a", ["b"]], "deep": [[2]]}


def test_c17_also_not_by_a_strategy_that_changes_what_it_gets():
    def swap(old, new):
        old.append(new.pop())
        return old

    state, partial = OverAllState({"q": [1]}, key_strategies={"q": swap}), {"q": [2, 3]}
    assert OverAllState.update(state, partial) == {"q": [1, 3]}
    assert (state, partial) == ({"q": [1]}, {"q": [2, 3]})


def test_c18_the_default_is_to_replace():
    assert OverAllState.update({"k1": "o1", "k2": "o2"}, {"k1": "n1", "k3": "n3"}) == {
        "k1": "n1",
        "k2": "o2",
        "k3": "n3",
    }
    assert OverAllState.update({"a": 1}, {}) == {"a": 1}


def test_c19_append_to_what_is_no_list():
    assert updated("original", "x") == ["original", "x"]


def test_c20_a_strategy_of_ones_own():
    assert updated("meta", "new meta", strategy=lambda old, new: f"{new}-merged") == "new meta-merged"


def test_c21_merge():
    assert updated({"a": 1}, {"b": 2}, strategy=Merge) == {"a": 1, "b": 2}
    assert updated(1, None, strategy=Merge) == 1
    with pytest.raises(InvalidUpdateError, match="incompatible types"):
        updated({"a": 1}, [1], strategy=Merge)


@pytest.mark.parametrize(
    "mark",
    [MARK_FOR_REMOVAL, OverAllState.MARK_FOR_REMOVAL, copy.deepcopy(MARK_FOR_REMOVAL), pickle.loads(pickle.dumps(MARK_FOR_REMOVAL)),
     {"type": "__removal__"}],
    ids=["itself", "of the class", "copied", "pickled", "json"],
)  # fmt: skip
@pytest.mark.parametrize(
    "strategy", [Replace, Append, max, add_messages], ids=["Replace", "Append", "max", "add_messages"]
)
def test_c22_the_mark_removes_also_after_a_journey(mark, strategy):
    new = OverAllState.update({"k": [], "n": 1}, {"k": mark}, {"k": strategy})
    assert (new, "k" in new) == ({"n": 1}, False)
    assert OverAllState.update({"n": 1}, {"k": mark}, {"k": strategy}) == {"n": 1}


def test_a_strategy_may_remove_the_key():
    strategies = {"left": lambda old, new: old - new or MARK_FOR_REMOVAL}
    assert OverAllState.update({"left": 3}, {"left": 1}, strategies) == {"left": 2}
    assert OverAllState.update({"left": 3}, {"left": 3}, strategies) == {}


def test_c23_replace_all():
    assert updated([1, 2], ReplaceAll([9]), 3) == [9, 3]


@pytest.mark.parametrize(
    ("write", "result"), [(Overwrite([7]), [7]), ({"__overwrite__": [7]}, [7])], ids=["object", "json"]
)
def test_an_overwrite_goes_past_the_strategy(write, result):
    assert updated([1], write) == result


def test_none_is_a_value():
    new = OverAllState.update({"a": 1}, {"a": None, "b": None, "c": 0}, {"c": lambda old, new: None})
    assert new == {"a": None, "b": None, "c": 0}  # the first write of a key is stored as it is
    assert OverAllState.update(new, {"c": 1}, {"c": lambda old, new: None}) == {
        "a": None,
        "b": None,
        "c": None,
    }


def test_c26_an_update_is_applied_whole_or_not_at_all():
    def broken(old, new):
        old.append("harm")
        raise ZeroDivisionError("no")

    state = OverAllState({"a": [0], "b": [1], "c": 2}, key_strategies={"a": Append(), "b": broken})
    with pytest.raises(ZeroDivisionError) as caught:
        OverAllState.update(state, {"a": 1, "b": 2, "c": 3})
    assert any("'b'" in text and "nothing was applied" in text for text in caught.value.__notes__)
    assert state == {"a": [0], "b": [1], "c": 2}
    with pytest.raises(InvalidUpdateError) as refused:
        OverAllState.update(state, {"c": 3, "a": {1, 2}})
    assert refused.value.key == "a"
    assert state == {"a": [0], "b": [1], "c": 2}


def test_strategies_that_are_given_stand_in_for_the_states_own():
    state = OverAllState({"a": [1], "b": [1]}, key_strategies={"a": Append(), "b": Append()})
    new = OverAllState.update(state, {"a": 2, "b": [2]}, {"b": operator.add})
    assert new == {"a": 2, "b": [1, 2]}
    assert new.key_strategies == {"b": operator.add}
    assert OverAllState.update(state, {"a": 2}).key_strategies == {"a": Append(), "b": Append()}


def test_an_update_of_a_view_is_an_experiment():
    committed = {"log": [1]}
    state = view(committed)
    new = OverAllState.update(state, {"log": 2, "n": 1})
    assert (new, state, committed) == ({"log": [1, 2], "n": 1}, {"log": [1]}, {"log": [1]})
    assert type(new) is OverAllState


def test_a_key_that_the_schema_doesnt_have_is_refused():
    with pytest.raises(
        InvalidUpdateError, match=r"'lg', which the state doesn't have. Did you mean 'log'\?"
    ) as caught:
        OverAllState.update(view({"log": [1]}, CLOSED), {"lg": [2]})
    assert caught.value.key == "lg"


@pytest.mark.parametrize(
    ("state", "partial", "error"),
    [({}, {1: 2}, InvalidUpdateError), ({}, {"a": iter(())}, InvalidUpdateError), (None, {}, TypeError), ({}, None, TypeError),
     ({}, [("a", 1)], TypeError)],
    ids=["key", "stream", "no state", "no update", "pairs"],
)  # fmt: skip
def test_what_is_no_update_is_refused(state, partial, error):
    with pytest.raises(error):
        OverAllState.update(state, partial)


def test_channels_are_strategies_where_they_show_what_they_store():
    assert updated(["a"], "b", strategy=Topic(str, accumulate=True)) == ["a", "b"]
    with pytest.raises(InvalidUpdateError, match="LastValueAfterFinish") as caught:
        updated(1, 2, strategy=LastValueAfterFinish(int))
    assert caught.value.key == "k"
