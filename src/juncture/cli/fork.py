"""`juncture fork`: an old state becomes the newest, in its thread or in a copy of it."""

from __future__ import annotations

from typing import Annotated

import typer

from juncture.cli.kept import Kept, at, known_state, known_thread, look
from juncture.cli.options import (
    CheckpointerOption,
    GraphArgument,
    JsonOption,
    OneThreadOption,
    TracebackOption,
)
from juncture.cli.page import page
from juncture.cli.records import id_of
from juncture.cli.reporting import reported
from juncture.cli.saying import say, visible
from juncture.cli.typed import Typed
from juncture.errors import ConfigError
from juncture.types import StateSnapshot


def fork(
    graph: GraphArgument,
    *,
    thread: OneThreadOption,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The checkpoint to go back to; with --to, by default the newest.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="NEW_ID",
            help="Copy the thread to this id first, and leave it as it is.",
            show_default=False,
        ),
    ] = None,
    checkpointer: CheckpointerOption = None,
    as_json: JsonOption = False,
    traceback: TracebackOption = False,
) -> None:
    """Make an old checkpoint the newest, so that the thread goes on from there. Nothing is removed.

    Exit codes: 0 done, 1 it couldn't be done, 2 wrong usage, no such thread or checkpoint, or it is in use.
    """
    with reported(with_traceback=traceback), page(as_json=as_json) as shown:
        if checkpoint is None and to is None:
            raise ConfigError(
                "fork needs to know where to go back to (--checkpoint ID), or where to copy to (--to ID)"
            )

        async def work(ready: Kept, typed: Typed) -> None:
            state = await _forked(ready, thread, checkpoint, to)
            made = id_of(state.config)
            forked_to = to or thread
            if shown.console is None:
                shown.line(
                    {
                        "thread_id": forked_to,
                        "checkpoint_id": made,
                        "from": {"thread_id": thread, "checkpoint_id": checkpoint},
                    }
                )
            else:
                shown.console.print(
                    f"checkpoint {made} is the newest of thread {visible(forked_to)}", soft_wrap=True
                )
            verb = "resume" if any(each.when == "inside" for each in state.interrupts) else "run"
            if state.next:
                say(f"To go on: {typed.of(forked_to).command(verb)}")

        look(graph, checkpointer, thread, work)


async def _forked(graph: Kept, thread: str, checkpoint: str | None, to: str | None) -> StateSnapshot:
    """The state that is the newest now.

    Raises:
        BaseException: Whatever went wrong. A copy that had been made was removed again.
    """
    if checkpoint is not None:
        await known_state(graph, thread, checkpoint)
    if to is None:
        return await _copied(graph, thread, checkpoint)
    await known_thread(graph, thread)
    await graph.acopy_thread(thread, to)
    try:
        return await _copied(graph, to, checkpoint)
    except BaseException:
        await graph.adelete_thread(to)
        raise


async def _copied(graph: Kept, thread: str, checkpoint: str | None) -> StateSnapshot:
    if checkpoint is not None:
        await graph.aupdate_state(at(thread, checkpoint), None, as_node="__copy__")
    return await graph.aget_state(thread)
