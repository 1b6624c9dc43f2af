"""What a cache of node results does. It knows nothing of what its bytes mean.

The laws, which `juncture.testing.cache_conformance` checks:

* `get` gives exactly the bytes that the last `put` of that space and key was given, or None. Spaces and keys are data: any
  text and any bytes name a place of their own.
* An entry is gone from the moment at which it expires, by the time that `get` is told. Without one it stays until it is
  cleared; a cache may drop any entry at any time.
* `clear` drops everything of the spaces it names, or everything that the cache holds, and nothing else.
* Any thread may call it. What goes wrong raises; who calls decides what that means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Cache(ABC):
    """Keeps results of nodes. One object works from sync and async code."""

    blocking: ClassVar[bool] = True
    """Its methods wait for something, so that async code calls them in a thread."""

    @abstractmethod
    def get(self, space: str, key: bytes, now: float) -> bytes | None:
        """The bytes of an entry; None if there is none, or it expired.

        Args:
            space: Whose results: a node of a graph.
            key: Which of them.
            now: Seconds since the epoch.
        """

    @abstractmethod
    def put(self, space: str, key: bytes, value: bytes, now: float, ttl: float | None = None) -> None:
        """Keeps an entry, in the place of an earlier one; for so many seconds, or until it is cleared."""

    @abstractmethod
    def clear(self, spaces: Sequence[str] | None = None) -> None:
        """Drops every entry of these spaces, or of all."""

    def close(self) -> None:
        """Gives back what it holds open. It isn't used afterwards."""
        return

    async def aget(self, space: str, key: bytes, now: float) -> bytes | None:
        """As `get`."""
        return await self._twin(self.get, space, key, now)

    async def aput(self, space: str, key: bytes, value: bytes, now: float, ttl: float | None = None) -> None:
        """As `put`."""
        await self._twin(self.put, space, key, value, now, ttl)

    async def aclear(self, spaces: Sequence[str] | None = None) -> None:
        """As `clear`."""
        await self._twin(self.clear, spaces)

    async def _twin(self, method: Callable[..., Any], *args: Any) -> Any:
        if not self.blocking:
            return method(*args)
        import asyncio

        return await asyncio.to_thread(method, *args)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


__all__ = ["Cache"]
