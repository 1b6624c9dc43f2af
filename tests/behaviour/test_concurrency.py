"""Many runs at once, runs inside of runs, and the two colours mixed."""

import asyncio
import gc
import operator
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    InMemorySaver,
    Runtime,
    StateGraph,
)
from juncture.errors import ThreadBusyError
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.behaviour.leftovers import no_other_task, nothing_left

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


# ── runs at once share nothing ───────────────────────────────────────────────────────────────────────────────


def shared_graph(saver=None):
    """Its nodes check, all the way, that what they see is their own run's."""

    def first(state, runtime: Runtime):
        assert runtime.context == state["x"]
        return {"log": [("first", state["x"])]}

    async def second(state, runtime: Runtime):
        await asyncio.sleep(0)
        assert runtime.context == state["x"]
        return {"log": [("second", state["x"], runtime.execution_info.run_id)]}

    def inner(state):
        return {"log": [("inner", state["x"])]}

    nodes = {"first": first, "second": second, "sub": chain(State, leaf=inner)}
    return builder(State, nodes, (START, "first"), ("first", "second"), ("first", "sub")).compile(saver)


def check_own(result, number):
    run_id = result.run_id
    assert result["log"] == [("first", number), ("second", number, run_id), ("inner", number)]


@pytest.mark.parametrize("with_saver", [False, True])
def test_runs_in_threads_share_nothing(with_saver):
    graph = shared_graph(InMemorySaver() if with_saver else None)
    together = threading.Barrier(8)

    def run(number):
        if number < 8:
            together.wait(WAIT)
        config = thread(f"t{number}") if with_saver else None
        result = graph.invoke({"x": number}, config, context=number)
        check_own(result, number)
        return result.run_id

    with nothing_left():
        with ThreadPoolExecutor(8) as threads:
            ids = list(threads.map(run, range(60)))
        graph.close()
    assert len(set(ids)) == 60


@pytest.mark.parametrize("with_saver", [False, True])
def test_runs_in_tasks_share_nothing(with_saver):
    graph = shared_graph(InMemorySaver() if with_saver else None)

    async def run(number):
        config = thread(f"t{number}") if with_saver else None
        result = await graph.ainvoke({"x": number}, config, context=number)
        check_own(result, number)
        return result.run_id

    async def main():
        ids = await asyncio.gather(*[run(number) for number in range(100)])
        assert len(set(ids)) == 100
        no_other_task()

    with nothing_left():
        asyncio.run(main())


def test_sync_and_async_runs_at_once_from_several_loops_and_threads():
    graph = shared_graph()

    def sync(number):
        check_own(graph.invoke({"x": number}, context=number), number)

    def own_loop(number):
        check_own(asyncio.run(graph.ainvoke({"x": number}, context=number)), number)

    with nothing_left():
        with ThreadPoolExecutor(6) as threads:
            done = [threads.submit(sync if n % 2 else own_loop, n) for n in range(40)]
            for future in done:
                future.result()
        graph.close()


def test_streams_interleaved_in_one_thread_share_nothing():
    graph = chain(State, a=lambda s: {"log": [s["x"]]}, b=lambda s: {"log": [s["x"] + 1]})
    with closing(graph.stream({"x": 10})) as one, closing(graph.stream({"x": 20})) as other:
        assert next(one) == {"a": {"log": [10]}}
        assert next(other) == {"a": {"log": [20]}}
        assert next(one) == {"b": {"log": [11]}}
        assert next(other) == {"b": {"log": [21]}}


def test_a_stream_may_be_consumed_by_one_thread_after_another():
    graph = chain(State, a=wrote("x", 1), b=fan(State, c=nothing, d=nothing), e=wrote("x", 2))
    stream = graph.stream({"x": 0})
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        assert one.submit(next, stream).result() == {"a": {"x": 1}}
        assert other.submit(next, stream).result() == {"b": None}
        assert one.submit(next, stream).result() == {"e": {"x": 2}}
        assert other.submit(next, stream, "end").result() == "end"


def test_a_failing_run_does_not_disturb_those_beside_it(engine):
    def node(state):
        if state["x"] % 2:
            raise ValueError(state["x"])
        return {"y": state["x"]}

    graph = fan(State, a=node, b=nothing)
    results = engine.batch(graph, [{"x": n} for n in range(20)], return_exceptions=True)
    for number, result in enumerate(results):
        if number % 2:
            assert isinstance(result, ValueError)
            assert result.args == (number,)
        else:
            assert result["y"] == number


def test_two_runs_of_one_thread_cannot_overwrite_each_other(engine, saver):
    """The one that comes second is told that the thread is busy; the first ends as if nothing had been."""
    begun, let_go = threading.Event(), threading.Event()

    def node(state):
        begun.set()
        assert let_go.wait(WAIT)
        return {"log": [state["x"]]}

    graph = chain(State, saver=saver, a=node, b=nothing)
    with ThreadPoolExecutor(1) as other:
        slow = other.submit(engine.invoke, graph, {"x": "slow"}, thread())
        assert begun.wait(WAIT)
        with pytest.raises(ThreadBusyError) as busy:
            engine.invoke(graph, {"x": "quick"}, thread())
        let_go.set()
        first = slow.result(WAIT)
    assert busy.value.thread_id == "t"
    assert first["log"] == ["slow"]
    assert saver.load("t").checkpoint.checkpoint_id == first.checkpoint.checkpoint_id
    assert engine.invoke(graph, {"x": "quick"}, thread())["log"] == ["slow", "quick"]


# ── the two colours mixed ────────────────────────────────────────────────────────────────────────────────────


def colours():
    async def tint(state):
        await asyncio.sleep(0)
        return {"log": ["async"]}

    return chain(State, a=tint, b=lambda state: {"log": ["sync"]}, c=tint)


def test_invoke_inside_a_running_loop():
    async def main():
        graph = colours()
        assert graph.invoke({"x": 1})["log"] == ["async", "sync", "async"]
        assert [next(iter(item)) for item in graph.stream({"x": 1})] == ["a", "b", "c"]
        graph.close()
        no_other_task()

    with nothing_left():
        asyncio.run(main())


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("kinds", ["sync", "async", "mixed"])
def test_invoke_inside_nodes_at_any_depth(engine, depth, kinds):
    """An async node that calls invoke blocks its loop; what is async below it gets another."""
    graph = colours()
    owned = [graph]
    for level in range(depth):

        def call(state, inner=graph):
            return {"log": [("in", *inner.invoke({"x": 1})["log"])]}

        async def acall(state, inner=graph):
            await asyncio.sleep(0)
            return {"log": [("in", *inner.invoke({"x": 1})["log"])]}

        use = acall if kinds == "async" or (kinds == "mixed" and level % 2) else call
        graph = fan(State, a=use, b=use)
        owned.append(graph)

    def leaves(log):
        return sum(leaves(item[1:]) if isinstance(item, tuple) else 1 for item in log)

    with nothing_left():
        result = engine.invoke(graph, {"x": 1})
        for compiled in owned:
            compiled.close()
    assert leaves(result["log"]) == 3 * 2**depth


def test_ainvoke_inside_async_nodes(engine):
    inner = colours()

    async def call(state):
        return {"log": (await inner.ainvoke({"x": 1}))["log"]}

    graph = fan(State, a=call, b=call)
    assert engine.invoke(graph, {"x": 1})["log"] == ["async", "sync", "async"] * 2
    graph.close()
    inner.close()


def test_one_graph_calls_itself(engine):
    """Recursion through invoke, with async nodes at every level."""
    holder: list[Any] = []

    async def node(state):
        await asyncio.sleep(0)
        if state["x"] == 0:
            return {"log": [0]}
        return {"log": [state["x"], *holder[0].invoke({"x": state["x"] - 1})["log"]]}

    graph = chain(State, a=node)
    holder.append(graph)
    assert engine.invoke(graph, {"x": 5})["log"] == [5, 4, 3, 2, 1, 0]
    graph.close()


def test_sync_nodes_of_an_async_run_do_not_block_the_loop():
    """A sync node waits for something that only the loop's thread will do."""
    let_go = threading.Event()

    def node(state):
        assert let_go.wait(WAIT)
        assert threading.current_thread() is not threading.main_thread()

    async def main():
        running = asyncio.ensure_future(chain(State, a=node).ainvoke({"x": 1}))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not running.done()
        let_go.set()
        await running

    asyncio.run(main())


def test_a_lone_sync_node_of_a_sync_run_is_called_in_the_callers_thread():
    seen: list[threading.Thread] = []
    graph = chain(State, a=lambda state: seen.append(threading.current_thread()))
    graph.invoke({"x": 1})
    list(graph.stream({"x": 1}, stream_mode=["values", "updates", "tasks"]))
    assert seen == [threading.current_thread()] * 2


def test_an_inline_node_runs_on_the_loops_thread_in_async_runs():
    seen: list[threading.Thread] = []

    def look(state):
        seen.append(threading.current_thread())

    def build(count):
        graph = StateGraph(State)
        for number in range(count):
            graph.add_node(f"n{number}", look, inline=True).add_edge(START, f"n{number}")
        return graph.compile()

    async def main():
        await build(1).ainvoke({"x": 1})
        await build(3).ainvoke({"x": 1})
        async for _ in build(1).astream({"x": 1}, stream_mode=["custom", "updates"]):
            pass

    asyncio.run(main())
    assert seen == [threading.current_thread()] * 5


def test_an_inline_generator_runs_on_the_loops_thread(engine):
    seen: list[threading.Thread] = []

    def node(state):
        seen.append(threading.current_thread())
        yield {"log": [1]}
        yield {"log": [2]}

    graph = StateGraph(State).add_node("a", node, inline=True).add_edge(START, "a").compile()
    assert engine.invoke(graph, {"x": 1})["log"] == [1, 2]
    assert seen == [threading.current_thread()]


def test_routers_run_on_the_loops_thread_in_async_runs():
    seen: list[threading.Thread] = []

    def route(state):
        seen.append(threading.current_thread())
        return []

    graph = builder(State, {"a": nothing, "b": nothing}, (START, "a"), (START, "b"))
    graph.add_conditional_edges(START, route, ["a"], name="entry")
    graph.add_conditional_edges("a", route, ["b"]).add_conditional_edges("b", route, ["a"])
    asyncio.run(graph.compile().ainvoke({"x": 1}))
    assert seen == [threading.current_thread()] * 3


def test_async_routers_work_in_sync_runs(engine):
    async def route(state):
        await asyncio.sleep(0)
        return "b" if state["log"] == ["a"] else []

    graph = builder(State, {"a": wrote("log", ["a"]), "b": wrote("log", ["b"])}, (START, "a"))
    compiled = graph.add_conditional_edges("a", route, ["b"]).compile()
    assert engine.invoke(compiled, {"x": 1})["log"] == ["a", "b"]
    compiled.close()


def loops() -> set[threading.Thread]:
    """The threads of event loops that compiled graphs own."""
    return {t for t in threading.enumerate() if t.name.startswith("juncture-loop")}


def test_closing_a_graph_ends_every_thread_that_its_nodes_loops_started(engine):
    """asyncio.to_thread in an async node uses its loop's executor."""

    async def node(state):
        return {"x": await asyncio.to_thread(lambda: 7)}

    before = loops()
    with nothing_left():
        graph = chain(State, a=node)
        assert engine.invoke(graph, {"x": 1})["x"] == 7
        graph.close()
    assert loops() <= before


@pytest.mark.timeout(5)
def test_closing_a_graph_while_it_runs_ends_the_run():
    """With whatever error; but it doesn't wait for ever for a loop that was stopped."""
    begun = threading.Event()

    async def node(state):
        begun.set()
        await asyncio.sleep(0.2)
        return {"x": 2}

    graph = chain(State, a=node)

    def close():
        assert begun.wait(WAIT)
        graph.close()

    with ThreadPoolExecutor(1) as other:
        closing_graph = other.submit(close)
        try:
            assert graph.invoke({"x": 1})["x"] == 2
        except Exception as error:
            assert "close" in str(error)  # noqa: PT017 - either is right
        closing_graph.result(WAIT)


def test_a_graph_works_again_after_close(engine):
    graph = colours()
    engine.invoke(graph, {"x": 1})
    graph.close()
    assert engine.invoke(graph, {"x": 1})["log"] == ["async", "sync", "async"]
    graph.close()
    graph.close()


def test_a_graph_that_is_dropped_ends_its_loops():
    gc.collect()
    before = loops()
    graph = colours()
    graph.invoke({"x": 1})
    assert loops() > before
    del graph
    gc.collect()
    assert loops() <= before


def test_an_async_node_runs_on_one_loop_in_a_sync_run():
    """Clients bound to a loop work across nodes and runs."""
    loops: list[Any] = []

    async def node(state):
        loops.append(asyncio.get_running_loop())

    graph = chain(State, a=node, b=fan(State, c=node, d=node))
    graph.invoke({"x": 1})
    graph.invoke({"x": 1})
    assert len(set(map(id, loops))) == 1
    graph.close()
