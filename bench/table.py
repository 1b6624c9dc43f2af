"""From minima to lines: the results, the table in Markdown, the same as JSON, and what it was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.libraries import JUNCTURE, LANGGRAPH, LIBRARIES
from bench.rows import MICROSECONDS, TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.measure import Minima
    from bench.rows import Row

DASH = "–"
HEADER = ("row", f"LangGraph {MICROSECONDS}", f"Juncture {MICROSECONDS}", "ratio", "target", "met")


@dataclass
class Result:
    """One row, measured."""

    row: Row
    figures: dict[str, float]
    """Library name to figure, in the row's unit; without the libraries that are missing or failed."""
    notes: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    """Libraries that are measured only with ``--long``."""
    floor_us: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times better Juncture is; None where one side has no figure."""
        theirs, ours = self.figures.get(LANGGRAPH.name), self.figures.get(JUNCTURE.name)
        if theirs is None or ours is None:
            return None
        if self.row.more_is_better:
            theirs, ours = ours, theirs
        return theirs / ours if ours > 0 else float("inf")  # a difference may come out as nothing

    @property
    def met(self) -> bool | None:
        return self.row.target.met(self.ratio, self.figures.get(JUNCTURE.name))

    @property
    def name(self) -> str:
        if self.row.floor is None:
            return self.row.name
        return f"{self.row.name}: a hand-written loop takes {number(self.floor_us or 0)} {MICROSECONDS}; times that"


def result(row: Row, found: Mapping[str, Minima], floor_us: Callable[[bool], float]) -> Result:
    """The row's figures from its cases' minima."""
    gathered = [found[case.name] for case in row.cases]
    made = Result(row, {})
    divisor = made.floor_us = floor_us(row.floor) if row.floor is not None else None
    made.left_out = set().union(*[minima.left_out for minima in gathered])
    for lib in LIBRARIES:
        for minima in gathered:
            if problem := minima.failed.get(lib.name):
                made.failed.add(lib.name)
                made.notes.append(f"{row.name}: {lib.name} failed: {problem}")
        if all(lib.name in minima.best for minima in gathered):
            figure = row.figure(*[minima.best[lib.name] for minima in gathered])
            made.figures[lib.name] = figure / divisor if divisor else figure
    return made


def number(value: float) -> str:
    """Three significant digits, with thousands marked."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _with_unit(text: str, unit: str) -> str:
    return f"{text}{unit}" if unit == TIMES else f"{text} {unit}"


def _cell(measured: Result, name: str) -> str:
    if name in measured.failed:
        return "failed"
    if name in measured.left_out:
        return "with --long"
    if name not in measured.figures:
        return DASH
    unit = measured.row.unit
    text = number(measured.figures[name])
    return text if unit == MICROSECONDS else _with_unit(text, unit)


def _target(row: Row) -> str:
    if row.target.ratio is not None:
        return _with_unit(f"≥ {row.target.ratio:g}", TIMES)
    if row.target.most is not None:
        return _with_unit(f"≤ {row.target.most:,g}", row.unit)
    return DASH


def _cells(measured: Result) -> tuple[str, ...]:
    ratio = DASH if measured.ratio is None else _with_unit(number(measured.ratio), TIMES)
    met = {True: "yes", False: "no", None: DASH}[measured.met]
    theirs, ours = _cell(measured, LANGGRAPH.name), _cell(measured, JUNCTURE.name)
    return (measured.name, theirs, ours, ratio, _target(measured.row), met)


def markdown(results: list[Result]) -> str:
    """The table, aligned for a terminal and valid as Markdown."""
    lines = [HEADER, *[_cells(measured) for measured in results]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]

    def aligned(line: tuple[str, ...]) -> str:
        first, *others = line
        cells = [
            first.ljust(widths[0]),
            *[cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)],
        ]
        return f"| {' | '.join(cells)} |"

    rule = "|".join(["-" * (widths[0] + 2), *["-" * (width + 1) + ":" for width in widths[1:]]])
    return "\n".join([aligned(HEADER), f"|{rule}|", *[aligned(line) for line in lines[1:]]])


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    return [
        {
            "row": measured.row.name,
            "unit": measured.row.unit,
            "langgraph": measured.figures.get(LANGGRAPH.name),
            "juncture": measured.figures.get(JUNCTURE.name),
            "ratio": measured.ratio,
            "target": {"ratio": measured.row.target.ratio, "most": measured.row.target.most},
            "met": measured.met,
            "floor_us": measured.floor_us,
            "notes": measured.notes,
        }
        for measured in results
    ]


def versions() -> dict[str, str]:
    """What was compared, and what it stands on."""
    found = {lib.name: lib.version or "not there" for lib in LIBRARIES}
    for name in (
        "langgraph-checkpoint",
        "langgraph-checkpoint-sqlite",
        "langchain-core",
        "pydantic",
        "ormsgpack",
    ):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return {"Python": python, "SQLite": sqlite3.sqlite_version, **found}


def machine() -> dict[str, str]:
    """Processor, cores that this process may use, kernel, and how busy the machine was when this was asked."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next(
                (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model
            )
    except OSError:
        pass
    return {
        "processor": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.release()}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }
