"""The contract of a saver: where checkpoints are kept.

A saver keeps bytes and finds them again. It knows nothing of values, types, reducers or graphs: what a payload means
is for `juncture.persistence`. What it is given besides payloads (ids, namespaces, sources, holders …) is data: it is
stored and compared as exact text, and never becomes a statement, a pattern, a path or code. An id that a saver can't
keep exactly (a NUL character, say) it refuses with `ConfigError`; it never alters one.

The laws, each checked by `juncture.testing.saver_conformance`:

1. **Series.** A thread has one series of checkpoints for every namespace. The newest of a series is its *head*.
   Series of different threads or namespaces never affect one another, however alike their names are.
2. **Order.** A checkpoint's ``seq`` is one more than that of the head it follows, 1 for the first of a series. Its id,
   compared as text, is greater than that of the head. So both give the order of saving; no clock of any machine
   matters.
3. **Compare and set.** `put` names the head that it follows. If that isn't the head at that moment: `HeadMovedError`,
   and nothing is stored. Of several puts that follow one head, exactly one succeeds.
4. **Lineage is not order.** ``parent_id`` says which state a checkpoint was made from, ``follows`` which head it comes
   after. They differ where a thread goes back in time: a fork has an old parent, and becomes the head. ``parent_id``
   is data; that checkpoint may have been pruned.
5. **All or nothing.** A put stores the checkpoint, its part and its records in one transaction. So does every other
   call that changes something.
6. **Records.** What is saved about the tasks of a step stands beside the head that they run from, in the order in
   which it was first saved; a record with the task, kind and name of an older one replaces the content of that one,
   in its place. Records beside anything but the head are refused with `HeadMovedError`. So a checkpoint that is no
   longer the head never changes again, and neither do its records.
7. **Parts.** Every checkpoint brings one part: a payload, known by the checkpoint's ``seq``. What a checkpoint holds
   is the payloads of the parts that it builds on, in the order named by ``builds_on``, and then its own. It only
   builds on parts of earlier checkpoints of its series; the saver doesn't check that they are there. A part never
   changes, and stays as long as a checkpoint is there that is it or builds on it.
8. **Exact.** Every byte and every column comes back as it was given.
9. **Durable.** When a call returns, what it stored is as safe as this saver can make it; for leases it is enough that
   other processes see it. When a call raises anything but the errors named here, it may or may not have stored
   something; the next put tells, because the head then has moved.
10. **Any thread.** Every method may be called from any worker and any event loop, several at once.
11. **Leases.** A thread has at most one lease, with all its namespaces. It is somebody's until it is released,
    replaced, or deleted with its thread; running out only allows others to take it. Whether it ran out is judged by
    the saver's clock alone (the database's, where there is one). A put or records with a lease that isn't the thread's
    any more: `LeaseLostError`, and nothing is stored. A drop or a deletion with such a lease: `LeaseLostError`, and
    nothing is removed. This is checked in the same transaction. A call without a lease isn't checked.
12. **Pruning.** `drop` removes checkpoints with their records, and the parts that nothing needs any more. The head
    of a series can't be dropped, except of a nested graph's (its namespace isn't empty), and together with all others:
    then that series is gone. What isn't dropped stays as it was.
13. **Listings stay whole.** One thread that can't be read doesn't keep `threads` from listing the others. A saver that
    checks what it reads (one that decrypts, say) lists such a thread with an empty header and without its columns, and
    logs why.
14. **Ends.** After `close`, every call raises `SaverError`; closing twice is fine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, ParamSpec, Self, TypeAlias, TypeVar

from juncture.errors import HeadMovedError, LeaseLostError, SaverError, ThreadBusyError

_P = ParamSpec("_P")
_R = TypeVar("_R")

Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Places of parts in their series: ranges of ``seq``, both ends included."""


@dataclass(slots=True)
class StoredCheckpoint:
    """A checkpoint as a saver keeps it. Nobody changes one after it was put or returned."""

    thread_id: str
    namespace: str
    """Which nested graph, as text; empty for the graph that was called."""
    checkpoint_id: str
    parent_id: str | None
    """The checkpoint whose state this one was made from."""
    step: int
    source: str
    """What made it: ``input``, ``loop``, ``update``, ``fork`` or ``command``."""
    run_id: str
    created_at: float
    """Seconds since the epoch, by the clock of whoever made it. To be shown; nothing is decided by it."""
    seq: int
    """Its place in its series, from 1; also the place of its part."""
    builds_on: Spans
    """The parts that come before its own, in this order; empty if its own is everything."""
    header: bytes
    """Small: what a listing shows besides the columns."""


class Part(NamedTuple):
    """What one checkpoint added to its series."""

    seq: int
    checkpoint_id: str
    """The checkpoint that brought it; that may have been dropped."""
    payload: bytes


class StoredRecord(NamedTuple):
    """One thing saved about a task of the step that follows a checkpoint."""

    task_id: str
    kind: str
    name: str
    content: bytes


@dataclass(slots=True)
class LoadedCheckpoint:
    """A checkpoint read back."""

    checkpoint: StoredCheckpoint
    head_id: str
    """The head of its series when it was read: what the next put follows."""
    head_seq: int
    """The place of that head."""
    parts: tuple[Part, ...] = ()
    """What the checkpoint holds, its own part last; empty where it wasn't asked for."""
    records: tuple[StoredRecord, ...] = ()
    """In the order in which they were first saved; empty where they weren't asked for."""


class Lease(NamedTuple):
    """The right to write to a thread."""

    thread_id: str
    holder: str
    """Who has it, as text: for messages, and to find out whether it still lives."""
    token: str
    """Unique: another lease of the same thread has another."""
    expires_in: float | None
    """Seconds until it runs out, from when it was read; negative if it ran out before. None: it never does."""


class StoredThread(NamedTuple):
    """A thread in a listing."""

    thread_id: str
    head: LoadedCheckpoint
    """The head of its own series (namespace ``""``), with its records and without parts."""
    lease: Lease | None


class Saver(ABC):
    """Where checkpoints are kept; the laws are in the module's docstring.

    One object serves sync and async code. Subclasses implement the sync methods; the twins with an ``a`` run them in
    a worker where `blocking` is true, and directly where it is false. A subclass that can do better overrides them.
    Cancelling a twin doesn't take back what it has begun (law 9).
    """

    blocking: bool = True
    """Whether the methods may wait for a disk or a network. Where false, they may be called on an event loop."""
    lease_ttl: float | None = 30.0
    """For how many seconds runs take and renew their leases; they renew three times as often. None: for good, which is
    right only where a run can't die without the saver."""

    # ---- checkpoints

    @abstractmethod
    def load(
        self,
        thread_id: str,
        namespace: str = "",
        checkpoint_id: str | None = None,
        *,
        known: str | None = None,
    ) -> LoadedCheckpoint | None:
        """The head of a series, or the checkpoint of that id, with its parts and records. None if there is none.

        Args:
            thread_id: The thread.
            namespace: The series.
            checkpoint_id: Another one than the head.
            known: The id of a checkpoint whose parts the caller has: if it is the one, they aren't read.
        """

    @abstractmethod
    def put(
        self,
        checkpoint: StoredCheckpoint,
        payload: bytes,
        *,
        follows: str | None,
        records: Sequence[StoredRecord] = (),
        lease: Lease | None = None,
    ) -> None:
        """Stores a checkpoint, which becomes the head, and the last records of the head that it follows.

        Args:
            checkpoint: Is kept as it is.
            payload: Its part.
            follows: The head of the series as the caller knows it; None where there is no checkpoint yet.
            records: Stored beside ``follows``, in the same transaction.
            lease: The caller's right to write.

        Raises:
            HeadMovedError: ``follows`` isn't the head. Nothing was stored.
            LeaseLostError: The lease is no longer the thread's. Nothing was stored.
            SaverError: The id or the seq isn't the next, or there are records and no checkpoint to stand beside.
                Nothing was stored.
        """

    @abstractmethod
    def put_records(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_id: str,
        records: Sequence[StoredRecord],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Stores records beside the head. Storing the same again changes nothing.

        Raises:
            HeadMovedError: ``checkpoint_id`` isn't the head of that series. Nothing was stored.
            LeaseLostError: The lease is no longer the thread's. Nothing was stored.
        """

    @abstractmethod
    def history(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        records: bool = False,
    ) -> list[LoadedCheckpoint]:
        """A series from its newest checkpoint to its oldest, without parts, in a constant number of statements.

        Args:
            thread_id: The thread.
            namespace: The series.
            before: Only checkpoints with a smaller id; it needn't exist.
            limit: At most so many.
            records: With the records; without them ``records`` is empty.
        """

    @abstractmethod
    def parts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """The parts in these ranges that are there, ascending by ``seq``, each once; in a constant number of statements."""

    # ---- threads

    @abstractmethod
    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread that have checkpoints, sorted as text; none for an unknown thread."""

    @abstractmethod
    def threads(self, *, after: str | None = None, limit: int | None = None) -> list[StoredThread]:
        """The threads that have a checkpoint of their own, sorted by id as text, in a constant number of statements.

        Args:
            after: Only threads with a greater id; it needn't exist.
            limit: At most so many.
        """

    @abstractmethod
    def drop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Removes checkpoints of a series, their records, and the parts that no checkpoint needs any more.

        Ids that aren't there are fine.

        Args:
            thread_id: The thread.
            namespace: The series.
            checkpoint_ids: Of those to be removed.
            lease: The caller's right to write.

        Raises:
            LeaseLostError: The lease is no longer the thread's. Nothing was removed.
            SaverError: One of them is the head, and it isn't a nested graph's series as a whole. Nothing was removed.
        """

    @abstractmethod
    def delete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """Removes everything of a thread, in every namespace, its lease included. An unknown thread is fine.

        Raises:
            LeaseLostError: The lease that was given is no longer the thread's. Nothing was removed.
        """

    # ---- leases

    @abstractmethod
    def acquire_lease(
        self, thread_id: str, holder: str, token: str, ttl: float | None, *, instead_of: str | None = None
    ) -> Lease:
        """Takes the lease of a thread, which needn't have checkpoints.

        It can be had if there is none, or it ran out, or it is the one with this very token.

        Args:
            thread_id: The thread.
            holder: Who takes it.
            token: New and unique.
            ttl: Seconds until it runs out; None for never.
            instead_of: The token of a lease whose holder is known to be dead: that one can be had as well.

        Raises:
            ThreadBusyError: Somebody else has it: its ``lease`` says who. Nothing was changed.
        """

    @abstractmethod
    def renew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """Lets leases run out later, in a constant number of statements.

        Returns:
            Those that are still their threads' (by token), in no certain order. The others were lost; one that ran out
            and that nobody took is renewed.
        """

    @abstractmethod
    def release_lease(self, lease: Lease) -> None:
        """Gives a lease back. One that was lost is fine."""

    @abstractmethod
    def leases(self) -> list[Lease]:
        """Every lease there is, those that ran out included, sorted by thread id as text."""

    # ---- the end

    @abstractmethod
    def close(self) -> None:
        """Gives back what the saver holds. Twice is fine."""

    # ---- twins

    async def aload(
        self,
        thread_id: str,
        namespace: str = "",
        checkpoint_id: str | None = None,
        *,
        known: str | None = None,
    ) -> LoadedCheckpoint | None:
        """As `load`."""
        return await self._elsewhere(self.load, thread_id, namespace, checkpoint_id, known=known)

    async def aput(
        self,
        checkpoint: StoredCheckpoint,
        payload: bytes,
        *,
        follows: str | None,
        records: Sequence[StoredRecord] = (),
        lease: Lease | None = None,
    ) -> None:
        """As `put`."""
        await self._elsewhere(self.put, checkpoint, payload, follows=follows, records=records, lease=lease)

    async def aput_records(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_id: str,
        records: Sequence[StoredRecord],
        *,
        lease: Lease | None = None,
    ) -> None:
        """As `put_records`."""
        await self._elsewhere(self.put_records, thread_id, namespace, checkpoint_id, records, lease=lease)

    async def ahistory(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        records: bool = False,
    ) -> list[LoadedCheckpoint]:
        """As `history`."""
        return await self._elsewhere(
            self.history, thread_id, namespace, before=before, limit=limit, records=records
        )

    async def aparts(self, thread_id: str, namespace: str, spans: Spans) -> list[Part]:
        """As `parts`."""
        return await self._elsewhere(self.parts, thread_id, namespace, spans)

    async def anamespaces(self, thread_id: str) -> list[str]:
        """As `namespaces`."""
        return await self._elsewhere(self.namespaces, thread_id)

    async def athreads(self, *, after: str | None = None, limit: int | None = None) -> list[StoredThread]:
        """As `threads`."""
        return await self._elsewhere(self.threads, after=after, limit=limit)

    async def adrop(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_ids: Collection[str],
        *,
        lease: Lease | None = None,
    ) -> None:
        """As `drop`."""
        await self._elsewhere(self.drop, thread_id, namespace, checkpoint_ids, lease=lease)

    async def adelete_thread(self, thread_id: str, *, lease: Lease | None = None) -> None:
        """As `delete_thread`."""
        await self._elsewhere(self.delete_thread, thread_id, lease=lease)

    async def aacquire_lease(
        self, thread_id: str, holder: str, token: str, ttl: float | None, *, instead_of: str | None = None
    ) -> Lease:
        """As `acquire_lease`."""
        return await self._elsewhere(self.acquire_lease, thread_id, holder, token, ttl, instead_of=instead_of)

    async def arenew_leases(self, leases: Sequence[Lease], ttl: float | None) -> list[Lease]:
        """As `renew_leases`."""
        return await self._elsewhere(self.renew_leases, leases, ttl)

    async def arelease_lease(self, lease: Lease) -> None:
        """As `release_lease`."""
        await self._elsewhere(self.release_lease, lease)

    async def aleases(self) -> list[Lease]:
        """As `leases`."""
        return await self._elsewhere(self.leases)

    async def aclose(self) -> None:
        """As `close`."""
        await self._elsewhere(self.close)

    async def _elsewhere(self, call: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not self.blocking:
            return call(*args, **kwargs)
        import asyncio  # a program without async code never pays for it

        return await asyncio.to_thread(call, *args, **kwargs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


# ---- what every saver says alike


def head_moved(thread_id: str, namespace: str, known: str | None, head: str | None) -> HeadMovedError:
    """The error of a put or of records that don't follow the head."""
    where = f"thread {thread_id!r}" + (f", namespace {namespace!r}" if namespace else "")
    error = HeadMovedError(
        f"{where}: this run goes on from checkpoint {known}, but the newest is {head}. Another run wrote to "
        "the thread, or it was deleted. Nothing was saved; load the thread and run again."
    )
    error.thread_id = thread_id
    return error


def lease_lost(lease: Lease, current: str | None) -> LeaseLostError:
    """The error of a write with a lease that isn't the thread's any more; ``current`` is the holder of the one that is."""
    who = f"{current} has it now" if current is not None else "it was given back, or the thread was deleted"
    error = LeaseLostError(
        f"the lease of thread {lease.thread_id!r} was lost: {who}. Nothing was saved or removed. Who had it was taken "
        "for dead (it couldn't renew it in time); what it saved before stays, and whoever took over goes on."
    )
    error.thread_id = lease.thread_id
    return error


def thread_busy(lease: Lease) -> ThreadBusyError:
    """The error of whoever wants the lease that somebody else has."""
    until = "" if lease.expires_in is None else f", and would be free in {max(0.0, lease.expires_in):.1f} s"
    error = ThreadBusyError(
        f"thread {lease.thread_id!r} is in use by {lease.holder}{until}. Wait until it is given back (a run waits with "
        'on_busy="wait"), or use another thread. Nothing was run, and nothing was changed.'
    )
    error.thread_id, error.lease = lease.thread_id, lease
    return error


def check_next(
    checkpoint: StoredCheckpoint, follows: str | None, head_seq: int, records: Sequence[object]
) -> None:
    """What `put` checks once it knows that ``follows`` is the head, whose place is ``head_seq`` (0: none).

    Raises:
        SaverError: As `Saver.put`.
    """
    follows_it = follows is None or checkpoint.checkpoint_id > follows
    if follows_it and checkpoint.seq == head_seq + 1 and not (records and follows is None):
        return
    where = f"checkpoint {checkpoint.checkpoint_id} of thread {checkpoint.thread_id!r}"
    if not follows_it:
        raise SaverError(f"checkpoint ids must ascend: {where} can't follow {follows!r}. Nothing was saved.")
    if checkpoint.seq != head_seq + 1:
        raise SaverError(
            f"{where} says that its place is {checkpoint.seq}, after {head_seq}. Nothing was saved."
        )
    raise SaverError(
        f"{where} is the first: there is no head that its records could stand beside. Nothing was saved."
    )


def drops_all(
    thread_id: str, namespace: str, ids: Iterable[str], dropped: Collection[str], head: str
) -> bool:
    """Whether `Saver.drop` removes a series as a whole.

    Args:
        thread_id: The thread.
        namespace: The series.
        ids: Of the checkpoints that it has.
        dropped: Those that are to be removed.
        head: The newest.

    Raises:
        SaverError: The head is among them, and it isn't a nested graph's series as a whole.
    """
    if head not in dropped:
        return False
    if namespace and all(checkpoint_id in dropped for checkpoint_id in ids):
        return True
    raise SaverError(
        f"checkpoint {head} is the newest of thread {thread_id!r} and can't be dropped; delete the thread instead. "
        "Nothing was removed."
    )


def needed_parts(checkpoints: Iterable[StoredCheckpoint]) -> Spans:
    """The places of every part that some of these checkpoints need: ascending ranges that don't touch."""
    spans: list[tuple[int, int]] = []
    asked = {span for one in checkpoints for span in (*one.builds_on, (one.seq, one.seq))}
    for first, last in sorted(asked):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    return tuple(spans)
