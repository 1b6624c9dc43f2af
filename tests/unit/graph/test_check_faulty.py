"""The checker on small faulty graphs: which code, how severe, and where; and what silences it."""

import functools
import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest

from juncture import (
    END,
    START,
    Command,
    GraphBuildError,
    GraphCheckWarning,
    InvalidUpdateError,
    Runtime,
    Send,
    StateGraph,
    interrupt,
)
from juncture.graph.check_findings import CODES, Finding


class State(TypedDict, total=False):
    x: int
    y: int
    log: Annotated[list[str], operator.add]


def say(state: Any) -> Any:
    return {"log": ["said"]}


def write_x(state: Any) -> Any:
    return {"x": 1}


def write_x_too(state: Any) -> Any:
    value = len(state["log"])
    return {"x": value, "log": []}


def graph(names: str = "", *edges: tuple[Any, str], schema: Any = State, **options: Any) -> StateGraph:
    """Nodes that say something, and edges; a tuple of names as a source is a join."""
    built = StateGraph(schema, **options)
    for name in names.split():
        built.add_node(name, say)
    for source, end in edges:
        built.add_edge(list(source) if isinstance(source, tuple) else source, end)
    return built


# ── the graphs ───────────────────────────────────────────────────────────────────────────────────────────────

FAULTY: dict[str, tuple[Callable[[], StateGraph], list[tuple[str, str, str]]]] = {}


def faulty(*expected: tuple[str, str, str]) -> Callable[[Callable[[], StateGraph]], Callable[[], StateGraph]]:
    """A graph, and its findings as (severity, code, place): these and no other."""

    def keep(make: Callable[[], StateGraph]) -> Callable[[], StateGraph]:
        FAULTY[make.__name__] = (make, list(expected))
        return make

    return keep


W, N, E = "warning", "note", "error"


@faulty((W, "unreachable-node", "node 'b'"))
def an_orphan():
    return graph("a b", (START, "a"), ("a", END))


@faulty((W, "unreachable-node", "node 'b'"))
def an_orphan_with_a_way_out():
    return graph("a b", (START, "a"), ("a", END), ("b", END))


@faulty((W, "unreachable-node", "node 'b'"), (W, "unreachable-node", "node 'c'"))
def an_island_of_two():
    return graph("a b c", (START, "a"), ("a", END), ("b", "c"), ("c", "b"))


@faulty((W, "unreachable-node", "node 'c'"))
def a_target_that_the_map_forgot():
    built = graph("a b c", (START, "a"), ("b", END), ("c", END))
    return built.add_conditional_edges("a", lambda s: s["x"], {1: "b", 2: END})


@faulty((W, "unreachable-node", "node 'c'"))
def a_target_that_no_return_names():
    def route(state):
        if state["x"]:
            return "b"
        return END

    return graph("a b c", (START, "a"), ("b", END), ("c", END)).add_conditional_edges("a", route)


@faulty((W, "unreachable-node", "node 'c'"))
def a_target_that_no_command_names():
    def choose(state):
        target = "b" if state["x"] else END
        return Command(goto=target, update={"log": ["chose"]})

    return graph("b c", (START, "a"), ("b", END)).add_node("a", choose)


@faulty((W, "unreachable-node", "node 'c'"))
def a_target_that_the_annotation_forgot():
    def choose(state) -> Command[Literal["b"]]:
        return Command(goto=state["y"])

    return graph("b c", (START, "a"), ("b", END), ("c", END)).add_node("a", choose)


@faulty((N, "unreachable-node", "node 'b'"))
def an_orphan_that_an_unreadable_node_may_lead_to():
    return graph("b", (START, "a")).add_node("a", functools.partial(print, "a"))


@faulty((N, "unreachable-node", "node 'b'"))
def an_orphan_that_a_nested_graph_may_lead_to():
    inner = graph("", (START, "c")).add_node("c", lambda s: Command(goto="b", graph=Command.PARENT)).compile()
    return graph("b", (START, "a"), ("a", END), ("b", END)).add_node("a", inner)


@faulty((N, "unreachable-node", "node 'b'"))
def an_orphan_that_a_graph_called_inside_may_lead_to():
    inner = graph("", (START, "c")).add_node("c", lambda s: Command(goto="b", graph=Command.PARENT)).compile()
    built = graph("b", (START, "a"), ("a", END), ("b", END))
    return built.add_node("a", lambda s: {"log": inner.invoke({})["log"]})


@faulty((N, "dead-end", "node 'c'"))
def a_branch_that_ends_without_a_word():
    return graph("a b c", (START, "a"), (START, "c"), ("a", "b"), ("b", END))


@faulty((N, "dead-end", "node 'sub'"))
def a_nested_graph_that_ends_without_a_word():
    inner = graph("c", (START, "c"))
    return graph("a", (START, "a"), (START, "sub"), ("a", END)).add_node("sub", inner)


@faulty(
    (E, "unknown-target", "edge 'a' -> 'c'"),
    (E, "unknown-target", "edge 'a' -> 'd'"),
    (E, "unknown-target", "node 'z'"),
)
def edges_to_and_from_nowhere():
    return graph("a b", (START, "a"), ("a", "c"), ("a", "d"), ("z", "b"))


@faulty((E, "no-entry", "START"))
def no_way_in():
    return graph("a", ("a", END))


@faulty((E, "unknown-target", "router 'route' of node 'a'"))
def a_map_to_nowhere():
    return graph("a", (START, "a")).add_conditional_edges("a", lambda s: 1, {1: "b", 2: END}, name="route")


@faulty((E, "unknown-target", "router 'route' of START"))
def an_annotation_to_nowhere():
    def route(state) -> Literal["a", "b"]:
        return "a"

    return graph("a").add_conditional_edges(START, route)


@faulty((E, "unknown-target", "node 'a'"))
def destinations_nowhere():
    return graph("", (START, "a")).add_node("a", say, destinations=("b",))


@faulty((E, "unknown-target", "node 'a'"))
def an_annotated_command_to_nowhere():
    def choose(state) -> Command[Literal["b"]]:
        return Command(goto="b")

    return graph("", (START, "a")).add_node("a", choose)


@faulty((W, "unknown-target", "router 'route' of node 'a'"))
def a_router_that_returns_a_name_that_is_none():
    def route(state):
        return "sumary" if state["x"] else "summary"

    return graph("a summary", (START, "a"), ("summary", END)).add_conditional_edges("a", route)


@faulty((W, "unknown-target", "router 'route' of node 'a'"))
def a_router_that_returns_what_its_map_lacks():
    return graph("a b", (START, "a"), ("b", END)).add_conditional_edges(
        "a", lambda s: "yes" if s["x"] else "maybe", {"yes": "b", "no": END}, name="route"
    )


@faulty((W, "unknown-target", "router 'route' of node 'a'"))
def a_router_that_sends_nowhere():
    def route(state):
        return [Send("worker", {"x": i}) for i in range(state["x"])]

    return graph("a workers", (START, "a"), (START, "workers")).add_conditional_edges("a", route)


@faulty((W, "unknown-target", "node 'a'"))
def a_command_to_nowhere():
    return graph("b", (START, "a"), ("b", END)).add_node("a", lambda s: Command(goto=["b", "c"]))


@faulty((W, "mixed-routing", "node 'a'"))
def a_goto_beside_an_edge():
    def choose(state):
        if state["x"] > 1:
            return Command(update={"x": 0}, goto="c")
        return {"x": 2}

    return graph("b c", (START, "a"), ("a", "b"), (START, "c")).add_node("a", choose)


@faulty((W, "mixed-routing", "node 'a'"))
def a_send_beside_a_conditional_edge():
    built = graph("b", (START, "a"), ("b", END)).add_node("a", lambda s: Send("b", s["x"]))
    return built.add_conditional_edges("a", lambda s: END, ["b", END])


@faulty((N, "mixed-routing", "node 'a'"))
def a_goto_beside_an_edge_that_may_be_empty():
    return graph("b", (START, "a"), ("a", "b")).add_node("a", lambda s: Command(goto=s["log"]))


@faulty((E, "mixed-routing", "node 'a'"))
def destinations_beside_an_edge():
    return graph("b", (START, "a"), ("a", "b")).add_node("a", say, destinations=("b",))


@faulty((W, "unequal-branches", "node 'd'"))
def a_short_and_a_long_branch():
    return graph("a b c d", (START, "a"), ("a", "d"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", END))


@faulty((W, "unequal-branches", "node 'b'"))
def an_edge_past_a_node():
    return graph("a b", (START, "a"), (START, "b"), ("a", "b"), ("b", END))


@faulty((W, "unequal-branches", "node 'e'"))
def branches_after_a_conditional_edge():
    built = graph("a b c d e", (START, "a"), ("b", "c"), ("b", "e"), ("c", "d"), ("d", "e"), ("e", END))
    return built.add_conditional_edges("a", lambda s: s["x"], ["b", END])


@faulty((N, "unequal-branches", "node 'd'"))
def branches_that_may_differ():
    built = graph("a b c d", (START, "a"), (START, "b"), ("b", "d"), ("c", "d"), ("d", END))
    return built.add_conditional_edges("a", lambda s: "c" if s["x"] else END)


@faulty((N, "unequal-branches", "node 'd'"))
def a_router_that_takes_two_branches_at_once():
    built = graph("a b c d", (START, "a"), ("b", "d"), ("c", "b"), ("d", END))
    return built.add_conditional_edges("a", lambda s: ["c", "d"] if s["x"] else ["b"])


@faulty((W, "unknown-key", "node 'a'"))
def a_key_that_is_misspelt():
    return graph("", (START, "a")).add_node("a", lambda s: {"lgo": ["a"]})


@faulty((W, "unknown-key", "node 'a'"))
def a_key_set_in_a_dict_that_is_returned_later():
    def node(state):
        update = {"log": ["a"]}
        if state["x"]:
            update["z"] = 1
        return update

    return graph("", (START, "a")).add_node("a", node)


@faulty((W, "unknown-key", "node 'a'"))
def a_key_in_a_commands_update():
    return graph("", (START, "a"), ("a", END)).add_node("a", lambda s: Command(update=dict(z=1)))  # noqa: C408 - is read, too


@faulty((W, "unknown-key", "node 'a'"))
def a_key_that_is_read_and_not_there():
    return graph("", (START, "a"), ("a", END)).add_node("a", lambda s: {"x": s["z"] + 1})


@faulty((N, "unknown-key", "node 'a'"))
def a_key_that_is_asked_for_and_not_there():
    return graph("", (START, "a"), ("a", END)).add_node("a", lambda s: {"x": s.get("z", 0)})


@faulty((W, "unknown-key", "router 'route' of node 'a'"))
def a_router_that_reads_what_is_not_there():
    def route(state):
        return END if state["done"] else "a"

    return graph("a", (START, "a")).add_conditional_edges("a", route)


class Narrow(TypedDict, total=False):
    x: int


@faulty((W, "unknown-key", "node 'a'"))
def a_key_that_the_nodes_own_input_lacks():
    def node(state: Narrow):
        return {"log": [str(state["y"])]}

    return graph("", (START, "a"), ("a", END)).add_node("a", node)


@faulty((N, "unwritten-key", "key 'y'"))
def a_key_that_nobody_writes():
    built = graph("", (START, "a"), ("a", END), input_schema=Narrow)
    return built.add_node("a", lambda s: {"log": [str(s["x"] + s["y"])]})


@faulty((N, "unread-key", "key 'y'"))
def a_key_that_nobody_reads():
    class Shown(TypedDict, total=False):
        x: int
        log: Annotated[list[str], operator.add]

    return graph("", (START, "a"), ("a", END), output_schema=Shown).add_node("a", lambda s: {"y": s["x"]})


@faulty((W, "concurrent-writes", "key 'x'"))
def two_writers_of_one_key():
    return graph("", (START, "a"), (START, "b")).add_node("a", write_x).add_node("b", write_x_too)


@faulty((W, "concurrent-writes", "key 'x'"))
def two_writers_further_down():
    built = graph("a b", (START, "a"), (START, "b"), ("a", "c"), ("b", "d"))
    return built.add_node("c", write_x).add_node("d", write_x_too)


@faulty((W, "concurrent-writes", "key 'x'"))
def two_writers_in_an_open_state():
    built = graph("", (START, "a"), (START, "b"), schema=None)
    return built.add_node("a", write_x).add_node("b", write_x)


@faulty((N, "concurrent-writes", "key 'x'"))
def two_writers_that_may_meet():
    def write_sometimes(state):
        return {"x": 2} if state["y"] else None

    return graph("", (START, "a"), (START, "b")).add_node("a", write_x).add_node("b", write_sometimes)


@faulty((N, "concurrent-writes", "key 'x'"))
def a_worker_that_is_sent_to():
    built = graph("a", (START, "a")).add_node("worker", write_x)
    return built.add_conditional_edges("a", lambda s: [Send("worker", i) for i in s["log"]], ["worker"])


@faulty((W, "stuck-join", "join 'a', 'b' -> 'c'"), (W, "unreachable-node", "node 'b'"))
def a_join_with_an_orphan():
    return graph("a b c", (START, "a"), (("a", "b"), "c"), ("c", END))


@faulty((W, "stuck-join", "join 'b', 'c' -> 'd'"))
def a_join_of_exclusive_branches():
    built = graph("a b c d", (START, "a"), (("b", "c"), "d"), ("d", END))
    return built.add_conditional_edges("a", lambda s: "b" if s["x"] else "c")


@faulty((W, "stuck-join", "join 'b', 'c' -> 'd'"))
def a_join_of_branches_that_an_annotation_tells_apart():
    def route(state) -> Literal["b", "c"]:
        return state["y"]

    return graph("b c d", (("b", "c"), "d"), ("d", END)).add_conditional_edges(START, route)


@faulty((W, "stuck-join", "join 'c', 'e' -> 'f'"))
def a_join_further_down_exclusive_branches():
    built = graph("a b c d e f", (START, "a"), ("b", "c"), ("d", "e"), (("c", "e"), "f"), ("f", END))
    return built.add_conditional_edges("a", lambda s: "b" if s["x"] else "d")


@faulty((W, "endless-loop", "node 'a'"))
def a_node_that_leads_to_itself():
    return graph("a", (START, "a"), ("a", "a"), ("a", END))


@faulty((W, "endless-loop", "nodes 'a', 'b'"))
def a_loop_beside_an_exit():
    return graph("a b c", (START, "a"), ("a", "b"), ("b", "a"), ("b", "c"), ("c", END))


@faulty((W, "endless-loop", "nodes 'a', 'b', 'c'"))
def a_loop_whose_router_never_leaves_it():
    built = graph("a b c", (START, "a"), ("b", "a"), ("c", "a"))
    return built.add_conditional_edges("a", lambda s: "b" if s["x"] else "c", ["b", "c"])


@faulty((N, "endless-loop", "nodes 'a', 'b'"))
def a_loop_that_only_an_empty_list_leaves():
    built = graph("a b", (START, "a"), ("b", "a"))
    return built.add_conditional_edges("a", lambda s: sorted(s["log"]), ["b"])


@faulty((W, "unreachable-node", "node 'sub': node 'b'"))
def a_fault_in_a_nested_graph():
    return graph("", (START, "sub"), ("sub", END)).add_node("sub", graph("a b", (START, "a"), ("a", END)))


@faulty((E, "cannot-compile", "node 'a'"))
def a_nested_graph_with_a_saver_of_its_own():
    inner = graph("b", (START, "b"), ("b", END)).compile("memory:")
    return graph("", (START, "a"), ("a", END)).add_node("a", inner)


# ── what is found ────────────────────────────────────────────────────────────────────────────────────────────


def test_nested_graphs_that_write_a_key_side_by_side_are_noted():
    def inner() -> StateGraph:
        return StateGraph(State).add_node("write", lambda state: {"x": 1}).add_edge(START, "write")

    built = StateGraph(State).add_node("a", inner().compile()).add_node("b", inner())
    built.add_edge(START, "a").add_edge(START, "b")
    assert [(f.severity, f.code, f.nodes, f.key) for f in built.check()] == [
        ("note", "concurrent-writes", ("a", "b"), "x")
    ]
    with pytest.raises(InvalidUpdateError, match="only one value per step"):
        built.compile().invoke({})


@pytest.mark.parametrize("name", FAULTY)
def test_what_is_wrong_is_found_where_it_is(name):
    make, expected = FAULTY[name]
    report = make().check()
    assert [(f.severity, f.code, f.place) for f in report] == expected
    for finding in report:
        assert finding.code in CODES
        assert finding.message
        assert finding.remedy
        line = str(finding)
        assert "\n" not in line
        assert line.startswith(
            f"{finding.severity} {finding.code}: {finding.place}: {finding.message}. {finding.remedy}"
        )


@pytest.mark.parametrize("name", FAULTY)
def test_compile_refuses_errors_and_warns_of_what_is_certain(name):
    make, expected = FAULTY[name]
    built = make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if any(severity == E for severity, _, _ in expected):
            with pytest.raises(GraphBuildError):
                built.compile()
            return
        compiled = built.compile(name="mine")
    warned = [w.message for w in caught]
    assert sorted(w.code for w in warned) == sorted(code for severity, code, _ in expected if severity == W)
    assert all(isinstance(w, GraphCheckWarning) for w in warned)
    assert compiled.check() == built.check()
    for severity, code, place in expected:
        if severity == W and "sub" not in place:
            assert [
                w
                for w in warned
                if f"graph 'mine': {place}: " in str(w) and f"by its code, {code!r}" in str(w)
            ]


def test_every_code_is_shown_by_a_graph():
    shown = {code for _, expected in FAULTY.values() for _, code, _ in expected}
    assert shown | {"barrier"} == set(CODES)  # that one is shown of compiled graphs: test_check_barriers


# ── silence ──────────────────────────────────────────────────────────────────────────────────────────────────


def unsilenced(severity: str) -> list[str]:
    return [name for name, (_, expected) in FAULTY.items() if expected[0][0] == severity]


@pytest.mark.parametrize("name", [*unsilenced(W), *unsilenced(N)])
def test_a_graph_silences_a_code(name):
    make, expected = FAULTY[name]
    built = make()
    silent = {code for _, code, place in expected if "': " not in place}
    built.silence = frozenset(silent)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if len(silent) == len({code for _, code, _ in expected}):
            built.compile()
    assert [f for f in built.check() if f.code in silent] == []


@pytest.mark.parametrize("name", ["a", "b"])
def test_any_node_concerned_silences_a_code(name):
    built = graph("", (START, "a"), (START, "b"))
    for node in "ab":
        built.add_node(node, write_x, silence=("concurrent-writes",) if node == name else ())
    assert built.check() == ()
    built.compile()


def test_another_node_or_code_silences_nothing():
    built = StateGraph(State, silence=("dead-end", "stuck-join"))
    built.add_node("a", say, silence=["unreachable-node"]).add_node("b", say, silence={"dead-end"})
    built.add_edge(START, "a").add_edge("a", END)
    assert [(f.code, f.nodes) for f in built.check()] == [("unreachable-node", ("b",))]


@pytest.mark.parametrize(
    ("silence", "text"),
    [
        (("unreachable",), "'unreachable', which no check has as its code. Did you mean 'unreachable-node'?"),
        (("zzz",), "Codes: barrier, cannot-compile, concurrent-writes"),
        ("dead-end", "is a tuple of codes"),
        ((1,), "names 1"),
        (7, "is a tuple of codes"),
    ],
)
def test_a_code_that_doesnt_exist_is_refused(silence, text):
    with pytest.raises(GraphBuildError, match="silence of the graph") as caught:
        StateGraph(State, silence=silence)
    assert text in str(caught.value)
    built = StateGraph(State)
    with pytest.raises(GraphBuildError, match="silence of node 'a'") as caught:
        built.add_node("a", say, silence=silence)
    assert text in str(caught.value)
    assert "a" not in built.nodes


# ── when it is told ──────────────────────────────────────────────────────────────────────────────────────────


def test_lenient_graphs_are_compiled_without_a_word_and_checked_all_the_same():
    built = graph("a b", (START, "a"), ("a", END), strict=False)
    compiled = built.compile()
    assert [f.code for f in compiled.check()] == [f.code for f in built.check()] == ["unreachable-node"]


def test_lenient_graphs_follow_what_strict_ones_refuse():
    built = graph("b", (START, "a"), ("a", "b"), strict=False).add_node("a", say, destinations=("b", "c"))
    assert [(f.severity, f.code, f.place) for f in built.check()] == [
        (W, "unknown-target", "node 'a'"),
        (N, "mixed-routing", "node 'a'"),
    ]


def test_the_warning_points_at_the_call_of_compile():
    with pytest.warns(GraphCheckWarning) as caught:
        graph("a b", (START, "a"), ("a", END)).compile()
    assert caught[0].filename == __file__


def test_a_compiled_graph_is_checked_as_it_was_compiled():
    built = graph("a", (START, "a"), ("a", END))
    compiled = built.compile()
    built.add_node("b", say)
    assert compiled.check() == ()
    assert [f.code for f in built.check()] == ["unreachable-node"]


def test_a_loop_that_is_paused_in_has_an_exit():
    built = graph("a b", (START, "a"), ("a", "b"), ("b", "a"), silence=())
    with pytest.warns(GraphCheckWarning):
        built.compile()
    for pauses in (["a"], ["b"], "*"):
        assert built.compile(interrupt_before=pauses).check() == ()
        assert built.compile(interrupt_after=pauses).check() == ()


def test_checking_runs_nothing():
    ran = []

    def node(state, runtime: Runtime):
        ran.append(1)
        return {"log": [interrupt("?")]}

    def route(state):
        ran.append(2)
        return "a"

    built = StateGraph(State, input_schema=State).add_node("a", node).add_edge(START, "a")
    built.add_node("b", factory=lambda: ran.append(3)).add_conditional_edges("a", route).add_edge("a", "b")
    assert built.check() is not None
    assert ran == []


def test_a_report_is_told_in_lines():
    report = graph("a b c", (START, "a"), (START, "c"), ("a", END)).check()
    assert [f.severity for f in report] == [W, N]
    assert report.of("note") == report[1:]
    assert str(report).splitlines() == [str(finding) for finding in report]
    assert str(report.of("error")) == "no findings"


def test_a_finding_is_a_value():
    finding = Finding("dead-end", "note", "node 'a'", "m", "r", ("a",))
    assert finding == Finding("dead-end", "note", "node 'a'", "m", "r", ("a",))
    with pytest.raises(AttributeError):
        finding.code = "x"


# ── code that can't be trusted to be the function's ──────────────────────────────────────────────────────────


def executed(text: str) -> Any:
    space: dict[str, Any] = {"Command": Command}
    exec(text, space)
    return space["node"]


def test_a_function_without_source_is_opaque():
    built = graph("b", (START, "a"), (START, "b")).add_node("a", executed("def node(s): return {'zzz': 1}"))
    assert built.check() == ()


def test_a_source_that_was_edited_is_not_believed(tmp_path):
    path = tmp_path / "edited.py"
    path.write_text("def node(state):\n    return {'zzz': 1}\n")
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    built = graph("", (START, "a"), ("a", END)).add_node("a", space["node"])
    assert [f.key for f in built.check()] == ["zzz"]
    other = tmp_path / "other.py"
    other.write_text("def node(state):\n    return {'other': 1}\n")
    exec(compile(path.read_text(), str(other), "exec"), space)
    built = graph("", (START, "a"), ("a", END)).add_node("a", space["node"])
    assert built.check() == ()


def test_what_python_said_of_the_source_isnt_said_again(tmp_path):
    path = tmp_path / "escapes.py"
    path.write_text("def node(state):\n    return {'zzz': '\\d'}\n")
    space: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(path.read_text(), str(path), "exec"), space)
    built = graph("", (START, "a"), ("a", END)).add_node("a", space["node"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [f.key for f in built.check()] == ["zzz"]


@dataclass
class Object:
    x: int = 0
    y: int = 0


def test_an_object_as_the_state():
    def node(state: Object):
        return {"x": state.y, "z": 1}

    built = graph("", (START, "a"), ("a", END), schema=Object).add_node("a", node)
    assert [(f.code, f.key) for f in built.check()] == [("unknown-key", "z")]
