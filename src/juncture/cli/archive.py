"""`juncture archive`: moves a thread out of the way, so that its id can be used anew."""

from __future__ import annotations

from juncture.cli.kept import Kept, known_thread, look
from juncture.cli.options import (
    CheckpointerOption,
    GraphArgument,
    JsonOption,
    OneThreadOption,
    TracebackOption,
)
from juncture.cli.page import page
from juncture.cli.reporting import reported
from juncture.cli.saying import visible
from juncture.cli.typed import Typed


def archive(
    graph: GraphArgument,
    *,
    thread: OneThreadOption,
    checkpointer: CheckpointerOption = None,
    as_json: JsonOption = False,
    traceback: TracebackOption = False,
) -> None:
    """Keep a thread under another id, so that its own can be used anew.

    Exit codes: 0 done, 1 it couldn't be done, 2 wrong usage, no such thread, or it is in use.
    """
    with reported(with_traceback=traceback), page(as_json=as_json) as shown:

        async def work(ready: Kept, _: Typed) -> None:
            await known_thread(ready, thread)
            kept = await ready.aarchive_thread(thread)
            if shown.console is None:
                shown.line({"thread_id": kept, "from": {"thread_id": thread}})
            else:
                shown.console.print(
                    f"thread {visible(thread)} is kept as {visible(kept)}", soft_wrap=True, highlight=False
                )

        look(graph, checkpointer, thread, work)
