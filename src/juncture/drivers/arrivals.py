"""What arrives at an async driver: outcomes, calls and parts, from its own thread and from workers.

Arrivals stand in one line, in the order in which they came. Whoever steps the programs takes them up with `listen`, which
waits while there is nothing: for an arrival, for the next timer, or for a slot that became free.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from threading import get_ident

from juncture.drivers.abandon import is_forgotten
from juncture.drivers.base import Driver
from juncture.drivers.context import TaskContext
from juncture.drivers.pool import Pool
from juncture.drivers.run import Part, Program, Shared
from juncture.engine.begin import Request
from juncture.engine.effects import Called, Event
from juncture.engine.tables import GRAPH, Tables
from juncture.persistence.threads import ThreadLog


class AsyncArrivals(Driver):
    """The inbox of an async driver, and how it is woken."""

    def __init__(
        self,
        shared: Shared,
        tables: Tables,
        request: Request,
        log: ThreadLog | None,
        outer: TaskContext | None,
    ) -> None:
        """Must be made on the event loop that drives it."""
        super().__init__(shared, tables, request, log, outer)
        self.pool = outer.program.driver.pool if outer is not None else Pool()
        self.event_loop = asyncio.get_running_loop()
        self.thread = get_ident()
        self.inbox: deque[tuple[Program, Event] | Part] = deque()
        self.waker: asyncio.Future[None] | None = None
        self._wake_coming = False
        self._freed = False
        """A slot may be free for what is held back."""

    async def listen(self, *, shows: bool = True) -> tuple[Program, Event] | None:
        """Waits for what arrives, up to the next event or until something is to be shown; whom to tell it.

        Without `shows`, nobody could take what is to be shown before more arrives.
        """
        inbox, timers = self.inbox, self.timers
        if timers.limits and self.take_due():
            return None
        while not inbox and not (shows and self.parts) and not self._freed:
            if timers and self.take_due():
                return None
            await self._wait_for_arrival()
        self._freed = False
        if self.held:
            self.due.extend(self.held)
            self.held.clear()
        return self.told()

    def told(self) -> tuple[Program, Event] | None:
        """Takes up what has arrived, up to the next event that somebody is to be told; None if there is none."""
        inbox, parts = self.inbox, self.parts
        while inbox:
            arrival = inbox.popleft()
            if len(arrival) == 6:
                parts.append(arrival)
                continue
            program, event = arrival
            if self.abandoned and is_forgotten(self, event):
                continue
            if type(event) is not Called and event.task.node.kind != GRAPH:
                self.active -= 1
            told = self.heard(program, event)
            if told is not None:
                return told
        return None

    async def _wait_for_arrival(self) -> None:
        waker = self.waker = self.event_loop.create_future()
        timers: list[asyncio.TimerHandle] = []
        patience = self.timers.patience(self.wake, idle=not self.active) if self.timers else None
        if patience is not None:
            timers.append(self.event_loop.call_later(patience, self.wake_up))
        if self.pool.backlog:
            timers.append(self.event_loop.call_later(0.001, self._grow))
        try:
            await waker
        finally:
            self.waker = None
            for timer in timers:
                timer.cancel()

    def _grow(self) -> None:
        self.pool.grow()
        self.wake_up()

    def wake_up(self) -> None:
        """Lets whoever listens look at the line; on the loop's own thread."""
        self._wake_coming = False
        if self.waker is not None and not self.waker.done():
            self.waker.set_result(None)

    def post(self, arrival: tuple[Program, Event] | Part) -> None:
        """Puts something in the inbox, from any thread."""
        self.inbox.append(arrival)
        if get_ident() == self.thread:
            self.wake_up()
        elif not self._wake_coming:
            self._wake_coming = True
            try:
                self.event_loop.call_soon_threadsafe(self.wake_up)
            except RuntimeError:  # the loop was closed under an abandoned worker: nobody listens any more
                return

    def wake(self) -> None:
        """Has the driver look at what it holds back."""
        if get_ident() == self.thread:
            self._freed = True
            self.wake_up()
        else:
            with suppress(RuntimeError):  # the loop was closed: nothing is held back any more
                self.event_loop.call_soon_threadsafe(self.wake)


__all__ = ["AsyncArrivals"]
