"""Workers: the operating-system threads of one top-level run, shared by everything nested in it.

Work waits in one queue. There are as many workers as it takes: one at first; while work waits and nothing ended for a
millisecond, the driver lets them double, up to the limit. So a thousand trivial tasks cost two threads and forty that
wait for each other get forty. A worker that waits for something nested gives its place back meanwhile (`waiting`), so a
limit of one still runs everything. Workers are daemons: an abandoned task doesn't hold the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final

DEFAULT_LIMIT: Final = 128
"""How many workers a run may have. ``max_concurrency`` counts tasks of every kind; see `slots`."""


class Pool:
    """A queue and the workers that serve it."""

    __slots__ = ("_closed", "_limit", "_lock", "_queue", "_threads", "abandoned")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        """No worker is started before there is work."""
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._limit = limit
        self._lock = Lock()
        self._threads: list[Thread] = []
        self._closed = False
        self.abandoned = False
        """Somebody gave up waiting for a worker, in whichever of the nested runs that share these."""

    def submit(self, work: Callable[[], None]) -> None:
        """Lets a worker do it. The work must not raise.

        After `close`, only a run that an abandoned worker began comes here; its work gets a worker of its own.
        """
        with self._lock:
            closed = self._closed
            if not closed:
                self._queue.put(work)
        if closed:
            Thread(target=work, name="juncture-worker", daemon=True).start()
        elif not self._threads:
            self._start(1)

    @property
    def backlog(self) -> bool:
        """Whether work waits and more workers are allowed."""
        return not (self._queue.empty() or self._closed) and len(self._threads) < self._limit

    def grow(self) -> None:
        """Doubles the workers, up to the limit and to what waits."""
        self._start(min(len(self._threads) or 1, self._queue.qsize()))

    def _start(self, count: int) -> None:
        with self._lock:
            count = min(count, self._limit - len(self._threads))
            for _ in range(count):
                thread = Thread(target=self._serve, name="juncture-worker", daemon=True)
                thread.start()
                self._threads.append(thread)  # not before: an interrupted start leaves nothing to be joined

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
            del work  # what the work held must not live until the next one comes
        self._queue.put(None)  # for the next worker

    def abandon(self) -> None:
        """Somebody gave up waiting for a worker: another may work in its place."""
        with self._lock:
            self.abandoned = True
            self._limit += 1

    @contextmanager
    def waiting(self) -> Generator[None, None, None]:
        """While a worker waits for something nested, another may work in its place."""
        with self._lock:
            self._limit += 1
        try:
            if not (self._queue.empty() or self._closed):
                self._start(1)
            yield
        finally:
            with self._lock:
                self._limit -= 1

    def close(self) -> None:
        """Ends the workers once the queue is empty; waits for them unless one was abandoned."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)  # what waits in the queue from here on is only the workers' end
        if not self.abandoned:
            for thread in self._threads:
                thread.join()
        elif self._queue.qsize() > 1:  # those who are left may all wait for what waits in the queue
            Thread(target=self._serve, name="juncture-worker", daemon=True).start()
