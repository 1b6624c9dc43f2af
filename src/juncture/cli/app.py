"""The commands, put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from juncture.cli.archive import archive
from juncture.cli.check import check
from juncture.cli.delete import delete
from juncture.cli.diff import diff
from juncture.cli.draw import draw
from juncture.cli.fork import fork
from juncture.cli.history import history
from juncture.cli.prune import prune
from juncture.cli.recover import recover
from juncture.cli.resume import resume
from juncture.cli.run import run
from juncture.cli.show import show
from juncture.cli.threads import threads

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # what goes wrong is `reporting`'s
    rich_markup_mode=None,  # help and usage errors are plain text, the same in a pipe
)
for command in (
    run,
    resume,
    check,
    draw,
    threads,
    history,
    show,
    diff,
    fork,
    prune,
    archive,
    delete,
    recover,
):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"juncture {version('juncture')}")
        raise typer.Exit


@app.callback()
def juncture(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run, check and draw graphs, and look after their threads."""
