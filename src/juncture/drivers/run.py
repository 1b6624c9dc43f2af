"""What one call of a graph shares, and the programs that make it up.

`Shared` is fixed when the call begins. A `Program` is one running graph: the one that was called, or a nested one,
which knows its parent and the parent's task that it is the body of.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from juncture.drivers.meter import Meter
from juncture.drivers.slots import Slots
from juncture.engine.begin import Request
from juncture.engine.effects import Emit
from juncture.engine.limits import limits_of
from juncture.engine.run import Loop
from juncture.engine.state import Around
from juncture.engine.tables import Node, Tables
from juncture.engine.task import Task
from juncture.persistence.codec import Codec
from juncture.persistence.threads import ThreadLog
from juncture.steering import RunControl
from juncture.types import StreamMode, StreamWriter

if TYPE_CHECKING:
    from juncture.cache.base import Cache
    from juncture.drivers.base import Driver
    from juncture.drivers.context import TaskContext
    from juncture.store.base import Store


Part: TypeAlias = tuple[tuple[str, ...], StreamMode, str | None, Any, int, int | None]
"""(namespace, mode, node, data, step, place): a `StreamPart` before it is numbered. A tuple, because there are many."""


@dataclass(slots=True, eq=False)
class Shared:
    """What every program of one call sees."""

    run_id: str
    thread_id: str | None
    config: Mapping[str, Any]
    context: Any
    limit: int
    slots: Slots | None
    """Counts running tasks, where their number is limited; shared with the call that this one is nested in."""
    modes: frozenset[str]
    """The stream modes that somebody consumes."""
    subgraphs: bool
    """Parts of nested graphs are consumed as well."""
    codec: Codec
    """Makes bytes of values, which are equal for equal content."""
    meter: Meter
    """What the run uses up; shared with the calls nested in it."""
    level: int = 0
    """How many calls of graphs this one is nested in."""
    base: int = 0
    """How many levels of a namespace belong to the calls that this one is nested in, and aren't shown."""
    store: Store | None = None
    """Long-term memory for graphs that have none of their own."""
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    control: RunControl | None = None
    """What steers the run from outside."""
    runs: dict[Driver, str] | None = None
    """Where the call is noted while it runs, with its run's id; None if it is part of another."""
    cache: Cache | None = None
    """Where results of nodes are kept, unless a nested graph has a cache of its own."""
    observer: Observer | None = None
    """Who listens to it, if anybody."""


class Observer(Protocol):
    """Whoever listens to a run; `juncture.observe.Listeners`."""

    def event(self, kind: Any, **fields: Any) -> Any:
        """An event of the run."""
        ...

    def tell(self, event: Any) -> Coroutine[Any, Any, None] | None:
        """Tells of it; what has to be awaited before the run goes on, if anything."""
        ...

    def complete(self, event: Any) -> list[Any]:
        """The events that end the run."""
        ...

    def enter(self, namespace: tuple[str, ...], task_id: str) -> None:
        """Tells that a node's code begins in this very context."""
        ...


class Program:
    """One running graph."""

    __slots__ = (
        "active",
        "beside",
        "closed",
        "driver",
        "gen",
        "hears",
        "live",
        "log",
        "loop",
        "namespace",
        "parent",
        "shared",
        "shown",
        "tables",
        "task",
        "timed",
    )

    def __init__(
        self,
        driver: Driver,
        tables: Tables,
        request: Request,
        log: ThreadLog | None,
        parent: Program | None = None,
        task: Task | None = None,
    ) -> None:
        """`log` is where it is saved; None if it isn't."""
        self.driver = driver
        self.shared = driver.shared
        self.tables = tables
        self.log = log
        self.parent = parent
        self.task = task
        self.namespace = request.namespace
        self.loop = Loop(tables, request)
        self.gen: Any = None
        self.shown = request.namespace[driver.shared.base :]
        """Its namespace, as its parts show it."""
        self.hears = self.consumes("custom") or self.consumes("messages") or self._shows_calls(tables)
        """Somebody consumes what its nodes send while they run."""
        self.timed = parent is not None and (
            parent.timed or (task is not None and limits_of(task) is not None)
        )
        """A time limit stands over all of it, so that none of its nodes may block its driver."""
        self.beside = self.hears or self.timed
        """Its nodes don't run in the driver's own thread or asyncio task, so that something may go on meanwhile."""
        self.closed = False
        self.active = 0
        """How many of its tasks were started and not heard of."""
        self.live: dict[Task, Any] | None = None
        """Its tasks that run outside the driver's thread or task, and how to cancel each."""

    @property
    def store(self) -> Store | None:
        """Long-term memory: its own, or that of the next graph around it that has one."""
        program: Program | None = self
        while program is not None:
            if program.tables.store is not None:
                return program.tables.store
            program = program.parent
        return self.shared.store

    @property
    def saving(self) -> bool:
        """Whether this graph is saved."""
        return self.log is not None

    def around(self) -> Around:
        """What of this graph's run a checkpoint of a graph nested in it is made in."""
        head = self.loop.head
        assert head is not None  # it was saved before any task of it began
        return Around(head, len(self.loop.beside))

    def _shows_calls(self, tables: Tables) -> bool:
        """Whether it is an entrypoint, of which somebody consumes what its calls give."""
        return tables.takes != tables.gives and any(map(self.consumes, ("updates", "tasks", "debug")))

    def code(self, node: Node) -> Callable[..., Any]:
        """The function to call for a node."""
        assert node.call is not None
        return node.call

    def consumes(self, mode: str) -> bool:
        """Whether somebody consumes this mode's parts from this graph."""
        return mode in self.shared.modes and (self.shared.subgraphs or self.parent is None)

    def writer(self, context: TaskContext) -> StreamWriter:
        """The function with which a task sends to the consumers of ``custom``."""
        task = context.task
        if not self.consumes("custom"):
            return _nobody_listens if task.limit is None else _Silent(context)
        name, step, namespace, send = task.node.name, task.step, self.shown, self.driver.sender(self, task)

        def write(value: Any) -> None:
            if context.ended:
                raise RuntimeError(f"the stream writer of node {name!r} was used after the node had ended")
            if task.limit is not None:
                task.limit.did()
            send((namespace, "custom", name, value, step, None))

        return write

    def send_part(self, emit: Emit | None, task: Task) -> None:
        """Shows a piece of an async generator node, from the event loop that the node runs on."""
        if emit is not None:
            self.driver.sender(self, task)(part_of(self, emit))

    async def wait_for_room(self) -> None:
        """Waits while the consumer is far behind."""
        await self.driver.wait_for_room()


def part_of(program: Program, emit: Emit) -> Part:
    """What a program shows, as a part."""
    return (program.shown, emit.mode, emit.node, emit.data, emit.step, emit.place)


def _nobody_listens(value: Any) -> None:
    """The writer where nobody consumes ``custom``."""


class _Silent:
    """The writer of a try with a time limit where nobody consumes ``custom``: what it is given is a sign of life."""

    __slots__ = ("_context",)

    def __init__(self, context: TaskContext) -> None:
        self._context = context

    def __call__(self, value: Any) -> None:
        self._context.check_running("the stream writer")
        self._context.task.limit.did()
