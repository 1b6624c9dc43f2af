"""The newest state of a thread is kept in the process, and used only where it is the newest."""

import dataclasses

import pytest

from juncture.engine.state import State
from juncture.persistence import recent
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.threads import ThreadLog
from juncture.savers import InMemorySaver


@dataclasses.dataclass
class Note:
    text: str


def codec():
    registry = Registry(DEFAULT)
    registry.register(Note)
    return Codec(registry)


CODEC = codec()


class Asked(InMemorySaver):
    """Notes which checkpoints were loaded without their parts."""

    def __init__(self):
        super().__init__()
        self.known = []

    def load(self, *args, known=None, **options):
        found = super().load(*args, known=known, **options)
        self.known.append(found is not None and not found.parts)
        return found


def run(saver, *states, going_on_from=None, codec=CODEC, **options):
    """One run; what it loaded."""
    log = ThreadLog(saver, "t", codec, **options)
    try:
        saved = log.load((), going_on_from)
        for state in states:
            log.save((), state)
        return saved
    finally:
        log.finish()


def values(**given):
    return State(values=given)


def test_going_on_with_a_thread_reads_no_parts():
    saver = Asked()
    run(saver, values(k=[1]), values(k=[1, 2]))
    assert run(saver).state.values == {"k": [1, 2]}
    run(saver, values(k=[1, 2, 3]))
    assert run(saver).state.values == {"k": [1, 2, 3]}
    assert saver.known == [False, True, True, True]


def test_what_another_process_saved_is_read():
    saver = Asked()
    run(saver, values(k=1))
    other = InMemorySaver()
    other._threads, other._leases = saver._threads, saver._leases  # another process has its own saver
    run(other, values(k=2))
    assert run(saver).state.values == {"k": 2}
    assert saver.known == [False, False]


def test_a_graph_with_other_classes_reads():
    saver = Asked()
    run(saver, values(k=1))
    assert run(saver, codec=codec()).state.values == {"k": 1}
    assert saver.known == [False, False]


def test_an_older_checkpoint_is_never_taken_for_the_newest():
    saver = Asked()
    run(saver, values(k="old"), values(k="new"))
    old = saver.history("t")[-1].checkpoint.checkpoint_id
    assert run(saver, going_on_from=old).state.values == {"k": "old"}
    assert run(saver).state.values == {"k": "new"}
    run(saver, values(k="fork"), going_on_from=old)
    assert run(saver).state.values == {"k": "fork"}
    assert run(saver, going_on_from=old).state.values == {"k": "old"}


@pytest.mark.parametrize("grown", [False, True])
def test_objects_changed_in_place_after_the_run_change_nothing(grown):
    saver = Asked()
    note = Note("a text of more than thirty-two characters")
    before = [values(k=Note(note.text[:-1]), big="x" * 100)] if grown else []
    run(saver, *before, values(k=note, big="x" * 100))
    expected = Note(note.text)
    note.text = "changed"
    first = run(saver)
    assert first.state.values["k"] == expected
    first.state.values["k"].text = "changed too"
    assert run(saver).state.values["k"] == expected


def test_states_that_nodes_can_reach_are_not_kept():
    saver = Asked()
    state = values(k=[1])
    run(saver, state, exposed=True)
    state.values["k"].append(2)
    assert run(saver, exposed=True).state.values == {"k": [1]}


def test_nothing_is_kept_of_a_run_that_could_not_save():
    class Failing(Asked):
        def put(self, checkpoint, payload, **options):
            if checkpoint.step == 1:
                raise OSError("disk full")
            super().put(checkpoint, payload, **options)

    saver = Failing()
    with pytest.raises(OSError, match="disk full"):
        run(saver, values(k=1), State(step=1, values={"k": 2}))
    assert run(saver).state.values == {"k": 1}
    assert saver.known == [False, False]


def test_a_deleted_thread_is_new():
    saver = Asked()
    run(saver, values(k=1))
    saver.delete_thread("t")
    assert run(saver) is None


def kept(size):
    class Track:
        pass

    track = Track()
    track.size = size
    return recent.Recent("c", CODEC, track)


def test_the_longest_unused_go_first():
    saver = InMemorySaver()
    for number in range(recent.MOST_THREADS):
        recent.put(saver, f"t{number}", kept(1))
    again = recent.take(saver, "t0", CODEC)
    recent.put(saver, "t0", again)
    recent.put(saver, "one more", kept(1))
    assert recent.take(saver, "t1", CODEC) is None
    assert recent.take(saver, "t0", CODEC) is again


def test_big_states_make_room():
    saver, half = InMemorySaver(), recent.MOST_BYTES // 2
    for name in "abc":
        recent.put(saver, name, kept(half))
    assert [recent.take(saver, name, CODEC) is not None for name in "abc"] == [False, True, True]


def test_a_state_that_is_too_big_drives_out_nobody():
    saver = InMemorySaver()
    recent.put(saver, "a", kept(1))
    recent.put(saver, "b", kept(recent.MOST_BYTES + 1))
    assert recent.take(saver, "b", CODEC) is None
    assert recent.take(saver, "a", CODEC) is not None


def test_forgetting_a_thread_that_is_not_there_is_fine():
    saver = InMemorySaver()
    recent.forget(saver, "t")
    recent.put(saver, "t", kept(1))
    recent.forget(saver, "t")
    assert recent.take(saver, "t", CODEC) is None
