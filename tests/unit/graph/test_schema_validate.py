"""Validation of types that don't validate themselves, and of structs."""

import datetime
import operator
import subprocess
import sys
from dataclasses import InitVar, dataclass
from typing import Annotated, Any, Generic, Literal, NotRequired, Self, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
import typing_extensions
from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from juncture.channels.managed import RemainingSteps
from juncture.errors import GraphBuildError
from juncture.graph.schema import read_schema
from juncture.types import ROOT

T = TypeVar("T")


class Foreign:
    """A class that no library knows."""


class Inner(typing_extensions.TypedDict):  # pydantic takes typing's from Python 3.12 on only
    x: int


@dataclass
class Point:
    x: int


class Typed(TypedDict):
    count: NotRequired[Annotated[int, Field(ge=0)]]
    items: Annotated[list[int], operator.add]
    short: Annotated[list[int], Field(max_length=1), operator.add]
    loose: list
    foreign: Foreign
    foreigners: list[Foreign]
    inner: Inner
    point: Point
    stripped: Annotated[str, AfterValidator(str.strip)]
    left: RemainingSteps


@dataclass
class Data:
    count: Annotated[int, Field(ge=0)]
    items: Annotated[list[int], operator.add]
    short: Annotated[list[int], Field(max_length=1), operator.add]
    loose: list
    foreign: Foreign
    foreigners: list[Foreign]
    inner: Inner
    point: Point
    stripped: Annotated[str, AfterValidator(str.strip)]
    seed: InitVar[int] = 0
    left: RemainingSteps = 0


@pytest.mark.parametrize("tp", [Typed, Data])
def test_nothing_is_validated_unless_asked(tp):
    schema = read_schema(tp)
    assert [schema.validator(key) for key in schema.fields] == [None] * len(schema.fields)
    assert [schema.item_validator(key) for key in schema.fields] == [None] * len(schema.fields)
    assert not schema.has_model_check
    assert schema.check_model({"count": "x"}) == {}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("tp", [Typed, Data])
def test_keys_are_validated_by_pydantic_where_asked(tp, strict):
    schema = read_schema(tp, validate=True, strict=strict)
    assert schema.validator("count")("3") == 3
    assert schema.validator("items")(("1", 2)) == [1, 2]
    assert schema.validator("stripped")(" a ") == "a"
    assert schema.validator("inner")({"x": "1"}) == {"x": 1}
    assert schema.validator("point")({"x": "1"}) == Point(1)
    foreign = Foreign()
    assert schema.validator("foreign")(foreign) is foreign
    assert schema.validator("foreigners")([foreign])[0] is foreign
    for key, value in [("count", -1), ("count", "a"), ("short", [1, 2]), ("foreign", 3), ("foreigners", [3])]:
        with pytest.raises(ValidationError):
            schema.validator(key)(value)
    assert schema.validator("left") is None
    assert schema.validator("unknown") is None
    assert not schema.has_model_check


def test_init_only_fields_are_validated_too():
    assert read_schema(Data, validate=True).validator("seed")("3") == 3


@pytest.mark.parametrize("tp", [Typed, Data])
def test_items_are_validated_where_that_is_enough(tp):
    schema = read_schema(tp, validate=True)
    assert schema.item_validator("items")("3") == 3
    foreign = Foreign()
    assert schema.item_validator("loose")(foreign) is foreign
    assert schema.item_validator("foreigners")(foreign) is foreign
    with pytest.raises(ValidationError):
        schema.item_validator("items")("a")
    for key in ("short", "count", "inner", "stripped"):
        assert schema.item_validator(key) is None


def test_a_typed_dict_s_own_config_holds():
    class Strict(TypedDict):
        a: int

    Strict.__pydantic_config__ = ConfigDict(strict=True, arbitrary_types_allowed=False)
    with pytest.raises(ValidationError):
        read_schema(Strict, validate=True).validator("a")("1")


def test_generic_types_are_validated_as_what_they_were_made():
    class Box(TypedDict, Generic[T]):
        content: T

    assert read_schema(Box[int], validate=True).validator("content")("1") == 1


def test_a_single_value_is_validated_where_asked():
    schema = read_schema(Annotated[list[int], operator.add], validate=True)
    assert schema.validator(ROOT)(["1"]) == [1]
    assert schema.item_validator(ROOT)("1") == 1
    assert read_schema(None, validate=True).validator("a") is None


@pytest.mark.parametrize(
    "annotation", [Annotated[str, Field(pattern="(")], Annotated[int, Field(discriminator="x")], Self]
)
def test_an_annotation_that_pydantic_cant_take_is_refused(annotation):
    class Odd(TypedDict):
        fine: int
        odd: annotation

    with pytest.raises(
        GraphBuildError, match=r"(?s)pydantic can't validate Odd\.odd .*Annotate it"
    ) as caught:
        read_schema(Odd, validate=True)
    assert caught.value.key == "odd"


def test_missing_pydantic_is_named():
    code = (
        "import sys, typing\n"
        "sys.modules['pydantic'] = None\n"
        "from juncture.graph.schema import read_schema\n"
        "class A(typing.TypedDict):\n    x: int\n"
        "read_schema(A)\n"
        "try:\n    read_schema(A, validate=True)\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("GraphBuildError validate=True checks A (typed_dict) with pydantic")
    assert "Install juncture[pydantic]" in done.stdout


# ── structs ──────────────────────────────────────────────────────────────────────────────────────────────────


class Struct(msgspec.Struct, Generic[T], rename="camel"):
    the_count: Annotated[int, msgspec.Meta(ge=0)] = 0
    the_items: Annotated[list[int], operator.add] = []
    short: Annotated[list[int], msgspec.Meta(max_length=1), operator.add] = []
    loose: list = []
    anything: Any = None
    foreign: Foreign | None = None
    inner: Inner | None = None
    point: Point | None = None
    kind: Literal["a", "b"] = "a"
    content: T | None = None
    when: datetime.datetime | None = None
    left: RemainingSteps = 0


def test_structs_are_validated_when_written():
    schema = read_schema(Struct[str])
    assert schema.validator("the_count")(3) == 3
    assert schema.validator("the_items")((1, 2)) == [1, 2]
    assert schema.validator("inner")({"x": 1}) == {"x": 1}
    assert schema.validator("point")({"x": 1}) == Point(1)
    assert schema.validator("content")("a") == "a"
    foreign = Foreign()
    now = datetime.datetime.now(datetime.UTC)
    assert schema.validator("foreign")(foreign) is foreign
    assert schema.validator("anything")(foreign) is foreign
    assert schema.validator("when")(now) is now
    refused = [
        ("the_count", -1),
        ("the_count", "1"),
        ("the_items", ["1"]),
        ("short", [1, 2]),
        ("foreign", 3),
        ("kind", "c"),
        ("content", 3),
    ]
    for key, value in refused:
        with pytest.raises(msgspec.ValidationError):
            schema.validator(key)(value)
    assert schema.validator("left") is None
    assert not schema.has_model_check


def test_items_of_structs():
    schema = read_schema(Struct)
    assert schema.item_validator("the_items")(3) == 3
    with pytest.raises(msgspec.ValidationError):
        schema.item_validator("the_items")("3")
    anything = object()
    assert schema.item_validator("loose")(anything) is anything
    for key in ("short", "kind", "anything"):
        assert schema.item_validator(key) is None


def test_lenient_structs_arent_validated_unless_asked():
    assert read_schema(Struct, strict=False).validator("the_count") is None
    with pytest.raises(msgspec.ValidationError):
        read_schema(Struct, strict=False, validate=True).validator("the_count")("1")


def test_an_annotation_that_msgspec_cant_take_is_refused():
    class Other(msgspec.Struct):
        a: int

    class Odd(msgspec.Struct):
        fine: int
        odd: Point | Other

    with pytest.raises(GraphBuildError, match=r"msgspec can't validate Odd\.odd") as caught:
        read_schema(Odd)
    assert caught.value.key == "odd"
    assert list(read_schema(Odd, strict=False).fields) == ["fine", "odd"]


def test_a_nested_struct_passes_as_it_is():
    class Part(msgspec.Struct):
        x: int

    class Whole(msgspec.Struct):
        part: Part

    part = Part("not checked again")
    assert read_schema(Whole).validator("part")(part) is part
    assert isinstance(read_schema(Whole).validator("part")({"x": 1}), Part)


def test_models_are_validated_with_and_without_being_asked():
    class Model(pydantic.BaseModel):
        a: int

    for validate in (True, False):
        assert read_schema(Model, validate=validate).validator("a")("1") == 1
