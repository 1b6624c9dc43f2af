"""Processes that run a graph, to be killed, stopped and raced: the side of the test.

A child tells its parent what it does, so that nobody has to wait blindly: `Child.told` gives the next event, one of

- ``("begin", key)`` and ``("end", key)``: an effect (see `tests.faults.graph`), after it was written to the log;
- ``("at", key)``: the child waits at the gate of that effect, which is in the log, until it is let `go`;
- ``("over", result)``: it has done what it was to do, and ends;
- ``("failed", kind, text)``: an exception ended it; the text has its notes;
- None: it has ended, whatever ended it.

Children are forked from a process that has everything imported, so that they start in milliseconds. One whose clock is
wrong is a Python of its own, so that nothing has taken the right clock before.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PATIENCE = 50.0
"""Seconds without an event after which a child is taken to hang: far more than it ever needs."""
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["pytest", "tests.faults.worker", "psycopg", "psycopg_pool"])
_started = threading.Lock()


@dataclass(frozen=True)
class Job:
    """What a child does."""

    url: str
    """Of its saver."""
    thread: str = ""
    how: str = "run"
    """``run``: brings the thread to its end, whatever it takes. ``recover``: the same, beginning with `recover`.
    ``once``: gives the thread its input. ``sweep``: only `recover`, of all threads."""
    effects: str = ""
    """The log of effects."""
    driver: str = "sync"
    durability: str = "sync"
    lease_ttl: float | None = 30.0
    gate: str = ""
    """Before the end of this effect it waits until it is let go; empty for nowhere."""
    wait: bool = False
    """Whether it waits before it begins."""
    shift: float = 0.0
    """Seconds by which its clock is wrong."""
    room: int = 0
    """Bytes that a file may have, for it, in a run that it tries first; 0 for any number. Then it makes room."""


def in_child(job: Job, pipe: Connection) -> None:
    """What a child is."""
    if job.shift:
        assert "juncture" not in sys.modules
        right, right_ns = time.time, time.time_ns
        time.time = lambda: right() + job.shift
        time.time_ns = lambda: right_ns() + int(job.shift * 1e9)
    from tests.faults.worker import work

    work(job, pipe)


class Child:
    """A process that does a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.effects: list[tuple[str, str]] = []
        """Those it told of: (``begin`` or ``end``, key)."""
        self._last: tuple[Any, ...] | None = None
        self._pipe, theirs = multiprocessing.Pipe()
        context: Any = multiprocessing.get_context("spawn") if job.shift else _server
        self._running = context.Process(target=in_child, args=(job, theirs), daemon=True)
        with _started:  # what starts the server isn't made for several threads
            self._running.start()
        theirs.close()

    def told(self) -> tuple[Any, ...] | None:
        """The next event."""
        try:
            if not self._pipe.poll(PATIENCE):
                raise AssertionError(f"nothing was heard for {PATIENCE} s of {self.job}")
            event = self._pipe.recv()
            if event[0] in {"over", "failed"}:
                self._last = event
            elif event[0] in {"begin", "end"}:
                self.effects.append(event)
            return event
        except (EOFError, OSError):
            return None

    def until(self, *wanted: Any) -> tuple[Any, ...]:
        """The next event that begins so; the child must not end, or fail, before."""
        while (event := self.told()) is not None and event[: len(wanted)] != wanted:
            assert event[0] not in {"over", "failed"}, f"it should have come to {wanted}: {event}"
        assert event is not None, f"it ended before it came to {wanted}"
        return event

    def outcome(self) -> tuple[Any, ...] | None:
        """Its last word: ``over``, ``failed``, or None where it was killed."""
        while self.told() is not None:
            pass
        self._running.join(PATIENCE)
        return self._last

    def result(self) -> Any:
        """What it ended with; it must not fail."""
        last = self.outcome()
        assert last is not None, "it ended without a word"
        assert last[0] == "over", "\n".join(last[1:])
        return last[1]

    def go(self) -> None:
        """Lets it through the gate, or begin."""
        self._pipe.send("go")

    def suspend(self) -> None:
        os.kill(self._running.pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self._running.pid, signal.SIGCONT)

    def kill(self) -> bool:
        """Whether it was killed; False if it had ended. Afterwards it is gone, also from the table of processes."""
        self._running.kill()
        self._running.join(PATIENCE)
        assert self._running.exitcode is not None
        return self._running.exitcode != 0

    def close(self) -> None:
        self.kill()
        self._pipe.close()
        self._running.close()


@contextmanager
def child(job: Job) -> Iterator[Child]:
    """A child, which doesn't outlive the block."""
    made = Child(job)
    try:
        yield made
    finally:
        made.close()


def effects_of(path: Path) -> list[tuple[str, str, str]]:
    """The log of effects: (process, ``begin`` or ``end``, key), in order."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(pid, what, key) for pid, what, key in (line.split(" ") for line in lines)]
