"""Running a description with the oracle and with Juncture, on either driver, and what is compared."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import currently_in_test_context, event, reject

from tests.properties.graphs import Graph, Marker
from tests.properties.naive import Failed, Fault, Run, Unclear, Writes

DRIVERS = ("sync", "async")


@dataclass
class Expected:
    """What the oracle says of a run."""

    run: Run
    faults: tuple[Fault, ...]
    """One of these ends it; none: it succeeds."""

    @property
    def kind(self) -> str:
        return "/".join(sorted({fault.kind for fault in self.faults})) or "success"

    def executions(self, *, committed: bool = False) -> Counter[Any]:
        """What ran, as `Recorder` keeps it: all that may have begun, or only what is in committed steps."""
        steps = self.run.ran[: len(self.run.steps)] if committed else self.run.ran
        return Counter(ran for step in steps for ran in step)


def expect(graph: Graph, given: Mapping[str, Any], *, strict: bool = True, limit: int = 25) -> Expected:
    """The oracle's word; rejects the example if it has none."""
    run = Run(graph, strict=strict, limit=limit)
    faults: tuple[Fault, ...] = ()
    try:
        run.go(given)
    except Unclear:
        reject()
    except Failed as failed:
        faults = failed.args
    expected = Expected(run, faults)
    if currently_in_test_context():
        event(expected.kind)
    return expected


@dataclass
class Observed:
    """What can be seen of a run of Juncture."""

    result: Any = None
    """What `invoke` returned."""
    parts: list[Any] = field(default_factory=list)
    """What was streamed."""
    error: Exception | None = None


def invoke(compiled: Any, given: Any, config: Mapping[str, Any], driver: str) -> Observed:
    """A run by `invoke` or `ainvoke`."""
    seen = Observed()
    try:
        if driver == "sync":
            seen.result = compiled.invoke(given, config)
        else:
            seen.result = asyncio.run(compiled.ainvoke(given, config))
    except Exception as error:
        seen.error = error
    return seen


def stream(compiled: Any, given: Any, config: Mapping[str, Any], driver: str, **options: Any) -> Observed:
    """A run by `stream` or `astream`, with `StreamPart` items."""
    seen = Observed()

    async def consume() -> None:
        async for part in compiled.astream(given, config, version="parts", **options):
            seen.parts.append(part)

    try:
        if driver == "sync":
            for part in compiled.stream(given, config, version="parts", **options):
                seen.parts.append(part)  # what came before an error counts
        else:
            asyncio.run(consume())
    except Exception as error:
        seen.error = error
    return seen


def shown(writes: Writes) -> Any:
    """A task's writes as the stream ``updates`` shows them."""
    if not writes:
        return None
    if len(dict(writes)) < len(writes):
        return [{key: value} for key, value in writes]
    return dict(writes)


def plain(update: Any) -> Any:
    """An update with the markers of either library as those of the descriptions."""
    if isinstance(update, dict):
        return {key: plain(value) for key, value in update.items()}
    if isinstance(update, list):
        return [plain(value) for value in update]
    if repr(update) == "MARK_FOR_REMOVAL":
        return Marker("remove")
    return Marker("overwrite", update.value) if type(update).__name__ == "Overwrite" else update


KINDS = {
    "Boom": "boom",
    "InvalidUpdateError": "update",
    "RoutingError": "routing",
    "StuckJoinError": "stuck",
    "GraphRecursionError": "limit",
}


def place_of(error: Exception) -> Any:
    """Node, step, namespace and result of an error: attributes of our own, beside users' own."""
    import juncture

    return error if isinstance(error, juncture.JunctureError) else juncture.failure(error)


def check_error(expected: Expected, error: Exception | None) -> None:
    """The error is one of those expected, says where it happened, and carries the state before its step."""
    assert (error is not None) == bool(expected.faults), f"expected {expected.kind}, got {error!r}"
    if error is None:
        return
    kind = next((KINDS[base.__name__] for base in type(error).__mro__ if base.__name__ in KINDS), repr(error))
    place = place_of(error)
    path = tuple(segment.split(":")[0] for segment in place.namespace)
    possible = [fault for fault in expected.faults if fault.kind == kind]
    assert possible, f"expected {expected.faults}, got {error!r}"
    seen = Fault(kind, place.node, place.step, path)
    # Where the oracle names no node, the whole step is at fault, or what would have come after it.
    places = [fault if fault.node else fault._replace(node=seen.node) for fault in possible]
    if kind == "stuck":
        places = [fault._replace(step=seen.step) for fault in places]
    assert seen in places, f"expected {expected.faults}, got {seen}"
    if expected.run.ran:  # else the input was refused, and there is no state
        assert dict(place.result) == expected.run.values


def check_executions(expected: Expected, ran: list[Any], *, loose: bool = False) -> None:
    """Exactly the tasks of the oracle ran, with exactly its inputs.

    Of a step that failed, any may be missing; with `loose`, of every step.
    """
    seen, possible = Counter(ran), expected.executions()
    assert seen <= possible, f"ran without need: {seen - possible}"
    if not loose:
        needed = expected.executions(committed=bool(expected.faults))
        assert seen >= needed, f"didn't run: {needed - seen}"
