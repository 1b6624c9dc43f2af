"""Error handlers, as the loop begins them: after the failure was saved, in the same step, in the place of their node."""

import pytest

from juncture.engine.fallbacks import recalled
from juncture.engine.state import TaskRecord
from juncture.errors import RecordedError
from juncture.types import START, Interrupt, NodeError, RetryPolicy, Send
from tests.unit.engine.script import (
    Script,
    Store,
    added,
    asked,
    failed,
    in_turn,
    notes,
    nothing,
    request,
    tables,
    went,
)


def never(state):
    raise AssertionError("a script calls bodies")


def graph(*more, **options):
    nodes = {"a": {"error_handler": never, **options}, **{name: {} for name in more}}
    return tables(
        nodes, (START, "a"), *[(START, name) for name in more if name != "next"], *NEXT[: "next" in more]
    )


NEXT = (("a", "next"),)
DOWN = ValueError("down")


def test_a_failure_is_saved_before_its_handler_begins():
    store = Store()
    bodies = {"a": failed(DOWN), "__error_handler__a": added}
    script = Script(graph("next"), request(saving=True), bodies, store=store)
    assert script.values()["log"] == ["__error_handler__a:1"], "its edges aren't followed"
    assert script.did == [
        "load", "save input 0", "run a:1", "writes failed a:1", "start __error_handler__a:1", "wait", "save loop 1",
    ]  # fmt: skip
    task = script.began[1]
    assert (task.failure, task.place, task.attempt) == (NodeError("a", DOWN), 0, 1)


def test_without_a_saver_it_begins_at_once():
    script = Script(graph(), request(), {"a": failed(DOWN), "__error_handler__a": went(x=1)})
    assert script.values()["x"] == 1
    assert script.did == ["run a:1", "start __error_handler__a:1", "wait"]


def test_retries_come_first():
    again = graph(retry_policy=RetryPolicy(max_attempts=2, jitter=False))
    script = Script(again, request(), {"a": failed(ConnectionError())})
    script.play()
    assert script.ran() == ["a:1", "a:1", "__error_handler__a:1"]


def test_siblings_are_not_stopped():
    script = Script(graph("b"), request(), {"a": failed(DOWN), "b": added, "__error_handler__a": added})
    assert script.values()["log"] == ["__error_handler__a:1", "b:1"]
    assert "cancel" not in script.did


def test_a_failure_while_the_others_are_stopped_is_not_handled():
    script = Script(
        graph("b"),
        request(),
        {"a": failed(DOWN), "b": failed(KeyError("b"))},
        order=["b", "a"],
        finish_on_cancel=True,
    )
    with pytest.raises(ValueError, match="down"):
        script.play()
    assert script.ran() == ["a:1", "b:1"]


def test_a_handler_that_fails_says_what_it_handled():
    error = KeyError("handler")
    script = Script(graph(), request(), {"a": failed(DOWN), "__error_handler__a": failed(error)})
    with pytest.raises(KeyError):
        script.play()
    assert "raised by the error handler of node 'a', which had failed with ValueError('down')" in notes(error)


def test_a_run_goes_on_with_the_handler():
    store = Store()
    bodies = {"a": failed(DOWN), "__error_handler__a": asked("q", then=added)}
    Script(graph(), request(saving=True), bodies, store=store).play()
    assert [(r.task_id, r.kind, r.name) for r in store.head.records[:1]] == [("a:1", "failed", "handled")]
    question = store.head.records[1].content
    assert isinstance(question, Interrupt)
    script = Script(graph(), request("command", saving=True, resume="yes"), bodies, store=store)
    assert script.values()["log"] == ["__error_handler__a:1"]
    assert script.ran() == ["__error_handler__a:1"]


def test_the_handler_of_a_send_is_known_by_its_place():
    store = Store()
    bodies = {START: went(sends=[Send("a", 1), Send("a", 2)]), "a": failed(DOWN)}
    routed = tables({"a": {"error_handler": never}}, routers=[START])
    script = Script(
        routed,
        request(saving=True),
        bodies | {"__error_handler__a": in_turn(nothing, asked("q"))},
        store=store,
    )
    script.play()
    assert script.ran()[1:] == ["a:1.0", "a:1.1", "__error_handler__a:1.0", "__error_handler__a:1.1"]
    assert [task.argument for task in script.began[3:]] == [1, 2]


def test_only_a_failure_that_was_handled_is_recalled():
    task = Script(graph(), request(), {}).loop.tables.nodes["a"]
    script = Script(graph(), request(), {"a": nothing})
    script.play()
    begun = script.began[0]
    assert task.fallback is not None
    plain = [TaskRecord("a:1", "failed", "", "x"), TaskRecord("b:1", "failed", "handled", "x")]
    assert recalled(begun, plain) is begun
    found = recalled(begun, [*plain, TaskRecord("a:1", "failed", "handled", "ValueError('down')")])
    assert found.id == "__error_handler__a:1"
    assert found.failure is not None
    assert isinstance(found.failure.error, RecordedError)
    assert "ValueError('down')" in str(found.failure.error)
