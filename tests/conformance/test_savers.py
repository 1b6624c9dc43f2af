"""Every saver of ours keeps every law; and the laws find savers that don't."""

import asyncio
import threading
from dataclasses import replace

import pytest

from juncture.errors import HeadMovedError, JunctureError, SaverError
from juncture.savers import InMemorySaver, MemorySaver, Saver, open_saver
from juncture.savers.base import needed_parts
from juncture.savers.encrypted import EncryptedSaver, KeyRing
from juncture.savers.file import FileSaver
from juncture.savers.postgres import PostgresSaver
from juncture.savers.redis import RedisSaver
from juncture.savers.sqlite import SqliteSaver
from juncture.testing.saver_conformance import LAWS, check_saver, checkpoint

KEYS = KeyRing({"new": bytes(range(32)), "old": bytes(32)})
SAVERS = {
    "memory": lambda folder: InMemorySaver(),
    "memory by URL": lambda folder: open_saver("memory:"),
    "memory, encrypted": lambda folder: EncryptedSaver(InMemorySaver(), KEYS),
    "file": FileSaver,
    "sqlite": lambda folder: SqliteSaver(folder / "runs.db"),
    "sqlite, encrypted": lambda folder: EncryptedSaver(SqliteSaver(folder / "runs.db"), KEYS),
    "sqlite by URL": lambda folder: open_saver(f"sqlite:{folder}/runs.db?synchronous=normal"),
}
"""Make a new, empty saver; they may use the folder, which is empty and their own."""
ON_SERVERS = {
    "redis": ("redis_url", RedisSaver),
    "postgres": ("postgres_url", PostgresSaver),
    "postgres behind a pooler": ("pooled_postgres_url", PostgresSaver),
}
"""Make a new, empty saver from the URL that a fixture of `tests.servers` gives."""


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("saver", SAVERS)
def test_a_saver_keeps_the_law(saver, law, tmp_path):
    law(lambda: SAVERS[saver](tmp_path))


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("saver", ON_SERVERS)
def test_a_saver_on_a_server_keeps_the_law(saver, law, request):
    fixture, make_saver = ON_SERVERS[saver]
    url = request.getfixturevalue(fixture)
    law(lambda: make_saver(url))


class Blocking(InMemorySaver):
    """As if it waited for a disk: its twins run in workers."""

    blocking = True

    def __init__(self):
        super().__init__()
        self.ran_on = set()

    def load(self, *args, **options):
        self.ran_on.add(threading.get_ident())
        return super().load(*args, **options)


@pytest.mark.parametrize("law", [law for law in LAWS if "async" in str(law)], ids=str)
def test_the_default_twins_keep_the_law(law):
    law(Blocking)


def test_twins_of_a_blocking_saver_run_in_a_worker_and_others_do_not():
    blocking = Blocking()
    asyncio.run(blocking.aload("t"))
    assert blocking.ran_on.isdisjoint({threading.get_ident()})
    blocking.blocking = False
    blocking.ran_on.clear()
    asyncio.run(blocking.aload("t"))
    assert blocking.ran_on == {threading.get_ident()}


def test_an_async_with_block_closes_it():
    async def use():
        async with InMemorySaver() as saver:
            assert await saver.aload("t") is None
        with pytest.raises(SaverError, match="closed"):
            await saver.aload("t")

    asyncio.run(use())


# Each has one fault that a saver may well have. The laws have to find it.


class LastWriterWins(InMemorySaver):
    def put(self, checkpoint, payload, *, follows, records=(), lease=None):
        found = self.load(checkpoint.thread_id, checkpoint.namespace)
        super().put(checkpoint, payload, follows=found and found.head_id, records=records, lease=lease)


class ChecksThenPuts(InMemorySaver):
    """Checks the head and stores in two transactions."""

    def __init__(self):
        super().__init__()
        self.both = threading.Barrier(4)

    def put(self, checkpoint, payload, *, follows, records=(), lease=None):
        found = self.load(checkpoint.thread_id, checkpoint.namespace)
        if (found and found.head_id) != follows:
            raise HeadMovedError("moved")
        if threading.current_thread() is not threading.main_thread():
            self.both.wait(10)  # only the laws about races put from several workers at once
            with self._lock:
                self._threads.pop("t", None)
            follows, records = None, ()
            checkpoint = replace(checkpoint, seq=1)
        super().put(checkpoint, payload, follows=follows, records=records, lease=lease)


class AnyPlace(InMemorySaver):
    def put(self, checkpoint, payload, **options):
        found = self.load(checkpoint.thread_id, checkpoint.namespace)
        seq = found.head_seq + 1 if found else 1
        super().put(replace(checkpoint, seq=seq), payload, **options)


class PrefixSearch(InMemorySaver):
    def delete_thread(self, thread_id, **options):
        for name in list(self._threads):
            if name.startswith(thread_id):
                super().delete_thread(name, **options)


class FoldsCase(InMemorySaver):
    def put(self, checkpoint, payload, **options):
        super().put(replace(checkpoint, namespace=checkpoint.namespace.lower()), payload, **options)

    def load(self, thread_id, namespace="", checkpoint_id=None, **options):
        return super().load(thread_id, namespace.lower(), checkpoint_id, **options)


class RecordsAnywhere(InMemorySaver):
    def put_records(self, thread_id, namespace, checkpoint_id, records, *, lease=None):
        found = self.load(thread_id, namespace)
        at = found.head_id if found else checkpoint_id
        super().put_records(thread_id, namespace, at, records, lease=lease)


class RecordsFirst(InMemorySaver):
    """Stores the records, then the checkpoint: not in one transaction."""

    def put(self, checkpoint, payload, *, follows, records=(), lease=None):
        if records:
            super().put_records(checkpoint.thread_id, checkpoint.namespace, follows, records, lease=lease)
        super().put(checkpoint, payload, follows=follows, lease=lease)


class OldestFirst(InMemorySaver):
    def history(self, *args, **options):
        return super().history(*args, **options)[::-1]


class SortsRecords(InMemorySaver):
    def load(self, *args, **options):
        found = super().load(*args, **options)
        if found is not None:
            found.records = tuple(sorted(found.records))
        return found


class SortsParts(InMemorySaver):
    def load(self, *args, **options):
        found = super().load(*args, **options)
        if found is not None:
            found.parts = tuple(sorted(found.parts))
        return found


class ReadsKnownParts(InMemorySaver):
    def load(self, *args, known=None):
        return super().load(*args)


class TrustsKnownParts(InMemorySaver):
    """Reads no parts, whichever are known."""

    def load(self, *args, known=None):
        found = super().load(*args)
        if found is not None and known is not None:
            found.parts = ()
        return found


class RepeatsParts(InMemorySaver):
    def parts(self, thread_id, namespace, spans):
        return [
            part for span in spans for part in super(RepeatsParts, self).parts(thread_id, namespace, (span,))
        ]


class FoldsCaseInListings(InMemorySaver):
    def threads(self, *, after=None, limit=None):
        found = [one for one in super().threads() if after is None or one.thread_id.lower() > after.lower()]
        return sorted(found, key=lambda one: one.thread_id.lower())[:limit]


class ListsWithoutLeases(InMemorySaver):
    def threads(self, **options):
        return [one._replace(lease=None) for one in super().threads(**options)]


class DropsWithParts(InMemorySaver):
    """Every checkpoint takes its part with it, whoever builds on it."""

    def drop(self, thread_id, namespace, checkpoint_ids, **options):
        super().drop(thread_id, namespace, checkpoint_ids, **options)
        series = self._threads.get(thread_id, {}).get(namespace)
        if series is not None:
            series.parts = {
                seq: part for seq, part in series.parts.items() if part.checkpoint_id not in checkpoint_ids
            }


class DropsTooLittle(InMemorySaver):
    """Keeps every part from the first to the last that is needed."""

    def drop(self, thread_id, namespace, checkpoint_ids, **options):
        series = self._threads.get(thread_id, {}).get(namespace)
        before = dict(series.parts) if series is not None else {}
        super().drop(thread_id, namespace, checkpoint_ids, **options)
        if series is not None:
            spans = needed_parts(series.checkpoints.values())
            series.parts = {seq: part for seq, part in before.items() if seq >= spans[0][0]}


class DropsTheHead(InMemorySaver):
    def drop(self, thread_id, namespace, checkpoint_ids, **options):
        found = self.load(thread_id, namespace)
        left = {i for i in checkpoint_ids if found and i != found.head_id}
        super().drop(thread_id, namespace, left, **options)
        if found and found.head_id in checkpoint_ids:
            raise SaverError("that is the head")


class DropsEverywhere(InMemorySaver):
    def drop(self, thread_id, namespace, checkpoint_ids, **options):
        for each in self.namespaces(thread_id):
            super().drop(thread_id, each, checkpoint_ids, **options)


class LeavesTheLease(InMemorySaver):
    def delete_thread(self, thread_id, **options):
        held = self._leases.get(thread_id)
        super().delete_thread(thread_id, **options)
        if held is not None:
            self._leases[thread_id] = held


class LooksThenAcquires(InMemorySaver):
    """Looks for a lease and takes it in two transactions."""

    def __init__(self):
        super().__init__()
        self.both = threading.Barrier(4)

    def acquire_lease(self, thread_id, holder, token, ttl, *, instead_of=None):
        others = {lease.token for lease in self.leases()} - {token}
        if threading.current_thread() is not threading.main_thread():
            self.both.wait(10)
            others = {lease.token for lease in self.leases()} - {token}
            instead_of = next(iter(others), None)
        return super().acquire_lease(thread_id, holder, token, ttl, instead_of=instead_of)


class NeverRunsOut(InMemorySaver):
    def acquire_lease(self, thread_id, holder, token, ttl, *, instead_of=None):
        held = self._leases.get(thread_id)
        if held is not None and held.until is not None and instead_of is None:
            held.until += 600
        return super().acquire_lease(thread_id, holder, token, ttl, instead_of=instead_of)


class ForgetsWhatRanOut(InMemorySaver):
    def leases(self):
        for lease in super().leases():
            if lease.expires_in is not None and lease.expires_in <= 0:
                self.release_lease(lease)
        return super().leases()


class AlwaysRunsOut(InMemorySaver):
    def acquire_lease(self, thread_id, holder, token, ttl, *, instead_of=None):
        ttl = 3600.0 if ttl is None else ttl
        return super().acquire_lease(thread_id, holder, token, ttl, instead_of=instead_of)


class NobodyIsLost(InMemorySaver):
    def renew_leases(self, leases, ttl):
        super().renew_leases(leases, ttl)
        return [lease._replace(expires_in=ttl) for lease in leases]


class ReleasesAnybodys(InMemorySaver):
    def release_lease(self, lease):
        with self._lock:
            self._leases.pop(lease.thread_id, None)


class Unfenced(InMemorySaver):
    def put(self, checkpoint, payload, *, lease=None, **options):
        super().put(checkpoint, payload, **options)


class UnfencedRecords(InMemorySaver):
    def put_records(self, *args, lease=None):
        super().put_records(*args)


class UnfencedDrops(InMemorySaver):
    def drop(self, thread_id, namespace, checkpoint_ids, *, lease=None):
        super().drop(thread_id, namespace, checkpoint_ids)


class UnfencedDeletion(InMemorySaver):
    def delete_thread(self, thread_id, *, lease=None):
        super().delete_thread(thread_id)


class FencesByToken(InMemorySaver):
    """Asks whether the lease is anybody's, not whether it is the thread's."""

    def put(self, checkpoint, payload, *, lease=None, **options):
        if lease is not None and lease.token in {one.token for one in self.leases()}:
            lease = None
        super().put(checkpoint, payload, lease=lease, **options)


class FencesWhatRanOut(InMemorySaver):
    """Takes a lease that ran out for lost, though nobody took it."""

    def put(self, checkpoint, payload, *, lease=None, **options):
        for one in self.leases():
            if lease is not None and one.expires_in is not None and one.expires_in <= 0:
                self.release_lease(one)
        super().put(checkpoint, payload, lease=lease, **options)


class StaysOpen(InMemorySaver):
    def close(self):
        pass


class TwinsDoNothing(InMemorySaver):
    async def aput(self, checkpoint, payload, **options):
        pass


FAULTY = {
    LastWriterWins: "a put that does not follow the head stores nothing",
    ChecksThenPuts: "of several puts that follow one head one succeeds",
    AnyPlace: "places ascend by one",
    PrefixSearch: "threads with similar names are different",
    FoldsCase: "namespaces with similar names are different",
    RecordsAnywhere: "what is no longer the head never changes",
    RecordsFirst: "a refused put stores no record",
    OldestFirst: "history goes from the newest to the oldest",
    SortsRecords: "records stand beside the head",
    SortsParts: "a checkpoint holds the parts that it builds on and its own",
    ReadsKnownParts: "parts that the caller knows are not read",
    TrustsKnownParts: "parts that the caller knows are not read",
    RepeatsParts: "parts are found by their places",
    FoldsCaseInListings: "threads are listed by code point",
    ListsWithoutLeases: "a listed thread has its head its records and its lease",
    DropsWithParts: "what is dropped is gone and what others need stays",
    DropsTooLittle: "parts between those that are needed go",
    DropsTheHead: "the head can not be dropped",
    DropsEverywhere: "a drop is about one series",
    LeavesTheLease: "a deleted thread has no lease",
    LooksThenAcquires: "of several that want a lease one has it",
    NeverRunsOut: "a lease that ran out is there until somebody takes it",
    ForgetsWhatRanOut: "a lease that ran out is there until somebody takes it",
    AlwaysRunsOut: "a lease without an end never runs out",
    NobodyIsLost: "renewing says which leases are still theirs",
    ReleasesAnybodys: "a lease that was given back is free",
    Unfenced: "who lost the lease stores nothing",
    UnfencedRecords: "who lost the lease stores nothing",
    UnfencedDrops: "who lost the lease removes nothing",
    UnfencedDeletion: "who lost the lease removes nothing",
    FencesByToken: "who lost the lease stores nothing",
    FencesWhatRanOut: "a lease that ran out is there until somebody takes it",
    StaysOpen: "a closed saver refuses everything",
    TwinsDoNothing: "every byte and column comes back",
}


@pytest.mark.parametrize("faulty", FAULTY, ids=lambda faulty: faulty.__name__)
def test_the_laws_find_a_faulty_saver(faulty):
    laws = [law for law in LAWS if law.name == FAULTY[faulty]]
    assert len(laws) == 2
    with pytest.raises(ExceptionGroup, match="laws of a saver are broken") as caught:
        check_saver(faulty, laws)
    notes = [note for error in caught.value.exceptions for note in error.__notes__]
    assert notes[-1] == f"law {laws[1]}", "at least the async twins break it"
    assert all(isinstance(error, AssertionError | JunctureError) for error in caught.value.exceptions)


def test_all_laws_in_one_go():
    check_saver(InMemorySaver)


def test_memory_saver_is_the_other_name():
    assert MemorySaver is InMemorySaver
    assert issubclass(InMemorySaver, Saver)


def test_an_error_of_the_head_names_thread_and_both_heads():
    saver = InMemorySaver()
    saver.put(checkpoint(1), b"", follows=None)
    with pytest.raises(HeadMovedError, match=r"thread 't'.*None.*000000000001") as caught:
        saver.put(checkpoint(2), b"", follows=None)
    assert caught.value.thread_id == "t"
