"""PostgreSQL: sessions that wait for one another, connections that are lost, tables that several processes make at once."""

import gc
import itertools
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from juncture.errors import (
    ConfigError,
    HeadMovedError,
    LeaseLostError,
    SaverError,
    SaverUnavailableError,
)
from juncture.savers.base import Lease, StoredCheckpoint, StoredRecord
from juncture.savers.postgres import PostgresSaver
from juncture.savers.postgres_pool import Connections
from juncture.savers.postgres_sql import MIGRATIONS, Statements
from juncture.testing.saver_conformance import LAWS

SQL = Statements("juncture")
RECORD = StoredRecord("task", "done", "", b"content")


def stored(seq, thread_id="t", namespace="", **columns):
    values = {
        "checkpoint_id": f"c{seq:03}",
        "parent_id": None,
        "step": seq,
        "source": "loop",
        "run_id": "run",
        "created_at": 1.5,
        "builds_on": ((1, seq - 1),) if seq > 1 else (),
        "header": b"header",
    }
    return StoredCheckpoint(thread_id=thread_id, namespace=namespace, seq=seq, **{**values, **columns})


def put(saver, seq, thread_id="t", **options):
    checkpoint = stored(seq, thread_id)
    saver.put(checkpoint, b"payload", follows=f"c{seq - 1:03}" if seq > 1 else None, **options)
    return checkpoint


@pytest.fixture
def saver(postgres_url):
    with PostgresSaver(postgres_url) as saver:
        yield saver


@pytest.fixture
def session(postgres_url):
    """A session of the test's own, which commits by itself."""
    with psycopg.connect(postgres_url, autocommit=True) as session:
        yield session


@pytest.fixture
def worker():
    with ThreadPoolExecutor(1) as worker:
        yield worker


def wait_for_one_that_waits(session):
    """Returns the id of the backend that waits for somebody's lock, as soon as one does."""
    while True:
        waiting = session.execute(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
        if waiting is not None:
            return waiting[0]
        session.execute("SELECT pg_sleep(0.01)")


@contextmanager
def holding(url, statement, values=()):
    """A transaction that has run a statement and commits at the end of the block."""
    with psycopg.connect(url) as other:
        other.execute(statement, values)
        yield


# ---- sessions that wait for one another


def test_a_put_that_waited_for_another_sees_that_the_head_has_moved(saver, session, postgres_url, worker):
    put(saver, 1)
    with holding(postgres_url, "UPDATE juncture.series SET head_id = 'c001x', head_seq = 2"):
        waiting = worker.submit(put, saver, 2)
        wait_for_one_that_waits(session)
    with pytest.raises(HeadMovedError, match="c001x"):
        waiting.result()
    assert session.execute("SELECT checkpoint_id FROM juncture.checkpoints").fetchall() == [("c001",)]
    assert session.execute("SELECT count(*) FROM juncture.parts").fetchone() == (1,)


def test_the_first_put_that_waited_for_another_first_one_sees_it(saver, session, postgres_url, worker):
    saver.namespaces("t")  # the tables are made
    other = (
        "INSERT INTO juncture.series (thread_id, namespace, head_id, head_seq) VALUES ('t', '', 'other', 1)"
    )
    with holding(postgres_url, other):
        waiting = worker.submit(put, saver, 1)
        wait_for_one_that_waits(session)
    with pytest.raises(HeadMovedError, match="other"):
        waiting.result()


@pytest.mark.parametrize("write", ["put", "records"])
def test_who_waited_for_a_take_over_has_lost_the_lease(saver, session, postgres_url, worker, write):
    put(saver, 1)
    lease = saver.acquire_lease("t", "me", "mine", 30)
    with holding(postgres_url, "UPDATE juncture.leases SET token = 'theirs', holder = 'them'"):
        if write == "put":
            waiting = worker.submit(put, saver, 2, lease=lease)
        else:
            waiting = worker.submit(saver.put_records, "t", "", "c001", [RECORD], lease=lease)
        wait_for_one_that_waits(session)
    with pytest.raises(LeaseLostError, match="them has it"):
        waiting.result()
    found = saver.load("t")
    assert (found.head_id, found.records) == ("c001", ())


def test_a_take_over_waits_for_the_put_that_is_being_made(saver, session, postgres_url, worker):
    put(saver, 1)
    saver.acquire_lease("t", "me", "mine", 0)
    with holding(postgres_url, "SELECT FROM juncture.leases FOR SHARE"):  # as a put does
        waiting = worker.submit(saver.acquire_lease, "t", "them", "theirs", 30)
        wait_for_one_that_waits(session)
        assert not waiting.done()
    assert waiting.result().token == "theirs"


def test_a_thread_is_deleted_with_the_put_that_was_being_made(saver, session, postgres_url, worker):
    put(saver, 1, records=())
    put(saver, 2, records=[RECORD])
    values = {name: getattr(stored(3), name) for name in StoredCheckpoint.__slots__}
    values |= {"follows": "c002", "payload": b"payload", "firsts": [1], "lasts": [2]}
    values |= {
        "keys": [b"key"],
        "task_ids": ["task"],
        "kinds": ["done"],
        "names": [""],
        "contents": [b"content"],
    }
    with holding(postgres_url, SQL.move[True, False], values):
        waiting = worker.submit(saver.delete_thread, "t")
        wait_for_one_that_waits(session)
    waiting.result()
    for table in ("series", "checkpoints", "parts", "records", "leases"):
        assert session.execute(f"SELECT count(*) FROM juncture.{table}").fetchone() == (0,), table


def test_a_drop_leaves_what_a_put_that_it_waited_for_needs(saver, session, postgres_url, worker):
    for seq in (1, 2, 3):
        saver.put(stored(seq, builds_on=()), b"payload", follows=f"c{seq - 1:03}" if seq > 1 else None)
    values = {name: getattr(stored(4), name) for name in StoredCheckpoint.__slots__}
    values |= {"follows": "c003", "payload": b"payload", "firsts": [1], "lasts": [1]}
    with holding(postgres_url, SQL.move[False, False], values):
        waiting = worker.submit(saver.drop, "t", "", ["c001", "c002"])
        wait_for_one_that_waits(session)
    waiting.result()
    assert [part.seq for part in saver.load("t").parts] == [1, 4]
    assert [part.seq for part in saver.parts("t", "", ((1, 9),))] == [1, 3, 4]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize(
    "law",
    [law for law in LAWS if "[sync]" in str(law) and ("several" in str(law) or "at once" in str(law))],
    ids=str,
)
def test_races_end_well_where_the_database_is_stricter(postgres_url, level, law):
    options = level.replace(" ", r"\ ").replace("\\", "%5C").replace(" ", "%20")
    law(lambda: PostgresSaver(f"{postgres_url}?options=-cdefault_transaction_isolation%3D{options}"))


# ---- connections that are lost


def test_connections_that_ended_while_idle_are_replaced_before_a_put(saver, session):
    put(saver, 1)
    ended = session.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'juncture'"
    ).fetchall()
    assert ended == [(True,)]
    put(saver, 2)
    assert saver.load("t").head_seq == 2


def test_a_put_that_lost_its_connection_says_that_it_may_have_been_saved(
    saver, session, postgres_url, worker
):
    put(saver, 1)
    with holding(postgres_url, "SELECT FROM juncture.series FOR UPDATE"):
        waiting = worker.submit(put, saver, 2)
        session.execute("SELECT pg_terminate_backend(%s)", [wait_for_one_that_waits(session)])
        with pytest.raises(SaverUnavailableError, match=r"c002 of thread 't' may or may not have been saved"):
            waiting.result()
    assert saver.load("t").head_seq == 1
    put(saver, 2)


def test_what_can_be_asked_again_is_asked_again_on_a_new_connection(saver, session, postgres_url, worker):
    put(saver, 1)
    with holding(postgres_url, "SELECT FROM juncture.series FOR UPDATE"):
        waiting = worker.submit(saver.put_records, "t", "", "c001", [RECORD])
        first = wait_for_one_that_waits(session)
        session.execute("SELECT pg_terminate_backend(%s, 10000)", [first])
        assert wait_for_one_that_waits(session) != first
    waiting.result()
    assert saver.load("t").records == (RECORD,)


def test_what_is_lost_twice_is_an_error(saver, session, postgres_url, worker):
    put(saver, 1)
    with holding(postgres_url, "LOCK TABLE juncture.checkpoints"):
        waiting = worker.submit(saver.load, "t")
        for _ in range(2):
            session.execute("SELECT pg_terminate_backend(%s, 10000)", [wait_for_one_that_waits(session)])
        with pytest.raises(SaverUnavailableError, match="lost again"):
            waiting.result()


def test_a_server_that_stops_and_starts_again(postgres_server):
    address = postgres_server.url().replace("postgres@", "postgres:secret@")
    with PostgresSaver(address, timeout=0.5) as saver:
        put(saver, 1)
        postgres_server.stop()
        for call in (lambda: saver.load("t"), lambda: put(saver, 2)):
            with pytest.raises(SaverUnavailableError, match="can't be reached") as caught:
                call()
            assert "secret" not in str(caught.value)
        postgres_server.start()
        assert saver.load("t").head_seq == 1
        put(saver, 2)
        postgres_server.restart()
        put(saver, 3)  # the connection that ended is noticed first
        assert saver.load("t").head_seq == 3


def test_a_server_that_is_not_there_is_an_error_at_first_use_without_the_password(postgres_server):
    postgres_server.stop()
    saver = PostgresSaver(postgres_server.url().replace("postgres@", "postgres:secret@"))
    for _ in range(2):
        with pytest.raises(SaverUnavailableError, match="Connection refused") as caught:
            saver.load("t")
        chain = [caught.value, caught.value.__cause__]
        assert all("secret" not in str(error) for error in chain)
    postgres_server.start()
    assert saver.load("t") is None
    saver.close()


def test_all_that_wait_for_the_first_contact_are_told_of_its_failure(postgres_server):
    postgres_server.stop()
    saver, started = PostgresSaver(postgres_server.url()), threading.Barrier(8)

    def load(_):
        started.wait()
        with pytest.raises(SaverUnavailableError, match="can't be reached"):
            saver.load("t")
        return True

    with ThreadPoolExecutor(8) as workers:
        assert list(workers.map(load, range(8))) == [True] * 8


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:se@cret@host:5432/db",
        "postgresql://me:se/cret@host/db",
        "postgresql://me:secret@host:port/db",
        "postgresql://me:5432/cret@host/db",
        "postgresql://me:secret%@host/db",
        "postgresql://me:secret@host/db?nonsense=secret",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_showing_it(url):
    with pytest.raises(ConfigError, match=r"postgresql://user:password@") as caught:
        PostgresSaver(url)
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "options",
    [
        {"min_size": -1},
        {"min_size": 3, "max_size": 2},
        {"max_size": 0},
        {"timeout": 0},
        {"schema": ""},
        {"schema": "é" * 32},
        {"schema": "nul\0"},
    ],
    ids=str,
)
def test_an_argument_that_cannot_be_right_is_refused_at_once(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        PostgresSaver("postgresql://localhost/db", **options)


def test_a_pool_of_an_event_loop_is_refused():
    with pytest.raises(ConfigError, match="not AsyncConnectionPool"):
        PostgresSaver(AsyncConnectionPool("", open=False))


def test_a_database_that_is_not_there_is_named(postgres_url):
    with (
        PostgresSaver(postgres_url + "_nowhere") as saver,
        pytest.raises(SaverUnavailableError, match="_nowhere"),
    ):
        saver.load("t")


def test_more_calls_than_connections_wait_and_then_fail(postgres_url, session, worker):
    with PostgresSaver(postgres_url, max_size=1, timeout=0.5) as saver:
        put(saver, 1)
        with holding(postgres_url, "SELECT FROM juncture.series FOR UPDATE"):
            waiting = worker.submit(put, saver, 2)
            wait_for_one_that_waits(session)
            with pytest.raises(SaverUnavailableError, match="all 1 connections"):
                saver.load("t")
        waiting.result()
        assert saver.load("t").head_seq == 2


def test_a_database_that_only_reads_says_so(saver, postgres_url):
    put(saver, 1)
    with PostgresSaver(f"{postgres_url}?options=-cdefault_transaction_read_only%3Don") as reads:
        assert reads.load("t").head_seq == 1
        with pytest.raises(SaverUnavailableError, match=r"Nothing was changed.*read-only"):
            put(reads, 2)


def test_a_statement_that_the_server_ends_says_that_nothing_was_changed(saver, postgres_url):
    put(saver, 1)
    with (
        PostgresSaver(f"{postgres_url}?options=-clock_timeout%3D50") as hasty,
        holding(postgres_url, "SELECT FROM juncture.series FOR UPDATE"),
        pytest.raises(SaverUnavailableError, match=r"Nothing was changed.*lock timeout"),
    ):
        put(hasty, 2)
    put(saver, 2)


def test_what_postgresql_always_aborts_for_the_sake_of_others_is_an_error_in_the_end(postgres_url):
    tried = itertools.count(1)

    def abort(session):
        next(tried)
        session.execute("DO $$ BEGIN RAISE EXCEPTION 'no luck' USING ERRCODE = '40001'; END $$")

    connections = Connections(postgres_url, lambda _: None, min_size=0, max_size=1, timeout=10)
    with pytest.raises(SaverUnavailableError, match=r"aborted this 20 times.*no luck"):
        connections.run(abort)
    assert next(tried) == 21
    connections.close()


def test_a_first_contact_that_was_stopped_is_made_again(postgres_url):
    stops = [True]

    def prepare(_):
        if stops:
            stops.clear()
            raise KeyboardInterrupt

    connections = Connections(postgres_url, prepare, min_size=0, max_size=1, timeout=10)
    with pytest.raises(KeyboardInterrupt):
        connections.run(lambda session: session.closed)
    assert connections.run(lambda session: session.closed) is False
    connections.close()


# ---- what is stored


def test_text_that_cannot_be_stored_is_refused_by_every_call(saver):
    lease = Lease("t", "me", "token", None)
    put(saver, 1)
    for bad in ("nul\0", "surrogate\ud800"):
        record = RECORD._replace(name=bad)
        calls = [
            lambda bad=bad: saver.load(bad),
            lambda bad=bad: saver.put(stored(2, run_id=bad), b"", follows="c001"),
            lambda record=record: put(saver, 2, records=[record]),
            lambda record=record: saver.put_records("t", "", "c001", [record]),
            lambda bad=bad: saver.history("t", bad),
            lambda bad=bad: saver.parts(bad, "", ((1, 1),)),
            lambda bad=bad: saver.namespaces(bad),
            lambda bad=bad: saver.threads(after=bad),
            lambda bad=bad: saver.drop("t", "", [bad]),
            lambda bad=bad: saver.delete_thread(bad),
            lambda bad=bad: saver.acquire_lease("t", bad, "token", None),
            lambda bad=bad: saver.renew_leases([lease._replace(token=bad)], 1),
            lambda bad=bad: saver.release_lease(lease._replace(token=bad)),
        ]
        for call in calls:
            with pytest.raises(ConfigError, match="can't take a value as it is"):
                call()
    assert [found.checkpoint for found in saver.history("t", records=True)] == [stored(1)]
    assert saver.leases() == []


def test_a_name_that_is_too_long_for_an_index_is_refused(saver):
    long = os.urandom(5_000).hex()
    for checkpoint in (stored(1, long), stored(1, namespace=long)):
        with pytest.raises(ConfigError, match="too long"):
            saver.put(checkpoint, b"", follows=None)
    with pytest.raises(ConfigError, match="too long"):
        saver.acquire_lease(long, "me", "token", None)
    assert saver.load(long) is None
    assert saver.threads() == []


def test_the_name_of_a_record_may_be_long(saver):
    long = RECORD._replace(name=os.urandom(5_000).hex())
    put(saver, 1)
    saver.put_records("t", "", "c001", [long, RECORD])
    saver.put_records("t", "", "c001", [long._replace(content=b"new")])
    assert saver.load("t").records == (long._replace(content=b"new"), RECORD)


def test_a_record_given_twice_stands_in_the_place_of_the_first_with_the_content_of_the_last(saver):
    put(saver, 1)
    other = RECORD._replace(kind="call")
    saver.put_records("t", "", "c001", [RECORD, other, RECORD._replace(content=b"last")])
    assert saver.load("t").records == (RECORD._replace(content=b"last"), other)


def test_every_text_is_compared_by_its_characters(saver, session):
    saver.load("t")
    collations = session.execute(
        "SELECT table_name, column_name, collation_name FROM information_schema.columns "
        "WHERE table_schema = 'juncture' AND data_type = 'text'"
    ).fetchall()
    assert len(collations) > 10
    assert {collation for _, _, collation in collations} == {"C"}


def test_listings_need_no_payloads(saver, session):
    put(saver, 1)
    put(saver, 2, records=[RECORD])
    session.execute("DROP TABLE juncture.parts")
    assert [found.checkpoint.seq for found in saver.history("t", records=True)] == [2, 1]
    assert [thread.thread_id for thread in saver.threads()] == ["t"]
    with pytest.raises(SaverError, match=r"refused.*juncture\.parts"):
        saver.load("t")


def test_schemas_are_apart_whatever_their_names(postgres_url):
    strange = 'a "b"; DROP SCHEMA juncture; -- {s} %s'
    with PostgresSaver(postgres_url) as plain, PostgresSaver(postgres_url, schema=strange) as other:
        put(plain, 1)
        assert other.load("t") is None
        put(other, 1)
        put(other, 2)
        assert (plain.load("t").head_seq, other.load("t").head_seq) == (1, 2)


class Counted(psycopg.Cursor):
    """Counts what is sent to the server."""

    sent = itertools.count()

    def execute(self, *args, **options):
        next(Counted.sent)
        return super().execute(*args, **options)


def test_each_call_is_one_statement(postgres_url):
    def statements(call):
        before = next(Counted.sent)
        call()
        return next(Counted.sent) - before - 1

    kwargs = {"autocommit": True, "cursor_factory": Counted}
    with ConnectionPool(postgres_url, kwargs=kwargs, min_size=1, open=True) as pool:
        saver = PostgresSaver(pool)
        saver.load("t")
        lease = saver.acquire_lease("t", "me", "token", 30)
        assert statements(lambda: put(saver, 1, lease=lease)) == 1
        assert statements(lambda: put(saver, 2, lease=lease, records=[RECORD])) == 1
        assert statements(lambda: saver.put_records("t", "", "c002", [RECORD], lease=lease)) == 1
        assert statements(lambda: saver.load("t")) == 1
        assert statements(lambda: saver.history("t", records=True)) == 1
        assert statements(lambda: saver.threads()) == 1
        assert statements(lambda: saver.renew_leases([lease], 30)) == 1
        assert statements(lambda: saver.acquire_lease("u", "me", "token", 30)) == 1


# ---- pools that are given, and the end


def test_a_pool_that_was_given_stays_open(postgres_url):
    with ConnectionPool(postgres_url, kwargs={"autocommit": True}, min_size=1, open=True) as pool:
        with PostgresSaver(pool) as saver:
            put(saver, 1)
        with PostgresSaver(pool) as saver:
            assert saver.load("t").head_seq == 1
        with pool.connection(), pytest.raises(SaverUnavailableError, match=r"All 1 are in use"):
            PostgresSaver(pool, timeout=0.1).load("t")
        pool.close()
        with pytest.raises(SaverError, match="pool of this PostgresSaver is closed"):
            PostgresSaver(pool).load("t")


def test_a_pool_whose_connections_do_not_commit_by_themselves_is_refused(postgres_url):
    with (
        ConnectionPool(postgres_url, min_size=1, open=True) as pool,
        pytest.raises(ConfigError, match='"autocommit": True'),
    ):
        PostgresSaver(pool).load("t")


def connections(session):
    return session.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'juncture'"
    ).fetchone()[0]


def wait_for_connections(session, most):
    while connections(session) > most:
        session.execute("SELECT pg_sleep(0.01)")


def test_closing_ends_the_connections_and_so_does_forgetting(postgres_url, session):
    saver = PostgresSaver(postgres_url)
    saver.load("t")
    assert connections(session) == 1
    saver.close()
    wait_for_connections(session, 0)
    saver = PostgresSaver(postgres_url)
    saver.load("t")
    assert connections(session) == 1
    del saver
    gc.collect()
    wait_for_connections(session, 0)


def test_nothing_is_opened_before_the_first_call(postgres_url, session):
    saver = PostgresSaver(postgres_url)
    assert connections(session) == 0
    saver.close()
    with pytest.raises(SaverError, match="closed"):
        saver.load("t")
    assert connections(session) == 0


# ---- several processes


@contextmanager
def programs(text, url, count=1):
    """Processes that run a program, in which ``saver`` is there and ``go()`` waits for a line from the test."""
    beginning = """
        import os, sys
        from juncture.errors import *
        from juncture.savers.base import StoredCheckpoint
        from juncture.savers.postgres import PostgresSaver

        def put(seq, thread_id="t"):
            columns = dict(parent_id=None, step=seq, source="loop", run_id="run", created_at=1.5, header=b"")
            checkpoint = StoredCheckpoint(thread_id, "", f"c{seq:03}", seq=seq, builds_on=(), **columns)
            saver.put(checkpoint, str(os.getpid()).encode(), follows=f"c{seq - 1:03}" if seq > 1 else None)

        def go():
            print("ready", flush=True)
            sys.stdin.readline()

        saver = PostgresSaver(sys.argv[1])
    """
    program = textwrap.dedent(beginning) + textwrap.dedent(text)
    running = [
        subprocess.Popen(
            # Newer Pythons warn of any fork beside threads; that it ends well here is what is tested.
            [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    try:
        yield running
    finally:
        for one in running:
            one.kill()
            one.communicate()


def ended(process):
    """What a process printed; it must have ended well, and without a word of complaint."""
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    return out.split()


def started_at_once(running):
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    return [ended(process) for process in running]


@pytest.mark.parametrize("url", ["postgres_url", "pooled_postgres_url"])
def test_several_processes_make_the_tables_at_once(url, request, session):
    text = """
        go()
        put(1, str(os.getpid()))
    """
    with programs(text, request.getfixturevalue(url), 4) as running:
        started_at_once(running)
        found = session.execute("SELECT thread_id FROM juncture.series").fetchall()
        assert {int(pid) for (pid,) in found} == {process.pid for process in running}
    assert session.execute("SELECT version FROM juncture.version").fetchall() == [(len(MIGRATIONS),)]


@pytest.mark.parametrize("url", ["postgres_url", "pooled_postgres_url"])
def test_of_processes_that_race_for_a_thread_one_goes_on_at_a_time(url, request, saver):
    saver.load("t")
    text = """
        go()
        won = 0
        while (seq := (found.head_seq if (found := saver.load("t")) else 0) + 1) <= 100:
            try:
                put(seq)
                won += 1
            except HeadMovedError:
                pass
        print(won)
    """
    with programs(text, request.getfixturevalue(url), 3) as running:
        won = {
            str(process.pid).encode(): int(out[0])
            for process, out in zip(running, started_at_once(running), strict=True)
        }
    found = saver.parts("t", "", ((1, 1_000),))
    assert [part.seq for part in found] == list(range(1, 101))
    by = [part.payload for part in found]
    assert {process: by.count(process) for process in won} == won


def test_of_processes_that_race_for_a_lease_one_gets_it(saver, postgres_url):
    text = """
        go()
        try:
            print(saver.acquire_lease("t", "holder", str(os.getpid()), 30).token)
        except ThreadBusyError as error:
            print("busy", error.lease.token)
    """
    with programs(text, postgres_url, 4) as running:
        outs = started_at_once(running)
    (lease,) = saver.leases()
    assert sorted(outs) == sorted([[lease.token], *[["busy", lease.token]] * 3])


def test_what_a_killed_process_had_saved_is_there_and_nothing_in_part(saver, postgres_url, session):
    text = """
        import itertools
        first = saver.load("t").head_seq + 1
        for seq in itertools.count(first):
            put(seq)
            print(seq, flush=True)
    """
    put(saver, 1)
    for lines in (1, 7, 30):
        with programs(text, postgres_url) as (process,):
            for _ in range(lines):
                process.stdout.readline()
            process.kill()
            rest, err = process.communicate()
            assert err == ""
        wait_for_connections(session, 1)  # the server ends what it was asked for last
        head = saver.load("t").head_seq
        told = [int(line) for line in rest.splitlines() if line.isdigit()]
        assert not told or told[-1] <= head <= told[-1] + 1
        assert [found.checkpoint.seq for found in saver.history("t")] == list(range(head, 0, -1))
        assert [part.seq for part in saver.parts("t", "", ((1, head + 1),))] == list(range(1, head + 1))


def test_a_fork_has_connections_of_its_own(postgres_url):
    text = """
        put(1)
        child = os.fork()
        if child == 0:
            put(2)
            saver.close()
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        put(3)  # on the connection from before the fork
        child = os.fork()
        if child == 0:
            put(4)
            del saver
            sys.exit()  # without closing
        assert os.waitpid(child, 0)[1] == 0
        assert saver.load("t").head_seq == 4
        print("fine")
    """
    with programs(text, postgres_url) as (process,):
        assert ended(process) == ["fine"]


def test_a_pool_that_was_given_is_refused_in_a_fork(postgres_url):
    text = """
        from psycopg_pool import ConnectionPool
        with ConnectionPool(sys.argv[1], kwargs={"autocommit": True}, min_size=1, open=True) as pool:
            saver = PostgresSaver(pool)
            put(1)
            child = os.fork()
            if child == 0:
                try:
                    saver.load("t")
                except ConfigError as error:
                    os._exit("fork" in str(error))
                os._exit(9)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            put(2)
    """
    with programs(text, postgres_url) as (process,):
        assert ended(process) == ["1"]


def test_a_program_that_forgets_to_close_ends_well(postgres_url):
    with programs("put(1)", postgres_url) as (process,):
        assert ended(process) == []


def test_a_program_without_the_driver_is_told_what_to_install():
    program = "import sys; sys.modules['psycopg'] = None; import juncture.savers.postgres"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("Install juncture[postgres].\n")


# ---- tables


def test_tables_of_a_newer_version_are_refused(saver, session, postgres_url):
    put(saver, 1)
    session.execute("UPDATE juncture.version SET version = version + 1")
    with (
        PostgresSaver(postgres_url) as old,
        pytest.raises(SaverError, match=r"newer Juncture.*version 2.*knows 1"),
    ):
        put(old, 2)
    assert saver.load("t").head_seq == 1


def test_tables_that_are_there_need_no_right_to_create_any(saver, session, postgres_url):
    put(saver, 1)
    session.execute("DROP ROLE IF EXISTS writer")
    session.execute("CREATE ROLE writer LOGIN")
    session.execute("GRANT USAGE ON SCHEMA juncture TO writer")
    session.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA juncture TO writer")
    with PostgresSaver(postgres_url.replace("postgres@", "writer@")) as writes:
        put(writes, 2)
        with pytest.raises(SaverError, match="permission denied"):
            PostgresSaver(postgres_url.replace("postgres@", "writer@"), schema="another").load("t")
    assert saver.load("t").head_seq == 2
    session.execute("DROP OWNED BY writer")
    session.execute("DROP ROLE writer")
