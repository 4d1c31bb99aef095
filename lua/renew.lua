-- renew: holds live on. Their deadlines only ever grow.
--
-- KEYS  1.. one record per hold: nothing else is declared, so that a migrating slot does not refuse a renewal
-- ARGV  4 per hold: ticket, lease (ms from now; 0: as it is), until (server ms, absolute; 0: none), depth
-- Reply per hold: its remaining time (ms), 0 if there is no such hold, or it is damaged: ask reassert; -1 if its key is of a wrong type
-- Errors: WRONGTYPE only for a hold that comes alone; nothing here is refused by a full server.

--#include terms.lua
local time = redis.call('TIME')
local ms = math.floor((time[1] * 1000000 + time[2]) / 1000)
local reply = {}
for k, record in ipairs(KEYS) do
  local ticket, lease, till, depth = ARGV[4 * k - 3], tonumber(ARGV[4 * k - 2]), tonumber(ARGV[4 * k - 1]), ARGV[4 * k]
  local now = redis.pcall('HMGET', record, ticket, 'lease')
  if now.err and #KEYS == 1 then return now end
  local deadline, before = now[1] and tonumber(string.match(now[1], '^%d+') or 0) or 0, tonumber(now[2] or 0)
  if deadline > MAX_TIME then deadline = 0 end -- damaged: no script writes that, nor such a lease
  reply[k] = now.err and -1 or 0
  if deadline > ms then
    deadline = math.max(deadline, ms + lease, till)
    if before and before > lease and before <= MAX_LEASE then lease = before end
    redis.call('PEXPIREAT', record, string.format('%d', math.max(math.min(redis.call('PEXPIRETIME', record), MAX_TIME), deadline)))
    redis.call('HSET', record, ticket, string.format('%d:%s', deadline, depth), 'lease', lease)
    reply[k] = deadline - ms
  end
end
return reply
