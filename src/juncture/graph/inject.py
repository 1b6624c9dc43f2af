"""Which parameters of a function the engine fills, planned once when the graph is compiled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, cast, get_type_hints

from juncture.engine import tables
from juncture.errors import GraphBuildError

INJECTABLE: Final[dict[str, str]] = {
    "runtime": "runtime",
    "config": "config",
    "writer": "writer",
    "store": "store",
}
"""Parameter name -> what it is filled with. Matched by name, whatever the annotation."""


def injected(
    function: Callable[..., Any], owner: str, *, handles: bool = False, takes: int = 1
) -> dict[str, str]:
    """Parameter -> what fills it. Positional-only and ``*args`` parameters are never filled, nor the first `takes`.

    What `handles` errors may also ask for the ``error``.

    Raises:
        GraphBuildError: A further parameter without a default that nothing fills, or no parameter for the input.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin: it takes the input and nothing else
        return {}
    known = INJECTABLE | {"error": "error"} if handles else INJECTABLE
    plan: dict[str, str] = {}
    taken = 0
    bound = _bound(function)
    for parameter in parameters:
        if parameter.name in bound:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            taken = takes if parameter.kind is parameter.VAR_POSITIONAL else taken
            continue
        if taken < takes and parameter.kind is not parameter.KEYWORD_ONLY:
            taken += 1
        elif parameter.kind is not parameter.POSITIONAL_ONLY and parameter.name in known:
            plan[parameter.name] = known[parameter.name]
            if parameter.name == "store" and _takes_none(parameter):
                plan[parameter.name] = "store, if any"
        elif parameter.default is parameter.empty:
            raise GraphBuildError(
                f"{owner} has a parameter {parameter.name!r} that nothing fills. Besides its input, a function may ask for "
                f"{', '.join(known)}; give anything else a default, or bind it with functools.partial",
                node=None,
            )
    if taken < takes:
        missing = (
            "no positional argument, so its input"
            if takes == 1
            else "one positional argument, so the node's result"
        )
        raise GraphBuildError(f"{owner} takes {missing} can't be given to it")
    return plan


def _takes_none(parameter: inspect.Parameter) -> bool:
    """Whether a parameter can be None: by its default, or by its annotation, which may be a text."""
    hint = parameter.annotation
    return parameter.default is None or "None" in str(hint) or "Optional" in str(hint)


def _bound(function: Any) -> set[str]:
    """The parameters that partials give by name."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        partial = cast("functools.partial[Any]", function)
        names.update(partial.keywords)
        function = partial.func
    return names


def kind_of(function: Any) -> int:
    """How a function is called: `SYNC`, `ASYNC`, `GENERATOR` or `ASYNC_GENERATOR`."""
    while isinstance(function, functools.partial):
        function = function.func
    if not (inspect.isfunction(function) or inspect.ismethod(function) or inspect.isbuiltin(function)):
        function = getattr(function, "__call__", function)  # noqa: B004 - its code, not whether it is callable
    if inspect.iscoroutinefunction(function):
        return tables.ASYNC
    if inspect.isasyncgenfunction(function):
        return tables.ASYNC_GENERATOR
    if inspect.isgeneratorfunction(function):
        return tables.GENERATOR
    return tables.SYNC


def name_of(action: Any) -> str | None:
    """The name of a function or callable object, as it becomes a node's; None if it has none."""
    while isinstance(action, functools.partial):
        action = action.func
    name = getattr(action, "__name__", None)
    if name is None:
        name = getattr(action, "name", None) or type(action).__name__
    return name if isinstance(name, str) else None


def return_hint(function: Any) -> Any:
    """The return annotation, resolved; None if there is none or it can't be resolved."""
    while isinstance(function, functools.partial):
        function = function.func
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = getattr(function, "__call__", function)  # noqa: B004 - its code, not whether it is callable
    try:
        return get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - a name that can't be resolved only means that nothing is known
        return None
