"""Time limits of tries. Pure: a driver measures the time and says when it is over; here is what that means.

A try that timed out has failed, with an error of its own; whether another follows is up to its retry policies, like for
any failure.
"""

from __future__ import annotations

from typing import cast

from juncture.engine.effects import Failed, TimedOut
from juncture.engine.task import Task
from juncture.errors import NodeTimeoutError
from juncture.types import TimeoutPolicy


def limits_of(task: Task) -> TimeoutPolicy | None:
    """The time limits of each try of a task: those of its send, else those of its node."""
    return task.limits or task.node.timeout


def timed_out(event: TimedOut) -> Failed:
    """The failure that a try's timing out is."""
    task, policy = event.task, limits_of(event.task) or TimeoutPolicy()
    error = NodeTimeoutError(
        task.node.name,
        event.elapsed,
        event.kind,
        # A policy keeps spans as seconds.
        run_timeout=cast("float | None", policy.run_timeout),
        idle_timeout=cast("float | None", policy.idle_timeout),
    )
    return Failed(task, error)


__all__ = ["limits_of", "timed_out"]
