-- KEYS[4]: common start of the waiters' channels; KEYS[5]: the latch, which keeps the outcome for a
-- repeated request.
--
-- ARGV: lease (ms), owner, now (ms, the client's), how long the latch lives (ms). Nil: the owner
-- does not hold the lock. 0: still held. 1: free.
local known = redis.call('GET', KEYS[5])
if known then return tonumber(known) end
sweep(tonumber(ARGV[3]))
local function freed()
    redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
    local head = redis.call('LINDEX', KEYS[2], 0)
    if head then redis.call('PUBLISH', KEYS[4] .. ':' .. head, '0') end
    return 1
end
if redis.call('EXISTS', KEYS[1]) == 0 then return freed() end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    redis.call('SET', KEYS[5], 0, 'PX', ARGV[4])
    return 0
end
redis.call('DEL', KEYS[1])
return freed()
