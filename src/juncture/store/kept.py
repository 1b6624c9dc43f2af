"""The store over any place that keeps rows: what operations mean, written once for sync and async code.

A batch is planned first, which checks and encodes everything; then what is to be ranked is embedded; then everything that
may wait for a disk or a network is done in one go (`RowStore._carry_out`), for async code in a worker. So nothing was
stored where an argument is wrong, a value can't be kept or an embedding fails.

Values are kept by the codec of checkpoints: builtins exactly, and the classes that `register_type` knows. Filters and
plain queries look at the values that are read back, so they mean the same on every store; they read every item below the
prefix, and no other. With keys, contents and vectors are encrypted, each bound to its namespace and key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar, cast

from juncture.errors import (
    ConfigError,
    DecryptionError,
    SaverError,
    SaverUnavailableError,
    SerializationError,
    StoreError,
    StoreUnavailableError,
)
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT
from juncture.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
    SearchPage,
    Store,
    TTLConfig,
)
from juncture.store.embedding import Embedder, IndexConfig, paths_of, scores
from juncture.store.filters import check_filter, checked_sort, in_order, matches, mentions
from juncture.store.names import Namespace, check_key, check_namespace, read, written
from juncture.store.rows import Address, Change, Row, Rows
from juncture.types import MISSING

if TYPE_CHECKING:
    from juncture.savers.encrypted import KeyRing

_P = ParamSpec("_P")
_R = TypeVar("_R")
_SWEEP_MINUTES: Final = 5.0


@dataclass(slots=True)
class _Write:
    """A put or a delete, checked and encoded."""

    place: int
    """Of its operation in the batch."""
    namespace: str
    key: str
    content: bytes | None
    texts: list[str]
    ttl: float | None


@dataclass(slots=True)
class _Plan:
    """A batch, checked: its reads by their places, and its last write of each item."""

    count: int = 0
    reads: list[tuple[int, GetOp | SearchOp | ListNamespacesOp]] = field(
        default_factory=list[tuple[int, GetOp | SearchOp | ListNamespacesOp]]
    )
    writes: dict[Address, _Write] = field(default_factory=dict[Address, _Write])
    deletes: list[tuple[int, Address]] = field(default_factory=list[tuple[int, Address]])

    @property
    def texts(self) -> list[str]:
        """What is to be embedded, each once."""
        return list(dict.fromkeys(text for write in self.writes.values() for text in write.texts))

    @property
    def queries(self) -> list[str]:
        """What is searched for, each once."""
        asked = (op.query for _, op in self.reads if isinstance(op, SearchOp) and op.query)
        return list(dict.fromkeys(asked))


class _Found(NamedTuple):
    """A row that a search looks at; an item is only made of what it shows or sorts."""

    row: Row
    value: dict[str, Any]
    score: float | None = None

    @property
    def item(self) -> SearchItem:
        return SearchItem(self.value, *_columns(self.row), self.score)


class RowStore(Store):
    """A store whose items are rows somewhere.

    Args:
        rows: Where; closed with the store.
        index: What queries rank by; without one they look for the text itself.
        ttl: How items run out; without it those do that are put with ``ttl``.
        keys: What contents and vectors are encrypted with.

    Raises:
        ConfigError: The index or the times can't be right.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        keys: KeyRing | None = None,
    ) -> None:
        self._rows = rows
        self._embedder = None if index is None else Embedder(index)
        settings = _checked_ttl(ttl or {})
        self._default_ttl = settings.get("default_ttl")
        self._refreshes = settings.get("refresh_on_read", True)
        self._sweeps_after = settings.get("sweep_interval_minutes", _SWEEP_MINUTES)
        self._swept = time.monotonic()
        self._keys = keys
        self._codec = Codec(DEFAULT)

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """The results of operations, in their order."""
        plan = self._planned(ops)
        vectors: dict[tuple[str, bool], bytes] = {}
        if self._embedder is not None:
            vectors = self._embedder.vectors(plan.texts, plan.queries)
        return self._carry_out(plan, vectors)

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """As `batch`."""
        plan = self._planned(ops)
        vectors: dict[tuple[str, bool], bytes] = {}
        if self._embedder is not None:
            vectors = await self._embedder.avectors(plan.texts, plan.queries)
        return await self._rows.elsewhere(self._carry_out, plan, vectors)

    def sweep_ttl(self) -> int:
        """Removes what has run out; how many items that was."""
        return self._told(self._rows.sweep)

    async def asweep_ttl(self) -> int:
        """As `sweep_ttl`."""
        return await self._rows.elsewhere(self.sweep_ttl)

    def close(self) -> None:
        """Gives back what the store holds."""
        self._told(self._rows.close)

    # ---- planning

    def _planned(self, ops: Iterable[Op]) -> _Plan:
        plan = _Plan()
        for place, op in enumerate(ops):
            plan.count += 1
            match op:
                case PutOp():
                    write = self._write(place, op)
                    address = (write.namespace, write.key)
                    plan.writes.pop(address, None)  # of several the last counts
                    plan.writes[address] = write
                    if write.content is None:
                        plan.deletes.append((place, address))
                case GetOp():
                    plan.reads.append((place, op._replace(namespace=_checked_address(op.namespace, op.key))))
                case SearchOp():
                    plan.reads.append((place, _checked_search(op)))
                case ListNamespacesOp():
                    plan.reads.append((place, _checked_listing(op)))
                case _:  # pyright: ignore[reportUnnecessaryComparison] - what users give is found out here
                    raise ConfigError(f"a batch has GetOp, SearchOp, PutOp and ListNamespacesOp, not {op!r}.")
        return plan

    def _write(self, place: int, op: PutOp) -> _Write:
        namespace = _checked_address(op.namespace, op.key)
        text = written(namespace)
        if op.value is None:
            return _Write(place, text, op.key, None, [], None)
        value: Any = op.value
        where = f"item {op.key!r} in {namespace!r}"
        if not isinstance(value, Mapping):
            raise ConfigError(
                f"the value of {where} is a dict, not {type(cast('object', value)).__name__}. To remove the item, call delete."
            )
        value = dict(cast("Mapping[Any, Any]", value))
        for name in value:
            if not isinstance(name, str):
                raise ConfigError(f"the value of {where} has strings as keys, not {name!r}.")
        if op.index is not None and op.index is not False:
            paths_of(op.index)  # what can't be right is refused without an index as well
        texts: list[str] = []
        if self._embedder is not None and op.index is not False:
            texts = self._embedder.texts(value, op.index)
        content = self._codec.encode(value, where)
        if self._keys is not None:
            content = self._keys.seal(content, ("item", text, op.key))
        minutes = self._default_ttl if cast("Any", op.ttl) is MISSING else _checked_minutes(op.ttl, "ttl")
        return _Write(place, text, op.key, content, texts, None if minutes is None else minutes * 60)

    # ---- doing

    def _carry_out(self, plan: _Plan, vectors: Mapping[tuple[str, bool], bytes]) -> list[Any]:
        return self._told(self._results, plan, vectors)

    def _results(self, plan: _Plan, vectors: Mapping[tuple[str, bool], bytes]) -> list[Any]:
        results: list[Any] = [None] * plan.count
        gets = [(place, op) for place, op in plan.reads if isinstance(op, GetOp)]
        for place, item in zip([place for place, _ in gets], self._got([op for _, op in gets]), strict=True):
            results[place] = item
        for place, op in plan.reads:
            if isinstance(op, SearchOp):
                query = vectors.get((op.query, True)) if op.query else None
                results[place] = self._searched(op, query)
            elif isinstance(op, ListNamespacesOp):
                results[place] = self._listed(op)
        if plan.writes:
            there = dict(zip(plan.writes, self._rows.write(self._changes(plan, vectors)), strict=True))
            for place, address in plan.deletes:
                results[place] = there[address]
            self._sweep_now_and_then()
        return results

    def _changes(self, plan: _Plan, vectors: Mapping[tuple[str, bool], bytes]) -> list[Change]:
        changes: list[Change] = []
        for write in plan.writes.values():
            joined = b"".join([vectors[text, False] for text in write.texts])
            if self._keys is not None and joined:
                joined = self._keys.seal(joined, ("vectors", write.namespace, write.key))
            changes.append(Change(write.namespace, write.key, write.content, joined, write.ttl))
        return changes

    def _got(self, ops: Sequence[GetOp]) -> list[Item | None]:
        if not ops:
            return []
        rows = self._rows.read([(written(op.namespace), op.key) for op in ops])
        read = zip(ops, rows, strict=True)
        self._refresh([row for op, row in read if row is not None and self._wants(op.refresh_ttl)])
        return [None if row is None else Item(self._value(row), *_columns(row)) for row in rows]

    def _searched(self, op: SearchOp, query: bytes | None) -> SearchPage:
        prefix, fields = written(op.namespace_prefix), checked_sort(op.sort)
        if not op.filter and not op.query and not fields:
            rows, total = self._rows.scan(prefix, op.offset, op.limit)
            page = [_Found(row, self._value(row)) for row in rows]
        else:
            found = self._selected(op, self._rows.scan(prefix)[0])
            if query is not None:
                found = self._ranked(found, query)
            if fields:
                found = _sorted(found, fields)
            total, page = len(found), found[op.offset : op.offset + op.limit]
        if self._wants(op.refresh_ttl):
            self._refresh([one.row for one in page])
        return SearchPage([one.item for one in page], total=total, offset=op.offset, limit=op.limit)

    def _selected(self, op: SearchOp, rows: Sequence[Row]) -> list[_Found]:
        found = [_Found(row, self._value(row)) for row in rows]
        if op.filter:
            found = [one for one in found if matches(one.value, op.filter)]
        if op.query and self._embedder is None:
            text = op.query.casefold()
            found = [one for one in found if mentions(one.row.key, one.value, text)]
        return found

    def _ranked(self, found: Sequence[_Found], query: bytes) -> list[_Found]:
        rated = scores(query, [self._vectors(one.row, len(query)) for one in found])
        ranked = [one._replace(score=score) for one, score in zip(found, rated, strict=True)]
        ranked.sort(key=lambda one: -2.0 if one.score is None else one.score, reverse=True)
        return ranked

    def _vectors(self, row: Row, size: int) -> bytes:
        vectors = row.vectors
        if self._keys is not None and vectors:
            vectors = self._opened(row, vectors, "vectors")
        if len(vectors) % size:
            raise StoreError(
                f"item {row.key!r} in {read(row.namespace)!r} was indexed with vectors of another length than this index's "
                "'dims' says. Open the store with the index that it was written with, or put its items again."
            )
        return vectors

    def _listed(self, op: ListNamespacesOp) -> list[Namespace]:
        fixed: list[str] = []
        for condition in op.match_conditions:
            if condition.match_type == "prefix":
                plain = condition.path.index("*") if "*" in condition.path else len(condition.path)
                fixed.append(written(condition.path[:plain]))
        found: dict[Namespace, None] = {}
        for text in self._rows.namespaces(max(fixed, key=len, default="")):
            namespace = read(text)
            if all(_fits(namespace, condition) for condition in op.match_conditions):
                found[namespace[: op.max_depth]] = None
        return list(found)[op.offset : op.offset + op.limit]

    # ---- rows and items

    def _value(self, row: Row) -> dict[str, Any]:
        content = row.content if self._keys is None else self._opened(row, row.content, "item")
        try:
            return self._codec.unpack(content)
        except SerializationError:  # again, for an error that says where
            return self._codec.decode(content, f"item {row.key!r} in {read(row.namespace)!r}")

    def _opened(self, row: Row, sealed: bytes, kind: str) -> bytes:
        assert self._keys is not None
        try:
            return self._keys.open(sealed, (kind, row.namespace, row.key))
        except DecryptionError as error:
            raise DecryptionError(
                f"item {row.key!r} in {read(row.namespace)!r} can't be decrypted: it {error}. Nothing was changed."
            ) from error.__cause__

    def _wants(self, refresh: bool | None) -> bool:  # what an operation says
        return self._refreshes if refresh is None else refresh

    def _refresh(self, rows: Sequence[Row]) -> None:
        living = [(row.namespace, row.key) for row in rows if row.ttl is not None]
        if living:
            self._rows.refresh(living)

    def _sweep_now_and_then(self) -> None:
        if self._sweeps_after is None:
            return
        now = time.monotonic()
        if now - self._swept >= self._sweeps_after * 60:
            self._swept = now
            self._rows.sweep()

    def _told(self, call: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _as_store_errors():
            return call(*args, **kwargs)


@contextmanager
def _as_store_errors() -> Generator[None, None, None]:
    """Errors of databases, which savers share, as those of a store."""
    try:
        yield
    except SerializationError:  # of a value, not of the place
        raise
    except SaverUnavailableError as error:
        raise StoreUnavailableError(str(error)) from error
    except SaverError as error:
        raise StoreError(str(error)) from error


def _columns(row: Row) -> tuple[str, Namespace, datetime, datetime]:
    """What an item has besides its value."""
    created_at, updated_at = (datetime.fromtimestamp(at, UTC) for at in (row.created_at, row.updated_at))
    return row.key, read(row.namespace), created_at, updated_at


def _sorted(found: Sequence[_Found], fields: Sequence[tuple[str, bool]]) -> list[_Found]:
    items = [one.item for one in found]
    by_item = {id(item): one for item, one in zip(items, found, strict=True)}
    in_order(items, fields)
    return [by_item[id(item)] for item in items]


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, labels, strict=True))


# ---- what is checked


def _checked_address(namespace: object, key: object) -> Namespace:
    checked = check_namespace(namespace)
    check_key(checked, key)
    return checked


def _checked_search(op: SearchOp) -> SearchOp:
    check_filter(op.filter)
    checked_sort(op.sort)
    _check_page(op.limit, op.offset)
    if op.query is not None and not isinstance(op.query, str):
        raise ConfigError(f"the query of a search is a text, not {op.query!r}.")
    prefix = check_namespace(op.namespace_prefix, what="the prefix of a search", empty=True)
    return op._replace(namespace_prefix=prefix)


def _checked_listing(op: ListNamespacesOp) -> ListNamespacesOp:
    _check_page(op.limit, op.offset)
    if op.max_depth is not None and (not _is_count(op.max_depth) or op.max_depth < 1):
        raise ConfigError(f"max_depth is a number of labels, 1 or more, not {op.max_depth!r}.")
    conditions: list[MatchCondition] = []
    for kind, path in op.match_conditions or ():
        if kind not in ("prefix", "suffix"):
            raise ConfigError(f"a namespace is matched by 'prefix' or 'suffix', not {kind!r}.")
        conditions.append(MatchCondition(kind, check_namespace(path, what=f"the {kind}", empty=True)))
    return op._replace(match_conditions=[one for one in conditions if one.path])


def _check_page(limit: object, offset: object) -> None:
    if not _is_count(limit) or cast("int", limit) < 1:
        raise ConfigError(f"limit is a number of items, 1 or more, not {limit!r}.")
    if not _is_count(offset) or cast("int", offset) < 0:
        raise ConfigError(f"offset is a number of items, 0 or more, not {offset!r}.")


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _checked_minutes(minutes: Any, what: str, *, least: float | None = None) -> float | None:
    if minutes is None:
        return None
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)):
        raise ConfigError(f"{what} is a number of minutes, or None, not {minutes!r}.")
    if not (minutes > 0 or minutes == least) or minutes == float("inf"):
        raise ConfigError(f"{what} is a number of minutes above 0, or None for never, not {minutes!r}.")
    return float(minutes)


def _checked_ttl(given: TTLConfig) -> TTLConfig:
    unknown = set(given) - {"default_ttl", "refresh_on_read", "sweep_interval_minutes"}
    if unknown:
        raise ConfigError(
            f"ttl has 'default_ttl', 'refresh_on_read' and 'sweep_interval_minutes', not {', '.join(sorted(map(repr, unknown)))}."
        )
    _checked_minutes(given.get("default_ttl"), "default_ttl")
    _checked_minutes(given.get("sweep_interval_minutes"), "sweep_interval_minutes", least=0.0)
    return given
