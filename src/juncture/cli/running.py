"""One run of a graph, as every command makes it that runs one.

The run is async, whatever the nodes are: async nodes run on the event loop and sync ones on workers, so that Ctrl-C is
heard at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from uuid import uuid4

from juncture.cli.ctrl_c import CtrlC
from juncture.cli.loading import Found
from juncture.cli.opening import ready_graph
from juncture.cli.typed import Typed
from juncture.drivers.place import failure
from juncture.errors import (
    CheckpointNotFoundError,
    ConfigError,
    InterruptError,
    InvalidUpdateError,
    JunctureError,
    PendingInterruptError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from juncture.graph.calls import Call
from juncture.graph.compiled import CompiledGraph
from juncture.graph.config import read_config
from juncture.graph.options import Shape, shaper
from juncture.savers import Saver
from juncture.steering import RunControl
from juncture.types import START, RunResult, StreamMode, StreamPart

_REFUSALS: Final = (
    ConfigError,
    InterruptError,
    ThreadBusyError,
    ThreadNotFoundError,
    CheckpointNotFoundError,
)
"""What is raised, outside of any node, where a run can't begin."""


@dataclass(slots=True)
class Ask:
    """What is to be run."""

    found: Found
    given: Any
    """The input; None to go on."""
    config: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    thread_id: str | None = None
    checkpointer: str | None = None
    """The URL of a saver. It goes before the one that a compiled graph has."""
    control: RunControl = field(default_factory=RunControl)
    """What Ctrl-C steers the run by."""


@dataclass(slots=True)
class Begun:
    """A run that is about to begin."""

    spec: str
    thread_id: str | None
    made_up: bool
    """The thread was named for this run, because nobody had named one."""
    saver: Saver | None
    checkpointer: str | None


@dataclass(slots=True)
class Ended:
    """How a run ended."""

    begun: Begun
    result: RunResult
    error: BaseException | None = None
    """What ended it, unless it was done, paused or drained."""


class Display(Protocol):
    """Shows a run to whoever started it."""

    modes: tuple[StreamMode, ...]
    """What it wants to be shown."""

    def begin(self, begun: Begun) -> None:
        """The run begins."""
        ...

    def show(self, part: StreamPart) -> bool:
        """Something happened; False if nobody can be told any more, so that the run is stopped."""
        ...

    def end(self, ended: Ended) -> None:
        """The run has ended. Not called where it couldn't begin."""
        ...


def run(ask: Ask, display: Display) -> Ended:
    """Runs a graph, and shows it.

    Returns:
        How it ended, also where the graph failed, its limit was reached, or Ctrl-C stopped it.

    Raises:
        ConfigError: It couldn't be run. So do other errors of Juncture that come before the first superstep.
        KeyboardInterrupt: Ctrl-C, a second time or before the run had begun.
    """
    with CtrlC(ask.control) as ctrl_c:
        try:
            return asyncio.run(_run(ask, display, ctrl_c))
        except asyncio.CancelledError:  # before there was a run that could say how it ended
            raise KeyboardInterrupt from None


async def _run(ask: Ask, display: Display, ctrl_c: CtrlC) -> Ended:
    ctrl_c.cancels_this_task()
    async with ready_graph(ask.found, ask.checkpointer) as graph:
        return await follow(graph, ask, display)


async def follow(graph: CompiledGraph[Any, Any, Any, Any], ask: Ask, display: Display) -> Ended:
    """Runs a graph that is ready, and shows it; as `run`."""
    begun = _begun(graph, ask)
    call = Call(
        graph,
        ask.given,
        ask.config,
        context=ask.context,
        thread_id=begun.thread_id,
        output_keys=None,
        control=ask.control,
    )
    shaped = shaper(Shape(list(display.modes), subgraphs=True, version="parts"))
    driver = call.async_driver(display.modes, subgraphs=True)
    display.begin(begun)
    try:
        async with aclosing(driver.drive()) as parts:
            async for part in parts:
                if not display.show(shaped(part)):
                    _cancel_this()
    except KeyboardInterrupt:  # a second Ctrl-C waits for nothing
        raise
    except (
        BaseException
    ) as error:  # a node may raise whatever it likes, and how the run ended is shown all the same
        call.explain(error, driver)
        if isinstance(error, PendingInterruptError):
            error.add_note(
                f"To answer: {Typed(begun.spec, begun.checkpointer, begun.thread_id).command('resume')}"
            )
        if is_callers_fault(error):
            raise
        ended = Ended(begun, result_of(error, call.run_id), error)
    else:
        ended = Ended(begun, call.result(driver))
    display.end(ended)
    return ended


def is_callers_fault(error: BaseException) -> bool:
    """Whether an error says that nothing was run because of what the caller gave."""
    if not isinstance(error, JunctureError):
        return False
    if isinstance(error, InvalidUpdateError):
        return error.node == START
    return isinstance(error, _REFUSALS) and error.node in (None, START)


def result_of(error: BaseException, run_id: str) -> RunResult:
    """The run's result up to an exception; without values on one that can't carry it."""
    place = failure(error)
    result = place.result if place is not None else None
    if result is None:
        result = RunResult({}, status="failed", run_id=run_id)
    if result.status == "cancelled" and not isinstance(error, asyncio.CancelledError):
        result.status = "failed"  # a node that raised what ends programs has only failed
    return result


def _cancel_this() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def _begun(graph: CompiledGraph[Any, Any, Any, Any], ask: Ask) -> Begun:
    thread_id = read_config(ask.config, ask.thread_id, strict=graph.tables.strict).thread_id
    saver = graph.checkpointer
    if saver is None and ask.thread_id is not None:
        raise ConfigError(
            f"--thread {ask.thread_id}: {ask.found.spec} has no saver, so there are no threads. Give one: "
            "--checkpointer URL"
        )
    if ask.given is None and (saver is None or thread_id is None):
        why = "the graph has no saver" if saver is None else "no thread is named (--thread ID)"
        raise ConfigError(
            f"--input is missing, and there is nothing to go on with: {why}. An empty input is --input '{{}}'"
        )
    made_up = saver is not None and thread_id is None
    if made_up:
        thread_id = uuid4().hex[:12]
    return Begun(ask.found.spec, thread_id, made_up, saver, ask.checkpointer)
