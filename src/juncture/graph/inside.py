"""Editing threads, and going on from old states inside them: what has to be done to the graphs around a nested one.

A nested graph's checkpoint says which checkpoint of its parent it was made in. To go back to it is to fork the whole way
to it: each graph around goes back to that checkpoint of its own, keeping what it knew then about the rest of its step, and then the
nested one goes back. After that, the thread's newest state is the one that is gone on from, as after any other
edit, so nothing more has to be known to run it.

Everything here is done under one lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from juncture.engine.edit import COPY, MEMORY
from juncture.engine.goback import Back, Inside, unanswered_questions
from juncture.engine.interrupts import match, open_questions
from juncture.engine.state import Around, Saved, TaskRecord
from juncture.engine.tables import Tables
from juncture.errors import ConfigError
from juncture.graph.namespaces import nested_tables
from juncture.graph.operations import Place, ThreadPrograms
from juncture.graph.snapshots import Due, all_records, due_tasks
from juncture.persistence import leases, recent
from juncture.persistence.asking import Ask, Asking
from juncture.persistence.format import namespace_levels, namespace_text, record_bytes
from juncture.persistence.reading import read_checkpoint
from juncture.types import MISSING, Answers, Command, Interrupt, StateUpdate

if TYPE_CHECKING:
    from juncture.graph.calls import Call
    from juncture.persistence.leases import Held

Supersteps: TypeAlias = Sequence[Sequence[StateUpdate]]
Make: TypeAlias = "Callable[[Place, Supersteps, Held, Back | None], Call]"
"""Makes the call that edits one namespace."""


class Level(NamedTuple):
    """A graph around a nested one, at the checkpoint in which that was made."""

    saved: Saved
    task: Due
    """The task of its step that it is nested in."""


class Path(NamedTuple):
    """A nested graph's checkpoint, and what is around it."""

    inner: Saved
    around: tuple[Level, ...]
    """From the outermost on."""
    is_current: bool
    """The graphs around are still at the step in which it was made, and wait for the nested one."""


# ---- editing


def edit(threads: ThreadPrograms, make: Make, place: Place, supersteps: Supersteps) -> Asking[str | None]:
    """Edits a state, and tells the graphs around it; the id of the new checkpoint."""
    held = yield from leases.acquire(threads.saver, place.thread_id, "raise", doing=leases.EDITING)
    try:
        if place.namespace:
            return (yield from _edit_inside(threads, make, place, supersteps, held))
        head: str | None = yield Ask(make(place, supersteps, held, None), "edit")
        return head
    finally:
        recent.forget(threads.saver, place.thread_id)
        yield from leases.release(threads.saver, held)


def _edit_inside(
    threads: ThreadPrograms, make: Make, place: Place, supersteps: Supersteps, held: Held
) -> Asking[str | None]:
    path = yield from read_path(threads, place)
    remembers = nested_tables(threads.tables, place.namespace).remembers
    if path is not None and not path.is_current and not (remembers and path.inner.is_newest):
        around = yield from _fork_around(threads, make, place, path, held)
        there = place._replace(checkpoint_id=path.inner.checkpoint_id)
        forked: str | None = yield Ask(make(there, supersteps, held, Back("nothing", around)), "edit")
        return forked
    call = make(place, supersteps, held, None)
    head: str | None = yield Ask(call, "edit")
    made, namespace = head, place.namespace
    yield from _tell_parent(threads, place, path, head, held)
    while namespace:
        yield from _close_questions(threads, place.thread_id, namespace, held)
        if call.node is None or not call.tables.remembers:
            break
        # The graph around one with a memory of its own says at which checkpoint it stands.
        knows = [[StateUpdate({call.node.name: made}, MEMORY)]]
        namespace = namespace[:-1]
        call = make(Place(place.thread_id, namespace, None), knows, held, None)
        made = yield Ask(call, "edit")
    return head


def _tell_parent(
    threads: ThreadPrograms, place: Place, path: Path | None, head: str | None, held: Held
) -> Asking[None]:
    """Notes beside the parent's checkpoint where the edited graph stands now."""
    if path is None or head is None or not path.is_current:
        return
    parent = yield from _read(threads, place.thread_id, place.namespace[:-1], None)
    assert parent is not None
    noted = TaskRecord(path.around[-1].task.id, "nested", head, place.namespace[-1])
    yield from _put_records(threads, place.thread_id, place.namespace[:-1], parent, [noted], held)


def _close_questions(
    threads: ThreadPrograms, thread_id: str, namespace: tuple[str, ...], held: Held
) -> Asking[None]:
    """Closes, in the graphs around an edited one, the questions that it no longer asks."""
    below = yield from threads.known(Place(thread_id, namespace, None))
    still = {q.id for q in open_questions(all_records(below, thread_id, namespace))}
    for depth in range(len(namespace) - 1, -1, -1):
        saved = yield from threads.known(Place(thread_id, namespace[:depth], None))
        closed = [
            TaskRecord(record.task_id, "answer", record.name, None)
            for record in all_records(saved, thread_id, namespace[:depth])
            if record.kind in ("question", "doubt")
            and record.content.namespace[: len(namespace)] == namespace
            and record.name not in still
        ]
        if closed:
            yield from _put_records(threads, thread_id, namespace[:depth], saved, closed, held)


def _put_records(
    threads: ThreadPrograms,
    thread_id: str,
    namespace: tuple[str, ...],
    beside: Saved,
    records: Sequence[TaskRecord],
    held: Held,
) -> Asking[None]:
    stored = [record_bytes(threads.codec, record) for record in records]
    args = (thread_id, namespace_text(namespace), beside.checkpoint_id, stored)
    yield Ask(threads.saver, "put_records", args, {"lease": held.lease})


# ---- going on from inside


def check_goes_on(given: Any, namespace: str) -> None:
    """Refuses what can't be given to a run that goes on inside a nested graph.

    Raises:
        ConfigError: It is an input, or a command that does more than answer.
    """
    if given is None:
        return
    if isinstance(given, Command):
        command = cast("Command[Any]", given)
        if command.resume is not MISSING and command.update is None and command.goto == ():
            return
    raise ConfigError(
        f"the config names a nested graph ({namespace!r}): its run can be gone on with (None), and its questions can be "
        "answered (Command(resume=…)), but it takes no input. To write to it, use update_state with this config, and then go "
        "on with None"
    )


def enter(call: Call) -> Asking[None]:
    """Makes the state that a call goes on from, inside a nested graph, the thread's newest; the call has the thread then.

    Raises:
        ThreadBusyError: Another run has the thread. Nothing was changed.
        CheckpointNotFoundError: There is no such checkpoint, or one around it was pruned. Nothing was changed.
        ConfigError: It can't be known what was around it. Nothing was changed.
        NothingToResumeError: No question is open there. Nothing was changed.
        InterruptError: It isn't clear which question is answered. Nothing was changed.
    """
    threads, make = call.graph.threads, call.graph.editing(call)
    place = Place(
        call.thread_id or "", namespace_levels(call.options.checkpoint_ns), call.options.checkpoint_id
    )
    held = yield from leases.acquire(threads.saver, place.thread_id, call.on_busy)
    try:
        given = yield from _enter(threads, make, place, call.given, held)
    except BaseException:
        yield from leases.release(threads.saver, held)
        raise
    finally:
        recent.forget(threads.saver, place.thread_id)
    call.go_on(given, held)


def _enter(threads: ThreadPrograms, make: Make, place: Place, given: Any, held: Held) -> Asking[Any]:
    path = yield from read_path(threads, place)
    if path is None:
        raise ConfigError(
            f"nobody can tell what was around the namespace {namespace_text(place.namespace)!r} of thread "
            f"{place.thread_id!r} then: it has no checkpoint, or one of a version that didn't note that. Go back to a "
            "checkpoint of the graph around it. Nothing was run"
        )
    answers, goes_on = isinstance(given, Command), path.is_current and path.inner.is_newest
    questions: list[Interrupt] = []
    if answers:
        records = all_records(path.inner, place.thread_id, place.namespace)
        questions = open_questions(records) if goes_on else unanswered_questions(records)
        matched = match(cast("Command[Any]", given).resume, questions, strict=threads.tables.strict)
        given = cast("Any", Command(resume=Answers(matched)))
    if not goes_on:
        around = yield from _fork_around(threads, make, place, path, held, questions)
        there = place._replace(checkpoint_id=path.inner.checkpoint_id)
        back = Back("unanswered" if answers else "pauses", around)
        yield Ask(make(there, [[StateUpdate(None, COPY)]], held, back), "edit")
    return given


# ---- the way there


def read_path(threads: ThreadPrograms, place: Place) -> Asking[Path | None]:
    """What is around a nested graph's checkpoint; None where there is none, or it doesn't say.

    Raises:
        CheckpointNotFoundError: It isn't there, or one around it isn't any more.
    """
    thread_id, namespace = place.thread_id, place.namespace
    inner = yield from _read(threads, thread_id, namespace, place.checkpoint_id)
    below, levels, is_current = inner, list[Level](), True
    for depth in range(len(namespace) - 1, -1, -1):
        if below is None or below.state.around is None:
            return None
        saved = yield from _read(threads, thread_id, namespace[:depth], below.state.around.checkpoint_id)
        assert saved is not None
        newest = saved
        if not saved.is_newest:
            newest = yield from threads.known(Place(thread_id, namespace[:depth], None))
        tables = nested_tables(threads.tables, namespace[:depth])
        task = _task_of(tables, saved, thread_id, namespace[:depth], below.state.owner or namespace[depth])
        if task is None:
            return None
        levels.append(Level(saved, task))
        is_current = is_current and _waits(tables, newest, saved, thread_id, namespace[:depth], task)
        below = saved
    if inner is None:
        return None
    return Path(inner, tuple(reversed(levels)), is_current)


def _read(
    threads: ThreadPrograms, thread_id: str, namespace: tuple[str, ...], checkpoint_id: str | None
) -> Asking[Saved | None]:
    text = namespace_text(namespace)
    return (yield from read_checkpoint(threads.saver, threads.codec, thread_id, text, checkpoint_id))


def _task_of(
    tables: Tables, saved: Saved, thread_id: str, namespace: tuple[str, ...], name: str
) -> Due | None:
    """The task that a nested graph runs in: the graph is known by its id, or by that and what its function called."""
    due = due_tasks(tables, saved.state, all_records(saved, thread_id, namespace))
    found = [task for task in due if name == task.id or name.startswith(f"{task.id}/")]
    return max(found, key=lambda task: len(task.id), default=None)


def _waits(
    tables: Tables, newest: Saved, then: Saved, thread_id: str, namespace: tuple[str, ...], task: Due
) -> bool:
    """Whether a graph is still at the step that it was at then, with that task not done."""
    if then.checkpoint_id not in (newest.checkpoint_id, *newest.state.edited):
        return False
    due = due_tasks(tables, newest.state, all_records(newest, thread_id, namespace))
    return any(one.id == task.id and one.writes is None for one in due)


def _fork_around(
    threads: ThreadPrograms,
    make: Make,
    place: Place,
    path: Path,
    held: Held,
    questions: Sequence[Interrupt] = (),
) -> Asking[Around]:
    """Forks the graphs around a nested one as they were when it was at a checkpoint; what its fork is made in."""
    made: Around | None = None
    below = [*(level.saved for level in path.around[1:]), path.inner]
    for depth, (level, child) in enumerate(zip(path.around, below, strict=True)):
        assert child.state.around is not None
        inside = Inside(level.task.id, place.namespace[depth], child.state.around.known, questions)
        there = Place(place.thread_id, place.namespace[:depth], level.saved.checkpoint_id)
        back = Back("unanswered", made, inside)
        head: str | None = yield Ask(make(there, [[StateUpdate(None, COPY)]], held, back), "edit")
        assert head is not None
        made = Around(head, 0)
    assert made is not None
    return made


__all__ = ["Make", "Path", "check_goes_on", "edit", "enter", "read_path"]
