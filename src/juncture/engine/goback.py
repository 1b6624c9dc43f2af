"""Going back: what of an older checkpoint is taken up, and from where its nested graphs go on.

Going on from an older checkpoint makes a fork of it. What was answered or done later counts no more (right-behaviour 33).

* Where the step that is due runs as if it never had, its tasks get new ids, with the branch, and so do the namespaces of
  their nested graphs: nothing of what was done before is found by them.
* Where that step is gone on with (its questions are answered anew, or a nested graph inside it goes back), its tasks keep
  their ids, and so do the nested namespaces. These then hold what other branches did there. What counts as this branch's was
  made around a checkpoint of this branch; else the nested graph goes back to where it stood, as the records
  of its task say, and if they say nothing, it begins. The branch says that it is so by its mark, ``a>b``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from juncture.engine.interrupts import open_questions
from juncture.engine.state import Around, Saved, TaskRecord
from juncture.engine.task import Task
from juncture.errors import ConfigError
from juncture.types import MISSING, Interrupt

if TYPE_CHECKING:
    from juncture.engine.begin import Request
    from juncture.engine.run import Loop


@dataclass(slots=True)
class Inside:
    """Which nested graph of a step goes back, while the rest of the step stands as it did then."""

    task_id: str
    """Of the task that it is nested in."""
    level: str
    """Its level of the namespace."""
    known: int
    """How many records there were then."""
    questions: Sequence[Interrupt] = ()
    """What it asks there, to be answered."""


@dataclass(slots=True)
class Back:
    """How an edit goes back."""

    keeps: Literal["nothing", "pauses", "unanswered"]
    """What is kept of what was saved about the tasks: nothing; the pauses before nodes, which are then passed; or what
    was known before the first answer to each."""
    around: Around | None = None
    """What of its parent it is saved as made in."""
    inside: Inside | None = None
    """The graph is one around the nested one that goes back, and keeps what it knew then."""


def go_back(request: Request, saved: Saved) -> None:
    """Makes of an older checkpoint what is gone on from.

    Raises:
        ConfigError: Questions inside nested graphs are to be answered anew, and nobody knows where these stood.
    """
    state = saved.state
    keeps, inside = _keeps(request)
    branch = saved.head_id or saved.checkpoint_id
    if inside is not None or keeps == "unanswered":
        records = _unanswered(saved.records) if inside is None else _around(request, inside, saved.records)
        if inside is None and request.kind == "command":
            _check_known(request, saved.checkpoint_id, records)
        saved.records = records
        state.branch = f"{state.branch.partition('>')[0]}>{branch}"
    else:
        saved.records = [
            r
            for r in saved.records
            if keeps == "pauses" and r.kind == "paused" and r.content.when == "before"
        ]
        state.branch, state.paused_after = branch, ()
    state.carried = tuple(r for r in saved.records if r.kind != "paused" or r.content.when == "before")
    state.edited = ()


def _keeps(request: Request) -> tuple[Literal["nothing", "pauses", "unanswered"], Inside | None]:
    """What of the records is kept, and which nested graph goes back in their midst."""
    if request.back is not None:
        return request.back.keeps, request.back.inside
    if request.kind == "nested" or (request.kind == "command" and request.resume is not MISSING):
        return "unanswered", None
    return ("pauses" if request.kind == "continue" else "nothing"), None


def _unanswered(records: Sequence[TaskRecord]) -> list[TaskRecord]:
    """What was known about the tasks before the first answer to each."""
    answered: set[str] = set()
    kept: list[TaskRecord] = []
    for record in records:
        if record.kind == "answer":
            answered.add(record.task_id)
        elif record.task_id not in answered:
            kept.append(record)
    asked = {record.task_id for record in kept if record.kind == "question"}
    return [record for record in kept if record.kind != "done" or record.task_id not in asked]


def _around(request: Request, inside: Inside, records: Sequence[TaskRecord]) -> list[TaskRecord]:
    """What was known about a step's tasks, without what the nested graph that goes back had come to."""
    task_id, place = inside.task_id, (*request.namespace, inside.level)
    asked = {
        record.name
        for record in records
        if record.task_id == task_id
        and record.kind in ("question", "doubt")
        and record.content.namespace[: len(place)] == place
    }
    kept = [
        record
        for record in records
        if record.task_id != task_id
        or not (
            record.kind in ("done", "failed")
            or (record.kind == "nested" and record.content == inside.level)
            or record.name in asked
        )
    ]
    return [*kept, *(TaskRecord(task_id, "question", asks.id, asks) for asks in inside.questions)]


def _check_known(request: Request, checkpoint_id: str, records: Sequence[TaskRecord]) -> None:
    depth = len(request.namespace)
    known = {(record.task_id, record.content) for record in records if record.kind == "nested"}
    for record in records:
        if record.kind not in ("question", "doubt") or len(record.content.namespace) == depth:
            continue
        if (record.task_id, record.content.namespace[depth]) not in known:
            raise ConfigError(
                f"checkpoint {checkpoint_id} of thread {request.thread_id!r} waits for answers inside nested graphs, which have "
                "gone on since, and it was saved by a version that didn't note where they stood. Go back to it with None as "
                "the input; it asks again. Nothing was run"
            )


def where_it_stood(loop: Loop, task: Task, level: str) -> tuple[tuple[str, ...] | None, str]:
    """`Request.since` and `Request.stood` of a nested graph that a task begins."""
    state = loop.state
    if ">" not in state.branch or loop.head is None:
        return None, ""
    stood = [
        record.name for record in task.records or () if record.kind == "nested" and record.content == level
    ]
    return (loop.head, *state.edited), (stood[-1] if stood else "")


def unanswered_questions(records: Sequence[TaskRecord]) -> list[Interrupt]:
    """The questions that are asked at a checkpoint once it is gone back to for answering them."""
    return open_questions(_unanswered(records))


__all__ = ["Back", "Inside", "go_back", "unanswered_questions", "where_it_stood"]
