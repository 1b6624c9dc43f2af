"""`juncture prune`: removes old states of threads."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final

import typer

from juncture.cli.deleting import confirm
from juncture.cli.kept import Kept, known_thread, look
from juncture.cli.options import CheckpointerOption, GraphArgument, JsonOption, TracebackOption, YesOption
from juncture.cli.page import page
from juncture.cli.reporting import reported
from juncture.cli.typed import Typed
from juncture.errors import ConfigError

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw])", re.ASCII)


def prune(
    graph: GraphArgument,
    *,
    thread: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Only this thread; by default all that aren't being run.", show_default=False
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Keep the newest so many of each.", show_default=False),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Keep what is younger: 30d, 12h, 90m, 45s or 2w.", show_default=False
        ),
    ] = None,
    checkpointer: CheckpointerOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
    traceback: TracebackOption = False,
) -> None:
    """Remove old checkpoints. The newest of a thread always stays, and what stays can be gone on with.

    Exit codes: 0 done, 1 it couldn't be done, 2 wrong usage, no such thread, or it is in use, 130 the answer was no.
    """
    with reported(with_traceback=traceback), page(as_json=as_json) as shown:
        if keep is None and older_than is None:
            raise ConfigError("prune needs to know what to keep: --keep N, --older-than AGE, or both")
        age = None if older_than is None else _age(older_than)

        async def work(ready: Kept, _: Typed) -> None:
            if thread is not None:
                await known_thread(ready, thread)
            of = "of all threads" if thread is None else f"of thread {thread!r}"
            confirm(f"Remove the checkpoints {of} {_told(keep, older_than)}?", yes=yes)
            removed = await ready.aprune(thread, keep=keep, older_than=age)
            if shown.console is None:
                shown.line({"removed": removed})
            else:
                shown.console.print(f"removed {removed} checkpoint{'' if removed == 1 else 's'}")

        look(graph, checkpointer, thread, work)


def _told(keep: int | None, older_than: str | None) -> str:
    """Which checkpoints are removed."""
    parts = [
        f"older than {older_than}" if older_than is not None else "",
        f"before the newest {keep}" if keep is not None else "",
    ]
    return " and ".join(part for part in parts if part)


def _age(text: str) -> timedelta:
    """How old something is.

    Raises:
        ConfigError: It isn't a number and a unit.
    """
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"--older-than {text!r} isn't a number and a unit (s, m, h, d, w), such as 30d")
    try:
        return timedelta(seconds=float(found[1]) * _UNITS[found[2]])
    except OverflowError:
        raise ConfigError(f"--older-than {text!r} is longer than time can be told") from None
