"""States and records come back from the checkpoint format; what isn't of this version is refused."""

import dataclasses

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.engine.state import Around, State, TaskRecord
from juncture.errors import SerializationError
from juncture.persistence.codec import Codec
from juncture.persistence.format import (
    VERSION,
    bare_state,
    header_bytes,
    namespace_levels,
    namespace_text,
    read_header,
    record_bytes,
    saved_checkpoint,
)
from juncture.persistence.registry import DEFAULT, Registry
from juncture.persistence.track import Track
from juncture.savers import LoadedCheckpoint, Part, StoredCheckpoint
from juncture.types import MARK_FOR_REMOVAL, Interrupt, Overwrite, Send
from tests.unit.persistence.exact import same

CODEC = Codec(Registry(DEFAULT))

FULL = State(
    step=7,
    values={"count": 1, "odd key": (1, {2}), "messages": [{"role": "user", "content": "hi"}]},
    cells={"topic": [1, (2,)], "barrier": {"a"}},
    due=("a", "b"),
    sends=(Send("w", {"x": (1,)}), Send("w", None, timeout=2.5)),
    joins={"a+b": ("a",)},
    deferred=("last",),
    written=(("messages", [1]), ("count", Overwrite(3)), ("gone", MARK_FOR_REMOVAL)),
    touched=("other",),
    paused_after=("n",),
    carried=(
        TaskRecord("a:8", "done", "", ([("count", 2)], ["b"], [])),
        TaskRecord("b:8", "failed", "", "oops"),
    ),
    ran=("a", "b"),
    branch="3>4",
    memory={"sub": "c9"},
    owner="sub:7",
    origin="c0",
    around=Around("c7", 3),
    edited=("c5", "c6"),
    unrouted=("r",),
)


def body_bytes(state, untracked=frozenset()):
    """The whole part of a state."""
    return Track(CODEC, untracked, exposed=False).encode(state, 1)[0]


def stored(state, *, header=None, builds_on=()):
    return StoredCheckpoint(
        thread_id="t",
        namespace="",
        checkpoint_id="c2",
        parent_id="c1",
        step=state.step,
        source="loop",
        run_id="r",
        created_at=1.5,
        seq=2,
        builds_on=builds_on,
        header=header_bytes(CODEC, state) if header is None else header,
    )


def loaded(state, *records, header=None, parts=None, untracked=frozenset(), builds_on=()):
    if parts is None:
        parts = (Part(2, "c2", body_bytes(state, untracked)),)
    return LoadedCheckpoint(stored(state, header=header, builds_on=builds_on), "c3", 3, parts, tuple(records))


def changed(*bodies):
    """A checkpoint of parts that are given as values, each built on those before."""
    parts = tuple(
        Part(seq, f"c{seq}", CODEC.encode(body)) for seq, body in enumerate(bodies, 3 - len(bodies))
    )
    return loaded(State(), parts=parts, builds_on=((3 - len(bodies), 1),) if len(bodies) > 1 else ())


# ── there and back ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", [State(), FULL], ids=["empty", "full"])
def test_a_state_comes_back_exactly(state):
    saved = saved_checkpoint(CODEC, loaded(state))
    assert same(saved.state, state)
    assert (saved.checkpoint_id, saved.parent_id, saved.source, saved.run_id, saved.created_at) == (
        "c2",
        "c1",
        "loop",
        "r",
        1.5,
    )


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(State) if field.compare])
def test_every_field_of_a_state_is_stored(field):
    state = State(**{field: getattr(FULL, field)})
    assert same(saved_checkpoint(CODEC, loaded(state)).state, state)
    assert getattr(state, field) != getattr(State(), field), "the sample doesn't show it"


NAMES = st.text(max_size=5)
TUPLES = st.lists(NAMES, max_size=3).map(tuple)
STATES = st.builds(
    State,
    step=st.integers(0, 2**40),
    values=st.dictionaries(NAMES, st.one_of(st.integers(), st.tuples(NAMES)), max_size=3),
    cells=st.dictionaries(NAMES, st.sets(st.integers()), max_size=2),
    due=TUPLES,
    sends=st.lists(
        st.builds(
            Send, NAMES, st.integers(), timeout=st.one_of(st.none(), st.floats(0, 9, exclude_min=True))
        ),
        max_size=3,
    ).map(tuple),
    joins=st.dictionaries(NAMES, TUPLES, max_size=2),
    deferred=TUPLES,
    written=st.lists(st.tuples(NAMES, st.integers()), max_size=3).map(tuple),
    touched=TUPLES,
    paused_after=TUPLES,
    ran=TUPLES,
    branch=NAMES,
    memory=st.dictionaries(NAMES, NAMES, max_size=2),
    owner=NAMES,
    origin=NAMES,
)


@given(STATES)
def test_any_state_comes_back_exactly(state):
    assert same(saved_checkpoint(CODEC, loaded(state)).state, state)


@pytest.mark.parametrize(
    "record",
    [
        TaskRecord(
            "a:1", "done", "", ([("k", (1, {2})), ("m", Overwrite(1))], ["b", "c"], [Send("d", {1: 2})])
        ),
        TaskRecord("a:1", "failed", "", "ValueError('x')"),
        TaskRecord("a:1", "question", "q", Interrupt({"ask": (1,)}, "q", "a")),
        TaskRecord("a:1", "answer", "q", {"yes": (True,)}),
        TaskRecord("a:1", "call", "identity", None),
        TaskRecord("", "paused", "p", Interrupt(None, "p", "a", when="before")),
    ],
    ids=lambda record: record.kind,
)
def test_a_record_comes_back_exactly(record):
    kept = record_bytes(CODEC, record)
    assert (kept.task_id, kept.kind, kept.name) == (record.task_id, record.kind, record.name)
    (found,) = saved_checkpoint(CODEC, loaded(State(), kept)).records
    assert same(found, record)


def test_records_keep_their_order():
    records = [TaskRecord(f"t{number}", "failed", "", "x") for number in (3, 1, 2)]
    found = saved_checkpoint(CODEC, loaded(State(), *(record_bytes(CODEC, record) for record in records)))
    assert found.records == records


def test_what_was_saved_does_not_change_with_the_state():
    state = State(values={"a": [1]}, sends=(Send("n", {"x": [1]}),))
    kept = loaded(state)
    state.values["a"].append(2)
    state.sends[0].arg["x"].append(2)
    found = saved_checkpoint(CODEC, kept).state
    assert found.values == {"a": [1]}
    assert found.sends == (Send("n", {"x": [1]}),)


def test_a_small_state_is_a_few_bytes():
    state = State(step=3, values={"count": 3}, due=("a",))
    assert len(header_bytes(CODEC, state)) + len(body_bytes(state)) < 25


def test_untracked_keys_are_left_out_everywhere():
    state = State(
        values={"a": 1, "client": object()},
        cells={"b": 1, "client": object()},
        written=(("a", 1), ("client", object())),
        carried=(TaskRecord("t", "done", "", ([("a", 1), ("client", object())], [], [])),),
    )
    found = saved_checkpoint(CODEC, loaded(state, untracked={"client"})).state
    assert (found.values, found.cells, found.written) == ({"a": 1}, {"b": 1}, (("a", 1),))
    assert found.carried[0].content == ([("a", 1)], [], [])
    assert "client" in state.values
    record = TaskRecord("t", "done", "", ([("client", object()), ("a", 1)], ["n"], []))
    (found,) = saved_checkpoint(CODEC, loaded(State(), record_bytes(CODEC, record, {"client"}))).records
    assert found.content == ([("a", 1)], ["n"], [])
    assert len(record.content[0]) == 2


# ── what can't be written ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "told", "key"),
    [
        (State(values={"ok": 1, "docs": [1, {"client": object()}]}), r"state\.docs\[1\]\.client: ", "docs"),
        (State(values={"odd key": [object()]}), r"state\['odd key'\]\[0\]: ", "odd key"),
        (State(cells={"topic": [object()]}), r"state\.topic\[0\]: ", "topic"),
        (State(sends=(Send("w", 1), Send("w", [object()]))), r"the argument of the Send to 'w'\[0\]: ", None),
        (State(written=(("k", [object()]),)), r"written to state\.k\[0\]: ", "k"),
        (
            State(carried=(TaskRecord("a:1", "done", "", ([("k", object())], [], [])),)),
            r"written to state\.k: ",
            "k",
        ),
    ],
)
def test_a_value_that_cannot_be_stored_is_named_by_key(state, told, key):
    with pytest.raises(SerializationError, match=rf"^{told}.*register_type") as caught:
        body_bytes(state)
    assert caught.value.key == key


class Name(str):
    __slots__ = ()


def test_a_name_that_is_no_plain_str_is_refused():
    with pytest.raises(SerializationError, match=r"^the names in the checkpoint\.due\[0\]: .*Name"):
        header_bytes(CODEC, State(due=(Name("a"),)))


@pytest.mark.parametrize(
    ("record", "told", "key"),
    [
        (TaskRecord("a:1", "done", "", ([("k", object())], [], [])), r"written to state\.k: ", "k"),
        (
            TaskRecord("a:1", "done", "", ([], [], [Send("w", object())])),
            r"what is saved as 'done' of task a:1\[2\]\[0\]\.encoded\[1\]: ",
            None,
        ),
        (TaskRecord("a:1", "answer", "q", [object()]), r"what is saved as 'answer' of task a:1\[0\]: ", None),
    ],
)
def test_a_record_that_cannot_be_stored_is_named(record, told, key):
    with pytest.raises(SerializationError, match=rf"^{told}") as caught:
        record_bytes(CODEC, record)
    assert caught.value.key == key


def test_a_state_that_is_too_deep_only_as_a_whole_is_refused():
    value = 1
    for _ in range(254):
        value = [value]
    CODEC.encode(value)
    with pytest.raises(SerializationError, match=r"^state: .*nested more than"):
        body_bytes(State(values={"a": value}))
    with pytest.raises(SerializationError, match=r"^what is saved as 'answer' of task t: .*nested more than"):
        record_bytes(CODEC, TaskRecord("t", "answer", "", [value]))


# ── what can't be read ───────────────────────────────────────────────────────────────────────────────────────


def packed(value):
    return CODEC.encode(value)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            loaded(State(), header=packed({"v": 2})),
            "version 2 of the checkpoint format.*up to version 1. Update",
        ),
        (loaded(State(), header=packed({"v": 0})), "there is no version 0"),
        (loaded(State(), header=packed({})), "header isn't one"),
        (loaded(State(), header=packed([1])), "header isn't one"),
        (loaded(State(), header=b"\xc1"), "the checkpoint's header: these bytes are no stored value"),
        (loaded(State(), parts=(Part(2, "c2", packed([2, {}])),)), "version 2 of the checkpoint format"),
        (
            loaded(State(), parts=(Part(2, "c2", packed([2, "of a later form", 3])),)),
            "version 2 of the checkpoint format",
        ),
        (loaded(State(), parts=(Part(2, "c2", packed([1, []])),)), "aren't what their version says"),
        (loaded(State(), parts=(Part(2, "c2", packed([1, {}, {}, {}])),)), "aren't what their version says"),
        (loaded(State(), parts=(Part(2, "c2", packed({"v": 1})),)), "aren't what their version says"),
        (
            loaded(State(), parts=(Part(2, "c2", b""),)),
            "the checkpoint's values: these bytes are no stored value",
        ),
        (loaded(State(), parts=()), "part 2 of the checkpoint isn't there"),
        (loaded(State(), builds_on=((1, 1),)), "part 1 of the checkpoint isn't there"),
        (changed([1, [None, None, None]]), "the first of the checkpoint's parts is a change to others"),
        (changed([1, {}], [2, [None, None, None]]), "version 2 of the checkpoint format"),
        (changed([1, {}], [1, [None, None]]), "aren't what their version says"),
        (changed([1, {}], [1, [None, None, None], {}, 1]), "the checkpoint's "),
        (loaded(FULL, header=packed({"v": 1, "sends": [["w", None]]})), "names 1 sends, but has 2 arguments"),
    ],
)
def test_what_is_not_of_this_version_is_refused(found, told):
    with pytest.raises(SerializationError, match=told):
        saved_checkpoint(CODEC, found)


@pytest.mark.parametrize(
    ("content", "told"), [([2, 0], "version 2"), ([1], "isn't a record"), (5, "isn't a record")]
)
def test_a_record_that_is_not_of_this_version_is_refused(content, told):
    record = record_bytes(CODEC, TaskRecord("a:1", "failed", "", "x"))._replace(content=packed(content))
    with pytest.raises(SerializationError, match=told):
        saved_checkpoint(CODEC, loaded(State(), record))


def test_what_a_later_version_can_do_without_is_ignored():
    header = packed({"v": VERSION, "due": ["a"], "mood": "good"})
    body = packed([VERSION, {"a": 1}, {"cells": {"c": 1}, "mood": ["good"]}])
    found = saved_checkpoint(CODEC, loaded(State(step=2), header=header, parts=(Part(2, "c2", body),)))
    assert found.state == State(step=2, values={"a": 1}, cells={"c": 1}, due=("a",))


UNKNOWN = ormsgpack.Ext(64, ormsgpack.packb(["gone:Class", [{}]]))


@pytest.mark.parametrize(
    ("body", "told", "key"),
    [
        ([1, {"ok": 1, "docs": [0, UNKNOWN]}], r"state\.docs\[1\]: .*gone:Class", "docs"),
        ([1, {}, {"cells": {"odd key": UNKNOWN}}], r"state\['odd key'\]: .*gone:Class", "odd key"),
        ([1, {}, {"sends": [0, [UNKNOWN]]}], r"the checkpoint's sends\[1\]\[0\]: .*gone:Class", None),
    ],
)
def test_a_value_that_cannot_be_rebuilt_is_named_by_key_and_class(body, told, key):
    with pytest.raises(SerializationError, match=f"^{told}") as caught:
        saved_checkpoint(CODEC, loaded(State(), parts=(Part(2, "c2", ormsgpack.packb(body)),)))
    assert caught.value.key == key


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────


WHOLE = [1, {"a": 1, "list": [1, 2, 3], "text": "some text", "set": {1, 2}}, {"cells": {"c": (1, 2)}}]


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ([3, [], "a", [0, 2]], "a", 2),
        ([3, [], "new", [0, (1,)]], "new", (1,)),
        ([3, [], "list", [1, 1, 2, [7, 8]]], "list", [1, 7, 8, 3]),
        ([3, [], "list", [2, 0, [0, 9], 2, [0, 8]]], "list", [9, 2, 8]),
        ([3, [], "text", [4, 9, " and more"]], "text", "some text and more"),
        ([3, [], "set", [5, [1], [5]]], "set", {2, 5}),
        ([0, {"b": 1}], "b", 1),
    ],
)
def test_a_change_makes_the_value_of_the_one_before(change, key, value):
    found = saved_checkpoint(CODEC, changed(WHOLE, [1, [change, None, None]])).state
    assert same(found.values[key], value)
    assert found.cells == {"c": (1, 2)}


def test_values_cells_and_writes_change_each_on_their_own():
    bodies = (
        WHOLE,
        [1, [[3, ["a", "text", "set"]], [3, [], "c", [1, 2, 2, [3]]], [1, 0, 0, [("k", 1)]]]],
        [1, [None, [3, ["c"]], [1, 1, 1, [("k", 2)]]], {"sends": [5]}],
    )
    found = changed(*bodies)
    found.checkpoint.header = packed({"v": 1, "sends": [["w", None]]})
    state = saved_checkpoint(CODEC, found).state
    assert same(state, State(values={"list": [1, 2, 3]}, written=(("k", 1), ("k", 2)), sends=(Send("w", 5),)))


def test_what_a_send_carries_is_never_inherited():
    found = changed([1, {}, {"sends": [5], "carried": [["t", "failed", "", "x"]]}], [1, [None, None, None]])
    state = saved_checkpoint(CODEC, found).state
    assert (state.sends, state.carried) == ((), ())


@pytest.mark.parametrize(
    "change",
    [
        [],
        [9, 1],
        [0],
        ["0", 1],
        "text",
        [1, 0, 0, []],
        [2, 0, [0, 1]],
        [4, 3, "x"],
        [5, [], [1]],
        [6, [0, 1]],
        [3, ["gone"]],
        [3, 5],
        [3, [], "a"],
        [3, [], "list", [1, 2, 9, []]],
        [3, [], "list", [1, 2, 1, []]],
        [3, [], "list", [1, -1, 1, []]],
        [3, [], "list", [2, 3, [0, 1]]],
        [3, [], "list", [2, 0]],
        [3, [], "list", [3, []]],
        [3, [], "list", [4, 3, "x"]],
        [3, [], "text", [4, 8, "x"]],
        [3, [], "text", [1, 0, 0, []]],
        [3, [], "text", [6, [0, 1]]],
        [3, [], "set", [1, 0, 0, []]],
        [3, [], "set", [5, [], [[]]]],
        [3, [], "new", [1, 0, 0, [1]]],
    ],
    ids=str,
)
def test_a_change_that_does_not_fit_is_refused(change):
    with pytest.raises(SerializationError, match=r"a stored change|checkpoint's values aren't"):
        saved_checkpoint(CODEC, changed(WHOLE, [1, [change, None, None]]))


def test_what_stands_before_a_broken_part_does_not_hide_it():
    broken = changed(WHOLE, [1, [None, None, None]])
    broken.parts = (broken.parts[0], broken.parts[1]._replace(payload=b"\xc1"))
    with pytest.raises(SerializationError, match="these bytes are no stored value"):
        saved_checkpoint(CODEC, broken)


# ── the header ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_header_says_everything_but_values():
    header = read_header(CODEC, header_bytes(CODEC, FULL, {"user": "ada", "tags": ("x",)}, 1234))
    bare = bare_state(FULL.step, header)
    for field in dataclasses.fields(State):
        if field.name not in ("values", "cells", "written", "carried", "sends"):
            assert getattr(bare, field.name) == getattr(FULL, field.name)
    limits = [(send.node, None if send.timeout is None else send.timeout.run_timeout) for send in bare.sends]
    assert limits == [("w", None), ("w", 2.5)]
    assert header["metadata"] == {"user": "ada", "tags": ("x",)}
    assert header["size"] == 1234


def test_metadata_comes_back_with_the_checkpoint():
    header = header_bytes(CODEC, State(), {"user": "ada"})
    assert saved_checkpoint(CODEC, loaded(State(), header=header)).metadata == {"user": "ada"}
    assert saved_checkpoint(CODEC, loaded(State())).metadata == {}


def test_an_empty_header_is_a_few_bytes():
    assert read_header(CODEC, header_bytes(CODEC, State())) == {}
    assert len(header_bytes(CODEC, State())) < 5


def test_metadata_that_cannot_be_stored_is_refused():
    with pytest.raises(SerializationError, match=r"metadata\.client: "):
        header_bytes(CODEC, State(), {"client": object()})


# ── namespaces ───────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.text("ab|%257C", max_size=4), max_size=4).map(tuple))
def test_a_namespace_comes_back_from_its_text(namespace):
    assert namespace_levels(namespace_text(namespace)) == namespace


@given(*[st.lists(st.text("a|%", max_size=3), max_size=3).map(tuple)] * 2)
def test_different_namespaces_have_different_texts(one, other):
    assert (namespace_text(one) == namespace_text(other)) is (one == other)


def test_a_namespace_reads_well():
    assert namespace_text(()) == ""
    assert namespace_text(("research:3", "write:1.0")) == "research:3|write:1.0"


# ── a sample of version 1, as it is kept ─────────────────────────────────────────────────────────────────────

HEADER_1 = bytes.fromhex(
    "8ea17601a364756592a161a162a573656e64739292a177c092a177cb4004000000000000a56a6f696e7381a3612b6291a161"
    "a8646566657272656491a46c617374a7746f756368656491a56f74686572ac7061757365645f616674657291a16ea372616e"
    "92a161a162a66272616e6368a3333e34a66d656d6f727981a3737562a26339a56f776e6572a57375623a37a66f726967696e"
    "a26330a86d6574616461746181a475736572a3616461a473697a6528"
)
BODY_1 = bytes.fromhex(
    "930183a5636f756e7401a76f6464206b6579c706109201d5129102a86d657373616765739182a4726f6c65a475736572a763"
    "6f6e74656e74a2686984a563656c6c7382a5746f7069639201d5109102a762617272696572c7031291a161a7777269747465"
    "6e93c70c1092a86d657373616765739101c7271092a5636f756e74c71d4092b26a756e63747572653a4f7665727772697465"
    "9181a576616c756503c7251092a4676f6e65c71c4092b96a756e63747572653a4d41524b5f464f525f52454d4f56414cc0a5"
    "73656e64739281a178d5109101c0a7636172726965649294a3613a38a4646f6e65a0d8109391d71092a5636f756e740291a1"
    "629094a3623a38a66661696c6564a0a46f6f7073"
)
RECORD_1 = bytes.fromhex("9201d8109391d71092a5636f756e740291a16290")


def test_version_1_is_read_and_written_as_it_was():
    """Before nested graphs said what they were made in, and routes could be left for later."""
    full = dataclasses.replace(FULL, around=None, edited=(), unrouted=())
    record = full.carried[0]
    kept = record_bytes(CODEC, record)
    assert (header_bytes(CODEC, full, {"user": "ada"}, 40), body_bytes(full), kept.content) == (
        HEADER_1,
        BODY_1,
        RECORD_1,
    )
    sample = loaded(full, kept._replace(content=RECORD_1), header=HEADER_1, parts=(Part(2, "c2", BODY_1),))
    found = saved_checkpoint(CODEC, sample)
    assert same(found.state, full)
    assert same(found.records, [record])
