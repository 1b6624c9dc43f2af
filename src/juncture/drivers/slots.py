"""How many tasks may run at once: ``max_concurrency``, for one top-level run and everything nested in it.

A task takes a slot before it begins and gives it back when it ends. While a task waits for something nested in it, a
call or another graph, it lends its slot, so that a limit of one still runs everything. When it goes on, it runs without
asking again: for that moment there may be one more than the limit, where the alternative is a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class Slots:
    """Counts running tasks against a limit, from any thread."""

    __slots__ = ("_limit", "_lock", "_used", "_waiting")

    def __init__(self, limit: int) -> None:
        """All slots are free."""
        self._limit = limit
        self._used = 0
        self._lock = Lock()
        self._waiting: list[Callable[[], None]] = []

    def take(self, wake: Callable[[], None]) -> bool:
        """Takes a slot if one is free; else has `wake` called once, from any thread, when one may be."""
        with self._lock:
            if self._used < self._limit:
                self._used += 1
                return True
            if wake not in self._waiting:
                self._waiting.append(wake)
            return False

    def give_back(self) -> None:
        """Frees a slot."""
        with self._lock:
            self._used -= 1
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def go_on(self) -> None:
        """Takes a slot that was lent back again, free or not."""
        with self._lock:
            self._used += 1
