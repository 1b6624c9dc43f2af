"""When steps are durable: ``sync``, ``async`` and ``exit``; and savers that fail (right-behaviour 22, 28, 36)."""

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import pytest

from juncture import (
    START,
    ConfigError,
    GraphBuildError,
    GraphRecursionError,
    InMemorySaver,
    SaverError,
    SerializationError,
    StateGraph,
    interrupt,
)
from juncture.savers.sqlite import SqliteSaver
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.behaviour.leftovers import in_time
from tests.behaviour.ran import Ran, State, asked

pytestmark = pytest.mark.timeout(30)
WAIT = 10
ALL = ["sync", "async", "exit"]


@pytest.fixture
def ran():
    return Ran()


@pytest.fixture(params=ALL)
def durability(request) -> str:
    return request.param


def steps(engine: Any, graph: Any, config: Any = None) -> list[int]:
    return [one.metadata["step"] for one in engine.history(graph, config or thread())]


# ── whichever it is ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_end_is_durable(engine, saver, ran, durability):
    """Rule 36, case C103: whoever looks afterwards sees the final state and nothing to do."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    done = engine.invoke(graph, {"log": ["in"], "x": (1, {2})}, thread(), durability=durability)
    again = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    state = engine.state(again, thread())
    assert (state.values, state.next) == (dict(done), ())
    assert state.config["configurable"]["checkpoint_id"] == done.checkpoint.checkpoint_id
    assert state.metadata["step"] == 2


def test_a_pause_is_durable(engine, saver, ran, durability):
    graph = builder(
        State,
        {"a": ran.asks("a"), "b": ran.step("b"), "c": ran.step("c")},
        (START, "a"),
        (START, "b"),
        (["a", "b"], "c"),
    ).compile(saver)
    paused = engine.invoke(graph, {"log": ["in"]}, thread(), durability=durability)
    state = engine.state(graph, thread())
    assert (state.interrupts, state.next, state.values["log"]) == (paused.interrupts, ("a",), ["in", "b"])
    ran.clear()
    done = engine.resume(graph, "yes", thread(), durability=durability)
    assert (done["log"], ran) == (["in", ("a", "yes"), "b", "c"], ["a", "c"])


def test_a_static_pause_is_durable(engine, saver, ran, durability):
    graph = builder(State, {n: ran.step(n) for n in "abc"}, (START, "a"), ("a", "b"), ("b", "c"))
    graph = graph.compile(saver, interrupt_before=["b"], interrupt_after=["b"])
    for expected in (["a"], ["a", "b"]):
        paused = engine.invoke(graph, None if ran else {"x": 1}, thread(), durability=durability)
        assert paused["log"] == expected
        assert engine.state(graph, thread()).interrupts == paused.interrupts
    assert engine.invoke(graph, None, thread(), durability=durability)["log"] == ["a", "b", "c"]
    assert ran == ["a", "b", "c"]


def test_a_failure_keeps_the_finished_steps_and_siblings(engine, saver, ran, durability):
    graph = builder(
        State,
        {"s": ran.step("s"), "a": ran.step("a"), "b": ran.fails("b", 1), "c": ran.step("c")},
        (START, "s"),
        ("s", "a"),
        ("a", "b"),
        ("a", "c"),
    ).compile(saver)
    with pytest.raises(RuntimeError, match="b failed"):
        engine.invoke(graph, {"x": 1}, thread(), durability=durability)
    state = engine.state(graph, thread())
    assert state.values["log"][:2] == ["s", "a"]
    assert "b failed" in {task.name: task.error for task in state.tasks}["b"]
    ran.clear()
    done = engine.invoke(graph, None, thread(), durability=durability)
    assert done["log"] == ["s", "a", "b", "c"]
    assert "a" not in ran


def test_the_limit_keeps_what_was_done(engine, saver, ran, durability):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    with pytest.raises(GraphRecursionError):
        engine.invoke(graph, {"x": 1}, thread(recursion_limit=2), durability=durability)
    assert engine.state(graph, thread()).next == ("c",)
    assert engine.invoke(graph, None, thread(), durability=durability)["log"] == ["a", "b", "c"]


def test_a_stream_that_is_closed_keeps_what_was_done(engine, saver, ran, durability):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    engine.consume(
        graph,
        {"x": 1},
        lambda item: "b" not in item,
        thread(),
        stream_mode="updates",
        durability=durability,
    )
    state = engine.state(graph, thread())
    assert state.values["log"][:1] == ["a"]
    assert state.next in {("b",), ("c",)}
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b", "c"]


def test_a_question_inside_a_nested_graph(engine, saver, ran, durability):
    inner = chain(State, b1=ran.step("b1"), b2=ran.asks("b2"), b3=ran.step("b3"))
    graph = chain(State, saver=saver, a=ran.step("a"), sub=chain(State, mid=inner), z=ran.step("z"))
    paused = engine.invoke(graph, {"log": ["in"]}, thread(), durability=durability)
    assert asked(paused) == ["b2?"]
    assert asked(engine.state(graph, thread())) == ["b2?"]
    done = engine.resume(graph, "yes", thread(), durability=durability)
    assert done["log"] == ["in", "a", "b1", ("b2", "yes"), "b3", "z"]
    assert ran == ["a", "b1", "b2", "b2", "b3", "z"]


def test_a_failure_inside_a_nested_graph(engine, saver, ran, durability):
    inner = chain(State, b1=ran.step("b1"), b2=ran.fails("b2", 1), b3=ran.step("b3"))
    graph = chain(State, saver=saver, a=ran.step("a"), sub=inner)
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread(), durability=durability)
    assert engine.invoke(graph, None, thread(), durability=durability)["log"] == ["a", "b1", "b2", "b3"]
    assert ran == ["a", "b1", "b2", "b2", "b3"]


def test_a_nested_graph_that_remembers(engine, saver, durability):
    class Inner(TypedDict, total=False):
        x: Any
        n: int

    def count(state):
        return {"n": state.get("n", 0) + 1, "x": state.get("n", 0) + 1}

    inner = builder(Inner, {"count": count}, (START, "count")).compile(checkpointer=True)
    graph = chain(State, saver=saver, sub=inner)
    assert [engine.invoke(graph, {"x": 0}, thread(), durability=durability)["x"] for _ in range(3)] == [
        1,
        2,
        3,
    ]


def test_a_run_after_another(engine, saver, ran, durability):
    """The next run of this process needn't read again what it knows; it must be the same as if it did."""
    graph = chain(State, saver=saver, a=ran.step("a"))
    for turn in range(4):
        if turn == 2:
            graph = chain(State, saver=saver, a=ran.step("a"))
        done = engine.invoke(graph, {"log": [turn]}, thread(), durability=durability)
    assert done["log"] == [0, "a", 1, "a", 2, "a", 3, "a"]
    assert engine.history(graph, thread())[-1].values["log"] == ([0] if durability != "exit" else [0, "a"])


def test_going_back(engine, saver, ran, durability):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    old = next(one for one in engine.history(graph, thread()) if one.next == ("b",))
    done = engine.resume(graph, "second", old.config, durability=durability)
    assert done["log"] == ["a", ("b", "second"), "c"]
    assert engine.state(graph, thread()).values == dict(done)
    assert engine.state(graph, old.config)._replace(tasks=()) == old._replace(tasks=())
    again = engine.invoke(graph, None, old.config, durability=durability)
    assert asked(again) == ["b?"]
    assert engine.resume(graph, "third", thread())["log"] == ["a", ("b", "third"), "c"]


def test_it_may_be_chosen_at_compile_and_for_a_call(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, durability="exit")
    engine.invoke(graph, {"x": 1}, thread("one"))
    engine.invoke(graph, {"x": 1}, thread("two"), durability="sync")
    assert steps(engine, graph, thread("one")) == [2]
    assert steps(engine, graph, thread("two")) == [2, 1, 0]


@pytest.mark.parametrize("wrong", ["never", "SYNC", True], ids=repr)
def test_what_it_cannot_be(engine, saver, wrong):
    graph = chain(State, saver=saver, a=nothing)
    with pytest.raises(ConfigError, match="'sync' or 'async' or 'exit'"):
        engine.invoke(graph, {"x": 1}, thread(), durability=wrong)
    with pytest.raises((ConfigError, GraphBuildError), match="'sync' or 'async' or 'exit'"):
        builder(State, {"a": nothing}, (START, "a")).compile("memory:", durability=wrong)


# ── sync ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sync_has_saved_a_step_before_the_next_starts(engine, saver):
    seen: list[Any] = []

    def look(state):
        found = saver.load("t")
        seen.append((found.checkpoint.step, found.checkpoint.source))
        return {"log": ["look"]}

    graph = chain(State, saver=saver, a=look, b=look, c=look)
    engine.invoke(graph, {"x": 1}, thread())
    assert seen == [(0, "input"), (1, "loop"), (2, "loop")]


def test_earlier_finishers_of_a_step_are_saved_as_they_finish(engine):
    """Rule 22: so a crash of the process, or of a sibling, repeats nothing of theirs."""
    saved = threading.Event()

    class Tells(InMemorySaver):
        def put_records(self, *args, **options):
            super().put_records(*args, **options)
            saved.set()

    saver = Tells()
    seen: list[Any] = []

    def late(state):
        assert saved.wait(WAIT)
        seen.extend((record.task_id, record.kind) for record in saver.load("t").records)
        return {"log": ["late"]}

    graph = fan(State, saver=saver, early=wrote("log", ["early"]), late=late)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == ["early", "late"]
    assert seen == [("early:1", "done")]


# ── async ────────────────────────────────────────────────────────────────────────────────────────────────────


class Held(InMemorySaver):
    """A saver that takes its time: each checkpoint but the first waits until it is let go."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.begun = threading.Event()
        self.put_steps: list[int] = []

    def put(self, checkpoint, payload, **options):
        if checkpoint.step:
            self.begun.set()
            assert self.go.wait(WAIT)
        super().put(checkpoint, payload, **options)
        self.put_steps.append(checkpoint.step)


def test_async_overlaps_the_next_step_and_keeps_the_order(engine):
    saver = Held()
    seen: list[Any] = []

    def overlap(state):
        assert saver.begun.wait(WAIT)
        seen.append((state["log"], saver.load("t").checkpoint.step))
        if len(state["log"]) == 3:
            saver.go.set()
        return {"log": [len(seen)]}

    graph = chain(State, saver=saver, a=wrote("log", ["a"]), b=overlap, c=overlap, d=overlap)
    done = in_time(lambda: engine.invoke(graph, {"x": 1}, thread(), durability="async"), WAIT)
    assert done["log"] == ["a", 1, 2, 3]
    assert seen == [(["a"], 0), (["a", 1], 0), (["a", 1, 2], 0)], "nothing was saved meanwhile"
    assert saver.put_steps == [0, 1, 2, 3, 4], "in order, and all before the run ended"
    assert engine.state(graph, thread()).values["log"] == ["a", 1, 2, 3]


@dataclass
class Box:
    items: list[str] = field(default_factory=list)


def test_async_saves_what_was_true_when_the_step_ended(engine):
    """Rule 28: values are turned into bytes before the next step can change an object in place."""
    saver = Held()

    class Boxed(TypedDict, total=False):
        box: Box

    def harm(state):
        assert saver.begun.wait(WAIT)
        state["box"].items.append("changed while the save of the step before waits")
        saver.go.set()

    graph = chain(Boxed, saver=saver, a=lambda state: {"box": Box(["as returned"])}, harm=harm)
    in_time(lambda: engine.invoke(graph, {}, thread(), durability="async"), WAIT)
    assert engine.history(graph, thread())[1].values == {"box": Box(["as returned"])}


def test_async_does_not_let_a_question_through_before_it_is_saved(engine, ran):
    saver = Held()

    def ask(state):
        assert saver.begun.wait(WAIT)
        saver.go.set()
        return {"log": [interrupt("?")]}

    graph = chain(State, saver=saver, a=ran.step("a"), ask=ask)
    paused = in_time(lambda: engine.invoke(graph, {"x": 1}, thread(), durability="async"), WAIT)
    assert engine.state(graph, thread()).interrupts == paused.interrupts
    assert asked(paused) == ["?"]


class Breaks(InMemorySaver):
    """A saver that can't save some step."""

    blocking = True

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step: int | None = step

    def put(self, checkpoint, payload, **options):
        if checkpoint.step == self.step:
            raise OSError("no space left")
        super().put(checkpoint, payload, **options)


@pytest.mark.parametrize("step", [0, 1, 2, 3])
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_save_that_fails_makes_the_run_fail(engine, ran, durability, step):
    """Rule 36: naming the checkpoint and the thread; never a warning, and nothing after it is saved."""
    saver = Breaks(step)
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    with pytest.raises(OSError, match="no space left") as caught:
        engine.invoke(graph, {"x": 1}, thread(), durability=durability)
    notes = "\n".join(caught.value.__notes__)
    assert "checkpoint" in notes
    assert "'t'" in notes
    assert steps(engine, graph) == list(range(step - 1, -1, -1))
    assert saver.leases() == []
    saver.step = None
    done = engine.invoke(graph, None if step else {"x": 1}, thread())
    assert done["log"] == ["a", "b", "c"]


def test_with_exit_a_save_that_fails_makes_the_run_fail(engine, ran):
    saver = Breaks(2)
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    with pytest.raises(OSError, match="no space left") as caught:
        engine.invoke(graph, {"x": 1}, thread(), durability="exit")
    assert any("'t'" in note for note in caught.value.__notes__)
    assert (steps(engine, graph), saver.leases()) == ([], [])


def test_a_value_that_cannot_be_stored_is_told_whenever_it_is_saved(engine, saver, durability):
    """Rule 26: with its path. What was saved before stays."""
    graph = chain(
        State,
        saver=saver,
        a=wrote("log", ["a"]),
        b=lambda state: {"x": {"docs": [1, object()]}},
        c=wrote("y", 1),
    )
    with pytest.raises(SerializationError, match="docs") as caught:
        engine.invoke(graph, {"x": 1}, thread(), durability=durability)
    assert caught.value.thread_id == "t"
    state = engine.state(graph, thread())
    if durability == "exit" and state.metadata is None:
        return  # nothing was saved before
    assert (state.values, state.next) == ({"x": 1, "log": ["a"]}, ("b",))


# ── exit ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_exit_saves_once_when_the_run_ends(engine, saver):
    seen: list[Any] = []

    def look(state):
        seen.append(saver.load("t"))
        return {"log": ["look"]}

    graph = chain(State, saver=saver, a=look, b=look, c=look)
    engine.invoke(graph, {"x": 1}, thread(), durability="exit")
    assert seen == [None, None, None]
    (only,) = engine.history(graph, thread())
    assert (only.metadata["step"], only.values["log"], only.parent_config) == (3, ["look"] * 3, None)


def test_exit_follows_what_was_saved_before(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.invoke(graph, {"x": 2}, thread(), durability="exit")
    engine.invoke(graph, {"x": 3}, thread(), durability="exit")
    history = engine.history(graph, thread())
    assert [(one.metadata["step"], one.values["x"]) for one in history] == [
        (8, 3),
        (5, 2),
        (2, 1),
        (1, 1),
        (0, 1),
    ]
    assert [one.parent_config for one in history] == [*[one.config for one in history[1:]], None]


def test_exit_keeps_nothing_of_nested_graphs_that_finished(engine, saver, ran):
    inner = chain(State, b1=ran.step("b1"), b2=ran.step("b2"))
    graph = chain(State, saver=saver, a=ran.step("a"), sub=inner)
    engine.invoke(graph, {"x": 1}, thread(), durability="exit")
    assert saver.namespaces("t") == [""]
    engine.invoke(graph, {"x": 1}, thread("sync"))
    assert len(saver.namespaces("sync")) == 2, "as it is otherwise"


def test_exit_saves_what_a_run_did_that_was_cancelled(saver, ran):
    begun = asyncio.Event()

    async def wait(state):
        ran.append("wait")
        begun.set()
        if ran.count("wait") == 1:
            await asyncio.Event().wait()
        return {"log": ["wait"]}

    graph = chain(State, saver=saver, a=ran.step("a"), b=wait)

    async def cancelled():
        running = asyncio.create_task(graph.ainvoke({"x": 1}, thread(), durability="exit"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert graph.get_state(thread()).values["log"] == ["a"]
    assert asyncio.run(graph.ainvoke(None, thread()))["log"] == ["a", "wait"]
    assert ran == ["a", "wait", "wait"]


# ── another process ──────────────────────────────────────────────────────────────────────────────────────────

OTHER = """
import operator, sys
from typing import Annotated, Any, TypedDict
from juncture import StateGraph, interrupt

class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]

def ask(state):
    return {"log": [interrupt("sure?")]}

graph = StateGraph(State).add_node("a", lambda s: {"log": [("a", 1)]}).add_node("ask", ask).add_node("z", lambda s: {"log": ["z"]})
graph = graph.add_edge("__start__", "a").add_edge("a", "ask").add_edge("ask", "z").compile("sqlite:" + sys.argv[1])
with graph:
    graph.invoke({"log": ["in"]}, thread_id="t", durability=sys.argv[2])
"""


def test_another_process_goes_on(engine, tmp_path: Path, durability):
    """What one process saved, another shows and goes on with, types and all; and a third sees the end."""
    path = tmp_path / "runs.db"
    subprocess.run([sys.executable, "-c", OTHER, str(path), durability], check=True, timeout=20)

    def ask(state):
        return {"log": [interrupt("sure?")]}

    with SqliteSaver(path) as saver:
        graph = chain(State, saver=saver, a=wrote("log", ["never again"]), ask=ask, z=wrote("log", ["z"]))
        state = engine.state(graph, thread())
        assert (state.values["log"], state.next, asked(state)) == (["in", ("a", 1)], ("ask",), ["sure?"])
        done = engine.resume(graph, "yes", thread())
        assert done["log"] == ["in", ("a", 1), "yes", "z"]
    with SqliteSaver(path) as saver:
        graph = chain(State, saver=saver, a=nothing, ask=nothing, z=nothing)
        state = engine.state(graph, thread())
        assert (state.values, state.next) == ({"log": ["in", ("a", 1), "yes", "z"]}, ())


def test_a_closed_saver_is_told(engine, saver, ran):
    graph = StateGraph(State).add_node("a", ran.step("a")).add_edge(START, "a").compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    saver.close()
    with pytest.raises(SaverError, match="closed"):
        engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(SaverError, match="closed"):
        engine.state(graph, thread())
