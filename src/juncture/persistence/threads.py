"""What a driver does to load and save, for one run on one thread.

`ThreadLog` stands between the engine, which speaks of `State` and `TaskRecord`, and a saver, which keeps bytes. It
encodes, makes ids, holds the thread's lease, and remembers for every namespace which checkpoint is the head and which
one the run goes on from.

Everything that may change afterwards is turned into bytes before a call returns or first awaits. Each operation is
written once, as a program (`asking`); the sync and the async methods only run it. A `ThreadLog` belongs to one run and
is used from one worker, or from one event loop, where calls for different namespaces may overlap.

When something is durable
-------------------------
``sync``   when `save` returns: before the next step starts.
``async``  some time later, in the order of saving, and when `finish` returns; the next step overlaps the save. After
           a failure nothing more is saved, and the next call raises it.
``exit``   when `finish` returns: the newest state of each namespace that is still needed, and nothing between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from juncture.engine.state import Saved, State, TaskRecord
from juncture.errors import (
    CheckpointNotFoundError,
    JunctureError,
    LeaseLostError,
    SaverError,
)
from juncture.persistence import leases, recent
from juncture.persistence.asking import Ask, Asking, R, aperformed, performed
from juncture.persistence.background import Background
from juncture.persistence.checkpoint_ids import CheckpointIds
from juncture.persistence.codec import Codec
from juncture.persistence.format import (
    bare_state,
    body_of,
    body_of_parts,
    header_bytes,
    namespace_levels,
    namespace_text,
    read_header,
    record_bytes,
    saved_of,
    state_of,
)
from juncture.persistence.leases import OnBusy
from juncture.persistence.track import Track
from juncture.savers.base import (
    Lease,
    LoadedCheckpoint,
    Saver,
    StoredCheckpoint,
    StoredRecord,
    lease_lost,
)

Namespace: TypeAlias = tuple[str, ...]
Durability: TypeAlias = Literal["sync", "async", "exit"]


@dataclass(slots=True)
class _Point:
    """Where a run stands in one namespace."""

    namespace: str
    """As text."""
    track: Track
    """What was saved last."""
    head: str | None = None
    """The newest checkpoint as far as this run knows: what its next put follows."""
    seq: int = 0
    """The place of that checkpoint."""
    base: str | None = None
    """The checkpoint that the run's state comes from: the parent of the next. An older one after going back."""
    held: _HeldBack | None = None
    """With ``exit``: what isn't saved yet."""


class _Series:
    """With ``exit``: the states of one namespace so far, as their parts would be, of which only the newest is needed."""

    def __init__(self, track: Track) -> None:
        self._track = track
        self._parts: dict[int, bytes] = {}
        self._made = 0

    def add(self, state: State) -> None:
        self._made += 1
        payload, builds_on = self._track.encode(state, self._made)
        if not builds_on:
            self._parts.clear()
        self._parts[self._made] = payload

    @property
    def payloads(self) -> list[bytes]:
        return list(self._parts.values())


@dataclass(slots=True)
class _HeldBack:
    """What a run with ``exit`` has to save in one namespace when it ends."""

    series: _Series | None = None
    header: bytes = b""
    step: int | None = None
    checkpoint_id: str = ""
    source: str = ""
    records: list[StoredRecord] = field(default_factory=list[StoredRecord])

    def state(self, codec: Codec) -> State:
        """The state, as it was when it was to be saved."""
        assert self.series is not None
        return state_of(
            self.step or 0, read_header(codec, self.header), body_of_parts(codec, self.series.payloads)
        )


class ThreadLog:
    """The checkpoints of one thread, as one run loads and makes them.

    Args:
        saver: Where they are kept. Not closed here.
        thread_id: The thread.
        codec: Knows the classes of the graph's schemas, and of those of its nested graphs.
        run_id: The run that is noted in what it saves.
        untracked: Keys that are never saved, in any namespace.
        exposed: Some node gets the state itself instead of copies.
        durability: When what is saved is durable; see the module.
        on_busy: What to do while another run has the thread.
        metadata: Kept with every checkpoint that the run makes.
        held: The thread's lease, if it was taken already; it is given back all the same, unless it is lent.
        lent: Whoever took the lease gives it back.
        clock: Nanoseconds since the epoch.

    Every error of the saver and of encoding is raised as it is, with a note that names the checkpoint and the thread;
    it must end the run. What was saved before stays, and nothing of the failed call counts as saved. Whoever made a
    log ends it with `finish`, however the run ended.
    """

    def __init__(
        self,
        saver: Saver,
        thread_id: str,
        codec: Codec,
        *,
        run_id: str = "",
        untracked: Collection[str] = frozenset(),
        exposed: bool = False,
        durability: Durability = "sync",
        on_busy: OnBusy = "raise",
        metadata: Mapping[str, Any] | None = None,
        held: leases.Held | None = None,
        lent: bool = False,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.thread_id = thread_id
        self.blocking = saver.blocking
        """Whether saving may wait for a disk or a network."""
        self.saver = saver
        self._codec = codec
        self._run_id = run_id
        self._untracked = untracked
        self._exposed = exposed
        self._durability = durability
        self._on_busy: OnBusy = on_busy
        self._metadata = metadata or {}
        self._clock = clock
        self._ids = CheckpointIds()
        self._points: dict[Namespace, _Point] = {}
        self._held = held
        self._lent = lent and held is not None
        self._background = Background() if durability == "async" and saver.blocking else None
        self._broken = False
        """Something wasn't saved: what is known of the thread may not be what it holds."""
        self._ended = False
        self.at_end: Callable[[Lease], Asking[None]] | None = None
        """Done once everything is saved, just before the thread is given back."""

    def take(self, held: leases.Held) -> None:
        """Has the run use a lease that was taken already; it is given back at its end."""
        self._held = held

    # ---- both kinds of code

    def load(self, namespace: Namespace = (), checkpoint_id: str | None = None) -> Saved | None:
        """The newest checkpoint of a namespace, or the given one; the run goes on from it, and has the thread.

        Returns:
            None if the namespace has no checkpoint.

        Raises:
            ThreadBusyError: Another run has the thread.
            CheckpointNotFoundError: It has none of that id.
            SerializationError: It can't be read.
        """
        return performed(self._load(namespace, checkpoint_id))

    async def aload(self, namespace: Namespace = (), checkpoint_id: str | None = None) -> Saved | None:
        """As `load`."""
        return await self._awaited(self._load(namespace, checkpoint_id))

    def save(self, namespace: Namespace, state: State, source: str = "loop") -> str:
        """Saves a state as the new head of a namespace.

        Args:
            namespace: Loaded before by this run; if it wasn't, it must be new.
            state: Isn't referred to afterwards.
            source: ``input``, ``loop``, ``update``, ``fork`` or ``command``.

        Returns:
            The id of the checkpoint.

        Raises:
            HeadMovedError: Another run wrote to the thread. Nothing was saved.
            LeaseLostError: Another run took over the thread. Nothing was saved.
            SerializationError: A value can't be stored. Nothing was saved.
        """
        return performed(self._save(namespace, state, source))

    async def asave(self, namespace: Namespace, state: State, source: str = "loop") -> str:
        """As `save`. The state is encoded before anything is awaited."""
        return await self._awaited(self._save(namespace, state, source))

    def save_records(
        self, namespace: Namespace, checkpoint_id: str, records: Sequence[TaskRecord], *, now: bool = False
    ) -> None:
        """Saves records of the step that follows a checkpoint, which must be the head.

        Saving one again (task, kind and name are the same) replaces it. With `now`, they and everything saved before are
        durable afterwards, whatever the run's durability.

        Raises:
            HeadMovedError: Another run wrote to the thread. Nothing was saved.
            LeaseLostError: Another run took over the thread. Nothing was saved.
            SerializationError: A record can't be stored. Nothing was saved.
        """
        performed(self._save_records(namespace, checkpoint_id, records, now))

    async def asave_records(
        self, namespace: Namespace, checkpoint_id: str, records: Sequence[TaskRecord], *, now: bool = False
    ) -> None:
        """As `save_records`. The records are encoded before anything is awaited."""
        await self._awaited(self._save_records(namespace, checkpoint_id, records, now))

    def finish(self) -> None:
        """Ends the run: what wasn't saved yet is saved, and the thread is given back. Twice is fine.

        Raises:
            Exception: What a save raised. The thread is given back all the same.
        """
        performed(self._finish())

    async def afinish(self) -> None:
        """As `finish`."""
        await self._awaited(self._finish())

    async def _awaited(self, program: Asking[R]) -> R:
        if self.blocking or self._on_busy == "wait":
            return await aperformed(program)
        return performed(program)

    # ---- the lease

    @property
    def _lease(self) -> Lease | None:
        """The right to write.

        Raises:
            LeaseLostError: It was lost.
        """
        if self._held is None:
            return None
        if self._held.lost:
            raise lease_lost(self._held.lease, "another run, or nobody,")
        return self._held.lease

    def _check_open(self) -> None:
        """Refuses everything once the run has ended, or couldn't save something.

        Raises:
            SaverError: Something goes on all the same.
        """
        if self._ended:
            raise SaverError(
                f"a run of thread {self.thread_id!r} has ended; what it left behind can't save anything"
            )
        if self._held is not None and self._held.lost:
            raise lease_lost(self._held.lease, "another run, or nobody,")
        if self._broken:
            raise SaverError(
                f"an earlier save of this run on thread {self.thread_id!r} failed; nothing more is saved. What was saved "
                "before it stays"
            )

    # ---- load

    def _load(self, namespace: Namespace, checkpoint_id: str | None) -> Asking[Saved | None]:
        self._check_open()
        try:
            if self._background is not None:
                yield Ask(self._background, "join")
            if self._held is None:
                self._held = yield from leases.acquire(self.saver, self.thread_id, self._on_busy)
            saved = yield from self._read(namespace, checkpoint_id)
        except Exception as error:
            self._note(error, "loading", namespace, checkpoint_id)
            raise
        return saved

    def _read(self, namespace: Namespace, checkpoint_id: str | None) -> Asking[Saved | None]:
        text = namespace_text(namespace)
        known = recent.take(self.saver, self.thread_id, self._codec) if not namespace else None
        found: LoadedCheckpoint | None = yield Ask(
            self.saver,
            "load",
            (self.thread_id, text, checkpoint_id),
            {"known": None if known is None else known.checkpoint_id},
        )
        if found is None:
            if checkpoint_id is not None:
                raise CheckpointNotFoundError(
                    f"thread {self.thread_id!r} has no checkpoint {checkpoint_id!r}. Its history lists those it has."
                )
            self._points[namespace] = self._new_point(text)
            return None
        stored = found.checkpoint
        header = read_header(self._codec, stored.header)
        if known is not None and stored.checkpoint_id == known.checkpoint_id:
            track, body = known.track, known.track.body()
        else:
            track = self._new_track()
            body = body_of(self._codec, found)
            track.read(body, found.parts, header.get("size", 0))
        self._points[namespace] = _Point(text, track, found.head_id, found.head_seq, stored.checkpoint_id)
        saved = saved_of(self._codec, found, header, body)
        saved.state.flat = track.flat
        return saved

    def _new_track(self) -> Track:
        return Track(self._codec, self._untracked, exposed=self._exposed)

    def _new_point(self, text: str) -> _Point:
        return _Point(text, self._new_track())

    # ---- save

    def _save(self, namespace: Namespace, state: State, source: str) -> Asking[str]:
        self._check_open()
        point = self._points.get(namespace)
        if point is None:
            point = self._points[namespace] = self._new_point(namespace_text(namespace))
        if not state.step and source == "input":
            point.base = None  # it begins, whatever another branch left in this namespace
        now = self._clock()
        checkpoint_id = self._ids.next(now, point.head)
        try:
            if self._durability == "exit":
                self._hold_back(point, state, source, checkpoint_id)
                return checkpoint_id
            yield from self._put(point, state, source, checkpoint_id, now)
        except BaseException as error:
            self._not_saved(error, "saving", namespace, checkpoint_id, state.step)
            raise
        return checkpoint_id

    def _put(
        self,
        point: _Point,
        state: State,
        source: str,
        checkpoint_id: str,
        now: int,
    ) -> Asking[None]:
        seq = point.seq + 1
        follows, lease = point.head, self._lease
        payload, builds_on = point.track.encode(state, seq)
        try:
            stored = StoredCheckpoint(  # by position: by keyword costs as much as encoding a small state
                self.thread_id,
                point.namespace,
                checkpoint_id,
                point.base,
                state.step,
                source,
                self._run_id,
                now / 1e9,
                seq,
                builds_on,
                header_bytes(self._codec, state, self._metadata, point.track.size),
            )
            if self._background is None:
                yield Ask(self.saver, "put", (stored, payload), {"follows": follows, "lease": lease})
            else:
                put = partial(self.saver.put, stored, payload, follows=follows, lease=lease)
                told = ("saving", namespace_levels(point.namespace), checkpoint_id, state.step)
                yield Ask(self._background, "add", (partial(self._later, put, *told),))
        except BaseException:
            self._broken = True  # what the track takes for saved wasn't, or may not have been
            raise
        point.head = point.base = checkpoint_id
        point.seq = seq

    def _save_records(
        self, namespace: Namespace, checkpoint_id: str, records: Sequence[TaskRecord], now: bool
    ) -> Asking[None]:
        self._check_open()
        point = self._points.get(namespace)
        try:
            if self._durability == "exit" and point is not None:
                if point.held is None:
                    point.held = _HeldBack(checkpoint_id=checkpoint_id)
                point.held.records += self._encoded(records)
                if now:
                    yield from self._save_held_back()
                return
            encoded = self._encoded(records)
            args = (self.thread_id, namespace_text(namespace), checkpoint_id, encoded)
            if self._background is None:
                yield Ask(self.saver, "put_records", args, {"lease": self._lease})
            else:
                put = partial(self.saver.put_records, *args, lease=self._lease)
                told = ("saving records beside", namespace, checkpoint_id)
                yield Ask(self._background, "add", (partial(self._later, put, *told),))
                if now:
                    yield Ask(self._background, "join")
        except BaseException as error:
            self._not_saved(error, "saving records beside", namespace, checkpoint_id)
            raise

    def _encoded(self, records: Sequence[TaskRecord]) -> list[StoredRecord]:
        return [record_bytes(self._codec, record, self._untracked) for record in records]

    def _later(self, call: Callable[[], None], *told: Any) -> None:
        """A save in the background; what it raises says which one it was."""
        try:
            call()
        except Exception as error:
            self._note(error, *told)
            raise

    # ---- with ``exit``

    def _hold_back(self, point: _Point, state: State, source: str, checkpoint_id: str) -> None:
        """Keeps a state until the run ends; the one kept before is forgotten, and what was known of its tasks."""
        header = header_bytes(self._codec, state)
        before = point.held
        series = (
            before.series if before is not None and before.series is not None else _Series(self._new_track())
        )
        series.add(state)
        point.held = _HeldBack(series, header, state.step, checkpoint_id, source)

    def _save_held_back(self) -> Asking[None]:
        for namespace in sorted(
            self._points, key=len, reverse=True
        ):  # children first: their parents go on from them
            point = self._points[namespace]
            held, point.held = point.held, None
            if held is None or (namespace and not _is_needed(self._codec, held)):
                continue
            try:
                if held.series is not None:
                    state = held.state(self._codec)
                    yield from self._put(point, state, held.source, held.checkpoint_id, self._clock())
                if held.records:
                    args = (
                        self.thread_id,
                        point.namespace,
                        held.checkpoint_id,
                        held.records,
                    )
                    yield Ask(self.saver, "put_records", args, {"lease": self._lease})
            except BaseException as error:
                self._not_saved(
                    error, "saving, at the end of the run,", namespace, held.checkpoint_id, held.step
                )
                raise

    # ---- the end

    def _finish(self) -> Asking[None]:
        try:
            if self._background is not None:
                yield from self._join()
            if self._durability == "exit" and not self._broken:
                yield from self._save_held_back()
            root = self._points.get(())
            if root is not None and root.head is not None and self._is_kept(root):
                recent.put(self.saver, self.thread_id, recent.Recent(root.head, self._codec, root.track))
            if self.at_end is not None and (lease := self._lease) is not None:
                yield from self.at_end(lease)
        finally:
            self._ended = True
            self._points.clear()
            held, self._held = self._held, None
            if held is not None and not self._lent:
                yield from leases.release(self.saver, held)

    def _is_kept(self, root: _Point) -> bool:
        """Whether what is known of the thread is its newest state."""
        return root.head == root.base and root.track.can_be_kept and not self._broken

    def _join(self) -> Asking[None]:
        try:
            yield Ask(self._background, "join", whole=True)
        except BaseException as error:
            self._not_saved(error, "saving in the background", (), None)
            raise
        finally:
            if self._background is not None:
                self._background.close()

    # ---- errors

    def _not_saved(
        self,
        error: BaseException,
        doing: str,
        namespace: Namespace,
        checkpoint_id: str | None,
        step: int | None = None,
    ) -> None:
        if isinstance(error, LeaseLostError) and self._held is not None:
            self._held.lost = True
        later = self._background is not None and self._background.error is error  # noted where it failed
        self._broken = self._broken or later
        if isinstance(error, Exception) and not later:
            self._note(error, doing, namespace, checkpoint_id, step)

    def _note(
        self,
        error: Exception,
        doing: str,
        namespace: Namespace,
        checkpoint_id: str | None,
        step: int | None = None,
    ) -> None:
        """Notes on an exception what was being done, and fills in the place of our own."""
        if isinstance(error, JunctureError):
            error.thread_id, error.namespace, error.run_id = self.thread_id, namespace, self._run_id or None
            error.step = step if error.step is None else error.step
        which = "the newest checkpoint" if checkpoint_id is None else f"checkpoint {checkpoint_id}"
        at = "" if step is None else f" (step {step})"
        within = f", namespace {namespace_text(namespace)!r}" if namespace else ""
        error.add_note(f"juncture: while {doing} {which}{at} of thread {self.thread_id!r}{within}")


def _is_needed(codec: Codec, held: _HeldBack) -> bool:
    """Whether the state of a nested graph is still needed once the run has ended: it isn't where it had finished."""
    if held.series is None:
        return bool(held.records)
    state = bare_state(held.step or 0, read_header(codec, held.header))
    return bool(state.due or state.sends or state.deferred or state.joins or state.owner)


__all__ = ["Durability", "Namespace", "OnBusy", "ThreadLog"]
