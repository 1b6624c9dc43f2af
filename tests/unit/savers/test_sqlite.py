"""Checkpoints in SQLite: several processes and connections, crashes, forks, and everything that a file can do wrong."""

import asyncio
import gc
import os
import sqlite3
import threading
from abc import update_abstractmethods
from contextlib import closing
from itertools import cycle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from juncture.errors import ConfigError, HeadMovedError, LeaseLostError, SaverError
from juncture.savers import Lease, Saver, StoredRecord
from juncture.savers import sqlite_sql as sql
from juncture.savers.sqlite import SqliteSaver, packed, unpacked
from juncture.testing.saver_conformance import LAWS, STRANGE, checkpoint
from tests.unit.savers.sqlite_use import RECORD, connection_of, put, query, seqs


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def saver(path):
    with SqliteSaver(path, synchronous="NORMAL", timeout=5) as saver:
        yield saver


# ── the laws, with every second call on another connection ───────────────────────────────────────────────────


class ByTurns(Saver):
    """Two savers of one file: what one call does, the next has to find in the file."""

    def __init__(self, path):
        self._both = [SqliteSaver(path, synchronous="NORMAL"), SqliteSaver(path, synchronous="NORMAL")]
        self._turn = cycle(self._both)

    def close(self):
        for saver in self._both:
            saver.close()


def forwarded(name):
    return lambda self, *args, **options: getattr(next(self._turn), name)(*args, **options)


for name in ByTurns.__abstractmethods__:
    setattr(ByTurns, name, forwarded(name))
update_abstractmethods(ByTurns)


@pytest.mark.parametrize("law", [law for law in LAWS if "sync]" in str(law)], ids=str)
def test_two_savers_of_one_file_keep_the_law(law, path):
    law(lambda: ByTurns(path))


# ── what it is given ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("args", "options", "told"),
    [
        ((":memory:",), {}, "use InMemorySaver"),
        (("",), {}, "path of a file"),
        (("nul\0inside",), {}, "path of a file"),
        (("runs.db",), {"synchronous": "OFF"}, "'FULL' or 'NORMAL', not 'OFF'"),
        (("runs.db",), {"lease_ttl": 0}, "above 0"),
        (("runs.db",), {"lease_ttl": float("nan")}, "above 0"),
        (("runs.db",), {"timeout": -1}, "number of seconds"),
    ],
)
def test_what_can_not_be_right_is_refused_at_once(args, options, told):
    with pytest.raises(ConfigError, match=told):
        SqliteSaver(*args, **options)


def test_nothing_is_opened_before_it_is_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saver = SqliteSaver("runs.db")
    assert not list(tmp_path.iterdir())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    saver.load("t")
    saver.close()
    assert [found.name for found in sorted(tmp_path.iterdir())] == ["elsewhere", "runs.db"]


ODD = ["nul\0inside", "\0", "\ud800 lone"]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_text_that_can_not_be_kept_is_refused_wherever_it_stands(name, saver):
    put(saver, 1)
    head = checkpoint(1).checkpoint_id
    for field in ("thread_id", "namespace", "checkpoint_id", "parent_id", "source", "run_id"):
        one = checkpoint(2)
        setattr(one, field, ("z" if field == "checkpoint_id" else "") + name)
        follows = None if field in {"thread_id", "namespace"} else head
        if follows is None:
            one.seq = 1
        with pytest.raises(ConfigError, match=r"NUL|Unicode"):
            saver.put(one, b"", follows=follows)
    for record in (
        StoredRecord(name, "", "", b""),
        StoredRecord("", name, "", b""),
        StoredRecord("", "", name, b""),
    ):
        with pytest.raises(ConfigError, match=r"NUL|Unicode"):
            saver.put_records("t", "", head, [RECORD, record])
        with pytest.raises(ConfigError, match=r"NUL|Unicode"):
            put(saver, 2, records=[RECORD, record])
    for holder in ((name, "h", "k"), ("t", name, "k"), ("t", "h", name)):
        with pytest.raises(ConfigError, match=r"NUL|Unicode"):
            saver.acquire_lease(*holder, None)
    assert [(found.checkpoint, found.records) for found in saver.history("t", records=True)] == [
        (checkpoint(1), ())
    ]
    assert [one.thread_id for one in saver.threads()] == ["t"]
    assert saver.leases() == []


def test_a_text_with_nul_is_never_taken_for_what_is_before_it(saver):
    put(saver, 1)
    put(saver, 2)
    kept = saver.acquire_lease("t", "h", "k", None)
    saver.drop("t", "", [checkpoint(1).checkpoint_id + "\0x"])
    assert seqs(saver) == [2, 1]
    assert saver.renew_leases([Lease("t\0x", "h", "k", None), Lease("t", "h", "k\0x", None)], 1.0) == []
    assert saver.leases() == [kept]


def test_a_value_larger_than_sqlite_takes_is_refused(saver):
    put(saver, 1)
    connection_of(saver).setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    with pytest.raises(SaverError, match="can't keep a number or value that large"):
        put(saver, 2, payload=b"x" * 20_000, records=[RECORD])
    with pytest.raises(SaverError, match="can't keep a number or value that large"):
        put_with_step(saver, 2, 1 << 70)
    assert [(found.checkpoint.seq, found.records) for found in saver.history("t", records=True)] == [(1, ())]
    put(saver, 2)


def put_with_step(saver, seq, step):
    one = checkpoint(seq)
    one.step = step
    saver.put(one, b"", follows=checkpoint(seq - 1).checkpoint_id, records=[RECORD])


def test_a_series_that_is_full_says_so(saver, path):
    put(saver, 1)
    query(path, "UPDATE checkpoints SET seq = ?", sql.MOST)
    with pytest.raises(SaverError, match="room for no more"):
        saver.put(checkpoint(2, seq=sql.MOST + 1), b"", follows=checkpoint(1).checkpoint_id)
    assert len(saver.history("t")) == 1


UUID = "01980000-0000-7000-8000-00000000000a"


@given(st.one_of(st.text(max_size=40), st.text("0123456789abcdefABCDEF- ", min_size=30, max_size=38)))
@example(UUID)
@example(UUID.upper())
@example(UUID.replace("-", ""))
@example(UUID.replace("-", "").upper())
@example(UUID.replace("-", " "))
@example("-" * 36)
@example(" " * 32)
@example("ab" * 15 + "  ")
@example("é" * 32)
def test_an_id_comes_back_from_its_bytes(text):
    assert unpacked(packed(text)) == text


def test_ids_as_ours_take_few_bytes():
    assert len(packed(UUID)) == 16
    assert len(packed(UUID.replace("-", ""))) == 17


# ── how it works ─────────────────────────────────────────────────────────────────────────────────────────────


def statements(saver, call):
    """Those that a call runs."""
    ran = []
    connection = connection_of(saver)
    connection.set_trace_callback(ran.append)
    call()
    connection.set_trace_callback(None)
    return ran


def test_a_listing_takes_as_many_statements_however_long_it_is(saver):
    counts = []
    for end in (5, 60):
        for seq in range(end - 4 if end == 5 else 6, end + 1):
            put(saver, seq, records=[RECORD] if seq > 1 else ())
            put(saver, 1, thread_id=f"thread {seq}")
            saver.acquire_lease(f"thread {seq}", "h", str(seq), None)
        calls = (
            lambda: saver.history("t", records=True),
            lambda: saver.threads(),
            lambda: saver.parts("t", "", tuple((seq, seq) for seq in range(1, 100, 2))),
            lambda: saver.load("t"),
            lambda: saver.renew_leases(saver.leases(), 60.0),
        )
        counts.append([len(statements(saver, call)) for call in calls])
    assert counts[0] == counts[1]
    assert max(counts[0]) <= 6


def test_a_listing_reads_no_payload_and_a_save_is_one_transaction(saver):
    put(saver, 1)
    put(saver, 2)
    for call in (lambda: saver.history("t", records=True), lambda: saver.threads()):
        assert not any("parts" in statement for statement in statements(saver, call))
    ran = statements(saver, lambda: put(saver, 3, records=[RECORD]))
    assert (ran[0], ran[-1]) == ("BEGIN IMMEDIATE", "COMMIT")
    assert len([statement for statement in ran if "COMMIT" in statement]) == 1


@pytest.mark.parametrize(("synchronous", "number"), [("FULL", 2), ("NORMAL", 1)])
def test_saves_are_as_safe_as_asked_for_and_leases_wait_for_no_disk(synchronous, number, path):
    with SqliteSaver(path, synchronous=synchronous) as saver:
        put(saver, 1)
        saver.acquire_lease("t", "h", "k", None)
        assert connection_of(saver, synchronous).execute("PRAGMA synchronous").fetchone() == (number,)
        assert connection_of(saver, "NORMAL").execute("PRAGMA synchronous").fetchone() == (1,)
        assert connection_of(saver, synchronous).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_chat_of_3000_steps_costs_little_beside_its_payloads(path):
    with SqliteSaver(path, synchronous="NORMAL") as saver:
        parent = None
        for seq in range(1, 3_001):
            one = checkpoint(seq, parent_id=parent, builds_on=((1, seq - 1),) if seq > 1 else ())
            one.run_id, one.header = f"{seq // 3:032x}", b"h" * 20
            saver.put(one, b"p" * 30, follows=parent)
            parent = one.checkpoint_id
        assert len(saver.load("t").parts) == 3_000
    assert os.path.getsize(path) - 3_000 * 30 < 650_000


def test_dropped_and_deleted_threads_leave_no_row(saver, path):
    for thread_id in ("t", "u"):
        for seq in range(1, 4):
            put(saver, seq, thread_id, records=[RECORD] if seq > 1 else ())
        saver.put_records(thread_id, "", checkpoint(3).checkpoint_id, [RECORD])
        saver.acquire_lease(thread_id, "h", thread_id, None)
    saver.drop("u", "", [checkpoint(1).checkpoint_id, checkpoint(2).checkpoint_id])
    saver.delete_thread("t")
    rows = {
        table: query(path, f"SELECT count(*) FROM {table}")[0][0]
        for table in ("series", "checkpoints", "parts", "records", "leases")
    }
    assert rows == dict.fromkeys(rows, 1)
    assert saver.load("u").records == (RECORD,)


def test_a_saver_that_nobody_closes_lets_go_of_its_file(path):
    saver = SqliteSaver(path)
    put(saver, 1)
    saver.acquire_lease("t", "h", "k", None)
    asyncio.run(saver.aload("t"))
    assert path.with_name("runs.db-wal").exists()
    (worker,) = (thread for thread in threading.enumerate() if thread.name == "juncture-sqlite")
    del saver
    gc.collect()
    worker.join(20)
    assert not worker.is_alive()
    assert not path.with_name("runs.db-wal").exists(), "SQLite removes it with the last connection"


# ── cut short ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_is_cut_short_takes_its_part_back_and_lets_go(saver):
    """As by Ctrl-C in the middle of a transaction."""
    put(saver, 1)
    records = iter([RECORD])

    def cut_short():
        yield from records
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        saver.put_records("t", "", checkpoint(1).checkpoint_id, cut_short())
    assert saver.load("t").records == ()
    put(saver, 2)


def test_a_twin_that_is_cancelled_does_what_it_began(saver, path):
    async def use():
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            task = asyncio.create_task(saver.aput(checkpoint(2), b"", follows=checkpoint(1).checkpoint_id))
            await asyncio.sleep(0)  # the task gives the call to the worker
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            other.execute("ROLLBACK")
        return await saver.aload("t")

    put(saver, 1)
    assert asyncio.run(use()).head_seq == 2


def test_errors_of_savers_come_through_the_twins(saver):
    async def use():
        with pytest.raises(HeadMovedError):
            await saver.aput(checkpoint(2), b"", follows=checkpoint(1).checkpoint_id)
        with pytest.raises(LeaseLostError):
            await saver.aput(checkpoint(1), b"", follows=None, lease=Lease("t", "h", "k", None))
        await asyncio.gather(*(saver.aacquire_lease(name, "h", name, None) for name in STRANGE))
        return await saver.aleases()

    assert len(asyncio.run(use())) == len(STRANGE)


# ── at once, on the event loop ───────────────────────────────────────────────────────────────────────────────


async def aput(saver, seq, payload=b"payload"):
    follows = checkpoint(seq - 1).checkpoint_id if seq > 1 else None
    await saver.aput(checkpoint(seq), payload, follows=follows, records=[RECORD] if seq > 1 else ())


def worker_of(saver):
    return saver._worker._thread


def test_a_small_put_that_waits_for_nothing_needs_no_worker(saver):
    async def use():
        await aput(saver, 2)
        await aput(saver, 3)
        assert worker_of(saver) is None
        await aput(saver, 4, payload=b"x" * 100_000)
        assert worker_of(saver) is not None, "what is large is stored elsewhere"

    put(saver, 1)
    asyncio.run(use())
    assert [one.records for one in saver.history("t", records=True)] == [(), (RECORD,), (RECORD,), (RECORD,)]
    assert len(saver.parts("t", "", ((1, 9),))) == 4


def test_a_put_that_waits_for_the_disk_is_made_by_the_worker(path):
    async def use():
        await aput(saver, 2)
        assert worker_of(saver) is not None

    with SqliteSaver(path) as saver:
        put(saver, 1)
        asyncio.run(use())
        assert seqs(saver) == [2, 1]


def test_a_put_while_somebody_else_writes_leaves_the_loop_free(saver, path):
    async def use():
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            task = asyncio.create_task(aput(saver, 3))
            for _ in range(50):
                await asyncio.sleep(0)  # the loop goes round
            assert not task.done()
            other.execute("ROLLBACK")
            await task

    put(saver, 1)
    asyncio.run(aput(saver, 2))
    asyncio.run(use())
    assert seqs(saver) == [3, 2, 1]


def test_the_log_is_moved_into_the_file_by_the_worker(saver, path):
    async def use():
        for seq in range(2, 203):
            await aput(saver, seq)
        await saver.aload("t")  # so the worker has done what it had been given

    put(saver, 1)
    before = path.stat().st_size
    asyncio.run(use())
    assert path.stat().st_size > before
    assert seqs(saver) == list(range(202, 0, -1))


@pytest.mark.parametrize("size", [10, 3_000, 8_000, 32_000])
def test_the_log_never_grows_to_where_sqlite_moves_it_by_itself(saver, path, size):
    async def use():
        for seq in range(2, 302):
            await aput(saver, seq, payload=b"x" * size)

    put(saver, 1)
    asyncio.run(use())
    pages = path.with_name(f"{path.name}-wal").stat().st_size // (4096 + 24)
    assert 100 < pages < 1000
