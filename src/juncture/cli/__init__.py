"""The command line: `juncture run`, `check`, and commands for the threads that were kept.

* A command is a module of its own, named after it, with one function that takes what was typed; `app` lists them.
* Whoever runs a command reads three things: standard output (what was asked for, and nothing else), standard error
  (everything that is said about it), and the exit code (`exits`). None of them changes its meaning.
* A fault of what was typed, or of a user's file, is a `ConfigError` that says what to do; `reporting` shows it in a few
  lines. A traceback is shown only when asked for.
* Importing this module needs nothing but the core: typer and rich, the extra `cli`, are imported by `main`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line with the given arguments, by default those of the process.

    Returns:
        The exit code if the extra ``cli`` isn't installed, or if Ctrl-C came before a command had begun.

    Raises:
        SystemExit: Otherwise; with the exit code.
    """
    for name in ("stdout", "stderr"):  # closed by whoever started it: what is said there goes nowhere
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
    missing = [package for package in ("typer", "rich") if find_spec(package) is None]
    if missing:
        print(  # noqa: T201 - what else would print it isn't there
            f"error: the command line needs {' and '.join(missing)}, not installed here: pip install 'juncture[cli]'",
            file=sys.stderr,
        )
        return 2
    try:
        from juncture.cli.app import app

        app(arguments, prog_name="juncture")
    except KeyboardInterrupt:
        return 130
    return 0
