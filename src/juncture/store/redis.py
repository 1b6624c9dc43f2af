"""Long-term memory in Redis (6 or later) or Valkey, for any number of processes and machines: layout version 1.

Every call is one Lua script, which Redis runs alone; only a listing without an end is several, of `PAGE` items each, so
that Redis has time for others in between. An address is a namespace's text (`juncture.store.names`), a NUL character and
the key: none of them has one, and so addresses are ordered as the contract asks for. All keys are in one slot. ::

    {PREFIX}:store:format   string      "1"
    {PREFIX}:store:items    hash        address -> MessagePack of [content, vectors, created at, updated at, ttl or false,
                                        expires at or false]
    {PREFIX}:store:names    sorted set  every address; every score is 0
    {PREFIX}:store:ends     sorted set  addresses of what runs out, by when

Items run out by Redis's clock. Nothing has an expiry of Redis's: the other keys would still name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from juncture.errors import ConfigError, StoreError
from juncture.savers.redis_client import Client
from juncture.store.base import TTLConfig
from juncture.store.embedding import IndexConfig
from juncture.store.kept import RowStore
from juncture.store.names import after
from juncture.store.rows import Address, Change, Clock, Row, Rows

if TYPE_CHECKING:
    from juncture.savers.encrypted import KeyRing

VERSION: Final = "1"
PAGE: Final = 1000
"""How many items one script lists."""

_COMMON: Final = f"""
local base, now = ARGV[1], ARGV[2]
local format = redis.call('GET', KEYS[1])
if format and format ~= '{VERSION}' then return {{'format', format}} end
local items, names, ends = base .. ':items', base .. ':names', base .. ':ends'
if now == '' then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
else
  now = tonumber(now)
end

local function number(value) return value and string.format('%.17g', value) or '' end

local function row_at(address)
  local kept = redis.call('HGET', items, address)
  if not kept then return nil end
  local row = cmsgpack.unpack(kept)
  if row[6] and row[6] <= now then return nil end
  return row
end

local function shown(address, row)
  return {{address, row[1], row[2], number(row[3]), number(row[4]), number(row[5])}}
end

local function over()  -- the addresses of what has run out
  local list = redis.call('ZRANGEBYSCORE', ends, '-inf', string.format('%.17g', now))
  local set = {{}}
  for _, address in ipairs(list) do set[address] = true end
  return set, list
end

local function remove(address)
  redis.call('HDEL', items, address)
  redis.call('ZREM', names, address)
  redis.call('ZREM', ends, address)
end
"""
READ: Final = (
    _COMMON
    + """
local found = {}
for i = 3, #ARGV do
  local row = row_at(ARGV[i])
  found[i - 2] = row and shown(ARGV[i], row) or ''
end
return {'ok', found}
"""
)
"""Arguments: addresses. Reply: for each its row or nothing."""
SCAN: Final = (
    _COMMON
    + """
local first, last, offset, limit = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local gone, list = over()
local count = 0
for _, address in ipairs(list) do
  local begins = string.sub(first, 2)
  local is_after = address > begins or (address == begins and string.sub(first, 1, 1) == '[')
  if is_after and address < string.sub(last, 2) then count = count + 1 end
end
local found, skipped = {}, 0
local addresses = redis.call('ZRANGEBYLEX', names, first, last, 'LIMIT', 0, offset + limit + count)
for _, address in ipairs(addresses) do
  if not gone[address] then
    if skipped < offset then
      skipped = skipped + 1
    elseif #found < limit then
      found[#found + 1] = shown(address, row_at(address))
    end
  end
end
return {'ok', redis.call('ZLEXCOUNT', names, first, last) - count, found}
"""
)
"""Arguments: ends of a range of addresses, offset, limit. Reply: how many there are in it, and rows."""
NAMESPACES: Final = (
    _COMMON
    + """
local first, last = ARGV[3], ARGV[4]
local gone = over()
local found = {}
while true do
  local address = redis.call('ZRANGEBYLEX', names, first, last, 'LIMIT', 0, 1)[1]
  if not address then return {'ok', found} end
  if gone[address] then
    first = '(' .. address
  else
    local namespace = string.sub(address, 1, string.find(address, '\\0', 1, true) - 1)
    found[#found + 1] = namespace
    first = '[' .. namespace .. '\\1'
  end
end
"""
)
"""Arguments: ends of a range of addresses. Reply: namespaces."""
WRITE: Final = (
    _COMMON
    + """
if not format then redis.call('SET', KEYS[1], '1') end
local there = {}
for i = 3, #ARGV, 4 do
  local address, content, vectors, ttl = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local row = row_at(address)
  there[#there + 1] = row and 1 or 0
  if content ~= '' then
    local life = ttl ~= '' and tonumber(ttl)
    local until_then = life and now + life
    local created = row and row[3] or now
    local kept = cmsgpack.pack({string.sub(content, 2), vectors, created, now, life, until_then})
    redis.call('HSET', items, address, kept)
    redis.call('ZADD', names, 0, address)
    if until_then then redis.call('ZADD', ends, number(until_then), address) else redis.call('ZREM', ends, address) end
  elseif row then
    remove(address)
  end
end
return {'ok', there}
"""
)
"""Arguments: for each change address, = and content or nothing, vectors, ttl or nothing. Reply: 1 where there was a row."""
REFRESH: Final = (
    _COMMON
    + """
for i = 3, #ARGV do
  local row = row_at(ARGV[i])
  if row and row[5] then
    row[6] = now + row[5]
    redis.call('HSET', items, ARGV[i], cmsgpack.pack(row))
    redis.call('ZADD', ends, number(row[6]), ARGV[i])
  end
end
return {'ok'}
"""
)
"""Arguments: addresses."""
SWEEP: Final = (
    _COMMON
    + """
local _, list = over()
for _, address in ipairs(list) do remove(address) end
return {'ok', #list}
"""
)
"""Reply: how many were removed."""


class RedisStore(RowStore):
    """Keeps items in Redis or Valkey. Needs ``pip install juncture[redis]``.

    How safe what is put is, is for Redis's configuration to say, as for `RedisSaver`. Everything is in memory there;
    ``maxmemory-policy`` must be ``noeviction``, or Redis throws items away when its memory is full.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``, with redis-py's options. Nothing is opened before the first call.
        index: What queries rank by; without one they look for the text itself.
        ttl: How items run out; without it those do that are put with ``ttl``.
        keys: What contents and vectors are encrypted with.
        prefix: What every key begins with, in braces. Stores with different prefixes don't see one another.
        clock: Seconds since the epoch, by which items run out, for tests; None for Redis's clock.

    Raises:
        ConfigError: The package ``redis`` isn't installed, or an argument can't be right.
    """

    def __init__(
        self,
        url: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        keys: KeyRing | None = None,
        prefix: str = "juncture",
        clock: Clock | None = None,
    ) -> None:
        if not prefix or "{" in prefix or "}" in prefix:
            raise ConfigError(f"a prefix has one character or more, and no braces: not {prefix!r}.")
        rows = _RedisRows(Client(url, "RedisStore"), prefix, clock)
        super().__init__(rows, index=index, ttl=ttl, keys=keys)


class _RedisRows(Rows):
    def __init__(self, client: Client, prefix: str, clock: Clock | None) -> None:
        self._client = client
        self._base = f"{{{prefix}}}:store".encode()
        self._clock = clock

    def read(self, addresses: Sequence[Address]) -> list[Row | None]:
        _, found = self._run(READ, *map(_address, addresses))
        return [_row(*columns) if columns else None for columns in found]

    def scan(self, prefix: str, offset: int = 0, limit: int | None = None) -> tuple[list[Row], int]:
        first, last = _range(prefix)
        found: list[Row] = []
        whole = 0
        while True:
            page = PAGE if limit is None else min(PAGE, limit - len(found))
            _, total, listed = self._run(SCAN, first, last, offset, page)
            if not found:
                whole = total
            found += [_row(*columns) for columns in listed]
            if len(listed) < page or len(found) == limit:
                return found, len(found) if limit is None and not offset else whole
            first, offset = b"(" + listed[-1][0], 0

    def namespaces(self, prefix: str) -> list[str]:
        _, found = self._run(NAMESPACES, *_range(prefix))
        return [namespace.decode() for namespace in found]

    def write(self, changes: Sequence[Change]) -> list[bool]:
        given: list[bytes | str] = []
        for change in changes:
            content = b"" if change.content is None else b"=" + change.content
            ttl = "" if change.ttl is None else repr(change.ttl)
            given += [_address(change[:2]), content, change.vectors, ttl]
        _, there = self._run(WRITE, *given)
        return [bool(was) for was in there]

    def refresh(self, addresses: Sequence[Address]) -> None:
        self._run(REFRESH, *map(_address, addresses))

    def sweep(self) -> int:
        return self._run(SWEEP)[1]

    def close(self) -> None:
        self._client.close()

    def _run(self, text: str, *arguments: bytes | str | int) -> list[Any]:
        now = "" if self._clock is None else repr(self._clock())
        reply = self._client.run(text, self._base + b":format", self._base, now, *arguments)
        if reply[0] == b"format":
            raise StoreError(
                f"what Redis at {self._client.where} holds under {self._base.decode()} has layout version "
                f"{reply[1].decode()}; this Juncture reads {VERSION}. Use a newer Juncture, or another prefix. Nothing was "
                "changed."
            )
        return reply


def _address(address: Address) -> bytes:
    return "\0".join(address).encode()


def _range(prefix: str) -> tuple[bytes, bytes]:
    return b"[" + prefix.encode(), b"(" + after(prefix).encode()


def _row(
    address: bytes, content: bytes, vectors: bytes, created_at: bytes, updated_at: bytes, ttl: bytes
) -> Row:
    namespace, key = address.decode().split("\0")
    return Row(
        namespace, key, content, vectors, float(created_at), float(updated_at), float(ttl) if ttl else None
    )
