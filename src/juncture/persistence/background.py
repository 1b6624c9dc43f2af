"""Saves in the background, in order, for runs with ``durability="async"``.

What is saved was turned into bytes before; here it only waits for its turn. The first failure is the last thing that
happens: whatever was queued behind it is dropped, and everybody who asks is told. One daemon thread a run, begun with
its first save and ended by `close`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

Call = Callable[[], None]

MOST: Final = 64
"""How many saves may wait before whoever makes more has to wait."""


class Background:
    """One run's queue of saves."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Call | threading.Event | None] = SimpleQueue()
        self._room = threading.Semaphore(MOST)
        self._lock = threading.Lock()
        self._worker: threading.Thread | None = None
        self.error: BaseException | None = None
        """What failed."""

    def add(self, call: Call) -> None:
        """Has a call made after all that were added before. Waits while too many do.

        Raises:
            BaseException: What an earlier one raised. The call isn't made.
        """
        self.check()
        self._room.acquire()
        self._put(call)

    async def aadd(self, call: Call) -> None:
        """As `add`, without blocking the event loop."""
        self.check()
        if not self._room.acquire(blocking=False):
            import asyncio  # a program without async code never pays for it

            await asyncio.to_thread(self._room.acquire)
        self._put(call)

    def _put(self, call: Call) -> None:
        with self._lock:
            if self._worker is None:
                worker = threading.Thread(target=self._work, name="juncture-saves", daemon=True)
                worker.start()
                self._worker = worker
        self._queue.put(call)

    def check(self) -> None:
        """Raises what failed, if something did."""
        if self.error is not None:
            raise self.error

    def join(self) -> None:
        """Waits until everything that was added was saved.

        Raises:
            BaseException: What one of the calls raised; what was added after it was dropped.
        """
        if self._worker is not None:
            reached = threading.Event()
            self._queue.put(reached)
            reached.wait()
        self.check()

    async def ajoin(self) -> None:
        """As `join`."""
        if self._worker is not None:
            import asyncio  # a program without async code never pays for it

            await asyncio.to_thread(self.join)
        self.check()

    def close(self) -> None:
        """Ends the thread; everything was saved, or given up. Nothing may be added afterwards."""
        if self._worker is not None:
            self._queue.put(None)
            self._worker.join()
            self._worker = None

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            if isinstance(call, threading.Event):
                call.set()
                continue
            if self.error is None:
                try:
                    call()
                except BaseException as error:  # noqa: BLE001 - raised for whoever asks next
                    self.error = error
            self._room.release()
