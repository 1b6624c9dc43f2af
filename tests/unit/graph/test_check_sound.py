"""The checker on sound graphs: nothing is found, and at most a note where one is named."""

import functools
import importlib
import operator
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypedDict

import pytest

import juncture
from juncture import (
    END,
    START,
    Command,
    InMemorySaver,
    IsLastStep,
    MessagesState,
    OverAllState,
    RemainingSteps,
    Runtime,
    Send,
    StateGraph,
    interrupt,
    task,
)

WORKER = "worker"
LATER = SimpleNamespace(name="b")


class State(TypedDict, total=False):
    x: int
    y: int
    z: dict[str, Any]
    log: Annotated[list[str], operator.add]


def say(state: Any) -> Any:
    return {"log": ["said"]}


def graph(names: str = "", *edges: tuple[Any, str], schema: Any = State, **options: Any) -> StateGraph:
    built = StateGraph(schema, **options)
    for name in names.split():
        built.add_node(name, say)
    for source, end in edges:
        built.add_edge(list(source) if isinstance(source, tuple) else source, end)
    return built


SOUND: dict[str, tuple[Callable[[], StateGraph], tuple[str, ...]]] = {}


def sound(make: Callable[[], StateGraph]) -> Callable[[], StateGraph]:
    SOUND[make.__name__] = (make, ())
    return make


def noted(*codes: str) -> Callable[[Callable[[], StateGraph]], Callable[[], StateGraph]]:
    def keep(make: Callable[[], StateGraph]) -> Callable[[], StateGraph]:
        SOUND[make.__name__] = (make, codes)
        return make

    return keep


# ── edges and joins ──────────────────────────────────────────────────────────────────────────────────────────


@sound
def one_node():
    return graph("a", (START, "a"), ("a", END))


@sound
def one_node_without_an_end():
    return graph("a", (START, "a"))


@sound
def a_chain():
    return graph("a b c", (START, "a"), ("a", "b"), ("b", "c"), ("c", END))


@sound
def branches_of_one_length():
    return graph("a b c", (START, "a"), (START, "b"), ("a", "c"), ("b", "c"), ("c", END))


@sound
def branches_that_end_on_their_own():
    return graph("a b c", (START, "a"), (START, "b"), ("b", "c"))


@sound
def unequal_branches_that_are_joined():
    return graph("a b c d", (START, "a"), (START, "b"), ("b", "c"), (("a", "c"), "d"), ("d", END))


@sound
def unequal_branches_that_wait():
    built = graph("a b c", (START, "a"), (START, "b"), ("b", "c"), ("a", "d"), ("c", "d"), ("d", END))
    return built.add_node("d", say, defer=True)


@sound
def a_node_after_a_deferred_one():
    built = graph("a b d e", (START, "a"), (START, "b"), ("a", "c"), ("b", "d"), ("c", "e"), ("d", "e"))
    return built.add_node("c", say, defer=True)


@sound
def exclusive_branches_of_unequal_length():
    built = graph("a b c d", (START, "a"), ("b", "c"), ("c", "d"), ("d", END))
    return built.add_conditional_edges("a", lambda s: "b" if s["x"] else "d")


@sound
def a_join_that_fires_with_what_arrived():
    built = graph("a b c d", (START, "a"), ("d", END)).add_edge(["b", "c"], "d", join="arrived")
    return built.add_conditional_edges("a", lambda s: "b" if s["x"] else "c")


@sound
def a_join_of_two_routers():
    built = graph("a b c d e", (START, "a"), (START, "b"), (("c", "d"), "e"), ("e", END))
    built.add_conditional_edges("a", lambda s: "c" if s["x"] else END)
    return built.add_conditional_edges("b", lambda s: "d" if s["x"] else END)


@sound
def a_join_of_branches_that_a_router_takes_together():
    built = graph("a b c d", (START, "a"), (("b", "c"), "d"), ("d", END))
    return built.add_conditional_edges("a", lambda s: ["b", "c"] if s["x"] else [END])


@sound
def a_join_whose_sources_an_unreadable_router_takes():
    built = graph("a b c d", (START, "a"), (("b", "c"), "d"), ("d", END))
    return built.add_conditional_edges("a", lambda s: sorted(s["log"]), ["b", "c"])


@sound
def a_join_that_a_loop_fills():
    built = graph("a b c d", (START, "a"), ("b", "a"), ("c", "a"), (("b", "c"), "d"), ("d", END))
    return built.add_conditional_edges("a", lambda s: "b" if s["x"] else "c" if s["y"] else END)


@sound
def a_join_after_exclusive_branches_met():
    built = graph("a b c d e f", (START, "a"), ("b", "d"), ("c", "d"), (START, "e"), (("d", "e"), "f"))
    return built.add_conditional_edges("a", lambda s: "b" if s["x"] else "c")


@sound
def a_join_into_the_end():
    return graph("a b", (START, "a"), (START, "b"), (("a", "b"), END))


# ── routers and loops ────────────────────────────────────────────────────────────────────────────────────────


@sound
def a_loop_with_an_exit():
    built = graph("a b", (START, "a"), ("b", "a"))
    return built.add_conditional_edges("a", lambda s: "b" if s["x"] < 3 else END)


@sound
def a_self_loop_with_an_exit():
    return graph("a", (START, "a")).add_conditional_edges("a", lambda s: s["x"] < 3, {True: "a", False: END})


@sound
def a_loop_that_an_empty_list_ends():
    built = graph("a b", (START, "a"), ("b", "a"))
    return built.add_conditional_edges("a", lambda s: ["b"] if s["x"] else [])


@sound
def a_loop_of_commands():
    def agent(state) -> Command[Literal["tools", "__end__"]]:
        return Command(goto="tools" if state["x"] else END)

    return graph("tools", (START, "agent"), ("tools", "agent")).add_node("agent", agent)


@sound
def a_loop_that_asks():
    def chat(state):
        return {"log": [interrupt("and now?")]}

    return graph("reply", (START, "chat"), ("chat", "reply"), ("reply", "chat")).add_node("chat", chat)


@task
def ask(question: str) -> str:
    return interrupt(question)


class Person:
    def ask(self, question: str) -> str:
        return self.really_ask(question)

    def really_ask(self, question: str) -> str:
        return juncture.interrupt(question)

    def node(self, state):
        return {"log": [self.ask("?")]}


@sound
def a_loop_that_asks_through_a_task():
    def chat(state):
        return {"log": [ask("and now?").result()]}

    return graph("", (START, "chat"), ("chat", "chat")).add_node("chat", chat)


@sound
def a_loop_that_asks_through_methods():
    return graph("", (START, "chat"), ("chat", "chat")).add_node("chat", Person().node)


@sound
def a_loop_that_asks_in_a_nested_graph():
    inner = graph("", (START, "chat"), ("chat", END)).add_node("chat", Person().node)
    return graph("b", (START, "chat"), ("chat", "b"), ("b", "chat")).add_node("chat", inner)


@sound
def a_loop_that_leaves_for_the_graph_around():
    def leave(state):
        return Command(goto="b", graph=Command.PARENT) if state["x"] else {"x": 1}

    inner = graph("", (START, "a"), ("a", END)).add_node("a", leave).compile()
    return graph("b", (START, "sub"), ("sub", "sub"), ("b", END), silence=("unreachable-node",)).add_node(
        "sub", inner
    )


@sound
def a_loop_with_an_unreadable_node():
    return graph("", (START, "a"), ("a", "a")).add_node("a", factory=lambda: say)


@sound
def a_router_that_may_go_anywhere():
    def route(state):
        return state["z"]["next"]

    return graph("a b c", (START, "a"), ("b", END), ("c", END)).add_conditional_edges("a", route)


@sound
def a_router_that_cant_be_read():
    return graph("a b", (START, "a"), ("b", END)).add_conditional_edges(
        "a", functools.partial(getattr, LATER, "name")
    )


@sound
def a_goto_that_may_go_anywhere():
    return graph("b c", (START, "a"), ("b", END)).add_node("a", lambda s: Command(goto=s["z"]["next"]))


@sound
def a_router_with_a_default():
    return graph("a b c", (START, "a"), ("b", END), ("c", END)).add_conditional_edges(
        "a", lambda s: [n for n in s["log"] if n], ["b"], default="c"
    )


@sound
def a_router_over_constants():
    def route(state):
        target = WORKER
        if state["x"]:
            target = END
        return target

    return graph("a worker", (START, "a"), ("worker", END)).add_conditional_edges("a", route)


@sound
def destinations_and_a_command():
    return graph("b", (START, "a"), ("b", END)).add_node(
        "a", lambda s: Command(goto="b"), destinations={"b": "on"}
    )


@sound
def a_command_without_a_goto_beside_edges():
    built = graph("b", (START, "a"), ("a", "b"), ("b", END))
    return built.add_node("a", lambda s: Command(update={"log": ["a"]}, goto=[]))


@sound
def a_command_for_the_parent_beside_edges():
    def leave(state):
        return Command(goto="anything", graph=Command.PARENT, update={"theirs": 1})

    return graph("b", (START, "a"), ("a", "b"), ("b", END)).add_node("a", leave)


@sound
def a_generator_that_routes():
    def node(state):
        yield {"log": ["a"]}
        yield Command(goto="b")

    return graph("b", (START, "a"), (START, "b")).add_node("a", node)


# ── sends ────────────────────────────────────────────────────────────────────────────────────────────────────


@sound
def map_and_reduce():
    def fan(state):
        return [Send("worker", {"item": i}) for i in state["log"]]

    built = graph("plan collect", (START, "plan"), ("worker", "collect"), ("collect", END))
    built.add_node("worker", lambda s: {"log": [s["item"]]})
    return built.add_conditional_edges("plan", fan)


@sound
def sends_that_a_helper_makes():
    def fan(state):
        return make_sends(state)

    built = graph("plan", (START, "plan")).add_node("worker", lambda s: {"log": [s["item"]]})
    return built.add_conditional_edges("plan", fan, ["worker"])


def make_sends(state: Any) -> list[Send]:
    return [Send("worker", {"item": i}) for i in state["log"]]


@sound
def sends_of_a_command():
    def plan(state) -> Command[Literal["worker"]]:
        return Command(goto=[Send("worker", {"item": i}) for i in state["log"]])

    return (
        graph("", (START, "plan")).add_node("plan", plan).add_node("worker", lambda s: {"log": [s["item"]]})
    )


@noted("concurrent-writes")
def a_single_send_that_writes_a_plain_key():
    built = graph("plan", (START, "plan")).add_node("worker", lambda s: {"x": s["item"]})
    return built.add_conditional_edges("plan", lambda s: Send("worker", {"item": 1}))


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


@sound
def parallel_writers_of_different_keys():
    built = graph("", (START, "a"), (START, "b"))
    return built.add_node("a", lambda s: {"x": 1}).add_node("b", lambda s: {"y": 1})


@sound
def parallel_writers_of_a_key_with_a_reducer():
    return graph("a b c", (START, "a"), (START, "b"), (START, "c"))


@sound
def writers_of_one_key_one_after_the_other():
    built = graph("", (START, "a"), ("a", "b"), ("b", END))
    return built.add_node("a", lambda s: {"x": 1}).add_node("b", lambda s: {"x": s["x"] + 1})


@sound
def writers_of_one_key_at_different_distances():
    built = graph("a", (START, "a"), ("a", "b"), (START, "c"))
    return built.add_node("b", lambda s: {"x": 1}).add_node("c", lambda s: {"x": 2})


@sound
def writers_of_one_key_on_exclusive_branches():
    built = graph("a", (START, "a"), ("b", END), ("c", END))
    built.add_node("b", lambda s: {"x": 1}).add_node("c", lambda s: {"x": 2})
    return built.add_conditional_edges("a", lambda s: "b" if s["x"] else "c")


@sound
def a_parallel_writer_that_cant_be_read():
    def opaque(state):
        update = {}
        update.update(x=1)
        return update

    return graph("", (START, "a"), (START, "b")).add_node("a", lambda s: {"x": 1}).add_node("b", opaque)


@noted("concurrent-writes")
def a_value_that_was_handed_out_is_no_write():
    def touch(state):
        return {"z": state["z"]}

    return graph("", (START, "a"), (START, "b")).add_node("a", touch).add_node("b", lambda s: {"z": {}})


@sound
def keys_of_another_dict():
    def node(state):
        settings = {"unknown": 1}
        reply = call_model({"role": "user", "content": state["x"]})
        return {"log": [reply["content"] + str(settings["unknown"])]}

    return graph("", (START, "a"), ("a", END)).add_node("a", node)


def call_model(message: dict[str, Any]) -> dict[str, Any]:
    return message


@sound
def the_state_as_one_object():
    class Private(TypedDict):
        secret: int

    def write(state: Private):
        return {"secret": 1}

    def node(state: OverAllState):
        return {"x": state["secret"], "log": [*state.data, state.value("anything", "else")]}

    built = graph("", (START, "a"), ("a", "b"), ("b", END)).add_node("a", write)
    return built.add_node("b", node)


@sound
def a_state_that_is_handed_on():
    def node(state):
        return {"log": [call_model(state)["anything"]]}

    return graph("", (START, "a"), ("a", END)).add_node("a", node)


@sound
def a_name_that_hides_the_state():
    def node(state):
        def inner(state):
            return state["other"]

        return {"log": [inner({"other": "x"}), *[state["log"] for state in [{"log": "y"}]]]}

    return graph("", (START, "a"), ("a", END)).add_node("a", node)


@sound
def a_name_that_stands_for_something_else_later():
    def node(state):
        state = call_model(state)
        return {"log": [state["other"]]}

    return graph("", (START, "a"), ("a", END)).add_node("a", node)


@sound
def a_key_that_may_be_missing():
    def node(state):
        if "x" in state:
            return {"y": state["x"]}
        try:
            return {"y": state["y"]}
        except KeyError:
            return {"y": state.get("x", 0)}

    return graph("", (START, "a"), ("a", END)).add_node("a", node)


@sound
def an_open_state():
    built = graph("", (START, "a"), ("a", "b"), ("b", END), schema=None)
    return built.add_node("a", lambda s: {"new": s["given"]}).add_node("b", lambda s: {"newer": s["new"]})


@sound
def managed_keys():
    class Managed(TypedDict, total=False):
        log: Annotated[list[str], operator.add]
        last: IsLastStep
        left: RemainingSteps

    def node(state):
        return {"log": [f"{state['left']} {state['last']}"]}

    return graph("", (START, "a"), ("a", END), schema=Managed).add_node("a", node)


@sound
def messages():
    def answer(state: MessagesState, runtime: Runtime):
        return {"messages": [{"role": "assistant", "content": state["messages"][-1]["content"]}]}

    return graph("", (START, "a"), ("a", END), schema=MessagesState).add_node("a", answer)


@dataclass
class Object:
    x: int = 0
    log: Annotated[list[str], operator.add] = field(default_factory=list[str])

    def shown(self) -> str:
        return str(self.x)


@sound
def an_object_as_the_state():
    def node(state: Object):
        return Object(x=state.x + 1, log=[state.shown()])

    return graph("", (START, "a"), ("a", END), schema=Object).add_node("a", node)


@sound
def one_value_as_the_state():
    return graph("", (START, "a"), ("a", END), schema=Annotated[list, operator.add]).add_node(
        "a", lambda s: ["x"]
    )


class Given(TypedDict):
    x: int


class Shown(TypedDict):
    y: int


@sound
def private_keys_that_are_written_and_read():
    built = graph("", (START, "a"), ("a", "b"), ("b", END), input_schema=Given, output_schema=Shown)
    built.add_node("a", lambda s: {"z": {"x": s["x"]}, "log": ["a"]})
    return built.add_node("b", lambda s: {"y": s["z"]["x"] + len(s["log"])})


@sound
def a_private_key_of_a_nodes_own_input():
    class Private(TypedDict):
        secret: int

    def open_it(state: Private):
        return {"y": state["secret"]}

    built = graph("", (START, "a"), ("a", "b"), ("b", END)).add_node("a", lambda s: {"secret": 1})
    return built.add_node("b", open_it)


@sound
def keys_that_an_unreadable_node_may_use():
    built = graph("", (START, "a"), ("a", "b"), ("b", END), input_schema=Given, output_schema=Shown)
    return built.add_node("a", functools.partial(call_model)).add_node("b", lambda s: {"y": s["z"]["x"]})


# ── kinds of nodes ───────────────────────────────────────────────────────────────────────────────────────────


@sound
def async_nodes_and_routers():
    async def node(state, writer):
        writer("x")
        value = await later(state["x"])
        return {"x": value, "log": ["a"]}

    async def route(state) -> Literal["a", "__end__"]:
        return "a" if await later(state["x"]) else END

    return graph("", (START, "a")).add_node("a", node).add_conditional_edges("a", route)


async def later(value: int) -> int:
    return value


class Callable_:  # noqa: N801 - a callable object as a node
    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, state: Any) -> Any:
        return {self.key: state["log"]}

    def method(self, state: Any) -> Any:
        return {"x": len(state["log"])}


@sound
def objects_methods_and_partials():
    built = graph("", (START, "a"), ("a", "b"), ("b", "c"), ("c", END)).add_node("a", Callable_("log"))
    built.add_node("b", Callable_("log").method)

    def node(flag, state, *, more):
        return {"x": state["x"] + flag + more}

    return built.add_node("c", functools.partial(node, 1, more=2))


@sound
def wrapped_functions():
    def traced(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @traced
    def node(state):
        return {"unknown": state["nothing"]}

    return graph("", (START, "a"), ("a", END)).add_node("a", node)


@sound
def nested_graphs():
    inner = graph("c d", (START, "c"), ("c", "d"), ("d", END))
    built = graph("a b", (START, "a"), ("a", "sub"), ("sub", "other"), ("other", "b"), ("b", END))
    return built.add_node("sub", inner).add_node("other", inner.compile())


@sound
def a_nested_graph_that_leaves_to_nodes_with_edges():
    inner = graph("", (START, "c")).add_node("c", lambda s: Command(goto="b", graph=Command.PARENT)).compile()
    return graph("b", (START, "sub"), ("sub", "b"), ("b", END)).add_node("sub", inner)


# ── what is found: nothing ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_found_in_a_sound_graph(name):
    make, notes = SOUND[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built = make()
        report = built.compile().check()
    assert [f"{f}" for f in report if f.severity != "note" or f.code not in notes] == []
    assert tuple(f.code for f in report) == notes
    assert built.check() == report


def test_a_nested_graph_that_leaves_for_nodes_that_are_reached():
    make, _ = SOUND["a_nested_graph_that_leaves_to_nodes_with_edges"]
    assert make().compile().invoke({"log": []})["log"]


def test_the_examples_are_sound(monkeypatch):
    folder = Path(__file__).resolve().parents[3] / "examples"
    monkeypatch.syspath_prepend(str(folder))
    built = {}
    for path in sorted(folder.glob("*.py")):
        build = getattr(importlib.import_module(path.stem), "build", None)
        if build is not None:
            built[path.stem] = build(*[InMemorySaver() for p in signature(build).parameters if p == "saver"])
    assert {"agent", "digest"} <= built.keys()
    assert {name: graph.check() for name, graph in built.items() if graph.check()} == {}


def layered(seed: int) -> StateGraph:
    """A graph of layers, each of whose nodes leads to some of the next layer: no node is reached at two distances."""
    chance = random.Random(seed)
    built = graph()
    layers: list[Sequence[str]] = [[START]]
    for depth in range(chance.randint(1, 5)):
        layers.append([f"n{depth}_{i}" for i in range(chance.randint(1, 4))])
        for name in layers[-1]:
            built.add_node(name, say)
        for name in layers[-1]:
            built.add_edge(chance.choice(layers[-2]), name)
        for source in layers[-2]:
            built.add_edge(source, chance.choice(layers[-1]))
    for name in layers[-1]:
        built.add_edge(name, END)
    return built


@pytest.mark.parametrize("seed", range(40))
def test_layers_are_sound(seed):
    assert layered(seed).check() == ()


def test_long_chains_and_wide_fans_are_checked_without_recursion():
    built = graph()
    for i in range(3_000):
        built.add_node(f"n{i}", say).add_edge(f"n{i - 1}" if i else START, f"n{i}")
    built.add_edge("n2999", END)
    assert built.check() == ()
