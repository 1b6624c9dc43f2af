"""`juncture run`: runs a graph, shows what happens, and says by its exit code how it ended."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Annotated, cast

import typer

from juncture.cli.inputs import as_object, read_options
from juncture.cli.lines import Lines, own_output
from juncture.cli.loading import find_graph
from juncture.cli.options import (
    CheckpointerOption,
    ConfigOption,
    ContextOption,
    GraphArgument,
    StreamOption,
    ThreadOption,
    TracebackOption,
)
from juncture.cli.reporting import conclude, reported
from juncture.cli.running import Ask, Ended
from juncture.cli.running import run as run_graph
from juncture.graph.config import read_modes
from juncture.types import StreamMode


def run(
    graph: GraphArgument,
    *,
    input: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="The input: JSON, @file, or - for standard input. Without it, the thread goes on.",
        ),
    ] = None,
    thread: ThreadOption = None,
    checkpointer: CheckpointerOption = None,
    stream: StreamOption = None,
    config: ConfigOption = None,
    context: ContextOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print lines of JSON on a terminal as well.")
    ] = False,
    traceback: TracebackOption = False,
) -> None:
    """Run a graph.

    On a terminal it shows what is running, and the state at the end. In a pipe it prints one JSON object a line: every
    part of the stream, and last how it ended.

    Exit codes: 0 done, 1 the graph failed, 2 wrong usage (nothing was run), 3 paused, 4 limit reached, 5 drained,
    130 stopped by Ctrl-C.
    """
    with reported(with_traceback=traceback):
        modes = read_modes(cast("list[StreamMode]", list(dict.fromkeys(stream or ()))))
        given, config_given, context_given = read_options(
            [("--input", input), ("--config", config), ("--context", context)]
        )
        named = as_object("--config", config_given), as_object("--context", context_given)
        on_terminal = sys.stdout.isatty() and not as_json
        if on_terminal:
            ask = Ask(find_graph(graph), given, *named, thread, checkpointer)
            conclude(_on_terminal(ask, modes), with_traceback=traceback)
        with own_output() as output:
            ask = Ask(find_graph(graph), given, *named, thread, checkpointer)
            ended = run_graph(ask, Lines(output, modes))
        conclude(ended, with_traceback=traceback)


def _on_terminal(ask: Ask, modes: tuple[StreamMode, ...]) -> Ended:
    from juncture.cli.terminal import Terminal

    with closing(Terminal(modes)) as display:
        return run_graph(ask, display)
