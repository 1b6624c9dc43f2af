"""Blocks in turns, and their minima. The method is told in the package's docstring."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import inspect
import math
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.libraries import NotThereError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BLOCK_S = 0.005
MAX_BLOCKS = 60
HANG_S = 300
"""A case that takes longer shows where it stands and ends the process."""
LONG_S = 3600
"""The same of a case that takes long."""


@dataclass(frozen=True)
class Effort:
    """How long to look for a minimum."""

    case_s: float
    """Seconds of blocks per case, all libraries together."""
    min_blocks: int
    """Blocks per library, however long they take."""


FULL = Effort(case_s=2.5, min_blocks=5)
QUICK = Effort(case_s=0.4, min_blocks=2)


@dataclass
class Minima:
    """What a case gave."""

    best: dict[str, float] = field(default_factory=dict)
    """Library name to the smallest block: seconds a call, or the figure of a self-timed case."""
    missing: dict[str, str] = field(default_factory=dict)
    """Library name to the name that couldn't be imported."""
    failed: dict[str, str] = field(default_factory=dict)
    """Library name to the error that a call raised."""
    left_out: set[str] = field(default_factory=set)
    """Libraries that weren't asked, because it takes them too long."""
    blocks: int = 0


class Closing(NamedTuple):
    """A call, and what is to be called when the case is over: a function or a coroutine function."""

    call: Callable[[], Any]
    close: Callable[[], Any]


@dataclass
class Subject:
    """One library's call of the case being measured."""

    name: str
    call: Callable[[], Any]
    self_timed: bool
    runner: asyncio.Runner
    calls: int = 1
    """Calls in one block."""

    def block(self) -> float:
        """The mean over one block's calls."""
        if inspect.iscoroutinefunction(self.call):
            return self.runner.run(self._ablock())
        call = self.call
        if self.self_timed:
            return sum(call() for _ in range(self.calls)) / self.calls
        begun = perf_counter()
        for _ in range(self.calls):
            call()
        return (perf_counter() - begun) / self.calls

    async def _ablock(self) -> float:
        call = self.call
        if self.self_timed:
            return sum([await call() for _ in range(self.calls)]) / self.calls
        begun = perf_counter()
        for _ in range(self.calls):
            await call()
        return (perf_counter() - begun) / self.calls

    def warm_up(self) -> float:
        """Runs once for the caches and once to choose the block's size; returns a block's wall time."""
        self.block()
        begun = perf_counter()
        self.block()
        took = perf_counter() - begun
        if not self.self_timed:
            self.calls = max(1, math.ceil(BLOCK_S / took))
        return took * self.calls


def minima(
    makers: Mapping[str, Callable[[], Callable[[], Any] | Closing]],
    effort: Effort,
    *,
    self_timed: bool = False,
    once: bool = False,
    hang_s: float = HANG_S,
) -> Minima:
    """The smallest block of each subject; a subject that fails is reported and left out.

    Args:
        makers: By name, a function that builds the subject's call, and may say what closes it.
        effort: How long to look.
        self_timed: The calls return their figures.
        once: One call each says all: no warm-up, one block.
        hang_s: Seconds after which the process is ended.
    """
    found = Minima()
    faulthandler.dump_traceback_later(hang_s, exit=True)
    try:
        with asyncio.Runner() as runner, collector_thawed(), ExitStack() as closing:
            subjects, turn_s = [], 0.0
            for name, make in makers.items():
                with blamed(found, name):
                    made = make()
                    if isinstance(made, Closing):
                        closing.callback(_close, made.close, runner)
                        made = made.call
                    subject = Subject(name, made, self_timed, runner)
                    turn_s += 0 if once else subject.warm_up()
                    subjects.append(subject)
            gc.collect()
            gc.freeze()
            wanted = int(effort.case_s / turn_s) if turn_s else 0
            found.blocks = 1 if once else min(MAX_BLOCKS, max(effort.min_blocks, wanted))
            for _ in range(found.blocks):
                for subject in subjects:
                    if subject.name not in found.failed:
                        with blamed(found, subject.name):
                            gc.collect()
                            figure = subject.block()
                            found.best[subject.name] = min(figure, found.best.get(subject.name, math.inf))
    finally:
        faulthandler.cancel_dump_traceback_later()
    return found


def _close(close: Callable[[], Any], runner: asyncio.Runner) -> None:
    if inspect.iscoroutinefunction(close):
        runner.run(close())
    else:
        close()


@contextmanager
def collector_thawed() -> Iterator[None]:
    """What is frozen inside is thawed afterwards."""
    try:
        yield
    finally:
        gc.unfreeze()
        gc.collect()


@contextmanager
def blamed(found: Minima, name: str) -> Iterator[None]:
    """An error inside is `name`'s, and the others go on."""
    try:
        yield
    except NotThereError as error:
        found.missing[name] = str(error)
    except Exception as error:  # noqa: BLE001 - whatever a library raises is its row's result
        found.failed[name] = " ".join(f"{type(error).__name__}: {error}".split())
        found.best.pop(name, None)
