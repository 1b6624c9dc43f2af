"""Checkpoints in a file of SQLite: for one machine, and for any number of its processes.

What the file and its transactions are like is said in `juncture.savers.sqlite_file`, the tables and statements in
`juncture.savers.sqlite_sql`. Every method is one transaction, and reads whole what it asks for: a cursor that is left
half read would hold the connection to what the file was then. The twins run on a thread of the saver's own, except for
small puts that needn't wait.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, ParamSpec, TypeAlias, TypeVar

from juncture.errors import ConfigError, SaverError
from juncture.savers import sqlite_sql as sql
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
    needed_parts,
    thread_busy,
)
from juncture.savers.one_worker import OneWorker
from juncture.savers.sqlite_file import Database, Run, Synchronous, Transaction

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Row: TypeAlias = tuple[Any, ...]


AT_ONCE = 32_768
"""Bytes up to which a checkpoint with its records is stored on the event loop, which takes some 50 µs."""
PAGES_OF_A_PUT, BYTES_OF_A_PAGE = 4, 2048
"""At most so many pages a put writes into the log, and one more for so many bytes of its payload."""
PAGES_BETWEEN_TIDYING = 800
"""Fewer than fill the log to the point (a thousand pages) where SQLite moves it into the file by itself, and waits."""


class SqliteSaver(Saver):
    """Keeps checkpoints in a file, which any number of processes of one machine can use at once.

    Args:
        path: The file; made at first use if it isn't there, in a folder that is. Relative to the working directory of
            now. Beside it stand the log (``-wal``, ``-shm``) while the file is in use: they belong to it.
        synchronous: With ``FULL``, what was saved survives a crash of the machine. With ``NORMAL`` a save doesn't wait
            for the disk: what was saved survives a crash of the process, and a crash of the machine may undo the
            newest saves, in order. The file stays whole in either case.
        lease_ttl: Seconds after which a run that doesn't renew its lease may be taken for dead; None for never.
        timeout: Seconds to wait for another process that writes to the file.

    Raises:
        ConfigError: An argument can't be right.

    The file is opened at first use. Its methods raise `SaverUnavailableError` where it can't be used now (no folder,
    locked for too long, disk full …), and `SaverError` where it can't be used at all (another program's, of a newer
    version, damaged …); nothing was saved then.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        lease_ttl: float | None = 30.0,
        timeout: float = 10.0,
    ) -> None:
        name = os.fspath(path)
        if not name or "\x00" in name or name == ":memory:":
            raise ConfigError(
                f"SqliteSaver needs the path of a file, not {name!r}. To keep checkpoints in memory, use "
                "InMemorySaver (`memory:` as a URL)."
            )
        if synchronous not in {"FULL", "NORMAL"}:
            raise ConfigError(f"synchronous is 'FULL' or 'NORMAL', not {synchronous!r}.")
        if lease_ttl is not None and not lease_ttl > 0:
            raise ConfigError(
                f"lease_ttl is a number of seconds above 0, or None for never, not {lease_ttl!r}."
            )
        if not timeout >= 0:
            raise ConfigError(f"timeout is a number of seconds, not {timeout!r}.")
        self.lease_ttl = lease_ttl
        self._database = Database(os.path.abspath(name), sql.SCHEMA, synchronous=synchronous, timeout=timeout)
        self._worker = OneWorker("juncture-sqlite")
        self._untidy_pages = 0

    # ---- checkpoints

    def load(
        self,
        thread_id: str,
        namespace: str = "",
        checkpoint_id: str | None = None,
        *,
        known: str | None = None,
    ) -> LoadedCheckpoint | None:
        """The head, or the checkpoint of that id; None if there is none."""
        with self._database.reading() as run:
            head: _Row | None = run(sql.HEAD, (thread_id, namespace)).fetchone()
            if head is None:
                return None
            series, head_id, head_seq = head[0], head[1], head[7]
            row: _Row | None = head[1:]
            if checkpoint_id is not None and checkpoint_id != head_id:
                row = run(sql.ONE, (series, checkpoint_id)).fetchone()
                if row is None:
                    return None
            stored = _stored(thread_id, namespace, row)
            parts = () if stored.checkpoint_id == known else _parts_of(run, series, stored)
            records = run(sql.RECORDS, (series << sql.SEQ_BITS | stored.seq,)).fetchall()
        return LoadedCheckpoint(stored, head_id, head_seq, parts, tuple(map(StoredRecord._make, records)))

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
        self._put(self._database.writing(), checkpoint, payload, follows, records, lease)

    async def aput(
        self,
        checkpoint: StoredCheckpoint,
        payload: bytes,
        *,
        follows: str | None,
        records: Sequence[StoredRecord] = (),
        lease: Lease | None = None,
    ) -> None:
        """As `put`. What is small, and waits for neither disk nor others, is stored at once: a worker takes longer."""
        size = len(payload) + sum(len(record.content) for record in records)
        if self._database.synchronous == "NORMAL" and size <= AT_ONCE:
            transaction = self._database.writing_at_once()
            with suppress(BlockingIOError):  # somebody writes at this moment: a worker waits for that
                self._put(transaction, checkpoint, payload, follows, records, lease)
                self._untidy_pages += PAGES_OF_A_PUT + size // BYTES_OF_A_PAGE
                if self._untidy_pages >= PAGES_BETWEEN_TIDYING:
                    self._untidy_pages = 0
                    # Awaited, because puts that come meanwhile would keep it waiting for the file.
                    await self._worker.call(self._database.tidy)
                return
        await super().aput(checkpoint, payload, follows=follows, records=records, lease=lease)

    def _put(
        self,
        transaction: Transaction,
        checkpoint: StoredCheckpoint,
        payload: bytes,
        follows: str | None,
        records: Sequence[StoredRecord],
        lease: Lease | None,
    ) -> None:
        thread_id, namespace, seq = checkpoint.thread_id, checkpoint.namespace, checkpoint.seq
        checkpoint_id, parent_id, run_id = checkpoint.checkpoint_id, checkpoint.parent_id, checkpoint.run_id
        _check_text(thread_id, namespace, checkpoint_id, parent_id or "", checkpoint.source, run_id)
        with transaction as run:
            series, head_seq = _check_head(run, thread_id, namespace, follows, lease)
            check_next(checkpoint, follows, head_seq, records)
            if seq > sql.MOST:
                raise SaverError(
                    f"thread {thread_id!r} has {sql.MOST} checkpoints, and SqliteSaver has room for no more. Nothing was "
                    "saved; go on in another thread."
                )
            if series is None:
                made = run("INSERT INTO series (thread_id, namespace) VALUES (?, ?)", (thread_id, namespace))
                series = made.lastrowid or 0
            elif records:
                _put_records(run, series << sql.SEQ_BITS | head_seq, records)
            run(
                sql.PUT_CHECKPOINT,
                (
                    series,
                    checkpoint_id,
                    None if parent_id is None else packed(parent_id),
                    checkpoint.step,
                    checkpoint.source,
                    packed(run_id),
                    checkpoint.created_at,
                    seq,
                    " ".join([f"{first}-{last}" for first, last in checkpoint.builds_on]),
                    checkpoint.header,
                ),
            )
            run(sql.PUT_PART, (series << sql.SEQ_BITS | seq, packed(checkpoint_id), payload))

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
        with self._database.writing() as run:
            series, seq = _check_head(run, thread_id, namespace, checkpoint_id, lease)
            assert series is not None
            _put_records(run, series << sql.SEQ_BITS | seq, records)

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
        count = -1 if limit is None else limit
        with self._database.reading() as run:
            head: _Row | None = run(sql.WHERE, (thread_id, namespace)).fetchone()
            if head is None:
                return []
            series, head_id, head_seq = head
            if before is None:
                rows = run(sql.ALL, (series, count)).fetchall()
            else:
                rows = run(sql.BEFORE, (series, before, count)).fetchall()
            found = [LoadedCheckpoint(_stored(thread_id, namespace, row), head_id, head_seq) for row in rows]
            if found and records:
                first, last = found[-1].checkpoint.seq, found[0].checkpoint.seq
                between = (series << sql.SEQ_BITS | first, series << sql.SEQ_BITS | last)
                beside = _by_place(run(sql.RECORDS_BETWEEN, between).fetchall())
                for one in found:
                    one.records = tuple(beside.get(series << sql.SEQ_BITS | one.checkpoint.seq, ()))
        return found

    def parts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """The parts in these ranges, ascending, each once."""
        with self._database.reading() as run:
            head: _Row | None = run(sql.WHERE, (thread_id, namespace)).fetchone()
            return [] if head is None else _parts_in(run, head[0], _merged(spans))

    # ---- threads

    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread that have checkpoints, sorted."""
        with self._database.reading() as run:
            rows = run(
                "SELECT namespace FROM series WHERE thread_id = ? ORDER BY namespace", (thread_id,)
            ).fetchall()
        return [namespace for (namespace,) in rows]

    def threads(self, *, after: str | None = None, limit: int | None = None) -> list[StoredThread]:
        """The threads that have a checkpoint of their own, sorted."""
        statement = sql.THREADS.format(after=">=" if after is None else ">")
        found: list[StoredThread] = []
        with self._database.reading() as run:
            rows = run(statement, (after or "", -1 if limit is None else limit)).fetchall()
            places = [row[0] << sql.SEQ_BITS | row[8] for row in rows]
            beside = _by_place(run(sql.RECORDS_AT, (json.dumps(places),)).fetchall())
        for place, row in zip(places, rows, strict=True):
            thread_id, (holder, token, expires_in) = row[1], row[-3:]
            stored = _stored(thread_id, "", row[2:-3])
            records = tuple(beside.get(place, ()))
            head = LoadedCheckpoint(stored, stored.checkpoint_id, stored.seq, records=records)
            lease = None if token is None else Lease(thread_id, holder, token, expires_in)
            found.append(StoredThread(thread_id, head, lease))
        return found

    def drop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Removes checkpoints and what nobody needs any more. The file keeps the room for what comes."""
        with self._database.writing() as run:
            _fence(run, thread_id, lease)
            head: _Row | None = run(sql.WHERE, (thread_id, namespace)).fetchone()
            if head is None:
                return
            series, head_id, head_seq = head
            dropped = frozenset(checkpoint_ids)
            ids = (row[0] for row in run(sql.IDS, (series,)).fetchall())
            if drops_all(thread_id, namespace, ids, dropped, head_id):
                for statement in sql.DELETE_SERIES:
                    run(statement, (series,))
                return
            gone = run(
                "DELETE FROM checkpoints WHERE series = ? AND checkpoint_id IN (SELECT value FROM json_each(?)) "
                "RETURNING seq",
                (series, _as_json(dropped)),
            ).fetchall()
            if not gone:
                return
            places = [series << sql.SEQ_BITS | seq for (seq,) in gone]
            run("DELETE FROM records WHERE place IN (SELECT value FROM json_each(?))", (json.dumps(places),))
            left = (_stored(thread_id, namespace, row) for row in run(sql.ALL, (series, -1)).fetchall())
            run(sql.DELETE_PARTS, (_places(series, _between(needed_parts(left), head_seq)),))

    def delete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """Removes everything of a thread. The file keeps the room for what comes."""
        with self._database.writing() as run:
            _fence(run, thread_id, lease)
            for series in run(sql.SERIES, (thread_id,)).fetchall():
                for statement in sql.DELETE_SERIES:
                    run(statement, series)
            run(sql.DELETE_LEASE, (thread_id,))

    # ---- leases

    def acquire_lease(
        self, thread_id: str, holder: str, token: str, ttl: float | None, *, instead_of: str | None = None
    ) -> Lease:
        """Takes the lease of a thread, if it can be had."""
        _check_text(thread_id, holder, token)
        with self._database.passing() as run:
            row: _Row | None = run(sql.LEASE, (thread_id,)).fetchone()
            if row is not None:
                held = Lease._make(row)
                over = held.expires_in is not None and held.expires_in <= 0
                if not over and held.token not in {token, instead_of}:
                    raise thread_busy(held)
            run(sql.PUT_LEASE, (thread_id, holder, token, ttl))
        return Lease(thread_id, holder, token, ttl)

    def renew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """Lets leases run out later; returns those that are still their threads'."""
        asked = [(lease.thread_id, lease.token) for lease in leases]
        with self._database.passing() as run:
            found = set(run(sql.RENEW, (ttl, _as_json(asked))).fetchall())
        return [lease._replace(expires_in=ttl) for lease in leases if (lease.thread_id, lease.token) in found]

    def release_lease(self, lease: Lease) -> None:
        """Gives a lease back."""
        with self._database.passing() as run:
            run("DELETE FROM leases WHERE thread_id = ? AND token = ?", (lease.thread_id, lease.token))

    def leases(self) -> list[Lease]:
        """Every lease there is, sorted by thread."""
        with self._database.reading() as run:
            rows = run(f"SELECT thread_id, holder, token, until - {sql.NOW} FROM leases ORDER BY thread_id")
            return [Lease._make(row) for row in rows.fetchall()]

    # ---- the end

    def close(self) -> None:
        """Closes the file, once nobody uses it."""
        self._database.close()
        self._worker.close()

    async def _elsewhere(self, call: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self._worker.call(partial(call, *args, **kwargs))


# ---- what is checked


def _check_text(*texts: str) -> None:
    # One search in all of them; what isn't valid Unicode SQLite refuses itself.
    if "\x00" in "".join(texts):
        bad = next(text for text in texts if "\x00" in text)
        raise ConfigError(
            f"SqliteSaver keeps no text with a NUL character in it: {bad!r}. Nothing was saved."
        )


def _fence(run: Run, thread_id: str, lease: Lease | None) -> None:
    if lease is not None:
        held: _Row | None = run(
            "SELECT token, holder FROM leases WHERE thread_id = ?", (thread_id,)
        ).fetchone()
        if held is None or held[0] != lease.token:
            raise lease_lost(lease, None if held is None else held[1])


def _check_head(
    run: Run, thread_id: str, namespace: str, known: str | None, lease: Lease | None
) -> tuple[int | None, int]:
    """The series and the place of its head, None and 0 where there is none; raises if the caller is behind."""
    found: _Row | None = run(sql.WHERE_AND_LEASE, (thread_id, namespace)).fetchone()
    series, head, seq, token = found or (None, None, 0, None)
    if lease is not None and token != lease.token:
        _fence(run, thread_id, lease)
    if head != known:
        raise head_moved(thread_id, namespace, known, head)
    return series, seq


# ---- between rows and ours


def _stored(thread_id: str, namespace: str, row: _Row) -> StoredCheckpoint:
    checkpoint_id, parent_id, step, source, run_id, created_at, seq, builds_on, header = row
    spans = (span.split("-") for span in builds_on.split())
    return StoredCheckpoint(
        thread_id=thread_id,
        namespace=namespace,
        checkpoint_id=checkpoint_id,
        parent_id=None if parent_id is None else unpacked(parent_id),
        step=step,
        source=source,
        run_id=unpacked(run_id),
        created_at=created_at,
        seq=seq,
        builds_on=tuple((int(first), int(last)) for first, last in spans),
        header=header,
    )


def _put_records(run: Run, place: int, records: Iterable[StoredRecord]) -> None:
    for record in records:
        _check_text(*record[:3])
        run(sql.PUT_RECORD, (place, *record))


def _by_place(rows: Iterable[_Row]) -> dict[int, list[StoredRecord]]:
    found: dict[int, list[StoredRecord]] = {}
    for place, *record in rows:
        found.setdefault(place, []).append(StoredRecord._make(record))
    return found


def _parts_of(run: Run, series: int, stored: StoredCheckpoint) -> tuple[Part, ...]:
    """What a checkpoint holds, in its order."""
    found = _parts_in(run, series, needed_parts((stored,)))
    order = (*stored.builds_on, (stored.seq, stored.seq))
    if list(order) == sorted(order):
        return tuple(found)
    by_seq = {part.seq: part for part in found}
    return tuple(by_seq[seq] for first, last in order for seq in range(first, last + 1) if seq in by_seq)


def _parts_in(run: Run, series: int, spans: Sequence[tuple[int, int]]) -> list[Part]:
    """The parts in these ranges, which don't touch and ascend."""
    if len(spans) == 1:
        ((first, last),) = spans
        rows = run(sql.PARTS, (series << sql.SEQ_BITS | first, series << sql.SEQ_BITS | last))
    else:
        rows = run(sql.PARTS_IN, (_places(series, spans),))
    return [
        Part(place & sql.MOST, unpacked(packed_id), payload) for place, packed_id, payload in rows.fetchall()
    ]


def _merged(spans: Spans) -> list[tuple[int, int]]:
    """The same places as ranges that don't overlap, within what a series can have."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted((max(first, 1), min(last, sql.MOST)) for first, last in spans):
        if first > last:
            continue
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _between(spans: Spans, last: int) -> list[tuple[int, int]]:
    """The ranges that are left between these, from 1 to ``last``."""
    ends = [0, *(span[1] for span in spans)]
    starts = [*(span[0] for span in spans), last + 1]
    return [(end + 1, start - 1) for end, start in zip(ends, starts, strict=True) if end + 1 < start]


def _places(series: int, spans: Iterable[tuple[int, int]]) -> str:
    return json.dumps(
        [[series << sql.SEQ_BITS | first, series << sql.SEQ_BITS | last] for first, last in spans]
    )


def _as_json(texts: Iterable[str | tuple[str, str]]) -> str:
    # SQLite cuts a text in JSON short at a NUL, so that it might be taken for another; and none that is kept has one.
    return json.dumps([text for text in texts if "\x00" not in "".join(text)])


@lru_cache(maxsize=512)  # an id is packed as a part's, as the next one's parent's, and a run's once a step
def packed(text: str) -> bytes | str:
    """A text in as few bytes as may be: 16 for a UUID as usual, 17 for 32 hexadecimal digits; others stay text."""
    try:
        if len(text) == 36:
            short = bytes.fromhex(text.replace("-", ""))
        elif len(text) == 32:
            short = bytes.fromhex(text) + b"-"
        else:
            return text
    except ValueError:
        return text
    return short if unpacked(short) == text else text


def unpacked(stored: bytes | str) -> str:
    """The text of `packed`."""
    if isinstance(stored, str):
        return stored
    text = stored.hex()
    if len(stored) == 17:
        return text[:32]
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
