"""Whoever prunes, deletes, archives or copies a thread, and is stopped for too long, removes nothing of who came after."""

import operator
from typing import Annotated, TypedDict

import pytest

from juncture import START, InMemorySaver, StateGraph
from juncture.errors import HeadMovedError, LeaseLostError
from juncture.graph.operations import ThreadPrograms
from juncture.persistence import upkeep
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry

CODEC = Codec(Registry(DEFAULT))


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def saved_by(saver):
    return StateGraph(Log).add_node("a", lambda state: {"log": ["a"]}).add_edge(START, "a").compile(saver)


def awake_again(program, before, then):
    """Performs a program; just before it asks for ``before``, others do ``then``."""
    given, go = None, program.send
    while True:
        try:
            ask = go(given)
        except StopIteration as end:
            return end.value
        if ask.method == before:
            then()
        try:
            given, go = getattr(ask.target, ask.method)(*ask.args, **ask.named), program.send
        except Exception as error:
            given, go = error, program.throw


@pytest.mark.parametrize("what", ["delete", "prune", "archive"])
def test_a_zombie_removes_nothing(what):
    now = [0.0]
    saver = InMemorySaver(lease_ttl=30.0, clock=lambda: now[0])
    graph = saved_by(saver)
    for _ in range(3):
        graph.invoke({"log": ["in"]}, thread_id="t")
    threads = ThreadPrograms(saver, graph.codec, graph.tables)
    program, before = {
        "delete": (upkeep.delete_thread(saver, "t"), "delete_thread"),
        "prune": (upkeep.prune(saver, CODEC, "t", lambda place, _: place < 1), "drop"),
        "archive": (threads.archive("t"), "delete_thread"),
    }[what]
    after = []

    def others_go_on():
        now[0] += 31
        graph.invoke({"log": ["more"]}, thread_id="t")
        after.extend(one.config for one in graph.get_state_history("t"))

    with pytest.raises(LeaseLostError, match=r"thread 't'.*Nothing was saved or removed"):
        awake_again(program, before, others_go_on)
    assert [one.config for one in graph.get_state_history("t")] == after
    assert graph.get_state("t").values["log"] == ["in", "a"] * 3 + ["more", "a"]


def test_a_zombie_that_copies_leaves_the_thread_that_came_after():
    now = [0.0]
    saver = InMemorySaver(lease_ttl=30.0, clock=lambda: now[0])
    graph = saved_by(saver)
    graph.invoke({"log": ["in"]}, thread_id="t")

    def others_take_the_target():
        now[0] += 31
        if not saver.load("copy"):
            graph.invoke({"log": ["other"]}, thread_id="copy")

    with pytest.raises(LeaseLostError, match="'copy'"):
        awake_again(upkeep.copy_thread(saver, graph.codec, "t", "copy"), "put", others_take_the_target)
    assert graph.get_state("copy").values["log"] == ["other", "a"]


@pytest.mark.parametrize("what", ["run", "prune", "delete"])
def test_a_thread_that_changes_while_it_is_copied_is_not_copied(what):
    saver = InMemorySaver()
    graph = saved_by(saver)
    for _ in range(2):
        graph.invoke({"log": ["in"]}, thread_id="t")
    changes = {
        "run": lambda: graph.invoke({"log": ["more"]}, thread_id="t"),
        "prune": lambda: graph.prune("t", keep=1),
        "delete": lambda: graph.delete_thread("t"),
    }
    done = []

    def once():
        if not done:
            done.append(changes[what]())

    with pytest.raises(HeadMovedError, match=r"'t' was changed while it was copied\. Nothing of"):
        awake_again(
            upkeep.copy_thread(saver, graph.codec, "t", "copy"), "put" if what == "run" else "parts", once
        )
    assert done
    assert saver.namespaces("copy") == []
    assert saver.leases() == []


def test_a_thread_whose_run_died_is_found_after_it_was_pruned():
    saver = InMemorySaver()
    graph = saved_by(saver)
    for _ in range(2):
        graph.invoke({"log": ["in"]}, thread_id="t")
    dead = saver.acquire_lease("t", "who ran it", "its token", 0.0)
    assert graph.prune(keep=1) > 0
    assert [lease[:3] for lease in saver.leases()] == [dead[:3]]
    assert [(one.thread_id, one.error) for one in graph.recover()] == [("t", None)]
    assert saver.leases() == []
