"""`juncture resume`: answers what a thread asks, and runs it on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, cast

import typer

from juncture.cli.answers import asked, fitting, read_answers
from juncture.cli.ctrl_c import CtrlC
from juncture.cli.inputs import as_object, read_options
from juncture.cli.kept import Kept, kept_graph, known_state
from juncture.cli.lines import Lines, own_output
from juncture.cli.loading import find_graph
from juncture.cli.options import (
    CheckpointerOption,
    ConfigOption,
    ContextOption,
    GraphArgument,
    JsonOption,
    OneThreadOption,
    StreamOption,
    TracebackOption,
)
from juncture.cli.records import id_of
from juncture.cli.reporting import conclude, reported
from juncture.cli.running import Ask, Begun, Display, Ended, follow
from juncture.cli.typed import Typed
from juncture.errors import NothingToResumeError
from juncture.graph.config import read_modes
from juncture.steering import RunControl
from juncture.types import Answers, CheckpointRef, Command, Interrupt, RunResult, StateSnapshot, StreamMode


@dataclass(slots=True)
class _Resume:
    """What is to be resumed."""

    graph: str
    thread_id: str
    checkpointer: str | None
    answers: Mapping[str, Any]
    """As they were typed."""
    config: Mapping[str, Any] | None
    context: Mapping[str, Any] | None
    choose: Callable[[Sequence[Interrupt]], Answers] | None
    """Asks somebody; None if there is nobody."""


def resume(
    graph: GraphArgument,
    *,
    thread: OneThreadOption,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID=JSON",
            help="A question's id or key, and its answer: JSON, @file, or - for standard input. =JSON answers the only "
            "open question. May be given several times.",
            show_default=False,
        ),
    ] = None,
    checkpointer: CheckpointerOption = None,
    stream: StreamOption = None,
    config: ConfigOption = None,
    context: ContextOption = None,
    as_json: JsonOption = False,
    traceback: TracebackOption = False,
) -> None:
    """Answer the open questions of a thread, and run it on.

    Without --answer it shows them and asks, on a terminal; elsewhere it only lists them. A thread that was paused
    before or after a node, and asks nothing, goes on.

    Exit codes: as `juncture run`; 3 also where nothing was answered, so that nothing was run.
    """
    with reported(with_traceback=traceback):
        modes = read_modes(cast("list[StreamMode]", list(dict.fromkeys(stream or ()))))
        answers = read_answers(answer or ())
        config_given, context_given = read_options([("--config", config), ("--context", context)])
        on_terminal = sys.stdout.isatty() and not as_json
        wanted = _Resume(
            graph,
            thread,
            checkpointer,
            answers,
            as_object("--config", config_given),
            as_object("--context", context_given),
            asked if on_terminal and sys.stdin is not None and sys.stdin.isatty() else None,
        )
        if on_terminal:
            _on_terminal(wanted, modes, with_traceback=traceback)
        with own_output() as output:
            ended = _run(wanted, Lines(output, modes))
        conclude(ended, with_traceback=traceback)


def _on_terminal(wanted: _Resume, modes: tuple[StreamMode, ...], *, with_traceback: bool) -> NoReturn:
    from juncture.cli.terminal import Terminal

    with closing(Terminal(modes)) as display:
        ended = _run(wanted, display)
    conclude(ended, with_traceback=with_traceback)


def _run(wanted: _Resume, display: Display) -> Ended:
    control = RunControl()
    with CtrlC(control) as ctrl_c:
        try:
            return asyncio.run(_resume(wanted, display, ctrl_c, control))
        except asyncio.CancelledError:  # before there was a run that could say how it ended
            raise KeyboardInterrupt from None


async def _resume(wanted: _Resume, display: Display, ctrl_c: CtrlC, control: RunControl) -> Ended:
    found = find_graph(wanted.graph)
    typed = Typed(found.spec, wanted.checkpointer, wanted.thread_id)
    async with kept_graph(found, typed) as graph:
        state = await known_state(graph, wanted.thread_id)
        questions = [each for each in state.interrupts if each.when == "inside"]
        if not questions and (wanted.answers or not state.interrupts):
            raise _nothing(state, typed)
        given: Any = None
        if questions:
            answers = fitting(wanted.answers, questions)
            if not wanted.answers and wanted.choose is not None:
                answers = wanted.choose(questions)
            if not answers:
                return _left_open(graph, state, typed, display)
            answered: Command[Any] = Command(resume=answers)
            given = answered
        ask = Ask(found, given, wanted.config, wanted.context, wanted.thread_id, wanted.checkpointer, control)
        ctrl_c.cancels_this_task()
        return await follow(graph, ask, display)


def _nothing(state: StateSnapshot, typed: Typed) -> NothingToResumeError:
    error = NothingToResumeError(f"thread {typed.thread_id!r} asks nothing, so there is nothing to resume")
    goes_on = "To go on" if state.next else "It has finished. To begin anew"
    more = () if state.next else ("--input", "JSON")
    error.add_note(f"{goes_on}: {typed.command('run', *more)}")
    return error


def _left_open(graph: Kept, state: StateSnapshot, typed: Typed, display: Display) -> Ended:
    """The end of a command that ran nothing, because nothing was answered."""
    thread_id = typed.thread_id or ""
    rooted = graph.tables.gives is not None
    result = RunResult(
        {} if rooted else state.values,
        status="interrupted",
        run_id=str((state.metadata or {}).get("run_id", "")),
        interrupts=state.interrupts,
        checkpoint=CheckpointRef(thread_id, (), id_of(state.config) or ""),
    )
    if rooted:
        result.value = state.values
    ended = Ended(
        Begun(
            typed.spec, thread_id, made_up=False, saver=graph.checkpointer, checkpointer=typed.checkpointer
        ),
        result,
    )
    display.end(ended)
    return ended
