"""Which classes are found in annotations, and what a registry takes, refuses and replaces."""

import collections.abc
import dataclasses
import datetime as dt
import enum
import subprocess
import sys
import textwrap
import typing
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)

import msgspec
import pydantic
import pytest
import typing_extensions

from juncture import channels
from juncture.channels.base import Channel
from juncture.errors import GraphBuildError, SerializationError
from juncture.persistence import register_type
from juncture.persistence.codec import Codec
from juncture.persistence.registry import DEFAULT, Registry, classes_in

T = TypeVar("T")


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Leaf:
    color: Color


class Pair(NamedTuple):
    left: Leaf
    right: "Other"


class Other(pydantic.BaseModel):
    leaf: Leaf | None = None


class Struct(msgspec.Struct):
    other: list[Other]


class Node(pydantic.BaseModel):
    children: list["Node"] = []
    data: Leaf | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


class Crate(pydantic.BaseModel, Generic[T]):
    item: T


class Inner(TypedDict):
    pair: NotRequired[Pair]


class State(TypedDict, total=False):
    text: str
    inner: typing_extensions.Required[list[Inner]]
    when: dt.datetime


class Text(str):
    __slots__ = ()


class Client:
    """Of no kind that can be stored."""


Bound = TypeVar("Bound", bound=Leaf)
Chosen = TypeVar("Chosen", Leaf, Other)
Defaulted = typing_extensions.TypeVar("Defaulted", default=Leaf)
UserId = NewType("UserId", Text)
Alias = typing_extensions.TypeAliasType("Alias", dict[str, Leaf])


def add(left, right):
    return left + right


@pytest.mark.parametrize(
    ("annotation", "found"),
    [
        (None, []),
        (int, []),
        (Any, []),
        ("Leaf", []),
        (list[int], []),
        (Color, [Color]),
        (Leaf, [Leaf, Color]),
        (list[Leaf], [Leaf, Color]),
        (typing.List[Leaf], [Leaf, Color]),  # noqa: UP006  # the older spelling
        (dict[Color, tuple[Leaf, ...]], [Color, Leaf]),
        (Leaf | None, [Leaf, Color]),
        (Optional[Leaf], [Leaf, Color]),  # noqa: UP045  # the older spelling
        (Union[int, Color, Text], [Color, Text]),  # noqa: UP007  # the older spelling
        (Annotated[list[Leaf], add, "note", Client()], [Leaf, Color]),
        (Annotated[Any, channels.LastValue(Leaf)], [Leaf, Color]),
        (channels.LastValue(list[Color]), [Color]),
        (Literal[Color.RED, "x"], [Color]),
        (UserId, [Text]),
        (Alias, [Leaf, Color]),
        (Bound, [Leaf, Color]),
        (Chosen, [Leaf, Color, Other]),
        (Defaulted, [Leaf, Color]),
        (typing.Callable[[Leaf], Color], [Leaf, Color]),
        (collections.abc.Sequence[Leaf], [Leaf, Color]),
        (type[Leaf], [Leaf, Color]),
        (Pair, [Pair, Leaf, Color, Other]),
        (Struct, [Struct, Other, Leaf, Color]),
        (Node, [Node, Leaf, Color]),
        (Box[Leaf], [Box, Leaf, Color]),
        (Box[list[Color]], [Box, Color]),
        (Crate[Leaf], [Crate[Leaf], Crate, Leaf, Color]),
        (State, [Pair, Leaf, Color, Other, dt.datetime]),
        (Client, [Client]),
    ],
)
def test_classes_are_found_wherever_an_annotation_names_them(annotation, found):
    assert classes_in(annotation) == found


def test_a_reference_that_cannot_be_resolved_hides_only_itself():
    @dataclasses.dataclass
    class Here:
        unknown: "Nowhere"  # noqa: F821  # can't be resolved, on purpose
        local: "Local"  # noqa: F821  # can't be resolved, on purpose
        leaf: "Leaf"
        colors: "list[Color]"

    assert classes_in(Here) == [Here, Leaf, Color]


def test_what_pydantic_generates_is_found_by_instances():
    registry = Registry()
    registry.register_annotation(list[Crate[Leaf]])
    codec = Codec(registry)
    crate = Crate[Leaf](item=Leaf(Color.RED))
    found = codec.decode(codec.encode(crate))
    assert found == crate
    assert type(found) is Crate[Leaf]


def test_an_annotation_registers_what_can_be_stored_and_passes_over_the_rest():
    registry = Registry(DEFAULT)
    registry.register_annotation(State)
    registry.register_annotation(dict[str, Client])
    assert [cls for cls in (Pair, Leaf, Color, Other, Client, dt.datetime) if registry.for_class(cls)] == [
        Pair,
        Leaf,
        Color,
        Other,
    ]
    with pytest.raises(SerializationError, match=r"^state\.client: .*Client.*register_type\(Client\)"):
        Codec(registry).encode({"client": Client()}, "state")


def named(name):
    made = dataclasses.make_dataclass(name, ["x"])
    made.__module__ = "somewhere"  # Python 3.12 and later take the caller's, whatever the namespace says
    return made


def test_two_classes_of_one_name_are_an_error_unless_one_is_named():
    one, other = named("Doc"), named("Doc")
    registry = Registry()
    registry.register(one)
    registry.register(one)
    with pytest.raises(GraphBuildError, match=r"two different classes are both called somewhere:Doc.*name="):
        registry.register(other)
    with pytest.raises(GraphBuildError, match="both called"):
        registry.register_annotation(list[other])
    assert registry.for_class(other) is None
    assert registry.for_name("somewhere:Doc").cls is one
    registry.register(other, name="other doc")
    codec = Codec(registry)
    value = [one(1), other(2)]
    assert [type(item) for item in codec.decode(codec.encode(value))] == [one, other]


def test_a_class_may_be_given_another_name():
    cls = named("Doc")
    registry = Registry()
    registry.register(cls, name="first")
    registry.register(cls, name="second")
    assert registry.for_name("first") is None
    assert registry.for_class(cls).name == "second"


def test_a_class_that_is_defined_again_replaces_the_former():
    one, other = named("Again"), named("Again")
    registry = Registry()
    registry.register(one)
    stored = Codec(registry).encode([one(1)])
    registry.register(other, replace=True)
    codec = Codec(registry)
    assert type(codec.decode(stored)[0]) is other
    with pytest.raises(SerializationError, match="somewhere:Again, is not of a class"):
        codec.encode(one(1))


def test_a_graph_sees_what_the_process_registered_and_keeps_its_own_for_itself():
    process = Registry()
    one, other = Registry(process), Registry(process)
    process.register(Leaf)
    one.register(Color)
    assert one.for_class(Leaf) is other.for_class(Leaf) is not None
    assert other.for_class(Color) is None
    assert process.for_class(Color) is None


def test_a_registry_includes_another():
    inner, outer = Registry(), Registry()
    inner.register(Leaf)
    inner.register(Color)
    outer.include(inner)
    outer.include(inner)
    assert outer.for_class(Leaf) is inner.for_class(Leaf)
    clash = Registry()
    clash.register(named("X"), name=inner.for_class(Leaf).name)
    with pytest.raises(GraphBuildError, match="both called"):
        clash.include(inner)


def test_a_registry_that_learns_takes_what_it_meets_if_its_kind_can_be_stored():
    learning = Registry(DEFAULT, learn=True)
    codec = Codec(learning)
    value = {"a": [Leaf(Color.RED)], "t": Text("x")}
    stored = codec.encode(value)
    assert codec.decode(stored) == value
    with pytest.raises(SerializationError, match="Client"):
        codec.encode(Client())
    another = Codec(Registry(DEFAULT, learn=True))
    with pytest.raises(
        SerializationError,
        match=r"^state\.a\[0\]\.color: .*:Color, which isn't registered here.*register_type",
    ):
        another.decode(stored, "state")
    assert DEFAULT.for_class(Leaf) is None


def test_encode_and_decode_come_together():
    with pytest.raises(GraphBuildError, match="both encode and decode"):
        Registry().register(Client, encode=lambda _: 1)


def test_register_type_is_for_the_process_and_a_decorator():
    script = """
        import dataclasses
        from juncture.persistence import register_type
        from juncture.persistence.codec import Codec
        from juncture.persistence.registry import DEFAULT, Registry

        codec = Codec(Registry(DEFAULT))  # before the class is registered

        @register_type
        @dataclasses.dataclass
        class Doc:
            x: int

        class Odd:
            pass

        assert register_type(Odd, name="odd", encode=lambda odd: 0, decode=lambda stored: Odd()) is Odd
        assert codec.decode(codec.encode([Doc(1)])) == [Doc(1)]
        assert type(codec.decode(codec.encode(Odd()))) is Odd
        Former = Doc

        @register_type
        @dataclasses.dataclass
        class Doc:
            x: int
            y: int = 2

        assert codec.decode(Codec(Registry(DEFAULT)).encode(Doc(1))) == Doc(1, 2)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def test_register_type_refuses_as_a_registry_does():
    with pytest.raises(GraphBuildError, match="encode= and decode="):
        register_type(Client)
    assert DEFAULT.for_class(Client) is None


def test_every_channel_names_its_type():
    assert classes_in(Annotated[list[Any], Channel(Color)]) == [Color]
