"""Whether a failed try is followed by another, and when. Pure: randomness comes in as an argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from juncture.errors import ConfigError, InterruptError, InvalidUpdateError, RoutingError, note
from juncture.types import RetryPolicy

_PROGRAMMING = (
    InvalidUpdateError,
    RoutingError,
    InterruptError,
    ConfigError,
    ValueError,
    TypeError,
    ArithmeticError,
    ImportError,
    LookupError,
    NameError,
    SyntaxError,
    RuntimeError,
    ReferenceError,
    StopIteration,
    StopAsyncIteration,
    OSError,
)


def delay_before_retry(
    policies: Sequence[RetryPolicy], error: Exception, attempt: int, jitter: Callable[[], float]
) -> float | None:
    """Seconds until the next try, or None if there is none; then a note on the error says why.

    Args:
        policies: The first one that names the exception decides.
        error: What the try ended with.
        attempt: Which try it was, from 1.
        jitter: Gives a number from 0 to 1.

    Source:
        LangGraph 1.2.24 `_retry.run_with_retry`: the same waits and defaults.
    """
    for policy in policies:
        if not retries(policy, error):
            continue
        if attempt >= policy.max_attempts:
            note(
                error,
                f"juncture: not retried: attempt {attempt} of {policy.max_attempts} was the last of {policy}",
            )
            return None
        delay = min(policy.max_interval, policy.initial_interval * policy.backoff_factor ** (attempt - 1))
        return delay + jitter() if policy.jitter else delay
    if policies:
        note(
            error,
            f"juncture: not retried: no retry policy of the node names {type(error).__name__} "
            f"({', '.join(str(policy.retry_on or 'the default') for policy in policies)})",
        )
    return None


def retries(policy: RetryPolicy, error: Exception) -> bool:
    """Whether the policy names the exception."""
    named = policy.retry_on
    if named is None:
        return is_transient(error)
    if isinstance(named, type):
        return isinstance(error, named)
    if isinstance(named, Sequence):
        return isinstance(error, tuple(cast("Sequence[type[Exception]]", named)))
    return bool(named(error))


def is_transient(error: Exception) -> bool:
    """The default: everything but programming errors and OS errors; HTTP errors by their status.

    Source:
        LangGraph 1.2.24 `default_retry_on`.
    """
    if isinstance(error, ConnectionError):
        return True
    library = type(error).__module__.partition(".")[0]
    response = cast("Any", getattr(error, "response", None))
    if library in ("httpx", "requests") and type(error).__name__ in ("HTTPStatusError", "HTTPError"):
        return library == "requests" if response is None else _status(response) >= 500
    return not isinstance(error, _PROGRAMMING)


def _status(response: Any) -> int:
    return int(getattr(response, "status_code", 0) or 0)
