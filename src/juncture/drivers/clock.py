"""The clock that drivers ask: for waits before retries, for time limits, for how old a cached result is.

It is found through a context variable, once for each call of a graph, so that a test may put another in its place
(`juncture.testing.FakeClock`). What is said about leases and checkpoints doesn't go by it: of those, the database's clock
and the time of the day are asked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from time import monotonic, time


class Clock:
    """The time, and how to wait for it."""

    def now(self) -> float:
        """Seconds since some moment; never goes back."""
        return monotonic()

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time()

    def patience(self, until: float, wake: Callable[[], None], *, idle: bool) -> float | None:
        """How long whoever waits for a moment has to wait before it asks for the time again.

        Args:
            until: The moment.
            wake: Wakes it, from any thread.
            idle: Nothing runs meanwhile: it waits for the time alone.

        Returns:
            Seconds to wait for other things as well; None: until `wake` is called.
        """
        return max(0.0, until - monotonic())


CLOCK: ContextVar[Clock] = ContextVar("juncture_clock", default=Clock())  # noqa: B039 - it holds nothing
"""The clock of calls that begin in this context."""


__all__ = ["CLOCK", "Clock"]
