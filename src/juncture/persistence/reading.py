"""Looking at what threads hold, without running them: programs for both kinds of code (`asking`).

Nothing here takes a lease: what is read is a committed state, whoever runs the thread meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from juncture.engine.state import Saved
from juncture.engine.values import copied
from juncture.errors import CheckpointNotFoundError
from juncture.persistence.asking import Ask, Asking
from juncture.persistence.codec import Codec
from juncture.persistence.format import (
    Body,
    bare_state,
    body_of_parts,
    next_body,
    part_places,
    payloads_of,
    read_header,
    read_record,
    saved_checkpoint,
    saved_of,
)
from juncture.savers.base import LoadedCheckpoint, Part, Saver, StoredThread, needed_parts

Matches = Callable[[LoadedCheckpoint, Mapping[str, Any]], bool]
"""Whether a checkpoint is wanted, by its columns and its header."""


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
    return saved_checkpoint(codec, found)


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
    headed = [(found, read_header(codec, found.checkpoint.header)) for found in page]
    wanted = [(found, header) for found, header in headed if matches(found, header)]
    if not values:
        return [_without_values(codec, found, header) for found, header in wanted], last
    parts: list[Part] = []
    if wanted:
        spans = needed_parts(found.checkpoint for found, _ in wanted)
        parts = yield Ask(saver, "parts", (thread_id, namespace, spans))
    return _with_values(codec, wanted, {part.seq: part.payload for part in parts}), last


def _without_values(codec: Codec, found: LoadedCheckpoint, header: dict[str, Any]) -> Saved:
    stored = found.checkpoint
    return Saved(
        stored.checkpoint_id,
        stored.parent_id,
        bare_state(stored.step, header),
        [read_record(codec, record) for record in found.records],
        stored.source,
        stored.run_id,
        stored.created_at,
        found.head_id,
        header.get("metadata", {}),
    )


def _with_values(
    codec: Codec, wanted: Sequence[tuple[LoadedCheckpoint, dict[str, Any]]], payloads: Mapping[int, bytes]
) -> list[Saved]:
    """Checkpoints with their values, each part of them read once where they follow one another."""
    made: list[Saved] = []
    chain: list[int] = []
    body: Body | None = None
    for found, header in reversed(wanted):
        stored = found.checkpoint
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
) -> Asking[list[tuple[StoredThread, Saved]]]:
    """Threads with their newest checkpoints, without values."""
    found: list[StoredThread] = yield Ask(saver, "threads", (), {"after": after, "limit": limit})
    return [
        (thread, _without_values(codec, thread.head, read_header(codec, thread.head.checkpoint.header)))
        for thread in found
    ]


def without_thread(saved: Saved, origin: str) -> Saved:
    """A checkpoint as that of another thread, where questions keep the ids that they have in the thread they come from."""
    return replace(saved, state=replace(saved.state, origin=saved.state.origin or origin))
