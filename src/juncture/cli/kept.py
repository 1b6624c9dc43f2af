"""Looking at threads and after them: what the commands share that don't run the graph, or not with an input.

* They need a saver whose threads were kept: a file that isn't there is an error, and isn't made.
* An unknown thread or checkpoint is an error that says which command lists those that there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

from juncture.cli.ctrl_c import CtrlC
from juncture.cli.loading import Found, find_graph
from juncture.cli.opening import ready_graph
from juncture.cli.typed import Typed
from juncture.errors import CheckpointNotFoundError, ConfigError, SerializationError, ThreadNotFoundError
from juncture.graph.compiled import CompiledGraph
from juncture.persistence.format import config_of, namespace_levels
from juncture.persistence.upkeep import not_found
from juncture.types import StateSnapshot

T = TypeVar("T")
Kept: TypeAlias = "CompiledGraph[Any, Any, Any, Any]"
"""A graph with a saver."""


def look(
    spec: str, checkpointer: str | None, thread_id: str | None, work: Callable[[Kept, Typed], Awaitable[T]]
) -> T:
    """Does something with the threads of a graph that was typed.

    Raises:
        ConfigError: There is no such graph, it has no saver, or there is nothing where the saver should be.
        SaverError: The saver couldn't do it, or has no such thread or checkpoint.
    """
    found = find_graph(spec)

    async def worked() -> T:
        typed = Typed(found.spec, checkpointer, thread_id)
        async with kept_graph(found, typed) as graph:
            return await work(graph, typed)

    with CtrlC():  # heard at once, also while somebody is asked
        return asyncio.run(worked())


@asynccontextmanager
async def kept_graph(found: Found, typed: Typed) -> AsyncGenerator[Kept]:
    """The graph, with a saver; errors of what is done with it get a note that says what to type.

    Raises:
        ConfigError: It has no saver, or there is nothing where the saver should be.
    """
    async with ready_graph(found, typed.checkpointer, must_exist=True) as graph:
        if graph.checkpointer is None:
            raise ConfigError(
                f"{found.spec} has no saver, so there are no threads. Give one: --checkpointer URL"
            )
        try:
            yield graph
        except ThreadNotFoundError as error:
            error.add_note(f"List them: {typed.of_all().command('threads')}")
            raise
        except CheckpointNotFoundError as error:
            error.add_note(f"List them: {typed.command('history')}")
            raise
        except SerializationError as error:
            if typed.thread_id is not None:
                error.add_note(f"in thread {typed.thread_id!r}")
            raise


def at(thread_id: str, checkpoint_id: str | None = None, namespace: str | None = None) -> dict[str, Any]:
    """The config that names a state."""
    return config_of(thread_id, namespace_levels(namespace or ""), checkpoint_id)


async def known_state(
    graph: Kept, thread_id: str, checkpoint_id: str | None = None, namespace: str | None = None
) -> StateSnapshot:
    """The state at a place, with those of nested graphs.

    Raises:
        ThreadNotFoundError: There is no such thread.
        CheckpointNotFoundError: The thread has no such checkpoint.
        ConfigError: It is there, and the nested graph has no state.
    """
    if checkpoint_id is not None or namespace:
        await known_thread(graph, thread_id)
    found = await graph.aget_state(at(thread_id, checkpoint_id, namespace), subgraphs=True)
    if found.metadata is None:
        if namespace:
            raise ConfigError(
                f"--namespace {namespace}: nothing of this nested graph was saved in thread {thread_id!r}"
            )
        raise not_found(thread_id)
    return found


async def known_thread(graph: Kept, thread_id: str) -> None:
    """Does nothing where there is such a thread.

    Raises:
        ThreadNotFoundError: There is none.
    """
    async for _ in graph.aget_state_history(thread_id, limit=1, values=False):
        return
    raise not_found(thread_id)
