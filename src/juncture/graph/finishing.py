"""What becomes of a thread when its run is done: it is kept, moved out of the way, or deleted.

It is done under the run's own lease, after everything was saved: so nobody can go on with the thread in between. A run
that pauses, is stopped or fails keeps its thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from juncture.drivers.base import Driver
from juncture.errors import ConfigError
from juncture.graph.options import OnFinish, chosen
from juncture.persistence import recent
from juncture.persistence.asking import Ask, Asking
from juncture.savers.base import Lease

if TYPE_CHECKING:
    from juncture.graph.calls import Call
    from juncture.persistence.threads import ThreadLog

D = TypeVar("D", bound=Driver)


def finish_of(call: Call, asked: OnFinish | None) -> tuple[OnFinish, str | None]:
    """What becomes of a call's thread, and the thread; a part of another run and an edit keep it.

    Raises:
        ConfigError: There is no such choice, or no saver that it could be about.
    """
    if call.graph.checkpointer is None and asked not in (None, "keep"):
        raise ConfigError(f"on_finish={asked!r} needs a saver of this graph; there is no thread of its own")
    if call.supersteps is not None or call.nested:
        return "keep", call.thread_id
    return chosen("on_finish", asked or call.graph.on_finish), call.thread_id


def leaving(call: Call, driver: D) -> D:
    """The driver of a call, whose run archives or deletes its thread at its end if that is wanted."""
    if call.on_finish != "keep" and call.log is not None:
        call.log.at_end = partial(_leave, call, call.log, driver)
    return driver


def _leave(call: Call, log: ThreadLog, driver: Driver, lease: Lease) -> Asking[None]:
    """Archives or deletes the thread of a call, if its run is done, and has the call know.

    Raises:
        Exception: What the saver raised. Unless the thread was deleted, it is as the run left it.
    """
    if driver.ending is None or driver.ending.status != "completed":
        return
    try:
        if call.on_finish == "archive":
            call.kept_as = yield from call.graph.threads.move(log.thread_id, lease)
        else:
            yield Ask(log.saver, "delete_thread", (log.thread_id,), {"lease": lease})
            call.kept_as = None
    except Exception as error:
        error.add_note(
            f"juncture: the run of thread {log.thread_id!r} was done, and everything saved; what failed is "
            f"on_finish={call.on_finish!r}. Do it again: {call.on_finish}_thread({log.thread_id!r})"
        )
        raise
    finally:
        recent.forget(log.saver, log.thread_id)
