"""What a call of a compiled graph takes besides its input and config, and how the items of its stream look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from typing import Any, Final, Generic, Literal, TypeAlias, TypedDict, TypeVar

from juncture.drivers.run import Part
from juncture.errors import ConfigError
from juncture.graph.config import read_modes
from juncture.graph.pausing import Names
from juncture.observe.listeners import Event, Listener
from juncture.persistence.threads import Durability, OnBusy
from juncture.steering import Budget, RunControl
from juncture.types import ContextT, StreamMode, StreamPart

OnFinish: TypeAlias = Literal["keep", "archive", "delete"]
OnPending: TypeAlias = Literal["raise", "discard"]
_C = TypeVar("_C")
_CHOICES: Final = {
    "durability": ("sync", "async", "exit"),
    "on_busy": ("raise", "wait"),
    "on_pending": ("raise", "discard"),
    "schedule": ("superstep", "dataflow"),
    "on_finish": ("keep", "archive", "delete"),
}


class RunOptions(TypedDict, Generic[ContextT], total=False):
    """What a call of a compiled graph takes besides its input and config."""

    context: ContextT | Mapping[str, Any] | None
    """What nodes get as ``runtime.context``; a mapping becomes the graph's context_schema. Never stored."""
    thread_id: str | None
    """The thread, instead of in the config. Needed with a saver."""
    interrupt_before: Names | None
    """Nodes to pause before, ``"*"``, or a function of the state; instead of what was given at compile."""
    interrupt_after: Names | None
    """Likewise after."""
    interrupt_before_route: Names | None
    """Likewise after nodes and before their routes, which are decided when the run goes on."""
    durability: Durability | None
    """When a step is durable: ``"sync"`` (the default) before the next one starts; ``"async"`` in order, while the next
    ones run; ``"exit"`` when the run ends, however it does, and not if its process is killed."""
    listeners: Sequence[Listener | Callable[[Event], Any]]
    """Told what happens in this run, after those given at compile; see `juncture.Listener`."""
    timings: bool
    """Split the run's time into that of nodes, of the saver and of the engine: `RunResult.timings`. Always with
    ``compile(debug=True)``."""
    budget: Budget | None
    """What the run may use up before it ends early, with the status ``budget``."""
    control: RunControl | None
    """What steers the run from outside: `RunControl.request_drain`, `RunControl.cancel`."""
    on_pending: OnPending
    """What plain input does to a thread that waits for answers: ``"raise"`` (the default) `PendingInterruptError`, or
    ``"discard"`` its questions and start over."""
    on_busy: OnBusy
    """While another run has the thread: ``"raise"`` (the default) `ThreadBusyError`, or ``"wait"``."""
    on_finish: OnFinish | None
    """What becomes of the thread when a run of it is done: ``"keep"`` (the default), ``"archive"``, as `archive_thread` does, or
    ``"delete"``. A run that pauses, is stopped or fails keeps its thread."""


@dataclass(slots=True)
class Shape:
    """How the items of a stream look."""

    stream_mode: StreamMode | Sequence[StreamMode]
    subgraphs: bool
    version: Literal["v1", "parts"]
    modes: tuple[StreamMode, ...] = field(init=False)
    labelled: bool = field(init=False)

    def __post_init__(self) -> None:
        if self.version not in ("v1", "parts"):
            raise ConfigError(f'version is "v1" or "parts", got {self.version!r}')
        self.modes = read_modes(self.stream_mode)
        self.labelled = isinstance(self.stream_mode, list)


def shaper(shape: Shape) -> Callable[[Part], Any]:
    """What makes an item of a part, as the caller wants it."""
    if shape.version == "parts":
        numbers = count()
        return lambda part: StreamPart(next(numbers), *part)
    if shape.labelled:
        if shape.subgraphs:
            return lambda part: (part[0], part[1], part[3])
        return lambda part: (part[1], part[3])
    if shape.subgraphs:
        return lambda part: (part[0], part[3])
    return itemgetter(3)


def chosen(name: str, value: _C) -> _C:
    """The value of an option, which must be one of its choices.

    Raises:
        ConfigError: It isn't.
    """
    if value not in _CHOICES[name]:
        raise ConfigError(f"{name} is {' or '.join(map(repr, _CHOICES[name]))}, got {value!r}")
    return value


__all__ = ["Names", "OnFinish", "RunOptions", "Shape", "chosen", "shaper"]
