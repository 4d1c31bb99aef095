-- Drops heads whose deadline is over by the caller's clock. Put before the scripts that begin with
-- it.
--
-- KEYS: lock, queue, deadlines.
local function sweep(now)
    while true do
        local head = redis.call('LINDEX', KEYS[2], 0)
        if not head then return end
        local deadline = redis.call('ZSCORE', KEYS[3], head)
        if not deadline or tonumber(deadline) > now then return end
        redis.call('ZREM', KEYS[3], head)
        redis.call('LPOP', KEYS[2])
    end
end

-- Takes the lock for me if it is free and me is next, or if me holds it already.
local function take(me, lease, wait)
    if redis.call('EXISTS', KEYS[1]) == 0
        and (redis.call('EXISTS', KEYS[2]) == 0 or redis.call('LINDEX', KEYS[2], 0) == me) then
        redis.call('LPOP', KEYS[2])
        redis.call('ZREM', KEYS[3], me)
        -- The deadlines of all waiters were set behind this one's.
        for _, waiter in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
            redis.call('ZINCRBY', KEYS[3], -wait, waiter)
        end
        redis.call('HSET', KEYS[1], me, 1)
        redis.call('PEXPIRE', KEYS[1], lease)
        return true
    end
    if redis.call('HEXISTS', KEYS[1], me) == 1 then
        redis.call('HINCRBY', KEYS[1], me, 1)
        redis.call('PEXPIRE', KEYS[1], lease)
        return true
    end
    return false
end
