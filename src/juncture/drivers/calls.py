"""Calls made inside a task, and the futures that stand for what they give."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Generic

from juncture.engine.effects import Done, Failed, Outcome, Paused, Stopped
from juncture.engine.values import copied
from juncture.errors import Cancelled, GraphDrained, Pause
from juncture.types import ValueT

if TYPE_CHECKING:
    import asyncio

    from juncture.drivers.context import TaskContext


class CallFuture(Generic[ValueT]):
    """What a call will give: `result()` in sync code, ``await`` in async code."""

    __slots__ = ("_callbacks", "_lending", "_lock", "_outcome", "_settled", "_wait", "caller")

    def __init__(
        self,
        wait: Callable[[CallFuture[Any]], None],
        lending: Callable[[], AbstractContextManager[None]],
        caller: TaskContext,
    ) -> None:
        """`wait` blocks until it is settled, as its driver sees fit; `lending` surrounds every wait of the caller."""
        self._wait = wait
        self.caller = caller
        """The try that made the call."""
        self._lending = lending
        self._outcome: Outcome | None = None
        self._settled = Event()
        self._callbacks: list[Callable[[], object]] = []
        self._lock = Lock()

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._outcome is not None

    def result(self) -> ValueT:
        """What the call returned; waits for it.

        Raises:
            Exception: What the call raised.
        """
        if self._outcome is None:
            with self._lending():
                self._wait(self)
        return self._value()

    def _value(self) -> Any:
        outcome = self._outcome
        if isinstance(outcome, Done):
            return copied(outcome.result)
        if isinstance(outcome, Failed):
            raise outcome.error
        if isinstance(outcome, Paused):
            raise Pause(*outcome.questions)
        if isinstance(outcome, Stopped) and outcome.why is not None:
            raise GraphDrained(outcome.why.reason, outcome.why)
        raise Cancelled("the run was cancelled before this call ended")

    def settle(self, outcome: Outcome) -> None:
        """Makes the outcome known."""
        with self._lock:
            self._outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
        self._settled.set()
        for callback in callbacks:
            callback()

    def block(self) -> None:
        """Waits without doing anything else."""
        self._settled.wait()

    def on_settled(self, callback: Callable[[], object]) -> None:
        """Has the callback called once the outcome is known, in whichever thread settles it."""
        with self._lock:
            if self._outcome is None:
                self._callbacks.append(callback)
                return
        callback()

    def __await__(self) -> Generator[Any, None, ValueT]:
        if self._outcome is None:
            import asyncio

            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            self.on_settled(lambda: loop.call_soon_threadsafe(_wake, waiter))
            with self._lending():
                yield from waiter.__await__()
        return self._value()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
