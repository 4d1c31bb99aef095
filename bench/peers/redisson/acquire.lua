-- ARGV: lease (ms), owner, wait (ms), now (ms, the client's). Nil: acquired. Otherwise the ms until
-- the client should ask again.
sweep(tonumber(ARGV[4]))
if take(ARGV[2], tonumber(ARGV[1]), tonumber(ARGV[3])) then return nil end
if redis.call('ZSCORE', KEYS[3], ARGV[2]) then
    return math.max(0, redis.call('PTTL', KEYS[1]))
end
-- The new deadline continues the deadline of the last waiter in line.
local ttl
local last = redis.call('LINDEX', KEYS[2], -1)
local deadline = last and last ~= ARGV[2] and redis.call('ZSCORE', KEYS[3], last)
if deadline then
    ttl = tonumber(deadline) - tonumber(ARGV[4])
else
    ttl = redis.call('PTTL', KEYS[1])
end
if redis.call('ZADD', KEYS[3], ttl + tonumber(ARGV[3]) + tonumber(ARGV[4]), ARGV[2]) == 1 then
    redis.call('RPUSH', KEYS[2], ARGV[2])
end
return ttl
