"""Data-flow mode: tasks of later steps that run before the steps in between have ended (right-behaviour 14).

The plan stays what it is: steps are committed one after another, each as a whole and in plan order, so the state after
every step is the one that the superstep run has. Only the *waiting* goes: a task whose input can't change any more is run
early, and its outcome is kept until its step comes.

A node runs ahead, in a step that is `level` steps after the present one, if all of this is known:

* *It is certain to run then*: a finished task of the level before leads to it, by an edge or by what its router chose.
* *It says what it reads and writes*: a schema that it is handed (`Node.reads`) and ``writes=`` (`Node.writes`); its routers
  are handed a schema too, and nothing pauses before it or around it.
* *What it reads is final*: no task that hasn't ended, and none that such a task or an unknown route may lead to in a level
  before, may write one of the keys. What those nodes write must be declared, or anything could be.

Then its input is made of the committed state and of what the finished tasks of the levels in between wrote to the keys that
it reads, merged in plan order.

Waits for its step like every other: sends, joins, deferred nodes, graphs with a memory of their own. If a step fails,
pauses, or leaves for an enclosing graph, what runs ahead is stopped; what had ended by then is saved beside the checkpoint,
so it isn't run again.

Refused: to run ahead on guesses and to run again where they were wrong. A node's side effects can't be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from juncture.engine.commit import apply, merge
from juncture.engine.effects import (
    Cancel,
    Done,
    Event,
    Outcome,
    Program,
    Start,
    Wait,
)
from juncture.engine.routing import Routes
from juncture.engine.state import State, TaskRecord
from juncture.engine.tables import CHANNEL, FACTORY, Node, Tables
from juncture.engine.task import Task
from juncture.errors import InvalidUpdateError

if TYPE_CHECKING:
    from juncture.engine.run import Loop

_WAIT = Wait()


class Ahead:
    """What runs ahead of the present step of one loop."""

    __slots__ = ("loop", "outcomes", "running", "tasks")

    def __init__(self, loop: Loop) -> None:
        """Nothing does yet."""
        self.loop = loop
        self.tasks: dict[tuple[int, str], Task] = {}
        """By step and node."""
        self.outcomes: dict[Task, Outcome] = {}
        self.running = 0
        """How many of them, and of their calls, haven't been heard of."""

    # ---- what the loop tells and asks

    def has(self, task: Task) -> bool:
        """Whether a task, or the task that called it, belongs to a later step."""
        owner = task.parent or task
        return owner.step > self.loop.state.step + 1

    def keep(self, outcome: Outcome) -> None:
        """Takes up how a task ended that ran ahead."""
        task = outcome.task
        self.running -= 1
        if isinstance(outcome, Done):
            outcome.changes = None  # it was made of a part of the state
        self.outcomes[task] = outcome

    def replace(self, again: Task) -> None:
        """Takes up the task of another try."""
        self.tasks[again.step, again.node.name] = again

    def heard(self, event: Event) -> Program:
        """Takes up an event of this step or of a later one, and starts what can run ahead now."""
        loop = self.loop
        task = event.task
        if type(event) is Done and task.parent is None and not (task.calls or task.questions or task.strays):
            if self.has(task):
                self.keep(event)
            else:
                loop.running -= 1
                yield from loop.take_up(event)
        else:
            yield from loop.hear(event)
        yield from self.go_on()

    def of_later_steps(self) -> Sequence[TaskRecord]:
        """What is known about tasks of later steps, to be carried along with the step that ended now."""
        now = {task.id for task in self.loop.tasks}
        kept = {
            (record.task_id, record.kind, record.name): record
            for record in self.loop.records
            if record.task_id and record.task_id not in now
        }
        for task in self.tasks.values():
            outcome = self.outcomes.get(task)
            done = [done_record(outcome)] if isinstance(outcome, Done) else []
            kept.update(((r.task_id, r.kind, r.name), r) for r in (*(task.records or ()), *done))
        return list(kept.values())

    def promote(self, tasks: list[Task]) -> list[Outcome]:
        """Puts those that ran ahead in their places in the plan of their step; how those ended that have."""
        ended: list[Outcome] = []
        for place, planned in enumerate(tasks):
            task = self.tasks.pop((planned.step, planned.node.name), None) if planned.send < 0 else None
            if task is None:
                continue
            task.place = place
            tasks[place] = task
            if task in self.outcomes:
                ended.append(self.outcomes.pop(task))
            else:
                self.running -= 1 + task.calls
        return ended

    # ---- starting

    def go_on(self) -> Program:
        """Starts whatever can run ahead now."""
        loop = self.loop
        if loop.stopping or loop.undone or loop.stops is not None or not loop.tables.strict:
            return
        level = 0
        while self._members(level):
            for name in self._certain(level):
                if not self._may_run(name, level + 1):
                    continue
                task = self._task(name, level + 1)
                if task is None:
                    continue
                self.tasks[task.step, name] = task
                task.records = [record for record in loop.records if record.task_id == task.id] or None
                done = saved_done(task, loop.records)
                if done is not None:
                    self.outcomes[task] = done
                    continue
                self.running += 1
                if loop.request.shows_tasks:
                    yield from loop.show_start(task)
                yield Start(task)
            level += 1

    def _members(self, level: int) -> list[tuple[Task, Outcome | None]]:
        """The tasks of a level that are known, in plan order, with how they ended."""
        loop = self.loop
        if level == 0:
            return list(zip(loop.tasks, loop.outcomes, strict=True))
        step = loop.state.step + 1 + level
        mine = sorted((name, task) for (of, name), task in self.tasks.items() if of == step)
        return [(task, self.outcomes.get(task)) for _, task in mine]

    def _certain(self, level: int) -> list[str]:
        """The nodes that are sure to run in the next level and don't yet."""
        step = self.loop.state.step + 2 + level
        found: set[str] = set()
        for _, outcome in self._members(level):
            if isinstance(outcome, Done):
                found.update(outcome.task.node.successors)
                found.update(outcome.targets)
        return sorted(name for name in found if (step, name) not in self.tasks)

    def _may_run(self, name: str, level: int) -> bool:
        loop = self.loop
        node = loop.tables.nodes[name]
        reads = may_run_ahead(loop.tables, node)
        pauses = loop.request.pauses
        if reads is None or (pauses is not None and pauses.may_hold(name)):
            return False
        if loop.taken + level > loop.request.limit:
            return False
        return all(self._is_final(reads, before) for before in range(level))

    def _is_final(self, reads: frozenset[str], level: int) -> bool:
        """Whether nothing that isn't known yet can write these keys in a level."""
        nodes = self.loop.tables.nodes
        ended = {task.node.name for task, outcome in self._members(level) if isinstance(outcome, Done)}
        if level == 0:
            open_ones = {task.node.name for task, o in self._members(0) if not isinstance(o, Done)}
        else:
            led = self._led_to(level - 1)
            if led is None:
                return False
            certain, possible = led
            open_ones = (certain - ended) | possible
        # An error handler, which is no node of the graph's own, may write anything.
        return all(name in nodes and _leaves_alone(nodes[name], reads) for name in open_ones)

    def _led_to(self, level: int) -> tuple[set[str], set[str]] | None:
        """Where a level leads: for certain, and possibly besides; None where that may be anywhere."""
        nodes = self.loop.tables.nodes
        certain: set[str] = set()
        possible: set[str] = set()
        names: set[str] = set()
        for task, outcome in self._members(level):
            if isinstance(outcome, Done):
                certain.update(outcome.task.node.successors)
                certain.update(outcome.targets)
                possible.update(send.node for send in outcome.sends)
                possible.update(join.target for join in task.node.joins)
            else:
                names.add(task.node.name)
        if level > 0:
            led = self._led_to(level - 1)
            assert led is not None  # or nothing would have been started in this level
            ended = {task.node.name for task, outcome in self._members(level) if isinstance(outcome, Done)}
            names |= (led[0] - ended) | led[1]
        for name in names:
            node = nodes.get(name)
            if node is None or node.leads is None or node.fallback is not None:
                return None  # so may an error handler, whose own way isn't declared
            possible |= node.leads
        return certain, possible

    def _task(self, name: str, level: int) -> Task | None:
        """The task of a node in a level, with what it reads; None if what was written can't be merged."""
        loop = self.loop
        tables, state = loop.tables, loop.state
        node = tables.nodes[name]
        reads = may_run_ahead(tables, node) or frozenset[str]()
        seen = State(values=dict(state.values), step=state.step + level)
        for before in range(level):
            entries = [
                (task.node.name, [write for write in outcome.writes if write[0] in reads])
                for task, outcome in self._members(before)
                if isinstance(outcome, Done)
            ]
            try:
                apply(seen, merge(tables, seen, entries))
            except Exception:  # noqa: BLE001 - the step itself will fail with it, when it is committed
                return None
        remaining = loop.tasks[0].remaining - level
        task = Task(node, state.step + 1 + level, -1, seen.values, remaining)
        task.ahead = True
        task.seen = seen
        task.branch = state.branch.partition(">")[2] if ">" in state.branch else state.branch
        return task

    # ---- ends other than completion

    def drain(self, *, cancels: bool) -> Program:
        """Waits for everything that runs ahead, and saves what had ended, before the run ends otherwise than planned."""
        loop = self.loop
        if self.running and cancels:
            loop.stopping = True
            yield Cancel()
        while self.running:
            yield from loop.hear((yield _WAIT))
        done = [outcome for outcome in self.outcomes.values() if isinstance(outcome, Done)]
        if done and loop.request.saving:
            loop.unsaved += [done_record(one) for one in done]
            yield from loop.flush()


def done_record(done: Done) -> TaskRecord:
    """What is saved of a task that ended well."""
    more = () if done.memory is None else (done.memory,)
    if done.task.unrouted is not None:
        more = (done.memory, True)
    return TaskRecord(done.task.id, "done", "", (done.writes, done.targets, done.sends, *more))


def saved_done(task: Task, records: Sequence[TaskRecord]) -> Done | None:
    """How a task ended in an earlier run, if that was saved and not taken back.

    If its routers weren't asked then, that is before it, whatever this run pauses for; if they were, it isn't.
    """
    found: Done | None = None
    for record in records:
        if record.task_id == task.id and record.kind == "done":
            found = None
            if record.content is not None:
                writes, targets, sends, *more = record.content
                found = Done.routed(task, writes, Routes(targets, sends))
                found.memory = more[0] if more else None
                found.saved = True
                if len(more) < 2:
                    task.unrouted = None
                elif task.unrouted is None:
                    task.leave_route()
    return found


def _leaves_alone(node: Node, reads: frozenset[str]) -> bool:
    """Whether a node declares that it writes none of the keys; what its error handler would write isn't declared."""
    return node.writes is not None and node.fallback is None and node.writes.isdisjoint(reads)


def may_run_ahead(tables: Tables, node: Node) -> frozenset[str] | None:
    """The keys that a node and its routers read, if it is a node that may run ahead; None if it waits for its step."""
    if node.reads is None or node.writes is None or node.name in tables.deferred:
        return None
    if node.fallback is not None or node.kind == FACTORY or (node.graph is not None and node.graph.remembers):
        return None
    if tables.check_model is not None or tables.volatile:
        return None
    reads = set(node.reads)
    for router in node.routers:
        if router.reads is None:
            return None
        reads |= router.reads
    if any(key is None or key.merge == CHANNEL for key in map(tables.keys.get, reads)):
        return None
    return frozenset(reads)


def check_writes(ended: Iterable[Done]) -> None:
    """Refuses what a node wrote beside what it declared.

    Raises:
        InvalidUpdateError: Names node and key.
    """
    for done in ended:
        declared = done.task.node.writes
        if declared is None:
            continue
        for name, _ in done.writes:
            if name not in declared:
                raise _undeclared(done.task.node, name)


def _undeclared(node: Node, name: str) -> InvalidUpdateError:
    return InvalidUpdateError(
        f"node {node.name!r} wrote {name!r}, and declares that it writes {', '.join(sorted(node.writes or ()))}. "
        f"Others may have run ahead on that: add the key to writes=, or don't write it",
        node=node.name,
        key=name,
    )


__all__ = ["Ahead", "check_writes", "done_record", "may_run_ahead", "saved_done"]
