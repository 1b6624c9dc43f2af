"""What one run knows of one series: what was saved last, and so what has to be saved next.

A checkpoint is saved as a change to the one that the run comes from, or whole. It is saved whole where there is
nothing to build on, and where the parts that it would build on hold more than twice what a whole one would: so
reading any checkpoint reads at most about twice its size, and what is written is at most about twice what changed.
How big a whole one would be is found out by making it, each time that the parts have doubled since; so that costs a
constant share of what was written.
"""

from __future__ import annotations

# Values of any type and containers of anything are what this file is about: there is no type to be known.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from collections.abc import Callable, Collection, Container, Mapping
from itertools import islice
from typing import Any, Final

from juncture.engine.state import State
from juncture.engine.tables import EVERY_KEY
from juncture.engine.values import Flat, copied
from juncture.errors import SerializationError
from juncture.persistence.codec import Codec, Objects
from juncture.persistence.columns import Columns
from juncture.persistence.deltas import SAME, SPLICE, WHOLE, Change, Comparison
from juncture.persistence.format import VERSION, Body, kept_of, more_of, refuse, whole_body
from juncture.savers.base import Part, Spans

PART_COST: Final = 64
"""What reading one more part costs, in bytes."""
PLACE_COST: Final = 40
"""What saying where a change is takes at most, in bytes; so a size that is counted on is rather too small."""
SMALL: Final = 256
"""Bytes of a state that is saved whole each time: a row takes more than a change to it would spare, and loading reads one
part."""
SLACK: Final = 2048
"""Bytes that a chain may have above twice its size: many small changes to a small state aren't rebased all the time."""


class Track:
    """What was saved last in one series.

    Args:
        codec: Knows the classes of the graph's schemas.
        untracked: Keys that are never saved.
        exposed: Nodes can reach the containers of the state, so that what was saved has to be copied to be compared.
    """

    __slots__ = (
        "_cells",
        "_codec",
        "_columns",
        "_exposed",
        "_loose",
        "_objects",
        "_rests",
        "_untracked",
        "_values",
        "_written",
        "builds_on",
        "flat",
        "size",
        "weight",
    )

    def __init__(self, codec: Codec, untracked: Collection[str], *, exposed: bool) -> None:
        self._codec = codec
        self._untracked = untracked
        self._exposed = exposed
        self._values: dict[str, Any] = {}
        self._cells: dict[str, Any] = {}
        self._written: list[Any] = []
        self._objects: Objects = {}
        self._loose: set[str] = set()
        """The keys whose values hold objects, or may."""
        self._columns: dict[str, Columns] = {}
        """The keys whose values are long lists of objects that can be compared as such; their objects needn't be in
        `_objects`."""
        self.flat: Flat | None = {}
        """What copying the values of the state that was saved last found out about them."""
        self.builds_on: Spans = ()
        """The parts that amount to what was saved last."""
        self.weight = 0
        """What reading them costs, in bytes."""
        self._rests = False
        """Something was saved beside what the next checkpoint may build on."""
        self.size = 0
        """What a whole part would hold, or a little less."""

    # ---- what was read

    def read(self, body: Body, parts: tuple[Part, ...], size: int) -> None:
        """Goes on from a checkpoint that was read. Its body is the state's from now on."""
        spans: Spans = ()
        for part in parts:
            spans = extended(spans, part.seq)
        self.builds_on = spans
        self._rests = bool(body.more)
        self.weight = sum(len(part.payload) + PART_COST for part in parts)
        self.size = size or len(parts[0].payload)
        self._objects = body.objects
        self._columns = {}
        self._loose = {*body.values, *body.cells, ""} if body.objects else set()
        self._keep(body.values, body.cells, body.written)

    @property
    def can_be_kept(self) -> bool:
        """Whether another run may go on from here: all of it is known, and nobody can reach any of it."""
        return not (self._rests or self._exposed) and self._loose <= self._columns.keys()

    @property
    def kept_bytes(self) -> int:
        """How much memory this takes, as bytes."""
        return self.size + sum(columns.weight for columns in self._columns.values())

    def put_away(self) -> None:
        """Forgets all objects; only where it `can_be_kept`. Until `body` is asked for, nothing else may be."""
        self._objects = {}
        for key, columns in self._columns.items():
            columns.drop_items()
            self._values[key] = None  # in its place: the order of keys is part of the state

    @property
    def can_be_taken(self) -> bool:
        """Whether what was put away can be made anew: the classes of its objects are stored as they were."""
        return all(columns.is_known for columns in self._columns.values())

    def body(self) -> Body:
        """What was saved last, with new objects, after it was put away; only where it `can_be_taken`.

        Raises:
            SerializationError: An object can't be rebuilt.
        """
        for key, columns in self._columns.items():
            made = self._columns[key] = columns.anew()
            self._values[key] = made.items
        return Body(dict(self._values), dict(self._cells), self._written, {}, {})

    # ---- what is to be saved

    def encode(self, state: State, seq: int) -> tuple[bytes, Spans]:
        """The part of the next checkpoint, and the parts that it builds on. From now on, that is what was saved last.

        Raises:
            SerializationError: A value can't be stored. Says which; nothing changed.
        """
        kept = kept_of(state, self._untracked)
        more = more_of(state, self._untracked)
        self._rests = bool(more)
        self.flat = state.flat
        try:
            return self._changed(kept, more, seq) or self._whole(kept, more, seq)
        except SerializationError as error:
            refuse(self._codec, state, self._untracked, error)

    def _changed(
        self, kept: tuple[dict[str, Any], dict[str, Any], list[Any]], more: dict[str, Any], seq: int
    ) -> tuple[bytes, Spans] | None:
        """The part as a change to what was saved last; None where it has to be whole."""
        if not self.builds_on or self.size <= SMALL:
            return None
        values, cells, written = kept
        try:
            change, found = self._change(kept)
            payload, noted = self._codec.pack_noting([VERSION, change, more] if more else [VERSION, change])
        except SerializationError:
            return None  # a change is nested deeper than the value; if it isn't that, the whole is refused as well
        weight = self.weight + len(payload) + PART_COST
        grown = max(0, len(payload) - PLACE_COST * (len(found.changed) + 1))
        size = max(0, self.size + grown - self._removed(found))
        if weight > 2 * size + SLACK:
            size = len(self._codec.pack(whole_body(kept, more)))
            if weight > 2 * size + SLACK:
                return None
        self.size = size
        self._objects = {**found.met, **noted} if noted or found.met else {}
        self._columns = self._noted(found.columns)
        self._loose = found.loose
        if noted:
            self._loosen(found.changed)
        self._keep(values, cells, written, {key for key, _ in found.changed})
        builds_on, self.builds_on, self.weight = self.builds_on, extended(self.builds_on, seq), weight
        return payload, builds_on

    def _removed(self, found: _Found) -> int:
        """How many bytes are no longer in the state; they were written once, so counting them costs no more than that."""
        try:
            return sum(len(self._codec.pack(value)) for value in found.removed)
        except SerializationError:
            return self.size  # it can't be told: let the whole be made, and measured

    def _whole(
        self, kept: tuple[dict[str, Any], dict[str, Any], list[Any]], more: dict[str, Any], seq: int
    ) -> tuple[bytes, Spans]:
        """The part as all there is; a new chain begins with it."""
        values, cells, written = kept
        columns: dict[str, Columns] = {}
        if not self._exposed:
            for key, value in values.items():
                if type(value) is list and key not in cells:
                    of_key = Columns.of(self._codec, value)
                    if of_key is not None:
                        columns[key] = of_key
        payload, self._objects = self._codec.pack_noting(whole_body(kept, more))
        self._columns = self._noted(columns) if columns else columns
        self._loose = set()
        if self._objects:
            self._loosen([*values.items(), *cells.items(), ("", written)])
        self._keep(values, cells, written)
        self.size = len(payload)
        self.builds_on, self.weight = ((seq, seq),), len(payload) + PART_COST
        return payload, ()

    def _noted(self, columns: dict[str, Columns]) -> dict[str, Columns]:
        """Those of which all objects were saved."""
        return {key: of_key for key, of_key in columns.items() if of_key.noted(self._objects)}

    def _loosen(self, entries: Collection[tuple[str, Any]]) -> None:
        for key, value in entries:
            if self._codec.pack_noting(value)[1]:
                self._loose.add(key)

    def _keep(
        self,
        values: dict[str, Any],
        cells: dict[str, Any],
        written: list[Any],
        changed: Container[str] = EVERY_KEY,
    ) -> None:
        if self._exposed:
            self._values = {k: copied(v) if k in changed else self._values[k] for k, v in values.items()}
            self._cells = {k: copied(v) if k in changed else self._cells[k] for k, v in cells.items()}
            self._written = copied(written)
        else:
            self._values, self._cells, self._written = dict(values), dict(cells), written

    # ---- what changed

    def _change(
        self, kept: tuple[dict[str, Any], dict[str, Any], list[Any]]
    ) -> tuple[list[Change | None], _Found]:
        values, cells, written = kept
        found = _Found()
        of_values = self._entries(self._values, values, found, self._change_of_value)
        of_cells = self._entries(self._cells, cells, found, self._one) if cells or self._cells else None
        of_written: Change | None = None
        if written or self._written:
            of_written = self._one("", self._written, written, found) or None
        return [of_values, of_cells, of_written], found

    def _entries(
        self,
        old: Mapping[str, Any],
        new: Mapping[str, Any],
        found: _Found,
        compare: Callable[[str, Any, Any, _Found], Change],
    ) -> Change | None:
        """What changed in a dict by state key."""
        gone: list[str] = []
        stay: Collection[str] = old
        if list(old) != list(new):
            gone = [key for key in old if key not in new]
            stay = [key for key in old if key in new]
            found.removed += [old[key] for key in gone]
            if list(islice(new, len(stay))) != stay:
                found.removed += [old[key] for key in stay]
                found.take_all(new)
                return [WHOLE, dict(new)]
        changed: list[Any] = []
        loose = self._loose
        for key in stay:
            value = new[key]
            if value is old[key] and key not in loose and not self._exposed:
                continue
            change = compare(key, old[key], value, found)
            if change:
                changed += (key, change)
        for key in islice(new, len(stay), None):
            change = [WHOLE, new[key]]
            found.changed.append((key, change))
            changed += (key, change)
        return [3, gone, *changed] if gone or changed else None

    def _change_of_value(self, key: str, old: Any, new: Any, found: _Found) -> Change:
        """As `_one`; of a long list of objects that were there before, at once, if none of them was changed."""
        if key not in self._loose or self._exposed or key in self._cells:
            return self._one(key, old, new, found)
        known = self._columns.get(key)
        grown = None if known is None else known.grown(new)
        columns = grown or Columns.of(self._codec, new)
        if columns is not None:
            found.columns[key] = columns
        if known is None or grown is None:
            return self._one(key, old, new, found)
        found.loose.add(key)
        if len(old) == len(new):
            return SAME
        change = [SPLICE, len(old), len(old), new[len(old) :]]
        found.changed.append((key, change))
        return change

    def _one(self, key: str, old: Any, new: Any, found: _Found) -> Change:
        trusted = key not in self._loose and not self._exposed
        columns = self._columns.get(key)
        known = self._objects if columns is None else self._objects | columns.known()
        comparison = Comparison(self._codec, known, trusted=trusted)
        try:
            change = comparison.change(old, new)
        except RecursionError:  # it may be stored all the same: a comparison needs more of the stack
            comparison, change = Comparison(self._codec, known, trusted=trusted), [WHOLE, new]
        found.removed += comparison.removed
        if comparison.met:
            found.met.update(comparison.met)
            found.loose.add(key)
        if change:
            found.changed.append((key, change))
        return change


class _Found:
    """What a comparison of two states came upon."""

    __slots__ = ("changed", "columns", "loose", "met", "removed")

    def __init__(self) -> None:
        self.removed: list[Any] = []
        """What is no longer in the state."""
        self.met: Objects = {}
        """Objects that didn't change."""
        self.loose: set[str] = set()
        """The keys that they stand in."""
        self.changed: list[tuple[str, Change]] = []
        self.columns: dict[str, Columns] = {}
        """Long lists of objects, as they are."""

    def take_all(self, values: Mapping[str, Any]) -> None:
        """Every key is written anew."""
        self.changed += [(key, [WHOLE, value]) for key, value in values.items()]


def extended(spans: Spans, seq: int) -> Spans:
    """Ranges of places with one more at the end."""
    if spans and spans[-1][1] + 1 == seq:
        return (*spans[:-1], (spans[-1][0], seq))
    return (*spans, (seq, seq))
