"""More graphs as people write them: failures and limits, kinds of state, nested graphs. See `handmade`."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from tests.differential.handmade import CASES, State, case, nodes


class Failure(Exception):
    """What a node raises."""


# ── failures and limits ──────────────────────────────────────────────────────────────────────────────────────


@case({"log": []})
def a_node_fails(lib):
    """What its sibling wrote isn't in the state."""

    def fail(state):
        raise Failure

    builder = nodes(lib, "ab")
    builder.add_node("fails", fail)
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("a", "fails")
    return builder


@case({"log": []})
def two_writers_of_a_key_without_a_reducer(lib):
    builder = nodes(lib, "")
    for name in "ab":
        builder.add_node(name, lambda state, name=name: {"topic": name})
        builder.add_edge(lib.START, name)
    return builder


@case({"log": []})
def an_answer_that_is_no_dict(lib):
    builder = nodes(lib, "")
    builder.add_node("a", lambda state: "text")
    builder.add_edge(lib.START, "a")
    return builder


@case({"log": []}, recursion_limit=3)
def a_loop_that_meets_the_limit(lib):
    builder = nodes(lib, "ab")
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("b", "a")
    return builder


@case({"log": []}, recursion_limit=2)
def a_run_that_would_end_at_the_limit(lib):
    """It fails: the limit has to exceed the number of steps."""
    builder = nodes(lib, "ab")
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    return builder


@case({"log": []})
def a_node_that_is_tried_again(lib):
    attempts = []

    def flaky(state):
        attempts.append(1)
        if len(attempts) < 3:
            raise Failure
        return {"log": ["done"]}

    builder = nodes(lib, "")
    policy = lib.RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=3, retry_on=Failure)
    builder.add_node("flaky", flaky, retry_policy=policy)
    builder.add_edge(lib.START, "flaky")
    return builder


# ── state ────────────────────────────────────────────────────────────────────────────────────────────────────


@case({"log": ["in"], "unknown": 1})
def keys_that_nobody_declared(lib):
    """Dropped, from the input and from an update; a task that wrote nothing else shows None."""
    builder = nodes(lib, "b")
    builder.add_node("a", lambda state: {"lost": 1, "log": [str("unknown" in state)]})
    builder.add_node("c", lambda state: {"lost": 1})
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "c")
    builder.add_edge("a", "b")
    return builder


@case({"topic": None})
def none_is_a_value(lib):
    def look(state):
        return {"log": [f"topic={state['topic']}", f"other={'other' in state}"], "other": None}

    builder = nodes(lib, "")
    builder.add_node("a", look)
    builder.add_node("b", look)
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    return builder


@case({})
def an_empty_input(lib):
    """It runs; `values` begins after the first step."""
    builder = nodes(lib, "ab")
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    return builder


@case({"log": ["in"]})
def one_overwrite(lib):
    """What was written before it in the step is lost."""
    builder = nodes(lib, "a")
    builder.add_node("b", lambda state: {"log": lib.Overwrite(["new"])})
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "b")
    return builder


@case({"log": []})
def two_overwrites(lib):
    builder = nodes(lib, "")
    for name in "ab":
        builder.add_node(name, lambda state, name=name: {"log": lib.Overwrite([name])})
        builder.add_edge(lib.START, name)
    return builder


@case({"least": 1, "text": "in"})
def zeros_of_reducers(lib):
    """Every reducer starts from its type's zero: the least of 0 and 5 is 0."""

    class Typed(TypedDict, total=False):
        least: Annotated[int, lambda old, new: min(old, new)]
        most: Annotated[int, lambda old, new: max(old, new)]
        text: Annotated[str, operator.add]
        tags: Annotated[set[str], operator.or_]

    builder = lib.StateGraph(Typed)
    builder.add_node("a", lambda state: {"least": 5, "most": -5, "text": "a", "tags": {"t"}})
    builder.add_edge(lib.START, "a")
    return builder


@case({"question": "q", "log": ["in"]})
def input_output_and_private_schemas(lib):
    """`values` shows only output keys here, and `updates` every key."""

    class Input(TypedDict):
        question: str

    class Output(TypedDict):
        answer: str

    class Private(TypedDict):
        secret: str

    class Whole(TypedDict, total=False):
        question: str
        answer: str
        log: Annotated[list[str], operator.add]

    def ask(state: Input) -> Private:
        return {"secret": state["question"] + "!"}

    def answer(state: Private):
        return {"answer": state["secret"] + "!", "log": sorted(state)}

    builder = lib.StateGraph(Whole, input_schema=Input, output_schema=Output)
    builder.add_node("ask", ask)
    builder.add_node("answer", answer)
    builder.add_edge(lib.START, "ask")
    builder.add_edge("ask", "answer")
    return builder


@dataclass
class Record:
    name: str = "none"
    items: Annotated[list[str], operator.add] = field(default_factory=list)


@case({"name": "given"})
def a_dataclass_as_state(lib):
    builder = lib.StateGraph(Record)
    builder.add_node("a", lambda state: {"items": [state.name]})
    builder.add_node("b", lambda state: {"items": [str(len(state.items))], "name": "b"})
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    return builder


@case(3)
def a_single_value_as_state(lib):
    builder = lib.StateGraph(Annotated[int, operator.add])
    builder.add_node("a", lambda value: value * 10)
    builder.add_node("b", lambda value: value + 1)
    builder.add_edge(lib.START, "a")
    builder.add_edge(lib.START, "b")
    return builder


@case({"log": []}, recursion_limit=4)
def the_steps_that_remain(lib):
    """Counted down from the limit less one; the last step is said one step early."""

    class Managed(TypedDict, total=False):
        log: Annotated[list[str], operator.add]
        remaining: lib.RemainingSteps
        last: lib.IsLastStep

    def look(state):
        return {"log": [f"{state['remaining']} {state['last']}"]}

    builder = lib.StateGraph(Managed)
    builder.add_node("a", look)
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 3 else lib.END)
    return builder


# ── nested graphs ────────────────────────────────────────────────────────────────────────────────────────────


def chain(lib, names: str, schema: Any = State) -> Any:
    builder = nodes(lib, names, schema)
    for source, target in zip([lib.START, *names], names, strict=False):
        builder.add_edge(source, target)
    return builder


@case({"log": ["in"], "topic": "t"})
def a_nested_graph(lib):
    """Its whole state comes back: lists with a reducer are doubled."""
    builder = nodes(lib, "ab")
    builder.add_node("nested", chain(lib, "xy").compile())
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "nested")
    builder.add_edge("nested", "b")
    return builder


@case({"log": ["in"]})
def a_nested_graph_with_keys_of_its_own(lib):
    class Inner(TypedDict, total=False):
        log: list[str]
        own: str

    inner = lib.StateGraph(Inner)
    inner.add_node("x", lambda state: {"own": "kept", "log": ["x", *state["log"]]})
    inner.add_edge(lib.START, "x")
    builder = nodes(lib, "a")
    builder.add_node("nested", inner.compile())
    builder.add_edge(lib.START, "nested")
    builder.add_edge("nested", "a")
    return builder


@case({"topic": "t"})
def two_nested_graphs_beside_each_other(lib):
    """Both write back a key that neither changed: a conflict."""
    builder = nodes(lib, "")
    for name in "ab":
        builder.add_node(name, chain(lib, "x").compile())
        builder.add_edge(lib.START, name)
    return builder


@case({"log": []})
def packets_to_a_nested_graph(lib):
    builder = nodes(lib, "a")
    builder.add_node("nested", chain(lib, "xy").compile())
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: [lib.Send("nested", {"log": [c]}) for c in "qp"])
    return builder


@case({"log": []})
def a_command_to_the_graph_around(lib):
    """What the nested graph had committed is discarded."""
    inner = nodes(lib, "x")
    inner.add_node(
        "leave", lambda state: lib.Command(graph=lib.Command.PARENT, update={"log": ["up"]}, goto="b")
    )
    inner.add_edge(lib.START, "x")
    inner.add_edge("x", "leave")
    builder = nodes(lib, "bc")
    builder.add_node("nested", inner.compile())
    builder.add_edge(lib.START, "nested")
    builder.add_edge("nested", "c")
    return builder


@case({"log": []})
def a_node_fails_in_a_nested_graph(lib):
    def fail(state):
        raise Failure

    inner = nodes(lib, "x")
    inner.add_node("fails", fail)
    inner.add_edge(lib.START, "x")
    inner.add_edge("x", "fails")
    builder = nodes(lib, "a")
    builder.add_node("nested", inner.compile())
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "nested")
    return builder


__all__ = ["CASES"]
