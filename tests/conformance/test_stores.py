"""Every store of ours keeps every law; and the laws find stores that don't."""

import pytest

from juncture.errors import JunctureError
from juncture.savers.encrypted import KeyRing
from juncture.store import FileStore, InMemoryStore, PutOp, SqliteStore, open_store
from juncture.store.postgres import PostgresStore
from juncture.store.redis import RedisStore
from juncture.testing.store_conformance import LAWS, check_store

KEYS = KeyRing({"new": bytes(range(32)), "old": bytes(32)})
STORES = {
    "memory": lambda folder, **options: InMemoryStore(**options),
    "memory, encrypted": lambda folder, **options: InMemoryStore(keys=KEYS, **options),
    "file": lambda folder, **options: FileStore(folder / "memory", **options),
    "sqlite": lambda folder, **options: SqliteStore(folder / "memory.db", **options),
}
"""Make a new, empty store; they may use the folder, which is empty and their own."""


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("store", STORES)
def test_a_store_keeps_the_law(store, law, tmp_path):
    law(lambda **options: STORES[store](tmp_path, **options))


ON_SERVERS = {
    "redis": ("redis_url", RedisStore),
    "postgres": ("postgres_url", PostgresStore),
    "postgres behind a pooler": ("pooled_postgres_url", PostgresStore),
}
"""Make a new, empty store from the URL that a fixture of `tests.servers` gives."""


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("store", ON_SERVERS)
def test_a_store_on_a_server_keeps_the_law(store, law, request):
    fixture, make_store = ON_SERVERS[store]
    url = request.getfixturevalue(fixture)
    law(lambda **options: make_store(url, **options))


# Each has one fault that a store may well have. The laws have to find it.


class SharesValues(InMemoryStore):
    def __init__(self, **options):
        super().__init__(**options)
        self.found = {}

    def get(self, namespace, key, *, refresh_ttl=None):
        item = super().get(namespace, key, refresh_ttl=refresh_ttl)
        return self.found.setdefault((namespace, key, str(item)), item)


class TextPrefixes(InMemoryStore):
    """Takes a namespace for a text."""

    def search(self, namespace_prefix, /, **options):
        whole = super().search((), limit=1000)
        whole[:] = [item for item in whole if "/".join(item.namespace).startswith("/".join(namespace_prefix))]
        return whole


class OneByOne(InMemoryStore):
    """Does the operations of a batch one after the other."""

    def batch(self, ops):
        return [result for op in ops for result in super(OneByOne, self).batch([op])]


class ForgetsToDelete(InMemoryStore):
    def delete(self, namespace, key):
        return super().get(namespace, key) is not None


class IgnoresFilters(InMemoryStore):
    def search(self, namespace_prefix, /, *, filter=None, **options):  # noqa: A002 - the name of the contract
        return super().search(namespace_prefix, **options)


class NeverRefreshes(InMemoryStore):
    def get(self, namespace, key, *, refresh_ttl=None):
        return super().get(namespace, key, refresh_ttl=False)


class ForgetsThatItClosed(InMemoryStore):
    def close(self):
        pass


class ReplacesByDeleting(InMemoryStore):
    """So an item that is put again was made anew."""

    def put(self, namespace, key, value, index=None, **options):
        if value is not None:
            self.batch([PutOp(namespace, key, None)])
        super().put(namespace, key, value, index, **options)


@pytest.mark.parametrize(
    "faulty",
    [
        SharesValues,
        TextPrefixes,
        OneByOne,
        ForgetsToDelete,
        IgnoresFilters,
        NeverRefreshes,
        ForgetsThatItClosed,
        ReplacesByDeleting,
    ],
)
def test_the_laws_find_a_faulty_store(faulty):
    with pytest.raises(ExceptionGroup) as caught:
        check_store(faulty)
    assert all(isinstance(error, AssertionError | JunctureError) for error in caught.value.exceptions)
    assert len(caught.value.exceptions) < len(LAWS) / 2


def test_a_good_store_passes_in_one_go():
    check_store(InMemoryStore)


def test_urls_open_stores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("memory:") as one, open_store("memory:") as other:
        one.put(("n",), "k", {"a": 1})
        assert other.get(("n",), "k") is None
    with open_store("sqlite:memory.db?synchronous=normal", ttl={"default_ttl": 5}) as store:
        store.put(("n",), "k", {"a": 1})
    with SqliteStore(tmp_path / "memory.db") as store:
        assert store.get(("n",), "k").value == {"a": 1}


@pytest.mark.parametrize("url", ["mongo://x", "memory", "memory:x", "sqlite:", "sqlite:a?nothing=1"])
def test_what_is_no_url_of_a_store_is_refused(url):
    with pytest.raises(JunctureError, match=r"store|memory|sqlite"):
        open_store(url)
