"""Which nodes wait in data-flow mode, and why."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from juncture import END, START, OverAllState, RemainingSteps, StateGraph
from juncture.channels import EphemeralValue, Topic


class Reads(TypedDict, total=False):
    a: int


class State(Reads, total=False):
    log: Annotated[list[str], operator.add]


class Passing(Reads, total=False):
    once: Annotated[int, EphemeralValue]


class Listed(TypedDict, total=False):
    a: Annotated[list[int], Topic(int, accumulate=True)]


class Managed(Reads, total=False):
    left: RemainingSteps


def node(state: Reads) -> None:
    """Reads one key."""


def built(
    schema: Any = State, action: Any = node, *, ends: bool = True, schedule: Any = "dataflow", **options: Any
) -> Any:
    """One node, compiled."""
    builder = StateGraph(schema)
    builder.add_node("n", action, **({"writes": ["a"]} | options))
    builder.add_edge(START, "n")
    if ends:
        builder.add_edge("n", END)
    return builder.compile(schedule=schedule)


def everywhere(state: OverAllState) -> str:
    """Is handed the whole state."""
    return END


def told(graph: Any) -> list[str]:
    """What is said of barriers."""
    return [finding.message for finding in graph.check() if finding.code == "barrier"]


def test_a_node_that_says_everything_is_no_barrier():
    assert told(built()) == []
    assert told(built(Managed)) == []


def test_a_superstep_run_has_none():
    assert told(built(writes=None, schedule="superstep")) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"writes": None}, "doesn't declare what it writes"),
        ({"ends": False}, "may lead anywhere"),
        ({"defer": True}, "is deferred"),
        ({"action": None, "factory": lambda: node}, "factory"),
        ({"schema": Passing}, "keys that every step changes"),
    ],
)
def test_what_waits_says_why(options, says):
    assert [says in message for message in told(built(**options))] == [True]


def test_a_key_with_a_channel_is_waited_for():
    assert "channel isn't" in told(built(Listed))[0]


def test_a_router_that_is_handed_everything_is_waited_for():
    builder = StateGraph()
    builder.add_node("n", node, writes=["a"])
    builder.add_edge(START, "n")
    builder.add_conditional_edges("n", everywhere, [END])
    assert "nothing names" in told(builder.compile(schedule="dataflow"))[0]


def test_a_state_without_a_schema_names_no_keys():
    builder = StateGraph()
    builder.add_node("n", lambda state: None, writes=["a"])
    builder.add_edge(START, "n")
    builder.add_edge("n", END)
    assert "nothing names" in told(builder.compile(schedule="dataflow"))[0]
