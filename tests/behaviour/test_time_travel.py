"""Running from an older checkpoint: exactly from there, on a branch of its own (right-behaviour 28 and 33)."""

import random
from typing import Any

import pytest

from juncture import (
    END,
    START,
    Command,
    ConfigError,
    InterruptError,
    NothingToResumeError,
    Send,
    StateGraph,
    interrupt,
    task,
)
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.behaviour.ran import Ran, State, asked, ids, named

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def ran():
    return Ran()


def at(engine: Any, graph: Any, *nodes: str, config: Any = None) -> Any:
    """The oldest state at which these nodes are due."""
    found = [one for one in engine.history(graph, config or thread()) if one.next == nodes]
    return found[-1]


# ── from exactly there ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("due", "runs"), [(("a",), ["a", "b", "c"]), (("b",), ["b", "c"]), (("c",), ["c"])], ids=str
)
def test_what_comes_after_the_checkpoint_runs_again(engine, saver, ran, due, runs):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    first = engine.invoke(graph, {"log": ["in"]}, thread())
    old = at(engine, graph, *due)
    ran.clear()
    again = engine.invoke(graph, None, old.config)
    assert (again.status, dict(again), ran) == ("completed", dict(first), runs)
    assert again.steps == len(runs)


def test_the_new_branch_becomes_the_newest_and_the_old_one_stays(engine, saver, ran):
    """Case C94: history is never rewritten, a fork appears."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"log": ["in"]}, thread())
    history = engine.history(graph, thread())
    engine.invoke(graph, None, history[1].config)
    now = engine.history(graph, thread())
    assert now[2:] == history
    loop, fork = now[:2]
    assert (fork.metadata["source"], fork.parent_config, fork.values) == (
        "fork",
        history[1].config,
        history[1].values,
    )
    assert fork.next == ("b",)
    assert (loop.parent_config, loop.metadata["source"]) == (fork.config, "loop")
    assert [one.metadata["step"] for one in now] == [2, 1, 2, 1, 0]
    assert engine.state(graph, thread()) == loop


def test_several_goes_from_one_checkpoint_give_equal_results(engine, saver, ran):
    """Case C94."""
    graph = chain(State, saver=saver, one=wrote("x", 1), two=wrote("y", 2))
    engine.invoke(graph, {"log": ["in"]}, thread())
    old = at(engine, graph, "two")
    assert old.values == {"log": ["in"], "x": 1}
    results = [dict(engine.invoke(graph, None, old.config)) for _ in range(3)]
    assert results == [{"log": ["in"], "x": 1, "y": 2}] * 3
    assert engine.state(graph, old.config) == old


def test_nodes_that_do_something_else_now_make_another_branch(engine, saver):
    rolled = iter(range(10))
    graph = chain(State, saver=saver, roll=lambda state: {"log": [next(rolled)]}, end=wrote("log", ["end"]))
    engine.invoke(graph, {"x": 1}, thread())
    start = at(engine, graph, "roll")
    assert engine.invoke(graph, None, start.config)["log"] == [1, "end"]
    assert engine.invoke(graph, None, start.config)["log"] == [2, "end"]
    logs = [one.values["log"] for one in engine.history(graph, thread()) if one.next == ()]
    assert logs == [[2, "end"], [1, "end"], [0, "end"]]


def test_new_input_at_an_older_checkpoint(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"log": ["one"]}, thread())
    first = engine.state(graph, thread())
    engine.invoke(graph, {"log": ["two"]}, thread())
    forked = engine.invoke(graph, {"log": ["other"]}, first.config)
    assert forked["log"] == ["one", "a", "b", "other", "a", "b"]
    history = engine.history(graph, thread())
    assert history[2].parent_config == first.config
    assert history[3].values["log"] == ["one", "a", "b", "two", "a", "b"]
    third = engine.invoke(graph, {"log": ["three"]}, thread())
    assert third["log"] == ["one", "a", "b", "other", "a", "b", "three", "a", "b"]


def test_an_update_with_the_go_back(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"x": 1}, thread())
    old = at(engine, graph, "b")
    done = engine.invoke(graph, Command(update={"x": 2}), old.config)
    assert (done["x"], done["log"]) == (2, ["a", "b"])


def test_going_back_to_the_newest_is_going_on(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    newest = engine.state(graph, thread()).config
    assert engine.resume(graph, {ids(paused)["b?"]: "yes"}, newest)["log"] == ["a", ("b", "yes")]
    assert [one.metadata["source"] for one in engine.history(graph, thread())] == ["loop", "loop", "input"]


def test_going_back_to_an_end_finds_nothing_to_do_and_changes_nothing(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"))
    engine.invoke(graph, {"log": ["one"]}, thread())
    end = engine.state(graph, thread())
    engine.invoke(graph, {"log": ["two"]}, thread())
    history = engine.history(graph, thread())
    ran.clear()
    with pytest.raises(NothingToResumeError, match="finished"):
        engine.invoke(graph, None, end.config)
    assert (engine.history(graph, thread()), ran) == (history, [])


def test_a_loop_goes_on_from_its_middle(engine, saver):
    graph = StateGraph(State).add_node("a", lambda state: {"log": [state["x"]], "x": state["x"] + 1})
    graph.add_edge(START, "a").add_conditional_edges(
        "a", lambda state: "a" if state["x"] < 5 else END, ["a", END]
    )
    graph = graph.compile(saver)
    engine.invoke(graph, {"x": 0}, thread())
    middle = next(one for one in engine.history(graph, thread()) if one.values["x"] == 2)
    done = engine.invoke(graph, None, middle.config)
    assert (done["log"], done.steps) == ([0, 1, 2, 3, 4], 3)


def test_joins_and_sends_in_progress_are_taken_up(engine, saver, ran):
    graph = builder(
        State,
        {
            "a": ran.step("a"),
            "b1": ran.step("b1"),
            "b2": ran.step("b2"),
            "c": ran.step("c"),
            "w": lambda n: {"log": [n]},
        },
        (START, "a"),
        (START, "b1"),
        ("b1", "b2"),
        (["a", "b2"], "c"),
    )
    graph.add_conditional_edges("c", lambda state: [Send("w", 1), Send("w", 2)], ["w"])
    graph = graph.compile(saver)
    first = engine.invoke(graph, {"x": 1}, thread())
    assert first["log"] == ["a", "b1", "b2", "c", 1, 2]
    for due in [("b2",), ("c",), ("w",)]:
        assert engine.invoke(graph, None, at(engine, graph, *due).config)["log"] == first["log"]


def test_a_failed_step_is_run_again_as_a_whole(engine, saver, ran):
    """Also what had ended beside the failure: that was saved after the checkpoint."""
    graph = fan(State, saver=saver, a=ran.step("a"), b=ran.fails("b", 1))
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread())
    engine.invoke(graph, None, thread())
    ran.clear()
    assert engine.invoke(graph, None, at(engine, graph, "a", "b").config)["log"] == ["a", "b"]
    assert sorted(ran) == ["a", "b"]


def test_an_earlier_run_that_failed_is_gone_back_to(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.fails("b", 2))
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread())
    old = at(engine, graph, "a")
    with pytest.raises(RuntimeError):
        engine.invoke(graph, None, old.config)
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b"]
    assert ran == ["a", "b", "a", "b", "b"]


# ── questions and answers ────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_given_later_is_not_used(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    first = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    again = engine.invoke(graph, None, at(engine, graph, "b").config)
    assert (again.status, asked(again), again["log"]) == ("interrupted", ["b?"], ["a"])
    assert ids(again)["b?"] != ids(first)["b?"]
    assert engine.resume(graph, "second", thread())["log"] == ["a", ("b", "second"), "c"]


def test_going_back_before_a_question_asks_it_anew(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    ran.clear()
    again = engine.invoke(graph, None, at(engine, graph, "a").config)
    assert (asked(again), ran) == (["b?"], ["a", "b"])
    assert engine.resume(graph, "second", thread())["log"] == ["a", ("b", "second"), "c"]


def test_an_old_question_may_be_answered_otherwise(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    old = at(engine, graph, "b")
    ran.clear()
    for answer in ("second", "third", "second"):
        done = engine.resume(graph, answer, old.config)
        assert (done.status, done["log"]) == ("completed", ["a", ("b", answer), "c"])
    assert ran == ["b", "c"] * 3


def test_of_two_old_questions_one_may_be_answered_otherwise(engine, saver, ran):
    graph = builder(
        State,
        {"a": ran.asks("a"), "b": ran.asks("b"), "c": ran.step("c")},
        (START, "a"),
        (START, "b"),
        (["a", "b"], "c"),
    ).compile(saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["a?"]: 1}, thread())
    engine.resume(graph, 2, thread())
    old = at(engine, graph, "a", "b")
    half = engine.resume(graph, {ids(paused)["b?"]: "other"}, old.config)
    assert asked(half) == ["a?"], "the answer to it was given later, too"
    done = engine.resume(graph, "new", thread())
    assert done["log"] == [("a", "new"), ("b", "other"), "c"]


def test_of_two_old_questions_one_answer_is_not_enough_said(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.asks("a"), b=ran.asks("b"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["a?"]: 1, ids(paused)["b?"]: 2}, thread())
    history = engine.history(graph, thread())
    with pytest.raises(InterruptError, match="multiple pending interrupts"):
        engine.resume(graph, "which?", at(engine, graph, "a", "b").config)
    assert engine.history(graph, thread()) == history


def test_the_finished_sibling_of_an_old_question_does_not_run_again_when_it_is_answered(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    ran.clear()
    done = engine.resume(graph, "second", at(engine, graph, "a", "b").config)
    assert (done["log"], ran) == (["a", ("b", "second")], ["b"])


def test_of_two_questions_in_one_node_the_second_is_asked_again(engine, saver, ran):
    def two(state):
        ran.append("two")
        return {"log": [interrupt("one?"), interrupt("two?")]}

    graph = chain(State, saver=saver, two=two)
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, 1, thread())
    engine.resume(graph, 2, thread())
    old = at(engine, graph, "two")
    again = engine.resume(graph, "other", old.config)
    assert asked(again) == ["two?"]
    assert engine.resume(graph, "two", thread())["log"] == ["other", "two"]


def test_calls_journaled_later_are_made_again(engine, saver, ran):
    """Rule 33, of the results of tasks: what was recorded beside the branch that was left stays there."""

    @task
    def draw():
        ran.append("draw")
        return len(ran)

    def node(state):
        number = draw().result()
        return {"log": [(number, interrupt("ok?"))]}

    graph = chain(State, saver=saver, node=node)
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.resume(graph, "yes", thread())["log"] == [(1, "yes")]
    engine.invoke(graph, None, at(engine, graph, "node").config)
    assert engine.resume(graph, "again", thread())["log"] == [(2, "again")]


def test_calls_made_before_an_old_question_are_not_made_again_when_it_is_answered_otherwise(
    engine, saver, ran
):
    @task
    def draw():
        ran.append("draw")
        return len(ran)

    def node(state):
        number = draw().result()
        return {"log": [(number, interrupt("ok?"))]}

    graph = chain(State, saver=saver, node=node)
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "yes", thread())
    assert engine.resume(graph, "no", at(engine, graph, "node").config)["log"] == [(1, "no")]
    assert ran == ["draw"]


def test_an_old_answer_does_not_fit_the_question_of_the_new_branch(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    first = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    engine.invoke(graph, None, at(engine, graph, "a").config)
    done = engine.resume(graph, {ids(first)["b?"]: "stale"}, thread())
    assert done["log"] == ["a", ("b", {ids(first)["b?"]: "stale"})], "no map of answers: a dict is the answer"


def test_a_resume_where_nothing_was_asked(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "yes", thread())
    history = engine.history(graph, thread())
    with pytest.raises(NothingToResumeError):
        engine.resume(graph, "yes", at(engine, graph, "a").config)
    assert engine.history(graph, thread()) == history


def test_none_passes_the_static_pause_it_goes_back_to(engine, saver, ran):
    """As in LangGraph; the pauses on the way are made."""
    graph = builder(State, {n: ran.step(n) for n in "abc"}, (START, "a"), ("a", "b"), ("b", "c"))
    graph = graph.compile(saver, interrupt_before=["b", "c"])
    engine.invoke(graph, {"x": 1}, thread())
    engine.invoke(graph, None, thread())
    engine.invoke(graph, None, thread())
    ran.clear()
    again = engine.invoke(graph, None, at(engine, graph, "b").config)
    assert ([q.node for q in again.interrupts], ran) == (["c"], ["b"])
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b", "c"]


def test_a_pause_after_a_node_is_passed_and_made_again_on_the_way(engine, saver, ran):
    graph = builder(State, {n: ran.step(n) for n in "abc"}, (START, "a"), ("a", "b"), ("b", "c"))
    graph = graph.compile(saver, interrupt_after=["a", "b"])
    engine.invoke(graph, {"x": 1}, thread())
    engine.invoke(graph, None, thread())
    engine.invoke(graph, None, thread())
    ran.clear()
    again = engine.invoke(graph, None, at(engine, graph, "b").config)
    assert ([(q.node, q.when) for q in again.interrupts], ran) == ([("b", "after")], ["b"])
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b", "c"]


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_forks_do_not_see_each_other(engine, saver, ran):
    """Rule 28."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.asks("c"))
    engine.invoke(graph, {"x": 1}, thread())
    old = engine.state(graph, thread()).config
    ends = {}
    for answer in ("left", "right"):
        engine.resume(graph, answer, old)
        ends[answer] = engine.resume(graph, f"{answer} c", thread()).checkpoint.checkpoint_id
    for answer, checkpoint_id in ends.items():
        state = engine.state(graph, thread_at(checkpoint_id))
        assert state.values["log"] == ["a", ("b", answer), ("c", f"{answer} c")]
    left_c = next(
        one
        for one in engine.history(graph, thread())
        if one.next == ("c",) and ("b", "left") in one.values["log"]
    )
    done = engine.resume(graph, "left c again", left_c.config)
    assert done["log"] == ["a", ("b", "left"), ("c", "left c again")]


def thread_at(checkpoint_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": "t", "checkpoint_id": checkpoint_id}}


def test_forks_of_forks(engine, saver):
    """Any walk through the history gives what a walk without history would."""
    graph = StateGraph(State).add_node("a", lambda state: {"log": [state["x"]], "x": state["x"] + 1})
    graph.add_edge(START, "a").add_edge("a", END)
    graph = graph.compile(saver)
    engine.invoke(graph, {"x": 0, "log": []}, thread())
    expected = {named(one.config): one.values for one in engine.history(graph, thread())}
    choose = random.Random(4)
    for turn in range(12):
        history = [one for one in engine.history(graph, thread()) if one.next == ()]
        old = history[choose.randrange(len(history))]
        before = expected[named(old.config)]
        done = engine.invoke(graph, {"log": [f"turn {turn}"]}, old.config)
        assert done == {"log": [*before["log"], f"turn {turn}", before["x"]], "x": before["x"] + 1}
        expected |= {
            named(one.config): one.values
            for one in engine.history(graph, thread())
            if named(one.config) not in expected
        }
        assert {named(one.config): one.values for one in engine.history(graph, thread())} == expected


def test_the_parents_of_a_history_with_forks(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"x": 1}, thread())
    old = at(engine, graph, "b")
    engine.invoke(graph, None, old.config)
    engine.update(graph, old.config, {"x": 2})
    sources = [(one.metadata["source"], one.metadata["step"]) for one in engine.history(graph, thread())]
    assert sources == [("update", 1), ("loop", 2), ("fork", 1), ("loop", 2), ("loop", 1), ("input", 0)]
    parents = [one.parent_config and named(one.parent_config) for one in engine.history(graph, thread())]
    mine = [named(one.config) for one in engine.history(graph, thread())]
    assert parents == [mine[4], mine[2], mine[4], mine[4], mine[5], None]


def test_going_back_in_a_stream(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    engine.invoke(graph, {"x": 1}, thread())
    old = at(engine, graph, "b")
    items = engine.stream(graph, None, old.config, stream_mode=["values", "updates"])
    assert items == [
        ("values", {"x": 1, "log": ["a"]}),
        ("updates", {"b": {"log": ["b"]}}),
        ("values", {"x": 1, "log": ["a", "b"]}),
        ("updates", {"c": {"log": ["c"]}}),
        ("values", {"x": 1, "log": ["a", "b", "c"]}),
    ]


# ── nested graphs ────────────────────────────────────────────────────────────────────────────────────────────


def nested(ran: Ran, saver: Any) -> Any:
    inner = chain(State, b1=ran.step("b1"), b2=ran.asks("b2"), b3=ran.step("b3"))
    return chain(State, saver=saver, a=ran.step("a"), sub=inner, z=ran.step("z"))


@pytest.mark.parametrize("due", ["a", "sub"])
def test_a_nested_graph_runs_afresh_after_going_back(engine, saver, ran, due):
    graph = nested(ran, saver)
    first = engine.invoke(graph, {"log": ["in"]}, thread())
    engine.resume(graph, "first", thread())
    ran.clear()
    again = engine.invoke(graph, None, at(engine, graph, due).config)
    assert asked(again) == ["b2?"]
    assert ids(again)["b2?"] != ids(first)["b2?"]
    assert ran == [*(["a"] if due == "a" else []), "b1", "b2"]
    done = engine.resume(graph, "second", thread())
    assert done["log"] == ["in", "a", "b1", ("b2", "second"), "b3", "z"]


def test_a_nested_graph_that_is_paused_begins_anew_after_going_back(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    again = engine.invoke(graph, None, at(engine, graph, "a").config)
    assert asked(again) == ["b2?"]
    assert engine.resume(graph, "yes", thread())["log"] == ["in", "a", "b1", ("b2", "yes"), "b3", "z"]
    assert ran == ["a", "b1", "b2", "a", "b1", "b2", "b2", "b3", "z"]


def test_behind_a_nested_graph_it_does_not_run_again(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.resume(graph, "yes", thread())
    ran.clear()
    done = engine.invoke(graph, None, at(engine, graph, "z").config)
    assert (done["log"], ran) == (["in", "a", "b1", ("b2", "yes"), "b3", "z"], ["z"])


def test_a_paused_nested_graph_goes_back_inside(engine, saver, ran):
    """Rule 33, inside a subgraph: by a copy of its own older checkpoint."""
    graph = nested(ran, saver)
    first = engine.invoke(graph, {"log": ["in"]}, thread())
    place = engine.state(graph, thread()).tasks[0].state
    old = at(engine, graph, "b1", config=place)
    engine.update(graph, old.config, None, "__copy__")
    assert engine.state(graph, thread()).interrupts == ()
    ran.clear()
    again = engine.invoke(graph, None, thread())
    assert (asked(again), ran) == (["b2?"], ["b1", "b2"])
    assert ids(again)["b2?"] != ids(first)["b2?"]
    assert engine.resume(graph, "yes", thread())["log"] == ["in", "a", "b1", ("b2", "yes"), "b3", "z"]


def test_graphs_called_inside_a_node_run_afresh_after_going_back(engine, saver, ran):
    inner = chain(State, b1=ran.step("b1"), b2=ran.asks("b2"))

    def call(state):
        return {"log": inner.invoke({"log": []})["log"]}

    graph = chain(State, saver=saver, a=ran.step("a"), call=call)
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    ran.clear()
    assert asked(engine.invoke(graph, None, at(engine, graph, "call").config)) == ["b2?"]
    assert ran == ["b1", "b2"]
    assert engine.resume(graph, "second", thread())["log"] == ["a", "b1", ("b2", "second")]
    inner.close()


def test_parallel_nested_graphs_after_going_back(engine, saver, ran):
    def sub(name):
        return chain(State, ask=ran.asks(name), end=ran.step(f"{name} end"))

    graph = fan(State, saver=saver, a=sub("a"), b=sub("b"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["a?"]: 1, ids(paused)["b?"]: 2}, thread())
    again = engine.invoke(graph, None, at(engine, graph, "a", "b").config)
    assert sorted(asked(again)) == ["a?", "b?"]
    assert asked(engine.resume(graph, {ids(again)["a?"]: "A"}, thread())) == ["b?"]
    assert engine.resume(graph, "B", thread())["log"] == [("a", "A"), "a end", ("b", "B"), "b end"]


# ── what is kept out ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_thread_of_the_config_is_the_one_gone_back_in(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"x": 1}, thread("one"))
    engine.invoke(graph, {"x": 2}, thread("two"))
    old = at(engine, graph, "b", config=thread("one"))
    assert engine.invoke(graph, None, old.config)["x"] == 1
    assert len(engine.history(graph, thread("two"))) == 3


def test_a_lone_checkpoint_id_needs_its_thread(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    with pytest.raises(ConfigError, match="thread_id"):
        engine.invoke(graph, None, {"configurable": {"checkpoint_id": "x"}})
