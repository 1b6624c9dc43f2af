"""`juncture check`: what it prints, and how it ends."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Juncture = Callable[..., Outcome]
Write = Callable[[str, str], Path]

FAULTY = r"""
    from typing import TypedDict

    from juncture import END, START, StateGraph


    class State(TypedDict, total=False):
        a: int
        b: int


    def one(state: State):
        return {"a": state.get("b", 1)}


    def two(state: State):
        return {"b": state.get("a", 1)}


    sound = StateGraph(State).add_node(one).add_node(two).add_edge(START, "one").add_edge("one", "two")
    lost = StateGraph(State).add_node(one).add_node(two).add_edge(START, "one")
    untold = StateGraph(State).add_node(one).add_node(two).add_edge(START, "one").add_edge("one", END)
    untold.add_edge(START, "two")
    wrong = StateGraph(State).add_node(one).add_edge(START, "onne")
    rude = StateGraph(State).add_node("r\x1b[2J", one).add_node(two).add_edge(START, "two")


    async def make():
        return lost.compile()
"""


def test_a_sound_graph_has_no_findings(juncture: Juncture, write: Write):
    write("faulty.py", FAULTY)
    done = juncture("check", "faulty.py:sound")
    assert (done.code, done.out, done.err) == (0, "", "faulty.py:sound: no findings\n")
    assert juncture("check", "faulty.py:sound", "--json").out == "[]\n"


@pytest.mark.parametrize(
    ("name", "severity", "code", "place"),
    [
        ("lost", "warning", "unreachable-node", "node 'two'"),
        ("make", "warning", "unreachable-node", "node 'two'"),
        ("wrong", "error", "unknown-target", "edge '__start__' -> 'onne'"),
    ],
)
def test_errors_and_warnings_are_told(
    name: str, severity: str, code: str, place: str, juncture: Juncture, write: Write
):
    write("faulty.py", FAULTY)
    done = juncture("check", f"faulty.py:{name}")
    assert done.code == 1
    finding, remedy = done.out.splitlines()[:2]
    assert finding.startswith(f"{severity} {code}: {place}: ")
    assert remedy.startswith("    ")
    assert done.err.startswith(f"faulty.py:{name}: 1 {severity}")
    as_json = juncture("check", f"faulty.py:{name}", "--json")
    assert (as_json.code, as_json.err) == (1, "")
    first = json.loads(as_json.out)[0]
    assert (first["severity"], first["code"], first["place"]) == (severity, code, place)
    assert first["remedy"] == remedy.strip()


def test_notes_alone_are_no_failure(juncture: Juncture, write: Write):
    write("faulty.py", FAULTY)
    done = juncture("check", "faulty.py:untold", "--json")
    assert {finding["severity"] for finding in json.loads(done.out)} == {"note"}
    assert done.code == 0


def test_a_graph_that_cannot_be_loaded_is_usage(juncture: Juncture, write: Write):
    write("faulty.py", FAULTY)
    done = juncture("check", "faulty.py:absent")
    assert (done.code, done.out) == (2, "")
    assert "faulty.py has no 'absent'" in done.err


def test_names_cannot_reach_the_terminal(juncture: Juncture, write: Write):
    write("faulty.py", FAULTY)
    done = juncture("check", "faulty.py:rude")
    assert done.code == 1
    assert "r\\x1b[2J" in done.out
    assert "\x1b" not in done.out + done.err
