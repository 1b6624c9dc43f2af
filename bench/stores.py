"""SQLite files for both libraries, with the same ``synchronous``, and how each is closed.

The files stand on the disk that the project is on: in a folder of ``build/`` that goes away with the process. A
temporary folder may be in memory, where waiting for the disk costs nothing.
"""

from __future__ import annotations

import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from bench import graphs
from bench.libraries import JUNCTURE

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.libraries import Library

Synchronous = Literal["FULL", "NORMAL"]
_SAID = {1: "NORMAL", 2: "FULL"}


class Store(NamedTuple):
    """A saver, and what closes it: a coroutine function where the peer's saver is for async code only."""

    saver: Any
    close: Callable[[], Any]


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Goes away with the process."""
    build = Path(__file__).parent.parent / "build"
    build.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="bench-", dir=build)


def new_file() -> str:
    """The path of a file that isn't there yet, in a folder of its own."""
    return str(Path(tempfile.mkdtemp(dir=folder().name)) / "threads.sqlite")


def size(path: str) -> int:
    """Bytes of the file and of what stands beside it."""
    return sum(file.stat().st_size for file in Path(path).parent.iterdir())


def sqlite(lib: Library, path: str, synchronous: Synchronous) -> Store:
    """For sync code."""
    if lib is JUNCTURE:
        saver = lib.SqliteSaver(path, synchronous=synchronous)
        return Store(saver, saver.close)
    lib.SqliteSaver  # noqa: B018 - where it isn't installed, nothing is opened
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = lib.SqliteSaver(connection)
    saver.setup()
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    _check(connection.execute("PRAGMA synchronous").fetchone(), synchronous)
    return Store(saver, connection.close)


async def asqlite(lib: Library, path: str, synchronous: Synchronous) -> Store:
    """For async code."""
    if lib is JUNCTURE:
        saver = lib.SqliteSaver(path, synchronous=synchronous)
        return Store(saver, saver.aclose)
    made = lib.AsyncSqliteSaver
    import aiosqlite

    connection = await aiosqlite.connect(path)
    saver = made(connection)
    await saver.setup()
    await connection.execute(f"PRAGMA synchronous = {synchronous}")
    async with connection.execute("PRAGMA synchronous") as found:
        _check(await found.fetchone(), synchronous)
    return Store(saver, connection.close)


def _check(found: Any, synchronous: Synchronous) -> None:
    if _SAID.get(found[0]) != synchronous:
        raise RuntimeError(f"synchronous is {found[0]} where {synchronous} was asked for")


@cache
def long_thread(lib: Library, checkpoints: int) -> str:
    """The path of a file whose only thread, ``long``, has so many checkpoints of a small state; made once."""
    path = new_file()
    saver, close = sqlite(lib, path, "NORMAL")
    steps = checkpoints - 1  # and one of the input
    graph = graphs.loop(lib, steps).compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "long"}, "recursion_limit": steps + 10}
    if graph.invoke({"n": 0, "name": "bench"}, config)["n"] != steps:
        raise RuntimeError(f"{lib.name} didn't do all steps of the long thread")
    close()
    return path


def bytes_a_step(lib: Library, steps: int) -> float:
    """Of a new file, by threads of a hundred steps that count."""
    path = new_file()
    saver, close = sqlite(lib, path, "NORMAL")
    graph = graphs.chain(lib, 100).compile(checkpointer=saver)
    for thread in range(steps // 100):
        config = {"configurable": {"thread_id": f"{thread}"}, "recursion_limit": 110}
        if graph.invoke({"n": 0, "name": "bench"}, config)["n"] != 100:
            raise RuntimeError(f"{lib.name} didn't do all steps")
    close()
    return size(path) / steps
