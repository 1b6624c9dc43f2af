"""What was stored in any version of the checkpoint format is read, and its threads go on.

The samples are made by `tests.samples.make`. A test that fails here means that users' threads can't be read any more.
"""

import contextlib
import json
from base64 import b64decode

import ormsgpack
import pytest

from juncture import Command, InMemorySaver
from juncture.persistence import tags
from juncture.persistence.codec import Codec
from juncture.persistence.format import VERSION
from juncture.persistence.registry import DEFAULT, Registry
from juncture.savers.encrypted import EncryptedSaver, KeyRing
from tests.samples import programs
from tests.samples.make import HERE, restore
from tests.unit.persistence.exact import same

FORMATS = sorted(path.name for path in HERE.glob("format-*"))
CODEC = Codec(Registry(DEFAULT))


def sample(version, name):
    return json.loads((HERE / version / f"{name}.json").read_text(encoding="utf-8"))


def values_of(version):
    return [
        (name, place, b64decode(stored))
        for name, items in sample(version, "values").items()
        for place, stored in enumerate(items)
    ]


def test_there_are_samples_of_every_version():
    assert sorted(f"format-{version}" for version in range(1, VERSION + 1)) == FORMATS


@pytest.mark.parametrize("version", FORMATS)
def test_every_value_is_read_exactly(version):
    read = values_of(version)
    assert len(read) > 60
    for name, place, stored in read:
        expected = programs.VALUES[name][place]
        assert same(CODEC.decode(stored), expected), f"{name}[{place}]"


def test_what_is_written_now_is_what_was_written_when_the_samples_were_made():
    for name, place, stored in values_of(FORMATS[-1]):
        assert CODEC.encode(programs.VALUES[name][place]) == stored, (
            f"{name}[{place}] is stored otherwise than before. Programs of the same version of the format can't read that: "
            "raise the version, and make samples of it"
        )


def test_the_samples_hold_every_kind_of_value():
    found = set()

    def note(tag, payload):
        found.add(tag)
        with contextlib.suppress(ValueError):  # not every payload is a value
            ormsgpack.unpackb(payload, ext_hook=note)

    for _, _, stored in values_of(FORMATS[-1]):
        ormsgpack.unpackb(stored, ext_hook=note)
    assert found >= {*tags.DECODERS, tags.OBJECT}
    assert set(programs.VALUES) == set(sample(FORMATS[-1], "values"))


def opened(version, name):
    inner = InMemorySaver()
    restore(sample(version, name), inner)
    return inner


def where(thread_id):
    return {"configurable": {"thread_id": thread_id}}


@pytest.mark.parametrize("version", FORMATS)
def test_every_checkpoint_of_a_long_thread_shows_its_values(version):
    saver = opened(version, "chat")
    assert any(found.checkpoint.builds_on for found in saver.history("chat"))
    app = programs.chat().compile(checkpointer=saver)
    turns = []
    for state in app.get_state_history(where("chat")):
        turn = state.values["turn"]
        if state.metadata["source"] == "loop":
            expected = programs.chat_state(turn)
            turns.append(turn)
        else:
            before = programs.chat_state(turn - 1) if turn > 1 else {"messages": []}
            expected = before | {"turn": turn}
        assert set(state.values) == set(expected)
        for key, value in expected.items():
            assert same(state.values[key], value), (turn, key)
    assert turns == list(range(programs.CHAT_TURNS, 0, -1))


@pytest.mark.parametrize("version", FORMATS)
def test_a_long_thread_goes_on(version):
    app = programs.chat().compile(checkpointer=opened(version, "chat"))
    turn = programs.CHAT_TURNS + 1
    assert app.invoke({"turn": turn}, thread_id="chat") == programs.chat_state(turn)
    assert app.get_state(where("chat")).values == programs.chat_state(turn)


@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("thread_id", programs.WORK_WAITS)
@pytest.mark.parametrize("name", ["work", "encrypted"])
def test_a_thread_that_waits_shows_its_question_and_goes_on(version, thread_id, name):
    saver = opened(version, name)
    if name == "encrypted":
        saver = EncryptedSaver(saver, KeyRing({"test": programs.TEST_KEY}))
    log, question, answers = programs.WORK_WAITS[thread_id]
    app = programs.work().compile(checkpointer=saver)
    state = app.get_state(where(thread_id))
    assert state.values["log"] == log
    assert [one.value for one in state.interrupts] == [question]
    programs.PRICED.clear()
    for answer in answers:
        result = app.invoke(Command(resume=answer), thread_id=thread_id)
    assert result == {"log": programs.WORK_LOG, "total": 123}
    assert programs.PRICED == []  # what a task gave was stored
