"""Nodes that return streams as values: chunks are shown at once, what they make together is the write (rules 37 to 42)."""

import asyncio
import operator
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    Chunk,
    Command,
    ConfigError,
    DiscardedChunks,
    EmptyStreamError,
    InMemorySaver,
    InvalidUpdateError,
    MessagesState,
    Overwrite,
    RetryPolicy,
    StateGraph,
    Stream,
    failure,
    interrupt,
)
from tests.behaviour.building import chain, fan, thread

pytestmark = pytest.mark.timeout(20)
WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    x: Any
    y: Any


class Logged(State, total=False):
    log: Annotated[list[Any], operator.add]


@pytest.fixture(params=["generator", "async generator", "wrapped"])
def stream_of(request) -> Any:
    """Makes a stream of chunks, of one kind."""

    def make(*chunks: Any) -> Any:
        def sync() -> Iterator[Any]:
            yield from chunks

        async def later() -> AsyncIterator[Any]:
            for chunk in chunks:
                yield chunk

        return {"generator": sync, "async generator": later, "wrapped": lambda: Stream(chunks)}[
            request.param
        ]()

    return make


@pytest.fixture
def node_giving(colour) -> Any:
    """Makes a node, sync or async, that returns what a function gives."""

    def make(function: Any) -> Any:
        return colour(lambda state: function())

    return make


def texts(items: list[Any]) -> list[tuple[Any, Any]]:
    """(chunk, key) of what ``messages`` gave."""
    return [(chunk, metadata["key"]) for chunk, metadata in items]


def test_chunks_are_shown_and_the_text_is_the_write(engine, node_giving, stream_of):
    graph = chain(State, a=node_giving(lambda: {"x": stream_of("foo", " bar", " baz"), "y": 1}))
    shown = engine.stream(graph, {}, stream_mode=["messages", "updates"])
    assert texts([item for mode, item in shown if mode == "messages"]) == [
        ("foo", "x"),
        (" bar", "x"),
        (" baz", "x"),
    ]
    assert shown[-1] == ("updates", {"a": {"x": "foo bar baz", "y": 1}})
    assert engine.invoke(graph, {}) == {"x": "foo bar baz", "y": 1}


def test_all_streams_of_an_update_are_consumed(engine, node_giving, stream_of):
    graph = chain(State, a=node_giving(lambda: {"x": stream_of("a", "b"), "y": stream_of(1, 2)}))
    assert engine.invoke(graph, {}) == {"x": "ab", "y": [1, 2]}
    shown = texts(engine.stream(graph, {}, stream_mode="messages"))
    assert sorted(shown, key=str) == sorted([("a", "x"), ("b", "x"), (1, "y"), (2, "y")], key=str)
    for key in ("x", "y"):
        assert [chunk for chunk, of in shown if of == key] == (["a", "b"] if key == "x" else [1, 2])


def test_parallel_branches_stream_into_their_keys_and_reducers(engine, node_giving, stream_of):
    one = node_giving(lambda: {"x": stream_of("a", "b"), "log": stream_of([1], [2])})
    other = node_giving(lambda: {"y": stream_of("c"), "log": stream_of([3])})
    graph = fan(Logged, one=one, other=other)
    assert engine.invoke(graph, {"log": []}) == {"x": "ab", "y": "c", "log": [1, 2, 3]}


def test_a_command_may_carry_streams(engine, node_giving, stream_of):
    builder = StateGraph(State)
    builder.add_node(
        "a", node_giving(lambda: Command(update={"x": stream_of("a", "b")}, goto="b")), destinations=("b",)
    )
    builder.add_node("b", lambda state: {"y": state["x"]})
    builder.add_edge(START, "a")
    assert engine.invoke(builder.compile(), {}) == {"x": "ab", "y": "ab"}


def test_the_next_node_reads_a_plain_value(engine, node_giving, stream_of):
    graph = chain(
        State, a=node_giving(lambda: {"x": stream_of("a", "b", "c")}), b=lambda state: {"y": state["x"]}
    )
    got = engine.invoke(graph, {})["y"]
    assert got == "abc"
    assert type(got) is str


def test_a_stream_may_say_how(engine, node_giving):
    def given():
        return {
            "x": Stream(map(str, range(3)), aggregate=tuple),
            "y": Stream([1, 2, 3], chunk=lambda n: n * 2 if n > 1 else None),
        }

    graph = chain(State, a=node_giving(given))
    shown = texts(engine.stream(graph, {}, stream_mode="messages"))
    assert [chunk for chunk, key in shown if key == "y"] == [4, 6]
    assert engine.invoke(graph, {}) == {"x": ("0", "1", "2"), "y": [4, 6]}


def test_a_message_that_was_streamed_isnt_shown_whole_as_well(engine, node_giving, stream_of):
    def answer():
        return {
            "messages": stream_of(
                {"role": "assistant", "content": "hel"},
                None,
                {"role": "assistant", "content": "lo"},
                {"role": "assistant", "usage": {"total": 3}},
            )
        }

    graph = chain(MessagesState, a=node_giving(answer))
    shown = engine.stream(graph, {"messages": "hi"}, stream_mode="messages")
    assert "".join(chunk.get("content", "") for chunk, _ in shown) == "hello"
    assert shown[-1][0]["usage"] == {"total": 3}
    assert len(shown) == 3
    message = engine.invoke(graph, {"messages": "hi"})["messages"][-1]
    assert (message["content"], message["usage"]) == ("hello", {"total": 3})


def test_finished_messages_are_shown_once(engine, node_giving):
    class Two(MessagesState, total=False):
        last: Any

    first = {"role": "assistant", "content": "one", "id": "1"}
    builder = StateGraph(Two)
    builder.add_node("a", node_giving(lambda: {"messages": [first, "no message object"], "last": first}))
    builder.add_node(
        "b", lambda state: {"messages": state["messages"][-1:], "last": {"role": "x", "content": ""}}
    )
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    shown = engine.stream(
        builder.compile(),
        {
            "messages": [{"role": "user", "content": "in", "id": "0"}],
            "last": {"role": "user", "content": "without an id"},
        },
        stream_mode="messages",
    )
    assert [(m["content"], metadata["langgraph_node"]) for m, metadata in shown] == [
        ("one", "a"),
        ("no message object", "a"),
        ("", "b"),
    ]


def test_a_replacement_shows_what_is_new_and_lenient_graphs_show_objects_only(engine, node_giving):
    @dataclass
    class Said:
        content: str
        id: str
        type: str = "ai"

    def given():
        return {"messages": Overwrite([{"role": "a", "content": "x", "id": "1"}, Said("y", "2")])}

    for strict, contents in ((True, ["x", "y"]), (False, ["y"])):
        graph = chain(MessagesState, options={"strict": strict}, a=node_giving(given))
        shown = engine.stream(graph, {"messages": []}, stream_mode="messages")
        assert [m["content"] if isinstance(m, dict) else m.content for m, _ in shown] == contents


@pytest.mark.parametrize("subgraphs", [False, True])
def test_a_nested_graphs_messages_are_shown_once(engine, node_giving, subgraphs):
    child = chain(
        MessagesState, inner=node_giving(lambda: {"messages": [{"role": "a", "content": "x", "id": "1"}]})
    )
    graph = chain(MessagesState, outer=child)
    shown = engine.stream(graph, {"messages": []}, stream_mode="messages", subgraphs=subgraphs)
    items = [item[1] for item in shown] if subgraphs else shown
    assert [metadata["langgraph_node"] for _, metadata in items] == ["inner" if subgraphs else "outer"]


def test_a_nested_graphs_chunks_are_shown_where_they_are_asked_for(engine, node_giving, stream_of):
    child = chain(
        MessagesState, inner=node_giving(lambda: {"messages": stream_of({"role": "a", "content": "x"})})
    )
    graph = chain(MessagesState, outer=child)
    shown = engine.stream(graph, {"messages": []}, stream_mode="messages", subgraphs=True)
    assert [(ns[0].split(":")[0], metadata["langgraph_node"]) for ns, (_, metadata) in shown] == [
        ("outer", "inner")
    ]
    whole = engine.stream(graph, {"messages": []}, stream_mode="messages")
    assert [(message["content"], metadata["langgraph_node"]) for message, metadata in whole] == [
        ("x", "outer")
    ]


# ---- empty streams, failures, retries


def test_an_empty_stream_is_an_error_that_names_node_and_key(engine, node_giving, stream_of):
    graph = chain(State, a=node_giving(lambda: {"x": stream_of(), "y": 1}))
    with pytest.raises(EmptyStreamError, match=r"'a'.*'x'.*on_empty_stream") as caught:
        engine.invoke(graph, {})
    assert (caught.value.node, caught.value.key) == ("a", "x")


def test_an_empty_stream_may_be_skipped_and_what_is_beside_it_is_kept(engine, node_giving, stream_of):
    builder = StateGraph(State)
    builder.add_node("a", node_giving(lambda: {"x": stream_of(), "y": 1}), on_empty_stream="skip")
    builder.add_edge(START, "a")
    assert engine.invoke(builder.compile(), {"x": 0}) == {"x": 0, "y": 1}


class Broken(Exception):
    """What a stream ends with."""


@pytest.mark.parametrize("how", ["raised", "handed out"])
def test_a_failure_in_mid_stream_comes_after_the_chunks_before_it(engine, node_giving, how):
    def source():
        yield "a"
        if how == "raised":
            raise Broken
        yield Broken()
        yield "never"

    graph = chain(State, a=node_giving(lambda: {"x": source()}))
    shown: list[Any] = []
    with pytest.raises(Broken) as caught:
        engine.consume(graph, {}, shown.append, stream_mode="messages")
    assert [chunk for chunk, _ in shown] == ["a"]
    assert failure(caught.value).node == "a"


def test_what_a_failed_try_sent_is_discarded_where_it_can_be_seen(engine, node_giving):
    tries: list[int] = []

    def source():
        tries.append(1)
        yield "a" if len(tries) == 1 else "b"
        if len(tries) == 1:
            raise Broken

    builder = StateGraph(State)
    policy = RetryPolicy(initial_interval=0, jitter=False)
    builder.add_node("a", node_giving(lambda: {"x": source()}), retry_policy=policy)
    builder.add_edge(START, "a")
    graph = builder.compile()
    shown = engine.stream(graph, {}, stream_mode="messages")
    assert [(chunk, metadata["attempt"]) for chunk, metadata in shown] == [
        ("a", 1),
        (DiscardedChunks(1), 1),
        ("b", 2),
    ]
    tries.clear()
    assert engine.invoke(graph, {}) == {"x": "b"}


def test_one_stream_that_fails_ends_the_others(engine, node_giving):
    closed: list[str] = []

    def endless():
        try:
            while True:
                yield "a"
        finally:
            closed.append("endless")

    def broken():
        yield "b"
        raise Broken

    graph = chain(State, a=node_giving(lambda: {"x": endless(), "y": broken()}))
    with pytest.raises(Broken):
        engine.invoke(graph, {})
    assert closed == ["endless"]


def test_async_streams_run_side_by_side(engine):
    first, second = asyncio.Event(), asyncio.Event()

    async def source(mine: asyncio.Event, other: asyncio.Event):
        mine.set()
        async with asyncio.timeout(WAIT):
            await other.wait()
        yield "x"

    async def node(state):
        first.clear()
        second.clear()
        return {"x": source(first, second), "y": source(second, first)}

    assert engine.invoke(chain(State, a=node), {}) == {"x": "x", "y": "x"}


def test_one_async_stream_that_fails_cancels_the_others(engine):
    ended: list[str] = []

    async def endless():
        try:
            yield "a"
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def broken():
        yield "b"
        raise Broken

    async def node(state):
        return {"x": endless(), "y": broken()}

    with pytest.raises(Broken):
        engine.invoke(chain(State, a=node), {})
    assert ended == ["endless"]


def test_a_stream_may_ask(engine, node_giving):
    def source():
        yield "a"
        yield interrupt("which?")

    graph = chain(State, a=node_giving(lambda: {"x": source()}), saver=InMemorySaver())
    assert engine.invoke(graph, {}, thread()).interrupts[0].value == "which?"
    assert engine.resume(graph, "b", thread()) == {"x": "ab"}


# ---- what isn't a stream


@pytest.mark.parametrize("value", ["iterator", "nested", "chunk"])
def test_other_iterators_and_hidden_streams_are_refused(engine, node_giving, value):
    def given():
        return {"x": {"iterator": map(str, [1]), "nested": [(n for n in [1])], "chunk": Chunk(1)}[value]}

    with pytest.raises(InvalidUpdateError, match="'x'"):
        engine.invoke(chain(State, a=node_giving(given)), {})


def test_a_stream_of_nothing_that_can_be_iterated_is_refused(engine, node_giving):
    with pytest.raises(InvalidUpdateError, match=r"Stream of a int for key 'x'"):
        engine.invoke(chain(State, a=node_giving(lambda: {"x": Stream(5)})), {})


def test_an_async_stream_of_an_inline_sync_node_says_what_to_do():
    async def later():
        yield "a"

    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"x": later()}, inline=True)
    builder.add_edge(START, "a")
    with pytest.raises(ValueError, match="async def"):
        asyncio.run(builder.compile().ainvoke({}))


# ---- generator nodes


def pieces(state):
    yield {"x": Chunk("a"), "log": [1]}
    yield {"x": Chunk("b")}
    yield {"x": Chunk(None), "log": [2]}


async def async_pieces(state):
    for piece in pieces(state):
        yield piece


@pytest.fixture(params=[pieces, async_pieces], ids=["generator", "async generator"])
def generator(request):
    """A node that yields pieces with chunks."""
    return request.param


def test_chunks_of_a_generator_node_make_one_value(engine, generator):
    graph = chain(Logged, a=generator)
    shown = engine.stream(graph, {"log": []}, stream_mode=["messages", "updates"])
    assert [(mode, item[0] if mode == "messages" else item) for mode, item in shown] == [
        ("messages", "a"),
        ("updates", {"a": {"log": [1]}}),
        ("messages", "b"),
        ("updates", {"a": {"log": [2]}}),
        ("updates", {"a": {"x": "ab"}}),
    ]
    assert engine.invoke(graph, {"log": []}) == {"x": "ab", "log": [1, 2]}


def test_a_generator_node_of_nothing_but_chunks_is_one_update(engine):
    def node(state):
        yield {"x": Chunk("a")}
        yield {"x": Chunk("b")}

    graph = chain(State, a=node)
    assert engine.stream(graph, {}, stream_mode="updates") == [{"a": {"x": "ab"}}]


# ---- at once, and stopped early


def test_the_first_chunk_comes_before_the_stream_ends(engine, node_giving):
    came = threading.Event()

    def source():
        yield "a"
        assert came.wait(WAIT), "the chunk wasn't handed over while its stream went on"
        yield "b"

    graph = chain(State, a=node_giving(lambda: {"x": source()}))
    engine.consume(graph, {}, lambda _: came.set(), stream_mode="messages")


def test_a_consumer_that_stops_early_closes_the_stream_and_leaves_the_thread_usable(engine, node_giving):
    closed: list[bool] = []
    later: list[bool] = []

    def source():
        try:
            while True:
                yield "a"
        finally:
            closed.append(True)

    def once():
        return {"x": source() if not closed else "whole"}

    graph = chain(State, a=node_giving(once), b=lambda state: later.append(True), saver=InMemorySaver())
    engine.consume(graph, {}, lambda _: False, thread(), stream_mode="messages")
    assert closed == [True]
    assert later == []
    assert engine.invoke(graph, None, thread()) == {"x": "whole"}


# ---- checkpoints


@pytest.mark.parametrize("mode", ["checkpoints", "debug"])
def test_each_checkpoint_shows_as_it_is_saved(engine, mode):
    graph = chain(State, a=lambda state: {"x": 1}, b=lambda state: {"y": 2}, saver=InMemorySaver())
    shown = engine.stream(graph, {"x": 0}, thread(), stream_mode=mode)
    if mode == "debug":
        shown = [item["payload"] for item in shown if item["type"] == "checkpoint"]
    history = engine.history(graph, thread())[::-1]
    assert [item["config"] for item in shown] == [snapshot.config for snapshot in history]
    assert [item["parent_config"] for item in shown] == [snapshot.parent_config for snapshot in history]
    assert [item["values"] for item in shown] == [{"x": 0}, {"x": 1}, {"x": 1, "y": 2}]
    assert [item["next"] for item in shown] == [["a"], ["b"], []]
    assert [[task["id"] for task in item["tasks"]] for item in shown] == [
        [task.id for task in snapshot.tasks] for snapshot in history
    ]
    assert [item["metadata"] for item in shown] == [dict(snapshot.metadata) for snapshot in history]


def test_checkpoints_need_a_saver(engine):
    with pytest.raises(ConfigError, match="checkpoints"):
        engine.stream(chain(State, a=lambda state: {"x": 1}), {}, stream_mode="checkpoints")


def test_a_nested_graphs_checkpoints_name_it(engine):
    child = chain(State, inner=lambda state: {"x": 1})
    graph = chain(State, outer=child, saver=InMemorySaver())
    shown = engine.stream(graph, {}, thread(), stream_mode="checkpoints", subgraphs=True)
    nested = [item["config"]["configurable"]["checkpoint_ns"] for ns, item in shown if ns]
    assert nested
    assert all(ns.startswith("outer:") for ns in nested)
