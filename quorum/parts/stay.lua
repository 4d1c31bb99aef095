-- stay.lua: the line outlives its last heartbeat. A client that nobody hears yet is not passed over
-- for a moment; whoever is noted so removes those whose moment is over. Included by enter, beat and
-- renew; needs advance.lua.
if not hears(me) then
  for _, ended in ipairs(redis.call('ZRANGE', waiters, 0, num(ms), 'BYSCORE', 'LIMIT', 0, DROPS)) do
    if string.sub(ended, 1, 1) == '~' then redis.call('ZREM', waiters, ended) end
  end
  redis.call('ZADD', waiters, num(ms + BLIND), '~' .. me)
end
redis.call('PEXPIRE', line, LINE_TTL)
redis.call('PEXPIRE', waiters, LINE_TTL)
