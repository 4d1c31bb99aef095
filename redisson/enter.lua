-- Asks for a fair lock, and stands in line for it.
-- KEYS: 1 lock, 2 queue, 3 deadlines, 4 mark of an owner that has left
-- ARGV: 1 owner, 2 lease (ms), 3 time that the owner stays in line unless refreshed (ms),
--       4 the most waiters (0: no bound; -1: a try, which does not wait),
--       5 PUBLISH or SPUBLISH, 6 what the channels of waiters begin with,
--       7 1: tell the position in any case, 8 Java's fairLockWaitTimeout (ms)
-- Replies: granted, now (ms)                the owner has the lock for the lease, or for longer
--          waits, PTTL, position, holder    it is in line; position 0: it has been there before,
--                                           and the holder is not told
--          held, PTTL, in line, holder      a try found somebody else, or a line
--          full, PTTL, in line, holder
--          gone                             the owner has left: this request came late
-- Errors before a write: WRONGTYPE.
if redis.call('EXISTS', KEYS[4]) == 1 then return {'gone'} end
local mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
redis.call('ZCARD', KEYS[3])
local ours, verb, channels = tonumber(ARGV[3]), ARGV[5], ARGV[6]
--#include parts/now.lua
--#include parts/sweep.lua
local left = redis.call('PTTL', KEYS[1])
if left == -2 and (not head or head == ARGV[1]) then
  if head then
    redis.call('LPOP', KEYS[2])
    redis.call('ZREM', KEYS[3], ARGV[1])
    for _, behind in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
      redis.call('ZINCRBY', KEYS[3], -ours, behind)
    end
  end
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  mine = true
end
if mine then -- a request that comes late must not shorten what has been prolonged meanwhile
  if left < tonumber(ARGV[2]) then
    --#include parts/ends.lua
  end
  return {'granted', now}
end
if swept and left == -2 then
  --#include parts/tell.lua
end
if redis.call('ZSCORE', KEYS[3], ARGV[1]) then
  if ARGV[7] ~= '1' then return {'waits', left, 0, ''} end
  local position = 0 -- an earlier reply was lost
  for i, owner in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
    if owner == ARGV[1] then position = i end
  end
  --#include parts/holder.lua
  return {'waits', left, position, holder}
end
--#include parts/holder.lua
local most, waiting = tonumber(ARGV[4]), redis.call('LLEN', KEYS[2])
if most > 0 and waiting >= most then -- behind a live head, nobody has dropped those who died
  local live = redis.call('ZCOUNT', KEYS[3], string.format('(%.0f', now), '+inf')
  waiting = math.min(waiting, live)
end
if most < 0 or most > 0 and waiting >= most then
  return {most < 0 and 'held' or 'full', left, waiting, holder}
end
-- Java adds to the deadline of the last in line, or to the end of the lock's lease. That of ours is
-- what a refresh would make it: it is enough for a live client, and a dead one costs less.
redis.call('LREM', KEYS[2], 0, ARGV[1])
local java = tonumber(ARGV[8])
--#include parts/ahead.lua
for _, owner in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do pass(owner) end
redis.call('ZADD', KEYS[3], string.format('%.0f', now + ours + ahead), ARGV[1])
return {'waits', left, redis.call('RPUSH', KEYS[2], ARGV[1]), holder}
