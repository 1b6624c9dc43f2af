"""How one key of the state is stored and merged. Pure: no I/O, no clock, no threads.

`base` has the contract, `reduced` the rules of reducers, `strategies` and `messages` ready-made reducers, and
`annotations` makes the channel of a field.
"""

from juncture.channels.annotations import channel_for, channel_of
from juncture.channels.barrier import NamedBarrierValue, NamedBarrierValueAfterFinish
from juncture.channels.base import Channel, Reducer
from juncture.channels.delta import DeltaChannel
from juncture.channels.ephemeral import AnyValue, EphemeralValue
from juncture.channels.last_value import LastValue, LastValueAfterFinish
from juncture.channels.managed import (
    IsLastStep,
    IsLastStepManager,
    ManagedValue,
    RemainingSteps,
    RemainingStepsManager,
    is_managed,
)
from juncture.channels.messages import (
    REMOVE_ALL_MESSAGES,
    MessagesState,
    RemoveMessage,
    add_messages,
    identified,
)
from juncture.channels.reduced import BinaryOperatorAggregate, fold
from juncture.channels.strategies import Append, Merge, Remove, Replace, ReplaceAll, is_pure
from juncture.channels.topic import Topic
from juncture.channels.untracked import UntrackedValue

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AnyValue",
    "Append",
    "BinaryOperatorAggregate",
    "Channel",
    "DeltaChannel",
    "EphemeralValue",
    "IsLastStep",
    "IsLastStepManager",
    "LastValue",
    "LastValueAfterFinish",
    "ManagedValue",
    "Merge",
    "MessagesState",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Reducer",
    "RemainingSteps",
    "RemainingStepsManager",
    "Remove",
    "RemoveMessage",
    "Replace",
    "ReplaceAll",
    "Topic",
    "UntrackedValue",
    "add_messages",
    "channel_for",
    "channel_of",
    "fold",
    "identified",
    "is_managed",
    "is_pure",
]
