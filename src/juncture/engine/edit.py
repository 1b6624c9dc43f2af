"""Editing the state of a thread from outside: what is written counts as if nodes had returned it.

Nothing is run but the routers of those nodes. What the thread was due to do is replaced by what these nodes lead to,
as after any step. The step's number stays: an edit isn't a superstep. So a task that is still due afterwards is the
same task, and what was saved about it (its writes, its questions, its answers) is carried along; what was saved about
tasks that are no longer due is dropped, and said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from juncture.engine.commit import apply, log_own, merge
from juncture.engine.effects import Done, Failed, Outcome, Program, Run, Warn
from juncture.engine.fallbacks import FALLBACK
from juncture.engine.interrupts import lasting
from juncture.engine.plan import advance, plan
from juncture.engine.returns import Reader, Returned
from juncture.engine.state import State, TaskRecord
from juncture.engine.tables import ENTRY, Node, Tables
from juncture.engine.task import Task
from juncture.errors import InvalidUpdateError
from juncture.types import END, MISSING, START, Command, StateUpdate

if TYPE_CHECKING:
    from juncture.engine.run import Loop

INPUT: Final = "__input__"
COPY: Final = "__copy__"
MEMORY: Final = "__memory__"
"""Not for users: the values say where nested graphs with a memory of their own stand, after one of them was edited."""
_ENTRIES: Final = frozenset((START, INPUT))


def edit(loop: Loop, supersteps: Sequence[Sequence[StateUpdate]]) -> Program:
    """Makes one checkpoint for each superstep of an edit.

    Raises:
        InvalidUpdateError: A node doesn't exist, or it isn't clear which one is meant; or the state can't take what is
            written. The supersteps before it were saved.
        Exception: What a reducer or router raised, likewise.
    """
    if loop.head is None:
        loop.state.values.update(loop.tables.initial())
    for updates in supersteps:
        _check(loop.tables, updates)
    for updates in supersteps:
        if len(updates) == 1 and updates[0].as_node == COPY:
            source = "fork"
            _keep_all(loop)
        elif len(updates) == 1 and updates[0].as_node == MEMORY:
            source = "update"
            loop.state.memory = {**loop.state.memory, **updates[0].values}
            _keep_all(loop)
        elif len(updates) == 1 and updates[0].as_node == END and updates[0].values is None:
            source = "update"
            yield from _clear(loop)
        else:
            source = "update"
            yield from _superstep(loop, updates)
        if loop.head is not None and not loop.back:
            loop.state.edited = (*loop.state.edited, loop.head)
        yield from loop.save(source)
        loop.back = False


def _check(tables: Tables, updates: Sequence[StateUpdate]) -> None:
    """Refuses what would be dropped, and what leads nowhere, before anything is changed."""
    for update in updates:
        values: Any = update.values
        if update.as_node is not None:
            _check_node(tables, update.as_node, values, alone=len(updates) == 1)
        if isinstance(values, Command) and cast("Command[Any]", values).resume is not MISSING:
            raise InvalidUpdateError(
                "an update can't answer questions: give Command(resume=…) to invoke. Nothing was changed"
            )
        if update.as_node == COPY and values is not None:
            raise InvalidUpdateError(
                'as_node="__copy__" copies a checkpoint and takes no values: copy with None, then update. Nothing was changed'
            )


def _superstep(loop: Loop, updates: Sequence[StateUpdate]) -> Program:
    tables, state = loop.tables, loop.state
    names = [_node_named(loop, update, alone=len(updates) == 1) for update in updates]
    ended = [
        _returned(loop, name, update.values, place)
        for place, (name, update) in enumerate(zip(names, updates, strict=True))
    ]
    changes = merge(tables, state, [(done.task.node.name, done.writes) for done in ended])
    if tables.check_model is not None:
        loop.check_model(tables.check_model, changes, ended)
    apply(state, changes)
    _log(loop, ended)
    for place, done in enumerate(ended):
        if done.task.node.routers and done.task.node.name not in state.unrouted:
            ended[place] = yield from _routed(loop, done)
    old, state.due, state.sends, state.deferred = state.due, (), (), ()
    branch = state.branch
    advance(tables, state, ended)
    state.branch = branch  # the step that is due is no other one, so the tasks that still are keep their ids
    state.unrouted = tuple([name for name in state.unrouted if name in names])
    state.ran = tuple(names)
    yield from _carry(loop, old)


def _node_named(loop: Loop, update: StateUpdate, *, alone: bool) -> str:
    """The node that an update counts as."""
    nodes, name, ran = loop.tables.nodes, update.as_node, loop.state.ran
    if name is None:
        if not alone:
            raise InvalidUpdateError(
                "several updates in one superstep need an as_node each. Nothing was changed"
            )
        if loop.head is None:
            return START
        ran = tuple([name.removeprefix(FALLBACK) for name in ran])  # a handler stands for its node
        if len(set(ran)) != 1 or (ran[0] not in nodes and ran[0] != START):
            who = ", ".join(repr(name) for name in ran) or "nothing that is known"
            raise InvalidUpdateError(
                f"Ambiguous update, specify as_node: the newest state of thread {loop.request.thread_id!r} was made by "
                f"{who}. Nothing was changed"
            )
        return ran[0]
    if name in _ENTRIES:
        return START
    return name


def _check_node(tables: Tables, name: str, values: Any, *, alone: bool) -> None:
    whole = name in (COPY, MEMORY) or (name == END and values is None)
    if name not in tables.nodes and name not in _ENTRIES and not (whole and alone):
        raise InvalidUpdateError(
            f"Node {name!r} does not exist, so nothing can be updated as if it had returned. "
            f"Known nodes: {', '.join(sorted(tables.nodes))}. Nothing was changed",
            node=name,
        )


def _returned(loop: Loop, name: str, values: Any, place: int) -> Done:
    """What a node's return of these values would mean."""
    node = loop.tables.entry if name == START else loop.tables.nodes[name]
    task = Task(_stand_in(node), loop.state.step, place, loop.state.values, 1)
    got = Returned()
    reader = Reader(loop.tables, node, None, {}, None, f"{loop.head}:{place}")
    reader.add(values, got)
    reader.check_routes(got)
    if got.escape is not None:
        raise InvalidUpdateError(
            "an update can't be a Command for an enclosing graph; update that graph. Nothing was changed",
            node=name,
        )
    return Done.routed(task, got.writes, got.routes)


def _stand_in(node: Node) -> Node:
    """A node that leads where the node leads, and does nothing."""
    return replace(node, kind=ENTRY, call=None, graph=None, factory=None, retry=())


def _routed(loop: Loop, done: Done) -> Program:
    """Asks the routers of a node, which see the state with everything that was written."""
    outcome: Outcome = yield Run(done.task)
    if isinstance(outcome, Failed):
        loop.failed = done.task
        raise outcome.error
    if not isinstance(outcome, Done):
        raise InvalidUpdateError(
            "a router can't pause the run or leave for an enclosing graph while the state is edited. Nothing was saved",
            node=done.task.node.name,
        )
    for text in outcome.ignored:
        yield Warn(text)
    if outcome.writes:
        apply(loop.state, merge(loop.tables, loop.state, [(done.task.node.name, outcome.writes)]))
        _log(loop, [outcome])
    outcome.targets, outcome.sends = (*done.targets, *outcome.targets), (*done.sends, *outcome.sends)
    return outcome


def _log(loop: Loop, ended: Sequence[Done]) -> None:
    """What is written inside a nested graph reaches its parent, when that goes on."""
    if loop.request.returns:
        for done in ended:
            log_own(loop.state, loop.request.shared_keys, done.writes)


def _keep_all(loop: Loop) -> None:
    """Carries along everything that was saved about the tasks that are due: nothing of it changes."""
    loop.state.carried = tuple(lasting(loop.state, loop.records))


def _carry(loop: Loop, old: tuple[str, ...]) -> Program:
    """Keeps what was saved about tasks that are still due."""
    state, records = loop.state, loop.records
    due = {task.id for task in plan(loop.tables, state, 1)}
    kept: list[TaskRecord] = []
    dropped: dict[str, None] = {}
    for record in records:
        if record.task_id in due or _still_paused(record, state):
            kept.append(record)
        elif record.kind in ("done", "question", "intent") and record.content is not None:
            dropped[record.task_id.rpartition(":")[0]] = None
    names = {record.name for record in kept}
    kept += [
        record
        for record in records
        if record.kind == "answer" and not record.task_id and record.name in names
    ]
    state.carried = tuple(kept)
    if not (state.due or state.unrouted):
        state.paused_after = ()
    else:
        state.carried += tuple(
            r for r in lasting(state, records) if r.kind == "paused" and r.content.when == "after"
        )
    if not kept:
        state.branch = loop.newest
    if dropped:
        yield Warn(
            f"the state of thread {loop.request.thread_id!r} was edited while it was due to run {', '.join(old)}; what was "
            f"saved about {', '.join(dropped)} is dropped, because the edit leads elsewhere"
        )
    loop.records = kept


def _still_paused(record: TaskRecord, state: State) -> bool:
    return record.kind == "paused" and record.content.when == "before" and record.content.node in state.due


def _clear(loop: Loop) -> Program:
    """Applies what finished tasks wrote, and drops everything that is due."""
    tables, state = loop.tables, loop.state
    written = {record.task_id: record.content for record in loop.records if record.kind == "done"}
    entries = [
        (task.node.name, written[task.id][0])
        for task in plan(tables, state, 1)
        if written.get(task.id) is not None
    ]
    try:
        apply(state, merge(tables, state, entries))
    except InvalidUpdateError as error:
        yield Warn(
            f"what finished tasks of thread {loop.request.thread_id!r} wrote can't be merged, and is dropped: {error}"
        )
    state.due, state.sends, state.deferred, state.joins, state.unrouted = (), (), (), {}, ()
    state.carried, state.paused_after, loop.records = (), (), ()


__all__ = ["COPY", "MEMORY", "edit"]
