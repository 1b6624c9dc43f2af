"""A run that stops at any call of its saver goes on to the same end, whatever the call was and however it is saved.

The k-th call of the saver is the last of a run, for every k, before or after it took effect: the process is gone
(nothing comes after, the lease stays), or only the saver fails (the run ends by itself). Each way of saving tries some
calls, so that together they try every one; each tries all where `JUNCTURE_DEEP` is set.
`tests.properties.test_crashes` tries the first with random graphs and `durability="sync"`; here it is one graph that has
everything, with recorded calls and questions, all the ways in which steps are saved, and savers that block.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from juncture import InMemorySaver
from juncture.errors import SaverUnavailableError, ThreadBusyError
from juncture.savers import Lease
from tests.faults.graph import BEFORE, bring_to_end, build, saved_effects

pytestmark = pytest.mark.timeout(240)
DEEP = bool(os.environ.get("JUNCTURE_DEEP"))
THREAD = "t"
COUNTED = ("load", "put", "put_records", "acquire_lease", "release_lease")


class StoppedError(SaverUnavailableError):
    """What the saver raises at its last call, and at every one after it if its process is gone."""


class StoppingSaver(InMemorySaver):
    """Stops at its call number `at`, from 0, of those that runs make."""

    def __init__(self, at: int | None, *, after: bool, gone: bool) -> None:
        super().__init__()
        self.calls = 0
        self.running = False
        self.stopped = False
        self._at, self._after, self.gone = at, after, gone

    def perform(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if self._at is None or not self.running:
            return call(*args, **options)
        if self.stopped and self.gone:
            raise StoppedError("gone")
        number, self.calls = self.calls, self.calls + 1
        if number != self._at:
            return call(*args, **options)
        self.stopped = True
        if self._after:
            call(*args, **options)
        raise StoppedError(f"at call {number}")

    def back(self) -> None:
        """Another process begins; the lease of one that is gone has run out."""
        self._at = None
        if self.gone:
            for lease in self.leases():
                super().release_lease(lease)


def counting(name: str) -> Any:
    def method(self: StoppingSaver, *args: Any, **options: Any) -> Any:
        return self.perform(getattr(super(StoppingSaver, self), name), *args, **options)

    return method


for _name in COUNTED:
    setattr(StoppingSaver, _name, counting(_name))


class Blocking(StoppingSaver):
    """One whose calls the async driver makes in workers, and `durability="async"` in the background."""

    blocking = True


class Seen:
    """What was done."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended: list[str] = []

    @contextmanager
    def probe(self, key: str):
        self.began.append(key)
        yield
        self.ended.append(key)


def go(saver: StoppingSaver, seen: Seen, driver: str, durability: str) -> dict[str, Any]:
    """Brings the thread to its end, as far as that goes."""
    graph = build(seen.probe, checkpointer=saver)

    def invoke(*args: Any, **options: Any) -> Any:
        saver.running = True
        try:
            if driver == "sync":
                return graph.invoke(*args, **options)
            return asyncio.run(graph.ainvoke(*args, **options))
        finally:
            saver.running = False

    return bring_to_end(graph, THREAD, invoke, durability=durability)


NEVER = 1_000_000
WAYS = [
    ("sync", "sync", StoppingSaver),
    ("async", "sync", Blocking),
    ("sync", "async", Blocking),
    ("async", "async", Blocking),
    ("sync", "exit", StoppingSaver),
    ("async", "exit", Blocking),
]
"""All ways to save, with what makes most of a difference to each."""


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "failing"])
@pytest.mark.parametrize(
    ("driver", "durability", "kind"), WAYS, ids=[f"{driver}-{durability}" for driver, durability, _ in WAYS]
)
def test_a_run_that_stops_at_any_call_of_its_saver_goes_on_to_the_same_end(driver, durability, kind, gone):
    counted = kind(NEVER, after=False, gone=gone)
    undisturbed = go(counted, Seen(), driver, durability)
    assert counted.calls > 10
    stride = 1 if DEEP or counted.calls < 40 else 6
    offset = (2 * WAYS.index((driver, durability, kind)) + gone) % stride  # together they try every call
    for at in range(offset, counted.calls, stride):
        for after in (False, True):
            saver, seen = kind(at, after=after, gone=gone), Seen()
            where = f"stopped at call {at}, {after=}"
            check_end(saver, seen, driver, durability, undisturbed)
            saver.back()
            graph = build(checkpointer=saver)
            saved, done = saved_effects(graph, THREAD), len(seen.began)
            if durability == "sync":
                for key in seen.began:
                    assert BEFORE[key] <= saved, (
                        f"{where}: {key} began, and {BEFORE[key] - saved} wasn't saved"
                    )
            if not gone:
                free(saver)
            assert go(saver, seen, driver, durability) == undisturbed, where
            assert not set(seen.began[done:]) & saved, where
            assert Counter(seen.ended).keys() == BEFORE.keys(), where
            if durability == "sync":
                assert max(Counter(seen.ended).values()) <= 2, where
            assert saver.leases() == [], where


def check_end(
    saver: StoppingSaver, seen: Seen, driver: str, durability: str, undisturbed: dict[str, Any]
) -> None:
    """Runs until the saver stops: the run fails with what it raised, and says where."""
    try:
        ended = go(saver, seen, driver, durability)
    except ThreadBusyError as error:
        failed: Exception = error
    except StoppedError as error:
        failed = error
    else:  # the last lease could not be given back, or the calls came in another order and were fewer
        assert ended == undisturbed
        return
    assert saver.stopped
    assert any("of thread 't'" in note for note in failed.__notes__)
    if isinstance(failed, ThreadBusyError):  # it could not give the thread back between two of its runs
        assert not saver.gone


def free(saver: StoppingSaver) -> None:
    """Gives back the lease, if it was the giving back that failed: it has run out by now."""
    for lease in saver.leases():
        assert isinstance(lease, Lease)
        InMemorySaver.release_lease(saver, lease)
