"""Annotations without what is wrapped around the type of the value."""

from __future__ import annotations

import typing
from typing import Annotated, Any, Final, get_args, get_origin

import typing_extensions

_QUALIFIERS: Final = frozenset(
    getattr(module, name)
    for module in (typing, typing_extensions)
    for name in ("Required", "NotRequired", "ReadOnly")
    if hasattr(module, name)
)


def bare(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type that is annotated, and the metadata of every `Annotated` around it, inner ones first.

    ``Required``, ``NotRequired``, ``ReadOnly`` and names given by a ``type`` statement are seen through.
    """
    metadata: tuple[Any, ...] = ()
    while True:
        if (origin := get_origin(annotation)) is Annotated:
            annotation, *own = get_args(annotation)
            metadata = (*own, *metadata)
        elif origin in _QUALIFIERS:
            (annotation,) = get_args(annotation)
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation, metadata
