"""Where a task leads: what routers and ``goto`` return, as node names and sends, checked.

A target is checked where it is named, while its task can still fail, so nothing of a step is committed that leads
nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from juncture.engine.tables import Router, Tables
from juncture.engine.values import admitted
from juncture.errors import RoutingError
from juncture.types import END, START, Send


def resolve(
    tables: Tables,
    source: str,
    chosen: Any,
    router: Router | None,
    targets: list[str],
    sends: list[Send],
) -> None:
    """Adds where `chosen` leads to `targets` and `sends`.

    Args:
        tables: The graph.
        source: The node that routes.
        chosen: What a router returned or a ``goto`` holds: a name, a `Send`, or several.
        router: The router; None for a ``goto``.
        targets: Node names are added here, without `END`.
        sends: Sends are added here, with their arguments copied.

    Raises:
        RoutingError: A target isn't a node, or isn't among those declared.
    """
    if type(chosen) is str or not isinstance(chosen, (list, tuple, set, frozenset)):
        several: Iterable[Any] = (chosen,)
    elif isinstance(chosen, (set, frozenset)):
        several = sorted(chosen, key=str)  # a set has no order of its own that would be the same tomorrow
    else:
        several = chosen
    count = 0
    for target in several:
        count += 1
        if isinstance(target, Send):
            sends.append(_checked_send(tables, source, target))
            continue
        name: Any = target
        if router is not None:
            mapping = router.targets
            if mapping is not None:
                try:
                    name = mapping[target]
                except (KeyError, TypeError):
                    raise _unmapped(source, router, target) from None
            elif target is None or target == START:
                raise RoutingError(
                    f"Branch did not return a valid destination: the router {router.name!r} of node {source!r} "
                    f"returned {target!r}. Return a node's name, END, a Send, or an empty list to go nowhere",
                    node=source,
                )
        if name == END:
            continue
        if name not in tables.nodes:
            raise unknown_target(tables, source, name)
        targets.append(name)
    if not count and router is not None and router.default is not None and router.default != END:
        targets.append(router.default)


def _checked_send(tables: Tables, source: str, send: Send) -> Send:
    if send.node == END:
        raise RoutingError(
            f"node {source!r} returned a Send to END. Cannot send a packet to the END node: "
            "return END, or an empty list",
            node=source,
        )
    if send.node not in tables.nodes:
        raise unknown_target(tables, source, send.node)
    return Send(send.node, admitted(send.arg), timeout=send.timeout)


def unknown_target(tables: Tables, source: str, target: Any) -> RoutingError:
    """The error for a route to something that isn't a node of this graph."""
    if not isinstance(target, str):
        return RoutingError(
            f"node {source!r} routes to {target!r}, a {type(target).__name__}. "
            "A target is a node's name, END or a Send",
            node=source,
        )
    near = get_close_matches(target, tables.nodes, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return RoutingError(
        f"node {source!r} routes to unknown node {target!r}.{hint} Known nodes: {', '.join(sorted(tables.nodes))}",
        node=source,
    )


def _unmapped(source: str, router: Router, target: Any) -> RoutingError:
    known = ", ".join(repr(k) for k in router.targets or ())
    return RoutingError(
        f"the router {router.name!r} of node {source!r} returned {target!r}, which its path_map doesn't have. "
        f"It has: {known}",
        node=source,
    )
