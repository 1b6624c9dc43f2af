"""The rows of the table: which cases each takes, how its figure comes from their minima, and what it must reach.

Targets are those of the design. Where it names none for a row, the row of the same kind lends its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import cases, graphs

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench import chat
    from bench.cases import Case

MICROSECONDS = "µs"
TIMES = "×"

STEPS = 200
"""Length of the loops."""
CHUNKS = 10_000
RUNS = 1_000
TURNS = (200, 1_000)
"""Of the chats. LangGraph has the longer one only with ``--long``."""
CHECKPOINTS = 10_000
"""Of the long thread."""


@dataclass(frozen=True)
class Target:
    """What Juncture must reach: so many times less than LangGraph, or at most so much."""

    ratio: float | None = None
    most: float | None = None
    """In the row's unit."""

    def met(self, ratio: float | None, figure: float | None) -> bool | None:
        """None where there is no target or nothing to judge."""
        if self.ratio is not None:
            return None if ratio is None else ratio >= self.ratio
        if self.most is not None:
            return None if figure is None else figure <= self.most
        return None


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    cases: tuple[Case, ...]
    figure: Callable[..., float]
    """From the cases' minima (seconds, or what a self-timed case returns) to the row's unit."""
    target: Target = Target()
    unit: str = MICROSECONDS
    more_is_better: bool = False
    floor: bool | None = None
    """A row of multiples of the hand-written loop: whether that loop is the async one."""


def at_least(ratio: float) -> Target:
    return Target(ratio=ratio)


def at_most(most: float) -> Target:
    return Target(most=most)


def each(count: int) -> Callable[[float], float]:
    """Microseconds for each of `count`."""
    return lambda seconds: seconds / count * 1e6


def ms(seconds: float) -> float:
    return seconds * 1e3


def mb(size: float, bare: float = 0.0) -> float:
    return (size - bare) / 2**20


def as_it_is(figure: float) -> float:
    return figure


def grown(first: float, last: float) -> float:
    """A last turn over a first one."""
    return last / first


def growth(one: float, few: float, many: float) -> float:
    """A step among 1,000 nodes over a step among 10, both without the fixed cost of a call."""
    return ((many - one) / 999) / ((few - one) / 9)


def extra(nested: float, inlined: float) -> float:
    """Microseconds that one of 10 calls costs beyond its nodes."""
    return (nested - inlined) / 10 * 1e6


def _steps() -> list[Row]:
    sync, a_sync = at_least(25), at_least(20)
    rows = [Row(f"step: chain of {n:,}, sync", (cases.chain(n),), each(n), sync) for n in (10, 100, 1000)]
    rows += [
        Row("step: loop, sync", (cases.loop(STEPS, graphs.bump),), each(STEPS), sync),
        Row("step: chain of 100, 20 keys, sync", (cases.wide_chain(100, is_async=False),), each(100), sync),
    ]
    rows += [
        Row(f"step: chain of {n:,}, async", (cases.achain(n),), each(n), a_sync) for n in (10, 100, 1000)
    ]
    looped = cases.loop(STEPS, graphs.abump, async_router=True)
    rows += [
        Row("step: loop, async", (looped,), each(STEPS), a_sync),
        Row("step: chain of 100, 20 keys, async", (cases.wide_chain(100, is_async=True),), each(100), a_sync),
    ]
    routed = cases.loop(STEPS, graphs.abump)
    workers = cases.chain(100, graphs.bump, is_async=True)
    rows += [
        Row("step: loop with a sync router, async", (routed,), each(STEPS), at_least(25)),
        Row("step: sync nodes, async", (workers,), each(100), at_least(5)),
        Row("step: sync nodes, inline=True, async", (cases.inline_chain(100),), each(100), at_least(25)),
    ]
    saved = at_least(15)
    rows += [
        Row(f"step: memory saver, chain of {n}, sync", (cases.chain(n, saver=True),), each(n), saved)
        for n in (10, 100)
    ]
    rows.append(
        Row("step: memory saver, chain of 100, async", (cases.achain(100, saver=True),), each(100), saved)
    )
    return rows


def _flatness() -> list[Row]:
    title = "flat: step in a chain of 1,000 over one of 10"
    flat = at_most(1.3)  # larger graphs miss the processor's caches more often; more than that is growth
    return [
        Row(f"{title}, sync", (cases.chain(1), cases.chain(10), cases.chain(1000)), growth, flat, unit=TIMES),
        Row(
            f"{title}, async",
            (cases.achain(1), cases.achain(10), cases.achain(1000)),
            growth,
            flat,
            unit=TIMES,
        ),
        Row("call: one node, sync", (cases.chain(1),), each(1)),
        Row("call: one node, async", (cases.achain(1),), each(1)),
    ]


def _policies() -> list[Row]:
    """Steps with policies that have nothing to do, over bare ones. A sync node with a limit runs on a worker."""
    most = at_most(1.5)
    bare, abare = cases.chain(100), cases.achain(100)
    return [
        Row("policy: retry, sync", (bare, cases.retried_chain(100, is_async=False)), grown, most, unit=TIMES),
        Row(
            "policy: retry, async", (abare, cases.retried_chain(100, is_async=True)), grown, most, unit=TIMES
        ),
        Row(
            "policy: time limit, async",
            (abare, cases.limited_chain(100, is_async=True)),
            grown,
            most,
            unit=TIMES,
        ),
        Row("policy: step with a time limit, sync", (cases.limited_chain(100, is_async=False),), each(100)),
    ]


def _fans() -> list[Row]:
    rows = []
    for kind, is_async in (("sync", False), ("async", True)):
        rows += [
            Row(
                f"send: {n:,} workers, {kind}, per worker",
                (cases.sends(n, is_async=is_async),),
                each(n),
                at_least(15),
            )
            for n in (100, 1000)
        ]
        case = cases.fan_out(10, is_async=is_async)
        rows.append(
            Row(f"fan-out: 10 branches and a join, {kind}, per node", (case,), each(12), at_least(15))
        )
    return rows


def _subgraphs() -> list[Row]:
    goal = at_least(20)
    pairs = {
        "sync": (cases.subgraphs(10, 2, graphs.bump), cases.chain(20)),
        "async": (cases.subgraphs(10, 2, graphs.abump), cases.achain(20)),
        "memory saver, sync": (cases.subgraphs(10, 2, graphs.bump, saver=True), cases.chain(20, saver=True)),
    }
    return [
        Row(f"subgraph: call beyond its nodes, {kind}", pair, extra, goal) for kind, pair in pairs.items()
    ]


def _streams() -> list[Row]:
    rows = []
    for kind, is_async in (("sync", False), ("async", True)):
        every, first = cases.chunks(CHUNKS, is_async=is_async), cases.first_chunk(CHUNKS, is_async=is_async)
        rows += [
            Row(f"chunk: custom, {kind}, per chunk", (every,), each(CHUNKS), at_least(3)),
            Row(f"chunk: first of {CHUNKS:,} after, {kind}", (first,), each(1), at_most(1000)),
        ]
    return rows


def _on_disk() -> list[Row]:
    rows = [
        Row(
            "step: SQLite NORMAL, chain of 100, sync", (cases.on_disk(100, "NORMAL"),), each(100), at_least(8)
        ),
        Row(
            "step: SQLite NORMAL, chain of 100, async",
            (cases.on_disk(100, "NORMAL", is_async=True),),
            each(100),
            at_least(12),
        ),
        Row("step: SQLite FULL, chain of 100, sync", (cases.on_disk(100, "FULL"),), each(100), at_least(2.5)),
        Row(
            "step: SQLite FULL, chain of 100, async",
            (cases.on_disk(100, "FULL", is_async=True),),
            each(100),
            at_least(2.5),
        ),
        Row("step: SQLite, file", (cases.bytes_a_step(1000),), as_it_is, unit="bytes"),
    ]
    title, newest = f"history: thread of {CHECKPOINTS:,}", CHECKPOINTS - 1
    rows += [
        Row(f"{title}, list all", (cases.listing(CHECKPOINTS, values=False),), ms, unit="ms"),
        Row(f"{title}, list all with values", (cases.listing(CHECKPOINTS, values=True),), ms, unit="ms"),
        Row(
            f"{title}, list the newest 10",
            (cases.listing(CHECKPOINTS, values=False, limit=10),),
            ms,
            unit="ms",
        ),
        Row(f"{title}, load the newest", (cases.loading(CHECKPOINTS, newest),), each(1)),
        Row(f"{title}, load one of the middle", (cases.loading(CHECKPOINTS, CHECKPOINTS // 2),), each(1)),
    ]
    return rows


def _chats(messages: chat.MessageKind) -> list[Row]:
    """Targets stand at the longer chat, whose figures they are."""
    rows = []
    for turns in TURNS:
        file, first, last, load = (
            cases.chats("sqlite", messages, turns, figure)
            for figure in ("file", "first ten", "last ten", "load")
        )
        peak = cases.chats("memory", messages, turns, "peak")
        title, judged = f"chat: {turns:,} turns, {messages}", turns == TURNS[-1]
        rows += [
            Row(f"{title}, SQLite file", (file,), mb, at_most(5) if judged else Target(), unit="MB"),
            Row(f"{title}, a first turn", (first,), each(1)),
            Row(f"{title}, a last turn", (last,), each(1)),
            Row(
                f"{title}, last over first",
                (first, last),
                grown,
                at_most(3) if judged else Target(),
                unit=TIMES,
            ),
            Row(f"{title}, load with a new saver", (load,), ms, unit="ms"),
            Row(
                f"{title}, memory saver, peak",
                (peak,),
                mb,
                at_most(100) if judged else Target(),
                unit="MB",
            ),
        ]
    return rows


def _machine_wide() -> list[Row]:
    concurrent = cases.concurrent_runs(RUNS, 5)
    memory = cases.imported("memory")
    return [
        Row(
            f"runs: {RUNS:,} concurrent ainvokes of 5 nodes",
            (concurrent,),
            lambda seconds: RUNS / seconds,
            at_least(20),
            unit="runs/s",
            more_is_better=True,
        ),
        Row("import: time", (cases.imported("time"),), ms, at_most(85), unit="ms"),
        Row("import: time, with a first run", (cases.imported("first run"),), ms, unit="ms"),
        Row("import: memory beyond the bare interpreter", (memory, cases.imported("bare")), mb, unit="MB"),
        Row("import: memory in all", (memory,), mb, at_most(30), unit="MB"),
    ]


def _floors() -> list[Row]:
    return [
        Row("floor, sync", (cases.chain(100),), each(100), unit=TIMES, floor=False),
        Row("floor, async", (cases.achain(100),), each(100), unit=TIMES, floor=True),
    ]


def all_rows(*, floor: bool) -> list[Row]:
    """In the table's order; the floor's rows come last."""
    rows = [
        *_steps(),
        *_on_disk(),
        *_flatness(),
        *_policies(),
        *_fans(),
        *_subgraphs(),
        *_streams(),
        *_machine_wide(),
    ]
    rows += [*_chats("dicts"), *_chats("LangChain")]
    return rows + _floors() if floor else rows
