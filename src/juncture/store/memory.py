"""Long-term memory in this process: for tests, for programs that need no durability, and as the plainest store.

Everything goes through one lock; nothing in here waits for anything else.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from juncture.errors import StoreError
from juncture.store.base import TTLConfig
from juncture.store.embedding import IndexConfig
from juncture.store.kept import RowStore
from juncture.store.rows import Address, Change, Clock, Row, Rows

if TYPE_CHECKING:
    from juncture.savers.encrypted import KeyRing


class InMemoryStore(RowStore):
    """Keeps items in this process. They are gone when it ends, or with `close`.

    Args:
        index: What queries rank by; without one they look for the text itself.
        ttl: How items run out; without it those do that are put with ``ttl``.
        keys: What contents and vectors are encrypted with.
        clock: Seconds since the epoch, by which items run out.
    """

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        keys: KeyRing | None = None,
        clock: Clock = time.time,
    ) -> None:
        super().__init__(_MemoryRows(clock), index=index, ttl=ttl, keys=keys)


@dataclass(slots=True)
class _Kept:
    row: Row
    until: float | None

    def is_over(self, now: float) -> bool:
        return self.until is not None and self.until <= now


class _MemoryRows(Rows):
    blocking = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, dict[str, _Kept]] = {}
        self._names: list[str] = []
        """The namespaces, ascending."""
        self._closed = False

    def read(self, addresses: Sequence[Address]) -> list[Row | None]:
        with self._lock:
            now = self._now()
            found = [self._at(address, now) for address in addresses]
            return [None if kept is None else kept.row for kept in found]

    def scan(self, prefix: str, offset: int = 0, limit: int | None = None) -> tuple[list[Row], int]:
        with self._lock:
            now = self._now()
            rows = [
                kept.row
                for name in self._below(prefix)
                for _, kept in sorted(self._kept[name].items())
                if not kept.is_over(now)
            ]
        end = None if limit is None else offset + limit
        return rows[offset:end], len(rows)

    def namespaces(self, prefix: str) -> list[str]:
        with self._lock:
            now = self._now()
            return [
                name
                for name in self._below(prefix)
                if any(not kept.is_over(now) for kept in self._kept[name].values())
            ]

    def write(self, changes: Sequence[Change]) -> list[bool]:
        with self._lock:
            now = self._now()
            return [self._write(change, now) for change in changes]

    def refresh(self, addresses: Sequence[Address]) -> None:
        with self._lock:
            now = self._now()
            for address in addresses:
                kept = self._at(address, now)
                if kept is not None and kept.row.ttl is not None:
                    kept.until = now + kept.row.ttl

    def sweep(self) -> int:
        with self._lock:
            now = self._now()
            over = [
                (name, key)
                for name in self._names
                for key, kept in self._kept[name].items()
                if kept.is_over(now)
            ]
            for name, key in over:
                self._remove(name, key)
            return len(over)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._kept.clear()
            self._names.clear()

    def _now(self) -> float:
        if self._closed:
            raise StoreError("this InMemoryStore was closed, and what it kept is gone. Make a new one.")
        return self._clock()

    def _at(self, address: Address, now: float) -> _Kept | None:
        name, key = address
        kept = self._kept.get(name, {}).get(key)
        return None if kept is None or kept.is_over(now) else kept

    def _below(self, prefix: str) -> Iterator[str]:
        place = bisect_left(self._names, prefix)
        while place < len(self._names) and self._names[place].startswith(prefix):
            yield self._names[place]
            place += 1

    def _write(self, change: Change, now: float) -> bool:
        there = self._at(change[:2], now)
        if change.content is None:
            if there is not None:
                self._remove(change.namespace, change.key)
            return there is not None
        if change.namespace not in self._kept:
            self._kept[change.namespace] = {}
            insort(self._names, change.namespace)
        created_at = now if there is None else there.row.created_at
        row = Row(*change[:2], change.content, change.vectors, created_at, now, change.ttl)
        self._kept[change.namespace][change.key] = _Kept(
            row, None if change.ttl is None else now + change.ttl
        )
        return there is not None

    def _remove(self, name: str, key: str) -> None:
        del self._kept[name][key]
        if not self._kept[name]:
            del self._kept[name]
            self._names.remove(name)
