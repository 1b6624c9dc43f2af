"""A driver for tests: it performs effects in memory, and tells the loop events in the order that a test wants.

There is no thread, no event loop and no clock in it. A task's code is a *body*: a function of the `Task` that gives how
it ends, or a list of events, or a generator that yields calls and is sent their outcomes. `Script.did` is what the loop
asked for, one short text an effect, in order:

    load
    save input 0                a checkpoint: source, step ...
    save loop 1: done a:1       ... and the records that go with it
    writes question a:1, ...    records alone
    run a:1 / start a:1 / start a:1 +0.5
    wait / warn / cancel / cancel calls of a:1
    emit values
    reply one done
    writes now intent a:1       ... that must be durable at once

After every test that ran to an end, the script has checked that the loop's count of running tasks is true whenever it
waits, and that nothing runs when it has ended.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from types import GeneratorType
from typing import Annotated, Any, TypedDict

from juncture import StateGraph
from juncture.engine import effects
from juncture.engine.begin import Request
from juncture.engine.effects import Called, Done, Emit, Escaped, Event, Failed, Outcome, Paused, Stopped
from juncture.engine.run import Loop
from juncture.engine.state import Saved, State, TaskRecord
from juncture.engine.tables import SYNC, Node, Pauses, Places, Tables
from juncture.engine.task import Task
from juncture.graph.check_findings import CODES
from juncture.types import END, MISSING, START, Command, Interrupt

Body = Callable[[Task], Any]


class Stop(Exception):
    """The process is gone: raised instead of performing an effect."""


class Store:
    """What a saver holds of one namespace. Everything is copied on its way in and out, as if it were bytes."""

    def __init__(self) -> None:
        self.checkpoints: list[Saved] = []
        self.refuses: dict[int, BaseException] = {}
        """Number of a checkpoint, from 0 -> what is raised instead of saving it."""

    @property
    def head(self) -> Saved:
        return self.checkpoints[-1]

    @property
    def state(self) -> State:
        return self.head.state

    def load(self) -> Saved | None:
        return copy.deepcopy(self.checkpoints[-1]) if self.checkpoints else None

    def save(self, effect: effects.Save) -> str:
        """The records stand beside the checkpoint before."""
        name = f"checkpoint {len(self.checkpoints)}"
        follows = self.head.checkpoint_id if self.checkpoints else None
        self.checkpoints.append(Saved(name, follows, copy.deepcopy(effect.state), [], effect.source))
        return name

    def save_writes(self, records: Sequence[TaskRecord]) -> None:
        """A record about the same replaces the one that was there."""
        for record in copy.deepcopy(records):
            about = (record.task_id, record.kind, record.name)
            there = self.head.records
            there[:] = [old for old in there if (old.task_id, old.kind, old.name) != about]
            there.append(record)

    @property
    def finished(self) -> set[str]:
        """The ids of the tasks whose writes are saved beside the newest checkpoint."""
        records = (*self.state.carried, *self.head.records) if self.checkpoints else ()
        return {record.task_id for record in records if record.kind == "done"}


class Script:
    """One run of one graph.

    Args:
        tables: The graph.
        request: What is asked of it.
        bodies: Node name -> body, also for calls. A node without one ends at once and writes nothing.
        store: Where it is saved, if the request says so.
        order: Ids of tasks, or names of their nodes: which of them is heard of at each `Wait`. When they are used up,
            events are told in the order in which they were made.
        stop_at: The number of the effect, from 0, that isn't performed any more.
        finish_on_cancel: `Cancel` comes too late: what runs ends as if it hadn't come.
    """

    def __init__(
        self,
        tables: Tables,
        request: Request,
        bodies: Mapping[str, Body] | None = None,
        *,
        store: Store | None = None,
        order: Sequence[str] = (),
        stop_at: int | None = None,
        finish_on_cancel: bool = False,
        loop: Loop | None = None,
        program: effects.Program | None = None,
    ) -> None:
        self.loop = loop or Loop(tables, request)
        self.program = program or self.loop.program()
        self.bodies = dict(bodies or {})
        self.store = store if store is not None else Store()
        self.order = list(order)
        self.stop_at = stop_at
        self.finish_on_cancel = finish_on_cancel
        self.effects: list[effects.Effect] = []
        self.did: list[str] = []
        self.began: list[Task] = []
        self.emitted: list[Emit] = []
        self.warnings: list[str] = []
        self.replies: list[effects.Reply] = []
        self.events: list[Event] = []
        self.running: list[Task] = []
        self.waiting: dict[Task, GeneratorType[Event, Outcome | None, Event]] = {}

    # ---- driving

    def play(self) -> Any:
        """Performs everything, and gives how the program ended; raises what it raises."""
        reply: Any = None
        while True:
            try:
                effect = self.program.send(reply)
            except StopIteration as end:
                assert not self.running, f"ended while {self.running} ran"
                return end.value
            if self.stop_at == len(self.effects):
                self.program.close()
                raise Stop
            self.effects.append(effect)
            self.did.append(said(effect))
            reply = getattr(self, f"_{type(effect).__name__.lower()}")(effect)

    def values(self) -> dict[str, Any]:
        """The values in the end."""
        return self.play().state.values

    def _load(self, effect: effects.Load) -> Saved | None:
        return self.store.load()

    def _save(self, effect: effects.Save) -> str:
        error = self.store.refuses.get(len(self.store.checkpoints))
        if error is not None:
            self.program.throw(error)
            raise AssertionError("a program goes on without its checkpoint")
        return self.store.save(effect)

    def _savewrites(self, effect: effects.SaveWrites) -> None:
        assert effect.records, "nothing to save"
        self.store.save_writes(effect.records)

    def _start(self, effect: effects.Start) -> None:
        task = effect.task
        assert task not in self.running, f"{task} runs already"
        self.running.append(task)
        self.began.append(task)
        made = self.bodies.get(task.node.name, nothing)(task)
        if isinstance(made, GeneratorType):
            self.waiting[task] = made
            self._go_on(task, None)
        else:
            self.events += made if isinstance(made, list) else [made]

    def _go_on(self, task: Task, outcome: Outcome | None) -> None:
        try:
            self.events.append(self.waiting[task].send(outcome))
        except StopIteration as end:
            del self.waiting[task]
            self.events.append(end.value)

    def _run(self, effect: effects.Run) -> Event:
        assert not self.running, f"{effect.task} isn't the only one: {self.running}"
        self._start(effects.Start(effect.task))
        return self._tell(0)

    def _wait(self, effect: effects.Wait) -> Event:
        held = [task for task in self.held() if task not in self.running]
        assert self.loop.running == len(self.running) + len(held), "the loop counts wrong"
        if not self.order:
            return self._tell(0)
        wanted = self.order.pop(0)
        for index, event in enumerate(self.events):
            if wanted in (event.task.id, event.task.node.name):
                return self._tell(index)
        raise AssertionError(f"nothing to tell of {wanted!r}: {self.events}")

    def held(self) -> set[Task]:
        """Tasks whose own outcome waits for that of their calls."""
        return {task for task in self.began if task.held is not None}

    def _tell(self, index: int) -> Event:
        event = self.events.pop(index)
        if not isinstance(event, Called):
            self.running.remove(event.task)
        return event

    def _cancel(self, effect: effects.Cancel) -> None:
        """What is stopped isn't heard of otherwise any more, and makes no further calls."""
        if self.finish_on_cancel:
            return
        stopped = [task for task in self.running if effect.calls_of in (None, task.parent)]
        self.events = [e for e in self.events if e.task not in stopped and e.task.parent not in stopped]
        self.events += [Stopped(task) for task in stopped]
        for task in stopped:
            self.waiting.pop(task, None)

    def _emit(self, effect: Emit) -> None:
        self.emitted.append(effect)

    def _warn(self, effect: effects.Warn) -> None:
        self.warnings.append(effect.text)

    def _reply(self, effect: effects.Reply) -> None:
        self.replies.append(effect)
        caller = effect.call.task.parent if effect.call.record is None else effect.call.task
        if caller in self.waiting:
            assert caller is not None
            self._go_on(caller, effect.outcome)

    # ---- what happened

    def parts(self, mode: str) -> list[Any]:
        """What a stream mode showed."""
        return [emit.data for emit in self.emitted if emit.mode == mode]

    def ran(self) -> list[str]:
        """The ids of the tasks that were begun, in that order."""
        return [task.id for task in self.began]


def said(effect: effects.Effect) -> str:
    """An effect, as a short text."""
    match effect:
        case effects.Save(state, source):
            return f"save {source} {state.step}"
        case effects.SaveWrites(records, now):
            return f"writes {'now ' if now else ''}{_records(records)}"
        case effects.Start(task, delay):
            return f"start {task.id}{f' +{delay:g}' if delay else ''}"
        case effects.Run(task):
            return f"run {task.id}"
        case Emit():
            return f"emit {effect.mode}"
        case effects.Cancel(task) if task is not None:
            return f"cancel calls of {task.id}"
        case effects.Reply(call, outcome):
            return f"reply {call.task.id} {type(outcome).__name__.lower()}"
        case _:
            return type(effect).__name__.lower()


def _records(records: Sequence[TaskRecord]) -> str:
    return ", ".join(
        f"{record.kind} {record.task_id or getattr(record.content, 'node', '-')}" for record in records
    )


# ---- graphs and requests


class Keys(TypedDict, total=False):
    """Two keys that keep their last value, and one that collects."""

    x: Any
    y: Any
    log: Annotated[list[str], operator.add]


def typed(keys: Mapping[str, Any], *, total: bool = False) -> Any:
    """A TypedDict of these keys."""
    return TypedDict("Typed", dict(keys), total=total)


def tables(nodes: str | Mapping[str, Mapping[str, Any]], *edges: tuple[Any, Any], **options: Any) -> Tables:
    """The tables of a graph whose nodes have no code of their own: names, or names with options for `add_node`.

    Besides those of `StateGraph`, options are ``schema``, ``join`` for its joins, and ``routers``: the source of each
    conditional edge. Where those lead is up to the body of the source.
    """
    schema, join, routers = (
        options.pop("schema", Keys),
        options.pop("join", "all"),
        options.pop("routers", ()),
    )
    graph = StateGraph(
        schema, silence=tuple(CODES), **options
    )  # scripts run parts of graphs, and impossible ones
    chosen: Mapping[str, Any] = {name: {} for name in nodes.split()} if isinstance(nodes, str) else nodes
    for name, more in chosen.items():
        graph.add_node(name, _never, **more)
    for start, end in edges:
        graph.add_edge(start, end, join=join)
    for source in routers:
        graph.add_conditional_edges(source, _never)
    return graph.compile().tables


def chain(names: str, **options: Any) -> Tables:
    """START → each → END."""
    line = names.split()
    return tables(names, *zip([START, *line], [*line, END], strict=True), **options)


def fan(names: str, **options: Any) -> Tables:
    """Each in the first step."""
    return tables(names, *[(START, name) for name in names.split()], **options)


def _never(state: Any) -> None:
    raise AssertionError("a script calls bodies, never the code of a node")


def request(kind: Any = "input", limit: int = 100, **more: Any) -> Request:
    """A request; what is written is given by the keywords that aren't fields of one."""
    places = {name: Places(more.pop(name)) for name in ("before", "after") if name in more}
    fields = {name: more.pop(name) for name in list(more) if name in Request.__dataclass_fields__}
    fields.setdefault("jitter", lambda: 0.0)
    fields["writes"] = [*fields.get("writes", []), *more.items()]
    if fields.get("saving"):
        fields.setdefault("thread_id", "t")
    if any(places.values()):
        fields["pauses"] = Pauses(**places)
    return Request(kind, limit, **fields)


# ---- bodies


def nothing(task: Task) -> Done:
    """Writes nothing."""
    return Done(task, [])


def wrote(**writes: Any) -> Body:
    """Writes these keys."""
    return lambda task: Done(task, [(name, copy.deepcopy(value)) for name, value in writes.items()])


def added(task: Task) -> Done:
    """Writes the task's id to ``log``."""
    return Done(task, [("log", [task.id])])


def went(*targets: str, sends: Sequence[Any] = (), **writes: Any) -> Body:
    """Writes, and says where to go."""

    def body(task: Task) -> Done:
        done = Done(task, list(writes.items()))
        done.targets, done.sends = list(targets), list(sends)
        return done

    return body


def failed(error: Exception) -> Body:
    """Raises."""
    return lambda task: Failed(task, error)


def escaped(command: Command[Any] | None = None) -> Body:
    """Returns a command for an enclosing graph."""
    return lambda task: Escaped(task, command or Command(graph=Command.PARENT))


def in_turn(*bodies: Body) -> Body:
    """Each try does what stands at its place; the last also for all further ones."""
    left = list(bodies)
    return lambda task: (left.pop(0) if len(left) > 1 else left[0])(task)


def question(task: Task, name: str, value: Any = None, key: str | None = None) -> Interrupt:
    """A question of a task."""
    return Interrupt(value if value is not None else name, f"{task.id}?{name}", task.node.name, (), key)


def answer(task: Task, name: str) -> Any:
    """The answer to a question of a task; `MISSING` if there is none."""
    identity = f"{task.id}?{name}"
    found = [r.content for r in task.records or () if r.kind == "answer" and r.name == identity]
    return found[-1] if found else MISSING


def asked(*names: str, then: Body = nothing) -> Body:
    """Asks all questions at once, as parallel calls do, and does `then` when all have their answer."""

    def body(task: Task) -> Event:
        unanswered = [question(task, name) for name in names if answer(task, name) is MISSING]
        return Paused(task, unanswered) if unanswered else then(task)

    return body


def call(parent: Task, name: str, node: str = "call", **options: Any) -> Called:
    """A call that a task makes: a task of its own, with the node's name for its body."""
    code = Node(node, SYNC, _never, _never, _never, **options)
    made = Task(code, parent.step, parent.place, {}, parent.remaining)
    made.parent = parent
    made.identity = name
    return Called(made)


def result(value: Any) -> Body:
    """The body of a call that returns."""
    return lambda task: Done.of_call(task, value)


def notes(error: BaseException) -> str:
    """The notes on an exception."""
    return "\n".join(getattr(error, "__notes__", []))
