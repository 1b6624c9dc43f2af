"""Tries that timed out, as the loop is told of them: failures with an error of their own."""

import pytest

from juncture.engine.effects import TimedOut
from juncture.engine.limits import limits_of
from juncture.engine.plan import plan
from juncture.engine.state import State, TaskRecord
from juncture.errors import NodeTimeoutError
from juncture.types import START, RetryPolicy, Send, TimeoutPolicy
from tests.unit.engine.script import Script, Store, added, call, fan, in_turn, nothing, request, tables

LIMITS = TimeoutPolicy(run_timeout=5, idle_timeout=2)


def late(kind="run", elapsed=7.0):
    return lambda task: TimedOut(task, kind, elapsed)


@pytest.mark.parametrize(("kind", "limit"), [("run", 5), ("idle", 2)])
def test_a_try_that_timed_out_has_failed(kind, limit):
    graph = tables({"a": {"timeout": LIMITS}}, (START, "a"))
    store = Store()
    script = Script(graph, request(saving=True), {"a": late(kind)}, store=store)
    with pytest.raises(NodeTimeoutError) as caught:
        script.play()
    error = caught.value
    assert (error.node, error.kind, error.elapsed, error.timeout) == ("a", kind, 7, limit)
    assert (error.run_timeout, error.idle_timeout) == (5, 2)
    assert [(r.task_id, r.kind) for r in store.head.records] == [("a:1", "failed")]


def test_it_is_tried_again_by_default():
    graph = tables({"a": {"timeout": 5, "retry_policy": RetryPolicy(jitter=False)}}, (START, "a"))
    script = Script(graph, request(), {"a": in_turn(late(), added)})
    assert script.values()["log"] == ["a:1"]
    assert script.did == ["run a:1", "start a:1 +0.5", "wait"]


def test_it_stops_its_siblings():
    script = Script(fan("a b"), request(), {"a": late(), "b": nothing})
    with pytest.raises(NodeTimeoutError):
        script.play()
    assert script.did == ["start a:1", "start b:1", "wait", "cancel", "wait"]


def test_its_calls_are_awaited():
    def ends(task):
        return [call(task, "c"), TimedOut(task, "run", 7)]

    script = Script(fan("a"), request(), {"a": ends})
    with pytest.raises(NodeTimeoutError):
        script.play()
    assert script.did[-3:] == ["cancel calls of a:1", "wait", "reply c stopped"]


def test_a_send_has_its_own_limits_or_its_nodes():
    graph = tables({"a": {"timeout": LIMITS}, "b": {}}, (START, "a"))
    own = TimeoutPolicy(run_timeout=1)
    state = State(due=("a",), sends=(Send("a", 1), Send("a", 2, timeout=own), Send("b", 3)))
    assert [limits_of(task) for task in plan(graph, state, 9)] == [LIMITS, LIMITS, own, None]


def test_a_record_of_it_lets_the_task_run_again():
    store = Store()
    graph = tables({"a": {"timeout": 5}}, (START, "a"))
    with pytest.raises(NodeTimeoutError):
        Script(graph, request(saving=True), {"a": late()}, store=store).play()
    assert isinstance(store.head.records[0], TaskRecord)
    assert Script(graph, request("continue", saving=True), {"a": added}, store=store).values()["log"] == [
        "a:1"
    ]
