"""The newest states of threads that this process ran lately, so that going on with one needn't read it again.

A state is only used where the saver says that its checkpoint is still the head. Whoever takes one out has it alone; it
is put back when the run ends. Objects aren't kept, since those who hold a result could change them: a long list of them is
kept as the bytes of what they hold (`juncture.persistence.columns`), and no other state with objects is.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from typing import Final, NamedTuple

from juncture.persistence.codec import Codec
from juncture.persistence.track import Track
from juncture.savers.base import Saver

MOST_THREADS: Final = 256
MOST_BYTES: Final = 64 << 20
"""Of what they would be as whole parts, and of what is kept for objects."""


class Recent(NamedTuple):
    """A thread's newest state, as it was saved."""

    checkpoint_id: str
    codec: Codec
    track: Track


class _Shelf:
    def __init__(self) -> None:
        self.kept: OrderedDict[str, Recent] = OrderedDict()
        self.size = 0


class _Shelves:
    """The shelves of this process; a forked child begins with none, for its parent's may be half changed."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        self.lock = threading.Lock()
        self.of: weakref.WeakKeyDictionary[Saver, _Shelf] = weakref.WeakKeyDictionary()


_shelves = _Shelves()
os.register_at_fork(after_in_child=_shelves.begin_anew)


def take(saver: Saver, thread_id: str, codec: Codec) -> Recent | None:
    """Takes a thread's newest state out, if it is there and of the same classes."""
    with _shelves.lock:
        shelf = _shelves.of.get(saver)
        found = None if shelf is None else shelf.kept.pop(thread_id, None)
        if found is None or shelf is None:
            return None
        shelf.size -= found.track.kept_bytes
    return found if found.codec is codec and found.track.can_be_taken else None


def put(saver: Saver, thread_id: str, recent: Recent) -> None:
    """Puts a thread's newest state back, without its objects; the longest unused go where there are too many."""
    recent.track.put_away()
    if recent.track.kept_bytes > MOST_BYTES:
        return
    with _shelves.lock:
        shelf = _shelves.of.get(saver)
        if shelf is None:
            shelf = _shelves.of[saver] = _Shelf()
        old = shelf.kept.pop(thread_id, None)
        if old is not None:
            shelf.size -= old.track.kept_bytes
        shelf.kept[thread_id] = recent
        shelf.size += recent.track.kept_bytes
        while len(shelf.kept) > MOST_THREADS or (shelf.size > MOST_BYTES and shelf.kept):
            _, gone = shelf.kept.popitem(last=False)
            shelf.size -= gone.track.kept_bytes


def forget(saver: Saver, thread_id: str) -> None:
    """Drops what is there of a thread."""
    with _shelves.lock:
        shelf = _shelves.of.get(saver)
        if shelf is not None and (gone := shelf.kept.pop(thread_id, None)) is not None:
            shelf.size -= gone.track.kept_bytes
