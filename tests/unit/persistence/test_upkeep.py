"""Whoever prunes, deletes, archives or copies a thread, and is stopped for too long, removes nothing of who came after."""

import operator
from typing import Annotated, TypedDict

import pytest

from juncture import START, InMemorySaver, StateGraph
from juncture.errors import LeaseLostError
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
