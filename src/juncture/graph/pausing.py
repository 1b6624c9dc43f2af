"""Where a graph pauses from outside its nodes' code, from what users give to what the engine takes.

Lists of nodes and predicates come from `compile` and from calls; functions of single nodes from `add_node`. A predicate or
such a function becomes a node of its own, which is never in the graph: it is handed what it asks for, and what it returns
says whether the run pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from juncture.engine.tables import ASYNC, SYNC, Node, Pauses, Places, Router
from juncture.engine.task import Task, input_of
from juncture.engine.values import copied
from juncture.errors import GraphBuildError
from juncture.graph.inject import injected, kind_of

if TYPE_CHECKING:
    from juncture.graph.specs import NodeSpec

Names: TypeAlias = Sequence[str] | Literal["*"] | Callable[..., Any]
"""Nodes; ``"*"`` for all; or a function of the state that says whether to pause, whichever nodes are concerned."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where to pause, as it was given."""

    before: Names | None = None
    after: Names | None = None
    route: Names | None = None

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.route)

    def nodes(self) -> set[str]:
        """The nodes that are named; ``*`` for all, and for what a predicate decides."""
        found: set[str] = set()
        for names in (self.before, self.after, self.route):
            if callable(names):
                found.add("*")
            else:
                found.update(names or ())
        return found


def pauses_of(
    wanted: Wanted,
    asker: Callable[[Callable[..., Any], str], Node],
    compiled: Pauses | None = None,
    *,
    hooks: bool = False,
) -> Pauses | None:
    """Where to pause; None for nowhere.

    Args:
        wanted: What was given; what wasn't is as compiled.
        asker: Makes a predicate's node, given the predicate and what it is called in messages.
        compiled: What the graph was compiled with.
        hooks: Some node says for itself where to pause.

    Raises:
        GraphBuildError: A predicate can't be called.
    """
    compiled = compiled or (Pauses(hooks=True) if hooks else None)
    found = Pauses() if compiled is None else compiled
    for field, option, names in (
        ("before", "interrupt_before", wanted.before),
        ("after", "interrupt_after", wanted.after),
        ("route", "interrupt_before_route", wanted.route),
    ):
        if names is None:
            continue
        places = Places(asks=asker(names, option)) if callable(names) else Places(frozenset(_listed(names)))
        found = replace(found, **{field: places})
    return found if compiled is not None or found.before or found.after or found.route else None


def _listed(names: Sequence[str]) -> Sequence[str]:
    return ("*",) if names == "*" else names


def predicate_node(router: Router, option: str) -> Node:
    """The node of a predicate that was read as a router would be."""
    _check_kind(router.kind, f"the predicate given as {option}")
    return Node(
        option,
        router.kind,
        router.call,
        router.project,
        copied,
        inject=router.inject,
        managed=router.managed,
        inline=True,
    )


def add_hooks(node: Node, spec: NodeSpec) -> None:
    """Gives a node the functions that say whether to pause before and after it."""
    node.route_later = spec.interrupt_before_route
    if spec.interrupt_before is not None:
        node.ask_before = _hook(node, spec.interrupt_before, "interrupt_before", 1)
    if spec.interrupt_after is not None:
        node.ask_after = _hook(node, spec.interrupt_after, "interrupt_after", 2)


def _hook(node: Node, function: Callable[..., Any], option: str, takes: int) -> Node:
    owner = f"{option} of node {node.name!r}"
    if not callable(function):
        raise GraphBuildError(
            f"{owner} is a {type(function).__name__}; it is a function that returns what to ask, or None. Names of nodes are "
            "given to compile",
            node=node.name,
        )
    kind = kind_of(function)
    _check_kind(kind, owner)
    call = function
    if takes == 2:

        def call(given: tuple[Any, Any], **asked: Any) -> Any:
            return function(given[0], given[1], **asked)

    def given(sent: tuple[Task, Any]) -> Any:
        task, written = sent
        state = input_of(task, None)
        return state if takes == 1 else (state, written)

    inject = injected(function, owner, takes=takes)
    return Node(f"{owner}", kind, call, node.project, given, inject=inject, retry=node.retry, inline=True)


def _check_kind(kind: int, owner: str) -> None:
    if kind not in (SYNC, ASYNC):
        raise GraphBuildError(f"{owner} is a generator; it must be a function, sync or async")


__all__ = ["Names", "Wanted", "add_hooks", "pauses_of", "predicate_node"]
