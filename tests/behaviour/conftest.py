"""What the tests of behaviour share: a graph is built once, and run in every way that a user may run it.

A test is a plain function. `engine` runs its graph with the sync driver and with the async one; `colour` makes its
nodes sync or async functions; `saver` keeps its threads with each kind of saver.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from typing import Any

import pytest

from juncture import Command, InMemorySaver, RunResult

SAVERS: dict[str, Callable[[], Any]] = {"memory": InMemorySaver}
"""Kind → what makes a new, empty saver."""


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


@pytest.fixture(params=["sync", "async"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Runs graphs with the sync driver, then with the async one."""
    return Engine(request.param)


@pytest.fixture(params=list(SAVERS))
def saver(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A new saver of every kind."""
    made = SAVERS[request.param]()
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
