"""Calls that a running task makes: each is a task of its own, whose result is saved before its caller hears of it."""

import pytest

from juncture.engine.effects import Called, Done, Failed, Paused, Stopped
from juncture.engine.state import TaskRecord
from juncture.engine.tables import SYNC, Node
from juncture.engine.task import Task
from juncture.errors import InternalError, ResumeMismatchError
from juncture.types import START, RetryPolicy
from tests.unit.engine.script import (
    Script,
    Store,
    added,
    asked,
    call,
    chain,
    escaped,
    failed,
    fan,
    in_turn,
    notes,
    nothing,
    question,
    request,
    result,
    tables,
)


def calling(*names):
    """Makes these calls one after the other, and writes what they gave."""

    def body(task):
        given = []
        for name in names:
            outcome = yield call(task, name)
            if not isinstance(outcome, Done):
                return Failed(task, outcome.error) if isinstance(outcome, Failed) else Stopped(task)
            given.append(outcome.result)
        return Done(task, [("log", given)])

    return body


def ending(*events):
    """Makes calls and ends without waiting for them."""
    return lambda task: [call(task, event) if isinstance(event, str) else event(task) for event in events]


def test_a_call_is_started_saved_and_then_answered():
    script = Script(chain("a"), request(saving=True), {"a": calling("one"), "call": result("r")})
    assert script.values()["log"] == ["r"]
    assert script.did == [
        "load",
        "save input 0",
        "run a:1",
        "start one",
        "wait",
        "writes call a:1",
        "reply one done",
        "wait",
        "save loop 1",
    ]


def test_without_a_saver_a_call_is_only_answered():
    script = Script(
        chain("a"), request(), {"a": calling("one", "two"), "call": lambda task: Done.of_call(task, task.id)}
    )
    assert script.values()["log"] == ["one", "two"]
    assert script.did == [
        "run a:1",
        "start one",
        "wait",
        "reply one done",
        "wait",
        "start two",
        "wait",
        "reply two done",
        "wait",
    ]


def test_the_record_of_a_call_is_its_callers():
    store = Store()
    bodies = {"a": calling("one"), "call": result([1])}
    script = Script(chain("a"), request(saving=True), bodies, store=store, stop_at=6)
    with pytest.raises(Exception):  # noqa: B017, PT011 - the script's stop
        script.play()
    assert store.head.records == [TaskRecord("a:1", "call", "one", [1])]


def test_the_reply_holds_the_outcome_and_the_call_that_asked():
    asking = {}

    def body(task):
        asking["event"] = call(task, "one")
        outcome = yield asking["event"]
        asking["outcome"] = outcome
        return Done(task, [])

    script = Script(chain("a"), request(), {"a": body, "call": result("r")})
    script.play()
    assert script.replies[0].call is asking["event"]
    assert script.replies[0].outcome is asking["outcome"]
    assert script.replies[0].outcome.result == "r"


def test_a_recorded_call_is_answered_at_once():
    graph, store = chain("a"), Store()
    bodies = {"a": calling("one", "two"), "call": in_turn(result(1), failed(RuntimeError("two")))}
    with pytest.raises(RuntimeError):
        Script(graph, request(saving=True), bodies, store=store).play()
    script = Script(
        graph, request("continue", saving=True), {"a": calling("one", "two"), "call": result(2)}, store=store
    )
    assert script.values()["log"] == [1, 2]
    assert script.did == [
        "load",
        "run a:1",
        "reply one done",
        "wait",
        "start two",
        "wait",
        "writes call a:1",
        "reply two done",
        "wait",
        "save loop 1",
    ]


def test_records_of_other_tasks_and_kinds_answer_no_call():
    graph, store = fan("a b"), Store()
    with pytest.raises(RuntimeError):
        Script(graph, request(saving=True), {"a": failed(RuntimeError())}, store=store, order=["a"]).play()
    store.save_writes(
        [TaskRecord("b:1", "call", "one", "b's"), TaskRecord("a:1", "answer", "one", "an answer")]
    )
    script = Script(
        graph, request("continue", saving=True), {"a": calling("one"), "call": result("own")}, store=store
    )
    assert script.values()["log"] == ["own"]


def test_calls_beside_each_other_are_answered_as_they_end():
    script = Script(
        chain("a"),
        request(),
        {"a": ending("one", "two", lambda task: Done(task, [("log", ["end"])])), "call": result(None)},
        order=["two", "two", "one", "a"],
    )
    assert script.values()["log"] == ["end"]
    assert script.did == [
        *["run a:1", "start one", "wait", "start two"],
        *["wait", "reply two done", "wait", "reply one done", "wait"],
    ]


def test_an_outcome_is_held_until_its_calls_have_ended():
    script = Script(
        fan("a b"),
        request(saving=True),
        {"a": ending("one", "two", added), "b": added, "call": result(None)},
        order=["one", "two", "a", "one", "b", "two"],
    )
    assert script.values()["log"] == ["a:1", "b:1"]
    assert script.did[4:] == [
        "wait",
        "start one",
        "wait",
        "start two",
        "wait",
        "wait",
        "writes call a:1",
        "reply one done",
        "wait",
        "writes done b:1",
        "wait",
        "writes call a:1",
        "reply two done",
        "save loop 1",
    ]


@pytest.mark.parametrize("modes", [(), ("updates",)])
def test_without_a_saver_an_outcome_is_held_too(modes):
    script = Script(
        chain("a"),
        request(modes=frozenset(modes)),
        {"a": ending("one", added), "call": result(None)},
        order=["a", "one"],
    )
    assert script.values()["log"] == ["a:1"]
    emits = ["emit updates"] * len(modes)
    assert script.did == ["run a:1", "start one", "wait", "wait", *emits, "reply one done", *emits]


def test_a_failure_that_is_held_fails_when_the_calls_have_ended():
    script = Script(
        chain("a"),
        request(),
        {"a": ending("one", failed(RuntimeError("down"))), "call": result(1)},
        order=["a", "one"],
    )
    with pytest.raises(RuntimeError, match="down"):
        script.play()
    assert script.did == [
        "run a:1",
        "start one",
        "wait",
        "cancel calls of a:1",
        "wait",
        "reply one stopped",
    ]


def test_calls_of_a_failed_task_may_end_all_the_same_and_are_kept_for_its_next_try():
    graph = tables({"a": {"retry_policy": RetryPolicy(jitter=False)}}, (START, "a"))
    for saving in (True, False):
        bodies = {
            "a": in_turn(ending("one", failed(ConnectionError())), calling("one")),
            "call": in_turn(result(1), result(2)),
        }
        script = Script(graph, request(saving=saving), bodies, order=["a", "one"], finish_on_cancel=True)
        assert script.values()["log"] == [1]
        assert script.ran() == ["a:1", "one", "a:1"]


def test_only_the_failed_tasks_calls_are_cancelled():
    script = Script(
        fan("a b"),
        request(),
        {"a": ending("one", failed(RuntimeError("down"))), "b": calling("two"), "call": result(1)},
        order=["one", "two", "a", "one"],
    )
    with pytest.raises(RuntimeError, match="down"):
        script.play()
    assert [(reply.call.task.id, type(reply.outcome)) for reply in script.replies] == [
        ("one", Stopped),
        ("two", Stopped),
    ]
    assert (
        script.did.index("cancel calls of a:1")
        < script.did.index("reply one stopped")
        < script.did.index("cancel")
    )


def test_a_failed_call_is_its_callers_to_handle():
    def body(task):
        outcome = yield call(task, "one")
        return Done(task, [("log", [repr(outcome.error)])])

    script = Script(chain("a"), request(saving=True), {"a": body, "call": failed(KeyError("k"))})
    assert script.values()["log"] == ["KeyError('k')"]
    assert script.did[4:] == ["wait", "reply one failed", "wait", "save loop 1"]


def test_a_failed_call_is_retried_as_its_own_policy_says():
    policy = RetryPolicy(jitter=False)

    def body(task):
        outcome = yield call(task, "one", retry=(policy,))
        return Done(task, [("log", [outcome.result])])

    script = Script(
        chain("a"), request(), {"a": body, "call": in_turn(failed(ConnectionError()), result("r"))}
    )
    assert script.values()["log"] == ["r"]
    assert script.did == ["run a:1", "start one", "wait", "start one +0.5", "wait", "reply one done", "wait"]


def test_a_call_that_asks_pauses_its_caller_however_that_ends():
    for end in (nothing, failed(RuntimeError()), escaped(), asked("own"), Stopped):
        store = Store()
        bodies = {"a": ending("one", end), "call": asked("q")}
        script = Script(
            chain("a"),
            request(saving=True, namespace=("n",)),
            bodies,
            store=store,
            order=["a", "one"],
            finish_on_cancel=True,
        )
        finish = script.play()
        own = [question(script.began[0], "own")] if end(script.began[0]).__class__ is Paused else []
        asked_by_call = question(script.began[1], "q")
        assert finish.status == "interrupted"
        assert finish.questions == [asked_by_call, *own]
        assert store.head.records == [TaskRecord("a:1", "question", q.id, q) for q in (asked_by_call, *own)]
        assert "reply one paused" in script.did


def test_a_body_that_swallowed_the_pause_of_its_call_is_paused():
    def body(task):
        yield call(task, "one")
        return Done(task, [("log", ["swallowed"])])

    for more in ({}, {"modes": frozenset({"updates"})}, {"saving": True}):
        script = Script(chain("a"), request(**more), {"a": body, "call": asked("q")})
        finish = script.play()
        assert (finish.status, finish.state.values["log"]) == ("interrupted", [])


def test_questions_of_several_calls_all_surface():
    bodies = {"a": ending("one", "two", nothing), "call": asked("q")}
    script = Script(chain("a"), request(saving=True), bodies, order=["two", "a", "two", "one"])
    assert [q.id for q in script.play().questions] == ["two?q", "one?q"]


def test_questions_of_calls_are_forgotten_when_the_task_runs_again():
    policy = RetryPolicy(jitter=False)
    graph = tables({"a": {"retry_policy": policy}}, (START, "a"))
    bodies = {"a": in_turn(ending("one", failed(ConnectionError())), added), "call": asked("q")}
    script = Script(graph, request(saving=True), bodies, order=["one", "a"])
    assert script.play().status == "interrupted"
    assert script.ran() == ["a:1", "one"]


def test_calls_of_a_task_that_isnt_the_only_one():
    script = Script(
        fan("a b"),
        request(saving=True),
        {"a": calling("one"), "b": calling("two"), "call": lambda task: Done.of_call(task, task.id)},
        order=["two", "one", "one", "two", "b", "a"],
    )
    assert script.values()["log"] == ["one", "two"]
    assert script.did[4:] == [
        "wait",
        "start two",
        "wait",
        "start one",
        "wait",
        "writes call a:1",
        "reply one done",
        "wait",
        "writes call b:1",
        "reply two done",
        "wait",
        "writes done b:1",
        "wait",
        "save loop 1",
    ]


def test_what_was_waiting_to_be_saved_goes_with_the_call():
    script = Script(
        fan("a b"),
        request(saving=True),
        {"a": asked("q"), "b": calling("one"), "call": result(1)},
        order=["a", "one", "one"],
    )
    script.play()
    assert "writes question a:1, call b:1" in script.did


def test_no_call_begins_once_the_step_is_stopping():
    bodies = {"a": failed(RuntimeError("down")), "b": calling("one"), "call": result(1)}
    script = Script(fan("a b"), request(), bodies, order=["a", "one"], finish_on_cancel=True)
    with pytest.raises(RuntimeError, match="down"):
        script.play()
    assert script.ran() == ["a:1", "b:1"]
    assert [type(reply.outcome) for reply in script.replies] == [Stopped]


def test_a_call_that_was_stopped_is_answered_so():
    bodies = {"a": ending("one", nothing), "b": failed(RuntimeError("down")), "call": result(1)}
    script = Script(fan("a b"), request(saving=True), bodies, order=["one", "b"])
    with pytest.raises(RuntimeError, match="down"):
        script.play()
    assert [type(reply.outcome) for reply in script.replies] == [Stopped]
    assert not any("call" in did for did in script.did)


def test_a_call_without_a_caller_is_a_fault_of_ours():
    def body(task):
        return Called(Task(Node("call", SYNC, None, dict, dict), 1, 0, {}, 1))

    script = Script(chain("a"), request(), {"a": body})
    with pytest.raises(InternalError, match="call without a caller: <task call:1 attempt 1>"):
        script.play()
    assert notes(InternalError()) == ""


def test_a_call_is_a_task_of_its_callers_step():
    script = Script(chain("a b"), request(), {"b": calling("one"), "call": result(1)})
    script.play()
    made = script.began[2]
    assert (made.id, made.step, made.parent.id) == ("one", 2, "b:2")


def recorded(*names):
    """A thread whose task made these calls, and failed."""
    store = Store()
    bodies = {
        "a": ending(*names, failed(RuntimeError("down"))),
        "call": lambda task: Done.of_call(task, task.id),
    }
    with pytest.raises(RuntimeError):
        Script(chain("a"), request(saving=True), bodies, store=store, order=[*names, "a"]).play()
    return store


def going_on(store, body, **options):
    bodies = {"a": body, "call": lambda task: Done.of_call(task, task.id)}
    return Script(chain("a", **options), request("continue", saving=True), bodies, store=store)


def named(*names):
    return [f"{name}\x1f{digest}\x1f0" for name, digest in (name.split("/") for name in names)]


def test_a_new_call_beside_a_recorded_one_that_is_never_asked_for_is_a_mismatch():
    store = recorded(*named("pay/1"))
    script = going_on(store, calling(*named("pay/2")))
    with pytest.raises(ResumeMismatchError, match="pay") as caught:
        script.play()
    assert caught.value.node == "a"
    assert len(store.checkpoints) == 1, "nothing that the node did counts"
    assert going_on(store, calling(*named("pay/1"))).values()["log"] == named("pay/1"), (
        "the code as it was goes on"
    )


@pytest.mark.parametrize(
    "calls",
    [["pay/2", "pay/1"], ["pay/1", "pay/2"], ["pay/1"], [], ["other/2"], ["pay/1", "other/1"]],
    ids=["before it", "after it", "the same", "none", "of another name", "another after it"],
)
def test_what_is_no_mismatch(calls):
    assert going_on(recorded(*named("pay/1")), calling(*named(*calls))).values()["log"] == named(*calls)


def test_a_lenient_graph_knows_no_mismatch():
    script = going_on(recorded(*named("pay/1")), calling(*named("pay/2")), strict=False)
    assert script.values()["log"] == named("pay/2")


def test_a_retry_within_a_run_may_call_anew():
    store = Store()
    bodies = {
        "a": in_turn(ending(*named("pay/1"), failed(RuntimeError())), calling(*named("pay/2"))),
        "call": lambda task: Done.of_call(task, task.id),
    }
    graph = tables(
        {
            "a": {
                "retry_policy": RetryPolicy(
                    max_attempts=2, initial_interval=0, jitter=False, retry_on=Exception
                )
            }
        },
        (START, "a"),
    )
    script = Script(
        graph,
        request(saving=True),
        bodies,
        store=store,
        order=[*named("pay/1"), "a", *named("pay/2"), *named("pay/2"), "a"],
    )
    assert script.values()["log"] == named("pay/2")


def test_tasks_shows_calls_with_what_they_were_given_and_gave():
    def body(task):
        made = call(task, "one")
        made.task.argument = ((1,), {})
        yield made
        return Done(task, [])

    script = Script(chain("a"), request(modes=frozenset(("tasks",))), {"a": body, "call": result(5)})
    script.play()
    shown = [(part["name"], part.get("input"), part.get("result")) for part in script.parts("tasks")]
    assert shown[1:3] == [("call", ((1,), {}), None), ("call", None, 5)]
