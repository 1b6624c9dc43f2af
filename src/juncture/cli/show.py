"""`juncture show`: one state of a thread, with everything that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, cast

import typer

from juncture.cli.kept import Kept, known_state, look
from juncture.cli.options import (
    CheckpointerOption,
    GraphArgument,
    JsonOption,
    NamespaceOption,
    OneThreadOption,
    TracebackOption,
)
from juncture.cli.page import page
from juncture.cli.records import state_record
from juncture.cli.reporting import reported
from juncture.cli.typed import Typed
from juncture.errors import ConfigError
from juncture.types import StateSnapshot


def show(
    graph: GraphArgument,
    *,
    thread: OneThreadOption,
    checkpointer: CheckpointerOption = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The checkpoint; by default the newest.", show_default=False),
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Only the value of this key.")] = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    traceback: TracebackOption = False,
) -> None:
    """Show a state of a thread: its values, what is due next, what it waits for; nested graphs beneath their tasks.

    Exit codes: 0 done, 1 it couldn't be read, 2 wrong usage, or no such thread, checkpoint or key.
    """
    with reported(with_traceback=traceback), page(as_json=as_json) as shown:

        async def work(ready: Kept, _: Typed) -> None:
            state = await known_state(ready, thread, checkpoint, namespace)
            value = None if key is None else _value_of(state, key)
            if shown.console is None:
                shown.line(state_record(state) if key is None else value)
                return
            from juncture.cli.drawing import draw_state, pretty

            if key is None:
                draw_state(shown.console, state)
            else:
                shown.console.print(pretty(value))

        look(graph, checkpointer, thread, work)


def _value_of(state: StateSnapshot, key: str) -> Any:
    values = cast("Any", state.values)
    if not isinstance(values, Mapping):
        raise ConfigError(f"--key {key}: the state is one value, and has no keys")
    named = cast("Mapping[str, Any]", values)
    if key not in named:
        near = get_close_matches(key, [str(known) for known in named], n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise ConfigError(
            f"--key {key}: the state has no value of that name here. {hint}It has: {', '.join(map(str, named)) or 'none'}"
        )
    return named[key]
