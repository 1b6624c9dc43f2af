"""Checkpoints in Redis (6 or later) or Valkey, for any number of processes and machines.

What is kept there, and the scripts that read and change it, stand in `juncture.savers.redis_scripts`. In here, what goes
into a script and what comes out of it.

* Every call is one script, which Redis runs alone: what it reads is of one moment, and what it changes is changed as
  a whole or not at all. Only `threads` without a limit is several, of `PAGE` threads each, so that Redis has time for
  others in between.
* Nothing is sent twice: a call whose answer got lost raises, and may have stored something (law 9).
* Leases run out by Redis's clock.
* The async twins run the sync methods in workers. A pool of connections of an event loop would belong to that loop, and
  one saver serves many.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NoReturn

import ormsgpack

from juncture.errors import ConfigError, SaverError
from juncture.savers import redis_scripts as scripts
from juncture.savers.base import (
    Lease,
    LoadedCheckpoint,
    Part,
    Saver,
    Spans,
    StoredCheckpoint,
    StoredRecord,
    StoredThread,
    check_next,
    drops_all,
    head_moved,
    lease_lost,
    thread_busy,
)
from juncture.savers.redis_client import Client

PAGE = 1000
"""How many threads one script lists."""
_FOREVER = 100 * 365 * 86400.0


class RedisSaver(Saver):
    """Keeps checkpoints in Redis or Valkey. Needs ``pip install juncture[redis]``.

    How safe what is stored is, is for Redis's configuration to say. Without ``appendonly yes`` a restart loses what came
    after the last snapshot. With it, ``appendfsync everysec`` (the default) loses up to a second at a power cut, and
    ``always`` nothing. A replica that takes over may lack the last calls in any case. ``maxmemory-policy`` must be
    ``noeviction``, or Redis throws away threads when its memory is full; with it, saving fails then.

    Everything is in memory there: prune long threads.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``, with redis-py's options. Nothing is opened before the first call.
        prefix: What every key begins with, in braces. Savers with different prefixes don't see one another. All keys
            of a prefix are in one slot of a cluster; give the URL of the node that has it.
        lease_ttl: Seconds after which a run that doesn't renew its lease may be taken for dead; None for never.

    Raises:
        ConfigError: The package ``redis`` isn't installed, or the URL or the prefix can't be used.
    """

    def __init__(self, url: str, *, prefix: str = "juncture", lease_ttl: float | None = 30.0) -> None:
        self.lease_ttl = lease_ttl
        if not prefix or "{" in prefix or "}" in prefix:
            raise ConfigError(f"a prefix has one character or more, and no braces: not {prefix!r}.")
        self._base = b"{" + _exact(prefix) + b"}"
        self._client = Client(url, "RedisSaver")

    # ---- checkpoints

    def load(
        self,
        thread_id: str,
        namespace: str = "",
        checkpoint_id: str | None = None,
        *,
        known: str | None = None,
    ) -> LoadedCheckpoint | None:
        """The head, or the checkpoint of that id; None if there is none."""
        how, *reply = self._run(
            scripts.LOAD,
            thread_id,
            *_series(namespace),
            _optional(checkpoint_id),
            _optional(known),
        )
        if how == b"none":
            return None
        head, head_seq, row, parts, records = reply
        found = _loaded(thread_id, namespace, head, head_seq, row, records)
        found.parts = tuple(_parts(parts))
        return found

    def put(
        self,
        checkpoint: StoredCheckpoint,
        payload: bytes,
        *,
        follows: str | None,
        records: Sequence[StoredRecord] = (),
        lease: Lease | None = None,
    ) -> None:
        """Stores a checkpoint that follows the head, and the last records of that head."""
        thread_id, namespace = checkpoint.thread_id, checkpoint.namespace
        refused = checkpoint.checkpoint_id <= follows if follows is not None else bool(records)
        how, *reply = self._run(
            scripts.PUT,
            thread_id,
            *_series(namespace),
            _token(lease),
            _optional(follows),
            _exact(checkpoint.checkpoint_id),
            checkpoint.seq,
            _row(checkpoint),
            _packed([checkpoint.checkpoint_id, payload]),
            int(refused),
            *_records(records),
        )
        if how == b"next":
            check_next(checkpoint, follows, reply[0], records)
        if how != b"ok":
            _refuse(thread_id, namespace, follows, lease, how, reply)

    def put_records(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_id: str,
        records: Sequence[StoredRecord],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Stores records beside the head."""
        how, *reply = self._run(
            scripts.PUT_RECORDS,
            thread_id,
            *_series(namespace),
            _token(lease),
            _exact(checkpoint_id),
            *_records(records),
        )
        if how != b"ok":
            _refuse(thread_id, namespace, checkpoint_id, lease, how, reply)

    def history(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        records: bool = False,
    ) -> list[LoadedCheckpoint]:
        """A series from its newest checkpoint to its oldest."""
        how, *reply = self._run(
            scripts.HISTORY,
            thread_id,
            *_series(namespace),
            _optional(before),
            -1 if limit is None else limit,
            int(records),
        )
        if how == b"none":
            return []
        head, head_seq, rows, beside = reply
        return [
            _loaded(thread_id, namespace, head, head_seq, row, beside[i] if records else [])
            for i, row in enumerate(rows)
        ]

    def parts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """The parts in these ranges, ascending, each once."""
        how, *reply = self._run(scripts.PARTS, thread_id, *_series(namespace), _ranges(sorted(spans)))
        found = {part.seq: part for part in _parts(reply[0])} if how == b"ok" else {}
        return [part for _, part in sorted(found.items())]

    # ---- threads

    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread that have checkpoints, sorted."""
        _, found = self._run(scripts.NAMESPACES, thread_id)
        return sorted(namespace.decode() for namespace in found)

    def threads(self, *, after: str | None = None, limit: int | None = None) -> list[StoredThread]:
        """The threads that have a checkpoint of their own, sorted. Without a limit, `PAGE` of them at a time."""
        found: list[StoredThread] = []
        while True:
            page = PAGE if limit is None else min(PAGE, limit - len(found))
            _, listed = self._run(scripts.THREADS, "", _optional(after), page)
            for name, head, head_seq, row, records, lease in listed:
                thread_id = name.decode()
                found.append(
                    StoredThread(
                        thread_id,
                        _loaded(thread_id, "", head, head_seq, row, records),
                        None if lease is None else _lease(lease),
                    )
                )
            if len(listed) < page or len(found) == limit:
                return found
            after = found[-1].thread_id

    def drop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Removes checkpoints and what nobody needs any more."""
        how, *reply = self._run(
            scripts.DROP, thread_id, *_series(namespace), _token(lease), *map(_exact, checkpoint_ids)
        )
        if how == b"lease":
            _refuse(thread_id, namespace, None, lease, how, reply)
        if how == b"is head":
            head, stays = (text.decode() for text in reply)
            drops_all(thread_id, namespace, [stays], [head], head)

    def delete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """Removes everything of a thread."""
        how, *reply = self._run(scripts.DELETE_THREAD, thread_id, _token(lease))
        if how == b"lease":
            _refuse(thread_id, "", None, lease, how, reply)

    # ---- leases

    def acquire_lease(
        self, thread_id: str, holder: str, token: str, ttl: float | None, *, instead_of: str | None = None
    ) -> Lease:
        """Takes the lease of a thread, if it can be had."""
        how, *reply = self._run(
            scripts.ACQUIRE_LEASE,
            thread_id,
            _exact(holder),
            _exact(token),
            _microseconds(ttl),
            _optional(instead_of),
        )
        if how == b"busy":
            raise thread_busy(_lease(reply[0]))
        return Lease(thread_id, holder, token, ttl)

    def renew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """Lets leases run out later; returns those that are still their threads'."""
        _, found = self._run(
            scripts.RENEW_LEASES,
            "",
            _microseconds(ttl),
            *(_exact(text) for lease in leases for text in (lease.thread_id, lease.token)),
        )
        renewed: list[int] = found
        return [leases[place]._replace(expires_in=ttl) for place in renewed]

    def release_lease(self, lease: Lease) -> None:
        """Gives a lease back."""
        self._run(scripts.RELEASE_LEASE, lease.thread_id, _exact(lease.token))

    def leases(self) -> list[Lease]:
        """Every lease there is, sorted by thread."""
        _, found = self._run(scripts.LEASES, "")
        return [_lease(lease) for lease in found]

    # ---- the end

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    # ---- Redis

    def _run(self, text: str, thread_id: str, *arguments: bytes | str | int) -> list[Any]:
        """What a script replies.

        Raises:
            SaverUnavailableError: It couldn't be sent, or wasn't answered.
            SaverError: Something isn't as this class leaves it, or the saver is closed.
        """
        reply = self._client.run(text, self._base + b":format", self._base, _exact(thread_id), *arguments)
        match reply[0]:
            case b"format":
                raise SaverError(
                    f"what Redis at {self._client.where} holds under the prefix {self._base.decode()} has layout version "
                    f"{reply[1].decode()}; this Juncture reads {scripts.VERSION}. Use a newer Juncture, or another prefix. "
                    "Nothing was changed."
                )
            case b"lost":
                raise _incomplete(thread_id)
            case _:
                return reply


def _refuse(
    thread_id: str, namespace: str, known: str | None, lease: Lease | None, how: bytes, reply: list[Any]
) -> NoReturn:
    current = None if reply[0] is None else reply[0].decode()
    if how == b"lease" and lease is not None:
        raise lease_lost(lease, current)
    raise head_moved(thread_id, namespace, known, current)


def _incomplete(thread_id: str) -> SaverError:
    return SaverError(
        f"thread {thread_id!r} isn't complete in Redis: something else removed what belongs to it. Is its maxmemory-policy "
        "noeviction? Restore it from a copy, or delete the thread."
    )


# ---- what goes in


def _exact(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{text!r} has half of a surrogate pair at {error.start}, which can't be stored. Use another name."
        ) from None


def _optional(text: str | None) -> bytes:
    return b"" if text is None else b"=" + _exact(text)


def _token(lease: Lease | None) -> bytes:
    return _optional(None if lease is None else lease.token)


def _series(namespace: str) -> tuple[bytes, bytes]:
    exact = _exact(namespace)
    return exact, b"%d:%b" % (len(exact), exact)


def _ranges(spans: Sequence[tuple[int, int]]) -> str:
    return "".join(f" {max(1, first)}-{last}" for first, last in spans if last >= 1)


def _row(checkpoint: StoredCheckpoint) -> bytes:
    columns = [
        checkpoint.checkpoint_id,
        checkpoint.parent_id,
        checkpoint.step,
        checkpoint.source,
        checkpoint.run_id,
        checkpoint.created_at,
        checkpoint.seq,
        checkpoint.builds_on,
        checkpoint.header,
    ]
    return f"{checkpoint.seq}{_ranges(checkpoint.builds_on)}\n".encode() + _packed(columns)


def _records(records: Sequence[StoredRecord]) -> list[bytes]:
    return [
        part
        for record in records
        for part in (_packed([record.task_id, record.kind, record.name]), record.content)
    ]


def _packed(values: Sequence[object]) -> bytes:
    try:
        return ormsgpack.packb(values)
    except TypeError as error:
        raise ConfigError(
            f"something in {values[:3]!r} can't be stored exactly: {error}. Nothing was saved."
        ) from error


def _microseconds(ttl: float | None) -> str:
    return "" if ttl is None else str(round(min(ttl, _FOREVER) * 1e6))


# ---- what comes out


def _loaded(
    thread_id: str, namespace: str, head: bytes, head_seq: int, row: bytes | None, records: Sequence[bytes]
) -> LoadedCheckpoint:
    if row is None:
        raise _incomplete(thread_id)
    checkpoint_id, parent_id, step, source, run_id, created_at, seq, builds_on, header = ormsgpack.unpackb(
        row[row.index(b"\n") + 1 :]
    )
    checkpoint = StoredCheckpoint(
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
    return LoadedCheckpoint(checkpoint, head.decode(), head_seq, records=tuple(map(_record, records)))


def _record(stored: bytes) -> StoredRecord:
    begin = stored.index(b":") + 1
    end = begin + int(stored[: begin - 1])
    task_id, kind, name = ormsgpack.unpackb(stored[begin:end])
    return StoredRecord(task_id, kind, name, stored[end:])


def _parts(flat: list[Any]) -> list[Part]:
    return [Part(seq, *ormsgpack.unpackb(stored)) for seq, stored in zip(flat[::2], flat[1::2], strict=True)]


def _lease(stored: list[bytes]) -> Lease:
    thread_id, holder, token, left = stored
    return Lease(thread_id.decode(), holder.decode(), token.decode(), int(left) / 1e6 if left else None)
