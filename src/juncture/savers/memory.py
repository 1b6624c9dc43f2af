"""Checkpoints in this process's memory: for tests, for programs that need no durability, and as the plainest saver.

Everything goes through one lock; nothing in here waits for anything else. Stored objects are shared with callers,
which is safe because nobody changes them (`StoredCheckpoint`) and payloads are bytes.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from juncture.errors import HeadMovedError, SaverError
from juncture.savers.base import LoadedCheckpoint, Part, Saver, StoredCheckpoint, StoredRecord

_Records = dict[tuple[str, str, str], StoredRecord]


@dataclass(slots=True)
class _Series:
    """The checkpoints of one namespace of one thread."""

    ids: list[str] = field(default_factory=list[str])
    """In order of saving, which is their order as text."""
    checkpoints: dict[str, StoredCheckpoint] = field(default_factory=dict[str, StoredCheckpoint])
    records: dict[str, _Records] = field(default_factory=dict[str, _Records])
    """By checkpoint; a dict keeps the place of a key whose value is replaced, as law 6 asks."""
    parts: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def loaded(self, checkpoint_id: str) -> LoadedCheckpoint:
        kept = self.records.get(checkpoint_id)
        return LoadedCheckpoint(
            self.checkpoints[checkpoint_id], tuple(kept.values()) if kept else (), self.ids[-1]
        )


class InMemorySaver(Saver):
    """Keeps checkpoints in this process. They are gone when it ends, or with `close`."""

    blocking = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: dict[str, dict[str, _Series]] = {}
        self._closed = False

    def load(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> LoadedCheckpoint | None:
        """The head, or the checkpoint of that id; None if there is none."""
        with self._lock:
            series = self._series(thread_id, namespace)
            if series is None:
                return None
            if checkpoint_id is None:
                checkpoint_id = series.ids[-1]
            elif checkpoint_id not in series.checkpoints:
                return None
            return series.loaded(checkpoint_id)

    def put(
        self, checkpoint: StoredCheckpoint, *, follows: str | None, records: Sequence[StoredRecord] = ()
    ) -> None:
        """Stores a checkpoint that follows the head, and the last records of that head."""
        with self._lock:
            series = self._series(checkpoint.thread_id, checkpoint.namespace)
            self._check_head(checkpoint.thread_id, checkpoint.namespace, series, follows)
            if series is None:
                series = _Series()
            checkpoint = _complete(checkpoint, series, follows)
            if records:
                if follows is None:
                    raise SaverError(
                        f"checkpoint {checkpoint.checkpoint_id} is the first of thread {checkpoint.thread_id!r}: "
                        "there is no head that its records could stand beside. Nothing was saved."
                    )
                _keep(series, follows, records)
            for part_id, payload in checkpoint.parts:
                if payload is not None:
                    series.parts[part_id] = payload
            series.ids.append(checkpoint.checkpoint_id)
            series.checkpoints[checkpoint.checkpoint_id] = checkpoint
            if follows is None:
                self._threads.setdefault(checkpoint.thread_id, {})[checkpoint.namespace] = series

    def put_records(
        self, thread_id: str, namespace: str, checkpoint_id: str, records: Sequence[StoredRecord]
    ) -> None:
        """Stores records beside the head."""
        with self._lock:
            series = self._series(thread_id, namespace)
            self._check_head(thread_id, namespace, series, checkpoint_id)
            if series is not None:
                _keep(series, checkpoint_id, records)

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
        """A series from its newest checkpoint to its oldest."""
        with self._lock:
            series = self._series(thread_id, namespace)
            if series is None:
                return []
            end = len(series.ids) if before is None else bisect_left(series.ids, before)
            start = 0 if limit is None else max(0, end - limit)
            found = [series.loaded(i) for i in reversed(series.ids[start:end])]
        if not payloads:
            for item in found:
                bare = tuple(Part(part.id) for part in item.checkpoint.parts)
                item.checkpoint = replace(item.checkpoint, parts=bare)
        if not records:
            for item in found:
                item.records = ()
        return found

    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread that have checkpoints, sorted."""
        with self._lock:
            self._check_open()
            return sorted(self._threads.get(thread_id, ()))

    def delete_thread(self, thread_id: str) -> None:
        """Removes everything of a thread."""
        with self._lock:
            self._check_open()
            self._threads.pop(thread_id, None)

    def close(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._closed = True
            self._threads.clear()

    def _series(self, thread_id: str, namespace: str) -> _Series | None:
        if self._closed:
            self._check_open()
        thread = self._threads.get(thread_id)
        return None if thread is None else thread.get(namespace)

    def _check_open(self) -> None:
        if self._closed:
            raise SaverError("this InMemorySaver was closed, and what it kept is gone. Make a new one.")

    def _check_head(self, thread_id: str, namespace: str, series: _Series | None, known: str | None) -> None:
        head = None if series is None else series.ids[-1]
        if head != known:
            where = f"thread {thread_id!r}" + (f", namespace {namespace!r}" if namespace else "")
            error = HeadMovedError(
                f"{where}: this run goes on from checkpoint {known}, but the newest is {head}. Another run wrote to "
                "the thread, or it was deleted. Nothing was saved; load the thread and run again."
            )
            error.thread_id = thread_id
            raise error


def _complete(checkpoint: StoredCheckpoint, series: _Series, follows: str | None) -> StoredCheckpoint:
    """The checkpoint with the payload of every part.

    Raises:
        SaverError: Its id doesn't ascend, or a part is missing, or there already, or named twice.
    """
    if follows is not None and checkpoint.checkpoint_id <= follows:
        raise SaverError(
            f"checkpoint ids must ascend: {checkpoint.checkpoint_id!r} can't follow {follows!r} "
            f"in thread {checkpoint.thread_id!r}. Nothing was saved."
        )
    complete = True
    new: set[str] = set()
    for part_id, payload in checkpoint.parts:
        if (payload is None) is not (part_id in series.parts) or part_id in new:
            trouble = "names a part that isn't stored" if payload is None else "stores a part again"
            raise SaverError(
                f"checkpoint {checkpoint.checkpoint_id} of thread {checkpoint.thread_id!r} {trouble}: "
                f"{part_id!r}. Nothing was saved."
            )
        new.add(part_id)
        complete = complete and payload is not None
    if complete:
        return checkpoint
    whole = tuple(Part(i, series.parts[i] if p is None else p) for i, p in checkpoint.parts)
    return replace(checkpoint, parts=whole)


def _keep(series: _Series, checkpoint_id: str, records: Sequence[StoredRecord]) -> None:
    kept = series.records.setdefault(checkpoint_id, {})
    for record in records:
        kept[record[:3]] = record


MemorySaver = InMemorySaver
"""LangGraph's other name for it."""
