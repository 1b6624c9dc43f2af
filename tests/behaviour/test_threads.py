"""Looking after threads: listing, copying, archiving, deleting and pruning them (rule 32)."""

import operator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    END,
    START,
    Command,
    ConfigError,
    InterruptError,
    NothingToResumeError,
    StateGraph,
    interrupt,
    task,
)
from juncture.errors import CheckpointNotFoundError, ThreadBusyError, ThreadNotFoundError
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.behaviour.ran import Ran, State, asked, ids, named

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def ran():
    return Ran()


def listed(engine: Any, graph: Any, **options: Any) -> list[Any]:
    return engine.call(graph.get_threads, graph.aget_threads, **options)


def copy(engine: Any, graph: Any, source: str, target: str) -> None:
    engine.call(graph.copy_thread, graph.acopy_thread, source, target)


def prune(engine: Any, graph: Any, *args: Any, **options: Any) -> int:
    return engine.call(graph.prune, graph.aprune, *args, **options)


def delete(engine: Any, graph: Any, name: str) -> None:
    engine.call(graph.delete_thread, graph.adelete_thread, name)


def archive(engine: Any, graph: Any, name: str) -> str:
    return engine.call(graph.archive_thread, graph.aarchive_thread, name)


def shown(snapshot: Any) -> Any:
    """A snapshot, without which thread it is of."""
    return (
        snapshot.values,
        snapshot.next,
        snapshot.metadata,
        snapshot.created_at,
        snapshot.interrupts,
        snapshot.config["configurable"].get("checkpoint_id"),
        snapshot.parent_config and named(snapshot.parent_config),
        [(t.id, t.name, t.error, t.interrupts, t.result) for t in snapshot.tasks],
    )


def story(engine: Any, graph: Any, name: str) -> list[Any]:
    return [shown(one) for one in engine.history(graph, thread(name))]


def by(due: tuple[str, ...], history: list[Any]) -> Any:
    return next(one for one in history if one.next == due)


# ── listing ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_threads_are_listed_with_how_they_stand(engine, saver, ran):
    def node(state):
        match state["x"]:
            case "fails":
                raise RuntimeError("failed")
            case "asks":
                interrupt("?")

    graph = builder(State, {"a": ran.step("a"), "b": node}, (START, "a"), ("a", "b")).compile(saver)
    assert listed(engine, graph) == []
    before = datetime.now(UTC)
    engine.invoke(graph, {"x": "ends"}, thread("completed"))
    engine.invoke(graph, {"x": "asks"}, thread("interrupted"))
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": "fails"}, thread("failed"))
    engine.update(graph, thread("unfinished"), {"x": "ends"}, "a")
    found = listed(engine, graph)
    assert [(one.thread_id, one.status, one.step, one.next, one.holder) for one in found] == [
        ("completed", "completed", 2, (), None),
        ("failed", "failed", 1, ("b",), None),
        ("interrupted", "interrupted", 1, ("b",), None),
        ("unfinished", "unfinished", 0, ("b",), None),
    ]
    assert [asked(one) for one in found] == [[], [], ["?"], []]
    for one in found:
        assert before <= datetime.fromisoformat(one.updated_at) <= datetime.now(UTC)
        assert one.updated_at == engine.state(graph, one.thread_id).created_at
        assert (one.next, one.interrupts) == (
            engine.state(graph, one.thread_id).next,
            engine.state(graph, one.thread_id).interrupts,
        )


def test_a_static_pause_is_listed_as_interrupted(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, interrupt_before=["b"])
    engine.invoke(graph, {"x": 1}, thread("before"))
    engine.invoke(graph, {"x": 1}, thread("after"), interrupt_before=[], interrupt_after=["a"])
    assert [(one.thread_id, one.status) for one in listed(engine, graph)] == [
        ("after", "interrupted"),
        ("before", "interrupted"),
    ]


def test_a_nested_graph_is_no_thread_of_its_own(engine, saver, ran):
    graph = chain(State, saver=saver, sub=chain(State, b=ran.asks("b")))
    engine.invoke(graph, {"x": 1}, thread())
    (one,) = listed(engine, graph)
    assert (one.thread_id, one.status, asked(one)) == ("t", "interrupted", ["b?"])


def test_a_long_listing_goes_on_where_it_stopped(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    names = sorted(["B", "a", "a%", "a-1", "a_", "ab", "é", "z"])
    for name in reversed(names):
        engine.invoke(graph, {"x": 1}, thread(name))
    assert [one.thread_id for one in listed(engine, graph)] == names
    assert [one.thread_id for one in listed(engine, graph, limit=3)] == names[:3]
    assert [one.thread_id for one in listed(engine, graph, after=names[2])] == names[3:]
    assert [one.thread_id for one in listed(engine, graph, after=names[2], limit=2)] == names[3:5]
    assert listed(engine, graph, after=names[-1]) == []
    assert [one.thread_id for one in listed(engine, graph, after="a!")] == [n for n in names if n > "a!"]


# ── copying ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_has_the_whole_history(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    engine.invoke(graph, {"x": (1, {2})}, thread(metadata={"who": "me"}))
    engine.resume(graph, "yes", thread())
    engine.invoke(graph, None, by(("a",), engine.history(graph, thread())).config)
    copy(engine, graph, "t", "copy")
    assert story(engine, graph, "copy") == story(engine, graph, "t")
    assert [one.config["configurable"]["thread_id"] for one in engine.history(graph, thread("copy"))] == [
        "copy"
    ] * 6
    assert saver.leases() == []


def test_a_copy_of_a_paused_thread_goes_on_by_itself(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    copy(engine, graph, "t", "copy")
    assert engine.state(graph, thread("copy")).interrupts == paused.interrupts, "its questions keep their ids"
    for name, answer in (("copy", "to the copy"), ("t", "to the original")):
        done = engine.resume(graph, {ids(paused)["b?"]: answer}, thread(name))
        assert done["log"] == ["a", ("b", answer), "c"]
    assert ran == ["a", "b", "b", "c", "b", "c"]


def test_a_copy_keeps_the_work_of_finished_siblings_and_answers_given(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.asks("c"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["b?"]: 1}, thread())
    copy(engine, graph, "t", "copy")
    ran.clear()
    assert engine.resume(graph, 2, thread("copy"))["log"] == ["a", ("b", 1), ("c", 2)]
    assert ran == ["c"]


def test_a_copy_of_a_thread_that_is_paused_at_a_node(engine, saver, ran):
    graph = builder(State, {n: ran.step(n) for n in "abc"}, (START, "a"), ("a", "b"), ("b", "c"))
    graph = graph.compile(saver, interrupt_before=["b"], interrupt_after=["b"])
    engine.invoke(graph, {"x": 1}, thread())
    copy(engine, graph, "t", "copy")
    assert engine.state(graph, thread("copy")).interrupts == engine.state(graph, thread()).interrupts
    paused = engine.invoke(graph, None, thread("copy"))
    assert ([(q.node, q.when) for q in paused.interrupts], ran) == ([("b", "after")], ["a", "b"])
    copy(engine, graph, "copy", "copy of the copy")
    assert engine.state(graph, thread("copy of the copy")).interrupts == paused.interrupts
    assert engine.invoke(graph, None, thread("copy of the copy"))["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_copy_of_a_thread_that_is_paused_in_a_nested_graph(engine, saver, ran, depth):
    inner = chain(State, b1=ran.step("b1"), b2=ran.asks("b2"), b3=ran.asks("b3"))
    for _ in range(depth - 1):
        inner = chain(State, mid=inner)
    graph = chain(State, saver=saver, a=ran.step("a"), sub=inner)
    paused = engine.invoke(graph, {"x": 1}, thread())
    copy(engine, graph, "t", "copy")
    assert engine.resume(graph, {ids(paused)["b2?"]: 2}, thread("copy")).status == "interrupted"
    done = engine.resume(graph, 3, thread("copy"))
    assert done["log"] == ["a", "b1", ("b2", 2), ("b3", 3)]
    assert ran == ["a", "b1", "b2", "b2", "b3", "b3"]
    assert asked(engine.state(graph, thread())) == ["b2?"], "the original is where it was"
    assert engine.resume(graph, 4, thread()).status == "interrupted"


@pytest.mark.parametrize("remembers", [None, True], ids=["nested", "with a memory"])
def test_a_copy_of_a_copy_in_which_a_nested_graph_began(engine, saver, ran, remembers):
    inner = builder(State, {"b": ran.asks("b")}, (START, "b")).compile(remembers)
    graph = chain(State, saver=saver, a=ran.asks("a"), sub=inner)
    engine.invoke(graph, {"x": 1}, thread())
    copy(engine, graph, "t", "copy")
    paused = engine.resume(graph, "A", thread("copy"))
    assert asked(paused) == ["b?"]
    copy(engine, graph, "copy", "copy of the copy")
    assert engine.state(graph, thread("copy of the copy")).interrupts == paused.interrupts
    done = engine.resume(graph, {ids(paused)["b?"]: "B"}, thread("copy of the copy"))
    assert done["log"] == [("a", "A"), ("b", "B")]


def test_a_copy_of_a_failed_thread(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.fails("b", 1))
    with pytest.raises(RuntimeError):
        engine.invoke(graph, {"x": 1}, thread())
    copy(engine, graph, "t", "copy")
    assert [one.status for one in listed(engine, graph)] == ["failed", "failed"]
    assert engine.invoke(graph, None, thread("copy"))["log"] == ["a", "b"]


def test_a_copy_takes_journaled_calls_along(engine, saver, ran):
    @task
    def draw():
        ran.append("draw")
        return len(ran)

    def node(state):
        return {"log": [(draw().result(), interrupt("?"))]}

    graph = chain(State, saver=saver, node=node)
    engine.invoke(graph, {"x": 1}, thread())
    copy(engine, graph, "t", "copy")
    assert engine.resume(graph, "yes", thread("copy"))["log"] == [(1, "yes")]
    assert ran == ["draw"]


def test_a_copy_goes_back_in_its_own_history(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "first", thread())
    copy(engine, graph, "t", "copy")
    before = story(engine, graph, "t")
    old = by(("b",), engine.history(graph, thread("copy")))
    assert engine.resume(graph, "second", old.config)["log"] == ["a", ("b", "second")]
    assert asked(engine.invoke(graph, None, old.config)) == ["b?"]
    assert story(engine, graph, "t") == before


def test_a_copy_has_the_memories_of_nested_graphs(engine, saver):
    graph = remembering(saver)
    for _ in range(2):
        engine.invoke(graph, {"x": 0}, thread())
    copy(engine, graph, "t", "copy")
    assert engine.invoke(graph, {"x": 0}, thread("copy"))["x"] == 3
    assert engine.invoke(graph, {"x": 0}, thread("copy"))["x"] == 4
    assert engine.invoke(graph, {"x": 0}, thread())["x"] == 3


def test_a_thread_that_is_not_there_cannot_be_copied(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    with pytest.raises(ThreadNotFoundError, match="'nobody'") as caught:
        copy(engine, graph, "nobody", "copy")
    assert caught.value.thread_id == "nobody"
    assert listed(engine, graph) == []


def test_a_thread_is_never_copied_over_another(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    engine.invoke(graph, {"x": 1}, thread("one"))
    engine.invoke(graph, {"x": 2}, thread("two"))
    before = story(engine, graph, "two")
    with pytest.raises(ConfigError, match="'two' has checkpoints already"):
        copy(engine, graph, "one", "two")
    with pytest.raises((ConfigError, ThreadBusyError)):
        copy(engine, graph, "one", "one")
    assert (story(engine, graph, "two"), saver.leases()) == (before, [])
    assert len(engine.history(graph, thread("one"))) == 2


def test_branches_of_a_copy_are_not_taken_for_older_ones(engine, saver, ran):
    """The places of checkpoints in a copy of a pruned thread aren't those that its branches were named after."""
    inner = chain(State, b1=ran.step("b1"), b2=ran.asks("b2"))
    graph = chain(State, saver=saver, a=ran.step("a"), sub=inner)
    engine.invoke(graph, {"x": 1}, thread())
    start = by(("a",), engine.history(graph, thread()))
    engine.invoke(graph, None, start.config)  # on the branch "2"
    engine.invoke(graph, None, start.config)  # on the branch "4"
    prune(engine, graph, "t", keep=1)
    copy(engine, graph, "t", "copy")
    engine.update(graph, thread("copy"), {"y": 1})
    first = engine.history(graph, thread("copy"))[-1]
    assert first.next == ("sub",)
    ran.clear()
    assert asked(engine.invoke(graph, None, first.config)) == ["b2?"]
    assert ran == ["b1", "b2"], "afresh, not from where a nested graph of another branch stands"


# ── archiving ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_archived_thread_is_kept_under_another_name(engine, saver, ran):
    """Cases C95, C96: its own name is free, and what it had is still there."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    engine.invoke(graph, {"log": ["first"]}, thread())
    before = story(engine, graph, "t")
    kept = archive(engine, graph, "t")
    assert kept != "t"
    assert [one.thread_id for one in listed(engine, graph)] == [kept]
    assert story(engine, graph, kept) == before
    assert engine.history(graph, thread()) == []
    engine.invoke(graph, {"log": ["second"]}, thread())
    assert engine.state(graph, thread()).values["log"] == ["second", "a"]
    assert engine.resume(graph, "yes", thread(kept))["log"] == ["first", "a", ("b", "yes")]


def test_a_name_may_be_archived_again_and_again(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    kept = []
    for n in range(3):
        engine.invoke(graph, {"x": n}, thread())
        kept.append(archive(engine, graph, "t"))
    assert len(set(kept)) == 3
    assert [engine.state(graph, thread(name)).values["x"] for name in kept] == [0, 1, 2]


def test_a_thread_that_is_not_there_cannot_be_archived(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    with pytest.raises(ThreadNotFoundError, match="'nobody'"):
        archive(engine, graph, "nobody")


# ── deleting ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_deleting_a_thread_deletes_all_of_it(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), sub=chain(State, b=ran.asks("b")))
    engine.invoke(graph, {"x": 1}, thread())
    engine.invoke(graph, {"x": 2}, thread("t2"))
    delete(engine, graph, "t")
    assert (engine.history(graph, thread()), saver.namespaces("t"), saver.leases()) == ([], [], [])
    assert [one.thread_id for one in listed(engine, graph)] == ["t2"]
    assert asked(engine.state(graph, thread("t2"))) == ["b?"]
    for given in (None, Command(resume="yes")):
        with pytest.raises(NothingToResumeError, match=r"'t'|no question"):
            engine.invoke(graph, given, thread())


def test_a_deleted_thread_begins_anew(engine, saver, ran):
    """Also in the process that ran it last, which may still know it."""
    graph = chain(State, saver=saver, a=ran.step("a"))
    engine.invoke(graph, {"log": ["old"]}, thread())
    delete(engine, graph, "t")
    assert engine.invoke(graph, {"log": ["new"]}, thread())["log"] == ["new", "a"]
    assert [one.metadata["step"] for one in engine.history(graph, thread())] == [1, 0]


def test_a_deleted_thread_begins_anew_also_with_its_nested_graphs(engine, saver):
    graph = remembering(saver)
    engine.invoke(graph, {"x": 0}, thread())
    delete(engine, graph, "t")
    assert engine.invoke(graph, {"x": 0}, thread())["x"] == 1


@pytest.mark.parametrize("name", ["nobody", "%", "t%", "t_", "*", "t-"])
def test_deleting_what_is_not_there_deletes_nothing(engine, saver, name):
    """Rule 35."""
    graph = chain(State, saver=saver, a=nothing)
    for other in ("t", "tx", "t-corp"):
        engine.invoke(graph, {"x": 1}, thread(other))
    delete(engine, graph, name)
    assert [one.thread_id for one in listed(engine, graph)] == ["t", "t-corp", "tx"]
    assert saver.leases() == []


# ── pruning ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("keep", [1, 2, 5, 6, 99])
def test_the_newest_are_kept(engine, saver, ran, keep):
    """Case C91."""
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    for n in range(2):
        engine.invoke(graph, {"x": [n] * 50, "log": [n]}, thread())
    before = engine.history(graph, thread())
    assert prune(engine, graph, "t", keep=keep) == max(6 - keep, 0)
    assert engine.history(graph, thread()) == before[:keep]
    for one in before[:keep]:
        assert engine.state(graph, one.config).values == one.values
    assert prune(engine, graph, "t", keep=keep) == 0
    done = engine.invoke(graph, {"log": ["more"]}, thread())
    assert done["log"] == [0, "a", "b", 1, "a", "b", "more", "a", "b"]
    assert saver.leases() == []


def test_a_paused_thread_that_was_pruned_is_resumed(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.asks("c"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, {ids(paused)["b?"]: 1}, thread())
    prune(engine, graph, "t", keep=1)
    ran.clear()
    assert engine.resume(graph, 2, thread())["log"] == ["a", ("b", 1), ("c", 2)]
    assert ran == ["c"]


def test_a_thread_that_is_paused_in_a_nested_graph_and_was_pruned_is_resumed(engine, saver, ran):
    inner = chain(State, b1=ran.step("b1"), b2=ran.asks("b2"), b3=ran.step("b3"))
    graph = chain(State, saver=saver, a=ran.step("a"), sub=chain(State, mid=inner), z=ran.step("z"))
    engine.invoke(graph, {"x": 1}, thread())
    assert prune(engine, graph, "t", keep=1) > 0
    assert [len(engine.history(graph, place(one))) for one in saver.namespaces("t")] == [1, 1, 1]
    ran.clear()
    assert engine.resume(graph, "yes", thread())["log"] == ["a", "b1", ("b2", "yes"), "b3", "z"]
    assert ran == ["b2", "b3", "z"]


def place(namespace: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}


def test_what_remains_can_be_gone_back_to(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"), c=ran.step("c"))
    for n in range(3):
        engine.invoke(graph, {"log": [n]}, thread())
        engine.resume(graph, n, thread())
    prune(engine, graph, "t", keep=4)
    for one in engine.history(graph, thread()):
        if one.next:
            result = engine.invoke(graph, None, one.config)
            assert result["log"][: len(one.values["log"])] == one.values["log"]


def test_what_was_pruned_is_gone(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"))
    engine.invoke(graph, {"x": 1}, thread())
    newest, old = engine.history(graph, thread())
    prune(engine, graph, "t", keep=1)
    for look in (lambda: engine.state(graph, old.config), lambda: engine.invoke(graph, None, old.config)):
        with pytest.raises(CheckpointNotFoundError, match=named(old.config)):
            look()
    assert newest.parent_config == engine.state(graph, thread()).parent_config == old.config, (
        "where it came from"
    )


def test_forks_are_pruned_by_age_like_everything(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"x": 1}, thread())
    old = by(("b",), engine.history(graph, thread()))
    engine.update(graph, old.config, {"x": 2})
    prune(engine, graph, "t", keep=1)
    assert engine.state(graph, thread()).values == {"x": 2, "log": ["a"]}
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b"]


@pytest.mark.parametrize("as_seconds", [False, True])
def test_what_is_old_goes(engine, saver, ran, as_seconds):
    def age(seconds):
        return seconds if as_seconds else timedelta(seconds=seconds)

    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.step("b"))
    engine.invoke(graph, {"x": 1}, thread())
    assert prune(engine, graph, "t", older_than=age(3600)) == 0
    assert prune(engine, graph, "t", keep=2, older_than=age(0)) == 1, "kept by either"
    assert prune(engine, graph, "t", keep=1, older_than=age(3600)) == 0
    assert prune(engine, graph, "t", older_than=age(0)) == 1
    assert len(engine.history(graph, thread())) == 1, "the newest stays, however old"


def test_all_threads_at_once(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"))
    for n in range(3):
        engine.invoke(graph, {"x": n}, thread(f"thread {n}"))
    assert prune(engine, graph, keep=1) == 3
    assert [len(engine.history(graph, thread(f"thread {n}"))) for n in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "what to keep"),
        ({"keep": 0}, "at least 1"),
        ({"keep": -1}, "at least 1"),
        ({"keep": 1.5}, "keep"),
        ({"keep": True}, "keep"),
        ({"older_than": -1}, "has passed"),
        ({"older_than": float("nan")}, "has passed"),
        ({"older_than": timedelta(seconds=-1)}, "has passed"),
    ],
    ids=str,
)
def test_what_pruning_cannot_be_told(engine, saver, ran, options, says):
    graph = chain(State, saver=saver, a=ran.step("a"))
    engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(ConfigError, match=says):
        prune(engine, graph, "t", **options)
    assert len(engine.history(graph, thread())) == 2


def test_a_thread_that_is_not_there_cannot_be_pruned(engine, saver):
    graph = chain(State, saver=saver, a=nothing)
    with pytest.raises(ThreadNotFoundError, match="'nobody'"):
        prune(engine, graph, "nobody", keep=1)
    assert prune(engine, graph, keep=1) == 0


def test_nested_series_go_with_the_step_that_they_ran_in(engine, saver, ran):
    inner = chain(State, b=ran.step("b"))
    graph = chain(State, saver=saver, a=ran.step("a"), sub=chain(State, mid=inner), z=ran.step("z"))
    for _ in range(3):
        engine.invoke(graph, {"x": 1}, thread())
    assert len(saver.namespaces("t")) == 7
    prune(engine, graph, "t", keep=4)
    assert len(saver.namespaces("t")) == 3, "of the last run, which can be gone back to"
    prune(engine, graph, "t", keep=1)
    assert saver.namespaces("t") == [""]
    assert engine.invoke(graph, {"x": 2}, thread()).status == "completed"


def test_series_of_graphs_called_inside_functions_go_too(engine, saver, ran):
    inner = chain(State, b=ran.step("b"))

    def call(state):
        return {"log": inner.invoke({"log": []})["log"]}

    graph = chain(State, saver=saver, a=ran.step("a"), call=call, z=ran.step("z"))
    for _ in range(3):
        engine.invoke(graph, {"x": 1}, thread())
    assert len(saver.namespaces("t")) == 4
    prune(engine, graph, "t", keep=1)
    assert saver.namespaces("t") == [""]
    inner.close()


# ── pruning what nested graphs remember ──────────────────────────────────────────────────────────────────────


class Inner(TypedDict, total=False):
    x: Any
    n: int
    log: Annotated[list[str], operator.add]


def remembering(saver: Any) -> Any:
    """A graph around one that counts its calls, in three steps each."""

    def count(state):
        return {"n": state.get("n", 0) + 1}

    inner = builder(Inner, {"count": count, "wait": nothing, "tell": lambda s: {"x": s["n"]}})
    inner.add_edge(START, "count").add_edge("count", "wait").add_edge("wait", "tell").add_edge("tell", END)
    return builder(State, {"sub": inner.compile(checkpointer=True)}, (START, "sub")).compile(saver)


@pytest.mark.parametrize("keep", [1, 2, 3, 4])
def test_what_remains_still_finds_what_nested_graphs_remembered(engine, saver, keep):
    graph = remembering(saver)
    for _ in range(3):
        engine.invoke(graph, {"x": 0}, thread())
    prune(engine, graph, "t", keep=keep)
    kept = engine.history(graph, thread())
    expected = {0: 1, 1: 2, 2: 2, 3: 3, 4: 3, 5: 4}  # by step: what the next call counts
    for one in kept:
        given = None if one.next else {"x": 0}
        assert engine.invoke(graph, given, one.config)["x"] == expected[one.metadata["step"]]


def test_a_memory_that_went_back_survives_pruning(engine, saver):
    """Where the thread went back, its newest state may need an old state of the nested graph."""
    graph = remembering(saver)
    ends = []
    for _ in range(3):
        engine.invoke(graph, {"x": 0}, thread())
        ends.append(engine.state(graph, thread()).config)
    engine.update(graph, ends[0], {"y": "back at the first"})
    prune(engine, graph, "t", keep=1)
    engine.update(graph, thread(), {"x": 0}, START)
    assert engine.invoke(graph, None, thread())["x"] == 2


def test_a_loop_that_is_pruned_goes_on(engine, saver):
    graph = StateGraph(State).add_node("a", lambda state: {"log": [state["x"]], "x": state["x"] + 1})
    graph.add_edge(START, "a").add_conditional_edges(
        "a", lambda state: "a" if state["x"] < 9 else END, ["a", END]
    )
    graph = graph.compile(saver)
    with pytest.raises(RecursionError):
        engine.invoke(graph, {"x": 0}, thread(recursion_limit=6))
    prune(engine, graph, "t", keep=2)
    assert engine.invoke(graph, None, thread())["log"] == list(range(9))


@pytest.mark.parametrize("name", ["copy_thread", "archive_thread", "delete_thread", "prune", "get_threads"])
def test_a_graph_without_a_saver_says_so(engine, name):
    graph = chain(State, a=wrote("x", 1))
    args = {"copy_thread": ("a", "b"), "get_threads": (), "prune": ()}.get(name, ("a",))
    options = {"keep": 1} if name == "prune" else {}
    with pytest.raises(ConfigError, match="No checkpointer set"):
        engine.call(getattr(graph, name), getattr(graph, f"a{name}"), *args, **options)


def test_one_answer_to_two_questions_of_a_copy_is_refused_as_in_the_original(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.asks("a"), b=ran.asks("b"))
    engine.invoke(graph, {"x": 1}, thread())
    copy(engine, graph, "t", "copy")
    with pytest.raises(InterruptError, match="multiple"):
        engine.resume(graph, "which?", thread("copy"))
