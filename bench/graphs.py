"""The programs that are measured. Each takes the library as its first argument and builds the same graph with it.

Types and nodes stand at module level because both libraries read a node's annotations.
"""

from __future__ import annotations

import asyncio
import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

if TYPE_CHECKING:
    from bench.libraries import Library

WIDE_KEYS = tuple(f"key_{i}" for i in range(19))


class State(TypedDict):
    n: int
    name: str


Wide = TypedDict("Wide", {"n": int, **dict.fromkeys(WIDE_KEYS, str)})
Wide.__doc__ = "Twenty keys, of which a node changes one."


class Gathered(TypedDict):
    count: int
    done: Annotated[list[int], operator.add]


class Item(TypedDict):
    item: int


def bump(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


async def abump(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


def bump_wide(state: Wide) -> dict[str, Any]:
    return {"n": state["n"] + 1}


async def abump_wide(state: Wide) -> dict[str, Any]:
    return {"n": state["n"] + 1}


def chain(lib: Library, length: int, action: Any = bump, *, schema: Any = State, **options: Any):
    """``length`` nodes one after the other; `options` go to each `add_node`."""
    graph = lib.StateGraph(schema)
    previous = lib.START
    for i in range(length):
        name = f"node_{i}"
        graph.add_node(name, action, **options)
        graph.add_edge(previous, name)
        previous = name
    graph.add_edge(previous, lib.END)
    return graph


def loop(lib: Library, steps: int, action: Any = bump, *, async_router: bool = False):
    """One node that goes back to itself through a router until it ran `steps` times."""

    def again(state: State) -> str:
        return "again" if state["n"] < steps else "done"

    async def aagain(state: State) -> str:
        return again(state)

    graph = lib.StateGraph(State)
    graph.add_node("bump", action)
    graph.add_edge(lib.START, "bump")
    graph.add_conditional_edges("bump", aagain if async_router else again, {"again": "bump", "done": lib.END})
    return graph


def work(state: Item) -> dict[str, Any]:
    return {"done": [state["item"]]}


async def awork(state: Item) -> dict[str, Any]:
    return {"done": [state["item"]]}


def sends(lib: Library, action: Any = work):
    """One `Send` for each of ``state["count"]`` items; the workers' results are gathered in a list."""

    def dispatch(state: Gathered) -> list[Any]:
        return [lib.Send("work", {"item": i}) for i in range(state["count"])]

    async def adispatch(state: Gathered) -> list[Any]:
        return dispatch(state)

    graph = lib.StateGraph(Gathered)
    graph.add_node("work", action)
    graph.add_conditional_edges(lib.START, adispatch if action is awork else dispatch, ["work"])
    graph.add_edge("work", lib.END)
    return graph


def mark(state: Gathered) -> dict[str, Any]:
    return {"done": [state["count"]]}


async def amark(state: Gathered) -> dict[str, Any]:
    return {"done": [state["count"]]}


def fan_out(lib: Library, width: int, action: Any = mark):
    """A node, `width` nodes at once after it, and one that waits for all of them."""
    graph = lib.StateGraph(Gathered)
    branches = [f"branch_{i}" for i in range(width)]
    for name in ("fork", *branches, "join"):
        graph.add_node(name, action)
    graph.add_edge(lib.START, "fork")
    for name in branches:
        graph.add_edge("fork", name)
    graph.add_edge(branches, "join")
    graph.add_edge("join", lib.END)
    return graph


def chunks(lib: Library, count: int):
    """A sync node that sends `count` custom chunks without a pause."""

    def talk(state: State) -> dict[str, Any]:
        write = lib.get_stream_writer()
        for i in range(count):
            write(i)
        return {"n": state["n"] + 1}

    return chain(lib, 1, talk)


def achunks(lib: Library, count: int, *, pause: bool):
    """An async node that sends `count` custom chunks.

    Without `pause` it never gives up the loop, so that nothing can be delivered before it ends: that shows the cost of
    a chunk. With `pause` it does so after each, as a node that waits for a model's tokens would.
    """

    async def talk(state: State) -> dict[str, Any]:
        write = lib.get_stream_writer()
        for i in range(count):
            write(i)
            if pause:
                await asyncio.sleep(0)
        return {"n": state["n"] + 1}

    return chain(lib, 1, talk)
