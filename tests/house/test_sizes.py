"""A file has at most 600 lines and a function at most 60, its decorators and docstring not counted.

What is longer holds more than one idea: split it by concept.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house._source import modules, name_of, parse

FILE_LINES = 600
FUNCTION_LINES = 60


def function_lengths(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Name, line and length of every function, nested ones and methods too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node) is not None and first.end_lineno is not None:
                length -= first.end_lineno - first.lineno + 1
            yield node.name, node.lineno, length


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_file_is_small(path: Path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= FILE_LINES, f"{name_of(path)} has {lines} lines, {FILE_LINES} are allowed"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_function_is_small(path: Path):
    long = [
        f"{name_of(path)}:{line}: {name} has {length} lines, {FUNCTION_LINES} are allowed"
        for name, line, length in function_lengths(parse(path))
        if length > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_the_docstring_is_not_counted():
    tree = ast.parse('@wraps\ndef f():\n    """One.\n\n    Two.\n    """\n    x = 1\n    return x\n')
    assert list(function_lengths(tree)) == [("f", 2, 3)]
