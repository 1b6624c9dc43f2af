"""How much runs at once: `max_concurrency` wherever users put it, nested graphs under it, and batches."""

import asyncio
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    ConfigError,
    Send,
    StateGraph,
    task,
)
from tests.behaviour.building import chain, fan, thread
from tests.behaviour.leftovers import no_other_task, nothing_left

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


class Gauge:
    """How many are inside at once, and how many were at most."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self.now -= 1


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────


def sends(node, count):
    return (
        StateGraph(State)
        .add_node("n", node)
        .add_conditional_edges(START, lambda state: [Send("n", {"x": n}) for n in range(count)])
        .compile()
    )


PLACES = [lambda n: {"max_concurrency": n}, lambda n: {"configurable": {"max_concurrency": n}}]


@pytest.mark.parametrize("config", PLACES, ids=["top", "configurable"])
@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_sync_nodes_run_at_once_than_allowed_and_so_many_do(engine, limit, config):
    gauge = Gauge()
    together = threading.Barrier(limit)

    def node(state):
        with gauge:
            together.wait(WAIT)
        return {"log": [state["x"]]}

    result = engine.invoke(sends(node, 12), {"x": 1}, config(limit))
    assert result["log"] == list(range(12))
    assert gauge.most == limit


@pytest.mark.parametrize("config", PLACES, ids=["top", "configurable"])
@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_async_nodes_run_at_once_than_allowed_and_so_many_do(engine, limit, config):
    gauge = Gauge()
    waiting: list[Any] = []

    async def node(state):
        with gauge:
            mine = asyncio.get_running_loop().create_future()
            waiting.append(mine)
            if len(waiting) == limit:
                for other in waiting:
                    other.set_result(None)
                waiting.clear()
            await mine
        return {"log": [state["x"]]}

    graph = sends(node, 12)
    assert engine.invoke(graph, {"x": 1}, config(limit))["log"] == list(range(12))
    assert gauge.most == limit
    graph.close()


def test_both_colours_count_together(engine):
    gauge = Gauge()

    def sync(state):
        with gauge:
            return {"log": ["sync"]}

    async def coloured(state):
        with gauge:
            await asyncio.sleep(0.001)
        return {"log": ["async"]}

    graph = fan(State, a=sync, b=coloured, c=sync, d=coloured, e=sync, f=coloured)
    assert engine.invoke(graph, {"x": 1}, {"max_concurrency": 1})["log"] == ["sync", "async"] * 3
    assert gauge.most == 1
    graph.close()


def test_forty_sync_nodes_meet_at_a_barrier(engine):
    together = threading.Barrier(40)

    def node(state):
        together.wait(WAIT)

    assert engine.invoke(sends(node, 40), {"x": 1}).status == "completed"


def test_more_than_the_default_limit_of_async_nodes_run_at_once(engine):
    """There is no default limit for async nodes."""
    count = 300
    waiting: list[Any] = []

    async def node(state):
        mine = asyncio.get_running_loop().create_future()
        waiting.append(mine)
        if len(waiting) == count:
            for other in waiting:
                other.set_result(None)
        await mine

    graph = sends(node, count)
    assert engine.invoke(graph, {"x": 1}).status == "completed"
    graph.close()


def test_without_a_limit_at_most_128_workers_run(engine):
    gauge = Gauge()
    full = threading.Event()

    def node(state):
        with gauge:
            if gauge.now >= 128:
                full.set()
            assert full.wait(WAIT)

    engine.invoke(sends(node, 200), {"x": 1})
    assert gauge.most == 128


@pytest.mark.parametrize("kind", ["node", "invoke", "task"])
@pytest.mark.parametrize("depth", [1, 3])
def test_nested_fan_outs_under_a_limit_of_one_finish(engine, kind, depth):
    """Whoever waits for something nested gives its place back."""
    graph = sends(lambda state: {"log": [1]}, 3)
    for _ in range(depth):
        inner = graph

        def call(state, inner=inner):
            return {"log": inner.invoke({"x": 1})["log"]}

        part = task(call)

        def call_task(state, part=part):
            return part(state).result()

        graph = sends({"node": inner, "invoke": call, "task": call_task}[kind], 2)
    result = engine.invoke(graph, {"x": 1}, {"max_concurrency": 1})
    assert result["log"] == [1] * 3 * 2**depth


def test_a_graph_called_inside_shares_its_callers_limit(engine):
    gauge = Gauge()

    def leaf(state):
        with gauge:
            threading.Event().wait(0.002)

    inner = sends(leaf, 4)
    graph = sends(lambda state: inner.invoke({"x": 1}) and None, 4)
    engine.invoke(graph, {"x": 1}, {"max_concurrency": 2})
    assert gauge.most <= 2


# ── batch ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_batch_gives_results_in_the_order_of_the_inputs(engine, colour):
    graph = chain(State, a=colour(lambda state: {"y": state["x"] * 2}))
    results = engine.batch(graph, [{"x": n} for n in range(20)])
    assert [result["y"] for result in results] == [n * 2 for n in range(20)]
    assert len({result.run_id for result in results}) == 20
    assert engine.batch(graph, []) == []
    graph.close()


def test_batch_runs_side_by_side(engine):
    together = threading.Barrier(4)

    def node(state):
        together.wait(WAIT)

    assert len(engine.batch(chain(State, a=node), [{"x": n} for n in range(4)])) == 4


def test_batch_takes_one_config_for_all_or_one_for_each(engine, saver):
    graph = chain(State, saver=saver, a=lambda state: {"log": [state["x"]]})
    engine.batch(graph, [{"x": 1}, {"x": 2}], [thread("one"), thread("two")])
    results = engine.batch(graph, [{"x": 3}, {"x": 4}], [thread("one"), thread("two")])
    assert [result["log"] for result in results] == [[1, 3], [2, 4]]
    with pytest.raises(ConfigError, match=r"2 inputs.*1 config"):
        engine.batch(graph, [{"x": 1}, {"x": 2}], [thread("one")])


@pytest.mark.parametrize("config", PLACES, ids=["top", "configurable"])
def test_batch_is_bounded_by_max_concurrency(engine, config):
    gauge = Gauge()

    def node(state):
        with gauge:
            threading.Event().wait(0.002)

    engine.batch(chain(State, a=node), [{"x": n} for n in range(10)], config(2))
    assert gauge.most == 2


def test_batch_raises_the_first_failure_or_returns_them(engine):
    def node(state):
        if state["x"] in (2, 3):
            raise ValueError(state["x"])
        return {"y": state["x"]}

    graph = chain(State, a=node)
    inputs = [{"x": n} for n in range(5)]
    with pytest.raises(ValueError, match="2"):
        engine.batch(graph, inputs)
    results = engine.batch(graph, inputs, return_exceptions=True)
    assert [type(result).__name__ for result in results] == [
        "RunResult", "RunResult", "ValueError", "ValueError", "RunResult",
    ]  # fmt: skip


def test_a_failed_batch_leaves_nothing_running(engine):
    """The runs beside the one that failed are over when the failure is raised."""
    ended: list[int] = []
    failing = threading.Event()

    async def node(state):
        if state["x"] == 0:
            failing.set()
            raise ValueError("no")
        try:
            while not failing.is_set():  # noqa: ASYNC110 - it is set in another loop
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
        finally:
            ended.append(state["x"])

    graph = chain(State, a=node)

    async def main():
        with pytest.raises(ValueError, match="no"):
            await graph.abatch([{"x": n} for n in range(4)])
        no_other_task()

    with nothing_left():
        if engine.is_async:
            asyncio.run(main())
        else:
            with pytest.raises(ValueError, match="no"):
                graph.batch([{"x": n} for n in range(4)])
        graph.close()
    if engine.is_async:
        assert sorted(ended) == [1, 2, 3]
    else:
        assert set(ended) <= {1, 2, 3}, "those that had not begun never do"
