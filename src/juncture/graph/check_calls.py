"""What a function may call, as far as its names tell: whether it can ask a question, and which graphs it runs.

Names in the code are looked up in globals, closures, modules, classes and the object that a method is bound to, and
the functions found there are followed in the same way. This is used only to stay silent (who may ask a question may
end a loop), so finding too much does no harm, and a name that can't be looked up is the one thing that it may miss.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import getattr_static
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias, cast

from juncture.drivers.context import interrupt
from juncture.graph.builder import StateGraph
from juncture.graph.check_source import UNRESOLVED, Function, function_of, nested
from juncture.graph.compiled import CompiledGraph

Graph: TypeAlias = CompiledGraph[Any, Any, Any, Any] | StateGraph[Any, Any, Any, Any]

_BUDGET: Final = 200
"""How many functions are followed from one node; whoever calls more may call anything."""
_ENDING: Final = frozenset({"interrupt", "request_drain"})
"""Names of what ends or pauses a run from inside."""
_OURS: Final = "juncture"


def may_ask(action: Any) -> bool:
    """Whether a node's action may call `interrupt`, itself or through what it calls."""
    if isinstance(action, (CompiledGraph, StateGraph)):
        return any(may_ask(inner) for inner in actions_of(cast("Graph", action)))
    if function_of(action) is None:
        return True
    for met in _met(action):
        if met is interrupt or met is None:
            return True
        if isinstance(met, (CompiledGraph, StateGraph)) and may_ask(met):
            return True
    return False


def graphs_of(action: Any) -> list[CompiledGraph[Any, Any, Any, Any]]:
    """The compiled graphs that a node's function may run."""
    if function_of(action) is None:
        return []
    return [met for met in _met(action) if isinstance(met, CompiledGraph)]


def actions_of(graph: Graph) -> list[Any]:
    """The actions of a graph's nodes; None for one that a factory makes."""
    nodes = graph.builder.nodes if isinstance(graph, CompiledGraph) else graph.nodes
    return [spec.action for spec in nodes.values()]


def _met(action: Any) -> Iterator[Any]:
    """Every function, graph and object that the names lead to; None at last if there are too many."""
    queue: list[Any] = [action]
    seen: set[int] = set()
    while queue:
        function = function_of(queue.pop())
        if function is None or id(function.code) in seen:
            continue
        if len(seen) >= _BUDGET:
            yield None
            return
        seen.add(id(function.code))
        for value in _named(function):
            yield value
            queue += _code_in(value)


def _named(function: Function) -> Iterator[Any]:
    """What the names in a function's code stand for, attributes of such objects included."""
    names = {name for code in nested(function.code) for name in (*code.co_names, *code.co_freevars)}
    if not names.isdisjoint(_ENDING):  # imported inside the function, or attributes
        yield interrupt
    objects = [value for name in sorted(names) if (value := function.resolve(name)) is not UNRESOLVED]
    yield from objects
    if function.owner is not None:
        objects.append(function.owner)
    for owner in objects:
        if isinstance(
            owner, (FunctionType, MethodType, BuiltinFunctionType, CompiledGraph, StateGraph)
        ) or _foreign(owner):
            continue
        for name in sorted(names):
            value = getattr_static(owner, name, UNRESOLVED)
            if value is not UNRESOLVED:
                yield getattr(value, "__func__", value)  # of a static or class method, the function


def _code_in(value: Any) -> list[Any]:
    """The functions to follow into: a user's own function, or one that a wrapper such as `task` holds."""
    if isinstance(value, (FunctionType, MethodType)):
        return [] if _foreign(value) else [value]
    if isinstance(value, (type, ModuleType, CompiledGraph, StateGraph)):
        return []
    held = [part for part in getattr(value, "__dict__", {}).values() if isinstance(part, FunctionType)]
    return [*(part for part in held if not _foreign(part)), *([] if _foreign(value) else [value])]


def _foreign(value: Any) -> bool:
    """Whether something belongs to Python's own library or to this one, which call nothing of the user's by name."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if not isinstance(module, str):
        module = type(value).__module__
    top = module.partition(".")[0]
    return top == _OURS or (top in sys.stdlib_module_names and top != "__main__")


__all__ = ["actions_of", "graphs_of", "may_ask"]
