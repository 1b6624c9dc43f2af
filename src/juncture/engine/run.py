"""One run of one graph, as a generator of effects: the only loop in the engine.

    begin -> (plan -> execute -> collect -> commit -> checkpoint -> emit)* -> end

`Loop.program` is that sequence; read it first. It yields effects and is sent their answers (see `effects`); it holds no
thread, no clock and no resource, so closing it at any point needs no cleaning up. Plain, streaming, parallel, nested
and resumed nodes all pass through it: what differs is data (an outcome, a record, a write), never the path.

What is true at every `yield`:

* `state` is a committed state; the writes of a step that has not ended are in `outcomes` only.
* With a saver, everything that a restart needs to come to the same `state` was saved, except the outcomes in
  `unsaved`, which were made since the last effect.
* `running` counts the tasks that were started and have not been heard of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from juncture.engine import streaming
from juncture.engine.ahead import Ahead, check_writes, done_record, saved_done
from juncture.engine.begin import Request, begin
from juncture.engine.calling import after_calls, call_ended, called
from juncture.engine.commit import Before, Changes, apply, finish, log_own, merge, remember, restore
from juncture.engine.effects import (
    Called,
    Cancel,
    Done,
    Emit,
    Ending,
    Escaped,
    Event,
    Failed,
    Outcome,
    Paused,
    Proceed,
    Program,
    Run,
    Save,
    SaveWrites,
    Start,
    Tell,
    TimedOut,
    Wait,
    Warn,
)
from juncture.engine.ends import no_parent, not_done, pause, question_records, revoked, taken_back
from juncture.engine.fallbacks import fall_back, falls_back, recalled
from juncture.engine.interrupts import answers_in
from juncture.engine.journal import doubt_records
from juncture.engine.limits import timed_out
from juncture.engine.pauses import Stops, after_tasks, before_step, stand
from juncture.engine.plan import advance, plan, revive
from juncture.engine.retry import delay_before_retry
from juncture.engine.state import State, TaskRecord
from juncture.engine.tables import Tables
from juncture.engine.task import Task, input_of
from juncture.errors import (
    GraphRecursionError,
    InvalidUpdateError,
    JunctureError,
    described,
)
from juncture.types import Interrupt

_WAIT = Wait()
_PROCEED = Proceed()


class Loop:
    """The state of one running graph, and the sequence of its steps."""

    __slots__ = (
        "ahead",
        "asked",
        "back",
        "beside",
        "ending",
        "failed",
        "greeting",
        "head",
        "last_nodes",
        "newest",
        "outcomes",
        "records",
        "request",
        "running",
        "state",
        "stopping",
        "stops",
        "tables",
        "taken",
        "tasks",
        "undo",
        "undone",
        "unsaved",
    )

    def __init__(self, tables: Tables, request: Request) -> None:
        """Nothing happens before `program` is first advanced."""
        self.tables = tables
        self.request = request
        self.state = State()
        self.records: Sequence[TaskRecord] = ()
        self.tasks: list[Task] = []
        self.outcomes: list[Outcome | None] = []
        self.unsaved: list[TaskRecord] = []
        self.ahead = Ahead(self) if tables.dataflow else None
        self.running = 0
        self.taken = 0
        self.stopping = False
        self.undone = False
        self.stops: Stops | None = None
        """Where to pause after the step, once that is looked for."""
        self.ending: Ending | None = None
        self.failed: Task | None = None
        self.asked: list[Interrupt] = []
        """The questions that are open at the end."""
        self.undo: Before | None = None
        """While a step is being saved: what it changed, as it was."""
        self.greeting: Literal["start", "resume"] | None = None
        """What listeners are still to be told of the run's beginning."""
        self.head: str | None = None
        self.newest = ""
        """The newest checkpoint when this run loaded."""
        self.back = False
        """It went back to an older state, and hasn't saved that as a fork yet."""
        self.beside: set[tuple[str, str, str]] = set()
        """Task, kind and name of the records beside the newest checkpoint."""
        self.last_nodes: tuple[str, ...] = ()

    def program(self) -> Program:  # noqa: C901 - the sequence is one function, to be read as one
        """The whole run. Returns an `Ending`.

        Raises:
            GraphRecursionError: The limit of steps was reached.
            Exception: What a node, a router, a reducer or the saver raised. Nothing of that step was applied.
        """
        yield from begin(self)
        request = self.request
        if request.kind == "update":
            return Ending("completed", self.state)
        late = 0 if self.tables.strict else 1  # LangGraph's count of remaining steps is one less
        while self.ending is None and self._more():
            if request.steered and (why := (yield _PROCEED)) is not None:
                self.ending = Ending(why.status, self.state, why=why)
                break
            tasks = self.tasks = plan(self.tables, self.state, request.limit - self.taken - late)
            if request.pauses is not None and (yield from before_step(self, tasks)):
                break
            self.taken += 1
            if len(tasks) == 1 and not (self.records or request.shows_tasks or self.ahead):
                event = yield Run(tasks[0])
                if (
                    type(event) is Done
                    and event.task.parent is None
                    and not (request.shows_ends or event.task.questions or event.ignored)
                ):
                    # The common case of what `_collect` does. What there is to save, the checkpoint says.
                    self.outcomes = [event]
                else:
                    self.outcomes = [None]
                    self.running = 1
                    yield from self._collect(event)
            else:
                yield from self._start()
            if (request.pauses is not None or self.stops is not None) and not self.undone:
                yield from after_tasks(self)
            if self.undone:
                if self.ahead is not None:
                    yield from self.ahead.drain(cancels=self.stopping)
                yield from not_done(self)
                break
            ended: list[Done] = self.outcomes  # pyright: ignore[reportAssignmentType] - all are Done
            try:
                changes = self._commit(ended)
            except Exception as error:
                if self.ahead is not None:
                    yield from self.ahead.drain(cancels=True)
                if request.saving and len(ended) > 1:
                    yield self.noting([*self.unsaved, *revoked(ended, error)])
                raise
            if request.watches:
                yield from self._checkpoint(changes)
        if self.ending is None:
            self.ending = Ending("completed", self.state)
            if self.tables.finishing:
                finish(self.tables, self.state)
        return self.ending

    # ---- plan

    def _more(self) -> bool:
        """Whether another step is due. Reaching the limit is an error only if there is something left to do."""
        state = self.state
        if self.taken >= self.request.limit and not self.tables.strict:
            raise self._limit_reached()
        if not (state.due or state.sends or revive(self.tables, state)):
            return False
        if self.taken >= self.request.limit:
            raise self._limit_reached()
        return True

    def _limit_reached(self) -> GraphRecursionError:
        last = ", ".join(repr(name) for name in self.last_nodes) or "none"
        due = ", ".join(repr(name) for name in (*self.state.due, *(send.node for send in self.state.sends)))
        error = GraphRecursionError(
            f"Recursion limit of {self.request.limit} reached without hitting a stop condition: {self.taken} supersteps "
            f"ran, last {last}; due next: {due or 'nothing'}. What was committed stays. Look for a loop without an exit, "
            'or allow more steps: config={"recursion_limit": n}'
        )
        error.step = self.state.step
        return error

    # ---- execute and collect

    def _start(self) -> Program:
        """Starts the tasks side by side, and runs them until each has an outcome."""
        tasks = self.tasks
        self.outcomes = [None] * len(tasks)
        ended = [] if self.ahead is None else self.ahead.promote(tasks)
        if self.records:
            yield from self._recall()
        early = {outcome.task for outcome in ended}
        running = [task for task in tasks if self.outcomes[task.place] is None and task not in early]
        fresh = [task for task in running if not task.ahead]
        self.running = sum(1 + task.calls for task in running)
        for task in fresh if self.request.shows_tasks else ():
            yield from self.show_start(task)
        for outcome in ended:
            yield from self.take_up(outcome)
        if len(tasks) == 1 and fresh:
            yield from self._collect((yield Run(fresh[0])))
            return
        for task in fresh:
            yield Start(task)
        if self.ahead is not None:
            yield from self.ahead.go_on()
        if self.running:
            yield from self._collect((yield _WAIT))

    def take_up(self, outcome: Outcome) -> Program:
        """Takes up how a task ended that ran ahead of its step."""
        if not isinstance(outcome, Done):
            yield from self._ended(outcome)
            return
        self.outcomes[outcome.task.place] = outcome
        if self.request.listens:
            yield from self._heard_done(outcome)

    def _collect(self, event: Event) -> Program:
        """Takes up events until every task has an outcome."""
        listens = self.request.listens
        while True:
            task = event.task
            if self.ahead is not None:
                yield from self.ahead.heard(event)
            elif (
                type(event) is Done
                and task.parent is None
                and not (task.calls or task.questions or task.strays)
            ):
                self.running -= 1
                self.outcomes[task.place] = event
                for text in event.ignored:
                    yield Warn(text)
                if listens:
                    yield from self._heard_done(event)
            else:
                yield from self.hear(event)
            if not self.running:
                break
            event = yield _WAIT

    def counts(self, task: Task, change: int) -> None:
        """Counts what runs of this step, or ahead of it, with the calls that it makes."""
        if self.ahead is not None and self.ahead.has(task):
            self.ahead.running += change
        else:
            self.running += change

    def _recall(self) -> Program:
        """Takes up what an earlier run saved about these tasks."""
        for place, due in enumerate(self.tasks):
            if due.ahead:
                continue  # it knows already
            task = self.tasks[place] = recalled(due, self.records)
            mine = [record for record in self.records if record.task_id == task.id]
            if not mine:
                continue
            answered = answers_in(mine)
            asked = [record for record in mine if record.kind == "question"]
            waiting = [record.content for record in asked if record.name not in answered]
            static = any(
                question.when != "inside" for question in waiting
            )  # of a graph nested in it: gone on from
            done = saved_done(task, mine)
            if done is not None:
                self.outcomes[task.place] = done
                if task.unrouted is not None:
                    self.stops = Stops()  # its routers weren't asked: they are, whatever this run pauses for
                if self.request.shows_updates:
                    yield self._update_part(done)
                continue
            task.records = mine
            if waiting and len(waiting) == len(asked) and self.tables.strict and not static:
                self.outcomes[task.place] = Paused(task, waiting)
                self.undone = True

    def show_start(self, task: Task) -> Program:
        """Shows a task that begins to whoever wants to know."""
        if self.request.observed:
            yield Tell("before", dict(self.state.values), task.step, task)
        if not self.request.modes:
            return
        try:
            given = input_of(task, self.state.flat)
        except Exception:  # noqa: BLE001 - the task itself will fail with it
            given = None
        yield from self.show_task("task", streaming.task_payload(task, given), task)

    def show_task(self, kind: str, payload: Any, task: Task) -> Program:
        """Shows that a task begins or has ended."""
        step, name, place = task.step, task.node.name, task.place
        if "tasks" in self.request.modes:
            yield Emit("tasks", payload, step, name, place)
        if "debug" in self.request.modes:
            yield Emit("debug", (kind, payload), step, name, place)  # the driver adds the time

    def show_end(self, outcome: Outcome) -> Program:
        """Shows a task that ended to whoever wants to know."""
        if self.request.observed:
            yield streaming.told_end(self.tables, self.state, outcome)
        if self.request.modes:
            yield from self.show_task(
                "task_result", streaming.result_payload(self.tables, outcome), outcome.task
            )

    def _heard_done(self, done: Done) -> Program:
        """Saves and shows what a task did, unless the step's checkpoint is about to say it."""
        request = self.request
        if request.saving and len(self.tasks) > 1:
            self.unsaved.append(done_record(done))
            if self.running:
                yield from self.flush()
        if request.shows_updates and (done.late or not done.streamed):
            yield self._update_part(done)
        if request.shows_messages:
            for data in streaming.finished_messages(request, done, strict=self.tables.strict):
                yield Emit("messages", data, done.task.step, done.task.node.name, done.task.place)
        if request.shows_tasks:
            yield from self.show_end(done)

    def _update_part(self, done: Done) -> Emit:
        task = done.task
        data: dict[str, Any] = {
            task.node.name: streaming.updates_payload(done.late or done.writes, self.request.update_keys)
        }
        if done.saved or done.cached:
            data["__metadata__"] = {"cached": True}
        return Emit("updates", data, task.step, task.node.name, task.place)

    def noting(self, records: list[TaskRecord], *, now: bool = False) -> SaveWrites:
        """Saves records beside the newest checkpoint."""
        self.beside.update([(record.task_id, record.kind, record.name) for record in records])
        return SaveWrites(records, now)

    def flush(self) -> Program:
        """Saves what is known about the step's tasks and wasn't saved yet."""
        if self.unsaved:
            records, self.unsaved = self.unsaved, []
            yield self.noting(records)

    def hear(self, event: Event) -> Program:  # noqa: C901 - one arm for every kind of event
        """Everything but a node that is simply done."""
        if isinstance(event, TimedOut):
            event = timed_out(event)
        task = event.task
        if isinstance(event, Called):
            yield from called(self, event)
        elif task.calls:
            task.held = event  # its calls are awaited first: they may still ask something
            if isinstance(event, Failed):
                yield Cancel(task)
        elif task.questions or task.strays:
            yield from self.hear(after_calls(task, event))
        elif isinstance(event, Escaped) and not self.request.namespace:
            yield from self.hear(Failed(task, no_parent(event)))
        elif isinstance(event, Failed) and (delay := self._retry_delay(event)) is not None:
            yield from self._try_again(task, delay)
        elif isinstance(event, Failed) and falls_back(self, event):
            yield from fall_back(self, event)
        elif task.parent is not None:
            yield from call_ended(self, event, task.parent)
        elif self.ahead is not None and self.ahead.has(task):
            self.ahead.keep(event)
        else:
            self.running -= 1
            yield from self._ended(event)

    def _try_again(self, task: Task, delay: float) -> Program:
        if task.chunks:
            yield streaming.discarded(self.request, task)
        again = task.next_try()
        if task.parent is None:
            if self.ahead is not None and self.ahead.has(task):
                self.ahead.replace(again)
            else:
                self.tasks[task.place] = again
        yield Start(again, delay)

    def _retry_delay(self, event: Failed) -> float | None:
        if self.stopping or not isinstance(event.error, Exception):
            return None
        return delay_before_retry(event.task.node.retry, event.error, event.task.attempt, self.request.jitter)

    def _ended(self, event: Outcome) -> Program:
        task = event.task
        self.outcomes[task.place] = event
        if isinstance(event, Done):
            if self.request.listens:
                yield from self._heard_done(event)
            return
        self.undone = True
        self.unsaved += [TaskRecord(task.id, "nested", head, level) for level, head in task.stands]
        if isinstance(event, Paused):
            self.unsaved += [
                *question_records(task.id, event.questions),
                *taken_back(task.id, event.questions),
            ]
        elif isinstance(event, Failed):
            self.unsaved.append(TaskRecord(task.id, "failed", "", described(event.error)))
            self.unsaved += doubt_records(task.id, event.error)
        if self.request.shows_tasks:
            yield from self.show_end(event)
        if isinstance(event, (Failed, Escaped)) and self.running and not self.stopping:
            self.stopping = True
            yield Cancel()

    # ---- commit, checkpoint, emit

    def _commit(self, ended: list[Done]) -> Changes:
        """Applies a step whose tasks are all done. Raises before anything is applied, or not at all."""
        state, tables = self.state, self.tables
        first = ended[0]
        if tables.declares:
            check_writes(ended)
        if len(ended) == 1:
            name = first.task.node.name
            changes = first.changes or merge(tables, state, ((name, first.writes),))
            self.last_nodes = (name,)
        else:
            changes = merge(tables, state, [(done.task.node.name, done.writes) for done in ended])
            self.last_nodes = tuple([done.task.node.name for done in ended])
        if tables.check_model is not None:
            self.check_model(tables.check_model, changes, ended)
        if self.request.saving:
            self.undo = remember(state, changes)
        apply(state, changes)
        advance(tables, state, ended)
        state.step += 1
        self.records = self.ahead.of_later_steps() if self.ahead is not None else ()
        return changes

    def _checkpoint(self, changes: Changes) -> Program:
        """Saves and shows a step that was committed, and pauses after it if that was asked for."""
        state, request = self.state, self.request
        if request.returns:
            self._log(self.outcomes)  # pyright: ignore[reportArgumentType] - all are Done
        state.paused_after, state.carried = (), tuple(self.records)
        stops = stand(self) if self.stops is not None else []
        if request.saving:
            state.edited = ()
            state.ran = self.last_nodes
            self.unsaved = []  # what the last tasks of the step did is in the checkpoint
            try:
                yield from self.save("loop")
            except BaseException as error:
                self._not_saved(error)
                raise
        if request.shows_values and (self.tables.strict or self.shows(changes)):
            yield self.values_part()
        if stops:
            yield from pause(self, stops, saved=True)

    def greet(self) -> Program:
        """Tells listeners that the run begins, once."""
        greeting, self.greeting = self.greeting, None
        if greeting is not None:
            yield Tell(greeting, dict(self.state.values), self.state.step)

    def save(self, source: str) -> Program:
        """Saves the state as the newest checkpoint, and shows it."""
        if self.greeting is not None:
            yield from self.greet()
        before = self.head
        if self.request.around is not None:
            self.state.around = self.request.around()
        self.head = yield Save(self.state, source)
        if self.beside:
            self.beside = set()  # nothing stands beside the new one yet
        if self.request.observed:
            yield Tell("checkpoint", dict(self.state.values), self.state.step, content=self.head)
        if self.request.shows_checkpoints:
            shown = streaming.checkpoint_payload(self.tables, self.state, source, self.head, before)
            if "checkpoints" in self.request.modes:
                yield Emit("checkpoints", shown, self.state.step)
            if "debug" in self.request.modes:
                yield Emit("debug", ("checkpoint", shown), self.state.step)

    def _not_saved(self, error: BaseException) -> None:
        """The step wasn't saved, so it doesn't count: the state is again what the thread holds."""
        assert self.undo is not None
        restore(self.state, self.undo)
        self.taken -= 1
        if isinstance(error, JunctureError) and len(self.tasks) == 1:
            error.node = error.node or self.tasks[0].node.name

    def values_part(self) -> Emit:
        """What ``values`` shows of the state as it is."""
        data = streaming.shown_values(self.state, self.request.value_keys, only=self.tables.gives)
        return Emit("values", data, self.state.step)

    def shows(self, changes: Changes) -> bool:
        """Whether the changes show in ``values``."""
        keys = self.request.value_keys
        return bool(changes.values) if keys is None else not keys.isdisjoint(changes.values)

    def check_model(
        self, check: Callable[[dict[str, Any]], dict[str, Any]], changes: Changes, ended: list[Done]
    ) -> None:
        """Model-level validation of what the state is about to become; what it coerces becomes part of the step."""
        preview = State(values=dict(self.state.values))
        apply(preview, changes)
        try:
            changes.values.update(check(preview.values))
        except Exception as error:
            names = ", ".join(repr(done.task.node.name) for done in ended)
            raise InvalidUpdateError(
                f"the state after step {self.state.step + 1} is refused by its schema: {error}. "
                f"Nothing was applied; it was written by {names}",
                node=ended[0].task.node.name,
            ) from error

    def _log(self, ended: Sequence[Done]) -> None:
        """Remembers a nested graph's own writes for its parent."""
        for done in ended:
            log_own(self.state, self.request.shared_keys, done.writes)
