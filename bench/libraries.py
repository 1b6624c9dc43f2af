"""The two libraries behind one set of names, resolved when a row first asks for them.

A name that a library doesn't have yet fails only the rows that need it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class NotThereError(Exception):
    """The library, or a name of it, can't be imported."""


@dataclass(frozen=True, eq=False)
class Library:
    """One library: ``library.StateGraph``, ``library.Send`` and so on, wherever it keeps them."""

    name: str
    distribution: str
    places: Mapping[str, str]
    """Name to the module that has it."""
    inline: Mapping[str, Any] = field(default_factory=dict)
    """Options of `add_node` for a sync node that may run on the event loop's thread."""

    def __getattr__(self, name: str) -> Any:
        if name not in self.places:
            raise AttributeError(name)
        try:
            return getattr(importlib.import_module(self.places[name]), name)
        except (ImportError, AttributeError) as error:
            raise NotThereError(f"{self.name}: {error}") from error

    @property
    def import_statement(self) -> str:
        """What a user's first line is."""
        return f"from {self.places['StateGraph']} import END, START, StateGraph"

    @property
    def version(self) -> str | None:
        """None where it isn't installed or has no `StateGraph` yet."""
        try:
            self.StateGraph  # noqa: B018 - asks whether the import works
            return importlib.metadata.version(self.distribution)
        except NotThereError:
            return None
        except importlib.metadata.PackageNotFoundError:
            return "from source"


LANGGRAPH = Library(
    "LangGraph",
    "langgraph",
    {
        "StateGraph": "langgraph.graph",
        "START": "langgraph.graph",
        "END": "langgraph.graph",
        "Send": "langgraph.types",
        "RetryPolicy": "langgraph.types",
        "InMemorySaver": "langgraph.checkpoint.memory",
        "SqliteSaver": "langgraph.checkpoint.sqlite",
        "AsyncSqliteSaver": "langgraph.checkpoint.sqlite.aio",
        "add_messages": "langgraph.graph.message",
        "get_stream_writer": "langgraph.config",
    },
)
JUNCTURE = Library(
    "Juncture",
    "juncture",
    {
        **dict.fromkeys(
            ["StateGraph", "START", "END", "Send", "RetryPolicy", "InMemorySaver", "get_stream_writer"],
            "juncture",
        ),
        **dict.fromkeys(["add_messages", "register_type"], "juncture"),
        "SqliteSaver": "juncture.savers",
    },
    inline={"inline": True},
)
LIBRARIES = (LANGGRAPH, JUNCTURE)


def quiet_environment() -> None:
    """Turns off what would send traces or slow the loop; call before either library is imported."""
    for name in [name for name in os.environ if name.startswith(("LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_"))]:
        del os.environ[name]
    os.environ.pop("PYTHONASYNCIODEBUG", None)
    os.environ["LANGSMITH_TRACING"] = "false"
    os.environ["LANGCHAIN_TRACING_V2"] = "false"
