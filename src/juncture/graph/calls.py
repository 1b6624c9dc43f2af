"""One call of a compiled graph: from what the caller gave to a driver, and from how it ended to what the caller gets."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from juncture.drivers.base import Driver
from juncture.drivers.context import CURRENT, TaskContext
from juncture.drivers.place import add_result, locate
from juncture.drivers.run import Part, Shared
from juncture.drivers.slots import Slots
from juncture.drivers.sync import SyncDriver
from juncture.engine.begin import Request
from juncture.engine.effects import Ending
from juncture.engine.goback import Back, where_it_stood
from juncture.engine.nested import note_where_it_stands
from juncture.engine.returns import Reader, Returned
from juncture.engine.streaming import values_payload
from juncture.engine.tables import Pauses
from juncture.errors import (
    ConfigError,
    EmptyInputError,
    GraphDrained,
    InvalidUpdateError,
    ParentCommand,
    Pause,
)
from juncture.graph.assemble import asker
from juncture.graph.config import read_config
from juncture.graph.finishing import finish_of, leaving
from juncture.graph.given import read_context, read_output_keys, steering_of
from juncture.graph.inside import check_goes_on, enter
from juncture.graph.listening import atell_end, observer_of, tell_end
from juncture.graph.namespaces import nested_graph
from juncture.graph.options import OnFinish, OnPending, chosen
from juncture.graph.pausing import Names, Wanted, pauses_of
from juncture.graph.validate import check_pauses
from juncture.observe.listeners import Event, Listener
from juncture.persistence.asking import aperformed, performed
from juncture.persistence.threads import Durability, OnBusy, ThreadLog
from juncture.steering import Budget, RunControl
from juncture.types import (
    MISSING,
    START,
    CheckpointRef,
    Command,
    Interrupt,
    RunResult,
    StateUpdate,
    Status,
)

if TYPE_CHECKING:
    from juncture.drivers.aio import AsyncDriver
    from juncture.graph.compiled import CompiledGraph
    from juncture.graph.timing import Stopwatch
    from juncture.persistence.leases import Held
    from juncture.savers.base import Saver

_NOWHERE: Final = Wanted()


class Call:
    """One call. Making it checks everything that the caller gave."""

    def __init__(
        self,
        graph: CompiledGraph[Any, Any, Any, Any],
        given: Any,
        config: Mapping[str, Any] | None,
        *,
        context: Any = None,
        thread_id: str | None = None,
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: Names | None = None,
        interrupt_after: Names | None = None,
        interrupt_before_route: Names | None = None,
        durability: Durability | None = None,
        on_busy: OnBusy = "raise",
        on_pending: OnPending = "raise",
        timings: bool = False,
        control: RunControl | None = None,
        budget: Budget | None = None,
        on_finish: OnFinish | None = None,
        listeners: Sequence[Listener | Callable[[Event], Any]] = (),
        supersteps: Sequence[Sequence[StateUpdate]] | None = None,
        namespace: tuple[str, ...] = (),
        held: Held | None = None,
        back: Back | None = None,
    ) -> None:
        """Takes what the public methods take (`RunOptions`).

        With `supersteps`, it is an edit of the state of the graph in that namespace, which goes back as `back` says. With
        `held`, the thread was taken; an edit doesn't give it back.
        """
        self.graph, self.given = graph, given
        self.back, self.held = back, held
        self.options = read_config(config, thread_id, strict=graph.tables.strict)
        self.outer = _outer()
        if self.outer is not None:
            self.outer.check_may_ask(f"the graph {graph.name!r}")
        self.nested = self.outer is not None and graph.checkpointer is None and self.options.thread_id is None
        """Called inside a node and not on a thread of its own: its questions and commands go to the enclosing run."""
        self.namespace, self.supersteps = namespace, supersteps
        self.owner = ""
        """Called inside a node, and with a memory of its own: the call that it runs for."""
        self.tables, self.node = nested_graph(graph.tables, namespace)
        """What is edited or run, and the node that it is, if it is one."""
        self.inside = bool(self.options.checkpoint_ns) and supersteps is None
        """It is to go on from a checkpoint of a nested graph; `graph.inside` sees to that first."""
        if self.inside:
            check_goes_on(given, self.options.checkpoint_ns)
        self.thread_id = self.options.thread_id
        if self.outer is not None and self.nested:
            self._nest(self.outer)
        self.single = isinstance(output_keys, str)
        self.output_keys = read_output_keys(graph.tables, output_keys)
        self.context = read_context(graph.context_schema, context, self.outer)
        around = None if self.outer is None else self.outer.program.shared.run_id
        self.run_id = self.options.run_id or around or os.urandom(16).hex()
        self.watch = self._stopwatch() if timings or graph.tables.debug else None
        self.control, self.meter = steering_of(control, budget, self.outer if self.nested else None)
        self.on_busy: OnBusy = chosen("on_busy", on_busy)
        self.discards = chosen("on_pending", on_pending) == "discard"
        self.log = self._log(chosen("durability", durability or graph.durability), self.on_busy)
        self.on_finish, self.kept_as = finish_of(self, on_finish)
        """What becomes of the thread at the end; and in which its checkpoints are now, None if it was deleted."""
        self.pauses = self._pauses(Wanted(interrupt_before, interrupt_after, interrupt_before_route))
        self.observer = None if supersteps is not None else observer_of(self, listeners)

    @property
    def watched(self) -> bool:
        """Somebody listens to this run, and it isn't part of another."""
        return self.observer is not None and not (self.outer is not None and self.nested)

    # ---- what was given

    def _nest(self, outer: TaskContext) -> None:
        """Has its place in the run of the node that calls it."""
        self.namespace = outer.next_namespace(self.graph.name, self.given)
        if self.graph.tables.remembers:
            self.owner = self.namespace[-1]
            self.namespace = (*self.namespace[:-1], self.graph.name)
        self.thread_id = outer.program.shared.thread_id

    def _pauses(self, wanted: Wanted) -> Pauses | None:
        graph, compiled = self.graph, self.graph.tables.pauses
        if wanted == _NOWHERE and compiled is None:
            return None
        if graph.tables.strict:
            check_pauses(wanted, graph.tables.nodes)
        chosen = pauses_of(wanted, asker(graph.builder, graph.name), compiled)
        if chosen is not None and self.log is None and graph.tables.strict:
            raise ConfigError(
                "interrupt_before, interrupt_after and interrupt_before_route need a saver, or the run could never go on. Compile the graph with "
                'one, for example compile(checkpointer="memory:"), and give a thread_id'
            )
        return chosen

    def _log(self, durability: Durability, on_busy: OnBusy) -> ThreadLog | None:
        """Where this call is saved: by the graph's own saver, or, called inside a node, by the enclosing run's."""
        graph, options = self.graph, self.options
        if not graph.tables.persist:
            return None
        if graph.tables.remembers and not self.nested:
            raise ConfigError(
                "checkpointer=True cannot be used for root graphs: it lets a nested graph go on from its own last state. Compile "
                'this one with a saver, for example compile(checkpointer="sqlite:runs.db")'
            )
        if graph.checkpointer is None:
            return self.outer.program.log if self.outer is not None and self.nested else None
        if options.thread_id is None:
            raise ConfigError(
                "Checkpointer requires one or more of the following 'configurable' keys: thread_id. Name the conversation: "
                'invoke(input, thread_id="…"), or config={"configurable": {"thread_id": "…"}}'
            )
        log = ThreadLog if self.watch is None else self.watch.log
        return log(
            graph.checkpointer,
            options.thread_id,
            graph.codec,
            run_id=self.run_id,
            untracked=graph.tables.untracked,
            exposed=graph.tables.exposed,
            durability=durability,
            on_busy="raise" if self._is_around(graph.checkpointer) else on_busy,
            held=self.held,
            lent=self.supersteps is not None,
            metadata=options.metadata,
        )

    def _stopwatch(self) -> Stopwatch | None:
        """What times the run; a part of another run is timed by that."""
        if self.supersteps is not None or (self.outer is not None and self.nested):
            return None
        from juncture.graph.timing import Stopwatch, timed_tables

        watch = Stopwatch()
        self.tables = timed_tables(self.tables, watch)
        return watch

    def _is_around(self, saver: Saver) -> bool:
        """Whether the thread is that of a run around this one, which would wait for itself."""
        outer = self.outer
        while outer is not None:
            log = outer.program.log
            if log is not None and log.thread_id == self.options.thread_id and log.saver is saver:
                return True
            outer = outer.program.driver.outer
        return False

    def _request(self, shared: Shared, *, streaming: bool) -> Request:
        if self.supersteps is not None:
            return self._edit_request(shared, self.supersteps)
        kind, got, resume = self._read()
        restricts = self._restricts
        return Request(
            kind,
            self.options.limit,
            random.random,
            got.writes,
            got.routes.targets,
            got.routes.sends,
            resume,
            shared.answers,
            saving=self.log is not None,
            thread_id=self.thread_id,
            origin=self._origin(),
            checkpoint_id=self.options.checkpoint_id,
            namespace=self.namespace,
            modes=shared.modes,
            value_keys=self.output_keys if not streaming or restricts else None,
            update_keys=self.output_keys if restricts else self.graph.tables.result_keys,
            pauses=self.pauses,
            discards=self.discards,
            owner=self.owner,
            memory="",
            steered=self.meter.steers and (self.log is not None or not self.nested),
            observed=self.observer is not None,
            seen=self.outer.program.loop.request.seen if self.outer is not None and self.nested else set(),
            **self._nested_in(),
        )

    def _nested_in(self) -> dict[str, Any]:
        """Called inside a node: what of the enclosing run it is saved in, and where it stood."""
        outer = self.outer
        if outer is None or not self.nested or self.log is None:
            return {}
        task = outer.task.parent or outer.task
        since, stood = where_it_stood(outer.program.loop, task, self.namespace[-1])
        return {"around": outer.program.around, "since": since, "stood": stood}

    def _read(self) -> tuple[Literal["input", "nested", "continue", "command"], Returned, Any]:
        """What was given as the input: its kind, what it writes and where it leads, and the answers in it."""
        given, tables = self.given, self.graph.tables
        got = Returned()
        if given is None:
            if self.log is None:
                raise EmptyInputError(
                    "Received no input for a graph without a saver: there is no thread that could go on. Give an input"
                )
            return "continue", got, MISSING
        if isinstance(given, Command):
            return "command", got, self._read_command(cast("Command[Any]", given), got)
        if tables.takes is not None:
            self._reader().add_write(tables.takes, given, got.writes)
        else:
            self._reader().add(given, got)
        self._check_input(got)
        return "nested" if self.nested and self.log is not None else "input", got, MISSING

    @property
    def _restricts(self) -> bool:
        return self.output_keys is not self.graph.tables.output_keys

    def _edit_request(self, shared: Shared, supersteps: Sequence[Sequence[StateUpdate]]) -> Request:
        around = None if self.back is None else self.back.around
        return Request(
            "update",
            self.options.limit,
            random.random,
            saving=self.log is not None,
            thread_id=self.thread_id,
            origin=self._origin(),
            checkpoint_id=self.options.checkpoint_id,
            namespace=self.namespace,
            modes=shared.modes,
            supersteps=supersteps,
            shared_keys=frozenset() if self.node is None else self.node.shared_keys,
            returns=self.node is not None,
            back=self.back,
            around=None if around is None else lambda: around,
        )

    def _origin(self) -> str:
        if self.outer is not None and self.nested:
            return self.outer.program.loop.request.origin
        return self.thread_id or ""

    def _reader(self) -> Reader:
        return Reader(self.graph.tables, self.graph.tables.entry, None, {}, None, self.run_id)

    def _check_input(self, got: Returned) -> None:
        tables = self.graph.tables
        if got.routed or got.escape is not None:
            raise ConfigError(
                "the input holds a Command or Send among other values; give a Command alone as the input"
            )
        if tables.input_keys is None:
            return
        if not tables.strict:
            got.writes = [write for write in got.writes if write[0] in tables.input_keys]
            return
        for name, _ in got.writes:
            if name not in tables.input_keys:
                raise InvalidUpdateError(
                    f"the input has the key {name!r}, which the input schema {self.graph.input.name} doesn't have. "
                    f"It has: {', '.join(sorted(tables.input_keys))}",
                    node=START,
                    key=name,
                )

    def _read_command(self, command: Command[Any], got: Returned) -> Any:
        if command.graph is not None:
            raise InvalidUpdateError("There is no parent graph: a Command with graph=… can't be an input")
        if command.resume is MISSING and command.update is None and command.goto == ():
            raise EmptyInputError("Received empty Command input: give it a resume, an update or a goto")
        if command.resume is not MISSING and self.log is None:
            raise ConfigError(
                "Cannot use Command(resume=...) without checkpointer: nothing of the thread was kept. Compile the graph "
                'with a saver, for example compile(checkpointer="memory:")'
            )
        self._reader().add(replace(command, resume=MISSING), got)
        return command.resume

    def go_on(self, given: Any, held: Held) -> None:
        """Has the call go on from the thread's newest state, with the lease that was taken for it."""
        self.inside = False
        self.given, self.options.checkpoint_id = given, None
        if self.log is not None:
            self.log.take(held)

    # ---- drivers

    @property
    def relayed(self) -> frozenset[str]:
        """The modes in which this call's parts go to the consumer of the enclosing run, where nobody here consumes."""
        outer = self.outer
        if outer is None or not self.nested or not outer.program.shared.subgraphs:
            return frozenset()
        return outer.program.shared.modes

    def relay(self) -> Callable[[Part], None]:
        """What sends a part to the consumer of the enclosing run."""
        outer = self.outer
        assert outer is not None
        return outer.program.driver.sender(outer.program, outer.task)

    def _shared(self, modes: Collection[str], *, subgraphs: bool) -> Shared:
        outer = self.outer
        if "checkpoints" in modes and self.log is None and not isinstance(modes, frozenset):
            raise ConfigError(
                'the stream mode "checkpoints" needs a saver: without one there are none. Compile the graph with one, for '
                'example compile(checkpointer="memory:"), and give a thread_id'
            )
        relays = outer is not None and isinstance(modes, frozenset)  # a stream's own modes are a tuple
        return Shared(
            run_id=self.run_id,
            thread_id=self.thread_id,
            config=self.options.config,
            context=self.context,
            limit=self.options.limit,
            slots=self._slots(),
            modes=frozenset(modes),
            subgraphs=subgraphs,
            codec=self.graph.codec,
            cache=self.graph.cache
            if self.graph.cache is not None or outer is None
            else outer.program.shared.cache,
            base=outer.program.shared.base if relays and outer is not None else len(self.namespace),
            store=outer.program.store if outer is not None else None,
            level=outer.program.shared.level + 1 if outer is not None else 0,
            answers=outer.program.driver.answers_for(outer.task) if outer is not None and self.nested else {},
            observer=self.observer,
            control=self.control,
            meter=self.meter,
            runs=None if self.outer is not None and self.nested else self.graph.runs,
        )

    def sync_driver(self, modes: Collection[str], *, subgraphs: bool = False) -> SyncDriver:
        """A driver for the caller's thread."""
        shared = self._shared(modes, subgraphs=subgraphs)
        request = self._request(shared, streaming=bool(modes))
        return leaving(self, SyncDriver(shared, self.tables, request, self.log, self.outer, self.graph.loops))

    def async_driver(self, modes: Collection[str], *, subgraphs: bool = False) -> AsyncDriver:
        """A driver for the running event loop."""
        from juncture.drivers.aio import AsyncDriver

        shared = self._shared(modes, subgraphs=subgraphs)
        request = self._request(shared, streaming=bool(modes))
        return leaving(self, AsyncDriver(shared, self.tables, request, self.log, self.outer))

    def _slots(self) -> Slots | None:
        limit = self.options.max_concurrency
        if limit is not None:
            return Slots(limit)
        return self.outer.program.shared.slots if self.outer is not None else None

    # ---- driving

    def run(self) -> Any:
        """Runs to the end or the next pause; what the caller gets."""
        if self.inside:
            performed(enter(self))
        relayed = self.relayed
        driver = self.sync_driver(relayed, subgraphs=bool(relayed))
        send = self.relay() if relayed else None
        try:
            for part in driver.drive():
                if send is not None:
                    send(part)
        except BaseException as error:
            self.failed(error, driver)
            raise
        self.completed(driver)
        return self.result(driver)

    async def arun(self) -> Any:
        """As `run`."""
        if self.inside:
            await aperformed(enter(self))
        relayed = self.relayed
        driver = self.async_driver(relayed, subgraphs=bool(relayed))
        send = self.relay() if relayed else None
        try:
            if send is None:
                await driver.run()
            else:
                async for part in driver.drive():
                    send(part)
        except BaseException as error:
            await self.afailed(error, driver)
            raise
        await self.acompleted(driver)
        return self.result(driver)

    def edit(self) -> str | None:
        """Edits the state; the id of the new checkpoint."""
        driver = self.sync_driver(())
        try:
            for _ in driver.drive():
                pass
        except BaseException as error:
            self.explain(error, driver)
            raise
        return driver.root.loop.head

    async def aedit(self) -> str | None:
        """As `edit`."""
        driver = self.async_driver(())
        try:
            await driver.run()
        except BaseException as error:
            self.explain(error, driver)
            raise
        return driver.root.loop.head

    # ---- how it ended

    def failed(self, error: BaseException, driver: Driver) -> None:
        """Says on the exception where it comes from, and tells whoever listens."""
        self.explain(error, driver)
        if self.watched:
            tell_end(driver, _status_of(error), error)

    async def afailed(self, error: BaseException, driver: Driver) -> None:
        """As `failed`."""
        self.explain(error, driver)
        if self.watched:
            await atell_end(driver, _status_of(error), error)

    def completed(self, driver: Driver) -> None:
        """Tells whoever listens that the run has ended."""
        if self.watched and driver.ending is not None:
            tell_end(driver, driver.ending.status, None)

    async def acompleted(self, driver: Driver) -> None:
        """As `completed`."""
        if self.watched and driver.ending is not None:
            await atell_end(driver, driver.ending.status, None)

    def explain(self, error: BaseException, driver: Driver) -> None:
        """Puts the place and the result so far on whatever ended the run by an exception."""
        if not isinstance(error, (GeneratorExit, Pause, ParentCommand)):
            self._note_where_it_stands(driver)
            locate(error, driver.shared, (), driver.root.loop)
            add_result(error, self._result(driver, _status_of(error), driver.root.loop.asked))

    def _note_where_it_stands(self, driver: Driver) -> None:
        """Called inside a node: has the node's task know where this graph stands, which isn't done."""
        if self.outer is not None and self.nested and self.log is not None:
            task = self.outer.task.parent or self.outer.task
            with self.outer.program.driver.making:
                note_where_it_stands(task, self.namespace, driver.root.loop)

    def result(self, driver: Driver) -> Any:
        """What the caller gets."""
        ending = self.ended(driver)
        result = self._result(driver, ending.status, ending.questions)
        return result[next(iter(self.output_keys or ()))] if self.single else result

    def ended(self, driver: Driver) -> Ending:
        """How it ended; inside a node, a pause or a command for the parent goes on from here.

        Raises:
            Pause: The enclosing node is paused by questions of this graph.
            ParentCommand: A node of this graph returned a command for the enclosing one.
            GraphDrained: It ended early; of graphs that aren't nested, only lenient ones raise it.
        """
        ending = driver.ending
        assert ending is not None
        outer = self.outer
        if outer is not None and self.nested:
            if ending.questions:
                self._note_where_it_stands(driver)
                outer.questions = [*outer.questions, *ending.questions]
                raise Pause(*ending.questions)
            if ending.command is not None:
                raise ParentCommand(ending.command)
            if ending.why is not None:
                self._note_where_it_stands(driver)
                outer.early = ending.why
                raise GraphDrained(ending.why.reason, ending.why)
        elif ending.status == "drained" and not self.tables.strict and ending.why is not None:
            drained = GraphDrained(ending.why.reason)
            locate(drained, driver.shared, (), driver.root.loop)
            add_result(drained, self._result(driver, "drained", ending.questions))
            raise drained
        return ending

    def _result(self, driver: Driver, status: Status, questions: Sequence[Interrupt]) -> RunResult:
        loop, graph = driver.root.loop, self.graph
        values = values_payload(loop.state, self.output_keys)
        value: Any = MISSING
        gives = graph.tables.gives
        if gives is not None:
            value = values.get(gives) if gives == graph.tables.takes or status == "completed" else None
            values = {}
        elif (
            graph.output.kind not in ("open", "typed_dict") and status == "completed" and not self._restricts
        ):
            value = graph.output.output(values)
            values = {}
        if not graph.tables.strict and (asked := [q for q in questions if q.when == "inside"]):
            values["__interrupt__"] = asked
        checkpoint: CheckpointRef | None = None
        if loop.head is not None and self.log is not None and self.kept_as is not None:
            checkpoint = CheckpointRef(self.kept_as, driver.root.namespace, loop.head)
        return RunResult(
            values,
            status=status,
            run_id=self.run_id,
            steps=loop.taken,
            value=value,
            interrupts=tuple(questions),
            last_nodes=loop.last_nodes,
            usage=self.meter.usage(),
            checkpoint=checkpoint,
            abandoned=len(driver.abandoned),
            timings=None if self.watch is None else self.watch.timings(),
            reason=driver.ending.why.reason
            if driver.ending is not None and driver.ending.why is not None
            else None,
        )


def _status_of(error: BaseException) -> Status:
    if isinstance(error, RecursionError) and hasattr(error, "step"):
        return "limit"
    return "failed" if isinstance(error, Exception) else "cancelled"


def _outer() -> TaskContext | None:
    """The node whose code makes this call, if any."""
    context = CURRENT.get(None)
    return None if context is None or context.ended else context
