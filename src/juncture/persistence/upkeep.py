"""Looking after threads: copies, pruning, deletion, and finding those whose run died.

Programs for both kinds of code (`asking`). Whatever changes a thread takes its lease first, so nothing of this can come
between the steps of a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from juncture.engine.state import Saved
from juncture.errors import ConfigError, HeadMovedError, SerializationError, ThreadNotFoundError
from juncture.persistence import leases, recent
from juncture.persistence.asking import Ask, Asking
from juncture.persistence.codec import Codec
from juncture.persistence.format import header_bytes, namespace_levels, read_header, record_bytes
from juncture.persistence.reading import read_page, without_thread
from juncture.persistence.track import Track
from juncture.savers.base import Lease, LoadedCheckpoint, Saver, StoredCheckpoint, StoredThread

T = TypeVar("T")
Keeps = Callable[[int, LoadedCheckpoint], bool]
"""Whether a checkpoint is kept, by its place from the newest (0) and its columns."""

PAGE: Final = 64
"""How many checkpoints are copied at once."""
_LISTED: Final = 1000
"""How many threads are listed at once."""
_DIGITS: Final = re.compile(r"\d+")


def leased(
    saver: Saver, thread_id: str, program: Callable[[Lease], Asking[T]], *, leaves_dead: bool = False
) -> Asking[T]:
    """Runs a program that changes a thread, with the thread's lease.

    Args:
        saver: Where it is.
        thread_id: The thread.
        program: Changes it.
        leaves_dead: A thread whose run died is as dead afterwards, so that `recover` finds it.

    Raises:
        ThreadBusyError: A run has the thread. Nothing was changed.
    """
    dead: list[Lease] = (yield from dead_leases(saver)) if leaves_dead else []
    held = yield from leases.acquire(saver, thread_id, "raise", doing=leases.EDITING)
    try:
        return (yield from program(held.lease))
    finally:
        recent.forget(saver, thread_id)
        mine = [lease for lease in dead if lease.thread_id == thread_id]
        if mine:
            yield from leases.put_back(saver, held, mine[0])
        else:
            yield from leases.release(saver, held)


def copy_thread(saver: Saver, codec: Codec, source: str, target: str) -> Asking[None]:
    """Copies every checkpoint of a thread, with what was saved beside it, in all namespaces.

    Raises:
        ThreadNotFoundError: There is no such thread.
        ConfigError: The target has checkpoints already. Nothing was changed.
        HeadMovedError: The source was changed meanwhile. What had been copied was removed again.
        Exception: What the saver raised. What had been copied was removed again.
    """
    namespaces: list[str] = yield Ask(saver, "namespaces", (source,))
    if not namespaces:
        raise not_found(source)

    def copying(lease: Lease) -> Asking[None]:
        if (yield Ask(saver, "namespaces", (target,))):
            raise ConfigError(f"thread {target!r} has checkpoints already; copy {source!r} to a new thread")
        try:
            yield from _copy_all(saver, codec, source, namespaces, lease)
        except BaseException:
            yield Ask(saver, "delete_thread", (target,), {"lease": lease})
            raise

    yield from leased(saver, target, copying)


def _copy_series(saver: Saver, codec: Codec, source: str, namespace: str, lease: Lease) -> Asking[None]:
    listed: list[LoadedCheckpoint] = yield Ask(saver, "history", (source, namespace))
    stored = [found.checkpoint for found in reversed(listed)]
    track = Track(codec, (), exposed=False)
    follows: str | None = None
    for start in range(0, len(stored), PAGE):
        chunk = stored[start : start + PAGE]
        end = start + len(chunk)
        page, _ = yield from read_page(
            saver,
            codec,
            source,
            namespace,
            before=stored[end].checkpoint_id if end < len(stored) else None,
            limit=len(chunk),
            matches=lambda _found, _header: True,
            values=True,
        )
        if [saved.checkpoint_id for saved in reversed(page)] != [one.checkpoint_id for one in chunk]:
            raise _changed(source)  # pruned, or deleted
        for place, (one, saved) in enumerate(zip(chunk, reversed(page), strict=True), start + 1):
            copied = without_thread(saved, source)
            payload, builds_on = track.encode(copied.state, place)
            header = header_bytes(codec, copied.state, copied.metadata, track.size)
            made = replace(one, thread_id=lease.thread_id, seq=place, builds_on=builds_on, header=header)
            yield Ask(saver, "put", (made, payload), {"follows": follows, "lease": lease})
            yield from _copy_records(saver, codec, one, copied, lease)
            follows = one.checkpoint_id


def _copy_all(
    saver: Saver, codec: Codec, source: str, namespaces: Sequence[str], lease: Lease
) -> Asking[None]:
    """Copies every series, the thread's own last: until then, there is no thread to be seen."""
    before = yield from _standing(saver, source, namespaces)
    try:
        for namespace in reversed(namespaces):
            yield from _copy_series(saver, codec, source, namespace, lease)
    except SerializationError as error:
        if (yield from _standing(saver, source, namespaces)) != before:
            raise _changed(source) from error
        raise
    if (yield from _standing(saver, source, namespaces)) != before:
        raise _changed(source)


def _standing(saver: Saver, thread_id: str, namespaces: Sequence[str]) -> Asking[list[object]]:
    """What tells whether anything of a thread changed: the ids of its checkpoints, and the records beside its heads."""
    standing: list[object] = []
    for namespace in namespaces:
        listed: list[LoadedCheckpoint] = yield Ask(saver, "history", (thread_id, namespace))
        standing += [found.checkpoint.checkpoint_id for found in listed]
        heads: list[LoadedCheckpoint] = yield Ask(
            saver, "history", (thread_id, namespace), {"limit": 1, "records": True}
        )
        standing += heads
    return standing


def _changed(source: str) -> HeadMovedError:
    error = HeadMovedError(
        f"thread {source!r} was changed while it was copied. Nothing of the copy was kept; copy it again once nobody runs it"
    )
    error.thread_id = source
    return error


def _copy_records(
    saver: Saver, codec: Codec, one: StoredCheckpoint, saved: Saved, lease: Lease
) -> Asking[None]:
    if saved.records:
        records = [record_bytes(codec, record) for record in saved.records]
        args = (lease.thread_id, one.namespace, one.checkpoint_id, records)
        yield Ask(saver, "put_records", args, {"lease": lease})


def delete_thread(saver: Saver, thread_id: str) -> Asking[None]:
    """Removes everything of a thread that nobody runs.

    Raises:
        ThreadBusyError: A run has it. Nothing was removed.
        LeaseLostError: This was stopped for so long that another has the thread now. Nothing was removed.
    """

    def deleting(lease: Lease) -> Asking[None]:
        yield Ask(saver, "delete_thread", (thread_id,), {"lease": lease})

    yield from leased(saver, thread_id, deleting)


def prune(saver: Saver, codec: Codec, thread_id: str, keeps: Keeps) -> Asking[int]:
    """Removes the checkpoints of a thread that aren't kept, but never the newest; how many that were.

    The checkpoints of a nested graph go with the step that it ran in: when no checkpoint before that step is left. Until then,
    those stay at which it paused, and of one with a memory of its own, those at which it stood in what is left of the
    graph around it.

    Raises:
        ThreadBusyError: A run has the thread. Nothing was removed.
        LeaseLostError: This was stopped for so long that another has the thread now. What was removed before stays so.
        ThreadNotFoundError: There is no such thread.
    """

    def pruning(lease: Lease) -> Asking[int]:
        namespaces: list[str] = yield Ask(saver, "namespaces", (thread_id,))
        if not namespaces:
            raise not_found(thread_id)
        removed = 0
        steps: dict[tuple[str, ...], set[int]] = {}
        remembered: set[str] = set()
        for levels, namespace in sorted((namespace_levels(text), text) for text in namespaces):
            listed: list[LoadedCheckpoint] = yield Ask(
                saver, "history", (thread_id, namespace), {"records": len(namespaces) > 1}
            )
            if levels and not _is_reachable(levels, steps):
                gone = listed
            else:
                gone = [
                    found
                    for place, found in enumerate(listed)
                    if place and not keeps(place, found) and found.checkpoint.checkpoint_id not in remembered
                ]
                dropped = {found.checkpoint.checkpoint_id for found in gone}
                left = [found.checkpoint for found in listed if found.checkpoint.checkpoint_id not in dropped]
                steps[levels] = {stored.step for stored in left}
                for stored in left:
                    remembered.update(read_header(codec, stored.header).get("memory", {}).values())
                remembered.update(
                    record.name
                    for found in listed
                    if found.checkpoint.checkpoint_id not in dropped
                    for record in found.records
                    if record.kind == "nested"
                )
            if gone:
                ids = [found.checkpoint.checkpoint_id for found in gone]
                yield Ask(saver, "drop", (thread_id, namespace, ids), {"lease": lease})
                removed += len(gone)
        return removed

    return (yield from leased(saver, thread_id, pruning, leaves_dead=True))


def _is_reachable(levels: tuple[str, ...], steps: dict[tuple[str, ...], set[int]]) -> bool:
    """Whether a checkpoint is left from which the task of this namespace would run."""
    node, _, place = levels[-1].rpartition(":")
    around = steps.get(levels[:-1])
    if around is None:  # a graph called by a function, inside a task that keeps nothing itself
        return len(levels) > 1 and _is_reachable(levels[:-1], steps)
    step = _DIGITS.match(place)
    return not node or step is None or int(step[0]) - 1 in around


def all_threads(saver: Saver) -> Asking[list[str]]:
    """The ids of all threads."""
    found: list[str] = []
    while True:
        after = found[-1] if found else None
        page: Sequence[StoredThread] = yield Ask(saver, "threads", (), {"after": after, "limit": _LISTED})
        found += [thread.thread_id for thread in page]
        if len(page) < _LISTED:
            return found


def dead_leases(saver: Saver) -> Asking[list[Lease]]:
    """The leases of runs that died: they ran out, or their process has ended."""
    found: list[Lease] = yield Ask(saver, "leases")
    return [lease for lease in found if leases.is_free(lease) and leases.is_of_run(lease)]


def not_found(thread_id: str) -> ThreadNotFoundError:
    """The error of whoever names a thread that isn't there."""
    error = ThreadNotFoundError(
        f"there is no thread {thread_id!r}. Its id has to be exactly as it was given to the run; "
        "the threads that there are can be listed"
    )
    error.thread_id = thread_id
    return error
