"""Tool calls are approved, edited or rejected by people, in any parts (C87, C88)."""

from dataclasses import replace
from typing import Any

import pytest

from juncture import HumanDecision, InMemorySaver, review_tool_calls
from tests.behaviour.building import chain, thread
from tests.behaviour.ran import State

CALLS = [
    {"id": "1", "name": "pay", "args": {"to": "ann", "amount": 5}},
    {"id": "2", "name": "look", "args": {}},
    {"id": "3", "name": "pay", "args": {"to": "bob", "amount": 9}},
]


def graph(saver: Any, needs: Any = ("pay",), calls: Any = CALLS, **options: Any) -> Any:
    def tools(state):
        reviewed = review_tool_calls(calls, needs, **options)
        return {"x": reviewed.calls, "y": reviewed.messages}

    return chain(State, saver=saver, tools=tools)


def test_several_calls_are_asked_about_at_once_and_the_others_are_listed(engine, saver):
    (question,) = engine.invoke(graph(saver), {}, thread("t")).interrupts
    assert [(r["id"], r["arguments"]["to"]) for r in question.value["requests"]] == [
        ("1", "ann"),
        ("3", "bob"),
    ]
    assert question.value["automatic"] == [{"id": "2", "name": "look", "arguments": {}}]
    assert engine.call(graph(saver).pending, graph(saver).apending, "t") == (question,)

    edit = {"type": "Edited", "arguments": {"to": "ann", "amount": 1}}
    done = engine.resume(
        graph(saver), {question.id: {"1": edit, "3": {"type": "REJECT", "message": "no"}}}, thread("t")
    )
    assert done["x"] == [CALLS[0] | {"args": {"to": "ann", "amount": 1}}, CALLS[1]]
    assert [(m["tool_call_id"], m["content"]) for m in done["y"]] == [("3", "no")]


def test_a_partial_answer_asks_for_the_rest_and_keeps_what_was_decided(engine, saver):
    engine.invoke(graph(saver), {}, thread("t"))
    again = engine.call(graph(saver).resume, graph(saver).aresume, "t", {"3": "approve"})
    assert [r["id"] for r in again.interrupts[0].value["requests"]] == ["1"]
    done = engine.call(graph(saver).resume, graph(saver).aresume, "t", "rejected")
    assert [call["id"] for call in done["x"]] == ["2", "3"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("approve", "at least one"),
        (["approve"], "2 calls wait for a decision, and 1 were given"),
        ({"2": "approve"}, "no call '2' waits"),
        ({"1": "maybe"}, "approve, edit or reject"),
        ({"1": {"type": "edit"}}, "an edit says the arguments"),
        ({"1": {"type": "edit", "args": {}}}, "edit isn't allowed"),
    ],
)
def test_a_wrong_decision_leaves_the_question_open_and_says_why(engine, answer, text):
    saver = InMemorySaver()
    built = graph(saver, allowed=["approve", "reject"])
    (first,) = engine.invoke(built, {}, thread("t")).interrupts
    (question,) = engine.resume(built, {first.id: answer}, thread("t")).interrupts
    assert (question.id, text in question.error) == (first.id, True)
    assert [c["id"] for c in engine.resume(built, ["approved", "Rejected"], thread("t"))["x"]] == ["1", "2"]


def test_nothing_is_asked_where_nothing_needs_a_decision(engine, saver):
    assert engine.invoke(graph(saver, needs=()), {}, thread("t"))["x"] == CALLS


def test_what_needs_a_decision_may_be_described_or_decided_by_a_function(engine):
    saver = InMemorySaver()
    large = graph(saver, needs=lambda call: call["args"].get("amount", 0) > 6 and "a large sum")
    (question,) = engine.invoke(large, {}, thread("t")).interrupts
    assert [(r["id"], r["description"]) for r in question.value["requests"]] == [("3", "a large sum")]
    (question,) = engine.invoke(graph(saver, needs={"look": "Look?"}), {}, thread("u")).interrupts
    assert [(r["id"], r["description"]) for r in question.value["requests"]] == [("2", "Look?")]


def test_calls_that_no_decision_could_find_are_refused(engine, saver):
    with pytest.raises(ValueError, match="has no id"):
        engine.invoke(graph(saver, calls=[{"name": "pay"}]), {}, thread("t"))
    with pytest.raises(ValueError, match="the same id"):
        engine.invoke(graph(saver, calls=[CALLS[0], CALLS[0]]), {}, thread("u"))


def test_a_decision_is_read_from_what_people_give():
    assert (
        HumanDecision.parse("approved") == HumanDecision.parse({"type": "Accept"}) == HumanDecision("approve")
    )
    edit = HumanDecision.parse({"type": "edit", "edited_action": {"name": "look", "args": {"x": 1}}})
    assert (edit.name, edit.arguments) == ("look", {"x": 1})
    rejected = HumanDecision.parse({"type": "Rejected", "reason": "no"})
    assert replace(rejected).message == HumanDecision.parse(rejected).message == "no"


def test_a_decision_object_may_be_the_answer(engine, saver):
    engine.invoke(graph(saver), {}, thread("t"))
    done = engine.resume(graph(saver), [HumanDecision("approve"), HumanDecision("reject")], thread("t"))
    assert [call["id"] for call in done["x"]] == ["1", "2"]
