"""The end of a run: what becomes of its thread (`on_finish`), and what is raised where the end itself fails."""

import asyncio
from typing import Any

import pytest

from juncture import ConfigError, GraphBuildError, InMemorySaver, failure
from tests.behaviour.building import builder, chain, chain_edges, nothing, thread
from tests.behaviour.ran import Ran, State

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def ran():
    return Ran()


def names(engine: Any, graph: Any) -> list[str]:
    return [one.thread_id for one in engine.call(graph.get_threads, graph.aget_threads)]


def at(ref: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": ref.thread_id, "checkpoint_id": ref.checkpoint_id}}


def leases_of(saver: Any) -> list[Any]:
    return saver.leases()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_thread_whose_run_is_done_is_archived(engine, saver, ran, durability):
    graph = chain(State, saver=saver, a=ran.step("a"))
    options = {"on_finish": "archive", "durability": durability}
    results = [engine.invoke(graph, {"log": [turn]}, thread(), **options) for turn in ("first", "second")]
    assert [result["log"] for result in results] == [["first", "a"], ["second", "a"]], "each begins anew"
    kept = [result.checkpoint.thread_id for result in results]
    assert sorted(kept) == names(engine, graph)
    for result, name in zip(results, kept, strict=True):
        assert name.startswith("t@")
        state = engine.state(graph, at(result.checkpoint))
        assert (state.values, state.next) == (result, ())
        assert engine.state(graph, thread(name)).config == state.config
    assert leases_of(graph.checkpointer) == []


def test_a_thread_whose_run_is_done_is_deleted(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a")}, *chain_edges(["a"])).compile(saver, on_finish="delete")
    result = engine.invoke(graph, {"log": ["in"]}, thread())
    assert (result.status, result["log"], result.checkpoint) == ("completed", ["in", "a"], None)
    assert names(engine, graph) == []
    assert engine.history(graph, thread()) == []
    assert leases_of(graph.checkpointer) == []
    kept = engine.invoke(graph, {"log": ["kept"]}, thread(), on_finish="keep")
    assert engine.state(graph, at(kept.checkpoint)).values["log"] == ["kept", "a"], "a call says otherwise"


def test_a_paused_run_keeps_its_thread_until_it_is_done(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    paused = engine.invoke(graph, {"log": ["in"]}, thread(), on_finish="delete")
    assert paused.status == "interrupted"
    assert paused.checkpoint.thread_id == "t"
    assert names(engine, graph) == ["t"]
    assert engine.resume(graph, "yes", thread(), on_finish="delete")["log"] == ["in", "a", ("b", "yes")]
    assert names(engine, graph) == []


def test_a_failed_run_keeps_its_thread(engine, saver, ran):
    def b(state: Any) -> Any:
        raise ValueError("no")

    graph = chain(State, saver=saver, a=ran.step("a"), b=b)
    with pytest.raises(ValueError, match="no"):
        engine.invoke(graph, {"log": ["in"]}, thread(), on_finish="delete")
    assert engine.state(graph, thread()).next == ("b",)


def test_a_streamed_run_does_it_too(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"))
    engine.stream(graph, {"log": ["in"]}, thread(), on_finish="archive")
    (kept,) = names(engine, graph)
    assert kept.startswith("t@")


class ArchivesNothing(InMemorySaver):
    """A saver whose storage is gone when a thread is to be deleted."""

    def delete_thread(self, thread_id: str, **options: Any) -> None:
        raise OSError("the disk is gone")


def test_where_it_cannot_be_done_the_thread_stays_and_the_error_has_the_result(engine, ran):
    graph = chain(State, saver=ArchivesNothing(), a=ran.step("a"))
    with pytest.raises(OSError, match="the disk is gone") as caught:
        engine.invoke(graph, {"log": ["in"]}, thread(), on_finish="delete")
    assert any("was done, and everything saved" in note for note in caught.value.__notes__)
    assert failure(caught.value).result["log"] == ["in", "a"]
    assert engine.state(graph, thread()).values["log"] == ["in", "a"]
    assert leases_of(graph.checkpointer) == []


def test_an_edit_keeps_the_thread(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a")}, *chain_edges(["a"])).compile(saver, on_finish="delete")
    engine.call(graph.update_state, graph.aupdate_state, thread(), {"log": ["by hand"]}, "a")
    assert names(engine, graph) == ["t"]


def test_it_needs_a_saver_and_one_of_its_choices(engine):
    unsaved = chain(State, a=nothing)
    with pytest.raises(ConfigError, match="on_finish='delete' needs a saver"):
        engine.invoke(unsaved, {}, on_finish="delete")
    made = builder(State, {"a": nothing}, *chain_edges(["a"]))
    for checkpointer in (None, False, True):
        with pytest.raises(GraphBuildError, match="on_finish='archive' needs a saver"):
            made.compile(checkpointer, on_finish="archive")
    with pytest.raises(ConfigError, match="on_finish is 'keep' or 'archive' or 'delete', got 'drop'"):
        made.compile(InMemorySaver(), on_finish="drop")


class SavesNothing(InMemorySaver):
    """A saver whose storage takes nothing."""

    def put(self, *args: Any, **options: Any) -> None:
        raise OSError("the disk is full")


def test_what_a_node_raised_is_raised_where_the_end_fails_too(engine):
    def a(state: Any) -> Any:
        raise ValueError("of the node")

    graph = chain(State, saver=SavesNothing(), a=a)
    with pytest.raises(ValueError, match="of the node") as caught:
        engine.invoke(graph, {"x": 1}, thread(), durability="exit")
    assert any(
        "the end of the run failed as well: OSError('the disk is full')" in note
        for note in caught.value.__notes__
    )
    assert leases_of(graph.checkpointer) == []


def test_an_end_that_fails_alone_is_raised(engine):
    graph = chain(State, saver=SavesNothing(), a=nothing)
    with pytest.raises(OSError, match="the disk is full"):
        engine.invoke(graph, {"x": 1}, thread(), durability="exit")


def test_a_cancelled_run_is_cancelled_where_its_end_fails_too(caplog):
    begun = asyncio.Event()

    async def a(state: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    graph = chain(State, saver=SavesNothing(), a=a)

    async def cancelled() -> None:
        running = asyncio.ensure_future(graph.ainvoke({"x": 1}, thread(), durability="exit"))
        await begun.wait()
        running.cancel("enough")
        with pytest.raises(asyncio.CancelledError) as caught:
            await running
        assert running.cancelled()
        assert any("the disk is full" in note for note in caught.value.__notes__)

    asyncio.run(cancelled())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the disk is full" in caplog.text
