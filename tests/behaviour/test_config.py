"""Every wrong argument of a call gets an error that names it and what would be right; nothing is run."""

import asyncio
import operator
import uuid
from collections import UserDict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    Command,
    ConfigError,
    EmptyInputError,
    GraphBuildError,
    InvalidUpdateError,
    RoutingError,
    Runtime,
    StateGraph,
    get_config,
)
from tests.behaviour.building import chain, nothing, thread

pytestmark = pytest.mark.timeout(20)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


@pytest.fixture
def ran():
    return []


@pytest.fixture
def graph(ran):
    return chain(State, a=lambda state: ran.append(1))


@pytest.fixture
def kept(ran, saver):
    return chain(State, saver=saver, a=lambda state: ran.append(1))


WAYS = ["invoke", "stream", "batch"]


def call(engine, way, graph, config, given=None, **options) -> None:
    given = {"x": 1} if given is None else given
    if way == "invoke":
        engine.invoke(graph, given, config, **options)
    elif way == "stream":
        engine.stream(graph, given, config, **options)
    else:
        engine.batch(graph, [given], config, **options)


# ── the config ───────────────────────────────────────────────────────────────────────────────────────────────

WRONG: list[tuple[Any, list[str]]] = [
    ({"recursion_limt": 5}, ["recursion_limt", "recursion_limit"]),
    ({"thread_id": "t"}, ["thread_id", "configurable"]),
    ({7: 1}, ["7"]),
    ({"recursion_limit": "5"}, ["recursion_limit", "'5'"]),
    ({"recursion_limit": 5.0}, ["recursion_limit", "5.0"]),
    ({"recursion_limit": None}, ["recursion_limit", "None"]),
    ({"recursion_limit": True}, ["recursion_limit", "True"]),
    ({"recursion_limit": 0}, ["recursion_limit", "at least 1", "0"]),
    ({"recursion_limit": -3}, ["recursion_limit", "at least 1", "-3"]),
    ({"max_concurrency": "2"}, ["max_concurrency", "'2'"]),
    ({"max_concurrency": 0}, ["max_concurrency", "at least 1"]),
    ({"max_concurrency": False}, ["max_concurrency", "False"]),
    ({"configurable": {"max_concurrency": "2"}}, ["max_concurrency", "'2'"]),
    ({"configurable": {"max_concurrency": -1}}, ["max_concurrency", "at least 1"]),
    ({"configurable": ["thread_id", "t"]}, ["configurable", "list"]),
    ({"configurable": "t"}, ["configurable", "str"]),
    ({"configurable": {"thread_id": ""}}, ["thread_id", "empty"]),
    ({"configurable": {"thread_id": True}}, ["thread_id", "bool"]),
    ({"configurable": {"thread_id": ["t"]}}, ["thread_id", "list"]),
    ({"configurable": {"thread_id": {"t": 1}}}, ["thread_id", "dict"]),
    ({"configurable": {"thread_id": b"t"}}, ["thread_id", "bytes"]),
    ({"tags": "one"}, ["tags", "'one'"]),
    ({"tags": [1]}, ["tags", "1"]),
    ({"metadata": ["a"]}, ["metadata", "list"]),
    ({"run_name": 5}, ["run_name", "5"]),
    ({"run_id": ""}, ["run_id"]),
    ({"run_id": 3.5}, ["run_id", "3.5"]),
]
"""A config, and what its error says."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("config", "named"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_entry_is_named(engine, graph, ran, way, config, named):
    with pytest.raises(ConfigError) as caught:
        call(engine, way, graph, config)
    for words in named:
        assert words in str(caught.value)
    assert ran == []


@pytest.mark.parametrize("config", ["thread", 5, [("recursion_limit", 5)], {"a"}], ids=str)
def test_a_config_that_is_no_mapping_is_refused(engine, graph, ran, config):
    with pytest.raises(ConfigError, match=type(config).__name__):
        engine.invoke(graph, {"x": 1}, config)
    assert ran == []


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"configurable": None},
        {"configurable": {}},
        {"configurable": {"mine": 7}},
        {"tags": ["a", "b"], "metadata": {"k": 1}, "run_name": "r", "callbacks": [], "recursion_limit": 1},
        {"max_concurrency": None},
        MappingProxyType({"recursion_limit": 3}),
        UserDict({"recursion_limit": 3}),
    ],
    ids=str,
)
def test_right_ones_are_taken(engine, graph, config):
    assert engine.invoke(graph, {"x": 1}, config).status == "completed"


def test_nodes_get_the_config_whole(engine, colour):
    seen: list[Any] = []

    def by_parameter(state, config):
        seen.append(config)

    def by_runtime(state, runtime: Runtime):
        seen.append(runtime.config)

    def by_function(state):
        seen.append(get_config())

    given = {"configurable": {"mine": 7, "thread_id": "t"}, "tags": ["a"], "metadata": {"k": 1}}
    sub = chain(State, leaf=colour(by_parameter))
    engine.invoke(
        chain(State, a=colour(by_parameter), b=colour(by_runtime), c=colour(by_function), d=sub),
        {"x": 1},
        given,
    )
    assert len(seen) == 4
    for config in seen:
        assert config["configurable"]["mine"] == 7
        assert config["tags"] == ["a"]
        assert config["metadata"] == {"k": 1}


def test_the_callers_config_is_not_changed(engine, kept):
    given = {"configurable": {"thread_id": "t"}, "tags": []}
    engine.invoke(kept, {"x": 1}, given)
    assert given == {"configurable": {"thread_id": "t"}, "tags": []}


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_saver_needs_a_thread(engine, kept, ran):
    for config in (None, {}, {"configurable": {}}, {"configurable": {"thread_id": None}}):
        with pytest.raises(ConfigError, match=r"Checkpointer requires.*thread_id"):
            engine.invoke(kept, {"x": 1}, config)
    assert ran == []


@pytest.mark.parametrize(("given", "name"), [("t", "t"), (7, "7"), (uuid.UUID(int=5), str(uuid.UUID(int=5)))])
def test_threads_are_named_by_text_numbers_and_uuids(engine, kept, saver, given, name):
    engine.invoke(kept, {"x": 1}, {"configurable": {"thread_id": given}})
    assert saver.load(name) is not None
    assert engine.invoke(kept, {"x": 1}, thread_id=name).checkpoint.thread_id == name


def test_two_different_threads_are_refused_and_the_same_twice_is_fine(engine, kept, ran):
    with pytest.raises(ConfigError, match=r"'one'.*'two'"):
        engine.invoke(kept, {"x": 1}, thread("two"), thread_id="one")
    assert ran == []
    assert engine.invoke(kept, {"x": 1}, thread("one"), thread_id="one").status == "completed"


def test_a_checkpoint_id_is_never_ignored(engine, kept):
    """Until going back in time is there, it is refused."""
    config = {"configurable": {"thread_id": "t", "checkpoint_id": "01"}}
    with pytest.raises(Exception, match="checkpoint") as caught:
        engine.invoke(kept, {"x": 1}, config)
    assert not isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("name", ["a/b", "a|b", "..", "%", "a:b", " ", "é", "a\nb", "x" * 5000])
def test_any_text_names_a_thread_of_its_own(engine, saver, name):
    graph = chain(State, saver=saver, a=lambda state: {"log": [name]})
    assert engine.invoke(graph, {"x": 1}, thread_id=name)["log"] == [name]
    assert engine.invoke(graph, {"x": 1}, thread_id=name + name)["log"] == [name]


# ── other arguments ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["value", "messages!", "", ["values", "nope"], 5, ["values", 5]], ids=str)
def test_a_wrong_stream_mode_is_named(engine, graph, ran, mode):
    with pytest.raises(ConfigError) as caught:
        engine.stream(graph, {"x": 1}, stream_mode=mode)
    assert "mode" in str(caught.value)
    assert "values" in str(caught.value), "what would be right"
    assert ran == []


@pytest.mark.parametrize("version", ["v2", "part", None, 1], ids=str)
def test_a_wrong_version_is_named(engine, graph, ran, version):
    with pytest.raises(ConfigError, match=r'version.*"v1".*"parts"'):
        engine.stream(graph, {"x": 1}, version=version)
    assert ran == []


@pytest.mark.parametrize("keys", ["nope", ["x", "nope"]], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_an_unknown_output_key_is_named(engine, graph, ran, way, keys):
    with pytest.raises(ConfigError, match=r"nope.*log"):
        call(engine, way, graph, None, output_keys=keys)
    assert ran == []


@pytest.mark.parametrize("keys", [5, [5], ["x", None]], ids=str)
def test_output_keys_of_a_wrong_type_are_named(engine, graph, ran, keys):
    with pytest.raises(ConfigError, match="output_keys"):
        engine.invoke(graph, {"x": 1}, output_keys=keys)
    assert ran == []


@pytest.mark.parametrize("which", ["interrupt_before", "interrupt_after"])
def test_an_unknown_node_to_pause_at_is_named_per_call_too(engine, kept, ran, which):
    with pytest.raises((ConfigError, GraphBuildError), match=r"nope"):
        engine.invoke(kept, {"x": 1}, thread(), **{which: ["nope"]})
    with pytest.raises((ConfigError, GraphBuildError), match=r"list of names"):
        engine.invoke(kept, {"x": 1}, thread(), **{which: "a"})
    assert ran == []


@pytest.mark.parametrize("which", ["interrupt_before", "interrupt_after"])
def test_a_pause_without_a_saver_is_refused(engine, graph, ran, which):
    with pytest.raises(ConfigError, match="saver"):
        engine.invoke(graph, {"x": 1}, **{which: ["a"]})
    assert ran == []


# ── input ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_none_without_a_saver_is_no_input(engine, graph, ran):
    with pytest.raises(EmptyInputError, match="Received no input"):
        engine.invoke(graph, None)
    assert ran == []


@pytest.mark.parametrize(
    "given",
    [5, "text", ["x"], [1, 2], {1, 2}, object(), lambda: None],
    ids=lambda given: type(given).__name__,
)
def test_an_input_of_a_wrong_type_is_named(engine, graph, ran, given):
    with pytest.raises((ConfigError, InvalidUpdateError), match=type(given).__name__):
        engine.invoke(graph, given)
    assert ran == []


def test_an_unknown_key_of_the_input_is_named_with_the_nearest(engine, graph, ran):
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(graph, {"lgo": []})
    assert "'lgo'" in str(caught.value)
    assert "log" in str(caught.value)
    assert caught.value.key == "lgo"
    assert ran == []


def test_an_empty_command_is_no_input(engine, kept, ran):
    with pytest.raises(EmptyInputError, match="Command"):
        engine.invoke(kept, Command(), thread())
    assert ran == []


def test_a_command_for_a_parent_is_no_input(engine, kept, ran):
    with pytest.raises(InvalidUpdateError, match="parent"):
        engine.invoke(kept, Command(graph=Command.PARENT, update={"x": 1}), thread())
    assert ran == []


def test_a_command_to_an_unknown_node_is_named(engine, kept, ran):
    engine.invoke(kept, {"x": 1}, thread())
    ran.clear()
    with pytest.raises(RoutingError, match=r"nope.*a"):
        engine.invoke(kept, Command(goto="nope"), thread())
    assert ran == []


def test_a_command_that_updates_an_unknown_key_is_named(engine, kept, ran):
    engine.invoke(kept, {"x": 1}, thread())
    ran.clear()
    with pytest.raises(InvalidUpdateError, match="nope"):
        engine.invoke(kept, Command(update={"nope": 1}, goto="a"), thread())
    assert ran == []


def test_inputs_that_hold_commands_are_refused(engine, graph, ran):
    with pytest.raises((ConfigError, InvalidUpdateError), match="Command"):
        engine.invoke(graph, [Command(goto="a"), {"x": 1}])
    assert ran == []


# ── context ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Settings:
    user: str
    level: int = 1


@pytest.fixture
def settled(ran):
    def node(state, runtime: Runtime):
        ran.append(runtime.context)

    return StateGraph(State, Settings).add_node("a", node).add_edge(START, "a").compile()


def test_a_mapping_becomes_the_context_schema_and_objects_are_taken_as_they_are(engine, settled, ran):
    engine.invoke(settled, {"x": 1}, context={"user": "ada"})
    own = Settings("bob", 2)
    engine.invoke(settled, {"x": 1}, context=own)
    assert ran == [Settings("ada"), own]
    assert ran[1] is own


@pytest.mark.parametrize(
    ("context", "named"), [({}, "user"), ({"user": "ada", "nope": 1}, "nope")], ids=["missing", "unknown"]
)
def test_a_context_that_does_not_fit_is_named(engine, settled, ran, context, named):
    with pytest.raises(ConfigError, match=rf"Settings.*{named}"):
        engine.invoke(settled, {"x": 1}, context=context)
    assert ran == []


# ── batch ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("configs", [[], [{}], [{}, {}, {}]], ids=len)
def test_configs_that_do_not_match_the_inputs_are_counted(engine, graph, ran, configs):
    with pytest.raises(ConfigError, match=rf"2 inputs and {len(configs)} config"):
        engine.batch(graph, [{"x": 1}, {"x": 2}], configs)
    assert ran == []


def test_a_wrong_config_in_a_list_is_named(engine, graph):
    with pytest.raises(ConfigError, match="recursion_limt"):
        engine.batch(graph, [{"x": 1}, {"x": 2}], [{}, {"recursion_limt": 3}])


def test_errors_of_the_call_come_where_they_are_made():
    """Not in a task that nobody looks at: `ainvoke` raises when it is awaited, `stream` when it is called."""
    graph = chain(State, a=nothing)
    with pytest.raises(ConfigError):
        graph.stream({"x": 1}, {"nope": 1})

    async def main():
        with pytest.raises(ConfigError):
            await graph.ainvoke({"x": 1}, {"nope": 1})
        with pytest.raises(ConfigError):
            async for _ in graph.astream({"x": 1}, {"nope": 1}):
                pass

    asyncio.run(main())
