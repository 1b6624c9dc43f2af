"""Long-term memory in a run: who is given which store, and until when."""

import asyncio
import threading
from typing import Any, Optional

import pytest

from juncture import (
    END,
    START,
    ConfigError,
    GraphBuildError,
    OverAllState,
    Runtime,
    StateGraph,
    StoreError,
    get_runtime,
    get_store,
)
from juncture.errors import Cancelled
from juncture.store import InMemoryStore, SqliteStore, Store

N = ("users", "ada")


def one_node(node: Any, **options: Any) -> Any:
    graph = StateGraph().add_node("node", node).add_edge(START, "node").add_edge("node", END)
    return graph.compile(**options)


def test_what_one_thread_writes_another_reads(engine, saver):
    def node(state, runtime: Runtime):
        known = runtime.store.get(N, "likes")
        runtime.store.put(N, "likes", {"what": "tea"})
        return {"known": None if known is None else known.value["what"]}

    app = one_node(node, checkpointer=saver, store=InMemoryStore())
    assert engine.invoke(app, {"x": 1}, thread_id="a")["known"] is None
    assert engine.invoke(app, {"x": 1}, thread_id="b")["known"] == "tea"


def test_every_way_to_it_leads_to_the_same_store(engine, colour):
    store = InMemoryStore()
    store.put(N, "k", {"a": 1})

    @colour
    def node(state: OverAllState, store: Store, runtime: Runtime, config):
        found = [store, runtime.store, get_store(), get_runtime().store, state.store]
        return {"found": [one.get(N, "k").value["a"] for one in found]}

    assert engine.invoke(one_node(node, store=store), {"x": 1})["found"] == [1] * 5


def test_async_nodes_await_it(engine, tmp_path):
    async def node(state, store: Store):
        await store.aput(N, "k", {"a": 1})
        return {"found": (await store.aget(N, "k")).value}

    with SqliteStore(tmp_path / "memory.db") as store:
        assert engine.invoke(one_node(node, store=store), {"x": 1})["found"] == {"a": 1}


def test_routers_are_given_it(engine):
    def route(state, store: Store):
        return "a" if store.get(N, "k") else END

    def write(state, store: Store):
        store.put(N, "k", {})
        return {"seen": 1}

    graph = StateGraph().add_node("first", write).add_node("a", lambda state: {"a": 1})
    graph.add_edge(START, "first").add_conditional_edges("first", route, ["a", END]).add_edge("a", END)
    assert engine.invoke(graph.compile(store=InMemoryStore()), {"x": 1})["a"] == 1


def test_without_a_store_who_needs_one_is_told(engine):
    def needs(state, store: Store):
        return {"x": 2}

    with pytest.raises(ConfigError, match="'node' asks for store, and the graph has no store"):
        engine.invoke(one_node(needs), {"x": 1})
    with pytest.raises(ConfigError, match="has no store"):
        engine.invoke(one_node(lambda state: {"x": get_store()}), {"x": 1})
    with pytest.raises(ConfigError, match="outside of a node"):
        get_store()


def test_without_a_store_who_takes_none_is_given_none(engine):
    def by_default(state, store=None):
        return {"found": store}

    def by_union(state, store: Store | None):
        return {"found": store}

    def by_optional(state, store: Optional[Store]):  # noqa: UP045 - the other spelling is what is tested
        return {"found": store}

    def by_runtime(state, runtime: Runtime):
        return {"found": runtime.store}

    for node in (by_default, by_union, by_optional, by_runtime):
        assert engine.invoke(one_node(node), {"x": 1})["found"] is None


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("called", [False, True])
def test_a_nested_graph_has_its_own_store_or_that_around_it(engine, own, called):
    def read(state, store: Store):
        return {"found": store.get(N, "k").value["whose"]}

    stores = {}
    for whose in ("outer", "inner"):
        stores[whose] = InMemoryStore()
        stores[whose].put(N, "k", {"whose": whose})
    child = one_node(read, store=stores["inner"] if own else None)
    node = (lambda state: {"found": child.invoke({"x": 1})["found"]}) if called else child
    app = one_node(node, store=stores["outer"])
    assert engine.invoke(app, {"x": 1})["found"] == ("inner" if own else "outer")


def test_a_store_by_url_is_opened_and_closed_with_the_graph(engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def node(state, store: Store):
        store.put(N, "k", {"a": 1})
        return {"x": 2}

    with one_node(node, store="sqlite:memory.db") as app:
        engine.invoke(app, {"x": 1})
        inner = app.store
    with pytest.raises(StoreError, match="closed"):
        inner.get(N, "k")
    with SqliteStore("memory.db") as store:
        assert store.get(N, "k").value == {"a": 1}


def test_a_store_that_was_given_stays_open(engine):
    store = InMemoryStore()
    with one_node(lambda state: {"x": 2}, store=store) as app:
        engine.invoke(app, {"x": 1})
    assert store.count() == 0


def test_what_is_no_store_is_refused():
    for wrong in (5, {}, "nothing:x"):
        with pytest.raises(GraphBuildError, match="store"):
            one_node(lambda state: {}, store=wrong)


def test_once_its_node_has_ended_a_store_refuses_calls(engine):
    kept: list[Any] = []

    def node(state, store: Store):
        kept.append(store)
        store.close()  # belongs to whoever opened it: nothing happens
        store.put(N, "k", {})
        return {"swept": store.sweep_ttl()}

    store = InMemoryStore()
    engine.invoke(one_node(node, store=store), {"x": 1})
    for call in (
        lambda: kept[0].put(N, "late", {}),
        kept[0].sweep_ttl,
        lambda: asyncio.run(kept[0].aput(N, "late", {})),
        lambda: asyncio.run(kept[0].asweep_ttl()),
    ):
        with pytest.raises(ConfigError, match="the store was used after node 'node' had ended"):
            call()
    assert [item.key for item in store.search(())] == ["k"]


def test_an_abandoned_node_can_not_write():
    store = InMemoryStore()
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def node(state, store: Store):
        begun.set()
        go_on.wait(30)
        try:
            store.put(N, "late", {})
        except BaseException as error:
            raised.append(error)
        ended.set()
        return {"x": 2}

    async def cancel():
        run = asyncio.ensure_future(one_node(node, store=store).ainvoke({"x": 1}))
        await asyncio.to_thread(begun.wait, 30)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancel())
    go_on.set()
    assert ended.wait(30)
    assert isinstance(raised[0], Cancelled)
    assert store.count() == 0


def test_nothing_of_it_is_in_a_checkpoint(engine, saver):
    def node(state: OverAllState, store: Store):
        store.put(N, "k", {"secret": "in the store alone"})
        return {"x": 2}

    app = one_node(node, checkpointer=saver, store=InMemoryStore())
    engine.invoke(app, {"x": 1}, thread_id="t")
    assert engine.state(app, {"configurable": {"thread_id": "t"}}).values == {"x": 2}
