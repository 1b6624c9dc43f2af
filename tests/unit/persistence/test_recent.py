"""The newest state of a thread is kept in the process, and used only where it is the newest."""

import dataclasses
import gc
import weakref

import pytest

from juncture.engine.state import State
from juncture.persistence import recent
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.threads import ThreadLog
from juncture.persistence.track import Track
from juncture.savers import InMemorySaver
from juncture.types import Send


@dataclasses.dataclass
class Note:
    text: str


def codec():
    registry = Registry(DEFAULT)
    registry.register(Note)
    return Codec(registry)


CODEC = codec()


class Reopened(InMemorySaver):
    """What a saver holds, in another process."""

    def __init__(self, saver):
        super().__init__()
        self._threads, self._leases = saver._threads, saver._leases


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
    run(Reopened(saver), values(k=2))
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


def notes(count=40):
    return [Note([number]) for number in range(count)]


def test_long_lists_of_objects_are_kept_as_they_were_saved():
    saver = Asked()
    given = notes()
    run(saver, values(k=given[:-1], n=1, last=[]), values(k=given, n=2, last=[]))
    seen = given
    for _ in range(2):  # those of the run that saved them, then those of a run that saved nothing
        for one in seen:
            one.text.append("changed")
        found = run(saver).state.values
        assert list(found.items()) == [("k", notes()), ("n", 2), ("last", [])]
        seen = found["k"]
    assert saver.known == [False, True, True]
    run(saver, values(k=[*given[:20], Note("new")], n=3))
    assert run(saver).state.values == {"k": [*given[:20], Note("new")], "n": 3}


def test_what_is_changed_after_the_last_save_of_a_run_that_goes_on_from_it_is_not_kept():
    saver = Asked()
    run(saver, values(k=notes(), n=1))
    log = ThreadLog(saver, "t", CODEC)
    state = log.load().state
    state.values["k"][3].text.append("saved")
    log.save((), state)
    state.values["k"][3].text.append("not saved")
    log.finish()
    expected = notes()
    expected[3].text.append("saved")
    assert run(saver).state.values["k"] == expected
    assert Asked.load(saver, "t", "").parts
    assert run(Reopened(saver)).state.values["k"] == expected


@pytest.mark.parametrize(
    "state",
    [
        values(k=notes(), other=Note("")),
        values(k=notes(), other=[Note("")]),
        values(k=[*notes(), [Note("")]]),
        State(values={"k": notes()}, cells={"k": [Note("")]}),
        State(values={"k": 1}, cells={"k": notes()}),
        State(values={"k": notes()}, written=(("k", Note("")),)),
        State(values={"k": notes()}, sends=(Send("n", Note("")),)),
    ],
    ids=["beside", "short-beside", "among", "both", "in-cells", "written", "sent"],
)
def test_a_state_with_other_objects_is_not_kept(state):
    saver = Asked()
    run(saver, state)
    assert run(saver).state == state
    assert saver.known == [False, False]


def test_objects_whose_class_is_stored_otherwise_now_are_read():
    saver, own = Asked(), codec()
    run(saver, values(k=notes()), codec=own)
    own.registry.register(Note)
    assert run(saver, codec=own).state.values == {"k": notes()}
    assert saver.known == [False, False]


def test_the_objects_themselves_are_let_go():
    saver, given = Asked(), notes()
    first = weakref.ref(given[0])
    run(saver, values(k=given))
    del given
    gc.collect()
    assert first() is None


def test_what_is_kept_for_objects_counts():
    long, short = Asked(), Asked()
    run(long, values(k=notes()))
    run(short, values(k="x" * 1_000))
    kept_long, kept_short = (recent.take(saver, "t", CODEC).track for saver in (long, short))
    assert kept_short.kept_bytes == kept_short.size
    assert kept_long.kept_bytes > 2 * kept_long.size


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
    track = Track(CODEC, frozenset(), exposed=False)
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
