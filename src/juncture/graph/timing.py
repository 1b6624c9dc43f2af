"""Where a run's time goes: nodes, saver, engine. Only in runs that ask for it.

A run that is timed has the same engine and drivers, with tables whose functions and a log whose methods note when they
begin and end. So a run that isn't pays nothing, and what is timed is exactly the user's code: a node's function while it
runs or awaits, a generator from piece to piece, a stream that a node returned from chunk to chunk, a router.

Times are of the clock on the wall. What runs side by side counts once in `Timings.nodes`, and for each node in
`Timings.by_node`. The saver's time is what the run waited for it while no node ran.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from threading import Lock
from time import perf_counter
from typing import Any, cast

from juncture.engine.chunks import Stream, streams_in, with_values
from juncture.engine.state import Saved
from juncture.engine.tables import ASYNC, ASYNC_GENERATOR, FACTORY, GENERATOR, Node, Router, Tables
from juncture.persistence.threads import ThreadLog
from juncture.types import Timings

_NODE, _SAVER = 0, 1


class Span:
    """A stretch of time that is taken down; used once."""

    __slots__ = ("_begun", "_name", "_watch", "_what")

    def __init__(self, watch: Stopwatch, what: int, name: str = "") -> None:
        """Nothing has begun yet."""
        self._watch = watch
        self._what = what
        self._name = name
        self._begun = 0.0

    def __enter__(self) -> None:
        self._begun = self._watch.begin(self._what)

    def __exit__(self, *_: object) -> None:
        self._watch.end(self._what, self._name, self._begun)


class Stopwatch:
    """Adds up how long code of nodes and the saver take, on any worker, in a space that doesn't grow with the run."""

    def __init__(self) -> None:
        """The run begins."""
        self._lock = Lock()
        self._begun = self._last = perf_counter()
        self._open = [0, 0]
        """How many stretches of each kind go on."""
        self._spent = [0.0, 0.0]
        self._by_node: dict[str, float] = {}

    def node(self, name: str) -> Span:
        """Times code of a node, with `with`; without a name, only as part of all nodes."""
        return Span(self, _NODE, name)

    def saver(self) -> Span:
        """Times a call of the saver, with `with`."""
        return Span(self, _SAVER)

    def begin(self, what: int) -> float:
        """Begins a stretch; when that is."""
        with self._lock:
            now = self._pass()
            self._open[what] += 1
            return now

    def end(self, what: int, name: str, begun: float) -> None:
        """Ends a stretch that began at that time, of the node of that name."""
        with self._lock:
            now = self._pass()
            self._open[what] -= 1
            if name:
                self._by_node[name] = self._by_node.get(name, 0.0) + now - begun

    def _pass(self) -> float:
        """Counts the time since the last change to what went on meanwhile."""
        now = perf_counter()
        if self._open[_NODE]:
            self._spent[_NODE] += now - self._last
        elif self._open[_SAVER]:
            self._spent[_SAVER] += now - self._last
        self._last = now
        return now

    def log(self, *args: Any, **options: Any) -> TimedLog:
        """A log that is timed; takes what `ThreadLog` takes."""
        return TimedLog(self, *args, **options)

    def timings(self) -> Timings:
        """What was taken down so far."""
        with self._lock:
            total = self._pass() - self._begun
            nodes, saver = self._spent
            return Timings(total, nodes, saver, max(0.0, total - nodes - saver), dict(self._by_node))


def timed_tables(tables: Tables, watch: Stopwatch, prefix: str = "") -> Tables:
    """The tables with every function of the user's timed; nested graphs too, whose nodes are ``parent:child``."""
    return replace(
        tables,
        nodes={name: _timed_node(node, watch, prefix) for name, node in tables.nodes.items()},
        entry=_timed_node(tables.entry, watch, prefix),
    )


def _timed_node(node: Node, watch: Stopwatch, prefix: str) -> Node:
    name = prefix + node.name
    timed = replace(node, routers=tuple(_timed_router(router, watch) for router in node.routers))
    if node.fallback is not None:
        timed.fallback = _timed_node(node.fallback, watch, prefix)
    if node.graph is not None:
        timed.graph = timed_tables(node.graph, watch, f"{name}:")
    elif node.kind == FACTORY:
        prepare = node.prepare
        assert prepare is not None
        timed.prepare = lambda made: _timed_node(prepare(made), watch, prefix)
    elif node.call is not None:
        timed.call = _timed_call(node, name, watch)
    return timed


def _timed_router(router: Router, watch: Stopwatch) -> Router:
    return replace(router, call=_timed_function(router.call, "", watch, asynchronous=router.kind == ASYNC))


def _timed_call(node: Node, name: str, watch: Stopwatch) -> Callable[..., Any]:
    call = node.call
    assert call is not None
    if node.kind == GENERATOR:
        return lambda *args, **kwargs: _timed_pieces(call(*args, **kwargs), name, watch)
    if node.kind == ASYNC_GENERATOR:
        return lambda *args, **kwargs: _timed_pieces_async(call(*args, **kwargs), name, watch)
    return _timed_function(call, name, watch, asynchronous=node.kind == ASYNC, root=node.root_value)


def _timed_function(
    call: Callable[..., Any], name: str, watch: Stopwatch, *, asynchronous: bool, root: bool = False
) -> Callable[..., Any]:
    if asynchronous:

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with watch.node(name):
                result = await call(*args, **kwargs)
            return _timed_streams(result, name, watch, root=root)

        return awaited

    def called(*args: Any, **kwargs: Any) -> Any:
        with watch.node(name):
            result = call(*args, **kwargs)
        return _timed_streams(result, name, watch, root=root)

    return called


def _timed_streams(result: Any, name: str, watch: Stopwatch, *, root: bool) -> Any:
    """What a node returned, with the streams in it timed while they give their chunks."""
    found = streams_in(result, root=root)
    if not found:
        return result
    timed = {id(stream): _timed_stream(stream, name, watch) for _, stream in found}
    return with_values(result, timed, root=root)


def _timed_stream(stream: Any, name: str, watch: Stopwatch) -> Any:
    """A stream that is timed; what isn't one is left to be refused."""
    if isinstance(stream, Stream):
        marked = cast("Stream[Any]", stream)
        return replace(marked, source=_timed_stream(marked.source, name, watch))
    if hasattr(stream, "__aiter__"):
        return _timed_pieces_async(aiter(stream), name, watch)
    return _timed_pieces(iter(stream), name, watch) if hasattr(stream, "__iter__") else stream


def _timed_pieces(source: Iterator[Any], name: str, watch: Stopwatch) -> Iterator[Any]:
    try:
        while True:
            with watch.node(name):
                try:
                    piece = next(source)
                except StopIteration as end:
                    return end.value
            yield piece
    finally:
        close = getattr(source, "close", None)
        if close is not None:
            close()


async def _timed_pieces_async(source: AsyncIterator[Any], name: str, watch: Stopwatch) -> AsyncIterator[Any]:
    try:
        while True:
            with watch.node(name):
                try:
                    piece = await anext(source)
                except StopAsyncIteration:
                    return
            yield piece
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()


class TimedLog(ThreadLog):
    """A log that is timed. What is written in the background isn't, until the run waits for it."""

    def __init__(self, watch: Stopwatch, *args: Any, **options: Any) -> None:
        """Takes what `ThreadLog` takes."""
        super().__init__(*args, **options)
        self.watch = watch

    def load(self, *args: Any, **options: Any) -> Saved | None:
        """As `ThreadLog.load`."""
        with self.watch.saver():
            return super().load(*args, **options)

    async def aload(self, *args: Any, **options: Any) -> Saved | None:
        """As `load`."""
        with self.watch.saver():
            return await super().aload(*args, **options)

    def save(self, *args: Any, **options: Any) -> str:
        """As `ThreadLog.save`."""
        with self.watch.saver():
            return super().save(*args, **options)

    async def asave(self, *args: Any, **options: Any) -> str:
        """As `save`."""
        with self.watch.saver():
            return await super().asave(*args, **options)

    def save_records(self, *args: Any, **options: Any) -> None:
        """As `ThreadLog.save_records`."""
        with self.watch.saver():
            super().save_records(*args, **options)

    async def asave_records(self, *args: Any, **options: Any) -> None:
        """As `save_records`."""
        with self.watch.saver():
            await super().asave_records(*args, **options)

    def finish(self, *args: Any, **options: Any) -> None:
        """As `ThreadLog.finish`."""
        with self.watch.saver():
            super().finish(*args, **options)

    async def afinish(self, *args: Any, **options: Any) -> None:
        """As `finish`."""
        with self.watch.saver():
            await super().afinish(*args, **options)


__all__ = ["Stopwatch", "TimedLog", "timed_tables"]
