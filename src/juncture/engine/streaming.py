"""What each stream mode shows of a run.

To add a mode: its name in `types.StreamMode`, its payload here, its `Emit` in `run`.
Payloads follow LangGraph 1.2.24 (v1 shapes). They are copies: a consumer can't reach the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from juncture.engine.effects import Done, Failed, Outcome, Paused, Write
from juncture.engine.state import State
from juncture.engine.task import Task
from juncture.engine.values import copied, copied_value, copied_values
from juncture.errors import described
from juncture.types import ROOT, Interrupt


def shown_values(state: State, keys: frozenset[str] | None, *, single: bool) -> Any:
    """How the state shows in ``values``: under the given keys, or the one value of a state that has no keys."""
    values = values_payload(state, keys)
    return values.get(ROOT) if single else values


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


def task_payload(task: Task, given: Any) -> dict[str, Any]:
    """A task that begins."""
    triggers = ("__pregel_push",) if task.send >= 0 else (f"branch:to:{task.node.name}",)
    return {"id": task.id, "name": task.node.name, "input": given, "triggers": triggers}


def result_payload(outcome: Outcome) -> dict[str, Any]:
    """A task that ended."""
    result: dict[str, Any] = {}
    if isinstance(outcome, Done):
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
    "interrupts_payload",
    "result_payload",
    "shown_values",
    "task_payload",
    "updates_payload",
    "values_payload",
]
