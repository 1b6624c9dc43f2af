"""Looking at what threads hold, without running them: programs for both kinds of code (`asking`).

Nothing here takes a lease: what is read is a committed state, whoever runs the thread meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from juncture.engine.state import Saved, TaskRecord
from juncture.engine.values import copied
from juncture.errors import CheckpointNotFoundError, SerializationError, note
from juncture.persistence.asking import Ask, Asking
from juncture.persistence.codec import Codec
from juncture.persistence.format import (
    Body,
    bare_state,
    body_of_parts,
    namespace_levels,
    next_body,
    part_places,
    payloads_of,
    read_header,
    read_record,
    saved_checkpoint,
    saved_of,
)
from juncture.savers.base import LoadedCheckpoint, Part, Saver, StoredRecord, StoredThread, needed_parts

Matches = Callable[[LoadedCheckpoint, Mapping[str, Any]], bool]
"""Whether a checkpoint is wanted, by its columns and its header."""


_MOST_TAKEN_BACK: Final = 16
"""A record without content has at most so many bytes, in any version; only such ones are read to find out."""


def read_checkpoint(
    saver: Saver, codec: Codec, thread_id: str, namespace: str, checkpoint_id: str | None
) -> Asking[Saved | None]:
    """A checkpoint, or the newest; None if the namespace has none.

    Raises:
        CheckpointNotFoundError: It has none of that id.
        SerializationError: It can't be read.
    """
    found: LoadedCheckpoint | None = yield Ask(saver, "load", (thread_id, namespace, checkpoint_id))
    if found is None:
        if checkpoint_id is not None:
            within = f" in the namespace {namespace!r}" if namespace else ""
            raise CheckpointNotFoundError(
                f"thread {thread_id!r} has no checkpoint {checkpoint_id!r}{within}. Its history lists those it has"
            )
        return None
    with _at(found):
        return saved_checkpoint(codec, found)


@contextmanager
def _at(found: LoadedCheckpoint) -> Generator[None, None, None]:
    """What can't be read says of which checkpoint it is."""
    try:
        yield
    except SerializationError as error:
        stored = found.checkpoint
        error.thread_id, error.namespace, error.step = (
            stored.thread_id,
            namespace_levels(stored.namespace),
            stored.step,
        )
        note(
            error, f"juncture: while reading checkpoint {stored.checkpoint_id} of thread {stored.thread_id!r}"
        )
        raise


def read_page(
    saver: Saver,
    codec: Codec,
    thread_id: str,
    namespace: str,
    *,
    before: str | None,
    limit: int,
    matches: Matches,
    values: bool,
) -> Asking[tuple[list[Saved], str | None]]:
    """Some of the checkpoints of a namespace, newest first, in two statements.

    Args:
        saver: Where they are.
        codec: Knows the classes in them.
        thread_id: The thread.
        namespace: Which nested graph's, as text.
        before: Only those with a smaller id.
        limit: How many are looked at.
        matches: Which of these are wanted; only their values are read.
        values: Whether values are read at all.

    Returns:
        Those that are wanted, and the id before which to go on; None at the end.
    """
    page: list[LoadedCheckpoint] = yield Ask(
        saver, "history", (thread_id, namespace), {"before": before, "limit": limit, "records": True}
    )
    last = page[-1].checkpoint.checkpoint_id if len(page) == limit else None
    headed = [(found, _header(codec, found)) for found in page]
    wanted = [(found, header) for found, header in headed if matches(found, header)]
    if not values:
        return [_without_values(codec, found, header) for found, header in wanted], last
    parts: list[Part] = []
    if wanted:
        spans = needed_parts(found.checkpoint for found, _ in wanted)
        parts = yield Ask(saver, "parts", (thread_id, namespace, spans))
    return _with_values(codec, wanted, {part.seq: part.payload for part in parts}), last


def _header(codec: Codec, found: LoadedCheckpoint) -> dict[str, Any]:
    with _at(found):
        return read_header(codec, found.checkpoint.header)


def _without_values(codec: Codec, found: LoadedCheckpoint, header: dict[str, Any]) -> Saved:
    stored = found.checkpoint
    with _at(found):
        records = [_light_record(codec, record) for record in found.records]
    return Saved(
        stored.checkpoint_id,
        stored.parent_id,
        bare_state(stored.step, header),
        records,
        stored.source,
        stored.run_id,
        stored.created_at,
        found.head_id,
        header.get("metadata", {}),
    )


def _light_record(codec: Codec, stored: StoredRecord) -> TaskRecord:
    """A record, without the values that a task wrote or a call gave."""
    if stored.kind == "done":
        taken_back = len(stored.content) <= _MOST_TAKEN_BACK and read_record(codec, stored).content is None
        return TaskRecord(stored.task_id, "done", stored.name, None if taken_back else ([], [], []))
    if stored.kind == "call":
        return TaskRecord(stored.task_id, "call", stored.name, None)
    return read_record(codec, stored)


def _with_values(
    codec: Codec, wanted: Sequence[tuple[LoadedCheckpoint, dict[str, Any]]], payloads: Mapping[int, bytes]
) -> list[Saved]:
    """Checkpoints with their values, each part of them read once where they follow one another."""
    made: list[Saved] = []
    chain: list[int] = []
    body: Body | None = None
    for found, header in reversed(wanted):
        stored = found.checkpoint
        with _at(found):
            needed, parts = part_places(stored), payloads_of(stored, payloads)
            if body is not None and needed[: len(chain)] == chain:
                for payload in parts[len(chain) :]:
                    body = next_body(codec, body, payload)
            else:
                body = body_of_parts(codec, parts)
            chain = needed
            own = body._replace(
                values=copied(body.values), cells=copied(body.cells), written=copied(body.written)
            )
            made.append(saved_of(codec, found, header, own))
    made.reverse()
    return made


def read_threads(
    saver: Saver, codec: Codec, *, after: str | None, limit: int | None
) -> Asking[list[tuple[StoredThread, Saved | None]]]:
    """Threads with their newest checkpoints, without values; None for one that can't be read."""
    found: list[StoredThread] = yield Ask(saver, "threads", (), {"after": after, "limit": limit})
    read: list[tuple[StoredThread, Saved | None]] = []
    for thread in found:
        try:
            saved = _without_values(codec, thread.head, _header(codec, thread.head))
        except SerializationError:
            saved = None
        read.append((thread, saved))
    return read


def without_thread(saved: Saved, origin: str) -> Saved:
    """A checkpoint as that of another thread, where questions keep the ids that they have in the thread they come from."""
    return replace(saved, state=replace(saved.state, origin=saved.state.origin or origin))
