"""The values that users and the engine exchange.

Only plain values live here: no behaviour of the engine, no I/O. Names and shapes follow LangGraph 1.2.24 where the
behaviour is the same; what differs is said in the docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias

from typing_extensions import TypeVar

from juncture.steering import ReportUsage, RunControl, no_usage

if TYPE_CHECKING:
    from juncture.store.base import Store

START: Final = "__start__"
"""The virtual node before the first: edges from it lead to where a run begins."""
END: Final = "__end__"
"""The virtual node after the last: an edge to it ends that branch."""
ROOT: Final = "__root__"
"""The one key of a state that is a single unnamed value."""

StreamMode: TypeAlias = Literal["values", "updates", "custom", "messages", "checkpoints", "tasks", "debug"]
"""Which view of a run a stream gives."""
STREAM_MODES: Final[tuple[StreamMode, ...]] = (
    "values",
    "updates",
    "custom",
    "messages",
    "checkpoints",
    "tasks",
    "debug",
)

Status: TypeAlias = Literal["completed", "interrupted", "drained", "budget", "limit", "failed", "cancelled"]
"""How a run ended. The last three only stand on results that an exception carries."""

StreamWriter: TypeAlias = Callable[[Any], None]
"""Sends one value to the consumers of the stream mode ``custom``; does nothing where there are none."""

StateT = TypeVar("StateT", default=dict[str, Any])
ContextT = TypeVar("ContextT", default=None)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)
ValueT = TypeVar("ValueT", default=Any)
NodeNameT = TypeVar("NodeNameT", bound=str, default=str)


class _Missing:
    """The type of `MISSING`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()
"""No value: what a channel without one holds. Never visible to nodes."""


class _Removal:
    """The type of `MARK_FOR_REMOVAL`: one object in every process, kept through copies and pickles."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MARK_FOR_REMOVAL"

    def __reduce__(self) -> str:
        return "MARK_FOR_REMOVAL"

    def __copy__(self) -> _Removal:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> _Removal:
        return self


MARK_FOR_REMOVAL: Final = _Removal()
"""Written to a key, it removes the key: it is then absent for the next node, in the result and in the checkpoint."""


@dataclass(slots=True)
class Overwrite(Generic[ValueT]):
    """A write that replaces the key's value and doesn't go through its reducer.

    Two for one key in one step are refused. Ordinary writes of the same step that come earlier in the plan are
    replaced; later ones are merged into the new value.
    """

    value: ValueT


class Span(Protocol):
    """A span of time: a `datetime.timedelta`."""

    def total_seconds(self) -> float:
        """Its length."""
        ...


def _seconds(name: str, given: Any) -> float | None:
    """A span of time in seconds, from a number or a `datetime.timedelta`."""
    if given is None:
        return None
    seconds: Any = given.total_seconds() if hasattr(given, "total_seconds") else given
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} is a number of seconds or a timedelta, got {given!r}")
    if not isfinite(seconds) or seconds <= 0:
        raise ValueError(f"{name} must be greater than 0, and finite, got {given!r}")
    return float(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPolicy:
    """How long one try of a node may take. What takes longer ends with `NodeTimeoutError`.

    Spans are seconds or a `datetime.timedelta`, and are kept as seconds. Where neither is given, there is no limit.

    Raises:
        ValueError: A span that isn't greater than 0, or an unknown `refresh_on`.

    Source:
        LangGraph 1.2.24, where only async nodes can have one.
    """

    run_timeout: float | Span | None = None
    """For the whole try."""
    idle_timeout: float | Span | None = None
    """From one sign of life to the next."""
    refresh_on: Literal["auto", "heartbeat"] = "auto"
    """What counts as a sign of life. ``"auto"``: what it sends or yields, calls that it makes and what they give, steps of
    a graph nested in it, and ``runtime.heartbeat()``; ``"heartbeat"``: only the last."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "run_timeout", _seconds("run_timeout", self.run_timeout))
        object.__setattr__(self, "idle_timeout", _seconds("idle_timeout", self.idle_timeout))
        if self.refresh_on not in ("auto", "heartbeat"):
            raise ValueError(f'refresh_on is "auto" or "heartbeat", got {self.refresh_on!r}')


Timeout: TypeAlias = "float | Span | TimeoutPolicy"
"""A time limit: a policy, or the `TimeoutPolicy.run_timeout` alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """That results of a node are kept, and used again where it would be called with the same.

    Raises:
        ValueError: A `ttl` that isn't greater than 0.

    Source:
        LangGraph 1.2.24, whose default key is a pickle of the input alone.
    """

    key_func: Callable[..., Any] | None = None
    """Of the node's input (of a task: of its arguments), what its result depends on. By default all of it. What it returns is
    encoded exactly, so it may be any value that can be stored."""
    ttl: float | Span | None = None
    """How long a result is used: seconds or a `datetime.timedelta`, kept as seconds. None: until it is cleared."""
    vary_on: Callable[[Runtime[Any]], Any] | None = None
    """Of the runtime, what else its result depends on: a tenant, say. By default the whole context, and what the call's
    config has under ``configurable`` besides the thread."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ttl", _seconds("ttl", self.ttl))


def timeout_policy(given: Timeout | None) -> TimeoutPolicy | None:
    """A time limit as a policy; None where nothing is limited.

    Raises:
        TypeError: It isn't a time limit.
        ValueError: It isn't greater than 0.
    """
    policy = given if isinstance(given, TimeoutPolicy) else None
    if policy is None and given is not None:
        policy = TimeoutPolicy(run_timeout=_seconds("timeout", given))
    if policy is None or (policy.run_timeout is None and policy.idle_timeout is None):
        return None
    return policy


class Send:
    """One extra task of `node` in the next step, with `arg` as its input instead of the state.

    Equal by content. The task runs even if the node is also due by an edge; tasks by edges come first in the plan,
    then sends in the order sent.
    """

    __slots__ = ("arg", "node", "timeout")

    def __init__(self, node: str, arg: Any = None, *, timeout: Timeout | None = None) -> None:
        """Names the node, its input, and a time limit for this task instead of the node's own.

        Raises:
            TypeError: `node` isn't a string, or `timeout` no time limit.
            ValueError: `timeout` isn't greater than 0.
        """
        if not isinstance(node, str):
            raise TypeError(f"Send needs a node name as its first argument, got {type(node).__name__}")
        self.node = node
        self.arg = arg
        self.timeout = None if timeout is None else timeout_policy(timeout)

    def __repr__(self) -> str:
        extra = "" if self.timeout is None else f", timeout={self.timeout!r}"
        return f"Send(node={self.node!r}, arg={self.arg!r}{extra})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Send):
            return NotImplemented
        return self.node == other.node and self.arg == other.arg and self.timeout == other.timeout

    def __hash__(self) -> int:
        return hash((Send, self.node, self.timeout, repr(self.arg)))


class Answers(dict[str, Any]):
    """Answers by the id or key of their question; says explicitly that a dict is such a map."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to the one open question; says explicitly that a dict is not a map of answers."""

    value: Any


@dataclass(frozen=True, kw_only=True)  # no slots: typing notes on an instance which Command[…] made it
class Command(Generic[NodeNameT]):
    """What a node returns to update the state and choose where to go; as input, what continues a paused thread."""

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"

    graph: str | None = None
    """``Command.PARENT`` applies it to the nearest enclosing graph; None to the node's own."""
    update: Any = None
    """A partial state: a mapping, a list of ``(key, value)`` pairs, or an object of the schema's type."""
    resume: Any = MISSING
    """As input only: the answer to the open question, or a mapping of answers by id or key."""
    goto: Send | NodeNameT | Sequence[Send | NodeNameT] = ()
    """Where to go: a node name, a `Send`, or a sequence of them. `END` ends this branch."""

    def __repr__(self) -> str:
        parts = [f"graph={self.graph!r}"] if self.graph is not None else []
        if self.update is not None:
            parts.append(f"update={self.update!r}")
        if self.resume is not MISSING:
            parts.append(f"resume={self.resume!r}")
        if self.goto != ():
            parts.append(f"goto={self.goto!r}")
        return f"Command({', '.join(parts)})"


When: TypeAlias = Literal["before", "after", "inside"]
"""Where a run paused: before a node, after it, or inside it."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that a run waits for, or a place where it was told to pause."""

    value: Any
    """What `interrupt()` was called with, or what a node's own function asked; None for any other pause."""
    id: str
    """32 hexadecimal digits; the same whenever the same question is asked again at the same place."""
    node: str | None = None
    """The node that asked."""
    namespace: tuple[str, ...] = ()
    """Which nested graph asked."""
    key: str | None = None
    """The name given to the question, if any."""
    when: When = "inside"
    """Where the run paused."""
    response_schema: Mapping[str, Any] | None = None
    """What an answer must be, as a JSON schema; None for anything."""
    error: str | None = None
    """Why the last answer to it was refused, if one was."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When and how often a failed node is tried again.

    The wait before retry n is ``min(max_interval, initial_interval * backoff_factor ** (n - 1))`` seconds; with
    jitter, up to one second is added. Defaults are LangGraph 1.2.24's.
    """

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    """Tries in all, the first one included."""
    jitter: bool = True
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] | None = None
    """Which exceptions: a class, several, or a predicate. None: everything but programming errors and OSErrors
    other than `ConnectionError`; HTTP errors of httpx and requests by their status (5xx)."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(
                f"max_attempts counts the first try and must be at least 1, got {self.max_attempts}"
            )
        if self.initial_interval < 0 or self.max_interval < 0 or self.backoff_factor <= 0:
            raise ValueError("intervals must not be negative, and backoff_factor must be positive")


@dataclass(frozen=True, slots=True)
class NodeError:
    """What an error handler is told of the failure: ask for it with a parameter named ``error``.

    Source:
        LangGraph 1.2.24, where the error after a restart is a bare `Exception`.
    """

    node: str
    """The node that failed."""
    error: BaseException
    """What it raised the last time. Where another process recorded it, a `RecordedError` with its text."""


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """Where a node's code is running."""

    run_id: str
    thread_id: str | None
    task_id: str
    node: str
    step: int
    namespace: tuple[str, ...]
    node_attempt: int
    """From 1."""
    node_first_attempt_time: float
    """When the first try began: seconds since the epoch."""


def _no_heartbeat() -> None:
    """Where nothing measures time."""


@dataclass(frozen=True)
class Runtime(Generic[ContextT]):
    """What a run offers to a node, besides the state. Ask for it with a parameter named ``runtime``."""

    context: ContextT
    """What the caller gave as ``context=``, made into the graph's `context_schema`."""
    stream_writer: StreamWriter
    """Sends a value to the consumers of the stream mode ``custom``."""
    execution_info: ExecutionInfo
    """Where the node's code is running."""
    config: Mapping[str, Any]
    """The call's config, as it was given."""
    heartbeat: Callable[[], None] = _no_heartbeat
    """Says that the node is alive, where its `TimeoutPolicy` has an `idle_timeout`; from any thread. Raises `Cancelled`, which
    is no `Exception`, once the run was stopped or the try has timed out, so that work in a loop ends there."""
    control: RunControl | None = None
    """What steers the run from outside, if its caller gave anything."""
    store: Store | None = None
    """Long-term memory: the graph's store, or that of the graph around it; None if there is none. For as long as the
    node runs: afterwards, and once its run was stopped, its calls raise."""

    report_usage: ReportUsage = no_usage
    """Reports tokens and money that the node used: ``runtime.report_usage(input_tokens=…, output_tokens=…, cost=…)``. Summed
    by node and run in `RunResult.usage`, and what a `Budget` counts."""
    previous: Any = None
    """In an entrypoint: what its last run on this thread returned or saved."""

    @property
    def drain_requested(self) -> bool:
        """Whether somebody wants the run to end once the running step is done. A node that works long may end early, too."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """The reason that was given."""
        return None if self.control is None else self.control.drain_reason


@dataclass(frozen=True, slots=True)
class StreamPart:
    """One item of a stream, of any mode."""

    seq: int
    """From 0 in the order of emission, without gaps over all parts of a run that its consumer asked for."""
    ns: tuple[str, ...]
    """Which nested graph it comes from: one ``"node:task id"`` for every level, empty for the graph called."""
    mode: StreamMode
    node: str | None
    """The node that it concerns; None for ``values``."""
    data: Any
    """What the mode shows."""
    step: int = 0
    """The superstep."""
    place: int | None = None
    """The task's place in the plan of its step (``updates`` and ``tasks``)."""


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """Names one checkpoint of a thread."""

    thread_id: str
    namespace: tuple[str, ...]
    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class Timings:
    """Where a run's time went, in seconds on the wall; the three parts add up to the whole."""

    total: float
    nodes: float
    """While code of nodes or routers ran or awaited something; what runs side by side counts once."""
    saver: float
    """While none of it did, and the run waited for its saver."""
    engine: float
    """The rest: planning, merging, copying, handing tasks to workers."""
    by_node: Mapping[str, float]
    """Of each node's own code, all its runs together; those of nested graphs as ``parent:child``."""


class RunResult(dict[str, Any], Generic[ValueT]):
    """What a run ended with: the output keys as a dict, and how it ended as attributes."""

    value: ValueT
    """The result as one object: itself where it is a dict of keys, else what an object's or a single value's schema gives."""

    __slots__ = (
        "abandoned",
        "checkpoint",
        "interrupts",
        "last_nodes",
        "reason",
        "run_id",
        "status",
        "steps",
        "timings",
        "usage",
        "value",
    )

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        status: Status,
        run_id: str,
        steps: int = 0,
        value: Any = MISSING,
        interrupts: tuple[Interrupt, ...] = (),
        last_nodes: tuple[str, ...] = (),
        usage: Mapping[str, Any] | None = None,
        checkpoint: CheckpointRef | None = None,
        abandoned: int = 0,
        timings: Timings | None = None,
        reason: str | None = None,
    ) -> None:
        """Takes the output keys and how the run ended."""
        super().__init__(values)
        self.status: Status = status
        self.run_id = run_id
        self.steps = steps
        self.value = self if value is MISSING else value  # pyright: ignore[reportAttributeAccessIssue] - a dict of keys is its own value
        self.interrupts = interrupts
        self.last_nodes = last_nodes
        self.usage: Mapping[str, Any] = usage if usage is not None else {}
        self.checkpoint = checkpoint
        self.abandoned = abandoned
        self.timings = timings
        self.reason = reason
        """Why it ended early: of a run that was drained the reason given, of one that used up a budget its name."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            _rebuild_result,
            (
                dict(self),
                {k: getattr(self, k) for k in self.__slots__ if k != "value"},
                MISSING if self.value is self else self.value,
            ),
        )


def _rebuild_result(values: dict[str, Any], attributes: dict[str, Any], value: Any) -> RunResult:
    return RunResult(values, value=value, **attributes)


class StateUpdate(NamedTuple):
    """What is written when a state is edited: as if a node had returned it."""

    values: Any
    """What the node might have returned: a mapping of state keys, an object of a schema's type, a `Command`, or None."""
    as_node: str | None = None
    """The node; by default the one that made the newest state."""


class TaskSnapshot(NamedTuple):
    """A task of the step that follows a checkpoint."""

    id: str
    name: str
    """The node."""
    path: tuple[str | int, ...]
    """Its place: ``("edge", name)``, ``("send", index, name)``, or ``("route", index, name)`` for a node that ended and whose
    routers are still to be asked."""
    error: str | None = None
    """What it failed with, as text."""
    interrupts: tuple[Interrupt, ...] = ()
    """Its open questions."""
    state: Mapping[str, Any] | StateSnapshot | None = None
    """Of a nested graph that has begun: the config that names its state, or, where it was asked for, that state."""
    result: Mapping[str, Any] | None = None
    """What it wrote, if it has ended."""


class StateSnapshot(NamedTuple):
    """The state of a thread at a checkpoint."""

    values: dict[str, Any]
    """By state key. A copy: changing it changes nothing else."""
    next: tuple[str, ...]
    """The nodes that are due, in plan order; those that have ended aren't. A node whose routers are still to be asked is."""
    config: Mapping[str, Any]
    """Names the checkpoint: as a call's config it goes on from there."""
    metadata: Mapping[str, Any] | None
    """``source``, ``step``, ``run_id``, and what the run's config had under ``metadata``. None where there is no checkpoint."""
    created_at: str | None
    """When it was made, by the clock of the process that made it; ISO 8601, UTC."""
    parent_config: Mapping[str, Any] | None
    """Names the checkpoint that it was made from."""
    tasks: tuple[TaskSnapshot, ...]
    interrupts: tuple[Interrupt, ...]
    """The open questions of all tasks."""


class StateDiff(NamedTuple):
    """What differs between two checkpoints, by state key."""

    added: dict[str, Any]
    removed: dict[str, Any]
    changed: dict[str, tuple[Any, Any]]
    """The value in the first, and in the second."""


ThreadStatus: TypeAlias = Literal[
    "completed", "interrupted", "failed", "unfinished", "running", "dead", "unreadable"
]
"""``unfinished``: its run was stopped between two steps, or waits to be continued; ``dead``: the process that ran it
ended without giving it back; ``unreadable``: another version of Juncture or of the graph saved it."""


class ThreadSnapshot(NamedTuple):
    """A thread in a listing."""

    thread_id: str
    status: ThreadStatus
    step: int
    updated_at: str
    """As `StateSnapshot.created_at`."""
    next: tuple[str, ...]
    interrupts: tuple[Interrupt, ...]
    holder: str | None
    """Who runs it."""


class NodeFailure(NamedTuple):
    """The place of an exception that a node raised, and the run's result so far; see `juncture.failure`."""

    node: str | None
    step: int | None
    thread_id: str | None
    namespace: tuple[str, ...]
    run_id: str | None
    attempt: int | None
    result: RunResult | None


@dataclass(frozen=True, slots=True)
class Unset:
    """The type of an option that wasn't given, where None means something."""


UNSET: Final = Unset()
