"""Series, order, compare and set, names, records, parts, history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from juncture.errors import HeadMovedError, SaverError
from juncture.savers.base import Part, StoredCheckpoint, StoredRecord
from juncture.testing.saver_conformance.face import (
    STRANGE,
    UNKEEPABLE,
    A,
    B,
    C,
    Face,
    Law,
    checkpoint,
    collected,
    kept_or_refused,
    part_of,
    race,
    refuses,
)

LAWS: list[Law] = []
_law = collected(LAWS)


# ── series, order, compare and set ───────────────────────────────────────────────────────────────────────────


@_law
def _every_byte_and_column_comes_back(face: Face) -> None:
    made = face.series(3)
    for one in made:
        found = face.loaded("t", "", one.checkpoint_id)
        assert found.checkpoint == one, f"put {one}, loaded {found.checkpoint}"
        assert (found.head_id, found.head_seq) == (made[-1].checkpoint_id, 3), (
            "head_id and head_seq are the head's, whichever checkpoint was asked for"
        )
        assert found.records == ()
    assert face.loaded("t").checkpoint == made[-1], "load without an id gives the head"


@_law
def _payloads_of_any_size_and_content_come_back(face: Face) -> None:
    parent = None
    for place, payload in enumerate((b"", b"\x00", bytes(range(256)), b"\xff" * 3_000_000), 1):
        one = replace(checkpoint(place, parent_id=parent), header=payload[:70_000])
        face.put(one, payload, follows=parent)
        parent = one.checkpoint_id
        face.put_records("t", "", parent, [A._replace(content=payload)])
        found = face.loaded("t")
        assert found.parts == (Part(place, parent, payload),), (
            f"a payload of {len(payload)} bytes was altered"
        )
        assert found.records == (A._replace(content=payload),)
        assert found.checkpoint == one


@_law
def _what_is_not_there_is_none(face: Face) -> None:
    assert face.load("t") is None
    face.series(1)
    assert face.load("t", "", "another id") is None
    assert face.load("t", "another namespace") is None
    assert face.load("another thread") is None
    assert face.history("another thread") == []
    assert face.parts("another thread", "", ((1, 9),)) == []
    assert face.namespaces("another thread") == []


@_law
def _a_put_that_does_not_follow_the_head_stores_nothing(face: Face) -> None:
    first, second = face.series(2)
    for known in (None, first.checkpoint_id, "never there"):
        late = checkpoint(3, parent_id=known)
        error = refuses(
            HeadMovedError, lambda late=late, known=known: face.put(late, follows=known), f"follows={known!r}"
        )
        assert isinstance(error, HeadMovedError)
        assert error.thread_id == "t"
    refuses(
        HeadMovedError,
        lambda: face.put(checkpoint(1, thread_id="new"), follows="never there"),
        "a new thread",
    )
    assert [found.checkpoint for found in face.history("t")] == [second, first]
    assert face.parts("t", "", ((1, 9),)) == [part_of(first), part_of(second)]
    assert face.namespaces("new") == []
    assert face.load("new") is None


@_law
def _ids_ascend(face: Face) -> None:
    head = checkpoint(5, seq=1)
    face.put(head, follows=None)
    for place in (4, 5):
        late = checkpoint(place, seq=2, parent_id=head.checkpoint_id)
        refuses(
            SaverError, lambda late=late: face.put(late, follows=head.checkpoint_id), f"id {place} after id 5"
        )
    assert face.loaded("t").checkpoint == head
    assert face.parts("t", "", ((1, 9),)) == [part_of(head)]


@_law
def _places_ascend_by_one(face: Face) -> None:
    for seq in (0, 2, -1):
        refuses(SaverError, lambda seq=seq: face.put(checkpoint(1, seq=seq), follows=None), f"first {seq}")
    assert face.load("t") is None
    _, head = face.series(2)
    for seq in (1, 2, 4):
        late = checkpoint(9, seq=seq, parent_id=head.checkpoint_id)
        refuses(
            SaverError, lambda late=late: face.put(late, follows=head.checkpoint_id), f"place {seq} after 2"
        )
    assert len(face.history("t")) == 2
    face.put(checkpoint(9, seq=3), follows=head.checkpoint_id)


@_law
def _of_several_puts_that_follow_one_head_one_succeeds(face: Face) -> None:
    (head,) = face.series(1)

    def put(number: int) -> None:
        one = checkpoint(2 + number, seq=2, parent_id=head.checkpoint_id)
        face.put(
            one,
            follows=head.checkpoint_id,
            records=[A._replace(name=str(number))],
        )

    won = race(4, put, HeadMovedError)
    assert len(won) == 1, f"{len(won)} of 4 puts after one head succeeded"
    winner = checkpoint(2 + won[0], seq=2, parent_id=head.checkpoint_id)
    found = face.loaded("t")
    assert (found.checkpoint, found.parts) == (winner, (part_of(winner),))
    assert face.loaded("t", "", head.checkpoint_id).records == (A._replace(name=str(won[0])),)
    assert len(face.history("t")) == 2


@_law
def _of_several_first_puts_one_succeeds(face: Face) -> None:
    won = race(4, lambda number: face.put(checkpoint(1 + number, seq=1), follows=None), HeadMovedError)
    assert len(won) == 1, f"{len(won)} of 4 first puts of a thread succeeded"
    winner = checkpoint(1 + won[0], seq=1)
    assert [found.checkpoint for found in face.history("t")] == [winner]
    assert face.parts("t", "", ((1, 9),)) == [part_of(winner)]


@_law
def _going_back_makes_a_new_head_with_an_old_parent(face: Face) -> None:
    first, second = face.series(2)
    fork = checkpoint(7, seq=3, parent_id=first.checkpoint_id, builds_on=((1, 1),))
    face.put(fork, follows=second.checkpoint_id)
    found = face.loaded("t")
    assert (found.checkpoint, found.parts) == (fork, (part_of(first), part_of(fork)))
    assert face.loaded("t", "", second.checkpoint_id).checkpoint == second


@_law
def _a_parent_may_be_gone(face: Face) -> None:
    one = checkpoint(3, seq=1, parent_id=checkpoint(1).checkpoint_id)
    face.put(one, follows=None)
    assert face.loaded("t").checkpoint == one


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _threads_with_similar_names_are_different(face: Face) -> None:
    _keeps_apart(face, lambda place, name: checkpoint(place, seq=1, thread_id=name))
    for name in STRANGE:
        assert face.namespaces(name) == [""], f"thread {name!r}"
    face.delete_thread("acme")
    for name in STRANGE:
        assert (face.load(name) is None) is (name == "acme"), f"deleting 'acme' is about {name!r} as well"


@_law
def _namespaces_with_similar_names_are_different(face: Face) -> None:
    _keeps_apart(face, lambda place, name: checkpoint(place, seq=1, namespace=name))
    assert face.namespaces("t") == sorted(STRANGE), "sorted by code point"
    for name in STRANGE:
        assert len(face.history("t", name)) == 1, f"namespace {name!r}"


def _keeps_apart(face: Face, make: Callable[[int, str], StoredCheckpoint]) -> None:
    made = {name: make(place, name) for place, name in enumerate(STRANGE, 1)}
    for one in made.values():
        face.put(one, follows=None)
    for name, one in made.items():
        found = face.loaded(one.thread_id, one.namespace)
        assert found.checkpoint == one, f"what was put as {name!r} was found as {found.checkpoint}"
        assert found.head_id == one.checkpoint_id
        assert found.parts == (part_of(one),), f"{name!r}"


@_law
def _a_name_joins_with_no_other(face: Face) -> None:
    """Thread and namespace are two columns, whatever stands between them where they are kept."""
    pairs = [("a", "b:c"), ("a:b", "c"), ("a", "b/c"), ("a/b", "c"), ("a", "b|c"), ("a|b", "c"), ("a", "bc")]
    made = [
        checkpoint(n, seq=1, thread_id=t, namespace=ns) for n, (t, ns) in enumerate([*pairs, ("ab", "c")])
    ]
    for one in made:
        face.put(one, follows=None)
    for one in made:
        assert face.loaded(one.thread_id, one.namespace).checkpoint == one


@_law
def _text_of_any_kind_comes_back(face: Face) -> None:
    parent = None
    for seq, text in enumerate(STRANGE, 1):
        one = replace(checkpoint(seq), parent_id=text, source=text, run_id=text)
        face.put(one, follows=parent)
        parent = one.checkpoint_id
        record = StoredRecord(text, text, text, b"")
        face.put_records("t", "", parent, [record])
        found = face.loaded("t")
        assert (found.checkpoint, found.records) == (one, (record,)), f"{text!r} was altered"


@_law
def _a_name_is_kept_exactly_or_refused(face: Face) -> None:
    (head,) = face.series(1)
    for name in ("", *UNKEEPABLE):
        for one in (checkpoint(1, thread_id=name), checkpoint(1, thread_id="n", namespace=name)):
            if kept_or_refused(lambda one=one: face.put(one, follows=None)):
                found = face.loaded(one.thread_id, one.namespace)
                assert found.checkpoint == one, f"{name!r} was altered"
        record = StoredRecord(name, name, name, b"")
        if kept_or_refused(lambda record=record: face.put_records("t", "", head.checkpoint_id, [record])):
            assert record in face.loaded("t").records, f"{name!r} was altered"
    for name in UNKEEPABLE:
        one = replace(checkpoint(2), run_id=name, source=name)
        if kept_or_refused(lambda one=one: face.put(one, follows=head.checkpoint_id)):
            assert face.loaded("t").checkpoint == one, f"{name!r} was altered"
            face.delete_thread("t")
            face.put(head, follows=None)


@_law
def _an_id_is_never_a_pattern(face: Face) -> None:
    face.series(2)
    for hostile in ("' OR '1'='1", "%", "*", "../01980000-0000-7000-8000-000000000000", ""):
        assert face.load("t", "", hostile) is None, f"{hostile!r} found a checkpoint"


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _records_stand_beside_the_head(face: Face) -> None:
    first, second = face.series(2)
    face.put_records("t", "", second.checkpoint_id, [B, A])
    face.put_records("t", "", second.checkpoint_id, [])
    face.put_records("t", "", second.checkpoint_id, [C])
    assert face.loaded("t").records == (B, A, C), "in the order in which they were saved"
    assert face.loaded("t", "", second.checkpoint_id).records == (B, A, C)
    assert face.loaded("t", "", first.checkpoint_id).records == ()


@_law
def _a_record_saved_again_is_one_record(face: Face) -> None:
    (head,) = face.series(1)
    face.put_records("t", "", head.checkpoint_id, [A, C, B])
    face.put_records("t", "", head.checkpoint_id, [A])
    assert face.loaded("t").records == (A, C, B)
    newer = C._replace(content=b"newer")
    face.put_records("t", "", head.checkpoint_id, [newer])
    assert face.loaded("t").records == (A, newer, B), "the content is replaced, in its place"
    others = [A._replace(task_id="z"), A._replace(kind="call"), A._replace(name="n")]
    face.put_records("t", "", head.checkpoint_id, others)
    assert face.loaded("t").records == (A, newer, B, *others), "task, kind and name tell records apart"
    twice = [B._replace(content=b"1"), B._replace(content=b"2")]
    face.put_records("t", "", head.checkpoint_id, twice)
    assert face.loaded("t").records == (A, newer, twice[1], *others), "the later of two in one call stands"


@_law
def _a_put_stores_the_last_records_of_the_head_it_follows(face: Face) -> None:
    (head,) = face.series(1)
    face.put_records("t", "", head.checkpoint_id, [A, C])
    one = checkpoint(2, parent_id=head.checkpoint_id)
    newer = A._replace(content=b"newer")
    face.put(one, follows=head.checkpoint_id, records=[B, newer])
    assert face.loaded("t").records == (), "the new head has none"
    assert face.loaded("t", "", head.checkpoint_id).records == (newer, C, B)


@_law
def _records_of_several_workers_are_all_kept(face: Face) -> None:
    (head,) = face.series(1)

    def save(number: int) -> None:
        face.put_records("t", "", head.checkpoint_id, [A._replace(task_id=str(number)), B])

    assert len(race(4, save, None)) == 4
    found = face.loaded("t").records
    assert sorted(found) == sorted([*(A._replace(task_id=str(n)) for n in range(4)), B])


@_law
def _a_refused_put_stores_no_record(face: Face) -> None:
    first, second = face.series(2)
    late = checkpoint(3, parent_id=first.checkpoint_id)
    refuses(
        HeadMovedError,
        lambda: face.put(late, follows=first.checkpoint_id, records=[A]),
        "a put after an old head",
    )
    for wrong, what in ((checkpoint(1, seq=3), "an old id"), (checkpoint(3, seq=7), "a far place")):
        refuses(
            SaverError,
            lambda wrong=wrong: face.put(wrong, follows=second.checkpoint_id, records=[A]),
            what,
        )
    assert [found.records for found in face.history("t", records=True)] == [(), ()]
    assert face.parts("t", "", ((1, 9),)) == [part_of(first), part_of(second)]


@_law
def _the_first_put_takes_no_records(face: Face) -> None:
    refuses(SaverError, lambda: face.put(checkpoint(1), follows=None, records=[A]), "records without a head")
    assert face.load("t") is None
    assert face.namespaces("t") == []


@_law
def _what_is_no_longer_the_head_never_changes(face: Face) -> None:
    first, _ = face.series(2)
    for thread_id, namespace, checkpoint_id in (
        ("t", "", first.checkpoint_id),
        ("t", "", "never there"),
        ("t", "other", first.checkpoint_id),
        ("other", "", first.checkpoint_id),
    ):
        for records in ([A], []):
            refuses(
                HeadMovedError,
                lambda at=(thread_id, namespace, checkpoint_id), records=records: face.put_records(
                    *at, records
                ),
                f"put_records of {len(records)} beside {(thread_id, namespace, checkpoint_id)}",
            )
    assert [found.records for found in face.history("t", records=True)] == [(), ()]
    assert face.namespaces("other") == []


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _a_checkpoint_holds_the_parts_that_it_builds_on_and_its_own(face: Face) -> None:
    made = face.series(4)
    parts = [part_of(one) for one in made]
    for one in made:
        assert list(face.loaded("t", "", one.checkpoint_id).parts) == parts[: one.seq]
    alone = checkpoint(5, parent_id=made[-1].checkpoint_id)
    face.put(alone, follows=made[-1].checkpoint_id)
    assert face.loaded("t").parts == (part_of(alone),)
    mixed = checkpoint(6, parent_id=alone.checkpoint_id, builds_on=((3, 4), (1, 1), (5, 5)))
    face.put(mixed, follows=alone.checkpoint_id)
    found = face.loaded("t")
    assert found.checkpoint.builds_on == mixed.builds_on
    assert [part.seq for part in found.parts] == [3, 4, 1, 5, 6], "in the order that builds_on names"
    assert found.parts == (*parts[2:4], parts[0], part_of(alone), part_of(mixed))
    assert list(face.loaded("t", "", made[1].checkpoint_id).parts) == parts[:2]


@_law
def _parts_belong_to_their_series(face: Face) -> None:
    for thread_id, namespace in (("t", ""), ("t", "n"), ("u", "")):
        made = face.series(2, thread_id=thread_id, namespace=namespace)
        own = checkpoint(9, seq=3, thread_id=thread_id, namespace=namespace, builds_on=((1, 2),))
        face.put(own, thread_id.encode() + namespace.encode(), follows=made[-1].checkpoint_id)
    for thread_id, namespace in (("t", ""), ("t", "n"), ("u", "")):
        expected = thread_id.encode() + namespace.encode()
        assert face.loaded(thread_id, namespace).parts[-1].payload == expected
        assert face.parts(thread_id, namespace, ((3, 3),))[0].payload == expected


@_law
def _parts_that_the_caller_knows_are_not_read(face: Face) -> None:
    first, second = face.series(2)
    face.put_records("t", "", second.checkpoint_id, [A])
    full = face.loaded("t")
    found = face.loaded("t", known=second.checkpoint_id)
    assert found.parts == (), "known is the head: its parts aren't read"
    assert (found.checkpoint, found.records) == (second, (A,)), "everything else is"
    assert face.loaded("t", "", first.checkpoint_id, known=first.checkpoint_id).parts == ()
    for known in (first.checkpoint_id, "never there", ""):
        assert face.loaded("t", known=known) == full, f"the head isn't {known!r}"
    assert face.loaded("t", "", first.checkpoint_id, known=second.checkpoint_id).parts == (part_of(first),)


@_law
def _parts_are_found_by_their_places(face: Face) -> None:
    made = face.series(6)
    parts = [part_of(one) for one in made]
    for spans, expected in (
        ((), []),
        (((1, 6),), [1, 2, 3, 4, 5, 6]),
        (((2, 3),), [2, 3]),
        (((5, 5), (1, 2)), [1, 2, 5]),
        (((1, 3), (2, 4), (2, 2)), [1, 2, 3, 4]),
        (((5, 99),), [5, 6]),
        (((-5, 1), (0, 0), (99, 100)), [1]),
        (((4, 3),), []),
        (tuple((place, place) for place in range(1, 2_001, 2)), [1, 3, 5]),
    ):
        found = face.parts("t", "", spans)
        assert [part.seq for part in found] == expected, f"{spans}: ascending, each once"
        assert found == [parts[seq - 1] for seq in expected]


@_law
def _a_checkpoint_may_build_on_many_ranges(face: Face) -> None:
    made = face.series(15)
    spans = tuple((place, place) for place in range(15, 0, -2))
    one = checkpoint(16, parent_id=made[-1].checkpoint_id, builds_on=spans)
    face.put(one, follows=made[-1].checkpoint_id)
    found = face.loaded("t")
    assert found.checkpoint.builds_on == spans
    assert [part.seq for part in found.parts] == [*range(15, 0, -2), 16]


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _history_goes_from_the_newest_to_the_oldest(face: Face) -> None:
    made = face.series(5)
    face.series(2, namespace="other")
    newest_first = [one.checkpoint_id for one in reversed(made)]
    assert face.ids("t") == newest_first
    assert face.ids("t", limit=2) == newest_first[:2]
    assert face.ids("t", limit=0) == []
    assert face.ids("t", limit=99) == newest_first
    assert face.ids("t", before=made[3].checkpoint_id) == newest_first[2:]
    assert face.ids("t", before=made[3].checkpoint_id, limit=1) == newest_first[2:3]
    assert face.ids("t", before=made[0].checkpoint_id) == []
    assert face.ids("t", before=made[2].checkpoint_id + "~") == newest_first[2:], "`before` needn't be there"
    assert face.ids("t", before="'") == []
    assert face.ids("t", before="zzz") == newest_first
    assert face.ids("t", "other") == newest_first[3:], "only of its series"


@_law
def _history_gives_columns_always_and_records_when_asked(face: Face) -> None:
    first, second = face.series(2)
    face.put_records("t", "", second.checkpoint_id, [A])
    third = checkpoint(3, parent_id=second.checkpoint_id)
    face.put(third, follows=second.checkpoint_id, records=[C])
    face.put_records("t", "", third.checkpoint_id, [B])
    for records in (False, True):
        found = face.history("t", records=records)
        assert [one.checkpoint for one in found] == [third, second, first]
        assert [one.parts for one in found] == [(), (), ()], "a listing reads no parts"
        assert [(one.head_id, one.head_seq) for one in found] == [(third.checkpoint_id, 3)] * 3
        assert [one.records for one in found] == ([(B,), (A, C), ()] if records else [(), (), ()])
    assert [one.records for one in face.history("t", before=third.checkpoint_id, limit=1, records=True)] == [
        (A, C)
    ]
    older = face.history("t", before=second.checkpoint_id)
    assert [(one.head_id, one.head_seq) for one in older] == [(third.checkpoint_id, 3)]
