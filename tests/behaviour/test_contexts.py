"""What surrounds a run: the caller's context variables, the run's own, and its `context`."""

import asyncio
import contextvars
import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    ConfigError,
    Runtime,
    StateGraph,
    get_config,
    get_runtime,
    interrupt,
    task,
)
from tests.behaviour.building import builder, chain, fan, nothing, wrote

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


# ── context variables ────────────────────────────────────────────────────────────────────────────────────────

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


@pytest.fixture
def everywhere(colour):
    """A graph that looks at the variable wherever user code runs; each place then sets it."""
    seen: list[tuple[str, str]] = []

    def look(place):
        def node(state):
            seen.append((place, who.get()))
            who.set(f"set by {place}")
            return {}

        return colour(node)

    def generator(state):
        for _ in range(2):
            seen.append(("generator", who.get()))
            yield {}
        who.set("set by generator")

    def route(state):
        seen.append(("route", who.get()))
        who.set("set by route")
        return []

    @task
    def part():
        seen.append(("task", who.get()))
        who.set("set by task")

    def calls(state):
        part().result()

    sub = chain(State, leaf=look("leaf"), leaf2=look("leaf2"))
    inner = chain(State, called=look("called"))
    nodes = {
        "alone": look("alone"),
        "left": look("left"),
        "right": look("right"),
        "sub": sub,
        "gen": generator,
        "calls": calls,
        "calling": lambda state: inner.invoke({"x": 1}) and None,
        "last": look("last"),
    }
    graph = builder(
        State, nodes, (START, "alone"), (["left", "right", "sub", "gen", "calls", "calling"], "last")
    )
    for name in ("left", "right", "sub", "gen", "calls", "calling"):
        graph.add_edge("alone", name)
    graph.add_conditional_edges(START, route, ["alone"], name="entry")
    graph.add_conditional_edges("last", route, ["alone"])
    compiled = graph.compile()
    yield compiled, seen
    compiled.close()
    inner.close()


def test_every_place_sees_the_callers_variables_and_none_sees_another_places(engine, everywhere):
    graph, seen = everywhere
    token = who.set("caller")
    try:
        engine.invoke(graph, {"x": 1})
        assert who.get() == "caller"
    finally:
        who.reset(token)
    places = {"alone", "left", "right", "leaf", "leaf2", "generator", "task", "called", "last"}
    assert {place for place, _ in seen} == places | {"route"}
    wrong = [(place, value) for place, value in seen if value != "caller" and place != "route"]
    assert wrong == []


def test_a_router_sees_what_its_node_set_or_the_caller(engine, everywhere):
    """A router is part of its node's try."""
    graph, seen = everywhere
    token = who.set("caller")
    try:
        engine.invoke(graph, {"x": 1})
    finally:
        who.reset(token)
    assert [value for place, value in seen if place == "route"] in (
        ["caller", "set by last"],
        ["caller", "caller"],
    )


def test_variables_never_leak_into_the_caller_of_a_stream():
    def node(state):
        who.set("leaked")
        yield {"log": [1]}
        yield {"log": [2]}

    async def anode(state):
        who.set("leaked")
        yield {"log": [1]}
        yield {"log": [2]}

    for _ in chain(State, a=node).stream({"log": []}):
        assert who.get() == "nobody"
    graph = chain(State, a=anode)
    for _ in graph.stream({"log": []}):
        assert who.get() == "nobody"
    graph.close()

    async def main():
        for each in (node, anode):
            async for _ in chain(State, a=each).astream({"log": []}):
                assert who.get() == "nobody"

    asyncio.run(main())
    assert who.get() == "nobody"


def test_a_lone_async_node_keeps_its_context_over_awaits(engine):
    """It is stepped in a context of its own, whatever its awaits do."""
    seen: list[str] = []

    async def helper():
        await asyncio.sleep(0)
        seen.append(who.get())

    async def node(state):
        who.set("mine")
        await asyncio.sleep(0)
        seen.append(who.get())
        await helper()
        await asyncio.gather(helper(), helper())
        token = who.set("nested")
        await asyncio.sleep(0)
        who.reset(token)
        seen.append(who.get())
        async with asyncio.timeout(WAIT):
            await asyncio.sleep(0)
        seen.append(who.get())

    graph = chain(State, a=node)
    engine.invoke(graph, {"x": 1})
    graph.close()
    assert seen == ["mine"] * 6
    assert who.get() == "nobody"


def test_outside_of_nodes_the_engines_own_variable_is_not_set(engine):
    graph = chain(State, a=nothing)
    engine.invoke(graph, {"x": 1})
    for function in (get_config, get_runtime, lambda: interrupt("?")):
        with pytest.raises(ConfigError, match="outside of a node"):
            function()
    for _ in graph.stream({"x": 1}):
        with pytest.raises(ConfigError):
            get_config()


def test_reducers_and_consumers_are_outside_of_nodes(engine):
    found: list[str] = []

    def reduce(old, new):
        try:
            get_runtime()
            found.append("inside")
        except ConfigError:
            found.append("outside")
        return new

    class Reduced(TypedDict, total=False):
        k: Annotated[Any, reduce]

    engine.stream(fan(Reduced, a=wrote("k", 1), b=wrote("k", 2)), {"k": 0})
    assert found
    assert "inside" not in found


def test_batch_sees_the_callers_context_variables(engine):
    seen: list[str] = []
    token = who.set("caller")
    try:
        engine.batch(chain(State, a=lambda state: seen.append(who.get())), [{"x": 1}, {"x": 2}])
    finally:
        who.reset(token)
    assert seen == ["caller"] * 2


# ── context ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Settings:
    user: str
    level: int = 1


def test_the_context_reaches_every_node_and_every_level(engine, colour):
    seen: list[Any] = []

    def look(state, runtime: Runtime):
        seen.append(runtime.context)

    inner = chain(State, called=look)
    graph = (
        StateGraph(State, Settings)
        .add_node("a", colour(look))
        .add_node("sub", chain(State, leaf=colour(look)))
    )
    graph.add_node("calls", lambda state: inner.invoke({"x": 1}) and None)
    graph.add_edge(START, "a").add_edge("a", "sub").add_edge("sub", "calls")
    compiled = graph.compile()
    engine.invoke(compiled, {"x": 1}, context={"user": "ada"})
    assert seen == [Settings("ada")] * 3
    compiled.close()
