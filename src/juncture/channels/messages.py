"""Lists of messages, merged by their ids.

A message is any object, or a dict, with ``role`` or ``type``, and an ``id`` (a dict may lack it). LangChain's messages
are such objects; nothing here imports them. A string is a message of the user, a tuple is ``(role, content)``: both
become dicts.

Ids. Nothing here may read a clock or chance, so the id of a message that has none is a hash of the id of the message
before it, its position and its content: the same conversation gets the same ids in every run, and two equal messages
in one list get different ones. `identified` gives ids from a salt instead, for who has one to give: ids that differ
from run to run and task to task, and stay with the message into other lists.

A message that is given is never changed: one that gets an id is a copy.
"""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Annotated, Any, ClassVar, Final, cast, overload

from typing_extensions import TypedDict

from juncture.channels.base import Reducer
from juncture.errors import InvalidUpdateError

REMOVE_ALL_MESSAGES: Final = "__remove_all__"
"""As the id of a `RemoveMessage`: removes every message before it."""


@dataclass(frozen=True, slots=True)
class RemoveMessage:
    """Written among messages: removes the message of that id, or all before it for `REMOVE_ALL_MESSAGES`.

    A dict with ``"type": "remove"`` or ``"role": "remove"`` does the same, and so does any object whose ``type`` is
    ``"remove"``.
    """

    id: str
    type: ClassVar[str] = "remove"


@overload
def add_messages(left: Any, right: Any, *, format: None = None) -> list[Any]: ...
@overload
def add_messages(*, format: None = None) -> Reducer: ...
def add_messages(left: Any = None, right: Any = None, *, format: str | None = None) -> list[Any] | Reducer:  # noqa: A002 - LangGraph's name
    """The messages of `left` with those of `right` merged into them, as a new list.

    A message whose id is known replaces that one in its place; others are appended, with an id if they have none.
    Without arguments: the function itself, for use in an annotation.

    Args:
        left: The messages so far: a list, or one message.
        right: What is written: a list, or one message.
        format: Only None. ``"langchain-openai"`` belongs to the LangChain integration.

    Raises:
        ValueError: One argument is missing or None, a message to remove doesn't exist, or the format is unknown.
        InvalidUpdateError: Something is no message.

    Source:
        LangGraph 1.2.24, where what follows a removal of all messages is taken unmerged and ids are random.
    """
    if format is not None:
        raise _unknown_format(format)
    if left is None and right is None:
        return cast("Reducer", functools.partial(add_messages))
    if left is None or right is None:
        given = "right" if left is None else "left"
        raise ValueError(
            f"Must specify non-null arguments for both 'left' and 'right'. Only received: '{given}'."
        )
    written = cast("list[Any]", right) if isinstance(right, list) else [right]
    if (
        written
        and isinstance(left, list)
        and (appended := _appended(cast("list[Any]", left), written)) is not None
    ):
        return appended
    stored, ids = _stored(left)
    return _merge(stored, ids, written) if written else stored


def identified(write: Any, salt: str) -> list[Any]:
    """The messages of a write, each with an id: those that have none get a hash of the salt, position and content.

    Raises:
        InvalidUpdateError: Something is no message.
    """
    written = cast("list[Any]", write) if isinstance(write, list) else [write]
    messages = [_message(item) for item in written]
    return [
        message if _id_of(message) is not None else _with_id(message, _new_id(salt, position, message))
        for position, message in enumerate(messages)
    ]


def _first_write(write: Any) -> list[Any]:
    return add_messages([], write)


_attributes = cast("Any", add_messages)  # a function's attributes are unknown to its type
_attributes.pure = True
_attributes.first_write = _first_write
_attributes.identify = identified


class MessagesState(TypedDict):
    """A state with one key, ``messages``, merged by `add_messages`."""

    messages: Annotated[list[Any], add_messages]


def _unknown_format(name: str) -> ValueError:
    if name == "langchain-openai":
        return ValueError(
            "format='langchain-openai' needs LangChain, which the core doesn't import. "
            "Convert the messages in the node, with langchain_core.messages.convert_to_openai_messages"
        )
    return ValueError(f"Unrecognized format={name!r}. Expected one of 'langchain-openai', None.")


def _appended(stored: list[Any], written: list[Any]) -> list[Any] | None:
    """The messages with new ones at the end: what `_merge` gives, in one pass over the ids. None where it isn't that simple."""
    try:
        new = {None, *map(_id_of, written)}
        if len(new) != len(written) + 1 or any(_kind_of(message) in _NOT_PLAIN for message in written):
            return None
    except TypeError:  # an id that can't be hashed
        return None
    for read in _READERS:
        try:
            return stored + written if new.isdisjoint(map(read, stored)) else None
        except (AttributeError, KeyError, TypeError):
            continue
    return None


def _merge(stored: list[Any], ids: list[Any], items: list[Any]) -> list[Any]:
    """A new list of the messages with what was written merged into it.

    Appending costs one set of the ids; where the messages stand is looked up only once one of them is replaced.
    """
    written = [_message(item) for item in items]
    last = ids[-1] if ids else None
    start = max(
        (i for i, message in enumerate(written) if _id_removed(message) == REMOVE_ALL_MESSAGES), default=-1
    )
    merged, ids = ([], []) if start >= 0 else (stored[:], ids[:])
    known = set(ids)
    places: dict[Any, int] = {}
    removed: set[Any] = set()
    for message in written[start + 1 :]:
        identity = _id_of(message)
        if _kind_of(message) == "remove":
            if identity not in known:
                raise _nothing_to_delete(identity)
            removed.add(identity)
        elif identity in known:
            if not places:
                places = {name: place for place, name in enumerate(ids)}
            merged[places[identity]] = message
            removed.discard(identity)
        else:
            if identity is None:
                identity = _unused_id(last, known, len(ids), message)
                message = _with_id(message, identity)  # noqa: PLW2901 - from here on it is the copy
            if places:
                places[identity] = len(ids)
            known.add(identity)
            ids.append(identity)
            merged.append(message)
            last = identity
    return [message for message in merged if _id_of(message) not in removed] if removed else merged


def _nothing_to_delete(identity: Any) -> ValueError:
    return ValueError(
        f"Attempting to delete a message with an ID that doesn't exist ('{identity}'). "
        "It may have been removed already"
    )


def _stored(left: Any) -> tuple[list[Any], list[Any]]:
    """The messages so far and their ids. What `add_messages` made itself is taken as it is."""
    messages = cast("list[Any]", left) if isinstance(left, list) else [left]
    for read in _READERS:
        try:
            ids = list(map(read, messages))
        except (AttributeError, KeyError, TypeError):
            continue
        if None not in ids:
            return messages, ids
    messages = _merge([], [], messages)
    return messages, list(map(_id_of, messages))


def _message(item: Any) -> Any:
    """A message of what was written: strings and tuples become dicts, the rest is checked."""
    kind = _kind_of(item)
    if kind is None and (said := _said(item)) is not None:
        return {"role": said[0], "content": said[1], "id": None}
    if kind is None or not _may_have_id(item):
        raise InvalidUpdateError(
            f"a {type(item).__qualname__} is no message: {_shortened(item)}. Write a string, a tuple (role, content), "
            "a dict with 'role' or 'type', or an object with 'id' and 'role' or 'type'"
        )
    if kind == "remove" and _id_of(item) is None:
        raise InvalidUpdateError(
            f"{_shortened(item)} is to remove a message but doesn't say which: give it the id"
        )
    return item


def _said(item: object) -> tuple[str, Any] | None:
    """(role, content) of a string or a tuple; None if it is neither."""
    if isinstance(item, str):
        return "user", item
    if (
        isinstance(item, tuple)
        and len(pair := cast("tuple[Any, ...]", item)) == 2
        and isinstance(pair[0], str)
    ):
        return pair[0], pair[1]
    return None


def _shortened(item: Any) -> str:
    text = repr(item)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _field(message: Any, name: str) -> Any:
    return (
        cast("dict[str, Any]", message).get(name)
        if isinstance(message, dict)
        else getattr(message, name, None)
    )


def _kind_of(message: Any) -> Any:
    """Its role or type; ``"remove"`` if either says so."""
    role, kind = _field(message, "role"), _field(message, "type")
    return kind if role is None or kind == "remove" else role


def _id_of(message: Any) -> Any:
    return _field(message, "id")


def _known_id(message: Any) -> Any:
    return cast("dict[str, Any]", message)["id"] if isinstance(message, dict) else message.id


_NOT_PLAIN: Final = (None, "remove")
"""The roles of what has to be looked at: no message yet, or one that removes."""
_READERS: Final[tuple[Callable[[Any], Any], ...]] = (itemgetter("id"), attrgetter("id"), _known_id)
"""Read the ids of a list of dicts, of objects, and of both: the first two at C speed."""


def _may_have_id(message: object) -> bool:
    return isinstance(message, dict) or hasattr(message, "id")


def _id_removed(message: Any) -> Any:
    """The id of the message that it removes; None if it is an ordinary message."""
    return _id_of(message) if _kind_of(message) == "remove" else None


def _with_id(message: Any, identity: str) -> Any:
    """A copy of the message that has the id."""
    if isinstance(message, dict):
        return {**cast("dict[str, Any]", message), "id": identity}
    if hasattr(message, "model_copy"):
        return message.model_copy(update={"id": identity})
    for name in ("_replace", "__replace__"):  # named tuples; structs, and dataclasses from Python 3.13 on
        if replace := cast("Callable[..., Any] | None", getattr(message, name, None)):
            return replace(id=identity)
    new = copy.copy(message)
    try:
        object.__setattr__(new, "id", identity)  # also where the class is frozen: this copy is still ours
    except (AttributeError, TypeError):
        raise InvalidUpdateError(
            f"a {type(message).__qualname__} without an id was written, and it can't be given one. Make it with an id"
        ) from None
    return new


def _unused_id(last: Any, known: set[Any], position: int, message: Any) -> str:
    """An id for a message that is appended after the message of the id `last`."""
    salt = "" if last is None else str(last)
    while (identity := _new_id(salt, position, message)) in known:
        position += 1  # only where the list was put together by hand
    return identity


def _new_id(salt: str, position: int, message: Any) -> str:
    """32 hexadecimal digits."""
    said = _field(message, "content")
    if isinstance(message, dict):
        said = {key: value for key, value in cast("dict[Any, Any]", message).items() if key != "id"}
    kind = type(cast("object", message)).__qualname__
    text = f"{len(salt)}:{salt}:{position}:{kind}:{_kind_of(message)}:{_canonical(said)}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _canonical(value: Any) -> str:
    """A text that is the same for equal contents in every process; of objects it tells only the class."""
    if value is None or isinstance(value, (str, bytes, int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_canonical, cast('list[Any]', value)))}]"
    if isinstance(value, dict):
        pairs = (
            f"{_canonical(key)}:{_canonical(item)}" for key, item in cast("dict[Any, Any]", value).items()
        )
        return f"{{{','.join(sorted(pairs))}}}"
    return type(cast("object", value)).__qualname__
