"""What ends a run from outside of its nodes' promises: what isn't an `Exception`, and a saver that fails."""

import asyncio
import operator
import signal
import subprocess
import sys
import threading
from typing import Annotated, Any, TypedDict

import pytest

from juncture import END, START, InMemorySaver, RetryPolicy, StateGraph, failure, interrupt, task
from tests.behaviour.building import chain, fan, nothing, thread, wrote
from tests.behaviour.leftovers import nothing_left

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


def raises(error: BaseException) -> Any:
    """A node that raises this."""

    def node(state):
        raise error

    return node


def failing(engine, graph, given, config) -> Exception:
    """The exception of a run that fails."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is: the test looks at it
        engine.invoke(graph, given, config)
    return caught.value


# ── what isn't an Exception ──────────────────────────────────────────────────────────────────────────────────


class Halt(BaseException):
    """Stops a process, like KeyboardInterrupt and SystemExit do."""


STOPS = [KeyboardInterrupt, SystemExit, Halt, GeneratorExit]


def stopped(engine, graph, expected, given=None, config=None, **options) -> BaseException:
    """What ends a run that isn't an Exception. A loop runs a KeyboardInterrupt or SystemExit of a task up at once."""
    with pytest.raises(expected) as caught:
        engine.invoke(graph, {"x": 1} if given is None else given, config, **options)
    return caught.value


@pytest.mark.parametrize("where", ["alone", "beside another", "nested"])
@pytest.mark.parametrize("kind", STOPS)
def test_what_stops_the_process_goes_through_a_sync_node(engine, kind, where, saver):
    error = kind("stop")
    others = {"b": wrote("y", 1)} if where == "beside another" else {}
    graph = fan(State, saver=None if where == "nested" else saver, a=raises(error), **others)
    if where == "nested":
        graph = chain(State, saver=saver, sub=graph)
    with nothing_left():
        assert stopped(engine, graph, kind, None, thread()) is error
    assert saver.load("t").checkpoint.step == 0


@pytest.mark.parametrize("where", ["alone", "beside another", "nested"])
@pytest.mark.parametrize("kind", STOPS)
def test_what_stops_the_process_goes_through_an_async_node(engine, kind, where):
    async def node(state):
        await asyncio.sleep(0)
        raise kind("stop")

    others = {"b": wrote("y", 1)} if where == "beside another" else {}
    graph = fan(State, a=node, **others)
    if where == "nested":
        graph = chain(State, sub=graph)
    with nothing_left():
        assert stopped(engine, graph, kind).args == ("stop",)
        graph.close()


@pytest.mark.parametrize("kind", STOPS)
def test_what_stops_the_process_is_not_retried(engine, colour, kind):
    tries: list[int] = []

    def stops(state):
        tries.append(1)
        raise kind("stop")

    policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=lambda error: True)
    graph = StateGraph(State).add_node("a", colour(stops), retry_policy=policy).add_node("b", nothing)
    graph.add_edge(START, "a").add_edge(START, "b")
    stopped(engine, graph.compile(), kind)
    assert tries == [1]


@pytest.mark.parametrize("kind", STOPS)
def test_what_stops_the_process_goes_through_routers_and_is_not_retried(engine, kind):
    tries: list[int] = []

    def route(state):
        tries.append(1)
        raise kind("stop")

    policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=lambda error: True)
    graph = StateGraph(State).add_node("a", nothing, retry_policy=policy).add_edge(START, "a")
    stopped(engine, graph.add_conditional_edges("a", route, [END]).compile(), kind)
    assert tries == [1]


PROGRAM = """
import asyncio, sys
from typing import Any, TypedDict
from juncture import START, StateGraph

class State(TypedDict, total=False):
    x: Any

kind, awaited, driver = {kind}, {awaited}, {driver!r}
bad = [True]

async def stops():
    await asyncio.sleep(0)
    raise kind("stop")

async def node(state):
    if bad:
        mine = asyncio.ensure_future(stops())
        await (asyncio.gather(mine) if awaited else asyncio.Event().wait())
    return {{"x": "fine"}}

graph = StateGraph(State).add_node("a", node).add_edge(START, "a").compile()

def run():
    return graph.invoke({{"x": 1}}) if driver == "sync" else asyncio.run(graph.ainvoke({{"x": 1}}))

try:
    run()
except BaseException as error:
    print(type(error).__name__)
bad.clear()
print(run()["x"])
graph.close()
print("closed")
"""


@pytest.mark.parametrize("awaited", [True, False])
@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit"])
def test_what_stops_the_process_in_a_task_of_the_nodes_own(engine, kind, awaited):
    """asyncio lets these two through its loop; the run raises it, and the graph is usable afterwards all the same."""
    program = PROGRAM.format(kind=kind, awaited=awaited, driver=engine.driver)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert ended.stdout.split() == [kind, "fine", "closed"], ended.stderr
    assert ended.returncode == 0


@pytest.mark.parametrize("kind", STOPS)
def test_what_stops_the_process_in_a_call_goes_through_its_node(engine, colour, kind):
    part = task(colour(raises(kind("stop"))))

    def node(state):
        part(None).result()

    graph = chain(State, a=node)
    with nothing_left():
        stopped(engine, graph, kind)
        graph.close()


def test_what_stops_the_process_awaits_the_siblings(engine):
    """Nothing outlives the run, even then."""
    how: list[str] = []
    begun = threading.Event()

    async def waits(state):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            how.append("cancelled")

    def stops(state):
        assert begun.wait(WAIT)
        raise Halt

    graph = fan(State, a=stops, b=waits)
    with nothing_left():
        stopped(engine, graph, Halt)
        graph.close()
    assert how == ["cancelled"]


def test_the_result_of_what_stopped_the_process_says_cancelled(engine):
    error = stopped(engine, chain(State, a=wrote("x", 2), b=raises(Halt())), Halt)
    assert failure(error).result == {"x": 2, "log": []}
    assert failure(error).result.status == "cancelled"


def test_a_keyboard_interrupt_in_the_waiting_caller_ends_the_run():
    """Control-C while the caller waits: its async nodes are cancelled."""
    how: list[str] = []

    async def waits(state):
        try:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            how.append("cancelled")

    graph = chain(State, a=waits)
    with nothing_left():
        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"x": 1})
        assert how == ["cancelled"]
        graph.close()


# ── a saver that fails ───────────────────────────────────────────────────────────────────────────────────────


class Disk(Exception):
    """What a saver raises."""


class FailingSaver(InMemorySaver):
    """Fails at the n-th call of one method."""

    def __init__(self, method: str, nth: int) -> None:
        super().__init__()
        self.method, self.left = method, nth

    def _maybe(self, method: str) -> None:
        if method == self.method:
            self.left -= 1
            if self.left == 0:
                raise Disk(f"{method} failed")

    def load(self, *args, **kwargs):
        self._maybe("load")
        return super().load(*args, **kwargs)

    def put(self, *args, **kwargs):
        self._maybe("put")
        return super().put(*args, **kwargs)

    def put_records(self, *args, **kwargs):
        self._maybe("put_records")
        return super().put_records(*args, **kwargs)


class BlockingFailingSaver(FailingSaver):
    """The same, called from workers in async runs."""

    blocking = True


@pytest.mark.parametrize("kind", [FailingSaver, BlockingFailingSaver])
@pytest.mark.parametrize(("nth", "step"), [(1, 0), (2, 1), (3, 2)])
def test_a_put_that_fails_ends_the_run_and_names_checkpoint_and_thread(engine, colour, kind, nth, step):
    saver = kind("put", nth)
    ran: list[str] = []
    a = colour(lambda state: ran.append("a"))
    b = colour(lambda state: ran.append("b"))
    graph = chain(State, saver=saver, a=a, b=b)
    with nothing_left():
        error = failing(engine, graph, {"x": 1}, thread("talk"))
    assert type(error) is Disk
    text = "\n".join(error.__notes__)
    assert "thread 'talk'" in text
    assert "checkpoint " in text
    assert f"step {step}" in text
    assert ran == ["a", "b"][:step], "nothing runs on a state that wasn't saved"
    place = failure(error)
    assert place.thread_id == "talk"
    assert place.result.status == "failed"


def test_records_that_cannot_be_saved_end_the_run(engine):
    saver = FailingSaver("put_records", 1)
    begun = threading.Event()

    def a(state):
        return {"log": ["a"]}

    async def b(state):
        begun.set()
        await asyncio.Event().wait()

    graph = fan(State, saver=saver, a=a, b=b)
    with nothing_left():
        error = failing(engine, graph, {"x": 1}, thread("talk"))
        assert type(error) is Disk
        assert "thread 'talk'" in "\n".join(error.__notes__)
        graph.close()


def test_a_question_that_cannot_be_saved_is_not_reported_as_open(engine, colour):
    saver = FailingSaver("put_records", 1)
    graph = chain(State, saver=saver, a=colour(lambda state: interrupt("sure?")))
    error = failing(engine, graph, {"x": 1}, thread("talk"))
    assert type(error) is Disk


def test_a_thread_that_cannot_be_loaded_ends_the_run_before_it_begins(engine):
    saver = FailingSaver("load", 1)
    ran: list[int] = []
    error = failing(
        engine, chain(State, saver=saver, a=lambda state: ran.append(1)), {"x": 1}, thread("talk")
    )
    assert type(error) is Disk
    assert "thread 'talk'" in "\n".join(error.__notes__)
    assert ran == []


def test_after_a_failed_save_the_thread_goes_on_from_what_was_saved(engine, colour):
    saver = FailingSaver("put", 3)
    ran: list[str] = []

    def step(name):
        def node(state):
            ran.append(name)
            return {"log": [name]}

        return colour(node)

    graph = chain(State, saver=saver, a=step("a"), b=step("b"))
    failing(engine, graph, {"x": 1}, thread())
    result = engine.invoke(graph, None, thread())
    assert result["log"] == ["a", "b"]
    assert ran == ["a", "b", "b"]
