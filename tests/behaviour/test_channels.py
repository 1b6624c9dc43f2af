"""Keys that are stored and merged in other ways than keeping the last value or reducing (graph-api 4)."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    MARK_FOR_REMOVAL,
    START,
    InvalidUpdateError,
    Overwrite,
    Send,
    StateGraph,
    interrupt,
)
from juncture.channels import (
    AnyValue,
    DeltaChannel,
    EphemeralValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    Topic,
    UntrackedValue,
)
from tests.behaviour.building import builder, chain, fan, nothing, seen_by, wrote


def schema_of(annotation: Any, **more: Any) -> Any:
    """A state with the key `v`, annotated so, and a key that is always there."""
    return TypedDict("Schema", {"v": annotation, "kept": Any, **more}, total=False)  # type: ignore[misc]  # made at run time


def steps(engine: Any, schema: Any, *updates: Any, given: Any = None, **options: Any) -> list[Any]:
    """What each of a chain of nodes sees of `v` ('-' for nothing), and what is left of it at the end."""
    seen: list[Any] = []

    def node(update: Any):
        def run(state):
            seen.append(state.get("v", "-"))
            return update

        return run

    nodes = {f"n{i}": node(update) for i, update in enumerate(updates)}
    result = engine.invoke(chain(schema, options=options, **nodes), {"kept": 1} if given is None else given)
    return [*seen, result.get("v", "-")]


def v(value: Any) -> dict[str, Any]:
    return {"v": value}


# ── values that live for a step ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("annotation", [EphemeralValue, EphemeralValue(int), Annotated[int, EphemeralValue]])
def test_an_ephemeral_value_is_seen_in_the_next_step_only(engine, annotation):
    """graph-api 4: emptied by a step without a write; as a class, an instance, or annotated."""
    schema = schema_of(annotation if annotation != EphemeralValue else Annotated[int, EphemeralValue])
    if isinstance(annotation, EphemeralValue):
        schema = schema_of(Annotated[int, annotation])
    assert steps(engine, schema, v(1), None, v(2), v(3)) == ["-", 1, "-", 2, 3]


def test_an_ephemeral_input(engine):
    """graph-api 4: what the input wrote is seen in the first step, and is gone from the result."""
    schema = schema_of(Annotated[int, EphemeralValue(int)])
    assert steps(engine, schema, None, None, given=v(1)) == [1, "-", "-"]


def test_an_ephemeral_value_guards_against_several_writes(engine):
    """graph-api 4: with `guard` an error that names the key and the nodes; without, the last one in the plan."""
    guarded = fan(schema_of(Annotated[int, EphemeralValue(int)]), a=wrote("v", 1), b=wrote("v", 2))
    with pytest.raises(InvalidUpdateError) as caught:
        engine.invoke(guarded, {"kept": 1})
    assert caught.value.key == "v"
    open_to_all = fan(
        schema_of(Annotated[int, EphemeralValue(int, guard=False)]), a=wrote("v", 1), b=wrote("v", 2)
    )
    assert engine.invoke(open_to_all, {}) == {"v": 2}


def test_any_value_takes_the_last_in_the_plan(engine):
    """graph-api 4: several writes are no conflict; a step without one empties it."""
    schema = schema_of(Annotated[int, AnyValue(int)])
    assert engine.invoke(fan(schema, a=wrote("v", 1), b=wrote("v", 2)), {}) == {"v": 2}
    assert steps(engine, schema, v(1), None, None) == ["-", 1, "-", "-"]


def test_a_topic_collects_what_a_step_wrote(engine):
    """graph-api 4: in plan order, lists flattened one level, emptied by the next step."""
    schema = schema_of(Annotated[Sequence[str], Topic(str)])
    seen = []
    graph = builder(
        schema,
        {"a": wrote("v", "a"), "b": wrote("v", ["b1", ["b2"]]), "c": seen_by(seen), "d": seen_by(seen)},
        (START, "a"), (START, "b"), (["a", "b"], "c"), ("c", "d"),
    )  # fmt: skip
    result = engine.invoke(graph.compile(), {"kept": 1})
    assert seen == [{"v": ["a", "b1", ["b2"]], "kept": 1}, {"kept": 1}]
    assert result == {"kept": 1}


def test_a_topic_may_accumulate(engine):
    """graph-api 4: then it keeps what earlier steps wrote."""
    schema = schema_of(Annotated[Sequence[int], Topic(int, accumulate=True)])
    assert steps(engine, schema, v(1), None, v([2, 3])) == ["-", [1], [1], [1, 2, 3]]


def test_a_topic_of_sends(engine):
    """graph-api 4: each sent task adds its own; nobody else's list changes (rule 1)."""
    schema = schema_of(Annotated[Sequence[int], Topic(int)])
    seen = []

    def look(state):
        seen.append(list(state["v"]))
        state["v"].append("harm")

    graph = StateGraph(schema).add_node("worker", lambda x: v(x)).add_node("a", look).add_node("b", look)
    graph.add_conditional_edges(START, lambda s: [Send("worker", i) for i in range(4)])
    graph.add_edge("worker", "a").add_edge("worker", "b")
    engine.invoke(graph.compile(), {}, {"max_concurrency": 1})
    assert seen == [[0, 1, 2, 3]] * 2


@pytest.mark.parametrize("channel", [EphemeralValue(int), Topic(int), AnyValue(int)])
def test_a_pause_keeps_what_lives_for_a_step(engine, saver, channel):
    """graph-api 4: it is part of the checkpoint: the step that was paused sees it after the resume."""
    seen = []

    def ask(state):
        seen.append(state.get("v", "-"))
        return {"kept": interrupt("?")}

    graph = chain(schema_of(Annotated[Any, channel]), a=wrote("v", 1), ask=ask, b=seen_by(seen), saver=saver)
    engine.invoke(graph, {}, thread_id="t")
    engine.resume(graph, "answer", thread_id="t")
    value = [1] if isinstance(channel, Topic) else 1
    assert seen == [value, value, {"kept": "answer"}]


# ── values that are never saved ──────────────────────────────────────────────────────────────────────────────


def test_an_untracked_value_lasts_for_the_run(engine, saver):
    """graph-api 4: later steps see it, the result has it, the next invocation doesn't."""
    seen = []
    schema = schema_of(Annotated[Any, UntrackedValue(Any)])
    graph = chain(schema, a=seen_by(seen), b=wrote("v", object), c=nothing, d=seen_by(seen), saver=saver)
    result = engine.invoke(graph, {"kept": 1}, thread_id="t")
    assert result == {"kept": 1, "v": object}
    engine.invoke(graph, {}, thread_id="t")
    assert seen == [{"kept": 1}, {"kept": 1, "v": object}] * 2


def test_an_untracked_value_doesnt_survive_a_pause(engine, saver):
    """graph-api 4: nor does it keep the thread from being saved, whatever it is."""
    seen = []

    def ask(state):
        seen.append("v" in state)
        return {"kept": interrupt("?")}

    schema = schema_of(Annotated[Any, UntrackedValue(Any)])
    graph = chain(schema, a=wrote("v", lambda: None), ask=ask, saver=saver)
    engine.invoke(graph, {}, thread_id="t")
    assert engine.resume(graph, "answer", thread_id="t") == {"kept": "answer"}
    assert seen == [True, False]


def test_an_untracked_value_of_a_finished_task_isnt_saved(engine, saver):
    """graph-api 4: also stripped out of saved writes: a task that isn't run again doesn't bring it back."""
    broken, ran = [True], []

    def fails(state):
        if broken:
            raise RuntimeError("once")

    def a(state):
        ran.append(1)
        return {"v": lambda: None, "kept": "by a"}

    schema = schema_of(Annotated[Any, UntrackedValue(Any)])
    graph = fan(schema, a=a, b=fails, saver=saver)
    with pytest.raises(RuntimeError, match="once"):
        engine.invoke(graph, {}, {"max_concurrency": 1}, thread_id="t")
    broken.clear()
    assert engine.invoke(graph, None, thread_id="t") == {"kept": "by a"}
    assert ran == [1]


def test_an_untracked_value_guards_too(engine):
    """graph-api 4: like the ephemeral one."""
    schema = schema_of(Annotated[int, UntrackedValue(int)])
    with pytest.raises(InvalidUpdateError):
        engine.invoke(fan(schema, a=wrote("v", 1), b=wrote("v", 2)), {})


# ── others ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_delta_channel_is_called_once_a_step(engine, saver):
    """graph-api 4: with the state and all writes of the step; over a save it is the same."""
    calls = []

    def merge(old, writes):
        calls.append(list(writes))
        return [*old, *(item for write in writes for item in write)]

    schema = schema_of(Annotated[list[int], DeltaChannel(merge)])
    graph = fan(schema, a=wrote("v", [1]), b=wrote("v", [2]), saver=saver)
    assert engine.invoke(graph, {"v": [0]}, thread_id="t") == {"v": [0, 1, 2]}
    assert calls == [[[0]], [[1], [2]]]
    assert engine.invoke(graph, {}, thread_id="t") == {"v": [0, 1, 2, 1, 2]}


def test_a_barrier_as_a_key(engine):
    """graph-api 4: available, as None, when all names were written; an unknown one is refused."""
    schema = schema_of(Annotated[str, NamedBarrierValue(str, {"x", "y"})])
    assert steps(engine, schema, v("x"), v("y"), None) == ["-", "-", None, None]
    with pytest.raises(InvalidUpdateError, match="'z'") as caught:
        engine.invoke(chain(schema, a=wrote("v", "z")), {})
    assert caught.value.key == "v"


def test_a_value_after_the_finish(engine):
    """graph-api 4: it is shown once nothing else is left to run."""
    schema = schema_of(Annotated[int, LastValueAfterFinish(int)])
    assert steps(engine, schema, v(1), None, None) == ["-", "-", "-", 1]


@pytest.mark.parametrize(
    "channel",
    [EphemeralValue(int), UntrackedValue(int), AnyValue(int), Topic(int), Topic(int, accumulate=True)],
)
def test_any_channel_can_be_removed_and_overwritten(engine, channel):
    """Rule 7: the marks mean the same for every kind of key."""
    schema = schema_of(Annotated[Any, channel])
    value = [9] if isinstance(channel, Topic) else 9
    assert steps(engine, schema, v(1), v(MARK_FOR_REMOVAL), None)[2:] == ["-", "-"]
    assert steps(engine, schema, v(1), v(Overwrite(value)))[2] == value


def test_channels_may_be_strategies(engine):
    """Decision 2: `key_strategies` takes channels and reducers alike, and a default for every other key."""
    graph = chain(
        None,
        a=lambda s: {"tags": "a", "log": ["a"], "other": [1]},
        b=lambda s: {"tags": "b", "log": ["b"], "other": [2]},
        options={
            "key_strategies": {"tags": Topic(str, accumulate=True), "log": operator.add},
            "default_strategy": max,
        },
    )
    assert engine.invoke(graph, {"other": [3]}) == {"tags": ["a", "b"], "log": ["a", "b"], "other": [3]}


def test_a_channel_in_a_subgraph(engine):
    """Rule 15: a child's topic and its parent's are keys of their own; the final value is one write."""
    schema = schema_of(Annotated[Sequence[int], Topic(int)])
    child = chain(schema, a=wrote("v", 1), b=wrote("v", 2))
    assert engine.invoke(chain(schema, child=child), {"kept": 1}) == {"kept": 1, "v": [2]}
