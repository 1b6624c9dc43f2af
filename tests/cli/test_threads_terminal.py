"""The commands for threads on a real terminal: tables, and questions that somebody there answers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, Terminal
from tests.cli.test_terminal import without_styles

Juncture = Callable[..., Outcome]
Write = Callable[[str, str], Path]
Start = Callable[..., Terminal]

ASKING = r"""
    import operator
    from typing import Annotated

    from juncture import START, StateGraph, interrupt


    def draft(state):
        return {"lines": [f"line {n}" for n in range(30)], "odd": "\x1b[5m"}


    def first(state):
        return {"a": interrupt({"text": "first?"}, key="one")}


    def second(state):
        return {"b": interrupt("second? \x1b]0;owned\x07")}


    def long(state):
        return {"lines": [*state["lines"][:15], "changed", *state["lines"][16:]]}


    graph = StateGraph().add_node(draft).add_node(first).add_node(second).add_edge(START, "draft")
    graph.add_node(long).add_edge("draft", "first").add_edge("draft", "second").add_edge("first", "long")
    outer = StateGraph().add_node("sub", graph).add_edge(START, "sub")
"""

AT = ("--checkpointer", "sqlite:runs.db")
T = ("--thread", "t", *AT)
PROMPT = "answer (JSON or text; nothing leaves it open)> "


@pytest.fixture
def paused(juncture: Juncture, write: Write) -> Juncture:
    """Thread t waits for two answers."""
    write("asking.py", ASKING)
    assert juncture("run", "asking.py:graph", "--input", "{}", *T).code == 3
    return juncture


def seen(shown: Terminal, code: int = 0) -> str:
    """What a command that ended with this code had shown."""
    assert shown.ended() == code, shown.seen
    assert "\x1b[5m" not in shown.seen
    assert "\x1b]0;" not in shown.seen
    return without_styles(shown.seen).rstrip("\n")


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────


def test_threads_and_states_are_tables(terminal: Start, paused: Juncture):
    paused("fork", "asking.py:graph", *T, "--to", "\x1b[5m u")
    threads = seen(terminal("threads", "asking.py:graph", *AT))
    head, first, second = (line.split() for line in threads.splitlines() if not line.startswith(" "))
    assert head == ["thread", "status", "step", "changed", "next", "waits", "for"]
    assert first[:4] == ["\\x1b[5m", "u", "interrupted", "1"]
    assert second[:3] == ["t", "interrupted", "1"]
    assert "first, second" in threads
    assert threads.count("second: 'second? ") == 2
    listed = paused("history", "asking.py:graph", *T).lines
    history = seen(terminal("history", "asking.py:graph", *T)).splitlines()
    assert [line.split()[:3] for line in history[1:] if not line.startswith(" ")] == [
        [each["checkpoint_id"], str(each["step"]), each["source"]] for each in listed
    ]


def test_empty_listings_say_so(terminal: Start, paused: Juncture):
    assert seen(terminal("threads", "asking.py:graph", *AT, "--status", "dead")) == "no threads"
    assert seen(terminal("history", "asking.py:graph", *T, "--filter", "step=9")) == "no such state"


def test_a_state_is_shown_with_what_it_waits_for(terminal: Start, juncture: Juncture, write: Write):
    write("asking.py", ASKING)
    asked = juncture("run", "asking.py:outer", "--input", "{}", *T).last
    shown = seen(terminal("show", "asking.py:outer", *T))
    assert "thread: t\n" in shown
    assert f"checkpoint: {asked['checkpoint']['checkpoint_id']}\n" in shown
    assert "task sub: waits" in shown
    assert "  namespace: sub:1" in shown  # the nested graph, beneath its task
    for question in asked["interrupts"]:
        assert f"id {question['id']}" in shown
    assert "asks, key 'one'" in shown
    assert "{'text': 'first?'}" in shown
    assert "'line 29'" in shown


def test_one_key_is_shown_alone(terminal: Start, paused: Juncture):
    assert seen(terminal("show", "asking.py:graph", *T, "--key", "odd")) == r"'\x1b[5m'"


def test_of_a_changed_value_only_what_differs_is_shown(terminal: Start, paused: Juncture):
    (question, _) = paused("show", "asking.py:graph", *T).last["interrupts"]
    old = paused("history", "asking.py:graph", *T).lines[0]["checkpoint_id"]
    assert question["key"] == "one"
    assert paused("resume", "asking.py:graph", *T, "--answer", "one=1").code == 3
    answers = [
        f"--answer={each['id']}=2" for each in paused("show", "asking.py:graph", *T).last["interrupts"]
    ]
    assert paused("resume", "asking.py:graph", *T, *answers).code == 0
    shown = [line.rstrip() for line in seen(terminal("diff", "asking.py:graph", old, *T)).splitlines()]
    assert shown == [
        "+ a",
        "  1",
        "+ b",
        "  2",
        "~ lines",
        "    …",
        "  -     'line 15',",
        "  +     'changed',",
        "    …",
    ]
    assert seen(terminal("diff", "asking.py:graph", old, old, *T)) == "no difference"


def test_lines_of_json_if_asked_for(terminal: Start, paused: Juncture):
    for arguments in (["threads", "asking.py:graph", *AT], ["show", "asking.py:graph", *T]):
        shown = seen(terminal(*arguments, "--json"))
        assert shown.startswith('{"thread_id": "t", ')


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────


def test_questions_are_answered_on_the_terminal(terminal: Start, paused: Juncture):
    shown = terminal("resume", "asking.py:graph", *T)
    shown.expect(PROMPT)
    assert "first?" in shown.seen
    assert "second?" not in shown.seen
    shown.type('{"x": \n')  # begins like JSON, and isn't
    shown.expect("the answer isn't JSON: line 1, column ")
    shown.type('{"x": [true, null]}\n')
    shown.expect("second?")
    shown.type("as it is: fine\n")
    plain = seen(shown)
    assert "completed after 2 steps" in plain
    assert "In a shell" not in plain
    values = paused("show", "asking.py:graph", *T).last["values"]
    assert (values["a"], values["b"]) == ({"x": [True, None]}, "as it is: fine")


def test_an_empty_line_leaves_a_question_open(terminal: Start, paused: Juncture):
    shown = terminal("resume", "asking.py:graph", *T)
    shown.expect(PROMPT)
    shown.type("\n")
    shown.expect("second?")
    shown.type("2\n")
    plain = seen(shown, 3)
    assert "To answer: juncture resume asking.py:graph --thread t" in plain
    (left,) = paused("show", "asking.py:graph", *T).last["interrupts"]
    assert left["key"] == "one"


@pytest.mark.parametrize(
    ("typed", "code"), [("\x04", 3), ("\x03", 130), ("\n\n", 3)], ids=["ctrl-d", "ctrl-c", "nothing"]
)
def test_without_an_answer_nothing_is_run(typed: str, code: int, terminal: Start, paused: Juncture):
    before = paused("show", "asking.py:graph", *T).last
    shown = terminal("resume", "asking.py:graph", *T)
    shown.expect(PROMPT)
    shown.type(typed)
    plain = seen(shown, code)
    assert "Traceback" not in plain
    assert paused("show", "asking.py:graph", *T).last == before


def test_what_was_answered_by_an_option_is_not_asked(terminal: Start, paused: Juncture):
    plain = seen(terminal("resume", "asking.py:graph", *T, "--answer", "one=1"), 3)
    assert PROMPT not in plain


@pytest.mark.parametrize(
    ("typed", "code", "left"), [("y\n", 0, 1), ("\n", 130, 2), ("\x03", 130, 2), ("\x04", 130, 2)]
)
def test_before_something_is_removed_it_asks(
    typed: str, code: int, left: int, terminal: Start, paused: Juncture
):
    shown = terminal("prune", "asking.py:graph", *T, "--keep", "1")
    shown.expect("Remove the checkpoints of thread 't' before the newest 1? [y/N] ")
    shown.type(typed)
    plain = seen(shown, code)
    assert ("removed 1 checkpoint\n" in f"{plain}\n") == (code == 0)
    assert len(paused("history", "asking.py:graph", *T).lines) == left


def test_recovered_threads_are_told(terminal: Start, paused: Juncture):
    assert seen(terminal("recover", "asking.py:graph", *AT)) == "no run has died"


def test_an_answer_that_the_question_does_not_want_is_asked_for_again(
    terminal: Start, juncture: Juncture, write: Write
):
    write(
        "typed.py",
        """
        from dataclasses import dataclass
        from typing import Literal

        from juncture import START, StateGraph, interrupt


        @dataclass
        class Point:
            x: int


        def ask(state):
            return {"a": interrupt("which?", response_type=Literal["a", "b"] | Point)}


        graph = StateGraph().add_node(ask).add_edge(START, "ask")
        """,
    )
    assert juncture("run", "typed.py:graph", "--input", "{}", *T).code == 3
    shown = terminal("resume", "typed.py:graph", *T)
    shown.expect(PROMPT)
    shown.type("c\n")
    shown.expect("expected one of 'a', 'b', got 'c'")
    shown.type("b\n")
    assert "wants one of 'a', 'b' or Point" in seen(shown)
    assert juncture("show", "typed.py:graph", *T).last["values"] == {"a": "b"}
    refused = juncture("resume", "typed.py:graph", *T, "--answer", "=1")
    assert refused.code != 0
