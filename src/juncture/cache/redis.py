"""A cache on a Redis or Valkey server, for any number of programs on any number of machines.

An entry is one string: the moment at which it expires, by the clock of whoever put it, and the value. The server drops it
by its own clock as well, so that nothing piles up. Keys are digests, so that no space or key is taken for a pattern.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, cast

import redis

from juncture.cache.base import Cache

_UNTIL = struct.Struct(">d")
_NEVER = float("inf")


class RedisCache(Cache):
    """Keeps entries under a prefix."""

    def __init__(self, url: str, *, prefix: str = "juncture:cache:", timeout: float = 5.0) -> None:
        """Connects at its first use, and waits no longer than so many seconds for an answer.

        Args:
            url: ``redis://…``, ``rediss://…`` or ``unix://…``.
            prefix: Stands before every key. Caches with the same server and prefix share their entries.
            timeout: In seconds.
        """
        self._prefix = prefix.encode()
        self._client: Any = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its options are untyped
            url, socket_timeout=timeout, socket_connect_timeout=timeout
        )

    def _space(self, space: str) -> bytes:
        name = blake2b(space.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return self._prefix + name.encode() + b":"

    def _key(self, space: str, key: bytes) -> bytes:
        return self._space(space) + blake2b(key, digest_size=32).hexdigest().encode()

    def get(self, space: str, key: bytes, now: float) -> bytes | None:
        """See `Cache.get`."""
        found = cast("bytes | None", self._client.get(self._key(space, key)))
        if found is None or _UNTIL.unpack_from(found)[0] <= now:
            return None
        return found[_UNTIL.size :]

    def put(self, space: str, key: bytes, value: bytes, now: float, ttl: float | None = None) -> None:
        """See `Cache.put`."""
        until = _NEVER if ttl is None else now + ttl
        px = None if ttl is None else max(1, int(ttl * 1000) + 1)
        self._client.set(self._key(space, key), _UNTIL.pack(until) + value, px=px)

    def clear(self, spaces: Sequence[str] | None = None) -> None:
        """See `Cache.clear`."""
        for start in [self._prefix] if spaces is None else [self._space(space) for space in spaces]:
            batch: list[bytes] = []
            for key in self._client.scan_iter(match=_literal(start) + b"*", count=1000):
                batch.append(key)
                if len(batch) == 1000:
                    self._client.unlink(*batch)
                    batch.clear()
            if batch:
                self._client.unlink(*batch)

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()


def _literal(text: bytes) -> bytes:
    """A pattern that matches just this text."""
    return re.sub(rb"([*?\[\]\\^-])", rb"\\\1", text)


__all__ = ["RedisCache"]
