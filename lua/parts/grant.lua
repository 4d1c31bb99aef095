-- grant.lua: gives the lock to ticket, the first of the line. Included; needs the ticket's client,
-- lease and owner. Leaves token, a text, and span, the claim. A message tells the client, unless
-- the client is the caller.
redis.call('LPOP', queue)
redis.call('ZREM', waiters, ticket)
local span = math.min(CLAIM, lease)
--#include parts/record.lua
if client ~= me then
  local now, claim = string.format('%d', us), string.format('%d', span)
  redis.pcall(verb, channels .. client,
    'grant ' .. now .. ' ' .. claim .. ' ' .. token .. ' ' .. ticket .. ' ' .. record)
end
