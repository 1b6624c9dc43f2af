"""Blocks in turns, and their minima. The method is told in the package's docstring."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import inspect
import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench.libraries import NotThereError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BLOCK_S = 0.005
MAX_BLOCKS = 60
HANG_S = 120
"""A case that takes longer shows where it stands and ends the process."""


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
    blocks: int = 0


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
    makers: Mapping[str, Callable[[], Callable[[], Any]]], effort: Effort, *, self_timed: bool = False
) -> Minima:
    """The smallest block of each subject; a subject that fails is reported and left out.

    Args:
        makers: By name, a function that builds the subject's call.
        effort: How long to look.
        self_timed: The calls return their figures.
    """
    found = Minima()
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    try:
        with asyncio.Runner() as runner, collector_thawed():
            subjects, turn_s = [], 0.0
            for name, make in makers.items():
                with blamed(found, name):
                    subject = Subject(name, make(), self_timed, runner)
                    turn_s += subject.warm_up()
                    subjects.append(subject)
            gc.collect()
            gc.freeze()
            found.blocks = min(
                MAX_BLOCKS, max(effort.min_blocks, int(effort.case_s / turn_s) if turn_s else 0)
            )
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
