"""OpenTelemetry: spans and metrics of runs, through a real SDK with exporters in memory."""

import asyncio
import operator
import sys
from typing import Annotated, Any, TypedDict

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from juncture import START, ConfigError, InMemorySaver, StateGraph, interrupt
from juncture.observe.otel import OpenTelemetry
from tests.behaviour.building import chain, thread, wrote

pytestmark = pytest.mark.timeout(20)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


class Seen:
    """A listener with an SDK of its own, and what that exported."""

    def __init__(self, **options: Any) -> None:
        self.spans = InMemorySpanExporter()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self.spans))
        self.reader = InMemoryMetricReader()
        self.listener = OpenTelemetry(
            tracer_provider=self.tracing, meter_provider=MeterProvider([self.reader]), **options
        )

    def tree(self) -> dict[str, Any]:
        """The names of the spans, each with those under it, in the order in which they began."""
        spans = sorted(self.spans.get_finished_spans(), key=lambda span: span.start_time)

        def under(parent: int | None) -> dict[str, Any]:
            return {
                span.name: under(span.context.span_id)
                for span in spans
                if (span.parent.span_id if span.parent else None) == parent
            }

        return under(None)

    def span(self, name: str) -> Any:
        """The span of that name."""
        return next(span for span in self.spans.get_finished_spans() if span.name == name)

    def metric(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        found = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return [point for metric in found for point in metric.data.data_points]


@pytest.fixture
def seen() -> Seen:
    """What was exported."""
    return Seen()


def add(text: str) -> Any:
    """A node that adds a text to the log."""
    return wrote("log", [text])


def test_a_run_is_a_tree_of_spans(engine, seen):
    child = chain(State, inner=add("i"), last=add("l"))
    graph = chain(State, a=add("a"), outer=child, b=add("b"))
    result = engine.invoke(graph, {"log": []}, listeners=[seen.listener])
    assert seen.tree() == {
        "invoke_agent graph": {
            "step 1": {"node a": {}},
            "step 2": {"node outer": {"step 1": {"node inner": {}}, "step 2": {"node last": {}}}},
            "step 3": {"node b": {}},
        }
    }
    attributes = seen.span("invoke_agent graph").attributes
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.agent.name"] == "graph"
    assert attributes["juncture.run_id"] == result.run_id
    assert (attributes["juncture.status"], attributes["juncture.steps"]) == ("completed", 3)
    assert "gen_ai.conversation.id" not in attributes
    for span in seen.spans.get_finished_spans():
        assert span.start_time <= span.end_time
        assert "log" not in str(span.attributes.get("juncture.input", ""))


def test_what_a_node_starts_is_under_its_span(engine, seen, colour):
    def node(state):
        with seen.tracing.get_tracer("model").start_as_current_span("chat model"):
            return {"log": ["x"]}

    graph = chain(State, a=colour(node))
    engine.invoke(graph, {"log": []}, listeners=[seen.listener])
    assert seen.tree() == {"invoke_agent graph": {"step 1": {"node a": {"chat model": {}}}}}


def test_a_run_is_under_what_calls_it(engine, seen):
    graph = chain(State, a=add("a"))
    if engine.is_async:

        async def run() -> None:
            with seen.tracing.get_tracer("web").start_as_current_span("request"):
                await graph.ainvoke({"log": []}, listeners=[seen.listener])

        asyncio.run(run())
    else:
        with seen.tracing.get_tracer("web").start_as_current_span("request"):
            graph.invoke({"log": []}, listeners=[seen.listener])
    assert list(seen.tree()["request"]) == ["invoke_agent graph"]


def test_a_failure_is_on_the_node_and_on_the_run(engine, seen):
    def fail(state):
        raise KeyError("why")

    with pytest.raises(KeyError):
        engine.invoke(chain(State, a=fail), {}, listeners=[seen.listener])
    for name in ("node a", "invoke_agent graph"):
        span = seen.span(name)
        assert span.status.status_code is trace.StatusCode.ERROR
        assert [event.name for event in span.events] == ["exception"]
    assert seen.span("node a").attributes["juncture.outcome"] == "failed"


def test_pauses_checkpoints_and_the_thread_are_told(engine, seen):
    graph = chain(State, a=lambda state: {"log": [interrupt("?")]}, b=add("b"), saver=InMemorySaver())
    engine.invoke(graph, {"log": []}, thread(), listeners=[seen.listener])
    assert seen.span("node a").attributes["juncture.outcome"] == "interrupted"
    run = seen.span("invoke_agent graph")
    assert run.attributes["gen_ai.conversation.id"] == "t"
    assert [event.name for event in run.events] == ["checkpoint"]
    seen.spans.clear()
    engine.resume(graph, "!", thread(), listeners=[seen.listener], interrupt_before=["b"])
    assert seen.span("invoke_agent graph").attributes["juncture.resumed"] is True
    assert [event.name for event in seen.span("invoke_agent graph").events] == ["checkpoint", "interrupt"]


def test_content_is_captured_where_it_is_asked_for(engine):
    seen = Seen(capture_content=True)
    engine.invoke(chain(State, a=add("x" * 2000)), {"log": ["in"]}, listeners=[seen.listener])
    attributes = seen.span("node a").attributes
    assert attributes["juncture.input"] == "{'log': ['in']}"
    assert len(attributes["juncture.output"]) == 1000


def test_metrics_count_runs_steps_nodes_and_checkpoints(engine, seen):
    graph = chain(State, a=add("a"), b=add("b"), saver=InMemorySaver())
    engine.invoke(graph, {"log": []}, thread(), listeners=[seen.listener])
    engine.invoke(graph, {"log": []}, thread(), listeners=[seen.listener])
    assert [(point.value, dict(point.attributes)) for point in seen.metric("juncture.runs")] == [
        (2, {"juncture.graph": "graph", "juncture.status": "completed"})
    ]
    assert seen.metric("juncture.steps")[0].value == 4
    assert seen.metric("juncture.checkpoints")[0].value == 6
    assert {
        point.attributes["juncture.node"]: point.count for point in seen.metric("juncture.node.duration")
    } == {
        "a": 2,
        "b": 2,
    }
    assert seen.metric("juncture.run.duration")[0].count == 2


def test_a_graph_called_in_a_function_is_under_the_node(engine, seen):
    child = chain(State, inner=add("i"))

    async def node(state):
        return {"log": (await child.ainvoke({"log": []}))["log"]}

    builder = StateGraph(State)
    builder.add_node("outer", node)
    builder.add_edge(START, "outer")
    engine.invoke(builder.compile(), {"log": []}, listeners=[seen.listener])
    assert seen.tree() == {"invoke_agent graph": {"step 1": {"node outer": {"step 1": {"node inner": {}}}}}}


def test_without_opentelemetry_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"juncture\[otel\]"):
        OpenTelemetry()
