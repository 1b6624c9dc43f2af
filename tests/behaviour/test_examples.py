"""The examples do what they say: in this process on both drivers, as a program in a pipe, and on a terminal."""

import asyncio
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from juncture import Command, Interrupt, RunResult

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))  # where Python finds them when they are run as programs

import agent  # noqa: E402 - found only now
import digest  # noqa: E402 - found only now
import documents  # noqa: E402 - found only now
import orders  # noqa: E402 - found only now

THREAD = {"configurable": {"thread_id": "t"}}
Call = Callable[..., RunResult]


@pytest.fixture(params=["invoke", "ainvoke"])
def call(request: pytest.FixtureRequest) -> Call:
    """Runs a graph with one driver or the other."""

    def invoke(graph: Any, given: Any, config: Any = THREAD, **options: Any) -> RunResult:
        if request.param == "invoke":
            return graph.invoke(given, config, **options)
        return asyncio.run(graph.ainvoke(given, config, **options))

    return invoke


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One document of each format."""
    folder = tmp_path / "papers"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "garden.md").write_text(
        "# Garden\n\nTomatoes and [beans](https://beans.example) climb.\nTomatoes ripen: https://ripe.example\n\n"
        "Watering\n--------\n\n```sh\n# not a heading: water the tomatoes\n```\n\n~~~\n[no link](x)\n~~~\n"
    )
    (folder / "notes.txt").write_text("Sailing, sailing: the harbour at https://harbour.example\n")
    (folder / "deep" / "boat.py").write_text(
        '"""Sails a boat."""\n\n\nclass Boat:\n    """A hull."""\n\n    def sail(self):\n        # rigging\n'
        '        return "not prose"\n'
    )
    (folder / "deep" / "er" / "page.html").write_text(
        "<html><head><style>b { color: red }</style><title>Bread</title></head><body><h1>Bread</h1><h2>Dough</h2>"
        "<p>Knead <a href='x'>dough</a> <a name='here'>well</a>.</p><pre>flour</pre><script>var no;</script></body>"
    )
    return folder


REPORT = """\
# Digest of papers

4 documents, 26 words; 0 not read.

| | document | words | headings | links | code blocks | telling terms |
|--:|---|--:|--:|--:|--:|---|
| 1 | garden.md | 8 | 2 | 2 | 2 | tomatoes, beans, climb, garden, ripen |
| 2 | deep/er/page.html | 7 | 2 | 1 | 1 | bread, dough, flour, knead |
| 3 | deep/boat.py | 6 | 2 | 0 | 0 | boat, hull, rigging, sails |
| 4 | notes.txt | 5 | 0 | 1 | 0 | sailing, harbour |
"""


def job(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "patterns": ["**/*"],
        "out": str(folder.parent / "out" / "digest.md"),
        **more,
    }


def written(folder: Path) -> str | None:
    out = folder.parent / "out" / "digest.md"
    return out.read_text() if out.exists() else None


def pause(call: Call, graph: Any, folder: Path, **options: Any) -> Interrupt:
    """Runs to the question."""
    result = call(graph, job(folder), **options)
    assert result.status == "interrupted"
    (question,) = result.interrupts
    return question


def rows(report: str) -> dict[str, list[str]]:
    """File -> the other cells of its row."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in report.splitlines()
        if " | " in line
    ]
    named = [row[1:] if len(row) > 2 else row for row in cells]
    return {row[0].replace("\\", ""): row[1:] for row in named if row[0] not in {"document", "file"}}


# ── the digest: the graph ────────────────────────────────────────────────────────────────────────────────────


def test_the_report_counts_and_ranks_every_document(call: Call, folder: Path):
    question = pause(call, digest.build(digest.open_saver()), folder)
    assert question.node == "approve"
    assert question.value["report"] == REPORT


def test_an_approved_report_is_written_as_it_was_shown(call: Call, folder: Path):
    graph = digest.build(digest.open_saver())
    question = pause(call, graph, folder)
    assert written(folder) is None
    result = call(graph, Command(resume=True))
    assert (result.status, result["approved"]) == ("completed", True)
    assert written(folder) == question.value["report"]


@pytest.mark.parametrize("answer", [False, "yes", None, 1], ids=repr)
def test_only_true_approves(call: Call, folder: Path, answer: Any):
    graph = digest.build(digest.open_saver())
    pause(call, graph, folder)
    result = call(graph, Command(resume=answer))
    assert (result.status, result["approved"]) == ("completed", False)
    assert written(folder) is None


def test_a_resumed_digest_reads_nothing_again(call: Call, folder: Path):
    graph = digest.build(digest.open_saver())
    question = pause(call, graph, folder)
    for path in folder.rglob("*.*"):
        path.unlink()
    call(graph, Command(resume=True))
    assert written(folder) == question.value["report"]


def test_a_digest_is_the_same_whichever_document_is_read_first(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    last_is_read = threading.Event()

    def count(name: str, path: Path) -> documents.Document:
        if name == "notes.txt":
            last_is_read.set()
        else:
            assert last_is_read.wait(30)
        return documents.count(name, path)

    monkeypatch.setattr(digest, "count", count)
    result = call(digest.build(digest.open_saver()), job(folder))
    assert [document.name for document in result["documents"]] == result["files"]
    assert result["files"] == ["deep/boat.py", "deep/er/page.html", "garden.md", "notes.txt"]
    assert result.interrupts[0].value["report"] == REPORT


def test_one_worker_is_enough(call: Call, folder: Path):
    config = {**THREAD, "max_concurrency": 1}
    assert pause(call, digest.build(digest.open_saver()), folder, config=config).value["report"] == REPORT


def test_a_thread_digests_again_from_none(call: Call, folder: Path):
    graph = digest.build(digest.open_saver())
    pause(call, graph, folder)
    call(graph, Command(resume=False))
    assert pause(call, graph, folder).value["report"] == REPORT


def test_an_empty_folder_asks_nothing(call: Call, tmp_path: Path):
    (tmp_path / "only" / "folders").mkdir(parents=True)
    result = call(digest.build(digest.open_saver()), job(tmp_path / "only"))
    assert (result.status, result.interrupts, result["files"]) == ("completed", (), [])
    assert "report" not in result


def test_what_is_hidden_or_made_by_tools_is_left_out_and_so_is_the_last_report(call: Call, folder: Path):
    for name in [
        ".git/config.md",
        "deep/.secret.md",
        "node_modules/a.md",
        "deep/__pycache__/b.py",
        "digest.md",
    ]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("words words words\n")
    result = call(digest.build(digest.open_saver()), job(folder, out=str(folder / "digest.md")))
    assert result.interrupts[0].value["report"] == REPORT


def test_what_cannot_be_read_is_reported_and_loses_nothing_else(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(documents, "LARGEST", 1_000)
    (folder / "junk.md").write_bytes(bytes(range(256)))
    (folder / "latin.txt").write_bytes("café".encode("latin-1"))
    (folder / "nothing.md").write_bytes(b"")
    (folder / "blank.md").write_bytes("\ufeff \r\n".encode())
    (folder / "huge.txt").write_bytes(b"x " * 501)
    (folder / "broken.py").write_text("def f(:\n  '''never closed\n")
    (folder / "dangling.md").symlink_to("nowhere.md")
    os.mkfifo(folder / "pipe.md")
    (folder / "a|b`c.md").write_bytes(b"")
    (folder / "two\nlines\x1b[2J.md").write_bytes(b"")
    report = pause(call, digest.build(digest.open_saver()), folder).value["report"]
    assert report.splitlines()[:10] == REPORT.replace("0 not read", "10 not read").splitlines()
    unread = {name: cells[0] for name, cells in rows(report).items() if len(cells) == 1}
    assert "multi-line" in unread.pop("broken.py")
    assert unread == {
        "junk.md": "binary",
        "latin.txt": "not UTF-8",
        "nothing.md": "empty",
        "blank.md": "empty",
        "huge.txt": "larger than 1,000 bytes",
        "dangling.md": "not a readable file",
        "pipe.md": "not a readable file",
        "a|b`c.md": "empty",
        "two lines\ufffd[2J.md": "empty",
    }
    assert r"| a\|b\`c.md | empty |" in report


def test_a_parser_that_fails_loses_one_document(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch):
    def of_html(document: documents.Document, text: str) -> tuple[documents.Document, str]:
        raise RuntimeError

    monkeypatch.setitem(documents.FORMATS, ".html", of_html)
    report = pause(call, digest.build(digest.open_saver()), folder).value["report"]
    assert rows(report)["deep/er/page.html"] == ["RuntimeError()"]
    assert len(rows(report)) == 4


def test_nothing_readable_still_makes_a_report(call: Call, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "junk").write_bytes(b"\0")
    report = pause(call, digest.build(digest.open_saver()), tmp_path / "in").value["report"]
    assert "0 documents, 0 words; 1 not read." in report
    assert rows(report) == {"junk": ["binary"]}


def test_terms_of_every_document_tell_less_than_those_of_one(tmp_path: Path):
    shared = {"common": 9}
    one = documents.Document("one", terms={**shared, "apple": 2})
    two = documents.Document("two", terms={**shared, "pear": 3})
    assert documents.by_telling_terms([one, two]) == [(two, ["pear", "common"]), (one, ["apple", "common"])]


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────


def command(example: str, *arguments: object) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLES / example), *map(str, arguments)]


def piped(example: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What a program does without a terminal."""
    return subprocess.run(
        command(example, *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=50,
    )


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.fd, inner = pty.openpty()
        self.program = subprocess.Popen(arguments, stdin=inner, stdout=inner, stderr=inner)
        os.close(inner)
        self.shown = ""

    def read(self) -> bool:
        """Waits for more, and keeps it; false at the end."""
        assert select.select([self.fd], [], [], 50)[0], f"nothing more came after {self.shown!r}"
        try:
            more = os.read(self.fd, 10_000)
        except OSError:  # how Linux tells that nobody has the terminal open any more
            more = b""
        self.shown += more.decode()
        return bool(more)

    def wait_for(self, text: str) -> None:
        """Reads until the text has come after what was waited for before."""
        while text not in self.shown:
            assert self.read(), f"{text!r} never came: {self.shown!r}"
        self.shown = self.shown.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait_for_exit(self) -> int:
        while self.read():
            pass
        return self.program.wait(50)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Starts programs on terminals, and ends them."""
    started: list[Terminal] = []

    def start(example: str, *arguments: object) -> Terminal:
        started.append(Terminal(*command(example, *arguments)))
        return started[-1]

    yield start
    for it in started:
        it.program.kill()
        it.program.wait()
        os.close(it.fd)


# ── the digest: the program ──────────────────────────────────────────────────────────────────────────────────


def test_approved_by_a_flag_it_writes_and_says_where(folder: Path, tmp_path: Path):
    ended = piped("digest.py", folder, "--approve", "--out", tmp_path / "new" / "report.md")
    assert (ended.returncode, ended.stdout) == (0, f"The report is in {tmp_path / 'new' / 'report.md'}.\n")
    assert (tmp_path / "new" / "report.md").read_text() == REPORT


def test_rejected_by_a_flag_it_writes_nothing(folder: Path, tmp_path: Path):
    ended = piped("digest.py", folder, "--reject", "--out", tmp_path / "report.md")
    assert (ended.returncode, ended.stdout) == (4, "Rejected: nothing was written.\n")
    assert not (tmp_path / "report.md").exists()


def test_without_a_terminal_it_pauses_and_says_how_to_approve(folder: Path, tmp_path: Path):
    ended = piped("digest.py", folder, "--out", tmp_path / "report.md")
    assert ended.returncode == 3
    assert "--approve" in ended.stdout
    assert "--reject" in ended.stdout
    assert not (tmp_path / "report.md").exists()


def test_in_a_pipe_progress_is_a_line_a_file(folder: Path, tmp_path: Path):
    (folder / "junk.md").write_bytes(b"\0")
    ended = piped("digest.py", folder, "--approve", "--out", tmp_path / "report.md", "--workers", 2)
    lines = ended.stderr.splitlines()
    assert [line.split()[0] for line in lines] == ["[1/5]", "[2/5]", "[3/5]", "[4/5]", "[5/5]"]
    assert {line.split(maxsplit=1)[1] for line in lines} == {
        "deep/boat.py",
        "deep/er/page.html",
        "garden.md",
        "junk.md: binary",
        "notes.txt",
    }


def test_paths_are_relative_to_where_it_is_run(folder: Path, tmp_path: Path):
    assert piped("digest.py", "papers", "--approve", "--out", "report.md", cwd=tmp_path).returncode == 0
    assert (tmp_path / "report.md").read_text() == REPORT


def test_names_that_cannot_be_shown_are_read_and_shown_with_a_placeholder(tmp_path: Path):
    odd = os.fsdecode(b"caf\xe9")
    (tmp_path / odd).mkdir()
    (tmp_path / odd / f"{odd}.md").write_text("tomatoes\n")
    ended = piped("digest.py", odd, "--approve", "--out", f"{odd}/out.md", "--thread", odd, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "[1/1] caf\ufffd.md\n")
    assert ended.stdout == f"The report is in {tmp_path}/caf\ufffd/out.md.\n"
    report = (tmp_path / odd / "out.md").read_text()
    assert report.startswith("# Digest of caf\ufffd\n")
    assert rows(report) == {"caf\ufffd.md": ["1", "0", "0", "0", "tomatoes"]}


def test_by_default_it_digests_the_project(tmp_path: Path):
    ended = piped("digest.py", "--approve", "--out", tmp_path / "report.md", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    named = rows((tmp_path / "report.md").read_text())
    assert {"CHANGELOG.md", "docs/index.md"} <= named.keys()
    assert not [name for name in named if not re.fullmatch(r"[^/]+\.md|docs/.*", name)]


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path):
    ended = piped("digest.py", tmp_path, "--approve", "--out", tmp_path / "report.md")
    assert (ended.returncode, ended.stdout) == (5, f"There are no files in {tmp_path}.\n")
    assert not (tmp_path / "report.md").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing"], "there is no folder 'missing'"),
        (["file.md"], "there is no folder 'file.md'"),
        ([".", "--out", "."], "--out names a file to write, and '.' is a folder"),
        ([".", "--workers", "0"], "--workers must be at least 1, not 0"),
        ([".", "--workers", "many"], "argument --workers: invalid int value: 'many'"),
        ([".", "--approve", "--reject"], "argument --reject: not allowed with argument --approve"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_named(tmp_path: Path, arguments: list[str], said: str):
    (tmp_path / "file.md").write_text("text")
    ended = piped("digest.py", *arguments, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_a_report_that_cannot_be_written_is_a_failure_without_a_traceback(folder: Path):
    ended = piped("digest.py", folder, "--approve", "--out", folder / "garden.md" / "report.md")
    assert ended.returncode == 1
    assert "The report can't be written" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_thread_that_was_left_at_the_question_is_asked_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    saver = digest.open_saver()
    arguments = [str(folder), "--out", str(tmp_path / "report.md"), "--thread", "mine"]
    assert digest.main(arguments, saver) == digest.PAUSED
    (folder / "garden.md").unlink()
    assert digest.main(arguments, saver) == digest.PAUSED
    assert digest.main([*arguments, "--approve"], saver) == digest.WRITTEN
    assert (tmp_path / "report.md").read_text() == REPORT


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("y\n", 0, "The report is in"),
        ("YES\n", 0, "The report is in"),
        ("n\n", 4, "Rejected: nothing was written."),
        ("\x04", 3, "Paused: the report waits for approval."),
    ],
    ids=["y", "yes", "n", "end of input"],
)
def test_on_a_terminal_it_shows_the_report_and_asks(
    terminal: Callable[..., Terminal], folder: Path, tmp_path: Path, typed: str, code: int, said: str
):
    screen = terminal("digest.py", folder, "--out", tmp_path / "report.md")
    screen.wait_for("\r\x1b[K[1/4] ")
    screen.wait_for("\r\x1b[K[4/4] ")
    screen.wait_for(REPORT.replace("\n", "\r\n"))
    screen.wait_for(f"Write this report to {tmp_path / 'report.md'}? [y/n] ")
    screen.type(typed)
    screen.wait_for(said)
    assert screen.wait_for_exit() == code
    assert (tmp_path / "report.md").exists() == (code == 0)


def test_an_answer_that_is_none_is_asked_for_again(
    terminal: Callable[..., Terminal], folder: Path, tmp_path: Path
):
    screen = terminal("digest.py", folder, "--out", tmp_path / "report.md")
    screen.wait_for("[y/n] ")
    screen.type("maybe\n")
    screen.wait_for("y or n? ")
    assert not (tmp_path / "report.md").exists()
    screen.type("y\n")
    assert screen.wait_for_exit() == 0
    assert (tmp_path / "report.md").read_text() == REPORT


def test_ctrl_c_at_the_question_writes_nothing(
    terminal: Callable[..., Terminal], folder: Path, tmp_path: Path
):
    screen = terminal("digest.py", folder, "--out", tmp_path / "report.md")
    screen.wait_for("[y/n] ")
    screen.program.send_signal(signal.SIGINT)
    screen.wait_for("Stopped: nothing was written.")
    assert screen.wait_for_exit() == 130
    assert not (tmp_path / "report.md").exists()


# ── the agent ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Nothing here\n")
    (tmp_path / "docs" / "b.md").write_text("# Saving\n\nA Checkpoint is a committed state.\n")
    return tmp_path / "docs"


def said(result: RunResult) -> list[tuple[str, str]]:
    return [(message["id"], message["content"]) for message in result["messages"]]


def first() -> dict[str, Any]:
    return {"messages": [agent.Message(id="user-0", role="user", content="?")]}


ANSWERED = [
    ("user-0", "?"),
    ("assistant-0", "I search the docs and work it out."),
    ("answer-to-call-1", "'A Checkpoint is a committed state.' (b.md, line 3)"),
    ("answer-to-call-2", "168"),
    ("assistant-1", "I note it, and work out what a 25th of that is."),
]


@pytest.mark.parametrize(
    ("allowed", "outcome", "notes"), [(True, "kept", ["1,000 steps take 168 ms."]), (False, "refused", [])]
)
def test_the_agent_pauses_for_one_call_and_keeps_the_others(
    call: Call, docs: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool, outcome: str, notes: list[str]
):
    worked_out: list[str] = []

    def calculate(desk: agent.Desk, expression: str) -> str:
        worked_out.append(expression)
        return agent.calculate(desk, expression)

    monkeypatch.setitem(agent.TOOLS, "calculate", calculate)
    graph, desk = agent.build(), agent.Desk(docs)
    paused = call(graph, first(), context=desk)
    assert paused.status == "interrupted"
    assert [(question.node, question.value) for question in paused.interrupts] == [
        ("note", {"question": "May I keep this note: 1,000 steps take 168 ms."})
    ]
    assert said(paused)[: len(ANSWERED)] == ANSWERED
    ended = call(graph, Command(resume=allowed), context=desk)
    assert ended.status == "completed"
    assert said(ended) == [
        *ANSWERED,
        ("answer-to-call-3", outcome),
        ("answer-to-call-4", "6.72"),
        (
            "assistant-2",
            "The docs say: 'A Checkpoint is a committed state.' (b.md, line 3). 1,000 steps take 168 ms; "
            f"a 25th of that is 6.72 ms. The note is {outcome}.",
        ),
    ]
    assert ended.get("notes", []) == notes
    assert worked_out == ["1000 * 168 / 1000", "168 / 25"]


@pytest.mark.parametrize(
    ("name", "args", "answer"),
    [
        ("calculate", {"expression": "-(1 + 2) * 3 - 1 / 4"}, "-9.25"),
        ("calculate", {"expression": "1 / 0"}, "failed: ZeroDivisionError: division by zero"),
        ("calculate", {"expression": "2 ** 9"}, "failed: ValueError: 2 ** 9 is no arithmetic"),
        (
            "calculate",
            {"expression": "__import__('os')"},
            "failed: ValueError: __import__('os') is no arithmetic",
        ),
        ("calculate", {"expression": "'a' * 9"}, "failed: ValueError: 'a' is no arithmetic"),
        ("search", {"word": "saving"}, "'# Saving' (b.md, line 1)"),
        ("search", {"word": "unheard"}, "nothing about 'unheard'"),
        ("dance", {}, "failed: KeyError: 'dance'"),
    ],
    ids=lambda value: next(iter(value.values()), "") if isinstance(value, dict) else None,
)
def test_a_tool_answers_also_when_it_fails(
    call: Call, docs: Path, name: str, args: dict[str, str], answer: str
):
    def model(state: agent.Talk) -> dict[str, Any]:
        said = agent.Message(id=f"m{len(state['messages'])}", role="assistant", content="")
        if len(state["messages"]) == 1:
            said["tool_calls"] = [agent.Call(id="c", name=name, args=args)]
        return {"messages": [said]}

    result = call(agent.build(model), first(), context=agent.Desk(docs))
    assert result.status == "completed"
    assert said(result) == [("user-0", "?"), ("m1", ""), ("answer-to-c", answer), ("m3", "")]


def test_several_risky_calls_ask_at_once_and_each_gets_its_answer(call: Call, docs: Path):
    def model(state: agent.Talk) -> dict[str, Any]:
        said = agent.Message(id=f"m{len(state['messages'])}", role="assistant", content="")
        if len(state["messages"]) == 1:
            said["tool_calls"] = [agent.Call(id=text, name="note", args={"text": text}) for text in "abc"]
        return {"messages": [said]}

    graph = agent.build(model)
    paused = call(graph, first(), context=agent.Desk(docs))
    a, b, c = paused.interrupts
    assert [question.value["question"][-1] for question in (a, b, c)] == ["a", "b", "c"]
    still = call(graph, Command(resume={c.id: True, a.id: False}), context=agent.Desk(docs))
    assert still.interrupts == (b,)
    ended = call(graph, Command(resume={b.id: True}), context=agent.Desk(docs))
    assert ended["notes"] == ["b", "c"]


TALK = """\
     user: What do the docs say about checkpoints? How long do 1,000 steps of 168 µs take? Keep a note of that.
assistant: I search the docs and work it out.
           search(word='checkpoint')
           calculate(expression='1000 * 168 / 1000')
     tool: 'A Checkpoint is a committed state.' (b.md, line 3)
     tool: 168
assistant: I note it, and work out what a 25th of that is.
           note(text='1,000 steps take 168 ms.')
           calculate(expression='168 / 25')
     tool: 6.72
"""


@pytest.mark.parametrize(("flag", "outcome"), [("--approve", "kept"), ("--reject", "refused")])
def test_the_conversation_is_printed(docs: Path, flag: str, outcome: str):
    ended = piped("agent.py", "--docs", docs, flag)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == TALK + (
        f"     tool: {outcome}\n"
        "assistant: The docs say: 'A Checkpoint is a committed state.' (b.md, line 3). 1,000 steps take 168 ms; "
        f"a 25th of that is 6.72 ms. The note is {outcome}.\n"
    )


def test_without_a_terminal_the_agent_pauses(docs: Path):
    ended = piped("agent.py", "--docs", docs)
    assert ended.returncode == 3
    assert ended.stdout.startswith(TALK + "Paused: ")


def test_the_agent_names_a_folder_that_is_not_there(tmp_path: Path):
    ended = piped("agent.py", "--docs", tmp_path / "missing")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"there is no folder '{tmp_path / 'missing'}'" in ended.stderr


@pytest.mark.parametrize(("typed", "outcome"), [("y\n", "kept"), ("n\n", "refused")])
def test_on_a_terminal_the_agent_asks(
    terminal: Callable[..., Terminal], docs: Path, typed: str, outcome: str
):
    screen = terminal("agent.py", "--docs", docs)
    screen.wait_for(TALK.replace("\n", "\r\n"))
    screen.wait_for("May I keep this note: 1,000 steps take 168 ms. [y/n] ")
    screen.type(typed)
    screen.wait_for(f"     tool: {outcome}\r\n")
    assert screen.wait_for_exit() == 0


def test_orders_are_charged_once_over_a_restart(tmp_path, monkeypatch, capsys):
    """The question is left open by one process and answered in another; nothing is looked up or charged twice."""
    orders.looked_up.clear()
    orders.charged.clear()
    with orders.entrypoint(f"sqlite:{tmp_path / 'orders.db'}", name="buy")(orders.buy.function) as shop:
        paused = shop.invoke(orders.Order("tea", 2), thread_id="1")
        assert paused.interrupts[0].value == {"charge": 18, "for": "tea"}
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\ny\n"))
    for count in (1, 2):
        assert orders.main(["tea", "2", "--db", str(tmp_path / "orders.db")]) == 0
        receipt = orders.Receipt(orders.Order("tea", 2), 18, f"payment {count}", count)
        assert capsys.readouterr().out == f"{receipt}\n"
    assert sorted(orders.looked_up) == ["price of tea"] * 2 + ["stock of tea"] * 2
    assert len(set(orders.charged)) == 2
