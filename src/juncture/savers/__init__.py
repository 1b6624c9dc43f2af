"""Where checkpoints are kept, and how a saver is opened by URL.

Savers that need a database's module or a package are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from juncture.savers.base import (
    Lease,
    LoadedCheckpoint,
    Part,
    Saver,
    Spans,
    StoredCheckpoint,
    StoredRecord,
    StoredThread,
)
from juncture.savers.memory import InMemorySaver, MemorySaver
from juncture.savers.opening import open_saver

if TYPE_CHECKING:
    from juncture.savers.encrypted import EncryptedSaver, KeyRing
    from juncture.savers.file import FileSaver
    from juncture.savers.postgres import PostgresSaver
    from juncture.savers.redis import RedisSaver
    from juncture.savers.sqlite import SqliteSaver

__all__ = [
    "EncryptedSaver",
    "FileSaver",
    "InMemorySaver",
    "KeyRing",
    "Lease",
    "LoadedCheckpoint",
    "MemorySaver",
    "Part",
    "PostgresSaver",
    "RedisSaver",
    "Saver",
    "Spans",
    "SqliteSaver",
    "StoredCheckpoint",
    "StoredRecord",
    "StoredThread",
    "open_saver",
]

_LATER = {
    "EncryptedSaver": "encrypted",
    "FileSaver": "file",
    "KeyRing": "encrypted",
    "PostgresSaver": "postgres",
    "RedisSaver": "redis",
    "SqliteSaver": "sqlite",
}
"""Names, and the modules here that have them."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
