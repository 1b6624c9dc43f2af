"""From a builder to tables: what every node, key, router and join becomes."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest

from juncture import IsLastStep, RemainingSteps, StateGraph
from juncture.channels import (
    Append,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    Replace,
    Topic,
    UntrackedValue,
    add_messages,
)
from juncture.channels.managed import IsLastStepManager, RemainingStepsManager
from juncture.engine.tables import (
    ASYNC,
    CHANNEL,
    ENTRY,
    EVERY_KEY,
    FACTORY,
    GENERATOR,
    GRAPH,
    LAST,
    REDUCE,
    SYNC,
)
from juncture.errors import GraphBuildError
from juncture.types import END, ROOT, START, RetryPolicy
from tests.faulty import faulty

pytestmark = faulty("unreachable-node", "stuck-join")  # nodes that show one thing need no way to them


class Keys(TypedDict, total=False):
    x: Any
    log: Annotated[list, operator.add]
    left: RemainingSteps


def typed(keys: dict[str, Any]) -> Any:
    """A TypedDict of these keys."""
    return TypedDict("Typed", dict(keys))


def node(state): ...


async def coroutine(state, runtime): ...


def generator(state, *, writer):
    yield


def router(state): ...


def graph(schema: Any = Keys, names: str = "a b c", **options: Any) -> StateGraph:
    builder = StateGraph(schema, **options)
    for name in names.split():
        builder.add_node(name, node)
    return builder.add_edge(START, names.split(maxsplit=1)[0])


def tables(schema: Any = Keys, names: str = "a b c", **options: Any) -> Any:
    return graph(schema, names, **options).compile().tables


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Kinds(TypedDict, total=False):
    last: int
    reduced: Annotated[list, Append()]
    unknown: Annotated[list, lambda old, new: new]
    messages: Annotated[list, add_messages]
    topic: Annotated[list, Topic(str)]
    once: Annotated[Any, EphemeralValue(Any)]
    secret: Annotated[Any, UntrackedValue(Any)]
    late: Annotated[Any, LastValueAfterFinish(Any)]
    last_step: IsLastStep


def test_what_a_key_becomes():
    made = tables(Kinds)
    assert {name: key.merge for name, key in made.keys.items()} == {
        "last": LAST,
        "reduced": REDUCE,
        "unknown": REDUCE,
        "messages": REDUCE,
        "topic": CHANNEL,
        "once": CHANNEL,
        "secret": CHANNEL,
        "late": CHANNEL,
    }
    assert [name for name, key in made.keys.items() if key.pure] == ["last", "reduced", "messages"]
    assert [name for name, key in made.keys.items() if key.identify is not None] == ["messages"]
    assert made.untracked == {"secret"}
    assert [key.name for key in made.volatile] == ["topic", "once"]
    assert [key.name for key in made.finishing] == ["late"]
    assert all(key.name == name for name, key in made.keys.items())


def test_what_may_be_written_without_a_check():
    assert tables().quick_keys == {"x", "log"}
    assert not tables(Kinds).quick_keys
    assert not tables(TypedDict("checked", {"x": int}), validate=True).quick_keys
    assert not tables(Annotated[list, operator.add]).quick_keys
    assert not tables(None).quick_keys


def test_only_an_open_state_makes_keys():
    assert tables().open_key is None
    made = tables(None).open_key
    assert (made("k").merge, made("k") is made("l")) == (LAST, True)
    appending = tables(None, default_strategy=Append()).open_key("k")
    assert (appending.name, appending.merge, appending.reducer) == ("k", REDUCE, Append())
    assert tables(None, default_strategy=Replace()).open_key("k").merge == LAST


def test_strategies_of_an_open_state():
    made = tables(None, key_strategies={"log": Append(), "topic": Topic(str)})
    assert {name: key.merge for name, key in made.keys.items()} == {"log": REDUCE, "topic": CHANNEL}


def test_strategies_of_keys_that_a_schema_declares():
    made = tables(key_strategies={"x": operator.add})
    assert (made.keys["x"].merge, made.keys["x"].reducer) == (REDUCE, operator.add)


@pytest.mark.parametrize(
    ("strategies", "text", "key"),
    [
        ({"log": Append()}, "has a reducer in its schema and another in key_strategies", "log"),
        ({"z": Append()}, "key_strategies names 'z', which the state schema doesn't have", "z"),
        ({"x": 3}, "", "x"),
    ],
)
def test_strategies_that_cant_be(strategies, text, key):
    with pytest.raises(GraphBuildError) as caught:
        graph(key_strategies=strategies).compile()
    assert text in str(caught.value)
    assert caught.value.key == key


def test_a_strategy_that_cant_be_says_where_it_stands():
    with pytest.raises(GraphBuildError) as caught:
        graph(None, key_strategies={"k": 3}).compile()
    assert caught.value.key == "k"
    assert "in key_strategies, for key 'k'" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("strategy", "seen", "result", "again"),
    [
        (EphemeralValue(Any), [{}, {"k": 1}, {}], {}, {}),
        (UntrackedValue(Any), [{}, {"k": 1}, {"k": 1}], {"k": 1}, {}),
        (LastValueAfterFinish(Any), [{}, {}, {}], {"k": 1}, {"k": 1}),
        (LastValue(Any), [{}, {"k": 1}, {"k": 1}], {"k": 1}, {"k": 1}),
    ],
)
def test_an_open_states_default_strategy_holds_for_keys_that_nobody_named(strategy, seen, result, again):
    """One that empties a key, doesn't save it, or waits for the end, does so for every key, or is refused."""
    looked = []

    def look(state):
        looked.append(dict(state))

    def write(state):
        look(state)
        return {"k": 1}

    try:
        builder = StateGraph(default_strategy=strategy).add_sequence([("a", write), ("b", look), ("c", look)])
        compiled = builder.add_edge(START, "a").compile("memory:")
    except GraphBuildError:
        return
    assert dict(compiled.invoke({}, thread_id="t")) == result
    assert looked == seen
    compiled.invoke({}, thread_id="t")
    assert looked[3] == again


# ── first values ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Defaults:
    x: int = 3
    log: Annotated[list, operator.add] = field(default_factory=lambda: ["default"])
    total: Annotated[int, operator.add] = 7
    items: Annotated[list, Append()] = field(default_factory=list)


@dataclass
class NoDefaults:
    log: Annotated[list, operator.add]
    total: Annotated[int, operator.add]
    biggest: Annotated[int, max]


def test_a_reducer_starts_from_its_schemas_default_else_from_its_zero():
    assert tables(Defaults).initial() == {"log": ["default"], "total": 7, "items": []}
    assert tables(NoDefaults).initial() == {"log": [], "total": 0}
    assert tables().initial() == {"log": []}
    assert tables(None).initial() == {}


def test_lenient_a_reducer_starts_from_its_types_zero():
    assert tables(Defaults, strict=False).initial() == {"log": [], "total": 0, "items": []}
    assert tables(NoDefaults, strict=False).initial() == {"log": [], "total": 0, "biggest": 0}


@pytest.mark.parametrize("schema", [Defaults, NoDefaults, Keys])
def test_first_values_are_new_each_time(schema):
    made = tables(schema)
    made.initial()["log"].append("changed")
    assert "changed" not in made.initial()["log"]


# ── inputs ───────────────────────────────────────────────────────────────────────────────────────────────────


class Narrow(TypedDict):
    x: Any


def reads_narrow(state: Narrow): ...


def reads_data(state: Defaults): ...


def test_what_a_node_is_handed():
    held = {"x": [1], "log": ["l"], "more": 1}
    builder = graph().add_node("narrow", reads_narrow).add_node("said", node, input_schema=Narrow)
    nodes = builder.compile().tables.nodes
    assert nodes["a"].project({"x": [1], "log": ["l"]}) == {"x": [1], "log": ["l"]}
    for name in ("narrow", "said"):
        got = nodes[name].project(held)
        assert got == {"x": [1]}
        assert got["x"] is not held["x"]
    assert nodes["narrow"].project({}) == {}
    assert (nodes["a"].managed, nodes["narrow"].managed) == ({"left": RemainingStepsManager}, {})


def test_what_a_node_is_handed_without_copying():
    held = {"x": [1], "log": ["l"]}
    builder = (
        graph(isolation="shared").add_node("narrow", reads_narrow).add_node("copied", node, isolation="copy")
    )
    nodes = builder.compile().tables.nodes
    for name in ("a", "narrow"):
        got = nodes[name].project(held)
        assert got["x"] is held["x"]
        assert got is not held
        assert nodes[name].shared
        assert nodes[name].project_send(held) is held
    assert nodes["narrow"].project(held) == {"x": [1]}
    assert nodes["copied"].project(held)["x"] is not held["x"]
    assert nodes["copied"].project_send(held)["x"] is not held["x"]
    assert graph().add_node("one", node, isolation="shared").compile().tables.nodes["one"].shared


def test_a_node_may_be_handed_an_object():
    nodes = graph().add_node("data", node, input_schema=Defaults, isolation="copy").compile().tables.nodes
    held = {"x": 5, "log": ["l"]}
    got = nodes["data"].project(held)
    assert got == Defaults(5, ["l"])
    assert got.log is not held["log"]
    assert nodes["data"].snapshot is not None
    assert nodes["a"].snapshot is None


def test_a_single_value_is_handed_as_it_is():
    made = tables(Annotated[list, operator.add])
    assert made.nodes["a"].project({ROOT: [1]}) == [1]
    assert made.nodes["a"].root_value
    assert made.entry.root_value
    assert (made.input_keys, made.output_keys) == ({ROOT}, {ROOT})


def test_open_states_are_handed_whole():
    assert tables(None).nodes["a"].project({"any": [1]}) == {"any": [1]}
    assert (tables(None).input_keys, tables(None).output_keys) == (None, None)


def test_input_and_output_keys():
    made = tables(input_schema=Narrow, output_schema=TypedDict("output", {"log": list}))
    assert (made.input_keys, made.output_keys) == ({"x"}, {"log"})
    assert tables().output_keys == {"x", "log"}


def test_a_nodes_private_keys_are_keys():
    private = typed({"secret": int})
    made = graph().add_node("p", node, input_schema=private).compile().tables
    assert made.keys.keys() == {"x", "log", "secret"}
    assert "secret" not in made.output_keys


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_how_a_nodes_code_is_called_and_what_it_is_given():
    builder = (
        graph().add_node("co", coroutine).add_node("gen", generator).add_node("made", factory=lambda: node)
    )
    nodes = builder.compile().tables.nodes
    assert [(nodes[name].kind, dict(nodes[name].inject)) for name in ("a", "co", "gen", "made")] == [
        (SYNC, {}),
        (ASYNC, {"runtime": "runtime"}),
        (GENERATOR, {"writer": "writer"}),
        (FACTORY, {}),
    ]
    assert (nodes["a"].call, nodes["made"].call) == (node, None)
    assert nodes["made"].factory() is node


@pytest.mark.parametrize(
    ("action", "kind", "inject"),
    [(node, SYNC, []), (coroutine, ASYNC, ["runtime"]), (generator, GENERATOR, ["writer"])],
)
def test_what_a_factory_makes_stands_where_the_factory_stood(action, kind, inject):
    policy = RetryPolicy(max_attempts=5)
    builder = graph().add_node(
        "made", factory=lambda: action, input_schema=Narrow, retry_policy=policy, inline=True
    )
    builder.add_edge("made", "a").add_edge(["made", "a"], "b")
    stands = builder.compile().tables.nodes["made"]
    made = stands.prepare(stands.factory())
    assert (made.name, made.kind, made.call, list(made.inject)) == ("made", kind, action, inject)
    assert made.project({"x": 1, "log": []}) == {"x": 1}
    assert (made.retry, made.inline) == ((policy,), True)
    for name in ("successors", "joins", "routers", "routes", "straight"):
        assert getattr(made, name) == getattr(stands, name)
    assert made.successors == ("a",)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_factory_may_make_a_graph(compiled):
    inner = graph(Keys, "i")
    stands = (
        graph()
        .add_node("made", factory=lambda: inner.compile() if compiled else inner)
        .compile()
        .tables.nodes["made"]
    )
    made = stands.prepare(stands.factory())
    assert (made.kind, made.shared_keys, made.returned_keys) == (GRAPH, {"log"}, {"x"})


@pytest.mark.parametrize("made", [3, None, "node"])
def test_what_a_factory_makes_must_be_an_action(made):
    stands = graph().add_node("made", factory=lambda: made).compile().tables.nodes["made"]
    with pytest.raises(GraphBuildError, match=f"the factory of node 'made' made {made!r}") as caught:
        stands.prepare(stands.factory())
    assert caught.value.node == "made"


def test_a_nested_graph_has_no_saver_of_its_own():
    inner = graph(Keys, "i")
    with pytest.raises(
        GraphBuildError, match="node 'in' is a graph compiled with a saver of its own"
    ) as caught:
        graph().add_node("in", inner.compile("memory:")).compile()
    assert caught.value.node == "in"
    assert (
        not graph()
        .add_node("in", inner.compile(checkpointer=False))
        .compile()
        .tables.nodes["in"]
        .graph.persist
    )


def test_a_node_that_nothing_fills_is_named():
    with pytest.raises(GraphBuildError, match="node 'z' has a parameter 'more'"):
        graph().add_node("z", lambda state, more: None).compile()


def test_what_else_a_node_is_said_to_be():
    policy = RetryPolicy(max_attempts=5)
    made = graph().add_node("z", node, defer=True, inline=True, retry_policy=policy).compile().tables
    assert (made.nodes["z"].defer, made.nodes["z"].inline, made.nodes["z"].retry) == (True, True, (policy,))
    assert made.deferred == {"z"}


def test_nodes_are_in_the_order_of_their_names():
    assert list(tables(names="c a b").nodes) == ["a", "b", "c"]


def test_what_a_returned_object_says():
    @dataclass
    class Foreign:
        x: int = 0

    class Bare:
        pass

    updates_of = tables(Defaults).nodes["a"].updates_of
    assert updates_of(Defaults(x=4), None) == {"x": 4}
    assert updates_of(Foreign(5), None) == {"x": 5}
    assert updates_of(Foreign(6), None) == {"x": 6}
    for other in (3, "text", [1], {"x": 1}, None, Bare(), Bare()):
        assert updates_of(other, None) is None


# ── routes ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_a_node_leads():
    builder = (
        graph()
        .add_edge("a", "c")
        .add_edge("a", "b")
        .add_edge("b", END)
        .add_conditional_edges("c", router, ["a"], default="b")
    )
    made = builder.compile().tables
    assert [(n.successors, len(n.routers), n.straight, n.routes) for n in made.nodes.values()] == [
        (("b", "c"), 0, True, True),
        ((), 0, True, True),
        ((), 1, False, True),
    ]
    assert (made.entry.successors, made.entry.kind, made.entry.name) == (("a",), ENTRY, START)
    assert not tables().nodes["a"].routes
    [chosen] = made.nodes["c"].routers
    assert (chosen.name, chosen.call, chosen.kind, chosen.targets, chosen.default) == (
        "router",
        router,
        SYNC,
        {"a": "a"},
        "b",
    )


def test_a_node_before_a_deferred_one_isnt_straight():
    builder = graph().add_node("z", node, defer=True).add_edge("a", "z").add_edge("b", "c")
    nodes = builder.compile().tables.nodes
    assert (nodes["a"].straight, nodes["b"].straight) == (False, True)


def test_joins():
    builder = (
        graph()
        .add_edge(["b", "a"], "c")
        .add_edge(["a", "c"], END)
        .add_edge(["a", "b", "c"], "a", join="arrived")
    )
    made = builder.compile().tables
    assert [(join.sources, join.target, join.policy) for join in made.joins.values()] == [
        (("a", "b"), "c", "all"),
        (("a", "b", "c"), "a", "arrived"),
    ]
    assert [[join.target for join in n.joins] for n in made.nodes.values()] == [["c", "a"], ["c", "a"], ["a"]]
    assert not made.nodes["c"].straight
    assert all(name == join.id for name, join in made.joins.items())


def test_joins_of_nodes_with_any_names_are_told_apart():
    builder = graph(names="a a+b b+c c t").add_edge(["a", "b+c"], "t").add_edge(["a+b", "c"], "t")
    assert [join.sources for join in builder.compile().tables.joins.values()] == [("a", "b+c"), ("a+b", "c")]


def test_an_edge_to_the_end_of_a_join_counts_as_a_route():
    assert graph().add_edge(["a", "b"], END).compile().tables.nodes["a"].routes


# ── routers ──────────────────────────────────────────────────────────────────────────────────────────────────


def routed(path: Any, source: str = "a", **options: Any) -> Any:
    made = (
        graph(**options).add_node("narrow", reads_narrow).add_conditional_edges(source, path).compile().tables
    )
    return (made.nodes.get(source) or made.entry).routers[0]


async def async_router(state, config): ...


def narrow_router(state: Narrow): ...


def data_router(state: Defaults): ...


def managed_router(state: TypedDict("managed", {"left": RemainingSteps, "x": Any})): ...


def astray(state: TypedDict("astray", {"nowhere": int})): ...


def test_what_a_router_is_handed():
    held = {"x": [1], "log": ["l"]}
    assert routed(router).project(held) == held
    assert routed(router, "narrow").project(held) == {"x": [1]}
    assert routed(narrow_router).project(held) == {"x": [1]}
    assert routed(narrow_router, START).project(held) == {"x": [1]}
    assert routed(router, isolation="shared").project(held)["x"] is not held["x"]


def test_a_router_may_be_handed_an_object():
    assert routed(data_router, strict=False).project({"x": 5}).x == 5


def test_how_a_router_is_called_and_what_it_is_given():
    made = routed(async_router)
    assert (made.kind, dict(made.inject), dict(made.managed)) == (
        ASYNC,
        {"config": "config"},
        {"left": RemainingStepsManager},
    )
    assert dict(routed(managed_router).managed) == {"left": RemainingStepsManager}
    assert dict(routed(narrow_router).managed) == {}


def test_a_router_that_reads_what_isnt_there():
    with pytest.raises(
        GraphBuildError, match=r"the router 'astray' of node 'a' reads \['nowhere'\]"
    ) as caught:
        routed(astray)
    assert caught.value.node == "a"
    assert routed(astray, strict=False).project({"nowhere": 1, "x": 2}) == {"nowhere": 1}


def test_a_router_that_nothing_fills_is_named():
    with pytest.raises(GraphBuildError, match=r"the router '.*' of node 'a' has a parameter 'more'"):
        routed(lambda state, more: None)


# ── nested graphs ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_graph_as_a_node():
    inner = graph(Keys, "i").compile()
    policy = RetryPolicy(max_attempts=2)
    made = graph().add_node("in", inner, defer=True, retry_policy=policy).compile().tables.nodes["in"]
    assert (made.kind, made.call, made.graph, made.defer, made.retry) == (
        GRAPH,
        None,
        inner.tables,
        True,
        (policy,),
    )
    assert made.shared_keys == {"log"}
    assert made.returned_keys == {"x"}


def test_a_graph_still_to_be_compiled_as_a_node():
    inner = graph(Keys, "i")
    made = graph().add_node("in", inner).compile().tables.nodes["in"]
    assert (made.kind, made.graph.name) == (GRAPH, "in")


@pytest.mark.parametrize(
    ("outer", "inner", "shared"),
    [
        (Annotated[list, operator.add], Annotated[list, operator.add], {"k"}),
        (Annotated[list, Append()], Annotated[list, Append()], {"k"}),
        (Annotated[list, operator.add], Annotated[list, Append()], set()),
        (Annotated[list, operator.add], list, set()),
        (list, Annotated[list, operator.add], set()),
        (list, list, set()),
        (Annotated[list, Topic(str)], Annotated[list, Topic(str)], set()),
    ],
)
def test_which_keys_both_merge_alike(outer, inner, shared):
    child = graph(TypedDict("child", {"k": inner, "own": Annotated[list, operator.add]}), "i")
    made = (
        graph(TypedDict("parent", {"k": outer, "other": int}))
        .add_node("in", child)
        .compile()
        .tables.nodes["in"]
    )
    assert made.shared_keys == shared
    assert made.returned_keys == {"k"} - shared


def test_open_states_exchange_what_they_have():
    child = graph(None, "i")
    assert graph(None).add_node("in", child).compile().tables.nodes["in"].returned_keys is EVERY_KEY
    made = graph().add_node("in", child).compile().tables.nodes["in"]
    assert made.returned_keys == {"x", "log"}
    made = graph(None).add_node("in", graph(Keys, "i")).compile().tables.nodes["in"]
    assert made.returned_keys == {"x", "log"}


# ── the whole ────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_compile_is_told():
    made = graph().compile(name="n", debug=True, interrupt_before=["a"], interrupt_after="*").tables
    assert made.pauses is not None
    assert (made.name, made.debug, made.pauses.before.names, made.pauses.after.names) == (
        "n",
        True,
        {"a"},
        {"*"},
    )
    assert (made.strict, made.persist) == (True, True)
    made = graph(strict=False).compile(checkpointer=False).tables
    assert (made.strict, made.persist, made.debug) == (False, False, False)


def test_a_model_check_is_the_states():
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):
        x: int = 0

        @pydantic.model_validator(mode="after")
        def check(self):
            return self

    assert tables(Model).check_model is not None
    assert tables().check_model is None


def test_only_a_validating_schema_demands_its_keys():
    required = typed({"x": int})
    assert tables(required, validate=True).keys["x"].required
    assert not tables(required).keys["x"].required
    assert not tables(TypedDict("optional", {"x": int}, total=False), validate=True).keys["x"].required


def test_a_merged_value_is_checked_as_its_schema_says():
    made = tables(TypedDict("checked", {"log": Annotated[list[int], operator.add], "x": int}), validate=True)
    assert made.keys["log"].validate_merged([1], [["2"]], [1, "2"]) == [1, 2]
    assert made.keys["log"].validate is None
    assert made.keys["x"].validate("3") == 3
    assert tables().keys["log"].validate_merged is None
    assert type(made.keys["x"].channel) is LastValue
    assert IsLastStepManager.value(1)
