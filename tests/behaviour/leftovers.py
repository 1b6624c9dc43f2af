"""What a run must not leave behind: threads, asyncio tasks, and complaints of asyncio's."""

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

_LIVE_ON = ("juncture-loop", "juncture-leases", "juncture-sqlite", "pool-")
"""Threads of compiled graphs and of savers, by the beginning of their names; the last is psycopg's."""


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def nothing_left() -> Iterator[None]:
    """No thread is there afterwards that wasn't before, and asyncio logged nothing.

    Event loops of a compiled graph live as long as it does; close it inside to have them checked as well. The threads
    of a saver live with it, and the one that renews leases ends some time after the last was given back.
    """
    before = set(threading.enumerate())
    gc.freeze()  # so that only what is made from here on is looked through
    heard = _Heard()
    logging.getLogger("asyncio").addHandler(heard)
    try:
        yield
        gc.collect()  # what was never awaited, or destroyed while pending, complains when it is collected
    finally:
        gc.unfreeze()
        logging.getLogger("asyncio").removeHandler(heard)
    left = [t for t in threading.enumerate() if t not in before and not t.name.startswith(_LIVE_ON)]
    assert left == []
    assert heard.lines == []


def in_time(function: Callable[[], Any], seconds: float = 8) -> Any:
    """What a function gives or raises, in a thread of its own, so that one that hangs fails its test and no other."""
    ended: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(function())
        except BaseException as error:
            raised.append(error)

    running = threading.Thread(target=copy_context().run, args=(run,), daemon=True)
    running.start()
    running.join(seconds)
    assert not running.is_alive(), "it hangs"
    if raised:
        raise raised[0]
    return ended[0]


def no_other_task() -> None:
    """The calling task is the only one of its event loop."""
    assert asyncio.all_tasks() == {asyncio.current_task()}
