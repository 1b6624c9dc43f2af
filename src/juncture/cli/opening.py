"""What a command works on: a graph that is ready to run, and the saver that a URL names."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from warnings import catch_warnings

from juncture.cli.loading import Found, Graph
from juncture.cli.saying import say
from juncture.errors import ConfigError, GraphBuildError
from juncture.graph.compiled import CompiledGraph
from juncture.savers import Saver, open_saver
from juncture.savers.opening import ON_DISK


def open_checkpointer(url: str, *, must_exist: bool = False) -> Saver:
    """The saver that ``--checkpointer`` names; whoever opens it closes it.

    Args:
        url: As it was typed.
        must_exist: Something was kept there before: a file that is missing isn't made.

    Raises:
        ConfigError: The URL names none, or nothing is there.
    """
    if must_exist:
        _check_kept(url)
    try:
        return open_saver(url)
    except (GraphBuildError, ConfigError) as error:
        raise ConfigError(f"--checkpointer: {error}") from error


def _check_kept(url: str) -> None:
    """Refuses a URL at which nothing can have been kept; one that is wrong is left to `open_saver`."""
    scheme, _, rest = url.partition(":")
    path = unquote(rest.partition("?")[0])
    if url == "memory:":
        raise ConfigError(
            "--checkpointer memory: is empty whenever a command begins: name where threads were kept"
        )
    if scheme in ON_DISK and path and not path.startswith("//") and not Path(path).exists():
        raise ConfigError(
            f"--checkpointer {url}: there is nothing at {path!r}, so no threads were kept there. A relative path starts at "
            f"{str(Path.cwd())!r}"
        )


@asynccontextmanager
async def ready_graph(
    found: Found, checkpointer: str | None, *, must_exist: bool = False
) -> AsyncGenerator[CompiledGraph[Any, Any, Any, Any]]:
    """The graph, compiled; with the saver that the URL names, if one is given, in place of its own.

    Afterwards both are closed.

    Args:
        found: The graph.
        checkpointer: The URL.
        must_exist: As for `open_checkpointer`.

    Raises:
        ConfigError: The graph can't be built or takes no saver, or the URL names none.
    """
    saver = None if checkpointer is None else open_checkpointer(checkpointer, must_exist=must_exist)
    try:
        made = await found.graph()
        with _compiled(found.spec, made, saver) as graph:
            yield graph if saver is None or graph is not made else _kept_by(saver, graph, found.spec)
    finally:
        if saver is not None:
            saver.close()


def _compiled(spec: str, graph: Graph, saver: Saver | None) -> CompiledGraph[Any, Any, Any, Any]:
    """The graph itself if it was compiled; otherwise compiled with the saver."""
    if isinstance(graph, CompiledGraph):
        return graph
    with catch_warnings(record=True) as warned:  # they would name a line of this function
        try:
            made = graph.compile(saver, name=spec.rpartition(":")[2])
        except GraphBuildError as error:
            raise ConfigError(f"{spec}: the graph can't be built: {error}") from error
    for each in warned:
        say(f"warning: {each.message}")
    return made


def _kept_by(
    saver: Saver, graph: CompiledGraph[Any, Any, Any, Any], spec: str
) -> CompiledGraph[Any, Any, Any, Any]:
    """A compiled graph with another saver than its own, and everything else as it was compiled."""
    if not graph.tables.persist:
        raise ConfigError(
            f"{spec} was compiled with checkpointer=False, so that it keeps nothing: leave --checkpointer out"
        )
    other = copy(graph)
    other.checkpointer = saver
    return other
