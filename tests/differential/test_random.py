"""Random graphs, run by LangGraph 1.2.24 and by Juncture with ``strict=False``: the same can be seen of both.

What is compared: the final state and with it the order in which reducers got their writes, the stream `values`, the
stream `updates` by step in plan order, which nodes ran with which input, and the kind of error. Where two tasks of a
step fail, either library may raise either error, and shows the updates of whichever ended before.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential.peers import require_langgraph, watch
from tests.differential.test_oracle import COMPARABLE
from tests.properties.graphs import Recorder, build, juncture, langgraph
from tests.properties.observe import expect
from tests.properties.strategies import examples, inputs

require_langgraph()
pytestmark = pytest.mark.timeout(400)  # a failure takes minutes to be made small


@examples(250)
@given(data=st.data(), limit=st.integers(3, 12))
def test_both_show_the_same(data, limit):
    graph = data.draw(COMPARABLE)
    given_ = data.draw(inputs(graph))
    expected = expect(graph, given_, strict=False, limit=limit)
    kinds = {fault.kind for fault in expected.faults} or {None}
    config = {"recursion_limit": limit}

    theirs, ours = Recorder(), Recorder()
    peer = watch(build(graph, langgraph(), probe=theirs), given_, config)
    own = watch(build(graph, juncture(strict=False), probe=ours), given_, config)

    assert own.values == peer.values
    assert {own.error, peer.error} <= kinds
    if not expected.faults:
        assert own.updates == peer.updates
        if "parent" not in graph.forms():  # such a command stops its siblings, if they still run
            assert sorted(ours.ran) == sorted(theirs.ran)
    else:  # of the step that failed, what was shown depends on what ended first
        done = len(expected.run.steps)
        assert own.updates[:done] == peer.updates[:done]
    if len(kinds) == 1:
        assert own.error == peer.error


@examples(40)
@given(data=st.data(), limit=st.integers(3, 12))
def test_both_return_the_same(data, limit):
    graph = data.draw(COMPARABLE)
    given_ = data.draw(inputs(graph))
    expected = expect(graph, given_, strict=False, limit=limit)
    config = {"recursion_limit": limit}
    peer, own = build(graph, langgraph()), build(graph, juncture(strict=False))
    if not expected.faults:
        assert dict(own.invoke(given_, config)) == peer.invoke(given_, config)
    else:
        for compiled in (peer, own):
            with pytest.raises(Exception):  # noqa: B017, PT011  # its kind is compared above
                compiled.invoke(given_, config)
