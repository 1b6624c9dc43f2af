"""A run as lines of JSON: one object a line, each written at once, and nothing else on standard output.

``{"seq", "mode", "ns", "node", "data"}`` for every part, then one last ``{"status", "values", "interrupts", "run_id",
"thread_id", "checkpoint"}``, with ``"error"`` where there was one. What the user's code prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

import typer

from juncture.cli.exits import ExitCode
from juncture.cli.reporting import announce
from juncture.cli.running import Begun, Ended
from juncture.cli.saying import say, visible
from juncture.cli.shown import line_of, message_of
from juncture.drivers.place import failure
from juncture.types import RunResult, StreamMode, StreamPart


class Output:
    """Standard output, which may go away."""

    def __init__(self, stream: TextIO) -> None:
        """Takes what standard output was before anything was redirected."""
        self._stream = stream
        self.lost: OSError | None = None
        """Why it can't be written any more, mostly because whoever read it has closed it. What is written afterwards
        goes nowhere."""

    def line(self, value: Any) -> bool:
        """Writes a value as one line of JSON, in UTF-8, at once; False if it can't be written any more."""
        return self._write(f"{line_of(value)}\n".encode())

    def text(self, text: str) -> bool:
        """Writes lines, with their control characters made visible; as `line`."""
        encoding = self._stream.encoding or "utf-8"
        return self._write(f"{visible(text)}\n".encode(encoding, "backslashreplace"))

    def content(self, content: bytes) -> bool:
        """Writes what is no line of text, such as an image; as `line`."""
        return self._write(content)

    def _write(self, line: bytes) -> bool:
        if self.lost is not None:
            return False
        try:
            self._stream.buffer.write(line)
            self._stream.buffer.flush()
        except OSError as error:
            self.lost = error
            with suppress(OSError, ValueError):  # what is still buffered must not fail again when Python ends
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)
        return self.lost is None


@contextmanager
def own_output() -> Generator[Output]:
    """Standard output for the command alone: meanwhile what user code prints goes to standard error.

    Raises:
        typer.Exit: At the end, if it couldn't be written; quietly if whoever read it has closed it.
    """
    with _apart(sys.stdout) as stream, redirect_stdout(sys.stderr):
        output = Output(stream)
        try:
            yield output
        except KeyboardInterrupt:  # also what stops a run that nobody can be told of any more
            if output.lost is None:
                raise
        if isinstance(output.lost, BrokenPipeError):
            raise typer.Exit(ExitCode.READER_GONE)
        if output.lost is not None:
            say(f"error: standard output can't be written: {output.lost.strerror or output.lost}")
            raise typer.Exit(ExitCode.FAILED)


@contextmanager
def _apart(stream: TextIO) -> Generator[TextIO]:
    """Standard output under another file descriptor: its own is meanwhile standard error, for programs that nodes start."""
    try:
        number, said = stream.fileno(), sys.stderr.fileno()
        kept = os.dup(number)
    except (OSError, ValueError):  # it is no file, or standard error isn't
        yield stream
        return
    stream.flush()
    os.dup2(said, number)
    with open(kept, "w", encoding=stream.encoding) as own:
        try:
            yield own
        finally:
            with suppress(OSError, ValueError):  # what user code wrote past the redirection
                stream.flush()
            os.dup2(kept, number)


class Lines:
    """Shows a run as lines of JSON."""

    def __init__(self, output: Output, modes: tuple[StreamMode, ...]) -> None:
        """Takes the modes that were asked for."""
        self.modes = modes or ("updates", "custom")
        self._output = output

    def begin(self, begun: Begun) -> None:
        """Says which thread was made."""
        announce(begun)

    def show(self, part: StreamPart) -> bool:
        """Writes a part; False if it can't be written any more."""
        return self._output.line(
            {"seq": part.seq, "mode": part.mode, "ns": part.ns, "node": part.node, "data": part.data}
        )

    def end(self, ended: Ended) -> None:
        """Writes the last line."""
        self._output.line(ended_record(ended.result, ended.begun.thread_id, ended.error))


def ended_record(result: RunResult, thread_id: str | None, error: BaseException | None) -> dict[str, Any]:
    """How a run ended, as an object of JSON."""
    last: dict[str, Any] = {
        "status": result.status,
        "values": dict(result) if result.value is result else result.value,
        "interrupts": result.interrupts,
        "run_id": result.run_id,
        "thread_id": thread_id,
        "checkpoint": result.checkpoint,
    }
    if error is not None and result.status != "cancelled":
        last["error"] = _error_of(error)
    return last


def _error_of(error: BaseException) -> dict[str, Any]:
    place = failure(error)
    return {
        "type": type(error).__name__,
        "message": message_of(error),
        "node": place.node if place is not None else None,
        "step": place.step if place is not None else None,
    }
