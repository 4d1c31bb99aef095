-- beat: the waiters of one client for one lock say that they live, and learn what they missed.
--
-- KEYS  1 record  2 line  3 waiters  4 token  5 node
-- ARGV  1 client  2 which node of which set  3 its longest lease (ms)
--       4.. tickets
-- Reply {now (us), how long nobody can have the vote unless it is given back (ms), the holder's
--        ticket, token, since (us), 1: somebody older than an undecided holder stands in line,
--        {tickets that are not in line}}
-- Errors: OTHERNODE. A full server refuses nothing here.
local record, line, waiters, tokens, node = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local me, set, most = ARGV[1], ARGV[2], ARGV[3]
local asking
--#include parts/other.lua
--#include parts/now.lua
--#include parts/advance.lua
local missing = {}
redis.call('ZREM', line, '') -- nothing, but first: a full server refuses no later write
for i = 4, #ARGV do
  if redis.call('ZSCORE', line, ARGV[i]) then
    redis.call('ZADD', waiters, num(ms + LIVENESS), ARGV[i])
  else
    missing[#missing + 1] = ARGV[i]
  end
end
--#include parts/stay.lua
local left = advance()
local holder = redis.call('HMGET', record, 'ticket', 'token', 'decided', 'since')
local rank = holder[1] and not holder[3] and redis.call('ZRANK', line, holder[1])
return {us, left, holder[1] or '', tonumber(holder[2] or 0), tonumber(holder[4] or 0),
  rank and rank > 0 and 1 or 0, missing}
