"""Where a command shows what it found: lines of JSON in a pipe, something to read on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from juncture.cli.lines import Output, own_output

if TYPE_CHECKING:
    from rich.console import Console


class Page:
    """Standard output, for one command."""

    def __init__(self, output: Output, console: Console | None) -> None:
        """Takes standard output, and what draws on it if it is a terminal."""
        self._output = output
        self.console = console
        """None in a pipe: what is shown is lines of JSON."""

    def line(self, value: Any) -> bool:
        """Writes a value as a line of JSON; False if nobody reads any more."""
        return self._output.line(value)


@contextmanager
def page(*, as_json: bool) -> Generator[Page]:
    """Standard output for the command alone; what user code prints goes to standard error.

    Raises:
        typer.Exit: At the end, if it couldn't be written.
    """
    console: Console | None = None
    if sys.stdout.isatty() and not as_json:
        from juncture.cli.drawing import console_on

        console = console_on(sys.stdout)
    with own_output() as output:
        yield Page(output, console)
