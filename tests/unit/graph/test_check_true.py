"""What the checker is certain of happens when the graph runs, and what can't happen isn't told: on random graphs.

All graphs here are of plain edges and joins, about which everything is known, so both directions must hold.
"""

import operator
import random
import warnings
from collections import Counter
from typing import Annotated, Any, TypedDict

import pytest

from juncture import END, START, GraphRecursionError, InvalidUpdateError, StateGraph, StuckJoinError


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    x: str


def quiet(name: str) -> Any:
    return lambda state: {"log": [name]}


def writing(name: str) -> Any:
    return lambda state: {"log": [name], "x": "written"}


def made(seed: int, *, joins: int, loops: bool, writers: float) -> StateGraph:
    """A graph of up to eight nodes, each of which some earlier node (or `START`, or nothing) leads to."""
    chance = random.Random(seed)
    names = [f"n{i}" for i in range(chance.randint(1, 8))]
    graph = StateGraph(State, silence=["dead-end"])
    for name in names:
        graph.add_node(name, (writing if chance.random() < writers else quiet)(name))
    for i, name in enumerate(names):
        for _ in range(chance.choice((0, 1, 1, 1, 2))):
            graph.add_edge(chance.choice([START, *names[:i]]), name)
        if loops and chance.random() < 0.15:
            graph.add_edge(name, chance.choice(names[: i + 1]))
        if chance.random() < 0.2:
            graph.add_edge(name, END)
    for _ in range(joins if len(names) > 2 else 0):
        target = chance.randrange(2, len(names))
        graph.add_edge(chance.sample(names[:target], 2), names[target])
    return graph.add_edge(START, names[0])


def outcome(graph: StateGraph) -> tuple[Counter[str], type[BaseException] | None]:
    """How often each node ran, and what ended the run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = graph.compile()
    ran: Counter[str] = Counter()
    try:
        for part in compiled.stream({"log": []}, {"recursion_limit": 40}, stream_mode="tasks"):
            if "input" in part:
                ran[part["name"]] += 1
    except (GraphRecursionError, StuckJoinError, InvalidUpdateError) as error:
        return ran, type(error)
    return ran, None


def codes(graph: StateGraph) -> dict[str, set[str]]:
    """Code -> the nodes concerned, of what is certain."""
    found: dict[str, set[str]] = {}
    for finding in graph.check().of("warning"):
        found.setdefault(finding.code, set()).update(finding.nodes)
    return found


@pytest.mark.parametrize("seed", range(150))
def test_plain_edges(seed):
    graph = made(seed, joins=0, loops=False, writers=0)
    ran, ended = outcome(graph)
    told = codes(graph)
    assert ended is None
    assert told.pop("unreachable-node", set()) == graph.nodes.keys() - ran.keys()
    again = told.pop("unequal-branches", set())
    assert all(ran[name] > 1 for name in again)
    assert bool(again) == any(count > 1 for count in ran.values())
    assert told == {}


@pytest.mark.parametrize("seed", range(150))
def test_loops(seed):
    graph = made(seed, joins=0, loops=True, writers=0)
    ran, ended = outcome(graph)
    told = codes(graph)
    assert (ended is GraphRecursionError) == ("endless-loop" in told)
    assert told.get("unreachable-node", set()) == graph.nodes.keys() - ran.keys()
    assert all(
        ran[name] > 1 for name in told.get("endless-loop", set()) | told.get("unequal-branches", set())
    )


@pytest.mark.parametrize("seed", range(150))
def test_joins(seed):
    graph = made(seed, joins=2, loops=False, writers=0)
    ran, ended = outcome(graph)
    told = codes(graph)
    assert told.get("unreachable-node", set()).isdisjoint(ran)
    assert ended in (None, StuckJoinError)
    lost = [f for f in graph.check() if f.code == "stuck-join"]
    for finding in lost:
        sources = set(finding.nodes[1:])
        assert not sources <= ran.keys()
        assert ended is StuckJoinError or sources.isdisjoint(ran)
    if ended is StuckJoinError and max(ran.values()) == 1:  # else a join that was filled may wait for more
        assert lost


@pytest.mark.parametrize("seed", range(150))
def test_writes_that_collide(seed):
    graph = made(seed, joins=0, loops=False, writers=0.6)
    _, ended = outcome(graph)
    told = codes(graph)
    if not told.get("unequal-branches"):  # then a node runs in more steps than the one that it is told for
        assert (ended is InvalidUpdateError) == ("concurrent-writes" in told)
    elif "concurrent-writes" in told:
        assert ended is InvalidUpdateError
