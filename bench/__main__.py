"""``python -m bench``: measures and prints the table. See the package's docstring for the method."""

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING

from bench import floor, libraries, measure, table
from bench.rows import all_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.measure import Effort, Minima
    from bench.rows import Row


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Juncture against LangGraph, in one table."
    )
    parser.add_argument(
        "--rows", metavar="PATTERN", default="", help="only rows whose name matches (regular expression)"
    )
    parser.add_argument("--quick", action="store_true", help="fewer blocks: a rough look, in a few minutes")
    parser.add_argument(
        "--floor", action="store_true", help="add a hand-written loop that keeps the same promises"
    )
    parser.add_argument(
        "--long",
        action="store_true",
        help="LangGraph too has chats of 1,000 turns: half an hour, 4 GB of disk",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument(
        "--only",
        choices=[lib.name.lower() for lib in libraries.LIBRARIES],
        help="leave the other library out",
    )
    return parser.parse_args(given)


def measure_cases(
    rows: Sequence[Row], libs: Sequence[libraries.Library], effort: Effort, *, long: bool
) -> dict[str, Minima]:
    """The minima of every case that a row takes, by the case's name, each measured once."""
    distinct = {case.name: case for row in rows for case in row.cases}
    found: dict[str, Minima] = {}
    for place, (name, case) in enumerate(distinct.items(), 1):
        report(f"{place}/{len(distinct)} {name}")
        left_out = {libraries.LANGGRAPH.name} if case.long_for_peer and not long else set[str]()
        makers = {lib.name: partial(case.make, lib) for lib in libs if lib.name not in left_out}
        hang_s = measure.LONG_S if case.long_for_peer else measure.HANG_S
        found[name] = measure.minima(
            makers, effort, self_timed=case.self_timed, once=case.once, hang_s=hang_s
        )
        found[name].left_out |= left_out
    report("")
    return found


def report(text: str) -> None:
    """Progress, for someone who watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)


def main(given: Sequence[str] | None = None) -> int:
    """0; 1 if a library that is there failed in a row; 2 if no row matches. Targets don't change it."""
    chosen = arguments(given)
    libraries.quiet_environment()
    rows = [row for row in all_rows(floor=chosen.floor) if re.search(chosen.rows, row.name, re.IGNORECASE)]
    if not rows:
        print(f"no row matches {chosen.rows!r}", file=sys.stderr)
        return 2
    libs = [lib for lib in libraries.LIBRARIES if chosen.only in {None, lib.name.lower()}]
    effort = measure.QUICK if chosen.quick else measure.FULL

    @cache
    def floor_us(is_async: bool) -> float:
        makers = {"floor": lambda: floor.caller(100, is_async=is_async)}
        return measure.minima(makers, effort).best["floor"] / 100 * 1e6

    machine, versions, begun = table.machine(), table.versions(), perf_counter()
    found = measure_cases(rows, libs, effort, long=chosen.long)
    results = [table.result(row, found, floor_us) for row in rows]
    took = perf_counter() - begun
    notes = [note for result in results for note in result.notes]
    missing = sorted({problem for minima in found.values() for problem in minima.missing.values()})
    if chosen.json:
        document = {
            "machine": machine,
            "versions": versions,
            "quick": chosen.quick,
            "duration_s": round(took, 1),
        }
        document |= {"missing": missing, "rows": table.as_json(results)}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(", ".join(f"{name} {version}" for name, version in versions.items()))
        print(", ".join(f"{name}: {value}" for name, value in machine.items()))
        print(f"measured in {took:.0f} s{', --quick' if chosen.quick else ''}\n")
        print(table.markdown(results))
    for line in [*missing, *notes]:
        print(line, file=sys.stderr)
    return 1 if notes else 0


if __name__ == "__main__":
    sys.exit(main())
