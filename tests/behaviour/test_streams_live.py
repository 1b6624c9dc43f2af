"""Streams while nodes run: pieces and chunks are handed over at once, and slow consumers slow their nodes."""

import asyncio
import operator
import threading
from contextlib import aclosing
from contextvars import copy_context
from typing import Annotated, Any, TypedDict

import pytest

from juncture import InvalidUpdateError, failure, get_stream_writer
from tests.behaviour.building import chain, fan, thread, wrote

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


class Baton:
    """Lets a node wait until its consumer has got the item that it sent, whatever thread or loop either is on."""

    def __init__(self) -> None:
        self.got: list[threading.Event] = [threading.Event() for _ in range(10)]

    def take(self, item: Any) -> None:
        """For the consumer: an item has come."""
        next(event for event in self.got if not event.is_set()).set()

    def wait(self, count: int) -> None:
        """For a sync node: until so many have come."""
        assert self.got[count - 1].wait(WAIT), f"item {count} wasn't handed over while its node was running"

    async def arrive(self, count: int) -> None:
        """For an async node: the same, without blocking its loop."""
        async with asyncio.timeout(WAIT):
            while not self.got[count - 1].is_set():  # noqa: ASYNC110 - it may be set from another thread
                await asyncio.sleep(0)


# ── generator nodes ──────────────────────────────────────────────────────────────────────────────────────────


def pieces(state):
    yield {"log": [1], "x": "first"}
    yield {"log": [2]}
    yield {"x": "last", "y": 0}


async def async_pieces(state):
    for piece in pieces(state):
        yield piece


@pytest.fixture(params=[pieces, async_pieces], ids=["generator", "async generator"])
def generator(request):
    """A node that yields three pieces."""
    return request.param


def test_each_piece_is_an_update_and_the_keys_are_merged(engine, generator):
    graph = chain(State, a=generator)
    assert engine.stream(graph, {"log": [0]}, stream_mode=["updates", "values"]) == [
        ("values", {"log": [0]}),
        ("updates", {"a": {"log": [1], "x": "first"}}),
        ("updates", {"a": {"log": [2]}}),
        ("updates", {"a": {"x": "last", "y": 0}}),
        ("values", {"log": [0, 1, 2], "x": "last", "y": 0}),
    ]
    assert engine.invoke(graph, {"log": [0]}) == {"log": [0, 1, 2], "x": "last", "y": 0}


def test_a_reducer_takes_one_write_a_piece_in_order(engine):
    calls: list[Any] = []

    def keep(old, new):
        calls.append(new)
        return old + new

    class Kept(TypedDict, total=False):
        log: Annotated[list[Any], keep]

    def node(state):
        yield {"log": ["a"]}
        yield {"log": ["b"]}
        yield {"log": ["c"]}

    assert engine.invoke(chain(Kept, a=node), {"log": []})["log"] == ["a", "b", "c"]
    assert calls[-3:] == [["a"], ["b"], ["c"]]


def test_what_a_generator_returns_is_one_more_piece(engine):
    def node(state):
        yield {"log": [1]}
        return {"log": [2], "x": 3}

    assert engine.invoke(chain(State, a=node), {"log": [0]}) == {"log": [0, 1, 2], "x": 3}


def test_a_generator_that_yields_nothing_writes_nothing_and_shows(engine):
    def node(state):
        yield from ()

    assert engine.stream(chain(State, a=node), {"x": 1}) == [{"a": None}]


def test_generators_side_by_side_merge_in_plan_order(engine, generator):
    def other(state):
        yield {"log": ["o1"]}
        yield {"log": ["o2"]}

    graph = fan(State, b=other, a=generator)
    assert engine.invoke(graph, {"log": [0]})["log"] == [0, 1, 2, "o1", "o2"]


def test_tasks_shows_the_pieces_of_a_generator_as_one_result(engine, generator):
    _, end = engine.stream(chain(State, a=generator), {"log": [0]}, stream_mode="tasks")
    assert end["result"] == {"log": {"$writes": [[1], [2]]}, "x": "last", "y": 0}


def test_a_lone_generator_makes_no_piece_before_the_last_was_handed_over():
    """In the caller's thread this is so without any waiting."""
    made: list[int] = []

    def node(state):
        for n in range(4):
            made.append(n)
            yield {"log": [n]}

    seen = [len(made) for _ in chain(State, a=node).stream({"log": []})]
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_each_piece_of_a_generator_is_shown_before_the_next_is_made(engine, beside):
    baton = Baton()
    made: list[int] = []

    def node(state):
        for n in range(1, 4):
            made.append(n)
            yield {"log": [n]}
            if engine.is_async or beside:
                baton.wait(n)

    def use(item):
        if "a" in item:
            baton.take(item)
            if not (engine.is_async or beside):
                assert len(made) == item["a"]["log"][0]

    others = {"b": wrote("y", 1)} if beside else {}
    items = engine.consume(fan(State, a=node, **others), {"log": []}, use)
    assert [item["a"]["log"] for item in items if "a" in item] == [[1], [2], [3]]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_each_piece_of_an_async_generator_is_shown_before_the_next_is_made(engine, beside):
    baton = Baton()

    async def node(state):
        for n in range(1, 4):
            yield {"log": [n]}
            await baton.arrive(n)

    def use(item):
        if "a" in item:
            baton.take(item)

    others = {"b": wrote("y", 1)} if beside else {}
    items = engine.consume(fan(State, a=node, **others), {"log": []}, use)
    assert [item["a"]["log"] for item in items if "a" in item] == [[1], [2], [3]]


def test_each_piece_of_a_nested_generator_is_shown_before_the_next_is_made(engine):
    baton = Baton()

    async def node(state):
        for n in range(1, 4):
            yield {"log": [n]}
            await baton.arrive(n)

    graph = chain(State, sub=chain(State, leaf=node))

    def use(item):
        namespace, data = item
        if namespace:
            baton.take(data)

    items = engine.consume(graph, {"log": []}, use, subgraphs=True)
    assert [data for ns, data in items if ns] == [{"leaf": {"log": [n]}} for n in (1, 2, 3)]


def test_a_generator_that_fails_keeps_what_was_shown_and_writes_nothing(engine, saver):
    class Boom(Exception):
        pass

    def node(state):
        yield {"log": [1]}
        raise Boom

    graph = chain(State, saver=saver, a=node)
    items: list[Any] = []
    with pytest.raises(Boom) as caught:
        engine.consume(graph, {"log": [0]}, items.append, thread(), stream_mode=["updates", "values"])
    assert items == [("values", {"log": [0]}), ("updates", {"a": {"log": [1]}})]
    assert failure(caught.value).result == {"log": [0]}


def test_a_piece_that_is_no_update_fails_the_node(engine):
    def node(state):
        yield {"log": [1]}
        yield 17

    with pytest.raises(InvalidUpdateError, match="'a'"):
        engine.invoke(chain(State, a=node), {"log": [0]})


def test_a_piece_with_an_unknown_key_fails_the_node(engine, generator):
    def node(state):
        yield {"log": [1]}
        yield {"lgo": [2]}

    with pytest.raises(InvalidUpdateError, match=r"lgo.*log"):
        engine.invoke(chain(State, a=node), {"log": [0]})


def test_pieces_are_copied_when_they_are_yielded(engine):
    def node(state):
        piece = [1]
        yield {"log": piece}
        piece.append("changed")
        yield {"x": 1}

    assert engine.invoke(chain(State, a=node), {"log": []}) == {"log": [1], "x": 1}


# ── chunks ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["alone", "beside another", "nested", "called inside"])
@pytest.mark.parametrize("colour", ["def", "async def"])
def test_a_chunk_is_handed_over_while_its_node_runs(engine, colour, where):
    baton = Baton()

    def talks(state, writer):
        for n in range(1, 4):
            writer(n)
            baton.wait(n)
        return {"x": 1}

    async def talks_async(state, writer):
        for n in range(1, 4):
            writer(n)
            await baton.arrive(n)
        return {"x": 1}

    node = talks if colour == "def" else talks_async
    others = {"b": wrote("y", 1)} if where == "beside another" else {}
    graph = fan(State, a=node, **others)
    if where == "nested":
        graph = chain(State, sub=graph)
    items = engine.consume(graph, {"log": []}, baton.take, stream_mode="custom", subgraphs=True)
    assert [data for _, data in items] == [1, 2, 3]


def test_chunks_of_a_graph_called_inside_a_node_are_not_its_parents(engine, colour):
    """A graph that a function calls streams to whoever streams it."""
    inner = chain(State, leaf=colour(lambda state, writer: writer("inner")))
    got: list[Any] = []

    def calls(state, writer):
        for item in inner.stream({"x": 1}, stream_mode="custom"):
            got.append(item)
            writer(("relayed", item))
        return {"x": 2}

    graph = chain(State, a=calls)
    assert engine.stream(graph, {"x": 1}, stream_mode="custom") == [("relayed", "inner")]
    assert got == ["inner"]


def test_chunks_stand_between_what_came_before_and_after_them(engine, colour):
    def talks(state, writer):
        writer("one")
        writer("two")
        return {"x": 2}

    graph = chain(State, a=colour(talks), b=wrote("y", 3))
    assert engine.stream(graph, {"x": 1}, stream_mode=["custom", "updates"]) == [
        ("custom", "one"),
        ("custom", "two"),
        ("updates", {"a": {"x": 2}}),
        ("updates", {"b": {"y": 3}}),
    ]


def test_chunks_sent_before_a_failure_come_before_it(engine, colour):
    def talks(state, writer):
        writer("one")
        writer("two")
        raise ValueError("no")

    items: list[Any] = []
    with pytest.raises(ValueError, match="no"):
        engine.consume(chain(State, a=colour(talks)), {"x": 1}, items.append, stream_mode="custom")
    assert items == ["one", "two"]


def test_chunks_from_a_thread_that_the_node_started(engine):
    def node(state):
        helper = threading.Thread(
            target=copy_context().run, args=(lambda: get_stream_writer()("from a thread"),)
        )
        helper.start()
        helper.join()

    graph = chain(State, a=node)
    assert engine.stream(graph, {"x": 1}, stream_mode="custom") == ["from a thread"]


# ── back-pressure ────────────────────────────────────────────────────────────────────────────────────────────

MANY = 5_000


def test_a_worker_that_sends_faster_than_is_consumed_waits_for_room(engine):
    """The consumer holds its first item while the node sends all it can: not everything fits."""
    sent: list[int] = []
    stuck = threading.Event()
    first = threading.Event()

    def node(state, writer):
        for n in range(MANY):
            writer(n)
            sent.append(n)
            if n == MANY - 1:
                stuck.set()

    def use(item):
        if not first.is_set():
            first.set()
            assert not stuck.wait(0.5), "everything was sent though nothing more was consumed"
            assert len(sent) < MANY

    items = engine.consume(chain(State, a=node), {"x": 1}, use, stream_mode="custom")
    assert items == list(range(MANY))


def test_pieces_of_a_worker_wait_for_room_too(engine):
    made: list[int] = []
    first = threading.Event()
    everything = threading.Event()

    def node(state):
        for n in range(MANY):
            made.append(n)
            yield {"x": n}
        everything.set()

    def use(item):
        if "a" in item and not first.is_set():
            first.set()
            assert not everything.wait(0.5)
            assert len(made) < MANY

    items = engine.consume(fan(State, a=node, b=wrote("y", 1)), {"x": 1}, use)
    assert [item["a"]["x"] for item in items if "a" in item] == list(range(MANY))


def test_pieces_of_an_async_generator_wait_for_room(engine):
    made: list[int] = []
    first = threading.Event()

    async def node(state):
        for n in range(MANY):
            made.append(n)
            yield {"x": n}

    async def main():
        graph = chain(State, a=node)
        async with aclosing(graph.astream({"x": 1})) as stream:
            async for _ in stream:
                if not first.is_set():
                    first.set()
                    for _ in range(3 * MANY):
                        await asyncio.sleep(0)
                    assert len(made) < MANY

    def use(item):
        if not first.is_set():
            first.set()
            assert len(made) < MANY

    if engine.is_async:
        asyncio.run(main())
    else:
        engine.consume(chain(State, a=node), {"x": 1}, use)
    assert made == list(range(MANY))


def test_a_slow_consumer_gets_everything_in_order_from_several_workers(engine):
    def talks(name):
        def node(state, writer):
            for n in range(1_000):
                writer((name, n))

        return node

    graph = fan(State, a=talks("a"), b=talks("b"), c=talks("c"), d=talks("d"))
    items = engine.stream(graph, {"x": 1}, stream_mode="custom")
    assert len(items) == 4_000
    for name in "abcd":
        assert [n for who, n in items if who == name] == list(range(1_000))
