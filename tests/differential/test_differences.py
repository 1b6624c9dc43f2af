"""Every intended difference from LangGraph 1.2.24 is there, in the way that is described, and says why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.differential.differences import DIFFERENCES, Difference
from tests.differential.peers import Seen, kind_of, names_of, require_langgraph, watch

require_langgraph()


def outcome(one: Difference, names: SimpleNamespace) -> Any:
    try:
        compiled = one.build(names).compile()
    except Exception as error:  # one library may refuse to build it
        return one.look(Seen(error=kind_of(error)))
    return one.look(watch(compiled, one.given, {"recursion_limit": 25}))


@pytest.mark.parametrize("one", DIFFERENCES, ids=lambda one: one.name)
def test_it_is_as_described(one: Difference):
    assert outcome(one, names_of("langgraph")) == one.theirs
    assert outcome(one, names_of("juncture")) == one.ours
    assert one.theirs != one.ours


@pytest.mark.parametrize("one", DIFFERENCES, ids=lambda one: one.name)
def test_it_says_why(one: Difference):
    assert len(one.reason.split()) > 5
