"""What a function may call, as far as its names tell: whether it can ask a question or route, and which graphs it runs.

Names in the code are looked up in globals, closures, defaults, modules, classes and the object that a method is bound to,
also in containers, and the functions found there are followed in the same way. This is used only to stay silent (who
may ask a question may end a loop), so finding too much does no harm. Code that looks names up when it runs may call
anything; what a node is handed when it runs is the one thing that isn't followed.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from inspect import getattr_static
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias, cast

from juncture.drivers.context import interrupt
from juncture.graph.builder import StateGraph
from juncture.graph.check_source import UNRESOLVED, Function, function_of, nested, texts_of
from juncture.graph.compiled import CompiledGraph
from juncture.types import Command, Send

Graph: TypeAlias = CompiledGraph[Any, Any, Any, Any] | StateGraph[Any, Any, Any, Any]

_BUDGET: Final = 200
"""How many functions are followed from one node; whoever calls more may call anything."""
_NEAR: Final = 3
"""How many attributes, one of the other, or containers, one in the other, are looked into."""
_ENDING: Final = frozenset({"interrupt", "request_drain", "PARENT"})
"""Names of what ends or pauses a run from inside, or leaves the graph (``Command.PARENT``)."""
_ROUTING: Final = frozenset({"Command", "Send"})
"""Names of what a function that routes by itself makes."""
_DYNAMIC: Final = frozenset(
    {"context", "eval", "exec", "getattr", "globals", "import_module", "locals", "vars", "__import__"}
)
"""Names of what looks up names when it runs, or is given when it runs."""
_OURS: Final = "juncture"


def may_ask(action: Any) -> bool:
    """Whether a node's action may call `interrupt` or leave the graph that it is in, itself or through what it calls."""
    if isinstance(action, (CompiledGraph, StateGraph)):
        return any(may_ask(inner) for inner in callables_of(cast("Graph", action)))
    if function_of(action) is None:
        return True
    for met in _met(action):
        if met is interrupt or met is None:
            return True
        if isinstance(met, (CompiledGraph, StateGraph)) and may_ask(met):
            return True
    return False


def may_route(action: Any) -> bool:
    """Whether a node's action may return a `Command` or a `Send`, which itself or something that it calls has made."""
    return function_of(action) is None or any(
        met is None or met is Command or met is Send or isinstance(met, (Command, Send))
        for met in _met(action)
    )


def graphs_of(action: Any) -> list[CompiledGraph[Any, Any, Any, Any]]:
    """The compiled graphs that a node's function may run."""
    if function_of(action) is None:
        return []
    return [met for met in _met(action) if isinstance(met, CompiledGraph)]


def actions_of(graph: Graph) -> list[Any]:
    """The actions of a graph's nodes; None for one that a factory makes."""
    builder = graph.builder if isinstance(graph, CompiledGraph) else graph
    return [spec.action for spec in builder.nodes.values()]


def callables_of(graph: Graph) -> list[Any]:
    """Everything of the user's that a graph calls: the actions of its nodes, error handlers and routers."""
    builder = graph.builder if isinstance(graph, CompiledGraph) else graph
    fallbacks = [builder.default_fallback, *(spec.error_handler for spec in builder.nodes.values())]
    routers = [branch.path for branches in builder.branches.values() for branch in branches.values()]
    return [*actions_of(graph), *(each for each in fallbacks if each is not None), *routers]


def _met(action: Any) -> Iterator[Any]:
    """Every function, graph and object that the names lead to; None where anything may be called, or at last too many are."""
    queue: list[Any] = [action]
    seen: set[int] = set()
    while queue:
        value = queue.pop()
        function = function_of(value)
        if function is None or id(function.code) in seen:
            continue
        if len(seen) >= _BUDGET:
            yield None
            return
        seen.add(id(function.code))
        for met in (*_named(function), *_bound(value)):
            yield met
            queue += _code_in(met)


def _named(function: Function) -> Iterator[Any]:
    """What the names in a function's code stand for, attributes of such objects included; None for anything."""
    codes = list(nested(function.code))
    names = {name for code in codes for name in (*code.co_names, *code.co_freevars)}
    if not names.isdisjoint(_ENDING):  # imported inside the function, or attributes
        yield interrupt
    if not names.isdisjoint(_ROUTING):
        yield Command
    if not names.isdisjoint(_DYNAMIC) or "configurable" in texts_of(function.code):
        yield None
    objects = [value for name in sorted(names) if (value := function.resolve(name)) is not UNRESOLVED]
    for module in _imported(codes):
        if module is None:
            yield None
        else:
            objects.append(module)
    if function.owner is not None:
        objects.append(function.owner)
    seen: set[int] = set()
    for _ in range(_NEAR):
        further: list[Any] = []
        for value in objects:
            if id(value) not in seen:
                seen.add(id(value))
                yield value
                further += _attributes(value, names)
        objects = further
    yield from objects


def _imported(codes: Iterable[CodeType]) -> Iterator[ModuleType | None]:
    """The modules that code imports when it runs; None for one that isn't known yet."""
    for code in codes:
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME" and step.argval.partition(".")[0] not in sys.stdlib_module_names:
                yield sys.modules.get(step.argval)  # by a relative name it isn't known either


def _attributes(owner: Any, names: set[str]) -> Iterator[Any]:
    """The attributes of an object that have one of the names."""
    callables = (FunctionType, MethodType, BuiltinFunctionType, CompiledGraph, StateGraph)
    if isinstance(owner, callables) or _foreign(owner):
        return
    for name in sorted(names):
        value = getattr_static(owner, name, UNRESOLVED)
        if value is not UNRESOLVED:
            inner = value.fget if isinstance(value, property) else value
            yield getattr(inner, "__func__", inner)  # of a static or class method, the function


def _bound(action: Any) -> Iterator[Any]:
    """What a function is called with whatever happens: defaults, and the arguments of a partial."""
    while isinstance(action, partial):
        bound = cast("partial[Any]", action)
        yield from (*bound.args, *bound.keywords.values())
        action = bound.func
    plain = action.__func__ if isinstance(action, MethodType) else action
    if isinstance(plain, FunctionType):
        yield from (*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values())


def _code_in(value: Any, depth: int = 0) -> list[Any]:
    """The functions to follow into: a user's own, those of a class or container, those that a wrapper such as `task` holds."""
    if isinstance(value, (FunctionType, MethodType)):
        return [] if _foreign(value) else [value]
    if isinstance(value, partial):
        return [cast("partial[Any]", value)]
    if isinstance(value, (ModuleType, CompiledGraph, StateGraph)):
        return []
    if isinstance(value, type):  # that it is called runs some of its methods, by no name
        return (
            []
            if _foreign(value)
            else [part for part in vars(value).values() if isinstance(part, FunctionType)]
        )
    if depth >= _NEAR:
        return []
    held: list[Any] = []
    if type(value) in (dict, list, tuple, set, frozenset):
        parts = cast("Iterable[Any]", value.values() if isinstance(value, Mapping) else value)
        for part in islice(parts, _BUDGET):
            held += _code_in(part, depth + 1)
        return held
    for part in getattr(value, "__dict__", {}).values():
        if isinstance(part, (FunctionType, MethodType, partial, dict, list, tuple)):
            held += _code_in(part, depth + 1)
    return held if _foreign(value) else [*held, value]


def _foreign(value: Any) -> bool:
    """Whether something belongs to Python's own library or to this one, which call nothing of the user's by name."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if not isinstance(module, str):
        module = type(value).__module__
    top = module.partition(".")[0]
    return top == _OURS or (top in sys.stdlib_module_names and top != "__main__")


__all__ = ["actions_of", "callables_of", "graphs_of", "may_ask", "may_route"]
