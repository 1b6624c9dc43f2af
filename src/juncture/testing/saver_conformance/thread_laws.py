"""Listings of threads, pruning, deleting, the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from juncture.errors import HeadMovedError, SaverError
from juncture.savers.base import StoredCheckpoint, StoredThread
from juncture.testing.saver_conformance.face import (
    STRANGE,
    UNKEEPABLE,
    A,
    B,
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


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _threads_are_listed_by_code_point(face: Face) -> None:
    names = [*STRANGE, "a", "B", "Z", "z", "ä", "_", "~"]
    for name in names:
        face.put(checkpoint(1, thread_id=name), follows=None)
    ordered = sorted(names)

    def listed(*, after: str | None = None, limit: int | None = None) -> list[str]:
        return [found.thread_id for found in face.threads(after=after, limit=limit)]

    assert listed() == ordered
    for limit in (0, 1, 5, 99):
        assert listed(limit=limit) == ordered[:limit]
    for place, name in enumerate(ordered):
        assert listed(after=name) == ordered[place + 1 :], f"after {name!r}"
    assert listed(after=ordered[3], limit=2) == ordered[4:6]
    assert listed(after="") == ordered
    for absent in ("acme-", "'", "%", "z~", "\U0010ffff"):
        assert listed(after=absent) == [name for name in ordered if name > absent], f"after {absent!r}"
    paged: list[str] = []
    while page := listed(after=paged[-1] if paged else None, limit=7):
        paged += page
    assert paged == ordered


@_law
def _a_listed_thread_has_its_head_its_records_and_its_lease(face: Face) -> None:
    assert face.threads() == []
    made = face.series(3, thread_id="b")
    face.put_records("b", "", made[2].checkpoint_id, [B, A])
    (plain,) = face.series(1, thread_id="a")
    face.series(1, thread_id="nested only", namespace="inner")
    face.series(2, thread_id="b", namespace="inner")
    lease = face.acquire_lease("b", "1", None)
    face.acquire_lease("leased only", "2", None)
    expected = [StoredThread("a", face.loaded("a"), None), StoredThread("b", face.loaded("b"), lease)]
    for one in expected:
        one.head.parts = ()
    assert face.threads() == expected
    found = face.threads()[1].head
    assert (found.checkpoint, found.head_id, found.head_seq) == (made[2], made[2].checkpoint_id, 3)
    assert (found.records, found.parts) == ((B, A), ())
    assert face.threads()[0].head.checkpoint == plain


# ── pruning ──────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _what_is_dropped_is_gone_and_what_others_need_stays(face: Face) -> None:
    made = face.series(3)
    parts = [part_of(one) for one in made]
    face.put_records("t", "", made[2].checkpoint_id, [A])
    face.drop("t", "", [made[0].checkpoint_id])
    assert face.load("t", "", made[0].checkpoint_id) is None
    for one in made[1:]:
        found = face.loaded("t", "", one.checkpoint_id)
        assert (found.checkpoint, list(found.parts)) == (one, parts[: one.seq])
    assert face.ids("t") == [made[2].checkpoint_id, made[1].checkpoint_id]
    assert face.parts("t", "", ((1, 9),)) == parts, "what a dropped checkpoint brought, others build on"
    assert face.loaded("t").records == (A,)
    fourth = checkpoint(4, parent_id=made[2].checkpoint_id)
    face.put(fourth, follows=made[2].checkpoint_id, records=[B])
    assert face.parts("t", "", ((1, 9),)) == [*parts, part_of(fourth)]
    face.drop("t", "", {made[2].checkpoint_id, made[0].checkpoint_id, "never there"})
    second = face.loaded("t", "", made[1].checkpoint_id)
    assert (second.checkpoint, list(second.parts)) == (made[1], parts[:2])
    assert face.parts("t", "", ((1, 9),)) == [*parts[:2], part_of(fourth)], "nothing needs the third"
    face.drop("t", "", (made[1].checkpoint_id,))
    assert face.ids("t") == [fourth.checkpoint_id]
    assert face.parts("t", "", ((1, 9),)) == [part_of(fourth)]
    fifth = checkpoint(5, parent_id=fourth.checkpoint_id, builds_on=((4, 4),))
    face.put(fifth, follows=fourth.checkpoint_id)
    assert face.loaded("t").parts == (part_of(fourth), part_of(fifth))


@_law
def _parts_between_those_that_are_needed_go(face: Face) -> None:
    made = face.series(5)
    last = checkpoint(6, parent_id=made[-1].checkpoint_id, builds_on=((4, 4), (1, 2)))
    face.put(last, follows=made[-1].checkpoint_id)
    face.drop("t", "", [one.checkpoint_id for one in made])
    assert face.ids("t") == [last.checkpoint_id]
    found = face.loaded("t")
    assert found.checkpoint == last
    assert [part.seq for part in found.parts] == [4, 1, 2, 6]
    assert found.parts == (part_of(made[3]), part_of(made[0]), part_of(made[1]), part_of(last))
    assert [part.seq for part in face.parts("t", "", ((1, 9),))] == [1, 2, 4, 6]


@_law
def _the_head_can_not_be_dropped(face: Face) -> None:
    made = face.series(3)
    ids = [one.checkpoint_id for one in made]
    refuses(SaverError, lambda: face.drop("t", "", ids), "dropping the head")
    assert face.ids("t") == ids[::-1], "a refused drop removes nothing"
    assert [part.seq for part in face.parts("t", "", ((1, 9),))] == [1, 2, 3]
    assert list(face.loaded("t").parts) == [part_of(one) for one in made]


@_law
def _a_nested_series_can_be_dropped_as_a_whole(face: Face) -> None:
    made = face.series(3, namespace="inner")
    ids = [one.checkpoint_id for one in made]
    face.put_records("t", "inner", ids[2], [A])
    face.series(2)
    face.series(1, namespace="inner|deeper")
    lease = face.acquire_lease("t", "1", None)
    refuses(SaverError, lambda: face.drop("t", "inner", ids[1:]), "dropping the head, and not all")
    refuses(SaverError, lambda: face.drop("t", "inner", [ids[2]]), "dropping the head alone")
    assert face.ids("t", "inner") == ids[::-1]
    assert face.loaded("t", "inner").records == (A,)
    face.drop("t", "inner", [*ids, "never there"])
    assert face.load("t", "inner") is None
    assert face.load("t", "inner", ids[0]) is None
    assert face.history("t", "inner", records=True) == []
    assert face.parts("t", "inner", ((1, 9),)) == []
    assert face.namespaces("t") == ["", "inner|deeper"]
    assert len(face.history("t")) == 2, "the others stay"
    assert face.leases() == [lease]
    refuses(
        HeadMovedError,
        lambda: face.put_records("t", "inner", ids[2], [B]),
        "records beside a head that was dropped",
    )
    anew = checkpoint(7, seq=1, namespace="inner")
    face.put(anew, follows=None, lease=lease)
    found = face.loaded("t", "inner")
    assert (found.checkpoint, found.parts, found.records) == (anew, (part_of(anew),), ())


@_law
def _a_nested_series_of_one_can_be_dropped_and_a_thread_of_one_can_not(face: Face) -> None:
    (own,) = face.series(1)
    (nested,) = face.series(1, namespace="inner")
    face.drop("t", "inner", [nested.checkpoint_id])
    assert face.namespaces("t") == [""]
    refuses(SaverError, lambda: face.drop("t", "", [own.checkpoint_id]), "dropping a thread's own series")
    assert face.loaded("t").checkpoint == own
    face.series(1, thread_id="nested only", namespace="inner")
    face.drop("nested only", "inner", [nested.checkpoint_id])
    assert face.namespaces("nested only") == []


@_law
def _a_drop_is_about_one_series(face: Face) -> None:
    places = [("t", ""), ("t", "inner"), ("t2", "")]
    for thread_id, namespace in places:
        face.series(3, thread_id=thread_id, namespace=namespace)
    first = checkpoint(1).checkpoint_id
    face.drop("t", "", [first])
    face.drop("never there", "", [first])
    face.drop("t", "never there", [first])
    face.drop("t", "", ["never there", "'", "%"])
    face.drop("t", "", [])
    assert [len(face.history(*place)) for place in places] == [2, 3, 3]
    for thread_id, namespace in places[1:]:
        assert face.load(thread_id, namespace, first) is not None
    assert face.namespaces("t") == ["", "inner"]


@_law
def _very_many_can_be_dropped_at_once(face: Face) -> None:
    made = face.series(20)
    never = [f"never {number}" for number in range(2_000)]
    face.drop("t", "", [*never, *(one.checkpoint_id for one in made[:-1])])
    assert face.ids("t") == [made[-1].checkpoint_id]
    assert len(face.loaded("t").parts) == 20


@_law
def _drops_and_puts_at_once_lose_nothing(face: Face) -> None:
    """A checkpoint that is put while others are dropped still has what it builds on."""
    made = face.series(4)

    def change(number: int) -> None:
        if number == 0:
            parent = made[-1]
            for place in range(5, 11):
                one = checkpoint(place, parent_id=parent.checkpoint_id, builds_on=((1, place - 1),))
                face.put(one, follows=parent.checkpoint_id)
                parent = one
        else:
            for _ in range(3):
                face.drop("t", "", [one.checkpoint_id for one in made[:-1]])

    race(2, change, None)
    found = face.loaded("t")
    assert found.head_seq == 10
    assert [part.seq for part in found.parts] == list(range(1, 11))


# ── deleting ─────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _a_deleted_thread_is_gone_and_begins_anew(face: Face) -> None:
    first, second = face.series(2)
    face.put_records("t", "", second.checkpoint_id, [A])
    face.series(1, namespace="inner")
    (kept,) = face.series(1, thread_id="kept")
    face.delete_thread("t")
    face.delete_thread("never there")
    assert face.load("t") is None
    assert face.load("t", "", first.checkpoint_id) is None
    assert face.load("t", "inner") is None
    assert face.history("t") == []
    assert face.namespaces("t") == []
    assert face.parts("t", "", ((1, 9),)) == []
    assert face.parts("t", "inner", ((1, 9),)) == []
    assert [found.thread_id for found in face.threads()] == ["kept"]
    assert face.loaded("kept").checkpoint == kept
    refuses(
        HeadMovedError,
        lambda: face.put(checkpoint(3), follows=second.checkpoint_id),
        "a put after the old head",
    )
    refuses(
        HeadMovedError,
        lambda: face.put_records("t", "", second.checkpoint_id, [A]),
        "records beside the old head",
    )
    again = replace(first, run_id="anew")
    face.put(again, follows=None)
    assert (face.loaded("t").checkpoint, face.loaded("t").records) == (again, ())
    face.put_records("t", "", first.checkpoint_id, [B])
    assert face.loaded("t").records == (B,)


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _a_closed_saver_refuses_everything(face: Face) -> None:
    (one,) = face.series(1)
    lease = face.acquire_lease("t", "1")
    face.close()
    face.close()
    calls: dict[str, Callable[[], object]] = {
        "load": lambda: face.load("t"),
        "put": lambda: face.put(checkpoint(2), follows=one.checkpoint_id),
        "put with a lease": lambda: face.put(checkpoint(2), follows=one.checkpoint_id, lease=lease),
        "put_records": lambda: face.put_records("t", "", one.checkpoint_id, [A]),
        "history": lambda: face.history("t"),
        "parts": lambda: face.parts("t", "", ((1, 1),)),
        "namespaces": lambda: face.namespaces("t"),
        "threads": lambda: face.threads(),  # noqa: PLW0108 - one form for all of them, to be read together
        "drop": lambda: face.drop("t", "", ["never there"]),
        "delete_thread": lambda: face.delete_thread("t"),
        "acquire_lease": lambda: face.acquire_lease("u", "2"),
        "renew_leases": lambda: face.renew_leases([lease], 1.0),
        "release_lease": lambda: face.release_lease(lease),
        "leases": lambda: face.leases(),  # noqa: PLW0108 - one form for all of them, to be read together
    }
    for what, call in calls.items():
        refuses(SaverError, call, f"{what} after close")


@_law
def _a_saver_that_was_never_used_closes(face: Face) -> None:
    face.close()
    refuses(SaverError, lambda: face.load("t"), "load after close")


@_law
def _a_saver_closes_at_the_end_of_a_with_block(face: Face) -> None:
    with face.saver as entered:
        assert entered is face.saver
    refuses(SaverError, lambda: face.load("t"), "load after the block")


@_law
def _reading_with_a_name_that_can_not_be_kept_finds_nothing_or_is_refused(face: Face) -> None:
    (head,) = face.series(1)
    for name in UNKEEPABLE:
        for read in (
            lambda name=name: face.load(name),
            lambda name=name: face.load("t", name),
            lambda name=name: face.load("t", "", name),
            lambda name=name: face.history(name),
            lambda name=name: face.parts(name, "", ((1, 1),)),
            lambda name=name: face.namespaces(name),
        ):
            found: list[object] = []
            if kept_or_refused(lambda read=read, found=found: found.append(read())):
                assert found in ([None], [[]]), f"{name!r} found {found}"
        kept_or_refused(lambda name=name: face.delete_thread(name))
        kept_or_refused(lambda name=name: face.drop("t", "", [name]))
        kept_or_refused(lambda name=name: face.threads(after=name))
    assert face.loaded("t").checkpoint == head


@_law
def _one_saver_serves_many_workers(face: Face) -> None:
    def work(number: int) -> None:
        name = f"worker {number}"
        lease = face.acquire_lease(name, name)
        made: list[StoredCheckpoint] = []
        for place in range(1, 9):
            parent = made[-1].checkpoint_id if made else None
            made.append(checkpoint(place, thread_id=name, parent_id=parent))
            face.put(made[-1], follows=parent, lease=lease, records=[A] if parent else [])
        face.put_records(name, "", made[-1].checkpoint_id, [B], lease=lease)
        found = face.history(name, records=True)
        assert [one.checkpoint for one in found] == made[::-1]
        assert [one.records for one in found] == [(B,), *[(A,)] * 7]
        face.release_lease(lease)

    assert race(4, work, None) == [0, 1, 2, 3]
    assert face.leases() == []
    assert len(face.threads()) == 4
