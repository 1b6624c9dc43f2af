"""Graphs as people write them, each once, from the names of either library.

Each returns the builder; its input, its config and the options of ``compile`` stand in its decorator. What LangGraph
1.2.24 does with them, where it may surprise, stands in the docstring: it was seen by running it.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypedDict


@dataclass(frozen=True)
class Case:
    """A graph, and how it is run."""

    build: Callable[[SimpleNamespace], Any]
    given: Any
    config: dict[str, Any]

    @property
    def name(self) -> str:
        return self.build.__name__


CASES: list[Case] = []


def case(given: Any, **config: Any) -> Callable[[Callable[[SimpleNamespace], Any]], Callable[..., Any]]:
    def register(build: Callable[[SimpleNamespace], Any]) -> Callable[[SimpleNamespace], Any]:
        CASES.append(Case(build, given, {"recursion_limit": 25, **config}))
        return build

    return register


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    total: Annotated[int, operator.add]
    topic: str
    other: Any


def says(*words: str) -> Callable[[Any], dict[str, Any]]:
    """A node that adds words to the log, with how long it found it."""
    return lambda state: {"log": [f"{word}{len(state.get('log', []))}" for word in words]}


def nodes(lib: SimpleNamespace, names: str, schema: Any = State) -> Any:
    """A builder with one saying node for every letter."""
    builder = lib.StateGraph(schema)
    for name in names:
        builder.add_node(name, says(name))
    return builder


# ── edges and joins ──────────────────────────────────────────────────────────────────────────────────────────


@case({"log": ["in"]})
def a_chain(lib):
    builder = nodes(lib, "")
    builder.add_sequence([("one", says("one")), ("two", says("two")), ("three", says("three"))])
    builder.set_entry_point("one")
    builder.set_finish_point("three")
    return builder


@case({"log": []})
def branches_declared_out_of_order(lib):
    """Writes merge by the names of the nodes, not as declared."""
    builder = nodes(lib, "cab")
    for name in "bca":
        builder.add_edge(lib.START, name)
    return builder


@case({"log": []})
def a_join(lib):
    builder = nodes(lib, "abcdz")
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "b")
    builder.add_edge("b", "c")
    builder.add_edge("c", "d")
    builder.add_edge(["a", "d"], "z")
    builder.add_edge("z", lib.END)
    return builder


@case({"log": []})
def branches_of_different_length_without_a_join(lib):
    """The node behind them runs once for each length."""
    builder = nodes(lib, "abcz")
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "b")
    builder.add_edge("a", "z")
    builder.add_edge("b", "c")
    builder.add_edge("c", "z")
    return builder


@case({"log": [], "total": 0})
def a_join_in_a_loop(lib):
    """It fires once for every round, and starts anew each time."""
    builder = nodes(lib, "ab")
    builder.add_node("joined", lambda state: {"log": ["joined"], "total": 1})
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "b")
    builder.add_edge(["a", "b"], "joined")
    builder.add_conditional_edges("joined", lambda state: ["a", "b"] if state["total"] < 3 else lib.END)
    return builder


@case({"log": []})
def a_join_whose_source_runs_twice_in_a_step(lib):
    """It counts once."""
    builder = nodes(lib, "abz")
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "b")
    builder.add_conditional_edges(lib.START, lambda state: [lib.Send("b", {"log": ["sent"]})])
    builder.add_edge(["a", "b"], "z")
    return builder


@case({"log": [], "total": 0})
def a_source_that_ran_twice_does_not_count_for_the_next_round(lib):
    """The second arrival of the first round is spent with it: in the second round the join waits for both."""
    builder = nodes(lib, "ab")
    builder.add_node("z", lambda state: {"log": ["z"], "total": 1})
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "b")
    builder.add_conditional_edges(lib.START, lambda state: [lib.Send("b", {"log": ["sent"]})])
    builder.add_edge(["a", "b"], "z")
    builder.add_conditional_edges("z", lambda state: "a" if state["total"] == 1 else lib.END)
    return builder


@case({"log": []})
def a_join_that_never_fills(lib):
    """The run ends without a word."""
    builder = nodes(lib, "abz")
    builder.add_edge(lib.START, "a")
    builder.add_edge(["a", "b"], "z")
    return builder


@case({"log": []})
def a_deferred_node(lib):
    """It waits for the longer branch, and runs once."""
    builder = nodes(lib, "abcd")
    builder.add_node("last", says("last"), defer=True)
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("a", "c")
    builder.add_edge("c", "d")
    builder.add_edge("b", "last")
    builder.add_edge("d", "last")
    return builder


@case({"log": []})
def a_deferred_join(lib):
    builder = nodes(lib, "abcx")
    builder.add_node("last", says("last"), defer=True)
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "b")
    builder.add_edge("b", "c")
    builder.add_edge("c", "x")
    builder.add_edge(["a", "b"], "last")
    return builder


@case({"log": []})
def a_deferred_join_whose_source_runs_again_while_it_waits(lib):
    """Everything that came before it runs belongs to that round: the second round waits for `b` again."""

    def route(state):
        return "b" if len(state["log"]) < 4 else lib.END

    builder = nodes(lib, "ab")
    builder.add_node("last", says("last"), defer=True)
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "b")
    builder.add_conditional_edges("a", route)
    builder.add_edge(["a", "b"], "last")
    builder.add_conditional_edges("last", lambda state: "a" if len(state["log"]) < 5 else lib.END)
    return builder


# ── routing ──────────────────────────────────────────────────────────────────────────────────────────────────


@case({"log": []})
def a_router_with_a_map(lib):
    builder = nodes(lib, "abc")
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: len(state["log"]) == 1, {True: "b", False: "c"})
    return builder


@case({"log": []})
def a_router_with_literals(lib):
    def route(state) -> Literal["b", "__end__"]:
        return "b" if state["log"] else "__end__"

    builder = nodes(lib, "ab")
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", route)
    return builder


@case({"log": []})
def a_router_that_goes_nowhere(lib):
    builder = nodes(lib, "ab")
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: [])
    return builder


@case({"log": []})
def two_routers_and_an_edge(lib):
    def first(state):
        return ["b"]

    def second(state):
        return ["c", lib.Send("b", {"log": ["sent"]})]

    builder = nodes(lib, "abcd")
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "d")
    builder.add_conditional_edges("a", first)
    builder.add_conditional_edges("a", second)
    return builder


@case({"log": [], "total": 5})
def a_conditional_entry(lib):
    builder = nodes(lib, "ab")
    builder.set_conditional_entry_point(lambda state: "b" if state["total"] > 3 else "a")
    return builder


@case({"log": []})
def a_route_to_nowhere(lib):
    """Ignored, with a line in the log."""
    builder = nodes(lib, "ab")
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: ["elsewhere", "b", lib.Send("elsewhere", {})])
    return builder


@case({"log": []})
def map_and_reduce(lib):
    """Packets run in the order sent, and their writes merge in it; the reducing node runs once."""

    def work(state):
        return {"log": [f"item {state['item']}"], "total": state["item"]}

    builder = nodes(lib, "az")
    builder.add_node("work", work)
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: [lib.Send("work", {"item": n}) for n in (3, 1, 2)])
    builder.add_edge("work", "z")
    return builder


@case({"log": []})
def a_node_due_by_an_edge_and_by_packets(lib):
    """First by its edge, then once for every packet."""
    builder = nodes(lib, "abc")
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "c")
    builder.add_edge("a", "b")
    builder.add_conditional_edges("a", lambda state: [lib.Send("b", {"log": ["x", "y"]})])
    builder.add_conditional_edges("c", lambda state: [lib.Send("a", {"log": []}), lib.Send("b", {})])
    return builder


@case({"log": []}, recursion_limit=6)
def a_node_that_sends_to_itself(lib):
    def step(state):
        return lib.Command(update={"log": ["step"]}, goto=lib.Send("step", {}) if "more" in state else ())

    builder = lib.StateGraph(State)
    builder.add_node("step", step)
    builder.add_conditional_edges(lib.START, lambda state: [lib.Send("step", {"more": True})])
    return builder


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────


@case({"log": []})
def a_command_beside_an_edge(lib):
    """Both lead on."""
    builder = nodes(lib, "bc")
    builder.add_node("a", lambda state: lib.Command(update={"log": ["a"]}, goto="b"))
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "c")
    return builder


@case({"log": []})
def a_command_with_pairs(lib):
    """Each pair is a write; `updates` shows them as a list once a key comes twice."""
    builder = nodes(lib, "b")
    pairs = [("log", ["p1"]), ("topic", "t"), ("log", ["p2"])]
    builder.add_node("a", lambda state: lib.Command(update=pairs, goto=["b", lib.END]))
    builder.add_edge(lib.START, "a")
    return builder


@case({"log": []})
def a_list_of_commands_and_dicts(lib):
    builder = nodes(lib, "bc")
    answer = [lib.Command(update={"log": ["1"]}, goto="c"), {"total": 2}, lib.Command(goto="b")]
    builder.add_node("a", lambda state: answer)
    builder.add_edge(lib.START, "a")
    return builder


@case({"log": []})
def commands_that_say_nothing(lib):
    """Shown in `updates` as None, and not in `values`."""
    builder = nodes(lib, "z")
    builder.add_node("a", lambda state: lib.Command())
    builder.add_node("b", lambda state: {})
    builder.add_node("c", lambda state: None)
    builder.add_node("d", lambda state: lib.Command(goto="z"))
    for name in "abcd":
        builder.add_edge(lib.START, name)
    return builder


@case({"log": []})
def a_packet_as_the_return_value(lib):
    builder = nodes(lib, "b")
    builder.add_node("a", lambda state: lib.Send("b", {"log": ["x"]}))
    builder.add_edge(lib.START, "a")
    return builder
