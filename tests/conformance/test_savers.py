"""Every saver of ours keeps every law; and the laws find savers that don't."""

import asyncio
import threading
from dataclasses import replace

import pytest

from juncture.errors import GraphBuildError, HeadMovedError, SaverError
from juncture.savers import InMemorySaver, MemorySaver, Part, Saver, open_saver
from juncture.testing.saver_conformance import LAWS, check_saver, checkpoint

SAVERS = {"memory": InMemorySaver, "memory by URL": lambda: open_saver("memory:")}


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("saver", SAVERS)
def test_a_saver_keeps_the_law(saver, law):
    law(SAVERS[saver])


class Blocking(InMemorySaver):
    """As if it waited for a disk: its twins run in workers."""

    blocking = True

    def __init__(self):
        super().__init__()
        self.ran_on = set()

    def load(self, *args):
        self.ran_on.add(threading.get_ident())
        return super().load(*args)


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
    def put(self, checkpoint, *, follows, records=()):
        found = self.load(checkpoint.thread_id, checkpoint.namespace)
        super().put(checkpoint, follows=found and found.head_id, records=records)


class ChecksThenPuts(InMemorySaver):
    """Checks the head and stores in two transactions."""

    def __init__(self):
        super().__init__()
        self.both = threading.Barrier(4)

    def put(self, checkpoint, *, follows, records=()):
        found = self.load(checkpoint.thread_id, checkpoint.namespace)
        if (found and found.head_id) != follows:
            raise HeadMovedError("moved")
        if threading.current_thread() is not threading.main_thread() and checkpoint.thread_id == "t":
            self.both.wait(10)  # only the law about races puts from several workers at once
        found = self.load(checkpoint.thread_id, checkpoint.namespace)
        super().put(checkpoint, follows=found and found.head_id, records=records)


class PrefixSearch(InMemorySaver):
    def delete_thread(self, thread_id):
        for name in list(self._threads):
            if name.startswith(thread_id):
                super().delete_thread(name)


class FoldsCase(InMemorySaver):
    def put(self, checkpoint, *, follows, records=()):
        super().put(
            replace(checkpoint, namespace=checkpoint.namespace.lower()), follows=follows, records=records
        )

    def load(self, thread_id, namespace="", checkpoint_id=None):
        return super().load(thread_id, namespace.lower(), checkpoint_id)


class RecordsAnywhere(InMemorySaver):
    def put_records(self, thread_id, namespace, checkpoint_id, records):
        found = self.load(thread_id, namespace)
        super().put_records(thread_id, namespace, found.head_id if found else checkpoint_id, records)


class RecordsFirst(InMemorySaver):
    """Stores the records, then the checkpoint: not in one transaction."""

    def put(self, checkpoint, *, follows, records=()):
        if records:
            super().put_records(checkpoint.thread_id, checkpoint.namespace, follows, records)
        super().put(checkpoint, follows=follows)


class ListsValues(InMemorySaver):
    def history(self, *args, payloads=False, **kwargs):
        return super().history(*args, payloads=True, **kwargs)


class OldestFirst(InMemorySaver):
    def history(self, *args, **kwargs):
        return super().history(*args, **kwargs)[::-1]


class SortsRecords(InMemorySaver):
    def load(self, *args):
        found = super().load(*args)
        if found is not None:
            found.records = tuple(sorted(found.records))
        return found


class StaysOpen(InMemorySaver):
    def close(self):
        pass


class ForgetsParts(InMemorySaver):
    def put(self, checkpoint, *, follows, records=()):
        parts = tuple(Part(part.id, part.payload or b"") for part in checkpoint.parts)
        super().put(replace(checkpoint, parts=parts), follows=follows, records=records)


class TwinsDoNothing(InMemorySaver):
    async def aput(self, checkpoint, *, follows, records=()):
        pass


FAULTY = {
    LastWriterWins: "a put that does not follow the head stores nothing",
    ChecksThenPuts: "of several puts that follow one head one succeeds",
    PrefixSearch: "threads with similar names are different",
    FoldsCase: "namespaces with similar names are different",
    RecordsAnywhere: "what is no longer the head never changes",
    RecordsFirst: "a refused put stores no record",
    ListsValues: "history gives payloads and records when asked",
    OldestFirst: "history goes from the newest to the oldest",
    SortsRecords: "records stand beside the head",
    StaysOpen: "a closed saver refuses everything",
    ForgetsParts: "a part is there and never changes",
    TwinsDoNothing: "every byte and column comes back",
}


@pytest.mark.parametrize("faulty", FAULTY)
def test_the_laws_find_a_faulty_saver(faulty):
    with pytest.raises(ExceptionGroup, match="laws of a saver are broken") as caught:
        check_saver(faulty)
    notes = [note for error in caught.value.exceptions for note in error.__notes__]
    assert any(note.startswith(f"law {FAULTY[faulty]}[") for note in notes), notes


def test_all_laws_in_one_go():
    check_saver(InMemorySaver)


def test_memory_saver_is_the_other_name():
    assert MemorySaver is InMemorySaver
    assert issubclass(InMemorySaver, Saver)


def test_each_memory_url_is_a_new_saver():
    first, second = open_saver("memory:"), open_saver("memory:")
    first.put(checkpoint(0), follows=None)
    assert first.load("t") is not None
    assert second.load("t") is None


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("redis://me:secret@host", "'redis:'"),
        ("memory", "scheme and a colon"),
        ("memory:here", "nothing after the colon"),
        ("", "scheme and a colon"),
    ],
)
def test_an_unknown_url_is_an_error_that_names_what_is_known_and_no_password(url, named):
    with pytest.raises(GraphBuildError, match=r"memory:") as caught:
        open_saver(url)
    assert named in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_error_of_the_head_names_thread_and_both_heads():
    saver = InMemorySaver()
    saver.put(checkpoint(0), follows=None)
    with pytest.raises(HeadMovedError, match=r"thread 't'.*None.*000000000000") as caught:
        saver.put(checkpoint(1), follows=None)
    assert caught.value.thread_id == "t"
