"""The laws of a cache (`juncture.cache.base`), as checks that run on any cache.

In a test of your own cache, with pytest or without::

    from juncture.testing.cache_conformance import LAWS, check_cache

    @pytest.mark.parametrize("law", LAWS, ids=str)
    def test_law(law, tmp_path):
        law(lambda: MyCache(tmp_path / "cache"))

    check_cache(lambda: MyCache(new_folder()))      # all of them, in one go

A law opens a new, empty cache for itself and closes it. Each is written once and runs twice: with the sync methods, and
with their async twins. A broken law raises `AssertionError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from juncture.cache.base import Cache

MakeCache = Callable[[], Cache]
NOW: Final = 1_800_000_000.0
_NAMES = (
    "",
    "a",
    "A",
    "a*",
    "[a]",
    "a:b",
    "a\x00",
    "%",
    "\udc80",
    "\N{SNOWMAN}" * 200,
    "'; DROP TABLE juncture_cache",
)
_KEYS = (b"", b"a", b"\x00", b"\xff" * 100, b"*")


class Face:
    """One cache, through its sync methods or through their async twins."""

    def __init__(self, cache: Cache, *, is_async: bool) -> None:
        self.cache = cache
        self.is_async = is_async

    def get(self, space: str, key: bytes, now: float = NOW) -> bytes | None:
        """See `Cache.get`."""
        if self.is_async:
            return asyncio.run(self.cache.aget(space, key, now))
        return self.cache.get(space, key, now)

    def put(self, space: str, key: bytes, value: bytes, ttl: float | None = None, now: float = NOW) -> None:
        """See `Cache.put`."""
        if self.is_async:
            asyncio.run(self.cache.aput(space, key, value, now, ttl))
        else:
            self.cache.put(space, key, value, now, ttl)

    def clear(self, spaces: Sequence[str] | None = None) -> None:
        """See `Cache.clear`."""
        if self.is_async:
            asyncio.run(self.cache.aclear(spaces))
        else:
            self.cache.clear(spaces)


@dataclass(frozen=True)
class Law:
    """One law, for one colour."""

    check: Callable[[Face], None]
    is_async: bool

    def __call__(self, make_cache: MakeCache) -> None:
        """Checks it on a new, empty cache."""
        cache = make_cache()
        try:
            self.check(Face(cache, is_async=self.is_async))
        finally:
            cache.close()

    def __str__(self) -> str:
        return f"{self.check.__name__}{', async' if self.is_async else ''}"


def _same(found: object, expected: object, what: str) -> None:
    assert found == expected, f"{what}: expected {expected!r}, got {found!r}"


def what_was_put_is_got(face: Face) -> None:
    """Exactly, and the last."""
    _same(face.get("s", b"k"), None, "before it was put")
    for value in (b"", b"one", bytes(range(256)) * 100):
        face.put("s", b"k", value)
        _same(face.get("s", b"k"), value, "after it was put")


def every_name_is_a_place_of_its_own(face: Face) -> None:
    """Whatever stands in it."""
    places = [(space, key) for space in _NAMES for key in _KEYS]
    for number, (space, key) in enumerate(places):
        face.put(space, key, str(number).encode())
    for number, (space, key) in enumerate(places):
        _same(face.get(space, key), str(number).encode(), f"space {space!r}, key {key!r}")


def an_entry_expires(face: Face) -> None:
    """By the time that is given, and not before."""
    face.put("s", b"short", b"1", ttl=10)
    face.put("s", b"long", b"2", ttl=1000.5)
    face.put("s", b"ever", b"3")
    _same(face.get("s", b"short", NOW + 9.9), b"1", "before it expires")
    _same(face.get("s", b"short", NOW + 10), None, "at the moment when it expires")
    _same(face.get("s", b"long", NOW + 1000), b"2", "before it expires")
    _same(face.get("s", b"long", NOW + 1001), None, "after it expired")
    _same(face.get("s", b"ever", NOW + 1e9), b"3", "without an end")


def a_new_entry_has_a_new_end(face: Face) -> None:
    """In both directions."""
    face.put("s", b"k", b"1", ttl=10)
    face.put("s", b"k", b"2", ttl=20, now=NOW + 5)
    _same(face.get("s", b"k", NOW + 24), b"2", "with a later end")
    face.put("s", b"k", b"3")
    _same(face.get("s", b"k", NOW + 1e6), b"3", "without an end any more")


def spaces_are_cleared_apart(face: Face) -> None:
    """And all at once."""
    for space in _NAMES:
        face.put(space, b"k", b"v")
    face.clear(["a*", "a:b"])
    left = [space for space in _NAMES if face.get(space, b"k") is not None]
    _same(left, [space for space in _NAMES if space not in ("a*", "a:b")], "after clearing two")
    face.clear([])
    _same(face.get("a", b"k"), b"v", "after clearing none")
    face.clear()
    _same([space for space in _NAMES if face.get(space, b"k") is not None], [], "after clearing all")


_CHECKS = (
    what_was_put_is_got,
    every_name_is_a_place_of_its_own,
    an_entry_expires,
    a_new_entry_has_a_new_end,
    spaces_are_cleared_apart,
)
LAWS: list[Law] = [Law(check, is_async) for check in _CHECKS for is_async in (False, True)]
"""Every law, once for the sync methods and once for the async ones."""


def check_cache(make_cache: MakeCache) -> None:
    """Checks every law. `make_cache` gives a new, empty cache each time.

    Raises:
        AssertionError: A law is broken.
    """
    for law in LAWS:
        try:
            law(make_cache)
        except Exception as error:
            error.add_note(f"juncture: in the law {law!s}")
            raise


__all__ = ["LAWS", "Face", "Law", "MakeCache", "check_cache"]
