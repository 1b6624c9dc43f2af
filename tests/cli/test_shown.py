"""Any value as JSON: what JSON knows stays itself, and everything else is marked."""

import json
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from datetime import date
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import msgspec
import pydantic
import pytest

from juncture.cli.shown import DEPTH, line_of, message_of, shown


@dataclass(slots=True)
class Point:
    x: int
    around: "list[Point]"


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    secret: pydantic.SecretStr = pydantic.SecretStr("s")


class Struct(msgspec.Struct):
    a: int


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - what older code has


class Colour(Enum):
    RED = 1


class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


@dataclass
class Hiding:
    a: int

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (10**30, 10**30),
        (10**5_000, {"$repr": hex(10**5_000)}),
        (-(10**5_000), {"$repr": hex(-(10**5_000))}),
        (0.1, 0.1),
        (Text("ä"), "ä"),
        ((1, [2, ()]), [1, [2, []]]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (UserDict(a=1), {"a": 1}),
        ({1: "a", "b": 2}, {"$pairs": [[1, "a"], ["b", 2]]}),
        ({(1, 2): 3}, {"$pairs": [[[1, 2], 3]]}),
        ({"b", "a"}, {"$set": ["a", "b"]}),
        (frozenset({(2, "x"), (1, "y")}), {"$set": [[1, "y"], [2, "x"]]}),
        (Point(1, [Point(2, [])]), {"x": 1, "around": [{"x": 2, "around": []}]}),
        (
            Model(name="n", more=[1]),
            {"name": "n", "secret": {"$repr": "SecretStr('**********')"}, "more": [1]},
        ),  # pyright: ignore[reportCallIssue]  # extra="allow" takes it
        (Struct(1), {"a": 1}),
        (Pair(1, "b"), {"left": 1, "right": "b"}),
        (Colour.RED, {"$repr": "<Colour.RED: 1>"}),
        (Level.LOW, {"$repr": "<Level.LOW: 1>"}),
        (float("-inf"), {"$repr": "-inf"}),
        (b"\x00", {"$repr": "b'\\x00'"}),
        (date(2026, 1, 2), {"$repr": "datetime.date(2026, 1, 2)"}),
        (PurePosixPath("a"), {"$repr": "PurePosixPath('a')"}),
        (ValueError("x"), {"$repr": "ValueError('x')"}),
        (Broken(), {"$repr": "<Broken that can't be shown>"}),
        (Point, {"$repr": f"{Point!r}"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value(value: Any, expected: Any):
    assert shown(value) == expected
    assert json.loads(line_of(value)) == expected


def test_a_value_that_fails_when_it_is_looked_into():
    assert shown({"a": Hiding(1), "b": 1}) == {"a": {"$repr": "<Hiding that can't be shown>"}, "b": 1}


def test_what_contains_itself_ends():
    circle: list[Any] = [1]
    circle.append(circle)
    assert shown(circle) == [1, {"$repr": "[1, [...]]"}]


def test_what_stands_twice_is_shown_twice():
    inner = [1]
    assert shown([inner, inner]) == [[1], [1]]


@pytest.mark.parametrize("depth", [DEPTH, 100_000])
def test_what_is_nested_too_deeply_is_marked(depth: int):
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    found = json.loads(line_of(deep))
    for _ in range(DEPTH):
        (found,) = found
    assert list(found) == ["$repr"]
    while deep:  # Python frees what is nested so deeply by recursion
        deep = deep.pop()


def test_half_a_character_is_escaped():
    assert line_of("a\ud800\n") == '"a\\ud800\\n"'


@pytest.mark.parametrize(
    ("error", "said"),
    [(ValueError("x"), "x"), (SystemExit(), "exit()"), (SystemExit("bye"), "exit('bye')")],
    ids=["plain", "exit", "exit with words"],
)
def test_what_an_exception_says(error: BaseException, said: str):
    assert message_of(error) == said
