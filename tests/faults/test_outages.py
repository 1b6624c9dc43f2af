"""The place where checkpoints are kept fails in the middle of a run: no room, no connection, no server.

The run fails and says which checkpoint of which thread wasn't saved; what was saved before is as it was; and when the
place is back, the thread goes on.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from juncture import InMemorySaver
from juncture.errors import SaverUnavailableError
from juncture.savers import PostgresSaver, RedisSaver, open_saver
from tests.faults.children import Job, child
from tests.faults.graph import BEFORE, INPUT, bring_to_end, build, saved_effects

pytestmark = pytest.mark.timeout(120)
WHICH = re.compile(r"juncture: while saving.* (checkpoint \S+|in the background).* of thread 't'")


def invoke(graph: Any, driver: str, *args: Any, **options: Any) -> Any:
    """A run with either driver."""
    if driver == "sync":
        return graph.invoke(*args, **options)
    return asyncio.run(graph.ainvoke(*args, **options))


@pytest.fixture
def undisturbed():
    """The final state of a run that nothing happens to."""
    graph = build(checkpointer=InMemorySaver())
    return bring_to_end(graph, "t", graph.invoke)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_process_without_room_on_its_disk_fails_and_goes_on_when_there_is(
    kind, durability, tmp_path, undisturbed
):
    """The room is what a process may write to one file. Where it ends is tried at many places, a process for each."""
    url = f"{kind}:{tmp_path / 'saved'}"
    graph = build(checkpointer=open_saver(url))
    failed = 0
    with graph.checkpointer as saver:
        graph.get_state("t")  # the tables are there
        for place in range(4 if durability == "sync" else 2):
            thread = f"t{place}"
            used = max((one.stat().st_size for one in tmp_path.rglob("*") if one.is_file()), default=0)
            room = used + 5_000 + 20_000 * place if kind == "sqlite" else 1_000 + 1_000 * place
            job = Job(url, thread, "run", durability=durability, room=room, lease_ttl=1.0)
            with child(job) as running:
                told = running.until("no room")
                failed += told[1] == "SaverUnavailableError"
                assert told[1] == "SaverUnavailableError"
                assert re.search(WHICH.pattern.replace("'t'", repr(thread)), told[2]), told[2]
                done = len(running.effects)
                saved = saved_effects(graph, thread)
                history = list(graph.get_state_history(thread))
                if durability == "sync":
                    for _, key in running.effects:
                        assert BEFORE[key] <= saved
                running.go()
                assert running.result() == undisturbed
            assert not {key for _, key in running.effects[done:]} & saved
            again = {
                one.config["configurable"]["checkpoint_id"]: one for one in graph.get_state_history(thread)
            }
            for one in history[1:]:
                assert again[one.config["configurable"]["checkpoint_id"]] == one
        assert saver.leases() == []
    assert failed > 0


class Disk:
    """How many pages a database of SQLite may have, on every connection to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._connect = sqlite3.connect
        self._most = 1_000_000
        self._made: list[sqlite3.Connection] = []
        monkeypatch.setattr(sqlite3, "connect", self._limited)

    def _limited(self, *args: Any, **options: Any) -> sqlite3.Connection:
        made = self._connect(*args, **options)
        made.execute(f"PRAGMA max_page_count = {self._most}")
        self._made.append(made)
        return made

    def allow(self, more: int) -> None:
        """So many pages more than there are."""
        (pages,) = self._made[0].execute("PRAGMA page_count").fetchone()
        self._most = pages + more
        for made in self._made:
            made.execute(f"PRAGMA max_page_count = {self._most}")


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_full_sqlite_file_fails_the_run_and_leaves_the_thread(driver, tmp_path, monkeypatch, undisturbed):
    url = f"sqlite:{tmp_path / 'saved'}"
    disk = Disk(monkeypatch)
    full = []
    with open_saver(url) as saver:
        graph = build(checkpointer=saver)
        for place in range(16):  # each finds the last page filled to another point
            thread = f"t{place}"
            graph.get_state(thread)
            disk.allow(place % 3)
            try:
                ended = bring_to_end(graph, thread, lambda *a, **o: invoke(graph, driver, *a, **o))
            except SaverUnavailableError as error:
                full.append((thread, error))
                disk.allow(1_000)
            else:
                assert ended == undisturbed
        disk.allow(1_000_000)
        assert len(full) > 3
        for thread, error in full:
            assert "full" in str(error)
            assert any(f"of thread {thread!r}" in note for note in error.__notes__), error.__notes__
            saved = saved_effects(graph, thread)
            with open_saver(url) as other:
                assert saved_effects(build(checkpointer=other), thread) == saved
            ended = bring_to_end(graph, thread, graph.invoke, on_busy="wait")
            assert ended == undisturbed
        assert saver.leases() == []


class Outage:
    """Lets something happen inside of an effect."""

    def __init__(self, key: str) -> None:
        self.key, self.happened = key, 0
        self.do: Any = None

    @contextmanager
    def probe(self, key: str):
        if key == self.key and self.do is not None:
            do, self.do = self.do, None
            self.happened += 1
            do()
        yield


@pytest.fixture
def steward():
    """A thread that lives as long as the test: a server doesn't outlive the thread that started it."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda do: pool.submit(do).result()


@pytest.mark.parametrize(
    ("where", "durability", "driver"),
    [
        ("plan:2", "sync", "sync"),
        ("charge:1:1:b", "sync", "async"),
        ("second:3", "async", "sync"),
        ("gather:1", "async", "async"),
        ("gather:3", "exit", "sync"),
    ],
)
def test_a_database_that_restarts_in_a_run_is_found_again(
    where, durability, driver, postgres_server, steward, undisturbed
):
    outage = Outage(where)
    with PostgresSaver(postgres_server.url()) as saver:
        graph = build(outage.probe, checkpointer=saver)
        outage.do = lambda: steward(postgres_server.restart)
        failed = None
        for _ in range(2):  # at most one run fails
            try:
                ended = bring_to_end(
                    graph, "t", lambda *a, **o: invoke(graph, driver, *a, **o), durability=durability
                )
                break
            except SaverUnavailableError as error:
                failed = error
        assert outage.happened == 1
        assert ended == undisturbed
        assert failed is None or any("of thread 't'" in note for note in failed.__notes__)
        assert saver.leases() == []


OUTAGES = {"postgres": lambda url: PostgresSaver(url, timeout=1.0), "redis": RedisSaver}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", list(OUTAGES))
def test_a_server_that_is_gone_for_a_while_fails_the_run_and_later_it_goes_on(
    kind, durability, request, undisturbed
):
    server = request.getfixturevalue(f"{kind}_server")
    outage = Outage("gather:1")
    with OUTAGES[kind](server.url()) as saver:
        saver.lease_ttl = 1.0
        graph = build(outage.probe, checkpointer=saver)
        outage.do = server.stop
        with pytest.raises(SaverUnavailableError) as failed:
            bring_to_end(graph, "t", graph.invoke, durability=durability)
        assert outage.happened == 1
        assert any("of thread 't'" in note for note in failed.value.__notes__)
        with pytest.raises(SaverUnavailableError):
            graph.get_state("t")
        with pytest.raises(SaverUnavailableError) as failed:
            graph.invoke(INPUT, thread_id="t")
        assert any("of thread 't'" in note for note in failed.value.__notes__)
        server.start()
        if durability == "sync":
            assert BEFORE["gather:1"] <= saved_effects(graph, "t")
        ended = bring_to_end(graph, "t", graph.invoke, durability=durability, on_busy="wait")
        assert ended == undisturbed
