"""Logs that end in the middle, were damaged, or come from elsewhere: what counts, what is cut off, what is refused."""

import shutil

import pytest

from juncture.errors import SaverError
from juncture.savers import StoredRecord
from juncture.savers import file_format as form
from juncture.savers.file import FileSaver
from juncture.testing.saver_conformance import checkpoint

DONE = StoredRecord("a", "done", "", b"what a did")
ASKED = StoredRecord("b", "question", "name", b"")


def log_of(folder, thread_id="t"):
    return folder / "threads" / f"{form.name_of(thread_id)}.log"


def opened(folder):
    return FileSaver(folder, fsync=False)


def seqs(saver, thread_id="t"):
    return [found.checkpoint.seq for found in saver.history(thread_id)]


@pytest.fixture
def written(tmp_path):
    """A folder with two checkpoints and records beside the second, the log's path, and where each frame ends."""
    folder = tmp_path / "runs"
    log = log_of(folder)
    ends = []
    with opened(folder) as saver:
        first, second = checkpoint(1), checkpoint(2)
        saver.put(first, b"payload of 1", follows=None)
        ends.append(log.stat().st_size)
        saver.put(second, b"payload of 2", follows=first.checkpoint_id, records=[DONE])
        ends.append(log.stat().st_size)
        saver.put_records("t", "", second.checkpoint_id, [ASKED, DONE])
        ends.append(log.stat().st_size)
    return folder, log, ends


def goes_on(folder, head, records):
    """What stands is the head with these records; and the thread can be written to and read by others."""
    with opened(folder) as saver:
        found = saver.load("t")
        assert (found.head_seq, list(found.records)) == (head, records)
        assert found.parts[-1].payload == f"payload of {head}".encode()
        saver.put(checkpoint(head + 1), b"after", follows=found.head_id, records=[ASKED])
        assert seqs(saver) == list(range(head + 1, 0, -1))
    with opened(folder) as saver:
        assert seqs(saver) == list(range(head + 1, 0, -1))
        assert saver.load("t").parts[-1].payload == b"after"
        assert saver.load("t", "", saver.history("t")[1].checkpoint.checkpoint_id).records[-1] == ASKED


def each_byte(written, tmp_path, frame):
    """A copy of the folder for each byte of a frame, counted from 1, with that byte's place."""
    folder, log, ends = written
    copied = tmp_path / "copy"
    for place in range(ends[frame - 2], ends[frame - 1]):
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(folder, copied)
        yield copied, copied / "threads" / log.name, place


@pytest.mark.parametrize(("frame", "head", "records"), [(3, 2, []), (2, 1, [])])
def test_a_log_that_ends_at_any_byte_of_its_last_frame_goes_on_before_it(
    written, tmp_path, frame, head, records
):
    for folder, log, place in each_byte(written, tmp_path, frame):
        with log.open("r+b") as file:
            file.truncate(place)
        goes_on(folder, head, records)


def test_a_last_frame_whose_rest_never_reached_the_disk_does_not_count(written, tmp_path):
    *_, size = written[2]
    for folder, log, place in each_byte(written, tmp_path, 3):
        content = log.read_bytes()
        if not content[place:].strip(b"\0"):
            continue
        log.write_bytes(content[:place] + bytes(size - place))
        goes_on(folder, 2, [])


def test_a_log_that_ends_in_its_first_frame_or_header_is_no_thread(written, tmp_path):
    folder, log, ends = written
    for size in range(ends[0]):
        copied = tmp_path / f"copy {size}"
        shutil.copytree(folder, copied)
        with (copied / "threads" / log.name).open("r+b") as file:
            file.truncate(size)
        with opened(copied) as saver:
            assert saver.load("t") is None
            assert saver.threads() == []
            saver.put(checkpoint(1), b"again", follows=None)
        with opened(copied) as saver:
            assert saver.load("t").parts[-1].payload == b"again"


def test_a_damaged_byte_before_the_last_frame_is_an_error_and_nothing_is_cut(written, tmp_path):
    for folder, log, place in each_byte(written, tmp_path, 2):
        content = bytearray(log.read_bytes())
        content[place] ^= 0x20
        log.write_bytes(content)
        with (
            opened(folder) as saver,
            pytest.raises(SaverError, match=r"damaged at byte \d+.*Nothing was changed"),
        ):
            saver.load("t")
            saver.history("t", records=True)  # contents of records are looked at when they are read
        assert log.read_bytes() == content


def test_a_damaged_byte_of_the_header_is_an_error_and_nothing_is_cut(written):
    folder, log, _ = written
    whole = log.read_bytes()
    for place in range(form.START + len("t") + 4):
        content = bytearray(whole)
        content[place] ^= 0x01
        log.write_bytes(content)
        with opened(folder) as saver:
            for call in (
                lambda: saver.load("t"),
                saver.threads,
                lambda: saver.put(checkpoint(3), b"", follows=checkpoint(2).checkpoint_id),
                lambda: saver.acquire_lease("t", "me", "token", 60),
            ):
                with pytest.raises(SaverError, match=r"damaged|isn't a log|format version"):
                    call()
        assert log.read_bytes() == content


def test_a_frame_in_a_payload_is_no_frame(written):
    """A torn frame that holds the bytes of a whole one is torn all the same, and isn't taken for damage."""
    folder, log, ends = written
    inside = log.read_bytes()[ends[0] :]
    with opened(folder) as saver:
        saver.put(checkpoint(3), inside + b"!", follows=checkpoint(2).checkpoint_id)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 1)
    with opened(folder) as saver:
        assert saver.load("t").head_seq == 2


def test_a_log_with_another_threads_name_is_refused(written):
    folder, log, _ = written
    shutil.copy(log, log_of(folder, "other"))
    with opened(folder) as saver:
        with pytest.raises(SaverError, match="is the log of thread 't'"):
            saver.load("other")
        assert seqs(saver) == [2, 1]


def test_newer_versions_are_refused_and_left_alone(written):
    folder, log, _ = written
    lease = folder / "leases" / f"{form.name_of('t')}.lease"
    with opened(folder) as saver:
        saver.acquire_lease("t", "me", "token", 60)
        for path in (log, lease):
            whole = path.read_bytes()
            path.write_bytes(whole[:8] + (2).to_bytes(4, "big") + whole[12:])
            with pytest.raises(SaverError, match="format version 2; this Juncture reads 1"):
                saver.acquire_lease("t", "me", "token", 60)
            assert path.read_bytes()[11] == 2
            path.write_bytes(whole)
    (folder / "juncture.format").write_text("juncture files 2\n")
    with pytest.raises(SaverError, match="juncture files 2"):
        opened(folder)


def test_other_files_in_the_folder_are_not_ours(written):
    folder, log, _ = written
    for name in ("notes.txt", f"{log.name}~", f"{log.name}.new", "a.log", ".DS_Store"):
        (folder / "threads" / name).write_text("not a log")
    (folder / "leases" / "notes.lease").write_text("not a lease")
    with opened(folder) as saver:
        assert [found.thread_id for found in saver.threads()] == ["t"]
        assert saver.leases() == []
        saver.drop(
            "t", "", [checkpoint(1).checkpoint_id]
        )  # a log left by one that died while it wrote it anew
        assert seqs(saver) == [2]


def test_a_file_of_somebody_else_under_our_name_is_refused(written):
    folder, *_ = written
    (folder / "leases" / f"{form.name_of('t')}.lease").write_bytes(b"a lease for the flat")
    log_of(folder, "other").write_bytes(b"a log of the expedition to the north, 1845" * 9)
    with opened(folder) as saver:
        with pytest.raises(SaverError, match="isn't a lease of Juncture"):
            saver.acquire_lease("t", "me", "token", 60)
        with pytest.raises(SaverError, match="isn't a log of Juncture"):
            saver.load("other")
        with pytest.raises(SaverError, match="isn't a log of Juncture"):
            saver.threads()
        assert seqs(saver) == [2, 1]


def test_a_frame_of_an_unknown_kind_is_an_error(written):
    folder, log, ends = written
    start = log.read_bytes()[: form.START]
    with log.open("ab") as file:
        file.write(form.frame(start, ends[-1], ["vacuumed", ""], []))
    with opened(folder) as saver, pytest.raises(SaverError, match="no frames of the kind 'vacuumed'"):
        saver.load("t")


def test_a_lease_that_never_reached_the_disk_is_nobodys(tmp_path):
    folder = tmp_path / "runs"
    with opened(folder) as saver:
        lost = saver.acquire_lease("t", "dead", "token", None)
        lease = folder / "leases" / f"{form.name_of('t')}.lease"
        whole = lease.read_bytes()
        for content in (b"", bytes(len(whole)), whole[:-4] + bytes(4), whole[:20]):
            lease.write_bytes(content)
            assert saver.leases() == []
            assert saver.renew_leases([lost], 60) == []
        assert saver.acquire_lease("t", "next", "other", 60).holder == "next"


def test_the_lease_of_a_deleted_thread_does_not_come_back(tmp_path):
    """As after a crash between the log's end and the lease's."""
    folder = tmp_path / "runs"
    with opened(folder) as saver:
        saver.put(checkpoint(1), b"", follows=None)
        lost = saver.acquire_lease("t", "old", "token", None)
        lease = folder / "leases" / f"{form.name_of('t')}.lease"
        left = lease.read_bytes()
        saver.delete_thread("t")
        assert not lease.exists()
        lease.write_bytes(left)
        assert saver.leases() == []
        saver.put(checkpoint(1), b"", follows=None)
        assert saver.leases() == []
        assert saver.threads()[0].lease is None
        assert saver.renew_leases([lost], 60) == []
