"""Streams: what each mode gives, when it gives it, and what closing one early leaves behind."""

import asyncio
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    Command,
    Interrupt,
    Runtime,
    Send,
    StateGraph,
    StreamPart,
    get_stream_writer,
    interrupt,
)
from tests.behaviour.building import chain, fan, nothing, thread, wrote

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


class Plain(TypedDict, total=False):
    x: Any
    y: Any


def plain(data: Any) -> Any:
    """A `tasks` or `debug` item without what differs from run to run."""
    if isinstance(data, dict):
        return {k: plain(v) for k, v in data.items() if k not in ("id", "timestamp")}
    return data


# ── the modes ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def two_steps(colour):
    """One, then two; the second writes a key twice by way of the reducer."""
    return chain(
        State,
        one=colour(lambda state: {"log": ["one"], "x": 1}),
        two=colour(lambda state: Command(update=[("log", ["two"]), ("log", ["three"])])),
    )


def test_values_shows_the_input_and_the_state_after_every_step(engine, two_steps):
    assert engine.stream(two_steps, {"log": ["in"]}, stream_mode="values") == [
        {"log": ["in"]},
        {"log": ["in", "one"], "x": 1},
        {"log": ["in", "one", "two", "three"], "x": 1},
    ]


def test_updates_shows_what_each_task_wrote(engine, two_steps):
    assert engine.stream(two_steps, {"log": ["in"]}) == [
        {"one": {"log": ["one"], "x": 1}},
        {"two": [{"log": ["two"]}, {"log": ["three"]}]},
    ]


def test_updates_of_a_node_that_writes_nothing_is_none(engine):
    assert engine.stream(chain(State, a=nothing), {"x": 1}, stream_mode="updates") == [{"a": None}]


def test_updates_has_one_item_for_every_task_of_a_node(engine, colour):
    graph = (
        StateGraph(State)
        .add_node("work", colour(lambda arg: {"log": [arg["n"]]}))
        .add_conditional_edges(START, lambda state: [Send("work", {"n": n}) for n in range(3)])
        .compile()
    )
    items = engine.stream(graph, {"x": 1})
    assert sorted(items, key=str) == [{"work": {"log": [n]}} for n in range(3)]


def test_tasks_shows_the_start_and_the_end_of_each_task(engine, two_steps):
    items = engine.stream(two_steps, {"log": ["in"]}, stream_mode="tasks")
    assert [plain(item) for item in items] == [
        {"name": "one", "input": {"log": ["in"]}, "triggers": ("branch:to:one",)},
        {"name": "one", "error": None, "result": {"log": ["one"], "x": 1}, "interrupts": []},
        {"name": "two", "input": {"log": ["in", "one"], "x": 1}, "triggers": ("branch:to:two",)},
        {
            "name": "two",
            "error": None,
            "result": {"log": {"$writes": [["two"], ["three"]]}},
            "interrupts": [],
        },
    ]
    ids = [item["id"] for item in items]
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_tasks_shows_an_error_and_the_stream_then_raises_it(engine, colour):
    def fails(state):
        raise ValueError("no")

    graph = chain(Plain, a=colour(fails))
    items: list[Any] = []
    with pytest.raises(ValueError, match="no"):
        engine.consume(graph, {"x": 1}, items.append, stream_mode="tasks")
    assert [plain(item) for item in items] == [
        {"name": "a", "input": {"x": 1}, "triggers": ("branch:to:a",)},
        {"name": "a", "error": "ValueError('no')", "result": {}, "interrupts": []},
    ]


def test_tasks_shows_questions(engine, colour, saver):
    graph = chain(State, saver=saver, a=colour(lambda state: {"x": interrupt("sure?")}))
    start, end = engine.stream(graph, {"x": 1}, thread(), stream_mode="tasks")
    (question,) = end["interrupts"]
    assert start["name"] == end["name"] == "a"
    assert (question["value"], len(question["id"]), end["error"]) == ("sure?", 32, None)


def test_tasks_of_sends_say_so(engine):
    graph = (
        StateGraph(State)
        .add_node("work", nothing)
        .add_conditional_edges(START, lambda state: [Send("work", {"n": n}) for n in range(2)])
        .compile()
    )
    items = engine.stream(graph, {"x": 1}, stream_mode="tasks")
    starts = [item for item in items if "input" in item]
    assert [(item["input"], item["triggers"]) for item in starts] == [
        ({"n": 0}, ("__pregel_push",)),
        ({"n": 1}, ("__pregel_push",)),
    ]
    assert len({item["id"] for item in items}) == 2


def test_debug_wraps_tasks_in_an_envelope(engine, two_steps):
    items = engine.stream(two_steps, {"log": ["in"]}, stream_mode="debug")
    assert [(item["step"], item["type"], item["payload"]["name"]) for item in items] == [
        (1, "task", "one"),
        (1, "task_result", "one"),
        (2, "task", "two"),
        (2, "task_result", "two"),
    ]
    assert all(set(item) == {"step", "timestamp", "type", "payload"} for item in items)
    assert all("T" in item["timestamp"] for item in items), "an ISO time"
    payloads = engine.stream(two_steps, {"log": ["in"]}, stream_mode="tasks")
    assert [plain(item["payload"]) for item in items] == [plain(item) for item in payloads]


def test_custom_shows_what_nodes_send(engine, colour):
    def by_parameter(state, writer):
        writer({"k": 1})
        writer("text")

    def by_runtime(state, runtime: Runtime):
        runtime.stream_writer(2)

    def by_function(state):
        get_stream_writer()(None)

    graph = chain(State, a=colour(by_parameter), b=colour(by_runtime), c=colour(by_function))
    assert engine.stream(graph, {"x": 1}, stream_mode="custom") == [{"k": 1}, "text", 2, None]


def test_a_writer_nobody_listens_to_does_nothing(engine, colour):
    def node(state, writer):
        writer(object())

    graph = chain(Plain, a=colour(node))
    assert engine.stream(graph, {"x": 1}, stream_mode=["values"]) == [("values", {"x": 1})] * 2


def test_a_writer_refuses_after_its_node_has_ended(engine, colour):
    kept: list[Any] = []

    def node(state, writer):
        kept.append(writer)

    def later(state):
        kept[0]("late")

    graph = chain(State, a=colour(node), b=colour(later))
    with pytest.raises(RuntimeError, match=r"node 'a'.*ended"):
        engine.stream(graph, {"x": 1}, stream_mode="custom")


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_mode_gives_its_items_bare_and_a_list_gives_pairs(engine):
    graph = chain(Plain, a=wrote("x", 2))
    assert engine.stream(graph, {"x": 1}, stream_mode=["updates"]) == [("updates", {"a": {"x": 2}})]
    assert engine.stream(graph, {"x": 1}, stream_mode=["values", "updates"]) == [
        ("values", {"x": 1}),
        ("updates", {"a": {"x": 2}}),
        ("values", {"x": 2}),
    ]


def test_a_tuple_of_modes_gives_bare_items(engine):
    graph = chain(Plain, a=wrote("x", 2))
    items = engine.stream(graph, {"x": 1}, stream_mode=("values", "updates"))
    assert items == [{"x": 1}, {"a": {"x": 2}}, {"x": 2}]


def nested(inner_writes: Any = 2) -> Any:
    inner = chain(State, leaf=wrote("x", inner_writes))
    middle = chain(State, mid=inner)
    return chain(State, top=middle, last=wrote("y", 3))


def test_subgraphs_put_the_namespace_in_front(engine):
    items = engine.stream(nested(), {"x": 1}, subgraphs=True)
    (top, leaf), mid = items[0][0], items[1][0]
    assert (top.partition(":")[0], leaf.partition(":")[0], mid) == ("top", "mid", (top,))
    assert [(len(ns), data) for ns, data in items] == [
        (2, {"leaf": {"x": 2}}),
        (1, {"mid": {"x": 2}}),
        (0, {"top": {"x": 2}}),
        (0, {"last": {"y": 3}}),
    ]


def test_subgraphs_with_a_list_of_modes_give_triples(engine):
    items = engine.stream(
        chain(Plain, sub=chain(Plain, leaf=wrote("x", 2))),
        {"x": 1},
        subgraphs=True,
        stream_mode=["values", "updates"],
    )
    assert [(len(ns), mode, data) for ns, mode, data in items] == [
        (0, "values", {"x": 1}),
        (1, "values", {"x": 1}),
        (1, "updates", {"leaf": {"x": 2}}),
        (1, "values", {"x": 2}),
        (0, "updates", {"sub": {"x": 2}}),
        (0, "values", {"x": 2}),
    ]


@pytest.mark.parametrize("mode", ["values", "updates", "custom", "tasks", "debug"])
def test_without_subgraphs_nothing_of_a_nested_graph_shows_in_any_mode(engine, colour, mode):
    def leaf(state, writer):
        writer("inner")
        return {"x": 2}

    graph = chain(State, sub=chain(State, leaf=colour(leaf)))
    items = engine.stream(graph, {"x": 1}, stream_mode=mode, version="parts")
    assert {part.ns for part in items} <= {()}
    assert "leaf" not in str(items)
    assert "inner" not in str(items)


@pytest.mark.parametrize("mode", ["values", "updates", "custom", "tasks", "debug"])
def test_with_subgraphs_every_mode_shows_them_under_their_namespace(engine, colour, mode):
    def leaf(state, writer):
        writer("inner")
        return {"x": 2}

    graph = chain(State, sub=chain(State, leaf=colour(leaf)))
    items = engine.stream(graph, {"x": 1}, stream_mode=mode, subgraphs=True, version="parts")
    inner = [part for part in items if part.ns]
    assert inner
    assert {len(part.ns) for part in inner} == {1}
    assert {part.ns[0].partition(":")[0] for part in inner} == {"sub"}
    assert {part.node for part in inner} <= {"leaf", None}
    assert {part.node for part in items if not part.ns} <= {"sub", None}


def test_namespaces_tell_parallel_calls_of_one_graph_apart(engine, colour):
    inner = chain(State, leaf=colour(lambda state: {"log": [state["x"]]}))
    graph = (
        StateGraph(State)
        .add_node("sub", inner)
        .add_conditional_edges(START, lambda state: [Send("sub", {"x": n}) for n in range(3)])
        .compile()
    )
    items = engine.stream(graph, {"y": 1}, subgraphs=True)
    inside = {ns: data for ns, data in items if ns}
    assert len(inside) == 3
    assert sorted(data["leaf"]["log"][0] for data in inside.values()) == [0, 1, 2]


def test_the_namespace_of_an_item_is_its_tasks_in_the_parent(engine):
    items = engine.stream(nested(), {"x": 1}, subgraphs=True, stream_mode=["tasks"])
    ids = {data["name"]: data["id"] for ns, _, data in items}
    leaf_ns = next(ns for ns, _, data in items if data["name"] == "leaf")
    assert [segment.partition(":")[0] for segment in leaf_ns] == ["top", "mid"]
    assert all(segment.endswith(ids[segment.partition(":")[0]].partition(":")[2]) for segment in leaf_ns)


def test_a_pause_shows_in_updates_as_the_last_item(engine, colour, saver):
    graph = chain(State, saver=saver, a=wrote("x", 2), b=colour(lambda state: {"y": interrupt("sure?")}))
    items = engine.stream(graph, {"x": 1}, thread())
    assert items[0] == {"a": {"x": 2}}
    (question,) = items[1]["__interrupt__"]
    assert isinstance(question, Interrupt)
    assert (question.value, question.node, question.when) == ("sure?", "b", "inside")
    assert len(items) == 2


# ── the envelope ─────────────────────────────────────────────────────────────────────────────────────────────


def test_parts_number_everything_from_zero_without_gaps(engine, colour):
    def talks(state, writer):
        for n in range(5):
            writer(n)
        return {"log": ["said"]}

    inner = chain(State, leaf=colour(talks))
    graph = fan(State, a=colour(talks), b=inner, c=colour(talks))
    parts = engine.stream(
        graph,
        {"x": 1},
        stream_mode=["values", "updates", "custom", "tasks", "debug"],
        subgraphs=True,
        version="parts",
    )
    assert all(type(part) is StreamPart for part in parts)
    assert [part.seq for part in parts] == list(range(len(parts)))
    assert sum(part.mode == "custom" for part in parts) == 15


@pytest.mark.parametrize("subgraphs", [False, True])
@pytest.mark.parametrize("mode", ["values", "updates", "custom", "tasks", "debug"])
def test_seq_has_no_gaps_where_only_some_modes_are_asked_for(engine, mode, subgraphs):
    def talks(state, writer):
        writer("said")
        return {"log": ["said"]}

    graph = chain(State, a=talks, b=chain(State, leaf=talks))
    parts = engine.stream(graph, {"x": 1}, stream_mode=mode, subgraphs=subgraphs, version="parts")
    assert parts
    assert [part.seq for part in parts] == list(range(len(parts)))


def test_parts_carry_node_step_and_place_in_the_plan(engine):
    graph = fan(State, c=wrote("log", ["c"]), a=wrote("log", ["a"]), b=wrote("log", ["b"]))
    parts = engine.stream(graph, {"x": 1}, stream_mode=["values", "updates", "tasks"], version="parts")
    assert {(p.node, p.place) for p in parts if p.mode == "updates"} == {("a", 0), ("b", 1), ("c", 2)}
    assert {(p.node, p.place) for p in parts if p.mode == "tasks"} == {("a", 0), ("b", 1), ("c", 2)}
    assert [(p.step, p.node, p.place) for p in parts if p.mode == "values"] == [
        (0, None, None),
        (1, None, None),
    ]
    assert {p.step for p in parts if p.mode != "values"} == {1}


def test_steps_of_a_thread_count_on(engine, saver):
    graph = chain(State, saver=saver, a=wrote("x", 1), b=wrote("y", 2))
    engine.invoke(graph, {"log": []}, thread())
    parts = engine.stream(graph, {"log": []}, thread(), version="parts")
    assert [part.step for part in parts] == [4, 5], "0 the first input, 1 and 2 its steps, 3 the second input"


def test_tasks_start_in_plan_order_and_the_commit_follows_it(engine):
    """c ends first, then b, then a: parts come as they happen, the state is made in plan order."""
    done = {name: threading.Event() for name in "abc"}
    after = {"a": "b", "b": "c", "c": None}

    def node(name):
        def run(state):
            if after[name] is not None:
                assert done[after[name]].wait(WAIT)
            return {"log": [name]}

        return run

    def use(part):
        if part.mode == "updates":
            done[part.node].set()

    graph = fan(State, a=node("a"), b=node("b"), c=node("c"))
    parts = engine.consume(graph, {"x": 1}, use, stream_mode=["tasks", "updates", "values"], version="parts")
    assert [p.node for p in parts if p.mode == "tasks" and "input" in p.data] == ["a", "b", "c"]
    assert [p.node for p in parts if p.mode == "updates"] == ["c", "b", "a"]
    assert parts[-1].data["log"] == ["a", "b", "c"]


# ── every executed step shows (right-behaviour 41) ───────────────────────────────────────────────────────────


def test_a_step_that_changes_nothing_shows_in_values_and_updates(engine):
    graph = chain(Plain, a=nothing, b=wrote("x", 1), c=nothing)
    items = engine.stream(graph, {"x": 1}, stream_mode=["values", "updates"])
    assert items == [
        ("values", {"x": 1}),
        ("updates", {"a": None}),
        ("values", {"x": 1}),
        ("updates", {"b": {"x": 1}}),
        ("values", {"x": 1}),
        ("updates", {"c": None}),
        ("values", {"x": 1}),
    ]


def test_a_step_that_changes_no_shown_key_shows_too(engine):
    graph = chain(State, a=wrote("x", 2), b=wrote("y", 3))
    items = engine.stream(graph, {"x": 1}, stream_mode=["values", "updates"], output_keys=["y"])
    assert items == [
        ("values", {}),
        ("updates", {"a": None}),
        ("values", {}),
        ("updates", {"b": {"y": 3}}),
        ("values", {"y": 3}),
    ]


def test_leniently_values_skips_steps_that_change_nothing(engine):
    graph = chain(Plain, options={"strict": False}, a=nothing, b=wrote("x", 2))
    assert engine.stream(graph, {"x": 1}, stream_mode="values") == [{"x": 1}, {"x": 2}]


def test_the_state_is_shown_when_a_thread_is_resumed(engine, saver, colour):
    graph = chain(Plain, saver=saver, a=wrote("x", 2), b=colour(lambda state: {"y": interrupt("y?")}))
    engine.invoke(graph, {"x": 1}, thread())
    items = engine.stream(graph, Command(resume=3), thread(), stream_mode=["values", "updates"])
    assert items == [("values", {"x": 2}), ("updates", {"b": {"y": 3}}), ("values", {"x": 2, "y": 3})]


# ── items are the consumer's own ─────────────────────────────────────────────────────────────────────────────


def test_changing_an_item_changes_nothing_of_the_run(engine):
    def use(item):
        mode, data = item
        if mode == "values":
            data["log"].append("consumer")
        elif mode == "updates":
            for update in data.values():
                update["log"].append("consumer")
        elif "input" in data:
            data["input"]["log"].append("consumer")
        else:
            data["result"]["log"].append("consumer")

    seen: list[Any] = []

    def b(state):
        seen.append(list(state["log"]))
        return {"log": ["b"]}

    graph = chain(State, a=wrote("log", ["a"]), b=b)
    items = engine.consume(graph, {"log": ["in"]}, use, stream_mode=["values", "updates", "tasks"])
    assert seen == [["in", "a"]]
    assert items[-1] == ("values", {"log": ["in", "a", "b", "consumer"]})


# ── iterating ────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_runs_before_the_first_item_is_asked_for_and_a_second_iteration_runs_nothing():
    ran: list[int] = []
    graph = chain(State, a=lambda state: ran.append(1))
    stream = graph.stream({"x": 1})
    assert ran == []
    assert len(list(stream)) == 1
    assert list(stream) == []
    assert ran == [1]


def test_a_second_async_iteration_runs_nothing():
    ran: list[int] = []
    graph = chain(State, a=lambda state: ran.append(1))

    async def main():
        stream = graph.astream({"x": 1})
        assert ran == []
        assert len([item async for item in stream]) == 1
        assert [item async for item in stream] == []

    asyncio.run(main())
    assert ran == [1]


def test_after_an_error_the_stream_is_over(engine):
    ran: list[int] = []

    def fails(state):
        ran.append(1)
        raise ValueError("no")

    graph = chain(State, a=fails)
    stream = graph.stream({"x": 1})
    with pytest.raises(ValueError, match="no"):
        next(stream)
    assert list(stream) == []
    assert ran == [1]


def test_invoke_with_a_stream_mode_returns_the_list_of_items(engine):
    graph = chain(Plain, a=wrote("x", 2))
    assert engine.invoke(graph, {"x": 1}, stream_mode="values") == [{"x": 1}, {"x": 2}]
    assert engine.invoke(graph, {"x": 1}, stream_mode=["updates"]) == [("updates", {"a": {"x": 2}})]


def test_a_wrong_call_raises_before_anything_is_iterated():
    graph = chain(State, a=nothing)
    with pytest.raises(ValueError, match="everything"):
        graph.stream({"x": 1}, stream_mode="everything")
    with pytest.raises(ValueError, match="v7"):
        graph.stream({"x": 1}, version="v7")
