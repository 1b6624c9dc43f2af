"""Every cache of ours keeps every law; and the laws find caches that don't."""

import pytest

from juncture.cache import Cache, InMemoryCache, SqliteCache, open_cache
from juncture.cache.redis import RedisCache
from juncture.errors import GraphBuildError
from juncture.testing.cache_conformance import LAWS, NOW, check_cache

CACHES = {
    "memory": lambda folder: InMemoryCache(),
    "memory by URL": lambda folder: open_cache("memory:"),
    "sqlite": lambda folder: SqliteCache(folder / "cache.db"),
    "sqlite by URL": lambda folder: open_cache(f"sqlite:{folder}/cache.db"),
}


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("cache", CACHES)
def test_a_cache_keeps_the_law(cache, law, tmp_path):
    law(lambda: CACHES[cache](tmp_path))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_cache_on_a_server_keeps_the_law(law, redis_url):
    law(lambda: open_cache(redis_url))


class Broken(InMemoryCache):
    """Keeps its entries for good."""

    def get(self, space, key, now):
        return super().get(space, key, NOW)


class Mixed(InMemoryCache):
    """Takes a space for a pattern."""

    def clear(self, spaces=None):
        super().clear(None if spaces and "a*" in spaces else spaces)


@pytest.mark.parametrize("make_cache", [Broken, Mixed])
def test_the_laws_find_a_cache_that_breaks_them(make_cache):
    with pytest.raises(AssertionError, match="expected"):
        check_cache(make_cache)


def test_what_is_used_last_stays_in_memory():
    cache = InMemoryCache(max_entries=2)
    for key in (b"1", b"2"):
        cache.put("s", key, key, NOW)
    assert cache.get("s", b"1", NOW) == b"1"
    cache.put("s", b"3", b"3", NOW)
    assert [cache.get("s", key, NOW) for key in (b"1", b"2", b"3")] == [b"1", None, b"3"]
    with pytest.raises(ValueError, match="at least 1"):
        InMemoryCache(max_entries=0)


def test_a_file_outlives_the_object_and_what_expired_is_swept(tmp_path):
    with SqliteCache(tmp_path / "cache.db") as cache:
        cache.put("s", b"old", b"1", NOW, 10)
        cache.put("s", b"new", b"2", NOW)
        for number in range(500):
            cache.put("s", str(number).encode(), b"x", NOW + 20, 1)
    with SqliteCache(tmp_path / "cache.db") as cache:
        assert cache.get("s", b"new", NOW) == b"2"
        assert cache.get("s", b"old", NOW) is None, "it was dropped, not only passed over"


def test_redis_drops_what_expired_and_leaves_others_alone(redis_url):
    with RedisCache(redis_url, prefix="a*:") as cache, RedisCache(redis_url, prefix="ab:") as other:
        cache.put("s", b"k", b"v", NOW, 1000)
        other.put("s", b"k", b"v", NOW)
        (key,) = [key for key in cache._client.scan_iter() if key.startswith(b"a*:")]
        assert 999_000 < cache._client.pttl(key) <= 1_000_001
        cache.clear()
        assert (cache.get("s", b"k", NOW), other.get("s", b"k", NOW)) == (None, b"v")


@pytest.mark.parametrize(
    "url", ["", "memory", "memory:x", "sqlite:", "sqlite://x", "redis:x", "file:x", "s3cret://u:p@h"]
)
def test_a_url_that_names_no_cache_is_refused(url):
    with pytest.raises(GraphBuildError, match="Known: 'memory:'") as caught:
        open_cache(url)
    assert "p@h" not in str(caught.value)


def test_a_cache_is_a_context_manager_and_needs_little():
    class Own(Cache):
        blocking = False

        def __init__(self):
            self.kept = {}

        def get(self, space, key, now):
            return self.kept.get((space, key))

        def put(self, space, key, value, now, ttl=None):
            self.kept[space, key] = value

        def clear(self, spaces=None):
            self.kept.clear()

    with Own() as cache:
        cache.put("s", b"k", b"v", NOW)
        assert cache.get("s", b"k", NOW) == b"v"
