"""From a committed state to the tasks it is due, and from ended tasks to what is due next.

Edge-triggered tasks come first, in node-name order, then sends in the order sent. A node that several edges lead to
runs once a step. This order is the one in which writes merge, results show and failures are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from juncture.engine.effects import Done
from juncture.engine.state import State
from juncture.engine.tables import Tables
from juncture.engine.task import Task, route_id, task_id
from juncture.errors import StuckJoinError
from juncture.types import Send


def plan(tables: Tables, state: State, remaining: int) -> list[Task]:
    """The tasks of the next step.

    Args:
        tables: The graph.
        state: The committed state.
        remaining: How many steps the limit still allows, this one included.
    """
    step = state.step + 1
    due = state.due
    if len(due) == 1 and not (state.sends or state.branch):
        return [Task(tables.nodes[due[0]], step, 0, state.values, remaining)]
    tasks = [Task(tables.nodes[name], step, place, state.values, remaining) for place, name in enumerate(due)]
    place = len(tasks)
    for index, send in enumerate(state.sends):
        task = Task(tables.nodes[send.node], step, place + index, state.values, remaining, index)
        task.argument = send.arg
        if send.timeout is not None:
            task.limits = send.timeout
        tasks.append(task)
    if state.branch:
        for task in tasks:
            task.branch = state.branch.partition(">")[0]
    return tasks


def upcoming(tables: Tables, state: State) -> list[tuple[str, str, tuple[str | int, ...]]]:
    """The tasks of the step that follows, in plan order: (id, node, path), as a snapshot shows them."""
    branch, step = state.branch.partition(">")[0], state.step + 1
    names = state.due or (() if state.unrouted else _held(tables, state))
    return [
        *(
            (route_id(name, state.step, place), name, ("route", place, name))
            for place, name in enumerate(state.unrouted)
        ),
        *((task_id(name, step, -1, branch), name, ("edge", name)) for name in names),
        *(
            (task_id(send.node, step, index, branch), send.node, ("send", index, send.node))
            for index, send in enumerate(state.sends)
        ),
    ]


def _held(tables: Tables, state: State) -> Sequence[str]:
    """What is due once nothing else is."""
    if state.sends:
        return ()
    if state.deferred:
        return state.deferred
    return sorted(
        {
            tables.joins[name].target
            for name in state.joins
            if name in tables.joins and tables.joins[name].policy == "arrived"
        }
    )


def advance(tables: Tables, state: State, ended: Sequence[Done]) -> None:
    """Puts into the state what the ended tasks make due, and where the graphs stand that have a memory of their own."""
    if tables.recalls and (memory := {d.task.node.name: d.memory for d in ended if d.memory is not None}):
        state.memory = {**state.memory, **memory}
    if ">" in state.branch:
        state.branch = state.branch.partition(">")[2]
    if len(ended) == 1:
        done = ended[0]
        if done.task.node.straight and not done.targets:
            state.due = done.task.node.successors
            state.sends = tuple(done.sends)
            return
    due: set[str] = set()
    sends: list[Send] = []
    for done in ended:
        node = done.task.node
        due.update(node.successors)
        due.update(done.targets)
        sends += done.sends
    _arrive(tables, state, ended, due)
    if tables.deferred and not tables.deferred.isdisjoint(due):
        held = due & tables.deferred
        state.deferred = tuple(sorted(held.union(state.deferred)))
        due -= held
    state.due = tuple(sorted(due))
    state.sends = tuple(sends)


def _arrive(tables: Tables, state: State, ended: Sequence[Done], due: set[str]) -> None:
    """Counts a step's nodes into their joins, all at once: each source counts once until the join's node runs.

    The join of a deferred node stays full until that node runs, so that what arrives meanwhile isn't counted anew.
    """
    names = {done.task.node.name for done in ended}
    for join in {join.id: join for done in ended for join in done.task.node.joins}.values():
        arrived = names.intersection(join.sources).union(state.joins.get(join.id, ()))
        full = len(arrived) == len(join.sources)
        if full:
            due.add(join.target)
        if full and join.target not in tables.deferred:
            state.joins.pop(join.id, None)
        else:
            state.joins[join.id] = tuple(sorted(arrived))


def _partly_filled(tables: Tables, state: State) -> list[str]:
    """The joins that wait for more of their sources."""
    return sorted(
        name for name, arrived in state.joins.items() if len(arrived) < len(tables.joins[name].sources)
    )


def unfinished(tables: Tables, state: State) -> bool:
    """Whether a further step is due now, once nothing else is, or for all that is known of a route that wasn't decided."""
    return bool(state.due or state.sends or state.deferred or state.unrouted) or any(
        name in tables.joins and tables.joins[name].policy == "arrived" for name in state.joins
    )


def revive(tables: Tables, state: State) -> bool:
    """Makes due what waits for everything else to end; whether there was anything.

    Deferred nodes go first: what they lead to may still fill a join. Then joins that take what arrived.

    Raises:
        StuckJoinError: Nothing else is left, and a join that waits for all its sources has only some.
    """
    if state.deferred:
        state.due, state.deferred = state.deferred, ()
        for name in [name for name in state.joins if tables.joins[name].target in state.due]:
            if len(state.joins[name]) == len(tables.joins[name].sources):
                del state.joins[name]
        return True
    waiting = _partly_filled(tables, state)
    if not waiting:
        return False
    ready = {name for name in waiting if tables.joins[name].policy == "arrived"}
    if ready:
        state.due = tuple(sorted({tables.joins[name].target for name in ready}))
        for name in ready:
            del state.joins[name]
        return True
    if tables.strict:
        raise _stuck(tables, state, waiting[0])
    return False


def _stuck(tables: Tables, state: State, name: str) -> StuckJoinError:
    join, arrived = tables.joins[name], state.joins[name]
    missing = [source for source in join.sources if source not in arrived]
    return StuckJoinError(
        f"the run would end while the join into {join.target!r} waits: {_names(arrived)} arrived, "
        f"{_names(missing)} never ran. What was committed stays. Make every path reach the join, "
        f'or let it fire with what arrived: add_edge([...], {join.target!r}, join="arrived")',
        node=join.target,
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
