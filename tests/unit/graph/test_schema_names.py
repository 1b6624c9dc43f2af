"""Annotations as text: `from __future__ import annotations`, and names that only a function knows."""

from __future__ import annotations

import functools
import inspect
import operator
from dataclasses import InitVar, dataclass, field
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import msgspec
import pydantic
import pytest

from juncture.channels.last_value import LastValue
from juncture.channels.reduced import BinaryOperatorAggregate
from juncture.errors import GraphBuildError
from juncture.graph.schema import read_schema, schema_from_callable
from juncture.types import Runtime

T = TypeVar("T")


class Half(TypedDict, total=False):
    a: int
    b: Required[Annotated[list[int], operator.add]]


class Whole(Half):
    c: NotRequired[int]
    d: Whole | None


class Generically(TypedDict, Generic[T]):
    one: T
    many: Annotated[list[T], operator.add]


@dataclass
class Data:
    seed: InitVar[int]
    shared: ClassVar[int] = 1
    items: Annotated[list[int], operator.add] = field(default_factory=list)


class Model(pydantic.BaseModel):
    a: int = 1
    next: Model | None = None


def test_text_is_resolved():
    fields = read_schema(Whole).fields
    assert {n: f.required for n, f in fields.items()} == {"a": False, "b": True, "c": False, "d": True}
    assert fields["b"].channel == BinaryOperatorAggregate(list[int], operator.add)
    assert fields["c"].base is int
    assert [f.base for f in read_schema(Generically[str]).fields.values()] == [str, list[str]]
    assert {n: f.base for n, f in read_schema(Data).fields.items()} == {"seed": int, "items": list[int]}
    assert list(read_schema(Model).fields) == ["a", "next"]


def local_types():
    class Local:
        pass

    def reducer(old, new):
        return new

    class Types:
        class Typed(TypedDict):
            a: Local
            b: Annotated[list[Local], operator.add]
            c: dict[str, Local.Inner] | None
            d: Local | None
            e: Local | None
            f: Annotated[Local, operator.or_]
            g: Required[Literal["Local"]]
            h: NotRequired[int]
            i: Local[int]()

        class Reduced(TypedDict):
            ok: int
            bad: Annotated[list, reducer]

        @dataclass
        class Dataclass:
            a: Local
            b: InitVar[Local]
            c: ClassVar[Local]
            d: Annotated[list[Local], operator.add]

        class Struct(msgspec.Struct):
            a: Local

        class Itself(TypedDict):
            a: Annotated[list[Itself], operator.add]  # noqa: F821 - the class itself

    return Types


def test_names_that_cant_be_found_dont_matter_where_nothing_needs_them():
    fields = read_schema(local_types().Typed).fields
    assert list(fields) == list("abcdefghi")
    assert fields["b"].channel == BinaryOperatorAggregate(list, operator.add)
    assert fields["b"].channel.initial() == []
    assert fields["c"].base is Any
    assert fields["f"].channel == BinaryOperatorAggregate(Any, operator.or_)
    for name in "adei":
        assert (fields[name].base, fields[name].channel) == (Any, LastValue(Any)), name
    assert fields["g"].base == Literal["Local"]
    assert (fields["h"].base, fields["h"].required) == (int, False)
    fields = read_schema(local_types().Dataclass).fields
    assert {n: f.base for n, f in fields.items()} == {"a": Any, "b": Any, "d": list}


def test_a_reducer_that_cant_be_found_is_refused():
    with pytest.raises(GraphBuildError, match=r"Reduced\.bad uses 'reducer', which can't be found") as caught:
        read_schema(local_types().Reduced)
    assert caught.value.key == "bad"


@pytest.mark.parametrize("name", ["Typed", "Dataclass", "Struct"])
def test_names_that_cant_be_found_are_refused_where_values_are_validated(name):
    with pytest.raises(GraphBuildError, match=rf"{name}\.a uses 'Local', which can't be found"):
        read_schema(getattr(local_types(), name), validate=True)


def test_a_struct_that_isnt_validated_needs_no_names():
    assert read_schema(local_types().Struct, strict=False).fields["a"].base is Any


def test_a_class_may_name_itself():
    field = read_schema(local_types().Itself).fields["a"]
    assert field.base.__args__[0].__name__ == "Itself"
    assert field.channel.initial() == []


def test_an_unfinished_model_is_refused():
    class Unfinished(pydantic.BaseModel):
        ok: int
        later: list[NotYet]  # noqa: F821 - can't be found

    for strict in (True, False):
        with pytest.raises(GraphBuildError, match=r"Unfinished\.later uses 'NotYet'"):
            read_schema(Unfinished, strict=strict)


class Waiting(pydantic.BaseModel):
    later: list[DefinedBelow]


class DefinedBelow(pydantic.BaseModel):
    x: int


def test_a_model_is_finished_when_its_names_are_there():
    assert read_schema(Waiting).validator("later")([{"x": "1"}]) == [DefinedBelow(x=1)]


def test_an_unfinished_model_without_a_name_to_blame_is_refused():
    class Part(pydantic.BaseModel):
        later: NotYet  # noqa: F821 - can't be found

    class Outer(pydantic.BaseModel):
        part: Part

    Outer.__annotations__["part"] = Part
    with pytest.raises(GraphBuildError, match=r"Outer isn't fully defined.*Outer\.model_rebuild"):
        read_schema(Outer)


@pydantic.dataclasses.dataclass
class WaitingToo:
    later: list[DefinedLast]


class DefinedLast(pydantic.BaseModel):
    x: int


def test_a_pydantic_dataclass_is_finished_when_its_names_are_there():
    assert not WaitingToo.__pydantic_complete__
    assert read_schema(WaitingToo).validator("later")([{"x": "1"}]) == [DefinedLast(x=1)]


def test_text_that_is_no_expression_is_refused_where_it_is_needed():
    class Typo(TypedDict):
        a: "list[int"  # noqa: F722 - not an expression

    Typo.__annotations__["a"] = "list[int"
    assert read_schema(Typo).fields["a"].base is Any
    with pytest.raises(GraphBuildError, match=r"Typo\.a uses 'list\[int'"):
        read_schema(Typo, validate=True)


# ── a node's first parameter ─────────────────────────────────────────────────────────────────────────────────


class Node:
    def method(self, state: Whole, config: Nowhere): ...  # noqa: F821 - can't be found

    @classmethod
    def of_class(cls, state: Whole): ...

    @staticmethod
    def static(state: Whole): ...

    def __call__(self, state: Data): ...


def plain(state: Whole, other: Nowhere) -> Nowhere: ...  # noqa: F821 - can't be found
async def asynchronous(state: Whole): ...
def generic(state: Generically[int]): ...
def annotated(state: Annotated[Model, "doc"]): ...
def second(first, state: Whole): ...
def of_keyword(*, state: Whole): ...
def of_nothing(): ...
def of_many(*states: Whole): ...
def unknown(state: Nowhere): ...  # noqa: F821 - can't be found
def of_dict(state: dict): ...
def of_list(state: list[int]): ...
def optional(state: Whole | None): ...
def of_text(state: str): ...
def of_runtime(runtime: Runtime): ...
def of_any(state: Any): ...


@functools.wraps(plain)
def wrapped(*args, **kwargs):
    return plain(*args, **kwargs)


class Made:
    def __init__(self, state: Whole): ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, Whole),
        (asynchronous, Whole),
        (generic, Generically[int]),
        (annotated, Model),
        (Node().method, Whole),
        (Node.of_class, Whole),
        (Node.static, Whole),
        (Node(), Data),
        (Made, Whole),
        (wrapped, Whole),
        (functools.partial(second, 1), Whole),
        (functools.partial(functools.partial(second), 1), Whole),
        (functools.partial(plain, other=1), Whole),
        (functools.partial(Node().method, config=1), Whole),
        (second, None),
        (of_keyword, None),
        (of_nothing, None),
        (of_many, None),
        (unknown, None),
        (of_dict, None),
        (of_list, None),
        (optional, None),
        (of_text, None),
        (of_runtime, None),
        (of_any, None),
        (len, None),
        (print, None),
        (operator.add, None),
        ("no function", None),
        (lambda state: state, None),
    ],
)
def test_the_schema_that_a_callable_asks_for(function, expected):
    found = schema_from_callable(function)
    assert found == expected


def test_a_local_type_is_found_if_the_function_uses_it():
    class Local(TypedDict):
        a: int

    def uses(state: Local):
        return Local(a=1)

    def doesnt(state: Local): ...

    assert schema_from_callable(uses) is Local
    assert schema_from_callable(doesnt) is None


def test_a_name_that_isnt_assigned_yet_doesnt_hide_the_others():
    class Local(TypedDict):
        a: int

    def uses(state: Local):
        return Local(a=later)

    assert schema_from_callable(uses) is Local
    later = 1


def test_a_callable_in_c_asks_for_nothing():
    class Lying:
        __signature__ = inspect.Signature(
            [inspect.Parameter("state", inspect.Parameter.POSITIONAL_ONLY, annotation="Whole")]
        )
        __call__ = len

    assert schema_from_callable(Lying()) is None
    assert schema_from_callable(functools.partial(len)) is None
