"""What is saved, when, and together with what; and how a thread goes on from it."""

import re
from typing import Annotated, Any

import pytest

from juncture.channels import NamedBarrierValue
from juncture.engine.begin import Request
from juncture.engine.effects import Done
from juncture.engine.routing import Routes
from juncture.engine.state import Saved, State, TaskRecord
from juncture.engine.tables import Pauses
from juncture.engine.task import Task
from juncture.errors import ConfigError, HeadMovedError, NothingToResumeError
from juncture.types import END, MARK_FOR_REMOVAL, START, Send
from tests.unit.engine.script import (
    Script,
    Stop,
    Store,
    added,
    chain,
    failed,
    fan,
    nothing,
    request,
    tables,
    typed,
    went,
    wrote,
)

# ── what is saved ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_of_one_task_is_one_commit():
    script = Script(chain("a b"), request(saving=True, x=1), {"a": wrote(x=2)})
    script.play()
    assert script.did == [
        "load",
        "save input 0",
        "run a:1",
        "save loop 1",
        "run b:2",
        "save loop 2",
    ]


def test_nothing_is_saved_without_a_saver():
    script = Script(fan("a b"), request(), {"a": added, "b": added})
    script.play()
    assert not any("save" in did or "load" in did or "writes" in did for did in script.did)
    assert script.loop.head is None


def test_earlier_finishers_are_saved_as_they_finish_and_the_last_with_the_checkpoint():
    script = Script(
        fan("a b c"), request(saving=True), {"a": added, "b": added, "c": added}, order=["b", "c", "a"]
    )
    script.play()
    assert script.did == [
        "load",
        "save input 0",
        "start a:1",
        "start b:1",
        "start c:1",
        "wait",
        "writes done b:1",
        "wait",
        "writes done c:1",
        "wait",
        "save loop 1",
    ]


def test_a_checkpoint_holds_the_committed_state_and_what_is_due():
    graph = tables("a b c", (START, "a"), ("a", "c"), (["a", "b"], "c"))
    store = Store()
    script = Script(
        graph, request(saving=True, x=1), {"a": went(x=2, sends=[Send("b", {"n": 1})])}, store=store
    )
    script.play()
    first, second = store.checkpoints[:2]
    assert (first.source, first.parent_id, first.state) == (
        "input",
        None,
        State(0, {"x": 1, "log": []}, {}, ("a",), ran=(START,)),
    )
    assert (second.source, second.parent_id) == ("loop", first.checkpoint_id)
    assert second.state == State(
        1, {"x": 2, "log": []}, {}, ("c",), (Send("b", {"n": 1}),), {"a|b:c": ("a",)}, ran=("a",)
    )
    assert script.loop.head == store.head.checkpoint_id


def test_the_record_of_a_done_task_holds_its_writes_and_routes():
    store = Store()
    sends = [Send("b", 1)]
    bodies = {"a": went("b", x=1, sends=sends), "b": failed(KeyError("late"))}
    script = Script(tables("a b", (START, "a"), (START, "b")), request(saving=True), bodies, store=store)
    with pytest.raises(KeyError):
        script.play()
    assert store.head.records[0] == TaskRecord("a:1", "done", "", ([("x", 1)], ["b"], sends))


def test_the_input_is_saved_before_anything_runs():
    store = Store()
    script = Script(chain("a"), request(saving=True, x=1), store=store, stop_at=2)
    with pytest.raises(Stop):
        script.play()
    assert script.ran() == []
    assert [saved.source for saved in store.checkpoints] == ["input"]


def test_a_new_input_is_a_step_of_its_own_on_what_the_thread_holds():
    graph, store = chain("a"), Store()
    Script(graph, request(saving=True, x=1, log=["one"]), {"a": added}, store=store).play()
    script = Script(graph, request(saving=True, y=2, log=["two"]), {"a": added}, store=store)
    assert script.values() == {"x": 1, "y": 2, "log": ["one", "a:1", "two", "a:3"]}
    assert script.did == ["load", "save input 2", "run a:3", "save loop 3"]
    assert store.head.parent_id == store.checkpoints[-2].checkpoint_id
    assert script.warnings == []


# ── going on ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_tasks_that_were_saved_dont_run_again():
    graph, store = fan("a b"), Store()
    bodies = {"a": added, "b": failed(RuntimeError("down"))}
    script = Script(graph, request(saving=True), bodies, store=store, order=["a", "b"])
    with pytest.raises(RuntimeError):
        script.play()
    script = Script(
        graph, request("continue", saving=True), {"a": failed(AssertionError()), "b": added}, store=store
    )
    assert script.values()["log"] == ["a:1", "b:1"]
    assert script.did == ["load", "start b:1", "wait", "save loop 1"]
    assert script.loop.last_nodes == ("a", "b")


def test_a_step_whose_tasks_were_all_saved_is_only_committed():
    graph, store = fan("a b"), Store()
    script = Script(graph, request(saving=True), {"a": added, "b": added}, store=store, stop_at=7)
    with pytest.raises(Stop):
        script.play()
    assert script.did[-1] == "wait"
    store.save_writes([TaskRecord("b:1", "done", "", ([("log", ["b:1"])], [], []))])
    script = Script(graph, request("continue", saving=True), store=store)
    assert script.values()["log"] == ["a:1", "b:1"]
    assert script.did == ["load", "save loop 1"]


def test_recalled_routes_are_followed():
    graph, store = tables("a b c", (START, "a"), (START, "b"), routers=["a"]), Store()
    bodies = {"a": went("c", sends=[Send("b", 5)]), "b": failed(RuntimeError())}
    with pytest.raises(RuntimeError):
        Script(graph, request(saving=True), bodies, store=store).play()
    seen = []
    bodies = {"b": lambda task: seen.append(task.argument) or nothing(task)}
    script = Script(graph, request("continue", saving=True), bodies, store=store)
    script.play()
    assert script.ran() == ["b:1", "c:2", "b:2.0"]
    assert seen == [None, 5]


def test_records_of_a_failed_task_dont_keep_it_from_running():
    graph, store = chain("a"), Store()
    with pytest.raises(RuntimeError):
        Script(graph, request(saving=True), {"a": failed(RuntimeError("down"))}, store=store).play()
    assert store.head.records == [TaskRecord("a:1", "failed", "", "RuntimeError('down')")]
    script = Script(graph, request("continue", saving=True), {"a": added}, store=store)
    assert script.values()["log"] == ["a:1"]
    assert script.began[0].records == store.checkpoints[0].records[:1]
    assert script.began[0].attempt == 1


def test_records_are_for_one_step():
    graph, store = tables("a b", (START, "a"), (START, "b"), ("a", "a")), Store()
    with pytest.raises(RuntimeError):
        Script(graph, request(saving=True), {"a": nothing, "b": failed(RuntimeError())}, store=store).play()
    bodies = {"a": lambda task: failed(KeyError(task.step))(task) if task.step == 3 else added(task)}
    script = Script(graph, request("continue", saving=True), bodies, store=store)
    with pytest.raises(KeyError):
        script.play()
    assert script.ran() == ["b:1", "a:2", "a:3"]
    assert [task.records for task in script.began[1:]] == [None, None]


def test_going_on_needs_a_checkpoint():
    script = Script(chain("a"), request("continue", saving=True, thread_id="new"))
    with pytest.raises(NothingToResumeError, match="thread 'new' has no checkpoint"):
        script.play()
    assert script.did == ["load"]


def test_going_on_needs_something_to_do():
    graph, store = chain("a"), Store()
    Script(graph, request(saving=True), store=store).play()
    script = Script(graph, request("continue", saving=True), store=store)
    with pytest.raises(NothingToResumeError, match="has finished"):
        script.play()
    assert len(store.checkpoints) == 2


@pytest.mark.parametrize(
    "state",
    [
        State(1, due=("c",)),
        State(1, sends=(Send("c"),)),
        State(1, deferred=("c",)),
        State(1, joins={"a|b:c": ("b",)}),
    ],
)
def test_whatever_is_left_to_do_can_be_gone_on_with(state):
    graph = tables("a b c", (START, "b"), (["a", "b"], "c"), join="arrived")
    store = Store()
    store.checkpoints.append(_saved(state))
    script = Script(graph, request("continue", saving=True), store=store)
    script.play()
    assert [task.node.name for task in script.began] == ["c"]


def _saved(state):
    return Saved("checkpoint 0", None, state, [])


def test_a_new_input_drops_what_was_left_and_says_so():
    graph, store = tables("a b c", (START, "a"), ("a", "b"), (["b", "c"], "a")), Store()
    state = State(
        4,
        {"x": 1},
        {},
        ("b",),
        (Send("c"),),
        {"b|c:a": ("c",)},
        ("c",),
        carried=(TaskRecord("b:5", "failed", "", ""),),
    )
    store.checkpoints.append(_saved(state))
    script = Script(graph, request(saving=True, x=2), store=store, stop_at=3)
    with pytest.raises(Stop):
        script.play()
    assert len(script.warnings) == 1
    assert "thread 't' had not finished (due: 'b', 'c', 'c')" in script.warnings[0]
    assert store.state == State(5, {"x": 2}, {}, ("a",), ran=(START,))


def test_lenient_a_new_input_keeps_half_filled_joins_and_says_nothing():
    graph, store = tables("a b c", (START, "a"), ("a", "b"), (["b", "c"], "a"), strict=False), Store()
    store.checkpoints.append(_saved(State(4, {"x": 1}, {}, ("b",), joins={"b|c:a": ("c",)})))
    script = Script(graph, request(saving=True, x=2), store=store, stop_at=2)
    with pytest.raises(Stop):
        script.play()
    assert script.warnings == []
    assert store.state == State(5, {"x": 2}, {}, ("a",), joins={"b|c:a": ("c",)}, ran=(START,))


@pytest.mark.parametrize(
    "left",
    [
        {"due": ("b",)},
        {"sends": (Send("c"),)},
        {"deferred": ("c",)},
        {"joins": {"a|b:c": ("a",)}},
    ],
)
def test_a_new_input_says_so_whatever_was_left(left):
    graph, store = tables("a b c", (START, "a"), (["a", "b"], "c"), join="arrived"), Store()
    store.checkpoints.append(_saved(State(1, {}, **left)))
    script = Script(graph, request(saving=True), store=store)
    script.play()
    assert len(script.warnings) == 1


def test_a_join_that_will_never_fire_isnt_unfinished():
    graph, store = tables("a b c", (START, "a"), (["a", "b"], "c")), Store()
    store.checkpoints.append(_saved(State(1, {}, joins={"a|b:c": ("b",)})))
    script = Script(graph, request(saving=True), store=store, stop_at=2)
    with pytest.raises(Stop):
        script.play()
    assert script.warnings == []


@pytest.mark.parametrize(
    ("left", "name"),
    [
        ({"due": ("a", "gone")}, "gone"),
        ({"sends": (Send("gone"),)}, "gone"),
        ({"deferred": ("gone",)}, "gone"),
        ({"joins": {"x|y:z": ("x",)}}, "x|y:z"),
    ],
)
def test_a_thread_of_another_version_of_the_graph_cant_go_on(left, name):
    store = Store()
    store.checkpoints.append(_saved(State(1, {"x": 1}, **left)))
    script = Script(chain("a"), request("continue", saving=True), store=store)
    with pytest.raises(ConfigError, match=f"thread 't' .*{re.escape(repr(name))}"):
        script.play()
    assert script.did == ["load"]


def test_a_thread_of_another_version_of_the_graph_takes_new_input():
    store = Store()
    store.checkpoints.append(_saved(State(1, {"x": 1}, due=("gone",), joins={"x|y:z": ("x",)})))
    script = Script(chain("a"), request(saving=True, y=2), {"a": added}, store=store)
    assert script.values() == {"x": 1, "y": 2, "log": ["a:3"]}


# ── a saver that fails ───────────────────────────────────────────────────────────────────────────────────────


def test_a_step_that_couldnt_be_saved_doesnt_count():
    graph = tables("a b c", (START, "a"), ("a", "b"), (["a", "c"], "b"))
    store = Store()
    store.refuses[1] = error = HeadMovedError("moved")
    script = Script(
        graph, request(saving=True, x=1), {"a": went(x=2, y=3, log=["a"], sends=[Send("c")])}, store=store
    )
    with pytest.raises(HeadMovedError) as caught:
        script.play()
    assert caught.value is error
    assert error.node == "a"
    assert script.loop.state == store.state == State(0, {"x": 1, "log": []}, {}, ("a",), ran=(START,))
    assert script.loop.taken == 0
    assert script.loop.head == "checkpoint 0"


def test_what_a_channel_stores_and_what_was_removed_is_put_back():
    schema = typed({"x": Any, "seen": Annotated[Any, NamedBarrierValue(str, {"p", "q"})]})
    store = Store()
    store.refuses[2] = KeyError("disk")
    bodies = {"a": wrote(seen="p"), "b": lambda task: Done(task, [("seen", "q"), ("x", MARK_FOR_REMOVAL)])}
    script = Script(chain("a b", schema=schema), request(saving=True, x=1), bodies, store=store)
    with pytest.raises(KeyError):
        script.play()
    assert script.loop.state == store.state == State(1, {"x": 1}, {"seen": ("p",)}, ("b",), ran=("a",))


def test_of_several_tasks_none_is_blamed_for_the_saver():
    store = Store()
    store.refuses[1] = error = HeadMovedError("moved")
    with pytest.raises(HeadMovedError):
        Script(fan("a b"), request(saving=True), store=store).play()
    assert error.node is None


def test_an_input_that_couldnt_be_saved_runs_nothing():
    store = Store()
    store.refuses[0] = HeadMovedError("moved")
    script = Script(chain("a"), request(saving=True), store=store)
    with pytest.raises(HeadMovedError):
        script.play()
    assert (script.ran(), script.loop.taken) == ([], 0)


def test_the_end_of_a_run_isnt_a_checkpoint_of_its_own():
    store = Store()
    script = Script(tables("a", (START, END)), request(saving=True, x=1), store=store)
    script.play()
    assert script.did == ["load", "save input 0"]


def test_a_request_says_what_has_to_be_watched():
    def watched(**more):
        made = Request("input", 1, float, **more)
        return {
            name
            for name in ("watches", "listens", "shows_values", "shows_updates", "shows_tasks")
            if getattr(made, name)
        }

    assert watched() == set()
    assert watched(saving=True) == {"watches", "listens"}
    assert watched(modes=frozenset({"values"})) == {"watches", "shows_values"}
    assert watched(modes=frozenset({"updates"})) == {"listens", "shows_updates"}
    assert watched(modes=frozenset({"tasks"})) == {"listens", "shows_tasks"}
    assert watched(modes=frozenset({"debug"})) == {"listens", "shows_tasks"}
    assert watched(modes=frozenset({"custom"})) == set()
    assert watched(returns=True) == {"watches"}
    assert watched(pauses=Pauses()) == {"watches"}


def test_outcomes_are_equal_by_content():
    task = Task(chain("a").nodes["a"], 1, 0, {}, 1)
    one, two = Done(task, [("x", 1)]), Done.routed(task, [("x", 1)], Routes(["b"]))
    assert one == Done(task, [("x", 1)])
    assert one != two
    assert one != "done"
    assert repr(two).startswith("Done(task=")
    assert "targets=['b']" in repr(two)
    with pytest.raises(TypeError):
        hash(one)
