"""One run of a graph, as every command makes it that runs one.

The run is async, whatever the nodes are: async nodes run on the event loop and sync ones on workers, so that Ctrl-C is
heard at once. It cancels the run as `ainvoke` is cancelled: what was committed and saved stays, async nodes are
cancelled, and a running sync node is abandoned. A second Ctrl-C waits for nothing: the process ends there, as if killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Final, NoReturn, Protocol, Self
from uuid import uuid4
from warnings import catch_warnings

from juncture.cli.exits import ExitCode
from juncture.cli.loading import Found, Graph
from juncture.cli.saying import say
from juncture.drivers.place import failure
from juncture.errors import (
    CheckpointNotFoundError,
    ConfigError,
    GraphBuildError,
    InterruptError,
    InvalidUpdateError,
    JunctureError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from juncture.graph.calls import Call, Shape, shaper
from juncture.graph.compiled import CompiledGraph
from juncture.graph.config import read_config
from juncture.savers import Saver, open_saver
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
    with _CtrlC() as ctrl_c:
        try:
            return asyncio.run(_run(ask, display, ctrl_c))
        except asyncio.CancelledError:  # before there was a run that could say how it ended
            raise KeyboardInterrupt from None


class _CtrlC:
    """Hears Ctrl-C during a run: the first cancels the run, the second ends the process.

    Unlike `asyncio.run`, whose second Ctrl-C still waits for whatever refuses to be cancelled. Where somebody else
    listens already, or in another thread than the main one, it does nothing.
    """

    def __init__(self) -> None:
        self._run: asyncio.Task[Any] | None = None
        self._heard = False
        self._hears = False

    def __enter__(self) -> Self:
        free = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._hears = free and current_thread() is main_thread()
        if self._hears:
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._hears:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def cancels_this_task(self) -> None:
        """From now on the first one cancels the task that this is called in."""
        self._run = asyncio.current_task()

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self._run is None:
            raise KeyboardInterrupt
        if self._heard:
            _end_process()
        self._heard = True
        self._run.get_loop().call_soon_threadsafe(self._run.cancel)


def _end_process() -> NoReturn:
    """Ends the process without cleaning up; only the terminal's cursor is shown again."""
    if sys.__stdout__ is not None and sys.__stdout__.isatty():
        os.write(sys.__stdout__.fileno(), b"\x1b[?25h\r\n")
    os.write(2, b"stopped at once\n")
    os._exit(ExitCode.CANCELLED)


async def _run(ask: Ask, display: Display, ctrl_c: _CtrlC) -> Ended:
    ctrl_c.cancels_this_task()
    saver = _open(ask.checkpointer)
    try:
        made = await ask.found.graph()
        with compiled(ask.found.spec, made, saver) as own:
            graph = own if saver is None or own is not made else _kept_by(own, saver, ask)
            return await _follow(graph, ask, display)
    finally:
        if saver is not None:
            saver.close()


def _open(url: str | None) -> Saver | None:
    if url is None:
        return None
    try:
        return open_saver(url)
    except GraphBuildError as error:
        raise ConfigError(f"--checkpointer: {error}") from error


def compiled(spec: str, graph: Graph, saver: Saver | None = None) -> CompiledGraph[Any, Any, Any, Any]:
    """The graph, ready to run: itself if it was compiled, or compiled with the saver.

    Raises:
        ConfigError: It can't be right.
    """
    if isinstance(graph, CompiledGraph):
        return graph
    with catch_warnings(record=True) as warned:  # they would name a line of this function
        try:
            made = graph.compile(saver, name=spec.rpartition(":")[2])
        except GraphBuildError as error:
            raise ConfigError(f"{spec}: the graph can't be built: {error}") from error
    for each in warned:
        say(f"warning: {each.message}")
    return made


def _kept_by(
    graph: CompiledGraph[Any, Any, Any, Any], saver: Saver, ask: Ask
) -> CompiledGraph[Any, Any, Any, Any]:
    """A compiled graph with another saver than its own, and everything else as it was compiled."""
    if not graph.tables.persist:
        raise ConfigError(
            f"{ask.found.spec} was compiled with checkpointer=False, so that it keeps nothing: leave --checkpointer out"
        )
    other = copy(graph)
    other.checkpointer = saver
    return other


async def _follow(graph: CompiledGraph[Any, Any, Any, Any], ask: Ask, display: Display) -> Ended:
    begun = _begun(graph, ask)
    call = Call(
        graph,
        ask.given,
        ask.config,
        context=ask.context,
        thread_id=begun.thread_id,
        output_keys=None,
        interrupt_before=None,
        interrupt_after=None,
    )
    shaped = shaper(Shape(list(display.modes), subgraphs=True, version="parts"))
    driver = call.async_driver(display.modes, subgraphs=True)
    display.begin(begun)
    try:
        async with aclosing(driver.drive()) as parts:
            async for part in parts:
                if not display.show(shaped(part)):
                    _cancel_this()
    except (Exception, asyncio.CancelledError, SystemExit) as error:
        call.explain(error, driver)
        if is_callers_fault(error):
            raise
        ended = Ended(begun, _result_of(error, call.run_id), error)
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


def _result_of(error: BaseException, run_id: str) -> RunResult:
    """The run's result up to an exception; without values on one that can't carry it."""
    place = failure(error)
    result = place.result if place is not None else None
    if result is None:
        result = RunResult({}, status="failed", run_id=run_id)
    if isinstance(error, SystemExit):  # a node that wants to end the program has only failed
        result.status = "failed"
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
