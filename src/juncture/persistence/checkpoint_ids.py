"""Ids of checkpoints: unique, and ascending as text in the order in which they were made.

An id has the form of a UUID of version 7: 60 bits of time, then 62 random bits. The time is that of the clock, or one
more than that of the id before where the clock stands still, goes back, or is behind another machine's. So ids ascend
in a series whatever clocks do. One unit is 2**-12 of a millisecond, a quarter of a microsecond.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from juncture.errors import SaverError


class CheckpointIds:
    """Makes the ids of one run.

    Args:
        entropy: So many random bytes. Drawn once: within the run, the time alone tells ids apart.
    """

    __slots__ = ("_last", "_tail")

    def __init__(self, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._last = -1
        tail = (int.from_bytes(entropy(8), "big") & (1 << 62) - 1) | 1 << 63  # the variant's two bits, 10
        self._tail = f"{tail >> 48:04x}-{tail & (1 << 48) - 1:012x}"

    def next(self, now: int, after: str | None) -> str:
        """A new id, greater as text than ``after`` and than every id made before.

        Args:
            now: Nanoseconds since the epoch.
            after: The head that the checkpoint follows, if there is one.

        Raises:
            SaverError: ``after`` has another form, so that nothing certain follows it.
        """
        at = (now << 12) // 1_000_000  # milliseconds, and 4096ths of one
        if at <= self._last:
            at = self._last + 1
        if after is not None and not after.endswith(self._tail):  # one of our own is never ahead of the last
            head = _time_of(after)
            if at <= head:
                at = head + 1
        self._last = at
        digits = f"{at:015x}"
        return f"{digits[:8]}-{digits[8:12]}-7{digits[12:]}-{self._tail}"


def _time_of(checkpoint_id: str) -> int:
    try:
        if len(checkpoint_id) == 36 and checkpoint_id[14] == "7":
            return int(checkpoint_id[:8] + checkpoint_id[9:13] + checkpoint_id[15:18], 16)
    except ValueError:
        pass  # of another form, which is told below
    raise SaverError(
        f"the checkpoint {checkpoint_id!r} wasn't made by Juncture: no id can be made that follows it"
    )
