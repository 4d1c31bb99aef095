-- leave: takes tickets out of the line and out of the record. If that makes the lock free, the next
-- in line has it. Unlock, cancellation and an unwanted grant are all this verb. Without tickets it
-- only lets a free lock advance.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 PUBLISH or SPUBLISH  2 the channels' common start  3 the client
--       4 '', or for a plain lock the channel to tell that somebody held the lock until now
--       5.. per ticket: ticket, place (us; 0: not known), token (0: it never held),
--           '1' to retire the ticket: an unanswered request of it may still arrive
-- Reply 1: the one ticket held the lock, nobody waits, and the lock is free; or
--       1 1: the lock is free and DROPS were dropped: call again
--       2 {} or a grant to a ticket of this client: {ticket, token, remaining ms, since us, run}
--       3.. per ticket: 'held' it held the lock until now, 'waited' it was in line, 'forced' its
--       ownership was ended by force within the last minute, 'neither'
-- A client is told 'hint <ticket> <record>', that is to enter again, in two cases: its ticket is
-- next, and the owner's other holds end sooner than the line knows; or advance passed the client
-- over once more, and the client may not know of the first time.
-- Errors: WRONGTYPE comes before anything is written. A full server refuses nothing here.

local record, queue, waiters, tokens = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local verb, channels, me, freed = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- The usual release is of the only hold (the ticket names no owner but itself), and of those that
-- had a turn on it, with nothing unanswered. If nobody is in line, that takes three calls, and a
-- fourth for a plain lock.
local usual = ARGV[7] ~= '0' and string.find(ARGV[5] or '', '::', 1, true)
for i = 8, #ARGV, 4 do usual = usual and ARGV[i] == '0' and (i == 8 or ARGV[i - 1] == '0') end
if usual and #ARGV == 8 and redis.call('EXISTS', queue, waiters) == 0
  and redis.call('HDEL', record, ARGV[5]) == 1 then
  redis.call('DEL', record)
  if freed ~= '' then redis.pcall(verb, freed, me) end
  return 1
end
--#include parts/now.lua
--#include parts/last.lua
--#include parts/usual_leave.lua

--#include parts/number.lua
--#include parts/ticket.lua
--#include parts/marks.lua
--#include parts/reach.lua
--#include parts/line.lua
--#include parts/advance.lua
if deaf then passed_over[deaf] = true end

local fields = redis.call('HMGET', record, 'token', 'kept', 'owner')
local present, kept, placeholder = number(fields[1], MAX_TOKEN), end_of(fields[2]), fields[3] == ''
local line = redis.call('LLEN', queue)
local live = redis.call('ZCOUNT', waiters, num(ms), '+inf')

-- A release by a holder that the server has forgotten is as clean as any: nobody was let in since.
-- A placeholder for an older token is void: its holder has been succeeded. If others may hold the
-- lock under the owner's name, it is kept for a lease.
local function forgotten(ticket, token)
  local _, lease, owner, shared = split(ticket)
  --#include parts/forget.lua
  if token > 0 and awaited then
    if not shared then redis.call('DEL', record) end
    return true
  end
  if not lost or fields[1] and not (placeholder and kept > ms) then return false end
  redis.call('DEL', record)
  token = num(token)
  --#include parts/remember.lua
  if shared then
    local since, till = ms, ms + lease
    --#include parts/keep.lua
  end
  if line == 0 then mark('?', GATHERING) end
  return true
end

-- If several tickets leave, one walk looks for all of them, after all that concerns each alone.
local were, several, wanted, many, held = {}, #ARGV > 8, {}, 0, false

-- Takes a ticket out of the line, or leaves that to the walk. Returns whether the ticket is known
-- by now to have waited.
local function unqueue(ticket, at)
  local listed = redis.call('ZREM', waiters, ticket)
  if line == 0 or listed == 0 and redis.call('EXISTS', waiters) == 1 then return listed == 1 end
  if not several then return take_out(ticket, at, line) + listed > 0 end
  wanted[ticket], many = #were + 1, many + 1
  return listed == 1
end

local function leave(ticket, at, token, retire)
  local hold = redis.call('HGET', record, ticket)
  local was = 'neither'
  redis.call('HDEL', record, ticket)
  if hold and end_of(hold) > ms then
    was = 'held'
  elseif forgotten(ticket, token) then
    was = 'held'
    unqueue(ticket, at) -- a late request may have put the forgotten ticket in line
  elseif unqueue(ticket, at) then
    was = 'waited'
  end
  held = held or was == 'held'
  -- After a force by an older client, a late request may yet have given it a place, or the lock.
  if token > 0 and token ~= present and redis.call('ZSCORE', waiters, '#' .. ticket) then
    was = 'forced'
  end
  if retire then mark('!' .. ticket, MARK_TTL) end
  return was
end

for i = 5, #ARGV, 4 do
  local at, token = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  were[#were + 1] = leave(ARGV[i], at, token, ARGV[i + 3] == '1')
end
if many > 0 then
  local _, found = take_all(wanted, many, line)
  for ticket in pairs(found) do
    if were[wanted[ticket]] == 'neither' then were[wanted[ticket]] = 'waited' end
  end
end
--#include parts/rest.lua
if freed ~= '' and held then redis.pcall(verb, freed, me) end
return {more, grant, unpack(were)}
