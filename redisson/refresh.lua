-- Keeps the places of one client's waiters in the line of a fair lock, and looks who is next.
-- KEYS: 1 lock, 2 queue, 3 deadlines
-- ARGV: 1 time that an owner of ours stays in line unless refreshed (ms), 2 Java's
--       fairLockWaitTimeout (ms), 3 PUBLISH or SPUBLISH, 4 what the channels of waiters begin with,
--       5 and so on: the owners
-- Reply: PTTL, the time until the head's deadline (ms; 0: nobody is in line), the owner that may have
--        the lock now (empty: none of these), the owners that are not in line, the holder (may be
--        empty), how many are in line
-- Errors before a write: WRONGTYPE. A full server refuses nothing here.
--#include parts/holder.lua
--#include parts/now.lua
local verb, channels = ARGV[3], ARGV[4]
local ours, java = tonumber(ARGV[1]), tonumber(ARGV[2])
local wanted = {}
for i = 5, #ARGV do wanted[ARGV[i]] = true end
redis.call('ZREM', KEYS[3], '') -- nothing; but a full server refuses no write of a script after this
--#include parts/ahead.lua
local found = {}
for _, owner in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  if wanted[owner] and scores[owner] then
    found[owner] = true
    redis.call('ZADD', KEYS[3], 'XX', string.format('%.0f', now + ours + ahead), owner)
    scores[owner] = nil
  end
  pass(owner)
end
--#include parts/sweep.lua
local left = redis.call('PTTL', KEYS[1])
local next, ends = '', 0
if head then
  ends = (tonumber(redis.call('ZSCORE', KEYS[3], head)) or now) - now
  ends = math.max(1, math.floor(math.min(ends, 1e12))) -- Java may wait for Long.MAX_VALUE
  if left == -2 and found[head] then
    next = head
  elseif left == -2 and (swept or string.sub(head, 15, 15) ~= '8') then
    -- Java may sleep beside a free lock whose message it missed. One of ours finds it by itself.
    --#include parts/tell.lua
  end
end
local missing = {}
for i = 5, #ARGV do
  if not found[ARGV[i]] then
    missing[#missing + 1] = ARGV[i]
    redis.call('ZREM', KEYS[3], ARGV[i]) -- or enter takes it for one in line
  end
end
return {left, ends, next, missing, holder, redis.call('LLEN', KEYS[2])}
