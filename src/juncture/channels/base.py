"""The contract of a channel: how one key of the state is stored, merged and shown.

A channel object describes; it holds no value. What it stores for a key is an ordinary value that the engine keeps
and hands back, so a checkpoint of a key is just that value, and one channel object serves every run at once.

The laws, for every channel ``c``, stored value ``s`` (or `MISSING`) and list of writes ``ws``:

1. ``c.update(s, ws)`` is pure: it changes neither ``s`` nor ``ws``, and equal arguments give equal results. Where it
   calls a reducer that isn't known to be pure (``c.pure`` is false), that holds as far as the reducer keeps to it.
2. ``ws`` is in plan order; the result depends on it only through this order.
3. ``c.update(s, [])`` is what a step without writes leaves. Where ``c.volatile`` is false it is ``s`` itself, and
   the engine doesn't call it.
4. ``c.show(s)`` is what nodes see, or `MISSING`. Where ``c.plain`` is true it is ``s`` itself.
5. ``c.finish(s)`` is what the end of the run leaves; ``c.consume(s)`` what is left once a node has read it.
   Both are ``s`` itself unless the channel says otherwise.
6. `InvalidUpdateError` is raised for writes that can't be merged; the engine adds node, key and step.

Among the writes may be ones that replace: `Overwrite` in each of its forms, and `MARK_FOR_REMOVAL`. `update` gets them
as they were written, because only the channel knows what replacing means to it; ``marks`` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from juncture.types import MISSING

Reducer = Callable[[Any, Any], Any]
"""Merges (old, new) into one value. It must not change ``old``; the engine hands it a copy unless it is known pure."""


class Channel:
    """One way to store and merge a key. Subclasses override `update`, and the flags and methods that differ."""

    __slots__ = ("typ",)

    plain: ClassVar[bool] = True
    """What is stored is what is shown."""
    tracked: ClassVar[bool] = True
    """It is part of checkpoints."""
    reduces: ClassVar[bool] = False
    """Several writes in one step are merged by a function that the user gave."""

    def __init__(self, typ: Any = Any) -> None:
        """Takes the type of the values, as annotated; `Any` if unknown."""
        self.typ = typ

    @property
    def volatile(self) -> bool:
        """A step without a write changes it: the engine calls ``update(stored, [])`` for it."""
        return False

    @property
    def pure(self) -> bool:
        """`update` may be given the committed value itself; where false, the engine hands it a copy."""
        return True

    def initial(self) -> Any:
        """What is stored before the first write; `MISSING` for nothing."""
        return MISSING

    def update(self, stored: Any, writes: Sequence[Any]) -> Any:
        """What is stored after the writes of one step.

        Raises:
            InvalidUpdateError: The writes can't be merged. ``stored`` is unchanged.
        """
        raise NotImplementedError(f"{type(self).__name__} must say how it merges writes: override update()")

    def show(self, stored: Any) -> Any:
        """What nodes see of it; `MISSING` if it is not available."""
        return stored

    def finish(self, stored: Any) -> Any:
        """What is stored once nothing else is left to run."""
        return stored

    def consume(self, stored: Any) -> Any:
        """What is stored once the nodes it triggered have read it."""
        return stored

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._parts() == cast("Channel", other)._parts()

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={part!r}' for name, part in self._parts().items())})"
        )

    def _parts(self) -> dict[str, Any]:
        """Its attributes, slots first from the base down: what makes two channels of one class the same."""
        slots: list[str] = []
        for base in reversed(type(self).__mro__):
            own = base.__dict__.get("__slots__", ())
            slots += [own] if isinstance(own, str) else own
        return {name: getattr(self, name) for name in slots if not name.startswith("__")} | getattr(
            self, "__dict__", {}
        )
