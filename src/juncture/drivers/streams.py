"""Streams that a node returned as values: consumed while the node still counts as running, each chunk shown at once.

However many there are, each goes to its own key. Several sync streams take turns, chunk by chunk; several async ones run
side by side. Whatever ends one of them ends all, with the exception itself (right-behaviour 40); every one is closed.

An async stream that a sync node returned is consumed on an event loop, a sync stream that an async node returned on
threads of the loop's own, so that neither blocks what it must not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from juncture.drivers.run import part_of
from juncture.engine.chunks import Stream, aggregated, with_values
from juncture.engine.effects import Emit
from juncture.engine.streaming import message_metadata
from juncture.engine.task import Task
from juncture.engine.values import copied
from juncture.errors import Cancelled, EmptyStreamError, InvalidUpdateError

if TYPE_CHECKING:
    from juncture.drivers.run import Program
    from juncture.engine.begin import Request


def chunk_part(request: Request, task: Task, key: str, chunk: Any) -> Emit:
    """How one chunk shows; it counts as shown."""
    task.chunks += 1
    data = (copied(chunk), message_metadata(request, task, key))
    return Emit("messages", data, task.step, task.node.name, task.place)


class _Source:
    """One stream and the chunks that it gave."""

    __slots__ = ("chunks", "given", "iterator", "key", "stream")

    def __init__(self, node: str, key: str, given: Any) -> None:
        self.key = key
        self.given = given
        self.stream: Stream[Any] = cast("Stream[Any]", given) if isinstance(given, Stream) else Stream(given)
        self.chunks: list[Any] = []
        source = self.stream.source
        self.iterator: Iterator[Any] | AsyncIterator[Any]
        if isinstance(source, AsyncIterable):
            self.iterator = aiter(source)
        elif isinstance(source, Iterable):
            self.iterator = iter(source)
        else:
            raise InvalidUpdateError(
                f"node {node!r} returned a Stream of a {type(source).__name__} for key {key!r}, which can't be "
                "iterated over. Give it an iterator, an async iterator, or something that has one",
                node=node,
                key=key,
            )


class Draining:
    """Uses up the streams that one try returned."""

    def __init__(self, program: Program, task: Task, streams: list[tuple[str, Any]]) -> None:
        """Nothing is consumed before one of `drain` and `drain_async` runs.

        Raises:
            InvalidUpdateError: One of them can't be iterated over.
        """
        self.program = program
        self.task = task
        self.shows = program.consumes("messages")
        self.keys = frozenset(name for name, _ in streams)
        """The keys that they fill."""
        self._sources = [_Source(task.node.name, name, stream) for name, stream in streams]
        self._send = program.driver.sender(program, task) if self.shows else None

    def drain(self) -> None:
        """Consumes them all, from the thread of a sync body."""
        try:
            waiting = [(s, s.iterator) for s in self._sources if isinstance(s.iterator, Iterator)]
            while waiting:
                for source, iterator in list(waiting):
                    self._check()
                    try:
                        chunk = next(iterator)
                    except StopIteration:
                        waiting.remove((source, iterator))
                    else:
                        self._take(source, chunk)
            if rest := [source for source in self._sources if not isinstance(source.iterator, Iterator)]:
                self.program.driver.wait_for_coroutine(self._consume_all(rest))
        finally:
            self._close()

    async def drain_async(self) -> None:
        """Consumes them all, from an async body."""
        try:
            await self._consume_all(self._sources)
        finally:
            self._close()

    def filled(self, result: Any) -> Any:
        """What the body returned, with values in the places of the streams.

        Raises:
            EmptyStreamError: One of them gave nothing, and the node isn't declared to skip such.
        """
        node = self.task.node
        values: dict[int, Any] = {}
        for source in self._sources:
            if source.chunks:
                values[id(source.given)] = (source.stream.aggregate or aggregated)(source.chunks)
            elif not node.skips_empty:
                raise EmptyStreamError(
                    f"the stream that node {node.name!r} returned for key {source.key!r} ended without a chunk. If that "
                    f'may be, declare it: add_node({node.name!r}, …, on_empty_stream="skip") writes nothing then',
                    node=node.name,
                    key=source.key,
                )
        return with_values(result, values, root=node.root_value)

    def _check(self) -> None:
        if self.program.driver.stops(self.program, self.task):
            raise Cancelled(
                f"the run was stopped while a stream of node {self.task.node.name!r} was consumed"
            )

    def _take(self, source: _Source, chunk: Any) -> None:
        if isinstance(chunk, BaseException):
            raise chunk  # a source that hands out its failure as a value has failed
        if chunk is not None and source.stream.chunk is not None:
            chunk = source.stream.chunk(chunk)
        if chunk is None:
            return
        source.chunks.append(chunk)
        if self.task.limit is not None:
            self.task.limit.did()
        if self._send is not None:
            self._send(
                part_of(self.program, chunk_part(self.program.loop.request, self.task, source.key, chunk))
            )

    async def _consume_all(self, sources: list[_Source]) -> None:
        import asyncio

        if len(sources) == 1:
            await self._consume(sources[0])
            return
        running = [asyncio.ensure_future(self._consume(source)) for source in sources]
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            for one in running:
                if one.done():
                    one.result()
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _consume(self, source: _Source) -> None:
        import asyncio

        iterator = source.iterator
        if not isinstance(iterator, Iterator):
            try:
                async for chunk in iterator:
                    self._take(source, chunk)
                    await self.program.wait_for_room()
            finally:
                if isinstance(iterator, AsyncGenerator):
                    await cast("AsyncGenerator[Any, None]", iterator).aclose()
            return
        done = object()
        while (chunk := await asyncio.to_thread(partial(next, iterator, done))) is not done:
            self._take(source, chunk)
            await self.program.wait_for_room()

    def _close(self) -> None:
        for source in self._sources:
            if isinstance(source.iterator, Generator):
                cast("Generator[Any, Any, Any]", source.iterator).close()


__all__ = ["Draining", "chunk_part"]
