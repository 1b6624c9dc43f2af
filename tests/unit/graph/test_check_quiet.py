"""Sound graphs that look faulty to somebody who reads only half of the code: `compile` is silent, and they run."""

# ruff: noqa: RET504 - what is assigned last is what is tested here

import functools
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, TypedDict, cast

import pytest

from juncture import START, Command, InvalidUpdateError, Runtime, StateGraph, interrupt
from tests.faulty import faulty


class State(TypedDict, total=False):
    x: int
    items: list[int]


def nothing(state: Any) -> None:
    return None


# ── loops that somebody ends ─────────────────────────────────────────────────────────────────────────────────


def ask(question: str) -> Any:
    return interrupt(question)


ASKING = {"ask": ask, "other": len}
LISTED = [(ask,)]
ask_a_name = functools.partial(ask, "name?")


class Desk:
    def __init__(self, tools: Any) -> None:
        self.tools = tools
        self.front = self

    def __call__(self, state: Any) -> Any:
        return {"x": self.tools["ask"]("?")}

    def through_another(self, state: Any) -> Any:
        return {"x": self.front.answer}

    @property
    def answer(self) -> Any:
        return self.tools["ask"]("?")

    def dynamic(self, state: Any) -> Any:
        return {"x": getattr(self, f"{'ask'}_it")()}

    def ask_it(self) -> Any:
        return interrupt("?")


class Asks:
    """Asks whoever makes one."""

    def __init__(self) -> None:
        self.said = interrupt("?")


def imports(state: Any) -> Any:
    from tests.unit.graph.test_check_quiet import ask as imported

    return {"x": imported("?")}


def by_default(state: Any, tool: Callable[[str], Any] = ask) -> Any:
    return {"x": tool("?")}


def enclosed(tools: Any) -> Callable[[Any], Any]:
    return lambda state: {"x": tools["ask"]("?")}


ASKERS: dict[str, Callable[..., Any]] = {
    "of a dict": lambda state: {"x": ASKING["ask"]("?")},
    "of a list": lambda state: {"x": next(one("?") for (one,) in LISTED)},
    "a partial": lambda state: {"x": ask_a_name()},
    "an argument of a partial": functools.partial(lambda tool, state: {"x": tool("?")}, ask),
    "of an object's dict": Desk(ASKING),
    "of an object's object": Desk(ASKING).through_another,
    "found by its name": Desk(ASKING).dynamic,
    "a partial of an object": Desk({"ask": ask_a_name}).dynamic,
    "a class that asks": lambda state: {"x": Asks().said},
    "imported inside": imports,
    "a default": by_default,
    "enclosed": enclosed(ASKING),
}


@pytest.mark.parametrize("name", ASKERS)
def test_a_loop_whose_node_may_ask(name):
    graph = StateGraph(State).add_node("ask", ASKERS[name]).add_node("b", nothing)
    graph.add_edge(START, "ask").add_edge("ask", "b").add_edge("b", "ask")
    assert graph.check() == ()
    assert graph.compile("memory:").invoke({}, thread_id="1").interrupts


def leaves(state: Any) -> Any:
    if state.get("x", 0) > 2:
        return Command(graph=Command.PARENT, goto="done", update={"x": 100})
    return {"x": state.get("x", 0) + 1}


def away() -> Any:
    return Command(graph=Command.PARENT, goto="done", update={"x": 100})


def leaves_by_another(state: Any) -> Any:
    return away() if state.get("x", 0) > 2 else {"x": state.get("x", 0) + 1}


@pytest.mark.parametrize("leave", [leaves, leaves_by_another])
def test_a_loop_that_is_left_for_the_graph_around(leave):
    inner = StateGraph(State).add_node("a", nothing).add_node("b", leave)
    inner.add_edge(START, "a").add_edge("a", "b").add_edge("b", "a")
    outer = StateGraph(State).add_node("inner", inner.compile(), destinations=("done",))
    outer.add_node("done", nothing).add_edge(START, "inner")
    assert outer.compile().invoke({}) == {"x": 100}


@faulty("endless-loop")
def test_a_loop_that_asks_nobody_is_still_told():
    graph = StateGraph(State).add_node("a", lambda state: {"x": sum(state["items"])}).add_node("b", nothing)
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "a")
    assert [(f.code, f.severity) for f in graph.check()] == [("endless-loop", "warning")]


# ── writes that are none ─────────────────────────────────────────────────────────────────────────────────────


def same(value: Any) -> Any:
    return value


def items_of(state: Any) -> Any:
    return state["items"]


def by_a_local(state: Any) -> Any:
    items = state["items"]
    return {"items": same(items)}


def by_a_loop(state: Any) -> Any:
    kept = None
    for value in state.values():
        kept = same(value)
    return {"items": kept}


GIVEN_BACK: dict[str, Callable[[Any], Any]] = {
    "cast": lambda state: {"items": cast("list[int]", state["items"])},
    "a call": lambda state: {"items": same(state["items"])},
    "a call with get": lambda state: {"items": same(state.get("items"))},
    "a call with all": lambda state: {"items": same(state)["items"]},
    "a call that takes all": lambda state: {"items": items_of(state)},
    "a local": by_a_local,
    "a loop": by_a_loop,
}


@pytest.mark.parametrize("name", GIVEN_BACK)
def test_what_a_call_gives_back_may_be_what_was_handed_out(name):
    graph = StateGraph(State).add_node("a", GIVEN_BACK[name]).add_node("b", lambda state: {"items": [2]})
    graph.add_edge(START, "a").add_edge(START, "b")
    assert graph.compile().invoke({"items": [1]}) == {"items": [2]}
    assert {f.severity for f in graph.check()} <= {"note"}


MADE: dict[str, Callable[[Any], Any]] = {
    "of another key": lambda state: {"items": same([state["x"]])},
    "of another key with get": lambda state: {"items": same(state.get("x"))},
    "of nothing": lambda state: {"items": same([3])},
    "by a class": lambda state: {"items": list(state["items"])},
    "by a method": lambda state: {"items": state["items"].copy()},
}


@pytest.mark.parametrize("name", MADE)
@faulty("concurrent-writes")
def test_what_a_call_makes_is_a_write(name):
    graph = StateGraph(State).add_node("a", MADE[name]).add_node("b", lambda state: {"items": [2]})
    graph.add_edge(START, "a").add_edge(START, "b")
    assert [(f.code, f.severity) for f in graph.check()] == [("concurrent-writes", "warning")]
    with pytest.raises(InvalidUpdateError, match="only one value per step"):
        graph.compile().invoke({"items": [1], "x": 1})


# ── keys that a node puts into its own copy ──────────────────────────────────────────────────────────────────


def fill(state: Any) -> None:
    state["own"] = 3


def sets(state: Any) -> Any:
    state["own"] = 3
    return {"x": state["own"]}


def updates(state: Any) -> Any:
    state.update(own=3)
    return {"x": state["own"]}


def has_it_filled(state: Any) -> Any:
    fill(state)
    return {"x": state["own"]}


def by_another_name(state: Any) -> Any:
    other = state
    other["own"] = 3
    return {"x": state["own"]}


@pytest.mark.parametrize("node", [sets, updates, has_it_filled, by_another_name])
def test_a_key_that_the_node_may_have_put_there(node):
    graph = StateGraph(State).add_node("a", node).add_edge(START, "a")
    assert graph.compile().invoke({}) == {"x": 3}
    assert {f.severity for f in graph.check()} <= {"note"}


def prints(state: Any) -> Any:
    print(len(state), [*state.items()], f"{state}", "x" in state, state.get("x"))
    return {"x": state["own"]}


@faulty("unknown-key")
def test_a_key_that_nobody_can_have_put_there():
    graph = StateGraph(State).add_node("a", prints).add_edge(START, "a")
    assert [(f.code, f.severity) for f in graph.check()] == [("unknown-key", "warning")]
    with pytest.raises(KeyError):
        graph.compile().invoke({})


# ── routes ───────────────────────────────────────────────────────────────────────────────────────────────────


def captures(state: Any) -> Any:
    target = "a"
    match state:
        case {"items": [*target]}:
            pass
        case {"x": target}:
            pass
    return target


@pytest.mark.parametrize("given", [{"x": "b"}, {"items": ["b"]}])
def test_a_name_that_a_pattern_binds(given):
    graph = StateGraph().add_node("a", nothing).add_node("b", lambda state: {"ran": True})
    graph.add_conditional_edges(START, captures)
    assert graph.compile().invoke(given)["ran"]
    assert graph.check() == ()


def test_a_text_as_the_state_is_no_destination():
    def talk(state: str) -> Any:
        return Command(goto="b", update="x") if len(state) > 3 else "some text"

    graph = StateGraph(str).add_node("a", talk).add_node("b", lambda state: "done").add_edge(START, "a")
    assert graph.compile().invoke("xx").value == "some text"
    assert graph.check() == ()


# ── names that are assigned anew ─────────────────────────────────────────────────────────────────────────────

ENDS = {"low": "a", "high": "b"}


def mapped(state: Any) -> Any:
    target = "low"
    if state["x"] > 1:
        target = "high"
    target = ENDS[target]
    return target


def mapped_or_not(state: Any) -> Any:
    target = "low" if state["x"] < 2 else "high"
    try:
        target = ENDS[target]
    except KeyError:
        target = "a"
    return target


def first_something_else(state: Any) -> Any:
    target = "?"
    if state["x"] > 1:
        target = "b"
    elif state["x"]:
        target = "a"
    else:
        raise ValueError
    return target


def matched(state: Any) -> Any:
    target = "?"
    match state["x"]:
        case 1:
            target = "a"
        case _:
            target = "b"
    return target


def in_a_loop(state: Any) -> Any:
    target = "?"
    for x in (1, state["x"]):
        if x > 1:
            target = "b"
            return target
        target = "?"
    target = "a"
    return target


def in_a_with(state: Any) -> Any:
    target = "low" if state["x"] < 2 else "high"
    with nullcontext():
        target = ENDS[target]
    return target


def in_a_with_that_may_be_left(state: Any) -> Any:
    target = "a"
    with suppress(ZeroDivisionError):
        1 // (state["x"] - 1)
        target = "b"
    return target


@pytest.mark.parametrize(
    "router",
    [mapped, mapped_or_not, first_something_else, matched, in_a_loop, in_a_with, in_a_with_that_may_be_left],
)
@pytest.mark.parametrize(("x", "node"), [(1, "a"), (2, "b")])
def test_only_the_last_of_what_is_assigned_counts(router, x, node):
    graph = StateGraph(key_strategies={"x": max}).add_conditional_edges(START, router)
    graph.add_node("a", lambda state: {"ran": "a"}).add_node("b", lambda state: {"ran": "b"})
    assert graph.compile().invoke({"x": x})["ran"] == node
    assert graph.check() == ()


def test_a_dict_that_another_one_replaces_is_no_write():
    def node(state: Any) -> Any:
        update = {"found": state["items"]}
        update["more"] = [1]
        update = {"items": update["found"] + update["more"]}
        return update

    graph = StateGraph(State).add_node("a", node).add_edge(START, "a")
    assert graph.compile().invoke({"items": [0]}) == {"items": [0, 1]}
    assert graph.check() == ()


@faulty("unknown-target")
def test_what_may_still_be_there_counts():
    def router(state: Any) -> Any:
        target = "aa"
        if state["x"] > 1:
            target = "a"
        return target

    graph = StateGraph(State).add_conditional_edges(START, router).add_node("a", nothing)
    assert [(f.code, f.remedy) for f in graph.check()] == [("unknown-target", "Did you mean 'a'?")]


# ── functions that are only known when the graph runs ────────────────────────────────────────────────────────


class Context:
    def ask(self, question: str) -> Any:
        return interrupt(question)


def by_the_context(state: Any, runtime: Runtime[Context]) -> Any:
    return {"x": runtime.context.ask("?")}


def by_the_config(state: Any, config: Any) -> Any:
    return {"x": config["configurable"]["ask"]("?")}


@pytest.mark.parametrize("node", [by_the_context, by_the_config])
def test_a_loop_that_asks_by_what_the_run_is_given(node):
    graph = StateGraph(State, Context).add_node("a", node).add_edge(START, "a").add_edge("a", "a")
    config = {"configurable": {"ask": ask, "thread_id": "1"}}
    assert graph.compile("memory:").invoke({}, config, context=Context()).interrupts
    assert graph.check() == ()
