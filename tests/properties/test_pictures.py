"""A drawing is the graph: the edges drawn are those that a run can take, and what a run took is drawn."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture import Event
from tests.properties.graphs import END, START, Graph, Recorder, build, juncture, named
from tests.properties.strategies import LENIENT, STRICT, examples, graphs, inputs

pytestmark = pytest.mark.timeout(400)  # a failure takes minutes to be made small


def edges_of(graph: Graph, *, strict: bool, opened: bool, prefix: str = "") -> set[tuple[str, str]]:
    """Every edge that a run of a description can take, but the commands of nested graphs for the one around them."""
    inner = {node.name: node.inner for node in graph.nodes if node.inner is not None} if opened else {}

    def leaving(name: str) -> str:
        return f"{prefix}{name}:{END}" if name in inner else prefix + name

    def entering(name: str) -> str:
        return f"{prefix}{name}:{START}" if name in inner else prefix + name

    taken = {*graph.edges, *((source, join.target) for join in graph.joins for source in join.sources)}
    for router in graph.routers:
        taken |= {(router.source, target) for row in router.table for target in named(row, graph)}
    for node in graph.nodes:
        if node.form in {"command", "pairs"} and not (strict and node.name in graph.sources()):
            taken |= {(node.name, target) for target in named(node.goto, graph)}
    known = {source for source, _ in taken} | graph.sources()
    taken |= {(node.name, END) for node in graph.nodes if node.name not in known}
    found = {(leaving(source), entering(target)) for source, target in taken}
    for name, nested in inner.items():
        found |= edges_of(nested, strict=strict, opened=True, prefix=f"{prefix}{name}:")
    return found


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@examples(40)
@given(data=st.data(), opened=st.booleans())
def test_the_edges_drawn_are_those_that_can_be_taken(strict, data, opened):
    graph = data.draw(graphs((STRICT if strict else LENIENT) - {"parent"}))
    drawn = build(graph, juncture(strict=strict), declared=True).get_graph(xray=opened)
    assert {(edge.source, edge.target) for edge in drawn.edges if edge.kind != "unknown"} == edges_of(
        graph, strict=strict, opened=opened
    )
    assert {end for edge in drawn.edges for end in (edge.source, edge.target)} <= drawn.nodes.keys()


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "undeclared"])
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@examples(40)
@given(data=st.data())
def test_what_a_run_took_is_drawn(strict, declared, data):
    graph = data.draw(graphs(STRICT if strict else LENIENT))
    recorder, events = Recorder(), list[Event]()
    compiled = build(graph, juncture(strict=strict), declared=declared, probe=recorder)
    drawn = compiled.get_graph()
    ways: dict[str, set[str]] = {name: set() for name in drawn.nodes}
    for edge in drawn.edges:
        ways[edge.source].add("?" if edge.kind == "unknown" else edge.target)
    late = {node.name for node in graph.nodes if node.defer} | {join.target for join in graph.joins}
    ran = [{START}]
    parts = compiled.stream(
        data.draw(inputs(graph)),
        {"recursion_limit": 12},
        stream_mode="tasks",
        version="parts",
        listeners=[events.append],
    )
    try:
        for part in parts:
            if "input" in part.data:
                while len(ran) <= part.step:
                    ran.append(set())
                ran[part.step].add(part.node)
    except Exception:  # what a run fails with, other tests look at; it has begun these tasks all the same
        pass
    for step, names in enumerate(ran[1:], 1):
        for name in names:
            before = set().union(*ran[:step]) if name in late else ran[step - 1]
            assert any(ways[other] & {name, "?"} for other in before), (name, step, ways)
    over = compiled.get_graph(xray=True).with_run(events)
    visits = Counter(":".join((*path, name)) for path, name, _ in recorder.ran)
    assert visits <= Counter(
        {node.id: node.run.visits for node in over.nodes.values() if node.run is not None}
    )
    began = {
        name for name, node in over.nodes.items() if node.run is not None or node.kind in {"start", "end"}
    }
    assert {edge.source for edge in over.edges if edge.taken} <= began
    assert {edge.target for edge in over.edges if edge.taken and edge.kind != "unknown"} <= began
