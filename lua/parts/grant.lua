-- grant.lua: the first ticket of the line, of client and owner, has the lock. Included. Leaves its
-- token, a text, and span, the claim. Its client is told by message unless it is the caller.
redis.call('LPOP', queue)
redis.call('ZREM', waiters, ticket)
local span = math.min(CLAIM, lease)
--#include parts/record.lua
if client ~= me then
  local now, claim = string.format('%d', us), string.format('%d', span)
  redis.pcall(verb, channels .. client,
    'grant ' .. now .. ' ' .. claim .. ' ' .. token .. ' ' .. ticket .. ' ' .. record)
end
