"""The sync driver: waits by blocking.

A lone sync task runs in the caller's thread. What runs beside something else, or has to be heard while it runs, runs on
a worker of the run's pool; async nodes run on a loop thread of the compiled graph. Only one thread steps programs at a
time: the caller's, or, while a body in the caller's thread waits for its calls, whichever thread waits for one (`_pump`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Condition
from threading import Event as Flag
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from juncture.drivers.abandon import abandon_all, is_forgotten
from juncture.drivers.attempt import attempt, body_async, generate, is_cancellation, route, route_async
from juncture.drivers.base import BUFFERED_PARTS, Driver
from juncture.drivers.calls import CallFuture
from juncture.drivers.finishing import Finishing
from juncture.drivers.loops import closed
from juncture.drivers.place import locate
from juncture.drivers.pool import Pool
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
from juncture.engine.limits import limits_of
from juncture.engine.state import Saved
from juncture.engine.tables import ASYNC, ASYNC_GENERATOR, ENTRY, FACTORY, GENERATOR, GRAPH, SYNC, Tables
from juncture.engine.task import Task
from juncture.errors import Cancelled
from juncture.persistence.threads import ThreadLog

if TYPE_CHECKING:
    from juncture.drivers.context import TaskContext
    from juncture.drivers.loops import Loops


def _stopped() -> Cancelled:
    return Cancelled(
        "the run was stopped while this node was sending to its stream, or waiting for what it had called"
    )


_NO_TURN: Any = None
_BLOCKING = frozenset((SYNC, ENTRY))
"""The kinds of nodes that run in the caller's thread, where nothing else could go on."""
_BURST = 0.0005
"""Seconds after which a worker lets the consumer have a part at once again."""


class SyncDriver(Driver):
    """Drives one call of a graph by blocking the caller's thread."""

    def __init__(
        self,
        shared: Shared,
        tables: Tables,
        request: Request,
        log: ThreadLog | None,
        outer: TaskContext | None,
        loops: Loops,
    ) -> None:
        """`loops` are the compiled graph's, for its async nodes."""
        super().__init__(shared, tables, request, log, outer)
        self._loops = loops
        self.pool = outer.program.driver.pool if outer is not None else Pool()
        self._inbox: SimpleQueue[tuple[Program, Event] | Part | None] = SimpleQueue()
        self._here: tuple[Program, Task, Generator[Emit | None, None, Outcome]] | None = None
        self._called = False
        self._cancelled: set[Task] = set()
        """The async tasks that were told to stop."""
        self._waits = False
        self._room: Flag | None = None
        """Set once a worker that waits to send a part may look again; made when the first one has to wait."""
        self._turn: Condition = _NO_TURN
        """Whose turn it is to step programs; made with the first call inside a task."""
        self._pumping = False

    # ---- driving

    def drive(self) -> Generator[Part, None, None]:
        """Runs to the end, giving every part as it comes. `ending` is set afterwards.

        Closing it early stops the run: running sync nodes are waited for, nothing outlives it.
        """
        parts = self.parts
        with self.lending(), Finishing(self.owned):
            try:
                self.known_around(runs=True)
                self.known_outside(runs=True)
                while self.ending is None:
                    if self.halted:
                        raise self.stopped_error()
                    self._step()
                    while parts:
                        yield parts.popleft()
            finally:
                self.known_outside(runs=False)
                self.known_around(runs=False)
                self._shut_down()

    def _step(self) -> None:
        """Lets programs go on until they wait or something is to be shown, or waits for what lets one go on."""
        if self.ready:
            self._advance(*self.ready.popleft())
        elif self.due:
            self.begin_due()
        elif self._here is not None:
            self._next_piece(*self._here)
        else:
            told = self._listen()
            if told is None:
                return
            if self.parts:  # they come before whatever the event leads to, be it an exception
                self.ready.append(told)
            else:
                self._advance(*told)

    def _listen(self) -> tuple[Program, Event] | None:
        """Waits for what arrives, up to the next event; whom to tell it."""
        inbox, parts = self._inbox, self.parts
        arrival = self._next_arrival()
        while arrival is not None and len(arrival) == 6:
            parts.append(arrival)
            more = inbox.qsize() and len(parts) < BUFFERED_PARTS
            arrival = inbox.get_nowait() if more else None
        if self._room is not None and inbox.qsize() < BUFFERED_PARTS // 2:
            self._room.set()
        if self.held:
            self.due.extend(self.held)
            self.held.clear()
        return self._taken_up(*arrival) if arrival is not None else None

    def _taken_up(self, program: Program, event: Event) -> tuple[Program, Event] | None:
        if self.abandoned and is_forgotten(self, event):
            return None
        if type(event) is not Called and event.task.node.kind != GRAPH:
            self.active -= 1
        return self.heard(program, event)

    def _next_arrival(self) -> tuple[Program, Event] | Part | None:
        """Waits for one arrival; None if something is due instead."""
        pool, inbox, timers = self.pool, self._inbox, self.timers
        if timers.limits and self.take_due():
            return None
        while not inbox.qsize():
            timeout: float | None = None
            if timers:
                if self.take_due():
                    return None
                timeout = timers.patience(self.wake, idle=not self.active)
            growing = pool.backlog
            if growing:
                timeout = 0.001 if timeout is None else min(timeout, 0.001)
            self._waits = True
            try:
                if self.outer is None:
                    return inbox.get(timeout=timeout)
                with pool.waiting():
                    return inbox.get(timeout=timeout)
            except Empty:
                if growing:
                    pool.grow()
            finally:
                self._waits = False
        return inbox.get()

    def _advance(self, program: Program, reply: Any) -> None:  # noqa: C901, PLR0915 - one arm for every effect
        """Runs a program until it waits, ends, or has something to show."""
        send = program.gen.send
        while True:
            try:
                effect = send(reply)
            except StopIteration as end:
                self._program_ended(program, end.value)
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
                here = task.node.kind in _BLOCKING and not program.beside
                if (
                    here
                    and not (task.limits or task.node.timeout)
                    and self.alone
                    and self.has_slot(program, task)
                ):
                    reply = self._attempt_here(program, task)
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
                reply = self.save(program, program.log, effect)
            elif kind is Tell:
                waiting = self.telling(program, effect)
                if waiting is not None:
                    self.wait_for_coroutine(waiting)
            elif kind is SaveWrites or kind is Load:
                reply = self._ask_log(program, effect)
            elif kind is Proceed:
                reply = self.shared.meter.why_not()
            else:
                self.attend(program, effect)

    def _attempt_here(self, program: Program, task: Task) -> Outcome:
        """A lone task, in the caller's thread."""
        self.inside += 1
        try:
            outcome = attempt(program, task, copy_context())
        finally:
            self._leave_body()
            if self.holding:
                self.free_slot(task)
        if self.fatal is not None:
            raise self.fatal
        if self.halted:  # whoever called this run was stopped meanwhile: nothing more is saved or begun
            raise self.stopped_error()
        return outcome

    def _ask_log(self, program: Program, effect: SaveWrites | Load) -> Saved | None:
        log, head = program.log, program.loop.head
        assert log is not None
        if isinstance(effect, Load):
            return log.load(program.namespace, effect.checkpoint_id)
        assert head is not None
        if self.halted:
            raise self.stopped_error()
        log.save_records(program.namespace, head, effect.records, now=effect.now)
        return None

    def _told_at_once(self) -> tuple[Program, Any] | None:
        """Who can go on without waiting, and with what; None if nobody, or if something is to be shown first."""
        self.begin_due()
        if self.parts:
            return None
        if self.ready:
            return self.ready.popleft()
        while self._inbox.qsize() and not (self.held or self.inside):
            arrival = self._inbox.get_nowait()
            if arrival is None:
                continue
            if len(arrival) == 6:
                self.parts.append(arrival)
                return None
            told = self._taken_up(*arrival)
            if told is not None:
                return told
        return None

    def _leave_body(self) -> None:
        """Takes the turn back from whichever thread pumps, once the body on the driver's stack has ended."""
        if not self._called:
            self.inside -= 1
            return
        with self._turn:
            self.inside -= 1
            while self._pumping:
                self._inbox.put(None)
                self._turn.wait()

    def _program_ended(self, program: Program, ending: Any) -> None:
        parent, task = program.parent, program.task
        if parent is None or task is None:
            self.ending = ending
            return
        outcome: Outcome = ending
        if task.node.routers and type(outcome) is Done:
            outcome = copy_context().run(route, parent, outcome)
        told = self.heard(parent, outcome)
        if told is not None:
            self.ready.appendleft(told)

    # ---- tasks

    def begin(self, program: Program, task: Task) -> None:
        """Begins a task beside others."""
        kind = task.node.kind
        if program.live is None:
            program.live = {}
        if kind == GRAPH:
            self.measure(program, task)
            self.begin_graph(program, task)
            return
        if not self.has_slot(program, task):
            return
        lone = self.alone and not program.timed and limits_of(task) is None
        self.active += 1
        self.measure(program, task)
        if kind in (ASYNC, ASYNC_GENERATOR):
            self._begin_on_loop(program, task)
        elif kind == GENERATOR and lone:
            self._here = (program, task, generate(program, task, copy_context()))
        else:
            program.live[task] = False
            context = copy_context()
            self.pool.submit(lambda: self._work(program, task, context))

    def _work(self, program: Program, task: Task, context: Any) -> None:
        """One task, on a worker."""
        if self.stops(program, task):
            self._inbox.put((program, Stopped(task)))
            return
        limit = task.limit
        if limit is not None:
            limit.begin()
        try:
            if task.node.kind == GENERATOR:
                outcome = self.exhaust(program, task, context, routes=True)
            else:
                outcome = attempt(program, task, context)
        except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt and SystemExit end the run, not the worker
            outcome = Failed(task, error)
        if limit is not None:
            limit.end()
        self._inbox.put((program, outcome))

    def _next_piece(
        self, program: Program, task: Task, pieces: Generator[Emit | None, None, Outcome]
    ) -> None:
        """A lone generator node, in the caller's thread: every piece is shown before the next is made."""
        self.inside += 1
        try:
            emit = next(pieces)
        except StopIteration as end:
            self._here = None
            self.active -= 1
            told = self.heard(program, end.value)
            if told is not None:
                self.ready.append(told)
            return
        finally:
            self._leave_body()
        if self.fatal is not None:
            raise self.fatal
        if emit is not None:
            self.show(program, emit)

    def _begin_on_loop(self, program: Program, task: Task) -> None:
        loop = self._loops.at(self.shared.level)
        context = copy_context()
        live = program.live if program.live is not None else {}
        live[task] = False

        async def run() -> None:
            try:
                outcome = await body_async(program, task)
                if task.node.routers and type(outcome) is Done:
                    outcome = await route_async(program, outcome)
            except BaseException as error:  # noqa: BLE001 - a value from here on
                if is_cancellation(error):
                    ending = self._loops.error_at(self.shared.level) or closed(task)
                    outcome = Stopped(task) if task in self._cancelled else Failed(task, ending)
                else:
                    outcome = Failed(task, error)
            self._inbox.put((program, outcome))

        def begin() -> None:
            if live.get(task):
                self._inbox.put((program, Stopped(task)))
            else:
                live[task] = loop.create_task(run(), context=context)

        loop.call_soon_threadsafe(begin)

    # ---- the outside

    def post(self, arrival: tuple[Program, Event] | Part) -> None:
        """Puts something in the inbox, from any thread."""
        self._inbox.put(arrival)

    def cancel_run(self, reason: str) -> None:
        """Takes effect when the driver next looks: at once if it waits, else when the node in the caller's thread returns."""
        self.halt(reason)

    def stopped_error(self) -> Cancelled:
        """What the run raises where it was stopped from outside."""
        if self.cancelled is None:
            return _stopped()
        return Cancelled(f"the run was cancelled: {self.cancelled}. What was saved stays")

    def wake(self) -> None:
        """An empty arrival has the driver look at what it holds back."""
        self._inbox.put(None)

    def on_worker(self, task: Task) -> bool:
        """Async nodes and graphs don't."""
        return task.node.kind not in (ASYNC, ASYNC_GENERATOR, GRAPH)

    def stop_task(self, program: Program, task: Task) -> None:
        """A queued task won't begin; an async one is cancelled; a running sync one is waited for."""
        live = program.live
        if live is None:
            return
        running = live.get(task)
        if running is not None and not isinstance(running, (bool, Program)):
            self._cancelled.add(task)
            self._loops.at(self.shared.level).call_soon_threadsafe(running.cancel)
        elif running is False:
            live[task] = True
            self.halt_inner(task)

    def sender(self, program: Program, task: Task) -> Callable[[Part], None]:
        """Parts go through the inbox, so that they stand before the end of their task.

        A worker keeps the interpreter for milliseconds unless it waits, so it lets the consumer have the first part of
        a burst at once.
        """
        if self._here is not None and self._here[1] is task:
            return self.parts.append  # it runs in this very thread, between two parts
        put, size = self._inbox.put, self._inbox.qsize
        live: Mapping[Task, Any] = program.live if program.live is not None else {}
        handed, abandoned = 0.0, self.abandoned

        def send(part: Part) -> None:
            nonlocal handed
            if self.stopping or live.get(task) is True or task in abandoned:
                raise _stopped()
            if size() >= BUFFERED_PARTS:
                self._wait_for_consumer(program, task)
            put(part)
            if self._waits and (now := monotonic()) - handed > _BURST:
                handed = now
                sleep(0)

        return send

    def _wait_for_consumer(self, program: Program, task: Task) -> None:
        with self.making:
            if self._room is None:
                self._room = Flag()
        while self._inbox.qsize() >= BUFFERED_PARTS:
            self._room.clear()
            if self.stops(program, task):
                raise _stopped()
            self._room.wait(0.05)

    async def wait_for_room(self) -> None:
        """Async nodes under a sync run wait without blocking their loop."""
        import asyncio

        while self._inbox.qsize() >= BUFFERED_PARTS and not self.stopping:  # noqa: ASYNC110 - another thread makes room
            await asyncio.sleep(0.001)

    def wait_for_coroutine(self, coroutine: Any) -> Any:
        """Runs an async router of a sync run on the loop thread."""
        import asyncio
        from concurrent.futures import Future

        loop = self._loops.at(self.shared.level)
        result: Future[Any] = Future()
        context = copy_context()

        async def run() -> None:
            try:
                result.set_result(await coroutine)
            except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
                result.set_exception(error)

        def begin() -> None:
            running.append(loop.create_task(run(), context=context))

        running: list[asyncio.Task[None]] = []
        loop.call_soon_threadsafe(begin)
        return result.result()

    def is_cancelled(self) -> bool:
        """Async nodes have asyncio tasks of their own here."""
        import asyncio

        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    # ---- calls inside tasks

    def call(self, context: TaskContext, called: Called) -> CallFuture[Any]:
        """Begins a call; a body on the driver's own stack takes it to the engine itself."""
        program = context.program
        future = self.new_call(context, self._wait_for_call)
        called.reply = future
        if not self._called:
            with self.making:
                if not self._called:
                    self._turn = Condition()
                    self._called = True
        self._inbox.put((program, called))
        if self.inside:
            self._pump(self._inbox.empty)
            if self.pool.backlog:
                self.pool.grow()  # nobody listens while the body runs, so nobody else would let them begin
        return future

    def _wait_for_call(self, future: CallFuture[Any]) -> None:
        self._pump(future.done)
        if not future.done():
            with self.pool.waiting():
                future.block()

    def _pump(self, done: Callable[[], bool]) -> None:
        """Steps programs while a body on the driver's stack waits. One thread at a time; others wait for their turn."""
        turn = self._turn
        while not done() and self.fatal is None:
            if self.halted:
                self.give_up(_stopped())
                return
            with turn:
                if not self.inside:
                    return
                if self._pumping:
                    turn.wait()
                    continue
                self._pumping = True
            try:
                told = self._listen()
                if told is not None:
                    self.ready.append(told)
                while self.ready or self.due:
                    if self.ready:
                        self._advance(*self.ready.popleft())
                    else:
                        self.begin_due()
            except BaseException as error:
                self.give_up(error)
                if not isinstance(error, Exception):
                    raise
            finally:
                with turn:
                    self._pumping = False
                    turn.notify_all()

    # ---- the end

    def _shut_down(self) -> None:
        """Stops and awaits everything that still runs."""
        self.stopping = True
        if self._room is not None:
            self._room.set()
        root = self.root
        if self.ending is None and not root.closed:
            root.closed = True
            root.gen.close()
            self.ready.clear()
            self.cancel(root)
            self.end_calls()
            if self._here is not None:
                self._here[2].close()
                self._here = None
                self.active -= 1
                root.active -= 1
            if self.cancelled is not None:
                abandon_all(self, root)
            while self.active or root.active:
                self.parts.clear()  # nobody will have them
                self._listen()
        if self.outer is None:
            self.pool.close()
