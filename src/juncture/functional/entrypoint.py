"""`entrypoint`: a function as a graph of one node, run, saved, paused and streamed as any other.

The state behind it has three keys that nobody sees: what the function was given (`GIVEN`, while it runs), what it returned
last (`ROOT`), and what it wants to find as `previous` where that is something else (`SAVED`). What its calls of tasks gave
is journaled beside the checkpoint that its input made, so a run that goes on doesn't make them again.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    cast,
    get_args,
    get_origin,
    overload,
)

from typing_extensions import TypedDict, TypeVar

from juncture.drivers.context import current
from juncture.engine.tables import ASYNC, ASYNC_GENERATOR, GENERATOR
from juncture.engine.values import copied
from juncture.errors import GraphBuildError, InvalidUpdateError
from juncture.graph.builder import StateGraph
from juncture.graph.compiled import CompiledGraph
from juncture.graph.inject import INJECTABLE, kind_of, name_of
from juncture.graph.schema import Schema, read_schema
from juncture.persistence.registry import DEFAULT
from juncture.types import (
    MARK_FOR_REMOVAL,
    ROOT,
    START,
    CachePolicy,
    Command,
    ContextT,
    RetryPolicy,
    Send,
    StateUpdate,
    Timeout,
)

if TYPE_CHECKING:
    from juncture.cache.base import Cache
    from juncture.graph.access import Where
    from juncture.observe.listeners import Event, Listener, OnListenerError
    from juncture.persistence.threads import Durability
    from juncture.savers.base import Saver
    from juncture.store.base import Store

GIVEN: Final = "__given__"
SAVED: Final = "__saved__"
_NO_VALUE: Final = object()
R = TypeVar("R")
S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the input, as R is what is returned and S what is saved
_InputT = TypeVar("_InputT")
_OutputT = TypeVar("_OutputT")
_ContextT = TypeVar("_ContextT", default=None)


class Entrypoint(
    CompiledGraph[_OutputT, _ContextT, _InputT, _OutputT], Generic[_InputT, _OutputT, _ContextT]
):
    """A function as a compiled graph. `RunResult.value` is what it returned; None if the run was paused."""

    def __init__(
        self,
        function: Callable[..., Any],
        builder: StateGraph[Any, Any, Any, Any],
        checkpointer: Saver | str | bool | None,
        **options: Any,
    ) -> None:
        """See `entrypoint`."""
        super().__init__(builder, checkpointer, **options)
        self.function = function
        """The function itself."""
        self.__name__ = self.name
        self.__doc__ = inspect.getdoc(function)

    def as_action(self) -> Callable[..., Any]:
        """A function that calls it with its part of the state, and returns what it returned: as a node that is an update."""
        if self.checkpointer is not None:
            raise GraphBuildError(
                f"the entrypoint {self.name!r} has a saver of its own, which it wouldn't use as a node: it is kept with the graph "
                "around it. Make it without a checkpointer",
                node=self.name,
            )

        def call(given: Any) -> Any:
            return self.invoke(given).value

        async def call_async(given: Any) -> Any:
            return (await self.ainvoke(given)).value

        return _named_after(self.function, call_async if kind_of(self.function) == ASYNC else call, ())

    def bulk_update_state(self, config: Where, supersteps: Sequence[Sequence[StateUpdate]]) -> dict[str, Any]:
        """Edits what it returned last, as if it had returned the values; `entrypoint.final` saves something else."""
        return super().bulk_update_state(config, self._as_returned(supersteps))

    async def abulk_update_state(
        self, config: Where, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> dict[str, Any]:
        """As `bulk_update_state`."""
        return await super().abulk_update_state(config, self._as_returned(supersteps))

    def _as_returned(self, supersteps: Sequence[Sequence[StateUpdate]]) -> list[list[StateUpdate]]:
        edits = [[StateUpdate(*update) for update in updates] for updates in supersteps]
        return [
            [
                StateUpdate(_update(edit.values), self.name) if edit.as_node in (None, self.name) else edit
                for edit in updates
            ]
            for updates in edits
        ]


class entrypoint(Generic[ContextT]):  # noqa: N801 - used as a decorator
    """Makes a function a graph: it can be invoked, streamed, paused, resumed and looked at like one.

    Its first parameter is the input. Parameters named ``previous``, ``runtime``, ``config``, ``store`` and ``writer`` are filled;
    ``previous`` is what it returned the last time on the same thread (or saved, see `entrypoint.final`), None at first.

    Args:
        checkpointer: A saver or its URL, as for `StateGraph.compile`. Without one nothing is kept.
        store: Long-term memory for it and its tasks: a store or its URL, as for `StateGraph.compile`.
        context_schema: The type of what a call gives as ``context=``.
        cache: Where what it returns and what its tasks give is kept, for those with a `CachePolicy`; as for
            `StateGraph.compile`.
        cache_policy: That what it returns is kept, and given again for an equal input. Not for one that asks for ``previous``.
        retry_policy: When a failed try is followed by another; calls of tasks that ended aren't repeated.
        timeout: How long a try may take, pauses not included.
        name: By default the function's own.
        validate: Validate the input and what is returned by the function's annotations, with pydantic.
        durability: As for `StateGraph.compile`, like the rest.
        listeners: Told what happens in every run.
        on_listener_error: What a listener's exception means.

    Raises:
        GraphBuildError: The function takes no input, is a generator, or has a parameter that nothing fills.

    Source:
        LangGraph 1.2.24 `entrypoint`, which gives the bare value; here it is `RunResult.value`.
    """

    @dataclass(frozen=True, slots=True)
    class final(Generic[R, S]):  # noqa: N801 - LangGraph's name
        """Returned by an entrypoint to save something else than it returns."""

        value: R
        """What the caller gets."""
        save: S
        """What the next run on the thread gets as ``previous``."""

    def __init__(
        self,
        checkpointer: Saver | str | bool | None = None,
        store: Store | str | None = None,
        cache: Cache | str | None = None,
        *,
        context_schema: type[ContextT] | None = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: Timeout | None = None,
        name: str | None = None,
        validate: bool = False,
        durability: Durability = "sync",
        listeners: Sequence[Listener | Callable[[Event], Any]] = (),
        on_listener_error: OnListenerError = "warn",
    ) -> None:
        self._checkpointer = checkpointer
        self._context_schema = context_schema
        self._node: dict[str, Any] = {
            "retry_policy": retry_policy,
            "timeout": timeout,
            "cache_policy": cache_policy,
        }
        self._name = name
        self._validate = validate
        self._options: dict[str, Any] = {
            "store": store,
            "cache": cache,
            "durability": durability,
            "listeners": listeners,
            "on_listener_error": on_listener_error,
        }

    @overload
    def __call__(
        self, function: Callable[Concatenate[I, ...], Coroutine[Any, Any, final[R, S]]]
    ) -> Entrypoint[I, R, ContextT]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[I, ...], final[R, S]]
    ) -> Entrypoint[I, R, ContextT]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[I, ...], Coroutine[Any, Any, R]]
    ) -> Entrypoint[I, R, ContextT]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[I, ...], R]) -> Entrypoint[I, R, ContextT]: ...
    def __call__(self, function: Callable[..., Any]) -> Entrypoint[Any, Any, ContextT]:
        """The function as a graph."""
        name = self._name or name_of(function) or "entrypoint"
        kind = kind_of(function)
        if kind in (GENERATOR, ASYNC_GENERATOR):
            raise GraphBuildError(
                f"entrypoint {name!r} is a generator; an entrypoint returns one value. To show something while it runs, use "
                "its writer"
            )
        given, returned, saved = _types(function)
        fields = {ROOT: returned, SAVED: saved, GIVEN: given}
        state = read_schema(TypedDict(name, fields, total=False), validate=self._validate)  # pyright: ignore[reportArgumentType] - made of what the function says
        for annotation in (given, returned, saved):
            DEFAULT.register_annotation(
                annotation
            )  # a graph around it, or another process, reads its values as well
        takes, gives = (Schema(None, "root", name, {key: state.fields[key]}) for key in (GIVEN, ROOT))
        builder: StateGraph[Any, Any, Any, Any] = StateGraph(
            state,
            self._context_schema,
            input_schema=takes,
            output_schema=gives,
            validate=self._validate,
            silence=("unread-key",),  # what is saved is read by the node, which hides it from the checker
        )
        node, wanted = _node(function, name, is_async=kind == ASYNC)
        if self._node["cache_policy"] is not None and "previous" in wanted:
            raise GraphBuildError(
                f"entrypoint {name!r} has a cache policy and asks for `previous`, on which its result may depend though it isn't part "
                "of the input that results are kept by. Do without one of them",
                node=name,
            )
        builder.add_node(name, _named_after(function, node, wanted), input_schema=takes, **self._node)
        builder.add_edge(START, name)
        return Entrypoint(function, builder, self._checkpointer, name=name, **self._options)


def _node(
    function: Callable[..., Any], name: str, *, is_async: bool
) -> tuple[Callable[..., Any], Sequence[str]]:
    """The node that calls the function, and what it has to be given besides its input."""
    wanted = _wanted(function, name)
    remembers = "previous" in wanted

    def prepared(more: dict[str, Any]) -> dict[str, Any]:
        context = current()
        values = context.task.values
        runtime = context.remember(copied(values.get(SAVED, values.get(ROOT))))
        if "runtime" in more:
            more["runtime"] = runtime
        return {**more, "previous": runtime.previous} if remembers else more

    if is_async:

        async def node_async(given: Any, **more: Any) -> Any:
            return _update(await function(given, **prepared(more)))

        return node_async, wanted

    def node(given: Any, **more: Any) -> Any:
        return _update(function(given, **prepared(more)))

    return node, wanted


def _update(returned: Any) -> Any:
    """What a function returned, as an update of the state behind it."""
    if isinstance(returned, (Command, Send)):
        if isinstance(returned, Command) and returned.graph == Command.PARENT:
            return cast("Command[Any]", returned)
        raise InvalidUpdateError(
            f"an entrypoint returned {returned!r}; it returns a value and has nowhere to go. As a node of a graph it may return "
            "Command(graph=Command.PARENT, …)"
        )
    previous: Any = MARK_FOR_REMOVAL
    if isinstance(returned, entrypoint.final):
        final = cast("entrypoint.final[Any, Any]", returned)
        returned, previous = final.value, final.save
    return {ROOT: returned, SAVED: previous, GIVEN: MARK_FOR_REMOVAL}


def _wanted(function: Callable[..., Any], name: str) -> list[str]:
    """The parameters that are filled, besides the input, which is the first.

    Raises:
        GraphBuildError: There is no first parameter, or nothing fills one of the others.
    """
    fills = (*INJECTABLE, "previous")
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind in (
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    ):
        raise GraphBuildError(f"entrypoint {name!r} takes no input: give it a first parameter", node=name)
    wanted: list[str] = []
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.name in fills and parameter.kind is not parameter.POSITIONAL_ONLY:
            wanted.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise GraphBuildError(
                f"entrypoint {name!r} has a parameter {parameter.name!r} that nothing fills. Besides its input, it may ask "
                f"for {', '.join(fills)}; give anything else a default, or make it part of the input",
                node=name,
            )
    return wanted


def _named_after(
    function: Callable[..., Any], node: Callable[..., Any], wanted: Sequence[str]
) -> Callable[..., Any]:
    """A node that shows as the function does, and asks for what is wanted and can be filled."""
    first, *_ = inspect.signature(function).parameters.values()
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in wanted if name in INJECTABLE
    ]
    given = first.replace(kind=inspect.Parameter.POSITIONAL_ONLY, default=inspect.Parameter.empty)
    node.__name__ = node.__qualname__ = name_of(function) or "entrypoint"
    node.__doc__ = inspect.getdoc(function)
    node.__module__ = getattr(function, "__module__", None) or node.__module__
    hints = _hints(function)
    node.__annotations__ = {
        name: hints[key] for name, key in (("given", first.name), ("return", "return")) if key in hints
    }
    cast("Any", node).__signature__ = inspect.Signature([given.replace(name="given"), *keywords])
    return node


def _hints(function: Any) -> Mapping[str, Any]:
    """The annotations of a function, as far as they can be resolved."""
    while hasattr(function, "func"):
        function = function.func
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = getattr(function, "__call__", function)  # noqa: B004 - its code, not whether it is callable
    with suppress(Exception):  # a name that can't be resolved only means that nothing is known
        return typing.get_type_hints(function, include_extras=True)
    return {}


def _types(function: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """The types of what a function is given, returns and saves; Any where nothing is known."""
    hints = _hints(function)
    first = next(iter(inspect.signature(function).parameters), "")
    given, returned = hints.get(first, Any), hints.get("return", Any)
    if get_origin(returned) is entrypoint.final:
        returned, saved = get_args(returned)
        return given, returned, saved
    return given, returned, Any


__all__ = ["Entrypoint", "entrypoint"]
