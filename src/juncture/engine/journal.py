"""The journal of effects that are to happen once: what a task is about to do outside, and what came of it.

An entry is saved beside the newest checkpoint, at once whatever the run's durability, before its task goes on. ``intent``
says that the effect is about to be made, ``once`` what it gave. An intent without a result is in doubt: the process was
stopped in between, or what was called raised. Only somebody who knows what happened outside can settle that, so a task
that fails because of it leaves a question (``doubt``), which is answered like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from juncture.engine.effects import Called, Done, Program, Reply, Stopped
from juncture.engine.state import TaskRecord
from juncture.errors import InDoubtError, InterruptError
from juncture.types import Interrupt

if TYPE_CHECKING:
    from juncture.engine.run import Loop


class Intent(NamedTuple):
    """What is saved before an effect is made."""

    idempotency_key: str
    tries: int
    """How often it was begun, this time included."""


class Settlement(NamedTuple):
    """What somebody said about an effect that was in doubt."""

    happened: bool
    result: Any


def journal(loop: Loop, event: Called) -> Program:
    """Saves an entry, and answers the task that made it once that is durable."""
    record = event.record
    assert record is not None
    task = event.task
    if loop.stopping and record.kind == "intent":
        yield Reply(event, Stopped(task))
        return
    if loop.request.saving:
        records, loop.unsaved = loop.unsaved, []
        yield loop.noting([*records, record], now=True)
    owner = task.parent or task
    place = (record.kind, record.name)
    owner.records = [*(old for old in owner.records or () if (old.kind, old.name) != place), record]
    yield Reply(event, Done.of_call(task, None))


def intent_in(records: Iterable[TaskRecord], name: str) -> Intent | None:
    """What is known to have been begun under a name, and wasn't taken back."""
    for record in records:
        if record.kind == "intent" and record.name == name and record.content is not None:
            return Intent(*record.content)
    return None


def doubts_in(error: BaseException) -> list[Interrupt]:
    """The questions that an exception leaves: its own, those of what it was raised from, and of those that it groups."""
    found: dict[str, Interrupt] = {}
    for each in _related(error, set()):
        if isinstance(each, InDoubtError) and each.question is not None:
            found[each.question.id] = each.question
    return list(found.values())


def _related(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _related(each, seen)
    yield from _related(error.__cause__, seen)
    yield from _related(error.__context__, seen)


def read_settlement(answer: Any) -> Settlement:
    """What an answer says about an effect that is in doubt.

    Raises:
        InterruptError: It isn't ``{"happened": True, "result": …}`` or ``{"happened": False}``.
    """
    if isinstance(answer, Mapping):
        said = cast("Mapping[str, Any]", answer)
        happened = said.get("happened")
        known = {"happened", "result"} if happened else {"happened"}
        if isinstance(happened, bool) and said.keys() <= known:
            return Settlement(happened, said.get("result"))
    raise InterruptError(
        'whether something happened that was to be done once is answered with {"happened": True, "result": …} or '
        f'{{"happened": False}}, got {answer!r}. The question stays open'
    )


def check_settlements(records: Iterable[TaskRecord], answers: Mapping[str, Any]) -> None:
    """Refuses answers that don't say what became of an effect, before they are saved.

    Raises:
        InterruptError: See `read_settlement`.
    """
    for record in records:
        if record.kind == "doubt" and record.name in answers:
            read_settlement(answers[record.name])


def doubt_records(task_id: str, error: BaseException) -> list[TaskRecord]:
    """The questions that a failure leaves, as they are saved."""
    return [TaskRecord(task_id, "doubt", question.id, question) for question in doubts_in(error)]


__all__ = [
    "Intent",
    "Settlement",
    "check_settlements",
    "doubt_records",
    "doubts_in",
    "intent_in",
    "journal",
    "read_settlement",
]
