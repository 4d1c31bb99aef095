-- stay.lua: the line outlives its last heartbeat. A client that nobody hears yet is not passed over
-- for a moment. Included by enter and beat; needs advance.lua.
if not hears(me) then redis.call('ZADD', waiters, num(ms + BLIND), '~' .. me) end
redis.call('PEXPIRE', line, LINE_TTL)
redis.call('PEXPIRE', waiters, LINE_TTL)
