"""What one measured call does. A case makes, for a library, a function that runs the graph once and checks the result.

Such a function is sync or async; its time is taken around it. The ones of a self-timed case return their own figure.
Cases are shared by rows and measured once.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench import chat, footprint, graphs, stores
from bench.libraries import JUNCTURE
from bench.measure import Closing

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.libraries import Library


@dataclass(frozen=True)
class Case:
    """One program to time."""

    name: str
    make: Callable[[Library], Callable[[], Any]]
    self_timed: bool = False
    """Calls return their figure; each call is a block of its own kind and isn't repeated to fill 5 ms."""
    once: bool = False
    """One call says all there is: it isn't warmed up, and not repeated."""
    long_for_peer: bool = False
    """LangGraph takes minutes and gigabytes, and is measured only if that is asked for."""


class WrongResultError(Exception):
    """A library didn't do the work that was asked for."""


def expect(found: object, expected: object) -> None:
    if found != expected:
        raise WrongResultError(f"expected {expected!r:.80}, got {found!r:.80}")


def counting(
    build: Callable[[Library], Any],
    steps: int,
    *,
    saver: bool = False,
    extra: dict[str, str] | None = None,
    is_async: bool = False,
) -> Callable[[Library], Callable[[], Any]]:
    """Runs a graph whose nodes add one to ``n`` in all `steps` times; with a saver each run is a new thread."""

    def make(lib: Library) -> Callable[[], Any]:
        graph = build(lib).compile(checkpointer=lib.InMemorySaver() if saver else None)
        given = {"n": 0, **(extra or {"name": "bench"})}
        config: dict[str, Any] = {"recursion_limit": steps + 10}
        threads = itertools.count()

        def config_of_run() -> dict[str, Any]:
            return {**config, "configurable": {"thread_id": f"{next(threads)}"}} if saver else config

        def call() -> None:
            expect(graph.invoke(given, config_of_run())["n"], steps)

        async def acall() -> None:
            expect((await graph.ainvoke(given, config_of_run()))["n"], steps)

        return acall if is_async else call

    return make


def on_disk(length: int, synchronous: stores.Synchronous, *, is_async: bool = False) -> Case:
    """A chain with a saver on a SQLite file; each run is a new thread of the same file."""
    action = graphs.abump if is_async else graphs.bump

    def make(lib: Library) -> Callable[[], Any]:
        path = stores.new_file()
        built = graphs.chain(lib, length, action)
        threads = itertools.count()
        opened: list[tuple[stores.Store, Any]] = []

        def given() -> tuple[dict[str, Any], dict[str, Any]]:
            thread = {"thread_id": f"{next(threads)}"}
            return {"n": 0, "name": "bench"}, {"recursion_limit": length + 10, "configurable": thread}

        def begin(store: stores.Store) -> None:
            opened.append((store, built.compile(checkpointer=store.saver)))

        def call() -> None:
            expect(opened[0][1].invoke(*given())["n"], length)

        async def acall() -> None:
            if not opened:  # the peer's saver belongs to the loop that is running
                begin(await stores.asqlite(lib, path, synchronous))
            expect((await opened[0][1].ainvoke(*given()))["n"], length)

        async def aclose() -> None:
            for store, _ in opened:
                await store.close()

        if is_async:
            return Closing(acall, aclose)
        begin(stores.sqlite(lib, path, synchronous))
        return Closing(call, opened[0][0].close)

    kind = "async run" if is_async else "sync run"
    return Case(f"chain of {length}, SQLite {synchronous}, {kind}", make)


def bytes_a_step(steps: int) -> Case:
    """A self-timed case whose figure is bytes."""

    def make(lib: Library) -> Callable[[], Any]:
        return partial(stores.bytes_a_step, lib, steps)

    return Case(f"bytes of {steps} steps", make, self_timed=True, once=True)


def listing(checkpoints: int, *, values: bool, limit: int | None = None) -> Case:
    """The history of a long thread, newest first: all of it, or so many. Only Juncture can leave values out."""

    def make(lib: Library) -> Callable[[], Any]:
        store, graph, config = _long(lib, checkpoints)
        options = {} if values or lib is not JUNCTURE else {"values": False}

        def call() -> None:
            found = sum(1 for _ in graph.get_state_history(config, limit=limit, **options))
            if limit or lib is JUNCTURE:
                expect(found, limit or checkpoints)
            else:
                expect(found, checkpoints + 1)  # it saves what `START` makes of the input as well

        return Closing(call, store.close)

    return Case(f"listing {limit or 'all'} of {checkpoints}, {values=}", make)


def loading(checkpoints: int, step: int) -> Case:
    """The state of a long thread after one of its steps."""

    def make(lib: Library) -> Callable[[], Any]:
        store, graph, config = _long(lib, checkpoints)
        if step < checkpoints - 1:
            config = next(iter(graph.get_state_history(config, filter={"step": step}))).config

        def call() -> None:
            expect(graph.get_state(config).values["n"], step)

        return Closing(call, store.close)

    return Case(f"loading step {step} of {checkpoints}", make)


def _long(lib: Library, checkpoints: int) -> tuple[stores.Store, Any, dict[str, Any]]:
    store = stores.sqlite(lib, stores.long_thread(lib, checkpoints), "NORMAL")
    graph = graphs.loop(lib, checkpoints - 1).compile(checkpointer=store.saver)
    return store, graph, {"configurable": {"thread_id": "long"}}


def chats(saver: chat.SaverKind, messages: chat.MessageKind, turns: int, figure: str) -> Case:
    """One figure of a chat in a fresh interpreter."""

    def make(lib: Library) -> Callable[[], Any]:
        return lambda: chat.figures(lib, saver, messages, turns)[figure]

    name = f"chat of {turns}, {messages}, {saver}, {figure}"
    return Case(name, make, self_timed=True, once=True, long_for_peer=turns > 200)


def chain(length: int, action: Any = graphs.bump, *, saver: bool = False, is_async: bool = False) -> Case:
    kind = ("async run" if is_async else "sync run") + (" with saver" if saver else "")
    build = partial(graphs.chain, length=length, action=action)
    name = f"chain of {length}, {action.__name__}, {kind}"
    return Case(name, counting(build, length, saver=saver, is_async=is_async))


def achain(length: int, *, saver: bool = False) -> Case:
    return chain(length, graphs.abump, saver=saver, is_async=True)


def inline_chain(length: int) -> Case:
    def build(lib: Library) -> Any:
        return graphs.chain(lib, length, graphs.bump, **lib.inline)

    return Case(f"chain of {length}, inline, async run", counting(build, length, is_async=True))


def retried_chain(length: int, *, is_async: bool) -> Case:
    """Every node has a retry policy, and nothing fails."""
    action = graphs.abump if is_async else graphs.bump

    def build(lib: Library) -> Any:
        return graphs.chain(lib, length, action, retry_policy=lib.RetryPolicy())

    name = f"chain of {length}, {action.__name__}, retry policy"
    return Case(name, counting(build, length, is_async=is_async))


def limited_chain(length: int, *, is_async: bool) -> Case:
    """Every node has a time limit, which isn't reached. LangGraph has none for sync nodes."""
    action = graphs.abump if is_async else graphs.bump

    def build(lib: Library) -> Any:
        return graphs.chain(lib, length, action, timeout=60)

    name = f"chain of {length}, {action.__name__}, time limit"
    return Case(name, counting(build, length, is_async=is_async))


def wide_chain(length: int, *, is_async: bool) -> Case:
    action = graphs.abump_wide if is_async else graphs.bump_wide

    def build(lib: Library) -> Any:
        return graphs.chain(lib, length, action, schema=graphs.Wide)

    extra = dict.fromkeys(graphs.WIDE_KEYS, "a value of ordinary length")
    make = counting(build, length, extra=extra, is_async=is_async)
    return Case(f"chain of {length}, 20 keys, {action.__name__}", make)


def loop(steps: int, action: Any, *, async_router: bool = False) -> Case:
    build = partial(graphs.loop, steps=steps, action=action, async_router=async_router)
    make = counting(build, steps, is_async=action is graphs.abump)
    return Case(f"loop of {steps}, {action.__name__}, {async_router=}", make)


def subgraphs(calls: int, length: int, action: Any, *, saver: bool = False) -> Case:
    """`calls` nodes one after the other, each of them a compiled chain of `length`."""

    def build(lib: Library) -> Any:
        return graphs.chain(lib, calls, graphs.chain(lib, length, action).compile())

    make = counting(build, calls * length, saver=saver, is_async=action is graphs.abump)
    return Case(f"{calls} subgraphs of {length}, {action.__name__}, {saver=}", make)


def gathering(build: Callable[[Library], Any], count: int, results: list[int], *, is_async: bool):
    """Runs a graph that gathers `results` in ``done``."""

    def make(lib: Library) -> Callable[[], Any]:
        graph = build(lib).compile()
        given = {"count": count, "done": []}

        def call() -> None:
            expect(graph.invoke(given)["done"], results)

        async def acall() -> None:
            expect((await graph.ainvoke(given))["done"], results)

        return acall if is_async else call

    return make


def sends(count: int, *, is_async: bool) -> Case:
    build = partial(graphs.sends, action=graphs.awork if is_async else graphs.work)
    make = gathering(build, count, list(range(count)), is_async=is_async)
    return Case(f"{count} sends, {is_async=}", make)


def fan_out(width: int, *, is_async: bool) -> Case:
    build = partial(graphs.fan_out, width=width, action=graphs.amark if is_async else graphs.mark)
    make = gathering(build, 7, [7] * (width + 2), is_async=is_async)
    return Case(f"fan-out of {width}, {is_async=}", make)


def chunks(count: int, *, is_async: bool) -> Case:
    """All chunks of a run, consumed."""

    def make(lib: Library) -> Callable[[], Any]:
        build = partial(graphs.achunks, pause=False) if is_async else graphs.chunks
        graph = build(lib, count=count).compile()
        given = {"n": 0, "name": "bench"}

        def call() -> None:
            expect(sum(1 for _ in graph.stream(given, stream_mode="custom")), count)

        async def acall() -> None:
            received = 0
            async for _ in graph.astream(given, stream_mode="custom"):
                received += 1
            expect(received, count)

        return acall if is_async else call

    return Case(f"{count} chunks, {is_async=}", make)


def first_chunk(count: int, *, is_async: bool) -> Case:
    """Seconds until the first of `count` chunks arrives; the rest is consumed outside the time."""

    def make(lib: Library) -> Callable[[], Any]:
        build = partial(graphs.achunks, pause=True) if is_async else graphs.chunks
        graph = build(lib, count=count).compile()
        given = {"n": 0, "name": "bench"}

        def call() -> float:
            begun = perf_counter()
            parts = graph.stream(given, stream_mode="custom")
            first = next(parts)
            took = perf_counter() - begun
            expect((first, sum(1 for _ in parts)), (0, count - 1))
            return took

        async def acall() -> float:
            begun = perf_counter()
            parts = graph.astream(given, stream_mode="custom")
            first = await anext(parts)
            took = perf_counter() - begun
            rest = 0
            async for _ in parts:
                rest += 1
            expect((first, rest), (0, count - 1))
            return took

        return acall if is_async else call

    return Case(f"first of {count} chunks, {is_async=}", make, self_timed=True)


def concurrent_runs(runs: int, length: int) -> Case:
    def make(lib: Library) -> Callable[[], Any]:
        graph = graphs.chain(lib, length, graphs.abump).compile()

        async def acall() -> None:
            results = await asyncio.gather(*[graph.ainvoke({"n": i, "name": "bench"}) for i in range(runs)])
            expect([result["n"] for result in results], list(range(length, length + runs)))

        return acall

    return Case(f"{runs} concurrent runs of {length}", make)


def imported(figure: str) -> Case:
    """One `footprint` figure of a fresh interpreter."""
    return Case(f"import, {figure}", partial(footprint.caller, figure=figure), self_timed=True)
