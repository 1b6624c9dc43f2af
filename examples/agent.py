"""An agent: a model that asks for tools until it can answer. The model is a script: no key, no network.

    model ─┬─ one Send a tool call ─> tool ─> model
           ├─ a note ─> note (asks a person) ─> model
           └─ no calls ─> end

`model` adds one message. Each tool call in it becomes a task of its own, and they run at the same time. `note` has an
effect, so it asks first: the run pauses; what the other calls of that step answered is kept, and they don't run again.
For a real model, give `build` another function than `script`: nothing else changes.

Run it: python examples/agent.py [--approve | --reject] [--docs FOLDER]
It prints the conversation. Exit codes: 0 done; 2 wrong usage; 3 paused, nobody was there to approve.
"""

import argparse
import ast
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from juncture import (
    END,
    START,
    Command,
    CompiledGraph,
    InMemorySaver,
    Interrupt,
    Runtime,
    Send,
    StateGraph,
    add_messages,
    interrupt,
)

PROJECT = Path(__file__).resolve().parent.parent
QUESTION = (
    "What do the docs say about checkpoints? How long do 1,000 steps of 168 µs take? Keep a note of that."
)
DONE, PAUSED = 0, 3


class Call(TypedDict):
    """One tool call that the model asks for."""

    id: str
    name: str
    args: dict[str, str]


class Message(TypedDict):
    """One message; `add_messages` replaces one that comes again with the same id."""

    id: str
    role: Literal["user", "assistant", "tool"]
    content: str
    tool_calls: NotRequired[list[Call]]
    tool_call_id: NotRequired[str]


class Talk(TypedDict):
    """The state."""

    messages: Annotated[list[Message], add_messages]
    notes: Annotated[list[str], operator.add]


@dataclass(frozen=True)
class Desk:
    """What the tools find at their place: given to a run, and no part of its state."""

    docs: Path


def script(state: Talk) -> dict[str, Any]:
    """A stand-in for a model: its next message depends on the turn, and on what the tools answered."""
    turn = sum(message["role"] == "assistant" for message in state["messages"])
    answers = {m["tool_call_id"]: m["content"] for m in state["messages"] if "tool_call_id" in m}
    said = Message(id=f"assistant-{turn}", role="assistant", content="")
    if turn == 0:
        said["content"] = "I search the docs and work it out."
        said["tool_calls"] = [
            Call(id="call-1", name="search", args={"word": "checkpoint"}),
            Call(id="call-2", name="calculate", args={"expression": "1000 * 168 / 1000"}),
        ]
    elif turn == 1:
        said["content"] = "I note it, and work out what a 25th of that is."
        said["tool_calls"] = [
            Call(id="call-3", name="note", args={"text": f"1,000 steps take {answers['call-2']} ms."}),
            Call(id="call-4", name="calculate", args={"expression": f"{answers['call-2']} / 25"}),
        ]
    else:
        said["content"] = (
            f"The docs say: {answers['call-1']}. 1,000 steps take {answers['call-2']} ms; "
            f"a 25th of that is {answers['call-4']} ms. The note is {answers['call-3']}."
        )
    return {"messages": [said]}


def one_task_each(state: Talk) -> list[Send] | Literal["__end__"]:
    """Where `model` leads to: a task for every call of its message; without calls it was the last."""
    calls = state["messages"][-1].get("tool_calls", [])
    return [Send("note" if call["name"] == "note" else "tool", call) for call in calls] or END


def tool(call: Call, runtime: Runtime[Desk]) -> Command[Literal["model"]]:
    """One call, answered. A tool that fails answers with its error, for the model to see."""
    try:
        content = TOOLS[call["name"]](runtime.context, **call["args"])
    except Exception as error:  # noqa: BLE001 - whatever a tool raises
        content = f"failed: {type(error).__name__}: {error}"
    return Command(update={"messages": [answer(call, content)]}, goto="model")


def note(call: Call) -> Command[Literal["model"]]:
    """A note, if a person allows it. When they have answered this runs again, and `interrupt` returns the answer."""
    text = call["args"]["text"]
    if interrupt({"question": f"May I keep this note: {text}"}) is not True:
        return Command(update={"messages": [answer(call, "refused")]}, goto="model")
    return Command(update={"messages": [answer(call, "kept")], "notes": [text]}, goto="model")


def answer(call: Call, content: str) -> Message:
    """What a tool says to a call."""
    return Message(id=f"answer-to-{call['id']}", role="tool", content=content, tool_call_id=call["id"])


def build(model: Callable[[Talk], dict[str, Any]] = script) -> CompiledGraph[Talk, Desk]:
    """The graph, which keeps its threads for as long as this program runs."""
    graph: StateGraph[Talk, Desk] = StateGraph(Talk, context_schema=Desk)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_node("note", note)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", one_task_each, ["tool", "note", END])
    return graph.compile(checkpointer=InMemorySaver())


# ── the tools ────────────────────────────────────────────────────────────────────────────────────────────────


def calculate(desk: Desk, expression: str) -> str:
    """The value of numbers with ``+ - * /`` and parentheses."""
    return f"{value_of(ast.parse(expression, mode='eval').body):g}"


def value_of(part: ast.expr) -> float:
    """The value of a part of an expression. Only arithmetic: what a model wrote is never run as code."""
    match part:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value_of(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in ARITHMETIC:
            return ARITHMETIC[type(sign)](value_of(left), value_of(right))
        case _:
            raise ValueError(f"{ast.unparse(part)} is no arithmetic")


def search(desk: Desk, word: str) -> str:
    """The first line of the docs that holds a word, and its place."""
    for path in sorted(desk.docs.rglob("*.md")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if word.lower() in line.lower():
                return f"{line.strip()!r} ({path.relative_to(desk.docs)}, line {number})"
    return f"nothing about {word!r}"


TOOLS: dict[str, Callable[..., str]] = {"calculate": calculate, "search": search}
ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


# ── the command line ─────────────────────────────────────────────────────────────────────────────────────────


def follow(graph: CompiledGraph[Talk, Desk], given: Any, desk: Desk) -> tuple[Interrupt, ...]:
    """Runs to the end or the next pause, prints what is said, and gives the questions that it paused for.

    Parts arrive as tasks end. To print the same conversation every time, those of a step are put in the order of
    its plan.
    """
    config = {"configurable": {"thread_id": "talk"}}
    parts = graph.stream(given, config, context=desk, stream_mode="updates", version="parts")
    questions: tuple[Interrupt, ...] = ()
    for _, of_step in groupby(parts, key=lambda part: part.step):
        for part in sorted(of_step, key=lambda part: (part.place is None, part.place)):
            if "__interrupt__" in part.data:
                questions = part.data["__interrupt__"]
            elif (
                "__metadata__" not in part.data
            ):  # there it is what was kept when the run paused: shown already
                for message in part.data[part.node]["messages"]:
                    show(message)
    return questions


def show(message: Message) -> None:
    """Prints one message, and the calls in it."""
    print(f"{message['role']:>9}: {message['content']}")
    for call in message.get("tool_calls", []):
        print(
            f"{'':9}  {call['name']}({', '.join(f'{name}={value!r}' for name, value in call['args'].items())})"
        )


def ask(question: dict[str, str]) -> bool | None:
    """The answer of the person at the terminal; None if there is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    line = input(f"{question['question']} [y/n] ")
    return line.strip().lower() in {"y", "yes"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser("agent", description="An agent with a scripted model.")
    parser.add_argument(
        "--docs", type=Path, default=PROJECT / "docs", metavar="FOLDER", help="default: %(default)s"
    )
    answers = parser.add_mutually_exclusive_group()
    answers.add_argument("--approve", dest="answer", action="store_const", const=True, help="allow the note")
    answers.add_argument("--reject", dest="answer", action="store_const", const=False, help="refuse it")
    options = parser.parse_args(arguments)
    if not options.docs.is_dir():
        parser.error(f"there is no folder {str(options.docs)!r}")
    graph, desk = build(), Desk(options.docs)
    asked = Message(id="user-0", role="user", content=QUESTION)
    show(asked)
    questions = follow(graph, {"messages": [asked]}, desk)
    while questions:
        allowed = ask(questions[0].value) if options.answer is None else options.answer
        if allowed is None:
            print("Paused: the note waits for approval. Run this again with --approve, or with --reject.")
            return PAUSED
        questions = follow(graph, Command(resume=allowed), desk)
    return DONE


if __name__ == "__main__":
    sys.exit(main())
