"""The async driver: waits by awaiting.

A lone async node is awaited inside the run's own asyncio task, in a copied context, unless somebody consumes parts that it
can send while it runs; what runs beside something else is an asyncio task of its own. Sync nodes run on workers, except
those declared ``inline=True``, which run on the loop's thread like every router. Only one asyncio task steps programs at a
time: the caller's, or, while a body awaited in it waits for its calls, the pump's (`_pump`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from inspect import CORO_CREATED, getcoroutinestate
from threading import Event as Flag
from threading import get_ident
from typing import Any, cast

from juncture.drivers.abandon import abandon_all
from juncture.drivers.arrivals import AsyncArrivals
from juncture.drivers.attempt import body, body_async, generate, route_async
from juncture.drivers.awaiting import in_context, is_by_group
from juncture.drivers.base import BUFFERED_PARTS
from juncture.drivers.calls import CallFuture
from juncture.drivers.context import TaskContext
from juncture.drivers.deadline import Deadline
from juncture.drivers.finishing import Finishing
from juncture.drivers.place import locate
from juncture.drivers.run import Part, Program, Shared
from juncture.engine.begin import Request
from juncture.engine.effects import (
    Called,
    Done,
    Emit,
    Event,
    Failed,
    Load,
    Outcome,
    Proceed,
    Run,
    Save,
    SaveWrites,
    Start,
    Stopped,
    Tell,
    Wait,
)
from juncture.engine.state import Saved
from juncture.engine.tables import ASYNC, ASYNC_GENERATOR, ENTRY, FACTORY, GENERATOR, GRAPH, SYNC, Tables
from juncture.engine.task import Task
from juncture.errors import Cancelled, ConfigError
from juncture.persistence.threads import ThreadLog
from juncture.types import TimeoutPolicy


class AsyncDriver(AsyncArrivals):
    """Drives one call of a graph on the running event loop."""

    def __init__(
        self,
        shared: Shared,
        tables: Tables,
        request: Request,
        log: ThreadLog | None,
        outer: TaskContext | None,
    ) -> None:
        """Must be made on the event loop that drives it."""
        super().__init__(shared, tables, request, log, outer)
        self._own = asyncio.current_task()
        self._cancelled_before = self._own.cancelling() if self._own is not None else 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumping: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._worker_room = Flag()
        self._waiting_for_room = False
        self._deadline: Deadline | None = None
        self._abandons = False
        """The run was cancelled: running sync nodes aren't waited for."""
        self._cancelled_itself = False
        """It cancelled the asyncio task that it runs in, which is its caller's."""

    # ---- driving

    async def drive(self) -> AsyncGenerator[Part, None]:
        """Runs to the end, giving every part as it comes. `ending` is set afterwards.

        Closing it early, or cancelling it, stops the run: async nodes are cancelled, running sync nodes are waited for.
        """
        parts = self.parts
        with self.lending():
            async with Finishing(self.owned):
                try:
                    self.known_outside(runs=True)
                    while self.ending is None:
                        await self._step()
                        while parts:
                            yield parts.popleft()
                        if self._waiting_for_room:
                            self._waiting_for_room = False
                            self._room.set()
                            self._worker_room.set()
                except asyncio.CancelledError:
                    self._cancelled()
                    raise
                finally:
                    await self._end()

    async def run(self) -> None:
        """Runs to the end where nobody consumes parts."""
        with self.lending():
            async with Finishing(self.owned):
                try:
                    self.known_outside(runs=True)
                    while self.ending is None:
                        await self._step()
                except asyncio.CancelledError:
                    self._cancelled()
                    raise
                finally:
                    await self._end()

    async def _step(self) -> None:
        """Lets programs go on until they wait or something is to be shown, or waits for what lets one go on."""
        if self.halted:
            raise self.stopped_error()
        if self.ready:
            await self._advance(*self.ready.popleft())
        elif self.due:
            self.begin_due()
        else:
            told = await self.listen()
            if told is None:
                return
            if self.parts:  # they come before whatever the event leads to, be it an exception
                self.ready.append(told)
            else:
                await self._advance(*told)

    async def _advance(self, program: Program, reply: Any) -> None:  # noqa: C901, PLR0915 - one arm for every effect
        """Runs a program until it waits, ends, or has something to show."""
        send = program.gen.send
        while True:
            try:
                effect = send(reply)
            except StopIteration as end:
                await self._program_ended(program, end.value)
                return
            except Exception as error:
                locate(error, self.shared, program.namespace, program.loop)
                raise
            reply = None
            kind = type(effect)  # pyright: ignore[reportUnknownVariableType] - a program is a generator of Any
            if kind is Run:
                task = effect.task
                if task.node.kind == FACTORY and (reply := self.prepare(program, task)) is not None:
                    continue
                if self._runs_here(program, task) and self.alone and self.has_slot(program, task):
                    try:
                        reply = await self._attempt_here(program, task)
                    finally:
                        if self.holding:
                            self.free_slot(task)
                    continue
                program.active += 1
                if (program, task) not in self.held:
                    self.due.append((program, task))
                return
            if kind is Emit:
                self.show(program, effect)
                self.ready.appendleft((program, None))
                return
            if kind is Wait:
                told = self._told_at_once()
                if told is None:
                    return
                program, reply = told
                send = program.gen.send
            elif kind is Start:
                program.active += 1
                if effect.delay > 0:
                    self.timers.delay(program, effect.task, effect.delay)
                else:
                    self.due.append((program, effect.task))
            elif kind is Save:
                log = program.log
                if log is not None and not log.blocking:
                    reply = self.save(program, log, effect)
                else:
                    reply = await self._save(program, effect)
            elif kind is Tell:
                waiting = self.telling(program, effect)
                if waiting is not None:
                    await waiting
            elif kind is SaveWrites or kind is Load:
                reply = await self._ask_log(program, effect)
            elif kind is Proceed:
                reply = self.shared.meter.why_not()
            else:
                self.attend(program, effect)

    async def _save(self, program: Program, effect: Save) -> str | None:
        log = program.log
        if log is None:
            return None
        try:
            return await log.asave(program.namespace, effect.state, effect.source)
        except BaseException as error:  # noqa: BLE001 - raised again, once the program has heard of it
            self.not_saved(program, error)

    async def _ask_log(self, program: Program, effect: SaveWrites | Load) -> Saved | None:
        log, head = program.log, program.loop.head
        assert log is not None
        if isinstance(effect, Load):
            return await log.aload(program.namespace, effect.checkpoint_id)
        assert head is not None
        await log.asave_records(program.namespace, head, effect.records, now=effect.now)
        return None

    def _told_at_once(self) -> tuple[Program, Any] | None:
        """Who can go on without waiting, and with what; None if nobody, or if something is to be shown first."""
        self.begin_due()
        if self.parts or self.held or self.inside:
            return None
        return self.ready.popleft() if self.ready else self.told()

    async def _program_ended(self, program: Program, ending: Any) -> None:
        parent, task = program.parent, program.task
        if parent is None or task is None:
            self.ending = ending
            return
        outcome: Outcome = ending
        if task.node.routers and type(outcome) is Done:
            context = copy_context()
            outcome = await in_context(context, route_async(parent, outcome))
        told = self.heard(parent, outcome)
        if told is not None:
            self.ready.appendleft(told)

    # ---- tasks

    def _runs_here(self, program: Program, task: Task) -> bool:
        node = task.node
        if node.kind == ENTRY:
            return True
        return not program.beside if node.kind == ASYNC else node.kind == SYNC and node.inline

    async def _attempt_here(self, program: Program, task: Task) -> Event:
        """A lone task, in the run's own asyncio task."""
        context = copy_context()
        self.inside += 1
        policy = task.limits or task.node.timeout
        deadline = None if policy is None else self._measured(program, task, policy)
        outcome: Event
        try:
            if task.node.kind == ASYNC:
                outcome = await in_context(context, body_async(program, task), self._note_cancel)
            else:
                outcome = context.run(body, program, task)
            if task.node.routers and type(outcome) is Done:
                outcome = await in_context(context, route_async(program, outcome))
        except asyncio.CancelledError:
            if deadline is None or not deadline.expired:
                raise
            outcome = Stopped(task)
        finally:
            self.inside -= 1
            if deadline is not None:
                deadline.end()
        if deadline is not None:
            outcome = deadline.outcome(outcome)
        if self._pumping is not None:
            await self._end_pump()
        if self.fatal is not None:
            raise self.fatal
        if self._own is not None and self._own.cancelling() > self._cancelled_before:
            raise asyncio.CancelledError  # the node ended in its own way; the run is cancelled all the same
        return outcome

    def _measured(self, program: Program, task: Task, policy: TimeoutPolicy) -> Deadline:
        if self._deadline is None:
            self._deadline = Deadline(self, self.event_loop)
        self._deadline.begin(program, task, policy)
        return self._deadline

    def begin(self, program: Program, task: Task) -> None:
        """Begins a task beside others."""
        if task.node.kind == GRAPH:
            self.measure(program, task)
            self.begin_graph(program, task)
            return
        if not self.has_slot(program, task):
            return
        if program.live is None:
            program.live = {}
        self.active += 1
        self.measure(program, task)
        if self.on_worker(task):
            program.live[task] = False
            context = copy_context()
            self.pool.submit(lambda: self._work(program, task, context))
        else:
            program.live[task] = self.event_loop.create_task(self._own_task(program, task))

    async def _own_task(self, program: Program, task: Task) -> None:
        """One task, as an asyncio task of its own, which copied the context."""
        try:
            kind = task.node.kind
            if kind in (ASYNC, ASYNC_GENERATOR):
                outcome = await body_async(program, task)
            elif kind == GENERATOR:
                outcome = await self._generate_on_loop(program, task, copy_context())
            else:
                outcome = body(program, task)
            outcome = await self._routed(program, outcome)
        except asyncio.CancelledError:
            outcome = Stopped(task)
        except BaseException as error:  # noqa: BLE001 - raised by the loop as it is
            outcome = Failed(task, error)
        if task.limit is not None:
            task.limit.end()
        self.post((program, outcome))

    async def _routed(self, program: Program, outcome: Outcome) -> Outcome:
        if outcome.task.node.routers and type(outcome) is Done:
            return await route_async(program, outcome)
        return outcome

    async def _generate_on_loop(self, program: Program, task: Task, context: Context) -> Outcome:
        pieces = generate(program, task, context, routes=False)
        while True:
            try:
                emit = next(pieces)
            except StopIteration as end:
                return end.value
            if emit is not None:
                self.show(program, emit)
                self.wake_up()
                await self.wait_for_room()

    def _work(self, program: Program, task: Task, context: Context) -> None:
        """One sync task's body, on a worker; its routers run on the loop's thread."""
        if self.stops(program, task):
            self.post((program, Stopped(task)))
            return
        outcome: Outcome
        limit = task.limit
        if limit is not None:
            limit.begin()
        try:
            if task.node.kind == GENERATOR:
                outcome = self.exhaust(program, task, context, routes=False)
            else:
                outcome = context.run(body, program, task)
        except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt and SystemExit end the run, not the worker
            outcome = Failed(task, error)
        if task.node.routers and type(outcome) is Done and not self.stops(program, task):
            with suppress(
                RuntimeError
            ):  # the loop was closed under an abandoned worker: nobody listens any more
                self.event_loop.call_soon_threadsafe(self._begin_route, program, outcome, context)
            return
        if limit is not None:
            limit.end()
        self.post((program, outcome))

    def _begin_route(self, program: Program, outcome: Done, context: Context) -> None:
        async def routed() -> None:
            result: Outcome
            try:
                result = await route_async(program, outcome)
            except asyncio.CancelledError:
                result = Stopped(outcome.task)
            except BaseException as error:  # noqa: BLE001 - raised by the loop as it is
                result = Failed(outcome.task, error)
            self.post((program, result))

        running = self.event_loop.create_task(routed(), context=context)
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    # ---- the outside

    def on_worker(self, task: Task) -> bool:
        """Sync nodes do, but those declared ``inline=True``."""
        return task.node.kind in (SYNC, GENERATOR) and not task.node.inline

    def stop_task(self, program: Program, task: Task) -> None:
        """An async task is cancelled; a queued sync one won't begin; a running sync one is waited for."""
        live = program.live
        if live is None:
            return
        running = live.get(task)
        if isinstance(running, asyncio.Task):
            running.cancel()
            if getcoroutinestate(cast("Coroutine[Any, Any, None]", running.get_coro())) == CORO_CREATED:
                self.post((program, Stopped(task)))  # its code will never run, so it can't say that it ended
        elif running is False:
            live[task] = True
            self.halt_inner(task)

    def sender(self, program: Program, task: Task) -> Callable[[Part], None]:
        """On the loop's thread a part is in line at once; from elsewhere it goes through the inbox."""
        parts, thread = self.parts, self.thread

        def send(part: Part) -> None:
            if get_ident() != thread:
                self._put_part(program, task, part)
            else:
                parts.append(part)
                if self.waker is not None:
                    self.wake_up()

        return send

    def _put_part(self, program: Program, task: Task, part: Part) -> None:
        while len(self.inbox) + len(self.parts) >= BUFFERED_PARTS and not self.stops(program, task):
            self._worker_room.clear()
            self._waiting_for_room = True
            self._worker_room.wait(0.05)
        if self.stops(program, task):
            raise Cancelled("the run was stopped while this node was sending to its stream")
        self.post(part)

    async def wait_for_room(self) -> None:
        """Waits while the consumer is far behind."""
        while len(self.parts) + len(self.inbox) >= BUFFERED_PARTS and not self.stopping:
            self._room.clear()
            self._waiting_for_room = True
            await self._room.wait()

    def wait_for_coroutine(self, coroutine: Any) -> Any:
        """What it gives, for a worker; on the loop's own thread nothing could go on meanwhile."""
        if get_ident() == self.thread:
            coroutine.close()
            raise ConfigError(
                "an async stream that a sync node returned would block the event loop that it needs: declare the node with "
                "async def, or not inline=True"
            )
        running = asyncio.run_coroutine_threadsafe(coroutine, self.event_loop)
        with self.pool.waiting():
            return running.result()

    def _note_cancel(self, coroutine: Any) -> None:
        """A cancellation that a task group inside makes isn't one of the run."""
        if is_by_group(coroutine):
            self._cancelled_before += 1

    def is_cancelled(self) -> bool:
        """The run's own task may have been cancelled before, by somebody who caught that."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > (self._cancelled_before if task is self._own else 0)

    # ---- calls inside tasks

    def call(self, context: TaskContext, called: Called) -> CallFuture[Any]:
        """Begins a call. A body awaited in the run's own task has the pump take it to the engine."""
        program = context.program
        pumps = self.inside and self._pumping is None
        if pumps and get_ident() != self.thread:
            raise ConfigError(
                "a call from a thread that the node started itself; make it from the node's own code"
            )
        future = self.new_call(context, self._wait_for_call)
        called.reply = future
        self.post((program, called))
        if pumps:
            self._pumping = self.event_loop.create_task(self._pump())
        return future

    def check_may_block(self, what: str, instead: str) -> None:
        """Nothing may block the event loop."""
        if get_ident() == self.thread:
            raise ConfigError(
                f"{what} would block the event loop that it needs: await {instead} instead, or, in a sync node, don't declare "
                "it inline=True"
            )

    def _wait_for_call(self, future: CallFuture[Any]) -> None:
        self.check_may_block("result()", "the call")
        with self.pool.waiting():
            future.block()

    async def _pump(self) -> None:
        """Steps programs while a body awaited in the run's own task waits."""
        try:
            while self.inside:
                told = await self.listen(shows=False)
                if told is not None:
                    self.ready.append(told)
                while self.ready or self.due:
                    if self.ready:
                        await self._advance(*self.ready.popleft())
                    else:
                        self.begin_due()
        except Exception as error:  # noqa: BLE001 - raised once the body has ended
            self.give_up(error)

    async def _end_pump(self) -> None:
        """Takes the turn back from the pump once the body has ended."""
        pump, self._pumping = self._pumping, None
        if pump is None:
            return
        if not pump.done() and self.waker is not None:
            pump.cancel()  # it only waits for an arrival
        try:
            await pump
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise

    # ---- the end

    def cancel_run(self, reason: str) -> None:
        """Nothing new begins from now on; a body that is awaited in the run's own asyncio task is cancelled there."""
        self.halt(reason)
        if get_ident() == self.thread:
            self._cancel_here()
            return
        with suppress(RuntimeError):  # the loop was closed, so the run has ended long since
            self.event_loop.call_soon_threadsafe(self._cancel_here)

    def stopped_error(self) -> asyncio.CancelledError:
        """What the run raises where it was stopped from outside."""
        return asyncio.CancelledError(self.cancelled or "the run around this one was stopped")

    def _cancel_here(self) -> None:
        if self.inside and self._own is not None and not self.stopping:
            self._own.cancel(self.cancelled)
            self._cancelled_itself = True

    def _cancelled(self) -> None:
        """The run is cancelled: running sync nodes aren't waited for. If it was by itself, its caller's task isn't."""
        self._abandons = True
        if self._cancelled_itself and self._own is not None:
            self._own.uncancel()

    async def _end(self) -> None:
        self.known_outside(runs=False)
        await self._shut_down()

    async def _shut_down(self) -> None:
        """Stops and awaits everything that still runs."""
        self.stopping = True
        if self._deadline is not None:
            self._deadline.close()
        self._room.set()
        self._worker_room.set()
        root = self.root
        if self.ending is None and not root.closed:
            root.closed = True
            await self._end_pump_now()
            root.gen.close()
            self.ready.clear()
            self.cancel(root)
            self.end_calls()
            if self._abandons:
                abandon_all(self, root)
            while self.active or root.active:
                self.parts.clear()  # nobody will have them
                try:
                    await self.listen()
                except asyncio.CancelledError:
                    self._abandons = True
                    self.cancel(root)
                    abandon_all(self, root)
        if self.outer is None:
            self.pool.close()

    async def _end_pump_now(self) -> None:
        pump, self._pumping = self._pumping, None
        if pump is not None:
            pump.cancel()
            while not pump.done():
                try:
                    await asyncio.wait([pump])
                except asyncio.CancelledError:  # again: the first one goes on once everything has stopped
                    self._abandons = True


__all__ = ["AsyncDriver"]
