"""Where an exception came from, said on the exception itself.

Our own errors carry the place as attributes. Any other exception is left as it is, with a note and the attribute
``__juncture__``; the innermost graph speaks first and isn't contradicted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from juncture.engine.run import Loop
from juncture.errors import JunctureError, place_note
from juncture.types import NodeFailure, RunResult

if TYPE_CHECKING:
    from juncture.drivers.run import Shared

_ATTRIBUTE: Final = "__juncture__"


def locate(error: BaseException, shared: Shared, namespace: tuple[str, ...], loop: Loop) -> None:
    """Writes the place on an exception, unless a nested graph of the same run did."""
    known = getattr(error, _ATTRIBUTE, None)
    if isinstance(known, NodeFailure) and known.run_id == shared.run_id:
        return
    task = loop.failed
    node: str | None = task.node.name if task is not None else getattr(error, "node", None)
    step = task.step if task is not None else loop.state.step + 1
    attempt = task.attempt if task is not None else None
    failure = NodeFailure(node, step, shared.thread_id, namespace, shared.run_id, attempt, None)
    _mark(error, failure)
    note = place_note(
        node=node, step=step, thread_id=shared.thread_id, namespace=namespace, run_id=shared.run_id, attempt=attempt
    )
    notes: list[str] = getattr(error, "__notes__", [])
    if known is not None:  # the same object was raised in an earlier run: say where it is now, not where it was
        notes[:] = [old for old in notes if not old.startswith("juncture: ")]
    if note not in notes:
        error.add_note(note)


def _mark(error: BaseException, failure: NodeFailure) -> None:
    if isinstance(error, JunctureError):
        error.node = error.node or failure.node
        error.step = failure.step if error.step is None else error.step
        error.thread_id, error.namespace = failure.thread_id, failure.namespace
        error.run_id, error.attempt = failure.run_id, failure.attempt
        if failure.result is not None:
            error.result = failure.result
    try:
        setattr(error, _ATTRIBUTE, failure)
    except (AttributeError, TypeError):  # it refuses attributes: the note is all there is
        return


def add_result(error: BaseException, result: RunResult) -> None:
    """Puts the run's result so far on an exception that `locate` has seen."""
    known: Any = getattr(error, _ATTRIBUTE, None)
    if isinstance(known, NodeFailure):
        _mark(error, known._replace(result=result))


def failure(error: BaseException) -> NodeFailure | None:
    """Where an exception came from that a run raised, and the run's result so far; None if no run raised it."""
    known: Any = getattr(error, _ATTRIBUTE, None)
    return known if isinstance(known, NodeFailure) else None
