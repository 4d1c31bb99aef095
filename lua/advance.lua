-- advance.lua: who comes next. Included by enter, leave and force; never called by itself.
--
-- Expects the including script to have declared
--   record, queue, waiters, tokens   the four keys
--   verb, channels, me               PUBLISH or SPUBLISH; the channels' common start; the calling client
--   numsub                           NUMSUB or SHARDNUMSUB
--   us, ms                           the server's time, read once
--   LIVENESS, ...                    terms.lua
-- and to have read all four keys once (a wrong type must fail before anything is written).
--
-- A ticket is client:counter:lease:owner:note, an element of the line is place:ticket, and in the set a score below
-- zero is no deadline but a mark, -(its own end): '!'..ticket is a retired ticket, '~'..client a blind client, '#'..token a forced ownership,
-- '^'..client one of whom a ticket was passed over, so that no later one of its tickets comes first, and '?' says that
-- places were lost: until it ends the lock is given to nobody, so that all can come back to theirs.

local function num(n) return string.format('%d', n) end

local function split(ticket)
  local client, counter, lease, owner = string.match(ticket, '^([^:]+):(%d+):(%d+):([^:]*)')
  if client then return client, tonumber(lease), owner ~= '' and owner or client .. ':' .. counter end
end

-- An element that is none of ours has place 0 and an empty ticket; it is dropped when its turn comes.
local function place_of(element) return tonumber(string.match(element, '^%d+') or 0) end
local function ticket_of(element) return string.match(element, ':(.*)$') or '' end

-- The element of a ticket in a line of so many whose client does not know its place.
local function find(ticket, line)
  for to = line - 1, 0, -500 do
    for _, element in ipairs(redis.call('LRANGE', queue, math.max(0, to - 499), to)) do
      if ticket_of(element) == ticket then return element end
    end
  end
end

-- Takes a ticket out of the line, wherever it stands: a late request may have put it elsewhere than its client knows.
-- Returns how many elements that were, 1 or 0.
local function take_out(ticket, at, line)
  if at > 0 and redis.call('LREM', queue, 1, num(at) .. ':' .. ticket) == 1 then return 1 end
  local element = find(ticket, line)
  return element and redis.call('LREM', queue, 1, element) or 0
end

-- A subscriber of the exact name; PUBLISH's own count would include any pattern subscriber, such as a monitor.
local function heard(client)
  return tonumber(redis.pcall('PUBSUB', numsub, channels .. client)[2] or 0) > 0
end

local function valid(mark) return mark and -tonumber(mark) > ms end

local function gather()
  redis.call('ZADD', waiters, num(-(ms + GATHER)), '?')
  redis.call('PEXPIREAT', waiters, num(ms + MARK_TTL))
end

local function tell(client, message) redis.pcall(verb, channels .. client, message) end

local function grant(ticket, client, owner, lease, last)
  --#include grant.lua
  return {ticket, token, span}
end

-- Clients whose turn came, and whether they are passed over: nobody hears them, or others of theirs have yet to return.
local dead = {}

local function nominate()
  for _ = 1, DROPS do
    local element = redis.call('LINDEX', queue, 0)
    if not element then return nil end
    local ticket = ticket_of(element)
    local client, lease, owner = split(ticket)
    local seen = redis.call('ZMSCORE', waiters, ticket, '!' .. ticket, '~' .. (client or ''), '?', '^' .. (client or ''))
    if valid(seen[4]) then return nil end
    -- When the whole set is gone (deleted by hand) there are no deadlines to judge by: reachability decides.
    local alive = client and not seen[2] and (seen[1] and tonumber(seen[1]) > ms or not seen[1] and redis.call('EXISTS', waiters) == 0)
    if alive and dead[client] == nil then
      dead[client] = valid(seen[5]) or client ~= me and not heard(client) and not valid(seen[3])
      if valid(seen[5]) then tell(client, 'hint ' .. ticket .. ' ' .. record) end -- it may be back, and not know
    end
    if alive and not dead[client] then return grant(ticket, client, owner, lease, tonumber(redis.call('GET', tokens) or 0)) end
    redis.call('LPOP', queue)
    redis.call('ZREM', waiters, ticket)
  end
  return false
end

-- Gives the free lock to the first ticket that is alive and reachable; drops those before it. A dropped ticket that
-- lives returns to its place with its next enter. Returns
--   nil                          nobody is in line, or all are given time to come back
--   false                        DROPS tickets were dropped and the lock is still free: call again
--   {ticket, token, claim}       granted for claim ms; told by message unless the ticket is the caller's own
local function advance()
  local given = nominate()
  for client, unheard in pairs(dead) do
    if unheard and redis.call('EXISTS', queue) == 1 then
      redis.call('ZADD', waiters, num(-(ms + LIVENESS)), '^' .. client)
      redis.call('PEXPIREAT', waiters, num(ms + MARK_TTL))
    end
  end
  return given
end
