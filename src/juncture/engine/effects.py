"""What the loop asks of its driver (effects), and what it is told (events).

Both sets are closed: every driver performs every effect, and the loop understands every event. Effects are answered
by the value given to ``send()``; what it is stands beside each. A task ends in exactly one of the outcomes `Done`,
`Failed`, `Paused`, `Escaped` or `Stopped`, which are events themselves.

Plain slots classes, because one or two are made in every step.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from juncture.engine.commit import Changes
from juncture.engine.routing import Routes
from juncture.engine.state import State, TaskRecord
from juncture.engine.task import Task
from juncture.types import Command, Interrupt, Send, StreamMode

Write: TypeAlias = tuple[str, Any]
"""(key, value), copied and checked."""


# ---- why a run ends early: the answers to `Proceed`


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """Somebody asked for the run to end once the running step is done."""

    reason: str

    @property
    def status(self) -> Literal["drained"]:
        """What the run ends as."""
        return "drained"


@dataclass(frozen=True, slots=True)
class BudgetSpent:
    """A budget of the run, or of its thread, is used up."""

    reason: str
    """Which: ``steps``, ``seconds``, ``tokens`` or ``cost``."""

    @property
    def status(self) -> Literal["budget"]:
        """What the run ends as."""
        return "budget"


Early: TypeAlias = DrainRequested | BudgetSpent


# ---- effects


@dataclass(slots=True)
class Load:
    """Read the newest checkpoint of this graph's namespace, or another of it. -> `Saved`, or None if it has none."""

    checkpoint_id: str | None = None


@dataclass(slots=True)
class Save:
    """Save a checkpoint. What the tasks of its step wrote is in it, so nothing else is saved of the last. -> its id."""

    state: State
    source: str


@dataclass(slots=True)
class SaveWrites:
    """Save what is known about tasks of the step that follows the newest checkpoint. -> None."""

    records: list[TaskRecord]
    now: bool = False
    """They, and all that was saved before, must be durable before it is answered, whatever the run's durability."""


@dataclass(slots=True)
class Start:
    """Begin a task beside others, after a delay in seconds. It ends as an event. -> None."""

    task: Task
    delay: float = 0.0


@dataclass(slots=True)
class Run:
    """Run the only task there is: start and wait in one. -> its outcome, or another event that comes first."""

    task: Task


@dataclass(slots=True)
class Cancel:
    """Stop this graph's running tasks and what runs under them. Each still ends as an event. -> None."""

    calls_of: Task | None = None
    """Only the calls of this task."""


@dataclass(slots=True)
class Wait:
    """Wait for the next event. -> the event."""


@dataclass(slots=True)
class Emit:
    """Show something to the consumers of a stream mode. -> None.

    The data of ``debug`` is (kind, payload): its envelope holds the time, which the driver knows. A checkpoint names itself
    and its parent by ids, of which the driver makes configs.
    """

    mode: StreamMode
    data: Any
    step: int
    node: str | None = None
    place: int | None = None


@dataclass(slots=True)
class Warn:
    """Tell the user about something that isn't an error. -> None."""

    text: str


@dataclass(slots=True)
class Tell:
    """Tell whoever listens to the run what happens. -> None."""

    kind: Literal["start", "resume", "before", "after", "error", "interrupt", "checkpoint"]
    values: dict[str, Any]
    """The state that goes with it; not copied, and never changed afterwards."""
    step: int
    task: Task | None = None
    node: str | None = None
    content: Any = None
    """Of ``after`` the update, of ``error`` the exception, of ``interrupt`` the questions, of ``checkpoint`` its id."""


@dataclass(slots=True)
class Proceed:
    """Asks whether the next step may begin, where somebody may have the run end early. -> None, or why it may not."""


@dataclass(slots=True)
class Reply:
    """Give a body the outcome of the call that it made. -> None."""

    call: Called
    outcome: Outcome


# ---- outcomes and other events


class Done:
    """The task ended and its writes count."""

    # The rest has its default on the class: one is made for every task.
    targets: Sequence[str] = ()
    """Node names that routers and ``goto`` chose, checked."""
    sends: Sequence[Send] = ()
    ignored: Sequence[str] = ()
    """Lenient graphs: what led nowhere, as warnings."""
    changes: Changes | None = None
    """What the writes alone make of the committed state, if a router had to see it."""
    result: Any = None
    """For a call: what it returned."""
    memory: str | None = None
    """Of a graph with a memory of its own: the checkpoint at which it ended."""
    saved = False
    """It is known from an earlier run and wasn't executed now."""
    cached = False
    """It is what an earlier task of the same input came to, and wasn't executed."""
    streamed = False
    """Its pieces were emitted as they came."""
    late: Sequence[Write] = ()
    """Of those that were: what its chunks made together, which wasn't a piece."""
    chunked: frozenset[str] = frozenset()
    """Keys whose values were made of chunks that were emitted as they came."""

    def __init__(self, task: Task, writes: list[Write]) -> None:
        """Takes the task and its writes, in the order in which it made them."""
        self.task = task
        self.writes = writes

    def __repr__(self) -> str:
        return f"Done({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Done) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment] - equal by content, which may change

    @classmethod
    def routed(cls, task: Task, writes: list[Write], routes: Routes) -> Done:
        """One that also says where to go."""
        done = cls(task, writes)
        done.targets, done.sends, done.ignored = routes.targets, routes.sends, routes.ignored
        return done

    @classmethod
    def of_call(cls, task: Task, result: Any) -> Done:
        """One of a call."""
        done = cls(task, [])
        done.result = result
        return done


@dataclass(slots=True)
class Failed:
    """The task ended with an exception. Nothing it did counts."""

    task: Task
    error: BaseException
    """An `Exception`, or, from a worker, what stops the process."""


@dataclass(slots=True)
class Paused:
    """The task waits for answers."""

    task: Task
    questions: list[Interrupt]


@dataclass(slots=True)
class Escaped:
    """The task ended with a `Command` for an enclosing graph."""

    task: Task
    command: Command[Any]
    writes: list[Write] = field(default_factory=list[Write])
    """What it wrote all the same: it counts as committed, before the command."""


@dataclass(slots=True)
class Stopped:
    """The task was cancelled, before or while it ran; or a graph nested in it ended early, to go on later."""

    task: Task
    why: Early | None = None
    """Why the nested graph ended early."""


@dataclass(slots=True)
class Ending:
    """How a run of one graph ended, other than by an exception."""

    status: Literal["completed", "interrupted", "drained", "budget"]
    state: State
    questions: list[Interrupt] = field(default_factory=list[Interrupt])
    command: Command[Any] | None = None
    """For an enclosing graph."""
    why: Early | None = None
    """Why it ended early."""


Outcome: TypeAlias = Done | Failed | Paused | Escaped | Stopped


@dataclass(slots=True)
class Called:
    """A running task asks for a call, which is a task of its own whose result is recorded, or for an entry in its journal."""

    task: Task
    """The call, as a task whose parent is the asking task; for an entry, the asking task itself."""
    reply: Any = None
    """The driver's: where the outcome goes."""
    record: TaskRecord | None = None
    """The entry."""


@dataclass(slots=True)
class TimedOut:
    """A try took longer than its time limit. It was stopped, or, where that isn't possible, abandoned: it isn't heard of."""

    task: Task
    kind: Literal["run", "idle"]
    elapsed: float
    """Seconds since it began, or since its last sign of life."""


Effect: TypeAlias = (
    Proceed | Load | Save | SaveWrites | Start | Run | Cancel | Wait | Emit | Tell | Warn | Reply
)
Event: TypeAlias = Outcome | Called | TimedOut


Program: TypeAlias = Generator[Effect, Any, Any]
"""A suspended loop: yields effects, is sent their answers, and returns how it ended."""
