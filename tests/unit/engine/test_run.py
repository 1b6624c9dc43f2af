"""The sequence of a run: what is asked of the driver, in which order, and what is left in the end."""

import itertools
from typing import Any

import pytest

from juncture.engine.effects import Done
from juncture.engine.state import State
from juncture.errors import GraphRecursionError, InvalidUpdateError, StuckJoinError
from juncture.types import END, START, Overwrite, Send
from tests.unit.engine.script import (
    Script,
    Store,
    added,
    chain,
    fan,
    in_turn,
    notes,
    nothing,
    request,
    tables,
    went,
    wrote,
)

# ── one task a step ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_chain_is_one_effect_a_step():
    script = Script(chain("a b"), request(x=1), {"a": wrote(x=2), "b": wrote(y=3)})
    ending = script.play()
    assert script.did == ["run a:1", "run b:2"]
    assert (ending.status, ending.questions, ending.command) == ("completed", [], None)
    assert ending.state == State(2, {"x": 2, "y": 3, "log": []})


def test_a_node_is_given_what_is_committed():
    seen = []
    Script(
        chain("a b"),
        request(x=1),
        {
            "a": lambda task: seen.append(dict(task.values)) or wrote(x=2)(task),
            "b": lambda task: seen.append(task.values) or nothing(task),
        },
    ).play()
    assert seen == [{"x": 1, "log": []}, {"x": 2, "log": []}]


def test_a_loop_counts_what_was_taken_and_names_who_ran_last():
    script = Script(
        tables("a b", (START, "a"), ("b", "a"), routers=["a"]),
        request(),
        {"a": in_turn(went("b", log=["a"]), went("b", log=["a"]), went(log=["a"]))},
    )
    assert script.values() == {"log": ["a", "a", "a"]}
    assert script.ran() == ["a:1", "b:2", "a:3", "b:4", "a:5"]
    assert (script.loop.taken, script.loop.last_nodes) == (5, ("a",))


def test_nothing_happens_before_the_program_is_advanced():
    loop = Script(chain("a"), request(x=1)).loop
    assert (loop.state, loop.ending, loop.taken) == (State(), None, 0)


def test_the_ending_is_kept_and_given_back():
    script = Script(chain("a"), request())
    assert script.play() is script.loop.ending


def test_what_a_router_saw_of_a_lone_task_is_what_is_committed():
    from juncture.engine.commit import Changes

    changes = Changes()
    changes.values["x"] = "from the view"

    def body(task):
        done = Done(task, [("x", "from the write")])
        done.changes = changes
        return done

    assert Script(chain("a"), request(), {"a": body}).values()["x"] == "from the view"


def test_what_routers_saw_of_one_of_several_tasks_isnt_what_is_committed():
    from juncture.engine.commit import Changes

    def body(task):
        done = Done(task, [("log", [task.id])])
        done.changes = Changes()
        return done

    assert Script(fan("a b"), request(), {"a": body, "b": body}).values()["log"] == ["a:1", "b:1"]


# ── several tasks a step ─────────────────────────────────────────────────────────────────────────────────────


def test_several_tasks_are_started_before_one_is_waited_for():
    script = Script(fan("b a"), request(), {"a": added, "b": added}, order=["b", "a"])
    assert script.values()["log"] == ["a:1", "b:1"]
    assert script.did == ["start a:1", "start b:1", "wait", "wait"]
    assert script.loop.last_nodes == ("a", "b")


def test_sends_come_after_edges_in_the_order_sent():
    script = Script(
        tables("a b c", (START, "a"), ("a", "b"), routers=[]),
        request(),
        {
            "a": went(sends=[Send("c", 2), Send("b", 1)]),
            "b": lambda task: Done(task, [("log", [f"{task.id}={task.argument}"])]),
            "c": lambda task: Done(task, [("log", [f"{task.id}={task.argument}"])]),
        },
        order=["b:2.1", "c:2.0", "b:2"],
    )
    assert script.values()["log"] == ["b:2=None", "c:2.0=2", "b:2.1=1"]


def test_every_order_of_completion_commits_the_same():
    graph = tables("a b c d", *[(START, name) for name in "abcd"], ("a", "d"), (["b", "c"], "a"))
    bodies = {
        "a": went(x=1, log=["a"], sends=[Send("b"), Send("c")]),
        "b": wrote(log=Overwrite(["b"])),
        "c": wrote(y=None, log=["c1", "c2"]),
        "d": wrote(log=["d"]),
    }

    def play(order) -> tuple[Any, ...]:
        script = Script(graph, request(limit=1, log=["in"]), bodies, order=order)
        with pytest.raises(GraphRecursionError):
            script.play()
        return script.loop.state, script.loop.last_nodes

    first = play("abcd")
    assert first[0] == State(
        1, {"x": 1, "y": None, "log": ["b", "c1", "c2", "d"]}, {}, ("a", "d"), (Send("b"), Send("c"))
    )
    for order in itertools.permutations("abcd"):
        assert play(order) == first


def test_every_order_of_completion_raises_the_same_conflict():
    bodies = {name: wrote(x=name) for name in "abc"}
    texts = set()
    for order in itertools.permutations("abc"):
        script = Script(fan("a b c"), request(x=0), bodies, order=order)
        with pytest.raises(InvalidUpdateError, match="nodes 'a', 'b' and 'c' wrote it") as caught:
            script.play()
        texts.add((str(caught.value), caught.value.node, caught.value.key))
        assert script.loop.state.values["x"] == 0
    assert len(texts) == 1


def test_a_write_that_cant_be_merged_leaves_the_step_unapplied():
    graph = tables("a b", (START, "a"), (START, "b"), ("a", "b"))
    script = Script(graph, request(x=0), {"a": wrote(x=1), "b": wrote(log=3)})
    with pytest.raises(TypeError) as caught:
        script.play()
    assert "node 'b' wrote to key 'log'" in notes(caught.value)
    assert script.loop.state == State(0, {"x": 0, "log": []}, {}, ("a", "b"))


# ── joins and deferred nodes ─────────────────────────────────────────────────────────────────────────────────


def test_a_join_waits_over_steps():
    graph = tables("a b c d", (START, "a"), (START, "b"), ("b", "c"), (["a", "c"], "d"))
    script = Script(graph, request())
    script.play()
    assert script.ran() == ["a:1", "b:1", "c:2", "d:3"]


def test_a_join_that_only_some_reached_is_an_error():
    graph = tables("a b c", (START, "a"), (["a", "b"], "c"))
    script = Script(graph, request(x=1), {"a": wrote(x=2)})
    with pytest.raises(StuckJoinError, match="'a' arrived, 'b' never ran"):
        script.play()
    assert script.loop.state.values["x"] == 2


def test_lenient_a_join_that_only_some_reached_ends_the_run():
    graph = tables("a b c", (START, "a"), (["a", "b"], "c"), strict=False)
    script = Script(graph, request())
    assert script.play().status == "completed"
    assert script.ran() == ["a:1"]


def test_a_join_that_takes_what_arrived_fires_in_the_end():
    graph = tables("a b c", (START, "a"), (["a", "b"], "c"), join="arrived")
    script = Script(graph, request())
    script.play()
    assert script.ran() == ["a:1", "c:2"]


def test_a_deferred_node_runs_when_nothing_else_is_left():
    graph = tables({"a": {"defer": True}, "b": {}, "c": {}}, (START, "a"), (START, "b"), ("b", "c"))
    script = Script(graph, request())
    script.play()
    assert script.ran() == ["b:1", "c:2", "a:3"]


# ── the limit ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_limit_of_n_allows_n_steps():
    assert Script(chain("a b"), request(limit=2)).play().status == "completed"


def test_a_step_over_the_limit_is_refused():
    graph = tables("a b", (START, "a"), ("a", "b"), ("b", "a"))
    script = Script(graph, request(limit=2), {"a": went("b", sends=[Send("b", 1)]), "b": added})
    with pytest.raises(GraphRecursionError) as caught:
        script.play()
    text = str(caught.value)
    assert text.startswith(
        "Recursion limit of 2 reached without hitting a stop condition: 2 supersteps ran, last 'b', 'b'; due next: 'a'."
    )
    assert caught.value.step == 2
    assert script.ran() == ["a:1", "b:2", "b:2.0"]
    assert script.loop.state.values["log"] == ["b:2", "b:2.0"]


def test_the_limit_names_sends_that_are_due():
    graph = tables("a", (START, "a"))
    script = Script(graph, request(limit=1), {"a": went(sends=[Send("a")])})
    with pytest.raises(GraphRecursionError, match="last 'a'; due next: 'a'"):
        script.play()


def test_lenient_a_run_that_would_end_at_the_limit_is_refused():
    graph = chain("a b", strict=False)
    script = Script(graph, request(limit=2))
    with pytest.raises(GraphRecursionError, match="last 'b'; due next: nothing"):
        script.play()
    assert Script(graph, request(limit=3)).play().status == "completed"


@pytest.mark.parametrize(("strict", "remaining"), [(True, [3, 2, 1]), (False, [2, 1, 0])])
def test_tasks_are_told_how_many_steps_remain(strict, remaining):
    script = Script(tables("a", (START, "a"), ("a", "a"), strict=strict), request(limit=3))
    with pytest.raises(GraphRecursionError):
        script.play()
    assert [task.remaining for task in script.began] == remaining


def test_the_limit_counts_the_steps_of_this_run():
    graph, store = tables("a", (START, "a"), ("a", "a")), Store()
    for kind, step in (("input", 2), ("continue", 4)):
        script = Script(graph, request(kind, limit=2, saving=True), store=store)
        with pytest.raises(GraphRecursionError) as caught:
            script.play()
        assert (caught.value.step, script.loop.taken) == (step, 2)


def test_no_node_ran_before_a_limit_that_was_reached_at_once():
    script = Script(chain("a", strict=False), request(limit=0))
    with pytest.raises(GraphRecursionError, match="0 supersteps ran, last none; due next: 'a'"):
        script.play()


# ── model checks, and the end ────────────────────────────────────────────────────────────────────────────────


def test_a_model_check_sees_the_step_and_its_coercion_is_committed():
    graph = fan("a b")
    seen = []
    graph.check_model = lambda values: seen.append(dict(values)) or {"x": values["x"] * 10}
    script = Script(graph, request(x=1), {"a": wrote(x=2), "b": wrote(y=0)})
    assert script.values() == {"x": 20, "y": 0, "log": []}
    assert seen == [{"x": 2, "y": 0, "log": []}]


def test_a_model_check_that_refuses_leaves_the_step_unapplied():
    def refuse(values):
        raise ValueError("x and y don't fit")

    graph = fan("a b")
    graph.check_model = refuse
    script = Script(graph, request(x=1), {"a": wrote(x=2), "b": wrote(y=0)})
    with pytest.raises(
        InvalidUpdateError, match="after step 1 is refused by its schema: x and y don't fit"
    ) as caught:
        script.play()
    assert caught.value.node == "a"
    assert "written by 'a', 'b'" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert script.loop.state == State(0, {"x": 1, "log": []}, {}, ("a", "b"))


def test_channels_are_told_of_the_end_of_a_run_that_completed():
    from typing import Annotated, TypedDict

    from juncture.channels import LastValueAfterFinish

    class Late(TypedDict, total=False):
        x: Annotated[int, LastValueAfterFinish(int)]

    graph = chain("a b", schema=Late)
    seen = []
    script = Script(
        graph, request(), {"a": wrote(x=1), "b": lambda task: seen.append(dict(task.values)) or nothing(task)}
    )
    assert script.values() == {"x": 1}
    assert seen == [{}]


def test_a_graph_that_starts_nowhere_ends_at_once():
    script = Script(tables("a", (START, END)), request(x=1))
    assert script.values() == {"x": 1, "log": []}
    assert script.did == []
