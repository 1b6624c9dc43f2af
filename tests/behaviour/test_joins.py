"""Where branches come together: joins, deferred nodes, uneven branches (right-behaviour 12 and 13)."""

import itertools
import threading
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    END,
    START,
    Append,
    Command,
    GraphBuildError,
    Send,
    StateGraph,
    StuckJoinError,
    interrupt,
)
from tests.behaviour.building import builder, chain, nothing, wrote
from tests.faulty import faulty


class Log(TypedDict, total=False):
    log: Annotated[list[str], Append()]
    rounds: int
    way: Any


def n(text: str):
    """A node that notes that it ran."""
    return wrote("log", text)


def named(*names: str, **others: Any) -> dict[str, Any]:
    """Nodes that note that they ran, and others."""
    return {name: n(name) for name in names} | others


def start(*names: str) -> list[tuple[str, str]]:
    return [(START, name) for name in names]


# ── joins ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_join_waits_for_all(engine):
    """Rule 12: the branches are of different length; the join runs once, after the longest."""
    graph = builder(
        Log, named("a", "b", "b2", "b3", "j"), *start("a", "b"), ("b", "b2"), ("b2", "b3"), (["a", "b3"], "j")
    )
    result = engine.invoke(graph.compile(), {})
    assert result["log"] == ["a", "b", "b2", "b3", "j"]
    assert result.steps == 4


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_a_join_doesnt_depend_on_who_ends_first(engine, order):
    """Promise 2: any order of completion; the log is in plan order, and the join runs once."""
    turns = {name: threading.Event() for name in order}
    turns[order[0]].set()

    def node(name):
        def run(state):
            assert turns[name].wait(20)
            later = order[order.index(name) + 1 :]
            if later:
                turns[later[0]].set()
            return {"log": name}

        return run

    graph = builder(
        Log, {name: node(name) for name in "abc"} | named("j"), *start(*"abc"), (list("cab"), "j")
    )
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "c", "j"]


def test_a_join_of_one_is_an_edge(engine):
    """graph-api 3: a list of one, and a list that names one twice."""
    for sources in (["a"], ["a", "a"], ("a",)):
        assert engine.invoke(builder(Log, named("a", "j"), (START, "a"), (sources, "j")).compile(), {})[
            "log"
        ] == ["a", "j"]


def test_a_join_given_twice_is_one(engine):
    """README of the specs: a duplicate edge collapses, whatever order its sources are named in."""
    graph = builder(Log, named("a", "b", "j"), *start("a", "b"), (["a", "b"], "j"), (["b", "a"], "j"))
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "j"]


def test_joins_and_edges_into_one_node(engine):
    """graph-api 3: several edges into one node fire it once per step in which one of them does."""
    graph = builder(Log, named("a", "b", "c", "j"), *start("a", "b", "c"), (["a", "b"], "j"), ("c", "j"))
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "c", "j"]
    graph = builder(
        Log, named("a", "b", "c", "j"), *start("a", "c"), ("a", "b"), (["a", "b"], "j"), ("c", "j")
    )
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "c", "b", "j", "j"]


def test_two_joins_into_one_node(engine):
    """Rule 12: each waits for its own; a source may be in several."""
    graph = builder(
        Log,
        named(*"abcd", "j"),
        *start("a", "b"),
        ("b", "c"),
        ("c", "d"),
        (["a", "b"], "j"),
        (["b", "d"], "j"),
    )
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "c", "j", "d", "j"]


def test_a_join_into_several_nodes(engine):
    """Rule 12: the same sources may be joined into more than one node."""
    graph = builder(Log, named("a", "b", "j", "k"), *start("a", "b"), (["a", "b"], "j"), (["a", "b"], "k"))
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "j", "k"]


def test_a_join_is_ready_again_after_it_fired(engine):
    """graph-api 3: it waits for all that ran *since it last did*."""

    def j(state):
        return {"log": "j", "rounds": state.get("rounds", 0) + 1}

    graph = builder(Log, named("a", "b", "b2", j=j), *start("a", "b"), ("b", "b2"), (["a", "b2"], "j"))
    graph.add_conditional_edges("j", lambda s: ["a", "b"] if s["rounds"] < 3 else END)
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "b2", "j"] * 3


def test_a_source_that_runs_twice_counts_once(engine):
    """graph-api 3: each source is counted once until the join fires."""

    def a(state):
        return {"log": "a", "rounds": state.get("rounds", 0) + 1}

    graph = builder(
        Log, named("b", "b2", "b3", "j", a=a), *start("a", "b"), ("b", "b2"), ("b2", "b3"), (["a", "b3"], "j")
    )
    graph.add_conditional_edges("a", lambda s: "a" if s["rounds"] < 3 else [])
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "a", "b2", "a", "b3", "j"]


def test_joined_sources_may_be_sent_to_and_gone_to(engine):
    """Rule 12: it counts that a node ran, not why: by a send, by several sends, by a goto."""
    graph = builder(Log, {"a": lambda x: {"log": x}, "b": n("b"), "j": n("j")}, (["a", "b"], "j"))
    graph.add_node("src", lambda s: Command(goto=["b", Send("a", "a1"), Send("a", "a2")])).add_edge(
        START, "src"
    )
    assert engine.invoke(graph.compile(), {})["log"] == ["b", "a1", "a2", "j"]


@faulty("unreachable-node")
def test_a_join_into_the_end_does_nothing(engine):
    """graph-api 3: accepted, and nothing waits at it, so nothing can be stuck there."""
    graph = builder(Log, named("a", "b"), (START, "a"), (["a", "b"], END))
    assert engine.invoke(graph.compile(), {}) == {"log": ["a"]}


def test_joins_with_odd_names_keep_apart(engine):
    """Rule 12: names may hold any character but the reserved ones; two joins are never taken for one."""
    graph = builder(Log, named("a", "b+c", "a+b", "c", "j"), *start("a", "a+b", "c"), ("a", "b+c"))
    graph.add_edge(["a+b", "c"], "j").add_edge(["a", "b+c"], "j")
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "a+b", "c", "b+c", "j", "j"]


def test_one_join_with_two_policies_is_refused():
    """Promise 1: which one is meant can't be told, so it isn't chosen in silence."""
    graph = builder(Log, named("a", "b", "j"), (START, "a")).add_edge(["a", "b"], "j")
    with pytest.raises(GraphBuildError, match="'j'"):
        graph.add_edge(["b", "a"], "j", join="arrived").compile()


def test_joins_of_nodes_that_dont_exist_are_refused():
    """graph-api 3: names exist already; START and END are no sources; each message says what to do."""
    graph = builder(Log, named("a", "j"), (START, "a"))
    for sources, target, said in (
        (["a", "b"], "j", "add_node `b`"),
        (["a"], "k", "add_node `k`"),
        ([], "j", "no sources"),
        (["a", START], "j", "START"),
        (["a", END], "j", "END"),
        (["a"], START, "START"),
    ):
        with pytest.raises(GraphBuildError, match=said):
            graph.add_edge(sources, target)
    with pytest.raises(GraphBuildError, match='"all" or "arrived"'):
        graph.add_edge(["a"], "j", join="any")
    assert graph.joins == []


def test_a_join_lives_through_a_pause(engine, saver):
    """Rules 12 and 36: what arrived is part of the checkpoint."""
    graph = builder(
        Log,
        named("a", "j", b=nothing, b2=lambda s: {"log": interrupt("?")}),
        *start("a", "b"),
        ("b", "b2"),
        (["a", "b2"], "j"),
    ).compile(saver)
    assert engine.invoke(graph, {}, thread_id="t").status == "interrupted"
    assert engine.resume(graph, "answer", thread_id="t")["log"] == ["a", "answer", "j"]


def test_a_join_lives_through_a_failure(engine, saver):
    """Rules 12 and 22: the branch that failed runs again, the one that had arrived doesn't."""
    fails = [True]

    def b2(state):
        if fails and fails.pop():
            raise RuntimeError("once")
        return {"log": "b2"}

    graph = builder(
        Log, named("a", "b", "j", b2=b2), *start("a", "b"), ("b", "b2"), (["a", "b2"], "j")
    ).compile(saver)
    with pytest.raises(RuntimeError, match="once"):
        engine.invoke(graph, {}, thread_id="t")
    assert engine.invoke(graph, None, thread_id="t")["log"] == ["a", "b", "b2", "j"]


# ── joins that would be stuck ────────────────────────────────────────────────────────────────────────────────


def skipping(policy: str = "all", **options: Any) -> StateGraph:
    """b is skipped unless the state says otherwise; j joins a, b and c."""
    graph = builder(
        Log,
        named("a", "b", "c", "c2", "j", "after"),
        *start("a", "c"),
        ("c", "c2"),
        ("j", "after"),
        **options,
    )
    graph.add_conditional_edges(START, lambda s: "b" if s.get("way") == "b" else [], ["b"])
    return graph.add_edge(["a", "b", "c2"], "j", join=policy)


def test_a_join_that_would_be_stuck_is_an_error(engine):
    """Rule 12: naming the join, what arrived and what is missing; what was committed stays."""
    graph = skipping().compile()
    with pytest.raises(StuckJoinError) as caught:
        engine.invoke(graph, {})
    for part in ("'j'", "'a'", "'c2'", "'b' never ran", "arrived"):
        assert part in str(caught.value)
    assert caught.value.node == "j"
    assert caught.value.result == {"log": ["a", "c", "c2"]}
    assert engine.invoke(graph, {"way": "b"})["log"] == ["a", "b", "c", "c2", "j", "after"]


@faulty("stuck-join", "unreachable-node")
def test_several_missing_sources_are_all_named(engine):
    """Rule 12: each of them."""
    graph = builder(Log, named(*"abcd", "j"), *start("b", "d"), (list("abcd"), "j")).compile()
    with pytest.raises(StuckJoinError) as caught:
        engine.invoke(graph, {})
    arrived, missing = str(caught.value).split("arrived", 1)
    assert "'b', 'd'" in arrived
    assert "'a', 'c'" in missing


@faulty("stuck-join", "unreachable-node")
def test_a_join_that_nobody_reached_is_not_stuck(engine):
    """Rule 12 is about joins partly filled."""
    graph = builder(Log, named("a", "b", "c", "j"), (START, "c"), (["a", "b"], "j"))
    assert engine.invoke(graph.compile(), {})["log"] == ["c"]


def test_a_source_that_ran_on_after_the_join_fired_leaves_it_partly_filled(engine):
    """Rule 12: since it last fired, `a` ran and `b` didn't: that is loud, or fires with `arrived`."""

    def a(state):
        return {"log": "a", "rounds": state.get("rounds", 0) + 1}

    for policy, expected in (("all", None), ("arrived", ["a", "b", "a", "j", "j"])):
        graph = builder(Log, named("b", "j", a=a), *start("a", "b")).add_edge(["a", "b"], "j", join=policy)
        graph.add_conditional_edges("a", lambda s: "a" if s["rounds"] < 2 else [])
        if expected is None:
            with pytest.raises(StuckJoinError, match="'b' never ran"):
                engine.invoke(graph.compile(), {})
        else:
            assert engine.invoke(graph.compile(), {})["log"] == expected


@faulty("stuck-join", "unreachable-node")
def test_a_stuck_thread_takes_new_input(engine, saver):
    """Rule 12: what was committed stays; a new input starts over, and the old arrivals don't count."""
    graph = skipping().compile(saver)
    with pytest.raises(StuckJoinError):
        engine.invoke(graph, {}, thread_id="t")
    with pytest.raises(StuckJoinError):
        engine.invoke(graph, None, thread_id="t")
    graph = builder(Log, named("b", "j", a=nothing), (START, "b"), (["a", "b"], "j")).compile(saver)
    with pytest.raises(StuckJoinError, match="'a' never ran") as caught:
        engine.invoke(graph, {}, thread_id="t")
    assert caught.value.result == {"log": ["a", "c", "c2", "b"]}


def test_a_stuck_join_in_a_subgraph_is_found(engine):
    """Rule 12: the child would end; the error names the place in it."""
    with pytest.raises(StuckJoinError, match="'j'") as caught:
        engine.invoke(chain(Log, before=n("before"), child=skipping().compile()), {})
    assert caught.value.namespace != ()
    assert caught.value.namespace[0].startswith("child")
    assert caught.value.result == {"log": ["before"]}


def test_lenient_runs_just_end(engine):
    """Rule 12, L: as in LangGraph."""
    assert engine.invoke(skipping(strict=False).compile(), {})["log"] == ["a", "c", "c2"]


def test_a_failure_is_not_a_stuck_join(engine):
    """Rule 12: the branch that failed tells why."""

    def fail(state):
        raise RuntimeError("in b")

    graph = builder(Log, named("a", "j", b=fail), *start("a", "b"), (["a", "b"], "j"))
    with pytest.raises(RuntimeError, match="in b"):
        engine.invoke(graph.compile(), {})


# ── join="arrived" ───────────────────────────────────────────────────────────────────────────────────────────


def test_arrived_fires_with_what_came(engine):
    """Rule 12: at the point where the run would end, and it leads on."""
    assert engine.invoke(skipping("arrived").compile(), {})["log"] == ["a", "c", "c2", "j", "after"]


def test_arrived_fires_as_soon_as_all_came(engine):
    """Rule 12: it is a join first: with all sources there it doesn't wait for the end."""
    graph = builder(
        Log, named("a", "b", "c", "c2", "c3", "j"), *start("a", "b", "c"), ("c", "c2"), ("c2", "c3")
    )
    graph.add_edge(["a", "b"], "j", join="arrived")
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "c", "c2", "j", "c3"]


@faulty("unreachable-node")
def test_arrived_doesnt_fire_for_nobody(engine):
    """Rule 12: nothing came, so there is nothing to fire with."""
    graph = builder(Log, named("a", "b", "c", "j"), (START, "c")).add_edge(["a", "b"], "j", join="arrived")
    assert engine.invoke(graph.compile(), {})["log"] == ["c"]


@faulty("unreachable-node")
def test_arrived_may_fill_another_join(engine):
    """Rule 12: a join that waits for all is only stuck if nothing else can happen."""
    graph = builder(Log, named("a", "b", "c", "j", "k"), *start("a", "c"))
    graph.add_edge(["a", "b"], "j", join="arrived").add_edge(["j", "c"], "k")
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "c", "j", "k"]


@faulty("unreachable-node")
def test_several_joins_arrive_in_one_step(engine):
    """Rule 12: all that have something fire together, in node-name order."""
    graph = builder(Log, named(*"abcd", "j1", "j2"), *start("a", "c"))
    graph.add_edge(["a", "b"], "j2", join="arrived").add_edge(["c", "d"], "j1", join="arrived")
    result = engine.invoke(graph.compile(), {})
    assert (result["log"], result.steps) == (["a", "c", "j1", "j2"], 2)


@faulty("unreachable-node")
def test_arrived_in_a_loop(engine):
    """Rule 12: it fires every time that the run would end."""

    def j(state):
        return {"log": "j", "rounds": state.get("rounds", 0) + 1}

    graph = builder(Log, named("a", "b", j=j), (START, "a")).add_edge(["a", "b"], "j", join="arrived")
    graph.add_conditional_edges("j", lambda s: "a" if s["rounds"] < 3 else END)
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "j"] * 3


# ── deferred nodes ───────────────────────────────────────────────────────────────────────────────────────────


def deferring(
    nodes: dict[str, Any], *edges: tuple[Any, Any], late: Any = None, name: str = "late"
) -> StateGraph:
    graph = StateGraph(Log).add_node(name, late or n(name), defer=True)
    for each, action in nodes.items():
        graph.add_node(each, action)
    for begin, end in edges:
        graph.add_edge(begin, end)
    return graph


def test_a_deferred_node_waits_for_everything(engine):
    """graph-api 3: it fires once for all pending triggers, when nothing else is due."""
    graph = deferring(
        named("a", "b", "b2", "b3"),
        *start("a", "b"),
        ("a", "late"),
        ("b", "b2"),
        ("b2", "b3"),
        ("b3", "late"),
    )
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "b2", "b3", "late"]


def test_a_deferred_node_behind_the_start(engine):
    """graph-api 3: triggered at once, it still waits for the others."""
    graph = deferring(named("a", "b"), *start("late", "a"), ("a", "b"))
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "late"]
    assert engine.invoke(deferring({}, (START, "late")).compile(), {})["log"] == ["late"]


@faulty("unreachable-node")
def test_a_deferred_node_that_nothing_triggers_doesnt_run(engine):
    """graph-api 3: deferred is not the same as last."""
    graph = deferring(named("a", "b"), (START, "a"), ("b", "late"))
    assert engine.invoke(graph.compile(), {})["log"] == ["a"]


def test_a_deferred_node_after_sends(engine):
    """graph-api 3: map and reduce with branches of different length: the reduction runs once, on all of them."""
    seen = []

    def work(x):
        return Command(update={"log": f"w{x}"}, goto=Send("more", x) if x % 2 else "late")

    def late(state):
        seen.append(list(state["log"]))
        return {"log": "late"}

    graph = deferring({"work": work, "more": lambda x: {"log": f"m{x}"}}, ("more", "late"), late=late)
    graph.add_conditional_edges(START, lambda s: [Send("work", x) for x in range(4)])
    assert engine.invoke(graph.compile(), {})["log"] == ["w0", "w1", "w2", "w3", "m1", "m3", "late"]
    assert seen == [["w0", "w1", "w2", "w3", "m1", "m3"]]


def test_a_deferred_node_by_router_and_goto(engine):
    """graph-api 3: however it is triggered."""
    graph = deferring(named("a", "b"), *start("a", "b"), ("b", "c")).add_node("c", n("c"))
    graph.add_conditional_edges("a", lambda s: "late", ["late"])
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "c", "late"]
    graph = deferring(named("b", "c", a=lambda s: Command(goto="late")), *start("a", "b"), ("b", "c"))
    assert engine.invoke(graph.compile(), {})["log"] == ["b", "c", "late"]


def test_what_follows_a_deferred_node(engine):
    """graph-api 3: it may lead on, back into a loop, and be triggered again."""

    def late(state):
        return {"log": "late", "rounds": state.get("rounds", 0) + 1}

    graph = deferring(named("a", "b", "c"), *start("a", "b"), ("a", "late"), ("b", "c"), late=late)
    graph.add_conditional_edges("late", lambda s: ["a", "b"] if s["rounds"] < 2 else END)
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "c", "late"] * 2


def test_deferred_nodes_one_after_another(engine):
    """graph-api 3: two that are triggered together run together; one that is triggered by the other runs after it."""
    graph = deferring(named("a"), (START, "a"), ("a", "late")).add_node("later", n("later"), defer=True)
    graph.add_edge("a", "later")
    result = engine.invoke(graph.compile(), {})
    assert (result["log"], result.steps) == (["a", "late", "later"], 2)
    graph = deferring(named("a", "b"), (START, "a"), ("a", "late"), ("late", "b")).add_node(
        "later", n("later"), defer=True
    )
    graph.add_edge("late", "later")
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "late", "b", "later"]


@faulty("stuck-join", "unreachable-node")
def test_a_deferred_join(engine):
    """graph-api 3: all sources, and nothing else due; with a source missing it is stuck like any join."""
    edges = [*start("a", "b", "c"), ("c", "c2"), ("c2", "c3"), (["a", "b"], "late")]
    graph = deferring(named("a", "b", "c", "c2", "c3"), *edges)
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "c", "c2", "c3", "late"]
    graph = deferring(named("a", "b"), (START, "a"), (["a", "b"], "late"))
    with pytest.raises(StuckJoinError, match="'b' never ran"):
        engine.invoke(graph.compile(), {})


def test_a_deferred_node_may_fill_a_join(engine):
    """Rule 12: it goes first; only then could a join be stuck."""
    graph = deferring(named("a", "b", "j"), *start("a", "b"), ("b", "late"), (["a", "late"], "j"))
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "late", "j"]


def test_a_deferred_node_lives_through_a_pause(engine, saver):
    """Rule 36: that it is pending is part of the checkpoint."""
    graph = deferring(
        named("a", b=nothing, b2=lambda s: {"log": interrupt("?")}),
        *start("a", "b"),
        ("a", "late"),
        ("b", "b2"),
    )
    graph = graph.compile(saver)
    assert engine.invoke(graph, {}, thread_id="t").status == "interrupted"
    assert engine.resume(graph, "answer", thread_id="t")["log"] == ["a", "answer", "late"]


def test_a_pending_deferred_node_doesnt_haunt_the_next_input(engine, saver):
    """README of the specs, rule 12: a new input starts over; what was pending then isn't triggered now."""
    fails = [True]

    def b2(state):
        if fails and fails.pop():
            raise RuntimeError("once")

    graph = deferring(named("a", b=nothing, b2=b2), ("a", "late"), ("b", "b2"))
    graph.add_conditional_edges(START, lambda s: ["a", "b"] if s["way"] == "both" else "b")
    graph = graph.compile(saver)
    with pytest.raises(RuntimeError, match="once"):
        engine.invoke(graph, {"way": "both"}, thread_id="t")
    assert engine.invoke(graph, {"way": "b"}, thread_id="t")["log"] == ["a"]


def test_a_deferred_subgraph(engine):
    """graph-api 3: a graph may be deferred like any node, and may have deferred nodes of its own."""
    inner = deferring(named("x", "y"), *start("x", "y"), ("x", "late")).compile()
    graph = deferring(named("a", "b"), *start("child", "a"), ("a", "b"), late=inner, name="child")
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "x", "y", "late"]


# ── uneven branches ──────────────────────────────────────────────────────────────────────────────────────────


def uneven(**options: Any) -> StateGraph:
    """From `a` one way to `d` is longer than the other."""
    graph = StateGraph(Log)
    for name in "abc":
        graph.add_node(name, n(name))
    graph.add_node("d", n("d"), **options).add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    return graph


@faulty("unequal-branches")
def test_uneven_branches_run_their_end_twice(engine):
    """Rule 13 and README of the specs: once for each step in which one of them arrives."""
    graph = uneven().add_edge("a", "d").add_edge("c", "d").compile()
    assert engine.invoke(graph, {})["log"] == ["a", "b", "d", "c", "d"]


def test_a_join_or_deferral_makes_it_once(engine):
    """Rule 13: the two remedies."""
    graph = uneven().add_edge(["a", "c"], "d").compile()
    assert engine.invoke(graph, {})["log"] == ["a", "b", "c", "d"]
    graph = uneven(defer=True).add_edge("a", "d").add_edge("c", "d").compile()
    assert engine.invoke(graph, {})["log"] == ["a", "b", "c", "d"]


def test_even_branches_run_their_end_once(engine):
    """graph-api 3: several edges into one node fire it once a step."""
    graph = builder(
        Log,
        named("a", "b", "c", "d"),
        (START, "a"),
        ("a", "b"),
        ("a", "c"),
        ("b", "d"),
        ("c", "d"),
        ("b", "d"),
    )
    assert engine.invoke(graph.compile(), {})["log"] == ["a", "b", "c", "d"]


def test_a_self_loop_beside_a_branch(engine):
    """Rules 12 and 13: a node that leads to itself a few times, joined with one that doesn't."""

    def a(state):
        rounds = state.get("rounds", 0) + 1
        return {"log": f"a{rounds}", "rounds": rounds}

    graph = builder(Log, named("b", "out", "j", a=a), *start("a", "b"), (["out", "b"], "j"))
    graph.add_conditional_edges("a", lambda s: "a" if s["rounds"] < 3 else "out", ["a", "out"])
    assert engine.invoke(graph.compile(), {})["log"] == ["a1", "b", "a2", "a3", "out", "j"]


@faulty("endless-loop")
def test_a_static_self_loop_runs_to_the_limit(engine):
    """graph-api 3: an edge from a node to itself is an edge."""
    graph = builder(Log, named("a"), (START, "a"), ("a", "a")).compile()
    with pytest.raises(RecursionError) as caught:
        engine.invoke(graph, {}, {"recursion_limit": 3})
    assert caught.value.result == {"log": ["a"] * 3}
