"""State without a schema, key strategies, and the state as one object (design 1 and 2, right-behaviour 3, 5, 7)."""

import functools
import gc
import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Optional, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from juncture import (
    END,
    MARK_FOR_REMOVAL,
    START,
    Append,
    Command,
    ConfigError,
    GraphBuildError,
    InvalidUpdateError,
    Merge,
    NothingToResumeError,
    OverAllState,
    Overwrite,
    RemainingSteps,
    Remove,
    Replace,
    ReplaceAll,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    StateMutationError,
    add_messages,
    failure,
    interrupt,
)
from tests.behaviour.building import builder, chain, compiled, fan, nothing, place, thread, wrote

APPENDING = {"key_strategies": {"messages": Append()}}


def counted(update: Any) -> Callable[..., dict[str, Any]]:
    """A node that writes messages, and how many there were before, and one."""

    def node(state: OverAllState) -> dict[str, Any]:
        return {"messages": update, "steps": len(state.value("messages", list, default=[])) + 1}

    return node


# ── cases of Spring AI Alibaba ───────────────────────────────────────────────────────────────────────────────


def test_c13_the_result_is_what_was_given_and_written(engine, saver, colour):
    """C13, and C123: no key of the engine's own."""
    graph = chain(
        None, a=colour(wrote("prop1", "test")), saver=saver, options={"key_strategies": {"prop1": Replace()}}
    )
    assert engine.invoke(graph, {"input": "test1"}, thread()) == {"input": "test1", "prop1": "test"}


@pytest.mark.parametrize(
    ("updates", "messages", "steps"),
    [
        (["m1", ["m2"], "m3"], ["m1", "m2", "m3"], 3),
        (["m1", ["m2"], Remove("m2")], ["m1"], 3),
        (["m1", ["m2"], ["m3", Remove("m2")], ["m4"]], ["m1", "m3", "m4"], 3),
        (["m1", ReplaceAll(["x", "y"]), "m2"], ["x", "y", "m2"], 3),
        (["m1", None, [None]], ["m1", None], 2),
    ],
    ids=["C14", "C15", "C16", "C23", "none"],
)
@pytest.mark.parametrize(
    "schema",
    [None, TypedDict("Typed", {"messages": Annotated[list, Append()], "steps": int})],
    ids=["open", "typed"],
)
def test_c14_to_c16_items_are_appended_and_removed(engine, saver, colour, schema, updates, messages, steps):
    """The same strategy serves an open state and an annotation."""
    nodes = {f"n{i}": colour(counted(update)) for i, update in enumerate(updates)}
    graph = chain(schema, saver=saver, options=APPENDING if schema is None else None, **nodes)
    assert engine.invoke(graph, {}, thread()) == {"messages": messages, "steps": steps}


def test_c17_to_c20_strategies_of_single_keys(engine):
    """C18: replace by default. C19: an old value that is no list comes first. C20: any function."""
    strategies = {"log": Append(), "meta": lambda old, new: f"{new}-merged"}
    given = {"k1": "o1", "k2": "o2", "log": "original", "meta": "meta"}
    update = {"k1": "n1", "k3": "n3", "log": "x", "meta": "new meta"}
    graph = chain(None, a=lambda state: update, options={"key_strategies": strategies})
    assert engine.invoke(graph, given) == {
        "k1": "n1", "k2": "o2", "k3": "n3", "log": ["original", "x"], "meta": "new meta-merged",
    }  # fmt: skip


def test_c21_merge(engine):
    class Profile(BaseModel):
        name: str | None = None
        tags: dict[str, int] | None = None

    old, new = Profile(name="Ann", tags={"a": 1}), Profile(tags={"b": 2})
    graph = chain(
        None,
        a=wrote("p", new),
        b=wrote("d", {"y": 2}),
        c=wrote("d", None),
        options={"default_strategy": Merge()},
    )
    result = engine.invoke(graph, {"p": old, "d": {"x": 1}})
    assert result == {"p": Profile(name="Ann", tags={"a": 1, "b": 2}), "d": {"x": 1, "y": 2}}
    assert old == Profile(name="Ann", tags={"a": 1})
    with pytest.raises(InvalidUpdateError, match="incompatible types") as caught:
        engine.invoke(graph, {"p": {"name": "Ann"}})
    assert place(caught.value) == ("a", "p")


@pytest.mark.parametrize(
    "strategy",
    [None, Append, Merge, operator.add, add_messages],
    ids=["none", "append", "merge", "add", "add_messages"],
)
@pytest.mark.parametrize("beside", [True, False], ids=["beside another", "alone"])
def test_c22_a_removed_key_is_absent_everywhere(engine, saver, colour, strategy, beside):
    """Rule 7: for the next node, in the result, in the checkpoint; also from one of two branches."""
    seen = []

    def look(state: OverAllState):
        seen.append(dict(state))

    options = {"key_strategies": {"v": strategy}} if strategy else {}
    nodes = {"cut": colour(wrote("v", MARK_FOR_REMOVAL)), "look": look} | (
        {"other": colour(wrote("n", 1))} if beside else {}
    )
    edges = [(START, "cut"), ("cut", "look")] + ([(START, "other")] if beside else [])
    graph = compiled(None, nodes, *edges, saver=saver, **options)
    left = {"kept": 1, **({"n": 1} if beside else {})}
    assert (
        engine.invoke(graph, {"v": [{"role": "user", "content": "", "id": "1"}], "kept": 1}, thread()) == left
    )
    assert seen == [left]
    assert engine.invoke(graph, {}, thread()) == left


def test_c23_a_list_that_replaces_keeps_what_comes_after_it_in_plan_order(engine):
    update = {"messages": ReplaceAll([9])}
    for names, messages in ((("a", "b"), [9, "b"]), (("c", "b"), [9])):
        graph = fan(None, **{names[0]: lambda s: update, names[1]: wrote("messages", "b")}, options=APPENDING)
        assert engine.invoke(graph, {"messages": [1, 2]})["messages"] == messages


class Closed(TypedDict, total=False):
    prop1: Any
    messages: Annotated[list[Any], Append()]


@pytest.mark.parametrize("wrap", [dict, OverAllState], ids=["dict", "state"])
def test_c25_one_rule_for_keys_that_nobody_declared(engine, saver, wrap):
    """Rule 3: in the input, an update and a resume; an open state takes any key, in all three."""

    def ask(state: OverAllState):
        return {"prop1": interrupt("?")}

    def try_all(name: str, schema: Any) -> list[Any]:
        graph = chain(schema, ask=ask, saver=saver)

        def attempt(call: Callable[[], Any]) -> Any:
            try:
                return dict(call())
            except InvalidUpdateError as error:
                return place(error)[1]

        def run(which: str, given: Any) -> Any:
            return engine.invoke(graph, given, thread(name + which))

        found = [attempt(lambda: run("a", wrap({"other": 1})))]
        run("b", wrap({}))
        found.append(attempt(lambda: run("b", Command(resume=2, update=wrap({"other": 1})))))
        return found

    assert try_all("closed", Closed) == ["other", "other"]
    assert try_all("open", None) == [{"other": 1}, {"other": 1, "prop1": 2}]


def test_c26_c27_a_step_that_fails_leaves_nothing(engine, saver, colour):
    """Rules 1 and 2: neither the updates of the step nor what its nodes changed in place."""

    def broken(old, new):
        old.append("harm")
        raise ZeroDivisionError

    def harm(state: OverAllState):
        state["messages"].append("x")
        state.data["deep"]["list"].append("x")
        if state["fails"]:
            raise ValueError
        return {"messages": "m", "b": 1}

    options = {"key_strategies": {"messages": Append(), "b": broken}}
    graph = chain(None, harm=colour(harm), look=colour(nothing), saver=saver, options=options)
    given = {"messages": ["q"], "deep": {"list": []}, "b": [0]}
    for fails, error in ((True, ValueError), (False, ZeroDivisionError)):
        with pytest.raises(error) as caught:
            engine.invoke(graph, given | {"fails": fails}, thread(str(fails)))
        assert failure(caught.value).result == given | {"fails": fails}
        if not fails:
            assert any("'b'" in note and "'harm'" in note for note in caught.value.__notes__)
    assert given == {"messages": ["q"], "deep": {"list": []}, "b": [0]}


# ── strategies ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_default_strategy_merges_every_other_key(engine):
    options = {"key_strategies": {"plain": Replace()}, "default_strategy": Append(distinct=True)}
    graph = chain(
        None, a=lambda s: {"plain": 1, "x": "a", "y": ["b", "b"]}, b=wrote("x", ["a", "c"]), options=options
    )
    assert engine.invoke(graph, {"plain": 0}) == {"plain": 1, "x": ["a", "c"], "y": ["b"]}


def test_strategies_come_from_any_function_that_makes_them(engine):
    """What a factory is good for elsewhere; one that isn't called, or makes a single strategy, is refused."""

    def common() -> dict[str, Any]:
        return {"messages": Append()}

    graph = chain(
        None,
        a=wrote("messages", 1),
        b=wrote("total", 2),
        options={"key_strategies": {**common(), "total": operator.add}},
    )
    assert engine.invoke(graph, {"total": 1}) == {"messages": [1], "total": 3}
    with pytest.raises(GraphBuildError, match="call it"):
        StateGraph(key_strategies=common)
    with pytest.raises(GraphBuildError, match=r"\(a, b\) -> c"):
        chain(None, a=nothing, options={"key_strategies": {"messages": lambda: Append()}})


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        (Closed, {"default_strategy": Append()}, "default_strategy"),
        (Closed, {"key_strategies": {"messages": operator.add}}, "keep one"),
        (Closed, {"key_strategies": {"mesages": Append()}}, "'mesages'"),
        (None, {"key_strategies": {1: Append()}}, "keys are strings"),
    ],
    ids=["default beside a schema", "two for one key", "unknown key", "no string"],
)
def test_strategies_that_would_have_no_effect_are_refused(schema, options, text):
    with pytest.raises(GraphBuildError, match=text):
        chain(schema, a=nothing, options=options)


def test_strategies_are_fixed_when_the_graph_is_compiled(engine):
    strategies = {"messages": Append()}
    graph = builder(None, {"a": wrote("messages", 1)}, (START, "a"), key_strategies=strategies)
    before = graph.compile()
    strategies["messages"] = graph.key_strategies["messages"] = operator.add
    assert engine.invoke(before, {"messages": [0]}) == {"messages": [0, 1]}
    with pytest.raises(TypeError):
        engine.invoke(graph.compile(), {"messages": [0]})


class Model(BaseModel):
    messages: Annotated[list[str], Append(distinct=True)] = []
    profile: Annotated[dict[str, int], Merge()] = {}


@dataclass
class Data:
    messages: Annotated[list[str], Append(distinct=True)] = field(default_factory=list)
    profile: Annotated[dict[str, int], Merge()] = field(default_factory=dict)


class Struct(msgspec.Struct):
    messages: Annotated[list[str], Append(distinct=True)] = msgspec.field(default_factory=list)
    profile: Annotated[dict[str, int], Merge()] = msgspec.field(default_factory=dict)


class Typed(TypedDict, total=False):
    messages: Annotated[list[str], Append(distinct=True)]
    profile: Annotated[dict[str, int], Merge()]


SCHEMAS = [Typed, Data, Struct, Model]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_strategies_are_reducers_of_every_kind_of_schema(engine, schema):
    graph = fan(
        schema,
        a=lambda s: {"messages": "x", "profile": {"a": 1}},
        b=lambda s: {"messages": ["x", "y"], "profile": {"b": 2}},
    )
    result = engine.invoke(graph, {"messages": ["w"], "profile": {"a": 0}})
    value = result if schema is Typed else result.value
    shown = dict(value) if schema is Typed else {"messages": value.messages, "profile": value.profile}
    assert shown == {"messages": ["w", "x", "y"], "profile": {"a": 1, "b": 2}}


# ── the state as one object: who gets one ────────────────────────────────────────────────────────────────────


@pytest.fixture(params=[None, *SCHEMAS], ids=["open", *[schema.__name__ for schema in SCHEMAS]])
def any_schema(request) -> tuple[Any, dict[str, Any]]:
    """A schema, and the options with which it merges like the others."""
    strategies = {"messages": Append(distinct=True), "profile": Merge()}
    return request.param, {"key_strategies": strategies} if request.param is None else {}


def test_nodes_of_every_kind_get_it_whatever_the_schema(engine, any_schema):
    """Design 2: it is one state underneath."""
    schema, options = any_schema
    seen = []

    def look(state: Any) -> None:
        assert isinstance(state, OverAllState)
        seen.append(dict(state))

    def sync(state: OverAllState):
        look(state)
        return {"messages": "sync"}

    async def coroutine(state: OverAllState):
        look(state)
        return {"messages": "async"}

    def generator(state: OverAllState):
        look(state)
        yield {"messages": "gen"}

    async def async_generator(state: OverAllState):
        look(state)
        yield {"messages": "agen"}

    class Nodes:
        def __call__(self, state: "OverAllState"):
            look(state)
            return {"messages": "object"}

        def method(self, state: OverAllState, runtime: Runtime[Any]):
            look(state)
            return {"messages": runtime.execution_info.node}

    def bound(text: str, state: OverAllState):
        look(state)
        return {"messages": text}

    nodes = {
        "sync": sync, "coroutine": coroutine, "generator": generator, "async_generator": async_generator,
        "object": Nodes(), "method": Nodes().method, "partial": functools.partial(bound, "partial"),
    }  # fmt: skip
    result = engine.invoke(chain(schema, options=options, **nodes), {"messages": ["first"]})
    messages = ["first", "sync", "async", "gen", "agen", "object", "method", "partial"]
    assert (result if isinstance(schema, type(Typed)) or schema is None else vars_of(result.value))[
        "messages"
    ] == messages
    assert [found["messages"] for found in seen] == [messages[: i + 1] for i in range(7)]


def vars_of(value: Any) -> dict[str, Any]:
    """The keys of a result, whatever its type."""
    return (
        value if isinstance(value, dict) else {name: getattr(value, name) for name in ("messages", "profile")}
    )


def test_a_node_that_a_factory_makes_gets_it(engine):
    def make():
        def node(state: OverAllState):
            return {"n": state.value("n", int) + 1}

        return node

    graph = StateGraph().add_node("a", factory=make).add_edge(START, "a").compile()
    assert engine.invoke(graph, {"n": 1}) == {"n": 2}


def test_an_annotation_for_type_checkers_only_asks_for_it_too(engine):
    """Linters move such imports under ``if TYPE_CHECKING``, where nothing finds them at run time."""
    kinds = []

    def make(annotation: str) -> Any:
        def node(state):
            kinds.append(type(state) is dict)

        node.__annotations__["state"] = annotation
        return node

    names = ["OverAllState", "nowhere.OverAllState", "NowhereState"]
    engine.invoke(
        builder(
            None, dict(zip("abc", map(make, names), strict=True)), (START, "a"), ("a", "b"), ("b", "c")
        ).compile(),
        {},
    )
    assert kinds == [False, False, True]


def test_nodes_of_a_graph_within_another_get_their_own_graphs_state(engine):
    def count(state: OverAllState):
        return {"log": [len(state["log"]), sorted(state)], "inner": 1}

    inner = chain(None, a=count, b=count, options={"key_strategies": {"log": Append()}})

    class Outer(TypedDict, total=False):
        log: Annotated[list[Any], Append()]
        outer: int

    assert engine.invoke(chain(Outer, inner=inner), {"log": [0], "outer": 1}) == {
        "log": [0, 1, ["log", "outer"], 3, ["inner", "log", "outer"]], "outer": 1,
    }  # fmt: skip


@pytest.mark.parametrize("asynchronous", [False, True], ids=["def", "async def"])
def test_routers_get_it_with_what_their_node_wrote(engine, any_schema, asynchronous):
    schema, options = any_schema
    seen = []

    def choose(state: OverAllState) -> str:
        seen.append(state.value("messages"))
        state["messages"].append("harm")
        return "b" if "a" in state["messages"] else END

    async def choose_async(state: OverAllState) -> str:
        return choose(state)

    graph = builder(schema, {"a": wrote("messages", "a"), "b": wrote("messages", "b")}, **options)
    graph.add_conditional_edges(START, choose_async if asynchronous else choose, {"b": "b", END: "a"})
    graph.add_conditional_edges("a", choose_async if asynchronous else choose, ["b", END])
    result = engine.invoke(graph.compile(), {"messages": ["first"]})
    assert vars_of(result if schema in (None, Typed) else result.value)["messages"] == ["first", "a", "b"]
    assert seen == [["first", "harm"], ["first", "a", "harm"]]


def test_what_is_sent_is_shown_as_it(engine, saver, colour):
    """A dict, or a state that the sender was handed, which is a dict to nodes that don't ask for one."""
    seen = []

    def spread(state: OverAllState) -> list[Send]:
        return [
            Send("work", {"list": ["sent"]}),
            Send("work", state),
            Send("plain", state),
            Send("plain", state.snapshot()),
        ]

    def work(state: OverAllState):
        seen.append((type(state) is dict, dict(state)["list"][0]))
        state.value("list", list).append("harm")

    def plain(state):
        seen.append((type(state) is dict, state["list"][0]))
        state["list"].append("harm")

    graph = builder(None, {"start": wrote("list", [0]), "work": colour(work), "plain": colour(plain)})
    graph.add_edge(START, "start").add_conditional_edges("start", spread)
    for one in (graph.compile(), graph.compile(saver)):
        seen.clear()
        assert engine.invoke(one, {}, thread() if one.checkpointer else None) == {"list": [0]}
        assert sorted(seen, key=str) == [(False, "sent"), (False, 0), (True, 0), (True, 0)]


def test_a_state_survives_a_pause_as_what_was_sent(engine, saver):
    def spread(state: OverAllState) -> list[Send]:
        return [Send("ask", state)]

    def ask(state: OverAllState):
        return {"answer": (state["n"], interrupt("?"))}

    graph = builder(None, {"start": wrote("n", 1), "ask": ask})
    graph.add_edge(START, "start").add_conditional_edges("start", spread)
    one = graph.compile(saver)
    assert engine.invoke(one, {}, thread()).status == "interrupted"
    assert engine.resume(one, "yes", thread()) == {"n": 1, "answer": (1, "yes")}


@pytest.mark.parametrize("sent", [1, None, [("n", 1)], Data()], ids=["int", "None", "pairs", "object"])
def test_what_isnt_a_mapping_cant_be_shown_as_it(engine, sent):
    def work(state: OverAllState): ...

    graph = builder(None, {"start": nothing, "work": work})
    graph.add_edge(START, "start").add_conditional_edges("start", lambda state: [Send("work", sent)])
    with pytest.raises(
        InvalidUpdateError, match=f"node 'work' asks for an OverAllState and was sent a {type(sent).__name__}"
    ):
        engine.invoke(graph.compile(), {})


# ── what it shows ────────────────────────────────────────────────────────────────────────────────────────────


class Narrow(TypedDict, total=False):
    n: int


class Wide(TypedDict, total=False):
    n: int
    big: list[int]
    left: RemainingSteps


class Private(TypedDict):
    secret: int


def test_it_shows_the_keys_of_the_input_schema_else_those_of_the_state(engine):
    """A key private to other nodes isn't shown; a computed one is, and can't be written."""
    seen = {}

    def look(name: str):
        def node(state: OverAllState):
            assert isinstance(state, OverAllState)
            seen[name] = dict(state)

        return node

    def hide(state: Private): ...

    graph = builder(
        Wide, {"hide": hide, "wide": look("wide")}, (START, "hide"), ("hide", "wide"), ("wide", "narrow")
    )
    graph.add_node("hide2", wrote("secret", 1)).add_edge(START, "hide2")
    graph.add_node("narrow", look("narrow"), input_schema=Narrow).add_edge("narrow", "lambda")
    graph.add_node("lambda", lambda state: look("lambda")(state), input_schema=OverAllState)
    assert engine.invoke(graph.compile(), {"n": 1, "big": [1]}, {"recursion_limit": 7}) == {
        "n": 1,
        "big": [1],
    }
    assert seen == {
        "wide": {"n": 1, "big": [1], "left": 6},
        "narrow": {"n": 1},
        "lambda": {"n": 1, "big": [1], "left": 4},
    }


def test_a_router_sees_all_keys_of_the_state_whatever_its_node_asks_for(engine):
    seen = []

    def choose(state: OverAllState) -> str:
        seen.append(dict(state))
        return END

    def narrow(state: Narrow): ...

    graph = builder(Wide, {"a": narrow}, (START, "a")).add_conditional_edges("a", choose)
    engine.invoke(graph.compile(), {"n": 1, "big": [1]}, {"recursion_limit": 3})
    assert seen == [{"n": 1, "big": [1], "left": 3}]


def test_an_open_state_is_narrowed_by_an_input_schema(engine):
    """Whatever the node is handed: what it didn't ask for isn't copied for it."""
    seen = []

    def as_state(state: OverAllState):
        seen.append(dict(state))

    def as_dict(state):
        seen.append(state)

    def annotated(state: Narrow):
        seen.append(state)

    graph = builder(None, {"c": annotated}, (START, "a"), ("a", "b"), ("b", "c"))
    graph.add_node("a", as_state, input_schema=Narrow).add_node("b", as_dict, input_schema=Narrow)
    assert engine.invoke(graph.compile(), {"n": 1, "other": 2}) == {"n": 1, "other": 2}
    assert seen == [{"n": 1}] * 3


def test_keys_without_a_value_are_absent_also_where_a_class_has_a_default(engine):
    @dataclass
    class State:
        n: int = 5
        log: Annotated[list[int], operator.add] = field(default_factory=list)

    seen = []

    def look(state: OverAllState):
        seen.append((dict(state), state.value("n", default=7)))

    engine.invoke(chain(State, a=look), {})
    assert seen == [({"log": []}, 7)]


def test_it_tells_how_keys_are_merged(engine, any_schema):
    schema, options = any_schema
    seen = []

    def look(state: OverAllState):
        seen.append(
            (
                dict(state.key_strategies),
                dict(OverAllState.update(state, {"messages": "b", "profile": {"p": 1}})),
            )
        )
        with pytest.raises(TypeError, match="handed out by a run"):
            state.register("messages", max)

    engine.invoke(chain(schema, options=options, a=look), {"messages": ["a"], "profile": {}})
    assert seen == [
        (
            {"messages": Append(distinct=True), "profile": Merge()},
            {"messages": ["a", "b"], "profile": {"p": 1}},
        )
    ]


def test_a_run_without_a_store_has_none(engine):
    seen = []

    def look(state: OverAllState):
        seen.append((state.store, state.snapshot().store))

    engine.invoke(chain(None, a=look), {})
    assert seen == [(None, None)]


# ── it can't change the run ──────────────────────────────────────────────────────────────────────────────────


def test_a_change_in_place_reaches_nobody(engine, saver, colour, any_schema):
    """Rule 1."""
    schema, options = any_schema
    seen = []

    def harm(state: OverAllState):
        state["messages"].append("harm")
        state.data["profile"].clear()
        state.snapshot()["messages"].clear()
        with pytest.raises(TypeError):
            state["messages"] = []

    def look(state: OverAllState):
        seen.append(dict(state))

    given = {"messages": ["a"], "profile": {"p": 1}}
    graph = chain(schema, options=options, saver=saver, harm=colour(harm), look=colour(look))
    result = engine.invoke(graph, given, thread())
    assert (
        vars_of(result if schema in (None, Typed) else result.value)
        == given
        == {"messages": ["a"], "profile": {"p": 1}}
    )
    assert seen == [given]


def test_nodes_side_by_side_have_copies_of_their_own(engine):
    """And need no lock: each writes what it adds, and the strategy merges."""
    both = threading.Barrier(2, timeout=5)

    def node(name: str):
        def run(state: OverAllState):
            both.wait()
            state["log"].append(name)
            both.wait()
            return {"log": [name], "seen": {name: state["log"]}}

        return run

    graph = fan(
        None, a=node("a"), b=node("b"), options={"key_strategies": {"log": operator.add, "seen": Merge()}}
    )
    assert engine.invoke(graph, {"log": ["start"]}) == {
        "log": ["start", "a", "b"], "seen": {"a": ["start", "a"], "b": ["start", "b"]},
    }  # fmt: skip


def test_one_that_a_node_keeps_stays_as_it_was(engine):
    """A later step doesn't show in it, also not in what is first read then."""
    kept = []

    def first(state: OverAllState):
        kept.append(state)
        return {"n": 2, "log": ["b"], "gone": MARK_FOR_REMOVAL}

    graph = chain(None, first=first, second=wrote("late", 1), options={"key_strategies": {"log": Append()}})
    result = engine.invoke(graph, {"n": 1, "log": ["a"], "gone": [1]})
    assert result == {"n": 2, "log": ["a", "b"], "late": 1}
    assert kept == [{"n": 1, "log": ["a"], "gone": [1]}]


def test_shared_nodes_are_handed_the_values_themselves(engine):
    ids = []

    def look(state: OverAllState):
        ids.append(id(state["list"]))

    def plain(state):
        ids.append(id(state["list"]))

    engine.invoke(chain(None, a=look, b=plain, options={"isolation": "shared"}), {"list": [1]})
    assert ids[0] == ids[1]


def test_in_debug_mode_a_changed_object_is_found(engine):
    def harm(state: OverAllState):
        state["data"].messages.append("harm")

    graph = builder(None, {"a": harm}, (START, "a")).compile(debug=True)
    with pytest.raises(StateMutationError) as caught:
        engine.invoke(graph, {"data": Data()})
    assert place(caught.value) == ("a", "data")


@pytest.mark.parametrize("sent", [False, True], ids=["by an edge", "sent"])
def test_a_try_after_another_sees_the_state_afresh(engine, sent):
    seen = []

    def flaky(state: OverAllState):
        seen.append(list(state["log"]))
        state["log"].append("harm")
        if len(seen) == 1:
            raise ConnectionError
        return {"n": 1}

    graph = builder(None, {"start": nothing}, (START, "start"))
    graph.add_node("a", flaky, retry_policy=RetryPolicy(initial_interval=0))
    graph.add_conditional_edges("start", lambda state: Send("a", state) if sent else "a")
    assert engine.invoke(graph.compile(), {"log": ["a"]}) == {"log": ["a"], "n": 1}
    assert seen == [["a"], ["a"]]


# ── returning it ─────────────────────────────────────────────────────────────────────────────────────────────


REDUCING = {"key_strategies": {"log": Append(), "total": operator.add}}


@pytest.mark.parametrize(
    "give",
    [
        lambda state: state,
        lambda state: {"log": state["log"], "other": state["other"]},
        lambda state: Command(update=state),
        lambda state: {"log": dict(state)["log"]},
        lambda state: (state.data, state)[1],
    ],
    ids=["itself", "values", "command", "dict", "read"],
)
def test_what_comes_back_as_it_was_handed_out_is_no_write(engine, colour, give):
    """Rule 7: whether it was read or not."""

    def node(state: OverAllState):
        return give(state)

    given = {"log": ["a"], "total": 3, "other": [1]}
    parts = engine.stream(
        chain(None, a=colour(node), options=REDUCING), given, stream_mode=["updates", "values"]
    )
    assert [data or {} for mode, data in parts if mode == "updates"] == [{"a": None}] or parts[1] == (
        "updates",
        {"a": {}},
    )
    assert parts[-1] == ("values", given)


@pytest.mark.parametrize(
    "give", [lambda state: state, lambda state: {"log": state["log"]}], ids=["itself", "value"]
)
def test_a_value_changed_in_place_isnt_merged_with_itself(engine, give):
    """Rule 7."""

    def node(state: OverAllState):
        state["log"].append("b")
        return give(state)

    with pytest.raises(InvalidUpdateError, match="return only the new part") as caught:
        engine.invoke(chain(None, a=node, options=REDUCING), {"log": ["a"]})
    assert place(caught.value) == ("a", "log")


def test_of_a_returned_state_what_was_changed_in_place_is_written(engine):
    def node(state: OverAllState):
        state["other"].append(2)
        return state

    graph = chain(None, a=node, options=REDUCING)
    assert engine.stream(graph, {"log": ["a"], "total": 1, "other": [1]}) == [{"a": {"other": [1, 2]}}]


def test_a_state_of_ones_own_is_an_update_like_any_mapping(engine):
    def node(state: OverAllState):
        return OverAllState({"log": "b", "n": MARK_FOR_REMOVAL, "total": Overwrite(0)})

    graph = chain(None, a=node, options=REDUCING)
    assert engine.invoke(graph, {"log": ["a"], "total": 5, "n": 1}) == {"log": ["a", "b"], "total": 0}


def test_what_was_sent_is_written_if_it_is_returned(engine):
    """It is new to the state."""

    def work(state: OverAllState):
        return state

    graph = builder(None, {"start": nothing, "work": work}, **REDUCING)
    graph.add_edge(START, "start").add_conditional_edges(
        "start", lambda state: [Send("work", {"log": ["b"], "n": 1})]
    )
    assert engine.invoke(graph.compile(), {"log": ["a"]}) == {"log": ["a", "b"], "n": 1}


def test_written_to_a_key_it_becomes_a_plain_dict(engine, saver):
    """So it can be stored, and nothing in the state can be changed through it."""

    def node(state: OverAllState):
        state["log"].append("b")
        return {"seen": state, "list": [state.snapshot()]}

    graph = chain(None, a=node, b=nothing, saver=saver, options=REDUCING)
    result = engine.invoke(graph, {"log": ["a"]}, thread())
    assert result == {"log": ["a"], "seen": {"log": ["a", "b"]}, "list": [{"log": ["a", "b"]}]}
    assert type(result["seen"]) is type(result["list"][0]) is dict
    assert engine.invoke(graph, {}, thread())["seen"]["seen"] == {"log": ["a", "b"]}


def test_streams_show_plain_dicts(engine):
    def node(state: OverAllState):
        yield {"log": "b"}
        yield state

    parts = engine.stream(
        chain(None, a=node, options=REDUCING), OverAllState({"log": ["a"]}), stream_mode=["values", "updates"]
    )
    assert parts[-1] == ("values", {"log": ["a", "b"]})
    assert {type(data) for mode, data in parts} == {dict}


# ── as the input ─────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_taken_as_the_input(engine, any_schema):
    """Merged like any input, and never changed."""
    schema, options = any_schema
    graph = chain(schema, options=options, a=wrote("messages", "b"))
    given = OverAllState(
        {"messages": ["a"], "profile": {"p": 1}}, key_strategies={"messages": Append(distinct=True)}
    )
    for make in (given, given.snapshot(), OverAllState(given)):
        result = engine.invoke(graph, make)
        assert vars_of(result if schema in (None, Typed) else result.value) == {
            "messages": ["a", "b"],
            "profile": {"p": 1},
        }
    assert given == {"messages": ["a"], "profile": {"p": 1}}


def test_a_state_that_was_handed_out_is_taken_as_the_input_of_another_graph(engine):
    """Whose strategies are its own."""
    inner = chain(None, x=wrote("log", "c"), options={"key_strategies": {"log": Append()}})

    def call(state: OverAllState):
        return {"inner": inner.invoke(state)["log"], "again": inner.invoke(state.snapshot())["log"]}

    graph = chain(None, a=call, options={"key_strategies": {"log": operator.add}})
    assert engine.invoke(graph, {"log": ["a"]}) == {"log": ["a"], "inner": ["a", "c"], "again": ["a", "c"]}


@pytest.mark.parametrize(
    ("schema", "registered", "text"),
    [
        (
            None,
            {"log": operator.add},
            r"has add registered for key 'log', which the graph merges with Append",
        ),
        (None, {"other": Append()}, r"key 'other', which the graph merges with Replace"),
        (Closed, {"nope": Append()}, r"key 'nope', which the graph doesn't have"),
    ],
    ids=["another", "plain", "unknown"],
)
def test_strategies_that_the_graph_doesnt_have_cant_come_with_an_input(engine, schema, registered, text):
    """They would have no effect: one schema decides."""
    ran = []
    graph = chain(
        schema, a=ran.append, options={"key_strategies": {"log": Append()}} if schema is None else None
    )
    with pytest.raises(ConfigError, match=text) as caught:
        engine.invoke(graph, OverAllState({}, key_strategies=registered))
    assert "StateGraph(key_strategies=" in str(caught.value)
    assert (caught.value.key, ran) == (next(iter(registered)), [])


# ── what can't be ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", ["state_schema", "input_schema", "output_schema"])
def test_it_is_no_schema(role):
    with pytest.raises(GraphBuildError, match=r"OverAllState isn't a schema.*leave the schema out"):
        StateGraph(**{role: OverAllState})


class Mine(OverAllState):
    pass


def by_class(state: Mine): ...


def ask(state: OverAllState): ...


@pytest.mark.parametrize(
    ("build", "where", "text"),
    [
        (lambda: chain(None, a=by_class), "node 'a'", "ask for that"),
        (lambda: chain(Annotated[list, operator.add], a=ask), "node 'a'", "single value"),
        (
            lambda: (
                builder(None, {"a": nothing}, (START, "a")).add_conditional_edges("a", by_class).compile()
            ),
            "the router 'by_class' of node 'a'",
            "ask for that",
        ),
        (
            lambda: (
                builder(Annotated[list, operator.add], {"a": nothing}, (START, "a"))
                .add_conditional_edges("a", ask)
                .compile()
            ),
            "the router 'ask' of node 'a'",
            "single value",
        ),
    ],
    ids=["node, derived", "node, root", "router, derived", "router, root"],
)
def test_functions_that_cant_be_handed_one_are_refused(build, where, text):
    with pytest.raises(GraphBuildError, match=text) as caught:
        build()
    assert where in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


# ── what the page on OverAllState leaves open ────────────────────────────────────────────────────────────────


def test_the_state_is_copied_once_on_its_way_to_the_first_node(engine):
    """The caller's list, the committed one, and, once it is read, the node's."""

    class Leaf:
        pass

    leaf, counts = Leaf(), []

    def lists() -> int:
        gc.collect()
        return sum(type(holder) is list for holder in gc.get_referrers(leaf))

    def node(state: OverAllState):
        counts.append(lists())
        assert len(state["big"]) == 1
        counts.append(lists())

    given = {"big": [leaf]}
    engine.invoke(chain(None, a=node, b=node), given)
    assert counts == [2, 3, 2, 3]
    assert given == {"big": [leaf]}


def test_a_conversation_goes_on_and_repeated_messages_dont_double(engine, saver):
    """A finished thread's state is what its next input is merged into; a new thread starts with nothing."""
    options = {"key_strategies": {"messages": add_messages, "log": Append()}}
    graph = chain(None, a=wrote("log", "ran"), saver=saver, options=options)
    said = {"messages": [{"role": "user", "content": "hi", "id": "m1"}]}
    for log in (["ran"], ["ran", "ran"]):
        assert engine.invoke(graph, said, thread()) == said | {"log": log}
    assert engine.invoke(graph, said, thread("new")) == said | {"log": ["ran"]}
    with pytest.raises(NothingToResumeError, match="finished"):
        engine.invoke(graph, None, thread())


def _either(state: OverAllState | None):
    return {"seen": [type(state).__name__]}


def _optional(state: Optional[OverAllState]):  # noqa: UP045 - the older spelling is asked about
    return {"seen": [type(state).__name__]}


def _quoted(state: "'OverAllState'"):
    return {"seen": [type(state).__name__]}


@pytest.mark.parametrize("node", [_either, _optional, _quoted], ids=["union", "optional", "quoted twice"])
def test_a_node_may_ask_for_it_in_any_spelling(engine, node):
    graph = StateGraph(key_strategies={"seen": Append()}).add_node("a", node).add_edge(START, "a").compile()
    assert engine.invoke(graph, {"x": 1})["seen"] == ["StateView"]
