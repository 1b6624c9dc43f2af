"""A process that dies at any effect, and goes on in another: the same state in the end, and no saved work done twice.

Each scenario is a graph, its bodies, and what is asked of it, one run after the other. It is played once without dying;
then it dies before its effect number k is performed, for every k, and is asked again for what it was doing: for the
same, if nothing of it had been saved yet, else to go on.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from juncture.engine.effects import Done, Paused
from juncture.engine.tables import Tables
from juncture.errors import GraphRecursionError, InterruptError, NothingToResumeError
from juncture.types import MISSING, START, Answers, RetryPolicy, Send
from tests.unit.engine.script import (
    Script,
    Stop,
    Store,
    added,
    answer,
    asked,
    call,
    chain,
    failed,
    fan,
    question,
    request,
    tables,
    went,
)


@dataclass
class Scenario:
    graph: Callable[[], Tables]
    bodies: dict[str, Any]
    moves: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)


def calling(task):
    given = []
    for name in "pqr":
        outcome = yield call(task, name)
        given.append(outcome.result)
    return Done(task, [("log", given)])


def calling_and_asking(task):
    first = yield call(task, "p")
    if (given := answer(task, "q")) is MISSING:
        return Paused(task, [question(task, "q")])
    second = yield call(task, "r")
    return Done(task, [("log", [first.result, given, second.result])])


def saying(*names):
    return asked(*names, then=lambda task: Done(task, [("log", [answer(task, name) for name in names])]))


def echo(task):
    return Done.of_call(task, task.id)


def flaky(task):
    return added(task) if task.attempt > 1 else failed(ConnectionError())(task)


def sent(task):
    return Done(task, [("log", [f"{task.id}={task.argument}"])])


def diamond() -> Tables:
    edges = [(START, "a"), ("a", "b"), ("a", "c"), ("c", "d"), (["b", "d"], "e")]
    return tables({"a": {}, "b": {}, "c": {}, "d": {}, "e": {}, "z": {"defer": True}}, *edges, ("a", "z"))


RETRY = RetryPolicy(jitter=False)
MODES = frozenset({"values", "updates", "tasks"})
START_OVER = {"kind": "input", "x": 1}
SCENARIOS = {
    "chain": Scenario(lambda: chain("a b c"), dict.fromkeys("abc", added), [START_OVER]),
    "two inputs": Scenario(
        lambda: chain("a b"), dict.fromkeys("ab", added), [START_OVER, {"kind": "input", "y": 2}]
    ),
    "fan": Scenario(lambda: fan("a b c d"), dict.fromkeys("abcd", added), [START_OVER]),
    "joins and a deferred node": Scenario(diamond, dict.fromkeys("abcdez", added), [START_OVER]),
    "sends": Scenario(
        lambda: tables("a b c", (START, "a"), ("b", "c")),
        {"a": went(x=2, sends=[Send("b", 1), Send("b", 2), Send("c", 3)]), "b": sent, "c": sent},
        [START_OVER],
    ),
    "retries": Scenario(
        lambda: tables({"a": {"retry_policy": RETRY}, "b": {}}, (START, "a"), (START, "b"), ("a", "b")),
        {"a": flaky, "b": added},
        [START_OVER],
    ),
    "calls": Scenario(lambda: fan("a b"), {"a": calling, "b": added, "call": echo}, [START_OVER]),
    "a question": Scenario(
        lambda: chain("a b"),
        {"a": saying("q"), "b": added},
        [START_OVER, {"kind": "command", "resume": "yes"}],
    ),
    "questions one by one": Scenario(
        lambda: fan("a b c"),
        {"a": saying("q"), "b": saying("r"), "c": added},
        [START_OVER, {"kind": "command", "resume": Answers({"b:1?r": 2})}, {"kind": "command", "resume": 1}],
    ),
    "an answer with an update and a goto": Scenario(
        lambda: fan("a b c"),
        {"a": saying("q"), "b": added, "c": added},
        [
            START_OVER,
            {"kind": "command", "resume": 1, "writes": [("x", 9), ("log", ["u"])], "targets": ["c"]},
        ],
    ),
    "calls and a question": Scenario(
        lambda: chain("a b"),
        {"a": calling_and_asking, "b": added, "call": echo},
        [START_OVER, {"kind": "command", "resume": 5}],
    ),
    "a pause before": Scenario(
        lambda: chain("a b c"),
        dict.fromkeys("abc", added),
        [START_OVER, {"kind": "continue"}],
        {"before": frozenset("b")},
    ),
    "a pause after": Scenario(
        lambda: chain("a b c"),
        dict.fromkeys("abc", added),
        [START_OVER, {"kind": "continue"}],
        {"after": frozenset("b")},
    ),
    "while somebody looks": Scenario(
        lambda: fan("a b"), dict.fromkeys("ab", added), [START_OVER], {"modes": MODES}
    ),
}


class Process:
    """Plays moves until it dies at an effect; further ones play on what it left."""

    def __init__(self, scenario: Scenario, dies_at: int | None) -> None:
        self.scenario, self.dies_at = scenario, dies_at
        self.graph, self.store = scenario.graph(), Store()
        self.performed = 0
        self.called: list[str] = []
        self.died = False

    def move(self, kind: str, **more: Any) -> Any:
        finished = self.store.finished
        made = {record.name for record in self._records() if record.kind == "call"}
        self.script = Script(
            self.graph,
            request(kind, saving=True, **self.scenario.options | copy.deepcopy(more)),
            self.scenario.bodies,
            store=self.store,
            stop_at=None if self.died or self.dies_at is None else self.dies_at - self.performed,
        )
        try:
            return self.script.play()
        finally:
            self.performed += len(self.script.effects)
            assert finished.isdisjoint(self.script.ran()[: self._first_step()]), "saved work was done again"
            assert made.isdisjoint(task.id for task in self.script.began), "a recorded call was made again"

    def _first_step(self) -> int:
        return sum(task.step == self.script.began[0].step for task in self.script.began)

    def _records(self) -> list[Any]:
        return self.store.head.records if self.store.checkpoints else []

    def play(self) -> list[Any]:
        """How each move ended: what the thread holds then."""
        ends = []
        for move in self.scenario.moves:
            before = len(self.store.checkpoints)
            try:
                self.move(**move)
            except Stop:
                self.died = True
                self.go_on(move, before)
            ends.append(
                (
                    copy.deepcopy(self.store.state),
                    {r.task_id for r in self._records() if r.kind == "question"},
                )
            )
        return ends

    def go_on(self, move: dict[str, Any], before: int) -> None:
        """Asks again for what was being done."""
        if move["kind"] == "input" and len(self.store.checkpoints) == before:
            self.move(**move)
            return
        if move["kind"] == "command":
            try:
                self.move(**move)
            except InterruptError:
                pass  # it had been taken: its question isn't open any more
            else:
                return
        try:
            self.move("continue")
        except NothingToResumeError:
            assert not self.store.state.due


@pytest.mark.parametrize("name", SCENARIOS)
def test_dying_at_any_effect_changes_nothing_in_the_end(name):
    scenario = SCENARIOS[name]
    whole = Process(scenario, None)
    expected = whole.play()
    assert whole.performed > 3
    for k in range(whole.performed):
        process = Process(scenario, k)
        assert process.play()[-1] == expected[-1], f"died at effect {k}"
        assert process.died


@pytest.mark.parametrize("name", [name for name, s in SCENARIOS.items() if len(s.moves) == 1])
def test_dying_twice_changes_nothing_either(name):
    scenario = SCENARIOS[name]
    expected = Process(scenario, None).play()[-1][0]
    for first, second in itertools.product(range(2, 9), range(1, 5)):
        process = Process(scenario, first)
        for dies_at in (first, first + second, None):
            process.dies_at = dies_at
            kind = "continue" if process.store.checkpoints else "input"
            try:
                process.move(**({"kind": kind} if kind == "continue" else scenario.moves[0]))
            except (Stop, NothingToResumeError):
                continue
            break
        assert process.store.state == expected


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_order_of_completion_and_any_death_commit_the_same(count):
    names = "abcd"[:count]
    graph = tables("a b c d", *[(START, name) for name in names])
    bodies = {
        "a": went("d", log=["a"], sends=[Send("b", 1)]),
        "b": added,
        "c": went(x="c", log=["c1", "c2"]),
        "d": went("a", y=None, log=["d"]),
    }

    def play(store: Store, kind: str = "input", **more: Any) -> None:
        Script(graph, request(kind, limit=1, saving=True), bodies, store=store, **more).play()

    whole = Store()
    with pytest.raises(GraphRecursionError):
        play(whole)
    for order in itertools.permutations(names):
        for k in range(2, 3 + 3 * count):
            store = Store()
            with suppress(Stop, GraphRecursionError):
                play(store, order=order, stop_at=k)
            if store.state.step == 0:
                with suppress(GraphRecursionError):
                    play(store, "continue")
            assert store.state == whole.state
