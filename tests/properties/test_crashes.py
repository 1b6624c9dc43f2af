"""A run that dies at any call of its saver, before or after the call took effect, ends as if it hadn't.

The run dies at call k, for every k; a dead run saves nothing more. Then the thread is continued with None, or, if
nothing was saved yet, is given its input again. The final state is the same, and no task runs again whose writes
were saved.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from juncture import InMemorySaver, NothingToResumeError
from tests.properties.graphs import START, Graph, Node, Recorder, Write, build, juncture
from tests.properties.observe import DRIVERS, expect
from tests.properties.strategies import STRICT, examples, graphs, inputs

pytestmark = pytest.mark.timeout(400)  # a failure takes minutes to be made small

THREAD = "one"
MOST_CALLS = 24
"""Of the saver, in one run: the run is repeated twice for each."""


class Died(Exception):
    """What the saver raises of a process that is gone."""


class MortalSaver(InMemorySaver):
    """Dies at its call number `dies_at`, from 0, before or after that took effect; then refuses every call."""

    def __init__(self, recorder: Recorder, *, dies_at: int | None = None, after: bool = False) -> None:
        super().__init__()
        self.calls = 0
        self.dead = False
        self.saved = 0
        """How many of the executions in the recorder were saved; right for graphs without nested ones."""
        self._recorder = recorder
        self._dies_at = dies_at
        self._after = after

    def load(self, *args: Any, **options: Any) -> Any:
        return self._call(lambda: super(MortalSaver, self).load(*args, **options))

    def put(self, *args: Any, **options: Any) -> None:
        def perform() -> None:
            super(MortalSaver, self).put(*args, **options)
            self.saved = len(self._recorder.ran)  # the step is over, and the next hasn't begun

        self._call(perform)

    def put_records(
        self, thread_id: str, namespace: str, checkpoint_id: str, records: Any, **options: Any
    ) -> None:
        def perform() -> None:
            super(MortalSaver, self).put_records(thread_id, namespace, checkpoint_id, records, **options)
            self.saved += sum(record.kind == "done" for record in records)

        self._call(perform)

    def acquire_lease(self, *args: Any, **options: Any) -> Any:
        return self._call(lambda: super(MortalSaver, self).acquire_lease(*args, **options))

    def release_lease(self, lease: Any) -> None:
        if not self.dead:  # who is dead gives nothing back
            super().release_lease(lease)

    def _call(self, perform: Callable[[], Any]) -> Any:
        if self.dead:
            raise Died
        number, self.calls = self.calls, self.calls + 1
        if number != self._dies_at:
            return perform()
        self.dead = True
        if self._after:
            perform()
        raise Died

    def dies(self, at: int | None, *, after: bool) -> None:
        """At which of its next calls it dies, if at any."""
        self.calls, self._dies_at, self._after = 0, at, after

    def revive(self) -> None:
        """The next process starts, once the lease of the dead one has run out."""
        self.dead, self._dies_at = False, None
        for lease in self.leases():
            super().release_lease(lease)


def run(compiled: Any, given: Any, limit: int, driver: str) -> Any:
    options: dict[str, Any] = {"config": {"recursion_limit": limit}, "thread_id": THREAD}
    if driver == "sync":
        return compiled.invoke(given, **options)
    return asyncio.run(compiled.ainvoke(given, **options))


def survive(
    graph: Graph, given: Any, limit: int, driver: str, saver: MortalSaver, recorder: Recorder
) -> tuple[dict[str, Any], int]:
    """The final state of a run that died and was continued, and how many executions had been lost."""
    with pytest.raises(Died):
        run(build(graph, juncture(), probe=recorder, checkpointer=saver), given, limit, driver)
    lost = len(recorder.ran) - saver.saved
    saver.revive()
    again = build(graph, juncture(), probe=recorder, checkpointer=saver)  # another process has its own
    try:
        result = run(again, None if saver.load(THREAD) else given, limit, driver)
    except NothingToResumeError as finished:  # it had died after its last save
        result = finished.result
    return dict(result), lost


def calls_of(graph: Graph, given: Any, limit: int, driver: str) -> int:
    """How many calls of the saver a run makes that lives."""
    saver = MortalSaver(Recorder())
    run(build(graph, juncture(), checkpointer=saver), given, limit, driver)
    return saver.calls


@pytest.mark.parametrize("driver", DRIVERS)
@examples(40)
@given(data=st.data())
def test_a_run_that_dies_anywhere_ends_the_same(driver, data):
    limit = 8
    graph = data.draw(graphs(STRICT - {"nested", "fails", "wrong"}))
    given_ = data.draw(inputs(graph))
    expected = expect(graph, given_, limit=limit)
    assume(not expected.faults)
    calls = calls_of(graph, given_, limit, driver)
    assume(calls <= MOST_CALLS)
    for dies_at in range(calls):
        for after in (False, True):
            recorder = Recorder()
            saver = MortalSaver(recorder, dies_at=dies_at, after=after)
            state, lost = survive(graph, given_, limit, driver, saver, recorder)
            assert state == expected.run.values
            again = Counter(recorder.ran) - expected.executions()
            assert expected.executions() <= Counter(recorder.ran)
            assert again.total() == lost, f"died at call {dies_at}, {after=}: {lost} lost, ran again: {again}"


@pytest.mark.parametrize("driver", DRIVERS)
@examples(15)
@given(data=st.data())
def test_a_run_with_nested_graphs_that_dies_anywhere_ends_the_same(driver, data):
    limit = 8
    graph = data.draw(graphs((STRICT | {"nest"}) - {"fails", "wrong", "parent"}))
    given_ = data.draw(inputs(graph))
    expected = expect(graph, given_, limit=limit)
    assume(not expected.faults)
    calls = calls_of(graph, given_, limit, driver)
    assume(calls <= MOST_CALLS)
    for dies_at in range(calls):
        for after in (False, True):
            recorder = Recorder()
            saver = MortalSaver(recorder, dies_at=dies_at, after=after)
            state, _ = survive(graph, given_, limit, driver, saver, recorder)
            assert state == expected.run.values
            assert expected.executions() <= Counter(recorder.ran)
            assert max(Counter(recorder.ran).values()) <= 2 * max(expected.executions().values())


@pytest.mark.parametrize("driver", DRIVERS)
def test_finished_steps_of_a_nested_graph_do_not_run_again(driver):
    chain = tuple(Node(name, (Write("log"),)) for name in "abc")
    edges = ((START, "a"), ("a", "b"), ("b", "c"))
    inner = Graph({"log": "add"}, chain, edges)
    outer = Graph(
        {"log": "add"},
        (Node("first", (Write("log"),)), Node("nested", form="graph", inner=inner)),
        ((START, "first"), ("first", "nested")),
    )
    expected = expect(outer, {"log": []})
    for dies_at in range(calls_of(outer, {"log": []}, 25, driver)):
        for after in (False, True):
            recorder = Recorder()
            saver = MortalSaver(recorder, dies_at=dies_at, after=after)
            state, _ = survive(outer, {"log": []}, 25, driver, saver, recorder)
            assert state == expected.run.values
            again = Counter(recorder.ran) - expected.executions()
            assert again.total() <= 1, f"died at call {dies_at}, {after=}: ran again: {again}"
