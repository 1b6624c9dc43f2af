"""`OverAllState`: the state as one object, for nodes and routers that ask for it, and for tests and inputs.

1. It is a mapping that can't be assigned to. A node changes the state by what it returns; nothing here changes a run.
2. A state that a user makes holds copies of what it is given. The one that the engine hands out (`StateView`) copies a
   key's containers when the key is first read, so a node pays for what it reads, and never for what it doesn't.
3. What is handed out stays as it was: later steps don't show in it, and threads may share it without a lock, since
   the first of two that read a key at once gives both its copy.
4. Wherever a state crosses into a run (an update, a `Send`, the result of a task) it becomes a plain dict.
5. Equality is that of mappings: strategies and the store have no part in it.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    overload,
)

from typing_extensions import is_typeddict

from juncture.channels import BinaryOperatorAggregate, LastValue, Replace, channel_for
from juncture.channels.base import Channel, Reducer
from juncture.drivers.context import CURRENT
from juncture.engine.tables import Key, Tables
from juncture.engine.values import CONTAINERS, admitted, copied
from juncture.errors import ConfigError, GraphBuildError, InvalidUpdateError, note
from juncture.graph.schema_base import NOTHING_SET, Snapshot
from juncture.types import MARK_FOR_REMOVAL, MISSING, START

T = TypeVar("T")
D = TypeVar("D")
Strategy = Reducer | Channel

_SHOWN_KEYS: Final = 20
_SHOWN_NAME: Final = 40


@dataclass(frozen=True, slots=True)
class Rules:
    """How the keys of a state are merged."""

    channels: Mapping[str, Channel]
    default: Channel | None
    """Of every other key; None where there are no others, because a schema names them all."""
    registered: frozenset[str] = frozenset()
    """The keys whose strategy a user gave to the state itself."""

    @classmethod
    def given(cls, strategies: Mapping[str, Strategy] | None) -> Rules:
        """Rules from strategies that a user gives."""
        channels = {
            name: _channel(name, strategy) for name, strategy in strategies_by_key(strategies).items()
        }
        return cls(channels, LastValue(Any), frozenset(channels))

    @classmethod
    def of(cls, keys: Mapping[str, Key], open_key: Callable[[str], Key] | None) -> Rules:
        """The rules of a compiled graph: of its `Tables.keys` and `Tables.open_key`."""
        default = open_key("").channel if open_key is not None else None
        return cls({name: key.channel for name, key in keys.items()}, default)

    def with_strategy(self, key: str, strategy: Strategy) -> Rules:
        """The same with another strategy for one key."""
        new = Rules.given({key: strategy})
        return Rules({**self.channels, **new.channels}, self.default, self.registered | new.registered)

    @property
    def strategies(self) -> dict[str, Strategy]:
        """Key → strategy, as users give them."""
        return {name: _strategy(channel) for name, channel in self.channels.items()}

    def channel(self, key: Any) -> Channel:
        """How a key is merged.

        Raises:
            InvalidUpdateError: There is no such key.
        """
        if not isinstance(key, str):
            raise InvalidUpdateError(
                f"the update has the key {key!r}, a {type(key).__name__}; keys are strings"
            )
        channel = self.channels.get(key, self.default)
        if channel is None:
            raise InvalidUpdateError(
                f"the update has the key {key!r}, which the state doesn't have.{_near(key, self.channels)} "
                f"Declared keys: {', '.join(sorted(self.channels))}",
                key=key,
            )
        return channel


def strategies_by_key(given: Mapping[str, Strategy] | None) -> dict[str, Strategy]:
    """A copy of what a user gives as ``key_strategies=``.

    Raises:
        GraphBuildError: It isn't a mapping from strings.
    """
    if not isinstance(given, Mapping | None):
        raise GraphBuildError(
            f"key_strategies is a mapping from keys to strategies, got {given!r}. If that makes one, call it: "
            "key_strategies=strategies()"
        )
    for key in given or ():
        if not isinstance(key, str):
            raise GraphBuildError(
                f"key_strategies has the key {key!r}, a {type(key).__name__}; keys are strings"
            )
    return dict(given or {})


def _channel(key: str, strategy: Strategy) -> Channel:
    try:
        return channel_for(strategy)
    except GraphBuildError as error:
        error.key = key
        note(error, f"juncture: in the strategy for key {key!r}")
        raise


def _strategy(channel: Channel) -> Strategy:
    if type(channel) is LastValue:
        return Replace()
    return channel.operator if isinstance(channel, BinaryOperatorAggregate) else channel


def _told(strategy: Strategy) -> str:
    return getattr(strategy, "__qualname__", None) or repr(strategy)


def _near(key: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(key, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class OverAllState(Mapping[str, Any]):
    """The state as one read-only mapping.

    A node or router that annotates its first parameter with this class is handed one, whatever the graph's schema is::

        def answer(state: OverAllState) -> dict[str, Any]:
            return {"total": state.value("total", int, default=0) + 1}

    It shows the keys of the node's ``input_schema=``, else (and to routers) those of the graph's state; keys without a
    value are absent, also where a class has a default for them. Lists, dicts and sets in it are the node's own copies.

    One that you make yourself is good as an input, to call a node in a test, and to try strategies with `update`.

    Args:
        values: What it holds. Containers are copied.
        key_strategies: How `update` merges some keys: key → reducer or channel, as for `StateGraph`. For every other key
            the new value replaces the old.
        store: What `store` gives.

    Raises:
        GraphBuildError: A strategy can't be called with (old, new).
        InvalidUpdateError: A key isn't a string, or a value is a stream, future, coroutine or generator.

    Source:
        Spring AI Alibaba's OverAllState, which is mutable, isn't safe to share, and holds the strategies that count.
    """

    __slots__ = ("_rules", "_store", "_values")

    MARK_FOR_REMOVAL: ClassVar = MARK_FOR_REMOVAL
    """Written to a key, it removes the key."""

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        key_strategies: Mapping[str, Strategy] | None = None,
        store: Any = None,
    ) -> None:
        """See the class."""
        _check_mapping("values", {} if values is None else values)
        self._rules = Rules.given(key_strategies)
        self._values = {_checked(key): _admitted(key, value) for key, value in (values or {}).items()}
        self._store = store

    # ---- reading

    @overload
    def value(self, key: str) -> Any: ...
    @overload
    def value(self, key: str, type: type[T]) -> T: ...
    @overload
    def value(self, key: str, type: type[T], default: D) -> T | D: ...
    @overload
    def value(self, key: str, type: Any = None, default: Any = MISSING) -> Any: ...
    def value(self, key: str, type: Any = None, default: Any = MISSING) -> Any:  # noqa: A002 - what it is, for whoever writes type=int
        """The value of a key, checked.

        Args:
            key: The key.
            type: A class, a union, or a tuple of classes that the value must be an instance of. Of a generic type
                such as ``list[int]`` only the class is checked. None checks nothing.
            default: What is given where the key is absent; it isn't checked. A key that holds ``None`` isn't absent.

        Raises:
            KeyError: The key is absent and there is no default.
            TypeError: The value isn't of that type; `type` isn't one.
        """
        classes = None if type is None else _classes(type)
        if key not in self._values:
            if default is MISSING:
                raise KeyError(
                    f"the state has no value for key {key!r}.{_near(key, self._values)} Give a default= if it may be absent"
                )
            return default
        found = self[key]
        if classes is not None and not isinstance(found, classes):
            raise TypeError(
                f"key {key!r} of the state holds a value of type {found.__class__.__qualname__}, not {_type_told(type)}"
            )
        return found

    @property
    def data(self) -> Mapping[str, Any]:
        """All keys with their values, read-only; containers in it are the very ones that ``state[key]`` gives."""
        return types.MappingProxyType(self._values)

    def contains(self, key: str) -> bool:
        """Whether the key has a value, ``None`` included; the same as ``key in state``."""
        return key in self._values

    def snapshot(self) -> OverAllState:
        """A state of its own with the values of this moment: no later change in place shows in it.

        It has the same strategies, and others may be registered with it.
        """
        return self._with(copied(self._now()))

    @property
    def key_strategies(self) -> Mapping[str, Strategy]:
        """Key → how it is merged, read-only. Of a state that was handed out: the graph's, `Replace` for plain keys."""
        return types.MappingProxyType(self._rules.strategies)

    @property
    def store(self) -> Any:
        """The long-term store, None if there is none. Of a state that was handed out: that of the run."""
        return self._store

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    # ---- strategies

    def register(self, key: str, strategy: Strategy) -> OverAllState:
        """Sets how `update` merges a key, and gives this state back.

        It is for states that you make yourself. A run goes by the strategies of its graph: as an input, a state with
        other ones than the graph's is refused.

        Raises:
            GraphBuildError: The strategy can't be called with (old, new).
            TypeError: The state was handed out by a run, whose strategies can't change.
        """
        self._rules = self._rules.with_strategy(key, strategy)
        return self

    @staticmethod
    def update(
        state: Mapping[str, Any],
        partial: Mapping[str, Any],
        strategies: Mapping[str, Strategy] | None = None,
    ) -> OverAllState:
        """What an update makes of a state, as a new state. All of it is applied, or nothing; no run is changed.

        Marks count as they do when a node returns them: `MARK_FOR_REMOVAL`, `Overwrite`, and for `Append` keys `Remove`
        and `ReplaceAll`. ``None`` is a value. Nothing is validated by a schema.

        Args:
            state: A state or any mapping; it isn't changed.
            partial: The keys to write.
            strategies: How keys are merged, instead of the state's own strategies; every other key is replaced.

        Raises:
            InvalidUpdateError: An update that can't be merged, or with a key that the state's schema doesn't have.
            GraphBuildError: A strategy can't be called with (old, new).
            Exception: What a strategy raised, with a note that names the key.
        """
        _check_mapping("state", state)
        _check_mapping("update", partial)
        of = state if isinstance(state, OverAllState) else OverAllState(state)
        rules = of._rules if strategies is None else Rules.given(strategies)
        values = of._now()
        changed = dict(values)
        for key, write in partial.items():
            channel = rules.channel(key)
            try:
                new = _merged(channel, values.get(key, MISSING), write)
            except Exception as error:
                if isinstance(error, InvalidUpdateError):
                    error.key = error.key or key
                note(error, f"juncture: while merging what was written to key {key!r}; nothing was applied")
                raise
            if new is MISSING:
                changed.pop(key, None)
            else:
                changed[key] = new
        made = of._with(copied(changed))
        made._rules = rules
        return made

    # ---- as a value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OverAllState):
            return self._now() == other._now()
        return (
            self._now() == dict(cast("Mapping[str, Any]", other))
            if isinstance(other, Mapping)
            else NotImplemented
        )

    __hash__: ClassVar[None] = None

    def __repr__(self) -> str:
        """Keys, types and sizes: values may be long, or not meant for a log."""
        now = self._now()
        parts = [f"{_short(name)}: {_kind(value)}" for name, value in list(now.items())[:_SHOWN_KEYS]]
        if len(now) > _SHOWN_KEYS:
            parts.append(f"… {len(now) - _SHOWN_KEYS} more")
        return f"OverAllState({', '.join(parts)})"

    def __copy__(self) -> OverAllState:
        return self.snapshot()

    def __deepcopy__(self, memo: dict[int, Any]) -> OverAllState:
        return self._with(copy.deepcopy(self._now(), memo))

    def __reduce__(self) -> tuple[Any, ...]:
        """The values and the strategies, which have to be picklable themselves; the store stays behind."""
        rules = self._rules
        default = None if rules.default is None else _strategy(rules.default)
        return OverAllState, (), (self._now(), rules.strategies, default, rules.registered)

    def __setstate__(
        self, state: tuple[dict[str, Any], dict[str, Strategy], Strategy | None, frozenset[str]]
    ) -> None:
        self._values, strategies, default, registered = state
        channels = Rules.given(strategies).channels
        self._rules = Rules(channels, None if default is None else channel_for(default), registered)

    def _now(self) -> dict[str, Any]:
        """The values with what was changed in them in place. Not to be changed, nor handed on uncopied."""
        return self._values

    def _with(self, values: dict[str, Any]) -> OverAllState:
        """A state of its own with these values, which it keeps, and the strategies and store of this one."""
        made = OverAllState(store=self.store)
        made._rules = self._rules
        made._values = values
        return made


class StateView(OverAllState):
    """An `OverAllState` that the engine hands out."""

    __slots__ = ("_copies", "_task")

    def __init__(self, values: dict[str, Any], rules: Rules, *, shared: bool = False) -> None:
        """A view of values that are copied when they are read; shared: of the values themselves.

        Args:
            values: Taken over: a dict of nobody else, with the committed values in it.
            rules: The graph's.
            shared: Hand out the values themselves.
        """
        self._values = values
        self._rules = rules
        self._copies: dict[str, Any] = values if shared else {}
        # In the context of whoever asked for it, which a thread that it is given to needn't have.
        self._task = CURRENT.get(None)

    def __getitem__(self, key: str) -> Any:
        copies = self._copies
        if key in copies:
            return copies[key]
        return copies.setdefault(key, copied(self._values[key]))

    @property
    def data(self) -> Mapping[str, Any]:
        """See `OverAllState.data`."""
        return types.MappingProxyType({key: self[key] for key in self._values})

    @property
    def store(self) -> Any:
        """See `OverAllState.store`."""
        return None if self._task is None else self._task.store

    def register(self, key: str, strategy: Strategy) -> NoReturn:
        """Raises `TypeError`: the run has its strategies."""
        raise TypeError(
            f"the strategy of key {key!r} can't be changed here: this state was handed out by a run, which goes by the "
            "strategies that its graph was compiled with. Give it to StateGraph(key_strategies=…), or register it with a "
            "snapshot() to try something out"
        )

    def _now(self) -> dict[str, Any]:
        return {**self._values, **self._copies}

    def remembered(self, committed: Mapping[str, Any]) -> Snapshot:
        """What tells later which of the values that a node returns were handed out; see `Schema.snapshot`."""
        return self._copies, committed, NOTHING_SET


def _check_mapping(what: str, given: Any) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"OverAllState takes the {what} as a mapping, got a {type(given).__name__}")


def _checked(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise InvalidUpdateError(
        f"a state is made with the key {key!r}, a {type(key).__name__}; keys are strings"
    )


def _admitted(key: str, value: Any) -> Any:
    try:
        return admitted(value)
    except InvalidUpdateError as error:
        error.key = key
        note(error, f"juncture: in the value of key {key!r}")
        raise


def _merged(channel: Channel, old: Any, write: Any) -> Any:
    """What one write makes of a value; `MISSING` if it removes it."""
    if not channel.plain:
        raise InvalidUpdateError(
            f"a {type(channel).__name__} stores something else than it shows, so only a run can merge a write to it"
        )
    new = channel.update(old if channel.pure else copied(old), [admitted(write)])
    return MISSING if new is MISSING or new is MARK_FOR_REMOVAL else admitted(new)


def _classes(tp: Any) -> tuple[type, ...]:
    """The classes that a type stands for in `isinstance`."""
    origin = get_origin(tp)
    if isinstance(tp, tuple) or origin is Union or origin is types.UnionType:
        parts = cast("tuple[Any, ...]", tp if isinstance(tp, tuple) else get_args(tp))
        return tuple(cls for part in parts for cls in _classes(part))
    if origin is Annotated:
        return _classes(get_args(tp)[0])
    if tp is None:
        return (type(None),)
    if tp is Any:
        return (object,)
    cls = origin or tp
    if not isinstance(cls, type):
        raise TypeError(
            f"value() takes a type as its second argument, got {tp!r}, a {type(tp).__name__}. For a default write default=…"
        )
    return (dict if is_typeddict(cls) else cls,)


def _type_told(tp: Any) -> str:
    return tp.__qualname__ if isinstance(tp, type) and get_origin(tp) is None else str(tp)


def _short(name: str) -> str:
    name = name if name.isprintable() else repr(name)[1:-1]  # a line of a log stays one line
    return name if len(name) <= _SHOWN_NAME else f"{name[: _SHOWN_NAME - 1]}…"


def _kind(value: Any) -> str:
    kind = type(value).__name__
    is_long = isinstance(value, (str, bytes)) or (type(value) in CONTAINERS and isinstance(value, Sized))
    return f"{kind}[{len(cast('Sized', value))}]" if is_long else kind


def check_input(state: OverAllState, tables: Tables) -> None:
    """Makes sure that what was registered with a state is how the graph merges that it is the input of.

    Raises:
        ConfigError: It isn't, so it would have no effect. Nothing was run.
    """
    own = state._rules  # pyright: ignore[reportPrivateUsage] - a part of the class, kept out of its face
    theirs = Rules.of(tables.keys, tables.open_key)
    for name in sorted(own.registered):
        mine, channel = _strategy(own.channels[name]), theirs.channels.get(name, theirs.default)
        if channel is None or mine != _strategy(channel):
            is_there = "doesn't have" if channel is None else f"merges with {_told(_strategy(channel))}"
            raise ConfigError(
                f"the state given as the input has {_told(mine)} registered for key {name!r}, which the graph "
                f"{is_there}. The graph's strategies are those that count: give it to StateGraph(key_strategies=…), or "
                "register nothing with an input",
                node=START,
                key=name,
            )


def _plain(state: OverAllState) -> dict[str, Any]:
    return admitted(state._now())  # pyright: ignore[reportPrivateUsage] - a part of the class, kept out of its face


# What crosses into a run is copied by its class; a state comes out as a plain dict. Nothing of it is needed before
# there are states, and `engine` can't name them.
CONTAINERS[OverAllState] = _plain
CONTAINERS[StateView] = _plain
