"""When what a run saves is durable: at once, a little later in order, or when the run ends."""

import asyncio
import dataclasses
import gc
import threading

import pytest

from juncture.engine.state import State, TaskRecord
from juncture.errors import SaverError, SerializationError
from juncture.persistence.background import MOST, Background
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.threads import ThreadLog
from juncture.savers import InMemorySaver

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


@dataclasses.dataclass
class Note:
    text: str


def _codec():
    registry = Registry(DEFAULT)
    registry.register(Note)
    return Codec(registry)


CODEC = _codec()
DONE = TaskRecord("a:1", "done", "", ([("k", 1)], ["b"], []))


class Disk(Exception):
    """What a saver raises."""


class Slow(InMemorySaver):
    """A saver whose puts wait until they are let go, and of which some fail."""

    blocking = True

    def __init__(self, *, fails=()):
        super().__init__()
        self.free = threading.Event()
        self.begun = threading.Event()
        self.calls = []
        self.fails = fails

    def _call(self, name, perform):
        self.begun.set()
        assert self.free.wait(WAIT)
        self.calls.append(name)
        if len(self.calls) in self.fails:
            raise Disk(name)
        perform()

    def put(self, checkpoint, payload, **options):
        self._call(f"put {checkpoint.step}", lambda: super(Slow, self).put(checkpoint, payload, **options))

    def put_records(self, thread_id, namespace, checkpoint_id, records, **options):
        perform = super().put_records
        self._call("records", lambda: perform(thread_id, namespace, checkpoint_id, records, **options))


def saved_steps(saver, namespace=""):
    return [found.checkpoint.step for found in reversed(saver.history("t", namespace))]


def loaded(saver, namespace=(), **options):
    log = ThreadLog(saver, "t", CODEC, **options)
    try:
        return log.load(namespace)
    finally:
        log.finish()


def no_saving_threads():
    return not [thread for thread in threading.enumerate() if thread.name == "juncture-saves"]


# ── sync ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_without_waiting_for_anything_every_save_is_there_at_once(durability):
    saver = InMemorySaver()
    log = ThreadLog(saver, "t", CODEC, durability=durability)
    log.load()
    for step in range(3):
        log.save((), State(step=step))
        assert saved_steps(saver) == list(range(step + 1))
    log.finish()


# ── async ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_saves_overlap_what_comes_next_and_keep_their_order():
    saver = Slow()
    log = ThreadLog(saver, "t", CODEC, durability="async")
    log.load()
    head = log.save((), State(step=0))
    log.save_records((), head, [DONE])
    log.save((), State(step=1))
    log.save(("n:1",), State(step=7))
    assert saver.begun.wait(WAIT)
    assert saver.calls == []
    saver.free.set()
    log.finish()
    assert saver.calls == ["put 0", "records", "put 1", "put 7"]
    assert saved_steps(saver) == [0, 1]
    assert saver.leases() == []
    assert no_saving_threads()


def test_what_is_saved_later_is_what_it_was_when_it_was_handed_over():
    saver = Slow()
    log = ThreadLog(saver, "t", CODEC, durability="async")
    log.load()
    note, listed, record = Note("then"), [1], TaskRecord("a:1", "call", "c", [Note("then")])
    head = log.save((), State(values={"note": note, "list": listed}))
    log.save_records((), head, [record])
    note.text = record.content[0].text = "now"
    listed.append(2)
    saver.free.set()
    log.finish()
    saved = loaded(saver)
    assert saved.state.values == {"note": Note("then"), "list": [1]}
    assert saved.records[0].content == [Note("then")]


def test_loading_waits_for_what_is_being_saved():
    saver = Slow()
    log = ThreadLog(saver, "t", CODEC, durability="async")
    log.load()
    log.save(("n:1",), State(step=4))
    threading.Timer(0, saver.free.set).start()
    assert log.load(("n:1",)).state.step == 4
    log.save((), State(step=1))
    log.finish()
    assert saved_steps(saver) == [1]


@pytest.mark.parametrize("kth", [1, 2, 3])
def test_after_a_failure_nothing_more_is_saved_and_the_next_call_raises_it(kth):
    saver = Slow(fails={kth})
    log = ThreadLog(saver, "t", CODEC, durability="async")
    log.load()
    for step in range(5):
        log.save((), State(step=step))
    saver.free.set()
    with pytest.raises(Disk) as caught:
        log.load(("n:1",))
    assert str(caught.value) == f"put {kth - 1}"
    for call in (
        lambda: log.save((), State(step=9)),
        lambda: log.save_records((), "x", [DONE]),
        lambda: log.save(("n:1",), State(step=9)),
    ):
        with pytest.raises((Disk, SaverError)):
            call()
    with pytest.raises(Disk):
        log.finish()
    assert saved_steps(saver) == list(range(kth - 1))
    assert saver.leases() == []
    assert no_saving_threads()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_failure_of_the_last_save_is_raised_at_the_end(colour):
    saver = Slow(fails={2})
    saver.free.set()
    log = ThreadLog(saver, "t", CODEC, durability="async")
    log.load()
    log.save((), State(step=0))
    log.save((), State(step=1))
    with pytest.raises(Disk) as caught:
        log.finish() if colour == "sync" else asyncio.run(log.afinish())
    assert any("thread 't'" in note for note in caught.value.__notes__)
    assert saved_steps(saver) == [0]
    assert saver.leases() == []


def test_the_note_on_a_failure_names_the_checkpoint_that_failed():
    saver = Slow(fails={1})
    log = ThreadLog(saver, "t", CODEC, durability="async")
    log.load()
    failed = log.save((), State(step=0))
    saver.free.set()
    with pytest.raises(Disk):
        log.load(("n:1",))
    with pytest.raises((Disk, SaverError)):
        log.save((), State(step=5))
    with pytest.raises(Disk) as caught:
        log.finish()
    (note,) = [note for note in caught.value.__notes__ if "saving" in note]
    assert f"saving checkpoint {failed} (step 0) of thread 't'" in note


def test_a_value_that_cannot_be_stored_is_told_at_once():
    saver = Slow()
    log = ThreadLog(saver, "t", CODEC, durability="async")
    log.load()
    log.save((), State(step=0))
    with pytest.raises(SerializationError, match=r"^state\.docs: "):
        log.save((), State(step=1, values={"docs": object()}))
    saver.free.set()
    log.finish()
    assert saved_steps(saver) == [0]


def test_saves_overlap_in_async_code():
    async def run():
        saver = Slow()
        log = ThreadLog(saver, "t", CODEC, durability="async")
        await log.aload()
        await log.asave((), State(step=0))
        await log.asave((), State(step=1))
        assert saver.calls == []
        saver.free.set()
        await log.afinish()
        return saver

    assert asyncio.run(run()).calls == ["put 0", "put 1"]


def test_an_event_loop_goes_on_while_saves_have_to_wait_for_room():
    async def run():
        saver = Slow()
        log = ThreadLog(saver, "t", CODEC, durability="async")
        await log.aload()

        async def save_all():
            for step in range(2 * MOST):
                await log.asave((), State(step=step))

        saving = asyncio.ensure_future(save_all())
        await asyncio.to_thread(saver.begun.wait, WAIT)
        asyncio.get_running_loop().call_later(0, saver.free.set)
        await saving
        await log.afinish()
        return saved_steps(saver)

    assert asyncio.run(run()) == list(range(2 * MOST))


# ── the queue ────────────────────────────────────────────────────────────────────────────────────────────────


def begun_together(*calls):
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def ended(*threads):
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()


def waiting_for(queue, number):
    """Waits until so many others wait for what is queued."""
    deadline = threading.Event()
    for _ in range(1_000):
        if queue._queue.qsize() >= number:  # nothing else tells that somebody waits
            return
        deadline.wait(0.01)
    raise AssertionError("nobody waits")


def test_two_that_wait_at_once_lose_nothing_that_comes_later():
    queue, free, made = Background(), threading.Event(), []
    queue.add(lambda: free.wait(WAIT) and made.append("first"))
    waiting = begun_together(queue.join, queue.join)
    waiting_for(queue, 2)
    free.set()
    ended(*waiting)
    for name in ("second", "third"):
        queue.add(lambda name=name: made.append(name))
        queue.join()
    assert made == ["first", "second", "third"]


def test_what_is_added_while_somebody_waits_is_made():
    queue, free, made = Background(), threading.Event(), []
    queue.add(lambda: free.wait(WAIT) and made.append("first"))
    waiting = begun_together(queue.join)
    waiting_for(queue, 1)
    queue.add(lambda: made.append("second"))
    free.set()
    ended(*waiting)
    queue.join()
    assert made == ["first", "second"]


def test_an_exit_raised_by_a_saver_is_a_failure_too():
    queue = Background()

    def leave():
        raise SystemExit(1)

    queue.add(leave)
    with pytest.raises(SystemExit):
        queue.join()
    with pytest.raises(SystemExit):
        queue.add(lambda: None)


# ── exit ─────────────────────────────────────────────────────────────────────────────────────────────────────


def exiting(saver, **options):
    log = ThreadLog(saver, "t", CODEC, durability="exit", **options)
    log.load()
    return log


def test_at_the_end_the_newest_state_is_saved_with_what_was_saved_about_its_tasks():
    saver = InMemorySaver()
    log = exiting(saver)
    first = log.save((), State(step=0), "input")
    log.save_records((), first, [DONE])
    second = log.save((), State(step=1, values={"k": 1}), "loop")
    log.save_records((), second, [TaskRecord("b:2", "failed", "", "x")])
    assert first < second
    assert saver.load("t") is None
    log.finish()
    (found,) = saver.history("t", records=True)
    assert (found.checkpoint.checkpoint_id, found.checkpoint.parent_id) == (second, None)
    assert [(record.task_id, record.kind) for record in found.records] == [("b:2", "failed")]
    assert loaded(saver).state.values == {"k": 1}
    assert saver.leases() == []


def test_records_beside_a_checkpoint_that_was_there_before_are_saved_at_the_end():
    saver = InMemorySaver()
    head = ThreadLog(saver, "t", CODEC).save((), State())
    log = exiting(saver)
    log.save_records((), head, [DONE])
    assert loaded_records(saver) == []
    log.finish()
    assert loaded_records(saver) == ["done"]


def loaded_records(saver):
    return [record.kind for record in saver.load("t").records]


def test_children_are_saved_first_and_only_those_that_are_still_needed():
    order = []

    class Noting(InMemorySaver):
        def put(self, checkpoint, payload, **options):
            order.append(checkpoint.namespace)
            super().put(checkpoint, payload, **options)

    saver = Noting()
    log = exiting(saver)
    log.save((), State(step=3, due=("a",)))
    log.save(("a:4",), State(step=1, due=("x",)))
    log.save(("a:4", "x:2"), State(step=1, due=("y",)))
    log.save(("b:1",), State(step=9))
    log.save(("memory",), State(step=9, owner="m:1"))
    log.finish()
    assert order[0] == "a:4|x:2"
    assert set(order[1:3]) == {"a:4", "memory"}
    assert order[3:] == [""]


def test_a_run_that_was_killed_saved_nothing():
    saver = InMemorySaver()
    log = exiting(saver)
    log.save((), State(step=0))
    log.save((), State(step=1))
    del log
    gc.collect()
    assert saver.load("t") is None


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_failure_at_the_end_is_raised_and_the_thread_given_back(colour):
    saver = Slow(fails={2})
    saver.free.set()
    log = exiting(saver)
    log.save(("a:1",), State(step=5, due=("x",)))
    log.save((), State(step=1))
    with pytest.raises(Disk) as caught:
        log.finish() if colour == "sync" else asyncio.run(log.afinish())
    assert "at the end of the run" in "\n".join(caught.value.__notes__)
    assert saver.load("t") is None
    assert saver.leases() == []
    log.finish()
    assert saver.calls == ["put 5", "put 1"]


def test_a_value_that_cannot_be_stored_at_the_end_is_told_at_once():
    saver = InMemorySaver()
    log = exiting(saver)
    with pytest.raises(SerializationError, match=r"^state\.docs\[0\]: ") as caught:
        log.save((), State(step=1, values={"docs": [object()]}))
    assert caught.value.key == "docs"
    log.finish()
    assert saver.leases() == []


def test_what_is_kept_until_the_end_does_not_change_with_the_state():
    saver = InMemorySaver()
    log = exiting(saver)
    values, cells, joins, memory = {"k": 1}, {"c": 1}, {"a+b": ("a",)}, {"n": "c1"}
    log.save((), State(values=values, cells=cells, joins=joins, memory=memory))
    for one in (values, cells, joins, memory):
        one.clear()
    log.finish()
    state = loaded(saver).state
    assert (state.values, state.cells, state.joins, state.memory) == (
        {"k": 1},
        {"c": 1},
        {"a+b": ("a",)},
        {"n": "c1"},
    )


def test_an_object_changed_after_its_save_is_saved_as_it_was():
    saver = InMemorySaver()
    log = exiting(saver)
    note = Note("then")
    log.save((), State(values={"note": note}))
    note.text = "now"
    log.finish()
    assert loaded(saver).state.values == {"note": Note("then")}


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", [InMemorySaver, Slow])
def test_a_run_that_has_ended_saves_and_loads_nothing_more(durability, kind):
    saver = kind()
    if kind is Slow:
        saver.free.set()
    log = ThreadLog(saver, "t", CODEC, durability=durability)
    log.load()
    head = log.save((), State())
    log.finish()
    log.finish()
    for call in (
        lambda: log.save((), State(step=1)),
        lambda: log.save_records((), head, [DONE]),
        lambda: log.save(("n:1",), State(step=1)),
        log.load,
    ):
        with pytest.raises(SaverError, match="has ended"):
            call()
    log.finish()
    assert saved_steps(saver) == [0]
    assert saver.namespaces("t") == [""]
    assert saver.leases() == []


@pytest.mark.parametrize("what", ["metadata", "put"])
def test_after_a_failed_save_nothing_wrong_can_be_saved(what):
    """Whatever the caller makes of the error: another save is refused, or it is right."""

    class Failing(InMemorySaver):
        left = 1 if what == "put" else -1

        def put(self, checkpoint, payload, **options):
            if checkpoint.step == 1:
                self.left -= 1
                if self.left == 0:
                    raise Disk
            super().put(checkpoint, payload, **options)

    saver = Failing()
    metadata = {}
    log = ThreadLog(saver, "t", CODEC, metadata=metadata)
    log.load()
    log.save((), State(values={"v": "old"}))
    if what == "metadata":
        log._metadata["x"] = object()  # as if the caller had given it
    with pytest.raises((SerializationError, Disk)):
        log.save((), State(step=1, values={"v": "new", "w": 1}))
    log._metadata.clear()
    try:
        log.save((), State(step=1, values={"v": "new", "w": 1}))
    except SaverError:
        expected = {"v": "old"}
    else:
        expected = {"v": "new", "w": 1}
    log.finish()
    assert loaded(saver).state.values == expected
