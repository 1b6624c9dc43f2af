"""What can be built, and what is refused when it is built: by name, with what to do (spring-graph C.1, defect 38)."""

import asyncio
import functools
import itertools
import operator
import re
import threading
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from juncture import (
    END,
    START,
    Command,
    ConfigError,
    GraphBuildError,
    InMemorySaver,
    InvalidUpdateError,
    IsLastStep,
    RemainingSteps,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    get_config,
    get_runtime,
    get_stream_writer,
)
from tests.behaviour.building import builder, chain, nothing, shown, wrote
from tests.faulty import faulty


class Log(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]
    x: Any


def n(text: Any):
    """A node that says `text`."""
    return wrote("messages", [text])


def graph_of(*names: str, **options: Any) -> StateGraph:
    return builder(Log, {name: n(name) for name in names}, **options)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────


def two_more(state, limit):
    """A node with a parameter that nothing fills."""


def no_input(*, config):
    """A node that can't be given its input."""


class WithManaged(TypedDict):
    x: Any
    left: RemainingSteps


class Clash(TypedDict):
    messages: Annotated[list[Any], max]


MISTAKES: dict[str, tuple[Any, str, str]] = {
    # what is done, what the message names, what it advises
    "no action": (lambda: graph_of().add_node("fetch"), "'fetch'", r"add_node\('fetch', function\)"),
    "action and factory": (lambda: graph_of().add_node("fetch", nothing, factory=dict), "'fetch'", "not both"),
    "not callable": (lambda: graph_of().add_node("fetch", 5), "'fetch'.*int", "callable"),
    "an instance": (lambda: graph_of().add_node("fetch", {"x": 1}), "'fetch'.*dict", "callable"),
    "empty name": (lambda: graph_of().add_node("", nothing), "''", "isn't empty"),
    "START as a name": (lambda: graph_of().add_node(START, nothing), "'__start__'", "reserved"),
    "END as a name": (lambda: graph_of().add_node(END, nothing), "'__end__'", "reserved"),
    "bar in a name": (lambda: graph_of().add_node("a|b", nothing), r"'a\|b'", r"'\|'.*reserved"),
    "colon in a name": (lambda: graph_of().add_node("a:b", nothing), "'a:b'", "':'.*reserved"),
    "name twice": (lambda: graph_of("fetch").add_node("fetch", nothing), "fetch", "unique"),
    "from END": (lambda: graph_of("a").add_edge(END, "a"), "END", "start node"),
    "to START": (lambda: graph_of("a").add_edge("a", START), "START", "end node"),
    "conditional from END": (lambda: graph_of("a").add_conditional_edges(END, nothing), "END", "start node"),
    "router not callable": (lambda: graph_of("a").add_conditional_edges("a", "b"), "'a'.*str", "callable"),
    "empty path_map": (lambda: graph_of("a").add_conditional_edges("a", nothing, {}), "'nothing'.*'a'", "empty"),
    "empty path_map list": (lambda: graph_of("a").add_conditional_edges("a", nothing, []), "'a'", "empty"),
    "no nodes": (lambda: graph_of().compile(), "START", "add_edge"),
    "no entry": (lambda: graph_of("a").compile(), "START", r"add_edge\(START"),
    "entry to nowhere": (lambda: graph_of("fetch").add_edge(START, "fetsh").compile(), "fetsh", "'fetch'"),
    "edge to nowhere": (
        lambda: graph_of("a", "b").add_edge(START, "a").add_edge("b", "c").compile(), "`c`.*'b'", "mean|Known",
    ),
    "edge from nowhere": (
        lambda: graph_of("fetch").add_edge(START, "fetch").add_edge("fetsh", "fetch").compile(), "'fetsh'", "'fetch'",
    ),
    "conditional from nowhere": (
        lambda: graph_of("fetch").add_edge(START, "fetch").add_conditional_edges("fetsh", nothing).compile(),
        "'fetsh'", "'fetch'",
    ),
    "interrupt before nowhere": (
        lambda: graph_of("fetch").add_edge(START, "fetch").compile(InMemorySaver(), interrupt_before=["fetsh"]),
        "fetsh", "'fetch'",
    ),
    "interrupt after nowhere": (
        lambda: graph_of("fetch").add_edge(START, "fetch").compile(InMemorySaver(), interrupt_after=["fetch", "no"]),
        "no", "Known|mean",
    ),
    "interrupt one name": (
        lambda: graph_of("fetch").add_edge(START, "fetch").compile(InMemorySaver(), interrupt_before="fetch"),
        "'fetch'", "list",
    ),
    "parameter": (
        lambda: graph_of().add_node("fetch", two_more).add_edge(START, "fetch").compile(), "'fetch'.*'limit'", "partial",
    ),
    "router parameter": (
        lambda: graph_of("a").add_edge(START, "a").add_conditional_edges("a", two_more).compile(),
        "'two_more'.*'a'.*'limit'", "partial",
    ),
    "no input": (
        lambda: graph_of().add_node("fetch", no_input).add_edge(START, "fetch").compile(), "'fetch'", "positional",
    ),
    "no parameters": (
        lambda: graph_of().add_node("fetch", lambda: None).add_edge(START, "fetch").compile(), "'fetch'", "positional",
    ),
    "isolation": (lambda: StateGraph(Log, isolation="deep"), "'deep'", '"copy" or "shared"'),
    "node isolation": (lambda: graph_of().add_node("a", nothing, isolation="deep"), "'deep'", '"copy" or "shared"'),
    "strategy of no key": (lambda: graph_of("a", key_strategies={"nope": max}).add_edge(START, "a").compile(), "'nope'", "schema"),
    "two strategies": (
        lambda: graph_of("a", key_strategies={"messages": max}).add_edge(START, "a").compile(), "'messages'", "keep one",
    ),
    "two reducers": (
        lambda: StateGraph(Log, input_schema=Clash).add_node("a", nothing).add_edge(START, "a").compile(),
        "'messages'", "reducer",
    ),
    "managed input": (lambda: StateGraph(Log, input_schema=WithManaged), "left", "leave"),
    "managed output": (lambda: StateGraph(Log, output_schema=WithManaged), "left", "leave"),
    "saver": (lambda: graph_of("a").add_edge(START, "a").compile(5), "5", "memory:"),
    "saver class": (lambda: graph_of("a").add_edge(START, "a").compile(InMemorySaver), "InMemorySaver", "saver"),
    "saver scheme": (lambda: graph_of("a").add_edge(START, "a").compile("nosuch://x"), "nosuch", "memory"),
    "empty sequence": (lambda: graph_of().add_sequence([]), "[Ss]equence", "at least one"),
    "sequence twice": (lambda: graph_of().add_sequence([nothing, nothing]), "'nothing'", "unique"),
    "sequence of a name": (lambda: graph_of("a").add_sequence(["a"]), "'a'", "callable|action"),
    "schema": (lambda: StateGraph(5), "5", "TypedDict"),
    "schema instance": (lambda: StateGraph({"x": int}), "'x'", "TypedDict"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_mistakes_are_named_with_a_remedy(mistake):
    """Bad input anywhere, cases C1 to C8: what is wrong, where, and what would be right."""
    make, names, advice = MISTAKES[mistake]
    with pytest.raises(GraphBuildError) as caught:
        make()
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert re.search(names, said), said
    assert re.search(advice, said), said
    assert isinstance(caught.value, ValueError)


def test_interrupts_of_a_call_are_checked_too(engine, saver):
    """Case C8 at run time: before anything runs."""
    ran = []
    graph = chain(Log, fetch=ran.append, saver=saver)
    for name in ("interrupt_before", "interrupt_after"):
        with pytest.raises(ValueError, match=r"fetsh.*'fetch'"):
            engine.invoke(graph, {}, thread_id="t", **{name: ["fetsh"]})
    assert ran == []


def test_names_that_look_odd_are_fine(engine):
    """README of the specs, case C7: names may start with underscores, hold spaces, or equal a state key."""
    names = [
        "__x",
        "_",
        "with space",
        "messages",
        "x",
        "ünïcode",
        "a/b",
        "a.b",
        "a-b",
        "1",
        "__root__",
        "None",
    ]
    graph = builder(Log, {name: n(name) for name in names}, (START, "__x"))
    for first, second in itertools.pairwise(names):
        graph.add_edge(first, second)
    assert engine.invoke(graph.compile(), {})["messages"] == names


@faulty("unreachable-node")
@pytest.mark.parametrize(
    "mistake",
    [
        lambda g: g.add_node("a", nothing),
        lambda g: g.add_node("c", 5),
        lambda g: g.add_edge(["a", "nope"], "b"),
        lambda g: g.add_edge("a", START),
        lambda g: g.add_conditional_edges(START, nothing, {}),
        lambda g: g.add_conditional_edges("b", nothing, []),
        lambda g: g.add_conditional_edges("a", "not callable"),
        lambda g: g.add_sequence([("c", nothing), ("a", nothing)]),
        lambda g: g.add_sequence([("c", nothing), ("d", 5)]),
        lambda g: g.add_sequence([("c", nothing), ("d:e", nothing)]),
        lambda g: g.add_node("c", nothing, isolation="deep"),
    ],
)
def test_a_refused_call_changes_nothing(mistake):
    """`GraphBuildError`: "Nothing was changed": the builder is as it was, and goes on to be used."""
    graph = graph_of("a", "b")

    def shape():
        branches = {source: sorted(named) for source, named in graph.branches.items() if named}
        return sorted(graph.nodes), sorted(graph.edges), len(graph.joins), branches

    before = shape()
    with pytest.raises(GraphBuildError):
        mistake(graph)
    assert shape() == before
    with pytest.raises(GraphBuildError, match="entrypoint"):
        graph.compile()
    assert graph.add_edge(START, "a").compile().invoke({})["messages"] == ["a"]


def test_a_dead_end_ends_its_branch(engine):
    """Case C9, decided: a node without an edge out of it ends its branch; an edge to END says the same."""
    dead_end = graph_of("a", "b").add_edge(START, "a").add_edge(START, "b").compile()
    said = (
        graph_of("a", "b")
        .add_edge(START, "a")
        .add_edge(START, "b")
        .add_edge("a", END)
        .add_edge("b", END)
        .compile()
    )
    assert engine.invoke(dead_end, {}) == engine.invoke(said, {}) == {"messages": ["a", "b"]}


def test_unreachable_nodes_are_allowed(engine):
    """graph-api 3: they are no error; a command may reach them."""
    graph = (
        graph_of("island")
        .add_node("a", lambda s: Command(goto="island" if s.get("x") else END))
        .add_edge(START, "a")
    )
    assert engine.invoke(graph.compile(), {"x": 1})["messages"] == ["island"]
    assert engine.invoke(graph.compile(), {})["messages"] == []


def test_duplicate_edges_collapse(engine):
    """Case C6, decided in the README of the specs: an edge given twice is one."""
    graph = graph_of("a", "b")
    for _ in range(3):
        graph.add_edge(START, "a").add_edge("a", "b").set_entry_point("a").set_finish_point("b")
    assert engine.invoke(graph.compile(), {})["messages"] == ["a", "b"]


# ── compiling ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_compiled_graph_doesnt_change(engine):
    """graph-api 3: calls on the builder after `compile` work, and reach only what is compiled later."""
    graph = graph_of("a").add_edge(START, "a")
    first = graph.compile()
    graph.add_node("b", n("b")).add_edge("a", "b").add_conditional_edges("b", lambda s: END)
    graph.set_node_defaults(retry_policy=RetryPolicy())
    second = graph.compile()
    assert engine.invoke(first, {})["messages"] == ["a"]
    assert engine.invoke(second, {})["messages"] == ["a", "b"]


def test_every_builder_call_can_be_chained(engine):
    """graph-api 3: each returns the builder."""
    graph = (
        StateGraph(Log)
        .set_node_defaults(retry_policy=RetryPolicy())
        .add_node("a", n("a"))
        .add_sequence([("b", n("b")), ("c", n("c"))])
        .add_node("d", n("d"))
        .set_entry_point("a")
        .add_edge("a", "b")
        .add_edge(["a", "c"], "d")
        .add_conditional_edges("d", lambda s: "e")
        .add_node("e", n("e"))
        .set_finish_point("e")
    )
    assert engine.invoke(graph.compile(name="named"), {})["messages"] == list("abcde")
    assert graph.compile(name="named").name == "named"


def test_a_sequence(engine):
    """graph-api 3: functions, pairs and graphs, connected to each other and to nothing else."""

    def one(state):
        return {"messages": ["one"]}

    child = chain(Log, inner=n("inner")).builder.compile(name="child")
    graph = StateGraph(Log).add_sequence([one, ("two", n("two")), child])
    assert list(graph.nodes) == ["one", "two", "child"]
    assert graph.edges == {("one", "two"), ("two", "child")}
    with pytest.raises(GraphBuildError, match="entrypoint"):
        graph.compile()
    assert engine.invoke(graph.add_edge(START, "one").compile(), {})["messages"] == ["one", "two", "inner"]


def test_defaults_of_nodes(engine):
    """graph-api 3: for nodes that have no policy of their own, also those added before; not for nested graphs."""
    tries: dict[str, int] = {}

    def failing(name, times):
        def node(state):
            tries[name] = tries.get(name, 0) + 1
            if tries[name] <= times:
                raise ConnectionError(name)

        return node

    policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3)
    child = chain(Log, inner=failing("inner", 1))
    graph = StateGraph(Log).add_node("before", failing("before", 2)).set_node_defaults(retry_policy=policy)
    graph.set_node_defaults().add_node("own", failing("own", 9), retry_policy=RetryPolicy(max_attempts=1))
    graph.add_edge(START, "before").add_edge("before", "own")
    with pytest.raises(ConnectionError, match="own"):
        engine.invoke(graph.compile(), {})
    assert tries == {"before": 3, "own": 1}
    nested = (
        StateGraph(Log)
        .add_node("child", child)
        .set_node_defaults(retry_policy=policy)
        .add_edge(START, "child")
    )
    engine.invoke(nested.compile(), {})
    assert tries["inner"] == 2  # the node that holds the child was tried again, not the node in it


# ── kinds of nodes ───────────────────────────────────────────────────────────────────────────────────────────


class Service:
    """Every kind of method."""

    def method(self, state):
        return {"messages": [f"method of {type(self).__name__}"]}

    async def async_method(self, state):
        return {"messages": ["async method"]}

    @classmethod
    def class_method(cls, state):
        return {"messages": [f"class method of {cls.__name__}"]}

    @staticmethod
    def static_method(state):
        return {"messages": ["static method"]}

    def generator(self, state):
        yield {"messages": ["piece 1"]}
        yield {"messages": ["piece 2"]}

    async def async_generator(self, state):
        yield {"messages": ["async piece 1"]}
        yield {"messages": ["async piece 2"]}


class PlainCallable:
    def __call__(self, state):
        return {"messages": ["object"]}


class AsyncCallable:
    async def __call__(self, state):
        return {"messages": ["async object"]}


class GeneratorCallable:
    def __call__(self, state):
        yield {"messages": ["generator object"]}


class AsyncGeneratorCallable:
    async def __call__(self, state):
        yield {"messages": ["async generator object"]}


def greet(greeting, state, *, mark="!"):
    return {"messages": [f"{greeting}{mark}"]}


async def async_greet(greeting, state):
    return {"messages": [f"async {greeting}"]}


def generate(greeting, state):
    yield {"messages": [f"generated {greeting}"]}


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def async_decorated(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        return await function(*args, **kwargs)

    return wrapper


async def plain_async(state):
    await asyncio.sleep(0)
    return {"messages": ["async"]}


KINDS: dict[str, tuple[Any, list[str]]] = {
    "function": (n("function"), ["function"]),
    "async function": (plain_async, ["async"]),
    "lambda": (lambda s: {"messages": ["lambda"]}, ["lambda"]),
    "method": (Service().method, ["method of Service"]),
    "async method": (Service().async_method, ["async method"]),
    "class method": (Service.class_method, ["class method of Service"]),
    "static method": (Service.static_method, ["static method"]),
    "generator method": (Service().generator, ["piece 1", "piece 2"]),
    "async generator method": (Service().async_generator, ["async piece 1", "async piece 2"]),
    "object": (PlainCallable(), ["object"]),
    "async object": (AsyncCallable(), ["async object"]),
    "generator object": (GeneratorCallable(), ["generator object"]),
    "async generator object": (AsyncGeneratorCallable(), ["async generator object"]),
    "partial": (functools.partial(greet, "hello"), ["hello!"]),
    "partial of a partial": (functools.partial(functools.partial(greet, "hello"), mark="?"), ["hello?"]),
    "partial of an async function": (functools.partial(async_greet, "hello"), ["async hello"]),
    "partial of a generator": (functools.partial(generate, "hello"), ["generated hello"]),
    "partial of a method": (functools.partial(Service.method, Service()), ["method of Service"]),
    "decorated": (decorated(n("decorated")), ["decorated"]),
    "decorated async": (async_decorated(plain_async), ["async"]),
    "cached": (functools.lru_cache(lambda s: {"messages": ["cached"]}).__wrapped__, ["cached"]),
    "builtin": (dict, ["in"]),
    "graph": (chain(Log, inner=n("graph")), ["graph"]),
    "builder": (builder(Log, {"inner": n("builder")}, (START, "inner")), ["builder"]),
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("how", ["lone", "beside another", "sent"])
def test_kinds_of_nodes(engine, kind, how):
    """graph-api 5: each kind works in each place, on both drivers."""
    action, said = KINDS[kind]
    graph = StateGraph(Log).add_node("node", action)
    if how == "sent":
        graph.add_conditional_edges(START, lambda s: Send("node", {"messages": ["in"]}))
    else:
        graph.add_edge(START, "node")
    if how == "beside another":
        graph.add_node("other", nothing).add_edge(START, "other")
    given = [] if kind != "builtin" or how == "sent" else ["in"]
    if kind == "builtin" and how != "sent":
        said = []  # `dict(state)` returns what was handed out, which is no write
    assert engine.invoke(graph.compile(), {"messages": given})["messages"] == [*given, *said]


def test_a_sync_function_that_returns_a_coroutine_is_refused(engine):
    """graph-api 5: a lambda around an async function is a common mistake; nothing is left unawaited."""
    with pytest.raises(InvalidUpdateError, match="async def") as caught:
        engine.invoke(chain(Log, odd=lambda s: plain_async(s)), {})
    assert caught.value.node == "odd"


def test_a_generator_may_return_a_last_piece(engine):
    """Issue's node kinds: what `return` gives is one more piece."""

    def node(state):
        yield {"messages": ["yielded"]}
        return {"messages": ["returned"]}

    assert engine.invoke(chain(Log, node=node), {})["messages"] == ["yielded", "returned"]


def test_a_generator_may_route(engine):
    """graph-api 6: by yielding a command, or by conditional edges that see all its pieces."""

    def by_command(state):
        yield {"messages": ["first"]}
        yield Command(update={"messages": ["second"]}, goto="b")

    graph = builder(Log, {"a": by_command, "b": n("b")}, (START, "a"))
    assert engine.invoke(graph.compile(), {})["messages"] == ["first", "second", "b"]

    async def pieces(state):
        yield {"messages": ["first"]}
        yield {"messages": ["second"]}

    graph = builder(Log, {"a": pieces, "b": n("b")}, (START, "a"))
    graph.add_conditional_edges("a", lambda s: "b" if s["messages"] == ["first", "second"] else END)
    assert engine.invoke(graph.compile(), {})["messages"] == ["first", "second", "b"]


def test_a_generator_yields_what_a_node_may_return(engine):
    """graph-api 5: each piece is checked."""

    def node(state):
        yield {"messages": ["fine"]}
        yield "text"

    with pytest.raises(InvalidUpdateError, match="str") as caught:
        engine.invoke(chain(Log, node=node), {})
    assert caught.value.node == "node"


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (greet, "greet"),
        (Service().method, "method"),
        (Service.class_method, "class_method"),
        (PlainCallable(), "PlainCallable"),
        (functools.partial(greet, "x"), "greet"),
        (decorated(greet), "greet"),
        (builder(Log, {"a": nothing}, (START, "a")).compile(name="sub"), "sub"),
    ],
)
def test_a_node_is_named_after_its_action(action, name):
    """graph-api 3: `add_node(action)`."""
    assert list(StateGraph(Log).add_node(action).nodes) == [name]


# ── factories ────────────────────────────────────────────────────────────────────────────────────────────────


class Made:
    """What a factory makes: counts how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, state):
        self.calls += 1
        return {"messages": [(id(self), self.calls)]}


def test_a_factory_is_called_once_a_run(engine):
    """Case C12: 50 runs at once: 50 calls, 50 distinct objects."""
    made: list[Made] = []
    lock = threading.Lock()

    def factory():
        with lock:
            made.append(Made())
            return made[-1]

    graph = StateGraph(Log).add_node("node", factory=factory).add_edge(START, "node").compile()
    assert made == []
    results = engine.batch(graph, [{} for _ in range(50)])
    assert len(made) == 50
    assert {result["messages"][0] for result in results} == {(id(each), 1) for each in made}


def test_what_a_factory_made_lasts_for_the_run(engine):
    """Case C12: the node runs several times in a run: in a loop, and once for each send; the object is the same."""
    made = []

    def factory():
        made.append(Made())
        return made[-1]

    graph = StateGraph(Log).add_node("node", factory=factory).add_edge(START, "node")
    graph.add_conditional_edges("node", lambda s: "node" if len(s["messages"]) < 3 else END)
    result = engine.invoke(graph.compile(), {})
    assert result["messages"] == [(id(made[0]), 1), (id(made[0]), 2), (id(made[0]), 3)]
    graph = StateGraph(Log).add_node("node", factory=factory)
    graph.add_conditional_edges(START, lambda s: [Send("node", {})] * 4)
    engine.invoke(graph.compile(), {})
    assert (len(made), made[1].calls) == (2, 4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("graph", "builder", "builtin")])
def test_a_factory_may_make_any_kind(engine, kind):
    """Case C12: what it returns is treated like an action: async, a generator, a method, with injected parameters."""
    action, said = KINDS[kind]
    graph = StateGraph(Log).add_node("node", factory=lambda: action).add_node("other", n("other"))
    graph.add_edge(START, "node").add_edge(START, "other")
    assert engine.invoke(graph.compile(), {})["messages"] == [*said, "other"]


def test_a_factory_in_a_subgraph(engine):
    """Case C12: a nested run is part of the run of its parent, so two of them share what was made."""
    made = []

    def factory():
        made.append(Made())
        return made[-1]

    child = StateGraph(Log).add_node("node", factory=factory).add_edge(START, "node").compile()
    engine.invoke(chain(Log, one=child, two=child), {})
    assert [each.calls for each in made] == [2]


def test_what_a_factory_makes_is_injected(engine):
    """graph-api 5: its parameters are planned like an action's."""

    def factory():
        def node(state, config, writer):
            writer("written")
            return {"x": config["metadata"]["who"]}

        return node

    graph = StateGraph(Log).add_node("node", factory=factory).add_edge(START, "node").compile()
    items = engine.stream(graph, {}, {"metadata": {"who": "me"}}, stream_mode=["custom", "updates"])
    assert items == [("custom", "written"), ("updates", {"node": {"x": "me"}})]


@pytest.mark.parametrize("makes", [None, 5, "text"], ids=shown)
def test_a_factory_that_makes_no_action_is_refused(engine, makes):
    """Bad input anywhere: named, with what it made."""
    graph = StateGraph(Log).add_node("fetch", factory=lambda: makes).add_edge(START, "fetch").compile()
    with pytest.raises(GraphBuildError, match="'fetch'") as caught:
        engine.invoke(graph, {})
    assert type(makes).__name__ in str(caught.value)


def test_a_factory_that_fails_fails_its_node(engine):
    """Rule 49: its own exception, with the place."""
    from juncture import failure

    def factory():
        raise OSError("no connection")

    graph = StateGraph(Log).add_node("fetch", factory=factory).add_edge(START, "fetch").compile()
    with pytest.raises(OSError, match="no connection") as caught:
        engine.invoke(graph, {})
    assert failure(caught.value).node == "fetch"


# ── injected parameters ──────────────────────────────────────────────────────────────────────────────────────

CONFIG = {"metadata": {"who": "me"}, "tags": ["t"], "configurable": {"own": 1}}


def check(state, runtime, config, writer):
    """What every way of asking has to give."""
    assert config["metadata"] == {"who": "me"}
    assert config["configurable"]["own"] == 1
    assert runtime.context == "context"
    assert runtime.config is config
    assert runtime.execution_info.node_attempt == 1
    writer("chunk")
    return {"x": state.get("x", 0) + 1}


def keyword_only(state, *, writer, config, runtime):
    return check(state, runtime, config, writer)


def with_defaults(state, runtime=None, config=None, writer=None, other=5):
    assert other == 5
    return check(state, runtime, config, writer)


def annotated(state: Log, config: dict[str, Any], runtime: Runtime[str], writer: Any):
    return check(state, runtime, config, writer)


def oddly_annotated(state, config: int, runtime: "Nowhere", writer: str):  # type: ignore[name-defined]  # noqa: F821 - a name that isn't there
    return check(state, runtime, config, writer)


def with_rest(state, *args, config, runtime, writer, **kwargs):
    assert (args, kwargs) == ((), {})
    return check(state, runtime, config, writer)


def positional_only(state, /, config, runtime, writer):
    return check(state, runtime, config, writer)


async def async_node(state, config, runtime, writer):
    return check(state, runtime, config, writer)


def generator_node(state, config, runtime, writer):
    yield check(state, runtime, config, writer)


async def async_generator_node(state, config, runtime, writer):
    yield check(state, runtime, config, writer)


class Asking:
    def __call__(self, state, config, runtime, writer):
        return check(state, runtime, config, writer)

    def method(self, state, config, runtime, writer):
        return check(state, runtime, config, writer)


def bound(extra, state, config, runtime, writer):
    assert extra == "extra"
    return check(state, runtime, config, writer)


def ambient(state):
    return check(state, get_runtime(), get_config(), get_stream_writer())


async def async_ambient(state):
    await asyncio.sleep(0)
    return check(state, get_runtime(), get_config(), get_stream_writer())


ASKING = [
    check, keyword_only, with_defaults, annotated, oddly_annotated, with_rest, positional_only, async_node,
    generator_node, async_generator_node, Asking(), Asking().method, functools.partial(bound, "extra"), ambient,
    async_ambient, decorated(check),
]  # fmt: skip


@pytest.mark.parametrize("action", ASKING, ids=lambda a: getattr(a, "__qualname__", type(a).__name__))
def test_parameters_are_filled_by_name(engine, action):
    """graph-api 5: runtime, config and writer, whatever the order, kind and annotation."""
    graph = chain(Log, node=action, options={"context_schema": str})
    items = engine.stream(graph, {"x": 1}, CONFIG, context="context", stream_mode=["custom", "updates"])
    assert items == [("custom", "chunk"), ("updates", {"node": {"x": 2}})]
    assert engine.invoke(graph, {"x": 1}, CONFIG, context="context")["x"] == 2


@pytest.mark.parametrize(
    "action",
    ASKING[:7] + ASKING[10:11] + ASKING[12:14],
    ids=lambda a: getattr(a, "__qualname__", type(a).__name__),
)
def test_parameters_of_routers_are_filled_too(engine, action):
    """graph-api 3: a router asks like a node."""
    graph = graph_of("a").add_edge(START, "a")
    graph.add_conditional_edges("a", lambda_router(action), name="route")
    items = engine.stream(graph.compile(), {"x": 1}, CONFIG, context="context", stream_mode=["custom"])
    assert items == [("custom", "chunk")]


def lambda_router(action):
    """The same callable, as a router that goes nowhere."""

    @functools.wraps(action, updated=())
    def route(*args, **kwargs):
        action(*args, **kwargs)
        return END

    return route


def test_the_first_parameter_is_the_input_whatever_its_name(engine):
    """graph-api 5: also where it is called like something that is injected."""
    seen = []

    def node(config, runtime):
        seen.append((config, runtime.config["metadata"]["who"]))

    engine.invoke(chain(Log, node=node), {"x": 1}, CONFIG)
    assert seen == [({"x": 1, "messages": []}, "me")]


def test_what_a_partial_binds_stays_bound(engine):
    """graph-api 5: a partial's own keyword isn't overwritten by what would be injected."""
    seen = []
    node = functools.partial(
        lambda state, config, writer: seen.append((config, writer)), config="bound", writer="too"
    )
    engine.invoke(chain(Log, node=node), {}, CONFIG)
    assert seen == [("bound", "too")]


def test_positional_only_parameters_are_never_filled():
    """graph-api 5: so one without a default can't be satisfied, and that is said."""
    with pytest.raises(GraphBuildError, match="'config'"):
        chain(Log, node=lambda state, config, /: None)


def test_the_ambient_functions_say_where_they_belong():
    """graph-api 15: outside of a node they raise, and say so."""
    for function in (get_config, get_runtime, get_stream_writer):
        with pytest.raises(ConfigError, match=r"[Oo]utside"):
            function()


def test_writing_without_a_listener_is_nothing(engine):
    """graph-api 15: `writer` is there and does nothing under invoke, or where nobody asked for `custom`."""
    graph = chain(Log, node=lambda s, writer: writer(object()))
    assert engine.invoke(graph, {}) == {"messages": []}
    assert engine.stream(graph, {}, stream_mode="updates") == [{"node": None}]


# ── what a node is handed ────────────────────────────────────────────────────────────────────────────────────


@dataclass
class DataPart:
    x: Any = None


class ModelPart(BaseModel):
    x: Any = None


class DictPart(TypedDict, total=False):
    x: Any


def test_the_first_annotation_is_the_input_schema(engine):
    """graph-api 3: a class with fields there says what the node is handed; `input_schema=` counts more."""
    seen = []

    def data(state: DataPart):
        seen.append(state)

    def model(state: ModelPart):
        seen.append(state)

    async def part(state: DictPart):
        seen.append(state)

    def plain(state: dict):
        seen.append(state)

    graph = builder(
        Log, {"1": data, "2": model, "3": part, "4": plain}, (START, "1"), ("1", "2"), ("2", "3"), ("3", "4")
    )
    graph.add_node("5", data, input_schema=ModelPart).add_edge("4", "5")
    engine.invoke(graph.compile(), {"x": 1, "messages": ["m"]})
    assert seen == [DataPart(1), ModelPart(x=1), {"x": 1}, {"x": 1, "messages": ["m"]}, ModelPart(x=1)]


def test_an_input_schema_may_declare_keys_of_its_own(engine):
    """graph-api 3: private keys, with their reducers."""

    class Private(TypedDict, total=False):
        hidden: Annotated[list[int], operator.add]

    seen = []
    graph = builder(
        Log, {"a": wrote("hidden", [1]), "b": wrote("hidden", [2])}, (START, "a"), ("a", "b"), ("b", "c")
    )
    graph.add_node("c", lambda s: seen.append(s), input_schema=Private)
    assert engine.invoke(graph.compile(), {}) == {"messages": []}
    assert seen == [{"hidden": [1, 2]}]


def test_managed_values_may_be_asked_for_by_a_node(engine):
    """graph-api 4: in the state's schema, or in that of one node."""

    class Looking(TypedDict):
        last: IsLastStep
        left: RemainingSteps

    seen = []
    graph = graph_of("a").add_edge(START, "a").add_edge("a", "look")
    graph.add_node("look", lambda s: seen.append(s), input_schema=Looking)
    assert engine.invoke(graph.compile(), {}, {"recursion_limit": 5})["messages"] == ["a"]
    assert seen == [{"last": False, "left": 4}]


def test_output_schemas_and_keys(engine):
    """graph-api 4 and 8: the output schema says what is returned; `output_keys` narrows it, and is checked."""

    class Out(TypedDict, total=False):
        x: Any

    graph = builder(
        Log, {"a": lambda s: {"x": 1, "messages": ["m"]}}, (START, "a"), output_schema=Out
    ).compile()
    assert engine.invoke(graph, {}) == {"x": 1}
    assert engine.invoke(graph, {}, output_keys=["messages"]) == {"messages": ["m"]}
    assert engine.invoke(graph, {}, output_keys="x") == 1
    with pytest.raises(ConfigError, match="nope"):
        engine.invoke(graph, {}, output_keys=["nope"])
