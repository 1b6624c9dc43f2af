"""A compiled graph: what users call.

`invoke` and `ainvoke`, `stream` and `astream` are the same call, driven by blocking or by awaiting, with or without a
consumer; everything before and after the driving is shared (`calls`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, overload

from juncture.drivers.loops import Loops
from juncture.engine.tables import Tables
from juncture.errors import ConfigError, GraphBuildError
from juncture.graph.access import ThreadAccess, subgraphs_of
from juncture.graph.answering import Answerable
from juncture.graph.assemble import assemble
from juncture.graph.calls import Call
from juncture.graph.drawing.face import Drawable
from juncture.graph.inside import enter
from juncture.graph.options import OnFinish, RunOptions, Shape, chosen, shaper
from juncture.graph.overall_state import OverAllState, check_input
from juncture.graph.pausing import Names, Wanted
from juncture.graph.policies import cache_spaces, opened_cache
from juncture.graph.validate import validate
from juncture.observe.listeners import Event, Listener, OnListenerError, read_listeners, read_on_error
from juncture.persistence.asking import aperformed, performed
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.threads import Durability
from juncture.types import Command, ContextT, InputT, OutputT, RunResult, StateT, StreamMode

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Unpack

    from juncture.cache.base import Cache
    from juncture.drivers.base import Driver
    from juncture.graph.builder import StateGraph
    from juncture.graph.check_findings import Report
    from juncture.graph.outline import Outline
    from juncture.graph.schema import Schema
    from juncture.savers.base import Saver
    from juncture.store.base import Store

Version = Literal["v1", "parts"]


class CompiledGraph(ThreadAccess, Answerable, Drawable, Generic[StateT, ContextT, InputT, OutputT]):
    """A graph ready to run, any number of times at once, from any thread and event loop."""

    def __init__(
        self,
        builder: StateGraph[StateT, ContextT, InputT, OutputT],
        checkpointer: Saver | str | bool | None = None,
        *,
        interrupt_before: Names | None = None,
        interrupt_after: Names | None = None,
        interrupt_before_route: Names | None = None,
        debug: bool = False,
        name: str | None = None,
        durability: Durability = "sync",
        cache: Cache | str | None = None,
        listeners: Sequence[Listener | Callable[[Event], Any]] = (),
        on_listener_error: OnListenerError = "warn",
        schedule: Literal["superstep", "dataflow"] = "superstep",
        store: Store | str | None = None,
        on_finish: OnFinish = "keep",
    ) -> None:
        """See `StateGraph.compile`."""
        pauses = Wanted(interrupt_before, interrupt_after, interrupt_before_route)
        validate(builder, pauses)
        self.builder = builder
        self.name = name or "graph"
        self.durability: Durability = chosen("durability", durability)
        self.listeners = read_listeners(listeners)
        self.on_listener_error: OnListenerError = read_on_error(on_listener_error)
        self.on_finish: OnFinish = chosen("on_finish", on_finish)
        self.checkpointer, self._owns_saver = _open(checkpointer)
        if on_finish != "keep" and self.checkpointer is None:
            raise GraphBuildError(
                f"on_finish={on_finish!r} needs a saver: a graph without one keeps no threads. Give compile(checkpointer=…) "
                "one, or leave on_finish out"
            )
        self.cache, self._owns_cache = opened_cache(cache)
        if pauses and builder.strict and checkpointer is False:
            raise GraphBuildError(
                "a graph that keeps nothing (checkpointer=False) can't be paused: remove interrupt_…"
            )
        self.tables: Tables = assemble(
            builder,
            self.name,
            checkpointer=checkpointer,
            pauses=pauses,
            debug=debug,
            dataflow=chosen("schedule", schedule) == "dataflow",
        )
        self.store, self._owns_store = _open_store(store)
        self.tables.store = self.store
        self.tables.cache = self.cache
        self.context_schema = builder.context_schema
        self.input: Schema = builder.schema(builder.input_schema)
        self.output: Schema = builder.schema(builder.output_schema)
        self.tables.entry.updates_of = self._input_updates
        self.loops = Loops()
        self.runs: dict[Driver, str] = {}
        """What runs now, with the id of its run."""
        self.codec = _codec(builder, self.tables)
        self.outline = _checked(self, pauses.nodes())

    def _input_updates(self, given: Any, before: Any) -> Mapping[str, Any] | None:
        """An input that is an object of one of the graph's types, as an update."""
        if isinstance(given, OverAllState):
            check_input(given, self.tables)
            return given
        for schema in (self.input, *self.builder.schemas.values()):
            update = schema.updates_of(given, before)
            if update is not None:
                return update
        return None

    def __repr__(self) -> str:
        return f"<CompiledGraph {self.name!r}: {', '.join(self.tables.nodes)}>"

    def check(self) -> Report:
        """What is wrong with the graph as it was compiled, or may be; see `StateGraph.check`."""
        from juncture.graph.check import every_finding

        return every_finding(self.outline)

    def as_action(self) -> Any:
        """What stands for it where it is a node of another graph: itself, or a function that calls it."""
        return self

    # ---- running

    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        output_keys: str,
        stream_mode: None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Any: ...
    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        output_keys: Sequence[str] | None = None,
        stream_mode: None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> RunResult[OutputT]: ...
    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        output_keys: str | Sequence[str] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode],
        **options: Unpack[RunOptions[ContextT]],
    ) -> list[Any]: ...
    def invoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        output_keys: str | Sequence[str] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Any:
        """Runs the graph to its end or its next pause.

        Works inside a running event loop as well (it blocks that loop; `ainvoke` doesn't).

        Args:
            input: The input; None to go on with a paused or failed thread; a `Command` to resume one.
            config: ``{"configurable": {"thread_id": …}, "recursion_limit": n, "max_concurrency": n, …}``. With a
                ``checkpoint_id`` under ``configurable``, the thread goes back to that checkpoint first.
            output_keys: Restricts the result to these keys; of one key alone, its value is returned.
            stream_mode: If given, the list of that mode's items is returned instead of the result.
            options: `RunOptions`: ``context``, ``thread_id``, ``interrupt_before``, ``interrupt_after``,
                ``durability``, ``on_busy``, ``on_finish``, ``listeners``.

        Returns:
            A `RunResult`: the output keys as a dict, with `status`, `interrupts`, `steps` and more as attributes.

        Raises:
            ConfigError: The call can't be made. Nothing was run.
            ThreadBusyError: Another run has the thread. Nothing was run.
            GraphRecursionError: The limit of supersteps was reached.
            Exception: What a node raised, itself, with a note that says where (see `juncture.failure`). The state is
                that before the failed step.
        """
        call = Call(self, input, config, output_keys=output_keys, **options)
        if stream_mode is not None:
            return list(self._stream(call, Shape(stream_mode, subgraphs=False, version="v1")))
        return call.run()

    @overload
    async def ainvoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        output_keys: str,
        stream_mode: None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Any: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        output_keys: Sequence[str] | None = None,
        stream_mode: None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> RunResult[OutputT]: ...
    @overload
    async def ainvoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        output_keys: str | Sequence[str] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode],
        **options: Unpack[RunOptions[ContextT]],
    ) -> list[Any]: ...
    async def ainvoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        output_keys: str | Sequence[str] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Any:
        """Runs the graph without blocking the event loop; otherwise as `invoke`.

        Cancelling it cancels everything under it; what was committed and saved stays.
        """
        call = Call(self, input, config, output_keys=output_keys, **options)
        if stream_mode is not None:
            shape = Shape(stream_mode, subgraphs=False, version="v1")
            return [item async for item in self._astream(call, shape)]
        return await call.arun()

    def stream(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: Version = "v1",
        output_keys: str | Sequence[str] | None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Generator[Any, None, None]:
        """Runs the graph and gives what happens as it happens.

        Args:
            input: As for `invoke`, like everything that isn't named here.
            config: As for `invoke`.
            stream_mode: A mode, or a list of modes.
            subgraphs: Give what happens in nested graphs as well.
            version: ``"v1"``: LangGraph's shapes: the data; with a list of modes ``(mode, data)``; with `subgraphs`
                the namespace in front. ``"parts"``: `StreamPart` objects.
            output_keys: Restricts ``values`` and ``updates`` to these keys.
            options: As for `invoke`.

        Closing the iterator early stops the run; a thread's committed steps stay.

        Raises:
            Exception: As `invoke`, from the iteration.
        """
        call = Call(self, input, config, output_keys=output_keys, **options)
        return self._stream(call, Shape(stream_mode, subgraphs=subgraphs, version=version))

    async def astream(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        subgraphs: bool = False,
        version: Version = "v1",
        output_keys: str | Sequence[str] | None = None,
        **options: Unpack[RunOptions[ContextT]],
    ) -> AsyncGenerator[Any, None]:
        """Runs the graph and gives what happens as it happens, without blocking the event loop; as `stream`."""
        call = Call(self, input, config, output_keys=output_keys, **options)
        async with aclosing(
            self._astream(call, Shape(stream_mode, subgraphs=subgraphs, version=version))
        ) as items:
            async for item in items:
                yield item

    def _stream(self, call: Call, shape: Shape) -> Generator[Any, None, None]:
        if call.inside:
            performed(enter(call))
        driver = call.sync_driver(shape.modes, subgraphs=shape.subgraphs)
        shaped = shaper(shape)
        try:
            with closing(driver.drive()) as parts:
                for part in parts:
                    yield shaped(part)
        except BaseException as error:
            call.failed(error, driver)
            raise
        call.completed(driver)
        call.ended(driver)

    async def _astream(self, call: Call, shape: Shape) -> AsyncGenerator[Any, None]:
        if call.inside:
            await aperformed(enter(call))
        driver = call.async_driver(shape.modes, subgraphs=shape.subgraphs)
        shaped = shaper(shape)
        try:
            async with aclosing(driver.drive()) as parts:
                async for part in parts:
                    yield shaped(part)
        except BaseException as error:
            await call.afailed(error, driver)
            raise
        await call.acompleted(driver)
        call.ended(driver)

    def batch(
        self,
        inputs: Sequence[InputT | Command[Any] | Mapping[str, Any] | None],
        config: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Runs the graph once for every input, side by side in threads; the results in the order of the inputs.

        Args:
            inputs: The inputs.
            config: One for all, or a list with one for each. ``max_concurrency`` bounds how many run at once.
            return_exceptions: Give an exception in place of its result instead of raising the first.
            options: As for `invoke`.
        """
        from concurrent.futures import ThreadPoolExecutor
        from contextvars import copy_context

        configs = _configs(config, len(inputs))
        if not inputs:
            return []

        def one(given: Any, of: Mapping[str, Any] | None) -> Any:
            try:
                return self.invoke(given, of, **options)
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        with ThreadPoolExecutor(_width(configs) or min(32, len(inputs))) as pool:
            futures = [
                pool.submit(copy_context().run, one, given, of)
                for given, of in zip(inputs, configs, strict=True)
            ]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    async def abatch(
        self,
        inputs: Sequence[InputT | Command[Any] | Mapping[str, Any] | None],
        config: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Runs the graph once for every input, side by side on the event loop; otherwise as `batch`."""
        import asyncio

        configs = _configs(config, len(inputs))
        width = _width(configs)
        turn = asyncio.Semaphore(width) if width else None

        async def one(given: Any, of: Mapping[str, Any] | None) -> Any:
            if turn is None:
                return await self.ainvoke(given, of, **options)
            async with turn:
                return await self.ainvoke(given, of, **options)

        runs = [asyncio.ensure_future(one(given, of)) for given, of in zip(inputs, configs, strict=True)]
        try:
            return list(await asyncio.gather(*runs, return_exceptions=return_exceptions))
        finally:
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    def get_subgraphs(
        self, *, recurse: bool = False
    ) -> Iterator[tuple[str, CompiledGraph[Any, Any, Any, Any]]]:
        """The nested graphs that are its nodes, by name; with ``recurse`` also theirs, by names joined with ``|``."""
        return subgraphs_of(self, recurse=recurse)

    def cancel(self, run_id: str, reason: str = "cancelled from outside") -> bool:
        """Cancels a run of this graph in this process, from any thread, as `RunControl.cancel` does.

        Args:
            run_id: ``config["run_id"]`` of its call, or what `Runtime.execution_info` says inside.
            reason: Is said by what the run raises.

        Returns:
            Whether there was such a run. It may still end in its own way, if it was about to.
        """
        found = [driver for driver, of in list(self.runs.items()) if of == run_id]
        for driver in found:
            driver.cancel_run(reason)
        return bool(found)

    # ---- what it owns

    def close(self) -> None:
        """Stops the event loops that it started, and closes the saver and the store that it opened from URLs."""
        self.loops.close()
        if self._owns_store and self.store is not None:
            self.store.close()
        if self._owns_saver and self.checkpointer is not None:
            self.checkpointer.close()
        if self._owns_cache and self.cache is not None:
            self.cache.close()

    # ---- the cache

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Drops the kept results of these nodes, or of all nodes of this graph.

        Raises:
            ConfigError: The graph has no cache, or no such node. Nothing was dropped.
        """
        cache, spaces = self._cleared(nodes)
        cache.clear(spaces)

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """As `clear_cache`."""
        cache, spaces = self._cleared(nodes)
        await cache.aclear(spaces)

    def _cleared(self, nodes: Sequence[str] | None) -> tuple[Cache, list[str]]:
        if self.cache is None:
            raise ConfigError(
                'the graph has no cache: compile it with one, for example compile(cache="memory:")'
            )
        return self.cache, cache_spaces(self.name, self.tables, nodes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked(graph: CompiledGraph[Any, Any, Any, Any], pauses: set[str]) -> Outline:
    """The graph's shape, for `check`, after the warnings that it is worth."""
    from juncture.graph.check import warn_of
    from juncture.graph.outline import outline

    shape = outline(graph.builder, graph.tables, pauses=pauses)
    if graph.builder.strict:
        warn_of(shape, graph.name)
    return shape


def _codec(builder: StateGraph[Any, Any, Any, Any], tables: Tables) -> Codec:
    """What may be stored of this graph's state: builtins, and the classes in its schemas and its nested graphs'."""
    registry = Registry(DEFAULT, learn=not builder.strict)
    for schema in builder.schemas.values():
        if schema.type is not None:
            registry.register_annotation(schema.type)
    for node in builder.nodes.values():
        if isinstance(node.action, CompiledGraph):
            registry.include(cast("CompiledGraph[Any, Any, Any, Any]", node.action).codec.registry)
    if builder.context_schema is not None:
        registry.register_annotation(builder.context_schema)  # cached results are told apart by the context
    return Codec(registry)


def _open(checkpointer: Saver | str | bool | None) -> tuple[Saver | None, bool]:
    from juncture.savers.base import Saver

    if checkpointer is None or isinstance(checkpointer, bool):
        return None, False
    if isinstance(checkpointer, str):
        from juncture.savers import open_saver

        return open_saver(checkpointer), True
    if isinstance(checkpointer, Saver):
        return checkpointer, False
    raise GraphBuildError(
        f'Invalid checkpointer provided: {checkpointer!r}. Give a saver, the URL of one ("memory:"), None, or False'
    )


def _open_store(store: Store | str | None) -> tuple[Store | None, bool]:
    if store is None:
        return None, False
    from juncture.store import Store, open_store

    if isinstance(store, str):
        return open_store(store), True
    if isinstance(store, Store):
        return store, False
    raise GraphBuildError(
        f'store is a juncture.store.Store, the URL of one ("sqlite:memory.db"), or None, not {store!r}'
    )


def _configs(
    config: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, count: int
) -> list[Mapping[str, Any] | None]:
    if config is None or isinstance(config, Mapping):
        return [config] * count
    if len(config) != count:
        raise ConfigError(
            f"{count} inputs and {len(config)} configs: give one config for all, or one for each"
        )
    return list(config)


def _width(configs: Sequence[Mapping[str, Any] | None]) -> int | None:
    from juncture.graph.config import read_config

    return read_config(configs[0], None).max_concurrency if configs else None


__all__ = ["CompiledGraph"]
