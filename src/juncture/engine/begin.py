"""How a run begins: with an input, by going on, or with a command.

Whatever the beginning, it leaves the loop with a committed state that says what is due, and, with a saver, saved.
The input of a run is merged into what the thread holds like the writes of a node (`START`), in a step of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from juncture.engine import streaming
from juncture.engine.answers import check_answers
from juncture.engine.commit import apply, log_own, merge
from juncture.engine.edit import edit
from juncture.engine.effects import Done, Failed, Load, Outcome, Program, Run, Warn
from juncture.engine.goback import Back, go_back
from juncture.engine.interrupts import listed, match, open_questions, pauses_after
from juncture.engine.journal import check_settlements
from juncture.engine.pauses import decide_routes
from juncture.engine.plan import advance, unfinished, upcoming
from juncture.engine.state import Around, Saved, State, TaskRecord
from juncture.engine.tables import Pauses, Tables
from juncture.engine.task import Task
from juncture.errors import ConfigError, InvalidUpdateError, NothingToResumeError, PendingInterruptError
from juncture.types import MISSING, START, Interrupt, Send, StateUpdate

if TYPE_CHECKING:
    from juncture.engine.run import Loop


@dataclass(slots=True)
class Request:
    """What is asked of a run of one graph."""

    kind: Literal["input", "nested", "continue", "command", "update"]
    """``nested``: go on if there is a checkpoint, else begin with `writes`. ``update``: edit the state, and run nothing."""
    limit: int
    jitter: Callable[[], float]
    """Gives a number from 0 to 1, for waits between retries."""
    writes: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """The input, or a command's update; copied and checked."""
    targets: list[str] = field(default_factory=list[str])
    """Of a command: nodes to go to."""
    sends: list[Send] = field(default_factory=list[Send])
    """Of a command: sends."""
    resume: Any = MISSING
    """Of a command: the answer or answers, as given."""
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    """For nested graphs: answers by the id of their question."""
    discards: bool = False
    """Of an input: it drops the questions of a thread that waits for answers, instead of being refused."""
    saving: bool = False
    thread_id: str | None = None
    origin: str = ""
    """The thread's name in the ids of questions; of a copied thread, that of the one it was copied from."""
    checkpoint_id: str | None = None
    """Where to go on from, if not from the newest checkpoint."""
    namespace: tuple[str, ...] = ()
    modes: frozenset[str] = frozenset()
    """The stream modes that somebody consumes from this graph."""
    value_keys: frozenset[str] | None = None
    """What ``values`` shows; None for everything."""
    update_keys: frozenset[str] | None = None
    """What ``updates`` shows; None for everything."""
    pauses: Pauses | None = None
    """Where it pauses, from outside its nodes' code."""
    shared_keys: frozenset[str] = frozenset()
    """Of a nested graph: keys whose writes its parent takes one by one."""
    owner: str = ""
    """Of a nested graph with a memory of its own: the parent's task that it runs for."""
    memory: str | None = None
    """Of such a graph: the checkpoint at which it stood, as far as the parent knows; None where it never ran; empty where
    the parent doesn't know, because a function called it: the newest."""
    around: Callable[[], Around] | None = None
    """Of a nested graph: what of its parent its next checkpoint is made in."""
    since: tuple[str, ...] | None = None
    """Of one whose namespace may hold what was done on another branch of the parent: the parent's checkpoints around which
    a checkpoint has to be made to count as this branch's. None where every one is."""
    stood: str = ""
    """Of such a graph: the checkpoint at which it stood when this branch began; empty where it hadn't begun."""
    supersteps: Sequence[Sequence[StateUpdate]] = ()
    """Of an update: what is written, a checkpoint for each."""
    back: Back | None = None
    """Of an update: how it goes back, also from what is the newest checkpoint."""
    steered: bool = False
    """Somebody may have it end early: each step begins by `Proceed`."""
    returns: bool = False
    """It is nested and its parent wants to know what it wrote."""

    observed: bool = False
    """Somebody listens to what happens in it."""
    seen: set[str] = field(default_factory=set[str])
    """The ids of messages that ``messages`` has shown, or that were there before; shared by all graphs of a call."""

    shows_values: bool = field(init=False, default=False)
    shows_updates: bool = field(init=False, default=False)
    shows_tasks: bool = field(init=False, default=False)
    shows_messages: bool = field(init=False, default=False)
    shows_checkpoints: bool = field(init=False, default=False)
    shows_ends: bool = field(init=False, default=False)
    """Something has to be shown for every task that ends."""
    listens: bool = field(init=False, default=False)
    """Something has to be done for every task that ends."""
    watches: bool = field(init=False, default=False)
    """Something has to be done for every step that ends."""

    def __post_init__(self) -> None:
        modes = self.modes
        self.origin = self.origin or self.thread_id or ""
        self.shows_values = "values" in modes
        self.shows_updates = "updates" in modes
        self.shows_tasks = self.observed or "tasks" in modes or "debug" in modes
        self.watches = self.saving or self.shows_values or self.returns or self.pauses is not None
        self.shows_messages = "messages" in modes
        self.shows_checkpoints = "checkpoints" in modes or "debug" in modes
        self.shows_ends = self.shows_updates or self.shows_tasks or self.shows_messages
        self.listens = self.saving or self.shows_ends


def begin(loop: Loop) -> Program:
    """Gives the loop its state.

    Raises:
        PendingInterruptError: Input for a thread with open questions.
        NothingToResumeError: Nothing to go on with.
        Exception: What the input's merge or a router of `START` raised. Nothing was saved.
    """
    request = loop.request
    shown = True
    saved = (yield from _load(loop)) if request.saving else None
    if loop.tables.exposed:
        loop.state.flat = None
    if request.kind == "update":
        yield from edit(loop, request.supersteps)
        return
    if request.observed and not request.namespace:
        loop.greeting = "start" if request.kind == "input" or saved is None else "resume"
    if request.kind == "input" or (request.kind == "nested" and _visits(request, saved)):
        shown = yield from _take_input(loop, saved)
    elif request.kind == "command":
        yield from _take_command(loop, saved)
    else:
        yield from _go_on(loop, saved)
    yield from loop.greet()
    if loop.state.unrouted:
        yield from decide_routes(loop)
    shown = shown and loop.tables.takes == loop.tables.gives  # else an input is no part of what shows
    if request.shows_values and shown and not (request.kind == "nested" and not _visits(request, saved)):
        yield loop.values_part()
    if request.shows_messages:
        request.seen.update(streaming.known_messages(loop.state.values))


def _visits(request: Request, saved: Saved | None) -> bool:
    """Whether a nested graph begins, instead of going on."""
    return saved is None or bool(request.owner and saved.state.owner != request.owner)


def _load(loop: Loop) -> Program:
    """Takes the thread's state up; None where there is nothing to go on from."""
    request = loop.request
    saved, returns = yield from _found(request)
    if saved is None:
        return None
    state = saved.state
    if request.kind not in ("input", "update"):
        check_known(loop.tables, state, request.thread_id)
    loop.head, loop.newest, loop.state = saved.checkpoint_id, saved.head_id or saved.checkpoint_id, state
    request.origin = state.origin or request.origin
    loop.beside = {(record.task_id, record.kind, record.name) for record in saved.records}
    stored = saved.records
    if request.back is not None and request.back.inside is not None:
        stored = stored[: request.back.inside.known]
    saved.records = [
        *state.carried,
        *pauses_after(request.origin, request.namespace, state),
        *stored,
    ]
    if returns or not saved.is_newest:
        go_back(request, saved)
        loop.back = True
    loop.records = saved.records
    return saved


def _found(request: Request) -> Program:
    """The checkpoint that a run goes on from, or None; and whether it goes back to it even if it is the newest."""
    saved: Saved | None = yield Load(request.checkpoint_id)
    returns = request.back is not None
    if saved is not None and _is_of_another_branch(request, saved):
        if request.stood:
            saved, returns = (yield Load(request.stood)), True
        elif not request.owner:
            return None, False
        else:
            saved.state.owner = ""  # whichever task left it, it wasn't this one
    if saved is not None and request.owner and saved.state.owner != request.owner:
        if request.memory is None:
            return None, False  # what is there belongs to a branch of the parent's history that was left
        if request.memory and saved.checkpoint_id != request.memory:
            saved = yield Load(request.memory)
            assert saved is not None
    return saved, returns


def _is_of_another_branch(request: Request, saved: Saved) -> bool:
    """Whether the newest state of a nested graph is what another branch of its parent left there."""
    around = saved.state.around
    return request.since is not None and around is not None and around.checkpoint_id not in request.since


def _take_input(loop: Loop, saved: Saved | None) -> Program:
    """Merges the input and saves it; returns whether it shows in ``values``."""
    state, request, tables = loop.state, loop.request, loop.tables
    if saved is not None:
        yield from _start_over(loop, saved)
    else:
        state.values.update(tables.initial())
    entry = Task(tables.entry, state.step, 0, state.values, request.limit)
    done: Outcome = Done(entry, [])
    changes = merge(tables, state, [(START, request.writes)])
    apply(state, changes)
    if tables.entry.routers:
        done = yield Run(entry)
        if isinstance(done, Failed):
            loop.failed = entry
            raise done.error
        if not isinstance(done, Done):
            raise InvalidUpdateError(
                "a router of START can't pause the run or leave for an enclosing graph: nothing has been saved yet. "
                "Ask from a node",
                node=START,
            )
        for text in done.ignored:
            yield Warn(text)
        if done.writes:
            apply(state, merge(tables, state, [(START, done.writes)]))
            if request.returns:
                log_own(state, request.shared_keys, done.writes)
    advance(tables, state, [done])
    if request.saving:
        _mark(state, request)
        yield from loop.save("input")
    return tables.strict or loop.shows(changes)


def _mark(state: State, request: Request) -> None:
    """Notes on a state that an input made whose it is."""
    state.ran = (START,)
    if request.owner:
        state.owner = request.owner
        state.branch = request.owner.rpartition(":")[2].partition("~")[2]
    if request.since is not None:
        state.branch = request.since[0]  # its tasks aren't those of the branch that left something here
    if request.origin != request.thread_id:
        state.origin = request.origin


def _start_over(loop: Loop, saved: Saved) -> Program:
    """Makes a thread that has been run before ready for new input: what it was due to do is dropped."""
    state, request, tables = loop.state, loop.request, loop.tables
    checks = tables.strict and not request.owner  # a parent that begins a graph anew has left what it was at
    questions = open_questions(saved.records)
    if questions and checks:
        if not request.discards:
            raise PendingInterruptError(
                "the thread waits for answers, and plain input would lose its questions. Answer with "
                'Command(resume=…), go on with None, or give on_pending="discard" to drop what is asked. '
                f"{listed(questions)}"
            )
        yield Warn(
            f"thread {request.thread_id!r} waited for answers, and new input drops its questions. {listed(questions)}"
        )
    elif unfinished(tables, state) and checks:
        waiting = (*state.due, *(send.node for send in state.sends), *state.deferred)
        due = ", ".join(repr(name) for name in waiting) or "a join"
        yield Warn(
            f"thread {request.thread_id!r} had not finished (due: {due}); its new input starts over from START on "
            "the committed state. To go on instead, give None as the input"
        )
    state.step += 1
    state.sends, state.deferred, state.carried, state.paused_after = (), (), (), ()
    state.written, state.touched, state.edited, state.unrouted = (), (), (), ()
    if tables.strict:
        state.joins = {}
    loop.records = ()


def _go_on(loop: Loop, saved: Saved | None) -> Program:
    """Continues a paused, failed or interrupted thread; a nested graph that had finished just ends again."""
    request = loop.request
    if saved is None:
        raise NothingToResumeError(
            f"there is nothing to go on with: thread {request.thread_id!r} has no checkpoint. Give an input"
        )
    state = saved.state
    over = not (state.due or state.sends or state.deferred or state.joins or state.unrouted)
    questions = open_questions(saved.records)
    if request.kind == "continue" and over and not questions and loop.tables.strict:
        raise NothingToResumeError(
            f"there is nothing to go on with: thread {request.thread_id!r} has finished. Give an input"
        )
    if loop.back:
        yield from loop.save("fork")
    answers = {q.id: request.answers[q.id] for q in questions if q.id in request.answers}
    new = _answer_records(loop, answers | _passed(loop, questions))
    if new:
        yield loop.noting(new)


def _passed(loop: Loop, questions: Sequence[Interrupt]) -> dict[str, Any]:
    """The pauses before and after nodes of this very graph: going on passes them."""
    return {q.id: None for q in questions if q.when != "inside" and q.namespace == loop.request.namespace}


def _take_command(loop: Loop, saved: Saved | None) -> Program:
    request, state = loop.request, loop.state
    if saved is None:
        state.values.update(loop.tables.initial())
    updates = bool(request.writes or request.targets or request.sends)
    if request.resume is not MISSING:
        questions = open_questions(saved.records) if saved is not None else []
        strict = loop.tables.strict
        answers = match(request.resume, questions, strict=strict) if questions or strict else {}
        check_settlements(saved.records if saved is not None else (), answers)
        check_answers(questions, answers)
        request.answers.update(answers)
        if loop.back and not updates:
            yield from loop.save("fork")
        new = _answer_records(loop, _passed(loop, questions) | answers)
        if new and not updates:
            yield loop.noting(new)
    if updates:
        apply(state, merge(loop.tables, state, [(START, request.writes)]))
        targets, deferred = set(request.targets), loop.tables.deferred
        state.due = tuple(sorted({*state.due, *(targets - deferred)}))
        state.deferred = tuple(sorted({*state.deferred, *(targets & deferred)}))
        state.sends = (*state.sends, *request.sends)
        if request.saving:
            # The step stays the same: so do the ids of its tasks, and what was saved about them is carried along.
            state.carried, state.paused_after = tuple(_of_this_step(loop)), ()
            if loop.head is not None and not loop.back:
                state.edited = (*state.edited, loop.head)
            yield from loop.save("command")


def _of_this_step(loop: Loop) -> Sequence[TaskRecord]:
    """What is known about the tasks that are due; what ran ahead of them ran on a state that was updated now."""
    if not loop.tables.dataflow:
        return loop.records
    due = {identity for identity, _, _ in upcoming(loop.tables, loop.state)}
    loop.records = [record for record in loop.records if not record.task_id or record.task_id in due]
    return loop.records


def _answer_records(loop: Loop, answers: dict[str, Any]) -> list[TaskRecord]:
    """Answers as records, added to what is known; saved before any task sees them, so that a crash asks nobody twice."""
    new: list[TaskRecord] = []
    seen: set[tuple[str, str]] = set()
    for record in loop.records:
        place = (record.task_id, record.name)
        if record.kind in ("question", "paused", "doubt") and record.name in answers and place not in seen:
            seen.add(place)
            new.append(TaskRecord(record.task_id, "answer", record.name, answers[record.name]))
    loop.records = [*loop.records, *new]
    return new


def check_known(tables: Tables, state: State, thread_id: str | None) -> None:
    """Refuses a state that leads to what the graph no longer has.

    Raises:
        ConfigError: Names thread and node.
    """
    due = (*state.due, *(send.node for send in state.sends), *state.deferred, *state.unrouted)
    for name in due:
        if name not in tables.nodes:
            raise ConfigError(
                f"thread {thread_id!r} is due to run node {name!r}, which this graph doesn't have. It was saved by another "
                f"version of the graph: run it with that one, or keep a node of that name. Known nodes: "
                f"{', '.join(sorted(tables.nodes))}"
            )
    for name in state.joins:
        if name not in tables.joins:
            raise ConfigError(
                f"thread {thread_id!r} waits in the join {name!r}, which this graph doesn't have. It was saved by another "
                "version of the graph: run it with that one, or keep the join"
            )


__all__ = ["Request", "begin", "check_known"]
