"""How a run begins; what the other tests of runs don't show: the first router, and what is left when beginning fails."""

from __future__ import annotations

import operator
from typing import Annotated

import pytest

from juncture.channels import EphemeralValue
from juncture.engine.begin import check_known, log_own
from juncture.engine.effects import Done, Paused
from juncture.engine.interrupts import static_question
from juncture.engine.state import State, TaskRecord
from juncture.errors import ConfigError, InvalidUpdateError
from juncture.types import MARK_FOR_REMOVAL, START, Send
from tests.unit.engine.script import (
    Script,
    Store,
    added,
    asked,
    chain,
    escaped,
    failed,
    request,
    tables,
    typed,
    went,
    wrote,
)


def routed(**options):
    """A graph whose first nodes a router chooses."""
    return tables("a b", routers=[START], **options)


# ── the input ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_input_is_merged_into_what_keys_hold_initially():
    assert Script(chain("a"), request(x=1, log=["in"])).values() == {"x": 1, "log": ["in"]}
    assert Script(chain("a"), request()).values() == {"log": []}


def test_what_keys_hold_initially_isnt_shared_between_runs():
    graph = chain("a")
    first = Script(graph, request()).values()
    first["log"].append("changed")
    assert Script(graph, request()).values() == {"log": []}


def test_an_input_that_cant_be_merged_saves_nothing():
    store = Store()
    script = Script(chain("a"), request(saving=True, writes=[("x", 1), ("x", 2)]), store=store)
    with pytest.raises(InvalidUpdateError, match="key 'x'"):
        script.play()
    assert (script.did, store.checkpoints) == (["load"], [])


def test_an_input_is_a_step_for_keys_that_live_for_one():
    schema = typed({"once": Annotated[str, EphemeralValue(str)], "log": Annotated[list, operator.add]})
    graph, store, seen = chain("a", schema=schema), Store(), []
    bodies = {"a": lambda task: seen.append(dict(task.values)) or wrote(once="from a")(task)}
    Script(graph, request(saving=True, once="in"), bodies, store=store).play()
    Script(graph, request(saving=True, log=["second"]), bodies, store=store).play()
    assert seen == [{"once": "in", "log": []}, {"log": ["second"]}]


# ── the first router ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_router_sees_the_input_and_chooses():
    seen = []
    bodies = {
        START: lambda task: seen.append(dict(task.values)) or went("b", sends=[Send("a", 1)])(task),
        "a": added,
        "b": added,
    }
    script = Script(routed(), request(x=1), bodies)
    assert script.values() == {"x": 1, "log": ["b:1", "a:1.0"]}
    assert script.did[0] == "run __start__:0"
    assert seen == [{"x": 1, "log": []}]


def test_the_first_router_stands_between_the_input_and_its_checkpoint():
    script = Script(routed(), request(saving=True), {START: went("a")})
    script.play()
    assert script.did[:3] == ["load", "run __start__:0", "save input 0"]


def test_what_the_first_router_writes_is_part_of_the_input():
    store = Store()
    script = Script(routed(), request(saving=True, x=1), {START: went("a", x=2, y=3)}, store=store)
    script.play()
    assert store.checkpoints[0].state == State(0, {"x": 2, "y": 3, "log": []}, {}, ("a",), ran=(START,))


def test_the_first_router_beside_edges():
    graph = tables("a b", (START, "a"), routers=[START])
    script = Script(graph, request(), {START: went("b")})
    script.play()
    assert script.ran() == ["__start__:0", "a:1", "b:1"]


def test_a_first_router_that_fails_saves_nothing_and_is_named():
    store, error = Store(), RuntimeError("down")
    script = Script(routed(), request(saving=True, x=1), {START: failed(error)}, store=store)
    with pytest.raises(RuntimeError) as caught:
        script.play()
    assert caught.value is error
    assert script.loop.failed.node.name == START
    assert (script.did, store.checkpoints) == (["load", "run __start__:0"], [])


@pytest.mark.parametrize("body", [asked("q"), escaped()])
def test_a_first_router_cant_pause_or_leave(body):
    store = Store()
    script = Script(routed(), request(saving=True, x=1), {START: body}, store=store)
    with pytest.raises(InvalidUpdateError, match="a router of START can't pause the run or leave") as caught:
        script.play()
    assert caught.value.node == START
    assert store.checkpoints == []


def test_the_first_router_in_a_thread_that_holds_something():
    graph, store = routed(), Store()
    Script(graph, request(saving=True, x=1), {START: went("a")}, store=store).play()
    script = Script(graph, request(saving=True, y=2), {START: went("b")}, store=store)
    script.play()
    assert script.ran() == ["__start__:2", "b:3"]


def test_lenient_a_first_router_that_leads_nowhere_is_told():
    def body(task):
        done = Done(task, [])
        done.ignored = ["led nowhere"]
        return done

    script = Script(routed(strict=False), request(), {START: body})
    script.play()
    assert script.warnings == ["led nowhere"]


@pytest.mark.parametrize("names", ["a", "a b"])
def test_lenient_what_a_node_leads_nowhere_is_told(names):
    def body(task):
        done = Done(task, [])
        done.ignored = [task.id]
        return done

    graph = tables("a b", *[(START, name) for name in names.split()], strict=False)
    for more in ({}, {"saving": True}, {"modes": frozenset({"updates"})}):
        script = Script(graph, request(**more), {"a": body, "b": body})
        script.play()
        assert script.warnings == [f"{name}:1" for name in names.split()]


# ── pauses that the state tells of ───────────────────────────────────────────────────────────────────────────


def test_pauses_after_nodes_are_open_questions_of_the_checkpoint():
    graph, store = chain("a b"), Store()
    Script(graph, request(saving=True, after=frozenset({"a"}), namespace=("n:1",)), store=store).play()
    script = Script(graph, request("command", saving=True, namespace=("n:1",), resume=1), store=store)
    script.play()
    pause = static_question("t", ("n:1",), 1, "a", "after")
    assert store.checkpoints[1].records[0] == TaskRecord("", "answer", pause.id, 1)


def test_a_command_carries_what_was_known_and_forgets_the_pause():
    graph, store = chain("a b"), Store()
    Script(graph, request(saving=True, after=frozenset({"a"})), {"a": added}, store=store).play()
    with pytest.raises(RuntimeError):
        Script(graph, request("command", saving=True, y=1), {"b": failed(RuntimeError())}, store=store).play()
    assert store.state.paused_after == ()
    assert [record.kind for record in store.state.carried] == ["paused"]


# ── a nested graph's own writes ──────────────────────────────────────────────────────────────────────────────


def test_own_writes_are_remembered_in_order():
    state = State(touched=("x",))
    log_own(state, frozenset({"log"}), [("log", 1), ("y", 2), ("log", 3), ("x", 4), ("y", MARK_FOR_REMOVAL)])
    assert (state.written, state.touched) == ((("log", 1), ("log", 3)), ("x", "y"))
    log_own(state, frozenset({"log"}), [("log", 5)])
    assert (state.written, state.touched) == ((("log", 1), ("log", 3), ("log", 5)), ("x", "y"))
    log_own(state, frozenset(), [])
    assert (len(state.written), state.touched) == (3, ("x", "y"))


def test_the_first_routers_own_writes_are_a_nested_graphs():
    more = {"shared_keys": frozenset({"log"}), "namespace": ("n:1",)}
    for returns, written, touched in ((True, (("log", ["r"]),), ("x",)), (False, (), ())):
        script = Script(routed(), request(returns=returns, log=["in"], **more), {START: went(x=1, log=["r"])})
        state = script.play().state
        assert (state.written, state.touched) == (written, touched)


# ── a thread of another graph ────────────────────────────────────────────────────────────────────────────────


def test_a_state_that_the_graph_knows():
    graph = tables("a b c", (START, "a"), (["a", "b"], "c"))
    check_known(graph, State(due=("a",), sends=(Send("b"),), deferred=("c",), joins={"a|b:c": ("a",)}), "t")
    with pytest.raises(ConfigError, match=r"thread 't' is due to run node 'z'.*Known nodes: a, b, c"):
        check_known(graph, State(due=("a",), sends=(Send("z"),)), "t")
    with pytest.raises(ConfigError, match="thread 't' waits in the join 'x>y'"):
        check_known(graph, State(joins={"x>y": ("x",)}), "t")


def test_a_question_of_the_first_router_is_no_question():
    script = Script(routed(), request(saving=True), {START: lambda task: Paused(task, [])})
    with pytest.raises(InvalidUpdateError):
        script.play()
