"""What the laws are written with: a saver's two faces as one, checkpoints to put, and races."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from juncture.errors import ConfigError, JunctureError
from juncture.savers.base import (
    Lease,
    LoadedCheckpoint,
    Part,
    Saver,
    Spans,
    StoredCheckpoint,
    StoredRecord,
    StoredThread,
)

MakeSaver = Callable[[], Saver]

STRANGE = (
    "acme",
    "acme-corp",
    "acme%",
    "acme_",
    "ACME",
    "ac",
    "'; DROP TABLE checkpoints; --",
    '"quoted" \\ and `ticked`',
    "../../etc/passwd",
    "a/b",
    "a|b",
    "a:b",
    "{a}",
    "*",
    " padded ",
    "line\nbreak\ttab",
    "007",
    "7",
    "été",  # composed
    "e\u0301te\u0301",  # the same to the eye, decomposed
    "\uffee",  # before the owl by code point, after it in UTF-16
    "🦉",
    "x" * 500,
)
"""Names that a careless saver takes for patterns, statements, paths, numbers or one another."""

UNKEEPABLE = ("nul\x00inside", "\x00", "\ud800 lone")
"""Names that not every saver can keep: it keeps them exactly, or refuses them."""

A = StoredRecord("a", "done", "", b"a \x00\xff")
B = StoredRecord("b", "question", "name '%", b"")
C = StoredRecord("c", "failed", "", b"c")

SHORT = 0.05
"""Seconds after which a lease runs out in the laws that wait for it."""
PATIENCE = 20.0
"""Seconds after which those laws give up."""


class Law:
    """One law, as a check of any saver. Call it with a function that makes a new, empty saver."""

    def __init__(self, name: str, check: Callable[[Face], None], *, twins: bool) -> None:
        self.name = name
        self._check = check
        self._twins = twins

    def __call__(self, make_saver: MakeSaver) -> None:
        """Runs the check.

        Raises:
            AssertionError: The saver breaks the law. What it raises where it should take a call comes through as it is.
        """
        saver = make_saver()
        try:
            self._check(Face(saver, twins=self._twins))
        finally:
            saver.close()

    def __str__(self) -> str:
        return f"{self.name}[{'async' if self._twins else 'sync'}]"

    __repr__ = __str__


def collected(laws: list[Law]) -> Callable[[Callable[[Face], None]], Callable[[Face], None]]:
    """A decorator that adds a check to these laws, once for each face; its name in words is the law's."""

    def add(check: Callable[[Face], None]) -> Callable[[Face], None]:
        name = check.__name__.removeprefix("_").replace("_", " ")
        laws.extend(Law(name, check, twins=twins) for twins in (False, True))
        return check

    return add


class Face:
    """A saver's sync methods, or its async twins as if they were sync: a law is written once for both."""

    def __init__(self, saver: Saver, *, twins: bool) -> None:
        self.saver = saver
        self._twins = twins

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if not self._twins:
            return getattr(self.saver, method)(*args, **kwargs)
        import asyncio

        return asyncio.run(getattr(self.saver, "a" + method)(*args, **kwargs))

    # ---- as the methods of `Saver`

    def load(self, *args: str | None, known: str | None = None) -> LoadedCheckpoint | None:
        """As `Saver.load`."""
        return self._call("load", *args, known=known)

    def put(
        self,
        checkpoint: StoredCheckpoint,
        payload: bytes | None = None,
        *,
        follows: str | None,
        records: Sequence[StoredRecord] = (),
        lease: Lease | None = None,
    ) -> None:
        """As `Saver.put`; without a payload with that of `payload_of`."""
        if payload is None:
            payload = payload_of(checkpoint)
        self._call("put", checkpoint, payload, follows=follows, records=records, lease=lease)

    def put_records(self, *args: Any, lease: Lease | None = None) -> None:
        """As `Saver.put_records`."""
        self._call("put_records", *args, lease=lease)

    def history(self, *args: Any, **options: Any) -> list[LoadedCheckpoint]:
        """As `Saver.history`."""
        return self._call("history", *args, **options)

    def parts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """As `Saver.parts`."""
        return self._call("parts", thread_id, namespace, spans)

    def namespaces(self, thread_id: str) -> list[str]:
        """As `Saver.namespaces`."""
        return self._call("namespaces", thread_id)

    def threads(self, **options: Any) -> list[StoredThread]:
        """As `Saver.threads`."""
        return self._call("threads", **options)

    def drop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """As `Saver.drop`."""
        self._call("drop", thread_id, namespace, checkpoint_ids, lease=lease)

    def delete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """As `Saver.delete_thread`."""
        self._call("delete_thread", thread_id, lease=lease)

    def acquire_lease(
        self, thread_id: str, name: str, ttl: float | None = 600.0, *, instead_of: str | None = None
    ) -> Lease:
        """As `Saver.acquire_lease`, with a holder and a token of this name."""
        return self._call(
            "acquire_lease", thread_id, f"holder {name}", f"token {name}", ttl, instead_of=instead_of
        )

    def renew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """As `Saver.renew_leases`."""
        return self._call("renew_leases", leases, ttl)

    def release_lease(self, lease: Lease) -> None:
        """As `Saver.release_lease`."""
        self._call("release_lease", lease)

    def leases(self) -> list[Lease]:
        """As `Saver.leases`."""
        return self._call("leases")

    def close(self) -> None:
        """As `Saver.close`."""
        self._call("close")

    # ---- more than one call

    def loaded(self, *args: str | None, known: str | None = None) -> LoadedCheckpoint:
        """As `Saver.load`, of something that is there."""
        found = self.load(*args, known=known)
        assert found is not None, f"load{args} found nothing"
        return found

    def series(self, count: int, thread_id: str = "t", namespace: str = "") -> list[StoredCheckpoint]:
        """Puts so many checkpoints, each after the one before and building on every part before."""
        made: list[StoredCheckpoint] = []
        for place in range(1, count + 1):
            parent = made[-1].checkpoint_id if made else None
            spans = ((1, place - 1),) if made else ()
            made.append(
                checkpoint(place, thread_id=thread_id, namespace=namespace, parent_id=parent, builds_on=spans)
            )
            self.put(made[-1], follows=parent)
        return made

    def ids(self, *args: Any, **options: Any) -> list[str]:
        """The ids that `Saver.history` gives."""
        return [found.checkpoint.checkpoint_id for found in self.history(*args, **options)]

    def lease_of(self, thread_id: str) -> Lease | None:
        """The lease of a thread, as `Saver.leases` gives it."""
        found = [lease for lease in self.leases() if lease.thread_id == thread_id]
        assert len(found) <= 1, f"a thread has at most one lease, {thread_id!r} has {found}"
        return found[0] if found else None

    def wait_until_it_ran_out(self, lease: Lease) -> None:
        """Returns once `Saver.leases` shows that the lease ran out, by the saver's clock."""
        give_up = time.monotonic() + PATIENCE
        while True:
            read = self.lease_of(lease.thread_id)
            assert read is not None, "a lease that ran out is there until somebody else takes it"
            assert read.token == lease.token
            assert read.expires_in is not None, "a lease that runs out says when"
            if read.expires_in <= 0:
                return
            assert time.monotonic() < give_up, f"it should have run out long ago, and still has {read}"
            time.sleep(SHORT / 10)


def checkpoint(
    place: int,
    *,
    thread_id: str = "t",
    namespace: str = "",
    parent_id: str | None = None,
    seq: int | None = None,
    builds_on: Spans = (),
) -> StoredCheckpoint:
    """A checkpoint whose id ascends with its place, and whose every column depends on it."""
    return StoredCheckpoint(
        thread_id=thread_id,
        namespace=namespace,
        checkpoint_id=f"01980000-0000-7000-8000-{place:012x}",
        parent_id=parent_id,
        step=place - 1,
        source="input" if place == 1 else "loop",
        run_id=f"run {place}",
        created_at=1_700_000_000.1 + place / 3,
        seq=place if seq is None else seq,
        builds_on=builds_on,
        header=b"header \x00\xff %d" % place,
    )


def payload_of(stored: StoredCheckpoint) -> bytes:
    """A payload that depends on the checkpoint."""
    return b"\x00\xff part %d of " % stored.seq + stored.checkpoint_id.encode("utf-8", "surrogatepass")


def part_of(stored: StoredCheckpoint) -> Part:
    """The part that the checkpoint brought, if it was put with `payload_of`."""
    return Part(stored.seq, stored.checkpoint_id, payload_of(stored))


def refuses(
    kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object], what: str
) -> Exception:
    """The error of a call that must raise one of this kind."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{what} must raise {kind}, and it was taken")


def kept_or_refused(call: Callable[[], object]) -> bool:
    """Whether a call with a name that not every saver can keep was taken; refused it is with `ConfigError`."""
    try:
        call()
    except ConfigError:
        return False
    return True


def race(count: int, call: Callable[[int], object], losers: type[JunctureError] | None) -> list[int]:
    """Calls from so many workers at once; the numbers, from 0, of those that weren't refused with ``losers``.

    Raises:
        AssertionError: Somebody got another error.
    """
    won: list[int] = []
    others: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            call(number)
            won.append(number)
        except BaseException as error:  # noqa: BLE001 - told in the worker that asserts
            if losers is None or not isinstance(error, losers):
                others.append(error)

    workers = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not others, f"of {count} calls at once, some raised {others!r}"
    return sorted(won)
