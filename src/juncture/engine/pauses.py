"""Pauses that come from outside a node's code: before it, after it, and after it but before its route.

Where a graph pauses, its tables or the call say (`Pauses`), or functions that a node has for it (`ask_before`, `ask_after`).
Such functions, predicates, and routers that are asked apart run as tasks of the step whose outcome decides; their answers
are values of the run and never writes. The rules:

* Before a step: any pause holds the whole step back, and none of its tasks has begun.
* After a step: it is committed and saved, with the pauses in the same checkpoint.
* A route that is left for later stands in the state as such (`State.unrouted`). It is decided when the run goes on, on
  the state as it then is, and a checkpoint is made of that: from there on it is a route like any other.
* Going on passes all pauses at the point where the run stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from juncture.engine import streaming
from juncture.engine.commit import apply, log_own, merge
from juncture.engine.effects import (
    Done,
    Ending,
    Escaped,
    Failed,
    Outcome,
    Paused,
    Program,
    Run,
    Start,
    Wait,
    Warn,
)
from juncture.engine.ends import just_paused, no_parent, pause, question_records, show_pause
from juncture.engine.interrupts import answers_in, question_id, static_question
from juncture.engine.plan import unfinished
from juncture.engine.retry import delay_before_retry
from juncture.engine.state import State, TaskRecord
from juncture.engine.tables import ENTRY, Node, Places
from juncture.engine.task import Task, route_id
from juncture.errors import InterruptError
from juncture.types import Interrupt, When

if TYPE_CHECKING:
    from juncture.engine.run import Loop


@dataclass(slots=True)
class Stops:
    """The pauses after the step that is being committed."""

    asked: list[Interrupt] = field(default_factory=list[Interrupt])
    """With what a node's function asked."""
    named: list[str] = field(default_factory=list[str])
    """The other nodes paused after, in plan order, each once."""
    unrouted: list[str] = field(default_factory=list[str])
    """See `State.unrouted`."""


# ---- before a step


def before_step(loop: Loop, tasks: Sequence[Task]) -> Program:
    """Pauses before a step, if that is asked for; returns whether it did. Else the tasks whose routes wait are told."""
    pauses = loop.request.pauses
    assert pauses is not None
    if not just_paused(loop):
        stops = yield from _stops_before(loop, tasks, pauses.before)
        if stops:
            yield from pause(loop, stops)
            return True
    for task in tasks:
        node = task.node
        if node.routers and (node.route_later or _named(pauses.route, node) or pauses.route.asks is not None):
            task.leave_route()
    return False


def _stops_before(loop: Loop, tasks: Sequence[Task], places: Places) -> Program:
    """What is asked before a step: by a node's own function for each of its tasks, else once for each node."""
    every = bool(tasks) and (yield from _holds(loop, places, tasks[0], tasks[0].values))
    stops: dict[str, Interrupt] = {}
    for task in tasks:
        node = task.node
        value = None
        if node.ask_before is not None:
            value = yield from _value(loop, node.ask_before, task, None)
        if value is not None:
            question = _question(loop, task, value, "before")
            stops[question.id] = question
        elif every or _named(places, node):
            request = loop.request
            question = static_question(request.origin, request.namespace, task.step, node.name, "before")
            stops.setdefault(question.id, question)
    return list(stops.values())


def _named(places: Places, node: Node) -> bool:
    return node.name in places.names or "*" in places.names


def _question(loop: Loop, task: Task, value: Any, when: When) -> Interrupt:
    request = loop.request
    identity = question_id(request.origin, request.namespace, task.id, when)
    return Interrupt(value, identity, task.node.name, request.namespace, None, when)


# ---- asking what the user wrote


def _asked(loop: Loop, task: Task) -> Program:
    """Runs one task by itself, with its node's retries; returns its outcome."""
    outcome: Outcome = yield Run(task)
    while isinstance(outcome, Failed) and isinstance(outcome.error, Exception):
        delay = delay_before_retry(task.node.retry, outcome.error, task.attempt, loop.request.jitter)
        if delay is None:
            break
        task.attempt += 1
        yield Start(task, delay)
        outcome = yield Wait()
    return outcome


def _holds(loop: Loop, places: Places, task: Task, values: dict[str, Any]) -> Program:
    """Whether a predicate on the state says to pause."""
    if places.asks is None:
        return False
    asking = Task(places.asks, task.step, task.place, values, task.remaining)
    return bool((yield from _result(loop, asking, task)))


def _value(loop: Loop, asks: Node, task: Task, written: Any) -> Program:
    """What a node's own function asks; None for nothing."""
    asking = Task(asks, task.step, task.place, task.values, task.remaining, 0)
    asking.argument = (task, written)
    value = yield from _result(loop, asking, task)
    return None if value is False else value


def _result(loop: Loop, asking: Task, task: Task) -> Program:
    asking.parent = task
    asking.identity = f"{task.id}\x1f{asking.node.name}"
    outcome: Outcome = yield from _asked(loop, asking)
    if isinstance(outcome, Failed):
        loop.failed = task
        raise outcome.error
    if not isinstance(outcome, Done):
        loop.failed = task
        raise InterruptError(
            f"{asking.node.name} used interrupt(), a task or a graph: it decides whether the run pauses, and returns what is "
            "asked then. Ask from the node for anything else",
            node=task.node.name,
        )
    return outcome.result


# ---- after the tasks of a step, before it is committed


def after_tasks(loop: Loop) -> Program:
    """Finds out where the run pauses after a step whose tasks are all done, and asks the routers that it needn't leave."""
    stops = loop.stops = Stops()
    done: list[Done] = [outcome for outcome in loop.outcomes if isinstance(outcome, Done)]
    after, route = yield from _preview(loop, done)
    pauses = loop.request.pauses
    for ended in done:
        task = ended.task
        node = task.node
        stopped = False
        if pauses is not None:
            held = node.route_later and node.ask_after is None
            stopped = after or route or held or _named(pauses.after, node) or _named(pauses.route, node)
        value = None
        if node.ask_after is not None:
            written = streaming.updates_payload(ended.writes, None)
            value = yield from _value(loop, node.ask_after, task, written)
        if value is not None:
            stops.asked.append(_question(loop, task, value, "after"))
        elif stopped and node.name not in stops.named:
            stops.named.append(node.name)
        if task.unrouted is None:
            continue
        if stopped or value is not None:
            stops.unrouted.append(node.name)
        else:
            yield from _route_now(loop, ended, task.unrouted)
    asked = {question.node for question in stops.asked}
    stops.named = [name for name in stops.named if name not in asked]


def _preview(loop: Loop, done: Sequence[Done]) -> Program:
    """What the predicates for pauses after a node, and before its route, say of the state as it is about to be."""
    pauses = loop.request.pauses
    if pauses is None or (pauses.after.asks is None and pauses.route.asks is None):
        return False, False
    preview = State(values=dict(loop.state.values))
    try:
        apply(
            preview, merge(loop.tables, loop.state, [(ended.task.node.name, ended.writes) for ended in done])
        )
    except Exception:  # noqa: BLE001 - the step can't be committed either, and that says why
        return False, False
    task = done[0].task
    after = yield from _holds(loop, pauses.after, task, preview.values)
    route = yield from _holds(loop, pauses.route, task, preview.values)
    return after, route


def _stand_in(node: Node) -> Node:
    """A node that leads where the node leads, and does nothing."""
    return replace(node, kind=ENTRY, call=None, graph=None, factory=None)


def _route_now(loop: Loop, ended: Done, node: Node) -> Program:
    """Asks the routers of a node that ended, as its own try would have done."""
    task = ended.task
    asking = Task(_stand_in(node), task.step, task.place, task.values, task.remaining, task.send)
    asking.branch, asking.records, asking.argument = task.branch, task.records, ended.writes
    outcome: Outcome = yield from _asked(loop, asking)
    if isinstance(outcome, Escaped) and not loop.request.namespace:
        outcome = Failed(task, no_parent(outcome))
    if isinstance(outcome, Done):
        outcome.targets, outcome.sends = (*ended.targets, *outcome.targets), (*ended.sends, *outcome.sends)
        outcome.memory = ended.memory
        for text in outcome.ignored:
            yield Warn(text)
    else:
        loop.undone = True
        if len(loop.tasks) > 1:  # it was saved as done, and isn't
            loop.unsaved.append(TaskRecord(task.id, "done", "", None))
        if isinstance(outcome, Paused):
            loop.unsaved += question_records(task.id, outcome.questions)
    loop.outcomes[task.place] = outcome


def stand(loop: Loop) -> list[Interrupt]:
    """Notes in a state that was committed where it pauses; the questions."""
    state, stops, request = loop.state, loop.stops, loop.request
    assert stops is not None
    loop.stops = None
    state.unrouted = tuple(stops.unrouted)
    if not unfinished(loop.tables, state):
        stops.named = []  # the run ends here anyway
    state.paused_after = tuple(stops.named)
    state.carried += tuple(question_records("", stops.asked, "paused"))
    named = [static_question(request.origin, request.namespace, state.step, n, "after") for n in stops.named]
    return [*stops.asked, *named]


# ---- routes that were left


def decide_routes(loop: Loop) -> Program:
    """Asks the routers that were left, on the state as it is, and saves where they lead.

    Raises:
        Exception: What a router raised. Nothing was changed that is saved: going on asks it again.
    """
    state, tables, request = loop.state, loop.tables, loop.request
    targets, sends = set[str](), list(state.sends)
    for place, name in enumerate(state.unrouted):
        task = Task(_stand_in(tables.nodes[name]), state.step, place, state.values, request.limit)
        task.identity = route_id(name, state.step, place)
        outcome = yield from _left_open(loop, task)
        if isinstance(outcome, Failed):
            loop.failed = task
            raise outcome.error
        if not isinstance(outcome, Done):
            yield from _not_decided(loop, outcome)
            return
        for text in outcome.ignored:
            yield Warn(text)
        if outcome.writes:
            apply(state, merge(tables, state, [(name, outcome.writes)]))
            if request.returns:
                log_own(state, request.shared_keys, outcome.writes)
        targets.update(outcome.targets)
        sends += outcome.sends
    state.due = tuple(sorted({*state.due, *(targets - tables.deferred)}))
    state.deferred = tuple(sorted({*state.deferred, *(targets & tables.deferred)}))
    state.sends = tuple(sends)
    state.unrouted, state.paused_after, state.carried, loop.records = (), (), (), ()
    yield from loop.save("loop")  # an open route came from a saver


def _left_open(loop: Loop, task: Task) -> Program:
    """The outcome of a router's task: paused without being run while none of its questions was answered."""
    task.records = [record for record in loop.records if record.task_id == task.id]
    asked = {r.name: r.content for r in task.records if r.kind == "question"}
    if asked and asked.keys().isdisjoint(answers_in(task.records)):
        return Paused(task, list(asked.values()))
    return (yield from _asked(loop, task))


def _not_decided(loop: Loop, outcome: Outcome) -> Program:
    """Ends a run in which a router that was left asks something, or leaves for the enclosing graph."""
    if isinstance(outcome, Escaped):
        if not loop.request.namespace:
            loop.failed = outcome.task
            raise no_parent(outcome)
        if outcome.writes:
            apply(loop.state, merge(loop.tables, loop.state, [(outcome.task.node.name, outcome.writes)]))
            log_own(loop.state, loop.request.shared_keys, outcome.writes)
        loop.ending = Ending("completed", loop.state, command=outcome.command)
    else:
        assert isinstance(outcome, Paused)
        yield loop.noting(question_records(outcome.task.id, outcome.questions))
        yield from show_pause(loop, outcome.questions)
        loop.ending = Ending("interrupted", loop.state, outcome.questions)


__all__ = ["Stops", "after_tasks", "before_step", "decide_routes", "stand"]
