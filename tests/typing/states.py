"""What a type checker knows of the state as one object: checked by mypy and basedpyright, never run."""

from collections.abc import Mapping
from typing import Any, assert_type

from juncture import Append, OverAllState, StateGraph


def node(state: OverAllState) -> dict[str, Any]:
    assert_type(state.value("n", int), int)
    assert_type(state.value("n", int, 0), int)
    assert_type(state.value("name", str, default=None), str | None)
    assert_type(state.value("any"), Any)
    assert_type(state.value("any", default=1), Any)
    state.value("either", int | str)  # checkers don't agree on what a union is as an argument
    assert_type(state["n"], Any)
    assert_type(state.data, Mapping[str, Any])
    assert_type(state.contains("n"), bool)
    assert_type(state.snapshot(), OverAllState)
    state["n"] = 1  # type: ignore[index] # refused: that is the point
    state.value("n", 0)  # not told apart from a type, but refused when it runs
    return {"n": 1}


def by_hand() -> None:
    state = OverAllState({"log": ["a"]}, key_strategies={"log": Append()})
    assert_type(state.register("n", max), OverAllState)
    assert_type(OverAllState.update(state, {"log": "b"}), OverAllState)
    assert_type(OverAllState.update({"log": []}, {"log": "b"}, {"log": Append()}), OverAllState)
    node(state)
    StateGraph(key_strategies={"log": Append()}).add_node("node", node).compile().invoke(state)
