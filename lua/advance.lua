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

--#include number.lua

local function split(ticket)
  local client, counter, lease, owner = string.match(ticket, '^([!-9;-~]+):(%d+):([1-9]%d*):([^:]*)')
  if client and #lease < 13 then return client, tonumber(lease), owner ~= '' and owner or client .. ':' .. counter end
end

-- An element that is none of ours has place 0 and an empty ticket; it is dropped when its turn comes.
local function place_of(element) return number(string.match(element, '^%d+'), MAX_PLACE) end
local function ticket_of(element) return string.match(element, ':(.*)$') or '' end

-- Calls look with each element of a line of so many and its index, from the end or from the head,
-- until it returns true: the one walk through a line that a script may make.
local function walk(line, from_head, look)
  for chunk = 0, math.ceil(line / FETCHES) - 1 do
    local first = from_head and chunk * FETCHES or math.max(0, line - FETCHES * (chunk + 1))
    local last = from_head and first + FETCHES - 1 or line - FETCHES * chunk - 1
    local elements = redis.call('LRANGE', queue, first, last)
    for i = 1, #elements do
      local n = from_head and i or #elements + 1 - i
      if look(elements[n], first + n - 1) then return end
    end
  end
end

-- Takes these elements out of the line, which stand at these indices, and returns how many they
-- were. Of several, each becomes what no element is, and then all of these go at once.
local function cut(elements, indices)
  if #elements == 1 then return redis.call('LREM', queue, 1, elements[1]) end
  for _, i in ipairs(indices) do redis.call('LSET', queue, i, '') end
  return #indices > 0 and redis.call('LREM', queue, 0, '') or 0
end

-- Takes tickets out of the line, wherever they stand: wanted has so many as keys. Returns how
-- many elements that were, and whose.
local function take_all(wanted, many, line, from_head)
  local found, elements, indices = {}, {}, {}
  walk(line, from_head, function(element, i)
    local ticket = ticket_of(element)
    if wanted[ticket] and not found[ticket] then
      found[ticket], elements[#elements + 1], indices[#indices + 1] = true, element, i
    end
    return #indices == many
  end)
  return cut(elements, indices), found
end

-- Takes a ticket out of the line, wherever it stands: a late request may have put it elsewhere than its client knows.
-- Returns how many elements that were, 1 or 0.
local function take_out(ticket, at, line)
  if at > 0 and redis.call('LREM', queue, 1, num(at) .. ':' .. ticket) == 1 then return 1 end
  return (take_all({[ticket] = true}, 1, line))
end

-- A subscriber of the exact name; PUBLISH's own count would include any pattern subscriber, such as a monitor.
local function heard(client)
  return tonumber(redis.pcall('PUBSUB', numsub, channels .. client)[2] or 0) > 0
end

-- No mark is written to end later than in MARK_TTL.
local function valid(mark)
  local left = -(tonumber(mark or nil) or 0) - ms
  return left > 0 and left <= MARK_TTL
end

-- Writes a mark that ends in so many ms. Those that have ended go: nobody else asks for them any
-- more.
local function mark(member, span)
  redis.call('ZREMRANGEBYSCORE', waiters, '(' .. num(-ms), '(0')
  redis.call('ZADD', waiters, num(-(ms + span)), member)
  redis.call('PEXPIREAT', waiters, num(ms + MARK_TTL))
end

local function gather() mark('?', GATHERING) end

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
    local alive = client and not seen[2] and (seen[1] and number(seen[1], math.huge) > ms or not seen[1] and redis.call('EXISTS', waiters) == 0)
    if alive and dead[client] == nil then
      dead[client] = valid(seen[5]) or client ~= me and not heard(client) and not valid(seen[3])
      if valid(seen[5]) then tell(client, 'hint ' .. ticket .. ' ' .. record) end -- it may be back, and not know
    end
    if alive and not dead[client] then return grant(ticket, client, owner, lease, number(redis.call('GET', tokens), MAX_TOKEN)) end
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
    if unheard and redis.call('EXISTS', queue) == 1 then mark('^' .. client, LIVENESS) end
  end
  return given
end
