"""A checkpoint as users see it."""

from __future__ import annotations

import operator
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

import pytest

from juncture import START, StateGraph
from juncture.engine.interrupts import static_question
from juncture.engine.state import Saved, State, TaskRecord
from juncture.graph.snapshots import (
    config_of,
    due_tasks,
    empty_snapshot,
    is_graph,
    snapshot,
    thread_snapshot,
    when,
)
from juncture.types import Interrupt, Send, StateSnapshot
from tests.unit.engine.script import chain, fan, tables


class Keys(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


ABC = fan("a b c", schema=Keys)


def asks(node: str, name: str = "") -> Interrupt:
    return Interrupt(f"{node}?", name or f"id of {node}", node)


def question(node: str, step: int = 1, name: str = "") -> TaskRecord:
    asked = asks(node, name)
    return TaskRecord(f"{node}:{step}", "question", asked.id, asked)


def answer(node: str, step: int = 1, name: str = "") -> TaskRecord:
    return TaskRecord(f"{node}:{step}", "answer", name or f"id of {node}", "yes")


def done(node: str, *writes: Any, step: int = 1) -> TaskRecord:
    return TaskRecord(f"{node}:{step}", "done", "", (list(writes), (), ()))


def saved(state: State, *records: TaskRecord, **more: Any) -> Saved:
    return Saved("id", "parent", state, list(records), **more)


def shown(
    state: State, *records: TaskRecord, graph: Any = ABC, newest: bool = True, **nested: Any
) -> StateSnapshot:
    return snapshot(graph, saved(state, *records), "t", (), nested=nested, newest=newest)


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tasks_are_those_of_the_plan():
    state = State(4, due=("a", "c"), sends=(Send("c", 1), Send("b", 2)))
    assert [(task.id, task.name, task.path) for task in due_tasks(ABC, state, [])] == [
        ("a:5", "a", ("edge", "a")),
        ("c:5", "c", ("edge", "c")),
        ("c:5.0", "c", ("send", 0, "c")),
        ("b:5.1", "b", ("send", 1, "b")),
    ]


@pytest.mark.parametrize(
    ("branch", "expected"), [("", "a:5"), ("7", "a:5~7"), ("7>9", "a:5~7"), (">9", "a:5")]
)
def test_tasks_have_the_ids_of_their_branch(branch, expected):
    (task,) = due_tasks(ABC, State(4, due=("a",), branch=branch), [])
    assert task.id == expected


def test_what_is_deferred_is_due_once_nothing_else_is():
    assert [task.name for task in due_tasks(ABC, State(1, deferred=("b", "c")), [])] == ["b", "c"]
    assert [task.name for task in due_tasks(ABC, State(1, due=("a",), deferred=("b",)), [])] == ["a"]
    assert [task.name for task in due_tasks(ABC, State(1, sends=(Send("a"),), deferred=("b",)), [])] == ["a"]


@pytest.mark.parametrize(("policy", "expected"), [("arrived", ["c"]), ("all", [])])
def test_a_join_that_takes_what_arrived_is_due_once_nothing_else_is(policy, expected):
    graph = tables("a b c", (START, "a"), (START, "b"), (["a", "b"], "c"), join=policy)
    (join,) = graph.joins
    state = State(1, joins={join: ("a",)})
    assert [task.name for task in due_tasks(graph, state, [])] == expected
    assert due_tasks(graph, State(1, deferred=("b",), joins={join: ("a",)}), [])[0].name == "b", (
        "deferred first"
    )


def test_a_node_that_the_graph_no_longer_has_is_shown():
    state = shown(State(1, {"x": 1}, due=("gone",), joins={"no such join": ("a",)}), question("gone", 2))
    assert (state.next, state.values) == (("gone",), {"x": 1})
    assert [task.interrupts for task in state.tasks] == [(asks("gone"),)]
    only_join = shown(State(1, joins={"no such join": ("a",)}))
    assert only_join.next == ()


# ── what was saved about them ────────────────────────────────────────────────────────────────────────────────


def test_each_task_has_what_was_saved_about_it():
    state = State(0, {"log": []}, due=("a", "b", "c"))
    failed = TaskRecord("c:1", "failed", "", "ValueError('no')")
    a, b, c = shown(state, done("a", ("log", ["a"])), question("b"), failed).tasks
    assert (a.result, a.error, a.interrupts) == ({"log": ["a"]}, None, ())
    assert (b.result, b.error, b.interrupts) == (None, None, (asks("b"),))
    assert (c.result, c.error, c.interrupts) == (None, "ValueError('no')", ())


def test_records_of_other_steps_and_tasks_are_nothing_to_them():
    state = State(1, due=("a",))
    (task,) = shown(state, question("a", 1), done("b", step=2), question("a", 3)).tasks
    assert (task.interrupts, task.result) == ((), None)


@pytest.mark.parametrize("order", [1, -1])
def test_an_answered_question_is_not_open(order):
    state = State(0, due=("a", "b"))
    records = [question("a"), question("b"), answer("a")][::order]
    found = shown(state, *records)
    assert [task.interrupts for task in found.tasks] == [(), (asks("b"),)]
    assert found.interrupts == (asks("b"),)


def test_one_of_several_questions_of_a_task_may_be_answered():
    state = State(0, due=("a",))
    found = shown(state, question("a", name="one"), question("a", name="two"), answer("a", name="one"))
    assert [q.id for q in found.tasks[0].interrupts] == ["two"]


def test_a_task_that_has_ended_has_no_error_and_asks_nothing():
    state = State(0, due=("a",))
    failed = TaskRecord("a:1", "failed", "", "ValueError()")
    (task,) = shown(state, failed, question("a"), answer("a"), done("a")).tasks
    assert (task.error, task.interrupts, task.result) == (None, (), None), "it wrote nothing"


def test_a_task_whose_end_was_taken_back_is_due_again():
    state = State(0, {"log": []}, due=("a", "b"))
    found = shown(state, done("a", ("log", ["a"])), TaskRecord("a:1", "done", "", None))
    assert (found.next, found.values, found.tasks[0].result) == (("a", "b"), {"log": []}, None)


def test_what_an_edit_carried_along_counts():
    state = State(0, {"log": []}, due=("a", "b"), carried=(question("a"), done("b", ("log", ["b"]))))
    found = shown(state)
    assert (found.interrupts, found.next, found.values) == ((asks("a"),), ("a",), {"log": ["b"]})
    assert shown(state, answer("a")).interrupts == ()


def test_static_pauses():
    before = static_question("t", (), 1, "a", "before")
    state = State(0, due=("a", "b"))
    record = TaskRecord("", "paused", before.id, before)
    found = shown(state, record)
    assert [task.interrupts for task in found.tasks] == [(before,), ()]
    assert found.interrupts == (before,)
    passed = shown(state, record, TaskRecord("", "answer", before.id, None))
    assert (passed.interrupts, passed.tasks[0].interrupts) == ((), ())

    after = static_question("t", (), 1, "a", "after")
    state = State(1, due=("b",), paused_after=("a",))
    assert shown(state).interrupts == (after,)
    assert shown(state, TaskRecord("", "answer", after.id, None)).interrupts == ()


def test_pauses_of_a_copied_thread_have_the_ids_of_the_original():
    state = State(1, due=("b",), paused_after=("a",), origin="original")
    assert shown(state).interrupts == (static_question("original", (), 1, "a", "after"),)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_shows_what_ended_as_applied():
    state = State(0, {"log": ["in"], "x": 1}, due=("a", "b", "c"))
    records = [done("c", ("log", ["c"]), ("x", 3)), done("a", ("log", ["a"]))]
    found = shown(state, *records)
    assert (found.values, found.next) == ({"log": ["in", "a", "c"], "x": 3}, ("b",)), "in plan order"
    exactly = shown(state, *records, newest=False)
    assert (exactly.values, exactly.next) == ({"log": ["in"], "x": 1}, ("a", "b", "c"))
    assert state.values == {"log": ["in"], "x": 1}, "the state isn't touched"


def test_several_sends_to_a_node_are_one_name_until_all_have_ended():
    state = State(0, {"log": []}, sends=(Send("a", 1), Send("a", 2)))
    first = TaskRecord("a:1.0", "done", "", ([("log", [1])], (), ()))
    second = TaskRecord("a:1.1", "done", "", ([("log", [2])], (), ()))
    assert (shown(state).next, shown(state, first).next) == (("a",), ("a",))
    found = shown(state, second, first)
    assert (found.next, found.values) == ((), {"log": [1, 2]})


def test_writes_that_cannot_be_merged_do_not_keep_anybody_from_looking():
    """The step will fail with them; until then something else of it may wait for an answer."""
    state = State(0, {"log": [], "x": 0}, due=("a", "b", "c"))
    found = shown(state, done("a", ("x", 1)), done("b", ("x", 2)), question("c"))
    assert (found.next, found.interrupts) == (("c",), (asks("c"),))
    assert found.values == {"log": [], "x": 0}
    assert [task.result for task in found.tasks] == [{"x": 1}, {"x": 2}, None]


def test_values_are_a_copy_of_the_mapping():
    state = State(0, {"x": 1})
    shown(state).values["x"] = 2
    assert state.values == {"x": 1}


def test_a_state_that_is_one_value():
    graph = StateGraph(Annotated[list[Any], operator.add]).add_node("a", lambda s: []).add_edge(START, "a")
    graph = graph.compile().tables
    state = State(0, {"__root__": ["in"]}, due=("a",))
    assert shown(state, graph=graph).values == ["in"]
    assert shown(state, done("a", ("__root__", ["a"])), graph=graph).values == ["in", "a"]
    assert shown(State(0), graph=graph).values is None


# ── where and when ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_snapshot_says_where_and_when_it_is_from():
    one = Saved(
        "c2", "c1", State(3), [], source="update", run_id="r", created_at=0.5, metadata={"who": "me", "n": 1}
    )
    found = snapshot(ABC, one, "t", ("sub:1", "b|c"), nested={}, newest=True)
    assert found.config == {
        "configurable": {"thread_id": "t", "checkpoint_ns": "sub:1|b%7Cc", "checkpoint_id": "c2"}
    }
    assert found.parent_config == {
        "configurable": {"thread_id": "t", "checkpoint_ns": "sub:1|b%7Cc", "checkpoint_id": "c1"}
    }
    assert found.metadata == {"source": "update", "step": 3, "run_id": "r", "who": "me", "n": 1}
    assert found.created_at == "1970-01-01T00:00:00.500000+00:00"
    assert (
        snapshot(ABC, Saved("c1", None, State(), []), "t", (), nested={}, newest=True).parent_config is None
    )


def test_an_empty_snapshot():
    found = empty_snapshot("t", ("sub:1",))
    assert found == (
        {},
        (),
        {"configurable": {"thread_id": "t", "checkpoint_ns": "sub:1"}},
        None,
        None,
        None,
        (),
        (),
    )


def test_a_config_may_name_a_series_only():
    assert config_of("t", (), None) == {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.mark.parametrize("seconds", [0.0, 1.25, 1_900_000_000.000001])
def test_a_time_is_utc(seconds):
    told = datetime.fromisoformat(when(seconds))
    assert told == datetime.fromtimestamp(seconds, UTC)
    assert told.tzinfo is not None


def test_nested_graphs_are_told_by_their_task():
    state = State(0, due=("a", "b"))
    found = snapshot(ABC, saved(state), "t", (), nested={"b:1": {"some": "config"}}, newest=True)
    assert [task.state for task in found.tasks] == [None, {"some": "config"}]


def test_which_nodes_are_graphs():
    inner = StateGraph(Keys).add_node("one", lambda s: None).add_edge(START, "one").compile()
    graph = StateGraph(Keys).add_node("sub", inner).add_node("plain", lambda s: None)
    outer = graph.add_edge(START, "sub").add_edge(START, "plain").compile().tables
    below = is_graph(outer, "sub")
    assert below is not None
    assert set(below.nodes) == {"one"}
    assert is_graph(outer, "plain") is None
    assert is_graph(outer, "nope") is None


# ── in a listing ─────────────────────────────────────────────────────────────────────────────────────────────

LINE = chain("a b", schema=Keys)


@pytest.mark.parametrize(
    ("state", "records", "runs", "status"),
    [
        (State(2), [], None, "completed"),
        (State(1, due=("b",)), [], None, "unfinished"),
        (State(1, sends=(Send("b"),)), [], None, "unfinished"),
        (State(1, deferred=("b",)), [], None, "unfinished"),
        (State(1, due=("b",)), [question("b", 2)], None, "interrupted"),
        (State(1, due=("b",)), [question("b", 2), answer("b", 2)], None, "unfinished"),
        (State(1, due=("b",), paused_after=("a",)), [], None, "interrupted"),
        (State(1, due=("b",)), [TaskRecord("b:2", "failed", "", "E()")], None, "failed"),
        (
            State(1, due=("a", "b")),
            [question("a", 2), TaskRecord("b:2", "failed", "", "E()")],
            None,
            "failed",
        ),
        (State(1, due=("b",)), [], True, "running"),
        (State(1, due=("b",)), [], False, "dead"),
        (State(2), [], True, "running"),
        (State(1, due=("b",)), [question("b", 2)], False, "dead"),
    ],
    ids=str,
)
def test_how_a_thread_stands(state, records, runs, status):
    found = thread_snapshot(LINE, "t", saved(state, *records, created_at=1.0), "who", runs=runs)
    assert (found.thread_id, found.status, found.step, found.holder) == ("t", status, state.step, "who")
    assert found.updated_at == when(1.0)


def test_what_is_due_in_a_listed_thread():
    state = State(0, due=("a", "b", "c"))
    found = thread_snapshot(ABC, "t", saved(state, done("a"), question("b")), None, runs=None)
    assert (found.next, found.interrupts, found.holder) == (("b", "c"), (asks("b"),), None)
