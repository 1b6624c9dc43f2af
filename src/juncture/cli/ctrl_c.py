"""Ctrl-C, and a polite request to end (SIGTERM), during a run.

The first one drains a run that can be drained: it ends once the running step is done. The next one cancels it, as `ainvoke`
is cancelled: what was committed and saved stays, async nodes are cancelled, a running sync node is abandoned. One more
waits for nothing: the process ends there, as if it were killed; what was saved stays, and the thread is free again once
its lease has expired.
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
from juncture.steering import RunControl


class CtrlC:
    """Hears Ctrl-C during a run: the first drains the run, if it has a control, the next cancels it, another ends the process.

    Unlike `asyncio.run`, whose second Ctrl-C still waits for whatever refuses to be cancelled. Where somebody else
    listens already, or in another thread than the main one, it does nothing. With a control, it hears SIGTERM as well.
    """

    def __init__(self, control: RunControl | None = None) -> None:
        """Begins to listen when it is entered."""
        self._control = control
        self._run: asyncio.Task[Any] | None = None
        self._heard = False
        self._hears: list[tuple[signal.Signals, Any]] = []
        """What is heard, and who heard it before."""

    def __enter__(self) -> Self:
        if current_thread() is not main_thread():
            return self
        nobody: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler}
        if self._control is not None:
            nobody[signal.SIGTERM] = signal.SIG_DFL
        for number, usual in nobody.items():
            if signal.getsignal(number) is usual:
                self._hears.append((number, signal.signal(number, self._hear)))
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._hears:
            signal.signal(number, before)

    def cancels_this_task(self) -> None:
        """From now on it is the run that is stopped, in the task that this is called in."""
        self._run = asyncio.current_task()

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self._run is None:
            raise KeyboardInterrupt
        if self._control is not None and not self._control.drain_requested:
            self._control.request_drain("interrupted")
            os.write(2, b"the running step is finished first; Ctrl-C again stops it now\n")
            return
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
