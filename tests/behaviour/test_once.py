"""`once`: an effect is made at most once in the life of a task, or is reported in doubt with its key."""

import asyncio
import operator
import threading
from contextvars import copy_context
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    Command,
    ConfigError,
    InDoubtError,
    InterruptError,
    PendingInterruptError,
    RetryPolicy,
    StateGraph,
    aonce,
    failure,
    interrupt,
    once,
    task,
)
from tests.behaviour.building import chain, fan, nothing, thread

pytestmark = pytest.mark.timeout(20)
QUICK = RetryPolicy(initial_interval=0, jitter=False, retry_on=Exception)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


class Boom(Exception):
    """Users' own."""


class Service:
    """What is outside: keeps count of what it was asked to do."""

    def __init__(self, *failing: BaseException) -> None:
        self.keys: list[str] = []
        self.failing = list(failing)

    def __call__(self, key: str) -> Any:
        """Does something, and may fail afterwards."""
        self.keys.append(key)
        if self.failing:
            raise self.failing.pop(0)
        return {"receipt": len(self.keys)}


@pytest.fixture(params=["def", "async def"])
def node_of(request):
    """Makes a node of steps: each is a function that is given what makes an effect once."""
    if request.param == "def":

        def make(script):
            def node(state):
                steps = script(state)
                given = None
                while True:
                    try:
                        key, function, options = steps.send(given)
                    except StopIteration as end:
                        return end.value
                    given = once(key, function, **options)

            return node
    else:

        def make(script):
            async def node(state):
                steps = script(state)
                given = None
                while True:
                    try:
                        key, function, options = steps.send(given)
                    except StopIteration as end:
                        return end.value
                    given = await aonce(key, function, **options)

            return node

    return make


def paying(service: Any, **options: Any) -> Any:
    """Pays, asks, and says what came of both."""

    def script(state):
        receipt = yield "pay", service, options
        return {"log": [receipt, interrupt("sure?")]}

    return script


def question_of(error: InDoubtError) -> Any:
    (question,) = error.result.interrupts
    assert question == error.question
    assert question.value == {"in_doubt": "pay", "idempotency_key": error.idempotency_key}
    return question


# ── once ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_effect_is_made_once_however_often_its_node_runs(engine, saver, node_of, durability):
    service = Service()
    graph = chain(State, saver=saver, n=node_of(paying(service)))
    assert engine.invoke(graph, {"log": []}, thread(), durability=durability).status == "interrupted"
    assert engine.resume(graph, "yes", thread(), durability=durability)["log"] == [{"receipt": 1}, "yes"]
    assert len(service.keys) == 1
    graph.close()


def test_a_retry_takes_what_was_recorded_with_or_without_a_saver(engine, node_of):
    service, tries = Service(), []

    def script(state):
        receipt = yield "pay", service, {}
        tries.append(receipt)
        if len(tries) < 3:
            raise Boom
        return {"log": [receipt]}

    for saver in (None, "memory:"):
        service.keys.clear()
        tries.clear()
        graph = StateGraph(State).add_node("n", node_of(script), retry_policy=QUICK).add_edge(START, "n")
        made = graph.compile(saver)
        assert engine.invoke(made, {"x": 1}, None if saver is None else thread())["log"] == [{"receipt": 1}]
        assert (len(tries), len(service.keys)) == (3, 1)
        made.close()


def test_the_same_key_is_the_same_effect_and_another_is_another(engine, saver, node_of):
    service = Service()

    def script(state):
        one = yield "a", service, {}
        again = yield "a", service, {}
        other = yield "b", service, {}
        one["receipt"] = "changed"
        return {"log": [again, other]}

    graph = chain(State, saver=saver, n=node_of(script), m=node_of(script))
    assert [r["receipt"] for r in engine.invoke(graph, {"x": 1}, thread())["log"]] == [1, 2, 3, 4]
    assert len(set(service.keys)) == 4, "every effect of every task has an idempotency key of its own"
    graph.close()


def test_effects_of_one_key_at_once_are_made_once(engine, saver):
    service = Service()
    together = threading.Barrier(3)

    async def fetch(key):
        await asyncio.sleep(0)
        return service(key)

    async def async_node(state):
        return {"log": list(await asyncio.gather(*[aonce("pay", fetch) for _ in range(3)]))}

    def node(state):
        found: list[Any] = []

        def pay():
            together.wait(10)
            found.append(once("pay", service))

        workers = [threading.Thread(target=copy_context().run, args=(pay,)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return {"log": found}

    for name, each in (("1", node), ("2", async_node)):
        service.keys.clear()
        graph = chain(State, saver=saver, n=each)
        assert engine.invoke(graph, {"x": 1}, thread(name))["log"] == [{"receipt": 1}] * 3
        assert len(service.keys) == 1
        graph.close()


@pytest.mark.parametrize("where", ["task", "async task", "nested", "called", "beside"])
def test_where_effects_are_made(engine, saver, where):
    """In tasks, nested graphs, graphs that a node calls, and beside other nodes."""
    service = Service()

    @task
    def pay(n):
        return [once("pay", service), interrupt("in the task?")]

    @task
    async def pay_async(n):
        return [await aonce("pay", service), interrupt("in the task?")]

    def leaf(state):
        return {"log": [once("pay", service), interrupt("inside?")]}

    if where in ("task", "async task"):
        part = pay if where == "task" else pay_async
        graph = chain(State, saver=saver, n=lambda state: {"log": part(1).result()})
    elif where == "nested":
        graph = chain(State, saver=saver, sub=chain(State, leaf=leaf))
    elif where == "called":
        inner = chain(State, leaf=leaf)
        graph = chain(State, saver=saver, n=lambda state: {"log": inner.invoke({"x": 1})["log"]})
    else:
        graph = fan(State, saver=saver, n=leaf, other=leaf)
    paused = engine.invoke(graph, {"x": 1}, thread())
    answers = {question.id: "yes" for question in paused.interrupts}
    done = engine.resume(graph, answers, thread())
    assert done["log"] == [{"receipt": 1}, "yes"] if where != "beside" else len(done["log"]) == 4
    assert len(service.keys) == len(set(service.keys)) == (2 if where == "beside" else 1)
    graph.close()


def test_idempotency_keys_tell_threads_apart_and_stay_the_same_for_one(engine, saver, node_of):
    keys: list[str] = []

    for name in ("a", "b"):
        service = Service(Boom())
        graph = chain(State, saver=saver, n=node_of(paying(service, retry_in_doubt=True)))
        with pytest.raises(Boom):
            engine.invoke(graph, {"x": 1}, thread(name))
        assert engine.invoke(graph, None, thread(name)).status == "interrupted"
        first, second = service.keys
        assert first == second
        assert len(first) == 32
        keys.append(first)
        graph.close()
    assert len(set(keys)) == 2


# ── in doubt ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_effect_whose_function_raised_is_in_doubt(engine, saver, node_of):
    service = Service(Boom("cut off"))
    graph = chain(State, saver=saver, n=node_of(paying(service)))
    with pytest.raises(Boom, match="cut off") as caught:
        engine.invoke(graph, {"log": []}, thread())
    assert service.keys[0] in "".join(caught.value.__notes__)
    for _ in range(2):  # as long as nobody knows more
        with pytest.raises(InDoubtError, match="pay") as doubt:
            engine.invoke(graph, None, thread())
        assert doubt.value.idempotency_key == service.keys[0]
        assert (doubt.value.node, failure(doubt.value).node) == ("n", "n")
    question = question_of(doubt.value)
    assert engine.state(graph, thread()).interrupts == (question,)
    assert engine.state(graph, thread()).tasks[0].interrupts == (question,)
    assert len(service.keys) == 1
    with pytest.raises(PendingInterruptError):
        engine.invoke(graph, {"log": []}, thread())
    graph.close()


@pytest.mark.parametrize("by", ["key", "id", "alone"])
@pytest.mark.parametrize("happened", [True, False])
def test_somebody_says_what_happened(engine, saver, node_of, happened, by):
    service = Service(Boom())
    graph = chain(State, saver=saver, n=node_of(paying(service)))
    with pytest.raises(Boom):
        engine.invoke(graph, {"log": []}, thread())
    with pytest.raises(InDoubtError) as doubt:
        engine.invoke(graph, None, thread())
    question = question_of(doubt.value)
    answer: Any = {"happened": True, "result": "looked up"} if happened else {"happened": False}
    answer = answer if by == "alone" else {getattr(question, by): answer}
    assert [q.value for q in engine.resume(graph, answer, thread()).interrupts] == ["sure?"]
    receipt = "looked up" if happened else {"receipt": 2}
    assert engine.resume(graph, "yes", thread())["log"] == [receipt, "yes"]
    assert service.keys == [question.key] * (1 if happened else 2)
    graph.close()


@pytest.mark.parametrize(
    "answer", ["yes", True, {"happened": "yes"}, {"happened": False, "result": 1}, {}, {"x": 1}]
)
def test_an_answer_that_does_not_say_what_happened_is_refused_and_the_question_stays(engine, answer):
    service = Service(Boom())

    def node(state):
        return {"x": once("pay", service)}

    graph = chain(State, saver="memory:", n=node)
    with pytest.raises(Boom):
        engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(InDoubtError):
        engine.invoke(graph, None, thread())
    with pytest.raises(InterruptError, match="happened"):
        engine.resume(graph, answer, thread())
    assert len(engine.state(graph, thread()).interrupts) == 1
    assert engine.resume(graph, {"happened": True, "result": None}, thread())["x"] is None
    assert len(service.keys) == 1
    graph.close()


def test_an_effect_made_again_that_fails_again_is_in_doubt_again(engine, saver, node_of):
    service = Service(Boom(), Boom())
    graph = chain(State, saver=saver, n=node_of(paying(service)))
    with pytest.raises(Boom):
        engine.invoke(graph, {"log": []}, thread())
    with pytest.raises(InDoubtError) as first:
        engine.invoke(graph, None, thread())
    with pytest.raises(Boom):
        engine.resume(graph, {"happened": False}, thread())
    with pytest.raises(InDoubtError) as second:
        engine.invoke(graph, None, thread())
    assert first.value.idempotency_key == second.value.idempotency_key
    assert question_of(first.value).id != question_of(second.value).id
    assert engine.resume(graph, {"happened": False}, thread()).status == "interrupted"
    assert len(service.keys) == 3
    graph.close()


def test_several_doubts_at_once_are_all_asked_and_settled_one_by_one(engine, saver):
    keys: dict[str, str] = {}
    together = threading.Barrier(2)

    def node_for(name):
        def pay(key):
            keys[name] = key
            together.wait(10)
            raise Boom

        return lambda state: {"log": [(name, once("pay", pay))]}

    graph = fan(State, saver=saver, **{name: node_for(name) for name in "ab"})
    with pytest.raises(Boom):
        engine.invoke(graph, {"x": 1}, thread())
    asked: list[str] = []
    while True:  # the first failure of a step may stop the other node before it asks
        try:
            given = Command(resume={asked[-1]: {"happened": True, "result": "known"}}) if asked else None
            done = engine.invoke(graph, given, thread())
        except InDoubtError as doubt:
            asked.append(doubt.idempotency_key)
            assert len(asked) <= 2
        else:
            break
    assert sorted(asked) == sorted(keys.values())
    assert done["log"] == [("a", "known"), ("b", "known")]
    graph.close()


@pytest.mark.parametrize("wrapped", ["cause", "group", "context"])
def test_a_doubt_inside_another_exception_is_asked_as_well(engine, wrapped):
    service = Service(Boom())

    def node(state):
        try:
            return {"x": once("pay", service)}
        except InDoubtError as error:
            if wrapped == "group":
                raise ExceptionGroup("several", [ValueError(), error]) from None
            if wrapped == "cause":
                raise ValueError("wrapped") from error
            raise ValueError("wrapped")  # noqa: B904 - that is the case

    graph = chain(State, saver="memory:", n=node)
    with pytest.raises(Boom):
        engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises((ValueError, ExceptionGroup)):
        engine.invoke(graph, None, thread())
    assert engine.resume(graph, {"happened": True, "result": 5}, thread())["x"] == 5
    graph.close()


def test_a_node_may_settle_a_doubt_itself(engine, saver, node_of):
    service = Service(Boom())

    def node(state):
        try:
            return {"x": once("pay", service)}
        except InDoubtError as doubt:
            return {"x": f"looked up {doubt.idempotency_key}"}

    graph = chain(State, saver=saver, n=node)
    with pytest.raises(Boom):
        engine.invoke(graph, {"x": 1}, thread())
    done = engine.invoke(graph, None, thread())
    assert (done.status, done["x"]) == ("completed", f"looked up {service.keys[0]}")
    graph.close()


def test_retry_in_doubt_makes_it_again_with_the_same_key(engine, saver, node_of):
    service = Service(Boom())
    graph = chain(State, saver=saver, n=node_of(paying(service, retry_in_doubt=True)))
    with pytest.raises(Boom):
        engine.invoke(graph, {"log": []}, thread())
    assert engine.invoke(graph, None, thread()).status == "interrupted"
    assert engine.resume(graph, "yes", thread())["log"] == [{"receipt": 2}, "yes"]
    assert service.keys[0] == service.keys[1]
    graph.close()


def test_a_doubt_once_asked_is_over_when_the_code_says_retry(engine, saver, node_of):
    service = Service(Boom())
    graph = chain(State, saver=saver, n=node_of(paying(service)))
    with pytest.raises(Boom):
        engine.invoke(graph, {"log": []}, thread())
    with pytest.raises(InDoubtError):
        engine.invoke(graph, None, thread())
    later = chain(State, saver=saver, n=node_of(paying(service, retry_in_doubt=True)))
    assert engine.invoke(later, None, thread()).status == "interrupted"
    assert len(service.keys) == 2
    for each in (graph, later):
        each.close()


def test_exceptions_that_say_that_nothing_happened_leave_no_doubt(engine, saver, node_of):
    service = Service(Boom("refused"))
    graph = chain(State, saver=saver, n=node_of(paying(service, not_done=Boom)))
    with pytest.raises(Boom):
        engine.invoke(graph, {"log": []}, thread())
    assert engine.invoke(graph, None, thread()).status == "interrupted"
    assert len(service.keys) == 2
    graph.close()


def test_a_new_branch_of_the_history_makes_its_effects_anew_with_keys_of_its_own(engine, saver, node_of):
    """Going back runs again from there; what happened on the branch that was left stays its own."""
    service = Service()
    graph = chain(State, saver=saver, n=node_of(paying(service)))
    engine.invoke(graph, {"log": []}, thread())
    engine.resume(graph, "yes", thread())
    first = engine.history(graph, thread())[-1]
    assert engine.invoke(graph, None, first.config).status == "interrupted"
    assert len(set(service.keys)) == 2
    graph.close()


def test_a_question_answered_anew_leads_to_effects_of_their_own_and_keeps_those_before_it(engine, saver):
    before, after = Service(), Service()

    def node(state):
        first = once("before", before)
        answer = interrupt("how much?")
        return {"log": [first, answer, once("after", after)]}

    graph = chain(State, saver=saver, n=node)
    paused = engine.invoke(graph, {"log": []}, thread())
    asked = {"configurable": {"thread_id": "t", "checkpoint_id": paused.checkpoint.checkpoint_id}}
    engine.resume(graph, 5, thread())
    assert engine.resume(graph, 6, asked)["log"] == [{"receipt": 1}, 6, {"receipt": 2}]
    assert len(before.keys) == 1
    assert len(set(after.keys)) == 2
    graph.close()


# ── what can't be ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["interrupt", "task", "graph", "once"])
def test_the_function_only_makes_its_effect(engine, what):
    part = task(lambda: 1)
    inner = chain(State, leaf=nothing)

    def function(key):
        if what == "interrupt":
            interrupt("in the middle?")
        elif what == "task":
            part()
        elif what == "graph":
            inner.invoke({"x": 1})
        else:
            once("other", lambda key: 1)

    graph = chain(State, saver="memory:", n=lambda state: once("pay", function))
    with pytest.raises(ConfigError, match="pay"):
        engine.invoke(graph, {"x": 1}, thread())
    graph.close()


def test_what_once_is_given_wrongly_is_said_before_anything_happens(engine):
    async def later(key):
        return 1

    def bad_key(state):
        once("", lambda key: 1)

    def bad_function(state):
        once("pay", later)

    for node in (bad_key, bad_function):
        graph = chain(State, saver="memory:", n=node)
        for given in ({"x": 1}, None):
            with pytest.raises(ConfigError, match="once"):
                engine.invoke(graph, given, thread())
        graph.close()
    with pytest.raises(ConfigError, match="outside of a node"):
        once("pay", lambda key: 1)


def test_once_where_it_would_block_the_event_loop_is_an_error_and_leaves_no_doubt():
    service = Service()

    async def node(state):
        return {"x": once("pay", service)}

    graph = chain(State, saver="memory:", n=node)
    for given in ({"x": 1}, None):
        with pytest.raises(ConfigError, match="aonce"):
            asyncio.run(graph.ainvoke(given, thread()))
    assert service.keys == []
    graph.close()


def test_an_effect_whose_result_cannot_be_stored_is_in_doubt(engine, saver):
    class Odd:
        pass

    def node(state):
        once("pay", lambda key: Odd())

    graph = chain(State, saver=saver, n=node)
    with pytest.raises(TypeError, match="Odd"):
        engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(InDoubtError):
        engine.invoke(graph, None, thread())
    assert engine.resume(graph, {"happened": True, "result": 1}, thread()).status == "completed"
    graph.close()


def test_a_command_with_an_update_settles_as_well(engine, saver):
    service = Service(Boom())

    def node(state):
        return {"log": [once("pay", service)]}

    graph = chain(State, saver=saver, n=node)
    with pytest.raises(Boom):
        engine.invoke(graph, {"log": ["in"]}, thread())
    with pytest.raises(InDoubtError):
        engine.invoke(graph, None, thread())
    command = Command(resume={"happened": True, "result": "r"}, update={"log": ["edit"]})
    assert engine.invoke(graph, command, thread())["log"] == ["in", "edit", "r"]
    assert len(service.keys) == 1
    graph.close()


def test_a_doubt_is_pending_and_resumed_like_any_question(engine, saver):
    service = Service(Boom())
    graph = chain(State, saver=saver, n=lambda state: {"x": once("pay", service)})
    with pytest.raises(Boom):
        engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(InDoubtError):
        engine.invoke(graph, None, thread())
    (question,) = graph.pending("t")
    assert question.key == service.keys[0]
    assert graph.resume("t", {question.key: {"happened": True, "result": "known"}})["x"] == "known"
    assert graph.pending("t") == ()
    graph.close()
