"""Leases: who may write to a thread, until when, and what happens to those who may no longer."""

from __future__ import annotations

from collections.abc import Callable

from juncture.errors import LeaseLostError, ThreadBusyError
from juncture.savers.base import Lease
from juncture.testing.saver_conformance.face import (
    SHORT,
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


# ── to have one ──────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _a_lease_comes_back_as_it_was_taken(face: Face) -> None:
    assert face.leases() == []
    lease = face.acquire_lease("t", "1", 600.0)
    assert lease[:3] == ("t", "holder 1", "token 1")
    for read in (lease, face.lease_of("t")):
        assert read is not None
        assert read[:3] == lease[:3]
        assert read.expires_in is not None
        assert 0 < read.expires_in <= 600
    assert face.load("t") is None, "a lease makes no checkpoint"
    assert face.namespaces("t") == []
    assert face.threads() == []


@_law
def _leases_are_listed_by_code_point(face: Face) -> None:
    for name in STRANGE:
        face.acquire_lease(name, name, None)
    assert face.leases() == [
        Lease(name, f"holder {name}", f"token {name}", None) for name in sorted(STRANGE)
    ], "each exactly, sorted by thread"


@_law
def _names_in_a_lease_are_kept_exactly_or_refused(face: Face) -> None:
    for name in UNKEEPABLE:
        for thread_id, holder in ((name, "h"), ("t", name)):
            taken: list[Lease] = []
            if kept_or_refused(
                lambda at=(thread_id, holder), taken=taken: taken.append(face.acquire_lease(*at, None))
            ):
                assert face.lease_of(thread_id) == taken[0], f"{name!r} was altered"
                face.release_lease(taken[0])
    assert face.leases() == []


@_law
def _a_thread_with_a_lease_is_busy(face: Face) -> None:
    lease = face.acquire_lease("t", "1")
    for instead_of in (None, "another token", ""):
        error = refuses(
            ThreadBusyError,
            lambda instead_of=instead_of: face.acquire_lease("t", "2", instead_of=instead_of),
            "a lease that somebody else has",
        )
        assert isinstance(error, ThreadBusyError)
        assert error.thread_id == "t"
        assert error.lease[:3] == lease[:3], "the error says who has it"
        assert 0 < error.lease.expires_in <= 600
    found = face.lease_of("t")
    assert found is not None
    assert found[:3] == lease[:3], "nothing was changed"
    face.acquire_lease("another thread", "2")


@_law
def _of_several_that_want_a_lease_one_has_it(face: Face) -> None:
    taken: dict[int, Lease] = {}

    def acquire(number: int) -> None:
        taken[number] = face.acquire_lease("t", str(number), None)

    won = race(4, acquire, ThreadBusyError)
    assert len(won) == 1, f"{len(won)} of 4 have the lease"
    assert face.leases() == [taken[won[0]]]
    assert face.leases()[0].holder == f"holder {won[0]}"


@_law
def _the_same_token_takes_its_lease_again(face: Face) -> None:
    face.acquire_lease("t", "1", None)
    again = face.acquire_lease("t", "1", 600.0)
    assert again.expires_in is not None, "and it runs out anew"
    found = face.leases()
    assert len(found) == 1
    assert found[0].expires_in is not None
    assert 0 < found[0].expires_in <= 600


@_law
def _a_lease_can_be_had_instead_of_a_dead_one(face: Face) -> None:
    for ttl in (600.0, None):
        face.delete_thread("t")
        face.acquire_lease("t", "1", ttl)
        after = face.acquire_lease("t", "2", ttl, instead_of="token 1")
        assert after[:3] == ("t", "holder 2", "token 2")
        assert [lease[:3] for lease in face.leases()] == [after[:3]]
        refuses(
            ThreadBusyError,
            lambda ttl=ttl: face.acquire_lease("t", "3", ttl, instead_of="token 1"),
            "token 1 was replaced",
        )
    face.release_lease(face.leases()[0])
    face.acquire_lease("t", "4", instead_of="token 2")  # there is none: that is fine as well


@_law
def _of_several_that_take_over_one_lease_one_has_it(face: Face) -> None:
    face.acquire_lease("t", "dead", None)
    won = race(
        4,
        lambda number: face.acquire_lease("t", str(number), None, instead_of="token dead"),
        ThreadBusyError,
    )
    assert len(won) == 1, f"{len(won)} of 4 took over"
    assert [lease.token for lease in face.leases()] == [f"token {won[0]}"]


# ── running out ──────────────────────────────────────────────────────────────────────────────────────────────


@_law
def _a_lease_that_ran_out_is_there_until_somebody_takes_it(face: Face) -> None:
    lease = face.acquire_lease("t", "1", SHORT)
    face.wait_until_it_ran_out(lease)
    (one,) = face.series(1)
    (listed,) = face.threads()
    assert listed.lease is not None
    assert listed.lease.token == lease.token
    assert listed.lease.expires_in is not None
    assert listed.lease.expires_in <= 0
    second = checkpoint(2, parent_id=one.checkpoint_id)
    face.put(second, follows=one.checkpoint_id, lease=lease)  # nobody took it: it is still theirs
    face.put_records("t", "", second.checkpoint_id, [A], lease=lease)
    after = face.acquire_lease("t", "2")
    assert [found.token for found in face.leases()] == [after.token]
    refuses(
        LeaseLostError,
        lambda: face.put(checkpoint(3), follows=second.checkpoint_id, lease=lease),
        "a put of the one before",
    )


@_law
def _of_several_that_want_a_lease_that_ran_out_one_has_it(face: Face) -> None:
    face.wait_until_it_ran_out(face.acquire_lease("t", "dead", SHORT))
    won = race(4, lambda number: face.acquire_lease("t", str(number), None), ThreadBusyError)
    assert len(won) == 1, f"{len(won)} of 4 took over"
    assert [lease.token for lease in face.leases()] == [f"token {won[0]}"]


@_law
def _a_lease_without_an_end_never_runs_out(face: Face) -> None:
    lease = face.acquire_lease("t", "1", None)
    assert lease.expires_in is None
    face.wait_until_it_ran_out(face.acquire_lease("another thread", "2", SHORT))  # so time went by
    assert face.lease_of("t") == lease
    error = refuses(ThreadBusyError, lambda: face.acquire_lease("t", "3"), "a lease without an end")
    assert isinstance(error, ThreadBusyError)
    assert error.lease == lease
    (renewed,) = face.renew_leases([lease], 600.0)
    assert renewed.expires_in is not None, "it has an end from now on"
    assert face.renew_leases([renewed], None) == [lease]
    assert face.lease_of("t") == lease


# ── renewing and giving back ─────────────────────────────────────────────────────────────────────────────────


@_law
def _renewing_says_which_leases_are_still_theirs(face: Face) -> None:
    names = ["replaced", "released", "deleted", "ran out", *(f"kept {number}" for number in range(300))]
    taken = {name: face.acquire_lease(name, name, SHORT if name == "ran out" else 5.0) for name in names[:8]}
    for name in names[8:]:
        taken[name] = Lease(name, "never", "taken", 5.0)
    face.wait_until_it_ran_out(taken["ran out"])
    face.acquire_lease("replaced", "other", None, instead_of=taken["replaced"].token)
    face.release_lease(taken["released"])
    face.delete_thread("deleted")
    renewed = face.renew_leases(list(taken.values()), 600.0)
    assert sorted(lease[:3] for lease in renewed) == sorted(
        taken[name][:3] for name in ("ran out", *names[4:8])
    )
    for lease in [*renewed, *(one for one in face.leases() if one.thread_id != "replaced")]:
        assert lease.expires_in is not None
        assert 5 < lease.expires_in <= 600, f"{lease} runs out later"
    assert face.lease_of("replaced") == Lease("replaced", "holder other", "token other", None)
    assert face.lease_of("released") is None
    assert face.renew_leases([], 600.0) == []


@_law
def _a_lease_that_was_given_back_is_free(face: Face) -> None:
    lease = face.acquire_lease("t", "1", None)
    kept = face.acquire_lease("u", "2", None)
    face.release_lease(lease)
    assert face.leases() == [kept]
    after = face.acquire_lease("t", "3", None)
    face.release_lease(lease)
    assert face.leases() == [after, kept], "one that was lost doesn't take the other's with it"
    face.release_lease(Lease("never there", "h", "k", None))
    face.release_lease(after._replace(expires_in=3.0))
    assert face.leases() == [kept], "the token is what counts"


# ── fencing ──────────────────────────────────────────────────────────────────────────────────────────────────


def _lost_in_every_way(face: Face) -> dict[str, tuple[str, Lease]]:
    """Threads with one checkpoint each, whose lease was lost; by how."""
    ways: dict[str, Callable[[Lease], object]] = {
        "replaced": lambda lease: face.acquire_lease("replaced", "other", instead_of=lease.token),
        "released": face.release_lease,
        "taken again": lambda lease: (face.release_lease(lease), face.acquire_lease("taken again", "x")),
        "deleted": lambda lease: face.delete_thread(lease.thread_id),
        "another thread's": face.release_lease,
    }
    lost: dict[str, tuple[str, Lease]] = {}
    for way, lose in ways.items():
        lease = face.acquire_lease(way, "1")
        lose(lease)
        (head,) = face.series(1, thread_id=way)
        lost[way] = (head.checkpoint_id, lease)
    foreign = face.acquire_lease("foreign", "f")
    lost["another thread's"] = (lost["another thread's"][0], foreign)
    return lost


@_law
def _who_lost_the_lease_stores_nothing(face: Face) -> None:
    for thread_id, (head_id, lease) in _lost_in_every_way(face).items():
        one = checkpoint(2, thread_id=thread_id, parent_id=head_id)
        for what, call in (
            ("put", lambda: face.put(one, follows=head_id, records=[A], lease=lease)),  # noqa: B023 - used at once
            (
                "put_records",
                lambda: face.put_records(thread_id, "", head_id, [A], lease=lease),  # noqa: B023 - used at once
            ),
            (
                "a first put",
                lambda: face.put(
                    checkpoint(1, thread_id=thread_id, namespace="n"),  # noqa: B023 - used at once
                    follows=None,
                    lease=lease,  # noqa: B023 - used at once
                ),
            ),
        ):
            error = refuses(LeaseLostError, call, f"{what}, where the lease was {thread_id}")
            assert isinstance(error, LeaseLostError)
            assert error.thread_id is not None
        assert face.ids(thread_id) == [head_id]
        assert face.loaded(thread_id).records == ()
        assert len(face.parts(thread_id, "", ((1, 9),))) == 1
        assert face.namespaces(thread_id) == [""]
        face.put(one, follows=head_id)  # without a lease it isn't checked


@_law
def _who_lost_the_lease_removes_nothing(face: Face) -> None:
    for thread_id, (head_id, lease) in _lost_in_every_way(face).items():
        second = checkpoint(2, thread_id=thread_id, parent_id=head_id)
        face.put(second, follows=head_id, records=[A])
        face.put(checkpoint(1, thread_id=thread_id, namespace="n"), follows=None)
        leases = [one[:3] for one in face.leases()]
        gone = [head_id]
        for what, call in (
            ("drop", lambda: face.drop(thread_id, "", gone, lease=lease)),  # noqa: B023 - used at once
            ("a drop of nothing", lambda: face.drop(thread_id, "never", [], lease=lease)),  # noqa: B023 - used at once
            ("delete_thread", lambda: face.delete_thread(thread_id, lease=lease)),  # noqa: B023 - used at once
        ):
            error = refuses(LeaseLostError, call, f"{what}, where the lease was {thread_id}")
            assert isinstance(error, LeaseLostError)
            assert error.thread_id is not None
        assert face.ids(thread_id) == [second.checkpoint_id, head_id]
        assert face.loaded(thread_id, "", head_id).records == (A,)
        assert len(face.parts(thread_id, "", ((1, 9),))) == 2
        assert face.namespaces(thread_id) == ["", "n"]
        assert [one[:3] for one in face.leases()] == leases
        face.drop(thread_id, "", gone)  # without a lease it isn't checked
        assert face.ids(thread_id) == [second.checkpoint_id]
        face.delete_thread(thread_id)
        refuses(
            LeaseLostError,
            lambda: face.delete_thread(thread_id, lease=lease),  # noqa: B023 - used at once
            "deleting what is deleted",
        )


@_law
def _who_has_the_lease_removes_in_every_namespace(face: Face) -> None:
    lease = face.acquire_lease("t", "1")
    other = face.acquire_lease("t2", "2", None)
    for namespace in ("", "inner"):
        made = face.series(2, namespace=namespace)
        face.drop("t", namespace, [made[0].checkpoint_id], lease=lease)
        assert face.ids("t", namespace) == [made[1].checkpoint_id]
    assert face.lease_of("t") is not None, "a drop leaves the lease"
    face.delete_thread("t", lease=lease)
    assert face.namespaces("t") == []
    assert face.leases() == [other], "the lease goes with its thread"
    face.delete_thread("t2", lease=other)  # it has a lease and no checkpoints
    assert face.leases() == []


@_law
def _who_has_the_lease_stores_in_every_namespace(face: Face) -> None:
    lease = face.acquire_lease("t", "1")
    for namespace in ("", "inner", "inner|deeper"):
        first = checkpoint(1, namespace=namespace)
        face.put(first, follows=None, lease=lease)
        face.put_records("t", namespace, first.checkpoint_id, [A], lease=lease)
        second = checkpoint(2, namespace=namespace, parent_id=first.checkpoint_id)
        (lease,) = face.renew_leases([lease], 600.0)
        face.put(second, follows=first.checkpoint_id, records=[B], lease=lease)
        found = face.loaded("t", namespace)
        assert (found.checkpoint, found.parts) == (second, (part_of(second),))
        assert face.loaded("t", namespace, first.checkpoint_id).records == (A, B)


@_law
def _a_put_without_a_lease_is_not_checked(face: Face) -> None:
    (head,) = face.series(1)
    lease = face.acquire_lease("t", "1", None)
    face.put_records("t", "", head.checkpoint_id, [A])
    second = checkpoint(2, parent_id=head.checkpoint_id)
    face.put(second, follows=head.checkpoint_id)
    assert face.loaded("t").checkpoint == second
    assert face.leases() == [lease]


@_law
def _a_deleted_thread_has_no_lease(face: Face) -> None:
    face.series(1)
    face.acquire_lease("t", "1", None)
    face.acquire_lease("leased only", "2", None)
    kept = face.acquire_lease("t2", "3", None)
    face.delete_thread("t")
    face.delete_thread("leased only")
    assert face.leases() == [kept]
    face.acquire_lease("t", "4", None)


@_law
def _a_drop_leaves_the_lease(face: Face) -> None:
    first, _ = face.series(2)
    lease = face.acquire_lease("t", "1", None)
    face.drop("t", "", [first.checkpoint_id])
    assert face.leases() == [lease]
