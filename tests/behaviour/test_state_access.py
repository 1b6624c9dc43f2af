"""Looking at threads: the state, its history, what differs, what is due and what was asked."""

import asyncio
import operator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from juncture import (
    END,
    START,
    Command,
    ConfigError,
    InvalidUpdateError,
    JunctureError,
    Send,
    StateGraph,
)
from juncture.errors import CheckpointNotFoundError, ThreadNotFoundError
from juncture.types import StateSnapshot
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.behaviour.ran import Ran, State, asked, ids, named

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def ran():
    return Ran()


# ── one state ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_state_of_a_finished_thread(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    before = datetime.now(UTC)
    result = engine.invoke(graph, {"log": ["in"], "x": 1}, thread(metadata={"who": "me"}))
    state = engine.state(graph, thread())
    assert state.values == {"log": ["in", "a", "b"], "x": 1}
    assert (state.next, state.tasks, state.interrupts) == ((), (), ())
    assert state.metadata == {"source": "loop", "step": 2, "run_id": result.run_id, "who": "me"}
    assert state.config["configurable"] == {
        "thread_id": "t",
        "checkpoint_ns": "",
        "checkpoint_id": result.checkpoint.checkpoint_id,
    }
    assert state.parent_config is not None
    assert named(state.parent_config) == named(engine.history(graph, thread())[1].config)
    assert before <= datetime.fromisoformat(state.created_at) <= datetime.now(UTC)


def test_a_thread_may_be_named_by_its_id_alone(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"))
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.state(graph, "t") == engine.state(graph, thread())
    assert engine.history(graph, "t") == engine.history(graph, thread())


def test_looking_runs_nothing_and_changes_nothing(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"x": 1}, thread())
    ran.clear()
    first = engine.state(graph, thread(), subgraphs=True)
    history = engine.history(graph, thread())
    first.values["log"].append("mine")
    history[0].values["log"].append("mine")
    assert engine.state(graph, thread()).values == {"log": ["a"], "x": 1}
    assert ran == []
    assert engine.resume(graph, "yes", thread())["log"] == ["a", ("b", "yes")]


def test_an_unknown_thread_is_empty(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    state = engine.state(graph, thread("nobody"))
    assert state == StateSnapshot({}, (), state.config, None, None, None, (), ())
    assert state.config["configurable"]["thread_id"] == "nobody"
    assert "checkpoint_id" not in state.config["configurable"]
    assert engine.history(graph, thread("nobody")) == []


def test_the_state_between_two_steps(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, interrupt_before=["b"])
    result = engine.invoke(graph, {"x": 1}, thread())
    state = engine.state(graph, thread())
    assert (state.values, state.next) == ({"log": ["a"], "x": 1}, ("b",))
    (task,) = state.tasks
    assert (task.name, task.path, task.error, task.result, task.state) == (
        "b",
        ("edge", "b"),
        None,
        None,
        None,
    )
    assert task.interrupts == state.interrupts == result.interrupts
    assert [(q.node, q.when) for q in state.interrupts] == [("b", "before")]


def test_a_pause_after_a_node_is_shown_as_open(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, interrupt_after=["a"])
    result = engine.invoke(graph, {"x": 1}, thread())
    state = engine.state(graph, thread())
    assert [(q.node, q.when) for q in state.interrupts] == [("a", "after")]
    assert (state.interrupts, state.next) == (result.interrupts, ("b",))
    engine.invoke(graph, None, thread())
    assert engine.state(graph, thread()).interrupts == ()


def test_tasks_that_have_ended_show_as_applied_and_only_the_others_are_next(engine, saver, ran):
    graph = builder(
        State,
        {"a": ran.step("a"), "b": ran.asks("b"), "c": ran.step("c"), "d": ran.step("d")},
        *[(START, name) for name in "abc"],
        (["a", "b", "c"], "d"),
    ).compile(saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert paused["log"] == []
    state = engine.state(graph, thread())
    assert (state.values["log"], state.next) == (["a", "c"], ("b",))
    assert [(t.name, t.result) for t in state.tasks] == [
        ("a", {"log": ["a"]}),
        ("b", None),
        ("c", {"log": ["c"]}),
    ]
    assert [asked(task) for task in state.tasks] == [[], ["b?"], []]
    assert asked(state) == ["b?"]
    exactly = engine.state(graph, state.config)
    assert (exactly.values, exactly.next) == ({"log": [], "x": 1}, ("a", "b", "c")), (
        "what was committed there"
    )


def test_a_question_that_was_answered_is_no_longer_open(engine, saver, ran):
    """LangGraph lists it until its step is complete."""
    graph = fan(State, saver=saver, a=ran.asks("a"), b=ran.asks("b"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["a?"]: 1}, thread())
    state = engine.state(graph, thread())
    assert asked(state) == ["b?"]
    assert [(task.name, asked(task)) for task in state.tasks] == [("a", []), ("b", ["b?"])]
    assert (state.next, state.values["log"]) == (("b",), [("a", 1)])


def test_an_error_is_shown_as_text_with_its_task(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.step("a"), b=ran.fails("b", 1))
    with pytest.raises(RuntimeError, match="b failed"):
        engine.invoke(graph, {"x": 1}, thread())
    state = engine.state(graph, thread())
    errors = {task.name: task.error for task in state.tasks}
    assert errors["a"] is None
    assert "RuntimeError" in errors["b"]
    assert "b failed" in errors["b"]
    assert "b" in state.next
    engine.invoke(graph, None, thread())
    assert engine.state(graph, thread()).tasks == ()


def test_writes_that_cannot_be_merged_do_not_keep_anybody_from_looking(engine, saver, ran):
    """The step will fail with them; until then something else of it waits for an answer."""
    graph = fan(State, saver=saver, a=wrote("x", 1), b=wrote("x", 2), c=ran.asks("c"))
    paused = engine.invoke(graph, {"log": ["in"]}, thread())
    state = engine.state(graph, thread())
    assert (state.values, state.next, state.interrupts) == ({"log": ["in"]}, ("c",), paused.interrupts)
    with pytest.raises(InvalidUpdateError, match="'x'"):
        engine.resume(graph, "yes", thread())
    assert engine.state(graph, thread()).values["log"][:1] == ["in"]


def test_sends_are_tasks_in_the_order_sent(engine, saver, ran):
    def work(item):
        return {"log": [item["n"]]}

    graph = builder(State, {"plan": nothing, "work": work, "end": nothing}, (START, "plan"), ("work", "end"))
    graph.add_conditional_edges("plan", lambda state: [Send("work", {"n": n}) for n in (3, 1, 2)], ["work"])
    graph = graph.compile(saver, interrupt_before=["work"])
    engine.invoke(graph, {"x": 1}, thread())
    state = engine.state(graph, thread())
    assert [task.path for task in state.tasks] == [
        ("send", 0, "work"),
        ("send", 1, "work"),
        ("send", 2, "work"),
    ]
    assert state.next == ("work",)
    assert len({task.id for task in state.tasks}) == 3
    engine.invoke(graph, None, thread())
    assert engine.state(graph, thread()).values["log"] == [3, 1, 2]


def test_a_deferred_node_is_next_when_nothing_else_is(engine, saver, ran):
    graph = StateGraph(State)
    graph.add_node("a", ran.step("a"))
    graph.add_node("late", ran.asks("late"), defer=True)
    graph.add_edge(START, "a").add_edge("a", "late")
    graph = graph.compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.state(graph, thread()).next == ("late",)
    assert asked(engine.state(graph, thread())) == ["late?"]


@dataclass
class Data:
    x: int = 0
    log: Annotated[list[str], operator.add] = field(default_factory=list)


class Model(BaseModel):
    x: int = 0
    log: Annotated[list[str], operator.add] = []


@pytest.mark.parametrize("schema", [Data, Model])
def test_values_are_a_dict_whatever_the_schema_is(engine, saver, schema):
    graph = chain(schema, saver=saver, a=wrote("log", ["a"]))
    engine.invoke(graph, {"x": 1, "log": ["in"]}, thread())
    assert engine.state(graph, thread()).values == {"x": 1, "log": ["in", "a"]}


def test_a_state_that_is_one_value_is_shown_as_that_value(engine, saver):
    graph = chain(Annotated[list, operator.add], saver=saver, a=lambda state: ["a"])
    engine.invoke(graph, ["in"], thread())
    assert engine.state(graph, thread()).values == ["in", "a"]
    assert engine.history(graph, thread())[-1].values == ["in"]


def test_private_keys_are_shown_too(engine, saver):
    class Output(TypedDict, total=False):
        log: list[Any]

    graph = StateGraph(State, output_schema=Output).add_node("a", wrote("y", "private")).add_edge(START, "a")
    graph = graph.compile(saver)
    assert "y" not in engine.invoke(graph, {"x": 1}, thread())
    assert engine.state(graph, thread()).values["y"] == "private"


def test_a_state_without_a_schema_is_shown(engine, saver):
    graph = StateGraph().add_node("a", wrote("any", {"thing": (1, 2)})).add_edge(START, "a").compile(saver)
    engine.invoke(graph, {"given": {1, 2}}, thread())
    assert engine.state(graph, thread()).values == {"given": {1, 2}, "any": {"thing": (1, 2)}}


def test_another_graph_object_on_the_same_saver_sees_the_same(engine, saver, ran):
    """As another process does."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"x": (1, {2})}, thread())
    again = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    assert engine.state(again, thread()) == engine.state(graph, thread())
    assert engine.history(again, thread()) == engine.history(graph, thread())


def test_a_checkpoint_of_another_version_of_the_graph_is_shown(engine, saver, ran):
    """Only running it is refused."""
    old = chain(State, saver=saver, a=ran.step("a"), gone=ran.asks("gone"))
    engine.invoke(old, {"x": 1}, thread())
    new = chain(State, saver=saver, a=ran.step("a"))
    state = engine.state(new, thread())
    assert (state.values, state.next, asked(state)) == ({"log": ["a"], "x": 1}, ("gone",), ["gone?"])
    with pytest.raises(ConfigError, match="'gone'"):
        engine.resume(new, "yes", thread())


# ── the history ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_history_is_every_step_newest_first(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    result = engine.invoke(graph, {"log": ["in"]}, thread())
    history = engine.history(graph, thread())
    assert [one.metadata["step"] for one in history] == [2, 1, 0]
    assert [one.metadata["source"] for one in history] == ["loop", "loop", "input"]
    assert {one.metadata["run_id"] for one in history} == {result.run_id}
    assert [one.values["log"] for one in history] == [["in", "a", "b"], ["in", "a"], ["in"]]
    assert [one.next for one in history] == [(), ("b",), ("a",)]
    assert [one.parent_config for one in history] == [history[1].config, history[2].config, None]
    assert history[0] == engine.state(graph, thread())
    assert sorted((named(one.config) for one in history), reverse=True) == [
        named(one.config) for one in history
    ]


def test_each_state_of_the_history_can_be_had_by_its_config(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "yes", thread())
    for one in engine.history(graph, thread()):
        assert engine.state(graph, one.config)._replace(tasks=()) == one._replace(tasks=())


def test_the_history_of_several_runs(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"))
    first = engine.invoke(graph, {"log": ["one"]}, thread())
    second = engine.invoke(graph, {"log": ["two"]}, thread())
    history = engine.history(graph, thread())
    assert [one.values["log"] for one in history] == [
        ["one", "a", "two", "a"],
        ["one", "a", "two"],
        ["one", "a"],
        ["one"],
    ]
    assert [one.metadata["run_id"] for one in history] == [second.run_id] * 2 + [first.run_id] * 2
    assert [one.metadata["step"] for one in history] == [3, 2, 1, 0]


def test_an_old_state_keeps_what_was_saved_about_its_tasks(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.asks("a"), b=ran.step("b"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "yes", thread())
    (old,) = engine.history(graph, thread(), limit=1, before=engine.history(graph, thread())[1].config)
    (task,) = old.tasks
    assert (old.next, task.name, task.interrupts) == (("a",), "a", ()), "it was answered beside this state"


def test_limit_before_and_filter(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    first = engine.invoke(graph, {"x": 1}, thread(metadata={"turn": 1, "user": "me"}))
    engine.invoke(graph, {"x": 2}, thread(metadata={"turn": 2, "user": "me"}))
    everything = engine.history(graph, thread())
    assert len(everything) == 6

    assert engine.history(graph, thread(), limit=2) == everything[:2]
    assert engine.history(graph, thread(), limit=0) == []
    assert engine.history(graph, thread(), limit=99) == everything
    assert engine.history(graph, thread(), before=everything[1].config) == everything[2:]
    assert engine.history(graph, thread(), before=everything[-1].config) == []
    assert engine.history(graph, thread(), before=everything[1].config, limit=1) == everything[2:3]
    assert engine.history(graph, thread(), filter={"source": "input"}) == [everything[2], everything[5]]
    assert engine.history(graph, thread(), filter={"turn": 1}) == everything[3:]
    assert engine.history(graph, thread(), filter={"turn": 1, "step": 1}) == [everything[4]]
    assert engine.history(graph, thread(), filter={"run_id": first.run_id}, limit=1) == [everything[3]]
    assert engine.history(graph, thread(), filter={"turn": "1"}) == []
    assert engine.history(graph, thread(), filter={"nope": None}) == []
    assert engine.history(graph, thread(), filter={}) == everything
    assert (
        engine.history(graph, thread(), filter={"turn": 1, "user": "me"}, before=everything[4].config)
        == everything[5:]
    )


@pytest.mark.parametrize("name", ["a' OR 1=1 --", "$.turn", "turn%", "metadata", "\x00", "*", "__class__"])
def test_filters_are_data(engine, saver, ran, name):
    """Rule 35: a filter's key and value are compared as they are."""
    graph = chain(State, saver=saver, a=ran.step("a"))
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.history(graph, thread(), filter={name: 1}) == []
    assert engine.history(graph, thread(), filter={"source": name}) == []


def test_a_history_without_values(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"x": 1}, thread())
    listed = engine.history(graph, thread(), values=False)
    full = engine.history(graph, thread())
    assert [one.values for one in listed] == [{}, {}]
    assert [one.next for one in listed] == [one.next for one in full] == [("b",), ("a",)]
    assert [(one.config, one.metadata, one.created_at) for one in listed] == [
        (one.config, one.metadata, one.created_at) for one in full
    ]
    assert asked(listed[0]) == ["b?"]


def test_a_long_history_is_listed_whole(engine, saver):
    """It is read in pages."""
    graph = StateGraph(State).add_node("a", lambda state: {"log": [state["x"]], "x": state["x"] + 1})
    graph.add_edge(START, "a").add_conditional_edges(
        "a", lambda state: "a" if state["x"] < 150 else END, ["a", END]
    )
    graph = graph.compile(saver)
    engine.invoke(graph, {"x": 0}, thread())
    history = engine.history(graph, thread())
    assert [one.metadata["step"] for one in history] == list(range(150, -1, -1))
    assert [one.values["log"] for one in history] == [list(range(n)) for n in range(150, -1, -1)]
    assert engine.history(graph, thread(), limit=100) == history[:100]
    assert engine.history(graph, thread(), filter={"step": 3}) == [history[-4]]


def test_a_history_may_be_left_early(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"x": 1}, thread())
    expected = engine.state(graph, thread())

    async def first_one():
        listed = graph.aget_state_history(thread())
        try:
            return await anext(listed)
        finally:
            await listed.aclose()

    assert next(graph.get_state_history(thread())) == expected
    assert asyncio.run(first_one()) == expected


def test_history_is_immutable(engine, saver, ran):
    """Rule 28: what comes later, in place or not, changes nothing that an earlier checkpoint shows."""

    def change(state):
        state["x"]["deep"].append("changed in place")
        return {"x": {"deep": [*state["x"]["deep"]]}, "log": ["change"]}

    graph = chain(State, saver=saver, a=change)
    given = {"deep": ["given"]}
    engine.invoke(graph, {"x": given}, thread())
    given["deep"].append("changed by the caller")
    first = engine.history(graph, thread())
    assert [one.values["x"] for one in first] == [
        {"deep": ["given", "changed in place"]},
        {"deep": ["given"]},
    ]
    engine.invoke(graph, {"log": ["again"]}, thread())
    engine.update(graph, thread(), {"x": "edited"})
    engine.invoke(graph, None, first[1].config)
    assert engine.history(graph, thread())[-2:] == first


# ── nested graphs ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_state_of_a_nested_graph(engine, saver, ran):
    inner = chain(State, b1=ran.step("b1"), b2=ran.asks("b2"))
    graph = chain(State, saver=saver, a=ran.step("a"), sub=inner)
    engine.invoke(graph, {"log": ["in"]}, thread())
    (task,) = engine.state(graph, thread()).tasks
    assert (task.name, asked(task)) == ("sub", ["b2?"])
    assert task.state["configurable"]["thread_id"] == "t"
    below = engine.state(graph, task.state)
    assert (below.values["log"], below.next, asked(below)) == (["in", "a", "b1"], ("b2",), ["b2?"])
    assert below.config["configurable"]["checkpoint_ns"] == task.state["configurable"]["checkpoint_ns"]
    (seen,) = engine.state(graph, thread(), subgraphs=True).tasks
    assert seen.state == below
    history = engine.history(graph, task.state)
    assert [one.values["log"] for one in history] == [["in", "a", "b1"], ["in", "a"]]
    assert history[0]._replace(tasks=()) == below._replace(tasks=())


@pytest.mark.parametrize("depth", [2, 3])
def test_states_of_graphs_nested_deeper(engine, saver, ran, depth):
    graph = chain(State, leaf=ran.asks("leaf"))
    for _ in range(depth - 1):
        graph = chain(State, sub=graph)
    graph = chain(State, saver=saver, sub=graph)
    engine.invoke(graph, {"x": 1}, thread())
    state = engine.state(graph, thread(), subgraphs=True)
    for level in range(depth):
        assert (state.next, asked(state)) == (("sub",), ["leaf?"])
        state = state.tasks[0].state
        assert len(state.config["configurable"]["checkpoint_ns"].split("|")) == level + 1
    assert (state.next, asked(state)) == (("leaf",), ["leaf?"])


def test_a_nested_graph_that_has_not_begun_has_no_state(engine, saver, ran):
    inner = chain(State, b=ran.step("b"))
    graph = builder(State, {"a": ran.step("a"), "sub": inner}, (START, "a"), ("a", "sub"))
    graph = graph.compile(saver, interrupt_before=["sub"])
    engine.invoke(graph, {"x": 1}, thread())
    (task,) = engine.state(graph, thread(), subgraphs=True).tasks
    assert (task.name, task.state) == ("sub", None)


def test_states_of_parallel_nested_graphs(engine, saver, ran):
    graph = fan(
        State,
        saver=saver,
        a=chain(State, one=ran.asks("a")),
        b=chain(State, one=ran.step("b"), two=ran.asks("b2")),
    )
    engine.invoke(graph, {"x": 1}, thread())
    a, b = engine.state(graph, thread(), subgraphs=True).tasks
    assert (a.state.next, asked(a.state), b.state.next, asked(b.state)) == (
        ("one",),
        ["a?"],
        ("two",),
        ["b2?"],
    )
    assert b.state.values["log"] == ["b"]


def test_an_old_state_shows_what_a_nested_graph_remembered_then(engine, saver):
    """Rule 28: what it did later changes nothing of what an earlier checkpoint shows."""

    class Inner(TypedDict, total=False):
        x: Any
        n: int

    def count(state):
        return {"n": state.get("n", 0) + 1}

    inner = builder(Inner, {"count": count, "end": nothing}, (START, "count"), ("count", "end"))
    graph = chain(State, saver=saver, sub=inner.compile(checkpointer=True), z=nothing)
    for _ in range(3):
        engine.invoke(graph, {"x": 0}, thread())
    before = [one for one in engine.history(graph, thread()) if one.next == ("sub",)]
    states = [engine.state(graph, one.config, subgraphs=True).tasks[0].state for one in before]
    assert [state and state.values.get("n") for state in states] == [2, 1, None]


@pytest.mark.parametrize("namespace", ["nope:1", "sub:99", "a:1", "sub:1|nope:1"])
def test_an_unknown_namespace_is_refused_or_empty(engine, saver, ran, namespace):
    graph = chain(State, saver=saver, a=ran.step("a"), sub=chain(State, b=ran.asks("b")))
    engine.invoke(graph, {"x": 1}, thread())
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}
    if namespace == "sub:99":  # a nested graph of ours that never ran there
        assert engine.state(graph, config).metadata is None
        return
    for look in (engine.state, engine.history):
        with pytest.raises(ConfigError, match=r"Subgraph \w+ not found") as caught:
            look(graph, config)
        assert namespace in str(caught.value)


# ── differences ──────────────────────────────────────────────────────────────────────────────────────────────


def test_what_differs_between_two_checkpoints(engine, saver):
    graph = StateGraph().add_node(
        "a", lambda state: Command(update={"same": (1, 2), "new": 1, "old": 2, "number": 1.0})
    )
    graph = graph.add_edge(START, "a").compile(saver)
    engine.invoke(graph, {"same": (1, 2), "old": 1, "number": 1}, thread())
    after, before = engine.history(graph, thread())
    found = engine.call(graph.diff, graph.adiff, before.config, after.config)
    assert (found.added, found.removed, found.changed) == (
        {"new": 1},
        {},
        {"old": (1, 2), "number": (1, 1.0)},
    )
    assert [type(value) for value in found.changed["number"]] == [int, float]
    back = engine.call(graph.diff, graph.adiff, after.config, before.config)
    assert (back.added, back.removed, back.changed["old"]) == ({}, {"new": 1}, (2, 1))
    same = engine.call(graph.diff, graph.adiff, after.config, "t")
    assert same == ({}, {}, {})


def test_what_differs_between_two_threads(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    engine.invoke(graph, {"x": 1}, thread("one"))
    engine.invoke(graph, {"x": 2, "y": 3}, thread("two"))
    found = engine.call(graph.diff, graph.adiff, "one", "two")
    assert (found.added, found.removed, found.changed) == ({"y": 3}, {}, {"x": (1, 2)})
    with pytest.raises(ThreadNotFoundError, match="'nobody'"):
        engine.call(graph.diff, graph.adiff, "one", "nobody")


# ── what can't be looked at ──────────────────────────────────────────────────────────────────────────────────


def calls(engine: Any, graph: Any, config: Any) -> dict[str, Any]:
    """Everything that looks at or edits a thread."""
    return {
        "get_state": lambda: engine.state(graph, config),
        "get_state_history": lambda: engine.history(graph, config),
        "update_state": lambda: engine.update(graph, config, {"x": 1}, "a"),
        "bulk_update_state": lambda: engine.bulk(graph, config, [[({"x": 1}, "a")]]),
        "diff": lambda: engine.call(graph.diff, graph.adiff, config, config),
    }


@pytest.mark.parametrize(
    "name", ["get_state", "get_state_history", "update_state", "bulk_update_state", "diff"]
)
def test_a_graph_without_a_saver_says_so(engine, name):
    graph = chain(State, a=nothing)
    with pytest.raises(ConfigError, match="No checkpointer set") as caught:
        calls(engine, graph, thread())[name]()
    assert "compile(checkpointer=" in str(caught.value), "what to do"


@pytest.mark.parametrize("config", [{}, {"configurable": {}}, {"configurable": {"thread_id": None}}], ids=str)
@pytest.mark.parametrize(
    "name", ["get_state", "get_state_history", "update_state", "bulk_update_state", "diff"]
)
def test_a_config_that_names_no_thread_is_refused(engine, name, config):
    graph = chain(State, saver="memory:", a=nothing)
    with pytest.raises(ConfigError, match="thread"):
        calls(engine, graph, config)[name]()


@pytest.mark.parametrize("whose", ["nobody's", "another thread's", "another namespace's"])
def test_a_checkpoint_that_is_not_the_thread_s_is_refused(engine, saver, ran, whose):
    graph = chain(State, saver=saver, a=ran.step("a"), sub=chain(State, b=ran.asks("b")))
    engine.invoke(graph, {"x": 1}, thread("one"))
    engine.invoke(graph, {"x": 1}, thread("two"))
    below = engine.state(graph, thread("two")).tasks[0].state
    foreign = {
        "nobody's": "1f0f0f0f-0000-6000-8000-000000000000",
        "another thread's": named(engine.state(graph, thread("one")).config),
        "another namespace's": named(engine.state(graph, below).config),
    }[whose]
    history = engine.history(graph, thread("two"))
    config = {"configurable": {"thread_id": "two", "checkpoint_id": foreign}}
    ran.clear()
    tries = [
        lambda: engine.state(graph, config),
        lambda: engine.invoke(graph, None, config),
        lambda: engine.resume(graph, "yes", config),
        lambda: engine.update(graph, config, {"x": 2}, "a"),
    ]
    for attempt in tries:
        with pytest.raises(CheckpointNotFoundError, match=f"'two' has no checkpoint '{foreign}'"):
            attempt()
    assert (engine.history(graph, thread("two")), ran) == (history, [])


def test_before_needs_a_checkpoint(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(ConfigError, match="before names no checkpoint"):
        engine.history(graph, thread(), before=thread())


@pytest.mark.parametrize(
    "name",
    [
        "a' OR '1'='1",
        "../../etc",
        "%",
        "_",
        "a/b",
        "a\\b",
        "Ünï",
        "a|b",
        "a:b",
        "*",
        "a\nb",
        " a",
        "a.",
        "CON",
        "x" * 200,
    ],
)
def test_names_of_threads_are_data(engine, saver, ran, name):
    """Rule 35: a thread's id is no pattern, path or statement, and a prefix of another is another."""
    graph = chain(State, saver=saver, a=ran.step("a"))
    others = [name[:-1] or "zzz", name + "-x", name.upper() + "u", "other"]
    for number, other in enumerate(others):
        engine.invoke(graph, {"x": number}, thread(other))
    assert engine.state(graph, thread(name)).metadata is None
    engine.invoke(graph, {"x": "mine"}, thread(name))
    assert engine.state(graph, thread(name)).values["x"] == "mine"
    assert len(engine.history(graph, thread(name))) == 2
    assert [engine.state(graph, thread(other)).values["x"] for other in others] == [0, 1, 2, 3]


def test_errors_are_junctures_own(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    with pytest.raises(JunctureError) as caught:
        engine.state(graph, {"configurable": {"thread_id": "t", "checkpoint_id": "no"}})
    assert "history" in str(caught.value), "what to do"


@pytest.mark.parametrize(
    "before",
    [
        {"thread_id": "other", "checkpoint_id": "x"},
        {"thread_id": "t", "checkpoint_ns": "sub:1", "checkpoint_id": "x"},
    ],
    ids=["thread", "namespace"],
)
def test_a_history_before_a_checkpoint_of_something_else_is_refused(engine, saver, before):
    graph = chain(State, saver=saver, a=nothing)
    engine.invoke(graph, {}, thread())
    with pytest.raises(ConfigError, match=r"before names checkpoint x of thread .* and the history is of"):
        engine.history(graph, thread(), before={"configurable": before})
