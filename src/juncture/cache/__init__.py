"""Where results of nodes are kept to be used again, and how a cache is opened by URL.

Caches that need a database's module or a package are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from juncture.cache.base import Cache
from juncture.cache.memory import InMemoryCache
from juncture.cache.opening import open_cache

if TYPE_CHECKING:
    from juncture.cache.redis import RedisCache
    from juncture.cache.sqlite import SqliteCache

__all__ = ["Cache", "InMemoryCache", "RedisCache", "SqliteCache", "open_cache"]

_LATER = {"RedisCache": "redis", "SqliteCache": "sqlite"}
"""Names, and the modules here that have them."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
