"""Keeps the leases of running threads alive: one daemon thread for each saver, while it has leases to renew.

A lease that was found to be another run's by now is marked (`Held.lost`), so that its run stops at its next save; the saver
would refuse that save anyway. A saver that can't be asked proves nothing: that is logged, and the run goes on until
the saver refuses.

A held lease is only referred to weakly: if its run is forgotten without having ended, the lease runs out.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from contextlib import suppress
from time import monotonic
from typing import Final, Literal, TypeAlias

from juncture.errors import ThreadBusyError
from juncture.persistence.asking import Ask, Asking
from juncture.persistence.holders import is_dead, this_holder
from juncture.savers.base import Lease, Saver

OnBusy: TypeAlias = Literal["raise", "wait"]

RUNNING: Final = "runs it"
EDITING: Final = "changes it"
"""What a holder does with its thread."""
WAITING: Final = 0.05
"""Seconds between two looks at a thread that somebody else runs."""

_RENEWALS: Final = 3
"""How often a lease is renewed in the time after which it would run out."""


class Held:
    """A lease that a run holds."""

    __slots__ = ("__weakref__", "lease", "lost")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.lost = False


class _Keeper:
    """Renews the leases of one saver."""

    def __init__(self, saver: Saver, ttl: float) -> None:
        self._saver = weakref.ref(saver)
        self._ttl = ttl
        self._held: weakref.WeakSet[Held] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._runs = False

    def add(self, held: Held) -> None:
        with self._lock:
            self._held.add(held)
            if not self._runs:
                threading.Thread(target=self._keep, name="juncture-leases", daemon=True).start()
                self._runs = True

    def discard(self, held: Held) -> None:
        with self._lock:
            self._held.discard(held)

    def _keep(self) -> None:
        pause = self._ttl / _RENEWALS
        while True:
            with self._lock:
                self._wake.wait(pause)
                held = list(self._held)
                if not held:
                    self._runs = False
                    return
            self._renew(held)
            del held

    def _renew(self, held: list[Held]) -> None:
        saver = self._saver()
        if saver is None:
            return
        begun = monotonic()
        try:
            kept = {lease.token for lease in saver.renew_leases([one.lease for one in held], self._ttl)}
        except Exception:
            import logging  # here: it is slow to import, and seldom needed

            logging.getLogger("juncture").warning(
                "the leases of %d running threads could not be renewed; if this lasts for %.0f s, others may take them over",
                len(held),
                self._ttl,
                exc_info=True,
            )
            return
        for one in held:
            one.lost = one.lease.token not in kept
        if (took := monotonic() - begun) > self._ttl / _RENEWALS:
            import logging  # here: it is slow to import, and seldom needed

            logging.getLogger("juncture").warning("renewing leases took %.1f s of %.1f s", took, self._ttl)


class _Keepers:
    """The keepers of this process; a forked child begins with none, and leaves the leases of its parent to it."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        self.making = threading.Lock()
        self.of: weakref.WeakKeyDictionary[Saver, _Keeper] = weakref.WeakKeyDictionary()


_keepers = _Keepers()
os.register_at_fork(after_in_child=_keepers.begin_anew)


def keep(saver: Saver, lease: Lease) -> Held:
    """Keeps a lease alive, until it is let go or what is returned is forgotten."""
    held = Held(lease)
    if saver.lease_ttl is not None:
        with _keepers.making:
            keeper = _keepers.of.get(saver)
            if keeper is None:
                keeper = _keepers.of[saver] = _Keeper(saver, saver.lease_ttl)
        keeper.add(held)
    return held


def acquire(
    saver: Saver, thread_id: str, on_busy: OnBusy, dead: str | None = None, *, doing: str = RUNNING
) -> Asking[Held]:
    """Takes the lease of a thread, and keeps it alive. ``dead`` is the token of one whose run is known to have died.

    Raises:
        ThreadBusyError: Another run has it, and ``on_busy`` isn't ``"wait"``.
    """
    token = os.urandom(16).hex()
    while True:
        args = (thread_id, this_holder(doing), token, saver.lease_ttl)
        try:
            lease: Lease = yield Ask(saver, "acquire_lease", args, {"instead_of": dead}, whole=True)
            return keep(saver, lease)
        except ThreadBusyError as busy:
            if dead != busy.lease.token and is_dead(busy.lease.holder):
                dead = busy.lease.token
                continue
            if on_busy == "raise":
                raise
        except GeneratorExit:
            raise
        except BaseException:  # cancelled, or the connection was lost: it may have been taken all the same
            with suppress(Exception):  # then it runs out; the first error is raised
                mine = Lease(thread_id, this_holder(doing), token, None)
                yield Ask(saver, "release_lease", (mine,), whole=True)
            raise
        yield Ask(_Pause, "sleep", (WAITING,))


def release(saver: Saver, held: Held) -> Asking[None]:
    """Gives a lease back. Where the saver can't be reached, it is left to run out."""
    keeper = _keepers.of.get(saver)
    if keeper is not None:
        keeper.discard(held)
    try:
        yield Ask(saver, "release_lease", (held.lease,), whole=True)
    except Exception:
        import logging  # here: it is slow to import, and seldom needed

        logging.getLogger("juncture").warning(
            "the lease of thread %r could not be given back; it runs out in %s s",
            held.lease.thread_id,
            saver.lease_ttl,
            exc_info=True,
        )


def put_back(saver: Saver, held: Held, dead: Lease) -> Asking[None]:
    """Makes a lease again the dead one that it was taken over from, so that it is found once more."""
    keeper = _keepers.of.get(saver)
    if keeper is not None:
        keeper.discard(held)
    args = (dead.thread_id, dead.holder, dead.token, 0.0)
    yield Ask(saver, "acquire_lease", args, {"instead_of": held.lease.token})


def is_of_run(lease: Lease) -> bool:
    """Whether a run has the lease, and not somebody who edits, copies or prunes the thread."""
    return not lease.holder.endswith(EDITING)


def is_free(lease: Lease) -> bool:
    """Whether nobody lives to use a lease."""
    return (lease.expires_in is not None and lease.expires_in <= 0) or is_dead(lease.holder)


class _Pause:
    """Waiting, for both kinds of code."""

    sleep = staticmethod(time.sleep)

    @staticmethod
    async def asleep(seconds: float) -> None:
        import asyncio  # a program without async code never pays for it

        await asyncio.sleep(seconds)
