"""The contract of a saver: where checkpoints are kept.

A saver keeps bytes and finds them again. It knows nothing of values, types, reducers or graphs: what a payload means
is for `juncture.persistence`. What it is given besides payloads (ids, namespaces, sources …) is data: it is stored
and compared as exact text, and never becomes a statement, a pattern, a path or code. An id that a saver can't keep
exactly (a NUL character, say) it refuses with `ConfigError`; it never alters one.

The laws, each checked by `juncture.testing.saver_conformance`:

1. **Series.** A thread has one series of checkpoints for every namespace. The newest of a series is its *head*.
   Series of different threads or namespaces never affect one another, however alike their names are.
2. **Ids ascend.** Compared as text, a checkpoint's id is greater than that of the head it follows. So the order of
   ids is the order of saving, and the head is the greatest id; no clock of any machine matters.
3. **Compare and set.** `put` names the head that it follows. If that isn't the head at that moment: `HeadMovedError`,
   and nothing is stored. Of several puts that follow one head, exactly one succeeds.
4. **Lineage is not order.** ``parent_id`` says which state a checkpoint was made from, ``follows`` which head it comes
   after. They differ where a thread goes back in time: a fork has an old parent, and becomes the head. ``parent_id``
   is data; that checkpoint may have been pruned.
5. **All or nothing.** A put stores the checkpoint, its new parts and its records in one transaction.
6. **Records.** What is saved about the tasks of a step stands beside the head that they run from, in the order in
   which it was first saved; a record with the task, kind and name of an older one replaces the content of that one,
   in its place. Records beside anything but the head are refused with `HeadMovedError`. So a checkpoint that is no
   longer the head never changes again, and neither do its records.
7. **Parts.** A checkpoint's payload is its parts, in order. A part is stored once in its series and never changes;
   a checkpoint may name parts that earlier ones of its series stored, by giving them without payload. A part that is
   named but not there, or given anew with a payload, is refused with `SaverError`, and nothing is stored.
8. **Exact.** Every byte and every column comes back as it was given.
9. **Durable.** When a call returns, what it stored is as safe as this saver can make it. When it raises anything but
   the errors named here, it may or may not have stored it; the next put tells, because the head then has moved.
10. **Any thread.** Every method may be called from any worker and any event loop, several at once.
11. **Ends.** After `close`, every call raises `SaverError`; closing twice is fine.

Room is left for what comes later, so that none of it changes the above:

* *Deltas*: law 7. A state stored as a whole is one part; a state stored as changes names the parts that it builds
  on and adds one. Whoever writes keeps the list short, by merging parts and by starting anew.
* *Leases*: methods of their own (acquire, renew, release, expired), judged by the saver's clock, with a default that
  says they aren't supported; and a keyword ``lease=None`` of `put` and `put_records`: a lease that was taken over
  makes them fail within the same transaction.
* *Retention*: listing threads, copying a thread, pruning a series. A part lives while a checkpoint names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, ParamSpec, Self, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Part(NamedTuple):
    """A piece of a checkpoint's payload."""

    id: str
    """Unique in the series."""
    payload: bytes | None = None
    """None in a put: the part is there already. None in a listing: payloads weren't asked for."""


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
    header: bytes
    """Small: what a listing shows besides the columns."""
    parts: tuple[Part, ...]
    """The values, in one or more parts."""


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
    records: tuple[StoredRecord, ...]
    """In the order in which they were first saved."""
    head_id: str
    """The head of its series when it was read: what the next put follows."""


class Saver(ABC):
    """Where checkpoints are kept; the laws are in the module's docstring.

    One object serves sync and async code. Subclasses implement the sync methods; the twins with an ``a`` run them in
    a worker where `blocking` is true, and directly where it is false. A subclass that can do better overrides them.
    Cancelling a twin doesn't take back what it has begun (law 9).
    """

    blocking: bool = True
    """Whether the methods may wait for a disk or a network. Where false, they may be called on an event loop."""

    @abstractmethod
    def load(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> LoadedCheckpoint | None:
        """The head of a series, or the checkpoint of that id, whole, with its records. None if there is none."""

    @abstractmethod
    def put(
        self, checkpoint: StoredCheckpoint, *, follows: str | None, records: Sequence[StoredRecord] = ()
    ) -> None:
        """Stores a checkpoint, which becomes the head, and the last records of the head that it follows.

        Args:
            checkpoint: All of it is stored; at least one part.
            follows: The head of the series as the caller knows it; None where there is no checkpoint yet.
            records: Stored beside ``follows``, in the same transaction.

        Raises:
            HeadMovedError: ``follows`` isn't the head. Nothing was stored.
            SaverError: The id doesn't ascend, a part is missing or given twice, or there are records and no
                checkpoint to stand beside. Nothing was stored.
        """

    @abstractmethod
    def put_records(
        self, thread_id: str, namespace: str, checkpoint_id: str, records: Sequence[StoredRecord]
    ) -> None:
        """Stores records beside the head. Storing the same again changes nothing.

        Raises:
            HeadMovedError: ``checkpoint_id`` isn't the head of that series. Nothing was stored.
        """

    @abstractmethod
    def history(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        payloads: bool = False,
        records: bool = False,
    ) -> list[LoadedCheckpoint]:
        """A series from its newest checkpoint to its oldest, in a constant number of statements.

        Args:
            before: Only checkpoints with a smaller id; it needn't exist.
            limit: At most so many.
            payloads: With the payloads of parts; without them they aren't read.
            records: With the records; without them ``records`` is empty.
        """

    @abstractmethod
    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread that have checkpoints, sorted; none for an unknown thread."""

    @abstractmethod
    def delete_thread(self, thread_id: str) -> None:
        """Removes everything of a thread, in every namespace. An unknown thread is fine."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what the saver holds. Twice is fine."""

    async def aload(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> LoadedCheckpoint | None:
        """As `load`."""
        return await self._elsewhere(self.load, thread_id, namespace, checkpoint_id)

    async def aput(
        self, checkpoint: StoredCheckpoint, *, follows: str | None, records: Sequence[StoredRecord] = ()
    ) -> None:
        """As `put`."""
        await self._elsewhere(self.put, checkpoint, follows=follows, records=records)

    async def aput_records(
        self, thread_id: str, namespace: str, checkpoint_id: str, records: Sequence[StoredRecord]
    ) -> None:
        """As `put_records`."""
        await self._elsewhere(self.put_records, thread_id, namespace, checkpoint_id, records)

    async def ahistory(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        payloads: bool = False,
        records: bool = False,
    ) -> list[LoadedCheckpoint]:
        """As `history`."""
        return await self._elsewhere(
            self.history,
            thread_id,
            namespace,
            before=before,
            limit=limit,
            payloads=payloads,
            records=records,
        )

    async def anamespaces(self, thread_id: str) -> list[str]:
        """As `namespaces`."""
        return await self._elsewhere(self.namespaces, thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await self._elsewhere(self.delete_thread, thread_id)

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
