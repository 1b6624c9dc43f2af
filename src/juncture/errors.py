"""Every exception of Juncture.

An error says what happened, where (node, key, step, thread) and what to do. Errors that end a run carry the
place as attributes and, where a run had begun, its ``result``. Exceptions of users' own code are never wrapped:
they get a note and the attribute ``__juncture__`` (read it with `failure`).

::

    JunctureError
    ├── GraphBuildError (also ValueError)      a graph that can't be right: names, edges, schemas, options
    ├── ConfigError (also ValueError)          a call's config, thread, stream mode or input can't be used
    │   └── EmptyInputError                    there is nothing to run
    ├── InvalidUpdateError                     something was written that the state can't take
    │   ├── StateMutationError                 an object that was handed out was changed in place
    │   └── EmptyChannelError                  a channel without a value was read
    ├── RoutingError                           a route, goto or Send that leads nowhere or is ambiguous
    ├── EmptyStreamError                       a stream that a node returned as a value gave no chunk
    ├── StuckJoinError                         the run would end while a join waits for the rest of its sources
    ├── GraphRecursionError (also RecursionError)   the limit of supersteps was reached
    ├── NodeCancelledError                     a node raised the event loop's cancellation by itself
    ├── RecordedError                          what a node failed with in an earlier run, of which the text was kept
    ├── NodeTimeoutError                       a try of a node took longer than its time limit
    ├── InterruptError                         questions and answers
    │   ├── PendingInterruptError              plain input was given to a thread with open questions
    │   ├── NothingToResumeError               there is no open question, or no paused run
    │   ├── InvalidAnswerError                 an answer isn't what its question asks for
    │   ├── ResumeMismatchError                the node asks something else than what was recorded
    │   └── InDoubtError                       it isn't known whether an effect that is made once happened
    ├── SaverError                             checkpoints and where they are kept
    │   ├── HeadMovedError                     another run wrote to this thread
    │   ├── LeaseLostError                     another run took over this thread
    │   ├── ThreadBusyError                    another run has this thread
    │   ├── SaverUnavailableError              the database can't be reached
    │   ├── ThreadNotFoundError                the thread has no checkpoint
    │   ├── CheckpointNotFoundError            the thread has no checkpoint of that id
    │   └── SerializationError (also TypeError)     a value can't be stored exactly, or not be read back
    │       └── DecryptionError                what was stored can't be decrypted, or isn't what it says
    ├── StoreError                             long-term memory and where it is kept
    │   └── StoreUnavailableError              the place can't be used now
    ├── InvalidNamespaceError (also ValueError)     what isn't a namespace of a store
    └── InternalError                          a fault of Juncture itself; please report it

    Signal (BaseException)                     control flow that user code can't swallow with ``except Exception``
    ├── Pause                                  raised by ``interrupt()`` after the question was recorded
    ├── ParentCommand                          raised by a graph called inside a node, for the enclosing graph
    ├── GraphDrained                           raised by a lenient graph that was drained, and inside a node by any
    └── Cancelled                              raised in a node whose run has been cancelled, and by a sync run that was

    GraphCheckWarning (UserWarning)            a fault of a graph that can be run all the same
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal


class JunctureError(Exception):
    """The base of every error that Juncture raises.

    The place is given by attributes that are ``None`` where they don't apply.
    """

    node: str | None = None
    """The node that the error concerns."""
    key: str | None = None
    """The state key that the error concerns."""
    step: int | None = None
    """The superstep, counted from 1 in a thread; 0 is the input."""
    thread_id: str | None = None
    """The thread, if the run has one."""
    namespace: tuple[str, ...] = ()
    """Which nested graph; empty for the graph that was called."""
    run_id: str | None = None
    """The run."""
    attempt: int | None = None
    """Which try of the node, from 1."""
    result: Any = None
    """The `RunResult` up to the error, if a run had begun."""

    def __init__(self, message: str = "", *, node: str | None = None, key: str | None = None) -> None:
        super().__init__(message)
        if node is not None:
            self.node = node
        if key is not None:
            self.key = key


class GraphBuildError(JunctureError, ValueError):
    """The graph can't be right: a name, an edge, a schema or an option. Nothing was changed."""


class ConfigError(JunctureError, ValueError):
    """A call's config, thread, stream mode or input can't be used. Nothing was run."""


class EmptyInputError(ConfigError):
    """There is nothing to run: no input, and nothing that could be continued."""


class InvalidUpdateError(JunctureError):
    """Something was written that the state can't take. Nothing of that step was applied."""

    nodes: tuple[str, ...] = ()
    """Every node that is to blame, where there are several."""


class StateMutationError(InvalidUpdateError):
    """A node changed an object in place that it was handed. Nothing of that step was applied."""


class EmptyChannelError(InvalidUpdateError):
    """A channel that has no value was read."""


class RoutingError(JunctureError):
    """A route, ``goto`` or `Send` leads to no node, or a node routes in two ways. Nothing was applied."""


class EmptyStreamError(JunctureError):
    """A stream that a node returned as a value ended without a chunk. Nothing of the step was applied."""


class StuckJoinError(JunctureError):
    """The run would end while a join still waits for some of its sources. What was committed stays."""


class GraphRecursionError(JunctureError, RecursionError):
    """The limit of supersteps was reached. What was committed stays, and the thread can go on."""


class NodeCancelledError(JunctureError):
    """A node raised the event loop's cancellation though nobody had cancelled it."""


class RecordedError(JunctureError):
    """What a node failed with in an earlier run. Exceptions aren't stored: of this one its text is known."""


class NodeTimeoutError(JunctureError):
    """A try of a node took longer than its time limit. Nothing that it did counts.

    Not a `TimeoutError`, which is an `OSError`: a retry policy retries this by default.
    """

    def __init__(
        self,
        node: str,
        elapsed: float,
        kind: Literal["run", "idle"],
        *,
        run_timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> None:
        """Takes the node, the seconds that passed (since its beginning, or its last sign of life), and both limits."""
        self.elapsed = elapsed
        """Seconds since the try began, or, for ``idle``, since its last sign of life."""
        self.kind: Literal["run", "idle"] = kind
        """Which limit was reached."""
        self.run_timeout = run_timeout
        self.idle_timeout = idle_timeout
        limit = run_timeout if kind == "run" else idle_timeout
        self.timeout: float = limit if limit is not None else elapsed
        """The limit that was reached, in seconds."""
        what = "took longer than" if kind == "run" else "gave no sign of life for"
        super().__init__(
            f"node {node!r} {what} {self.timeout:g} s (after {elapsed:.3g} s it was stopped or abandoned); give it more time "
            f"with timeout=, retry it with retry_policy=, or let it call runtime.heartbeat() under an idle_timeout",
            node=node,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        limits = {"run_timeout": self.run_timeout, "idle_timeout": self.idle_timeout}
        return (_timeout_error, (self.node, self.elapsed, self.kind, limits), self.__dict__)


def _timeout_error(
    node: str, elapsed: float, kind: Literal["run", "idle"], limits: dict[str, float | None]
) -> NodeTimeoutError:
    return NodeTimeoutError(node, elapsed, kind, **limits)


class InterruptError(JunctureError):
    """A question or an answer can't be taken. The open questions stay open."""


class PendingInterruptError(InterruptError):
    """Plain input was given to a thread with open questions. They stay open."""


class NothingToResumeError(InterruptError):
    """There is no open question, or no paused or failed run to continue."""


class InvalidAnswerError(InterruptError):
    """An answer isn't what its question asks for. Nothing was saved or run: all that was given may be given again."""

    question_id: str = ""
    """The question; of several, the first."""
    expected: Any = None
    """What its answer must be, as a JSON schema."""
    problems: Mapping[str, str]
    """What is wrong with each answer that was refused, by the id of its question."""

    def __init__(
        self, message: str = "", *, node: str | None = None, problems: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, node=node)
        self.problems = dict(problems or {})


class ResumeMismatchError(InterruptError):
    """A resumed node asks something else than what was recorded at that place."""


class InDoubtError(InterruptError):
    """It isn't known whether an effect that was to be made once happened. It wasn't begun again."""

    idempotency_key: str
    """What the service that it concerns was given, to look it up by."""
    question: Any
    """The `juncture.Interrupt` that somebody has to answer; open once the task has failed with this error. None where the same try may know more."""

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        idempotency_key: str,
        question: Any = None,
    ) -> None:
        super().__init__(message, node=node)
        self.idempotency_key = idempotency_key
        self.question = question


class SaverError(JunctureError):
    """A checkpoint couldn't be saved, found or read."""


class HeadMovedError(SaverError):
    """Another run wrote to this thread meanwhile. Nothing was saved."""


class LeaseLostError(SaverError):
    """Another run took over this thread, because this one seemed dead. Nothing was saved."""


class ThreadBusyError(SaverError):
    """Another run has this thread. Nothing was run, and nothing was changed."""

    lease: Any = None
    """The `juncture.savers.base.Lease` of that run."""


class SaverUnavailableError(SaverError):
    """The database can't be reached, or is full or locked. What was saved before stays."""


class ThreadNotFoundError(SaverError):
    """The thread has no checkpoint."""


class CheckpointNotFoundError(SaverError):
    """The thread has no checkpoint of that id."""


class SerializationError(SaverError, TypeError):
    """A value can't be stored exactly, or can't be read back. Nothing was saved."""


class DecryptionError(SerializationError):
    """What was stored isn't encrypted, was changed or moved, or needs a key that isn't there. Nothing of it was used."""


class StoreError(JunctureError):
    """Long-term memory can't be used, or what it was to index wasn't embedded as it should be."""


class StoreUnavailableError(StoreError):
    """The place where items are kept can't be used now. Nothing was stored by this call, unless the message says so."""


class InvalidNamespaceError(JunctureError, ValueError):
    """What was given isn't a namespace of a store: a tuple of non-empty strings. Nothing was done."""


class InternalError(JunctureError):
    """A fault of Juncture itself. Please report it, with the note and the traceback."""


class Signal(BaseException):
    """Control flow of the engine. Not an `Exception`, so that user code can't swallow it by accident."""


class Pause(Signal):
    """Raised by ``interrupt()``. The question was recorded on the task before this was raised."""


class ParentCommand(Signal):
    """Raised by a graph that a node called, whose own node returned a `Command` for the enclosing graph."""

    def __init__(self, command: Any) -> None:
        """Takes the command."""
        super().__init__(command)
        self.command = command


class GraphDrained(Signal):
    """A run ended early, to be gone on with later: raised by a lenient graph that was drained.

    Also raised inside a node by a graph that its code called, so that the node ends; the node runs again when the thread is
    gone on with.
    """

    def __init__(self, reason: str, why: Any = None) -> None:
        """Takes the reason that was given, and the engine's own account of it."""
        super().__init__(reason)
        self.reason = reason
        self.why = why


class Cancelled(Signal):
    """Raised inside a node whose run has been cancelled, and by `invoke` and `stream` where it was cancelled from outside.

    Async runs raise asyncio's `CancelledError` instead.
    """


class GraphCheckWarning(UserWarning):
    """A graph was compiled that has a fault which is certain. ``silence=`` of the node or graph takes its code."""

    def __init__(self, message: str, code: str) -> None:
        """Takes the finding as a line, and its code."""
        super().__init__(message, code)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return self.message


def described(error: BaseException) -> str:
    """An exception in a line; some can't even be shown."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - whatever its own code raises, there is still its class
        return f"<{type(error).__name__} that can't be shown>"


def note(error: BaseException, text: str) -> None:
    """Adds a note to an exception, if it takes one; some refuse (slots, frozen dataclasses, attributes of their own)."""
    try:
        error.add_note(text)
    except Exception:  # noqa: BLE001 - whatever an exception raises when it is written to, it is the one to raise
        return


def who(node: str) -> str:
    """A node in a message; the input of a run counts as written by `START`."""
    return "the input" if node == "__start__" else f"node {node!r}"


def place_note(
    *,
    node: str | None,
    step: int | None,
    thread_id: str | None,
    namespace: tuple[str, ...],
    run_id: str | None,
    attempt: int | None,
) -> str:
    """One line that says where an exception was raised."""
    where = [
        f"node {node!r}" if node is not None else "",
        f"step {step}" if step is not None else "",
        f"attempt {attempt}" if attempt is not None and attempt > 1 else "",
        f"thread {thread_id!r}" if thread_id is not None else "",
        f"namespace {'|'.join(namespace)}" if namespace else "",
        f"run {run_id}" if run_id is not None else "",
    ]
    return "juncture: " + ", ".join(w for w in where if w)
