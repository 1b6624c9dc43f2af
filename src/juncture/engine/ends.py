"""How a run ends other than by completing: pauses, failures, and commands for an enclosing graph.

Each function takes the loop at the point where a step can't go on, saves what a later run needs, shows what its
consumers want to know, and sets the loop's `ending` or raises what ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from juncture.engine import streaming
from juncture.engine.commit import apply, log_own, merge
from juncture.engine.effects import Done, Emit, Ending, Escaped, Failed, Paused, Program, Stopped, Tell, Warn
from juncture.engine.journal import doubts_in
from juncture.engine.state import TaskRecord
from juncture.errors import InvalidUpdateError, described, note
from juncture.types import MISSING, Interrupt

if TYPE_CHECKING:
    from juncture.engine.run import Loop


def just_paused(loop: Loop) -> bool:
    """Whether an earlier run paused at this very checkpoint, so that going on means going on."""
    return not loop.taken and (bool(loop.state.paused_after) or any(r.kind == "paused" for r in loop.records))


def pause(loop: Loop, questions: list[Interrupt], *, saved: bool = False) -> Program:
    """Ends the run with open questions."""
    if loop.request.saving and not saved:
        yield loop.noting([*loop.unsaved, *question_records("", questions, "paused")])
    if loop.request.observed:
        for question in questions:
            values, step = dict(loop.state.values), loop.state.step + (question.when == "before")
            yield Tell("interrupt", values, step, node=question.node, content=(question,))
    yield from show_pause(loop, questions)
    loop.ending = Ending("interrupted", loop.state, questions)


def show_pause(loop: Loop, questions: list[Interrupt]) -> Program:
    """Shows the questions with which the run ends."""
    request = loop.request
    if request.shows_updates:
        shown = [q for q in questions if q.when == "inside"] if not loop.tables.strict else questions
        yield Emit("updates", streaming.interrupts_payload(shown), loop.state.step + 1)
    if request.shows_values and not loop.tables.strict:
        data = streaming.values_payload(loop.state, request.value_keys)
        yield Emit("values", data | streaming.interrupts_payload(questions), loop.state.step + 1)


def not_done(loop: Loop) -> Program:
    """Ends a step in which a task failed, paused, or left for an enclosing graph."""
    failures = [outcome for outcome in loop.outcomes if isinstance(outcome, Failed)]
    questions = _questions(loop)
    escaped = next((outcome for outcome in loop.outcomes if isinstance(outcome, Escaped)), None)
    if escaped is not None and not failures:
        yield from _escape(loop, escaped, questions)
        return
    loop.asked = questions
    if loop.request.saving:
        yield from loop.flush()
    if failures:
        loop.failed = failures[0].task
        raise first_failure(failures, questions)
    early = next((o.why for o in loop.outcomes if isinstance(o, Stopped) and o.why is not None), None)
    if questions:
        yield from show_pause(loop, questions)
    status = "interrupted" if early is None else early.status
    loop.ending = Ending(status, loop.state, questions, why=early)


def _questions(loop: Loop) -> list[Interrupt]:
    found: dict[str, Interrupt] = {}
    for outcome in loop.outcomes:
        if isinstance(outcome, Paused):
            found.update((question.id, question) for question in outcome.questions)
        elif isinstance(outcome, Failed):
            found.update((question.id, question) for question in doubts_in(outcome.error))
    return list(found.values())


def _escape(loop: Loop, escaped: Escaped, questions: list[Interrupt]) -> Program:
    """A command for an enclosing graph: this one counts as finished with what it committed."""
    others = [
        outcome.task.node.name for outcome in loop.outcomes if outcome is not None and outcome is not escaped
    ]
    if others:
        yield Warn(
            f"node {escaped.task.node.name!r} left for the enclosing graph in step {escaped.task.step}; what the "
            f"other tasks of that step did is discarded: {', '.join(others)}"
            + (f", and {len(questions)} open questions" if questions else "")
        )
    if escaped.writes:
        entry = (escaped.task.node.name, escaped.writes)
        apply(loop.state, merge(loop.tables, loop.state, (entry,)))
        log_own(loop.state, loop.request.shared_keys, escaped.writes)
    loop.ending = Ending("completed", loop.state, command=escaped.command)


def no_parent(escaped: Escaped) -> InvalidUpdateError:
    """What a command for an enclosing graph fails with where there is none."""
    node = escaped.task.node.name
    return InvalidUpdateError(
        f"There is no parent graph: node {node!r} of the graph that was called returned a Command for "
        f"{escaped.command.graph!r}",
        node=node,
    )


def question_records(
    task_id: str, questions: Sequence[Interrupt], kind: Literal["question", "paused"] = "question"
) -> list[TaskRecord]:
    """Open questions, as they are saved."""
    return [TaskRecord(task_id, kind, question.id, question) for question in questions]


def taken_back(task_id: str, questions: Sequence[Interrupt]) -> list[TaskRecord]:
    """Takes back the answers that a node refused: their questions are open again."""
    return [TaskRecord(task_id, "answer", q.id, MISSING) for q in questions if q.error is not None]


def revoked(ended: Sequence[Done], error: Exception) -> list[TaskRecord]:
    """Takes back what was saved as done: the step can't be committed with it, so its node has to run again.

    Of the nodes that are to blame, or of all where none is named.
    """
    blamed = (error.nodes or (error.node,)) if isinstance(error, InvalidUpdateError) else ()
    tasks = [done.task for done in ended]
    mine = [task for task in tasks if task.node.name in blamed] or tasks
    return [TaskRecord(task.id, "done", "", None) for task in mine]


def first_failure(failures: Sequence[Failed], questions: Sequence[Interrupt]) -> BaseException:
    """The failure to raise: the first in plan order. The others, and questions left open, become notes on it."""
    error, handled = failures[0].error, failures[0].task.failure
    if handled is not None:
        note(
            error,
            f"juncture: raised by the error handler of node {handled.node!r}, which had failed with {described(handled.error)}",
        )
    for other in failures[1:]:
        if other.error is not error:
            note(
                error,
                f"juncture: node {other.task.node.name!r} of the same step failed too: {described(other.error)}",
            )
    if questions:
        note(error, f"juncture: open questions: {', '.join(f'{q.id} (node {q.node!r})' for q in questions)}")
    return error
