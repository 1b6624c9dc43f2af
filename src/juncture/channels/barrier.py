"""Keys that wait: available once each of a set of names was written, and empty again once that was read.

What is stored is which names came, in the order of their coming; what is shown is ``None``, or nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any, ClassVar

from juncture.channels.base import Channel
from juncture.channels.marks import replacement
from juncture.errors import GraphBuildError, InvalidUpdateError
from juncture.types import MARK_FOR_REMOVAL, MISSING


class NamedBarrierValue(Channel):
    """Shows ``None`` once all names were written. Stored: the names that came, as a tuple."""

    __slots__ = ("names",)
    plain: ClassVar[bool] = False

    def __init__(self, typ: Any, names: Collection[Any]) -> None:
        """Takes the type of the names, and the names that it waits for.

        Raises:
            GraphBuildError: There are no names.
        """
        super().__init__(typ)
        self.names = frozenset(names)
        if not self.names:
            raise GraphBuildError(
                "a barrier needs at least one name to wait for; with none it would never open"
            )

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """The names that came so far.

        Raises:
            InvalidUpdateError: Something else than one of the names was written.
        """
        return self._with(stored, writes) if writes else stored

    def show(self, stored: Any) -> Any:
        """``None`` once all names came."""
        return None if self._complete(stored) else MISSING

    def consume(self, stored: Any) -> Any:
        """Nothing, if all names had come."""
        return stored if self.show(stored) is MISSING else MISSING

    def _complete(self, seen: Any) -> bool:
        return seen is not MISSING and len(seen) == len(self.names)

    def _with(self, stored: Any, writes: Sequence[Any]) -> Any:
        seen: dict[Any, None] = {} if stored is MISSING else dict.fromkeys(stored)
        for write in writes:
            new = replacement(write)
            if new is MARK_FOR_REMOVAL:
                seen.clear()
                continue
            if new is not MISSING:
                raise InvalidUpdateError(
                    f"a barrier can't be overwritten (with {new!r}): it only takes the names that it waits for. "
                    "Write one of them, or MARK_FOR_REMOVAL to start it anew"
                )
            if not isinstance(write, Hashable) or write not in self.names:
                known = ", ".join(sorted(map(repr, self.names)))
                raise InvalidUpdateError(f"the barrier doesn't wait for {write!r}. Write one of: {known}")
            seen[write] = None
        return tuple(seen) or MISSING


class NamedBarrierValueAfterFinish(NamedBarrierValue):
    """Shows ``None`` once all names were written and nothing else is left to run.

    What is stored is ``(the names that came, whether it is shown)``.
    """

    __slots__ = ()

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """The names that came so far, and whether it was shown before."""
        if not writes:
            return stored
        seen, shown = (MISSING, False) if stored is MISSING else stored
        seen = self._with(seen, writes)
        return MISSING if seen is MISSING else (seen, shown and self._complete(seen))

    def show(self, stored: Any) -> Any:
        """``None`` once all names came and `finish` was called."""
        return None if stored is not MISSING and stored[1] else MISSING

    def finish(self, stored: Any) -> Any:
        """Shown, if all names came."""
        if stored is MISSING or stored[1] or not self._complete(stored[0]):
            return stored
        return (stored[0], True)
