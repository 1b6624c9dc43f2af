"""Where an exception came from, said on the exception itself.

Our own errors carry the place as attributes. Any other exception is left as it is, with a note and the attribute
``__juncture__``; the innermost graph speaks first and isn't contradicted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from juncture.engine.run import Loop
from juncture.errors import JunctureError, note, place_note
from juncture.types import NodeFailure, RunResult

if TYPE_CHECKING:
    from juncture.drivers.run import Shared

_ATTRIBUTE: Final = "__juncture__"


def locate(error: BaseException, shared: Shared, namespace: tuple[str, ...], loop: Loop) -> None:
    """Writes the place on an exception, unless a nested graph of the same run did."""
    known = failure(error)
    if known is not None and known.run_id == shared.run_id:
        return
    task = loop.failed
    node = task.node.name if task is not None else error.node if isinstance(error, JunctureError) else None
    step = task.step if task is not None else loop.state.step + 1
    if task is None and isinstance(error, JunctureError) and error.step is not None:
        step = error.step
    attempt = task.attempt if task is not None else None
    place = NodeFailure(node, step, shared.thread_id, namespace, shared.run_id, attempt, None)
    _mark(error, place)
    if (
        known is not None
    ):  # the same object was raised in an earlier run: say where it is now, not where it was
        _drop_notes(error)
    text = place_note(
        node=node,
        step=step,
        thread_id=shared.thread_id,
        namespace=namespace,
        run_id=shared.run_id,
        attempt=attempt,
    )
    if not _has_note(error, text):
        note(error, text)


def _has_note(error: BaseException, text: str) -> bool:
    try:
        return text in error.__notes__
    except Exception:  # noqa: BLE001 - it has no notes, or raises when it is read
        return False


def _drop_notes(error: BaseException) -> None:
    try:
        error.__notes__ = [old for old in error.__notes__ if not old.startswith("juncture: ")]
    except Exception:  # noqa: BLE001 - whatever it raises when it is read or written to, it is the one to raise
        return


def _mark(error: BaseException, place: NodeFailure) -> None:
    if isinstance(error, JunctureError):
        error.node = error.node or place.node
        error.step = place.step if error.step is None else error.step
        error.thread_id, error.namespace = place.thread_id, place.namespace
        error.run_id, error.attempt = place.run_id, place.attempt
        if place.result is not None:
            error.result = place.result
    try:
        setattr(error, _ATTRIBUTE, place)
    except Exception:  # noqa: BLE001 - it refuses attributes: the note is all there is
        return


def add_result(error: BaseException, result: RunResult) -> None:
    """Puts the run's result so far on an exception that `locate` has seen."""
    known = failure(error)
    if known is not None:
        _mark(error, known._replace(result=result))


def failure(error: BaseException) -> NodeFailure | None:
    """Where an exception came from that a run raised, and the run's result so far; None if no run raised it."""
    try:
        known: Any = getattr(error, _ATTRIBUTE, None)
    except Exception:  # noqa: BLE001 - whatever it raises when it is read, it says nothing about a run
        return None
    return known if isinstance(known, NodeFailure) else None
