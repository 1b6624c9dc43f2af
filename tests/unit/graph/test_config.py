"""A call's config, read once: what is taken from where, and what is refused."""

from __future__ import annotations

import uuid
from types import MappingProxyType

import pytest

from juncture.errors import ConfigError
from juncture.graph.config import DEFAULT_LIMIT, LENIENT_LIMIT, CallOptions, read_config, read_modes
from juncture.types import STREAM_MODES


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": None}])
def test_nothing_said_means_the_defaults(config):
    assert read_config(config, None) == CallOptions(config or {}, None, DEFAULT_LIMIT, None, None)


@pytest.mark.parametrize("config", [None, {}])
def test_a_lenient_graph_has_another_limit(config):
    assert read_config(config, None, strict=False).limit == LENIENT_LIMIT
    assert read_config({"recursion_limit": 5}, None, strict=False).limit == 5


def test_what_a_config_says():
    config = {
        "configurable": {"thread_id": "t", "mine": 1},
        "recursion_limit": 7,
        "max_concurrency": 2,
        "run_id": uuid.UUID(int=1),
        "tags": ["a"],
        "metadata": {},
        "callbacks": None,
        "run_name": "r",
    }
    got = read_config(MappingProxyType(config), None)
    assert got == CallOptions(config, "t", 7, 2, str(uuid.UUID(int=1)))
    assert got.config["configurable"]["mine"] == 1


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}])
def test_a_thread_may_be_given_straight_to_the_call(config):
    assert read_config(config, "t").thread_id == "t"


@pytest.mark.parametrize(
    ("given", "text"),
    [("t", "t"), (7, "7"), (0, "0"), (2**70, str(2**70)), (uuid.UUID(int=2), str(uuid.UUID(int=2)))],
)
def test_a_thread_is_text(given, text):
    assert read_config({"configurable": {"thread_id": given}}, None).thread_id == text
    assert read_config(None, given).thread_id == text
    assert read_config({"configurable": {"thread_id": given}}, text).thread_id == text


def test_two_threads_are_refused():
    with pytest.raises(ConfigError, match="thread_id='a', and 'b'"):
        read_config({"configurable": {"thread_id": "b"}}, "a")


@pytest.mark.parametrize("thread", [True, False, ["t"], ("t",), {"t": 1}, b"t", {"t"}, object(), 1.5])
def test_what_isnt_a_thread_is_refused(thread):
    for arguments in ((None, thread), ({"configurable": {"thread_id": thread}}, None)):
        with pytest.raises(ConfigError, match=f"got {type(thread).__name__}"):
            read_config(*arguments)


def test_an_empty_thread_is_refused():
    with pytest.raises(ConfigError, match="thread_id is empty"):
        read_config(None, "")


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["recursion_limit", "max_concurrency"])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("7", "a whole number"),
        (1.0, "a whole number"),
        (True, "a whole number"),
        (0, "at least 1"),
        (-1, "at least 1"),
    ],
)
def test_what_isnt_a_count_is_refused(name, value, text):
    with pytest.raises(ConfigError, match=f"config\\['{name}'\\] .*{text}"):
        read_config({name: value}, None)


def test_the_width_may_stand_under_configurable():
    assert read_config({"configurable": {"max_concurrency": 3}}, None).max_concurrency == 3
    assert (
        read_config({"max_concurrency": 2, "configurable": {"max_concurrency": 3}}, None).max_concurrency == 2
    )
    assert (
        read_config({"max_concurrency": None, "configurable": {"max_concurrency": 3}}, None).max_concurrency
        == 3
    )
    with pytest.raises(ConfigError, match="at least 1"):
        read_config({"configurable": {"max_concurrency": 0}}, None)


# ── what a config can't be ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("config", [[], "thread", 3, [("recursion_limit", 3)]])
def test_a_config_is_a_mapping(config):
    with pytest.raises(ConfigError, match=f"config is a mapping, got {type(config).__name__}"):
        read_config(config, None)


@pytest.mark.parametrize("inner", [[], "thread", 3])
def test_configurable_is_a_mapping(inner):
    with pytest.raises(
        ConfigError, match=f"config\\['configurable'\\] is a mapping, got {type(inner).__name__}"
    ):
        read_config({"configurable": inner}, None)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("recursion_limt", "Did you mean 'recursion_limit'?"),
        ("zzz", "go under 'configurable'"),
        (3, "go under 'configurable'"),
    ],
)
def test_an_unknown_entry_is_refused(name, hint):
    with pytest.raises(ConfigError, match=f"unknown entry {name!r}. .*Known: callbacks, ") as caught:
        read_config({name: 1}, None)
    assert hint in str(caught.value)


def test_a_checkpoint_is_named_under_configurable():
    named = {"thread_id": "t", "checkpoint_id": "c", "checkpoint_ns": "sub:1"}
    options = read_config({"configurable": named, "metadata": {"user": "ann", "n": 1, "deep": {}}}, None)
    assert (options.checkpoint_id, options.checkpoint_ns) == ("c", "sub:1")
    assert options.metadata == {"user": "ann", "n": 1}, "only what can be shown and compared is kept"
    assert (
        read_config({"configurable": {"thread_id": "t", "checkpoint_id": None}}, None).checkpoint_id is None
    )
    assert read_config({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, None).checkpoint_ns == ""


@pytest.mark.parametrize("entry", ["checkpoint_id", "checkpoint_ns"])
def test_what_names_no_checkpoint_is_refused(entry):
    with pytest.raises(ConfigError, match=rf"config\['configurable'\]\['{entry}'\] is a string, got 3"):
        read_config({"configurable": {"thread_id": "t", entry: 3}}, None)


@pytest.mark.parametrize("run", [3, True, "", ["r"], object()])
def test_what_isnt_a_runs_id_is_refused(run):
    with pytest.raises(ConfigError, match=r"config\['run_id'\] is a UUID or a string"):
        read_config({"run_id": run}, None)
    assert read_config({"run_id": "r"}, None).run_id == "r"


@pytest.mark.parametrize(
    ("name", "value"),
    [("tags", "a"), ("tags", [1]), ("tags", {"a"}), ("metadata", [1]), ("metadata", "m"), ("run_name", 3)],
)
def test_what_listeners_couldnt_read_is_refused(name, value):
    with pytest.raises(ConfigError, match=rf"config\['{name}'\] is a "):
        read_config({name: value}, None)


def test_what_listeners_read():
    config = {"tags": ("a", "b"), "metadata": MappingProxyType({}), "run_name": "r"}
    assert read_config(config, None).config == config
    assert read_config(dict.fromkeys(config), None).run_id is None


# ── stream modes ─────────────────────────────────────────────────────────────────────────────────────────────


def test_modes():
    assert read_modes("values") == ("values",)
    assert read_modes(["updates", "values"]) == ("updates", "values")
    assert read_modes(STREAM_MODES) == STREAM_MODES
    assert read_modes([]) == ()


@pytest.mark.parametrize("modes", [None, 3, {"values"}, {"values": 1}])
def test_what_isnt_a_list_of_modes_is_refused(modes):
    with pytest.raises(ConfigError, match=r"stream_mode is a name or a list of names, got .*Known: values"):
        read_modes(modes)


@pytest.mark.parametrize("modes", ["value", "", ["values", "nope"], [["values"]], [None]])
def test_an_unknown_mode_is_refused(modes):
    with pytest.raises(ConfigError, match=r"unknown stream mode .*Known: values, updates"):
        read_modes(modes)
