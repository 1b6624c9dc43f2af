"""Checkpoints in Redis: its keys, its connections, and what happens when it goes away or something else changes it."""

import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import redis

from juncture.errors import ConfigError, HeadMovedError, SaverError, SaverUnavailableError
from juncture.savers import StoredRecord
from juncture.savers import redis as redis_module
from juncture.savers.redis import RedisSaver
from juncture.testing.saver_conformance import STRANGE, check_saver, checkpoint
from tests.servers import RedisServer, free_port, running

RECORD = StoredRecord("a", "done", "", b"content")


def series(saver, length, thread_id="t", *, begin=1, payload=b"payload"):
    for seq in range(begin, begin + length):
        follows = checkpoint(seq - 1, thread_id=thread_id).checkpoint_id if seq > 1 else None
        saver.put(checkpoint(seq, thread_id=thread_id), payload, follows=follows)


def seqs(saver, thread_id="t"):
    return [found.checkpoint.seq for found in saver.history(thread_id)]


@pytest.fixture
def saver(redis_url):
    with RedisSaver(redis_url) as opened:
        yield opened


@pytest.fixture
def client(redis_url):
    with redis.Redis.from_url(redis_url) as opened:
        yield opened


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [*STRANGE, "", "nul\0inside", "{}", "}{", "a:heads:b"])
def test_every_key_is_in_one_slot_and_none_runs_out_and_a_deleted_thread_leaves_none(saver, client, name):
    kept = [b"{juncture}:format"]
    series(saver, 2, name)
    saver.put(checkpoint(1, thread_id=name, namespace=f"in {name}"), b"", follows=None)
    saver.put_records(name, "", checkpoint(2).checkpoint_id, [RECORD])
    saver.acquire_lease(name, "me", "token", 60)
    keys = client.keys()
    assert len(keys) == 9
    for key in keys:
        assert key.startswith(b"{juncture}:")
        assert client.ttl(key) == -1
    saver.delete_thread(name)
    assert client.keys() == kept


def test_dropping_leaves_nothing_of_what_was_dropped(saver, client):
    series(saver, 5)
    saver.put_records("t", "", checkpoint(5).checkpoint_id, [RECORD, RECORD._replace(name="b")])
    series(saver, 1, begin=6)
    saver.drop("t", "", [checkpoint(seq).checkpoint_id for seq in range(1, 6)])
    assert client.hlen(b"{juncture}:checkpoints:t") == client.zcard(b"{juncture}:ids:t") == 1
    assert client.hlen(b"{juncture}:parts:t") == 1
    assert not client.exists(b"{juncture}:records:t")
    assert seqs(saver) == [6]


def test_a_nested_series_that_is_dropped_as_a_whole_leaves_nothing(saver, client):
    series(saver, 1)
    before = sorted(client.keys())
    first, second = (checkpoint(seq, namespace="inner") for seq in (1, 2))
    saver.put(first, b"", follows=None)
    saver.put(second, b"", follows=first.checkpoint_id, records=[RECORD])
    for some, namespace in (([second], "inner"), ([checkpoint(1)], "")):
        with pytest.raises(SaverError, match="can't be dropped"):
            saver.drop("t", namespace, [one.checkpoint_id for one in some])
    assert saver.namespaces("t") == ["", "inner"]
    saver.drop("t", "inner", [first.checkpoint_id, second.checkpoint_id])
    assert saver.namespaces("t") == [""]
    assert sorted(client.keys()) == before
    assert client.hlen(b"{juncture}:parts:t") == client.zcard(b"{juncture}:ids:t") == 1


def test_savers_with_other_prefixes_do_not_see_one_another(redis_url, saver):
    other = RedisSaver(redis_url, prefix="juncture2")
    series(saver, 2)
    saver.acquire_lease("t", "me", "token", 60)
    assert other.load("t") is None
    assert other.threads() == other.leases() == []
    series(other, 1)
    other.delete_thread("t")
    assert seqs(saver) == [2, 1]


@pytest.mark.parametrize("prefix", ["", "{a}", "a}", "{"])
def test_a_prefix_that_would_scatter_the_keys_is_refused(prefix):
    with pytest.raises(ConfigError, match="prefix"):
        RedisSaver("redis://localhost", prefix=prefix)


def test_a_name_that_utf_8_has_not_is_refused(saver, client):
    for call in (
        lambda: saver.load("\ud800"),
        lambda: saver.put(checkpoint(1, namespace="\ud800"), b"", follows=None),
        lambda: saver.put(checkpoint(1, parent_id="\ud800"), b"", follows=None),
        lambda: saver.acquire_lease("t", "\ud800", "token", 60),
    ):
        with pytest.raises(ConfigError, match="surrogate"):
            call()
    assert client.keys() == []


def test_a_newer_layout_is_refused_and_left_alone(saver, client):
    series(saver, 1)
    client.set(b"{juncture}:format", "2")
    for call in (
        lambda: saver.load("t"),
        lambda: series(saver, 1, begin=2),
        lambda: saver.delete_thread("t"),
        lambda: saver.acquire_lease("t", "me", "token", 60),
        saver.threads,
    ):
        with pytest.raises(SaverError, match="layout version 2; this Juncture reads 1"):
            call()
    client.set(b"{juncture}:format", "1")
    assert seqs(saver) == [1]


def test_threads_are_listed_in_pages(saver, monkeypatch):
    names = [f"thread {number}" for number in range(7)]
    for name in names:
        series(saver, 1, name)
    for page in (1, 3, 7, 8):
        monkeypatch.setattr(redis_module, "PAGE", page)
        assert [found.thread_id for found in saver.threads()] == names
        assert [found.thread_id for found in saver.threads(after=names[0], limit=4)] == names[1:5]
        assert saver.threads(limit=0) == []


def test_a_long_thread_is_read_and_pruned(saver):
    """In several pieces inside its script, because Lua's stack has an end."""
    series(saver, 2_001, payload=b"x")
    assert seqs(saver) == list(range(2_001, 0, -1))
    assert [part.seq for part in saver.parts("t", "", ((1, 10**12),))] == list(range(1, 2_002))
    saver.drop("t", "", [checkpoint(seq).checkpoint_id for seq in range(1, 2_000)])
    assert seqs(saver) == [2_001, 2_000]
    assert [part.seq for part in saver.parts("t", "", ((1, 10**12),))] == [2_000, 2_001]


class ClusterOfOne(RedisServer):
    """It refuses what a cluster refuses: a script whose keys are in several slots."""

    def command(self):
        return [*super().command(), "--cluster-enabled", "yes", "--cluster-config-file", "nodes"]


def test_every_law_is_kept_on_a_node_of_a_cluster():
    with running(ClusterOfOne) as server:
        with redis.Redis.from_url(server.url()) as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            while client.cluster("INFO")["cluster_state"] != "ok":
                time.sleep(0.02)  # nothing tells when it is
        prefixes = count()
        check_saver(lambda: RedisSaver(server.url(), prefix=f"law {next(prefixes)}"))


# ── connections ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:sec/ret@host:6379",
        "redis://me:secret@host:port",
        "redis://me:secret@[host",
        "rediss+x://me:secret@host",
        "postgresql://me:secret@host",
        "redis://me:secret@host/0?socket_timeout=secret",
        "redis://me:secret@host/0?no_such_option=secret",
        "",
    ],
)
def test_a_url_that_can_not_be_read_is_said_without_its_password(url):
    with pytest.raises(ConfigError, match="URL of Redis") as caught:
        RedisSaver(url)
    assert "sec" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_an_unreachable_server_is_said_without_the_password(redis_url):
    unused, used = free_port(), redis_url.rpartition(":")[2]
    for url in (f"redis://me:secret@127.0.0.1:{unused}", f"redis://:secret@127.0.0.1:{unused}/3"):
        refuses_without_secret(url, str(unused))
    refuses_without_secret(
        f"redis://me:secret@127.0.0.1:{used}", used.partition("/")[0]
    )  # there is no such user


def refuses_without_secret(url, port):
    with (
        RedisSaver(url) as saver,
        pytest.raises(SaverUnavailableError, match=rf"127\.0\.0\.1:{port}") as caught,
    ):
        saver.load("t")
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(caught.value.__cause__)


def test_a_server_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"redis://127.0.0.1:{deaf.getsockname()[1]}/0?socket_timeout=0.05"
        with RedisSaver(url) as saver, pytest.raises(SaverUnavailableError, match="Timeout"):
            saver.load("t")


def test_options_in_the_url_do_not_change_what_comes_back(redis_url):
    with RedisSaver(f"{redis_url}?decode_responses=True&retry_on_timeout=True") as saver:
        series(saver, 1, payload=b"\xff\x00")
        assert saver.load("t").parts[-1].payload == b"\xff\x00"


@pytest.mark.parametrize("how", [None, "SIGKILL"])
def test_what_was_saved_is_there_when_the_server_is_back(redis_server, how):
    saver = RedisSaver(redis_server.url())
    series(saver, 3)
    saver.put_records("t", "", checkpoint(3).checkpoint_id, [RECORD])
    lease = saver.acquire_lease("t", "me", "token", 60)
    redis_server.stop(how and signal.Signals[how])
    for _ in range(2):
        with pytest.raises(SaverUnavailableError):
            saver.load("t")
        with pytest.raises(SaverUnavailableError):
            series(saver, 1, begin=4)
    redis_server.start()
    series(saver, 1, begin=4)
    assert seqs(saver) == [4, 3, 2, 1]
    assert saver.history("t", records=True)[1].records == (RECORD,)
    assert [one.token for one in saver.renew_leases([lease], 60)] == ["token"]
    saver.close()


@contextmanager
def cutting(port):
    """A server before the server, which passes on what it is sent, and cuts the connection where the answer to a script
    would come.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    ours, _ = listener.accept()
                except OSError:
                    return
                with ours, socket.create_connection(("127.0.0.1", port)) as theirs:
                    while sent := ours.recv(1 << 20):
                        theirs.sendall(sent)
                        answer = theirs.recv(1 << 20)
                        if b"EVALSHA" in sent and not answer.startswith(b"-NOSCRIPT"):
                            cuts.append(answer)
                            break
                        ours.sendall(answer)

        cuts = []
        server = threading.Thread(target=serve)
        server.start()
        try:
            yield listener.getsockname()[1], cuts
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()


def test_a_put_whose_answer_got_lost_is_not_sent_again(redis_server):
    """Sent again it would find itself, and say that nothing was saved."""
    with cutting(redis_server.port) as (port, cuts):
        saver = RedisSaver(f"redis://127.0.0.1:{port}/0?retry_on_timeout=True")
        with saver, pytest.raises(SaverUnavailableError):
            saver.put(checkpoint(1), b"", follows=None)
        assert len(cuts) == 1
    with RedisSaver(redis_server.url()) as saver:
        assert seqs(saver) == [1]


def test_a_server_whose_memory_is_full_stores_nothing(saver, client):
    series(saver, 1)
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(SaverUnavailableError, match="memory"):
            series(saver, 1, begin=2)
        with pytest.raises(SaverUnavailableError, match="memory"):
            saver.put_records("t", "", checkpoint(1).checkpoint_id, [RECORD])
    finally:
        client.config_set("maxmemory", 0)
    assert seqs(saver) == [1]
    assert saver.load("t").records == ()
    series(saver, 1, begin=2)


def test_a_thread_of_which_something_was_removed_is_said(saver, client):
    series(saver, 2)
    client.delete(b"{juncture}:checkpoints:t")
    for call in (
        lambda: saver.load("t"),
        lambda: saver.history("t"),
        saver.threads,
        lambda: saver.drop("t", "", [checkpoint(1).checkpoint_id]),
    ):
        with pytest.raises(SaverError, match="isn't complete"):
            call()
    assert client.hlen(b"{juncture}:parts:t") == 2
    saver.delete_thread("t")
    series(saver, 1)


# ── several processes ────────────────────────────────────────────────────────────────────────────────────────


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
    from juncture.savers.redis import RedisSaver
    from juncture.testing.saver_conformance import checkpoint

    saver, mine = RedisSaver(sys.argv[1]), 0
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
    print(mine, flush=True)
"""


def test_of_two_processes_that_follow_one_head_one_succeeds(redis_url, saver):
    racers = [run_python(RACER, redis_url, name, stdin=subprocess.PIPE) for name in "xy"]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate(timeout=50)[0]) for racer in racers]
    assert seqs(saver) == list(range(200, 0, -1))
    payloads = [part.payload for part in saver.parts("t", "", ((1, 200),))]
    assert [payloads.count(b"x"), payloads.count(b"y")] == won


WRITER = """
    import sys
    from juncture.savers import StoredRecord
    from juncture.savers.redis import RedisSaver
    from juncture.testing.saver_conformance import checkpoint

    saver = RedisSaver(sys.argv[1])
    head = saver.load("t")
    seq, follows = (1, None) if head is None else (head.head_seq + 1, head.head_id)
    while True:
        records = [StoredRecord("task", "done", "", b"%d" % seq)] if follows else []
        saver.put(checkpoint(seq), b"%d " % seq * 20_000, follows=follows, records=records)
        print(seq, flush=True)
        seq, follows = seq + 1, checkpoint(seq).checkpoint_id
"""


def test_what_a_killed_process_had_saved_is_there_and_nothing_is_half(redis_url, saver):
    for lines in (1, 7, 3, 12):
        writer = run_python(WRITER, redis_url)
        for _ in range(lines):
            said = int(writer.stdout.readline())
        writer.kill()
        said = max([said, *(int(line) for line in writer.stdout.read().splitlines())])
        writer.wait()
        writer.stdout.close()
        found = saver.history("t", records=True)
        assert found[0].head_seq in {said, said + 1}
        assert [one.checkpoint.seq for one in found] == list(range(found[0].head_seq, 0, -1))
        assert all(one.records[0].content == b"%d" % (one.checkpoint.seq + 1) for one in found[1:])
        for one in found:
            ours = saver.load("t", "", one.checkpoint.checkpoint_id)
            assert ours.parts[-1].payload == b"%d " % one.checkpoint.seq * 20_000


def test_a_closed_saver_says_so(redis_url):
    saver = RedisSaver(redis_url)
    saver.close()
    with pytest.raises(SaverError, match="closed"):
        saver.threads()


def test_a_head_that_moved_names_both(saver):
    series(saver, 2)
    with pytest.raises(HeadMovedError, match=r"000000000001.*000000000002"):
        saver.put(checkpoint(3), b"", follows=checkpoint(1).checkpoint_id)
