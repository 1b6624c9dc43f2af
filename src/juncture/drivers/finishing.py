"""The end of a run's log, which never hides what ended the run.

Where the run fails or is cancelled and its log can't be finished either, the run's own exception is raised, with a note
of the other; a cancellation, whose notes hardly anybody sees, is logged as well.
"""

from __future__ import annotations

from juncture.errors import described, note
from juncture.persistence.threads import ThreadLog


class Finishing:
    """Finishes a log, if there is one, when it is left; for sync and async code.

    Raises:
        Exception: What finishing raised, unless something else ends the run.
    """

    __slots__ = ("_log",)

    def __init__(self, log: ThreadLog | None) -> None:
        self._log = log

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._log is not None:
            try:
                self._log.finish()
            except Exception as also:  # noqa: BLE001 - raised again, or said on what ended the run
                _said_on(error, also)

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._log is not None:
            try:
                await self._log.afinish()
            except Exception as also:  # noqa: BLE001 - raised again, or said on what ended the run
                _said_on(error, also)


def _said_on(error: BaseException | None, also: Exception) -> None:
    if error is None or isinstance(error, GeneratorExit):
        raise also
    if error is also:
        return
    said = "\n".join([described(also), *getattr(also, "__notes__", ())])
    note(error, f"juncture: the end of the run failed as well: {said}")
    if not isinstance(error, Exception):
        import logging  # here: it is slow to import, and seldom needed

        logging.getLogger("juncture").warning("a run that was stopped could not be ended well", exc_info=also)
