"""What a run has used up, with everything nested in it: steps, time, tokens, money; and whether that is all it may.

Usage is reported through the runtime, or found in the messages that a node writes to a key of messages, each message
once, by its id. It is never part of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from juncture.drivers.clock import Clock
from juncture.engine.chunks import message_id, messages_in
from juncture.engine.effects import BudgetSpent, DrainRequested, Early
from juncture.steering import Budget, RunControl
from juncture.types import Overwrite

if TYPE_CHECKING:
    from juncture.drivers.run import Program
    from juncture.engine.task import Task

NAMES = ("input_tokens", "output_tokens", "total_tokens", "cost")
_ALSO = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
"""What some call them."""


class Meter:
    """Counts for one run. Reported to from any thread."""

    __slots__ = ("_begun", "_budget", "_clock", "_control", "_counted", "_lock", "_nodes", "_steps")

    def __init__(self, control: RunControl | None, budget: Budget | None, clock: Clock) -> None:
        """Nothing is used up; the time counts from now on."""
        self._control = control
        self._budget = budget
        self._clock = clock
        self._begun = 0.0 if budget is None else clock.now()
        self._steps = 0
        self._nodes: dict[str, dict[str, float]] = {}
        self._counted: set[str] = set()
        self._lock = Lock()

    @property
    def steers(self) -> bool:
        """Whether the run may have to end early."""
        return self._control is not None or self._budget is not None

    def why_not(self) -> Early | None:
        """Why the next step, of any graph of the run, may not begin; if it may, it counts."""
        if self._control is not None and self._control.drain_reason is not None:
            return DrainRequested(self._control.drain_reason)
        if self._budget is not None and (name := self._used_up(self._budget)) is not None:
            return BudgetSpent(name)
        self._steps += 1
        return None

    def _used_up(self, budget: Budget) -> str | None:
        if budget.steps is not None and self._steps >= budget.steps:
            return "steps"
        if budget.seconds is not None and self._clock.now() - self._begun >= budget.seconds:
            return "seconds"
        with self._lock:
            if budget.tokens is not None and self._sum("total_tokens") >= budget.tokens:
                return "tokens"
            if budget.cost is not None and self._sum("cost") >= budget.cost:
                return "cost"
        return None

    def _sum(self, name: str) -> float:
        return sum(used.get(name, 0) for used in self._nodes.values())

    def report(self, node: str, used: Mapping[str, float]) -> None:
        """Adds what a node used."""
        with self._lock:
            known = self._nodes.setdefault(node, {})
            for name, amount in used.items():
                if amount:
                    known[name] = known.get(name, 0) + amount

    def find(
        self, program: Program, task: Task, keys: frozenset[str], writes: Iterable[tuple[str, Any]]
    ) -> None:
        """Reports what the messages say that a task writes and that are new."""
        for key, value in writes:
            if key not in keys:
                continue
            for message in messages_in(value.value if type(value) is Overwrite else value):
                used = _usage_of(message)
                name = message_id(message)
                if not used or name is None or name in self._counted or _is_known(task, key, name):
                    continue
                self._counted.add(name)
                self.report(path_of(program, task), used)

    def usage(self) -> dict[str, Any]:
        """``total`` and ``nodes``, by name; empty where nothing was reported."""
        with self._lock:
            if not self._nodes:
                return {}
            names = [name for name in NAMES if any(name in used for used in self._nodes.values())]
            total = {name: self._sum(name) for name in names}
            return {"total": total, "nodes": {node: dict(used) for node, used in self._nodes.items()}}


def path_of(program: Program, task: Task) -> str:
    """The names of a node and of those that it is nested in, the outermost first."""
    names = [(task.parent or task).node.name]
    around: Program | None = program
    while around is not None:
        if around.task is not None:
            names.append(around.task.node.name)
            around = around.parent
            continue
        outer = around.driver.outer
        if outer is None or around.shared.meter is not outer.program.shared.meter:
            break
        names.append((outer.task.parent or outer.task).node.name)
        around = outer.program
    return "|".join(reversed(names))


def _usage_of(message: Any) -> dict[str, float]:
    if isinstance(message, dict):
        fields = cast("dict[str, Any]", message)
        given: Any = fields.get("usage_metadata") or fields.get("usage")
    else:
        given = getattr(message, "usage_metadata", None)
    if not isinstance(given, Mapping):
        return {}
    used: dict[str, float] = {}
    for said, amount in cast("Mapping[str, Any]", given).items():
        name = _ALSO.get(said, said)
        if name in NAMES and type(amount) in (int, float):
            used[name] = amount
    used.setdefault("total_tokens", used.get("input_tokens", 0) + used.get("output_tokens", 0))
    return used


def _is_known(task: Task, key: str, name: str) -> bool:
    """Whether the state held the message already: an earlier run, or step, used what it says."""
    return any(message_id(message) == name for message in messages_in(task.values.get(key)))


__all__ = ["Meter", "path_of"]
