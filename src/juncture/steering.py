"""What steers a run from outside, bounds it, and counts what it uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol


class RunControl:
    """Steers a run from outside, from any thread: given as ``control=`` to `invoke`, `stream` and their twins.

    What is asked of it holds for every run that it is given to, also afterwards; so make a new one for each run that is to
    be steered by itself. A graph that is nested in a run is steered with it.
    """

    __slots__ = ("_runs", "cancel_reason", "drain_reason")

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self.drain_reason: str | None = None
        """Why the run is to end early; None while nobody asked for it."""
        self.cancel_reason: str | None = None
        """Why it is cancelled; None while it isn't."""
        self._runs: list[Callable[[str], None]] = []

    @property
    def drain_requested(self) -> bool:
        """Whether the run is to end early."""
        return self.drain_reason is not None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Has the run end once the running step is done and saved, if more is due then: with the status ``drained``.

        With a saver it is gone on with by None as the input.
        """
        self.drain_reason = reason

    def cancel(self, reason: str = "cancelled from outside") -> None:
        """Has the run end now: async nodes are cancelled, running sync ones abandoned, but for one in the caller's thread.

        What was saved stays. `invoke` raises `Cancelled`, `ainvoke` asyncio's `CancelledError`.
        """
        self.cancel_reason = reason
        for cancel in list(self._runs):
            cancel(reason)

    def begins(self, cancel: Callable[[str], None]) -> None:
        """A run begins, and can be cancelled by this."""
        self._runs.append(
            cancel
        )  # before it is looked at whether it is cancelled already: nothing comes between
        if self.cancel_reason is not None:
            cancel(self.cancel_reason)

    def ends(self, cancel: Callable[[str], None]) -> None:
        """A run that could be cancelled by this has ended."""
        self._runs.remove(cancel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may use up, with everything nested in it, before it ends early with the status ``budget``.

    Looked at before each step: the step that goes beyond is still finished and saved. None: as much as it takes.

    Raises:
        ValueError: One is less than nothing, or none is given.
    """

    steps: int | None = None
    """Supersteps, those of nested graphs included."""
    seconds: float | None = None
    """Time since the run began."""
    tokens: int | None = None
    """As reported by ``runtime.report_usage``, or found in messages."""
    cost: float | None = None
    """Money, as reported, in whatever currency."""

    def __post_init__(self) -> None:
        given: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        if all(amount is None for amount in given.values()):
            raise ValueError("a budget says what may be used up: steps, seconds, tokens or cost")
        for name, amount in given.items():
            if amount is not None and not (type(amount) in (int, float) and amount >= 0):
                raise ValueError(f"the budget of {name} is a number, at least 0, got {amount!r}")


class ReportUsage(Protocol):
    """Adds to what a node and its run have used; ``total_tokens`` is the sum of the others unless it is given."""

    def __call__(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        total_tokens: int | None = None,
        cost: float = 0.0,
    ) -> None:
        """From any thread, while the try runs; ValueError for what isn't a number, at least 0."""
        ...


def no_usage(
    *, input_tokens: int = 0, output_tokens: int = 0, total_tokens: int | None = None, cost: float = 0.0
) -> None:
    """Outside of a run, nobody counts."""
