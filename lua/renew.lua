-- renew: prolongs holds. Their deadlines only ever grow.
--
-- KEYS  1.. one record per hold, and no other key: so a migrating slot does not refuse a renewal
-- ARGV  4 per hold: ticket, lease (ms from now; 0: as it is), until (server ms, absolute; 0: none),
--       depth, and with ':' before it the ticket whose turn it is, if not this one's
-- Reply per hold: its remaining time (ms); 0 if there is no such hold, or a damaged one: ask
--       reassert
-- Errors: WRONGTYPE may come after some of several holds were prolonged: ask for each alone. A full
--       server refuses nothing here.

--#include parts/now.lua
--#include parts/number.lua
local reply = {}
for k, record in ipairs(KEYS) do
  local ticket, depth = ARGV[4 * k - 3], ARGV[4 * k]
  local lease, till = tonumber(ARGV[4 * k - 2]), tonumber(ARGV[4 * k - 1])
  local held = redis.pcall('HMGET', record, ticket, 'lease')
  if held.err then return held end
  local deadline = end_of(held[1])
  local before = tonumber(held[2] or 0)
  reply[k] = 0
  if deadline > ms then
    deadline = math.max(deadline, ms + lease, till)
    -- A lease above MAX_LEASE is damaged.
    if before and before > lease and before <= MAX_LEASE then lease = before end
    local ends = num(deadline)
    local longer = redis.call('PEXPIREAT', record, ends, 'GT') == 1
    redis.call('HSET', record, ticket, ends .. ':' .. depth)
    if lease ~= before then redis.call('HSET', record, 'lease', lease) end
    if not longer then
      -- Others hold it for longer, or it is damaged: it ends never, or in the far future. Or it has
      -- just ended: Redis 7.0 goes by the clock of this moment, so the end is set last.
      --#include parts/others.lua
      redis.call('PEXPIREAT', record, num(math.max(deadline, others)))
    end
    reply[k] = deadline - ms
  end
end
return reply
