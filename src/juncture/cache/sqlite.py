"""A cache in an SQLite file, for the programs of one machine.

Each call is one statement in a transaction of its own. Nothing in it is worth waiting for a disk, so it isn't synchronous:
after a power cut entries may be missing, never wrong.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from juncture.cache.base import Cache

_SCHEMA = """
CREATE TABLE IF NOT EXISTS juncture_cache (
    space BLOB NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, until REAL, PRIMARY KEY (space, key)
) WITHOUT ROWID
"""
_SWEEP = 500
"""After so many entries, those that have expired are dropped."""


class SqliteCache(Cache):
    """Keeps entries in a file; ``":memory:"`` for one that is gone with the object."""

    def __init__(self, path: str | Path, *, timeout: float = 5.0) -> None:
        """Opens the file at its first use, and makes it if need be; waits so many seconds for another program's lock."""
        self._path = str(path)
        self._timeout = timeout
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None
        self._puts = 0

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            connection = sqlite3.connect(
                self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode=WAL").fetchall()
                connection.execute("PRAGMA synchronous=OFF")
                connection.execute(_SCHEMA)
            except BaseException:
                connection.close()
                raise
            self._open = connection
        return self._open

    def get(self, space: str, key: bytes, now: float) -> bytes | None:
        """See `Cache.get`."""
        with self._lock:
            row = (
                self._connection()
                .execute(
                    "SELECT value FROM juncture_cache WHERE space = ? AND key = ? AND (until IS NULL OR until > ?)",
                    (_text(space), key, now),
                )
                .fetchone()
            )
        return None if row is None else row[0]

    def put(self, space: str, key: bytes, value: bytes, now: float, ttl: float | None = None) -> None:
        """See `Cache.put`."""
        until = None if ttl is None else now + ttl
        with self._lock:
            connection = self._connection()
            connection.execute(
                "INSERT OR REPLACE INTO juncture_cache VALUES (?, ?, ?, ?)", (_text(space), key, value, until)
            )
            self._puts += 1
            if self._puts % _SWEEP == 0:
                connection.execute("DELETE FROM juncture_cache WHERE until <= ?", (now,))

    def clear(self, spaces: Sequence[str] | None = None) -> None:
        """See `Cache.clear`."""
        with self._lock:
            connection = self._connection()
            if spaces is None:
                connection.execute("DELETE FROM juncture_cache")
            else:
                connection.executemany(
                    "DELETE FROM juncture_cache WHERE space = ?", [(_text(space),) for space in spaces]
                )

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None


def _text(space: str) -> bytes:
    """As bytes: SQLite's texts take no lone surrogates."""
    return space.encode("utf-8", "surrogatepass")


__all__ = ["SqliteCache"]
