"""`gather`: waits for several calls, for all of them whatever becomes of any."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any, Generic, cast, overload

from typing_extensions import TypeVar

from juncture.drivers.calls import CallFuture
from juncture.errors import ConfigError, Pause
from juncture.types import Interrupt

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")


class Gathered(Generic[T]):
    """What several calls give together: `result()` in sync code, ``await`` in async code."""

    def __init__(self, calls: tuple[Awaitable[Any], ...]) -> None:
        """See `gather`."""
        self._calls = calls

    def result(self) -> T:
        """What the calls returned, in the order in which they were given; waits for all of them.

        Raises:
            ConfigError: One of them can only be awaited.
            Exception: What the first of those that failed raised, once all have ended.
        """
        for call in self._calls:
            if not isinstance(call, CallFuture):
                raise ConfigError(
                    f"gather() was given a {type(call).__name__}, which can only be awaited: await gather(…), or give it calls of tasks"
                )
        outcomes: list[Any] = []
        for call in cast("tuple[CallFuture[Any], ...]", self._calls):
            try:
                outcomes.append(call.result())
            except BaseException as error:  # noqa: BLE001 - raised once the others have ended
                outcomes.append(_Raised(error))
        return _together(outcomes)

    def __await__(self) -> Generator[Any, None, T]:
        return self._all().__await__()

    async def _all(self) -> T:
        import asyncio

        async def one(call: Awaitable[Any]) -> Any:
            try:
                return await call
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - raised once the others have ended
                return _Raised(error)

        return _together(await asyncio.gather(*map(one, self._calls)))


class _Raised:
    """Stands among what calls returned for one that raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _together(outcomes: list[Any]) -> Any:
    """All that was returned. A failure is raised before a pause, and that with everybody's questions."""
    errors = [outcome.error for outcome in outcomes if isinstance(outcome, _Raised)]
    questions: list[Interrupt] = []
    for error in errors:
        if not isinstance(error, Pause):
            raise error
        questions += error.args
    if errors:
        raise Pause(*questions)
    return tuple(outcomes)


@overload
def gather(call: Awaitable[T1], /) -> Gathered[tuple[T1]]: ...
@overload
def gather(call: Awaitable[T1], _second: Awaitable[T2], /) -> Gathered[tuple[T1, T2]]: ...
@overload
def gather(
    call: Awaitable[T1], _second: Awaitable[T2], _third: Awaitable[T3], /
) -> Gathered[tuple[T1, T2, T3]]: ...
@overload
def gather(
    call: Awaitable[T1], _second: Awaitable[T2], _third: Awaitable[T3], _fourth: Awaitable[T4], /
) -> Gathered[tuple[T1, T2, T3, T4]]: ...
@overload
def gather(*calls: Awaitable[T]) -> Gathered[tuple[T, ...]]: ...
def gather(*calls: Awaitable[Any]) -> Gathered[Any]:
    """What several calls give together: ask it for its ``result()``, or await it.

    All are waited for, also after one failed or asked a question, so that every question is asked before the run pauses. Then
    the first failure, in the order given, is raised; without one, the pause; without that, all that they returned is given
    as a tuple. In async code anything that can be awaited may be among them.
    """
    return Gathered(calls)


__all__ = ["Gathered", "gather"]
