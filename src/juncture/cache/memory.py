"""A cache in this process: gone with it, shared by the graphs that are given the same object."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from juncture.cache.base import Cache


class InMemoryCache(Cache):
    """Keeps the entries that were used last."""

    blocking = False

    def __init__(self, *, max_entries: int = 10_000) -> None:
        """It holds no more than so many entries."""
        if max_entries < 1:
            raise ValueError(f"max_entries must be at least 1, got {max_entries}")
        self._most = max_entries
        self._lock = Lock()
        self._entries: OrderedDict[tuple[str, bytes], tuple[bytes, float | None]] = OrderedDict()

    def get(self, space: str, key: bytes, now: float) -> bytes | None:
        """See `Cache.get`."""
        with self._lock:
            found = self._entries.get((space, key))
            if found is None:
                return None
            value, until = found
            if until is not None and until <= now:
                del self._entries[space, key]
                return None
            self._entries.move_to_end((space, key))
            return value

    def put(self, space: str, key: bytes, value: bytes, now: float, ttl: float | None = None) -> None:
        """See `Cache.put`."""
        with self._lock:
            self._entries[space, key] = (bytes(value), None if ttl is None else now + ttl)
            self._entries.move_to_end((space, key))
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)

    def clear(self, spaces: Sequence[str] | None = None) -> None:
        """See `Cache.clear`."""
        with self._lock:
            if spaces is None:
                self._entries.clear()
                return
            for place in [place for place in self._entries if place[0] in spaces]:
                del self._entries[place]


__all__ = ["InMemoryCache"]
