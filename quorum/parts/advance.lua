-- advance.lua: gives a free lock to the first in line who lives and is heard. Included; needs
-- now.lua, other.lua, record, line, waiters, tokens, node, set and most. Needs me, the client that
-- is here and need not be asked for, and asking, the ticket of an enter.

--#include parts/channels.lua
local function num(n) return string.format('%.0f', n) end
local function hears(client) -- not, where scripts may not ask
  return tonumber(redis.pcall('PUBSUB', 'NUMSUB', channels .. client)[2] or 0) > 0
end
local function tell(client, message) redis.pcall('PUBLISH', channels .. client, message) end

-- How long this node grants nothing, in milliseconds. From then on it keeps which node it is.
local function quarantined()
  --#include parts/kept.lua
  if kept[3] and not anew then return quarantine end
  if run then redis.call('HSET', node, 'run', run, 'from', num(ms + rest), 'set', set, 'most', most) end
  return rest
end

-- What was told or given so far, for a vote that lasts for so long (ms). Tokens only grow, and
-- outlive the vote and the clock that falls behind them.
local function remember(token, left)
  local last = tonumber(redis.call('GET', tokens) or 0) or 0
  local till = math.max(ms + left, math.ceil(token / 1000)) + TOKEN_TTL
  if token > last then
    redis.call('SET', tokens, num(token), 'PXAT', num(till))
  elseif last <= MAX_TOKEN and last % 1 == 0 then -- else it is damaged, and ends as it is to
    redis.call('PEXPIRE', tokens, num(till - ms), 'GT')
  end
end

-- Gives the vote to a ticket for a claim, and returns its token, which follows last, and the claim
-- (ms).
local function give(ticket, lease, last)
  local token = math.max(us, last + 1)
  local claim = math.min(CLAIM, lease)
  remember(token, claim)
  redis.call('HSET', record, 'ticket', ticket, 'token', num(token), 'since', num(us))
  --#include parts/ends.lua
  redis.call('ZADD', waiters, num(ms + claim), ticket) -- its place ends with its vote
  return token, claim
end

-- Returns for how long nobody else can have the vote (ms). That is never longer than a quarantine,
-- or whoever has the vote could trust it when the node has forgotten that: the record of before a
-- clock was set back is.
local function advance()
  local wait = redis.call('PTTL', record)
  if wait == -1 then -- nobody will end it, as after a PERSIST or a RESTORE
    redis.pcall('PEXPIRE', record, most)
    wait = tonumber(most)
  end
  if wait ~= -2 then return math.max(1, math.min(wait, tonumber(most))) end
  local first = redis.call('ZRANGE', line, 0, DROPS - 1)
  for _, ticket in ipairs(first) do
    local client, lease = string.match(ticket, '^([^:]+):%d+:(%d+):')
    local deadline = tonumber(redis.call('ZSCORE', waiters, ticket) or 0)
    local blind = tonumber(client and redis.call('ZSCORE', waiters, '~' .. client) or 0)
    if client and deadline > ms and (client == me or blind > ms or hears(client)) then
      wait = quarantined()
      if wait > 0 then return wait end
      --#include parts/last.lua
      if not last then return CLAIM end -- who enters is told why
      local token, claim = give(ticket, tonumber(lease), last)
      if ticket ~= asking then -- who asks sees it in the reply
        tell(client, table.concat({'grant', num(us), num(claim), num(token), ticket, record}, ' '))
      end
      return claim
    end
    redis.call('ZREM', line, ticket)
    redis.call('ZREM', waiters, ticket)
  end
  return #first == DROPS and 1 or 0
end

-- Asks an undecided holder to give the lock back, if ticket is older.
local function want(ticket, holder)
  if not holder[1] or holder[3] then return end
  local mine, its = redis.call('ZRANK', line, ticket), redis.call('ZRANK', line, holder[1])
  if mine and its and mine < its then
    local client = string.match(holder[1], '^[^:]+')
    tell(client, table.concat({'wanted', holder[2], holder[1], record}, ' '))
  end
end
