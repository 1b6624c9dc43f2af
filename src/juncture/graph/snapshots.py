"""A checkpoint as users see it: `StateSnapshot`, made of what was saved and of the graph that it is of.

Pure: what has to be read was read before. A checkpoint of another version of the graph, with nodes that this one
doesn't have, is shown as well; only running it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from juncture.engine.commit import apply, merge
from juncture.engine.fallbacks import FALLBACK
from juncture.engine.interrupts import answers_in, open_questions, pauses_after
from juncture.engine.plan import unfinished, upcoming
from juncture.engine.state import Saved, State, TaskRecord
from juncture.engine.streaming import shown_values, updates_payload
from juncture.engine.tables import GRAPH, Tables
from juncture.persistence.format import config_of
from juncture.savers.base import StoredThread
from juncture.types import (
    Interrupt,
    StateSnapshot,
    TaskSnapshot,
    ThreadSnapshot,
    ThreadStatus,
)


@dataclass(slots=True)
class Due:
    """A task of the step that follows a checkpoint, and what was saved about it."""

    id: str
    name: str
    path: tuple[str | int, ...]
    writes: Sequence[tuple[str, Any]] | None = None
    """What it wrote, if it has ended."""
    error: str | None = None
    questions: list[Interrupt] = field(default_factory=list[Interrupt])
    """Those that are open."""


def all_records(saved: Saved, thread_id: str, namespace: tuple[str, ...]) -> list[TaskRecord]:
    """Everything that is known about the tasks of the step that follows."""
    state = saved.state
    return [
        *state.carried,
        *pauses_after(state.origin or thread_id, namespace, state),
        *saved.records,
    ]


def due_tasks(tables: Tables, state: State, records: Sequence[TaskRecord]) -> list[Due]:
    """The tasks of the step that follows, in plan order."""
    due = [Due(*task) for task in upcoming(tables, state)]
    answered = answers_in(records)
    for task in due:
        for record in records:
            if record.task_id in (task.id, FALLBACK + task.id):
                _note(task, record, answered)
            elif record.kind == "paused" and record.name not in answered:
                question: Interrupt = record.content
                when = "after" if task.path[0] == "route" else "before"
                if question.when == when and question.node == task.name:
                    task.questions.append(question)
    return due


def _note(task: Due, record: TaskRecord, answered: Mapping[str, Any]) -> None:
    if record.kind == "done":
        task.writes, task.error = (None if record.content is None else record.content[0]), None
        if record.content is not None:
            task.questions.clear()
    elif record.kind == "failed":
        task.error = record.content
    elif record.kind in ("question", "doubt") and record.name not in answered and task.writes is None:
        task.questions.append(record.content)


def snapshot(
    tables: Tables,
    saved: Saved,
    thread_id: str,
    namespace: tuple[str, ...],
    *,
    nested: Mapping[str, Mapping[str, Any] | StateSnapshot],
    newest: bool,
) -> StateSnapshot:
    """What users see of a checkpoint.

    Args:
        tables: Of the graph that it is of.
        saved: The checkpoint.
        thread_id: Its thread.
        namespace: Which nested graph's.
        nested: By the id of a task: what is known of the nested graph that it is.
        newest: Show what tasks that have ended wrote as if it had been committed.
    """
    records = all_records(saved, thread_id, namespace)
    tasks = due_tasks(tables, saved.state, records)
    shown = tuple(
        TaskSnapshot(
            task.id,
            task.name,
            task.path,
            task.error,
            tuple(task.questions),
            nested.get(task.id),
            None if task.writes is None else updates_payload(task.writes, tables.result_keys),
        )
        for task in tasks
    )
    metadata = {"source": saved.source, "step": saved.state.step, "run_id": saved.run_id, **saved.metadata}
    return StateSnapshot(
        values=_values(tables, saved.state, tasks if newest else []),
        next=tuple(dict.fromkeys(task.name for task in tasks if not newest or task.writes is None)),
        config=config_of(thread_id, namespace, saved.checkpoint_id),
        metadata=metadata,
        created_at=when(saved.created_at),
        parent_config=None if saved.parent_id is None else config_of(thread_id, namespace, saved.parent_id),
        tasks=shown,
        interrupts=tuple(open_questions(records)) if newest or records else (),
    )


def empty_snapshot(thread_id: str, namespace: tuple[str, ...]) -> StateSnapshot:
    """What users see of a thread that has no checkpoint."""
    return StateSnapshot({}, (), config_of(thread_id, namespace, None), None, None, None, (), ())


def _values(tables: Tables, state: State, tasks: Sequence[Due]) -> Any:
    shown = State(values=dict(state.values), cells=dict(state.cells))
    ended = [(task.name, task.writes) for task in tasks if task.writes is not None]
    if ended:
        with suppress(Exception):  # what can't be merged will fail the step; looking at the thread doesn't
            apply(shown, merge(tables, shown, ended))
    return shown_values(shown, None, only=tables.gives)


def when(seconds: float) -> str:
    """A time, as text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def is_graph(tables: Tables, name: str) -> Tables | None:
    """The tables of the nested graph that a node is; None if it is none."""
    node = tables.nodes.get(name)
    return node.graph if node is not None and node.kind == GRAPH else None


def unreadable_thread(thread: StoredThread, holder: str | None) -> ThreadSnapshot:
    """A thread in a listing whose newest checkpoint can't be read."""
    stored = thread.head.checkpoint
    return ThreadSnapshot(
        thread.thread_id, "unreadable", stored.step, when(stored.created_at), (), (), holder
    )


def thread_snapshot(
    tables: Tables, thread_id: str, saved: Saved, holder: str | None, *, runs: bool | None
) -> ThreadSnapshot:
    """A thread in a listing.

    Args:
        tables: Of the graph.
        thread_id: The thread.
        saved: Its newest checkpoint.
        holder: Who has its lease, if anybody has.
        runs: Whether the holder is alive; None if there is none.
    """
    records = all_records(saved, thread_id, ())
    tasks = due_tasks(tables, saved.state, records)
    questions = tuple(open_questions(records))
    status: ThreadStatus
    if runs is not None:
        status = "running" if runs else "dead"
    elif any(task.error is not None for task in tasks):
        status = "failed"
    elif questions:
        status = "interrupted"
    else:
        status = "unfinished" if unfinished(tables, saved.state) else "completed"
    due = tuple(dict.fromkeys(task.name for task in tasks if task.writes is None))
    return ThreadSnapshot(thread_id, status, saved.state.step, when(saved.created_at), due, questions, holder)
