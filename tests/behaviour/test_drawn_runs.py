"""A run drawn over its graph says what ran, from a thread's states and from events alike."""

import json
import operator
from typing import Annotated, Any, Literal, TypedDict

import pytest

from juncture import END, START, Command, ConfigError, Event, Send, StateGraph, failure, interrupt
from juncture.graph.drawing.drawn import DrawnGraph, shown_time


class State(TypedDict, total=False):
    n: Annotated[int, operator.add]


def one(state: State) -> dict[str, Any]:
    return {"n": 1}


def fails(state: State) -> dict[str, Any]:
    if state["n"] > 4:
        raise ValueError("too much <n>")
    return {"n": 1}


def again(state: State) -> list[str]:
    return ["left", "right"] if state["n"] < 9 else [END]


def looping(saver: Any = None) -> Any:
    inner = StateGraph(State).add_node("deep", one).add_edge(START, "deep")
    graph = StateGraph(State).add_node("left", one).add_node("right", one).add_node("inner", inner)
    graph.add_node("check", fails).add_node("never", one)
    graph.add_edge(START, "left").add_edge(START, "right").add_edge(["left", "right"], "inner")
    graph.add_edge("inner", "check").add_conditional_edges("check", again, ["left", "right", "never", END])
    return graph.compile(saver)


def visits(drawn: DrawnGraph) -> dict[str, int]:
    return {
        node.id: node.run.visits for node in drawn.nodes.values() if node.run is not None and node.run.visits
    }


def taken(drawn: DrawnGraph) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in drawn.edges if edge.taken}


TAKEN = {
    ("__start__", "left"), ("__start__", "right"), ("left", "inner"), ("right", "inner"), ("inner", "check"),
    ("check", "left"), ("check", "right"),
}  # fmt: skip


def test_states_and_events_of_a_failed_run_say_the_same(engine, saver):
    graph = looping(saver)
    events: list[Event] = []
    with pytest.raises(ValueError, match="too much"):
        engine.invoke(graph, {"n": 0}, thread_id="t", listeners=[events.append])
    states = engine.history(graph, "t", values=False)
    of_states, of_events = graph.get_graph().with_run(states), graph.get_graph().with_run(events)
    assert visits(of_states) == visits(of_events) == {"left": 2, "right": 2, "inner": 2, "check": 2}
    assert taken(of_states) == taken(of_events) == TAKEN
    assert [of.nodes["check"].run.error for of in (of_states, of_events)] == [
        "ValueError('too much <n>')",
        "ValueError: too much <n>",
    ]
    assert all(of_events.nodes[name].run.seconds > 0 for name in ("left", "inner", "check"))
    assert of_states.nodes["left"].run.at_most
    assert not of_events.nodes["left"].run.at_most
    assert of_states.nodes["never"].run is None


def test_a_result_and_a_thread_are_drawn_from_what_was_saved(saver):
    graph = looping(saver)
    with pytest.raises(ValueError, match="too much") as raised:
        graph.invoke({"n": 0}, thread_id="t")
    result = failure(raised.value).result
    by_result, by_thread = graph.draw("json", run=result), graph.draw("json", run="t")
    config = {"configurable": {"thread_id": "t"}}
    assert by_result == by_thread == graph.draw("json", run=config)
    assert by_thread == graph.draw("json", run=list(graph.get_state_history("t")))
    assert '"error": "ValueError(' in by_thread
    assert "≤" in graph.draw("mermaid", run="t")
    assert "≤" not in graph.draw("mermaid")


def test_of_a_result_only_its_own_run_is_drawn(saver):
    graph = StateGraph(State).add_node("one", one).add_edge(START, "one").compile(saver)
    graph.invoke({"n": 0}, thread_id="t")
    second = graph.invoke({"n": 0}, thread_id="t")
    assert '"visits": 1' in graph.draw("json", run=second)
    assert '"visits": 2' in graph.draw("json", run="t")


def test_a_result_that_was_timed_is_drawn_with_its_times(saver):
    graph = StateGraph(State).add_node("one", one).add_edge(START, "one").compile(saver)
    result = graph.invoke({"n": 0}, thread_id="t", timings=True)
    drawn = json.loads(graph.draw("json", run=result))["nodes"][1]["run"]
    assert (drawn["seconds"], drawn["at_most"]) == (result.timings.by_node["one"], False)


def test_nested_graphs_are_in_the_events(engine):
    graph = looping()
    events: list[Event] = []
    with pytest.raises(ValueError, match="too much"):
        engine.invoke(graph, {"n": 0}, listeners=[events.append])
    drawn = graph.get_graph(xray=True).with_run(events)
    assert visits(drawn) == {"left": 2, "right": 2, "inner": 2, "inner:deep": 2, "check": 2}
    assert {
        ("inner:__start__", "inner:deep"),
        ("inner:deep", "inner:__end__"),
        ("inner:__end__", "check"),
    } < taken(drawn)


def test_an_open_question_waits_and_its_answer_ends_that(engine, saver):
    graph = StateGraph(State).add_node("ask", lambda state: {"n": interrupt("?")}).add_node("next", one)
    compiled = graph.add_edge(START, "ask").add_edge("ask", "next").compile(saver, interrupt_before=["next"])
    events: list[Event] = []
    engine.invoke(compiled, {"n": 0}, thread_id="t", listeners=[events.append])
    for record in (engine.history(compiled, "t"), events):
        assert compiled.get_graph().with_run(record).nodes["ask"].run.waits
    engine.resume(compiled, 1, thread_id="t", listeners=[events.append])
    for record in (engine.history(compiled, "t"), events):
        drawn = compiled.get_graph().with_run(record)
        assert not drawn.nodes["ask"].run.waits
        assert drawn.nodes["next"].run.waits
        assert drawn.nodes["next"].run.visits == 0
    assert "waits" in compiled.draw("mermaid", run="t")


def test_where_two_edges_explain_a_node_neither_is_marked():
    def either(state: State) -> Literal["c", "d"]:
        return "c"

    graph = StateGraph(State).add_node("a", one).add_node("b", one).add_node("c", one).add_node("d", one)
    graph.add_edge(START, "a").add_edge(START, "b")
    graph.add_conditional_edges("a", either).add_conditional_edges("b", either)
    events: list[Event] = []
    compiled = graph.compile()
    compiled.invoke({"n": 0}, listeners=[events.append])
    assert taken(compiled.get_graph().with_run(events)) == {
        ("__start__", "a"),
        ("__start__", "b"),
        ("c", "__end__"),
    }


def test_sends_commands_and_what_is_not_known_are_marked():
    def go(state: State) -> Command[Literal["worker"]]:
        return Command(goto=[Send("worker", {"n": 1}), Send("worker", {"n": 2})])

    def anywhere(state: State) -> Any:
        return str(["last"][0])

    graph = StateGraph(State).add_node(go).add_node("worker", one).add_node("last", one, defer=True)
    graph.add_edge(START, "go").add_conditional_edges("worker", anywhere)
    events: list[Event] = []
    compiled = graph.compile()
    compiled.invoke({"n": 0}, listeners=[events.append])
    drawn = compiled.get_graph().with_run(events)
    assert visits(drawn) == {"go": 1, "worker": 2, "last": 1}
    assert taken(drawn) == {
        ("__start__", "go"),
        ("go", "worker"),
        ("worker", "worker|?"),
        ("last", "__end__"),
    }


def test_a_run_that_was_not_kept_can_not_be_drawn(saver):
    graph = looping()
    result = StateGraph(State).add_node("one", one).add_edge(START, "one").compile().invoke({"n": 0})
    with pytest.raises(ConfigError, match="on no thread, so nothing of it was kept"):
        graph.draw(run=result)
    kept = looping(saver)
    with pytest.raises(ConfigError, match="has no states"):
        kept.draw(run="nobody")
    chain = (
        StateGraph(State)
        .add_sequence([("a", one), ("b", one), ("c", one)])
        .add_edge(START, "a")
        .compile(saver)
    )
    result = chain.invoke({"n": 0}, thread_id="exit", durability="exit")
    with pytest.raises(ConfigError, match=r"listeners=\[events\.append\]"):
        chain.draw(run=result)
    with pytest.raises(ConfigError, match="from the states of a thread"):
        chain.get_graph().with_run([1])  # type: ignore[list-item]  # what is tested


def test_every_format_draws_a_run():
    graph = looping()
    events: list[Event] = []
    with pytest.raises(ValueError, match="too much"):
        graph.invoke({"n": 0}, listeners=[events.append])
    marks = {"mermaid": "linkStyle", "dot": "penwidth=2.5", "plantuml": "[thickness=3]", "svg": 'opacity="0.4"',
             "ascii": "ValueError: too much <n>", "json": '"taken": true'}  # fmt: skip
    for form, mark in marks.items():
        for conditions in (True, False):
            assert mark in graph.draw(form, run=events, conditions=conditions)
            assert mark not in graph.draw(form, conditions=conditions)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0000123, "12 µs"), (0.0123, "12.3 ms"), (1.234, "1.23 s"), (59.94, "59.9 s"), (7200, "120 min")],
)
def test_times_are_short(seconds: float, text: str):
    assert shown_time(seconds) == text
