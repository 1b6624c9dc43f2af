"""A graph as a node of another: a program of its own, whose end is an outcome of the parent's task.

What reaches the parent (rule: a subgraph contributes what was written inside it, and nothing else): for a key that both
graphs merge the same way, the nested graph's writes one by one, in commit order; for any other key, its final value as
one write if it wrote the key. An untouched key is no write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from juncture.engine.effects import Done, Ending, Escaped, Failed, Paused, Program, Stopped, Write
from juncture.engine.returns import Reader, Returned, followed_by
from juncture.engine.run import Loop
from juncture.engine.state import State
from juncture.engine.tables import Node, Tables
from juncture.engine.task import Task
from juncture.engine.values import copied
from juncture.types import MARK_FOR_REMOVAL, MISSING, Command


def nested_program(
    parent: Tables,
    task: Task,
    loop: Loop,
    namespace: tuple[str, ...],
    failed: Callable[[Exception, Loop], None],
) -> Program:
    """Runs the nested graph of a task. Returns the task's outcome; never raises an `Exception`."""
    try:
        ending: Ending = yield from loop.program()
        outcome = outcome_of(parent, task, ending, namespace)
    except Exception as error:  # noqa: BLE001 - a value from here on: the parent decides what a failure means
        failed(error, loop)
        note_where_it_stands(task, namespace, loop)
        return Failed(task, error)
    if isinstance(outcome, (Paused, Stopped)):
        note_where_it_stands(task, namespace, loop)
    if loop.request.owner and isinstance(outcome, Done):
        outcome.memory = loop.head
    return outcome


def note_where_it_stands(task: Task, namespace: tuple[str, ...], loop: Loop) -> None:
    """Notes on a task where its nested graph stands, which isn't done."""
    if loop.head is not None:
        task.stands = (*task.stands, (namespace[-1], loop.head))


def outcome_of(
    parent: Tables, task: Task, ending: Ending, namespace: tuple[str, ...]
) -> Done | Paused | Escaped | Stopped:
    """What the end of a nested run means for its parent's task.

    Raises:
        InvalidUpdateError: Its command writes something that the parent's state can't take.
        RoutingError: Its command leads nowhere.
    """
    if ending.why is not None:
        return Stopped(task, ending.why)
    if ending.status == "interrupted":
        return Paused(task, ending.questions)
    reader = Reader(parent, task.node, None, {}, None, "\x1f".join(namespace))
    writes: list[Write] = []
    for name, value in _writes_back(parent, task.node, ending):
        reader.add_write(name, value, writes)
    command = ending.command
    if command is None:
        return Done(task, writes)
    if command.graph not in (Command.PARENT, task.node.name, "|".join(namespace)):
        return Escaped(task, command, writes)
    reader.node = replace(task.node, routes=False)  # a command for the parent may stand beside edges
    got: Returned = reader.read(replace(command, graph=None))
    return Done.routed(task, followed_by(parent, writes, got.writes), got.routes)


def _writes_back(parent: Tables, node: Node, ending: Ending) -> list[Write]:
    state: State = ending.state
    if not parent.strict:
        if ending.command is not None:
            return []
        return [
            (name, copied(value))
            for name, value in state.values.items()
            if name in node.shared_keys or name in node.returned_keys
        ]
    writes: list[Write] = list(state.written)
    for name in state.touched:
        if name in node.returned_keys:
            value: Any = state.values.get(name, MISSING)
            writes.append((name, MARK_FOR_REMOVAL if value is MISSING else copied(value)))
    return writes


__all__ = ["nested_program", "note_where_it_stands", "outcome_of"]
