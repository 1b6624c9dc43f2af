"""Whatever is done to threads, in whatever order, every checkpoint reads back as it was when it was made.

A model keeps a dict of what every checkpoint of every thread held, and which question was open there. Threads are run,
paused, resumed, edited, gone back in, forked, copied, pruned, archived and deleted; now and then the saver is closed
and opened anew, as another process would. After each of these all that the model knows is compared with all that can be
read (right-behaviour 28, 32, 33).
"""

from __future__ import annotations

import asyncio
import operator
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import TypedDict

from juncture import END, START, Command, StateGraph, interrupt
from juncture.errors import CheckpointNotFoundError, NothingToResumeError, PendingInterruptError
from juncture.savers import FileSaver, InMemorySaver, Saver, SqliteSaver

pytestmark = pytest.mark.timeout(400)
SAVERS: dict[str, Callable[[Path], Saver]] = {
    "memory": lambda _: InMemorySaver(),
    "sqlite": lambda folder: SqliteSaver(folder / "runs.db", synchronous="NORMAL"),
    "file": lambda folder: FileSaver(folder, fsync=False),
}
NAMES = ("one", "two", "o%")
VALUES = st.recursive(
    st.none() | st.integers(-3, 3) | st.text("ab%\x00é", max_size=3) | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=2), inner, max_size=3),
    max_leaves=6,
)


class State(TypedDict, total=False):
    turns: Annotated[list[Any], operator.add]
    note: Any
    count: Annotated[int, operator.add]


def build(saver: Saver) -> Any:
    """Takes a turn in three steps; the middle one asks where the turn is an ``ask``."""

    def take(state: State) -> dict[str, Any]:
        return {"count": 1}

    def answer(state: State) -> dict[str, Any]:
        last = state["turns"][-1]
        if last == "ask":
            return {"turns": [("answered", interrupt("which?"))]}
        return {"turns": [("heard", last)], "note": [last, state.get("note")][: state["count"] % 3]}

    def close(state: State) -> dict[str, Any]:
        return {"count": 10}

    graph = StateGraph(State)
    for node in (take, answer, close):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "take")
    graph.add_edge("take", "answer")
    graph.add_edge("answer", "close")
    graph.add_edge("close", END)
    return graph.compile(checkpointer=saver)


@dataclass
class Seen:
    """What a checkpoint showed when it was seen first."""

    values: dict[str, Any]
    next: tuple[str, ...]
    parent: str | None
    metadata: dict[str, Any]


@dataclass
class Thread:
    """What the model knows of a thread."""

    seen: dict[str, Seen] = field(default_factory=dict)
    """By the id of the checkpoint, oldest first."""
    values: dict[str, Any] = field(default_factory=dict)
    """The state of the newest, as the model works it out."""
    asks: bool = False


class Threads(RuleBasedStateMachine):
    """Threads of one saver, and what they ought to be."""

    make_saver: Callable[[Path], Saver]
    is_async = False

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.open()
        self.threads: dict[str, Thread] = {}

    def open(self) -> None:
        self.saver = type(self).make_saver(Path(self._folder.name))
        self.graph = build(self.saver)

    def teardown(self) -> None:
        self.saver.close()
        self._folder.cleanup()

    # ---- doing

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """A method of the graph, or its async twin."""
        if self.is_async:
            return asyncio.run(getattr(self.graph, f"a{name}")(*args, **options))
        return getattr(self.graph, name)(*args, **options)

    def known(self, thread: str) -> Thread:
        return self.threads.setdefault(thread, Thread())

    def pick(self, data: st.DataObject) -> tuple[str, Thread, str]:
        """A thread that there is, and one of its checkpoints."""
        name = data.draw(st.sampled_from(sorted(self.threads)))
        thread = self.threads[name]
        return name, thread, data.draw(st.sampled_from(list(thread.seen)))

    def take_turn(self, thread: Thread, turn: Any) -> None:
        """What a turn does to the model's state."""
        old = thread.values
        thread.values = {**old, "turns": [*old.get("turns", []), turn], "count": old.get("count", 0) + 1}
        thread.asks = turn == "ask"
        if not thread.asks:
            kept = [turn, old.get("note")][: thread.values["count"] % 3]
            self.close_turn(thread, ("heard", turn), {"note": kept})

    def close_turn(self, thread: Thread, said: Any, more: dict[str, Any]) -> None:
        old = thread.values
        thread.values = {**old, **more, "turns": [*old["turns"], said], "count": old["count"] + 10}
        thread.asks = False

    @rule(
        name=st.sampled_from(NAMES),
        turn=VALUES | st.just("ask"),
        durability=st.sampled_from(["sync", "async", "exit"]),
    )
    def run(self, name: str, turn: Any, durability: str) -> None:
        """Gives a thread another turn."""
        thread = self.known(name)
        options = {"thread_id": name, "durability": durability}
        if thread.asks:
            with pytest.raises(PendingInterruptError):
                self.call("invoke", {"turns": [turn]}, **options)
            return
        result = self.call("invoke", {"turns": [turn]}, **options)
        self.take_turn(thread, turn)
        assert dict(result) == thread.values

    @precondition(lambda self: bool(self.threads))
    @rule(data=st.data(), answer=VALUES)
    def resume(self, data: st.DataObject, answer: Any) -> None:
        """Answers the open question of a thread, if it has one."""
        name, thread, _ = self.pick(data)
        command = Command(resume={"id": answer} if answer == "never" else [answer])
        if not thread.asks:
            with pytest.raises(NothingToResumeError):
                self.call("invoke", command, thread_id=name)
            return
        result = self.call("invoke", command, thread_id=name)
        self.close_turn(thread, ("answered", [answer]), {})
        assert dict(result) == thread.values

    @precondition(lambda self: bool(self.threads))
    @rule(data=st.data(), note=VALUES)
    def update(self, data: st.DataObject, note: Any) -> None:
        """Edits the newest state, as if the last node had done it: nothing is due afterwards."""
        name, thread, _ = self.pick(data)
        self.call("update_state", name, {"note": note, "count": 100}, "close")
        thread.values = {**thread.values, "note": note, "count": thread.values["count"] + 100}
        thread.asks = False

    @precondition(lambda self: bool(self.threads))
    @rule(data=st.data(), note=VALUES)
    def fork(self, data: st.DataObject, note: Any) -> None:
        """Edits an old state, which makes a new one of it."""
        name, thread, checkpoint = self.pick(data)
        old = thread.seen[checkpoint].values
        where = {"configurable": {"thread_id": name, "checkpoint_id": checkpoint}}
        self.call("update_state", where, {"note": note}, "close")
        thread.values = {**old, "note": note}
        thread.asks = False

    @precondition(lambda self: bool(self.threads))
    @rule(data=st.data(), turn=VALUES)
    def branch(self, data: st.DataObject, turn: Any) -> None:
        """Runs on from a state at which a turn had ended."""
        name, thread, checkpoint = self.pick(data)
        seen = thread.seen[checkpoint]
        if seen.next or not seen.values:
            return
        where = {"configurable": {"thread_id": name, "checkpoint_id": checkpoint}}
        result = self.call("invoke", {"turns": [turn]}, where)
        thread.values = seen.values
        self.take_turn(thread, turn)
        assert dict(result) == thread.values

    @precondition(lambda self: bool(self.threads))
    @rule(data=st.data(), to=st.sampled_from(NAMES))
    def copy(self, data: st.DataObject, to: str) -> None:
        """Copies a thread to an id that isn't used."""
        name, thread, _ = self.pick(data)
        if to in self.threads:
            return
        self.call("copy_thread", name, to)
        self.threads[to] = Thread(dict(thread.seen), thread.values, thread.asks)

    @precondition(lambda self: bool(self.threads))
    @rule(data=st.data(), keep=st.integers(1, 4))
    def prune(self, data: st.DataObject, keep: int) -> None:
        """Forgets all but the newest states of a thread."""
        name, thread, _ = self.pick(data)
        gone = list(thread.seen)[:-keep]
        assert self.call("prune", name, keep=keep) == len(gone)
        for checkpoint in gone:
            del thread.seen[checkpoint]
            with pytest.raises(CheckpointNotFoundError):
                self.graph.get_state({"configurable": {"thread_id": name, "checkpoint_id": checkpoint}})

    @precondition(lambda self: bool(self.threads))
    @rule(data=st.data(), way=st.sampled_from(["archive", "delete"]))
    def put_away(self, data: st.DataObject, way: str) -> None:
        """Archives or deletes a thread."""
        name, thread, _ = self.pick(data)
        if way == "archive":
            moved = self.call("archive_thread", name)
            assert moved not in self.threads
            self.threads[moved] = Thread(dict(thread.seen), thread.values, thread.asks)
        else:
            self.call("delete_thread", name)
        del self.threads[name]
        assert self.graph.get_state(name).metadata is None

    @rule()
    def open_again(self) -> None:
        """Another process opens the saver."""
        if not isinstance(self.saver, InMemorySaver):
            self.saver.close()
            self.open()

    # ---- comparing

    @invariant()
    def everything_is_as_it_was(self) -> None:
        listed = {one.thread_id for one in self.graph.get_threads()}
        assert listed == {name for name, thread in self.threads.items() if thread.values}
        for name, thread in self.threads.items():
            history = list(reversed(list(self.graph.get_state_history(name))))
            found = {one.config["configurable"]["checkpoint_id"]: one for one in history}
            assert list(found)[: len(thread.seen)] == list(thread.seen)
            for checkpoint, one in found.items():
                parent = one.parent_config and one.parent_config["configurable"]["checkpoint_id"]
                now = Seen(dict(one.values), one.next, parent, dict(one.metadata))
                seen = thread.seen.setdefault(checkpoint, now)
                assert now == seen, f"{name!r}, {checkpoint}"
                alone = self.graph.get_state(
                    {"configurable": {"thread_id": name, "checkpoint_id": checkpoint}}
                )
                assert dict(alone.values) == seen.values
            newest = self.graph.get_state(name)
            assert dict(newest.values) == thread.values
            assert bool(newest.interrupts) == thread.asks
        assert self.saver.leases() == []


@pytest.mark.parametrize(
    ("kind", "driver"), [("memory", "sync"), ("memory", "async"), ("sqlite", "sync"), ("file", "async")]
)
def test_every_checkpoint_reads_back_as_it_was_whatever_is_done(kind, driver):
    machine = type(
        "Machine", (Threads,), {"make_saver": staticmethod(SAVERS[kind]), "is_async": driver == "async"}
    )
    deep = settings().max_examples > 100
    run_state_machine_as_test(
        machine, settings=settings(max_examples=300 if deep else 12, stateful_step_count=30)
    )
