"""Any order of completion gives the same committed state, and where one task fails, the same error.

Every leaf node of the outermost graph waits at a gate. When all of a step have come, the gate lets them out one by
one in a drawn order: the next when the update of the one before has been streamed, so the engine has taken it. In
a step that is to fail, the next goes when the one before leaves its body: what fails shows no update.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.properties.graphs import Graph, Node, Probe, build, digest, juncture
from tests.properties.observe import DRIVERS, Expected, check_error, expect
from tests.properties.strategies import STRICT, examples, graphs, inputs

pytestmark = pytest.mark.timeout(400)  # a failure takes minutes to be made small

PATIENCE_S = 20.0
"""How long a task waits at the gate before it gives up: only a broken engine or test takes so long."""


class Gate(Probe):
    """Holds the leaf nodes of the outermost graph, and lets those of a step out in a given order."""

    def __init__(self, orders: list[list[int]], *, committed: int) -> None:
        """Takes one order for every step that has leaves; the first `committed` of them succeed."""
        self._orders = orders
        self._committed = committed
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, int, Callable[[], Any]]] = []
        self._queue: list[Callable[[], Any]] = []
        self._step = 0
        self.orders_used = 0

    def enter(self, path: tuple[str, ...], node: Node, view: Any) -> None:
        """Waits in the node's own worker."""
        if not path:
            out = threading.Event()
            self._come(node, view, out.set)
            assert out.wait(PATIENCE_S), f"{node.name} was never let out"

    async def aenter(self, path: tuple[str, ...], node: Node, view: Any) -> None:
        """Waits on the loop that the node runs on."""
        if not path:
            out, loop = asyncio.Event(), asyncio.get_running_loop()
            self._come(node, view, lambda: loop.call_soon_threadsafe(out.set))
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await out.wait()
            except asyncio.CancelledError:  # a sibling failed; whoever still waits must not wait for this one
                self.next()
                raise

    def leave(self, path: tuple[str, ...], node: Node, *, failed: bool) -> None:
        """In a step that fails, lets the next out."""
        if not path and self._step > self._committed:
            self.next()

    def _come(self, node: Node, view: Any, let_out: Callable[[], Any]) -> None:
        with self._lock:
            self._waiting.append((node.name, digest(view), let_out))
            order = self._orders[self._step]
            if len(self._waiting) < len(order):
                return
            came = sorted(self._waiting, key=lambda one: one[:2])
            self._queue = [came[place][2] for place in order]
            self._waiting = []
            self._step += 1
        self.next()

    def next(self) -> None:
        """Lets one out, if any waits."""
        with self._lock:
            let_out = self._queue.pop(0) if self._queue else None
        if let_out is not None:
            let_out()


def drive(
    compiled: Any, given: Any, config: dict[str, Any], driver: str, gate: Gate, leaves: set[str]
) -> Any:
    """Streams the run, telling the gate of each update of a leaf; what was streamed, and the error."""
    parts: list[Any] = []
    options: dict[str, Any] = {"version": "parts", "stream_mode": ["values", "updates"]}

    def take(part: Any) -> None:
        parts.append(part)
        if part.mode == "updates" and part.node in leaves:
            gate.next()

    async def consume() -> None:
        async for part in compiled.astream(given, config, **options):
            take(part)

    try:
        if driver == "sync":
            for part in compiled.stream(given, config, **options):
                take(part)
        else:
            asyncio.run(consume())
    except Exception as error:
        return parts, error
    return parts, None


def gate_for(expected: Expected, data: st.DataObject) -> Gate:
    """A gate with drawn orders; rejects runs in which nothing is parallel.

    And those in which a nested graph fails: its siblings may then never begin, and the gate waits for all.
    """
    assume(not any(fault.path for fault in expected.faults))
    counts = [sum(path == () for path, _, _ in step) for step in expected.run.ran]
    assume(any(count > 1 for count in counts))
    orders = [data.draw(st.permutations(range(count))) for count in counts if count]
    committed = sum(bool(count) for count in counts[: len(expected.run.steps)])
    event("drawn order differs from the plan", any(list(order) != sorted(order) for order in orders))
    return Gate(orders, committed=committed)


def leaves_of(graph: Graph) -> set[str]:
    return {node.name for node in graph.nodes if node.inner is None}


@pytest.mark.parametrize("driver", DRIVERS)
@examples(80)
@given(data=st.data(), limit=st.integers(3, 8))
def test_the_order_of_completion_changes_nothing(driver, data, limit):
    graph = data.draw(graphs((STRICT | {"fan"}) - {"parent"}))
    given_ = data.draw(inputs(graph))
    expected = expect(graph, given_, limit=limit)
    gate = gate_for(expected, data)

    compiled = build(graph, juncture(), probe=gate)
    parts, error = drive(compiled, given_, {"recursion_limit": limit}, driver, gate, leaves_of(graph))

    check_error(expected, error)
    assert [part.data for part in parts if part.mode == "values"] == expected.run.stream
