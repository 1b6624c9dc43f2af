"""What a failing node, saver or process signal does to a run, and what its exception says."""

import asyncio
import operator
import random
import threading
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    InvalidUpdateError,
    RetryPolicy,
    Send,
    StateGraph,
    failure,
    interrupt,
)
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.behaviour.leftovers import in_time, nothing_left
from tests.faulty import faulty

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


class Boom(Exception):
    """Users' own."""


def raises(error: BaseException) -> Any:
    """A node that raises this."""

    def node(state):
        raise error

    return node


def notes(error: BaseException) -> list[str]:
    return [note for note in getattr(error, "__notes__", []) if note.startswith("juncture")]


def failing(engine, graph, given=None, config=None, **options) -> Exception:
    """The exception of a run that fails."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is: the test looks at it
        engine.invoke(graph, {"x": 1} if given is None else given, config, **options)
    return caught.value


# ── the exception and its place ──────────────────────────────────────────────────────────────────────────────


def test_a_nodes_exception_arrives_itself(engine, colour):
    error = Boom("no")
    caught = failing(engine, chain(State, a=colour(raises(error))))
    assert caught is error
    assert (caught.__cause__, caught.__context__, caught.args) == (None, None, ("no",))


def test_it_arrives_itself_from_a_stream(engine, colour):
    error = Boom("no")
    with pytest.raises(Boom) as caught:
        engine.stream(chain(State, a=colour(raises(error))), {"x": 1}, stream_mode="values")
    assert caught.value is error
    assert failure(error).node == "a"


def test_a_note_says_where(engine, colour, saver):
    graph = chain(State, saver=saver, first=nothing, second=colour(raises(Boom("no"))))
    error = failing(engine, graph, {"x": 1}, thread("talk"))
    (note,) = notes(error)
    place = failure(error)
    for said in ("node 'second'", "step 2", "thread 'talk'", f"run {place.run_id}"):
        assert said in note


def test_failure_tells_the_place_and_the_result(engine, colour, saver):
    graph = chain(State, saver=saver, first=wrote("log", [1]), second=colour(raises(Boom("no"))))
    place = failure(failing(engine, graph, {"x": 1}, thread("talk")))
    assert (place.node, place.step, place.thread_id, place.namespace, place.attempt) == (
        "second",
        2,
        "talk",
        (),
        1,
    )
    assert place.result == {"log": [1], "x": 1}
    assert (place.result.status, place.result.last_nodes) == ("failed", ("first",))
    assert place.result.run_id == place.run_id
    assert place.result.interrupts == ()


def test_failure_is_none_for_exceptions_of_nobodys_run():
    assert failure(Boom()) is None


def test_in_a_nested_graph_the_place_is_the_inner_one(engine, colour, saver):
    inner = chain(State, ok=nothing, leaf=colour(raises(Boom("no"))))
    error = failing(engine, chain(State, saver=saver, top=nothing, sub=inner), {"x": 1}, thread("talk"))
    place = failure(error)
    assert (place.node, place.step, place.thread_id) == ("leaf", 2, "talk")
    assert [segment.partition(":")[0] for segment in place.namespace] == ["sub"]
    assert len(notes(error)) == 1, "the innermost speaks, and isn't contradicted"
    assert place.namespace[0] in notes(error)[0]
    assert place.result.last_nodes == ("top",), "the result is that of the graph which was called"


def test_in_a_graph_called_inside_a_node_the_place_is_the_inner_one(engine, colour):
    inner = chain(State, leaf=colour(raises(Boom("no"))))
    error = failing(engine, chain(State, outer=lambda state: inner.invoke(state)))
    place = failure(error)
    assert place.node == "leaf"
    assert len(place.namespace) == 1
    assert len(notes(error)) == 1


def test_a_routers_exception_is_its_nodes(engine):
    def route(state):
        raise Boom("router")

    graph = (
        builder(State, {"a": nothing, "b": nothing}, (START, "a"))
        .add_conditional_edges("a", route, ["b"])
        .compile()
    )
    error = failing(engine, graph)
    assert type(error) is Boom
    assert (failure(error).node, failure(error).step) == ("a", 1)


def test_an_entry_routers_exception_names_start(engine, saver):
    graph = (
        builder(State, {"a": nothing})
        .add_conditional_edges(START, raises(Boom("router")), ["a"])
        .compile(saver)
    )
    error = failing(engine, graph, {"x": 1}, thread())
    assert type(error) is Boom
    assert failure(error).node == START
    assert saver.load("t") is None, "nothing was saved"


def test_a_reducers_exception_leaves_the_step_unapplied_and_names_key_and_node(engine, saver):
    def reduce(old, new):
        if new == "bad":
            raise Boom("reducer")
        return new

    class Reduced(TypedDict, total=False):
        k: Annotated[Any, reduce]
        x: Any

    graph = fan(Reduced, saver=saver, a=wrote("x", 2), b=wrote("k", "bad"))
    error = failing(engine, graph, {"k": "good", "x": 1}, thread())
    text = "\n".join([str(error), *getattr(error, "__notes__", [])])
    assert "'k'" in text
    assert "'b'" in text
    assert failure(error).result == {"k": "good", "x": 1}


def test_an_exception_that_refuses_attributes_keeps_the_note(engine, colour):
    class Picky(Exception):
        def __setattr__(self, name, value):
            if name == "__juncture__":
                raise AttributeError(name)
            super().__setattr__(name, value)

    error = Picky("no")
    caught = failing(engine, chain(State, a=colour(raises(error))))
    assert caught is error
    assert failure(error) is None
    assert len(notes(error)) == 1


def test_a_frozen_dataclass_as_exception_arrives_itself(engine, colour):
    @dataclass(frozen=True)
    class Frozen(Exception):
        code: int

    error = Frozen(7)
    assert failing(engine, chain(State, a=nothing, b=colour(raises(error)))) is error


def test_an_exception_that_refuses_everything_arrives_as_it_is(engine, colour):
    class Sealed(Exception):
        def __setattr__(self, name, value):
            raise TypeError("sealed")

        def add_note(self, note):
            raise TypeError("sealed")

    error = Sealed("no")
    assert failing(engine, chain(State, a=colour(raises(error)))) is error


def test_an_exception_whose_attributes_misbehave_arrives_as_it_is(engine, colour):
    class Odd(Exception):
        def __getattr__(self, name):
            raise RuntimeError(f"no {name}")

    error = Odd("no")
    assert failing(engine, chain(State, a=colour(raises(error)))) is error


class Mute(Exception):
    """Can't be shown."""

    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __repr__


@pytest.mark.parametrize("how", ["saved", "shown", "retried"])
def test_an_exception_that_cannot_be_shown_arrives_itself(engine, colour, saver, how):
    error = Mute()
    policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=2 if how == "retried" else 1)
    graph = StateGraph(State).add_node("a", colour(raises(error)), retry_policy=policy)
    graph = graph.add_edge(START, "a").compile(saver if how == "saved" else None)
    modes = ["tasks", "debug"] if how == "shown" else None

    async def within() -> Any:
        """`asyncio.run` itself shows the exception that goes through it."""
        try:
            return await graph.ainvoke({"x": 1}, thread(), stream_mode=modes)
        except Mute as caught:
            return caught

    if engine.is_async:
        caught = asyncio.run(within())
    else:
        with pytest.raises(Mute) as raised:
            graph.invoke({"x": 1}, thread(), stream_mode=modes)
        caught = raised.value
    assert caught is error
    assert failure(error).node == "a"


def test_an_exception_that_cannot_be_shown_does_not_hide_another(engine):
    together = threading.Barrier(2)

    def fails(error):
        def node(state):
            together.wait(WAIT)
            raise error

        return node

    error = failing(engine, fan(State, a=fails(ValueError("first")), b=fails(Mute())))
    assert error.args == ("first",)
    assert any("'b'" in note for note in notes(error))


def test_notes_that_are_no_list_are_left_alone(engine, colour):
    error = Boom("no")
    error.__notes__ = ("mine",)
    assert failing(engine, chain(State, a=colour(raises(error)))) is error
    assert error.__notes__ == ("mine",)


def test_an_exception_object_raised_again_tells_its_last_place_only(engine, colour, saver):
    error = Boom("the one and only")
    graph = chain(State, saver=saver, first=nothing, second=colour(raises(error)))
    error.add_note("mine")
    runs = set()
    for name in ("one", "two", "three"):
        assert failing(engine, graph, {"x": 1}, thread(name)) is error
        (note,) = notes(error)
        assert f"thread {name!r}" in note
        assert failure(error).thread_id == name
        assert failure(error).result.run_id == failure(error).run_id
        runs.add(failure(error).run_id)
    assert error.__notes__[0] == "mine"
    assert len(error.__notes__) == 2
    assert len(runs) == 3


@faulty("unknown-key")
def test_our_own_errors_carry_the_place_as_attributes(engine, colour, saver):
    graph = chain(State, saver=saver, first=nothing, second=colour(lambda state: {"nope": 1}))
    error = failing(engine, graph, {"x": 1}, thread("talk"))
    assert type(error) is InvalidUpdateError
    assert (error.node, error.key, error.step, error.thread_id, error.namespace) == (
        "second",
        "nope",
        2,
        "talk",
        (),
    )
    assert error.attempt == 1
    assert error.result == {"x": 1, "log": []}
    assert error.run_id == error.result.run_id
    assert failure(error).result is error.result


def test_exceptions_that_are_special_to_generators_and_loops_arrive_themselves(engine, colour):
    for error in (StopIteration("no"), StopAsyncIteration("no"), RecursionError("no"), TimeoutError("no")):
        caught = failing(engine, chain(State, a=colour(raises(error))))
        real = caught if type(caught) is type(error) else caught.__cause__
        assert real is error, "Python itself turns StopIteration out of a coroutine into a RuntimeError"


def test_an_exception_group_arrives_itself(engine, colour):
    error = ExceptionGroup("both", [Boom("a"), ValueError("b")])
    assert failing(engine, chain(State, a=colour(raises(error)))) is error


def test_a_deep_recursion_in_a_node_is_the_nodes_failure(engine, colour):
    def dive(state):
        return dive(state)

    error = failing(engine, chain(State, a=colour(dive)))
    assert isinstance(error, RecursionError)
    assert failure(error).node == "a"
    assert failure(error).result.status == "failed", "not the limit of supersteps"


def test_a_failed_run_leaves_the_state_as_it_was(engine, colour, saver):
    def spoils(state):
        state["log"].append("spoilt")
        state["x"] = "spoilt"
        raise Boom

    graph = chain(State, saver=saver, a=wrote("log", [1]), b=colour(spoils))
    error = failing(engine, graph, {"x": 1}, thread())
    assert failure(error).result == {"log": [1], "x": 1}
    assert saver.load("t").checkpoint.step == 1


# ── several at once ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(60)
def test_of_two_failures_the_first_in_plan_order_is_raised_whatever_ended_first(engine):
    """Both have failed before either is heard of: a barrier, and the later in the plan ends first."""
    rng = random.Random(7)
    for _ in range(50):
        first = rng.choice("ab")
        ended = {name: threading.Event() for name in "ab"}
        together = threading.Barrier(2)

        def node(name, first=first, ended=ended, together=together):
            def run(state):
                together.wait(WAIT)
                if name != first:
                    ended[first].wait(WAIT)
                try:
                    raise Boom(name)
                finally:
                    ended[name].set()

            return run

        error = failing(engine, fan(State, a=node("a"), b=node("b")))
        assert error.args == ("a",)
        assert failure(error).node == "a"
        assert sum("'b'" in note and "Boom" in note for note in error.__notes__) == 1


@pytest.mark.timeout(60)
def test_async_failures_that_were_not_cancelled_too(engine):
    """b fails first; a is cancelled, and fails despite that: a is first in the plan."""

    async def a(state):
        try:
            await asyncio.Event().wait()
        finally:
            raise Boom("a")

    async def b(state):
        await asyncio.sleep(0)
        raise Boom("b")

    graph = fan(State, a=a, b=b)
    for _ in range(20):
        error = failing(engine, graph)
        assert (error.args, failure(error).node) == (("a",), "a")
        assert any("'b'" in note for note in notes(error))
    graph.close()


def test_one_exception_object_raised_by_two_tasks_is_noted_once(engine):
    error = Boom("shared")
    together = threading.Barrier(2)

    def node(state):
        together.wait(WAIT)
        raise error

    assert failing(engine, fan(State, a=node, b=node)) is error
    assert failure(error).node == "a"
    assert len(notes(error)) == 1


def test_a_failure_cancels_its_async_siblings(engine, saver):
    """Their cleaning up is awaited."""
    how: list[str] = []
    begun = threading.Event()

    async def waits(state):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            how.append("cancelled")
            raise
        return {"log": ["too late"]}

    def fails(state):
        assert begun.wait(WAIT)
        raise Boom

    graph = fan(State, saver=saver, a=fails, b=waits)
    with nothing_left():
        error = failing(engine, graph, {"x": 1}, thread())
        assert type(error) is Boom
        assert how == ["cancelled"]
        graph.close()


def test_a_failure_cancels_everything_nested_in_its_siblings(engine):
    how: list[str] = []
    begun = [threading.Event(), threading.Event()]

    def waits(number):
        async def leaf(state):
            try:
                begun[number].set()
                await asyncio.Event().wait()
            finally:
                how.append("cancelled")

        return leaf

    def fails(state):
        for event in begun:
            assert event.wait(WAIT)
        raise Boom

    deep = chain(State, sub=chain(State, subsub=fan(State, leaf=waits(0), leaf2=waits(1))))
    graph = fan(State, a=fails, b=deep)
    error = failing(engine, graph)
    assert (type(error), failure(error).node, failure(error).namespace) == (Boom, "a", ())
    assert how == ["cancelled"] * 2
    graph.close()


@pytest.mark.parametrize("how", ["failure", "closing"])
@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_what_is_called_inside_a_node_is_stopped_with_it(engine, way, how):
    """The graph that a function calls runs under its caller: what stops the one stops the other."""
    begun = threading.Event()
    ended: list[str] = []

    async def waits(state):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    inner = chain(State, leaf=waits)

    def calls(state):
        return list(inner.stream({"x": 1}))[-1] if way == "stream" else inner.invoke({"x": 1})

    async def calls_async(state):
        if way == "ainvoke":
            return await inner.ainvoke({"x": 1})
        return [item async for item in inner.astream({"x": 1})][-1]

    def other(state, writer):
        assert begun.wait(WAIT)
        writer("begun")
        if how == "failure":
            raise Boom
        return {"y": 1}

    graph = fan(State, a=calls_async if way.startswith("a") else calls, b=other)
    with nothing_left():
        if how == "failure":
            with pytest.raises(Boom):
                in_time(lambda: engine.invoke(graph, {"x": 1}))
        else:
            in_time(lambda: engine.consume(graph, {"x": 1}, lambda item: False, stream_mode="custom"))
        assert ended == ["cancelled"]
        graph.close()
        inner.close()


def test_a_running_sync_sibling_is_awaited_and_its_result_kept_for_the_retry(engine, saver):
    failed = threading.Event()
    begun = threading.Event()
    ran: list[str] = []

    def fails(state):
        ran.append("a")
        assert begun.wait(WAIT)
        if not failed.is_set():
            failed.set()
            raise Boom
        return {"log": ["a"]}

    def slow(state):
        begun.set()
        assert failed.wait(WAIT)
        ran.append("b")
        return {"log": ["b"]}

    graph = fan(State, saver=saver, a=fails, b=slow)
    with nothing_left():
        assert type(failing(engine, graph, {"x": 1}, thread())) is Boom
        assert sorted(ran) == ["a", "b"]
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b"]
    assert sorted(ran) == ["a", "a", "b"], "only what failed ran again"


def test_queued_tasks_never_start_after_a_failure(engine):
    started: list[int] = []

    def node(state):
        started.append(state["x"])
        if state["x"] == 0:
            raise Boom

    graph = (
        StateGraph(State)
        .add_node("n", node)
        .add_conditional_edges(START, lambda state: [Send("n", {"x": n}) for n in range(100)])
        .compile()
    )
    error = failing(engine, graph, {"x": 1}, {"max_concurrency": 1})
    assert type(error) is Boom
    assert started == [0]


def test_queued_async_tasks_never_start_after_a_failure(engine):
    started: list[int] = []

    async def node(state):
        started.append(state["x"])
        await asyncio.sleep(0)
        if state["x"] == 0:
            raise Boom

    graph = (
        StateGraph(State)
        .add_node("n", node)
        .add_conditional_edges(START, lambda state: [Send("n", {"x": n}) for n in range(100)])
        .compile()
    )
    assert type(failing(engine, graph, {"x": 1}, {"max_concurrency": 1})) is Boom
    assert started == [0]


def test_the_rest_of_the_graph_does_not_run_after_a_failure(engine, colour):
    ran: list[str] = []
    graph = builder(
        State,
        {
            "a": colour(raises(Boom())),
            "b": nothing,
            "c": lambda state: ran.append("c"),
            "d": lambda state: ran.append("d"),
        },
        (START, "a"),
        (START, "b"),
        ("a", "c"),
        ("b", "d"),
    ).compile()
    assert type(failing(engine, graph)) is Boom
    assert ran == []


def test_a_failed_thread_goes_on_with_none(engine, colour, saver):
    broken = [True]

    def flaky(state):
        if broken:
            raise Boom
        return {"log": ["b"]}

    graph = chain(State, saver=saver, a=wrote("log", ["a"]), b=colour(flaky), c=wrote("log", ["c"]))
    assert type(failing(engine, graph, {"x": 1}, thread())) is Boom
    with pytest.raises(Boom):
        engine.invoke(graph, None, thread())
    broken.clear()
    result = engine.invoke(graph, None, thread())
    assert (result["log"], result.steps, result.status) == (["a", "b", "c"], 2, "completed")


# ── a failure wins over a pause ──────────────────────────────────────────────────────────────────────────────


def asked_first(engine, saver, broken, ran):
    """A question is open before the other task fails."""
    asked = threading.Event()

    def asks(state):
        ran.append("ask")
        asked.set()
        return {"log": [interrupt("sure?")]}

    def flaky(state):
        ran.append("flaky")
        assert asked.wait(WAIT)
        if broken:
            raise Boom
        return {"log": ["ok"]}

    return fan(State, saver=saver, ask=asks, flaky=flaky)


def test_a_failure_wins_over_a_pause_and_lists_the_open_questions(engine, saver):
    ran: list[str] = []
    graph = asked_first(engine, saver, [True], ran)
    error = failing(engine, graph, {"x": 1}, thread())
    assert type(error) is Boom
    (question,) = failure(error).result.interrupts
    assert (question.value, question.node) == ("sure?", "ask")
    assert any(question.id in note for note in error.__notes__)
    assert failure(error).result.status == "failed"


def test_after_a_failure_none_reruns_the_failed_task_only(engine, saver):
    ran: list[str] = []
    broken = [True]
    graph = asked_first(engine, saver, broken, ran)
    failing(engine, graph, {"x": 1}, thread())
    broken.clear()
    ran.clear()
    result = engine.invoke(graph, None, thread())
    assert (result.status, [q.value for q in result.interrupts]) == ("interrupted", ["sure?"])
    assert ran == ["flaky"], "a task none of whose questions was answered isn't run again"
    result = engine.resume(graph, "yes", thread())
    assert result["log"] == ["yes", "ok"]
    assert ran == ["flaky", "ask"]


def test_after_a_failure_an_answer_reruns_the_failed_task_as_well(engine, saver):
    ran: list[str] = []
    broken = [True]
    graph = asked_first(engine, saver, broken, ran)
    failing(engine, graph, {"x": 1}, thread())
    broken.clear()
    ran.clear()
    result = engine.resume(graph, "yes", thread())
    assert (result.status, result["log"]) == ("completed", ["yes", "ok"])
    assert sorted(ran) == ["ask", "flaky"]
