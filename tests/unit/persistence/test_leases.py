"""One run writes to a thread: leases are taken, waited for, renewed, taken over from the dead, and given back."""

import asyncio
import gc
import os
import subprocess
import sys
import threading

import pytest

from juncture.engine.state import State
from juncture.errors import CheckpointNotFoundError, LeaseLostError, ThreadBusyError
from juncture.persistence import leases
from juncture.persistence.asking import performed
from juncture.persistence.codec import Codec
from juncture.persistence.holders import is_dead, this_holder
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.threads import ThreadLog
from juncture.savers import InMemorySaver

CODEC = Codec(Registry(DEFAULT))
WAIT = 10
"""Seconds after which something that should come is taken not to come."""


def log_of(saver, thread_id="t", **options):
    return ThreadLog(saver, thread_id, CODEC, **options)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


# ── busy ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_while_a_run_has_a_thread_another_is_told_who_has_it():
    saver = InMemorySaver()
    one, other, elsewhere = log_of(saver), log_of(saver, run_id="r2"), log_of(saver, "u")
    one.load()
    with pytest.raises(ThreadBusyError) as caught:
        other.load()
    assert (caught.value.thread_id, caught.value.run_id) == ("t", "r2")
    assert caught.value.lease.holder == this_holder()
    elsewhere.load()
    one.save((), State())
    one.finish()
    assert other.load().state == State()
    other.finish()
    elsewhere.finish()
    assert saver.leases() == []


def test_a_run_and_its_nested_graphs_share_a_lease():
    saver = InMemorySaver()
    log = log_of(saver)
    log.load()
    (lease,) = saver.leases()
    log.load(("n:1",))
    log.save(("n:1",), State())
    assert [found.token for found in saver.leases()] == [lease.token]
    log.finish()
    assert saver.leases() == []


def test_a_thread_that_could_not_be_loaded_is_given_back_at_the_end():
    saver = InMemorySaver()
    log = log_of(saver)
    with pytest.raises(CheckpointNotFoundError):
        log.load((), "unknown")
    log.finish()
    assert saver.leases() == []


class Told(InMemorySaver):
    """Says when somebody was refused."""

    def __init__(self, **options):
        super().__init__(**options)
        self.refused = threading.Event()

    def acquire_lease(self, *args, **options):
        try:
            return super().acquire_lease(*args, **options)
        except ThreadBusyError:
            self.refused.set()
            raise


class BlockingTold(Told):
    blocking = True


@pytest.mark.parametrize("kind", [Told, BlockingTold])
def test_a_run_that_waits_gets_the_thread_when_the_other_ends(kind):
    saver = kind()
    one = log_of(saver)
    one.load()
    got = []
    waiting = threading.Thread(target=lambda: got.append(log_of(saver, on_busy="wait").load()), daemon=True)
    waiting.start()
    assert saver.refused.wait(WAIT)
    assert got == []
    one.save((), State(step=3))
    one.finish()
    waiting.join(WAIT)
    assert [saved.state.step for saved in got] == [3]


@pytest.mark.parametrize("kind", [Told, BlockingTold])
def test_an_async_run_waits_without_stopping_the_others(kind):
    async def run():
        saver = kind()
        one, other = log_of(saver), log_of(saver, on_busy="wait")
        await one.aload()
        waiting = asyncio.ensure_future(other.aload())
        while not saver.refused.is_set():  # noqa: ASYNC110 - it is set by other code than a coroutine
            await asyncio.sleep(0)
        assert not waiting.done()
        await one.asave((), State(step=3))
        await one.afinish()
        saved = await asyncio.wait_for(waiting, WAIT)
        await other.afinish()
        return saved, saver.leases()

    saved, left = asyncio.run(run())
    assert saved.state.step == 3
    assert left == []


def test_cancelling_a_run_that_waits_leaves_the_thread_to_the_other():
    async def run():
        saver = Told()
        one, other = log_of(saver), log_of(saver, on_busy="wait")
        await one.aload()
        waiting = asyncio.ensure_future(other.aload())
        while not saver.refused.is_set():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await other.afinish()
        await one.asave((), State())
        await one.afinish()
        return saver

    assert asyncio.run(run()).leases() == []


class Gated(InMemorySaver):
    """Its lease is taken when the gate is opened."""

    blocking = True

    def __init__(self):
        super().__init__()
        self.begun, self.gate, self.taken = threading.Event(), threading.Event(), threading.Event()

    def acquire_lease(self, *args, **options):
        self.begun.set()
        assert self.gate.wait(WAIT)
        lease = super().acquire_lease(*args, **options)
        self.taken.set()
        return lease


def test_a_run_that_is_cancelled_while_it_takes_the_lease_gives_it_back():
    async def run():
        saver = Gated()
        log = log_of(saver)
        loading = asyncio.ensure_future(log.aload())
        await asyncio.to_thread(saver.begun.wait, WAIT)
        loading.cancel()
        await asyncio.sleep(0)
        saver.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await loading
        await asyncio.to_thread(saver.taken.wait, WAIT)
        await log.afinish()
        return saver

    assert asyncio.run(run()).leases() == []


# ── the dead ─────────────────────────────────────────────────────────────────────────────────────────────────

HOLDER = "from juncture.persistence.holders import this_holder; print(this_holder(), flush=True); input()"


def held_elsewhere():
    """A process, and how it calls itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, process.stdout.readline().strip()


def test_the_thread_of_a_process_that_ended_is_taken_over_at_once():
    process, holder = held_elsewhere()
    with process:
        saver = InMemorySaver()
        saver.acquire_lease("t", holder, "theirs", None)
        assert not is_dead(holder)
        with pytest.raises(ThreadBusyError):
            log_of(saver).load()
        process.kill()
        process.wait(WAIT)
        assert is_dead(holder)
        log = log_of(saver)
        log.load()
        (lease,) = saver.leases()
        assert lease.holder == this_holder()
        log.save((), State())
        log.finish()
    assert saver.leases() == []


def test_a_process_that_ended_and_was_not_waited_for_is_dead_too():
    process, holder = held_elsewhere()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(holder)
    with process:
        process.wait(WAIT)


def test_nobody_is_thought_dead_of_whom_nothing_can_be_known():
    here = this_holder()
    assert not is_dead(here)
    started = here.index("(started")
    assert not is_dead("somebody")
    assert not is_dead("")
    assert not is_dead(here.replace("system ", "system other-"))
    assert not is_dead(here[:started] + "(started 1, system unknown)")
    assert is_dead(here[:started] + "(started 1, " + here[started:].partition(", ")[2]), (
        "another of its number"
    )


def test_a_host_may_be_called_anything():
    here = this_holder()
    start = here.index("host ") + 5
    odd = here[:start] + "a (started 1, system x)\n) on host b" + here[here.index(" (started") :]
    assert not is_dead(odd)


def test_a_take_over_of_the_dead_does_not_take_what_another_took_first():
    process, holder = held_elsewhere()
    process.kill()
    with process:
        process.wait(WAIT)

    class Raced(InMemorySaver):
        def acquire_lease(self, thread_id, who, token, ttl, *, instead_of=None):
            if instead_of is not None:
                super().acquire_lease(thread_id, "another", "first", None, instead_of=instead_of)
            return super().acquire_lease(thread_id, who, token, ttl, instead_of=instead_of)

    saver = Raced()
    saver.acquire_lease("t", holder, "theirs", None)
    with pytest.raises(ThreadBusyError) as caught:
        log_of(saver).load()
    assert caught.value.lease.holder == "another"
    assert [lease.token for lease in saver.leases()] == ["first"]


# ── running out ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "write",
    [
        lambda late, head: late.save((), State(step=1)),
        lambda late, head: late.save(("n:1",), State(step=1)),
        lambda late, head: late.save_records((), head, []),
    ],
    ids=["the next", "nested", "records"],
)
def test_who_lost_an_expired_lease_cannot_save_any_more(write):
    clock = Clock()
    saver = InMemorySaver(lease_ttl=1_000, clock=clock)
    late = log_of(saver, run_id="late")
    late.load()
    late.save((), State())
    clock.now = 999
    with pytest.raises(ThreadBusyError):
        log_of(saver).load()
    clock.now = 1_001
    heir = log_of(saver)
    heir.load()
    head = heir.save((), State(step=1))
    with pytest.raises(LeaseLostError) as caught:
        write(late, head)
    assert (caught.value.thread_id, caught.value.run_id) == ("t", "late")
    late.finish()
    heir.save((), State(step=2))
    heir.finish()
    assert [found.checkpoint.step for found in saver.history("t")] == [2, 1, 0]
    assert saver.namespaces("t") == [""]


def test_a_lease_that_ran_out_and_that_nobody_took_is_still_good():
    clock = Clock()
    saver = InMemorySaver(lease_ttl=1_000, clock=clock)
    log = log_of(saver)
    log.load()
    clock.now = 5_000
    log.save((), State())
    log.finish()
    assert saver.leases() == []


class Renewing(InMemorySaver):
    """Says when leases were renewed, and by which thread."""

    def __init__(self, ttl=0.03):
        super().__init__(lease_ttl=ttl)
        self.renewed = threading.Semaphore(0)
        self.counts = []
        self.fails = 0

    def renew_leases(self, held, ttl):
        self.counts.append(len(held))
        try:
            if self.fails:
                self.fails -= 1
                raise OSError("no connection")
            return super().renew_leases(held, ttl)
        finally:
            self.renewed.release()

    def wait_for(self, number=1):
        for _ in range(number):
            assert self.renewed.acquire(timeout=WAIT)


def keeping_threads():
    return {thread for thread in threading.enumerate() if thread.name == "juncture-leases"}


@pytest.fixture
def keeping():
    """The threads that renew leases and were begun by the test; those of other tests may still wait."""
    before = keeping_threads()
    return lambda: keeping_threads() - before


def gone(threads):
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()


def test_leases_are_renewed_together_while_runs_hold_them(keeping):
    saver = Renewing()
    one, other = log_of(saver), log_of(saver, "u")
    one.load()
    other.load()
    saver.wait_for(3)
    assert len(keeping()) == 1
    assert max(saver.counts) == 2
    one.save((), State())
    other.save((), State())
    one.finish()
    other.finish()
    gone(keeping())
    again = log_of(saver)
    again.load()
    before = len(saver.counts)
    while saver.renewed.acquire(blocking=False):
        pass
    saver.wait_for()
    assert len(saver.counts) > before
    again.finish()
    gone(keeping())


def test_a_run_whose_lease_was_lost_is_told_by_the_next_renewal():
    saver = Renewing()
    held = leases.keep(saver, saver.acquire_lease("t", "me", "mine", 30))
    saver.acquire_lease("t", "you", "yours", None, instead_of="mine")
    saver.wait_for(2)
    assert held.lost
    performed(leases.release(saver, held))
    assert [lease.token for lease in saver.leases()] == ["yours"]


def test_a_renewal_that_fails_is_tried_again(keeping, caplog):
    saver = Renewing()
    saver.fails = 1
    log = log_of(saver)
    log.load()
    saver.wait_for(3)
    log.save((), State())
    log.finish()
    gone(keeping())
    assert [record.levelname for record in caplog.records if "renewed" in record.message] == ["WARNING"]


def test_the_lease_of_a_forgotten_run_is_renewed_no_more(keeping):
    saver = Renewing()
    log = log_of(saver)
    log.load()
    saver.wait_for()
    threads = keeping()
    assert threads
    del log
    gc.collect()
    gone(threads)


def test_leases_for_good_are_never_renewed(keeping):
    saver = InMemorySaver()
    log = log_of(saver)
    log.load()
    assert keeping() == set()
    log.finish()


# ── giving back ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lease_that_cannot_be_given_back_is_no_error_of_the_run(caplog):
    class Stuck(InMemorySaver):
        def release_lease(self, lease):
            raise OSError("no connection")

    saver = Stuck()
    log = log_of(saver)
    log.load()
    log.save((), State())
    log.finish()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "'t'" in caplog.records[0].message


def test_the_thread_is_given_back_though_a_save_failed():
    class Failing(InMemorySaver):
        def put(self, *args, **options):
            raise OSError("disk full")

    saver = Failing()
    log = log_of(saver)
    log.load()
    with pytest.raises(OSError, match="disk full"):
        log.save((), State())
    log.finish()
    assert saver.leases() == []
