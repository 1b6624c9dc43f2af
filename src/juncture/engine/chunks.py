"""Streams as values: what they are, where they stand in what a node returned, and the value that their chunks make.

A stream never enters the state (right-behaviour 9): it is consumed while its node runs, each chunk is shown at once, and
the value that the chunks make together is what the node wrote. Which one, the chunks say:

* texts (or bytes) are joined;
* lists are concatenated;
* messages are merged: text joined, fragments of tool calls put together, usage added up;
* anything else becomes a list of the chunks.

A `Stream` may name another function. None of these costs more than linear time: parts are collected and joined once;
objects that know how to add themselves are added in a balanced tree.

Refused: telling by the key's type what to do with texts. The same generator would mean one thing in one graph and another
in the next; ``Stream(names, aggregate=list)`` says it. Iterators that are neither generators nor asynchronous (``map``,
files) aren't taken for streams unless a `Stream` is put around them: returning one is more often a mistake.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import GeneratorType
from typing import Any, Generic, cast

from juncture.types import ROOT, Command, ValueT


@dataclass(frozen=True, slots=True)
class Stream(Generic[ValueT]):
    """A stream as the value of a key: its chunks are shown as they come, and what they make together is written."""

    source: Iterable[Any] | AsyncIterable[Any]
    """Gives the chunks; it is consumed once. None among them is passed over; an exception ends it by being raised."""
    aggregate: Callable[[list[Any]], ValueT] | None = None
    """Makes the value from the list of all chunks; by default what fits their kind."""
    chunk: Callable[[Any], Any] | None = None
    """Makes the chunk that is shown and counted from what the source gave; None from it leaves the chunk out."""

    def __next__(self) -> Any:
        """Never called: it marks the class as what can't be part of the state."""
        raise TypeError("iterate over the stream's source")


@dataclass(frozen=True, slots=True)
class Chunk(Generic[ValueT]):
    """Yielded by a generator node as a key's value: one chunk of the value that its chunks make together."""

    value: ValueT

    def __next__(self) -> Any:
        """Never called: it marks the class as what can't be part of the state."""
        raise TypeError("a chunk isn't iterated over")


@dataclass(frozen=True, slots=True)
class DiscardedChunks:
    """Shown in ``messages`` when a try that had sent chunks failed and is made again: what came from it doesn't count."""

    count: int
    """How many chunks of the node were shown by that try."""
    content: str = ""
    """Empty, so that whoever joins the contents of chunks may pass over it."""


def is_value_stream(value: object) -> bool:
    """Whether a value of an update is taken for a stream."""
    return isinstance(value, (Stream, GeneratorType)) or hasattr(type(value), "__anext__")


def streams_in(result: Any, *, root: bool = False) -> list[tuple[str, Any]]:
    """The streams among the values that a node returned, with their keys, in order.

    Args:
        result: A mapping of state keys, a `Command`, or a list of them.
        root: The state is one unnamed value: what was returned is itself that value.
    """
    if isinstance(result, Command):
        update = cast("Command[Any]", result).update
        return (
            _in_pairs(cast("Sequence[Any]", update))
            if isinstance(update, (list, tuple))
            else streams_in(update, root=root)
        )
    if root:
        return [(ROOT, result)] if is_value_stream(result) else []
    if isinstance(result, Mapping):
        return [(k, v) for k, v in cast("Mapping[str, Any]", result).items() if is_value_stream(v)]
    if isinstance(result, (list, tuple)):
        return [found for part in cast("Sequence[Any]", result) for found in streams_in(part)]
    return []


def _in_pairs(update: Sequence[Any]) -> list[tuple[str, Any]]:
    pairs = [cast("tuple[Any, Any]", pair) for pair in update if isinstance(pair, tuple) and len(pair) == 2]  # pyright: ignore[reportUnknownArgumentType] - a pair of anything
    return [pair for pair in pairs if is_value_stream(pair[1])]


def with_values(result: Any, values: Mapping[int, Any], *, root: bool = False) -> Any:
    """What a node returned, with the values that its streams made in their places.

    Args:
        result: As for `streams_in`.
        values: By the identity of the stream; where it has none, the key isn't written.
        root: As for `streams_in`.
    """
    if isinstance(result, Command):
        command = cast("Command[Any]", result)
        update = command.update
        if isinstance(update, (list, tuple)):
            pairs = cast("Sequence[Any]", update)
            return replace(
                command, update=[_pair(pair, values) for pair in pairs if not _left_out(pair, values)]
            )
        return replace(command, update=with_values(update, values, root=root))
    if root:
        return values.get(id(result)) if is_value_stream(result) else result
    if isinstance(result, Mapping):
        return {
            name: values.get(id(value), value)
            for name, value in cast("Mapping[str, Any]", result).items()
            if not is_value_stream(value) or id(value) in values
        }
    if isinstance(result, (list, tuple)):
        return [with_values(part, values) for part in cast("Sequence[Any]", result)]
    return result


def _pair(pair: Any, values: Mapping[int, Any]) -> Any:
    name, value = pair
    return name, values.get(id(value), value)


def _left_out(pair: Any, values: Mapping[int, Any]) -> bool:
    return is_value_stream(pair[1]) and id(pair[1]) not in values


# ---- what chunks make together


def aggregated(chunks: list[Any]) -> Any:
    """The value that chunks make together, by their kind; of none, None."""
    if not chunks:
        return None
    if all(isinstance(chunk, str) for chunk in chunks):
        return "".join(chunks)
    if all(isinstance(chunk, bytes) for chunk in chunks):
        return b"".join(chunks)
    if all(isinstance(chunk, list) for chunk in chunks):
        return [item for chunk in chunks for item in chunk]
    if all(map(_is_message_dict, chunks)):
        return _merged(chunks)
    if all(map(_adds_up, chunks)):
        return _sum(chunks)
    return chunks


def _is_message_dict(chunk: Any) -> bool:
    return isinstance(chunk, dict) and ("role" in chunk or "type" in chunk)


def _adds_up(chunk: Any) -> bool:
    """Whether it is a message object that knows how to add another, as LangChain's message chunks do."""
    return hasattr(chunk, "content") and hasattr(cast("object", type(chunk)), "__add__")


def _sum(chunks: Sequence[Any]) -> Any:
    """All of them added in a balanced tree: each text is copied as often as the tree is deep."""
    while len(chunks) > 1:
        pairs = zip(chunks[::2], chunks[1::2], strict=False)
        chunks = [left + right for left, right in pairs] + ([chunks[-1]] if len(chunks) % 2 else [])
    return chunks[0]


def _merged(chunks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One message of its chunks. Of what isn't said below, the last chunk that says it holds."""
    message: dict[str, Any] = {}
    texts: list[Any] = []
    fragments: list[Any] = []
    usage: dict[str, Any] = {}
    for chunk in chunks:
        for name, value in chunk.items():
            if name == "content":
                texts += [value] if value is not None else []
            elif name == "tool_calls":
                fragments += value or ()
            elif name == "usage":
                usage = _added(usage, value or {})
            elif value is not None or name not in message:
                message[name] = value
    message["content"] = aggregated(texts) if texts else ""
    if fragments:
        message["tool_calls"] = _tool_calls(fragments)
    if usage:
        message["usage"] = usage
    return message


def _added(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Usage added up: numbers by name, in groups too; of anything else the last."""
    total = dict(left)
    for name, value in right.items():
        before = total.get(name)
        if isinstance(value, Mapping):
            group = cast("Mapping[str, Any]", value)
            total[name] = _added(
                cast("Mapping[str, Any]", before) if isinstance(before, Mapping) else {}, group
            )
        elif isinstance(value, (int, float)) and isinstance(before, (int, float)):
            total[name] = before + value
        elif value is not None:
            total[name] = value
    return total


_ARGUMENTS = ("arguments", "args")


def _tool_calls(fragments: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tool calls from their fragments: one that names an ``id`` or an ``index`` belongs to the call of that name.

    One that names neither goes on with the call that came last. Texts of arguments are joined in order.
    """
    calls: list[dict[str, Any]] = []
    texts: list[list[str]] = []
    places: dict[tuple[str, Any], int] = {}
    for fragment in fragments:
        names = [(by, fragment[by]) for by in ("id", "index") if fragment.get(by) is not None]
        known = [places[name] for name in names if name in places]
        if known:
            place = known[0]
        elif names or not calls:
            place = len(calls)
            calls.append({})
            texts.append([])
        else:
            place = len(calls) - 1
        places.update(dict.fromkeys(names, place))
        call = calls[place]
        for name, value in fragment.items():
            if name in _ARGUMENTS and isinstance(value, str):
                call.setdefault(name, "")
                texts[place].append(value)
            elif value is not None or name not in call:
                call[name] = value
    for call, parts in zip(calls, texts, strict=True):
        for name in _ARGUMENTS:
            if parts and call.get(name) == "":
                call[name] = "".join(parts)
    return calls


# ---- messages


def is_message(value: Any) -> bool:
    """Whether it shows in ``messages``: an object or dict that has a role or type, and content."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return "content" in fields and isinstance(fields.get("role") or fields.get("type"), str)
    return hasattr(value, "content") and isinstance(
        getattr(value, "role", None) or getattr(value, "type", None), str
    )


def messages_in(value: Any) -> list[Any]:
    """The messages in a value: itself, or the items of a list."""
    if isinstance(value, list):
        return [item for item in cast("list[Any]", value) if is_message(item)]
    return [value] if is_message(value) else []


def message_id(message: Any) -> str | None:
    """The id of a message; None where it has none."""
    found = (
        cast("dict[str, Any]", message).get("id")
        if isinstance(message, dict)
        else getattr(message, "id", None)
    )
    return found if isinstance(found, str) else None


__all__ = [
    "Chunk",
    "DiscardedChunks",
    "Stream",
    "aggregated",
    "is_message",
    "is_value_stream",
    "message_id",
    "messages_in",
    "streams_in",
    "with_values",
]
