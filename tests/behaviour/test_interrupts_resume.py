"""Going on with a paused thread: in nested graphs, in routers, with updates, at static pauses; and inputs that would lose
a question."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    END,
    START,
    Command,
    ConfigError,
    GraphBuildError,
    Interrupt,
    JunctureError,
    NothingToResumeError,
    PendingInterruptError,
    Runtime,
    interrupt,
)
from tests.behaviour.building import builder, chain, fan, nothing, thread, wrote
from tests.faulty import faulty

pytestmark = pytest.mark.timeout(20)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    x: Any
    y: Any


class Ran(list[str]):
    """Which nodes were begun, in order."""

    def step(self, name: str) -> Any:
        def node(state):
            self.append(name)
            return {"log": [name]}

        return node

    def asks(self, name: str) -> Any:
        def node(state):
            self.append(name)
            return {"log": [(name, interrupt(f"{name}?"))]}

        return node


@pytest.fixture
def ran():
    return Ran()


def questions(result) -> list[Any]:
    return [question.value for question in result.interrupts]


def by_value(result) -> dict[Any, str]:
    return {question.value: question.id for question in result.interrupts}


# ── nested graphs ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_question_of_a_nested_graph_surfaces_and_finished_steps_are_not_repeated(
    engine, colour, saver, ran, depth
):
    graph = chain(
        State, before=colour(ran.step("before")), ask=colour(ran.asks("ask")), after=ran.step("after")
    )
    for _ in range(depth - 1):
        graph = chain(State, sub=graph)
    graph = chain(State, saver=saver, first=ran.step("first"), sub=graph, last=ran.step("last"))
    paused = engine.invoke(graph, {"log": ["in"]}, thread())
    (question,) = paused.interrupts
    assert (question.node, question.value) == ("ask", "ask?")
    assert [segment.partition(":")[0] for segment in question.namespace] == ["sub"] * depth
    assert paused["log"] == ["in", "first"]
    done = engine.resume(graph, "yes", thread())
    assert done["log"] == ["in", "first", "before", ("ask", "yes"), "after", "last"]
    assert ran == ["first", "before", "ask", "ask", "after", "last"]


def test_parallel_nested_graphs_are_answered_each_by_its_own(engine, colour, saver, ran):
    def sub(name):
        return chain(State, before=ran.step(f"{name} before"), ask=colour(ran.asks(name)))

    graph = fan(State, saver=saver, a=sub("a"), b=sub("b"))
    ids = by_value(engine.invoke(graph, {"x": 1}, thread()))
    assert sorted(ids) == ["a?", "b?"]
    ran.clear()
    half = engine.resume(graph, {ids["b?"]: "B"}, thread())
    assert (questions(half), ran) == (["a?"], ["b"])
    done = engine.resume(graph, "A", thread())
    assert done["log"] == ["a before", ("a", "A"), "b before", ("b", "B")]
    assert ran == ["b", "a"]


def test_several_questions_inside_one_nested_graph(engine, saver, ran):
    graph = chain(State, saver=saver, sub=fan(State, a=ran.asks("a"), b=ran.asks("b")))
    ids = by_value(engine.invoke(graph, {"x": 1}, thread()))
    assert questions(engine.resume(graph, {ids["a?"]: 1}, thread())) == ["b?"]
    assert engine.resume(graph, {ids["b?"]: 2}, thread())["log"] == [("a", 1), ("b", 2)]


def test_one_question_after_another_inside_a_nested_graph(engine, saver, ran):
    graph = chain(State, saver=saver, sub=chain(State, a=ran.asks("a"), b=ran.asks("b")), c=ran.asks("c"))
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["a?"]
    assert questions(engine.resume(graph, 1, thread())) == ["b?"]
    assert questions(engine.resume(graph, 2, thread())) == ["c?"]
    assert engine.resume(graph, 3, thread())["log"] == [("a", 1), ("b", 2), ("c", 3)]
    assert ran == ["a", "a", "b", "b", "c", "c"]


def test_a_question_of_a_graph_called_inside_a_node(engine, colour, saver, ran):
    inner = chain(State, before=ran.step("before"), ask=colour(ran.asks("ask")), after=ran.step("after"))

    def outer(state):
        ran.append("outer")
        return {"log": inner.invoke({"log": []})["log"]}

    graph = chain(State, saver=saver, first=ran.step("first"), outer=outer)
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert questions(paused) == ["ask?"]
    done = engine.resume(graph, "yes", thread())
    assert done["log"] == ["first", "before", ("ask", "yes"), "after"]
    assert ran == ["first", "outer", "before", "ask", "outer", "ask", "after"]
    inner.close()


def test_a_question_of_a_graph_awaited_inside_a_node(engine, colour, saver, ran):
    inner = chain(State, before=ran.step("before"), ask=colour(ran.asks("ask")))

    async def outer(state):
        try:
            return {"log": (await inner.ainvoke({"log": []}))["log"]}
        except Exception:
            return {"log": ["swallowed"]}

    graph = chain(State, saver=saver, outer=outer)
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["ask?"]
    assert engine.resume(graph, "yes", thread())["log"] == ["before", ("ask", "yes")]
    assert ran == ["before", "ask", "ask"]
    graph.close()
    inner.close()


def test_two_graphs_called_one_after_the_other_inside_a_node(engine, saver, ran):
    """The second call of the same graph is a call of its own."""
    inner = chain(State, ask=lambda state: {"log": [interrupt(f"{state['x']}?")]})

    def outer(state):
        one = inner.invoke({"x": "one"})["log"]
        two = inner.invoke({"x": "two"})["log"]
        return {"log": one + two}

    graph = chain(State, saver=saver, outer=outer)
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["one?"]
    assert questions(engine.resume(graph, 1, thread())) == ["two?"]
    assert engine.resume(graph, 2, thread())["log"] == [1, 2]


def test_questions_of_graphs_awaited_at_once_inside_a_node(engine, saver):
    inner = chain(State, ask=lambda state: {"log": [interrupt(f"{state['x']}?")]})

    async def outer(state):
        both = await asyncio.gather(
            inner.ainvoke({"x": "one"}), inner.ainvoke({"x": "two"}), return_exceptions=True
        )
        return {"log": [log for each in both if isinstance(each, dict) for log in each["log"]]}

    graph = chain(State, saver=saver, outer=outer)
    ids = by_value(engine.invoke(graph, {"x": 1}, thread()))
    assert sorted(ids) == ["one?", "two?"]
    half = engine.resume(graph, {ids["two?"]: 2}, thread())
    assert questions(half) == ["one?"]
    assert engine.resume(graph, 1, thread())["log"] == [1, 2]
    graph.close()


def test_graphs_called_in_another_order_on_resume_take_up_their_own_runs(engine, saver):
    """In a gather, in a batch, in threads: nobody promises an order."""

    def ask(state):
        return {"log": [(state["x"], interrupt(f"{state['x']}?"))]}

    inner = chain(State, begin=lambda state: {"log": [("begun", state["x"])]}, ask=ask)
    order = ["one", "two"]

    async def outer(state):
        found = await asyncio.gather(*[inner.ainvoke({"x": x}) for x in order], return_exceptions=True)
        return {
            "log": [(x, each["log"]) for x, each in zip(order, found, strict=True) if isinstance(each, dict)]
        }

    graph = chain(State, saver=saver, outer=outer)
    ids = by_value(engine.invoke(graph, {"x": 0}, thread()))
    order.reverse()
    done = engine.resume(graph, {ids["one?"]: 1, ids["two?"]: 2}, thread())
    assert done["log"] == [
        ("two", [("begun", "two"), ("two", 2)]),
        ("one", [("begun", "one"), ("one", 1)]),
    ]
    graph.close()


def test_a_batch_inside_a_node_asks_and_is_answered(engine, saver):
    inner = chain(State, ask=lambda state: {"log": [interrupt(f"{state['x']}?")]})

    def outer(state):
        return {"log": [result["log"] for result in inner.batch([{"x": n} for n in range(3)])]}

    graph = chain(State, saver=saver, outer=outer)
    result = engine.invoke(graph, {"x": 0}, thread())
    for _ in range(3):
        if result.status == "completed":
            break
        answers = {question.id: f"answer to {question.value}" for question in result.interrupts}
        result = engine.invoke(graph, Command(resume=answers), thread())
    assert result["log"] == [[f"answer to {n}?"] for n in range(3)]


def test_a_graph_called_with_a_thread_of_its_own_pauses_for_itself(engine, saver, ran):
    """Its questions are its thread's; the caller sees a result that says so."""
    inner = chain(State, saver=saver, ask=ran.asks("ask"))
    seen: list[str] = []

    def outer(state):
        seen.append(inner.invoke({"log": []}, thread_id="inner").status)

    graph = chain(State, saver=saver, outer=outer)
    assert engine.invoke(graph, {"x": 1}, thread("outer")).status == "completed"
    assert seen == ["interrupted"]
    assert engine.resume(inner, "yes", thread("inner"))["log"] == [("ask", "yes")]


def test_a_nested_graph_that_keeps_nothing_cannot_ask(engine):
    inner = builder(State, {"ask": lambda state: interrupt("?")}, (START, "ask")).compile(checkpointer=False)
    graph = builder(State, {"sub": inner}, (START, "sub")).compile("memory:")
    with pytest.raises(JunctureError, match="saver"):
        engine.invoke(graph, {"x": 1}, thread())


# ── routers ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("after", ["step", "sub"])
def test_a_router_may_ask(engine, colour, saver, ran, after):
    """Its node's writes aren't committed before it is answered."""

    def route(state):
        return interrupt(f"where, after {state['log'][-1]}?")

    first = ran.step("first") if after == "step" else chain(State, leaf=ran.step("first"))
    graph = builder(
        State, {"first": first, "left": ran.step("left"), "right": ran.step("right")}, (START, "first")
    )
    graph = graph.add_conditional_edges("first", colour(route), ["left", "right"]).compile(saver)
    paused = engine.invoke(graph, {"log": ["in"]}, thread())
    assert (questions(paused), paused["log"]) == (["where, after first?"], ["in"])
    done = engine.resume(graph, "right", thread())
    assert done["log"] == ["in", "first", "right"]
    graph.close()


def test_a_router_that_swallows_the_pause_pauses(engine, saver):
    def route(state):
        try:
            return interrupt("where?")
        except BaseException:
            return "left"

    graph = builder(
        State, {"a": nothing, "left": wrote("x", "left"), "right": wrote("x", "right")}, (START, "a")
    )
    graph = graph.add_conditional_edges("a", route, ["left", "right"]).compile(saver)
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["where?"]
    assert engine.resume(graph, "right", thread())["x"] == "right"


def test_a_node_and_its_router_may_both_ask(engine, colour, saver):
    def node(state):
        return {"log": [interrupt("node?")]}

    def route(state):
        return interrupt("route?")

    graph = builder(State, {"a": colour(node), "b": wrote("log", ["b"])}, (START, "a"))
    graph = graph.add_conditional_edges("a", colour(route), ["b", END]).compile(saver)
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["node?"]
    assert questions(engine.resume(graph, "n", thread())) == ["route?"]
    assert engine.resume(graph, "b", thread())["log"] == ["n", "b"]
    graph.close()


# ── inputs that would lose a question, and nothing to resume ─────────────────────────────────────────────────


@pytest.mark.parametrize("given", [{"x": 2}, {}, {"log": ["stray"]}], ids=str)
def test_plain_input_to_a_paused_thread_is_refused_and_loses_nothing(engine, saver, ran, given):
    graph = chain(State, saver=saver, a=ran.step("a"), b=ran.asks("b"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    ran.clear()
    with pytest.raises(PendingInterruptError) as caught:
        engine.invoke(graph, given, thread())
    assert paused.interrupts[0].id in str(caught.value)
    assert "b?" in str(caught.value)
    assert ran == []
    done = engine.resume(graph, "yes", thread())
    assert (done["x"], done["log"]) == (1, ["a", ("b", "yes")])


def test_plain_input_is_refused_while_a_nested_graph_waits(engine, saver, ran):
    graph = chain(State, saver=saver, sub=chain(State, ask=ran.asks("ask")))
    engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(PendingInterruptError, match=r"ask\?"):
        engine.invoke(graph, {"x": 2}, thread())
    assert engine.resume(graph, "yes", thread())["log"] == [("ask", "yes")]


def test_none_on_a_thread_with_an_open_question_keeps_it_open_and_runs_nothing(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.asks("a"))
    first = engine.invoke(graph, {"x": 1}, thread())
    again = engine.invoke(graph, None, thread())
    assert (again.status, again.interrupts) == ("interrupted", first.interrupts)
    assert ran == ["a"]


def test_none_on_a_finished_thread_is_an_error_and_no_restart(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"))
    engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(NothingToResumeError, match=r"'t'.*finished"):
        engine.invoke(graph, None, thread())
    assert ran == ["a"]


def test_none_on_an_unknown_thread_is_an_error(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"))
    with pytest.raises(NothingToResumeError, match="'nowhere'"):
        engine.invoke(graph, None, thread("nowhere"))
    assert ran == []
    assert saver.load("nowhere") is None


def test_an_answer_with_nothing_open_is_an_error(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.asks("a"))
    with pytest.raises(NothingToResumeError):
        engine.resume(graph, "yes", thread("unknown"))
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, "yes", thread())
    for _ in range(2):
        with pytest.raises(NothingToResumeError, match="nothing to resume"):
            engine.resume(graph, "yes again", thread())
    assert ran == ["a", "a"]


def test_an_answer_without_a_saver_is_an_error(engine, ran):
    with pytest.raises(ConfigError, match=r"Command\(resume=\.\.\.\) without checkpointer"):
        engine.resume(chain(State, a=ran.step("a")), "yes")
    assert ran == []


def test_new_input_to_a_finished_thread_goes_through_the_reducers_after_the_history(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.asks("a"))
    engine.invoke(graph, {"log": ["one"]}, thread())
    engine.resume(graph, 1, thread())
    engine.invoke(graph, {"log": ["two"]}, thread())
    assert engine.resume(graph, 2, thread())["log"] == ["one", ("a", 1), "two", ("a", 2)]


# ── resume with an update or a goto ──────────────────────────────────────────────────────────────────────────


def test_an_update_with_the_answer_is_applied_exactly_once_before_the_first_step(engine, colour, saver):
    seen: list[Any] = []

    def node(state):
        seen.append(list(state["log"]))
        return {"log": [interrupt("one?"), interrupt("two?")]}

    graph = chain(State, saver=saver, a=colour(node), b=wrote("log", ["end"]))
    engine.invoke(graph, {"log": ["in"]}, thread())
    paused = engine.invoke(graph, Command(resume=1, update={"log": ["edit"]}), thread())
    assert (questions(paused), paused["log"]) == (["two?"], ["in", "edit"])
    done = engine.resume(graph, 2, thread())
    assert done["log"] == ["in", "edit", 1, 2, "end"]
    assert seen == [["in"], ["in", "edit"], ["in", "edit"]]


def test_an_update_with_an_answer_to_one_of_two_is_applied_once(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.asks("a"), b=ran.asks("b"), c=ran.step("c"))
    ids = by_value(engine.invoke(graph, {"log": ["in"]}, thread()))
    engine.invoke(graph, Command(resume={ids["a?"]: 1}, update={"log": ["edit"]}), thread())
    done = engine.resume(graph, 2, thread())
    assert done["log"] == ["in", "edit", ("a", 1), ("b", 2), "c"]
    assert ran.count("c") == 1


def test_an_update_alone_keeps_the_question_open(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.asks("a"))
    first = engine.invoke(graph, {"log": ["in"]}, thread())
    edited = engine.invoke(graph, Command(update={"log": ["edit"]}), thread())
    assert (edited.status, edited.interrupts, edited["log"]) == (
        "interrupted",
        first.interrupts,
        ["in", "edit"],
    )
    assert engine.resume(graph, 1, thread())["log"] == ["in", "edit", ("a", 1)]


def test_an_update_reaches_a_nested_graph_s_parent_only_once(engine, saver, ran):
    graph = chain(State, saver=saver, sub=chain(State, before=ran.step("before"), ask=ran.asks("ask")))
    engine.invoke(graph, {"log": ["in"]}, thread())
    done = engine.invoke(graph, Command(resume=1, update={"log": ["edit"]}), thread())
    assert done["log"] == ["in", "edit", "before", ("ask", 1)]
    assert ran == ["before", "ask", "ask"]


@faulty("unreachable-node")
def test_a_goto_with_the_answer_adds_a_task(engine, saver, ran):
    graph = builder(State, {"a": ran.asks("a"), "b": ran.step("b")}, (START, "a")).compile(saver)
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.invoke(graph, Command(resume=1, goto="b"), thread())["log"] == [("a", 1), "b"]


def test_a_failing_update_leaves_the_question_open(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.asks("a"))
    engine.invoke(graph, {"x": 1}, thread())
    ran.clear()
    with pytest.raises(JunctureError, match="nope"):
        engine.invoke(graph, Command(resume=1, update={"nope": 1}), thread())
    assert ran == []
    assert questions(engine.invoke(graph, None, thread())) == ["a?"], "the answer counts only with its update"
    assert engine.resume(graph, 2, thread())["log"] == [("a", 2)]


# ── pauses before and after nodes ────────────────────────────────────────────────────────────────────────────


def test_a_pause_before_a_node(engine, colour, saver, ran):
    graph = builder(State, {"a": colour(ran.step("a")), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, interrupt_before=["b"])
    paused = engine.invoke(graph, {"x": 1}, thread())
    (pause,) = paused.interrupts
    assert isinstance(pause, Interrupt)
    assert (pause.node, pause.when, pause.value, pause.namespace, pause.key) == (
        "b",
        "before",
        None,
        (),
        None,
    )
    assert len(pause.id) == 32
    assert (paused.status, paused["log"], ran) == ("interrupted", ["a"], ["a"])
    done = engine.invoke(graph, None, thread())
    assert (done.status, done["log"]) == ("completed", ["a", "b"])


def test_a_pause_after_a_node(engine, colour, saver, ran):
    graph = builder(State, {"a": colour(ran.step("a")), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, interrupt_after=["a"])
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert [(p.node, p.when, p.value) for p in paused.interrupts] == [("a", "after", None)]
    assert (paused["log"], ran) == (["a"], ["a"])
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b"]
    assert ran == ["a", "b"]


@pytest.mark.parametrize("go_on", [None, Command(resume="go on")], ids=["None", "resume"])
def test_a_static_pause_is_left_by_none_or_by_an_answer(engine, saver, ran, go_on):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, interrupt_before=["a"], interrupt_after=["a"])
    assert [p.when for p in engine.invoke(graph, {"x": 1}, thread()).interrupts] == ["before"]
    assert [p.when for p in engine.invoke(graph, go_on, thread()).interrupts] == ["after"]
    assert engine.invoke(graph, go_on, thread())["log"] == ["a", "b"]


def test_a_pause_after_a_node_that_loops_to_itself_comes_every_time(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"))
    graph.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 3 else "b", ["a", "b"])
    graph = graph.compile(saver, interrupt_after=["a"])
    engine.invoke(graph, {"x": 1}, thread())
    assert ran == ["a"]
    engine.invoke(graph, None, thread())
    assert ran == ["a", "a"]
    engine.invoke(graph, None, thread())
    assert ran == ["a", "a", "a"]
    assert engine.invoke(graph, None, thread()).status == "completed"
    assert ran == ["a", "a", "a", "b"]


def test_a_pause_before_a_node_that_loops_to_itself_comes_every_time(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a")}, (START, "a"))
    graph.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 3 else [], ["a"])
    graph = graph.compile(saver, interrupt_before=["a"])
    engine.invoke(graph, {"x": 1}, thread())
    for count in range(3):
        assert ran == ["a"] * count
        result = engine.invoke(graph, None, thread())
    assert result.status == "completed"


def test_a_star_pauses_at_every_step(engine, saver, ran):
    graph = builder(State, {name: ran.step(name) for name in "abc"}, (START, "a"), ("a", "b"), ("a", "c"))
    graph = graph.compile(saver, interrupt_before="*")
    assert [p.node for p in engine.invoke(graph, {"x": 1}, thread()).interrupts] == ["a"]
    assert [p.node for p in engine.invoke(graph, None, thread()).interrupts] == ["b", "c"]
    assert engine.invoke(graph, None, thread()).status == "completed"
    assert sorted(ran) == ["a", "b", "c"]


def test_the_last_node_s_end_is_the_end_and_no_pause(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a")}, (START, "a")).compile(saver, interrupt_after=["a"])
    assert engine.invoke(graph, {"x": 1}, thread()).status == "completed"


def test_pauses_given_per_call_replace_the_compiled_ones(engine, saver, ran):
    graph = builder(State, {name: ran.step(name) for name in "abc"}, (START, "a"), ("a", "b"), ("b", "c"))
    graph = graph.compile(saver, interrupt_before=["b"])
    paused = engine.invoke(graph, {"x": 1}, thread(), interrupt_before=["c"])
    assert ([p.node for p in paused.interrupts], ran) == (["c"], ["a", "b"])
    assert engine.invoke(graph, None, thread(), interrupt_before=[]).status == "completed"
    ran.clear()
    assert engine.invoke(graph, {"x": 1}, thread("other"), interrupt_before=[]).status == "completed"


@pytest.mark.parametrize("kind", ["generator", "async generator", "nested"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_static_pauses_hold_for_every_kind_of_node(engine, saver, ran, kind, when):
    def pieces(state):
        ran.append("a")
        yield {"log": ["a"]}

    async def async_pieces(state):
        ran.append("a")
        yield {"log": ["a"]}

    node = {"generator": pieces, "async generator": async_pieces, "nested": chain(State, leaf=ran.step("a"))}[
        kind
    ]
    graph = builder(State, {"a": node, "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, **{f"interrupt_{when}": ["a"]})
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert [(p.node, p.when) for p in paused.interrupts] == [("a", when)]
    assert ran == ([] if when == "before" else ["a"])
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b"]
    assert ran == ["a", "b"]
    graph.close()


@pytest.mark.parametrize("go_on", [None, Command(resume="go on")], ids=["None", "resume"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_static_pauses_inside_nested_graphs(engine, saver, ran, when, go_on):
    inner = builder(State, {"one": ran.step("one"), "two": ran.step("two")}, (START, "one"), ("one", "two"))
    inner = inner.compile(**{f"interrupt_{when}": ["two" if when == "before" else "one"]})
    graph = chain(State, saver=saver, sub=inner, last=ran.step("last"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    (pause,) = paused.interrupts
    assert (pause.when, len(pause.namespace), ran) == (when, 1, ["one"])
    done = engine.invoke(graph, go_on, thread())
    assert (done.status, done["log"]) == ("completed", ["one", "two", "last"])
    assert ran == ["one", "two", "last"]


def test_a_static_pause_and_a_question_in_one_node(engine, saver, ran):
    graph = builder(State, {"a": ran.asks("a"), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, interrupt_before=["a"], interrupt_after=["a"])
    assert [p.when for p in engine.invoke(graph, {"x": 1}, thread()).interrupts] == ["before"]
    assert [p.when for p in engine.invoke(graph, None, thread()).interrupts] == ["inside"]
    assert [p.when for p in engine.resume(graph, "yes", thread()).interrupts] == ["after"]
    done = engine.invoke(graph, None, thread())
    assert (done.status, done["log"]) == ("completed", [("a", "yes"), "b"])


def test_plain_input_at_a_static_pause_is_refused_too(engine, saver, ran):
    graph = builder(State, {"a": ran.step("a"), "b": ran.step("b")}, (START, "a"), ("a", "b"))
    graph = graph.compile(saver, interrupt_before=["b"])
    engine.invoke(graph, {"x": 1}, thread())
    with pytest.raises(PendingInterruptError, match="'b'"):
        engine.invoke(graph, {"x": 2}, thread())
    assert engine.invoke(graph, None, thread())["log"] == ["a", "b"]


def test_new_messages_at_a_static_pause_come_after_the_history(engine, saver):
    graph = builder(
        State, {"a": wrote("log", ["history"]), "b": wrote("log", ["answer"])}, (START, "a"), ("a", "b")
    )
    graph = graph.compile(saver, interrupt_after=["a"])
    engine.invoke(graph, {"log": ["initial"]}, thread())
    done = engine.invoke(graph, Command(update={"log": ["more"]}), thread())
    assert (done.status, done["log"]) == ("completed", ["initial", "history", "more", "answer"])


def test_an_agent_s_loop_paused_before_its_tools(engine, saver, ran):
    def agent(state):
        ran.append("agent")
        return {"log": ["sunny" if "result" in state["log"] else "call the tool"]}

    def tools(state):
        ran.append("tools")
        return {"log": ["result"]}

    graph = builder(State, {"agent": agent, "tools": tools}, (START, "agent"), ("tools", "agent"))
    graph.add_conditional_edges(
        "agent", lambda state: END if state["log"][-1] == "sunny" else "tools", ["tools", END]
    )
    graph = graph.compile(saver, interrupt_before=["tools"])
    paused = engine.invoke(graph, {"log": ["weather?"]}, thread())
    assert ([p.node for p in paused.interrupts], ran) == (["tools"], ["agent"])
    assert engine.invoke(graph, None, thread())["log"][-1] == "sunny"
    assert ran == ["agent", "tools", "agent"]


def test_unknown_nodes_to_pause_at_are_named_at_compile():
    graph = builder(State, {"a": nothing}, (START, "a"))
    for which in ("interrupt_before", "interrupt_after"):
        with pytest.raises(GraphBuildError, match="nope"):
            graph.compile("memory:", **{which: ["nope"]})


# ── what pauses leave in sight ───────────────────────────────────────────────────────────────────────────────


def test_no_engine_key_is_in_the_state_or_the_result(engine, saver, ran):
    seen: list[Any] = []

    def look(state):
        seen.append(set(state))
        return {"x": interrupt("?")}

    graph = chain(State, saver=saver, a=look)
    paused = engine.invoke(graph, {"x": 1}, thread())
    done = engine.resume(graph, 2, thread())
    assert set(paused) == set(done) == {"x", "log"}
    assert seen == [{"x", "log"}] * 2


def test_leniently_the_result_carries_the_questions_under_langgraphs_key(engine, saver):
    graph = chain(State, saver=saver, options={"strict": False}, a=lambda state: {"x": interrupt("?")})
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert [question.value for question in paused["__interrupt__"]] == ["?"]
    assert engine.resume(graph, 2, thread())["x"] == 2


def test_leniently_the_kth_question_gets_the_kth_answer(engine, saver):
    asked = ["one", "two"]

    def node(state):
        return {"log": [interrupt(asked[0]), interrupt(asked[1])]}

    graph = chain(State, saver=saver, options={"strict": False}, a=node)
    engine.invoke(graph, {"x": 1}, thread())
    asked[0] = "something else"
    engine.resume(graph, 1, thread())
    assert engine.resume(graph, 2, thread())["log"] == [1, 2]


def test_leniently_new_input_discards_the_question(engine, saver):
    graph = chain(
        State, saver=saver, options={"strict": False}, a=lambda state: {"log": [interrupt(state["x"])]}
    )
    engine.invoke(graph, {"x": "first"}, thread())
    paused = engine.invoke(graph, {"x": "second"}, thread())
    assert questions(paused) == ["second"]
    assert engine.resume(graph, 2, thread())["log"] == [2]


def test_every_run_has_an_id_of_its_own_also_when_it_goes_on(engine, saver):
    seen: list[str] = []

    def node(state, runtime: Runtime):
        seen.append(runtime.execution_info.run_id)
        return {"x": interrupt("?")}

    graph = chain(State, saver=saver, a=node)
    paused = engine.invoke(graph, {"x": 1}, thread())
    done = engine.resume(graph, 2, thread())
    assert seen == [paused.run_id, done.run_id]
    assert paused.run_id != done.run_id
