"""From an annotation or a strategy to the channel of a key."""

import operator
import sys
import typing
from functools import partial
from typing import Annotated, Any, Generic, Literal, NotRequired, Required, TypeVar, get_type_hints

import pytest
import typing_extensions
from typing_extensions import ReadOnly, TypeAliasType, TypedDict

from juncture.channels import (
    AnyValue,
    Append,
    BinaryOperatorAggregate,
    Channel,
    DeltaChannel,
    EphemeralValue,
    IsLastStep,
    IsLastStepManager,
    LastValue,
    ManagedValue,
    Merge,
    MessagesState,
    NamedBarrierValue,
    RemainingSteps,
    RemainingStepsManager,
    Replace,
    Topic,
    add_messages,
    channel_for,
    channel_of,
    is_managed,
)
from juncture.channels.hints import bare
from juncture.errors import GraphBuildError

T = TypeVar("T")


class Generically(ManagedValue, Generic[T]):
    """A managed value of a user."""


class Adder:
    def __call__(self, old, new):
        return old + new


class AsyncAdder:
    async def __call__(self, old, new):
        return old + new


class Pair:
    def __init__(self, first, second):
        self.both = (first, second)


async def async_reducer(old, new):
    return new


async def async_generator(old, new):
    yield new


def generator(old, new):
    yield new


def flexible(old, new, _more=1, *_rest, _keyword=2):
    return new


def delta(state, writes):
    return state


Aliased = TypeAliasType("Aliased", Annotated[list[int], operator.add])


@pytest.mark.parametrize(
    "annotation",
    [
        int,
        list[int],
        int | None,
        Any,
        Annotated[int, "documented"],
        Annotated[int, operator.add, "documented"],
        NotRequired[int],
    ],
)
def test_a_field_that_says_nothing_has_no_channel(annotation):
    assert channel_of(annotation) == (bare(annotation)[0], None)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[list[int], operator.add],
        Annotated[list[int], "documented", operator.add],
        Required[Annotated[list[int], operator.add]],
        NotRequired[Annotated[list[int], operator.add]],
        ReadOnly[Annotated[list[int], operator.add]],
        Annotated[NotRequired[list[int]], operator.add],
        Annotated[NotRequired[Annotated[list[int], Append()]], operator.add],
        typing.NotRequired[Annotated[list[int], operator.add]],
        typing_extensions.Required[ReadOnly[Annotated[list[int], operator.add]]],
        Aliased,
        NotRequired[Aliased],
        Annotated[Aliased, "documented", operator.add],
    ],
    ids=str,
)
def test_the_last_item_is_the_reducer_whatever_is_wrapped_around_it(annotation):
    assert channel_of(annotation) == (list[int], BinaryOperatorAggregate(list[int], operator.add))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the statement is new in Python 3.12")
def test_names_given_by_a_type_statement_are_seen_through():
    names = {"Annotated": Annotated, "add": operator.add}
    exec("type Name = Annotated[list[int], add]", names)
    assert channel_of(names["Name"]) == (list[int], BinaryOperatorAggregate(list[int], operator.add))


def test_metadata_is_given_with_the_inner_first():
    assert bare(Annotated[NotRequired[Annotated[int, 1, 2]], 3]) == (int, (1, 2, 3))
    assert bare(int) == (int, ())


@pytest.mark.parametrize(
    "reducer",
    [max, min, operator.or_, operator.add, list.__add__, set.union, flexible, lambda *items: items, lambda a, b: a,
     Adder(), Adder().__call__, Pair, partial(flexible, _more=3), partial(flexible, 0), add_messages, add_messages(), int],
)  # fmt: skip
def test_every_callable_that_takes_old_and_new_is_a_reducer(reducer):
    _, channel = channel_of(Annotated[list, reducer])
    assert isinstance(channel, BinaryOperatorAggregate)
    assert channel.operator == reducer
    assert channel_for(reducer).operator == reducer


@pytest.mark.parametrize(
    ("reducer", "given"),
    [
        (lambda: 0, r"Got .*<lambda>\(\)"),
        (lambda old: old, r"Got .*<lambda>\(old\)"),
        (lambda old, new, _more: old, r"\(old, new, _more\)"),
        (lambda old, *, new: old, r"\(old, \*, new\)"),
        (partial(lambda old, new: old, 1, 2), r"Got functools.partial.*\(\)"),
        (async_reducer, "which is async or a generator"),
        (partial(async_reducer), "which is async or a generator"),
        (AsyncAdder(), "which is async or a generator"),
        (async_generator, "which is async or a generator"),
        (generator, "which is async or a generator"),
    ],
)
def test_what_can_not_take_old_and_new_is_refused(reducer, given):
    with pytest.raises(
        GraphBuildError, match=r"Invalid reducer signature\. Expected \(a, b\) -> c\. .*" + given
    ):
        channel_of(Annotated[list, reducer])
    with pytest.raises(ValueError, match="Invalid reducer signature"):
        channel_for(reducer)


def test_a_strategy_that_is_no_callable_is_refused():
    with pytest.raises(GraphBuildError, match="Got 'append', which isn't callable"):
        channel_for("append")


@pytest.mark.parametrize("strategy", [Append, Merge])
def test_strategies_may_be_given_as_the_class(strategy):
    assert channel_of(Annotated[list, strategy])[1] == BinaryOperatorAggregate(list, strategy())
    assert channel_for(strategy) == channel_for(strategy())


@pytest.mark.parametrize("strategy", [Replace, Replace()])
def test_replace_is_what_a_key_without_a_reducer_does(strategy):
    assert channel_of(Annotated[int, strategy]) == (int, LastValue(int))
    assert channel_for(strategy) == LastValue()


# ── channels in annotations ──────────────────────────────────────────────────────────────────────────────────


def test_any_item_may_be_a_channel():
    channel = EphemeralValue(str)
    assert channel_of(Annotated[int, channel])[1] is channel
    assert channel_of(Annotated[int, "documented", channel, operator.add])[1] is channel
    assert channel_for(channel) is channel


@pytest.mark.parametrize("kind", [LastValue, EphemeralValue, AnyValue, Topic])
def test_a_class_of_channels_is_made_with_the_type_of_the_field(kind):
    assert channel_of(Annotated[list[int], kind, "documented"]) == (list[int], kind(list[int]))


@pytest.mark.parametrize("kind", [BinaryOperatorAggregate, DeltaChannel, NamedBarrierValue])
def test_a_class_of_channels_that_needs_more_is_refused(kind):
    with pytest.raises(
        GraphBuildError, match=rf"Put an instance there: Annotated\[type, {kind.__name__}\(…\)\]"
    ):
        channel_of(Annotated[list[int], kind])


def test_a_delta_channel_takes_the_type_of_the_field_unless_it_has_one():
    bare_delta, typed = DeltaChannel(delta, snapshot_frequency=5), DeltaChannel(delta, dict)
    assert channel_of(Annotated[set[int], bare_delta])[1] == DeltaChannel(
        delta, set[int], snapshot_frequency=5
    )
    assert channel_of(Annotated[Any, bare_delta])[1] is bare_delta
    assert channel_of(Annotated[list[int], typed])[1] is typed
    with pytest.raises(GraphBuildError, match="called without arguments"):
        channel_of(Annotated[list | None, bare_delta])


def test_lenient_channels_follow_langgraph():
    assert channel_of(Annotated[int, max], lenient=True)[1] == BinaryOperatorAggregate(int, max, lenient=True)
    own = BinaryOperatorAggregate(int, max)
    assert channel_of(Annotated[int, own], lenient=True)[1] == BinaryOperatorAggregate(int, max, lenient=True)
    assert not own.lenient
    loose = BinaryOperatorAggregate(int, max, lenient=True)
    assert channel_of(Annotated[int, loose], lenient=True)[1] is loose
    assert channel_of(Annotated[int, loose])[1] is loose
    assert channel_for(DeltaChannel(delta), list, lenient=True) == DeltaChannel(delta, list, lenient=True)
    assert channel_for(max, int, lenient=True).initial() == 0
    assert channel_of(Annotated[int, Topic], lenient=True)[1] == Topic(int)


# ── managed values ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_last_item_may_be_a_managed_value():
    assert channel_of(IsLastStep) == (bool, IsLastStepManager)
    assert channel_of(NotRequired[RemainingSteps]) == (int, RemainingStepsManager)
    assert channel_of(Annotated[int, operator.add, RemainingStepsManager]) == (int, RemainingStepsManager)
    assert channel_of(Annotated[int, Generically[int]]) == (int, Generically)
    assert channel_of(Annotated[int, IsLastStepManager, "documented"]) == (int, None)


@pytest.mark.parametrize("marker", [int, list[int], "IsLastStep", None, operator.add, Literal["a"]])
def test_nothing_else_is_a_managed_value(marker):
    assert not is_managed(marker)
    assert is_managed(IsLastStepManager)


def test_what_managed_values_show():
    assert [IsLastStepManager.value(remaining) for remaining in (3, 2, 1)] == [False, False, True]
    assert [RemainingStepsManager.value(remaining) for remaining in (3, 2, 1)] == [3, 2, 1]
    with pytest.raises(NotImplementedError, match="override value"):
        Generically.value(1)


# ── whole schemas ────────────────────────────────────────────────────────────────────────────────────────────


class State(TypedDict):
    plain: int
    log: Annotated[list[str], operator.add]
    seen: NotRequired[Annotated[set[int], operator.or_]]
    last: IsLastStep


def test_a_schema_with_resolved_hints():
    hints = get_type_hints(State, include_extras=True)
    assert {name: channel_of(hint) for name, hint in hints.items()} == {
        "plain": (int, None),
        "log": (list[str], BinaryOperatorAggregate(list[str], operator.add)),
        "seen": (set[int], BinaryOperatorAggregate(set[int], operator.or_)),
        "last": (bool, IsLastStepManager),
    }


def test_messages_state_merges_messages():
    (hint,) = get_type_hints(MessagesState, include_extras=True).values()
    typ, channel = channel_of(hint)
    assert typ == list[Any]
    assert isinstance(channel, Channel)
    assert channel.update(channel.initial(), ["hi"])[0]["content"] == "hi"
