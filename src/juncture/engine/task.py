"""One node to run in one step.

A task is known by its id, which is the same whenever the same checkpoint is continued: what was saved about it finds
it again in another process. The id names step, node and, for a send, its place among the sends of that step; it is
unique within a thread's namespace.
"""

from __future__ import annotations

from typing import Any

from juncture.engine.state import TaskRecord
from juncture.engine.tables import Node
from juncture.types import Interrupt


class Task:
    """A node due in a step, and what is known about its past tries."""

    __slots__ = (
        "argument",
        "attempt",
        "call",
        "calls",
        "consumed",
        "held",
        "identity",
        "node",
        "parent",
        "place",
        "questions",
        "records",
        "remaining",
        "send",
        "step",
        "values",
    )

    def __init__(
        self,
        node: Node,
        step: int,
        place: int,
        values: dict[str, Any],
        remaining: int,
        send: int = -1,
    ) -> None:
        """`values` are the committed values; `send` is the place among the step's sends, or -1."""
        self.node = node
        self.step = step
        self.place = place
        self.values = values
        self.argument: Any = None
        self.remaining = remaining
        self.send = send
        self.attempt = 1
        self.records: list[TaskRecord] | None = None
        self.parent: Task | None = None
        self.identity = ""
        self.call: Any = None
        self.calls = 0
        self.consumed: set[str] | None = None
        self.held: Any = None
        self.questions: list[Interrupt] | None = None

    @property
    def id(self) -> str:
        """Unique within the thread's namespace and stable over restarts; also its part of a nested namespace."""
        if self.identity:
            return self.identity
        if self.send < 0:
            return f"{self.node.name}:{self.step}"
        return f"{self.node.name}:{self.step}.{self.send}"

    def __repr__(self) -> str:
        return f"<task {self.id} attempt {self.attempt}>"
