"""Wherever a thread is gone back to, in whatever graph of it, branches never see each other (right-behaviour 28, 33).

The graph asks everywhere: beside, inside and deeper inside nested graphs, in one with a memory, and in one that a
function calls. A walk goes back to any checkpoint of any namespace, answers anew or goes on, edits, and answers what is
asked with words that it uses once. After each step of the walk every checkpoint seen before must read as it did, and what
the run came to must hold, for each question, the last answer that was given on its own branch.
"""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from juncture import START, Command, StateGraph, interrupt
from juncture.savers import InMemorySaver, Saver, SqliteSaver

pytestmark = pytest.mark.timeout(300)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def asks(name: str) -> Any:
    def node(state: State) -> dict[str, Any]:
        return {"log": [(name, interrupt(name))]}

    return node


def chain(**nodes: Any) -> StateGraph:
    graph = StateGraph(State)
    return graph.add_sequence(list(nodes.items())).add_edge(START, next(iter(nodes)))


def build(saver: Saver) -> Any:
    deep = chain(d1=asks("d1"), d2=asks("d2")).compile()
    called = chain(c1=asks("c1"), c2=asks("c2")).compile(name="called")

    def call(state: State) -> dict[str, Any]:
        return {"log": called.invoke({"log": []})["log"]}

    graph = StateGraph(State)
    graph.add_node("left", chain(l1=asks("l1"), deep=deep).compile())
    graph.add_node("right", chain(r1=asks("r1"), r2=asks("r2")).compile(checkpointer=True))
    graph.add_node("call", call).add_node("last", asks("last"))
    graph.add_edge(START, "left").add_edge(START, "right").add_edge(["left", "right"], "call")
    return graph.add_edge("call", "last").compile(saver)


QUESTIONS = ["l1", "d1", "d2", "r1", "r2", "c1", "c2", "last"]
"""In the order in which their answers stand in the end."""


class Walk:
    """One thread that is gone back in."""

    def __init__(self, saver: Saver, *, is_async: bool) -> None:
        self.saver = saver
        self.graph = build(saver)
        self.is_async = is_async
        self.seen: dict[tuple[str, str], Any] = {}
        self.said: dict[tuple[str, str], int] = {}
        """How many words had been said when a checkpoint was seen first."""
        self.words = 0
        self.asked: dict[str, dict[str, str]] = {}
        """By the checkpoint of the graph that was called: what it asked first, by question, with their ids."""

    def run(self, given: Any, config: Any = None) -> Any:
        config = config or {"configurable": {"thread_id": "t"}}
        if self.is_async:
            result = asyncio.run(self.graph.ainvoke(given, config))
        else:
            result = self.graph.invoke(given, config)
        if result.interrupts:
            asked = {question.value: question.id for question in result.interrupts}
            self.asked.setdefault(result.checkpoint.checkpoint_id, asked)
        return result

    def word(self) -> str:
        self.words += 1
        return f"word {self.words}"

    def look(self) -> None:
        """Every checkpoint reads as it did."""
        for namespace in ["", *filter(None, self.saver.namespaces("t"))]:
            where = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}
            for one in self.graph.get_state_history(where):
                key = namespace, one.config["configurable"]["checkpoint_id"]
                now = (one.values, one.next, one.parent_config, one.metadata)
                assert self.seen.setdefault(key, now) == now
                self.said.setdefault(key, self.words)

    def finish(self, result: Any, known: dict[str, Any], since: range) -> None:
        """Answers what is asked to the end; the answers that are known must be found there, and nobody asks for them again.

        Of the others, some may be from then, but none from between then and now (`since`: the numbers of their words).
        """
        for _ in range(20):
            if result.status == "completed":
                break
            assert known.keys().isdisjoint(question.value for question in result.interrupts)
            answers = {question.id: self.word() for question in result.interrupts}
            known |= {question.value: answers[question.id] for question in result.interrupts}
            result = self.run(Command(resume=answers))
            self.look()
        assert result.status == "completed"
        log = dict(result["log"])
        assert [name for name, _ in result["log"]] == QUESTIONS
        assert {name: log[name] for name in known} == known
        assert len(set(log.values())) == len(QUESTIONS), "no answer is used for two questions"
        assert not set(log.values()) & {f"word {n}" for n in since}


@pytest.mark.parametrize(("kind", "driver"), [("memory", "sync"), ("memory", "async"), ("sqlite", "sync")])
@settings(max_examples=max(40, settings().max_examples // 2))
@given(data=st.data())
def test_branches_never_see_each_other(tmp_path_factory, kind, driver, data):
    folder: Path = tmp_path_factory.mktemp("forks")
    saver = InMemorySaver() if kind == "memory" else SqliteSaver(folder / "runs.db", synchronous="NORMAL")
    walk = Walk(saver, is_async=driver == "async")
    walk.finish(walk.run({"log": []}), {}, range(0))
    for _ in range(data.draw(st.integers(1, 8), "steps")):
        namespace, checkpoint = data.draw(st.sampled_from(sorted(walk.seen)), "place")
        where = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}
        values, due, _, metadata = walk.seen[namespace, checkpoint]
        known = dict(values.get("log", ()))
        since = range(walk.said[namespace, checkpoint] + 1, walk.words + 1)
        snapshot = walk.graph.get_state(where)
        if data.draw(st.booleans(), "answers") and snapshot.interrupts == () and due:
            asked = [name for name in due if name in QUESTIONS]
            if not namespace and checkpoint in walk.asked and metadata["source"] != "fork":
                name = data.draw(st.sampled_from(sorted(walk.asked[checkpoint])), "question")
                known[name] = walk.word()
                result = walk.run(Command(resume={walk.asked[checkpoint][name]: known[name]}), where)
            elif asked:
                known[asked[0]] = walk.word()
                result = walk.run(Command(resume=known[asked[0]]), where)
            else:
                continue
        elif not due and not namespace:
            continue
        else:
            result = walk.run(None, where)
        walk.look()
        walk.finish(result, known, since)
    saver.close()
