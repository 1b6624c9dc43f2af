"""A run on a terminal: what is running as a living list, what happened as lines above it, the state at the end.

Tasks of one node that run at the same time are one entry (``read ×12``), so that a thousand of them fit. What user
code prints appears above the list.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from juncture.cli.drawing import console_on, pretty
from juncture.cli.reporting import announce
from juncture.cli.running import Begun, Ended
from juncture.cli.saying import visible
from juncture.types import StreamMode, StreamPart

_STYLES = {"completed": "bold green", "interrupted": "bold yellow", "drained": "bold yellow"}


@dataclass(slots=True)
class _Entry:
    """The tasks of one node that run now."""

    node: str
    depth: int
    since: float
    spinner: Spinner = field(default_factory=lambda: Spinner("dots"))
    running: set[str] = field(default_factory=set[str])
    """The ids of its tasks."""
    begun: int = 0
    """How many there were since none was running."""


class Terminal:
    """Shows a run on a terminal."""

    def __init__(self, modes: tuple[StreamMode, ...]) -> None:
        """Takes the modes that were asked for."""
        self._asked = modes or ("custom",)
        self.modes = tuple(dict.fromkeys((*self._asked, "tasks")))
        self._console = console_on(sys.stdout)
        self._entries: dict[tuple[tuple[str, ...], str], _Entry] = {}
        self._lock = Lock()  # the list is drawn by a thread of its own
        self._live = Live(get_renderable=self._running, console=self._console, transient=True)

    def begin(self, begun: Begun) -> None:
        """Begins to draw."""
        announce(begun)
        self._live.start()

    def show(self, part: StreamPart) -> bool:
        """Shows a part."""
        if part.mode == "tasks":
            self._task(part)
        if part.mode in self._asked:
            label = Text.assemble(
                "  " * len(part.ns), (part.mode, "dim"), " ", (visible(part.node or ""), "cyan")
            )
            self._console.print(_beside(label, pretty(part.data)))
        return True

    def end(self, ended: Ended) -> None:
        """Shows the final state."""
        self._live.stop()
        result = ended.result
        steps = f"{result.steps} step{'' if result.steps == 1 else 's'}"
        self._console.print(
            Text.assemble((result.status, _STYLES.get(result.status, "bold red")), f" after {steps}")
        )
        self._console.print(pretty(dict(result) if result.value is result else result.value))

    def close(self) -> None:
        """Stops drawing, however the run ended."""
        self._live.stop()

    # ---- what is running

    def _task(self, part: StreamPart) -> None:
        """A task began or ended."""
        shown: dict[str, Any] = part.data
        node, key = shown["name"], (part.ns, shown["name"])
        with self._lock:
            entry = self._entries.get(key)
            if "result" not in shown:
                if entry is None:
                    entry = self._entries[key] = _Entry(node, len(part.ns), monotonic())
                if shown["id"] not in entry.running:  # else it is a further try
                    entry.running.add(shown["id"])
                    entry.begun += 1
                return
            if entry is not None:
                entry.running.discard(shown["id"])
                if not entry.running:
                    del self._entries[key]
        if shown["error"] is not None:
            self._line(part, "✗", "red", f" {shown['error']}")
        elif shown["interrupts"]:
            self._line(part, "?", "yellow", " waits for an answer")
        elif entry is not None and not entry.running:
            self._line(part, "✓", "green", f"{_times(entry.begun)}  {_seconds(entry.since)}")

    def _line(self, part: StreamPart, sign: str, style: str, rest: str) -> None:
        node = visible(part.data["name"])
        self._console.print(
            Text.assemble("  " * len(part.ns), (sign, style), f" {node}", (visible(rest), "dim"))
        )

    def _running(self) -> RenderableType:
        with self._lock:
            entries = [(entry, len(entry.running)) for entry in self._entries.values()]
        room = max(1, self._console.height - 2)
        drawn: list[RenderableType] = []
        for entry, count in entries[:room]:
            label = Text.assemble(
                "  " * entry.depth, visible(entry.node), (f"{_times(count)}  {_seconds(entry.since)}", "dim")
            )
            drawn.append(_beside(entry.spinner, label))
        if len(entries) > room:
            drawn.append(Text(f"and {len(entries) - room} more"))
        return Group(*drawn)


def _beside(left: RenderableType, right: RenderableType) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_row(left, right)
    return grid


def _times(count: int) -> str:
    return f" ×{count}" if count > 1 else ""


def _seconds(since: float) -> str:
    return f"{monotonic() - since:.1f} s"
