"""Stores by URL: the schemes of savers' URLs (`juncture.savers.opening`), for long-term memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from juncture.savers.opening import Schemes, opened, seconds, yes_or_no
from juncture.store.base import Store, TTLConfig
from juncture.store.embedding import IndexConfig

if TYPE_CHECKING:
    from juncture.savers.encrypted import KeyRing

STORES = Schemes(
    "store",
    ("juncture.store.memory", "InMemoryStore"),
    on_disk={
        "sqlite": ("juncture.store.sqlite", "SqliteStore", {"synchronous": str.upper, "timeout": seconds}),
        "file": ("juncture.store.file", "FileStore", {"fsync": yes_or_no}),
    },
    on_server={
        "postgresql": ("juncture.store.postgres", "PostgresStore", "postgres", ("psycopg", "psycopg_pool")),
        "redis": ("juncture.store.redis", "RedisStore", "redis", ("redis",)),
    },
)


def open_store(
    url: str,
    *,
    index: IndexConfig | None = None,
    ttl: TTLConfig | None = None,
    keys: KeyRing | None = None,
) -> Store:
    """The store that a URL names; whoever opens it closes it.

    - ``memory:`` is a new `InMemoryStore` each time.
    - ``sqlite:memory.db``: a `SqliteStore`. Its options are ``synchronous`` and ``timeout``, as in
      ``sqlite:memory.db?synchronous=normal``.
    - ``file:memory``: a `FileStore` in that folder. Its option is ``fsync`` (``yes`` or ``no``).
    - ``postgresql://user:password@host/database``: a `PostgresStore`; needs the extra ``postgres``.
    - ``redis://host:6379/0``, ``rediss://…``, ``unix:///socket``: a `RedisStore`; needs the extra ``redis``.

    Args:
        url: Which, and where. A path is relative to the working directory of now.
        index: As the store's.
        ttl: As the store's.
        keys: As the store's.

    Raises:
        GraphBuildError: The URL names no store, an option can't be right, or an extra isn't installed. Nothing was opened.
        ConfigError: The store can't take the URL or what is given with it.
    """
    return opened(STORES, url, index=index, ttl=ttl, keys=keys)
