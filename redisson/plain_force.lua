-- Ends the present ownership of a plain lock, whoever has it, and tells all who wait for it.
-- KEYS: 1 lock
-- ARGV: 1 PUBLISH or SPUBLISH, 2 the channel of the lock
-- Reply: 1 if somebody had the lock, else 0
-- Errors before a write: WRONGTYPE.
redis.call('HLEN', KEYS[1])
local had = redis.call('DEL', KEYS[1])
if had == 1 then redis.call(ARGV[1], ARGV[2], '0') end
return had
