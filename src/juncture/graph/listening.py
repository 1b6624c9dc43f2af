"""Who listens to a call, and how they are told that it has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from juncture.drivers.run import Observer
from juncture.errors import described, note
from juncture.observe.listeners import Event, Listener, Listeners, read_listeners
from juncture.types import Status

if TYPE_CHECKING:
    from juncture.drivers.base import Driver
    from juncture.graph.calls import Call


def observer_of(call: Call, more: Sequence[Listener | Callable[[Event], Any]]) -> Observer | None:
    """Who listens to a call: those given at compile and then `more`; to a part of another run, those of that run.

    Raises:
        ConfigError: One of `more` can't listen.
    """
    if call.outer is not None and call.nested:
        return call.outer.program.shared.observer
    listeners = (*call.graph.listeners, *(read_listeners(more) if more else ()))
    if not listeners:
        return None
    return Listeners(listeners, call.graph.on_listener_error, call.graph.name, call.run_id, call.thread_id)


def tell_end(driver: Driver, status: Status, error: BaseException | None) -> None:
    """Tells whoever listens that the run has ended.

    Raises:
        Exception: What a listener raised, where that is to end the run; what the run itself raises gets a note of it.
    """
    observer = driver.shared.observer
    assert observer is not None
    try:
        for event in driver.endings(observer, status, error):
            waiting = observer.tell(event)
            if waiting is not None:
                driver.wait_for_coroutine(waiting)
    except Exception as also:  # noqa: BLE001 - raised again, or said on what the run raises
        _said_on(error, also)


async def atell_end(driver: Driver, status: Status, error: BaseException | None) -> None:
    """As `tell_end`, without blocking the event loop."""
    observer = driver.shared.observer
    assert observer is not None
    try:
        for event in driver.endings(observer, status, error):
            waiting = observer.tell(event)
            if waiting is not None:
                await waiting
    except Exception as also:  # noqa: BLE001 - raised again, or said on what the run raises
        _said_on(error, also)


def _said_on(error: BaseException | None, also: Exception) -> None:
    if error is None:
        raise also
    note(error, f"juncture: a listener failed as well: {described(also)}")


__all__ = ["atell_end", "observer_of", "tell_end"]
