-- Prolongs holds, and shows how many Leases are on each. Nothing is ever shortened.
-- KEYS: the locks
-- ARGV, for each: owner, lease (ms; 0: as it is), until (ms since 1970; 0: none), count
-- Reply, for each: how long the lock has its owner now (ms); 0: the owner does not have it
-- Errors before a write, if there is one lock: WRONGTYPE. A full server refuses nothing
--       here.
--#include parts/now.lua
local reply = {}
for i, key in ipairs(KEYS) do
  local owner, lease, ends, count = unpack(ARGV, 4 * i - 3, 4 * i)
  local shown = redis.call('HGET', key, owner)
  reply[i] = 0
  if shown then
    local left = redis.call('PTTL', key)
    reply[i] = math.max(1, left, lease, ends - now)
    -- Before an HSET also if nothing changes: a full server refuses that as a script's first write.
    if reply[i] > left or shown ~= count then redis.call('PEXPIRE', key, reply[i]) end
    if shown ~= count then redis.call('HSET', key, owner, count) end
  end
end
return reply
