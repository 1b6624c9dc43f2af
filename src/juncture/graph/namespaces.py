"""Which graph a namespace of a thread is of.

A level names a node that is a graph (by its task, or by its name if it has a memory of its own), or a graph that a node's
function called: ``task/name.input.occurrence``, where other calls may stand in the middle, or the name alone.
The latter is found by what the names in the function's code stand for; code that looks graphs up when it runs hides them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from juncture.engine.tables import GRAPH, Node, Tables
from juncture.errors import ConfigError
from juncture.persistence.format import namespace_text

if TYPE_CHECKING:
    from juncture.graph.compiled import CompiledGraph


def nested_graph(tables: Tables, namespace: tuple[str, ...]) -> tuple[Tables, Node | None]:
    """The tables of the graph that a namespace is of, and the node that it is; None if it is the one called, or a function's.

    Raises:
        ConfigError: There is none.
    """
    node: Node | None = None
    for level in namespace:
        name = level if level in tables.nodes else level.rpartition(":")[0]
        node = tables.nodes.get(name)
        if node is not None and node.kind == GRAPH and node.graph is not None:
            tables = node.graph
            continue
        called = _called(tables, level)
        if called is None:
            raise ConfigError(
                f"Subgraph {name or level} not found: the namespace {namespace_text(namespace)!r} names no nested graph of "
                "this one, and none that a function of its nodes is seen to call"
            )
        tables, node = called.tables, None
    return tables, node


def nested_tables(tables: Tables, namespace: tuple[str, ...]) -> Tables:
    """The tables of the graph that a namespace is of.

    Raises:
        ConfigError: There is none.
    """
    return nested_graph(tables, namespace)[0]


def _called(tables: Tables, level: str) -> CompiledGraph[Any, Any, Any, Any] | None:
    """The graph that a function called; None if it can't be told, or could be several."""
    from juncture.graph.check_calls import graphs_of  # it looks at compiled graphs, which are made of this

    of_call = level.rpartition("/")[2]
    wanted = of_call.rsplit(".", 2)[0] if "/" in level else level
    found: dict[int, CompiledGraph[Any, Any, Any, Any]] = {}
    for name, node in tables.nodes.items():
        if node.call is not None and ("/" not in level or level.startswith(f"{name}:")):
            graphs = graphs_of(node.call)
            found |= {id(graph): graph for graph in graphs if graph.name == wanted}
    return next(iter(found.values())) if len(found) == 1 else None


__all__ = ["nested_graph", "nested_tables"]
