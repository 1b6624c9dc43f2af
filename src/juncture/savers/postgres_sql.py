"""The tables of ``juncture.savers.postgres`` and every statement on them.

A series has a number, so that its rows have small keys and nothing of a deleted thread can ever belong to a later one
of the same name. Names are compared byte by byte (``COLLATE "C"``), which in UTF-8 is the order of characters. What
only says where a payload is and what a listing shows (``checkpoints``) stands apart from payloads (``parts``).

What holds the laws together when several sessions write, at the isolation level READ COMMITTED or any stricter one:

* Who writes to a series holds the row lock of its ``series`` row until the commit: `put` by updating it where its head
  is the one that the checkpoint follows, `put_records` and `drop` by locking it. After waiting for such a lock,
  PostgreSQL looks at the row again, so nobody acts upon a head that has moved.
* Who writes with a lease holds that row, shared, until the commit; whoever takes over has to update it, and waits.
* Locks are taken in the order lease, series. So no two sessions wait for each other.
"""

from __future__ import annotations

from typing import Final, LiteralString

from juncture.savers.postgres_tables import ready as schema_ready

# Each entry brings a schema from the version that is its index to the next one. Released ones never change.
MIGRATIONS: Final[tuple[LiteralString, ...]] = (
    """
    CREATE TABLE {s}.series (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        thread_id text COLLATE "C" NOT NULL,
        namespace text COLLATE "C" NOT NULL,
        head_id text COLLATE "C" NOT NULL,
        head_seq bigint NOT NULL,
        UNIQUE (thread_id, namespace)
    ) WITH (fillfactor = 70);
    CREATE TABLE {s}.checkpoints (
        series_id bigint NOT NULL,
        checkpoint_id text COLLATE "C" NOT NULL,
        seq bigint NOT NULL,
        parent_id text COLLATE "C",
        step bigint NOT NULL,
        source text COLLATE "C" NOT NULL,
        run_id text COLLATE "C" NOT NULL,
        created_at double precision NOT NULL,
        firsts bigint[] NOT NULL,
        lasts bigint[] NOT NULL,
        header bytea NOT NULL,
        PRIMARY KEY (series_id, checkpoint_id)
    );
    COMMENT ON COLUMN {s}.checkpoints.firsts IS 'with lasts: the ranges of parts that it builds on';
    CREATE TABLE {s}.parts (
        series_id bigint NOT NULL,
        seq bigint NOT NULL,
        checkpoint_id text COLLATE "C" NOT NULL,
        payload bytea NOT NULL,
        PRIMARY KEY (series_id, seq)
    );
    CREATE TABLE {s}.records (
        series_id bigint NOT NULL,
        seq bigint NOT NULL,
        key bytea NOT NULL,
        place bigint GENERATED ALWAYS AS IDENTITY,
        task_id text COLLATE "C" NOT NULL,
        kind text COLLATE "C" NOT NULL,
        name text COLLATE "C" NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (series_id, seq, key)
    );
    COMMENT ON COLUMN {s}.records.key IS 'a digest of task_id, kind and name, which may be long';
    COMMENT ON COLUMN {s}.records.place IS 'the order in which they were first saved';
    CREATE TABLE {s}.leases (
        thread_id text COLLATE "C" PRIMARY KEY,
        holder text COLLATE "C" NOT NULL,
        token text COLLATE "C" NOT NULL,
        until timestamptz
    ) WITH (fillfactor = 70);
    COMMENT ON COLUMN {s}.leases.until IS 'null: it never runs out';
    """,
)

# Reads give rows of one shape, whatever they hold, so that one statement sees everything at one moment. `found` is the
# checkpoints that are asked for.
_COLUMNS: Final[LiteralString] = """
    series.id, series.thread_id, series.namespace, series.head_id, series.head_seq,
    checkpoint_id, seq, parent_id, step, source, run_id, created_at, firsts, lasts, header
"""
_NO_LEASE: Final[LiteralString] = "NULL AS holder, NULL AS token, NULL::double precision AS expires_in"
_LEASE: Final[LiteralString] = (
    "holder, token, extract(epoch FROM until - clock_timestamp())::double precision AS expires_in"
)
_CHECKPOINT_ROWS: Final[LiteralString] = """
    SELECT 0 AS what, found.id, found.seq, found.place,
        ARRAY[thread_id, namespace, head_id, checkpoint_id, parent_id, source, run_id, holder, token] AS texts,
        ARRAY[head_seq, step] || firsts || lasts AS numbers, ARRAY[created_at, expires_in] AS seconds, header AS content
    FROM found
"""
_RECORD_ROWS: Final[LiteralString] = """
    UNION ALL
    SELECT 1, found.id, found.seq, records.place, ARRAY[task_id, kind, name], NULL, NULL, content
    FROM found JOIN {s}.records AS records ON records.series_id = found.id AND records.seq = found.seq
"""
# OFFSET keeps the planner from joining everything that the series has and then looking which of it lies in the span.
_PARTS_IN_SPAN: Final[LiteralString] = """
        SELECT seq, checkpoint_id, payload FROM {s}.parts
        WHERE series_id = found.id AND seq BETWEEN span.first AND span.last OFFSET 0
"""
_PART_ROWS: Final[LiteralString] = (
    """
    UNION ALL
    SELECT 2, found.id, parts.seq, span.place, ARRAY[parts.checkpoint_id], NULL, NULL, payload
    FROM found
    CROSS JOIN LATERAL unnest(firsts || found.seq, lasts || found.seq) WITH ORDINALITY AS span (first, last, place)
    CROSS JOIN LATERAL ("""
    + _PARTS_IN_SPAN
    + """) AS parts
    WHERE found.checkpoint_id IS DISTINCT FROM %(known)s
"""
)
_IN_ORDER: Final[LiteralString] = "ORDER BY what, place, seq"
_OF_SERIES: Final[LiteralString] = "WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s"
_FROM_SERIES: Final[LiteralString] = (
    " FROM {s}.series AS series JOIN {s}.checkpoints AS checkpoints ON series_id = series.id " + _OF_SERIES
)
_ONE: Final[LiteralString] = (
    "WITH found AS (SELECT " + _COLUMNS + ", 0::bigint AS place, " + _NO_LEASE + _FROM_SERIES
)
_WHOLE: Final[LiteralString] = ")" + _CHECKPOINT_ROWS + _RECORD_ROWS + _PART_ROWS + _IN_ORDER
_HISTORY: Final[LiteralString] = (
    "WITH found AS (SELECT "
    + _COLUMNS
    + ", -seq AS place, "
    + _NO_LEASE
    + """
    FROM {s}.series AS series CROSS JOIN LATERAL (
        SELECT * FROM {s}.checkpoints
        WHERE series_id = series.id AND (%(before)s::text IS NULL OR checkpoint_id < %(before)s)
        ORDER BY checkpoint_id DESC LIMIT %(limit)s
    ) AS checkpoints """
    + _OF_SERIES
    + ")"
    + _CHECKPOINT_ROWS
)
_THREADS: Final[LiteralString] = (
    """WITH series AS (
        SELECT * FROM {s}.series
        WHERE namespace = '' AND (%(after)s::text IS NULL OR thread_id > %(after)s)
        ORDER BY thread_id LIMIT %(limit)s
    ), found AS (SELECT """
    + _COLUMNS
    + ", row_number() OVER (ORDER BY series.thread_id) AS place, "
    + _LEASE
    + """
    FROM series
    JOIN {s}.checkpoints AS checkpoints ON series_id = series.id AND checkpoint_id = head_id
    LEFT JOIN {s}.leases AS leases ON leases.thread_id = series.thread_id)"""
    + _CHECKPOINT_ROWS
    + _RECORD_ROWS
    + _IN_ORDER
)
_PARTS: Final[LiteralString] = (
    """
    SELECT DISTINCT ON (parts.seq) parts.seq, parts.checkpoint_id, parts.payload
    FROM {s}.series AS found
    CROSS JOIN unnest(%(firsts)s::bigint[], %(lasts)s::bigint[]) AS span (first, last)
    CROSS JOIN LATERAL ("""
    + _PARTS_IN_SPAN
    + ") AS parts "
    + _OF_SERIES
    + " ORDER BY parts.seq"
)

# What a put is made of. `own` is the series if the head is the one that was named, locked until the commit, or nothing;
# `beside` is the place of that head.
_HELD: Final[LiteralString] = """
    held AS (SELECT 1 FROM {s}.leases WHERE thread_id = %(thread_id)s AND token = %(token)s FOR SHARE),
"""
_OF_LEASE: Final[LiteralString] = "FROM {s}.leases WHERE thread_id = %(thread_id)s AND token = %(token)s"
_IF_HELD: Final[LiteralString] = " AND EXISTS (SELECT FROM held)"
_BEGUN: Final[tuple[LiteralString, LiteralString]] = (
    """
    own AS (
        INSERT INTO {s}.series (thread_id, namespace, head_id, head_seq)
        SELECT %(thread_id)s, %(namespace)s, %(checkpoint_id)s, %(seq)s WHERE true""",
    " ON CONFLICT DO NOTHING RETURNING id, 0 AS beside)",
)
_MOVED: Final[tuple[LiteralString, LiteralString]] = (
    """
    own AS (
        UPDATE {s}.series SET head_id = %(checkpoint_id)s, head_seq = %(seq)s
        """
    + _OF_SERIES
    + " AND head_id = %(follows)s AND head_seq = %(seq)s - 1",
    " RETURNING id, head_seq - 1 AS beside)",
)
_STAYS: Final[tuple[LiteralString, LiteralString]] = (
    "own AS (SELECT id, head_seq AS beside FROM {s}.series "
    + _OF_SERIES
    + " AND head_id = %(checkpoint_id)s",
    " FOR NO KEY UPDATE)",
)
_STORED: Final[LiteralString] = """,
    checkpoint AS (
        INSERT INTO {s}.checkpoints
            (series_id, checkpoint_id, seq, parent_id, step, source, run_id, created_at, firsts, lasts, header)
        SELECT id, %(checkpoint_id)s, %(seq)s, %(parent_id)s, %(step)s, %(source)s, %(run_id)s, %(created_at)s,
            %(firsts)s::bigint[], %(lasts)s::bigint[], %(header)b
        FROM own
    ),
    part AS (
        INSERT INTO {s}.parts (series_id, seq, checkpoint_id, payload)
        SELECT id, %(seq)s, %(checkpoint_id)s, %(payload)b FROM own
    )
"""
_RECORDED: Final[LiteralString] = """,
    recorded AS (
        INSERT INTO {s}.records (series_id, seq, key, task_id, kind, name, content)
        SELECT own.id, own.beside, given.key, given.task_id, given.kind, given.name, given.content
        FROM own CROSS JOIN
            unnest(%(keys)b::bytea[], %(task_ids)s::text[], %(kinds)s::text[], %(names)s::text[], %(contents)b::bytea[])
            WITH ORDINALITY AS given (key, task_id, kind, name, content, place)
        ORDER BY given.place
        ON CONFLICT (series_id, seq, key) DO UPDATE SET content = EXCLUDED.content
    )
"""
_DONE: Final[LiteralString] = " SELECT id FROM own"

_HEAD_AND_LEASE: Final[LiteralString] = """
    SELECT head_id, head_seq, holder, token
    FROM (SELECT %(thread_id)s AS thread_id) AS this
    LEFT JOIN {s}.series AS series ON series.thread_id = this.thread_id AND namespace = %(namespace)s
    LEFT JOIN {s}.leases AS leases ON leases.thread_id = this.thread_id
"""
_DROP: Final[LiteralString] = """
    WITH dropped AS (
        DELETE FROM {s}.checkpoints WHERE series_id = %(id)s AND checkpoint_id = ANY(%(gone)s::text[]) RETURNING seq
    )
    DELETE FROM {s}.records WHERE series_id = %(id)s AND seq IN (SELECT seq FROM dropped)
"""
_IDS: Final[LiteralString] = "SELECT checkpoint_id FROM {s}.checkpoints WHERE series_id = %(id)s"
_DELETE_ONE: Final[LiteralString] = "DELETE FROM {s}.series WHERE id = %(id)s"
_DROP_PARTS: Final[LiteralString] = """
    WITH needed AS (
        SELECT range_agg(int8range(span.first, span.last, '[]')) AS places
        FROM {s}.checkpoints CROSS JOIN LATERAL unnest(firsts || seq, lasts || seq) AS span (first, last)
        WHERE series_id = %(id)s AND span.first <= span.last
    )
    DELETE FROM {s}.parts WHERE series_id = %(id)s AND NOT seq <@ (SELECT places FROM needed)
"""
_DELETE_ROWS: Final[LiteralString] = """
    WITH ids AS (
        SELECT unnest(%(ids)s::bigint[]) AS series_id
    ), unlisted AS (
        DELETE FROM {s}.checkpoints USING ids WHERE checkpoints.series_id = ids.series_id
    ), unrecorded AS (
        DELETE FROM {s}.records USING ids WHERE records.series_id = ids.series_id
    )
    DELETE FROM {s}.parts USING ids WHERE parts.series_id = ids.series_id
"""
_ACQUIRE: Final[LiteralString] = """
    INSERT INTO {s}.leases AS leases (thread_id, holder, token, until)
    VALUES (%(thread_id)s, %(holder)s, %(token)s, clock_timestamp() + make_interval(secs => %(ttl)s))
    ON CONFLICT (thread_id) DO UPDATE SET holder = EXCLUDED.holder, token = EXCLUDED.token, until = EXCLUDED.until
    WHERE leases.token IN (%(token)s, %(instead_of)s) OR leases.until <= clock_timestamp()
    RETURNING thread_id
"""
_RENEW: Final[LiteralString] = """
    WITH held AS (
        SELECT thread_id
        FROM {s}.leases AS leases
        JOIN unnest(%(thread_ids)s::text[], %(tokens)s::text[]) AS given (thread_id, token) USING (thread_id, token)
        ORDER BY thread_id FOR NO KEY UPDATE OF leases
    )
    UPDATE {s}.leases AS leases SET until = clock_timestamp() + make_interval(secs => %(ttl)s)
    FROM held WHERE leases.thread_id = held.thread_id
    RETURNING leases.thread_id, token
"""


def _write(
    own: tuple[LiteralString, LiteralString], *, checkpoint: bool, records: bool, lease: bool
) -> LiteralString:
    """A put, or a put of records: what it stores, and whether it looks at the lease."""
    head, end = own
    return (
        ("WITH " + _HELD + head + _IF_HELD + end if lease else "WITH " + head + end)
        + (_STORED if checkpoint else "")
        + (_RECORDED if records else "")
        + _DONE
    )


class Statements:
    """Every statement on the tables of one schema, ready to be sent."""

    def __init__(self, schema: str) -> None:
        def ready(text: LiteralString) -> bytes:
            return schema_ready(schema, text)

        self.load_head = ready(_ONE + " AND checkpoint_id = head_id" + _WHOLE)
        self.load = ready(_ONE + " AND checkpoint_id = %(checkpoint_id)s" + _WHOLE)
        self.history = ready(_HISTORY + _IN_ORDER)
        self.history_with_records = ready(_HISTORY + _RECORD_ROWS + _IN_ORDER)
        self.parts = ready(_PARTS)
        self.threads = ready(_THREADS)
        self.namespaces = ready(
            "SELECT namespace FROM {s}.series WHERE thread_id = %(thread_id)s ORDER BY namespace"
        )

        self.begin = {
            lease: ready(_write(_BEGUN, checkpoint=True, records=False, lease=lease))
            for lease in (False, True)
        }
        """The put of a series' first checkpoint, by whether there is a lease."""
        self.move = {
            (records, lease): ready(_write(_MOVED, checkpoint=True, records=records, lease=lease))
            for records in (False, True)
            for lease in (False, True)
        }
        """Every other put, by whether there are records and whether there is a lease."""
        self.record = {
            lease: ready(_write(_STAYS, checkpoint=False, records=True, lease=lease))
            for lease in (False, True)
        }
        """The put of records, by whether there is a lease."""
        self.head_and_lease = ready(_HEAD_AND_LEASE)

        self.lock = ready("SELECT id, head_id FROM {s}.series " + _OF_SERIES + " FOR NO KEY UPDATE")
        self.drop = ready(_DROP)
        self.drop_parts = ready(_DROP_PARTS)
        self.ids = ready(_IDS)
        self.delete_one = ready(_DELETE_ONE)
        self.hold = ready("SELECT token " + _OF_LEASE + " FOR SHARE")
        self.take_away = ready("DELETE " + _OF_LEASE + " RETURNING token")
        self.delete_lease = ready("DELETE FROM {s}.leases WHERE thread_id = %(thread_id)s")
        self.delete_series = ready("DELETE FROM {s}.series WHERE thread_id = %(thread_id)s RETURNING id")
        self.delete_rows = ready(_DELETE_ROWS)

        self.acquire = ready(_ACQUIRE)
        self.lease = ready("SELECT thread_id, " + _LEASE + " FROM {s}.leases WHERE thread_id = %(thread_id)s")
        self.leases = ready("SELECT thread_id, " + _LEASE + " FROM {s}.leases ORDER BY thread_id")
        self.renew = ready(_RENEW)
        self.release = ready("DELETE " + _OF_LEASE)
