"""Lifecycle listeners (right-behaviour 51): every event once, in order, balanced, to all of them, whatever one of them does."""

import asyncio
import operator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    Command,
    ConfigError,
    Event,
    GraphRecursionError,
    InMemorySaver,
    Listener,
    NothingToResumeError,
    RetryPolicy,
    Send,
    StateGraph,
    failure,
    interrupt,
)
from tests.behaviour.building import chain, compiled, fan, thread, wrote

pytestmark = pytest.mark.timeout(20)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


class Broken(Exception):
    """What a node or a listener fails with."""


class Noting(Listener):
    """Notes what it is told, as (kind, node)."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __repr__(self) -> str:
        return "<Noting>"

    def _note(self, event: Event) -> None:
        self.events.append(event)

    on_start = on_resume = before = after = on_error = on_interrupt = on_checkpoint = on_complete = _note

    @property
    def told(self) -> list[Any]:
        """Kinds and nodes, without checkpoints."""
        return [
            event.kind if event.node is None else (event.kind, event.node)
            for event in self.events
            if event.kind != "checkpoint"
        ]

    def of(self, kind: str) -> list[Event]:
        """The events of one kind."""
        return [event for event in self.events if event.kind == kind]

    def balanced(self) -> bool:
        """Whether each `before` has exactly one end, and nothing comes after the end of the run."""
        open_tasks: list[Any] = []
        for event in self.events:
            place = (event.run_id, event.namespace, event.task_id)
            if event.kind == "before":
                assert place not in open_tasks
                open_tasks.append(place)
            elif event.task_id is not None:
                open_tasks.remove(place)
        return not open_tasks and self.events[-1].kind == "complete"


class NotingAsync(Noting):
    """The same, async."""

    async def _note(self, event: Event) -> None:
        await asyncio.sleep(0)
        self.events.append(event)

    on_start = on_resume = before = after = on_error = on_interrupt = on_checkpoint = on_complete = _note


@pytest.fixture(params=[Noting, NotingAsync], ids=["sync listener", "async listener"])
def noting(request) -> Noting:
    """A listener."""
    return request.param()


def stepping(text: str) -> Any:
    """A node that adds a text to the log."""
    return wrote("log", [text])


def built(schema: Any, nodes: Any, *edges: Any, saver: Any = None, **options: Any) -> Any:
    """A compiled graph with options of compile."""
    builder = StateGraph(schema)
    for name, action in nodes.items():
        builder.add_node(name, action)
    for start, end in edges:
        builder.add_edge(start, end)
    return builder.compile(saver, **options)


def two(listeners: Any, saver: Any = None, **options: Any) -> Any:
    """START → a → b."""
    nodes = {"a": stepping("a"), "b": stepping("b")}
    return built(State, nodes, (START, "a"), ("a", "b"), saver=saver, listeners=listeners, **options)


def test_a_run_is_told_from_beginning_to_end(engine, noting):
    result = engine.invoke(two([noting]), {"log": ["in"]})
    assert noting.told == [
        "start",
        ("before", "a"),
        ("after", "a"),
        ("before", "b"),
        ("after", "b"),
        "complete",
    ]
    assert [event.state["log"] for event in noting.events] == [
        ["in"],
        ["in"],
        ["in", "a"],
        ["in", "a"],
        ["in", "a", "b"],
        ["in", "a", "b"],
    ]
    assert [event.update for event in noting.of("after")] == [{"log": ["a"]}, {"log": ["b"]}]
    assert {event.run_id for event in noting.events} == {result.run_id}
    end = noting.events[-1]
    assert (end.status, end.steps, end.error, end.interrupts) == ("completed", 2, None, ())
    assert [event.step for event in noting.of("before")] == [1, 2]
    assert all(event.duration >= 0 for event in [*noting.of("after"), end])
    assert noting.balanced()


def test_a_stream_is_told_as_well(engine, noting):
    engine.stream(two([noting]), {"log": []})
    assert noting.told[-1] == "complete"
    assert noting.balanced()


def test_what_a_listener_does_to_a_state_reaches_nobody(engine):
    def spoil(event: Event) -> None:
        event.state.setdefault("log", []).append("spoilt")

    assert engine.invoke(two([spoil]), {"log": []}) == {"log": ["a", "b"]}


def test_listeners_are_called_in_the_order_of_registration_for_every_event(engine):
    told: list[Any] = []

    async def later(event: Event) -> None:
        await asyncio.sleep(0)
        told.append(("later", event.kind))

    def first(event: Event) -> None:
        told.append(("first", event.kind))

    def last(event: Event) -> None:
        told.append(("last", event.kind))

    engine.invoke(two([first, later]), {"log": []}, listeners=[last])
    kinds = ["start", "before", "after", "before", "after", "complete"]
    assert told == [(name, kind) for kind in kinds for name in ("first", "later", "last")]


def test_side_by_side_each_node_is_told_once_with_its_own_write(engine, noting, colour):
    nodes = {name: colour(stepping(name)) for name in ("a", "b", "c")}
    graph = built(State, nodes, *((START, name) for name in nodes), listeners=[noting])
    engine.invoke(graph, {"log": []})
    assert sorted(noting.told, key=str)[:6] == sorted(noting.told[1:-1], key=str)
    assert {event.node: event.state["log"] for event in noting.of("after")} == {n: [n] for n in nodes}
    assert noting.balanced()


def test_sends_of_one_node_are_told_apart(engine, noting):
    builder = StateGraph(State)
    builder.add_node("n", lambda item: {"log": [item]})
    builder.add_conditional_edges(START, lambda state: [Send("n", 1), Send("n", 2)], ["n"])
    engine.invoke(builder.compile(listeners=[noting]), {"log": []})
    assert len({event.task_id for event in noting.of("before")}) == 2
    assert noting.balanced()


def test_a_nested_graphs_nodes_are_told_with_their_path(engine, noting):
    child = chain(State, inner=stepping("i"))
    graph = built(State, {"outer": child}, (START, "outer"), listeners=[noting])
    engine.invoke(graph, {"log": []})
    assert noting.told == [
        "start",
        ("before", "outer"),
        ("before", "inner"),
        ("after", "inner"),
        ("after", "outer"),
        "complete",
    ]
    inner = noting.of("after")[0]
    assert inner.namespace[0].startswith("outer:")
    assert noting.balanced()


def test_a_graph_called_in_a_function_is_part_of_the_run(engine, noting):
    child = chain(State, inner=stepping("i"))

    async def node(state):
        return {"log": (await child.ainvoke({"log": []}))["log"]}

    engine.invoke(built(State, {"outer": node}, (START, "outer"), listeners=[noting]), {"log": []})
    assert noting.told == [
        "start",
        ("before", "outer"),
        ("before", "inner"),
        ("after", "inner"),
        ("after", "outer"),
        "complete",
    ]
    assert noting.of("before")[1].namespace[0].startswith("outer:")


def test_a_failure_is_told_once_and_ends_the_run(engine, noting, colour):
    def fail(state):
        raise Broken("why")

    graph = built(
        State, {"a": stepping("a"), "b": colour(fail)}, (START, "a"), ("a", "b"), listeners=[noting]
    )
    with pytest.raises(Broken) as caught:
        engine.invoke(graph, {"log": []})
    assert noting.told[-3:] == [("before", "b"), ("error", "b"), "complete"]
    assert noting.of("error")[0].error is caught.value
    assert (noting.events[-1].status, noting.events[-1].error) == ("failed", caught.value)
    assert noting.balanced()


def test_tries_are_one_task(engine, noting):
    tries: list[int] = []

    def flaky(state):
        tries.append(1)
        if len(tries) < 3:
            raise Broken

    builder = StateGraph(State)
    builder.add_node("a", flaky, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    builder.add_edge(START, "a")
    engine.invoke(builder.compile(listeners=[noting]), {})
    assert noting.told == ["start", ("before", "a"), ("after", "a"), "complete"]
    assert noting.of("after")[0].attempt == 3


def test_siblings_of_a_failure_are_told_that_they_ended(engine, noting):
    async def fail(state):
        raise Broken

    async def long(state):
        await asyncio.Event().wait()

    graph = built(State, {"a": fail, "b": long}, (START, "a"), (START, "b"), listeners=[noting])
    with pytest.raises(Broken):
        engine.invoke(graph, {})
    assert sorted(event.node for event in noting.of("error")) == ["a", "b"]
    assert noting.balanced()


def test_reaching_the_limit_is_told(engine, noting):
    with pytest.raises(GraphRecursionError):
        engine.invoke(two([noting]), {"log": []}, {"recursion_limit": 1})
    assert noting.events[-1].status == "limit"
    assert noting.balanced()


def test_a_pause_and_what_goes_on(engine, noting):
    def ask(state):
        return {"log": [interrupt("which?")]}

    graph = built(State, {"a": ask}, (START, "a"), saver=InMemorySaver(), listeners=[noting])
    engine.invoke(graph, {"log": []}, thread())
    assert noting.told == ["start", ("before", "a"), ("interrupt", "a"), "complete"]
    assert noting.of("interrupt")[0].interrupts[0].value == "which?"
    assert (noting.events[-1].status, len(noting.events[-1].interrupts)) == ("interrupted", 1)
    assert noting.balanced()
    noting.events.clear()
    engine.resume(graph, "this", thread())
    assert noting.told == ["resume", ("before", "a"), ("after", "a"), "complete"]
    assert noting.balanced()


def test_static_pauses_are_told(engine, noting):
    graph = two([noting], InMemorySaver(), interrupt_before=["b"], interrupt_after=["a"])
    engine.invoke(graph, {"log": []}, thread())
    assert noting.told[-2:] == [("interrupt", "a"), "complete"]
    engine.invoke(graph, None, thread())
    assert next(event.interrupts[0].when for event in noting.of("interrupt")) == "after"
    assert noting.of("resume")


def test_checkpoints_are_told_as_they_are_saved(engine, noting):
    graph = two([noting], InMemorySaver())
    engine.invoke(graph, {"log": []}, thread())
    saved = [
        snapshot.config["configurable"]["checkpoint_id"] for snapshot in engine.history(graph, thread())
    ][::-1]
    assert [event.checkpoint_id for event in noting.of("checkpoint")] == saved


def test_a_command_that_only_updates_is_told_as_going_on(engine, noting):
    graph = two([noting], InMemorySaver())
    engine.invoke(graph, {"log": []}, thread())
    engine.invoke(graph, Command(goto="b"), thread())
    assert [event.kind for event in noting.events if event.kind in ("start", "resume")] == ["start", "resume"]


def test_a_consumer_that_stops_early_leaves_nothing_open(engine, noting):
    def pieces(state):
        yield {"log": [1]}
        yield {"log": [2]}

    graph = built(State, {"a": pieces}, (START, "a"), listeners=[noting])
    engine.consume(graph, {"log": []}, lambda _: False)
    assert noting.told == ["start", ("before", "a"), ("error", "a"), "complete"]
    assert noting.events[-1].status == "cancelled"
    assert noting.balanced()


# ---- listeners that fail


@pytest.fixture(params=["def", "async def"])
def failing(request) -> Any:
    """A listener that fails on every event."""

    def fail(event: Event) -> None:
        raise Broken(event.kind)

    async def fail_later(event: Event) -> None:
        await asyncio.sleep(0)
        raise Broken(event.kind)

    return fail if request.param == "def" else fail_later


def test_one_that_fails_stops_nobody_and_is_reported(engine, failing, noting, caplog):
    assert engine.invoke(two([failing, noting]), {"log": []}) == {"log": ["a", "b"]}
    assert len(noting.events) == 6
    assert len(caplog.records) == 6
    assert "start" in caplog.text
    assert "fail" in caplog.text


def test_it_may_be_ignored(engine, failing, noting, caplog):
    assert engine.invoke(two([failing, noting], on_listener_error="ignore"), {"log": []}) == {
        "log": ["a", "b"]
    }
    assert not caplog.records
    assert len(noting.events) == 6


def test_it_may_end_the_run(engine, failing):
    with pytest.raises(Broken, match="start") as caught:
        engine.invoke(two([failing], on_listener_error="raise"), {"log": []})
    assert any("listener" in note for note in caught.value.__notes__)


def test_it_doesnt_replace_what_a_node_raised(engine):
    def fail(state):
        raise Broken("node")

    def listen(event: Event) -> None:
        if event.kind == "complete":
            raise Broken("listener")

    graph = built(State, {"a": fail}, (START, "a"), listeners=[listen], on_listener_error="raise")
    with pytest.raises(Broken, match="node") as caught:
        engine.invoke(graph, {})
    assert any("listener" in note for note in caught.value.__notes__)
    assert failure(caught.value).node == "a"


def test_a_failure_at_the_end_of_a_good_run_is_raised(engine):
    def listen(event: Event) -> None:
        if event.kind == "complete":
            raise Broken("listener")

    with pytest.raises(Broken, match="listener"):
        engine.invoke(two([listen], on_listener_error="raise"), {"log": []})


# ---- contexts, many runs, wrong options


ENTERED: ContextVar[str] = ContextVar("entered", default="nowhere")


class Entering(Listener):
    """Sets a context variable for the code of each node."""

    def enter(self, event: Event) -> None:
        """Sets it."""
        ENTERED.set(f"{event.node}")


class EnteringBadly(Listener):
    """Fails before a node's code."""

    def enter(self, event: Event) -> None:
        """Fails."""
        raise Broken


def test_a_listener_may_set_context_variables_for_a_node(engine, colour):
    def look(state):
        return {"log": [ENTERED.get()]}

    graph = fan(State, a=colour(look), b=colour(look))
    assert engine.invoke(graph, {"log": []}, listeners=[EnteringBadly(), Entering()]) == {"log": ["a", "b"]}
    assert ENTERED.get() == "nowhere"


def test_runs_at_once_arent_mixed():
    noting = Noting()
    graph = two([noting])
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: graph.invoke({"log": [i]}), range(50)))
    for i, result in enumerate(results):
        mine = [event for event in noting.events if event.run_id == result.run_id]
        assert [event.kind for event in mine] == ["start", "before", "after", "before", "after", "complete"]
        assert mine[-1].state["log"] == [i, "a", "b"]


@pytest.mark.parametrize("listeners", ["text", 5, [5], [Listener]])
def test_what_cant_listen_is_refused(listeners):
    with pytest.raises(ConfigError, match="listen"):
        two(listeners)
    with pytest.raises(ConfigError, match="listen"):
        chain(State, a=stepping("a")).invoke({}, listeners=listeners)


def test_an_unknown_choice_is_refused():
    with pytest.raises(ConfigError, match="on_listener_error"):
        two([], on_listener_error="explode")


def test_a_listener_that_overrides_nothing_does_nothing(engine):
    graph = compiled(State, {"a": stepping("a")}, (START, "a"))
    assert engine.invoke(graph, {"log": []}, listeners=[Listener()]) == {"log": ["a"]}


def test_the_beginning_comes_before_the_first_checkpoint(engine, noting):
    engine.invoke(two([noting], InMemorySaver()), {"log": ["in"]}, thread())
    assert [event.kind for event in noting.events[:2]] == ["start", "checkpoint"]
    assert noting.events[0].state == {"log": ["in"]}


def test_a_call_that_is_refused_is_no_run(engine, noting):
    graph = two([noting], InMemorySaver())
    with pytest.raises(NothingToResumeError):
        engine.invoke(graph, None, thread("nobody"))
    assert noting.events == []
