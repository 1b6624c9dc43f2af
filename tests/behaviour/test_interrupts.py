"""Questions that a run waits for: asked, seen, answered, and never lost."""

import asyncio
import contextlib
import contextvars
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest

from juncture import (
    START,
    Answer,
    Answers,
    ConfigError,
    Interrupt,
    InterruptError,
    NothingToResumeError,
    ResumeMismatchError,
    Send,
    SerializationError,
    interrupt,
)
from juncture.errors import Cancelled
from tests.behaviour.building import builder, chain, compiled, fan, nothing, thread, wrote

pytestmark = pytest.mark.timeout(20)

WAIT = 10
"""Seconds after which something that should come is taken not to come."""


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

    def asks(self, name: str, *questions: Any) -> Any:
        """A node that asks one question after another and logs the answers."""

        def node(state):
            self.append(name)
            return {"log": [(name, *[interrupt(question) for question in questions or [f"{name}?"]])]}

        return node


@pytest.fixture
def ran():
    return Ran()


def questions(result) -> list[Any]:
    return [question.value for question in result.interrupts]


def by_value(result) -> dict[Any, str]:
    return {question.value: question.id for question in result.interrupts}


# ── one question ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_pauses_the_run_and_its_answer_goes_on(engine, colour, saver, ran):
    graph = chain(State, saver=saver, a=ran.step("a"), b=colour(ran.asks("b")), c=ran.step("c"))
    paused = engine.invoke(graph, {"log": ["in"]}, thread())
    assert (paused.status, paused["log"], paused.steps) == ("interrupted", ["in", "a"], 2)
    done = engine.resume(graph, "yes", thread())
    assert (done.status, done["log"], done.interrupts) == ("completed", ["in", "a", ("b", "yes"), "c"], ())
    assert ran == ["a", "b", "b", "c"]


def test_what_a_question_says_of_itself(engine, colour, saver):
    graph = chain(
        State, saver=saver, a=nothing, b=colour(lambda state: interrupt({"ask": ["this"]}, key="k"))
    )
    (question,) = engine.invoke(graph, {"x": 1}, thread()).interrupts
    assert isinstance(question, Interrupt)
    assert (question.value, question.node, question.namespace) == ({"ask": ["this"]}, "b", ())
    assert (question.key, question.when) == ("k", "inside")
    assert len(question.id) == 32
    assert set(question.id) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    "answer", [None, False, 0, "", [], {}, {"a": 1}, {1: 2}, ("t", 1), b"b", 2**70], ids=repr
)
def test_any_answer_arrives_as_it_was_given(engine, saver, answer):
    graph = chain(State, saver=saver, a=lambda state: {"x": ("got", interrupt("?"))})
    engine.invoke(graph, {"x": 1}, thread())
    result = engine.resume(graph, answer, thread())
    assert (result.status, result["x"]) == ("completed", ("got", answer))
    assert type(result["x"][1]) is type(answer)


def test_the_same_question_has_the_same_id_whenever_it_is_asked(engine, colour, saver, ran):
    """Asked twice by way of another question that is answered first."""
    graph = chain(State, saver=saver, a=colour(ran.asks("a", "first", "second")))
    first = by_value(engine.invoke(graph, {"x": 1}, thread()))
    again = by_value(engine.invoke(graph, None, thread()))
    assert first == again
    second = by_value(engine.resume(graph, 1, thread()))
    assert list(second) == ["second"]
    assert set(second.values()).isdisjoint(first.values())
    assert engine.resume(graph, 2, thread())["log"] == [("a", 1, 2)]


def test_questions_of_different_threads_differ_and_their_answers_do_not_cross(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.asks("a"))
    ids = {n: by_value(engine.invoke(graph, {"x": 1}, thread(f"t{n}")))["a?"] for n in range(5)}
    assert len(set(ids.values())) == 5
    for n in (3, 0, 4, 1, 2):
        assert engine.resume(graph, n, thread(f"t{n}"))["log"] == [("a", n)]
    with pytest.raises(NothingToResumeError):
        engine.resume(graph, 9, thread("t0"))


def test_another_object_of_the_same_graph_takes_the_answer(engine, saver):
    """As another process would."""

    def make():
        return chain(State, saver=saver, a=wrote("log", ["a"]), b=lambda state: {"log": [interrupt("sure?")]})

    engine.invoke(make(), {"x": 1}, thread())
    assert engine.resume(make(), "yes", thread())["log"] == ["a", "yes"]


def test_a_question_in_a_loop_is_a_new_one_every_time(engine, saver):
    def ask(state):
        return {"log": [interrupt("more?")]}

    graph = builder(State, {"ask": ask}, (START, "ask"))
    graph.add_conditional_edges("ask", lambda state: "ask" if state["log"][-1] else [], ["ask"])
    graph = graph.compile(saver)
    ids = [by_value(engine.invoke(graph, {"x": 1}, thread()))["more?"]]
    yes, no = True, False
    ids += [by_value(engine.resume(graph, yes, thread()))["more?"] for _ in range(3)]
    assert len(set(ids)) == 4
    result = engine.resume(graph, no, thread())
    assert (result.status, result["log"]) == ("completed", [True, True, True, False])


def test_the_same_content_twice_in_one_node_is_two_questions(engine, colour, saver, ran):
    graph = chain(State, saver=saver, a=colour(ran.asks("a", "again?", "again?")))
    one = by_value(engine.invoke(graph, {"x": 1}, thread()))
    two = by_value(engine.resume(graph, 1, thread()))
    assert one["again?"] != two["again?"]
    assert engine.resume(graph, 2, thread())["log"] == [("a", 1, 2)]


def test_what_is_asked_is_copied_when_it_is_asked(engine, saver):
    def node(state):
        value = ["asked"]
        try:
            return {"x": interrupt(value)}
        finally:
            value.append("later")

    graph = chain(State, saver=saver, a=node)
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == [["asked"]]
    assert engine.resume(graph, 1, thread())["x"] == 1


def test_an_answer_is_the_nodes_own_copy(engine, saver):
    def node(state):
        answer = interrupt("?")
        answer.append("changed")
        again = interrupt("again?")
        return {"x": [answer, again]}

    graph = chain(State, saver=saver, a=node)
    given = ["given"]
    engine.invoke(graph, {"x": 1}, thread())
    engine.resume(graph, given, thread())
    assert engine.resume(graph, "end", thread())["x"] == [["given", "changed"], "end"]
    assert given == ["given"]


def test_a_question_that_cannot_be_stored_is_an_error_when_it_is_asked(engine, saver):
    graph = chain(State, saver=saver, a=lambda state: interrupt(object()))
    with pytest.raises(SerializationError):
        engine.invoke(graph, {"x": 1}, thread())
    assert saver.load("t").checkpoint.step == 0


def test_without_a_saver_asking_is_an_error(engine, colour):
    graph = chain(State, a=colour(lambda state: interrupt("sure?")))
    with pytest.raises(InterruptError, match=r"'a'.*saver"):
        engine.invoke(graph, {"x": 1})


def test_outside_of_a_node_asking_is_an_error():
    with pytest.raises(ConfigError, match="outside of a node"):
        interrupt("sure?")


# ── swallowed ────────────────────────────────────────────────────────────────────────────────────────────────


def except_exception(state):
    try:
        return {"x": interrupt("sure?")}
    except Exception:
        return {"x": "swallowed"}


def bare_except(state):
    try:
        return {"x": interrupt("sure?")}
    except:  # noqa: E722 - what users write
        return {"x": "swallowed"}


def return_in_finally(state):
    x = "swallowed"
    try:
        x = interrupt("sure?")
    finally:
        return {"x": x}  # noqa: B012 - what users write


def suppressed(state):
    x = "swallowed"
    with contextlib.suppress(BaseException):
        x = interrupt("sure?")
    return {"x": x}


def turned_into_another(state):
    try:
        return {"x": interrupt("sure?")}
    except BaseException as error:
        raise ValueError("something else") from error


async def wait_for(state):
    async def ask():
        return interrupt("sure?")

    try:
        return {"x": await asyncio.wait_for(ask(), WAIT)}
    except BaseException:
        return {"x": "swallowed"}


async def gathered(state):
    async def ask():
        return interrupt("sure?")

    (x,) = await asyncio.gather(ask(), return_exceptions=True)
    return {"x": x if isinstance(x, str) else "swallowed"}


async def in_a_task_group(state):
    async def ask():
        return interrupt("sure?")

    async with asyncio.TaskGroup() as group:
        asked = group.create_task(ask())
    return {"x": asked.result()}


async def in_a_task_nobody_awaits(state):
    async def ask():
        return interrupt("sure?")

    asked = asyncio.ensure_future(ask())
    await asyncio.wait([asked])
    return {"x": "swallowed" if asked.exception() else asked.result()}


async def in_a_thread_with_the_context(state):
    try:
        return {"x": await asyncio.to_thread(interrupt, "sure?")}
    except BaseException:
        return {"x": "swallowed"}


def in_a_tool_wrapper(state):
    def tool():
        return interrupt("sure?")

    def wrapper(function):
        try:
            return function()
        except BaseException as error:
            return f"tool failed: {error}"

    return {"x": wrapper(tool)}


def in_a_generator(state):
    yield {"log": ["piece"]}
    try:
        x = interrupt("sure?")
    except BaseException:
        x = "swallowed"
    yield {"x": x}


async def in_an_async_generator(state):
    yield {"log": ["piece"]}
    try:
        x = interrupt("sure?")
    except BaseException:
        x = "swallowed"
    yield {"x": x}


def in_a_nested_function_of_another_thread(state):
    found: list[Any] = []

    def ask():
        try:
            found.append(interrupt("sure?"))
        except BaseException:
            found.append("swallowed")

    helper = threading.Thread(target=contextvars.copy_context().run, args=(ask,))
    helper.start()
    helper.join()
    return {"x": found[0]}


@pytest.mark.parametrize("where", ["alone", "beside another", "nested"])
@pytest.mark.parametrize(
    "node",
    [
        except_exception,
        bare_except,
        return_in_finally,
        suppressed,
        turned_into_another,
        wait_for,
        gathered,
        in_a_task_group,
        in_a_task_nobody_awaits,
        in_a_thread_with_the_context,
        in_a_tool_wrapper,
        in_a_generator,
        in_an_async_generator,
        in_a_nested_function_of_another_thread,
    ],
)
def test_a_pause_cannot_be_swallowed(engine, saver, node, where):
    others = {"b": wrote("y", 1)} if where == "beside another" else {}
    graph = fan(State, saver=None if where == "nested" else saver, a=node, **others)
    if where == "nested":
        graph = chain(State, saver=saver, sub=graph)
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert (paused.status, questions(paused), paused["x"]) == ("interrupted", ["sure?"], 1)
    done = engine.resume(graph, "yes", thread())
    assert (done.status, done["x"]) == ("completed", "yes")
    graph.close()


def test_in_a_thread_without_the_context_asking_names_the_remedy(engine, saver):
    said: list[str] = []

    def node(state):
        def ask():
            with pytest.raises(ConfigError) as caught:
                interrupt("sure?")
            said.append(str(caught.value))

        helper = threading.Thread(target=ask)
        helper.start()
        helper.join()

    assert engine.invoke(chain(State, saver=saver, a=node), {"x": 1}, thread()).status == "completed"
    assert "copy_context" in said[0]


def test_asking_after_the_node_has_ended_is_an_error(engine, saver):
    let_go = threading.Event()
    said: list[BaseException] = []
    helpers: list[threading.Thread] = []

    def ask():
        let_go.wait(WAIT)
        try:
            interrupt("late?")
        except BaseException as error:
            said.append(error)

    def node(state):
        helper = threading.Thread(target=contextvars.copy_context().run, args=(ask,))
        helper.start()
        helpers.append(helper)

    result = engine.invoke(chain(State, saver=saver, a=node), {"x": 1}, thread())
    let_go.set()
    helpers[0].join()
    assert result.status == "completed"
    assert isinstance(said[0], ConfigError | Cancelled)
    assert "'a'" in str(said[0])


# ── several questions ────────────────────────────────────────────────────────────────────────────────────────


def test_parallel_questions_all_surface_in_plan_order(engine, colour, saver, ran):
    graph = fan(State, saver=saver, b=colour(ran.asks("b")), a=colour(ran.asks("a")), c=colour(ran.asks("c")))
    result = engine.invoke(graph, {"x": 1}, thread())
    assert questions(result) == ["a?", "b?", "c?"]
    assert [question.node for question in result.interrupts] == ["a", "b", "c"]
    assert len({question.id for question in result.interrupts}) == 3


def test_any_subset_in_any_order_may_be_answered(engine, colour, saver, ran):
    graph = fan(State, saver=saver, a=colour(ran.asks("a")), b=colour(ran.asks("b")), c=colour(ran.asks("c")))
    ids = by_value(engine.invoke(graph, {"x": 1}, thread()))
    ran.clear()
    result = engine.resume(graph, {ids["c?"]: "C"}, thread())
    assert (questions(result), result["log"], ran) == (["a?", "b?"], [], ["c"])
    ran.clear()
    result = engine.resume(graph, {ids["a?"]: "A"}, thread())
    assert (questions(result), ran) == (["b?"], ["a"])
    result = engine.resume(graph, "B", thread())
    assert (result.status, result["log"]) == ("completed", [("a", "A"), ("b", "B"), ("c", "C")])


def test_several_questions_of_one_node_at_once(engine, saver, ran):
    """Asked before its body ended: all are seen, any subset is answered, the rest stay open."""

    async def node(state):
        ran.append("node")

        async def ask(question):
            return interrupt(question)

        return {"log": await asyncio.gather(ask("one"), ask("two"), ask("three"), return_exceptions=True)}

    graph = chain(State, saver=saver, node=node)
    first = engine.invoke(graph, {"x": 1}, thread())
    assert sorted(questions(first)) == ["one", "three", "two"]
    ids = by_value(first)
    second = engine.resume(graph, {ids["two"]: 2}, thread())
    assert (second.status, sorted(questions(second))) == ("interrupted", ["one", "three"])
    assert {value: ids[value] for value in ("one", "three")} == by_value(second)
    third = engine.resume(graph, {ids["one"]: 1, ids["three"]: 3}, thread())
    assert (third.status, third["log"]) == ("completed", [1, 2, 3])
    graph.close()


def test_siblings_that_a_task_group_cancelled_ask_after_the_resume(engine, saver):
    async def node(state):
        async def ask(question, turns):
            for _ in range(turns):
                await asyncio.sleep(0)
            return interrupt(question)

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask("early", 0)), group.create_task(ask("late", 50))]
        return {"log": [each.result() for each in asked]}

    graph = chain(State, saver=saver, node=node)
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["early"]
    assert questions(engine.resume(graph, "E", thread())) == ["late"]
    assert engine.resume(graph, "L", thread())["log"] == ["E", "L"]
    graph.close()


def test_equal_questions_at_once_without_a_key_are_an_error_when_asked(engine, saver):
    """Where the second is asked; asked again once the first was answered, it is a question of its own."""
    errors: list[InterruptError] = []

    async def node(state):
        async def ask():
            try:
                return interrupt("same")
            except InterruptError as error:
                errors.append(error)
                raise

        return {"log": await asyncio.gather(ask(), ask())}

    graph = chain(State, saver=saver, node=node)
    assert questions(engine.invoke(graph, {"x": 1}, thread())) == ["same"]
    assert len(errors) == 1
    assert "'node'" in str(errors[0])
    assert "key" in str(errors[0])
    assert questions(engine.resume(graph, 1, thread())) == ["same"]
    assert engine.resume(graph, 2, thread())["log"] == [1, 2]
    assert len(errors) == 1
    graph.close()


def test_equal_questions_at_once_are_told_apart_by_key(engine, saver):
    async def node(state):
        async def ask(key):
            return interrupt("same", key=key)

        return {"log": await asyncio.gather(ask("one"), ask("two"), return_exceptions=True)}

    graph = chain(State, saver=saver, node=node)
    assert sorted(q.key for q in engine.invoke(graph, {"x": 1}, thread()).interrupts) == ["one", "two"]
    assert engine.resume(graph, {"two": 2, "one": 1}, thread())["log"] == [1, 2]
    graph.close()


def test_equal_questions_of_parallel_nodes_are_different_ones(engine, saver):
    def ask(state):
        return {"log": [interrupt("same")]}

    graph = fan(State, saver=saver, a=ask, b=ask)
    a, b = engine.invoke(graph, {"x": 1}, thread()).interrupts
    assert a.id != b.id
    assert engine.resume(graph, {b.id: "B", a.id: "A"}, thread())["log"] == ["A", "B"]


def test_one_answer_for_several_questions_is_an_error_that_lists_them(engine, saver, ran):
    graph = fan(State, saver=saver, a=ran.asks("a"), b=ran.asks("b"))
    paused = engine.invoke(graph, {"x": 1}, thread())
    ran.clear()
    with pytest.raises(InterruptError, match="multiple pending interrupts") as caught:
        engine.resume(graph, "which?", thread())
    for question in paused.interrupts:
        assert question.id in str(caught.value)
    assert ran == []
    assert questions(engine.invoke(graph, None, thread())) == ["a?", "b?"]


def test_questions_of_sends_are_answered_each_by_its_own(engine, saver):
    def work(arg):
        return {"log": [(arg["n"], interrupt("sure?"))]}

    graph = builder(State, {"work": work}).add_conditional_edges(
        START, lambda state: [Send("work", {"n": n}) for n in range(4)]
    )
    graph = graph.compile(saver)
    paused = engine.invoke(graph, {"x": 1}, thread())
    ids = [question.id for question in paused.interrupts]
    assert len(set(ids)) == 4
    half = engine.resume(graph, {ids[3]: "three", ids[1]: "one"}, thread())
    assert [question.id for question in half.interrupts] == [ids[0], ids[2]]
    done = engine.resume(graph, {ids[0]: "zero", ids[2]: "two"}, thread())
    assert done["log"] == [(0, "zero"), (1, "one"), (2, "two"), (3, "three")]


def test_a_finished_sibling_is_kept_and_not_run_again_and_the_join_waits(engine, colour, saver, ran):
    graph = compiled(
        State,
        {"a": colour(ran.step("a")), "b": colour(ran.asks("b")), "c": ran.step("c")},
        (START, "a"),
        (START, "b"),
        (["a", "b"], "c"),
        saver=saver,
    )
    paused = engine.invoke(graph, {"x": 1}, thread())
    assert (questions(paused), paused["log"]) == (["b?"], [])
    assert sorted(ran) == ["a", "b"]
    ran.clear()
    done = engine.resume(graph, "yes", thread())
    assert (ran, done["log"]) == (["b", "c"], ["a", ("b", "yes"), "c"])


# ── whose answer ─────────────────────────────────────────────────────────────────────────────────────────────


def test_answers_by_key(engine, saver):
    def node(name):
        return lambda state: {"log": [interrupt(f"{name}?", key=name)]}

    graph = fan(State, saver=saver, a=node("a"), b=node("b"))
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.resume(graph, {"b": "B", "a": "A"}, thread())["log"] == ["A", "B"]


def test_a_dict_is_the_answer_unless_all_its_keys_are_questions(engine, saver):
    def node(state):
        return {"x": interrupt("fill in", key="form")}

    for number, (answer, got) in enumerate(
        [
            ({"form": 1}, 1),
            ({"form": 1, "other": 2}, {"form": 1, "other": 2}),
            ({"name": "ada"}, {"name": "ada"}),
            (Answer({"form": 1}), {"form": 1}),
            (Answers({"form": {"form": 1}}), {"form": 1}),
        ]
    ):
        graph = chain(State, saver=saver, a=node)
        engine.invoke(graph, {"x": 1}, thread(f"t{number}"))
        assert engine.resume(graph, answer, thread(f"t{number}"))["x"] == got


def test_answers_to_no_open_question_are_an_error(engine, saver, ran):
    graph = chain(State, saver=saver, a=ran.asks("a"))
    engine.invoke(graph, {"x": 1}, thread())
    for wrong in (Answers({"nope": 1}), Answers()):
        with pytest.raises(InterruptError):
            engine.resume(graph, wrong, thread())
    assert engine.resume(graph, "yes", thread())["log"] == [("a", "yes")]


def test_questions_asked_in_another_order_get_their_own_answers(engine, saver):
    """They are matched by content, not by order."""
    order = ["one", "two"]

    async def node(state):
        async def ask(question):
            return question, interrupt(question)

        found = await asyncio.gather(*[ask(question) for question in order], return_exceptions=True)
        return {"log": sorted(found) if all(isinstance(each, tuple) for each in found) else []}

    graph = chain(State, saver=saver, node=node)
    ids = by_value(engine.invoke(graph, {"x": 1}, thread()))
    order.reverse()
    result = engine.resume(graph, {ids["one"]: 1, ids["two"]: 2}, thread())
    assert result["log"] == [("one", 1), ("two", 2)]
    graph.close()


def test_other_content_on_resume_is_a_mismatch_that_names_both(engine, colour, saver):
    asked = ["delete a file?"]
    graph = chain(State, saver=saver, a=colour(lambda state: {"x": interrupt(asked[0])}))
    engine.invoke(graph, {"x": 1}, thread())
    asked[0] = "delete everything?"
    with pytest.raises(ResumeMismatchError) as caught:
        engine.resume(graph, "yes", thread())
    assert "delete a file?" in str(caught.value)
    assert "delete everything?" in str(caught.value)
    assert (caught.value.node, caught.value.thread_id) == ("a", "t")
    asked[0] = "delete a file?"
    assert engine.invoke(graph, None, thread())["x"] == "yes", (
        "once the node asks what it asked, its answer is there"
    )


def test_other_content_under_the_same_key_is_the_same_question(engine, saver):
    times = iter(range(9))
    graph = chain(
        State, saver=saver, a=lambda state: {"x": interrupt(f"sure? (seen {next(times)} times)", key="sure")}
    )
    engine.invoke(graph, {"x": 1}, thread())
    assert engine.resume(graph, "yes", thread())["x"] == "yes"
