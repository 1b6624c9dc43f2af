"""Pydantic models and dataclasses: validated when written, put together without validating, checked as a whole."""

import dataclasses
import enum
import uuid
from typing import Annotated, Any, Generic, TypeVar

import pydantic
import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from juncture.channels.managed import RemainingSteps
from juncture.errors import GraphBuildError
from juncture.graph.schema import read_schema

T = TypeVar("T")


def errors_of(caught):
    return [(error["loc"], error["type"]) for error in caught.value.errors()]


# ── keys are validated ───────────────────────────────────────────────────────────────────────────────────────


class Order(BaseModel):
    count: int = Field(ge=0)
    name: Annotated[str, AfterValidator(str.strip), BeforeValidator(str)] = "x"
    tags: list[int] = Field(default_factory=list)
    short: list[int] = Field(default_factory=list, max_length=2)
    mixed: list = Field(default_factory=list)
    note: str | None = None
    price: float = Field(default=1.0, alias="cost", validation_alias="COST")
    fixed: int = Field(default=0, frozen=True)

    @field_validator("name", mode="wrap")
    @classmethod
    def shout(cls, value, validate):
        return validate(value).upper()

    @field_validator("count", "price", mode="after")
    @classmethod
    def not_thirteen(cls, value):
        if value == 13:
            raise ValueError("unlucky")
        return value

    @field_validator("note", mode="plain")
    @classmethod
    def any_note(cls, value):
        return None if value == "" else value


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("count", "3", 3),
        ("name", " a ", "A"),
        ("name", 5, "5"),
        ("tags", ("1", 2), [1, 2]),
        ("note", "", None),
        ("note", 3, 3),
        ("price", "2.5", 2.5),
        ("fixed", "4", 4),
    ],
)
def test_a_key_is_validated_and_coerced_as_the_field_is(key, value, expected):
    assert read_schema(Order).validator(key)(value) == expected


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("count", -1, ((), "greater_than_equal")),
        ("count", 13, ((), "value_error")),
        ("price", 13, ((), "value_error")),
        ("tags", [1, "a"], ((1,), "int_parsing")),
        ("short", [1, 2, 3], ((), "too_long")),
    ],
)
def test_a_refused_value_raises_pydantic_s_error_which_names_the_key(key, value, error):
    with pytest.raises(ValidationError) as caught:
        read_schema(Order).validator(key)(value)
    place, kind = error
    assert caught.value.title == "Order"
    assert errors_of(caught) == [((key, *place), kind)]


def test_items_are_validated_one_by_one_where_that_is_enough():
    schema = read_schema(Order)
    assert schema.item_validator("tags")("3") == 3
    with pytest.raises(ValidationError):
        schema.item_validator("tags")("a")
    anything = object()
    assert schema.item_validator("mixed")(anything) is anything
    for key in ("short", "count", "note", "name"):
        assert schema.item_validator(key) is None


def test_no_items_where_the_list_has_a_validator():
    class Sorted(BaseModel):
        a: list[int]
        b: Annotated[list[int], AfterValidator(sorted)]

        @field_validator("a")
        @classmethod
        def check(cls, value):
            return value

    schema = read_schema(Sorted)
    assert schema.item_validator("a") is None
    assert schema.item_validator("b") is None
    assert schema.validator("b")([2, 1]) == [1, 2]


def test_the_model_s_config_holds():
    class Strict(BaseModel):
        model_config = ConfigDict(
            strict=True, str_strip_whitespace=True, arbitrary_types_allowed=True, frozen=True
        )
        a: int
        b: str
        c: Order | None = None
        d: object = None

    schema = read_schema(Strict)
    with pytest.raises(ValidationError):
        schema.validator("a")("1")
    assert schema.validator("b")(" x ") == "x"
    nested = Order(count=1)
    assert schema.validator("c")(nested) is nested
    built = schema.build({"a": 1, "b": "x"})
    with pytest.raises(ValidationError, match="frozen"):
        built.a = 2


def test_recursive_and_generic_models():
    class Tree(BaseModel, Generic[T]):
        value: T
        below: list["Tree[T]"] = []

        @model_validator(mode="after")
        def check(self):
            if self.value == 0:
                raise ValueError("zero")
            return self

    schema = read_schema(Tree[int])
    below = schema.validator("below")([{"value": "1", "below": [{"value": 2}]}])
    assert below == [Tree[int](value=1, below=[Tree[int](value=2)])]
    with pytest.raises(ValidationError):
        schema.validator("value")("a")
    with pytest.raises(ValidationError, match="zero"):
        schema.validator("below")([{"value": 0}])
    assert schema.check_model({"value": 1, "below": below}) == {}
    with pytest.raises(ValidationError, match="zero"):
        schema.check_model({"value": 0, "below": []})


def test_managed_values_arent_validated():
    class State(BaseModel):
        a: int
        left: RemainingSteps

    schema = read_schema(State)
    assert schema.validator("left") is None
    assert schema.build({"a": 1, "left": 3}).left == 3
    assert schema.required == {"a"}
    assert schema.updates_of(schema.build({"a": 1, "left": 3})) == {"a": 1}


def test_a_class_with_a_core_schema_of_its_own_is_refused():
    class Own(BaseModel):
        a: int

        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            from pydantic_core import core_schema

            return core_schema.union_schema([handler(source), core_schema.int_schema()])

    with pytest.raises(GraphBuildError, match=r"Own makes a pydantic core schema of its own \(union\)"):
        read_schema(Own)
    assert read_schema(Own, strict=False).build({"a": "1"}) == Own(a=1)


# ── instances are put together ───────────────────────────────────────────────────────────────────────────────


class Colour(enum.Enum):
    RED = 1


class Inner(BaseModel):
    x: int = 0


class Rich(BaseModel):
    model_config = ConfigDict(extra="allow")
    first: int
    colour: Colour = Colour.RED
    inner: Inner = Inner()
    pairs: list[int] = [1, 2]
    token: str = Field(default_factory=lambda: uuid.uuid4().hex)
    double: int = Field(default_factory=lambda values: values["first"] * 2)
    last: str = "z"
    _private: list[int] = PrivateAttr(default_factory=lambda: [7])
    _seen: int = 0

    def model_post_init(self, context):
        self._seen = self.first


def test_an_instance_is_as_pydantic_would_make_it():
    values = {"first": 1, "token": "t", "last": "y"}
    built = read_schema(Rich).build(dict(values))
    expected = Rich(**values)
    assert built == expected
    assert built.model_dump() == expected.model_dump()
    assert list(built.__dict__) == list(expected.__dict__)
    assert built.model_fields_set == {"first", "token", "last"}
    assert (built.double, built._private, built._seen) == (2, [7], 1)
    assert built.model_copy() == expected
    assert Rich.model_validate(built) is built
    assert repr(built) == repr(expected)


def test_mutable_defaults_arent_shared():
    schema = read_schema(Rich)
    one, two = schema.build({"first": 1}), schema.build({"first": 1})
    assert one.pairs == two.pairs
    assert one.pairs is not two.pairs
    assert one.inner is not two.inner
    assert one.token != two.token


def test_values_arent_validated_again():
    seen = []

    class Counted(BaseModel):
        a: int
        b: int = 0

        @field_validator("a")
        @classmethod
        def count(cls, value):
            seen.append(value)
            return value

    schema = read_schema(Counted)
    schema.build({"a": 1})
    assert seen == []
    assert read_schema(Counted, strict=False).build({"a": "1"}).a == 1
    assert seen == [1]


def test_defaults_are_validated_if_the_model_says_so():
    class Late(BaseModel):
        a: int = Field(default="5", validate_default=True)
        b: int = "6"
        c: list[int] = Field(default_factory=lambda: ["1"], validate_default=True)

    class All(Late):
        model_config = ConfigDict(validate_default=True)

    built = read_schema(Late).build({})
    assert (built.a, built.b, built.c) == (5, "6", [1])
    assert read_schema(All).build({}).b == 6


def test_post_init_without_private_attributes():
    class Sum(BaseModel):
        a: int
        total: int = 0
        items: list[int] = []

        def model_post_init(self, context):
            self.total = self.a + 1
            self.items = [*self.items, self.a]

    schema = read_schema(Sum)
    built = schema.build({"a": 1, "items": [5]})
    assert (built.total, built.items) == (2, [5, 1])
    before = schema.snapshot(built, {"a": 1, "items": [5]})
    assert schema.updates_of(built, before) == {}
    built.items.append(9)
    assert schema.updates_of(built, before) == {"items": [5, 1, 9]}
    assert built.model_copy(deep=True) == built


def test_aliases_play_no_part():
    for strict in (True, False):
        schema = read_schema(Order, strict=strict)
        built = schema.build({"count": 1, "price": 2.0})
        assert (built.price, built.model_fields_set) == (2.0, {"count", "price"})
        assert schema.updates_of(built) == {"count": 1, "price": 2.0}
        with pytest.raises(ValidationError) as caught:
            schema.build({"price": 2.0})
        assert errors_of(caught) == [(("count",), "missing")]
    with pytest.raises(ValidationError):
        schema.build({"count": 1, "price": "much"})


def test_extra_values_are_part_of_the_update():
    schema = read_schema(Rich)
    new = Rich(first=1, zeal=2, other=3)
    assert schema.updates_of(new) == {"first": 1, "other": 3, "zeal": 2}
    built = schema.build({"first": 1})
    before = schema.snapshot(built, {"first": 1})
    built.unknown = 5
    assert schema.updates_of(built, before) == {"unknown": 5}


def test_a_field_set_for_the_first_time_is_a_write_whatever_its_value():
    schema = read_schema(Order)
    built = schema.build({"count": 1})
    before = schema.snapshot(built, {"count": 1})
    built.note = None
    assert schema.updates_of(built, before) == {"note": None}


def test_a_default_from_other_fields_that_is_changed_in_place():
    class Linked(BaseModel):
        a: int
        b: list[int] = Field(default_factory=lambda values: [values["a"]])

    schema = read_schema(Linked)
    built = schema.build({"a": 1})
    before = schema.snapshot(built, {"a": 1})
    assert schema.updates_of(built, before) == {}
    built.b.append(2)
    assert schema.updates_of(built, before) == {"b": [1, 2]}


# ── pydantic dataclasses ─────────────────────────────────────────────────────────────────────────────────────


@pydantic.dataclasses.dataclass
class Reading:
    low: int
    high: int = Field(default=10, alias="High")
    tags: list[int] = Field(default_factory=list)
    scale: dataclasses.InitVar[int] = 1

    @field_validator("low")
    @classmethod
    def positive(cls, value):
        if value < 0:
            raise ValueError("negative")
        return value

    @model_validator(mode="after")
    def in_order(self):
        if self.low > self.high:
            raise ValueError("crossed")
        return self


def test_pydantic_dataclasses():
    schema = read_schema(Reading)
    assert schema.kind == "dataclass"
    assert {n: (f.required, f.default) for n, f in schema.fields.items() if n != "tags"} == {
        "low": (True, schema.fields["low"].default),
        "high": (False, 10),
        "scale": (False, 1),
    }
    assert schema.validator("low")("1") == 1
    assert schema.item_validator("tags")("1") == 1
    with pytest.raises(ValidationError, match="negative"):
        schema.validator("low")(-1)
    assert schema.validator("high")("3") == 3
    built = schema.build({"low": 1, "high": 5, "scale": 2})
    assert (built.low, built.high) == (1, 5)
    assert schema.updates_of(built) == {"low": 1, "high": 5}
    assert schema.updates_of(built, schema.snapshot(built, {"low": 1, "high": 5})) == {}
    assert schema.has_model_check
    assert schema.check_model({"low": 1}) == {}
    assert schema.check_model({"high": 1}) == {}
    with pytest.raises(ValidationError, match="crossed"):
        schema.check_model({"low": 50})


def test_pydantic_dataclasses_when_lenient():
    schema = read_schema(Reading, strict=False)
    assert schema.validator("low") is None
    with pytest.raises(ValidationError, match="negative"):
        schema.build({"low": -1})


def test_a_generic_pydantic_dataclass():
    @pydantic.dataclasses.dataclass
    class Holder(Generic[T]):
        content: T
        more: list[T] = Field(default_factory=list)

    schema = read_schema(Holder[int])
    assert [f.base for f in schema.fields.values()] == [int, list[int]]
    assert schema.build({"content": 1}) == Holder(1)


def test_a_reference_to_itself_in_a_pydantic_dataclass():
    schema = read_schema(Linked)
    assert schema.validator("next")({"value": "1"}) == Linked(1)


@pydantic.dataclasses.dataclass
class Linked:
    value: int
    next: "Linked | None" = None


def test_any_typed_fields_pass_as_they_are():
    class Loose(BaseModel):
        a: Any
        b: list[Any] = []

    thing = object()
    schema = read_schema(Loose)
    assert schema.validator("a")(thing) is thing
    assert schema.validator("b")([thing])[0] is thing
