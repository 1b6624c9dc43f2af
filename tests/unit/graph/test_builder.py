"""Building a graph: what is kept of it, and every check at once or at compile, by the text that LangGraph users know."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal, TypedDict

import pytest

from juncture import StateGraph
from juncture.channels import Append
from juncture.errors import GraphBuildError
from juncture.graph.specs import command_targets
from juncture.types import END, START, Command, RetryPolicy
from tests.faulty import faulty

pytestmark = faulty("unreachable-node", "stuck-join")  # nodes that show one thing need no way to them


class Keys(TypedDict, total=False):
    x: int
    y: int


def typed(keys: dict[str, Any]) -> Any:
    """A TypedDict of these keys."""
    return TypedDict("Typed", dict(keys))


def node(state): ...


def other(state): ...


def router(state): ...


def graph(names: str = "a b c", schema: Any = Keys, **options: Any) -> StateGraph:
    builder = StateGraph(schema, **options)
    for name in names.split():
        builder.add_node(name, node)
    return builder


def refused(call, *arguments, text, node=None, **options):
    """A call that is refused, names its node, and changes nothing."""
    builder = getattr(call, "__self__", None)
    before = describe(builder) if isinstance(builder, StateGraph) else None
    with pytest.raises(GraphBuildError) as caught:
        call(*arguments, **options)
    assert text in str(caught.value), str(caught.value)
    assert caught.value.node == node
    if isinstance(builder, StateGraph):
        assert describe(builder) == before


def describe(builder):
    return (
        list(builder.nodes),
        set(builder.edges),
        [(join.sources, join.target, join.policy) for join in builder.joins],
        {source: list(branches) for source, branches in builder.branches.items()},
    )


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_keeps_what_was_said_of_it():
    policy = RetryPolicy()
    metadata = {"m": 1}
    builder = StateGraph(Keys).add_node(
        "a",
        node,
        defer=True,
        metadata=metadata,
        input_schema=Keys,
        retry_policy=policy,
        destinations=("b",),
        inline=True,
        isolation="shared",
    )
    spec = builder.nodes["a"]
    assert (spec.name, spec.action, spec.defer, spec.metadata) == ("a", node, True, {"m": 1})
    assert (spec.input_schema, spec.retry_policy, spec.destinations) == (Keys, policy, ("b",))
    assert (spec.factory, spec.inline, spec.isolation) == (None, True, "shared")
    assert spec.metadata is not metadata


def test_a_node_may_be_named_after_its_action():
    class Named:
        name = "chosen"

        def __call__(self, state): ...

    builder = graph("").add_node(node).add_node(functools.partial(other)).add_node(Named())
    assert list(builder.nodes) == ["node", "other", "chosen"]


def test_a_graph_is_named_after_itself():
    inner = graph().add_edge(START, "a").compile(name="inner")
    assert list(graph("").add_node(inner).nodes) == ["inner"]


@pytest.mark.parametrize("name", [START, END])
def test_reserved_names(name):
    refused(graph().add_node, name, node, text=f"node name {name!r} is reserved", node=name)


@pytest.mark.parametrize("name", ["a|b", "a:b", "|", ":"])
def test_reserved_characters(name):
    refused(graph().add_node, name, node, text="is a reserved character", node=name)


def test_names_are_unique():
    refused(graph().add_node, "a", node, text="Node `a` already present", node="a")


@pytest.mark.parametrize(
    ("arguments", "options", "text", "name"),
    [
        (("z",), {}, "needs an action or a factory", "z"),
        (("z", node), {"factory": node}, "needs an action or a factory, and not both", "z"),
        (("z", 3), {}, "the action of node 'z' is 3, a int; it must be callable or a graph", "z"),
        (("z",), {"factory": 3}, "the factory of node 'z' is a int; it must be callable", None),
        (("z", node), {"isolation": "none"}, 'isolation of node \'z\' is "copy" or "shared"', "z"),
        (("", node), {}, "a node's name is a string that isn't empty, got ''", None),
    ],
)
def test_what_is_no_node(arguments, options, text, name):
    refused(graph().add_node, *arguments, text=text, node=name, **options)


def test_an_action_that_has_no_usable_name():
    class Numbered:
        name = 3

        def __call__(self, state): ...

    refused(graph().add_node, Numbered(), text="a node's name is a string that isn't empty, got None")


def test_a_factory_makes_the_action():
    spec = graph("").add_node("a", factory=lambda: node).nodes["a"]
    assert (spec.action, spec.factory()) == (None, node)


@pytest.mark.parametrize("isolation", ["none", None, True])
def test_isolation_of_a_graph(isolation):
    with pytest.raises(GraphBuildError, match='isolation is "copy" or "shared"'):
        StateGraph(Keys, isolation=isolation)


# ── sequences ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sequence_is_nodes_and_edges_between_them():
    inner = graph().add_edge(START, "a").compile(name="inner")
    builder = graph("").add_sequence([node, ("second", other), inner])
    assert list(builder.nodes) == ["node", "second", "inner"]
    assert builder.edges == {("node", "second"), ("second", "inner")}
    assert graph("").add_sequence([node]).edges == set()


@pytest.mark.parametrize(
    ("nodes", "text", "name"),
    [
        ([], "Sequence requires at least one node", None),
        ([node, node], "Node names must be unique in a sequence, got ['node', 'node']", None),
        ([("z", node), ("a", node)], "Node `a` already present", "a"),
        ([("z", node), (START, node)], "reserved", START),
        ([("z", node), ("y", 3)], "must be callable", "y"),
        ([("z", node), ("", node)], "a string that isn't empty", None),
    ],
)
def test_what_is_no_sequence(nodes, text, name):
    refused(graph().add_sequence, nodes, text=text, node=name)


# ── edges ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_edges():
    builder = graph().add_edge(START, "a").add_edge("a", "b").add_edge("a", "b").add_edge("b", END)
    builder.set_entry_point("c").set_finish_point("c").add_edge("later", "a")
    assert builder.edges == {(START, "a"), ("a", "b"), ("b", END), (START, "c"), ("c", END), ("later", "a")}


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset, iter])
def test_a_join_is_its_sources_once_and_sorted(kind):
    builder = graph().add_edge(kind(["c", "a", "c"]), "b", join="arrived")
    assert [(join.sources, join.target, join.policy) for join in builder.joins] == [
        (("a", "c"), "b", "arrived")
    ]
    assert graph().add_edge(["a"], END).joins[0].policy == "all"


@pytest.mark.parametrize(
    ("start", "end", "options", "text", "name"),
    [
        ("a", START, {}, "START cannot be an end node", None),
        (END, "a", {}, "END cannot be a start node", None),
        (["a", END], "b", {}, "END cannot be a start node", None),
        (["a", START], "b", {}, "START can't be part of a join", None),
        (["a", "z"], "b", {}, "Need to add_node `z` first", "z"),
        (["a", "b"], "z", {}, "Need to add_node `z` first", "z"),
        ([], "b", {}, "the join into 'b' has no sources", None),
        ("a", None, {}, "an edge ends at a node's name or END, got None", None),
        (["a", "b"], ["c"], {}, "an edge ends at a node's name or END, got ['c']", None),
        (3, "a", {}, "an edge starts at a node's name, START, or a list of names, got 3", None),
        (["a", "b"], START, {}, "START cannot be an end node", None),
        (["a", "b"], "c", {"join": "any"}, 'join is "all" or "arrived", got \'any\'', None),
    ],
)
def test_what_is_no_edge(start, end, options, text, name):
    refused(graph().add_edge, start, end, text=text, node=name, **options)


def test_a_join_has_one_policy():
    builder = (
        graph().add_edge(["a", "b"], "c").add_edge(["b", "a"], "c").add_edge(["a", "c"], "b", join="arrived")
    )
    refused(builder.add_edge, ["b", "a"], "c", join="arrived", text="exists with another policy", node="c")


# ── conditional edges ────────────────────────────────────────────────────────────────────────────────────────


def branch(builder, source="a"):
    [spec] = builder.branches[source].values()
    return spec


def literal(state) -> Literal["a", "b"]: ...


def several(state) -> list[Literal["b"]] | Literal["c", "__end__"]: ...


def untyped(state) -> str: ...


@pytest.mark.parametrize(
    ("path", "path_map", "targets"),
    [
        (router, None, None),
        (untyped, None, None),
        (literal, None, {"a": "a", "b": "b"}),
        (several, None, {"b": "b", "c": "c", END: END}),
        (router, {True: "a", "end": END}, {True: "a", "end": END}),
        (router, ["a", END], {"a": "a", END: END}),
        (literal, ["c"], {"c": "c"}),
    ],
)
def test_where_a_router_may_lead(path, path_map, targets):
    spec = branch(graph().add_conditional_edges("a", path, path_map, default="c"))
    assert (spec.path, spec.targets, spec.default) == (path, targets, "c")


def test_what_a_branch_is_called():
    builder = graph().add_conditional_edges("a", router).add_conditional_edges("a", lambda state: "b")
    builder.add_conditional_edges("a", router, name="again").set_conditional_entry_point(router, ["a"])
    assert list(builder.branches["a"]) == ["router", "condition", "again"]
    assert branch(builder, START).targets == {"a": "a"}


@pytest.mark.parametrize(
    ("arguments", "options", "text", "name"),
    [
        ((END, router), {}, "END cannot be a start node", None),
        (("a", "b"), {}, "the router of node 'a' is a str; it must be callable", None),
        (("b", router), {}, "Branch with name `router` already exists for node `b`", "b"),
        (("a", router, {}), {}, "the path_map of branch 'router' at node 'a' is empty", "a"),
        (("a", router, []), {}, "is empty", "a"),
        (("a", router, "bc"), {}, "is the string 'bc'; give a list of names", None),
        ((START, router, []), {}, "is empty", START),
    ],
)
def test_what_is_no_conditional_edge(arguments, options, text, name):
    builder = graph().add_conditional_edges("b", router)
    refused(builder.add_conditional_edges, *arguments, text=text, node=name, **options)


# ── compile ──────────────────────────────────────────────────────────────────────────────────────────────────


def entered(names: str = "a b c", **options: Any) -> StateGraph:
    return graph(names, **options).add_edge(START, "a")


CHECKS = {
    "an edge from nowhere": (
        lambda: entered().add_edge("bb", "a"),
        "Found edge starting at unknown node 'bb'. Did you mean 'b'?",
        "bb",
    ),
    "a branch from nowhere": (
        lambda: entered().add_conditional_edges("zzz", router),
        "Found edge starting at unknown node 'zzz'. Known nodes: a, b, c",
        "zzz",
    ),
    "no entry": (lambda: graph().add_edge("a", "b"), "Graph must have an entrypoint", None),
    "nothing at all": (lambda: graph(""), "Graph must have an entrypoint", None),
    "a branch to nowhere": (
        lambda: entered().add_conditional_edges("a", router, {"x": "bb"}),
        "At 'a' node, 'router' branch found unknown target 'bb'. Did you mean 'b'?",
        "a",
    ),
    "a default of nowhere": (
        lambda: entered().add_conditional_edges("a", router, default="bb"),
        "At 'a' node, 'router' branch found unknown target 'bb'",
        "a",
    ),
    "an edge to nowhere": (
        lambda: entered().add_edge("a", "bb"),
        "Found edge ending at unknown node `bb` (from 'a'). Did you mean 'b'?",
        "bb",
    ),
    "no nodes to name": (lambda: graph("").add_edge(START, "zzz"), "Known nodes: none", "zzz"),
    "a destination of nowhere": (
        lambda: entered().add_node("d", node, destinations=("bb",)),
        "node 'd' declares the unknown destination 'bb'. Did you mean 'b'?",
        "d",
    ),
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_graph_that_cant_be_right(check):
    make, text, name = CHECKS[check]
    refused(make().compile, text=text, node=name)


def test_the_order_of_the_checks():
    builder = graph().add_edge("a", "zz").add_conditional_edges("a", router, ["yy"]).add_edge("xx", "a")
    refused(builder.compile, text="starting at unknown node 'xx'", node="xx")
    builder = graph().add_edge("a", "zz").add_conditional_edges("a", router, ["yy"])
    refused(builder.compile, text="must have an entrypoint")
    builder.add_edge(START, "a")
    refused(builder.compile, text="'router' branch found unknown target 'yy'", node="a")


@pytest.mark.parametrize(
    "builder",
    [
        graph("a").set_conditional_entry_point(router),
        graph("a").set_conditional_entry_point(router, ["a", END]),
        graph("a").add_conditional_edges(START, router, ["a"], default=END),
        graph("a").add_edge(START, END),
        entered("a"),
    ],
)
def test_a_graph_that_is_right(builder):
    assert builder.compile().tables.nodes.keys() == {"a"}


# ── nodes to pause at ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after", "interrupt_before_route"])
def test_nodes_to_pause_at(where):
    kind = where.removeprefix("interrupt_").removeprefix("before_")
    compiled = {
        names: entered().compile(**{where: names}).tables for names in (None, "*", ("a", "c"), ("*",), ())
    }
    places = {n: t.pauses and getattr(t.pauses, kind).names for n, t in compiled.items()}
    assert places == {None: None, "*": {"*"}, ("a", "c"): {"a", "c"}, ("*",): {"*"}, (): None}
    refused(
        entered().compile,
        text="Interrupt node `bb` not found. Did you mean 'b'?",
        node="bb",
        **{where: ["a", "bb"]},
    )
    refused(
        entered().compile, text="nodes to interrupt are a list of names or \"*\", got 'a'", **{where: "a"}
    )


# ── destinations ─────────────────────────────────────────────────────────────────────────────────────────────


def commanding(state) -> Command[Literal["b", "__end__"]]: ...


def maybe(state) -> Command[Literal["b"]] | dict | None: ...


def to_parent(state) -> Command[Literal["__parent__"]]: ...


def astray(state) -> Command[Literal["zz"]]: ...


@pytest.mark.parametrize(
    ("action", "targets"),
    [
        (commanding, ("b", END)),
        (maybe, ("b",)),
        (to_parent, ("__parent__",)),
        (node, ()),
        (literal, ()),
        (functools.partial(commanding), ("b", END)),
        (None, ()),
    ],
)
def test_destinations_that_an_annotation_names(action, targets):
    assert command_targets(action) == targets


@pytest.mark.parametrize("action", [commanding, maybe])
@pytest.mark.parametrize(
    "route",
    [
        lambda builder: builder.add_edge("n", "b"),
        lambda builder: builder.add_conditional_edges("n", router),
        lambda builder: builder.add_edge(["n", "a"], "b"),
    ],
)
def test_two_ways_of_routing_are_refused(action, route):
    def make(**options):
        return route(entered(**options).add_node("n", action))

    refused(make().compile, text="two mechanisms would route at once", node="n")
    assert make(strict=False).compile()


@pytest.mark.parametrize("destinations", [("b",), {"b": "label"}])
def test_destinations_beside_edges_are_refused(destinations):
    builder = entered().add_node("n", node, destinations=destinations).add_edge("n", "b")
    refused(builder.compile, text="two mechanisms", node="n")


def test_an_unknown_destination():
    refused(entered().add_node("n", astray).compile, text="unknown destination 'zz'", node="n")
    assert entered(strict=False).add_node("n", astray).compile()
    assert entered().add_node("n", node, destinations=("b", END, "__parent__")).compile()


def test_a_command_for_the_parent_may_stand_beside_edges():
    assert entered().add_node("n", to_parent).add_edge("n", "b").compile()


# ── the builder afterwards ───────────────────────────────────────────────────────────────────────────────────


def test_later_changes_dont_reach_a_compiled_graph():
    builder = entered()
    compiled = builder.compile()
    builder.add_node("d", node).add_edge("a", "b")
    assert compiled.tables.nodes.keys() == {"a", "b", "c"}
    assert compiled.tables.nodes["a"].successors == ()
    assert builder.compile().tables.nodes["a"].successors == ("b",)


def test_defaults_reach_nodes_that_say_nothing_of_their_own():
    first, second, own = RetryPolicy(max_attempts=1), RetryPolicy(max_attempts=2), RetryPolicy(max_attempts=9)
    builder = entered().set_node_defaults(retry_policy=first).add_node("d", node, retry_policy=[own, first])
    builder.set_node_defaults(retry_policy=second).set_node_defaults().add_node("e", node, retry_policy=own)
    tables = builder.compile().tables
    assert {name: tables.nodes[name].retry for name in "ade"} == {
        "a": (second,),
        "d": (own, first),
        "e": (own,),
    }
    assert entered().compile().tables.nodes["a"].retry == ()


def test_schemas_default_to_the_states():
    output = typed({"x": int})
    builder = StateGraph(Keys, output_schema=output)
    assert (builder.input_schema, builder.output_schema) == (Keys, output)


def test_managed_keys_have_no_place_in_an_input_or_output():
    from juncture import RemainingSteps

    managed = typed({"left": RemainingSteps})
    assert StateGraph(managed)
    for role in ("input_schema", "output_schema"):
        with pytest.raises(GraphBuildError, match="left"):
            StateGraph(Keys, **{role: managed})


def test_strategies_are_kept():
    builder = StateGraph(key_strategies={"log": Append()}, default_strategy=Append())
    assert (builder.key_strategies, builder.default_strategy) == ({"log": Append()}, Append())
    assert Annotated[int, "x"]
