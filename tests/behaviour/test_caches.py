"""Cached results: when they are used, what tells them apart, and what is never kept."""

import asyncio
import functools
import logging
import operator
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    END,
    START,
    CachePolicy,
    Command,
    ConfigError,
    GraphBuildError,
    InMemoryCache,
    InMemorySaver,
    MessagesState,
    OverAllState,
    Send,
    StateGraph,
    get_runtime,
    interrupt,
    task,
)
from juncture.cache import Cache, RedisCache, SqliteCache
from juncture.testing import FakeClock
from tests.behaviour.building import chain, thread

pytestmark = pytest.mark.timeout(20)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


class Counted:
    """Nodes of either colour that count how often they run."""

    def __init__(self, colour: Any) -> None:
        self.colour = colour
        self.runs: list[Any] = []

    def node(self, then: Any = None) -> Any:
        runs = self.runs

        def work(state):
            runs.append(state.get("x"))
            return {"log": [f"did {state.get('x')!r}"]} if then is None else then(state)

        return self.colour(work)


@pytest.fixture
def counted(colour) -> Counted:
    return Counted(colour)


@pytest.fixture(params=["memory", "sqlite", "redis"])
def cache(request: pytest.FixtureRequest, tmp_path):
    if request.param == "memory":
        made: Cache = InMemoryCache()
    elif request.param == "sqlite":
        made = SqliteCache(tmp_path / "cache.db")
    else:
        made = RedisCache(request.getfixturevalue("redis_url"))
    yield made
    made.close()


def cached(
    node: Any, cache: Any = None, policy: CachePolicy | None = None, saver: Any = None, **options: Any
):
    graph = StateGraph(State).add_node("a", node, cache_policy=policy or CachePolicy(), **options)
    graph.add_node("b", lambda state: {"log": ["b"]})
    graph.add_edge(START, "a").add_edge("a", "b")
    return graph.compile(saver, cache=InMemoryCache() if cache is None else cache)


# ── hits ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_result_is_used_again_where_the_input_is_the_same(engine, counted, cache):
    graph = cached(counted.node(), cache)
    for _ in range(3):
        assert engine.invoke(graph, {"x": 1})["log"] == ["did 1", "b"]
    assert engine.invoke(graph, {"x": 2})["log"] == ["did 2", "b"]
    assert counted.runs == [1, 2]


def test_it_is_shared_by_graphs_of_the_same_functions_and_outlives_them(engine, tmp_path):
    runs: list[int] = []

    def node(state):
        runs.append(1)
        return {"log": ["did"]}

    for _ in range(2):
        with cached(node, f"sqlite:{tmp_path}/cache.db") as graph:
            assert engine.invoke(graph, {"x": 1})["log"] == ["did", "b"]
    assert runs == [1]


def test_a_hit_shows_in_updates(engine, counted):
    graph = cached(counted.node())
    first = engine.stream(graph, {"x": 1})
    second = engine.stream(graph, {"x": 1})
    assert first == [{"a": {"log": ["did 1"]}}, {"b": {"log": ["b"]}}]
    assert second == [{"a": {"log": ["did 1"]}, "__metadata__": {"cached": True}}, {"b": {"log": ["b"]}}]


def test_commands_and_routers_work_from_the_cache_too(engine, counted):
    def go(state):
        return Command(update={"log": ["went"]}, goto=[Send("b", state)])

    graph = StateGraph(State).add_node("a", counted.node(go), cache_policy=CachePolicy())
    graph.add_node("b", lambda state: {"log": [f"b {state['x']}"]}).add_edge(START, "a")
    app = graph.compile(cache="memory:")
    routed = StateGraph(State).add_node("a", counted.node(), cache_policy=CachePolicy())
    routed.add_node("b", lambda state: {"log": ["b"]}).add_edge(START, "a")
    routed.add_conditional_edges("a", lambda state: "b" if len(state["log"]) < 3 else END, ["b", END])
    other = routed.add_edge("b", "a").compile(cache="memory:")
    for _ in range(2):
        assert engine.invoke(app, {"x": 1})["log"] == ["went", "b 1"]
        assert engine.invoke(other, {"x": 1})["log"][:2] == ["did 1", "b"]
    assert counted.runs == [1, 1, 1]


def test_a_kept_result_is_nobodys_to_change(engine, counted):
    kept: list[Any] = []

    def node(state):
        made = ["a"]
        kept.append(made)
        return {"x": made}

    graph = StateGraph(State).add_node(
        "a", counted.colour(node), cache_policy=CachePolicy(key_func=lambda _: 1)
    )
    app = graph.add_edge(START, "a").compile(cache="memory:")
    engine.invoke(app, {})["x"].append("changed")
    kept[0].append("changed")
    engine.invoke(app, {})["x"].append("changed")
    assert engine.invoke(app, {})["x"] == ["a"]
    assert len(kept) == 1


def test_messages_from_the_cache_get_ids_of_their_own(engine):
    """Else the second of two equal answers in a thread would replace the first."""

    def answer(state):
        return {"messages": [{"role": "assistant", "content": "yes"}]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer, cache_policy=CachePolicy(key_func=lambda _: "same")).add_edge(
        START, "answer"
    )
    app = graph.compile(InMemorySaver(), cache="memory:")
    for _ in range(3):
        result = engine.invoke(app, {"messages": []}, thread())
    assert len({message["id"] for message in result["messages"]}) == 3


def test_objects_and_views_of_the_state_may_be_the_input(engine):
    runs: list[str] = []

    @dataclass
    class Data:
        n: int = 0

    def of_object(state: Data):
        runs.append("object")
        state.n += 1
        return state

    def of_view(state: OverAllState):
        runs.append("view")
        return {"log": [state.value("x")]}

    graph = StateGraph(Data).add_node("a", of_object, cache_policy=CachePolicy()).add_edge(START, "a")
    app, viewing = graph.compile(cache="memory:"), cached(of_view)
    for _ in range(2):
        assert engine.invoke(app, {"n": 1}).value == Data(2)
        assert engine.invoke(viewing, {"x": 3})["log"] == [3, "b"]
    assert runs == ["object", "view"]


def test_calls_may_be_cached(engine, counted):
    runs: list[Any] = []

    @task(cache_policy=CachePolicy())
    def double(number, *, by=2):
        runs.append(number)
        return number * by

    @task(cache_policy=CachePolicy(key_func=lambda number, *, by=2: 1))
    async def same(number, *, by=2):
        runs.append("same")
        return number

    async def node(state):
        return {"log": [await double(state["x"]), await double(state["x"], by=3), await same(state["x"])]}

    store = InMemoryCache()
    graph = StateGraph(State).add_node("a", node).add_edge(START, "a").compile(cache=store)
    assert engine.invoke(graph, {"x": 1})["log"] == [2, 3, 1]
    assert engine.invoke(graph, {"x": 1})["log"] == [2, 3, 1]
    assert engine.invoke(graph, {"x": 2})["log"] == [4, 6, 1]
    assert runs == [1, 1, "same", 2, 2]
    double.clear_cache(store)
    asyncio.run(same.aclear_cache(store))
    assert engine.invoke(graph, {"x": 2})["log"] == [4, 6, 2]


def test_a_nested_graph_uses_its_own_cache_or_the_one_around_it(engine, counted):
    def inner(cache):
        graph = StateGraph(State).add_node("leaf", counted.node(), cache_policy=CachePolicy())
        return graph.add_edge(START, "leaf").compile(cache=cache)

    for own, around in ((None, "memory:"), ("memory:", None)):
        counted.runs.clear()
        app = StateGraph(State).add_node("sub", inner(own)).add_edge(START, "sub").compile(cache=around)
        for _ in range(2):
            assert engine.invoke(app, {"x": 1})["log"] == ["did 1"]
        assert counted.runs == [1]


def test_the_default_policy_is_for_nodes_that_can_have_one(engine, counted):
    graph = StateGraph(State).add_node("a", counted.node()).set_node_defaults(cache_policy=CachePolicy())
    graph.add_node("sub", chain(State, leaf=lambda state: {"log": ["leaf"]}))
    graph.add_node("inline", lambda state: {"log": ["inline"]}, inline=True)

    def pieces(state):
        yield {"log": ["piece"]}

    graph.add_node("pieces", pieces)
    for name in ("a", "sub", "inline", "pieces"):
        graph.add_edge(START, name)
    app = graph.compile(cache="memory:")
    for _ in range(2):
        assert engine.invoke(app, {"x": 1})["log"] == ["did 1", "inline", "piece", "leaf"]
    assert counted.runs == [1]


# ── what tells results apart ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0, True),
        (0, False, 0.0, -0.0),
        ("1", 1, b"1"),
        ((1,), [1]),
        ({1: 2}, {"1": 2}),
        (None, "", [], {}),
    ],
    ids=["ones", "zeros", "text", "sequences", "keys", "nothings"],
)
def test_inputs_that_differ_never_share_a_result(engine, counted, values):
    graph = cached(counted.node())
    for value in values:
        assert engine.invoke(graph, {"x": value})["log"][0] == f"did {value!r}"
    assert len(counted.runs) == len(values)


def test_the_context_and_the_config_tell_tenants_apart(engine, colour):
    @dataclass
    class Tenant:
        name: str

    def node(state):
        runtime = get_runtime()
        return {"log": [runtime.context.name, runtime.config["configurable"].get("user")]}

    graph = StateGraph(State, Tenant).add_node("a", colour(node), cache_policy=CachePolicy())
    app = graph.add_edge(START, "a").compile(cache="memory:")
    for name, user in (("one", "u"), ("two", "u"), ("one", "v"), ("one", "u")):
        result = engine.invoke(app, {"x": 1}, {"configurable": {"user": user}}, context=Tenant(name))
        assert result["log"] == [name, user]


def test_a_policy_may_say_what_a_result_varies_with(engine, counted):
    policy = CachePolicy(vary_on=lambda runtime: runtime.context["tenant"])
    graph = cached(counted.node(), policy=policy)
    for context in ({"tenant": 1, "request": object()}, {"tenant": 1, "request": object()}, {"tenant": 2}):
        engine.invoke(graph, {"x": 1}, context=context)
    assert len(counted.runs) == 2


def test_threads_share_results(engine, counted):
    graph = cached(counted.node(), saver=InMemorySaver())
    for name in ("one", "two"):
        engine.invoke(graph, {"x": 1}, thread(name))
    assert counted.runs == [1]


def test_functions_that_differ_never_share_a_result(engine):
    def made(word, times=1):
        def node(state, *, _times=times):
            return {"log": [word * _times]}

        return node

    class Method:
        def __init__(self, word):
            self.word = word

        def node(self, state):
            return {"log": [self.word]}

        def __call__(self, state):
            return {"log": [f"called {self.word}"]}

    def bound(word, state):
        return {"log": [f"bound {word}"]}

    store = InMemoryCache()
    nodes = [
        (made("x"), "x"),
        (made("y"), "y"),
        (made("x", 2), "xx"),
        (lambda state: {"log": ["lambda"]}, "lambda"),
        (lambda state: {"log": ["other"]}, "other"),
        (Method("m").node, "m"),
        (Method("n").node, "n"),
        (Method("m"), "called m"),
        (Method("n"), "called n"),
        (functools.partial(bound, "p"), "bound p"),
        (functools.partial(bound, "q"), "bound q"),
    ]
    for _ in range(2):
        for node, word in nodes:
            assert engine.invoke(cached(node, store), {"x": 1})["log"] == [word, "b"]
    assert len(store._entries) == len(nodes)


def test_a_key_may_be_made_of_a_part_of_the_input(engine, counted):
    graph = cached(counted.node(), policy=CachePolicy(key_func=lambda state: state["x"] // 10))
    results = [engine.invoke(graph, {"x": x})["log"][0] for x in (11, 19, 21)]
    assert results == ["did 11", "did 11", "did 21"]


def test_an_error_of_a_key_function_is_the_nodes(engine, counted):
    graph = cached(counted.node(), policy=CachePolicy(key_func=lambda state: state["missing"]))
    with pytest.raises(KeyError, match="missing"):
        engine.invoke(graph, {"x": 1})
    assert counted.runs == []


@pytest.mark.parametrize("name", ["a.b", "*", "a/b", "%", "'; --", "\N{SNOWMAN}"])
def test_any_name_of_a_node_will_do(engine, cache, name):
    runs: list[int] = []

    def node(state):
        runs.append(1)
        return {"log": ["did"]}

    graph = StateGraph(State).add_node(name, node, cache_policy=CachePolicy()).add_edge(START, name)
    app = graph.compile(cache=cache)
    for _ in range(2):
        assert engine.invoke(app, {"x": 1})["log"] == ["did"]
    assert runs == [1]
    app.clear_cache([name])
    engine.invoke(app, {"x": 1})
    assert runs == [1, 1]


# ── how long ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ttl", [10, timedelta(seconds=10)], ids=["seconds", "timedelta"])
def test_a_result_expires(engine, counted, cache, ttl):
    with FakeClock() as clock:
        graph = cached(counted.node(), cache, CachePolicy(ttl=ttl))
        for wait in (0, 9, 2, 9):
            clock.advance(wait)
            engine.invoke(graph, {"x": 1})
    assert len(counted.runs) == 2


def test_results_can_be_cleared_by_node(engine, counted):
    graph = StateGraph(State).add_node("a", counted.node(), cache_policy=CachePolicy())
    graph.add_node("b", counted.node(), cache_policy=CachePolicy()).add_edge(START, "a").add_edge(START, "b")
    app = graph.compile(cache="memory:")
    engine.invoke(app, {"x": 1})
    engine.call(app.clear_cache, app.aclear_cache, ["b"])
    engine.invoke(app, {"x": 1})
    assert len(counted.runs) == 3
    engine.call(app.clear_cache, app.aclear_cache)
    engine.invoke(app, {"x": 1})
    assert len(counted.runs) == 5
    with pytest.raises(ConfigError, match="no node 'c'"):
        engine.call(app.clear_cache, app.aclear_cache, ["c"])
    with pytest.raises(ConfigError, match="has no cache"):
        engine.call(graph.compile().clear_cache, graph.compile().aclear_cache)


# ── what isn't kept ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_failure_is_not_kept(engine, counted):
    tries: list[int] = []

    def flaky(state):
        tries.append(1)
        if len(tries) == 1:
            raise OSError("down")
        return {"log": ["up"]}

    graph = cached(counted.node(flaky))
    with pytest.raises(OSError, match="down"):
        engine.invoke(graph, {"x": 1})
    for _ in range(2):
        assert engine.invoke(graph, {"x": 1})["log"] == ["up", "b"]
    assert len(tries) == 2


def test_an_answer_is_nobody_elses(engine, counted):
    """Two threads ask the same; each is answered for itself, and what was kept isn't taken for an answer."""
    graph = cached(counted.node(lambda state: {"log": [interrupt("sure?")]}), saver=InMemorySaver())
    for name in ("one", "two"):
        assert engine.invoke(graph, {"x": 1}, thread(name)).status == "interrupted"
    assert engine.resume(graph, "yes", thread("one"))["log"] == ["yes", "b"]
    assert engine.resume(graph, "no", thread("two"))["log"] == ["no", "b"]
    assert engine.invoke(graph, {"x": 1}, thread("three")).status == "interrupted"


def test_what_cannot_be_encoded_is_not_cached_and_a_warning_says_so(engine, counted, caplog):
    graph = cached(counted.node(lambda state: {"x": object()} if state["x"] == 1 else {"log": ["did"]}))
    with caplog.at_level(logging.WARNING, "juncture"):
        for _ in range(2):
            engine.invoke(graph, {"x": 1})
        for _ in range(2):
            engine.invoke(graph, {"x": object()})
    assert len(counted.runs) == 4
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 4
    assert "result of node 'a'" in said[0]
    assert "node 'a' isn't cached" in said[2]


def test_an_unreachable_cache_is_a_warning_and_the_node_runs(engine, counted, caplog):
    class Gone(InMemoryCache):
        def get(self, space, key, now):
            raise ConnectionError("nobody there")

        def put(self, space, key, value, now, ttl=None):
            raise ConnectionError("nobody there")

    graph = cached(counted.node(), Gone())
    with caplog.at_level(logging.WARNING, "juncture"):
        assert engine.invoke(graph, {"x": 1})["log"] == ["did 1", "b"]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert all("cache can't be reached" in line and "nobody there" in line for line in said)


def test_what_another_version_kept_is_a_warning_and_the_node_runs(engine, counted, caplog):
    class Old(InMemoryCache):
        def get(self, space, key, now):
            return b"\xc1 of long ago"

    graph = cached(counted.node(), Old())
    with caplog.at_level(logging.WARNING, "juncture"):
        assert engine.invoke(graph, {"x": 1})["log"] == ["did 1", "b"]
    assert "can't be used, so the node runs" in caplog.text


def test_without_a_cache_a_policy_has_no_effect(engine, counted):
    graph = (
        StateGraph(State)
        .add_node("a", counted.node(), cache_policy=CachePolicy())
        .add_edge(START, "a")
        .compile()
    )
    for _ in range(2):
        engine.invoke(graph, {"x": 1})
    assert len(counted.runs) == 2


# ── what can't be ────────────────────────────────────────────────────────────────────────────────────────────


def test_what_cannot_be_cached_is_refused():
    def pieces(state):
        yield {"log": ["piece"]}

    graph = StateGraph(State).add_edge(START, "a")
    with pytest.raises(GraphBuildError, match="must be a CachePolicy"):
        graph.add_node("a", pieces, cache_policy=10)  # pyright: ignore[reportArgumentType] - it is refused
    with pytest.raises(GraphBuildError, match="inline=True"):
        graph.add_node("a", lambda state: None, cache_policy=CachePolicy(), inline=True)
    graph.add_node("a", pieces, cache_policy=CachePolicy())
    with pytest.raises(GraphBuildError, match="is a generator: return one value"):
        graph.compile()
    nested = StateGraph(State).add_node("a", chain(State, b=lambda state: None), cache_policy=CachePolicy())
    with pytest.raises(GraphBuildError, match="is a graph: cache the nodes in it"):
        nested.add_edge(START, "a").compile()
    with pytest.raises(GraphBuildError, match="is no cache"):
        graph.compile(cache=3)  # pyright: ignore[reportArgumentType] - it is refused
    with pytest.raises(ValueError, match="must be greater than 0"):
        CachePolicy(ttl=0)
