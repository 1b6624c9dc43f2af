"""Threads whose classes changed between programs: every checkpoint is read by the present class, and the thread goes on."""

import dataclasses
import operator
from typing import Annotated, Any, TypedDict

import pytest

from juncture import END, START, InMemorySaver, SerializationError, StateGraph, register_type


def called(name):
    """Gives a class the name that it has in the programs of this test."""

    def rename(cls):
        cls.__name__ = cls.__qualname__ = name
        cls.__module__ = "accounts"
        return cls

    return rename


@called("Account")
@dataclasses.dataclass
class Before:
    owner: str
    spent: float  # in dollars
    notes: list[str] = dataclasses.field(default_factory=list)


@called("Ledger")
@dataclasses.dataclass
class After:
    holder: str
    spent: int  # in cents: the name stayed, the meaning didn't
    notes: list[str] = dataclasses.field(default_factory=list)


def to_after(fields, version):
    return {"holder": fields["owner"], "spent": round(fields["spent"] * 100), "notes": fields["notes"]}


class StateBefore(TypedDict):
    turns: Annotated[int, operator.add]
    account: Before
    padding: str


class StateAfter(TypedDict):
    turns: Annotated[int, operator.add]
    account: After
    padding: str


def spend_before(state: StateBefore) -> dict[str, Any]:
    account = state["account"]
    spent, notes = account.spent + 1.5, [*account.notes, f"turn {state['turns']}"]
    return {"account": Before(account.owner, spent, notes), "turns": 1}


def spend_after(state: StateAfter) -> dict[str, Any]:
    account = state["account"]
    return {"account": After(account.holder, account.spent + 1, account.notes), "turns": 1}


def compiled(schema, node, saver):
    graph = StateGraph(schema).add_node("spend", node).add_edge(START, "spend").add_edge("spend", END)
    return graph.compile(checkpointer=saver)


TURNS = 6
WHERE = {"configurable": {"thread_id": "t"}}


@pytest.fixture(scope="module")
def migrated():
    """Stored by the former program, in the terms of the former class; then the present one is there."""
    saver = InMemorySaver()
    app = compiled(StateBefore, spend_before, saver)
    app.invoke({"account": Before("ada", 0.0), "padding": "x" * 2_000}, thread_id="t")
    for _ in range(TURNS - 1):
        app.invoke({"turns": 0}, thread_id="t")
    changes = [part.payload for part in saver.parts("t", "", ((2, 2 * TURNS),))]
    assert any(b"accounts:Account" not in payload for payload in changes)  # changes inside of the object
    register_type(After, version=2, migrate=to_after, formerly=["accounts:Account"])
    return saver


def expected(turns):
    return After("ada", 150 * turns, [f"turn {n}" for n in range(turns)])


def test_every_checkpoint_shows_the_present_class(migrated):
    app = compiled(StateAfter, spend_after, migrated)
    seen = [
        (state.values["turns"], state.values["account"])
        for state in app.get_state_history(WHERE)
        if state.metadata["source"] == "loop"
    ]
    assert seen == [(turns, expected(turns)) for turns in range(TURNS, 0, -1)]


def test_the_thread_goes_on_in_the_present_class_and_its_past_stays(migrated):
    app = compiled(StateAfter, spend_after, migrated)
    account = expected(TURNS)
    for extra in (1, 2, 3):
        result = app.invoke({"turns": 0}, thread_id="t")
        assert result["account"] == After("ada", account.spent + extra, account.notes)
    fresh = compiled(StateAfter, spend_after, migrated)
    seen = [
        state.values["account"]
        for state in fresh.get_state_history(WHERE)
        if state.metadata["source"] == "loop"
    ]
    later = [After("ada", account.spent + extra, account.notes) for extra in (3, 2, 1)]
    assert seen == later + [expected(turns) for turns in range(TURNS, 0, -1)]


def test_without_a_migration_the_error_names_key_and_class():
    @called("Lone")
    @dataclasses.dataclass
    class Lone:
        x: int

    class State(TypedDict):
        lone: Lone

    saver = InMemorySaver()
    app = compiled(State, lambda state: {"lone": Lone(1)}, saver)
    app.invoke({}, thread_id="t")

    @called("Lone")
    @dataclasses.dataclass
    class Changed:
        x: int
        y: int

    class Later(TypedDict):
        lone: Changed

    for schema, message in (
        (
            Later,
            r"state\.lone\S*: .*class accounts:Lone can't be rebuilt: the field 'y' is required.*migrate=",
        ),
        (
            TypedDict("Other", {"lone": Any}),
            r"state\.lone\S*: an object of class accounts:Lone, which isn't registered",
        ),
    ):
        app = compiled(schema, lambda state: {}, saver)
        with pytest.raises(SerializationError, match=message) as caught:
            app.get_state(WHERE)
        assert caught.value.key == "lone"
        with pytest.raises(SerializationError, match=message):
            app.invoke({}, thread_id="t")
