"""What the checker reports: findings, each with a stable code, and how they are silenced.

The severity says how sure the checker is:

* ``error``: the graph can't be compiled; `compile` raises `GraphBuildError` for the first of them.
* ``warning``: a fault that follows from what is declared and from what functions' own code shows. `compile` warns of it.
* ``note``: it may be a fault, or meant so. Only `check` tells.

A code never changes its meaning, since it stands in users' files: ``add_node(..., silence=("dead-end",))``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias, cast

from juncture.errors import GraphBuildError

Severity: TypeAlias = Literal["error", "warning", "note"]

CODES: Final[Mapping[str, str]] = {
    "barrier": "in data-flow mode, a node waits for the whole step before it, or others wait for it",
    "cannot-compile": "a schema, reducer, function or option can't be used",
    "concurrent-writes": "nodes of one superstep write a key that takes one write a step",
    "dead-end": "a branch ends at a node without saying so",
    "endless-loop": "nodes lead only to one another, so a run that comes there never ends",
    "mixed-routing": "a node routes in two ways at once",
    "no-entry": "nothing leads out of START",
    "stuck-join": "a join waits for a node that can't arrive",
    "unequal-branches": "a node runs once for each of several branches of different length",
    "unknown-key": "a node or router uses a key that the state doesn't have",
    "unknown-target": "a route or a pause names a node that doesn't exist",
    "unreachable-node": "no way leads to a node",
    "unread-key": "a key is written, and nobody reads it",
    "unwritten-key": "a key is read, and nobody writes it",
}
"""Code -> what it says, in a sentence. `docs/reference/checks.md` describes each."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the checker found. ``str(finding)`` is one line."""

    code: str
    """A stable name of the kind of fault, one of `CODES`."""
    severity: Severity
    """``error``, ``warning`` or ``note``; what they mean is at the top of `docs/reference/checks.md`."""
    place: str
    """Where: ``node 'a'``, ``edge 'a' -> 'b'``, ``router 'route' of node 'a'``, ``join 'a', 'b' -> 'c'``, ``key 'k'``;
    in a nested graph with that graph's node in front: ``node 'sub': key 'k'``."""
    message: str
    """What is wrong there, without the place."""
    remedy: str
    """What to do about it."""
    nodes: tuple[str, ...] = ()
    """The nodes that it concerns; each may silence it."""
    key: str | None = None
    """The state key that it concerns."""

    def __str__(self) -> str:
        return f"{self.severity} {self.code}: {self.place}: {self.message}. {self.remedy}"


class Report(tuple[Finding, ...]):
    """What `check` found: errors first, then warnings, then notes, each in the order of code and place.

    ``str(report)`` has a line for each finding. An empty report is false.
    """

    __slots__ = ()

    def of(self, *severities: Severity) -> Report:
        """The findings of these severities only."""
        return Report(finding for finding in self if finding.severity in severities)

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no findings"

    def __repr__(self) -> str:
        return f"Report({list(self)!r})"


def read_silence(given: Collection[str], owner: str) -> frozenset[str]:
    """The codes that a node or graph silences.

    Raises:
        GraphBuildError: A code doesn't exist; the nearest that does is named.
    """
    if isinstance(given, str) or not isinstance(given, Collection):
        raise GraphBuildError(f'silence of {owner} is a tuple of codes, such as ("dead-end",), got {given!r}')
    for code in cast("Collection[Any]", given):
        if not isinstance(code, str) or code not in CODES:
            near = get_close_matches(str(code), CODES, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Codes: {', '.join(CODES)}"
            raise GraphBuildError(f"silence of {owner} names {code!r}, which no check has as its code.{hint}")
    return frozenset(given)


__all__ = ["CODES", "Finding", "Report", "Severity", "read_silence"]
