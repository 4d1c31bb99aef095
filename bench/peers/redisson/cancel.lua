-- KEYS: queue, deadlines. ARGV: owner, wait (ms). Takes a waiter out of the line, and tells nobody.
local behind = false
for _, waiter in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
    if behind then
        redis.call('ZINCRBY', KEYS[2], -tonumber(ARGV[2]), waiter)
    elseif waiter == ARGV[1] then
        behind = true
    end
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('LREM', KEYS[1], 0, ARGV[1])
