"""The easy way to go on with a thread that waits for people: what it asks, and answering that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from juncture.types import MISSING, Command, Interrupt

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from juncture.graph.compiled import CompiledGraph
    from juncture.graph.options import RunOptions
    from juncture.types import RunResult


class Answerable:
    """The part of a compiled graph that people answer through. Every method has a twin with an ``a`` for async code."""

    def pending(self, thread_id: str) -> tuple[Interrupt, ...]:
        """What a thread waits for, in the order asked: questions and pauses, those of its nested graphs included.

        Each says what it asks (`value`), who (`node`, `namespace`), what fits as an answer (`response_schema`), and why the
        last answer was refused, if it was (`error`). Empty for a thread that waits for nothing, or that isn't known.

        Raises:
            ConfigError: The graph has no saver.
        """
        return self._graph.get_state(thread_id).interrupts

    async def apending(self, thread_id: str) -> tuple[Interrupt, ...]:
        """As `pending`."""
        return (await self._graph.aget_state(thread_id)).interrupts

    def resume(
        self,
        thread_id: str,
        /,
        answers: Any = MISSING,
        *,
        update: Any = None,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions[Any]],
    ) -> RunResult:
        """Answers what a thread asks, and runs it on to its end or next pause.

        Args:
            thread_id: The thread.
            answers: By the id or key of their question, any of them, or the answer to the only one, as in
                `Command`. Without it, the thread goes on past pauses before and after nodes.
            update: Written to the state once, before the first step.
            config: As for `invoke`, without a thread.
            options: As for `invoke`.

        Raises:
            NothingToResumeError: Nothing is asked, or there is nothing to go on with. Nothing was run.
            InvalidAnswerError: An answer isn't what its question asks for. Nothing was saved or run.
            Exception: As `invoke`.
        """
        options["thread_id"] = thread_id
        return self._graph.invoke(_command(answers, update), config, **options)

    async def aresume(
        self,
        thread_id: str,
        /,
        answers: Any = MISSING,
        *,
        update: Any = None,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions[Any]],
    ) -> RunResult:
        """As `resume`."""
        options["thread_id"] = thread_id
        return await self._graph.ainvoke(_command(answers, update), config, **options)

    @property
    def _graph(self) -> CompiledGraph[Any, Any, Any, Any]:
        """The graph, as what it is: only compiled graphs are made of this."""
        return cast("CompiledGraph[Any, Any, Any, Any]", self)


def _command(answers: Any, update: Any) -> Command[Any] | None:
    if answers is MISSING and update is None:
        return None
    return Command(resume=answers, update=update)


__all__ = ["Answerable"]
