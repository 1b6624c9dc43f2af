"""Long-term memory in PostgreSQL: for several machines, and for databases that somebody looks after.

Connections, their errors and how tables are made are those of the saver (`juncture.savers.postgres_pool`,
`juncture.savers.postgres_tables`). There is one table, in the order of namespace and key, so that what is below a prefix
stands together; a store and a saver may use one schema. Items run out by the database's clock. Every call is one
statement, or one transaction; changes are made in the order of their addresses, so that no two calls wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, LiteralString

from juncture.errors import ConfigError
from juncture.savers.postgres_pool import Connections, Pool, Session, do, rows
from juncture.savers.postgres_tables import SchemaTables, check_schema, ready
from juncture.store.base import TTLConfig
from juncture.store.embedding import IndexConfig
from juncture.store.kept import RowStore
from juncture.store.names import after
from juncture.store.rows import Address, Change, Clock, Row, Rows

if TYPE_CHECKING:
    from juncture.savers.encrypted import KeyRing

# Each entry brings the table from the version that is its index to the next one. Released ones never change.
MIGRATIONS: Final[tuple[LiteralString, ...]] = (
    """
    CREATE TABLE {s}.store_items (
        namespace text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        content bytea NOT NULL,
        vectors bytea NOT NULL,
        created_at double precision NOT NULL,
        updated_at double precision NOT NULL,
        ttl double precision,
        expires_at double precision,
        PRIMARY KEY (namespace, key)
    );
    CREATE INDEX store_items_by_end ON {s}.store_items (expires_at) WHERE expires_at IS NOT NULL;
    COMMENT ON TABLE {s}.store_items IS 'times are seconds since the epoch; see juncture.store.names for namespaces';
    """,
)
_NOW: Final[LiteralString] = (
    "coalesce(%(now)s::double precision, extract(epoch FROM clock_timestamp())::double precision)"
)
_CLOCK: Final[LiteralString] = "WITH clock AS MATERIALIZED (SELECT " + _NOW + " AS now) "
_LIVES: Final[LiteralString] = "(expires_at IS NULL OR expires_at > (SELECT now FROM clock))"
_COLUMNS: Final[LiteralString] = "namespace, items.key, content, vectors, created_at, updated_at, ttl"
_ASKED: Final[LiteralString] = (
    "unnest(%(namespaces)s::text[], %(keys)s::text[]) WITH ORDINALITY AS asked (space, key, place)"
)
_BELOW: Final[LiteralString] = (
    " FROM {s}.store_items AS items WHERE namespace >= %(first)s AND namespace < %(last)s AND " + _LIVES
)
_READ: Final[LiteralString] = (
    _CLOCK + "SELECT asked.place, " + _COLUMNS + " FROM " + _ASKED + " JOIN {s}.store_items AS items "
    "ON namespace = asked.space AND items.key = asked.key WHERE " + _LIVES
)
_SCAN: Final[LiteralString] = (
    _CLOCK
    + "SELECT "
    + _COLUMNS
    + _BELOW
    + " ORDER BY namespace, items.key LIMIT %(limit)s::bigint OFFSET %(offset)s"
)
_COUNT: Final[LiteralString] = _CLOCK + "SELECT count(*)" + _BELOW
_NAMESPACES: Final[LiteralString] = _CLOCK + "SELECT DISTINCT namespace" + _BELOW + " ORDER BY namespace"
# Locks what is there, in order, and says what lives.
_LOCK: Final[LiteralString] = (
    _CLOCK + "SELECT namespace, key, " + _LIVES + " FROM {s}.store_items WHERE (namespace, key) IN "
    "(SELECT space, asked.key FROM " + _ASKED + ") ORDER BY namespace, key FOR UPDATE"
)
_PUT: Final[LiteralString] = (
    _CLOCK
    + """
    INSERT INTO {s}.store_items AS items
    SELECT space, key, content, vectors, clock.now, clock.now, ttl, clock.now + ttl
    FROM clock, unnest(
        %(namespaces)s::text[], %(keys)s::text[], %(contents)s::bytea[], %(vectors)s::bytea[],
        %(ttls)s::double precision[]
    ) AS given (space, key, content, vectors, ttl)
    ORDER BY space, key
    ON CONFLICT (namespace, key) DO UPDATE SET
        content = excluded.content, vectors = excluded.vectors, updated_at = excluded.updated_at,
        ttl = excluded.ttl, expires_at = excluded.expires_at,
        created_at = CASE
            WHEN items.expires_at IS NULL OR items.expires_at > excluded.updated_at THEN items.created_at
            ELSE excluded.created_at
        END
    """
)
_AT: Final[LiteralString] = "(namespace, key) IN (SELECT space, asked.key FROM " + _ASKED + ")"
_DELETE: Final[LiteralString] = "DELETE FROM {s}.store_items WHERE " + _AT
_REFRESH: Final[LiteralString] = (
    _CLOCK
    + "UPDATE {s}.store_items SET expires_at = (SELECT now FROM clock) + ttl WHERE ttl IS NOT NULL AND "
    "(namespace, key) IN (SELECT namespace, key FROM {s}.store_items WHERE "
    + _AT
    + " AND "
    + _LIVES
    + " ORDER BY namespace, key FOR UPDATE)"
)
_SWEEP: Final[LiteralString] = (
    _CLOCK
    + "DELETE FROM {s}.store_items WHERE (namespace, key) IN (SELECT namespace, key FROM {s}.store_items "
    "WHERE expires_at <= (SELECT now FROM clock) ORDER BY namespace, key FOR UPDATE SKIP LOCKED) RETURNING 1"
)


class PostgresStore(RowStore):
    """Keeps items in a PostgreSQL database, version 14 or later. Needs the extra ``postgres``.

    Nothing is opened before the first call. A fork is fine: the child opens connections of its own.

    Args:
        database: A URL as ``postgresql://user:password@host:5432/database``, with any parameter of libpq; or a
            `psycopg_pool.ConnectionPool` whose connections have ``autocommit=True``, which the caller opens and closes.
        index: What queries rank by; without one they look for the text itself.
        ttl: How items run out; without it those do that are put with ``ttl``.
        keys: What contents and vectors are encrypted with.
        schema: The schema of PostgreSQL that has the table. It is created if it isn't there.
        min_size: How many connections are kept open.
        max_size: How many there are at most, in each process.
        timeout: For how many seconds a call waits for a connection.
        clock: Seconds since the epoch, by which items run out, for tests; None for the database's clock.

    Raises:
        ConfigError: An argument can't be right. A URL isn't shown, for it may hold a password.
    """

    def __init__(
        self,
        database: str | Pool,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        keys: KeyRing | None = None,
        schema: str = "juncture",
        min_size: int = 0,
        max_size: int = 10,
        timeout: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        if not 0 <= min_size <= max_size or max_size < 1 or not timeout > 0:
            raise ConfigError(
                f"PostgresStore needs 0 <= min_size <= max_size, 1 <= max_size and timeout > 0, not {min_size=}, "
                f"{max_size=}, {timeout=}."
            )
        check_schema(schema)
        connections = Connections(
            database,
            SchemaTables(schema, MIGRATIONS, version="store_version").see_to,
            min_size=min_size,
            max_size=max_size,
            timeout=timeout,
            owner="PostgresStore",
        )
        super().__init__(_PostgresRows(connections, schema, clock), index=index, ttl=ttl, keys=keys)


class _PostgresRows(Rows):
    def __init__(self, connections: Connections, schema: str, clock: Clock | None) -> None:
        self._connections = connections
        self._clock = clock
        self._read = ready(schema, _READ)
        self._scan = ready(schema, _SCAN)
        self._count = ready(schema, _COUNT)
        self._namespaces = ready(schema, _NAMESPACES)
        self._lock = ready(schema, _LOCK)
        self._put = ready(schema, _PUT)
        self._delete = ready(schema, _DELETE)
        self._refresh = ready(schema, _REFRESH)
        self._sweep = ready(schema, _SWEEP)

    def read(self, addresses: Sequence[Address]) -> list[Row | None]:
        values = self._at(addresses)
        found = self._connections.run(lambda session: rows(session, self._read, values))
        by_place = {place: Row(*columns) for place, *columns in found}
        return [by_place.get(place) for place in range(1, len(addresses) + 1)]

    def scan(self, prefix: str, offset: int = 0, limit: int | None = None) -> tuple[list[Row], int]:
        values = {**self._below(prefix), "limit": limit, "offset": offset}
        found = self._connections.run(lambda session: rows(session, self._scan, values))
        total = len(found)
        if limit is not None or offset:
            ((total,),) = self._connections.run(lambda session: rows(session, self._count, values))
        return [Row(*columns) for columns in found], total

    def namespaces(self, prefix: str) -> list[str]:
        values = self._below(prefix)
        found = self._connections.run(lambda session: rows(session, self._namespaces, values))
        return [namespace for (namespace,) in found]

    def write(self, changes: Sequence[Change]) -> list[bool]:
        puts = [change for change in changes if change.content is not None]
        gone = [change[:2] for change in changes if change.content is None]
        every = self._at([change[:2] for change in changes])
        values = {
            **self._at([change[:2] for change in puts]),
            "contents": [change.content for change in puts],
            "vectors": [change.vectors for change in puts],
            "ttls": [change.ttl for change in puts],
        }

        def write(session: Session) -> list[Any]:
            with session.transaction():
                there = rows(session, self._lock, every)
                if gone:
                    do(session, self._delete, self._at(gone))
                if puts:
                    do(session, self._put, values)
            return there

        lost = "What was put may or may not have been stored: put it again"
        lives = {
            (namespace, key): lives
            for namespace, key, lives in self._connections.run(write, unless_told=lost)
        }
        return [lives.get(change[:2], False) for change in changes]

    def refresh(self, addresses: Sequence[Address]) -> None:
        values = self._at(addresses)
        self._connections.run(lambda session: do(session, self._refresh, values))

    def sweep(self) -> int:
        values = {"now": self._now()}
        return len(self._connections.run(lambda session: rows(session, self._sweep, values)))

    def close(self) -> None:
        self._connections.close()

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock()

    def _at(self, addresses: Sequence[Address]) -> dict[str, Any]:
        return {
            "now": self._now(),
            "namespaces": [namespace for namespace, _ in addresses],
            "keys": [key for _, key in addresses],
        }

    def _below(self, prefix: str) -> dict[str, Any]:
        return {"now": self._now(), "first": prefix, "last": after(prefix)}
