-- evict: take one waiter out of the line, whoever it is. Its call is told, and cannot bring it back.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 PUBLISH or SPUBLISH  2 the channels' common start  3 the client that evicts  4 the element of the line: place:ticket
-- Reply 1: it was in line, 0: not or no longer
-- Its client is told 'evicted <ticket> <record>'; should it not hear that, its next enter is answered 'gone'.
-- Errors: WRONGTYPE comes before anything is written; nothing here is refused by a full server.

--#include terms.lua
local time = redis.call('TIME')
local ms = math.floor((time[1] * 1000000 + time[2]) / 1000)
local function num(n) return string.format('%d', n) end

redis.call('ZCARD', KEYS[3])
local ticket = string.match(ARGV[4], ':(.*)$') or ''
if redis.call('LREM', KEYS[2], 1, ARGV[4]) == 0 then return 0 end
redis.call('ZREM', KEYS[3], ticket)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '(' .. num(-ms), '(0')
redis.call('ZADD', KEYS[3], num(-(ms + MARK_TTL)), '!' .. ticket)
redis.call('PEXPIREAT', KEYS[3], num(ms + MARK_TTL))
redis.pcall(ARGV[1], ARGV[2] .. string.match(ticket, '^[^:]*'), 'evicted ' .. ticket .. ' ' .. KEYS[1])
return 1
