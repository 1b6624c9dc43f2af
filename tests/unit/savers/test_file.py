"""Checkpoints in a folder: what is on the disk, who else may use it, and what happens when something goes wrong."""

import errno
import fcntl
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from juncture.errors import ConfigError, HeadMovedError, LeaseLostError, SaverError, SaverUnavailableError
from juncture.savers import StoredRecord, file_log
from juncture.savers import file as file_module
from juncture.savers import file_format as form
from juncture.savers.file import FileSaver
from juncture.testing.saver_conformance import STRANGE, checkpoint

RECORD = StoredRecord("a", "done", "", b"content")


def series(saver, count, thread_id="t", *, begin=1, payload=b"payload"):
    for seq in range(begin, begin + count):
        follows = checkpoint(seq - 1, thread_id=thread_id).checkpoint_id if seq > 1 else None
        saver.put(checkpoint(seq, thread_id=thread_id), payload, follows=follows)


def seqs(saver, thread_id="t"):
    return [found.checkpoint.seq for found in saver.history(thread_id)]


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def log_of(folder, thread_id="t"):
    return folder / "threads" / f"{form.name_of(thread_id)}.log"


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────

HOSTILE = [
    *STRANGE,
    "",
    ".",
    "..",
    "/etc/passwd",
    "../" * 40 + "tmp/x",
    "CON",
    "nul\0inside",
    "\\\\server\\share",
    "a" * 5_000,
    "🦉" * 300,
    "t.log",
    "İ" * 100,
]


@pytest.mark.parametrize("thread_id", HOSTILE, ids=range(len(HOSTILE)))
def test_no_thread_id_reaches_outside_or_is_altered(tmp_path, thread_id):
    folder = tmp_path / "in" / "runs"
    with FileSaver(folder, fsync=False) as saver:
        series(saver, 2, thread_id)
        saver.acquire_lease(thread_id, "me", "token", 60)
        (found,) = saver.threads()
        assert found.thread_id == found.lease.thread_id == saver.leases()[0].thread_id == thread_id
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
        [
            "in",
            "runs",
            "juncture.format",
            "threads",
            "leases",
            f"{form.name_of(thread_id)}.log",
            f"{form.name_of(thread_id)}.lease",
        ]
    )
    assert len(form.name_of(thread_id)) <= 105
    assert form.name_of(thread_id).isascii()


def test_names_are_apart_on_a_disk_that_does_not_tell_cases_apart():
    names = [
        form.name_of(name).lower() for name in ("acme", "ACME", "Acme", "acme ", "acme\n", "a/me", "a\\me")
    ]
    assert len(set(names)) == len(names)


def test_a_name_that_utf_8_has_not_is_refused(tmp_path):
    with FileSaver(tmp_path, fsync=False) as saver:
        with pytest.raises(ConfigError, match="surrogate"):
            saver.load("\ud800")
        with pytest.raises(ConfigError, match="surrogate"):
            saver.put(checkpoint(1, namespace="\ud800"), b"", follows=None)
        with pytest.raises(ConfigError, match="surrogate"):
            saver.acquire_lease("t", "\ud800", "token", 60)
    assert files(tmp_path) == ["juncture.format"]


def test_everything_is_for_its_owner_alone(tmp_path):
    folder = tmp_path / "runs"
    with FileSaver(folder) as saver:
        series(saver, 1)
        saver.acquire_lease("t", "me", "token", 60)
    for path in [folder, *folder.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("dangling", [True, False])
def test_a_symbolic_link_is_not_followed(tmp_path, dangling):
    outside = tmp_path / "outside"
    if not dangling:
        outside.write_text("mine")
    with FileSaver(tmp_path / "runs") as saver:
        log = log_of(tmp_path / "runs")
        log.symlink_to(outside)
        for call in (lambda: series(saver, 1), lambda: saver.load("t"), lambda: saver.delete_thread("t")):
            with pytest.raises(SaverUnavailableError):
                call()
        log.unlink()
        (tmp_path / "runs" / "leases" / f"{form.name_of('t')}.lease.new").symlink_to(outside)
        saver.acquire_lease("t", "me", "token", 60)
    assert outside.exists() != dangling
    if not dangling:
        assert outside.read_text() == "mine"


def test_a_pipe_or_folder_in_the_place_of_a_log_is_an_error(tmp_path):
    with FileSaver(tmp_path) as saver:
        os.mkfifo(log_of(tmp_path))
        log_of(tmp_path, "u").mkdir()
        for thread_id in ("t", "u"):
            with pytest.raises(SaverUnavailableError):
                series(saver, 1, thread_id)


def test_the_folder_is_that_of_the_working_directory_when_it_was_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with FileSaver("runs") as saver:
        monkeypatch.chdir("/")
        series(saver, 1)
    assert log_of(tmp_path / "runs").exists()


@pytest.mark.parametrize("what", ["file", "below a file"])
def test_a_folder_that_can_not_be_made_is_said(tmp_path, what):
    (tmp_path / "taken").write_text("")
    with pytest.raises(SaverUnavailableError, match="taken"):
        FileSaver(tmp_path / "taken" / ("" if what == "file" else "runs"))


# ── what is written ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def synced(monkeypatch):
    """The kinds of what was flushed to the disk, in order."""
    found = []

    def fsync(file):
        found.append("folder" if os.path.isdir(f"/proc/self/fd/{file}") else "file")
        real(file)

    real = os.fsync
    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_a_call_flushes_once_and_a_new_thread_its_name_as_well(tmp_path, synced):
    saver = FileSaver(tmp_path)
    synced.clear()
    series(saver, 1)
    assert synced == ["file", "folder"]
    synced.clear()
    saver.put(checkpoint(2), b"", follows=checkpoint(1).checkpoint_id, records=[RECORD])
    saver.put_records("t", "", checkpoint(2).checkpoint_id, [RECORD])
    assert synced == ["file", "file"]
    synced.clear()
    saver.drop("t", "", [checkpoint(1).checkpoint_id])
    assert synced == ["file", "folder"]
    synced.clear()
    saver.load("t")
    saver.release_lease(saver.acquire_lease("t", "me", "token", 60))
    assert synced == []
    saver.delete_thread("t")
    assert synced == ["folder"]


def test_without_fsync_nothing_is_flushed(tmp_path, synced):
    with FileSaver(tmp_path, fsync=False) as saver:
        series(saver, 2)
        saver.drop("t", "", [checkpoint(1).checkpoint_id])
        saver.delete_thread("t")
    assert synced == []


def test_what_was_dropped_takes_no_place(tmp_path):
    with FileSaver(tmp_path, fsync=False) as saver:
        series(saver, 10, payload=bytes(10_000))
        assert log_of(tmp_path).stat().st_size > 100_000
        saver.drop("t", "", [checkpoint(seq).checkpoint_id for seq in range(1, 10)])
        assert log_of(tmp_path).stat().st_size < 11_000
        series(saver, 1, begin=11)
        assert seqs(saver) == [11, 10]


def test_a_nested_series_that_is_dropped_as_a_whole_leaves_nothing(tmp_path):
    with FileSaver(tmp_path, fsync=False) as saver:
        nested = checkpoint(1, namespace="inner")
        saver.put(nested, b"", follows=None)
        saver.drop("t", "inner", [nested.checkpoint_id])
        assert files(tmp_path) == ["juncture.format"]
        saver.put(nested, b"", follows=None)
        lease = saver.acquire_lease("t", "me", "token", 60)
        saver.drop("t", "inner", [nested.checkpoint_id])
        assert [one.token for one in saver.leases()] == ["token"]
        assert saver.namespaces("t") == []
        saver.put(nested, b"", follows=None, lease=lease)
        series(saver, 1)
        saver.drop("t", "inner", [nested.checkpoint_id])
        assert saver.namespaces("t") == [""]
        with pytest.raises(SaverError, match="can't be dropped"):
            saver.drop("t", "", [checkpoint(1).checkpoint_id])


def test_a_call_that_stores_nothing_leaves_no_file(tmp_path):
    with FileSaver(tmp_path) as saver:
        with pytest.raises(HeadMovedError):
            saver.put(checkpoint(2), b"", follows=checkpoint(1).checkpoint_id)
        with pytest.raises(HeadMovedError):
            saver.put_records("t", "", "x", [RECORD])
        lease = saver.acquire_lease("t", "me", "token", 60)
        saver.release_lease(lease)
        saver.release_lease(lease)
        with pytest.raises(LeaseLostError):
            saver.put(checkpoint(1), b"", follows=None, lease=lease)
        assert saver.renew_leases([lease], 60) == []
        saver.delete_thread("t")
        saver.drop("t", "", ["x"])
    assert files(tmp_path) == ["juncture.format"]


def test_an_index_that_is_not_kept_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(file_module, "KEPT", 2)
    with FileSaver(tmp_path, fsync=False) as saver:
        for seq in (1, 2, 3):
            for thread_id in "abcde":
                series(saver, 1, thread_id, begin=seq)
        assert [(found.thread_id, found.head.head_seq) for found in saver.threads()] == [
            (thread_id, 3) for thread_id in "abcde"
        ]


# ── several at once ──────────────────────────────────────────────────────────────────────────────────────────


def test_each_sees_what_the_other_did_to_the_log(tmp_path):
    """What one remembers of a log never hides that another cut, replaced, or deleted and made it again."""
    mine, other = FileSaver(tmp_path), FileSaver(tmp_path)
    series(mine, 5)
    assert seqs(other) == [5, 4, 3, 2, 1]
    mine.drop("t", "", [checkpoint(2).checkpoint_id])
    assert seqs(other) == [5, 4, 3, 1]
    series(other, 1, begin=6)
    assert seqs(mine) == [6, 5, 4, 3, 1]
    other.delete_thread("t")
    assert mine.load("t") is None
    series(other, 2, payload=b"another")
    assert seqs(mine) == [2, 1]
    assert mine.load("t").parts[-1].payload == b"another"
    with pytest.raises(HeadMovedError):
        series(mine, 1, begin=7)


def test_a_lock_that_nobody_gives_back_is_an_error_in_the_end(tmp_path, monkeypatch):
    saver = FileSaver(tmp_path)
    series(saver, 1)
    monkeypatch.setattr(file_log, "LOCK_WAIT", 0.05)
    with log_of(tmp_path).open("rb") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        for call in (lambda: saver.load("t"), lambda: series(saver, 1, begin=2)):
            with pytest.raises(SaverUnavailableError, match="had the lock of"):
                call()
        series(saver, 1, "other")
    assert seqs(saver) == [1]


def run_python(source, *args, **options):
    """A process of its own, which prints lines."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        **options,
    )


RACER = """
    import sys
    from juncture.errors import HeadMovedError
    from juncture.savers.file import FileSaver
    from juncture.testing.saver_conformance import checkpoint

    saver, mine = FileSaver(sys.argv[1], fsync=False), 0
    print("ready", flush=True)
    sys.stdin.readline()
    while True:
        head = saver.load("t")
        seq = 1 if head is None else head.head_seq + 1
        if seq > 200:
            break
        try:
            saver.put(checkpoint(seq), sys.argv[2].encode(), follows=None if head is None else head.head_id)
        except HeadMovedError:
            continue
        mine += 1
        if seq % 17 == 0:
            saver.drop("t", "", [checkpoint(seq - 10).checkpoint_id])
    print(mine, flush=True)
"""


def test_of_two_processes_that_follow_one_head_one_succeeds(tmp_path):
    racers = [run_python(RACER, tmp_path, name, stdin=subprocess.PIPE) for name in "xy"]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate(timeout=50)[0]) for racer in racers]
    assert sum(won) == 200
    with FileSaver(tmp_path) as saver:
        dropped = {seq - 10 for seq in range(17, 201, 17)}
        assert seqs(saver) == [seq for seq in range(200, 0, -1) if seq not in dropped]
        parts = saver.parts("t", "", ((1, 200),))
        assert [part.payload for part in parts].count(b"x") <= won[0]


# ── crashes and full disks ───────────────────────────────────────────────────────────────────────────────────

WRITER = """
    import sys
    from juncture.savers import StoredRecord
    from juncture.savers.file import FileSaver
    from juncture.testing.saver_conformance import checkpoint

    saver = FileSaver(sys.argv[1])
    head = saver.load("t")
    seq, follows = (1, None) if head is None else (head.head_seq + 1, head.head_id)
    while True:
        records = [StoredRecord("task", "done", "", b"%d" % seq)] if follows else []
        saver.put(checkpoint(seq), b"%d " % seq * 20_000, follows=follows, records=records)
        print(seq, flush=True)
        seq, follows = seq + 1, checkpoint(seq).checkpoint_id
"""


def test_what_a_killed_process_had_saved_is_there_and_nothing_is_half(tmp_path):
    for lines in (1, 7, 3, 12, 5, 2):
        writer = run_python(WRITER, tmp_path)
        for _ in range(lines):
            said = int(writer.stdout.readline())
        writer.kill()
        said = max([said, *(int(line) for line in writer.stdout.read().splitlines())])
        writer.wait()
        writer.stdout.close()
        with FileSaver(tmp_path) as saver:
            found = saver.history("t", records=True)
            assert found[0].head_seq in {said, said + 1}
            assert [one.checkpoint.seq for one in found] == list(range(found[0].head_seq, 0, -1))
            assert all(one.records[0].content == b"%d" % (one.checkpoint.seq + 1) for one in found[1:])
            for one in found:
                ours = saver.load("t", "", one.checkpoint.checkpoint_id)
                assert ours.parts[-1].payload == b"%d " % one.checkpoint.seq * 20_000


FULL = """
    import resource, sys
    from juncture.errors import SaverUnavailableError
    from juncture.savers import StoredRecord
    from juncture.savers.file import FileSaver
    from juncture.testing.saver_conformance import checkpoint

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def refused(call):
        try:
            call()
        except SaverUnavailableError as error:
            assert "can't be used" in str(error), error
        else:
            raise AssertionError("it was stored")

    ids = [None, *(checkpoint(seq).checkpoint_id for seq in range(1, 9))]
    saver = FileSaver(sys.argv[1])
    limit(20)
    refused(lambda: saver.put(checkpoint(1), b"", follows=None))
    refused(lambda: saver.acquire_lease("t", "me", "token", 60))
    assert saver.load("t") is None and saver.leases() == [] and saver.threads() == []
    limit(100_000)
    saver.put(checkpoint(1), bytes(1_000), follows=None)
    saver.put(checkpoint(2), bytes(70_000), follows=ids[1])
    record = StoredRecord("a", "done", "", bytes(50_000))
    refused(lambda: saver.put(checkpoint(3), bytes(50_000), follows=ids[2]))
    refused(lambda: saver.put_records("t", "", ids[2], [record]))
    assert saver.load("t").head_seq == 2 and saver.load("t").records == ()
    assert FileSaver(sys.argv[1]).load("t").head_seq == 2
    limit(1_000)
    refused(lambda: saver.drop("t", "", [ids[1]]))
    assert len(saver.history("t")) == 2
    limit(-1)
    saver.put(checkpoint(3), bytes(50_000), follows=ids[2], records=[record])
    assert FileSaver(sys.argv[1]).load("t", "", ids[2]).records == (record,)
    print("as it should be")
"""


def test_on_a_full_disk_nothing_is_stored_and_later_it_works_again(tmp_path):
    said, _ = run_python(FULL, tmp_path).communicate(timeout=50)
    assert said == "as it should be\n"
    assert files(tmp_path) == ["juncture.format", str(log_of(tmp_path).relative_to(tmp_path))]


def test_when_the_disk_fails_to_flush_nothing_counts(tmp_path, monkeypatch):
    saver = FileSaver(tmp_path)
    series(saver, 1)

    def fails(file):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        for call in (
            lambda: series(saver, 1, begin=2),
            lambda: (
                saver.drop("t", "", ["x"])
                or saver.put_records("t", "", checkpoint(1).checkpoint_id, [RECORD])
            ),
            lambda: series(saver, 1, "new"),
        ):
            with pytest.raises(SaverUnavailableError, match="Input/output error"):
                call()
    for one in (saver, FileSaver(tmp_path)):
        assert one.load("t").head_seq == 1
        assert one.load("t").records == ()
        assert one.load("new") is None
    series(saver, 2, begin=2)
    assert seqs(FileSaver(tmp_path)) == [3, 2, 1]


def test_an_interrupted_put_stored_nothing_and_the_next_works(tmp_path, monkeypatch):
    saver = FileSaver(tmp_path)
    series(saver, 1)

    def interrupted(file):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            series(saver, 1, begin=2)
    assert seqs(saver) == [1]
    series(saver, 1, begin=2)
    assert seqs(saver) == [2, 1]


def test_a_folder_that_is_gone_is_said_and_may_come_back(tmp_path):
    folder, away = tmp_path / "runs", tmp_path / "away"
    saver = FileSaver(folder)
    series(saver, 1)
    folder.rename(away)
    with pytest.raises(SaverUnavailableError, match="runs"):
        series(saver, 1, begin=2)
    with pytest.raises(SaverUnavailableError, match="runs"):
        saver.threads()
    away.rename(folder)
    series(saver, 1, begin=2)
    assert seqs(saver) == [2, 1]


def test_payloads_of_a_thread_are_not_kept_in_memory(tmp_path):
    with FileSaver(tmp_path, fsync=False) as saver:
        series(saver, 3, payload=b"x" * 1_000_000)
        assert all(len(str(index.series)) < 5_000 for index in saver._indexes.values())
        assert [len(part.payload) for part in saver.parts("t", "", ((1, 3),))] == [1_000_000] * 3


def test_a_closed_saver_says_so(tmp_path):
    saver = FileSaver(tmp_path)
    saver.close()
    with pytest.raises(SaverError, match="closed"):
        saver.threads()
