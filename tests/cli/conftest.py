"""What the tests of the command line share: a folder with a user's files, and three ways to run a command there.

`juncture` runs it in this process, `start` in one of its own with pipes, `terminal` in one of its own on a terminal.
"""

import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import CliRunner

from juncture.cli.app import app

FLOW = """
    import operator
    from typing import Annotated, TypedDict

    from juncture import START, Send, StateGraph


    class Count(TypedDict, total=False):
        texts: list[str]
        words: Annotated[list[int], operator.add]
        total: int


    def one_each(state: Count):
        return [Send("count", text) for text in state["texts"]]


    def count(text: str, writer):
        writer({"counted": text})
        return {"words": [len(text.split())]}


    async def add_up(state: Count):
        return {"total": sum(state["words"])}


    graph = StateGraph(Count).add_node(count).add_node(add_up)
    graph.add_conditional_edges(START, one_each, ["count"]).add_edge("count", "add_up")
"""
"""A graph of a sync and an async node."""


@dataclass
class Outcome:
    """What a command did, as whoever started it sees it."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def last(self) -> dict[str, Any]:
        return self.lines[-1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        origin = getattr(sys.modules[name], "__file__", None)
        if origin is not None and Path(origin).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def write(folder: Path) -> Callable[[str, str], Path]:
    """Writes a file into the folder."""

    def write(name: str, source: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(source).lstrip("\n"), encoding="utf-8")
        return path

    return write


@pytest.fixture
def flow(write: Callable[[str, str], Path]) -> Path:
    return write("flow.py", FLOW)


@pytest.fixture
def juncture(folder: Path) -> Callable[..., Outcome]:
    """Runs a command in this process; standard output isn't a terminal."""

    def run(*arguments: str, stdin: str | bytes | None = None) -> Outcome:
        done = CliRunner().invoke(app, arguments, input=stdin, prog_name="juncture")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        return Outcome(done.exit_code, done.stdout, done.stderr)

    return run


def _environment(**more: str) -> dict[str, str]:
    unwanted = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return kept | {"TERM": "xterm-256color", "PYTHONUTF8": "1", "PYTHONWARNINGS": "error"} | more


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `python -m juncture` with pipes."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-m", "juncture", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


# The child makes the terminal its own, so that Ctrl-C typed there reaches it, and becomes the command.
_ON_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


@dataclass
class Terminal:
    """A command that runs on a terminal of its own."""

    master: int
    child: subprocess.Popen[bytes]
    seen: str = field(default="")

    def expect(self, text: str) -> None:
        """Reads on until the text has appeared."""
        while text not in self.seen:
            assert self._read(), f"{text!r} never appeared in {self.seen!r}"

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def ended(self) -> int:
        """Reads up to the end; the exit code."""
        while self._read():
            pass
        return self.child.wait()

    def _read(self) -> bool:
        try:
            got = os.read(self.master, 65536)
        except OSError:  # what a terminal says at its end
            return False
        self.seen += got.decode(errors="replace")
        return bool(got)

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        os.close(self.master)


@pytest.fixture
def terminal(folder: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts `python -m juncture` on a terminal."""
    opened: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x28\x00\x78\x00\x00\x00\x00\x00")  # 40 lines of 120
        python = [sys.executable, "-c", _ON_TERMINAL, sys.executable, "-m", "juncture"]
        child = subprocess.Popen(
            [*python, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=_environment(),
        )
        os.close(slave)
        opened.append(Terminal(master, child))
        return opened[-1]

    yield start
    for each in opened:
        with closing(each):
            pass
