"""`@entrypoint`: a function as a graph."""

import asyncio
import functools
import operator
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    CachePolicy,
    CallFuture,
    Command,
    CompiledGraph,
    ConfigError,
    Entrypoint,
    GraphBuildError,
    InvalidUpdateError,
    NodeTimeoutError,
    PendingInterruptError,
    RetryPolicy,
    Runtime,
    StateGraph,
    aonce,
    entrypoint,
    failure,
    gather,
    get_runtime,
    interrupt,
    once,
    register_type,
    task,
)
from tests.behaviour.building import thread

pytestmark = pytest.mark.timeout(20)


class Boom(Exception):
    """Users' own."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


def sync_entry(script: Any, *args: Any, **options: Any) -> Any:
    """An entrypoint of a script, which yields calls and is given what they give."""

    @entrypoint(*args, name="flow", **options)
    def flow(given: Any, *, previous: Any = None) -> Any:
        steps = script(given, previous)
        found = None
        while True:
            try:
                call = steps.send(found)
            except StopIteration as end:
                return end.value
            found = call.result()

    return flow


def async_entry(script: Any, *args: Any, **options: Any) -> Any:
    @entrypoint(*args, name="flow", **options)
    async def flow(given: Any, *, previous: Any = None) -> Any:
        steps = script(given, previous)
        found = None
        while True:
            try:
                call = steps.send(found)
            except StopIteration as end:
                return end.value
            found = await call

    return flow


@pytest.fixture(params=[sync_entry, async_entry], ids=["def", "async def"])
def entry(request):
    """Makes an entrypoint of one colour or the other."""
    return request.param


def returned(value: Any) -> Any:
    """A script without calls."""

    def script(given, previous):
        yield from ()
        return value(given, previous)

    return script


@pytest.fixture
def ran() -> Counter[Any]:
    return Counter()


def double(ran: Counter[Any], colour: str) -> Any:
    if colour == "def":

        @task(name="double")
        def double(n):
            ran[n] += 1
            return 2 * n
    else:

        @task(name="double")
        async def double(n):
            await asyncio.sleep(0)
            ran[n] += 1
            return 2 * n

    return double


# ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_a_graph_of_one_node_named_after_the_function():
    @entrypoint()
    def workflow(given: int) -> str:
        """Works."""
        return str(given)

    assert isinstance(workflow, Entrypoint)
    assert isinstance(workflow, CompiledGraph)
    assert (workflow.name, workflow.__name__, workflow.__doc__) == ("workflow", "workflow", "Works.")
    assert list(workflow.tables.nodes) == ["workflow"]
    assert workflow.function(3) == "3"
    assert not workflow.check()
    assert "workflow" in workflow.get_graph().draw_mermaid()


def test_the_result_s_value_is_what_it_returns(engine, entry):
    for value in (5, None, "text", [1, {"a": 2}], {"a": 1}, ("t", 1)):
        result = engine.invoke(entry(returned(lambda given, _: given["value"])), {"value": value})
        assert (result.value, result.status, dict(result)) == (value, "completed", {})


def test_without_a_saver_nothing_is_remembered(engine, entry):
    flow = entry(returned(lambda given, previous: (given, previous)))
    assert engine.invoke(flow, 1).value == (1, None)
    assert engine.invoke(flow, 2).value == (2, None)
    with pytest.raises(ConfigError):
        engine.invoke(flow, None)


@pytest.mark.parametrize("kind", ["method", "partial", "callable"])
def test_what_may_be_an_entrypoint(engine, kind):
    class Flow:
        def run(self, given):
            return given + 1

        def __call__(self, given):
            return given + 1

    function = {
        "method": Flow().run,
        "partial": functools.partial(lambda more, given: given + more, 1),
        "callable": Flow(),
    }[kind]
    assert engine.invoke(entrypoint(name="flow")(function), 1).value == 2


def test_what_cannot_be_an_entrypoint_is_said_at_once():
    def nothing_given():
        return 1

    def only_keywords(*, given):
        return 1

    def pieces(given):
        yield 1

    async def async_pieces(given):
        yield 1

    def unknown(given, other):
        return 1

    for function in (nothing_given, only_keywords, pieces, async_pieces, unknown):
        with pytest.raises(GraphBuildError, match=function.__name__):
            entrypoint()(function)


def test_final_takes_two_types():
    assert entrypoint.final[int, str]
    with pytest.raises(TypeError):
        entrypoint.final[int]
    with pytest.raises(TypeError):
        entrypoint.final[int, int, int]


def test_it_is_given_what_it_asks_for(engine):
    @dataclass
    class Context:
        user: str

    @entrypoint("memory:", context_schema=Context)
    def flow(given, config, previous, runtime: Runtime[Context], writer, more=1):
        writer("written")
        assert get_runtime() is runtime
        assert runtime.previous == previous
        return [config["tags"], runtime.context.user, previous, runtime.execution_info.node, more]

    options = {"context": {"user": "u"}, "stream_mode": ["custom", "updates"]}
    for previous in (None, [["a"], "u", None, "flow", 1]):
        written, update = engine.stream(flow, 1, thread(tags=["a"]), **options)
        assert written == ("custom", "written")
        assert update == ("updates", {"flow": [["a"], "u", previous, "flow", 1]})
    flow.close()


def test_a_store_reaches_the_entrypoint_and_its_tasks(engine):
    @task
    def remember(word):
        get_runtime().store.put(("words",), word, {"word": word})

    @entrypoint(store="memory:")
    def flow(given, store):
        remember(given).result()
        return [item.key for item in store.search(("words",))]

    assert engine.invoke(flow, "a").value == ["a"]
    assert engine.invoke(flow, "b").value == ["a", "b"]
    flow.close()


# ── previous ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_previous_is_what_was_returned_last_on_the_thread(engine, saver, entry):
    flow = entry(returned(lambda given, previous: given + (previous or 0)), saver)
    assert [engine.invoke(flow, n, thread()).value for n in (1, 2, 3)] == [1, 3, 6]
    assert engine.invoke(flow, 5, thread("other")).value == 5
    assert engine.state(flow, thread()).values == 6
    assert engine.state(flow, thread()).next == ()
    flow.close()


def test_final_saves_something_else_than_is_returned(engine, saver, entry):
    def script(given, previous):
        yield from ()
        if given == "plain":
            return previous
        return entrypoint.final(value=f"got {previous}", save=given)

    flow = entry(script, saver)
    found = [engine.invoke(flow, given, thread()).value for given in ("a", "b", "plain", "c", "plain")]
    assert found == ["got None", "got a", "b", "got b", "c"]
    assert engine.state(flow, thread()).values == "c"
    flow.close()


def test_previous_is_a_copy(engine, entry):
    def script(given, previous):
        yield from ()
        found = [*(previous or []), given]
        if previous:
            previous.append("changed")
        return found

    flow = entry(script, "memory:")
    assert [engine.invoke(flow, n, thread()).value for n in (1, 2, 3)] == [[1], [1, 2], [1, 2, 3]]
    flow.close()


def test_an_edit_counts_as_what_it_returned(engine, saver, entry):
    flow = entry(returned(lambda given, previous: previous), saver)
    engine.invoke(flow, 1, thread())
    engine.update(flow, thread(), 10)
    assert engine.state(flow, thread()).values == 10
    assert engine.invoke(flow, 1, thread()).value == 10
    engine.update(flow, thread(), entrypoint.final(value="shown", save="kept"), "flow")
    assert engine.state(flow, thread()).values == "shown"
    assert engine.invoke(flow, 1, thread()).value == "kept"
    flow.close()


def test_history_shows_the_values_alone(engine, saver, entry):
    flow = entry(returned(lambda given, previous: given * 2), saver)
    for n in (1, 2):
        engine.invoke(flow, n, thread())
    found = [(state.values, state.next) for state in engine.history(flow, thread())]
    assert found == [(4, ()), (2, ("flow",)), (2, ()), (None, ("flow",))]
    again = engine.invoke(flow, None, engine.history(flow, thread())[1].config)
    assert again.value == 4
    flow.close()


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("colour", ["def", "async def"])
def test_tasks_of_either_colour_run_side_by_side_and_once(engine, saver, entry, ran, colour):
    part = double(ran, colour)

    def script(given, previous):
        calls = [part(n) for n in given]
        assert all(isinstance(call, CallFuture) for call in calls)
        found = yield gather(*calls)
        answer = interrupt("sure?")
        return [*found, answer]

    flow = entry(script, saver)
    paused = engine.invoke(flow, [1, 2, 3], thread())
    assert (paused.status, paused.value) == ("interrupted", None)
    assert engine.state(flow, thread()).next == ("flow",)
    with pytest.raises(PendingInterruptError):
        engine.invoke(flow, [1], thread())
    assert engine.resume(flow, "yes", thread()).value == [2, 4, 6, "yes"]
    assert ran == {1: 1, 2: 1, 3: 1}
    flow.close()


def test_what_a_failed_run_had_come_to_is_not_done_again(engine, saver, entry, ran):
    part = double(ran, "def")
    failing = [Boom()]

    def script(given, previous):
        one = yield part(1)
        if failing:
            raise failing.pop()
        two = yield part(2)
        return [one, two]

    flow = entry(script, saver)
    with pytest.raises(Boom) as caught:
        engine.invoke(flow, 0, thread())
    assert failure(caught.value).node == "flow"
    assert engine.invoke(flow, None, thread()).value == [2, 4]
    assert ran == {1: 1, 2: 1}
    flow.close()


def test_questions_of_parallel_tasks_are_all_asked_and_answered_in_any_order(engine, saver, entry):
    @task
    def ask(n):
        return interrupt(f"{n}?", key=str(n))

    def script(given, previous):
        return (yield gather(*map(ask, given)))

    flow = entry(script, saver)
    paused = engine.invoke(flow, [1, 2, 3], thread())
    assert sorted(question.value for question in paused.interrupts) == ["1?", "2?", "3?"]
    half = engine.resume(flow, {"3": "c", "1": "a"}, thread())
    assert [question.value for question in half.interrupts] == ["2?"]
    assert engine.resume(flow, {"2": "b"}, thread()).value == ("a", "b", "c")
    flow.close()


def test_a_retry_of_the_entrypoint_keeps_what_its_tasks_gave(engine, entry, ran):
    part = double(ran, "def")
    tries = []

    def script(given, previous):
        found = yield part(given)
        tries.append(found)
        if len(tries) < 3:
            raise Boom
        return found

    policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=Boom)
    flow = entry(script, retry_policy=policy)
    assert engine.invoke(flow, 4).value == 8
    assert (ran, len(tries)) == ({4: 1}, 3)


def test_time_limits_of_entrypoints_and_tasks(engine):
    @task(timeout=0.01)
    async def slow():
        await asyncio.Event().wait()

    @entrypoint()
    async def waits(given):
        return await slow()

    @entrypoint(timeout=0.01)
    async def waits_itself(given):
        await asyncio.Event().wait()

    for flow in (waits, waits_itself):
        with pytest.raises(NodeTimeoutError):
            engine.invoke(flow, 1)
        flow.close()


def test_what_is_kept_in_a_cache_is_given_again(engine, ran):
    @task(cache_policy=CachePolicy())
    def part(n):
        ran["part", n] += 1
        return n

    @entrypoint(cache="memory:")
    def calls(given):
        return [part(n).result() for n in given]

    @entrypoint(cache="memory:", cache_policy=CachePolicy())
    def whole(given):
        ran["whole", given] += 1
        return given

    for flow, given in ((calls, [1, 2]), (calls, [2, 3]), (whole, 1), (whole, 1), (whole, 2)):
        assert engine.invoke(flow, given).value == given
    assert set(ran.values()) == {1}
    assert len(ran) == 5
    with pytest.raises(GraphBuildError, match="previous"):
        entrypoint(cache_policy=CachePolicy())(lambda given, previous: given)


def test_cached_methods_of_different_objects_are_different(engine):
    @dataclass
    class Owner:
        base: int

        @task(cache_policy=CachePolicy(key_func=None))
        def add(self, n):
            return self.base + n

    register_type(Owner)

    @entrypoint(cache="memory:")
    def flow(given):
        return [owner.add(1).result() for owner in (Owner(10), Owner(20), Owner(10))]

    assert engine.invoke(flow, 1).value == [11, 21, 11]


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_updates_shows_tasks_and_the_entrypoint_by_name(engine, saver, entry, ran):
    part = double(ran, "def")

    def script(given, previous):
        one = yield part(given)
        answer = interrupt("sure?")
        two = yield part(one)
        return entrypoint.final(value=[two, answer], save="kept")

    flow = entry(script, saver)
    items = engine.stream(flow, 1, thread())
    assert [list(item) for item in items] == [["double"], ["__interrupt__"]]
    assert items[0] == {"double": 2}
    items = engine.stream(flow, Command(resume="yes"), thread())
    assert items == [
        {"double": 2, "__metadata__": {"cached": True}},
        {"double": 4},
        {"flow": [4, "yes"]},
    ]
    flow.close()


def test_what_a_task_gave_is_shown_while_the_entrypoint_runs(engine, entry, ran):
    part = double(ran, "def")
    shown = threading.Event()

    def wait(n):
        assert shown.wait(10), "the task wasn't shown before the entrypoint went on"

    wait_for = task(name="wait")(wait)

    def script(given, previous):
        yield part(given)
        yield wait_for(0)
        return "done"

    flow = entry(script)
    items = engine.consume(flow, 1, lambda item: shown.set())
    assert [list(item) for item in items] == [["double"], ["wait"], ["flow"]]


def test_a_node_s_calls_are_shown_before_its_update(engine, saver, ran):
    parts = [double(ran, "def"), double(ran, "async def")]

    def node(state):
        return {"log": [part(state["x"]).result() for part in parts[:1]]}

    async def async_node(state):
        return {"log": [await parts[0](state["x"]), await parts[1](5)]}

    for each in (node, async_node):
        graph = StateGraph(State).add_node("n", each).add_edge(START, "n").compile()
        found = engine.stream(graph, {"x": 1})
        assert [list(item) for item in found] == [["double"]] * (len(found) - 1) + [["n"]]
        assert len(found) == (2 if each is node else 3)
        graph.close()


def test_values_shows_the_value_once(engine, saver, entry):
    flow = entry(returned(lambda given, previous: given), saver)
    for n in (1, 2):
        assert engine.stream(flow, n, thread(), stream_mode="values") == [n]
    flow.close()


def test_no_mode_shows_what_is_behind_it(engine, entry, ran):
    part = double(ran, "def")

    def script(given, previous):
        found = yield part(given)
        return {"found": found}

    flow = entry(script, "memory:")
    modes = ["values", "updates", "tasks", "checkpoints", "debug"]
    shown = engine.stream(flow, 1, thread(), stream_mode=modes)
    assert {mode for mode, _ in shown} == set(modes)
    for hidden in ("__root__", "__given__", "__saved__"):
        assert hidden not in repr(shown)
    names = [data["name"] for mode, data in shown if mode == "tasks"]
    assert names == ["flow", "double", "double", "flow"]
    flow.close()


# ── in graphs, and graphs in them ────────────────────────────────────────────────────────────────────────────


def test_an_entrypoint_as_a_node_returns_an_update(engine, saver, entry, ran):
    part = double(ran, "def")

    def script(given, previous):
        found = yield part(given["x"])
        return {"log": [found, interrupt("sure?")]}

    graph = StateGraph(State).add_node(entry(script)).add_edge(START, "flow").compile(saver)
    assert engine.invoke(graph, {"x": 2}, thread()).status == "interrupted"
    assert engine.resume(graph, "yes", thread())["log"] == [4, "yes"]
    assert ran == {2: 1}
    graph.close()


def test_an_entrypoint_with_a_saver_of_its_own_is_no_node(entry):
    flow = entry(returned(lambda given, _: given), "memory:")
    with pytest.raises(GraphBuildError, match="saver of its own"):
        StateGraph(State).add_node(flow)
    flow.close()


def test_entrypoints_and_graphs_called_in_entrypoints(engine, saver, ran):
    def leaf(state):
        ran["leaf"] += 1
        return {"log": [interrupt(f"{state['x']}?")]}

    graph = StateGraph(State).add_node("leaf", leaf).add_edge(START, "leaf").compile()

    @entrypoint()
    def inner(given):
        ran["inner"] += 1
        return graph.invoke({"x": given})["log"]

    @entrypoint()
    async def inner_async(given):
        return (await graph.ainvoke({"x": given}))["log"]

    @entrypoint(saver)
    def outer(given):
        return [*inner.invoke(given).value, *inner.invoke(given + 1).value]

    @entrypoint(saver)
    async def outer_async(given):
        found = await asyncio.gather(inner_async.ainvoke(given), inner_async.ainvoke(given + 1))
        return [*found[0].value, *found[1].value]

    assert [q.value for q in engine.invoke(outer, 1, thread()).interrupts] == ["1?"]
    assert [q.value for q in engine.resume(outer, "a", thread()).interrupts] == ["2?"]
    assert engine.resume(outer, "b", thread()).value == ["a", "b"]
    paused = engine.invoke(outer_async, 1, thread("async"))
    answers = {question.id: question.value for question in paused.interrupts}
    while paused.status == "interrupted":
        answers = {question.id: question.value for question in paused.interrupts}
        paused = engine.resume(outer_async, answers, thread("async"))
    assert paused.value == ["1?", "2?"]
    for each in (outer, outer_async, inner, inner_async, graph):
        each.close()


def test_a_command_for_the_graph_around_it_and_no_other(engine):
    @entrypoint()
    def leaves(given):
        return Command(graph=Command.PARENT, update={"log": ["left"]}, goto="other")

    @entrypoint()
    def goes(given):
        return Command(goto="other")

    graph = StateGraph(State).add_node(leaves).add_node("other", lambda state: {"log": ["other"]})
    graph = graph.add_edge(START, "leaves").compile()
    assert engine.invoke(graph, {"x": 1})["log"] == ["left", "other"]
    with pytest.raises(InvalidUpdateError, match="nowhere to go"):
        engine.invoke(goes, 1)


def test_effects_are_made_once_in_entrypoints_and_their_tasks(engine, saver):
    keys: list[str] = []

    def pay(key):
        keys.append(key)
        return len(keys)

    @task
    async def part():
        return await aonce("pay", pay)

    @entrypoint(saver)
    def flow(given):
        found = [once("pay", pay), part().result()]
        return [*found, interrupt("sure?")]

    engine.invoke(flow, 1, thread())
    assert engine.resume(flow, "yes", thread()).value == [1, 2, "yes"]
    assert len(set(keys)) == len(keys) == 2
    flow.close()


# ── types ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Order:
    amount: int


@task
def priced(order: Order) -> Order:
    return Order(order.amount * 2)


def test_classes_named_in_annotations_are_stored(engine, saver):
    @entrypoint(saver)
    def flow(order: Order, *, previous: Order | None = None) -> Order:
        found = priced(order).result()
        interrupt("sure?")
        return Order(found.amount + (previous.amount if previous else 0))

    for expected in (4, 8):
        engine.invoke(flow, Order(2), thread())
        assert engine.resume(flow, "yes", thread()).value == Order(expected)
    flow.close()


def test_validation_where_it_is_asked_for(engine):
    @entrypoint(validate=True)
    def flow(given: int) -> str:
        return given if given > 1 else str(given)

    @entrypoint()
    def free(given: int) -> str:
        return given

    assert engine.invoke(flow, "1").value == "1"
    with pytest.raises(InvalidUpdateError, match="input"):
        engine.invoke(flow, "x")
    with pytest.raises(InvalidUpdateError, match="flow"):
        engine.invoke(flow, 2)
    assert engine.invoke(free, "x").value == "x"
