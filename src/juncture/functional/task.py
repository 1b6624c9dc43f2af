"""`task`: a function whose calls inside a node are recorded, so that a resumed node doesn't make them again.

A call is a task of its own to the engine: it runs beside the node's body, on a worker or the event loop, and its result is
saved before the caller hears of it. It is known by the function's name, its arguments and how often that call occurred
before in the same node, so calls may be reordered between runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast, overload

from typing_extensions import ParamSpec

from juncture.drivers.calls import CallFuture
from juncture.drivers.context import current
from juncture.engine.tables import CacheRule, Node
from juncture.engine.task import Task
from juncture.engine.values import copied
from juncture.errors import GraphBuildError, SerializationError
from juncture.graph.inject import kind_of, name_of, return_hint
from juncture.graph.policies import cache_rule, read_cache_policy, read_timeout
from juncture.persistence.registry import DEFAULT
from juncture.types import CachePolicy, RetryPolicy, Timeout, ValueT

if TYPE_CHECKING:
    from juncture.cache.base import Cache

P = ParamSpec("P")


class TaskFunction(Generic[P, ValueT]):
    """A function made a task. Calling it inside a node gives a `CallFuture`."""

    def __init__(
        self,
        function: Callable[P, Any],
        name: str | None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None,
        timeout: Timeout | None = None,
        cache_policy: CachePolicy | None = None,
    ) -> None:
        """See `task`."""
        kind = kind_of(function)
        if kind > 1:
            raise GraphBuildError(f"task {name_of(function)!r} is a generator; a task returns one value")
        self.function = function
        self.name = name or name_of(function) or "task"
        self._kind = kind
        self._retry: tuple[RetryPolicy, ...] = ()
        if retry_policy is not None:
            self._retry = (retry_policy,) if isinstance(retry_policy, RetryPolicy) else tuple(retry_policy)
        self._timeout = read_timeout(timeout, self.name)
        self._cache_policy = read_cache_policy(cache_policy, self.name)
        self._cache = cache_rule(self._cache_policy, ["@task", self.name], kind, function)
        functools.update_wrapper(self, function)
        DEFAULT.register_annotation(
            return_hint(function)
        )  # what is recorded is read by other processes as well

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> CallFuture[ValueT]:
        """Begins the call, or takes its recorded result; ``.result()`` waits in sync code, ``await`` in async code.

        Raises:
            ConfigError: Called outside of a node.
        """
        context = current()
        content = self._content(context.program.shared.codec.encode, args, kwargs)

        def make(parent: Task, identity: str) -> Task:
            bound = functools.partial(self.function, *args, **kwargs)
            node = Node(
                self.name,
                self._kind,
                _ignoring_input(bound, self._kind),
                _nothing,
                _nothing,
                retry=self._retry,
                timeout=self._timeout,
                cache=self._rule(args, kwargs),
            )
            made = Task(node, parent.step, parent.place, {}, parent.remaining)
            made.argument = (args, kwargs)
            made.parent = parent
            made.identity = identity
            return made

        return cast("CallFuture[ValueT]", context.call(self.name, content, make))

    def _rule(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CacheRule | None:
        """How the result of a call is kept: a task has no input, but arguments."""
        rule = self._cache
        if rule is None:
            return None
        key_func = rule.policy.key_func
        content = copied(self._given(args, kwargs)) if key_func is None else None

        def key_of(_: Any) -> Any:
            return content if key_func is None else key_func(*args, **kwargs)

        return replace(rule, key_of=key_of)

    def clear_cache(self, cache: Cache) -> None:
        """Drops the results that a cache keeps of this task."""
        cache.clear([] if self._cache is None else [self._cache.space])

    async def aclear_cache(self, cache: Cache) -> None:
        """As `clear_cache`."""
        await cache.aclear([] if self._cache is None else [self._cache.space])

    def _given(self, args: Any, kwargs: Any) -> list[Any]:
        """What a call is known by besides its name: its arguments, and those that the function itself holds."""
        function: Any = self.function
        bound: list[Any] = []
        while isinstance(function, functools.partial):
            partial = cast("functools.partial[Any]", function)
            bound += [partial.args, partial.keywords]
            function = partial.func
        if inspect.ismethod(function):
            bound.append([function.__self__])
        return [*bound, args, kwargs] if bound else [args, kwargs]

    def _content(self, digest: Callable[[Any], bytes], args: Any, kwargs: Any) -> bytes:
        given = self._given(args, kwargs)
        try:
            return digest(copied(given))
        except SerializationError:
            return digest([_known(value, digest) for value in given])

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Binds to an instance, so that methods can be tasks."""
        if instance is None:
            return self
        return TaskFunction(
            self.function.__get__(instance, owner),
            self.name,
            self._retry or None,
            self._timeout,
            self._cache_policy,
        )


def _known(value: Any, digest: Callable[[Any], bytes]) -> Any:
    """What is known of a value of which some parts can't be stored: of these their class alone."""
    if isinstance(value, dict):
        return [(name, _known(each, digest)) for name, each in cast("dict[Any, Any]", value).items()]
    if isinstance(value, (list, tuple)):
        return [_known(each, digest) for each in cast("Sequence[Any]", value)]
    try:
        return digest(copied(value))
    except SerializationError:
        return f"{type(value).__module__}.{type(value).__qualname__}"


def _nothing(_: Any, _flat: Any = None) -> None:
    return None


def _ignoring_input(function: Callable[[], Any], kind: int) -> Callable[[Any], Any]:
    if kind == 1:

        async def call_async(_: Any) -> Any:
            return await function()

        return call_async
    return lambda _: function()


class Decorator(Protocol):
    """What `task` gives when it is called with options: makes a function a task."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, ValueT]], /) -> TaskFunction[P, ValueT]: ...
    @overload
    def __call__(self, function: Callable[P, ValueT], /) -> TaskFunction[P, ValueT]: ...


@overload
def task(function: Callable[P, Coroutine[Any, Any, ValueT]], /) -> TaskFunction[P, ValueT]: ...
@overload
def task(function: Callable[P, ValueT], /) -> TaskFunction[P, ValueT]: ...
@overload
def task(
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    timeout: Timeout | None = None,
    cache_policy: CachePolicy | None = None,
) -> Decorator: ...
def task(
    function: Callable[P, Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    timeout: Timeout | None = None,
    cache_policy: CachePolicy | None = None,
) -> Any:
    """Makes a function a task: its calls inside a node run beside the node, and their results are recorded.

    Args:
        function: A sync or async function, a method, a partial, or a callable object. The classes in its return annotation may
            be stored from now on, as with `register_type`.
        name: By default the function's own; part of what a recorded result is known by.
        retry_policy: When a failed call is followed by another.
        timeout: How long a try may take, as in `StateGraph.add_node`.
        cache_policy: That results are kept in the graph's cache and used again, by any thread and run.

    Raises:
        GraphBuildError: It is a generator, or `timeout` no time limit.

    Source:
        LangGraph 1.2.24 `task`, which knows calls by their order instead.
    """
    if function is None:

        def decorate(given: Callable[P, Any]) -> TaskFunction[P, Any]:
            return TaskFunction(given, name, retry_policy, timeout, cache_policy)

        return decorate
    return TaskFunction(function, name, retry_policy, timeout, cache_policy)
