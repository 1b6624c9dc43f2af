"""Nested graphs with a memory of their own (``checkpointer=True``): they go on from their own last state.

The graph around decides which state that is: where it goes back, so do they.
"""

from typing import Any, TypedDict

import pytest

from juncture import (
    END,
    START,
    Command,
    ConfigError,
    InvalidUpdateError,
    NothingToResumeError,
    PendingInterruptError,
    Send,
    interrupt,
)
from tests.behaviour.building import builder, nothing, thread
from tests.behaviour.ran import Ran, State, asked, ids

pytestmark = pytest.mark.timeout(30)


class Inner(TypedDict, total=False):
    """What the nested graphs remember is n; what they tell the graph around is x."""

    x: Any
    n: int


@pytest.fixture
def ran():
    return Ran()


def count(state):
    """Counts the calls of its graph."""
    n = state.get("n", 0) + 1
    return {"n": n, "x": n}


def remembers(*edges: Any, **nodes: Any) -> Any:
    """A chain with a memory of its own."""
    names = list(nodes)
    made = builder(State, nodes, *(edges or zip([START, *names], [*names, END], strict=True)))
    return made.compile(checkpointer=True)


def counter() -> Any:
    """A graph that remembers how often it was called."""
    return builder(Inner, {"count": count}, (START, "count")).compile(checkpointer=True)


def counting(saver: Any) -> Any:
    """A graph around one that counts its calls."""
    return builder(State, {"sub": counter()}, (START, "sub")).compile(saver)


def below(node: str = "sub", name: str = "t") -> dict[str, Any]:
    return {"configurable": {"thread_id": name, "checkpoint_ns": node}}


# ── it remembers ─────────────────────────────────────────────────────────────────────────────────────────────


def test_it_goes_on_from_its_last_state(engine, saver):
    graph = counting(saver)
    assert [engine.invoke(graph, {"x": 0}, thread())["x"] for _ in range(3)] == [1, 2, 3]
    state = engine.state(graph, below())
    assert (state.values, state.next) == ({"x": 3, "n": 3}, ())
    assert [one.values.get("n") for one in engine.history(graph, below())] == [3, 2, 2, 1, 1, None]


def test_another_object_of_the_same_graph_remembers_as_well(engine, saver):
    """As another process does."""
    engine.invoke(counting(saver), {"x": 0}, thread())
    assert engine.invoke(counting(saver), {"x": 0}, thread())["x"] == 2


def test_without_it_each_call_begins_afresh(engine, saver):
    inner = builder(Inner, {"count": count}, (START, "count")).compile()
    graph = builder(State, {"sub": inner}, (START, "sub")).compile(saver)
    assert [engine.invoke(graph, {"x": 0}, thread())["x"] for _ in range(2)] == [1, 1]


def test_each_thread_has_its_own(engine, saver):
    graph = counting(saver)
    engine.invoke(graph, {"x": 0}, thread("one"))
    engine.invoke(graph, {"x": 0}, thread("one"))
    assert engine.invoke(graph, {"x": 0}, thread("two"))["x"] == 1
    assert engine.invoke(graph, {"x": 0}, thread("one"))["x"] == 3


def test_each_node_has_its_own(engine, saver):
    def sub():
        inner = builder(
            Inner, {"count": lambda state: {"n": state.get("n", 0) + 1, "x": None}}, (START, "count")
        )
        return inner.compile(checkpointer=True)

    graph = builder(
        State, {"a": sub(), "b": sub(), "c": nothing}, (START, "a"), ("a", "c"), ("a", "b")
    ).compile(saver)
    for _ in range(2):
        engine.invoke(graph, {"x": 0}, thread())
    engine.update(graph, thread(), None, "b")
    assert engine.state(graph, below("a")).values["n"] == 2
    assert engine.state(graph, below("b")).values["n"] == 2


def test_in_a_loop_each_round_goes_on(engine, saver):
    inner = counter()
    graph = builder(
        State, {"sub": inner, "note": lambda state: {"log": [state["x"]]}}, (START, "sub"), ("sub", "note")
    )
    graph.add_conditional_edges("note", lambda state: END if len(state["log"]) >= 3 else "sub", ["sub", END])
    graph = graph.compile(saver)
    assert engine.invoke(graph, {"x": 0}, thread())["log"] == [1, 2, 3]


def test_its_input_is_merged_into_what_it_remembers(engine, saver):
    inner = remembers(a=lambda state: {"log": ["inner"]})
    graph = builder(State, {"sub": inner}, (START, "sub")).compile(saver)
    engine.invoke(graph, {"log": ["one"]}, thread())
    assert engine.state(graph, below()).values["log"] == ["one", "inner"]
    engine.update(graph, thread(), {"log": []}, START)
    engine.invoke(graph, None, thread())
    outer = engine.state(graph, thread()).values["log"]
    assert outer == ["one", "inner", "inner"], "what it wrote this time, and nothing of what it remembers"
    assert engine.state(graph, below()).values["log"] == ["one", "inner", "one", "inner", "inner"]


def test_deeper_down_it_remembers_too(engine, saver):
    """Inside a nested graph that remembers; in one that doesn't, every call of that is a new place."""

    keeps = builder(State, {"deep": counter()}, (START, "deep")).compile(checkpointer=True)
    forgets = builder(State, {"deep": counter()}, (START, "deep")).compile()
    for middle, expected in ((keeps, [1, 2]), (forgets, [1, 1])):
        graph = builder(State, {"mid": middle}, (START, "mid")).compile(saver)
        name = f"expects {expected}"
        assert [engine.invoke(graph, {"x": 0}, thread(name))["x"] for _ in range(2)] == expected


def test_called_inside_a_function_it_remembers(engine, saver):
    inner = counter()

    def call(state):
        return {"log": [inner.invoke({"x": 0})["n"]]}

    graph = builder(State, {"call": call}, (START, "call")).compile(saver)
    assert engine.invoke(graph, {"x": 0}, thread())["log"] == [1]
    assert engine.invoke(graph, {"x": 0}, thread())["log"] == [1, 2]
    assert engine.invoke(graph, {"x": 0}, thread("other"))["log"] == [1]
    inner.close()


# ── questions inside ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_inside_is_resumed(engine, saver, ran):
    graph = builder(
        State,
        {"sub": remembers(b1=ran.step("b1"), b2=ran.asks("b2")), "z": ran.step("z")},
        (START, "sub"),
        ("sub", "z"),
    ).compile(saver)
    assert asked(engine.invoke(graph, {"x": 1}, thread())) == ["b2?"]
    state = engine.state(graph, thread(), subgraphs=True)
    assert state.tasks[0].state.config["configurable"]["checkpoint_ns"] == "sub"
    assert asked(state.tasks[0].state) == ["b2?"]
    assert engine.resume(graph, "yes", thread())["log"] == ["b1", ("b2", "yes"), "z"]
    assert ran.since() == ["b1", "b2", "b2", "z"]
    again = engine.invoke(graph, {"x": 2}, thread())
    assert (asked(again), ran.since()) == (["b2?"], ["b1", "b2"])
    assert engine.resume(graph, "no", thread())["log"] == ["b1", ("b2", "yes"), "z", "b1", ("b2", "no"), "z"]


def test_questions_of_several_rounds_are_several(engine, saver):
    inner = remembers(ask=lambda state: {"log": [interrupt("again?")]})
    graph = builder(State, {"sub": inner}, (START, "sub"))
    graph = graph.add_conditional_edges(
        "sub", lambda s: END if len(s["log"]) >= 3 else "sub", ["sub", END]
    ).compile(saver)
    result = engine.invoke(graph, {"x": 1}, thread())
    seen = []
    for n in range(3):
        seen += list(ids(result).values())
        result = engine.resume(graph, n, thread())
    assert (result["log"], len(set(seen))) == ([0, 1, 2], 3)


def test_new_input_to_a_paused_graph_around_is_refused(engine, saver, ran):
    graph = builder(State, {"sub": remembers(b=ran.asks("b"))}, (START, "sub")).compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(PendingInterruptError):
        engine.invoke(graph, {"x": 2}, thread())
    assert engine.resume(graph, "yes", thread())["log"] == [("b", "yes")]


def test_a_failure_inside_is_gone_on_from(engine, saver, ran):
    graph = builder(
        State, {"sub": remembers(b1=ran.step("b1"), b2=ran.fails("b2", 1))}, (START, "sub")
    ).compile(saver)
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread())
    assert engine.invoke(graph, None, thread())["log"] == ["b1", "b2"]
    assert ran == ["b1", "b2", "b2"]


def test_after_a_failure_was_left_behind_new_input_begins_anew(engine, saver, ran):
    """On what was committed inside; what was due there is dropped with what was due around it."""
    graph = builder(
        State, {"sub": remembers(b1=ran.step("b1"), b2=ran.fails("b2", 1))}, (START, "sub")
    ).compile(saver)
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread())
    ran.clear()
    done = engine.invoke(graph, {"x": 2}, thread())
    assert (done["log"], ran) == (["b1", "b2"], ["b1", "b2"])


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_goes_back_with_the_graph_around(engine, saver):
    """Rule 33."""
    graph = counting(saver)
    for _ in range(3):
        engine.invoke(graph, {"x": 0}, thread())
    history = engine.history(graph, thread())
    before_second = next(one for one in history if one.next == ("sub",) and one.metadata["step"] == 2)
    assert engine.invoke(graph, None, before_second.config)["x"] == 2
    assert engine.invoke(graph, {"x": 0}, thread())["x"] == 3
    before_first = [one for one in history if one.next == ("sub",)][-1]
    assert engine.invoke(graph, None, before_first.config)["x"] == 1
    assert engine.state(graph, below()).values["n"] == 1


def test_new_input_at_an_old_end_goes_on_from_what_it_remembered_then(engine, saver):
    graph = counting(saver)
    for _ in range(3):
        engine.invoke(graph, {"x": 0}, thread())
    first_end = [one for one in engine.history(graph, thread()) if one.next == ()][-1]
    assert engine.invoke(graph, {"x": 0}, first_end.config)["x"] == 2


def test_a_question_inside_is_asked_again_after_going_back(engine, saver, ran):
    graph = builder(
        State, {"a": ran.step("a"), "sub": remembers(b1=ran.step("b1"), b2=ran.asks("b2"))}, (START, "a")
    )
    graph = graph.add_edge("a", "sub").compile(saver)
    first = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    old = next(one for one in engine.history(graph, thread()) if one.next == ("sub",))
    ran.clear()
    again = engine.invoke(graph, None, old.config)
    assert (asked(again), ran) == (["b2?"], ["b1", "b2"])
    assert ids(again)["b2?"] != ids(first)["b2?"]
    assert engine.resume(graph, "second", thread())["log"] == ["a", "b1", ("b2", "second")]


def test_going_back_while_it_is_paused_begins_it_anew(engine, saver, ran):
    graph = builder(
        State, {"a": ran.step("a"), "sub": remembers(b1=ran.step("b1"), b2=ran.asks("b2"))}, (START, "a")
    )
    graph = graph.add_edge("a", "sub").compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    old = next(one for one in engine.history(graph, thread()) if one.next == ("a",))
    ran.clear()
    assert asked(engine.invoke(graph, None, old.config)) == ["b2?"]
    assert ran == ["a", "b1", "b2"]
    assert engine.resume(graph, "yes", thread())["log"] == ["a", "b1", ("b2", "yes")]


def test_it_goes_back_in_every_branch_apart(engine, saver):
    graph = counting(saver)
    engine.invoke(graph, {"x": 0}, thread())
    base = engine.state(graph, thread()).config
    ends = []
    for _ in range(3):
        assert engine.invoke(graph, {"x": 0}, base)["x"] == 2
        ends.append(engine.state(graph, thread()).config)
    assert [engine.invoke(graph, {"x": 0}, end)["x"] for end in ends] == [3, 3, 3]


# ── editing ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_it_remembers_can_be_edited(engine, saver):
    graph = counting(saver)
    engine.invoke(graph, {"x": 0}, thread())
    engine.update(graph, below(), {"n": 10})
    assert engine.state(graph, below()).values["n"] == 10
    assert engine.invoke(graph, {"x": 0}, thread())["x"] == 11


def test_an_edit_inside_while_it_is_paused(engine, saver, ran):
    graph = builder(
        State, {"sub": remembers(b1=ran.step("b1"), b2=ran.asks("b2"), b3=ran.step("b3"))}, (START, "sub")
    ).compile(saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, below(), {"x": 2})
    assert engine.state(graph, thread()).interrupts == paused.interrupts
    engine.update(graph, below(), {"log": ["for b2"]}, "b2")
    assert engine.state(graph, thread()).interrupts == ()
    with pytest.raises(NothingToResumeError):
        engine.resume(graph, "yes", thread())
    done = engine.invoke(graph, None, thread())
    assert (done["log"], ran) == (["b1", "for b2", "b3"], ["b1", "b2", "b3"])


# ── what it can't be ─────────────────────────────────────────────────────────────────────────────────────────


def test_two_at_once_in_one_node_are_refused(engine, saver):
    graph = builder(State, {"plan": nothing, "sub": remembers(a=nothing)}, (START, "plan"))
    graph = graph.add_conditional_edges(
        "plan", lambda s: [Send("sub", {"x": 1}), Send("sub", {"x": 2})], ["sub"]
    )
    with pytest.raises(InvalidUpdateError, match="memory of its own and runs twice") as caught:
        engine.invoke(graph.compile(saver), {"x": 0}, thread())
    assert caught.value.node == "sub"


def test_sent_one_after_another_they_share_a_memory(engine, saver):
    inner = counter()
    graph = builder(State, {"plan": nothing, "sub": inner}, (START, "plan"))
    graph = graph.add_conditional_edges("plan", lambda state: [Send("sub", {"x": 0})], ["sub"]).compile(saver)
    assert [engine.invoke(graph, {"x": 0}, thread())["x"] for _ in range(2)] == [1, 2]


def test_it_is_for_nested_graphs_only(engine):
    graph = remembers(a=nothing)
    with pytest.raises(ConfigError, match="cannot be used for root graphs") as caught:
        engine.invoke(graph, {"x": 1}, thread())
    assert "compile(checkpointer=" in str(caught.value)


def test_without_a_saver_around_it_remembers_nothing(engine):
    graph = builder(State, {"sub": remembers(a=lambda state: {"log": ["a"]})}, (START, "sub")).compile()
    assert engine.invoke(graph, {"x": 1})["log"] == ["a"]
    assert engine.invoke(graph, {"x": 1})["log"] == ["a"]


def test_a_command_for_the_graph_around_ends_it_and_it_remembers(engine, saver):
    def leave(state):
        return Command(graph=Command.PARENT, update={"log": [state["n"]]}, goto="z")

    inner = builder(Inner, {"count": count, "leave": leave}, (START, "count"), ("count", "leave"))
    graph = builder(
        State, {"sub": inner.compile(checkpointer=True), "z": lambda s: {"log": ["z"]}}, (START, "sub")
    )
    graph = graph.compile(saver)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == [1, "z"]
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == [1, "z", 2, "z"]
