-- Asks for a plain lock.
-- KEYS: 1 lock, 2 mark of an owner that has left
-- ARGV: 1 owner, 2 lease (ms)
-- Replies: granted, now (ms)         the owner has the lock for the lease, or for longer
--          held, PTTL, 0, holder
--          gone                      the owner has left: this request came late
-- Errors before a write: WRONGTYPE.
if redis.call('EXISTS', KEYS[2]) == 1 then return {'gone'} end
local mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not mine and redis.call('EXISTS', KEYS[1]) == 0 then
  mine = redis.call('HSET', KEYS[1], ARGV[1], 1) == 1
end
if mine then -- a request that comes late must not shorten what has been prolonged meanwhile
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    --#include parts/ends.lua
  end
  --#include parts/now.lua
  return {'granted', now}
end
--#include parts/holder.lua
return {'held', redis.call('PTTL', KEYS[1]), 0, holder}
