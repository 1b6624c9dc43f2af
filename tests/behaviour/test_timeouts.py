"""Time limits of nodes: what is stopped, what is abandoned, what counts as a sign of life. On a clock that a test moves."""

import asyncio
import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    GraphBuildError,
    InMemorySaver,
    NodeTimeoutError,
    RetryPolicy,
    RoutingError,
    Runtime,
    Send,
    StateGraph,
    TimeoutPolicy,
    failure,
    get_stream_writer,
    interrupt,
    task,
)
from juncture.errors import Cancelled
from juncture.testing import FakeClock
from tests.behaviour.building import chain, fan, thread
from tests.behaviour.leftovers import in_time, nothing_left

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


AT_ONCE = RetryPolicy(initial_interval=0, jitter=False)


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    with FakeClock() as clock:
        yield clock


class Slow:
    """Nodes that take so many seconds of the fake clock, unless they are stopped; of either colour."""

    def __init__(self, clock: FakeClock, kind: str) -> None:
        self.clock = clock
        self.kind = kind
        self.release = threading.Event()
        self.ended: list[str] = []
        self.over = threading.Semaphore(0)
        """Counts the sync ones that have returned, some of them long after they were given up."""

    def __call__(self, *seconds: float, then: Any = None) -> Callable[..., Any]:
        """A node whose tries take so long, one after the other; the last also stands for all further ones."""
        left = list(seconds)

        def began() -> float:
            return left.pop(0) if len(left) > 1 else left[0]

        def node(state):
            try:
                taken = began()
                self.clock.advance(taken)
                if taken > 5:
                    assert self.release.wait(WAIT)
                return {"log": [f"took {taken:g}"]} if then is None else then()
            finally:
                self.over.release()

        async def anode(state):
            try:
                taken = began()
                self.clock.advance(taken)
                if taken > 5:
                    await asyncio.Event().wait()
                return {"log": [f"took {taken:g}"]} if then is None else then()
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise

        return node if self.kind == "def" else anode

    def finish(self, count: int) -> None:
        """Lets the sync nodes end that were given up, and waits for them."""
        self.release.set()
        if self.kind == "def":
            for _ in range(count):
                assert self.over.acquire(timeout=WAIT)


@pytest.fixture(params=["def", "async def"])
def slow(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Slow]:
    made = Slow(clock, request.param)
    yield made
    made.release.set()


def limited(node, timeout: Any, **options: Any):
    saver = options.pop("saver", None)
    graph = StateGraph(State).add_node("a", node, timeout=timeout, **options)
    return graph.add_edge(START, "a").compile(saver)


# ── the limit of a whole try ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "timeout",
    [5, 5.0, timedelta(seconds=5), TimeoutPolicy(run_timeout=5)],
    ids=["int", "float", "timedelta", "policy"],
)
def test_a_node_that_takes_too_long_fails_with_its_place(engine, slow, timeout):
    graph = limited(slow(7), timeout)
    with pytest.raises(NodeTimeoutError) as caught:
        in_time(lambda: engine.invoke(graph, {"x": 1}))
    error = caught.value
    assert (error.node, error.kind, error.timeout, error.elapsed) == ("a", "run", 5, 7)
    assert (error.run_timeout, error.idle_timeout) == (5, None)
    assert failure(error).node == "a"
    assert not isinstance(error, TimeoutError)
    assert error.result.abandoned == (slow.kind == "def")
    slow.finish(1)
    assert slow.ended == ([] if slow.kind == "def" else ["cancelled"])


def test_a_node_in_time_is_as_without_a_limit(engine, slow, saver):
    graph = chain(State, saver=saver, a=slow(4), b=slow(4.5))
    for node in graph.tables.nodes.values():
        node.timeout = TimeoutPolicy(run_timeout=5)
    with nothing_left():
        result = engine.invoke(graph, {"x": 1}, thread())
        graph.close()
    assert (result["log"], result.abandoned) == (["took 4", "took 4.5"], 0)


def test_a_try_that_timed_out_is_retried_and_its_late_result_is_discarded(engine, slow, saver):
    graph = limited(slow(7, 1), 5, retry_policy=AT_ONCE, saver=saver)
    result = in_time(lambda: engine.invoke(graph, {"x": 1}, thread()))
    assert (result["log"], result.steps) == (["took 1"], 1)
    assert result.abandoned == (slow.kind == "def")
    slow.finish(2)
    assert engine.state(graph, thread()).values["log"] == ["took 1"]


def test_the_limit_holds_for_each_try(engine, slow):
    graph = limited(slow(7, 8, 4), 5, retry_policy=AT_ONCE)
    assert in_time(lambda: engine.invoke(graph, {"x": 1}))["log"] == ["took 4"]


def test_the_last_try_that_timed_out_is_raised(engine, slow):
    graph = limited(slow(7, 8, 9), 5, retry_policy=AT_ONCE)
    with pytest.raises(NodeTimeoutError) as caught:
        in_time(lambda: engine.invoke(graph, {"x": 1}))
    assert (caught.value.elapsed, caught.value.attempt) == (9, 3)
    assert any("attempt 3 of 3 was the last" in note for note in caught.value.__notes__)


def test_a_node_beside_others_times_out_and_they_are_stopped(engine, slow):
    graph = StateGraph(State).add_node("a", slow(7), timeout=5).add_node("b", lambda state: {"log": ["b"]})
    graph.add_edge(START, "a").add_edge(START, "b")
    with pytest.raises(NodeTimeoutError) as caught:
        in_time(lambda: engine.invoke(graph.compile(), {"x": 1}))
    assert caught.value.node == "a"


def test_a_saved_result_of_a_sibling_survives_the_time_out(engine, slow, saver):
    ran: list[str] = []

    def other(state):
        ran.append("b")
        return {"log": ["b"]}

    graph = StateGraph(State).add_node("a", slow(7, 1), timeout=5).add_node("b", other)
    app = graph.add_edge(START, "a").add_edge(START, "b").compile(saver)
    with pytest.raises(NodeTimeoutError):
        in_time(lambda: engine.invoke(app, {"x": 1}, thread()))
    result = engine.invoke(app, None, thread())
    assert result["log"] == ["took 1", "b"]
    assert len(ran) in (1, 2), "twice only if it was stopped before it had ended"


def test_a_slow_consumer_is_not_the_nodes_fault(engine, clock):
    """The node ends in time; its consumer lets the limit pass before it asks for more."""

    def node(state):
        get_stream_writer()("piece")
        return {"log": ["in time"]}

    graph = limited(node, 5)
    got = engine.consume(
        graph, {"x": 1}, lambda item: clock.advance(9) if item[0] == "updates" else None,
        stream_mode=["custom", "updates"],
    )  # fmt: skip
    assert [mode for mode, _ in got] == ["custom", "updates"]


def test_default_limits_and_own_ones(engine, slow):
    graph = StateGraph(State).add_node("a", slow(4), timeout=5).add_node("b", slow(4))
    graph.add_edge(START, "a").add_edge("a", "b").set_node_defaults(timeout=3)
    with pytest.raises(NodeTimeoutError) as caught:
        engine.invoke(graph.compile(), {"x": 1})
    assert (caught.value.node, caught.value.timeout) == ("b", 3)


def test_a_send_may_have_a_limit_of_its_own(engine, slow):
    def node(state):
        slow.clock.advance(4)
        return {"log": [state]}

    graph = StateGraph(State).add_node("a", node, timeout=3)
    graph.add_conditional_edges(START, lambda state: [Send("a", 1, timeout=state["x"])], ["a"])
    app = graph.compile()
    assert engine.invoke(app, {"x": TimeoutPolicy(run_timeout=5)})["log"] == [1]
    with pytest.raises(NodeTimeoutError) as caught:
        engine.invoke(app, {"x": 2})
    assert caught.value.timeout == 2


def test_the_limit_of_a_send_is_saved_with_it(engine, saver, clock):
    policy = TimeoutPolicy(idle_timeout=3, refresh_on="heartbeat")

    def node(state):
        clock.advance(4)
        return {"log": [state]}

    graph = StateGraph(State).add_node("a", node)
    graph.add_conditional_edges(START, lambda state: [Send("a", 1, timeout=policy)], ["a"])
    app = graph.compile(saver, interrupt_before=["a"])
    engine.invoke(app, {"x": 1}, thread())
    with pytest.raises(NodeTimeoutError) as caught:
        engine.invoke(app, None, thread())
    assert (caught.value.kind, caught.value.idle_timeout) == ("idle", 3)


# ── abandoned sync nodes ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["writer", "interrupt", "heartbeat", "call", "graph"])
def test_an_abandoned_try_can_ask_nothing_of_its_run(engine, clock, what):
    release, over = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    @task
    def part():
        raise AssertionError("it isn't begun")

    inner = chain(State, b=lambda state: {"log": ["b"]})
    ask = {
        "writer": lambda runtime: runtime.stream_writer("late"),
        "interrupt": lambda runtime: interrupt("late?"),
        "heartbeat": lambda runtime: runtime.heartbeat(),
        "call": lambda runtime: part().result(),
        "graph": lambda runtime: inner.invoke({"x": 1}),
    }[what]

    def node(state, runtime: Runtime):
        if runtime.execution_info.node_attempt == 2:
            return {"log": ["second"]}
        clock.advance(9)
        assert release.wait(WAIT)
        try:
            ask(runtime)
        except BaseException as error:
            raised.append(error)
        over.set()
        return {"log": ["first"]}

    def last(state):
        release.set()
        assert over.wait(WAIT)
        return {"log": ["last"]}

    graph = StateGraph(State).add_node("a", node, timeout=5, retry_policy=AT_ONCE).add_node("b", last)
    app = graph.add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver())
    items = in_time(lambda: engine.stream(app, {"x": 1}, thread(), stream_mode=["custom", "values"]))
    assert [mode for mode, _ in items] == ["values"] * 3
    assert items[-1][1]["log"] == ["second", "last"]
    assert [type(error) for error in raised] == [Cancelled]


def test_a_thousand_late_tries_leave_the_others_their_workers(engine, clock):
    """More tries are given up than a run may have workers; each gets a thread all the same."""
    release = threading.Event()
    over = threading.Semaphore(0)

    def node(state, runtime: Runtime):
        if runtime.execution_info.node_attempt == 2:
            return {"log": [state]}
        clock.advance(9)
        release.wait(WAIT)
        over.release()
        return None

    graph = StateGraph(State).add_node("a", node, timeout=5, retry_policy=AT_ONCE)
    graph.add_conditional_edges(START, lambda state: [Send("a", n) for n in range(140)], ["a"])
    result = in_time(lambda: engine.invoke(graph.compile(), {"x": 1}), 15)
    assert result["log"] == list(range(140))
    assert result.abandoned == 140
    release.set()
    for _ in range(140):
        assert over.acquire(timeout=WAIT)


# ── async nodes ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_async_node_that_swallows_its_cancellation_has_timed_out_all_the_same(engine, clock):
    async def node(state):
        clock.advance(9)
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return {"log": ["late"]}

    with pytest.raises(NodeTimeoutError):
        in_time(lambda: engine.invoke(limited(node, 5), {"x": 1}))


def test_an_async_node_may_clean_up(engine, clock):
    did: list[str] = []

    async def node(state):
        try:
            clock.advance(9)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            did.append("cleaned up")

    with pytest.raises(NodeTimeoutError):
        in_time(lambda: engine.invoke(limited(node, 5), {"x": 1}))
    assert did == ["cleaned up"]


def test_the_run_is_not_cancelled_by_the_time_out_of_its_node(clock):
    """The lone node is awaited in the caller's own asyncio task, which goes on."""

    async def node(state):
        clock.advance(9)
        await asyncio.Event().wait()

    async def main():
        with pytest.raises(NodeTimeoutError):
            await limited(node, 5).ainvoke({"x": 1})
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0
        await asyncio.sleep(0)
        return "went on"

    assert in_time(lambda: asyncio.run(main())) == "went on"


def test_a_cancellation_from_outside_wins_over_a_time_out(clock):
    async def node(state):
        clock.advance(9)
        outer.cancel()
        await asyncio.Event().wait()

    async def main():
        nonlocal outer
        outer = asyncio.ensure_future(limited(node, 5).ainvoke({"x": 1}))
        with pytest.raises(asyncio.CancelledError):
            await outer

    outer: Any = None
    in_time(lambda: asyncio.run(main()))


def test_a_task_group_inside_a_limited_node_works(engine, clock):
    async def fails():
        await asyncio.sleep(0)
        raise ValueError("part")

    async def node(state):
        with suppress(BaseExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                group.create_task(asyncio.Event().wait())
        clock.advance(state["x"])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return {"log": ["went on"]}

    graph = limited(node, 5)
    assert engine.invoke(graph, {"x": 1})["log"] == ["went on"]


# ── idle ─────────────────────────────────────────────────────────────────────────────────────────────────────


def idle(seconds: float, refresh_on: Any = "auto", **more: Any) -> TimeoutPolicy:
    return TimeoutPolicy(idle_timeout=seconds, refresh_on=refresh_on, **more)


def test_heartbeats_keep_a_node_alive(engine, colour, clock):
    def node(state, runtime: Runtime):
        for _ in range(4):
            clock.advance(3)
            runtime.heartbeat()
        return {"log": ["alive"]}

    for refresh_on in ("auto", "heartbeat"):
        assert engine.invoke(limited(colour(node), idle(4, refresh_on)), {"x": 1})["log"] == ["alive"]


def test_a_node_without_a_sign_of_life_times_out(engine, slow):
    with pytest.raises(NodeTimeoutError) as caught:
        in_time(lambda: engine.invoke(limited(slow(7), idle(4, run_timeout=60)), {"x": 1}))
    assert (caught.value.kind, caught.value.timeout) == ("idle", 4)
    slow.finish(1)


def test_the_run_limit_holds_whatever_the_signs_of_life(engine, clock):
    def node(state, runtime: Runtime):
        for _ in range(4):
            clock.advance(3)
            runtime.heartbeat()

    with pytest.raises(NodeTimeoutError) as caught:
        engine.invoke(limited(node, idle(4, run_timeout=10)), {"x": 1})
    assert caught.value.kind == "run"


@task
def part(clock: FakeClock):
    clock.advance(3)


def _writes(clock):
    def node(state, writer):
        for _ in range(3):
            clock.advance(3)
            writer("piece")

    return node


def _yields(clock):
    def node(state):
        for _ in range(3):
            clock.advance(3)
            yield {"log": ["piece"]}

    return node


def _ayields(clock):
    async def node(state):
        for _ in range(3):
            clock.advance(3)
            yield {"log": ["piece"]}

    return node


def _calls(clock):
    def node(state):
        for _ in range(3):
            part(clock).result()

    return node


def _nested(clock):
    return chain(State, b=lambda state: clock.advance(3), c=lambda state: clock.advance(3))


def _streams(clock):
    def chunks():
        for _ in range(3):
            clock.advance(3)
            yield "piece"

    return lambda state: {"x": chunks()}


@pytest.mark.parametrize("signs", [_writes, _yields, _ayields, _calls, _nested, _streams])
@pytest.mark.parametrize("mode", ["values", "custom", "messages"])
def test_what_a_node_does_is_a_sign_of_life_unless_only_heartbeats_are(engine, clock, signs, mode):
    node = signs(clock)
    engine.stream(limited(node, idle(4)), {"x": 1}, stream_mode=mode)
    if signs is _nested:
        node = signs(clock)  # compiled anew
    with pytest.raises(NodeTimeoutError):
        engine.stream(limited(node, idle(4, "heartbeat")), {"x": 1}, stream_mode=mode)


# ── graphs and calls ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_nested_graph_may_have_a_limit(engine, slow, saver):
    ran: list[str] = []

    def before(state):
        ran.append("before")

    inner = chain(State, before=before, b=slow(7, 1), c=lambda state: {"log": ["c"]})
    graph = StateGraph(State).add_node("sub", inner, timeout=5)
    app = graph.add_edge(START, "sub").compile(saver)
    with pytest.raises(NodeTimeoutError) as caught:
        in_time(lambda: engine.invoke(app, {"x": 1}, thread()))
    assert caught.value.node == "sub"
    assert caught.value.result.abandoned == (slow.kind == "def")
    slow.finish(1)
    result = engine.invoke(app, None, thread())
    assert result["log"] == ["took 1", "c"]
    assert ran == ["before"], "what it had saved stays"


def test_a_nested_graph_that_timed_out_is_tried_again(engine, slow):
    leaf = fan(State, b=slow(7, 1), c=lambda state: {"log": ["c"]})
    graph = StateGraph(State).add_node("sub", chain(State, mid=leaf), timeout=5, retry_policy=AT_ONCE)
    result = in_time(lambda: engine.invoke(graph.add_edge(START, "sub").compile(), {"x": 1}))
    assert result["log"] == ["took 1", "c"]
    slow.finish(1)


def test_a_call_may_have_a_limit(engine, slow):
    call = task(timeout=5, retry_policy=AT_ONCE)(slow(7, 1, then=lambda: "in time"))

    async def anode(state):
        return {"log": [await call(state)]}

    graph = chain(State, a=anode if engine.is_async else (lambda state: {"log": [call(state).result()]}))
    assert in_time(lambda: engine.invoke(graph, {"x": 1}))["log"] == ["in time"]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_a_node_that_times_out_takes_its_calls_with_it(engine, slow, beside):
    call = task(slow(7))

    async def anode(state):
        return {"log": [await call(state)]}

    node = anode if engine.is_async else (lambda state: {"log": [call(state).result()]})
    graph = StateGraph(State).add_node("a", node, timeout=5).add_edge(START, "a")
    if beside:
        graph.add_node("b", lambda state: None).add_edge(START, "b")
    with pytest.raises(NodeTimeoutError) as caught:
        in_time(lambda: engine.invoke(graph.compile(), {"x": 1}))
    assert caught.value.node == "a"
    slow.finish(1)


def test_what_a_graph_called_in_a_limited_node_runs_is_stopped(engine, slow):
    inner = chain(State, b=slow(7), c=lambda state: pytest.fail("it was stopped"))

    async def anode(state):
        return await inner.ainvoke({"x": 1})

    node = anode if engine.is_async else (lambda state: inner.invoke({"x": 1}))
    with pytest.raises(NodeTimeoutError) as caught:
        in_time(lambda: engine.invoke(limited(node, 5), {"x": 1}))
    assert caught.value.node == "a"
    slow.finish(1)


# ── what can't be ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), timedelta(0)], ids=str)
def test_a_limit_is_greater_than_nothing(timeout):
    for make in (
        lambda: StateGraph(State).add_node("a", lambda state: None, timeout=timeout),
        lambda: StateGraph(State).set_node_defaults(timeout=timeout),
        lambda: task(timeout=timeout)(lambda: None),
        lambda: Send("a", timeout=timeout),
        lambda: TimeoutPolicy(idle_timeout=timeout),
    ):
        with pytest.raises(ValueError, match="must be greater than 0"):
            make()


@pytest.mark.parametrize("timeout", ["5", True, [5]], ids=str)
def test_a_limit_is_a_span_of_time(timeout):
    with pytest.raises(GraphBuildError, match="is a number of seconds or a timedelta"):
        StateGraph(State).add_node("a", lambda state: None, timeout=timeout)
    with pytest.raises(TypeError, match="is a number of seconds or a timedelta"):
        Send("a", timeout=timeout)


def test_a_policy_without_limits_is_none():
    assert Send("a", timeout=TimeoutPolicy()).timeout is None
    with pytest.raises(ValueError, match='"auto" or "heartbeat"'):
        TimeoutPolicy(refresh_on="never")


def test_a_node_on_the_loops_thread_cannot_have_a_limit(engine):
    with pytest.raises(GraphBuildError, match="inline=True"):
        StateGraph(State).add_node("a", lambda state: None, timeout=1, inline=True)
    graph = (
        StateGraph(State).add_node("a", lambda state: {"log": [1]}, inline=True).set_node_defaults(timeout=1)
    )
    graph.add_conditional_edges(START, lambda state: [Send("a", 1, timeout=state["x"])], ["a"])
    app = graph.compile()
    assert engine.invoke(app, {"x": None})["log"] == [1]
    with pytest.raises(RoutingError, match="inline=True"):
        engine.invoke(app, {"x": 1})
