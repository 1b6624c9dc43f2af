"""`juncture run` on a real terminal: what runs is shown while it runs, and the state at the end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal

Write = Callable[[str, str], Path]
Start = Callable[..., Terminal]

GATED = """
    import operator
    from pathlib import Path
    from typing import Annotated, TypedDict

    from juncture import START, Send, StateGraph


    class Sizes(TypedDict, total=False):
        names: list[str]
        sizes: Annotated[list[int], operator.add]


    def measure(name: str, writer):
        writer({"measuring": name})
        Path(f"gate-{name}").read_text()
        return {"sizes": [len(name)]}


    async def finish(state: Sizes):
        print("printed by a node")


    graph = StateGraph(Sizes).add_node(measure).add_node(finish)
    graph.add_conditional_edges(START, lambda state: [Send("measure", name) for name in state["names"]], ["measure"])
    graph.add_edge("measure", "finish")
"""


def test_what_runs_is_shown_while_it_runs(terminal: Start, write: Write, folder: Path):
    write("gated.py", GATED)
    for name in ("Ada", "[red]"):
        os.mkfifo(f"gate-{name}")
    shown = terminal("run", "gated.py:graph", "--input", '{"names": ["Ada", "[red]"]}')
    shown.expect("measuring")
    shown.expect("measure\x1b[2m ×2")  # in the list of what runs
    assert "✓" not in shown.seen
    assert shown.child.poll() is None
    (folder / "gate-Ada").write_text("")
    (folder / "gate-[red]").write_text("")
    assert shown.ended() == 0
    plain = without_styles(shown.seen)
    assert "custom measure {'measuring': 'Ada'}" in plain
    assert "✓ measure ×2" in plain
    assert "printed by a node" in plain
    assert "✓ finish" in plain
    assert "completed after 2 steps" in plain
    assert "'sizes': [3, 5]" in plain
    assert '"seq"' not in plain


def test_ctrl_c_stops_it(terminal: Start, write: Write):
    write("gated.py", GATED)
    os.mkfifo("gate-Ada")
    shown = terminal("run", "gated.py:graph", "--input", '{"names": ["Ada"]}')
    shown.expect("measuring")
    shown.type("\x03")
    shown.expect("Ctrl-C again")
    shown.type("\x03")
    assert shown.ended() == 130
    plain = without_styles(shown.seen)
    assert "cancelled after " in plain
    assert "stopped. Nothing was kept, because there is no saver" in plain
    assert "Traceback" not in plain
    assert shown.seen.rindex("\x1b[?25h") > shown.seen.rindex("\x1b[?25l")  # the cursor is shown again


def test_failures_and_questions_are_shown(terminal: Start, write: Write):
    write(
        "ends.py",
        r"""
        from juncture import START, StateGraph, interrupt


        def boom(state):
            raise OSError("no \x1b[5m network")


        failing = StateGraph().add_node(boom).add_edge(START, "boom")
        asking = StateGraph().add_node("ask", lambda state: {"a": interrupt("ok?")}).add_edge(START, "ask")
        """,
    )
    failed = terminal("run", "ends.py:failing", "--input", "{}")
    assert failed.ended() == 1
    plain = without_styles(failed.seen)
    assert "✗ boom OSError(" in plain
    assert "failed after 1 step" in plain
    assert r"error: node 'boom' failed in step 1: OSError: no \x1b[5m network" in plain
    assert "\x1b[5m" not in failed.seen
    asked = terminal("run", "ends.py:asking", "--input", "{}", "--checkpointer", "memory:")
    assert asked.ended() == 3
    plain = without_styles(asked.seen)
    assert "? ask waits for an answer" in plain
    assert "paused: node 'ask' asks 'ok?'" in plain


def test_lines_of_json_on_a_terminal_if_asked_for(terminal: Start, flow: Path):
    shown = terminal("run", "flow.py", "--input", '{"texts": ["a"]}', "--json")
    assert shown.ended() == 0
    assert '{"seq": 0, ' in shown.seen
    assert '{"status": "completed", ' in shown.seen
    assert "\x1b" not in shown.seen


def test_modes_that_were_asked_for_are_shown(terminal: Start, flow: Path):
    shown = terminal("run", "flow.py", "--input", '{"texts": ["a b"]}', "--stream", "updates")
    assert shown.ended() == 0
    plain = without_styles(shown.seen)
    assert "updates count {'count': {'words': [2]}}" in plain
    assert "custom" not in plain


def test_a_terminal_that_is_not_utf_8_gets_signs_that_it_has(
    terminal: Start, flow: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    shown = terminal("run", "flow.py", "--input", '{"texts": ["ä"]}')
    assert shown.ended() == 0
    assert r"\u2713" in shown.seen
    assert r"\xe4" in shown.seen


def without_styles(text: str) -> str:
    """The text without what moves the cursor and colours."""
    from rich.text import Text

    return Text.from_ansi(text.replace("\r\n", "\n").replace("\r", "\n")).plain
