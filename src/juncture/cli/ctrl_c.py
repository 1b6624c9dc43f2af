"""Ctrl-C during a run.

The first one cancels the run, as `ainvoke` is cancelled: what was committed and saved stays, async nodes are cancelled, a
running sync node is abandoned. The second waits for nothing: the process ends there, as if it were killed; what was
saved stays, and the thread is free again once its lease has expired.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, NoReturn, Self

from juncture.cli.exits import ExitCode


class CtrlC:
    """Hears Ctrl-C during a run: the first cancels the run, the second ends the process.

    Unlike `asyncio.run`, whose second Ctrl-C still waits for whatever refuses to be cancelled. Where somebody else
    listens already, or in another thread than the main one, it does nothing.
    """

    def __init__(self) -> None:
        """Begins to listen when it is entered."""
        self._run: asyncio.Task[Any] | None = None
        self._heard = False
        self._hears = False

    def __enter__(self) -> Self:
        free = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._hears = free and current_thread() is main_thread()
        if self._hears:
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._hears:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def cancels_this_task(self) -> None:
        """From now on the first one cancels the task that this is called in."""
        self._run = asyncio.current_task()

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self._run is None:
            raise KeyboardInterrupt
        if self._heard:
            _leave()
        self._heard = True
        self._run.get_loop().call_soon_threadsafe(self._run.cancel)


def _leave() -> NoReturn:
    """Ends the process without cleaning up; only the terminal's cursor is shown again."""
    if sys.__stdout__ is not None and sys.__stdout__.isatty():
        os.write(sys.__stdout__.fileno(), b"\x1b[?25h\r\n")
    os.write(2, b"stopped at once\n")
    os._exit(ExitCode.CANCELLED)
