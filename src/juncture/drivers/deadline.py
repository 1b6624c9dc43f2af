"""The time limit of a try that is awaited inside the run's own asyncio task.

When it is reached, that asyncio task is cancelled, as `asyncio.timeout` does it: the code of the try is what hears of it.
Once the try has ended, the cancellation is taken back. One from outside that came meanwhile goes on its way.

There is one such try at a time, and one timer for all of a run, which is left alone when a try ends: where it rings for
nobody it is set anew. So a step with a limit costs little more than one without.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from juncture.drivers.abandon import end_calls
from juncture.drivers.timers import Limit
from juncture.engine.effects import Event
from juncture.engine.task import Task
from juncture.types import TimeoutPolicy

if TYPE_CHECKING:
    from juncture.drivers.base import Driver
    from juncture.drivers.run import Program


class Deadline:
    """Watches over one try after the other."""

    __slots__ = ("_before", "_driver", "_limit", "_loop", "_own", "_rings", "_timer")

    def __init__(self, driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
        """There is nothing to watch over."""
        self._driver = driver
        self._loop = loop
        self._own: asyncio.Task[object] | None = None
        self._before = 0
        self._limit: Limit | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings = float("inf")
        """When it looks again, at the latest."""

    def begin(self, program: Program, task: Task, policy: TimeoutPolicy) -> None:
        """A try begins now, in the running asyncio task."""
        self._own = own = asyncio.current_task()
        self._before = own.cancelling() if own is not None else 0
        limit = self._limit = task.limit = Limit(self._driver.clock, program, task, policy)
        limit.begin()
        self._set(limit.next())

    @property
    def expired(self) -> bool:
        """The limit was reached, and the try cancelled for it."""
        return self._limit is not None and self._limit.expired

    def _set(self, when: float) -> None:
        if when >= self._rings:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings = when
        patience = self._driver.clock.patience(when, self._wake, idle=False)
        self._timer = None if patience is None else self._loop.call_later(patience, self._look)

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop was closed, so the run has ended long since
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._rings, self._timer = float("inf"), None
        limit = self._limit
        if limit is None or limit.over:
            return
        if limit.reached() is None:
            self._set(limit.next())
            return
        limit.expired = True
        end_calls(self._driver, limit.program, limit.task)
        self._driver.halt_inner(limit.task)
        assert self._own is not None
        self._own.cancel()

    def end(self) -> None:
        """The try has ended, whatever it ended with."""
        if self._limit is not None:
            self._limit.end()

    def outcome(self, event: Event) -> Event:
        """What the end of the try counts as.

        Raises:
            CancelledError: The asyncio task was cancelled from outside as well.
        """
        limit, own = self._limit, self._own
        assert limit is not None
        if limit.expired and own is not None:
            if own.cancelling() > self._before:
                own.uncancel()
            if own.cancelling() > self._before:
                raise asyncio.CancelledError
        return limit.outcome(event)

    def close(self) -> None:
        """The run has ended."""
        self._limit = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


__all__ = ["Deadline"]
