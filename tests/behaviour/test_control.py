"""Steering a run from outside: drained, it ends cleanly and goes on later; cancelled, it ends at once (right-behaviour 50)."""

import asyncio
import threading
from contextlib import contextmanager
from typing import Any

import pytest

from juncture import (
    Cancelled,
    ConfigError,
    GraphDrained,
    RunControl,
    Runtime,
    failure,
    interrupt,
    task,
)
from tests.behaviour.building import builder, chain, fan, thread
from tests.behaviour.ran import Ran, State, asked

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def ran():
    return Ran()


@pytest.fixture
def control():
    return RunControl()


def drains(ran: Ran, control: RunControl, name: str = "drains", reason: str = "shutdown") -> Any:
    """A node in which somebody asks for the run to be drained, once."""

    def node(state):
        first = name not in ran
        ran.append(name)
        if first:
            control.request_drain(reason)
        return {"log": [name]}

    return node


# ── draining ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_running_step_is_done_and_saved_and_the_rest_goes_on_later(engine, saver, ran, control):
    graph = builder(
        State,
        {"a": drains(ran, control), "b": ran.step("b"), "c": ran.step("c")},
        ("__start__", "a"),
        ("__start__", "b"),
        (["a", "b"], "c"),
    ).compile(saver)
    result = engine.invoke(graph, {"x": 1}, thread(), control=control)
    assert (result.status, result.reason, result["log"]) == ("drained", "shutdown", ["drains", "b"])
    assert (result.steps, result.last_nodes, sorted(ran)) == (1, ("a", "b"), ["b", "drains"])
    state = engine.state(graph, thread())
    assert (state.next, state.values["log"]) == (("c",), ["drains", "b"])
    done = engine.invoke(graph, None, thread())
    assert (done.status, done.reason, done["log"]) == ("completed", None, ["drains", "b", "c"])


def test_if_nothing_more_is_due_the_run_is_just_done(engine, saver, ran, control):
    graph = chain(State, saver=saver, a=ran.step("a"), b=drains(ran, control))
    assert engine.invoke(graph, {"x": 1}, thread(), control=control).status == "completed"


def test_asked_for_before_it_begins_nothing_runs_but_the_input_is_kept(engine, saver, ran, control):
    graph = chain(State, saver=saver, a=ran.step("a"))
    control.request_drain("closing")
    result = engine.invoke(graph, {"log": ["in"]}, thread(), control=control)
    assert (result.status, result.reason, result["log"], ran) == ("drained", "closing", ["in"], [])
    assert engine.invoke(graph, None, thread())["log"] == ["in", "a"]


def test_from_another_thread(engine, ran, control):
    begun, asked_for = threading.Event(), threading.Event()

    def waits(state):
        begun.set()
        assert asked_for.wait(10)
        return {"log": ["waited"]}

    def ask():
        assert begun.wait(10)
        control.request_drain()
        asked_for.set()

    graph = chain(State, a=waits, b=ran.step("b"))
    asking = threading.Thread(target=ask)
    asking.start()
    result = engine.invoke(graph, {"x": 1}, control=control)
    asking.join()
    assert (result.status, result["log"]) == ("drained", ["waited"]), (
        "without a saver it can't go on, but it ends"
    )


def test_nodes_see_that_it_is_asked_for(engine, control):
    seen = []

    def looks(state, runtime: Runtime):
        seen.append((runtime.drain_requested, runtime.drain_reason))
        control.request_drain("enough")
        seen.append((runtime.drain_requested, runtime.drain_reason, runtime.control is control))

    engine.invoke(chain(State, a=looks), {"x": 1}, control=control)
    assert seen == [(False, None), (True, "enough", True)]

    def alone(state, runtime: Runtime):
        seen.append((runtime.drain_requested, runtime.drain_reason, runtime.control))

    engine.invoke(chain(State, a=alone), {"x": 1})
    assert seen[2:] == [(False, None, None)]


def test_a_lenient_graph_raises(engine, saver, ran, control):
    graph = chain(
        State, saver=saver, options={"strict": False}, a=drains(ran, control, reason="spot"), b=ran.step("b")
    )
    with pytest.raises(GraphDrained) as caught:
        engine.invoke(graph, {"x": 1}, thread(), control=control)
    assert caught.value.reason == "spot"
    assert failure(caught.value).result.status == "drained"
    assert engine.invoke(graph, None, thread())["log"] == ["drains", "b"]
    control = RunControl()
    control.request_drain()
    with pytest.raises(GraphDrained):
        engine.stream(graph, {"x": 2}, thread(), control=control)


def test_in_a_stream_it_just_ends(engine, saver, ran, control):
    graph = chain(State, saver=saver, a=drains(ran, control), b=ran.step("b"))
    assert engine.stream(graph, {"x": 1}, thread(), control=control) == [{"a": {"log": ["drains"]}}]
    assert engine.stream(graph, None, thread()) == [{"b": {"log": ["b"]}}]


def test_a_failure_goes_before_it(engine, saver, ran, control):
    graph = fan(State, saver=saver, a=drains(ran, control), b=ran.fails("b", 1))
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread(), control=control)
    assert engine.invoke(graph, None, thread())["log"] == ["drains", "b"]


# ── nested graphs ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_nested_graph_ends_after_its_own_step_and_goes_on_in_its_middle(engine, saver, ran, control):
    deep = chain(State, d1=ran.step("d1"), d2=drains(ran, control, "d2"), d3=ran.step("d3"))
    inner = chain(State, b1=ran.step("b1"), deep=deep, b3=ran.step("b3"))
    graph = builder(
        State,
        {"sub": inner, "beside": ran.step("beside"), "z": ran.step("z")},
        ("__start__", "sub"),
        ("__start__", "beside"),
        (["beside", "sub"], "z"),
    ).compile(saver)
    result = engine.invoke(graph, {"x": 1}, thread(), control=control)
    assert (result.status, result.reason) == ("drained", "shutdown")
    assert sorted(ran.since()) == ["b1", "beside", "d1", "d2"]
    done = engine.invoke(graph, None, thread())
    assert (done["log"], ran) == (["beside", "b1", "d1", "d2", "d3", "b3", "z"], ["d3", "b3", "z"])


def test_a_graph_that_a_function_calls(engine, saver, ran, control):
    inner = chain(State, c1=drains(ran, control, "c1"), c2=ran.step("c2"))

    def call(state):
        ran.append("call")
        try:
            return {"log": inner.invoke({"log": []})["log"]}
        except Exception:
            return {"log": ["swallowed"]}

    graph = chain(State, saver=saver, call=call, z=ran.step("z"))
    assert engine.invoke(graph, {"x": 1}, thread(), control=control).status == "drained"
    assert ran.since() == ["call", "c1"]
    assert engine.invoke(graph, None, thread())["log"] == ["c1", "c2", "z"]
    assert ran == ["call", "c2", "z"]
    inner.close()


def test_a_body_that_swallows_it_ends_all_the_same(engine, saver, ran, control):
    inner = chain(State, c1=drains(ran, control, "c1"), c2=ran.step("c2"))

    def call(state):
        log = []
        try:
            log = inner.invoke({"log": []})["log"]
        finally:
            return {"log": log or ["swallowed"]}  # noqa: B012 - what users do

    graph = chain(State, saver=saver, call=call)
    assert engine.invoke(graph, {"x": 1}, thread(), control=control).status == "drained"
    assert engine.invoke(graph, None, thread())["log"] == ["c1", "c2"]
    inner.close()


def test_a_graph_called_by_a_task(engine, saver, ran, control):
    inner = chain(State, c1=drains(ran, control, "c1"), c2=ran.step("c2"))

    @task
    def work():
        return inner.invoke({"log": []})["log"]

    graph = chain(State, saver=saver, call=lambda state: {"log": work().result()}, z=ran.step("z"))
    assert engine.invoke(graph, {"x": 1}, thread(), control=control).status == "drained"
    assert engine.invoke(graph, None, thread())["log"] == ["c1", "c2", "z"]
    inner.close()


def test_a_nested_graph_that_is_not_saved_is_part_of_the_running_step(engine, saver, ran, control):
    inner = builder(
        State, {"b1": drains(ran, control, "b1"), "b2": ran.step("b2")}, ("__start__", "b1"), ("b1", "b2")
    )
    graph = chain(State, saver=saver, sub=inner.compile(checkpointer=False), z=ran.step("z"))
    result = engine.invoke(graph, {"x": 1}, thread(), control=control)
    assert (result.status, result["log"]) == ("drained", ["b1", "b2"])
    assert engine.invoke(graph, None, thread())["log"] == ["b1", "b2", "z"]


def test_questions_beside_it_stay_open(engine, saver, ran, control):
    inner = chain(State, b1=drains(ran, control, "b1"), b2=ran.step("b2"))
    graph = fan(State, saver=saver, ask=lambda state: {"log": [interrupt("ok?")]}, sub=inner)
    result = engine.invoke(graph, {"x": 1}, thread(), control=control)
    assert (result.status, asked(result)) == ("drained", ["ok?"])
    assert engine.resume(graph, "yes", thread())["log"] == ["yes", "b1", "b2"]


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def cancelled(engine: Any):
    """The run is cancelled, which each driver says in its way."""
    with pytest.raises(asyncio.CancelledError if engine.is_async else Cancelled) as caught:
        yield caught


def test_a_run_is_cancelled_from_a_node_that_waits(engine, saver, ran, control):
    """What was saved stays: the finished step, and what had finished in the running one."""
    ended = threading.Event()

    async def forever(state):
        ran.append("forever")
        if "again" in ran:
            return {"log": ["at last"]}
        try:
            await asyncio.get_running_loop().run_in_executor(None, control.cancel, "too late")
            await asyncio.Event().wait()
        finally:
            ended.set()

    graph = chain(State, saver=saver, a=ran.step("a"), b=forever, c=ran.step("c"))
    with cancelled(engine) as caught:
        engine.invoke(graph, {"x": 1}, thread(), control=control)
    assert "too late" in str(caught.value)
    assert failure(caught.value).result.status == "cancelled"
    assert ended.is_set()
    assert engine.state(graph, thread()).values["log"] == ["a"]
    assert saver.leases() == []
    ran.append("again")
    assert engine.invoke(graph, None, thread())["log"] == ["a", "at last", "c"]


def test_a_running_sync_node_beside_others_is_abandoned(engine, saver, ran, control):
    let_go, began = threading.Event(), threading.Event()

    def stuck(state):
        began.set()
        if ran.count("again"):
            return {"log": ["unstuck"]}
        let_go.wait(30)
        return {"log": ["too late"]}

    def cancels(state):
        assert began.wait(10)
        ran.append("cancels")
        return {"log": ["cancels"]}

    def cancel_when_saved():
        while not engine.state(graph, thread()).tasks or "cancels" not in ran:
            let_go.wait(0.01)
        control.cancel()

    graph = fan(State, saver=saver, a=stuck, b=cancels)
    cancelling = threading.Thread(target=cancel_when_saved)
    cancelling.start()
    with cancelled(engine) as caught:
        engine.invoke(graph, {"x": 1}, thread(), control=control)
    cancelling.join()
    assert failure(caught.value).result.abandoned == 1
    let_go.set()
    ran.append("again")
    assert engine.invoke(graph, None, thread())["log"] == ["unstuck", "cancels"]


def test_by_the_id_of_the_run(engine, ran):
    async def waits(state, runtime: Runtime):
        run_id = runtime.execution_info.run_id
        assert not graph.cancel("another")
        assert graph.cancel(run_id)
        await asyncio.Event().wait()

    graph = chain(State, a=waits, b=ran.step("b"))
    with cancelled(engine):
        engine.invoke(graph, {"x": 1})
    assert ran == []
    assert graph.runs == {}


def test_a_lone_sync_node_ends_first(engine, saver, ran, control):
    def node(state):
        ran.append("node")
        control.cancel()
        return {"log": ["node"]}

    graph = chain(State, saver=saver, a=node, b=ran.step("b"))
    with cancelled(engine):
        engine.invoke(graph, {"x": 1}, thread(), control=control)
    assert "b" not in ran


def test_cancelled_before_it_begins(engine, ran, control):
    control.cancel()
    with cancelled(engine):
        engine.invoke(chain(State, a=ran.step("a")), {"x": 1}, control=control)
    assert ran == []


def test_everything_under_it_is_cancelled(engine, saver, ran, control):
    ended = []

    async def forever(state):
        try:
            control.cancel()
            await asyncio.Event().wait()
        finally:
            ended.append("nested")

    inner = chain(State, b=forever)

    async def call(state):
        try:
            return await inner.ainvoke({"x": 1})
        finally:
            ended.append("call")

    graph = chain(State, saver=saver, sub=chain(State, call=call), z=ran.step("z"))
    with cancelled(engine):
        engine.invoke(graph, {"x": 1}, thread(), control=control)
    assert (ended, ran) == (["nested", "call"], [])
    assert saver.leases() == []
    inner.close()


def test_in_a_stream(engine, ran, control):
    graph = chain(State, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    seen = []

    def use(item):
        seen.append(item)
        control.cancel()

    with cancelled(engine):
        engine.consume(graph, {"x": 1}, use, control=control)
    assert seen == [{"a": {"log": ["a"]}}]
    assert "c" not in ran


def test_the_task_that_awaits_a_cancelled_run_is_not_cancelled_itself(ran, control):
    async def forever(state):
        control.cancel()
        await asyncio.Event().wait()

    async def main():
        with pytest.raises(asyncio.CancelledError):
            await chain(State, a=forever).ainvoke({"x": 1}, control=control)
        await asyncio.sleep(0)
        return asyncio.current_task().cancelling()

    assert asyncio.run(main()) == 0


def test_a_control_is_one(engine, ran):
    with pytest.raises(ConfigError, match="RunControl"):
        engine.invoke(chain(State, a=ran.step("a")), {"x": 1}, control="stop")
