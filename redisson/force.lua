-- Ends the present ownership of a fair lock, whoever has it, and tells the next in line.
-- KEYS: 1 lock, 2 queue, 3 deadlines
-- ARGV: 1 PUBLISH or SPUBLISH, 2 what the channels of waiters begin with
-- Reply: 1 if somebody had the lock, else 0
-- Errors before a write: WRONGTYPE.
redis.call('HLEN', KEYS[1])
redis.call('ZCARD', KEYS[3])
--#include parts/now.lua
--#include parts/sweep.lua
local had = redis.call('DEL', KEYS[1])
if head then redis.call(ARGV[1], ARGV[2] .. ':' .. head, '0') end
return had
