"""The store as one try of a node sees it: every call asks first whether the try still may."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from juncture.store.base import Op, Store


class NodeStore(Store):
    """A store in a node's hands; `inner` is the one that the graph was given.

    Once the node has ended, a call raises `ConfigError`; once its run was stopped or the node was abandoned, `Cancelled`:
    whatever its code still does then doesn't reach the memory that others share.
    """

    def __init__(self, inner: Store, check: Callable[[str], None]) -> None:
        self.inner = inner
        self._check = check

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """As `Store.batch`."""
        self._check("the store")
        return self.inner.batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """As `Store.abatch`."""
        self._check("the store")
        return await self.inner.abatch(ops)

    def sweep_ttl(self) -> int:
        """As `Store.sweep_ttl`."""
        self._check("the store")
        return self.inner.sweep_ttl()

    async def asweep_ttl(self) -> int:
        """As `Store.asweep_ttl`."""
        self._check("the store")
        return await self.inner.asweep_ttl()

    def close(self) -> None:
        """Nothing: it belongs to whoever opened it."""
