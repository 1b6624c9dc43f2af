"""Updates are applied exactly, key by key: nothing dropped, nothing twice, nothing added (right-behaviour 3, 5 to 8)."""

import functools
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    END,
    MARK_FOR_REMOVAL,
    START,
    Append,
    Command,
    GraphBuildError,
    InvalidUpdateError,
    IsLastStep,
    Merge,
    Overwrite,
    RemainingSteps,
    Remove,
    ReplaceAll,
    RetryPolicy,
    Send,
    StateGraph,
    interrupt,
)
from tests.behaviour.building import builder, chain, fan, nothing, place, seen_by, shown, wrote
from tests.faulty import faulty


class State(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list[Any], operator.add]


# ── rule 3: undeclared keys ──────────────────────────────────────────────────────────────────────────────────


LOOSE = {"x": 1, "lag": [1]}


def pieces_of_loose(state):
    yield {"x": 1}
    yield {"lag": 1}


WRITERS = {
    "return": lambda s: LOOSE,
    "command": lambda s: Command(update=LOOSE),
    "pairs": lambda s: Command(update=list(LOOSE.items())),
    "list": lambda s: [Command(update={"x": 1}), {"lag": 1}],
    "generator": pieces_of_loose,
    "removal": wrote("lag", MARK_FOR_REMOVAL),
    "parent": builder(
        State, {"c": lambda s: Command(graph=Command.PARENT, update=LOOSE)}, (START, "c")
    ).compile(),
}
"""How a node may write 'lag', which the state doesn't have."""


def loose_writer(how: str) -> Any:
    """A graph in which 'odd' writes the undeclared key 'lag', in one way or another."""
    graph = StateGraph(State).add_node("odd", WRITERS.get(how, lambda s: LOOSE if how != "router" else None))
    if how == "sent":
        graph.add_conditional_edges(START, lambda s: Send("odd", {}))
    else:
        graph.add_edge(START, "odd")
    if how == "router":
        graph.add_conditional_edges("odd", lambda s: Command(update=LOOSE, goto=END))
    if how == "parallel":
        graph.add_node("fine", wrote("y", 1)).add_edge(START, "fine")
    return graph.compile()


@faulty("unknown-key")
@pytest.mark.parametrize("how", [*WRITERS, "sent", "router", "parallel"])
def test_an_undeclared_key_is_refused(engine, how):
    """Rule 3: with node, key and the nearest declared name; nothing of the step is applied."""
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(loose_writer(how), {"x": 0})
    assert place(caught.value) == ("odd", "lag")
    assert "Did you mean 'log'" in str(caught.value)
    assert caught.value.result == {"x": 0, "log": []}


def test_an_undeclared_input_key_is_refused(engine, saver):
    """Rule 3, case C25: before anything runs, and again on a thread that exists."""
    ran = []
    graph = chain(State, a=lambda s: ran.append(1), saver=saver)
    for _ in range(2):
        with pytest.raises(InvalidUpdateError, match="'lag'") as caught:
            engine.invoke(graph, {"x": 1, "lag": 2}, thread_id="t")
        assert caught.value.key == "lag"
        assert not ran or ran.pop()
        engine.invoke(graph, {"x": 1}, thread_id="t")


def test_a_key_that_the_input_schema_lacks_is_refused(engine):
    """Rule 3: the input schema says what an input may hold, though the state has the key."""

    class Given(TypedDict):
        x: Any

    graph = StateGraph(State, input_schema=Given).add_node("a", nothing).add_edge(START, "a").compile()
    assert engine.invoke(graph, {"x": 1}) == {"x": 1, "log": []}
    with pytest.raises(InvalidUpdateError, match="'y'"):
        engine.invoke(graph, {"x": 1, "y": 2})


def test_private_keys_are_declared_by_the_node_that_reads_them(engine):
    """graph-api 4: a node's own input schema declares keys, which others may write and the result doesn't show."""

    class Private(TypedDict):
        hidden: int

    seen = []
    graph = builder(State, {"a": wrote("hidden", 7)}, (START, "a"), ("a", "b"))
    graph.add_node("b", lambda s: seen.append(dict(s)), input_schema=Private)
    assert engine.invoke(graph.compile(), {"x": 1}) == {"x": 1, "log": []}
    assert seen == [{"hidden": 7}]


def test_lenient_graphs_drop_undeclared_keys(engine):
    """Rule 3, L: LangGraph drops them, in updates, commands and inputs; the rest is applied."""
    graph = chain(State, a=lambda s: {"x": 1, "lag": 2}, b=nothing, options={"strict": False})
    assert engine.invoke(graph, {"y": 0, "lagged": 1}) == {"x": 1, "y": 0, "log": []}
    graph = builder(State, {"a": lambda s: Command(update={"x": 1, "lag": 2})}, (START, "a"), strict=False)
    assert engine.invoke(graph.compile(), {"y": 0}) == {"x": 1, "y": 0, "log": []}


def test_open_graphs_take_any_key(engine):
    """Rule 3: no schema, no undeclared keys; the input's keys are all there (case C13)."""
    graph = chain(None, a=wrote("prop1", "test"))
    assert engine.invoke(graph, {"input": "test1"}) == {"input": "test1", "prop1": "test"}


@pytest.mark.parametrize("name", ["last", "left"])
def test_managed_values_are_only_read(engine, name):
    """graph-api 4, strict: writing one is an error that says so."""

    class Managed(TypedDict):
        x: Any
        last: IsLastStep
        left: RemainingSteps

    class Input(TypedDict):
        x: Any

    graph = StateGraph(Managed, input_schema=Input, output_schema=Input)
    graph.add_node("odd", wrote(name, 1)).add_edge(START, "odd")
    with pytest.raises(InvalidUpdateError, match="managed") as caught:
        engine.invoke(graph.compile(), {"x": 1})
    assert place(caught.value) == ("odd", name)


# ── rule 5: reducers ─────────────────────────────────────────────────────────────────────────────────────────


class Longest:
    """A callable object as a reducer."""

    def __call__(self, old: str, new: str) -> str:
        return max(old, new, key=len)


def limited(old: list[Any], new: list[Any], limit: int = 2) -> list[Any]:
    return (old + new)[-limit:]


@pytest.mark.parametrize(
    ("reducer", "writes", "expected"),
    [
        (max, [3, -5, 7], 7),
        (min, [3, -5, 7], -5),
        (operator.or_, [{"a": 1}, {"b": 2}, {"a": 3}], {"a": 3, "b": 2}),
        (operator.or_, [{1}, {2}], {1, 2}),
        (operator.add, [[1], [2]], [1, 2]),
        (operator.mul, [3, 4], 12),
        (operator.and_, [True, False], False),
        (set.union, [{1}, {2}], {1, 2}),
        (lambda a, b: f"{a}{b}", ["x", "y"], "xy"),
        (lambda a, b, sep=", ": f"{a}{sep}{b}", ["x", "y"], "x, y"),
        (lambda *both: list(both), [1, 2], [1, 2]),
        (functools.partial(limited, limit=1), [[1], [2]], [2]),
        (limited, [[1], [2], [3]], [2, 3]),
        (Longest(), ["aa", "b", "ccc"], "ccc"),
        (Append(), ["m1", ["m2"], "m3"], ["m1", "m2", "m3"]),
        (Append, ["m1", ["m2"]], ["m1", "m2"]),
        (Merge(), [{"a": 1}, {"b": 2}], {"a": 1, "b": 2}),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
@pytest.mark.parametrize("declared", ["annotation", "strategy", "open"])
def test_any_callable_of_two_is_a_reducer(engine, reducer, writes, expected, declared):
    """Rule 5: builtins, lambdas, partials, methods and objects, in every way of declaring them."""
    if declared == "annotation":
        schema, options = TypedDict("schema", {"v": Annotated[Any, reducer]}), {}
    elif declared == "strategy":
        schema, options = TypedDict("schema", {"v": Any}), {"key_strategies": {"v": reducer}}
    else:
        schema, options = None, {"key_strategies": {"v": reducer}}
    nodes = {f"n{i}": wrote("v", value) for i, value in enumerate(writes)}
    assert engine.invoke(chain(schema, options=options, **nodes), {}) == {"v": expected}


@pytest.mark.parametrize(
    "reducer",
    [lambda: 0, lambda a: a, lambda a, b, c: a, lambda a, *, b: a, len],
    ids=["0", "1", "3", "kw", "len"],
)
@pytest.mark.parametrize("declared", ["annotation", "strategy", "default"])
def test_a_reducer_of_another_arity_is_refused_at_build(reducer, declared):
    """Rule 5 and bad input anywhere: named, with what would be right."""
    with pytest.raises(GraphBuildError, match=r"\(a, b\) -> c") as caught:
        if declared == "annotation":

            class Schema(TypedDict):
                v: Annotated[int, reducer]

            StateGraph(Schema).add_node("a", nothing).add_edge(START, "a").compile()
        elif declared == "strategy":
            StateGraph(None, key_strategies={"v": reducer}).add_node("a", nothing).add_edge(
                START, "a"
            ).compile()
        else:
            StateGraph(None, default_strategy=reducer).add_node("a", nothing).add_edge(START, "a").compile()
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert declared == "default" or caught.value.key == "v" or "'v'" in text or ".v" in text


def test_the_first_write_goes_in_as_it_is(engine):
    """Rule 5: no zero is made up: the largest of negative numbers is negative."""
    calls = []

    def noting(old, new):
        calls.append((old, new))
        return new

    class Best(TypedDict, total=False):
        best: Annotated[int, max]
        text: Annotated[bytes, operator.add]
        product: Annotated[int, operator.mul]
        noted: Annotated[int, noting]

    write = {"best": -5, "text": b"x", "product": 7, "noted": 1}
    assert engine.invoke(chain(Best, a=lambda s: write), {}) == write
    assert calls == []


def test_zeros_are_of_list_dict_set_str_and_of_sums(engine):
    """Rule 5: where a zero can't be wrong there is one, and the node sees it."""

    class Zeros(TypedDict):
        items: Annotated[list, operator.add]
        table: Annotated[dict[str, int], operator.or_]
        members: Annotated[set[int], operator.or_]
        text: Annotated[str, operator.add]
        count: Annotated[int, operator.add]
        share: Annotated[float, operator.add]

    seen = []
    engine.invoke(chain(Zeros, a=seen_by(seen)), {"items": [1]})
    assert seen == [{"items": [1], "table": {}, "members": set(), "text": "", "count": 0, "share": 0.0}]


def test_lenient_zeros_are_langgraphs(engine):
    """Rule 5, L: `int()` takes part in the maximum."""

    class Best(TypedDict):
        best: Annotated[int, max]

    graph = chain(Best, a=wrote("best", -5), options={"strict": False})
    assert engine.invoke(graph, {}) == {"best": 0}


def test_a_default_of_the_schema_is_the_first_old_value(engine):
    """Rule 5 speaks of keys without a default: one with a default starts from it."""

    @dataclass
    class Started:
        total: Annotated[int, operator.add] = 100
        log: Annotated[list[str], operator.add] = field(default_factory=lambda: ["start"])

    result = engine.invoke(chain(Started, a=lambda s: {"total": 1, "log": ["a"]}), {})
    assert result.value == Started(total=101, log=["start", "a"])


def test_the_appender_takes_items_and_lists(engine):
    """Cases C14, C15, C16 and C23: append, remove, replace all."""

    class Log(TypedDict, total=False):
        messages: Annotated[list[str], Append()]
        steps: int

    def steps(state):
        return len(state["messages"]) + 1

    graph = chain(
        Log,
        a=wrote("messages", "m1"),
        b=wrote("messages", ["m2"]),
        c=lambda s: {"messages": "m3", "steps": steps(s)},
    )
    assert engine.invoke(graph, {}) == {"messages": ["m1", "m2", "m3"], "steps": 3}
    graph = chain(
        Log,
        a=wrote("messages", "m1"),
        b=wrote("messages", ["m2"]),
        c=lambda s: {"messages": Remove("m2"), "steps": steps(s)},
    )
    assert engine.invoke(graph, {}) == {"messages": ["m1"], "steps": 3}
    graph = chain(
        Log,
        a=wrote("messages", "m1"),
        b=wrote("messages", ["m2"]),
        c=wrote("messages", ["m3", Remove("m2")]),
        d=lambda s: {"messages": ["m4"], "steps": steps(s)},
    )
    assert engine.invoke(graph, {}) == {"messages": ["m1", "m3", "m4"], "steps": 3}
    graph = fan(Log, a=wrote("messages", ReplaceAll([9])), b=wrote("messages", 10))
    assert engine.invoke(graph, {"messages": [1, 2]}) == {"messages": [9, 10]}


# ── rule 6: concurrent writes ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("names", ["ab", "abc", "abcde"])
def test_writers_that_contradict_each_other_are_all_named(engine, names, strict):
    """Rule 6: key and every writer; equal values are a contradiction as well (case C54)."""
    graph = fan(State, **{n: wrote("x", 1) for n in names}, other=wrote("y", 2), options={"strict": strict})
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(graph, {"x": 0})
    assert caught.value.key == "x"
    assert "'x'" in str(caught.value)
    assert [n for n in names if repr(n) not in str(caught.value)] == []
    assert "'other'" not in str(caught.value)
    assert caught.value.result == {"x": 0, "log": []}


def test_sent_tasks_contradict_each_other(engine):
    """Rule 6: two tasks of one node."""
    graph = builder(State, {"worker": lambda n: {"x": n}})
    graph.add_conditional_edges(START, lambda s: [Send("worker", 1), Send("worker", 2)])
    with pytest.raises(InvalidUpdateError, match="'worker'") as caught:
        engine.invoke(graph.compile(), {})
    assert caught.value.key == "x"


def test_one_task_contradicts_itself(engine):
    """Rule 6: two commands of one node that write one key."""
    graph = builder(
        State, {"a": lambda s: [Command(update={"x": 1}), Command(update={"x": 2})]}, (START, "a")
    )
    with pytest.raises(InvalidUpdateError, match="'a'") as caught:
        engine.invoke(graph.compile(), {})
    assert caught.value.key == "x"


def test_none_and_removals_contradict_like_any_write(engine):
    """Rules 6 and 7: `None` is a value, and a removal is a write."""
    for value in (None, MARK_FOR_REMOVAL):
        with pytest.raises(InvalidUpdateError) as caught:
            engine.invoke(fan(State, a=wrote("x", 1), b=wrote("x", value)), {"x": 0})
        assert caught.value.key == "x"


def test_what_is_written_in_turn_is_no_conflict(engine):
    """Rule 6 is about one step."""
    graph = builder(
        State, {"a": wrote("x", 1), "b": nothing, "c": wrote("x", 2)}, (START, "a"), (START, "b"), ("b", "c")
    )
    assert engine.invoke(graph.compile(), {"x": 0})["x"] == 2


# ── rule 7: None, removal, overwriting ───────────────────────────────────────────────────────────────────────


def test_none_is_a_value(engine, saver):
    """Rule 7: writing it is a write: in a step, in the input, through a reducer, and in the checkpoint."""

    class Noting(TypedDict, total=False):
        x: Any
        log: Annotated[list[Any], lambda old, new: [*old, new]]

    seen = []
    graph = chain(Noting, a=lambda s: {"x": None, "log": None}, b=seen_by(seen), saver=saver)
    assert engine.invoke(graph, {"x": 1, "log": None}, thread_id="t") == {"x": None, "log": [None, None]}
    assert engine.invoke(graph, {"x": None}, thread_id="t") == {"x": None, "log": [None, None, None]}
    assert seen[0] == {"x": None, "log": [None, None]}


def test_none_shows_in_the_stream(engine):
    """Rule 7: `updates` tells a node that wrote None from one that wrote nothing."""
    graph = chain(State, a=wrote("x", None), b=nothing, c=wrote("x", None))
    updates = engine.stream(graph, {}, stream_mode="updates")
    assert updates == [{"a": {"x": None}}, {"b": None}, {"c": {"x": None}}]


@pytest.mark.parametrize("key", ["x", "log"])
@pytest.mark.parametrize("via", ["return", "command", "overwrite"])
def test_a_removed_key_is_absent_everywhere(engine, saver, key, via):
    """Rule 7, case C22: next node, router, stream, result and checkpoint; with and without a reducer."""
    mark = Overwrite(MARK_FOR_REMOVAL) if via == "overwrite" else MARK_FOR_REMOVAL
    outputs = [{key: mark}, None]

    def remove(state):
        update = outputs.pop(0)
        return Command(update=update) if via == "command" else update

    seen = []
    graph = builder(State, {"a": remove, "b": seen_by(seen)}, (START, "a"), ("b", END))
    graph.add_conditional_edges("a", lambda s: (seen.append(dict(s)), "b")[1], ["b"])
    graph = graph.compile(saver)
    values = engine.stream(graph, {"x": 1, "log": ["l"], "y": 2}, stream_mode="values", thread_id="t")
    left = {"x": 1, "log": ["l"], "y": 2}
    left.pop(key)
    assert values[1:] == [left, left]
    assert seen == [left, left]
    assert engine.invoke(graph, {"y": 3}, thread_id="t") == left | {"y": 3}
    assert seen[2:] == [left | {"y": 3}] * 2


@pytest.mark.parametrize("key", ["x", "log"])
def test_one_of_several_branches_removes_a_key(engine, key):
    """Rule 7, case C22: the others' writes to other keys stay."""
    seen = []
    graph = fan(State, a=nothing, b=wrote(key, MARK_FOR_REMOVAL), c=wrote("y", 3))
    result = engine.invoke(graph, {"x": 1, "log": ["l"]})
    assert key not in result
    assert result["y"] == 3
    graph = builder(
        State,
        {"a": nothing, "b": wrote(key, MARK_FOR_REMOVAL), "c": seen_by(seen)},
        (START, "a"),
        (START, "b"),
        (["a", "b"], "c"),
    )
    engine.invoke(graph.compile(), {"x": 1, "log": ["l"]})
    assert key not in seen[0]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (MARK_FOR_REMOVAL, ["b"], ["b"]),
        (["a"], MARK_FOR_REMOVAL, None),
        (MARK_FOR_REMOVAL, MARK_FOR_REMOVAL, None),
        (Overwrite(["a"]), ["b"], ["a", "b"]),
        (["a"], Overwrite(["b"]), ["b"]),
        ({"__overwrite__": ["a"]}, ["b"], ["a", "b"]),
        ({"type": "__overwrite__", "value": ["a"]}, ["b"], ["a", "b"]),
    ],
    ids=shown,
)
def test_replacing_writes_in_one_step(engine, a, b, expected):
    """Rule 7 and `Overwrite`: plan order decides: writes before are replaced, writes after are merged."""
    result = engine.invoke(fan(State, a=wrote("log", a), b=wrote("log", b)), {"log": ["old"]})
    assert result == ({} if expected is None else {"log": expected})


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Overwrite([1]), Overwrite([1])),
        (Overwrite([1]), MARK_FOR_REMOVAL),
        (MARK_FOR_REMOVAL, Overwrite([1])),
    ],
    ids=shown,
)
def test_replacing_writes_may_not_contradict_each_other(engine, a, b):
    """graph-api 4: two overwrites of one key in one step are refused, naming it."""
    with pytest.raises(InvalidUpdateError, match=r"[Oo]verwrit") as caught:
        engine.invoke(fan(State, a=wrote("log", a), b=wrote("log", b)), {"log": ["old"]})
    assert caught.value.key == "log"
    assert caught.value.result == {"log": ["old"]}


def test_a_removed_key_starts_anew(engine):
    """Rule 7: the next write finds no old value."""
    graph = chain(State, a=wrote("log", MARK_FOR_REMOVAL), b=wrote("log", ["new"]))
    assert engine.invoke(graph, {"log": ["old"]}) == {"log": ["new"]}


def test_removing_what_isnt_there_is_nothing(engine):
    """Rule 7: the key is absent, as asked; in an open state, too."""
    assert engine.invoke(chain(State, a=wrote("x", MARK_FOR_REMOVAL)), {"y": 1}) == {"y": 1, "log": []}
    assert engine.invoke(chain(None, a=wrote("x", MARK_FOR_REMOVAL)), {"y": 1}) == {"y": 1}
    assert engine.invoke(chain(State, a=nothing), {"x": MARK_FOR_REMOVAL, "y": 1}) == {"y": 1, "log": []}


def test_overwriting_goes_around_the_reducer(engine, saver):
    """graph-api 4: from a node, as a first write, in the input, of a key without a reducer."""
    graph = chain(State, a=lambda s: {"log": Overwrite(["a"]), "x": Overwrite(1)})
    assert engine.invoke(graph, {"log": ["old"]}) == {"log": ["a"], "x": 1}
    graph = chain(State, a=nothing, saver=saver)
    engine.invoke(graph, {"log": ["old"]}, thread_id="t")
    assert engine.invoke(graph, {"log": Overwrite(["new"])}, thread_id="t") == {"log": ["new"]}

    class Best(TypedDict):
        best: Annotated[int, max]

    assert engine.invoke(chain(Best, a=wrote("best", Overwrite(-1))), {}) == {"best": -1}
    assert engine.invoke(chain(Best, a=wrote("best", Overwrite(-1))), {"best": 5}) == {"best": -1}


def test_lenient_writes_after_an_overwrite_are_ignored(engine):
    """graph-api 4, L: as LangGraph does it."""
    graph = fan(State, a=wrote("log", Overwrite(["a"])), b=wrote("log", ["b"]), options={"strict": False})
    assert engine.invoke(graph, {"log": ["old"]}) == {"log": ["a"]}


# ── rule 7: returning what was handed out ────────────────────────────────────────────────────────────────────


def test_returning_the_state_is_no_write(engine):
    """Rule 7: of values of any type, in branches that would contradict each other, and with reducers."""

    class Wide(TypedDict, total=False):
        topic: str
        count: Annotated[int, operator.add]
        words: Annotated[list[str], operator.add]
        pair: Annotated[tuple[int, ...], operator.add]
        table: dict[str, int]
        a: int
        b: int

    def adding(name):
        def node(state):
            state[name] = 1
            return state

        return node

    given = {"topic": "t", "count": 5, "words": ["w"], "pair": (1, 2), "table": {"k": 1}}
    graph = fan(Wide, a=adding("a"), b=adding("b"))
    assert engine.invoke(graph, given) == given | {"a": 1, "b": 1}


def test_returning_a_handed_out_container_is_no_write(engine):
    """Rule 7: `{**state, …}` in two branches: neither the dict nor the list counts as written."""

    class Wide(TypedDict, total=False):
        words: Annotated[list[str], operator.add]
        table: dict[str, int]
        members: set[int]
        a: int
        b: int

    given = {"words": ["w"], "table": {"k": 1}, "members": {1}}
    graph = fan(Wide, a=lambda s: {**s, "a": 1}, b=lambda s: {**s, "b": 1})
    assert engine.invoke(graph, given) == given | {"a": 1, "b": 1}


@dataclass
class Thing:
    size: int


def test_returning_a_handed_out_object_is_no_write(engine):
    """Rule 7: an object is shared, and returning it says nothing new."""
    graph = fan(State, a=lambda s: {"x": s["x"]}, b=lambda s: {"x": s["x"], "y": 1})
    assert engine.invoke(graph, {"x": Thing(1)}) == {"x": Thing(1), "y": 1, "log": []}


def test_an_equal_value_that_isnt_the_handed_out_one_is_a_write(engine):
    """Rule 7 speaks of the very object: a list of one's own that is equal is appended."""
    graph = chain(State, a=lambda s: {"log": list(s["log"])})
    assert engine.invoke(graph, {"log": ["l"]}) == {"log": ["l", "l"]}
    assert engine.invoke(chain(State, a=lambda s: {"log": ["l"]}), {"log": ["l"]}) == {"log": ["l", "l"]}


@pytest.mark.parametrize(
    "update", [lambda s: s, lambda s: {"log": s["log"]}, lambda s: Command(update={"log": s["log"]})]
)
def test_a_reduced_value_changed_in_place_and_returned_is_refused(engine, update):
    """Rule 7: it would be merged with itself; the error says to return only the new part."""

    def change(state):
        state["log"].append("new")
        return update(state)

    with pytest.raises(InvalidUpdateError, match="only the new part") as caught:
        engine.invoke(chain(State, a=change), {"log": ["old"]})
    assert place(caught.value) == ("a", "log")
    assert caught.value.result == {"log": ["old"]}


def test_a_deep_change_in_place_is_found(engine):
    """Rule 7: changed means changed at any depth."""

    def change(state):
        state["log"][0]["k"].append(1)
        return {"log": state["log"]}

    with pytest.raises(InvalidUpdateError, match="only the new part"):
        engine.invoke(chain(State, a=change), {"log": [{"k": []}]})


def test_a_change_between_equal_values_is_found(engine):
    """Rule 7: `1`, `1.0` and `True` are equal, but writing one for the other is a write."""

    def change(state):
        state["x"][0] = True
        return state

    result = engine.invoke(chain(State, a=change), {"x": [1]})
    assert result["x"] == [True]
    assert result["x"][0] is True


def test_a_plain_value_changed_in_place_and_returned_is_a_write(engine):
    """Rule 7: without a reducer the change is what was meant."""

    def change(state):
        state["x"]["k"].append(2)
        return {"x": state["x"]}

    assert engine.invoke(chain(State, a=change), {"x": {"k": [1]}})["x"] == {"k": [1, 2]}
    with pytest.raises(InvalidUpdateError):
        engine.invoke(fan(State, a=change, b=change), {"x": {"k": [1]}})


def test_a_handed_out_value_for_another_key_is_a_write(engine):
    """Rule 7: handed out *for that key*."""
    graph = chain(State, a=lambda s: {"y": s["x"], "log": s["x"]})
    assert engine.invoke(graph, {"x": ["v"], "log": ["l"]}) == {"x": ["v"], "y": ["v"], "log": ["l", "v"]}
    thing = Thing(1)
    assert engine.invoke(chain(State, a=lambda s: {"y": s["x"]}), {"x": thing}) == {
        "x": thing,
        "y": thing,
        "log": [],
    }


@pytest.mark.parametrize("value", [["new"], {"k": 1}, {1}, Thing(1), "text", 5, None, ("a",)], ids=shown)
def test_what_was_sent_is_not_handed_out_state(engine, value):
    """Rule 7: a `Send`'s argument isn't the state: a worker that returns a part of it writes."""
    graph = builder(State, {"worker": lambda sent: {"x": sent["x"]}})
    graph.add_conditional_edges(START, lambda s: Send("worker", {"x": value}))
    assert engine.invoke(graph.compile(), {})["x"] == value
    assert engine.invoke(graph.compile(), {"x": "before"})["x"] == value


def test_what_was_sent_can_be_appended(engine):
    """Rule 7: with a reducer it is new as well, also where it equals what the state has."""
    graph = builder(State, {"worker": lambda sent: sent})
    graph.add_conditional_edges(
        START, lambda s: [Send("worker", {"log": ["l"]}), Send("worker", {"log": ["m"]})]
    )
    assert engine.invoke(graph.compile(), {"log": ["l"]}) == {"log": ["l", "l", "m"]}


def test_a_router_that_returns_what_it_was_handed_writes_nothing(engine):
    """Rule 7: `Command(update={**state, …})` on an edge: the list isn't appended to itself."""
    graph = builder(State, {"a": wrote("log", ["a"]), "b": nothing}, (START, "a"))
    graph.add_conditional_edges("a", lambda s: Command(update={**s, "x": 1}, goto="b"))
    assert engine.invoke(graph.compile(), {"log": ["in"]}) == {"log": ["in", "a"], "x": 1}
    start = builder(State, {"b": nothing})
    start.add_conditional_edges(START, lambda s: Command(update={**s, "x": 1}, goto="b"))
    assert engine.invoke(start.compile(), {"log": ["in"]}) == {"log": ["in"], "x": 1}


def test_a_generator_that_yields_its_state_writes_what_changed(engine):
    """Rule 7: each piece is looked at like a return."""

    def node(state):
        state["x"] = 1
        yield state
        state["x"] = 2
        yield state

    assert engine.invoke(chain(State, node=node), {"log": ["in"], "y": [1]}) == {
        "log": ["in"],
        "x": 2,
        "y": [1],
    }


def test_overwriting_with_what_was_changed_in_place(engine):
    """Rule 7: the other remedy: an overwrite says that the whole is meant."""

    def node(state):
        state["log"].append("new")
        return {"log": Overwrite(state["log"])}

    assert engine.invoke(chain(State, node=node), {"log": ["old"]}) == {"log": ["old", "new"]}


def test_lenient_graphs_write_what_was_handed_out(engine):
    """Rule 7, L: LangGraph merges the list with itself, and finds the branches in conflict."""
    graph = chain(State, a=lambda s: {"log": s["log"]}, options={"strict": False})
    assert engine.invoke(graph, {"log": ["l"]}) == {"log": ["l", "l"]}
    graph = fan(State, a=lambda s: {"x": s["x"]}, b=lambda s: {"x": s["x"]}, options={"strict": False})
    with pytest.raises(InvalidUpdateError):
        engine.invoke(graph, {"x": [1]})


# ── rule 8: no engine keys ───────────────────────────────────────────────────────────────────────────────────


def busy_graph(schema, seen, saver):
    """Joins, sends, deferral, a child, a retry, routers, commands and a question, in one graph."""
    fails = [1]

    def flaky(state):
        seen.append(set(state))
        if fails:
            raise ConnectionError(fails.pop())
        return {"x": 1}

    def ask(state):
        seen.append(set(state))
        return {"y": interrupt("sure?")}

    child = chain(schema, inside=lambda s: seen.append(set(s)))
    graph = StateGraph(schema)
    graph.add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    graph.add_node("worker", lambda s: seen.append(set(s)))
    graph.add_node("child", child).add_node("join", lambda s: seen.append(set(s)))
    graph.add_node("late", ask, defer=True)
    graph.add_edge(START, "flaky").add_edge(START, "child").add_edge(["flaky", "child"], "join")
    graph.add_conditional_edges("flaky", lambda s: (seen.append(set(s)), Send("worker", {"x": 1}))[1])
    graph.add_edge("join", "late")
    return graph.compile(saver)


@pytest.mark.parametrize("schema", [State, None])
def test_no_engine_key_ever_appears(engine, saver, schema):
    """Rule 8: in what nodes and routers see, in `values`, in the result at a pause and at the end, in the thread."""
    seen = []
    graph = busy_graph(schema, seen, saver)
    declared = {"x", "y", "log"}
    seen.extend(map(set, engine.stream(graph, {"x": 0}, stream_mode="values", thread_id="t")))
    paused = engine.invoke(graph, None, thread_id="t")
    assert paused.status == "interrupted"
    done = engine.resume(graph, "yes", thread_id="t")
    assert done.status == "completed"
    seen += [
        set(paused),
        set(done),
        set(engine.invoke(chain(schema, a=nothing, saver=saver), {}, thread_id="t")),
    ]
    assert [keys for keys in seen if not keys <= declared] == []
    assert done["y"] == "yes"


def test_lenient_results_carry_the_interrupts(engine, saver):
    """Rule 8, L: as LangGraph's results do."""
    graph = chain(State, a=lambda s: {"x": interrupt("sure?")}, saver=saver, options={"strict": False})
    result = engine.invoke(graph, {"x": 0}, thread_id="t")
    assert [question.value for question in result.pop("__interrupt__")] == ["sure?"]
    assert result == {"x": 0, "log": []}
    assert engine.resume(graph, "yes", thread_id="t") == {"x": "yes", "log": []}
