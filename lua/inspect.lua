-- inspect: what a lock is doing, a page of its line at a time. Writes nothing.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 first index of the page (0 = next in line)  2 most waiters of the page
-- Reply 1 server time (us)  2 the largest token given, as it stands there  3 record's fields and values, flat  4 record's remaining (ms)
--       5 length of the line  6 the page: elements of the line, place:ticket

--#include terms.lua
local time = redis.call('TIME')
local last = redis.call('GET', KEYS[4]) or '0'
local length = redis.call('LLEN', KEYS[2])
local page = ARGV[2] + 0 > 0 and redis.call('LRANGE', KEYS[2], ARGV[1], ARGV[1] + ARGV[2] - 1) or {}
redis.call('ZCARD', KEYS[3])
return {time[1] * 1000000 + time[2], last, redis.call('HGETALL', KEYS[1]), math.max(0, math.min(redis.call('PTTL', KEYS[1]), MAX_LEASE)),
  length, page}
