"""One writer per thread: who is busy, who waits, who takes over, and who finishes what the dead left (rule 31)."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest

from juncture import END, START, ConfigError, InMemorySaver, StateGraph
from juncture.errors import HeadMovedError, LeaseLostError, ThreadBusyError
from juncture.persistence.holders import this_holder
from tests.behaviour.building import builder, chain, nothing, thread, wrote
from tests.behaviour.leftovers import in_time
from tests.behaviour.ran import Ran, State, asked

pytestmark = pytest.mark.timeout(60)
WAIT = 10


@pytest.fixture
def ran():
    return Ran()


class Gate:
    """A node that waits inside, until it is let go."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.go = threading.Event()

    def node(self, state):
        self.inside.set()
        assert self.go.wait(WAIT)
        return {"log": ["gate"]}


def during(engine: Any, graph: Any, gate: Gate, do: Callable[[], Any], given: Any = None) -> Any:
    """Does something while a run of thread t is inside the gate; what the run gave."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(engine.invoke, graph, given or {"x": "first"}, thread())
        try:
            assert gate.inside.wait(WAIT)
            do()
        finally:
            gate.go.set()
        return running.result(WAIT)


@cache
def dead_holder() -> str:
    """Who holds a lease that was taken by a process that has ended."""
    said = subprocess.run(
        [sys.executable, "-c", "from juncture.persistence.holders import this_holder; print(this_holder())"],
        check=True,
        capture_output=True,
        text=True,
        timeout=20,
    )
    return said.stdout.strip()


def left_by_the_dead(saver: Any, name: str = "t") -> Any:
    return saver.acquire_lease(name, dead_holder(), f"token of {name}", 3600.0)


# ── busy ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_another_run_is_refused_and_loses_nothing(engine, saver):
    gate = Gate()
    graph = chain(State, saver=saver, gate=gate.node)

    def second():
        with pytest.raises(ThreadBusyError) as caught:
            engine.invoke(graph, {"x": "second"}, thread())
        assert "'t'" in str(caught.value)
        assert this_holder() in str(caught.value)
        assert caught.value.lease.holder == this_holder()

    done = during(engine, graph, gate, second)
    assert (done["x"], done["log"]) == ("first", ["gate"])
    assert engine.invoke(graph, {"x": "third"}, thread())["log"] == ["gate", "gate"]
    assert saver.leases() == []


def test_whatever_changes_the_thread_is_refused_and_looking_is_not(engine, saver):
    gate = Gate()
    graph = chain(State, saver=saver, a=wrote("y", 1), gate=gate.node)
    engine.invoke(chain(State, saver=saver, a=nothing), {"x": 0}, thread("other"))

    def meddle():
        calls = [
            lambda: engine.update(graph, thread(), {"x": 2}, "a"),
            lambda: engine.bulk(graph, thread(), [[({"x": 2}, "a")]]),
            lambda: engine.call(graph.delete_thread, graph.adelete_thread, "t"),
            lambda: engine.call(graph.archive_thread, graph.aarchive_thread, "t"),
            lambda: engine.call(graph.prune, graph.aprune, "t", keep=1),
            lambda: engine.call(graph.copy_thread, graph.acopy_thread, "other", "t"),
            lambda: engine.invoke(graph, None, thread()),
            lambda: engine.stream(graph, {"x": 2}, thread()),
        ]
        for call in calls:
            with pytest.raises(ThreadBusyError, match="'t'"):
                call()
        assert engine.state(graph, thread()).values == {"x": "first", "log": [], "y": 1}
        assert len(engine.history(graph, thread())) == 2
        statuses = {one.thread_id: one.status for one in engine.call(graph.get_threads, graph.aget_threads)}
        assert statuses == {"t": "running", "other": "completed"}
        assert engine.call(graph.recover, graph.arecover) == []
        assert engine.call(graph.prune, graph.aprune, keep=1) == 1, "of the other thread"

    done = during(engine, graph, gate, meddle)
    assert (done["x"], done["log"]) == ("first", ["gate"])
    assert len(engine.history(graph, thread())) == 3
    assert engine.call(graph.get_threads, graph.aget_threads)[-1].status == "completed"


def test_another_thread_is_nobody_s_business(engine, saver):
    gate = Gate()
    graph = chain(State, saver=saver, gate=gate.node)
    other = chain(State, saver=saver, a=wrote("log", ["a"]))
    during(engine, graph, gate, lambda: engine.invoke(other, {"x": 1}, thread("t2")))
    assert engine.state(other, thread("t2")).values["log"] == ["a"]


@pytest.mark.parametrize("how", ["end", "failure", "question", "limit", "early close", "refused input"])
def test_however_a_run_ends_it_gives_the_thread_back(engine, saver, ran, how):
    graph = chain(State, saver=saver, a=ran.step("a"), fails=ran.fails("f", 1), asks=ran.asks("q"))
    if how == "end":
        engine.invoke(chain(State, saver=saver, a=nothing), {"x": 1}, thread())
    elif how == "failure":
        with pytest.raises(RuntimeError):
            engine.invoke(graph, {"x": 1}, thread())
    elif how == "question":
        engine.invoke(chain(State, saver=saver, q=ran.asks("q")), {"x": 1}, thread())
    elif how == "limit":
        with pytest.raises(RecursionError):
            engine.invoke(graph, {"x": 1}, thread(recursion_limit=1))
    elif how == "early close":
        engine.consume(graph, {"x": 1}, lambda item: False, thread())
    else:
        engine.invoke(chain(State, saver=saver, q=ran.asks("q")), {"x": 1}, thread())
        with pytest.raises(Exception, match="questions"):
            engine.invoke(chain(State, saver=saver, q=ran.asks("q")), {"x": 1}, thread())
    assert saver.leases() == []


def test_an_edit_gives_the_thread_back(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    engine.update(graph, thread(), {"x": 1})
    assert saver.leases() == []
    with pytest.raises(Exception, match="does not exist"):
        engine.update(graph, thread(), {"x": 1}, "nope")
    assert saver.leases() == []


def test_somebody_else_s_lease_is_respected(engine, saver):
    """Of another machine, say: who knows whether it lives."""
    graph = chain(State, saver=saver, a=nothing)
    lease = saver.acquire_lease("t", "process 1 on host elsewhere", "token", 3600.0)
    with pytest.raises(ThreadBusyError, match="process 1 on host elsewhere"):
        engine.invoke(graph, {"x": 1}, thread())
    assert engine.call(graph.recover, graph.arecover) == []
    assert engine.history(graph, thread()) == []
    saver.release_lease(lease)
    assert engine.invoke(graph, {"x": 1}, thread()).status == "completed"


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_may_wait_for_its_turn(engine, saver):
    gate = Gate()
    graph = chain(State, saver=saver, gate=gate.node)
    with ThreadPoolExecutor(1) as pool:
        later = []

        def wait():
            later.append(pool.submit(engine.invoke, graph, {"x": "second"}, thread(), on_busy="wait"))
            with pytest.raises(TimeoutError):
                later[0].result(0.2)  # it doesn't fail, and doesn't get through

        first = during(engine, graph, gate, wait)
        second = later[0].result(WAIT)
    assert (first["x"], first["log"]) == ("first", ["gate"])
    assert (second["x"], second["log"]) == ("second", ["gate", "gate"])


def test_many_that_wait_all_get_through(engine, saver):
    """No update is ever lost."""
    graph = chain(State, saver=saver, a=lambda state: {"log": [state["x"]]})
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(engine.invoke, graph, {"x": n}, thread(), on_busy="wait") for n in range(6)]
        for run in running:
            run.result(30)
    assert sorted(engine.state(graph, thread()).values["log"]) == list(range(6))
    assert len(engine.history(graph, thread())) == 12


def test_many_that_do_not_wait_lose_nothing_in_silence(engine, saver):
    """Cases C99, C101: each either is in the history, or was told that it isn't."""
    graph = chain(State, saver=saver, a=lambda state: {"log": [state["x"]]})
    told = []

    def one(n):
        try:
            engine.invoke(graph, {"x": n}, thread())
        except ThreadBusyError:
            told.append(n)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(10)))
    found = engine.state(graph, thread()).values["log"]
    assert sorted([*found, *told]) == list(range(10))
    assert len(engine.history(graph, thread())) == 2 * len(found)


def test_waiting_in_one_event_loop_does_not_block_it(saver):
    """The run that is waited for is on the same loop."""
    graph = StateGraph(State)

    async def slow(state):
        await asyncio.sleep(0.05)
        return {"log": [state["x"]]}

    graph = graph.add_node("slow", slow).add_edge(START, "slow").compile(saver)

    async def both():
        return await asyncio.gather(*[graph.ainvoke({"x": n}, thread(), on_busy="wait") for n in range(3)])

    results = asyncio.run(asyncio.wait_for(both(), WAIT))
    assert sorted(len(one["log"]) for one in results) == [1, 2, 3]


@pytest.mark.parametrize("wrong", ["queue", "", None, True], ids=repr)
def test_what_a_busy_thread_cannot_lead_to(engine, saver, wrong):
    graph = chain(State, saver=saver, a=nothing)
    with pytest.raises(ConfigError, match="'raise' or 'wait'"):
        engine.invoke(graph, {"x": 1}, thread(), on_busy=wrong)
    assert engine.history(graph, thread()) == []


# ── nested ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_nested_runs_share_the_lease(engine, saver):
    tokens: list[str] = []

    def look(state):
        tokens.extend(lease.token for lease in saver.leases())
        return {"log": ["look"]}

    inner = chain(State, look=look)
    deep = chain(State, inner=inner, look=look)

    def call(state):
        return {"log": deep.invoke({"x": 1})["log"]}

    graph = chain(State, saver=saver, look=look, deep=deep, call=call)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == ["look"] * 5
    assert (len(tokens), len(set(tokens))) == (5, 1)
    deep.close()


@pytest.mark.parametrize("on_busy", ["raise", "wait"])
def test_a_graph_that_calls_itself_on_the_same_thread_is_refused(engine, saver, on_busy):
    """It would wait for itself."""

    def node(state):
        return {"log": graph.invoke({"x": 2}, thread_id="t", on_busy=on_busy)["log"]}

    graph = chain(State, saver=saver, node=node)
    with pytest.raises(ThreadBusyError, match="'t'"):
        in_time(lambda: engine.invoke(graph, {"x": 1}, thread()), 3)
    assert saver.leases() == []


@pytest.mark.parametrize("on_busy", ["raise", "wait"])
def test_an_async_node_that_awaits_its_graph_on_the_same_thread_is_refused(saver, on_busy):
    async def node(state):
        return {"log": (await graph.ainvoke({"x": 2}, thread_id="t", on_busy=on_busy))["log"]}

    graph = chain(State, saver=saver, node=node)
    with pytest.raises(ThreadBusyError, match="'t'"):
        in_time(lambda: asyncio.run(asyncio.wait_for(graph.ainvoke({"x": 1}, thread()), 3)), WAIT)
    assert saver.leases() == []


def test_a_node_may_run_another_thread(engine, saver):
    inner = chain(State, saver=saver, a=wrote("log", ["inner"]))

    def node(state):
        return {"log": inner.invoke({"x": 2}, thread_id="inner")["log"]}

    graph = chain(State, saver=saver, node=node)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == ["inner"]
    assert engine.state(inner, thread("inner")).values["log"] == ["inner"]


def test_a_node_that_edits_its_own_thread_is_refused(engine, saver):
    def node(state):
        graph.update_state("t", {"x": 2}, "node")

    graph = chain(State, saver=saver, node=node)
    with pytest.raises(ThreadBusyError, match="'t'"):
        in_time(lambda: engine.invoke(graph, {"x": 1}, thread()), WAIT)


def test_a_node_may_look_at_its_own_thread(engine, saver):
    def node(state):
        return {"log": [graph.get_state("t").values["x"], graph.get_state("t").next]}

    graph = chain(State, saver=saver, node=node)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == [1, ("node",)]


# ── taking over ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lease_that_ran_out_is_taken_over(engine, saver):
    graph = chain(State, saver=saver, a=wrote("log", ["a"]))
    saver.acquire_lease("t", "process 1 on host elsewhere", "token", 0.0)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == ["a"]


def test_the_lease_of_a_dead_process_is_taken_over_at_once(engine, saver):
    graph = chain(State, saver=saver, a=wrote("log", ["a"]))
    left_by_the_dead(saver)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == ["a"]
    assert saver.leases() == []


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_that_was_taken_over_cannot_save(engine, saver, durability):
    """It lives on as a zombie; what the new owner saved stays as it is."""
    other = chain(State, saver=saver, a=wrote("log", ["new owner"]), z=nothing)

    def stolen(state):
        (lease,) = saver.leases()
        saver.release_lease(lease)
        other.invoke({"log": ["taken"]}, thread_id="t")
        return {"log": ["zombie"]}

    graph = chain(State, saver=saver, a=stolen, z=wrote("log", ["zombie's end"]))
    with pytest.raises((LeaseLostError, HeadMovedError)) as caught:
        engine.invoke(graph, {"x": 1}, thread(), durability=durability)
    assert caught.value.thread_id == "t"
    log = engine.state(other, thread()).values["log"]
    assert log == ["taken", "new owner"]
    assert saver.leases() == []


def test_a_zombie_cannot_give_back_what_is_not_its(engine, saver):
    def stolen(state):
        (lease,) = saver.leases()
        saver.release_lease(lease)
        saver.acquire_lease("t", "process 1 on host elsewhere", "new token", 3600.0)

    graph = chain(State, saver=saver, a=stolen)
    with pytest.raises(LeaseLostError, match="'t'"):
        engine.invoke(graph, {"x": 1}, thread())
    assert [lease.token for lease in saver.leases()] == ["new token"]


# ── recover ──────────────────────────────────────────────────────────────────────────────────────────────────


def recovered(engine: Any, graph: Any, *args: Any, **options: Any) -> dict[str, Any]:
    return {one.thread_id: one for one in engine.call(graph.recover, graph.arecover, *args, **options)}


def test_what_the_dead_left_is_finished(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"), c=ran.step("c"))
    for name in ("one", "two"):
        engine.update(graph, thread(name), {"log": ["as a"]}, "a")
        left_by_the_dead(saver, name)
    listed = engine.call(graph.get_threads, graph.aget_threads)
    assert [(one.status, one.next, one.holder) for one in listed] == [("dead", ("b",), dead_holder())] * 2
    found = recovered(engine, graph)
    assert list(found) == ["one", "two"]
    for one in found.values():
        assert (one.error, one.result.status, one.result["log"]) == (None, "completed", ["as a", "b", "c"])
    assert (ran, saver.leases()) == (["b", "c", "b", "c"], [])
    assert recovered(engine, graph) == {}
    assert [one.status for one in engine.call(graph.get_threads, graph.aget_threads)] == ["completed"] * 2


def test_a_run_whose_lease_ran_out_is_finished(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.update(graph, thread(), {"x": 1}, "a")
    saver.acquire_lease("t", "process 1 on host elsewhere", "token", 0.0)
    assert recovered(engine, graph)["t"].result["log"] == ["b"]


def test_only_the_dead_are_touched(engine, saver, ran):
    """A run that paused, failed or lives isn't; nor is a thread that nobody ever ran to an end."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.fails("b", 1))
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread("failed"))
    asks = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(asks, {"x": 1}, thread("paused"))
    engine.update(graph, thread("edited"), {"x": 1}, "a")
    engine.update(graph, thread("lives"), {"x": 1}, "a")
    saver.acquire_lease("lives", this_holder(), "token", 3600.0)
    before = {name: engine.state(graph, name) for name in ("failed", "paused", "edited", "lives")}
    assert recovered(engine, graph) == {}
    assert {name: engine.state(graph, name) for name in before} == before


def test_some_threads_may_be_named(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    for name in ("one", "two", "three"):
        engine.update(graph, thread(name), {"x": 1}, "a")
        left_by_the_dead(saver, name)
    assert list(recovered(engine, graph, ["two", "nobody"])) == ["two"]
    assert sorted(lease.thread_id for lease in saver.leases()) == ["one", "three"]
    assert recovered(engine, graph, []) == {}


@pytest.mark.parametrize("how", ["finished", "asks", "pauses before", "pauses after", "never began"])
def test_where_there_is_nothing_to_run_the_thread_is_only_given_back(engine, saver, ran, how):
    nodes = {"a": ran.step("a"), "b": ran.asks("b") if how == "asks" else ran.step("b")}
    options = {"pauses before": {"interrupt_before": ["b"]}, "pauses after": {"interrupt_after": ["a"]}}
    graph = builder(State, nodes, (START, "a"), ("a", "b"), ("b", END)).compile(saver, **options.get(how, {}))
    if how != "never began":
        engine.invoke(graph, {"x": 1}, thread())
    before = engine.state(graph, thread())
    left_by_the_dead(saver)
    ran.clear()
    (one,) = engine.call(graph.recover, graph.arecover)
    assert (one.thread_id, one.result, one.error) == ("t", None, None)
    assert (ran, saver.leases(), engine.state(graph, thread())) == ([], [], before)


def test_a_question_that_was_answered_in_part_is_gone_on_with(engine, saver, ran):
    """Its answer was saved, and then the process died: nobody is asked twice."""
    graph = builder(
        State,
        {"a": ran.asks("a"), "b": ran.step("b"), "c": ran.step("c")},
        (START, "a"),
        (START, "b"),
        (["a", "b"], "c"),
    ).compile(saver)
    engine.invoke(graph, {"x": 1}, thread())

    class Dies(BaseException):
        pass

    def dies(state):
        raise Dies

    with pytest.raises(Dies):
        engine.resume(
            builder(
                State,
                {"a": lambda s: ran.asks("a")(s) and dies(s), "b": ran.step("b"), "c": nothing},
                (START, "a"),
                (START, "b"),
                (["a", "b"], "c"),
            ).compile(saver),
            "yes",
            thread(),
        )
    left_by_the_dead(saver)
    ran.clear()
    (one,) = engine.call(graph.recover, graph.arecover)
    assert (one.result["log"], ran) == ([("a", "yes"), "b", "c"], ["a", "c"])


def test_a_recovered_run_may_pause(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.update(graph, thread(), {"x": 1}, "a")
    left_by_the_dead(saver)
    result = recovered(engine, graph)["t"].result
    assert (result.status, asked(result)) == ("interrupted", ["b?"])
    assert engine.resume(graph, "yes", thread())["log"] == [("b", "yes")]


def test_one_that_fails_does_not_stop_the_others(engine, saver, ran):
    def picky(state):
        if state["x"] == "bad":
            raise ValueError("bad")
        return {"log": ["fine"]}

    graph = chain(State, saver=saver, a=nothing, picky=picky)
    for name in ("bad", "good"):
        engine.update(graph, thread(name), {"x": name}, "a")
        left_by_the_dead(saver, name)
    found = recovered(engine, graph)
    assert isinstance(found["bad"].error, ValueError)
    assert found["bad"].result is None
    assert found["good"].result["log"] == ["fine"]
    assert saver.leases() == []


def test_a_nested_run_is_finished_where_it_was(engine, saver, ran):
    inner = chain(State, b1=ran.step("b1"), b2=ran.fails("b2", 1), b3=ran.step("b3"))
    graph = chain(State, saver=saver, a=ran.step("a"), sub=inner)
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread())
    left_by_the_dead(saver)
    ran.clear()
    assert recovered(engine, graph)["t"].result["log"] == ["a", "b1", "b2", "b3"]
    assert ran == ["b2", "b3"]


def test_several_that_recover_at_once_take_each_thread_once(engine, saver, ran):
    graph = chain(State, saver=saver, a=nothing, b=ran.step("b"))
    names = [f"thread {n}" for n in range(5)]
    for name in names:
        engine.update(graph, thread(name), {"x": 1}, "a")
        left_by_the_dead(saver, name)
    start = threading.Barrier(3)

    def recover(_):
        start.wait(WAIT)
        return engine.call(graph.recover, graph.arecover)

    with ThreadPoolExecutor(3) as pool:
        found = [one for each in pool.map(recover, range(3)) for one in each]
    assert sorted(one.thread_id for one in found if one.result is not None) == names
    assert [one.error for one in found] == [None] * len(found)
    assert ran == ["b"] * 5


def test_recover_takes_the_options_of_a_run(engine, saver, ran):
    graph = chain(State, saver=saver, a=nothing, b=ran.step("b"), c=ran.step("c"))
    engine.update(graph, thread(), {"x": 1}, "a")
    left_by_the_dead(saver)
    assert recovered(engine, graph, durability="exit")["t"].result["log"] == ["b", "c"]
    assert [one.metadata["step"] for one in engine.history(graph, thread())] == [2, 0]


def test_recover_needs_a_saver(engine):
    graph = chain(State, a=nothing)
    with pytest.raises(ConfigError, match="No checkpointer set"):
        engine.call(graph.recover, graph.arecover)


DIES = """
import operator, os, sys
from typing import Annotated, Any, TypedDict
from juncture import StateGraph

class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]

graph = StateGraph(State).add_node("a", lambda s: {"log": ["a"]}).add_node("b", lambda s: os._exit(7))
graph.add_edge("__start__", "a").add_edge("a", "b").compile("sqlite:" + sys.argv[1]).invoke({"log": ["in"]}, thread_id="t")
"""


def test_a_run_whose_process_ended_is_finished_by_another(engine, tmp_path, ran):
    from juncture.savers.sqlite import SqliteSaver

    path = tmp_path / "runs.db"
    assert subprocess.run([sys.executable, "-c", DIES, str(path)], check=False, timeout=20).returncode == 7
    with SqliteSaver(path) as saver:
        graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
        (listed,) = engine.call(graph.get_threads, graph.aget_threads)
        assert (listed.status, listed.next) == ("dead", ("b",))
        assert recovered(engine, graph)["t"].result["log"] == ["in", "a", "b"]
        assert ran == ["b"]


# ── the heartbeat ────────────────────────────────────────────────────────────────────────────────────────────


class Beats(InMemorySaver):
    """A saver whose leases run out soon, and which tells when they are renewed."""

    def __init__(self) -> None:
        super().__init__(lease_ttl=0.3)
        self.renewed = threading.Semaphore(0)
        self.refuses = False

    def renew_leases(self, leases, ttl):
        kept = [] if self.refuses else super().renew_leases(leases, ttl)
        self.renewed.release()
        return kept


def test_a_lease_is_renewed_while_its_run_goes_on(engine):
    saver = Beats()

    def node(state):
        for _ in range(4):
            assert saver.renewed.acquire(timeout=WAIT)
        with pytest.raises(ThreadBusyError):
            graph.invoke({"x": 2}, thread_id="t")
        return {"log": ["kept"]}

    graph = chain(State, saver=saver, node=node)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == ["kept"]


def test_a_run_that_hears_that_its_lease_is_lost_stops(engine):
    saver = Beats()

    def node(state):
        saver.refuses = True
        for _ in range(2):
            assert saver.renewed.acquire(timeout=WAIT)
        return {"log": ["too late"]}

    graph = chain(State, saver=saver, node=node, after=wrote("log", ["never"]))
    with pytest.raises(LeaseLostError, match="'t'"):
        engine.invoke(graph, {"x": 1}, thread())
    assert engine.state(graph, thread()).values["log"] == []
