"""The limit of supersteps, what nodes know of it, and runs that are very long (right-behaviour 18, defects 14, 15, 34 to 37)."""

import asyncio
import gc
import operator
import sys
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    END,
    START,
    Command,
    ConfigError,
    GraphRecursionError,
    IsLastStep,
    RemainingSteps,
    Send,
    StateGraph,
    StuckJoinError,
    interrupt,
)
from tests.behaviour.building import builder, chain, chain_edges, compiled, fan, nothing, shown
from tests.faulty import faulty


class Count(TypedDict, total=False):
    count: Annotated[int, operator.add]
    stop: int


def step(state: Any) -> dict[str, int]:
    return {"count": 1}


def chain_of(length: int, saver: Any = None, **options: Any) -> Any:
    return chain(Count, saver=saver, options=options, **{f"n{i:04}": step for i in range(length)})


def looping(node: Any = step, **options: Any) -> StateGraph:
    """A node that leads to itself until it counted to `stop`."""
    graph = StateGraph(Count, **options).add_node("node", node).add_edge(START, "node")
    return graph.add_conditional_edges(
        "node", lambda s: "node" if s["count"] < s["stop"] else END, ["node", END]
    )


def limit(n: int) -> dict[str, int]:
    return {"recursion_limit": n}


# ── the limit is exact ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", [1, 2, 7])
def test_limit_n_allows_n(engine, length):
    """Rule 18, case C41: a chain of n nodes passes with a limit of n and fails with n - 1."""
    graph = chain_of(length)
    result = engine.invoke(graph, {}, limit(length))
    assert (result["count"], result.steps) == (length, length)
    if length > 1:
        with pytest.raises(GraphRecursionError):
            engine.invoke(graph, {}, limit(length - 1))


@faulty("endless-loop")
@pytest.mark.parametrize("how", ["router", "goto", "send", "edge"])
def test_every_way_of_going_on_counts(engine, how):
    """Rule 18: a self-loop of any kind stops after exactly the limit."""
    if how == "router":
        graph = looping()
    elif how == "goto":
        graph = builder(Count, {"node": lambda s: Command(update={"count": 1}, goto="node")}, (START, "node"))
    elif how == "send":
        graph = builder(
            Count, {"node": lambda s: Command(update={"count": 1}, goto=Send("node", {}))}, (START, "node")
        )
    else:
        graph = builder(Count, {"node": step}, (START, "node"), ("node", "node"))
    with pytest.raises(GraphRecursionError) as caught:
        engine.invoke(graph.compile(), {"stop": 100}, limit(5))
    assert caught.value.result["count"] == 5


def test_the_default_is_a_thousand(engine):
    """Decision 5: without a limit given, a thousand steps."""
    assert engine.invoke(looping().compile(), {"stop": 1000}).steps == 1000
    with pytest.raises(GraphRecursionError, match="1000"):
        engine.invoke(looping().compile(), {"stop": 1001})


def test_tasks_of_one_step_are_one_step(engine):
    """Rule 18 counts supersteps: neither tasks, nor the input, nor a router of START."""
    graph = StateGraph(Count).add_node("worker", step).add_node("end", step, defer=True)
    graph.add_conditional_edges(START, lambda s: [Send("worker", {}) for _ in range(20)]).add_edge(
        "worker", "end"
    )
    result = engine.invoke(graph.compile(), {}, limit(2))
    assert (result["count"], result.steps) == (21, 2)
    with pytest.raises(GraphRecursionError):
        engine.invoke(graph.compile(), {}, limit(1))


def test_reaching_the_limit_tells_everything(engine):
    """Rule 18, defects 36 and 37: state, step, last nodes, what was due; a status of its own; a RecursionError."""
    graph = compiled(
        Count, {"a": step, "b": step, "c": step, "d": step}, *chain_edges(["a", "b"]), ("b", "c"), ("b", "d")
    )
    with pytest.raises(RecursionError) as caught:
        engine.invoke(graph, {"count": 10}, limit(2))
    error = caught.value
    assert isinstance(error, GraphRecursionError)
    for part in ("2", "'b'", "'c', 'd'", "recursion_limit"):
        assert part in str(error)
    assert error.result == {"count": 12}
    assert (error.result.status, error.result.steps, error.result.last_nodes) == ("limit", 2, ("b",))
    assert error.step == 2


@pytest.mark.parametrize("after", [1, 2, 3])
def test_the_thread_goes_on_after_the_limit(engine, saver, after):
    """Rule 18: what was checkpointed stays; each invocation counts from 0."""
    graph = chain_of(6, saver)
    with pytest.raises(GraphRecursionError):
        engine.invoke(graph, {}, limit(after), thread_id="t")
    with pytest.raises(GraphRecursionError):
        engine.invoke(graph, None, limit(6 - after - 1), thread_id="t") if after < 5 else None
    result = engine.invoke(graph, None, limit(1), thread_id="t")
    assert (result["count"], result.steps) == (6, 1)


def test_a_resume_counts_from_zero(engine, saver):
    """Rule 18: the steps before the pause don't count."""
    graph = chain(Count, a=step, b=step, ask=lambda s: {"count": interrupt("?")}, c=step, d=step, saver=saver)
    assert engine.invoke(graph, {}, limit(3), thread_id="t").status == "interrupted"
    result = engine.resume(graph, 10, limit(3), thread_id="t")
    assert (result["count"], result.steps) == (14, 3)


def test_a_new_input_counts_from_zero(engine, saver):
    """Rule 18: invocation by invocation, on one thread."""
    graph = chain_of(3, saver)
    for turn in (1, 2, 3):
        assert engine.invoke(graph, {}, limit(3), thread_id="t")["count"] == 3 * turn


def test_a_nested_graph_counts_its_own(engine):
    """Rule 18: neither adds to the other; each is bound by the limit; the error tells where."""
    graph = chain(Count, a=step, child=chain_of(3), b=step)
    result = engine.invoke(graph, {}, limit(3))
    assert (result["count"], result.steps) == (5, 3)
    with pytest.raises(GraphRecursionError) as caught:
        engine.invoke(chain(Count, a=step, child=chain_of(4)), {}, limit(3))
    assert caught.value.namespace[0].startswith("child:")
    assert caught.value.result == {"count": 1}
    called = chain_of(3)
    node = chain(Count, call=lambda s: {"count": called.invoke({}, limit(3))["count"]})
    assert engine.invoke(node, {}, limit(1))["count"] == 3


def test_a_deferred_node_is_a_step_too(engine):
    """Rule 18: what waits for the end is due then; with nothing waiting the limit isn't reached."""
    graph = StateGraph(Count).add_node("a", step).add_node("late", step, defer=True)
    graph.add_edge(START, "a").add_edge("a", "late")
    assert engine.invoke(graph.compile(), {}, limit(2))["count"] == 2
    with pytest.raises(GraphRecursionError, match="'late'"):
        engine.invoke(graph.compile(), {}, limit(1))


@faulty("stuck-join", "unreachable-node")
def test_a_stuck_join_is_not_the_limit(engine):
    """Rules 12 and 18: at the limit with nothing due but a join that can't be filled, that is what is wrong."""
    graph = builder(Count, {"a": step, "b": step, "j": step}, (START, "a"), (["a", "b"], "j")).compile()
    with pytest.raises(StuckJoinError):
        engine.invoke(graph, {}, limit(1))


@pytest.mark.parametrize("given", [0, -1, "5", 2.5, True, None, [5]], ids=shown)
def test_a_limit_that_cant_be_is_refused(engine, given):
    """Bad input anywhere: named, before anything runs."""
    ran = []
    with pytest.raises(ConfigError, match="recursion_limit") as caught:
        engine.invoke(chain(Count, a=ran.append), {}, {"recursion_limit": given})
    assert repr(given) in str(caught.value)
    assert ran == []


def test_lenient_graphs_count_like_langgraph(engine):
    """Rule 18, L: a run that would end exactly at the limit raises; the default is LangGraph's 10,007."""
    graph = chain_of(3, strict=False)
    with pytest.raises(GraphRecursionError):
        engine.invoke(graph, {}, limit(3))
    assert engine.invoke(graph, {}, limit(4))["count"] == 3
    assert engine.invoke(looping(strict=False).compile(), {"stop": 10_006})["count"] == 10_006
    with pytest.raises(GraphRecursionError):
        engine.invoke(looping(strict=False).compile(), {"stop": 10_007})


# ── what nodes know of it ────────────────────────────────────────────────────────────────────────────────────


class Managed(TypedDict, total=False):
    count: Annotated[int, operator.add]
    stop: int
    left: RemainingSteps
    last: IsLastStep


def managed_graph(nodes: dict[str, Any], *edges: Any, **options: Any) -> StateGraph:
    return builder(Managed, nodes, *edges, input_schema=Count, output_schema=Count, **options)


def noting(seen: list[Any]) -> Any:
    def node(state):
        seen.append((state["left"], state["last"]))
        return {"count": 1}

    return node


def test_remaining_steps_include_the_current_one(engine, colour):
    """Rule 18: n, …, 2, 1; at 1 `IsLastStep` is true."""
    seen = []
    graph = managed_graph(
        {f"n{i}": colour(noting(seen)) for i in range(4)}, *chain_edges([f"n{i}" for i in range(4)])
    )
    engine.invoke(graph.compile(), {}, limit(4))
    assert seen == [(4, False), (3, False), (2, False), (1, True)]


def test_lenient_remaining_steps_are_langgraphs(engine):
    """Rule 18, L: limit - 1 in the first step, and the last is one before the hard stop."""
    seen = []
    names = ["a", "b", "c"]
    graph = managed_graph({name: noting(seen) for name in names}, *chain_edges(names), strict=False)
    engine.invoke(graph.compile(), {}, limit(4))
    assert seen == [(3, False), (2, False), (1, True)]


def test_tasks_of_a_step_and_routers_agree(engine):
    """Rule 18: everything in one step sees the same number; a router sees its node's."""
    seen = []
    graph = managed_graph(
        {"a": noting(seen), "b": noting(seen), "c": noting(seen)}, (START, "a"), (START, "b")
    )
    graph.add_conditional_edges("a", lambda s: seen.append((s["left"], s["last"])) or "c", ["c"])
    engine.invoke(graph.compile(), {}, limit(2) | {"max_concurrency": 1})
    assert sorted(seen[:3]) == [(2, False)] * 3
    assert seen[3:] == [(1, True)]


def test_remaining_steps_after_a_resume(engine, saver):
    """Rule 18: a resume starts at 0, so the node that runs again sees the whole limit."""
    seen = []

    def ask(state):
        seen.append(state["left"])
        return {"count": interrupt("?")}

    graph = managed_graph({"a": noting([]), "ask": ask, "b": noting([])}, *chain_edges(["a", "ask", "b"]))
    graph = graph.compile(saver)
    engine.invoke(graph, {}, limit(9), thread_id="t")
    engine.resume(graph, 1, limit(9), thread_id="t")
    assert seen == [8, 9]


def test_a_nested_graph_has_remaining_steps_of_its_own(engine):
    """Rule 18: counted from the limit, not from what its parent has left."""
    seen = []
    child = managed_graph({"x": noting(seen), "y": noting(seen)}, *chain_edges(["x", "y"])).compile()
    engine.invoke(chain(Count, a=step, b=step, child=child), {}, limit(3))
    assert seen == [(3, False), (2, False)]


def test_an_agent_stops_in_time(engine):
    """Rule 18: what it is for: finishing with what there is, instead of running into the limit."""

    def agent(state):
        if state["last"]:
            return Command(update={"stop": state["count"]}, goto=END)
        return Command(update={"count": 1}, goto="agent")

    graph = managed_graph({"agent": agent}, (START, "agent")).compile()
    assert engine.invoke(graph, {}, limit(10)) == {"count": 9, "stop": 9}


def test_managed_values_are_never_stored(engine, saver):
    """Rule 8, graph-api 4: neither in `values`, nor in a result, nor in the thread."""
    graph = builder(
        Managed, {"a": noting([])}, (START, "a"), input_schema=Count, output_schema=Count
    ).compile(saver)
    values = engine.stream(graph, {}, stream_mode="values", thread_id="t")
    assert values == [{"count": 0}, {"count": 1}]
    seen = []
    engine.invoke(chain(None, look=lambda s: seen.append(set(s)), saver=saver), {}, thread_id="t")
    assert seen == [{"count"}]


# ── very long ────────────────────────────────────────────────────────────────────────────────────────────────


class Gauge:
    """Measures what a long run leaves behind: Python frames, objects that are tracked, blocks of memory."""

    def __init__(self, *at: int) -> None:
        self.at = at
        self.frames: list[int] = []
        self.objects: list[int] = []
        self.blocks: list[int] = []

    def look(self, count: int) -> None:
        if count in self.at:
            gc.collect()
            frame, depth = sys._getframe(), 0
            while frame is not None:
                frame, depth = frame.f_back, depth + 1
            self.frames.append(depth)
            self.objects.append(len(gc.get_objects()))
            self.blocks.append(sys.getallocatedblocks())

    def assert_flat(self, workers: int = 0) -> None:
        """`workers`: how many threads may have been started meanwhile, each with some objects of its own."""
        assert len(self.frames) == len(self.at)
        assert len(set(self.frames)) == 1, self.frames
        # A single thing kept for each step would be thousands.
        assert self.objects[-1] - self.objects[0] < 500 + 40 * workers, self.objects
        assert self.blocks[-1] - self.blocks[0] < 1500 + 80 * workers, self.blocks


MANY = 100_000


@pytest.mark.parametrize("stop", [3_000, MANY])
def test_a_long_loop_is_flat(engine, stop):
    """Case C39, defect 34: 3,000 and 100,000 iterations of a self-loop: exact, memory and stack flat."""
    gauge = Gauge(1_000, stop - 1_000)

    def node(state):
        gauge.look(state["count"])
        return {"count": 1}

    graph = StateGraph(Count).add_node("node", node, inline=True).add_edge(START, "node")
    graph.add_conditional_edges("node", lambda s: "node" if s["count"] < s["stop"] else END)
    result = engine.invoke(graph.compile(), {"stop": stop}, limit(stop))
    assert (result["count"], result.steps) == (stop, stop)
    gauge.assert_flat()


Look = Any
"""A sync node that looks at the gauge and counts."""


def by_async(look: Look, going: Any) -> StateGraph:
    async def node(state):
        return look(state)

    return StateGraph(Count).add_node("node", node).add_conditional_edges("node", going)


def by_goto(look: Look, going: Any) -> StateGraph:
    def node(state):
        return Command(update=look(state), goto=going({"count": state["count"] + 1}))

    return StateGraph(Count).add_node("node", node, inline=True)


def by_send(look: Look, going: Any) -> StateGraph:
    def node(state):
        update, count = look(state), state["count"] + 1
        return Command(
            update=update, goto=Send("node", {"count": count}) if going({"count": count}) != END else END
        )

    return StateGraph(Count).add_node("node", node, inline=True)


def by_generator(look: Look, going: Any) -> StateGraph:
    def node(state):
        yield look(state)

    return StateGraph(Count).add_node("node", node, inline=True).add_conditional_edges("node", going)


def by_two_nodes(look: Look, going: Any) -> StateGraph:
    graph = StateGraph(Count).add_node("node", look, inline=True).add_node("back", nothing, inline=True)
    return graph.add_edge("node", "back").add_conditional_edges("back", going)


def by_branches(look: Look, going: Any) -> StateGraph:
    graph = builder(
        Count,
        {"node": look, "other": nothing, "join": nothing},
        (START, "other"),
        (["node", "other"], "join"),
    )
    return graph.add_conditional_edges("join", lambda s: ["node", "other"] if going(s) != END else END)


def by_subgraph(look: Look, going: Any) -> StateGraph:
    return StateGraph(Count).add_node("node", chain(Count, inner=look)).add_conditional_edges("node", going)


def by_worker(look: Look, going: Any) -> StateGraph:
    return StateGraph(Count).add_node("node", look).add_conditional_edges("node", going)


LOOPS = {
    by_async: 10_000,
    by_goto: 10_000,
    by_send: 10_000,
    by_generator: 10_000,
    by_two_nodes: 10_000,
    by_branches: 2_000,
    by_subgraph: 2_000,
    by_worker: 2_000,
}
"""What makes a loop, and how often it goes around: less where a step is dear."""


@pytest.mark.parametrize("make", LOOPS)
def test_other_long_loops_are_flat(engine, make):
    """Case C39: loops of other kinds."""
    stop = LOOPS[make]
    gauge = Gauge(500, stop - 500)

    def look(state):
        gauge.look(state["count"])
        return {"count": 1}

    graph = make(look, lambda s: "node" if s["count"] < stop else END).add_edge(START, "node")
    assert engine.invoke(graph.compile(), {"count": 0}, limit(2 * stop))["count"] == stop
    gauge.assert_flat(128 if make in (by_branches, by_worker) else 0)


def test_a_long_stream_is_flat(engine):
    """Case C39, defect 34: with a consumer that looks at each part and keeps none."""
    gauge = Gauge(1_000, 19_000)
    graph = StateGraph(Count).add_node("node", step, inline=True).add_edge(START, "node")
    graph.add_conditional_edges("node", lambda s: "node" if s["count"] < s["stop"] else END)
    graph = graph.compile()
    count = 0

    async def consume():
        nonlocal count
        async for _item in graph.astream({"stop": 20_000}, limit(20_000)):
            count += 1
            gauge.look(count)

    if engine.is_async:
        asyncio.run(consume())
    else:
        for _item in graph.stream({"stop": 20_000}, limit(20_000)):
            count += 1
            gauge.look(count)
    assert count == 20_000
    gauge.assert_flat()


def test_a_long_chain_compiles_and_runs(engine):
    """Issue: a chain of 5,000 nodes."""
    graph = chain_of(5_000)
    result = engine.invoke(graph, {}, limit(5_000))
    assert (result["count"], result.steps, result.last_nodes) == (5_000, 5_000, ("n4999",))


def calls_of(action: Any) -> int:
    """How many Python functions are entered: a measure of cost that is the same on every machine."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def test_compiling_costs_by_the_node():
    """Promise 10: flat as graphs grow: twice the nodes, twice the work."""
    builders = [
        builder(Count, {f"n{i}": step for i in range(n)}, *chain_edges([f"n{i}" for i in range(n)]))
        for n in (400, 800)
    ]
    builders[0].compile()  # what is done once and for all isn't counted
    small, large = (calls_of(each.compile) for each in builders)
    assert large < 2.2 * small


@pytest.mark.parametrize("saving", [False, True])
def test_a_step_costs_the_same_in_any_graph(saver, saving):
    """Promise 10: flat as graphs grow and runs go on: neither the number of nodes nor that of steps counts."""
    costs = []
    for length in (50, 100, 400):
        graph = chain_of(length, saver if saving else None)
        options = {"thread_id": str(length)} if saving else {}
        graph.invoke({}, limit(length), **{name: f"warm {value}" for name, value in options.items()})
        costs.append(
            calls_of(
                lambda graph=graph, length=length, options=options: graph.invoke({}, limit(length), **options)
            )
        )
    a_step = (costs[1] - costs[0]) / 50
    assert (costs[2] - costs[1]) / 300 == pytest.approx(a_step, rel=0.05)


def test_a_wide_fan_compiles_and_runs(engine):
    """Issue: as wide as it is long: 1,000 nodes side by side, and 1,000 sends, joined."""
    names = [f"n{i:03}" for i in range(1_000)]
    graph = builder(Count, dict.fromkeys(names, step) | {"end": step}, *((START, name) for name in names))
    graph.add_edge(names, "end")
    result = engine.invoke(graph.compile(), {})
    assert (result["count"], result.steps) == (1_001, 2)
    graph = StateGraph(Count).add_node("worker", step)
    graph.add_conditional_edges(START, lambda s: [Send("worker", {})] * 1_000)
    assert engine.invoke(graph.compile(), {})["count"] == 1_000


def test_deep_nesting_compiles_and_runs(engine):
    """Issue: subgraphs at any depth: thirty levels."""
    graph = chain_of(1)
    for _ in range(30):
        graph = fan(Count, child=graph, other=step)
    assert engine.invoke(graph, {})["count"] == 31
