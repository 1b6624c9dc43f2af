"""What both drivers do alike: everything that never waits.

A driver steps programs one at a time. `_advance` runs one until it waits or has something to show; whoever drives then
takes the parts and goes on. Programs that may go on stand in `ready`; tasks that were started and haven't begun stand in
`due`; what ended elsewhere arrives in the driver's inbox.

A program that is stopped (`cancel`) is closed at once: its generator is closed, its tasks are told, and when the last of
them was heard of, its parent hears `Stopped`. So nothing outlives its run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from contextvars import Context
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NoReturn

from juncture.drivers.abandon import expire
from juncture.drivers.attempt import generate, place_of
from juncture.drivers.clock import CLOCK
from juncture.drivers.place import locate
from juncture.drivers.pool import Pool
from juncture.drivers.run import Observer, Part, Program, Shared, part_of
from juncture.drivers.timers import Limit, Timers, sign_of_life
from juncture.engine.begin import Request
from juncture.engine.effects import (
    Called,
    Cancel,
    Emit,
    Ending,
    Event,
    Failed,
    Outcome,
    Reply,
    Save,
    Stopped,
    Tell,
    Warn,
)
from juncture.engine.goback import where_it_stood
from juncture.engine.interrupts import answers_in
from juncture.engine.limits import limits_of
from juncture.engine.nested import nested_program
from juncture.engine.returns import Reader, Returned
from juncture.engine.run import Loop
from juncture.engine.tables import FACTORY, GRAPH, Node, Tables
from juncture.engine.task import Task, input_of
from juncture.errors import Cancelled, InvalidUpdateError
from juncture.persistence.format import config_of
from juncture.persistence.threads import ThreadLog
from juncture.types import Status

if TYPE_CHECKING:
    from juncture.drivers.calls import CallFuture
    from juncture.drivers.context import TaskContext

_CONTENTS: Final = {
    "after": "update",
    "error": "error",
    "interrupt": "interrupts",
    "checkpoint": "checkpoint_id",
}
"""Where an event of each kind keeps what it is about."""
BUFFERED_PARTS: Final = 1024
"""How many parts may wait for their consumer before whoever makes more has to wait."""


class Driver(ABC):
    """One call of a graph, being driven."""

    def __init__(
        self,
        shared: Shared,
        tables: Tables,
        request: Request,
        log: ThreadLog | None,
        outer: TaskContext | None,
    ) -> None:
        """Nothing runs before the driver is driven. `outer` is the node whose code makes this call, if any."""
        self.outer = outer
        self.shared = shared
        self.parts: deque[Part] = deque()
        self.ready: deque[tuple[Program, Any]] = deque()
        self.due: deque[tuple[Program, Task]] = deque()
        self.held: deque[tuple[Program, Task]] = deque()
        """Due, but over the limit of concurrency until a slot is free."""
        self.holding: set[Task] = set()
        """The tasks that have a slot."""
        self.clock = CLOCK.get()
        self.timers = Timers(self.clock)
        self.later = self.timers.later
        self.active: int = 0
        """How many tasks without a program of their own were begun and not heard of."""
        self.inside = 0
        """How many bodies are on the driver's own stack."""
        self.made: dict[tuple[int, str], Node] = {}
        """What factories made in this run."""
        self.making = Lock()
        self.abandoned: set[Task] = set()
        """Sync tasks that still run though nobody waits for them."""
        self.calls: set[CallFuture[Any]] = set()
        """The calls whose outcome isn't known."""
        self.fatal: BaseException | None = None
        """What ends the run once the body on the driver's stack has ended: programs can't be stepped any more."""
        self.inner: dict[Task, set[Driver]] = {}
        """The runs of graphs that a task's code called, and that block it."""
        self.halted = False
        """The run around this one was stopped, so this one stops as well; or it was cancelled itself."""
        self.cancelled: str | None = None
        """Why it was cancelled, if it was."""
        self.stopping = False
        """The run ends early: nothing new begins, and whoever sends is told."""
        self.ending: Ending | None = None
        self.owned = log if outer is None or outer.program.log is not log else None
        """The log that ends with this run."""
        self.root = Program(self, tables, request, log)
        self.root.gen = self.root.loop.program()
        self.ready.append((self.root, None))
        self.pool: Pool

    @property
    def alone(self) -> bool:
        """Whether nothing else could go on meanwhile, so that a task may run right here."""
        return not (self.active or self.inside or self.ready or self.due or self.held or self.later)

    # ---- programs

    def begin_nested(self, program: Program, task: Task) -> None:
        """Makes the program of a nested graph; it goes on when its turn comes."""
        node, parent = task.node, program
        tables = node.graph
        assert tables is not None
        given = parent_values(program, task, tables)
        request = parent.loop.request
        namespace = (*program.namespace, node.name if tables.remembers else task.id)
        if tables.remembers and any(other.namespace == namespace for other in self.nested_in(program)):
            raise InvalidUpdateError(
                f"node {node.name!r} is a graph with a memory of its own and runs twice in step {task.step}: its runs would "
                "overwrite each other. Compile it without checkpointer=True, or run them one after the other",
                node=node.name,
            )
        modes = request.modes if self.shared.subgraphs else frozenset[str]()
        saving = program.saving and tables.persist
        since, stood = where_it_stood(parent.loop, task, namespace[-1]) if saving else (None, "")
        child = Program(
            self,
            tables,
            Request(
                "nested",
                self.shared.limit,
                request.jitter,
                writes=given,
                answers=self.answers_for(task),
                saving=saving,
                thread_id=self.shared.thread_id,
                origin=request.origin,
                namespace=namespace,
                modes=modes,
                value_keys=tables.output_keys,
                pauses=tables.pauses,
                shared_keys=node.shared_keys,
                returns=True,
                seen=request.seen,
                steered=request.steered and saving,
                observed=request.observed,
                owner=task.id if tables.remembers and saving else "",
                memory=program.loop.state.memory.get(node.name),
                around=program.around if saving else None,
                since=since,
                stood=stood,
            ),
            program.log if saving else None,
            program,
            task,
        )

        def failed(error: Exception, loop: Loop) -> None:
            locate(error, self.shared, namespace, loop)

        child.gen = nested_program(program.tables, task, child.loop, namespace, failed)
        if program.live is None:
            program.live = {}
        program.live[task] = child
        self.ready.append((child, None))

    def begin_due(self) -> None:
        """Begins what is due."""
        while self.due:
            program, task = self.due.popleft()
            if task.node.kind == FACTORY and (failed := self.prepare(program, task)) is not None:
                self.active += 1
                self.post((program, failed))
            else:
                self.begin(program, task)

    def prepare(self, program: Program, task: Task) -> Failed | None:
        """Gives a task the node that its factory makes, once a run; what the factory raised is the task's failure."""
        node = task.node
        key = (id(program.tables), node.name)
        try:
            if key not in self.made:
                assert node.factory is not None
                assert node.prepare is not None
                self.made[key] = node.prepare(node.factory())
        except Exception as error:  # noqa: BLE001 - an outcome from here on
            return Failed(task, error)
        task.become(self.made[key])
        return None

    def begin_graph(self, program: Program, task: Task) -> None:
        """Begins a task that is a nested graph; if its input can't be made, the task has failed."""
        try:
            self.begin_nested(program, task)
        except Exception as error:  # noqa: BLE001 - an outcome from here on
            self.arrived(program, Failed(task, error))

    def answers_for(self, task: Task) -> dict[str, Any]:
        """What a nested graph was answered: now, and earlier without having been able to use it."""
        return answers_in(task.records or ()) | self.shared.answers

    def has_slot(self, program: Program, task: Task) -> bool:
        """Takes a slot for a task, or holds the task back until one is free."""
        slots = self.shared.slots
        if slots is None:
            return True
        if not slots.take(self.wake):
            self.held.append((program, task))
            return False
        self.holding.add(task)
        return True

    def lending(self) -> AbstractContextManager[None]:
        """While this call runs, the node that makes it lends its slot to what runs in it."""
        return nullcontext() if self.outer is None else self.outer.lending()

    def known_outside(self, *, runs: bool) -> None:
        """Lets whoever may stop it know that it runs, and when it no longer does."""
        shared = self.shared
        if shared.runs is not None:
            if runs:
                shared.runs[self] = shared.run_id
            else:
                shared.runs.pop(self, None)
            if shared.control is not None:
                (shared.control.begins if runs else shared.control.ends)(self.cancel_run)

    def measure(self, program: Program, task: Task) -> None:
        """Begins to measure a try, if it has a time limit. On a worker it begins with the code."""
        policy = limits_of(task)
        if policy is not None:
            limit = self.timers.limit(program, task, policy)
            if not self.on_worker(task):
                limit.begin()

    def take_due(self) -> bool:
        """Begins, or ends, something whose time has come; whether there was anything."""
        due = self.timers.due()
        if isinstance(due, Limit):
            expire(self, due)
        elif due is not None:
            self.due.append(due)
        return due is not None

    def known_around(self, *, runs: bool) -> None:
        """Lets the run around this one, which it blocks, know that it runs, so that it can halt it."""
        outer = self.outer
        if outer is not None:
            known = outer.program.driver.inner.setdefault(outer.task, set())
            (known.add if runs else known.discard)(self)

    def halt(self, reason: str | None = None) -> None:
        """Stops the run; from any thread. With a reason, it is this very run that is cancelled."""
        self.cancelled = reason
        self.halted = True
        for task in list(self.inner):
            self.halt_inner(task)
        self.wake()

    def halt_inner(self, task: Task) -> None:
        """Stops the runs that a task which was told to stop, or is abandoned, waits for; from any thread."""
        for driver in list(self.inner.get(task, ())):
            driver.halt()

    def free_slot(self, task: Task) -> None:
        """Gives back the slot of a task that ended, if it had one."""
        if task in self.holding and self.shared.slots is not None:
            self.holding.discard(task)
            self.shared.slots.give_back()

    def arrived(self, program: Program, event: Event) -> None:
        """Puts an event in the inbox. Only called by the driver itself."""
        if event.task.node.kind != GRAPH and isinstance(event, Stopped):
            self.active += 1  # it was due and never begun; the inbox counts it down again
        self.post((program, event))

    def heard(self, program: Program, event: Event) -> tuple[Program, Event] | None:
        """Books an event that arrived; who is to be told what, or nobody."""
        task = event.task
        if type(event) is not Called:
            program.active -= 1
            if program.live is not None:
                program.live.pop(task, None)
            self.free_slot(task)
            if task.limit is not None:
                event = task.limit.outcome(event)
        if self.timers.limits:
            sign_of_life(program, task)
        if not program.closed:
            return program, event
        if program.active or program.parent is None or program.task is None:
            return None
        return self.heard(program.parent, Stopped(program.task))

    def cancel(self, program: Program) -> None:
        """Stops what runs under a program. Each of its tasks is still heard of."""
        self._drop_due(lambda owner, _: self._is_under(owner, program))
        for child, reply in list(self.ready):
            if child is not program and self._is_under(child, program):
                self.ready.remove((child, reply))
        for child in self.nested_in(program):
            self.close_program(child)
        for task in list(program.live or ()):
            self.stop_task(program, task)

    def cancel_calls(self, program: Program, of: Task) -> None:
        """Stops the calls of one task. Each is still heard of."""
        self._drop_due(lambda _, task: task.parent is of)
        for task in list(program.live or ()):
            if task.parent is of:
                self.stop_task(program, task)

    def _drop_due(self, matches: Callable[[Program, Task], bool]) -> None:
        """Lets tasks that haven't begun end as stopped."""
        for line in (self.due, self.held):
            for owner, task in [entry for entry in line if matches(*entry)]:
                line.remove((owner, task))
                self.arrived(owner, Stopped(task))
        for owner, task in self.timers.drop(matches):
            self.arrived(owner, Stopped(task))

    def close_program(self, child: Program) -> None:
        """Ends a nested program whose outcome nobody wants any more."""
        if child.closed:
            return
        child.closed = True
        child.gen.close()
        self.cancel(child)
        self.end_calls(child)
        if not child.active and child.parent is not None and child.task is not None:
            self.arrived(child.parent, Stopped(child.task))

    def nested_in(self, program: Program) -> list[Program]:
        """The running programs whose parent this is."""
        return [child for child in (program.live or {}).values() if isinstance(child, Program)]

    @staticmethod
    def _is_under(program: Program | None, ancestor: Program) -> bool:
        while program is not None:
            if program is ancestor:
                return True
            program = program.parent
        return False

    # ---- parts

    def show(self, program: Program, emit: Emit) -> None:
        """Puts a part in line for its consumer. Only called where programs are stepped."""
        if emit.mode == "checkpoints":
            emit.data = self._named(program, emit.data)
        elif emit.mode == "debug":
            kind, payload = emit.data
            if kind == "checkpoint":
                payload = self._named(program, payload)
            now = datetime.now(UTC).isoformat()
            emit.data = {"step": emit.step, "timestamp": now, "type": kind, "payload": payload}
        self.parts.append((program.shown, emit.mode, emit.node, emit.data, emit.step, emit.place))

    def _named(self, program: Program, shown: dict[str, Any]) -> dict[str, Any]:
        """A checkpoint as it is shown, with configs in the places of ids."""
        thread_id, parent = self.shared.thread_id or "", shown["parent_config"]
        return shown | {
            "config": config_of(thread_id, program.namespace, shown["config"]),
            "parent_config": None if parent is None else config_of(thread_id, program.namespace, parent),
            "metadata": shown["metadata"] | {"run_id": self.shared.run_id},
        }

    def save(self, program: Program, log: ThreadLog | None, effect: Save) -> str | None:
        """Saves a checkpoint, by waiting for it."""
        if log is None:
            return None
        if self.halted:
            raise self.stopped_error()
        try:
            return log.save(program.namespace, effect.state, effect.source)
        except BaseException as error:  # noqa: BLE001 - raised again, once the program has heard of it
            self.not_saved(program, error)

    def not_saved(self, program: Program, error: BaseException) -> NoReturn:
        """Tells a program that its checkpoint wasn't saved, and raises what it raises: the same error."""
        with suppress(StopIteration):  # a nested graph would make a failure of it; but nothing may go on
            try:
                program.gen.throw(error)
            except BaseException as raised:
                if raised is not error:
                    raise
        if isinstance(error, Exception):
            locate(error, self.shared, program.shown, program.loop)
        raise error

    def stops(self, program: Program, task: Task) -> bool:
        """Whether a running task was told to stop or abandoned, or its whole run was told."""
        return self.stopping or task in self.abandoned or (program.live or {}).get(task) is True

    def exhaust(self, program: Program, task: Task, context: Context, *, routes: bool) -> Outcome:
        """One try of a generator node on a worker: every piece is sent as it comes."""
        send = self.sender(program, task)
        with closing(generate(program, task, context, routes=routes)) as pieces:
            try:
                while True:
                    emit = next(pieces)
                    if task.limit is not None:
                        task.limit.did()
                    if emit is not None:
                        send(part_of(program, emit))
                    if self.stops(program, task):
                        return Stopped(task)
            except StopIteration as end:
                return end.value
            except Cancelled:
                return Stopped(task)

    # ---- what the drivers do each in their way

    @abstractmethod
    def begin(self, program: Program, task: Task) -> None:
        """Begins a task beside others."""

    @abstractmethod
    def post(self, arrival: tuple[Program, Event] | Part) -> None:
        """Puts something in the inbox, from any thread."""

    @abstractmethod
    def cancel_run(self, reason: str) -> None:
        """Cancels the run; from any thread."""

    @abstractmethod
    def stopped_error(self) -> BaseException:
        """What the run raises where it was stopped from outside."""

    @abstractmethod
    def wake(self) -> None:
        """Has the driver look again at what it holds back; from any thread."""

    @abstractmethod
    def on_worker(self, task: Task) -> bool:
        """Whether a task that doesn't run right here runs on a worker, where it can't be stopped."""

    @abstractmethod
    def stop_task(self, program: Program, task: Task) -> None:
        """Tells a running task to stop, if it can be told."""

    @abstractmethod
    def sender(self, program: Program, task: Task) -> Callable[[Part], None]:
        """How a running task sends parts; the sender waits, or raises `Cancelled`, where the consumer is far behind."""

    @abstractmethod
    def is_cancelled(self) -> bool:
        """Whether the asyncio task whose code is running was cancelled from outside while this run went on."""

    @abstractmethod
    def call(self, context: TaskContext, called: Called) -> CallFuture[Any]:
        """Asks the engine for a call, or a journal entry, on behalf of a running task."""

    def check_may_block(self, what: str, instead: str) -> None:  # noqa: B027 - nothing to refuse where calls are made by whichever thread waits
        """Refuses to wait for a call on the thread that has to make it.

        Raises:
            ConfigError: This is that thread.
        """

    @abstractmethod
    def wait_for_coroutine(self, coroutine: Any) -> Any:
        """What a coroutine gives, from a place that can't await."""

    @abstractmethod
    async def wait_for_room(self) -> None:
        """Waits while too many parts wait for their consumer."""

    def telling(self, program: Program, effect: Tell) -> Coroutine[Any, Any, None] | None:
        """Tells whoever listens; what has to be awaited before the run goes on, if anything."""
        observer, task = self.shared.observer, effect.task
        if observer is None:
            return None
        event = observer.event(
            effect.kind,
            namespace=program.namespace,
            node=effect.node if task is None else task.node.name,
            task_id=None if task is None else task.id,
            step=effect.step,
            attempt=1 if task is None else task.attempt,
            values=effect.values,
        )
        name = _CONTENTS.get(effect.kind)
        if name is not None:
            setattr(event, name, effect.content)
        return observer.tell(event)

    def endings(self, observer: Observer, status: Status, error: BaseException | None) -> list[Any]:
        """The events that say that the run has ended, and how."""
        loop = self.root.loop
        event = observer.event("complete", step=loop.state.step, values=dict(loop.state.values))
        event.status, event.error, event.steps = status, error, loop.taken
        event.usage = self.shared.meter.usage()
        event.interrupts = tuple(loop.asked if self.ending is None else self.ending.questions)
        return observer.complete(event)

    def attend(self, program: Program, effect: Cancel | Reply | Warn) -> None:
        """Does what a program asks for that needs no answer."""
        if isinstance(effect, Cancel):
            if effect.calls_of is None:
                self.cancel(program)
            else:
                self.cancel_calls(program, effect.calls_of)
        elif isinstance(effect, Reply):
            self.reply(effect)
        else:
            self.warn(effect.text)

    def warn(self, text: str) -> None:
        """Tells the user about something that isn't an error."""
        import logging

        logging.getLogger("juncture").warning(
            "%s (run %s, thread %r)", text, self.shared.run_id, self.shared.thread_id
        )

    def new_call(self, context: TaskContext, wait: Callable[[CallFuture[Any]], None]) -> CallFuture[Any]:
        """The future of a call that a task makes."""
        from juncture.drivers.calls import CallFuture

        future: CallFuture[Any] = CallFuture(wait, context.lending, context)
        self.calls.add(future)
        future.on_settled(lambda: self.calls.discard(future))
        return future

    def give_up(self, error: BaseException) -> None:
        """While a body waits for its calls, something went wrong that ends the run: its calls end with it."""
        self.fatal = error
        for future in list(self.calls):
            future.settle(Failed(future.caller.task, error))

    def end_calls(self, program: Program | None = None) -> None:
        """Wakes whoever waits for a call: of a program that was closed, or of the whole run, which is being stopped."""
        for future in list(self.calls):
            if program is None or future.caller.program is program:
                future.settle(Stopped(future.caller.task))

    def reply(self, effect: Reply) -> None:
        """Gives a call's outcome to whoever waits for it."""
        future: CallFuture[Any] = effect.call.reply
        future.settle(effect.outcome)


def parent_values(program: Program, task: Task, tables: Tables) -> list[tuple[str, Any]]:
    """The input of a nested graph as writes: what its parent's state holds of its keys, or what was sent, read and checked.

    Raises:
        InvalidUpdateError: What was sent isn't an input of the nested graph.
    """
    given: Any = input_of(task, program.loop.state.flat)
    if task.send < 0:
        return list(given.items())
    got = Returned()
    Reader(tables, tables.entry, None, {}, None, place_of(program, task)).add(given, got)
    return got.writes


__all__ = ["BUFFERED_PARTS", "Driver", "parent_values"]
