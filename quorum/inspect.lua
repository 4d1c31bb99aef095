-- inspect: what a lock is doing at this node. Writes nothing. An error if the client may not ask
-- who the node is.
--
-- KEYS  1 record  2 line  3 waiters  4 token  5 node
-- ARGV  1 first waiter (0: the next)  2 last  3 the longest lease of the quorum (ms)
-- Reply {now (us), PTTL (ms), ticket, token, since (us), depth, 1: decided, length of the line
--        with the holder, the largest token, {ticket, place, ...}, for how long a free vote is
--        given to nobody (ms), the set and the longest lease that the node keeps}
local node, most = KEYS[5], ARGV[3]
--#include parts/now.lua
local r = redis.call('HMGET', KEYS[1], 'ticket', 'token', 'since', 'depth', 'decided')
--#include parts/kept.lua
if not run then return info end
return {us, redis.call('PTTL', KEYS[1]), r[1] or '', tonumber(r[2] or 0), tonumber(r[3] or 0),
  tonumber(r[4] or 1), r[5] and 1 or 0, redis.call('ZCARD', KEYS[2]),
  tonumber(redis.call('GET', KEYS[4]) or 0),
  redis.call('ZRANGE', KEYS[2], ARGV[1], ARGV[2], 'WITHSCORES'),
  quarantine, kept[3] or '', tonumber(kept[4]) or 0}
