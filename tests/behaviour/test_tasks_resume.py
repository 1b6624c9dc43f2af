"""Recorded calls: what a resumed node doesn't do again, and questions asked in calls."""

import asyncio
import functools
import operator
from collections import Counter
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    Command,
    InMemorySaver,
    InterruptError,
    ResumeMismatchError,
    Send,
    interrupt,
    task,
)
from tests.behaviour.building import builder, chain, fan, thread, wrote
from tests.behaviour.leftovers import nothing_left

pytestmark = pytest.mark.timeout(20)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


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


@pytest.fixture
def ran() -> Counter[Any]:
    return Counter()


@pytest.fixture(params=["sync node", "async node"])
def node_of(request):
    """Makes a node of one colour or the other from a generator that yields futures and is sent their results."""

    def make(script: Any) -> Any:
        def sync(state):
            steps = script(state)
            try:
                future = next(steps)
                while True:
                    future = steps.send(future.result())
            except StopIteration as end:
                return end.value

        async def coloured(state):
            steps = script(state)
            try:
                future = next(steps)
                while True:
                    future = steps.send(await future)
            except StopIteration as end:
                return end.value

        return sync if request.param == "sync node" else coloured

    return make


def questions(result) -> list[Any]:
    return [question.value for question in result.interrupts]


def by_value(result) -> dict[Any, str]:
    return {question.value: question.id for question in result.interrupts}


def counted(ran: Counter[Any], make: Any, function: Any = lambda n: n) -> Any:
    """A task that counts how often it ran with which arguments."""

    def part(*args: Any) -> Any:
        ran[args[0] if args else None] += 1
        return function(*args)

    return make(part)


# ── what is recorded isn't done again ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["alone", "beside another", "nested", "sent"])
def test_a_resumed_node_takes_the_recorded_results(engine, saver, make_task, node_of, ran, where):
    part = counted(ran, make_task)

    def script(state):
        one = yield part(1)
        answer = interrupt("sure?")
        two = yield part(2)
        return {"log": [one, answer, two]}

    node = node_of(script)
    if where == "nested":
        graph = chain(State, saver=saver, sub=chain(State, n=node))
    elif where == "sent":
        graph = (
            builder(State, {"n": node})
            .add_conditional_edges(START, lambda state: [Send("n", {})])
            .compile(saver)
        )
    else:
        graph = fan(
            State, saver=saver, n=node, **({"other": wrote("y", 1)} if where == "beside another" else {})
        )
    with nothing_left():
        assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["sure?"]
        assert engine.resume(graph, "yes", thread())["log"] == [1, "yes", 2]
        graph.close()
    assert ran == {1: 1, 2: 1}


def test_results_of_any_storable_kind_come_back_as_they_were(engine, saver, make_task):
    values = [None, False, 0, [], {}, (1, "a"), {"k": [1, (2,)]}, b"b", 2**80, {1, 2}]
    part = make_task(lambda n: values[n])
    seen: list[Any] = []

    def node(state):
        seen.append([part(n).result() for n in range(len(values))])
        interrupt("sure?")

    graph = chain(State, saver=saver, n=node)
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "yes", thread())
    assert seen == [values, values]
    assert [[type(each) for each in found] for found in seen] == [[type(each) for each in values]] * 2
    graph.close()


def test_calls_in_another_order_on_resume_take_their_own_results(engine, saver, make_task, node_of, ran):
    """They are known by name and arguments."""
    part = counted(ran, make_task)
    order = [1, 2, 3]

    def script(state):
        found = {}
        for n in order:
            found[n] = yield part(n)
        interrupt("sure?")
        return {"log": [found[n] for n in (1, 2, 3)]}

    graph = chain(State, saver=saver, n=node_of(script))
    engine.invoke(graph, {"x": 1}, thread())
    order.reverse()
    assert engine.resume(graph, "yes", thread())["log"] == [1, 2, 3]
    assert ran == {1: 1, 2: 1, 3: 1}
    graph.close()


@pytest.mark.parametrize("later", [[2], [1, 2, 3], [3, 2, 1], [2, 3]])
def test_calls_that_are_new_on_resume_run_and_those_left_out_are_nobodys_but_not_both(
    engine, saver, make_task, node_of, ran, later
):
    """A new call instead of a recorded one of the same task: this isn't the code that was paused."""
    part = counted(ran, make_task)
    wanted = [[1, 2]]

    def script(state):
        found = []
        for n in wanted[-1]:
            one = yield part(n)
            found += [one]
        interrupt("sure?")
        return {"log": found}

    graph = chain(State, saver=saver, n=node_of(script))
    engine.invoke(graph, {"x": 1}, thread())
    wanted.append(later)
    if later == [2, 3]:
        with pytest.raises(ResumeMismatchError, match=r"part\(3\).*gave 1"):
            engine.resume(graph, "yes", thread())
        wanted.append([1, 2])
        assert engine.invoke(graph, None, thread())["log"] == [1, 2], "the code as it was goes on"
    else:
        assert engine.resume(graph, "yes", thread())["log"] == later
    assert set(ran.values()) == {1}
    graph.close()


def test_equal_calls_are_told_apart_by_how_often_they_came_before(engine, saver, make_task, node_of, ran):
    part = counted(ran, make_task, lambda n: ran[n])

    def script(state):
        one = yield part(7)
        two = yield part(7)
        interrupt("sure?")
        three = yield part(7)
        return {"log": [one, two, three]}

    graph = chain(State, saver=saver, n=node_of(script))
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.resume(graph, "yes", thread())["log"] == [1, 2, 3]
    graph.close()


def test_calls_of_different_tasks_with_equal_arguments_are_different(engine, saver, make_task, ran):
    one = make_task(lambda n: ("one", n), name="one")
    two = make_task(lambda n: ("two", n), name="two")

    def node(state):
        found = [one(1).result(), two(1).result()]
        interrupt("sure?")
        return {"log": found}

    graph = chain(State, saver=saver, n=node)
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.resume(graph, "yes", thread())["log"] == [("one", 1), ("two", 1)]
    graph.close()


def test_records_of_one_node_are_not_another_s_nor_another_step_s_nor_another_thread_s(
    engine, saver, make_task, ran
):
    part = counted(ran, make_task, lambda n: ran[n])

    def node(state):
        return {"log": [part(1).result()]}

    graph = builder(State, {"a": node, "b": node, "c": node}, (START, "a"), (START, "b"), ("a", "c")).compile(
        saver
    )
    assert sorted(engine.invoke(graph, {"x": 1}, thread("one"))["log"]) == [1, 2, 3]
    assert sorted(engine.invoke(graph, {"x": 1}, thread("two"))["log"]) == [4, 5, 6]
    assert sorted(engine.invoke(graph, {"x": 1}, thread("one"))["log"][3:]) == [7, 8, 9]
    graph.close()


def test_parallel_calls_some_recorded_before_a_pause(engine, saver, make_task, ran):
    part = counted(ran, make_task)

    async def node(state):
        found = await asyncio.gather(*[part(n) for n in range(10)])
        answer = interrupt("sure?")
        more = await asyncio.gather(*[part(n) for n in range(10, 15)])
        return {"log": [*found, answer, *more]}

    graph = chain(State, saver=saver, n=node)
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.resume(graph, "yes", thread())["log"] == [*range(10), "yes", *range(10, 15)]
    assert set(ran.values()) == {1}
    graph.close()


def test_a_call_that_was_begun_but_not_waited_for_is_recorded_before_the_pause(engine, saver, make_task, ran):
    part = counted(ran, make_task)

    def node(state):
        future = part(1)
        answer = interrupt("sure?")
        return {"log": [future.result(), answer]}

    graph = chain(State, saver=saver, n=node)
    engine.invoke(graph, {"x": 1}, thread())
    assert ran == {1: 1}
    assert engine.resume(graph, "yes", thread())["log"] == [1, "yes"]
    assert ran == {1: 1}
    graph.close()


def test_arguments_that_cannot_be_stored_are_known_by_name_and_occurrence(engine, saver, make_task, ran):
    """Nothing stable is known of them."""
    part = make_task(lambda thing, n: ran.update([n]) or n)

    def node(state):
        found = [part(object(), 1).result(), part(object(), 2).result()]
        interrupt("sure?")
        return {"log": found}

    graph = chain(State, saver=saver, n=node)
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.resume(graph, "yes", thread())["log"] == [1, 2]
    assert ran == {1: 1, 2: 1}
    graph.close()


def test_a_result_that_cannot_be_stored_is_an_error_that_names_the_task(engine, saver, make_task):
    part = make_task(lambda: object(), name="maker")
    graph = chain(State, saver=saver, n=lambda state: part().result() and None)
    with pytest.raises(Exception, match="object") as caught:
        engine.invoke(graph, {"x": 1}, thread())
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "maker" in text
    assert "'t'" in text
    graph.close()


class FailingSaver(InMemorySaver):
    """Fails when records are saved for the n-th time."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self.left = nth

    def put_records(self, *args: Any, **kwargs: Any) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError("disk full")
        super().put_records(*args, **kwargs)


@pytest.mark.timeout(5)
@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("where", ["alone", "beside another", "nested"])
def test_a_saver_that_fails_at_a_call_ends_the_run(engine, make_task, node_of, ran, where, nth, swallows):
    """Whatever the node makes of it."""
    part = counted(ran, make_task)

    def script(state):
        for n in range(4):
            try:
                yield part(n)
            except Exception:
                if not swallows:
                    raise
        return {"x": "swallowed"}

    node = node_of(script)
    graph = fan(State, n=node, **({"other": wrote("y", 1)} if where == "beside another" else {}))
    if where == "nested":
        graph = chain(State, sub=graph)
    saver = FailingSaver(nth)
    graph = chain(State, saver=saver, sub=graph)
    with nothing_left():
        with pytest.raises(OSError, match="disk full") as caught:
            engine.invoke(graph, {"x": 1}, thread())
        graph.close()
    assert any("thread 't'" in note for note in caught.value.__notes__)


def test_a_result_that_is_a_stream_is_refused(engine, make_task):
    part = make_task(lambda: iter([1]))
    graph = chain(State, n=lambda state: part().result() and None)
    with pytest.raises(Exception, match="iterator"):
        engine.invoke(graph, {"x": 1})
    graph.close()


def test_in_a_loop_every_iteration_makes_its_calls(engine, saver, make_task, ran):
    part = counted(ran, make_task, lambda n: ran[n])

    def node(state):
        return {"log": [part(1).result()]}

    graph = builder(State, {"n": node}, (START, "n"))
    graph.add_conditional_edges("n", lambda state: "n" if len(state["log"]) < 4 else [], ["n"])
    graph = graph.compile(saver)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == [1, 2, 3, 4]
    graph.close()


def test_calls_inside_calls_are_recorded_too(engine, saver, make_task, ran):
    inner = counted(ran, make_task)

    @task
    def outer(n):
        ran["outer"] += 1
        found = [inner(n).result(), inner(n + 1).result()]
        return [*found, interrupt(f"sure of {n}?")]

    graph = chain(State, saver=saver, n=lambda state: {"log": [outer(1).result()]})
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["sure of 1?"]
    assert engine.resume(graph, "yes", thread())["log"] == [[1, 2, "yes"]]
    assert ran == {"outer": 2, 1: 1, 2: 1}
    graph.close()


# ── questions asked in calls ─────────────────────────────────────────────────────────────────────────────────


def test_a_call_may_ask_and_the_node_pauses(engine, saver, make_task, node_of, ran):
    part = counted(ran, make_task, lambda n: interrupt(f"{n}?"))

    def script(state):
        one = yield part(1)
        two = yield part(2)
        return {"log": [one, two]}

    graph = chain(State, saver=saver, n=node_of(script))
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["1?"]
    assert questions(engine.resume(graph, "one", thread())) == ["2?"]
    assert engine.resume(graph, "two", thread())["log"] == ["one", "two"]
    assert ran == {1: 2, 2: 2}
    graph.close()


def test_questions_of_parallel_calls_all_surface(engine, saver, make_task, ran):
    part = counted(ran, make_task, lambda n: interrupt(f"{n}?") if n else "none")

    async def node(state):
        return {"log": list(await asyncio.gather(*[part(n) for n in (2, 0, 1)]))}

    graph = chain(State, saver=saver, n=node)
    ids = by_value(engine.invoke(graph, {"x": 1}, thread()))
    assert sorted(ids) == ["1?", "2?"]
    half = engine.resume(graph, {ids["1?"]: "one"}, thread())
    assert questions(half) == ["2?"]
    assert by_value(half)["2?"] == ids["2?"]
    assert engine.resume(graph, "two", thread())["log"] == ["two", "none", "one"]
    assert ran[0] == 1
    graph.close()


def test_questions_of_calls_that_nobody_waits_for_surface_too(engine, saver, make_task):
    part = make_task(lambda n: interrupt(f"{n}?"))

    def node(state):
        futures = [part(1), part(2)]
        return {"log": [future.result() for future in futures]}

    graph = chain(State, saver=saver, n=node)
    ids = by_value(engine.invoke(graph, {"x": 1}, thread()))
    assert sorted(ids) == ["1?", "2?"], "the second is asked before the first is answered"
    assert engine.resume(graph, {ids["1?"]: 1, ids["2?"]: 2}, thread())["log"] == [1, 2]
    graph.close()


def test_a_node_that_swallows_its_calls_pause_pauses(engine, saver, make_task, node_of):
    part = make_task(lambda: interrupt("sure?"))

    def node(state):
        try:
            return {"x": part().result()}
        except BaseException:
            return {"x": "swallowed"}

    async def async_node(state):
        (x,) = await asyncio.gather(part(), return_exceptions=True)
        return {"x": x if isinstance(x, str) else "swallowed"}

    for name, each in (("one", node), ("two", async_node)):
        graph = chain(State, saver=saver, n=each)
        assert questions(engine.invoke(graph, {"x": 1}, thread(name))) == ["sure?"]
        assert engine.resume(graph, "yes", thread(name))["x"] == "yes"
        graph.close()


def test_the_node_and_its_calls_ask_at_once(engine, saver, make_task):
    part = make_task(lambda: interrupt("call?"))

    def node(state):
        future = part()
        mine = interrupt("node?")
        return {"log": [mine, future.result()]}

    graph = chain(State, saver=saver, n=node)
    ids = by_value(engine.invoke(graph, {"x": 1}, thread()))
    assert sorted(ids) == ["call?", "node?"]
    assert questions(engine.resume(graph, {ids["node?"]: "N"}, thread())) == ["call?"]
    assert engine.resume(graph, {ids["call?"]: "C"}, thread())["log"] == ["N", "C"]
    graph.close()


def test_equal_questions_of_different_calls_are_different_ones(engine, saver, make_task):
    part = make_task(lambda n: interrupt("sure?"))

    async def node(state):
        return {"log": list(await asyncio.gather(part(1), part(2)))}

    graph = chain(State, saver=saver, n=node)
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert questions(paused) == ["sure?", "sure?"]
    first, second = (question.id for question in paused.interrupts)
    assert first != second
    done = engine.resume(graph, {first: "a", second: "b"}, thread())
    assert sorted(done["log"]) == ["a", "b"]
    graph.close()


def test_a_call_that_asks_without_a_saver_is_an_error(engine, make_task):
    part = make_task(lambda: interrupt("sure?"))
    graph = chain(State, n=lambda state: part().result())
    with pytest.raises(InterruptError, match="saver"):
        engine.invoke(graph, {"x": 1})
    graph.close()


def test_an_answer_with_an_update_is_applied_once_with_calls(engine, saver, make_task, ran):
    part = counted(ran, make_task)

    def node(state):
        one = part(1).result()
        return {"log": [one, interrupt("sure?")]}

    graph = chain(State, saver=saver, n=node)
    engine.invoke(graph, {"log": ["in"]}, thread())
    done = engine.invoke(graph, Command(resume="yes", update={"log": ["edit"]}), thread())
    assert done["log"] == ["in", "edit", 1, "yes"]
    assert ran == {1: 1}
    graph.close()


# ── graphs called inside calls ───────────────────────────────────────────────────────────────────────────────


def test_a_graph_called_inside_a_call_may_ask(engine, saver, make_task, ran):
    def leaf(state):
        ran["leaf"] += 1
        return {"log": [interrupt(f"{state['x']}?")]}

    inner = chain(State, before=lambda state: ran.update(["before"]), leaf=leaf)
    part = make_task(lambda n: inner.invoke({"x": n})["log"])

    async def node(state):
        one, two = await asyncio.gather(part(1), part(2))
        return {"log": one + two}

    graph = chain(State, saver=saver, n=node)
    ids = by_value(engine.invoke(graph, {"x": 1}, thread()))
    assert sorted(ids) == ["1?", "2?"]
    assert questions(engine.resume(graph, {ids["2?"]: "two"}, thread())) == ["1?"]
    assert engine.resume(graph, "one", thread())["log"] == ["one", "two"]
    assert ran["before"] == 2, "their finished steps aren't repeated"
    graph.close()
    inner.close()
