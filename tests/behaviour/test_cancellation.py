"""Cancelling a run: at every point, in every kind of node; and nodes that cancel on their own account."""

import asyncio
import operator
import threading
from collections import Counter
from contextlib import aclosing
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    InMemorySaver,
    NodeCancelledError,
    NothingToResumeError,
    RetryPolicy,
    StateGraph,
    failure,
    interrupt,
    task,
)
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.behaviour.leftovers import no_other_task, nothing_left

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


class BlockingSaver(InMemorySaver):
    """Called from workers in async runs, so that saving is awaited."""

    blocking = True


# ── at every point ───────────────────────────────────────────────────────────────────────────────────────────


class Ran(Counter[str]):
    """How often each node was begun, and of which nodes the end was seen."""

    def step(self, name: str, pauses: int = 2) -> Any:
        async def node(state):
            self[name] += 1
            for _ in range(pauses):
                await asyncio.sleep(0)
            return {"log": [name]}

        return node

    def sync_step(self, name: str) -> Any:
        def node(state):
            self[name] += 1
            return {"log": [name]}

        return node

    def pieces(self, name: str) -> Any:
        async def node(state):
            self[name] += 1
            yield {"log": [name]}
            await asyncio.sleep(0)
            yield {"x": name}

        return node

    def calls(self, name: str) -> Any:
        @task
        async def part(number: int) -> int:
            self[f"{name}{number}"] += 1
            await asyncio.sleep(0)
            return number

        async def node(state):
            self[name] += 1
            one = await part(1)
            two, three = await asyncio.gather(part(2), part(3))
            return {"log": [name, one + two + three]}

        return node


def plain(ran: Ran, saver: Any) -> Any:
    return chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))


def wide(ran: Ran, saver: Any) -> Any:
    nodes = {
        "a": ran.step("a"),
        "b": ran.step("b", 1),
        "c": ran.step("c", 3),
        "d": ran.sync_step("d"),
        "e": ran.step("e"),
    }
    return builder(
        State, nodes, (START, "a"), ("a", "b"), ("a", "c"), ("a", "d"), (["b", "c", "d"], "e")
    ).compile(saver)


def deep(ran: Ran, saver: Any) -> Any:
    leaf = chain(State, leaf=ran.step("leaf"), last=ran.step("last"))
    return fan(State, saver=saver, sub=chain(State, mid=leaf), beside=ran.step("beside", 4))


def calling(ran: Ran, saver: Any) -> Any:
    return chain(State, saver=saver, a=ran.calls("a"), b=ran.step("b"))


def calling_beside(ran: Ran, saver: Any) -> Any:
    return fan(State, saver=saver, a=ran.calls("a"), b=ran.step("b"))


def streaming(ran: Ran, saver: Any) -> Any:
    return chain(State, saver=saver, a=ran.pieces("a"), b=ran.step("b"))


def called_inside(ran: Ran, saver: Any) -> Any:
    inner = chain(State, leaf=ran.step("leaf"), last=ran.step("last"))

    async def outer(state):
        return {"log": (await inner.ainvoke({"log": []}))["log"]}

    return chain(State, saver=saver, outer=outer, b=ran.step("b"))


GRAPHS = [plain, wide, deep, calling, calling_beside, streaming, called_inside]


async def run_to_end(graph, config) -> Any:
    return await graph.ainvoke({"x": 0}, config)


async def stream_to_end(graph, config) -> Any:
    async with aclosing(
        graph.astream({"x": 0}, config, stream_mode=["values", "updates", "custom"], subgraphs=True)
    ) as stream:
        return [item async for item in stream][-1][-1]


async def cancelled_after(ticks: int, running: asyncio.Task[Any]) -> Any:
    """What a task gives that is cancelled after so many turns of the loop; None if it was cancelled."""
    for _ in range(ticks):
        await asyncio.sleep(0)
    running.cancel()
    try:
        return await running
    except asyncio.CancelledError:
        return None


async def went_on(graph, config) -> Any:
    """What the thread's final state is, going on or beginning anew."""
    try:
        return dict(await graph.ainvoke(None, config))
    except NothingToResumeError:  # cancelled before the input was saved, or after the last step was
        return None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("saver_kind", [None, InMemorySaver, BlockingSaver])
@pytest.mark.parametrize("way", [run_to_end, stream_to_end])
@pytest.mark.parametrize("make", GRAPHS)
def test_cancelled_at_any_point_a_run_stops_and_its_thread_goes_on(make, way, saver_kind):
    """Turn by turn of the event loop, until a run gets through."""

    async def once(ticks: int) -> bool:
        ran = Ran()
        saver = saver_kind() if saver_kind else None
        graph = make(ran, saver)
        config = thread() if saver else None
        result = await cancelled_after(ticks, asyncio.ensure_future(way(graph, config)))
        no_other_task()
        before = Counter(ran)
        for _ in range(5):
            await asyncio.sleep(0)
        assert ran == before, "something went on after the cancellation"
        if result is None and saver is not None:
            kept = saver.load("t")
            final = await went_on(graph, config)
            if final is not None:
                assert final["log"] == expected["log"]
            elif kept is not None:
                assert kept.checkpoint.step == last_step
            no_other_task()
        return result is not None

    async def main() -> None:
        assert not await once(0)
        ticks = 1
        while not await once(ticks):
            ticks += 1
            assert ticks < 500
        assert ticks > 3

    expected = asyncio.run(make(Ran(), None).ainvoke({"x": 0}))
    last_step = expected.steps
    with nothing_left():
        asyncio.run(main())


@pytest.mark.parametrize("make", GRAPHS)
def test_cancelled_again_and_again_a_run_still_stops_cleanly(make):
    """Impatient callers cancel every turn."""

    async def once(first: int) -> None:
        running = asyncio.ensure_future(run_to_end(make(Ran(), None), None))
        for _ in range(first):
            await asyncio.sleep(0)
        turns = 0
        while not running.done():
            running.cancel()
            await asyncio.sleep(0)
            turns += 1
            assert turns < 10_000
        no_other_task()

    async def main() -> None:
        for first in range(12):
            await once(first)

    with nothing_left():
        asyncio.run(main())


def test_finished_steps_are_kept_and_the_rest_runs_once(saver):
    ran = Ran()
    waiting = asyncio.Event()

    async def waits(state):
        ran["b"] += 1
        if ran["b"] == 1:
            waiting.set()
            await asyncio.Event().wait()
        return {"log": ["b"]}

    async def main():
        graph = chain(State, saver=saver, a=ran.step("a"), b=waits, c=ran.step("c"))
        running = asyncio.ensure_future(graph.ainvoke({"x": 1}, thread()))
        await waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert saver.load("t").checkpoint.step == 1
        result = await graph.ainvoke(None, thread())
        assert (result["log"], result.steps) == (["a", "b", "c"], 2)

    asyncio.run(main())
    assert ran == {"a": 1, "b": 2, "c": 1}


def test_saved_writes_of_finished_siblings_are_kept(saver):
    ran = Ran()
    waiting = asyncio.Event()

    async def waits(state):
        ran["slow"] += 1
        if ran["slow"] == 1:
            waiting.set()
            await asyncio.Event().wait()
        return {"log": ["slow"]}

    async def main():
        graph = fan(State, saver=saver, quick=ran.step("quick"), slow=waits)

        async def consume():
            async for item in graph.astream({"x": 1}, thread()):
                if "quick" in item:
                    await asyncio.Event().wait()

        running = asyncio.ensure_future(consume())
        await waiting.wait()
        while not saver.load("t").records:  # noqa: ASYNC110 - what is saved can't be awaited
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        for _ in range(3):
            await asyncio.sleep(0)  # the abandoned generator is closed by the loop
        assert (await graph.ainvoke(None, thread()))["log"] == ["quick", "slow"]

    asyncio.run(main())
    assert ran == {"quick": 1, "slow": 2}


def test_the_cancellation_tells_where_and_what_the_result_was(saver):
    waiting = asyncio.Event()

    async def waits(state):
        waiting.set()
        await asyncio.Event().wait()

    async def main():
        graph = chain(State, saver=saver, a=wrote("x", 2), b=waits)
        caught: list[BaseException] = []

        async def run():
            try:
                await graph.ainvoke({"x": 1}, thread("talk"))
            except asyncio.CancelledError as error:
                caught.append(error)
                raise

        running = asyncio.ensure_future(run())
        await waiting.wait()
        running.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await running
        (error,) = caught
        assert error.args == ("enough",)
        place = failure(error)
        assert (place.thread_id, place.result.status) == ("talk", "cancelled")
        assert place.result == {"log": [], "x": 2}
        assert running.cancelled()

    asyncio.run(main())


@pytest.mark.parametrize("where", ["alone", "beside another", "nested", "called inside"])
def test_a_cancelled_node_may_clean_up_with_awaits(where):
    how: list[str] = []

    async def main():
        waiting = asyncio.Event()

        async def waits(state):
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                how.append("begun")
                for _ in range(5):
                    await asyncio.sleep(0)
                how.append("ended")

        others = {"b": nothing} if where == "beside another" else {}
        graph = fan(State, a=waits, **others)
        if where == "nested":
            graph = chain(State, sub=chain(State, mid=graph))
        elif where == "called inside":
            inner = graph

            async def calls(state):
                await inner.ainvoke({"x": 1})

            graph = chain(State, a=calls)
        running = asyncio.ensure_future(graph.ainvoke({"x": 1}))
        await waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert how == ["begun", "ended"]
        no_other_task()

    with nothing_left():
        asyncio.run(main())


@pytest.mark.parametrize("where", ["alone", "beside another", "nested"])
def test_a_node_that_swallows_the_cancellation_does_not_save_its_run(where):
    """The node may end in its own way; the run is cancelled all the same, and what comes next doesn't run."""
    ran: list[str] = []

    async def main():
        waiting = asyncio.Event()

        async def stubborn(state):
            waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ran.append("swallowed")
            return {"x": "stubborn"}

        nodes = {"a": stubborn, "after": lambda state: ran.append("after")}
        if where == "beside another":
            nodes["b"] = nothing
        graph = builder(
            State, nodes, (START, "a"), ("a", "after"), *([(START, "b")] if "b" in nodes else [])
        ).compile()
        if where == "nested":
            graph = chain(State, sub=graph)
        running = asyncio.ensure_future(graph.ainvoke({"x": 1}))
        await waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        no_other_task()

    asyncio.run(main())
    assert ran == ["swallowed"]


@pytest.mark.parametrize("where", ["alone", "beside another"])
def test_a_node_that_fails_while_it_is_cancelled_is_not_retried(where):
    tries: list[int] = []

    async def main():
        waiting = asyncio.Event()

        async def breaks(state):
            tries.append(1)
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("while cleaning up")

        policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=Exception)
        graph = StateGraph(State).add_node("a", breaks, retry_policy=policy).add_edge(START, "a")
        if where == "beside another":
            graph.add_node("b", nothing).add_edge(START, "b")
        running = asyncio.ensure_future(graph.compile().ainvoke({"x": 1}))
        await waiting.wait()
        running.cancel()
        with pytest.raises((asyncio.CancelledError, ValueError)):
            await running
        no_other_task()

    asyncio.run(main())
    assert tries == [1]


def test_a_cancelled_wait_for_a_retry_ends_at_once():
    async def main():
        failed = asyncio.Event()

        async def fails(state):
            failed.set()
            raise ConnectionError

        policy = RetryPolicy(initial_interval=3600, max_interval=3600)
        graph = StateGraph(State).add_node("a", fails, retry_policy=policy).add_edge(START, "a").compile()
        running = asyncio.ensure_future(graph.ainvoke({"x": 1}))
        await failed.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        no_other_task()

    asyncio.run(main())


# ── deadlines ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["timeout", "wait_for"])
@pytest.mark.parametrize("where", ["alone", "beside another", "nested"])
def test_a_deadline_around_a_run_cancels_it(way, where):
    how: list[str] = []

    async def waits(state):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            how.append("cancelled")
            raise

    async def main():
        others = {"b": nothing} if where == "beside another" else {}
        graph = fan(State, a=waits, **others)
        if where == "nested":
            graph = chain(State, sub=graph)
        with pytest.raises(TimeoutError):
            if way == "timeout":
                async with asyncio.timeout(0.02):
                    await graph.ainvoke({"x": 1})
            else:
                await asyncio.wait_for(graph.ainvoke({"x": 1}), 0.02)
        no_other_task()
        assert asyncio.current_task().cancelling() == 0
        assert await chain(State, a=wrote("x", 2)).ainvoke({"x": 1}) == {"log": [], "x": 2}

    with nothing_left():
        asyncio.run(main())
    assert how == ["cancelled"]


def test_a_deadline_inside_a_node_is_the_nodes_own(engine):
    """Nothing else notices."""

    async def impatient(state):
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return {"log": ["timed out"]}
        return {"log": ["never"]}

    graph = chain(State, a=impatient, b=fan(State, c=impatient, d=impatient), e=wrote("log", ["end"]))
    assert engine.invoke(graph, {"x": 1})["log"] == ["timed out"] * 3 + ["end"]
    graph.close()


def test_a_deadline_inside_a_node_that_it_does_not_catch_is_its_failure(engine):
    async def impatient(state):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    graph = chain(State, a=impatient)
    with pytest.raises(TimeoutError) as caught:
        engine.invoke(graph, {"x": 1})
    assert failure(caught.value).node == "a"
    graph.close()


def test_a_task_group_inside_a_node_that_fails_is_its_failure(engine):
    how: list[str] = []

    async def waits():
        try:
            await asyncio.Event().wait()
        finally:
            how.append("cancelled")

    async def fails():
        await asyncio.sleep(0)
        raise ValueError("no")

    async def node(state):
        async with asyncio.TaskGroup() as group:
            group.create_task(waits())
            group.create_task(fails())

    graph = chain(State, a=node, b=nothing)
    with pytest.raises(ExceptionGroup) as caught:
        engine.invoke(graph, {"x": 1})
    assert [type(error) for error in caught.value.exceptions] == [ValueError]
    assert failure(caught.value).node == "a"
    assert how == ["cancelled"]
    graph.close()


# ── a node that raises the cancellation itself ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["alone", "beside another", "nested"])
def test_a_node_that_raises_cancelled_error_itself_fails(engine, colour, where):
    def cancels(state):
        raise asyncio.CancelledError("mine")

    others = {"b": nothing} if where == "beside another" else {}
    graph = fan(State, a=colour(cancels), **others)
    if where == "nested":
        graph = chain(State, sub=graph)
    with nothing_left():
        with pytest.raises(NodeCancelledError) as caught:
            engine.invoke(graph, {"x": 1})
        graph.close()
    assert caught.value.node == "a"
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert caught.value.result.status == "failed"


def test_a_node_that_awaits_something_cancelled_fails(engine):
    async def node(state):
        other = asyncio.ensure_future(asyncio.sleep(WAIT))
        other.cancel()
        await other

    graph = chain(State, a=node)
    with pytest.raises(NodeCancelledError, match="'a'"):
        engine.invoke(graph, {"x": 1})
    graph.close()


def test_a_router_that_raises_cancelled_error_itself_fails_its_node(engine, colour):
    def cancels(state):
        raise asyncio.CancelledError

    graph = builder(State, {"a": nothing}, (START, "a"))
    graph.add_conditional_edges("a", colour(cancels), ["a"])
    compiled = graph.compile()
    with pytest.raises(NodeCancelledError, match="'a'"):
        engine.invoke(compiled, {"x": 1})
    compiled.close()


def test_a_run_in_the_cleaning_up_of_a_cancelled_caller_is_not_cancelled():
    """`cancelling()` of the caller's task is over zero all the while, and none of this run's business."""
    results: list[Any] = []

    async def step(state):
        await asyncio.sleep(0)
        return {"log": ["step"]}

    async def cancels(state):
        raise asyncio.CancelledError

    async def caller():
        try:
            await asyncio.Event().wait()
        finally:
            results.append(await chain(State, a=step, b=fan(State, c=step, d=step)).ainvoke({"x": 1}))
            with pytest.raises(NodeCancelledError):
                await chain(State, a=cancels).ainvoke({"x": 1})

    async def main():
        running = asyncio.ensure_future(caller())
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert results[0]["log"] == ["step"] * 3


# ── sync nodes of a cancelled run are abandoned ──────────────────────────────────────────────────────────────


class Stuck:
    """A sync node that goes on after its run was cancelled, until it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let_go = threading.Event()
        self.after: list[str] = []

    def node(self, then: Any = None) -> Any:
        loop = asyncio.get_running_loop()

        def stuck(state, writer):
            loop.call_soon_threadsafe(self.begun.set)
            assert self.let_go.wait(WAIT)
            try:
                if then is not None:
                    then(writer)
            except BaseException as error:
                self.after.append(type(error).__name__)
                raise
            self.after.append("ended")
            return {"log": ["too late"]}

        return stuck

    async def release(self, before: set[threading.Thread]) -> None:
        """Lets it go, and waits until its worker has ended."""
        self.let_go.set()
        for worker in set(threading.enumerate()) - before:
            if worker.name == "juncture-worker":
                await asyncio.to_thread(worker.join, WAIT)
                assert not worker.is_alive()


@pytest.mark.parametrize("way", [run_to_end, stream_to_end])
@pytest.mark.parametrize("where", ["alone", "beside another", "nested", "awaited inside"])
def test_a_cancelled_run_abandons_its_sync_nodes(saver, way, where):
    """The caller is free at once; what the node gives later is discarded."""

    async def main():
        before = set(threading.enumerate())
        stuck = Stuck()
        others = {"b": wrote("y", 1)} if where == "beside another" else {}
        inner = fan(State, a=stuck.node(), **others)

        async def awaits(state):
            return dict(await inner.ainvoke({"x": 1}))

        if where in ("alone", "beside another"):
            graph = fan(State, saver=saver, a=stuck.node(), **others)
        else:
            graph = chain(State, saver=saver, a=inner if where == "nested" else awaits)
        running = asyncio.ensure_future(way(graph, thread()))
        await stuck.begun.wait()
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=2)
        still_stuck = not stuck.let_go.is_set()
        await stuck.release(before)
        assert done == {running}, "the caller waited for a node that can't be stopped"
        assert still_stuck
        assert running.cancelled()
        assert stuck.after == ["ended"]
        assert saver.load("t").checkpoint.step == 0
        no_other_task()

    with nothing_left():
        asyncio.run(main())


@pytest.mark.parametrize("what", ["writer", "interrupt"])
def test_an_abandoned_node_cannot_send_or_ask(saver, what):
    async def main():
        before = set(threading.enumerate())
        stuck = Stuck()
        then = (lambda writer: writer("late")) if what == "writer" else (lambda writer: interrupt("late?"))
        graph = chain(State, saver=saver, a=stuck.node(then))
        running = asyncio.ensure_future(stream_to_end(graph, thread()))
        await stuck.begun.wait()
        running.cancel()
        await asyncio.wait([running], timeout=2)
        await stuck.release(before)
        assert stuck.after != ["ended"]
        assert len(stuck.after) == 1
        assert saver.load("t").records == ()

    asyncio.run(main())


def test_an_abandoned_node_cannot_run_graphs_that_save(saver):
    """It would write to a thread that another run has taken up."""
    ran: list[str] = []

    async def main():
        before = set(threading.enumerate())
        stuck = Stuck()
        inner = chain(State, leaf=lambda state: ran.append("leaf"))
        graph = chain(State, saver=saver, a=stuck.node(lambda writer: inner.invoke({"x": 1})))
        running = asyncio.ensure_future(graph.ainvoke({"x": 1}, thread()))
        await stuck.begun.wait()
        running.cancel()
        await asyncio.wait([running], timeout=2)
        await stuck.release(before)
        assert stuck.after == ["Cancelled"]
        assert ran == []
        assert saver.namespaces("t") == [""]

    asyncio.run(main())


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_an_abandoned_graph_saves_nothing_more(saver, beside):
    """It was running inside a node when the run was cancelled: it ends where it stands."""
    ran: list[str] = []

    async def main():
        before = set(threading.enumerate())
        stuck = Stuck()
        nodes = {"one": stuck.node(), "two": lambda state: ran.append("two")}
        edges: list[Any] = [(START, "one"), ("one", "two")]
        if beside:
            nodes["other"] = nothing
            edges.append((START, "other"))
        inner = builder(State, nodes, *edges).compile()
        graph = chain(State, saver=saver, a=lambda state: inner.invoke({"x": 1}) and None)
        running = asyncio.ensure_future(graph.ainvoke({"x": 1}, thread()))
        await stuck.begun.wait()
        running.cancel()
        await asyncio.wait([running], timeout=2)
        (inside,) = [name for name in saver.namespaces("t") if name]
        assert saver.load("t", inside).checkpoint.step == 0
        await stuck.release(before)
        assert saver.load("t", inside).checkpoint.step == 0
        assert ran == []

    asyncio.run(main())


def test_a_deadline_around_a_run_of_a_stuck_sync_node_holds():
    async def main():
        before = set(threading.enumerate())
        stuck = Stuck()
        graph = chain(State, a=stuck.node())
        threading.Timer(3, stuck.let_go.set).start()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await graph.ainvoke({"x": 1})
        early = not stuck.let_go.is_set()
        await stuck.release(before)
        assert early

    asyncio.run(main())


def test_a_graph_that_an_abandoned_node_called_is_stopped():
    """The node's thread can't be stopped, but what it waits for can."""

    async def main():
        loop = asyncio.get_running_loop()
        before = set(threading.enumerate())
        begun = asyncio.Event()
        ended: list[str] = []

        async def waits(state):
            loop.call_soon_threadsafe(begun.set)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")

        inner = chain(State, leaf=waits)

        def calls(state):
            try:
                inner.invoke({"x": 1})
            except BaseException as error:
                ended.append(type(error).__name__)
                raise

        running = asyncio.ensure_future(chain(State, a=calls).ainvoke({"x": 1}))
        await begun.wait()
        running.cancel()
        await asyncio.wait([running], timeout=2)
        workers = [
            each for each in set(threading.enumerate()) - before if each.name.startswith("juncture-worker")
        ]
        for worker in workers:
            await asyncio.to_thread(worker.join, 2)
        assert not any(worker.is_alive() for worker in workers)
        assert ended[0] == "cancelled"
        assert len(ended) == 2
        inner.close()

    asyncio.run(main())


def test_the_thread_of_an_abandoned_node_is_a_daemon(saver):
    """It doesn't hold the interpreter."""

    async def main():
        before = set(threading.enumerate())
        stuck = Stuck()
        running = asyncio.ensure_future(chain(State, a=stuck.node()).ainvoke({"x": 1}))
        await stuck.begun.wait()
        workers = set(threading.enumerate()) - before
        assert workers
        assert all(worker.daemon for worker in workers)
        running.cancel()
        await asyncio.wait([running], timeout=2)
        await stuck.release(before)

    asyncio.run(main())
