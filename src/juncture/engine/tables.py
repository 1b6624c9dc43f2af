"""What `compile()` knows about a graph, laid out for the loop.

Everything that can be decided before a run is decided here once: successors, joins, projections of the state, which
parameters a node wants, how each key merges. A `Tables` is immutable after compile and shared by any number of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from juncture.channels.base import Channel, Reducer
from juncture.channels.managed import ManagedValue
from juncture.engine.values import Flat
from juncture.types import CachePolicy, RetryPolicy, TimeoutPolicy


class Project(Protocol):
    """Makes what a node is handed from the committed values: its keys, copied, in the type it wants."""

    def __call__(self, values: dict[str, Any], flat: Flat | None = None, /) -> Any:
        """``flat`` is the state's, for `juncture.engine.values.copied_values`."""
        ...


LAST: Final = 0
"""A key that takes at most one write a step; it is the new value."""
REDUCE: Final = 1
"""A key whose writes are folded by a function of (old, new)."""
CHANNEL: Final = 2
"""A key whose writes are merged as its channel says."""


class _EveryKey(Container[str]):
    def __contains__(self, name: object) -> bool:
        return True


EVERY_KEY: Final = _EveryKey()
"""Holds every key."""


@dataclass(slots=True, eq=False)
class Key:
    """One key of the state."""

    name: str
    merge: int
    """`LAST`, `REDUCE` or `CHANNEL`."""
    channel: Channel
    reducer: Reducer | None = None
    pure: bool = True
    """The reducer never changes or keeps the old value, so it is handed the committed one itself."""
    required: bool = False
    """Its schema, which is validated, demands it: it can't be removed."""
    identify: Callable[[Any, str], Any] | None = None
    """Gives items that are written without an id one that no other task's items have; takes the write and a place."""
    validate: Callable[[Any], Any] | None = None
    """Checks and coerces a write of a key without a reducer."""
    validate_merged: Callable[[Any, Any, Any], Any] | None = None
    """Checks and coerces (old, writes, merged) of a key with one."""


SYNC: Final = 0
ASYNC: Final = 1
GENERATOR: Final = 2
ASYNC_GENERATOR: Final = 3
GRAPH: Final = 4
"""A nested graph: no code of its own, the driver steps its program."""
ENTRY: Final = 5
"""The virtual node `START`: no code, only routes."""
FACTORY: Final = 6
"""Not known yet: a run makes the node's action, and so its kind, when it first needs it."""


@dataclass(slots=True, eq=False)
class Router:
    """A conditional edge of one node."""

    name: str
    call: Callable[..., Any]
    kind: int
    """`SYNC` or `ASYNC`."""
    project: Project
    inject: Mapping[str, str]
    managed: Mapping[str, type[ManagedValue]]
    targets: Mapping[Any, str] | None
    """What the router may return, and the node each stands for; None for any node's name."""
    default: str | None = None
    """Where an empty result leads; None for nowhere."""
    reads: frozenset[str] | None = None
    """The keys that it is handed; None where that may be any."""


@dataclass(slots=True, eq=False)
class Join:
    """An edge from several nodes into one, which waits for all of them."""

    id: str
    sources: tuple[str, ...]
    """Sorted."""
    target: str
    policy: Literal["all", "arrived"] = "all"


@dataclass(slots=True, eq=False)
class CacheRule:
    """How results of a node are kept."""

    policy: CachePolicy
    space: str
    """Whose results they are."""
    code: Any
    """The function."""
    key_of: Callable[[Any], Any]
    """Makes of a node's input what its result depends on."""
    ttl: float | None = None
    """In seconds."""
    identity: bytes | None = None
    """The drivers': what tells the function from others, once that was asked for."""


@dataclass(slots=True, eq=False)
class Node:
    """One node, ready to run."""

    name: str
    kind: int
    """`SYNC` to `FACTORY`: how its code is called."""
    call: Callable[..., Any] | None
    """The user's code; None for a nested graph, the entry, and a node made by a factory."""
    project: Project
    project_send: Callable[[Any], Any]
    """Makes what the node is handed from a `Send`'s argument."""
    inject: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameter name -> what is wanted (``runtime``, ``config``, ``writer``, ``context`` …)."""
    managed: Mapping[str, type[ManagedValue]] = field(default_factory=dict[str, type[ManagedValue]])
    """Managed keys of the node's input, and what they show."""
    updates_of: Callable[[Any, Any], Mapping[str, Any] | None] | None = None
    """Reads an object of a schema's type as an update, given what was handed out."""
    snapshot: Callable[[Any, Mapping[str, Any]], Any] | None = None
    """Remembers a handed-out object, so that changes in place can be told; None where input is a plain dict."""
    factory: Callable[[], Any] | None = None
    prepare: Callable[[Any], Node] | None = None
    """Makes a node of what the factory gave."""
    graph: Tables | None = None
    shared_keys: frozenset[str] = frozenset()
    """Of a nested graph: keys whose writes its parent takes one by one, because both merge them the same way."""
    returned_keys: Container[str] = frozenset[str]()
    """Of a nested graph: the other keys whose final value its parent takes, if the nested graph wrote them."""
    successors: tuple[str, ...] = ()
    """Sorted; without `END`."""
    joins: tuple[Join, ...] = ()
    routers: tuple[Router, ...] = ()
    defer: bool = False
    inline: bool = False
    shared: bool = False
    """Input is handed out without copying."""
    retry: tuple[RetryPolicy, ...] = ()
    timeout: TimeoutPolicy | None = None
    """The time limits of each try."""
    cache: CacheRule | None = None
    """How its results are kept, if they are."""
    fallback: Node | None = None
    """What runs in its place once it has failed for good; no node of the graph's own."""
    root_value: bool = False
    """The state is one unnamed value: what the node returns is its write."""
    straight: bool = False
    """Nothing but `successors` leads out of it, and none of them is deferred."""

    reads: frozenset[str] | None = None
    """The keys that it is handed; None where that may be any."""
    writes: frozenset[str] | None = None
    """The keys that it declares to write; None where it declares nothing."""
    leads: frozenset[str] | None = None
    """The nodes that it may lead to, by an edge, join, router or command; None for any."""
    skips_empty: bool = False
    """A stream that it returns and that gives no chunk is no write, instead of an error."""
    routes: bool = False
    """Edges lead out of it (also to `END`), so that a ``goto`` would be a second way of routing."""

    ask_before: Node | None = None
    """Asked before it with ``(its task, None)`` as what was sent: what it returns is asked, None for nothing."""
    ask_after: Node | None = None
    """Asked after it with ``(its task, what it wrote)`` as what was sent, likewise."""
    route_later: bool = False
    """A pause after it comes before its route. Without `ask_after`, it always pauses there."""


@dataclass(frozen=True, slots=True)
class Places:
    """Some of the points of one kind at which a run pauses."""

    names: frozenset[str] = frozenset()
    """The nodes; ``*`` for all."""
    asks: Node | None = None
    """Instead of names: asked with the state, whether to pause there, whichever nodes they are."""

    def __bool__(self) -> bool:
        return bool(self.names) or self.asks is not None


@dataclass(frozen=True, slots=True)
class Pauses:
    """Where a run pauses, from outside its nodes' code."""

    before: Places = Places()
    after: Places = Places()
    route: Places = Places()
    """After a node and before its route."""
    hooks: bool = False
    """Some nodes have functions that say where to pause, or leave their routes."""

    def may_hold(self, name: str) -> bool:
        """Whether a pause may come before or after a node; what comes after a route that is left may be any."""
        if self.hooks or self.route or self.before.asks is not None or self.after.asks is not None:
            return True
        return any(name in places.names or "*" in places.names for places in (self.before, self.after))


@dataclass(slots=True, eq=False)
class Tables:
    """A compiled graph."""

    name: str
    nodes: Mapping[str, Node]
    entry: Node
    keys: Mapping[str, Key]
    open_key: Callable[[str], Key] | None
    """Makes a key that no schema names, in an open state; None where the schema is closed."""
    input_keys: frozenset[str] | None
    """What an input may hold; None for any key."""
    output_keys: frozenset[str] | None
    """What a result shows; None for every key."""
    takes: str | None
    """The key of which an input is the value; None where an input is an update of several."""
    gives: str | None
    """The key whose value is the result, where that is one value without keys."""
    joins: Mapping[str, Join]
    initial: Callable[[], dict[str, Any]] = dict
    """Makes what keys hold before their first write, where they hold something."""
    strict: bool = True
    deferred: frozenset[str] = frozenset()
    quick_keys: Any = frozenset[str]()
    """A keys view of what may be written without a check; empty if the state is one value."""
    pauses: Pauses | None = None
    """Where it pauses from outside its nodes' code; None for nowhere."""
    volatile: tuple[Key, ...] = ()
    """Keys that a step without a write changes."""
    untracked: frozenset[str] = frozenset()
    """Keys that no checkpoint holds."""
    finishing: tuple[Key, ...] = ()
    """Keys whose channel has something to do when nothing else is left to run."""
    check_model: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Model-level validation of a step's outcome."""
    persist: bool = True
    """A nested graph with ``checkpointer=False`` keeps nothing."""
    remembers: bool = False
    """A nested graph with ``checkpointer=True`` goes on, each time, from the state it ended with the time before."""
    recalls: bool = False
    """Some node is such a graph."""
    cache: Any = None
    """The drivers': where results of its nodes are kept, if it has a cache of its own."""
    exposed: bool = False
    """Some node of it, or of a graph nested in it, can reach the containers of the state."""
    message_keys: frozenset[str] = frozenset()
    """Keys that hold messages."""
    debug: bool = False
    dataflow: bool = False
    """Tasks may run ahead of their step."""
    declares: bool = False
    """Some node declares what it writes."""
    store: Any = None
    """What its nodes are given as long-term memory, if not that of the graph around it. Only handed on."""

    @property
    def result_keys(self) -> frozenset[str] | None:
        """The keys that show where the state is shown as one value; None for all."""
        return None if self.gives is None else frozenset((self.gives,))
