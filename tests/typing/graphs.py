"""What a type checker knows of a graph: checked by mypy and basedpyright, never run."""

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from juncture import END, START, Command, CompiledGraph, RunResult, Runtime, Send, StateGraph


class State(TypedDict):
    n: int


class Given(TypedDict):
    n: int


class Shown(TypedDict):
    total: int


@dataclass
class Desk:
    name: str


def step(state: State, runtime: Runtime[Desk]) -> State:
    assert_type(runtime.context, Desk)
    assert_type(runtime.execution_info.node, str)
    return {"n": state["n"] + 1}


def jump(state: State) -> Command[str]:
    command = Command(update={"n": 1}, goto=[Send("step", state), END])
    assert_type(command.graph, str | None)
    return command


def spread(state: State) -> list[Send]:
    return [Send("step", {"n": n}) for n in range(state["n"])]


def schemas() -> None:
    assert_type(StateGraph(State), StateGraph[State, None, State, State])
    assert_type(StateGraph(State, Desk), StateGraph[State, Desk, State, State])
    assert_type(StateGraph(State, context_schema=Desk), StateGraph[State, Desk, State, State])
    assert_type(StateGraph(State, input_schema=Given), StateGraph[State, None, Given, State])
    assert_type(
        StateGraph(State, Desk, input_schema=Given, output_schema=Shown),
        StateGraph[State, Desk, Given, Shown],
    )
    assert_type(StateGraph(State, strict=False), StateGraph[State, None, State, State])
    assert_type(StateGraph(), StateGraph[dict[str, Any], None, dict[str, Any], dict[str, Any]])


def build() -> CompiledGraph[State, Desk, State, State]:
    graph = StateGraph(State, Desk)
    same = graph.add_node("step", step).add_node(jump).add_edge(START, "step").add_edge("step", "jump")
    assert_type(same, StateGraph[State, Desk, State, State])
    graph.add_conditional_edges("jump", spread, ["step"])
    compiled = graph.compile(checkpointer="memory:")
    assert_type(compiled, CompiledGraph[State, Desk, State, State])
    return compiled


def invoke(graph: CompiledGraph[State, Desk, State, State]) -> None:
    result = graph.invoke({"n": 1}, context=Desk("a"), thread_id="1")
    assert_type(result, RunResult[State])
    assert_type(result.steps, int)
    assert_type(graph.invoke(Command(resume="yes"), thread_id="1"), RunResult[State])
    assert_type(graph.invoke(None, thread_id="1", output_keys=["n"]), RunResult[State])
    assert_type(graph.invoke({"n": 1}, stream_mode="values"), list[Any])
    assert_type(graph.invoke({"n": 1}, output_keys="n"), Any)
    assert_type(graph.stream({"n": 1}, stream_mode=["updates", "custom"]), Generator[Any, None, None])


async def ainvoke(graph: CompiledGraph[State, Desk, State, State]) -> None:
    assert_type(await graph.ainvoke({"n": 1}), RunResult[State])
    assert_type(await graph.ainvoke({"n": 1}, stream_mode="updates"), list[Any])
    assert_type(await graph.ainvoke({"n": 1}, output_keys="n"), Any)
    assert_type(graph.astream({"n": 1}), AsyncGenerator[Any, None])
    async for part in graph.astream({"n": 1}, version="parts"):
        print(part)
