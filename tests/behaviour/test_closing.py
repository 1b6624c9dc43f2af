"""Streams that are closed early, at any item: nothing outlives them, and their thread goes on."""

import asyncio
import gc
import operator
import threading
from collections import Counter
from contextlib import aclosing, closing
from typing import Annotated, Any, TypedDict

import pytest

from juncture import START, InMemorySaver, NothingToResumeError, RetryPolicy, Send, StateGraph, task
from tests.behaviour.building import builder, chain, fan, thread, wrote
from tests.behaviour.leftovers import no_other_task, nothing_left

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""
SLOWLY = 2_000
"""Chunks with a pause after each: what isn't stopped earlier ends by itself, and the test fails."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


# ── what runs when it is closed ──────────────────────────────────────────────────────────────────────────────


class Ended:
    """What nodes that were closed early have to say."""

    def __init__(self) -> None:
        self.how: list[str] = []


def endless_sync(ended, name):
    """A node that sends without end."""

    def node(state, writer):
        try:
            while True:
                writer(name)
        except BaseException as error:
            ended.how.append(type(error).__name__)
            raise

    return node


def close_at_first(engine, graph, config=None, **options):
    return engine.consume(graph, {"log": ["in"]}, lambda item: False, config, **options)


def test_closing_a_stream_cancels_a_running_async_node(engine, saver):
    ended = Ended()

    async def node(state, writer):
        writer("first")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.how.append("cancelled")
            raise

    graph = chain(State, saver=saver, a=node)
    with nothing_left():
        assert close_at_first(engine, graph, thread(), stream_mode="custom") == ["first"]
        assert ended.how == ["cancelled"]
        graph.close()


def test_closing_a_stream_waits_for_a_running_sync_node(engine, saver):
    """The node goes on until it sends something more, and is stopped there."""
    going = threading.Event()
    ended = Ended()

    def node(state, writer):
        writer("first")
        going.wait(WAIT)
        ended.how.append("end")
        return {"log": ["too late"]}

    graph = chain(State, saver=saver, a=node)
    threading.Timer(0.05, going.set).start()
    with nothing_left():
        close_at_first(engine, graph, thread(), stream_mode="custom")
        assert ended.how == ["end"]
    assert saver.load("t").checkpoint.step == 0, "nothing of its step was saved"


def test_closing_a_stream_stops_nodes_that_wait_for_room(engine):
    ended = Ended()
    graph = fan(State, a=endless_sync(ended, "a"), b=endless_sync(ended, "b"))
    seen: set[str] = set()

    def use(item):
        seen.add(item)
        return len(seen) < 2

    with nothing_left():
        engine.consume(graph, {"log": []}, use, stream_mode="custom")
    assert ended.how == ["Cancelled", "Cancelled"]


@pytest.mark.parametrize("kind", ["writer", "generator"])
def test_closing_a_stream_stops_a_node_at_its_next_chunk(engine, kind):
    """It sends so slowly that it never has to wait for room."""
    ended = Ended()
    never = threading.Event()

    def writes(state, writer):
        try:
            for _ in range(SLOWLY):
                writer("on and on")
                never.wait(0.001)
        except BaseException as error:
            ended.how.append(type(error).__name__)
            raise

    def yields(state):
        try:
            for _ in range(SLOWLY):
                yield {"log": [1]}
                never.wait(0.001)
        except BaseException as error:
            ended.how.append(type(error).__name__)
            raise

    graph = fan(State, a=writes if kind == "writer" else yields, b=wrote("y", 1))
    with nothing_left():
        engine.consume(
            graph,
            {"log": []},
            lambda item: item[0] == "updates" and "a" not in item[1],
            stream_mode=["custom"] if kind == "writer" else ["updates"],
        )
    assert ended.how == ["Cancelled" if kind == "writer" else "GeneratorExit"]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_closing_a_stream_closes_generators(engine, beside):
    ended = Ended()

    def node(state):
        try:
            while True:
                yield {"log": [1]}
        finally:
            ended.how.append("closed")

    others = {"b": wrote("y", 1)} if beside else {}
    with nothing_left():
        engine.consume(fan(State, a=node, **others), {"log": []}, lambda item: "a" not in item)
        assert ended.how == ["closed"]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_closing_a_stream_closes_async_generators(engine, beside):
    ended = Ended()

    async def node(state):
        try:
            while True:
                yield {"log": [1]}
                await asyncio.sleep(0)
        finally:
            ended.how.append("closed")

    others = {"b": wrote("y", 1)} if beside else {}
    with nothing_left():
        graph = fan(State, a=node, **others)
        engine.consume(graph, {"log": []}, lambda item: "a" not in item)
        assert ended.how == ["closed"]
        graph.close()


def test_closing_an_astream_leaves_no_task():
    ended = Ended()

    async def waits(state, writer):
        writer("here")
        try:
            await asyncio.Event().wait()
        finally:
            ended.how.append("ended")

    graph = fan(State, a=waits, b=waits, c=chain(State, leaf=waits))

    async def main():
        async with aclosing(graph.astream({"log": []}, stream_mode="custom", subgraphs=True)) as stream:
            count = 0
            async for _ in stream:
                count += 1
                if count == 3:
                    break
        no_other_task()
        assert ended.how == ["ended"] * 3

    with nothing_left():
        asyncio.run(main())


def test_closing_an_astream_closes_async_generators_before_it_returns():
    ended = Ended()

    async def node(state):
        try:
            while True:
                yield {"log": [1]}
        finally:
            ended.how.append("closed")

    async def main():
        async with aclosing(fan(State, a=node, b=wrote("y", 1)).astream({"log": []})) as stream:
            async for item in stream:
                if "a" in item:
                    break
        assert ended.how == ["closed"]
        no_other_task()

    with nothing_left():
        asyncio.run(main())


def test_a_thread_is_usable_after_its_stream_was_closed(engine, saver, colour):
    ran: list[str] = []

    def step(name):
        def node(state):
            ran.append(name)
            return {"log": [name]}

        return colour(node)

    graph = chain(State, saver=saver, a=step("a"), b=step("b"), c=step("c"))
    items = engine.consume(graph, {"log": ["in"]}, lambda item: "b" not in item, thread())
    assert items[-1] == {"b": {"log": ["b"]}}
    assert "c" not in ran
    result = engine.invoke(graph, None, thread())
    assert result["log"] == ["in", "a", "b", "c"]
    assert ran[-1] == "c"
    assert engine.invoke(graph, {"log": ["again"]}, thread())["log"][-4:] == ["again", "a", "b", "c"]


def test_closing_between_steps_keeps_the_finished_ones_and_never_half_a_step(engine, saver):
    """One of two tasks has ended: the state is that before the step, and what it wrote isn't lost."""
    ran: list[str] = []
    last = threading.Event()

    begun = threading.Event()

    def quick(state):
        assert begun.wait(WAIT)
        ran.append("quick")
        return {"log": ["quick"]}

    async def slow(state):
        ran.append("slow")
        begun.set()
        if not last.is_set():
            await asyncio.Event().wait()
        return {"log": ["slow"]}

    graph = fan(State, saver=saver, a=quick, b=slow)
    close_at_first(engine, graph, thread())
    assert sorted(ran) == ["quick", "slow"]
    assert saver.load("t").checkpoint.step == 0
    last.set()
    assert engine.invoke(graph, None, thread())["log"] == ["in", "quick", "slow"]
    assert sorted(ran) == ["quick", "slow", "slow"], "the finished task isn't run again"
    graph.close()


def test_closing_before_the_first_item_runs_nothing():
    ran: list[int] = []
    graph = chain(State, a=lambda state: ran.append(1))
    with closing(graph.stream({"x": 1})):
        pass

    async def main():
        async with aclosing(graph.astream({"x": 1})):
            pass

    asyncio.run(main())
    assert ran == []


def test_a_stream_that_is_dropped_is_closed(saver):
    """Nobody calls close: the garbage collector does."""
    ended = Ended()

    def node(state):
        try:
            while True:
                yield {"log": [1]}
        finally:
            ended.how.append("closed")

    with nothing_left():
        stream = chain(State, saver=saver, a=node).stream({"log": []}, thread_id="t")
        next(stream)
        del stream
        assert ended.how == ["closed"]


def test_a_consumer_that_raises_closes_the_stream(engine):
    ended = Ended()

    class Mine(Exception):
        pass

    def use(item):
        raise Mine

    graph = chain(State, a=endless_sync(ended, "a"))
    with nothing_left():
        with pytest.raises(Mine):
            engine.consume(graph, {"x": 1}, use, stream_mode="custom")
        assert ended.how == ["Cancelled"]


def test_a_generator_that_fails_when_it_is_closed_leaves_nothing_running(engine):
    how: list[str] = []

    @task
    async def waits():
        how.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            how.append("cancelled")

    def node(state):
        waits()
        try:
            while True:
                yield {"log": [1]}
        finally:
            raise ValueError("while closing")

    graph = chain(State, a=node)
    with nothing_left():
        try:
            engine.consume(graph, {"log": []}, lambda item: "begun" not in how)
        except ValueError as error:
            assert error.args == ("while closing",)  # noqa: PT017 - it may be told, but needn't
        graph.close()
    assert how == ["begun", "cancelled"]


def test_closing_a_stream_ends_the_waiting_for_a_retry(engine):
    """The retry would come in an hour."""
    tried: list[int] = []

    def fails(state):
        tried.append(1)
        raise ConnectionError

    policy = RetryPolicy(initial_interval=3600, max_interval=3600)
    graph = StateGraph(State).add_node("a", fails, retry_policy=policy).add_node("b", wrote("y", 1))
    graph.add_edge(START, "a").add_edge(START, "b")
    with nothing_left():
        engine.consume(graph.compile(), {"log": []}, lambda item: not tried)
    assert tried == [1]


def test_an_async_consumer_that_just_breaks_leaves_nothing_once_its_stream_is_collected():
    how: list[str] = []

    async def waits(state, writer):
        writer("here")
        try:
            await asyncio.Event().wait()
        finally:
            how.append("ended")

    async def main():
        async for _ in fan(State, a=waits, b=waits).astream({"log": []}, stream_mode="custom"):
            break
        gc.collect()
        for _ in range(10):
            await asyncio.sleep(0)
        assert how == ["ended", "ended"]
        no_other_task()

    with nothing_left():
        asyncio.run(main())


def test_an_async_consumer_that_is_cancelled_while_it_waits_for_an_item():
    how: list[str] = []

    async def main():
        waiting = asyncio.Event()

        async def waits(state):
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                how.append("ended")

        async def consume():
            async with aclosing(fan(State, a=waits, b=waits).astream({"log": []})) as stream:
                async for _ in stream:
                    pass

        running = asyncio.ensure_future(consume())
        await waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert how == ["ended", "ended"]
        no_other_task()

    with nothing_left():
        asyncio.run(main())


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_node_may_close_the_stream_of_a_graph_that_it_calls(engine, way):
    inner = chain(State, a=wrote("x", 1), b=fan(State, c=wrote("y", 1), d=wrote("log", [1])), e=wrote("x", 2))

    def calls(state):
        with closing(inner.stream({"log": []})) as stream:
            return {"log": [next(stream)]}

    async def calls_async(state):
        async with aclosing(inner.astream({"log": []})) as stream:
            return {"log": [await anext(stream)]}

    node = calls if way == "stream" else calls_async
    graph = fan(State, one=node, two=node)
    with nothing_left():
        assert engine.invoke(graph, {"log": []})["log"] == [{"a": {"x": 1}}] * 2
        graph.close()
        inner.close()


# ── at every item ────────────────────────────────────────────────────────────────────────────────────────────


class Ran(Counter[str]):
    """How often each node was begun."""

    def sync(self, name: str) -> Any:
        def node(state, writer):
            self[name] += 1
            writer(name)
            return {"log": [name]}

        return node

    def coloured(self, name: str) -> Any:
        async def node(state, writer):
            self[name] += 1
            await asyncio.sleep(0)
            writer(name)
            await asyncio.sleep(0)
            return {"log": [name]}

        return node

    def pieces(self, name: str) -> Any:
        def node(state):
            self[name] += 1
            yield {"log": [name]}
            yield {"log": [f"{name} 2"]}

        return node

    def async_pieces(self, name: str) -> Any:
        async def node(state):
            self[name] += 1
            yield {"log": [name]}
            await asyncio.sleep(0)
            yield {"log": [f"{name} 2"]}

        return node

    def calls(self, name: str) -> Any:
        @task
        def part(number: int) -> int:
            self[f"{name}{number}"] += 1
            return number

        def node(state):
            self[name] += 1
            futures = [part(number) for number in range(3)]
            return {"log": [name, sum(future.result() for future in futures)]}

        return node


def a_chain(ran: Ran, saver: Any) -> Any:
    return chain(
        State,
        saver=saver,
        a=ran.sync("a"),
        b=ran.coloured("b"),
        c=ran.pieces("c"),
        d=ran.async_pieces("d"),
        e=ran.calls("e"),
    )


def side_by_side(ran: Ran, saver: Any) -> Any:
    nodes = {
        "a": ran.sync("a"),
        "b": ran.coloured("b"),
        "c": ran.pieces("c"),
        "d": ran.async_pieces("d"),
        "e": ran.calls("e"),
    }
    return builder(
        State, {**nodes, "z": ran.sync("z")}, *[(START, name) for name in nodes], (list(nodes), "z")
    ).compile(saver)


def in_one_another(ran: Ran, saver: Any) -> Any:
    def level(name: str, **more: Any) -> Any:
        return fan(
            State, a=ran.sync(f"{name}a"), b=ran.coloured(f"{name}b"), c=ran.pieces(f"{name}c"), **more
        )

    return chain(
        State, saver=saver, one=level("1", sub=level("2", sub=level("3"))), last=ran.coloured("last")
    )


def many_sends(ran: Ran, saver: Any) -> Any:
    def work(arg, writer):
        ran[str(arg["n"])] += 1
        writer(arg["n"])
        return {"log": [arg["n"]]}

    graph = builder(State, {"work": work, "end": ran.sync("end")}, ("work", "end"))
    return graph.add_conditional_edges(
        START, lambda state: [Send("work", {"n": n}) for n in range(6)]
    ).compile(saver)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("modes", [["updates"], ["values", "updates", "custom", "tasks"]], ids=len)
@pytest.mark.parametrize("make", [a_chain, side_by_side, in_one_another, many_sends])
def test_closed_at_any_item_a_thread_goes_on_to_the_same_end(engine, make, modes):
    """And what was finished, saved and shown isn't run again."""
    whole = make(Ran(), None)
    expected = engine.invoke(whole, {"x": 1})["log"]
    whole.close()

    def closed_after(count: int) -> bool:
        ran, saver = Ran(), InMemorySaver()
        graph = make(ran, saver)
        left = [count]

        def use(item: Any) -> bool:
            left[0] -= 1
            return left[0] > 0

        engine.consume(graph, {"x": 1}, use, thread(), stream_mode=modes, subgraphs=True)
        before = Counter(ran)
        if left[0] > 0:
            graph.close()
            return False
        try:
            assert engine.invoke(graph, None, thread())["log"] == expected
        except NothingToResumeError:
            assert count > 1, "there was an input to go on with"
        graph.close()
        assert max(ran.values()) <= 2
        assert all(ran[name] for name in before)
        return True

    count = 1
    with nothing_left():
        while closed_after(count):
            count += 1
            assert count < 200
    assert count > 3
