"""The least that a step can cost: a loop written by hand that keeps a step's promises and does nothing else.

It has no channels, tasks, streams, joins or savers. What it keeps:

* a node gets its own copy of the containers, and so does the state of what it returns;
* an update is a mapping whose keys the state knows;
* a node runs in a copied context;
* the state changes only after the node ended well;
* the number of steps is limited, and where to go next is looked up by name.
"""

from __future__ import annotations

import types
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from bench import graphs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from contextvars import Context

CONTAINERS = (dict, list, set)


def copied(value: Any) -> Any:
    """`value` with every built-in container in it copied; leaves are shared."""
    kind = type(value)
    if kind is dict:
        return {key: copied(item) if type(item) in CONTAINERS else item for key, item in value.items()}
    if kind is list:
        return [copied(item) if type(item) in CONTAINERS else item for item in value]
    return set(value) if kind is set else value


def committed(state: dict[str, Any], name: str, update: object, keys: frozenset[str]) -> dict[str, Any]:
    """The state after the update of node `name`."""
    if type(update) is not dict:
        raise TypeError(f"node {name!r} returned {type(update).__name__}, not a dict")
    for key in update:
        if key not in keys:
            raise KeyError(f"node {name!r} wrote the unknown key {key!r}")
    return {**state, **copied(update)}


def run(
    nodes: Mapping[str, Callable[[Any], Any]],
    following: Mapping[str, str | None],
    given: dict[str, Any],
    limit: int,
) -> dict[str, Any]:
    keys = frozenset(given)
    state = copied(given)
    due: str | None = next(iter(nodes))
    steps = 0
    while due is not None:
        if steps == limit:
            raise RecursionError(f"more than {limit} steps")
        steps += 1
        update = copy_context().run(nodes[due], copied(state))
        state = committed(state, due, update, keys)
        due = following[due]
    return copied(state)


async def arun(
    nodes: Mapping[str, Callable[[Any], Any]],
    following: Mapping[str, str | None],
    given: dict[str, Any],
    limit: int,
) -> dict[str, Any]:
    """As `run`, for async nodes."""
    keys = frozenset(given)
    state = copied(given)
    due: str | None = next(iter(nodes))
    steps = 0
    while due is not None:
        if steps == limit:
            raise RecursionError(f"more than {limit} steps")
        steps += 1
        update = await stepped(copy_context(), nodes[due](copied(state)))
        state = committed(state, due, update, keys)
        due = following[due]
    return copied(state)


@types.coroutine
def stepped(context: Context, coroutine: Any) -> Generator[Any, Any, Any]:
    """Runs `coroutine` inside `context` and hands what it awaits to the loop."""
    resume = partial(context.run, coroutine.send, None)
    while True:
        try:
            awaited = resume()
        except StopIteration as end:
            return end.value
        try:
            answer = yield awaited
        except BaseException as error:  # noqa: BLE001 - a cancel too belongs to the coroutine
            resume = partial(context.run, coroutine.throw, error)
        else:
            resume = partial(context.run, coroutine.send, answer)


def caller(length: int, *, is_async: bool) -> Callable[[], Any]:
    """A function that runs a chain of `length` once and checks the result, as the cases of the libraries do."""
    names = [f"node_{i}" for i in range(length)]
    nodes = dict.fromkeys(names, graphs.abump if is_async else graphs.bump)
    following = dict(zip(names, [*names[1:], None], strict=True))
    given = {"n": 0, "name": "bench"}

    def call() -> None:
        assert run(nodes, following, given, length + 10)["n"] == length

    async def acall() -> None:
        assert (await arun(nodes, following, given, length + 10))["n"] == length

    return acall if is_async else call
