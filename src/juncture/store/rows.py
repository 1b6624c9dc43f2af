"""Where a store's items are kept, as rows of bytes: the contract of what is below `RowStore`.

A place knows nothing of values, filters or embeddings. Namespaces come as the texts of `juncture.store.names`; contents
and vectors are bytes. The laws of a store say what follows from these:

1. Every call is one transaction: what it reads is of one moment (a long listing may be of several), and what it writes is
   stored together or not at all.
2. Rows that have run out, by the place's clock, aren't there for any call but `sweep`.
3. Rows are listed by namespace and then by key, in the order of their characters.
4. Every method may be called from any worker, several at once. After `close`, each raises `SaverError` or `StoreError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

Address: TypeAlias = tuple[str, str]
"""A namespace, as text, and a key."""
Clock: TypeAlias = Callable[[], float]
"""Seconds since the epoch."""


class Row(NamedTuple):
    """An item as it is kept."""

    namespace: str
    key: str
    content: bytes
    vectors: bytes
    """Of its indexed texts, one behind the other; empty if there are none."""
    created_at: float
    updated_at: float
    ttl: float | None
    """Seconds that it lives from when it was put or last refreshed."""


class Change(NamedTuple):
    """A row to be put, or without a content, to be removed."""

    namespace: str
    key: str
    content: bytes | None
    vectors: bytes = b""
    ttl: float | None = None


class Rows(ABC):
    """A place where rows are kept; the laws are in the module's docstring."""

    blocking: bool = True
    """Whether calls may wait for a disk or a network. Where false, they may be made on an event loop."""

    @abstractmethod
    def read(self, addresses: Sequence[Address]) -> list[Row | None]:
        """The rows there, in this order."""

    @abstractmethod
    def scan(self, prefix: str, offset: int = 0, limit: int | None = None) -> tuple[list[Row], int]:
        """The rows whose namespace begins with that text, from one on, at most so many; and how many there are in all."""

    @abstractmethod
    def namespaces(self, prefix: str) -> list[str]:
        """The namespaces that have rows and begin with that text, ascending, each once."""

    @abstractmethod
    def write(self, changes: Sequence[Change]) -> list[bool]:
        """Makes changes, of different addresses; whether there was a row at each.

        A row that is there keeps its ``created_at``.
        """

    @abstractmethod
    def refresh(self, addresses: Sequence[Address]) -> None:
        """Lets the time of the rows there that have one begin anew."""

    @abstractmethod
    def sweep(self) -> int:
        """Removes what has run out; how many rows."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what the place holds. Twice is fine."""

    async def elsewhere(self, call: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """The result of a call that uses this place, made where it may wait."""
        if not self.blocking:
            return call(*args, **kwargs)
        import asyncio  # a program without async code never pays for it

        return await asyncio.to_thread(call, *args, **kwargs)
