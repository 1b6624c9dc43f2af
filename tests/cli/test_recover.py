"""`juncture recover` after processes that were really killed, and under signals of its own."""

import json
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from juncture.savers.sqlite import SqliteSaver
from tests.cli.conftest import Outcome

Juncture = Callable[..., Outcome]
Write = Callable[[str, str], Path]
Start = Callable[..., subprocess.Popen[str]]
Kill = Callable[..., None]

MORTAL = """
    import asyncio
    import operator
    import sys
    from pathlib import Path
    from typing import Annotated, TypedDict

    from juncture import START, StateGraph, interrupt


    class Lives(TypedDict, total=False):
        ran: Annotated[list[str], operator.add]
        then: str
        answer: bool


    def before(state):
        return {"ran": ["before"]}


    async def node(state, runtime):
        thread = runtime.execution_info.thread_id
        if not Path(f"go-{thread}").exists():
            print("working", flush=True)
            await asyncio.Event().wait()
        match state.get("then"):
            case "tell":
                return {"ran": [runtime.context["who"], runtime.config["configurable"]["tag"]]}
            case "fail":
                raise OSError("no network")
            case "leave":
                sys.exit(0)
            case "ask":
                return {"answer": interrupt("go on?", key="on"), "ran": ["node"]}
        return {"ran": ["node"]}


    graph = StateGraph(Lives, context_schema=dict).add_node(before).add_node(node)
    graph.add_edge(START, "before").add_edge("before", "node")
"""
"""A graph that waits in its second node until a file says that its thread may go on."""

AT = ("mortal.py:graph", "--checkpointer", "sqlite:runs.db")


@pytest.fixture
def killed(start: Start, write: Write) -> Kill:
    """Runs threads, and kills each process in the second node."""
    write("mortal.py", MORTAL)

    def kill(*threads: str, then: str = "") -> None:
        given = json.dumps({"then": then})
        children = [start("run", *AT, "--thread", thread, "--input", given) for thread in threads]
        for child in children:
            until_working(child)
            child.kill()
            child.wait()

    return kill


def until_working(child: subprocess.Popen[str]) -> None:
    """Waits until a node of the process is at work."""
    assert child.stderr is not None
    assert child.stderr.readline() == "working\n"


def go(*threads: str) -> None:
    """Lets threads go on from now on."""
    for thread in threads:
        Path(f"go-{thread}").touch()


def statuses(juncture: Juncture) -> dict[str, str]:
    return {each["thread_id"]: each["status"] for each in juncture("threads", *AT).lines}


def test_a_killed_run_is_finished_and_nothing_of_it_runs_twice(killed: Kill, juncture: Juncture):
    killed("t")
    assert statuses(juncture) == {"t": "dead"}
    go("t")
    done = juncture("recover", *AT)
    assert (done.code, done.err) == (0, "")
    (line,) = done.lines
    assert (line["thread_id"], line["status"], line["values"]["ran"]) == (
        "t",
        "completed",
        ["before", "node"],
    )
    assert line["checkpoint"]["thread_id"] == "t"
    again = juncture("recover", *AT)
    assert (again.code, again.out, again.err) == (0, "", "no run has died\n")


def test_a_failure_does_not_stop_the_others_and_is_told_by_the_code(killed: Kill, juncture: Juncture):
    killed("a", then="fail")
    killed("b", then="leave")
    killed("c", then="ask")
    killed("d")
    go("a", "b", "c", "d")
    done = juncture("recover", *AT)
    assert done.code == 1
    assert [(line["thread_id"], line["status"]) for line in done.lines] == [
        ("a", "failed"),
        ("b", "failed"),
        ("c", "interrupted"),
        ("d", "completed"),
    ]
    assert done.lines[0]["error"]["node"] == "node"
    assert "error: thread 'a': node 'node' failed in step 2: OSError: no network\n" in done.err
    assert "To go on: juncture run mortal.py:graph --thread a --checkpointer sqlite:runs.db\n" in done.err
    assert "error: thread 'b': " in done.err
    assert "it called exit(0)" in done.err
    assert "thread 'c': paused: node 'node' asks 'go on?' (key 'on', id " in done.err
    assert "To answer: juncture resume mortal.py:graph --thread c --checkpointer sqlite:runs.db\n" in done.err
    assert "Traceback" not in done.err
    assert juncture("resume", *AT, "--thread", "c", "--answer", "on=true").last["values"]["ran"] == [
        "before",
        "node",
    ]


def test_the_traceback_is_shown_when_asked_for(killed: Kill, juncture: Juncture):
    killed("a", then="fail")
    go("a")
    assert "Traceback" in juncture("recover", *AT, "--traceback").err


def test_config_and_context_reach_the_nodes(killed: Kill, juncture: Juncture):
    killed("a", then="tell")
    go("a")
    options = ("--context", '{"who": "Ada"}', "--config", '{"configurable": {"tag": "x"}}')
    assert juncture("recover", *AT, *options).last["values"]["ran"] == ["before", "Ada", "x"]


def test_only_the_threads_that_were_named(killed: Kill, juncture: Juncture):
    killed("a", "b")
    go("a", "b")
    done = juncture("recover", *AT, "--thread", "b", "--thread", "x")
    assert (done.code, [line["thread_id"] for line in done.lines]) == (0, ["b"])
    assert done.err == "thread 'x': no run of it has died\n"
    assert statuses(juncture) == {"a": "dead", "b": "completed"}


def test_ctrl_c_stops_it_in_a_state_that_can_be_gone_on_with(killed: Kill, juncture: Juncture, start: Start):
    killed("a", "b", "c")
    go("a")
    recovering = start("recover", *AT)
    until_working(recovering)
    recovering.send_signal(signal.SIGINT)
    out, err = recovering.communicate()
    assert recovering.returncode == 130
    assert [json.loads(line)["thread_id"] for line in out.splitlines()] == ["a"]
    assert err == (
        "stopped in thread 'b': what was committed stays. To go on: juncture run mortal.py:graph --thread b "
        "--checkpointer sqlite:runs.db\n"
        "1 thread wasn't begun. To go on with the rest: juncture recover mortal.py:graph --checkpointer sqlite:runs.db\n"
    )
    assert statuses(juncture) == {"a": "completed", "b": "unfinished", "c": "dead"}
    go("b", "c")
    assert juncture("run", *AT, "--thread", "b").last["values"]["ran"] == ["before", "node"]
    assert [line["thread_id"] for line in juncture("recover", *AT).lines] == ["c"]


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_what_recovers_may_die_too(by: signal.Signals, killed: Kill, juncture: Juncture, start: Start):
    killed("a")
    recovering = start("recover", *AT)
    until_working(recovering)
    recovering.send_signal(by)
    assert recovering.wait() == -by
    go("a")
    assert juncture("recover", *AT).last["values"]["ran"] == ["before", "node"]


def test_each_thread_is_taken_by_one(killed: Kill, juncture: Juncture, start: Start):
    killed("a", "b")
    first = start("recover", *AT)
    until_working(first)
    go("b")
    second = juncture("recover", *AT)
    assert (second.code, [line["thread_id"] for line in second.lines]) == (0, ["b"])
    assert statuses(juncture) == {"a": "running", "b": "completed"}
    first.kill()


def test_a_run_that_had_nothing_left_to_do_gives_its_thread_back(killed: Kill, juncture: Juncture):
    killed("a")
    go("a")
    assert juncture("recover", *AT).code == 0
    with closing(SqliteSaver("runs.db")) as saver:
        saver.acquire_lease("a", "another program", "0" * 32, 0.0)
    assert statuses(juncture) == {"a": "dead"}
    done = juncture("recover", *AT)
    assert (done.code, done.lines) == (0, [{"status": None, "thread_id": "a"}])
    assert statuses(juncture) == {"a": "completed"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--config", '{"configurable": {"thread_id": "a"}}'], "--config names a thread"),
        (["--config", '{"limit": 1}'], "config has the unknown entry 'limit'"),
        (["--context", "[]"], "--context is a JSON object"),
    ],
    ids=["thread", "entry", "context"],
)
def test_wrong_options_touch_no_thread(options: list[str], said: str, killed: Kill, juncture: Juncture):
    killed("a")
    refused = juncture("recover", *AT, *options)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert statuses(juncture) == {"a": "dead"}
