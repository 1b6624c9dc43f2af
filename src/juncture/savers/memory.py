"""Checkpoints in this process's memory: for tests, for programs that need no durability, and as the plainest saver.

Everything goes through one lock; nothing in here waits for anything else. Stored objects are shared with callers,
which is safe because nobody changes them (`StoredCheckpoint`) and payloads are bytes. Leases never run out by
default: a run can't die without the process that keeps them.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic

from juncture.errors import SaverError
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

_Records = dict[tuple[str, str, str], StoredRecord]


@dataclass(slots=True)
class _Series:
    """The checkpoints of one namespace of one thread."""

    ids: list[str] = field(default_factory=list[str])
    """In order of saving, which is their order as text."""
    checkpoints: dict[str, StoredCheckpoint] = field(default_factory=dict[str, StoredCheckpoint])
    records: dict[str, _Records] = field(default_factory=dict[str, _Records])
    """By checkpoint; a dict keeps the place of a key whose value is replaced, as law 6 asks."""
    parts: dict[int, Part] = field(default_factory=dict[int, Part])

    def loaded(self, checkpoint_id: str, *, records: bool = True) -> LoadedCheckpoint:
        kept = self.records.get(checkpoint_id) if records else None
        head = self.checkpoints[self.ids[-1]]
        return LoadedCheckpoint(
            self.checkpoints[checkpoint_id],
            head.checkpoint_id,
            head.seq,
            records=tuple(kept.values()) if kept else (),
        )

    def parts_in(self, spans: Spans) -> list[Part]:
        parts = self.parts
        return [parts[seq] for first, last in spans for seq in range(first, last + 1) if seq in parts]


@dataclass(slots=True)
class _Held:
    """A lease, and when it runs out by the saver's clock."""

    lease: Lease
    until: float | None

    def read(self, now: float) -> Lease:
        return self.lease._replace(expires_in=None if self.until is None else self.until - now)


class InMemorySaver(Saver):
    """Keeps checkpoints in this process. They are gone when it ends, or with `close`.

    Args:
        lease_ttl: Seconds after which a run that doesn't renew its lease may be taken for dead; None for never.
        clock: Seconds, by which leases run out.
    """

    blocking = False

    def __init__(self, *, lease_ttl: float | None = None, clock: Callable[[], float] = monotonic) -> None:
        self.lease_ttl = lease_ttl
        self._clock = clock
        self._lock = threading.Lock()
        self._threads: dict[str, dict[str, _Series]] = {}
        self._leases: dict[str, _Held] = {}
        self._closed = False

    def load(
        self,
        thread_id: str,
        namespace: str = "",
        checkpoint_id: str | None = None,
        *,
        known: str | None = None,
    ) -> LoadedCheckpoint | None:
        """The head, or the checkpoint of that id; None if there is none."""
        with self._lock:
            series = self._series(thread_id, namespace)
            if series is None:
                return None
            if checkpoint_id is None:
                checkpoint_id = series.ids[-1]
            elif checkpoint_id not in series.checkpoints:
                return None
            found = series.loaded(checkpoint_id)
            if checkpoint_id != known:
                stored = found.checkpoint
                found.parts = tuple(series.parts_in((*stored.builds_on, (stored.seq, stored.seq))))
            return found

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
        thread_id, checkpoint_id, seq = checkpoint.thread_id, checkpoint.checkpoint_id, checkpoint.seq
        with self._lock:
            series = self._series(thread_id, checkpoint.namespace)
            self._check(thread_id, checkpoint.namespace, series, follows, lease)
            head_seq = 0 if series is None else series.checkpoints[series.ids[-1]].seq
            check_next(checkpoint, follows, head_seq, records)
            if series is None:
                series = self._threads.setdefault(thread_id, {})[checkpoint.namespace] = _Series()
            elif records and follows is not None:
                _keep(series, follows, records)
            series.parts[seq] = Part(seq, checkpoint_id, payload)
            series.ids.append(checkpoint_id)
            series.checkpoints[checkpoint_id] = checkpoint

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
        with self._lock:
            series = self._series(thread_id, namespace)
            self._check(thread_id, namespace, series, checkpoint_id, lease)
            if series is not None:
                _keep(series, checkpoint_id, records)

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
        with self._lock:
            series = self._series(thread_id, namespace)
            if series is None:
                return []
            end = len(series.ids) if before is None else bisect_left(series.ids, before)
            start = 0 if limit is None else max(0, end - limit)
            return [series.loaded(i, records=records) for i in reversed(series.ids[start:end])]

    def parts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """The parts in these ranges, ascending, each once."""
        with self._lock:
            series = self._series(thread_id, namespace)
            found = [] if series is None else series.parts_in(spans)
        return [part for _, part in sorted({part.seq: part for part in found}.items())]

    # ---- threads

    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread that have checkpoints, sorted."""
        with self._lock:
            self._check_open()
            return sorted(self._threads.get(thread_id, ()))

    def threads(self, *, after: str | None = None, limit: int | None = None) -> list[StoredThread]:
        """The threads that have a checkpoint of their own, sorted."""
        with self._lock:
            self._check_open()
            now = self._clock()
            named = sorted(
                thread_id
                for thread_id, series in self._threads.items()
                if "" in series and (after is None or thread_id > after)
            )
            found: list[StoredThread] = []
            for thread_id in islice(named, limit):
                series = self._threads[thread_id][""]
                held = self._leases.get(thread_id)
                lease = None if held is None else held.read(now)
                found.append(StoredThread(thread_id, series.loaded(series.ids[-1]), lease))
            return found

    def drop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Removes checkpoints and what nobody needs any more."""
        gone = frozenset(checkpoint_ids)
        with self._lock:
            series = self._series(thread_id, namespace)
            self._fence(thread_id, lease)
            if series is None:
                return
            if drops_all(thread_id, namespace, series.ids, gone, series.ids[-1]):
                del self._threads[thread_id][namespace]
                return
            series.ids = [i for i in series.ids if i not in gone]
            for checkpoint_id in gone:
                series.checkpoints.pop(checkpoint_id, None)
                series.records.pop(checkpoint_id, None)
            needed = needed_parts(series.checkpoints.values())
            series.parts = {part.seq: part for part in series.parts_in(needed)}

    def delete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """Removes everything of a thread."""
        with self._lock:
            self._check_open()
            self._fence(thread_id, lease)
            self._threads.pop(thread_id, None)
            self._leases.pop(thread_id, None)

    # ---- leases

    def acquire_lease(
        self, thread_id: str, holder: str, token: str, ttl: float | None, *, instead_of: str | None = None
    ) -> Lease:
        """Takes the lease of a thread, if it can be had."""
        with self._lock:
            self._check_open()
            now = self._clock()
            held = self._leases.get(thread_id)
            if (
                held is not None
                and held.lease.token not in (token, instead_of)
                and (held.until is None or held.until > now)
            ):
                raise thread_busy(held.read(now))
            lease = Lease(thread_id, holder, token, ttl)
            self._leases[thread_id] = _Held(lease, None if ttl is None else now + ttl)
            return lease

    def renew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """Lets leases run out later; returns those that are still their threads'."""
        with self._lock:
            self._check_open()
            until = None if ttl is None else self._clock() + ttl
            renewed: list[Lease] = []
            for lease in leases:
                held = self._leases.get(lease.thread_id)
                if held is not None and held.lease.token == lease.token:
                    held.until = until
                    renewed.append(lease._replace(expires_in=ttl))
            return renewed

    def release_lease(self, lease: Lease) -> None:
        """Gives a lease back."""
        with self._lock:
            self._check_open()
            held = self._leases.get(lease.thread_id)
            if held is not None and held.lease.token == lease.token:
                del self._leases[lease.thread_id]

    def leases(self) -> list[Lease]:
        """Every lease there is, sorted by thread."""
        with self._lock:
            self._check_open()
            now = self._clock()
            return [held.read(now) for _, held in sorted(self._leases.items())]

    # ---- the end

    def close(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._closed = True
            self._threads.clear()
            self._leases.clear()

    def _series(self, thread_id: str, namespace: str) -> _Series | None:
        if self._closed:
            self._check_open()
        thread = self._threads.get(thread_id)
        return None if thread is None else thread.get(namespace)

    def _check_open(self) -> None:
        if self._closed:
            raise SaverError("this InMemorySaver was closed, and what it kept is gone. Make a new one.")

    def _check(
        self,
        thread_id: str,
        namespace: str,
        series: _Series | None,
        known: str | None,
        lease: Lease | None,
    ) -> None:
        self._fence(thread_id, lease)
        head = None if series is None else series.ids[-1]
        if head != known:
            raise head_moved(thread_id, namespace, known, head)

    def _fence(self, thread_id: str, lease: Lease | None) -> None:
        if lease is not None:
            held = self._leases.get(thread_id)
            if held is None or held.lease.token != lease.token:
                raise lease_lost(lease, None if held is None else held.lease.holder)


def _keep(series: _Series, checkpoint_id: str, records: Sequence[StoredRecord]) -> None:
    kept = series.records.setdefault(checkpoint_id, {})
    for record in records:
        kept[record[:3]] = record


MemorySaver = InMemorySaver
"""LangGraph's other name for it."""
