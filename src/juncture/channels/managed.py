"""Keys that are no state: what they show is computed from where the run is. They are read-only and never stored."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, TypeAlias, get_origin

from typing_extensions import TypeIs


class ManagedValue:
    """Marks a key as computed. The class itself is the marker: ``Annotated[type, TheClass]``."""

    @staticmethod
    def value(remaining: int) -> Any:
        """What the key shows.

        Args:
            remaining: Supersteps that the limit still allows, the current one included: 1 in the last.
        """
        raise NotImplementedError("a managed value must say what it shows: override value()")


class IsLastStepManager(ManagedValue):
    """Marks a key that is true in the last superstep that the limit allows."""

    @staticmethod
    def value(remaining: int) -> bool:
        """Whether no superstep may follow."""
        return remaining <= 1


class RemainingStepsManager(ManagedValue):
    """Marks a key that counts the supersteps that the limit still allows, the current one included."""

    @staticmethod
    def value(remaining: int) -> int:
        """The count."""
        return remaining


IsLastStep: TypeAlias = Annotated[bool, IsLastStepManager]
"""A key of the state that is true in the last superstep that the limit allows."""
RemainingSteps: TypeAlias = Annotated[int, RemainingStepsManager]
"""A key of the state that holds how many supersteps the limit still allows: 1 in the last."""


def is_managed(marker: Any) -> TypeIs[type[ManagedValue]]:
    """Whether an item of an annotation marks a managed value."""
    kind = get_origin(marker) or marker
    return inspect.isclass(kind) and issubclass(kind, ManagedValue)
