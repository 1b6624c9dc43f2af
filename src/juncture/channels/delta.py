"""Keys whose reducer takes all writes of a step at once: ``reducer(value, [write, …])``.

How such a key is stored is a matter of checkpoints, which keep every key as changes anyway; here is only what its
writes mean. The reducer must give the same result however writes are batched:
``reducer(reducer(v, a), b) == reducer(v, a + b)``.

An overwrite replaces what came earlier in the step; later writes are merged into its value. ``Overwrite(None)`` goes
back to the zero of the type. Lenient, as LangGraph 1.2.24: all other writes of that step are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from juncture.channels.base import Channel
from juncture.channels.marks import last_replacement
from juncture.channels.reduced import zero_of
from juncture.channels.strategies import is_pure
from juncture.errors import GraphBuildError
from juncture.types import MISSING


class DeltaChannel(Channel):
    """Merges the writes of a step into the value by one call of a reducer of (value, list of writes)."""

    __slots__ = ("lenient", "reducer", "snapshot_frequency")
    reduces: ClassVar[bool] = True

    def __init__(
        self,
        reducer: Callable[[Any, list[Any]], Any],
        typ: Any = None,
        *,
        snapshot_frequency: int = 1000,
        lenient: bool = False,
    ) -> None:
        """Takes the reducer and the type of the value: as annotated if it isn't given, a list where nothing is.

        Args:
            reducer: Called with the value and the writes of one step, in plan order.
            typ: Must be callable without arguments: that is the value before the first write.
            snapshot_frequency: Kept for code written for LangGraph; what is stored doesn't depend on it.
            lenient: Follow LangGraph where it differs; see the module.

        Raises:
            GraphBuildError: The type has no zero, or an argument is not what it must be.
        """
        super().__init__(typ)
        if not callable(reducer):
            raise GraphBuildError(f"DeltaChannel needs a reducer of (value, [write, …]), got {reducer!r}")
        if snapshot_frequency < 1:
            raise GraphBuildError(f"snapshot_frequency must be a positive int, got {snapshot_frequency}")
        self.reducer = reducer
        self.snapshot_frequency = snapshot_frequency
        self.lenient = lenient
        if self.initial() is MISSING:
            raise GraphBuildError(
                f"DeltaChannel starts from {typ!r} called without arguments, and that can't be called so. "
                "Give it a type that can, as its second argument"
            )

    @property
    def pure(self) -> bool:
        """Whether the reducer is known to leave the old value alone."""
        return is_pure(self.reducer)

    def typed(self, typ: Any) -> DeltaChannel:
        """The same with another type of the value.

        Raises:
            GraphBuildError: The type has no zero.
        """
        return type(self)(self.reducer, typ, snapshot_frequency=self.snapshot_frequency, lenient=self.lenient)

    def initial(self) -> Any:
        """The zero of the type, new each time."""
        return zero_of(list if self.typ is None else self.typ, lenient=True)

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """The value with the writes merged into it."""
        if not writes:
            return stored
        place, value = last_replacement(writes)
        if place < 0:
            value = stored
        elif value is None:
            value = self.initial()
        rest = list(writes[place + 1 :])
        if not rest or (self.lenient and place >= 0 and value is not MISSING):
            return value
        return self.reducer(self.initial() if value is MISSING else value, rest)
