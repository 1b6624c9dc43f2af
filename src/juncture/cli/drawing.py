"""Threads and states on a terminal: tables, values in colours, what differs line by line.

Nothing is cut off: what is too wide is folded, so that an id can be copied. No control character of a value or a name
reaches the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from difflib import ndiff
from typing import Any, Final, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.pretty import Pretty, pretty_repr
from rich.table import Table
from rich.text import Text

from juncture.cli.records import id_of
from juncture.cli.saying import visible
from juncture.cli.shown import described_value
from juncture.types import Interrupt, StateDiff, StateSnapshot, TaskSnapshot, ThreadSnapshot

STATUS_STYLES = {
    "completed": "green",
    "interrupted": "yellow",
    "running": "cyan",
    "unfinished": "yellow",
    "failed": "red",
    "dead": "red",
    "unreadable": "red",
}
_FOLDED: Final = ("thread", "next", "waits for")
"""Columns that give way where the terminal is narrow; an id that is broken can't be copied."""


def console_on(stream: TextIO) -> Console:
    """What draws on a terminal; signs that its encoding doesn't have aren't errors."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return Console(file=stream, highlight=False, markup=False, emoji=False)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────


def threads_table(found: Iterable[ThreadSnapshot]) -> Table:
    """A line for every thread."""
    table = _table("thread", "status", "step", "changed", "next", "waits for")
    for each in found:
        status = Text(each.status, STATUS_STYLES.get(each.status, ""))
        table.add_row(
            visible(each.thread_id),
            status,
            str(each.step),
            local_time(each.updated_at),
            *_due(each.next, each.interrupts),
        )
    return table


def history_table(found: Iterable[StateSnapshot]) -> Table:
    """A line for every state."""
    table = _table("checkpoint", "step", "source", "made", "next", "waits for")
    for each in found:
        metadata = each.metadata or {}
        table.add_row(
            id_of(each.config),
            str(metadata.get("step")),
            visible(str(metadata.get("source"))),
            local_time(each.created_at),
            *_due(each.next, each.interrupts),
        )
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        justify = "right" if head == "step" else "left"
        table.add_column(head, overflow="fold", no_wrap=head not in _FOLDED, justify=justify)
    return table


def _due(names: Sequence[str], questions: Sequence[Interrupt]) -> tuple[str, str]:
    asked = "\n".join(question_in_short(each) for each in questions)
    return visible(", ".join(names)), visible(asked)


def question_in_short(question: Interrupt) -> str:
    """A question in a few words."""
    if question.when != "inside":
        return f"{question.when} {question.node}"
    text = described_value(question.value)
    return f"{question.node}: {text if len(text) <= 60 else f'{text[:59]}…'}"


def local_time(text: str | None) -> str:
    """A time in ISO 8601 as the clock on the wall would show it."""
    if text is None:
        return ""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


# ── a state ──────────────────────────────────────────────────────────────────────────────────────────────────


def draw_state(console: Console, state: StateSnapshot, indent: int = 0) -> None:
    """A state with its tasks, its questions, and the states of nested graphs beneath theirs."""
    metadata = dict(state.metadata or {})
    named = state.config["configurable"]
    lines = {
        "thread": named["thread_id"] if not indent else "",
        "namespace": named["checkpoint_ns"],
        "checkpoint": id_of(state.config) or "",
        "made": f"{local_time(state.created_at)}, step {metadata.pop('step', '?')}, by {metadata.pop('source', '?')}",
        "run": metadata.pop("run_id", ""),
        "metadata": described_value(metadata) if metadata else "",
        "next": ", ".join(state.next) or "nothing: it has finished",
    }
    for head, text in lines.items():
        if text:
            _put(console, Text.assemble((f"{head}: ", "bold"), visible(str(text))), indent)
    _put(console, Text("values:", "bold"), indent)
    _put(console, pretty(state.values), indent + 2)
    for task in state.tasks:
        _draw_task(console, task, indent)


def _draw_task(console: Console, task: TaskSnapshot, indent: int) -> None:
    sent = f" (send {task.path[1]})" if task.path and task.path[0] == "send" else ""
    if task.error is not None:
        told = Text(f"failed: {visible(task.error)}", "red")
    elif task.interrupts:
        told = Text("waits", "yellow")
    else:
        told = Text("has ended" if task.result is not None else "is due", "dim")
    _put(console, Text.assemble(("task ", "bold"), visible(task.name), sent, ": ", told), indent)
    for question in task.interrupts:
        draw_question(console, question, indent + 2)
    if task.result is not None:
        _put(console, pretty(dict(task.result)), indent + 2)
    if isinstance(task.state, StateSnapshot):
        draw_state(console, task.state, indent + 2)


def draw_question(console: Console, question: Interrupt, indent: int = 0) -> None:
    """A question, with what names it."""
    if question.when != "inside":
        _put(console, Text(visible(f"paused {question.when} node {question.node!r}")), indent)
        return
    within = f" in {visible('|'.join(question.namespace))}" if question.namespace else ""
    key = f", key {visible(question.key)!r}" if question.key is not None else ""
    head = Text.assemble(("? ", "yellow"), visible(f"node {question.node!r}"), within, f" asks{key}")
    _put(console, head + Text(f"  id {question.id}", "dim"), indent)
    _put(console, pretty(question.value), indent + 2)
    if question.response_schema is not None:
        _put(console, Text(f"wants {visible(wanted(question.response_schema))}", "dim"), indent + 2)
    if question.error is not None:
        _put(console, Text(f"the last answer was refused: {visible(question.error)}", "red"), indent + 2)


def wanted(schema: Mapping[str, Any]) -> str:
    """What an answer must be, in a few words."""
    if "enum" in schema:
        return f"one of {', '.join(repr(each) for each in schema['enum'])}"
    if "anyOf" in schema:
        return " or ".join(wanted(each) for each in schema["anyOf"])
    named = schema.get("title") or schema.get("$ref", "").rpartition("/")[2] or schema.get("type", "anything")
    fields = ", ".join(schema.get("properties", ()))
    return f"{named} ({fields})" if fields else str(named)


def draw_diff(console: Console, diff: StateDiff) -> None:
    """What differs, key by key; of a changed value only the lines that differ, with those around them."""
    if not any(diff):
        console.print("no difference")
    for key, value in diff.added.items():
        _draw_side(console, "+", key, value)
    for key, value in diff.removed.items():
        _draw_side(console, "-", key, value)
    for key, (old, new) in diff.changed.items():
        console.print(Text(f"~ {visible(str(key))}", "bold yellow"))
        for line in _changed_lines(old, new):
            console.print(
                Padding(
                    Text(line, {"+": "green", "-": "red"}.get(line[:1], "dim"), overflow="fold"), (0, 0, 0, 2)
                )
            )


def _draw_side(console: Console, sign: str, key: str, value: Any) -> None:
    console.print(Text(f"{sign} {visible(str(key))}", "bold green" if sign == "+" else "bold red"))
    console.print(Padding(pretty(value), (0, 0, 0, 2)))


def _changed_lines(old: Any, new: Any) -> list[str]:
    """The lines of two values that differ, each with a sign; a run of equal lines is one line ``…``."""
    before, after = (visible(pretty_repr(each)).splitlines() for each in (old, new))
    if before == after:  # equal as text, and not as what is stored
        before, after = [f"{before[0]} ({type(old).__name__})"], [f"{after[0]} ({type(new).__name__})"]
    lines: list[str] = []
    for line in ndiff(before, after):
        if line.startswith("?"):
            continue
        if not line.startswith(" "):
            lines.append(line)
        elif not lines or lines[-1] != "  …":
            lines.append("  …")
    return lines


def pretty(value: Any) -> Pretty:
    """A value in colours, folded to the terminal's width."""
    return Pretty(value, indent_guides=False, overflow="fold")


def _put(console: Console, drawn: Text | Pretty, indent: int) -> None:
    console.print(Padding(drawn, (0, 0, 0, indent)) if indent else drawn)
