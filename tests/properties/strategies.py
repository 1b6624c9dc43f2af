"""Random descriptions of graphs.

They are valid: they compile. A run of them may fail, and may go on for ever: the caller gives a limit of supersteps,
and the oracle refuses runs of more than a few dozen tasks. They are biased to runs that come somewhere: edges lead
mostly forward, a key without a reducer has mostly one writer, and what is refused is rare.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.properties.graphs import (
    END,
    NOWHERE,
    PALETTE,
    REDUCERS,
    START,
    Graph,
    Join,
    Node,
    Packet,
    Router,
    Target,
    Write,
)

T = TypeVar("T")

LENIENT = frozenset(
    {"router", "packet", "join", "defer", "goto", "pairs", "nothing", "fails", "wrong", "nested", "parent"}
    | {"overwrite", "lost-target", "lost-key", "two-ways"}
)
"""What a graph may have in LangGraph too."""
STRICT = LENIENT | {"arrived", "pieces", "overwrite-last", "remove", "kinds"}
"""All there is."""

_LETTERS = "abcdef"


def examples(number: int) -> settings:
    """At least `number` examples, or as many as the profile `deep` asks for."""
    default = settings()
    wanted = max(number, default.max_examples) if default.max_examples > 100 else number
    # Runs that the oracle has no word for are rejected, and in some tests those that show nothing.
    rejects = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(max_examples=wanted, suppress_health_check=rejects)


def _rarely(draw: st.DrawFn, one_in: int) -> bool:
    return draw(st.integers(1, one_in)) == one_in  # shrinks to False


def _mostly(common: st.SearchStrategy[T], rare: st.SearchStrategy[T], one_in: int) -> st.SearchStrategy[T]:
    # not `one_of(*[common] * 9, rare)`: hypothesis counts equal alternatives once
    return st.integers(1, one_in).flatmap(lambda number: rare if number == one_in else common)


@st.composite
def graphs(
    draw: st.DrawFn, features: frozenset[str] = STRICT, *, depth: int = 1, outer: Graph | None = None
) -> Graph:
    """Random graphs that compile, with up to six nodes and `depth` levels of nested graphs.

    Args:
        features: What they may have; see `STRICT`. With ``nest``, the first node is a nested graph; with
            ``fan``, at least two nodes start.
        outer: For a nested graph: the keys and the (empty) nodes of the one around it.
    """
    names = draw(st.permutations(_LETTERS))[: draw(st.integers(2 if "fan" in features else 1, 6))]
    keys = _keys(draw, features, outer)
    owners = {key: draw(st.sampled_from(names)) for key, kind in keys.items() if kind == "last"}
    shape = Graph(keys, tuple(Node(name) for name in names))
    entries = [*names[: 2 if "fan" in features else 1], *draw(st.lists(st.sampled_from(names), max_size=2))]
    edges = [(START, name) for name in entries]
    routers: list[Router] = []
    whole = outer is None or keys.keys() == outer.keys.keys()  # else LangGraph shows it the other keys too
    if "router" in features and whole and _rarely(draw, 5):
        routers.append(Router(START, draw(_tables(shape, features, names))))
    nodes: list[Node] = []
    for place, name in enumerate(names):
        ways = draw(_ways(features))
        later = names[place + 1 :]
        if "edge" in ways:
            edges.append((name, draw(_forward(names, later))))
        if "router" in ways:
            routers.append(Router(name, draw(_tables(shape, features, later))))
        nodes.append(draw(_nodes(name, later, shape, features, owners, ways, depth, outer)))
    return Graph(
        keys,
        tuple(nodes),
        tuple(dict.fromkeys(edges)),
        tuple(routers),
        draw(_joins(entries, names, features)),
    )


def _keys(draw: st.DrawFn, features: frozenset[str], outer: Graph | None) -> dict[str, str]:
    if outer is None:
        wanted = draw(st.lists(st.sampled_from([k for k in PALETTE if k != "log"]), unique=True, max_size=4))
        return {key: draw(st.sampled_from(PALETTE[key])) for key in ["log", *sorted(wanted)]}
    # Packets write `log` and `x`; one to a nested graph must have a key of it.
    keys = {key: kind for key, kind in outer.keys.items() if key in {"log", "x"} or not _rarely(draw, 5)}
    if "kinds" in features and _rarely(draw, 3):
        changed = draw(st.sampled_from(sorted(keys)))
        keys[changed] = draw(st.sampled_from(PALETTE[changed]))
    return keys


def _ways(features: frozenset[str]) -> st.SearchStrategy[set[str]]:
    one = st.sampled_from(["edge", "edge", *sorted(features & {"router", "goto"}), "none"]).map(
        lambda way: {way}
    )
    if "two-ways" not in features:
        return one
    several = st.sets(st.sampled_from(["edge", "router", "goto"]), min_size=2)
    return _mostly(one, several, 12)


def _forward(names: list[str], later: list[str]) -> st.SearchStrategy[str]:
    """A later node or the end; one in a few times any node."""
    on = st.sampled_from([*later, *later, END])
    return _mostly(on, st.sampled_from(names), 9)


def _targets(shape: Graph, features: frozenset[str], later: list[str]) -> st.SearchStrategy[Target]:
    names = _forward([node.name for node in shape.nodes], later)
    kinds: list[st.SearchStrategy[Target]] = [names]
    if "packet" in features:
        to = names.filter(lambda name: name != END)
        kinds.append(st.builds(Packet, to, st.just("log"), st.sampled_from([[], ["sent"]])))
        if "x" in shape.keys:
            kinds.append(st.builds(Packet, to, st.just("x"), st.integers(0, 3)))
    if "lost-target" in features:
        return _mostly(st.one_of(kinds), st.sampled_from([NOWHERE, Packet(NOWHERE)]), 30)
    return st.one_of(kinds)


def _tables(
    shape: Graph, features: frozenset[str], later: list[str]
) -> st.SearchStrategy[tuple[tuple[Target, ...], ...]]:
    row = st.lists(_targets(shape, features, later), max_size=3).map(tuple)
    return st.lists(row, min_size=1, max_size=3).map(tuple)


@st.composite
def _joins(
    draw: st.DrawFn, entries: list[str], names: list[str], features: frozenset[str]
) -> tuple[Join, ...]:
    if "join" not in features or len(names) < 3 or _rarely(draw, 2):
        return ()
    joins = []
    for _ in range(draw(st.integers(1, 2))):
        pool = entries if len(entries) > 1 and not _rarely(draw, 3) else names
        sources = draw(st.lists(st.sampled_from(pool), min_size=2, max_size=3, unique=True))
        target = draw(st.sampled_from([name for name in names if name not in sources] or names))
        arrived = "arrived" in features and _rarely(draw, 3)
        joins.append(Join(tuple(sources), target, "arrived" if arrived else "all"))
    return tuple({(frozenset(join.sources), join.target): join for join in joins}.values())


def _writes(
    name: str, shape: Graph, features: frozenset[str], owners: Mapping[str, str], *, routed: bool
) -> st.SearchStrategy[list[Write]]:
    """Writes of one node. A key without a reducer belongs to one node, mostly, or every run would conflict."""
    reduced = st.sampled_from([key for key, kind in shape.keys.items() if kind in REDUCERS])
    last = [key for key, owner in owners.items() if owner == name]
    kinds: list[st.SearchStrategy[Write]] = [st.builds(Write, reduced)]
    if last:
        own = st.sampled_from(last)
        constant = st.sampled_from([None, 0, "s", (1, (2,))])
        kinds += [st.builds(Write, own), st.builds(Write, own, st.just("const"), constant)]
        if len(owners) == 2:
            kinds.append(st.builds(lambda key: Write(key, "copy", "y" if key == "x" else "x"), own))
    rare: list[st.SearchStrategy[Write]] = [st.builds(Write, st.sampled_from(sorted(shape.keys)))]
    if "overwrite" in features:
        rare.append(st.builds(Write, reduced, st.just("overwrite")))
    own_too = st.sampled_from([*last, "log"])
    if "overwrite-last" in features:
        rare.append(st.builds(Write, own_too, st.just("overwrite")))
    if "remove" in features:
        rare.append(st.builds(Write, st.one_of(reduced, own_too), st.just("remove")))
    if "lost-key" in features and not routed:  # LangGraph shows a lost key to the node's router
        rare.append(st.just(Write("lost")))
    write = _mostly(st.one_of(kinds), st.one_of(rare), 12)
    return st.lists(write, max_size=3).map(lambda some: [Write("log"), *some])


@st.composite
def _nodes(
    draw: st.DrawFn,
    name: str,
    later: list[str],
    shape: Graph,
    features: frozenset[str],
    owners: Mapping[str, str],
    ways: set[str],
    depth: int,
    outer: Graph | None,
) -> Node:
    goes = "goto" in ways
    defer = "defer" in features and _rarely(draw, 8)
    surely = "nest" in features and name == shape.nodes[0].name
    if "nested" in features and depth and (surely or (not goes and _rarely(draw, 5))):
        return Node(
            name, form="graph", defer=defer, inner=draw(graphs(features, depth=depth - 1, outer=shape))
        )
    writes = tuple(draw(_writes(name, shape, features, owners, routed="router" in ways)))
    colour = draw(st.sampled_from(["sync", "sync", "async"]))
    fails = draw(st.sampled_from([0] * 14 + [1, 2, 3])) if "fails" in features else 0
    goto: tuple[Target, ...] = ()
    if outer is not None and "parent" in features and not goes and _rarely(draw, 6):
        form = "parent"
        writes = tuple(w for w in writes if w.key in outer.keys)
        goto = tuple(
            draw(
                st.lists(
                    _targets(outer, features - {"lost-target"}, [n.name for n in outer.nodes]), max_size=2
                )
            )
        )
    elif goes:
        form = draw(st.sampled_from(["command", *sorted(features & {"pairs"})]))
        goto = tuple(draw(st.lists(_targets(shape, features, later), min_size=1, max_size=2)))
    else:
        plain = ["dict"] * 9 + sorted(features & {"nothing", "pairs", "pieces"}) * 2
        form = draw(st.sampled_from([*plain, *sorted(features & {"wrong"})]))
    return Node(name, writes, form, goto, fails, defer, colour)


def inputs(graph: Graph) -> st.SearchStrategy[dict[str, Any]]:
    """Inputs of a graph: never empty."""
    values: dict[str, st.SearchStrategy[Any]] = {
        "log": st.sampled_from([[], ["in"]]),
        "n": st.integers(0, 5),
        "top": st.integers(0, 5),
        "seen": st.sampled_from([{}, {"q": 0}]),
        "x": st.sampled_from(["in", None]),
        "y": st.just("in"),
    }
    others = sorted(key for key in graph.keys if key != "log")
    return st.fixed_dictionaries({"log": values["log"]}, optional={key: values[key] for key in others})
