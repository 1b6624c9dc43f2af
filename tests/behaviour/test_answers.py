"""A question may say what type its answer has: a wrong answer leaves it open, and says why (right-behaviour 21, 24)."""

import enum
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, BeforeValidator, field_validator

from juncture import ConfigError, InvalidAnswerError, interrupt, task
from tests.behaviour.building import chain, thread
from tests.behaviour.ran import State


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


class Order(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def even(cls, amount: int) -> int:
        if amount % 2:
            raise ValueError("must be even")
        return amount


class Packet(msgspec.Struct):
    size: int


def asking(response_type: Any, *, saver: Any, key: str | None = "q", ran: list[Any] | None = None) -> Any:
    """A graph of one node that asks; made anew for every call, as in another process."""

    def node(state):
        if ran is not None:
            ran.append("node")
        answer = interrupt("?", key=key, response_type=response_type)
        return {"x": repr(answer)}

    return chain(State, saver=saver, node=node)


FITS = {
    "int": (int, 12, "12"),
    "int-as-text": (int, "12", "12"),
    "bool": (bool, "yes", "True"),
    "date": (date, "2026-12-01", "datetime.date(2026, 12, 1)"),
    "literal": (Literal["a", "b"], "b", "'b'"),
    "enum": (Colour, "blue", "<Colour.BLUE: 'blue'>"),
    "dataclass": (Point, {"x": 1}, "Point(x=1, y=0)"),
    "typed-dict": (Named, {"name": "n"}, "{'name': 'n'}"),
    "model": (Order, {"amount": 4}, "Order(amount=4)"),
    "struct": (Packet, {"size": 1}, "Packet(size=1)"),
    "list-of-models": (list[Order], [{"amount": 2}], "[Order(amount=2)]"),
    "list-of-structs": (list[Packet], [{"size": 1}], "[Packet(size=1)]"),
    "union": (int | None, None, "None"),
}
WRONG = {
    "int": (int, "twelve", "expected a whole number, got 'twelve'"),
    "bool": (bool, 7, "expected true or false, got 7"),
    "literal": (Literal["a", "b"], "c", "expected one of 'a', 'b', got 'c'"),
    "enum": (Colour, "green", "expected one of 'red', 'blue', got 'green'"),
    "dataclass": (Point, {"y": 1}, "expected an object with 'x'"),
    "dataclass-field": (Point, {"x": []}, "x: expected a whole number, got []"),
    "typed-dict": (Named, {"name": 1}, "name: expected a text, got 1"),
    "model": (Order, "4", "expected an object, got '4'"),
    "struct": (Packet, {"size": "big"}, "size: expected a whole number"),
    "list": (list[int], [1, None], "[1]: expected a whole number, got None"),
}


@pytest.mark.parametrize("case", FITS)
def test_an_answer_becomes_what_the_question_wants(engine, saver, case):
    tp, answer, got = FITS[case]
    first = engine.invoke(asking(tp, saver=saver), {}, thread("t"))
    assert first.interrupts[0].response_schema is not None
    assert engine.resume(asking(tp, saver=saver), answer, thread("t")) == {"log": [], "x": got}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_answer_is_refused_before_anything_is_saved_or_run(engine, saver, case):
    tp, answer, text = WRONG[case]
    ran: list[Any] = []
    question = engine.invoke(asking(tp, saver=saver, ran=ran), {}, thread("t")).interrupts[0]
    before = [state.config for state in engine.history(asking(tp, saver=saver), thread("t"))]

    with pytest.raises(InvalidAnswerError) as caught:
        engine.resume(asking(tp, saver=saver, ran=ran), {"q": answer}, thread("t"))

    error = caught.value
    assert text in str(error)
    assert (error.question_id, error.node, error.expected) == (question.id, "node", question.response_schema)
    assert list(error.problems) == [question.id]
    assert ran == ["node"]
    graph = asking(tp, saver=saver)
    assert [state.config for state in engine.history(graph, thread("t"))] == before
    assert engine.state(graph, thread("t")).interrupts == (question,)


def test_what_only_the_node_can_tell_reopens_the_question_with_the_error(engine, saver):
    first = engine.invoke(asking(Order, saver=saver), {}, thread("t")).interrupts[0]

    again = engine.resume(asking(Order, saver=saver), {"q": {"amount": 3}}, thread("t"))

    assert again.status == "interrupted"
    (question,) = again.interrupts
    assert (question.id, question.key) == (first.id, "q")
    assert "must be even" in question.error
    assert engine.state(asking(Order, saver=saver), thread("t")).interrupts == (question,)
    assert engine.invoke(asking(Order, saver=saver), None, thread("t")).interrupts == (question,)
    assert engine.resume(asking(Order, saver=saver), {"amount": 4}, thread("t")) == {
        "log": [],
        "x": "Order(amount=4)",
    }


def test_other_answers_given_at_the_same_time_are_kept(engine, saver):
    asked: list[Any] = []

    def graph():
        @task
        def ask(key, tp):
            return repr(interrupt("?", key=key, response_type={"order": Order, "number": int}[tp]))

        def node(state):
            asked.append("node")
            both = [ask("a", "order"), ask("b", "number")]
            return {"x": [each.result() for each in both]}

        return chain(State, saver=saver, node=node)

    assert len(engine.invoke(graph(), {}, thread("t")).interrupts) == 2
    (open_still,) = engine.resume(graph(), {"a": {"amount": 1}, "b": "5"}, thread("t")).interrupts
    assert (open_still.key, open_still.error) == ("a", "amount: Value error, must be even")
    assert engine.resume(graph(), {"amount": 2}, thread("t")) == {"log": [], "x": ["Order(amount=2)", "5"]}


def test_several_wrong_answers_are_all_named(engine, saver):
    def graph():
        @task
        def ask(key):
            return interrupt("?", key=key, response_type=int)

        def node(state):
            return {"x": [each.result() for each in [ask("a"), ask("b")]]}

        return chain(State, saver=saver, node=node)

    first = engine.invoke(graph(), {}, thread("t"))
    with pytest.raises(InvalidAnswerError) as caught:
        engine.resume(graph(), {"a": "one", "b": "two"}, thread("t"))
    assert set(caught.value.problems) == {question.id for question in first.interrupts}
    assert engine.resume(graph(), {"a": 1, "b": 2}, thread("t")) == {"log": [], "x": [1, 2]}


def test_a_nested_graph_s_question_is_reopened_too(engine, saver):
    def graph():
        return chain(State, saver=saver, outer=asking(Order, saver=None))

    first = engine.invoke(graph(), {}, thread("t")).interrupts[0]
    with pytest.raises(InvalidAnswerError):
        engine.resume(graph(), {"q": 1}, thread("t"))
    (question,) = engine.resume(graph(), {"q": {"amount": 1}}, thread("t")).interrupts
    assert (question.id, "must be even" in question.error) == (first.id, True)
    assert engine.resume(graph(), {"q": {"amount": 2}}, thread("t")) == {"log": [], "x": "Order(amount=2)"}


def test_a_validator_that_looks_first_decides_by_itself(engine, saver):
    lower = Annotated[Literal["yes", "no"], BeforeValidator(lambda value: str(value).lower())]
    engine.invoke(asking(lower, saver=saver), {}, thread("t"))
    assert engine.resume(asking(lower, saver=saver), "YES", thread("t")) == {"log": [], "x": "'yes'"}


def test_a_type_that_nobody_can_check_is_an_error_when_asked(engine, saver):
    class Strange:
        pass

    with pytest.raises(ConfigError, match=r"response_type=.*Strange.* can't be checked"):
        engine.invoke(asking(Strange, saver=saver), {}, thread("t"))
