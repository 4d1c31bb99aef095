-- advance.lua: who comes next. The same choice for the ordinary release is in usual_leave.lua.
-- Included by enter, leave and force; needs all that they declare. They have read all four keys
-- once: a wrong type must fail before anything is written.

-- Of each client whose turn came, whether it is passed over: nobody hears it, or other tickets of
-- the client have yet to return.
local passed_over = {}

local function nominate()
  for _ = 1, DROPS do
    local element, after = unpack(redis.call('LRANGE', queue, '0', '1'))
    if not element then return nil end
    local ticket = ticket_of(element)
    local client, lease, owner = split(ticket)
    client = client or ''
    --#include parts/look.lua
    if valid(gathering) then return nil end
    -- If the whole set is gone (deleted by hand), there are no deadlines to judge by: reachability
    -- decides.
    local alive = lease and not retired and (deadline and number(deadline, math.huge) > ms
      or not deadline and redis.call('EXISTS', waiters) == 0)
    if alive and passed_over[client] == nil then
      passed_over[client] = valid(expected)
        or client ~= me and not hears(client) and not valid(blind)
      -- The client may be back, and not know that it was passed over.
      if valid(expected) then tell(client, 'hint ' .. ticket .. ' ' .. record) end
    end
    if alive and not passed_over[client] then
      local last = number(redis.call('GET', tokens), MAX_TOKEN)
      --#include parts/grant.lua
      return {ticket, token, span, run}
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', waiters, ticket)
  end
  return false
end

-- Gives the free lock to the first ticket that is alive and reachable, and drops those before it. A
-- dropped ticket that lives returns to its place with its next enter. Returns
--   nil                     nobody is in line, or all are given time to come back
--   false                   DROPS tickets were dropped and the lock is still free: call again
--   {ticket, token, claim, run}  granted for claim ms; told by message unless it is the caller's
local function advance()
  local given = nominate()
  for client, unheard in pairs(passed_over) do
    if unheard and redis.call('EXISTS', queue) == 1 then mark('?' .. client, LIVENESS) end
  end
  return given
end
