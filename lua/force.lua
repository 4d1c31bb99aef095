-- force: ends the ownership with this token, whoever has it, and lets the line go on.
-- The request names the token, so a late or doubled force never ends the successor's ownership.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 PUBLISH or SPUBLISH  2 the channels' common start  3 the client
--       4 '', or for a plain lock the channel to tell that the lock is free
--       5 the token of the ownership; 0: of a record without a token
-- Reply 1 1: that ownership was ended, 0: it was not the present one
--       2 1: the lock is free and DROPS were dropped: call again
--       3 {} or a grant to a ticket of this client: {ticket, token, remaining ms, since us}
-- The client of each hold is told 'forced <token> <ticket> <record>'. A mark tells its next renewal
-- and its release; and its next enter, if its call has not heard of the grant and still waits.
-- Errors: WRONGTYPE comes before anything is written. A full server refuses nothing here.

local record, queue, waiters, tokens = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local verb, channels, me, freed, forced = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
--#include parts/now.lua
--#include parts/last.lua

--#include parts/number.lua
--#include parts/ticket.lua
--#include parts/marks.lua
--#include parts/reach.lua
--#include parts/line.lua
--#include parts/advance.lua

local fields = redis.call('HGETALL', record)
redis.call('LLEN', queue)
redis.call('ZCARD', waiters)

-- A record whose token is damaged has token 0, as inspection has it.
local present, lease, holds = 0, math.min(redis.call('PTTL', record), MAX_LEASE), {}
for i = 1, #fields, 2 do
  if fields[i] == 'token' then
    present = number(string.match(fields[i + 1], '^%d+$'), MAX_TOKEN)
  end
  if fields[i] == 'lease' then lease = math.max(lease, number(fields[i + 1], MAX_LEASE)) end
  if split(fields[i]) then holds[#holds + 1] = fields[i] end
end
if #fields == 0 or present ~= forced then return {0, 0, {}} end

redis.call('DEL', record)
-- The token key is now above the forced token: so a renewal of that ownership finds it lost and not
-- forgotten.
local token = num(math.max(last, forced + 1))
--#include parts/remember.lua
for _, ticket in ipairs(holds) do
  local client = split(ticket)
  tell(client, 'forced ' .. num(forced) .. ' ' .. ticket .. ' ' .. record)
end
local grant, more = {}, 0
local given = advance() -- before the marks: a set of waiters without any deadline drops the line
for _, ticket in ipairs(holds) do
  mark('#' .. ticket, MARK_TTL)
  mark('!' .. ticket, MARK_TTL) -- a late request would give its client a lock that it does not know
end
if given == false then more = 1 end
if given and split(given[1]) == me then grant = {given[1], tonumber(given[2]), given[3], us} end
if freed ~= '' then redis.pcall(verb, freed, me) end
return {1, more, grant}
