"""Checkpoints in a folder: nothing to install or to run, and several processes of one machine at once.

What the files hold, and when it counts, is written at the top of `juncture.savers.file_format`; how one is opened, locked
and written, in `juncture.savers.file_log`. What follows for the laws:

* A thread is one log, to which a call appends one frame: so a call is stored as a whole or not at all, in one write and
  one `fsync`. `drop` writes the log anew beside the old one and renames it; `delete_thread` unlinks it.
* Every call locks the thread's log, shared to read, exclusive to write, for as long as it takes. A thread's lease is
  only read and written under that lock. No call holds two locks; one that waits too long for one fails.
* What a log says is kept in memory, without payloads, for the `KEPT` threads used last.
* Leases run out by this machine's clock (`time.time`), which all processes of the machine share. A clock that is set
  forward lets others take a lease early; whoever had it then can't write any more, so nothing is lost.

The folder must be on a disk of this machine: locks and renames of network drives don't promise what this needs. It
needs POSIX; on Windows take the SQLite saver.
"""

from __future__ import annotations

import os
import secrets
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import time

from juncture.errors import ConfigError, SaverError, SaverUnavailableError
from juncture.savers import file_format as form
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
from juncture.savers.file_log import (
    Index,
    Log,
    locked,
    named,
    read_lease,
    read_thread_id,
    sync_folder,
    write_lease,
    write_new,
)

KEPT = 256
"""For how many threads the index stays in memory."""


class FileSaver(Saver):
    """Keeps checkpoints in a folder, for any number of processes of this machine.

    For a few hundred threads, for debugging (one file a thread, easy to copy or delete), and where SQLite isn't there.
    Listing threads opens a file for each. What is stored is readable to whoever can read the folder; it is made for
    its owner alone.

    Args:
        directory: Is made if it isn't there; relative to the working directory of now.
        fsync: Whether a call returns only when the disk has what it stored. Without it, all is safe as long as the
            machine runs, and a power cut may take the last calls or damage a log.
        lease_ttl: Seconds after which a run that doesn't renew its lease may be taken for dead; None for never.

    Raises:
        ConfigError: This isn't a POSIX system.
        SaverUnavailableError: The folder can't be made or used.
        SaverError: It has a newer format.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        fsync: bool = True,
        lease_ttl: float | None = 30.0,
    ) -> None:
        if find_spec("fcntl") is None:
            raise ConfigError("FileSaver needs POSIX file locks. Use SQLite here: 'sqlite:runs.db'.")
        self.lease_ttl = lease_ttl
        self._fsync = fsync
        self._folder = Path(os.path.abspath(directory))
        self._logs, self._leases = self._folder / "threads", self._folder / "leases"
        self._lock = threading.Lock()
        self._indexes: OrderedDict[str, Index] = OrderedDict()
        self._ids: dict[str, str] = {}
        self._closed = False
        with self._reporting():
            self._prepare()

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
        with self._reading(thread_id) as log:
            series = None if log is None else log.series.get(namespace)
            if log is None or series is None:
                return None
            if checkpoint_id is None:
                checkpoint_id = series.ids[-1]
            elif checkpoint_id not in series.checkpoints:
                return None
            found = log.loaded(series, checkpoint_id)
            if checkpoint_id != known:
                stored = found.checkpoint
                found.parts = tuple(log.parts(series, (*stored.builds_on, (stored.seq, stored.seq))))
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
        with self._writing(checkpoint.thread_id) as log:
            self._check(log, checkpoint.namespace, follows, lease)
            series = log.series.get(checkpoint.namespace)
            check_next(checkpoint, follows, series.head.seq if series else 0, records)
            meta = form.checkpoint_meta(checkpoint, payload, follows, records)
            log.append(meta, [payload, *form.contents(records)])

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
        with self._writing(thread_id) as log:
            self._check(log, namespace, checkpoint_id, lease)
            if records:
                log.append(form.records_meta(namespace, checkpoint_id, records), form.contents(records))

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
        with self._reading(thread_id) as log:
            series = None if log is None else log.series.get(namespace)
            if log is None or series is None:
                return []
            end = len(series.ids) if before is None else bisect_left(series.ids, before)
            begin = 0 if limit is None else max(0, end - limit)
            return [log.loaded(series, i, records=records) for i in reversed(series.ids[begin:end])]

    def parts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """The parts in these ranges, ascending, each once."""
        with self._reading(thread_id) as log:
            series = None if log is None else log.series.get(namespace)
            if log is None or series is None:
                return []
            return log.parts(series, tuple((seq, seq) for seq in sorted(set(series.seqs_in(spans)))))

    # ---- threads

    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread that have checkpoints, sorted."""
        with self._reading(thread_id) as log:
            return [] if log is None else sorted(log.series)

    def threads(self, *, after: str | None = None, limit: int | None = None) -> list[StoredThread]:
        """The threads that have a checkpoint of their own, sorted; each as it is when its turn comes.

        Opens the file of every thread once a process, and then those of the threads that it returns.
        """
        self._check_open()
        with self._reporting():
            thread_ids = self._thread_ids()
        found: list[StoredThread] = []
        for thread_id in sorted(thread_ids):
            if limit is not None and len(found) >= limit:
                break
            if after is not None and thread_id <= after:
                continue
            with self._reading(thread_id) as log:
                if log is not None and "" in log.series:
                    series = log.series[""]
                    found.append(
                        StoredThread(thread_id, log.loaded(series, series.ids[-1]), self._lease(log))
                    )
        return found

    def drop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Removes checkpoints and what nobody needs any more. Writes the thread's whole log anew."""
        gone = frozenset(checkpoint_ids)
        with self._writing(thread_id) as log:
            self._fence(log, lease)
            series = log.series.get(namespace)
            if series is None:
                return
            whole = drops_all(thread_id, namespace, series.ids, gone, series.ids[-1])
            if whole and len(log.series) == 1 and self._lease(log) is None:
                log.delete()
            elif not gone.isdisjoint(series.checkpoints):
                log.rewrite(namespace, gone)

    def delete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """Removes everything of a thread."""
        with self._writing(thread_id) as log:
            self._fence(log, lease)
            log.delete()

    # ---- leases

    def acquire_lease(
        self, thread_id: str, holder: str, token: str, ttl: float | None, *, instead_of: str | None = None
    ) -> Lease:
        """Takes the lease of a thread, if it can be had."""
        with self._writing(thread_id) as log:
            held = self._lease(log)
            if (
                held is not None
                and held.token not in (token, instead_of)
                and (held.expires_in is None or held.expires_in > 0)
            ):
                raise thread_busy(held)
            log.begin()
            lease = Lease(thread_id, holder, token, ttl)
            self._write_lease(log, lease, ttl)
            return lease

    def renew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """Lets leases run out later; returns those that are still their threads'. Each thread has a file of its own."""
        self._check_open()
        renewed: list[Lease] = []
        for lease in leases:
            with self._writing(lease.thread_id) as log:
                held = self._lease(log)
                if held is not None and held.token == lease.token:
                    self._write_lease(log, held, ttl)
                    renewed.append(lease._replace(expires_in=ttl))
        return renewed

    def release_lease(self, lease: Lease) -> None:
        """Gives a lease back."""
        with self._writing(lease.thread_id) as log:
            held = self._lease(log)
            if held is not None and held.token == lease.token:
                log.lease_path.unlink()

    def leases(self) -> list[Lease]:
        """Every lease there is, sorted by thread."""
        self._check_open()
        with self._reporting():
            thread_ids = [self._id_of(name) for name in named(self._leases, ".lease")]
        found: list[Lease] = []
        for thread_id in sorted(thread_id for thread_id in thread_ids if thread_id is not None):
            with self._reading(thread_id) as log:
                lease = None if log is None else self._lease(log)
                if lease is not None:
                    found.append(lease)
        return found

    # ---- the end

    def close(self) -> None:
        """Forgets what is in memory; no file is open between calls."""
        with self._lock:
            self._closed = True
            self._indexes.clear()
            self._ids = {}

    # ---- opening

    def _prepare(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker = self._folder / "juncture.format"
        try:
            found = marker.read_bytes()
        except FileNotFoundError:
            fresh = self._folder / f"juncture.format.{secrets.token_hex(8)}.new"
            write_new(fresh, form.MARKER, sync=self._fsync)
            fresh.replace(marker)  # others that start at this moment write the same
            found = form.MARKER
        if found != form.MARKER:
            raise SaverError(
                f"{marker} says {found[:40]!r}, and this Juncture reads {form.MARKER!r}. Use a newer Juncture, or another "
                "folder. Nothing was changed."
            )
        for folder in (self._logs, self._leases):
            folder.mkdir(mode=0o700, exist_ok=True)
        if self._fsync:
            sync_folder(self._folder)

    @contextmanager
    def _reading(self, thread_id: str) -> Generator[Log | None]:
        """The thread's log, which nobody writes to meanwhile; None if there is none."""
        with (
            self._using(thread_id) as index,
            locked(self._logs / f"{index.name}.log", to_write=False) as file,
        ):
            log = None if file is None else self._log(index, file)
            yield log if log is not None and log.is_there else None

    @contextmanager
    def _writing(self, thread_id: str) -> Generator[Log]:
        """The thread's log, which nobody else reads or writes meanwhile. One that stays empty is removed again."""
        with (
            self._using(thread_id) as index,
            locked(self._logs / f"{index.name}.log", to_write=True) as file,
        ):
            assert file is not None, "it was made"
            log = self._log(index, file)
            try:
                yield log
            finally:
                if not log.is_over and log.is_empty and self._lease(log) is None:
                    log.delete()

    def _log(self, index: Index, file: int) -> Log:
        path, lease_path = self._logs / f"{index.name}.log", self._leases / f"{index.name}.lease"
        return Log(index, file, path, lease_path, sync=self._fsync)

    @contextmanager
    def _using(self, thread_id: str) -> Generator[Index]:
        name = form.name_of(thread_id)
        with self._lock:
            if self._closed:
                self._check_open()
            index = self._indexes.get(name)
            if index is None:
                index = self._indexes[name] = Index(thread_id, name)
                if len(self._indexes) > KEPT:
                    self._indexes.popitem(last=False)  # whoever uses it still may
            else:
                self._indexes.move_to_end(name)
        with index.busy, self._reporting():
            try:
                yield index
            except SaverError:
                raise
            except BaseException:  # it may have come between two things that belong together
                index.forget()
                raise

    @contextmanager
    def _reporting(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise SaverUnavailableError(
                f"the folder {str(self._folder)!r} can't be used: {error}. What was saved before stays. Is the disk full, "
                "or the folder gone or not yours?"
            ) from error

    def _check_open(self) -> None:
        if self._closed:
            raise SaverError("this FileSaver was closed. Open the folder with a new one.")

    def _thread_ids(self) -> list[str]:
        found = {name: self._id_of(name) for name in named(self._logs, ".log")}
        self._ids = {name: thread_id for name, thread_id in found.items() if thread_id is not None}
        return list(self._ids.values())

    def _id_of(self, name: str) -> str | None:
        """The thread that a name stands for, for ever: so it is read once. None if it has no log now."""
        known = self._ids  # another worker may put a new dict in its place meanwhile
        if name not in known:
            thread_id = read_thread_id(self._logs / f"{name}.log")
            if thread_id is None:
                return None
            known[name] = thread_id
        return known[name]

    # ---- leases, with the log locked

    def _lease(self, log: Log) -> Lease | None:
        kept = read_lease(log.lease_path)
        if kept is None or not log.is_there or kept.birth != form.birth_of(log.start):
            return None
        left = None if kept.until is None else kept.until - time()
        return Lease(kept.thread_id, kept.holder, kept.token, left)

    def _write_lease(self, log: Log, lease: Lease, ttl: float | None) -> None:
        """Not synced: after a power cut nobody is there who could have it."""
        until = None if ttl is None else time() + ttl
        kept = form.LeaseFile(form.birth_of(log.start), lease.thread_id, lease.holder, lease.token, until)
        write_lease(log.lease_path, form.lease_bytes(kept))

    def _fence(self, log: Log, lease: Lease | None) -> None:
        if lease is not None:
            held = self._lease(log)
            if held is None or held.token != lease.token:
                raise lease_lost(lease, None if held is None else held.holder)

    def _check(self, log: Log, namespace: str, known: str | None, lease: Lease | None) -> None:
        self._fence(log, lease)
        series = log.series.get(namespace)
        head = series.ids[-1] if series else None
        if head != known:
            raise head_moved(log.thread_id, namespace, known, head)
