"""The public face: what `import juncture` gives, that it is documented, and that its two colours agree.

Nothing here is skipped once `juncture/__init__.py` is there.
"""

import ast
import importlib
import inspect
import itertools
import pkgutil
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

import juncture.errors
from tests.house._source import ROOT, SRC, modules, name_of, parse

needs_public_names = pytest.mark.skipif(
    not (SRC / "__init__.py").exists() and not (SRC / "graph" / "compiled.py").exists(),
    reason="neither juncture/__init__.py nor juncture/graph/compiled.py is written yet",
)


def public() -> ModuleType:
    return importlib.import_module("juncture")


# ── __all__ ──────────────────────────────────────────────────────────────────────────────────────────────────


def sort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name: the order in which the linter puts `__all__`."""
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return kind, name


@needs_public_names
def test_all_is_sorted():
    names = public().__all__
    assert list(names) == sorted(set(names), key=sort_key)


@needs_public_names
def test_all_is_complete():
    module = public()
    bound = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not (isinstance(value, ModuleType) and value.__name__.startswith("juncture."))
        and name != "annotations"
    }
    missing = bound - set(module.__all__)
    assert not missing, (
        f"bound in juncture/__init__.py but not in __all__ (or import it as _name): {sorted(missing)}"
    )


@needs_public_names
def test_every_name_in_all_exists():
    module = public()
    absent = [name for name in module.__all__ if getattr(module, name, None) is None]
    assert not absent, f"in __all__ but not there: {absent}"


@needs_public_names
def test_every_public_name_is_documented():
    module = public()
    literals = documented_assignments()
    silent = [
        name
        for name in module.__all__
        if not name.startswith("__") and not own_docstring(getattr(module, name)) and name not in literals
    ]
    assert not silent, f"public, but without a docstring (for a constant: a literal under it): {silent}"


def own_docstring(value: object) -> str:
    """The docstring that stands in our source: not an inherited one, nor one that `dataclass` made."""
    if inspect.isclass(value):
        doc = cast("str", vars(value).get("__doc__") or "")
        return "" if re.match(rf"{value.__name__}\(.*\)$", doc) else doc
    return (value.__doc__ or "") if inspect.isroutine(value) or isinstance(value, ModuleType) else ""


def documented_assignments() -> set[str]:
    """Names that are assigned at the top of one of our modules with a string literal on the next line."""
    names: set[str] = set()
    for path in modules():
        body = parse(path).body
        for statement, following in itertools.pairwise(body):
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                targets = (
                    statement.targets
                    if isinstance(statement, ast.Assign)
                    else [statement.target]
                    if isinstance(statement, ast.AnnAssign)
                    else []
                )
                names.update(target.id for target in targets if isinstance(target, ast.Name))
    return names


@needs_public_names
def test_the_version_is_the_distributions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert getattr(public(), "__version__", project["version"]) == project["version"]


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────

_TREE_LINE = re.compile(r"(?P<rails>(?:[│ ]   )*(?:[├└]── )?)(?P<name>[A-Z]\w*)(?: \((?P<bases>[^)]*)\))?")


def documented_tree(docstring: str) -> dict[str, list[str]]:
    """Class → its bases by name, as the tree in the docstring says."""
    block = inspect.cleandoc(docstring).partition("::\n")[2]
    tree: dict[str, list[str]] = {}
    ancestors: list[str] = []
    for line in inspect.cleandoc(block).splitlines():
        match = _TREE_LINE.match(line)
        if match is None:
            continue
        depth = len(match["rails"]) // 4
        bases = (match["bases"] or "").removeprefix("also ")
        ancestors[depth:] = [match["name"]]
        named = [base.strip() for base in bases.split(",") if base.strip()]
        tree[match["name"]] = ([ancestors[depth - 1]] if depth else []) + named or ["Exception"]
    return tree


def exceptions_of(module: ModuleType) -> dict[str, list[str]]:
    return {
        name: [base.__name__ for base in value.__bases__]
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, BaseException) and value.__module__ == module.__name__
    }


def test_the_tree_of_exceptions_is_what_its_docstring_says():
    assert documented_tree(juncture.errors.__doc__ or "") == exceptions_of(juncture.errors)


def test_the_tree_is_read_as_it_is_drawn():
    drawing = "Text.\n\n::\n\n    A\n    ├── B (also ValueError)    words\n    │   └── C\n    └── D\n\n    S (BaseException)   words"
    assert documented_tree(drawing) == {
        "A": ["Exception"],
        "B": ["A", "ValueError"],
        "C": ["B"],
        "D": ["A"],
        "S": ["BaseException"],
    }


def test_every_public_exception_is_defined_in_errors():
    def subclasses(cls: type[BaseException]) -> set[type[BaseException]]:
        return {cls}.union(*(subclasses(child) for child in type.__subclasses__(cls)))

    for module in pkgutil.walk_packages([str(SRC)], "juncture."):
        if not module.name.startswith(("juncture.integrations", "juncture.compat", "juncture.testing")):
            importlib.import_module(module.name)
    elsewhere = [
        f"{cls.__module__}.{cls.__qualname__}"
        for cls in subclasses(BaseException)
        if cls.__module__.partition(".")[0] == "juncture"
        and not cls.__module__.startswith(("juncture.errors", "juncture.compat", "juncture.testing"))
        and not cls.__name__.startswith("_")
    ]
    assert not elsewhere, f"every exception is defined in juncture/errors.py: {elsewhere}"


# ── two colours ──────────────────────────────────────────────────────────────────────────────────────────────


def twins_of(cls: type[Any]) -> list[tuple[str, str]]:
    """Pairs (x, ax) of public methods: `ax` is one if `x` exists too, or if it is a coroutine."""
    pairs: list[tuple[str, str]] = []
    for name, value in inspect.getmembers(cls, inspect.isfunction):
        colour = inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)
        if name.startswith("a") and (colour or callable(getattr(cls, name[1:], None))):
            pairs.append((name[1:], name))
    return pairs


def parameters_of(cls: type[Any], name: str) -> list[inspect.Parameter]:
    method = getattr(cls, name, None)
    assert method is not None, f"{cls.__name__}.a{name} has no {name}"
    return list(inspect.signature(method).parameters.values())


@needs_public_names
def test_both_colours_take_the_same_parameters():
    compiled = public().CompiledGraph
    pairs = twins_of(compiled)
    assert {"invoke", "stream", "batch"} <= {sync for sync, _ in pairs}
    for sync, twin in pairs:
        assert parameters_of(compiled, sync) == parameters_of(compiled, twin), f"{sync} and {twin} differ"


def test_a_twin_that_differs_is_found():
    class Example:
        def invoke(self, given: int, *, limit: int = 1) -> None: ...

        async def ainvoke(self, given: int, *, limit: int = 2) -> None: ...

        async def alone(self) -> None: ...

    assert twins_of(Example) == [("invoke", "ainvoke"), ("lone", "alone")]
    assert parameters_of(Example, "invoke") != parameters_of(Example, "ainvoke")
    with pytest.raises(AssertionError, match="has no lone"):
        parameters_of(Example, "lone")


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────

BANNED = {
    "manager",
    "helper",
    "helpers",
    "util",
    "utils",
    "handler",
    "handlers",
    "data",
    "info",
    "obj",
    "process",
}

ALLOWED = {
    "data": "StreamPart.data: the payload of a part, the word of every event protocol",
    "error_handler": "LangGraph's parameter of add_node and set_node_defaults",
    "execution_info": "LangGraph's attribute of Runtime",
    "ExecutionInfo": "LangGraph's class behind Runtime.execution_info",
    "IsLastStepManager": "LangGraph's class behind IsLastStep",
    "RemainingStepsManager": "LangGraph's class behind RemainingSteps",
    "server_info": "LangGraph's attribute of Runtime",
    "ServerInfo": "LangGraph's class behind Runtime.server_info",
}


def banned_in(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and name of whatever the module itself names with a banned word; foreign names may be used."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                pass
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.alias(asname=str(name)):
                pass
            case _:
                continue
        words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)
        banned = BANNED.intersection(word.lower() for word in words)
        if name not in ALLOWED and (banned or name.startswith("do_") or name.endswith("_v2")):
            found.append((node.lineno, name))  # type: ignore[attr-defined]  # all of the cases above have a line
    return found


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_no_name_says_nothing(path: Path):
    found = [f"{name_of(path)}:{line}: {name}" for line, name in banned_in(parse(path))]
    assert not found, "say what it is, with a word of the glossary:\n" + "\n".join(found)


def test_banned_names_are_found():
    source = "class RunManager: ...\ndef do_it(obj): self.node_info = 1\nfor data in x: metadata = process_id = 1\n"
    assert [name for _, name in banned_in(ast.parse(source))] == [
        "RunManager",
        "do_it",
        "obj",
        "node_info",
        "process_id",
    ]
