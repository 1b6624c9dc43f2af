"""Lifecycle listeners: told what happens in a run, in order, while it happens.

    on_start | on_resume -> (before -> after | on_error | on_interrupt)* with on_checkpoint between -> on_complete

Rules (right-behaviour 51):

* Every listener hears every event, in the order in which they were registered, before the run goes on. One event is told
  to all before the next; never two at once.
* Balanced: each `before` is followed by exactly one `after`, `on_error` or `on_interrupt` of the same task, also where the
  run is stopped: what was left open is closed before `on_complete`. A task that is tried again is still the same one.
* Every run begins with one `on_start` or `on_resume` and ends with one `on_complete`, which says how; a call that is refused
  before it begins is no run. Nested graphs are part of the run: their nodes' events carry the namespace. A graph that a
  function calls on a thread of its own is another run.
* A listener that fails doesn't stop the others. What happens besides is ``on_listener_error``: a warning in the log,
  nothing, or the end of the run.

Listeners may be async: the run waits for them, on its event loop under ``ainvoke``, on one of the graph's under ``invoke``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from inspect import isawaitable
from time import monotonic, time
from typing import Any, Final, Literal, TypeAlias

from juncture.engine.values import copied_dict
from juncture.errors import ConfigError
from juncture.types import Interrupt, Status

EventKind: TypeAlias = Literal[
    "start", "resume", "before", "after", "error", "interrupt", "checkpoint", "complete"
]
"""What happened; `Listener` has a method for each."""
OnListenerError: TypeAlias = Literal["warn", "ignore", "raise"]
"""What a listener's exception means: a warning in the log, nothing, or the end of the run."""


class Event:
    """One thing that happened in a run. What doesn't apply is None or empty."""

    def __init__(
        self,
        kind: EventKind,
        *,
        graph: str = "",
        run_id: str,
        thread_id: str | None,
        namespace: tuple[str, ...] = (),
        node: str | None = None,
        task_id: str | None = None,
        step: int = 0,
        attempt: int = 1,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Takes what most events have; the rest are attributes."""
        self.kind: EventKind = kind
        self.graph = graph
        """The name of the graph that was called."""
        self.run_id = run_id
        self.thread_id = thread_id
        self.namespace = namespace
        """Which nested graph; empty for the graph that was called."""
        self.node = node
        self.task_id = task_id
        """Unique with run and namespace."""
        self.step = step
        """The superstep."""
        self.attempt = attempt
        """Which try of the task it is, from 1; of `after` and `error`, the last one."""
        self.time = time()
        """When, in seconds since the epoch."""
        self.duration: float | None = None
        """Of `after`, `error` and `interrupt` of a task, and of `complete`: seconds since it began."""
        self.update: Any = None
        """Of `after`: what the task wrote, as ``updates`` shows it."""
        self.error: BaseException | None = None
        """Of `error`: what the task failed with. Of `complete`: what the run raises."""
        self.interrupts: tuple[Interrupt, ...] = ()
        """Of `interrupt` and `complete`: the questions that are open."""
        self.checkpoint_id: str | None = None
        """Of `checkpoint`: its id."""
        self.usage: Mapping[str, Any] = {}
        """Of `complete`: what was used, as `RunResult.usage`."""
        self.status: Status | None = None
        """Of `complete`: how the run ended."""
        self.steps: int | None = None
        """Of `complete`: how many supersteps the run executed."""
        self.values: Mapping[str, Any] = values if values is not None else {}
        """The state itself, not copied: not to be changed."""
        self._state: dict[str, Any] | None = None

    @property
    def state(self) -> dict[str, Any]:
        """The state by key: of `before`, what was committed; of `after`, with the task's own writes. A copy."""
        if self._state is None:
            self._state = copied_dict(dict(self.values))
        return self._state

    def __repr__(self) -> str:
        where = "" if self.node is None else f" {self.node!r} of step {self.step}"
        return f"<Event {self.kind}{where}, run {self.run_id}>"


class Listener:
    """To be subclassed: each method is told one kind of event, and does nothing here. Methods may be async."""

    def on_start(self, event: Event) -> Any:
        """A run begins with an input."""

    def on_resume(self, event: Event) -> Any:
        """A run goes on with a thread that was paused, failed or stopped."""

    def before(self, event: Event) -> Any:
        """A node is about to run."""

    def after(self, event: Event) -> Any:
        """A node has ended; `Event.state` has its writes applied."""

    def on_error(self, event: Event) -> Any:
        """A node failed for good, or was stopped."""

    def on_interrupt(self, event: Event) -> Any:
        """A node asks something, or the run pauses before or after it (then no `before` belongs to it)."""

    def on_checkpoint(self, event: Event) -> Any:
        """A checkpoint was saved."""

    def on_complete(self, event: Event) -> Any:
        """The run has ended, in whatever way; `Event.status` says how."""

    def enter(self, event: Event) -> None:
        """Called in the context of a node, right before its code: for context variables. Never async."""


_METHODS: Final[dict[EventKind, str]] = {
    "start": "on_start",
    "resume": "on_resume",
    "before": "before",
    "after": "after",
    "error": "on_error",
    "interrupt": "on_interrupt",
    "checkpoint": "on_checkpoint",
    "complete": "on_complete",
}


class _Function(Listener):
    """A function that is told every event."""

    def __init__(self, function: Callable[[Event], Any]) -> None:
        self.function = function

    def __repr__(self) -> str:
        return repr(self.function)


def read_listeners(given: Sequence[Listener | Callable[[Event], Any]]) -> tuple[Listener, ...]:
    """Listeners as they were given, checked.

    Raises:
        ConfigError: One is neither a `Listener` nor callable.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise ConfigError(f"listeners is a list of listeners, got {given!r}")
    found: list[Listener] = []
    for one in given:
        if isinstance(one, Listener):
            found.append(one)
        elif callable(one) and not isinstance(one, type):
            found.append(_Function(one))
        else:
            raise ConfigError(
                f"{one!r} can't listen: give an object of a subclass of juncture.Listener, or a function of an event"
            )
    return tuple(found)


class Listeners:
    """The listeners of one run."""

    def __init__(
        self,
        listeners: tuple[Listener, ...],
        on_error: OnListenerError,
        graph: str,
        run_id: str,
        thread_id: str | None,
    ) -> None:
        """Nobody is told anything yet."""
        self._listeners = listeners
        self._on_error: OnListenerError = on_error
        self._graph = graph
        self._run_id = run_id
        self._thread_id = thread_id
        self._begun: float | None = None
        self._open: dict[tuple[tuple[str, ...], str], tuple[Event, float]] = {}

    def event(self, kind: EventKind, **fields: Any) -> Event:
        """An event of this run."""
        return Event(kind, graph=self._graph, run_id=self._run_id, thread_id=self._thread_id, **fields)

    def tell(self, event: Event) -> Coroutine[Any, Any, None] | None:
        """Tells all of them; where one of them is async, what has to be awaited before the run goes on.

        Raises:
            Exception: What a listener raised, where that is to end the run.
        """
        if self._begun is None:
            self._begun = monotonic()
        if event.task_id is not None:
            place = (event.namespace, event.task_id)
            if event.kind == "before":
                self._open[place] = (event, monotonic())
            elif place in self._open:
                event.duration = monotonic() - self._open.pop(place)[1]
        for index, listener in enumerate(self._listeners):
            waiting = self._tell_one(listener, event)
            if waiting is not None:
                return self._tell_rest(waiting, listener, index, event)
        return None

    def complete(self, event: Event) -> list[Event]:
        """The events that end the run: for each task that was left open an error, then the given one.

        None where the run never began.
        """
        if self._begun is None:
            return []
        left: list[Event] = []
        for before, _ in self._open.values():
            error = self.event(
                "error",
                namespace=before.namespace,
                node=before.node,
                task_id=before.task_id,
                step=before.step,
                values=before.values,
            )
            error.error = event.error
            left.append(error)
        event.duration = monotonic() - self._begun
        return [*left, event]

    def enter(self, namespace: tuple[str, ...], task_id: str) -> None:
        """Tells them that a node's code begins in this very context."""
        opened = self._open.get((namespace, task_id))
        if opened is None:
            return
        for listener in self._listeners:
            try:
                listener.enter(opened[0])
            except Exception as error:  # noqa: BLE001 - whatever a listener raises, it isn't the node's fault
                self._failed(listener, opened[0], error)

    def _tell_one(self, listener: Listener, event: Event) -> Awaitable[Any] | None:
        try:
            if isinstance(listener, _Function):
                told = listener.function(event)
            else:
                told = getattr(listener, _METHODS[event.kind])(event)
        except Exception as error:  # noqa: BLE001 - the option says what it means
            self._failed(listener, event, error)
            return None
        return told if isawaitable(told) else None

    async def _tell_rest(
        self, waiting: Awaitable[Any] | None, listener: Listener, index: int, event: Event
    ) -> None:
        for later in (*self._listeners[index + 1 :], None):
            if waiting is not None:
                try:
                    await waiting
                except Exception as error:  # noqa: BLE001 - the option says what it means
                    self._failed(listener, event, error)
            if later is not None:
                listener, waiting = later, self._tell_one(later, event)

    def _failed(self, listener: Listener, event: Event, error: Exception) -> None:
        if self._on_error == "raise":
            error.add_note(f"juncture: raised by the listener {listener!r} when it was told of {event!r}")
            raise error
        if self._on_error == "warn":
            import logging

            logging.getLogger("juncture").warning(
                "the listener %r failed when it was told of %r: %r", listener, event, error, exc_info=error
            )


def read_on_error(value: OnListenerError) -> OnListenerError:
    """The option, checked.

    Raises:
        ConfigError: It is none of its choices.
    """
    if value not in ("warn", "ignore", "raise"):
        raise ConfigError(f'on_listener_error is "warn", "ignore" or "raise", got {value!r}')
    return value


__all__ = [
    "Event",
    "EventKind",
    "Listener",
    "Listeners",
    "OnListenerError",
    "read_listeners",
    "read_on_error",
]
