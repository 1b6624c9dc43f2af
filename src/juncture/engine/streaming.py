"""What each stream mode shows of a run.

To add a mode: its name in `types.StreamMode`, its payload here, its `Emit` in `run`.
Payloads follow LangGraph 1.2.24 (v1 shapes). They are copies: a consumer can't reach the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from juncture.engine.chunks import DiscardedChunks, message_id, messages_in
from juncture.engine.commit import view
from juncture.engine.effects import Done, Emit, Failed, Outcome, Paused, Stopped, Tell, Write
from juncture.engine.plan import upcoming
from juncture.engine.state import State
from juncture.engine.tables import Tables
from juncture.engine.task import Task
from juncture.engine.values import copied, copied_value, copied_values
from juncture.errors import Cancelled, described
from juncture.types import ROOT, Interrupt, Overwrite

if TYPE_CHECKING:
    from juncture.engine.begin import Request


def shown_values(state: State, keys: frozenset[str] | None, *, only: str | None) -> Any:
    """How the state shows: what it holds under the given keys, or the value of the only one that shows."""
    if only is None:
        return values_payload(state, keys)
    return copied_value(only, state.values.get(only), state.flat)


def values_payload(state: State, keys: frozenset[str] | None) -> dict[str, Any]:
    """The state under the given keys; all of them for None."""
    if keys is None:
        return copied_values(state.values, state.flat)
    return {
        name: copied_value(name, value, state.flat) for name, value in state.values.items() if name in keys
    }


def updates_payload(writes: Sequence[Write], keys: frozenset[str] | None) -> Any:
    """What one task wrote: a dict, None for nothing, a list of dicts if it wrote a key more than once."""
    if keys is not None:
        writes = [write for write in writes if write[0] in keys]
    if not writes:
        return None
    names = [name for name, _ in writes]
    if names == [ROOT]:
        return copied(writes[0][1])
    if len(set(names)) == len(names):
        return {name: copied(value) for name, value in writes}
    return [{name: copied(value)} for name, value in writes]


def interrupts_payload(questions: Sequence[Interrupt]) -> dict[str, Any]:
    """How a pause shows in ``updates``."""
    return {"__interrupt__": tuple(questions)}


def message_metadata(request: Request, task: Task, key: str | None) -> dict[str, Any]:
    """What stands beside a message or chunk: where it comes from, which key of the update it is for, and which try."""
    segments = (*request.namespace, task.id)
    return {
        "thread_id": request.thread_id,
        "langgraph_node": task.node.name,
        "langgraph_step": task.step,
        "langgraph_triggers": triggers_of(task),
        "langgraph_checkpoint_ns": "|".join(segments),
        "key": key,
        "attempt": task.attempt,
    }


def known_messages(values: Mapping[str, Any]) -> Iterator[str]:
    """The ids of the messages that a state holds."""
    for value in values.values():
        for message in messages_in(value):
            identity = message_id(message)
            if identity is not None:
                yield identity


def finished_messages(request: Request, done: Done, *, strict: bool) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The messages in what a task wrote that weren't shown yet, neither whole nor as chunks; from now on they were.

    Lenient graphs show message objects only, as LangGraph 1.2.24 does.
    """
    for name, value in done.writes:
        for message in messages_in(value.value if type(value) is Overwrite else value):
            identity = message_id(message)
            if identity is not None:
                if identity in request.seen:
                    continue
                request.seen.add(identity)
            if name not in done.chunked and (strict or not isinstance(message, dict)):
                yield copied(message), message_metadata(request, done.task, name)


def discarded(request: Request, task: Task) -> Emit:
    """Says that the chunks of a try that failed don't count; the task has shown none from here on."""
    count, task.chunks = task.chunks, 0
    data = (DiscardedChunks(count), message_metadata(request, task, None))
    return Emit("messages", data, task.step, task.node.name, task.place)


def checkpoint_payload(
    tables: Tables, state: State, source: str, checkpoint_id: str | None, parent_id: str | None
) -> dict[str, Any]:
    """A checkpoint that was saved. The driver puts configs in the places of the ids."""
    due = upcoming(tables, state)
    return {
        "config": checkpoint_id,
        "parent_config": parent_id,
        "values": shown_values(state, None, only=tables.gives),
        "metadata": {"source": source, "step": state.step},
        "next": [name for _, name, _ in due],
        "tasks": [
            {"id": identity, "name": name, "interrupts": (), "state": None} for identity, name, _ in due
        ],
    }


def told_end(tables: Tables, state: State, outcome: Outcome) -> Tell:
    """What listeners are told of a task that ended: with its own writes applied, where they can be."""
    task = outcome.task
    if isinstance(outcome, Paused):
        return Tell("interrupt", dict(state.values), task.step, task, content=tuple(outcome.questions))
    if isinstance(outcome, Failed):
        return Tell("error", dict(state.values), task.step, task, content=outcome.error)
    if isinstance(outcome, Stopped):
        error = Cancelled(f"node {task.node.name!r} was stopped")
        return Tell("error", dict(state.values), task.step, task, content=error)
    writes = outcome.writes
    try:
        values, _ = view(tables, state, task.node.name, writes)
    except Exception:  # noqa: BLE001 - the step itself will fail with it
        values = dict(state.values)
    return Tell("after", values, task.step, task, content=updates_payload(writes, tables.result_keys))


def triggers_of(task: Task) -> tuple[str, ...]:
    """What made a task due, in LangGraph's words."""
    return (
        ("__pregel_push",) if task.send >= 0 or task.parent is not None else (f"branch:to:{task.node.name}",)
    )


def task_payload(task: Task, given: Any) -> dict[str, Any]:
    """A task that begins."""
    return {"id": task.id, "name": task.node.name, "input": given, "triggers": triggers_of(task)}


def result_payload(tables: Tables, outcome: Outcome) -> dict[str, Any]:
    """A task that ended."""
    result: Any = {}
    if isinstance(outcome, Done) and outcome.task.parent is not None:
        result = copied(outcome.result)
    elif isinstance(outcome, Done) and tables.gives is not None:
        result = updates_payload(outcome.writes, tables.result_keys)
    elif isinstance(outcome, Done):
        for name, value in outcome.writes:
            if name not in result:
                result[name] = copied(value)
            elif isinstance(result[name], dict) and "$writes" in result[name]:
                result[name]["$writes"].append(copied(value))
            else:
                result[name] = {"$writes": [result[name], copied(value)]}
    return {
        "id": outcome.task.id,
        "name": outcome.task.node.name,
        "error": described(outcome.error) if isinstance(outcome, Failed) else None,
        "result": result,
        "interrupts": [
            {"value": q.value, "id": q.id} for q in (outcome.questions if isinstance(outcome, Paused) else ())
        ],
    }


__all__ = [
    "checkpoint_payload",
    "discarded",
    "finished_messages",
    "interrupts_payload",
    "known_messages",
    "message_metadata",
    "result_payload",
    "shown_values",
    "task_payload",
    "told_end",
    "triggers_of",
    "updates_payload",
    "values_payload",
]
