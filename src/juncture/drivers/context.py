"""What running user code can ask of its run: one context variable, and the functions that read it.

The variable is set in the copied context of each try, never in the engine's own, so it is right in every thread or
asyncio task that was started with a copy of that context and absent everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from juncture.drivers.meter import path_of
from juncture.drivers.response import response_of
from juncture.engine.effects import Called
from juncture.engine.interrupts import answers_in, question_id
from juncture.engine.task import Task
from juncture.engine.values import admitted, copied
from juncture.errors import (
    Cancelled,
    ConfigError,
    InterruptError,
    Pause,
    ResumeMismatchError,
    SerializationError,
)
from juncture.types import ExecutionInfo, Interrupt, Runtime, StreamWriter

if TYPE_CHECKING:
    from juncture.drivers.calls import CallFuture
    from juncture.drivers.run import Program
    from juncture.engine.effects import Early
    from juncture.store.base import Store


class TaskContext:
    """One try of one task, as its user code sees it."""

    ended = False
    """The try is over: nothing may be asked of the run any more."""
    questions: list[Interrupt] = []  # noqa: RUF012 - never changed; replaced by the first question
    """What this try asked and got no answer to."""
    effects: Mapping[str, CallFuture[Any]] = MappingProxyType({})
    """What `once` has made, or is making, in this try; replaced, never changed."""
    early: Early | None = None
    """Why a graph that its code called ended early; so it ends, too, to run again later."""
    _previous: Any = None
    _asked: dict[str, int] | None = None
    _calls: dict[str, int] | None = None
    _waits = 0
    _lock: Lock | None = None
    _runtime: Runtime[Any] | None = None
    _store: Store | None = None

    def __init__(self, program: Program, task: Task) -> None:
        """The try begins now."""
        # Everything else has its default on the class: one is made in every step.
        self.program = program
        self.task = task

    # ---- what nodes are injected

    def arguments(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """Parameter name -> value for what a function wants injected."""
        return {name: self._wanted(what) for name, what in wanted.items()}

    def _wanted(self, what: str) -> Any:
        if what == "runtime":
            return self.runtime
        if what == "config":
            return self.config
        if what == "error":
            return self.task.failure
        if what == "writer":
            return self.writer
        if what == "store" and self.store is None:
            raise no_store(f"node {self.task.node.name!r} asks for store")
        return self.store

    @property
    def config(self) -> Mapping[str, Any]:
        """The call's config."""
        return self.program.shared.config

    @property
    def writer(self) -> StreamWriter:
        """Sends to the consumers of ``custom``."""
        return self.program.writer(self)

    @property
    def runtime(self) -> Runtime[Any]:
        """Everything that the run offers."""
        if self._runtime is None:
            shared = self.program.shared
            self._runtime = Runtime(
                shared.context,
                self.writer,
                self.execution_info,
                self.config,
                self.heartbeat,
                shared.control,
                self.store,
                self.report_usage,
                self._previous,
            )
        return self._runtime

    @property
    def store(self) -> Store | None:
        """The store of its graph, or of the next one around it that has one, for as long as the try may use it."""
        if self._store is None and (store := self.program.store) is not None:
            from juncture.drivers.store import NodeStore

            self._store = NodeStore(store, self.check_running)
        return self._store

    def report_usage(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        total_tokens: int | None = None,
        cost: float = 0.0,
    ) -> None:
        """Adds to what this node, and its run, have used."""
        self.check_running("runtime.report_usage()")
        used = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens if total_tokens is None else total_tokens,
            "cost": cost,
        }
        for name, amount in used.items():
            if type(amount) not in (int, float) or amount < 0:
                raise ValueError(f"{name} is a number, at least 0, got {amount!r}")
        self.program.shared.meter.report(path_of(self.program, self.task), used)

    def remember(self, previous: Any) -> Runtime[Any]:
        """Makes known what an entrypoint saved the last time; what the run offers, with that."""
        self._previous, self._runtime = previous, None
        return self.runtime

    def heartbeat(self) -> None:
        """A sign of life."""
        self.check_running("runtime.heartbeat()")
        if self.task.limit is not None:
            self.task.limit.touch()

    @property
    def execution_info(self) -> ExecutionInfo:
        """Where this code is running."""
        task, shared = self.task, self.program.shared
        return ExecutionInfo(
            shared.run_id,
            shared.thread_id,
            task.id,
            task.node.name,
            task.step,
            self.program.namespace,
            task.attempt,
            self.first_time(),
        )

    def first_time(self) -> float:
        """When the first try of the task began, in seconds since the epoch; noted when it is first asked for."""
        task = self.task
        if task.first_time is None:
            task.first_time = self.program.driver.clock.wall()
        return task.first_time

    # ---- waiting

    @contextmanager
    def lending(self) -> Generator[None, None, None]:
        """While this task waits for something nested in it, another may run in its place."""
        driver = self.program.driver
        slots = driver.shared.slots
        if slots is None or self.task not in driver.holding:
            yield
            return
        with self.locked():
            self._waits += 1
            lends = self._waits == 1
        if lends:
            slots.give_back()
        try:
            yield
        finally:
            with self.locked():
                self._waits -= 1
                ends = self._waits == 0
            if ends and self.task in driver.holding:
                slots.go_on()

    # ---- questions

    def ask(self, value: Any, key: str | None, response_type: Any = None) -> Any:
        """The answer to a question; raises `Pause` after recording it if there is none yet, or none of the type."""
        self.check_may_ask("interrupt()")
        shared = self.program.shared
        if not self.program.saving and self.program.tables.strict:
            raise InterruptError(
                f"node {self.task.node.name!r} called interrupt(), but nothing could be resumed: this graph has no saver. "
                'Compile it with one, for example compile(checkpointer="memory:"), and give a thread_id',
                node=self.task.node.name,
            )
        owner = self.task.parent or self.task
        value = admitted(value)
        response = response_of(response_type) if response_type is not None else None
        with self.locked():
            if self._asked is None:
                self._asked = {}
            # A content's occurrence rises when it was answered: asked again while it is open, it is the same question.
            content = self._content(value, key)
            occurrence = self._asked.get(content, 0)
            identity = f"{self.task.identity}{content}\x1f{occurrence}"
            asked = question_id(
                self.program.loop.request.origin or shared.run_id, self.program.namespace, owner.id, identity
            )
            found, answer = self._answer(asked, value, key)
            problem = self._refused_before(asked)
            if found:
                try:
                    answer = answer if response is None else response.check(answer)
                except ValueError as error:
                    problem = str(error)
                else:
                    self._asked[content] = occurrence + 1
                    return answer
            if any(question.id == asked for question in self.questions):
                raise InterruptError(
                    f"node {self.task.node.name!r} asks the same question twice at once; give each a key: "
                    "interrupt(value, key=…)",
                    node=self.task.node.name,
                )
            schema = None if response is None else response.describe()
            question = Interrupt(
                value, asked, owner.node.name, self.program.namespace, key, "inside", schema, problem
            )
            self.questions = [*self.questions, question]
        raise Pause(question)

    def _content(self, value: Any, key: str | None) -> str:
        if key is not None:
            return f"key\x1f{key}"
        if not self.program.tables.strict:
            return "place"  # lenient: the k-th question of a task gets the k-th answer
        return blake2b(self.program.shared.codec.encode(value), digest_size=16).hexdigest()

    def _refused_before(self, asked: str) -> str | None:
        """Why the last answer to a question that is still open was refused, if one was."""
        for record in (self.task.parent or self.task).records or ():
            if record.kind == "question" and record.name == asked:
                return record.content.error
        return None

    def _answer(self, asked: str, value: Any, key: str | None) -> tuple[bool, Any]:
        owner = self.task.parent or self.task
        records = owner.records or ()
        answers = answers_in(records)
        consumed = owner.consumed = owner.consumed or set()
        if asked in answers:
            consumed.add(asked)
            return True, copied(answers[asked])
        if not self.program.tables.strict or key is not None:
            return False, None
        own = self.program.namespace  # what a nested graph asked is that one's to match
        questions = [
            record for record in records if record.kind == "question" and record.content.namespace == own
        ]
        if any(record.name == asked for record in questions):
            return False, None
        for record in questions:
            was: Interrupt = record.content
            if was.key is None and record.name in answers and record.name not in consumed:
                raise ResumeMismatchError(
                    f"node {owner.node.name!r} asks {value!r}, which wasn't recorded, while the answer to {was.value!r} is "
                    "unused. Questions are matched by content: keep it the same on every run, or give each a key: "
                    "interrupt(value, key=…)",
                    node=owner.node.name,
                )
        return False, None

    # ---- calls

    def next_namespace(self, graph: str, given: Any) -> tuple[str, ...]:
        """The namespace of a graph that this try calls by itself: known by name, input and occurrence, as calls are."""
        try:
            content = blake2b(self.program.shared.codec.encode(admitted(given)), digest_size=4).hexdigest()
        except SerializationError:
            content = ""  # nothing stable is known of such an input: told apart by order
        name = f"{graph}.{content}"
        with self.locked():
            if self._calls is None:
                self._calls = {}
            occurrence = self._calls.get(f"\x1f{name}", 0)
            self._calls[f"\x1f{name}"] = occurrence + 1
        owner = self.task.parent or self.task
        prefix = f"{self.task.identity}/" if self.task.identity else ""
        return (*self.program.namespace, f"{owner.id}/{prefix}{name}.{occurrence}")

    def call(self, name: str, content: bytes, make: Callable[[Task, str], Task]) -> Any:
        """Asks the run for a call; returns its future. Calls are known by name, arguments and occurrence."""
        self.check_may_ask(f"the task {name!r}")
        with self.locked():
            if self._calls is None:
                self._calls = {}
            digest = f"{self.task.identity}{name}\x1f{blake2b(content, digest_size=16).hexdigest()}"
            occurrence = self._calls.get(digest, 0)
            self._calls[digest] = occurrence + 1
        owner = self.task.parent or self.task
        task = make(owner, f"{digest}\x1f{occurrence}")
        return self.program.driver.call(self, Called(task))

    # ----

    def check_may_ask(self, what: str) -> None:
        """Refuses what would pause the try or call something, where it can't be: see `check_running`, and inside `once`."""
        self.check_running(what)
        making = MAKING.get()
        if making is not None:
            raise ConfigError(
                f"{what} was used in the function given to once({making!r}), which only makes its effect. Do it before, and "
                "let the function use what it gave"
            )

    def check_running(self, what: str) -> None:
        """Refuses what only a running try may do: raises if it has ended, or if its run was stopped."""
        if self.ended:
            raise ConfigError(
                f"{what} was used after node {self.task.node.name!r} had ended; use it inside the node"
            )
        if self.program.driver.stops(self.program, self.task):
            raise Cancelled(f"{what} was used in node {self.task.node.name!r} after its run had been stopped")

    def locked(self) -> Lock:
        """What guards what several threads or asyncio tasks of one try share."""
        with self.program.driver.making:
            if self._lock is None:
                self._lock = Lock()
            return self._lock


MAKING: ContextVar[str | None] = ContextVar("juncture_making", default=None)
"""The key of the effect that is being made in this context, if any."""
CURRENT: ContextVar[TaskContext] = ContextVar("juncture_task")
"""The try whose user code is running in this context."""


def current() -> TaskContext:
    """The try whose user code is running here.

    Raises:
        ConfigError: No node's code is running in this context.
    """
    try:
        return CURRENT.get()
    except LookupError:
        raise ConfigError(
            "Called outside of a node: there is no running task in this context. In a thread that your node started, "
            "run the code in a copy of the node's context: contextvars.copy_context().run(...)"
        ) from None


def interrupt(value: Any, *, key: str | None = None, response_type: Any = None) -> Any:
    """Asks somebody outside, and returns the answer.

    The first time, the question is recorded and the run pauses; the node runs again from its start when the thread is
    resumed, and this call then returns the answer. A question is known by its `key`, else by its content and how often
    that content occurred before in the same task.

    Args:
        value: What to ask; it is part of the checkpoint and shown in `RunResult.interrupts`.
        key: A name by which it can be answered, unique within the task.
        response_type: The type of its answer: a builtin type, Literal, Enum, dataclass, TypedDict, pydantic model, struct,
            or what is made of those. The answer is validated and coerced. Whoever gives a wrong one gets an
            `InvalidAnswerError`; if that is only found out here, the question is open again, with `Interrupt.error`.

    Raises:
        InterruptError: The graph has no saver, so nothing could be resumed.
        ResumeMismatchError: The node was resumed and asks something else than was recorded.
        ConfigError: Called outside of a node, or nothing that is installed can check the type.

    Source:
        LangGraph 1.2.24 `interrupt`, which matches by order instead.
    """
    return current().ask(value, key, response_type)


def get_config() -> Mapping[str, Any]:
    """The config of the call that the running node belongs to.

    Raises:
        ConfigError: Called outside of a node.
    """
    return current().config


def get_stream_writer() -> StreamWriter:
    """The function that sends to the consumers of ``custom``.

    Raises:
        ConfigError: Called outside of a node.
    """
    return current().writer


def get_runtime() -> Runtime[Any]:
    """What the run offers to the running node.

    Raises:
        ConfigError: Called outside of a node.
    """
    return current().runtime


def get_store() -> Store:
    """Long-term memory: the store of the running node's graph, or of the graph around it.

    Raises:
        ConfigError: Called outside of a node, or there is no store.
    """
    store = current().store
    if store is None:
        raise no_store("get_store() was called")
    return store


def no_store(what: str) -> ConfigError:
    """The error of code that needs a store where there is none."""
    return ConfigError(
        f'{what}, and the graph has no store. Compile it with one, for example compile(store="sqlite:memory.db"), or give '
        "the parameter the default None"
    )
