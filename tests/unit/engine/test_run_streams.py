"""What each stream mode shows of a run, in which order among the effects."""

import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from juncture import RemainingSteps
from juncture.engine.effects import Done, Emit
from juncture.errors import GraphRecursionError
from juncture.types import ROOT, START, Command, Send
from tests.unit.engine.script import (
    Script,
    Store,
    added,
    asked,
    chain,
    escaped,
    failed,
    fan,
    nothing,
    question,
    request,
    tables,
    typed,
    went,
    wrote,
)


def modes(*names):
    return frozenset(names)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_values_shows_the_beginning_and_every_step():
    script = Script(chain("a b"), request(modes=modes("values"), x=1), {"a": wrote(x=2)})
    script.play()
    assert script.did == ["emit values", "run a:1", "emit values", "run b:2", "emit values"]
    assert script.emitted == [
        Emit("values", {"x": 1, "log": []}, 0),
        Emit("values", {"x": 2, "log": []}, 1),
        Emit("values", {"x": 2, "log": []}, 2),
    ]


def test_values_stands_after_the_checkpoint_that_it_shows():
    script = Script(chain("a"), request(modes=modes("values"), saving=True))
    script.play()
    assert script.did == [
        "load",
        "save input 0",
        "emit values",
        "run a:1",
        "save loop 1",
        "emit values",
    ]


def test_lenient_values_skips_steps_that_change_nothing():
    graph = chain("a b c", strict=False)
    script = Script(graph, request(modes=modes("values")), {"b": wrote(x=2)})
    script.play()
    assert [(emit.step, emit.data) for emit in script.emitted] == [(2, {"x": 2, "log": []})]
    script = Script(graph, request(modes=modes("values"), x=1), {"b": wrote(x=2)})
    script.play()
    assert [(emit.step, emit.data["x"]) for emit in script.emitted] == [(0, 1), (2, 2)]


def test_lenient_values_skips_steps_that_change_nothing_shown():
    graph = chain("a b", strict=False)
    script = Script(
        graph, request(modes=modes("values"), value_keys=frozenset({"y"})), {"a": wrote(x=1), "b": wrote(y=2)}
    )
    script.play()
    assert [(emit.step, emit.data) for emit in script.emitted] == [(2, {"y": 2})]


def test_values_are_restricted_to_the_keys_asked_for():
    script = Script(
        chain("a"), request(modes=modes("values"), value_keys=frozenset({"x"}), x=1), {"a": wrote(y=2)}
    )
    script.play()
    assert script.parts("values") == [{"x": 1}, {"x": 1}]


def test_a_state_that_is_one_value_shows_as_that_value():
    schema = Annotated[list, operator.add]
    bodies = {"a": lambda task: Done(task, [(ROOT, ["a"])])}
    script = Script(
        chain("a b", schema=schema),
        request(modes=modes("values", "updates"), writes=[(ROOT, ["in"])]),
        bodies,
    )
    script.play()
    assert [(emit.mode, emit.data) for emit in script.emitted] == [
        ("values", ["in"]),
        ("updates", {"a": ["a"]}),
        ("values", ["in", "a"]),
        ("updates", {"b": None}),
        ("values", ["in", "a"]),
    ]


def test_what_values_shows_is_a_copy():
    script = Script(chain("a"), request(modes=modes("values"), x=[1]), {"a": nothing})
    script.play()
    script.emitted[0].data["x"].append(2)
    assert script.loop.state.values["x"] == [1]


def test_going_on_shows_the_values_first():
    graph, store = chain("a"), Store()
    with pytest.raises(RuntimeError):
        Script(graph, request(saving=True, x=1), {"a": failed(RuntimeError())}, store=store).play()
    script = Script(
        graph, request("continue", saving=True, modes=modes("values")), {"a": wrote(x=2)}, store=store
    )
    script.play()
    assert script.did == ["load", "emit values", "run a:1", "save loop 1", "emit values"]
    assert [data["x"] for data in script.parts("values")] == [1, 2]


# ── updates ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_updates_shows_each_task_as_it_ends():
    script = Script(
        fan("a b"), request(modes=modes("updates")), {"a": wrote(x=1), "b": added}, order=["b", "a"]
    )
    script.play()
    assert script.did == ["start a:1", "start b:1", "wait", "emit updates", "wait", "emit updates"]
    assert script.emitted == [
        Emit("updates", {"b": {"log": ["b:1"]}}, 1, "b", 1),
        Emit("updates", {"a": {"x": 1}}, 1, "a", 0),
    ]


def test_updates_stand_after_the_records_and_before_the_checkpoint():
    script = Script(
        fan("a b"), request(modes=modes("updates"), saving=True), {"a": added, "b": added}, order=["a", "b"]
    )
    script.play()
    assert script.did[4:] == [
        "wait",
        "writes done a:1",
        "emit updates",
        "wait",
        "emit updates",
        "save loop 1",
    ]


def test_a_node_that_writes_nothing_shows_none():
    script = Script(chain("a"), request(modes=modes("updates")))
    script.play()
    assert script.parts("updates") == [{"a": None}]


def test_several_writes_to_a_key_show_as_a_list():
    def twice(task):
        return Done(task, [("log", ["one"]), ("x", 1), ("log", ["two"])])

    script = Script(chain("a"), request(modes=modes("updates")), {"a": twice})
    script.play()
    assert script.parts("updates") == [{"a": [{"log": ["one"]}, {"x": 1}, {"log": ["two"]}]}]


def test_updates_are_restricted_to_the_keys_asked_for():
    script = Script(
        chain("a b"),
        request(modes=modes("updates"), update_keys=frozenset({"x"})),
        {"a": wrote(x=1, y=2), "b": wrote(y=2)},
    )
    script.play()
    assert script.parts("updates") == [{"a": {"x": 1}}, {"b": None}]


def test_what_updates_shows_is_a_copy():
    script = Script(chain("a"), request(modes=modes("updates")), {"a": wrote(x=[1])})
    ending = script.play()
    script.emitted[0].data["a"]["x"].append(2)
    assert ending.state.values["x"] == [1]


def test_what_was_streamed_piece_by_piece_isnt_shown_again():
    def body(task):
        done = Done(task, [("x", 1)])
        done.streamed = True
        return done

    script = Script(chain("a"), request(modes=modes("updates", "tasks")), {"a": body})
    script.play()
    assert script.parts("updates") == []
    assert len(script.parts("tasks")) == 2


def test_recalled_tasks_show_as_cached():
    graph, store = fan("a b"), Store()
    bodies = {"a": wrote(x=1), "b": failed(RuntimeError())}
    with pytest.raises(RuntimeError):
        Script(graph, request(saving=True), bodies, store=store).play()
    script = Script(graph, request("continue", saving=True, modes=modes("updates")), store=store)
    script.play()
    assert script.did == [
        "load",
        "emit updates",
        "start b:1",
        "wait",
        "emit updates",
        "save loop 1",
    ]
    assert script.emitted == [
        Emit("updates", {"a": {"x": 1}, "__metadata__": {"cached": True}}, 1, "a", 0),
        Emit("updates", {"b": None}, 1, "b", 1),
    ]


def test_a_failed_task_shows_no_update():
    script = Script(chain("a"), request(modes=modes("updates")), {"a": failed(RuntimeError())})
    with pytest.raises(RuntimeError):
        script.play()
    assert script.emitted == []


def test_open_questions_show_in_updates():
    script = Script(fan("a b"), request(modes=modes("updates"), saving=True), {"a": asked("q"), "b": added})
    ending = script.play()
    assert [emit.data for emit in script.emitted] == [
        {"b": {"log": ["b:1"]}},
        {"__interrupt__": tuple(ending.questions)},
    ]
    assert (script.emitted[-1].step, script.emitted[-1].node) == (1, None)
    assert ending.questions == [question(script.began[0], "q")]


@pytest.mark.parametrize(("strict", "count"), [(True, 1), (False, 0)])
def test_a_static_pause_shows_in_updates(strict, count):
    graph = chain("a b", strict=strict)
    script = Script(graph, request(modes=modes("updates"), saving=True, before=frozenset({"b"})))
    ending = script.play()
    assert len(ending.questions) == 1
    assert script.parts("updates")[-1] == {"__interrupt__": tuple(ending.questions)[:count]}


@pytest.mark.parametrize("strict", [True, False])
def test_lenient_values_shows_the_pause_too(strict):
    graph = chain("a", strict=strict)
    script = Script(graph, request(modes=modes("values"), saving=True, x=1), {"a": asked("q")})
    ending = script.play()
    last = [] if strict else [{"x": 1, "log": [], "__interrupt__": tuple(ending.questions)}]
    assert script.parts("values") == [{"x": 1, "log": []}, *last]
    assert [emit.step for emit in script.emitted] == [0, 1][: 2 - strict]


# ── tasks and debug ──────────────────────────────────────────────────────────────────────────────────────────


def test_tasks_shows_beginnings_and_results():
    script = Script(
        tables("a b", (START, "a"), ("a", "b")),
        request(modes=modes("tasks"), x=1),
        {"a": went(x=2, sends=[Send("b", [7])]), "b": added},
    )
    script.play()
    assert script.did == [
        "emit tasks",
        "run a:1",
        "emit tasks",
        *["emit tasks"] * 2,
        *["start b:2", "start b:2.0"],
        *["wait", "emit tasks"] * 2,
    ]
    assert script.emitted[0] == Emit(
        "tasks",
        {"id": "a:1", "name": "a", "input": {"x": 1, "log": []}, "triggers": ("branch:to:a",)},
        1,
        "a",
        0,
    )
    assert script.emitted[1].data == {
        "id": "a:1",
        "name": "a",
        "error": None,
        "result": {"x": 2},
        "interrupts": [],
    }
    assert script.emitted[3].data == {
        "id": "b:2.0",
        "name": "b",
        "input": [7],
        "triggers": ("__pregel_push",),
    }
    assert script.emitted[3].place == 1


def test_a_result_with_several_writes_to_a_key():
    def thrice(task):
        return Done(task, [("log", ["one"]), ("log", ["two"]), ("log", ["three"]), ("x", {"y": 1})])

    script = Script(chain("a"), request(modes=modes("tasks")), {"a": thrice})
    script.play()
    assert script.emitted[1].data["result"] == {
        "log": {"$writes": [["one"], ["two"], ["three"]]},
        "x": {"y": 1},
    }


def test_tasks_shows_failures_and_pauses():
    bodies = {"a": failed(RuntimeError("down")), "b": asked("q")}
    script = Script(fan("a b"), request(modes=modes("tasks"), saving=True), bodies, order=["b", "a"])
    with pytest.raises(RuntimeError):
        script.play()
    paused, fell = (emit.data for emit in script.emitted[2:])
    assert (paused["interrupts"], paused["error"]) == ([{"value": "q", "id": "b:1?q"}], None)
    assert (fell["error"], fell["result"], fell["interrupts"]) == ("RuntimeError('down')", {}, [])


class Unshowable(Exception):
    def __repr__(self):
        raise RuntimeError("no")


def test_an_exception_that_cant_be_shown_is_named_by_its_class():
    store = Store()
    script = Script(
        chain("a"), request(modes=modes("tasks"), saving=True), {"a": failed(Unshowable())}, store=store
    )
    with pytest.raises(Unshowable):
        script.play()
    assert "Unshowable" in script.emitted[1].data["error"]
    assert "Unshowable" in store.head.records[0].content


def test_tasks_shows_what_left_or_was_stopped_as_empty():
    bodies = {"a": escaped(Command(graph=Command.PARENT, update={"x": 1}))}
    script = Script(fan("a b"), request(modes=modes("tasks"), namespace=("n:1",)), bodies, order=["a"])
    script.play()
    assert [emit.data for emit in script.emitted[2:]] == [
        {"id": name, "name": name[0], "error": None, "result": {}, "interrupts": []}
        for name in ("a:1", "b:1")
    ]


def test_tasks_shows_the_input_with_its_managed_keys():
    schema = typed({"x": Any, "left": RemainingSteps}, total=True)
    script = Script(chain("a", schema=schema), request(limit=3, modes=modes("tasks"), x=[1]))
    script.play()
    assert script.emitted[0].data["input"] == {"x": [1], "left": 3}
    assert script.emitted[0].data["input"]["x"] is not script.loop.state.values["x"]


@dataclass
class Picky:
    x: int

    def __post_init__(self):
        raise ValueError("never right")


def test_an_input_that_cant_be_made_shows_as_none_and_is_for_the_task_to_fail_with():
    graph = tables({"a": {"input_schema": Picky}}, (START, "a"))
    script = Script(graph, request(modes=modes("tasks"), x=1), {"a": failed(KeyError("its own"))})
    with pytest.raises(KeyError):
        script.play()
    assert [emit.data.get("input", emit.data.get("error")) for emit in script.emitted] == [
        None,
        "KeyError('its own')",
    ]


def test_recalled_tasks_dont_begin():
    graph, store = fan("a b"), Store()
    with pytest.raises(RuntimeError):
        Script(graph, request(saving=True), {"a": added, "b": failed(RuntimeError())}, store=store).play()
    script = Script(graph, request("continue", saving=True, modes=modes("tasks")), store=store)
    script.play()
    assert [emit.data["id"] for emit in script.emitted] == ["b:1", "b:1"]


def test_debug_wraps_what_tasks_shows():
    script = Script(chain("a"), request(modes=modes("tasks", "debug")))
    script.play()
    assert [emit.mode for emit in script.emitted] == ["tasks", "debug"] * 2
    for task, debug, kind in zip(
        script.emitted[::2], script.emitted[1::2], ("task", "task_result"), strict=True
    ):
        assert debug == Emit("debug", (kind, task.data), 1, "a", 0)


def test_debug_alone_shows_no_tasks():
    script = Script(chain("a"), request(modes=modes("debug")))
    script.play()
    assert [emit.data[0] for emit in script.emitted] == ["task", "task_result"]


def test_a_mode_that_the_loop_knows_nothing_of_changes_nothing():
    script = Script(chain("a"), request(modes=modes("custom")))
    script.play()
    assert script.did == ["run a:1"]


def test_every_step_shows_before_the_limit_is_reached():
    script = Script(
        tables("a", (START, "a"), ("a", "a")), request(limit=2, modes=modes("values")), {"a": added}
    )
    with pytest.raises(GraphRecursionError):
        script.play()
    assert [data["log"] for data in script.parts("values")] == [[], ["a:1"], ["a:1", "a:2"]]
