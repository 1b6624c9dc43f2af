"""What users give as ids, names, filters and values is data to every saver, whatever stands in it (right-behaviour 35).

Everything goes through the graph API. The savers' own tests look at what stands on the disk or in the database.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from juncture import END, START, Command, InMemorySaver, StateGraph, interrupt
from juncture.errors import CheckpointNotFoundError, ConfigError, GraphBuildError
from juncture.savers import FileSaver, PostgresSaver, RedisSaver, SqliteSaver

pytestmark = pytest.mark.timeout(120)
SAVERS = {
    "memory": (None, lambda _: InMemorySaver()),
    "sqlite": ("tmp_path", lambda folder: SqliteSaver(folder / "runs.db")),
    "file": ("tmp_path", lambda folder: FileSaver(folder / "runs")),
    "postgres": ("postgres_url", PostgresSaver),
    "redis": ("redis_url", RedisSaver),
}
TEXTS = [
    *(
        "acme",
        "acme-corp",
        "ACME",
        "acme ",
        " acme",
        "acme%",
        "acme_",
        "a*",
        "a?me",
        "[a-z]*",
        "{acme}",
        "acme|x:1",
    ),
    *(
        "'",
        "''",
        '"',
        "'; DROP TABLE juncture_checkpoint; --",
        "x' OR '1'='1",
        "$1",
        "%s",
        "%(thread)s",
        ":thread",
        "?",
    ),
    *(
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "~",
        "C:\\x",
        "nul",
        "con.txt",
        "-rf",
        "$(id)",
        "`id`",
    ),
    *("\t", "\n", "a\nb", "a\rb", "\x01\x1f", "\x7f", "\x85", "\u2028", "\u202egpj", "\ufeff", "\x1b[31mred"),
    *("é", "e\u0301", "\u0130", "\u0131", "ß", "ss", "日本", "🎉", "\U0010ffff", "\ufffd"),
    *("null", "None", "true", "0", "00", "1e3", "{}", "[]", '{"$gt": ""}', "__start__", "\\x00", "\\", "\\'"),
]


class State(TypedDict):
    log: Annotated[list[Any], operator.add]


@pytest.fixture(params=list(SAVERS))
def saver(request):
    """A new saver of every kind."""
    fixture, make = SAVERS[request.param]
    made = make(None if fixture is None else request.getfixturevalue(fixture))
    yield made
    made.close()


def asking(saver: Any = None) -> Any:
    """A graph that notes what it is given, and asks about it."""

    def ask(state: State) -> dict[str, Any]:
        return {"log": [interrupt(state["log"][-1])]}

    graph = StateGraph(State)
    graph.add_node("pass on", lambda state: {"log": []})
    graph.add_node("ask", ask)
    graph.add_edge(START, "pass on")
    graph.add_edge("pass on", "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


def test_a_thread_id_is_only_ever_itself(saver):
    graph = asking(saver)
    for text in TEXTS:
        graph.invoke({"log": [text]}, thread_id=text)
    assert [one.thread_id for one in graph.get_threads()] == sorted(TEXTS)
    for text in TEXTS:
        snapshot = graph.get_state(text)
        assert snapshot.values == {"log": [text]}
        assert [question.value for question in snapshot.interrupts] == [text]
        assert len(list(graph.get_state_history(text))) == 2
    for place in range(0, len(TEXTS), 7):  # those are gone, and nothing else
        graph.delete_thread(TEXTS[place])
    left = [text for place, text in enumerate(TEXTS) if place % 7]
    assert [one.thread_id for one in graph.get_threads()] == sorted(left)
    assert [one.thread_id for one in graph.get_threads(after="acme", limit=3)] == [
        text for text in sorted(left) if text > "acme"
    ][:3]
    for text in left[::5]:
        graph.copy_thread(text, f"copy of {text}")
        graph.prune(text, keep=1)
        assert graph.get_state(f"copy of {text}").values == {"log": [text]}
        assert len(list(graph.get_state_history(f"copy of {text}"))) == 2
        assert len(list(graph.get_state_history(text))) == 1


@pytest.mark.parametrize(
    "text", ["\x00", "a\x00b", "\ud800", "x" * 100_000], ids=["nul", "nul-inside", "half", "long"]
)
def test_a_thread_id_that_a_saver_cannot_keep_is_refused_and_never_altered(saver, text):
    graph = asking(saver)
    graph.invoke({"log": ["other"]}, thread_id="a")
    try:
        graph.invoke({"log": ["hostile"]}, thread_id=text)
    except ConfigError:
        kept = ["a"]
    else:
        kept = sorted(["a", text])
        assert graph.get_state(text).values == {"log": ["hostile"]}
    assert [one.thread_id for one in graph.get_threads()] == kept
    assert graph.get_state("a").values == {"log": ["other"]}
    assert saver.leases() == []


def test_a_checkpoint_id_or_namespace_that_is_made_up_finds_nothing(saver):
    graph = asking(saver)
    graph.invoke({"log": ["x"]}, thread_id="t")
    for text in TEXTS:
        with pytest.raises((CheckpointNotFoundError, ConfigError)):
            graph.get_state({"configurable": {"thread_id": "t", "checkpoint_id": text}})
        with pytest.raises((CheckpointNotFoundError, ConfigError)):
            graph.invoke(None, {"configurable": {"thread_id": "t", "checkpoint_id": text}})
        where = {"configurable": {"thread_id": "t", "checkpoint_ns": text}}
        try:
            assert graph.get_state(where).values == {}
        except ConfigError:
            continue
        assert list(graph.get_state_history(where)) == []
    assert graph.get_state("t").values == {"log": ["x"]}
    assert saver.leases() == []


def test_the_name_of_a_nested_graph_is_data(saver):
    names, graph = [], StateGraph(State)
    for text in TEXTS:
        try:
            graph.add_node(text, asking())
        except GraphBuildError:
            continue
        graph.add_edge(START, text)
        graph.add_edge(text, END)
        names.append(text)
    assert len(names) > 20
    compiled = graph.compile(checkpointer=saver)
    given = {"log": ["x"]}
    paused = compiled.invoke(given, thread_id="t")
    assert len(paused.interrupts) == len(names)
    assert {task.name for task in compiled.get_state("t").tasks} == set(names)
    for task in compiled.get_state("t", subgraphs=True).tasks:
        assert task.state.values == given
    answers = {question.id: question.namespace[0].rpartition(":")[0] for question in paused.interrupts}
    done = compiled.invoke(Command(resume=answers), thread_id="t")
    assert sorted(done["log"]) == sorted(["x", *(answers.values())])
    assert set(answers.values()) == set(names)


def test_a_filter_is_compared_and_never_run(saver):
    graph = asking(saver)
    for place, text in enumerate(TEXTS[::8]):
        options = {"configurable": {"thread_id": f"t{place}"}, "metadata": {text: text, "same": 1}}
        graph.invoke({"log": ["x"]}, options)
        own = list(graph.get_state_history(f"t{place}", filter={text: text}))
        assert len(own) == 2
        assert own[0].metadata[text] == text
        for other in TEXTS:
            if other != text:
                assert list(graph.get_state_history(f"t{place}", filter={text: other})) == []
                assert list(graph.get_state_history(f"t{place}", filter={other: text})) == []
        for odd in ({"$gt": 0}, {"$ne": None}, [1], ["same"], {"same": 1}, "1", "1 OR 1=1", "%"):
            assert list(graph.get_state_history(f"t{place}", filter={"same": odd})) == []


def test_values_are_data(saver):
    graph = asking(saver)
    log = [
        *TEXTS,
        "\x00",
        "a\x00b",
        dict.fromkeys(TEXTS, TEXTS),
        b"\x00\xff" * 9,
        float("inf"),
        2**200,
        -(2**70),
    ]
    graph.invoke({"log": log}, thread_id="t")
    assert asking(saver).get_state("t").values == {"log": log}
    assert next(graph.get_state_history("t")).values == {"log": log}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(
    "make", [lambda size: b"\xab" * size, lambda size: "\u00e9" * (size // 2)], ids=["bytes", "text"]
)
def test_a_huge_value_is_stored_once(kind, make, tmp_path):
    size = 50 << 20

    class Huge(TypedDict):
        huge: Any
        turns: Annotated[list[int], operator.add]

    graph = StateGraph(Huge)
    for number in range(4):
        graph.add_node(f"n{number}", lambda state, number=number: {"turns": [number]})
        graph.add_edge(START if number == 0 else f"n{number - 1}", f"n{number}")
    saver = InMemorySaver() if kind == "memory" else SqliteSaver(tmp_path / "runs.db")
    with saver:
        compiled = graph.compile(checkpointer=saver)
        value = make(size)
        compiled.invoke({"huge": value}, thread_id="t")
        history = saver.history("t")
        parts = saver.parts("t", "", ((1, len(history)),))
        payloads = [len(part.payload) for part in parts]
        assert sum(payloads) < size + 10_000
        assert compiled.get_state("t").values == {"huge": value, "turns": [0, 1, 2, 3]}
    if kind == "sqlite":
        assert sum(one.stat().st_size for one in tmp_path.iterdir()) < 1.2 * size
        with SqliteSaver(tmp_path / "runs.db") as again:
            assert graph.compile(checkpointer=again).get_state("t").values["huge"] == value
