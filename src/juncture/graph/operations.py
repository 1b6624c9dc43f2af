"""Reading and looking after the threads of one graph, as programs for both kinds of code (`juncture.persistence.asking`).

`ThreadAccess` is their face.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from juncture.engine.interrupts import open_questions
from juncture.engine.plan import unfinished
from juncture.engine.state import Saved
from juncture.engine.tables import Tables
from juncture.errors import ConfigError, SerializationError, ThreadBusyError, ThreadNotFoundError
from juncture.graph.config import read_config
from juncture.graph.namespaces import nested_tables
from juncture.graph.snapshots import (
    all_records,
    due_tasks,
    empty_snapshot,
    is_graph,
    snapshot,
    thread_snapshot,
    unreadable_thread,
)
from juncture.persistence import leases, upkeep
from juncture.persistence.asking import Ask, Asking
from juncture.persistence.codec import Codec
from juncture.persistence.format import config_of, namespace_levels, namespace_text
from juncture.persistence.reading import Matches, read_checkpoint, read_page, read_threads
from juncture.savers.base import Lease, LoadedCheckpoint, Saver
from juncture.types import RunResult, StateDiff, StateSnapshot, ThreadSnapshot

if TYPE_CHECKING:
    from juncture.graph.calls import Call
    from juncture.persistence.leases import Held

Where: TypeAlias = Mapping[str, Any] | str
"""A config, or the id of a thread."""

PAGE: Final = 64
"""How many checkpoints of a history are read at once."""


class RecoveredThread(NamedTuple):
    """What `recover` did with a thread whose run had died."""

    thread_id: str
    result: RunResult | None
    """What its run ended with; None where it failed, or where there was nothing to run: the thread was only given back."""
    error: Exception | None
    """What its run failed with."""


class Place(NamedTuple):
    """A checkpoint of a thread, or its newest."""

    thread_id: str
    namespace: tuple[str, ...]
    checkpoint_id: str | None


def place_of(config: Where) -> Place:
    """What a config names.

    Raises:
        ConfigError: It names no thread.
    """
    options = read_config(None, config) if isinstance(config, str) else read_config(config, None)
    if options.thread_id is None:
        raise ConfigError(
            'no thread is named: give its id, or {"configurable": {"thread_id": …}} as the config'
        )
    return Place(options.thread_id, namespace_levels(options.checkpoint_ns), options.checkpoint_id)


def named(thread_id: str) -> str:
    """The id of a thread, checked as calls check it.

    Raises:
        ConfigError: It can't be one.
    """
    return place_of({"configurable": {"thread_id": thread_id}}).thread_id


class ThreadPrograms:
    """The threads of one graph."""

    def __init__(self, saver: Saver, codec: Codec, tables: Tables) -> None:
        self.saver = saver
        self.codec = codec
        self.tables = tables

    # ---- reading

    def get_state(self, config: Where, *, nested: bool) -> Asking[StateSnapshot]:
        """The state at a place."""
        return (yield from self._snapshot(place_of(config), nested=nested))

    def _snapshot(self, place: Place, *, nested: bool) -> Asking[StateSnapshot]:
        tables = nested_tables(self.tables, place.namespace)
        text = namespace_text(place.namespace)
        saved = yield from read_checkpoint(self.saver, self.codec, place.thread_id, text, place.checkpoint_id)
        if saved is None:
            return empty_snapshot(place.thread_id, place.namespace)
        below = yield from self._below(tables, saved, place, nested=nested)
        newest = place.checkpoint_id is None
        return snapshot(tables, saved, place.thread_id, place.namespace, nested=below, newest=newest)

    def _below(
        self, tables: Tables, saved: Saved, place: Place, *, nested: bool
    ) -> Asking[dict[str, Mapping[str, Any] | StateSnapshot]]:
        """What is known of the nested graphs that are due and have begun.

        Of an older state: what they came to then, or of one that remembers, what it remembered then.
        """
        found: dict[str, Mapping[str, Any] | StateSnapshot] = {}
        due = due_tasks(tables, saved.state, all_records(saved, place.thread_id, place.namespace))
        graphs = [(task, graph) for task in due if (graph := is_graph(tables, task.name)) is not None]
        if not graphs:
            return found
        begun: list[str] = yield Ask(self.saver, "namespaces", (place.thread_id,))
        for task, graph in graphs:
            levels = (*place.namespace, task.name if graph.remembers else task.id)
            if namespace_text(levels) in begun:
                there: Place | None = Place(place.thread_id, levels, None)
                remembered = saved.state.memory.get(task.name) if graph.remembers else None
                if place.checkpoint_id and graph.remembers:
                    there = None if remembered is None else there._replace(checkpoint_id=remembered)
                elif place.checkpoint_id or ">" in saved.state.branch:
                    there = yield from self._then(there, saved, remembered)
                if there is None:
                    continue  # it hadn't begun yet
                if nested:
                    found[task.id] = yield from self._snapshot(there, nested=True)
                else:
                    found[task.id] = config_of(place.thread_id, levels, there.checkpoint_id)
        return found

    def _then(self, there: Place, around: Saved, remembered: str | None) -> Asking[Place | None]:
        """Where a nested graph stood at the end of the step that follows a checkpoint around it; None if nowhere.

        If it didn't run in that step, it stands where it stood before, if it remembers that.
        """
        counted = (around.checkpoint_id, *around.state.edited)
        before: str | None = None
        while True:
            page, before = yield from read_page(
                self.saver,
                self.codec,
                there.thread_id,
                namespace_text(there.namespace),
                before=before,
                limit=PAGE,
                matches=lambda _, header: header.get("around", counted)[0] in counted,
                values=False,
            )
            if page:
                shows_newest = around.is_newest and page[0].is_newest
                return there if shows_newest else there._replace(checkpoint_id=page[0].checkpoint_id)
            if before is None:
                return None if remembered is None else there._replace(checkpoint_id=remembered)

    def diff(self, first: Where, second: Where) -> Asking[StateDiff]:
        """What differs between two states."""
        one = yield from self.known(place_of(first))
        two = yield from self.known(place_of(second))
        a, b = one.state.values, two.state.values
        same = self.codec.encode
        return StateDiff(
            {key: value for key, value in b.items() if key not in a},
            {key: value for key, value in a.items() if key not in b},
            {key: (a[key], b[key]) for key in a if key in b and same(a[key]) != same(b[key])},
        )

    def known(self, place: Place) -> Asking[Saved]:
        """The checkpoint at a place.

        Raises:
            ThreadNotFoundError: There is none.
        """
        text = namespace_text(place.namespace)
        saved = yield from read_checkpoint(self.saver, self.codec, place.thread_id, text, place.checkpoint_id)
        if saved is None:
            raise upkeep.not_found(place.thread_id)
        return saved

    def get_threads(self, after: str | None, limit: int | None) -> Asking[list[ThreadSnapshot]]:
        """Threads with their newest states."""
        found = yield from read_threads(self.saver, self.codec, after=after, limit=limit)
        listed: list[ThreadSnapshot] = []
        for thread, saved in found:
            lease = thread.lease
            holder = None if lease is None else lease.holder
            if saved is None:
                listed.append(unreadable_thread(thread, holder))
            else:
                runs = None if lease is None else not leases.is_free(lease)
                listed.append(thread_snapshot(self.tables, thread.thread_id, saved, holder, runs=runs))
        return listed

    # ---- looking after threads

    def archive(self, thread_id: str) -> Asking[str]:
        """Moves a thread; its new id."""
        return (yield from upkeep.leased(self.saver, thread_id, lambda lease: self.move(thread_id, lease)))

    def move(self, thread_id: str, lease: Lease) -> Asking[str]:
        """Moves a thread whose lease the caller has; its new id."""
        saved = yield from self.known(Place(thread_id, (), None))
        kept = yield from self._free_id(f"{thread_id}@{saved.checkpoint_id}")
        yield from upkeep.copy_thread(self.saver, self.codec, thread_id, kept)
        yield Ask(self.saver, "delete_thread", (thread_id,), {"lease": lease})
        return kept

    def _free_id(self, wanted: str) -> Asking[str]:
        """A thread id that isn't used. What a copy that was cut short left under one is removed: nobody can have gone on."""
        number = 1
        while True:
            free = wanted if number == 1 else f"{wanted}.{number}"
            begun: list[str] = yield Ask(self.saver, "namespaces", (free,))
            if begun and "" not in begun:
                yield from upkeep.delete_thread(self.saver, free)
            elif begun:
                number += 1
                continue
            return free

    def prune(
        self, thread_id: str | None, keep: int | None, older_than: timedelta | float | None
    ) -> Asking[int]:
        """Removes checkpoints of one thread, or of all that nobody runs; how many."""
        keeps = keeping(keep, older_than)
        if thread_id is not None:
            return (yield from upkeep.prune(self.saver, self.codec, thread_id, keeps))
        removed = 0
        for each in (yield from upkeep.all_threads(self.saver)):
            try:
                removed += yield from upkeep.prune(self.saver, self.codec, each, keeps)
            except (ThreadBusyError, ThreadNotFoundError, SerializationError):
                continue  # it is run, was deleted meanwhile, or was saved by another version
        return removed

    def recover(
        self, make: Callable[[str, Held], Call], thread_ids: Sequence[str] | None
    ) -> Asking[list[RecoveredThread]]:
        """Takes up the threads whose run died, one after the other.

        Args:
            make: Makes the call that goes on with a thread.
            thread_ids: Only these.
        """
        found: list[RecoveredThread] = []
        wanted = None if thread_ids is None else frozenset(thread_ids)
        for lease in (yield from upkeep.dead_leases(self.saver)):
            if wanted is not None and lease.thread_id not in wanted:
                continue
            try:
                taken, held = yield from self._take_over(lease)
            except SerializationError as error:
                found.append(RecoveredThread(lease.thread_id, None, error))
                continue
            if held is None:
                found += [RecoveredThread(lease.thread_id, None, None)] * taken
                continue
            try:
                result: RunResult = yield Ask(make(lease.thread_id, held), "run")
                found.append(RecoveredThread(lease.thread_id, result, None))
            except Exception as error:  # noqa: BLE001 - it is reported
                found.append(RecoveredThread(lease.thread_id, None, error))
        return found

    def _take_over(self, lease: Lease) -> Asking[tuple[bool, Held | None]]:
        """Takes a dead run's thread: whether nobody else was faster, and its lease, if there is something to run."""
        now: list[Lease] = yield Ask(self.saver, "leases")
        if not any(one.token == lease.token for one in now):
            return False, None
        try:
            held = yield from leases.acquire(self.saver, lease.thread_id, "raise", lease.token)
        except ThreadBusyError:
            return False, None
        try:
            goes_on = yield from self._can_go_on(lease.thread_id)
        except GeneratorExit:
            raise
        except BaseException:
            yield from leases.put_back(self.saver, held, lease)
            raise
        if not goes_on:
            yield from leases.release(self.saver, held)
            return True, None
        return True, held

    def _can_go_on(self, thread_id: str) -> Asking[bool]:
        """Whether a thread whose run died has something to run: it has none where it ended, or waits for answers."""
        saved = yield from read_checkpoint(self.saver, self.codec, thread_id, "", None)
        if saved is None or not unfinished(self.tables, saved.state):
            return False
        records = all_records(saved, thread_id, ())
        if any(question.when != "inside" for question in open_questions(records)):
            return False
        due = due_tasks(self.tables, saved.state, records)
        return not due or not all(task.writes is not None or task.questions for task in due)


class History:
    """A listing of the states of one namespace, page by page."""

    def __init__(
        self,
        threads: ThreadPrograms,
        config: Where,
        wanted: Mapping[str, Any] | None,
        before: Where | None,
        limit: int | None,
        *,
        values: bool,
    ) -> None:
        self._threads = threads
        self._place = place_of(config)
        self._tables = nested_tables(threads.tables, self._place.namespace)
        self._matches = _matching(wanted)
        self._filters = bool(wanted)
        self._left = limit
        self._before: str | None = None
        if before is not None:
            self._before = before if isinstance(before, str) else self._named(before)
        self._values = values
        self._over = limit is not None and limit <= 0

    def _named(self, before: Mapping[str, Any]) -> str:
        """The checkpoint in a config, which has to be of the series that is listed.

        Raises:
            ConfigError: It names none, or one of another thread or namespace.
        """
        named, place = read_config(before, None), self._place
        if named.checkpoint_id is None:
            raise ConfigError(
                "before names no checkpoint: give the config of a snapshot, or a checkpoint's id"
            )
        thread_id = place.thread_id if named.thread_id is None else named.thread_id
        if (thread_id, namespace_levels(named.checkpoint_ns)) != (place.thread_id, place.namespace):
            raise ConfigError(
                f"before names checkpoint {named.checkpoint_id} of thread {thread_id!r}, namespace "
                f"{named.checkpoint_ns!r}, and the history is of thread {place.thread_id!r}, namespace "
                f"{namespace_text(place.namespace)!r}: give the config of one of its own states"
            )
        return named.checkpoint_id

    def page(self) -> Asking[list[StateSnapshot] | None]:
        """The next states; None at the end."""
        if self._over:
            return None
        place = self._place
        page, last = yield from read_page(
            self._threads.saver,
            self._threads.codec,
            place.thread_id,
            namespace_text(place.namespace),
            before=self._before,
            limit=PAGE if self._left is None or self._filters else min(PAGE, self._left),
            matches=self._matches,
            values=self._values,
        )
        self._before, self._over = last, last is None
        if self._left is not None:
            page = page[: self._left]
            self._left -= len(page)
            self._over = self._over or not self._left
        return [
            snapshot(self._tables, saved, place.thread_id, place.namespace, nested={}, newest=False)
            for saved in page
        ]


def _matching(wanted: Mapping[str, Any] | None) -> Matches:
    if not wanted:
        return lambda _found, _header: True
    entries = dict(wanted)

    def matches(found: LoadedCheckpoint, header: Mapping[str, Any]) -> bool:
        stored = found.checkpoint
        metadata = {
            "source": stored.source,
            "step": stored.step,
            "run_id": stored.run_id,
            **header.get("metadata", {}),
        }
        return all(name in metadata and metadata[name] == value for name, value in entries.items())

    return matches


def keeping(
    keep: int | None, older_than: timedelta | float | None
) -> Callable[[int, LoadedCheckpoint], bool]:
    """Which checkpoints pruning keeps.

    Raises:
        ConfigError: Nothing says so.
    """
    if keep is None and older_than is None:
        raise ConfigError("prune needs to know what to keep: keep=n, or older_than=timedelta(…)")
    if keep is not None and (type(keep) is not int or keep < 1):
        raise ConfigError(
            f"keep is a whole number, at least 1, got {keep!r}: the newest checkpoint always stays"
        )
    age = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
    if age is not None and not age >= 0:
        raise ConfigError(f"older_than is a time that has passed, got {older_than!r}")
    since = None if age is None else datetime.now(UTC).timestamp() - age

    def keeps(place: int, found: LoadedCheckpoint) -> bool:
        if keep is not None and place < keep:
            return True
        return since is not None and found.checkpoint.created_at >= since

    return keeps
