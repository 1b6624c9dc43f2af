"""What a driver waits for by the clock: tasks that begin later, and the time limits of running tries.

A try's limit is measured from when its code begins: on a worker that may be later than when it was handed over. Signs of
life only note the time; whether a limit was reached is looked at when it would be without them, so they cost next to
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from juncture.engine.effects import Event, Failed, Stopped, TimedOut
from juncture.engine.task import Task
from juncture.types import TimeoutPolicy

if TYPE_CHECKING:
    from juncture.drivers.clock import Clock
    from juncture.drivers.run import Program


class Limit:
    """Measures one try."""

    __slots__ = (
        "_alive",
        "_began",
        "_clock",
        "_spans",
        "automatic",
        "expired",
        "late",
        "over",
        "program",
        "task",
    )

    def __init__(self, clock: Clock, program: Program, task: Task, policy: TimeoutPolicy) -> None:
        """Nothing is measured before `begin`."""
        self._clock = clock
        self.program = program
        self.task = task
        self.automatic = policy.refresh_on == "auto"
        """Whatever it does counts as a sign of life, not only a heartbeat."""
        self.over = False
        """The try has ended."""
        self.late: TimedOut | None = None
        """It reached its limit: this is its outcome, whatever it still does."""
        self.expired = False
        """It was ended for that."""
        self._spans = _spans(policy)
        self._began: float | None = None
        self._alive = 0.0

    def begin(self) -> None:
        """The code of the try begins."""
        self._began = self._alive = self._clock.now()

    def touch(self) -> None:
        """A sign of life."""
        self._alive = self._clock.now()

    def did(self) -> None:
        """It did something that counts as a sign of life, unless only heartbeats do."""
        if self.automatic:
            self._alive = self._clock.now()

    def next(self) -> float:
        """When the limit will be reached if there is no further sign of life; looked at again then."""
        run, idle = self._spans
        began, alive = self._began, self._alive
        if began is None:
            began = alive = self._clock.now()
        return min(began + run, alive + idle)

    def reached(self) -> TimedOut | None:
        """What the try has come to, if its limit was reached."""
        if self._began is None:
            return None
        now = self._clock.now()
        run, idle = self._spans
        kind: Literal["run", "idle"]
        if now - self._began >= run:
            kind, since = "run", self._began
        elif now - self._alive >= idle:
            kind, since = "idle", self._alive
        else:
            return None
        self.late = TimedOut(self.task, kind, now - since)
        return self.late

    def outcome(self, event: Event) -> Event:
        """What the end of the try counts as."""
        stopped = isinstance(event, Stopped) and not self.expired
        fatal = isinstance(event, Failed) and not isinstance(event.error, Exception)
        if stopped or fatal:  # it was stopped for another reason, or stops the process
            self.over = True
            return event
        self.end()
        return self.late or event

    def end(self) -> None:
        """The try has ended, in time or not."""
        if not self.over:
            self.reached()
            self.over = True


def _spans(policy: TimeoutPolicy) -> tuple[float, float]:
    """Run and idle, in seconds."""
    run: Any = policy.run_timeout
    idle: Any = policy.idle_timeout
    return (float("inf") if run is None else run), (float("inf") if idle is None else idle)


def sign_of_life(program: Program, task: Task) -> None:
    """Something happened to a task: a sign of life of the task that called it, and of the graphs that it runs in."""
    if task.parent is not None and task.parent.limit is not None:
        task.parent.limit.did()
    around: Program | None = program
    while around is not None:
        if around.task is not None and around.task.limit is not None:
            around.task.limit.did()
        around = around.parent


class Timers:
    """What one driver waits for."""

    __slots__ = ("_ticket", "clock", "later", "limits")

    def __init__(self, clock: Clock) -> None:
        """There is nothing to wait for."""
        self.clock = clock
        self.later: list[tuple[float, int, Program, Task]] = []
        """Tasks that begin later: (when, ticket, program, task), a heap."""
        self.limits: list[tuple[float, int, Limit]] = []
        """The tries that are measured: (when to look, ticket, limit), a heap. Some may have ended."""
        self._ticket = count()

    def __bool__(self) -> bool:
        return bool(self.later or self.limits)

    def delay(self, program: Program, task: Task, seconds: float) -> None:
        """Has a task begin later."""
        heappush(self.later, (self.clock.now() + seconds, next(self._ticket), program, task))

    def limit(self, program: Program, task: Task, policy: TimeoutPolicy) -> Limit:
        """Measures a try."""
        task.limit = limit = Limit(self.clock, program, task, policy)
        heappush(self.limits, (limit.next(), next(self._ticket), limit))
        return limit

    def drop(self, matches: Callable[[Program, Task], bool]) -> list[tuple[Program, Task]]:
        """Lets tasks not begin; which."""
        dropped = [entry for entry in self.later if matches(entry[2], entry[3])]
        for entry in dropped:
            self.later.remove(entry)
        heapify(self.later)
        return [(program, task) for _, _, program, task in dropped]

    def due(self) -> tuple[Program, Task] | Limit | None:
        """Something whose time has come: a task that is to begin, or a try that has timed out."""
        now = self.clock.now()
        if self.later and self.later[0][0] <= now:
            _, _, program, task = heappop(self.later)
            return program, task
        limits = self.limits
        while limits and (limits[0][2].over or limits[0][0] <= now):
            _, _, limit = heappop(limits)
            if limit.over:
                continue
            if limit.reached() is not None:
                return limit
            heappush(limits, (limit.next(), next(self._ticket), limit))
        return None

    def patience(self, wake: Callable[[], None], *, idle: bool) -> float | None:
        """How long to wait for something else (`Clock.patience`); only to be asked where nothing is `due`."""
        firsts = [heap[0][0] for heap in (self.later, self.limits) if heap]
        if not firsts:
            return None
        return self.clock.patience(min(firsts), wake, idle=idle)


__all__ = ["Limit", "Timers", "sign_of_life"]
