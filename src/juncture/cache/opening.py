"""Caches by URL."""

from __future__ import annotations

from juncture.cache.base import Cache
from juncture.cache.memory import InMemoryCache
from juncture.errors import GraphBuildError

_KNOWN = "'memory:', 'sqlite:PATH', 'redis://…'"


def open_cache(url: str) -> Cache:
    """The cache that a URL names; whoever opens it closes it.

    - ``memory:`` is a new `InMemoryCache` each time.
    - ``sqlite:results.db``: a `SqliteCache`. The path is relative to the working directory of now.
    - ``redis://host:6379/0``, ``rediss://…``, ``unix:///socket``: a `RedisCache`; needs the extra ``redis``.

    Raises:
        GraphBuildError: The URL names no cache, or the extra isn't installed. Nothing was opened.
    """
    from importlib.util import find_spec
    from pathlib import Path

    scheme, colon, rest = url.partition(":")
    if url == "memory:":
        return InMemoryCache()
    if scheme == "sqlite" and rest and not rest.startswith("//"):
        from juncture.cache.sqlite import SqliteCache

        return SqliteCache(Path(rest).absolute())
    if scheme in ("redis", "rediss", "unix") and rest.startswith("//"):
        if find_spec("redis") is None:
            raise GraphBuildError(
                f"{scheme + ':'!r} needs the package 'redis', which isn't installed. Install juncture[redis]."
            )
        from juncture.cache.redis import RedisCache

        return RedisCache(url)
    shown = scheme + colon if colon else "a text without a colon"  # what follows may hold a password
    raise GraphBuildError(f"no cache for the URL {shown!r}. Known: {_KNOWN}. Or pass a cache object.")


__all__ = ["open_cache"]
