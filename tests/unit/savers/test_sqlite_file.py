"""SQLite in several processes: crashes, forks, versions of the schema, and everything that a file can do wrong."""

import os
import sqlite3
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from juncture.errors import SaverError, SaverUnavailableError
from juncture.savers import sqlite_sql as sql
from juncture.savers.sqlite import SqliteSaver
from juncture.savers.sqlite_file import Database
from juncture.testing.saver_conformance import checkpoint
from tests.unit.savers.sqlite_use import RECORD, Script, connection_of, put, query, seqs


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def saver(path):
    with SqliteSaver(path, synchronous="NORMAL", timeout=5) as saver:
        yield saver


# ── several processes ────────────────────────────────────────────────────────────────────────────────────────


def test_several_processes_may_start_at_once_on_a_new_file(path):
    body = """
        saver = SqliteSaver(path)
        name = f"process {os.getpid()}"
        lease = saver.acquire_lease(name, name, name, 30.0)
        for seq in range(1, 6):
            put(saver, seq, name)
        saver.release_lease(lease)
        saver.close()
    """
    scripts = [Script(path, body) for _ in range(4)]
    for script in scripts:
        script.go()
    for script in scripts:
        script.ended()
    with SqliteSaver(path) as saver:
        found = saver.threads()
        assert len(found) == 4
        assert [one.head.head_seq for one in found] == [5] * 4
        assert saver.leases() == []


def test_two_processes_that_write_to_one_thread_lose_nothing(path):
    body = """
        saver = SqliteSaver(path, synchronous="NORMAL")
        won = []
        while len(won) < 40:
            found = saver.load("t")
            seq = found.head_seq + 1 if found else 1
            try:
                put(saver, seq, payload=str(os.getpid()).encode())
                won.append(seq)
            except HeadMovedError:
                pass
        print(*won)
        saver.close()
    """
    scripts = [Script(path, body) for _ in range(2)]
    for script in scripts:
        script.go()
    won = {str(script.process.pid): [int(seq) for seq in script.ended()] for script in scripts}
    with SqliteSaver(path) as saver:
        assert seqs(saver) == list(range(80, 0, -1))
        for part in saver.parts("t", "", ((1, 80),)):
            assert part.seq in won[part.payload.decode()], "each put that succeeded is there, and is its own"


def test_two_processes_that_want_a_lease_never_have_it_both(path):
    body = """
        saver = SqliteSaver(path, synchronous="NORMAL")
        name, had = str(os.getpid()), 0
        while had < 30:
            try:
                lease = saver.acquire_lease("t", name, f"{name}:{had}", None)
            except ThreadBusyError:
                continue
            had += 1
            found = saver.load("t")
            seq = found.head_seq + 1 if found else 1
            saver.put(checkpoint(seq), b"", follows=found and found.head_id, lease=lease)
            saver.release_lease(lease)
        saver.close()
    """
    scripts = [Script(path, body) for _ in range(2)]
    for script in scripts:
        script.go()
    for script in scripts:
        script.ended()  # a HeadMovedError there would mean that both had it
    with SqliteSaver(path) as saver:
        assert saver.load("t").head_seq == 60


def test_who_was_killed_leaves_what_it_had_saved(path):
    body = """
        saver = SqliteSaver(path, synchronous="NORMAL")
        found = saver.load("t")
        seq = found.head_seq if found else 0
        while True:
            seq += 1
            saver.put(
                checkpoint(seq, builds_on=((1, seq - 1),) if seq > 1 else ()),
                b"%d " % seq * 500,
                follows=checkpoint(seq - 1).checkpoint_id if seq > 1 else None,
                records=[StoredRecord("a", "done", "", b"%d" % seq)] if seq > 1 else [],
            )
            print(seq, flush=True)
    """
    said = 0
    for wait_for in (1, 5, 17, 40, 3):
        script = Script(path, body).go()
        for _ in range(wait_for):
            said = int(script.process.stdout.readline())
        script.process.kill()
        rest = script.process.stdout.read().split("\n")
        script.process.communicate()
        said = max([said, *(int(line) for line in rest[:-1])])  # the last may be cut short
        assert query(path, "PRAGMA integrity_check") == [("ok",)]
        with SqliteSaver(path) as saver:
            found = saver.load("t")
            assert found.head_seq in {said, said + 1}, "what was said to be saved is; the next may be"
            assert [part.payload for part in found.parts] == [
                b"%d " % seq * 500 for seq in range(1, found.head_seq + 1)
            ]
            records = [one.records for one in saver.history("t", records=True)]
            assert records == [
                (),
                *((RECORD._replace(content=b"%d" % seq),) for seq in range(found.head_seq, 1, -1)),
            ]


def test_a_lease_of_a_dead_process_can_be_taken_over_and_its_zombie_is_fenced(path):
    script = Script(
        path,
        """
        saver = SqliteSaver(path, synchronous="NORMAL")
        lease = saver.acquire_lease("t", "zombie", "z", 0.05)
        saver.put(checkpoint(1), b"", follows=None, lease=lease)
        print("took", flush=True)
        sys.stdin.readline()
        try:
            saver.put(checkpoint(2), b"", follows=checkpoint(1).checkpoint_id, lease=lease)
        except LeaseLostError:
            print("lost")
        saver.close()
        """,
    ).go()
    assert script.process.stdout.readline() == "took\n"
    with SqliteSaver(path) as saver:
        while (lease := saver.leases()[0]).expires_in > 0:
            pass  # each look takes its time
        assert lease.holder == "zombie"
        mine = saver.acquire_lease("t", "me", "m", 60.0)
        script.go()
        assert script.ended() == ["lost"]
        put(saver, 2, lease=mine)


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_child_has_a_connection_of_its_own(path):
    script = Script(
        path,
        """
        import asyncio
        saver = SqliteSaver(path)
        put(saver, 1)
        asyncio.run(saver.aload("t"))  # there is a thread now, which the child doesn't have
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of forks beside threads
        for seq in range(2, 12):
            child = os.fork()
            if child == 0:
                assert not saver._database._open
                assert asyncio.run(saver.aload("t")).head_seq == seq - 1
                put(saver, seq)
                put(saver, 1, f"child {seq}")
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert saver.load("t").head_seq == seq
        put(saver, 12)
        print(saver.load("t").head_seq, len(saver.threads()))
        saver.close()
        """,
    )
    assert script.go().ended() == ["12", "11"]
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_fork_waits_for_whoever_is_saving(path):
    script = Script(
        path,
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        savers = [SqliteSaver(path, synchronous="NORMAL") for _ in range(2)]
        going = True
        counts = [0, 0]
        def save(number):
            while going:
                counts[number] += 1
                put(savers[number], counts[number], f"worker {number}")
        workers = [threading.Thread(target=save, args=(number,)) for number in range(2)]
        for worker in workers:
            worker.start()
        for turn in range(15):
            child = os.fork()
            if child == 0:
                for saver in savers:
                    put(saver, 1, f"child {os.getpid()} {id(saver)}")
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        going = False
        for worker in workers:
            worker.join()
        for number, saver in enumerate(savers):
            assert saver.load(f"worker {number}").head_seq == counts[number]
        print(len(savers[0].threads()))
        """,
    )
    assert script.go().ended() == ["32"]
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


# ── what a file can do wrong ─────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_is_locked_for_too_long_is_unavailable(path):
    with (
        SqliteSaver(path, timeout=0.05) as saver,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        put(saver, 1)
        other.execute("BEGIN IMMEDIATE")
        for call in (
            lambda: put(saver, 2, records=[RECORD]),
            lambda: saver.put_records("t", "", checkpoint(1).checkpoint_id, [RECORD]),
            lambda: saver.acquire_lease("t", "h", "k", None),
            lambda: saver.delete_thread("t"),
        ):
            with pytest.raises(SaverUnavailableError, match=r"runs\.db is locked.*more than 0\.05 s"):
                call()
        assert seqs(saver) == [1], "readers don't wait"
        other.execute("ROLLBACK")
        put(saver, 2)
        assert seqs(saver) == [2, 1]


def test_a_lock_that_is_given_back_in_time_is_waited_for(saver, path):
    put(saver, 1)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        worker = threading.Thread(target=put, args=(saver, 2))
        worker.start()
        while not saver._database._lock.locked():
            pass
        other.execute("ROLLBACK")
        worker.join()
    assert seqs(saver) == [2, 1]


def test_a_full_file_is_unavailable_and_nothing_is_saved(saver):
    put(saver, 1)
    pages = connection_of(saver).execute("PRAGMA page_count").fetchone()[0]
    connection_of(saver).execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(SaverUnavailableError, match=r"disk that holds .*runs\.db is full.*Make room"):
        put(saver, 2, payload=b"x" * 100_000, records=[RECORD])
    assert [(found.checkpoint.seq, found.records) for found in saver.history("t", records=True)] == [(1, ())]
    connection_of(saver).execute("PRAGMA max_page_count = 100000")
    put(saver, 2, payload=b"x" * 100_000)
    assert saver.load("t").parts[-1].payload == b"x" * 100_000


def test_a_disk_that_takes_no_more_is_unavailable_and_what_was_saved_stays(path):
    script = Script(
        path,
        """
        import resource
        saver = SqliteSaver(path)
        put(saver, 1)
        most = 200_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        seq = 1
        try:
            while True:
                put(saver, seq + 1, payload=b"x" * 5_000)
                seq += 1
        except SaverUnavailableError as error:
            assert path in str(error) and "Nothing was saved" in str(error), error
        assert saver.load("t").head_seq == seq
        try:
            put(saver, seq + 1, payload=b"x" * 5_000)
        except SaverUnavailableError:
            pass
        else:
            sys.exit("there is no more room than before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        put(saver, seq + 1, payload=b"room again")
        print(seq)
        saver.close()
        """,
    )
    (seq,) = script.go().ended()
    assert int(seq) > 10
    with SqliteSaver(path) as saver:
        assert seqs(saver) == list(range(int(seq) + 1, 0, -1))
        payloads = [part.payload for part in saver.parts("t", "", ((1, int(seq) + 1),))]
        assert payloads == [b"payload", *[b"x" * 5_000] * (int(seq) - 1), b"room again"]


def test_a_file_that_may_not_be_written_is_unavailable():
    with tempfile.TemporaryDirectory() as folder:  # pytest's own nobody else may enter
        path = Path(folder) / "runs.db"
        with SqliteSaver(path) as saver:
            put(saver, 1)
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        script = Script(
            path,
            """
            if os.getuid() == 0:
                os.setuid(65534)  # root may write everything
            try:
                put(SqliteSaver(path), 2)
            except SaverUnavailableError as error:
                print("Check that this user may" in str(error) or error)
            """,
        )
        assert script.go().ended() == ["True"]
        Path(folder).chmod(0o755)


@pytest.mark.parametrize(
    ("name", "told"), [("nowhere/runs.db", "no folder .*nowhere: make it first"), ("", "It is a folder")]
)
def test_a_path_that_can_not_be_opened_says_why(name, told, tmp_path):
    saver = SqliteSaver(tmp_path / name)
    for call in (lambda: saver.load("t"), lambda: put(saver, 1)):
        with pytest.raises(SaverUnavailableError, match=told):
            call()
    (tmp_path / "nowhere").mkdir()
    if name:
        put(saver, 1)
        assert seqs(saver) == [1], "it can be used as soon as the folder is there"
    saver.close()


@pytest.mark.parametrize("move", ["deleted", "replaced"])
def test_a_file_that_is_moved_away_is_noticed_before_anything_is_lost(move, saver, path):
    put(saver, 1)
    away = path.with_name("away.db")
    path.rename(away)
    if move == "replaced":
        path.touch()
    for call in (lambda: put(saver, 2), lambda: saver.acquire_lease("t", "h", "k", None)):
        with pytest.raises(SaverUnavailableError, match="moved, deleted or replaced"):
            call()
    away.rename(path)
    put(saver, 2)
    assert seqs(saver) == [2, 1]


@pytest.mark.parametrize("content", [b"not a database " * 100, os.urandom(4096)], ids=["text", "random"])
def test_a_file_that_is_no_database_is_left_alone(content, path):
    path.write_bytes(content)
    with SqliteSaver(path) as saver, pytest.raises(SaverError, match=r"not a SQLite database.*not changed"):
        put(saver, 1)
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [0, 1, 7])
def test_a_database_of_somebody_else_is_left_alone(version, path):
    query(path, "CREATE TABLE checkpoints (thread_id TEXT)")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with SqliteSaver(path) as saver, pytest.raises(SaverError, match=r"another program.*not changed"):
        saver.load("t")
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == ["runs.db"]


def test_a_damaged_file_is_an_error_and_no_wrong_answer(path):
    with SqliteSaver(path, synchronous="NORMAL") as saver:
        for seq in range(1, 200):
            put(saver, seq, payload=b"x" * 200)
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 200] = b"\xa5" * 200
    path.write_bytes(content)
    with SqliteSaver(path) as saver:
        for call in (
            lambda: saver.load("t"),
            lambda: saver.history("t"),
            lambda: put(saver, 200),
            lambda: saver.threads(),
        ):
            with pytest.raises(SaverError, match="is damaged"):
                call()


def test_a_python_whose_sqlite_is_too_old_says_so(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with SqliteSaver(path) as saver, pytest.raises(SaverError, match=r"3\.35\.0 or later"):
        saver.load("t")


# ── versions of the schema ───────────────────────────────────────────────────────────────────────────────────

LATER = (*sql.SCHEMA, ("ALTER TABLE leases ADD COLUMN mood TEXT", "UPDATE leases SET mood = 'good'"))


def database(path, schema=LATER):
    return Database(str(path), schema, synchronous="NORMAL", timeout=5)


def test_a_file_of_an_older_version_is_brought_up_to_date_once(saver, path):
    put(saver, 1)
    saver.acquire_lease("t", "h", "k", None)
    saver.close()
    for _ in range(2):
        with closing(database(path)) as later:
            with later.writing() as run:
                assert run("SELECT holder, mood FROM leases").fetchall() == [("h", "good")]
            assert query(path, "PRAGMA user_version") == [(2,)]


def test_several_may_bring_it_up_to_date_at_once(saver, path):
    put(saver, 1)
    saver.close()
    barrier, failed = threading.Barrier(4), []

    def use():
        with closing(database(path)) as later:
            barrier.wait()
            try:
                with later.reading() as run:
                    run("SELECT mood FROM leases").fetchall()
            except Exception as error:
                failed.append(error)

    workers = [threading.Thread(target=use) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed


def test_a_file_of_a_newer_version_is_refused_and_left_alone(path):
    with closing(database(path)) as later, later.writing() as run:
        run("INSERT INTO leases VALUES ('t', 'h', 'k', NULL, 'good')")
    before = path.read_bytes()
    with (
        SqliteSaver(path) as saver,
        pytest.raises(SaverError, match=r"newer version.*version 2.*up to 1\. Update Juncture"),
    ):
        put(saver, 1)
    assert path.read_bytes() == before


def test_a_step_that_fails_leaves_the_version_before(saver, path):
    put(saver, 1)
    saver.close()
    broken = (*LATER, ("CREATE TABLE mine (x)", "UPDATE nowhere SET x = 1"))
    with (
        closing(database(path, broken)) as later,
        pytest.raises(SaverError, match="nowhere"),
        later.reading(),
    ):
        pass
    assert query(path, "PRAGMA user_version") == [(1,)]
    with SqliteSaver(path) as again:
        assert seqs(again) == [1]
