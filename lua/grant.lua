-- grant.lua: the lock is given to the first ticket of the line: ticket, of client and owner. Included.
-- Leaves given: {ticket, token, claim}. Its client is told by message unless it is the caller.
redis.call('LPOP', queue)
redis.call('ZREM', waiters, ticket)
local span = math.min(CLAIM, lease)
--#include record.lua
local given = {ticket, token, span}
if client ~= me then
  local now, claim = string.format('%d', us), string.format('%d', span)
  redis.pcall(verb, channels .. client, 'grant ' .. now .. ' ' .. claim .. ' ' .. token .. ' ' .. ticket .. ' ' .. record)
end
