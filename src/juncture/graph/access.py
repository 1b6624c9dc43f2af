"""What threads hold: reading, editing and looking after them, without running their nodes.

Each operation is written once (`operations`) and has two faces, for sync and async code. Everything that names a
checkpoint is a config as calls take it (``{"configurable": {"thread_id": …, "checkpoint_id": …, "checkpoint_ns": …}}``,
as in `StateSnapshot.config`), or just the id of a thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from juncture.engine.edit import MEMORY
from juncture.engine.tables import Tables
from juncture.errors import ConfigError
from juncture.graph import inside
from juncture.graph.calls import Call
from juncture.graph.operations import (
    History,
    Place,
    RecoveredThread,
    ThreadPrograms,
    Where,
    named,
    place_of,
)
from juncture.graph.options import RunOptions
from juncture.persistence import upkeep
from juncture.persistence.asking import aperformed, performed
from juncture.persistence.format import config_of
from juncture.savers.base import Saver
from juncture.types import StateDiff, StateSnapshot, StateUpdate, ThreadSnapshot

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from juncture.engine.goback import Back
    from juncture.graph.compiled import CompiledGraph
    from juncture.persistence.codec import Codec
    from juncture.persistence.leases import Held


class ThreadAccess:
    """The part of a compiled graph that doesn't run it. Every method has a twin with an ``a`` for async code.

    All of them raise `ConfigError` where the graph has no saver or no thread is named, and what the saver raises where it
    can't do what is asked (`SaverUnavailableError`, …).
    """

    name: str
    tables: Tables
    codec: Codec
    checkpointer: Saver | None

    # ---- reading

    def get_state(self, config: Where, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread: its newest, or that of the checkpoint that the config names.

        Args:
            config: With a ``checkpoint_ns``, a nested graph's state.
            subgraphs: Show the states of nested graphs in `TaskSnapshot.state`, instead of configs that name them.

        Returns:
            A snapshot; for a thread that has no checkpoint, an empty one without metadata. The newest state shows what
            tasks of an unfinished step wrote as applied.

        Raises:
            CheckpointNotFoundError: The thread has no such checkpoint.
            SerializationError: It can't be read.
        """
        return performed(self.threads.get_state(config, nested=subgraphs))

    async def aget_state(self, config: Where, *, subgraphs: bool = False) -> StateSnapshot:
        """As `get_state`."""
        return await aperformed(self.threads.get_state(config, nested=subgraphs))

    def get_state_history(
        self,
        config: Where,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name that users of LangGraph know
        before: Where | None = None,
        limit: int | None = None,
        values: bool = True,
    ) -> Generator[StateSnapshot, None, None]:
        """The states of a thread, from the newest to the oldest, read as they are asked for.

        Args:
            config: With a ``checkpoint_ns``, a nested graph's.
            filter: Only states whose metadata has these entries.
            before: Only states before this checkpoint: a config that names one of the same thread and nested graph, or its id
                (of the checkpoint: here a string doesn't name a thread).
            limit: At most so many.
            values: Read the values; without them, `StateSnapshot.values` is empty, and a long history is listed fast.
        """
        wanted = History(self.threads, config, filter, before, limit, values=values)
        while (page := performed(wanted.page())) is not None:
            yield from page

    async def aget_state_history(
        self,
        config: Where,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name that users of LangGraph know
        before: Where | None = None,
        limit: int | None = None,
        values: bool = True,
    ) -> AsyncGenerator[StateSnapshot, None]:
        """As `get_state_history`."""
        wanted = History(self.threads, config, filter, before, limit, values=values)
        while (page := await aperformed(wanted.page())) is not None:
            for one in page:
                yield one

    def diff(self, first: Where, second: Where) -> StateDiff:
        """What differs between the states of two checkpoints, which may be of different threads."""
        return performed(self.threads.diff(first, second))

    async def adiff(self, first: Where, second: Where) -> StateDiff:
        """As `diff`."""
        return await aperformed(self.threads.diff(first, second))

    def get_threads(self, *, after: str | None = None, limit: int | None = None) -> list[ThreadSnapshot]:
        """The threads that the saver keeps, sorted by id as text, without their values.

        Args:
            after: Only threads with a greater id: to go on with a listing.
            limit: At most so many.
        """
        return performed(self.threads.get_threads(after, limit))

    async def aget_threads(
        self, *, after: str | None = None, limit: int | None = None
    ) -> list[ThreadSnapshot]:
        """As `get_threads`."""
        return await aperformed(self.threads.get_threads(after, limit))

    # ---- editing

    def update_state(self, config: Where, values: Any, as_node: str | None = None) -> dict[str, Any]:
        """Writes to a thread's state as if a node had returned it, and makes a checkpoint of that.

        Reducers merge the values, and the node's edges and routers decide what is due next, instead of what was.
        A task that is still due afterwards keeps what was saved about it: its writes, its questions, its answers.

        Args:
            config: The thread; with a ``checkpoint_id``, an older state to start from: a fork, which becomes the newest;
                with a ``checkpoint_ns``, a nested graph.
            values: What the node might have returned. None writes nothing.
            as_node: The node; by default the one that made the newest state. `START` for the graph's input, `END` with None as
                the values to drop everything that is due, ``"__copy__"`` with None to copy the checkpoint.

        Returns:
            A config that names the new checkpoint.

        Raises:
            InvalidUpdateError: The node doesn't exist or isn't clear, or the state can't take the values. Nothing changed.
            ThreadBusyError: A run has the thread. Nothing changed.

        Source:
            LangGraph 1.2.24's `update_state`, except that there every pending task is dropped.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node)]])

    async def aupdate_state(self, config: Where, values: Any, as_node: str | None = None) -> dict[str, Any]:
        """As `update_state`."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node)]])

    def bulk_update_state(self, config: Where, supersteps: Sequence[Sequence[StateUpdate]]) -> dict[str, Any]:
        """As `update_state`, for several supersteps, each of several updates that are merged like the tasks of one step.

        Raises:
            ConfigError: There is nothing to write.
        """
        place = self._edited(config, supersteps)
        head = performed(inside.edit(self.threads, self.editing(), place, _updates(supersteps)))
        return config_of(place.thread_id, place.namespace, head)

    async def abulk_update_state(
        self, config: Where, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> dict[str, Any]:
        """As `bulk_update_state`."""
        place = self._edited(config, supersteps)
        head = await aperformed(inside.edit(self.threads, self.editing(), place, _updates(supersteps)))
        return config_of(place.thread_id, place.namespace, head)

    # ---- looking after threads

    def copy_thread(self, source: str, target: str) -> None:
        """Copies a thread with its whole history and its open questions, which keep their ids.

        Raises:
            ThreadNotFoundError: There is no such thread.
            ConfigError: The target has checkpoints already. Nothing was changed.
        """
        performed(upkeep.copy_thread(self._saver(), self.codec, named(source), named(target)))

    async def acopy_thread(self, source: str, target: str) -> None:
        """As `copy_thread`."""
        await aperformed(upkeep.copy_thread(self._saver(), self.codec, named(source), named(target)))

    def delete_thread(self, thread_id: str) -> None:
        """Removes everything of a thread. An unknown thread is fine.

        Raises:
            ThreadBusyError: A run has it. Nothing was removed.
        """
        performed(upkeep.delete_thread(self._saver(), named(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await aperformed(upkeep.delete_thread(self._saver(), named(thread_id)))

    def archive_thread(self, thread_id: str) -> str:
        """Moves a thread out of the way, so that its id can be used anew; the id under which it is kept from now on.

        Raises:
            ThreadNotFoundError: There is no such thread.
            ThreadBusyError: A run has it. Nothing was changed.
        """
        return performed(self.threads.archive(named(thread_id)))

    async def aarchive_thread(self, thread_id: str) -> str:
        """As `archive_thread`."""
        return await aperformed(self.threads.archive(named(thread_id)))

    def prune(
        self,
        thread_id: str | None = None,
        *,
        keep: int | None = None,
        older_than: timedelta | float | None = None,
    ) -> int:
        """Removes old checkpoints; what remains still loads, and resumes. The newest of a thread always remains.

        Args:
            thread_id: The thread; by default all, except those that are being run.
            keep: Keep the newest so many.
            older_than: Keep those that are younger; a time or seconds, by the clocks of the processes that made them. With
                `keep` as well, what either keeps is kept.

        Returns:
            How many were removed, those of nested graphs included.

        Raises:
            ThreadNotFoundError: There is no such thread.
            ThreadBusyError: A run has that thread. Nothing was removed.
        """
        return performed(
            self.threads.prune(None if thread_id is None else named(thread_id), keep, older_than)
        )

    async def aprune(
        self,
        thread_id: str | None = None,
        *,
        keep: int | None = None,
        older_than: timedelta | float | None = None,
    ) -> int:
        """As `prune`."""
        return await aperformed(
            self.threads.prune(None if thread_id is None else named(thread_id), keep, older_than)
        )

    def recover(
        self,
        thread_ids: Sequence[str] | None = None,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions[Any]],
    ) -> list[RecoveredThread]:
        """Finds the threads whose run died with its process, and runs them on to their end or next pause.

        A run that paused, failed or was stopped gave its thread back, and isn't touched; nor is one that lives. Several
        processes may do this at once: each thread is taken by one.

        Args:
            thread_ids: Only these.
            config: As for `invoke`, without a thread.
            options: As for `invoke`, without ``thread_id``.

        Returns:
            What became of each thread, sorted by id. A run that fails is reported, and doesn't stop the others.
        """
        return performed(self.threads.recover(self._going_on(config, options), thread_ids))

    async def arecover(
        self,
        thread_ids: Sequence[str] | None = None,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions[Any]],
    ) -> list[RecoveredThread]:
        """As `recover`."""
        return await aperformed(self.threads.recover(self._going_on(config, options), thread_ids))

    # ---- where

    def _saver(self) -> Saver:
        if self.checkpointer is None:
            raise ConfigError(
                "No checkpointer set: this graph keeps no threads. Compile it with a saver, "
                'for example compile(checkpointer="sqlite:runs.db")'
            )
        return self.checkpointer

    @property
    def threads(self) -> ThreadPrograms:
        """The threads that its saver keeps.

        Raises:
            ConfigError: It has none.
        """
        return ThreadPrograms(self._saver(), self.codec, self.tables)

    @property
    def _itself(self) -> CompiledGraph[Any, Any, Any, Any]:
        """The graph, as what it is: only compiled graphs are made of this."""
        return cast("CompiledGraph[Any, Any, Any, Any]", self)

    def _going_on(
        self, config: Mapping[str, Any] | None, options: RunOptions[Any]
    ) -> Callable[[str, Held], Call]:
        """What makes the call that goes on with a thread that was taken over; config and options are looked at once."""
        if "thread_id" in options:
            raise ConfigError("recover finds the threads itself: name those that you want by thread_ids=[…]")

        given = cast("Mapping[str, Any]", options)

        def call(thread_id: str, held: Held | None) -> Call:
            return Call(self._itself, None, config, thread_id=thread_id, held=held, **given)

        call("any", None)
        return call

    def _edited(self, config: Where, supersteps: Sequence[Sequence[StateUpdate]]) -> Place:
        """Which state is edited.

        Raises:
            ConfigError: There is nothing to write, or nowhere.
        """
        if not supersteps or not all(supersteps):
            raise ConfigError("there is nothing to update: give at least one update in each superstep")
        if any(StateUpdate(*update).as_node == MEMORY for updates in supersteps for update in updates):
            raise ConfigError(f"{MEMORY!r} is no node, and nothing that can be updated from outside")
        self._saver()
        return place_of(config)

    def editing(self, run: Call | None = None) -> inside.Make:
        """What makes the call that edits one namespace, as part of a run if one is given."""
        named = {} if run is None else {"run_id": run.run_id, "metadata": run.options.metadata}

        def make(place: Place, supersteps: inside.Supersteps, held: Held, back: Back | None) -> Call:
            return Call(
                self._itself,
                None,
                {**named, **config_of(place.thread_id, place.namespace, place.checkpoint_id)},
                durability="sync",
                supersteps=supersteps,
                namespace=place.namespace,
                held=held,
                back=back,
            )

        return make


def _updates(supersteps: Sequence[Sequence[StateUpdate]]) -> inside.Supersteps:
    return [[StateUpdate(*update) for update in updates] for updates in supersteps]


def subgraphs_of(
    graph: CompiledGraph[Any, Any, Any, Any], *, recurse: bool, prefix: str = ""
) -> Iterator[tuple[str, CompiledGraph[Any, Any, Any, Any]]]:
    """The nested graphs of a graph that are its nodes, with the path of their names joined by ``|``."""
    from juncture.graph.compiled import CompiledGraph

    for name, spec in graph.builder.nodes.items():
        action: Any = spec.action
        if isinstance(action, CompiledGraph):
            nested = cast("CompiledGraph[Any, Any, Any, Any]", action)
            yield f"{prefix}{name}", nested
            if recurse:
                yield from subgraphs_of(nested, recurse=True, prefix=f"{prefix}{name}|")


__all__ = ["RecoveredThread", "ThreadAccess", "subgraphs_of"]
