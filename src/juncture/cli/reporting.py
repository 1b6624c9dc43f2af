"""What went wrong and how to go on: a few lines on standard error, without a traceback, and the exit code."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

import typer

from juncture.cli.exits import EXIT_OF, ExitCode
from juncture.cli.frames import place_of
from juncture.cli.running import Begun, Ended, is_callers_fault
from juncture.cli.saying import say
from juncture.cli.shown import described_value, message_of
from juncture.cli.typed import Typed
from juncture.drivers.place import failure
from juncture.errors import JunctureError, place_note
from juncture.savers import InMemorySaver
from juncture.types import Interrupt

ASK_FOR_MORE = "The whole traceback: --traceback"


@contextmanager
def reported(*, with_traceback: bool) -> Generator[None]:
    """Turns what goes wrong in a command into lines on standard error and an exit code.

    Raises:
        typer.Exit: With the code.
    """
    try:
        yield
    except KeyboardInterrupt:
        say("stopped")
        raise typer.Exit(ExitCode.CANCELLED) from None
    except (typer.Exit, SystemExit):
        raise
    except BaseException as error:  # a node may raise whatever it likes
        usage = is_callers_fault(error)
        say(f"error: {_with_advice(error)}")
        if with_traceback:
            print_traceback(error)
        elif not usage:
            say(f"  {ASK_FOR_MORE}")
        raise typer.Exit(ExitCode.USAGE if usage else ExitCode.FAILED) from error


def announce(begun: Begun) -> None:
    """Says which thread was made, so that its name is known however the run ends."""
    if begun.made_up:
        life = (
            f"to go on in it: {_command(begun)}"
            if outlives(begun)
            else "in memory: it ends with this command"
        )
        say(f"thread: {begun.thread_id} ({life})")


def conclude(ended: Ended, *, with_traceback: bool) -> NoReturn:
    """Says why a run ended, unless it was done, and how to go on.

    Raises:
        typer.Exit: With the exit code.
    """
    result, error = ended.result, ended.error
    match result.status:
        case "completed":
            pass
        case "interrupted":
            say(_paused(ended))
        case "cancelled":
            say(f"stopped{_what_stays(ended)}. {_how_to_go_on(ended)}")
        case "drained" | "budget":
            say(f"ended early ({result.status}){_what_stays(ended)}. {_how_to_go_on(ended)}")
        case "failed" | "limit":
            assert error is not None, "a run that ends so raises"
            say(f"error: {failed_text(error)}")
            say(f"  {_how_to_go_on(ended)}")
            if with_traceback:
                print_traceback(error)
            elif result.status == "failed":
                say(f"  {ASK_FOR_MORE}")
    raise typer.Exit(EXIT_OF[result.status])


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────


def failed_text(error: BaseException) -> str:
    """What failed and where, with the notes on it."""
    place = failure(error)
    lines = [_described(error)]
    if place is not None:
        at = f" in step {place.step}" if place.step is not None else ""
        nested = f" of the nested graph {'|'.join(place.namespace)}" if place.namespace else ""
        who = f"node {place.node!r}{nested}" if place.node is not None else "the run"
        lines[0] = f"{who} failed{at}: {lines[0]}"
    where = place_of(error)
    if where:
        lines.append(f"at {where}")
    known = place_note(
        node=place.node if place is not None else None,
        step=place.step if place is not None else None,
        thread_id=place.thread_id if place is not None else None,
        namespace=place.namespace if place is not None else (),
        run_id=place.run_id if place is not None else None,
        attempt=place.attempt if place is not None else None,
    )
    lines += [str(note) for note in getattr(error, "__notes__", ()) if note != known]
    return "\n  ".join(line.replace("\n", "\n  ") for line in lines)


def _with_advice(error: BaseException) -> str:
    """An exception in words, and what its notes say besides the place."""
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    advice = (note.replace("\n", "\n  ") for note in notes if not note.startswith("juncture: "))
    return "\n  ".join((_described(error), *advice))


def _described(error: BaseException) -> str:
    """An exception in words; our own say everything themselves."""
    text = message_of(error)
    if isinstance(error, SystemExit):
        return f"it called {text}"
    if isinstance(error, JunctureError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _paused(ended: Ended) -> str:
    lines = [question_text(question) for question in ended.result.interrupts]
    if all(question.when != "inside" for question in ended.result.interrupts):
        lines.append(_how_to_go_on(ended))
    elif outlives(ended.begun):
        lines.append(f"To answer: {_typed(ended.begun).command('resume')}")
    else:
        lines.append(_gone(ended.begun))
    return "\n".join(lines)


def question_text(question: Interrupt) -> str:
    """An open question in a line, with what names it."""
    if question.when != "inside":
        return f"paused {question.when} node {question.node!r}"
    named = f"key {question.key!r}, " if question.key is not None else ""
    value = described_value(question.value)
    return f"paused: node {question.node!r} asks {value} ({named}id {question.id})"


def _what_stays(ended: Ended) -> str:
    """Nothing where there is no saver, or it saved nothing: what comes next says so."""
    stays = ended.begun.saver is not None and ended.result.checkpoint is not None
    return ": what was committed stays" if stays else ""


def _how_to_go_on(ended: Ended) -> str:
    begun = ended.begun
    if begun.saver is None:
        return "Nothing was kept, because there is no saver: --checkpointer URL keeps threads that can go on."
    if ended.result.checkpoint is None:
        return "Nothing of this run was saved."
    return f"To go on: {_command(begun)}" if outlives(begun) else _gone(begun)


def _gone(begun: Begun) -> str:
    return (
        f"Thread {begun.thread_id!r} was in memory and ended with this command: --checkpointer URL keeps threads that "
        "can go on."
    )


def outlives(begun: Begun) -> bool:
    """Whether the thread is still there when this process has ended."""
    return begun.saver is not None and not isinstance(begun.saver, InMemorySaver)


def _command(begun: Begun) -> str:
    return _typed(begun).command("run")


def _typed(begun: Begun) -> Typed:
    return Typed(begun.spec, begun.checkpointer, begun.thread_id)


def print_traceback(error: BaseException) -> None:
    """Prints the whole traceback on standard error."""
    say("".join(traceback.format_exception(error)).rstrip())
