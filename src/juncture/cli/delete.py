"""`juncture delete`: removes a thread."""

from __future__ import annotations

from juncture.cli.deleting import confirm
from juncture.cli.kept import Kept, known_thread, look
from juncture.cli.options import (
    CheckpointerOption,
    GraphArgument,
    OneThreadOption,
    TracebackOption,
    YesOption,
)
from juncture.cli.page import page
from juncture.cli.reporting import reported
from juncture.cli.saying import say
from juncture.cli.typed import Typed


def delete(
    graph: GraphArgument,
    *,
    thread: OneThreadOption,
    checkpointer: CheckpointerOption = None,
    yes: YesOption = False,
    traceback: TracebackOption = False,
) -> None:
    """Remove a thread with its whole history.

    Exit codes: 0 done, 1 it couldn't be done, 2 wrong usage, no such thread, or it is in use, 130 the answer was no.
    """
    with reported(with_traceback=traceback), page(as_json=True):

        async def work(ready: Kept, _: Typed) -> None:
            await known_thread(ready, thread)
            confirm(f"Remove thread {thread!r} and its whole history?", yes=yes)
            await ready.adelete_thread(thread)
            say(f"removed thread {thread!r}")

        look(graph, checkpointer, thread, work)
