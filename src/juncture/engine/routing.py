"""Where a task leads: what routers and ``goto`` return, as node names and sends, checked.

A target is checked where it is named, while its task can still fail, so nothing of a step is committed that leads
nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, cast

from juncture.engine.tables import Router, Tables
from juncture.engine.values import admitted
from juncture.errors import RoutingError
from juncture.types import END, START, Send


@dataclass(slots=True)
class Routes:
    """Where a task leads besides its edges."""

    targets: list[str] = field(default_factory=list[str])
    """Node names, without `END`."""
    sends: list[Send] = field(default_factory=list[Send])
    """With their arguments copied."""
    ignored: list[str] = field(default_factory=list[str])
    """Lenient graphs: what led nowhere, as warnings."""


def resolve(tables: Tables, source: str, chosen: Any, router: Router | None, into: Routes) -> None:
    """Adds where `chosen` leads.

    Args:
        tables: The graph.
        source: The node that routes.
        chosen: What a router returned or a ``goto`` holds: a name, a `Send`, or several.
        router: The router; None for a ``goto``.
        into: Takes the targets.

    Raises:
        RoutingError: A target isn't a node (in a lenient graph that is only noted), or isn't among those declared.
    """
    if isinstance(chosen, (set, frozenset)):
        # A set has no order of its own that would be the same tomorrow.
        several: Sequence[Any] = sorted(cast("frozenset[Any]", chosen), key=str)
    else:
        several = cast("Sequence[Any]", chosen) if isinstance(chosen, (list, tuple)) else (chosen,)
    for target in several:
        try:
            if isinstance(target, Send):
                into.sends.append(_checked_send(tables, source, target))
            elif (name := _named(tables, source, target, router)) != END:
                into.targets.append(name)
        except _UnknownTargetError as error:
            if tables.strict:
                raise
            into.ignored.append(f"{error} It is ignored")
    if not several and router is not None and router.default not in (None, END):
        into.targets.append(router.default)


class _UnknownTargetError(RoutingError):
    """A target that isn't a node of this graph."""


def _named(tables: Tables, source: str, target: Any, router: Router | None) -> str:
    """The node that one target stands for, or `END`."""
    name: Any = target
    if router is not None:
        if router.targets is not None:
            try:
                name = router.targets[target]
            except (KeyError, TypeError):
                raise _unmapped(source, router, target) from None
        elif target is None or target == START:
            raise RoutingError(
                f"Branch did not return a valid destination: the router {router.name!r} of node {source!r} "
                f"returned {target!r}. Return a node's name, END, a Send, or an empty list to go nowhere",
                node=source,
            )
    if not isinstance(name, str) or (name != END and name not in tables.nodes):
        raise unknown_target(tables, source, name)
    return name


def _checked_send(tables: Tables, source: str, send: Send) -> Send:
    if send.node == END:
        raise RoutingError(
            f"node {source!r} returned a Send to END. Cannot send a packet to the END node: "
            "return END, or an empty list",
            node=source,
        )
    if send.node not in tables.nodes:
        raise unknown_target(tables, source, send.node)
    if send.timeout is not None and tables.nodes[send.node].inline:
        raise RoutingError(
            f"node {source!r} returned a Send to {send.node!r} with a time limit, and that node is declared inline=True: it "
            "blocks the event loop that would have to stop it. Leave one out",
            node=source,
        )
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
    return _UnknownTargetError(
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
