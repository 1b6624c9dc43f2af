"""From a state to its tasks, and from ended tasks to what is due."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.engine.effects import Done
from juncture.engine.plan import advance, plan, revive, unfinished
from juncture.engine.state import State
from juncture.engine.task import Task
from juncture.errors import StuckJoinError
from juncture.types import END, START, Send
from tests.unit.engine.script import tables


def ids(state, graph):
    return [task.id for task in plan(graph, state, 10)]


def done(graph, name, *targets, sends=()):
    ended = Done(Task(graph.nodes[name], 1, 0, {}, 1), [])
    ended.targets, ended.sends = targets, sends
    return ended


def advanced(graph, state, *ended):
    advance(graph, state, [done(graph, one) if isinstance(one, str) else one for one in ended])
    return state


# ── plan ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_edges_come_first_by_name_then_sends_in_the_order_sent():
    graph = tables("a b c", (START, "a"))
    values = {"x": 1}
    state = State(4, values, due=("a", "c"), sends=(Send("c", 1), Send("b", 2)))
    tasks = plan(graph, state, 7)
    assert [(task.id, task.place, task.send, task.argument) for task in tasks] == [
        ("a:5", 0, -1, None),
        ("c:5", 1, -1, None),
        ("c:5.0", 2, 0, 1),
        ("b:5.1", 3, 1, 2),
    ]
    assert all((task.step, task.remaining, task.attempt) == (5, 7, 1) for task in tasks)
    assert all(task.values is values for task in tasks)
    assert all(task.records is None and task.parent is None and not task.calls for task in tasks)


def test_a_lone_task():
    graph = tables("a b", (START, "a"))
    assert ids(State(0, due=("b",)), graph) == ["b:1"]
    assert ids(State(0, sends=(Send("b"),)), graph) == ["b:1.0"]
    assert ids(State(0, due=("a",), sends=(Send("a"),)), graph) == ["a:1", "a:1.0"]


def test_ids_are_unique_and_stable():
    graph = tables("a b", (START, "a"))
    state = State(2, due=("a", "b"), sends=(Send("a"), Send("a"), Send("b")))
    assert ids(state, graph) == ids(state, graph)
    assert len(set(ids(state, graph))) == 5


def test_a_call_is_known_by_its_identity():
    graph = tables("a", (START, "a"))
    task = Task(graph.nodes["a"], 1, 0, {}, 1)
    task.identity = "digest"
    task.attempt = 2
    assert (task.id, repr(task)) == ("digest", "<task digest attempt 2>")


# ── advance ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_an_ended_task_makes_due():
    graph = tables("a b c", (START, "a"), ("a", "c"), ("a", "b"), ("b", END))
    assert advanced(graph, State(due=("a",)), "a").due == ("b", "c")
    assert advanced(graph, State(due=("b",), sends=(Send("a"),)), "b") == State()


def test_targets_join_the_edges_and_each_node_is_due_once():
    graph = tables("a b c", (START, "a"), ("a", "b"), ("c", "b"))
    state = advanced(graph, State(due=("a",)), done(graph, "a", "c", "b", "c"))
    assert state.due == ("b", "c")
    assert advanced(graph, State(), "a", "c", done(graph, "b", "a")).due == ("a", "b")


def test_sends_are_kept_in_plan_order():
    graph = tables("a b", (START, "a"))
    state = advanced(
        graph,
        State(),
        done(graph, "a", sends=[Send("b", 1), Send("a", 2)]),
        done(graph, "b", sends=[Send("b", 3)]),
    )
    assert state.sends == (Send("b", 1), Send("a", 2), Send("b", 3))
    assert advanced(graph, State(), done(graph, "a", sends=[Send("b", 1)])).sends == (Send("b", 1),)


def test_a_join_fires_when_all_its_sources_ran_and_starts_anew():
    graph = tables("a b c", (START, "a"), (["a", "b"], "c"))
    state = advanced(graph, State(), "a")
    assert (state.due, state.joins) == ((), {"a|b:c": ("a",)})
    assert advanced(graph, state, "a").joins == {"a|b:c": ("a",)}
    state = advanced(graph, state, "b")
    assert (state.due, state.joins) == (("c",), {})
    state = advanced(graph, state, "b")
    assert (state.due, state.joins) == ((), {"a|b:c": ("b",)})
    state = advanced(graph, state, "a", "b", "a")
    assert (state.due, state.joins) == (("c",), {})


def test_every_order_of_a_steps_tasks_fills_joins_alike():
    graph = tables("a b c d", (START, "a"), (["a", "b", "c"], "d"), (["a", "d"], "b"))
    for held in ({}, {"a|b|c:d": ("b",)}, {"a|d:b": ("d",), "a|b|c:d": ("b", "c")}):
        states = [
            advanced(graph, State(joins=dict(held)), *order)
            for order in itertools.permutations(["a", "c", "a"])
        ]
        assert all(state == states[0] for state in states)


def test_a_source_that_ran_several_times_in_a_step_counts_once():
    graph = tables("a b c", (START, "a"), (["a", "b"], "c"))
    state = advanced(graph, State(), "a", "b", "a")
    assert (state.due, state.joins) == (("c",), {})


def test_deferred_nodes_are_held_back():
    graph = tables(
        {"a": {}, "b": {"defer": True}, "c": {"defer": True}}, (START, "a"), ("a", "b"), ("a", "a")
    )
    state = advanced(graph, State(), "a")
    assert (state.due, state.deferred) == (("a",), ("b",))
    state = advanced(graph, state, done(graph, "a", "c"))
    assert (state.due, state.deferred) == (("a",), ("b", "c"))


def test_a_goto_to_a_deferred_node_is_held_back_too():
    graph = tables({"a": {}, "b": {"defer": True}}, (START, "a"))
    assert advanced(graph, State(), done(graph, "a", "b")).deferred == ("b",)


def test_a_send_to_a_deferred_node_isnt_held_back():
    graph = tables({"a": {}, "b": {"defer": True}}, (START, "a"))
    state = advanced(graph, State(), done(graph, "a", sends=[Send("b")]))
    assert (state.sends, state.deferred) == ((Send("b"),), ())


def test_a_join_into_a_deferred_node_is_held_back():
    graph = tables({"a": {}, "b": {}, "c": {"defer": True}}, (START, "a"), (["a", "b"], "c"))
    state = advanced(graph, State(), "a", "b")
    assert (state.due, state.deferred) == ((), ("c",))


def test_what_arrives_at_a_join_while_its_deferred_node_is_held_isnt_counted_anew():
    graph = tables({"a": {}, "b": {}, "c": {"defer": True}}, (START, "a"), (["a", "b"], "c"))
    state = advanced(graph, State(), "a", "b")
    state = advanced(graph, advanced(graph, state, "a"), "b")
    assert state.deferred == ("c",)
    assert revive(graph, state)
    assert state == State(due=("c",))
    assert not revive(graph, State())
    assert advanced(graph, state, "c", "a").joins == {"a|b:c": ("a",)}


def test_a_join_that_is_partly_filled_stays_when_its_deferred_node_runs():
    graph = tables(
        {"a": {}, "b": {}, "c": {"defer": True}}, (START, "a"), ("a", "c"), (["a", "b"], "c"), strict=False
    )
    state = advanced(graph, State(), "a")
    assert revive(graph, state)
    assert state == State(due=("c",), joins={"a|b:c": ("a",)})


def test_deferred_nodes_stay_held_while_a_simple_node_ends():
    graph = tables({"a": {}, "b": {"defer": True}, "c": {}}, (START, "a"), ("a", "c"))
    assert advanced(graph, State(deferred=("b",)), "a").deferred == ("b",)


# ── revive ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_deferred_nodes_come_before_joins():
    graph = tables({"a": {}, "b": {}, "c": {"defer": True}}, (START, "a"), (["a", "b"], "c"), join="arrived")
    state = State(deferred=("c",), joins={"a|b:c": ("a",)})
    assert revive(graph, state)
    assert state == State(due=("c",), joins={"a|b:c": ("a",)})


def test_joins_that_take_what_arrived_fire_together():
    graph = tables(
        "a b c d", (START, "a"), (["a", "b"], "d"), (["b", "a"], "c"), (["c", "d"], "a"), join="arrived"
    )
    state = State(joins={"a|b:d": ("a",), "a|b:c": ("b",)})
    assert revive(graph, state)
    assert state == State(due=("c", "d"))


def test_two_joins_into_one_node_make_it_due_once():
    graph = tables("a b c d", (START, "a"), (["a", "b"], "d"), (["a", "c"], "d"), join="arrived")
    state = State(joins={"a|b:d": ("a",), "a|c:d": ("a",)})
    assert revive(graph, state)
    assert state == State(due=("d",))


def test_nothing_waits():
    assert not revive(tables("a", (START, "a")), State())


@pytest.mark.parametrize(("strict", "raises"), [(True, True), (False, False)])
def test_a_join_that_waits_for_all_is_stuck(strict, raises):
    graph = tables("a b c d", (START, "a"), (["a", "b", "c"], "d"), strict=strict)
    state = State(joins={"a|b|c:d": ("b",)})
    if not raises:
        assert not revive(graph, state)
        return
    with pytest.raises(StuckJoinError) as caught:
        revive(graph, state)
    text = str(caught.value)
    assert "join into 'd'" in text
    assert "'b' arrived, 'a', 'c' never ran" in text
    assert caught.value.node == "d"


def test_the_first_stuck_join_is_named():
    graph = tables("a b c d", (START, "a"), (["a", "b"], "d"), (["a", "b"], "c"))
    with pytest.raises(StuckJoinError, match="join into 'c'"):
        revive(graph, State(joins={"a|b:d": ("a",), "a|b:c": ("a",)}))


def test_joins_that_can_fire_go_before_one_that_is_stuck():
    graph = tables("a b c d", (START, "a"), (["a", "b"], "d"), (["a", "b"], "c"), join="arrived")
    graph.joins["a|b:d"].policy = "all"
    state = State(joins={"a|b:d": ("a",), "a|b:c": ("a",)})
    assert revive(graph, state)
    assert state == State(due=("c",), joins={"a|b:d": ("a",)})


@pytest.mark.parametrize(
    ("state", "policy", "expected"),
    [
        (State(), "all", False),
        (State(due=("a",)), "all", True),
        (State(sends=(Send("a"),)), "all", True),
        (State(deferred=("a",)), "all", True),
        (State(joins={"a|b:c": ("a",)}), "all", False),
        (State(joins={"a|b:c": ("a",)}), "arrived", True),
    ],
)
def test_what_is_unfinished(state, policy, expected):
    graph = tables("a b c", (START, "a"), (["a", "b"], "c"), join=policy)
    assert unfinished(graph, state) is expected


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────────

JOINED = tables(
    {"a": {}, "b": {}, "c": {}, "d": {"defer": True}},
    (START, "a"),
    ("a", "b"),
    (["a", "b"], "c"),
    (["b", "c"], "d"),
    ("c", "a"),
)
some = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4)


@given(
    names=some,
    targets=st.lists(st.sampled_from("abcd"), max_size=2),
    held=st.sampled_from([(), ("a",), ("b",)]),
)
def test_what_is_due_doesnt_depend_on_the_order_of_the_tasks(names, targets, held):
    states = set()
    for order in itertools.permutations(names):
        ended = [done(JOINED, order[0], *targets), *order[1:]] if order[0] == names[0] else None
        if ended is not None:
            state = advanced(JOINED, State(joins={"a|b:c": held} if held else {}), *ended)
            states.add((state.due, state.deferred, tuple(sorted(state.joins.items()))))
    assert len(states) == 1
    due = next(iter(states))[0]
    assert list(due) == sorted(set(due))
    assert "d" not in due
