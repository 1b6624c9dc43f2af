"""Event loops for async nodes under a sync run: daemon threads owned by the compiled graph.

There is one for every level of nested calls: an async node that calls `invoke` blocks the loop it runs on, so whatever
is async below it gets the next one. Loops live as long as the compiled graph and are shared by its runs.
"""

from __future__ import annotations

import weakref
from threading import Lock, Thread
from typing import TYPE_CHECKING

from juncture.errors import NodeCancelledError

if TYPE_CHECKING:
    import asyncio

    from juncture.engine.task import Task


def closed(task: Task) -> NodeCancelledError:
    """What an async node failed with whose loop was stopped under it."""
    return NodeCancelledError(
        f"node {task.node.name!r} was cancelled because its graph was closed while it ran; close a graph after its runs",
        node=task.node.name,
    )


class Loops:
    """The event loops of one compiled graph, by level."""

    def __init__(self) -> None:
        """No loop runs before one is asked for."""
        self._loops: list[asyncio.AbstractEventLoop] = []
        self._threads: list[Thread] = []
        self._errors: dict[asyncio.AbstractEventLoop, BaseException] = {}
        self._lock = Lock()
        self._finalizer = weakref.finalize(self, _stop, self._loops, self._threads)

    def at(self, level: int) -> asyncio.AbstractEventLoop:
        """The running loop for calls at this depth of nesting."""
        import asyncio

        with self._lock:
            while len(self._loops) <= level:
                loop = asyncio.new_event_loop()
                thread = Thread(
                    target=_serve, args=(loop, self._errors), name=f"juncture-loop-{level}", daemon=True
                )
                thread.start()
                self._loops.append(loop)
                self._threads.append(thread)
            return self._loops[level]

    def error_at(self, level: int) -> BaseException | None:
        """What is ending the runs on a loop at this moment; None where the loop is only being closed."""
        return self._errors.get(self._loops[level]) if level < len(self._loops) else None

    def close(self) -> None:
        """Stops the loops and waits for their threads. They start again when asked for."""
        with self._lock:
            _stop(self._loops, self._threads)


def _serve(loop: asyncio.AbstractEventLoop, errors: dict[asyncio.AbstractEventLoop, BaseException]) -> None:
    import asyncio

    asyncio.set_event_loop(loop)
    try:
        while True:
            try:
                loop.run_forever()
                break
            except (KeyboardInterrupt, SystemExit) as error:
                # Raised in a task that a node started by itself. What stops the process ends the runs on this loop.
                errors[loop] = error
                _cancel_all(loop)
                del errors[loop]
    finally:
        _cancel_all(loop)  # somebody closed the graph while it ran: its runs are told
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    running = asyncio.all_tasks(loop)
    for task in running:
        task.cancel()
    if running:
        loop.run_until_complete(asyncio.wait(running, timeout=5))


def _stop(loops: list[asyncio.AbstractEventLoop], threads: list[Thread]) -> None:
    for loop, thread in zip(loops, threads, strict=True):
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=5)
    loops.clear()
    threads.clear()
