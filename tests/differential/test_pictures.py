"""Where everything is declared, LangGraph draws the same edges."""

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

from langgraph.graph import StateGraph as TheirGraph
from langgraph.types import Command as TheirCommand
from langgraph.types import Send as TheirSend

from juncture import Command, Send, StateGraph


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def act(state: State) -> dict[str, Any]:
    return {"log": ["x"]}


def first(state: State) -> Literal["a", "b", "__end__"]:
    return "a"


def our_go(state: State) -> Command[Literal["c", "d"]]:
    return Command(goto="c")


def their_go(state: State) -> TheirCommand[Literal["c", "d"]]:
    return TheirCommand(goto="c")


def built(graph: Callable[[Any], Any], go: Callable[..., Any], send: Callable[..., Any]) -> Any:
    inner = graph(State)
    inner.add_node("one", act)
    inner.add_node("two", act)
    inner.add_edge("__start__", "one")
    inner.add_conditional_edges("one", lambda state: True, {True: "two", False: "__end__"})
    outer = graph(State)
    for name in ("a", "b", "c", "d", "worker", "maybe"):
        outer.add_node(name, act)
    outer.add_node("go", go)
    outer.add_node("inner", inner.compile())
    outer.add_node("last", act, defer=True)
    outer.add_conditional_edges("__start__", first)
    outer.add_edge("a", "go")
    outer.add_edge(["c", "d"], "inner")
    outer.add_conditional_edges("b", lambda state: [send("worker", {"log": []})], ["worker"])
    outer.add_edge("worker", "last")
    outer.add_edge("inner", "last")
    outer.add_conditional_edges("last", lambda state: "no", {"yes": "maybe", "no": "__end__"})
    return outer.compile()


def test_the_edges_are_the_same():
    ours = built(StateGraph, our_go, Send).get_graph()
    theirs = built(TheirGraph, their_go, TheirSend).get_graph()

    def edges(drawn: Any) -> set[Any]:
        return {(edge.source, edge.target, edge.data, edge.conditional) for edge in drawn.edges}

    assert edges(ours) == edges(theirs)
    assert ours.nodes.keys() == theirs.nodes.keys()
    assert dict(ours.nodes["last"].metadata) == theirs.nodes["last"].metadata
