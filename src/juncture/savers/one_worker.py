"""Calls of async code that may wait, one after the other on one thread.

`asyncio.to_thread` costs some 40 µs a call, most of it for a thread among many. A saver that does one thing at a time
anyway needs one thread, and a call there and back costs half of that.

- The thread begins with the first call, is daemon, and ends with `close` or with its owner.
- A call may come from any event loop. If the loop is gone when its call is done, nobody is told.
- Cancelling whoever waits doesn't stop the call.
- In the child of a fork the calls of the parent aren't made, and the thread begins anew.
"""

from __future__ import annotations

import os
import threading
import weakref
from asyncio import AbstractEventLoop, Future, get_running_loop
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

_R = TypeVar("_R")
_Call: TypeAlias = tuple[Callable[[], Any], AbstractEventLoop, "Future[Any]"]


class OneWorker:
    """One thread that makes calls for async code.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin_anew()
        _workers.add(self)

    def call(self, call: Callable[[], _R]) -> Future[_R]:
        """Makes a call on the thread; to be awaited on the running loop."""
        loop = get_running_loop()
        told: Future[_R] = loop.create_future()
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=_work, args=(self._queue,), name=self._name, daemon=True)
                thread.start()  # first: where it can't be started, the next call tries again
                self._thread = thread
                self._end = weakref.finalize(self, self._queue.put, None)
            self._queue.put((call, loop, told))
        return told

    def close(self) -> None:
        """Ends the thread once it has made the calls that it was given. Later ones begin another. Doesn't wait."""
        with self._lock:
            if self._thread is not None:
                self._end()
                self._begin_anew(self._lock)

    def _begin_anew(self, lock: threading.Lock | None = None) -> None:
        self._lock = lock or threading.Lock()
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def after_fork(self) -> None:
        """In the child, where the thread is not."""
        if self._thread is not None:
            self._end.detach()
        self._begin_anew()


def _work(queue: SimpleQueue[_Call | None]) -> None:
    while (given := queue.get()) is not None:
        call, loop, told = given
        result, error = None, None
        try:
            result = call()
        except BaseException as raised:  # noqa: BLE001 - raised where the call is awaited
            error = raised
        with suppress(RuntimeError):  # the loop was closed, and whoever waited is gone with it
            loop.call_soon_threadsafe(_tell, told, result, error)
        del given, call, loop, told, result, error  # nothing is kept alive while this waits


def _tell(told: Future[Any], result: Any, error: BaseException | None) -> None:
    if told.cancelled():
        return
    if error is None:
        told.set_result(result)
    else:
        told.set_exception(error)


_workers: weakref.WeakSet[OneWorker] = weakref.WeakSet()


def _after_fork() -> None:
    for worker in list(_workers):
        worker.after_fork()


os.register_at_fork(after_in_child=_after_fork)
