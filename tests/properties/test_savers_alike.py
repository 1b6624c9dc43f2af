"""Any calls of any saver have the results that they have on the plainest one, `InMemorySaver`."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from juncture.errors import JunctureError
from juncture.savers import (
    FileSaver,
    InMemorySaver,
    Lease,
    Saver,
    SqliteSaver,
    StoredCheckpoint,
    StoredRecord,
)
from juncture.savers.base import needed_parts
from tests.properties.strategies import examples

SAVERS: dict[str, Callable[[Path], Saver]] = {
    "sqlite": lambda folder: SqliteSaver(folder / "runs.db", synchronous="NORMAL"),
    "file": lambda folder: FileSaver(folder, fsync=False),
}
THREADS = ("a", "a%", "")
NAMESPACES = ("", "n")
OFTEN_THE_FIRST = st.sampled_from((*THREADS[:1] * 4, *THREADS))
RECORDS = st.lists(
    st.builds(
        StoredRecord,
        st.sampled_from("xy"),
        st.sampled_from(("done", "call")),
        st.just(""),
        st.binary(max_size=3),
    ),
    max_size=3,
)


class Pair:
    """The same calls on the plainest saver and on another, whose answers have to be the same."""

    def __init__(self, other: Saver, data: st.DataObject) -> None:
        self.plain, self.other, self.data = InMemorySaver(), other, data
        self.made = 0
        self.leases = [Lease(thread_id, "never", "taken", None) for thread_id in THREADS]

    def both(self, method: str, *args: Any, **options: Any) -> Any:
        answers = []
        for saver in (self.plain, self.other):
            try:
                answers.append(told(getattr(saver, method)(*args, **options)))
            except JunctureError as error:
                answers.append((type(error), error.thread_id))
        assert answers[0] == answers[1], f"{method}{args}{options}"
        return answers[0]

    def draw(self, strategy: Any) -> Any:
        return self.data.draw(strategy)

    def place(self) -> tuple[str, str]:
        return self.draw(OFTEN_THE_FIRST), self.draw(st.sampled_from(NAMESPACES))

    def lease(self) -> Lease | None:
        return self.draw(st.sampled_from([*[None] * 12, *self.leases[-4:]]))

    def ids(self, thread_id: str, namespace: str) -> list[str]:
        return [found.checkpoint.checkpoint_id for found in self.plain.history(thread_id, namespace)]

    # ---- calls

    def put(self) -> None:
        thread_id, namespace = self.place()
        head = self.plain.load(thread_id, namespace)
        known = [part.seq for part in self.plain.parts(thread_id, namespace, ((1, 999),))]
        spans = self.draw(st.lists(st.sampled_from(known), unique=True, max_size=4)) if known else []
        ids = self.ids(thread_id, namespace)
        follows = self.draw(
            st.sampled_from([*ids[:1] * 12, *ids[-1:], "other", *([None] if ids else [None] * 12)])
        )
        self.made += 1
        one = StoredCheckpoint(
            thread_id=thread_id,
            namespace=namespace,
            checkpoint_id=f"{self.made:04}{self.draw(st.sampled_from(('', '-x', 'é')))}",
            parent_id=self.draw(st.sampled_from([None, *ids])),
            step=self.made,
            source="loop",
            run_id=self.draw(st.sampled_from(("r", "0" * 32, "A" * 32))),
            created_at=self.made / 3,
            seq=(head.head_seq if head else 0) + self.draw(st.sampled_from((*[1] * 20, 2, 0))),
            builds_on=tuple((seq, seq) for seq in spans),
            header=b"h",
        )
        payload = self.draw(st.binary(max_size=4))
        records = self.draw(RECORDS)
        self.both("put", one, payload, follows=follows, records=records, lease=self.lease())

    def put_records(self) -> None:
        thread_id, namespace = self.place()
        at = self.draw(st.sampled_from([*self.ids(thread_id, namespace)[:3], "other"]))
        self.both("put_records", thread_id, namespace, at, self.draw(RECORDS), lease=self.lease())

    def drop(self) -> None:
        thread_id, namespace = self.place()
        gone = self.draw(st.sets(st.sampled_from([*self.ids(thread_id, namespace)[1:], "other"])))
        if self.draw(st.integers(0, 4)) == 0:
            gone |= set(self.ids(thread_id, namespace)[: self.draw(st.sampled_from((1, 999)))])
        self.both("drop", thread_id, namespace, gone, lease=self.lease())

    def delete_thread(self) -> None:
        if self.draw(st.booleans()):
            self.both("delete_thread", self.draw(st.sampled_from(THREADS)), lease=self.lease())

    def acquire_lease(self) -> None:
        thread_id = self.draw(st.sampled_from(THREADS))
        self.made += 1
        token = self.draw(st.sampled_from([f"k{self.made}", self.leases[-1].token]))
        ttl = self.draw(st.sampled_from((None, 1_000.0)))
        instead_of = self.draw(st.sampled_from([None, *(lease.token for lease in self.leases[-3:])]))
        self.both("acquire_lease", thread_id, "h", token, ttl, instead_of=instead_of)
        self.leases.append(Lease(thread_id, "h", token, ttl))

    def renew_leases(self) -> None:
        leases = self.draw(st.lists(st.sampled_from(self.leases), unique=True, max_size=4))
        self.both("renew_leases", leases, self.draw(st.sampled_from((None, 1_000.0))))

    def release_lease(self) -> None:
        self.both("release_lease", self.draw(st.sampled_from(self.leases)))

    def look(self) -> None:
        """At everything."""
        self.both("leases")
        self.both("threads", after=self.draw(st.sampled_from((None, *THREADS))), limit=self.draw(LIMITS))
        for thread_id in THREADS:
            for namespace in self.both("namespaces", thread_id):
                ids = self.ids(thread_id, namespace)
                before = self.draw(st.sampled_from((None, None, *ids)))
                self.both(
                    "history", thread_id, namespace, before=before, limit=self.draw(LIMITS), records=True
                )
                for checkpoint_id in (None, *ids, "other"):
                    self.both(
                        "load",
                        thread_id,
                        namespace,
                        checkpoint_id,
                        known=self.draw(st.sampled_from((None, *ids))),
                    )
                self.both("parts", thread_id, namespace, ((1, 3), (2, 9), (20, 999)))
                stored = [found.checkpoint for found in self.plain.history(thread_id, namespace)]
                needed = self.both("parts", thread_id, namespace, needed_parts(stored))
                assert needed == self.both("parts", thread_id, namespace, ((1, 999),)), (
                    "no part that nobody needs"
                )


LIMITS = st.sampled_from((None, None, 0, 1, 2))
CALLS = (*[Pair.put] * 8, *[Pair.put_records] * 2, *[Pair.drop] * 2, Pair.delete_thread, Pair.acquire_lease)
CALLS += (Pair.renew_leases, Pair.release_lease, Pair.look)


def told(answer: Any) -> Any:
    """An answer without what time it is."""
    if isinstance(answer, Lease):
        return answer._replace(expires_in=answer.expires_in if answer.expires_in is None else 1.0)
    if isinstance(answer, list) and answer and isinstance(answer[0], Lease):
        return sorted(map(told, answer))
    if isinstance(answer, list):
        return [one._replace(lease=told(one.lease)) if hasattr(one, "lease") else one for one in answer]
    return answer


@pytest.mark.parametrize("name", SAVERS)
# Making a failure small takes minutes of files made and removed; what differs is said by `both` in any case.
@settings(examples(60), phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(data=st.data())
def test_any_calls_have_the_results_of_the_plainest_saver(name, data):
    with tempfile.TemporaryDirectory() as folder, SAVERS[name](Path(folder)) as saver:
        pair = Pair(saver, data)
        for call in data.draw(st.lists(st.sampled_from(CALLS), min_size=15, max_size=40)):
            call(pair)
        pair.look()
