"""One SQLite file, as `juncture.savers.sqlite` uses it: opening, transactions, errors, forks.

- The file is opened at first use. One call uses it at a time: what there is to wait for is the disk, and that isn't
  done faster by two. Every call is one transaction; one that writes begins with ``BEGIN IMMEDIATE``, so it has the
  file's write lock before it first reads, or waits for it.
- The journal is a write-ahead log (WAL), so readers and the writer don't wait for each other, and a process that dies
  at any moment leaves a file that is as its last commit left it. In WAL mode ``synchronous=FULL`` waits at every commit
  until the disk has it; ``NORMAL`` doesn't: a crash of the process loses nothing, a crash of the machine may lose the
  newest commits, and never more than those.
- The schema carries its version in ``user_version``, and ``application_id`` says that the file is ours. Whoever comes
  first brings it up to date in one transaction; a file of a newer version, or of somebody else, is left alone.
- A connection must not be there when a process forks: SQLite's locks don't come along. So `os.fork` waits for the call
  that uses the file, and closes it; both processes open it again when they next need it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal, NoReturn, Self, TypeAlias

from juncture.errors import ConfigError, SaverError, SaverUnavailableError

Synchronous = Literal["FULL", "NORMAL"]
_Way: TypeAlias = tuple[Synchronous, bool]
"""How a connection is used: how safe its commits are, and whether it may wait."""
Run: TypeAlias = Callable[..., sqlite3.Cursor]
"""`sqlite3.Connection.execute`."""

APPLICATION = 0x4A554E43
"""What ``application_id`` says in our files of checkpoints: the letters JUNC."""
OLDEST = (3, 35, 0)
"""The version of SQLite that brought ``RETURNING``."""
BUSY_PAUSE = 0.01
"""Seconds between two tries of what SQLite itself doesn't wait for."""


class Database:
    """One file, opened at first use, used by one call at a time.

    Args:
        path: Absolute.
        schema: Scripts of statements; the nth brings a file of version n - 1 to version n.
        synchronous: Whether a commit waits for the disk.
        timeout: Seconds to wait for other processes that write to the file.
        application: What ``application_id`` says in the file, so that none is taken for another's.
        owner: Whose it is, for messages.
    """

    def __init__(
        self,
        path: str,
        schema: tuple[tuple[str, ...], ...],
        *,
        synchronous: Synchronous,
        timeout: float,
        application: int = APPLICATION,
        owner: str = "saver",
    ) -> None:
        self.path = path
        self.synchronous: Synchronous = synchronous
        self.timeout = timeout
        self._schema = schema
        self._application = application
        self._owner = owner
        self._lock = threading.Lock()
        # How long it waits is up to a connection, so there is one for each of the ways that are used.
        self._open: dict[_Way, sqlite3.Connection] = {}
        self._finalizers: list[weakref.finalize[[], Self]] = []
        self._file: tuple[int, int] | None = None
        self._closed = False
        with _forking:
            _databases.add(self)

    def reading(self) -> Transaction:
        """A transaction that sees the file as it is when it first reads."""
        return Transaction(self, (self.synchronous, True), writes=False)

    def writing(self) -> Transaction:
        """A transaction that writes, and is as safe as was asked for when it ends."""
        return Transaction(self, (self.synchronous, True), writes=True)

    def writing_at_once(self) -> Transaction:
        """A transaction that writes without waiting for anything: not for the disk, and not for who uses the file.

        Where that can't be, beginning it raises `BlockingIOError`.
        """
        return Transaction(self, ("NORMAL", False), writes=True)

    def passing(self) -> Transaction:
        """A transaction that writes what needn't outlive the machine: its commit doesn't wait for the disk."""
        return Transaction(self, ("NORMAL", True), writes=True)

    def tidy(self) -> None:
        """Moves what the log holds into the file, as far as nobody is in the way, so that no `writing_at_once` has to."""
        with self._lock:
            connection = self._open.get(("NORMAL", True))
            if connection is not None:
                with suppress(sqlite3.Error):  # then a later one does it
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Closes the file, once nobody uses it. Twice is fine."""
        with self._lock:
            self._closed = True
            self._disconnect()

    # ---- for `Transaction`, and for forks

    def begin(self, way: _Way, *, writes: bool) -> Run:
        """Waits for its turn, and begins. Unless this raises, `end` must be called."""
        waits = way[1]
        if not self._lock.acquire(blocking=waits):
            raise BlockingIOError
        if not waits and not self._open:  # opening it takes its time
            self._lock.release()
            raise BlockingIOError
        try:
            run = (self._open.get(way) or self._connect(way)).execute
            run("BEGIN IMMEDIATE" if writes else "BEGIN")
            if writes:
                self._check_in_place()
        except BaseException as error:  # noqa: BLE001 - raised by `_explain`
            self._undo(way)
            self._lock.release()
            if not waits and isinstance(error, sqlite3.Error) and _is(error, sqlite3.SQLITE_BUSY):
                raise BlockingIOError from None
            self._explain(error)
        return run

    def end(self, way: _Way, error: BaseException | None) -> None:
        """Commits; or takes everything back if there was an error, and raises it as ours if it is SQLite's."""
        try:
            if error is None:
                self._open[way].execute("COMMIT")
                return
        except BaseException as failed:  # noqa: BLE001 - raised by `_explain`
            self._undo(way)
            self._explain(failed)
        else:
            self._undo(way)
            if isinstance(error, sqlite3.Error | UnicodeError | OverflowError):
                self._explain(error)
        finally:
            self._lock.release()

    def let_go(self) -> None:
        """Before a fork: waits for whoever uses the file, closes it, and keeps others from opening it."""
        self._lock.acquire()
        self._disconnect()

    def go_on(self) -> None:
        """After a fork, in either process."""
        self._lock.release()

    # ---- opening

    def _connect(self, way: _Way) -> sqlite3.Connection:
        if self._closed:
            raise SaverError(f"this {self._owner} was closed. Open a new one for {self.path}.")
        if sqlite3.sqlite_version_info < OLDEST:
            raise SaverError(
                f"this Python has SQLite {sqlite3.sqlite_version}; {'.'.join(map(str, OLDEST))} or later is needed."
            )
        synchronous, waits = way
        timeout = self.timeout if waits else 0
        connection = sqlite3.connect(
            self.path, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        try:
            self._bring_up_to_date(connection, timeout)
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            found = os.stat(self.path)
        except BaseException:
            connection.close()
            raise
        self._file = (found.st_dev, found.st_ino)
        self._open[way] = connection
        self._finalizers.append(weakref.finalize(self, connection.close))  # for a saver that nobody closes
        return connection

    def _disconnect(self) -> None:
        self._open.clear()
        while self._finalizers:
            self._finalizers.pop()()

    def _check_in_place(self) -> None:
        try:
            found = os.stat(self.path)
            if (found.st_dev, found.st_ino) == self._file:
                return
        except FileNotFoundError:
            pass  # told below, like a file that was replaced
        raise SaverUnavailableError(
            f"{self.path} was moved, deleted or replaced while it was open: what is written now would be lost. Nothing "
            f"was saved. Put it back, or close this {self._owner} and open it anew."
        )

    def _bring_up_to_date(self, connection: sqlite3.Connection, timeout: float) -> None:
        run = connection.execute
        if run("PRAGMA user_version").fetchone()[0] != len(self._schema):
            run("BEGIN IMMEDIATE")
            try:
                self._migrate(run)
            except BaseException:
                if connection.in_transaction:
                    run("ROLLBACK")
                raise
            run("COMMIT")
        elif run("PRAGMA application_id").fetchone()[0] != self._application:
            self._refuse()
        # SQLite doesn't wait here for another process that does the same.
        give_up = time.monotonic() + timeout
        while True:
            try:
                if run("PRAGMA journal_mode = WAL").fetchone()[0] == "wal":
                    return
            except sqlite3.OperationalError as error:
                if not _is(error, sqlite3.SQLITE_BUSY) or time.monotonic() > give_up:
                    raise
                time.sleep(BUSY_PAUSE)
            else:
                raise SaverUnavailableError(
                    f"{self.path} can't have a write-ahead log, which this {self._owner} needs: is it on a network file "
                    "system? Put it on a local disk."
                )

    def _migrate(self, run: Run) -> None:
        version: int = run("PRAGMA user_version").fetchone()[0]
        if version == 0:
            if run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self._refuse()
            run(f"PRAGMA application_id = {self._application}")
        elif run("PRAGMA application_id").fetchone()[0] != self._application:
            self._refuse()
        if version > len(self._schema):
            raise SaverError(
                f"{self.path} was written by a newer version of Juncture: its schema has version {version}, and this "
                f"one knows those up to {len(self._schema)}. Update Juncture. The file was not changed."
            )
        for script in self._schema[version:]:
            for statement in script:
                run(statement)
        run(f"PRAGMA user_version = {len(self._schema)}")

    def _refuse(self) -> NoReturn:
        raise SaverError(
            f"{self.path} is a database of another program, or of something else than a {self._owner} of Juncture. It was "
            f"not changed. Give this {self._owner} a file of its own."
        )

    # ---- failing

    def _undo(self, way: _Way) -> None:
        connection = self._open.get(way)
        if connection is None or not connection.in_transaction:
            return
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect()  # which takes it back as well

    def _explain(self, error: BaseException) -> NoReturn:
        """Raises an error of SQLite as ours, and any other as it is."""
        if isinstance(error, UnicodeError):
            raise ConfigError(
                f"SQLite keeps only text that is valid Unicode, and this isn't: {error}. Nothing was saved."
            ) from error
        if isinstance(error, OverflowError | sqlite3.DataError):
            raise SaverError(
                f"{self.path}: SQLite can't keep a number or value that large: {error}. Nothing was saved."
            ) from error
        if not isinstance(error, sqlite3.Error):
            raise error
        kind, told = next(
            ((kind, told) for codes, kind, told in _EXPLANATIONS if _is(error, *codes)),
            (SaverError, "SQLite can't use {path}."),
        )
        text = told.format(path=self.path, timeout=self.timeout)
        if _is(error, sqlite3.SQLITE_CANTOPEN):
            text += self._why_it_can_not_be_opened()
        code = getattr(error, "sqlite_errorname", None)
        detail = f"{error} ({code})" if code else str(error)
        raise kind(f"{text} Nothing was saved by this call. SQLite says: {detail}") from error

    def _why_it_can_not_be_opened(self) -> str:
        folder = os.path.dirname(self.path)
        if os.path.isdir(self.path):
            return " It is a folder: name a file in it."
        if not os.path.isdir(folder):
            return f" There is no folder {folder}: make it first."
        return " Check that this user may read and write it and the folder, which holds the log besides."


class Transaction:
    """As ``with database.writing() as run``, where ``run`` executes a statement.

    All of them count if the block ends without an error, and none if it doesn't.

    Raises:
        SaverUnavailableError: The file can't be used now. Nothing was changed.
        SaverError: It can't be used at all, or a value can't be kept. Nothing was changed.
        ConfigError: A text can't be kept. Nothing was changed.
    """

    __slots__ = ("_database", "_way", "_writes")

    def __init__(self, database: Database, way: _Way, *, writes: bool) -> None:
        self._database = database
        self._way = way
        self._writes = writes

    def __enter__(self) -> Run:
        return self._database.begin(self._way, writes=self._writes)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.end(self._way, error)


def _is(error: sqlite3.Error, *codes: int) -> bool:
    """Whether an error has one of these codes, whatever its extended code says besides."""
    code: int | None = getattr(
        error, "sqlite_errorcode", None
    )  # errors of the Python module itself have none
    return code is not None and code & 0xFF in codes


_EXPLANATIONS: tuple[tuple[tuple[int, ...], type[SaverError], str], ...] = (
    (
        (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED),
        SaverUnavailableError,
        "{path} is locked: another process has been writing to it for more than {timeout} s. Try again, or give a "
        "longer timeout.",
    ),
    (
        (sqlite3.SQLITE_FULL,),
        SaverUnavailableError,
        "The disk that holds {path} is full, or the file has reached its limit. Make room and run again.",
    ),
    (
        (sqlite3.SQLITE_IOERR,),
        SaverUnavailableError,
        "Reading or writing {path} failed. Check the disk, its quota and the limit of a file's size, and run again.",
    ),
    (
        (sqlite3.SQLITE_CANTOPEN,),
        SaverUnavailableError,
        "{path} can't be opened.",
    ),
    (
        (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH),
        SaverUnavailableError,
        "{path} can't be written. Check that this user may write it and its folder, and that the disk isn't mounted "
        "read-only.",
    ),
    (
        (sqlite3.SQLITE_NOMEM,),
        SaverUnavailableError,
        "There is no memory left to use {path}.",
    ),
    (
        (sqlite3.SQLITE_NOTADB,),
        SaverError,
        "{path} is not a SQLite database. It was not changed. Name another file.",
    ),
    (
        (sqlite3.SQLITE_CORRUPT,),
        SaverError,
        "{path} is damaged. Keep a copy of it and of the files beside it, and try `sqlite3 FILE .recover`; or go on "
        "from a backup.",
    ),
)


# ---- forks

_forking = threading.Lock()
"""Held during a fork, so that two never wait for each other's databases."""
_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_let_go: list[Database] = []
"""Those that wait for the end of a fork."""


def _before_fork() -> None:
    _forking.acquire()
    for database in list(_databases):
        database.let_go()
        _let_go.append(database)


def _after_fork() -> None:
    while _let_go:
        _let_go.pop().go_on()
    _forking.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
