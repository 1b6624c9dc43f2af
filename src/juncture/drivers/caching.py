"""Results of nodes that are kept and used again.

A result is known by a digest of everything that it may depend on, encoded exactly, so that 1, 1.0 and True differ: which
function it is, what it was handed, and, unless the policy says what of it matters, the run's context and the ``configurable``
part of its config. So one tenant isn't served what another was told. What can't be encoded isn't cached, and a warning says
so; so does what goes wrong with the cache itself, and the node runs.

Kept is what the node returned, as bytes of the checkpoint's codec; it is read anew each time, as if the node had returned it
just now. Only a result of a try that asked nobody and was answered by nobody is kept, and none of a failure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from hashlib import blake2b
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, cast

from juncture.engine.effects import Done, Outcome
from juncture.engine.tables import CacheRule
from juncture.errors import SerializationError, described

if TYPE_CHECKING:
    from juncture.cache.base import Cache
    from juncture.drivers.attempt import Try

_OF_THE_CALL: Final = frozenset(
    ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id", "max_concurrency")
)
"""What a config names that isn't what a result depends on."""
_PLAIN: Final = (str, bytes, int, float, bool, type(None))


class Memo:
    """The cached result of one try, if there is one, and its place."""

    __slots__ = ("_cache", "_key", "_rule", "_this")

    def __init__(self, this: Try, rule: CacheRule, cache: Cache, key: bytes) -> None:
        self._this = this
        self._rule = rule
        self._cache = cache
        self._key = key

    def recall(self) -> Outcome | None:
        """The outcome that an earlier result has now; None if there is none."""
        try:
            found = self._cache.get(self._rule.space, self._key, self._now())
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a cache, the node can run
            self._unreachable(error)
            return None
        return None if found is None else self._read(found)

    async def recall_async(self) -> Outcome | None:
        """As `recall`."""
        try:
            found = await self._cache.aget(self._rule.space, self._key, self._now())
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a cache, the node can run
            self._unreachable(error)
            return None
        return None if found is None else self._read(found)

    def keep(self, outcome: Outcome, result: Any) -> None:
        """Keeps what a try returned, if others may have it."""
        value = self._bytes(outcome, result)
        if value is not None:
            try:
                self._cache.put(self._rule.space, self._key, value, self._now(), self._rule.ttl)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a cache, the node has run
                self._unreachable(error)

    async def keep_async(self, outcome: Outcome, result: Any) -> None:
        """As `keep`."""
        value = self._bytes(outcome, result)
        if value is not None:
            try:
                await self._cache.aput(self._rule.space, self._key, value, self._now(), self._rule.ttl)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a cache, the node has run
                self._unreachable(error)

    def _now(self) -> float:
        return self._this.program.driver.clock.wall()

    def _read(self, found: bytes) -> Outcome | None:
        this = self._this
        try:
            outcome = this.done(this.program.shared.codec.decode(found, "a cached result"))
        except Exception as error:  # noqa: BLE001 - kept by another version of the graph, or not by us
            this.program.driver.warn(
                f"a cached result of node {this.task.node.name!r} can't be used, so the node runs: {described(error)}"
            )
            return None
        if not isinstance(outcome, Done):
            return None
        outcome.cached = True
        return outcome

    def _bytes(self, outcome: Outcome, result: Any) -> bytes | None:
        this = self._this
        if (
            type(outcome) is not Done
            or _was_answered(this)
            or this.program.driver.stops(this.program, this.task)
        ):
            return None
        try:
            return this.program.shared.codec.encode(result, f"the result of node {this.task.node.name!r}")
        except SerializationError as error:
            this.program.driver.warn(f"it isn't cached: {error}")
            return None

    def _unreachable(self, error: Exception) -> None:
        self._this.program.driver.warn(
            f"the cache can't be reached, so node {self._this.task.node.name!r} runs without it: {described(error)}"
        )


def memo_of(this: Try) -> Memo | None:
    """Where the result of a try is kept; None if it isn't.

    Raises:
        Exception: What the policy's own functions raised.
    """
    rule, program = this.task.node.cache, this.program
    if rule is None:
        return None
    cache = program.shared.cache if program.tables.cache is None else program.tables.cache
    owner = this.task.parent or this.task
    if cache is None or any(record.kind == "answer" for record in owner.records or ()):
        return None
    encode = program.shared.codec.encode
    if rule.identity is None:
        rule.identity = identity_of(rule.code, encode)
    content, varies = rule.key_of(this.given), _varies(this, rule)
    try:
        parts = [rule.identity, encode(varies, "what the result varies with"), encode(content, "the input")]
    except SerializationError as error:
        program.driver.warn(
            f"node {this.task.node.name!r} isn't cached: {error} Or say what its result depends on: "
            "CachePolicy(key_func=…) of its input, CachePolicy(vary_on=…) of its runtime"
        )
        return None
    return Memo(this, rule, cache, _digest(parts))


def _varies(this: Try, rule: CacheRule) -> Any:
    """What else than its input a result depends on."""
    if rule.policy.vary_on is not None:
        return rule.policy.vary_on(this.runtime)
    shared = this.program.shared
    named = cast("dict[str, Any]", shared.config.get("configurable") or {})
    rest = [[name, named[name]] for name in sorted(named.keys() - _OF_THE_CALL)]
    return [shared.context, rest]


def _was_answered(this: Try) -> bool:
    return bool((this.task.parent or this.task).consumed or this.questions or this.task.questions)


def identity_of(code: Any, encode: Callable[[Any], bytes]) -> bytes:
    """What tells a function from others: where it was written, its code, and the plain values that are bound to it.

    Of other objects that are bound to it only the class counts: whether such objects are alike, nobody can say.
    """
    return _digest([_traits(code, encode, 0)])


def _traits(thing: Any, encode: Callable[[Any], bytes], depth: int) -> bytes:
    kind = cast("type[Any]", type(thing))
    if kind in _PLAIN:
        return encode(thing)
    if depth > 6:
        return b""
    named = thing if isinstance(thing, (type, FunctionType)) else kind
    parts = [named.__module__.encode(), named.__qualname__.encode()]
    each = [_traits(one, encode, depth + 1) for one in _bound(thing, kind, depth)]
    return _digest(parts + (sorted(each) if kind is frozenset else each))


def _bound(thing: Any, kind: type[Any], depth: int) -> list[Any]:
    """What a function, or what is bound to it, consists of."""
    if kind is CodeType:
        return [thing.co_code, repr(thing.co_names), *thing.co_consts]
    if isinstance(thing, FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
        return [
            thing.__code__,
            thing.__defaults__,
            tuple(sorted((thing.__kwdefaults__ or {}).items())),
            *cells,
        ]
    if isinstance(thing, functools.partial):
        partial = cast("functools.partial[Any]", thing)
        return [partial.func, partial.args, tuple(sorted(partial.keywords.items()))]
    if kind is tuple or kind is frozenset:
        return list(thing)
    if kind is MethodType:
        return [thing.__func__, thing.__self__]
    if depth <= 2 and hasattr(thing, "__dict__") and not isinstance(thing, type):
        attributes = cast("dict[str, Any]", vars(thing))
        return sorted(item for item in attributes.items() if type(item[1]) in _PLAIN)
    return []


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty one raises
    except ValueError:
        return False
    return True


def _digest(parts: list[bytes]) -> bytes:
    digest = blake2b(digest_size=32)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


__all__ = ["Memo", "identity_of", "memo_of"]
