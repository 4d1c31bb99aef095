-- reassert: renews one hold with the token at hand, and keeps the token key alive. If the record
-- does not have the hold, the token tells whether the hold is lost or forgotten. A forgotten hold
-- is written again.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 ticket  2 its token  3 since (server ms)  4 lease (ms from now; 0: as it is)
--       5 until (server ms; 0: none)  6 depth, as in renew
-- Reply the hold's remaining time (ms); 0 if the hold is lost: released, expired or succeeded;
--       -1 if it was forced
-- Errors: WRONGTYPE comes before anything is written. A full server refuses nothing here.

local record, queue, waiters, tokens = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ticket, token, since, depth = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[6]
local lease, till = tonumber(ARGV[4]), tonumber(ARGV[5])
--#include parts/now.lua
--#include parts/last.lua
--#include parts/number.lua
--#include parts/ticket.lua

local fields = redis.call('HMGET', record, ticket, 'token', 'kept', 'lease')
local deadline, present = end_of(fields[1]), number(fields[2], MAX_TOKEN)
local line = redis.call('LLEN', queue)
local retired = redis.call('ZSCORE', waiters, '!' .. ticket)
local client, own_lease, owner, shared = split(ticket)

local missing = deadline <= ms
if missing then
  local kept = end_of(fields[3])
  --#include parts/forget.lua
  if retired or not (lost or awaited or ghost) then
    return redis.call('ZSCORE', waiters, '#' .. ticket) and -1 or 0
  end
end

deadline = math.max(deadline, ms + lease, till)
if deadline <= ms then return 0 end
lease = math.max(own_lease, present == token and number(fields[4], MAX_LEASE) or 0, lease)

if missing and present < token then redis.call('DEL', record) end
local ends = deadline
if shared then
  --#include parts/others.lua
  ends = math.max(ends, others)
end
redis.call('PEXPIREAT', record, num(ends))
redis.call('HSET', record, ticket, num(deadline) .. ':' .. depth, 'lease', lease)
if missing then
  redis.call('HSET', record, 'owner', owner, 'token', num(token), 'since', since)
  redis.call('HDEL', record, 'kept')
  if shared then
    -- Others may hold the lock too under an explicit owner's name: the lock is not free until they
    -- can have come back.
    ends = math.max(ends, ms + lease)
    redis.call('HSET', record, 'kept', num(ends) .. ':0')
  end
  redis.call('PEXPIREAT', record, num(ends))
  --#include parts/marks.lua
  --#include parts/line.lua
  -- A holder does not wait: a heartbeat from before the grant may have put the ticket back in a
  -- line that was lost.
  if redis.call('ZREM', waiters, ticket) == 1 then take_out(ticket, 0, line) end
  -- Places were lost too. If the hold is released now, all waiters have time to come back first.
  mark('?', GATHERING)
elseif deadline < ms + MEANWHILE then -- Redis 7.0 goes by the present time: it may have ended
  redis.call('PEXPIREAT', record, num(ends))
end
token = num(math.max(last, token))
-- After an Extend, or a step back of the clock, the hold lasts longer than a lease. Its client goes
-- by the reply.
lease = math.min(MAX_LEASE, math.max(lease, deadline - ms))
--#include parts/no_sooner.lua
--#include parts/remember.lua
return deadline - ms
