"""Strategies for everything that can be stored: builtin values, numpy's, and objects of classes of every kind."""

import collections
import dataclasses
import datetime as dt
import enum
import pathlib
import zoneinfo
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import pydantic
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st

from juncture.persistence.registry import DEFAULT, Registry
from juncture.types import MARK_FOR_REMOVAL, MISSING, UNSET, Answer, Overwrite, Send

T = TypeVar("T")


class Outer:
    class Color(enum.Enum):
        RED = 1
        ALSO_RED = RED
        PAIR = (1, "x")


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    A = "a"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


@dataclasses.dataclass
class Point3(Point):
    """A subclass, registered by itself."""

    z: Any = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    of: Any


class Pair(NamedTuple):
    left: Any
    right: Any = None


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: Any
    y: Any = None
    _seen: Any = pydantic.PrivateAttr(default=None)


class Crate(pydantic.BaseModel, Generic[T]):
    item: T


class Struct(msgspec.Struct):
    x: Any
    y: Any = None


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Items(list):
    """May have attributes."""


class Money:
    """Of no kind that can be taken apart by looking at it."""

    __slots__ = ("cents",)

    def __init__(self, cents):
        self.cents = cents

    def __eq__(self, other):
        return type(other) is Money and other.cents == self.cents

    def __hash__(self):
        return hash(self.cents)

    def __repr__(self):
        return f"Money({self.cents})"


CLASSES = (
    Outer.Color,
    Level,
    Name,
    Right,
    Point,
    Point3,
    Key,
    Pair,
    Model,
    Crate,
    Crate[int],
    Crate[list[Point]],
    Struct,
    Text,
    Number,
    Items,
)


def registry():
    """One that knows these classes."""
    made = Registry(DEFAULT)
    for cls in CLASSES:
        made.register(cls)
    made.register(Money, encode=lambda money: money.cents, decode=Money)
    return made


@st.composite
def _drawn(draw, strategy):
    return draw(strategy())


def _briefly(strategy):
    """The same, without all that it is made of in its repr, which hypothesis would write for each example."""
    return _drawn(lambda: strategy)


TEXT = st.text(st.characters(codec=None), max_size=8)  # lone surrogates too
ZONES = st.one_of(
    st.none(),
    st.just(dt.UTC),
    st.just(dt.timezone(dt.timedelta(hours=-3, minutes=-30))),
    st.just(dt.timezone(dt.timedelta(seconds=1, microseconds=1), "odd")),
    st.sampled_from(["Europe/Berlin", "America/New_York", "UTC"]).map(zoneinfo.ZoneInfo),
)
MOMENTS = st.builds(
    lambda when, fold: when.replace(fold=fold), st.datetimes(timezones=ZONES), st.integers(0, 1)
)
TIMES = st.builds(lambda when, fold: when.replace(fold=fold), st.times(timezones=ZONES), st.integers(0, 1))
PATHS = st.builds(
    lambda kind, text: kind(text),
    st.sampled_from([pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())]),
    st.text(max_size=6).filter(lambda text: "\x00" not in text),
)
MEMBERS = st.sampled_from([*Outer.Color, *Level, *Name, *Right, Right.READ | Right.WRITE, Right(0)])
HASHABLE_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**130), 2**130),
    st.floats(),
    TEXT,
    st.binary(max_size=8),
    st.complex_numbers(),
    st.builds(range, st.integers(), st.integers(), st.integers(1, 9)),
    st.decimals().filter(lambda number: not number.is_snan()),  # one that signals has no hash
    st.fractions(),
    MOMENTS,
    TIMES,
    st.dates(),
    st.timedeltas(),
    ZONES,
    st.uuids(),
    PATHS,
    st.sampled_from([MARK_FOR_REMOVAL, MISSING, UNSET]),
    MEMBERS,
    TEXT.map(Text),
    st.integers().map(Number),
    st.integers().map(Money),
)
_HASHABLE = st.recursive(
    _briefly(HASHABLE_LEAVES),
    lambda inner: st.one_of(
        st.tuples(inner, inner),
        st.tuples(inner),
        st.frozensets(inner, max_size=3),
        st.builds(Key, inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=5,
)
HASHABLE = _briefly(_HASHABLE)
_DTYPES = st.one_of(
    numpy_st.boolean_dtypes(),
    numpy_st.integer_dtypes(endianness="?"),
    numpy_st.floating_dtypes(endianness="?"),
    numpy_st.complex_number_dtypes(),
    numpy_st.datetime64_dtypes(),
    numpy_st.timedelta64_dtypes(),
    numpy_st.byte_string_dtypes(max_len=4),
    numpy_st.unicode_string_dtypes(max_len=4),
)
ARRAYS = numpy_st.arrays(_DTYPES, numpy_st.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=3))
SCALARS = _DTYPES.flatmap(lambda dtype: numpy_st.arrays(dtype, ())).map(lambda array: array[()])


def _model(fields, extra, seen):
    made = Model(**fields, **extra)
    made._seen = seen
    return made


def _items(content, attributes):
    made = Items(content)
    vars(made).update(attributes)
    return made


def _objects(inner):
    return st.one_of(
        st.builds(Point, inner),
        st.builds(Point3, inner, inner, inner),
        st.builds(Pair, inner, inner),
        st.builds(
            _model,
            st.fixed_dictionaries({"x": inner}, optional={"y": inner}),
            st.dictionaries(st.sampled_from(["more", "and more"]), inner, max_size=2),
            inner,
        ),
        st.builds(Crate, item=inner),
        st.builds(Crate[int], item=st.integers()),
        st.builds(
            lambda points: Crate[list[Point]](item=points), st.lists(st.builds(Point, inner), max_size=2)
        ),
        st.builds(Struct, inner, inner),
        st.builds(_items, st.lists(inner, max_size=3), st.dictionaries(st.just("note"), inner, max_size=1)),
        st.builds(Overwrite, inner),
        st.builds(Answer, inner),
        st.builds(Send, TEXT, inner),
    )


def _containers(inner):
    keyed = st.dictionaries(HASHABLE, inner, max_size=3)
    return st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(TEXT, inner, max_size=4),
        keyed,
        st.lists(inner, max_size=3).map(tuple),
        st.sets(HASHABLE, max_size=3),
        st.builds(collections.deque, st.lists(inner, max_size=3), st.one_of(st.none(), st.integers(3, 5))),
        keyed.map(collections.OrderedDict),
        st.builds(collections.defaultdict, st.sampled_from([None, list, int, collections.deque]), keyed),
        st.dictionaries(HASHABLE, st.integers(), max_size=3).map(collections.Counter),
        _objects(inner),
    )


_LEAVES = st.one_of(HASHABLE, st.binary(max_size=8).map(bytearray), ARRAYS, SCALARS)
VALUES = st.recursive(_briefly(_LEAVES), _containers, max_leaves=12)
"""Whatever can be stored."""
