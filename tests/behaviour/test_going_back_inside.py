"""Going back inside nested graphs: exactly from there, whatever has happened since (right-behaviour 28 and 33)."""

from typing import Any

import pytest

from juncture import (
    START,
    Command,
    ConfigError,
    InterruptError,
    NothingToResumeError,
    StateGraph,
    ThreadBusyError,
    interrupt,
)
from juncture.persistence import leases
from juncture.persistence.asking import performed
from tests.behaviour.building import builder, chain, chain_edges, fan, thread, wrote
from tests.behaviour.ran import Ran, State, asked, ids

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def ran():
    return Ran()


def at(engine: Any, graph: Any, where: Any, *nodes: str) -> Any:
    """The oldest state of a namespace at which these nodes are due."""
    return [one for one in engine.history(graph, where) if one.next == nodes][-1]


def inside(*levels: str, name: str = "t") -> dict[str, Any]:
    """A config that names a nested graph."""
    return {"configurable": {"thread_id": name, "checkpoint_ns": "|".join(levels)}}


def everything(engine: Any, graph: Any, *namespaces: str) -> list[Any]:
    """All that is known of all states, of the newest as it was when it was saved."""
    shown = [engine.history(graph, inside(namespace)) for namespace in ("", *namespaces)]
    return [[(one.config, one.values, one.next, one.parent_config) for one in history] for history in shown]


def nested(ran: Ran, saver: Any) -> Any:
    """a, then sub (b1, b2 asks, b3), then z."""
    inner = chain(State, b1=ran.step("b1"), b2=ran.asks("b2"), b3=ran.step("b3"))
    return chain(State, saver=saver, a=ran.step("a"), sub=inner, z=ran.step("z"))


SUB = "sub:2"


# ── with None ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("due", "runs", "asks"),
    [("b1", ["b1", "b2"], True), ("b2", ["b2"], True), ("b3", ["b3", "z"], False)],
    ids=["its begin", "a question", "behind it"],
)
def test_a_finished_nested_graph_runs_again_from_there(engine, saver, ran, due, runs, asks):
    graph = nested(ran, saver)
    first = engine.invoke(graph, {"log": ["in"]}, thread())
    engine.resume(graph, "first", thread())
    before = everything(engine, graph, SUB)
    ran.clear()
    again = engine.invoke(graph, None, at(engine, graph, inside(SUB), due).config)
    assert ran == runs
    answer = "first"
    if asks:
        assert asked(again) == ["b2?"]
        assert ids(again)["b2?"] != ids(first)["b2?"]
        again = engine.resume(graph, answer := "second", thread())
    assert again.status == "completed"
    assert again["log"] == ["in", "a", "b1", ("b2", answer), "b3", "z"]
    after = everything(engine, graph, SUB)
    assert [now[len(now) - len(old) :] for now, old in zip(after, before, strict=True)] == before


def test_its_end_ends_it_again(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    done = engine.resume(graph, "first", thread())
    end = engine.state(graph, inside(SUB))
    assert end.next == ()
    ran.clear()
    again = engine.invoke(graph, None, end.config)
    assert (again["log"], ran) == (done["log"], ["z"])


def test_the_new_branch_is_the_newest_and_its_forks_have_old_parents(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.resume(graph, "first", thread())
    old = at(engine, graph, inside(SUB), "b3")
    around = at(engine, graph, thread(), "sub")
    engine.invoke(graph, None, old.config)
    outer, inner = engine.history(graph, thread()), engine.history(graph, inside(SUB))
    assert [one.metadata["source"] for one in outer][:3] == ["loop", "loop", "fork"]
    assert [one.metadata["source"] for one in inner][:2] == ["loop", "fork"]
    assert outer[2].parent_config == around.config
    assert inner[1].parent_config == old.config
    assert len({one.metadata["run_id"] for one in (*outer[:3], *inner[:2])}) == 1
    assert engine.state(graph, thread()) == outer[0]


def test_at_any_depth(engine, saver, ran):
    deep = chain(State, d1=ran.step("d1"), d2=ran.asks("d2"), d3=ran.step("d3"))
    middle = chain(State, m1=ran.step("m1"), deep=deep, m3=ran.step("m3"))
    graph = chain(State, saver=saver, a=ran.step("a"), mid=middle, z=ran.step("z"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    place = inside("mid:2", "deep:2")
    for due, runs in [("d2", ["d2"]), ("d1", ["d1", "d2"])]:
        ran.clear()
        assert asked(engine.invoke(graph, None, at(engine, graph, place, due).config)) == ["d2?"]
        assert ran == runs
        done = engine.resume(graph, f"at {due}", thread())
        assert done["log"] == ["a", "m1", "d1", ("d2", f"at {due}"), "d3", "m3", "z"]
    ran.clear()
    assert asked(engine.invoke(graph, None, at(engine, graph, inside("mid:2"), "deep").config)) == ["d2?"]
    assert ran == ["d1", "d2"]
    again = engine.resume(graph, "as a whole", thread())
    assert again["log"] == ["a", "m1", "d1", ("d2", "as a whole"), "d3", "m3", "z"]


def test_in_a_stream(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "yes", thread())
    old = at(engine, graph, inside(SUB), "b3")
    items = engine.stream(graph, None, old.config, stream_mode="updates", subgraphs=True)
    assert items == [
        ((SUB,), {"b3": {"log": ["b3"]}}),
        ((), {"sub": [{"log": ["b1"]}, {"log": [("b2", "yes")]}, {"log": ["b3"]}]}),
        ((), {"z": {"log": ["z"]}}),
    ]


def test_nodes_that_do_something_else_now_make_another_branch(engine, saver):
    rolled = iter(range(10))
    inner = chain(State, roll=lambda state: {"log": [next(rolled)]}, end=wrote("log", ["end"]))
    graph = chain(State, saver=saver, sub=inner)
    engine.invoke(graph, {"x": 1}, thread())
    start = at(engine, graph, inside("sub:1"), "roll")
    assert [engine.invoke(graph, None, start.config)["log"] for _ in range(2)] == [[1, "end"], [2, "end"]]
    end = [one.values["log"] for one in engine.history(graph, inside("sub:1")) if one.next == ()]
    assert end == [[2, "end"], [1, "end"], [0, "end"]]


def test_going_back_to_the_newest_is_going_on(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    newest = engine.state(graph, inside(SUB)).config
    assert asked(engine.invoke(graph, None, newest)) == ["b2?"]
    assert engine.resume(graph, "yes", newest)["log"] == ["a", "b1", ("b2", "yes"), "b3", "z"]
    sources = {one.metadata["source"] for one in engine.history(graph, inside(SUB))}
    assert sources == {"input", "loop"}


def test_a_failure_inside_is_run_again_from_before_it(engine, saver, ran):
    inner = chain(State, b1=ran.step("b1"), b2=ran.fails("b2", 2))
    graph = chain(State, saver=saver, sub=inner)
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(RuntimeError):
        engine.invoke(graph, None, at(engine, graph, inside("sub:1"), "b1").config)
    assert engine.invoke(graph, None, thread())["log"] == ["b1", "b2"]
    assert ran == ["b1", "b2", "b1", "b2", "b2"]


# ── answering otherwise ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["around", "inside"])
def test_an_old_question_inside_is_answered_otherwise(engine, saver, ran, place):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.resume(graph, "first", thread())
    before = everything(engine, graph, SUB)
    where, due = (thread(), "sub") if place == "around" else (inside(SUB), "b2")
    old = at(engine, graph, where, due).config
    ran.clear()
    for answer in ("second", "third", "second"):
        done = engine.resume(graph, answer, old)
        assert (done.status, done["log"]) == (
            "completed",
            ["in", "a", "b1", ("b2", answer), "b3", "z"],
        )
    assert ran == ["b2", "b3", "z"] * 3
    after = everything(engine, graph, SUB)
    assert [now[len(now) - len(old) :] for now, old in zip(after, before, strict=True)] == before


def test_of_two_questions_in_a_row_the_second_is_asked_again(engine, saver, ran):
    inner = chain(State, b1=ran.asks("b1"), b2=ran.asks("b2"))
    graph = chain(State, saver=saver, sub=inner)
    engine.invoke(graph, {"x": 1}, thread())
    for answer in (1, 2):
        engine.resume(graph, answer, thread())
    again = engine.resume(graph, "other", at(engine, graph, thread(), "sub").config)
    assert asked(again) == ["b2?"]
    assert engine.resume(graph, "two", thread())["log"] == [("b1", "other"), ("b2", "two")]
    second = engine.resume(graph, "new two", at(engine, graph, inside("sub:1"), "b2").config)
    assert second["log"] == [("b1", 1), ("b2", "new two")], "the answer before it was given then"


def test_questions_deep_down_are_answered_otherwise(engine, saver, ran):
    deep = chain(State, d1=ran.step("d1"), d2=ran.asks("d2"))
    graph = chain(State, saver=saver, mid=chain(State, m=ran.step("m"), deep=deep), z=ran.step("z"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    ran.clear()
    for where, due in [
        (thread(), "mid"),
        (inside("mid:1"), "deep"),
        (inside("mid:1", "deep:2"), "d2"),
    ]:
        done = engine.resume(graph, due, at(engine, graph, where, due).config)
        assert (done["log"], ran.since()) == (["m", "d1", ("d2", due), "z"], ["d2", "z"])


def test_where_nothing_was_asked_nothing_is_changed(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "yes", thread())
    before = everything(engine, graph, SUB)
    with pytest.raises(NothingToResumeError):
        engine.resume(graph, "yes", at(engine, graph, inside(SUB), "b1").config)
    assert everything(engine, graph, SUB) == before
    assert saver.leases() == []


def test_an_answer_that_fits_none_changes_nothing(engine, saver, ran):
    inner = fan(State, b=ran.asks("b"), c=ran.asks("c"))
    graph = chain(State, saver=saver, sub=inner)
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["b?"]: 1, ids(paused)["c?"]: 2}, thread())
    before = everything(engine, graph, "sub:1")
    old = at(engine, graph, inside("sub:1"), "b", "c").config
    with pytest.raises(InterruptError, match="multiple pending interrupts"):
        engine.resume(graph, "which?", old)
    assert everything(engine, graph, "sub:1") == before
    half = engine.resume(graph, {ids(paused)["c?"]: "other"}, old)
    assert asked(half) == ["b?"]
    assert engine.resume(graph, "new", thread())["log"] == [("b", "new"), ("c", "other")]


# ── beside others ────────────────────────────────────────────────────────────────────────────────────────────


def sides(ran: Ran, saver: Any) -> Any:
    """Two nested graphs side by side, each with a question and a step; then z."""

    def sub(name: str) -> Any:
        return chain(State, ask=ran.asks(name), end=ran.step(f"{name} end"))

    edges = [(START, "a"), (START, "b"), (["a", "b"], "z")]
    return builder(State, {"a": sub("a"), "b": sub("b"), "z": ran.step("z")}, *edges).compile(saver)


def test_a_sibling_that_had_ended_then_does_not_run_again(engine, saver, ran):
    graph = sides(ran, saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["a?"]: "A"}, thread())
    engine.resume(graph, "B", thread())
    ran.clear()
    done = engine.invoke(graph, None, at(engine, graph, inside("b:1"), "end").config)
    assert (done["log"], ran) == ([("a", "A"), "a end", ("b", "B"), "b end", "z"], ["b end", "z"])


def test_a_sibling_that_was_answered_later_asks_again(engine, saver, ran):
    graph = sides(ran, saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["b?"]: "B"}, thread())
    engine.resume(graph, "A", thread())
    ran.clear()
    again = engine.invoke(graph, None, at(engine, graph, inside("b:1"), "end").config)
    assert (asked(again), ran) == (["a?"], ["b end"])
    done = engine.resume(graph, "new A", thread())
    assert (done["log"], ran) == (
        [("a", "new A"), "a end", ("b", "B"), "b end", "z"],
        ["b end", "a", "a end", "z"],
    )


def test_both_at_once_are_answered_otherwise_in_any_order(engine, saver, ran):
    graph = sides(ran, saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["a?"]: 1, ids(paused)["b?"]: 2}, thread())
    old = at(engine, graph, thread(), "a", "b").config
    for first, second in (("a", "b"), ("b", "a")):
        half = engine.resume(graph, {ids(paused)[f"{first}?"]: first}, old)
        assert asked(half) == [f"{second}?"]
        done = engine.resume(graph, second, thread())
        assert done["log"] == [("a", "a"), "a end", ("b", "b"), "b end", "z"]


def test_many_sent_to_one_nested_graph(engine, saver, ran):
    from juncture import Send

    inner = chain(
        State, ask=lambda state: {"log": [(state["x"], interrupt(state["x"]))]}, end=ran.step("end")
    )
    graph = builder(State, {"plan": ran.step("plan"), "sub": inner}, (START, "plan"))
    graph.add_conditional_edges("plan", lambda state: [Send("sub", {"x": n}) for n in range(4)], ["sub"])
    graph = graph.compile(saver)
    paused = engine.invoke(graph, {"x": "in"}, thread())
    engine.resume(graph, {ids(paused)[n]: n for n in range(4)}, thread())
    ran.clear()
    old = at(engine, graph, inside("sub:2.2"), "ask").config
    done = engine.resume(graph, "other", old)
    assert asked(done) == [0, 1, 3], "these were answered later"
    rest = {ids(done)[n]: -n for n in (0, 1, 3)}
    log = engine.resume(graph, rest, thread())["log"]
    assert log == ["plan", (0, 0), "end", (1, -1), "end", (2, "other"), "end", (3, -3), "end"]


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_forks_do_not_see_each_other(engine, saver, ran):
    """Rule 28: two branches that pause in the same nested graph, each gone on with after the other."""
    inner = chain(State, b1=ran.asks("b1"), b2=ran.asks("b2"), b3=ran.asks("b3"))
    graph = chain(State, saver=saver, sub=inner)
    engine.invoke(graph, {"x": 1}, thread())
    start = engine.state(graph, thread()).config
    for answer in (1, 2, 3):
        engine.resume(graph, answer, thread())
    for name in ("left", "right"):
        assert asked(engine.resume(graph, name, start)) == ["b2?"]
    inner_states = engine.history(graph, inside("sub:1"))
    for name in ("right", "left", "right"):
        fork = next(one for one in inner_states if one.values["log"] == [("b1", name)])
        assert asked(engine.resume(graph, f"{name} 2", fork.config)) == ["b3?"]
        done = engine.resume(graph, f"{name} 3", thread())
        assert done["log"] == [("b1", name), ("b2", f"{name} 2"), ("b3", f"{name} 3")]


def test_a_fork_that_was_not_run_yet_does_not_take_what_another_did(engine, saver, ran):
    """As after a crash between the fork of the graph around and the nested one's first save."""
    graph = sides(ran, saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    old = engine.state(graph, thread()).config
    engine.resume(graph, {ids(paused)["a?"]: 1, ids(paused)["b?"]: 2}, thread())
    engine.resume(graph, {ids(paused)["a?"]: "A"}, old)
    state = engine.state(graph, thread(), subgraphs=True)
    (waiting,) = [task for task in state.tasks if task.interrupts]
    assert (waiting.name, waiting.state) == ("b", None), "what stands in its namespace is of another branch"
    assert engine.resume(graph, "B", thread())["log"][2] == ("b", "B")


def test_an_old_state_shows_the_nested_ones_of_its_branch(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    old = at(engine, graph, thread(), "sub")
    shown = engine.state(graph, old.config, subgraphs=True).tasks[0].state
    assert shown.values["log"] == ["a", "b1", ("b2", "first"), "b3"]
    engine.resume(graph, "second", old.config)
    assert engine.state(graph, old.config, subgraphs=True).tasks[0].state.values == shown.values
    fork = engine.history(graph, thread())[2]
    forked = engine.state(graph, fork.config, subgraphs=True).tasks[0].state
    assert forked.values["log"] == ["a", "b1", ("b2", "second"), "b3"]


# ── graphs that functions call ───────────────────────────────────────────────────────────────────────────────


def calling(ran: Ran, saver: Any) -> tuple[Any, Any]:
    """A function that calls a graph twice, with a question each, and one of its own between them."""
    inner = chain(
        State, c1=ran.step("c1"), c2=lambda s: {"log": [interrupt(f"{s['x']}?")]}, c3=ran.step("c3")
    )

    def call(state):
        one = inner.invoke({"x": "one"})["log"]
        between = interrupt("between?")
        return {"log": [*one, between, *inner.invoke({"x": "two"})["log"]]}

    return chain(State, saver=saver, a=ran.step("a"), call=call, z=ran.step("z")), inner


def called(saver: Any) -> list[str]:
    """The namespaces of the calls, the first first."""
    return sorted(
        (name for name in saver.namespaces("t") if name),
        key=lambda name: saver.history("t", name)[-1].checkpoint.checkpoint_id,
    )


def test_a_graph_called_in_a_function_goes_back(engine, saver, ran):
    graph, inner = calling(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    for answer in (1, 2, 3):
        engine.resume(graph, answer, thread())
    log = ["a", "c1", 1, "c3", 2, "c1", 3, "c3", "z"]
    assert engine.state(graph, thread()).values["log"] == log
    first, second = called(saver)
    ran.clear()
    again = engine.invoke(graph, None, at(engine, graph, inside(second), "c2").config)
    assert asked(again) == ["two?"]
    assert "c1" not in ran.since()[-1:], "the second call goes on from its own old state"
    done = engine.resume(graph, "new", thread())
    assert done["log"] == ["a", "c1", 1, "c3", 2, "c1", "new", "c3", "z"]
    again = engine.invoke(graph, None, at(engine, graph, inside(first), "c2").config)
    assert asked(again) == ["one?"]
    for answer in (4, 5, 6):
        done = engine.resume(graph, answer, thread())
    assert done["log"] == ["a", "c1", 4, "c3", 5, "c1", 6, "c3", "z"]
    inner.close()


def test_an_old_question_of_a_called_graph_is_answered_otherwise(engine, saver, ran):
    graph, inner = calling(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    old = engine.state(graph, thread()).config
    for answer in (1, 2, 3):
        engine.resume(graph, answer, thread())
    ran.clear()
    assert asked(engine.resume(graph, "other", old)) == ["between?"]
    assert ran == ["c3"]
    engine.resume(graph, "b", thread())
    assert engine.resume(graph, "t", thread())["log"] == ["a", "c1", "other", "c3", "b", "c1", "t", "c3", "z"]
    inner.close()


# ── with a memory of their own ───────────────────────────────────────────────────────────────────────────────


def remembering(ran: Ran, saver: Any) -> Any:
    inner = builder(
        State,
        {"m1": ran.step("m1"), "m2": ran.asks("m2"), "m3": ran.step("m3")},
        *chain_edges(["m1", "m2", "m3"]),
    )
    graph = builder(State, {"sub": inner.compile(checkpointer=True), "z": ran.step("z")}, (START, "sub"))
    return graph.add_edge("sub", "z").compile(saver)


def test_one_that_remembers_goes_back_inside_an_earlier_call(engine, saver, ran):
    graph = remembering(ran, saver)
    for turn in (1, 2):
        engine.invoke(graph, {"x": turn}, thread())
        engine.resume(graph, f"turn {turn}", thread())
    first = at(engine, graph, inside("sub"), "m2")
    ran.clear()
    again = engine.invoke(graph, None, first.config)
    assert (asked(again), ran.since()) == (["m2?"], ["m2"])
    done = engine.resume(graph, "other", thread())
    assert done["log"] == ["m1", ("m2", "other"), "m3", "z"]
    engine.invoke(graph, {"x": 2}, thread())
    assert engine.resume(graph, "then", thread())["log"] == [
        *["m1", ("m2", "other"), "m3", "z"],
        *["m1", ("m2", "then"), "m3", "z"],
    ]
    remembered = engine.state(graph, inside("sub")).values["log"]
    assert ("m2", "turn 2") not in remembered
    assert [entry for entry in remembered if isinstance(entry, tuple)][-1] == ("m2", "then")


@pytest.mark.parametrize("place", ["around", "inside"])
def test_an_old_question_of_one_that_remembers_is_answered_otherwise(engine, saver, ran, place):
    graph = remembering(ran, saver)
    for turn in (1, 2):
        engine.invoke(graph, {"x": turn}, thread())
        engine.resume(graph, f"turn {turn}", thread())
    where, due = (thread(), "sub") if place == "around" else (inside("sub"), "m2")
    old = at(engine, graph, where, due)
    ran.clear()
    for answer in ("other", "another"):
        done = engine.resume(graph, answer, old.config)
        assert done["log"] == ["m1", ("m2", answer), "m3", "z"]
    assert ran == ["m2", "m3", "z"] * 2


# ── editing ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("config", ["of the thread", "of the edit"])
def test_an_edit_of_an_old_state_inside_is_gone_on_from(engine, saver, ran, config):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.resume(graph, "first", thread())
    before = everything(engine, graph, SUB)
    old = at(engine, graph, inside(SUB), "b3")
    edited = engine.update(graph, old.config, {"log": ["edited"]}, "b2")
    state = engine.state(graph, thread())
    assert (state.next, state.values["log"], state.metadata["source"]) == (("sub",), ["in", "a"], "fork")
    ran.clear()
    done = engine.invoke(graph, None, thread() if config == "of the thread" else edited)
    assert done["log"] == ["in", "a", "b1", ("b2", "first"), "edited", "b3", "z"]
    assert ran == ["b3", "z"]
    after = everything(engine, graph, SUB)
    assert [now[len(now) - len(old) :] for now, old in zip(after, before, strict=True)] == before


def test_an_edit_in_place_of_an_answer(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.resume(graph, "first", thread())
    engine.update(graph, at(engine, graph, inside(SUB), "b2").config, {"log": ["for b2"]}, "b2")
    done = engine.invoke(graph, None, thread())
    assert done["log"] == ["in", "a", "b1", "for b2", "b3", "z"]


def test_what_was_edited_while_it_waited_is_what_an_old_question_goes_on_from(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.update(graph, inside(SUB), {"log": ["edited"]}, "b1")
    old = engine.state(graph, thread()).config
    expected = ["in", "a", "b1", "edited", ("b2", "first"), "b3", "z"]
    assert engine.resume(graph, "first", thread())["log"] == expected
    assert engine.resume(graph, "second", old)["log"] == [*expected[:4], ("b2", "second"), *expected[5:]]


def test_an_edit_of_the_graph_around_keeps_what_the_nested_one_did(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.resume(graph, "first", thread())
    assert asked(engine.invoke(graph, None, at(engine, graph, inside(SUB), "b1").config)) == ["b2?"]
    engine.update(graph, thread(), {"x": "edited"}, "a")
    ran.clear()
    done = engine.resume(graph, "second", thread())
    assert (done["x"], done["log"]) == ("edited", ["in", "a", "b1", ("b2", "second"), "b3", "z"])
    assert ran == ["b2", "b3", "z"]


# ── what can't be ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "given",
    [{"x": 1}, Command(update={"x": 1}), Command(resume=1, goto="b1")],
    ids=["input", "update", "both"],
)
def test_a_nested_graph_takes_no_input_from_outside_and_the_error_says_how(engine, saver, ran, given):
    graph = nested(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(ConfigError, match="nested graph") as caught:
        engine.invoke(graph, given, engine.state(graph, inside(SUB)).config)
    assert "update_state" in str(caught.value)
    assert engine.resume(graph, "yes", thread()).status == "completed"


def test_a_namespace_that_is_not_there(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(ConfigError, match="sub:9"):
        engine.invoke(graph, None, inside("sub:9"))
    assert saver.leases() == []


def test_a_thread_that_is_busy(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    old = at(engine, graph, inside(SUB), "b1").config
    held = performed(leases.acquire(saver, "t", "raise"))
    with pytest.raises(ThreadBusyError):
        engine.invoke(graph, None, old)
    performed(leases.release(saver, held))
    assert asked(engine.invoke(graph, None, old)) == ["b2?"]


def test_while_a_checkpoint_is_left_what_its_questions_need_is_left(engine, saver, ran):
    """Rule 32."""
    inner = chain(State, ask=ran.asks("ask"), **{f"b{n}": ran.step(f"b{n}") for n in range(6)})
    graph = chain(State, saver=saver, sub=inner)
    engine.invoke(graph, {"x": 1}, thread())
    old = engine.state(graph, thread()).config
    done = engine.resume(graph, "first", thread())
    engine.call(graph.prune, graph.aprune, "t", keep=2)
    assert len(engine.history(graph, inside("sub:1"))) < 8
    again = engine.resume(graph, "second", old)
    assert again["log"] == [("ask", "second"), *done["log"][1:]]


def test_in_a_copy_of_the_thread(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    engine.call(graph.copy_thread, graph.acopy_thread, "t", "copy")
    old = at(engine, graph, inside(SUB, name="copy"), "b2").config
    assert engine.resume(graph, "second", old)["log"] == ["a", "b1", ("b2", "second"), "b3", "z"]
    assert engine.state(graph, thread()).values["log"] == ["a", "b1", ("b2", "first"), "b3", "z"]


def test_without_a_schema_and_lenient(engine, saver, ran):
    inner = StateGraph(State, strict=False)
    for name in ("b1", "b2"):
        inner.add_node(name, ran.asks(name) if name == "b2" else ran.step(name))
    inner.add_edge(START, "b1").add_edge("b1", "b2")
    graph = StateGraph(State, strict=False).add_node("sub", inner.compile()).add_edge(START, "sub")
    graph = graph.compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    old = at(engine, graph, inside("sub:1"), "b2").config
    assert asked(engine.invoke(graph, None, old)) == ["b2?"]
    assert engine.resume(graph, "second", thread())["log"] == ["b1", ("b2", "second")]
    assert engine.resume(graph, "third", old)["log"] == ["b1", ("b2", "third")]
