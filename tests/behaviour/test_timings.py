"""`RunResult.timings`: a run's time splits into that of nodes, of the saver and of the engine, where it is asked for.

No test here says how fast anything is: that the parts add up, that what slept is counted where it slept, and that what ran
side by side counts once.
"""

import asyncio
import operator
import pickle
import time
from typing import Annotated, Any, TypedDict

import pytest

from juncture import START, InMemorySaver, NodeError, RunResult, Send, StateGraph, Stream, failure
from juncture.graph.timing import Stopwatch
from juncture.types import Timings

NAP = 0.03


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    text: str


def nap(state: State) -> dict[str, Any]:
    time.sleep(NAP)
    return {"log": ["nap"]}


async def rest(state: State) -> dict[str, Any]:
    await asyncio.sleep(NAP)
    return {"log": ["rest"]}


def pieces(state: State) -> Any:
    for name in "ab":
        time.sleep(NAP / 2)
        yield {"log": [name]}


async def async_pieces(state: State) -> Any:
    for name in "ab":
        await asyncio.sleep(NAP / 2)
        yield {"log": [name]}


def words() -> Any:
    for word in ("a ", "b"):
        time.sleep(NAP / 2)
        yield word


async def async_words() -> Any:
    for word in ("a ", "b"):
        await asyncio.sleep(NAP / 2)
        yield word


FORMS: dict[str, Any] = {
    "function": nap,
    "async": rest,
    "generator": pieces,
    "async-generator": async_pieces,
    "stream": lambda state: {"text": words()},
    "async-stream": lambda state: {"text": async_words()},
    "marked-stream": lambda state: {"text": Stream(words())},
}


def alone(action: Any, **options: Any) -> Any:
    return StateGraph(State).add_node("it", action).add_edge(START, "it").compile(**options)


def check(timings: Timings | None) -> Timings:
    assert timings is not None
    assert timings.total == pytest.approx(timings.nodes + timings.saver + timings.engine)
    assert min(timings.nodes, timings.saver, timings.engine) >= 0
    return timings


@pytest.mark.parametrize("form", FORMS)
def test_what_a_node_takes_is_the_nodes(engine, form: str):
    result = engine.invoke(alone(FORMS[form]), {"log": []}, timings=True)
    timings = check(result.timings)
    assert timings.nodes >= NAP
    assert timings.by_node == {"it": pytest.approx(timings.nodes)}
    assert result == engine.invoke(alone(FORMS[form]), {"log": []})


def test_what_runs_side_by_side_counts_once(engine):
    graph = StateGraph(State).add_node("go", lambda state: None).add_node("nap", nap).add_edge(START, "go")
    graph.add_conditional_edges("go", lambda state: [Send("nap", {"log": []})] * 4, ["nap"])
    timings = check(engine.invoke(graph.compile(), {"log": []}, timings=True).timings)
    assert timings.by_node["nap"] >= 4 * NAP
    assert timings.nodes < timings.by_node["nap"]


def test_nested_graphs_and_routers_are_in_it(engine):
    inner = StateGraph(State).add_node("nap", nap).add_edge(START, "nap")

    def slow(state: State) -> str:
        time.sleep(NAP)
        return "last"

    graph = (
        StateGraph(State)
        .add_node("inner", inner)
        .add_node("made", factory=lambda: nap)
        .add_node("last", rest)
    )
    graph.add_edge(START, "inner").add_edge("inner", "made").add_conditional_edges("made", slow, ["last"])
    timings = check(engine.invoke(graph.compile(), {"log": []}, timings=True).timings)
    assert timings.by_node.keys() == {"inner:nap", "made", "last"}
    assert timings.nodes >= 4 * NAP


class SlowSaver(InMemorySaver):
    """Takes its time over every checkpoint."""

    blocking = True

    def put(self, *args: Any, **options: Any) -> Any:
        time.sleep(NAP)
        return super().put(*args, **options)

    async def aput(self, *args: Any, **options: Any) -> Any:
        await asyncio.sleep(NAP)
        return super().put(*args, **options)


def test_what_the_saver_takes_is_the_savers(engine):
    graph = alone(lambda state: {"log": ["x"]}, checkpointer=SlowSaver())
    timings = check(engine.invoke(graph, {"log": []}, thread_id="t", timings=True).timings)
    assert timings.saver >= NAP


def test_only_runs_that_ask_are_timed(engine):
    assert engine.invoke(alone(nap), {"log": []}).timings is None
    check(engine.invoke(alone(nap, debug=True), {"log": []}).timings)


def test_a_failed_run_has_its_times(engine):
    def fails(state: State) -> Any:
        time.sleep(NAP)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as raised:
        engine.invoke(alone(fails), {"log": []}, timings=True)
    assert check(failure(raised.value).result.timings).nodes >= NAP


def test_an_error_handler_is_timed_by_its_own_name(engine):
    def fails(state: State) -> Any:
        raise ValueError("no")

    def settle(state: State, error: NodeError) -> dict[str, Any]:
        return nap(state)

    graph = StateGraph(State).add_node("it", fails, error_handler=settle).add_edge(START, "it").compile()
    timings = check(engine.invoke(graph, {"log": []}, timings=True).timings)
    assert timings.by_node["__error_handler__it"] >= NAP


def test_a_graph_that_a_node_calls_is_part_of_the_nodes_time(engine):
    inner = alone(nap)
    results: list[RunResult] = []

    def call(state: State) -> dict[str, Any]:
        results.append(inner.invoke(state, timings=True))
        return {"log": results[0]["log"]}

    timings = check(engine.invoke(alone(call), {"log": []}, timings=True).timings)
    assert timings.by_node["it"] >= NAP
    assert results[0].timings is None  # it is part of the run around it


def test_streams_that_are_left_early_are_closed(engine):
    closed: list[str] = []

    def endless(state: State) -> Any:
        try:
            while True:
                yield {"log": ["x"]}
        finally:
            closed.append("it")

    graph = alone(endless)
    engine.consume(graph, {"log": []}, lambda part: False, stream_mode="updates", timings=True)
    assert closed == ["it"]


def test_a_result_with_times_can_be_pickled_and_stored():
    result = alone(nap).invoke({"log": []}, timings=True)
    assert pickle.loads(pickle.dumps(result)).timings == result.timings
    kept = alone(lambda state: {"log": [result]}, checkpointer="memory:")
    kept.invoke({"log": []}, thread_id="t")
    assert kept.get_state("t").values["log"][0].timings == result.timings


def test_saving_while_a_node_runs_is_no_time_of_its_own():
    watch = Stopwatch()
    with watch.node("a"), watch.saver():
        time.sleep(NAP)
    timings = check(watch.timings())
    assert timings.saver == 0
    assert timings.nodes >= NAP
