"""Keys that collect: everything that was written in a step, as one list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from juncture.channels.base import Channel
from juncture.channels.marks import last_replacement
from juncture.types import MISSING


class Topic(Channel):
    """Holds a list of what was written, in plan order; absent while there is nothing.

    A list that is written is flattened one level. An overwrite starts the list anew with its value; what is written
    later in the same step is added to it.
    """

    __slots__ = ("accumulate",)

    def __init__(self, typ: Any = Any, accumulate: bool = False) -> None:
        """Takes the type of one item, and whether the items of earlier steps are kept."""
        super().__init__(typ)
        self.accumulate = accumulate

    @property
    def volatile(self) -> bool:
        """Unless it accumulates, a step without a write empties it."""
        return not self.accumulate

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """A new list of all items, or `MISSING` for none."""
        if self.accumulate and not writes:
            return stored
        place, start = last_replacement(writes)
        kept: list[Any] = []
        if place >= 0:
            kept = [] if start is MISSING else _items(start)
        elif self.accumulate and stored is not MISSING:
            kept = stored
        new = [item for write in writes[place + 1 :] for item in _items(write)]
        return [*kept, *new] or MISSING


def _items(write: Any) -> list[Any]:
    return cast("list[Any]", write) if isinstance(write, list) else [write]
