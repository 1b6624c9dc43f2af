"""`juncture history`: the states that a thread went through."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any, Final

import typer

from juncture.cli.kept import Kept, at, known_thread, look
from juncture.cli.options import (
    CheckpointerOption,
    GraphArgument,
    JsonOption,
    LimitOption,
    NamespaceOption,
    OneThreadOption,
    TracebackOption,
)
from juncture.cli.page import page
from juncture.cli.records import step_record
from juncture.cli.reporting import reported
from juncture.cli.typed import Typed
from juncture.errors import ConfigError
from juncture.types import StateSnapshot

_TEXTS: Final = ("source", "run_id")
"""What is text in every state, whatever it looks like."""


def history(
    graph: GraphArgument,
    *,
    thread: OneThreadOption,
    checkpointer: CheckpointerOption = None,
    limit: LimitOption = None,
    filter: Annotated[  # noqa: A002 - the option's name comes from it
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="NAME=VALUE",
            help="Only states whose metadata has this: source=input, step=3, or what the run's config had under "
            "metadata. The value is JSON, or text. May be given several times.",
            show_default=False,
        ),
    ] = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    traceback: TracebackOption = False,
) -> None:
    """List the states of a thread, the newest first, without their values.

    Exit codes: 0 done, 1 it couldn't be read, 2 wrong usage, or no such thread.
    """
    with reported(with_traceback=traceback), page(as_json=as_json) as shown:
        entries = _entries(filter or ())

        async def work(ready: Kept, _: Typed) -> None:
            await known_thread(ready, thread)
            place = at(thread, namespace=namespace)
            rows: list[StateSnapshot] = []
            listed = ready.aget_state_history(place, filter=entries, limit=limit, values=False)
            async with aclosing(listed) as states:
                async for state in states:
                    if shown.console is not None:
                        rows.append(state)
                    elif not shown.line(step_record(state)):
                        return
            if shown.console is not None:
                from juncture.cli.drawing import history_table

                shown.console.print(history_table(rows) if rows else "no such state")

        look(graph, checkpointer, thread, work)


def _entries(filters: Sequence[str]) -> dict[str, Any]:
    """What the metadata must have.

    Raises:
        ConfigError: One isn't a name and a value, or a name is given twice.
    """
    found: dict[str, Any] = {}
    for each in filters:
        name, sign, text = each.partition("=")
        if not sign or not name:
            raise ConfigError(f"--filter {each!r} isn't NAME=VALUE, such as source=input")
        if name in found:
            raise ConfigError(f"--filter names {name!r} twice, and it can't have two values")
        found[name] = text if name in _TEXTS else _json_or_text(text)
    return found


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
