"""The programs whose threads are stored in the samples, and what they must show when a later Juncture reads them.

A sample is made once and never again (`tests.samples.make`). So nothing in here may change in a way that changes what
a program does; a new program gets a new name, and a new sample.
"""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import operator
import pathlib
import uuid
import zoneinfo
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import numpy as np
import pydantic

from juncture import END, START, Command, Overwrite, Send, StateGraph, interrupt, register_type, task
from juncture.types import MARK_FOR_REMOVAL, MISSING, UNSET

# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────


class Mood(enum.Enum):
    CALM = 1
    WILD = "w"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Message:
    role: str
    text: str
    meta: dict[str, Any] = dataclasses.field(default_factory=dict)


class Pair(NamedTuple):
    left: int
    right: Any = None


class Profile(pydantic.BaseModel):
    name: str
    moods: list[Mood] = []
    best: Message | None = None
    _seen: int = 0


class Struct(msgspec.Struct):
    x: int
    y: tuple[int, ...] = ()


class Text(str):
    __slots__ = ()


class Money:
    def __init__(self, cents):
        self.cents = cents

    def __eq__(self, other):
        return type(other) is Money and other.cents == self.cents

    def __hash__(self):
        return hash(self.cents)

    def __repr__(self):
        return f"Money({self.cents})"


for _cls in (Mood, Right, Message, Pair, Profile, Struct, Text):
    register_type(_cls, name=f"samples:{_cls.__name__}")
register_type(Money, name="samples:Money", encode=lambda money: money.cents, decode=Money)


def profile(seen: int = 0, **fields: Any) -> Profile:
    made = Profile(name="Ada", **fields)
    made._seen = seen
    return made


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
VALUES = {
    "plain": [None, True, -1, 2**64 - 1, 1.5, float("inf"), "text", b"bytes", {"a": [{}]}],
    "numbers": [2**64, -(2**200), 1 + 2j, range(1, 9, 2), decimal.Decimal("1.10"), fractions.Fraction(-1, 3)],
    "text": ["\ud800", "🦉", "\x00", {"\udfff": 1}],
    "buffers": [bytearray(b"x"), {"in": bytearray(b"")}],
    "containers": [
        (1, (2,)),
        {1: "a", (2, "b"): "c", None: {}},
        {1, "x", (2,)},
        frozenset({frozenset({1})}),
        collections.deque([1, (2,)], 5),
        collections.deque(),
        collections.defaultdict(list, {"a": [1]}),
        collections.defaultdict(None, {1: 2}),
        collections.OrderedDict([("b", 1), ("a", 2)]),
        collections.Counter({"a": -1, 5: 2}),
    ],
    "times": [
        dt.datetime(2024, 10, 27, 2, 30, 0, 1, tzinfo=BERLIN, fold=1),
        dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
        dt.datetime(2024, 1, 2),  # noqa: DTZ001  # without a zone, on purpose
        dt.datetime(2024, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=-3, seconds=1), "odd")),
        dt.date(1, 2, 3),
        dt.time(1, 2, 3, 4, tzinfo=BERLIN, fold=1),
        dt.timedelta(-1, 2, 3),
        BERLIN,
        dt.timezone(dt.timedelta(hours=1)),
    ],
    "names": [uuid.UUID(int=7), pathlib.PurePosixPath("/a/b"), pathlib.PureWindowsPath(r"c:\x")],
    "arrays": [
        np.arange(6, dtype="<i4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=">f8").reshape(2, 3)),
        np.array(["é", ""], dtype="<U1"),
        np.array([("a", "2024-01-01", (1, 2))], dtype=[("n", "<U3"), ("at", "<M8[s]"), ("p", "<f4", (2,))]),
        np.array([None, {"a": (1,)}, [2]], dtype=object),
        np.float32(-0.0),
        np.datetime64("2024-01-01T00:00", "m"),
    ],
    "enums": [Mood.CALM, Mood.WILD, Right.READ, Right.READ | Right.WRITE],
    "objects": [
        Message("user", "hi", {"at": (1,)}),
        Pair(1),
        Pair(1, {2}),
        profile(3, moods=[Mood.WILD], best=Message("a", "b")),
        Struct(1, (2,)),
        Text("t"),
        Money(5),
    ],
    "junctures_own": [
        MARK_FOR_REMOVAL,
        MISSING,
        UNSET,
        Overwrite([1]),
        Send("n", {"a": (1,)}),
        Send("n", timeout=2.5),
        Command(update={"a": 1}, goto=["b"], resume=None),
    ],
}
"""By name of the sample; each value alone and with the others."""


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────


class Chat(TypedDict, total=False):
    turn: int
    messages: Annotated[list[Message], operator.add]
    profile: Profile
    notes: dict[str, Any]
    draft: str
    tags: set[str]
    moods: tuple[Mood, ...]


def chat_state(turn: int) -> dict[str, Any]:
    """The whole state after so many turns: appended to, edited inside, shrunk, replaced, and left alone."""
    return {
        "turn": turn,
        "messages": [
            part
            for n in range(turn)
            for part in (Message("user", f"{n}", {"n": n}), Message("ai", f"{n}!" * 9))
        ],
        "profile": profile(
            turn, moods=[Mood.CALM] * (turn % 3), best=Message("ai", "best", {"of": turn // 4})
        ),
        "notes": {f"note {n}": {"of": n, "seen": [turn]} for n in range(turn % 5, 5)}
        | {"fixed": ("never", {"changes": 1})},
        "draft": "word " * (10 + turn) if turn % 6 else "",
        "tags": {f"tag {n}" for n in range(turn, turn + 4)},
        "moods": (Mood.CALM, *[Mood.WILD] * turn),
    }


def _say(state: Chat) -> dict[str, Any]:
    turn = state["turn"]
    new = chat_state(turn)
    return {**new, "messages": new["messages"][2 * (turn - 1) :]}


def chat() -> StateGraph:
    return StateGraph(Chat).add_node("say", _say).add_edge(START, "say").add_edge("say", END)


CHAT_TURNS = 14


def run_chat(app: Any) -> None:
    for turn in range(1, CHAT_TURNS + 1):
        app.invoke({"turn": turn}, thread_id="chat")


class Work(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    total: Annotated[int, operator.add]


PRICED: list[str] = []
"""What prices were asked for in this process."""


@task
def price(of: str) -> Money:
    PRICED.append(of)
    return Money(len(of))


def _ask(state: Work) -> dict[str, Any]:
    cost = price("bread").result()
    first = interrupt({"really?": Pair(1)}, key="first")
    second = interrupt("and this?", key="second")
    return {"log": [cost, first, second], "total": 1}


def _fast(state: Work) -> Command:
    return Command(
        update={"log": ["fast"], "total": 2}, goto=[Send("each", Pair(7, "x")), Send("each", Pair(8))]
    )


def _each(given: Any) -> dict[str, Any]:
    return {"log": [given], "total": 10}


def _join(state: Work) -> dict[str, Any]:
    return {"log": ["joined"], "total": 100}


def _inner_step(state: Work) -> dict[str, Any]:
    return {"log": [interrupt("inside?", key="inside")]}


def work() -> StateGraph:
    """Two nodes at once, of which one asks; sends; a join that waits; and then a nested graph that asks."""
    inner = StateGraph(Work).add_node("step", _inner_step).add_edge(START, "step").add_edge("step", END)
    graph = StateGraph(Work)
    graph.add_node("ask", _ask).add_node("fast", _fast, destinations=("each",)).add_node(
        "each", _each
    ).add_node("join", _join)
    graph.add_node("nested", inner.compile())
    graph.add_edge(START, "ask").add_edge(START, "fast")
    graph.add_edge(["ask", "each"], "join")
    graph.add_edge("join", "nested").add_edge("nested", END)
    return graph


def run_work(app: Any) -> None:
    """Leaves three threads: one with the first question, one with the second, and one that waits inside."""
    for thread_id, answers in (("first", ()), ("second", ("yes",)), ("inside", ("yes", (1, 2)))):
        app.invoke({"log": ["begin"]}, thread_id=thread_id)
        for answer in answers:
            app.invoke(Command(resume=answer), thread_id=thread_id)


WORK_LOG = ["begin", Money(5), "yes", (1, 2), "fast", Pair(7, "x"), Pair(8), "joined", "end"]
WORK_WAITS = {
    "first": (["begin", "fast"], {"really?": Pair(1)}, ["yes", (1, 2), "end"]),
    "second": (["begin", "fast"], "and this?", [(1, 2), "end"]),
    "inside": (WORK_LOG[:-1], "inside?", ["end"]),
}
"""By thread: the log that it shows, what it asks, and the answers that bring it to the end, `WORK_LOG`."""

PROGRAMS = {"chat": (chat, run_chat), "work": (work, run_work)}
TEST_KEY = bytes(range(32))
"""Of the encrypted sample."""
