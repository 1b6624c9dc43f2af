"""What is encrypted opens at its own place with its own key, and nowhere else; and keys rotate."""

import asyncio
import base64
import contextlib
import inspect
import operator
import secrets
import sqlite3
import sys
from dataclasses import replace
from typing import Annotated, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture import END, START, Command, InMemorySaver, StateGraph, interrupt, task
from juncture.errors import ConfigError, DecryptionError, GraphBuildError, SerializationError
from juncture.savers.base import Saver, StoredCheckpoint, StoredRecord
from juncture.savers.encrypted import EncryptedSaver, KeyRing
from juncture.savers.sqlite import SqliteSaver

OLD, NEW, OTHER = bytes(range(32)), bytes(range(1, 33)), bytes(range(2, 34))
RING = KeyRing({"k": NEW})
SECRET = b"4111 1111 1111 1111"
RECORDS = (
    StoredRecord("task", "done", "", b"content of done " + SECRET),
    StoredRecord("task", "call", "charge\x1f" + SECRET.decode(), b"content of call " + SECRET),
    StoredRecord("other", "call", "charge\x1f" + SECRET.decode(), b""),
)


def stored(place, thread_id="t", namespace="", **columns):
    made = StoredCheckpoint(
        thread_id=thread_id,
        namespace=namespace,
        checkpoint_id=f"c{place}",
        parent_id=f"c{place - 1}" if place > 1 else None,
        step=place,
        source="loop",
        run_id="run",
        created_at=1.5,
        seq=place,
        builds_on=((1, place - 1),) if place > 1 else (),
        header=b"header %d " % place + SECRET,
    )
    return replace(made, **columns)


def filled(ring=RING, threads=("t",), namespaces=("", "n")):
    """A saver with two checkpoints in each series, records beside both, and what keeps them."""
    inner = InMemorySaver()
    saver = EncryptedSaver(inner, ring)
    for thread_id in threads:
        for namespace in namespaces:
            for place in (1, 2):
                made = stored(place, thread_id, namespace)
                saver.put(made, b"payload %d " % place + SECRET, follows=made.parent_id)
                saver.put_records(thread_id, namespace, made.checkpoint_id, RECORDS)
    return saver, inner


def forged(inner, change, thread_id="t", namespace=""):
    """A saver with the rows of one series, after somebody changed them in the storage."""
    rows = []
    for found in reversed(inner.history(thread_id, namespace, records=True)):
        (part,) = inner.parts(thread_id, namespace, ((found.checkpoint.seq,) * 2,))
        rows.append((found.checkpoint, part.payload, list(found.records)))
    rows = change(rows)
    other = InMemorySaver()
    for place, (checkpoint, payload, records) in enumerate(rows):
        follows = rows[place - 1][0].checkpoint_id if place else None
        other.put(checkpoint, payload, follows=follows)
        other.put_records(checkpoint.thread_id, checkpoint.namespace, checkpoint.checkpoint_id, records)
    return other


def refused(inner, *, match, ring=RING, thread_id="t", namespace="", checkpoint_id="c2"):
    with pytest.raises(DecryptionError, match=match) as caught:
        EncryptedSaver(inner, ring).load(thread_id, namespace, checkpoint_id)
    message = str(caught.value)
    assert caught.value.thread_id == thread_id
    assert repr(thread_id) in message
    assert checkpoint_id in message
    assert "backup" in message
    assert SECRET.decode() not in message


# ── what is in the storage ───────────────────────────────────────────────────────────────────────────────────


def test_nothing_that_was_given_as_bytes_or_as_a_name_is_in_the_storage():
    saver, inner = filled()
    found = inner.load("t")
    kept = [found.checkpoint.header, *(part.payload for part in found.parts)]
    kept += [part for r in found.records for part in (r.content, r.name.encode())]
    assert len(kept) == 9
    for content in kept:
        assert SECRET not in content
        assert b"charge" not in content
        assert b"header" not in content
        assert b"content" not in content
    back = saver.load("t")
    assert back.records == RECORDS
    assert [part.payload for part in back.parts] == [b"payload 1 " + SECRET, b"payload 2 " + SECRET]
    assert back.checkpoint == stored(2)


def test_nothing_is_encrypted_alike_twice_and_equal_names_are_not_seen_to_be_equal():
    _, one = filled()
    _, other = filled()
    first, second = one.load("t"), other.load("t")
    assert first.checkpoint.header != second.checkpoint.header
    assert first.parts[0].payload != second.parts[0].payload
    assert [r.content for r in first.records] != [r.content for r in second.records]
    assert [r.name for r in first.records] == [r.name for r in second.records]  # they identify the record
    everywhere = {r.name for found in one.history("t", records=True) for r in found.records if r.name}
    everywhere |= {r.name for r in one.load("t", "n").records if r.name}
    assert len(everywhere) == 6


def test_saving_a_record_again_replaces_it():
    saver, inner = filled()
    again = RECORDS[1]._replace(content=b"other")
    saver.put_records("t", "", "c2", [again, RECORDS[0]])
    assert saver.load("t").records == (RECORDS[0], again, RECORDS[2])
    assert len(inner.load("t").records) == 3


# ── moved, changed, made up ──────────────────────────────────────────────────────────────────────────────────


def test_rows_that_nobody_touched_are_read():
    _, inner = filled()
    again = EncryptedSaver(forged(inner, lambda rows: rows), RING)
    assert again.load("t").records == RECORDS
    assert [found.checkpoint for found in again.history("t")] == [stored(2), stored(1)]


def columns(**changed):
    return lambda rows: [rows[0], (replace(rows[1][0], **changed), *rows[1][1:])]


@pytest.mark.parametrize(
    "changed",
    [
        {"parent_id": None},
        {"parent_id": "c0"},
        {"step": 3},
        {"source": "input"},
        {"run_id": "another"},
        {"created_at": 1.25},
        {"builds_on": ()},
        {"builds_on": ((2, 1),)},
        {"header": b""},
    ],
    ids=str,
)
def test_a_changed_column_is_refused(changed):
    _, inner = filled()
    refused(forged(inner, columns(**changed)), match="header of checkpoint c2")


def test_no_parent_is_another_than_any_parent():
    inner = InMemorySaver()
    for parent_id in (None, "", "-", "+"):
        made = stored(1, parent_id=parent_id)
        inner.delete_thread("t")
        EncryptedSaver(inner, RING).put(made, b"", follows=None)
        sealed = inner.load("t")
        for other in (None, "", "-", "+"):
            inner.delete_thread("t")
            inner.put(replace(sealed.checkpoint, parent_id=other), sealed.parts[0].payload, follows=None)
            if other == parent_id:
                assert EncryptedSaver(inner, RING).load("t").checkpoint == made
            else:
                refused(inner, checkpoint_id="c1", match="header of checkpoint c1")


def test_what_the_thread_held_before_it_was_deleted_is_refused_in_its_new_checkpoints():
    saver, inner = filled()
    (former,) = inner.parts("t", "", ((1, 1),))
    saver.delete_thread("t")
    saver.put(stored(1, checkpoint_id="d1"), b"new", follows=None)

    def change(rows):
        return [(rows[0][0], former.payload, rows[0][2])]

    assert saver.load("t").parts[0].payload == b"new"
    refused(
        forged(inner, change),
        checkpoint_id="d1",
        match="part 1, of checkpoint d1, .* moved there from elsewhere",
    )


@pytest.mark.parametrize("place", [("u", ""), ("t", "n"), ("t", "N"), ("", "t")])
def test_a_thread_or_namespace_under_another_name_is_refused(place):
    _, inner = filled()

    def move(rows):
        return [(replace(c, thread_id=place[0], namespace=place[1]), p, r) for c, p, r in rows]

    refused(forged(inner, move), thread_id=place[0], namespace=place[1], match="moved there from elsewhere")


def swap_headers(rows):
    (one, *a), (two, *b) = rows
    return [(replace(one, header=two.header), *a), (replace(two, header=one.header), *b)]


def swap_payloads(rows):
    (one, first, a), (two, second, b) = rows
    return [(one, second, a), (two, first, b)]


def swap_records(rows):
    (one, first, a), (two, second, b) = rows
    return [(one, first, b), (two, second, a)]


def swap_contents(rows):
    one, (two, second, (done, call, other)) = rows
    beside = [done._replace(content=call.content), call._replace(content=done.content), other]
    return [one, (two, second, beside)]


def swap_tasks(rows):
    one, (two, second, (done, call, other)) = rows
    return [one, (two, second, [done, call._replace(task_id="other"), other._replace(task_id="task")])]


def swap_names(rows):
    one, (two, second, (done, call, other)) = rows
    return [one, (two, second, [done, call._replace(name=other.name), other._replace(name=call.name)])]


def rename(rows):
    one, (two, second, (done, *others)) = rows
    return [one, (two, second, [done._replace(name="made up"), *others])]


def other_kind(rows):
    one, (two, second, (done, *others)) = rows
    return [one, (two, second, [done._replace(kind="failed"), *others])]


def header_as_payload(rows):
    one, (two, _, records) = rows
    return [one, (two, two.header, records)]


def payload_as_record(rows):
    one, (two, second, (done, *others)) = rows
    return [one, (two, second, [done._replace(content=second), *others])]


def record_as_header(rows):
    one, (two, second, records) = rows
    return [one, (replace(two, header=records[0].content), second, records)]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (swap_headers, "header of"),
        (swap_payloads, "part 1"),
        (swap_records, "record 'done'"),
        (swap_contents, "record 'done'"),
        (swap_tasks, "record 'call'"),
        (swap_names, "record 'call'"),
        (rename, "record 'done'"),
        (other_kind, "record 'failed'"),
        (header_as_payload, "part 2"),
        (payload_as_record, "record 'done'"),
        (record_as_header, "header of"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_stands_elsewhere_in_its_thread_is_refused(change, what):
    _, inner = filled()
    moved = forged(inner, change)
    found = EncryptedSaver(inner, RING).load("t", "", "c2")
    with pytest.raises(DecryptionError, match=rf"^thread 't': (the )?{what}.* moved there from elsewhere"):
        EncryptedSaver(moved, RING).load("t")
    assert found.records == RECORDS


@pytest.mark.parametrize("whose", [("u", ""), ("t", "n")])
def test_what_stood_at_the_same_place_of_another_series_is_refused(whose):
    _, inner = filled(threads=("t", "u"))
    there = inner.load(*whose)

    def take(what):
        def change(rows):
            one, (two, payload, records) = rows
            if what == "header":
                return [one, (replace(two, header=there.checkpoint.header), payload, records)]
            if what == "part":
                return [one, (two, there.parts[-1].payload, records)]
            return [one, (two, payload, list(there.records))]

        return change

    for what in ("header", "part", "record"):
        refused(forged(inner, take(what)), match=f"{what}.* moved there from elsewhere")


@pytest.mark.parametrize("what", ["header", "part", "record"])
def test_what_is_not_encrypted_is_refused(what):
    _, inner = filled()

    def change(rows):
        one, (two, payload, records) = rows
        if what == "header":
            two = replace(two, header=b"\x81\xa1v\x01")
        elif what == "part":
            payload = b"\x92\x01\x80"
        else:
            records[0] = records[0]._replace(content=b"")
        return [one, (two, payload, records)]

    refused(forged(inner, change), match=f"{what}.*isn't encrypted.*Whoever can write")


def test_what_the_saver_inside_wrote_alone_is_refused_and_what_this_wrote_is_no_value_to_it():
    inner = InMemorySaver()
    inner.put(stored(1), b"\x92\x01\x80", follows=None)
    refused(inner, checkpoint_id="c1", match="isn't encrypted")


class Confused(InMemorySaver):
    """Gives another checkpoint than it was asked for."""

    def load(self, thread_id, namespace="", checkpoint_id=None, *, known=None):
        return super().load(thread_id, namespace, checkpoint_id and "c1", known=known)


class Misled(InMemorySaver):
    """Gives what another thread holds."""

    def load(self, thread_id, namespace="", checkpoint_id=None, *, known=None):
        return super().load("t", namespace, checkpoint_id, known=known)

    def history(self, thread_id, namespace="", **options):
        return super().history("t", namespace, **options)

    def parts(self, thread_id, namespace, spans):
        return super().parts("t", namespace, spans)


def test_another_checkpoint_than_the_one_asked_for_is_refused():
    inner = Confused()
    saver = EncryptedSaver(inner, RING)
    for place in (1, 2):
        saver.put(stored(place), b"", follows=stored(place).parent_id)
    refused(inner, match="c2 can't be decrypted: it isn't what its place holds, which is c1")
    assert saver.load("t").checkpoint == stored(2)


def test_what_is_asked_for_decides_and_not_what_is_answered():
    inner = Misled()
    saver = EncryptedSaver(inner, RING)
    saver.put(stored(1), b"", follows=None)
    for ask in (saver.load, saver.history, lambda thread_id: saver.parts(thread_id, "", ((1, 1),))):
        assert ask("t")
        with pytest.raises(DecryptionError, match=r"^thread 'u': "):
            ask("u")


def test_a_listing_shows_the_others_and_nothing_of_the_thread_that_cannot_be_read(caplog):
    saver, inner = filled(threads=("a", "b", "c"), namespaces=("",))
    lease = saver.acquire_lease("b", "h", "k", None)
    inner.put(stored(3, "b", run_id="forged", created_at=9.5), b"", follows="c2", records=RECORDS)
    inner.put_records("b", "", "c3", RECORDS)
    for listing in (lambda: saver.threads(), lambda: asyncio.run(saver.athreads())):
        caplog.clear()
        one, two, three = listing()
        assert [one.thread_id, two.thread_id, three.thread_id] == ["a", "b", "c"]
        assert one.head.checkpoint == stored(2, "a")
        assert two.head.checkpoint == StoredCheckpoint("b", "", "c3", None, 0, "", "", 0.0, 3, (), b""), (
            "nothing that may have been changed"
        )
        assert (two.head.records, two.lease) == ((), lease)
        assert three.head.checkpoint == stored(2, "c")
        (said,) = caplog.messages
        assert said.startswith(
            "thread 'b': the header of checkpoint c3 (or one of its columns) can't be decrypted"
        )
    assert [one.thread_id for one in saver.threads(limit=1)] == ["a"]
    with pytest.raises(DecryptionError, match=r"^thread 'b': "):
        saver.load("b")


class Number(TypedDict):
    n: Annotated[int, operator.add]


def test_graphs_list_prune_and_recover_around_a_thread_that_was_tampered_with(caplog):
    inner = InMemorySaver()
    saver = EncryptedSaver(inner, RING)
    graph = (
        StateGraph(Number)
        .add_node("a", lambda state: {"n": 1})
        .add_node("b", lambda state: {"n": 1})
        .add_edge(START, "a")
        .add_edge("a", "b")
        .compile(saver, interrupt_before=["b"])
    )
    for thread_id in ("t1", "t2", "t3"):
        graph.invoke({"n": 1}, thread_id=thread_id)
        saver.acquire_lease(thread_id, f"who ran {thread_id}", f"token {thread_id}", 0.0)
    tampered = inner.load("t2").checkpoint
    tampered.run_id = "forged"
    listed = graph.get_threads()
    assert [(one.thread_id, one.status) for one in listed] == [
        ("t1", "dead"),
        ("t2", "unreadable"),
        ("t3", "dead"),
    ]
    assert listed[1][2:6] == (0, listed[1].updated_at, (), ())
    assert graph.prune(keep=1) == 2, "one of each that can be read"
    recovered = {one.thread_id: one for one in graph.recover()}
    assert isinstance(recovered["t2"].error, DecryptionError)
    assert [recovered[name].error for name in ("t1", "t3")] == [None, None]
    assert [lease.token for lease in saver.leases()] == ["token t2"], "it is as it was found"


SEALED = RING.seal(SECRET, ("part", "t", "", "1", "c1"))


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_every_changed_bit_is_noticed(bit):
    for place in range(len(SEALED)):
        changed = bytearray(SEALED)
        changed[place] ^= 1 << bit
        with pytest.raises(DecryptionError):
            RING.open(bytes(changed), ("part", "t", "", "1", "c1"))
    assert RING.open(SEALED, ("part", "t", "", "1", "c1")) == SECRET


def test_whatever_is_missing_or_too_much_is_noticed():
    for end in range(len(SEALED)):
        with pytest.raises(DecryptionError):
            RING.open(SEALED[:end], ("part", "t", "", "1", "c1"))
    with pytest.raises(DecryptionError, match="changed"):
        RING.open(SEALED + b"\x00", ("part", "t", "", "1", "c1"))


def test_a_newer_version_is_told_from_damage():
    with pytest.raises(DecryptionError, match="version 2 of the format"):
        RING.open(SEALED[:1] + b"\x02" + SEALED[2:], ("part", "t", "", "1", "c1"))


@given(st.binary(max_size=80))
def test_bytes_that_were_made_up_are_refused(made_up):
    for stored_bytes in (made_up, b"\xc1\x01" + made_up, b"\xc1\x01\x01k" + made_up):
        with pytest.raises(DecryptionError):
            RING.open(stored_bytes, ())


TEXTS = st.lists(st.text(st.characters(codec=None), max_size=3), max_size=4).map(tuple)


@given(TEXTS, TEXTS)
def test_different_places_never_look_alike(one, other):
    sealed = RING.seal(b"x", one)
    assert RING.open(sealed, one) == b"x"
    if one != other:
        with pytest.raises(DecryptionError):
            RING.open(sealed, other)
        assert RING.pseudonym("n", one) != RING.pseudonym("n", other)
    joined = ("".join(one),)
    if joined != one:
        with pytest.raises(DecryptionError):
            RING.open(sealed, joined)


def test_what_is_too_large_for_the_cipher_is_refused_before_it_is_saved():
    inner = InMemorySaver()
    with pytest.raises(SerializationError, match=r"^thread 't': a part of 2147483648 bytes .*2 GiB"):
        EncryptedSaver(inner, RING).put(
            stored(1), bytes(2**31), follows=None
        )  # zeros that were never touched
    assert inner.load("t") is None


SWAP = "(SELECT {0} FROM {1} AS other WHERE other.rowid != {1}.rowid LIMIT 1)"


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE series SET thread_id = 'w' WHERE thread_id = 't'"],
        [
            "UPDATE series SET thread_id = 'x' WHERE thread_id = 't'",
            "UPDATE series SET thread_id = 't' WHERE thread_id = 'u'",
            "UPDATE series SET thread_id = 'u' WHERE thread_id = 'x'",
        ],
        [
            "UPDATE series SET namespace = 'x' WHERE namespace = 'n'",
            "UPDATE series SET namespace = 'n' WHERE namespace = ''",
            "UPDATE series SET namespace = '' WHERE namespace = 'x'",
        ],
        [f"UPDATE parts SET payload = {SWAP.format('payload', 'parts')}"],
        [f"UPDATE records SET content = {SWAP.format('content', 'records')}"],
        ["UPDATE records SET task_id = 'task' WHERE task_id = 'other' AND kind = 'call'"],
        ["UPDATE records SET name = name || '0'"],
        ["UPDATE checkpoints SET header = (SELECT max(header) FROM checkpoints)"],
        ["UPDATE checkpoints SET header = (SELECT min(payload) FROM parts)"],
        ["UPDATE checkpoints SET header = x'81a17601'"],
        ["UPDATE parts SET payload = x'920180'"],
        ["UPDATE parts SET payload = substr(payload, 1, length(payload) - 1)"],
        ["UPDATE parts SET payload = CAST(payload || x'00' AS BLOB)"],
        ["UPDATE checkpoints SET step = step + 1"],
        ["UPDATE checkpoints SET source = 'fork'"],
        ["UPDATE checkpoints SET created_at = created_at + 1"],
        ["UPDATE checkpoints SET parent_id = NULL"],
    ],
    ids=lambda statements: statements[0][7:60],
)
def test_rows_of_a_real_database_are_refused_once_somebody_changed_them(statements, tmp_path):
    def opened():
        return EncryptedSaver(SqliteSaver(tmp_path / "runs.db"), RING)

    series = [(thread_id, namespace) for thread_id in ("t", "u") for namespace in ("", "n")]
    with opened() as saver:
        for thread_id, namespace in series:
            for place in (1, 2):
                made = stored(place, thread_id, namespace)
                saver.put(made, b"payload %d" % place, follows=made.parent_id)
                saver.put_records(thread_id, namespace, made.checkpoint_id, RECORDS)
    with opened() as saver:
        assert saver.load("t").checkpoint == stored(2)
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.db")) as database, database:
        for statement in statements:
            database.execute(statement)
    with opened() as saver, pytest.raises(DecryptionError):
        for thread_id, namespace in [*series, ("w", "")]:
            saver.load(thread_id, namespace)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_keys_rotate():
    _, inner = filled(KeyRing({"old": OLD}))
    rotated = EncryptedSaver(inner, KeyRing({"new": NEW, "old": OLD}))
    assert rotated.load("t").records == RECORDS
    again = RECORDS[1]._replace(content=b"later")
    rotated.put_records("t", "", "c2", [again])
    rotated.put(stored(3), b"", follows="c2")
    assert rotated.load("t", "", "c2").records == (RECORDS[0], again, RECORDS[2])
    assert len(inner.load("t", "", "c2").records) == 3  # the digests of names are still those
    only_new = KeyRing({"new": NEW})
    assert EncryptedSaver(inner, only_new).load("t", known="c3").checkpoint == stored(3)
    refused(inner, ring=only_new, match=r"key 'old', and the key ring only has 'new'\. Add that key")


def test_the_other_programs_may_know_a_key_before_it_is_used():
    ring = KeyRing({"new": NEW, "old": OLD}, current="old")
    assert ring.current == "old"
    assert ring.ids == ("new", "old")
    _, inner = filled(ring)
    assert EncryptedSaver(inner, KeyRing({"old": OLD})).load("t").records == RECORDS
    later = EncryptedSaver(inner, KeyRing({"new": NEW, "old": OLD}))
    later.put(stored(3), b"", follows="c2")
    assert EncryptedSaver(inner, ring).load("t").checkpoint == stored(3)


def test_a_record_whose_name_was_digested_with_a_key_that_is_gone_is_replaced_all_the_same():
    both = KeyRing({"new": NEW, "old": OLD})
    _, inner = filled(both)
    saver = EncryptedSaver(inner, KeyRing({"new": NEW}))
    again = RECORDS[1]._replace(content=b"later")
    saver.put_records("t", "", "c2", [again])
    assert saver.load("t").records == (RECORDS[0], again, RECORDS[2])


def test_another_key_of_the_same_id_opens_nothing():
    _, inner = filled()
    refused(inner, ring=KeyRing({"k": OTHER}), match="the key 'k' isn't the one that encrypted it")


@pytest.mark.parametrize(
    ("keys", "current", "wrong"),
    [
        ({}, None, "at least one key"),
        (OLD, None, "at least one key"),
        ({"a": OLD[:16]}, None, "the key 'a' is 16 bytes, not 32"),
        ({"a": OLD, "b": "x" * 32}, None, "the key 'b' is a str, not 32"),
        ({"": OLD}, None, "id of a key"),
        ({"é" * 128: OLD}, None, "id of a key"),
        ({"\ud800": OLD}, None, "id of a key"),
        ({1: OLD}, None, "id of a key"),
        ({"a": OLD}, "b", "no key 'b' that could be the current one: it has 'a'"),
    ],
)
def test_a_ring_that_cannot_be_right_is_refused(keys, current, wrong):
    with pytest.raises(ConfigError, match=wrong):
        KeyRing(keys, current=current)


def test_a_ring_shows_no_key():
    assert repr(KeyRing({"a": OLD, "b": NEW})) == "KeyRing('a', 'b'; current='a')"
    with pytest.raises(ConfigError) as caught:
        KeyRing({"a": OLD + NEW})
    assert repr(OLD)[2:-1] not in str(caught.value)


def encoded(key):
    return base64.b64encode(key).decode()


def test_keys_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("JUNCTURE_KEYS", f"new:{encoded(NEW)}, old:{encoded(OLD)}\n")
    ring = KeyRing.from_env()
    assert (ring.ids, ring.current) == (("new", "old"), "new")
    assert KeyRing({"new": NEW}).open(ring.seal(b"x", ()), ()) == b"x"
    monkeypatch.setenv("OTHER", f"a:{encoded(OLD)}")
    assert KeyRing.from_env("OTHER").ids == ("a",)
    monkeypatch.setenv("JUNCTURE_KEYS", f"new:{encoded(NEW)},old:{encoded(OLD)}")
    assert KeyRing.from_env(current="old").current == "old"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        encoded(NEW),
        f"a:{encoded(NEW)},",
        f"a:{encoded(NEW)},a:{encoded(OLD)}",
        f"a:{encoded(NEW[:16])}",
        f"a:{encoded(NEW)[:-1]}",
        "a:secret password!",
        "a:é",
    ],
)
def test_an_environment_that_holds_no_keys_is_an_error_that_does_not_show_it(text, monkeypatch):
    monkeypatch.setenv("JUNCTURE_KEYS", text)
    with pytest.raises(ConfigError, match="JUNCTURE_KEYS") as caught:
        KeyRing.from_env()
    for entry in text.split(","):
        assert not entry.partition(":")[2] or entry.partition(":")[2] not in str(caught.value)
    assert encoded(NEW) not in str(caught.value)
    monkeypatch.delenv("JUNCTURE_KEYS")
    with pytest.raises(ConfigError, match="isn't set"):
        KeyRing.from_env()


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(GraphBuildError, match=r"juncture\[encrypt\]"):
        KeyRing({"a": OLD})


# ── around other savers, and under graphs ────────────────────────────────────────────────────────────────────


def test_no_twin_is_inherited_so_that_each_is_the_one_of_the_saver_inside():
    twins = [
        name for name, member in vars(Saver).items() if inspect.iscoroutinefunction(member) and name[0] != "_"
    ]
    assert len(twins) > 10
    assert [name for name in twins if name not in vars(EncryptedSaver)] == []


def test_it_is_as_the_saver_inside_says():
    class Slow(InMemorySaver):
        blocking = True

    saver = EncryptedSaver(Slow(lease_ttl=7.0), RING)
    assert (saver.blocking, saver.lease_ttl) == (True, 7.0)
    assert EncryptedSaver(InMemorySaver(), RING).blocking is False


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    card: str


@task
def charge(card: str) -> str:
    return f"charged {card}"


def pay(state):
    receipt = charge(state["card"]).result()
    return {"log": [receipt, interrupt(f"really, {state['card']}?")]}


def test_a_thread_goes_on_after_a_pause_with_rotated_keys_and_leaves_no_trace_of_its_values():
    inner = InMemorySaver()
    builder = StateGraph(State).add_node(pay).add_edge(START, "pay").add_edge("pay", END)
    card = secrets.token_hex(8)
    app = builder.compile(checkpointer=EncryptedSaver(inner, KeyRing({"old": OLD})))
    paused = app.invoke({"card": card}, thread_id="t")
    assert paused.interrupts[0].value == f"really, {card}?"
    question = paused.interrupts[0].id
    app = builder.compile(checkpointer=EncryptedSaver(inner, KeyRing({"new": NEW, "old": OLD})))
    result = app.invoke(Command(resume="yes"), thread_id="t")
    assert result["log"] == [f"charged {card}", "yes"]
    for found in inner.history("t", records=True):
        kept = repr(found.checkpoint) + repr(found.records) + repr(inner.parts("t", "", ((1, 99),)))
        assert card not in kept
        assert "charge" not in kept
        assert question not in kept
