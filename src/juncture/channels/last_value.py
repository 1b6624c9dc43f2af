"""Keys that keep the last value and take one write a step: what a key without a reducer is.

Two writes in one step are refused, because which one would win is decided by nothing that the user can see. An
overwrite counts as a write like any other, and so does a removal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from juncture.channels.base import Channel
from juncture.channels.marks import settled
from juncture.errors import InvalidUpdateError
from juncture.types import MISSING


def refuse_several(channel: str, count: int) -> InvalidUpdateError:
    """The error for a key that takes one write and got more."""
    return InvalidUpdateError(
        f"Can receive only one value per step, and {channel} got {count}. "
        "Give the key a reducer (Annotated[type, reducer]), or let one node write it"
    )


class LastValue(Channel):
    """Keeps the last value. Absent until it is written, and after it was removed."""

    __slots__ = ()

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """The value written."""
        if not writes:
            return stored
        if len(writes) > 1:
            raise refuse_several("LastValue", len(writes))
        return settled(writes[0])


class LastValueAfterFinish(Channel):
    """Keeps the last value, shows it once nothing else is left to run, and lets go of it when it was read.

    What is stored is ``(value, whether it is shown)``.
    """

    __slots__ = ()
    plain: ClassVar[bool] = False

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """The value written, hidden."""
        if not writes:
            return stored
        if len(writes) > 1:
            raise refuse_several("LastValueAfterFinish", len(writes))
        value = settled(writes[0])
        return MISSING if value is MISSING else (value, False)

    def show(self, stored: Any) -> Any:
        """The value, if it is shown."""
        return stored[0] if stored is not MISSING and stored[1] else MISSING

    def finish(self, stored: Any) -> Any:
        """The value, shown."""
        return stored if stored is MISSING or stored[1] else (stored[0], True)

    def consume(self, stored: Any) -> Any:
        """Nothing, if it was shown."""
        return stored if self.show(stored) is MISSING else MISSING
