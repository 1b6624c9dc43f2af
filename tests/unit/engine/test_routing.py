"""Where routers and goto lead: names and sends, checked where they are named."""

from __future__ import annotations

import pytest

from juncture.engine.routing import Routes, resolve, unknown_target
from juncture.engine.tables import SYNC, Router
from juncture.errors import InvalidUpdateError, RoutingError
from juncture.types import END, START, Send, TimeoutPolicy
from tests.unit.engine.script import tables

GRAPH = tables("a b writer", (START, "a"))
LENIENT = tables("a b writer", (START, "a"), strict=False)


def router(targets=None, default=None):
    return Router("pick", lambda state: None, SYNC, dict, {}, {}, targets, default)


def routes(chosen, by=None, graph=GRAPH):
    into = Routes()
    resolve(graph, "a", chosen, by, into)
    return into


@pytest.mark.parametrize("by", [None, router()])
@pytest.mark.parametrize(
    ("chosen", "targets"),
    [
        ("b", ["b"]),
        (["b", "a"], ["b", "a"]),
        (("b",), ["b"]),
        ({"b", "a", END}, ["a", "b"]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (END, []),
        (["b", END], ["b"]),
        ([], []),
    ],
)
def test_names(by, chosen, targets):
    assert routes(chosen, by) == Routes(targets)


@pytest.mark.parametrize("by", [None, router(), router({"x": "b"})])
def test_sends(by):
    argument = [1, {"n": [2]}]
    got = routes([Send("b", argument), Send("a")], by)
    assert got == Routes([], [Send("b", [1, {"n": [2]}]), Send("a")])
    argument[1]["n"].append(3)
    assert got.sends[0].arg == [1, {"n": [2]}]
    assert routes(Send("b", 1), by).sends == [Send("b", 1)]


def test_a_sends_argument_is_checked():
    with pytest.raises(InvalidUpdateError, match="list_iterator"):
        routes(Send("b", [iter([])]))


def test_what_is_there_already_stays():
    into = Routes(["a"], [Send("a", 1)])
    resolve(GRAPH, "a", ["b", Send("b", 2)], None, into)
    assert into == Routes(["a", "b"], [Send("a", 1), Send("b", 2)])


def test_a_path_map_says_what_each_value_stands_for():
    by = router({"left": "b", True: "a", END: END, "b": "writer"})
    assert routes(["left", True, END, "b"], by).targets == ["b", "a", "writer"]
    assert routes("left", by).targets == ["b"]


@pytest.mark.parametrize("chosen", ["right", None, START, ["left", "right"], [["left"]], {"left": 1}, 3])
def test_what_a_path_map_doesnt_have(chosen):
    with pytest.raises(RoutingError, match="its path_map doesn't have") as caught:
        routes(chosen, router({"left": "b"}))
    assert "the router 'pick' of node 'a'" in str(caught.value)
    assert "It has: 'left'" in str(caught.value)
    assert caught.value.node == "a"


@pytest.mark.parametrize("chosen", [None, START, ["b", None], [START]])
def test_a_router_must_choose(chosen):
    with pytest.raises(
        RoutingError, match="Branch did not return a valid destination: the router 'pick'"
    ) as caught:
        routes(chosen, router())
    assert caught.value.node == "a"


@pytest.mark.parametrize(
    ("default", "chosen", "targets"),
    [
        ("b", [], ["b"]),
        (END, [], []),
        (None, [], []),
        ("b", ["a"], ["a"]),
        ("b", [END], []),
        ("b", set(), ["b"]),
    ],
)
def test_an_empty_choice_goes_to_the_default(default, chosen, targets):
    assert routes(chosen, router(default=default)).targets == targets


@pytest.mark.parametrize("by", [None, router()])
@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ("wirter", "routes to unknown node 'wirter'. Did you mean 'writer'? Known nodes: a, b, writer"),
        ("zzzzzz", "routes to unknown node 'zzzzzz'. Known nodes: a, b, writer"),
        (Send("zzzzzz", 1), "routes to unknown node 'zzzzzz'. Known"),
        ([Send("b"), "zzzzzz"], "unknown node 'zzzzzz'"),
    ],
)
def test_an_unknown_target_is_refused(by, chosen, text):
    with pytest.raises(RoutingError) as caught:
        routes(chosen, by)
    assert str(caught.value).startswith("node 'a' ")
    assert text in str(caught.value)
    assert caught.value.node == "a"


@pytest.mark.parametrize("chosen", ["zzzzzz", Send("zzzzzz")])
def test_lenient_an_unknown_target_is_noted_and_goes_nowhere(chosen):
    got = routes(["b", chosen, "a"], None, LENIENT)
    assert (got.targets, got.sends) == (["b", "a"], [])
    assert len(got.ignored) == 1
    assert "unknown node 'zzzzzz'" in got.ignored[0]
    assert "ignored" in got.ignored[0]


@pytest.mark.parametrize("graph", [GRAPH, LENIENT])
@pytest.mark.parametrize(
    ("chosen", "kind"),
    [(3, "int"), ([["b"]], "list"), ({"b": 1}, "dict"), (object, "type"), ([("b",)], "tuple")],
)
def test_what_isnt_a_target_at_all_is_refused(graph, chosen, kind):
    for by in (None, router()):
        with pytest.raises(
            RoutingError, match=f"a {kind}. A target is a node's name, END or a Send"
        ) as caught:
            routes(chosen, by, graph)
        assert caught.value.node == "a"


def test_goto_none_and_goto_start_are_refused():
    with pytest.raises(RoutingError, match="routes to None, a NoneType"):
        routes([None])
    with pytest.raises(RoutingError, match="unknown node '__start__'"):
        routes(START)


@pytest.mark.parametrize("graph", [GRAPH, LENIENT])
def test_a_send_to_the_end_is_refused(graph):
    with pytest.raises(RoutingError, match="Cannot send a packet to the END node") as caught:
        routes(Send(END), None, graph)
    assert caught.value.node == "a"


def test_a_send_keeps_its_time_limit():
    assert routes(Send("b", 1, timeout=2.5)).sends == [Send("b", 1, timeout=TimeoutPolicy(run_timeout=2.5))]


def test_a_send_with_a_time_limit_to_a_node_on_the_loops_thread_is_refused():
    graph = tables({"a": {}, "b": {"inline": True}}, (START, "a"))
    assert routes(Send("b", 1), None, graph).sends == [Send("b", 1)]
    with pytest.raises(RoutingError, match="inline=True") as caught:
        routes(Send("b", timeout=1.0), None, graph)
    assert caught.value.node == "a"


def test_the_error_for_an_unknown_target_names_the_source():
    assert unknown_target(GRAPH, "src", "wirter").node == "src"
    assert unknown_target(GRAPH, "src", 3).node == "src"
