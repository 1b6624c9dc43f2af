"""Where a task leads: conditional edges, commands and sends, and what can't be a target (right-behaviour 10 and 11)."""

import threading
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import pytest

from juncture import (
    END,
    START,
    Append,
    Command,
    GraphBuildError,
    JunctureError,
    RoutingError,
    Runtime,
    Send,
    StateGraph,
    failure,
    get_config,
)
from tests.behaviour.building import builder, chain, nothing, shown, thread, wrote
from tests.faulty import faulty


class Log(TypedDict, total=False):
    messages: Annotated[list[str], Append()]
    prop1: Any
    steps: int


def n(text: str):
    """A node that says `text`."""
    return wrote("messages", text)


def speakers(*names: str):
    """Nodes that say their names."""
    return {name: n(name) for name in names}


def order(engine: Any, graph: Any, given: Any, **options: Any) -> list[str]:
    """The nodes that ran, as the step events tell it."""
    return [next(iter(item)) for item in engine.stream(graph, given, stream_mode="updates", **options)]


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────


@faulty("unreachable-node")
def test_a_command_node_chooses_and_updates(engine):
    """Case C28: S→A→B(goto C2, update); C1, C2→E: order A, B, C2."""

    def b(state):
        return Command(goto="C2", update={"messages": "B", "prop1": "C2"})

    graph = builder(
        Log, speakers("A", "C1", "C2") | {"B": b}, (START, "A"), ("A", "B"), ("C1", END), ("C2", END)
    )
    graph = graph.compile()
    assert order(engine, graph, {}) == ["A", "B", "C2"]
    assert engine.invoke(graph, {}) == {"messages": ["A", "B", "C2"], "prop1": "C2"}


def test_a_command_on_an_edge_updates_before_the_target(engine):
    """Case C29: the router's update is seen by the node that it leads to, and applied once."""
    seen = []

    def a3(state):
        seen.append(state["prop1"])
        return {"messages": "a3"}

    graph = builder(Log, speakers("a1", "a2") | {"a3": a3}, (START, "a1"), ("a1", "a2"))
    graph.add_conditional_edges(
        "a2", lambda s: Command(update={"prop1": "cmd", "messages": "edge"}, goto="a3")
    )
    result = engine.invoke(graph.compile(), {})
    assert seen == ["cmd"]
    assert result == {"messages": ["a1", "a2", "edge", "a3"], "prop1": "cmd"}


def test_a_routers_update_shows_as_its_nodes(engine):
    """Case C29, defect 28: routes and updates are separate; the update belongs to the task whose edge it is."""
    graph = builder(Log, speakers("a1", "a2"), (START, "a1"))
    graph.add_conditional_edges("a1", lambda s: Command(update={"prop1": "cmd"}, goto="a2"))
    updates = engine.stream(graph.compile(), {}, stream_mode="updates")
    assert updates == [{"a1": {"messages": "a1", "prop1": "cmd"}}, {"a2": {"messages": "a2"}}]


def test_a_command_as_the_first_node(engine):
    """Case C30: cmd(goto node1, update "go"), node1→node2."""
    first = {"cmd": lambda s: Command(goto="node1", update={"messages": "go"})}
    graph = builder(
        Log, speakers("node1", "node2") | first, (START, "cmd"), ("node1", "node2"), ("node2", END)
    )
    assert engine.invoke(graph.compile(), {})["messages"] == ["go", "node1", "node2"]


@pytest.mark.parametrize(
    ("goto", "ran"),
    [
        ("b", ["b"]),
        (["b"], ["b"]),
        (("c", "b"), ["b", "c"]),
        (["b", "b"], ["b"]),
        ([], []),
        ((), []),
        (END, []),
        ([END, "c"], ["c"]),
        (Send("b", {}), ["b"]),
        ([Send("b", {}), Send("b", {})], ["b", "b"]),
        ([Send("c", {}), "b", Send("b", {})], ["b", "c", "b"]),
    ],
    ids=shown,
)
@pytest.mark.parametrize("source", ["node", "router", "start"])
def test_where_a_goto_leads(engine, goto, ran, source):
    """graph-api 6: names, `END`, sends, several of them; edge-triggered tasks come first, sends in the order sent."""
    nodes = speakers("b", "c")
    if source == "node":
        graph = builder(Log, nodes | {"a": lambda s: Command(goto=goto)}, (START, "a"))
    elif source == "router":
        graph = builder(Log, nodes | {"a": nothing}, (START, "a"))
        graph.add_conditional_edges("a", lambda s: Command(goto=goto))
    else:
        graph = builder(Log, nodes).add_conditional_edges(START, lambda s: Command(goto=goto))
    result = engine.invoke(graph.compile(), {"prop1": 1})
    assert result.get("messages", []) == ran
    assert result.status == "completed"


def test_several_commands_of_one_node_all_lead(engine):
    """graph-api 6: a list of commands: updates concatenate, and so do their targets."""
    commands = [Command(update={"messages": "1"}, goto="b"), {"messages": "2"}, Command(goto=["c", "b"])]
    graph = builder(Log, speakers("b", "c") | {"a": lambda s: commands}, (START, "a"))
    assert engine.invoke(graph.compile(), {})["messages"] == ["1", "2", "b", "c"]


def test_a_goto_to_itself_is_a_loop(engine):
    """graph-api 6: a node may lead to itself."""

    def count(state):
        steps = state.get("steps", 0) + 1
        return Command(update={"steps": steps}, goto="count" if steps < 4 else END)

    result = engine.invoke(builder(Log, {"count": count}, (START, "count")).compile(), {})
    assert (result["steps"], result.steps) == (4, 4)


# ── conditional edges ────────────────────────────────────────────────────────────────────────────────────────


def test_routing_by_state(engine):
    """Case C31: the router reads the state that the source node leaves."""
    nodes = speakers("start", "processing", "route1", "route2_result", "end")
    graph = builder(
        Log,
        nodes,
        (START, "start"),
        ("processing", "route2_result"),
        ("route1", "end"),
        ("route2_result", "end"),
    )
    graph.add_conditional_edges("start", lambda s: "route1" if s["prop1"] == "value1" else "processing")
    graph = graph.compile()
    assert order(engine, graph, {"prop1": "initial"}) == ["start", "processing", "route2_result", "end"]
    assert order(engine, graph, {"prop1": "value1"}) == ["start", "route1", "end"]


def test_routing_by_config_and_context(engine):
    """Case C31: a router may ask for the config, the runtime and the ambient functions, like a node."""

    @dataclass
    class Context:
        way: str

    def by_parameter(state, config, runtime: Runtime[Context]):
        assert get_config() is config
        return [config["metadata"].get("route", "default"), runtime.context.way]

    graph = builder(Log, speakers("config_route", "default", "a", "b"), context_schema=Context)
    graph.add_conditional_edges(START, by_parameter)
    graph = graph.compile()
    assert order(engine, graph, {}, config={"metadata": {"route": "config_route"}}, context=Context("b")) == [
        "b", "config_route",
    ]  # fmt: skip
    assert order(engine, graph, {}, config={"metadata": {}}, context={"way": "a"}) == ["a", "default"]


def test_a_router_sees_its_nodes_writes_and_no_others(engine):
    """graph-api 2: the private view: this node's writes are applied, merged with the reducer; a sibling's are not."""
    views = {}
    both = threading.Barrier(2)

    def speak(name):
        def node(state):
            both.wait(20)
            return {"messages": name, name: 1}

        return node

    class Two(TypedDict, total=False):
        messages: Annotated[list[str], Append()]
        a: int
        b: int

    graph = builder(Two, {"a": speak("a"), "b": speak("b"), "c": nothing}, (START, "a"), (START, "b"))
    for name in "ab":
        graph.add_conditional_edges(name, lambda s, name=name: views.update({name: s}) or "c", ["c"])
    engine.invoke(graph.compile(), {"messages": ["given"]})
    assert views == {"a": {"messages": ["given", "a"], "a": 1}, "b": {"messages": ["given", "b"], "b": 1}}


def test_a_second_router_sees_the_first_ones_update(engine):
    """C29: what a router's command wrote is the node's write, so the next branch of that node sees it."""
    seen = []
    graph = builder(Log, {"a": n("a"), "b": nothing}, (START, "a"))
    graph.add_conditional_edges("a", lambda s: Command(update={"prop1": 1}, goto="b"), name="first")
    graph.add_conditional_edges("a", lambda s: seen.append(s) or [], name="second")
    assert engine.invoke(graph.compile(), {}) == {"messages": ["a"], "prop1": 1}
    assert seen == [{"messages": ["a"], "prop1": 1}]


def test_several_targets(engine):
    """Case C33: three labels, three nodes; the node they lead to runs once."""
    graph = builder(Log, speakers("cond", "node_a", "node_b", "node_c", "end"), (START, "cond"))
    graph.add_conditional_edges(
        "cond", lambda s: ["a", "b", "c"], {"a": "node_a", "b": "node_b", "c": "node_c"}
    )
    for name in ("node_a", "node_b", "node_c"):
        graph.add_edge(name, "end")
    assert engine.invoke(graph.compile(), {})["messages"] == ["cond", "node_a", "node_b", "node_c", "end"]


def test_several_targets_by_state(engine):
    """Case C34: as many as the state says."""
    graph = builder(Log, speakers("1", "2", "3", "end"), ("1", "end"), ("2", "end"), ("3", "end"))
    graph.add_conditional_edges(START, lambda s: [name for name, on in s["prop1"].items() if on])
    result = engine.invoke(graph.compile(), {"prop1": {"1": True, "2": True, "3": False}})
    assert result["messages"] == ["1", "2", "end"]


@pytest.mark.parametrize(
    "returned", ["b", ["b"], ("b",), {"b"}, frozenset({"b"}), ["b", "b"], ["b", END]],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_one_target_in_any_form(engine, returned):
    """Case C35: one entry behaves like a plain route, whatever holds it."""
    graph = builder(Log, speakers("a", "b"), (START, "a")).add_conditional_edges("a", lambda s: returned)
    assert engine.invoke(graph.compile(), {})["messages"] == ["a", "b"]


def test_a_set_of_targets_has_an_order(engine):
    """Promise 2: a set has none of its own, so sends out of sets and names out of sets come in a fixed one."""
    names = [f"n{i:02}" for i in range(20)]
    graph = builder(Log, speakers(*names)).add_conditional_edges(START, lambda s: set(names))
    assert engine.invoke(graph.compile(), {})["messages"] == names


@pytest.mark.parametrize("returned", [[], (), set(), END, [END], [END, END]], ids=shown)
def test_going_nowhere(engine, returned):
    """graph-api 3: an empty list ends the branch, and so does `END`."""
    graph = builder(Log, speakers("a", "b"), (START, "a")).add_conditional_edges(
        "a", lambda s: returned, ["b", END]
    )
    result = engine.invoke(graph.compile(), {})
    assert result == {"messages": ["a"]}
    assert result.status == "completed"


@pytest.mark.parametrize("returned", [None, START, [None], ["b", None]], ids=shown)
def test_no_destination(engine, returned):
    """graph-api 3: a router that forgot to return is told so, with what it may return."""
    graph = builder(Log, speakers("a", "b"), (START, "a")).add_conditional_edges(
        "a", lambda s: returned, name="choose"
    )
    with pytest.raises(RoutingError, match="valid destination") as caught:
        engine.invoke(graph.compile(), {"prop1": 1})
    assert "'choose'" in str(caught.value)
    assert "'a'" in str(caught.value)
    assert caught.value.node == "a"
    assert caught.value.result == {"prop1": 1, "messages": []}


def test_a_conditional_start(engine):
    """Case C37: a router of START picks; what it writes is applied once."""
    graph = builder(Log, speakers("a", "b"))
    graph.add_conditional_edges(START, lambda s: Command(update={"messages": "start"}, goto=s["prop1"]))
    graph = graph.compile()
    assert engine.invoke(graph, {"prop1": "b"})["messages"] == ["start", "b"]
    assert engine.invoke(graph, {"prop1": "a", "messages": "given"})["messages"] == ["given", "start", "a"]


@faulty("unreachable-node")
@pytest.mark.parametrize("how", ["set_conditional_entry_point", "two", "with an edge"])
def test_more_ways_to_start(engine, how):
    """graph-api 3: conditional entry points, several of them, beside plain edges."""
    graph = builder(Log, speakers("a", "b", "c"))
    if how == "set_conditional_entry_point":
        graph.set_conditional_entry_point(lambda s: "x", {"x": "a"})
    elif how == "two":
        graph.add_conditional_edges(START, lambda s: "a", name="one")
        graph.add_conditional_edges(START, lambda s: ["a", "b"], name="two")
    else:
        graph.set_entry_point("c").add_conditional_edges(START, lambda s: "a")
    expected = {"set_conditional_entry_point": ["a"], "two": ["a", "b"], "with an edge": ["a", "c"]}
    assert engine.invoke(graph.compile(), {})["messages"] == expected[how]


@faulty("unreachable-node")
def test_a_start_that_leads_nowhere(engine):
    """graph-api 3: a run without steps is complete, with the input merged."""
    graph = builder(Log, speakers("a")).add_conditional_edges(START, lambda s: END)
    result = engine.invoke(graph.compile(), {"messages": "given"})
    assert result == {"messages": ["given"]}
    assert (result.status, result.steps, result.last_nodes) == ("completed", 0, ())


def test_a_self_loop_with_an_exit(engine):
    """Case C38: five steps, five messages."""

    def agent(state):
        steps = state.get("steps", 0) + 1
        return {"steps": steps, "messages": f"agent_1:step {steps}"}

    graph = builder(Log, {"agent_1": agent}, (START, "agent_1"))
    graph.add_conditional_edges("agent_1", lambda s: "agent_1" if s["steps"] < 5 else END, ["agent_1", END])
    result = engine.invoke(graph.compile(), {})
    assert result == {"messages": [f"agent_1:step {i}" for i in range(1, 6)], "steps": 5}


def test_async_routers(engine):
    """graph-api 3: a router may be async, on both drivers, at START and behind a node, asking for parameters."""

    async def at_start(state):
        return "a"

    async def after(state, config):
        return config["metadata"]["to"]

    class Method:
        async def __call__(self, state):
            return Command(goto="c", update={"prop1": "async"})

    graph = builder(Log, speakers("a", "b", "c")).add_conditional_edges(START, at_start)
    graph.add_conditional_edges("a", after).add_conditional_edges("b", Method())
    result = engine.invoke(graph.compile(), {}, {"metadata": {"to": "b"}})
    assert result == {"messages": ["a", "b", "c"], "prop1": "async"}


def test_routers_read_what_their_annotation_says(engine):
    """graph-api 3: the router's first parameter may name a schema of its own."""

    class Part(TypedDict, total=False):
        prop1: Any

    seen = []

    def route(state: Part):
        seen.append(state)
        return END

    graph = builder(Log, speakers("a"), (START, "a")).add_conditional_edges("a", route)
    engine.invoke(graph.compile(), {"prop1": 1})
    assert seen == [{"prop1": 1}]


# ── maps of targets ──────────────────────────────────────────────────────────────────────────────────────────


class Way(Enum):
    LEFT = 1
    RIGHT = 2


@faulty("unreachable-node")
@pytest.mark.parametrize(
    ("path_map", "returned", "ran"),
    [
        ({"x": "a", "y": "b"}, "x", ["a"]),
        ({"x": "a", "y": "b"}, ["y", "x"], ["a", "b"]),
        ({True: "a", False: "b"}, False, ["b"]),
        ({True: "a", False: END}, False, []),
        ({0: "a", 1: "b"}, 1, ["b"]),
        ({Way.LEFT: "a", Way.RIGHT: "b"}, Way.RIGHT, ["b"]),
        ({None: "a"}, None, ["a"]),
        ({("b", 1): "a"}, [("b", 1)], ["a"]),
        (["a", "b"], "b", ["b"]),
        (("a", END), END, []),
        ({"b": "a"}, "b", ["a"]),
        ({"x": "a"}, Send("b", {}), ["b"]),
        ({"x": "a"}, ["x", Send("b", {})], ["a", "b"]),
        ({"x": "a"}, Command(goto="x"), ["a"]),
        ({"x": "a", "y": "a"}, ["x", "y"], ["a"]),
    ],
    ids=shown,
)
def test_labels_stand_for_nodes(engine, path_map, returned, ran):
    """graph-api 3: any hashable label; sends go past the map."""
    graph = builder(Log, speakers("a", "b")).add_conditional_edges(START, lambda s: returned, path_map)
    assert engine.invoke(graph.compile(), {}).get("messages", []) == ran


@pytest.mark.parametrize("returned", ["zzz", "a", ["x", "zzz"], None, [None], 7, ["x", ["y"]]], ids=shown)
def test_an_unmapped_label_is_refused(engine, returned):
    """Rule 10, case C11: source, router, label and the labels there are; nothing after it runs."""
    ran = []
    graph = builder(Log, {"src": n("src"), "a": lambda s: ran.append("a")}, (START, "src"))
    graph.add_conditional_edges("src", lambda s: returned, {"x": "a", "y": "a"}, name="choose")
    with pytest.raises(RoutingError) as caught:
        engine.invoke(graph.compile(), {})
    label = returned[-1] if isinstance(returned, list) else returned
    for part in ("'src'", "'choose'", repr(label), "'x'", "'y'"):
        assert part in str(caught.value)
    assert caught.value.node == "src"
    assert caught.value.result == {"messages": []}
    assert ran == []


@faulty("unreachable-node")
def test_a_return_annotation_is_a_map(engine):
    """graph-api 3: `Literal` in the return annotation says what the router may return, also inside a union."""
    results = iter(["a", "b", "c"])

    def route(state) -> Literal["a", "b"] | list[Literal["a"]]:
        return next(results)

    graph = builder(Log, speakers("a", "b", "c")).add_conditional_edges(START, route).compile()
    assert order(engine, graph, {}) == ["a"]
    assert order(engine, graph, {}) == ["b"]
    with pytest.raises(RoutingError, match="'c'"):
        order(engine, graph, {})


def test_unknown_targets_of_maps_are_found_when_compiling():
    """Rule 10 and defect 38: whatever is written down is checked before anything runs."""

    def annotated(state) -> Literal["a", "nope"]:
        return "a"

    for arguments in (
        {"path": lambda s: "x", "path_map": {"x": "nope"}},
        {"path": lambda s: "x", "path_map": ["a", "nope"]},
        {"path": annotated},
        {"path": lambda s: [], "default": "nope"},
    ):
        graph = builder(Log, speakers("a"), (START, "a")).add_conditional_edges("a", **arguments)
        with pytest.raises(GraphBuildError, match="'nope'") as caught:
            graph.compile()
        assert "'a'" in str(caught.value)


@pytest.mark.parametrize(
    ("returned", "ran"),
    [([], ["b"]), ((), ["b"]), ("a", ["a"]), (END, []), ([Send("a", {})], ["a"]), (Command(), ["b"])],
    ids=shown,
)
@pytest.mark.parametrize("source", [START, "src"])
def test_a_default_is_where_nothing_leads(engine, returned, ran, source):
    """Case C61: `default=` is taken when the router returns nothing, and only then."""
    graph = builder(Log, speakers("a", "b") | {"src": nothing})
    if source != START:
        graph.add_edge(START, "src")
    graph.add_conditional_edges(source, lambda s: returned, default="b")
    assert engine.invoke(graph.compile(), {}).get("messages", []) == ran


def test_a_default_may_be_the_end(engine):
    """Case C61: with nothing to do the run may be over."""
    graph = builder(Log, speakers("a")).add_conditional_edges(START, lambda s: [], ["a"], default=END)
    assert engine.invoke(graph.compile(), {}).status == "completed"


# ── several branches of one source ───────────────────────────────────────────────────────────────────────────


def test_several_branches_all_lead(engine):
    """README of the specs: further conditional edges from one source are allowed under other names."""

    def one(state):
        return "a"

    def two(state):
        return ["b", "a"]

    graph = builder(Log, speakers("src", "a", "b", "c"), (START, "src"), ("src", "c"))
    graph.add_conditional_edges("src", one).add_conditional_edges("src", two)
    graph.add_conditional_edges("src", lambda s: Send("a", {}), name="three")
    assert engine.invoke(graph.compile(), {})["messages"] == ["src", "a", "b", "c", "a"]


def test_branches_of_one_name_are_refused():
    """Case C6: the remedy is a name."""
    graph = builder(Log, speakers("a"), (START, "a")).add_conditional_edges("a", lambda s: END)
    with pytest.raises(GraphBuildError, match="name=") as caught:
        graph.add_conditional_edges("a", lambda s: END)
    assert "condition" in str(caught.value)
    assert "`a`" in str(caught.value)
    graph.add_conditional_edges("a", lambda s: END, name="other").compile()


def test_a_failing_branch_leaves_the_other_undone(engine):
    """Rule 2: of two branches the second fails: the first one's update isn't applied."""

    def fail(state):
        raise RuntimeError("second branch")

    graph = builder(Log, speakers("a", "b"), (START, "a"))
    graph.add_conditional_edges("a", lambda s: Command(update={"prop1": 1}, goto="b"), name="one")
    graph.add_conditional_edges("a", fail, name="two")
    with pytest.raises(RuntimeError, match="second branch") as caught:
        engine.invoke(graph.compile(), {})
    assert failure(caught.value).result == {"messages": []}
    assert failure(caught.value).node == "a"


# ── sends ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "argument", [None, 0, "text", [1], {"any": "thing"}, (1, 2), Way.LEFT, {"messages": []}], ids=shown
)
def test_a_sends_argument_is_the_input(engine, colour, argument):
    """graph-api 6: as it is, neither merged with the state nor validated."""
    seen = []
    graph = builder(Log, {"worker": colour(lambda s: seen.append(s))})
    graph.add_conditional_edges(START, lambda s: Send("worker", argument))
    engine.invoke(graph.compile(), {"prop1": "state"})
    assert seen == [argument]


def test_a_send_beside_an_edge_to_the_same_node(engine):
    """graph-api 2: the edge gives one task with the state, each send one more."""
    seen = []
    graph = builder(
        Log, {"src": nothing, "b": lambda s: seen.append(s.get("prop1"))}, (START, "src"), ("src", "b")
    )
    graph.add_conditional_edges("src", lambda s: [Send("b", {"prop1": 1}), Send("b", {"prop1": 2})])
    engine.invoke(graph.compile(), {"prop1": 0}, {"max_concurrency": 1})
    assert seen == [0, 1, 2]


def test_sent_tasks_lead_on_by_their_nodes_edges(engine):
    """graph-api 6: what follows a sent task is what follows its node, once a step."""
    graph = builder(Log, {"worker": lambda x: {"messages": x}, "after": n("after")}, ("worker", "after"))
    graph.add_conditional_edges(START, lambda s: [Send("worker", x) for x in "xyz"])
    assert engine.invoke(graph.compile(), {})["messages"] == ["x", "y", "z", "after"]


def test_sent_tasks_route_by_what_each_wrote(engine):
    """graph-api 2: the router of a sent task sees the state with that task's own writes."""
    graph = builder(
        Log, {"worker": lambda x: {"prop1": x} if x == "b" else {"messages": x}, **speakers("a", "b")}
    )
    graph.add_conditional_edges(START, lambda s: [Send("worker", x) for x in ("a", "b", "a")])
    graph.add_conditional_edges("worker", lambda s: "b" if s.get("prop1") == "b" else "a", ["a", "b"])
    assert engine.invoke(graph.compile(), {})["messages"] == ["a", "a", "a", "b"]


def test_senders_queue_in_plan_order(engine):
    """graph-api 2: sends of several senders come in the senders' own order, whoever ended first."""
    b_ended = threading.Event()

    def send(name):
        def node(state):
            if name == "a":
                assert b_ended.wait(20)
            else:
                b_ended.set()
            return Command(goto=[Send("worker", f"{name}1"), Send("worker", f"{name}2")])

        return node

    graph = builder(
        Log, {"a": send("a"), "b": send("b"), "worker": lambda x: {"messages": x}}, (START, "a"), (START, "b")
    )
    assert engine.invoke(graph.compile(), {})["messages"] == ["a1", "a2", "b1", "b2"]


def test_a_send_needs_a_name():
    """Bad input anywhere: said where it is made."""
    with pytest.raises(TypeError, match="node name"):
        Send(nothing, {})


def test_sends_are_equal_by_content():
    """graph-api 6: equality, hash and repr by content; options included."""
    assert Send("a", {"x": 1}) == Send("a", {"x": 1})
    assert hash(Send("a", {"x": 1})) == hash(Send("a", {"x": 1}))
    assert Send("a", 1) != Send("a", 2) != Send("b", 2) != Send("b", 2, timeout=1)
    assert repr(Send("a", 1)) == "Send(node='a', arg=1)"
    assert repr(Send("a", 1, timeout=2)).startswith(
        "Send(node='a', arg=1, timeout=TimeoutPolicy(run_timeout=2.0,"
    )


def test_a_deferred_node_can_be_sent_to(engine):
    """graph-api 3 and 6: a send isn't a trigger that is held back; its task runs in the next step."""
    graph = builder(Log, speakers("a", "b") | {"a": nothing}, (START, "a"), ("a", "b"))
    graph.add_node("late", lambda x: {"messages": str(x)}, defer=True)
    graph.add_conditional_edges("a", lambda s: Send("late", "sent"))
    assert engine.invoke(graph.compile(), {})["messages"] == ["b", "sent"]


# ── rule 10: unknown targets ─────────────────────────────────────────────────────────────────────────────────


def leading(how: str, target: Any):
    """A graph whose node 'src' leads to `target` in one way or another, beside a node that does well."""
    graph = StateGraph(Log).add_node("fine", n("fine")).add_node("known", n("known"))
    graph.add_edge(START, "fine").add_edge(START, "src")
    if how == "router":
        graph.add_node("src", n("src")).add_conditional_edges("src", lambda s: target)
    elif how == "router among others":
        graph.add_node("src", n("src")).add_conditional_edges("src", lambda s: ["known", target])
    elif how == "router command":
        graph.add_node("src", n("src"))
        graph.add_conditional_edges("src", lambda s: Command(goto=target, update={"prop1": 1}))
    elif how == "goto":
        graph.add_node("src", lambda s: Command(goto=target, update={"messages": "src"}))
    elif how == "goto among others":
        graph.add_node("src", lambda s: Command(goto=["known", target], update={"messages": "src"}))
    elif how == "second command":
        graph.add_node("src", lambda s: [Command(update={"messages": "src"}), Command(goto=target)])
    elif how == "parent":
        child = builder(Log, {"c": lambda s: Command(graph=Command.PARENT, goto=target)}, (START, "c"))
        graph.add_node("src", child.compile())
    return graph.compile()


HOWS = [
    "router",
    "router among others",
    "router command",
    "goto",
    "goto among others",
    "second command",
    "parent",
]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("send", [False, True], ids=["name", "send"])
def test_an_unknown_target_is_refused(engine, saver, how, send):
    """Rule 10: source, target and the known nodes, before anything else of the step is committed."""
    graph = leading(how, Send("knwon", {}) if send else "knwon")
    with pytest.raises(RoutingError) as caught:
        engine.invoke(graph, {"prop1": 0})
    for part in ("'src'", "'knwon'", "'known'", "fine"):
        assert part in str(caught.value)
    assert caught.value.node == "src"
    assert caught.value.result == {"prop1": 0, "messages": []}


def test_an_unknown_target_at_the_start_is_refused(engine, saver):
    """Rule 10: before the input is saved, so the thread doesn't exist."""
    answers = ["nope", "a"]
    graph = builder(Log, speakers("a")).add_conditional_edges(START, lambda s: answers.pop(0)).compile(saver)
    with pytest.raises(RoutingError, match="'nope'"):
        engine.invoke(graph, {"messages": "first"}, thread_id="t")
    assert engine.invoke(graph, {"messages": "second"}, thread_id="t")["messages"] == ["second", "a"]


@pytest.mark.parametrize(
    "target", [7, nothing, ("a", "b"), 1.5, object(), b"a", True], ids=lambda v: type(v).__name__
)
@pytest.mark.parametrize("how", ["router", "goto"])
def test_a_target_that_is_no_name_is_refused(engine, how, target):
    """Rule 10: a function instead of its name is a common mistake; the error says what a target is."""
    with pytest.raises(RoutingError) as caught:
        engine.invoke(leading(how, [target]), {})
    assert caught.value.node == "src"
    assert type(target).__name__ in str(caught.value)


@pytest.mark.parametrize("send", [Send(END, {}), Send(START, {})], ids=shown)
@pytest.mark.parametrize("how", ["router", "goto"])
def test_a_send_to_the_end_or_start_is_refused(engine, how, send):
    """graph-api 3: neither is a node."""
    with pytest.raises(RoutingError) as caught:
        engine.invoke(leading(how, send), {})
    assert caught.value.node == "src"


def test_a_goto_to_the_start_is_refused(engine):
    """Rule 10: the start isn't a node; a loop names the first node."""
    with pytest.raises(RoutingError, match="__start__"):
        engine.invoke(leading("goto", START), {})


@pytest.mark.parametrize("how", ["router", "goto"])
@pytest.mark.parametrize("send", [False, True], ids=["name", "send"])
def test_lenient_graphs_ignore_unknown_targets(engine, how, send, caplog):
    """Rule 10, L: LangGraph logs a warning and goes on."""
    target = Send("nope", {}) if send else "nope"
    nodes = speakers("known")
    if how == "router":
        graph = builder(Log, nodes | {"src": n("src")}, (START, "src"), strict=False)
        graph.add_conditional_edges("src", lambda s: [target, "known"])
    else:
        graph = builder(
            Log,
            nodes | {"src": lambda s: Command(goto=[target, "known"], update={"messages": "src"})},
            (START, "src"),
            strict=False,
        )
    assert engine.invoke(graph.compile(), {})["messages"] == ["src", "known"]
    assert "nope" in caplog.text


# ── rule 11: one mechanism ───────────────────────────────────────────────────────────────────────────────────


@faulty("mixed-routing", "unreachable-node")
@pytest.mark.parametrize("edge", ["plain", "to the end", "conditional", "join"])
@pytest.mark.parametrize("goto", ["b", END, Send("b", {}), ["b"]], ids=shown)
def test_a_goto_beside_edges_is_refused(engine, edge, goto):
    """Rule 11: at run time, where no annotation shows it; the error tells the two ways out."""
    graph = builder(
        Log,
        speakers("b", "c") | {"src": lambda s: Command(goto=goto, update={"messages": "src"})},
        (START, "src"),
    )
    if edge == "plain":
        graph.add_edge("src", "c")
    elif edge == "to the end":
        graph.add_edge("src", END)
    elif edge == "conditional":
        graph.add_conditional_edges("src", lambda s: "c")
    else:
        graph.add_edge(START, "b").add_edge(["src", "b"], "c")
    with pytest.raises(RoutingError) as caught:
        engine.invoke(graph.compile(), {})
    text = str(caught.value)
    assert "'src'" in text
    assert "Remove" in text
    assert "update" in text
    assert caught.value.node == "src"
    assert caught.value.result == {"messages": []}


@pytest.mark.parametrize(
    "hint", [Command[Literal["b"]], Command[Literal["b", "c"]] | None, Command[Literal["b"]] | dict]
)
@pytest.mark.parametrize("edge", ["plain", "conditional", "join"])
def test_an_annotation_that_shows_two_mechanisms_is_refused(hint, edge):
    """Rule 11: refused when compiling."""

    def src(state):
        return Command(goto="b")

    src.__annotations__["return"] = hint
    graph = builder(Log, speakers("b", "c") | {"src": src}, (START, "src"))
    if edge == "plain":
        graph.add_edge("src", "c")
    elif edge == "conditional":
        graph.add_conditional_edges("src", lambda s: "c")
    else:
        graph.add_edge(["src", "b"], "c")
    with pytest.raises(GraphBuildError, match="'src'") as caught:
        graph.compile()
    assert "Remove" in str(caught.value)
    assert "update" in str(caught.value)


def test_an_update_beside_edges_is_fine(engine):
    """Rule 11 is about routes: a command without `goto` is an update."""
    graph = builder(
        Log,
        speakers("b") | {"src": lambda s: Command(update={"messages": "src"})},
        (START, "src"),
        ("src", "b"),
    )
    assert engine.invoke(graph.compile(), {})["messages"] == ["src", "b"]


def test_edges_and_conditional_edges_together_are_fine(engine):
    """Rule 11 and case C10: those are one mechanism: both are active."""
    graph = builder(Log, speakers("a", "b", "c"), (START, "a")).add_conditional_edges(
        "a", lambda s: "c", ["c"]
    )
    graph.add_edge("a", "b")
    assert engine.invoke(graph.compile(), {})["messages"] == ["a", "b", "c"]


def test_a_command_for_the_parent_beside_edges_is_exempt(engine):
    """Rule 11: `Command.PARENT` leaves; it doesn't route here."""
    inner = builder(
        Log,
        speakers("b") | {"src": lambda s: Command(graph=Command.PARENT, goto="after")},
        (START, "src"),
        ("src", "b"),
    )
    graph = builder(Log, speakers("after") | {"child": inner.compile()}, (START, "child"))
    assert engine.invoke(graph.compile(), {})["messages"] == ["after"]


@faulty("mixed-routing", "unreachable-node")
def test_a_bare_send_beside_edges_is_a_second_mechanism(engine):
    """Rule 11: returning a `Send` chooses where to go, like a goto."""
    graph = builder(Log, speakers("b", "c") | {"src": lambda s: Send("b", {})}, (START, "src"), ("src", "c"))
    with pytest.raises(RoutingError, match="'src'"):
        engine.invoke(graph.compile(), {})


def test_lenient_graphs_follow_both(engine):
    """Rule 11, L: as LangGraph documents it: goto adds to the edges."""

    def src(state) -> Command[Literal["b"]]:
        return Command(goto="b", update={"messages": "src"})

    graph = builder(Log, speakers("b", "c") | {"src": src}, (START, "src"), ("src", "c"), strict=False)
    assert engine.invoke(graph.compile(), {})["messages"] == ["src", "b", "c"]


# ── destinations ─────────────────────────────────────────────────────────────────────────────────────────────


@faulty("unreachable-node")
def test_declared_destinations_have_no_effect_on_execution(engine):
    """graph-api 3: they are for drawing and validation."""

    def src(state) -> Command[Literal["a"]]:
        return Command(goto="b")

    graph = builder(Log, speakers("a", "b") | {"src": src}, (START, "src"))
    assert engine.invoke(graph.compile(), {})["messages"] == ["b"]
    graph = StateGraph(Log).add_node("src", src, destinations=("a", "b", END)).add_edge(START, "src")
    graph.add_node("a", n("a")).add_node("b", n("b"))
    assert engine.invoke(graph.compile(), {})["messages"] == ["b"]


def test_unknown_destinations_are_found_when_compiling():
    """Defect 38: an annotation that names no node is a mistake; `destinations=` overrides it."""

    def src(state) -> Command[Literal["a", "nope"]]:
        return Command(goto="a")

    graph = builder(Log, speakers("a") | {"src": src}, (START, "src"))
    with pytest.raises(GraphBuildError, match="'nope'") as caught:
        graph.compile()
    assert "'src'" in str(caught.value)
    StateGraph(Log).add_node("src", src, destinations=("a",)).add_node("a", nothing).add_edge(
        START, "src"
    ).compile()
    graph = StateGraph(Log).add_node("src", src, destinations={"nope": "label"}).add_node("a", nothing)
    with pytest.raises(GraphBuildError, match="'nope'"):
        graph.add_edge(START, "src").compile()


# ── commands as input ────────────────────────────────────────────────────────────────────────────────────────


def test_a_command_as_input_goes_and_updates(engine, saver):
    """graph-api 6: the update is applied like an input's; goto schedules nodes, bypassing START."""
    graph = chain(Log, a=n("a"), b=n("b"), saver=saver)
    engine.invoke(graph, {}, thread_id="t")
    result = engine.invoke(graph, Command(update={"messages": "cmd"}, goto="b"), thread_id="t")
    assert result["messages"] == ["a", "b", "cmd", "b"]
    result = engine.invoke(graph, Command(goto=Send("b", {})), thread_id="t")
    assert result["messages"] == ["a", "b", "cmd", "b", "b"]


def test_a_command_as_input_is_checked(engine, saver):
    """Rule 10: unknown targets there, too; and a command for a parent that doesn't exist."""
    graph = chain(Log, a=n("a"), saver=saver)
    with pytest.raises(RoutingError, match="'nope'"):
        engine.invoke(graph, Command(goto="nope"), thread_id="t")
    with pytest.raises(JunctureError, match="no parent graph"):
        engine.invoke(graph, Command(graph=Command.PARENT, update={"messages": "x"}), thread_id="t")
    with pytest.raises(JunctureError, match="empty Command"):
        engine.invoke(graph, Command(), thread("t"))
