"""The policies of a node, as they are given: checked, and made into what the tables hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from juncture.engine.tables import ASYNC_GENERATOR, GENERATOR, GRAPH, CacheRule, Tables
from juncture.errors import ConfigError, GraphBuildError
from juncture.types import CachePolicy, Timeout, TimeoutPolicy, timeout_policy

if TYPE_CHECKING:
    from juncture.cache.base import Cache


def read_timeout(given: Timeout | None, node: str | None, *, inline: bool = False) -> TimeoutPolicy | None:
    """The time limit of a node, or of all where none is named.

    Raises:
        GraphBuildError: It isn't one, or the node can't have one.
    """
    try:
        policy = timeout_policy(given)
    except (TypeError, ValueError) as error:
        raise GraphBuildError(f"the time limit{_of(node)} can't be used: {error}", node=node) from error
    if policy is not None and inline:
        raise GraphBuildError(
            f"node {node!r} has a time limit and inline=True: it blocks the event loop that would have to stop it. Leave one out",
            node=node,
        )
    return policy


def read_fallback(given: Any, node: str | None) -> Callable[..., Any] | None:
    """The error handler of a node, or of all where none is named.

    Raises:
        GraphBuildError: It isn't a function.
    """
    if given is not None and (not callable(given) or hasattr(given, "add_node") or hasattr(given, "tables")):
        raise GraphBuildError(
            f"the error handler{_of(node)} is {given!r}, a {type(given).__name__}; it must be a function",
            node=node,
        )
    return cast("Callable[..., Any] | None", given)


def read_cache_policy(given: Any, node: str | None, *, inline: bool = False) -> CachePolicy | None:
    """The cache policy of a node, or of all where none is named.

    Raises:
        GraphBuildError: It isn't one, or the node can't have one.
    """
    if given is None:
        return None
    if not isinstance(given, CachePolicy):
        raise GraphBuildError(
            f"the cache policy{_of(node)} is {given!r}; it must be a CachePolicy", node=node
        )
    if inline:
        raise GraphBuildError(
            f"node {node!r} has a cache policy and inline=True: a cache would block the event loop. Leave one out",
            node=node,
        )
    return given


def cache_rule(policy: CachePolicy | None, owner: Sequence[str], kind: int, code: Any) -> CacheRule | None:
    """How results of a function are kept; `owner` names the graph and the node.

    Raises:
        GraphBuildError: It is a generator, whose pieces nobody would see.
    """
    if policy is None:
        return None
    if kind in (GENERATOR, ASYNC_GENERATOR, GRAPH):
        what = "a graph: cache the nodes in it" if kind == GRAPH else "a generator: return one value"
        raise GraphBuildError(
            f"node {owner[-1]!r} has a cache policy and is {what}, or call it in a function that has one",
            node=owner[-1],
        )
    import json

    return CacheRule(
        policy,
        json.dumps(owner),
        code,
        policy.key_func or _whole,
        cast("float | None", policy.ttl),  # a policy keeps spans as seconds
    )


def opened_cache(given: Any) -> tuple[Cache | None, bool]:
    """The cache that is given or named, and whether it was opened here.

    Raises:
        GraphBuildError: It isn't one.
    """
    if given is None:
        return None, False
    from juncture.cache import Cache, open_cache

    if isinstance(given, str):
        return open_cache(given), True
    if not isinstance(given, Cache):
        raise GraphBuildError(
            f'cache={given!r} is no cache. Give one, or the URL of one, as in cache="memory:"'
        )
    return given, False


def cache_spaces(graph: str, tables: Tables, nodes: Sequence[str] | None) -> list[str]:
    """Where results of these nodes are kept, or of all.

    Raises:
        ConfigError: There is no such node.
    """
    import json

    names = list(tables.nodes) if nodes is None else [nodes] if isinstance(nodes, str) else list(nodes)
    for name in names:
        if name not in tables.nodes:
            raise ConfigError(f"there is no node {name!r}. Known nodes: {', '.join(sorted(tables.nodes))}")
    return [json.dumps([graph, name]) for name in names]


def _whole(given: Any) -> Any:
    from juncture.graph.overall_state import OverAllState

    return dict(given) if isinstance(given, OverAllState) else given


def _of(node: str | None) -> str:
    return " of all nodes" if node is None else f" of node {node!r}"


__all__ = ["cache_rule", "cache_spaces", "opened_cache", "read_cache_policy", "read_fallback", "read_timeout"]
