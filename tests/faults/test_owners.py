"""Several processes want one thread: races, zombies, and clocks that are wrong (right-behaviour 31)."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from juncture import InMemorySaver
from juncture.savers import Saver, open_saver
from tests.faults.children import Job, child, effects_of
from tests.faults.graph import BEFORE, bring_to_end, build, saved_effects

pytestmark = pytest.mark.timeout(120)
HOUR = 3600.0


@pytest.fixture(params=["sqlite", "postgres", "file", "redis"])
def url(request, tmp_path):
    """The URL of a saver that several processes use."""
    if request.param in {"postgres", "redis"}:
        return request.getfixturevalue(f"{request.param}_url")
    return f"{request.param}:{tmp_path / 'saved'}"


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url_with_clock(request, tmp_path):
    """The same, of savers that don't ask Python for the time. The one of files does: it is its machine's."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'saved'}"
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def undisturbed():
    """The final state of a run that has its thread for itself."""
    graph = build(checkpointer=InMemorySaver())
    return bring_to_end(graph, "t", graph.invoke)


def everything(saver: Saver, thread: str) -> list[Any]:
    """All that is kept of a thread."""
    return [
        (found, saver.load(thread, namespace, found.checkpoint.checkpoint_id))
        for namespace in saver.namespaces(thread)
        for found in saver.history(thread, namespace, records=True)
    ]


def wait_until_free(saver: Saver, thread: str) -> None:
    """Waits until the lease of a thread has run out, which no event tells."""
    while True:
        (left,) = [lease.expires_in for lease in saver.leases() if lease.thread_id == thread]
        if left <= 0:
            return


def test_of_two_processes_that_start_a_thread_one_does_it(url, tmp_path, undisturbed):
    log = tmp_path / "effects"
    jobs = [Job(url, "t", "once", str(log), driver, gate="plan:1", wait=True) for driver in ("sync", "async")]
    with child(jobs[0]) as one, child(jobs[1]) as other:
        for racer in (one, other):
            racer.until("ready")
        for racer in (one, other):
            racer.go()
        first, second = one.told(), other.told()
        assert sorted([first[0], second[0]]) == ["begin", "failed"]
        winner, lost = (one, second) if first[0] == "begin" else (other, first)
        winner.go()
        winner.result()
    assert lost[:2] == ("failed", "ThreadBusyError")
    assert "'t'" in lost[2]
    assert max(Counter(effects_of(log)).values()) == 1
    graph = build(checkpointer=open_saver(url))
    with graph.checkpointer:
        assert bring_to_end(graph, "t", graph.invoke) == undisturbed


def dead_threads(url: str, number: int, folder: Any) -> dict[str, Any]:
    """Threads whose runs are killed in the middle of their first round, and their logs of effects."""
    logs = {f"dead-{place}": folder / f"effects-{place}" for place in range(number)}
    with ExitStack() as stack:
        runs = []
        for thread, log in logs.items():
            job = Job(url, thread, "once", str(log), gate="charge:1:1:b")
            runs.append(stack.enter_context(child(job)))
        for running in runs:
            running.until("at")
            running.kill()
    return logs


def test_of_processes_that_recover_at_once_each_dead_thread_is_taken_by_one(url, tmp_path, undisturbed):
    graph = build(checkpointer=open_saver(url))
    with graph.checkpointer as saver:
        logs = dead_threads(url, 5, tmp_path)
        saved = {thread: saved_effects(graph, thread) for thread in logs}
        before = {thread: len(effects_of(log)) for thread, log in logs.items()}
        again = tmp_path / "again"
        job = Job(url, how="sweep", effects=str(again), wait=True)
        with child(job) as one, child(job) as two, child(job) as three:
            sweepers = (one, two, three)
            for sweeper in sweepers:
                sweeper.until("ready")
            for sweeper in sweepers:
                sweeper.go()
            found = [each for sweeper in sweepers for each in sweeper.result()]
        assert [error for _, _, error in found if error is not None] == []
        assert sorted(thread for thread, ran, _ in found if ran) == sorted(logs)
        began = Counter(key for _, what, key in effects_of(again) if what == "begin")
        for thread, log in logs.items():
            assert len(effects_of(log)) == before[thread]
            for key in saved[thread]:
                began[key] += 1
        asks = {"work:2:1", "second:2"}
        assert {key: n for key, n in began.items() if n != len(logs) and key not in asks} == {}
        assert saver.leases() == []
        for thread in logs:
            assert bring_to_end(graph, thread, graph.invoke) == undisturbed


@pytest.mark.parametrize(("driver", "durability"), [("sync", "sync"), ("async", "async"), ("sync", "exit")])
def test_a_suspended_process_that_was_taken_over_saves_nothing(
    url, durability, driver, tmp_path, undisturbed
):
    graph = build(checkpointer=open_saver(url))
    with graph.checkpointer as saver:
        job = Job(
            url, "t", "once", str(tmp_path / "zombie"), driver, durability, lease_ttl=1.5, gate="gather:1"
        )
        with child(job) as zombie:
            zombie.until("at")
            while durability != "exit" and graph.get_state("t").next != ("gather",):
                pass  # it must not be suspended while it saves: it would have its saver's locks for good
            zombie.suspend()
            wait_until_free(saver, "t")
            saved = saved_effects(graph, "t")
            log = tmp_path / "heir"
            heir = Job(url, "t", "run" if durability == "exit" else "recover", str(log))
            with child(heir) as running:
                assert running.result() == undisturbed
            done = {key for _, what, key in effects_of(log) if what == "end"}
            assert done == BEFORE.keys() - saved
            left = everything(saver, "t")
            zombie.go()
            zombie.wake()
            ended = zombie.outcome()
        assert ended[:2] == ("failed", "LeaseLostError"), ended
        assert "'t'" in ended[2]
        assert everything(saver, "t") == left


@pytest.mark.parametrize("shift", [-5 * HOUR, 5 * HOUR], ids=["behind", "ahead"])
def test_a_lease_is_respected_by_a_process_whose_clock_is_wrong(url_with_clock, shift, tmp_path, undisturbed):
    url, log = url_with_clock, tmp_path / "effects"
    graph = build(checkpointer=open_saver(url))
    with graph.checkpointer as saver:
        with child(Job(url, "t", "once", str(log), gate="gather:1")) as owner:
            owner.until("at")
            with child(Job(url, "t", "recover", str(log), shift=shift)) as other:
                assert other.outcome()[:2] == ("failed", "ThreadBusyError")
            owner.go()
            owner.result()
        assert saver.leases() == []
        assert max(Counter(effects_of(log)).values()) == 1
        assert bring_to_end(graph, "t", graph.invoke) == undisturbed


def test_the_order_of_checkpoints_does_not_depend_on_clocks(url, tmp_path, undisturbed):
    log = tmp_path / "effects"
    graph = build(checkpointer=open_saver(url))
    gates = [("plan:1", 5 * HOUR), ("gather:1", -5 * HOUR), ("plan:3", 0.0), ("gather:3", 9 * HOUR)]
    with graph.checkpointer as saver:
        for gate, shift in gates:
            with child(Job(url, "t", "run", str(log), gate=gate, shift=shift)) as running:
                running.until("at")
                running.kill()
        with child(Job(url, "t", "recover", str(log), "async", shift=-9 * HOUR)) as running:
            assert running.result() == undisturbed
        assert dict(graph.get_state("t").values) == undisturbed
        made = [found.checkpoint for found in reversed(saver.history("t"))]
        assert [one.seq for one in made] == list(range(1, len(made) + 1))
        assert [one.step for one in made] == list(range(len(made)))
        assert [one.checkpoint_id for one in made] == sorted({one.checkpoint_id for one in made})
        times = [one.created_at for one in made]
        assert min(times) + 9 * HOUR < max(times)
        assert times != sorted(times)
        listed = list(graph.get_state_history("t"))
        assert [one.metadata["step"] for one in listed] == list(reversed(range(len(made))))
        begun = Counter(key for _, what, key in effects_of(log) if what == "end")
        assert set(begun) == BEFORE.keys()
