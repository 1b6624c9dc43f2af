"""Graphs as nodes: what goes in, what comes out, once and exactly (right-behaviour 15, defects 64 to 71)."""

import operator
import threading
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from juncture import (
    END,
    MARK_FOR_REMOVAL,
    START,
    Append,
    Command,
    GraphBuildError,
    InterruptError,
    Overwrite,
    Remove,
    ReplaceAll,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    failure,
    interrupt,
    task,
)
from tests.behaviour.building import builder, chain, fan, nothing, seen_by, wrote


class Log(TypedDict, total=False):
    messages: Annotated[list[str], operator.add]
    x: Any
    y: Any


def n(text: str):
    """A node that says `text`."""
    return wrote("messages", [text])


def speakers(*names: str) -> dict[str, Any]:
    return {name: n(name) for name in names}


def order(items: list[Any]) -> list[str]:
    """The nodes that ended, with the path of their graph, as a stream with subgraphs tells it."""
    return [
        "/".join([*(segment.partition(":")[0] for segment in ns), node])
        for ns, update in items
        for node in update
        if node != "__interrupt__"
    ]


def ordered(engine: Any, graph: Any, given: Any, **options: Any) -> list[str]:
    return order(engine.stream(graph, given, stream_mode="updates", subgraphs=True, **options))


def wrapped(graph: Any, depth: int, schema: Any = Log) -> Any:
    """The graph inside `depth` graphs that do nothing else."""
    for _ in range(depth):
        graph = chain(schema, child=graph)
    return graph


# ── the shape ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["compiled", "builder"])
def test_a_flat_subgraph(engine, kind):
    """Case C62: A→B(B1→B2)→C, the child given compiled or still to be compiled."""
    child = builder(Log, speakers("B1", "B2"), (START, "B1"), ("B1", "B2"), ("B2", END))
    if kind == "compiled":
        child = child.compile()
    graph = chain(Log, A=n("A"), B=child, C=n("C"))
    assert ordered(engine, graph, {}) == ["A", "B/B1", "B/B2", "B", "C"]
    assert engine.invoke(graph, {})["messages"] == ["A", "B1", "B2", "C"]


def conditional_child() -> StateGraph:
    """B1→B2, B2 routes to C or ends; START is conditional."""
    child = builder(Log, speakers("B1", "B2", "C"), ("B1", "B2"), ("C", END))
    child.add_conditional_edges(START, lambda s: "B1", ["B1"])
    return child.add_conditional_edges("B2", lambda s: s["x"], {"on": "C", "out": END})


@pytest.mark.parametrize(("x", "inside"), [("on", ["B/B1", "B/B2", "B/C"]), ("out", ["B/B1", "B/B2"])])
def test_conditions_inside(engine, x, inside):
    """Case C63: the child's own routes, with names that the parent has too."""
    graph = chain(Log, A=n("A"), B=conditional_child().compile(), C=n("C"))
    assert ordered(engine, graph, {"x": x}) == ["A", *inside, "B", "C"]


@pytest.mark.parametrize("with_saver", [False, True])
def test_messages_through_a_child(engine, saver, with_saver):
    """Case C67: step1, step2, child 1-3, step3: exactly six messages in order, with and without a saver."""
    child = chain(Log, c1=n("child1"), c2=n("child2"), c3=n("child3"))
    graph = chain(
        Log, s1=n("step1"), s2=n("step2"), child=child, s3=n("step3"), saver=saver if with_saver else None
    )
    options = {"thread_id": "t"} if with_saver else {}
    six = ["step1", "step2", "child1", "child2", "child3", "step3"]
    assert engine.invoke(graph, {}, **options)["messages"] == six
    if with_saver:
        assert engine.invoke(graph, {}, **options)["messages"] == six * 2


def test_commands_inside_and_outside(engine):
    """Case C68: a command in the child, then one in the parent."""
    child = builder(
        Log,
        speakers("p_node1", "p_node2")
        | {"go": lambda s: Command(goto="p_node1", update={"messages": ["go to p_node1"]})},
        (START, "go"),
        ("p_node1", "p_node2"),
    ).compile()
    graph = builder(
        Log,
        speakers("node1", "node2")
        | {"child": child, "go": lambda s: Command(goto="node1", update={"messages": ["go to node 1"]})},
        (START, "child"),
        ("child", "go"),
        ("node1", "node2"),
    )
    expected = ["go to p_node1", "p_node1", "p_node2", "go to node 1", "node1", "node2"]
    assert engine.invoke(graph.compile(), {})["messages"] == expected


@pytest.mark.parametrize("depth", [1, 2, 3, 10])
def test_any_depth(engine, depth):
    """Rule 15: the same at every depth: one write each."""
    graph = chain(
        Log, before=n("before"), nested=wrapped(chain(Log, leaf=n("leaf")), depth), after=n("after")
    )
    assert engine.invoke(graph, {"messages": ["in"]})["messages"] == ["in", "before", "leaf", "after"]


# ── rule 15: what comes back ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_untouched_keys_are_no_write(engine, depth):
    """Rule 15: lists aren't appended twice, and two parallel subgraphs don't conflict on a key neither wrote."""
    left = wrapped(chain(Log, write=wrote("x", "left")), depth)
    right = wrapped(chain(Log, write=wrote("y", "right")), depth)
    graph = fan(Log, left=left, right=right, third=wrapped(chain(Log, idle=nothing), depth))
    result = engine.invoke(graph, {"messages": ["in"], "x": 0, "y": 0})
    assert result == {"messages": ["in"], "x": "left", "y": "right"}


def test_an_untouched_key_shows_nowhere(engine):
    """Rule 15: nor in `updates`: a child that wrote nothing updates nothing."""
    graph = chain(Log, idle=chain(Log, a=nothing), busy=chain(Log, a=wrote("x", 1), b=n("b")))
    updates = engine.stream(graph, {"messages": ["in"], "y": 1}, stream_mode="updates")
    assert updates == [{"idle": None}, {"busy": {"x": 1, "messages": ["b"]}}]


def test_parallel_subgraphs_append_side_by_side(engine):
    """Rule 15: each child's own writes, merged in plan order, whichever ended first."""
    b_ended = threading.Event()

    def slow(state):
        assert b_ended.wait(20)
        return {"messages": ["a2"]}

    def last(state):
        b_ended.set()
        return {"messages": ["b2"]}

    graph = fan(Log, a=chain(Log, one=n("a1"), two=slow), b=chain(Log, one=n("b1"), two=last))
    assert engine.invoke(graph, {"messages": ["in"]})["messages"] == ["in", "a1", "a2", "b1", "b2"]


def test_parallel_subgraphs_that_write_one_key_conflict(engine):
    """Rules 6 and 15: they do where both wrote it; the nodes are the parent's."""
    graph = fan(Log, a=chain(Log, one=wrote("x", 1)), b=chain(Log, one=wrote("x", 2)))
    with pytest.raises(Exception, match=r"'x'.*'a'.*'b'"):
        engine.invoke(graph, {})


def test_a_key_written_with_its_old_value_is_a_write(engine):
    """Rule 15: it counts that the child wrote it, not that it changed: another branch that writes it conflicts."""
    child = chain(Log, one=wrote("x", 1))
    with pytest.raises(Exception, match="'x'"):
        engine.invoke(fan(Log, a=child, b=wrote("x", 1)), {"x": 1})


def test_what_a_child_does_on_the_way_stays_inside(engine):
    """Rule 15: of a key without a reducer, the final value is the one write."""
    child = chain(Log, one=wrote("x", 1), two=wrote("x", 2), three=wrote("x", 3))
    updates = engine.stream(chain(Log, child=child), {}, stream_mode="updates")
    assert updates == [{"child": {"x": 3}}]


class Other(TypedDict, total=False):
    """Like `Log`, with other reducers."""

    messages: Annotated[list[str], lambda old, new: [*old, *new]]
    x: Annotated[Any, max]


class Plain(TypedDict, total=False):
    messages: list[str]
    x: Any


class Appending(TypedDict, total=False):
    messages: Annotated[list[str], Append()]
    x: Any


@pytest.mark.parametrize(
    ("parent", "child", "writes", "expected"),
    [
        # The same reducer in both: the child's writes one by one.
        (Log, Log, [["a"], ["b"]], ["in", "a", "b"]),
        (Log, Log, [["a"], Overwrite(["b"]), ["c"]], ["b", "c"]),
        (Log, Log, [Overwrite(["a"])], ["a"]),
        (Log, Log, [["a"], MARK_FOR_REMOVAL], None),
        (Log, Log, [MARK_FOR_REMOVAL, ["b"]], ["b"]),
        (Appending, Appending, ["a", Remove("in")], ["a"]),
        (Appending, Appending, [ReplaceAll(["z"]), "a"], ["z", "a"]),
        # Another: its final value is one write, merged by the parent.
        (Log, Other, [["a"], ["b"]], ["in", "in", "a", "b"]),
        (Log, Plain, [["a"], ["b"]], ["in", "b"]),
        (Plain, Log, [["a"], ["b"]], ["in", "a", "b"]),
        (Plain, Log, [Overwrite(["a"])], ["a"]),
        (Plain, Plain, [["a"], ["b"]], ["b"]),
        (Plain, Plain, [["a"], MARK_FOR_REMOVAL], None),
        (Plain, Log, [["a"], MARK_FOR_REMOVAL], None),
        (Appending, Plain, [["a"]], ["in", "a"]),
    ],
)
@pytest.mark.parametrize("depth", [0, 1])
def test_shared_keys(engine, parent, child, writes, expected, depth):
    """Rule 15: markers and `Overwrite` included, in commit order."""
    nodes = {f"n{i}": wrote("messages", value) for i, value in enumerate(writes)}
    graph = chain(parent, child=wrapped(chain(child, **nodes), depth, child))
    result = engine.invoke(graph, {"messages": ["in"]})
    assert result == ({} if expected is None else {"messages": expected})


def test_overwriting_in_one_of_two_children(engine):
    """Rule 15: a child's overwrite takes its place among the step's writes."""
    a = chain(Log, one=n("a1"), two=wrote("messages", Overwrite(["a2"])))
    graph = fan(Log, a=a, b=chain(Log, one=n("b1")))
    assert engine.invoke(graph, {"messages": ["in"]})["messages"] == ["a2", "b1"]


def test_a_reducer_that_counts_its_calls(engine):
    """Rule 15: each write of the child reaches the parent's reducer once."""
    calls = []

    def noting(old, new):
        calls.append(new)
        return old + new

    class Counted(TypedDict):
        total: Annotated[int, noting]

    child = chain(Counted, one=wrote("total", 1), two=wrote("total", 2))
    assert engine.invoke(chain(Counted, child=child), {"total": 10}) == {"total": 13}
    assert sorted(calls) == [1, 1, 2, 2]  # once in the child, once in the parent


def test_what_a_childs_start_writes_is_its_own(engine):
    """Rule 15: the input isn't written inside; what a router of the child's START writes is."""
    child = builder(Log, {"a": nothing})
    child.add_conditional_edges(
        START, lambda s: Command(update={"x": "by the router", "messages": ["r"]}, goto="a")
    )
    graph = chain(Log, child=child.compile())
    updates = engine.stream(graph, {"messages": ["in"], "y": 1}, stream_mode="updates")
    assert updates == [{"child": {"x": "by the router", "messages": ["r"]}}]


def test_what_a_child_was_told_to_write_is_checked(engine):
    """Rule 2: a child's write that the parent's reducer refuses fails the parent's step, naming the child's node."""

    def positive(old, new):
        if new < 0:
            raise ValueError(f"{new} is negative")
        return old + new

    class Account(TypedDict):
        balance: Annotated[int, positive]

    class Free(TypedDict):
        balance: int

    with pytest.raises(ValueError, match="-5 is negative") as caught:
        engine.invoke(chain(Account, child=chain(Free, pay=wrote("balance", -5))), {"balance": 1})
    assert any("'child'" in note and "'balance'" in note for note in caught.value.__notes__)
    assert failure(caught.value).result == {"balance": 1}


def test_lenient_parents_take_the_whole_output(engine):
    """Rule 15, L: as in LangGraph: the list is appended twice."""
    child = chain(Log, a=n("c"), options={"strict": False})
    graph = chain(Log, child=child, options={"strict": False})
    assert engine.invoke(graph, {"messages": ["p"]})["messages"] == ["p", "p", "c"]


# ── schemas that differ ──────────────────────────────────────────────────────────────────────────────────────


def test_a_child_gets_only_the_keys_it_has(engine):
    """Defect 64: the child gets its mapped input; keys of its own stay inside."""

    class Inner(TypedDict, total=False):
        x: Any
        private: int

    seen = []
    child = chain(Inner, look=seen_by(seen), write=lambda s: {"private": 1, "x": "new"}, again=seen_by(seen))
    result = engine.invoke(chain(Log, child=child), {"messages": ["in"], "x": "old", "y": 1})
    assert seen == [{"x": "old"}, {"x": "new", "private": 1}]
    assert result == {"messages": ["in"], "x": "new", "y": 1}


def test_a_childs_input_and_output_schemas_count(engine):
    """graph-api 14: what goes in is what its input schema has; what comes back, what its output schema has."""

    class In(TypedDict, total=False):
        x: Any

    class Out(TypedDict, total=False):
        y: Any

    seen = []
    child = builder(
        Log,
        {"a": seen_by(seen), "b": lambda s: {"x": "inner", "y": "out", "messages": ["c"]}},
        (START, "a"),
        ("a", "b"),
        input_schema=In,
        output_schema=Out,
    )
    result = engine.invoke(chain(Log, child=child.compile()), {"messages": ["in"], "x": 1, "y": 2})
    assert seen == [{"messages": [], "x": 1}]
    assert result == {"messages": ["in"], "x": 1, "y": "out"}


def test_children_without_a_common_key_run_all_the_same(engine):
    """Case C69, decided otherwise: a child's own keys are private; the parent doesn't take them over."""

    class A(TypedDict, total=False):
        a_key: Annotated[list[str], operator.add]

    class B(TypedDict, total=False):
        b_key: int

    ran = []
    graph = chain(
        Log,
        a=chain(A, a=lambda s: ran.append("a") or {"a_key": ["a"]}),
        b=chain(B, b=lambda s: ran.append("b") or {"b_key": 1}),
    )
    assert engine.invoke(graph, {"x": 1}) == {"messages": [], "x": 1}
    assert ran == ["a", "b"]


@dataclass
class AsData:
    x: Any = None
    y: Any = None
    messages: Annotated[list[str], operator.add] = None  # type: ignore[assignment]  # tests a default of another type


class AsModel(BaseModel):
    x: Any = None
    y: Any = None
    messages: Annotated[list[str], operator.add] = []


class AsStruct(msgspec.Struct):
    x: Any = None
    y: Any = None
    messages: Annotated[list[str], operator.add] = msgspec.field(default_factory=list)


class AsDict(TypedDict, total=False):
    x: Any
    y: Any
    messages: Annotated[list[str], operator.add]


@pytest.mark.parametrize("child_schema", [AsModel, AsStruct, AsDict, None])
@pytest.mark.parametrize("parent_schema", [AsModel, AsStruct, AsDict, None])
def test_schemas_of_different_kinds(engine, parent_schema, child_schema):
    """Rule 15: a child and its parent may have states of any kinds; keys go by name."""
    strategies = {"key_strategies": {"messages": operator.add}}
    child = chain(
        child_schema,
        a=lambda s: {"x": "child", "messages": ["c"]},
        options={} if child_schema else strategies,
    )
    graph = chain(parent_schema, child=child, b=n("p"), options={} if parent_schema else strategies)
    value = engine.invoke(graph, {"messages": ["in"], "y": 1}).value
    got = (
        dict(value)
        if isinstance(value, dict)
        else {name: getattr(value, name) for name in ("x", "y", "messages")}
    )
    assert got == {"x": "child", "y": 1, "messages": ["in", "c", "p"]}


def test_a_child_of_one_value(engine):
    """Rule 15: two graphs whose state is one value: it is the key that they share."""
    child = chain(Annotated[int, operator.add], a=lambda s: 2, b=lambda s: 3)
    assert engine.invoke(chain(Annotated[int, operator.add], child=child), 10).value == 15
    assert engine.invoke(chain(int, child=chain(int, a=lambda s: s + 1)), 10).value == 11


# ── the same child more than once ────────────────────────────────────────────────────────────────────────────


def test_one_child_in_several_places(engine):
    """Defect 5: a compiled graph is shared by any number of nodes, in a row and side by side."""
    child = chain(Log, a=n("a"), b=n("b"))
    assert engine.invoke(chain(Log, one=child, two=child), {})["messages"] == ["a", "b"] * 2
    assert engine.invoke(fan(Log, one=child, two=child, three=child), {})["messages"] == ["a", "b"] * 3


def test_a_child_is_sent_to(engine):
    """graph-api 6: one run of the child for each send, with the argument as its input."""

    class Item(TypedDict, total=False):
        x: int
        messages: Annotated[list[str], operator.add]

    child = chain(Item, a=lambda s: {"x": s["x"] * 10}, b=lambda s: {"messages": [f"item {s['x']}"]})
    child_out = builder(Item, {"child": child}, (START, "child"))
    graph = StateGraph(Log).add_node("child", chain(Item, a=lambda s: {"messages": [f"item {s['x']}"]}))
    graph.add_conditional_edges(START, lambda s: [Send("child", {"x": i}) for i in range(3)])
    assert engine.invoke(graph.compile(), {"x": "parent's"}) == {
        "x": "parent's",
        "messages": ["item 0", "item 1", "item 2"],
    }
    assert engine.invoke(child_out.compile(), {"x": 1}) == {"x": 10, "messages": ["item 10"]}


def test_a_child_in_a_loop_begins_anew(engine, saver):
    """graph-api 14: its private keys last for one task of its parent, with a saver as well."""

    class Inner(TypedDict, total=False):
        messages: Annotated[list[str], operator.add]
        private: Annotated[int, operator.add]

    seen = []

    def inside(state):
        seen.append(state.get("private"))
        return {"private": 1, "messages": ["c"]}

    child = chain(Inner, inside=inside)
    graph = builder(
        Log,
        {"child": child, "count": lambda s: {"x": s.get("x", 0) + 1}},
        (START, "child"),
        ("child", "count"),
    )
    graph.add_conditional_edges("count", lambda s: "child" if s["x"] < 3 else END)
    graph = graph.compile(saver)
    engine.invoke(graph, {}, thread_id="t")
    engine.invoke(graph, {"x": 0}, thread_id="t")
    assert seen == [0] * 6


def test_a_child_that_the_run_doesnt_reach_isnt_run(engine):
    """Rule 15: a route around it leaves nothing of it."""
    ran = []
    graph = builder(Log, {"child": chain(Log, a=lambda s: ran.append(1)), "b": n("b")})
    graph.add_conditional_edges(START, lambda s: "b", ["b", "child"])
    assert engine.invoke(graph.compile(), {})["messages"] == ["b"]
    assert ran == []


# ── pauses and failures inside ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pause", ["B1", "B2"])
def test_a_pause_after_a_node_of_the_child(engine, saver, pause):
    """Case C64: it stops there; going on finishes the child and its parent, without repeating anything."""
    child = conditional_child().compile(interrupt_after=[pause])
    graph = chain(Log, A=n("A"), B=child, C=n("C"), saver=saver)
    given = {"x": "on"}
    before = ordered(engine, graph, given, thread_id="t")
    assert before == (["A", "B/B1"] if pause == "B1" else ["A", "B/B1", "B/B2"])
    after = ordered(engine, graph, None, thread_id="t")
    assert before + after == ["A", "B/B1", "B/B2", "B/C", "B", "C"]
    assert engine.invoke(chain(Log, look=nothing, saver=saver), {}, thread_id="t")["messages"] == [
        "A",
        "B1",
        "B2",
        "C",
        "C",
    ]


@pytest.mark.parametrize(("pause", "done"), [("C", ["A", "B/B1", "B/B2", "B/C", "B"]), ("B", ["A"])])
def test_a_pause_before_a_node_of_the_parent(engine, saver, pause, done):
    """Case C65: before a node that follows the child, and before the child itself."""
    graph = builder(
        Log, speakers("A", "C") | {"B": conditional_child().compile()}, (START, "A"), ("A", "B"), ("B", "C")
    )
    graph = graph.compile(saver, interrupt_before=[pause])
    assert ordered(engine, graph, {"x": "on"}, thread_id="t") == done
    assert done + ordered(engine, graph, None, thread_id="t") == ["A", "B/B1", "B/B2", "B/C", "B", "C"]


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_question_inside_a_child(engine, saver, depth):
    """Defect 66, rule 15: nothing that was written before the pause is lost or repeated, however often it pauses."""
    ran = []

    def ask(name):
        def node(state):
            answer = interrupt(name)
            ran.append(name)
            return {"messages": [f"{name}={answer}"]}

        return node

    child = chain(Log, one=n("one"), ask1=ask("q1"), two=n("two"), ask2=ask("q2"), three=n("three"))
    graph = chain(Log, before=n("before"), child=wrapped(child, depth), after=n("after"), saver=saver)
    first = engine.invoke(graph, {"messages": ["in"]}, thread_id="t")
    assert [question.value for question in first.interrupts] == ["q1"]
    assert first["messages"] == ["in", "before"]
    assert engine.resume(graph, "a1", thread_id="t").interrupts[0].value == "q2"
    result = engine.resume(graph, "a2", thread_id="t")
    assert result["messages"] == ["in", "before", "one", "q1=a1", "two", "q2=a2", "three", "after"]
    assert ran == ["q1", "q2"]
    assert (
        engine.invoke(chain(Log, look=nothing, saver=saver), {}, thread_id="t")["messages"]
        == result["messages"]
    )


def test_questions_in_parallel_children(engine, saver):
    """Rules 15 and 20: both surface; each is answered by its id; the writes of both are there once."""

    def child(name):
        return chain(
            Log, before=n(f"{name}1"), ask=lambda s: {"messages": [interrupt(name)]}, after=n(f"{name}2")
        )

    graph = fan(Log, a=child("a"), b=child("b"), saver=saver)
    paused = engine.invoke(graph, {"messages": ["in"]}, thread_id="t")
    ids = {question.value: question.id for question in paused.interrupts}
    assert set(ids) == {"a", "b"}
    paused = engine.resume(graph, {ids["b"]: "B"}, thread_id="t")
    assert [question.value for question in paused.interrupts] == ["a"]
    result = engine.resume(graph, {ids["a"]: "A"}, thread_id="t")
    assert result["messages"] == ["in", "a1", "A", "a2", "b1", "B", "b2"]


def test_a_child_that_asks_in_every_round(engine, saver):
    """Rule 15 and case C75: each round is a run of its own: its question, its writes, once."""
    child = chain(Log, before=n("before"), ask=lambda s: {"messages": [interrupt("again?")]})
    graph = builder(Log, {"child": child}, (START, "child"))
    graph.add_conditional_edges("child", lambda s: "child" if s["messages"][-1] == "yes" else END)
    graph = graph.compile(saver)
    first = engine.invoke(graph, {}, thread_id="t")
    second = engine.resume(graph, "yes", thread_id="t")
    third = engine.resume(graph, "yes", thread_id="t")
    result = engine.resume(graph, "no", thread_id="t")
    assert result["messages"] == ["before", "yes", "before", "yes", "before", "no"]
    assert len({paused.interrupts[0].id for paused in (first, second, third)}) == 3


def test_a_child_that_is_sent_to_and_asks(engine, saver):
    """Rules 15 and 20: one question for each send; answered in any order, the writes are in the order sent."""
    child = chain(
        Log,
        ask=lambda s: {"messages": [f"{s['x']}={interrupt(s['x'])}"]},
        after=lambda s: {"messages": ["after"]},
    )
    graph = StateGraph(Log).add_node("child", child)
    graph.add_conditional_edges(START, lambda s: [Send("child", {"x": f"q{i}"}) for i in range(3)])
    graph = graph.compile(saver)
    paused = engine.invoke(graph, {}, thread_id="t")
    ids = {question.value: question.id for question in paused.interrupts}
    assert list(ids) == ["q0", "q1", "q2"]
    for name in ("q2", "q0"):
        paused = engine.resume(graph, {ids[name]: name.upper()}, thread_id="t")
        assert paused.status == "interrupted"
    result = engine.resume(graph, {ids["q1"]: "Q1"}, thread_id="t")
    assert result["messages"] == ["q0=Q0", "after", "q1=Q1", "after", "q2=Q2", "after"]


def test_a_graph_alone_and_as_a_child(engine, saver):
    """Defect 69: the same compiled graph on threads of its own and inside another: their histories keep apart."""
    alone = chain(Log, a=n("a"), b=n("b"))
    kept = alone.builder.compile(saver)
    outer = chain(Log, before=n("before"), child=alone, saver=saver)
    assert engine.invoke(kept, {}, thread_id="t")["messages"] == ["a", "b"]
    assert engine.invoke(outer, {}, thread_id="u")["messages"] == ["before", "a", "b"]
    assert engine.invoke(kept, {}, thread_id="t")["messages"] == ["a", "b"] * 2
    assert engine.invoke(outer, {}, thread_id="u")["messages"] == ["before", "a", "b"] * 2


def test_the_second_child_starts_fresh(engine, saver):
    """Case C75: two children, a pause in the first: after the resume the second knows nothing of it."""
    first = chain(Log, ask=lambda s: {"messages": [interrupt("?")]})
    second = chain(Log, a=n("second"))
    graph = chain(Log, first=first, second=second, saver=saver)
    engine.invoke(graph, {}, thread_id="t")
    assert engine.resume(graph, "answer", thread_id="t")["messages"] == ["answer", "second"]


def test_a_failed_child_goes_on_where_it_failed(engine, saver):
    """Rules 15 and 22: with the parent's saver the child's finished steps aren't repeated, nor written twice."""
    broken, ran = [True], []

    def step(name):
        def node(state):
            ran.append(name)
            if name == "two" and broken:
                raise RuntimeError("in two")
            return {"messages": [name]}

        return node

    child = chain(Log, one=step("one"), two=step("two"))
    graph = chain(Log, child=child, after=n("after"), saver=saver)
    with pytest.raises(RuntimeError, match="in two") as caught:
        engine.invoke(graph, {"messages": ["in"]}, thread_id="t")
    where = failure(caught.value)
    assert where.node == "two"
    assert where.namespace[0].startswith("child:")
    broken.clear()
    assert engine.invoke(graph, None, thread_id="t")["messages"] == ["in", "one", "two", "after"]
    assert ran == ["one", "two", "two"]


def test_a_retried_child_goes_on_where_it_failed(engine, saver):
    """graph-api 14: a retry of the parent's node re-enters the child without repeating its finished steps."""
    ran = []

    def two(state):
        ran.append("two")
        if len(ran) < 4:
            raise ConnectionError("again")
        return {"messages": ["two"]}

    child = chain(Log, one=lambda s: ran.append("one") or {"messages": ["one"]}, two=two)
    graph = StateGraph(Log).add_node(
        "child", child, retry_policy=RetryPolicy(initial_interval=0, jitter=False)
    )
    graph = graph.add_edge(START, "child").compile(saver)
    assert engine.invoke(graph, {}, thread_id="t")["messages"] == ["one", "two"]
    assert ran == ["one", "two", "two", "two"]


def test_a_finished_child_isnt_run_again(engine, saver):
    """Rule 22: its sibling failed; what the child wrote was saved whole."""
    broken, ran = [True], []
    child = chain(Log, one=lambda s: ran.append(1) or {"messages": ["one"]}, two=n("two"))

    def fails(state):
        if broken:
            raise RuntimeError("beside it")
        return {"messages": ["mended"]}

    graph = fan(Log, child=child, fails=fails, saver=saver)
    with pytest.raises(RuntimeError, match="beside it"):
        engine.invoke(graph, {}, {"max_concurrency": 1}, thread_id="t")
    broken.clear()
    assert engine.invoke(graph, None, thread_id="t")["messages"] == ["one", "two", "mended"]
    assert len(ran) == 1


def test_a_child_may_opt_out_of_the_saver(engine, saver):
    """Defect 68: `checkpointer=False` is explicit: then a question can't be asked there, and it begins anew."""
    child = chain(Log, a=lambda s: {"messages": [interrupt("?")]}).builder.compile(checkpointer=False)
    with pytest.raises(InterruptError, match="no saver"):
        engine.invoke(chain(Log, child=child, saver=saver), {}, thread_id="t")
    broken, ran = [True], []

    def two(state):
        if broken:
            raise RuntimeError("in two")

    child = chain(Log, one=lambda s: ran.append(1) or {"messages": ["one"]}, two=two).builder.compile(
        checkpointer=False
    )
    graph = chain(Log, child=child, saver=saver)
    with pytest.raises(RuntimeError, match="in two"):
        engine.invoke(graph, {}, thread_id="t")
    broken.clear()
    assert engine.invoke(graph, None, thread_id="t")["messages"] == ["one"]
    assert len(ran) == 2


@pytest.mark.parametrize("parent_saver", [False, True])
def test_a_child_with_a_saver_of_its_own_is_refused(saver, parent_saver):
    """Case C74, defects 67 and 69: answered when the parent is compiled, naming the node and what to do."""
    from juncture import InMemorySaver

    child = chain(Log, a=nothing, saver=InMemorySaver())
    with pytest.raises(GraphBuildError, match="'child'") as caught:
        chain(Log, child=child, saver=saver if parent_saver else None)
    assert "compile" in str(caught.value)


# ── context ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Context:
    request: str


def test_context_is_inherited(engine, saver):
    """Case C71, defect 65: on fresh and on resumed runs, at any depth, and by graphs called inside nodes."""
    seen = []

    def look(state, runtime: Runtime[Context]):
        seen.append(runtime.context.request)

    def ask(state, runtime: Runtime[Context]):
        seen.append(runtime.context.request)
        return {"x": interrupt("?")}

    called = chain(Log, look=look, options={"context_schema": Context})
    child = wrapped(chain(Log, look=look, ask=ask, again=look, options={"context_schema": Context}), 2)
    graph = chain(
        Log,
        child=child,
        call=lambda s: called.invoke({}) and None,
        saver=saver,
        options={"context_schema": Context},
    )
    engine.invoke(graph, {}, thread_id="t", context={"request": "first"})
    engine.resume(graph, "answer", thread_id="t", context=Context("second"))
    assert seen == ["first", "first", "second", "second", "second"]


def test_a_context_of_its_own_wins(engine):
    """graph-api 15: one that is given to the call inside a node counts there, and nowhere else."""
    seen = []

    def look(state, runtime):
        seen.append(runtime.context)

    child = chain(Log, look=look)
    graph = chain(Log, one=lambda s: child.invoke({}, context="own") and None, two=look)
    engine.invoke(graph, {}, context="outer")
    assert seen == ["own", "outer"]


# ── graphs called inside nodes ───────────────────────────────────────────────────────────────────────────────


def test_a_graph_called_inside_a_node(engine, colour):
    """graph-api 14: the function decides what goes in and what comes out."""

    class Inner(TypedDict):
        text: str

    child = chain(Inner, a=lambda s: {"text": s["text"].upper()})
    node = colour(lambda s: {"x": child.invoke({"text": s["x"]})["text"]})
    assert engine.invoke(chain(Log, node=node), {"x": "shout"})["x"] == "SHOUT"


def test_graphs_awaited_inside_a_node(engine):
    """graph-api 14: several calls in one node, side by side."""
    import asyncio

    child = chain(Log, a=lambda s: {"x": s["x"] * 2})

    async def node(state):
        results = await asyncio.gather(*(child.ainvoke({"x": x}) for x in range(5)))
        return {"x": [result["x"] for result in results]}

    assert engine.invoke(chain(Log, node=node), {})["x"] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "in a task"])
def test_questions_of_a_called_graph(engine, saver, how):
    """Rules 19 and 20: they pause the enclosing run; its finished steps aren't repeated after the answer."""
    ran = []

    def one(state):
        ran.append("one")
        return {"x": 1}

    def ask(state):
        return {"y": interrupt("inside?")}

    child = chain(Log, one=one, ask=ask)

    @task
    def called():
        return child.invoke({})["y"]

    def by_invoke(state):
        return {"y": child.invoke({})["y"]}

    async def by_ainvoke(state):
        return {"y": (await child.ainvoke({}))["y"]}

    def by_task(state):
        return {"y": called().result()}

    node = {"invoke": by_invoke, "ainvoke": by_ainvoke, "in a task": by_task}[how]
    graph = chain(Log, node=node, after=n("after"), saver=saver)
    paused = engine.invoke(graph, {}, thread_id="t")
    assert [question.value for question in paused.interrupts] == ["inside?"]
    assert engine.resume(graph, "yes", thread_id="t") == {"y": "yes", "messages": ["after"]}
    assert ran == ["one"]


def test_several_called_graphs_ask_in_turn(engine, saver):
    """graph-api 14: several calls in one node are told apart by their order."""
    child = chain(Log, ask=lambda s: {"y": interrupt(s["x"])})

    def node(state):
        return {"messages": [child.invoke({"x": name})["y"] for name in ("first", "second")]}

    graph = chain(Log, node=node, saver=saver)
    assert engine.invoke(graph, {}, thread_id="t").interrupts[0].value == "first"
    assert engine.resume(graph, "1", thread_id="t").interrupts[0].value == "second"
    assert engine.resume(graph, "2", thread_id="t")["messages"] == ["1", "2"]


def test_a_called_graph_with_a_thread_of_its_own(engine, saver):
    """graph-api 8: explicit thread and saver: a run of its own, with its own history."""
    from juncture import InMemorySaver

    own = InMemorySaver()
    child = chain(Log, a=n("c"), saver=own)
    graph = chain(Log, node=lambda s: {"x": child.invoke({}, thread_id="own")["messages"]}, saver=saver)
    assert engine.invoke(graph, {}, thread_id="t")["x"] == ["c"]
    assert engine.invoke(graph, {}, thread_id="t")["x"] == ["c", "c"]
    assert child.invoke({}, thread_id="own")["messages"] == ["c", "c", "c"]


def test_a_failure_in_a_called_graph(engine):
    """Rule 49: the exception itself, with the innermost place."""

    class Broken(Exception):
        pass

    def fail(state):
        raise Broken("deep inside")

    child = chain(Log, fail=fail)
    with pytest.raises(Broken, match="deep inside") as caught:
        engine.invoke(chain(Log, node=lambda s: child.invoke({})), {"x": 1})
    assert failure(caught.value).node == "fail"
    assert failure(caught.value).result == {"x": 1, "messages": []}
    caught_inside = []

    def careful(state):
        try:
            child.invoke({})
        except Broken as error:
            caught_inside.append(error)
        return {"x": "went on"}

    assert engine.invoke(chain(Log, node=careful), {})["x"] == "went on"
    assert len(caught_inside) == 1


def test_a_graph_may_call_itself(engine):
    """graph-api 14: recursion is a graph called inside its own node."""
    graphs = []

    def node(state):
        depth = state["x"]
        return {"messages": [str(depth), *(graphs[0].invoke({"x": depth - 1})["messages"] if depth else [])]}

    graphs.append(chain(Log, node=node))
    assert engine.invoke(graphs[0], {"x": 3})["messages"] == ["3", "2", "1", "0"]
