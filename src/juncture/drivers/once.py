"""`once` and `aonce`: side effects that are made at most once, also over crashes and retries.

Before the effect its intent is saved, and after it what it gave (`engine.journal`); a task that runs again takes what
was saved. The two functions are the same few lines for two kinds of code; `_Effect` is what they share.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

from juncture.drivers.calls import CallFuture
from juncture.drivers.context import MAKING, current
from juncture.engine.effects import Called, Done, Failed
from juncture.engine.interrupts import answers_in, question_id
from juncture.engine.journal import Intent, intent_in, read_settlement
from juncture.engine.state import RecordKind, TaskRecord
from juncture.engine.values import admitted, copied
from juncture.errors import ConfigError, InDoubtError, note
from juncture.types import MISSING, Interrupt, ValueT

if TYPE_CHECKING:
    from juncture.drivers.run import Program

Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]


class _Effect:
    """One effect that a try wants to have been made."""

    def __init__(self, key: str, retry_in_doubt: bool, not_done: Errors) -> None:
        if not isinstance(key, str) or not key:
            raise ConfigError(f"the key of once() is a string that isn't empty, got {key!r}")
        self.key = key
        self.retries = retry_in_doubt
        self.not_done = not_done
        self.context = context = current()
        context.check_may_ask(f"once({key!r})")
        self.owner = context.task.parent or context.task
        self.name = f"{context.task.identity}once\x1f{key}"
        self.others: CallFuture[Any] | None = None
        """What stands for the same effect, where other code of the same try is making it right now."""
        self.intent = Intent(self._new_key(), 0)
        self._mine = self._claim()

    def _new_key(self) -> str:
        program, owner = self.context.program, self.owner
        # The thread's own name, not that of the one it was copied from: what a copy does is done for the copy. And the
        # branch: where a question is answered anew, the tasks of that step keep their ids.
        thread = program.shared.thread_id or program.shared.run_id
        place = (thread, *_branches(program), *program.namespace, owner.id, self.name)
        return blake2b("\x1f".join(place).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def _claim(self) -> CallFuture[Any]:
        """Makes this the one that makes the effect, unless another is at it."""
        context = self.context
        mine: CallFuture[Any] = CallFuture(CallFuture.block, context.lending, context)
        with context.locked():
            self.others = context.effects.get(self.name)
            if self.others is None:
                context.effects = {**context.effects, self.name: mine}
        return mine

    def recorded(self) -> Any:
        """What the effect gave earlier; `MISSING` if it is to be made now.

        Raises:
            InDoubtError: It was begun, and nothing more is known.
        """
        records = self.owner.records or ()
        for record in records:
            if record.kind == "once" and record.name == self.name:
                return copied(record.content)
        begun = intent_in(records, self.name)
        if begun is None:
            return MISSING
        self.intent = begun
        question = self._question()
        answer = answers_in(records).get(question.id, MISSING)
        if answer is not MISSING:
            said = read_settlement(answer)
            return copied(said.result) if said.happened else MISSING
        if self.retries:
            return MISSING
        raise InDoubtError(
            f"node {self.owner.node.name!r} began once({self.key!r}), and it isn't known whether it happened: the process was "
            f"stopped before the result was saved, or its function raised. Look up the idempotency key "
            f"{begun.idempotency_key}, and answer the question: Command(resume={{{begun.idempotency_key!r}: "
            '{"happened": True, "result": …}}), or {"happened": False} to have it made again. Where a repetition with the '
            "same key is harmless, say retry_in_doubt=True",
            node=self.owner.node.name,
            idempotency_key=begun.idempotency_key,
            question=question,
        )

    def _question(self) -> Interrupt:
        program, begun = self.context.program, self.intent
        origin = program.loop.request.origin or program.shared.run_id
        identity = question_id(origin, program.namespace, self.owner.id, f"{self.name}\x1f{begun.tries}")
        value = {"in_doubt": self.key, "idempotency_key": begun.idempotency_key}
        return Interrupt(value, identity, self.owner.node.name, program.namespace, begun.idempotency_key)

    def noting(self, kind: RecordKind, content: Any) -> CallFuture[Any]:
        """Has an entry of the journal saved."""
        context = self.context
        context.check_running(f"once({self.key!r})")
        record = TaskRecord(self.owner.id, kind, self.name, content)
        return context.program.driver.call(context, Called(context.task, record=record))

    def begin(self) -> CallFuture[Any]:
        """Has the intent saved."""
        self.intent = Intent(self.intent.idempotency_key, self.intent.tries + 1)
        return self.noting("intent", tuple(self.intent))

    @contextmanager
    def making(self) -> Generator[None, None, None]:
        """While the effect is made nothing may be asked of the run."""
        token = MAKING.set(self.key)
        try:
            yield
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, self.not_done):
                note(
                    error,
                    f"juncture: whether once({self.key!r}) happened is in doubt; its idempotency key is "
                    f"{self.intent.idempotency_key}",
                )
            raise
        finally:
            MAKING.reset(token)

    def settle(self, result: Any) -> Any:
        """Gives the result to whoever waits for the same effect, and to the caller."""
        self._mine.settle(Done.of_call(self.context.task, result))
        return copied(result)

    def failed(self, error: BaseException) -> None:
        """Lets others that wait for it fail as well; the next one tries anew."""
        with self.context.locked():
            self.context.effects = {n: f for n, f in self.context.effects.items() if n != self.name}
        if not isinstance(error, Exception):
            error = InDoubtError(
                f"once({self.key!r}) was stopped while it was made",
                node=self.owner.node.name,
                idempotency_key=self.intent.idempotency_key,
            )
        self._mine.settle(Failed(self.context.task, error))


def _branches(program: Program | None) -> list[str]:
    """Which branches of their histories a graph and those around it are on."""
    branches: list[str] = []
    while program is not None:
        branches.append(program.loop.state.branch)
        outer = program.driver.outer
        program = program.parent or (outer.program if outer is not None and program.namespace else None)
    return branches


def once(
    key: str, function: Callable[[str], ValueT], *, retry_in_doubt: bool = False, not_done: Errors = ()
) -> ValueT:
    """Makes a side effect at most once in the life of a task, and returns what it gave.

    The intent is saved before `function` is called and its result afterwards, both durably whatever the run's
    durability, so a task that runs again (a retry, a resume after a pause, a restart after a crash) is given the
    recorded result. If the process was stopped in between, or `function` raised, it isn't known what happened.

    Args:
        key: Names the effect within its task: a node, or a call of a `task`. The same key again is the same effect.
        function: Makes it. It is given the idempotency key: 32 hexadecimal digits, the same whenever the effect is
            tried again, for the service that it calls. It must not pause, nor call tasks or graphs.
        retry_in_doubt: Call it again with the same idempotency key where it isn't known what happened, instead of
            raising.
        not_done: Exceptions by which `function` says that nothing happened: then it may be called again.

    Raises:
        InDoubtError: The effect was begun earlier and isn't known to have ended. The function isn't called, and once the
            task has failed with it, a question is open by which somebody can say what happened.
        ConfigError: Called outside of a node, or where waiting would block the event loop (use `aonce`).
        SaverError: The intent can't be saved; then the function isn't called.
        Exception: What the function raised.

    Without a saver the effect is made once a run.
    """
    effect = _Effect(key, retry_in_doubt, not_done)
    if effect.others is not None:
        return effect.others.result()
    try:
        effect.context.program.driver.check_may_block(f"once({key!r})", "aonce")
        if inspect.iscoroutinefunction(function):
            raise ConfigError(f"once({key!r}) was given an async function; await aonce({key!r}, …) instead")  # noqa: TRY301 - whoever waits for the effect is to hear of it as well
        found = effect.recorded()
        if found is MISSING:
            effect.begin().result()
            try:
                with effect.making():
                    found = admitted(function(effect.intent.idempotency_key))
            except not_done:
                effect.noting("intent", None).result()
                raise
            effect.noting("once", found).result()
        return cast("ValueT", effect.settle(found))
    except BaseException as error:
        effect.failed(error)
        raise


@overload
async def aonce(
    key: str,
    function: Callable[[str], Awaitable[ValueT]],
    *,
    retry_in_doubt: bool = False,
    not_done: Errors = (),
) -> ValueT: ...
@overload
async def aonce(
    key: str, function: Callable[[str], ValueT], *, retry_in_doubt: bool = False, not_done: Errors = ()
) -> ValueT: ...
async def aonce(
    key: str, function: Callable[[str], Any], *, retry_in_doubt: bool = False, not_done: Errors = ()
) -> Any:
    """As `once`, for async code: nothing blocks. `function` may be async; a sync one is called on the event loop's thread."""
    effect = _Effect(key, retry_in_doubt, not_done)
    if effect.others is not None:
        return await effect.others
    try:
        found = effect.recorded()
        if found is MISSING:
            await effect.begin()
            try:
                with effect.making():
                    found = function(effect.intent.idempotency_key)
                    found = admitted((await found) if inspect.isawaitable(found) else found)
            except not_done:
                await effect.noting("intent", None)
                raise
            await effect.noting("once", found)
        return effect.settle(found)
    except BaseException as error:
        effect.failed(error)
        raise


__all__ = ["aonce", "once"]
