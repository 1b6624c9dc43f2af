"""Namespaces and keys: what may be one, and how a place that keeps rows writes them down.

- A namespace is a tuple of labels. Labels and keys are data: any text without NUL characters and lone surrogates, which
  not every database can keep. They are compared exactly, character by character, and never become a pattern, a
  statement or a path.
- Written down, a namespace is one text: its labels, each behind it the mark `_END`, with the mark's own character
  escaped in them. So a namespace begins with another exactly where its text begins with that one's text: ``acme`` is
  no prefix of ``acme-corp``. And texts are ordered as the tuples are.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from juncture.errors import ConfigError, InvalidNamespaceError

Namespace: TypeAlias = tuple[str, ...]

LONGEST: Final = 2400
"""Bytes that a namespace, written down, and a key have together at most: what an index of PostgreSQL takes."""
_MARK: Final = "\x01"
_ESCAPED: Final = "\x01\x02"
_END: Final = "\x01\x01"
_LAST: Final = "\U0010ffff" * (LONGEST // 4 + 1)
"""After every namespace that isn't too long."""


def check_namespace(namespace: object, *, what: str = "a namespace", empty: bool = False) -> Namespace:
    """The namespace as a tuple.

    Args:
        namespace: A tuple or list of labels.
        what: What to call it in an error.
        empty: Whether it may have no label, as the prefix of everything.

    Raises:
        InvalidNamespaceError: It isn't one.
    """
    if not isinstance(namespace, (tuple, list)):
        raise InvalidNamespaceError(
            f"{what} is a tuple of labels, as ('users', 'ada'), not {namespace!r}, a {type(namespace).__name__}."
        )
    labels: list[str] = []
    for label in namespace:  # pyright: ignore[reportUnknownVariableType] - what it holds is found out here
        if not isinstance(label, str) or not label:
            raise InvalidNamespaceError(
                f"the labels of {what} are non-empty strings; {namespace!r} has {label!r}."
            )
        if reason := _unkeepable(label):
            raise InvalidNamespaceError(f"the label {label!r} of {what} {reason}. Use another label.")
        labels.append(label)
    if not labels and not empty:
        raise InvalidNamespaceError(f"{what} has at least one label: () is only the prefix of all of them.")
    return tuple(labels)


def check_key(namespace: Namespace, key: object) -> str:
    """The key of an item in a namespace that was checked.

    Raises:
        ConfigError: It can't be one, or is too long together with the namespace.
    """
    if not isinstance(key, str) or not key:
        raise ConfigError(f"the key of an item is a non-empty string, not {key!r}.")
    if reason := _unkeepable(key):
        raise ConfigError(f"the key {key!r} {reason}. Use another key.")
    size = len(written(namespace).encode()) + len(key.encode())
    if size > LONGEST:
        raise ConfigError(
            f"a namespace and a key have together at most {LONGEST} bytes, two for each label included; those of "
            f"{namespace[0][:40]!r} … and {key[:40]!r} … have {size}. Use a digest of what makes them long."
        )
    return key


def written(namespace: Namespace) -> str:
    """The text of a namespace; also of a prefix, which the texts of all below it begin with."""
    return "".join([label.replace(_MARK, _ESCAPED) + _END for label in namespace])


def read(text: str) -> Namespace:
    """The namespace of a text that `written` gave."""
    return tuple(label.replace(_ESCAPED, _MARK) for label in text.split(_END)[:-1])


def after(text: str) -> str:
    """The first text, in the order of characters, that comes after all that begin with that of a namespace."""
    return text[:-1] + "\x02" if text else _LAST


def _unkeepable(text: str) -> str | None:
    if "\x00" in text:
        return "has a NUL character, which not every store can keep"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair, which isn't text"
    return None
