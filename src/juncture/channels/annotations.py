"""From a field's annotation, or a key's strategy, to its channel.

In this order: the last item of the metadata is a managed value; any item is a channel, or a class of channels (then
made with the field's type); the last item is callable, and so a reducer. Otherwise the key keeps the last value.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, get_origin

from juncture.channels.base import Channel
from juncture.channels.delta import DeltaChannel
from juncture.channels.hints import bare
from juncture.channels.last_value import LastValue
from juncture.channels.managed import ManagedValue, is_managed
from juncture.channels.reduced import BinaryOperatorAggregate
from juncture.channels.strategies import Append, Merge, Replace
from juncture.errors import GraphBuildError


def channel_of(annotation: Any, *, lenient: bool = False) -> tuple[Any, Channel | type[ManagedValue] | None]:
    """The type that is annotated, and how its key is stored; None where nothing is said about that.

    Args:
        annotation: With its extras, as ``get_type_hints(…, include_extras=True)`` gives it.
        lenient: Make channels that follow LangGraph where it differs.

    Raises:
        GraphBuildError: The reducer can't take (old, new), or a class of channels needs more than the type.

    Source:
        LangGraph 1.2.24, which takes only reducers whose signature can be read and has two positional parameters.
    """
    typ, metadata = bare(annotation)
    if not metadata:
        return typ, None
    last = metadata[-1]
    if is_managed(last):
        return typ, get_origin(last) or last
    for item in metadata:
        if isinstance(item, Channel):
            return typ, _adapted(item, typ, lenient=lenient)
        if inspect.isclass(item) and issubclass(item, Channel):
            return typ, _made(item, typ)
    return typ, channel_for(last, typ, lenient=lenient) if callable(last) else None


def channel_for(strategy: Channel | Callable[..., Any], typ: Any = Any, *, lenient: bool = False) -> Channel:
    """The channel of a key whose strategy is given: a reducer, `Replace`, or a channel.

    `Replace` keeps the last value and takes one write a step. `Append`, `Merge` and `Replace` may be given as the
    class.

    Raises:
        GraphBuildError: It can't be called with (old, new).
    """
    if isinstance(strategy, Channel):
        return _adapted(strategy, typ, lenient=lenient)
    if strategy in (Append, Merge, Replace):
        strategy = strategy()
    if isinstance(strategy, Replace):
        return LastValue(typ)
    _check_reducer(strategy)
    return BinaryOperatorAggregate(typ, strategy, lenient=lenient)


def _adapted(channel: Channel, typ: Any, *, lenient: bool) -> Channel:
    """The channel, or a copy that knows the field's type and the graph's leniency."""
    if isinstance(channel, DeltaChannel) and channel.typ is None and typ is not Any:
        channel = channel.typed(typ)
    if lenient and isinstance(channel, (DeltaChannel, BinaryOperatorAggregate)) and not channel.lenient:
        channel = copy.copy(channel)
        channel.lenient = True
    return channel


def _made(kind: type[Channel], typ: Any) -> Channel:
    try:
        return kind(typ=typ)
    except TypeError as error:
        raise GraphBuildError(
            f"{kind.__name__} in an annotation needs more than the field's type ({error}). "
            f"Put an instance there: Annotated[type, {kind.__name__}(…)]"
        ) from error


def _check_reducer(reducer: Any) -> None:
    """Refuses what can't be called with (old, new); what can't be looked into passes."""
    if not callable(reducer):
        raise GraphBuildError(
            f"Invalid reducer signature. Expected (a, b) -> c. Got {reducer!r}, which isn't callable"
        )
    for code in (reducer, reducer.__call__):
        if (
            inspect.iscoroutinefunction(code)
            or inspect.isgeneratorfunction(code)
            or inspect.isasyncgenfunction(code)
        ):
            raise GraphBuildError(
                f"Invalid reducer signature. Expected (a, b) -> c. Got {reducer!r}, which is async or a generator: "
                "what it returns can't be part of the state"
            )
    try:
        signature = inspect.signature(reducer)
    except (TypeError, ValueError):  # a builtin such as max
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise GraphBuildError(
            f"Invalid reducer signature. Expected (a, b) -> c. Got {getattr(reducer, '__qualname__', reducer)}{signature}"
        ) from None
