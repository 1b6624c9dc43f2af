"""The exit codes. Scripts rely on them: one is added at times, none is ever changed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from juncture.types import Status


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    """It did what was asked; for `check`: without findings that matter."""
    FAILED = 1
    """The graph raised an exception; for `check`: there are findings; for commands on threads: it couldn't be done."""
    USAGE = 2
    """Nothing was run or changed: wrong arguments, no such file, graph or thread, bad JSON, a file that can't be
    imported or built, a thread that is in use."""
    INTERRUPTED = 3
    """The graph paused and waits: for an answer, or before or after a node."""
    LIMIT = 4
    """The limit of supersteps, or a budget, was reached."""
    DRAINED = 5
    """The run was asked to end early, and did so after a superstep."""
    CANCELLED = 130
    """Ctrl-C; or the answer to whether something is to be removed was no."""
    READER_GONE = 141
    """Whoever read the output has closed it, as `head` does; the run was stopped."""


EXIT_OF: Final[Mapping[Status, ExitCode]] = {
    "completed": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "interrupted": ExitCode.INTERRUPTED,
    "limit": ExitCode.LIMIT,
    "budget": ExitCode.LIMIT,
    "drained": ExitCode.DRAINED,
    "cancelled": ExitCode.CANCELLED,
}
"""How a run ended, as an exit code."""
