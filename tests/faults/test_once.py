"""An effect made with `once` happens once, or is reported in doubt with its key, wherever the process stops.

The k-th call of the saver is the last that takes effect, for every k, before or after it did. Whoever goes on then looks
up outside what happened to the keys that are reported in doubt, and says so: every effect has happened exactly once in
the end. One process is killed in earnest (`test_killed`).
"""

from __future__ import annotations

import asyncio
import operator
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from juncture import START, Command, InDoubtError, StateGraph, aonce, interrupt, once, task
from juncture.errors import JunctureError
from juncture.savers import SqliteSaver
from tests.faults.test_stops import NEVER, WAYS, StoppedError, StoppingSaver

pytestmark = pytest.mark.timeout(240)
CONFIG = {"configurable": {"thread_id": "t"}}
EFFECTS = ("first", "second", "in a task", "nested", "beside")


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def build(make: Any, checkpointer: Any) -> Any:
    """A graph that makes each of `EFFECTS` once: `make(name, key)` makes it, and returns its name."""

    def effect(name: str) -> Any:
        return lambda key: make(name, key)

    @task
    def part(name: str) -> str:
        return once(name, effect(name))

    def first(state: State) -> State:
        return {"log": [once("first", effect("first")), once("second", effect("second"))]}

    def second(state: State) -> State:
        return {"log": [part("in a task").result(), interrupt("sure?")]}

    async def beside(state: State) -> State:
        return {"log": [await aonce("beside", effect("beside"))]}

    def inner(state: State) -> State:
        return {"log": [once("nested", effect("nested"))]}

    nested = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile()
    graph = StateGraph(State).add_node("first", first).add_node("second", second).add_node("third", nested)
    graph.add_node("beside", beside).add_edge(START, "first").add_edge("first", "second")
    graph.add_edge("first", "beside").add_edge(["second", "beside"], "third")
    return graph.compile(checkpointer)


def to_the_end(graph: Any, invoke: Any, happened: Any, doubts: list[str]) -> list[str]:
    """Goes on until the run has ended, and answers what is asked: of what is in doubt, the truth."""
    given: Any = None if graph.get_state(CONFIG).created_at else {"log": []}
    for _ in range(20):
        state = graph.get_state(CONFIG)
        if state.created_at and not state.next:
            return state.values["log"]
        questions = state.interrupts
        if questions:
            given = Command(resume={question.id: answer_to(question, happened) for question in questions})
        try:
            result = invoke(given)
        except InDoubtError as error:
            doubts.append(error.idempotency_key)
            given = None
            continue
        if result.status == "completed":
            return result["log"]
    raise AssertionError("it never ends")


def answer_to(question: Any, happened: Any) -> Any:
    if question.value == "sure?":
        return "yes"
    key = question.value["idempotency_key"]
    assert question.key == key
    return {"happened": True, "result": question.value["in_doubt"]} if happened(key) else {"happened": False}


END = ["first", "second", "beside", "in a task", "yes", "nested"]


@pytest.mark.parametrize(
    ("driver", "durability", "kind"), WAYS, ids=[f"{driver}-{durability}" for driver, durability, _ in WAYS]
)
def test_every_effect_happens_once_wherever_the_process_stops(driver, durability, kind):
    def go(saver: StoppingSaver, did: Counter[tuple[str, str]], doubts: list[str]) -> list[str]:
        def make(name: str, key: str) -> str:
            if saver.stopped:
                raise StoppedError("the process is gone")
            did[name, key] += 1
            return name

        graph = build(make, saver)

        def invoke(given: Any) -> Any:
            saver.running = True
            try:
                if driver == "sync":
                    return graph.invoke(given, CONFIG, durability=durability)
                return asyncio.run(graph.ainvoke(given, CONFIG, durability=durability))
            finally:
                saver.running = False

        try:
            return to_the_end(graph, invoke, lambda key: any(key == known for _, known in did), doubts)
        finally:
            graph.close()

    counted = kind(NEVER, after=False, gone=True)
    assert go(counted, Counter(), []) == END
    assert counted.calls > 10
    reported = 0
    for at in range(counted.calls):
        for after in (False, True):
            saver, did, doubts = kind(at, after=after, gone=True), Counter[tuple[str, str]](), list[str]()
            where = f"stopped at call {at}, {after=}"
            try:
                go(saver, did, doubts)
            except JunctureError:
                assert saver.stopped, where
            saver.stopped = False
            saver.back()
            assert go(saver, did, doubts) == END, where
            assert sorted(name for name, _ in did.elements()) == sorted(EFFECTS), where
            assert set(doubts) <= {key for _, key in did}, where
            reported += len(doubts)
    assert reported, "stopping between an effect and the saving of its result leaves a doubt"


CHILD = """
import os, signal, sys
from pathlib import Path
from juncture.savers import SqliteSaver
from tests.faults.test_once import CONFIG, build
ledger, last = Path(sys.argv[2]), sys.argv[3]

def make(name, key):
    with ledger.open("a") as file:
        file.write(f"{name} {key}\\n")
    if name == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return name

build(make, SqliteSaver(sys.argv[1])).invoke({"log": []}, CONFIG, durability=sys.argv[4])
"""


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("last", ["second", "in a task"])
def test_killed(tmp_path: Path, last: str, durability: str) -> None:
    """The process is killed when the effect has happened and nobody has heard of it."""
    ledger, path = tmp_path / "ledger", tmp_path / "runs.db"
    command = [sys.executable, "-c", CHILD, str(path), str(ledger), last, durability]
    child = subprocess.run(
        command, timeout=60, check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert child.returncode == -signal.SIGKILL
    with sqlite3.connect(path) as connection:
        connection.execute("update leases set until = 0")

    def make(name: str, key: str) -> str:
        with ledger.open("a") as file:
            file.write(f"{name} {key}\n")
        return name

    doubts: list[str] = []
    with SqliteSaver(path) as saver, build(make, saver) as graph:
        known = ledger.read_text
        ended = to_the_end(
            graph, lambda given: graph.invoke(given, CONFIG), lambda key: key in known(), doubts
        )
    assert ended == END
    lines = [line.rsplit(" ", 1) for line in ledger.read_text().splitlines()]
    assert sorted(name for name, _ in lines) == sorted(EFFECTS)
    assert {key for name, key in lines if name == last} <= set(doubts), (
        "what ran beside it may be in doubt as well"
    )
