"""Running one graph with LangGraph and with Juncture's ``strict=False``, and what is compared.

A graph is either a description (`tests.properties.graphs`) or a function that builds one from the names of a
library (`names_of`). What a run shows is brought to one shape: a step's updates in plan order, with tasks of one
node sorted by what they wrote, since LangGraph doesn't tell which `Send` an update belongs to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.properties.observe import plain

LANGGRAPH = "1.2.24"


def require_langgraph() -> None:
    """Skips the calling module unless the pinned LangGraph is installed."""
    from importlib import metadata

    try:
        version = metadata.version("langgraph")
    except metadata.PackageNotFoundError:
        version = "none"
    if version != LANGGRAPH:
        pytest.skip(f"needs langgraph {LANGGRAPH}, found {version}", allow_module_level=True)
    # It logs what Juncture raises or drops: unknown channels, tasks. Only the outcome is compared here.
    logging.getLogger("langgraph").setLevel(logging.CRITICAL)


@dataclass
class Seen:
    """What can be seen of one run."""

    values: list[Any] = field(default_factory=list)
    """The stream ``values``."""
    updates: list[list[tuple[str, Any]]] = field(default_factory=list)
    """The stream ``updates``: (node, update) by step."""
    error: str | None = None
    """The kind of the error that ended it."""


KINDS = {"GraphRecursionError": "limit", "InvalidUpdateError": "update", "RoutingError": "routing"}
"""What an error is called here; others, users' own among them, by their class."""


def kind_of(error: BaseException) -> str:
    names = [base.__name__ for base in type(error).__mro__]
    return next((KINDS[name] for name in names if name in KINDS), names[0].lower())


def in_plan_order(updates: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return sorted(updates, key=lambda update: (update[0], repr(update[1])))


def stepwise(parts: Iterable[tuple[str, Any]]) -> tuple[list[Any], list[list[tuple[str, Any]]]]:
    """The values, and the updates by step, of a stream of the modes ``values``, ``updates`` and ``tasks``.

    A task's start comes before every update of its step, and after every one of the step before.
    """
    values: list[Any] = []
    steps: list[list[tuple[str, Any]]] = []
    begun = False
    for mode, content in parts:
        if mode == "values":
            values.append(content)
        elif mode == "tasks" and "triggers" in content:
            if not begun:
                steps.append([])
            begun = True
        elif mode == "updates":
            steps[-1] += ((node, plain(update)) for node, update in content.items())
            begun = False
    return values, [in_plan_order(step) for step in steps]


def watch(compiled: Any, given: Any, config: dict[str, Any]) -> Seen:
    """One run of a compiled graph of either library by ``stream``, with its error, if any."""
    parts: list[tuple[str, Any]] = []
    error = None
    try:
        for part in compiled.stream(given, config, stream_mode=["values", "updates", "tasks"]):
            parts.append(part)  # noqa: PERF402  # what came before an error counts
    except Exception as raised:
        error = kind_of(raised)
    values, updates = stepwise(parts)
    return Seen(values, updates, error)


def names_of(library: str) -> SimpleNamespace:
    """The public names that the hand-written graphs use, of ``langgraph`` or ``juncture``."""
    if library == "juncture":
        import juncture

        def state_graph(*args: Any, **options: Any) -> Any:
            return juncture.StateGraph(*args, strict=False, **options)

        return SimpleNamespace(
            **{**{name: getattr(juncture, name) for name in juncture.__all__}, "StateGraph": state_graph}
        )
    import langgraph.graph
    import langgraph.managed
    import langgraph.types

    modules = (langgraph.graph, langgraph.types, langgraph.managed)
    names = {name: getattr(module, name) for module in modules for name in dir(module)}
    return SimpleNamespace(**names)


Build = Callable[[SimpleNamespace], Any]
"""A function that makes an uncompiled graph from a library's names."""
