"""Juncture does what the naive interpreter says, on both drivers: state, tasks and their inputs, errors and places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.graphs import Recorder, build, juncture
from tests.properties.observe import (
    DRIVERS,
    check_error,
    check_executions,
    expect,
    invoke,
    plain,
    shown,
    stream,
)
from tests.properties.strategies import LENIENT, STRICT, examples, graphs, inputs

pytestmark = pytest.mark.timeout(400)  # a failure takes minutes to be made small

LIMITS = st.integers(3, 12)


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize("driver", DRIVERS)
@examples(90)
@given(data=st.data(), limit=LIMITS)
def test_a_run_is_what_the_naive_interpreter_says(driver, strict, data, limit):
    graph = data.draw(graphs(STRICT if strict else LENIENT | {"pieces"}))
    given_ = data.draw(inputs(graph))
    expected = expect(graph, given_, strict=strict, limit=limit)

    recorder = Recorder()
    compiled = build(graph, juncture(strict=strict), probe=recorder)
    seen = invoke(compiled, given_, {"recursion_limit": limit}, driver)

    check_error(expected, seen.error)
    check_executions(expected, recorder.ran, loose="parent" in graph.forms())  # it stops its siblings
    if not expected.faults:
        assert dict(seen.result) == expected.run.values
        assert seen.result.status == "completed"
        assert seen.result.steps == len(expected.run.steps)


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize("driver", DRIVERS)
@examples(60)
@given(data=st.data(), limit=LIMITS)
def test_a_stream_shows_every_step_as_it_was_committed(driver, strict, data, limit):
    graph = data.draw(graphs((STRICT if strict else LENIENT) - {"pieces"}))
    given_ = data.draw(inputs(graph))
    expected = expect(graph, given_, strict=strict, limit=limit)

    compiled = build(graph, juncture(strict=strict))
    seen = stream(compiled, given_, {"recursion_limit": limit}, driver, stream_mode=["values", "updates"])

    check_error(expected, seen.error)
    assert [part.seq for part in seen.parts] == list(range(len(seen.parts)))
    assert {part.ns for part in seen.parts} <= {()}
    assert [part.data for part in seen.parts if part.mode == "values"] == expected.run.stream
    updates = [part for part in seen.parts if part.mode == "updates"]
    for number, step in enumerate(expected.run.steps, 1):
        shown_parts = sorted((part for part in updates if part.step == number), key=lambda part: part.place)
        assert [part.place for part in shown_parts] == list(range(len(step)))
        assert [part.node for part in shown_parts] == [node for node, _ in step]
        assert [plain(part.data) for part in shown_parts] == [{node: shown(writes)} for node, writes in step]
    assert {part.step for part in updates} <= set(range(1, len(expected.run.ran) + 1))
