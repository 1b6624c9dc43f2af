"""The naive interpreter, lenient, against LangGraph 1.2.24: what the property tests measure Juncture by is right.

Found by running 1.2.24, and kept out of the random graphs because Juncture differs on purpose (see `differences`):

* A deferred node doesn't wait for packets: with only `Send`s pending it runs in the same step as they.
* A router sees keys that its node wrote and the graph doesn't have; the router of START those of the input.
* `max` is refused as a reducer: it has no signature that could be inspected.

Confirmed: updates of a task that wrote nothing are ``{node: None}``, also after ``{}`` and ``Command()``; several
writes to one key become a list of dicts; `values` shows the input if it wrote anything, and then every step in
which something was written, changed or not; a run that ends in exactly `limit` steps fails.
"""

from __future__ import annotations

import pytest
from hypothesis import event, given, reject
from hypothesis import strategies as st

from tests.differential.peers import in_plan_order, require_langgraph, watch
from tests.properties.graphs import Graph, Recorder, build, langgraph
from tests.properties.naive import Failed, Run, Unclear
from tests.properties.observe import shown
from tests.properties.strategies import LENIENT, examples, graphs, inputs

require_langgraph()
pytestmark = pytest.mark.timeout(400)  # a failure takes minutes to be made small


def without(*features: str) -> st.SearchStrategy[Graph]:
    return graphs(LENIENT - set(features))


COMPARABLE = st.one_of(without("defer"), without("packet"))
"""Graphs that LangGraph and lenient Juncture give the same meaning."""


@examples(250)
@given(st.data(), st.integers(3, 12))
def test_the_oracle_says_what_langgraph_does(data, limit):
    graph = data.draw(COMPARABLE)
    given_ = data.draw(inputs(graph))
    oracle = Run(graph, strict=False, limit=limit)
    faults = set()
    try:
        oracle.go(given_)
    except Unclear:
        reject()
    except Failed as failed:
        faults = {fault.kind for fault in failed.args}
    event(f"ends with {faults or 'success'}")

    recorder = Recorder()
    peer = watch(build(graph, langgraph(), probe=recorder), given_, {"recursion_limit": limit})

    assert peer.error in (faults or {None})
    assert peer.values == oracle.stream
    expected = [in_plan_order((name, shown(writes)) for name, writes in step) for step in oracle.steps]
    if not faults:
        assert peer.updates == expected
        if "parent" not in graph.forms():  # such a command stops its siblings, if they still run
            assert sorted(recorder.ran) == sorted(ran for step in oracle.ran for ran in step)
    else:  # the step that failed may have shown some of its updates
        assert peer.updates[: len(expected)] == expected
