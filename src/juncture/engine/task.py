"""One node to run in one step.

A task is known by its id, which is the same whenever the same checkpoint is continued: what was saved about it finds
it again in another process. The id names step, node, for a send its place among the sends of that step, and, after
going back in time, the branch; it is unique within a thread's namespace.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from juncture.engine.state import State, TaskRecord
from juncture.engine.tables import Node
from juncture.engine.values import Flat
from juncture.types import Interrupt, NodeError, TimeoutPolicy


class Task:
    """One try of a node due in a step, and what is known about its past tries."""

    argument: Any = None
    """What was sent, for a send; the arguments, for a call."""
    attempt = 1
    """Which try it is."""
    limits: TimeoutPolicy | None = None
    """Of a send: its own time limits, instead of its node's."""
    limit: Any = None
    """The driver's: what measures the time of this try."""
    first_time: float | None = None
    """The driver's: when the first try began, where that was noted."""
    records: list[TaskRecord] | None = None
    """What an earlier run saved about it."""
    consumed: set[str] | None = None
    """The answers among them that were asked for."""
    heard: set[str] | None = None
    """The calls of which it was told what they gave."""
    strays: tuple[Task, ...] | None = None
    """Calls that it made though nothing was recorded of them, while recorded ones hadn't been asked for yet."""
    questions: list[Interrupt] | None = None
    """What its calls asked."""
    calls = 0
    """How many of its calls are running."""
    failure: NodeError | None = None
    """For an error handler: what it handles."""
    stands: tuple[tuple[str, str], ...] = ()
    """Where graphs that are nested in it stand though it isn't done: for each, its level in the namespace and its
    checkpoint."""
    held: Any = None
    """Its own outcome, while its calls are running."""
    ahead = False
    """It was started before its step came (`ahead`)."""
    seen: State | None = None
    """Of such a task: the part of the state that it was handed."""
    chunks = 0
    """How many chunks of streams this try has shown."""
    parent: Task | None = None
    """For a call: the task that made it."""
    identity = ""
    """For a call: what it is known by within its parent."""
    call: Any = None
    """For a call: the event that asked for it."""
    unrouted: Node | None = None
    """The node with its routers, where these are asked apart from its code: `node` is then without."""
    branch = ""
    """Which branch of the thread's history it belongs to, after going back in time."""

    def __init__(
        self, node: Node, step: int, place: int, values: dict[str, Any], remaining: int, send: int = -1
    ) -> None:
        """`values` are the committed values; `send` is the place among the step's sends, or -1."""
        # Everything else has its default on the class: a task is made in every step.
        self.node = node
        self.step = step
        self.place = place
        self.values = values
        self.remaining = remaining
        self.send = send

    def next_try(self) -> Task:
        """The task of the next try. Each has one of its own, so that what an abandoned try still does isn't taken for it."""
        task = copy(self)
        task.attempt += 1
        task.limit, task.stands = None, ()
        return task

    @property
    def id(self) -> str:
        """Unique within the thread's namespace and stable over restarts; also its part of a nested namespace."""
        return self.identity or task_id(self.node.name, self.step, self.send, self.branch)

    def become(self, node: Node) -> None:
        """Takes the node that a factory made, in place of the one that stood for it."""
        self.node = node
        if self.unrouted is not None:
            self.leave_route()

    def leave_route(self) -> None:
        """Has its routers left out of its tries; they are asked apart."""
        self.unrouted, self.node = self.node, replace(self.node, routers=())

    def __repr__(self) -> str:
        return f"<task {self.id} attempt {self.attempt}>"


def task_id(node: str, step: int, send: int, branch: str) -> str:
    """The id of a task; ``send`` is its place among the sends of the step, or -1."""
    place = f"{step}" if send < 0 else f"{step}.{send}"
    return f"{node}:{place}~{branch}" if branch else f"{node}:{place}"


def route_id(node: str, step: int, place: int) -> str:
    """The id of a task that only asks a node's routers, after the step; ``place`` is the one in `State.unrouted`."""
    return f"{node}:{step}.{place}~route"


def input_of(task: Task, flat: Flat | None) -> Any:
    """What a task's code is handed: a copy of its part of the state, or of what was sent; ``flat`` is the state's.

    Raises:
        Exception: What the input's type raises when it is made.
    """
    node = task.node
    if task.send >= 0:
        return node.project_send(task.argument)
    if node.managed:
        return node.project(
            task.values | {name: what.value(task.remaining) for name, what in node.managed.items()}, flat
        )
    return node.project(task.values, flat)
