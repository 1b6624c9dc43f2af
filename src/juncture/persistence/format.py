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
    sends     [[node, timeout or nil], …] in the order sent; what they carry stands in the body
    joins     {join: [source, …]}         partly filled, and who arrived
    deferred  [node, …]                   triggered, and waiting for the end
    touched   [key, …]                    see `State`
    paused_after  [node, …]               see `State`

*The body* is what the parts amount to: ``[1, values]`` or ``[1, values, more]``, where ``values`` is a dict by state
key, and ``more`` a dict with those of these entries that aren't empty:

    cells     {key: stored}                       of channels that store something else than they show
    sends     [argument, …]                       one for each of the header's
    written   [[key, write], …]                   see `State`
    carried   [[task, kind, name, content], …]    see `State`; records

In version 1 a body is whole and is the one part of its checkpoint, with the checkpoint's id as its own. A later
version may store a body as changes to parts of earlier checkpoints: a part then says what it is by its first element,
which is its version.

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
from collections.abc import Collection, Iterable
from typing import Any, cast

from juncture.engine.state import RecordKind, Saved, State, TaskRecord
from juncture.errors import SerializationError
from juncture.persistence import places
from juncture.persistence.codec import Codec
from juncture.savers.base import LoadedCheckpoint, StoredRecord
from juncture.types import Send

VERSION = 1
_NOTHING: Collection[str] = frozenset()


# ── namespaces ───────────────────────────────────────────────────────────────────────────────────────────────


def namespace_text(namespace: tuple[str, ...]) -> str:
    """A namespace as one text; different namespaces never have the same."""
    return "|".join(level.replace("%", "%25").replace("|", "%7C") or "%" for level in namespace)


def namespace_levels(text: str) -> tuple[str, ...]:
    """The namespace that `namespace_text` gave this text for."""
    if not text:
        return ()
    return tuple(
        "" if level == "%" else level.replace("%7C", "|").replace("%25", "%") for level in text.split("|")
    )


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


def header_bytes(codec: Codec, state: State) -> bytes:
    """What a listing shows of a state.

    Raises:
        SerializationError: A name in it is not a plain str.
    """
    header: dict[str, Any] = {"v": VERSION}
    if state.due:
        header["due"] = list(state.due)
    if state.sends:
        header["sends"] = [[send.node, send.timeout] for send in state.sends]
    if state.joins:
        header["joins"] = {join: list(arrived) for join, arrived in state.joins.items()}
    if state.deferred:
        header["deferred"] = list(state.deferred)
    if state.touched:
        header["touched"] = list(state.touched)
    if state.paused_after:
        header["paused_after"] = list(state.paused_after)
    return codec.encode(header, "the names in the checkpoint")


def body_bytes(codec: Codec, state: State, untracked: Collection[str] = _NOTHING) -> bytes:
    """The values of a state, whole.

    Args:
        codec: Knows the classes of the graph's schemas.
        state: Isn't changed, and isn't referred to afterwards.
        untracked: Keys that are left out.

    Raises:
        SerializationError: A value can't be stored exactly. Says which, with the key as its attribute.
    """
    values = _tracked(state.values, untracked)
    more: dict[str, Any] = {}
    if state.cells:
        more["cells"] = _tracked(state.cells, untracked)
    if state.sends:
        more["sends"] = [send.arg for send in state.sends]
    if state.written:
        more["written"] = [[key, value] for key, value in state.written if key not in untracked]
    if state.carried:
        more["carried"] = [[r.task_id, r.kind, r.name, _content(r, untracked)] for r in state.carried]
    try:
        return codec.pack([VERSION, values, more] if more else [VERSION, values])
    except SerializationError as error:
        _try_each(codec, [*values.items(), *more.get("cells", {}).items()])
        for send in state.sends:
            codec.encode(send.arg, f"the argument of the Send to {send.node!r}")
        _try_each(codec, more.get("written", ()), "written to ")
        for record in state.carried:
            record_bytes(codec, record, untracked)
        raise SerializationError(f"state: {error}") from error  # all of it together: how deep it is


def _tracked(values: dict[str, Any], untracked: Collection[str]) -> dict[str, Any]:
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


def saved_checkpoint(codec: Codec, loaded: LoadedCheckpoint) -> Saved:
    """A checkpoint, whole, as the engine takes it.

    Raises:
        SerializationError: Something in it can't be read: its version is newer, it isn't a checkpoint, or a value's
            class isn't registered or can't be rebuilt. Says where.
    """
    stored = loaded.checkpoint
    return Saved(
        checkpoint_id=stored.checkpoint_id,
        parent_id=stored.parent_id,
        state=_state(codec, stored.step, stored.header, [part.payload for part in loaded.parts]),
        records=[_record(codec, record) for record in loaded.records],
        source=stored.source,
        run_id=stored.run_id,
        created_at=stored.created_at,
    )


def _state(codec: Codec, step: int, header_stored: bytes, payloads: list[bytes]) -> State:
    header = _header(codec, header_stored)
    values, more = _body(codec, payloads)
    targets, arguments = header.get("sends", []), more.get("sends", [])
    if len(targets) != len(arguments):
        raise SerializationError(
            f"the checkpoint names {len(targets)} sends, but has {len(arguments)} arguments"
        )
    each = zip(targets, arguments, strict=True)
    return State(
        step=step,
        values=values,
        cells=more.get("cells", {}),
        due=tuple(header.get("due", ())),
        sends=tuple([Send(node, argument, timeout=timeout) for (node, timeout), argument in each]),
        joins={join: tuple(arrived) for join, arrived in header.get("joins", {}).items()},
        deferred=tuple(header.get("deferred", ())),
        written=tuple([(key, value) for key, value in more.get("written", ())]),
        touched=tuple(header.get("touched", ())),
        paused_after=tuple(header.get("paused_after", ())),
        carried=tuple([TaskRecord(*fields) for fields in more.get("carried", ())]),
    )


def _header(codec: Codec, stored: bytes) -> dict[str, Any]:
    match codec.decode(stored, "the checkpoint's header"):
        case {"v": int(version), **entries}:
            _check_version(version)
            return entries
        case _:
            raise SerializationError("the checkpoint's header isn't one: it says no version")


def _body(codec: Codec, payloads: list[bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
    payload = payloads[0] if len(payloads) == 1 else None
    if payload is None:
        raise SerializationError(
            f"version {VERSION} keeps a checkpoint's values in one part; this one has {len(payloads)}"
        )
    try:
        body = codec.unpack(payload)
    except SerializationError as error:
        told = _by_key(codec, payload, error)
        raise told from told.__cause__
    match body:
        case [int(version), *_] if version != VERSION:
            _check_version(version)
        case [int(), dict(values)]:
            return values, {}
        case [int(), dict(values), dict(more)]:
            return values, more
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
        case [5, int(), 3, *inside]:
            told = found._replace(steps=inside).told("what is saved about a task")
        case _:
            told = found.told("the checkpoint's values")
    return told


def _record(codec: Codec, stored: StoredRecord) -> TaskRecord:
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
