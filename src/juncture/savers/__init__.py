"""Where checkpoints are kept, and how a saver is opened by URL."""

from __future__ import annotations

from juncture.errors import GraphBuildError
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

__all__ = [
    "InMemorySaver",
    "Lease",
    "LoadedCheckpoint",
    "MemorySaver",
    "Part",
    "Saver",
    "Spans",
    "StoredCheckpoint",
    "StoredRecord",
    "StoredThread",
    "open_saver",
]


def open_saver(url: str) -> Saver:
    """The saver that a URL names; whoever opens it closes it.

    ``memory:`` is a new `InMemorySaver` each time.

    Raises:
        GraphBuildError: The URL names no saver. Nothing was opened.
    """
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise GraphBuildError("a saver's URL starts with its scheme and a colon. Known: 'memory:'.")
    if scheme != "memory":  # the rest of a URL may hold a password: an error never shows it
        raise GraphBuildError(
            f"no saver for the scheme {scheme + ':'!r}. Known: 'memory:'. Or pass a saver object."
        )
    if rest:
        raise GraphBuildError("'memory:' takes nothing after the colon: a saver in memory has no name.")
    return InMemorySaver()
