"""OpenTelemetry: a listener that makes spans and metrics of runs. Needs the extra ``otel`` (opentelemetry-api).

::

    invoke_agent <graph>                 the run
    └── step <n>                         a superstep
        ├── node <name>                  a node; what its code starts is under it
        │   └── step <n>                 of a nested graph
        └── node <name>

The run's span follows the semantic conventions for generative AI (version 1.37): ``gen_ai.operation.name`` is
``invoke_agent``, ``gen_ai.agent.name`` the graph's name, ``gen_ai.conversation.id`` the thread. Everything else is named
``juncture.…``. No content of states is captured unless asked for. Logs that a node writes through an instrumented logger
carry its span, because that span is the current one in the node's context.

Metrics: ``juncture.runs`` and ``juncture.run.duration`` by graph and status, ``juncture.steps`` and ``juncture.checkpoints`` by
graph, ``juncture.node.duration`` by graph, node and outcome. Durations are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from juncture.errors import ConfigError, described
from juncture.observe.listeners import Event, Listener

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

_SHOWN: Final = 1000
"""How many characters of a captured state or update are kept."""


@dataclass(slots=True)
class _Step:
    """The open superstep of one graph of a run."""

    number: int
    span: Span
    ended: int
    """When the last of its nodes ended, in nanoseconds since the epoch."""


@dataclass(slots=True)
class _Run:
    """The open spans of a run."""

    span: Span
    begun: int
    steps: dict[tuple[str, ...], _Step] = field(default_factory=dict[tuple[str, ...], _Step])
    nodes: dict[tuple[tuple[str, ...], str], Span] = field(
        default_factory=dict[tuple[tuple[str, ...], str], "Span"]
    )


class OpenTelemetry(Listener):
    """Makes spans and metrics of every run that it listens to."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        capture_content: bool = False,
    ) -> None:
        """Uses the global providers unless others are given.

        Args:
            tracer_provider: Where spans go.
            meter_provider: Where metrics go.
            capture_content: Put the states that nodes began with and what they wrote into their spans, as text of at most
                1,000 characters each. They may hold what people said.

        Raises:
            ConfigError: OpenTelemetry isn't installed.
        """
        try:
            from opentelemetry import metrics, trace
        except ImportError as error:
            raise ConfigError(
                "OpenTelemetry isn't installed: pip install 'juncture[otel]', and an SDK with an exporter"
            ) from error
        self._trace = trace
        self._tracer = trace.get_tracer("juncture", tracer_provider=tracer_provider)
        meter = metrics.get_meter("juncture", meter_provider=meter_provider)
        self._runs = meter.create_counter("juncture.runs", "{run}", "Runs that ended")
        self._run_duration = meter.create_histogram("juncture.run.duration", "s", "How long runs took")
        self._steps = meter.create_counter("juncture.steps", "{step}", "Supersteps that runs executed")
        self._checkpoints = meter.create_counter("juncture.checkpoints", "{checkpoint}", "Checkpoints saved")
        self._node_duration = meter.create_histogram("juncture.node.duration", "s", "How long nodes took")
        self._captures = capture_content
        self._open: dict[str, _Run] = {}

    # ---- runs

    def on_start(self, event: Event) -> None:
        """Begins the run's span, under what is current where the run was called."""
        self._begin(event)

    def on_resume(self, event: Event) -> None:
        """The same, for a run that goes on."""
        self._begin(event)

    def _begin(self, event: Event) -> None:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": event.graph,
            "juncture.run_id": event.run_id,
            "juncture.resumed": event.kind == "resume",
        }
        if event.thread_id is not None:
            attributes["gen_ai.conversation.id"] = event.thread_id
        begun = time_ns()
        span = self._tracer.start_span(f"invoke_agent {event.graph}", attributes=attributes, start_time=begun)
        self._open[event.run_id] = _Run(span, begun)

    def on_complete(self, event: Event) -> None:
        """Ends the run's span and whatever is open under it, and counts the run."""
        labels = {"juncture.graph": event.graph, "juncture.status": str(event.status)}
        self._runs.add(1, labels)
        self._run_duration.record(event.duration or 0.0, labels)
        self._steps.add(event.steps or 0, {"juncture.graph": event.graph})
        run = self._open.pop(event.run_id, None)
        if run is None:
            return
        for step in reversed(run.steps.values()):
            step.span.end(step.ended)
        run.span.set_attributes({"juncture.status": str(event.status), "juncture.steps": event.steps or 0})
        if event.error is not None:
            self._fail(run.span, event.error)
        run.span.end()

    # ---- steps and nodes

    def before(self, event: Event) -> None:
        """Begins a node's span, under that of its superstep."""
        run = self._open.get(event.run_id)
        if run is None or event.task_id is None:
            return
        attributes: dict[str, Any] = {
            "juncture.node": event.node or "",
            "juncture.task_id": event.task_id,
            "juncture.namespace": list(event.namespace),
        }
        if self._captures:
            attributes["juncture.input"] = repr(event.state)[:_SHOWN]
        parent = self._under(self._step(run, event).span)
        span = self._tracer.start_span(f"node {event.node}", parent, attributes=attributes)
        run.nodes[event.namespace, event.task_id] = span

    def after(self, event: Event) -> None:
        """Ends a node's span."""
        self._end(event, "completed")

    def on_error(self, event: Event) -> None:
        """Ends it as failed."""
        self._end(event, "failed")

    def on_interrupt(self, event: Event) -> None:
        """Ends it as paused, or, before or after a node, says so on the run's span."""
        if event.task_id is not None:
            self._end(event, "interrupted")
            return
        run = self._open.get(event.run_id)
        if run is not None:
            run.span.add_event("interrupt", {"juncture.node": event.node or ""})

    def on_checkpoint(self, event: Event) -> None:
        """Counts a checkpoint, and says on the run's span that it was saved."""
        self._checkpoints.add(1, {"juncture.graph": event.graph})
        run = self._open.get(event.run_id)
        if run is not None:
            run.span.add_event("checkpoint", {"juncture.checkpoint_id": event.checkpoint_id or ""})

    def enter(self, event: Event) -> None:
        """Makes a node's span the current one in the node's context, which ends with the node."""
        from opentelemetry import context

        run = self._open.get(event.run_id)
        span = None if run is None else run.nodes.get((event.namespace, event.task_id or ""))
        if span is not None:
            context.attach(self._trace.set_span_in_context(span))

    # ----

    def _step(self, run: _Run, event: Event) -> _Step:
        """The open superstep that an event's node is in; the one before it in the same graph is ended."""
        step = run.steps.get(event.namespace)
        if step is not None and step.number == event.step:
            return step
        if step is not None:
            step.span.end(step.ended)
        parent = self._under(self._graph_span(run, event.namespace))
        attributes: dict[str, Any] = {
            "juncture.step": event.step,
            "juncture.namespace": list(event.namespace),
        }
        span = self._tracer.start_span(f"step {event.step}", parent, attributes=attributes)
        new = run.steps[event.namespace] = _Step(event.step, span, time_ns())
        return new

    def _graph_span(self, run: _Run, namespace: tuple[str, ...]) -> Span:
        """The span of the node that a nested graph runs in; of the run for the graph that was called."""
        for depth in range(len(namespace), 0, -1):
            around, level = namespace[: depth - 1], namespace[depth - 1]
            task_id = level.partition("/")[0]
            for (where, identity), span in run.nodes.items():
                if where == around and (identity == task_id or identity.startswith(f"{task_id}:")):
                    return span
        return run.span

    def _end(self, event: Event, outcome: str) -> None:
        labels = {
            "juncture.graph": event.graph,
            "juncture.node": event.node or "",
            "juncture.outcome": outcome,
        }
        self._node_duration.record(event.duration or 0.0, labels)
        run = self._open.get(event.run_id)
        span = None if run is None else run.nodes.pop((event.namespace, event.task_id or ""), None)
        if run is None or span is None:
            return
        inner = run.steps.pop((*event.namespace, event.task_id or ""), None)
        if inner is not None:  # the last superstep of the graph nested in it
            inner.span.end(inner.ended)
        span.set_attributes({"juncture.outcome": outcome, "juncture.attempt": event.attempt})
        if self._captures and event.update is not None:
            span.set_attribute("juncture.output", repr(event.update)[:_SHOWN])
        if event.error is not None:
            self._fail(span, event.error)
        span.end()
        step = run.steps.get(event.namespace)
        if step is not None:
            step.ended = time_ns()

    def _under(self, span: Span) -> Context:
        return self._trace.set_span_in_context(span)

    def _fail(self, span: Span, error: BaseException) -> None:
        span.record_exception(error)
        span.set_status(self._trace.StatusCode.ERROR, described(error))


__all__ = ["OpenTelemetry"]
