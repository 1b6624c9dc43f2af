"""Programs that ask a saver, written once for sync and async code.

Such a program is a generator. It yields what it wants called (`Ask`) and is sent what that returned, or has thrown into
it what that raised. `performed` calls the methods themselves, `aperformed` their twins with an ``a``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar

R = TypeVar("R")
_NO_NAMES: Mapping[str, Any] = {}


class Ask(NamedTuple):
    """A method to be called, which has a twin for async code."""

    target: Any
    method: str
    args: tuple[Any, ...] = ()
    named: Mapping[str, Any] = _NO_NAMES
    whole: bool = False
    """Cancelled, it is waited for all the same: so that its effect can be taken back."""


Asking: TypeAlias = Generator[Ask, Any, R]


def performed(program: Asking[R]) -> R:
    """Runs a program by calling, which may block."""
    go: Callable[[Any], Ask] = program.send
    given: Any = None
    while True:
        try:
            target, method, args, named, _ = go(given)
        except StopIteration as end:
            return end.value
        try:
            given, go = getattr(target, method)(*args, **named), program.send
        except BaseException as error:  # noqa: BLE001 - the program decides
            given, go = error, program.throw


async def aperformed(program: Asking[R]) -> R:
    """Runs a program by awaiting."""
    go: Callable[[Any], Ask] = program.send
    given: Any = None
    while True:
        try:
            target, method, args, named, whole = go(given)
        except StopIteration as end:
            return end.value
        try:
            call = getattr(target, "a" + method)(*args, **named)
            given, go = await (_whole(call) if whole else call), program.send
        except BaseException as error:  # noqa: BLE001 - the program decides
            given, go = error, program.throw


async def _whole(call: Coroutine[Any, Any, R]) -> R:
    import asyncio  # a program without async code never pays for it

    running = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):  # cancelled again: it is waited for all the same
                await asyncio.wait([running])
        raise
