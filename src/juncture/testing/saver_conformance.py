"""The laws of a saver (`juncture.savers.base`), as checks that run on any saver.

In a test of your own saver, with pytest or without::

    from juncture.testing.saver_conformance import LAWS, check_saver

    @pytest.mark.parametrize("law", LAWS, ids=str)
    def test_law(law, tmp_path):
        law(lambda: MySaver(tmp_path / "runs"))

    check_saver(lambda: MySaver(new_folder()))      # all of them, in one go

A law opens a new, empty saver for itself and closes it. Each is written once and runs twice: with the sync methods,
and with their async twins. A broken law raises `AssertionError`, which says what was found instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from juncture.errors import ConfigError, HeadMovedError, SaverError
from juncture.savers.base import LoadedCheckpoint, Part, Saver, StoredCheckpoint, StoredRecord

MakeSaver = Callable[[], Saver]
_Law = TypeVar("_Law", bound=Callable[["Face"], None])

STRANGE = (
    "acme",
    "acme-corp",
    "acme%",
    "acme_",
    "ACME",
    "ac",
    "'; DROP TABLE checkpoints; --",
    '"quoted" \\ and `ticked`',
    "../../etc/passwd",
    "a/b",
    "a|b",
    "*",
    " padded ",
    "line\nbreak\ttab",
    "été",  # composed
    "e\u0301te\u0301",  # the same to the eye, decomposed
    "🦉",
    "x" * 500,
)
"""Names that a careless saver takes for patterns, statements, paths or one another."""


class Law:
    """One law, as a check of any saver. Call it with a function that makes a new, empty saver."""

    def __init__(self, name: str, check: Callable[[Face], None], *, twins: bool) -> None:
        self.name = name
        self._check = check
        self._twins = twins

    def __call__(self, make_saver: MakeSaver) -> None:
        """Runs the check.

        Raises:
            AssertionError: The saver breaks the law.
        """
        saver = make_saver()
        try:
            self._check(Face(saver, twins=self._twins))
        finally:
            saver.close()

    def __str__(self) -> str:
        return f"{self.name}[{'async' if self._twins else 'sync'}]"

    __repr__ = __str__


class Face:
    """A saver's sync methods, or its async twins as if they were sync: a law is written once for both."""

    def __init__(self, saver: Saver, *, twins: bool) -> None:
        self.saver = saver
        self._twins = twins

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if not self._twins:
            return getattr(self.saver, method)(*args, **kwargs)
        import asyncio

        return asyncio.run(getattr(self.saver, "a" + method)(*args, **kwargs))

    def load(self, *args: Any) -> LoadedCheckpoint | None:
        """As `Saver.load`."""
        return self._call("load", *args)

    def loaded(self, *args: Any) -> LoadedCheckpoint:
        """As `Saver.load`, of something that is there."""
        found = self.load(*args)
        assert found is not None, f"load{args} found nothing"
        return found

    def put(self, checkpoint: StoredCheckpoint, **kwargs: Any) -> None:
        """As `Saver.put`."""
        self._call("put", checkpoint, **kwargs)

    def put_records(self, *args: Any) -> None:
        """As `Saver.put_records`."""
        self._call("put_records", *args)

    def history(self, *args: Any, **kwargs: Any) -> list[LoadedCheckpoint]:
        """As `Saver.history`."""
        return self._call("history", *args, **kwargs)

    def namespaces(self, thread_id: str) -> list[str]:
        """As `Saver.namespaces`."""
        return self._call("namespaces", thread_id)

    def delete_thread(self, thread_id: str) -> None:
        """As `Saver.delete_thread`."""
        self._call("delete_thread", thread_id)

    def close(self) -> None:
        """As `Saver.close`."""
        self._call("close")

    def series(self, count: int, thread_id: str = "t", namespace: str = "") -> list[StoredCheckpoint]:
        """Puts so many checkpoints, each after the one before."""
        made: list[StoredCheckpoint] = []
        for place in range(count):
            parent = made[-1].checkpoint_id if made else None
            made.append(checkpoint(place, thread_id=thread_id, namespace=namespace, parent_id=parent))
            self.put(made[-1], follows=parent)
        return made


LAWS: list[Law] = []
"""Every law, once for the sync methods and once for the async ones."""


def check_saver(make_saver: MakeSaver, laws: Sequence[Law] | None = None) -> None:
    """Checks every law, and says all that are broken.

    Args:
        make_saver: Makes a new, empty saver at each call.
        laws: Only these.

    Raises:
        ExceptionGroup: One error for each broken law, with the law's name as a note.
    """
    broken: list[Exception] = []
    for law in LAWS if laws is None else laws:
        try:
            law(make_saver)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told at the end
            error.add_note(f"law {law}")
            broken.append(error)
    if broken:
        raise ExceptionGroup(f"{len(broken)} laws of a saver are broken", broken)


def checkpoint(
    place: int,
    *,
    thread_id: str = "t",
    namespace: str = "",
    parent_id: str | None = None,
    parts: tuple[Part, ...] | None = None,
) -> StoredCheckpoint:
    """A checkpoint whose id ascends with its place, and whose every column depends on it."""
    checkpoint_id = f"01980000-0000-7000-8000-{place:012x}"
    return StoredCheckpoint(
        thread_id=thread_id,
        namespace=namespace,
        checkpoint_id=checkpoint_id,
        parent_id=parent_id,
        step=place,
        source="input" if place == 0 else "loop",
        run_id=f"run {place}",
        created_at=1_700_000_000.25 + place,
        header=b"header \x00\xff %d" % place,
        parts=(Part(checkpoint_id, b"body \x00\xff %d" % place),) if parts is None else parts,
    )


def _law(check: _Law) -> _Law:
    name = check.__name__.removeprefix("_").replace("_", " ")
    LAWS.extend(Law(name, check, twins=twins) for twins in (False, True))
    return check


def _refuses(kind: type[Exception], call: Callable[[], object], what: str) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{what} must raise {kind.__name__}, and it was taken")


# ── series, order, compare and set ───────────────────────────────────────────────────────────────────────────


@_law
def _every_byte_and_column_comes_back(face: Face) -> None:
    made = face.series(3)
    for one in made:
        found = face.loaded("t", "", one.checkpoint_id)
        assert found.checkpoint == one, f"put {one}, loaded {found.checkpoint}"
        assert found.head_id == made[-1].checkpoint_id, (
            "head_id is the head, whichever checkpoint was asked for"
        )
    assert face.loaded("t").checkpoint == made[-1], "load without an id gives the head"


@_law
def _payloads_of_any_size_and_content_come_back(face: Face) -> None:
    parent = None
    for place, payload in enumerate((b"", b"\x00", bytes(range(256)), b"\xff" * 3_000_000)):
        one = checkpoint(place, parent_id=parent, parts=(Part(f"p{place}", payload),))
        face.put(one, follows=parent)
        parent = one.checkpoint_id
        assert face.loaded("t").checkpoint.parts == one.parts, (
            f"a payload of {len(payload)} bytes was altered"
        )


@_law
def _what_is_not_there_is_none(face: Face) -> None:
    assert face.load("t") is None
    face.series(1)
    assert face.load("t", "", "another id") is None
    assert face.load("t", "another namespace") is None
    assert face.load("another thread") is None
    assert face.history("another thread") == []
    assert face.namespaces("another thread") == []


@_law
def _a_put_that_does_not_follow_the_head_stores_nothing(face: Face) -> None:
    first, second = face.series(2)
    for known in (None, first.checkpoint_id, "never there"):
        late = checkpoint(9, parent_id=known)
        _refuses(
            HeadMovedError, lambda late=late, known=known: face.put(late, follows=known), f"follows={known!r}"
        )
    _refuses(
        HeadMovedError,
        lambda: face.put(checkpoint(0, thread_id="new"), follows="never there"),
        "a new thread",
    )
    assert [found.checkpoint for found in face.history("t", payloads=True)] == [second, first]
    assert face.namespaces("new") == []


@_law
def _ids_ascend(face: Face) -> None:
    head = checkpoint(5)
    face.put(head, follows=None)
    for place in (4, 5):
        late = checkpoint(place, parent_id=head.checkpoint_id, parts=(Part("new", b""),))
        _refuses(
            SaverError, lambda late=late: face.put(late, follows=head.checkpoint_id), f"id {place} after id 5"
        )
    assert face.loaded("t").checkpoint == head


@_law
def _of_several_puts_that_follow_one_head_one_succeeds(face: Face) -> None:
    (head,) = face.series(1)
    won: list[int] = []
    others: list[BaseException] = []
    barrier = threading.Barrier(4)

    def race(place: int) -> None:
        one = checkpoint(place, parent_id=head.checkpoint_id)
        barrier.wait()
        try:
            face.put(one, follows=head.checkpoint_id)
            won.append(place)
        except HeadMovedError:
            pass
        except BaseException as error:  # noqa: BLE001  # told in the worker that asserts
            others.append(error)

    workers = [threading.Thread(target=race, args=(place,)) for place in range(1, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not others, f"the losers must get HeadMovedError, got {others!r}"
    assert len(won) == 1, f"{len(won)} of 4 puts after one head succeeded"
    assert face.loaded("t").checkpoint.step == won[0]
    assert len(face.history("t")) == 2


@_law
def _going_back_makes_a_new_head_with_an_old_parent(face: Face) -> None:
    first, second = face.series(2)
    fork = checkpoint(7, parent_id=first.checkpoint_id)
    face.put(fork, follows=second.checkpoint_id)
    assert face.loaded("t").checkpoint == fork
    assert face.loaded("t", "", second.checkpoint_id).checkpoint == second


@_law
def _a_parent_may_be_gone(face: Face) -> None:
    one = checkpoint(3, parent_id=checkpoint(1).checkpoint_id)
    face.put(one, follows=None)
    assert face.loaded("t").checkpoint == one


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _threads_with_similar_names_are_different(face: Face) -> None:
    _keeps_apart(face, lambda place, name: checkpoint(place, thread_id=name))
    for name in STRANGE:
        assert face.namespaces(name) == [""], f"thread {name!r}"
    face.delete_thread("acme")
    for name in STRANGE:
        assert (face.load(name) is None) is (name == "acme"), f"deleting 'acme' is about {name!r} as well"


@_law
def _namespaces_with_similar_names_are_different(face: Face) -> None:
    _keeps_apart(face, lambda place, name: checkpoint(place, namespace=name))
    assert face.namespaces("t") == sorted(STRANGE)
    for name in STRANGE:
        assert len(face.history("t", name)) == 1, f"namespace {name!r}"


def _keeps_apart(face: Face, make: Callable[[int, str], StoredCheckpoint]) -> None:
    made = {name: make(place, name) for place, name in enumerate(STRANGE)}
    for one in made.values():
        face.put(one, follows=None)
    for name, one in made.items():
        found = face.loaded(one.thread_id, one.namespace)
        assert found.checkpoint == one, f"what was put as {name!r} was found as {found.checkpoint}"
        assert found.head_id == one.checkpoint_id


@_law
def _a_name_is_kept_exactly_or_refused(face: Face) -> None:
    for name in ("nul\x00inside", "nul", "\ud800", ""):
        one = checkpoint(1, thread_id=name)
        try:
            face.put(one, follows=None)
        except ConfigError:
            continue
        assert face.loaded(name).checkpoint == one, f"thread {name!r} was altered"


@_law
def _an_id_is_never_a_pattern(face: Face) -> None:
    face.series(2)
    for hostile in ("' OR '1'='1", "%", "*", "../01980000-0000-7000-8000-000000000000", ""):
        assert face.load("t", "", hostile) is None, f"{hostile!r} found a checkpoint"


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────

_A = StoredRecord("a", "done", "", b"a \x00\xff")
_B = StoredRecord("b", "question", "name '%", b"")
_C = StoredRecord("c", "failed", "", b"c")


@_law
def _records_stand_beside_the_head(face: Face) -> None:
    first, second = face.series(2)
    face.put_records("t", "", second.checkpoint_id, [_B, _A])
    face.put_records("t", "", second.checkpoint_id, [_C])
    assert face.loaded("t").records == (_B, _A, _C), "in the order in which they were saved"
    assert face.loaded("t", "", second.checkpoint_id).records == (_B, _A, _C)
    assert face.loaded("t", "", first.checkpoint_id).records == ()


@_law
def _a_record_saved_again_is_one_record(face: Face) -> None:
    (head,) = face.series(1)
    face.put_records("t", "", head.checkpoint_id, [_A, _C, _B])
    face.put_records("t", "", head.checkpoint_id, [_A])
    assert face.loaded("t").records == (_A, _C, _B)
    newer = _C._replace(content=b"newer")
    face.put_records("t", "", head.checkpoint_id, [newer])
    assert face.loaded("t").records == (_A, newer, _B), "the content is replaced, in its place"
    others = [_A._replace(task_id="z"), _A._replace(kind="call"), _A._replace(name="n")]
    face.put_records("t", "", head.checkpoint_id, others)
    assert face.loaded("t").records == (_A, newer, _B, *others), "task, kind and name tell records apart"


@_law
def _a_put_stores_the_last_records_of_the_head_it_follows(face: Face) -> None:
    (head,) = face.series(1)
    face.put_records("t", "", head.checkpoint_id, [_A])
    one = checkpoint(1, parent_id=head.checkpoint_id)
    face.put(one, follows=head.checkpoint_id, records=[_B])
    assert face.loaded("t").records == (), "the new head has none"
    assert face.loaded("t", "", head.checkpoint_id).records == (_A, _B)


@_law
def _a_refused_put_stores_no_record(face: Face) -> None:
    first, second = face.series(2)
    _refuses(
        HeadMovedError,
        lambda: face.put(checkpoint(3), follows=first.checkpoint_id, records=[_A]),
        "a put after an old head",
    )
    twice = checkpoint(3, parts=second.parts)
    _refuses(
        SaverError, lambda: face.put(twice, follows=second.checkpoint_id, records=[_A]), "a part given anew"
    )
    assert [found.records for found in face.history("t", records=True)] == [(), ()]


@_law
def _the_first_put_takes_no_records(face: Face) -> None:
    _refuses(
        SaverError, lambda: face.put(checkpoint(0), follows=None, records=[_A]), "records without a head"
    )
    assert face.load("t") is None


@_law
def _what_is_no_longer_the_head_never_changes(face: Face) -> None:
    first, _ = face.series(2)
    for thread_id, namespace, checkpoint_id in (
        ("t", "", first.checkpoint_id),
        ("t", "", "never there"),
        ("t", "other", first.checkpoint_id),
        ("other", "", first.checkpoint_id),
    ):
        _refuses(
            HeadMovedError,
            lambda at=(thread_id, namespace, checkpoint_id): face.put_records(*at, [_A]),
            f"put_records beside {(thread_id, namespace, checkpoint_id)}",
        )
    assert [found.records for found in face.history("t", records=True)] == [(), ()]
    assert face.namespaces("other") == []


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _a_part_is_stored_once_and_named_again(face: Face) -> None:
    first = checkpoint(0, parts=(Part("base", b"base"), Part("1", b"one")))
    face.put(first, follows=None)
    second = checkpoint(1, parts=(Part("base"), Part("2", b"two"), Part("1")))
    face.put(second, follows=first.checkpoint_id)
    assert face.loaded("t", "", first.checkpoint_id).checkpoint.parts == first.parts
    expected = (Part("base", b"base"), Part("2", b"two"), Part("1", b"one"))
    assert face.loaded("t").checkpoint.parts == expected, "in the order in which the checkpoint names them"


@_law
def _a_part_is_known_in_its_series_only(face: Face) -> None:
    face.put(checkpoint(0, parts=(Part("base", b"base"),)), follows=None)
    for at in ({"namespace": "n"}, {"thread_id": "other"}):
        stranger = checkpoint(1, parts=(Part("base"),), **at)
        _refuses(
            SaverError, lambda one=stranger: face.put(one, follows=None), f"a part of another series, {at}"
        )
        own = checkpoint(1, parts=(Part("base", b"own"),), **at)
        face.put(own, follows=None)
        assert face.loaded(own.thread_id, own.namespace).checkpoint == own


@_law
def _a_part_is_there_and_never_changes(face: Face) -> None:
    head = checkpoint(0, parts=(Part("base", b"base"),))
    face.put(head, follows=None)
    for parts, what in (
        ((Part("unknown"),), "a part that isn't there"),
        ((Part("new", b""), Part("unknown")), "a part that isn't there, after a new one"),
        ((Part("base", b"other"),), "a part given anew"),
        ((Part("new", b"1"), Part("new", b"2")), "a part given twice"),
    ):
        one = checkpoint(1, parts=parts)
        _refuses(SaverError, lambda one=one: face.put(one, follows=head.checkpoint_id), what)
    assert [found.checkpoint for found in face.history("t", payloads=True)] == [head]
    face.put(
        checkpoint(1, parts=(Part("new", b"3"),)), follows=head.checkpoint_id
    )  # nothing of them was stored


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _history_goes_from_the_newest_to_the_oldest(face: Face) -> None:
    made = face.series(5)
    face.series(2, namespace="other")
    newest_first = [one.checkpoint_id for one in reversed(made)]

    def ids(**options: Any) -> list[str]:
        return [found.checkpoint.checkpoint_id for found in face.history("t", **options)]

    assert ids() == newest_first
    assert ids(limit=2) == newest_first[:2]
    assert ids(limit=0) == []
    assert ids(limit=99) == newest_first
    assert ids(before=made[3].checkpoint_id) == newest_first[2:]
    assert ids(before=made[3].checkpoint_id, limit=1) == newest_first[2:3]
    assert ids(before=made[0].checkpoint_id) == []
    assert ids(before=made[2].checkpoint_id + "~") == newest_first[2:], "`before` needn't be there"
    assert ids(before="'") == []
    assert ids(before="zzz") == newest_first


@_law
def _history_gives_payloads_and_records_when_asked(face: Face) -> None:
    made = face.series(2)
    face.put_records("t", "", made[1].checkpoint_id, [_A])
    for payloads in (False, True):
        for records in (False, True):
            found = face.history("t", payloads=payloads, records=records)
            for one, stored in zip(reversed(made), found, strict=True):
                parts = stored.checkpoint.parts
                assert parts == (one.parts if payloads else tuple(Part(part.id) for part in one.parts))
                stored.checkpoint.parts = one.parts
                assert stored.checkpoint == one, "columns and header are always there"
                stored.checkpoint.parts = parts
                assert stored.head_id == made[1].checkpoint_id
            assert [stored.records for stored in found] == ([(_A,), ()] if records else [(), ()])


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _a_deleted_thread_is_gone_and_begins_anew(face: Face) -> None:
    first, second = face.series(2)
    face.put_records("t", "", second.checkpoint_id, [_A])
    face.series(1, namespace="inner")
    (kept,) = face.series(1, thread_id="kept")
    face.delete_thread("t")
    face.delete_thread("never there")
    assert face.load("t") is None
    assert face.load("t", "", first.checkpoint_id) is None
    assert face.load("t", "inner") is None
    assert face.history("t") == []
    assert face.namespaces("t") == []
    assert face.loaded("kept").checkpoint == kept
    _refuses(
        HeadMovedError,
        lambda: face.put(checkpoint(3), follows=second.checkpoint_id),
        "a put after the old head",
    )
    face.put(first, follows=None)
    assert face.loaded("t").records == ()
    face.put_records("t", "", first.checkpoint_id, [_B])
    assert face.loaded("t").records == (_B,)


@_law
def _a_closed_saver_refuses_everything(face: Face) -> None:
    (one,) = face.series(1)
    face.close()
    face.close()
    for what, call in (
        ("load", lambda: face.load("t")),
        ("put", lambda: face.put(checkpoint(1), follows=one.checkpoint_id)),
        ("put_records", lambda: face.put_records("t", "", one.checkpoint_id, [_A])),
        ("history", lambda: face.history("t")),
        ("namespaces", lambda: face.namespaces("t")),
        ("delete_thread", lambda: face.delete_thread("t")),
    ):
        _refuses(SaverError, call, f"{what} after close")


@_law
def _a_saver_closes_at_the_end_of_a_with_block(face: Face) -> None:
    with face.saver as entered:
        assert entered is face.saver
    _refuses(SaverError, lambda: face.load("t"), "load after the block")


@_law
def _one_saver_serves_many_workers(face: Face) -> None:
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            made = face.series(10, thread_id=name)
            face.put_records(name, "", made[-1].checkpoint_id, [_A])
            assert [f.checkpoint for f in face.history(name, payloads=True)] == made[::-1]
        except BaseException as error:  # noqa: BLE001  # told in the worker that asserts
            failed.append(error)

    workers = [threading.Thread(target=work, args=(f"worker {number}",)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed, f"{failed!r}"
