"""The tables of `juncture.savers.sqlite`, and its statements.

    series       a number for every thread and namespace
    checkpoints  columns and header, by series and id; ids ascend (law 2), so the last of a series is its head
    parts        payloads, by *place*: the series and the seq in one integer, so that a series lies together
    records      by the place of the checkpoint that they stand beside, in the order in which they were first saved
    leases       by thread

Ids that are no keys are stored as bytes where their text is a UUID or 32 hexadecimal digits. Ranges are text, as in
``1-7 9-9``. When a lease runs out is judged by the clock of the machine, as SQLite reads it. Statements take what is of
unknown number (ids, ranges, leases) as one JSON text, so that there are as many statements whatever is asked for.
Only constants of this module are written into statements; whatever comes from a caller is bound.
"""

from __future__ import annotations

SEQ_BITS = 28
MOST = (1 << SEQ_BITS) - 1
"""The greatest seq; there is room for 2**35 series."""

SCHEMA: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE series (
            series INTEGER PRIMARY KEY,
            thread_id TEXT NOT NULL,
            namespace TEXT NOT NULL,
            UNIQUE (thread_id, namespace)
        )
        """,
        """
        CREATE TABLE checkpoints (
            series INTEGER NOT NULL,
            checkpoint_id TEXT NOT NULL,
            parent_id BLOB,
            step INTEGER NOT NULL,
            source TEXT NOT NULL,
            run_id BLOB NOT NULL,
            created_at REAL NOT NULL,
            seq INTEGER NOT NULL,
            builds_on TEXT NOT NULL,
            header BLOB NOT NULL,
            PRIMARY KEY (series, checkpoint_id)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE parts (
            place INTEGER PRIMARY KEY,
            checkpoint_id BLOB NOT NULL,
            payload BLOB NOT NULL
        )
        """,
        """
        CREATE TABLE records (
            number INTEGER PRIMARY KEY,
            place INTEGER NOT NULL,
            task_id TEXT NOT NULL,
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            content BLOB NOT NULL,
            UNIQUE (place, task_id, kind, name)
        )
        """,
        """
        CREATE TABLE leases (
            thread_id TEXT PRIMARY KEY,
            holder TEXT NOT NULL,
            token TEXT NOT NULL,
            until REAL
        ) WITHOUT ROWID
        """,
    ),
)

NOW = "((julianday('now') - 2440587.5) * 86400.0)"
"""Seconds since the epoch, to the millisecond; one value throughout a statement."""

COLUMNS = "c.checkpoint_id, parent_id, step, source, run_id, created_at, seq, builds_on, header"
HEAD = f"""
    SELECT series, {COLUMNS} FROM series JOIN checkpoints c USING (series)
    WHERE thread_id = ? AND namespace = ? ORDER BY c.checkpoint_id DESC LIMIT 1
"""
ONE = f"SELECT {COLUMNS} FROM checkpoints c WHERE series = ? AND checkpoint_id = ?"
WHERE = """
    SELECT series, checkpoint_id, seq FROM series JOIN checkpoints USING (series)
    WHERE thread_id = ? AND namespace = ? ORDER BY checkpoint_id DESC LIMIT 1
"""
WHERE_AND_LEASE = """
    SELECT series, checkpoint_id, seq, (SELECT token FROM leases l WHERE l.thread_id = s.thread_id)
    FROM series s JOIN checkpoints USING (series)
    WHERE thread_id = ? AND namespace = ? ORDER BY checkpoint_id DESC LIMIT 1
"""
"""As WHERE, with the token of the thread's lease: a statement costs as much as what it finds."""
BEFORE = f"""
    SELECT {COLUMNS} FROM checkpoints c WHERE series = ? AND checkpoint_id < ? ORDER BY checkpoint_id DESC LIMIT ?
"""
ALL = f"SELECT {COLUMNS} FROM checkpoints c WHERE series = ? ORDER BY checkpoint_id DESC LIMIT ?"
RECORDS = "SELECT task_id, kind, name, content FROM records WHERE place = ? ORDER BY number"
RECORDS_BETWEEN = """
    SELECT place, task_id, kind, name, content FROM records WHERE place BETWEEN ? AND ? ORDER BY number
"""
PARTS = "SELECT place, checkpoint_id, payload FROM parts WHERE place BETWEEN ? AND ? ORDER BY place"
PARTS_IN = """
    SELECT place, checkpoint_id, payload FROM json_each(?) AS spans CROSS JOIN parts
    WHERE place BETWEEN json_extract(spans.value, '$[0]') AND json_extract(spans.value, '$[1]') ORDER BY place
"""
PUT_CHECKPOINT = "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
PUT_PART = "INSERT INTO parts VALUES (?, ?, ?)"
PUT_RECORD = """
    INSERT INTO records (place, task_id, kind, name, content) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (place, task_id, kind, name) DO UPDATE SET content = excluded.content
"""
THREADS = f"""
    SELECT series, thread_id, {COLUMNS}, l.holder, l.token, l.until - {NOW}
    FROM series s JOIN checkpoints c USING (series) LEFT JOIN leases l USING (thread_id)
    WHERE namespace = '' AND thread_id {{after}} ?
    AND c.checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints WHERE series = s.series)
    ORDER BY thread_id LIMIT ?
"""
RECORDS_AT = """
    SELECT place, task_id, kind, name, content FROM json_each(?) AS places JOIN records ON place = places.value
    ORDER BY number
"""
DELETE_PARTS = """
    DELETE FROM parts WHERE place IN (
        SELECT place FROM json_each(?) AS spans CROSS JOIN parts
        WHERE place BETWEEN json_extract(spans.value, '$[0]') AND json_extract(spans.value, '$[1]')
    )
"""
IDS = "SELECT checkpoint_id FROM checkpoints WHERE series = ?"
_OWN = "WITH own (series) AS (VALUES (?))"  # the one parameter, used twice
_PLACES = f"place BETWEEN (SELECT series << {SEQ_BITS} FROM own) AND (SELECT series << {SEQ_BITS} | {MOST} FROM own)"
DELETE_SERIES = (
    f"{_OWN} DELETE FROM parts WHERE {_PLACES}",
    f"{_OWN} DELETE FROM records WHERE {_PLACES}",
    "DELETE FROM checkpoints WHERE series = ?",
    "DELETE FROM series WHERE series = ?",
)
SERIES = "SELECT series FROM series WHERE thread_id = ?"
DELETE_LEASE = "DELETE FROM leases WHERE thread_id = ?"
LEASE = f"SELECT thread_id, holder, token, until - {NOW} FROM leases WHERE thread_id = ?"
PUT_LEASE = f"INSERT OR REPLACE INTO leases VALUES (?, ?, ?, {NOW} + ?)"
RENEW = f"""
    UPDATE leases SET until = {NOW} + ?
    WHERE (thread_id, token) IN (
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
    ) RETURNING thread_id, token
"""
