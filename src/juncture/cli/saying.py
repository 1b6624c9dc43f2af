"""Standard error: everything that is said about a command, and nothing of what it was asked for.

Nothing that a value or an exception says reaches a terminal before its control characters were made visible.
"""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Prints lines on standard error."""
    print(visible(text), file=sys.stderr, flush=True)  # noqa: T201 - this is the command line


def visible(text: str) -> str:
    """A text whose control characters can't reach the terminal; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
