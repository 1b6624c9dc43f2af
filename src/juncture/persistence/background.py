"""Saves in the background, in order, for runs with ``durability="async"``.

What is saved was turned into bytes before; here it only waits for its turn. The first failure is the last thing that
happens: whatever was queued behind it is dropped, and everybody who asks is told. One daemon thread a run, begun with
its first save.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Call = Callable[[], None]

MOST = 64
"""How many saves may wait before whoever makes more has to wait."""


class Background:
    """One run's queue of saves."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._room = threading.Semaphore(MOST)
        self._worker: threading.Thread | None = None
        self.error: Exception | None = None
        """What failed."""

    def add(self, call: Call) -> None:
        """Has a call made after all that were added before.

        Raises:
            Exception: What an earlier one raised.
        """
        self.check()
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="juncture-saves", daemon=True)
            self._worker.start()
        self._room.acquire()
        self._queue.put(call)

    def check(self) -> None:
        """Raises what failed, if something did."""
        if self.error is not None:
            raise self.error

    def join(self) -> None:
        """Waits until everything was saved.

        Raises:
            Exception: What one of the calls raised; what was added after it was dropped.
        """
        if self._worker is not None:
            self._queue.put(None)
            self._worker.join()
            self._worker = None
        self.check()

    async def ajoin(self) -> None:
        """As `join`."""
        if self._worker is not None:
            import asyncio  # a program without async code never pays for it

            await asyncio.to_thread(self.join)
        self.check()

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            if self.error is None:
                try:
                    call()
                except Exception as error:  # noqa: BLE001 - raised for whoever asks next
                    self.error = error
            self._room.release()
