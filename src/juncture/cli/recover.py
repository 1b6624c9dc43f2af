"""`juncture recover`: finds threads whose run died with its process, and runs them on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from juncture.cli.ctrl_c import CtrlC
from juncture.cli.exits import ExitCode
from juncture.cli.inputs import as_object, read_options
from juncture.cli.kept import Kept, kept_graph
from juncture.cli.lines import ended_record
from juncture.cli.loading import Found, find_graph
from juncture.cli.options import (
    CheckpointerOption,
    ConfigOption,
    ContextOption,
    GraphArgument,
    JsonOption,
    TracebackOption,
)
from juncture.cli.page import Page, page
from juncture.cli.reporting import failed_text, print_traceback, question_text, reported
from juncture.cli.running import result_of
from juncture.cli.saying import say, visible
from juncture.cli.typed import Typed
from juncture.errors import ConfigError, SerializationError
from juncture.graph.config import read_config
from juncture.persistence.asking import aperformed
from juncture.persistence.upkeep import dead_leases
from juncture.types import RunResult


@dataclass(slots=True)
class _Recovery:
    """What is asked for, and how far it has come."""

    shown: Page
    typed: Typed
    options: Mapping[str, Any]
    """As for `invoke`."""
    with_traceback: bool
    failed: int = 0
    stopped: bool = False


def recover(
    graph: GraphArgument,
    *,
    thread: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only this thread; may be given several times.", show_default=False),
    ] = None,
    checkpointer: CheckpointerOption = None,
    config: ConfigOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
    traceback: TracebackOption = False,
) -> None:
    """Find threads whose run died with its process, and run them on to their end or next pause, one after the other.

    Several processes may do this at once: each thread is taken by one.

    Exit codes: 0 done, 1 a run failed, or it couldn't be done, 2 wrong usage (nothing was run), 130 stopped by Ctrl-C.
    """
    with reported(with_traceback=traceback):
        config_given, context_given = read_options([("--config", config), ("--context", context)])
        options = {
            name: value
            for name, value in (
                ("config", as_object("--config", config_given)),
                ("context", as_object("--context", context_given)),
            )
            if value is not None
        }
        if read_config(options.get("config"), None).thread_id is not None:
            raise ConfigError(
                "--config names a thread, and recover finds them by itself: --thread ID for some of them"
            )
        with page(as_json=as_json) as shown:
            found = find_graph(graph)
            recovery = _Recovery(shown, Typed(found.spec, checkpointer), options, traceback)
            with CtrlC() as ctrl_c:
                asyncio.run(_recover(found, recovery, None if thread is None else list(thread), ctrl_c))
        if recovery.stopped:
            raise typer.Exit(ExitCode.CANCELLED)
        if recovery.failed:
            raise typer.Exit(ExitCode.FAILED)


async def _recover(found: Found, recovery: _Recovery, wanted: Sequence[str] | None, ctrl_c: CtrlC) -> None:
    async with kept_graph(found, recovery.typed) as graph:
        assert graph.checkpointer is not None, "a graph without one was refused"
        dead = sorted(lease.thread_id for lease in await aperformed(dead_leases(graph.checkpointer)))
        if wanted is not None:
            for each in wanted:
                if each not in dead:
                    say(f"thread {each!r}: no run of it has died")
            dead = [each for each in dead if each in wanted]
        elif not dead:
            say("no run has died")
        ctrl_c.cancels_this_task()
        for place, thread_id in enumerate(dead):
            try:
                done = await _one(graph, thread_id, recovery)
            except asyncio.CancelledError:
                _tell_stopped(recovery, thread_id, len(dead) - place - 1)
                return
            if done is not None and not _show(recovery, thread_id, *done):
                return


async def _one(
    graph: Kept, thread_id: str, recovery: _Recovery
) -> tuple[RunResult | None, BaseException | None] | None:
    """What became of a thread: its result and its error; None if somebody else was faster."""
    try:
        done = await graph.arecover([thread_id], **recovery.options)
    except (SerializationError, SystemExit) as error:
        # It can't be read, or a node wants to end the program: that thread has failed, and the others haven't.
        return None, error
    return (done[0].result, done[0].error) if done else None


def _tell_stopped(recovery: _Recovery, thread_id: str, left: int) -> None:
    recovery.stopped = True
    say(
        f"stopped in thread {thread_id!r}: what was committed stays. To go on: "
        f"{recovery.typed.of(thread_id).command('run')}"
    )
    if left:
        others = "1 thread wasn't" if left == 1 else f"{left} threads weren't"
        say(f"{others} begun. To go on with the rest: {recovery.typed.command('recover')}")


def _show(recovery: _Recovery, thread_id: str, result: RunResult | None, error: BaseException | None) -> bool:
    """Shows what became of a thread; False if nobody reads any more."""
    typed = recovery.typed.of(thread_id)
    if error is not None:
        recovery.failed += 1
        result = result_of(error, "")
        say(f"error: thread {thread_id!r}: {failed_text(error)}")
        say(f"  To go on: {typed.command('run')}")
        if recovery.with_traceback:
            print_traceback(error)
    elif result is not None and result.interrupts:
        asks = any(each.when == "inside" for each in result.interrupts)
        for each in result.interrupts:
            say(f"thread {thread_id!r}: {question_text(each)}")
        say(f"To {'answer' if asks else 'go on'}: {typed.command('resume' if asks else 'run')}")
    if recovery.shown.console is not None:
        told = "had nothing to run; it is free again" if result is None else result.status
        recovery.shown.console.print(f"thread {visible(thread_id)}: {told}", soft_wrap=True)
        return True
    if result is None:
        return recovery.shown.line({"status": None, "thread_id": thread_id})
    return recovery.shown.line(ended_record(result, thread_id, error))
