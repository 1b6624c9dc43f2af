"""An answer is refused beforehand only if its type refuses it for certain."""

import enum
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from juncture.drivers.response import response_of
from juncture.engine.answers import UNSURE, check_answers, misfit
from juncture.errors import InvalidAnswerError
from juncture.types import Interrupt


class Colour(enum.Enum):
    RED = "red"
    ONE = 1


@dataclass
class Point:
    x: int
    name: str = ""


class Tree(BaseModel):
    leaf: bool = False
    weight: float = Field(default=1.0, ge=0, lt=10)
    branches: list["Tree"] = Field(default=[], max_length=2)


TYPES: list[Any] = [
    int,
    float,
    bool,
    str,
    None,
    int | None,
    list[int],
    set[int],
    tuple[int, str],
    dict[str, int],
    Literal["a", 1, True],
    Colour,
    Point,
    Tree,
    list[Point | int],
]
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-12, 12)
    | st.floats(-12, 12)
    | st.sampled_from(["", "a", "red", "1", "1.5", "yes"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "name", "leaf", "weight", "branches"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(TYPES), PLAIN)
def test_what_is_refused_the_type_refuses(tp, value):
    response = response_of(tp)
    if misfit(response.describe(), value) is not None:
        with pytest.raises(ValueError, match=r"."):
            response.check(value)


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"type": "string", "minLength": 2}, "a", "expected a text of at least 2 characters, got 'a'"),
        ({"type": "string", "format": "date"}, 12, None),
        ({"type": "string", "format": "date"}, [], "expected a date, got []"),
        ({"type": "number", "minimum": 1}, 0, "expected a number of at least 1, got 0"),
        ({"type": "number", "maximum": 1}, 2, "expected a number of at most 1, got 2"),
        ({"type": "number", "exclusiveMinimum": 1}, 1, "expected a number above 1, got 1"),
        ({"type": "integer", "exclusiveMaximum": 1}, 1, "expected a whole number below 1, got 1"),
        ({"type": "integer"}, 1.5, "expected a whole number, got 1.5"),
        ({"type": "integer"}, "1.5", None),
        ({"type": "boolean"}, True, None),
        ({"type": "null"}, 0, "expected nothing (null), got 0"),
        ({"type": "array", "minItems": 1}, [], "expected a list of at least 1, got []"),
        ({"type": "array", "maxItems": 1}, [1, 2], "expected a list of at most 1, got [1, 2]"),
        ({"type": "array", "maxItems": 1, "uniqueItems": True}, [1, 1], None),
        ({"type": "array", "prefixItems": [{"type": "null"}]}, {}, None),
        ({"type": "array", "prefixItems": [{"type": "null"}]}, [1], "[0]: expected nothing (null), got 1"),
        ({"type": "array"}, "ab", "expected a list, got 'ab'"),
        ({"type": "object", "additionalProperties": False}, {"x": 1}, "an object without 'x'"),
        (
            {"type": "object", "properties": {"x": {"type": "object"}}},
            {"x": 1},
            "x: expected an object, got 1",
        ),
        ({"const": "a"}, "b", "expected one of 'a', got 'b'"),
        ({"enum": [1, 2]}, "1", None),
        ({"allOf": [{"type": "null"}]}, 1, "expected nothing (null), got 1"),
        ({"allOf": [{"type": "null"}]}, None, None),
        (
            {"oneOf": [{"type": "null"}, {"type": "array"}]},
            1,
            "expected nothing (null), got 1, or expected a list, got 1",
        ),
        ({"$ref": "#/$defs/gone"}, 1, None),
        ({"type": "null", UNSURE: True}, 1, None),
        ({"type": "null"}, object(), None),
        ({"type": "unheard-of"}, 1, None),
        ({"type": "string"}, list(range(60)), "...".join(["expected a text, got [0, 1", ""])[:26]),
    ],
)
def test_what_is_said_of_each_kind(schema, value, problem):
    found = misfit(schema, value)
    assert found is None if problem is None else found is not None and problem in found


def test_every_wrong_answer_is_named_and_the_first_is_the_error_s():
    schema = {"type": "null"}
    questions = [
        Interrupt("?", name, "n", (), key, "inside", schema) for name, key in (("i", "k"), ("j", None))
    ]
    questions.append(Interrupt("?", "free", "n"))
    check_answers(questions, {"free": 1})
    check_answers(questions, {"i": None, "j": None})
    with pytest.raises(InvalidAnswerError) as caught:
        check_answers(questions, {"i": 1, "j": 2, "free": 3})
    assert (caught.value.question_id, caught.value.expected, set(caught.value.problems)) == (
        "i",
        schema,
        {"i", "j"},
    )
    assert "key 'k'" in str(caught.value)
