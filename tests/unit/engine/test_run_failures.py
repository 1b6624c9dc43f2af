"""Failures, retries, and commands for an enclosing graph: what is cancelled, saved and raised."""

import itertools
import operator
from typing import Annotated

import pytest

from juncture.channels import Append
from juncture.engine.effects import Escaped, Failed, Paused, Stopped
from juncture.engine.state import State, TaskRecord
from juncture.errors import InvalidUpdateError
from juncture.types import START, Command, RetryPolicy
from tests.unit.engine.script import (
    Script,
    Store,
    added,
    asked,
    chain,
    escaped,
    failed,
    fan,
    in_turn,
    notes,
    nothing,
    question,
    request,
    tables,
    typed,
    wrote,
)

NO_JITTER = RetryPolicy(jitter=False)

# ── one task fails ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_nodes_own_exception_is_raised_and_nothing_is_applied():
    error = RuntimeError("down")
    script = Script(chain("a b"), request(x=1), {"a": wrote(x=2), "b": failed(error)})
    with pytest.raises(RuntimeError) as caught:
        script.play()
    assert caught.value is error
    assert notes(error) == ""
    assert script.loop.failed is script.began[1]
    assert script.loop.state == State(1, {"x": 2, "log": []}, {}, ("b",))
    assert script.loop.ending is None


def test_a_failure_is_saved_before_it_is_raised():
    store = Store()
    script = Script(chain("a"), request(saving=True), {"a": failed(RuntimeError("down"))}, store=store)
    with pytest.raises(RuntimeError):
        script.play()
    assert script.did == ["load", "save input 0", "run a:1", "writes failed a:1"]
    assert store.head.records == [TaskRecord("a:1", "failed", "", "RuntimeError('down')")]


# ── several tasks ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_failure_cancels_the_others_once():
    bodies = {"a": failed(RuntimeError()), "b": failed(KeyError("b")), "c": added, "d": nothing}
    script = Script(fan("a b c d"), request(), bodies, order=["c", "a", "d", "b"], finish_on_cancel=True)
    with pytest.raises(RuntimeError):
        script.play()
    assert script.did == [
        *["start " + name + ":1" for name in "abcd"],
        "wait",
        "wait",
        "cancel",
        "wait",
        "wait",
    ]


def test_the_last_to_end_has_nobody_to_cancel():
    script = Script(fan("a b"), request(), {"a": failed(RuntimeError()), "b": added}, order=["b", "a"])
    with pytest.raises(RuntimeError):
        script.play()
    assert "cancel" not in script.did


def test_every_task_is_heard_of_before_the_failure_is_raised():
    script = Script(fan("a b c"), request(), {"a": nothing, "b": failed(RuntimeError())}, order=["b"])
    with pytest.raises(RuntimeError):
        script.play()
    assert script.did[-4:] == ["wait", "cancel", "wait", "wait"]
    assert [type(outcome) for outcome in script.loop.outcomes] == [Stopped, Failed, Stopped]


def test_the_first_in_plan_order_is_raised_whichever_order_they_end():
    for order in itertools.permutations("abcd"):
        errors = {name: RuntimeError(name) for name in "bcd"}
        bodies = {name: failed(error) for name, error in errors.items()}
        script = Script(fan("a b c d"), request(), {"a": added} | bodies, order=order, finish_on_cancel=True)
        with pytest.raises(RuntimeError) as caught:
            script.play()
        assert caught.value is errors["b"]
        assert script.loop.failed.node.name == "b"
        text = notes(errors["b"])
        assert text.index("node 'c' of the same step failed too: RuntimeError('c')") < text.index("node 'd'")
        assert not notes(errors["c"])


def test_an_exception_that_two_tasks_raised_gets_no_note_of_itself():
    error = RuntimeError("shared")
    script = Script(fan("a b"), request(), {"a": failed(error), "b": failed(error)}, finish_on_cancel=True)
    with pytest.raises(RuntimeError):
        script.play()
    assert not notes(error)


def test_writes_of_tasks_that_finished_are_saved_in_every_order():
    for order in itertools.permutations("abc"):
        store = Store()
        bodies = {"a": added, "b": failed(RuntimeError()), "c": added}
        script = Script(
            fan("a b c"), request(saving=True), bodies, store=store, order=order, finish_on_cancel=True
        )
        with pytest.raises(RuntimeError):
            script.play()
        assert store.finished == {"a:1", "c:1"}
        assert [record.kind for record in store.head.records if record.task_id == "b:1"] == ["failed"]
        script = Script(fan("a b c"), request("continue", saving=True), {"b": added}, store=store)
        assert script.values()["log"] == ["a:1", "b:1", "c:1"]
        assert script.ran() == ["b:1"]


def test_a_task_that_was_stopped_leaves_no_record():
    store = Store()
    script = Script(fan("a b"), request(saving=True), {"a": failed(RuntimeError())}, store=store, order=["a"])
    with pytest.raises(RuntimeError):
        script.play()
    assert [record.task_id for record in store.head.records] == ["a:1"]


def test_open_questions_are_saved_and_named_beside_a_failure():
    store = Store()
    bodies = {"a": asked("q", "r"), "b": failed(RuntimeError("down"))}
    script = Script(fan("a b"), request(saving=True), bodies, store=store, order=["a", "b"])
    with pytest.raises(RuntimeError) as caught:
        script.play()
    assert "open questions: a:1?q (node 'a'), a:1?r (node 'a')" in notes(caught.value)
    assert [(record.kind, record.name) for record in store.head.records] == [
        ("question", "a:1?q"),
        ("question", "a:1?r"),
        ("failed", ""),
    ]


# ── a step that can't be committed ───────────────────────────────────────────────────────────────────────────


def test_what_was_saved_of_the_nodes_to_blame_is_taken_back():
    graph, store = fan("a b c"), Store()
    bodies = {"a": wrote(x=1), "b": wrote(x=2), "c": added}
    script = Script(graph, request(saving=True), bodies, store=store, order=["a", "b", "c"])
    with pytest.raises(InvalidUpdateError, match="'a' and 'b' wrote it"):
        script.play()
    assert script.did[-1] == "writes done c:1, done a:1, done b:1"
    script = Script(graph, request("continue", saving=True), {"a": nothing, "b": wrote(y=2)}, store=store)
    assert script.values() == {"y": 2, "log": ["c:1"]}
    assert script.ran() == ["a:1", "b:1"]


def test_only_the_node_that_is_named_is_to_blame():
    schema = typed({"items": Annotated[list, Append()], "log": Annotated[list, operator.add]})
    graph, store = fan("a b c", schema=schema), Store()
    bodies = {"a": wrote(items=[1]), "b": wrote(items={2}), "c": added}
    with pytest.raises(InvalidUpdateError) as caught:
        Script(graph, request(saving=True), bodies, store=store).play()
    assert caught.value.node == "b"
    script = Script(graph, request("continue", saving=True), {"b": wrote(items=[2])}, store=store)
    assert script.values() == {"items": [1, 2], "log": ["c:1"]}
    assert script.ran() == ["b:1"]


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_whichever_ended_last_only_the_nodes_to_blame_run_again(order):
    graph, store = fan("a b c"), Store()
    bodies = {"a": wrote(x=1), "b": wrote(x=2), "c": added}
    with pytest.raises(InvalidUpdateError):
        Script(graph, request(saving=True), bodies, store=store, order=order).play()
    script = Script(graph, request("continue", saving=True), {"a": wrote(x=3)}, store=store)
    assert script.values() == {"x": 3, "log": ["c:1"]}
    assert script.ran() == ["a:1", "b:1"]


def test_where_no_node_is_to_blame_all_run_again():
    graph, store = fan("a b"), Store()
    with pytest.raises(TypeError):
        Script(graph, request(saving=True), {"a": added, "b": wrote(log=3)}, store=store).play()
    script = Script(graph, request("continue", saving=True), {"a": added, "b": added}, store=store)
    assert script.values()["log"] == ["a:1", "b:1"]
    assert script.ran() == ["a:1", "b:1"]


@pytest.mark.parametrize(("names", "saving"), [("a", True), ("a b", False)])
def test_where_nothing_was_saved_nothing_is_taken_back(names, saving):
    graph = fan(names)
    script = Script(graph, request(saving=saving), {"a": wrote(log=3)})
    with pytest.raises(TypeError):
        script.play()
    assert not any(did.startswith("writes") for did in script.did)
    assert script.loop.state.due == tuple(names.split())


# ── retries ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failed_try_is_followed_by_another_after_its_delay():
    graph = tables({"a": {"retry_policy": NO_JITTER}}, (START, "a"))
    script = Script(graph, request(), {"a": in_turn(failed(KeyError()), added)})
    with pytest.raises(KeyError):
        script.play()
    bodies = {"a": in_turn(failed(ConnectionError()), failed(ConnectionError()), added)}
    script = Script(graph, request(), bodies)
    assert script.values()["log"] == ["a:1"]
    assert script.did == ["run a:1", "start a:1 +0.5", "wait", "start a:1 +1", "wait"]
    assert [task.attempt for task in script.began] == [1, 2, 3], "each try has a task of its own"


def test_the_last_try_is_raised_and_saved():
    graph = tables({"a": {"retry_policy": RetryPolicy(max_attempts=2, jitter=False)}}, (START, "a"))
    errors = [ConnectionError("one"), ConnectionError("two")]
    store = Store()
    script = Script(graph, request(saving=True), {"a": in_turn(*map(failed, errors))}, store=store)
    with pytest.raises(ConnectionError, match="two") as caught:
        script.play()
    assert "attempt 2 of 2" in notes(caught.value)
    assert not notes(errors[0])
    assert script.did[2:] == ["run a:1", "start a:1 +0.5", "wait", "writes failed a:1"]
    assert store.head.records[0].content == "ConnectionError('two')"


def test_a_retry_goes_on_beside_the_others():
    graph = tables({"a": {"retry_policy": NO_JITTER}, "b": {}}, (START, "a"), (START, "b"))
    script = Script(
        graph,
        request(saving=True),
        {"a": in_turn(failed(ConnectionError()), added), "b": added},
        order=["a", "b", "a"],
    )
    assert script.values()["log"] == ["a:1", "b:1"]
    assert script.did[4:] == [
        "wait",
        "start a:1 +0.5",
        "wait",
        "writes done b:1",
        "wait",
        "save loop 1",
    ]


def test_jitter_is_the_requests():
    graph = tables({"a": {"retry_policy": RetryPolicy()}}, (START, "a"))
    script = Script(graph, request(jitter=lambda: 0.25), {"a": in_turn(failed(ConnectionError()), added)})
    script.play()
    assert "start a:1 +0.75" in script.did


def test_nothing_is_retried_once_the_step_is_stopping():
    graph = tables({"a": {"retry_policy": NO_JITTER}, "b": {}}, (START, "a"), (START, "b"))
    bodies = {"a": failed(ConnectionError()), "b": failed(RuntimeError("b"))}
    script = Script(graph, request(), bodies, order=["b", "a"], finish_on_cancel=True)
    with pytest.raises(ConnectionError):
        script.play()
    assert script.ran() == ["a:1", "b:1"]


def test_what_must_stop_the_process_is_never_retried():
    policy = RetryPolicy(retry_on=lambda error: True, jitter=False)
    graph = tables({"a": {"retry_policy": policy}}, (START, "a"))
    script = Script(graph, request(), {"a": failed(KeyboardInterrupt())})
    with pytest.raises(KeyboardInterrupt):
        script.play()
    assert script.ran() == ["a:1"]


# ── commands for an enclosing graph ──────────────────────────────────────────────────────────────────────────

OUT = Command(graph=Command.PARENT, update={"x": 1})


def test_a_command_for_the_parent_ends_a_nested_run():
    script = Script(chain("a b"), request(namespace=("n:1",)), {"a": wrote(x=2), "b": escaped(OUT)})
    ending = script.play()
    assert (ending.status, ending.command, ending.questions) == ("completed", OUT, [])
    assert ending.state == State(1, {"x": 2, "log": []}, {}, ("b",))
    assert script.warnings == []


def test_the_other_tasks_of_its_step_are_cancelled_and_discarded_with_a_warning():
    store = Store()
    bodies = {"a": added, "b": escaped(OUT), "c": asked("q"), "d": added}
    script = Script(
        fan("a b c d"), request(saving=True, namespace=("n:1",)), bodies, store=store, order=["a", "c", "b"]
    )
    ending = script.play()
    assert (ending.command, ending.state.values) == (OUT, {"log": []})
    assert script.did.count("cancel") == 1
    assert len(script.warnings) == 1
    assert "node 'b' left for the enclosing graph in step 1" in script.warnings[0]
    assert "a, c, d, and 1 open questions" in script.warnings[0]
    assert len(store.checkpoints) == 1


def test_what_left_with_writes_of_its_own_has_written_them():
    """A graph nested in this one that left for one further out: what it committed counts."""

    def body(task):
        return Escaped(task, OUT, [("x", 5), ("log", ["own"])])

    more = {"namespace": ("n:1",), "returns": True, "shared_keys": frozenset({"log"})}
    script = Script(fan("a b"), request(x=1, log=["in"], **more), {"a": body, "b": added}, order=["a"])
    ending = script.play()
    assert (ending.command, ending.state.values) == (OUT, {"x": 5, "log": ["in", "own"]})
    assert (ending.state.written, ending.state.touched) == ((("log", ["own"]),), ("x",))


def test_the_first_command_in_plan_order_counts():
    other = Command(graph=Command.PARENT, update={"x": 2})
    for order in itertools.permutations("ab"):
        bodies = {"a": escaped(OUT), "b": escaped(other)}
        script = Script(fan("a b"), request(namespace=("n:1",)), bodies, order=order, finish_on_cancel=True)
        assert script.play().command is OUT


def test_a_failure_counts_more_than_a_command():
    for order in itertools.permutations("ab"):
        bodies = {"a": escaped(OUT), "b": failed(RuntimeError("down"))}
        script = Script(fan("a b"), request(namespace=("n:1",)), bodies, order=order, finish_on_cancel=True)
        with pytest.raises(RuntimeError, match="down"):
            script.play()


def test_a_command_counts_more_than_a_question():
    bodies = {"a": asked("q"), "b": escaped(OUT)}
    script = Script(fan("a b"), request(namespace=("n:1",), saving=True), bodies, order=["a", "b"])
    assert script.play().command is OUT


def test_the_graph_that_was_called_has_no_parent():
    script = Script(chain("a"), request(x=1), {"a": escaped(OUT)})
    with pytest.raises(InvalidUpdateError, match="There is no parent graph: node 'a'") as caught:
        script.play()
    assert caught.value.node == "a"
    assert script.loop.failed is script.began[0]
    assert script.loop.state.values["x"] == 1


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_without_a_parent_the_writes_of_finished_tasks_are_saved_as_with_any_failure(order):
    store = Store()
    bodies = {"a": added, "b": escaped(OUT), "c": asked("q")}
    script = Script(
        fan("a b c"), request(saving=True), bodies, store=store, order=order, finish_on_cancel=True
    )
    with pytest.raises(InvalidUpdateError):
        script.play()
    assert store.finished == {"a:1"}
    assert [record.name for record in store.head.records if record.kind == "question"] == ["c:1?q"]
    assert script.warnings == []


# ── whatever a driver may tell ───────────────────────────────────────────────────────────────────────────────


def test_a_task_that_was_stopped_though_nobody_asked_isnt_taken_for_done():
    script = Script(chain("a b"), request(x=1), {"a": Stopped})
    try:
        ending = script.play()
    except Exception as error:
        ending = error
    assert not isinstance(ending, State)
    assert script.ran() == ["a:1"]
    assert script.loop.state.values["x"] == 1
    assert getattr(ending, "status", None) != "completed"


def test_a_pause_beside_a_failure_is_no_pause():
    def body(task):
        return Paused(task, [question(task, "q")])

    script = Script(fan("a b"), request(), {"a": body, "b": failed(RuntimeError())}, order=["a", "b"])
    with pytest.raises(RuntimeError):
        script.play()
    assert script.loop.ending is None
