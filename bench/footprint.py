"""What importing a library costs, seen in fresh interpreters.

Bytecode is kept in a folder of this process's own, so that neither a missing ``__pycache__`` nor
``PYTHONDONTWRITEBYTECODE`` makes one library compile what the other finds compiled; the first import fills it and
isn't counted. Resident memory is read from ``/proc/self/status``: `getrusage` would count the parent's memory, which
a child has until it replaces its program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.libraries import Library

PROGRAM = """
import time
begun = time.perf_counter()
{statement}
print(time.perf_counter() - begun)
for line in open("/proc/self/status", encoding="ascii"):
    if line.startswith("VmHWM:"):
        print(int(line.split()[1]) * 1024)
"""
FIRST_RUN = """
from typing import TypedDict
class State(TypedDict):
    n: int
graph = StateGraph(State)
graph.add_node("bump", lambda state: {"n": state["n"] + 1})
graph.add_edge(START, "bump")
graph.add_edge("bump", END)
assert graph.compile().invoke({"n": 1})["n"] == 2
"""


def caller(lib: Library, figure: str) -> Callable[[], Any]:
    """A function that starts an interpreter and returns its figure.

    ``time``: seconds of the import statement. ``first run``: the same and a one-node graph built and run.
    ``memory``: bytes resident at the peak, in all. ``bare``: the same of an interpreter that imports nothing.
    """
    lib.StateGraph  # noqa: B018 - a library that can't be imported fails here, with its own message
    statement = "" if figure == "bare" else lib.import_statement
    if figure == "first run":
        statement += FIRST_RUN
    return partial(measured, statement, 1 if figure in {"memory", "bare"} else 0)


@cache
def bytecode() -> tempfile.TemporaryDirectory[str]:
    """Goes away with the process."""
    return tempfile.TemporaryDirectory(prefix="bench-bytecode-")


def measured(statement: str, line: int) -> float:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode().name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROGRAM.replace("{statement}", statement)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    if result.returncode:
        raise RuntimeError(f"{statement.splitlines()[0]!r} failed in a fresh interpreter:\n{result.stderr}")
    return float(result.stdout.split()[line])


def peak() -> int:
    """Bytes that were resident in this process at most so far."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
