"""What the tests of behaviour share: a graph is built once, and run in every way that a user may run it.

A test is a plain function. `engine` runs its graph with the sync driver and with the async one; `colour` makes its
nodes sync or async functions; `saver` keeps its threads with each kind of saver: in full in memory and in SQLite, and
once for each test function on one of the others, always the same; in full on all of them where `JUNCTURE_DEEP` is set;
in memory alone where `JUNCTURE_LEAN` is set, for interpreters that are tested besides.
"""

import asyncio
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from typing import Any
from zlib import crc32

import pytest

from juncture import Command, InMemorySaver, RunResult
from juncture.savers import FileSaver, PostgresSaver, RedisSaver, Saver, SqliteSaver
from juncture.types import StateSnapshot

SAVERS: dict[str, tuple[str | None, Callable[[Any], Saver]]] = {
    "memory": (None, lambda _: InMemorySaver()),
    "sqlite": ("tmp_path", lambda folder: SqliteSaver(folder / "runs.db")),
    "file": ("tmp_path", FileSaver),
    "postgres": ("postgres_url", PostgresSaver),
    "redis": ("redis_url", RedisSaver),
}
"""Kind → the fixture that gives it a place of its own, and what makes a new, empty saver there."""
SPARINGLY = ("file", "postgres", "redis")
"""Kinds that each test function runs on once, on one of them, unless all is to be run."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves one run out of all that a test function has on the sparing kinds: its place decides which."""
    if os.environ.get("JUNCTURE_DEEP"):
        return
    if os.environ.get("JUNCTURE_LEAN"):
        left = {id(item) for item in items if _saver_of(item) not in (None, "memory")}
        _leave(left, config, items)
        return
    sparing: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _saver_of(item) in SPARINGLY:
            sparing.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = {
        id(item)
        for function, group in sparing.items()
        for item in group
        if item is not _chosen(function, group)
    }
    _leave(left, config, items)


def _saver_of(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("saver")


def _leave(left: set[int], config: pytest.Config, items: list[pytest.Item]) -> None:
    if left:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left])
        items[:] = [item for item in items if id(item) not in left]


def _chosen(function: str, group: list[pytest.Item]) -> pytest.Item:
    return group[crc32(function.encode()) % len(group)]


class Engine:
    """Runs graphs with one driver."""

    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.is_async = driver == "async"

    def __repr__(self) -> str:
        return f"<Engine {self.driver}>"

    def invoke(self, graph: Any, given: Any, config: Any = None, **options: Any) -> RunResult:
        """Runs to the end or the next pause."""
        if self.is_async:
            return asyncio.run(graph.ainvoke(given, config, **options))
        return graph.invoke(given, config, **options)

    def resume(self, graph: Any, answer: Any, config: Any = None, **options: Any) -> RunResult:
        """Answers the open question, or questions, of a thread."""
        return self.invoke(graph, Command(resume=answer), config, **options)

    def stream(self, graph: Any, given: Any, config: Any = None, **options: Any) -> list[Any]:
        """Everything that a stream gives."""
        return self.consume(graph, given, lambda item: None, config, **options)

    def consume(
        self, graph: Any, given: Any, use: Callable[[Any], Any], config: Any = None, **options: Any
    ) -> list[Any]:
        """Hands each item to `use` before the next is asked for. Stops early if that returns False."""
        items: list[Any] = []
        if not self.is_async:
            with closing(graph.stream(given, config, **options)) as source:
                for item in source:
                    items.append(item)
                    if use(item) is False:
                        break
            return items

        async def iterate() -> None:
            async with aclosing(graph.astream(given, config, **options)) as source:
                async for item in source:
                    items.append(item)
                    if use(item) is False:
                        break

        asyncio.run(iterate())
        return items

    def batch(self, graph: Any, inputs: list[Any], config: Any = None, **options: Any) -> list[Any]:
        """Runs once for each input, side by side."""
        if self.is_async:
            return asyncio.run(graph.abatch(inputs, config, **options))
        return graph.batch(inputs, config, **options)

    def state(self, graph: Any, config: Any, **options: Any) -> StateSnapshot:
        """The state of a thread."""
        return self.call(graph.get_state, graph.aget_state, config, **options)

    def history(self, graph: Any, config: Any, **options: Any) -> list[StateSnapshot]:
        """The states of a thread, newest first."""
        if not self.is_async:
            return list(graph.get_state_history(config, **options))

        async def listed() -> list[StateSnapshot]:
            return [one async for one in graph.aget_state_history(config, **options)]

        return asyncio.run(listed())

    def update(self, graph: Any, config: Any, values: Any, as_node: str | None = None) -> dict[str, Any]:
        """Edits the state of a thread; the config of what that made."""
        return self.call(graph.update_state, graph.aupdate_state, config, values, as_node)

    def bulk(self, graph: Any, config: Any, supersteps: Any) -> dict[str, Any]:
        """Edits the state of a thread in several supersteps."""
        return self.call(graph.bulk_update_state, graph.abulk_update_state, config, supersteps)

    def call(self, function: Any, twin: Any, *args: Any, **options: Any) -> Any:
        """What a method gives, or what its async twin does."""
        return asyncio.run(twin(*args, **options)) if self.is_async else function(*args, **options)


@pytest.fixture(params=["sync", "async"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Runs graphs with the sync driver, then with the async one."""
    return Engine(request.param)


@pytest.fixture(params=list(SAVERS))
def saver(request: pytest.FixtureRequest) -> Iterator[Saver]:
    """A new saver of every kind."""
    fixture, make_saver = SAVERS[request.param]
    made = make_saver(None if fixture is None else request.getfixturevalue(fixture))
    yield made
    made.close()


@pytest.fixture(params=["def", "async def"])
def colour(request: pytest.FixtureRequest) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a sync function a node of one colour or the other. Such a node must not block."""

    def paint(function: Callable[..., Any]) -> Callable[..., Any]:
        if request.param == "def":
            return function
        assert not inspect.iscoroutinefunction(function)

        @functools.wraps(function)
        async def painted(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            return function(*args, **kwargs)

        return painted

    return paint
