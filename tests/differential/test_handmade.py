"""The graphs of `handmade` and `handmade_states` show the same in LangGraph 1.2.24 and in Juncture with ``strict=False``."""

from __future__ import annotations

import asyncio
import re
from dataclasses import is_dataclass
from typing import Any

import pytest

from tests.differential.handmade import Case
from tests.differential.handmade_states import CASES
from tests.differential.peers import names_of, require_langgraph, watch

require_langgraph()


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_both_show_the_same(one: Case):
    peer = watch(one.build(names_of("langgraph")).compile(), one.given, one.config)
    own = watch(one.build(names_of("juncture")).compile(), one.given, one.config)
    assert own == peer


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_both_return_the_same(one: Case, driver: str):
    def outcome(library: str) -> Any:
        compiled = one.build(names_of(library)).compile()
        try:
            if driver == "sync":
                return compiled.invoke(one.given, one.config)
            return asyncio.run(compiled.ainvoke(one.given, one.config))
        except Exception as error:
            return type(error).__name__

    peer, own = outcome("langgraph"), outcome("juncture")
    if not isinstance(
        own, str
    ):  # `value` is the dict of the output keys, the one value, or the schema's object
        own = vars(own.value) if is_dataclass(own.value) else own.value
    assert own == peer


NESTED = [one for one in CASES if "nested_graph" in one.name and "fails" not in one.name]


def shapes(library: str, one: Case, **options: Any) -> list[Any]:
    """What is streamed, with the ids in namespaces left out, and a step's tasks in the order of the namespaces."""

    def named(item: Any) -> Any:
        if isinstance(item, tuple) and item and isinstance(item[0], tuple):
            return (tuple(re.sub(":.*", "", segment) for segment in item[0]), *item[1:])
        return item

    compiled = one.build(names_of(library)).compile()
    try:
        return [named(item) for item in compiled.stream(one.given, one.config, **options)]
    except Exception as error:
        return [type(error).__name__]


@pytest.mark.parametrize("one", NESTED, ids=lambda one: one.name)
@pytest.mark.parametrize("mode", ["values", "updates", ["values", "updates"]], ids=str)
@pytest.mark.parametrize("subgraphs", [False, True])
def test_the_shapes_of_streams_are_the_same(one: Case, mode: Any, subgraphs: bool):
    options = {"stream_mode": mode, "subgraphs": subgraphs}
    peer, own = shapes("langgraph", one, **options), shapes("juncture", one, **options)
    assert sorted(own, key=repr) == sorted(peer, key=repr)
    if one.name not in {"two_nested_graphs_beside_each_other", "packets_to_a_nested_graph"}:
        assert own == peer
