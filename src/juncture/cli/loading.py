"""``FILE:graph``: from what was typed to a graph.

* FILE is a path, or a module's dotted name. A path's directory goes to the front of `sys.path`, as `python FILE` does
  it, and the working directory after it. A file is imported under its own name (``flow.py`` as ``flow``), so that its
  classes are the same as for whoever imports it.
* ``graph`` is a builder, a compiled graph, or a factory: a function without required parameters, sync or async, that
  returns one of them. Without it, the only graph of the file is meant; a builder whose compiled graph stands beside it
  isn't a second one.
* Whatever goes wrong is a `ConfigError` with the line of the user's file. The exception itself is its cause.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os.path
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast, get_origin

from juncture.cli.frames import place_of, shown_path
from juncture.cli.shown import message_of
from juncture.errors import ConfigError, GraphBuildError
from juncture.graph.builder import StateGraph
from juncture.graph.compiled import CompiledGraph
from juncture.graph.inject import return_hint

Graph: TypeAlias = "StateGraph[Any, Any, Any, Any] | CompiledGraph[Any, Any, Any, Any]"


@dataclass(slots=True)
class Found:
    """A graph, or what will give one."""

    spec: str
    """``FILE:graph``, with the graph's name even where it wasn't typed."""
    value: Graph | Awaitable[Any]
    """An awaitable if the factory is async: it must be awaited on the event loop that runs the graph."""

    async def graph(self) -> Graph:
        """The graph.

        Raises:
            ConfigError: The factory failed, or gave something else.
        """
        value = self.value
        if isinstance(value, (StateGraph, CompiledGraph)):
            return value
        with _user_code(f"the factory {self.spec}"):
            made = await value
        return _checked(self.spec, made)


def find_graph(spec: str) -> Found:
    """The graph that was typed; user code is imported, and a factory is called.

    Raises:
        ConfigError: There is no such file, module or attribute, it isn't a graph, or the user's code failed.
    """
    target, name = _split(spec)
    module = _import_file(Path(target)) if _is_path(target) else _import_module(target)
    name = name or _only_graph(target, module)
    full = f"{target}:{name}"
    value = _attribute(target, module, name)
    if isinstance(value, (StateGraph, CompiledGraph)):
        return Found(full, cast("Graph", value))
    factory = _factory(full, module, value)
    with _user_code(f"the factory {full}"):
        made = factory()
    return Found(full, made if inspect.isawaitable(made) else _checked(full, made))


def _split(spec: str) -> tuple[str, str]:
    """What stands before and after the colon."""
    target, colon, name = spec.rpartition(":")
    if not colon or os.path.isfile(spec):
        return spec, ""
    if not target or not name:
        raise ConfigError(f"{spec!r} isn't FILE:graph. For example flow.py:graph, or package.module:graph")
    return target, name


def _is_path(target: str) -> bool:
    return target.endswith(".py") or "/" in target or os.path.exists(target)


# ── importing ────────────────────────────────────────────────────────────────────────────────────────────────


def _import_file(path: Path) -> ModuleType:
    if os.path.isdir(path):
        raise ConfigError(
            f"{str(path)!r} is a folder: name the file in it, or the package by its dotted name"
        )
    if not os.path.isfile(path):
        near = get_close_matches(path.name, [other.name for other in path.parent.glob("*.py")], n=1)
        hint = f"Did you mean {str(path.parent / near[0])!r}? " if near else ""
        raise ConfigError(
            f"there is no file {str(path)!r}. {hint}A relative path starts at {str(Path.cwd())!r}"
        )
    if path.suffix != ".py":
        raise ConfigError(f"{str(path)!r} isn't a Python file: its name doesn't end in .py")
    path = path.resolve()
    name = path.stem.replace(".", "_")
    loaded = sys.modules.get(name)
    if loaded is not None:
        if Path(getattr(loaded, "__file__", None) or "").resolve() == path:
            return loaded
        raise ConfigError(
            f"{shown_path(path)} has the name of a module that is in use already ({name}). Rename the file"
        )
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"  # noqa: PT018 - narrows both
    _make_importable(str(path.parent), str(Path.cwd()))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _user_code(f"importing {shown_path(path)}"):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_module(name: str) -> ModuleType:
    _make_importable(str(Path.cwd()))
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(
            f"{name!r} is neither a file that exists nor a module's name. A relative path starts at {str(Path.cwd())!r}"
        )
    try:
        with _user_code(f"importing {name}"):
            return importlib.import_module(name)
    except ConfigError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and f"{name}.".startswith(f"{cause.name}."):
            raise ConfigError(
                f"there is no module {name!r}: Python doesn't find {cause.name!r}, neither in {str(Path.cwd())!r} nor "
                f"among what is installed in {sys.prefix!r}. A file is named with its .py"
            ) from cause
        raise


def _make_importable(*folders: str) -> None:
    """Puts folders to the front of the path, the first one first; those already on it stay where they are."""
    sys.path[:0] = [folder for folder in dict.fromkeys(folders) if folder not in sys.path]


@contextmanager
def _user_code(doing: str) -> Generator[None]:
    """Turns what a user's code raises into a `ConfigError` that says where."""
    try:
        yield
    except SyntaxError as error:
        raise ConfigError(_of_syntax(error)) from error
    except (Exception, SystemExit) as error:
        place = place_of(error)
        raise ConfigError(f"{place}: {_reason(doing, error)}" if place else _reason(doing, error)) from error


def _of_syntax(error: SyntaxError) -> str:
    where = f"{shown_path(error.filename or '?')}:{error.lineno or '?'}"
    text = (error.text or "").rstrip()
    shift = len(text) - len(text.lstrip())
    pointer = f"\n    {text.lstrip()}\n    {' ' * max(0, (error.offset or 1) - 1 - shift)}^" if text else ""
    return f"{where}: this isn't Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}{pointer}"


def _reason(doing: str, error: BaseException) -> str:
    match error:
        case GraphBuildError():
            return f"the graph can't be built: {error}"
        case ImportError() if "no known parent package" in str(error):
            return (
                f"{doing} failed: {error}. A file with relative imports belongs to a package: name it by its dotted name "
                "(package.module:graph) and start from the folder that holds the package"
            )
        case ImportError():
            return (
                f"{doing} failed: {error}. Install what is missing into the environment that juncture runs in "
                f"({sys.prefix}), or correct the name"
            )
        case SystemExit():
            return (
                f"{doing} called {message_of(error)}. Put what the file does as a "
                'program under: if __name__ == "__main__":'
            )
        case _:
            text = message_of(error)
            return f"{doing} raised {type(error).__name__}{': ' if text else ''}{text}"


# ── what stands in a module ──────────────────────────────────────────────────────────────────────────────────


def _attribute(target: str, module: ModuleType, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError as error:
            names = [known for known in vars(module) if not known.startswith("__")]
            near = get_close_matches(name, names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{target} has no {name!r}.{hint} {_listed(module)}") from error
    return value


def _factory(full: str, module: ModuleType, value: Any) -> Callable[[], Any]:
    """The value, if it can be called without arguments."""
    if isinstance(value, type) or not callable(value):
        what = f"the class {value.__qualname__}" if isinstance(value, type) else f"a {type(value).__name__}"
        raise ConfigError(
            f"{full} is {what}, and neither a graph nor a function that makes one. {_listed(module)}"
        )
    required = required_of(value)
    if required:
        raise ConfigError(
            f"{full} can't be called as a factory: it has the required parameter{'s' if len(required) > 1 else ''} "
            f"{', '.join(required)}. Give defaults, or write a function without parameters that calls it"
        )
    return cast("Callable[[], Any]", value)


def required_of(function: Any) -> list[str]:
    """The names of the parameters without which a function can't be called."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]


def _checked(full: str, made: Any) -> Graph:
    if isinstance(made, (StateGraph, CompiledGraph)):
        return cast("Graph", made)
    raise ConfigError(
        f"{full} returned a {type(made).__name__}, and not a graph. A factory returns a StateGraph or what its compile() gives"
    )


def _candidates(module: ModuleType) -> dict[str, Any]:
    """The graphs at the top of a module by name; and the factories, as far as their annotation says so."""
    graphs: dict[str, Any] = {}
    for name, value in vars(module).items():
        known = any(value is other for other in graphs.values())
        if not name.startswith("_") and not known and (_is_graph(value) or _makes_graph(module, value)):
            graphs[name] = value
    compiled = {
        id(cast("CompiledGraph[Any, Any, Any, Any]", value).builder)
        for value in graphs.values()
        if isinstance(value, CompiledGraph)
    }
    return {name: value for name, value in graphs.items() if id(value) not in compiled}


def _is_graph(value: Any) -> bool:
    return isinstance(value, (StateGraph, CompiledGraph))


def _makes_graph(module: ModuleType, value: Any) -> bool:
    if not inspect.isfunction(value) or value.__module__ != module.__name__ or required_of(value):
        return False
    hint = return_hint(value)
    return (get_origin(hint) or hint) in (StateGraph, CompiledGraph)


def _listed(module: ModuleType) -> str:
    names = list(_candidates(module))
    if names:
        return f"Graphs in it: {', '.join(names)}"
    return "Nothing at its top is a StateGraph or a compiled graph"


def _only_graph(target: str, module: ModuleType) -> str:
    names = list(_candidates(module))
    if len(names) == 1:
        return names[0]
    if names:
        raise ConfigError(
            f"{target} has several graphs: {', '.join(names)}. Name one, for example {target}:{names[0]}"
        )
    raise ConfigError(
        f"{target} has no graph: nothing at its top is a StateGraph or a compiled graph. If a function makes it, name "
        f"that: {target}:function"
    )
