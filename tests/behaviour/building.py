"""Short ways to the graphs that the tests of behaviour need."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from juncture import END, START, CompiledGraph, InvalidUpdateError, StateGraph

Node = Callable[..., Any]


def builder(schema: Any, nodes: Mapping[str, Any], *edges: tuple[Any, Any], **options: Any) -> StateGraph:
    """A graph of these nodes and edges; a list as the first of an edge is a join."""
    graph = StateGraph(schema, **options)
    for name, action in nodes.items():
        graph.add_node(name, action)
    for start, end in edges:
        graph.add_edge(start, end)
    return graph


def compiled(
    schema: Any, nodes: Mapping[str, Any], *edges: tuple[Any, Any], saver: Any = None, **options: Any
) -> CompiledGraph:
    """The same, compiled."""
    return builder(schema, nodes, *edges, **options).compile(saver)


def chain_edges(names: list[str]) -> list[tuple[str, str]]:
    """START → each → END."""
    return list(zip([START, *names], [*names, END], strict=True))


def chain(
    schema: Any, /, *, saver: Any = None, options: Mapping[str, Any] | None = None, **nodes: Any
) -> CompiledGraph:
    """Nodes one after another, named by the keywords."""
    return compiled(schema, nodes, *chain_edges(list(nodes)), saver=saver, **(options or {}))


def fan(
    schema: Any, /, *, saver: Any = None, options: Mapping[str, Any] | None = None, **nodes: Any
) -> CompiledGraph:
    """Nodes side by side in the first step."""
    return compiled(schema, nodes, *[(START, name) for name in nodes], saver=saver, **(options or {}))


def nothing(state: Any) -> None:
    """A node that writes nothing."""


def wrote(key: str, value: Any) -> Node:
    """A node that writes one value to one key."""

    def write(state: Any) -> dict[str, Any]:
        return {key: value}

    return write


def seen_by(seen: list[Any]) -> Node:
    """A node that notes what it is handed, copied deeply, and writes nothing."""
    import copy

    def look(state: Any) -> None:
        seen.append(copy.deepcopy(state))

    return look


def thread(name: str = "t", **more: Any) -> dict[str, Any]:
    """A config that names a thread."""
    return {"configurable": {"thread_id": name}, **more}


def place(error: InvalidUpdateError) -> tuple[str | None, str | None]:
    """The node and the key that an error names, both as attributes and in what is printed of it."""
    said = "\n".join([str(error), *getattr(error, "__notes__", [])])
    for name in (error.node, error.key):
        assert name is None or name == START or repr(name) in said, said
    return error.node, error.key


def shown(value: Any) -> str:
    """A value as it stands in a test's id: the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
