"""The policies of a node, as they are given: checked, and made into what the tables hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from juncture.errors import GraphBuildError
from juncture.types import Timeout, TimeoutPolicy, timeout_policy


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


def _of(node: str | None) -> str:
    return " of all nodes" if node is None else f" of node {node!r}"


__all__ = ["read_fallback", "read_timeout"]
