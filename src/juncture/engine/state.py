"""The committed state of one graph of a run, and what was saved beside it.

`State` is what a checkpoint holds: enough to go on in another process with nothing else at hand. A run has one, which its
loop changes from step to step, so whoever saves it turns it into bytes at once. Values themselves are replaced, never
changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from juncture.engine.values import Flat
from juncture.types import Send

RecordKind = Literal[
    "done", "failed", "question", "answer", "call", "paused", "nested", "intent", "once", "doubt"
]


@dataclass(slots=True)
class TaskRecord:
    """One thing that was saved about a task of the step that follows a checkpoint.

    ``done``      its writes and routes; the task never runs again.
    ``failed``    the text of its exception; the task runs again.
    ``question``  an open `juncture.types.Interrupt`.
    ``answer``    the answer to a question; `MISSING` if it was taken back, because the node refused it.
    ``call``      the result of a call made inside it.
    ``intent``    an effect that is about to be made: an `engine.journal.Intent`, or None if that was taken back.
    ``once``      what such an effect gave.
    ``doubt``     a question about an effect of which only the intent is known; the task failed because of it.
    ``paused``    a static pause at this checkpoint, or the fact that it was passed.
    ``nested``    where a nested graph of the task stood when the task paused or failed, or after it was edited.
    """

    task_id: str
    kind: RecordKind
    name: str
    """What it is about, unique with task and kind: the identity of a question or call; for ``nested``, the nested graph's
    checkpoint; empty otherwise."""
    content: Any
    """For ``done``: ``(writes, targets, sends)``, and if there is something to say, where its nested graph stands (or
    None), and True if its routers weren't asked; None if all that was taken back. For ``nested``, the nested graph's level
    in the namespace; otherwise as the kind says."""


class Around(NamedTuple):
    """What of its parent a nested graph's checkpoint was made in."""

    checkpoint_id: str
    """The parent's newest checkpoint then."""
    known: int
    """How many records stood beside that: what was known of the tasks of its step."""


@dataclass(slots=True)
class State:
    """One graph's state between two supersteps."""

    step: int = 0
    """The superstep that made it, counted through the whole thread; 0 is the input of a new thread."""
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is shown, by key; keys without a value are absent."""
    cells: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is stored for keys whose channel shows something else than it stores."""
    due: tuple[str, ...] = ()
    """The nodes that edges made due for the next step, in plan order (by name), each once."""
    sends: tuple[Send, ...] = ()
    """The sends for the next step, in the order sent."""
    joins: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """For each join that is partly filled: the sources that arrived, sorted."""
    deferred: tuple[str, ...] = ()
    """Deferred nodes that were triggered and wait for everything else to end, sorted."""
    written: tuple[tuple[str, Any], ...] = ()
    """A nested graph's own writes so far that its parent takes one by one, in commit order."""
    touched: tuple[str, ...] = ()
    """The other keys that a nested graph itself wrote, sorted; its parent takes their final value."""
    paused_after: tuple[str, ...] = ()
    """The nodes after which the run paused at this point; empty if it didn't."""
    unrouted: tuple[str, ...] = ()
    """The nodes whose routers weren't asked yet where they lead, each once for every task, in plan order."""
    carried: tuple[TaskRecord, ...] = ()
    """What was saved about tasks of the next step beside an earlier checkpoint, before a command's update made this
    one; it counts as if it stood beside this one, before what does."""
    ran: tuple[str, ...] = ()
    """The nodes whose writes made it, in plan order; `START` for an input. Only kept where it is saved."""
    branch: str = ""
    """After going back in time: the checkpoint that was the newest then. Part of the ids of tasks, so that they aren't
    those of the branch that was left. ``a>b``: ``a`` holds for the step that is due, whose questions were
    answered anew, and ``b`` from then on."""
    memory: dict[str, str] = field(default_factory=dict[str, str])
    """For each nested graph with a memory of its own (by node): the checkpoint at which it stands."""
    origin: str = ""
    """Of a copied thread: the thread that it was copied from, whose name is part of the ids of its questions."""
    owner: str = ""
    """Of a nested graph with a memory of its own: the parent's task that it last began for."""
    around: Around | None = None
    """Of a nested graph: what of its parent it was made in. None in checkpoints that don't say it."""
    edited: tuple[str, ...] = ()
    """The checkpoints of the same step that this one was edited from, oldest first: what its nested graphs did around them
    still counts."""
    flat: Flat | None = field(default_factory=dict[str, list[Any]], compare=False, repr=False)
    """What copying its values found out about them; no part of the state. None where nodes can reach its containers."""


@dataclass(slots=True)
class Saved:
    """A checkpoint as it was read back, with what was saved beside it."""

    checkpoint_id: str
    parent_id: str | None
    state: State
    records: list[TaskRecord]
    """In the order in which they were saved."""
    source: str = "loop"
    """What made it: ``input``, ``loop``, ``update``, ``fork`` or ``command``."""
    run_id: str = ""
    """The run that made it."""
    created_at: float = 0.0
    """Seconds since the epoch, by the clock of the process that saved it."""
    head_id: str = ""
    """The newest checkpoint of its namespace when it was read; empty where that is this one."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the caller of the run that made it gave."""

    @property
    def is_newest(self) -> bool:
        """Whether it was the newest of its namespace when it was read."""
        return self.head_id in ("", self.checkpoint_id)


__all__ = ["Around", "RecordKind", "Saved", "State", "TaskRecord"]
