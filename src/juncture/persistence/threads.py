"""What a driver does to load and save, for one run on one thread.

`ThreadLog` stands between the engine, which speaks of `State` and `TaskRecord`, and a saver, which keeps bytes. It
encodes, makes ids, and remembers for every namespace which checkpoint is the head and which one the run goes on from.

Everything that may change afterwards is turned into bytes before a call returns or first awaits. The sync and the
async methods differ only in how the saver is called. A `ThreadLog` belongs to one run and is used from one worker, or
from one event loop, where calls for different namespaces may overlap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from juncture.engine.state import Saved, State, TaskRecord
from juncture.errors import CheckpointNotFoundError, JunctureError
from juncture.persistence.checkpoint_ids import CheckpointIds
from juncture.persistence.codec import Codec
from juncture.persistence.format import (
    body_bytes,
    header_bytes,
    namespace_text,
    record_bytes,
    saved_checkpoint,
)
from juncture.savers.base import LoadedCheckpoint, Saver, StoredCheckpoint, StoredRecord

Namespace = tuple[str, ...]


@dataclass(slots=True)
class _Point:
    """Where a run stands in one namespace."""

    namespace: str
    """As text."""
    head: str | None = None
    """The newest checkpoint as far as this run knows: what its next put follows."""
    seq: int = 0
    """The place of that checkpoint."""
    base: str | None = None
    """The checkpoint that the run's state comes from: the parent of the next. An older one after going back."""


class ThreadLog:
    """The checkpoints of one thread, as one run loads and makes them.

    Args:
        saver: Where they are kept. Not closed here.
        thread_id: The thread.
        codec: Knows the classes of the graph's schemas, and of those of its nested graphs.
        run_id: The run that is noted in what it saves.
        untracked: Keys that are never saved, in any namespace.
        clock: Nanoseconds since the epoch.

    Every error of the saver and of encoding is raised as it is, with a note that names the checkpoint and the thread;
    it must end the run. What was saved before stays, and nothing of the failed call counts as saved.
    """

    def __init__(
        self,
        saver: Saver,
        thread_id: str,
        codec: Codec,
        *,
        run_id: str = "",
        untracked: Collection[str] = frozenset(),
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.thread_id = thread_id
        self._saver = saver
        self._codec = codec
        self._run_id = run_id
        self._untracked = untracked
        self._clock = clock
        self._ids = CheckpointIds()
        self._points: dict[Namespace, _Point] = {}

    @property
    def blocking(self) -> bool:
        """Whether saving may wait for a disk or a network."""
        return self._saver.blocking

    # ── load ─────────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, namespace: Namespace = (), checkpoint_id: str | None = None) -> Saved | None:
        """The newest checkpoint of a namespace, or the given one; the run goes on from it.

        Returns:
            None if the namespace has no checkpoint.

        Raises:
            CheckpointNotFoundError: It has none of that id.
            SerializationError: It can't be read.
        """
        try:
            found = self._saver.load(self.thread_id, namespace_text(namespace), checkpoint_id)
            return self._arrive(namespace, checkpoint_id, found)
        except Exception as error:
            self._note(error, "loading", namespace, checkpoint_id)
            raise

    async def aload(self, namespace: Namespace = (), checkpoint_id: str | None = None) -> Saved | None:
        """As `load`."""
        try:
            found = await self._saver.aload(self.thread_id, namespace_text(namespace), checkpoint_id)
            return self._arrive(namespace, checkpoint_id, found)
        except Exception as error:
            self._note(error, "loading", namespace, checkpoint_id)
            raise

    def _arrive(
        self, namespace: Namespace, asked: str | None, found: LoadedCheckpoint | None
    ) -> Saved | None:
        if found is None:
            if asked is not None:
                raise CheckpointNotFoundError(
                    f"thread {self.thread_id!r} has no checkpoint {asked!r}. Its history lists those it has."
                )
            self._points[namespace] = _Point(namespace_text(namespace))
            return None
        saved = saved_checkpoint(self._codec, found)
        self._points[namespace] = _Point(
            found.checkpoint.namespace, found.head_id, found.head_seq, saved.checkpoint_id
        )
        return saved

    # ── save ─────────────────────────────────────────────────────────────────────────────────────────────────

    def save(
        self, namespace: Namespace, state: State, source: str = "loop", records: Sequence[TaskRecord] = ()
    ) -> str:
        """Saves a state as the new head of a namespace, together with the last records of the step that made it.

        Args:
            namespace: Loaded before by this run; if it wasn't, it must be new.
            state: Isn't referred to afterwards.
            source: ``input``, ``loop``, ``update``, ``fork`` or ``command``.
            records: About the tasks of the step that made the state; they stand beside the head until now. None right
                after going back to an older checkpoint.

        Returns:
            The id of the checkpoint.

        Raises:
            HeadMovedError: Another run wrote to the thread. Nothing was saved.
            SerializationError: A value can't be stored. Nothing was saved.
        """
        point, stored = self._begun(namespace, state, source)
        try:
            payload = self._fill(stored, state)
            self._saver.put(
                stored, payload, follows=point.head, records=self._encoded(records) if records else ()
            )
        except Exception as error:
            self._note(error, "saving", namespace, stored.checkpoint_id, state.step)
            raise
        point.head = point.base = stored.checkpoint_id
        point.seq = stored.seq
        return stored.checkpoint_id

    async def asave(
        self, namespace: Namespace, state: State, source: str = "loop", records: Sequence[TaskRecord] = ()
    ) -> str:
        """As `save`. The state and the records are encoded before anything is awaited."""
        point, stored = self._begun(namespace, state, source)
        try:
            payload = self._fill(stored, state)
            encoded = self._encoded(records) if records else ()
            await self._saver.aput(stored, payload, follows=point.head, records=encoded)
        except Exception as error:
            self._note(error, "saving", namespace, stored.checkpoint_id, state.step)
            raise
        point.head = point.base = stored.checkpoint_id
        point.seq = stored.seq
        return stored.checkpoint_id

    def _begun(self, namespace: Namespace, state: State, source: str) -> tuple[_Point, StoredCheckpoint]:
        """Where the run stands, and the next checkpoint without its header and parts."""
        point = self._points.get(namespace)
        if point is None:
            point = self._points[namespace] = _Point(namespace_text(namespace))
        now = self._clock()
        stored = StoredCheckpoint(  # by position: by keyword costs as much as encoding a small state
            self.thread_id,
            point.namespace,
            self._ids.next(now, point.head),
            point.base,
            state.step,
            source,
            self._run_id,
            now / 1e9,
            point.seq + 1,
            (),
            b"",
        )
        return point, stored

    def _fill(self, stored: StoredCheckpoint, state: State) -> bytes:
        stored.header = header_bytes(self._codec, state)
        return body_bytes(self._codec, state, self._untracked)

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────────

    def save_records(self, namespace: Namespace, checkpoint_id: str, records: Sequence[TaskRecord]) -> None:
        """Saves records of the step that follows a checkpoint, which must be the head.

        Saving one again (task, kind and name are the same) replaces it.

        Raises:
            HeadMovedError: Another run wrote to the thread. Nothing was saved.
            SerializationError: A record can't be stored. Nothing was saved.
        """
        try:
            encoded = self._encoded(records)
            self._saver.put_records(self.thread_id, namespace_text(namespace), checkpoint_id, encoded)
        except Exception as error:
            self._note(error, "saving records beside", namespace, checkpoint_id)
            raise

    async def asave_records(
        self, namespace: Namespace, checkpoint_id: str, records: Sequence[TaskRecord]
    ) -> None:
        """As `save_records`. The records are encoded before anything is awaited."""
        try:
            encoded = self._encoded(records)
            await self._saver.aput_records(self.thread_id, namespace_text(namespace), checkpoint_id, encoded)
        except Exception as error:
            self._note(error, "saving records beside", namespace, checkpoint_id)
            raise

    def _encoded(self, records: Sequence[TaskRecord]) -> list[StoredRecord]:
        return [record_bytes(self._codec, record, self._untracked) for record in records]

    # ── errors ───────────────────────────────────────────────────────────────────────────────────────────────

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
