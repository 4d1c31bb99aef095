-- leave: out of the line, out of the record; the next one's turn if that makes the lock free.
-- Unlock, cancellation, an unwanted grant: all the same verb. With no tickets it only lets a free lock advance.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 PUBLISH or SPUBLISH  2 the channels' common start  3 the client
--       4 '', or of a lock without a line: the channel to tell that somebody held it until now
--       5.. per ticket: ticket, place (us; 0: not known), token (0: it never held),
--           '1' to retire it: a request of it is unanswered and may still arrive
-- Reply 1: the one ticket held the lock, nobody waits, and it is free; or
--       1 1: free, 500 dropped: call again
--       2 {} or a grant to a ticket of this client: {ticket, token, remaining ms, since us}
--       3.. per ticket: 'held' it held the lock until now, 'waiting' it was in line, 'none' neither
-- A client is told 'hint <ticket> <record>', that is to enter again, if its ticket is next and others of the owner hold the
-- lock for less long than the line knows; and by advance if it was passed over once more and may not know.
-- Errors: WRONGTYPE comes before anything is written; nothing here is refused by a full server.

--#include terms.lua
local record, queue, waiters, tokens = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local verb, channels, me, freed = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local plain, numsub = freed ~= '', verb == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'

-- The usual release is of a hold that is the only one (a ticket names no owner but itself), with nothing unanswered.
local usual = #ARGV == 8 and ARGV[8] == '0' and string.find(ARGV[5], '::', 1, true)

-- Nobody is in line: Unlock in three calls, and a fourth where there is no line.
if usual and redis.call('EXISTS', queue, waiters) == 0 and redis.call('HDEL', record, ARGV[5]) == 1 then
  redis.call('DEL', record)
  if plain then redis.pcall(verb, freed, me) end
  return 1
end

local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local ms = math.floor(us / 1000)

-- The first in line is alive and in reach, and nothing is out of the ordinary: no marks that concern it, and as many deadlines as
-- places.
local deaf -- the client of the first in line, if nobody hears it
if usual and not plain then
  local ticket, client, lease, owner = string.match(redis.call('LINDEX', queue, '0') or '', '^%d+:(([!-9;-~]+):%d+:([1-9]%d*):([^:]*).*)$')
  --#include last.lua
  local marks = ticket and #lease < 13 and redis.call('ZMSCORE', waiters, ticket, '!' .. ticket, '~' .. client, '^' .. client, '?') or {}
  local ordinary = not (marks[2] or marks[3] or marks[4] or marks[5]) and redis.call('LLEN', queue) == redis.call('ZCOUNT', waiters, '0', '+inf')
  local deadline = ordinary and marks[1]
  if deadline and (tonumber(deadline) or 0) > ms then
    deaf = client ~= me and tonumber(redis.pcall('PUBSUB', numsub, channels .. client)[2] or 0) == 0 and client
    if not deaf and redis.call('HDEL', record, ARGV[5]) == 1 then
      if owner == '' then owner = string.match(ticket, '^[^:]+:%d+') end
      --#include grant.lua
      return {0, client == me and {ticket, tonumber(token), span, us} or {}, 'held'}
    end
  end
end

--#include advance.lua
if deaf then dead[deaf] = true end

local held = redis.call('HMGET', record, 'token', 'kept', 'owner')
local line = redis.call('LLEN', queue)
local live = redis.call('ZCOUNT', waiters, num(ms), '+inf')
--#include last.lua
local now = number(held[1], MAX_TOKEN)

local function implicit(ticket) return string.find(ticket, '::', 1, true) end

-- A release by one whom the server has forgotten is as clean as any: nobody was let in since. What is kept for one who had the
-- lock before is kept for nobody. For the others who may hold it under an explicit owner's name the lock is kept for a lease.
local function forgotten(ticket, token)
  local kept = end_of(held[2]) > ms
  if token > 0 and kept and now == token then
    if implicit(ticket) then redis.call('DEL', record) end
    return true
  end
  local before = kept and held[3] == '' and now < token
  if token == 0 or held[1] and not before or last >= token then return false end
  local _, lease, owner = split(ticket)
  redis.call('DEL', record)
  redis.call('SET', tokens, num(token), 'PXAT', num(ms + math.max(TOKEN_TTL, 2 * lease)))
  if not implicit(ticket) then
    redis.call('HSET', record, 'owner', owner, 'token', num(token), 'since', num(ms), 'lease', lease, 'kept', num(ms + lease) .. ':0')
  end
  if line == 0 and not plain then gather() end
  return true
end

-- Where several leave, they are looked for together, when all that concerns each alone is done.
local states, several, wanted, many = {}, #ARGV > 8, {}, 0

-- Takes a waiter out, or sees to it; the answer is whether it is known by now that it waited.
local function unqueue(ticket, at)
  local listed = redis.call('ZREM', waiters, ticket)
  if line == 0 or listed == 0 and redis.call('EXISTS', waiters) == 1 then return listed == 1 end
  if not several then return take_out(ticket, at, line) + listed > 0 end
  wanted[ticket], many = #states + 1, many + 1
  return listed == 1
end

local function leave(ticket, at, token, retire)
  local hold = redis.call('HGET', record, ticket)
  local state = 'none'
  redis.call('HDEL', record, ticket)
  if hold and end_of(hold) > ms then
    state = 'held'
  elseif forgotten(ticket, token) then
    state = 'held'
    unqueue(ticket, at) -- a late request may have put it in line, for all that the server knew
  elseif unqueue(ticket, at) then
    state = 'waiting'
  end
  if retire then mark('!' .. ticket, MARK_TTL) end
  return state
end

for i = 5, #ARGV, 4 do
  states[#states + 1] = leave(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3] == '1')
end
if many > 0 then
  local _, found = take_all(wanted, many, line)
  for ticket in pairs(found) do
    if states[wanted[ticket]] == 'none' then states[wanted[ticket]] = 'waiting' end
  end
end

-- What is left of the record: holds of the same owner, each with its own deadline. The latest is the record's. If that is
-- sooner than those who wait know, the next in line is told; where there is no line, everybody is.
local latest = 0
local fields = redis.call('HGETALL', record)
for i = 1, #fields, 2 do
  if fields[i] == 'kept' or string.find(fields[i], ':', 1, true) then
    local deadline = end_of(fields[i + 1])
    if deadline > ms then latest = math.max(latest, deadline) else redis.call('HDEL', record, fields[i]) end
  end
end
local grant, more = {}, 0
if latest > 0 then
  local sooner = latest + SOONER < redis.call('PEXPIRETIME', record)
  redis.call('PEXPIREAT', record, num(latest))
  local head = sooner and ticket_of(redis.call('LINDEX', queue, 0) or '') or ''
  if split(head) then tell((split(head)), 'hint ' .. head .. ' ' .. record) end
else
  redis.call('DEL', record)
  if line < live and not plain then gather() end -- somebody deleted the line
  local given = advance()
  if given == false then more = 1 end
  if given and split(given[1]) == me then grant = {given[1], tonumber(given[2]), given[3], us} end
end
for _, state in ipairs(states) do
  if plain and state == 'held' then redis.pcall(verb, freed, me) break end
end
return {more, grant, unpack(states)}
