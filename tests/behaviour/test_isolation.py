"""A node changes the state only by what it returns (right-behaviour 1 and 2)."""

import asyncio
import copy
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from juncture import (
    END,
    START,
    Append,
    Command,
    InvalidUpdateError,
    Merge,
    RetryPolicy,
    Send,
    StateGraph,
    StateMutationError,
    failure,
)
from tests.behaviour.building import builder, chain, compiled, fan, nothing, seen_by, thread, wrote
from tests.faulty import faulty


class Value(TypedDict, total=False):
    v: Any
    note: Any


@dataclass
class Harm:
    """A value, and a change in place somewhere in it."""

    make: Callable[[], Any]
    how: Callable[[Any], Any]

    def change(self, value: Any) -> None:
        self.how(value)


HARMS: dict[str, Harm] = {
    "list": Harm(lambda: [1], lambda v: v.append(2)),
    "list-cleared": Harm(lambda: [1, 2], lambda v: v.clear()),
    "list-sorted": Harm(lambda: [2, 1], lambda v: v.sort()),
    "dict": Harm(lambda: {"k": 1}, lambda v: v.update(k=2)),
    "dict-popped": Harm(lambda: {"k": 1}, lambda v: v.pop("k", None)),
    "set": Harm(lambda: {1}, lambda v: v.add(2)),
    "list-in-list": Harm(lambda: [[1], [2]], lambda v: v[1].append(3)),
    "list-in-dict": Harm(lambda: {"k": [1]}, lambda v: v["k"].append(2)),
    "dict-in-list": Harm(lambda: [{"k": 1}], lambda v: v[0].update(k=2)),
    "set-in-dict": Harm(lambda: {"k": {1}}, lambda v: v["k"].discard(1)),
    "list-in-tuple": Harm(lambda: (1, [2]), lambda v: v[1].append(3)),
    "dict-in-tuple-in-list": Harm(lambda: [(0, {"k": 1})], lambda v: v[0][1].update(k=2)),
    "set-in-tuple-in-tuple": Harm(lambda: (({1},),), lambda v: v[0][0].add(2)),
    "list-beside-atoms": Harm(lambda: ["a", 1, None, [1]], lambda v: v[3].append(2)),
    "six-deep": Harm(lambda: {"a": [{"b": ({"c": [[1]]},)}]}, lambda v: v["a"][0]["b"][0]["c"][0].append(2)),
    "deque": Harm(lambda: deque([1], maxlen=3), lambda v: v.append(2)),
    "list-in-deque": Harm(lambda: deque([[1]]), lambda v: v[0].append(2)),
    "defaultdict": Harm(lambda: defaultdict(list, k=[1]), lambda v: v["k"].append(2)),
    "defaultdict-touched": Harm(lambda: defaultdict(list), lambda v: v["new"]),
    "ordered": Harm(lambda: OrderedDict(a=[1], b=2), lambda v: v.move_to_end("a")),
    "list-in-ordered": Harm(lambda: OrderedDict(a=[1]), lambda v: v["a"].append(2)),
    "counter": Harm(lambda: Counter("ab"), lambda v: v.update("a")),
    "bytearray": Harm(lambda: bytearray(b"ab"), lambda v: v.extend(b"c")),
    "bytearray-in-list": Harm(lambda: [bytearray(b"ab")], lambda v: v[0].clear()),
}


@pytest.fixture(params=list(HARMS))
def any_harm(request) -> Harm:
    return HARMS[request.param]


@pytest.fixture(
    params=["list", "set-in-dict", "dict-in-tuple-in-list", "list-in-ordered", "bytearray-in-list"]
)
def harm(request) -> Harm:
    """Some of them: enough where it is known what is copied, and the question is whether it is."""
    return HARMS[request.param]


def harmer(harm: Harm, key: str = "v"):
    """A node that changes what it is handed, at the top and inside, and returns nothing."""

    def node(state):
        harm.change(state[key])
        state["note"] = "set by assignment"

    return node


# ── a node that changes what it was handed ───────────────────────────────────────────────────────────────────


def test_a_change_in_place_reaches_nobody(engine, colour, any_harm):
    """Rule 1: not the caller's input, not the next node, not the result."""
    seen = []
    graph = chain(Value, a=colour(harmer(any_harm)), b=colour(seen_by(seen)))
    given = {"v": any_harm.make()}
    result = engine.invoke(graph, given)
    assert given == {"v": any_harm.make()}
    assert seen == [{"v": any_harm.make()}]
    assert result == {"v": any_harm.make()}


def test_a_change_of_a_committed_value_reaches_nobody(engine, any_harm):
    """Rule 1: the same for a value that another node wrote."""
    seen = []
    graph = chain(Value, write=lambda s: {"v": any_harm.make()}, harm=harmer(any_harm), look=seen_by(seen))
    assert engine.invoke(graph, {}) == {"v": any_harm.make()}
    assert seen == [{"v": any_harm.make()}]


def test_a_change_in_place_reaches_no_other_task(engine, harm):
    """Rule 1: a task of the same step, whether it is handed its input before or after the change."""
    harmed = threading.Event()
    seen = []

    def first(state):
        try:
            harmer(harm)(state)
        finally:
            harmed.set()

    def second(state):
        assert harmed.wait(20)
        seen.append(copy.deepcopy(state))

    engine.invoke(fan(Value, first=first, second=second), {"v": harm.make()})
    assert seen == [{"v": harm.make()}]


def test_a_change_in_place_reaches_no_router(engine, harm):
    """Rule 1: what a node left behind in its input isn't what its own router sees."""
    seen = []
    graph = builder(Value, {"a": harmer(harm), "b": nothing}, (START, "a"))
    graph.add_conditional_edges("a", lambda s: (seen.append(copy.deepcopy(s)), "b")[1], ["b"])
    engine.invoke(graph.compile(), {"v": harm.make()})
    assert seen == [{"v": harm.make()}]


def test_a_routers_change_in_place_reaches_nobody(engine, harm):
    """Rule 1: a router's input is a copy as well, for the next router, the next node and the result."""
    seen = []

    def route(state):
        harmer(harm)(state)
        return "b"

    graph = builder(Value, {"a": wrote("note", 1), "b": seen_by(seen)}, (START, "a"))
    graph.add_conditional_edges("a", route, ["b"], name="first")
    graph.add_conditional_edges("a", lambda s: (seen.append(copy.deepcopy(s)), [])[1], ["b"], name="second")
    result = engine.invoke(graph.compile(), {"v": harm.make()})
    expected = {"v": harm.make(), "note": 1}
    assert seen == [expected, expected]
    assert result == expected


def test_a_routers_change_in_place_at_the_start_reaches_nobody(engine, harm):
    """Rule 1: a router of START is handed a copy of the input."""

    def route(state):
        harm.change(state["v"])
        return "a"

    seen = []
    graph = builder(Value, {"a": seen_by(seen)}).add_conditional_edges(START, route, ["a"])
    given = {"v": harm.make()}
    engine.invoke(graph.compile(), given)
    assert seen == [given] == [{"v": harm.make()}]


@pytest.mark.parametrize("damage", ["clear", "del", "pop", "assign"])
def test_the_input_itself_is_the_nodes_own(engine, damage):
    """Rule 1, at the top level: emptying the dict that was handed out removes nothing."""

    def node(state):
        if damage == "clear":
            state.clear()
        elif damage == "del":
            del state["v"]
        elif damage == "pop":
            state.pop("v")
        else:
            state["v"] = "other"

    seen = []
    assert engine.invoke(chain(Value, a=node, b=seen_by(seen)), {"v": 1}) == {"v": 1}
    assert seen == [{"v": 1}]


def test_a_nodes_own_input_schema_changes_nothing_about_it(engine, harm):
    """Rule 1: with `input_schema`, with an open state, and with an output schema."""

    class Narrow(TypedDict):
        v: Any

    seen = []
    graph = StateGraph(Value, output_schema=Narrow)
    graph.add_node("a", harmer(harm), input_schema=Narrow)
    graph.add_node("b", seen_by(seen))
    graph.add_edge(START, "a").add_edge("a", "b")
    assert engine.invoke(graph.compile(), {"v": harm.make()}) == {"v": harm.make()}
    open_graph = chain(None, a=harmer(harm), b=seen_by(seen))
    assert engine.invoke(open_graph, {"v": harm.make()}) == {"v": harm.make()}
    assert seen == [{"v": harm.make()}] * 2


@dataclass
class Record:
    v: Any = field(default_factory=lambda: {"k": [1]})


class Model(BaseModel):
    v: Any = {"k": [1]}


class Packed(msgspec.Struct):
    v: Any = msgspec.field(default_factory=lambda: {"k": [1]})


@pytest.mark.parametrize("schema", [Record, Model, Packed])
@pytest.mark.parametrize("given", [{}, {"v": {"k": [1]}}], ids=["default", "given"])
def test_an_object_state_is_copied_too(engine, schema, given):
    """Rule 1: containers inside a state that is an object, its defaults included, over several runs."""
    seen = []

    def harm(state):
        state.v["k"].append(2)
        state.v["new"] = 1
        state.v = "reassigned"

    graph = chain(schema, a=harm, b=lambda s: seen.append(copy.deepcopy(s.v)))
    for _ in range(2):
        engine.invoke(graph, copy.deepcopy(given))
    assert seen == [{"k": [1]}] * 2
    assert schema().v == {"k": [1]}


def test_a_root_state_is_copied(engine):
    """Rule 1: a state that is one unnamed value."""
    seen = []
    given = [1, [2]]
    graph = chain(list, a=lambda s: (s[1].append(3), None)[1], b=seen_by(seen))
    assert engine.invoke(graph, given).value == [1, [2]]
    assert (given, seen) == ([1, [2]], [[1, [2]]])


def test_the_zero_of_a_reducer_is_new_in_every_run(engine):
    """Rule 1: the empty list that a node is handed before the first write belongs to nobody else."""

    class Log(TypedDict):
        log: Annotated[list[str], lambda old, new: [*old, *new]]
        tags: Annotated[set[str], lambda old, new: old | new]

    seen = []

    def harm(state):
        state["log"].append("x")
        state["tags"].add("x")

    graph = chain(Log, a=harm, b=seen_by(seen))
    for _ in range(2):
        engine.invoke(graph, {"log": []})
    assert seen == [{"log": [], "tags": set()}] * 2


# ── what was given and what came back ────────────────────────────────────────────────────────────────────────


def test_the_callers_object_can_change_while_the_run_goes_on(engine, harm):
    """Rule 1: the input was copied at the start, so the run doesn't see what its caller does to it later."""
    seen = []
    given = {"v": harm.make()}
    graph = chain(Value, a=nothing, b=seen_by(seen))
    engine.consume(
        graph, given, lambda item: harm.change(given["v"]) if not seen else None, stream_mode="updates"
    )
    assert seen == [{"v": harm.make()}]


def test_what_a_node_returned_stays_as_it_was(engine, any_harm):
    """Rule 1: a node that keeps what it returned, and changes it afterwards, changes nothing."""
    kept, seen = [], []

    def first(state):
        kept.append(any_harm.make())
        return {"v": kept[0]}

    def second(state):
        any_harm.change(kept[0])

    graph = chain(Value, a=first, b=second, c=seen_by(seen))
    assert engine.invoke(graph, {}) == {"v": any_harm.make()}
    assert seen == [{"v": any_harm.make()}]


def test_what_a_command_carried_stays_as_it_was(engine, harm):
    """Rule 1: the same for `Command.update`, from nodes and routers, and for what a `Send` carries."""
    kept, seen = [harm.make(), harm.make(), harm.make()], []

    def first(state):
        return Command(update={"v": kept[0]})

    def route(state):
        return Command(update={"note": kept[1]}, goto=["second", Send("third", {"v": kept[2]})])

    def second(state):
        seen.append(copy.deepcopy(state))
        for value in kept:
            harm.change(value)
        return Command(goto="fourth")

    graph = builder(
        Value, {"first": first, "second": second, "third": nothing, "fourth": seen_by(seen)}, (START, "first")
    )
    graph.add_conditional_edges("first", route)
    engine.invoke(graph.compile(), {})
    assert seen == [{"v": harm.make(), "note": harm.make()}] * 2


def test_one_object_sent_to_several_tasks_is_several(engine, harm):
    """Rule 1: each `Send` gets its own copy of the argument; the router may go on using it."""
    seen = []
    shared = harm.make()
    lock = threading.Lock()

    def worker(state):
        with lock:
            seen.append(copy.deepcopy(state["v"]))
            harm.change(state["v"])
            harm.change(shared)

    graph = builder(Value, {"worker": worker})
    graph.add_conditional_edges(START, lambda s: [Send("worker", {"v": shared})] * 3)
    engine.invoke(graph.compile(), {})
    assert seen == [harm.make()] * 3


@pytest.mark.parametrize("keys", [None, ["v", "note"]], ids=["all", "some"])
@pytest.mark.parametrize("mode", ["values", "updates", "messages", "tasks", "debug"])
def test_what_a_stream_gave_is_the_consumers_own(engine, harm, mode, keys):
    """Rule 1: a consumer that changes a part changes neither the run nor the parts that follow."""
    seen, snapshots = [], []

    def spoil(item):
        snapshots.append(copy.deepcopy(item))
        for holder in _mappings(item):
            if "v" in holder:
                harm.change(holder["v"])
                holder["note"] = "spoilt"

    graph = chain(
        Value,
        a=lambda s: {"v": harm.make()},
        b=seen_by(seen),
        c=lambda s: {"note": [s["v"]]},
        d=seen_by(seen),
    )
    given = {"v": harm.make()}
    clean = engine.stream(graph, given, stream_mode=mode, output_keys=keys)
    engine.consume(graph, given, spoil, stream_mode=mode, output_keys=keys)
    assert _plain(snapshots) == _plain(clean)
    assert seen == [{"v": harm.make()}, {"v": harm.make(), "note": [harm.make()]}] * 2
    assert given == {"v": harm.make()}


def _mappings(item: Any) -> list[dict[Any, Any]]:
    """Every dict in an item of a stream."""
    if isinstance(item, dict):
        return [item, *(found for value in item.values() for found in _mappings(value))]
    if isinstance(item, (list, tuple)):
        return [found for value in item for found in _mappings(value)]
    return []


def _plain(items: list[Any]) -> list[Any]:
    """Items of a stream without what differs from run to run."""
    if isinstance(items, dict):
        return {k: _plain(v) for k, v in items.items() if k not in ("id", "timestamp")}
    return [_plain(item) for item in items] if isinstance(items, (list, tuple)) else items


def test_a_result_is_the_callers_own(engine, saver, harm):
    """Rule 1: what the caller does to a result changes no thread, and no other result."""
    seen = []
    graph = chain(Value, a=seen_by(seen), saver=saver)
    first = engine.invoke(graph, {"v": harm.make()}, thread_id="t")
    harm.change(first["v"])
    second = engine.invoke(graph, {"note": 1}, thread_id="t")
    assert second == {"v": harm.make(), "note": 1}
    assert seen == [{"v": harm.make()}, {"v": harm.make(), "note": 1}]


def test_a_checkpoint_is_nobodys(engine, saver, harm):
    """Rule 1: a node of a later invocation, and one that runs again after a failure, see what was saved."""
    seen = []
    broken = [True]

    def node(state):
        seen.append(copy.deepcopy(state))
        harm.change(state["v"])
        if broken.pop() if broken else False:
            raise RuntimeError("once")

    graph = chain(Value, a=node, saver=saver)
    with pytest.raises(RuntimeError, match="once"):
        engine.invoke(graph, {"v": harm.make()}, thread_id="t")
    engine.invoke(graph, None, thread_id="t")
    engine.invoke(graph, {}, thread_id="t")
    assert seen == [{"v": harm.make()}] * 3


def test_runs_of_one_graph_share_nothing(engine, harm):
    """Rule 1: inputs that are one object, results that are several, runs at once."""
    given = {"v": harm.make()}
    meet = threading.Barrier(3)

    def node(state):
        meet.wait(20)
        harm.change(state["v"])
        return {"note": 1}

    results = engine.batch(chain(Value, a=node, b=nothing), [given] * 3)
    assert results == [{"v": harm.make(), "note": 1}] * 3
    harm.change(results[0]["v"])
    assert results[1]["v"] == results[2]["v"] == given["v"] == harm.make()


def test_a_subgraph_gets_a_copy(engine, harm):
    """Rule 1: at the border to a nested graph, in both directions."""
    kept, seen = [], []

    def inside(state):
        harm.change(state["v"])
        kept.append(harm.make())
        return {"note": kept[0]}

    child = chain(Value, inside=inside, after=lambda s: harm.change(kept[0]))
    graph = chain(
        Value, child=child, after=lambda s: (harm.change(kept[0]), seen.append(copy.deepcopy(s)))[1]
    )
    given = {"v": harm.make()}
    engine.invoke(graph, given)
    assert seen == [{"v": harm.make(), "note": harm.make()}]
    assert given == {"v": harm.make()}


def test_a_graph_called_inside_a_node_gets_a_copy(engine, harm):
    """Rule 1: the same where a node calls the graph by itself."""
    child = chain(Value, inside=harmer(harm))
    outcomes = []

    def node(state):
        outcomes.append((child.invoke({"v": state["v"]}), copy.deepcopy(state)))

    engine.invoke(chain(Value, node=node), {"v": harm.make()})
    assert outcomes == [({"v": harm.make()}, {"v": harm.make()})]


# ── reducers ─────────────────────────────────────────────────────────────────────────────────────────────────


def extend_in_place(old, new):
    """What people write: a reducer that changes the old value and gives it back."""
    old.extend(new)
    return old


def test_a_reducer_that_changes_the_old_value_gives_the_same_result(engine):
    """Rule 1: it works on a copy, so nobody's earlier view of the list grows."""

    class Log(TypedDict):
        log: Annotated[list[int], extend_in_place]

    graph = chain(Log, a=wrote("log", [2]), b=wrote("log", [3]))
    given = {"log": [1]}
    values = engine.stream(graph, given, stream_mode="values")
    assert values == [{"log": [1]}, {"log": [1, 2]}, {"log": [1, 2, 3]}]
    assert given == {"log": [1]}


def test_a_reducer_that_changes_the_old_value_and_raises_leaves_it(engine, saver):
    """Rules 1 and 2: the list is as before the step, in the error's result and in the thread."""

    def grow_then_refuse(old, new):
        old.extend(new)
        if "bad" in new:
            raise ValueError("bad item")
        return old

    class Log(TypedDict):
        log: Annotated[list[str], grow_then_refuse]

    outputs = [["bad"], ["good"]]
    graph = chain(Log, a=lambda s: {"log": outputs.pop(0)}, saver=saver)
    with pytest.raises(ValueError, match="bad item") as caught:
        engine.invoke(graph, {"log": ["given"]}, thread_id="t")
    assert failure(caught.value).result == {"log": ["given"]}
    assert engine.invoke(graph, {"log": []}, thread_id="t") == {"log": ["given", "good"]}


def test_a_reducer_that_changes_the_new_value_sees_each_write_once(engine):
    """Rule 1: a write is merged for the node's router and again for the commit; the first may not show in the second."""

    def absorb(old, new):
        new.extend(old)
        return new

    class Log(TypedDict):
        log: Annotated[list[str], absorb]

    graph = builder(
        Log, {"a": wrote("log", ["a"]), "b": wrote("log", ["b"]), "c": nothing}, (START, "a"), (START, "b")
    )
    for name in "ab":
        graph.add_conditional_edges(name, lambda s: "c", ["c"])
    assert engine.invoke(graph.compile(), {"log": ["given"]}) == {"log": ["b", "a", "given"]}


def test_a_childs_reducer_that_changes_the_new_value_doesnt_change_the_parents_write(engine):
    """Rules 1 and 15: the parent merges what the child's node wrote, not what became of it."""

    def absorb(old, new):
        new.extend(old)
        return new

    class Log(TypedDict):
        log: Annotated[list[str], absorb]

    child = chain(Log, one=wrote("log", ["1"]), two=wrote("log", ["2"]))
    assert engine.invoke(chain(Log, child=child), {"log": ["given"]}) == {"log": ["2", "1", "given"]}


def test_a_reducer_may_not_keep_the_state(engine):
    """Rule 1: what a reducer got hold of is not what is committed."""
    kept = []

    def keep(old, new):
        kept.append(old)
        return old + new

    class Log(TypedDict):
        log: Annotated[list[int], keep]

    def harm(state):
        for value in kept:
            value.clear()

    seen = []
    graph = chain(Log, a=wrote("log", [2]), b=harm, c=seen_by(seen))
    assert engine.invoke(graph, {"log": [1]}) == {"log": [1, 2]}
    assert seen == [{"log": [1, 2]}]


# ── failures leave no trace ──────────────────────────────────────────────────────────────────────────────────


def test_a_failed_node_leaves_nothing(engine, colour, saver, harm):
    """Rule 2, case C27: it changes its input, then raises; the error's result and the thread are as before."""

    def node(state):
        if state.get("note") != "go on":
            harm.change(state["v"])
            state["note"] = "left behind"
            raise RuntimeError("after the change")

    graph = chain(Value, a=wrote("note", "before"), b=colour(node), saver=saver)
    with pytest.raises(RuntimeError, match="after the change") as caught:
        engine.invoke(graph, {"v": harm.make()}, thread_id="t")
    where = failure(caught.value)
    assert (where.node, where.step, where.thread_id) == ("b", 2, "t")
    assert where.result == {"v": harm.make(), "note": "before"}
    graph = chain(Value, a=wrote("note", "go on"), b=colour(node), saver=saver)
    assert engine.invoke(graph, {}, thread_id="t") == {"v": harm.make(), "note": "go on"}


def test_a_retried_node_starts_from_the_state(engine, harm):
    """Rule 2: the second try isn't handed what the first one left."""
    seen = []

    def node(state):
        seen.append(copy.deepcopy(state))
        harm.change(state["v"])
        if len(seen) < 3:
            raise ConnectionError("try again")
        return {"note": len(seen)}

    graph = StateGraph(Value).add_node("a", node, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    result = engine.invoke(graph.add_edge(START, "a").compile(), {"v": harm.make()})
    assert seen == [{"v": harm.make()}] * 3
    assert result == {"v": harm.make(), "note": 3}


def test_a_retried_send_starts_from_its_argument(engine, harm):
    """Rule 2: the same for the argument of a `Send`."""
    seen = []

    def worker(given):
        seen.append(copy.deepcopy(given))
        harm.change(given["v"])
        if len(seen) < 2:
            raise ConnectionError("try again")

    graph = StateGraph(Value).add_node(
        "worker", worker, retry_policy=RetryPolicy(initial_interval=0, jitter=False)
    )
    graph.add_conditional_edges(START, lambda s: [Send("worker", {"v": harm.make()})])
    engine.invoke(graph.compile(), {})
    assert seen == [{"v": harm.make()}] * 2


def test_a_failed_task_takes_its_siblings_writes_along(engine):
    """Rule 2: a step is applied whole or not at all, whichever task ended first."""

    class Log(TypedDict):
        log: Annotated[list[str], Append()]

    ended = threading.Event()

    def good(state):
        ended.set()
        return {"log": "good"}

    def bad(state):
        assert ended.wait(20)
        raise RuntimeError("bad")

    graph = fan(Log, bad=bad, good=good)
    with pytest.raises(RuntimeError, match="bad") as caught:
        engine.invoke(graph, {"log": ["given"]})
    assert failure(caught.value).result == {"log": ["given"]}


@faulty("unknown-key")
@pytest.mark.parametrize("after", ["router", "write"])
def test_a_task_that_fails_after_its_body_leaves_nothing(engine, saver, after):
    """Rule 2: its router raises, or what it returned is refused: the body's update isn't applied either."""

    def body(state):
        return {"note": 1} if after == "router" else {"note": 1, "nope": 2}

    def route(state):
        raise RuntimeError("in the router")

    graph = builder(Value, {"a": body}, (START, "a"))
    if after == "router":
        graph.add_conditional_edges("a", route, [END])
    with pytest.raises((RuntimeError, InvalidUpdateError)) as caught:
        engine.invoke(graph.compile(saver), {"v": 0}, thread_id="t")
    assert failure(caught.value).result == {"v": 0}
    assert failure(caught.value).node == "a"


def test_a_failed_subgraph_leaves_nothing(engine):
    """Rule 2: what the child committed before it failed isn't the parent's."""

    def fail(state):
        raise RuntimeError("inside")

    child = chain(Value, one=wrote("note", "one"), two=fail)
    with pytest.raises(RuntimeError, match="inside") as caught:
        engine.invoke(chain(Value, before=wrote("v", 1), child=child), {})
    assert failure(caught.value).result == {"v": 1}


def test_a_failing_router_of_the_start_leaves_no_thread(engine, saver):
    """Rule 2: nothing of the input is applied; the thread begins with the next one."""
    fails = [True]

    def route(state):
        if fails.pop() if fails else False:
            raise RuntimeError("at the door")
        return "a"

    graph = builder(Value, {"a": nothing}).add_conditional_edges(START, route, ["a"]).compile(saver)
    with pytest.raises(RuntimeError, match="at the door"):
        engine.invoke(graph, {"v": 1}, thread_id="t")
    assert engine.invoke(graph, {"note": 2}, thread_id="t") == {"note": 2}


def test_a_cancelled_run_leaves_what_was_committed(saver):
    """Rule 2 and promise 4: cancelling while a node holds its input; the thread goes on from the step before."""
    seen = []

    async def main():
        entered = asyncio.Event()

        async def node(state):
            state["v"].append("by the node")
            seen.append(copy.deepcopy(state))
            if not entered.is_set():
                entered.set()
                await asyncio.Event().wait()

        graph = chain(Value, a=wrote("v", ["a"]), b=node, saver=saver)
        run = asyncio.ensure_future(graph.ainvoke({}, thread_id="t"))
        await entered.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return await graph.ainvoke(None, thread_id="t")

    assert asyncio.run(main()) == {"v": ["a"]}
    assert seen == [{"v": ["a", "by the node"]}] * 2


def test_a_stream_closed_early_leaves_what_was_committed(engine, saver):
    """Rule 2 and promise 4: whoever stops listening keeps the steps that were committed, whole."""

    class Log(TypedDict):
        log: Annotated[list[str], Append()]

    graph = chain(Log, a=wrote("log", "a"), b=wrote("log", "b"), c=wrote("log", "c"), saver=saver)
    items = engine.consume(graph, {}, lambda item: "b" not in item, thread_id="t", stream_mode="updates")
    assert items == [{"a": {"log": "a"}}, {"b": {"log": "b"}}]
    assert engine.invoke(graph, None, thread_id="t") == {"log": ["a", "b", "c"]}


# ── a reducer that raises ────────────────────────────────────────────────────────────────────────────────────


def positive(old: int, new: int) -> int:
    if new < 0:
        raise ValueError(f"{new} is negative")
    return old + new


class Account(TypedDict):
    balance: Annotated[int, positive]
    total: Annotated[int, lambda old, new: old + new]
    note: Any


def said(error: BaseException) -> str:
    """The message and the notes of an exception."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


def test_a_reducer_that_raises_is_named_with_key_and_node(engine):
    """Rule 2, case C26: another key of the same update isn't applied; the exception is the reducer's own."""
    graph = chain(Account, pay=lambda s: {"note": "paid", "total": 5, "balance": -5})
    with pytest.raises(ValueError, match="-5 is negative") as caught:
        engine.invoke(graph, {"balance": 10, "total": 1})
    assert "'balance'" in said(caught.value)
    assert "'pay'" in said(caught.value)
    assert failure(caught.value).result == {"balance": 10, "total": 1}


@pytest.mark.parametrize("culprit", ["a", "b", "c"])
def test_of_several_writers_the_one_at_fault_is_named(engine, culprit):
    """Rule 2: the node whose write was being applied, and nobody's writes are applied."""
    amounts = {name: -1 if name == culprit else 1 for name in "abc"}
    graph = fan(Account, **{name: wrote("balance", amount) for name, amount in amounts.items()})
    with pytest.raises(ValueError, match="-1 is negative") as caught:
        engine.invoke(graph, {"balance": 10})
    others = set("abc") - {culprit}
    assert f"node {culprit!r}" in said(caught.value)
    assert not [name for name in others if f"node {name!r} wrote" in said(caught.value)]
    assert failure(caught.value).result == {"balance": 10}


def test_of_several_sends_the_place_of_the_fault_is_named(engine):
    """Rule 2: writers of one name are told apart as far as their node goes."""
    graph = builder(Account, {"worker": lambda amount: {"balance": amount}})
    graph.add_conditional_edges(START, lambda s: [Send("worker", 1), Send("worker", -2), Send("worker", 3)])
    with pytest.raises(ValueError, match="-2 is negative") as caught:
        engine.invoke(graph.compile(), {"balance": 10})
    assert "'worker'" in said(caught.value)
    assert failure(caught.value).result == {"balance": 10}


@pytest.mark.parametrize(
    "how", ["alone", "with a router", "beside another", "in a subgraph", "from a router"]
)
def test_a_reducer_that_raises_stops_every_kind_of_step(engine, how):
    """Rule 2: the same wherever its write came from."""
    pay = wrote("balance", -5)
    if how == "alone":
        graph = chain(Account, pay=pay)
    elif how == "with a router":
        graph = (
            builder(Account, {"pay": pay}, (START, "pay"))
            .add_conditional_edges("pay", lambda s: END)
            .compile()
        )
    elif how == "beside another":
        graph = fan(Account, pay=pay, other=wrote("note", 1))
    elif how == "in a subgraph":
        graph = chain(Account, child=chain(Account, pay=pay))
    else:
        graph = builder(Account, {"pay": nothing}, (START, "pay"))
        graph.add_conditional_edges("pay", lambda s: Command(update={"balance": -5}, goto=END))
        graph = graph.compile()
    with pytest.raises(ValueError, match="-5 is negative") as caught:
        engine.invoke(graph, {"balance": 10})
    assert "'balance'" in said(caught.value)
    assert "'pay'" in said(caught.value)
    assert failure(caught.value).result == {"balance": 10}


@pytest.mark.parametrize(
    ("reducer", "old", "new", "kind"),
    [
        (lambda old, new: old + new, [1], 2, TypeError),
        (max, 1, "two", TypeError),
        (Append(), [1], {2}, InvalidUpdateError),
        (Merge(), {"a": 1}, "b", InvalidUpdateError),
    ],
    ids=["lambda", "builtin", "Append", "Merge"],
)
def test_any_reducer_can_refuse(engine, reducer, old, new, kind):
    """Rule 2: reducers of users, of Python and ours are named alike."""
    graph = (
        StateGraph(None, key_strategies={"v": reducer}).add_node("a", wrote("v", new)).add_edge(START, "a")
    )
    with pytest.raises(kind) as caught:
        engine.invoke(graph.compile(), {"v": old})
    assert "'v'" in said(caught.value)
    assert "'a'" in said(caught.value)
    assert failure(caught.value).result == {"v": old}


def test_a_reducer_that_refuses_the_input_leaves_the_thread(engine, saver):
    """Rule 2: nothing of the input is applied, and the thread is as it was."""
    graph = chain(Account, a=nothing, saver=saver)
    engine.invoke(graph, {"balance": 10}, thread_id="t")
    with pytest.raises(ValueError, match="-1 is negative") as caught:
        engine.invoke(graph, {"note": "changed", "balance": -1}, thread_id="t")
    assert "'balance'" in said(caught.value)
    assert engine.invoke(graph, {"total": 1}, thread_id="t") == {"balance": 10, "total": 1}


# ── objects, and sharing on purpose ──────────────────────────────────────────────────────────────────────────


@dataclass
class Box:
    items: list[Any]


@pytest.mark.parametrize(
    ("make", "reach"),
    [
        (lambda: Box([1]), lambda v: v),
        (lambda: [Box([1])], lambda v: v[0]),
        (lambda: {"k": (Box([1]),)}, lambda v: v["k"][0]),
        (lambda: [Box([Box([1])])], lambda v: v[0].items[0]),
    ],
    ids=["alone", "in-a-list", "deep", "in-an-object"],
)
def test_debug_finds_an_object_that_was_changed(engine, make, reach):
    """Rule 1: objects are shared and mustn't be changed; with debug a change raises, naming node and key."""

    def harm(state):
        reach(state["v"]).items.append(2)

    graph = builder(Value, {"harm": harm, "b": nothing}, (START, "harm"), ("harm", "b"))
    with pytest.raises(StateMutationError) as caught:
        engine.invoke(graph.compile(debug=True), {"v": make()})
    assert (caught.value.node, caught.value.key) == ("harm", "v")
    assert "'harm'" in str(caught.value)
    assert "'v'" in str(caught.value)


def test_debug_leaves_honest_nodes_alone(engine):
    """Rule 1: reading, returning what was handed out, and changing one's own copies are no mutations."""

    def node(state):
        assert state["v"][0].items == [1]
        state["v"].append(Box([2]))
        return {"v": [*state["v"], Box([3])], "note": state["note"]}

    graph = builder(Value, {"a": node}, (START, "a")).compile(debug=True)
    result = engine.invoke(graph, {"v": [Box([1])], "note": [1]})
    assert result == {"v": [Box([1]), Box([2]), Box([3])], "note": [1]}


def test_a_save_never_misses_a_changed_object(engine, saver):
    """Rule 1: objects are shared, so the run goes on with the change; so does whoever loads the thread."""

    class Boxed(TypedDict):
        v: list[Box]

    seen = []
    graph = chain(Boxed, harm=lambda s: s["v"][0].items.append("change"), look=seen_by(seen), saver=saver)
    result = engine.invoke(graph, {"v": [Box([])]}, thread_id="t")
    engine.invoke(graph, {}, thread_id="t")
    assert [result, *seen][:2] == [{"v": [Box(["change"])]}] * 2
    assert seen[1] == {"v": [Box(["change", "change"])]}


def shared_graph(of: str, *actions):
    options = {"isolation": "shared"} if of == "graph" else {}
    graph = StateGraph(Value, **options)
    for index, action in enumerate(actions):
        graph.add_node(str(index), action, isolation="shared" if of == "node" else None)
    graph.add_edge(START, "0")
    for index in range(len(actions) - 1):
        graph.add_edge(str(index), str(index + 1))
    return graph.compile()


@pytest.mark.parametrize("of", ["node", "graph"])
def test_shared_isolation_hands_out_the_state_itself(engine, of):
    """Design, isolation: no copy is made for such a node, so two of them are handed the same list."""
    seen = []
    graph = shared_graph(of, lambda s: seen.append(s["v"]), lambda s: seen.append(s["v"]))
    given = {"v": [[1]]}
    assert engine.invoke(graph, given) == given
    assert seen[0] is seen[1]
    assert seen[0] is not given["v"]  # the caller's input is copied once at the start, whatever the isolation


@pytest.mark.parametrize("of", ["node", "graph"])
def test_shared_isolation_keeps_the_border_of_what_is_returned(engine, of):
    """Design, isolation: opting out concerns what a node is handed, not what it returns nor the dict itself."""
    kept = [1]

    def first(state):
        state["note"] = "by assignment"
        return {"v": kept}

    graph = shared_graph(of, first, lambda s: kept.append(2))
    assert engine.invoke(graph, {}) == {"v": [1]}


def test_a_node_can_opt_back_in(engine):
    """Design, isolation: a node's own choice counts more than the graph's."""
    graph = StateGraph(Value, isolation="shared")
    graph.add_node("a", lambda s: s["v"].append(2), isolation="copy").add_edge(START, "a")
    assert engine.invoke(graph.compile(), {"v": [1]}) == {"v": [1]}


def test_shared_isolation_of_one_node_leaves_the_others_alone(engine):
    """Design, isolation: a sibling that wasn't declared shared is handed a copy as before."""
    seen = []
    graph = StateGraph(Value)
    graph.add_node("a", lambda s: seen.append(s["v"]), isolation="shared")
    graph.add_node("b", lambda s: s["v"].append("harm"))
    graph.add_edge(START, "a").add_edge("a", "b")
    assert engine.invoke(graph.compile(), {"v": [1]}) == {"v": [1]}
    assert seen == [[1]]


def test_what_a_shared_node_puts_into_a_long_list_is_copied_for_the_others(engine):
    """Design, isolation: nothing that was found out about the state's lists counts where a node can change them."""
    graph = StateGraph(Value)
    graph.add_node("look", nothing)
    graph.add_node("spoil", lambda s: s["v"][0].update(k=[1]), isolation="shared")
    graph.add_node("harm", lambda s: s["v"][0]["k"].append(2))
    graph.add_edge(START, "look").add_edge("look", "spoil").add_edge("spoil", "harm")
    result = engine.invoke(graph.compile(), {"v": [{"k": number} for number in range(50)]})
    assert result["v"][0] == {"k": [1]}


def test_a_long_list_is_copied_for_every_node_and_run_of_a_thread(engine, saver):
    """Rule 1, where the lists of a thread's state are known already: what is new in them is looked at all the same."""

    class Rows(TypedDict, total=False):
        v: Annotated[list[dict[str, Any]], Append]

    def harm(state):
        for row in state["v"]:
            if isinstance(row["k"], list):
                row["k"].append("harm")
            row["k"] = "harm"

    graph = chain(Rows, first=harm, second=harm, saver=saver)
    given = [{"k": number} for number in range(50)]
    expected = []
    for number in range(4):
        added = [*given, {"k": [number]}] if number else given
        expected += added
        result = engine.invoke(graph, {"v": added}, thread_id="t")
        assert result["v"] == expected
        harm({"v": result["v"]})


def test_values_that_contain_themselves_are_refused(engine):
    """Rule 1: what can't be copied can't be state; the error says so, instead of the stack running over."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidUpdateError, match="contains itself") as caught:
        engine.invoke(chain(Value, a=wrote("v", loop)), {})
    assert (caught.value.node, caught.value.key) == ("a", "v")
    with pytest.raises(InvalidUpdateError, match="contains itself"):
        engine.invoke(chain(Value, a=nothing), {"v": loop})


def test_the_config_of_the_caller_stays(engine):
    """Rule 1: a run leaves the config as it was given, thread and all."""
    config = thread("t", recursion_limit=5)
    before = copy.deepcopy(config)
    engine.invoke(compiled(Value, {"a": nothing}, (START, "a"), saver=None), {"v": 1}, config)
    assert config == before
