"""What is a store's own: its files and tables, other processes, encryption, embeddings."""

import asyncio
import copy
import pickle
import sqlite3
import subprocess
import sys
import threading

import pytest

from juncture.errors import ConfigError, DecryptionError, StoreError, StoreUnavailableError
from juncture.savers import PostgresSaver, RedisSaver, SqliteSaver
from juncture.savers.encrypted import KeyRing
from juncture.store import FileStore, InMemoryStore, PutOp, SqliteStore, open_store
from juncture.store.embedding import scores, unpacked
from juncture.store.names import after, read, written
from juncture.store.postgres import PostgresStore
from juncture.store.redis import RedisStore
from juncture.testing.store_conformance import STRANGE, embed

N = ("users", "ada")
WRITER = """
import sys
from juncture.store import PutOp, open_store
with open_store(sys.argv[1]) as store:
    for n in range(20):
        store.batch([PutOp(("n", sys.argv[2]), str(n), {"n": n}), PutOp(("shared",), str(n), {"by": sys.argv[2]})])
"""
URLS = {
    "sqlite": ("tmp_path", lambda place: f"sqlite:{place}/memory.db"),
    "file": ("tmp_path", lambda place: f"file:{place}/memory"),
    "postgres": ("postgres_url", str),
    "redis": ("redis_url", str),
}


@pytest.fixture(params=URLS)
def url(request):
    """The URL of an empty store of every kind that several processes can use."""
    fixture, made = URLS[request.param]
    return made(request.getfixturevalue(fixture))


def test_two_processes_at_once_lose_nothing(url):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, url, name]) for name in ("a", "b")]
    assert [writer.wait(50) for writer in writers] == [0, 0]
    with open_store(url) as store:
        assert store.count() == 60
        assert {item.value["by"] for item in store.search(("shared",), limit=20)} <= {"a", "b"}


def test_items_outlive_the_store_and_run_out_by_the_clock_of_the_place(url):
    with open_store(url, ttl={"default_ttl": 1e-6}) as store:
        store.put(N, "gone", {})
        store.put(N, "stays", {"a": 1}, ttl=None)
    with open_store(url) as store:
        assert [item.key for item in store.search(N)] == ["stays"]
        assert store.sweep_ttl() == 1


def test_names_are_written_so_that_prefixes_and_order_are_those_of_tuples():
    names = sorted({(one,) for one in STRANGE} | {(one, other) for one in STRANGE for other in STRANGE[:9]})
    texts = [written(name) for name in names]
    assert [read(text) for text in texts] == names
    assert texts == sorted(texts)
    for prefix in names:
        text = written(prefix)
        below = [name for name, one in zip(names, texts, strict=True) if one.startswith(text)]
        assert below == [name for name in names if name[: len(prefix)] == prefix]
        assert below == [name for name, one in zip(names, texts, strict=True) if text <= one < after(text)]


def test_a_page_can_be_copied_and_pickled():
    store = InMemoryStore()
    store.batch([PutOp(N, str(n), {"n": n}) for n in range(3)])
    page = store.search(N, limit=2)
    for copied in (copy.copy(page), copy.deepcopy(page), pickle.loads(pickle.dumps(page))):
        assert copied == page
        assert (copied.total, copied.offset, copied.limit, copied.has_more) == (3, 0, 2, True)


# ---- places


def test_a_file_of_checkpoints_is_not_taken_for_one_of_items(tmp_path):
    path = tmp_path / "one.db"
    with SqliteSaver(path) as saver:
        saver.threads()
    with SqliteStore(path) as store, pytest.raises(StoreError, match="file of its own"):
        store.get(N, "k")
    path = tmp_path / "other.db"
    with SqliteStore(path) as store:
        store.put(N, "k", {})
    with SqliteSaver(path) as saver, pytest.raises(Exception, match="file of its own"):
        saver.threads()


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with (
        SqliteStore(tmp_path / "no" / "memory.db") as store,
        pytest.raises(StoreUnavailableError, match="no folder"),
    ):
        store.put(N, "k", {})
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailableError, match="can't be used"):
        FileStore(tmp_path / "file")


def test_a_saver_and_a_store_share_a_schema_and_a_server(postgres_url, redis_url):
    for saver, store in ((PostgresSaver, PostgresStore), (RedisSaver, RedisStore)):
        url = postgres_url if saver is PostgresSaver else redis_url
        with saver(url) as threads, store(url) as items:
            items.put(N, "k", {"a": 1})
            assert threads.threads() == []
            assert items.get(N, "k").value == {"a": 1}


def test_names_of_files_stay_in_their_folder(tmp_path):
    with FileStore(tmp_path / "memory") as store:
        for name in (*STRANGE, "../x", "/etc/passwd", "a" * 300):
            store.put((name, ".."), name, {})
    inside = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")}
    assert inside == {"memory"}
    assert {path.name for path in (tmp_path / "memory").iterdir()} == {"items", "lock"}


def test_a_batch_that_a_dying_process_began_is_finished(tmp_path):
    class Dies(RuntimeError):
        pass

    with FileStore(tmp_path, fsync=False) as store:
        store.put(N, "a", {"old": True})
        rows = store._rows
        apply = rows._apply

        def half(contents):
            apply(contents[:1])
            raise Dies

        rows._apply = half
        with pytest.raises(Dies):
            store.batch([PutOp(N, "a", {"new": True}), PutOp(N, "b", {}), PutOp(N, "c", None)])
    with FileStore(tmp_path, fsync=False) as store:
        assert store.get(N, "a").value == {"new": True}
        assert store.get(N, "b").value == {}
    assert not (tmp_path / "batch").exists()


def test_a_damaged_file_is_told(tmp_path):
    with FileStore(tmp_path) as store:
        store.put(N, "k", {"a": 1})
        (path,) = tmp_path.rglob("*.item")
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        with pytest.raises(StoreError, match="damaged"):
            store.get(N, "k")


@pytest.mark.parametrize("make", [SqliteStore, FileStore])
def test_what_is_encrypted_is_not_to_be_read_and_can_not_be_moved(make, tmp_path):
    keys = KeyRing({"k": bytes(32)})
    index = {"dims": 4, "embed": embed, "fields": ["text"]}
    with make(tmp_path / "memory", keys=keys, index=index) as store:
        store.put(N, "k", {"text": "abracadabra"})
        store.put(N, "other", {"text": "b"})
        assert [item.key for item in store.search(N, query="a")] == ["k", "other"]
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"abracadabra" not in path.read_bytes()
    other = KeyRing({"k": bytes(range(32))})
    with make(tmp_path / "memory", keys=other) as store, pytest.raises(DecryptionError, match="item 'k' in"):
        store.get(N, "k")
    if make is SqliteStore:
        with sqlite3.connect(tmp_path / "memory") as connection:
            connection.execute("UPDATE items SET content = (SELECT content FROM items WHERE key = 'k')")
        connection.close()
        with make(tmp_path / "memory", keys=keys) as store, pytest.raises(DecryptionError, match="moved"):
            store.get(N, "other")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"ttl": {"omit_expired": False}}, "omit_expired"),
        ({"ttl": {"default_ttl": 0}}, "default_ttl"),
        ({"ttl": {"sweep_interval_minutes": -1}}, "sweep_interval_minutes"),
        ({"index": {"dims": 4}}, "'dims' and 'embed'"),
        ({"index": {"dims": 0, "embed": embed}}, "dims"),
        ({"index": {"dims": 4, "embed": "openai:small"}}, "embed"),
        ({"index": {"dims": 4, "embed": embed, "fields": "text"}}, "list of paths"),
        ({"index": {"dims": 4, "embed": embed, "field": ["a"]}}, "field"),
    ],
)
def test_options_that_can_not_be_right_are_refused(options, match):
    with pytest.raises(ConfigError, match=match):
        InMemoryStore(**options)


# ---- embeddings


class Both:
    """As LangChain's: documents and queries, and their twins."""

    def __init__(self):
        self.calls = []

    def embed_documents(self, texts):
        self.calls.append(("documents", texts))
        return embed(texts)

    def embed_query(self, text):
        self.calls.append(("query", text))
        return embed([text])[0]

    async def aembed_documents(self, texts):
        self.calls.append(("adocuments", texts))
        return embed(texts)

    async def aembed_query(self, text):
        self.calls.append(("aquery", text))
        return embed([text])[0]


async def embed_later(texts):
    await asyncio.sleep(0)
    return embed(texts)


class Callable:
    async def __call__(self, texts):
        return embed(texts)


@pytest.mark.parametrize(
    "function", [embed, embed_later, Callable(), Both(), lambda texts: embed_later(texts)]
)
def test_any_embedding_serves_sync_and_async_code(function):
    def use(store):
        store.put(N, "a", {"text": "a"})
        return [item.key for item in store.search(N, query="b")]

    async def ause(store):
        await store.aput(N, "b", {"text": "b"})
        found = [item.key for item in await store.asearch(N, query="b")]
        return found, use(store)  # sync code on a running loop

    store = InMemoryStore(index={"dims": 4, "embed": function, "fields": ["text"]})
    assert use(store) == ["a"]
    assert asyncio.run(ause(store)) == (["b", "a"], ["b", "a"])


def test_a_batch_embeds_each_text_once_and_in_one_call():
    both = Both()
    store = InMemoryStore(index={"dims": 4, "embed": both, "fields": ["text", "more[*]"]})
    store.batch(
        [
            PutOp(N, "1", {"text": "x"}),
            PutOp(N, "2", {"text": "x", "more": ["y", "x"]}),
            PutOp(N, "2", {"text": "z"}),
        ]
    )
    assert both.calls == [("documents", ["x", "z"])]
    both.calls.clear()
    asyncio.run(store.aput(N, "3", {"other": "x"}))
    asyncio.run(store.asearch(N, query="x"))
    assert both.calls == [("aquery", "x")]


def test_a_sync_embedding_does_not_block_the_event_loop():
    ran_on = []

    def slow(texts):
        ran_on.append(threading.get_ident())
        return embed(texts)

    store = InMemoryStore(index={"dims": 4, "embed": slow})
    asyncio.run(store.aput(N, "k", {"a": "x"}))
    assert ran_on != [threading.get_ident()]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda texts: [[1.0]] * len(texts),
        lambda texts: [],
        lambda texts: [[float("nan")] * 4] * len(texts),
    ],
)
def test_vectors_that_can_not_be_right_store_nothing(wrong):
    store = InMemoryStore(index={"dims": 4, "embed": wrong})
    with pytest.raises(StoreError, match="Nothing was stored"):
        store.put(N, "k", {"a": "x"})
    assert store.count() == 0


def test_what_an_embedding_raises_comes_through_and_stores_nothing():
    async def fails(texts):
        raise LookupError("no model")

    store = InMemoryStore(index={"dims": 4, "embed": fails})
    for call in (lambda: store.put(N, "k", {"a": "x"}), lambda: asyncio.run(store.aput(N, "k", {"a": "x"}))):
        with pytest.raises(LookupError, match="no model"):
            call()
    assert store.count() == 0


def test_another_index_than_the_one_it_was_written_with_is_told(tmp_path):
    path = tmp_path / "memory.db"
    with SqliteStore(path, index={"dims": 4, "embed": embed}) as store:
        store.put(N, "k", {"a": "x"})
    shorter = {"dims": 3, "embed": lambda texts: [[1.0, 0, 0]] * len(texts)}
    with SqliteStore(path, index=shorter) as store, pytest.raises(StoreError, match="dims"):
        store.search(N, query="x")


def test_scores_without_numpy_are_those_with_it(monkeypatch):
    vectors = InMemoryStore(index={"dims": 4, "embed": embed})._embedder.vectors(
        ["a", "ab", "ccc", "b"], ["aab"]
    )
    query = vectors["aab", True]
    many = [vectors["a", False], b"", vectors["ab", False] + vectors["ccc", False], vectors["b", False]]
    with_it = scores(query, many)
    monkeypatch.setitem(sys.modules, "numpy", None)
    without = scores(query, many)
    assert without[1] is with_it[1] is None
    assert [score for score in without if score] == pytest.approx([score for score in with_it if score])
    assert sum(number * number for number in unpacked(query)) == pytest.approx(1)
