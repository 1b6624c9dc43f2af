"""The smallest graphs by which the random ones showed a fault, each against the naive interpreter."""

from __future__ import annotations

import contextlib
import operator
from typing import Annotated, Any, TypedDict

import pytest

import juncture as j
from tests.properties.graphs import (
    END,
    NOWHERE,
    START,
    Graph,
    Join,
    Node,
    Packet,
    Recorder,
    Router,
    Write,
    build,
    juncture,
)
from tests.properties.observe import DRIVERS, check_error, check_executions, expect, invoke

LOG = (Write("log"),)
SAYING = {name: Node(name, LOG) for name in "abc"}


def graph(*nodes: Node, edges: tuple[tuple[str, str], ...] = (), **more: Any) -> Graph:
    return Graph({"log": "add"}, nodes, edges, **more)


FOUND = {
    "a source that runs twice in the step that fills a join": graph(
        *SAYING.values(),
        edges=((START, "a"), (START, "b")),
        routers=(Router(START, ((Packet("b", value=[]),),)),),
        joins=(Join(("a", "b"), "c"),),
    ),
    "a source that runs again while a deferred join waits": graph(
        SAYING["a"],
        SAYING["b"],
        Node("c", LOG, defer=True),
        edges=((START, "a"), (START, "b"), ("a", "b")),
        joins=(Join(("a", "b"), "c"),),
    ),
    "a goto to the end beside an edge": graph(
        Node("a", LOG, form="command", goto=(END,)), SAYING["b"], edges=((START, "a"), ("a", "b"))
    ),
    "a goto beside a join": graph(
        Node("a", LOG, form="command", goto=("b",)),
        SAYING["b"],
        SAYING["c"],
        edges=((START, "a"),),
        joins=(Join(("a", "b"), "c"),),
    ),
    "a goto to an unknown node": graph(
        Node("a", LOG, form="command", goto=(NOWHERE,)), SAYING["b"], edges=((START, "a"), (START, "b"))
    ),
    "a packet to an unknown node": graph(
        SAYING["a"],
        SAYING["b"],
        edges=((START, "a"),),
        routers=(Router("a", ((Packet(NOWHERE), Packet("b", value=[])),)),),
    ),
    "a command to the graph around, beside an edge of its node": graph(
        Node(
            "a",
            form="graph",
            inner=graph(
                Node("x", LOG, form="parent", goto=("b",)), SAYING["b"], edges=((START, "x"), ("x", "b"))
            ),
        ),
        SAYING["b"],
        SAYING["c"],
        edges=((START, "a"), ("a", "c")),
    ),
    "a lone generator": graph(Node("a", LOG * 3, form="pieces"), edges=((START, "a"),)),
}


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("one", FOUND.values(), ids=FOUND)
def test_it_is_what_the_naive_interpreter_says(one: Graph, driver: str, strict: bool):
    expected = expect(one, {"log": []}, strict=strict)
    recorder = Recorder()
    seen = invoke(build(one, juncture(strict=strict), probe=recorder), {"log": []}, {}, driver)
    check_error(expected, seen.error)
    check_executions(expected, recorder.ran)
    if not expected.faults:
        assert dict(seen.result) == expected.run.values


class Outer(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    private: int


class Inner(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


@pytest.mark.parametrize("goto", [(), []], ids=repr)
def test_a_command_that_goes_nowhere_may_stand_beside_edges(goto):
    builder = j.StateGraph(Outer)
    builder.add_node("a", lambda state: j.Command(update={"log": ["a"]}, goto=goto))
    builder.add_node("b", lambda state: {"log": ["b"]})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    assert builder.compile().invoke({"log": []}) == {"log": ["a", "b"]}


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
def test_a_packet_cannot_bring_a_key_into_a_nested_graph_that_it_does_not_have(strict):
    seen = []
    inner = j.StateGraph(Inner, strict=strict)
    inner.add_node("x", lambda state: seen.append(dict(state)))
    inner.add_edge(START, "x")
    outer = j.StateGraph(Outer, strict=strict)
    outer.add_node("nested", inner.compile())
    outer.add_conditional_edges(START, lambda state: [j.Send("nested", {"log": ["sent"], "private": 1})])
    compiled = outer.compile()
    with contextlib.suppress(j.InvalidUpdateError):  # a strict graph may refuse it
        compiled.invoke({"log": []})
    assert all("private" not in state for state in seen)
