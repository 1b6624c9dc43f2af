"""Calls made inside a task: answered from what was recorded, or begun as tasks of their own.

A call is known by what it calls, with what, and how often that occurred before in its caller (`Task.identity`), so calls may
come in another order when their caller runs again. What a call gave is recorded before its caller hears of it. A resumed
caller that makes a call nobody recorded, and never asks for a recorded one of the same name, isn't the code that was
paused: that is an error once it has ended, when it is certain, and nothing that it did counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from juncture.engine import streaming
from juncture.engine.effects import (
    Called,
    Done,
    Emit,
    Failed,
    Outcome,
    Paused,
    Program,
    Reply,
    Start,
    Stopped,
)
from juncture.engine.journal import journal
from juncture.engine.state import TaskRecord
from juncture.engine.task import Task
from juncture.engine.values import copied
from juncture.errors import InternalError, ResumeMismatchError

if TYPE_CHECKING:
    from juncture.engine.run import Loop


def called(loop: Loop, event: Called) -> Program:
    """Answers a call from what was recorded, or begins it as a task of its own."""
    if event.record is not None:
        yield from journal(loop, event)
        return
    task, parent = event.task, event.task.parent
    if parent is None:
        raise InternalError(f"a call without a caller: {task!r}")
    if loop.stopping:
        yield Reply(event, Stopped(task))
        return
    heard = parent.heard = parent.heard or set()
    unasked = False
    for record in parent.records or ():
        if record.kind == "call":
            if record.name == task.identity:
                heard.add(task.identity)
                done = Done.of_call(task, record.content)
                done.saved = True
                yield from _show(loop, done)
                yield Reply(event, done)
                return
            unasked = unasked or record.name not in heard
    if unasked and loop.tables.strict:
        parent.strays = (*(parent.strays or ()), task)
    task.call = event
    parent.calls += 1
    loop.counts(parent, 1)
    if "tasks" in loop.request.modes or "debug" in loop.request.modes:
        yield from loop.show_task("task", streaming.task_payload(task, copied(task.argument)), task)
    yield Start(task)


def call_ended(loop: Loop, event: Outcome, parent: Task) -> Program:
    """Records what a call gave before its caller hears of it."""
    call = event.task
    loop.counts(parent, -1)
    if isinstance(event, Done):
        record = TaskRecord(parent.id, "call", call.identity, event.result)
        parent.records = [*(parent.records or ()), record]  # for the next try of the parent
        cast("set[str]", parent.heard).add(call.identity)
        if loop.request.saving:
            records, loop.unsaved = loop.unsaved, []
            yield loop.noting([*records, record])
        yield from _show(loop, event)
    elif isinstance(event, Paused):
        parent.questions = [*(parent.questions or ()), *event.questions]
    if "tasks" in loop.request.modes or "debug" in loop.request.modes:
        yield from loop.show_task("task_result", streaming.result_payload(loop.tables, event), call)
    parent.calls -= 1
    yield Reply(call.call, event)
    held = parent.held
    if held is not None and not parent.calls:
        parent.held = None
        yield from loop.hear(held)


def _show(loop: Loop, done: Done) -> Program:
    """What ``updates`` shows of a call: what it gave, under its name."""
    if loop.request.shows_updates:
        task = done.task
        data: dict[str, Any] = {task.node.name: copied(done.result)}
        if done.saved:
            data["__metadata__"] = {"cached": True}
        yield Emit("updates", data, task.step, task.node.name, task.place)


def after_calls(task: Task, event: Outcome) -> Outcome:
    """How a task ended, once its calls have: what they asked it asks, and it may not be the code that was paused."""
    if task.questions:
        own = event.questions if isinstance(event, Paused) else []
        questions, task.questions = [*task.questions, *own], None
        return Paused(task, questions)
    error = _mismatch(task)
    return event if error is None or not isinstance(event, Done) else Failed(task, error)


def _mismatch(task: Task) -> ResumeMismatchError | None:
    """What is wrong with a task that has ended, if it isn't the code whose calls were recorded."""
    strays, task.strays = task.strays or (), None
    heard = task.heard or set[str]()
    for record in task.records or ():
        if record.kind != "call" or record.name in heard:
            continue
        for stray in strays:
            if _place(stray.identity) == _place(record.name):
                return ResumeMismatchError(
                    f"node {task.node.name!r} was resumed and made the call {_told(stray)}, which wasn't recorded, while it never "
                    f"asked for a recorded call of {stray.node.name!r}, which gave {record.content!r}. Calls are known by name and "
                    "arguments: keep these the same on every run (no times or random numbers that aren't themselves the "
                    "result of a task). Nothing that the node did counts",
                    node=task.node.name,
                )
    return None


def _place(identity: str) -> str:
    """What a call's identity says without its arguments: where it was made, and what it calls."""
    return identity.rsplit("\x1f", 2)[0]


def _told(call: Task) -> str:
    args, kwargs = cast("tuple[tuple[Any, ...], dict[str, Any]]", call.argument or ((), {}))
    shown = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return f"{call.node.name}({', '.join(shown)})"


__all__ = ["after_calls", "call_ended", "called"]
