"""Where an event comes from: the path of its graph, and only that (right-behaviour 43, defects 70 and 71)."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest

from juncture import START, Send, StateGraph, get_stream_writer
from tests.behaviour.building import chain, fan, nothing, wrote

MODES = ["values", "updates", "custom", "tasks", "debug"]


class Log(TypedDict, total=False):
    messages: Annotated[list[str], operator.add]
    x: Any


def says(text: str):
    """A node that says `text`, to the state and to whoever listens."""

    def node(state, writer):
        writer(text)
        return {"messages": [text]}

    return node


def names(ns: tuple[str, ...]) -> tuple[str, ...]:
    """A namespace without the ids of tasks."""
    return tuple(segment.partition(":")[0] for segment in ns)


def nested(depth: int) -> Any:
    """Level 0 says something before and after the level inside it."""
    inner = chain(Log, leaf=says(f"leaf {depth}"))
    for level in range(depth - 1, -1, -1):
        inner = chain(Log, before=says(f"before {level}"), inner=inner, after=says(f"after {level}"))
    return inner


@pytest.mark.parametrize("mode", MODES)
def test_events_carry_the_path_of_their_graph(engine, mode):
    """Rule 43: at any depth, in every mode; the root's is empty."""
    parts = engine.stream(nested(2), {}, stream_mode=mode, subgraphs=True, version="parts")
    seen = {part.ns for part in parts}
    assert {names(ns) for ns in seen} == {(), ("inner",), ("inner", "inner")}
    for ns in seen:
        assert all(segment.partition(":")[2] for segment in ns)
    for part in parts:
        text = str(part.data)
        if mode in ("custom", "updates"):
            level = len(part.ns)
            assert f" {level}" in text or (part.node == "inner" and mode == "updates"), part


@pytest.mark.parametrize("mode", MODES)
def test_without_subgraphs_only_the_root_shows(engine, mode):
    """graph-api 9: what happens inside isn't shown unless it is asked for."""
    parts = engine.stream(nested(2), {}, stream_mode=mode, version="parts")
    assert {part.ns for part in parts} == {()}
    if mode == "custom":
        assert [part.data for part in parts] == ["before 0", "after 0"]


def test_plain_streaming_nodes_have_the_path_of_the_root(engine):
    """Case C78: a generator, a writer, a parallel task, a loop, a send in the root aren't a subgraph's."""

    def generator(state):
        yield {"messages": ["1"]}
        yield {"messages": ["2"]}

    async def async_generator(state):
        get_stream_writer()("async")
        yield {"messages": ["3"]}

    graph = StateGraph(Log).add_node("generator", generator).add_node("async_generator", async_generator)
    graph.add_node("writer", says("w")).add_node("worker", says("s"))
    for name in ("generator", "async_generator", "writer"):
        graph.add_edge(START, name)
    graph.add_conditional_edges("generator", lambda s: [Send("worker", {}), Send("worker", {})])
    items = engine.stream(graph.compile(), {}, stream_mode=MODES, subgraphs=True)
    assert {ns for ns, _, _ in items} == {()}


def test_parallel_children_have_paths_of_their_own(engine):
    """Rule 43: two nodes, and two tasks of one node, are told apart; each event is its own graph's."""

    def child(name):
        return chain(Log, one=says(f"{name}1"), two=says(f"{name}2"))

    graph = fan(Log, a=child("a"), b=child("b"))
    items = engine.stream(graph, {}, stream_mode=["custom"], subgraphs=True)
    by_path: dict[Any, list[str]] = {}
    for ns, _, text in items:
        by_path.setdefault(names(ns), []).append(text)
    assert by_path == {("a",): ["a1", "a2"], ("b",): ["b1", "b2"]}
    sender = StateGraph(Log).add_node(
        "child", chain(Log, one=lambda s, writer: writer(s["x"]), two=lambda s, writer: writer(s["x"]))
    )
    sender.add_conditional_edges(START, lambda s: [Send("child", {"x": i}) for i in range(3)])
    items = engine.stream(sender.compile(), {}, stream_mode=["custom"], subgraphs=True)
    by_path = {}
    for ns, _, x in items:
        by_path.setdefault(ns, []).append(x)
    assert sorted(by_path.values()) == [[0, 0], [1, 1], [2, 2]]


def test_a_namespace_stays_the_same_for_a_task(engine):
    """Rule 43: all events of one run of a child have one namespace, and tasks of later steps have others."""
    child = chain(Log, one=says("1"), two=says("2"))
    graph = chain(Log, a=child, b=child)
    seen = [ns for ns, _ in engine.stream(graph, {}, stream_mode="custom", subgraphs=True)]
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert seen[0] != seen[2]


def test_what_a_node_knows_of_its_place(engine):
    """Rule 43 and defect 13: the runtime tells the same namespace, the run's id and the node's name."""
    told = {}

    def look(state, runtime):
        info = runtime.execution_info
        told[names(info.namespace)] = (info.namespace, info.node, info.run_id)

    graph = chain(Log, look=look, inner=chain(Log, look=look, inner=chain(Log, look=look)))
    parts = engine.stream(graph, {}, stream_mode="updates", subgraphs=True, version="parts")
    assert set(told) == {(), ("inner",), ("inner", "inner")}
    assert {ns for ns, _, _ in told.values()} == {part.ns for part in parts}
    assert {node for _, node, _ in told.values()} == {"look"}
    assert all(run_id for _, _, run_id in told.values())


def test_events_come_in_one_order(engine):
    """Promise 9: one sequence over all graphs: a child's events lie between its node's start and end."""
    parts = engine.stream(nested(2), {}, stream_mode=["tasks", "custom"], subgraphs=True, version="parts")
    assert [part.seq for part in parts] == list(range(len(parts)))
    depth = [len(part.ns) for part in parts if part.mode == "custom"]
    assert depth == [0, 1, 2, 1, 0]
    starts = [
        i for i, part in enumerate(parts) if part.mode == "tasks" and part.node == "inner" and not part.ns
    ]
    assert all(starts[0] < i < starts[1] for i, part in enumerate(parts) if part.ns)


def test_a_childs_values_are_its_own(engine):
    """Rule 43, defect 71: `values` of a child show the child's state."""

    class Inner(TypedDict, total=False):
        x: Any
        private: int

    child = chain(Inner, a=wrote("private", 1), b=wrote("x", 2))
    items = engine.stream(
        chain(Log, before=wrote("x", 1), child=child), {}, stream_mode="values", subgraphs=True
    )
    assert [(names(ns), values) for ns, values in items] == [
        ((), {"messages": []}),
        ((), {"messages": [], "x": 1}),
        (("child",), {"x": 1}),
        (("child",), {"x": 1, "private": 1}),
        (("child",), {"x": 2, "private": 1}),
        ((), {"messages": [], "x": 2}),
    ]


def test_an_error_tells_the_path(engine):
    """Rule 49: the namespace is on the exception and in its note."""

    def fail(state):
        raise RuntimeError("deep")

    from juncture import failure

    graph = chain(Log, a=nothing, inner=chain(Log, inner=chain(Log, fail=fail)))
    with pytest.raises(RuntimeError, match="deep") as caught:
        engine.invoke(graph, {})
    where = failure(caught.value)
    assert names(where.namespace) == ("inner", "inner")
    assert any("|".join(where.namespace) in note for note in caught.value.__notes__)


def test_a_question_tells_the_path(engine, saver):
    """Rules 25 and 43: the interrupt has the namespace of the graph that asked."""
    from juncture import interrupt

    graph = chain(Log, inner=chain(Log, ask=lambda s: {"x": interrupt("?")}), saver=saver)
    (question,) = engine.invoke(graph, {}, thread_id="t").interrupts
    assert names(question.namespace) == ("inner",)
    assert question.node == "ask"


def test_cancelled_children_are_silent():
    """Rule 43, promise 9: after a stream was closed, nothing more comes from inside."""
    began = []

    async def slow(state, writer):
        began.append(1)
        writer("began")
        await asyncio.Event().wait()

    graph = chain(Log, inner=chain(Log, slow=slow))

    async def main():
        async for _ns, text in graph.astream({}, stream_mode="custom", subgraphs=True):
            assert text == "began"
            break

    asyncio.run(main())
    assert began == [1]
