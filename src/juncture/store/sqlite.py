"""Long-term memory in a file of SQLite: for one machine, and for any number of its processes.

What the file and its transactions are like is said in `juncture.savers.sqlite_file`, which checkpoints use as well; a
store has a file of its own. There is one table, ordered by namespace and key, so that what is below a prefix stands
together. Times are those of the machine's clock, which all its processes share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from juncture.errors import ConfigError
from juncture.savers.one_worker import OneWorker
from juncture.savers.sqlite_file import Database, Synchronous
from juncture.store.base import TTLConfig
from juncture.store.embedding import IndexConfig
from juncture.store.kept import RowStore
from juncture.store.names import after
from juncture.store.rows import Address, Change, Clock, Row, Rows

if TYPE_CHECKING:
    from juncture.savers.encrypted import KeyRing

_P = ParamSpec("_P")
_R = TypeVar("_R")

APPLICATION: Final = 0x4A554E4D
"""What ``application_id`` says in files of stores: the letters JUNM."""
SCHEMA: Final = (
    (
        """
        CREATE TABLE items (
            namespace TEXT NOT NULL,
            key TEXT NOT NULL,
            content BLOB NOT NULL,
            vectors BLOB NOT NULL,
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL,
            ttl REAL,
            expires_at REAL,
            PRIMARY KEY (namespace, key)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX items_by_end ON items (expires_at) WHERE expires_at IS NOT NULL",
    ),
)
_COLUMNS: Final = "namespace, key, content, vectors, created_at, updated_at, ttl"
_LIVES: Final = "(expires_at IS NULL OR expires_at > ?)"
_BELOW: Final = f"namespace >= ? AND namespace < ? AND {_LIVES}"
READ: Final = f"SELECT {_COLUMNS} FROM items WHERE namespace = ? AND key = ? AND {_LIVES}"
EXISTS: Final = f"SELECT 1 FROM items WHERE namespace = ? AND key = ? AND {_LIVES}"
SCAN: Final = f"SELECT {_COLUMNS} FROM items WHERE {_BELOW} ORDER BY namespace, key LIMIT ? OFFSET ?"
COUNT: Final = f"SELECT count(*) FROM items WHERE {_BELOW}"
NAMESPACES: Final = f"SELECT DISTINCT namespace FROM items WHERE {_BELOW} ORDER BY namespace"
PUT: Final = """
    INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (namespace, key) DO UPDATE SET
        content = excluded.content, vectors = excluded.vectors, updated_at = excluded.updated_at,
        ttl = excluded.ttl, expires_at = excluded.expires_at,
        created_at = CASE
            WHEN items.expires_at IS NULL OR items.expires_at > excluded.updated_at THEN items.created_at
            ELSE excluded.created_at
        END
"""
DELETE: Final = f"DELETE FROM items WHERE namespace = ? AND key = ? AND {_LIVES}"
REFRESH: Final = (
    f"UPDATE items SET expires_at = ? + ttl WHERE namespace = ? AND key = ? AND ttl IS NOT NULL AND {_LIVES}"
)
SWEEP: Final = "DELETE FROM items WHERE expires_at <= ?"


class SqliteStore(RowStore):
    """Keeps items in a file, which any number of processes of one machine can use at once.

    Args:
        path: The file; made at first use if it isn't there, in a folder that is. Not one that has checkpoints.
        index: What queries rank by, item by item; without one they look for the text itself.
        ttl: How items run out; without it those do that are put with ``ttl``.
        keys: What contents and vectors are encrypted with.
        synchronous: As `SqliteSaver`: with ``FULL``, what was put survives a crash of the machine.
        timeout: Seconds to wait for another process that writes to the file.
        clock: Seconds since the epoch, by which items run out.

    Raises:
        ConfigError: An argument can't be right.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        keys: KeyRing | None = None,
        synchronous: Synchronous = "FULL",
        timeout: float = 10.0,
        clock: Clock = time.time,
    ) -> None:
        name = os.fspath(path)
        if not name or "\x00" in name or name == ":memory:":
            raise ConfigError(
                f"SqliteStore needs the path of a file, not {name!r}. To keep items in memory, use InMemoryStore "
                "(`memory:` as a URL)."
            )
        if synchronous not in {"FULL", "NORMAL"}:
            raise ConfigError(f"synchronous is 'FULL' or 'NORMAL', not {synchronous!r}.")
        if not timeout >= 0:
            raise ConfigError(f"timeout is a number of seconds, not {timeout!r}.")
        database = Database(
            os.path.abspath(name),
            SCHEMA,
            synchronous=synchronous,
            timeout=timeout,
            application=APPLICATION,
            owner="store",
        )
        super().__init__(_SqliteRows(database, clock), index=index, ttl=ttl, keys=keys)


class _SqliteRows(Rows):
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._worker = OneWorker("juncture-sqlite-store")

    def read(self, addresses: Sequence[Address]) -> list[Row | None]:
        now = self._clock()
        with self._database.reading() as run:
            found = [run(READ, (*address, now)).fetchone() for address in addresses]
        return [None if row is None else Row._make(row) for row in found]

    def scan(self, prefix: str, offset: int = 0, limit: int | None = None) -> tuple[list[Row], int]:
        below = (prefix, after(prefix), self._clock())
        with self._database.reading() as run:
            rows = run(SCAN, (*below, -1 if limit is None else limit, offset)).fetchall()
            whole = limit is None and not offset
            total: int = len(rows) if whole else run(COUNT, below).fetchone()[0]
        return list(map(Row._make, rows)), total

    def namespaces(self, prefix: str) -> list[str]:
        with self._database.reading() as run:
            rows = run(NAMESPACES, (prefix, after(prefix), self._clock())).fetchall()
        return [namespace for (namespace,) in rows]

    def write(self, changes: Sequence[Change]) -> list[bool]:
        with self._database.writing() as run:
            now = self._clock()
            there: list[bool] = []
            for namespace, key, content, vectors, ttl in changes:
                if content is None:
                    there.append(run(DELETE, (namespace, key, now)).rowcount > 0)
                    continue
                there.append(run(EXISTS, (namespace, key, now)).fetchone() is not None)
                until = None if ttl is None else now + ttl
                run(PUT, (namespace, key, content, vectors, now, now, ttl, until))
        return there

    def refresh(self, addresses: Sequence[Address]) -> None:
        with self._database.passing() as run:
            now = self._clock()
            for address in addresses:
                run(REFRESH, (now, *address, now))

    def sweep(self) -> int:
        with self._database.writing() as run:
            return run(SWEEP, (self._clock(),)).rowcount

    def close(self) -> None:
        self._database.close()
        self._worker.close()

    async def elsewhere(self, call: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self._worker.call(partial(call, *args, **kwargs))
