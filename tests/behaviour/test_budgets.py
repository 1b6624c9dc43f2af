"""Budgets end a run cleanly, and usage is counted by node and run, never in the state."""

from typing import Any

import pytest

from juncture import (
    Budget,
    ConfigError,
    GraphDrained,
    MessagesState,
    RetryPolicy,
    RunControl,
    Runtime,
    StateGraph,
    task,
)
from juncture.testing import FakeClock
from tests.behaviour.building import builder, chain, fan, thread
from tests.behaviour.ran import Ran, State

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def ran():
    return Ran()


def uses(**used: Any) -> Any:
    """A node that reports what it used."""

    def node(state, runtime: Runtime):
        runtime.report_usage(**used)
        return {"log": ["used"]}

    return node


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_steps(engine, saver, ran):
    graph = chain(State, saver=saver, **{name: ran.step(name) for name in "abcde"})
    result = engine.invoke(graph, {"x": 1}, thread(), budget=Budget(steps=2))
    assert (result.status, result.reason, result["log"], result.steps) == ("budget", "steps", ["a", "b"], 2)
    assert engine.state(graph, thread()).next == ("c",)
    assert engine.invoke(graph, None, thread(), budget=Budget(steps=3)).status == "completed"
    assert ran == list("abcde")


def test_steps_of_nested_graphs_count_as_well(engine, saver, ran):
    inner = chain(State, b1=ran.step("b1"), b2=ran.step("b2"), b3=ran.step("b3"))
    graph = chain(State, saver=saver, a=ran.step("a"), sub=inner, z=ran.step("z"))
    result = engine.invoke(graph, {"x": 1}, thread(), budget=Budget(steps=4))
    assert (result.status, ran) == ("budget", ["a", "b1", "b2"])
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b1", "b2", "b3", "z"]


def test_time(engine, ran):
    def slow(state):
        clock.advance(5)
        return {"log": ["slow"]}

    graph = chain(State, a=slow, b=slow, c=ran.step("c"))
    with FakeClock() as clock:
        result = engine.invoke(graph, {"x": 1}, budget=Budget(seconds=9.5))
    assert (result.status, result.reason, result["log"]) == ("budget", "seconds", ["slow", "slow"])


@pytest.mark.parametrize(
    ("budget", "reason"), [(Budget(tokens=20), "tokens"), (Budget(cost=0.3), "cost")], ids=["tokens", "cost"]
)
def test_tokens_and_money(engine, saver, ran, budget, reason):
    node = uses(input_tokens=7, output_tokens=3, cost=0.15)
    graph = chain(State, saver=saver, a=node, b=node, c=ran.step("c"))
    result = engine.invoke(graph, {"x": 1}, thread(), budget=budget)
    assert (result.status, result.reason, result["log"]) == ("budget", reason, ["used", "used"])
    assert engine.invoke(graph, None, thread(), budget=budget).status == "completed"


def test_a_budget_that_is_used_up_by_the_last_step_does_not_matter(engine):
    graph = chain(State, a=uses(input_tokens=10))
    assert engine.invoke(graph, {"x": 1}, budget=Budget(tokens=10, steps=1)).status == "completed"


def test_a_lenient_graph_gives_the_result_as_well(engine, ran):
    graph = chain(State, options={"strict": False}, a=ran.step("a"), b=ran.step("b"))
    assert engine.invoke(graph, {"x": 1}, budget=Budget(steps=1)).status == "budget"
    control = RunControl()
    control.request_drain()
    with pytest.raises(GraphDrained):
        engine.invoke(graph, {"x": 1}, budget=Budget(steps=0), control=control)


def test_a_graph_that_a_function_calls_is_under_the_budget(engine, saver, ran):
    inner = chain(State, c1=ran.step("c1"), c2=ran.step("c2"))
    graph = chain(State, saver=saver, call=lambda state: {"log": inner.invoke({"log": []})["log"]})
    assert engine.invoke(graph, {"x": 1}, thread(), budget=Budget(steps=2)).status == "budget"
    assert engine.invoke(graph, None, thread())["log"] == ["c1", "c2"]
    inner.close()


@pytest.mark.parametrize("given", [{}, {"steps": -1}, {"tokens": "many"}, {"seconds": float("nan")}], ids=str)
def test_budgets_that_cannot_be(given):
    with pytest.raises(ValueError, match="budget"):
        Budget(**given)


def test_a_budget_is_one(engine, ran):
    with pytest.raises(ConfigError, match="Budget"):
        engine.invoke(chain(State, a=ran.step("a")), {"x": 1}, budget=5)


# ── usage ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_usage_is_summed_by_node_and_run_and_is_no_part_of_the_state(engine, saver):
    graph = fan(State, saver=saver, a=uses(input_tokens=5, output_tokens=2, cost=0.5), b=uses(total_tokens=4))
    result = engine.invoke(graph, {"x": 1}, thread())
    assert result.usage == {
        "total": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 11, "cost": 0.5},
        "nodes": {
            "a": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7, "cost": 0.5},
            "b": {"total_tokens": 4},
        },
    }
    assert engine.state(graph, thread()).values == {"x": 1, "log": ["used", "used"]}
    assert engine.invoke(chain(State, a=lambda state: None), {"x": 1}).usage == {}


def test_nested_graphs_and_calls_report_to_the_run(engine, saver):
    called = chain(State, deep=uses(input_tokens=1))

    @task
    def work():
        from juncture import get_runtime

        get_runtime().report_usage(input_tokens=10)

    def call(state):
        called.invoke({"x": 1})
        work().result()

    graph = chain(State, saver=saver, sub=chain(State, inner=uses(input_tokens=100)), call=call)
    result = engine.invoke(graph, {"x": 1}, thread())
    tokens = {node: used["total_tokens"] for node, used in result.usage["nodes"].items()}
    assert tokens == {"sub|inner": 100, "call|deep": 1, "call": 10}
    assert result.usage["total"]["total_tokens"] == 111
    called.close()


def test_what_failed_tries_used_counts(engine):
    tries = []

    def flaky(state, runtime: Runtime):
        tries.append(1)
        runtime.report_usage(input_tokens=3)
        if len(tries) < 3:
            raise ConnectionError

    graph = StateGraph(State).add_node("a", flaky, retry_policy=RetryPolicy(jitter=False))
    with FakeClock():
        result = engine.invoke(graph.add_edge("__start__", "a").compile(), {"x": 1})
    assert result.usage["total"]["input_tokens"] == 9


def says(identity: str, **usage: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "hi", "id": identity, "usage": usage}


def test_usage_is_found_in_new_messages_once(engine, saver):
    def model(state):
        n = len(state["messages"])
        new = says(f"m{n}", prompt_tokens=10, completion_tokens=n)
        return {"messages": [*state["messages"], new]}

    graph = builder(MessagesState, {"model": model}, ("__start__", "model")).compile()
    graph = builder(MessagesState, {"sub": graph, "again": model}, ("__start__", "sub"), ("sub", "again"))
    graph = graph.compile(saver)
    first = engine.invoke(graph, {"messages": [says("old", input_tokens=1000)]}, thread())
    assert {node: used["total_tokens"] for node, used in first.usage["nodes"].items()} == {
        "sub|model": 11,
        "again": 12,
    }
    second = engine.invoke(graph, {"messages": []}, thread())
    assert second.usage["total"] == {"input_tokens": 20, "output_tokens": 7, "total_tokens": 27}


def test_listeners_are_told_of_it_at_the_end(engine):
    told = []
    graph = chain(State, a=uses(cost=2))
    engine.invoke(graph, {"x": 1}, listeners=[lambda event: told.append((event.kind, event.usage))])
    assert [usage["total"] for kind, usage in told if kind == "complete"] == [{"cost": 2}]


def test_what_is_no_amount_is_refused(engine):
    with pytest.raises(ValueError, match="cost"):
        engine.invoke(chain(State, a=uses(cost="much")), {"x": 1})
