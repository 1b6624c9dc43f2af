"""A thread's log of `FileSaver`: opened, locked, read up to its last valid frame, appended to, written anew.

What is in it is said in `juncture.savers.file_format`; which thread, and what follows from what it says, in
`juncture.savers.file`. Every function may raise `OSError`, which that one reports.

* The lock is the file's own (`flock`). After it was had, the file must still be the one of that name, because another
  process may have replaced or deleted it meanwhile. The system gives a lock back when its process dies.
* A file is only opened by a name of ours, never through a symbolic link, and made for its owner alone.
* `Index` is what a process remembers of a log. It is read on from where it ended: the bytes before that never change
  as long as the first `START` of them don't.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from juncture.errors import SaverError, SaverUnavailableError
from juncture.savers import file_format as form
from juncture.savers.base import LoadedCheckpoint, Part, Spans, StoredRecord, needed_parts

LOCK_WAIT = 30.0
"""Seconds that a call waits for the lock of a thread."""
_FLAGS = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_WINDOW = 1 << 18


@dataclass(slots=True)
class Index:
    """What this process knows of a log; payloads and contents stay in the file."""

    thread_id: str
    name: str
    busy: threading.Lock = field(default_factory=threading.Lock)
    """One worker at a time uses it."""
    start: bytes = b""
    """The first bytes of the log that was read; empty if there was none."""
    end: int = 0
    """Where its last valid frame ends."""
    series: dict[str, form.Series] = field(default_factory=dict[str, form.Series])

    def forget(self) -> None:
        """The log will be read from its beginning."""
        self.start, self.end, self.series = b"", 0, {}


class Log:
    """A thread's log while it is open and locked, read up to its last valid frame."""

    def __init__(self, index: Index, file: int, path: Path, lease_path: Path, *, sync: bool) -> None:
        self._index = index
        self._file = file
        self._path = path
        self._sync = sync
        self.lease_path = lease_path
        self.thread_id = index.thread_id
        self.is_over = False
        """Whether the open file is no longer that of its name. What has the name now is somebody else's."""
        self._size = os.fstat(file).st_size
        self._catch_up()

    @property
    def is_there(self) -> bool:
        """Whether the log has a header: without one there is no such thread."""
        return bool(self._index.start)

    @property
    def is_empty(self) -> bool:
        """Whether the file holds no frame, whatever was remembered or forgotten of it."""
        return os.fstat(self._file).st_size <= form.header_length(self.thread_id)

    @property
    def start(self) -> bytes:
        """The first bytes of the log."""
        return self._index.start

    @property
    def series(self) -> dict[str, form.Series]:
        """What the log says, by namespace."""
        return self._index.series

    # ---- reading

    def loaded(self, series: form.Series, checkpoint_id: str, *, records: bool = True) -> LoadedCheckpoint:
        """A checkpoint that is there, without parts."""
        kept = series.records.get(checkpoint_id, {}) if records else {}
        head = series.head
        return LoadedCheckpoint(
            series.checkpoints[checkpoint_id],
            head.checkpoint_id,
            head.seq,
            records=tuple(StoredRecord(*key, self._piece(piece)) for key, piece in kept.items()),
        )

    def parts(self, series: form.Series, spans: Spans) -> list[Part]:
        """The parts in these ranges that are there, in this order."""
        return [
            Part(seq, brought_by, self._piece(piece))
            for seq in series.seqs_in(spans)
            for brought_by, piece in (series.parts[seq],)
        ]

    def _piece(self, piece: form.Piece) -> bytes:
        content = _read(self._file, piece.offset, piece.length)
        if zlib.crc32(content) != piece.crc:
            raise form.damaged(str(self._path), piece.offset)
        return content

    def _catch_up(self) -> None:
        index, window = self._index, _Window(self._file)
        if not index.start or _read(self._file, 0, form.START) != index.start or self._size < index.end:
            index.forget()
            header = form.read_log_header(window.read, str(self._path))
            if header is None:
                return
            start, thread_id, end = header
            if thread_id != index.thread_id:
                raise SaverError(
                    f"{self._path} is the log of thread {thread_id!r}: it was renamed. Rename it back."
                )
            index.start, index.end = start, end
        if self._size == index.end:
            return
        for frame in form.frames(index.start, window.read, index.end, self._size):
            form.apply(index.series, index.thread_id, frame)
            index.end = frame.end
        if not form.is_torn(index.start, window.read, index.end, self._size):
            end = index.end
            index.forget()
            raise form.damaged(str(self._path), end)

    # ---- writing, with the lock for it

    def begin(self) -> None:
        """Writes the header, if the log has none."""
        if not self._index.start:
            header = form.log_header(self.thread_id, secrets.token_bytes(16), 1)
            os.ftruncate(self._file, 0)
            _write(self._file, header, 0)
            self._size = self._index.end = len(header)
            self._index.start = header[: form.START]

    def append(self, meta: form.Meta, pieces: Sequence[bytes]) -> None:
        """Adds a frame. When this raises, the log ends where it ended before."""
        self.begin()
        index = self._index
        at = index.end
        frame = form.frame(index.start, at, meta, pieces)
        try:
            if self._size > at:
                os.ftruncate(self._file, at)
            _write(self._file, frame, at)
            if self._sync:
                os.fsync(self._file)
                if not index.series:
                    sync_folder(self._path.parent)
        except BaseException:
            with suppress(OSError):  # then it may count (law 9); the first error is raised
                os.ftruncate(self._file, at)
            raise
        self._size = index.end = at + len(frame)
        body = index.end - sum(map(len, pieces))
        form.apply(index.series, index.thread_id, form.Frame(meta, body, index.end))

    def rewrite(self, namespace: str, gone: frozenset[str]) -> None:
        """Writes the log anew without these checkpoints, and puts it in the place of this one."""
        fresh = self._path.with_suffix(".log.new")
        fresh.unlink(missing_ok=True)
        file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
        try:
            birth, generation = form.birth_of(self.start), form.generation_of(self.start)
            header = form.log_header(self.thread_id, birth, generation + 1)
            _write(file, header, 0)
            end = len(header)
            for name, series in self.series.items():
                for meta, pieces in self._kept(name, series, gone if name == namespace else frozenset()):
                    frame = form.frame(header[: form.START], end, meta, pieces)
                    _write(file, frame, end)
                    end += len(frame)
            if self._sync:
                os.fsync(file)
            self.is_over = True
            fresh.replace(self._path)
            self._index.forget()
        except BaseException:
            with suppress(OSError):  # an unused file stays; the first error is raised
                fresh.unlink()
            raise
        finally:
            os.close(file)
        if self._sync:
            sync_folder(self._path.parent)

    def _kept(
        self, namespace: str, series: form.Series, gone: frozenset[str]
    ) -> Iterator[tuple[form.Meta, list[bytes]]]:
        """The frames of a series without these checkpoints, in the order of their places."""
        left = {c.seq: c for c in series.checkpoints.values() if c.checkpoint_id not in gone}
        for seq in series.seqs_in(needed_parts(left.values())):
            brought_by, piece = series.parts[seq]
            payload = self._piece(piece)
            checkpoint = left.get(seq)
            if checkpoint is None:
                yield form.part_meta(namespace, seq, brought_by, payload), [payload]
                continue
            yield form.checkpoint_meta(checkpoint, payload, None, ()), [payload]
            records = self.loaded(series, brought_by).records
            if records:
                yield form.records_meta(namespace, brought_by, records), form.contents(records)

    def delete(self) -> None:
        """Removes the log, which makes the lease void, and then the lease."""
        had_any = bool(self.series)
        self.is_over = True
        self._path.unlink()
        self._index.forget()
        if self._sync and had_any:
            sync_folder(self._path.parent)
        self.lease_path.unlink(missing_ok=True)


class _Window:
    """Reads a file from front to back in large pieces."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._at = 0
        self._kept = b""

    def read(self, offset: int, length: int) -> bytes:
        begin = offset - self._at
        if begin < 0 or begin + length > len(self._kept):
            self._at, begin = offset, 0
            self._kept = _read(self._file, offset, max(length, _WINDOW))
        return self._kept[begin : begin + length]


# ---- the file system


@contextmanager
def locked(path: Path, *, to_write: bool) -> Generator[int | None]:
    """The file of that name, open and locked. To write it is made if it isn't there; to read it is None then.

    Raises:
        SaverUnavailableError: Somebody else had the lock all the time.
    """
    import fcntl

    flags, kind = (os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) if to_write else (os.O_RDONLY, fcntl.LOCK_SH)
    deadline, pause = monotonic() + LOCK_WAIT, 0.0005
    while True:
        try:
            file = os.open(path, flags | os.O_NONBLOCK | _FLAGS, 0o600)  # not waiting: it might be a pipe
        except FileNotFoundError:
            if to_write:
                raise
            yield None
            return
        try:
            if _is_locked(file, kind):
                if _is_file_at(file, path):
                    yield file
                    return
                continue  # replaced or deleted while we waited; the new one is tried at once
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # closing isn't enough if the process was forked meanwhile
            os.close(file)
        if monotonic() > deadline:
            raise SaverUnavailableError(
                f"another process has had the lock of {path} for {LOCK_WAIT:.0f} s. Was one stopped that uses this "
                "folder? Nothing was changed."
            )
        sleep(pause)
        pause = min(0.02, pause * 2)


def _is_locked(file: int, kind: int) -> bool:
    """Locks a file unless that would mean to wait. A wait without end it would be, if the other process is stopped."""
    import fcntl

    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_file_at(file: int, path: Path) -> bool:
    """Whether an open file still has that name. It hasn't if it was deleted or written anew while we waited."""
    ours = os.fstat(file)
    if not stat.S_ISREG(ours.st_mode):
        raise OSError(f"{path} is no file")
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def named(folder: Path, suffix: str) -> list[str]:
    """The names of ours that files with that suffix have in a folder."""
    names = [path.name.removesuffix(suffix) for path in folder.iterdir() if path.name.endswith(suffix)]
    return [name for name in names if form.NAME.fullmatch(name)]


def read_thread_id(path: Path) -> str | None:
    """The thread of a log; None if it is gone, or was never finished. Needs no lock: it never changes."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)
    except FileNotFoundError:
        return None
    try:
        header = form.read_log_header(_Window(file).read, str(path))
    finally:
        os.close(file)
    return None if header is None else header[1]


def read_lease(path: Path) -> form.LeaseFile | None:
    """What a lease says; None if there is none. Whether it is void is for the log to tell."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)
    except FileNotFoundError:
        return None
    try:
        content = _read(file, 0, os.fstat(file).st_size)
    finally:
        os.close(file)
    return form.read_lease(content, str(path))


def write_lease(path: Path, content: bytes) -> None:
    """Puts a lease in the place of the one that is there.

    One of the same length, as when it is renewed, is overwritten: renaming over a file makes the system write it to the
    disk at once, which takes ten times as long. Nobody reads it meanwhile. Should it be torn all the same, it is void.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_NONBLOCK | _FLAGS)
    except FileNotFoundError:
        pass  # made anew below
    else:
        try:
            if os.fstat(file).st_size == len(content):
                _write(file, content, 0)
                return
        finally:
            os.close(file)
    fresh = path.with_suffix(".lease.new")
    write_new(fresh, content, sync=False)
    fresh.replace(path)


def _read(file: int, offset: int, length: int) -> bytes:
    """So many bytes, fewer only at the end of the file. The system reads at most 2 GB at once."""
    content = os.pread(file, length, offset)
    if len(content) == length or not content:
        return content
    read = [content]
    while content := os.pread(file, length - sum(map(len, read)), offset + sum(map(len, read))):
        read.append(content)
    return b"".join(read)


def _write(file: int, content: bytes, offset: int) -> None:
    left = memoryview(content)
    while left:
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written


def write_new(path: Path, content: bytes, *, sync: bool) -> None:
    """A file that is to be renamed. One of that name was left by a process that died."""
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    try:
        _write(file, content, 0)
        if sync:
            os.fsync(file)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder last."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
