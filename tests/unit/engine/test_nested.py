"""What the end of a nested graph means for the task whose body it is."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from juncture import StateGraph
from juncture.channels import Append
from juncture.engine.begin import Request
from juncture.engine.effects import Done, Escaped, Failed, Paused
from juncture.engine.nested import nested_program
from juncture.engine.run import Loop
from juncture.engine.state import State
from juncture.engine.task import Task
from juncture.errors import InvalidUpdateError, RoutingError
from juncture.types import END, MARK_FOR_REMOVAL, START, Command, Overwrite, Send
from tests.unit.engine.script import (
    Script,
    Stop,
    Store,
    asked,
    escaped,
    failed,
    nothing,
    typed,
    went,
    wrote,
)


def never(state):
    raise AssertionError("a script calls bodies, never the code of a node")


class Outer(TypedDict, total=False):
    x: Any
    y: Any
    z: Any
    log: Annotated[list, operator.add]
    own: Annotated[list, Append()]


class Inner(TypedDict, total=False):
    x: Any
    y: Any
    log: Annotated[list, operator.add]
    own: Annotated[list, operator.add]
    private: Any


def graphs(outer=Outer, inner=Inner, nodes="a b", edges=(), strict=True, routers=(), **schemas):
    """The tables of a parent whose node ``c`` is a graph of these nodes, one after the other."""
    child = StateGraph(inner, strict=strict, **schemas)
    child.add_sequence([(name, never) for name in nodes.split()])
    child.add_edge(START, nodes.split()[0])
    for source in routers:
        child.add_conditional_edges(source, never)
    parent = StateGraph(outer, strict=strict, silence=["unreachable-node", "stuck-join"])
    parent.add_node("c", child.compile())
    parent.add_node("d", never)
    parent.add_edge(START, "c")
    for start, end in edges:
        parent.add_edge(start, end)
    return parent.compile().tables


class Child:
    """The child of a parent, run as the body of the parent's task ``c:1``."""

    def __init__(self, parent, **bodies):
        self.parent, self.bodies = parent, bodies
        self.store = Store()
        self.failures = []

    def run(self, *, saving=False, stop_at=None, answers=None, namespace=("c:1",), **given):
        node = self.parent.nodes["c"]
        self.task = Task(node, 1, 0, {}, 10)
        request = Request(
            "nested",
            100,
            lambda: 0.0,
            list(given.items()),
            saving=saving,
            thread_id="t",
            namespace=namespace,
            answers=answers or {},
            shared_keys=node.shared_keys,
            returns=True,
        )
        loop = Loop(node.graph, request)
        program = nested_program(
            self.parent, self.task, loop, namespace, lambda error, loop: self.failures.append((error, loop))
        )
        self.script = Script(
            node.graph, request, self.bodies, store=self.store, loop=loop, program=program, stop_at=stop_at
        )
        return self.script.play()


def writes(parent, given=None, **bodies):
    outcome = Child(parent, **bodies).run(**(given or {}))
    assert type(outcome) is Done
    return outcome.writes


# ── what reaches the parent ──────────────────────────────────────────────────────────────────────────────────


def test_an_untouched_key_is_no_write():
    assert writes(graphs(), {"x": 1, "log": ["in"], "own": ["in"]}, a=nothing, b=nothing) == []


def test_writes_to_a_key_that_both_merge_alike_come_back_one_by_one():
    assert writes(graphs(), {"log": ["in"]}, a=wrote(log=["a"]), b=wrote(log=["b"])) == [
        ("log", ["a"]),
        ("log", ["b"]),
    ]


def test_markers_come_back_as_they_were_written():
    got = writes(
        graphs(),
        {"log": ["in"]},
        a=wrote(log=Overwrite(["a"])),
        b=lambda t: Done(t, [("log", MARK_FOR_REMOVAL)]),
    )
    assert got == [("log", Overwrite(["a"])), ("log", MARK_FOR_REMOVAL)]


def test_any_other_key_comes_back_as_its_final_value_once():
    assert writes(graphs(), {"x": 1, "own": ["in"]}, a=wrote(x=2, own=["a"]), b=wrote(x=3, own=["b"])) == [
        ("own", ["in", "a", "b"]),
        ("x", 3),
    ]


def test_a_write_of_the_same_value_is_a_write():
    assert writes(graphs(), {"x": 1}, a=wrote(x=1)) == [("x", 1)]


def test_a_key_that_was_removed_is_removed():
    assert writes(graphs(), {"x": 1}, a=lambda task: Done(task, [("x", MARK_FOR_REMOVAL)])) == [
        ("x", MARK_FOR_REMOVAL)
    ]


def test_private_keys_stay_inside():
    assert writes(graphs(), a=wrote(private=1)) == []


def test_keys_outside_of_its_output_stay_inside():
    output = typed({"y": Any}, total=True)
    assert writes(graphs(output_schema=output), a=wrote(x=1, y=2, log=["a"])) == [("y", 2)]


def test_shared_writes_come_first_then_the_others_by_name():
    got = writes(graphs(), a=wrote(y=1, log=["a"], x=2), b=wrote(log=["b"]))
    assert got == [("log", ["a"]), ("log", ["b"]), ("x", 2), ("y", 1)]


def test_what_comes_back_is_a_copy():
    child = Child(graphs(), a=wrote(x=[1], log=[["a"]]))
    outcome = child.run()
    state = child.script.loop.state
    for name, value in outcome.writes:
        value.append("changed")
        assert "changed" not in state.values[name]
        assert all("changed" not in written for _, written in state.written)


def test_open_states_give_back_every_key_that_was_written():
    assert writes(graphs(None, None), {"k": 1, "other": 2}, a=wrote(k=3, new=4)) == [("k", 3), ("new", 4)]


def test_an_open_child_gives_back_the_parents_keys_only():
    assert writes(graphs(inner=None), a=wrote(x=1, elsewhere=2)) == [("x", 1)]


def test_an_open_parent_takes_the_childs_keys():
    assert writes(graphs(outer=None), a=wrote(private=1, log=["a"])) == [("log", ["a"]), ("private", 1)]


@pytest.mark.parametrize("entry", ["log", "x"])
def test_what_the_childs_first_router_wrote_comes_back(entry):
    body = {"__start__": lambda task: went("a", **{entry: [1]})(task)}
    assert writes(graphs(routers=[START]), {"log": ["in"]}, **body) == [(entry, [1])]


def test_the_parents_schema_checks_what_comes_back():
    checked = typed({"x": int}, total=True)
    child = Child(_validating(checked), a=wrote(x="three"))
    outcome = child.run()
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, InvalidUpdateError)
    assert (outcome.error.node, outcome.error.key) == ("c", "x")
    assert writes(_validating(checked), a=wrote(x="3")) == [("x", 3)]


def _validating(schema):
    child = StateGraph(Inner)
    child.add_node("a", never)
    child.add_edge(START, "a")
    parent = StateGraph(schema, validate=True)
    parent.add_node("c", child.compile())
    parent.add_edge(START, "c")
    return parent.compile().tables


def test_lenient_the_whole_output_comes_back():
    got = writes(graphs(strict=False), {"x": 1, "log": ["in"]}, a=wrote(log=["a"]))
    assert sorted(got) == [("log", ["in", "a"]), ("own", []), ("x", 1)]


# ── other ends ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pause_inside_pauses_the_task():
    child = Child(graphs(), a=wrote(x=1), b=asked("q"))
    outcome = child.run(saving=True)
    assert isinstance(outcome, Paused)
    assert outcome.task is child.task
    assert [q.id for q in outcome.questions] == ["b:2?q"]


def test_after_a_pause_its_own_writes_are_there_once():
    child = Child(graphs(), a=wrote(x=1, log=["a"]), b=asked("q", then=wrote(log=["b"])))
    child.run(saving=True, log=["in"])
    outcome = child.run(saving=True, answers={"b:2?q": 1}, log=["ignored"])
    assert outcome.writes == [("log", ["a"]), ("log", ["b"]), ("x", 1)]
    assert child.script.ran() == ["b:2"]
    assert child.run(saving=True).writes == outcome.writes


def test_stopped_anywhere_and_run_again_it_gives_the_same():
    bodies = {"a": wrote(x=1, log=["a"]), "b": wrote(y=2, log=["b"])}
    whole = Child(graphs(), **bodies)
    expected = whole.run(saving=True, log=["in"]).writes
    for k in range(len(whole.script.effects)):
        child = Child(graphs(), **bodies)
        with pytest.raises(Stop):
            child.run(saving=True, stop_at=k, log=["in"])
        child.failures.clear()
        assert child.run(saving=True, log=["in"]).writes == expected
        assert child.failures == []


def test_a_failure_inside_is_the_tasks_and_is_told_where():
    error = RuntimeError("down")
    child = Child(graphs(), a=failed(error))
    outcome = child.run()
    assert (type(outcome), outcome.task, outcome.error) == (Failed, child.task, error)
    assert child.failures == [(error, child.script.loop)]


def test_what_must_stop_the_process_isnt_an_outcome():
    child = Child(graphs(), a=failed(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        child.run()
    assert child.failures == []


# ── commands for the parent ──────────────────────────────────────────────────────────────────────────────────

PARENT = Command.PARENT


@pytest.mark.parametrize("graph", [PARENT, "c", "c:1"])
def test_a_command_for_the_parent_is_as_if_its_node_had_returned_it(graph):
    command = Command(graph=graph, update={"z": 9, "log": ["command"]}, goto=["d", Send("d", 1)])
    outcome = Child(graphs(), a=wrote(x=1, log=["a"]), b=escaped(command)).run()
    assert type(outcome) is Done
    assert outcome.writes == [("log", ["a"]), ("x", 1), ("z", 9), ("log", ["command"])]
    assert (outcome.targets, outcome.sends) == (["d"], [Send("d", 1)])


@pytest.mark.parametrize("edges", [[("c", "d")], [("c", END)], [(["c", "d"], "c")]])
def test_a_command_for_the_parent_may_stand_beside_edges(edges):
    outcome = Child(graphs(edges=edges), a=escaped(Command(graph=PARENT, goto="d"))).run()
    assert type(outcome) is Done
    assert outcome.targets == ["d"]


def test_a_commands_update_comes_after_what_the_child_committed():
    command = Command(graph=PARENT, update={"x": 9, "log": ["command"], "y": 8})
    outcome = Child(graphs(), a=wrote(x=1, log=["a"], y=2), b=escaped(command)).run()
    assert outcome.writes == [("log", ["a"]), ("x", 9), ("log", ["command"]), ("y", 8)]


def test_a_command_for_a_graph_further_out_goes_on():
    command = Command(graph="elsewhere", update={"z": 9})
    child = Child(graphs(), a=wrote(x=1), b=escaped(command))
    outcome = child.run()
    assert (type(outcome), outcome.task, outcome.command) == (Escaped, child.task, command)
    assert outcome.writes == [("x", 1)]


def test_a_namespace_names_a_graph():
    command = Command(graph="p:1|c:1", update={"z": 9})
    assert Child(graphs(), a=escaped(command)).run(namespace=("p:1", "c:1")).writes == [("z", 9)]
    assert type(Child(graphs(), a=escaped(command)).run(namespace=("c:1",))) is Escaped


def test_a_command_that_the_parent_cant_take_fails_the_task():
    for command, kind in (
        (Command(graph=PARENT, update={"unknown": 1}), InvalidUpdateError),
        (Command(graph=PARENT, goto="nowhere"), RoutingError),
    ):
        child = Child(graphs(), a=escaped(command))
        outcome = child.run()
        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, kind)
        assert outcome.error.node == "c"
        assert child.failures[0][0] is outcome.error


def test_a_command_without_anything_ends_the_child():
    outcome = Child(graphs(), a=wrote(x=1), b=escaped(Command(graph=PARENT))).run()
    assert (outcome.writes, list(outcome.targets), list(outcome.sends)) == ([("x", 1)], [], [])


def test_lenient_only_the_commands_update_comes_back():
    outcome = Child(
        graphs(strict=False), a=wrote(x=1), b=escaped(Command(graph=PARENT, update={"z": 9}))
    ).run()
    assert outcome.writes == [("z", 9)]


# ── what the tables say ──────────────────────────────────────────────────────────────────────────────────────


def test_which_keys_are_shared_and_returned():
    node = graphs().nodes["c"]
    assert node.shared_keys == {"log"}
    assert node.returned_keys == {"x", "y", "own"}
    assert node.project({"x": 1, "z": 2, "log": ["l"]}) == {"x": 1, "log": ["l"]}
    assert node.project_send({"x": [1]}) == {"x": [1]}


def test_open_states_are_handed_over_whole():
    node = graphs(None, None).nodes["c"]
    held = {"any": [1]}
    assert node.project(held) == held
    assert node.project(held)["any"] is not held["any"]
    assert "whatever" in node.returned_keys


def test_a_nested_state_remembers_what_it_wrote():
    child = Child(graphs(), a=wrote(x=1, log=["a"]), b=wrote(x=2, private=3))
    child.run(saving=True, y=0)
    assert child.store.state == State(
        2,
        {"x": 2, "y": 0, "private": 3, "log": ["a"], "own": []},
        written=(("log", ["a"]),),
        touched=("private", "x"),
        ran=("b",),
    )
