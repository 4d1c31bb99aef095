-- reassert: renew for one hold with the token at hand: it also keeps the token key alive, and when the hold is missing
-- tells a lost one from one that the server has forgotten, which is written again.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 ticket  2 its token  3 since (server ms)  4 lease (ms from now; 0: as it is)  5 until (server ms; 0: none)  6 depth
-- Reply the hold's remaining time (ms), 0 if it is lost: released, expired, or another's, -1 if it was forced
-- Errors: WRONGTYPE comes before anything is written; nothing here is refused by a full server.

--#include terms.lua
local record, queue, waiters, tokens = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ticket, token, lease, till, depth = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local time = redis.call('TIME')
local ms = math.floor((time[1] * 1000000 + time[2]) / 1000)
local function num(n) return string.format('%d', n) end

--#include number.lua

local now = redis.call('HMGET', record, ticket, 'token', 'kept', 'lease')
--#include last.lua
local line = redis.call('LLEN', queue)
local retired = redis.call('ZSCORE', waiters, '!' .. ticket)
local client, counter, usual, owner = string.match(ticket, '^([^:]+):(%d+):(%d+):([^:]*)')

local deadline, given = end_of(now[1]), number(now[2], MAX_TOKEN)
if deadline <= ms then
  local kept = end_of(now[3]) > ms
  local forgotten = given < token and last < token or given == token and kept or given > 0 and given < token
  if retired or not forgotten then return redis.call('ZSCORE', waiters, '#' .. num(token)) and -1 or 0 end
end

-- Who holds does not wait: a heartbeat from before the grant may have put it back in a line that was lost.
local function unqueue()
  if redis.call('ZREM', waiters, ticket) == 0 then return end
  for from = 0, line - 1, FETCHES do
    for _, element in ipairs(redis.call('LRANGE', queue, from, from + FETCHES - 1)) do
      if string.match(element, ':(.*)$') == ticket then return redis.call('LREM', queue, 1, element) end
    end
  end
end

local missing, shared = deadline <= ms, owner ~= ''
deadline = math.max(deadline, ms + lease, till)
if deadline <= ms then return 0 end
lease = math.max(tonumber(usual), given == token and number(now[4], MAX_LEASE) or 0, lease)

if missing and given < token then redis.call('DEL', record) end
local latest = math.max(deadline, shared and math.min(redis.call('PEXPIRETIME', record), MAX_TIME) or 0)
redis.call('PEXPIREAT', record, num(latest))
redis.call('HSET', record, ticket, num(deadline) .. ':' .. depth, 'lease', lease)
if missing then
  redis.call('HSET', record, 'owner', shared and owner or client .. ':' .. counter, 'token', num(token), 'since', ARGV[3])
  redis.call('HDEL', record, 'kept')
  if shared then
    -- Others may hold it too under an explicit owner's name: it is not free until they can have come back.
    latest = math.max(latest, ms + lease)
    redis.call('HSET', record, 'kept', num(latest) .. ':0')
  end
  redis.call('PEXPIREAT', record, num(latest))
  unqueue()
  -- Places were lost too: should it be released now, all are given time to come back to theirs.
  redis.call('ZREMRANGEBYSCORE', waiters, '(' .. num(-ms), '(0')
  redis.call('ZADD', waiters, num(-(ms + GATHERING)), '?')
  redis.call('PEXPIREAT', waiters, num(ms + MARK_TTL))
end
redis.call('SET', tokens, num(math.max(last, token)), 'PXAT', num(ms + math.max(TOKEN_TTL, 2 * lease)))
return deadline - ms
