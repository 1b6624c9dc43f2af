"""`@task`: calls made inside a node run beside it, and their results are recorded."""

import asyncio
import functools
import operator
import threading
from collections import Counter
from contextvars import copy_context
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    CallFuture,
    ConfigError,
    GraphBuildError,
    RetryPolicy,
    Send,
    StateGraph,
    failure,
    get_config,
    get_runtime,
    get_stream_writer,
    task,
)
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.behaviour.leftovers import in_time, nothing_left

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


class Boom(Exception):
    """Users' own."""


def sync_task(function: Any, **options: Any) -> Any:
    return task(**options)(function)


def async_task(function: Any, **options: Any) -> Any:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    return task(**options)(run)


@pytest.fixture(params=[sync_task, async_task], ids=["sync task", "async task"])
def make_task(request):
    """Makes a function a task of one colour or the other."""
    return request.param


def sync_node(part: Any, *calls: Any) -> Any:
    """A node that begins a call for every tuple of arguments and then waits for all."""

    def node(state):
        futures = [part(*args) for args in calls]
        return {"log": [future.result() for future in futures]}

    return node


def async_node(part: Any, *calls: Any) -> Any:
    async def node(state):
        return {"log": list(await asyncio.gather(*[part(*args) for args in calls]))}

    return node


@pytest.fixture(params=[sync_node, async_node], ids=["sync node", "async node"])
def calling(request):
    """Makes a node of one colour or the other that calls a task."""
    return request.param


WHERE = ["alone", "beside another", "nested", "sent"]


def placed(where: str, node: Any, saver: Any = None, **more: Any) -> Any:
    """The node in one place or another of a graph."""
    if where == "nested":
        return chain(State, saver=saver, sub=chain(State, n=node))
    if where == "sent":
        graph = builder(State, {"n": node}).add_conditional_edges(
            START, lambda state: [Send("n", dict(state))]
        )
        return graph.compile(saver)
    return fan(State, saver=saver, n=node, **({"other": wrote("y", 1)} if where == "beside another" else {}))


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("with_saver", [False, True])
@pytest.mark.parametrize("where", WHERE)
def test_a_call_gives_what_the_function_returns(engine, saver, make_task, calling, where, with_saver):
    part = make_task(lambda a, b=1: (a, b))
    graph = placed(where, calling(part, (1,), (2, 3), ("text",)), saver if with_saver else None)
    with nothing_left():
        result = engine.invoke(graph, {"log": []}, thread() if with_saver else None)
        graph.close()
    assert result["log"] == [(1, 1), (2, 3), ("text", 1)]


def test_calls_run_beside_one_another_and_beside_the_node(engine, calling):
    together = threading.Barrier(4)

    @task
    def part(n):
        together.wait(WAIT)
        return n

    if calling is sync_node:

        def node(state):
            futures = [part(n) for n in range(3)]
            together.wait(WAIT)
            return {"log": [future.result() for future in futures]}

    else:

        async def node(state):
            futures = [part(n) for n in range(3)]
            await asyncio.to_thread(together.wait, WAIT)
            return {"log": list(await asyncio.gather(*futures))}

    graph = chain(State, n=node)
    assert engine.invoke(graph, {"x": 1})["log"] == [0, 1, 2]
    graph.close()


def test_async_calls_run_beside_one_another(engine, calling):
    """All are waiting before the first goes on."""
    waiting: list[Any] = []

    @task
    async def part(n):
        mine = asyncio.get_running_loop().create_future()
        waiting.append(mine)
        if len(waiting) == 3:
            for other in waiting:
                other.set_result(None)
        await mine
        return n

    graph = chain(State, n=calling(part, (0,), (1,), (2,)))
    assert engine.invoke(graph, {"x": 1})["log"] == [0, 1, 2]
    graph.close()


def test_a_call_runs_from_the_moment_it_is_made(engine):
    """Nobody has asked for its result yet."""
    begun = threading.Event()

    @task
    def part():
        begun.set()
        return 1

    def node(state):
        future = part()
        assert begun.wait(WAIT), "the call didn't begin before its result was asked for"
        return {"x": future.result()}

    assert engine.invoke(chain(State, n=node), {"x": 0})["x"] == 1


def test_a_call_nobody_waits_for_is_awaited_before_the_node_has_ended(engine, make_task):
    done: list[int] = []
    part = make_task(lambda: done.append(1))

    def node(state):
        part()
        return {"x": 1}

    def after(state):
        return {"y": list(done)}

    graph = chain(State, n=node, after=after)
    assert engine.invoke(graph, {"x": 0})["y"] == [1]
    graph.close()


def test_futures_know_whether_they_are_done_and_may_be_asked_twice(engine, make_task):
    part = make_task(lambda: ["value"])

    def node(state):
        future = part()
        assert isinstance(future, CallFuture)
        first, second = future.result(), future.result()
        assert future.done()
        assert first == second == ["value"]
        assert first is not second, "each is the node's own copy"
        first.append("changed")
        return {"x": future.result()}

    graph = chain(State, n=node)
    assert engine.invoke(graph, {"x": 0})["x"] == ["value"]
    graph.close()


def test_a_future_may_be_awaited_twice(engine, make_task):
    part = make_task(lambda: 7)

    async def node(state):
        future = part()
        return {"log": [await future, await future]}

    graph = chain(State, n=node)
    assert engine.invoke(graph, {"x": 0})["log"] == [7, 7]
    graph.close()


@pytest.mark.parametrize("way", ["gather", "as_completed", "wait", "TaskGroup", "timeout", "ensure_future"])
def test_futures_go_with_asyncios_ways_of_waiting(engine, make_task, way):
    part = make_task(lambda n: n)

    async def waited(future):
        return await future

    async def node(state):
        futures = [part(n) for n in range(3)]
        if way == "gather":
            found = await asyncio.gather(*futures)
        elif way == "as_completed":
            found = [await each for each in asyncio.as_completed([waited(future) for future in futures])]
        elif way == "wait":
            done, _ = await asyncio.wait([asyncio.ensure_future(future) for future in futures])
            found = [each.result() for each in done]
        elif way == "TaskGroup":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(waited(future)) for future in futures]
            found = [each.result() for each in tasks]
        elif way == "timeout":
            async with asyncio.timeout(WAIT):
                found = [await future for future in futures]
        else:
            found = [await asyncio.ensure_future(future) for future in futures]
        return {"log": sorted(found)}

    graph = chain(State, n=node)
    assert engine.invoke(graph, {"x": 0})["log"] == [0, 1, 2]
    graph.close()


def test_a_thousand_calls_of_one_node(engine, calling):
    @task
    def part(n):
        return n

    graph = chain(State, n=calling(part, *[(n,) for n in range(1_000)]))
    assert engine.invoke(graph, {"x": 1})["log"] == list(range(1_000))
    graph.close()


def test_calls_made_in_several_nodes_at_once(engine, make_task, calling):
    part = make_task(lambda who, n: (who, n))
    nodes = {name: calling(part, *[(name, n) for n in range(5)]) for name in "abcd"}
    graph = fan(State, **nodes)
    assert engine.invoke(graph, {"x": 1})["log"] == [(name, n) for name in "abcd" for n in range(5)]
    graph.close()


@pytest.mark.parametrize("kind", ["method", "partial", "callable", "static", "lambda"])
def test_what_may_be_a_task(engine, kind):
    class Owner:
        def __init__(self):
            self.base = 10

        @task
        def method(self, n):
            return self.base + n

        @staticmethod
        @task
        def static(n):
            return 10 + n

        def __call__(self, n):
            return self.base + n

    part = {
        "method": Owner().method,
        "partial": task(functools.partial(lambda base, n: base + n, 10)),
        "callable": task(name="owner")(Owner()),
        "static": Owner.static,
        "lambda": task(lambda n: n + 10),
    }[kind]
    assert engine.invoke(chain(State, n=sync_node(part, (1,), (2,))), {"x": 1})["log"] == [11, 12]


def test_a_generator_cannot_be_a_task():
    def pieces():
        yield 1

    async def async_pieces():
        yield 1

    for function in (pieces, async_pieces):
        with pytest.raises(GraphBuildError, match="pieces"):
            task(function)


def test_a_task_outside_of_a_node_is_an_error_that_says_so():
    part = task(lambda: 1)
    with pytest.raises(ConfigError, match="outside of a node"):
        part()


def test_a_task_in_a_router_or_a_reducer_is_an_error_or_works_but_never_hangs(engine, make_task):
    part = make_task(list)

    def route(state):
        return part().result()

    graph = builder(State, {"n": nothing}, (START, "n")).add_conditional_edges("n", route, ["n"]).compile()
    try:
        result = engine.invoke(graph, {"x": 1})
    except ConfigError as error:
        assert failure(error).node == "n"  # noqa: PT017 - either is right
    else:
        assert result.status == "completed"
    graph.close()


def test_a_task_keeps_its_name_and_docstring():
    @task
    def part(n: int) -> int:
        """Does its part."""
        return n

    assert (part.__name__, part.__doc__) == ("part", "Does its part.")


# ── the node's context ───────────────────────────────────────────────────────────────────────────────────────


def test_a_call_sees_the_run_it_belongs_to(engine, make_task):
    seen: list[Any] = []

    def part():
        info = get_runtime().execution_info
        get_stream_writer()("from a call")
        seen.append((get_config()["tags"], get_runtime().context, info.run_id, info.step))

    called = make_task(part)
    graph = chain(State, n=lambda state: called().result())
    items = engine.stream(graph, {"x": 1}, {"tags": ["a"]}, stream_mode="custom", context=7, version="parts")
    assert [item.data for item in items] == ["from a call"]
    ((tags, context, run_id, step),) = seen
    assert (tags, context, step) == (["a"], 7, 1)
    assert run_id
    graph.close()


def test_calls_inside_calls(engine, make_task):
    inner = make_task(lambda n: n * 10)

    @task
    def outer(n):
        return inner(n).result() + inner(n + 1).result()

    graph = chain(State, n=sync_node(outer, (1,), (2,)))
    assert engine.invoke(graph, {"x": 1})["log"] == [30, 50]
    graph.close()


def test_async_calls_inside_calls(engine, make_task):
    inner = make_task(lambda n: n * 10)

    @task
    async def outer(n):
        one, two = await asyncio.gather(inner(n), inner(n + 1))
        return one + two

    graph = chain(State, n=async_node(outer, (1,), (2,)))
    assert engine.invoke(graph, {"x": 1})["log"] == [30, 50]
    graph.close()


def test_a_call_may_run_a_graph(engine, make_task):
    inner = chain(State, leaf=lambda state: {"log": [state["x"] * 2]})
    part = make_task(lambda n: inner.invoke({"x": n})["log"][0])
    graph = chain(State, n=sync_node(part, (1,), (2,), (3,)))
    assert engine.invoke(graph, {"x": 1})["log"] == [2, 4, 6]
    graph.close()
    inner.close()


def test_calls_from_threads_that_the_node_started(engine, make_task):
    """With the node's context they are the node's; without it they are told the remedy."""
    part = make_task(lambda n: n)
    found: dict[str, Any] = {}

    def node(state):
        def call(name):
            try:
                found[name] = part(5).result()
            except ConfigError as error:
                found[name] = error

        helpers = [
            threading.Thread(target=copy_context().run, args=(call, "with")),
            threading.Thread(target=call, args=("without",)),
        ]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()

    graph = chain(State, n=node)
    engine.invoke(graph, {"x": 1})
    assert found["with"] == 5
    assert "copy_context" in str(found["without"])
    graph.close()


def test_a_future_s_result_in_an_async_node_of_an_async_run_is_an_error_and_no_deadlock():
    part = task(lambda: 1)

    async def node(state):
        return {"x": part().result()}

    for graph in (chain(State, n=node), fan(State, n=node, other=nothing)):
        with pytest.raises(ConfigError, match="await"):
            asyncio.run(graph.ainvoke({"x": 1}))


def test_a_call_after_the_node_has_ended_is_an_error(engine):
    part = task(lambda: 1)
    let_go = threading.Event()
    said: list[BaseException] = []
    helpers: list[threading.Thread] = []

    def late():
        let_go.wait(WAIT)
        try:
            part()
        except BaseException as error:
            said.append(error)

    def node(state):
        helper = threading.Thread(target=copy_context().run, args=(late,))
        helper.start()
        helpers.append(helper)

    engine.invoke(chain(State, n=node), {"x": 1})
    let_go.set()
    helpers[0].join()
    assert len(said) == 1


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", WHERE)
def test_an_exception_comes_at_the_result(engine, make_task, calling, where):
    def fails(n):
        raise Boom(n)

    graph = placed(where, calling(make_task(fails), (1,)))
    with nothing_left():
        with pytest.raises(Boom, match="1") as caught:
            engine.invoke(graph, {"log": [], "x": 1})
        graph.close()
    assert failure(caught.value).node == "n"


def test_an_exception_that_the_node_catches_is_its_own_business(engine, make_task):
    def fails():
        raise Boom

    part = make_task(fails)

    def node(state):
        future = part()
        try:
            future.result()
        except Boom:
            return {"x": "caught"}

    graph = chain(State, n=node)
    assert engine.invoke(graph, {"x": 1})["x"] == "caught"
    graph.close()


def test_an_exception_nobody_asked_for_fails_nothing_but_shows(engine, make_task, caplog):
    """The node ended well without looking at that result."""

    def fails():
        raise Boom

    part = make_task(fails)

    def node(state):
        part()
        return {"x": "fine"}

    graph = chain(State, n=node)
    assert engine.invoke(graph, {"x": 1})["x"] == "fine"
    graph.close()


def test_a_failure_of_the_node_cancels_its_async_calls(engine):
    how: list[str] = []
    begun = threading.Event()

    @task
    async def part():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            how.append("cancelled")

    def node(state):
        part()
        assert begun.wait(WAIT)
        raise Boom

    graph = chain(State, n=node)
    with nothing_left():
        with pytest.raises(Boom):
            engine.invoke(graph, {"x": 1})
        graph.close()
    assert how == ["cancelled"]


def test_a_failing_sibling_cancels_a_node_s_async_calls(engine):
    how: list[str] = []
    begun = threading.Event()

    @task
    async def part():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            how.append("cancelled")

    async def node(state):
        await part()

    def fails(state):
        assert begun.wait(WAIT)
        raise Boom

    graph = fan(State, n=node, z=fails)
    with nothing_left():
        with pytest.raises(Boom):
            engine.invoke(graph, {"x": 1})
        graph.close()
    assert how == ["cancelled"]


@pytest.mark.parametrize("where", ["alone", "nested", "deeper", "called inside"])
@pytest.mark.parametrize("call", ["waits", "ends"])
def test_a_sync_node_that_waits_for_its_calls_is_woken_by_a_failing_sibling(engine, where, call):
    """It would wait for ever: for a call that doesn't end, or for one that ends when nobody listens any more."""
    begun, failed = threading.Event(), threading.Event()
    woken: list[str] = []

    @task
    async def waits():
        begun.set()
        await asyncio.Event().wait()

    @task
    def ends():
        begun.set()
        assert failed.wait(WAIT)
        threading.Event().wait(0.05)  # the failure has got through by then, as far as it gets

    part = waits if call == "waits" else ends

    def node(state):
        try:
            futures = [part() for _ in range(3)]
            for future in futures:
                future.result()
        except BaseException as error:
            woken.append(type(error).__name__)
            raise
        woken.append("result")

    def fails(state):
        assert begun.wait(WAIT)
        failed.set()
        raise Boom

    inner = chain(State, n=node)
    if where == "deeper":
        inner = chain(State, sub=fan(State, sub=inner, other=nothing))
    action = {"alone": node, "called inside": lambda state: inner.invoke({"x": 1}) and None}.get(where, inner)
    graph = fan(State, n=action, z=fails)
    with nothing_left():
        with pytest.raises(Boom):
            in_time(lambda: engine.invoke(graph, {"x": 1}))
        graph.close()
        inner.close()
    assert len(woken) == 1


def test_a_task_s_own_retry_policy(engine, make_task, calling):
    tries: list[int] = []

    def flaky(n):
        tries.append(n)
        if len(tries) < 3:
            raise Boom
        return n

    part = make_task(flaky, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    graph = chain(State, n=calling(part, (5,)))
    assert engine.invoke(graph, {"x": 1})["log"] == [5]
    assert tries == [5, 5, 5]
    graph.close()


def test_a_retried_node_takes_the_recorded_results(engine, saver, make_task):
    """Only what wasn't recorded runs again."""
    ran: list[str] = []
    part = make_task(lambda: ran.append("part") or "result")

    def node(state):
        found = part().result()
        ran.append("node")
        if ran.count("node") == 1:
            raise Boom
        return {"x": found}

    graph = StateGraph(State).add_node("n", node, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    graph = graph.add_edge(START, "n").compile(saver)
    assert engine.invoke(graph, {"x": 1}, thread())["x"] == "result"
    assert ran == ["part", "node", "node"]
    graph.close()


def test_a_failed_node_takes_the_recorded_results_when_it_goes_on(engine, saver, make_task, calling):
    ran: Counter[Any] = Counter()
    broken = [True]

    def part(n):
        ran[n] += 1
        if n == 2 and broken:
            raise Boom
        return n

    called = make_task(part)
    if calling is sync_node:

        def node(state):
            return {"log": [called(n).result() for n in (1, 2, 3)]}

    else:

        async def node(state):
            return {"log": [await called(n) for n in (1, 2, 3)]}

    graph = chain(State, saver=saver, n=node)
    with pytest.raises(Boom):
        engine.invoke(graph, {"x": 1}, thread())
    broken.clear()
    assert engine.invoke(graph, None, thread())["log"] == [1, 2, 3]
    assert ran == {1: 1, 2: 2, 3: 1}
    graph.close()
