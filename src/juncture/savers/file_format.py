r"""The files of `FileSaver`, byte for byte: format version 1. Bytes in, values out; nothing in here opens a file.

A folder holds::

    juncture.format        the text "juncture files 1\n"
    threads/NAME.log       everything of one thread but its lease
    threads/NAME.log.new   a log that is being written anew; without meaning until it is renamed
    leases/NAME.lease      who may write to the thread; the same with .new

NAME is made from the thread id and nothing is read back from it: at most 40 characters for people (the id's letters
in lower case, digits, ``-``, ``_``; ``_`` for anything else), ``-``, and the SHA-256 of the id's UTF-8 in hexadecimal.
The id itself is in the file and is compared. So no id reaches outside, and no two share a file, whatever is in them and
whether or not the file system tells cases apart. Numbers are unsigned and big-endian; CRC is zlib's CRC-32.

**A log** is a header and frames, one after the other without gaps.

Header: 44 bytes and the id::

    0   8   magic, b"JUNCLOG\n"
    8   4   version, 1
    12  4   generation: 1, and one more whenever the log is written anew
    16  16  birth: random bytes that a log has as long as the thread is there
    32  4   n, how long the id is
    36  4   CRC of bytes 0 to 36
    40  n   the thread id, UTF-8
    ..  4   CRC of the id

Frame: one call of `put` or `put_records`. 24 bytes, the meta and the body::

    0   4   magic, b"\xf1JF\n"
    4   4   m, how long the meta is
    8   8   b, how long the body is
    16  4   CRC of the log's first 40 bytes, the frame's own offset (8 bytes), and bytes 0 to 16
    20  4   CRC of the same and the meta
    24  m   the meta, MessagePack
    ..  b   the body: the pieces that the meta names, in that order, without gaps

The meta is one of these arrays. A *piece* is ``[length, CRC]``, a *record* ``[task_id, kind, name, length, CRC]``::

    ["checkpoint", namespace, checkpoint_id, parent_id, step, source, run_id, created_at, seq, builds_on, header,
                   piece of the payload, follows, records that stand beside follows]
    ["records", namespace, checkpoint_id, records]
    ["part", namespace, seq, checkpoint_id, piece]      only in a log that was written anew: its checkpoint was dropped

What a log says is what its frames say in their order. The CRCs with the header's random bytes in them make a frame valid
in this log and at this place only: a payload that looks like a frame isn't one.

**What counts.** Whoever appends holds the log's lock, and first cuts off what follows the last valid frame. A frame
counts once all of it is there: its CRC is right, and, if nothing follows, those of its pieces too. So a frame torn by
`kill -9`, a full disk or a power cut never counts, and the one before it does: it was flushed before that one was begun.
If a valid frame comes after something that isn't one, the file was damaged, and nothing is cut; that is an error.
A header that is too short or all zeros was never finished: there is no such thread.

**A lease**: 16 bytes and a meta::

    0   8   magic, b"JUNCLSE\n"
    8   4   version, 1
    12  4   CRC of the meta
    16  ..  the meta, MessagePack: [birth, thread_id, holder, token, until]

``until`` is in seconds since the epoch by this machine's clock, or nil for a lease that never runs out. A lease with
another birth than the thread's log is void: so deleting the log deletes both at once. One with a wrong CRC was written
when the power failed; whoever had it is dead, and it is void as well.

A reader refuses any version but 1.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import ormsgpack

from juncture.errors import ConfigError, SaverError
from juncture.savers.base import Spans, StoredCheckpoint, StoredRecord

VERSION = 1
MARKER = f"juncture files {VERSION}\n".encode()
NAME = re.compile(r"[a-z0-9_-]{0,40}-[0-9a-f]{64}")

_LOG_MAGIC = b"JUNCLOG\n"
_LEASE_MAGIC = b"JUNCLSE\n"
_FRAME_MAGIC = b"\xf1JF\n"
_LOG = struct.Struct(">8sII16sI")
_FRAME = struct.Struct(">4sIQ")
_LEASE = struct.Struct(">8sII")
_CRC = struct.Struct(">I")
_OFFSET = struct.Struct(">Q")
START = _LOG.size + _CRC.size
"""Bytes of a log's header before the id: what tells this log, and this writing of it, from any other."""
_FRAME_START = _FRAME.size + 2 * _CRC.size
_CHUNK = 1 << 20

Read: TypeAlias = Callable[[int, int], bytes]
"""Reads so many bytes (the second) from an offset (the first); fewer at the end of the file."""
Meta: TypeAlias = list[Any]
"""An array of one of the forms above: `Any` because MessagePack is what it is; `Index.apply` gives it types."""


class Piece(NamedTuple):
    """Where bytes stand in a log."""

    offset: int
    length: int
    crc: int


class Frame(NamedTuple):
    """A frame that is there."""

    meta: Meta
    body: int
    """The offset of its body."""
    end: int


class LeaseFile(NamedTuple):
    """What a lease says."""

    birth: bytes
    thread_id: str
    holder: str
    token: str
    until: float | None


def name_of(thread_id: str) -> str:
    """The name of a thread's files, without suffix.

    Raises:
        ConfigError: The id is no text that UTF-8 could keep.
    """
    try:
        exact = thread_id.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"thread id {thread_id!r} has half of a surrogate pair at {error.start}, which can't be stored. Use another."
        ) from None
    readable = re.sub(r"[^a-z0-9_-]", "_", thread_id[:40].lower())[:40]
    return f"{readable}-{hashlib.sha256(exact).hexdigest()}"


# ---- a log's header


def log_header(thread_id: str, birth: bytes, generation: int) -> bytes:
    """The bytes that a log begins with."""
    exact = thread_id.encode()
    start = _LOG.pack(_LOG_MAGIC, VERSION, generation, birth, len(exact))
    return b"".join((start, _crc(start), exact, _crc(exact)))


def header_length(thread_id: str) -> int:
    """How long the header of a thread's log is."""
    return START + len(thread_id.encode()) + _CRC.size


def read_log_header(read: Read, path: str) -> tuple[bytes, str, int] | None:
    """The first `START` bytes of a log, its thread's id, and where frames begin; None if it was never finished.

    Raises:
        SaverError: It is no log, a damaged one, or one of another version.
    """
    start = read(0, START)
    if len(start) < START or not start.strip(b"\0"):
        return None
    magic, version, _, _, length = _LOG.unpack_from(start)
    if magic != _LOG_MAGIC:
        raise SaverError(f"{path} isn't a log of Juncture. Move it out of this folder.")
    check_version(version, path)
    if start[_LOG.size :] != _crc(start[: _LOG.size]):
        raise damaged(path, 0)
    rest = read(START, length + _CRC.size)
    if len(rest) < length + _CRC.size:
        return None
    exact = rest[:length]
    if rest[length:] != _crc(exact):
        raise damaged(path, START)
    return start, exact.decode(), START + len(rest)


def _crc(content: bytes) -> bytes:
    return _CRC.pack(zlib.crc32(content))


def birth_of(start: bytes) -> bytes:
    """The random bytes that a log keeps when it is written anew."""
    return _LOG.unpack_from(start)[3]


def generation_of(start: bytes) -> int:
    """How often the log was written."""
    return _LOG.unpack_from(start)[2]


def check_version(version: int, path: str) -> None:
    """Refuses files of another version.

    Raises:
        SaverError: It isn't ours.
    """
    if version != VERSION:
        raise SaverError(
            f"{path} has format version {version}; this Juncture reads {VERSION}. Use a newer Juncture, or another "
            "folder. Nothing was changed."
        )


def damaged(path: str, offset: int) -> SaverError:
    """The error of a file that isn't as it was written."""
    return SaverError(
        f"{path} is damaged at byte {offset}: what is there isn't what was written. Nothing was changed. Restore the file "
        "from a copy, or delete it, and with it the thread."
    )


# ---- frames


def frame(start: bytes, offset: int, meta: Meta, pieces: Sequence[bytes]) -> bytes:
    """The bytes of a frame that goes to this offset of the log that begins with ``start``.

    Raises:
        ConfigError: A text in the meta can't be kept.
    """
    try:
        packed = ormsgpack.packb(meta)
    except TypeError as error:
        raise ConfigError(
            f"a name in {meta[:3]!r} can't be stored exactly: {error}. Nothing was saved."
        ) from error
    head = _FRAME.pack(_FRAME_MAGIC, len(packed), sum(map(len, pieces)))
    crc = _head_crc(start, offset, head)
    return b"".join((head, _CRC.pack(crc), _CRC.pack(zlib.crc32(packed, crc)), packed, *pieces))


def frames(start: bytes, read: Read, offset: int, size: int) -> Iterator[Frame]:
    """The valid frames from an offset on, until one that isn't."""
    while offset < size:
        found = frame_at(start, read, offset, size)
        if found is None or (found.end == size and not _whole(found, read)):
            return
        yield found
        offset = found.end


def frame_at(start: bytes, read: Read, offset: int, size: int) -> Frame | None:
    """The frame at this offset, if there is one. Its pieces weren't looked at."""
    head = read(offset, _FRAME_START)
    if len(head) < _FRAME_START:
        return None
    magic, length, body = _FRAME.unpack_from(head)
    crc = _head_crc(start, offset, head[: _FRAME.size])
    end = offset + _FRAME_START + length + body
    if magic != _FRAME_MAGIC or head[_FRAME.size : -_CRC.size] != _CRC.pack(crc) or end > size:
        return None
    packed = read(offset + _FRAME_START, length)
    if head[-_CRC.size :] != _CRC.pack(zlib.crc32(packed, crc)):
        return None
    return Frame(ormsgpack.unpackb(packed), end - body, end)


def is_torn(start: bytes, read: Read, offset: int, size: int) -> bool:
    """Whether what begins at this offset, and is no frame, is the rest of an unfinished one: no frame comes after it."""
    at = offset + 1
    while at < size:
        chunk = read(at, _CHUNK)
        found = chunk.find(_FRAME_MAGIC)
        while found >= 0:
            if frame_at(start, read, at + found, size) is not None:
                return False
            found = chunk.find(_FRAME_MAGIC, found + 1)
        at += max(1, len(chunk) - len(_FRAME_MAGIC) + 1)
    return True


def _head_crc(start: bytes, offset: int, head: bytes) -> int:
    return zlib.crc32(head, zlib.crc32(_OFFSET.pack(offset), zlib.crc32(start)))


def _whole(found: Frame, read: Read) -> bool:
    return all(zlib.crc32(read(p.offset, p.length)) == p.crc for p in _pieces(found))


def _pieces(found: Frame) -> list[Piece]:
    meta, offset = found.meta, found.body
    listed: list[list[int]]
    match meta[0]:
        case "checkpoint":
            listed = [meta[11], *(record[3:] for record in meta[13])]
        case "records":
            listed = [record[3:] for record in meta[3]]
        case "part":
            listed = [meta[4]]
        case kind:
            raise SaverError(f"version {VERSION} of the file format has no frames of the kind {kind!r}.")
    pieces: list[Piece] = []
    for length, crc in listed:
        pieces.append(Piece(offset, length, crc))
        offset += length
    return pieces


def checkpoint_meta(
    checkpoint: StoredCheckpoint, payload: bytes, follows: str | None, records: Sequence[StoredRecord]
) -> Meta:
    """The meta of a checkpoint; its pieces are the payload and what `contents` gives."""
    return [
        "checkpoint",
        checkpoint.namespace,
        checkpoint.checkpoint_id,
        checkpoint.parent_id,
        checkpoint.step,
        checkpoint.source,
        checkpoint.run_id,
        checkpoint.created_at,
        checkpoint.seq,
        checkpoint.builds_on,
        checkpoint.header,
        _piece(payload),
        follows,
        _listed(records),
    ]


def records_meta(namespace: str, checkpoint_id: str, records: Sequence[StoredRecord]) -> Meta:
    """The meta of records; its pieces are what `contents` gives."""
    return ["records", namespace, checkpoint_id, _listed(records)]


def part_meta(namespace: str, seq: int, checkpoint_id: str, payload: bytes) -> Meta:
    """The meta of a part whose checkpoint was dropped; its one piece is the payload."""
    return ["part", namespace, seq, checkpoint_id, _piece(payload)]


def contents(records: Sequence[StoredRecord]) -> list[bytes]:
    """The pieces of records."""
    return [record.content for record in records]


def _piece(content: bytes) -> list[int]:
    return [len(content), zlib.crc32(content)]


def _listed(records: Sequence[StoredRecord]) -> list[list[object]]:
    return [[r.task_id, r.kind, r.name, *_piece(r.content)] for r in records]


# ---- what a log says


@dataclass(slots=True)
class Series:
    """The checkpoints of one namespace, and where in the log their bytes are."""

    ids: list[str] = field(default_factory=list[str])
    """In order of saving, which is their order as text."""
    checkpoints: dict[str, StoredCheckpoint] = field(default_factory=dict[str, StoredCheckpoint])
    records: dict[str, dict[tuple[str, str, str], Piece]] = field(
        default_factory=dict[str, dict[tuple[str, str, str], Piece]]
    )
    """By checkpoint, then by task, kind and name; a dict keeps the place of a key whose value is replaced (law 6)."""
    parts: dict[int, tuple[str, Piece]] = field(default_factory=dict[int, tuple[str, Piece]])
    """By place: the checkpoint that brought it, and its payload."""
    seqs: list[int] = field(default_factory=list[int])
    """The places of the parts, ascending: frames come in the order of saving."""

    @property
    def head(self) -> StoredCheckpoint:
        """The newest checkpoint."""
        return self.checkpoints[self.ids[-1]]

    def seqs_in(self, spans: Spans) -> list[int]:
        """The places of the parts in these ranges that are there, in this order."""
        seqs = self.seqs
        return [
            seq for first, last in spans for seq in seqs[bisect_left(seqs, first) : bisect_right(seqs, last)]
        ]


def apply(series: dict[str, Series], thread_id: str, found: Frame) -> None:
    """Adds what a frame says to what the log said before it, by namespace."""
    meta, pieces = found.meta, _pieces(found)
    namespace: str = meta[1]
    if namespace not in series:
        series[namespace] = Series()
    ours = series[namespace]
    match meta:
        case ["checkpoint", _, checkpoint_id, parent_id, step, source, run_id, created_at, seq, *rest]:
            builds_on, header, _, follows, records = rest
            if records:
                _beside(ours, follows, records, pieces[1:])
            _add_part(ours, seq, checkpoint_id, pieces[0])
            ours.ids.append(checkpoint_id)
            ours.checkpoints[checkpoint_id] = StoredCheckpoint(
                thread_id=thread_id,
                namespace=namespace,
                checkpoint_id=checkpoint_id,
                parent_id=parent_id,
                step=step,
                source=source,
                run_id=run_id,
                created_at=created_at,
                seq=seq,
                builds_on=tuple((first, last) for first, last in builds_on),
                header=header,
            )
        case ["records", _, checkpoint_id, records]:
            _beside(ours, checkpoint_id, records, pieces)
        case _:  # a part: `_pieces` refused any other
            _add_part(ours, meta[2], meta[3], pieces[0])


def _add_part(series: Series, seq: int, checkpoint_id: str, piece: Piece) -> None:
    series.parts[seq] = (checkpoint_id, piece)
    series.seqs.append(seq)


def _beside(series: Series, checkpoint_id: str, records: list[list[Any]], pieces: list[Piece]) -> None:
    kept = series.records.setdefault(checkpoint_id, {})
    for (task_id, kind, name, *_), piece in zip(records, pieces, strict=True):
        kept[task_id, kind, name] = piece


# ---- leases


def lease_bytes(lease: LeaseFile) -> bytes:
    """A lease's file.

    Raises:
        ConfigError: A text in it can't be kept.
    """
    try:
        packed = ormsgpack.packb(tuple(lease))
    except TypeError as error:
        raise ConfigError(f"the lease of {lease.holder!r} can't be stored exactly: {error}.") from error
    return _LEASE.pack(_LEASE_MAGIC, VERSION, zlib.crc32(packed)) + packed


def read_lease(content: bytes, path: str) -> LeaseFile | None:
    """What a lease's file says; None if it was never finished.

    Raises:
        SaverError: It is no lease, or one of another version.
    """
    if len(content) < _LEASE.size or not content.strip(b"\0"):
        return None
    magic, version, crc = _LEASE.unpack_from(content)
    if magic != _LEASE_MAGIC:
        raise SaverError(f"{path} isn't a lease of Juncture. Move it out of this folder.")
    check_version(version, path)
    packed = content[_LEASE.size :]
    return LeaseFile(*ormsgpack.unpackb(packed)) if zlib.crc32(packed) == crc else None
