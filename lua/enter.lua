-- enter: acquiring, heartbeat and recovery in one.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 'wait': the tickets join the line, or stay in it
--         'some': the same for only some of the client's tickets; it does not speak for the others
--         'try': one ticket, which is not put in line
--       2 seen: the largest recent token of this lock that the client knows, 0: none
--       3 spare (ms): how long the lock is kept, at least, if the server has forgotten seen
--       4 PUBLISH or SPUBLISH  5 the channels' common start  6 the client
--       7 lease (ms)  8 owner, both of the first ticket: so a free lock costs no parsing
--       9.. per ticket, all of them the client's own, in the order of their places:
--           ticket, place (us; 0: none yet), most waiters (0: no bound),
--           '1' to be told its position. If a request from before the ticket had a place put the
--           ticket elsewhere, '1' also mends that (in a line of up to LOOKS)
-- Reply server time (us), which is also the token, or {server time (us), token}, or to a try
--       {server time (us), token, the largest token before it}: the one ticket holds the lock,
--       nobody waits, nothing was forgotten; or
--       1 server time (us)  2 the largest token given  3 holder's owner; '': free, or placeholder
--       4 holder's lease (ms)  5 how long nobody can have the lock unless it is released (ms)
--       6 length of the line  7 1: the client's channel is heard  8 1: the server had forgotten
--         seen
--       9 1: call again: the lock is free and DROPS were dropped, or others of the client have to
--         come back
--       10 {}, or a grant to another ticket of this client, made by this request or while the
--          client was blind: {ticket, token, remaining ms, since us}
--       11.. per ticket:
--          {'granted', token, remaining ms, since ms}  it holds the lock. If it took the lock just
--                                        now, a fifth element is the largest token before
--          {'waiting', place, position}  in line; the position (1 = next) if new or asked for,
--                                        else 0
--          {'returned', place, position}  the same; it had been passed over, swept, lost, or put
--                                         elsewhere by a late request
--          {'taken'}  try: somebody else has the lock, or comes first
--          {'full'}  as many wait as the ticket allows
--          {'gone'}  the ticket was retired
--          {'forced'}  force ended its hold within the last minute
-- Errors: WRONGTYPE and OOM come before anything is written. WRONGTYPE also answers a token key
--       without a number, a number there or in seen that no token can follow, and a ticket's own
--       record without a token.

local record, queue, waiters, tokens = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local try, some = ARGV[1] == 'try', ARGV[1] == 'some'
local seen, spare = tonumber(ARGV[2]), tonumber(ARGV[3])
local verb, channels, me = ARGV[4], ARGV[5], ARGV[6]
--#include parts/now.lua
--#include parts/last.lua
--#include parts/usual_enter.lua

--#include parts/number.lua
--#include parts/ticket.lua
--#include parts/marks.lua
--#include parts/reach.lua
--#include parts/line.lua
--#include parts/advance.lua
--#include parts/state.lua

-- A full server refuses a script's first write, but never PEXPIREAT: a waiter goes on waiting.
if returning then redis.call('PEXPIREAT', queue, num(ms + LINE_TTL)) end
--#include parts/placeholder.lua
--#include parts/mend.lua
--#include parts/look_all.lua
local is_heard = not try and hears(me)
local free = not holder.owner and not gathering

--#include parts/place.lua
--#include parts/ask.lua

local states, mine = {}, {}
for k, one in ipairs(asked) do states[k], mine[one.ticket] = ask(one), k end
write()
if moved then stands = nil end
for k, state in ipairs(states) do
  if asked[k].told and state[3] == 0 then state[3] = position(asked[k].ticket, state[2]) end
end

-- A client is back only with those of its tickets that were passed over. A newcomer, or some of
-- several, does not speak for them.
local grant, more = {}, 0
if expected and not try then
  if returning and not some then redis.call('ZREM', waiters, '?' .. me) else more = 1 end
end

if free then
  local given = advance()
  line = redis.call('LLEN', queue)
  if given then
    local ticket, token = given[1], tonumber(given[2])
    local client, lease, owner = split(ticket)
    last, holder = token, {owner = owner, token = token, lease = lease}
    if mine[ticket] then
      states[mine[ticket]] = {'granted', token, given[3], ms}
    elseif client == me then
      grant = {ticket, token, given[3], us}
    end
  elseif given == false then
    more = 1
  elseif try and states[1][1] == 'taken' then
    states[1] = take(asked[1].ticket)
  end
end
--#include parts/unheard.lua

if line > 0 and (mended or not try) then
  redis.call('PEXPIREAT', queue, num(ms + LINE_TTL))
  if not try and not is_heard then
    mark('~' .. me, BLIND)
  elseif not try and blind then
    redis.call('ZREM', waiters, '~' .. me)
  end
  redis.call('PEXPIREAT', waiters, num(ms + MARK_TTL))
end

-- PTTL is 0 in the last millisecond of a record. The reply then says 1: 0 would give the client no
-- reason to come back.
local remaining = math.min(MAX_LEASE, redis.call('PTTL', record))
if remaining == 0 then remaining = 1 end
--#include parts/endless.lua
if remaining < 0 then remaining = gathering and -tonumber(gathering) - ms or 0 end
return {us, last, holder.owner or '', holder.lease, remaining, line, is_heard and 1 or 0,
  forgot and 1 or 0, more, grant, unpack(states)}
