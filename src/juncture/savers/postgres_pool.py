"""Connections to PostgreSQL: whose they are, when one is fit for use, and what their errors mean.

* A pool belongs to the process that opened it. A forked child opens its own and leaves its parent's alone.
* The first contact of a process is a connection of its own, outside the pool: so that an address or a password that is
  wrong is told at once, with PostgreSQL's words. It sees to the tables as well.
* A connection that died while it was idle is replaced before anything is sent on it. One that dies later leaves open
  what became of the call: whoever can safely ask again does so once, the others say so.
* Every statement commits by itself, unless a transaction is begun; no connection keeps anything between two of them.
  So a pooler in transaction mode may stand between.
* An address may hold a password: no message shows it.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from select import POLLIN, poll
from typing import Any, Final, TypeAlias, TypeVar

from juncture.errors import (
    ConfigError,
    JunctureError,
    SaverError,
    SaverUnavailableError,
)

try:
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.rows import TupleRow, tuple_row
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout
except ImportError as error:
    raise ImportError(
        "PostgreSQL needs the packages 'psycopg' and 'psycopg_pool', which aren't installed. Install juncture[postgres]."
    ) from error

_R = TypeVar("_R")
Session: TypeAlias = psycopg.Connection[Any]
"""A connection; its rows are asked for by `rows`, whatever its own factory makes of them."""
Pool: TypeAlias = ConnectionPool[Session]

TRIES: Final = 20
"""How often a call is made that PostgreSQL aborts for the sake of others (`SerializationFailure`, a deadlock)."""
_STOPPED: Final = "another worker was stopped while it opened the database. Nothing was changed; try again."
_DEFAULTS: Final[Mapping[str, str | int]] = {
    "client_encoding": "UTF8",
    "fallback_application_name": "juncture",
    # A peer that has gone without a word is noticed within half a minute, also while it is being written to.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}


def rows(session: Session, query: bytes, values: Mapping[str, Any]) -> list[TupleRow]:
    """The rows of a statement, in PostgreSQL's binary format: bytes aren't written as text and read again."""
    with session.cursor(binary=True, row_factory=tuple_row) as cursor:
        return cursor.execute(query, values, prepare=False).fetchall()


def do(session: Session, query: bytes, values: Mapping[str, Any]) -> None:
    """Runs a statement that has no rows."""
    with session.cursor() as cursor:
        cursor.execute(query, values, prepare=False)


def is_lost(session: Session) -> bool:
    """Whether the server has closed the connection, as far as is known here. Sends nothing, waits for nothing."""
    with suppress(psycopg.OperationalError):  # that is what is asked: the answer is below
        readable = poll()
        readable.register(session.fileno(), POLLIN)
        while readable.poll(0):  # what a server says unasked is read, until nothing comes or the end does
            session.pgconn.consume_input()
        return session.closed
    return True


class _Own:
    """What one process has: its pool, once it is open, or the attempt that is being made to open it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pool: Future[Pool] | None = None


class Connections:
    """The connections of one saver.

    Args:
        database: The URL, or a pool that the caller opens and closes.
        prepare: Sees to the tables, on the first connection of a process.
        min_size: The pool keeps at least so many.
        max_size: And has at most so many.
        timeout: For how many seconds a call waits for one.
        owner: Whose they are, for messages.
    """

    def __init__(
        self,
        database: str | Pool,
        prepare: Callable[[Session], None],
        *,
        min_size: int,
        max_size: int,
        timeout: float,
        owner: str = "PostgresSaver",
    ) -> None:
        if not isinstance(database, str | ConnectionPool):
            raise ConfigError(
                f"{owner} takes a URL or a psycopg_pool.ConnectionPool, not {type(database).__name__}."
            )
        self._prepare = prepare
        self._owner = owner
        self._sizes = (min_size, max_size)
        self._timeout = timeout
        self._given = None if isinstance(database, str) else database
        self._address = _address(database, timeout) if isinstance(database, str) else ""
        # By process. A dict's setdefault is one step: no lock that a fork could leave locked.
        self._own: dict[int, _Own] = {}
        self._made_in = os.getpid()
        self._closed = False

    def run(self, call: Callable[[Session], _R], *, unless_told: str | None = None) -> _R:
        """The result of a call with a connection of its own.

        Args:
            call: Is made again where PostgreSQL aborted it for the sake of others, and, if ``unless_told`` is None,
                where the connection was lost.
            unless_told: What may or may not have happened if the connection is lost: for calls that can't be made
                twice.

        Raises:
            SaverUnavailableError: There is no connection, or PostgreSQL can't do it now.
            ConfigError: Something that was given can't be stored as it is.
            SaverError: PostgreSQL refused.
        """
        aborted = lost = 0
        while True:
            pool = self._pool()
            session = self._connection(pool)
            try:
                return call(session)
            except (errors.SerializationFailure, errors.DeadlockDetected) as error:
                aborted += 1
                if aborted == TRIES:
                    raise SaverUnavailableError(
                        f"PostgreSQL aborted this {TRIES} times for the sake of others. Nothing was changed. "
                        f"It says: {_said(error)}"
                    ) from error
            except (psycopg.Error, UnicodeEncodeError) as error:
                if not session.closed:
                    raise _refused(error) from error
                lost += 1
                if unless_told is not None or lost == 2:
                    raise SaverUnavailableError(
                        f"the connection to PostgreSQL was lost. {unless_told or 'It was lost again at once'}. "
                        f"It says: {_said(error)}"
                    ) from error
            finally:
                pool.putconn(session)

    def check_open(self) -> None:
        """Raises `SaverError` after `close`."""
        if self._closed:
            raise SaverError(
                f"this {self._owner} was closed. Make a new one; what it saved is in the database."
            )

    def close(self) -> None:
        """Closes the pool of this process, unless it was given."""
        self._closed = True
        own = self._own.get(os.getpid())
        if own is None:
            return
        with own.lock:
            opening, own.pool = own.pool, None
        if opening is not None and opening.exception() is None and self._given is None:
            opening.result().close()

    def _connection(self, pool: Pool) -> Session:
        while True:  # ends: every lost one is closed, and there are only so many
            try:
                session = pool.getconn(self._timeout)
            except PoolTimeout as error:
                raise self._no_connection(pool) from error
            except PoolClosed as error:
                self.check_open()
                raise SaverError(f"the pool of this {self._owner} is closed.") from error
            if not is_lost(session):
                return session
            session.close()
            pool.putconn(session)

    def _no_connection(self, pool: Pool) -> SaverUnavailableError:
        """Why none came: the pool tells only its log, so this asks for itself."""
        if self._given is not None:
            return SaverUnavailableError(
                f"the pool that was given to {self._owner} had no connection for {self._timeout:g} s. Nothing was changed. "
                f"All {pool.max_size} are in use, or PostgreSQL can't be reached: the log 'psycopg.pool' says more."
            )
        try:
            self._connect("2").close()  # the least that PostgreSQL's library takes
        except psycopg.Error as error:
            return SaverUnavailableError(
                f"PostgreSQL can't be reached. Nothing was changed. It says: {_said(error)}"
            )
        return SaverUnavailableError(
            f"all {pool.max_size} connections of this {self._owner} were in use for {self._timeout:g} s. Nothing was changed. "
            f"Give {self._owner} a larger max_size or timeout."
        )

    def _pool(self) -> Pool:
        """The open pool of this process. Whoever comes first opens it; who comes meanwhile waits for that."""
        own = self._own.setdefault(os.getpid(), _Own())
        with own.lock:
            self.check_open()
            first = own.pool is None
            opening = own.pool = Future[Pool]() if own.pool is None else own.pool
        if first:
            try:
                opening.set_result(self._open())
            except BaseException as error:
                with own.lock:
                    own.pool = None  # the next call tries again
                # An interruption was meant for this worker alone.
                ours = isinstance(error, JunctureError)
                opening.set_exception(error if ours else SaverUnavailableError(_STOPPED))
                raise
        try:
            return opening.result()
        except JunctureError as error:  # raised in another worker as well: each raises its own
            raise type(error)(*error.args) from error

    def _open(self) -> Pool:
        if self._given is not None:
            return self._checked(self._given)
        try:
            with self._connect() as session:
                self._prepare(session)
        except errors.OperationalError as error:
            raise SaverUnavailableError(
                f"PostgreSQL can't be reached. Nothing was changed. It says: {_said(error)}"
            ) from error
        except psycopg.Error as error:
            raise _refused(error) from error
        pool: Pool = ConnectionPool(
            self._address,
            kwargs={"autocommit": True, "prepare_threshold": None},
            min_size=self._sizes[0],
            max_size=self._sizes[1],
            timeout=self._timeout,
            reconnect_timeout=self._timeout,  # then whoever asks next starts anew, and doesn't wait for a late try
            open=True,
        )
        weakref.finalize(self, _close, pool, os.getpid())
        return pool

    def _checked(self, given: Pool) -> Pool:
        if os.getpid() != self._made_in:
            raise ConfigError(
                f"a pool given to {self._owner} can't be used in a forked process. Make the pool and the {self._owner} there, or "
                "give it a URL."
            )
        session = self._connection(given)
        try:
            if not session.autocommit:
                raise ConfigError(
                    f"the connections of a pool given to {self._owner} must commit by themselves: "
                    'ConnectionPool(…, kwargs={"autocommit": True}).'
                )
            self._prepare(session)
        except psycopg.Error as error:
            raise _refused(error) from error
        finally:
            given.putconn(session)
        return given

    def _connect(self, timeout: str | None = None) -> Session:
        address = self._address if timeout is None else make_conninfo(self._address, connect_timeout=timeout)
        return psycopg.connect(address, autocommit=True, prepare_threshold=None)


def _close(pool: Pool, pid: int) -> None:
    if os.getpid() == pid:  # a forked child must not end its parent's connections
        pool.close()


def _address(url: str, timeout: float) -> str:
    """What psycopg is given for a URL: with our defaults, and certain to show no password when it can't be used."""
    try:
        asked = conninfo_to_dict(url)
    except psycopg.Error:  # its message quotes what it couldn't read, which may be the password
        asked = None
    if asked is None or _is_misread(url, str(asked.get("port", ""))):
        raise ConfigError(
            "this isn't a URL that PostgreSQL understands. It looks like postgresql://user:password@host:5432/database; "
            "in a user, a password or a name, write characters such as @ : / % as %40 %3A %2F %25."
        )
    options: dict[str, Any] = {**_DEFAULTS, "connect_timeout": max(2, round(timeout)), **asked}
    return make_conninfo(**options)


def _is_misread(url: str, port: str) -> bool:
    """Whether PostgreSQL would take a piece of a password for something else, and show it when that isn't there."""
    before, _, after = url.partition("://")[2].partition("/")
    return before.count("@") > 1 or "@" in after.partition("?")[0] or not re.fullmatch(r"[0-9,]*", port)


def _said(error: BaseException) -> str:
    """What PostgreSQL says, in a line."""
    return " ".join(str(error).split())


def _refused(error: psycopg.Error | UnicodeEncodeError) -> SaverError | ConfigError:
    """What an error means after which the connection is as before, so that nothing was changed."""
    match error:
        case UnicodeEncodeError() | errors.DataError():
            return ConfigError(
                "PostgreSQL can't take a value as it is: text can't have NUL characters and lone surrogates, and numbers "
                f"must be in range. Nothing was changed. It says: {_said(error)}"
            )
        case errors.ProgramLimitExceeded():
            return ConfigError(
                "a name or id is too long for PostgreSQL, which takes about 2,600 bytes for the names of a thread and "
                f"namespace together, or a value is larger than 1 GB. Nothing was changed. It says: {_said(error)}"
            )
        case errors.OperationalError() | errors.ReadOnlySqlTransaction():
            return SaverUnavailableError(
                f"PostgreSQL can't do this now. Nothing was changed. It says: {_said(error)}"
            )
        case _:
            return SaverError(f"PostgreSQL refused. Nothing was changed. It says: {_said(error)}")
