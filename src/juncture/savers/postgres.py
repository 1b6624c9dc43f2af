"""Checkpoints in PostgreSQL: for several machines, and for databases that somebody looks after.

The tables and statements are in `juncture.savers.postgres_sql`, with what holds them together when several sessions
write; connections and errors in `juncture.savers.postgres_pool`. What follows for the laws:

* `put`, `put_records` and every read are one statement each, so one round trip and one commit. Only when a put was
  refused does a second one find out why.
* Leases run out by the database's clock.
* The async twins use the same pool from workers. An async pool belongs to one event loop, and this saver to all of
  them; what a worker costs is little beside a round trip, and there is one path to be right.
* The tables are made and brought up to date at first use, under a lock that other processes wait for; if they are as
  they should be, that takes no lock and needs no right to create anything. Tables of a newer Juncture are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from juncture.errors import ConfigError
from juncture.savers.base import (
    Lease,
    LoadedCheckpoint,
    Part,
    Saver,
    Spans,
    StoredCheckpoint,
    StoredRecord,
    StoredThread,
    check_next,
    drops_all,
    head_moved,
    lease_lost,
    thread_busy,
)
from juncture.savers.postgres_pool import Connections, Pool, Session, do, rows
from juncture.savers.postgres_sql import MIGRATIONS, Statements
from juncture.savers.postgres_tables import SchemaTables, check_schema


class PostgresSaver(Saver):
    """Keeps checkpoints in a PostgreSQL database, version 14 or later. Needs the extra ``postgres``.

    Nothing is opened before the first call. A fork is fine: the child opens connections of its own.

    Args:
        database: A URL as ``postgresql://user:password@host:5432/database``, with any parameter of libpq; or a
            `psycopg_pool.ConnectionPool` whose connections have ``autocommit=True``, which the caller opens and closes.
        schema: The schema of PostgreSQL that has the tables. It is created if it isn't there.
        min_size: How many connections are kept open.
        max_size: How many there are at most, in each process.
        timeout: For how many seconds a call waits for a connection.
        lease_ttl: As `Saver.lease_ttl`.

    Raises:
        ConfigError: An argument can't be right. A URL isn't shown, for it may hold a password.
    """

    def __init__(
        self,
        database: str | Pool,
        *,
        schema: str = "juncture",
        min_size: int = 0,
        max_size: int = 10,
        timeout: float = 10.0,
        lease_ttl: float | None = 30.0,
    ) -> None:
        if not 0 <= min_size <= max_size or max_size < 1 or not timeout > 0:
            raise ConfigError(
                f"PostgresSaver needs 0 <= min_size <= max_size, 1 <= max_size and timeout > 0, not {min_size=}, "
                f"{max_size=}, {timeout=}."
            )
        check_schema(schema)
        self.lease_ttl = lease_ttl
        self._sql = Statements(schema)
        self._connections = Connections(
            database,
            SchemaTables(schema, MIGRATIONS).see_to,
            min_size=min_size,
            max_size=max_size,
            timeout=timeout,
        )

    def load(
        self,
        thread_id: str,
        namespace: str = "",
        checkpoint_id: str | None = None,
        *,
        known: str | None = None,
    ) -> LoadedCheckpoint | None:
        """The head, or the checkpoint of that id; None if there is none."""
        query = self._sql.load_head if checkpoint_id is None else self._sql.load
        found = self._read(
            query, thread_id=thread_id, namespace=namespace, checkpoint_id=checkpoint_id, known=known
        )
        return found[0].head if found else None

    def put(
        self,
        checkpoint: StoredCheckpoint,
        payload: bytes,
        *,
        follows: str | None,
        records: Sequence[StoredRecord] = (),
        lease: Lease | None = None,
    ) -> None:
        """Stores a checkpoint that follows the head, and the last records of that head."""
        held = lease is not None
        values = {
            "thread_id": checkpoint.thread_id,
            "namespace": checkpoint.namespace,
            "checkpoint_id": checkpoint.checkpoint_id,
            "parent_id": checkpoint.parent_id,
            "step": checkpoint.step,
            "source": checkpoint.source,
            "run_id": checkpoint.run_id,
            "created_at": checkpoint.created_at,
            "seq": checkpoint.seq,
            **_ends(checkpoint.builds_on),
            "header": checkpoint.header,
            "payload": payload,
            "follows": follows,
            "token": lease.token if lease is not None else None,
            **_columns(records),
        }
        # What can't be stored, whatever the head is, isn't sent; `_why_not` says what comes first.
        if follows is None:
            query, possible = self._sql.begin[held], checkpoint.seq == 1 and not records
        else:
            query, possible = self._sql.move[bool(records), held], checkpoint.checkpoint_id > follows

        def store(session: Session) -> None:
            while not (possible and rows(session, query, values)):
                head_seq = self._why_not(session, checkpoint.thread_id, checkpoint.namespace, follows, lease)
                check_next(checkpoint, follows, head_seq, records)
                # What stood in the way has gone meanwhile: a thread was deleted, a lease came back.

        self._connections.run(
            store,
            unless_told=(
                f"Checkpoint {checkpoint.checkpoint_id} of thread {checkpoint.thread_id!r} may or may not have been "
                "saved: load the thread to see, and run again"
            ),
        )

    def put_records(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_id: str,
        records: Sequence[StoredRecord],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Stores records beside the head."""
        values = {
            "thread_id": thread_id,
            "namespace": namespace,
            "checkpoint_id": checkpoint_id,
            "token": lease.token if lease is not None else None,
            **_columns(records),
        }

        def store(session: Session) -> None:
            while not rows(session, self._sql.record[lease is not None], values):
                self._why_not(session, thread_id, namespace, checkpoint_id, lease)

        self._connections.run(store)

    def history(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        records: bool = False,
    ) -> list[LoadedCheckpoint]:
        """A series from its newest checkpoint to its oldest."""
        query = self._sql.history_with_records if records else self._sql.history
        found = self._read(query, thread_id=thread_id, namespace=namespace, before=before, limit=limit)
        return [thread.head for thread in found]

    def parts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """The parts in these ranges, ascending, each once."""
        values = {
            "thread_id": thread_id,
            "namespace": namespace,
            **_ends(spans),
        }
        return [Part(*row) for row in self._rows(self._sql.parts, values)]

    # ---- threads

    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread that have checkpoints, sorted."""
        return [namespace for (namespace,) in self._rows(self._sql.namespaces, {"thread_id": thread_id})]

    def threads(self, *, after: str | None = None, limit: int | None = None) -> list[StoredThread]:
        """The threads that have a checkpoint of their own, sorted."""
        return self._read(self._sql.threads, after=after, limit=limit)

    def drop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Removes checkpoints and what nobody needs any more."""
        gone = list(checkpoint_ids)

        def drop(session: Session) -> None:
            with session.transaction():
                if lease is not None:
                    self._fence(session, self._sql.hold, thread_id, lease)
                series = rows(session, self._sql.lock, {"thread_id": thread_id, "namespace": namespace})
                for series_id, head_id in series:
                    ids = (
                        [i for (i,) in rows(session, self._sql.ids, {"id": series_id})]
                        if head_id in gone
                        else ()
                    )
                    if drops_all(thread_id, namespace, ids, gone, head_id):
                        do(session, self._sql.delete_one, {"id": series_id})
                        do(session, self._sql.delete_rows, {"ids": [series_id]})
                        continue
                    do(session, self._sql.drop, {"id": series_id, "gone": gone})
                    do(session, self._sql.drop_parts, {"id": series_id})

        self._connections.run(drop)

    def delete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """Removes everything of a thread."""
        named = {"thread_id": thread_id}

        def delete(session: Session) -> None:
            with session.transaction():
                if lease is None:
                    do(session, self._sql.delete_lease, named)
                else:
                    self._fence(session, self._sql.take_away, thread_id, lease)
                # Waits for the puts that are being made; the next statement sees what they stored.
                ids = [series_id for (series_id,) in rows(session, self._sql.delete_series, named)]
                do(session, self._sql.delete_rows, {"ids": ids})

        again = f"Thread {thread_id!r} may or may not have been deleted: look whether it is there, and delete it again"
        self._connections.run(delete, unless_told=None if lease is None else again)

    # ---- leases

    def acquire_lease(
        self, thread_id: str, holder: str, token: str, ttl: float | None, *, instead_of: str | None = None
    ) -> Lease:
        """Takes the lease of a thread, if it can be had."""
        wanted = {
            "thread_id": thread_id,
            "holder": holder,
            "token": token,
            "ttl": ttl,
            "instead_of": instead_of,
        }

        def acquire(session: Session) -> Lease:
            while not rows(session, self._sql.acquire, wanted):
                for row in rows(session, self._sql.lease, wanted):  # none, if it was given back meanwhile
                    raise thread_busy(Lease(*row))
            return Lease(thread_id, holder, token, ttl)

        return self._connections.run(acquire)

    def renew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """Lets leases run out later; returns those that are still their threads'."""
        values = {
            "thread_ids": [lease.thread_id for lease in leases],
            "tokens": [lease.token for lease in leases],
            "ttl": ttl,
        }
        renewed = {(thread_id, token) for thread_id, token in self._rows(self._sql.renew, values)}
        return [
            lease._replace(expires_in=ttl) for lease in leases if (lease.thread_id, lease.token) in renewed
        ]

    def release_lease(self, lease: Lease) -> None:
        """Gives a lease back."""
        values = {"thread_id": lease.thread_id, "token": lease.token}
        self._connections.run(lambda session: do(session, self._sql.release, values))

    def leases(self) -> list[Lease]:
        """Every lease there is, sorted by thread."""
        return [Lease(*row) for row in self._rows(self._sql.leases, {})]

    # ---- the end

    def close(self) -> None:
        """Closes the connections, unless the pool was given."""
        self._connections.close()

    def _rows(self, query: bytes, values: Mapping[str, Any]) -> list[Any]:
        return self._connections.run(lambda session: rows(session, query, values))

    def _read(self, query: bytes, **values: str | int | None) -> list[StoredThread]:
        return _threads(self._rows(query, values))

    def _fence(self, session: Session, query: bytes, thread_id: str, lease: Lease) -> None:
        """Makes sure of the lease until the commit, by a query that gives its row where it is the thread's."""
        if not rows(session, query, {"thread_id": thread_id, "token": lease.token}):
            held = [holder for _, holder, *_ in rows(session, self._sql.lease, {"thread_id": thread_id})]
            raise lease_lost(lease, held[0] if held else None)

    def _why_not(
        self, session: Session, thread_id: str, namespace: str, known: str | None, lease: Lease | None
    ) -> int:
        """Raises what refused a write to that head; if nothing does any more, returns the head's place, 0 for none."""
        values = {"thread_id": thread_id, "namespace": namespace}
        ((head_id, head_seq, holder, token),) = rows(session, self._sql.head_and_lease, values)
        if lease is not None and token != lease.token:
            raise lease_lost(lease, holder)
        if head_id != known:
            raise head_moved(thread_id, namespace, known, head_id)
        return head_seq or 0


def _ends(spans: Spans) -> dict[str, list[int]]:
    return {"firsts": [first for first, _ in spans], "lasts": [last for _, last in spans]}


def _columns(records: Sequence[StoredRecord]) -> dict[str, list[Any]]:
    """Records as columns. Of those with one key the first gives the place and the last the content, as law 6 asks."""
    last = {record[:3]: record for record in records}
    return {
        # No text that can be stored has a NUL. Others are refused when they are sent.
        "keys": [sha256("\0".join(key).encode(errors="surrogatepass")).digest() for key in last],
        "task_ids": [record.task_id for record in last.values()],
        "kinds": [record.kind for record in last.values()],
        "names": [record.name for record in last.values()],
        "contents": [record.content for record in last.values()],
    }


def _threads(found: list[Any]) -> list[StoredThread]:
    """What rows hold, in their shape (see `juncture.savers.postgres_sql`): checkpoints, then records, then parts."""
    threads: dict[tuple[int, int], StoredThread] = {}
    records: dict[tuple[int, int], list[StoredRecord]] = {}
    parts: list[Part] = []
    for what, series_id, seq, _, texts, numbers, seconds, content in found:
        if what == 0:
            threads[series_id, seq] = _thread(seq, texts, numbers, seconds, content)
        elif what == 1:
            task_id, kind, name = texts
            records.setdefault((series_id, seq), []).append(StoredRecord(task_id, kind, name, content))
        else:  # of the only checkpoint
            parts.append(Part(seq, texts[0], content))
    for place, kept in records.items():
        threads[place].head.records = tuple(kept)
    for thread in threads.values():
        thread.head.parts = tuple(parts)
    return list(threads.values())


def _thread(
    seq: int, texts: list[Any], numbers: list[int], seconds: list[Any], header: bytes
) -> StoredThread:
    thread_id, namespace, head_id, checkpoint_id, parent_id, source, run_id, holder, token = texts
    head_seq, step, *ends = numbers
    half = len(ends) // 2
    created_at, expires_in = seconds
    stored = StoredCheckpoint(
        thread_id,
        namespace,
        checkpoint_id,
        parent_id,
        step,
        source,
        run_id,
        created_at,
        seq,
        tuple(zip(ends[:half], ends[half:], strict=True)),
        header,
    )
    lease = None if token is None else Lease(thread_id, holder, token, expires_in)
    return StoredThread(thread_id, LoadedCheckpoint(stored, head_id, head_seq), lease)
