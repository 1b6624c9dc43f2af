"""Pydantic models as a whole: validators over several fields run at the end of a step."""

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from juncture.channels.managed import RemainingSteps
from juncture.graph.schema import read_schema


def errors_of(caught):
    return [(error["loc"], error["type"]) for error in caught.value.errors()]


class Booking(BaseModel):
    start: int
    end: int
    log: list[str] = []
    length: int = 0

    @model_validator(mode="after")
    def in_order(self):
        if self.end < self.start:
            raise ValueError("ends before it starts")
        self.length = self.end - self.start
        return self


def test_a_model_validator_checks_and_changes():
    schema = read_schema(Booking)
    assert schema.has_model_check
    assert schema.check_model({"start": 1, "end": 4, "unrelated": 5}) == {"length": 3}
    assert schema.check_model({"start": 1, "end": 4, "length": 3}) == {}
    with pytest.raises(ValidationError, match="ends before it starts") as caught:
        schema.check_model({"start": 5, "end": 4})
    assert caught.value.title == "Booking"


def test_a_model_isnt_checked_while_required_keys_are_absent():
    schema = read_schema(Booking)
    assert schema.check_model({"start": 1}) == {}
    assert schema.check_model({}) == {}


def test_models_without_validators_have_nothing_to_check():
    class Order(BaseModel):
        count: int = Field(ge=0)

        @field_validator("count")
        @classmethod
        def check(cls, value):
            return value

    schema = read_schema(Order)
    assert not schema.has_model_check
    assert schema.check_model({"count": "wrong"}) == {}


def test_the_check_sees_copies_and_reports_changes_in_place():
    class Appending(BaseModel):
        items: list[list[int]]
        late: list[int] = []
        absent: dict[str, int] = Field(default_factory=dict)

        @model_validator(mode="after")
        def add(self):
            self.items[0].append(9)
            self.absent["a"] = 1
            return self

    values = {"items": [[1]]}
    assert read_schema(Appending).check_model(values) == {"items": [[1, 9]], "absent": {"a": 1}}
    assert values == {"items": [[1]]}


def test_field_validators_dont_run_again_in_the_check():
    class Doubling(BaseModel):
        a: int
        b: int = 0

        @field_validator("a")
        @classmethod
        def double(cls, value):
            return value * 2

        @model_validator(mode="after")
        def mirror(self):
            self.b = self.a
            return self

    schema = read_schema(Doubling)
    assert schema.validator("a")(2) == 4
    assert schema.check_model({"a": 4}) == {"b": 4}


def test_validators_of_every_mode_run_in_the_order_of_pydantic():
    calls = []

    class Layered(BaseModel):
        a: int

        @model_validator(mode="before")
        @classmethod
        def before(cls, values):
            calls.append(("before", dict(values)))
            return values

        @model_validator(mode="wrap")
        @classmethod
        def wrap(cls, values, handler):
            calls.append(("wrap", values))
            made = handler(values)
            calls.append(("wrapped", made))
            return made

        @model_validator(mode="after")
        def after(self):
            calls.append(("after", self))
            return self

    made = Layered(a=1)
    by_pydantic, calls = calls, []
    schema = read_schema(Layered)
    assert schema.check_model({"a": 1}) == {}
    assert calls == by_pydantic
    assert calls[-1] == ("after", made)


def test_a_before_validator_may_supply_what_is_missing():
    class Filling(BaseModel):
        a: int
        b: int
        c: int = 0

        @model_validator(mode="before")
        @classmethod
        def fill(cls, values):
            if "b" not in values and "a" in values:
                return {**values, "b": values["a"] + 1, "c": 5}
            return values

    schema = read_schema(Filling)
    assert schema.check_model({"a": 1}) == {"b": 2, "c": 5}
    assert schema.check_model({"b": 1}) == {}
    assert schema.check_model({}) == {}
    assert schema.build({"a": 1}).b == 2
    with pytest.raises(ValidationError):
        schema.build({"b": 1})


def test_a_before_validator_that_raises_for_an_incomplete_model_is_heard():
    class Picky(BaseModel):
        a: int
        b: int

        @model_validator(mode="before")
        @classmethod
        def check(cls, values):
            if values.get("a") == 13:
                raise ValueError("unlucky")
            return values

    with pytest.raises(ValidationError, match="unlucky"):
        read_schema(Picky).check_model({"a": 13})


def test_a_wrap_validator_may_give_an_instance_to_its_handler():
    class Wrapped(BaseModel):
        a: int

        @model_validator(mode="wrap")
        @classmethod
        def wrap(cls, values, handler):
            return handler(handler({"a": 7}))

    schema = read_schema(Wrapped)
    assert schema.check_model({"a": 1}) == {"a": 7}
    assert schema.build({}).a == 7


def test_field_validators_that_look_at_other_fields_run_in_the_check():
    class Passwords(BaseModel):
        one: str
        two: str
        name: str = ""

        @field_validator("two", mode="after")
        @classmethod
        def equal(cls, value, info: ValidationInfo):
            if value != info.data["one"]:
                raise ValueError("they differ")
            return value.strip()

        @field_validator("name", mode="before")
        @classmethod
        def named(cls, value, info: ValidationInfo):
            assert info.mode == "python"
            return f"{info.field_name}:{value}" if ":" not in value else value

    schema = read_schema(Passwords)
    assert schema.has_model_check
    # Alone it can't be checked yet, and is left as it is.
    assert schema.validator("two")(" b") == " b"
    assert schema.validator("name")("x") == "name:x"
    assert schema.check_model({"one": " a", "two": " a", "name": "name:x"}) == {"two": "a"}
    with pytest.raises(ValidationError, match="they differ") as caught:
        schema.check_model({"one": "a", "two": "b"})
    assert errors_of(caught) == [(("two",), "value_error")]
    with pytest.raises(ValidationError):
        schema.validator("one")(3)


def test_lenient_schemas_validate_what_is_handed_out_only():
    schema = read_schema(Booking, strict=False)
    assert schema.validator("start") is None
    assert not schema.has_model_check
    assert schema.check_model({"start": 5, "end": 4}) == {}
    built = schema.build({"start": "1", "end": "4"})
    assert (built.start, built.length) == (1, 3)
    with pytest.raises(ValidationError, match="ends before it starts"):
        schema.build({"start": 5, "end": 4})
    before = schema.snapshot(built, {"start": "1", "end": "4"})
    assert schema.updates_of(built, before) == {}


def test_lenient_schemas_may_be_validated_all_the_same():
    schema = read_schema(Booking, strict=False, validate=True)
    assert schema.validator("start")("1") == 1
    assert schema.check_model({"start": 1, "end": 4}) == {"length": 3}


def test_a_model_that_makes_itself_is_made_by_itself_when_lenient():
    class Custom(BaseModel):
        a: int

        def __init__(self, **values):
            super().__init__(a=values["a"] + 1)

    assert read_schema(Custom, strict=False).build({"a": 1}).a == 2


def test_deferred_models_are_built_when_they_are_read():
    class Deferred(BaseModel):
        model_config = ConfigDict(defer_build=True)
        a: int

    assert read_schema(Deferred).validator("a")("1") == 1


def test_the_check_of_a_model_goes_without_managed_values():
    class State(BaseModel):
        a: int
        left: RemainingSteps

        @model_validator(mode="after")
        def check(self):
            self.a = abs(self.a)
            return self

    assert read_schema(State).check_model({"a": -1}) == {"a": 1}
