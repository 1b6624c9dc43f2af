"""`juncture run` in a pipe: what it prints, how it ends, and what it says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Outcome

Juncture = Callable[..., Outcome]
Write = Callable[[str, str], Path]

TEXTS = '{"texts": ["to be or not", "that"]}'


def test_every_part_is_a_line_and_the_last_says_how_it_ended(juncture: Juncture, flow: Path):
    done = juncture("run", "flow.py:graph", "--input", TEXTS)
    assert done.code == 0
    assert done.err == ""
    *parts, last = done.lines
    assert [part["seq"] for part in parts] == list(range(5))
    assert [set(part) for part in parts] == [{"seq", "mode", "ns", "node", "data"}] * 5
    shown = [(part["mode"], part["node"], part["data"]) for part in parts]
    assert ("custom", "count", {"counted": "that"}) in shown
    assert shown[-1] == ("updates", "add_up", {"add_up": {"total": 5}})
    assert isinstance(last.pop("run_id"), str)
    assert last == {
        "status": "completed",
        "values": {"texts": ["to be or not", "that"], "words": [4, 1], "total": 5},
        "interrupts": [],
        "thread_id": None,
        "checkpoint": None,
    }


def test_only_the_modes_that_were_asked_for_are_shown(juncture: Juncture, flow: Path):
    done = juncture("run", "flow.py", "--input", TEXTS, "--stream", "values", "--stream", "tasks")
    assert {part["mode"] for part in done.lines[:-1]} == {"values", "tasks"}


def test_parts_of_nested_graphs_name_their_place(juncture: Juncture, write: Write):
    write(
        "nested.py",
        """
        from juncture import START, StateGraph

        inner = StateGraph().add_node("leaf", lambda state: {"a": 1}).add_edge(START, "leaf")
        outer = StateGraph().add_node("sub", inner).add_edge(START, "sub")
        """,
    )
    done = juncture("run", "nested.py:outer", "--input", "{}", "--stream", "updates")
    inner, outer = done.lines[:-1]
    assert (inner["node"], outer["node"], outer["ns"]) == ("leaf", "sub", [])
    assert [level.partition(":")[0] for level in inner["ns"]] == ["sub"]


# ── inputs ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_input_is_read_from_a_file_or_from_standard_input(juncture: Juncture, flow: Path, folder: Path):
    (folder / "in.json").write_text("\ufeff" + TEXTS, encoding="utf-8")
    from_file = juncture("run", "flow.py", "--input", "@in.json")
    from_stdin = juncture("run", "flow.py", "--input", "-", stdin=TEXTS)
    assert from_file.last["values"] == from_stdin.last["values"]
    assert from_file.last["values"]["total"] == 5


NODE_OF_CONTEXT = """
    from juncture import START, StateGraph


    def node(state, runtime, config):
        return {"user": runtime.context["user"], "tag": config["configurable"]["tag"]}


    graph = StateGraph(context_schema=dict).add_node(node).add_edge(START, "node")
"""


def test_config_and_context_reach_the_nodes(juncture: Juncture, write: Write):
    write("flow.py", NODE_OF_CONTEXT)
    options = ["--context", '{"user": "Ada"}', "--config", '{"configurable": {"tag": "x"}}']
    assert juncture("run", "flow.py", "--input", "{}", *options).last["values"] == {"user": "Ada", "tag": "x"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--input", '{"a" 1}'],
            "--input isn't JSON: line 1, column 6: Expecting ':' delimiter\n    {\"a\" 1}\n         ^",
        ),
        (["--input", "{texts: []}"], "In a shell, put it in single quotes"),
        (["--input", ""], "--input isn't JSON: line 1, column 1"),
        (["--input", "NaN"], "NaN isn't JSON"),
        (["--input", '{"a": 1, "a": 2}'], "the key 'a' stands twice"),
        (["--input", '{"a": 1e999}'], "the number 1e999 is larger than a float can be"),
        (["--input", "[" * 100_000], "nested too deeply"),
        (["--input", "@absent.json"], "the file 'absent.json' can't be read: No such file or directory"),
        (["--input", "@"], "names no file"),
        (["--input", "@broken.json"], "--input (from broken.json) isn't JSON: line 2, column 2"),
        (["--input", "@latin.json"], "--input (from latin.json) isn't UTF-8: byte 1 is 0xe4"),
        (["--input", "-", "--config", "-"], "--input and --config can't both be read from standard input"),
        (
            ["--input", "{}", "--config", "[]"],
            "--config is a JSON object such as '{\"key\": 1}', and not an array",
        ),
        (
            ["--input", "{}", "--context", "1"],
            "--context is a JSON object such as '{\"key\": 1}', and not a number",
        ),
        (["--input", "{}", "--config", '{"recursionlimit": 3}'], "Did you mean 'recursion_limit'?"),
        (["--input", "{}", "--stream", "update"], "unknown stream mode 'update'. Known: values, updates"),
        (["--input", '{"textx": []}'], "the input wrote the key 'textx', which the state doesn't have"),
        (
            ["--input", "{}", "--checkpointer", "sqlit:x.db"],
            "--checkpointer: no saver for the scheme 'sqlit:'",
        ),
        (
            ["--input", "{}", "--checkpointer", "runs.db"],
            "--checkpointer: a saver's URL starts with its scheme",
        ),
        (
            ["--input", "{}", "--thread", "t"],
            "--thread t: flow.py:graph has no saver, so there are no threads",
        ),
        ([], "--input is missing, and there is nothing to go on with: the graph has no saver"),
        (["--checkpointer", "memory:"], "there is nothing to go on with: no thread is named (--thread ID)"),
        (["--checkpointer", "memory:", "--thread", "t"], "thread 't' has no checkpoint"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_what_was_typed_wrongly_is_said(
    options: list[str], said: str, juncture: Juncture, flow: Path, folder: Path
):
    (folder / "broken.json").write_text("{\n}}")
    (folder / "latin.json").write_bytes(b"\x22\xe4\x22")
    done = juncture("run", "flow.py:graph", *options)
    assert done.code == 2
    assert done.out == ""
    assert said in done.err
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err


@pytest.mark.parametrize("arguments", [["run"], ["run", "flow.py", "--nope"], ["walk"]], ids=" ".join)
def test_wrong_arguments_are_usage(arguments: list[str], juncture: Juncture):
    assert juncture(*arguments).code == 2


def test_the_version_is_printed(juncture: Juncture):
    done = juncture("--version")
    assert (done.code, done.out.split()[0]) == (0, "juncture")


TYPED = """
    from dataclasses import dataclass

    import pydantic
    from juncture import START, StateGraph


    @dataclass
    class Point:
        x: int
        y: int = 0


    class Model(pydantic.BaseModel):
        x: int
        y: int = 0


    def add(state):
        return {"y": state.x + 1}


    points = StateGraph(Point).add_node(add).add_edge(START, "add")
    models = StateGraph(Model).add_node(add).add_edge(START, "add")
"""


@pytest.mark.parametrize("name", ["points", "models"])
def test_a_typed_state_takes_and_gives_objects(name: str, juncture: Juncture, write: Write):
    write("typed.py", TYPED)
    done = juncture("run", f"typed.py:{name}", "--input", '{"x": 1}')
    assert (done.code, done.last["values"]) == (0, {"x": 1, "y": 2}), done.err


@pytest.mark.parametrize(
    ("name", "given"),
    [("points", '"text"'), ("points", "[]"), ("points", "5"), ("models", '{"x": "many"}')],
)
def test_an_input_that_does_not_fit_is_usage(name: str, given: str, juncture: Juncture, write: Write):
    write("typed.py", TYPED)
    done = juncture("run", f"typed.py:{name}", "--input", given)
    assert (done.code, done.out) == (2, ""), done.err


# ── how it ends ──────────────────────────────────────────────────────────────────────────────────────────────

ENDS = """
    import sys
    from threading import Barrier

    from juncture import END, START, StateGraph, interrupt

    meet = Barrier(2)


    def boom(state):
        raise OSError("no network")


    def first(state):
        meet.wait()
        raise OSError("no network")


    def second(state):
        meet.wait()
        raise KeyError("no key")


    def leave(state):
        sys.exit(0)


    async def aleave(state):
        sys.exit(0)


    class Mute(Exception):
        __slots__ = ()

        def __str__(self):
            raise RuntimeError

        def __setattr__(self, name, value):
            raise AttributeError(name)


    def mute(state):
        raise Mute


    def count(state):
        return {"n": state.get("n", 0) + 1}


    def ask(state):
        return {"answer": interrupt({"question": "ok?"}, key="ok")}


    def one(node):
        return StateGraph().add_node(node).add_edge(START, node.__name__)


    failing = one(boom)
    both = one(first).add_node(second).add_edge(START, "second")
    leaving, aleaving, speechless, asking = one(leave), one(aleave), one(mute), one(ask)
    endless = one(count).add_conditional_edges("count", lambda state: "count", ["count", END])
    counting = one(count)
    pausing = one(count).compile("memory:", interrupt_before=["count"])
"""


def test_a_failure_names_the_node_and_the_line(juncture: Juncture, write: Write):
    write("ends.py", ENDS)
    done = juncture("run", "ends.py:failing", "--input", '{"a": 1}')
    assert done.code == 1
    assert done.last["status"] == "failed"
    assert done.last["values"] == {"a": 1}
    assert done.last["error"] == {"type": "OSError", "message": "no network", "node": "boom", "step": 1}
    assert "error: node 'boom' failed in step 1: OSError: no network\n  at ends.py:10, in boom\n" in done.err
    assert "Nothing was kept, because there is no saver" in done.err
    assert "Traceback" not in done.err


def test_the_traceback_is_shown_when_asked_for(juncture: Juncture, write: Write):
    write("ends.py", ENDS)
    failed = juncture("run", "ends.py:failing", "--input", "{}", "--traceback")
    usage = juncture("run", "ends.py:absent", "--traceback")
    assert (failed.code, usage.code) == (1, 2)
    assert "Traceback" in failed.err
    assert "AttributeError" in usage.err


def test_every_failure_of_a_step_is_told(juncture: Juncture, write: Write):
    write("ends.py", ENDS)
    done = juncture("run", "ends.py:both", "--input", "{}")
    assert done.code == 1
    assert "node 'first' failed" in done.err
    assert "KeyError('no key')" in done.err


@pytest.mark.parametrize("name", ["leaving", "aleaving"])
def test_a_node_that_exits_has_failed(name: str, juncture: Juncture, write: Write):
    write("ends.py", ENDS)
    done = juncture("run", f"ends.py:{name}", "--input", "{}")
    assert done.code == 1
    assert done.last["status"] == "failed"
    assert "it called exit(0)" in done.err


def test_an_exception_that_says_nothing_is_still_a_failure(juncture: Juncture, write: Write):
    write("ends.py", ENDS)
    done = juncture("run", "ends.py:speechless", "--input", "{}")
    assert done.code == 1
    assert (done.last["status"], done.last["error"]["type"], done.last["error"]["message"]) == (
        "failed",
        "Mute",
        "",
    )


def test_the_limit_has_its_own_code(juncture: Juncture, write: Write):
    write("ends.py", ENDS)
    done = juncture("run", "ends.py:endless", "--input", "{}", "--config", '{"recursion_limit": 3}')
    assert done.code == 4
    assert (done.last["status"], done.last["values"]) == ("limit", {"n": 3})
    assert "Recursion limit of 3 reached" in done.err


def test_a_question_has_its_own_code(juncture: Juncture, write: Write):
    write("ends.py", ENDS)
    done = juncture("run", "ends.py:asking", "--input", "{}", "--checkpointer", "memory:", "--thread", "t")
    assert done.code == 3
    assert done.last["status"] == "interrupted"
    (question,) = done.last["interrupts"]
    assert (question["value"], question["node"], question["key"]) == ({"question": "ok?"}, "ask", "ok")
    assert done.last["checkpoint"]["thread_id"] == "t"
    assert f"paused: node 'ask' asks {{'question': 'ok?'}} (key 'ok', id {question['id']})" in done.err
    assert "Thread 't' was in memory and ended with this command" in done.err


def test_a_pause_before_a_node_has_the_same_code(juncture: Juncture, write: Write):
    write("ends.py", ENDS)
    done = juncture("run", "ends.py:pausing", "--input", "{}", "--thread", "t")
    assert done.code == 3
    assert "paused before node 'count'" in done.err


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────

KEPT = """
    from juncture import START, InMemorySaver, StateGraph




    def count(state):
        if state.get("fails") and state.get("n") == 1:
            raise OSError("down")
        return {"n": state.get("n", 0) + 1}


    builder = StateGraph().add_node(count).add_node("again", count)
    builder.add_edge(START, "count").add_edge("count", "again")
    app = builder.compile(InMemorySaver())
    unkept = builder.compile(checkpointer=False)
"""


def test_a_thread_without_a_name_gets_one(juncture: Juncture, write: Write):
    write("kept.py", KEPT)
    first, second = (juncture("run", "kept.py:app", "--input", "{}") for _ in range(2))
    names = [first.last["thread_id"], second.last["thread_id"]]
    assert len(set(names)) == 2
    assert f"thread: {names[0]} (in memory: it ends with this command)" in first.err
    assert [first.last["checkpoint"]["thread_id"], second.last["checkpoint"]["thread_id"]] == names


@pytest.mark.parametrize(
    "options",
    [["--thread", "t"], ["--config", '{"configurable": {"thread_id": "t"}}']],
    ids=["option", "config"],
)
def test_a_failed_thread_goes_on(options: list[str], juncture: Juncture, write: Write):
    write("kept.py", KEPT)
    failed = juncture("run", "kept.py:app", *options, "--input", '{"fails": true}')
    again = juncture("run", "kept.py:app", *options)
    assert (failed.code, failed.last["values"]["n"], failed.last["thread_id"]) == (1, 1, "t")
    assert (again.code, again.last["values"]["n"], again.last["error"]["node"]) == (1, 1, "again")
    assert "thread:" not in failed.err + again.err


def test_the_option_goes_before_the_graphs_own_saver(juncture: Juncture, write: Write):
    write("kept.py", KEPT)
    juncture("run", "kept.py:app", "--thread", "t", "--input", "{}")
    elsewhere = juncture("run", "kept.py:app", "--thread", "t", "--input", "{}", "--checkpointer", "memory:")
    own = juncture("run", "kept.py:app", "--thread", "t", "--input", "{}")
    assert (elsewhere.last["values"]["n"], own.last["values"]["n"]) == (2, 4)


def test_the_option_keeps_what_the_graph_was_compiled_with(juncture: Juncture, write: Write):
    write("ends.py", ENDS)
    done = juncture("run", "ends.py:pausing", "--input", "{}", "--checkpointer", "memory:")
    assert done.code == 3


def test_a_graph_that_keeps_nothing_takes_no_saver(juncture: Juncture, write: Write):
    write("kept.py", KEPT)
    done = juncture("run", "kept.py:unkept", "--input", "{}", "--checkpointer", "memory:")
    assert done.code == 2
    assert "kept.py:unkept was compiled with checkpointer=False" in done.err


def test_input_for_a_thread_with_a_question_is_usage(juncture: Juncture, write: Write):
    write(
        "asking.py",
        """
        from juncture import START, InMemorySaver, StateGraph, interrupt

        graph = StateGraph().add_node("ask", lambda state: {"a": interrupt("ok?")}).add_edge(START, "ask")
        app = graph.compile(InMemorySaver())
        """,
    )
    assert juncture("run", "asking.py:app", "--input", "{}", "--thread", "t").code == 3
    done = juncture("run", "asking.py:app", "--input", "{}", "--thread", "t")
    assert done.code == 2
    assert "the thread waits for answers" in done.err
    assert done.err.endswith("\n  To answer: juncture resume asking.py:app --thread t\n")


ON_DISK = """
    from juncture import START, StateGraph, interrupt
    from juncture.savers.file import FileSaver


    def boom(state):
        raise OSError("down")


    def ask(state):
        return {"a": interrupt("ok?")}


    app = StateGraph().add_node(boom).add_edge(START, "boom").compile(FileSaver("threads"))
    asking = StateGraph().add_node(ask).add_edge(START, "ask").compile(FileSaver("threads"))
"""


def test_a_saver_that_cannot_be_reached_is_said(juncture: Juncture, write: Write):
    write("disk.py", ON_DISK)
    done = juncture(
        "run", "disk.py:app", "--input", "{}", "--thread", "t", "--checkpointer", "sqlite:nowhere/runs.db"
    )
    assert (done.code, done.last["error"]["type"]) == (1, "SaverUnavailableError")
    assert "There is no folder" in done.err
    assert "Nothing of this run was saved." in done.err
    assert "  at " not in done.err  # no line of the user's code is to blame


def test_a_server_s_url_is_not_repeated(juncture: Juncture, flow: Path):
    url = "redis://me:secret@127.0.0.1:1/0"
    done = juncture("run", "flow.py", "--input", "{}", "--checkpointer", url)
    assert done.code == 1
    assert (
        f"(to go on in it: juncture run flow.py:graph --thread {done.last['thread_id']} --checkpointer URL)"
        in done.err
    )
    assert "secret" not in done.err + done.out


def test_a_checkpoint_that_does_not_exist_is_usage(juncture: Juncture, write: Write):
    write("disk.py", ON_DISK)
    place = '{"configurable": {"thread_id": "t", "checkpoint_id": "nowhere"}}'
    done = juncture("run", "disk.py:app", "--input", "{}", "--config", place)
    assert (done.code, done.out) == (2, "")
    assert "nowhere" in done.err


def test_how_to_go_on_is_said_where_the_thread_outlives_the_command(juncture: Juncture, write: Write):
    write("disk.py", ON_DISK)
    done = juncture("run", "disk.py:app", "--input", "{}")
    thread = done.last["thread_id"]
    assert f"thread: {thread} (to go on in it: juncture run disk.py:app --thread {thread})" in done.err
    assert f"To go on: juncture run disk.py:app --thread {thread}\n" in done.err
    other = juncture(
        "run", "disk.py:app", "--input", "{}", "--thread", "t", "--checkpointer", "sqlite:my runs.db"
    )
    assert "To go on: juncture run disk.py:app --thread t --checkpointer 'sqlite:my runs.db'\n" in other.err
    named = juncture("run", "disk.py:asking", "--input", "{}", "--thread", "a b")
    assert named.err.endswith("\nTo answer: juncture resume disk.py:asking --thread 'a b'\n")


# ── what is printed ──────────────────────────────────────────────────────────────────────────────────────────


def test_what_user_code_prints_is_not_among_the_lines(juncture: Juncture, write: Write):
    write(
        "chatty.py",
        """
        from juncture import START, StateGraph

        print("importing")


        def node(state):
            print("running")


        graph = StateGraph().add_node(node).add_edge(START, "node")
        """,
    )
    done = juncture("run", "chatty.py", "--input", "{}")
    assert [line.get("mode", line.get("status")) for line in done.lines] == ["updates", "completed"]
    assert done.err == "importing\nrunning\n"


def test_what_a_node_s_programs_print_is_not_among_the_lines(start: Callable[..., Any], write: Write):
    write(
        "louder.py",
        """
        import os
        import subprocess
        import sys

        from juncture import START, StateGraph


        def node(state):
            subprocess.run([sys.executable, "-c", "print('a program')"], check=True)
            os.write(1, b"a descriptor\\n")
            sys.__stdout__.write("a stream\\n")
            return {"x": 1}


        graph = StateGraph().add_node(node).add_edge(START, "node")
        """,
    )
    child = start("run", "louder.py", "--input", "{}")
    out, err = child.communicate()
    assert [json.loads(line).get("mode") for line in out.splitlines()] == ["updates", None]
    assert child.returncode == 0
    assert sorted(err.splitlines()) == ["a descriptor", "a program", "a stream"]


def test_whatever_a_node_raises_is_told_without_a_traceback(juncture: Juncture, write: Write):
    write(
        "fatal.py",
        """
        from juncture import START, StateGraph


        class Fatal(BaseException):
            pass


        def node(state):
            raise Fatal("enough")


        graph = StateGraph().add_node(node).add_edge(START, "node")
        """,
    )
    done = juncture("run", "fatal.py", "--input", "{}")
    assert done.code == 1
    assert done.err.startswith("error: node 'node' failed in step 1: Fatal: enough")
    assert "Traceback" not in done.err
    assert (done.last["status"], done.last["error"]["type"]) == ("failed", "Fatal")


def test_values_are_shown_as_they_are(juncture: Juncture, write: Write):
    write(
        "values.py",
        """
        from dataclasses import dataclass
        from decimal import Decimal

        from juncture import START, StateGraph


        @dataclass
        class Point:
            x: int
            name: str


        graph = StateGraph().add_node("n", lambda state: {"p": Point(1, "ä"), "d": Decimal("1.5")}).add_edge(START, "n")
        """,
    )
    done = juncture("run", "values.py", "--input", "{}")
    assert done.last["values"] == {"p": {"x": 1, "name": "ä"}, "d": {"$repr": "Decimal('1.5')"}}
    assert '"ä"' in done.out


def test_a_state_of_one_value_is_shown_as_that(juncture: Juncture, write: Write):
    write(
        "root.py",
        """
        from juncture import START, StateGraph

        graph = StateGraph(int).add_node("add", lambda state: state + 1).add_edge(START, "add")
        """,
    )
    assert juncture("run", "root.py", "--input", "1").last["values"] == 2


def test_control_characters_of_an_error_are_visible(juncture: Juncture, write: Write):
    write(
        "rude.py",
        r"""
        from juncture import START, StateGraph


        def rude(state):
            raise ValueError("\x1b]0;owned\x07 and \r hidden")


        graph = StateGraph().add_node(rude).add_edge(START, "rude")
        """,
    )
    done = juncture("run", "rude.py", "--input", "{}")
    assert r"ValueError: \x1b]0;owned\x07 and \r hidden" in done.err
    assert not {"\x1b", "\x07", "\r"} & set(done.err + done.out)


@pytest.mark.parametrize("scheme", ["nosuch:", "postgresql:"])
def test_a_password_in_a_wrong_url_is_not_repeated(scheme: str, juncture: Juncture, flow: Path):
    done = juncture("run", "flow.py", "--input", "{}", "--checkpointer", f"{scheme}me:secret@host/db")
    assert done.code == 2
    assert done.err.startswith("error: --checkpointer: ")
    assert "secret" not in done.err


def test_the_lines_are_json_and_nothing_else(juncture: Juncture, write: Write):
    write(
        "odd.py",
        r"""
        from juncture import START, StateGraph


        def node(state, writer):
            for odd in ("two\nlines", "\ud800", float("nan"), {1: 2}, {"b", "a"}, b"x", 10**400):
                writer(odd)


        graph = StateGraph().add_node(node).add_edge(START, "node")
        """,
    )
    done = juncture("run", "odd.py", "--input", "{}", "--stream", "custom")

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} isn't JSON")

    shown = [json.loads(line, parse_constant=refuse)["data"] for line in done.out.splitlines()[:-1]]
    assert shown == [
        "two\nlines",
        "\ud800",
        {"$repr": "nan"},
        {"$pairs": [[1, 2]]},
        {"$set": ["a", "b"]},
        {"$repr": "b'x'"},
        10**400,
    ]
