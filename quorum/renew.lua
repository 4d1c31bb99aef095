-- renew: decided holders prolong what they have here, and strive for what they have not. A record
-- that this node has lost is written again: nobody else can be decided. A renewal of an undecided
-- holder only tells the token.
--
-- KEYS  1 node, then for each hold: record, line, waiters, token, mark
-- ARGV  1 client  2 which node of which set  3 its longest lease (ms)
--       then for each hold: ticket, token, lease (ms; 0: as it is), until (ms of the server; 0),
--       place (us), depth, 1: decided
-- Reply for each hold how long the record has it (ms); 0: it waits in line; -1: it has left
-- Errors: OTHERNODE. A full server refuses nothing here.
local node = KEYS[1]
local me, set, most = ARGV[1], ARGV[2], ARGV[3]
local asking
--#include parts/other.lua
--#include parts/now.lua
local record, line, waiters, tokens
--#include parts/advance.lua
local reply, written = {}, false
for i = 1, (#KEYS - 1) / 5 do
  record, line, waiters, tokens = unpack(KEYS, 5 * i - 3, 5 * i)
  local ticket, token, lease, till, place, depth, decided = unpack(ARGV, 7 * i - 3, 7 * i + 3)
  local holder = redis.call('HMGET', record, 'ticket', 'token', 'decided')
  local gone = redis.call('GET', KEYS[5 * i + 1])
  -- Evicted, a decided one had a majority elsewhere by then. Where there is no mark, nothing is
  -- deleted, but a full server refuses no write after the first.
  if gone == 'evicted' and decided == '1' or not gone and not written then
    redis.call('DEL', KEYS[5 * i + 1])
    gone, written = false, true
  end
  if gone then
    reply[i] = -1
  elseif holder[1] == ticket or not holder[1] and decided == '1' then
    if not holder[1] then quarantined() end -- else nothing begins it: no call finds the lock free
    local left = math.max(1, redis.call('PTTL', record), tonumber(lease), tonumber(till) - ms)
    left = math.min(left, tonumber(most)) -- see advance
    remember(tonumber(token), left)
    redis.call('HSET', record, 'ticket', ticket, 'token', token, 'depth', depth,
      unpack(decided == '1' and {'decided', '1'} or {}))
    redis.call('HSETNX', record, 'since', num(us))
    redis.call('PEXPIRE', record, num(left))
    redis.call('ZADD', waiters, 'XX', num(ms + left), ticket)
    reply[i] = left
  else
    redis.call('ZADD', line, place, ticket)
    redis.call('ZADD', waiters, num(ms + LIVENESS), ticket)
    --#include parts/stay.lua
    want(ticket, holder)
    reply[i] = 0
  end
end
return reply
