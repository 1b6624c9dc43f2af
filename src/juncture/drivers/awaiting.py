"""Awaiting on behalf of a node: a coroutine in a context of its own, inside an asyncio task that is the run's.

The async driver awaits a lone node inside its own asyncio task, which saves making another. The node still gets a copy
of the context, and a cancellation that the node's own task group makes is told from one that comes from outside.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any

from juncture.engine.effects import Outcome


@types.coroutine
def in_context(
    context: Context, coroutine: Coroutine[Any, Any, Outcome], cancelled: Callable[[Any], None] | None = None
) -> Generator[Any, Any, Outcome]:
    """Awaits a coroutine step by step in a context other than that of the asyncio task that awaits it.

    `cancelled` is told of the coroutine before it is handed a cancellation.
    """
    step = context.run
    send, throw = coroutine.send, coroutine.throw
    try:
        waited = step(send, None)
        while True:
            try:
                sent = yield waited
            except GeneratorExit:
                step(coroutine.close)
                raise
            except BaseException as error:  # noqa: BLE001 - handed to the coroutine, which decides
                if cancelled is not None and isinstance(error, asyncio.CancelledError):
                    cancelled(coroutine)
                waited = step(throw, error)
            else:
                waited = step(send, sent)
    except StopIteration as end:
        return end.value


def is_by_group(coroutine: Any) -> bool:
    """Whether what a coroutine waits in is a task group that has cancelled the asyncio task itself.

    Python 3.11 and 3.12 leave that one counted (`Task.cancelling`) if the group was already waiting for its tasks.
    """
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None and frame.f_code is asyncio.TaskGroup.__aexit__.__code__:
            return bool(getattr(frame.f_locals.get("self"), "_parent_cancel_requested", False))
        coroutine = getattr(coroutine, "cr_await", None)
    return False


__all__ = ["in_context", "is_by_group"]
