"""Questions and answers: their ids, which are open, and whose an answer is.

A question is known by an id made of thread, namespace, task and its own key or content, so it is the same question
whenever the same place asks it again. Records of a checkpoint hold questions and answers; a question is open while
no answer of the same id is beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, cast

from juncture.engine.state import State, TaskRecord
from juncture.errors import InterruptError, NothingToResumeError
from juncture.types import MISSING, Answer, Answers, Interrupt, When


def question_id(thread_id: str, namespace: tuple[str, ...], task_id: str, identity: str) -> str:
    """32 hexadecimal digits for one question at one place."""
    place = "\x1f".join((thread_id, *namespace, task_id, identity))
    return blake2b(place.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def static_question(
    thread_id: str, namespace: tuple[str, ...], step: int, node: str, when: When
) -> Interrupt:
    """The pause before or after a node, as a question."""
    identity = question_id(thread_id, namespace, f"{node}:{step}", when)
    return Interrupt(None, identity, node, namespace, None, when)


def open_questions(records: Iterable[TaskRecord]) -> list[Interrupt]:
    """The questions without an answer, in the order asked, each once."""
    records = list(records)
    answered = answers_in(records)
    found: dict[str, Interrupt] = {}
    for record in records:
        if record.kind in ("question", "paused", "doubt") and record.name not in answered:
            found[record.name] = record.content
    return list(found.values())


def answers_in(records: Iterable[TaskRecord]) -> dict[str, Any]:
    """The answers that hold, by the id of their question: of several the last, and none where that was taken back."""
    answers = {record.name: record.content for record in records if record.kind == "answer"}
    return {name: answer for name, answer in answers.items() if answer is not MISSING}


def pauses_after(thread_id: str, namespace: tuple[str, ...], state: State) -> list[TaskRecord]:
    """The pauses after nodes that a state says were made, as records of open questions."""
    questions = [
        static_question(thread_id, namespace, state.step, node, "after") for node in state.paused_after
    ]
    return [TaskRecord("", "paused", question.id, question) for question in questions]


def lasting(state: State, records: Iterable[TaskRecord]) -> list[TaskRecord]:
    """The records without those that the state says by itself (`pauses_after`)."""
    return [
        record
        for record in records
        if record.kind != "paused"
        or record.content.when == "before"
        or record.content.node not in state.paused_after
    ]


def match(resume: Any, questions: Sequence[Interrupt], *, strict: bool = True) -> dict[str, Any]:
    """Which answer belongs to which question, by id.

    A mapping is a map of answers if it isn't empty and each of its keys is the id or key of an open question, or if it
    is an `Answers`; anything else is the answer to the one open question.

    Raises:
        NothingToResumeError: No question is open.
        InterruptError: Several are open and one answer was given, or an `Answers` names none of them.
    """
    if not questions:
        raise NothingToResumeError("there is nothing to resume: no question of this thread is open")
    names = {question.id: question.id for question in questions}
    keys = [question.key for question in questions]
    for question in questions:
        if question.key is not None:
            names.setdefault(question.key, question.id if keys.count(question.key) == 1 else "")
    if isinstance(resume, Answer):
        return _only(resume.value, questions)
    if isinstance(resume, Answers):
        unknown = [name for name in resume if name not in names]
        if unknown or not resume:
            raise InterruptError(f"no open question has the id or key {unknown}. {listed(questions)}")
        return _by_id(resume, names, questions)
    if (
        not strict
        and isinstance(resume, Mapping)
        and resume
        and all(map(_is_id, cast("Mapping[Any, Any]", resume)))
    ):
        return {name: value for name, value in cast("Mapping[str, Any]", resume).items() if name in names}
    if (
        isinstance(resume, Mapping)
        and resume
        and all(name in names for name in cast("Mapping[Any, Any]", resume))
    ):
        return _by_id(cast("Mapping[str, Any]", resume), names, questions)
    return _only(resume, questions)


def _by_id(
    answers: Mapping[str, Any], names: Mapping[str, str], questions: Sequence[Interrupt]
) -> dict[str, Any]:
    for name in answers:
        if not names[name]:
            raise InterruptError(
                f"the key {name!r} names several open questions; answer by id. {listed(questions)}"
            )
    return {names[name]: value for name, value in answers.items()}


def _is_id(name: Any) -> bool:
    return isinstance(name, str) and len(name) == 32 and set(name) <= set("0123456789abcdef")


def _only(value: Any, questions: Sequence[Interrupt]) -> dict[str, Any]:
    asked = [question for question in questions if question.when == "inside"]
    if len(asked) > 1:
        raise InterruptError(
            "When there are multiple pending interrupts, you must specify the interrupt id: "
            f"Command(resume={{id or key: answer}}). {listed(questions)}"
        )
    return {question.id: value for question in asked or questions}


def listed(questions: Sequence[Interrupt]) -> str:
    """The open questions, for a message."""
    lines = [
        f"{q.id} ({q.when} node {q.node!r}{f', key {q.key!r}' if q.key else ''}): {_short(q.value)}"
        for q in questions
    ]
    return "Open: " + "; ".join(lines)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
