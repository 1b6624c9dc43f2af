"""The contract of a store: long-term memory, which belongs to no thread.

A store keeps items: values under a key in a namespace. Nodes read and write them while they run (`Runtime.store`), and
so does any other code. What a run writes there is there at once; it is no part of the state, and going back in time
doesn't take it back.

The laws, each checked by `juncture.testing.store_conformance`:

1. **Names.** A namespace is a tuple of labels, a key a string (`juncture.store.names`). Both are data, and compared
   exactly. A prefix of a namespace is a prefix of the tuple: ``("acme",)`` is none of ``("acme-corp",)``.
2. **Put and delete.** A put stores the whole value, and replaces that of an item that is there, which keeps its
   ``created_at``; ``updated_at`` is the moment of the put. A delete says whether there was an item.
3. **Exact.** What is read equals what was put, types included, and is the reader's own. A value is a dict with strings
   as keys; what can't be kept exactly is refused with `SerializationError` when it is put.
4. **Batches.** A batch gives a result for each operation, in their order. Its reads see what was there before its puts;
   of several puts of one item the last counts. Its puts and deletes are stored together or not at all.
5. **Filters.** All fields that a filter names must match (`juncture.store.filters`). Operators that there aren't are
   refused, never ignored.
6. **Order and pages.** A search goes by namespace and then by key, as texts, unless it has a query or is sorted; ties
   are broken so. Its result knows how many items there are on all pages.
7. **Queries.** With an index (`juncture.store.embedding`), a query ranks by the similarity of meaning, an item by the
   best of its texts; items without any come last, unscored. Without one, it keeps the items that have the text in their
   key or in a text of their value, whatever the case.
8. **Running out.** An item with a time to live is gone when that is over, by the store's clock (the database's, where
   there is one), whether or not somebody swept. Reading it lets it begin anew, unless that is turned off. A put without
   ``ttl`` gives it the store's default, ``ttl=None`` lets it stay.
9. **Namespaces.** Those are listed that have items, sorted, each once.
10. **Any thread.** Every method may be called from any worker and any event loop, several at once.
11. **Ends.** After `close`, every call raises `StoreError`; closing twice is fine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypedDict, cast

from juncture.store.names import Namespace
from juncture.types import MISSING

Value: TypeAlias = Mapping[str, Any]
Filter: TypeAlias = Mapping[str, Any]
Sort: TypeAlias = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Item:
    """What a store keeps under a key."""

    value: dict[str, Any]
    key: str
    namespace: Namespace
    created_at: datetime
    """When it was first put; in UTC, by the store's clock."""
    updated_at: datetime
    """When it was last put."""


@dataclass(frozen=True, slots=True)
class SearchItem(Item):
    """An item that a search found."""

    score: float | None = None
    """Cosine similarity to the query, of the best of its texts, at most 1; None where nothing was ranked."""


class SearchPage(list[SearchItem]):
    """A page of what a search found: a list, which knows where it stands."""

    __slots__ = ("limit", "offset", "total")

    def __init__(self, found: Iterable[SearchItem] = (), *, total: int, offset: int, limit: int) -> None:
        super().__init__(found)
        self.total = total
        """How many items there are on all pages."""
        self.offset = offset
        self.limit = limit

    @property
    def has_more(self) -> bool:
        """Whether there are pages after this one."""
        return self.offset + len(self) < self.total

    def __reduce__(self) -> tuple[Any, ...]:
        """So that copies know it as well."""
        return _page, (list(self), self.total, self.offset, self.limit)


def _page(found: list[SearchItem], total: int, offset: int, limit: int) -> SearchPage:
    return SearchPage(found, total=total, offset=offset, limit=limit)


class TTLConfig(TypedDict, total=False):
    """How items run out."""

    default_ttl: float | None
    """Minutes that an item lives which is put without ``ttl``; None (the default): for good."""
    refresh_on_read: bool
    """Whether its time begins anew when it is read, unless a call says otherwise. By default it does."""
    sweep_interval_minutes: float | None
    """A write sweeps what has run out if that wasn't done for so long; by default 5. None: only `Store.sweep_ttl`."""


class MatchCondition(NamedTuple):
    """What a namespace must begin or end with; the label ``"*"`` stands for any one."""

    match_type: Literal["prefix", "suffix"]
    path: Namespace


class GetOp(NamedTuple):
    """Reads an item; its result is an `Item` or None."""

    namespace: Namespace
    key: str
    refresh_ttl: bool | None = None


class SearchOp(NamedTuple):
    """Searches below a prefix; its result is a `SearchPage`."""

    namespace_prefix: Namespace
    filter: Filter | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool | None = None
    sort: Sort | None = None


@dataclass(frozen=True, slots=True)
class PutOp:
    """Puts a value, whose result is None; or deletes an item, if there is none, whose result says whether there was."""

    namespace: Namespace
    key: str
    value: Value | None
    index: Literal[False] | Sequence[str] | None = None
    ttl: float | None = cast("None", MISSING)  # what isn't given is the store's default


class ListNamespacesOp(NamedTuple):
    """Lists namespaces; its result is a list of them."""

    match_conditions: Sequence[MatchCondition] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Op: TypeAlias = GetOp | SearchOp | PutOp | ListNamespacesOp
Result: TypeAlias = Item | SearchPage | list[Namespace] | bool | None

_AT_ONCE = 500
"""How many items `Store.clear` removes in one transaction."""
_UNSET: Any = MISSING  # `Any`, so that signatures can say what may be given


class Store(ABC):
    """Long-term memory; the laws are in the module's docstring.

    One object serves sync and async code. A subclass implements `batch`, `abatch` and `close`; every other method is made
    of them. One that nodes are given refuses calls once its node has ended, or its run was stopped.
    """

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """Does several operations; their results, in their order (law 4).

        Raises:
            InvalidNamespaceError: A namespace can't be one. Nothing was done.
            ConfigError: Something else that was asked can't be. Nothing was done.
            SerializationError: A value can't be kept exactly, or not be read back. Nothing was stored.
            StoreUnavailableError: The place can't be used now.
            StoreError: It can't be used at all, or the store is closed.
        """

    @abstractmethod
    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """As `batch`. Cancelling it doesn't take back what it has begun."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what the store holds. Twice is fine."""

    async def aclose(self) -> None:
        """As `close`."""
        import asyncio  # a program without async code never pays for it

        await asyncio.to_thread(self.close)

    # ---- one operation

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """The item; None if there is none.

        Args:
            namespace: Where it is.
            key: Of the item.
            refresh_ttl: Whether its time to live begins anew; None for what the store does.
        """
        return self.batch([GetOp(namespace, key, refresh_ttl)])[0]

    async def aget(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """As `get`."""
        return (await self.abatch([GetOp(namespace, key, refresh_ttl)]))[0]

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Value,
        index: Literal[False] | Sequence[str] | None = None,
        *,
        ttl: float | None = _UNSET,
    ) -> None:
        """Stores a value.

        Args:
            namespace: Where; it needn't exist.
            key: Of the item; what is there is replaced.
            value: A dict with strings as keys.
            index: Which texts of it a query finds: paths (`juncture.store.paths`); None for those of the store, False
                for none.
            ttl: Minutes that it lives; None for good; not given: the store's default.
        """
        self.batch([_put(namespace, key, value, index, ttl)])

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Value,
        index: Literal[False] | Sequence[str] | None = None,
        *,
        ttl: float | None = _UNSET,
    ) -> None:
        """As `put`."""
        await self.abatch([_put(namespace, key, value, index, ttl)])

    def delete(self, namespace: Namespace, key: str) -> bool:
        """Removes an item; whether there was one."""
        return self.batch([PutOp(namespace, key, None)])[0]

    async def adelete(self, namespace: Namespace, key: str) -> bool:
        """As `delete`."""
        return (await self.abatch([PutOp(namespace, key, None)]))[0]

    def search(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: Filter | None = None,  # noqa: A002 - the name that users of LangGraph know
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        sort: Sort | None = None,
    ) -> SearchPage:
        """The items of a namespace and of those below it.

        Args:
            namespace_prefix: The first labels of their namespaces; ``()`` for all.
            query: What they are about (law 7).
            filter: What their values must have (law 5).
            limit: At most so many, 1 or more.
            offset: After so many.
            refresh_ttl: Whether the time to live of those on the page begins anew; None for what the store does.
            sort: ``"created_at"``, ``"updated_at"``, ``"key"``, ``"namespace"``, or ``"value."`` and the name of a field,
                with dots between for one inside another; or several, the first decides first. With ``"-"`` before it,
                descending. Absent fields and None come first, then false and true, numbers, texts, and times. A query
                decides what is found then, and no longer the order.
        """
        return self.batch([SearchOp(namespace_prefix, filter, limit, offset, query, refresh_ttl, sort)])[0]

    async def asearch(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: Filter | None = None,  # noqa: A002 - the name that users of LangGraph know
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        sort: Sort | None = None,
    ) -> SearchPage:
        """As `search`."""
        op = SearchOp(namespace_prefix, filter, limit, offset, query, refresh_ttl, sort)
        return (await self.abatch([op]))[0]

    def list_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """The namespaces that have items, sorted.

        Args:
            prefix: What they begin with; ``"*"`` in it is any label.
            suffix: What they end with, the same.
            max_depth: Only so many of their first labels; each only once.
            limit: At most so many, 1 or more.
            offset: After so many.
        """
        return self.batch([_listing(prefix, suffix, max_depth, limit, offset)])[0]

    async def alist_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """As `list_namespaces`."""
        return (await self.abatch([_listing(prefix, suffix, max_depth, limit, offset)]))[0]

    # ---- more than one

    def count(self, namespace_prefix: Namespace = ()) -> int:
        """How many items there are in a namespace and those below it."""
        return self.batch([_counting(namespace_prefix)])[0].total

    async def acount(self, namespace_prefix: Namespace = ()) -> int:
        """As `count`."""
        return (await self.abatch([_counting(namespace_prefix)]))[0].total

    def clear(self, namespace_prefix: Namespace = ()) -> int:
        """Removes all items of a namespace and of those below it, some at a time; how many there were."""
        gone = 0
        while page := self.batch([_some(namespace_prefix)])[0]:
            gone += sum(self.batch(_deletions(page)))
        return gone

    async def aclear(self, namespace_prefix: Namespace = ()) -> int:
        """As `clear`."""
        gone = 0
        while page := (await self.abatch([_some(namespace_prefix)]))[0]:
            gone += sum(await self.abatch(_deletions(page)))
        return gone

    def sweep_ttl(self) -> int:
        """Removes what has run out; how many items that was. A store that needn't returns 0."""
        return 0

    async def asweep_ttl(self) -> int:
        """As `sweep_ttl`."""
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _put(namespace: Namespace, key: str, value: Any, index: Any, ttl: float | None) -> PutOp:
    # None would delete the item: what is asked for here is to keep something.
    return PutOp(namespace, key, _UNSET if value is None else value, index, ttl)


def _listing(
    prefix: Namespace | None, suffix: Namespace | None, max_depth: int | None, limit: int, offset: int
) -> ListNamespacesOp:
    conditions: list[MatchCondition] = []
    if prefix is not None:
        conditions.append(MatchCondition("prefix", prefix))
    if suffix is not None:
        conditions.append(MatchCondition("suffix", suffix))
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)


def _counting(prefix: Namespace) -> SearchOp:
    return SearchOp(prefix, limit=1, refresh_ttl=False)


def _some(prefix: Namespace) -> SearchOp:
    return SearchOp(prefix, limit=_AT_ONCE, refresh_ttl=False)


def _deletions(page: SearchPage) -> list[PutOp]:
    return [PutOp(item.namespace, item.key, None) for item in page]
