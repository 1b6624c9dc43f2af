"""One try of one task: the only place where user code is called.

A try has two phases. The body: the node's own code, from a fresh copy of its input to its checked writes. The route:
its routers, which see the state with those writes applied. Both end in an outcome, a value; nothing is raised but
what must stop the process (`KeyboardInterrupt`, `SystemExit`).

`body` and `body_async`, `route` and `route_async` are the same few lines for the two kinds of functions; what they do
before and after the call is shared. The caller runs them in a copy of the context, so that nothing that user code sets there leaks.
"""

from __future__ import annotations

import sys
import types
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Mapping
from contextlib import aclosing
from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from juncture.drivers.caching import memo_of
from juncture.drivers.context import CURRENT, TaskContext
from juncture.drivers.mutation import check_unchanged, described
from juncture.drivers.streams import Draining, chunk_part
from juncture.engine import streaming
from juncture.engine.chunks import Chunk, aggregated, streams_in
from juncture.engine.commit import view
from juncture.engine.effects import Done, Emit, Escaped, Failed, Outcome, Paused, Stopped
from juncture.engine.returns import Reader, Returned, followed_by, is_last, quick
from juncture.engine.routing import Routes, resolve
from juncture.engine.tables import ASYNC, ENTRY, Router
from juncture.engine.task import Task, input_of
from juncture.engine.values import admitted
from juncture.errors import (
    Cancelled,
    GraphDrained,
    InvalidUpdateError,
    NodeCancelledError,
    ParentCommand,
    Pause,
)
from juncture.types import Command, Interrupt

if TYPE_CHECKING:
    from juncture.drivers.run import Program


_NOTHING: tuple[None] = (None,)
"""What a generator node shows of a piece of which nothing shows: the driver has its turn all the same."""
_NEVER: dict[str, Any] = {}
"""Stands for what was handed out where nothing of the state was."""


class Try(TaskContext):
    """What a running body can ask of its run, and the two halves around the call of its code."""

    reader: Reader | None = None
    kwargs: Mapping[str, Any] = {}
    described: dict[str, Any] | None = None
    """In debug mode: what the committed values looked like."""

    def __init__(self, program: Program, task: Task) -> None:
        """Makes the input and what is injected. Raises what the input's schema raises."""
        self.program = program
        self.task = task
        CURRENT.set(self)
        if program.shared.observer is not None:
            program.shared.observer.enter(program.namespace, task.id)
        node = task.node
        if node.retry and task.first_time is None:
            self.first_time()
        self.given = given = input_of(task, program.loop.state.flat)
        if node.inject:
            self.kwargs = self.arguments(node.inject)
        if node.snapshot is not None and task.send < 0:
            self.reader = self.new_reader(node.snapshot(given, task.values))
        if program.tables.debug:
            self.described = described(task.values)

    def new_reader(self, before: Any = None) -> Reader:
        """What reads the results of this try; `before` is what a handed-out object held."""
        task = self.task
        # What was sent is new to the state, also if it comes back.
        handed = self.given if task.send < 0 else None
        return Reader(
            self.program.tables, task.node, handed, task.values, before, place_of(self.program, task)
        )

    def done(self, result: Any) -> Outcome | Draining:
        """The outcome of a body that returned; or, where it returned streams, what uses them up first."""
        if self.questions:
            return Paused(self.task, self.questions)
        task = self.task
        if self.early is not None:
            return Stopped(task, self.early)
        if self.described is not None:
            check_unchanged(task.node.name, self.described, task.values)
        if task.parent is not None:
            return Done.of_call(task, admitted(result))
        if self.reader is None:
            writes = quick(self.program.tables, result, self.given if task.send < 0 else _NEVER)
            if writes is not None:
                return Done(task, writes)
            self.reader = self.new_reader()
        if found := streams_in(result, root=task.node.root_value):
            return Draining(self.program, task, found)
        return self.outcome(self.reader.read(result))

    def streamed(self, result: Any, draining: Draining) -> Outcome:
        """The outcome of a body that returned streams, once they are used up."""
        outcome = self.done(draining.filled(result))
        assert not isinstance(outcome, Draining)
        if isinstance(outcome, Done) and draining.shows:
            outcome.chunked = draining.keys
        return outcome

    def outcome(self, got: Returned) -> Outcome:
        """The outcome of what was read."""
        program = self.program
        if program.tables.message_keys:
            program.shared.meter.find(program, self.task, program.tables.message_keys, got.writes)
        if got.escape is not None:
            return Escaped(self.task, got.escape)
        return Done.routed(self.task, got.writes, got.routes)

    def raised(self, error: BaseException) -> Outcome:
        """The outcome of a body that raised."""
        questions = self.questions
        if questions or isinstance(error, Pause):
            return Paused(self.task, questions)
        if isinstance(error, Cancelled):
            if self.program.driver.stops(self.program, self.task):
                return Stopped(self.task)
            return Failed(self.task, _own_cancellation(self.task, error))
        if isinstance(error, ParentCommand):
            return self._parent_command(error.command)
        if isinstance(error, GraphDrained) and error.why is not None:
            return Stopped(self.task, error.why)
        if is_cancellation(error):
            return Failed(self.task, _own_cancellation(self.task, error))
        if not isinstance(error, Exception):
            raise error
        return Failed(self.task, error)

    def _exempt_reader(self) -> Reader:
        reader = self.new_reader()
        reader.node = replace(self.task.node, routes=False)  # a command for the parent may stand beside edges
        return reader

    def _parent_command(self, command: Command[Any]) -> Outcome:
        """A graph that the body called left for the enclosing one, which is this: as if the node had returned it."""
        if command.graph not in (Command.PARENT, self.task.node.name):
            return Escaped(self.task, command)
        try:
            return self.outcome(self._exempt_reader().read(replace(command, graph=None)))
        except Exception as error:  # noqa: BLE001 - an outcome from here on
            return Failed(self.task, error)


def place_of(program: Program, task: Task) -> str:
    """What is unique for a task, and the same when it runs again after a restart."""
    shared = program.shared
    return "\x1f".join((program.loop.request.origin or shared.run_id, *program.namespace, task.id))


def body(program: Program, task: Task) -> Outcome:
    """The node's own code, for a sync function; the entry has none."""
    node = task.node
    if node.kind == ENTRY:
        CURRENT.set(TaskContext(program, task))
        return Done(task, list(task.argument or ()))
    try:
        this = Try(program, task)
    except Exception as error:  # noqa: BLE001 - an outcome from here on
        return Failed(task, error)
    try:
        memo = None if node.cache is None else memo_of(this)
        if memo is not None and (known := memo.recall()) is not None:
            return known
        call = node.call or program.code(node)
        result = call(this.given, **this.kwargs) if this.kwargs else call(this.given)
        if type(result) is types.CoroutineType:
            result.close()
            raise InvalidUpdateError(  # noqa: TRY301 - a failure of the node, like what its code raises
                f"node {node.name!r} is a sync function that returned a coroutine; declare it with async def",
                node=node.name,
            )
        outcome = this.done(result)
        if isinstance(outcome, Draining):
            outcome.drain()
            outcome = this.streamed(result, outcome)
        elif memo is not None:
            memo.keep(outcome, result)
        return outcome  # noqa: TRY300 - what it raises is an outcome as well
    except BaseException as error:  # noqa: BLE001 - an outcome from here on; what stops the process is raised again
        return this.raised(error)
    finally:
        this.ended = True


def attempt(program: Program, task: Task, context: Context) -> Outcome:
    """One try of a task whose code is a sync function, with its routes, in its own context."""
    outcome = context.run(body, program, task)
    if task.node.routers and type(outcome) is Done:
        return context.run(route, program, outcome)
    return outcome


async def body_async(program: Program, task: Task) -> Outcome:
    """The node's own code, for an async function or an async generator."""
    node = task.node
    try:
        this = Try(program, task)
    except Exception as error:  # noqa: BLE001 - an outcome from here on
        return Failed(task, error)
    try:
        memo = None if node.cache is None else memo_of(this)
        if memo is not None and (known := await memo.recall_async()) is not None:
            return known
        call = program.code(node)
        if node.kind == ASYNC:
            result = await (call(this.given, **this.kwargs) if this.kwargs else call(this.given))
            outcome = this.done(result)
            if isinstance(outcome, Draining):
                await outcome.drain_async()
                outcome = this.streamed(result, outcome)
            elif memo is not None:
                await memo.keep_async(outcome, result)
            return outcome
        return await _pieces_async(this, call(this.given, **this.kwargs))
    except BaseException as error:
        if is_cancellation(error) and program.driver.is_cancelled():
            raise
        return this.raised(error)
    finally:
        this.ended = True


async def _pieces_async(this: Try, source: AsyncGenerator[Any, None]) -> Outcome:
    """What an async generator comes to; each of its pieces is shown as it comes."""
    program, task = this.program, this.task
    pieces = _Pieces(this)
    async with aclosing(source):
        async for piece in source:
            if task.limit is not None:
                task.limit.did()
            for emit in pieces.add(piece):
                program.send_part(emit, task)
            await program.wait_for_room()
    return pieces.outcome()


def is_cancellation(error: BaseException) -> bool:
    """Whether it is the event loop's cancellation; without importing asyncio where nobody did."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def _own_cancellation(task: Task, error: BaseException) -> NodeCancelledError:
    failure = NodeCancelledError(
        f"node {task.node.name!r} raised {type(error).__name__} though nobody cancelled it; "
        "if something it awaits was cancelled on purpose, catch that in the node",
        node=task.node.name,
    )
    failure.__cause__ = error
    return failure


class _Pieces:
    """The pieces of an update that a generator node yields."""

    __slots__ = ("_chunks", "_count", "_got", "_reader", "_this")

    def __init__(self, this: Try) -> None:
        self._this = this
        self._got = Returned()
        self._reader = this.reader or this.new_reader()
        self._count = 0
        self._chunks: dict[str, list[Any]] = {}

    def add(self, piece: Any) -> list[Emit]:
        """Takes up one piece; what to show of it, if somebody looks."""
        shown: list[Emit] = []
        if isinstance(piece, Mapping) and any(isinstance(value, Chunk) for value in piece.values()):  # pyright: ignore[reportUnknownVariableType] - a piece may be anything
            piece = self._without_chunks(cast("Mapping[str, Any]", piece), shown)
            if not piece:
                return shown
        before = len(self._got.writes)
        self._reader.add(piece, self._got)
        self._count += 1
        task, request = self._this.task, self._this.program.loop.request
        if request.shows_updates:
            data = streaming.updates_payload(self._got.writes[before:], request.update_keys)
            shown.append(Emit("updates", {task.node.name: data}, task.step, task.node.name, task.place))
        return shown

    def _without_chunks(self, piece: Mapping[str, Any], shown: list[Emit]) -> dict[str, Any]:
        """The rest of a piece, once its chunks are taken up and in line to be shown."""
        this = self._this
        for name, given in piece.items():
            chunk = cast("Chunk[Any]", given).value if isinstance(given, Chunk) else None
            if chunk is not None:
                self._chunks.setdefault(name, []).append(chunk)
                if this.program.consumes("messages"):
                    shown.append(chunk_part(this.program.loop.request, this.task, name, chunk))
        return {name: value for name, value in piece.items() if not isinstance(value, Chunk)}

    def outcome(self, result: Any = None) -> Outcome:
        """The outcome once the generator is exhausted; what it returned is one more piece."""
        this, got = self._this, self._got
        if this.described is not None:
            check_unchanged(this.task.node.name, this.described, this.task.values)
        if this.questions:
            return Paused(this.task, this.questions)
        if this.early is not None:
            return Stopped(this.task, this.early)
        if result is not None:
            self._reader.add(result, got)
        before = len(got.writes)
        if self._chunks:
            self._reader.add({name: aggregated(chunks) for name, chunks in self._chunks.items()}, got)
        late = got.writes[before:]
        self._reader.check_routes(got)
        last: dict[str, int] = {}
        for index, (name, _) in enumerate(got.writes):
            if is_last(this.program.tables, name):
                last[name] = index
        got.writes = [write for index, write in enumerate(got.writes) if last.get(write[0], index) == index]
        outcome = this.outcome(got)
        if isinstance(outcome, Done):
            outcome.streamed = self._count > 0
            if late:
                outcome.late = late if self._count else ()
                outcome.chunked = frozenset(self._chunks if this.program.consumes("messages") else ())
        return outcome


def generate(
    program: Program, task: Task, context: Context, *, routes: bool = True
) -> Generator[Emit | None, None, Outcome]:
    """One try of a generator node, with its routes: yields what to show of each piece. Runs its code in `context`."""
    try:
        this = context.run(Try, program, task)
    except Exception as error:  # noqa: BLE001 - an outcome from here on
        return Failed(task, error)
    source: Iterator[Any] | None = None
    try:
        pieces = _Pieces(this)
        source = cast("Iterator[Any]", context.run(program.code(task.node), this.given, **this.kwargs))
        while True:
            try:
                piece = context.run(next, source)
            except StopIteration as end:
                outcome = pieces.outcome(end.value)
                break
            yield from pieces.add(piece) or _NOTHING
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - an outcome from here on
        return this.raised(error)
    finally:
        this.ended = True
        if source is not None and hasattr(source, "close"):
            context.run(cast("Generator[Any, Any, Any]", source).close)
    if routes and task.node.routers and type(outcome) is Done:
        return context.run(route, program, outcome)
    return outcome


# ---- routes


class _Routing:
    """Applies what the routers of a node return to its outcome."""

    __slots__ = ("done", "escape", "given", "program", "targets", "values")

    def __init__(self, program: Program, done: Done) -> None:
        self.program = program
        self.done = done
        self.escape: Command[Any] | None = None
        self.given: Any = None
        self.values = done.task.values
        self.targets = list(done.targets)
        done.targets = self.targets

    def arguments(self, router: Router) -> tuple[Any, dict[str, Any]]:
        """What the router is called with: the state with its own node's writes applied, copied."""
        program, done, task = self.program, self.done, self.done.task
        context = CURRENT.get(None)
        if context is None or context.task is not task:
            context = TaskContext(program, task)
            CURRENT.set(context)
        context.ended = False
        values = task.values
        if done.writes:
            values, changes = view(
                program.tables, task.seen or program.loop.state, task.node.name, done.writes
            )
            done.changes = changes
        if router.managed:
            values = values | {name: what.value(task.remaining) for name, what in router.managed.items()}
        self.values = values
        self.given = given = router.project(values, program.loop.state.flat)
        return given, context.arguments(router.inject) if router.inject else {}

    def add(self, router: Router, chosen: Any) -> None:
        """Takes up what the router returned."""
        tables, done = self.program.tables, self.done
        if type(chosen) is str:  # the common case of what `resolve` does
            name = chosen if router.targets is None else router.targets.get(chosen)
            if name is not None and name in tables.nodes:
                self.targets.append(name)
                return
        if isinstance(chosen, Command):
            command = cast("Command[Any]", chosen)
            if command.graph is not None:
                self.escape = self.escape or command
                return
            if command.update is not None:
                self._update(command.update)
            chosen = command.goto
        routes = Routes(self.targets, list(done.sends), list(done.ignored))
        resolve(tables, done.task.node.name, chosen, router, routes)
        done.sends, done.ignored = routes.sends, routes.ignored

    def _update(self, update: Any) -> None:
        """Takes up what a router's command writes: it comes after what the node wrote."""
        program, done = self.program, self.done
        place = f"{place_of(program, done.task)}\x1froute"
        got = Returned()
        Reader(program.tables, done.task.node, self.given, self.values, None, place).add_update(update, got)
        done.writes = followed_by(program.tables, done.writes, got.writes)
        done.changes = None

    def ended(self) -> Outcome:
        """The outcome with its routes; a router may have asked a question."""
        questions = self.over()
        if questions:
            return Paused(self.done.task, questions)
        if self.escape is not None:
            return Escaped(self.done.task, self.escape, self.done.writes)
        return self.done

    def over(self) -> list[Interrupt]:
        """Ends what routers may ask of the run; what they asked."""
        context = CURRENT.get(None)
        if context is None or context.task is not self.done.task:
            return []
        context.ended = True
        return context.questions


def route(program: Program, done: Done) -> Outcome:
    """The outcome with what its node's routers chose; every router must be a sync function."""
    routing = _Routing(program, done)
    try:
        for router in done.task.node.routers:
            given, kwargs = routing.arguments(router)
            chosen = router.call(given, **kwargs) if kwargs else router.call(given)
            if type(chosen) is types.CoroutineType:
                chosen = program.driver.wait_for_coroutine(chosen)
            routing.add(router, chosen)
        return routing.ended()
    except BaseException as error:  # noqa: BLE001 - an outcome from here on
        return _route_raised(routing, error)


async def route_async(program: Program, done: Done) -> Outcome:
    """The same where routers may be async functions."""
    routing = _Routing(program, done)
    try:
        for router in done.task.node.routers:
            given, kwargs = routing.arguments(router)
            chosen = router.call(given, **kwargs) if kwargs else router.call(given)
            if isinstance(chosen, Coroutine):
                chosen = await cast("Coroutine[Any, Any, Any]", chosen)
            routing.add(router, chosen)
        return routing.ended()
    except BaseException as error:
        if is_cancellation(error) and program.driver.is_cancelled():
            raise
        return _route_raised(routing, error)


def _route_raised(routing: _Routing, error: BaseException) -> Outcome:
    questions = routing.over()
    if questions:
        return Paused(routing.done.task, questions)
    if is_cancellation(error):
        return Failed(routing.done.task, _own_cancellation(routing.done.task, error))
    if not isinstance(error, Exception):
        raise error
    return Failed(routing.done.task, error)
