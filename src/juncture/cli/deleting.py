"""Before something is removed for good: whether whoever typed it meant it."""

from __future__ import annotations

import sys

import typer

from juncture.cli.asking import ask
from juncture.cli.exits import ExitCode
from juncture.cli.saying import say, visible
from juncture.errors import ConfigError


def confirm(question: str, *, yes: bool) -> None:
    """Asks on a terminal, unless it was answered by an option.

    Raises:
        typer.Exit: The answer was no. With the exit code `ExitCode.CANCELLED`.
        ConfigError: Nobody can be asked.
    """
    if yes:
        return
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(f"{question} Nobody can be asked here: say it with --yes. Nothing was removed")
    if (ask(f"{visible(question)} [y/N] ", sys.stderr) or "").lower() not in ("y", "yes"):
        say("nothing was removed")
        raise typer.Exit(ExitCode.CANCELLED)
