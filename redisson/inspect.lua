-- Shows a lock, and a page of its line. Writes nothing.
-- KEYS: 1 lock, 2 queue, 3 deadlines
-- ARGV: 1 the first waiter to show, 2 the last
-- Reply: PTTL, holder (empty: none), count, in line, now (ms), {waiter, deadline (ms), ...}
-- Errors: WRONGTYPE.
--#include parts/holder.lua
local count = holder ~= '' and redis.call('HGET', KEYS[1], holder) or '0'
--#include parts/now.lua
local page = {}
for _, waiter in ipairs(redis.call('LRANGE', KEYS[2], ARGV[1], ARGV[2])) do
  page[#page + 1] = waiter
  page[#page + 1] = redis.call('ZSCORE', KEYS[3], waiter) or '0'
end
return {redis.call('PTTL', KEYS[1]), holder, count, redis.call('LLEN', KEYS[2]), now, page}
