-- inspect: what a lock is doing, a page of its line at a time. Writes nothing.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 first index of the page (0 = next in line)  2 most waiters of the page
-- Reply 1 server time (us)  2 the largest token given, as the key has it
--       3 record's fields and values, flat  4 record's remaining (ms)
--       5 length of the line  6 the page: elements of the line, place:ticket

local record, queue, waiters, tokens = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local from, most = ARGV[1], tonumber(ARGV[2])
--#include parts/now.lua
local last = redis.call('GET', tokens) or '0'
local line = redis.call('LLEN', queue)
local page = most > 0 and redis.call('LRANGE', queue, from, from + most - 1) or {}
redis.call('ZCARD', waiters)
local fields = redis.call('HGETALL', record)
local remaining = math.max(0, math.min(redis.call('PTTL', record), MAX_LEASE))
return {us, last, fields, remaining, line, page}
