"""`Command.PARENT` from any depth, by any name, and what becomes of the rest (right-behaviour 16)."""

import asyncio
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest

from juncture import END, START, Command, InvalidUpdateError, RoutingError, Send, interrupt
from tests.behaviour.building import builder, chain, compiled, nothing, shown, wrote
from tests.faulty import faulty


class Log(TypedDict, total=False):
    messages: Annotated[list[str], operator.add]
    x: Any
    y: Any


def n(text: str):
    """A node that says `text`."""
    return wrote("messages", [text])


def leaver(*, graph: Any = Command.PARENT, goto: Any = "target", update: Any = None):
    """A node that leaves for an enclosing graph."""
    return lambda s: Command(
        graph=graph, goto=goto, update=update if update is not None else {"messages": ["cmd"]}
    )


def around(child: Any, name: str = "child", **others: Any):
    """A parent of `child`, with a node to go to."""
    return compiled(Log, {name: child, "target": n("target")} | others, (START, name))


# ── where it leads ───────────────────────────────────────────────────────────────────────────────────────────


def test_what_the_child_committed_comes_first(engine, colour):
    """Rule 16: then the command's update; the rest of the child isn't run."""
    child = compiled(
        Log,
        {"a": n("a"), "leave": colour(leaver()), "never": n("never")},
        (START, "a"),
        ("a", "leave"),
        ("leave", "never"),
    )
    result = engine.invoke(around(child), {"messages": ["in"]})
    assert result["messages"] == ["in", "a", "cmd", "target"]


def test_keys_without_a_reducer(engine):
    """Rule 16: the child's final value is written, and the command's if it has one for the same key."""
    child = chain(Log, a=lambda s: {"x": "child", "y": "child"}, leave=leaver(update={"y": "cmd"}))
    result = engine.invoke(around(child), {"x": 0, "y": 0})
    assert (result["x"], result["y"]) == ("child", "cmd")


@pytest.mark.parametrize(
    ("goto", "ran"),
    [
        ("target", ["target"]),
        (["target", "other"], ["other", "target"]),
        (END, []),
        ((), []),
        (Send("worker", "w"), ["w"]),
        ([Send("worker", "1"), "target", Send("worker", "2")], ["target", "1", "2"]),
        ("child", None),
    ],
    ids=shown,
)
def test_any_route(engine, goto, ran):
    """Rule 16: as if the child's node had returned the command in the parent, to itself included."""
    seen = []

    def leave(state):
        seen.append(1)
        return Command(
            graph=Command.PARENT, goto=goto if len(seen) < 3 else END, update={"messages": ["cmd"]}
        )

    graph = around(chain(Log, leave=leave), other=n("other"), worker=lambda x: {"messages": [x]})
    expected = ["cmd"] * 3 if ran is None else ["cmd", *ran]
    assert engine.invoke(graph, {})["messages"] == expected


@pytest.mark.parametrize(
    "update",
    [{"messages": ["u"]}, [("messages", ["u"])], [("messages", ["u"]), ("messages", [])]],
    ids=["dict", "pairs", "doubled"],
)
def test_any_update(engine, update):
    """Rule 16 and graph-api 6: the forms of an update."""
    graph = around(chain(Log, leave=leaver(update=update)))
    assert engine.invoke(graph, {})["messages"] == ["u", "target"]


def test_an_update_without_a_route(engine):
    """Rule 16: the parent's own edges go on from the child's node."""
    child = chain(Log, leave=lambda s: Command(graph=Command.PARENT, update={"messages": ["cmd"]}))
    graph = compiled(Log, {"child": child, "next": n("next")}, (START, "child"), ("child", "next"))
    assert engine.invoke(graph, {})["messages"] == ["cmd", "next"]


def test_a_command_of_a_router(engine):
    """Rule 16: a `Command` follows the same rules wherever it comes from: here from a conditional edge."""
    child = builder(Log, {"a": n("a")}, (START, "a"))
    child.add_conditional_edges("a", leaver())
    assert engine.invoke(around(child.compile()), {})["messages"] == ["a", "cmd", "target"]


def test_a_command_in_a_list(engine):
    """graph-api 6: beside an update of the node itself, and from a generator."""

    def in_pieces(state):
        yield {"messages": ["own"]}
        yield leaver()(state)

    for node in (lambda s: [{"messages": ["own"]}, leaver()(s)], in_pieces):
        result = engine.invoke(around(chain(Log, node=node)), {})
        assert result["messages"][-2:] == ["cmd", "target"]


def test_edges_beside_a_command_for_the_parent(engine):
    """Rule 11: the child's node has edges, and the parent's node of the child has edges: leaving is exempt."""
    child = compiled(Log, {"leave": leaver(goto="target"), "b": n("b")}, (START, "leave"), ("leave", "b"))
    graph = compiled(
        Log,
        {"child": child, "target": n("target"), "other": n("other")},
        (START, "child"),
        ("child", "other"),
    )
    assert "target" in engine.invoke(graph, {})["messages"]


# ── depth ────────────────────────────────────────────────────────────────────────────────────────────────────


def nested(depth: int, leave: Any, *, call: str | None = None):
    """Graphs in graphs: level 1 holds level 2, and so on; the innermost leaves. Each has a node `target`."""
    graph = chain(Log, before=n(f"in {depth}"), leave=leave)
    for level in range(depth - 1, -1, -1):
        inner = graph
        if call == "invoke":
            inner = _calling(graph)
        elif call == "ainvoke":
            inner = _awaiting(graph)
        nodes = {
            "before": n(f"in {level}"),
            f"level{level + 1}": inner,
            "target": n(f"target {level}"),
            "after": n(f"after {level}"),
        }
        graph = compiled(Log, nodes, (START, "before"), ("before", f"level{level + 1}"), ("target", "after"))
    return graph


def _calling(graph: Any):
    return lambda s: {"messages": graph.invoke({})["messages"]}


def _awaiting(graph: Any):
    async def node(state):
        return {"messages": (await graph.ainvoke({}))["messages"]}

    return node


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_parent_is_the_nearest(engine, depth):
    """Rule 16: from any depth, one level up; the levels above go on as usual."""
    result = engine.invoke(nested(depth, leaver()), {})
    inside = [f"in {level}" for level in range(depth + 1)]
    assert result["messages"] == [*inside, "cmd", f"target {depth - 1}", f"after {depth - 1}"]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_an_ancestor_by_name(engine, level):
    """graph-api 6: `graph="name"` is for the graph that has a node of that name around the one that leaves."""
    result = engine.invoke(nested(3, leaver(graph=f"level{level}")), {})
    inside = [f"in {each}" for each in range(4)]
    assert result["messages"] == [*inside, "cmd", f"target {level - 1}", f"after {level - 1}"]


def test_through_a_graph_that_leaves_in_its_turn(engine):
    """Rule 16: what comes up may go further up: two commands, one after the other."""
    inner = chain(Log, leave=leaver(goto="up"))
    middle = compiled(
        Log, {"inner": inner, "up": leaver(goto="target", update={"messages": ["cmd2"]})}, (START, "inner")
    )
    assert engine.invoke(around(middle), {})["messages"] == ["cmd", "cmd2", "target"]


@faulty("unreachable-node")
@pytest.mark.parametrize("call", ["invoke", "ainvoke"])
@pytest.mark.parametrize("depth", [1, 2])
def test_from_a_graph_called_inside_a_node(engine, call, depth):
    """Rule 16: the node that called it returns the command; it can't be swallowed by `except Exception`."""
    result = engine.invoke(nested(depth, leaver(), call=call), {})
    assert result["messages"][-3:] == ["cmd", f"target {depth - 1}", f"after {depth - 1}"]


def test_it_cant_be_swallowed(engine):
    """Decision 3: a wrapper that catches exceptions doesn't keep a command from its parent."""
    child = chain(Log, leave=leaver())

    def node(state):
        try:
            return child.invoke({})
        except Exception:
            return {"messages": ["swallowed"]}

    graph = builder(Log, {"node": node, "target": n("target")}, (START, "node")).compile()
    assert engine.invoke(graph, {})["messages"] == ["cmd", "target"]


# ── what can't be ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("graph", [Command.PARENT, "nowhere"])
def test_there_is_no_such_graph(engine, graph):
    """graph-api 6: an ordinary error, naming the node and what it asked for; nothing of the step is applied."""
    for depth in (0, 1):
        if depth and graph == Command.PARENT:
            continue
        runnable = chain(Log, a=n("a"), leave=leaver(graph=graph))
        runnable = around(runnable) if depth else runnable
        with pytest.raises(InvalidUpdateError, match="parent graph") as caught:
            engine.invoke(runnable, {})
        assert repr(graph) in str(caught.value)
        assert caught.value.result["messages"] == ([] if depth else ["a"])


@faulty("unreachable-node")
def test_an_unknown_target_in_the_parent(engine):
    """Rule 10: the parent's nodes are the known ones; the child's aren't."""
    child = compiled(Log, {"leave": leaver(goto="inner"), "inner": nothing}, (START, "leave"))
    with pytest.raises(RoutingError, match="'inner'") as caught:
        engine.invoke(around(child), {"messages": ["in"]})
    assert caught.value.node == "child"
    assert "target" in str(caught.value)
    assert caught.value.result["messages"] == ["in"]


def test_an_update_that_the_parent_refuses(engine):
    """Rule 3: the command's update is checked by the graph that it is for."""

    class Inner(TypedDict, total=False):
        messages: Annotated[list[str], operator.add]
        private: int

    child = chain(Inner, a=wrote("private", 1), leave=leaver(update={"private": 2}))
    with pytest.raises(InvalidUpdateError, match="'private'") as caught:
        engine.invoke(around(child), {})
    assert caught.value.node == "child"


# ── the rest of the child's step ─────────────────────────────────────────────────────────────────────────────


def test_siblings_are_discarded_with_a_warning(engine, caplog):
    """Rule 16: what other tasks of the child's step wrote isn't written, and that is said."""
    done = threading.Event()

    def sibling(state):
        done.set()
        return {"messages": ["sibling"]}

    def leave(state):
        assert done.wait(20)
        return leaver()(state)

    child = compiled(
        Log,
        {"sibling": sibling, "leave": leave, "first": n("first")},
        (START, "first"),
        ("first", "sibling"),
        ("first", "leave"),
    )
    assert engine.invoke(around(child), {})["messages"] == ["first", "cmd", "target"]
    assert "'leave'" in caplog.text
    assert "sibling" in caplog.text
    assert "discarded" in caplog.text


def test_siblings_that_still_run_are_cancelled(engine, caplog):
    """Rule 16: an async sibling is told."""
    seen, began = [], asyncio.Event()

    async def sibling(state):
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def leave(state):
        await began.wait()
        return leaver()(state)

    child = compiled(Log, {"sibling": sibling, "leave": leave}, (START, "sibling"), (START, "leave"))
    assert engine.invoke(around(child), {})["messages"] == ["cmd", "target"]
    assert seen == ["cancelled"]
    assert "sibling" in caplog.text


def test_no_siblings_no_warning(engine, caplog):
    """Rule 16: nothing was discarded, so nothing is said."""
    engine.invoke(around(chain(Log, a=n("a"), leave=leaver())), {})
    assert caplog.text == ""


def test_of_two_that_leave_the_first_in_the_plan_counts(engine, caplog):
    """Promise 2: not the one that was faster."""
    b_left = threading.Event()

    def a(state):
        assert b_left.wait(20)
        return leaver(update={"messages": ["a"]})(state)

    def b(state):
        b_left.set()
        return leaver(update={"messages": ["b"]})(state)

    child = compiled(Log, {"a": a, "b": b}, (START, "a"), (START, "b"))
    assert engine.invoke(around(child), {})["messages"][0] == "a"
    assert "b" in caplog.text


def test_a_failure_counts_more_than_leaving(engine):
    """Promise 2: a failure in the same step is raised, not lost."""
    left = threading.Event()

    def fails(state):
        assert left.wait(20)
        raise RuntimeError("beside it")

    def leave(state):
        left.set()
        return leaver()(state)

    child = compiled(Log, {"leave": leave, "fails": fails}, (START, "leave"), (START, "fails"))
    with pytest.raises(RuntimeError, match="beside it"):
        engine.invoke(around(child), {})


def test_siblings_of_the_parent_stay(engine):
    """Rule 16: it ends the child, not the other branches of the parent."""
    child = chain(Log, leave=leaver())
    graph = compiled(
        Log, {"child": child, "other": n("other"), "target": n("target")}, (START, "child"), (START, "other")
    )
    assert engine.invoke(graph, {})["messages"] == ["cmd", "other", "target"]


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_after_a_pause_inside(engine, saver):
    """Rules 15 and 16: what was committed before the pause is written once, then the command."""

    def ask(state):
        return leaver(update={"messages": [interrupt("?")]})(state)

    child = chain(Log, before=n("before"), ask=ask)
    graph = builder(Log, {"child": child, "target": n("target")}, (START, "child")).compile(saver)
    assert engine.invoke(graph, {"messages": ["in"]}, thread_id="t").status == "interrupted"
    assert engine.resume(graph, "answer", thread_id="t")["messages"] == ["in", "before", "answer", "target"]
    again = engine.invoke(graph, {}, thread_id="t")
    assert again.status == "interrupted"
    assert again["messages"] == ["in", "before", "answer", "target"]


def test_after_a_failure_of_the_target(engine, saver):
    """Rule 22: the child that left isn't run again."""
    ran, broken = [], [True]

    def target(state):
        if broken:
            raise RuntimeError("not yet")
        return {"messages": ["target"]}

    child = chain(Log, leave=lambda s: ran.append(1) or leaver()(s))
    graph = builder(Log, {"child": child, "target": target}, (START, "child")).compile(saver)
    with pytest.raises(RuntimeError, match="not yet"):
        engine.invoke(graph, {}, thread_id="t")
    broken.clear()
    assert engine.invoke(graph, None, thread_id="t")["messages"] == ["cmd", "target"]
    assert ran == [1]


def test_lenient_parents_take_only_the_command(engine):
    """Rule 16, L: as in LangGraph the child's own state is discarded."""
    child = chain(Log, a=n("a"), leave=leaver(), options={"strict": False})
    graph = builder(Log, {"child": child, "target": n("target")}, (START, "child"), strict=False).compile()
    assert engine.invoke(graph, {"messages": ["in"]})["messages"] == ["in", "cmd", "target"]
