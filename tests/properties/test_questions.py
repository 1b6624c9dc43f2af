"""Random questions, answered in random subsets and orders, with crashes between, end in the state of a run that knew all answers.

Nodes follow scripts: they ask by key, make effects once, and call tasks. A person answers some of the open questions at a
time; the run may die at any call of its saver and is then continued by another process. In the end the state is the one that
the scripts give with every answer known, each effect happened at most once, and where that couldn't be told, the doubt was a
question with the effect's key.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from juncture import (
    START,
    Command,
    InDoubtError,
    NothingToResumeError,
    StateGraph,
    interrupt,
    once,
    task,
)
from tests.properties.observe import DRIVERS
from tests.properties.strategies import examples
from tests.properties.test_crashes import Died, MortalSaver, Recorder, run

pytestmark = pytest.mark.timeout(300)


class State(TypedDict):
    log: Annotated[list[str], operator.add]


Script = list[tuple[str, str]]
"""What a node does, in order: ("ask", key), ("once", key) or ("call", argument)."""

actions = st.tuples(st.sampled_from(["ask", "ask", "once", "call"]), st.sampled_from("pqr"))
scripts = st.lists(actions, max_size=4, unique=True)
shapes = st.lists(st.lists(scripts, min_size=1, max_size=3), min_size=1, max_size=3)
"""Steps of nodes side by side; a join ends each step."""


def answer_to(question: str) -> str:
    """What a person says to a question."""
    return f"yes to {question}"


def known(name: str, script: Script) -> list[str]:
    """What a node writes whose answers are all known."""
    said = {
        "ask": lambda key: answer_to(f"{name}/{key}"),
        "once": lambda key: f"did {name}/{key}",
        "call": str.upper,
    }
    return [name, *(said[what](key) for what, key in script)]


class World:
    """What nodes do outside, counted."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def node(self, name: str, script: Script) -> Any:
        """A node that follows a script."""

        @task(name=f"call_{name}")
        def call(argument: str) -> str:
            self.calls[f"{name}/{argument}"] += 1
            return argument.upper()

        def effect(key: str) -> Any:
            def happen(idempotency_key: str) -> str:
                self.effects[f"{name}/{key}"] += 1
                return f"did {name}/{key}"

            return happen

        def act(state: State) -> dict[str, Any]:
            log = [name]
            for what, key in script:
                if what == "ask":
                    log.append(interrupt(f"{name}/{key}", key=f"{name}/{key}"))
                elif what == "once":
                    log.append(once(f"{name}/{key}", effect(key)))
                else:
                    log.append(call(key).result())
            return {"log": log}

        return act


def build(steps: list[list[Script]], world: World, saver: Any) -> Any:
    """The graph of a shape."""
    builder = StateGraph(State)
    before: list[str] = [START]
    for number, nodes in enumerate(steps):
        names = [f"n{number}{place}" for place in range(len(nodes))]
        for name, script in zip(names, nodes, strict=True):
            builder.add_node(name, world.node(name, script))
            if before == [START]:
                builder.add_edge(START, name)
            else:
                builder.add_edge(before if len(before) > 1 else before[0], name)
        before = names
    return builder.compile(saver)


def settle(question: Any, world: World) -> Any:
    """The answer to a question: what a person says, or what became of an effect in doubt."""
    value = question.value
    if isinstance(value, str):
        return answer_to(value)
    name = next(key for key in world.effects | Counter(NAMES) if key in str(value))
    if world.effects[name]:
        return {"happened": True, "result": f"did {name}"}
    return {"happened": False}


NAMES = [f"n{step}{place}/{key}" for step in range(3) for place in range(3) for key in "pqr"]


def next_input(data: Any, graph: Any, world: World) -> Any:
    """What goes on with the thread: some of the answers that it waits for, or None."""
    pending = graph.pending("one")
    if not pending:
        return None
    chosen = data.draw(st.lists(st.sampled_from(pending), min_size=1, unique_by=lambda question: question.id))
    return Command(resume={question.id: settle(question, world) for question in chosen})


def live(data: Any, steps: list[list[Script]], driver: str, world: World) -> dict[str, Any] | None:
    """Runs a thread to its end, through crashes and answers; its final state."""
    saver = MortalSaver(Recorder())
    graph = build(steps, world, saver)
    going: Any = {"log": ["in"]}
    for _ in range(200):
        saver.dies(data.draw(st.none() | st.integers(0, 12)), after=data.draw(st.booleans()))
        try:
            found = run(graph, going, 50, driver)
        except NothingToResumeError as finished:
            return dict(finished.result)
        except Died:
            event("died")
        except InDoubtError:
            event("in doubt")
        else:
            if found.status == "completed":
                return dict(found)
        saver.revive()
        graph = build(steps, world, saver)
        going = next_input(data, graph, world) if saver.load("one") else {"log": ["in"]}
    return None


@pytest.mark.parametrize("driver", DRIVERS)
@examples(60)
@given(data=st.data(), steps=shapes)
def test_any_answers_in_any_order_with_crashes_between_end_the_same(driver, data, steps):
    world = World()
    result = live(data, steps, driver, world)
    nodes = [(f"n{n}{p}", script) for n, group in enumerate(steps) for p, script in enumerate(group)]
    assert result == {"log": ["in", *(item for name, script in nodes for item in known(name, script))]}
    for name, script in nodes:
        for what, key in script:
            assert what != "once" or world.effects[f"{name}/{key}"] == 1
