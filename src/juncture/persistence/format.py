"""The checkpoint format, version 1, and the two directions between it and the engine's `State`.

What a checkpoint is made of
----------------------------
A checkpoint stands in a saver as columns, a header, and parts (`juncture.savers.base`). Beside it stand records.

*Columns* are plain text and numbers that a saver may index. They are not repeated in the header:

    thread_id       as the user gave it
    namespace       which nested graph: the levels joined by ``|``, in each ``%`` written as ``%25`` and ``|`` as
                    ``%7C``; an empty level is ``%``. The graph that was called has the empty namespace.
    checkpoint_id   32 hexadecimal digits and 4 hyphens, ascending as text within a series; `checkpoint_ids`
    parent_id       the checkpoint that it was made from, or none
    step            of the thread; 0 is the input
    source          ``input``, ``loop``, ``update``, ``fork`` or ``command``
    run_id          the run that made it
    created_at      seconds since the epoch, by that run's clock

*Values* below means the encoding of `juncture.persistence.codec`, version 1.

*The header* is a value: a dict with these entries. Those that are empty are left out, except ``v``.

    v         1
    due       [node, …]                   due by edges, in plan order
    sends     [[node, time limits or nil], …] in the order sent; what they carry stands in the body
    joins     {join: [source, …]}         partly filled, and who arrived
    deferred  [node, …]                   triggered, and waiting for the end
    touched   [key, …]                    see `State`
    paused_after  [node, …]               see `State`
    unrouted  [node, …]                   see `State`
    ran       [node, …]                   see `State`
    branch    text                        see `State`
    memory    {node: checkpoint id}       see `State`
    owner     task id                     see `State`
    origin    thread id                   see `State`
    around    [checkpoint id, count]      see `State`
    edited    [checkpoint id, …]          see `State`
    metadata  {name: value}               what the caller of the run gave; to be listed and filtered
    size      int                         the bytes of the body as one whole part, when that was last known

*The body* is what the parts amount to. A part is *whole*, ``[1, values]`` or ``[1, values, more]``, or a *change* to what
the parts before it amount to, ``[1, [change, change, change]]`` or ``[1, [change, change, change], more]``. The first
part that a checkpoint builds on is whole; if it builds on none, its own is.

``values`` is a dict by state key. ``more`` is a dict with those of these entries that aren't empty:

    cells     {key: stored}                       of channels that store something else than they show
    written   [tuple of key and write, …]         see `State`
    sends     [argument, …]                       one for each of the header's
    carried   [[task, kind, name, content], …]    see `State`; records

The three changes are those of ``values``, of ``cells`` and of ``written``, each nil or a change as `juncture.persistence.deltas`
defines it; where there was nothing, an empty dict or list is what changed. ``sends`` and ``carried`` are never inherited: those
of a checkpoint are in its own part.

*A record's content* is the value ``[1, content]``; what the content is, `TaskRecord` says by kind.

When it can be read
-------------------
1. Header, body and each record say their version first. One that is newer than 1 is refused with
   `SerializationError`, naming both versions: nothing of it is guessed.
2. An entry of the header or of ``more`` that isn't listed above is ignored. So a later Juncture may add what an older one can do without;
   what it can't do without raises the version. A checkpoint is never rewritten, so nothing is lost by ignoring.
3. Everything else that differs from the above is an error: a missing version, a wrong type, a tail.

What isn't in it
----------------
Keys that aren't tracked; anything about tasks that are running; code, classes or modules other than by registered
name; clocks, except `created_at`, by which nothing is decided.
"""

from __future__ import annotations

# Values of any type and containers of anything are what this file is about: there is no type to be known.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, cast

from juncture.engine.state import Around, RecordKind, Saved, State, TaskRecord
from juncture.errors import SerializationError
from juncture.persistence import places
from juncture.persistence.codec import Codec, Objects
from juncture.persistence.deltas import applied
from juncture.persistence.limits import packed_limits, unpacked_limits
from juncture.savers.base import LoadedCheckpoint, StoredCheckpoint, StoredRecord
from juncture.types import Send

VERSION = 1
_NOTHING: Collection[str] = frozenset()
_NO_METADATA: Mapping[str, Any] = {}


# ── namespaces ───────────────────────────────────────────────────────────────────────────────────────────────


def namespace_text(namespace: tuple[str, ...]) -> str:
    """A namespace as one text; different namespaces never have the same."""
    return "|".join(level.replace("%", "%25").replace("|", "%7C") or "%" for level in namespace)


def config_of(thread_id: str, namespace: tuple[str, ...], checkpoint_id: str | None) -> dict[str, Any]:
    """A config that names a checkpoint, or a namespace."""
    named: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": namespace_text(namespace)}
    if checkpoint_id is not None:
        named["checkpoint_id"] = checkpoint_id
    return {"configurable": named}


def namespace_levels(text: str) -> tuple[str, ...]:
    """The namespace that `namespace_text` gave this text for."""
    if not text:
        return ()
    return tuple(
        "" if level == "%" else level.replace("%7C", "|").replace("%25", "%") for level in text.split("|")
    )


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


def header_bytes(  # noqa: C901 - an entry each; a loop over all of them costs more than the encoding, in every save
    codec: Codec, state: State, metadata: Mapping[str, Any] = _NO_METADATA, size: int = 0
) -> bytes:
    """What a listing shows of a state.

    Raises:
        SerializationError: A name in it is not a plain str.
    """
    header: dict[str, Any] = {"v": VERSION}
    if state.due:
        header["due"] = list(state.due)
    if state.sends:
        header["sends"] = [[send.node, packed_limits(send.timeout)] for send in state.sends]
    if state.joins:
        header["joins"] = {join: list(arrived) for join, arrived in state.joins.items()}
    if state.deferred:
        header["deferred"] = list(state.deferred)
    if state.touched:
        header["touched"] = list(state.touched)
    if state.paused_after:
        header["paused_after"] = list(state.paused_after)
    if state.unrouted:
        header["unrouted"] = list(state.unrouted)
    if state.ran:
        header["ran"] = list(state.ran)
    if state.branch:
        header["branch"] = state.branch
    if state.memory:
        header["memory"] = state.memory
    if state.owner:
        header["owner"] = state.owner
    if state.origin:
        header["origin"] = state.origin
    if state.around is not None:
        header["around"] = list(state.around)
    if state.edited:
        header["edited"] = list(state.edited)
    if metadata:
        header["metadata"] = dict(metadata)
    if size:
        header["size"] = size
    return codec.encode(header, "the names in the checkpoint")


def more_of(state: State, untracked: Collection[str] = _NOTHING) -> dict[str, Any]:
    """What of a body is never inherited."""
    more: dict[str, Any] = {}
    if state.sends:
        more["sends"] = [send.arg for send in state.sends]
    if state.carried:
        more["carried"] = [[r.task_id, r.kind, r.name, _content(r, untracked)] for r in state.carried]
    return more


def kept_of(
    state: State, untracked: Collection[str] = _NOTHING
) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """What of a body the next one may build on: values, cells, and writes."""
    written: list[Any] = list(
        state.written
    )  # the same pairs in every save, which is how they are known again
    if untracked and written:
        written = [pair for pair in written if pair[0] not in untracked]
    return tracked(state.values, untracked), tracked(state.cells, untracked), written


def whole_body(kept: tuple[dict[str, Any], dict[str, Any], list[Any]], more: dict[str, Any]) -> list[Any]:
    """A whole part, as a value."""
    values, cells, written = kept
    rest = {**({"cells": cells} if cells else {}), **({"written": written} if written else {}), **more}
    return [VERSION, values, rest] if rest else [VERSION, values]


def refuse(codec: Codec, state: State, untracked: Collection[str], error: SerializationError) -> NoReturn:
    """Raises the error of what in a state can't be stored, saying where it stands, with the key as its attribute.

    Raises:
        SerializationError: Always.
    """
    values, cells, written = kept_of(state, untracked)
    _try_each(codec, [*values.items(), *cells.items()])
    for send in state.sends:
        codec.encode(send.arg, f"the argument of the Send to {send.node!r}")
    _try_each(codec, written, "written to ")
    for record in state.carried:
        record_bytes(codec, record, untracked)
    raise SerializationError(f"state: {error}") from error  # all of it together: how deep it is


def tracked(values: dict[str, Any], untracked: Collection[str]) -> dict[str, Any]:
    """The values of the keys that are saved."""
    return {key: value for key, value in values.items() if key not in untracked} if untracked else values


def _try_each(codec: Codec, values: Iterable[tuple[str, Any]], what: str = "") -> None:
    """Raises the error of the first value that can't be stored, with its key."""
    for key, value in values:
        try:
            codec.encode(key, f"{what}the key {key!r} of the state")
            codec.encode(value, what + (f"state.{key}" if key.isidentifier() else f"state[{key!r}]"))
        except SerializationError as error:
            error.key = key
            raise


def record_bytes(codec: Codec, record: TaskRecord, untracked: Collection[str] = _NOTHING) -> StoredRecord:
    """A record as a saver keeps it.

    Raises:
        SerializationError: Something in its content can't be stored exactly.
    """
    content = _content(record, untracked)
    try:
        stored = codec.pack([VERSION, content])
    except SerializationError as error:
        if record.kind == "done" and content is not None:
            _try_each(codec, content[0], "written to ")
        codec.encode(content, _record_name(record))
        raise SerializationError(f"{_record_name(record)}: {error}") from error  # all of it together
    return StoredRecord(record.task_id, record.kind, record.name, stored)


def _content(record: TaskRecord, untracked: Collection[str]) -> Any:
    """The content of a record, without writes to keys that aren't saved."""
    if not untracked or record.kind != "done":
        return record.content
    writes, *routes = record.content
    return ([write for write in writes if write[0] not in untracked], *routes)


def _record_name(record: TaskRecord | StoredRecord) -> str:
    if record.kind == "call":
        function = record.name.rsplit("\x1f", 2)[0].rsplit("\x1f", 1)[-1]
        return f"the result of {function}() called in task {record.task_id}"
    return f"what is saved as {record.kind!r} of task {record.task_id}"


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────


class Body(NamedTuple):
    """What the parts of a checkpoint amount to."""

    values: dict[str, Any]
    cells: dict[str, Any]
    written: list[Any]
    more: dict[str, Any]
    objects: Objects
    """The objects in it that can be changed in place, with their bytes; in what was replaced as well."""


def saved_checkpoint(codec: Codec, loaded: LoadedCheckpoint) -> Saved:
    """A checkpoint, whole, as the engine takes it.

    Raises:
        SerializationError: Something in it can't be read: its version is newer, it isn't a checkpoint, or a value's
            class isn't registered or can't be rebuilt. Says where.
    """
    header = read_header(codec, loaded.checkpoint.header)
    return saved_of(codec, loaded, header, body_of(codec, loaded))


def body_of(codec: Codec, loaded: LoadedCheckpoint) -> Body:
    """What the parts of a checkpoint amount to.

    Raises:
        SerializationError: A part isn't there, or can't be read.
    """
    parts = {part.seq: part.payload for part in loaded.parts}
    return body_of_parts(codec, payloads_of(loaded.checkpoint, parts))


def payloads_of(stored: StoredCheckpoint, parts: Mapping[int, bytes]) -> list[bytes]:
    """The payloads that a checkpoint is made of, in their order.

    Raises:
        SerializationError: One isn't there.
    """
    needed = part_places(stored)
    missing = next((seq for seq in needed if seq not in parts), None)
    if missing is not None:
        raise SerializationError(
            f"part {missing} of the checkpoint isn't there: what it holds can't be told without it. Somebody removed it "
            "past Juncture, or the storage lost it; go back to an earlier checkpoint, or to a backup"
        )
    return [parts[seq] for seq in needed]


def part_places(stored: StoredCheckpoint) -> list[int]:
    """The places of the parts that a checkpoint is made of, in their order."""
    spans = (*stored.builds_on, (stored.seq, stored.seq))
    return [seq for first, last in spans for seq in range(first, last + 1)]


def saved_of(codec: Codec, loaded: LoadedCheckpoint, header: dict[str, Any], body: Body) -> Saved:
    """A checkpoint whose header and body were read."""
    stored = loaded.checkpoint
    return Saved(
        checkpoint_id=stored.checkpoint_id,
        parent_id=stored.parent_id,
        state=state_of(stored.step, header, body),
        records=[read_record(codec, record) for record in loaded.records],
        source=stored.source,
        run_id=stored.run_id,
        created_at=stored.created_at,
        head_id=loaded.head_id,
        metadata=header.get("metadata", {}),
    )


def state_of(step: int, header: dict[str, Any], body: Body) -> State:
    """The state that a header and a body amount to."""
    more = body.more
    targets, arguments = header.get("sends", []), more.get("sends", [])
    if len(targets) != len(arguments):
        raise SerializationError(
            f"the checkpoint names {len(targets)} sends, but has {len(arguments)} arguments"
        )
    each = zip(targets, arguments, strict=True)
    state = bare_state(step, header)
    state.values, state.cells = body.values, body.cells
    state.sends = tuple(
        [Send(node, argument, timeout=unpacked_limits(timeout)) for (node, timeout), argument in each]
    )
    state.written = tuple([(key, value) for key, value in body.written])
    state.carried = tuple([TaskRecord(*fields) for fields in more.get("carried", ())])
    return state


def bare_state(step: int, header: dict[str, Any]) -> State:
    """What the header says of a state: everything but values."""
    return State(
        step=step,
        due=tuple(header.get("due", ())),
        sends=tuple(
            [Send(node, None, timeout=unpacked_limits(timeout)) for node, timeout in header.get("sends", ())]
        ),
        joins={join: tuple(arrived) for join, arrived in header.get("joins", {}).items()},
        deferred=tuple(header.get("deferred", ())),
        touched=tuple(header.get("touched", ())),
        paused_after=tuple(header.get("paused_after", ())),
        unrouted=tuple(header.get("unrouted", ())),
        ran=tuple(header.get("ran", ())),
        branch=header.get("branch", ""),
        memory=header.get("memory", {}),
        owner=header.get("owner", ""),
        origin=header.get("origin", ""),
        around=Around(*header["around"]) if "around" in header else None,
        edited=tuple(header.get("edited", ())),
    )


def read_header(codec: Codec, stored: bytes) -> dict[str, Any]:
    """The entries of a header.

    Raises:
        SerializationError: It can't be read, or is of a newer version.
    """
    match codec.decode(stored, "the checkpoint's header"):
        case {"v": int(version), **entries}:
            _check_version(version)
            return entries
        case _:
            raise SerializationError("the checkpoint's header isn't one: it says no version")


def body_of_parts(codec: Codec, payloads: Sequence[bytes]) -> Body:
    """What parts amount to, in their order.

    Raises:
        SerializationError: There are none, the first isn't whole, or one can't be read.
    """
    if not payloads:
        raise SerializationError("the parts that the checkpoint builds on aren't there")
    body: Body | None = None
    for payload in payloads:
        body = next_body(codec, body, payload)
    assert body is not None
    return body


def next_body(codec: Codec, before: Body | None, payload: bytes) -> Body:
    """What a part makes of what the parts before it amount to, which is given up.

    Raises:
        SerializationError: It can't be read, or doesn't fit.
    """
    try:
        part, objects = codec.unpack_noting(payload, None if before is None else before.objects)
    except SerializationError as error:
        told = _by_key(codec, payload, error)
        raise told from told.__cause__
    match part:
        case [int(version), [values, cells, written], *rest] if (
            version == VERSION and before is not None and len(rest) <= 1
        ):
            return Body(
                before.values if values is None else applied(codec, before.values, values, objects),
                before.cells if cells is None else applied(codec, before.cells, cells, objects),
                before.written if written is None else applied(codec, before.written, written, objects),
                rest[0] if rest else {},
                objects,
            )
        case [int(version), *_] if version != VERSION:
            _check_version(version)
        case [int(), dict(values)]:
            return Body(values, {}, [], {}, objects)
        case [int(), dict(values), dict(more)]:
            return Body(values, more.pop("cells", {}), more.pop("written", []), more, objects)
        case [int(), [_, _, _], *_]:
            raise SerializationError(
                "the first of the checkpoint's parts is a change to others that aren't there"
            )
        case _:
            pass
    raise SerializationError("the checkpoint's values aren't what their version says they are")


def _by_key(codec: Codec, payload: bytes, error: SerializationError) -> SerializationError:
    """The error in terms of the state, with the key as its attribute."""
    found = places.of_reading(codec, payload, error)
    match found.steps:
        case [1, str(key), *_] | [2, "cells", str(key), *_]:
            told = found._replace(steps=found.steps[found.steps.index(key) :]).told("state")
            told.key = key
        case [2, str(name), *inside]:
            told = found._replace(steps=inside).told(f"the checkpoint's {name}")
        case [1, 0 | 1, 1, str(key), *inside]:
            told = found._replace(steps=[key, *inside]).told("state")
            told.key = key
        case [1, 0 | 1, int(place), *inside] if key := places.item_of(payload, [*found.steps[:2], place - 1]):
            told = found._replace(steps=[key, *inside]).told("state")
            told.key = key
        case _:
            told = found.told("the checkpoint's values")
    return told


def read_record(codec: Codec, stored: StoredRecord) -> TaskRecord:
    """A record as the engine takes it.

    Raises:
        SerializationError: It can't be read, or is of a newer version.
    """
    match codec.decode(stored.content, _record_name(stored)):
        case [int(version), content] if version == VERSION:
            return TaskRecord(stored.task_id, cast("RecordKind", stored.kind), stored.name, content)
        case [int(version), *_]:
            _check_version(version)
        case _:
            pass
    raise SerializationError(f"{_record_name(stored)} isn't a record of version {VERSION}")


def _check_version(version: int) -> None:
    if version > VERSION:
        raise SerializationError(
            f"this was saved in version {version} of the checkpoint format, and this Juncture reads up to version "
            f"{VERSION}. Update Juncture to go on with the thread; nothing was changed."
        )
    if version < 1:
        raise SerializationError(f"there is no version {version} of the checkpoint format")
