"""Error handlers: when they run, with what, where they lead, and that they run once for a failure."""

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest

from juncture import (
    START,
    Command,
    DiscardedChunks,
    GraphBuildError,
    InMemorySaver,
    NodeError,
    NodeTimeoutError,
    OverAllState,
    RecordedError,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    failure,
    interrupt,
)
from juncture.testing import FakeClock
from tests.behaviour.building import chain, thread

pytestmark = pytest.mark.timeout(20)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any


class Boom(Exception):
    """Users' own."""


AT_ONCE = RetryPolicy(initial_interval=0, jitter=False)


def fails(state):
    raise Boom("down")


def note(state, error: NodeError):
    return {"log": [f"{error.node}: {error.error!r}"]}


def handled(node: Any = fails, handler: Any = note, *, saver: Any = None, **options: Any):
    """START → a → b, where a fails."""
    graph = StateGraph(State).add_node("a", node, error_handler=handler, **options)
    graph.add_node("b", lambda state: {"log": ["b"]})
    graph.add_node("c", lambda state: {"log": ["c"]})
    return graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").compile(saver)


# ── what it does ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handlers_update_is_the_result_and_the_nodes_edges_are_not_followed(engine, colour, saver):
    graph = handled(colour(fails), colour(note), saver=saver)
    result = engine.invoke(graph, {"log": ["in"]}, thread())
    assert (result["log"], result.status, result.steps) == (["in", "a: Boom('down')"], "completed", 1)


def test_a_handler_leads_on_with_a_command(engine, colour):
    def go_on(state, error) -> Command[Literal["c"]]:
        return Command(update={"log": [error.node]}, goto="c")

    assert engine.invoke(handled(handler=colour(go_on)), {"x": 1})["log"] == ["a", "c"]


def test_a_node_that_only_a_handler_leads_to_is_reached(engine):
    """And no finding of `compile`, which would be an error here."""

    def go_on(state, error):
        return Command(goto="only")

    graph = StateGraph(State).add_node("a", fails, error_handler=go_on)
    graph.add_node("only", lambda state: {"log": ["only"]}).add_edge(START, "a").add_edge("a", "b")
    graph.add_node("b", lambda state: {"log": ["b"]})
    assert "unreachable-node" not in {finding.code for finding in graph.check()}
    assert engine.invoke(graph.compile(), {"x": 1})["log"] == ["only"]


def test_chunks_of_the_failed_try_are_taken_back_in_sight(engine):
    def chunks():
        yield "lost"
        raise Boom

    graph = handled(lambda state: {"x": chunks()}, lambda state, error: {"x": "handled"})
    items = engine.stream(graph, {"log": []}, stream_mode=["messages", "values"])
    shown = [data[0] for mode, data in items if mode == "messages"]
    assert shown[0] == "lost"
    assert isinstance(shown[1], DiscardedChunks)
    assert items[-1][1]["x"] == "handled"


def test_a_node_that_works_has_no_use_for_its_handler(engine):
    graph = handled(lambda state: {"log": ["a"]}, lambda state, error: pytest.fail("nothing failed"))
    assert engine.invoke(graph, {"x": 1})["log"] == ["a", "b", "c"]


def test_it_is_called_once_the_retries_are_used_up(engine, colour):
    tries: list[int] = []

    def flaky(state, runtime: Runtime):
        tries.append(runtime.execution_info.node_attempt)
        raise Boom(len(tries))

    def handler(state, error, runtime: Runtime):
        return {"log": [error.error.args, runtime.execution_info.node_attempt, runtime.execution_info.node]}

    graph = handled(colour(flaky), colour(handler), retry_policy=AT_ONCE)
    assert engine.invoke(graph, {"x": 1})["log"] == [(3,), 1, "__error_handler__a"]
    assert tries == [1, 2, 3]


def test_it_is_handed_what_the_node_was(engine):
    def spoils(state):
        state["log"].append("left over")
        raise Boom

    def handler(state, error):
        return {"log": [list(state["log"]), state["x"]]}

    assert engine.invoke(handled(spoils, handler), {"log": ["in"], "x": 1})["log"] == ["in", ["in"], 1]


def test_each_send_is_handled_with_its_own_argument(engine):
    def node(number):
        if number % 2:
            raise Boom(number)
        return {"log": [number]}

    def handler(number, error):
        return {"log": [f"handled {number} {error.error.args[0]}"]}

    graph = StateGraph(State).add_node("a", node, error_handler=handler)
    graph.add_conditional_edges(START, lambda state: [Send("a", n) for n in range(4)], ["a"])
    assert engine.invoke(graph.compile(), {"x": 1})["log"] == [0, "handled 1 1", 2, "handled 3 3"]


def test_it_may_ask_for_the_state_as_one_object(engine):
    def handler(state: OverAllState, error):
        return {"log": [state.value("x"), type(state).__name__]}

    assert engine.invoke(handled(handler=handler), {"x": 1})["log"][0] == 1


def test_it_is_handed_the_states_type(engine):
    @dataclass
    class Data:
        n: int = 0

    def broken(state: Data):
        raise Boom

    def handler(state: Data, error):
        return {"n": state.n + 1}

    graph = StateGraph(Data).add_node("a", broken, error_handler=handler).add_edge(START, "a").compile()
    assert engine.invoke(graph, {"n": 4}).value == Data(5)


def test_a_time_out_is_a_failure(engine):
    with FakeClock() as clock:

        async def slow(state):
            clock.advance(9)
            await asyncio.Event().wait()

        def handler(state, error):
            return {"log": [type(error.error)]}

        assert engine.invoke(handled(slow, handler, timeout=5), {"x": 1})["log"] == [NodeTimeoutError]


def test_a_nested_graph_that_fails_is_handled_like_any_node(engine, saver):
    inner = chain(State, first=lambda state: {"log": ["lost"]}, second=fails)
    assert engine.invoke(handled(inner, saver=saver), {"x": 1}, thread())["log"] == ["a: Boom('down')"]


def test_what_a_factory_makes_is_handled(engine):
    graph = StateGraph(State).add_node("a", factory=lambda: fails, error_handler=note).add_edge(START, "a")
    assert engine.invoke(graph.compile(), {"x": 1})["log"] == ["a: Boom('down')"]


def test_a_generator_is_handled_and_its_pieces_do_not_count(engine):
    def pieces(state):
        yield {"log": ["lost"]}
        raise Boom("down")

    def handler(state, error):
        yield {"log": ["one"]}
        yield {"x": 2}

    result = engine.invoke(handled(pieces, handler), {"x": 1})
    assert (result["log"], result["x"]) == (["one"], 2)


def test_the_default_handler_is_for_nodes_without_their_own_and_not_for_handlers(engine):
    def default(state, error):
        return {"log": [f"default {error.node}"]}

    graph = StateGraph(State).add_node("a", fails, error_handler=note).add_node("b", fails)
    graph.set_node_defaults(error_handler=default).add_edge(START, "a").add_edge(START, "b")
    for _ in range(2):
        assert engine.invoke(graph.compile(), {"x": 1})["log"] == ["a: Boom('down')", "default b"]
    graph.nodes["a"].error_handler = fails
    with pytest.raises(Boom):
        engine.invoke(graph.compile(), {"x": 1})


def test_the_default_retry_policy_and_limit_hold_for_handlers(engine):
    tries: list[int] = []

    def handler(state, error):
        tries.append(1)
        if len(tries) < 3:
            raise Boom
        return {"log": ["third"]}

    graph = StateGraph(State).add_node(
        "a", fails, error_handler=handler, retry_policy=RetryPolicy(max_attempts=1)
    )
    graph.set_node_defaults(retry_policy=AT_ONCE, timeout=60).add_edge(START, "a")
    app = graph.compile()
    assert engine.invoke(app, {"x": 1})["log"] == ["third"]
    handler_node = app.tables.nodes["a"].fallback
    assert handler_node is not None
    assert handler_node.timeout is not None


def test_questions_and_commands_for_the_graph_around_are_not_failures(engine):
    def asks(state):
        return {"log": [interrupt("sure?")]}

    def never(state, error):
        raise AssertionError("nothing failed")

    graph = handled(asks, never, saver=InMemorySaver())
    assert engine.invoke(graph, {"x": 1}, thread()).status == "interrupted"
    assert engine.resume(graph, "yes", thread())["log"] == ["yes", "b", "c"]

    inner = handled(lambda state: Command(graph=Command.PARENT, update={"log": ["left"]}), never)
    assert engine.invoke(chain(State, sub=inner), {"x": 1})["log"] == ["left"]


# ── what is seen of it ───────────────────────────────────────────────────────────────────────────────────────


def test_streams_show_the_failure_and_the_handler(engine):
    items = engine.stream(handled(), {"x": 1}, stream_mode=["tasks", "updates", "values"])
    tasks = [(data["name"], data.get("error"), "result" in data) for mode, data in items if mode == "tasks"]
    assert tasks == [
        ("a", None, False),
        ("a", "Boom('down')", True),
        ("__error_handler__a", None, False),
        ("__error_handler__a", None, True),
    ]
    updates = [data for mode, data in items if mode == "updates"]
    assert updates == [{"__error_handler__a": {"log": ["a: Boom('down')"]}}]
    assert [data["log"] for mode, data in items if mode == "values"] == [[], ["a: Boom('down')"]]


def test_an_edit_counts_as_the_node_that_was_handled(engine, saver):
    graph = handled(saver=saver)
    engine.invoke(graph, {"x": 1}, thread())
    engine.update(graph, thread(), {"log": ["edited"]})
    assert engine.state(graph, thread()).next == ("b",)


def test_a_drawing_shows_where_handlers_lead():
    def go_on(state, error) -> Command[Literal["c"]]:
        return Command(goto="c")

    edges = {(edge.source, edge.target) for edge in handled(handler=go_on).get_graph().edges}
    assert ("a", "c") in edges
    edges = {(edge.source, edge.target) for edge in handled(chain(State, b=fails), go_on).get_graph().edges}
    assert ("a", "c") in edges


# ── beside others, and once ──────────────────────────────────────────────────────────────────────────────────


def beside(other, handler=note, saver=None):
    graph = StateGraph(State).add_node("a", fails, error_handler=handler).add_node("b", other)
    return graph.add_edge(START, "a").add_edge(START, "b").compile(saver)


def test_siblings_go_on_and_the_merge_is_in_plan_order(engine, saver):
    graph = beside(lambda state: {"log": ["b"]}, saver=saver)
    assert engine.invoke(graph, {"x": 1}, thread())["log"] == ["a: Boom('down')", "b"]


def test_it_runs_once_also_if_a_sibling_pauses(engine, saver):
    runs: list[str] = []

    def handler(state, error):
        runs.append(error.node)
        return {"log": ["handled"]}

    graph = beside(lambda state: {"log": [interrupt("sure?")]}, handler, saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert (paused.status, runs) == ("interrupted", ["a"])
    assert engine.state(graph, thread()).next == ("b",)
    assert engine.resume(graph, "yes", thread())["log"] == ["handled", "yes"]
    assert runs == ["a"]


def test_it_runs_once_also_if_a_sibling_fails_later(engine, saver):
    runs: list[str] = []
    tries: list[str] = []

    def handler(state, error):
        runs.append(error.node)
        return {"log": ["handled"]}

    def other(state):
        tries.append("b")
        if len(tries) == 1:
            raise OSError("other")
        return {"log": ["b"]}

    graph = beside(other, handler, saver)
    with pytest.raises(OSError, match="other"):
        engine.invoke(graph, {"x": 1}, thread())
    before = len(runs)
    result = engine.invoke(graph, None, thread())
    assert result["log"] == ["handled", "b"]
    assert len(runs) == 1 or before == 0, "again only if it was stopped before it had begun"


def test_a_handler_may_ask_and_the_node_does_not_run_again(engine, saver):
    runs: list[str] = []

    def node(state):
        runs.append("a")
        raise Boom("down")

    def handler(state, error):
        return {"log": [interrupt("what now?", key="now"), type(error.error).__name__]}

    graph = handled(node, handler, saver=saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert [question.value for question in paused.interrupts] == ["what now?"]
    snapshot = engine.state(graph, thread())
    assert [question.key for question in snapshot.tasks[0].interrupts] == ["now"]
    assert engine.resume(graph, {"now": "this"}, thread())["log"] == ["this", "RecordedError"]
    assert runs == ["a"]


def test_a_handler_that_fails_fails_the_run_and_is_gone_on_with(engine, saver):
    runs: list[str] = []

    def node(state):
        runs.append("a")
        raise Boom("down")

    def handler(state, error):
        runs.append("handler")
        if len(runs) == 2:
            raise OSError("the handler too")
        assert isinstance(error.error, RecordedError)
        return {"log": [str(error.error)]}

    graph = handled(node, handler, saver=saver)
    with pytest.raises(OSError, match="the handler too") as caught:
        engine.invoke(graph, {"x": 1}, thread())
    assert failure(caught.value).node == "__error_handler__a"
    assert any("error handler of node 'a'" in line and "down" in line for line in caught.value.__notes__)
    assert engine.state(graph, thread()).tasks[0].error == "OSError('the handler too')"
    result = engine.invoke(graph, None, thread())
    assert "Boom('down')" in result["log"][0]
    assert runs == ["a", "handler", "handler"]


def test_a_process_that_dies_between_failure_and_handler_goes_on_with_the_handler(engine, saver):
    runs: list[str] = []

    def node(state):
        runs.append("a")
        raise Boom("down")

    def dies(state, error):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.invoke(handled(node, dies, saver=saver), {"x": 1}, thread())
    assert engine.invoke(handled(node, saver=saver), None, thread())["log"] != []
    assert runs == ["a"]


def test_without_its_handler_a_node_that_failed_runs_again(engine, saver):
    def dies(state, error):
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - it says nothing
        engine.invoke(handled(handler=dies, saver=saver), {"x": 1}, thread())
    again = handled(lambda state: {"log": ["again"]}, None, saver=saver)
    assert engine.invoke(again, None, thread())["log"] == ["again", "b", "c"]


def test_a_handler_in_a_graph_whose_nodes_run_ahead(engine, saver):
    """Nobody knows what a handler writes and where it leads, so nothing passes it."""

    class Reads(TypedDict, total=False):
        x: Any

    class ReadsOther(TypedDict, total=False):
        log: list[Any]

    def other(state: ReadsOther):
        return {"log": ["other"]}

    def reads(state: Reads):
        return {"log": [f"read {state['x']}"]}

    graph = StateGraph(State)
    graph.add_node("a", fails, error_handler=lambda state, error: {"x": "handled"}, writes=["x"])
    graph.add_node("b", other, writes=["log"]).add_node("c", reads, writes=["log"])
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c")
    for schedule in ("superstep", "dataflow"):
        app = graph.compile(saver, schedule=schedule)
        result = engine.invoke(app, {"x": "before"}, thread(schedule))
        assert (result["log"], result.steps) == (["other", "read handled"], 2)


# ── what can't be ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("handler", [3, "note", chain(State, a=fails)], ids=["number", "text", "graph"])
def test_a_handler_is_a_function(handler):
    with pytest.raises(GraphBuildError, match=r"error handler of node 'a' is .* must be a function"):
        StateGraph(State).add_node("a", fails, error_handler=handler)
    with pytest.raises(GraphBuildError, match="error handler of all nodes is"):
        StateGraph(State).set_node_defaults(error_handler=handler)


def test_only_handlers_may_ask_for_the_error():
    with pytest.raises(GraphBuildError, match="'error' that nothing fills"):
        StateGraph(State).add_node("a", note).add_edge(START, "a").compile()
