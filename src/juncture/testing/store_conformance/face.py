"""What the laws are written with: a store's two faces as one, a clock that tests turn, and an embedding that can be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from juncture.store.base import Store
from juncture.testing.saver_conformance.face import STRANGE as NAMES
from juncture.testing.saver_conformance.face import refuses

MakeStore = Callable[..., Store]
"""Makes a new, empty store; takes the options ``index``, ``ttl`` and ``clock``."""

STRANGE = (*NAMES, "\x01", "\x01\x01", "a\x01\x02", "\x1f", "\x7f", "a.b", "..", ".", "~", "%2e", "langgraph")
"""Labels and keys that a careless store takes for patterns, statements, paths, separators or one another."""

DIMS = 4


def embed(texts: list[str]) -> list[list[float]]:
    """How often a text has the letters a, b and c, and a little of something else."""
    return [[*(float(text.count(letter)) for letter in "abc"), 0.1] for text in texts]


class Turned:
    """A clock that stands until it is turned."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return self.now


class Face:
    """A store's sync methods, or its async twins as if they were sync: a law is written once for both."""

    def __init__(self, make_store: MakeStore, *, twins: bool) -> None:
        self._make_store = make_store
        self._twins = twins
        self._store: Store | None = None
        self.clock = Turned()

    def open(self, **options: Any) -> None:
        """Opens the store with these options instead of without any. Before the first call."""
        self._store = self._make_store(**options)

    def running_out(self, **ttl: Any) -> None:
        """Opens the store with these settings of ``ttl``, and the clock that `pass_minutes` turns."""
        self.open(ttl=ttl, clock=self.clock)

    def pass_minutes(self, minutes: float) -> None:
        """Turns the clock."""
        self.clock.now += minutes * 60

    @property
    def store(self) -> Store:
        """The store."""
        if self._store is None:
            self.open()
        assert self._store is not None
        return self._store

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """A method of the store."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._twins:
                return getattr(self.store, method)(*args, **kwargs)
            import asyncio

            return asyncio.run(getattr(self.store, "a" + method)(*args, **kwargs))

        return call

    def keys(self, *args: Any, **options: Any) -> list[str]:
        """The keys that a search finds, in its order."""
        return [item.key for item in self.search(*args, **options)]


class Law:
    """One law, as a check of any store. Call it with a function that makes a new, empty store."""

    def __init__(self, name: str, check: Callable[[Face], None], *, twins: bool, needs: str) -> None:
        self.name = name
        self.needs = needs
        """``"ttl"`` or ``"index"`` where the store has to take that; else empty."""
        self._check = check
        self._twins = twins

    def __call__(self, make_store: MakeStore) -> None:
        """Runs the check.

        Raises:
            AssertionError: The store breaks the law. What it raises where it should take a call comes through as it is.
        """
        face = Face(make_store, twins=self._twins)
        try:
            self._check(face)
        finally:
            face.store.close()

    def __str__(self) -> str:
        return f"{self.name}[{'async' if self._twins else 'sync'}]"

    __repr__ = __str__


def collected(laws: list[Law], needs: str = "") -> Callable[[Callable[[Face], None]], Callable[[Face], None]]:
    """A decorator that adds a check to these laws, once for each face; its name in words is the law's."""

    def add(check: Callable[[Face], None]) -> Callable[[Face], None]:
        name = check.__name__.removeprefix("_").replace("_", " ")
        laws.extend(Law(name, check, twins=twins, needs=needs) for twins in (False, True))
        return check

    return add


__all__ = ["DIMS", "STRANGE", "Face", "Law", "MakeStore", "collected", "embed", "refuses"]
