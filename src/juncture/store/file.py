"""Long-term memory in a folder: nothing to install or to run, and several processes of one machine at once.

    lock                       locked by every call, shared to read, exclusive to change
    batch                      changes that are being made, if they are several
    items/NAMESPACE/KEY.item   an item, or what a process that died was about to make of one (``.new``)

A name is written with every character but small letters, digits, ``-`` and ``_`` as ``%`` and its code, so that none is a path,
and none differs from another by case alone; a long one is a digest. What a file is, it says itself: MessagePack of its
namespace, key and columns, behind ``_MAGIC`` and a checksum. So names are only where to look.

One change is a file that is renamed to its name: it happens as a whole. Several are first written down in ``batch``; who
finds that file, because the process that wrote it died, makes them before anything else.

The folder must be on a disk of this machine; it needs POSIX. Listing reads every file below the prefix.
"""

from __future__ import annotations

import os
import re
import threading
import time
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ormsgpack

from juncture.errors import ConfigError, StoreError, StoreUnavailableError
from juncture.savers.file_log import locked, sync_folder, write_new
from juncture.store.base import TTLConfig
from juncture.store.embedding import IndexConfig
from juncture.store.kept import RowStore
from juncture.store.rows import Address, Change, Clock, Row, Rows

if TYPE_CHECKING:
    from juncture.savers.encrypted import KeyRing

_MAGIC: Final = b"JUNM\x01"
_LONG: Final = 180
_PLAIN: Final = re.compile(r"[^a-z0-9_-]")


class _Kept(NamedTuple):
    """What a file holds."""

    row: Row
    until: float | None


class FileStore(RowStore):
    """Keeps items in a folder, for any number of processes of this machine; for some thousands of them, and for debugging.

    Args:
        directory: Is made if it isn't there; relative to the working directory of now.
        index: What queries rank by; without one they look for the text itself.
        ttl: How items run out; without it those do that are put with ``ttl``.
        keys: What contents and vectors are encrypted with; the names of files stay readable.
        fsync: Whether a call returns only when the disk has what it stored.
        clock: Seconds since the epoch, by which items run out.

    Raises:
        ConfigError: This isn't a POSIX system, or an argument can't be right.
        StoreUnavailableError: The folder can't be made or used.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        keys: KeyRing | None = None,
        fsync: bool = True,
        clock: Clock = time.time,
    ) -> None:
        if find_spec("fcntl") is None:
            raise ConfigError("FileStore needs POSIX file locks. Use SQLite here: 'sqlite:memory.db'.")
        rows = _FileRows(Path(os.path.abspath(directory)), clock, sync=fsync)
        super().__init__(rows, index=index, ttl=ttl, keys=keys)


class _FileRows(Rows):
    def __init__(self, folder: Path, clock: Clock, *, sync: bool) -> None:
        self._folder = folder
        self._items = folder / "items"
        self._batch = folder / "batch"
        self._clock = clock
        self._sync = sync
        self._busy = threading.Lock()
        self._closed = False
        with self._reporting():
            self._items.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self, addresses: Sequence[Address]) -> list[Row | None]:
        with self._locked(to_write=False):
            now = self._clock()
            found = [self._living(address, now) for address in addresses]
        return [None if kept is None else kept.row for kept in found]

    def scan(self, prefix: str, offset: int = 0, limit: int | None = None) -> tuple[list[Row], int]:
        with self._locked(to_write=False):
            now = self._clock()
            rows = sorted(kept.row for kept in self._every(prefix) if kept.until is None or kept.until > now)
        return rows[offset : None if limit is None else offset + limit], len(rows)

    def namespaces(self, prefix: str) -> list[str]:
        return sorted({row.namespace for row in self.scan(prefix)[0]})

    def write(self, changes: Sequence[Change]) -> list[bool]:
        with self._locked(to_write=True):
            now = self._clock()
            there: list[bool] = []
            contents: list[tuple[str, str, bytes | None]] = []
            for change in changes:
                kept = self._living(change[:2], now)
                there.append(kept is not None)
                contents.append((*change[:2], _written(change, kept, now)))
            self._make(contents)
        return there

    def refresh(self, addresses: Sequence[Address]) -> None:
        with self._locked(to_write=True):
            now = self._clock()
            contents: list[tuple[str, str, bytes | None]] = []
            for address in addresses:
                kept = self._living(address, now)
                if kept is not None and kept.row.ttl is not None:
                    contents.append((*address, _packed(kept.row, now + kept.row.ttl)))
            self._make(contents)

    def sweep(self) -> int:
        with self._locked(to_write=True):
            now = self._clock()
            over = [kept.row for kept in self._every("") if kept.until is not None and kept.until <= now]
            self._make([(row.namespace, row.key, None) for row in over])
        return len(over)

    def close(self) -> None:
        with self._busy:
            self._closed = True

    # ---- files

    @contextmanager
    def _locked(self, *, to_write: bool) -> Generator[None, None, None]:
        with self._busy, self._reporting():
            if self._closed:
                raise StoreError(f"this FileStore was closed. Open a new one for {self._folder}.")
            # A batch that was left is made by who may change something.
            with locked(self._folder / "lock", to_write=True) if to_write else self._shared():
                if to_write and self._batch.exists():
                    self._go_on()
                yield

    @contextmanager
    def _shared(self) -> Generator[None, None, None]:
        while True:
            with locked(self._folder / "lock", to_write=False) as file:
                if not self._batch.exists():
                    if file is None:
                        with locked(self._folder / "lock", to_write=True):
                            pass  # makes the file
                        continue
                    yield
                    return
            with locked(self._folder / "lock", to_write=True):
                if self._batch.exists():
                    self._go_on()

    @contextmanager
    def _reporting(self) -> Generator[None, None, None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailableError(
                f"the folder {self._folder} can't be used: {error.strerror or error}. Check that it may be written and that the "
                "disk has room."
            ) from error

    def _path(self, namespace: str, key: str) -> Path:
        return self._items / _name(namespace) / f"{_name(key)}.item"

    def _living(self, address: Address, now: float) -> _Kept | None:
        kept = _read(self._path(*address))
        return None if kept is None or (kept.until is not None and kept.until <= now) else kept

    def _every(self, prefix: str) -> Iterator[_Kept]:
        begins = _encoded(prefix)
        for folder in self._items.iterdir():
            if not folder.name.startswith(("~", begins)):
                continue  # names of long namespaces don't say what they begin with
            for path in folder.glob("*.item"):
                kept = _read(path)
                if kept is not None and kept.row.namespace.startswith(prefix):
                    yield kept

    def _make(self, contents: Sequence[tuple[str, str, bytes | None]]) -> None:
        if len(contents) > 1:
            self._replace(self._batch, _framed(ormsgpack.packb(contents)))
        self._apply(contents)
        if len(contents) > 1:
            self._remove(self._batch)

    def _go_on(self) -> None:
        content = _unframed(self._batch.read_bytes(), self._batch)
        self._apply(ormsgpack.unpackb(content))
        self._remove(self._batch)

    def _apply(self, contents: Sequence[Sequence[Any]]) -> None:
        for namespace, key, content in contents:
            path = self._path(namespace, key)
            if content is None:
                if path.exists():
                    self._remove(path)
                continue
            if not path.parent.exists():
                path.parent.mkdir(mode=0o700)
                if self._sync:
                    sync_folder(self._items)
            self._replace(path, content)

    def _replace(self, path: Path, content: bytes) -> None:
        new = path.with_suffix(".new")
        write_new(new, content, sync=self._sync)
        new.replace(path)
        if self._sync:
            sync_folder(path.parent)

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        if self._sync:
            sync_folder(path.parent)


def _encoded(text: str) -> str:
    return _PLAIN.sub(lambda found: f"%{ord(found[0]):x}.", text)


def _name(text: str) -> str:
    """The name of a file or folder: the text with its characters escaped, or if that is long, a digest."""
    encoded = _encoded(text)
    return encoded if len(encoded) <= _LONG else f"~{sha256(text.encode()).hexdigest()}"


def _written(change: Change, there: _Kept | None, now: float) -> bytes | None:
    if change.content is None:
        return None
    created_at = now if there is None else there.row.created_at
    row = Row(*change[:2], change.content, change.vectors, created_at, now, change.ttl)
    return _packed(row, None if change.ttl is None else now + change.ttl)


def _packed(row: Row, until: float | None) -> bytes:
    return _framed(ormsgpack.packb([*row, until]))


def _framed(content: bytes) -> bytes:
    return _MAGIC + zlib.crc32(content).to_bytes(4, "big") + content


def _unframed(framed: bytes, path: Path) -> bytes:
    start = len(_MAGIC) + 4
    content = framed[start:]
    if framed[: len(_MAGIC)] != _MAGIC or framed[len(_MAGIC) : start] != zlib.crc32(content).to_bytes(
        4, "big"
    ):
        raise StoreError(
            f"{path} is damaged, or isn't a file of this version of Juncture. Restore it from a copy, or remove it. Nothing "
            "was changed."
        )
    return content


def _read(path: Path) -> _Kept | None:
    """What a file holds; None if there is none."""
    try:
        framed = path.read_bytes()
    except FileNotFoundError:
        return None
    *columns, until = ormsgpack.unpackb(_unframed(framed, path))
    return _Kept(Row(*columns), until)
