"""What a function's own code shows: keys it reads and writes, and where it leads.

Only what stands there counts: ``state["k"]``, ``state.k``, ``state.get("k")``, ``"k" in state``; returned dict
literals, constant names, `Command` and `Send` with constant names. Whatever else happens to the input or to what is
returned is noted as *the rest*, which may be anything. Whoever concludes something from what is *not* there must look
at that first. Nothing is guessed from names, and no call is followed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR, getattr_static
from types import ModuleType
from typing import Any, Final

from juncture.graph.check_names import bound_in, values_at
from juncture.graph.check_source import UNRESOLVED, Function, Source, function_of, source_of
from juncture.types import Command, Send

_SOFT: Final = frozenset({"get", "pop", "setdefault"})
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES: Final = (*_FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_IMMUTABLE: Final = (ast.Constant, ast.Tuple, ast.Name, ast.Attribute)
_DEPTH: Final = 6
_MAKING: Final = frozenset(
    {"bool", "bytes", "dict", "float", "int", "len", "list", "repr", "round", "set", "sorted", "str", "sum"}
)
_MAKING_METHODS: Final = frozenset(
    {"copy", "format", "join", "lower", "replace", "split", "strip", "title", "upper"}
)
_LOOKING: Final = frozenset(
    {*_SOFT, *_MAKING, "print", "items", "keys", "values", "copy", "snapshot", "value", "contains"}
)
"""Functions and methods that put nothing into what they are given."""
_FRESH: Final = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.BinOp, ast.Compare, ast.UnaryOp,
                 ast.ListComp, ast.DictComp, ast.SetComp)  # fmt: skip


@dataclass(slots=True)
class Shown:
    """What a function's code shows."""

    reads: dict[str, bool] = field(default_factory=dict[str, bool])
    """Key -> whether the function fails without it."""
    attributes: set[str] = field(default_factory=set[str])
    """Attributes of the input that it reads: keys, if its input is an object of a schema's class."""
    reads_rest: bool = False
    """It may read any key of its input."""
    writes: dict[str, bool] = field(default_factory=dict[str, bool])
    """Key -> whether it is written whenever the function returns."""
    writes_rest: bool = False
    """It may write any key."""
    targets: set[str] = field(default_factory=set[str])
    """Names that it leads to: what a router returns, or a goto holds."""
    goto_names: set[str] = field(default_factory=set[str])
    """Those among them that a goto holds."""
    sends: set[str] = field(default_factory=set[str])
    """Nodes that it sends to."""
    gotos: bool = False
    """A returned command has a goto, which may be empty, or a `Send` is returned."""
    surely: bool = False
    """One of those gotos certainly names something, or a `Send` is returned."""
    anywhere: bool = False
    """It leads to what is only known when it runs."""
    several: bool = False
    """It may lead to several nodes at once."""
    together: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    """Lists of several constant names that it returns."""
    nowhere: bool = False
    """It may return that it leads nowhere: an empty list, or nothing."""
    up: bool = False
    """It may return a command for an enclosing graph."""
    up_targets: set[str] = field(default_factory=set[str])
    """Nodes of the enclosing graph that such commands name, sends included."""
    up_anywhere: bool = False
    """Where such a command leads is only known when it runs."""
    hidden: bool = False
    """It returns something that can't be followed, which may be anything: keys, commands, names."""


def read(action: Any) -> Shown | None:
    """What the code of a node's action or a router shows; None if its code can't be read."""
    function = function_of(action)
    if function is None:
        return None
    source = source_of(function)
    return None if source is None else _Reading(function, source).shown


class _Reading:
    """One function being read."""

    def __init__(self, function: Function, source: Source) -> None:
        self.function = function
        self.source = source
        self.shown = Shown()
        self.root: list[ast.AST] = [source.body] if isinstance(source.body, ast.expr) else [*source.body]
        self.all = [node for part in self.root for node in ast.walk(part)]
        code = function.code
        self.parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.assigned = self._assignments()
        names = {name for name in function.code.co_names if name in ("locals", "vars", "eval", "exec")}
        if names or function.parameter is None:
            self.shown.reads_rest = True
        if names:
            self._opaque()
        else:
            self._returns()
        if function.parameter is not None:
            self._reads(function.parameter)

    # ---- names

    def _assignments(self) -> dict[str, list[ast.expr] | None]:
        """Local name -> the expressions that are assigned to it; None if it is bound in any other way as well."""
        found: dict[str, list[ast.expr] | None] = {}
        for name in self.parameters:
            found[name] = None
        for node in self.all:
            found.update(dict.fromkeys(bound_in(node)))
            if not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Load):
                continue
            value = self._assigned_value(node)
            already = found.setdefault(node.id, [])
            if value is None:
                found[node.id] = None
            elif already is not None:
                already.append(value)
        return found

    def _assigned_value(self, name: ast.Name) -> ast.expr | None:
        if self._inner(name):
            return None
        match self.source.parents.get(name):
            case ast.Assign(targets=[ast.Name()], value=value):
                return value
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                return value
            case _:
                return None

    def _inner(self, node: ast.AST) -> bool:
        """Whether a node is inside a function, class or comprehension inside this function."""
        above = self.source.parents.get(node)
        while above is not None:
            if isinstance(above, _SCOPES):
                return True
            above = self.source.parents.get(above)
        return False

    def _constant(self, expression: ast.expr) -> str | None:
        """The text that an expression certainly is."""
        match expression:
            case ast.Constant(value=str() as value):
                return value
            case ast.Name(id=name) if name.isupper() and name not in self.assigned:
                value = self.function.resolve(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute.isupper():
                owner = self.function.resolve(name) if name not in self.assigned else UNRESOLVED
                static = isinstance(owner, (type, ModuleType))
                value = getattr_static(owner, attribute, UNRESOLVED) if static else UNRESOLVED
            case _:
                return None
        return value if type(value) is str else None

    def _called(self, call: ast.Call) -> Any:
        """The object that is called, if its name tells."""
        match call.func:
            case ast.Name(id=name) if name not in self.assigned:
                value = self.function.resolve(name)
                return dict if value is UNRESOLVED and name == "dict" else value
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name not in self.assigned:
                owner = self.function.resolve(name)
                known = isinstance(owner, ModuleType)
                return getattr_static(owner, attribute, UNRESOLVED) if known else UNRESOLVED
            case ast.Subscript(value=ast.Name(id=name)) if (
                name not in self.assigned
            ):  # Command[Literal["a"]](…)
                return self.function.resolve(name)
            case _:
                return UNRESOLVED

    # ---- what is returned

    def _opaque(self) -> None:
        shown = self.shown
        shown.hidden = shown.writes_rest = shown.anywhere = shown.several = shown.nowhere = shown.up = True
        shown.up_anywhere = True

    def _returns(self) -> None:
        if self.function.code.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR):
            self._opaque()
            return
        body = self.source.body
        if isinstance(body, ast.expr):
            returned: list[ast.expr | None] = [body]
        else:
            returned = [
                node.value for node in self.all if isinstance(node, ast.Return) and not self._inner(node)
            ]
            if not _ends(body):
                returned.append(None)
        written: list[dict[str, bool]] = []
        for value in returned:
            for leaf in self._leaves(value):
                written.append({})
                self._returned(leaf, written[-1])
        for keys in written:
            for key in keys:
                self.shown.writes[key] = all(other.get(key, False) for other in written)

    def _leaves(self, expression: ast.expr | None, depth: int = 0) -> Iterator[ast.expr | None]:
        """The alternatives of an expression."""
        match expression:
            case ast.IfExp(body=first, orelse=second) if depth < _DEPTH:
                yield from self._leaves(first, depth + 1)
                yield from self._leaves(second, depth + 1)
            case ast.BoolOp(values=values) if depth < _DEPTH:
                for value in values:
                    yield from self._leaves(value, depth + 1)
            case ast.NamedExpr(value=value) if depth < _DEPTH:
                yield from self._leaves(value, depth + 1)
            case ast.Name(id=name) if depth < _DEPTH and (
                values := values_at(expression, self.assigned, self.source.parents)
            ):
                anew = len(values) < len(self.assigned[name] or ())
                for value in values:
                    for leaf in self._leaves(value, depth + 1):
                        plain = leaf is None or isinstance(leaf, _IMMUTABLE)
                        yield leaf if plain or (self._unchanged(name) and not anew) else expression
            case _:
                yield expression

    def _unchanged(self, name: str) -> bool:
        """Whether a local container is only returned, and has keys set or read."""
        return all(
            self._harmless(node)
            for node in self.all
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        )

    def _harmless(self, use: ast.Name) -> bool:
        match self.source.parents.get(use):
            case ast.Return() | ast.IfExp():
                return not self._inner(use)
            case ast.keyword(arg="update" | "goto") as keyword:
                call = self.source.parents.get(keyword)
                return isinstance(call, ast.Call) and self._called(call) is Command and not self._inner(use)
            case ast.Subscript(value=value, ctx=ast.Load() | ast.Store(), slice=ast.Constant(value=str())):
                return value is use and not self._inner(use)
            case ast.Dict(keys=keys, values=values):
                return any(key is None and value is use for key, value in zip(keys, values, strict=True))
            case _:
                return False

    def _returned(self, leaf: ast.expr | None, keys: dict[str, bool]) -> None:
        """One thing that the function may return."""
        if leaf is None or (isinstance(leaf, ast.Constant) and leaf.value is None):
            self.shown.nowhere = True
        elif (name := self._constant(leaf)) is not None:
            self.shown.targets.add(name)
        elif isinstance(leaf, ast.Dict):
            self._dict(leaf, keys)
        elif isinstance(leaf, (ast.List, ast.Tuple, ast.Set)):
            self._list(leaf.elts, keys)
        elif isinstance(leaf, ast.ListComp):
            self.shown.several = self.shown.nowhere = True
            self._returned(leaf.elt, keys)
            keys.clear()
        elif isinstance(leaf, ast.Call):
            self._call(leaf, keys)
        elif isinstance(leaf, ast.Constant):
            self.shown.writes_rest = True
        else:
            self._opaque()

    def _list(self, parts: list[ast.expr], keys: dict[str, bool]) -> None:
        shown = self.shown
        shown.nowhere = shown.nowhere or not parts
        shown.several = shown.several or len(parts) > 1
        names = tuple(name for part in parts if (name := self._constant(part)) is not None)
        if len(names) > 1:
            shown.together.append(names)
        for part in parts:
            if isinstance(part, ast.Starred):
                self._opaque()
                continue
            for leaf in self._leaves(part):
                self._returned(leaf, keys)

    def _dict(self, literal: ast.Dict, keys: dict[str, bool]) -> None:
        for key, value in zip(literal.keys, literal.values, strict=True):
            if key is None:
                self._spread(value, keys)
            elif (name := self._constant(key)) is not None:
                keys[name] = self._fresh(value, name)
            else:
                self.shown.writes_rest = True
        parent = self.source.parents.get(literal)
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
            if isinstance(target, ast.Name):
                self._set_later(target.id, keys)

    def _spread(self, value: ast.expr, keys: dict[str, bool]) -> None:
        for leaf in self._leaves(value):
            if isinstance(leaf, ast.Dict):
                inner: dict[str, bool] = {}
                self._dict(leaf, inner)
                keys.update(dict.fromkeys(inner, False))
            else:
                self.shown.writes_rest = True

    def _set_later(self, name: str, keys: dict[str, bool]) -> None:
        """The keys that are set in a local dict after it was made."""
        for node in self.all:
            match node:
                case ast.Subscript(value=ast.Name(id=of), ctx=ast.Store(), slice=key) if of == name:
                    text = self._constant(key)
                    if text is None:
                        self.shown.writes_rest = True
                    else:
                        keys.setdefault(text, False)
                case _:
                    pass

    def _fresh(self, value: ast.expr, key: str, depth: int = 0) -> bool:
        """Whether a value is certainly not the very object that was handed out for the key, which would be no write."""
        match value:
            case ast.IfExp(body=first, orelse=second) if depth < _DEPTH:
                return self._fresh(first, key, depth + 1) and self._fresh(second, key, depth + 1)
            case ast.BoolOp(values=values) if depth < _DEPTH:
                return all(self._fresh(part, key, depth + 1) for part in values)
            case ast.Await(value=inner) if depth < _DEPTH:
                return self._fresh(inner, key, depth + 1)
            case ast.Name(id=name) if depth < _DEPTH and (values := self.assigned.get(name)):
                return all(self._fresh(part, key, depth + 1) for part in values)
            case ast.Subscript(value=ast.Name(id=name), slice=other) if name == self.function.parameter:
                text = self._constant(other)
                return text is not None and text != key
            case ast.Attribute(value=ast.Name(id=name), attr=other) if name == self.function.parameter:
                return other != key
            case ast.Call():
                return self._makes(value) or not self._given(value, key)
            case _:
                return isinstance(value, _FRESH)

    def _makes(self, call: ast.Call) -> bool:
        """Whether a call makes a new object, or an immutable one, whatever it is given."""
        match call.func:
            case ast.Name(id=name):
                return self._is_builtin(name, _MAKING)
            case ast.Attribute(attr=method):
                return method in _MAKING_METHODS
            case _:
                return False

    def _given(self, expression: ast.expr, key: str, depth: int = 0) -> bool:
        """Whether the object that was handed out for a key may be in an expression, so that a call may give it back."""
        names = [node for node in ast.walk(expression) if isinstance(node, ast.Name)]
        return depth >= _DEPTH or any(self._may_be_given(name, key, depth) for name in names)

    def _may_be_given(self, name: ast.Name, key: str, depth: int) -> bool:
        if name.id != self.function.parameter:
            values = self.assigned.get(name.id, [])
            if values is None:  # bound by a loop, say; or a further parameter, which isn't the state
                return name.id not in self.parameters
            return any(self._given(value, key, depth + 1) for value in values)
        parent = self.source.parents.get(name)
        match parent:
            case ast.Subscript(value=value, slice=other) if value is name:
                return self._constant(other) in (None, key)
            case ast.Attribute(attr=attribute):
                call = self.source.parents.get(parent)
                if isinstance(call, ast.Call) and call.func is parent:
                    of = self._constant(call.args[0]) if call.args and attribute in _SOFT else None
                    return of in (None, key)
                return attribute == key
            case _:
                return True

    def _call(self, call: ast.Call, keys: dict[str, bool]) -> None:
        called = self._called(call)
        if called is dict and not call.args and all(k.arg is not None for k in call.keywords):
            keys.update({k.arg: self._fresh(k.value, k.arg) for k in call.keywords if k.arg is not None})
        elif called is Command:
            self._command(call, keys)
        elif called is Send and (call.args or any(k.arg == "node" for k in call.keywords)):
            node = call.args[0] if call.args else next(k.value for k in call.keywords if k.arg == "node")
            self.shown.gotos = self.shown.surely = self.shown.several = True
            self._send(node)
        else:
            self._opaque()

    def _send(self, node: ast.expr) -> None:
        for leaf in self._leaves(node):
            name = None if leaf is None else self._constant(leaf)
            if name is None:
                self.shown.anywhere = True
            else:
                self.shown.sends.add(name)

    def _command(self, call: ast.Call, keys: dict[str, bool]) -> None:
        given = {k.arg: k.value for k in call.keywords}
        graph = given.get("graph")
        if call.args or None in given:
            self._opaque()
            return
        if graph is not None and not (isinstance(graph, ast.Constant) and graph.value is None):
            self._command_above(graph, given.get("goto"))
            return
        update, goto = given.get("update"), given.get("goto")
        if update is not None:
            for leaf in self._leaves(update):
                if isinstance(leaf, (ast.Dict, ast.Call)) and self._is_dict(leaf):
                    self._returned(leaf, keys)
                elif not (isinstance(leaf, ast.Constant) and leaf.value is None):
                    self.shown.writes_rest = True
        if goto is not None:
            self._goto(goto)

    def _command_above(self, graph: ast.expr, goto: ast.expr | None) -> None:
        """A command for an enclosing graph; only of the nearest is it known that its nodes are meant."""
        own, above = self.shown, Shown()
        own.up = True
        if goto is None:
            return
        self.shown = above
        self._goto(goto)
        self.shown = own
        own.up_targets |= above.targets | above.sends
        own.up_anywhere |= above.anywhere or self._constant(graph) != Command.PARENT

    def _is_dict(self, leaf: ast.Dict | ast.Call) -> bool:
        return isinstance(leaf, ast.Dict) or (self._called(leaf) is dict and not leaf.args)

    def _goto(self, goto: ast.expr) -> None:
        shown = self.shown
        for leaf in self._leaves(goto):
            match leaf:
                case ast.List(elts=[]) | ast.Tuple(elts=[]):
                    continue
                case ast.List(elts=parts) | ast.Tuple(elts=parts):
                    shown.several = shown.several or len(parts) > 1
                    names = tuple(name for part in parts if (name := self._constant(part)) is not None)
                    if len(names) > 1:
                        shown.together.append(names)
                    inner = parts
                case ast.ListComp(elt=elt):
                    shown.several = True
                    inner = [elt]
                case ast.expr():
                    inner = [leaf]
                case _:
                    inner = []
            for part in inner:
                self._goto_one(part)

    def _goto_one(self, part: ast.expr) -> None:
        for leaf in self._leaves(part):
            self.shown.gotos = True
            if leaf is not None and (name := self._constant(leaf)) is not None:
                self.shown.targets.add(name)
                self.shown.goto_names.add(name)
                self.shown.surely = True
            elif isinstance(leaf, ast.Call) and self._called(leaf) is Send:
                self._call(leaf, {})
            else:
                self.shown.anywhere = self.shown.several = True

    # ---- what is read

    def _reads(self, parameter: str) -> None:
        shown = self.shown
        named = [node for node in self.all if isinstance(node, ast.Name) and node.id == parameter]
        bound = [node for node in named if not isinstance(node.ctx, ast.Load)]
        bound += [node for node in self.all if parameter in bound_in(node)]
        shown.reads_rest = shown.reads_rest or bool(bound)
        if not all(map(self._inner, bound)):
            return  # from some place on, the name stands for something else
        filled = any(map(self._fills, named))
        for node in named:
            if bound and self._inner(node):
                continue  # it may be the inner one
            used = self._use(node)
            if used is None:
                shown.reads_rest = True
                continue
            key, needed = used
            if key:
                shown.reads[key] = shown.reads.get(key, True) and needed and not filled

    def _fills(self, name: ast.Name) -> bool:
        """Whether a use of the input may put keys into it: it is set in, or handed to somebody who may do that."""
        parent = self.source.parents.get(name)
        match parent:
            case ast.Subscript(value=value, ctx=context) if value is name:
                return not isinstance(context, ast.Load)
            case ast.Attribute(attr=attribute):
                called = self.source.parents.get(parent)
                return isinstance(called, ast.Call) and called.func is parent and attribute not in _LOOKING
            case ast.Call(func=ast.Name(id=function)):
                return not self._is_builtin(function, _LOOKING)
            case (
                ast.Compare()
                | ast.Return()
                | ast.Dict()
                | ast.FormattedValue()
                | ast.For()
                | ast.comprehension()
            ):
                return False
            case _:
                return True

    def _is_builtin(self, name: str, among: frozenset[str]) -> bool:
        """Whether a name is Python's own, and one of some."""
        return name in among and name not in self.assigned and self.function.resolve(name) is UNRESOLVED

    def _use(self, name: ast.Name) -> tuple[str, bool] | None:
        """The key that a use of the input reads, and whether it must be there; None for any other use."""
        parents = self.source.parents
        parent = parents.get(name)
        match parent:
            case ast.Subscript(value=value, slice=key) if value is name:
                text = self._constant(key)
                if text is None:
                    return None
                return (text, not self._guarded(parent)) if isinstance(parent.ctx, ast.Load) else ("", False)
            case ast.Attribute(attr=attribute):
                call = parents.get(parent)
                if isinstance(call, ast.Call) and call.func is parent:
                    text = self._constant(call.args[0]) if call.args and attribute in _SOFT else None
                    return None if text is None else (text, False)
                if isinstance(parent.ctx, ast.Load):
                    self.shown.attributes.add(attribute)
                    return "", False
                return None
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
                text = self._constant(left)
                return None if text is None else (text, False)
            case _:
                return None

    def _guarded(self, node: ast.AST) -> bool:
        """Whether it is inside a `try`, which may be there for its absence."""
        above = self.source.parents.get(node)
        while above is not None:
            if isinstance(above, (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)):
                return True
            above = self.source.parents.get(above)
        return False


def _ends(body: list[ast.stmt]) -> bool:
    """Whether statements certainly return or raise."""
    match body[-1] if body else None:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=first, orelse=second):
            return _ends(first) and _ends(second)
        case _:
            return False


Read = Callable[[Any], Shown | None]

__all__ = ["Read", "Shown", "read"]
