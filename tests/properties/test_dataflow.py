"""Over random graphs with declared reads and writes, a data-flow run passes through the states of the superstep run."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from hypothesis import given
from hypothesis import strategies as st

from juncture import END, START, StateGraph

KEYS = ("a", "b", "c", "total", "log")


class State(TypedDict, total=False):
    a: int
    b: int
    c: int
    total: Annotated[int, operator.add]
    log: Annotated[list, operator.add]


HINTS: dict[str, Any] = {
    "a": int,
    "b": int,
    "c": int,
    "total": Annotated[int, operator.add],
    "log": Annotated[list, operator.add],
}

node_strategy = st.fixed_dictionaries(
    {
        "reads": st.sets(st.sampled_from(KEYS), max_size=2),
        "writes": st.sets(st.sampled_from(KEYS), max_size=2),
        "declares": st.sampled_from([True, True, False]),
        "turns": st.integers(0, 6),
        "next": st.sets(st.integers(1, 3), max_size=2),
        "kind": st.sampled_from(["edges", "edges", "router"]),
    }
)
graphs = st.lists(node_strategy, min_size=2, max_size=7)


def update_of(name: str, spec: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """What a node writes: a function of what it reads and of its name."""
    basis = (
        sum(value if isinstance(value, int) else len(value) for value in seen.values())
        + len(name)
        + int(name[1:])
    )
    return {
        key: [f"{name}:{basis}"] if key == "log" else basis + i
        for i, key in enumerate(sorted(spec["writes"]))
    }


def running(name: str, spec: dict[str, Any]) -> Any:
    """A node that takes some turns of the event loop."""

    async def run(state: dict[str, Any]) -> dict[str, Any]:
        for _ in range(spec["turns"]):
            await asyncio.sleep(0)
        return update_of(name, spec, state)

    return run


def choosing(ends: list[str], reads: Any) -> Any:
    """A router that goes by what it is handed."""

    def route(state: Any) -> str:
        return ends[sum(v if isinstance(v, int) else len(v) for v in state.values()) % len(ends)]

    route.__annotations__["state"] = reads
    return route


def build(specs: list[dict[str, Any]], schedule: str, *, joins: bool) -> Any:
    """Nodes that lead to nodes after them; those without a way go to END."""
    builder = StateGraph(State, silence=("unequal-branches", "concurrent-writes", "unreachable-node"))
    names = [f"n{i}" for i in range(len(specs))]
    reached: set[str] = set()
    for i, (name, spec) in enumerate(zip(names, specs, strict=True)):
        reads = TypedDict(f"Reads{name}", {key: HINTS[key] for key in sorted(spec["reads"])}, total=False)  # type: ignore[misc] # made for this node

        writes = sorted(spec["writes"]) if spec["declares"] else None
        builder.add_node(name, running(name, spec), input_schema=reads, writes=writes)
        ends = sorted({names[i + step] for step in spec["next"] if i + step < len(names)})
        reached.update(ends)
        if not ends:
            builder.add_edge(name, END)
        elif spec["kind"] == "router":
            builder.add_conditional_edges(name, choosing(ends, reads), ends)
        else:
            for end in ends:
                builder.add_edge(name, end)
    firsts = [name for name in names if name not in reached][:3] or names[:1]
    for name in firsts:
        builder.add_edge(START, name)
    if joins and len(firsts) > 1:
        builder.add_node("joined", lambda state: {"log": ["joined"]}, input_schema=State, writes=["log"])
        builder.add_edge(firsts, "joined")
    return builder.compile(schedule=schedule)


def states(graph: Any) -> Any:
    """The states that a run passes through, or what it fails with."""

    async def run() -> list[Any]:
        return [item async for item in graph.astream({"a": 1, "total": 1}, stream_mode="values")]

    try:
        return asyncio.run(run())
    except Exception as error:  # both schedules must fail alike
        return type(error), str(error)


@given(graphs, st.booleans())
def test_every_state_is_that_of_the_superstep_run(specs, joins):
    assert states(build(specs, "dataflow", joins=joins)) == states(build(specs, "superstep", joins=joins))
