"""The time limit of a try that is awaited inside the run's own asyncio task.

When it is reached, that asyncio task is cancelled, as `asyncio.timeout` does it: the code of the try is what hears of it.
Once the try has ended, the cancellation is taken back. One from outside that came meanwhile goes on its way.
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
    """Watches over one try."""

    __slots__ = ("_before", "_driver", "_limit", "_loop", "_own", "_timer")

    def __init__(self, driver: Driver, program: Program, task: Task, policy: TimeoutPolicy) -> None:
        """The try begins now, in the running asyncio task."""
        own = asyncio.current_task()
        assert own is not None
        self._driver = driver
        self._own = own
        self._before = own.cancelling()
        self._loop = asyncio.get_running_loop()
        self._limit = task.limit = Limit(driver.clock, program, task, policy)
        self._limit.begin()
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    @property
    def expired(self) -> bool:
        """The limit was reached, and the try cancelled for it."""
        return self._limit.expired

    def _arm(self) -> None:
        patience = self._driver.clock.patience(self._limit.next(), self._wake, idle=False)
        if patience is not None:
            self._timer = self._loop.call_later(patience, self._look)

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop was closed, so the try has ended long since
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        limit = self._limit
        if limit.over:
            return
        if limit.reached() is None:
            self._arm()
            return
        limit.expired = True
        end_calls(self._driver, limit.program, limit.task)
        self._driver.halt_inner(limit.task)
        self._own.cancel()

    def close(self) -> None:
        """The try has ended, whatever it ended with."""
        if self._timer is not None:
            self._timer.cancel()
        self._limit.end()

    def outcome(self, event: Event) -> Event:
        """What the end of the try counts as.

        Raises:
            CancelledError: The asyncio task was cancelled from outside as well.
        """
        if self._limit.expired:
            if self._own.cancelling() > self._before:
                self._own.uncancel()
            if self._own.cancelling() > self._before:
                raise asyncio.CancelledError
        return self._limit.outcome(event)


__all__ = ["Deadline"]
