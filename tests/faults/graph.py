"""The graph whose runs die: loops, tasks in parallel, a nested graph, recorded calls, and questions.

Three rounds of: ``plan``; then at once three times ``work``, which makes two recorded calls one after the other, and
the nested graph ``nest``, a chain of three; then ``gather``. Then ``close``. In the second round both the middle of the
chain and one ``work`` ask a question; ``close`` asks as well.

Whatever is done is an effect: it has a key (``work:2:1`` is the second ``work`` of the second round), is told to a
probe before and after, and what a node did is in the state's ``log`` once it is saved. `BEFORE` says what must be over
and saved before an effect begins.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, Any

from typing_extensions import TypedDict

from juncture import END, START, Command, Send, StateGraph, interrupt
from juncture.functional.task import task
from juncture.persistence.asking import performed
from juncture.persistence.reading import read_checkpoint

ROUNDS = 3
WIDTH = 3
CHAIN = ("first", "second", "third")
INPUT: dict[str, Any] = {"round": 0, "log": [], "total": 0}
Probe = Callable[[str], AbstractContextManager[None]]


class State(TypedDict):
    round: int
    log: Annotated[list[str], operator.add]
    total: Annotated[int, operator.add]


class Item(TypedDict):
    round: int
    item: int


@contextmanager
def unseen(key: str) -> Iterator[None]:
    """A probe that does nothing."""
    yield


def fan_out(state: State) -> list[Any]:
    return ["nest", *(Send("work", {"round": state["round"], "item": item}) for item in range(WIDTH))]


def again(state: State) -> str:
    return "plan" if state["round"] < ROUNDS else "close"


def nest(probe: Probe) -> Any:
    """The nested graph, compiled."""

    def link(name: str) -> Callable[[State], dict[str, Any]]:
        def node(state: State) -> dict[str, Any]:
            key = f"{name}:{state['round']}"
            with probe(key):
                if (name, state["round"]) == ("second", 2):
                    interrupt("go on with the chain?")
                return {"log": [key], "total": 1}

        return node

    made = StateGraph(State)
    for name, before in zip(CHAIN, (START, *CHAIN), strict=False):
        made.add_node(name, link(name))
        made.add_edge(before, name)
    return made.compile()


def build(probe: Probe = unseen, **compiling: Any) -> Any:
    """The graph, compiled."""

    @task
    def charge(key: str) -> dict[str, str]:
        with probe(key):
            return {"charged": key}

    def plan(state: State) -> dict[str, Any]:
        key = f"plan:{state['round'] + 1}"
        with probe(key):
            return {"round": state["round"] + 1, "log": [key]}

    def work(given: Item) -> dict[str, Any]:
        key = f"work:{given['round']}:{given['item']}"
        with probe(key):
            first = charge(f"charge:{given['round']}:{given['item']}:a").result()
            if (given["round"], given["item"]) == (2, 1):
                interrupt("go on with the work?")
            second = charge(f"charge:{given['round']}:{given['item']}:b").result()
            return {"log": [key], "total": len(first["charged"]) + len(second["charged"])}

    def gather(state: State) -> dict[str, Any]:
        key = f"gather:{state['round']}"
        with probe(key):
            return {"log": [key]}

    def close(state: State) -> dict[str, Any]:
        with probe("close"):
            interrupt("close?")
            return {"log": ["close"], "total": 1000 * state["total"]}

    made = StateGraph(State)
    made.add_node("plan", plan)
    made.add_node("work", work, input_schema=Item)
    made.add_node("nest", nest(probe))
    made.add_node("gather", gather)
    made.add_node("close", close)
    made.add_edge(START, "plan")
    made.add_conditional_edges("plan", fan_out, ["nest", "work"])
    made.add_edge("work", "gather")
    made.add_edge("nest", "gather")
    made.add_conditional_edges("gather", again, ["plan", "close"])
    made.add_edge("close", END)
    return made.compile(**compiling)


def _before() -> dict[str, set[str]]:
    before: dict[str, set[str]] = {}
    for n in range(1, ROUNDS + 1):
        plan = f"plan:{n}"
        before[plan] = {f"gather:{n - 1}"} if n > 1 else set()
        ends = {f"third:{n}"}
        for name, earlier in zip(CHAIN, ("plan", *CHAIN), strict=False):
            before[f"{name}:{n}"] = {f"{earlier}:{n}"}
        for item in range(WIDTH):
            before[f"work:{n}:{item}"] = {plan}
            before[f"charge:{n}:{item}:a"] = {plan}
            before[f"charge:{n}:{item}:b"] = {f"charge:{n}:{item}:a"}
            ends.add(f"work:{n}:{item}")
        before[f"gather:{n}"] = ends
    before["close"] = {f"gather:{ROUNDS}"}
    return before


BEFORE = _before()
"""Effect → the effects that a run with ``durability="sync"`` has saved before it begins."""


def saved_effects(graph: Any, thread: str) -> set[str]:
    """The effects of a thread that are saved: those of nodes, by their writes, and those of calls, by their results."""
    saved: set[str] = set()
    snapshots = [graph.get_state(thread, subgraphs=True)]
    while snapshots:
        snapshot = snapshots.pop()
        saved.update(snapshot.values.get("log", ()))
        snapshots += [one.state for one in snapshot.tasks if hasattr(one.state, "values")]
    newest = performed(read_checkpoint(graph.checkpointer, graph.codec, thread, "", None))
    for record in () if newest is None else (*newest.state.carried, *newest.records):
        if record.kind == "call":
            saved.add(record.content["charged"])
    for key in list(saved):
        kind, _, place = key.partition(":")
        if kind == "work":  # its calls are behind it
            saved |= {f"charge:{place}:a", f"charge:{place}:b"}
    return saved


def bring_to_end(
    graph: Any, thread: str, invoke: Callable[..., Any], given: Any = INPUT, **options: Any
) -> dict[str, Any]:
    """Does whatever a thread needs until it is at its end: its input, answers, or only to go on; its final state."""
    while True:
        snapshot = graph.get_state(thread)
        if snapshot.metadata is None:
            invoke(given, thread_id=thread, **options)
        elif snapshot.interrupts:
            answers = {question.id: "yes" for question in snapshot.interrupts}
            invoke(Command(resume=answers), thread_id=thread, **options)
        elif snapshot.next:
            invoke(None, thread_id=thread, **options)
        else:
            return dict(snapshot.values)
