"""Editing the state of a thread from outside: as if a node had returned it, through reducers, edges and routers."""

import operator
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, model_validator

from juncture import (
    END,
    START,
    Command,
    ConfigError,
    InvalidUpdateError,
    NothingToResumeError,
    Overwrite,
    RoutingError,
    Send,
    SerializationError,
    StateGraph,
    StuckJoinError,
    interrupt,
)
from juncture.types import StateUpdate
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.behaviour.ran import Ran, State, asked, ids, named

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def ran():
    return Ran()


def after_a(ran: Ran, saver: Any) -> Any:
    """a → b, where the run pauses before b."""
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    return graph.compile(saver, interrupt_before=["b"])


def saved(engine: Any, graph: Any) -> list[Any]:
    return engine.history(graph, thread())


# ── through reducers, edges and routers ──────────────────────────────────────────────────────────────────────


def test_values_go_through_reducers_and_make_a_checkpoint(engine, saver, ran):
    graph = after_a(ran, saver)
    paused = engine.invoke(graph, {"log": ["in"], "x": 1}, thread())
    config = engine.update(graph, thread(), {"log": ["edit"], "x": 2})
    state = engine.state(graph, thread())
    assert state.config == config
    assert (state.values, state.next) == ({"log": ["in", "a", "edit"], "x": 2}, ("b",))
    assert (state.metadata["source"], state.metadata["step"]) == ("update", 1), "an edit is no superstep"
    assert named(state.parent_config) == paused.checkpoint.checkpoint_id
    assert engine.state(graph, state.parent_config).values == {"log": ["in", "a"], "x": 1}
    done = engine.invoke(graph, None, thread())
    assert (done.status, done["log"], ran) == ("completed", ["in", "a", "edit", "b"], ["a", "b"])


def test_the_returned_config_names_the_new_checkpoint(engine, saver, ran):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    config = engine.update(graph, thread(), {"x": 2})
    assert engine.state(graph, config).values["x"] == 2
    assert engine.invoke(graph, None, config)["x"] == 2


@pytest.mark.parametrize(
    ("values", "log"),
    [
        (None, ["a"]),
        ({}, ["a"]),
        ({"log": Overwrite(["new"])}, ["new"]),
        ({"log": ["b1", "b2"]}, ["a", "b1", "b2"]),
        (Command(update=[("log", ["pair"])]), ["a", "pair"]),
        (Command(update={"log": ["c"]}), ["a", "c"]),
    ],
    ids=str,
)
def test_values_are_whatever_a_node_may_return(engine, saver, ran, values, log):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), values)
    assert engine.state(graph, thread()).values["log"] == log


def test_the_values_given_stay_the_caller_s_own(engine, saver, ran):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    given = {"log": [["inner"]], "x": {"deep": []}}
    engine.update(graph, thread(), given)
    given["log"][0].append("later")
    given["x"]["deep"].append("later")
    state = engine.state(graph, thread())
    assert (state.values["log"], state.values["x"]) == (["a", ["inner"]], {"deep": []})
    assert given == {"log": [["inner", "later"]], "x": {"deep": ["later"]}}


def test_the_node_s_edges_decide_what_is_next(engine, saver, ran):
    names = ["a", "b", "c", "d"]
    graph = builder(
        State, {n: ran.step(n) for n in names}, (START, "a"), ("a", "b"), ("b", "c"), ("b", "d")
    ).compile(saver, interrupt_before=["b"])
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"log": ["as b"]}, "b")
    assert engine.state(graph, thread()).next == ("c", "d")
    done = engine.invoke(graph, None, thread())
    assert (done["log"], sorted(ran)) == (["a", "as b", "c", "d"], ["a", "c", "d"]), "b didn't run"


def test_the_node_s_router_sees_the_state_with_what_was_written(engine, saver, ran):
    seen: list[Any] = []

    def route(state):
        seen.append((state["x"], state["log"]))
        return state["x"]

    graph = builder(State, {"a": ran.step("a"), "l": ran.step("l"), "r": ran.step("r")}, (START, "a"))
    graph = graph.add_conditional_edges("a", route, ["l", "r", END]).compile(
        saver, interrupt_before=["l", "r"]
    )
    engine.invoke(graph, {"x": "l"}, thread())
    assert engine.state(graph, thread()).next == ("l",)
    engine.update(graph, thread(), {"x": "r", "log": ["edit"]})
    assert engine.state(graph, thread()).next == ("r",)
    engine.update(graph, thread(), {"x": END})
    assert engine.state(graph, thread()).next == ()
    assert seen == [("l", ["a"]), ("r", ["a", "edit"]), (END, ["a", "edit"])]


def test_a_pause_after_a_node_and_an_edit_that_changes_its_route(engine, saver, ran):
    """Case C79."""
    graph = builder(State, {n: ran.step(n) for n in "ABCD"}, (START, "A"), ("A", "B"))
    graph.add_conditional_edges("B", lambda state: state["x"], ["C", "D"])
    graph = graph.compile(saver, interrupt_after=["B"])
    engine.invoke(graph, {"x": "D"}, thread())
    assert engine.state(graph, thread()).next == ("D",)
    engine.update(graph, thread(), {"x": "C"})
    done = engine.invoke(graph, None, thread())
    assert (done.status, ran) == ("completed", ["A", "B", "C"])


def test_a_router_may_send(engine, saver, ran):
    graph = builder(State, {"a": nothing, "work": lambda item: {"log": [item]}}, (START, "a"))
    graph.add_conditional_edges("a", lambda state: [Send("work", n) for n in state["x"]], ["work"])
    graph = graph.compile(saver)
    engine.update(graph, thread(), {"x": [1, 2]}, "a")
    assert [task.path for task in engine.state(graph, thread()).tasks] == [
        ("send", 0, "work"),
        ("send", 1, "work"),
    ]
    assert engine.invoke(graph, None, thread())["log"] == [1, 2]


def test_a_command_may_say_where_to_go(engine, saver, ran):

    def leads(state) -> Command[Literal["b", "c"]]:
        ran.append("a")
        return Command(update={"log": ["a"]}, goto=END)

    graph = builder(State, {"a": leads, "b": ran.step("b"), "c": ran.step("c")}, (START, "a")).compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), Command(update={"x": 2}, goto=["b", Send("c", {})]), "a")
    assert engine.state(graph, thread()).next == ("b", "c")
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b", "c"]


def test_a_finished_thread_goes_on_after_an_edit(engine, saver, ran):
    """Cases C92, C93."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"log": ["in"]}, thread())
    with pytest.raises(NothingToResumeError):
        engine.invoke(graph, None, thread())
    engine.update(graph, thread(), {"log": ["again"]}, "a")
    assert engine.state(graph, thread()).next == ("b",)
    assert engine.invoke(graph, None, thread())["log"] == ["in", "a", "b", "again", "b"]


def test_edits_follow_one_another(engine, saver, ran):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 0}, thread())
    for n in range(3):
        engine.update(graph, thread(), {"log": [n]})
    assert [one.values["log"] for one in saved(engine, graph)][:4] == [
        ["a", 0, 1, 2],
        ["a", 0, 1],
        ["a", 0],
        ["a"],
    ]
    assert engine.invoke(graph, None, thread())["log"] == ["a", 0, 1, 2, "b"]


# ── which node ───────────────────────────────────────────────────────────────────────────────────────────────


def test_by_default_it_is_the_node_that_ran_last(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"x": 2})  # as a
    assert engine.state(graph, thread()).next == ("b",)
    engine.resume(graph, "yes", thread())
    engine.update(graph, thread(), {"x": 3})  # as b
    assert engine.state(graph, thread()).next == ()


def test_by_default_it_is_the_node_of_the_last_edit(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"x": 2}, "a")
    engine.update(graph, thread(), {"x": 3})
    assert engine.state(graph, thread()).next == ("b",)


def test_by_default_it_is_the_input_on_an_empty_thread(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    config = engine.update(graph, thread(), {"log": ["seed"], "x": 1})
    state = engine.state(graph, thread())
    assert (state.values, state.next, state.parent_config) == ({"log": ["seed"], "x": 1}, ("a",), None)
    assert (state.config, state.metadata["source"]) == (config, "update")
    assert engine.invoke(graph, None, thread())["log"] == ["seed", "a", "b"]


def test_on_an_empty_thread_a_node_may_be_named(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.update(graph, thread(), {"log": ["seed"]}, "a")
    assert engine.invoke(graph, None, thread())["log"] == ["seed", "b"]
    assert ran == ["b"]


def test_right_after_the_input_it_is_the_input(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, interrupt_before=["a"])
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"x": 2})
    assert engine.state(graph, thread()).next == ("a",)
    assert engine.invoke(graph, None, thread())["x"] == 2


@pytest.mark.parametrize("how", ["by two nodes", "by parallel and another edit"])
def test_where_several_nodes_ran_it_is_ambiguous(engine, saver, ran, how):
    graph = builder(
        State,
        {"a": ran.step("a"), "b": ran.step("b"), "c": ran.asks("c")},
        (START, "a"),
        (START, "b"),
        (["a", "b"], "c"),
    ).compile(saver)
    if how == "by two nodes":
        engine.invoke(graph, {"x": 1}, thread())
    else:
        engine.bulk(graph, thread(), [[StateUpdate({"x": 1}, "a"), StateUpdate(None, "b")]])
    history = saved(engine, graph)
    with pytest.raises(InvalidUpdateError, match="Ambiguous update, specify as_node") as caught:
        engine.update(graph, thread(), {"x": 2})
    assert "'a'" in str(caught.value)
    assert "'b'" in str(caught.value)
    assert "'t'" in str(caught.value)
    assert saved(engine, graph) == history
    engine.update(graph, thread(), {"x": 2}, "b")
    assert engine.state(graph, thread()).values["x"] == 2


def test_several_sends_to_one_node_are_not_ambiguous(engine, saver, ran):
    graph = builder(
        State, {"a": nothing, "work": lambda item: {"log": [item]}, "end": ran.asks("end")}, (START, "a")
    )
    graph.add_conditional_edges("a", lambda state: [Send("work", 1), Send("work", 2)], ["work"])
    graph = graph.add_edge("work", "end").compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"x": 2})
    assert engine.state(graph, thread()).next == ("end",)


@pytest.mark.parametrize("name", ["nope", "", "A", "__end__x"])
def test_an_unknown_node_is_refused(engine, saver, ran, name):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    history = saved(engine, graph)
    with pytest.raises(InvalidUpdateError, match=f"Node '{name}' does not exist") as caught:
        engine.update(graph, thread(), {"x": 2}, name)
    assert "a, b" in str(caught.value), "those that there are"
    assert saved(engine, graph) == history


# ── the special names ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [START, "__input__"])
def test_an_edit_may_count_as_the_input(engine, saver, ran, name):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"log": ["one"]}, thread())
    engine.resume(graph, "yes", thread())
    ran.clear()
    engine.update(graph, thread(), {"log": ["two"]}, name)
    state = engine.state(graph, thread())
    assert (state.values["log"], state.next) == (["one", "a", ("b", "yes"), "two"], ("a",))
    paused = engine.invoke(graph, None, thread())
    assert (asked(paused), ran) == (["b?"], ["a", "b"])


def test_as_the_input_the_router_of_start_decides(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")})
    graph = graph.add_conditional_edges(START, lambda state: state["x"], ["a", "b"]).compile(saver)
    engine.invoke(graph, {"x": "a"}, thread())
    engine.update(graph, thread(), {"x": "b"}, START)
    assert engine.state(graph, thread()).next == ("b",)


def test_the_end_with_none_drops_what_is_due(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), None, END)
    state = engine.state(graph, thread())
    assert (state.values["log"], state.next, state.tasks, asked(state)) == (["a"], (), (), [])
    with pytest.raises(NothingToResumeError):
        engine.resume(graph, "yes", thread())
    assert asked(engine.invoke(graph, {"log": ["new"]}, thread())) == ["b?"], "new input is taken again"


def test_the_end_applies_what_finished_tasks_wrote(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    assert engine.invoke(graph, {"log": ["in"]}, thread())["log"] == ["in"]
    engine.update(graph, thread(), None, END)
    state = engine.state(graph, thread())
    assert (state.values["log"], state.next) == (["in", "a", "c"], ())
    engine.invoke(graph, {"log": ["new"]}, thread())
    assert engine.state(graph, thread()).values["log"] == ["in", "a", "c", "new", "a", "c"], "once"


def test_the_end_forgets_a_half_filled_join(engine, saver, ran):
    graph = builder(
        State,
        {"a": ran.step("a"), "b": ran.step("b"), "ask": ran.asks("ask"), "c": ran.step("c")},
        (START, "a"),
        (START, "ask"),
        ("ask", "b"),
        (["a", "b"], "c"),
    ).compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), None, END)
    assert engine.state(graph, thread()).next == ()
    engine.invoke(graph, {"x": 2}, thread())
    assert engine.resume(graph, 1, thread())["log"] == ["a", "a", ("ask", 1), "b", "c"]


def test_the_end_takes_no_values(engine, saver, ran):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    history = saved(engine, graph)
    with pytest.raises(InvalidUpdateError, match=END):
        engine.update(graph, thread(), {"x": 2}, END)
    assert saved(engine, graph) == history


def test_a_copy_is_a_fork_with_the_same_state(engine, saver, ran):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    before = engine.state(graph, thread())
    config = engine.update(graph, thread(), None, "__copy__")
    state = engine.state(graph, thread())
    assert (state.config, state.parent_config) == (config, before.config)
    assert (state.values, state.next, state.metadata["source"]) == (before.values, before.next, "fork")
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b"]


def test_a_copy_keeps_open_questions_and_finished_work(engine, saver, ran):
    """Rules 22 and 23: the same step is due, so what was saved about its tasks counts."""
    graph = fan(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    ran.clear()
    engine.update(graph, thread(), None, "__copy__")
    state = engine.state(graph, thread())
    assert (state.interrupts, state.next) == (paused.interrupts, ("b",))
    done = engine.resume(graph, "yes", thread())
    assert (done["log"], ran) == (["a", ("b", "yes")], ["b"])


def test_an_old_checkpoint_is_copied_to_the_front(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"x": 1}, thread())
    old = saved(engine, graph)[1]
    engine.update(graph, old.config, None, "__copy__")
    state = engine.state(graph, thread())
    assert (state.values, state.next, state.parent_config) == (old.values, ("b",), old.config)
    assert len(saved(engine, graph)) == 4
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b"]


@pytest.mark.parametrize("values", [{"x": 2}, Command(update={"x": 2})], ids=str)
def test_a_copy_takes_no_values(engine, saver, ran, values):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    history = saved(engine, graph)
    with pytest.raises((InvalidUpdateError, ConfigError), match="__copy__"):
        engine.update(graph, thread(), values, "__copy__")
    assert saved(engine, graph) == history


def test_an_edit_is_no_answer(engine, saver, ran):
    """What a command holds besides isn't dropped in silence."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"x": 1}, thread())
    history = saved(engine, graph)
    for values in (Command(resume="yes"), Command(resume="yes", update={"x": 2})):
        with pytest.raises((InvalidUpdateError, ConfigError), match="resume"):
            engine.update(graph, thread(), values)
    assert saved(engine, graph) == history
    assert engine.resume(graph, "yes", thread())["log"] == ["a", ("b", "yes")]


# ── several at once ──────────────────────────────────────────────────────────────────────────────────────────


def test_each_superstep_makes_a_checkpoint(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    config = engine.bulk(
        graph,
        thread(),
        [
            [StateUpdate({"log": ["in"]}, START)],
            [({"log": ["as a"]}, "a")],
            [StateUpdate({"log": ["as b"]}, "b")],
        ],
    )
    history = saved(engine, graph)
    assert [one.values["log"] for one in history] == [["in", "as a", "as b"], ["in", "as a"], ["in"]]
    assert [one.next for one in history] == [("c",), ("b",), ("a",)]
    assert [one.parent_config for one in history] == [history[1].config, history[2].config, None]
    assert history[0].config == config
    assert engine.invoke(graph, None, thread())["log"] == ["in", "as a", "as b", "c"]
    assert ran == ["c"]


def test_updates_of_one_superstep_merge_in_their_order(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.bulk(graph, thread(), [[({"log": ["b"], "x": 1}, "b"), ({"log": ["a"]}, "a")]])
    assert engine.state(graph, thread()).values["log"] == ["b", "a"]
    assert len(saved(engine, graph)) == 1


def joined(ran: Ran, saver: Any, **options: Any) -> Any:
    graph = builder(State, {n: ran.step(n) for n in "abc"}, (START, "a"), (START, "b"))
    return graph.add_edge(["a", "b"], "c", **options).compile(saver)


def test_updates_of_one_superstep_fill_a_join_together(engine, saver, ran):
    graph = joined(ran, saver)
    engine.bulk(graph, thread(), [[({"log": ["as a"]}, "a"), ({"log": ["as b"]}, "b")]])
    assert engine.state(graph, thread()).next == ("c",)
    done = engine.invoke(graph, None, thread())
    assert (done["log"], ran) == (["as a", "as b", "c"], ["c"])


def test_updates_one_after_another_fill_a_join(engine, saver, ran):
    graph = joined(ran, saver)
    engine.update(graph, thread(), {"log": ["as a"]}, "a")
    assert engine.state(graph, thread()).next == ()
    engine.update(graph, thread(), {"log": ["as b"]}, "b")
    assert engine.state(graph, thread()).next == ("c",)
    assert engine.invoke(graph, None, thread())["log"] == ["as a", "as b", "c"]


def test_a_join_that_an_edit_filled_in_part_is_said_to_be_stuck(engine, saver, ran):
    graph = joined(ran, saver)
    engine.update(graph, thread(), {"log": ["as a"]}, "a")
    with pytest.raises(StuckJoinError, match="'b' never ran"):
        engine.invoke(graph, None, thread())
    engine.update(graph, thread(), {"log": ["as b"]}, "b")
    assert engine.invoke(graph, None, thread())["log"] == ["as a", "as b", "c"]


def test_a_join_that_takes_what_arrived_goes_on_after_an_edit(engine, saver, ran):
    graph = joined(ran, saver, join="arrived")
    engine.update(graph, thread(), {"log": ["as a"]}, "a")
    assert engine.state(graph, thread()).next == ("c",)
    assert engine.invoke(graph, None, thread())["log"] == ["as a", "c"]


def test_an_edit_of_one_source_keeps_what_arrived_at_the_join_before(engine, saver, ran):
    graph = builder(
        State,
        {"a": ran.step("a"), "s": ran.step("s"), "b": ran.asks("b"), "c": ran.step("c")},
        (START, "a"),
        (START, "s"),
        ("s", "b"),
        (["a", "b"], "c"),
    ).compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"log": ["as b"]}, "b")
    assert engine.state(graph, thread()).next == ("c",)
    assert engine.invoke(graph, None, thread())["log"] == ["a", "s", "as b", "c"]


def test_a_key_without_a_reducer_takes_one_value_a_superstep(engine, saver, ran):
    graph = fan(State, saver=saver, a=nothing, b=nothing)
    with pytest.raises(InvalidUpdateError, match="one value per step") as caught:
        engine.bulk(graph, thread(), [[({"x": 1}, "a"), ({"x": 2}, "b")]])
    assert (caught.value.key, caught.value.nodes) == ("x", ("a", "b"))
    assert saved(engine, graph) == []


@pytest.mark.parametrize(
    "supersteps", [[], [[]], [[StateUpdate({"x": 1}, "a")], []], [[], [StateUpdate({"x": 1}, "a")]]], ids=str
)
def test_there_must_be_something_to_write(engine, saver, ran, supersteps):
    graph = after_a(ran, saver)
    with pytest.raises(ConfigError, match="nothing to update"):
        engine.bulk(graph, thread(), supersteps)
    assert saved(engine, graph) == []


def test_several_updates_need_their_nodes(engine, saver, ran):
    graph = fan(State, saver=saver, a=nothing, b=nothing)
    engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(InvalidUpdateError, match="as_node each"):
        engine.bulk(graph, thread(), [[StateUpdate({"x": 1}, "a"), StateUpdate(None)]])
    assert len(saved(engine, graph)) == 2


# ── on a paused or failed thread ─────────────────────────────────────────────────────────────────────────────


def test_a_question_that_is_still_due_stays_open(engine, saver, ran, caplog):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"x": 2})
    engine.update(graph, thread(), {"log": ["edit"]}, "a")
    state = engine.state(graph, thread())
    assert state.interrupts == paused.interrupts
    assert state.tasks[0].interrupts == paused.interrupts
    done = engine.resume(graph, "yes", thread())
    assert (done["x"], done["log"]) == (2, ["a", "edit", ("b", "yes")])
    assert caplog.records == []


def test_a_question_that_is_no_longer_due_is_dropped_and_said(engine, saver, ran, caplog):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"log": ["for b"]}, "b")
    state = engine.state(graph, thread())
    assert (state.next, state.interrupts) == (("c",), ())
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("juncture", "WARNING")
    assert "'t'" in record.getMessage()
    assert "b" in record.getMessage()
    with pytest.raises(NothingToResumeError):
        engine.resume(graph, "yes", thread())
    assert engine.invoke(graph, None, thread())["log"] == ["a", "for b", "c"]
    assert ran == ["a", "b", "c"]


def test_a_dropped_question_stays_dropped_where_its_node_comes_again(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.asks("b")}, (START, "a"), ("a", "b"), ("b", "a"))
    graph = graph.compile(saver)
    first = engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"log": ["for b"]}, "b")
    second = engine.invoke(graph, None, thread())
    assert asked(second) == ["b?"]
    assert ids(second)["b?"] != ids(first)["b?"]


def test_an_edit_as_the_node_before_itself_asks_anew_where_nothing_was_kept(engine, saver, ran):
    """Editing away and back again doesn't bring a question or an answer back."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    first = engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), None, "b")
    engine.update(graph, thread(), None, "a")
    assert engine.state(graph, thread()).interrupts == ()
    again = engine.invoke(graph, None, thread())
    assert ids(again)["b?"] != ids(first)["b?"]
    assert engine.resume(graph, "yes", thread())["log"] == ["a", ("b", "yes"), "c"]


def test_finished_siblings_of_a_question_that_stays_keep_their_work(engine, saver, ran):
    graph = builder(
        State,
        {"s": ran.step("s"), "a": ran.step("a"), "b": ran.asks("b")},
        (START, "s"),
        ("s", "a"),
        ("s", "b"),
    ).compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"x": 2})
    state = engine.state(graph, thread())
    assert (state.next, state.values["log"], asked(state)) == (("b",), ["s", "a"], ["b?"])
    done = engine.resume(graph, "yes", thread())
    assert (done["log"], ran) == (["s", "a", ("b", "yes")], ["s", "a", "b", "b"])


def test_answers_given_before_an_edit_count_after_it(engine, saver, ran):
    def two(state):
        return {"log": [interrupt("one?"), interrupt("two?")]}

    graph = chain(State, saver=saver, a=ran.step("a"), b=two)
    engine.invoke(graph, {"x": 1}, thread())
    assert asked(engine.resume(graph, 1, thread())) == ["two?"]
    engine.update(graph, thread(), {"x": 2})
    assert asked(engine.state(graph, thread())) == ["two?"]
    assert engine.resume(graph, 2, thread())["log"] == ["a", 1, 2]


def test_several_questions_of_which_some_are_still_due(engine, saver, ran, caplog):
    """The nodes of two branches ask; an edit leads only to one of them."""
    graph = builder(
        State,
        {"s": ran.step("s"), "a": ran.asks("a"), "b": ran.asks("b")},
        (START, "s"),
    )
    graph.add_conditional_edges("s", lambda state: state["x"], ["a", "b"])
    graph = graph.compile(saver)
    paused = engine.invoke(graph, {"x": ["a", "b"]}, thread())
    engine.update(graph, thread(), {"x": ["b"]})
    state = engine.state(graph, thread())
    assert (state.next, ids(state)) == (("b",), {"b?": ids(paused)["b?"]})
    assert len(caplog.records) == 1
    assert engine.resume(graph, "B", thread())["log"] == ["s", ("b", "B")]


def test_a_static_pause_that_is_still_due_stays(engine, saver, ran):
    graph = after_a(ran, saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"x": 2})
    assert engine.state(graph, thread()).interrupts == paused.interrupts
    done = engine.invoke(graph, None, thread())
    assert (done.status, done["x"], ran) == ("completed", 2, ["a", "b"])


def test_a_failed_thread_goes_on_from_an_edit(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.fails("b", 1), c=ran.step("c"))
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"log": ["for b"]}, "b")
    state = engine.state(graph, thread())
    assert (state.next, [task.error for task in state.tasks]) == (("c",), [None])
    assert engine.invoke(graph, None, thread())["log"] == ["a", "for b", "c"]
    assert ran == ["a", "b", "c"]


def test_a_failed_node_may_run_again_on_an_edited_state(engine, saver, ran):
    def picky(state):
        ran.append("picky")
        if state["x"] < 0:
            raise ValueError("negative")
        return {"log": ["picky"]}

    graph = chain(State, saver=saver, a=ran.step("a"), picky=picky)
    with pytest.raises(ValueError, match="negative"):
        engine.invoke(graph, {"x": -1}, thread())
    engine.update(graph, thread(), {"x": 1})
    assert engine.invoke(graph, None, thread())["log"] == ["a", "picky"]
    assert ran == ["a", "picky", "picky"]


# ── inside a nested graph ────────────────────────────────────────────────────────────────────────────────────


def nested(ran: Ran, saver: Any) -> Any:
    inner = chain(State, b1=ran.step("b1"), b2=ran.asks("b2"), b3=ran.step("b3"))
    return chain(State, saver=saver, a=ran.step("a"), sub=inner, z=ran.step("z"))


def below(engine: Any, graph: Any) -> Any:
    return engine.state(graph, thread()).tasks[0].state


def test_an_edit_inside_a_nested_graph_keeps_a_question_that_is_due(engine, saver, ran):
    graph = nested(ran, saver)
    paused = engine.invoke(graph, {"log": ["in"]}, thread())
    place = below(engine, graph)
    config = engine.update(graph, place, {"log": ["edit"]})
    assert config["configurable"]["checkpoint_ns"] == place["configurable"]["checkpoint_ns"]
    assert engine.state(graph, place).values["log"] == ["in", "a", "b1", "edit"]
    assert engine.state(graph, thread()).interrupts == paused.interrupts
    done = engine.resume(graph, "yes", thread())
    assert done["log"] == ["in", "a", "b1", "edit", ("b2", "yes"), "b3", "z"]
    assert ran == ["a", "b1", "b2", "b2", "b3", "z"]


def test_an_edit_that_answers_for_a_nested_node_closes_the_question_around_it(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    place = below(engine, graph)
    engine.update(graph, place, {"log": ["for b2"]}, "b2")
    state = engine.state(graph, thread(), subgraphs=True)
    assert (state.next, state.interrupts, asked(state.tasks[0])) == (("sub",), (), [])
    assert state.tasks[0].state.next == ("b3",)
    with pytest.raises(NothingToResumeError):
        engine.resume(graph, "yes", thread())
    done = engine.invoke(graph, None, thread())
    assert done["log"] == ["in", "a", "b1", "for b2", "b3", "z"]
    assert ran == ["a", "b1", "b2", "b3", "z"]


def test_the_question_around_is_closed_also_after_an_edit_of_the_graph_around(engine, saver, ran):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.update(graph, thread(), {"x": 2})
    place = below(engine, graph)
    assert asked(engine.state(graph, thread())) == ["b2?"]
    engine.update(graph, place, {"log": ["for b2"]}, "b2")
    assert asked(engine.state(graph, thread())) == []
    done = engine.invoke(graph, None, thread())
    assert done["log"] == ["in", "a", "b1", "for b2", "b3", "z"]


def test_an_edit_deep_inside_closes_the_questions_of_every_graph_around(engine, saver, ran):
    inner = chain(State, one=ran.asks("one"), two=ran.step("two"))
    graph = chain(State, saver=saver, outer=chain(State, inner=inner), z=ran.step("z"))
    engine.invoke(graph, {"x": 1}, thread())
    middle = engine.state(graph, thread(), subgraphs=True).tasks[0].state
    place = middle.tasks[0].state.config["configurable"]
    engine.update(graph, {"configurable": {k: place[k] for k in ("thread_id", "checkpoint_ns")}}, None, "one")
    state = engine.state(graph, thread(), subgraphs=True)
    while state.tasks[0].state is not None:
        assert state.interrupts == ()
        state = state.tasks[0].state
    assert (state.interrupts, state.next) == ((), ("two",))
    assert engine.invoke(graph, None, thread())["log"] == ["two", "z"]


def test_an_edit_in_one_of_two_nested_graphs_leaves_the_other_alone(engine, saver, ran):
    def sub(name):
        return chain(State, ask=ran.asks(name), end=ran.step(f"{name} end"))

    graph = fan(State, saver=saver, a=sub("a"), b=sub("b"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, below(engine, graph), {"log": ["for a"]}, "ask")
    assert asked(engine.state(graph, thread())) == ["b?"]
    done = engine.resume(graph, "B", thread())
    assert done["log"] == ["for a", "a end", ("b", "B"), "b end"]
    assert ran.count("a") == 1


def test_the_whole_nested_graph_may_be_stood_in_for(engine, saver, ran, caplog):
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.update(graph, thread(), {"log": ["for sub"]}, "sub")
    assert len(caplog.records) == 1
    done = engine.invoke(graph, None, thread())
    assert (done["log"], ran) == (["in", "a", "for sub", "z"], ["a", "b1", "b2", "z"])


def test_an_edit_before_a_nested_graph_leaves_it_where_it_was(engine, saver, ran):
    """The nested graph has taken its input; the graph around doesn't reach into it."""
    graph = nested(ran, saver)
    engine.invoke(graph, {"log": ["in"], "x": 1}, thread())
    engine.update(graph, thread(), {"x": 2})
    assert engine.state(graph, below(engine, graph)).values["x"] == 1
    done = engine.resume(graph, "yes", thread())
    assert (done["x"], done["log"]) == (2, ["in", "a", "b1", ("b2", "yes"), "b3", "z"])


# ── what fails changes nothing ───────────────────────────────────────────────────────────────────────────────


class Strict(BaseModel):
    n: int = 0
    log: Annotated[list[str], operator.add] = []


@pytest.mark.parametrize("values", [{"n": "x"}, {"n": None}, {"log": [1]}, {"nope": 1}], ids=str)
def test_what_the_state_cannot_take_is_refused(engine, saver, values):
    """Rules 3 and 4."""
    graph = chain(Strict, saver=saver, a=wrote("n", 1))
    engine.invoke(graph, {"n": 0}, thread())
    history = saved(engine, graph)
    with pytest.raises(InvalidUpdateError) as caught:
        engine.update(graph, thread(), values)
    (key,) = values
    assert (caught.value.node, caught.value.key) == ("a", key)
    assert saved(engine, graph) == history
    assert engine.invoke(graph, {"n": 5}, thread()).value == Strict(n=1)


def test_what_can_be_coerced_is_stored_coerced(engine, saver):
    graph = chain(Strict, saver=saver, a=wrote("n", 1))
    engine.invoke(graph, {"n": 0}, thread())
    engine.update(graph, thread(), {"n": "7"})
    assert engine.state(graph, thread()).values["n"] == 7


def test_a_reducer_that_raises_changes_nothing(engine, saver, ran):
    def picky(old, new):
        if "bad" in new:
            raise ValueError("refused")
        return old + new

    class Picky(TypedDict, total=False):
        log: Annotated[list[str], picky]
        x: int

    graph = chain(Picky, saver=saver, a=wrote("log", ["a"]), b=wrote("log", ["b"]))
    engine.invoke(graph, {"log": []}, thread())
    history = saved(engine, graph)
    with pytest.raises(ValueError, match="refused") as caught:
        engine.update(graph, thread(), {"x": 5, "log": ["bad"]}, "a")
    assert any("'log'" in note and "'a'" in note for note in caught.value.__notes__)
    assert saved(engine, graph) == history
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == ["a", "b", "a", "b"], (
        "nothing of it is remembered"
    )


def test_a_router_that_raises_changes_nothing(engine, saver, ran):
    def route(state):
        if state["x"] < 0:
            raise ValueError("no way")
        return "b"

    graph = builder(State, {"a": ran.step("a"), "b": ran.asks("b")}, (START, "a"))
    graph = graph.add_conditional_edges("a", route, ["b"]).compile(saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    history = saved(engine, graph)
    with pytest.raises(ValueError, match="no way"):
        engine.update(graph, thread(), {"x": -1, "log": ["edit"]})
    assert saved(engine, graph) == history
    assert engine.state(graph, thread()).interrupts == paused.interrupts
    done = engine.resume(graph, "yes", thread())
    assert (done["x"], done["log"]) == (1, ["a", ("b", "yes")])


@pytest.mark.parametrize("target", ["nope", Send("nope", 1)], ids=str)
def test_a_route_that_leads_nowhere_changes_nothing(engine, saver, ran, target):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    history = saved(engine, graph)
    with pytest.raises(RoutingError, match="nope"):
        engine.update(graph, thread(), Command(update={"x": 2}, goto=target), "b")
    assert saved(engine, graph) == history


def test_a_router_that_asks_is_refused(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"))
    graph = graph.add_conditional_edges("a", lambda state: interrupt("where?"), ["b"]).compile(saver)
    with pytest.raises(InvalidUpdateError, match="router"):
        engine.update(graph, thread(), {"x": 1}, "a")
    assert saved(engine, graph) == []


def test_the_supersteps_before_one_that_fails_were_saved(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    with pytest.raises(InvalidUpdateError):
        engine.bulk(graph, thread(), [[({"x": 1}, "a")], [({"nope": 2}, "b")], [({"x": 3}, "b")]])
    assert [(one.values["x"], one.next) for one in saved(engine, graph)] == [(1, ("b",))]


def test_a_command_for_a_graph_around_is_refused(engine, saver, ran):
    graph = after_a(ran, saver)
    with pytest.raises(InvalidUpdateError, match="enclosing graph"):
        engine.update(graph, thread(), Command(graph=Command.PARENT, update={"x": 1}), "a")
    assert saved(engine, graph) == []


def test_a_value_that_cannot_be_stored_changes_nothing(engine, saver, ran):
    graph = after_a(ran, saver)
    engine.invoke(graph, {"x": 1}, thread())
    history = saved(engine, graph)
    with pytest.raises(SerializationError, match="file"):
        engine.update(graph, thread(), {"log": ["edit"], "x": [{"file": object()}]})
    assert saved(engine, graph) == history
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b"]


# ── an older checkpoint ──────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_of_an_older_checkpoint_is_a_fork(engine, saver, ran):
    """Case C93: history is never rewritten."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    engine.invoke(graph, {"log": ["in"]}, thread())
    history = saved(engine, graph)
    old = history[2]
    assert old.next == ("b",)
    config = engine.update(graph, old.config, {"log": ["edit"]})
    state = engine.state(graph, thread())
    assert (state.config, state.parent_config, state.next) == (config, old.config, ("b",))
    assert state.values["log"] == ["in", "a", "edit"]
    assert saved(engine, graph)[1:] == history
    ran.clear()
    assert engine.invoke(graph, None, thread())["log"] == ["in", "a", "edit", "b", "c"]
    assert ran == ["b", "c"]
    assert saved(engine, graph)[3:] == history


def test_an_edit_of_the_first_checkpoint_runs_it_all_again(engine, saver, ran):
    """Case C93."""
    graph = chain(State, saver=saver, agent=ran.step("agent"), end=ran.step("end"))
    engine.invoke(graph, {"log": ["whether in Naples?"]}, thread())
    first = saved(engine, graph)[-1]
    engine.update(graph, first.config, {"log": Overwrite(["i'm bartolo"])})
    ran.clear()
    assert engine.invoke(graph, None, thread())["log"] == ["i'm bartolo", "agent", "end"]
    assert ran == ["agent", "end"]


def test_a_fork_by_an_edit_asks_again(engine, saver, ran):
    """Rule 33: what was answered later isn't known at the older checkpoint."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    first = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    old = next(one for one in saved(engine, graph) if one.next == ("b",))
    engine.update(graph, old.config, {"x": 2})
    again = engine.invoke(graph, None, thread())
    assert asked(again) == ["b?"]
    assert ids(again)["b?"] != ids(first)["b?"], "an answer to the old one can't be meant"
    done = engine.resume(graph, "second", thread())
    assert (done["x"], done["log"]) == (2, ["a", ("b", "second"), "c"])


# ── what is checked, and what routers may do ─────────────────────────────────────────────────────────────────


def test_an_edit_is_refused_where_the_model_refuses_the_state(engine, saver):
    class Limited(BaseModel):
        low: int = 0
        high: int = 9

        @model_validator(mode="after")
        def ordered(self):
            assert self.low <= self.high, "low is above high"
            return self

    graph = builder(Limited, {"a": nothing}, (START, "a")).compile(saver)
    engine.invoke(graph, {"low": 1}, thread())
    with pytest.raises(InvalidUpdateError, match="low is above high"):
        engine.update(graph, thread(), {"low": 10})
    assert engine.state(graph, thread()).values["low"] == 1
    engine.update(graph, thread(), {"low": 10, "high": 11})
    assert engine.state(graph, thread()).values == {"low": 10, "high": 11}


def routing(ran: Ran, saver: Any, route: Any, *, strict: bool = True) -> Any:
    graph = StateGraph(State, strict=strict).add_node("a", ran.step("a")).add_node("b", ran.step("b"))
    graph.add_edge(START, "a").add_conditional_edges("a", route)
    return graph.compile(saver)


def test_a_router_may_write_while_the_state_is_edited(engine, saver, ran):
    graph = routing(ran, saver, lambda state: Command(goto="b", update={"log": ["route"]}))
    engine.update(graph, thread(), {"log": ["edit"]}, "a")
    state = engine.state(graph, thread())
    assert (state.values["log"], state.next) == (["edit", "route"], ("b",))
    assert engine.invoke(graph, None, thread())["log"] == ["edit", "route", "b"]


def test_a_lenient_router_that_leads_nowhere_is_said(engine, saver, ran, caplog):
    graph = routing(ran, saver, lambda state: "nowhere", strict=False)
    engine.update(graph, thread(), {"log": ["edit"]}, "a")
    assert engine.state(graph, thread()).next == ()
    assert "nowhere" in caplog.text


def test_the_end_drops_what_cannot_be_merged_and_says_so(engine, saver, ran, caplog):
    graph = fan(State, saver=saver, a=wrote("x", 1), b=wrote("x", 2), c=ran.asks("c"))
    engine.invoke(graph, {"log": ["in"]}, thread())
    engine.update(graph, thread(), None, END)
    state = engine.state(graph, thread())
    assert (state.values, state.next, state.interrupts) == ({"log": ["in"]}, (), ())
    assert "can't be merged, and is dropped" in caplog.text
