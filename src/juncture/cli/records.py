"""States and threads as what a line of JSON shows of them. The keys are part of the reference, and stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from juncture.types import StateSnapshot, TaskSnapshot


def state_record(state: StateSnapshot) -> dict[str, Any]:
    """A state with everything that is known of it."""
    return _place(state) | {
        "values": state.values,
        "next": state.next,
        "interrupts": state.interrupts,
        "tasks": [_task(task) for task in state.tasks],
        "metadata": state.metadata,
        "created_at": state.created_at,
    }


def step_record(state: StateSnapshot) -> dict[str, Any]:
    """A state in a history: without its values."""
    metadata = dict(state.metadata or {})
    known = {name: metadata.pop(name, None) for name in ("step", "source", "run_id")}
    return (
        _place(state)
        | known
        | {
            "created_at": state.created_at,
            "next": state.next,
            "interrupts": state.interrupts,
            "metadata": metadata,
        }
    )


def id_of(config: Mapping[str, Any] | None) -> str | None:
    """The checkpoint that a config names."""
    return None if config is None else config["configurable"].get("checkpoint_id")


def _place(state: StateSnapshot) -> dict[str, Any]:
    named = state.config["configurable"]
    return {
        "thread_id": named["thread_id"],
        "namespace": named["checkpoint_ns"],
        "checkpoint_id": id_of(state.config),
        "parent_id": id_of(state.parent_config),
    }


def _task(task: TaskSnapshot) -> dict[str, Any]:
    shown = task._asdict()
    shown["state"] = state_record(task.state) if isinstance(task.state, StateSnapshot) else None
    return shown
