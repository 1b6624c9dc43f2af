"""Expenses that two people decide on, each when it suits them: a run that waits in a file, not in a process.

    python examples/approval.py submit  --thread trip       asks both reviewers, and ends
    python examples/approval.py pending --thread trip       says who is still asked
    python examples/approval.py answer  --thread trip boss='{"decision": "reject", "reason": "too dear"}'

Every command is a process of its own. The thread is kept in approval.db, or where `--db` says.
"""

from __future__ import annotations

import argparse
import json
import operator
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from juncture import END, START, CompiledGraph, InvalidAnswerError, StateGraph, interrupt


class Decision(TypedDict):
    """What a reviewer answers."""

    decision: Literal["approve", "edit", "reject"]
    amount: NotRequired[int]
    reason: NotRequired[str]


class Expense(TypedDict, total=False):
    """The state."""

    what: str
    amount: int
    decisions: Annotated[list[dict[str, Any]], operator.add]
    outcome: str


def asks(reviewer: str) -> Any:
    """The node in which one reviewer is asked."""

    def ask(state: Expense) -> Expense:
        question = {"reviewer": reviewer, "what": state["what"], "amount": state["amount"]}
        answer = interrupt(question, key=reviewer, response_type=Decision)
        return {"decisions": [{"by": reviewer, **answer}]}

    return ask


def conclude(state: Expense) -> Expense:
    """The last word: any rejection rejects, and the smallest edit holds."""
    decisions = state["decisions"]
    rejected = [each for each in decisions if each["decision"] == "reject"]
    if rejected:
        reasons = "; ".join(f"{each['by']}: {each.get('reason', 'no reason')}" for each in rejected)
        return {"outcome": f"rejected ({reasons})"}
    amounts = [each["amount"] for each in decisions if each["decision"] == "edit" and "amount" in each]
    amount = min([state["amount"], *amounts])
    return {"amount": amount, "outcome": f"approved: {amount}"}


def build(checkpointer: str | None = None) -> CompiledGraph[Any, Any, Any, Any]:
    """The graph, which keeps its threads where the URL says."""
    graph = StateGraph(Expense).add_node("boss", asks("boss")).add_node("finance", asks("finance"))
    graph.add_node("conclude", conclude).add_edge(START, "boss").add_edge(START, "finance")
    graph.add_edge(["boss", "finance"], "conclude").add_edge("conclude", END)
    return graph.compile(checkpointer)


def main() -> None:
    """Runs one command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["submit", "pending", "answer"])
    parser.add_argument("answers", nargs="*", metavar="REVIEWER=JSON")
    parser.add_argument("--thread", required=True)
    parser.add_argument("--db", default="approval.db")
    given = parser.parse_args()
    with build(f"sqlite:{given.db}") as graph:
        if given.command == "submit":
            graph.invoke({"what": "train to Oslo", "amount": 250}, thread_id=given.thread)
        elif given.command == "answer":
            named = dict(each.split("=", 1) for each in given.answers)
            try:
                graph.resume(given.thread, {who: json.loads(text) for who, text in named.items()})
            except InvalidAnswerError as error:
                print(error)
        for question in graph.pending(given.thread):
            print(f"{question.key} is asked: {question.value['what']} for {question.value['amount']}?")
        if outcome := graph.get_state(given.thread).values.get("outcome"):
            print(outcome)


if __name__ == "__main__":
    main()
