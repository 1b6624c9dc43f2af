"""Keys that no checkpoint holds: connections, clients, caches. They live as long as the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from juncture.channels.base import Channel
from juncture.channels.last_value import refuse_several
from juncture.channels.marks import settled


class UntrackedValue(Channel):
    """Keeps the last value, outside of every checkpoint. After a resume it is absent."""

    __slots__ = ("guard",)
    tracked: ClassVar[bool] = False

    def __init__(self, typ: Any = Any, guard: bool = True) -> None:
        """Takes the type, and whether several writes in one step are refused; else the last in plan order wins."""
        super().__init__(typ)
        self.guard = guard

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """The last value written."""
        if self.guard and len(writes) > 1:
            raise refuse_several("UntrackedValue(guard=True)", len(writes))
        return settled(writes[-1]) if writes else stored
