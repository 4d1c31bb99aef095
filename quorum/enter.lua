-- enter: a call asks this node for its vote, stands in line for it, moves to its final place, or
-- gives a vote back to stand in line again. Everybody who has something here stands in the line;
-- the record says who of them has the node's vote.
--
-- KEYS  1 record (hash)  2 line (zset)  3 waiters (zset)  4 token (string)  5 node (hash)  6 mark
-- ARGV  1 ticket  2 which node of which set  3 its longest lease (ms); then nothing more, or
--       4 place (us; 0: none yet)  5 most waiters (0: no bound; -1: a try)
--       6 token of a vote that is given back (0: none)
-- Reply us              the usual grant: now, token, since and place are this one number, a whole
--                       claim is left, and nobody older is in line
--       {'granted', now (us), token, since (us), left (ms), place, 1: somebody older is in line}
--       {'waits', now, how long nobody can have the vote unless it is given back (ms), place,
--        position, 1: an undecided holder is not known to be older, holder (ticket), the largest
--        token}
--       {'held', ...} a try found somebody else, {'full', ...}: both as 'waits'
--       {'gone'} the ticket has left
-- Errors: WRONGTYPE of a key of the lock, and of a token that none can follow, before anything is
--       written. OTHERNODE. A full server refuses those that say no place.
local record, line, waiters, tokens, node = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ticket, set, most = ARGV[1], ARGV[2], ARGV[3]
local place, bound = tonumber(ARGV[4] or 0), tonumber(ARGV[5] or 0)
if redis.call('EXISTS', KEYS[6]) == 1 then return {'gone'} end
if place > 0 then redis.call('DEL', KEYS[6]) end -- nothing, but first: a full server refuses no later write
--#include parts/now.lua
local holder = redis.call('HMGET', record, 'ticket', 'token', 'decided')
--#include parts/last.lua
if not last then
  return redis.error_reply('WRONGTYPE the token key ' .. tokens .. ' holds no number below 2^53 - 1')
end
--#include parts/usual_enter.lua
--#include parts/other.lua
local me, asking = string.match(ticket, '^[^:]+'), ticket
--#include parts/advance.lua
local at = tonumber(redis.call('ZSCORE', line, ticket) or 0)
local alive = redis.call('ZSCORE', waiters, ticket)
if holder[1] == ticket and holder[2] == ARGV[6] and not holder[3] then
  redis.call('DEL', record)
  holder = {}
end

local function waiting()
  local all = redis.call('ZCARD', line)
  return holder[1] and redis.call('ZSCORE', line, holder[1]) and all - 1 or all
end

local turned
if at == 0 and place == 0 and holder[1] ~= ticket then
  if bound < 0 and holder[1] then
    turned = 'held'
  elseif bound > 0 and waiting() >= bound then
    advance() -- drops the dead before the first who lives, if the lock is free
    for _, ended in ipairs(redis.call('ZRANGE', waiters, 0, num(ms), 'BYSCORE', 'LIMIT', 0, DROPS)) do
      if ended ~= holder[1] then
        redis.call('ZREM', line, ended)
        redis.call('ZREM', waiters, ended)
      end
    end
    if waiting() >= bound then turned = 'full' end
  end
end
if not turned then
  if place == 0 then
    local tail = tonumber(redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2] or 0)
    place = at > 0 and at or math.max(us, tail + 1)
  end
  if at ~= place then redis.call('ZADD', line, num(place), ticket) end
  redis.call('ZADD', waiters, num(ms + LIVENESS), ticket)
  --#include parts/stay.lua
end
local left = advance()
holder = redis.call('HMGET', record, 'ticket', 'token', 'decided', 'since')
if holder[1] == ticket then
  redis.call('ZADD', waiters, num(ms + left), ticket)
  local rank = redis.call('ZRANK', line, ticket)
  local older = not holder[3] and rank and rank > 0
  return {'granted', us, tonumber(holder[2]), tonumber(holder[4]), left, place, older and 1 or 0}
end
local status, position, older = turned or 'waits', 0, false
if bound < 0 and at == 0 and not alive and not turned then -- a try does not stay
  redis.call('ZREM', line, ticket)
  redis.call('ZREM', waiters, ticket)
  status = 'held'
elseif not turned then
  local rank = redis.call('ZRANK', line, ticket)
  local its = holder[1] and redis.call('ZRANK', line, holder[1])
  older = its and rank and its < rank
  if rank then position = rank + (older and 0 or 1) end
  if tonumber(ARGV[4] or 0) > 0 then want(ticket, holder) end
end
if status ~= 'waits' then position = waiting() end
return {status, us, left, place, position, holder[1] and not holder[3] and not older and 1 or 0,
  holder[1] or '', math.max(last, tonumber(holder[2]) or 0)}
