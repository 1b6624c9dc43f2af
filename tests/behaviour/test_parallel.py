"""Tasks side by side: as wide as asked, in plan order whoever ends first, and failures that keep what was done
(right-behaviour 17 and promise 2)."""

import asyncio
import contextvars
import itertools
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    END,
    START,
    Append,
    Command,
    ConfigError,
    InvalidUpdateError,
    Send,
    StateGraph,
    failure,
    interrupt,
    task,
)
from tests.behaviour.building import builder, chain, compiled, fan, nothing, shown, wrote


class Log(TypedDict, total=False):
    messages: Annotated[list[Any], Append()]
    prop1: Any


def n(text: str):
    """A node that says `text`."""
    return wrote("messages", text)


def speakers(*names: str) -> dict[str, Any]:
    return {name: n(name) for name in names}


def mapping(worker: Callable[..., Any], items: Any, **options: Any) -> StateGraph:
    """One task for each item."""
    graph = StateGraph(Log).add_node("worker", worker, **options)
    return graph.add_conditional_edges(START, lambda s: [Send("worker", item) for item in items])


class Turns:
    """Lets nodes end in a given order."""

    def __init__(self, order: Any) -> None:
        self.order = list(order)
        self.may_end = {name: threading.Event() for name in self.order}
        self.may_end[self.order[0]].set()

    def wait(self, name: str) -> None:
        """Waits until it is this one's turn, then gives the turn to the next."""
        assert self.may_end[name].wait(20)
        self.done(name)

    def done(self, name: str) -> None:
        following = self.order[self.order.index(name) + 1 :]
        if following:
            self.may_end[following[0]].set()


class Width:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.total = 0
        self.lock = threading.Lock()

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            self.total += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1


# ── fan-out and fan-in ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("order", list(itertools.permutations(["A1", "A2", "A3"])), ids="-".join)
def test_fan_out_and_fan_in(engine, order):
    """Cases C42 and C45: all are there; the middle is in declared order whoever ends first."""
    turns = Turns(order)

    def node(name):
        def run(state):
            turns.wait(name)
            return {"messages": name}

        return run

    middle = {name: node(name) for name in order}
    edges = [(START, "A"), *(("A", m) for m in middle), *((m, "B") for m in middle), ("B", "C"), ("C", END)]
    result = engine.invoke(compiled(Log, speakers("A", "B", "C") | middle, *edges), {})
    assert result["messages"] == ["A", "A1", "A2", "A3", "B", "C"]
    assert result.steps == 4


def test_fan_out_from_the_start(engine):
    """Case C43: S→A1, A2, A3→B→C: five messages, ends B, C."""
    names = ["A1", "A2", "A3"]
    graph = compiled(
        Log, speakers(*names, "B", "C"), *((START, m) for m in names), *((m, "B") for m in names), ("B", "C")
    )
    assert engine.invoke(graph, {})["messages"] == ["A1", "A2", "A3", "B", "C"]


@pytest.mark.parametrize("way", ["X", "J"])
def test_a_branch_with_a_condition(engine, way):
    """Case C52: A1 routes to X or J, X→J, A2→J: J runs once in both cases, being deferred."""
    graph = builder(Log, speakers("A1", "A2", "X"), (START, "A1"), (START, "A2"), ("X", "J"), ("A2", "J"))
    graph.add_node("J", n("J"), defer=True).add_conditional_edges("A1", lambda s: s["prop1"], ["X", "J"])
    expected = ["A1", "A2", "X", "J"] if way == "X" else ["A1", "A2", "J"]
    assert engine.invoke(graph.compile(), {"prop1": way})["messages"] == expected


def test_branches_that_write_one_key_without_a_reducer(engine):
    """Case C54: the error names the key and both nodes."""
    with pytest.raises(InvalidUpdateError, match=r"'prop1'.*'left'.*'right'"):
        engine.invoke(fan(Log, left=wrote("prop1", 1), right=wrote("prop1", 2)), {})


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_one_send_for_each_item(engine, colour, count):
    """Case C61: results in item order; without items the default is taken."""
    graph = StateGraph(Log).add_node("worker", colour(lambda item: {"messages": item * item}))
    graph.add_node("none", n("no items"))
    graph.add_conditional_edges(
        START, lambda s: [Send("worker", i) for i in range(s["prop1"])], default="none"
    )
    expected = [i * i for i in range(count)] or ["no items"]
    assert engine.invoke(graph.compile(), {"prop1": count})["messages"] == expected


def test_sends_that_end_in_reverse(engine):
    """Promise 2, decision 6: sends merge in the order sent, edges before them in name order, whoever ends first."""
    order = ["s2", "s1", "s0", "b", "a"]
    turns = Turns(order)

    def node(name):
        def run(state):
            turns.wait(name)
            return {"messages": name}

        return run

    def sent(name):
        turns.wait(name)
        return {"messages": name}

    graph = builder(
        Log,
        {"src": nothing, "b": node("b"), "a": node("a"), "z": sent},
        (START, "src"),
        ("src", "b"),
        ("src", "a"),
    )
    graph.add_conditional_edges("src", lambda s: [Send("z", f"s{i}") for i in range(3)])
    assert engine.invoke(graph.compile(), {})["messages"] == ["a", "b", "s0", "s1", "s2"]


def test_parts_come_as_they_happen_and_tell_their_place(engine):
    """Decision 6: `updates` are emitted as tasks end; the envelope has the place in the plan."""
    turns = Turns("cab")

    def node(name):
        def run(state):
            assert turns.may_end[name].wait(20)
            return {"messages": name}

        return run

    def use(part):
        turns.done(part.node)

    graph = fan(Log, **{name: node(name) for name in "abc"})
    parts = engine.consume(graph, {}, use, stream_mode="updates", version="parts")
    assert [(part.node, part.place) for part in parts] == [("c", 2), ("a", 0), ("b", 1)]
    assert [part.seq for part in parts] == [0, 1, 2]


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_the_state_never_depends_on_who_ends_first(engine, order):
    """Promise 2: with a reducer that isn't commutative, commands, and routes."""
    turns = Turns(order)

    def node(name):
        def run(state):
            turns.wait(name)
            return Command(update={"messages": [f"{name}1", f"{name}2"]}, goto=[Send("d", name), "e"])

        return run

    nodes = {name: node(name) for name in "abc"} | {"d": lambda x: {"messages": f"d{x}"}, "e": n("e")}
    graph = builder(Log, nodes, *((START, name) for name in "abc")).compile()
    expected = ["a1", "a2", "b1", "b2", "c1", "c2", "e", "da", "db", "dc"]
    assert engine.invoke(graph, {})["messages"] == expected


# ── how wide ─────────────────────────────────────────────────────────────────────────────────────────────────


def meeting(count: int) -> Callable[[Any], Any]:
    """A sync node that ends once `count` of its kind have begun."""
    barrier = threading.Barrier(count)

    def node(state):
        barrier.wait(30)
        return {"messages": 1}

    return node


def async_meeting(count: int) -> Callable[[Any], Any]:
    """The same, async."""
    arrived: list[Any] = []

    async def node(state):
        event = asyncio.Event()
        arrived.append((asyncio.get_running_loop(), event))
        if len(arrived) == count:
            for loop, each in arrived:
                loop.call_soon_threadsafe(each.set)
        await asyncio.wait_for(event.wait(), 30)
        return {"messages": 1}

    return node


@pytest.mark.parametrize("how", ["edges", "sends", "subgraphs"])
def test_forty_sync_tasks_meet(engine, how):
    """Rule 17: forty sync tasks on a `Barrier(40)` pass; also where they are nodes of two subgraphs."""
    node = meeting(40)
    if how == "edges":
        graph = fan(Log, **{f"n{i}": node for i in range(40)})
    elif how == "sends":
        graph = mapping(node, range(40)).compile()
    else:
        graph = fan(Log, **{name: fan(Log, **{f"n{i}": node for i in range(20)}) for name in "ab"})
    assert engine.invoke(graph, {})["messages"] == [1] * 40


@pytest.mark.parametrize("how", ["edges", "sends"])
def test_many_async_tasks_meet(engine, how):
    """Rule 17: async nodes have no default limit; two hundred wait for each other."""
    node = async_meeting(200)
    graph = (
        fan(Log, **{f"n{i}": node for i in range(200)})
        if how == "edges"
        else mapping(node, range(200)).compile()
    )
    assert engine.invoke(graph, {})["messages"] == [1] * 200


def test_sync_and_async_tasks_meet(engine):
    """Rule 17: a sync node and an async one in the same step run side by side, both ways round."""
    sync_began, async_began = threading.Event(), threading.Event()

    def sync_node(state):
        sync_began.set()
        assert async_began.wait(20)

    async def async_node(state):
        async_began.set()
        while not sync_began.is_set():  # noqa: ASYNC110 - what it waits for is set by a thread
            await asyncio.sleep(0.001)

    assert engine.invoke(fan(Log, sync_node=sync_node, async_node=async_node), {}).status == "completed"


@pytest.mark.parametrize("where", ["top", "configurable"])
@pytest.mark.parametrize("limit", [1, 4])
def test_never_more_than_the_limit_and_never_fewer(engine, where, limit):
    """Rule 17, case C58: 20 tasks, limit 4: never more than 4 at once, 4 at once, all done; wherever users put it."""
    width = Width()
    barrier = threading.Barrier(limit)

    def worker(item):
        with width:
            barrier.wait(20)
        return {"messages": item}

    config = {"max_concurrency": limit}
    config = config if where == "top" else {"configurable": config}
    result = engine.invoke(mapping(worker, range(20)).compile(), {}, config)
    assert result["messages"] == list(range(20))
    assert (width.most, width.total) == (limit, 20)


@pytest.mark.parametrize("limit", [1, 4])
def test_the_limit_holds_for_async_nodes(engine, limit):
    """Rule 17: the same for tasks that don't block anybody."""
    width = Width()

    async def worker(item):
        with width:
            for _ in range(3):
                await asyncio.sleep(0)
        return {"messages": item}

    result = engine.invoke(mapping(worker, range(20)).compile(), {}, {"max_concurrency": limit})
    assert result["messages"] == list(range(20))
    assert width.most <= limit
    assert width.total == 20


def test_the_limit_holds_for_both_kinds_together(engine):
    """Rule 17: sync and async tasks count alike."""
    width = Width()

    def sync_node(state):
        with width:
            threading.Event().wait(0.002)

    async def async_node(state):
        with width:
            await asyncio.sleep(0.002)

    nodes = {f"s{i}": sync_node for i in range(6)} | {f"a{i}": async_node for i in range(6)}
    engine.invoke(fan(Log, **nodes), {}, {"max_concurrency": 2})
    assert width.most <= 2
    assert width.total == 12


def tree(depth: int, leaf: Callable[..., Any]) -> Any:
    """A fan of three, nested `depth` deep."""
    child = leaf if depth == 1 else tree(depth - 1, leaf)
    return fan(Log, **dict.fromkeys("abc", child))


@pytest.mark.parametrize("limit", [1, 2])
def test_nested_fan_outs_share_the_limit(engine, colour, limit):
    """Rule 17, case C58: subgraphs in subgraphs under a limit of 1: no deadlock, 27 leaves, never more at once."""
    width = Width()

    def leaf(state):
        with width:
            return {"messages": "leaf"}

    result = engine.invoke(tree(3, colour(leaf)), {}, {"max_concurrency": limit})
    assert result["messages"] == ["leaf"] * 27
    assert width.most <= limit
    assert width.total == 27


@pytest.mark.parametrize("limit", [1, 2])
def test_graphs_called_inside_nodes_share_the_limit(engine, limit):
    """Design, nested runs: a node that calls `invoke` gives its slot back meanwhile."""
    width = Width()

    def leaf(state):
        with width:
            return {"messages": "leaf"}

    inner = fan(Log, **dict.fromkeys("abc", leaf))
    middle = fan(Log, **{name: lambda s: inner.invoke({}) for name in "ab"})
    outer = fan(Log, **{name: lambda s: middle.invoke({}) for name in "ab"})
    result = engine.invoke(outer, {}, {"max_concurrency": limit})
    assert result["messages"] == ["leaf"] * 12
    assert width.most <= limit


def test_graphs_awaited_inside_nodes_share_the_limit(engine):
    """Design, nested runs: the same for `ainvoke`."""
    width = Width()

    async def leaf(state):
        with width:
            await asyncio.sleep(0)
            return {"messages": "leaf"}

    inner = fan(Log, **dict.fromkeys("abc", leaf))

    async def call(state):
        return await inner.ainvoke({})

    result = engine.invoke(fan(Log, **dict.fromkeys("abcd", call)), {}, {"max_concurrency": 1})
    assert result["messages"] == ["leaf"] * 12
    assert width.most == 1


def test_calls_of_tasks_share_the_limit(engine):
    """Rule 17: a node that waits for what it started with `@task` doesn't hold the only slot."""

    @task
    def double(x: int) -> int:
        return 2 * x

    def node(state):
        futures = [double(x) for x in range(5)]
        return {"messages": [sum(future.result() for future in futures)]}

    graph = fan(Log, a=node, b=node, c=node)
    results = []
    # On a thread of its own: a run that is stuck in such a wait can't be interrupted.
    run = threading.Thread(
        target=lambda: results.append(engine.invoke(graph, {}, {"max_concurrency": 1})), daemon=True
    )
    run.start()
    run.join(30)
    assert results == [{"messages": [20, 20, 20]}]


def test_generators_share_the_limit(engine):
    """Rule 17: streaming nodes count like others."""

    def sync_node(state):
        yield {"messages": 1}
        yield {"messages": 2}

    async def async_node(state):
        yield {"messages": 3}
        await asyncio.sleep(0)
        yield {"messages": 4}

    graph = fan(Log, a=sync_node, b=async_node, c=sync_node, d=async_node)
    expected = [1, 2, 3, 4, 1, 2, 3, 4]
    assert engine.invoke(graph, {}, {"max_concurrency": 1})["messages"] == expected
    assert len(engine.stream(graph, {}, {"max_concurrency": 1}, stream_mode="updates")) == 8


def test_each_run_has_its_own_limit(engine):
    """Rule 17: the limit is a run's: two runs with a limit of 1 each run side by side."""
    meet = threading.Barrier(2)

    def node(state):
        meet.wait(20)

    graph = chain(Log, a=node)
    configs = [{"max_concurrency": 2}, {"max_concurrency": 1}]
    assert len(engine.batch(graph, [{}, {}], configs)) == 2


@pytest.mark.parametrize("limit", [0, -1, "4", 2.5, True, [1]], ids=shown)
@pytest.mark.parametrize("where", ["top", "configurable"])
def test_a_limit_that_cant_be_is_refused(engine, where, limit):
    """Bad input anywhere: named, before anything runs."""
    ran = []
    config = {"max_concurrency": limit}
    config = config if where == "top" else {"configurable": config}
    with pytest.raises(ConfigError, match="max_concurrency") as caught:
        engine.invoke(chain(Log, a=ran.append), {}, config)
    assert repr(limit) in str(caught.value)
    assert ran == []


# ── context variables ────────────────────────────────────────────────────────────────────────────────────────

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


@pytest.fixture
def as_caller():
    token = WHO.set("caller")
    yield
    WHO.reset(token)


@pytest.mark.usefixtures("as_caller")
def test_context_variables_of_the_caller_are_visible(engine):
    """Case C59: in sync and async nodes, generators, routers, sends, subgraphs and tasks, alone or side by side."""
    seen = []

    def sync_node(state):
        seen.append(WHO.get())

    async def async_node(state):
        seen.append(WHO.get())

    def generator(state):
        seen.append(WHO.get())
        yield {"messages": 1}
        seen.append(WHO.get())

    async def async_generator(state):
        seen.append(WHO.get())
        yield {"messages": 1}
        seen.append(WHO.get())

    @task
    def called():
        seen.append(WHO.get())

    def calling(state):
        called().result()

    kinds = [sync_node, async_node, generator, async_generator, calling, chain(Log, inner=sync_node)]
    side_by_side = fan(Log, **{f"n{i}": kind for i, kind in enumerate(kinds)})
    alone = chain(Log, **{f"n{i}": kind for i, kind in enumerate(kinds)})
    routed = mapping(sync_node, [1, 2]).add_conditional_edges(
        "worker", lambda s: seen.append(WHO.get()) or END
    )
    for graph in (side_by_side, alone, routed.compile()):
        engine.invoke(graph, {})
    assert seen == ["caller"] * (8 + 8 + 4)


@pytest.mark.usefixtures("as_caller")
def test_context_variables_of_a_node_stay_with_it(engine, colour):
    """Case C59: what a node sets is seen by itself and what it starts, not by siblings, successors or the caller."""
    seen = []

    def sets(state):
        WHO.set("node")
        seen.append(WHO.get())

    def looks(state):
        seen.append(WHO.get())

    def generator(state):
        WHO.set("generator")
        yield {"messages": 1}
        seen.append(WHO.get())

    engine.invoke(chain(Log, a=colour(sets), b=colour(looks), c=generator, d=looks), {})
    assert seen == ["node", "caller", "generator", "caller"]
    assert WHO.get() == "caller"
    seen.clear()
    engine.invoke(fan(Log, a=colour(sets), b=colour(looks), c=generator), {}, {"max_concurrency": 1})
    assert sorted(seen) == ["caller", "generator", "node"]


@pytest.mark.usefixtures("as_caller")
def test_a_consumer_of_a_stream_keeps_its_context(engine):
    """Case C59: a streaming run sees the caller's value as it was, and leaves the consumer's alone."""
    seen = []

    def node(state):
        seen.append(WHO.get())
        WHO.set("node")

    engine.consume(chain(Log, a=node, b=node), {}, lambda item: seen.append(WHO.get()), stream_mode="updates")
    assert seen == ["caller"] * 4


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────


class Broken(Exception):
    pass


def failing_branches(saver: Any, *, first: str | None = None) -> tuple[Any, dict[str, int], list[bool]]:
    """A1 does well, A2 fails while `broken` is filled; then B. Counts how often each ran."""
    runs: dict[str, int] = {"A1": 0, "A2": 0, "B": 0}
    broken = [True]
    ended = {"A1": threading.Event(), "A2": threading.Event()}
    if first is None:
        for event in ended.values():
            event.set()

    def node(name: str, other: str | None):
        def run(state):
            runs[name] += 1
            if other is not None and first == other and broken:
                assert ended[other].wait(20)
            if name in ended:
                ended[name].set()
            if name == "A2" and broken:
                raise Broken("A2 is broken")
            return {"messages": name}

        return run

    nodes = {"A1": node("A1", "A2"), "A2": node("A2", "A1"), "B": node("B", None)}
    graph = compiled(Log, nodes, (START, "A1"), (START, "A2"), ("A1", "B"), ("A2", "B"), saver=saver)
    return graph, runs, broken


@pytest.mark.parametrize("first", ["A1", "A2", None])
def test_a_branch_fails_and_only_it_runs_again(engine, saver, first):
    """Case C57: A2's own exception; no write of A1 in the state; `None` runs A2 only, as often as it takes."""
    graph, runs, broken = failing_branches(saver, first=first)
    with pytest.raises(Broken, match="A2 is broken") as caught:
        engine.invoke(graph, {"messages": "given"}, thread_id="t")
    where = failure(caught.value)
    assert (where.node, where.step, where.thread_id) == ("A2", 1, "t")
    assert where.result == {"messages": ["given"]}
    assert where.result.status == "failed"
    with pytest.raises(Broken):
        engine.invoke(graph, None, thread_id="t")
    broken.clear()
    assert engine.invoke(graph, None, thread_id="t")["messages"] == ["given", "A1", "A2", "B"]
    assert runs == {"A1": 1, "A2": 3, "B": 1}


def test_saved_routes_are_kept_too(engine, saver):
    """Case C57: where the good task led (sends, goto, its routers) is saved with what it wrote."""
    broken, routed = [True], []

    def a1(state):
        return Command(update={"messages": "a1"}, goto=[Send("c", "sent"), "b"])

    def a2(state):
        return {"messages": "a2"}

    def a3(state):
        if broken:
            raise Broken("a3")
        return {"messages": "a3"}

    graph = builder(Log, {"a1": a1, "a2": a2, "a3": a3, "b": n("b"), "c": lambda x: {"messages": x}})
    for name in ("a1", "a2", "a3"):
        graph.add_edge(START, name)
    graph.add_conditional_edges("a2", lambda s: routed.append(1) or Send("c", "routed"))
    graph = graph.compile(saver)
    with pytest.raises(Broken):
        engine.invoke(graph, {}, {"max_concurrency": 1}, thread_id="t")
    broken.clear()
    assert engine.invoke(graph, None, thread_id="t")["messages"] == ["a1", "a2", "a3", "b", "sent", "routed"]
    assert routed == [1]


@pytest.mark.parametrize("culprit", ["a", "b"])
@pytest.mark.parametrize("fault", ["reducer", "conflict"])
def test_a_write_that_was_refused_isnt_kept(engine, saver, culprit, fault):
    """Rule 2: the step was unapplied, so the thread can go on once the node is mended, whichever task ended first."""
    ran = []
    mended = []

    def positive(old, new):
        if new < 0:
            raise ValueError(f"{new} is negative")
        return old + new

    class Account(TypedDict, total=False):
        balance: Annotated[int, positive]
        owner: str

    def node(name):
        def run(state):
            ran.append(name)
            if name == culprit and not mended:
                return {"balance": -1} if fault == "reducer" else {"owner": "wrong"}
            return {"balance": 1} if name == culprit else {"owner": "right"}

        return run

    graph = fan(Account, a=node("a"), b=node("b"), saver=saver)
    with pytest.raises((ValueError, InvalidUpdateError)):
        engine.invoke(graph, {"balance": 10}, {"max_concurrency": 1}, thread_id="t")
    mended.append(True)
    result = engine.invoke(graph, None, {"max_concurrency": 1}, thread_id="t")
    assert result == {"balance": 11, "owner": "right"}


def test_without_a_saver_a_branch_fails_alike(engine):
    """Case C57 without a thread: the exception, its place, and the state before the step."""
    graph, _, _ = failing_branches(None)
    with pytest.raises(Broken) as caught:
        engine.invoke(graph, {"messages": "given"})
    assert failure(caught.value).result == {"messages": ["given"]}


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_of_several_failures_the_first_in_the_plan_is_raised(engine, order):
    """Promise 2: among tasks that fail before a cancellation reaches them; the others are notes on it."""
    meet = threading.Barrier(2)
    turns = Turns(order)

    def node(name):
        def run(state):
            meet.wait(20)
            turns.wait(name)
            raise Broken(f"in {name}")

        return run

    with pytest.raises(Broken, match="in a") as caught:
        engine.invoke(fan(Log, b=node("b"), a=node("a")), {})
    assert any("'b'" in note and "in b" in note for note in caught.value.__notes__)
    assert failure(caught.value).node == "a"


def test_a_failure_cancels_async_siblings(engine):
    """Promise 2: what still runs is cancelled; it may clean up, and is run again later."""
    seen, began = [], asyncio.Event()

    async def slow(state):
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            seen.append("cleaned up")

    async def fails(state):
        await began.wait()
        raise Broken("quickly")

    with pytest.raises(Broken, match="quickly"):
        engine.invoke(fan(Log, fails=fails, slow=slow), {})
    assert seen == ["cancelled", "cleaned up"]


def test_a_failure_waits_for_sync_siblings(engine):
    """Decision 13: a running sync node can't be killed, so it is awaited: nothing of the run goes on behind its back."""
    began, failed, ended = threading.Event(), threading.Event(), []

    def slow(state):
        began.set()
        assert failed.wait(20)
        ended.append(True)

    def fails(state):
        assert began.wait(20)
        failed.set()
        raise Broken("quickly")

    with pytest.raises(Broken, match="quickly"):
        engine.invoke(fan(Log, fails=fails, slow=slow), {})
    assert ended == [True]


def test_a_failure_starts_nothing_more(engine):
    """Promise 2: tasks that wait for a slot are not begun."""
    ran = []

    def worker(item):
        ran.append(item)
        raise Broken(f"item {item}")

    with pytest.raises(Broken, match="item 0"):
        engine.invoke(mapping(worker, range(10)).compile(), {}, {"max_concurrency": 1})
    assert ran == [0]


def test_a_failure_wins_over_a_pause(engine, saver):
    """Promise 2: the open question is saved and listed with the error; `None` runs the failed task, then the pause
    shows; the answer completes it."""
    broken = [True]

    def asks(state):
        return {"messages": interrupt("how?")}

    def fails(state):
        if broken:
            raise Broken("beside a question")
        return {"messages": "mended"}

    graph = fan(Log, asks=asks, fails=fails, saver=saver)
    with pytest.raises(Broken, match="beside a question") as caught:
        engine.invoke(graph, {}, {"max_concurrency": 1}, thread_id="t")
    assert any("open question" in note and "'asks'" in note for note in caught.value.__notes__)
    broken.clear()
    paused = engine.invoke(graph, None, thread_id="t")
    assert [question.value for question in paused.interrupts] == ["how?"]
    assert engine.resume(graph, "so", thread_id="t")["messages"] == ["so", "mended"]


def test_an_answer_runs_the_failed_tasks_as_well(engine, saver):
    """Promise 2: `Command(resume=…)` answers and goes on with the rest of the step."""
    broken = [True]

    def asks(state):
        return {"messages": interrupt("how?")}

    def fails(state):
        if broken:
            raise Broken("beside a question")
        return {"messages": "mended"}

    graph = fan(Log, asks=asks, fails=fails, saver=saver)
    with pytest.raises(Broken):
        engine.invoke(graph, {}, {"max_concurrency": 1}, thread_id="t")
    broken.clear()
    assert engine.resume(graph, "so", thread_id="t")["messages"] == ["so", "mended"]


def test_concurrent_runs_of_one_graph_keep_apart(engine, saver):
    """Defects 5 and 9: many runs at once, each on its own thread of conversation, with routes of their own."""

    def route(state):
        return [Send("worker", (state["prop1"], i)) for i in range(3)]

    graph = builder(Log, {"a": wrote("messages", "a"), "worker": lambda x: {"messages": [x]}}, (START, "a"))
    graph = graph.add_conditional_edges("a", route).compile(saver)
    configs = [{"configurable": {"thread_id": str(i)}} for i in range(20)]
    results = engine.batch(graph, [{"prop1": i} for i in range(20)], configs)
    assert results == [{"prop1": i, "messages": ["a", (i, 0), (i, 1), (i, 2)]} for i in range(20)]
    assert len({result.run_id for result in results}) == 20
