"""The journal of effects: entries are saved before their task goes on, and what is in doubt is asked."""

import pytest

from juncture.engine.effects import Called, Done, Failed
from juncture.engine.journal import (
    Intent,
    Settlement,
    check_settlements,
    doubts_in,
    intent_in,
    read_settlement,
)
from juncture.engine.state import TaskRecord
from juncture.errors import InDoubtError, InterruptError
from juncture.types import Interrupt
from tests.unit.engine.script import Script, Store, asked, chain, failed, fan, request

QUESTION = Interrupt({"in_doubt": "pay"}, "q", "a", (), "key")


def entry(task, kind, content):
    return Called(task, record=TaskRecord(task.id, kind, "pay", content))


def journaling(*entries, then=None):
    def body(task):
        for kind, content in entries:
            yield entry(task, kind, content)
        return (then or (lambda task: Done(task, [])))(task)

    return body


def in_doubt(question=QUESTION):
    return InDoubtError("nobody knows", node="a", idempotency_key="key", question=question)


def test_an_entry_is_durable_before_its_task_goes_on():
    store = Store()
    script = Script(
        chain("a"), request(saving=True), {"a": journaling(("intent", ("k", 1)), ("once", "r"))}, store=store
    )
    script.play()
    assert script.did == [
        "load",
        "save input 0",
        "run a:1",
        "writes now intent a:1",
        "reply a:1 done",
        "wait",
        "writes now once a:1",
        "reply a:1 done",
        "wait",
        "save loop 1",
    ]


def test_without_a_saver_entries_are_known_to_the_next_try_alone():
    seen = []

    def twice(task):
        yield entry(task, "intent", ("k", 1))
        yield entry(task, "intent", ("k", 2))
        seen.extend((record.kind, record.content) for record in task.records)
        return Done(task, [])

    script = Script(chain("a"), request(), {"a": twice})
    script.play()
    assert seen == [("intent", ("k", 2))], "the later replaces the earlier"
    assert not [line for line in script.did if line.startswith("writes")]


def test_what_was_to_be_saved_with_the_end_of_a_step_goes_with_an_entry():
    bodies = {"a": asked("sure?"), "b": journaling(("once", 1))}
    script = Script(fan("a b"), request(saving=True), bodies)
    assert script.play().status == "interrupted"
    assert "writes now question a:1, once b:1" in script.did


def test_nothing_new_begins_while_the_step_is_being_stopped_and_what_ended_is_saved():
    kinds = []

    def late(task):
        outcome = yield entry(task, "intent", ("k", 1))
        kinds.append(type(outcome).__name__)
        outcome = yield entry(task, "once", 1)
        kinds.append(type(outcome).__name__)
        return Done(task, [])

    bodies = {"a": lambda task: Failed(task, RuntimeError("a")), "b": late}
    script = Script(fan("a b"), request(saving=True), bodies, finish_on_cancel=True)
    with pytest.raises(RuntimeError):
        script.play()
    assert kinds == ["Stopped", "Done"]


def test_a_failure_in_doubt_leaves_a_question_and_is_raised():
    store = Store()
    script = Script(chain("a"), request(saving=True), {"a": failed(in_doubt())}, store=store)
    with pytest.raises(InDoubtError):
        script.play()
    assert [(r.kind, r.name) for r in store.head.records] == [("failed", ""), ("doubt", "q")]
    assert script.loop.asked == [QUESTION]


def test_the_answer_is_read_before_it_is_saved():
    store = Store()
    graph = chain("a")
    with pytest.raises(InDoubtError):
        Script(graph, request(saving=True), {"a": failed(in_doubt())}, store=store).play()
    wrong = Script(graph, request("command", saving=True, resume={"key": "yes"}), {}, store=store)
    with pytest.raises(InterruptError, match="happened"):
        wrong.play()
    seen = []

    def body(task):
        seen.extend(record.content for record in task.records if record.kind == "answer")
        return Done(task, [])

    answer = {"happened": True, "result": 1}
    Script(graph, request("command", saving=True, resume={"key": answer}), {"a": body}, store=store).play()
    assert seen == [answer]


def test_what_is_known_of_an_intent():
    records = [
        TaskRecord("a:1", "call", "pay", ("x", 1)),
        TaskRecord("a:1", "intent", "other", ("o", 1)),
        TaskRecord("a:1", "intent", "pay", ("k", 2)),
    ]
    assert intent_in(records, "pay") == Intent("k", 2)
    assert intent_in([TaskRecord("a:1", "intent", "pay", None)], "pay") is None
    assert intent_in([], "pay") is None


def test_doubts_are_found_in_what_an_exception_groups_and_was_raised_from():
    one, two = in_doubt(), in_doubt(question=Interrupt(1, "r", "a"))
    group = ExceptionGroup("several", [ValueError(), one, two, one])
    assert [q.id for q in doubts_in(group)] == ["q", "r"]
    outer = ValueError()
    outer.__cause__ = one
    one.__context__ = outer  # a circle
    assert doubts_in(outer) == [QUESTION]
    assert doubts_in(in_doubt(question=None)) == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"happened": True, "result": 1}, Settlement(happened=True, result=1)),
        ({"happened": True}, Settlement(happened=True, result=None)),
        ({"happened": False}, Settlement(happened=False, result=None)),
    ],
)
def test_what_an_answer_says(answer, expected):
    assert read_settlement(answer) == expected


@pytest.mark.parametrize(
    "answer", [None, "yes", {}, {"happened": 1}, {"happened": False, "result": 1}, {"happened": True, "x": 1}]
)
def test_what_says_nothing(answer):
    with pytest.raises(InterruptError, match="stays open"):
        read_settlement(answer)
    check_settlements([TaskRecord("a:1", "question", "q", None)], {"q": answer})
    check_settlements([TaskRecord("a:1", "doubt", "other", None)], {"q": answer})
    with pytest.raises(InterruptError):
        check_settlements([TaskRecord("a:1", "doubt", "q", None)], {"q": answer})
