"""Writes that replace a key's value instead of being merged into it, in every form they come in.

* `Overwrite(v)`, ``{"__overwrite__": v}``, and a dict whose ``type`` is ``"__overwrite__"`` with a ``value``: the two
  latter are what a JSON round trip leaves, as in LangGraph 1.2.24;
* `MARK_FOR_REMOVAL`, and ``{"type": "__removal__"}`` for JSON. `Overwrite(MARK_FOR_REMOVAL)` removes as well.

In one step, the writes before a replacing one are replaced and the ones after it are merged into the new value. Two
overwrites, or an overwrite and a removal, contradict each other and are refused; two removals agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from juncture.errors import InvalidUpdateError
from juncture.types import MARK_FOR_REMOVAL, MISSING, Overwrite

OVERWRITE: Final = "__overwrite__"
"""Says in a dict that it is an `Overwrite`."""
REMOVAL: Final = "__removal__"
"""Says in a dict that it is a `MARK_FOR_REMOVAL`."""


def replacement(write: Any) -> Any:
    """What a write puts in the place of the value: the new value, `MARK_FOR_REMOVAL`, or `MISSING` for ordinary ones."""
    if isinstance(write, Overwrite):
        return cast("Any", write).value
    if isinstance(write, dict):
        return _replacement_in(cast("dict[Any, Any]", write))
    return write if write is MARK_FOR_REMOVAL else MISSING


def _replacement_in(write: dict[Any, Any]) -> Any:
    if OVERWRITE in write and len(write) == 1:
        return write[OVERWRITE]
    kind = write.get("type")
    if not isinstance(kind, str):
        return MISSING
    if kind == OVERWRITE and "value" in write:
        return write["value"]
    return MARK_FOR_REMOVAL if kind == REMOVAL and len(write) == 1 else MISSING


def settled(write: Any) -> Any:
    """What a write leaves where nothing is merged: the value, unwrapped; `MISSING` for a removal."""
    new = replacement(write)
    if new is MISSING:
        return write
    return MISSING if new is MARK_FOR_REMOVAL else new


def last_replacement(writes: Sequence[Any]) -> tuple[int, Any]:
    """Where the last replacing write stands, and what it leaves (`MISSING` for a removal); ``(-1, MISSING)`` for none.

    Raises:
        InvalidUpdateError: Two of them contradict each other.
    """
    place, left = -1, cast("Any", MISSING)
    for index, write in enumerate(writes):
        new = replacement(write)
        if new is MISSING:
            continue
        new = MISSING if new is MARK_FOR_REMOVAL else new
        if place >= 0 and not (new is MISSING and left is MISSING):
            raise _contradiction(both_overwrite=new is not MISSING and left is not MISSING)
        place, left = index, new
    return place, left


def _contradiction(*, both_overwrite: bool) -> InvalidUpdateError:
    if both_overwrite:
        return InvalidUpdateError(
            "Can receive only one Overwrite value per super-step, and got two. Let one node overwrite the key, "
            "or let the second do so in a later step"
        )
    return InvalidUpdateError(
        "the key is overwritten and removed in the same super-step, and only one of them can be meant. "
        "Let one node do it, or the second in a later step"
    )
