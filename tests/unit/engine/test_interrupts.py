"""Questions and answers: their ids, which are open, and whose an answer is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.engine.interrupts import (
    listed,
    match,
    open_questions,
    pauses_after,
    question_id,
    static_question,
)
from juncture.engine.state import State, TaskRecord
from juncture.errors import InterruptError, NothingToResumeError
from juncture.types import Answer, Answers, Interrupt


def asks(name, key=None, when="inside", node="n"):
    return Interrupt(f"about {name}", name, node, (), key, when)


def record(kind, name, content=None, task="n:1"):
    return TaskRecord(task, kind, name, content)


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_id_is_32_hexadecimal_digits_and_stable():
    made = question_id("t", ("a:1",), "n:2", "q")
    assert made == "d02625eec0df073b1df77ba27e00a87a"  # checkpoints hold it
    assert len(made) == 32
    assert int(made, 16) >= 0


def test_an_id_differs_in_every_part():
    parts = [("t", "u"), ((), ("a:1",), ("a:1", "b:2")), ("n:1", "n:2"), ("q", "r")]
    assert len({question_id(*one) for one in itertools.product(*parts)}) == 2 * 3 * 2 * 2


def test_an_id_takes_any_text():
    assert question_id("\ud800", (), "ü:1", "\x00") != question_id("\ud801", (), "ü:1", "\x00")


def test_a_static_pause_is_a_question():
    pause = static_question("t", ("a:1",), 3, "n", "before")
    assert pause == Interrupt(
        None, question_id("t", ("a:1",), "n:3", "before"), "n", ("a:1",), None, "before"
    )
    others = [
        static_question("t", ("a:1",), 3, "n", "after"),
        static_question("t", ("a:1",), 4, "n", "before"),
    ]
    assert len({pause.id, *(other.id for other in others)}) == 3


def test_pauses_after_nodes_are_told_by_the_state():
    records = pauses_after("t", ("a:1",), State(3, paused_after=("n", "m")))
    pauses = [static_question("t", ("a:1",), 3, node, "after") for node in "nm"]
    assert records == [TaskRecord("", "paused", pause.id, pause) for pause in pauses]
    assert pauses_after("t", (), State(3)) == []


# ── open questions ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_is_open_while_it_has_no_answer():
    one, two, pause = asks("one"), asks("two"), asks("pause", when="before")
    records = [
        record("question", "one", one),
        record("done", "", ([], [], []), "m:1"),
        record("question", "two", two),
        record("paused", "pause", pause, ""),
    ]
    assert open_questions(records) == [one, two, pause]
    assert open_questions([*records, record("answer", "one", 1)]) == [two, pause]
    assert open_questions([record("answer", "one", 1), *records]) == [two, pause]
    assert open_questions(iter([*records, record("answer", "pause", None, "")])) == [one, two]


def test_a_question_recorded_twice_is_open_once_as_it_was_last_asked():
    first, last = asks("one"), Interrupt("again", "one", "n")
    records = [
        record("question", "one", first),
        record("question", "two", asks("two")),
        record("question", "one", last),
    ]
    assert open_questions(records) == [last, asks("two")]


def test_other_records_ask_nothing():
    assert open_questions([record(kind, kind) for kind in ("done", "failed", "call", "answer")]) == []


# ── whose an answer is ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "resume",
    [
        "yes",
        0,
        None,
        [],
        {},
        {"free": "text"},
        {"one": 1, "free": 2},
        Answer({"one": 1}),
        Answer(None),
        {1: 2},
    ],
)
def test_one_answer_for_the_one_question(resume):
    value = resume.value if isinstance(resume, Answer) else resume
    assert match(resume, [asks("one")]) == {"one": value}


@pytest.mark.parametrize("kind", [dict, Answers])
def test_a_map_by_id_or_key(kind):
    questions = [asks("one"), asks("two", key="name"), asks("three")]
    assert match(kind(one=1), questions) == {"one": 1}
    assert match(kind(name=2, three=3), questions) == {"two": 2, "three": 3}
    assert match(kind(two=2), questions) == {"two": 2}
    assert match(kind(one=1, two=2, three=3), questions) == {"one": 1, "two": 2, "three": 3}


def test_an_id_counts_more_than_a_key_of_the_same_name():
    questions = [asks("one", key="two"), asks("two", key="one")]
    assert match({"two": 2}, questions) == {"two": 2}
    assert match({"one": 1}, questions) == {"one": 1}


def test_a_key_that_two_questions_have_names_neither():
    questions = [asks("one", key="name", node="a"), asks("two", key="name", node="b")]
    for answers in ({"name": 1}, Answers(name=1)):
        with pytest.raises(InterruptError, match=r"one.*two"):
            match(answers, questions)
    assert match({"one": 1, "two": 2}, questions) == {"one": 1, "two": 2}


@pytest.mark.parametrize("resume", ["yes", {}, {"free": 1}, {"one": 1, "free": 2}, Answer({"one": 1})])
def test_one_answer_for_several_questions_is_refused(resume):
    with pytest.raises(InterruptError, match="multiple pending interrupts") as caught:
        match(resume, [asks("one"), asks("two", key="k")])
    assert "one (inside node 'n'): 'about one'; two (inside node 'n', key 'k')" in str(caught.value)


@pytest.mark.parametrize("resume", [Answers(), Answers(other=1), Answers(one=1, other=2)])
def test_an_explicit_map_must_name_open_questions(resume):
    with pytest.raises(InterruptError, match="no open question has the id or key"):
        match(resume, [asks("one")])


IDS = ["0" * 32, "f" * 32, "123456789abcdef0" * 2]


def test_lenient_a_dict_of_ids_is_a_map_whatever_is_open():
    questions = [asks(name) for name in IDS[:2]]
    assert match({IDS[0]: 1, IDS[2]: 3}, questions, strict=False) == {IDS[0]: 1}
    assert match({IDS[2]: 3}, questions[:1], strict=False) == {}
    assert match({IDS[0]: 1}, questions, strict=False) == {IDS[0]: 1}


@pytest.mark.parametrize("name", ["g" * 32, "0" * 31, "F" * 32, 0])
def test_lenient_a_dict_of_anything_else_is_the_answer(name):
    for resume in ({name: 1}, {IDS[0]: 1, name: 2}):
        assert match(resume, [asks(IDS[0])], strict=False) == {IDS[0]: resume}
    assert match({}, [asks(IDS[0])], strict=False) == {IDS[0]: {}}
    assert match("yes", [asks(IDS[0])], strict=False) == {IDS[0]: "yes"}


def test_strict_a_dict_of_ids_that_arent_open_is_the_answer():
    assert match({IDS[2]: 3}, [asks(IDS[0])]) == {IDS[0]: {IDS[2]: 3}}


def test_nothing_is_open():
    with pytest.raises(NothingToResumeError):
        match("yes", [])
    with pytest.raises(NothingToResumeError):
        match(Answers(one=1), [])


def test_static_pauses_are_answered_together_by_anything():
    pauses = [asks("p", when="before"), asks("q", when="before")]
    assert match("go", pauses) == {"p": "go", "q": "go"}


def test_an_answer_beside_a_static_pause_is_the_questions():
    assert match("yes", [asks("p", when="after"), asks("one")]) == {"one": "yes"}


def test_the_list_shortens_long_values():
    text = listed([Interrupt("x" * 100, "one", "n"), Interrupt("x" * 58, "two", "n")])
    assert "'" + "x" * 56 + "..." in text
    assert "'" + "x" * 58 + "'" in text


names = st.sampled_from(["one", "two", "three", "four"])


@given(
    open_=st.lists(names, unique=True, min_size=1), resume=st.dictionaries(names, st.integers(), max_size=4)
)
def test_an_answer_never_goes_to_a_question_that_it_doesnt_name(open_, resume):
    questions = [asks(name) for name in open_]
    is_map = bool(resume) and set(resume) <= set(open_)
    if is_map:
        assert match(resume, questions) == resume
    elif len(open_) == 1:
        assert match(resume, questions) == {open_[0]: resume}
    else:
        with pytest.raises(InterruptError):
            match(resume, questions)
