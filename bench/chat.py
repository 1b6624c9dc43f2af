"""A chat that grows: one node that answers, a thread of N turns, each a question and an answer of 500 characters.

``python -m bench.chat LIBRARY SAVER MESSAGES TURNS`` has one chat in a fresh interpreter and prints what it found, so
that resident memory is that of this chat alone: bytes of the SQLite file once it is closed, seconds of the fastest of
the first ten and of the last ten turns, seconds of reading the thread with a saver opened anew, and the peak of
resident memory. Each turn checks how many messages there are.

Messages are dicts, or LangChain's objects. The state is `add_messages` of each library; LangGraph's makes LangChain's
objects of dicts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from bench import footprint, libraries, stores

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.libraries import Library

SaverKind = Literal["sqlite", "memory"]
MessageKind = Literal["dicts", "LangChain"]
TEN = 10
LONG_S = 3600


def chat(lib: Library, saver_kind: SaverKind, kind: MessageKind, turns: int) -> dict[str, float]:
    """Has the chat here. What it found is described in the module."""
    path = stores.new_file() if saver_kind == "sqlite" else ""
    saver, close = (
        stores.sqlite(lib, path, "NORMAL") if path else stores.Store(lib.InMemorySaver(), lambda: None)
    )
    asked, answered = _messages(lib, kind)
    state = TypedDict("state", {"messages": Annotated[list, lib.add_messages]})  # noqa: UP013 - as text, `lib` couldn't be resolved

    def answer(_: Any) -> dict[str, Any]:
        return {"messages": [answered("a" * 500)]}

    graph = lib.StateGraph(state)
    graph.add_node("answer", answer)
    graph.add_edge(lib.START, "answer")
    graph.add_edge("answer", lib.END)
    compiled = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "chat"}}
    took: list[float] = []
    for turn in range(1, turns + 1):
        given = {"messages": [asked(f"{turn:>10}" + "q" * 490)]}
        begun = perf_counter()
        result = compiled.invoke(given, config)
        took.append(perf_counter() - begun)
        if len(result["messages"]) != 2 * turn:
            raise RuntimeError(f"{len(result['messages'])} messages after {turn} turns")
    close()
    peak = footprint.peak()
    return {
        "file": stores.size(path) if path else 0,
        "load": _load(lib, graph, path, turns) if path else 0,
        "first ten": min(took[:TEN]),
        "last ten": min(took[-TEN:]),
        "peak": peak,
    }


def _load(lib: Library, graph: Any, path: str, turns: int) -> float:
    """Seconds of the fastest of three times that a saver opened anew reads the thread."""
    took: list[float] = []
    for _ in range(3):
        saver, close = stores.sqlite(lib, path, "NORMAL")
        reading = graph.compile(checkpointer=saver)
        begun = perf_counter()
        found = reading.get_state({"configurable": {"thread_id": "chat"}}).values["messages"]
        took.append(perf_counter() - begun)
        close()
        if len(found) != 2 * turns:
            raise RuntimeError(f"{len(found)} messages were read after {turns} turns")
    return min(took)


def _messages(lib: Library, kind: MessageKind) -> tuple[Callable[[str], Any], Callable[[str], Any]]:
    if kind == "dicts":
        return lambda text: {"role": "user", "content": text}, lambda text: {
            "role": "assistant",
            "content": text,
        }
    from langchain_core.messages import AIMessage, HumanMessage

    if lib is libraries.JUNCTURE:
        for cls in (HumanMessage, AIMessage):
            lib.register_type(cls)
    return HumanMessage, AIMessage


@cache
def figures(lib: Library, saver_kind: SaverKind, kind: MessageKind, turns: int) -> dict[str, float]:
    """What one chat in a fresh interpreter found; had once, for all rows that want it."""
    for name in ("add_messages", "InMemorySaver" if saver_kind == "memory" else "SqliteSaver"):
        getattr(lib, name)  # a name that isn't there fails here, with its own message
    command = [sys.executable, "-m", "bench.chat", lib.name, saver_kind, kind, str(turns)]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_S,
        cwd=Path(__file__).parent.parent,
    )
    if result.returncode:
        raise RuntimeError(f"a chat failed in a fresh interpreter: {result.stderr.strip()[-400:]}")
    return json.loads(result.stdout)


def main(given: list[str]) -> None:
    name, saver_kind, kind, turns = given
    libraries.quiet_environment()
    lib = next(lib for lib in libraries.LIBRARIES if lib.name == name)
    print(json.dumps(chat(lib, saver_kind, kind, int(turns))))


if __name__ == "__main__":
    main(sys.argv[1:])
