"""Where Juncture differs from LangGraph 1.2.24 on purpose, even with ``strict=False``, and why.

Each is shown by a graph that ends otherwise in the two libraries; `test_differences` runs it in both, so an entry
whose difference has gone fails. What ``strict=True`` refuses beyond this isn't listed here: that is its purpose.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

from tests.differential.handmade import nodes, says
from tests.differential.peers import Seen


def ending(seen: Seen) -> Any:
    """The kind of its error, or its final state."""
    return seen.error or seen.values[-1]


@dataclass(frozen=True)
class Difference:
    """A graph that ends otherwise in the two libraries."""

    build: Callable[[SimpleNamespace], Any]
    """Makes the builder; its docstring says why Juncture differs."""
    given: Any
    theirs: Any
    """What LangGraph ends with, by `look`."""
    ours: Any
    """What Juncture ends with, by `look`."""
    look: Callable[[Seen], Any] = ending

    @property
    def name(self) -> str:
        return self.build.__name__

    @property
    def reason(self) -> str:
        return self.build.__doc__ or ""


DIFFERENCES: list[Difference] = []


def difference(
    given: Any, *, theirs: Any, ours: Any, look: Callable[[Seen], Any] = ending
) -> Callable[[Callable[[SimpleNamespace], Any]], Callable[[SimpleNamespace], Any]]:
    def register(build: Callable[[SimpleNamespace], Any]) -> Callable[[SimpleNamespace], Any]:
        DIFFERENCES.append(Difference(build, given, theirs, ours, look))
        return build

    return register


EMPTY = {"log": [], "total": 0}


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────


@difference(
    EMPTY,
    theirs={"log": ["a0", "last1", "w1", "z3"], "total": 0},
    ours={"log": ["a0", "w1", "z2", "last3"], "total": 0},
)
def a_deferred_node_waits_for_packets_too(lib):
    """A deferred node runs once nothing else is left to run, as is documented.

    LangGraph looks for other triggers only, and runs it beside the packets whose results it was to gather.
    """
    builder = nodes(lib, "az")
    builder.add_node("w", lambda state: {"log": ["w1"]})
    builder.add_node("last", says("last"), defer=True)
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "last")
    builder.add_conditional_edges("a", lambda state: [lib.Send("w", {})])
    builder.add_edge("w", "z")
    return builder


# ── state ────────────────────────────────────────────────────────────────────────────────────────────────────


@difference(
    {"log": ["x"], "total": 0},
    theirs=[{"log": ["x", "changed"], "total": 0}, {"log": ["x", "changed"], "total": 0, "topic": "t"}],
    ours=[{"log": ["x"], "total": 0}, {"log": ["x"], "total": 0, "topic": "t"}],
    look=lambda seen: seen.values,
)
def a_node_cannot_change_its_input_in_place(lib):
    """A node changes the state only by what it returns (right behaviour 1).

    LangGraph hands out the committed list itself; the change even shows in a part that was streamed before.
    """

    def change(state):
        state["log"].append("changed")
        return {"topic": "t"}

    builder = nodes(lib, "")
    builder.add_node("a", change)
    builder.add_edge(lib.START, "a")
    return builder


@difference({"topic": "old"}, theirs=False, ours=True, look=lambda seen: seen.values[-1]["topic"] == "new")
def an_overwrite_of_a_key_without_a_reducer_is_its_value(lib):
    """A marker never becomes part of the state (right behaviour 8). LangGraph leaves the Overwrite object in it."""
    builder = nodes(lib, "")
    builder.add_node("a", lambda state: {"topic": lib.Overwrite("new")})
    builder.add_edge(lib.START, "a")
    return builder


@difference({"most": 7}, theirs="valueerror", ours={"most": 7})
def builtin_reducers_are_accepted(lib):
    """Any callable that takes two values is a reducer (right behaviour 5). LangGraph asks `max` for its signature."""

    class Typed(TypedDict, total=False):
        most: Annotated[int, max]

    builder = lib.StateGraph(Typed)
    builder.add_node("a", lambda state: {"most": 5})
    builder.add_edge(lib.START, "a")
    return builder


@difference(
    {"messages": [{"role": "user", "content": "hi", "id": "1"}]},
    theirs="HumanMessage",
    ours="dict",
    look=lambda seen: type(seen.values[-1]["messages"][0]).__name__,
)
def messages_stay_what_they_are(lib):
    """The core needs no LangChain: messages are dicts or objects with an id and a role (decision 16)."""

    class Chat(TypedDict):
        messages: Annotated[list[Any], lib.add_messages]

    builder = lib.StateGraph(Chat)
    builder.add_node("a", lambda state: {"messages": {"role": "user", "content": "hello", "id": "1"}})
    builder.add_edge(lib.START, "a")
    return builder


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────


@difference(EMPTY, theirs={"log": ["2"], "total": 0}, ours={"log": ["1", "2"], "total": 0})
def every_piece_of_a_generator_node_counts(lib):
    """Each yielded mapping is a piece of the update. LangGraph keeps the last one, and the others are lost."""

    def pieces(state):
        yield {"log": ["1"]}
        yield {"log": ["2"]}

    builder = nodes(lib, "")
    builder.add_node("a", pieces)
    builder.add_edge(lib.START, "a")
    return builder


@difference(EMPTY, theirs="typeerror", ours={"log": ["a"], "total": 0})
def async_nodes_run_under_invoke(lib):
    """A graph runs whole, whichever way it is called (decision 12)."""

    async def node(state):
        return {"log": ["a"]}

    builder = nodes(lib, "")
    builder.add_node("a", node)
    builder.add_edge(lib.START, "a")
    return builder


# ── routing ──────────────────────────────────────────────────────────────────────────────────────────────────


@difference(EMPTY, theirs={"log": ["yes0"], "total": 0}, ours={"log": ["no0"], "total": 0})
def a_router_sees_only_keys_of_the_state(lib):
    """What a node writes to a key that nobody declared is dropped (right behaviour 3), for its router too.

    LangGraph shows it to the router of the node that wrote it, and to nobody else.
    """
    builder = nodes(lib, "")
    builder.add_node("a", lambda state: {"lost": 1})
    builder.add_node("yes", says("yes"))
    builder.add_node("no", says("no"))
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: "yes" if "lost" in state else "no")
    return builder


@difference({**EMPTY, "lost": 1}, theirs={"log": ["yes0"], "total": 0}, ours={"log": ["no0"], "total": 0})
def the_first_router_sees_only_keys_of_the_state(lib):
    """The same for the input and the router of START."""
    builder = nodes(lib, "")
    builder.add_node("yes", says("yes"))
    builder.add_node("no", says("no"))
    builder.add_conditional_edges(lib.START, lambda state: "yes" if "lost" in state else "no")
    return builder


@difference(EMPTY, theirs="keyerror", ours="routing")
def a_router_outside_its_map_is_a_routing_error(lib):
    """An error names source, target and what is known (right behaviour 10). LangGraph lets the dict's KeyError out."""
    builder = nodes(lib, "ab")
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: "elsewhere", {"there": "b"})
    return builder


@difference(EMPTY, theirs="valueerror", ours="routing")
def a_router_that_returns_none_is_a_routing_error(lib):
    """One class for every route that can't be followed."""
    builder = nodes(lib, "a")
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: None)
    return builder


@difference(EMPTY, theirs="update", ours="routing")
def a_packet_to_the_end_is_a_routing_error(lib):
    """One class for every route that can't be followed; LangGraph calls it an invalid update."""
    builder = nodes(lib, "a")
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", lambda state: lib.Send(lib.END, {}))
    return builder


@difference(EMPTY, theirs="typeerror", ours="routing")
def a_goto_that_is_no_target_is_a_routing_error(lib):
    """One class for every route that can't be followed; in LangGraph the number can't be iterated."""
    builder = nodes(lib, "")
    builder.add_node("a", lambda state: lib.Command(goto=5))
    builder.add_edge(lib.START, "a")
    return builder


@difference(EMPTY, theirs="parentcommand", ours="update")
def a_command_to_no_graph_around_is_an_error(lib):
    """Control flow never escapes to the caller. LangGraph raises its internal ParentCommand."""
    builder = nodes(lib, "")
    builder.add_node("a", lambda state: lib.Command(graph=lib.Command.PARENT, update={"log": ["x"]}))
    builder.add_edge(lib.START, "a")
    return builder


@difference(
    EMPTY,
    theirs=[("a", {"log": ["a0"]})],
    ours=[],
    look=lambda seen: [update for step in seen.updates for update in step],
)
def a_task_whose_router_fails_shows_no_update(lib):
    """An update is shown when its task has ended, and a task ends with its routes. LangGraph shows it before."""

    def fail(state):
        raise ZeroDivisionError

    builder = nodes(lib, "a")
    builder.add_edge(lib.START, "a")
    builder.add_conditional_edges("a", fail)
    return builder
