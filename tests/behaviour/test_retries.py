"""When a failed node is tried again, how often, and what its error says when it isn't."""

import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest

from juncture import END, START, RetryPolicy, Runtime, StateGraph, failure, interrupt
from tests.behaviour.building import chain, thread
from tests.behaviour.leftovers import nothing_left

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


class Boom(Exception):
    """Users' own."""


def failing(engine, graph) -> Exception:
    """The exception of a run that fails."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is: the test looks at it
        engine.invoke(graph, {"x": 1})
    return caught.value


def at_once(**more: Any) -> RetryPolicy:
    """A policy that doesn't wait."""
    return RetryPolicy(initial_interval=0, jitter=False, **more)


def retried(node, *policies, saver=None):
    graph = StateGraph(State).add_node(
        "a", node, retry_policy=policies[0] if len(policies) == 1 else policies
    )
    return graph.add_edge(START, "a").compile(saver)


def test_a_failed_try_is_followed_by_another(engine, colour, saver):
    tries: list[int] = []

    def flaky(state, runtime: Runtime):
        tries.append(runtime.execution_info.node_attempt)
        state["log"].append("left over")
        if len(tries) < 3:
            raise Boom
        return {"log": ["done"]}

    graph = retried(colour(flaky), at_once(max_attempts=5), saver=saver)
    result = engine.invoke(graph, {"log": ["in"]}, thread())
    assert (result["log"], tries, result.steps) == (["in", "done"], [1, 2, 3], 1)


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_max_attempts_counts_every_try_and_the_error_says_so(engine, colour, attempts):
    tries: list[int] = []

    def fails(state):
        tries.append(1)
        raise Boom(len(tries))

    error = failing(engine, retried(colour(fails), at_once(max_attempts=attempts)))
    assert len(tries) == attempts
    assert error.args == (attempts,), "the last try's own"
    assert failure(error).attempt == attempts
    assert any("not retried" in note and str(attempts) in note for note in error.__notes__)


def test_an_exception_no_policy_names_is_not_retried_and_a_note_says_why(engine, colour):
    tries: list[int] = []

    def fails(state):
        tries.append(1)
        raise Boom

    error = failing(engine, retried(colour(fails), at_once(retry_on=KeyError)))
    assert len(tries) == 1
    assert any("not retried" in note and "Boom" in note and "KeyError" in note for note in error.__notes__)


@pytest.mark.parametrize(
    "retry_on",
    [Boom, (KeyError, Boom), [Boom], lambda error: isinstance(error, Boom), Exception],
    ids=["class", "tuple", "list", "predicate", "base class"],
)
def test_retry_on_takes_a_class_several_or_a_predicate(engine, retry_on):
    tries: list[int] = []

    def fails(state):
        tries.append(1)
        raise Boom

    failing(engine, retried(fails, at_once(retry_on=retry_on, max_attempts=2)))
    assert len(tries) == 2


def test_by_default_programming_errors_are_not_retried_and_connection_errors_are(engine):
    tries: list[str] = []

    def fails(error):
        def node(state):
            tries.append(type(error).__name__)
            raise error

        return node

    for error in (
        ValueError(),
        TypeError(),
        KeyError(),
        OSError(),
        RuntimeError(),
        ConnectionError(),
        Boom(),
    ):
        failing(engine, retried(fails(error), at_once(max_attempts=2)))
    assert tries == [
        "ValueError", "TypeError", "KeyError", "OSError", "RuntimeError",
        "ConnectionError", "ConnectionError", "Boom", "Boom",
    ]  # fmt: skip


def test_the_first_policy_that_names_the_exception_counts(engine):
    tries: list[int] = []

    def fails(state):
        tries.append(1)
        raise Boom

    failing(engine, retried(fails, at_once(retry_on=KeyError, max_attempts=9), at_once(max_attempts=2)))
    assert len(tries) == 2


def test_a_retry_waits_without_holding_up_its_siblings(engine):
    tries: list[str] = []
    sibling = threading.Event()

    def flaky(state):
        tries.append("flaky")
        if len(tries) == 1:
            raise Boom
        assert sibling.is_set(), "the other task ran while this one waited for its retry"
        return {"log": ["flaky"]}

    def other(state):
        sibling.set()
        return {"log": ["other"]}

    graph = StateGraph(State).add_node(
        "a", flaky, retry_policy=RetryPolicy(initial_interval=0.05, jitter=False)
    )
    graph.add_node("b", other).add_edge(START, "a").add_edge(START, "b")
    result = engine.invoke(graph.compile(), {"x": 1}, {"max_concurrency": 1})
    assert result["log"] == ["flaky", "other"]


def test_a_failure_elsewhere_ends_the_waiting_for_a_retry(engine):
    """The retry would come in an hour."""
    waiting = threading.Event()

    def flaky(state):
        waiting.set()
        raise Boom("flaky")

    def fails(state):
        assert waiting.wait(WAIT)
        raise ValueError("other")

    graph = StateGraph(State).add_node(
        "a", flaky, retry_policy=RetryPolicy(initial_interval=3600, max_interval=3600)
    )
    graph.add_node("b", fails).add_edge(START, "a").add_edge(START, "b")
    with nothing_left():
        error = failing(engine, graph.compile())
    assert isinstance(error, ValueError | Boom)


def test_a_pause_is_not_retried(engine, colour, saver):
    tries: list[int] = []

    def asks(state):
        tries.append(1)
        return {"x": interrupt("sure?")}

    graph = retried(colour(asks), at_once(retry_on=Exception, max_attempts=5), saver=saver)
    assert engine.invoke(graph, {"x": 1}, thread()).status == "interrupted"
    assert tries == [1]


def test_a_retried_try_after_an_answer_gets_the_answer_again(engine, colour, saver):
    tries: list[int] = []

    def asks(state):
        answer = interrupt("sure?")
        tries.append(1)
        if len(tries) == 1:
            raise Boom
        return {"x": answer}

    graph = retried(colour(asks), at_once(), saver=saver)
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.resume(graph, "yes", thread())["x"] == "yes"
    assert len(tries) == 2


def test_a_failing_router_is_retried_with_its_node(engine):
    tries: list[str] = []

    def route(state):
        tries.append("route")
        if len(tries) < 4:
            raise Boom
        return END

    graph = StateGraph(State).add_node("a", lambda state: tries.append("a"), retry_policy=at_once())
    graph = graph.add_edge(START, "a").add_conditional_edges("a", route).compile()
    engine.invoke(graph, {"x": 1})
    assert tries == ["a", "route"] * 2


def test_a_nested_graph_is_retried_as_a_whole(engine, colour):
    tries: list[str] = []

    def flaky(state):
        tries.append("leaf")
        if len(tries) < 2:
            raise Boom
        return {"log": ["leaf"]}

    inner = chain(State, leaf=colour(flaky))
    graph = StateGraph(State).add_node("sub", inner, retry_policy=at_once()).add_edge(START, "sub").compile()
    assert engine.invoke(graph, {"log": ["in"]})["log"] == ["in", "leaf"]


def test_a_generator_is_retried_from_its_beginning(engine):
    tries: list[int] = []

    def node(state):
        yield {"log": ["piece"]}
        tries.append(1)
        if len(tries) == 1:
            raise Boom
        yield {"log": ["last"]}

    assert engine.invoke(retried(node, at_once()), {"log": []})["log"] == ["piece", "last"]


def test_defaults_apply_to_nodes_that_say_nothing(engine):
    tries: list[str] = []

    def node(name):
        def run(state):
            tries.append(name)
            raise Boom

        return run

    graph = StateGraph(State).add_node("a", node("a"))
    graph.set_node_defaults(retry_policy=at_once(max_attempts=2))
    graph.add_edge(START, "a")
    failing(engine, graph.compile())
    assert tries == ["a", "a"]


@pytest.mark.parametrize(
    "options",
    [{"max_attempts": 0}, {"initial_interval": -1}, {"backoff_factor": 0}, {"max_interval": -1}],
    ids=str,
)
def test_a_policy_that_cannot_be_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options)) + "|intervals"):
        RetryPolicy(**options)
