"""The parts of a graph as they were added to it, before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, get_args, get_origin

from juncture.channels.base import Channel, Reducer
from juncture.graph.inject import return_hint
from juncture.types import CachePolicy, Command, RetryPolicy, TimeoutPolicy

Isolation = Literal["copy", "shared"]
EmptyStream = Literal["error", "skip"]
Schedule = Literal["superstep", "dataflow"]
Retry = RetryPolicy | Sequence[RetryPolicy]


@dataclass(slots=True, eq=False)
class NodeSpec:
    """A node as it was added."""

    name: str
    action: Any
    defer: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    input_schema: Any = None
    retry_policy: Retry | None = None
    destinations: tuple[str, ...] | Mapping[str, str] | None = None
    factory: Callable[[], Any] | None = None
    inline: bool = False
    isolation: Isolation | None = None
    silence: frozenset[str] = frozenset()
    on_empty_stream: EmptyStream = "error"
    timeout: TimeoutPolicy | None = None
    error_handler: Callable[..., Any] | None = None
    writes: frozenset[str] | None = None
    cache_policy: CachePolicy | None = None
    interrupt_before: Callable[..., Any] | None = None
    interrupt_after: Callable[..., Any] | None = None
    interrupt_before_route: bool = False


@dataclass(slots=True, eq=False)
class BranchSpec:
    """A conditional edge as it was added."""

    name: str
    path: Callable[..., Any]
    targets: dict[Hashable, str] | None
    default: str | None = None


@dataclass(slots=True, eq=False)
class JoinSpec:
    """An edge from several nodes as it was added."""

    sources: tuple[str, ...]
    target: str
    policy: Literal["all", "arrived"] = "all"


class Options(TypedDict, total=False):
    """What `StateGraph` takes besides its schemas; described there."""

    key_strategies: Mapping[str, Reducer | Channel] | None
    default_strategy: Reducer | Channel | None
    strict: bool
    validate: bool
    isolation: Isolation
    silence: Collection[str]


def command_targets(action: Any) -> tuple[str, ...]:
    """The destinations in a return annotation ``Command[Literal["a", "b"]]``, also inside a union."""
    found: list[str] = []

    def walk(hint: Any) -> None:
        if get_origin(hint) is Command:
            found.extend(literals(get_args(hint)[0]))
        else:
            for argument in get_args(hint):
                walk(argument)

    walk(return_hint(action))
    return tuple(found)


def literals(hint: Any) -> list[Any]:
    """The values of the ``Literal``s in a hint, in order."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    found: list[Any] = []
    for argument in get_args(hint):
        found += literals(argument)
    return found


__all__ = [
    "BranchSpec",
    "EmptyStream",
    "Isolation",
    "JoinSpec",
    "NodeSpec",
    "Options",
    "Retry",
    "Schedule",
    "command_targets",
    "literals",
]
