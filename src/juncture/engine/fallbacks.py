"""Error handlers: what runs in the place of a node that failed, once its retries are used up.

A handler is a task of its own, in the same step and at the same place in the plan. What it returns is the result; the
edges of the node that failed aren't followed. The failure is saved before the handler begins, so a run that goes on
afterwards begins with the handler; once that has ended, it is known like any task that is done. Questions and commands for
an enclosing graph aren't failures, and a task that is stopped because another failed isn't handled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from juncture.engine import streaming
from juncture.engine.effects import Failed, Program, Start
from juncture.engine.state import TaskRecord
from juncture.engine.task import Task
from juncture.errors import RecordedError, described
from juncture.types import NodeError

if TYPE_CHECKING:
    from juncture.engine.run import Loop

FALLBACK: Final = "__error_handler__"
"""Stands before the name of a node in that of its handler."""
_HANDLED: Final = "handled"
"""The name of a record of a failure that is a handler's now."""


def falls_back(loop: Loop, event: Failed) -> bool:
    """Whether a failure is its node's handler's."""
    return event.task.node.fallback is not None and not loop.stopping and isinstance(event.error, Exception)


def fall_back(loop: Loop, event: Failed) -> Program:
    """Begins the handler of a task that failed."""
    failed = event.task
    if failed.chunks:
        yield streaming.discarded(loop.request, failed)
    fallback = _fallback(failed, event.error)
    loop.tasks[failed.place] = fallback
    if loop.request.saving:
        loop.unsaved.append(TaskRecord(failed.id, "failed", _HANDLED, described(event.error)))
        yield from loop.flush()
    if loop.request.shows_tasks:
        yield from loop.show_end(event)
        yield from loop.show_start(fallback)
    yield Start(fallback)


def recalled(task: Task, records: Sequence[TaskRecord]) -> Task:
    """The task that an earlier run left: its handler, if it had failed for good, or itself."""
    if task.node.fallback is None:
        return task
    for record in records:
        if record.task_id == task.id and record.kind == "failed" and record.name == _HANDLED:
            error = RecordedError(
                f"node {task.node.name!r} failed in an earlier run: {record.content}", node=task.node.name
            )
            return _fallback(task, error)
    return task


def _fallback(failed: Task, error: BaseException) -> Task:
    node = failed.node.fallback
    assert node is not None
    task = Task(node, failed.step, failed.place, failed.values, failed.remaining, failed.send)
    task.argument, task.branch = failed.argument, failed.branch
    task.failure = NodeError(failed.node.name, error)
    return task


__all__ = ["FALLBACK", "fall_back", "falls_back", "recalled"]
