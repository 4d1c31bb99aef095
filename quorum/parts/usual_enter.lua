-- usual_enter.lua: the lock is free and nobody waits for it. Included before the first function,
-- for making functions costs as much as commands do; the same is said by give in advance.lua.
if not holder[1] and redis.call('EXISTS', line) == 0 then
  --#include parts/run.lua
  local kept = redis.call('HMGET', node, 'run', 'from', 'set', 'most')
  if kept[1] == run and kept[3] == set and kept[4] == most and (tonumber(kept[2]) or ms + 1) <= ms then
    local token = math.max(us, last + 1)
    local claim = math.min(CLAIM, tonumber(string.match(ticket, '^[^:]+:%d+:(%d+):')))
    local text = string.format('%.0f', token)
    place = place > 0 and place or us
    redis.call('ZADD', waiters, string.format('%.0f', ms + claim), ticket) -- first: its type is not known yet
    redis.call('SET', tokens, text, 'PXAT', string.format('%.0f', math.max(ms + claim, math.ceil(token / 1000)) + TOKEN_TTL))
    redis.call('HSET', record, 'ticket', ticket, 'token', text, 'since', string.format('%.0f', us))
    --#include parts/ends.lua
    redis.call('ZADD', line, string.format('%.0f', place), ticket)
    redis.call('PEXPIRE', line, LINE_TTL)
    redis.call('PEXPIRE', waiters, LINE_TTL)
    if token == us and place == us then return us end
    return {'granted', us, token, us, claim, place, 0}
  end
end
