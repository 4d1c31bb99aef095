-- evict: takes one waiter out of the line, whoever it is. Its call is told, and for a minute no
-- request can bring the waiter back.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 PUBLISH or SPUBLISH  2 the channels' common start  3 the client that evicts
--       4 the element of the line: place:ticket
-- Reply 1: the waiter was in line, 0: it was not, or no longer
-- The waiter's client is told 'evicted <ticket> <record>'. If the client does not hear that, its
-- next enter is answered 'gone'.
-- Errors: WRONGTYPE comes before anything is written. A full server refuses nothing here.

local record, queue, waiters = KEYS[1], KEYS[2], KEYS[3]
local verb, channels = ARGV[1], ARGV[2]
--#include parts/now.lua

--#include parts/number.lua
--#include parts/ticket.lua
--#include parts/marks.lua
--#include parts/reach.lua

redis.call('ZCARD', waiters)
if redis.call('LREM', queue, 1, ARGV[4]) == 0 then return 0 end
local ticket = ticket_of(ARGV[4])
redis.call('ZREM', waiters, ticket)
mark('!' .. ticket, MARK_TTL)
tell(string.match(ticket, '^[^:]*'), 'evicted ' .. ticket .. ' ' .. record)
return 1
