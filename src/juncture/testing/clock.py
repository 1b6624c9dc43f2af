"""A clock for tests: time passes when a test says so, or when there is nothing else to wait for."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from threading import Lock
from typing import TYPE_CHECKING

from juncture.drivers.clock import CLOCK, Clock

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class FakeClock(Clock):
    """Stands still until it is moved. Runs that begin inside ``with FakeClock() as clock:`` go by it.

    `advance` moves it, from a node or from any thread; time limits that were reached thereby take effect. Where a run
    has nothing to do but wait, for a retry say, it moves by itself to the next moment that matters, without waiting.
    """

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        """Begins at `wall` seconds since the epoch."""
        self._start = wall
        self._now = 0.0
        self._lock = Lock()
        self._woken: list[Callable[[], None]] = []
        self._token: Token[Clock] | None = None
        self.waits: list[float] = []
        """The seconds that runs waited, one entry for each time that the clock moved by itself."""

    def now(self) -> float:
        """Seconds since it was made."""
        return self._now

    def wall(self) -> float:
        """Seconds since the epoch, by this clock."""
        return self._start + self._now

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        if seconds < 0:
            raise ValueError(f"time doesn't go back: {seconds}")
        self._move(self._now + seconds)

    def _move(self, until: float) -> None:
        with self._lock:
            self._now = max(self._now, until)
            woken, self._woken = self._woken, []
        for wake in woken:
            wake()

    def patience(self, until: float, wake: Callable[[], None], *, idle: bool) -> float | None:
        """Moves at once if nothing else could happen; otherwise whoever waits is woken when the clock is moved."""
        if idle:
            self.waits.append(max(0.0, until - self._now))
            self._move(until)
            return 0.0
        with self._lock:
            if wake not in self._woken:
                self._woken.append(wake)
        return None

    def __enter__(self) -> Self:
        self._token = CLOCK.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            CLOCK.reset(self._token)
            self._token = None


__all__ = ["FakeClock"]
