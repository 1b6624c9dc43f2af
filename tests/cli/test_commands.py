"""The command as a process of its own: started in each way, without its extra, in a pipe that closes, under Ctrl-C.

Whatever has to happen first is waited for as an event: a line that a node printed, or a named pipe that it opened.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str], Path]
Start = Callable[..., subprocess.Popen[str]]

TEXTS = '{"texts": ["to be or not", "that"]}'


@pytest.mark.parametrize(
    "command",
    [[sys.executable, "-m", "juncture"], [str(Path(sys.executable).with_name("juncture"))]],
    ids=["module", "script"],
)
def test_it_is_a_command_and_a_module(command: list[str], flow: Path):
    done = subprocess.run(
        [*command, "run", "flow.py:graph", "--input", "-"],
        check=False,
        input=TEXTS,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[-1])["values"]["total"] == 5


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_one_line_says_what_to_install(package: str, folder: Path):
    program = f"import sys; sys.modules[{package!r}] = None; from juncture.cli import main; sys.exit(main(['run', 'x']))"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "pip install 'juncture[cli]'" in line
    assert f"needs {package}," in line


def test_the_extra_is_loaded_only_to_run_a_command():
    program = "import sys, juncture, juncture.cli; print(*{'typer', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"\n"


# ── a pipe ───────────────────────────────────────────────────────────────────────────────────────────────────

GATED = """
    from pathlib import Path

    from juncture import START, StateGraph


    def first(state, writer):
        writer("begun")
        Path("gate").read_text()
        return {"a": 1}


    graph = StateGraph().add_node(first).add_edge(START, "first")
"""


def test_a_line_is_written_when_it_happens(start: Start, write: Write, folder: Path):
    write("gated.py", GATED)
    os.mkfifo("gate")
    child = start("run", "gated.py", "--input", "{}")
    assert child.stdout is not None
    assert json.loads(child.stdout.readline())["data"] == "begun"
    assert child.poll() is None
    (folder / "gate").write_text("")
    out, err = child.communicate()
    assert (child.returncode, err, json.loads(out.splitlines()[-1])["values"]) == (0, "", {"a": 1})


ONE_NODE = """
    from juncture import START, StateGraph

    graph = StateGraph().add_node("only", lambda state: {"x": 1}).add_edge(START, "only")
"""


def test_a_reader_that_was_never_there_ends_a_short_run_quietly(folder: Path, write: Write):
    write("one.py", ONE_NODE)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "juncture", "run", "one.py", "--input", "{}"],
            stdout=gone,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_output_that_cannot_be_written_is_said_after_a_short_run(folder: Path, write: Write):
    write("one.py", ONE_NODE)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "juncture", "run", "one.py", "--input", "{}"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        b"error: standard output can't be written: No space left on device\n",
    )


@pytest.mark.parametrize("node", ["anode", "node", "looping"])
def test_a_reader_that_has_enough_ends_the_run_quietly(node: str, start: Start, write: Write):
    write(
        "endless.py",
        """
        import asyncio

        from juncture import END, START, StateGraph


        async def anode(state, writer):
            while True:
                writer("again")
                await asyncio.sleep(0)


        def node(state, writer):
            while True:
                writer("again")


        def count(state):
            return {"n": state.get("n", 0) + 1}


        def one(action):
            return StateGraph().add_node(action).add_edge(START, action.__name__)


        anode, node = one(anode), one(node)
        looping = one(count).add_conditional_edges("count", lambda state: "count", ["count", END])
        """,
    )
    child = start("run", f"endless.py:{node}", "--input", "{}", "--config", '{"recursion_limit": 1000000000}')
    assert child.stdout is not None
    assert child.stdout.readline().startswith('{"seq": 0, ')
    child.stdout.close()
    assert child.stderr is not None
    assert child.stderr.read() == ""
    assert child.wait() == 141


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of shell in which `juncture` is the command."""
    line = f'juncture() {{ {sys.executable} -m juncture "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True)


def test_a_full_disk_is_no_failure_of_the_graph(flow: Path):
    done = shell(f"juncture run flow.py --input '{TEXTS}' > /dev/full")
    assert done.stderr == "error: standard output can't be written: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"], ids=["out", "err", "both"])
def test_closed_outputs_change_nothing_else(closed: str, flow: Path):
    done = shell(f"juncture run flow.py --input '{TEXTS}' {closed}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_input_is_said(flow: Path):
    done = shell("juncture run flow.py --input - <&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: --input - reads standard input, which is closed" in done.stderr


def test_what_compiling_warns_of_is_said_without_a_line_of_ours(write: Write):
    write(
        "lost.py",
        """
        from juncture import START, StateGraph


        def one(state):
            return {"a": 1}


        graph = StateGraph().add_node(one).add_node("lost", one).add_edge(START, "one")
        """,
    )
    ran = shell("juncture run lost.py --input '{}'")
    assert ran.returncode == 0
    (line,) = ran.stderr.splitlines()
    assert line.startswith("warning: graph 'graph': node 'lost': no way leads to it. ")
    checked = shell("juncture check lost.py")
    assert (checked.returncode, checked.stderr) == (1, "lost.py:graph: 1 warning\n")


# ── Ctrl-C ───────────────────────────────────────────────────────────────────────────────────────────────────

STUCK = """
    import asyncio
    from pathlib import Path

    from juncture import START, StateGraph


    def node(state):
        print("working", flush=True)
        Path("gate").read_text()


    async def anode(state):
        print("working", flush=True)
        await asyncio.Event().wait()


    async def stubborn(state):
        print("working", flush=True)
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                print("not yet", flush=True)


    def before(state):
        return {"done": ["before"]}


    def then(action):
        graph = StateGraph().add_node(before).add_node(action)
        return graph.add_edge(START, "before").add_edge("before", action.__name__)


    blocked, waiting, hard = then(node), then(anode), then(stubborn)
"""


FIRST = "the running step is finished first; Ctrl-C again stops it now"
"""What the first Ctrl-C is answered with."""


def interrupted(child: subprocess.Popen[str], *lines: str) -> tuple[str, str]:
    """Sends Ctrl-C after each of the lines; the rest of both outputs."""
    assert child.stderr is not None
    for line in lines:
        assert child.stderr.readline() == f"{line}\n"
        child.send_signal(signal.SIGINT)
    return child.communicate()


@pytest.mark.parametrize("name", ["blocked", "waiting"])
def test_ctrl_c_stops_a_run_and_keeps_what_was_committed(name: str, start: Start, write: Write):
    write("stuck.py", STUCK)
    os.mkfifo("gate")
    child = start("run", f"stuck.py:{name}", "--input", "{}", "--checkpointer", "memory:", "--thread", "t")
    out, err = interrupted(child, "working", FIRST)
    assert child.returncode == 130
    last = json.loads(out.splitlines()[-1])
    assert (last["status"], last["values"], last["thread_id"]) == ("cancelled", {"done": ["before"]}, "t")
    assert err.startswith("stopped: what was committed stays. ")
    assert "Traceback" not in err


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_the_first_lets_the_running_step_end(sent: signal.Signals, start: Start, write: Write):
    write(
        "stuck.py",
        STUCK.replace(
            "blocked, waiting, hard = ", "gated = then(node).add_node('end', before)\n    "
        ).replace("then(node), then(anode), then(stubborn)", "gated.add_edge('node', 'end')"),
    )
    os.mkfifo("gate")
    child = start("run", "stuck.py:gated", "--input", "{}", "--checkpointer", "memory:", "--thread", "t")
    assert child.stderr is not None
    assert child.stderr.readline() == "working\n"
    child.send_signal(sent)
    assert child.stderr.readline() == f"{FIRST}\n"
    Path("gate").write_text("go on", encoding="utf-8")
    out, _ = child.communicate()
    assert child.returncode == 5
    last = json.loads(out.splitlines()[-1])
    assert (last["status"], last["values"]) == ("drained", {"done": ["before"]})
    assert "end" not in {json.loads(line).get("node") for line in out.splitlines()}


def test_one_that_refuses_to_be_cancelled_is_not_waited_for(start: Start, write: Write):
    write("stuck.py", STUCK)
    child = start("run", "stuck.py:hard", "--input", "{}")
    out, err = interrupted(child, "working", FIRST, "not yet")
    assert err == "stopped at once\n"
    assert [json.loads(line)["node"] for line in out.splitlines()] == ["before"]
    assert child.returncode == 130


def test_ctrl_c_while_a_file_is_imported(start: Start, write: Write):
    write("slow.py", "from pathlib import Path\nprint('importing', flush=True)\nPath('gate').read_text()\n")
    os.mkfifo("gate")
    child = start("run", "slow.py", "--input", "{}")
    assert interrupted(child, "importing") == ("", "stopped\n")
    assert child.returncode == 130


KEPT = """
    import asyncio
    from pathlib import Path

    from juncture import START, StateGraph


    def before(state):
        return {"ran": [*state.get("ran", ()), "before"]}


    async def node(state):
        if not Path("go").exists():
            print("working", flush=True)
            await asyncio.Event().wait()
        return {"ran": [*state["ran"], "node"]}


    graph = StateGraph().add_node(before).add_node(node).add_edge(START, "before").add_edge("before", "node")
"""


SAVED = ["--thread", "t", "--checkpointer", "sqlite:runs.db"]
GO_ON = " ".join(["juncture run kept.py:graph", *SAVED])


def test_a_thread_that_another_run_has_is_refused(start: Start, write: Write):
    write("kept.py", KEPT)
    first = start("run", "kept.py:graph", *SAVED, "--input", "{}")
    assert first.stderr is not None
    assert first.stderr.readline() == "working\n"
    second = shell(f"{GO_ON} --input '{{}}'")
    assert (second.returncode, second.stdout) == (2, "")
    assert "'t'" in second.stderr
    first.send_signal(signal.SIGINT)
    assert first.stderr.readline() == f"{FIRST}\n"
    first.send_signal(signal.SIGINT)
    first.communicate()
    assert first.returncode == 130


def test_a_thread_that_ctrl_c_stopped_goes_on(start: Start, write: Write, folder: Path):
    write("kept.py", KEPT)
    stopped = start("run", "kept.py:graph", *SAVED, "--input", "{}")
    _, err = interrupted(stopped, "working", FIRST)
    assert stopped.returncode == 130
    assert err.endswith(f"To go on: {GO_ON}\n")
    (folder / "go").touch()
    done = shell(GO_ON)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[-1])["values"] == {"ran": ["before", "node"]}
