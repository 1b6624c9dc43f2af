"""The arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

GraphArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="FILE:GRAPH",
        help="A Python file or a dotted module, and in it a graph, or a function that makes one. "
        "Without :GRAPH, the only graph in it.",
        show_default=False,
    ),
]
ThreadOption: TypeAlias = Annotated[
    str | None, typer.Option("--thread", metavar="ID", help="The thread to run in; needs a saver.")
]
CheckpointerOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Where threads are kept, instead of the graph's own saver."),
]
StreamOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--stream",
        metavar="MODE",
        help="What to show while it runs; may be given several times. By default updates and custom in a pipe, "
        "custom on a terminal.",
        show_default=False,
    ),
]
ConfigOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="JSON", help='The config, such as {"recursion_limit": 50}; also @file or -.'),
]
ContextOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="JSON", help="What nodes get as runtime.context; also @file or -.")
]
TracebackOption: TypeAlias = Annotated[
    bool, typer.Option("--traceback", help="Show the traceback of an error.")
]
OneThreadOption: TypeAlias = Annotated[
    str, typer.Option("--thread", metavar="ID", help="The thread.", show_default=False)
]
NamespaceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NS", help="A nested graph's states, by the namespace that is shown with them."),
]
LimitOption: TypeAlias = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.", show_default="all")
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print lines of JSON on a terminal as well.")
]
YesOption: TypeAlias = Annotated[
    bool, typer.Option("--yes", help="Don't ask; needed where nobody can be asked.")
]
