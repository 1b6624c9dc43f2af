"""`juncture draw`: what it writes, and where."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import FLOW, Outcome

Juncture = Callable[..., Outcome]
Write = Callable[[str, str], Path]

NESTED = """
    from flow import Count, graph
    from juncture import START, StateGraph

    outer = StateGraph(Count).add_node("inner", graph).add_edge(START, "inner").compile(interrupt_before=["inner"])
"""


def test_a_pipe_gets_mermaid(juncture: Juncture, write: Write):
    write("flow.py", FLOW)
    done = juncture("draw", "flow.py:graph", "--title", "My flow")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith('---\ntitle: "My flow"\n---\nflowchart TD\n')
    assert '__start__ -.->|"send"| count' in done.out


@pytest.mark.parametrize(
    ("file", "begins"),
    [
        ("a.svg", b"<svg "),
        ("a.PNG", b"\x89PNG"),
        ("a.puml", b"@startuml"),
        ("a.dot", b"digraph"),
        ("a.json", b"{"),
        ("a.txt", "╭".encode()),
        ("a.mmd", b"flowchart"),
    ],
)
def test_a_files_ending_says_the_format(
    juncture: Juncture, write: Write, folder: Path, file: str, begins: bytes
):
    write("flow.py", FLOW)
    done = juncture("draw", "flow.py:graph", "--out", file)
    assert (done.code, done.out, done.err) == (0, "", f"wrote {file}\n")
    assert (folder / file).read_bytes().startswith(begins)


def test_nested_graphs_are_drawn_open_and_routers_by_themselves(juncture: Juncture, write: Write):
    write("flow.py", FLOW)
    write("nested.py", NESTED)

    def nodes(*options: str) -> set[str]:
        drawn: dict[str, Any] = json.loads(
            juncture("draw", "nested.py:outer", "--format", "json", *options).out
        )
        return {node["id"] for node in drawn["nodes"]}

    assert nodes() == {"__start__", "inner", "__end__"}
    assert nodes("--xray", "1") >= {"inner", "inner:count", "inner:add_up"}
    assert nodes("--xray", "1", "--conditions") >= {"inner:__start__|one_each"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--format", "gif"], "--format gif: there is no such format. There are mermaid, plantuml"),
        (["--out", "a.gif"], "--out a.gif: no format has this ending"),
    ],
)
def test_an_unknown_format_is_wrong_usage(juncture: Juncture, write: Write, options: list[str], told: str):
    write("flow.py", FLOW)
    done = juncture("draw", "flow.py:graph", *options)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


def test_a_missing_extra_is_wrong_usage(juncture: Juncture, write: Write, monkeypatch: pytest.MonkeyPatch):
    write("flow.py", FLOW)
    monkeypatch.setitem(__import__("sys").modules, "graphlay", None)  # as if it weren't installed
    done = juncture("draw", "flow.py:graph", "--format", "svg")
    assert (done.code, done.out) == (2, "")
    assert "install juncture[draw]" in done.err


def test_a_folder_that_is_not_there_is_told(juncture: Juncture, write: Write):
    write("flow.py", FLOW)
    done = juncture("draw", "flow.py:graph", "--out", "none/a.svg")
    assert (done.code, done.out) == (1, "")
    assert "none/a.svg" in done.err


def test_a_terminal_gets_a_drawing_and_no_image(terminal: Callable[..., Any], write: Write):
    write("flow.py", FLOW)
    shown = terminal("draw", "flow.py:graph")
    assert shown.ended() == 0
    assert "│ start │" in shown.seen
    refused = terminal("draw", "flow.py:graph", "--format", "png")
    assert refused.ended() == 2
    assert "a PNG isn't for a terminal" in refused.seen


def test_what_ran_in_a_thread_is_drawn_over_the_graph(juncture: Juncture, write: Write):
    write("flow.py", FLOW)
    given = ["--checkpointer", "sqlite:runs.db", "--thread", "t"]
    assert juncture("run", "flow.py:graph", "--input", '{"texts": ["a b", "c"]}', *given).code == 0
    drawn = json.loads(juncture("draw", "flow.py:graph", "--format", "json", *given).out)
    ran = {node["id"]: node["run"]["visits"] for node in drawn["nodes"] if "run" in node}
    assert ran == {"count": 2, "add_up": 1}
    unknown = juncture("draw", "flow.py:graph", "--checkpointer", "sqlite:runs.db", "--thread", "nobody")
    assert (unknown.code, unknown.out) == (2, "")
    alone = juncture("draw", "flow.py:graph", "--checkpointer", "sqlite:runs.db")
    assert (alone.code, alone.out) == (2, "")
    assert "name it with --thread" in alone.err
