"""What a local name may stand for where it is used: which assignments reach it, and what else binds it.

An assignment counts unless a later statement certainly assigns something else before the name is used. That is told
from the order of statements and the branches of `if`, `try` and `match` alone, without any look at conditions. What is
assigned inside a `with` may count or not, because some swallow exceptions: nothing is known of such a name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import cast


def values_at(
    use: ast.Name, assigned: Mapping[str, list[ast.expr] | None], parents: Mapping[ast.AST, ast.AST]
) -> list[ast.expr] | None:
    """The expressions whose value a local name may have where it is used; None if that isn't known.

    Args:
        use: The name, where it is read.
        assigned: Local name -> all expressions that are assigned to it; None if it is bound in another way as well.
        parents: Of the whole tree.
    """
    values = assigned.get(use.id)
    if values is None or len(values) < 2:
        return values
    later = _later(use, parents)
    reaching = [value for value in values if value in later]
    around = set(_above(use, parents))
    for value in reaching:
        if any(
            isinstance(one, (ast.With, ast.AsyncWith)) and one not in around for one in _above(value, parents)
        ):
            return None
    return reaching


def _above(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while (parent := parents.get(node)) is not None:
        yield parent
        node = parent


def _later(use: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> set[ast.AST]:
    """Whatever may have been run since a statement that certainly assigned the name, that statement included."""
    node: ast.AST = use
    for parent in _above(use, parents):
        for block in _blocks(parent):
            if node in block:
                here = block.index(node)
                sets = [at for at in range(here) if _sets(block[at], use.id)]
                if sets:
                    return {part for one in block[sets[-1] : here + 1] for part in ast.walk(one)}
        node = parent
    return set(ast.walk(node))


def _blocks(node: ast.AST) -> Iterator[list[ast.AST]]:
    """The lists of statements that belong to a node, each of which is run from its beginning."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield cast("list[ast.AST]", block)


def _sets(statement: ast.AST, name: str) -> bool:
    """Whether a name was certainly assigned when the next statement is run."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=to)]) | ast.AnnAssign(target=ast.Name(id=to), value=ast.expr()):
            return to == name
        case ast.If(body=first, orelse=second):
            return _all_set(first, name) and _all_set(second, name)
        case (
            ast.Try(body=body, handlers=handlers, finalbody=last)
            | ast.TryStar(body=body, handlers=handlers, finalbody=last)
        ):
            return _all_set(last, name) or all(
                _all_set(one, name) for one in (body, *(h.body for h in handlers))
            )
        case ast.Match(cases=cases):
            whole = isinstance(cases[-1].pattern, ast.MatchAs) and cases[-1].pattern.pattern is None
            return whole and cases[-1].guard is None and all(_all_set(case.body, name) for case in cases)
        case _:
            return isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _all_set(block: list[ast.stmt], name: str) -> bool:
    return any(_sets(statement, name) for statement in block)


def bound_in(node: ast.AST) -> list[str]:
    """The names that a node of the tree binds without an `ast.Name`."""
    match node:
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return names
        case (
            ast.ExceptHandler(name=str() as name)
            | ast.MatchAs(name=str() as name)
            | ast.MatchStar(name=str() as name)
        ):
            return [name]
        case ast.MatchMapping(rest=str() as name) | ast.arg(arg=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.alias(name=name, asname=other):
            return [other or name.partition(".")[0]]
        case _:
            return []


__all__ = ["bound_in", "values_at"]
