"""Long-term memory, and how a store is opened by URL.

Stores that need a database's module or a package are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from juncture.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
    SearchPage,
    Store,
    TTLConfig,
)

if TYPE_CHECKING:
    from juncture.store.embedding import IndexConfig
    from juncture.store.file import FileStore
    from juncture.store.memory import InMemoryStore
    from juncture.store.opening import open_store
    from juncture.store.postgres import PostgresStore
    from juncture.store.redis import RedisStore
    from juncture.store.sqlite import SqliteStore

__all__ = [
    "FileStore",
    "GetOp",
    "InMemoryStore",
    "IndexConfig",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "PostgresStore",
    "PutOp",
    "RedisStore",
    "SearchItem",
    "SearchOp",
    "SearchPage",
    "SqliteStore",
    "Store",
    "TTLConfig",
    "open_store",
]

_LATER = {
    "FileStore": "file",
    "InMemoryStore": "memory",
    "IndexConfig": "embedding",
    "PostgresStore": "postgres",
    "RedisStore": "redis",
    "SqliteStore": "sqlite",
    "open_store": "opening",
}
"""Names, and the modules here that have them."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
