"""A `ThreadLog` loads and saves for one run: ids, heads, parents, and errors that say where.

Who may write when is in test_leases, and when something is saved in test_durability.
"""

import asyncio
import inspect
from dataclasses import replace

import pytest

from juncture.engine.state import State, TaskRecord
from juncture.errors import (
    CheckpointNotFoundError,
    HeadMovedError,
    LeaseLostError,
    SaverError,
    SerializationError,
    ThreadBusyError,
)
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.threads import ThreadLog
from juncture.savers import InMemorySaver

CODEC = Codec(Registry(DEFAULT))
NOW = 1_750_000_000_000_000_000
DONE = TaskRecord("a:1", "done", "", ([("k", 1)], ["b"], []))
FAILED = TaskRecord("b:1", "failed", "", "ValueError('x')")


class Sync:
    """The sync methods of a log."""

    def __init__(self, log):
        self.log = log
        self.load, self.save, self.save_records = log.load, log.save, log.save_records
        self.finish = log.finish


class Async:
    """The async methods of a log, as if they were sync."""

    def __init__(self, log):
        self.log = log

    def load(self, *args, **kwargs):
        return asyncio.run(self.log.aload(*args, **kwargs))

    def save(self, *args, **kwargs):
        return asyncio.run(self.log.asave(*args, **kwargs))

    def save_records(self, *args, **kwargs):
        return asyncio.run(self.log.asave_records(*args, **kwargs))

    def finish(self):
        asyncio.run(self.log.afinish())


class Blocking(InMemorySaver):
    blocking = True


@pytest.fixture(
    params=[(Sync, InMemorySaver), (Async, InMemorySaver), (Async, Blocking)], ids=["sync", "async", "worker"]
)
def colour(request):
    return request.param


@pytest.fixture
def saver(colour):
    return colour[1]()


@pytest.fixture
def log(colour, saver):
    """Makes a log for another run on the same saver."""

    def make(thread_id="t", *, clock=lambda: NOW, saver=saver, **options):
        return colour[0](ThreadLog(saver, thread_id, CODEC, clock=clock, **options))

    return make


def seen(log, *args, thread_id="t", **options):
    """What another run loads that does nothing else."""
    looking = log(thread_id, **options)
    try:
        return looking.load(*args)
    finally:
        looking.finish()


def test_a_new_thread_has_nothing(log):
    assert seen(log) is None


def test_a_state_comes_back_to_another_run(log):
    run = log(run_id="r1")
    run.load()
    first = run.save((), State(step=0, values={"k": (1,)}, due=("a",)), "input")
    run.save_records((), first, [DONE])
    run.finish()
    saved = seen(log)
    assert saved.checkpoint_id == first
    assert saved.parent_id is None
    assert saved.state == State(step=0, values={"k": (1,)}, due=("a",))
    assert saved.records == [DONE]
    assert (saved.source, saved.run_id, saved.created_at) == ("input", "r1", NOW / 1e9)


def test_each_checkpoint_follows_the_one_before(log, saver):
    run = log()
    first = run.save((), State(), "input")
    run.save_records((), first, [FAILED])
    run.save_records((), first, [DONE])
    second = run.save((), State(step=1))
    third = run.save((), State(step=2))
    assert first < second < third
    history = saver.history("t", records=True)
    assert [(found.checkpoint.checkpoint_id, found.checkpoint.parent_id) for found in history] == [
        (third, second),
        (second, first),
        (first, None),
    ]
    assert [[record.kind for record in found.records] for found in history] == [[], [], ["failed", "done"]]
    assert [found.checkpoint.step for found in history] == [2, 1, 0]


def test_a_run_goes_on_from_what_it_loaded(log):
    first = log().save((), State())
    run = log()
    assert run.load().checkpoint_id == first
    second = run.save((), State(step=1))
    run.finish()
    assert seen(log).parent_id == first
    assert seen(log).checkpoint_id == second


def test_a_run_that_goes_back_makes_a_new_head(log, saver):
    run = log()
    first, second = run.save((), State()), run.save((), State(step=1))
    back = log()
    assert back.load((), first).checkpoint_id == first
    fork = back.save((), State(step=0), "fork")
    last = back.save((), State(step=1, values={"other": 1}))
    back.finish()
    parents = {found.checkpoint.checkpoint_id: found.checkpoint.parent_id for found in saver.history("t")}
    assert parents == {last: fork, fork: first, second: first, first: None}
    assert list(parents) == sorted(parents, reverse=True)
    assert seen(log).checkpoint_id == last


def test_two_runs_cannot_overwrite_each_other(log):
    log().save((), State())
    one, other = log(), log()
    one.load()
    with pytest.raises(ThreadBusyError):
        other.load()
    kept = one.save((), State(step=1, values={"by": "one"}))
    with pytest.raises(HeadMovedError):
        log().save((), State(step=1))
    one.finish()
    saved = seen(log)
    assert saved.checkpoint_id == kept
    assert saved.state.values == {"by": "one"}


def test_a_run_that_was_taken_for_dead_cannot_save_anything(log, saver):
    head = log().save((), State())
    for write in (
        lambda late: late.save((), State(step=1)),
        lambda late: late.save_records((), head, [DONE]),
    ):
        late = log()
        late.load()
        (lease,) = saver.leases()
        saver.acquire_lease("t", "another", "token", None, instead_of=lease.token)
        with pytest.raises(LeaseLostError, match="another has it now"):
            write(late)
        late.finish()
        (lease,) = saver.leases()
        assert lease.holder == "another", "who lost a lease doesn't give back another's"
        saver.release_lease(lease)
    saved = seen(log)
    assert (saved.checkpoint_id, saved.records) == (head, [])


def test_records_beside_an_older_checkpoint_are_refused(log):
    run = log()
    head = run.save((), State())
    run.save((), State(step=1))
    with pytest.raises(HeadMovedError):
        run.save_records((), head, [DONE])
    assert seen(log, (), head).records == []


def test_a_namespace_that_was_not_loaded_must_be_new(log):
    log().save(("n:1",), State())
    with pytest.raises(HeadMovedError):
        log().save(("n:1",), State())


def test_namespaces_have_their_own_series(log, saver):
    run = log()
    root = run.save((), State())
    inner = run.save(("n:1",), State())
    odd = run.save(("a|b", ""), State())
    assert run.load(("n:1",)).checkpoint_id == inner
    assert run.load(()).checkpoint_id == root
    assert run.load(("a|b", "")).checkpoint_id == odd
    assert run.load(("a", "b", "")) is None
    assert len({root, inner, odd}) == 3
    assert saver.namespaces("t") == ["", "a%7Cb|%", "n:1"]


def test_ids_ascend_though_the_clock_goes_back(log):
    ahead = log(clock=lambda: NOW + 10**18)
    first = ahead.save((), State())
    behind = log(clock=lambda: NOW)
    behind.load()
    second = behind.save((), State(step=1))
    behind.finish()
    assert first < second
    assert seen(log).checkpoint_id == second
    assert seen(log).created_at == NOW / 1e9


def test_untracked_keys_are_not_saved(log):
    run = log(untracked=frozenset({"client"}))
    head = run.save((), State(values={"a": 1, "client": object()}))
    run.save_records((), head, [TaskRecord("t", "done", "", ([("client", object())], [], []))])
    saved = seen(log)
    assert saved.state.values == {"a": 1}
    assert saved.records[0].content == ([], [], [])


def test_what_was_saved_does_not_change_with_the_state(log):
    state, record = State(values={"a": [1]}), TaskRecord("a:1", "call", "c", [1])
    run = log()
    head = run.save((), state)
    run.save_records((), head, [record])
    state.values["a"].append(2)
    record.content.append(2)
    saved = seen(log)
    assert saved.state.values == {"a": [1]}
    assert saved.records[0].content == [1]


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────


def notes(error):
    return "\n".join(getattr(error, "__notes__", ()))


def test_an_unknown_checkpoint_is_named(log):
    log("other").save((), State())
    foreign = seen(log, thread_id="other").checkpoint_id
    with pytest.raises(CheckpointNotFoundError, match=rf"thread 't' has no checkpoint '{foreign}'") as caught:
        log(run_id="r").load((), foreign)
    assert (caught.value.thread_id, caught.value.namespace, caught.value.run_id) == ("t", (), "r")
    assert f"while loading checkpoint {foreign} of thread 't'" in notes(caught.value)


def test_a_value_that_cannot_be_stored_is_named_with_its_place_and_nothing_is_saved(log):
    head = log(run_id="r").save((), State())
    bad = TaskRecord("a", "answer", "q", [object()])

    def attempt(write, told):
        run = log(run_id="r")
        run.load()
        with pytest.raises(SerializationError, match=told) as caught:
            write(run)
        run.finish()
        return caught.value

    error = attempt(
        lambda run: run.save((), State(step=3, values={"docs": [object()]})), r"^state\.docs\[0\]: "
    )
    assert (error.key, error.step, error.thread_id, error.run_id) == ("docs", 3, "t", "r")
    assert "(step 3) of thread 't'" in notes(error)
    attempt(lambda run: run.save_records((), head, [DONE, bad]), r"'answer' of task a\[0\]: ")
    saved = seen(log)
    assert saved.checkpoint_id == head
    assert saved.records == []


def test_an_overtaken_run_is_told_where(log):
    run = log(run_id="r")
    run.save(("n:1",), State())
    with pytest.raises(HeadMovedError) as caught:
        log(run_id="r2").save(("n:1",), State(step=4))
    assert (caught.value.thread_id, caught.value.namespace, caught.value.run_id) == ("t", ("n:1",), "r2")
    assert caught.value.step == 4
    assert "(step 4) of thread 't', namespace 'n:1'" in notes(caught.value)


class Full(InMemorySaver):
    """A saver whose disk is full from some moment on."""

    full = False

    def _fail_if_full(self):
        if self.full:
            raise OSError("no space left")

    def load(self, *args, **options):
        self._fail_if_full()
        return super().load(*args, **options)

    def put(self, *args, **options):
        self._fail_if_full()
        super().put(*args, **options)

    def put_records(self, *args, **options):
        self._fail_if_full()
        super().put_records(*args, **options)


def test_a_saver_that_fails_is_told_with_checkpoint_and_thread(log):
    full = Full()
    head = log(saver=full).save((), State())
    for call, told in (
        (lambda run: run.save((), State(step=5)), "while saving checkpoint"),
        (lambda run: run.save_records((), head, [DONE]), f"while saving records beside checkpoint {head}"),
        (lambda run: run.load(), "while loading the newest checkpoint"),
    ):
        run = log(saver=full)
        run.load()
        full.full = True
        with pytest.raises(OSError, match="no space left") as caught:
            call(run)
        assert told in notes(caught.value)
        assert "of thread 't'" in notes(caught.value)
        full.full = False
        run.finish()
    assert seen(log, saver=full).checkpoint_id == head
    again = log(saver=full)
    again.load()
    second = again.save((), State(step=5))
    again.finish()
    assert seen(log, saver=full).parent_id == head
    assert seen(log, saver=full).checkpoint_id == second


def test_nothing_is_saved_after_a_checkpoint_of_another_make(log, saver):
    head = log().save((), State())
    foreign = replace(saver.load("t").checkpoint, checkpoint_id="zzz", seq=2)
    saver.put(foreign, b"\x92\x01\x80", follows=head)
    run = log()
    assert run.load().checkpoint_id == "zzz"
    with pytest.raises(SaverError, match="'zzz' wasn't made by Juncture"):
        run.save((), State(step=1))


def test_the_log_says_whether_it_may_wait():
    assert ThreadLog(Blocking(), "t", CODEC).blocking
    assert not ThreadLog(InMemorySaver(), "t", CODEC).blocking


@pytest.mark.parametrize("name", ["load", "save", "save_records", "finish"])
def test_the_twins_have_the_same_parameters(name):
    sync, twin = getattr(ThreadLog, name), getattr(ThreadLog, "a" + name)
    assert inspect.signature(sync) == inspect.signature(twin)


def test_what_is_saved_is_encoded_before_anything_is_awaited():
    class Slow(InMemorySaver):
        blocking = True

        async def aput(self, *args, **options):
            await asyncio.sleep(0)
            self.put(*args, **options)

        async def aput_records(self, *args, **options):
            await asyncio.sleep(0)
            self.put_records(*args, **options)

    async def run():
        log = ThreadLog(Slow(), "t", CODEC)
        state, record = State(values={"a": [1]}), TaskRecord("a:1", "call", "c", [1])
        saving = asyncio.ensure_future(log.asave((), state))
        await asyncio.sleep(0)
        state.values["a"].append(2)
        head = await saving
        saving = asyncio.ensure_future(log.asave_records((), head, [record]))
        await asyncio.sleep(0)
        record.content.append(2)
        await saving
        return await log.aload()

    saved = asyncio.run(run())
    assert saved.state.values == {"a": [1]}
    assert saved.records[0].content == [1]


def test_a_closed_saver_ends_the_run(log, saver):
    run = log()
    run.save((), State())
    saver.close()
    with pytest.raises(SaverError, match="closed"):
        run.save((), State(step=1))
