"""Time limits as they are stored: seconds for a limit of the whole try alone, else ``[run or nil, idle or nil, refresh_on]``."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from juncture.types import TimeoutPolicy

Packed: TypeAlias = float | list[Any] | None


def packed_limits(policy: TimeoutPolicy | None) -> Packed:
    """What is stored of a policy."""
    if policy is None:
        return None
    if policy.idle_timeout is None and policy.refresh_on == "auto":
        return cast("float | None", policy.run_timeout)  # a policy keeps spans as seconds
    return [policy.run_timeout, policy.idle_timeout, policy.refresh_on]


def unpacked_limits(stored: Packed) -> float | TimeoutPolicy | None:
    """What `juncture.types.Send` takes for it."""
    if not isinstance(stored, list):
        return stored
    run, idle, refresh_on = stored
    return TimeoutPolicy(run_timeout=run, idle_timeout=idle, refresh_on=refresh_on)


__all__ = ["packed_limits", "unpacked_limits"]
