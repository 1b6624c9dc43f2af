"""The three places to pause: before a node, after it, and after it but before its route (right-behaviour 25; B.7 72-78)."""

from typing import Any

import pytest

from juncture import (
    END,
    START,
    Command,
    GraphBuildError,
    Interrupt,
    InvalidUpdateError,
    PendingInterruptError,
    Send,
    StateGraph,
    interrupt,
)
from tests.behaviour.building import builder, chain, nothing, thread
from tests.behaviour.ran import Ran, State

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def ran():
    return Ran()


def routed(ran: Ran, kind: str = "node", **options: Any) -> StateGraph:
    """a -> b -> c or d, as the key x says; b is of the kind."""

    def stream(state):
        ran.append("b")
        yield {"log": ["b"]}

    async def awaited(state):
        ran.append("b")
        return {"log": ["b"]}

    kinds = {
        "node": lambda: ran.step("b"),
        "stream": lambda: stream,
        "async": lambda: awaited,
        "graph": lambda: chain(State, inner=ran.step("b")),
    }
    graph = StateGraph(State).add_node("a", ran.step("a"))
    if kind == "factory":
        graph.add_node("b", factory=lambda: ran.step("b"), **options)
    else:
        graph.add_node("b", kinds[kind](), **options)
    for name in "cd":
        graph.add_node(name, ran.step(name)).add_edge(name, END)

    def route(state):
        ran.append("route")
        return state.get("x", "c")

    return graph.add_edge(START, "a").add_edge("a", "b").add_conditional_edges("b", route, ["c", "d"])


# ---- a node's own functions


KINDS = ("node", "stream", "async", "graph", "factory")


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_may_ask_before_it_runs(engine, saver, ran, kind):
    seen: list[Any] = []

    def before(state):
        seen.append(list(state["log"]))
        return {"why": "first"} if len(state["log"]) == 1 else None

    def graph():
        return routed(ran, kind, interrupt_before=before).compile(saver)

    first = engine.invoke(graph(), {}, thread("t"))
    (question,) = first.interrupts
    assert (question.when, question.node, question.value) == ("before", "b", {"why": "first"})
    assert (question.namespace, len(question.id)) == ((), 32)
    assert ran == ["a"]
    assert engine.state(graph(), thread("t")).next == ("b",)
    assert engine.state(graph(), thread("t")).tasks[0].interrupts == (question,)
    assert engine.invoke(graph(), None, thread("t"))["log"] == ["a", "b", "c"]
    assert seen == [["a"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asks", [True, False])
def test_a_node_may_ask_after_it_has_run_with_its_result(engine, saver, ran, kind, asks):
    def after(state, result):
        return {"had": state["log"], "got": result["log"]} if asks else None

    def graph():
        return routed(ran, kind, interrupt_after=after).compile(saver)

    result = engine.invoke(graph(), {}, thread("t"))
    if asks:
        (question,) = result.interrupts
        assert (question.when, question.node, question.value) == ("after", "b", {"had": ["a"], "got": ["b"]})
        assert result["log"] == engine.state(graph(), thread("t")).values["log"] == ["a", "b"]
        assert ran == ["a", "b", "route"]
        assert engine.state(graph(), thread("t")).interrupts == (question,)
        result = engine.invoke(graph(), None, thread("t"))
    assert result["log"] == ["a", "b", "c"]
    assert ran == ["a", "b", "route", "c"]


def test_the_functions_may_be_async_and_ask_for_runtime_and_config(engine, saver, ran):
    async def before(state, *, runtime, config):
        return (runtime.context, config["metadata"]["who"])

    async def after(state, result, runtime):
        return runtime.execution_info.thread_id

    graph = routed(ran, interrupt_before=before, interrupt_after=after).compile(saver)
    config = {**thread("t"), "metadata": {"who": "me"}}
    assert engine.invoke(graph, {}, config, context=7).interrupts[0].value == (7, "me")
    assert engine.invoke(graph, None, config, context=7).interrupts[0].value == "t"
    assert engine.invoke(graph, None, config)["log"] == ["a", "b", "c"]


def test_each_send_may_be_asked_about(engine, saver, ran):
    def work(given):
        ran.append(given)
        return {"log": [given]}

    def graph():
        built = StateGraph(State).add_node("a", nothing)
        built.add_node("b", work, interrupt_before=lambda given: given > 1 and f"{given}?")
        built.add_edge(START, "a").add_edge("b", END)
        return built.add_conditional_edges("a", lambda _: [Send("b", n) for n in (1, 2, 3)], ["b"]).compile(
            saver
        )

    first = engine.invoke(graph(), {}, thread("t"))
    assert [question.value for question in first.interrupts] == ["2?", "3?"]
    assert (len({question.id for question in first.interrupts}), ran) == (2, [])
    assert engine.invoke(graph(), None, thread("t"))["log"] == [1, 2, 3]


def test_what_is_asked_after_the_last_node_is_asked_all_the_same(engine, saver, ran):
    graph = StateGraph(State).add_node("a", ran.step("a"), interrupt_after=lambda state, result: "ok?")
    compiled = graph.add_edge(START, "a").add_edge("a", END).compile(saver)
    assert engine.invoke(compiled, {}, thread("t")).interrupts[0].value == "ok?"
    assert engine.invoke(compiled, None, thread("t")).status == "completed"
    assert engine.state(compiled, thread("t")).interrupts == ()


@pytest.mark.parametrize("which", ["interrupt_before", "interrupt_after"])
def test_a_function_that_raises_fails_its_node_and_nothing_is_lost(engine, saver, ran, which):
    broken = [True]

    def asks(state, result=None):
        if broken:
            raise RuntimeError("no")

    graph = routed(ran, **{which: asks}).compile(saver)
    with pytest.raises(RuntimeError) as caught:
        engine.invoke(graph, {}, thread("t"))
    assert any("'b'" in each for each in caught.value.__notes__)
    broken.clear()
    assert engine.invoke(graph, None, thread("t"))["log"] == ["a", "b", "c"]


def test_a_function_that_is_none_is_refused_when_it_is_compiled(ran):
    with pytest.raises(GraphBuildError, match="interrupt_before of node 'b' is a list"):
        routed(ran, interrupt_before=["c"]).compile()
    with pytest.raises(GraphBuildError, match="one positional argument"):
        routed(ran, interrupt_after=lambda state: None).compile()


# ---- predicates


@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("given", ["compile", "call"])
def test_a_function_of_the_state_may_say_where_to_pause(engine, saver, ran, where, given):
    option = {where: lambda state: state["log"] == ["a", "b"]}
    graph = routed(ran).compile(saver, **(option if given == "compile" else {}))
    first = engine.invoke(graph, {}, thread("t"), **(option if given == "call" else {}))
    (question,) = first.interrupts
    assert first["log"] == ["a", "b"]
    assert (question.when, question.node) == (
        ("before", "c") if where == "interrupt_before" else ("after", "b")
    )
    assert engine.invoke(graph, None, thread("t"))["log"] == ["a", "b", "c"]


# ---- routes that are left


WAYS: dict[str, Any] = {
    "node": lambda graph, saver: graph(interrupt_before_route=True).compile(saver),
    "compile": lambda graph, saver: graph().compile(saver, interrupt_before_route=["b"]),
    "predicate": lambda graph, saver: graph().compile(
        saver, interrupt_before_route=lambda state: state["log"] == ["a", "b"]
    ),
    "node-and-list": lambda graph, saver: graph(
        interrupt_before_route=True, interrupt_after=lambda state, result: "look"
    ).compile(saver),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_route_is_decided_on_resume_on_the_state_as_people_edited_it(engine, saver, ran, kind, way):
    def graph():
        return WAYS[way](lambda **options: routed(ran, kind, **options), saver)

    first = engine.invoke(graph(), {}, thread("t"))
    assert [(q.when, q.node) for q in first.interrupts] == [("after", "b")]
    assert ran == ["a", "b"]
    state = engine.state(graph(), thread("t"))
    assert (state.next, state.tasks[0].path, state.tasks[0].interrupts) == (
        ("b",),
        ("route", 0, "b"),
        first.interrupts,
    )

    engine.update(graph(), thread("t"), {"x": "d"})

    assert ran == ["a", "b"]
    assert engine.state(graph(), thread("t")).next == ("b",)
    assert engine.invoke(graph(), None, thread("t"))["log"] == ["a", "b", "d"]
    assert ran == ["a", "b", "route", "d"]


def test_an_update_with_the_resume_is_seen_by_the_route(engine, saver, ran):
    graph = routed(ran, interrupt_before_route=True).compile(saver)
    engine.invoke(graph, {}, thread("t"))
    assert engine.invoke(graph, Command(resume="go", update={"x": "d"}), thread("t"))["log"] == [
        "a",
        "b",
        "d",
    ]


def test_a_route_that_was_decided_stays_and_an_edit_decides_anew(engine, saver, ran):
    """C79."""
    graph = routed(ran).compile(saver, interrupt_after=["b"])
    engine.invoke(graph, {}, thread("t"))
    assert engine.state(graph, thread("t")).next == ("c",)
    engine.update(graph, thread("t"), {"x": "d"})
    assert engine.invoke(graph, None, thread("t"))["log"] == ["a", "b", "d"]


def test_a_fresh_input_on_a_thread_with_an_open_route(engine, saver, ran):
    graph = routed(ran, interrupt_before_route=True).compile(saver)
    engine.invoke(graph, {}, thread("t"))
    with pytest.raises(PendingInterruptError):
        engine.invoke(graph, {"x": "d"}, thread("t"))
    assert engine.invoke(graph, None, thread("t"))["log"] == ["a", "b", "c"]
    assert engine.invoke(graph, {"x": "d"}, thread("t")).status == "interrupted"
    assert engine.invoke(graph, None, thread("t"))["log"][3:] == ["a", "b", "d"]


def test_a_node_that_loops_to_itself_pauses_before_every_route(engine, saver, ran):
    graph = StateGraph(State).add_node("a", ran.step("a"), interrupt_before_route=True).add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 3 else END, ["a", END])
    compiled = graph.compile(saver)
    assert engine.invoke(compiled, {}, thread("t")).interrupts[0].when == "after"
    for _ in range(2):
        assert engine.invoke(compiled, None, thread("t")).interrupts[0].when == "after"
    assert engine.invoke(compiled, None, thread("t")).status == "completed"
    assert ran == ["a", "a", "a"]


def test_a_router_that_returns_a_command(engine, saver, ran):
    graph = builder(State, {name: ran.step(name) for name in "abc"}, (START, "a"), ("b", END), ("c", END))
    graph.add_conditional_edges(
        "a", lambda state: Command(goto=state["x"], update={"y": "routed"}), ["b", "c"]
    )
    compiled = graph.compile(saver, interrupt_before_route="*")
    engine.invoke(compiled, {"x": "b"}, thread("t"))
    done = engine.invoke(
        compiled, Command(resume=1, update={"x": "c"}), thread("t"), interrupt_before_route=()
    )
    assert done == {"log": ["a", "c"], "x": "c", "y": "routed"}


def test_an_open_route_inside_a_nested_graph(engine, saver, ran):
    def graph():
        return chain(
            State, saver=saver, outer=routed(ran, interrupt_before_route=True).compile(), after=ran.step("z")
        )

    first = engine.invoke(graph(), {}, thread("t"))
    (question,) = first.interrupts
    assert (question.when, question.node, len(question.namespace)) == ("after", "b", 1)
    state = engine.state(graph(), thread("t"), subgraphs=True)
    assert state.tasks[0].state.next == ("b",)
    engine.update(graph(), state.tasks[0].state.config, {"x": "d"})
    assert engine.invoke(graph(), None, thread("t"))["log"] == ["a", "b", "d", "z"]


def test_side_by_side_one_node_leaves_its_route_and_the_other_s_is_decided(engine, saver, ran):
    graph = builder(
        State, {name: ran.step(name) for name in "abcd"}, (START, "a"), (START, "b"), ("c", END), ("d", END)
    )
    for name, to in (("a", "c"), ("b", "d")):
        graph.add_conditional_edges(name, lambda state, to=to: [to, state.get("x", END)], ["c", "d", END])
    compiled = graph.compile(saver, interrupt_before_route=["a"])
    first = engine.invoke(compiled, {}, thread("t"))
    assert [question.node for question in first.interrupts] == ["a"]
    assert engine.state(compiled, thread("t")).next == ("a", "d")
    assert engine.invoke(compiled, None, thread("t"))["log"] == ["a", "b", "c", "d"]


def test_a_router_that_was_left_and_fails_is_asked_again(engine, saver, ran):
    broken = [True]

    def route(state):
        if broken:
            raise RuntimeError("no")
        return "b"

    graph = builder(State, {name: ran.step(name) for name in "ab"}, (START, "a"), ("b", END))
    compiled = graph.add_conditional_edges("a", route, ["b"]).compile(saver, interrupt_before_route=["a"])
    engine.invoke(compiled, {}, thread("t"))
    with pytest.raises(RuntimeError):
        engine.invoke(compiled, None, thread("t"))
    broken.clear()
    assert engine.invoke(compiled, None, thread("t"))["log"] == ["a", "b"]
    assert ran == ["a", "b"]


def test_a_router_that_was_left_may_ask(engine, saver, ran):
    from juncture import interrupt

    graph = builder(State, {name: ran.step(name) for name in "abc"}, (START, "a"), ("b", END), ("c", END))
    compiled = graph.add_conditional_edges("a", lambda _: interrupt("where?"), ["b", "c"]).compile(
        saver, interrupt_before_route=["a"]
    )
    engine.invoke(compiled, {}, thread("t"))
    asked = engine.invoke(compiled, None, thread("t"))
    assert [(question.value, question.when) for question in asked.interrupts] == [("where?", "inside")]
    assert engine.invoke(compiled, None, thread("t")).interrupts == asked.interrupts
    assert engine.resume(compiled, "c", thread("t"))["log"] == ["a", "c"]


def test_a_route_saved_as_open_is_refused_by_a_graph_without_the_node(engine, saver, ran):
    from juncture import ConfigError

    engine.invoke(routed(ran, interrupt_before_route=True).compile(saver), {}, thread("t"))
    other = chain(State, saver=saver, a=ran.step("a"))
    with pytest.raises(ConfigError, match="'b'"):
        engine.invoke(other, None, thread("t"))


def test_all_three_look_the_same(engine, saver, ran):
    def graph(**options):
        return routed(ran, **options).compile(saver)

    found = [
        engine.invoke(graph(**options), {}, thread(str(place))).interrupts[0]
        for place, options in enumerate(
            [
                {"interrupt_before": lambda state: "v"},
                {"interrupt_after": lambda state, result: "v"},
                {"interrupt_before_route": True, "interrupt_after": lambda state, result: "v"},
            ]
        )
    ]
    assert [(q.value, q.node, q.namespace, q.key) for q in found] == [("v", "b", (), None)] * 3
    assert all(isinstance(q, Interrupt) for q in found)


# ---- the easy way


def test_resume_and_pending(engine, saver, ran):
    def graph():
        built = builder(State, {name: ran.asks(name) for name in "ab"}, (START, "a"), (START, "b"))
        return built.compile(saver)

    def resumed(*args, **options):
        return engine.call(graph().resume, graph().aresume, *args, **options)

    def pending():
        return engine.call(graph().pending, graph().apending, "t")

    first = engine.invoke(graph(), {}, thread("t"))
    assert pending() == first.interrupts
    a, b = first.interrupts
    assert resumed("t", {b.id: 2}, update={"x": 1}).interrupts == (a,)
    assert pending() == (a,)
    assert resumed("t", 1) == {"log": [("a", 1), ("b", 2)], "x": 1}
    assert pending() == ()


def test_resume_without_answers_goes_on_past_a_pause(engine, saver, ran):
    graph = routed(ran).compile(saver, interrupt_before=["b"])
    engine.invoke(graph, {}, thread("t"))
    assert engine.call(graph.resume, graph.aresume, "t")["log"] == ["a", "b", "c"]


def test_new_input_may_discard_what_is_asked(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.asks("a"))
    engine.invoke(graph, {"x": 1}, thread("t"))
    with pytest.raises(PendingInterruptError, match="on_pending"):
        engine.invoke(graph, {"x": 2}, thread("t"))
    anew = engine.invoke(graph, {"x": 2}, thread("t"), on_pending="discard")
    assert (anew["x"], len(anew.interrupts)) == (2, 1)
    assert engine.resume(graph, "yes", thread("t"))["log"] == [("a", "yes")]


# ---- routes that are asked apart and not left


def quiet(state, result):
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_asks_nothing_leaves_no_route(engine, saver, ran, kind):
    graph = routed(ran, kind, interrupt_before_route=True, interrupt_after=quiet).compile(saver)
    assert engine.invoke(graph, {"x": "d"}, thread("t"))["log"] == ["a", "b", "d"]
    assert ran == ["a", "b", "route", "d"]


@pytest.mark.parametrize("beside", [True, False])
def test_a_route_asked_apart_may_ask_fail_or_leave(engine, saver, ran, beside):
    from juncture import RetryPolicy, interrupt

    broken = [True, True]

    def route(state):
        if broken:
            broken.pop()
            raise OSError("no")
        return interrupt("where?")

    def graph():
        built = StateGraph(State)
        policy = RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=3, retry_on=OSError)
        built.add_node(
            "a", ran.step("a"), interrupt_before_route=True, interrupt_after=quiet, retry_policy=policy
        )
        for name in "bcz":
            built.add_node(name, ran.step(name)).add_edge(name, END)
        built.add_edge(START, "a").add_conditional_edges("a", route, ["b", "c"])
        return (built.add_edge(START, "z") if beside else built.add_edge("b", "z")).compile(saver)

    assert [q.value for q in engine.invoke(graph(), {}, thread("t")).interrupts] == ["where?"]
    done = engine.resume(graph(), "c", thread("t"))
    assert done["log"] == (["a", "z", "c"] if beside else ["a", "c"])


@pytest.mark.parametrize("later", [True, False])
def test_a_router_asked_apart_may_leave_for_the_enclosing_graph(engine, saver, ran, later):
    def graph(checkpointer=None):
        inner = StateGraph(State).add_node("a", ran.step("a"), interrupt_before_route=True)
        if not later:
            inner.nodes["a"].interrupt_after = quiet
        inner.add_edge(START, "a")
        inner.add_conditional_edges(
            "a", lambda _: Command(graph=Command.PARENT, goto="z", update={"y": "up"})
        )
        if checkpointer is not None:
            return inner.compile(checkpointer)
        outer = (
            StateGraph(State)
            .add_node("sub", inner.compile(), destinations=("z",))
            .add_node("z", ran.step("z"))
        )
        return outer.add_edge(START, "sub").compile(saver)

    result = engine.invoke(graph(), {}, thread("t"))
    if later:
        result = engine.invoke(graph(), None, thread("t"))
    assert result == {"log": ["a", "z"], "y": "up"}
    with pytest.raises(Exception, match="no parent graph"):
        engine.invoke(graph(saver), {}, thread("u"))
        engine.invoke(graph(saver), None, thread("u"))


def test_what_decides_whether_to_pause_may_not_ask_itself(engine, saver, ran):
    from juncture import InterruptError, interrupt

    graph = routed(ran, interrupt_before=lambda state: interrupt("?")).compile(saver)
    with pytest.raises(InterruptError, match="interrupt_before of node 'b' used interrupt"):
        engine.invoke(graph, {}, thread("t"))


def test_a_step_that_cannot_be_committed_says_so_and_not_what_a_predicate_makes_of_it(engine, saver):
    from juncture import InvalidUpdateError

    graph = builder(
        State,
        {name: lambda state: {"x": 1} for name in "ab"},
        (START, "a"),
        (START, "b"),
        silence=["concurrent-writes"],
    )
    compiled = graph.compile(saver, interrupt_after=lambda state: state["x"])
    with pytest.raises(InvalidUpdateError, match="'x'"):
        engine.invoke(compiled, {}, thread("t"))


# ---- routes that are left, in other ways


@pytest.mark.parametrize("before", [True, False, None])
def test_what_ended_beside_a_question_keeps_its_open_route(engine, saver, ran, before):
    """Whether its routers were asked then doesn't depend on what a later run pauses for."""

    def graph():
        built = StateGraph(State).add_node("a", ran.step("a"))
        built.add_node("asks", lambda state: {"log": [interrupt("?")]})
        built.add_node("c", ran.step("c")).add_edge("c", END).add_edge("asks", END)
        built.add_edge(START, "a").add_edge(START, "asks")
        built.add_conditional_edges("a", lambda state: "c", ["c"])
        return built.compile(saver)

    leaves: dict[str, Any] = {"interrupt_before_route": ["a"]}
    first, second = (leaves, leaves) if before is None else (leaves, {}) if before else ({}, leaves)
    engine.invoke(graph(), {}, thread("t"), **first)
    resumed = engine.invoke(graph(), Command(resume="yes"), thread("t"), **second)
    done = resumed if resumed.status == "completed" else engine.invoke(graph(), None, thread("t"))
    assert done["log"] == ["a", "yes", "c"]
    assert ran.count("a") == 1


def test_a_left_router_that_updates_shows_and_counts(engine, saver, ran):
    def inner():
        built = StateGraph(State).add_node("a", ran.step("a"), interrupt_before_route=True)
        built.add_node("b", ran.step("b"), destinations=()).add_edge("b", END).add_edge(START, "a")
        built.add_conditional_edges("a", lambda state: Command(update={"log": ["routed"]}, goto="b"), ["b"])
        return built

    graph = inner().compile(saver)
    engine.invoke(graph, {}, thread("t"))
    shown = engine.stream(graph, None, thread("t"), stream_mode="values")
    assert [item["log"] for item in shown] == [["a", "routed"], ["a", "routed", "b"]]
    outer = StateGraph(State).add_node("sub", inner().compile()).add_edge(START, "sub").compile(saver)
    engine.invoke(outer, {}, thread("nested"))
    assert engine.invoke(outer, None, thread("nested"))["log"] == ["a", "routed", "b"]


def test_what_one_left_router_writes_counts_where_another_leaves_for_the_enclosing_graph(engine, saver, ran):
    inner = StateGraph(State).add_node("a", ran.step("a"), interrupt_before_route=True).add_edge(START, "a")
    inner.add_node("b", ran.step("b")).add_edge("b", END)

    def writes(state):
        return Command(update={"log": ["wrote"]}, goto="b")

    def leaves(state):
        return Command(graph=Command.PARENT, goto="z")

    inner.add_conditional_edges("a", writes, ["b"]).add_conditional_edges("a", leaves, ["b"])
    outer = StateGraph(State).add_node("sub", inner.compile(), destinations=("z",))
    graph = outer.add_node("z", ran.step("z")).add_edge(START, "sub").compile(saver)
    engine.invoke(graph, {}, thread("t"))
    assert engine.invoke(graph, None, thread("t"))["log"] == ["a", "wrote", "z"]


def test_a_left_router_cannot_leave_where_nothing_encloses(engine, saver, ran):
    built = StateGraph(State).add_node("a", ran.step("a"), interrupt_before_route=True).add_edge(START, "a")
    built.add_conditional_edges("a", lambda state: Command(graph=Command.PARENT, update={"x": 1}))
    graph = built.compile(saver)
    engine.invoke(graph, {}, thread("t"))
    with pytest.raises(InvalidUpdateError, match="no parent"):
        engine.invoke(graph, None, thread("t"))


@pytest.mark.parametrize("later", [True, False])
def test_a_lenient_router_asked_apart_warns_of_what_leads_nowhere(engine, saver, ran, caplog, later):
    built = StateGraph(State, strict=False).add_node("a", ran.step("a"), interrupt_before_route=True)
    if not later:
        built.nodes["a"].interrupt_after = quiet
    built.add_edge(START, "a")
    built.add_conditional_edges("a", lambda state: "nowhere")
    graph = built.compile(saver)
    result = engine.invoke(graph, {}, thread("t"))
    if later:
        result = engine.invoke(graph, None, thread("t"))
    assert result["log"] == ["a"]
    assert "nowhere" in caplog.text
