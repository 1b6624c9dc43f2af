"""Debug mode: did a node change an object that it was handed?

Objects in the state are shared with nodes, which must not mutate them. In debug mode everything reachable from the
committed values is described before a node runs and compared afterwards. It costs as much as the state is large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from juncture.engine.values import ATOMS, CONTAINERS
from juncture.errors import StateMutationError


def described(values: Mapping[str, Any]) -> dict[str, Any]:
    """A comparable description of every key's value, to any depth; objects by their class and attributes."""
    return {name: _describe(value, set()) for name, value in values.items()}


def check_unchanged(node: str, before: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Compares with the description taken before the node ran.

    Raises:
        StateMutationError: An object was changed, or a key; names node and key.
    """
    for name, was in before.items():
        if name not in values or _describe(values[name], set()) != was:
            raise StateMutationError(
                f"node {node!r} changed an object of key {name!r} in place. Objects in the state are shared: return a "
                "changed copy instead (dataclasses.replace, model_copy, copy.copy)",
                node=node,
                key=name,
            )


def _describe(value: Any, seen: set[int]) -> Any:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the type of Any is asked for
    if kind in ATOMS:
        return (kind, value) if value == value else (kind, repr(value))  # noqa: PLR0124 - NaN isn't equal to itself
    if id(value) in seen:
        return (kind, "seen")
    seen = {*seen, id(value)}
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return (kind, [(_describe(k, seen), _describe(v, seen)) for k, v in items], *_attributes(value, seen))
    if isinstance(value, (set, frozenset)):
        members = cast("frozenset[Any]", value)
        return (kind, frozenset(hash(member) for member in members), len(members), *_attributes(value, seen))
    if kind in CONTAINERS or isinstance(value, (list, tuple)):
        return (kind, [_describe(v, seen) for v in cast("list[Any]", value)], *_attributes(value, seen))
    attributes = _attributes(value, seen)
    return (
        (kind, *attributes)
        if attributes
        else (kind, repr(value) if kind.__repr__ is not object.__repr__ else id(value))
    )


def _attributes(value: Any, seen: set[int]) -> list[Any]:
    """The attributes of an object, from its dict and its slots."""
    found: list[Any] = []
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        found += [(name, _describe(v, seen)) for name, v in sorted(cast("dict[str, Any]", own).items())]
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                found.append((name, _describe(getattr(value, name), seen)))
    return found
