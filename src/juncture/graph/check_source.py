"""From a function to the syntax tree of its source, or to nothing at all.

The tree is used only if it is beyond doubt that it is the function's: it is cut out of the file at the positions that
the function's own bytecode names, its parameters must be the code's, and each short text in the code's constants must
occur in the tree. A file that was edited since, a function without source (from `exec`, a prompt, a builtin) and a
function in disguise (a wrapper is read as the wrapper that it is) give nothing or are read as what they are.

Nothing is imported, called or evaluated.
"""

from __future__ import annotations

import ast
import functools
import linecache
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import getattr_static
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, cast

UNRESOLVED: Final = object()
"""What a name stands for that can't be known without running the function."""


@dataclass(slots=True)
class Function:
    """A plain function, however it was given to the graph."""

    code: CodeType
    globals: dict[str, Any]
    closure: tuple[Any, ...]
    parameter: str | None
    """The parameter that takes the input; None if it isn't clear which."""
    owner: Any = None
    """What a method is bound to."""

    def resolve(self, name: str) -> Any:
        """The object that a global name or a closure's variable stands for now; `UNRESOLVED` for anything else."""
        if name in self.code.co_freevars:
            try:
                return self.closure[self.code.co_freevars.index(name)].cell_contents
            except ValueError:  # not filled yet
                return UNRESOLVED
        if name in self.code.co_varnames or name in self.code.co_cellvars:
            return UNRESOLVED
        return self.globals.get(name, UNRESOLVED)


@dataclass(slots=True)
class Source:
    """A function's syntax tree."""

    body: list[ast.stmt] | ast.expr
    """The statements of a function, or what a lambda returns."""
    parents: Mapping[ast.AST, ast.AST]


def function_of(action: Any) -> Function | None:
    """The plain function behind a node or router: itself, a method's, a partial's, or its class's ``__call__``."""
    skip = 0
    bound: set[str] = set()
    while isinstance(action, functools.partial):
        partial = cast("functools.partial[Any]", action)
        skip += len(partial.args)
        bound.update(partial.keywords)
        action = partial.func
    owner = None
    if not isinstance(action, (FunctionType, MethodType)):
        call: Any = getattr_static(action, "__call__", None)
        if not isinstance(call, FunctionType):
            return None
        action = MethodType(call, action)
    if isinstance(action, MethodType):
        owner, action = action.__self__, action.__func__
        skip += 1
        if not isinstance(action, FunctionType):
            return None
    code = action.__code__
    names = [name for name in code.co_varnames[: code.co_argcount][skip:] if name not in bound]
    closure = action.__closure__ or ()
    return Function(code, action.__globals__, closure, names[0] if names else None, owner)


def nested(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def texts_of(code: CodeType) -> set[str]:
    """The texts among the constants of a function's code, and ``Send`` if that is one of its names."""
    found: set[str] = set()
    for one in nested(code):
        groups: list[Iterable[object]] = [one.co_consts]
        for group in groups:  # grows while it is walked
            for constant in group:
                if type(constant) is str:
                    found.add(constant)
                elif isinstance(constant, (tuple, frozenset)):
                    groups.append(cast("tuple[object, ...]", constant))
        if "Send" in one.co_names or "Send" in one.co_freevars:
            found.add("Send")
    return found


def source_of(function: Function) -> Source | None:
    """The function's syntax tree; None if there is none, or any doubt about it."""
    code = function.code
    lines = linecache.getlines(code.co_filename, function.globals)
    if not lines:
        return None
    try:
        body = _lambda(code, lines) if code.co_name == "<lambda>" else _statements(code, lines)
    except (SyntaxError, ValueError, IndexError, RecursionError):
        return None
    if body is None:
        return None
    root: ast.AST = body if isinstance(body, ast.expr) else ast.Module(body, [])
    parents: dict[ast.AST, ast.AST] = {}
    for parent in ast.walk(root):
        for child in ast.iter_child_nodes(parent):
            parents[child] = parent
    return Source(body, parents) if _belongs(code, root) else None


def _statements(code: CodeType, lines: list[str]) -> list[ast.stmt] | None:
    first = code.co_firstlineno
    ends = [end for one in nested(code) for _, end, _, _ in one.co_positions() if end is not None]
    last = max(ends, default=0)
    if last < first:
        return None
    for end in (last, last + 1, last + 2):  # a closing bracket has no code of its own
        text = "".join(lines[first - 1 : end])
        if text[:1] in " \t":
            text = "if 1:\n" + text
        try:
            tree = _parsed(text)
        except SyntaxError:
            continue
        found = tree.body[0]
        if isinstance(found, ast.If):
            found = found.body[0]
        if not isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)) or found.name != code.co_name:
            return None
        taken = [a.arg for a in (*found.args.posonlyargs, *found.args.args)]
        return found.body if tuple(taken) == code.co_varnames[: code.co_argcount] else None
    return None


def _parsed(text: str) -> ast.Module:
    if "\\" not in text:
        return ast.parse(text)
    with warnings.catch_warnings():  # of escapes, which Python gave when it compiled the file
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _lambda(code: CodeType, lines: list[str]) -> ast.expr | None:
    spans = [
        (line, column, end_line, end)
        for line, end_line, column, end in code.co_positions()
        if line is not None and column is not None and end_line is not None and end is not None
    ]
    spans = [span for span in spans if span[:2] != span[2:]]
    if not spans:
        return None
    line, column = min(span[:2] for span in spans)
    end_line, end = max(span[2:] for span in spans)
    cut = [text.encode() for text in lines[line - 1 : end_line]]
    cut[-1] = cut[-1][:end]
    cut[0] = cut[0][column:]
    (statement,) = _parsed("(" + b"".join(cut).decode() + "\n)").body
    return statement.value if isinstance(statement, ast.Expr) else None


def _belongs(code: CodeType, root: ast.AST) -> bool:
    """Whether each short text in the code's constants occurs in the tree."""
    written: set[str] = set()
    for node in ast.walk(root):
        for value in vars(node).values():
            if isinstance(value, str):
                written.add(value.strip())
        if isinstance(node, ast.arg) and node.annotation is not None:
            written.add(ast.unparse(node.annotation))
    return all(
        text.strip() in written for text in texts_of(code) if text and len(text) <= 60 and "\n" not in text
    )


__all__ = ["UNRESOLVED", "Function", "Source", "function_of", "nested", "source_of", "texts_of"]
