"""`juncture resume` in a pipe: what a thread asks, and answers from options."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Juncture = Callable[..., Outcome]
Write = Callable[[str, str], Path]

ASKING = """
    from juncture import START, StateGraph, interrupt


    def first(state):
        return {"a": interrupt("first?", key="one")}


    def second(state):
        return {"b": interrupt({"text": "second?"})}


    def boom(state):
        raise OSError("no network")


    def context(state, runtime):
        return {"who": runtime.context["who"], "ok": interrupt("ok?")}


    def after(state):
        return {"done": True}


    def ask_more(state):
        return {"more": interrupt("more?")}


    def then(action, *others):
        graph = StateGraph().add_node(action).add_edge(START, action.__name__)
        for node in others:
            graph.add_node(node).add_edge(action.__name__, node.__name__)
        return graph


    one = then(first, after)
    both = then(first).add_node(second).add_edge(START, "second")
    more = then(first, ask_more)
    failing = then(first, boom)
    twins = StateGraph().add_node("x", lambda s: {"x": interrupt("x?", key="same")})
    twins.add_node("y", lambda s: {"y": interrupt("y?", key="same")}).add_edge(START, "x").add_edge(START, "y")
    given = StateGraph(context_schema=dict).add_node(context).add_edge(START, "context")
    nested = StateGraph().add_node("sub", both).add_edge(START, "sub")
    paused = then(after).compile("memory:", interrupt_before=["after"])
"""

T = ("--thread", "t", "--checkpointer", "sqlite:runs.db")


@pytest.fixture
def asking(juncture: Juncture, write: Write) -> Callable[..., Outcome]:
    """Runs a graph of asking.py up to its questions."""
    write("asking.py", ASKING)

    def run(name: str) -> Outcome:
        paused = juncture(
            "run",
            f"asking.py:{name}",
            "--input",
            "{}",
            *T,
            *(["--context", '{"who": "x"}'] * (name == "given")),
        )
        assert paused.code == 3
        return paused

    return run


@pytest.mark.parametrize("answer", ["one=true", "=true", "{id}=true", "one=@yes.json"])
def test_a_question_is_answered_by_its_key_its_id_or_as_the_only_one(
    answer: str, asking: Callable[..., Outcome], juncture: Juncture, folder: Path
):
    (folder / "yes.json").write_text("true")
    (question,) = asking("one").last["interrupts"]
    done = juncture("resume", "asking.py:one", *T, "--answer", answer.format(id=question["id"]))
    assert (done.code, done.err) == (0, "")
    assert done.last["values"] == {"a": True, "done": True}
    assert [line["node"] for line in done.lines[:-1]] == ["first", "after"]


def test_an_answer_is_read_from_standard_input(asking: Callable[..., Outcome], juncture: Juncture):
    asking("one")
    done = juncture("resume", "asking.py:one", *T, "--answer", "one=-", stdin='{"x": [1]}')
    assert (done.code, done.last["values"]["a"]) == (0, {"x": [1]})


def test_without_answers_the_questions_are_listed_and_nothing_is_run(
    asking: Callable[..., Outcome], juncture: Juncture
):
    before = asking("both").last
    listed = juncture("resume", "asking.py:both", *T)
    assert listed.code == 3
    assert listed.lines == [before]
    for question in before["interrupts"]:
        assert question["id"] in listed.err
    assert listed.err.endswith(
        "\nTo answer: juncture resume asking.py:both --thread t --checkpointer sqlite:runs.db\n"
    )
    assert (
        juncture("show", "asking.py:both", *T).last["checkpoint_id"] == before["checkpoint"]["checkpoint_id"]
    )


def test_some_questions_may_be_answered_and_the_others_later(
    asking: Callable[..., Outcome], juncture: Juncture
):
    first, second = asking("both").last["interrupts"]
    half = juncture("resume", "asking.py:both", *T, "--answer", f"{second['id']}=2")
    assert (half.code, [each["id"] for each in half.last["interrupts"]]) == (3, [first["id"]])
    done = juncture("resume", "asking.py:both", *T, "--answer", "one=1")
    assert (done.code, done.last["values"]) == (0, {"a": 1, "b": 2})


def test_all_at_once_also_within_a_nested_graph(asking: Callable[..., Outcome], juncture: Juncture):
    asked = {each["node"]: each["id"] for each in asking("nested").last["interrupts"]}
    options = [f"--answer={asked['second']}=[2]", "--answer", "one=null"]
    done = juncture("resume", "asking.py:nested", *T, *options, "--stream", "updates")
    assert (done.code, done.last["values"]) == (0, {"a": None, "b": [2]})


def test_a_further_question_pauses_again(asking: Callable[..., Outcome], juncture: Juncture):
    asking("more")
    again = juncture("resume", "asking.py:more", *T, "--answer", "one=1")
    assert (again.code, [each["value"] for each in again.last["interrupts"]]) == (3, ["more?"])


def test_a_failure_after_the_answer_has_its_code_and_keeps_the_answer(
    asking: Callable[..., Outcome], juncture: Juncture
):
    asking("failing")
    failed = juncture("resume", "asking.py:failing", *T, "--answer", "one=1")
    assert (failed.code, failed.last["error"]["node"], failed.last["values"]) == (1, "boom", {"a": 1})
    assert "To go on: juncture run asking.py:failing --thread t" in failed.err
    refused = juncture("resume", "asking.py:failing", *T)
    assert refused.code == 2
    assert "thread 't' asks nothing" in refused.err
    assert "To go on: juncture run asking.py:failing --thread t" in refused.err


def test_config_and_context_reach_the_nodes(asking: Callable[..., Outcome], juncture: Juncture):
    asking("given")
    options = ("--context", '{"who": "Ada"}', "--answer", "=1")
    assert juncture("resume", "asking.py:given", *T, *options).last["values"] == {"who": "Ada", "ok": 1}


def test_a_pause_before_a_node_asks_nothing_and_goes_on(juncture: Juncture, write: Write):
    write("asking.py", ASKING)
    assert juncture("run", "asking.py:paused", "--input", "{}", *T).code == 3
    done = juncture("resume", "asking.py:paused", *T)
    assert (done.code, done.last["values"]) == (0, {"done": True})


def test_a_thread_that_has_finished_asks_nothing(asking: Callable[..., Outcome], juncture: Juncture):
    asking("one")
    juncture("resume", "asking.py:one", *T, "--answer", "=1")
    for options in ([], ["--answer", "one=1"]):
        refused = juncture("resume", "asking.py:one", *T, *options)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == (
            "error: thread 't' asks nothing, so there is nothing to resume\n"
            "  It has finished. To begin anew: juncture run asking.py:one --thread t --checkpointer sqlite:runs.db "
            "--input JSON\n"
        )


@pytest.mark.parametrize(
    ("graph", "answers", "said"),
    [
        ("one", ["true"], "--answer 'true' isn't ID=JSON"),
        ("one", ["one=yes"], "--answer one=… isn't JSON: line 1, column 1"),
        ("one", ["one=1", "one=2"], "--answer one=… stands twice"),
        (
            "one",
            ["two=1"],
            "--answer two=…: no question is open that it names. Answer by id:\npaused: node 'first' asks",
        ),
        ("one", ["one=1", "=2"], "is answered twice"),
        ("both", ["=1"], "--answer =…: several open questions fit. Answer by id:\n"),
        ("twins", ["same=1"], "--answer same=…: several open questions fit"),
        ("one", ["one=@absent"], "the file 'absent' can't be read"),
        ("both", ["one=-", "x=-"], "can't both be read from standard input"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_answer_that_fits_nothing_is_usage(
    graph: str, answers: list[str], said: str, asking: Callable[..., Outcome], juncture: Juncture
):
    before = asking(graph).last
    refused = juncture("resume", f"asking.py:{graph}", *T, *(f"--answer={each}" for each in answers))
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert juncture("resume", f"asking.py:{graph}", *T).last["interrupts"] == before["interrupts"]
