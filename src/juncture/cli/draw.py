"""`juncture draw`: a picture of a graph, without running it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any, cast
from warnings import catch_warnings, simplefilter

import typer

from juncture.cli.kept import Kept, known_thread, look
from juncture.cli.lines import own_output
from juncture.cli.loading import find_graph
from juncture.cli.options import CheckpointerOption, GraphArgument, TracebackOption
from juncture.cli.reporting import reported
from juncture.cli.saying import say
from juncture.cli.typed import Typed
from juncture.errors import ConfigError, GraphCheckWarning
from juncture.graph.builder import StateGraph
from juncture.graph.compiled import CompiledGraph
from juncture.graph.drawing.face import FORMATS, Format
from juncture.types import StateSnapshot

_ENDINGS = {".mmd": "mermaid", ".mermaid": "mermaid", ".puml": "plantuml", ".plantuml": "plantuml", ".gv": "dot",
            ".dot": "dot", ".txt": "ascii", ".svg": "svg", ".png": "png", ".json": "json"}  # fmt: skip


def draw(
    graph: GraphArgument,
    *,
    format: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=f"One of {', '.join(FORMATS)}. By default as the ending of --out says; else ascii on a terminal, and "
            "mermaid in a pipe.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it there.", show_default="standard output"),
    ] = None,
    xray: Annotated[
        int | None,
        typer.Option("--xray", metavar="LEVELS", min=0, help="Draw so many levels of nested graphs open."),
    ] = None,
    conditions: Annotated[
        bool, typer.Option("--conditions", help="Draw routers as nodes of their own.")
    ] = False,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Write this above it.")] = None,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="ID", help="Draw over it what ran in this thread; needs a saver."),
    ] = None,
    checkpointer: CheckpointerOption = None,
    traceback: TracebackOption = False,
) -> None:
    """Draw a graph without running it; with --thread, what ran in a thread over it.

    Exit codes: 0 done, 1 it couldn't be written or the thread not be read, 2 wrong usage, or the graph can't be loaded.
    """
    on_terminal = sys.stdout.isatty()
    with reported(with_traceback=traceback), own_output() as output:
        chosen = _format(format, out, on_terminal=on_terminal)
        if chosen == "png" and out is None and on_terminal:
            raise ConfigError("a PNG isn't for a terminal: name a file with --out, or use a pipe")
        if thread is None and checkpointer is not None:
            raise ConfigError("--checkpointer is where the thread is: name it with --thread")
        with catch_warnings():
            simplefilter("ignore", GraphCheckWarning)  # `juncture check` tells of these
            compiled, states = _found(graph, thread, checkpointer)
        try:
            drawn = compiled.draw(chosen, xray=xray or 0, conditions=conditions, run=states, title=title)
        except ImportError as error:
            raise ConfigError(str(error)) from error
        content = drawn if isinstance(drawn, bytes) else drawn.encode()
        if out is None:
            output.content(content)
        else:
            out.write_bytes(content)
            say(f"wrote {out}")


def _found(
    spec: str, thread: str | None, checkpointer: str | None
) -> tuple[CompiledGraph[Any, Any, Any, Any], list[StateSnapshot] | None]:
    """The graph, and the states of the thread that was named."""
    if thread is None:
        found = asyncio.run(find_graph(spec).graph())
        return (found.compile() if isinstance(found, StateGraph) else found), None

    async def read(ready: Kept, _: Typed) -> tuple[Kept, list[StateSnapshot]]:
        await known_thread(ready, thread)
        return ready, [state async for state in ready.aget_state_history(thread, values=False)]

    return look(spec, checkpointer, thread, read)


def _format(given: str | None, out: Path | None, *, on_terminal: bool) -> Format:
    if given is None and out is not None:
        given = _ENDINGS.get(out.suffix.lower())
        if given is None:
            raise ConfigError(
                f"--out {out}: no format has this ending. Say which with --format {'|'.join(FORMATS)}"
            )
    if given is None:
        given = "ascii" if on_terminal else "mermaid"
    if given not in FORMATS:
        raise ConfigError(f"--format {given}: there is no such format. There are {', '.join(FORMATS)}")
    return cast("Format", given)
