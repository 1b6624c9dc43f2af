"""The commands that look at threads and after them, in a pipe: `threads`, `history`, `show`, `diff`, `fork`, `prune`, `delete`."""

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from juncture.persistence.codec import Codec
from juncture.persistence.registry import Registry
from juncture.savers.sqlite import SqliteSaver
from tests.cli.conftest import Outcome

Juncture = Callable[..., Outcome]
Write = Callable[[str, str], Path]

KEPT = """
    import operator
    from typing import Annotated, TypedDict

    from juncture import START, StateGraph, interrupt


    class Letter(TypedDict, total=False):
        lines: Annotated[list[str], operator.add]
        approved: bool
        fails: bool


    def draft(state):
        return {"lines": ["Dear Ada,"]}


    def review(state):
        if state.get("fails"):
            raise OSError("no network")
        return {"approved": interrupt("Send it?", key="send"), "lines": ["reviewed"]}


    def sign(state):
        return {"lines": ["Yours, Bob"]}


    graph = StateGraph(Letter).add_node(draft).add_node(review).add_node(sign)
    graph.add_edge(START, "draft").add_edge("draft", "review").add_edge("review", "sign")

    inner = StateGraph(Letter).add_node(review).add_edge(START, "review")
    outer = StateGraph(Letter).add_node("sub", inner).add_edge(START, "sub")
    alone = StateGraph(int).add_node("add", lambda state: state + 1).add_edge(START, "add")
"""
"""A graph that asks before it signs, one that holds it, and one whose state is one value."""

URL = "sqlite:runs.db"
AT = ("--checkpointer", URL)
T = ("--thread", "t", *AT)


@pytest.fixture
def paused(juncture: Juncture, write: Write) -> Juncture:
    """Thread t waits for an answer, in runs.db."""
    write("kept.py", KEPT)
    asked = juncture(
        "run", "kept.py:graph", "--input", "{}", *T, "--config", '{"metadata": {"user": "ada", "try": 2}}'
    )
    assert asked.code == 3
    return juncture


@pytest.fixture
def done(paused: Juncture) -> Juncture:
    """Thread t was answered, and has finished."""
    assert paused("resume", "kept.py:graph", *T, "--answer", "send=true").code == 0
    return paused


def ids(juncture: Juncture, *options: str) -> list[str]:
    """The checkpoints of thread t, the oldest first."""
    listed = juncture("history", "kept.py:graph", *(options or T))
    assert listed.code == 0
    return [line["checkpoint_id"] for line in listed.lines][::-1]


def quiet(outcome: Outcome) -> Outcome:
    """An outcome that was good and needed no word."""
    assert (outcome.code, outcome.err) == (0, "")
    return outcome


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_threads_lists_each_with_how_it_stands(done: Juncture):
    done("run", "kept.py:graph", "--input", "{}", "--thread", "a", *AT)
    done("run", "kept.py:graph", "--input", '{"fails": true}', "--thread", "f", *AT)
    listed = quiet(done("threads", "kept.py:graph", *AT)).lines
    assert [(each["thread_id"], each["status"], each["step"], each["next"]) for each in listed] == [
        ("a", "interrupted", 1, ["review"]),
        ("f", "failed", 1, ["review"]),
        ("t", "completed", 3, []),
    ]
    assert [question["value"] for question in listed[0]["interrupts"]] == ["Send it?"]
    assert set(listed[0]) == {"thread_id", "status", "step", "updated_at", "next", "interrupts", "holder"}


def test_threads_by_status_and_up_to_a_limit(done: Juncture):
    for name in ("a", "b"):
        done("run", "kept.py:graph", "--input", "{}", "--thread", name, *AT)

    def named(*options: str) -> list[str]:
        return [each["thread_id"] for each in quiet(done("threads", "kept.py:graph", *AT, *options)).lines]

    assert named("--status", "interrupted") == ["a", "b"]
    assert named("--status", "interrupted", "--status", "completed", "--limit", "2") == ["a", "b"]
    assert named("--status", "completed", "--limit", "1") == ["t"]
    assert named("--status", "running") == []


def test_more_threads_than_are_asked_for_at_once(done: Juncture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("juncture.cli.threads.AT_ONCE", 2)
    for name in ("a", "b", "c", "z"):
        assert done("fork", "kept.py:graph", *T, "--to", name).code == 0
    listed = done("threads", "kept.py:graph", *AT).lines
    assert [each["thread_id"] for each in listed] == ["a", "b", "c", "t", "z"]


def test_a_thread_that_is_being_run_names_who_runs_it(done: Juncture):
    with closing(SqliteSaver("runs.db")) as saver:
        saver.acquire_lease("t", "another program", "0" * 32, 60.0)
    (listed,) = done("threads", "kept.py:graph", *AT).lines
    assert (listed["status"], listed["holder"]) == ("running", "another program")


# ── history and show ─────────────────────────────────────────────────────────────────────────────────────────


def test_history_goes_from_the_newest_to_the_oldest(done: Juncture):
    listed = quiet(done("history", "kept.py:graph", *T)).lines
    assert [(each["step"], each["source"], each["next"]) for each in listed] == [
        (3, "loop", []),
        (2, "loop", ["sign"]),
        (1, "loop", ["review"]),
        (0, "input", ["draft"]),
    ]
    assert [each["parent_id"] for each in listed] == [*(each["checkpoint_id"] for each in listed[1:]), None]
    assert [each["metadata"] for each in listed] == [
        {},
        {},
        {"user": "ada", "try": 2},
        {"user": "ada", "try": 2},
    ]
    assert "values" not in listed[0]


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        (["--limit", "2"], [3, 2]),
        (["--filter", "source=input"], [0]),
        (["--filter", "step=2"], [2]),
        (["--filter", "user=ada", "--filter", "try=2"], [1, 0]),
        (["--filter", "try=2", "--limit", "1"], [1]),
        (["--filter", 'try="2"'], []),
        (["--filter", "source=2"], []),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_history_is_filtered_by_metadata(options: list[str], steps: list[int], done: Juncture):
    listed = quiet(done("history", "kept.py:graph", *T, *options)).lines
    assert [each["step"] for each in listed] == steps


def test_show_tells_everything_about_the_newest_state(paused: Juncture):
    (shown,) = quiet(paused("show", "kept.py:graph", *T)).lines
    assert (shown["values"], shown["next"]) == ({"lines": ["Dear Ada,"]}, ["review"])
    (question,) = shown["interrupts"]
    assert (question["value"], question["key"], question["node"]) == ("Send it?", "send", "review")
    (task,) = shown["tasks"]
    assert (task["name"], task["interrupts"], task["error"]) == ("review", [question], None)
    assert shown["metadata"]["user"] == "ada"
    assert shown["checkpoint_id"] == ids(paused)[-1]


def test_show_tells_what_a_task_failed_with(juncture: Juncture, write: Write):
    write("kept.py", KEPT)
    juncture("run", "kept.py:graph", "--input", '{"fails": true}', *T)
    (task,) = juncture("show", "kept.py:graph", *T).last["tasks"]
    assert "no network" in task["error"]


def test_show_an_older_state_and_one_key_of_it(done: Juncture):
    old = ids(done)[1]
    assert done("show", "kept.py:graph", *T, "--checkpoint", old).last["values"] == {"lines": ["Dear Ada,"]}
    assert (
        quiet(done("show", "kept.py:graph", *T, "--key", "lines", "--checkpoint", old)).out
        == '["Dear Ada,"]\n'
    )
    assert done("show", "kept.py:graph", *T, "--key", "approved").out == "true\n"


def test_nested_states_are_shown_beneath_their_tasks_and_listed_by_their_namespace(
    juncture: Juncture, write: Write
):
    write("kept.py", KEPT)
    juncture("run", "kept.py:outer", "--input", '{"lines": ["x"]}', *T)
    (task,) = juncture("show", "kept.py:outer", *T).last["tasks"]
    nested = task["state"]
    assert (nested["values"]["lines"], nested["next"]) == (["x"], ["review"])
    assert [each["value"] for each in nested["interrupts"]] == ["Send it?"]
    within = ("--namespace", nested["namespace"])
    alone = juncture("show", "kept.py:outer", *T, *within).last
    assert alone == nested
    assert ids(juncture, *T) != [nested["checkpoint_id"]]
    listed = juncture("history", "kept.py:outer", *T, *within).lines
    assert [each["checkpoint_id"] for each in listed] == [nested["checkpoint_id"]]


def test_a_state_of_one_value(juncture: Juncture, write: Write):
    write("kept.py", KEPT)
    juncture("run", "kept.py:alone", "--input", "1", *T)
    assert juncture("show", "kept.py:alone", *T).last["values"] == 2
    refused = juncture("show", "kept.py:alone", *T, "--key", "x")
    assert (refused.code, refused.out) == (2, "")
    assert "the state is one value" in refused.err


# ── diff ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_diff_between_two_states(done: Juncture):
    first, second, third, last = ids(done)
    assert quiet(done("diff", "kept.py:graph", first, second, *T)).last == {
        "added": {},
        "removed": {},
        "changed": {"lines": [[], ["Dear Ada,"]]},
    }
    assert done("diff", "kept.py:graph", second, *T).last == {
        "added": {"approved": True},
        "removed": {},
        "changed": {"lines": [["Dear Ada,"], ["Dear Ada,", "reviewed", "Yours, Bob"]]},
    }
    back = done("diff", "kept.py:graph", third, second, *T).last
    assert back["removed"] == {"approved": True}
    assert done("diff", "kept.py:graph", last, *T).last == {"added": {}, "removed": {}, "changed": {}}


def test_diff_between_two_threads(done: Juncture):
    assert done("run", "kept.py:graph", "--input", '{"lines": ["x"]}', "--thread", "u", *AT).code == 3
    told = done("diff", "kept.py:graph", ids(done)[-1], *T, "--other-thread", "u").last
    assert told["removed"] == {"approved": True}
    assert told["changed"]["lines"][1] == ["x", "Dear Ada,"]


# ── fork ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_fork_makes_an_old_state_the_newest_and_removes_nothing(done: Juncture):
    before = ids(done)
    forked = done("fork", "kept.py:graph", *T, "--checkpoint", before[1])
    made = forked.last["checkpoint_id"]
    assert (forked.code, forked.last["thread_id"]) == (0, "t")
    assert forked.err == f"To go on: juncture run kept.py:graph --thread t --checkpointer {URL}\n"
    assert ids(done) == [*before, made]
    newest = done("show", "kept.py:graph", *T).last
    assert (newest["checkpoint_id"], newest["parent_id"]) == (made, before[1])
    assert (newest["values"], newest["next"]) == ({"lines": ["Dear Ada,"]}, ["review"])
    assert done("run", "kept.py:graph", *T).code == 3  # it asks again
    again = done("resume", "kept.py:graph", *T, "--answer", "send=false")
    assert (again.code, again.last["values"]["approved"]) == (0, False)


def test_fork_into_a_copy_leaves_the_thread_alone(done: Juncture):
    before = ids(done)
    forked = done("fork", "kept.py:graph", *T, "--checkpoint", before[2], "--to", "u")
    assert (forked.code, forked.last["thread_id"]) == (0, "u")
    assert "--thread u" in forked.err
    gone_on = done("run", "kept.py:graph", "--thread", "u", *AT)
    assert (gone_on.code, gone_on.last["values"]["lines"]) == (0, ["Dear Ada,", "reviewed", "Yours, Bob"])
    assert ids(done) == before


def test_a_copy_of_a_thread_that_waits_waits_too(paused: Juncture):
    copied = paused("fork", "kept.py:graph", *T, "--to", "u")
    assert copied.err == f"To go on: juncture resume kept.py:graph --thread u --checkpointer {URL}\n"
    answered = paused("resume", "kept.py:graph", "--thread", "u", *AT, "--answer", "send=1")
    assert (answered.code, answered.last["values"]["approved"]) == (0, 1)
    assert paused("threads", "kept.py:graph", *AT, "--status", "interrupted").last["thread_id"] == "t"


def test_a_fork_that_is_refused_copies_nothing(done: Juncture):
    for options in (["--checkpoint", "nowhere", "--to", "u"], ["--to", "t"], []):
        refused = done("fork", "kept.py:graph", *T, *options)
        assert (refused.code, refused.out) == (2, ""), options
    assert [each["thread_id"] for each in done("threads", "kept.py:graph", *AT).lines] == ["t"]


# ── prune and delete ─────────────────────────────────────────────────────────────────────────────────────────


def test_prune_keeps_the_newest_which_can_be_gone_on_with(paused: Juncture):
    assert quiet(paused("prune", "kept.py:graph", *T, "--keep", "1", "--yes")).last == {"removed": 1}
    assert len(ids(paused)) == 1
    assert paused("resume", "kept.py:graph", *T, "--answer", "send=true").code == 0


def test_prune_by_age(done: Juncture):
    assert done("prune", "kept.py:graph", *AT, "--older-than", "1.5h", "--yes").last == {"removed": 0}
    both = ("--older-than", "0s", "--keep", "3")  # what either keeps is kept
    assert done("prune", "kept.py:graph", *AT, *both, "--yes").last == {"removed": 1}
    assert done("prune", "kept.py:graph", *AT, "--older-than", "0s", "--yes").last == {"removed": 2}


def test_prune_all_threads_but_those_that_are_run(done: Juncture):
    done("fork", "kept.py:graph", *T, "--to", "u")
    with closing(SqliteSaver("runs.db")) as saver:
        saver.acquire_lease("t", "another program", "0" * 32, 60.0)
    assert done("prune", "kept.py:graph", *AT, "--keep", "1", "--yes").last == {"removed": 3}
    assert len(ids(done)) == 4


@pytest.mark.parametrize("command", [["prune", "--keep", "1"], ["delete"]], ids=["prune", "delete"])
def test_nothing_is_removed_where_nobody_can_be_asked(command: list[str], done: Juncture):
    refused = done(command[0], "kept.py:graph", *T, *command[1:])
    assert (refused.code, refused.out) == (2, "")
    assert "say it with --yes. Nothing was removed" in refused.err
    assert len(ids(done)) == 4


def test_delete_removes_a_thread(done: Juncture):
    done("fork", "kept.py:graph", *T, "--to", "u")
    deleted = done("delete", "kept.py:graph", *T, "--yes")
    assert (deleted.code, deleted.out, deleted.err) == (0, "", "removed thread 't'\n")
    assert [each["thread_id"] for each in done("threads", "kept.py:graph", *AT).lines] == ["u"]


def test_archive_keeps_a_thread_under_another_id(done: Juncture):
    before = ids(done)
    archived = done("archive", "kept.py:graph", *T)
    assert (archived.code, archived.err) == (0, "")
    kept = archived.last["thread_id"]
    assert archived.last == {"thread_id": kept, "from": {"thread_id": "t"}}
    assert kept.startswith("t@")
    assert ids(done, "--thread", kept, *AT) == before
    assert [each["thread_id"] for each in done("threads", "kept.py:graph", *AT).lines] == [kept]


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────

COMMANDS: dict[str, list[str]] = {
    "history": [],
    "show": [],
    "diff": ["x"],
    "fork": ["--to", "new"],
    "resume": [],
    "prune": ["--keep", "1", "--yes"],
    "archive": [],
    "delete": ["--yes"],
}
"""Those that name a thread, with what else they need."""


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_thread(command: str, done: Juncture):
    refused = done(command, "kept.py:graph", *COMMANDS[command], "--thread", "T", *AT)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: there is no thread 'T'. ")
    assert refused.err.endswith(f"\n  List them: juncture threads kept.py:graph --checkpointer {URL}\n")


@pytest.mark.parametrize("command", ["show", "diff", "fork"])
def test_an_unknown_checkpoint_and_one_of_another_thread(command: str, done: Juncture):
    done("run", "kept.py:graph", "--input", "{}", "--thread", "u", *AT)
    foreign = ids(done, "--thread", "u", *AT)[0]
    for named in ("nowhere", foreign):
        refused = done(
            command, "kept.py:graph", *([named] if command == "diff" else ["--checkpoint", named]), *T
        )
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith(f"error: thread 't' has no checkpoint '{named}'. ")
        assert (
            f"\n  List them: juncture history kept.py:graph --thread t --checkpointer {URL}\n" in refused.err
        )


@pytest.mark.parametrize("command", ["fork", "prune", "archive", "delete", "resume"])
def test_a_thread_that_is_in_use(command: str, paused: Juncture):
    options = {"fork": ["--checkpoint", ids(paused)[0]], "resume": ["--answer", "send=true"]}
    with closing(SqliteSaver("runs.db")) as saver:
        saver.acquire_lease("t", "another program", "0" * 32, 60.0)
    refused = paused(command, "kept.py:graph", *options.get(command, COMMANDS[command]), *T)
    assert (refused.code, refused.out) == (2, "")
    assert "thread 't' is in use by another program" in refused.err
    assert len(ids(paused)) == 2


@pytest.mark.parametrize("command", ["threads", "recover", *COMMANDS])
def test_a_graph_without_a_saver(command: str, juncture: Juncture, write: Write):
    write("kept.py", KEPT)
    thread = [] if command in ("threads", "recover") else ["--thread", "t"]
    refused = juncture(command, "kept.py:graph", *COMMANDS.get(command, []), *thread)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        "error: kept.py:graph has no saver, so there are no threads. Give one: --checkpointer URL\n"
    )


@pytest.mark.parametrize("command", ["threads", "recover", *COMMANDS])
@pytest.mark.parametrize("url", ["sqlite:rnus.db", "file:runs", "memory:"])
def test_where_nothing_was_kept_nothing_is_made(
    command: str, url: str, juncture: Juncture, write: Write, folder: Path
):
    write("kept.py", KEPT)
    thread = [] if command in ("threads", "recover") else ["--thread", "t"]
    refused = juncture(command, "kept.py:graph", *COMMANDS.get(command, []), *thread, "--checkpointer", url)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"error: --checkpointer {url}")
    assert [each.name for each in folder.iterdir() if each.suffix not in (".py", "")] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["threads", "--status", "asleep"],
            "--status asleep: no thread ever is. Known: completed, interrupted",
        ),
        (["threads", "--limit", "0"], "Invalid value for '--limit'"),
        (["history", "--thread", "t", "--filter", "source"], "--filter 'source' isn't NAME=VALUE"),
        (["history", "--thread", "t", "--filter", "=3"], "--filter '=3' isn't NAME=VALUE"),
        (["history", "--thread", "t", "--filter", "a=1", "--filter", "a=2"], "names 'a' twice"),
        (["history", "--thread", "t", "--namespace", "sub:1"], "Subgraph sub not found"),
        (["show"], "Missing option '--thread'"),
        (["show", "--thread", ""], "thread_id is empty"),
        (
            ["show", "--thread", "t", "--key", "line"],
            "no value of that name here. Did you mean 'lines'? It has: lines",
        ),
        (["fork", "--thread", "t"], "where to go back to (--checkpoint ID), or where to copy to (--to ID)"),
        (["prune", "--yes"], "what to keep: --keep N, --older-than AGE, or both"),
        (["prune", "--keep", "0", "--yes"], "Invalid value for '--keep'"),
        (["prune", "--older-than", "30", "--yes"], "--older-than '30' isn't a number and a unit"),
        (["prune", "--older-than", "-1d", "--yes"], "--older-than '-1d' isn't a number and a unit"),
        (["prune", "--older-than", f"{10**12}w", "--yes"], "longer than time can be told"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_what_was_typed_wrongly_is_said(arguments: list[str], said: str, done: Juncture):
    refused = done(arguments[0], "kept.py:graph", *arguments[1:], *AT)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert "Traceback" not in refused.err


def test_a_database_that_cannot_be_reached(juncture: Juncture, write: Write):
    write("kept.py", KEPT)
    for command in ("threads", "recover"):
        failed = juncture(command, "kept.py:graph", "--checkpointer", "redis://me:secret@127.0.0.1:1/0")
        assert (failed.code, failed.out) == (1, "")
        assert failed.err.startswith("error: ")
        assert "127.0.0.1" in failed.err
        assert "secret" not in failed.err


def test_a_file_that_is_no_database_of_ours(juncture: Juncture, write: Write, folder: Path):
    write("kept.py", KEPT)
    (folder / "runs.db").write_text("not a database, but long enough to be looked at as one " * 100)
    failed = juncture("threads", "kept.py:graph", *AT)
    assert (failed.code, failed.out) == (1, "")
    assert "runs.db" in failed.err


def put_newest(payload: bytes, **columns: Any) -> None:
    """Puts a checkpoint after the newest of thread t, as another program might have done."""
    with closing(SqliteSaver("runs.db")) as saver:
        loaded = saver.load("t", "", None)
        assert loaded is not None
        lease = saver.acquire_lease("t", "another program", "0" * 32, 60.0)
        made = replace(
            loaded.checkpoint,
            checkpoint_id="f" * 36,
            seq=loaded.head_seq + 1,
            builds_on=(),
            **columns,
        )
        saver.put(made, payload, follows=loaded.head_id, lease=lease)
        saver.release_lease(lease)


def test_a_state_of_a_newer_version(done: Juncture):
    assert done("fork", "kept.py:graph", *T, "--to", "u").code == 0
    put_newest(b"", header=Codec(Registry()).encode({"v": 99}))
    for command in ("history", "show"):
        failed = done(command, "kept.py:graph", *T)
        assert (failed.code, failed.out) == (1, ""), command
        assert "version 99 of the checkpoint format" in failed.err
        assert failed.err.count("thread 't'") == 1
    listed = done("threads", "kept.py:graph", *AT).lines
    assert [(each["thread_id"], each["status"]) for each in listed] == [
        ("t", "unreadable"),
        ("u", "completed"),
    ]


def test_a_dead_run_that_cannot_be_read_does_not_stop_the_others(done: Juncture):
    assert done("run", "kept.py:graph", "--input", "{}", "--thread", "u", *AT).code == 3
    put_newest(b"", header=Codec(Registry()).encode({"v": 99}))
    with closing(SqliteSaver("runs.db")) as saver:
        for thread in "tu":
            saver.acquire_lease(thread, "another program", "1" * 32, 0.0)
    failed = done("recover", "kept.py:graph", *AT)
    assert (failed.code, [each["status"] for each in failed.lines]) == (1, ["failed", None])
    assert "error: thread 't': " in failed.err
    assert "version 99 of the checkpoint format" in failed.err


TYPED = """
    from dataclasses import dataclass
    from typing import TypedDict

    from juncture import START, StateGraph


    @dataclass
    class Point:
        x: int


    class Places(TypedDict, total=False):
        point: Point


    graph = StateGraph(Places).add_node("n", lambda state: {"point": Point(1)}).add_edge(START, "n")
    changed = StateGraph().add_node("n", lambda state: {}).add_edge(START, "n")
"""


def test_a_value_that_cannot_be_read(juncture: Juncture, write: Write):
    write("typed.py", TYPED)
    assert juncture("run", "typed.py:graph", "--input", "{}", *T).code == 0
    failed = juncture("show", "typed.py:changed", *T)
    assert (failed.code, failed.out) == (1, "")
    assert "Point" in failed.err
    assert "in thread 't'" in failed.err
    assert "Traceback" not in failed.err
    assert "Traceback" in juncture("show", "typed.py:changed", *T, "--traceback").err


def test_what_user_code_prints_is_not_among_the_lines(done: Juncture, write: Write):
    write("kept.py", KEPT + "\n    print('importing')\n")
    del sys.modules["kept"]
    listed = done("threads", "kept.py:graph", *AT)
    assert (len(listed.lines), listed.err) == (1, "importing\n")


def test_a_graph_s_own_saver_is_used(juncture: Juncture, write: Write):
    write(
        "own.py",
        KEPT
        + "\n    from juncture.savers.file import FileSaver\n\n    app = graph.compile(FileSaver('threads'))\n",
    )
    assert juncture("run", "own.py:app", "--input", "{}", "--thread", "t").code == 3
    assert juncture("threads", "own.py:app").last["status"] == "interrupted"
    assert juncture("resume", "own.py:app", "--thread", "t", "--answer", "send=true").code == 0


def test_a_graph_from_an_async_factory(done: Juncture, write: Write):
    write("made.py", "from kept import graph\n\n\nasync def make():\n    return graph\n")
    assert len(done("history", "made.py:make", *T).lines) == 4


@pytest.mark.parametrize("where", ["file", "postgres_url", "redis_url"])
def test_every_saver_is_looked_at_alike(
    where: str, request: pytest.FixtureRequest, juncture: Juncture, write: Write
):
    url = "file:threads" if where == "file" else request.getfixturevalue(where)
    write("kept.py", KEPT)
    t = ("--thread", "t", "--checkpointer", url)
    assert juncture("run", "kept.py:graph", "--input", "{}", *t).code == 3
    assert juncture("resume", "kept.py:graph", *t, "--answer", "send=true").code == 0
    history = ids(juncture, *t)
    assert len(history) == 4
    assert quiet(juncture("show", "kept.py:graph", *t, "--key", "approved")).out == "true\n"
    assert juncture("diff", "kept.py:graph", history[0], *t).last["added"] == {"approved": True}
    assert juncture("fork", "kept.py:graph", *t, "--checkpoint", history[2], "--to", "u").code == 0
    assert juncture("prune", "kept.py:graph", *t, "--keep", "1", "--yes").last == {"removed": 3}
    listed = quiet(juncture("threads", "kept.py:graph", "--checkpointer", url)).lines
    assert [(each["thread_id"], each["status"]) for each in listed] == [
        ("t", "completed"),
        ("u", "unfinished"),
    ]
    assert juncture("delete", "kept.py:graph", *t, "--yes").code == 0
    recovered = juncture("recover", "kept.py:graph", "--checkpointer", url)
    assert (recovered.code, recovered.err) == (0, "no run has died\n")
    assert juncture("show", "kept.py:graph", *t).code == 2
