-- grant.lua: gives the lock to ticket, the first of the line. Included; needs the ticket's client,
-- lease and owner, and after, the element behind its own: nil if there is none. Leaves token, a
-- text, span, the claim, and run, a text. A message tells the client, unless the client is the
-- caller.
redis.call('LPOP', queue)
redis.call('ZREM', waiters, ticket)
local span = math.min(CLAIM, lease)
--#include parts/record.lua
--#include parts/run.lua
if client ~= me then
  local now, claim = string.format('%d', us), string.format('%d', span)
  local news, whose = 'grant ', ' ' .. ticket .. ' ' .. record
  if run ~= '' then news, whose = 'run ', ' ' .. run .. whose end
  redis.pcall(verb, channels .. client,
    news .. now .. ' ' .. claim .. ' ' .. token .. whose)
end
