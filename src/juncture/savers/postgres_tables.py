"""Making the tables of one schema of PostgreSQL, and bringing them up to date.

Whoever comes first does it, in one transaction under a lock that other processes wait for; if the tables are as they
should be, that takes no lock and needs no right to create anything. Tables of a newer Juncture are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, LiteralString

from psycopg.sql import SQL, Identifier

from juncture.errors import ConfigError, SaverError
from juncture.savers.postgres_pool import Session, do, rows

_CREATE: Final[LiteralString] = """
    CREATE SCHEMA IF NOT EXISTS {s};
    CREATE TABLE IF NOT EXISTS {s}.{version} (version integer NOT NULL);
    INSERT INTO {s}.{version} SELECT 0 WHERE NOT EXISTS (SELECT FROM {s}.{version})
"""

_READ_COMMITTED: Final = b"SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
_WAIT_FOR_OTHERS: Final = b"SELECT pg_advisory_xact_lock(%(key)s)"


def check_schema(schema: str) -> None:
    """Refuses what can't be the name of a schema.

    Raises:
        ConfigError: It can't.
    """
    if "\0" in schema or not 1 <= len(schema.encode(errors="surrogatepass")) <= 63:
        raise ConfigError(f"the name of a schema of PostgreSQL has 1 to 63 bytes and no NUL: not {schema!r}.")


def ready(schema: str, text: LiteralString, *, version: str = "version") -> bytes:
    """A statement on the tables of a schema, ``{s}`` in it, ready to be sent."""
    name = Identifier(schema.replace("%", "%%"))  # a statement is a format of psycopg's
    return SQL(text).format(s=name, version=Identifier(version)).as_bytes(None)


class SchemaTables:
    """The tables that one kind of thing keeps in a schema.

    Args:
        schema: Its name; it is created if it isn't there.
        migrations: Each brings the tables from the version that is its index to the next one.
        version: The table that says which version they have.
    """

    def __init__(self, schema: str, migrations: Sequence[LiteralString], *, version: str = "version") -> None:
        self._schema = schema
        self._migrations = [ready(schema, migration) for migration in migrations]
        self._version_table = Identifier(schema, version).as_string(None)
        self._find = b"SELECT to_regclass(%(table)s)"
        self._read = ready(schema, "SELECT version FROM {s}.{version}", version=version)
        self._set = ready(schema, "UPDATE {s}.{version} SET version = %(version)s", version=version)
        self._create = ready(schema, _CREATE, version=version)
        self._key = int.from_bytes(sha256(f"juncture {schema}".encode()).digest()[:8], signed=True)

    def see_to(self, session: Session) -> None:
        """Makes the tables, or brings them up to date, unless they are.

        Raises:
            SaverError: They were made by a newer Juncture. Nothing was changed.
        """
        if self._version(session) == len(self._migrations):
            return
        with session.transaction():
            do(session, _READ_COMMITTED, {})  # so that it sees what was made while it waited
            rows(session, _WAIT_FOR_OTHERS, {"key": self._key})
            do(session, self._create, {})
            version = self._version(session)
            if version == len(self._migrations):
                return  # somebody else was first
            for migration in self._migrations[version:]:
                do(session, migration, {})
            do(session, self._set, {"version": len(self._migrations)})

    def _version(self, session: Session) -> int:
        """The version of the tables; 0 if there are none."""
        ((there,),) = rows(session, self._find, {"table": self._version_table})
        ((version,),) = rows(session, self._read, {}) if there is not None else ((0,),)
        if version > len(self._migrations):
            raise SaverError(
                f"the tables in schema {self._schema!r} were made by a newer Juncture: they have version {version}, and "
                f"this one knows {len(self._migrations)}. Nothing was changed. Update Juncture here, or use another "
                "schema."
            )
        return version
