"""Keys whose value lives for one step: what is written in a step is seen in the next, and then gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from juncture.channels.base import Channel
from juncture.channels.last_value import refuse_several
from juncture.channels.marks import settled
from juncture.types import MISSING


class EphemeralValue(Channel):
    """Holds what the step before wrote, and nothing if it wrote nothing."""

    __slots__ = ("guard",)

    def __init__(self, typ: Any = Any, guard: bool = True) -> None:
        """Takes the type, and whether several writes in one step are refused; else the last in plan order wins."""
        super().__init__(typ)
        self.guard = guard

    @property
    def volatile(self) -> bool:
        """A step without a write empties it."""
        return True

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """The last value written; `MISSING` without writes."""
        if self.guard and len(writes) > 1:
            raise refuse_several("EphemeralValue(guard=True)", len(writes))
        return settled(writes[-1]) if writes else MISSING


class AnyValue(Channel):
    """Holds what the step before wrote, for writers that all write the same: the last in plan order wins."""

    __slots__ = ()

    @property
    def volatile(self) -> bool:
        """A step without a write empties it."""
        return True

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """The last value written; `MISSING` without writes."""
        return settled(writes[-1]) if writes else MISSING
