"""A child that is forked while another thread holds a lock of this process isn't held up by it."""

import operator
import os
import signal
import threading
from typing import Annotated, TypedDict

import pytest

from juncture import START, InMemorySaver, StateGraph
from juncture.persistence import leases, recent

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning"
)  # from Python 3.12 on: that is the test


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def in_a_child(call):
    """The exit code of a forked child that makes a call; a signal's number below zero if it hangs."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            call()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def held_locks(saver):
    leases.keep(saver, saver.acquire_lease("mine", "h", "k", 600.0))
    yield leases._keepers.making
    yield leases._keepers.of[saver]._lock
    yield recent._shelves.lock


@pytest.mark.parametrize("which", range(3), ids=["making keepers", "a keeper's", "recent states"])
def test_a_child_goes_on_while_a_thread_of_its_parent_holds_a_lock(which):
    saver = InMemorySaver(lease_ttl=30.0)
    graph = StateGraph(Log).add_node("a", lambda state: {"log": ["a"]}).add_edge(START, "a").compile(saver)
    lock = list(held_locks(saver))[which]
    holds, leave = threading.Event(), threading.Event()

    def hold():
        with lock:
            holds.set()
            leave.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    try:
        assert holds.wait(20)
        assert in_a_child(lambda: graph.invoke({"log": ["in"]}, thread_id="t")) == 0
    finally:
        leave.set()
        other.join()


def test_a_child_leaves_the_leases_of_its_parent_to_it():
    saver = InMemorySaver(lease_ttl=30.0)
    held = leases.keep(saver, saver.acquire_lease("mine", "h", "k", 600.0))
    assert held in leases._keepers.of[saver]._held

    def look():
        assert saver not in leases._keepers.of
        leases.keep(saver, saver.acquire_lease("its own", "h", "j", 600.0))
        assert held not in leases._keepers.of[saver]._held

    assert in_a_child(look) == 0
