"""The keys of several schemas together, and managed values where they don't belong."""

import operator
from typing import Annotated, TypedDict

import pytest

from juncture.channels.ephemeral import EphemeralValue
from juncture.channels.last_value import LastValue
from juncture.channels.managed import IsLastStep, RemainingSteps
from juncture.channels.reduced import BinaryOperatorAggregate
from juncture.channels.strategies import Append, Merge
from juncture.errors import GraphBuildError
from juncture.graph.schema import read_schema, refuse_managed, union_of_keys


def first(old, new):
    return old


one, other = (lambda old, new: new), (lambda old, new: new)


def schema(annotation, *, strict=True):
    return read_schema(TypedDict("State", {"key": annotation}), strict=strict)


def union(*annotations, strict=True):
    """The channel or managed value of the one key that all the annotations are for."""
    named = [(f"schema {n}", schema(a, strict=strict)) for n, a in enumerate(annotations)]
    field = union_of_keys(named, strict=strict)["key"]
    return field.managed or field.channel


def test_keys_come_in_order_of_first_declaration():
    class State(TypedDict):
        b: int
        a: int

    class Input(TypedDict):
        a: str
        c: int

    state, given = read_schema(State), read_schema(Input)
    keys = union_of_keys([("state", state), ("input", given)])
    assert list(keys) == ["b", "a", "c"]
    assert keys["a"] is state.fields["a"]
    assert keys["c"] is given.fields["c"]
    assert union_of_keys([]) == {}


ADD = BinaryOperatorAggregate(list[int], operator.add)
ADDED = Annotated[list[int], operator.add]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ((int, str), LastValue(int)),
        ((ADDED, ADDED), ADD),
        ((ADDED, list[int]), ADD),
        ((ADDED, str, ADDED), ADD),
        ((ADDED, Annotated[list, operator.add]), ADD),
        ((Annotated[list, Append()], Annotated[list, Append()]), BinaryOperatorAggregate(list, Append())),
        ((Annotated[int, first], Annotated[int, first]), BinaryOperatorAggregate(int, first)),
        ((Annotated[int, one], Annotated[int, one]), BinaryOperatorAggregate(int, one)),
        ((Annotated[int, EphemeralValue], Annotated[int, EphemeralValue(int)]), EphemeralValue(int)),
        ((RemainingSteps, RemainingSteps), RemainingSteps.__metadata__[0]),
        ((RemainingSteps, int), RemainingSteps.__metadata__[0]),
    ],
)
def test_declarations_that_agree(annotations, expected):
    assert union(*annotations) == expected


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ((int, ADDED), ("LastValue in schema 0", "reducer add in schema 1")),
        ((ADDED, Annotated[list[int], first]), ("reducer add in schema 0", "reducer first in schema 1")),
        (
            (ADDED, list, Annotated[list[int], first]),
            ("reducer add in schema 0", "reducer first in schema 2"),
        ),
        ((ADDED, Annotated[int, operator.add]), ("reducer add in schema 0", "reducer add in schema 1")),
        (
            (Annotated[list, Append()], Annotated[list, Append(distinct=True)]),
            ("Append(distinct=False)", "Append(distinct=True)"),
        ),
        ((Annotated[int, one], Annotated[int, other]), ("<lambda> in schema 0", "<lambda> in schema 1")),
        ((Annotated[int, one], Annotated[int, first]), ("<lambda> in schema 0", "first in schema 1")),
        ((Annotated[dict, Merge()], Annotated[dict, EphemeralValue]), ("Merge()", "EphemeralValue")),
        (
            (Annotated[int, EphemeralValue], Annotated[int, EphemeralValue(int, guard=False)]),
            ("EphemeralValue in schema 0", "EphemeralValue in schema 1"),
        ),
        ((RemainingSteps, IsLastStep), ("the managed value RemainingStepsManager", "IsLastStepManager")),
        ((int, RemainingSteps), ("LastValue", "the managed value RemainingStepsManager")),
        ((RemainingSteps, ADDED), ("the managed value RemainingStepsManager", "reducer add")),
    ],
)
def test_declarations_that_contradict_each_other(annotations, told):
    with pytest.raises(GraphBuildError, match="Channel 'key' already exists with a different type") as caught:
        union(*annotations)
    assert caught.value.key == "key"
    for part in told:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "annotations",
    [
        (Annotated[int, one], Annotated[int, other]),
        (Annotated[int, one], Annotated[int, first]),
        (Annotated[int, first], Annotated[int, one]),
        (ADDED, Annotated[set, operator.add]),
    ],
)
def test_lenient_takes_lambdas_for_equal_to_any_reducer_and_ignores_types(annotations):
    reducer = annotations[0].__metadata__[0]
    assert union(*annotations, strict=False).operator is reducer


def test_lenient_still_refuses_two_named_reducers():
    with pytest.raises(GraphBuildError, match="already exists with a different type"):
        union(ADDED, Annotated[list[int], first], strict=False)


def test_managed_values_are_refused_in_input_and_output():
    class State(TypedDict):
        a: int
        last: IsLastStep
        left: RemainingSteps

    refuse_managed(schema(int), "input")
    with pytest.raises(
        GraphBuildError, match="Invalid managed channels detected in State: last, left"
    ) as caught:
        refuse_managed(read_schema(State), "input")
    assert "can't be part of the input schema" in str(caught.value)
    assert caught.value.key == "last"
