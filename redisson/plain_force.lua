-- Ends the present ownership of a plain lock, whoever has it, and tells all who wait for it.
-- KEYS: 1 lock
-- ARGV: 1 PUBLISH or SPUBLISH, 2 the channel of the lock
-- Reply: who had the lock; '': nobody; '?': it was no lock
-- Errors before a write: WRONGTYPE. A full server refuses nothing here.
--#include parts/holder.lua
if redis.call('DEL', KEYS[1]) == 1 then
  redis.pcall(ARGV[1], ARGV[2], '0') -- refused or not, the lock is free
  if holder == '' then holder = '?' end
end
return holder
