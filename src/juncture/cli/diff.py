"""`juncture diff`: what differs between two states of a thread."""

from __future__ import annotations

from typing import Annotated

import typer

from juncture.cli.kept import Kept, at, known_thread, look
from juncture.cli.options import (
    CheckpointerOption,
    GraphArgument,
    JsonOption,
    NamespaceOption,
    OneThreadOption,
    TracebackOption,
)
from juncture.cli.page import page
from juncture.cli.reporting import reported
from juncture.cli.typed import Typed


def diff(
    graph: GraphArgument,
    first: Annotated[
        str, typer.Argument(metavar="A", help="A checkpoint of the thread.", show_default=False)
    ],
    second: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="Another; by default the newest.", show_default=False),
    ] = None,
    *,
    thread: OneThreadOption,
    other_thread: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The thread of B, if it is another one.", show_default=False),
    ] = None,
    checkpointer: CheckpointerOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    traceback: TracebackOption = False,
) -> None:
    """Show what differs between the values of two checkpoints.

    Exit codes: 0 done, whether they differ or not, 1 it couldn't be read, 2 wrong usage, or no such thread or checkpoint.
    """
    with reported(with_traceback=traceback), page(as_json=as_json) as shown:

        async def work(ready: Kept, _: Typed) -> None:
            for each in dict.fromkeys((thread, other_thread or thread)):
                await known_thread(ready, each)
            found = await ready.adiff(
                at(thread, first, namespace), at(other_thread or thread, second, namespace)
            )
            if shown.console is None:
                shown.line(found)
                return
            from juncture.cli.drawing import draw_diff

            draw_diff(shown.console, found)

        look(graph, checkpointer, thread, work)
