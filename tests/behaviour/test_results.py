"""What a run gives: the same result from every way of running, with how it ended beside the values."""

import asyncio
import copy
import operator
import pickle
import threading
import tracemalloc
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pydantic
import pytest

from juncture import (
    START,
    CheckpointRef,
    Command,
    ConfigError,
    GraphRecursionError,
    InMemorySaver,
    RunResult,
    Runtime,
    Send,
    StateGraph,
    failure,
    interrupt,
)
from tests.behaviour.building import builder, chain, compiled, fan, nothing, thread, wrote
from tests.faulty import faulty

pytestmark = pytest.mark.timeout(20)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


ATTRIBUTES = ("status", "steps", "last_nodes", "interrupts", "usage")
"""Of a result, what doesn't differ from run to run."""


def told(result: RunResult) -> dict[str, Any]:
    """A result without what differs from run to run."""
    known = {name: getattr(result, name) for name in ATTRIBUTES}
    known["interrupts"] = [(q.value, q.node, q.when) for q in result.interrupts]
    return {**known, "values": dict(result)}


def three(saver: Any = None, last: Any = None) -> Any:
    nodes = {"a": wrote("log", ["a"]), "b": wrote("log", ["b"]), "c": last or wrote("log", ["c"])}
    return compiled(State, nodes, (START, "a"), ("a", "b"), ("a", "c"), saver=saver)


# ── fields, by how a run ended ───────────────────────────────────────────────────────────────────────────────


def test_a_completed_run(engine, colour):
    result = engine.invoke(three(last=colour(wrote("log", ["c"]))), {"log": ["in"]})
    assert type(result) is RunResult
    assert result == {"log": ["in", "a", "b", "c"]}
    assert (result.status, result.steps, result.last_nodes) == ("completed", 2, ("b", "c"))
    assert (result.interrupts, result.usage, result.checkpoint) == ((), {}, None)
    assert result.value is result
    assert isinstance(result.run_id, str)
    assert len(result.run_id) >= 32


def test_a_completed_run_with_a_saver_names_its_last_checkpoint(engine, saver):
    result = engine.invoke(three(saver), {"log": ["in"]}, thread("talk"))
    assert isinstance(result.checkpoint, CheckpointRef)
    assert (result.checkpoint.thread_id, result.checkpoint.namespace) == ("talk", ())
    assert saver.load("talk").checkpoint.checkpoint_id == result.checkpoint.checkpoint_id
    assert saver.load("talk").checkpoint.step == 2


def test_an_interrupted_run(engine, colour, saver):
    result = engine.invoke(
        three(saver, colour(lambda s: {"log": [interrupt("?")]})), {"log": ["in"]}, thread()
    )
    assert type(result) is RunResult
    assert result == {"log": ["in", "a"]}
    assert (result.status, result.last_nodes) == ("interrupted", ("a",))
    assert [question.value for question in result.interrupts] == ["?"]
    assert isinstance(result.interrupts, tuple)
    assert saver.load("t").checkpoint.checkpoint_id == result.checkpoint.checkpoint_id


def test_a_resumed_run_counts_its_own_steps(engine, saver):
    graph = three(saver, lambda s: {"log": [interrupt("?")]})
    engine.invoke(graph, {"log": ["in"]}, thread())
    result = engine.resume(graph, "yes", thread())
    assert (result.status, result.steps, result.last_nodes) == ("completed", 1, ("b", "c"))
    assert result == {"log": ["in", "a", "b", "yes"]}


def test_a_failed_run(engine, colour, saver):
    def fails(state):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        engine.invoke(three(saver, colour(fails)), {"log": ["in"]}, thread())
    result = failure(caught.value).result
    assert type(result) is RunResult
    assert result == {"log": ["in", "a"]}
    assert (result.status, result.last_nodes, result.interrupts) == ("failed", ("a",), ())
    assert saver.load("t").checkpoint.checkpoint_id == result.checkpoint.checkpoint_id


def loop(saver: Any = None, nodes: int = 1) -> Any:
    names = [f"n{number}" for number in range(nodes)]
    return builder(
        State,
        {name: wrote("log", [name]) for name in names},
        (START, names[0]),
        *zip(names, names[1:] + names[:1], strict=True),
    ).compile(saver)


@faulty("endless-loop")
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_a_run_that_reached_its_limit(engine, saver, limit):
    with pytest.raises(GraphRecursionError, match=f"Recursion limit of {limit} reached") as caught:
        engine.invoke(loop(saver, 2), {"log": []}, thread(recursion_limit=limit))
    error = caught.value
    last = f"n{(limit - 1) % 2}"
    assert isinstance(error, RecursionError)
    assert repr(last) in str(error)
    assert (error.result.status, error.result.steps, error.result.last_nodes) == ("limit", limit, (last,))
    assert len(error.result["log"]) == limit
    assert (error.thread_id, error.step) == ("t", limit)
    assert error.run_id == error.result.run_id
    assert failure(error).result is error.result


@faulty("endless-loop")
def test_after_the_limit_the_thread_goes_on(engine, saver):
    graph = loop(saver)
    for count in (3, 6):
        with pytest.raises(GraphRecursionError) as caught:
            engine.invoke(graph, {"log": []} if count == 3 else None, thread(recursion_limit=3))
        assert len(caught.value.result["log"]) == count


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_limit_of_n_allows_exactly_n_steps(engine, limit):
    graph = chain(State, **{f"n{number}": nothing for number in range(limit)})
    assert engine.invoke(graph, {"x": 1}, {"recursion_limit": limit}).steps == limit
    if limit > 1:
        with pytest.raises(GraphRecursionError):
            engine.invoke(graph, {"x": 1}, {"recursion_limit": limit - 1})


def test_a_cancelled_run():
    """Of a cancelled run, the exception carries the result."""
    caught: list[BaseException] = []

    async def main():
        waiting = asyncio.Event()

        async def waits(state):
            waiting.set()
            await asyncio.Event().wait()

        async def run():
            try:
                await chain(State, a=wrote("log", ["a"]), b=waits).ainvoke({"log": ["in"]})
            except asyncio.CancelledError as error:
                caught.append(error)
                raise

        running = asyncio.ensure_future(run())
        await waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    result = failure(caught[0]).result
    assert result == {"log": ["in", "a"]}
    assert (result.status, result.last_nodes) == ("cancelled", ("a",))


def test_a_run_without_steps(engine):
    graph = builder(State, {"a": nothing}).add_conditional_edges(START, lambda state: [], ["a"]).compile()
    result = engine.invoke(graph, {"x": 1})
    assert (dict(result), result.status, result.steps, result.last_nodes) == (
        {"x": 1, "log": []},
        "completed",
        0,
        (),
    )


# ── the same from every way of running ───────────────────────────────────────────────────────────────────────


def every_way(make: Any, given: Any, config: Any = None) -> list[Any]:
    """The final values, status and questions by every entry; each on a graph and thread of its own."""
    found: list[Any] = []
    found.append(told(make().invoke(given, config)))
    found.append(told(asyncio.run(make().ainvoke(given, config))))
    found.append(told(make().batch([given], config)[0]))
    found.append(told(asyncio.run(make().abatch([given], config))[0]))
    return found


def last_seen(items: list[Any]) -> tuple[Any, list[Any]]:
    """The last state that a stream showed, and the questions it ended with."""
    values = [data for mode, data in items if mode == "values"][-1]
    ends = [data["__interrupt__"] for mode, data in items if mode == "updates" and "__interrupt__" in data]
    return values, [(q.value, q.node, q.when) for q in (ends[-1] if ends else ())]


@pytest.mark.parametrize("ending", ["completed", "interrupted"])
def test_every_entry_gives_the_same_result(engine, ending):
    def make():
        ask = (lambda s: {"log": [interrupt("?")]}) if ending == "interrupted" else None
        return three(InMemorySaver(), ask)

    first, *others = every_way(make, {"log": ["in"]}, thread())
    assert others == [first] * 3
    items = engine.stream(make(), {"log": ["in"]}, thread(), stream_mode=["values", "updates"])
    assert last_seen(items) == (first["values"], first["interrupts"])


@faulty("endless-loop")
@pytest.mark.parametrize("kind", ["failed", "limit"])
def test_every_entry_raises_the_same_with_the_same_result(engine, kind):
    def fails(state):
        raise ValueError("no")

    def make():
        if kind == "limit":
            return loop(InMemorySaver())
        return three(InMemorySaver(), fails)

    config = thread(recursion_limit=5)
    ways = [
        lambda graph: engine.invoke(graph, {"log": []}, config),
        lambda graph: engine.stream(graph, {"log": []}, config),
        lambda graph: engine.stream(graph, {"log": []}, config, stream_mode="values"),
        lambda graph: engine.batch(graph, [{"log": []}], config),
    ]
    found = []
    for way in ways:
        with pytest.raises((ValueError, GraphRecursionError)) as caught:
            way(make())
        found.append((type(caught.value), told(failure(caught.value).result)))
    assert found[1:] == found[:1] * 3


def test_every_entry_begins_with_the_same_state(engine):
    seen: list[Any] = []

    @dataclass
    class Begun:
        x: int
        log: Annotated[list[Any], operator.add] = field(default_factory=list)
        y: int = 7

    graph = chain(Begun, a=lambda state: seen.append(copy.deepcopy(state)))
    given = {"x": 1, "log": ["in"]}
    engine.invoke(graph, given)
    engine.invoke(graph, Begun(1, ["in"]))
    engine.stream(graph, given)
    engine.stream(graph, given, stream_mode=["values", "custom", "tasks"], subgraphs=True)
    engine.batch(graph, [given])
    engine.invoke(chain(Begun, sub=graph), given)
    kept = builder(Begun, {"a": lambda state: seen.append(copy.deepcopy(state))}, (START, "a")).compile(
        "memory:"
    )
    engine.invoke(kept, given, thread())
    assert seen == [Begun(1, ["in"], 7)] * 7


def test_an_exhausted_stream_shows_the_result_last_whatever_else_is_asked_for(engine):
    expected = engine.invoke(three(), {"log": ["in"]})
    for modes in (["values"], ["values", "updates"], ["custom", "values", "tasks", "debug"]):
        items = engine.stream(three(), {"log": ["in"]}, stream_mode=modes)
        assert [data for mode, data in items if mode == "values"][-1] == expected


# ── run ids ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def watched():
    """A graph whose nodes at every level note their run's id and namespace."""
    seen: list[tuple[str, str, tuple[str, ...]]] = []

    def look(name):
        def node(state, runtime: Runtime):
            info = runtime.execution_info
            seen.append((name, info.run_id, info.namespace))

        return node

    called = chain(State, called=look("called"))
    graph = chain(
        State,
        top=look("top"),
        sub=chain(State, leaf=look("leaf")),
        calls=lambda state: called.invoke({"x": 1}) and None,
    )
    return graph, seen


@pytest.mark.parametrize("way", ["invoke", "stream", "batch", "stream mode"])
def test_every_entry_has_a_run_id_which_every_node_sees(engine, watched, way):
    graph, seen = watched
    given = {"x": 1}
    if way == "invoke":
        assert engine.invoke(graph, given).run_id == seen[0][1]
    elif way == "stream":
        engine.stream(graph, given)
    elif way == "batch":
        assert engine.batch(graph, [given])[0].run_id == seen[0][1]
    else:
        engine.invoke(graph, given, stream_mode="values")
    assert [name for name, _, _ in seen] == ["top", "leaf", "called"]
    assert len({run_id for _, run_id, _ in seen}) == 1
    assert seen[0][1]


def test_nested_runs_are_told_apart_by_their_namespace(engine, watched):
    graph, seen = watched
    engine.invoke(graph, {"x": 1})
    namespaces = {name: namespace for name, _, namespace in seen}
    assert namespaces["top"] == ()
    assert namespaces["leaf"][0].startswith("sub:")
    assert namespaces["called"][0].startswith("calls:")


def test_every_run_has_another_id_unless_it_is_given_one(engine, watched):
    graph, seen = watched
    ids = {engine.invoke(graph, {"x": 1}).run_id for _ in range(5)}
    assert len(ids) == 5
    seen.clear()
    assert engine.invoke(graph, {"x": 1}, {"run_id": "mine"}).run_id == "mine"
    assert {run_id for _, run_id, _ in seen} == {"mine"}


# ── output keys ──────────────────────────────────────────────────────────────────────────────────────────────


def test_output_keys_restrict_the_result(engine):
    graph = chain(State, a=wrote("x", 2), b=wrote("y", 3))
    result = engine.invoke(graph, {"x": 1}, output_keys=["y", "log"])
    assert result == {"y": 3, "log": []}
    assert (result.status, result.steps) == ("completed", 2)


def test_one_output_key_gives_its_value(engine):
    graph = chain(State, a=wrote("x", 2))
    assert engine.invoke(graph, {"x": 1}, output_keys="x") == 2


def test_output_keys_restrict_what_streams_show(engine):
    graph = chain(State, a=wrote("x", 2), b=wrote("y", 3))
    items = engine.stream(graph, {"x": 1}, stream_mode=["values", "updates"], output_keys=["x"])
    assert items == [
        ("values", {"x": 1}),
        ("updates", {"a": {"x": 2}}),
        ("values", {"x": 2}),
        ("updates", {"b": None}),
        ("values", {"x": 2}),
    ]


def test_output_keys_go_beyond_the_output_schema(engine):
    class Shown(TypedDict, total=False):
        y: Any

    graph = builder(
        State, {"a": wrote("x", 2), "b": wrote("y", 3)}, (START, "a"), ("a", "b"), output_schema=Shown
    )
    compiled_graph = graph.compile()
    assert engine.invoke(compiled_graph, {"x": 1}) == {"y": 3}
    assert engine.invoke(compiled_graph, {"x": 1}, output_keys=["x"]) == {"x": 2}


def test_a_key_without_a_value_is_absent(engine):
    graph = chain(State, a=nothing)
    assert engine.invoke(graph, {"x": 1}, output_keys=["x", "y"]) == {"x": 1}


# ── other kinds of states ────────────────────────────────────────────────────────────────────────────────────


def test_a_state_of_one_value_is_in_value_and_the_dict_is_empty(engine):
    graph = (
        StateGraph(Annotated[list, operator.add])
        .add_node("a", lambda state: [len(state)])
        .add_edge(START, "a")
    )
    result = engine.invoke(graph.compile(), [7])
    assert (dict(result), result.value, result.status) == ({}, [7, 1], "completed")


class Model(pydantic.BaseModel):
    x: int
    log: Annotated[list[str], operator.add] = []


@dataclass
class Data:
    x: int
    log: Annotated[list[str], operator.add] = field(default_factory=list)


@pytest.mark.parametrize("schema", [Model, Data])
def test_a_model_as_output_is_in_value_and_the_dict_is_empty(engine, colour, schema):
    result = engine.invoke(chain(schema, a=colour(wrote("log", ["a"]))), {"x": 1})
    assert result.value == schema(x=1, log=["a"])
    assert type(result.value) is schema
    assert dict(result) == {}
    assert (result.status, result.steps) == ("completed", 1)


# ── a result as an object ────────────────────────────────────────────────────────────────────────────────────


def test_a_result_is_a_dict_and_survives_copying_and_pickling(engine, saver):
    result = engine.invoke(three(saver, lambda s: {"log": [interrupt("?")]}), {"log": ["in"]}, thread())
    assert isinstance(result, dict)
    assert {**result} == result == {"log": ["in", "a"]}
    for other in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert type(other) is RunResult
        assert other == result
        assert told(other) == told(result)
        assert (other.run_id, other.checkpoint) == (result.run_id, result.checkpoint)
        assert other.value is other


def test_a_result_is_the_callers_own(engine, saver):
    graph = chain(State, saver=saver, a=wrote("log", ["a"]))
    first = engine.invoke(graph, {"log": ["in"]}, thread())
    first["log"].append("changed")
    first["x"] = "changed"
    assert engine.invoke(graph, {"log": []}, thread()) == {"log": ["in", "a", "a"]}


def test_the_input_is_the_callers_own(engine):
    """It is copied when the run begins: neither side sees what the other does to it."""
    given = {"log": [["in"]], "x": {"k": [1]}}
    kept = copy.deepcopy(given)

    def spoils(state):
        state["log"][0].append("spoilt")
        state["x"]["k"].append(2)

    engine.invoke(chain(State, a=spoils), given)
    assert given == kept


# ── what a run doesn't do ────────────────────────────────────────────────────────────────────────────────────


def test_no_engine_key_is_in_states_or_results(engine, saver):
    seen: list[Any] = []
    graph = fan(State, saver=saver, a=lambda state: seen.append(set(state)), b=nothing)
    result = engine.invoke(graph, {"x": 1}, thread())
    assert set(result) == {"x", "log"}
    assert seen == [{"x", "log"}]


@faulty("endless-loop")
def test_a_step_copies_nothing_that_its_node_does_not_read():
    """A thousand steps beside a value of ten megabytes: its copy would show in the memory that they peak at."""

    class Big(TypedDict, total=False):
        big: list[Any]
        count: int

    class Small(TypedDict, total=False):
        count: int

    peaks: list[int] = []

    def node(state):
        count = state.get("count", 0) + 1
        if count == 10:
            tracemalloc.reset_peak()
            peaks.append(tracemalloc.get_traced_memory()[0])
        elif count == 990:
            peaks.append(tracemalloc.get_traced_memory()[1])
        return {"count": count}

    graph = StateGraph(Big).add_node("n", node, input_schema=Small).add_edge(START, "n")
    graph.add_node("again", lambda state: None, input_schema=Small).add_edge("n", "again").add_edge(
        "again", "n"
    )
    value = [[number] for number in range(100_000)]
    tracemalloc.start()
    try:
        with pytest.raises(GraphRecursionError) as caught:
            graph.compile().invoke({"big": value}, {"recursion_limit": 2_000})
    finally:
        tracemalloc.stop()
    assert len(caught.value.result["big"]) == 100_000
    before, peak = peaks
    assert peak - before < 1_000_000


def test_nodes_reach_only_what_they_are_handed(engine):
    """Threads that a node starts and that go on changing what it was handed don't disturb the run."""
    stop = threading.Event()
    helpers: list[threading.Thread] = []

    def spoils(state, runtime: Runtime):
        def run():
            while not stop.is_set():
                state["log"].append("spoilt")
                state["x"] = "spoilt"
                stop.wait(0.0001)

        helper = threading.Thread(target=run)
        helper.start()
        helpers.append(helper)
        with pytest.raises(AttributeError):
            runtime.context = 1
        return {"log": ["a"]}

    graph = compiled(
        State,
        {"a": spoils, "b": spoils, **{f"n{n}": wrote("log", [n]) for n in range(50)}},
        (START, "a"),
        (START, "b"),
        *[("a", f"n{n}") for n in range(50)],
    )
    try:
        result = engine.invoke(graph, {"log": ["in"], "x": 1})
    finally:
        stop.set()
        for helper in helpers:
            helper.join()
    assert result["log"] == ["in", "a", "a", *sorted(range(50), key=str)]
    assert result["x"] == 1


def test_results_of_sends_stand_in_the_order_sent(engine, colour):
    graph = (
        StateGraph(State)
        .add_node("work", colour(lambda arg: {"log": [arg["n"]]}))
        .add_conditional_edges(START, lambda state: [Send("work", {"n": n}) for n in (3, 1, 2)])
        .compile()
    )
    assert engine.invoke(graph, {"log": []})["log"] == [3, 1, 2]


def test_a_command_as_input_needs_its_thread(engine):
    with pytest.raises(ConfigError):
        engine.invoke(three(InMemorySaver()), Command(resume=1))
