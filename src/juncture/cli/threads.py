"""`juncture threads`: which threads there are, and how they stand."""

from __future__ import annotations

from typing import Annotated, Final, get_args

import typer

from juncture.cli.kept import Kept, look
from juncture.cli.options import CheckpointerOption, GraphArgument, JsonOption, LimitOption, TracebackOption
from juncture.cli.page import Page, page
from juncture.cli.reporting import reported
from juncture.cli.typed import Typed
from juncture.errors import ConfigError
from juncture.types import ThreadSnapshot, ThreadStatus

STATUSES: Final[tuple[str, ...]] = get_args(ThreadStatus)
AT_ONCE: Final = 500
"""How many threads are asked for at once."""


def threads(
    graph: GraphArgument,
    *,
    checkpointer: CheckpointerOption = None,
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATUS",
            help=f"Only threads that are {', '.join(STATUSES[:-1])} or {STATUSES[-1]}; may be given several times.",
            show_default=False,
        ),
    ] = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
    traceback: TracebackOption = False,
) -> None:
    """List the threads of a graph.

    Exit codes: 0 done, 1 it couldn't be read, 2 wrong usage.
    """
    with reported(with_traceback=traceback), page(as_json=as_json) as shown:
        wanted = frozenset(status or ())
        for each in sorted(wanted.difference(STATUSES)):
            raise ConfigError(f"--status {each}: no thread ever is. Known: {', '.join(STATUSES)}")

        async def work(ready: Kept, _: Typed) -> None:
            await _list(ready, shown, wanted, limit)

        look(graph, checkpointer, None, work)


async def _list(graph: Kept, shown: Page, wanted: frozenset[str], limit: int | None) -> None:
    rows: list[ThreadSnapshot] = []
    left, after = limit, None
    while left is None or left > 0:
        found = await graph.aget_threads(after=after, limit=AT_ONCE)
        fitting = [each for each in found if not wanted or each.status in wanted][:left]
        left = None if left is None else left - len(fitting)
        if shown.console is not None:
            rows += fitting
        elif not all(shown.line(each) for each in fitting):
            return
        if len(found) < AT_ONCE:
            break
        after = found[-1].thread_id
    if shown.console is not None:
        from juncture.cli.drawing import threads_table

        shown.console.print(threads_table(rows) if rows else "no threads")
