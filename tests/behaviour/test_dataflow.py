"""Data-flow mode (right-behaviour 14): branches don't wait for each other, and every state is that of the superstep run."""

import asyncio
import operator
import threading
from typing import Annotated, Any, Literal, TypedDict

import pytest

from juncture import (
    END,
    START,
    Command,
    ConfigError,
    GraphBuildError,
    GraphRecursionError,
    InMemorySaver,
    InvalidUpdateError,
    RetryPolicy,
    StateGraph,
    interrupt,
    task,
)
from tests.behaviour.building import thread

pytestmark = pytest.mark.timeout(20)
WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class Left(TypedDict, total=False):
    left: int
    log: Annotated[list[str], operator.add]


class Right(TypedDict, total=False):
    right: int


class State(Left, Right, total=False):
    done: Any


class OnlyLeft(TypedDict, total=False):
    left: int


class Broken(Exception):
    """What a node fails with."""


def two_branches(slow: Any, *, last: Any = None, second: Any = None, **options: Any) -> Any:
    """START → a → b → c beside START → slow → end, joined in `done`."""

    def add(state: OnlyLeft) -> dict[str, Any]:
        return {"left": state.get("left", 0) + 1}

    builder = StateGraph(State)
    builder.add_node("a", add, writes=["left"])
    builder.add_node("b", second or add, writes=["left"])
    builder.add_node("c", last or add, writes=["left", "log"])
    builder.add_node("slow", slow, writes=["right"])
    builder.add_node("end", lambda state: {"right": state["right"] * 10}, writes=["right"])
    builder.add_node("done", lambda state: {"done": (state["left"], state["right"])})
    for start, end in ((START, "a"), ("a", "b"), ("b", "c"), (START, "slow"), ("slow", "end")):
        builder.add_edge(start, end)
    builder.add_edge(["c", "end"], "done")
    return builder.compile(options.pop("saver", None), **options)


def waiting_for(flag: threading.Event) -> Any:
    """A node that ends once the other branch has run to its end."""

    def slow(state: Right) -> dict[str, Any]:
        assert flag.wait(WAIT), "the other branch waited for this one"
        return {"right": 1}

    return slow


@pytest.mark.parametrize("saved", [False, True])
def test_a_branch_runs_ahead_of_its_siblings(engine, saved):
    reached = threading.Event()

    def last(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        return {"left": state["left"] + 100}

    graph = two_branches(
        waiting_for(reached), last=last, schedule="dataflow", saver=InMemorySaver() if saved else None
    )
    result = engine.invoke(graph, {}, thread() if saved else None)
    assert result["done"] == (102, 10)
    assert result.steps == 4
    if saved:
        shown = [
            (s.metadata["step"], s.values.get("left"), s.values.get("right"))
            for s in engine.history(graph, thread())
        ]
        assert shown == [(4, 102, 10), (3, 102, 10), (2, 2, 10), (1, 1, 1), (0, None, None)]


def test_async_branches_run_ahead(engine):
    reached = threading.Event()

    async def last(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        return {"left": state["left"] + 100}

    async def slow(state: Right) -> dict[str, Any]:
        async with asyncio.timeout(WAIT):
            while not reached.is_set():  # noqa: ASYNC110 - it may be set from another thread
                await asyncio.sleep(0)
        return {"right": 1}

    graph = two_branches(slow, last=last, schedule="dataflow")
    assert engine.invoke(graph, {})["done"] == (102, 10)


def test_parts_keep_the_order_of_the_steps(engine):
    reached = threading.Event()

    def last(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        return {"left": 5}

    options = {"stream_mode": ["updates", "values"], "version": "parts"}
    ahead = engine.stream(two_branches(waiting_for(reached), last=last, schedule="dataflow"), {}, **options)
    reached.set()
    plain = engine.stream(two_branches(waiting_for(reached), last=last), {}, **options)
    by_step = [(part.step, part.mode, part.node or "") for part in ahead]
    assert by_step == sorted(by_step, key=lambda part: part[0])
    assert sorted(by_step) == sorted((part.step, part.mode, part.node or "") for part in plain)
    assert [part.data for part in ahead if part.mode == "values"] == [
        part.data for part in plain if part.mode == "values"
    ]


@pytest.mark.parametrize(
    "why", ["undeclared sibling", "undeclared reads", "reads what may come", "pause", "lenient"]
)
def test_what_isnt_known_waits(engine, why):
    order: list[str] = []

    def first(state: OnlyLeft) -> dict[str, Any]:
        return {"left": 1}

    def reads_left(state: OnlyLeft) -> dict[str, Any]:
        order.append("second")
        return {"left": 2}

    def reads_all(state: State) -> dict[str, Any]:
        order.append("second")
        return {"left": 2}

    def slow(state: Right) -> dict[str, Any]:
        gone_on.wait(0.05)  # nothing will come: the other branch must wait for this node to end
        order.append("slow")
        return {"right": 1}

    gone_on = threading.Event()
    builder = StateGraph(State, strict=why != "lenient")
    builder.add_node("first", first, writes=["left"])
    builder.add_node("second", reads_all if why == "undeclared reads" else reads_left, writes=["left"])
    builder.add_node(
        "slow",
        slow,
        writes=None
        if why == "undeclared sibling"
        else ["left", "right"]
        if why == "reads what may come"
        else ["right"],
    )
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge(START, "slow")
    graph = builder.compile(
        InMemorySaver() if why == "pause" else None,
        schedule="dataflow",
        interrupt_before=["second"] if why == "pause" else None,
    )
    config = thread() if why == "pause" else None
    engine.invoke(graph, {}, config)
    if why == "pause":
        engine.invoke(graph, None, config)
    assert order == ["slow", "second"]


def test_a_node_that_a_sibling_may_lead_to_may_write_too(engine):
    """`slow` leads to `writer`, which writes what `third` reads two steps later."""
    order: list[str] = []
    second_ran = threading.Event()

    def second(state: OnlyLeft) -> None:
        order.append("second")
        second_ran.set()

    def slow(state: Right) -> None:
        assert second_ran.wait(WAIT)
        order.append("slow")

    def node(name: str, writes: dict[str, Any]) -> Any:
        def run(state: OnlyLeft) -> dict[str, Any]:
            order.append(name)
            return writes

        return run

    builder = StateGraph(State)
    builder.add_node("first", node("first", {}), writes=[])
    builder.add_node("second", second, writes=[])
    builder.add_node("third", node("third", {}), writes=["log"])
    builder.add_node("slow", slow, writes=["right"])
    builder.add_node("writer", node("writer", {"left": 7}), writes=["left"])
    for start, end in (
        (START, "first"),
        ("first", "second"),
        ("second", "third"),
        (START, "slow"),
        ("slow", "writer"),
    ):
        builder.add_edge(start, end)
    engine.invoke(builder.compile(schedule="dataflow"), {})
    assert order.index("second") < order.index("slow")
    assert order.index("writer") < order.index("third")


def test_a_router_that_says_what_it_reads_runs_ahead_with_its_node(engine):
    reached = threading.Event()
    rounds: list[int] = []

    def count(state: OnlyLeft) -> dict[str, Any]:
        return {"left": state.get("left", 0) + 1}

    def again(state: OnlyLeft) -> Literal["count", "out"]:
        rounds.append(state["left"])
        return "count" if state["left"] < 5 else "out"

    def out(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        return {"left": state["left"] * 10}

    builder = StateGraph(State)
    builder.add_node("count", count, writes=["left"])
    builder.add_node("out", out, writes=["left"])
    builder.add_node("slow", waiting_for(reached), writes=["right"])
    builder.add_edge(START, "count")
    builder.add_edge(START, "slow")
    builder.add_edge("slow", END)  # it leads nowhere else: without it, a command might
    builder.add_conditional_edges("count", again)
    assert engine.invoke(builder.compile(schedule="dataflow"), {}) == {"left": 50, "right": 1, "log": []}
    assert rounds == [1, 2, 3, 4, 5]


def test_a_nested_graph_and_calls_run_ahead(engine):
    reached = threading.Event()

    @task
    def called(value: int) -> int:
        return value + 1

    def inner(state: OnlyLeft) -> dict[str, Any]:
        return {"left": called(state["left"]).result()}

    child = StateGraph(OnlyLeft)
    child.add_node("inner", inner)
    child.add_edge(START, "inner")

    def last(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        return {"left": called(state["left"] + 100).result()}

    graph = two_branches(waiting_for(reached), second=child.compile(), last=last, schedule="dataflow")
    assert engine.invoke(graph, {})["done"] == (103, 10)


def test_the_limit_holds_for_what_runs_ahead(engine):
    ran: list[str] = []

    def last(state: OnlyLeft) -> dict[str, Any]:
        ran.append("last")
        return {}

    graph = two_branches(lambda state: {"right": 1}, last=last, schedule="dataflow")
    with pytest.raises(GraphRecursionError):
        engine.invoke(graph, {}, {"recursion_limit": 2})
    assert ran == []


def test_a_failure_beside_it_discards_what_ran_ahead_and_it_isnt_run_again(engine):
    ran: list[str] = []
    reached = threading.Event()
    fails = [True]

    def last(state: OnlyLeft) -> dict[str, Any]:
        ran.append("last")
        reached.set()
        return {"left": state["left"] + 100}

    def slow(state: Right) -> dict[str, Any]:
        assert reached.wait(WAIT)
        ran.append("slow")
        if fails:
            raise Broken
        return {"right": 1}

    graph = two_branches(slow, last=last, schedule="dataflow", saver=InMemorySaver())
    with pytest.raises(Broken):
        engine.invoke(graph, {}, thread())
    assert engine.state(graph, thread()).metadata["step"] == 0
    fails.clear()
    result = engine.invoke(graph, None, thread())
    assert result["done"] == (102, 10)
    assert ran.count("last") == 1
    assert ran.count("slow") == 2


def test_a_failure_ahead_waits_for_its_step(engine):
    reached = threading.Event()

    def last(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        raise Broken

    graph = two_branches(waiting_for(reached), last=last, schedule="dataflow", saver=InMemorySaver())
    with pytest.raises(Broken):
        engine.invoke(graph, {}, thread())
    state = engine.state(graph, thread())
    assert state.metadata["step"] == 2
    assert state.next == ("c",)


def test_a_failing_try_ahead_is_made_again(engine):
    reached = threading.Event()
    tries: list[int] = []

    def last(state: OnlyLeft) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 3:
            raise Broken
        reached.set()
        return {"left": 7}

    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"left": 1}, input_schema=OnlyLeft, writes=["left"])
    builder.add_node("c", last, writes=["left"], retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    builder.add_node("slow", waiting_for(reached), writes=["right"])
    builder.add_edge(START, "a")
    builder.add_edge("a", "c")
    builder.add_edge(START, "slow")
    assert engine.invoke(builder.compile(schedule="dataflow"), {})["left"] == 7


def test_a_question_ahead_is_asked_in_its_step_and_what_ended_isnt_run_again(engine):
    reached = threading.Event()
    ran: list[str] = []

    def second(state: OnlyLeft) -> dict[str, Any]:
        ran.append("second")
        return {"left": state["left"] + 1}

    def last(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        return {"left": interrupt("how many?")}

    graph = two_branches(
        waiting_for(reached), second=second, last=last, schedule="dataflow", saver=InMemorySaver()
    )
    paused = engine.invoke(graph, {}, thread())
    assert [question.value for question in paused.interrupts] == ["how many?"]
    assert engine.state(graph, thread()).metadata["step"] == 2
    assert engine.resume(graph, 40, thread())["done"] == (40, 10)
    assert ran == ["second"]


def test_what_a_node_ahead_had_called_isnt_called_again(engine):
    """Its calls were saved beside checkpoints of steps that have ended since."""
    reached = threading.Event()
    calls: list[int] = []

    @task
    def called(value: int) -> int:
        calls.append(value)
        return value + 1

    def last(state: OnlyLeft) -> dict[str, Any]:
        value = called(state["left"]).result()
        reached.set()
        return {"left": value + interrupt("how many?")}

    saver = InMemorySaver()
    graph = two_branches(waiting_for(reached), last=last, schedule="dataflow", saver=saver)
    engine.invoke(graph, {}, thread())
    assert calls == [2]
    again = two_branches(waiting_for(reached), last=last, schedule="dataflow", saver=saver)
    assert engine.resume(again, 40, thread())["done"] == (43, 10)
    assert calls == [2]


def test_a_question_beside_it_keeps_what_ran_ahead(engine):
    ran: list[str] = []
    reached = threading.Event()

    def last(state: OnlyLeft) -> dict[str, Any]:
        ran.append("last")
        reached.set()
        return {"left": state["left"] + 100}

    def slow(state: Right) -> dict[str, Any]:
        assert reached.wait(WAIT)
        return {"right": interrupt("right?")}

    graph = two_branches(slow, last=last, schedule="dataflow", saver=InMemorySaver())
    engine.invoke(graph, {}, thread())
    assert engine.resume(graph, 1, thread())["done"] == (102, 10)
    assert ran.count("last") == 1


def test_an_update_with_the_answer_is_seen_by_what_had_run_ahead(engine):
    reached = threading.Event()

    def last(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        return {"left": state["left"] + 100}

    def slow(state: Right) -> dict[str, Any]:
        assert reached.wait(WAIT)
        return {"right": interrupt("right?")}

    answers = []
    for schedule in ("dataflow", "superstep"):
        reached.clear()
        if schedule == "superstep":
            reached.set()
        graph = two_branches(slow, last=last, schedule=schedule, saver=InMemorySaver())
        engine.invoke(graph, {}, thread())
        answers.append(engine.invoke(graph, Command(resume=1, update={"left": 1000}), thread())["done"])
    assert answers[0] == answers[1]


def test_a_write_that_wasnt_declared_is_an_error(engine):
    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"left": 1, "right": 2}, writes=["left"])
    builder.add_edge(START, "a")
    for schedule in ("superstep", "dataflow"):
        with pytest.raises(InvalidUpdateError, match=r"'a' wrote 'right'.*declares.*left"):
            engine.invoke(builder.compile(schedule=schedule), {})


def test_wrong_declarations_are_refused():
    with pytest.raises(GraphBuildError, match="'lft'"):
        StateGraph(State).add_node("a", lambda state: None, writes=["lft"]).add_edge(START, "a").compile()
    with pytest.raises(GraphBuildError, match="list of state keys"):
        StateGraph(State).add_node("a", lambda state: None, writes="left")
    with pytest.raises(ConfigError, match="schedule"):
        StateGraph(State).add_node("a", lambda state: None).add_edge(START, "a").compile(schedule="lazy")


def test_a_consumer_that_stops_early_leaves_nothing_running(engine):
    reached = threading.Event()

    def last(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        return {"left": 1}

    graph = two_branches(waiting_for(reached), last=last, schedule="dataflow")
    engine.consume(graph, {}, lambda _: False)
    assert engine.invoke(graph, {})["done"] == (1, 10)


def test_beginnings_show_as_they_come_and_a_pause_near_by_keeps_all_waiting(engine):
    reached = threading.Event()

    def last(state: OnlyLeft) -> dict[str, Any]:
        reached.set()
        return {"left": 5}

    shown = engine.stream(
        two_branches(waiting_for(reached), last=last, schedule="dataflow"), {}, stream_mode="tasks"
    )
    begun = [item["name"] for item in shown if "input" in item]
    assert begun.index("c") < begun.index("end")
    order: list[str] = []

    def slow(state: Right) -> dict[str, Any]:
        order.append("slow")
        return {"right": 1}

    def ran(state: OnlyLeft) -> dict[str, Any]:
        order.append("last")
        return {"left": 5}

    graph = two_branches(
        slow, last=ran, schedule="dataflow", saver=InMemorySaver(), interrupt_before=lambda state: False
    )
    engine.invoke(graph, {}, thread())
    assert order == ["slow", "last"]


def test_a_node_that_may_lead_anywhere_is_passed_by_one_step_only(engine):
    """`slow` has no edge, so a command might lead from it to a node that writes what `third` reads."""
    order: list[str] = []
    ran_second = threading.Event()

    def second(state: OnlyLeft) -> None:
        order.append("second")
        ran_second.set()

    def slow(state: Right) -> None:
        assert ran_second.wait(WAIT)
        order.append("slow")

    builder = StateGraph(State)
    builder.add_node("first", lambda state: None, input_schema=OnlyLeft, writes=[])
    builder.add_node("second", second, writes=[])
    builder.add_node("third", lambda state: order.append("third"), input_schema=OnlyLeft, writes=[])
    builder.add_node("slow", slow, writes=[])
    for start, end in ((START, "first"), ("first", "second"), ("second", "third"), (START, "slow")):
        builder.add_edge(start, end)
    engine.invoke(builder.compile(schedule="dataflow"), {})
    assert order == ["second", "slow", "third"]


def test_a_call_ahead_that_fails_is_tried_again(engine):
    reached = threading.Event()
    tries: list[int] = []

    @task(retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    def flaky() -> int:
        tries.append(1)
        if len(tries) < 2:
            raise Broken
        return 9

    def last(state: OnlyLeft) -> dict[str, Any]:
        value = flaky().result()
        reached.set()
        return {"left": value}

    graph = two_branches(waiting_for(reached), last=last, schedule="dataflow")
    assert engine.invoke(graph, {})["done"] == (9, 10)


def test_what_two_branches_write_in_conflict_fails_when_it_is_committed(engine):
    """`after` can't be handed a value that can't be merged; its step is never reached."""
    builder = StateGraph(State)
    for name in ("a", "b"):
        builder.add_node(name, lambda state: {"left": 1}, input_schema=OnlyLeft, writes=["left"])
        builder.add_edge(START, name)
        builder.add_edge(name, "after")
    builder.add_node(
        "after", lambda state: None, input_schema=OnlyLeft, writes=[], silence=("concurrent-writes",)
    )
    builder.add_node("slow", lambda state: None, input_schema=Right, writes=[])
    builder.add_edge(START, "slow")
    for name in ("a", "b"):
        builder.nodes[name].silence = frozenset({"concurrent-writes"})
    with pytest.raises(InvalidUpdateError, match="left"):
        engine.invoke(builder.compile(schedule="dataflow"), {})
