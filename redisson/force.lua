-- Ends the present ownership of a fair lock, whoever has it, and tells the next in line.
-- KEYS: 1 lock, 2 queue, 3 deadlines
-- ARGV: 1 PUBLISH or SPUBLISH, 2 what the channels of waiters begin with, 3 time that an owner of
--       ours stays in line unless refreshed (ms)
-- Reply: who had the lock; '': nobody; '?': it was no lock
-- Errors before a write: WRONGTYPE. A full server refuses nothing here.
--#include parts/holder.lua
redis.call('ZCARD', KEYS[3])
local verb, channels, ours = ARGV[1], ARGV[2], tonumber(ARGV[3])
--#include parts/now.lua
--#include parts/sweep.lua
if redis.call('DEL', KEYS[1]) == 1 and holder == '' then holder = '?' end
--#include parts/tell.lua
return holder
