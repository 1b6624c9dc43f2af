"""No stream, future, coroutine or generator ever enters the state (right-behaviour 9)."""

import asyncio
import itertools
import operator
from concurrent.futures import Future
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    END,
    START,
    Command,
    GraphBuildError,
    InvalidUpdateError,
    Overwrite,
    Send,
    StateGraph,
)
from tests.behaviour.building import builder, chain, fan, nothing, place, wrote


class State(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list[Any], operator.add]


# ── rule 9: no streams in the state ──────────────────────────────────────────────────────────────────────────


def a_generator():
    yield 1


async def an_async_generator():
    yield 1


async def a_coroutine():
    return 1


class Reader:
    """An iterator of somebody's own."""

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration


class Promise:
    """An awaitable of somebody's own."""

    def __await__(self):
        yield


STREAMS = {
    "generator": a_generator,
    "async-generator": an_async_generator,
    "generator-expression": lambda: (i for i in range(2)),
    "iterator": lambda: iter([1]),
    "map": lambda: map(str, [1]),
    "zip": lambda: zip([1], [2], strict=True),
    "chain": lambda: itertools.chain([1]),
    "reader": Reader,
    "future": Future,
    "promise": Promise,
    "coroutine": a_coroutine,
}

HOLDERS = {
    "alone": lambda v: v,
    "in-a-list": lambda v: [1, v],
    "in-a-dict": lambda v: {"k": {"l": v}},
    "in-a-tuple": lambda v: (1, (v,)),
    "in-all": lambda v: [{"k": ([v],)}],
    "overwrite": Overwrite,
}


@pytest.fixture(params=list(STREAMS))
def stream(request):
    made = []

    def make():
        made.append(STREAMS[request.param]())
        return made[-1]

    yield make
    for each in made:
        if asyncio.iscoroutine(each):
            each.close()


@pytest.mark.parametrize("holder", list(HOLDERS))
def test_streams_are_refused_in_updates(engine, stream, holder):
    """Rule 9: alone or inside containers; node, key and type are named, and nothing is applied."""
    hold = HOLDERS[holder]
    made = stream()
    graph = chain(State, odd=lambda s: {"y": 1, "x": hold(made)})
    if holder == "alone" and type(made).__name__ in ("generator", "async_generator"):
        assert engine.invoke(graph, {"x": 0})["x"] in ([0, 1], [1])  # test_streamed_values
        return
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(graph, {"x": 0})
    assert place(caught.value) == ("odd", "x")
    assert type(made).__name__ in str(caught.value)
    assert caught.value.result == {"x": 0, "log": []}


def test_streams_are_refused_in_inputs_and_sends(engine, stream):
    """Rule 9: every way into the state."""
    with pytest.raises(InvalidUpdateError, match="can't be part of the state"):
        engine.invoke(chain(State, a=nothing), {"x": [stream()]})
    graph = builder(State, {"a": nothing}).add_conditional_edges(START, lambda s: Send("a", {"x": stream()}))
    with pytest.raises(InvalidUpdateError, match="can't be part of the state"):
        engine.invoke(graph.compile(), {})
    graph = builder(State, {"a": nothing}, (START, "a"))
    graph.add_conditional_edges("a", lambda s: Command(update={"x": stream()}, goto=END))
    with pytest.raises(InvalidUpdateError, match="can't be part of the state"):
        engine.invoke(graph.compile(), {})


def test_a_stream_as_the_whole_return_is_refused(engine, stream):
    """Rule 9: also where a plain function returns one instead of an update."""
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(chain(State, odd=lambda s: stream()), {})
    assert caught.value.node == "odd"
    graph = chain(list, odd=lambda s: stream())
    if type(stream()).__name__ in ("generator", "async_generator"):
        assert engine.invoke(graph, []).value in (
            [0, 1],
            [1],
        )  # a single value's stream: used up, like a key's
        return
    with pytest.raises(InvalidUpdateError):
        engine.invoke(graph, [])


def test_a_futures_place_is_not_the_state(engine):
    """Rule 9: the event loop's own futures, from an async node."""

    async def odd(state):
        return {"x": asyncio.get_running_loop().create_future()}

    with pytest.raises(InvalidUpdateError, match="Future") as caught:
        engine.invoke(chain(State, odd=odd), {})
    assert place(caught.value) == ("odd", "x")


@pytest.mark.parametrize(
    "reducer",
    [itertools.chain, lambda old, new: (v for v in [*old, *new]), lambda old, new: [iter(new)]],
    ids=["chain", "generator", "nested"],
)
@pytest.mark.parametrize("count", [1, 2])
def test_what_a_reducer_makes_is_no_stream_either(engine, reducer, count):
    """Rule 9: the result of a reducer enters the state, so it is looked at too."""

    class Schema(TypedDict):
        v: Annotated[list[int], reducer]

    graph = fan(Schema, **{f"n{i}": wrote("v", [i]) for i in range(count)})
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(graph, {})
    assert caught.value.key == "v"


def test_an_async_reducer_is_refused(engine):
    """Rule 9: it would put coroutines into the state; when the graph is built this is known already."""

    async def reduce(old, new):
        return new

    class Schema(TypedDict):
        v: Annotated[list[int], reduce]

    with pytest.raises(GraphBuildError, match="async"):
        StateGraph(Schema)


def test_ranges_and_views_are_values(engine):
    """Rule 9 is about what is used up by reading."""
    graph = chain(State, a=lambda s: {"x": range(3), "y": frozenset({1})})
    assert engine.invoke(graph, {}) == {"x": range(3), "y": frozenset({1}), "log": []}
