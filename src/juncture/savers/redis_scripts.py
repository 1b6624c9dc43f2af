"""What `RedisSaver` keeps in Redis, and the scripts that read and change it: layout version 1.

Every call is one Lua script, which Redis runs alone and, in its append-only file, as one transaction. All keys begin with
``{PREFIX}:``, so that they are in one slot of a cluster, where a script may use them together; therefore a script
is only told the first key and makes the others itself. ``ID`` is a thread id, ``NS`` a namespace, ``CP`` a checkpoint
id, each in UTF-8; ``[x]`` is x behind its length in bytes and a colon, which no other ``[y]`` begins with. ::

    {PREFIX}:format           string      "1"
    {PREFIX}:threads          sorted set  ids of the threads that have a checkpoint of their own; every score is 0
    {PREFIX}:leases           sorted set  ids of the threads that have a lease; the same
    {PREFIX}:heads:ID         hash        NS -> seq of its head, a colon, CP of its head
    {PREFIX}:ids:ID           sorted set  [NS]CP of every checkpoint; every score is 0
    {PREFIX}:checkpoints:ID   hash        [NS]CP -> its row
    {PREFIX}:parts:ID         hash        [NS]seq -> MessagePack of [CP, payload]
    {PREFIX}:records:ID       hash        [NS][CP]# -> how many records stand beside the checkpoint
                                          [NS][CP]k and K -> its number, from 1; K: MessagePack of
                                          [task_id, kind, name]
                                          [NS][CP]n and its number -> [K] and its content
    {PREFIX}:lease:ID         hash        holder, token, until

Members of equal score are ordered by their bytes, and UTF-8's bytes are ordered as the characters are: so a sorted set
gives threads and checkpoints in the order that the contract asks for.

A row is one line of text, its end, and MessagePack of the other columns. The line is what scripts need to know: the seq,
and for each range that it builds on a blank, ``first-last``. ``until`` is in microseconds since the epoch by Redis's own
clock, or empty for a lease that never runs out. Nothing has an expiry of Redis's.

An optional argument is empty, or ``=`` and the text. A reply is an array whose first member says how it went: ``ok``,
``none`` (no such thread or checkpoint), ``lease`` (it is lost; who has it), ``head`` (it moved; where to), ``next`` (the
id or place isn't the next; the head's place), ``is head`` (which can't be removed), ``busy`` (the lease), ``lost`` (a row
isn't there, though it should be), ``format`` (another version; which).
"""

from __future__ import annotations

VERSION = "1"

_COMMON = f"""
local base, thread = ARGV[1], ARGV[2]
local VERSION = '{VERSION}'
local format = redis.call('GET', KEYS[1])
if format and format ~= VERSION then return {{'format', format}} end

local function key(what, id) return base .. ':' .. what .. ':' .. (id or thread) end

local function optional(argument)
  if argument == '' then return nil end
  return string.sub(argument, 2)
end

local function head_of(namespace, id)
  local kept = redis.call('HGET', key('heads', id), namespace)
  if not kept then return nil, 0 end
  local colon = string.find(kept, ':', 1, true)
  return string.sub(kept, colon + 1), tonumber(string.sub(kept, 1, colon - 1))
end

local function fields_of(hash, fields)  -- Lua's stack takes some thousand arguments
  local found = {{}}
  for first = 1, #fields, 1000 do
    local some = redis.call('HMGET', hash, unpack(fields, first, math.min(first + 999, #fields)))
    for i = 1, #some do found[first + i - 1] = some[i] end
  end
  return found
end

local function beside(series, checkpoint) return series .. #checkpoint .. ':' .. checkpoint end

local function records_of(series, checkpoint, id)
  local place = beside(series, checkpoint)
  local count = tonumber(redis.call('HGET', key('records', id), place .. '#') or 0)
  local fields = {{}}
  for number = 1, count do fields[number] = place .. 'n' .. number end
  return fields_of(key('records', id), fields)
end

local function keep(series, checkpoint, from)
  local records, place = key('records'), beside(series, checkpoint)
  for i = from, #ARGV, 2 do
    local number = redis.call('HGET', records, place .. 'k' .. ARGV[i])
    if not number then
      number = redis.call('HINCRBY', records, place .. '#', 1)
      redis.call('HSET', records, place .. 'k' .. ARGV[i], number)
    end
    redis.call('HSET', records, place .. 'n' .. number, #ARGV[i] .. ':' .. ARGV[i] .. ARGV[i + 1])
  end
end

local function seqs_in(spans, last_of_all)  -- "1-3 7-9"
  local seqs = {{}}
  for first, last in string.gmatch(spans, '(%d+)-(%d+)') do
    for seq = tonumber(first), math.min(tonumber(last), last_of_all) do seqs[#seqs + 1] = seq end
  end
  return seqs
end

local function parts_of(series, seqs)
  local fields = {{}}
  for i, seq in ipairs(seqs) do fields[i] = series .. seq end
  local found, parts = fields_of(key('parts'), fields), {{}}
  for i, seq in ipairs(seqs) do
    if found[i] then
      parts[#parts + 1] = seq
      parts[#parts + 1] = found[i]
    end
  end
  return parts
end

local function line_of(row) return string.sub(row, 1, string.find(row, '\\n', 1, true) - 1) end

local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function lease_of(id)
  local kept = redis.call('HMGET', key('lease', id), 'holder', 'token', 'until')
  if not kept[2] then return false end
  local left = ''
  if kept[3] ~= '' then left = string.format('%.0f', tonumber(kept[3]) - now()) end
  return {{id or thread, kept[1], kept[2], left}}
end

local function until_of(ttl)
  if ttl == '' then return '' end
  return string.format('%.0f', now() + tonumber(ttl))
end

local function lost(token)
  if not token then return nil end
  local held = redis.call('HMGET', key('lease'), 'token', 'holder')
  if held[1] ~= token then return {{'lease', held[2]}} end
end

local function refusal(namespace, known, token)
  local no = lost(token)
  if no then return no end
  local head, seq = head_of(namespace)
  if head ~= known then return {{'head', head or false}} end
  return nil, seq
end
"""

LOAD = (
    _COMMON
    + """
local namespace, series, wanted, known = ARGV[3], ARGV[4], optional(ARGV[5]), optional(ARGV[6])
local head, head_seq = head_of(namespace)
if not head then return {'none'} end
local checkpoint = wanted or head
local row = redis.call('HGET', key('checkpoints'), series .. checkpoint)
if not row then
  if wanted then return {'none'} end
  return {'lost'}
end
local parts = {}
if checkpoint ~= known then
  local line = line_of(row)
  local seqs = seqs_in(line, head_seq)
  seqs[#seqs + 1] = tonumber(string.match(line, '^%d+'))
  parts = parts_of(series, seqs)
end
return {'ok', head, head_seq, row, parts, records_of(series, checkpoint)}
"""
)
"""Arguments: NS, [NS], optional CP, optional CP whose parts are known. Reply: CP and seq of the head, the row, parts
(seq and value by turns), records."""

PUT = (
    _COMMON
    + """
local namespace, series, token, follows = ARGV[3], ARGV[4], optional(ARGV[5]), optional(ARGV[6])
local checkpoint, seq, row, part, refused = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local no, head_seq = refusal(namespace, follows, token)
if no then return no end
if refused == '1' or tonumber(seq) ~= head_seq + 1 then return {'next', head_seq} end
if not format then redis.call('SET', KEYS[1], VERSION) end
if #ARGV > 11 then keep(series, follows, 12) end
redis.call('HSET', key('parts'), series .. seq, part)
redis.call('HSET', key('checkpoints'), series .. checkpoint, row)
redis.call('ZADD', key('ids'), 0, series .. checkpoint)
redis.call('HSET', key('heads'), namespace, seq .. ':' .. checkpoint)
if namespace == '' then redis.call('ZADD', base .. ':threads', 0, thread) end
return {'ok'}
"""
)
"""Arguments: NS, [NS], optional token, optional CP that it follows, CP, seq, row, part, whether it is refused if it gets
that far, and for each record K and its content."""

PUT_RECORDS = (
    _COMMON
    + """
local namespace, series, token, checkpoint = ARGV[3], ARGV[4], optional(ARGV[5]), ARGV[6]
local no = refusal(namespace, checkpoint, token)
if no then return no end
keep(series, checkpoint, 7)
return {'ok'}
"""
)
"""Arguments: NS, [NS], optional token, CP, and for each record K and its content."""

HISTORY = (
    _COMMON
    + """
local namespace, series, before, limit, records = ARGV[3], ARGV[4], optional(ARGV[5]), ARGV[6], ARGV[7]
local head, head_seq = head_of(namespace)
if not head then return {'none'} end
local last = '(' .. series .. (before or '\\255')  -- no text has this byte
local members = redis.call('ZREVRANGEBYLEX', key('ids'), last, '[' .. series, 'LIMIT', 0, limit)
local rows = fields_of(key('checkpoints'), members)
local found = {}
if records == '1' then
  for i, member in ipairs(members) do found[i] = records_of(series, string.sub(member, #series + 1)) end
end
return {'ok', head, head_seq, rows, found}
"""
)
"""Arguments: NS, [NS], optional CP, limit (-1: none), whether with records. Reply: CP and seq of the head, rows, records
of each."""

PARTS = (
    _COMMON
    + """
local namespace, series, spans = ARGV[3], ARGV[4], ARGV[5]
local head, head_seq = head_of(namespace)
if not head then return {'none'} end
return {'ok', parts_of(series, seqs_in(spans, head_seq))}
"""
)
"""Arguments: NS, [NS], ranges. Reply: parts (seq and value by turns)."""

NAMESPACES = _COMMON + "return {'ok', redis.call('HKEYS', key('heads'))}"

THREADS = (
    _COMMON
    + """
local after, limit = optional(ARGV[3]), ARGV[4]
local first = '-'
if after then first = '(' .. after end
local found = {}
for i, id in ipairs(redis.call('ZRANGEBYLEX', base .. ':threads', first, '+', 'LIMIT', 0, limit)) do
  local head, head_seq = head_of('', id)
  local row, records = false, {}
  if head then
    row = redis.call('HGET', key('checkpoints', id), '0:' .. head)
    records = records_of('0:', head, id)
  end
  found[i] = {id, head or '', head_seq, row, records, lease_of(id)}
end
return {'ok', found}
"""
)
"""Arguments: optional id, limit. Reply: for each thread its id, CP and seq of its head, row, records, lease."""

DROP = (
    _COMMON
    + """
local namespace, series = ARGV[3], ARGV[4]
local no = lost(optional(ARGV[5]))
if no then return no end
local head, head_seq = head_of(namespace)
if not head then return {'none'} end
local gone = {}
for i = 6, #ARGV do gone[series .. ARGV[i]] = true end
local ids, checkpoints, records = key('ids'), key('checkpoints'), key('records')
local left, dropped = {}, {}
for _, member in ipairs(redis.call('ZRANGEBYLEX', ids, '[' .. series, '(' .. series .. '\255')) do
  local some = gone[member] and dropped or left
  some[#some + 1] = member
end

if gone[series .. head] and (namespace == '' or #left > 0) then
  return {'is head', head, string.sub(left[1] or dropped[1], #series + 1)}
end

local begins, needed = {}, 0  -- how many ranges begin at a place, less those that ended before it
local function need(first, last)
  begins[first] = (begins[first] or 0) + 1
  begins[last + 1] = (begins[last + 1] or 0) - 1
end
for _, row in ipairs(fields_of(checkpoints, left)) do
  if not row then return {'lost'} end
  local line = line_of(row)
  local seq = tonumber(string.match(line, '^%d+'))
  need(seq, seq)
  for first, last in string.gmatch(line, '(%d+)-(%d+)') do need(tonumber(first), tonumber(last)) end
end

for _, member in ipairs(dropped) do  -- from here on nothing can fail
  redis.call('ZREM', ids, member)
  redis.call('HDEL', checkpoints, member)
  local checkpoint = string.sub(member, #series + 1)
  local place = beside(series, checkpoint)
  for number, record in ipairs(records_of(series, checkpoint)) do
    local colon = string.find(record, ':', 1, true)
    local length = tonumber(string.sub(record, 1, colon - 1))
    redis.call('HDEL', records, place .. 'n' .. number, place .. 'k' .. string.sub(record, colon + 1, colon + length))
  end
  redis.call('HDEL', records, place .. '#')
end
if #left == 0 then redis.call('HDEL', key('heads'), namespace) end
for seq = 1, head_seq do
  needed = needed + (begins[seq] or 0)
  if needed == 0 then redis.call('HDEL', key('parts'), series .. seq) end
end
return {'ok'}
"""
)
"""Arguments: NS, [NS], optional token, each CP. Reply to is head: the head, and a CP of the series that isn't to be removed, if there is."""

DELETE_THREAD = (
    _COMMON
    + """
local no = lost(optional(ARGV[3]))
if no then return no end
redis.call('UNLINK', key('heads'), key('ids'), key('checkpoints'), key('parts'), key('records'), key('lease'))
redis.call('ZREM', base .. ':threads', thread)
redis.call('ZREM', base .. ':leases', thread)
return {'ok'}
"""
)
"""Arguments: optional token."""

ACQUIRE_LEASE = (
    _COMMON
    + """
local holder, token, ttl, instead_of = ARGV[3], ARGV[4], ARGV[5], optional(ARGV[6])
local held = lease_of()
if held and held[3] ~= token and held[3] ~= instead_of and (held[4] == '' or tonumber(held[4]) > 0) then
  return {'busy', held}
end
if not format then redis.call('SET', KEYS[1], VERSION) end
redis.call('HSET', key('lease'), 'holder', holder, 'token', token, 'until', until_of(ttl))
redis.call('ZADD', base .. ':leases', 0, thread)
return {'ok'}
"""
)
"""Arguments: holder, token, microseconds or nothing, optional token. Reply to busy: the lease."""

RENEW_LEASES = (
    _COMMON
    + """
local renewed = {}
for i = 4, #ARGV, 2 do
  local lease = key('lease', ARGV[i])
  if redis.call('HGET', lease, 'token') == ARGV[i + 1] then
    redis.call('HSET', lease, 'until', until_of(ARGV[3]))
    renewed[#renewed + 1] = (i - 4) / 2
  end
end
return {'ok', renewed}
"""
)
"""Arguments: microseconds or nothing, and for each lease its thread and token. Reply: the places of those renewed."""

RELEASE_LEASE = (
    _COMMON
    + """
if redis.call('HGET', key('lease'), 'token') == ARGV[3] then
  redis.call('DEL', key('lease'))
  redis.call('ZREM', base .. ':leases', thread)
end
return {'ok'}
"""
)
"""Arguments: token."""

LEASES = (
    _COMMON
    + """
local found = {}
for _, id in ipairs(redis.call('ZRANGE', base .. ':leases', 0, -1)) do
  local lease = lease_of(id)
  if lease then found[#found + 1] = lease end
end
return {'ok', found}
"""
)
"""Reply: the leases, each its thread, holder, token, and microseconds that are left, or nothing."""
