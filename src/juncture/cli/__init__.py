"""The command line: `juncture run`, `juncture check`.

* A command is a module of its own, named after it, with one function that takes what was typed; `app` lists them.
* Whoever runs a command reads three things: standard output (what was asked for, and nothing else), standard error
  (everything that is said about it), and the exit code (`exits`). None of them changes its meaning.
* A fault of what was typed, or of a user's file, is a `ConfigError` that says what to do; `reporting` shows it in a few
  lines. A traceback is shown only when asked for.
* Importing this module needs nothing but the core: typer and rich, the extra `cli`, are imported by `main`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line with the given arguments, by default those of the process.

    Returns:
        The exit code if the extra ``cli`` isn't installed, or if Ctrl-C came before a command had begun.

    Raises:
        SystemExit: Otherwise; with the exit code.
    """
    try:
        from juncture.cli.app import app

        app(arguments, prog_name="juncture")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        print(  # noqa: T201 - typer, which would print it, isn't there
            f"error: the command line needs the package {error.name!r}, which isn't installed. "
            "Install the extra: pip install 'juncture[cli]'",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
