-- enter: acquiring, heartbeat and recovery in one.
--
-- KEYS  1 record (hash)  2 queue (list)  3 waiters (zset)  4 token (string)
-- ARGV  1 'wait'
--         'some': the same for one of several of the client's tickets in line; it does not speak
--         for the others
--         'try'
--       2 seen: the largest recent token the client knows of this lock, 0 for none
--       3 lease (ms) for which the lock is kept at least, should the server have forgotten seen
--       4 PUBLISH or SPUBLISH  5 the channels' common start  6 the client
--       7 lease (ms)  8 owner of the first ticket, as it says itself: a free lock costs no parsing
--       9.. per ticket, all of them the client's own, in the order of their places:
--           ticket, place (us; 0 for one that has none yet), most waiters (0: no bound),
--           '1' to be told its position, and to be put there if a late request, sent before it had
--           a place, put it elsewhere (in a line of up to 10,000)
-- Reply server time (us), which is also the token, or {server time (us), token}: the one ticket
--       holds the lock, nobody waits, nothing was forgotten; or
--       1 server time (us)  2 the largest token given  3 holder's owner, '' for a free lock
--       4 holder's lease (ms)  5 how long nobody can have it unless it is released (ms)
--       6 length of the line  7 1: the client's channel is heard  8 1: the server had forgotten
--         seen
--       9 1: call again: the lock is free and 500 were dropped, or others of the client have to
--         come back
--       10 {} or a grant to a ticket of this client that is not in the request, made by it or while
--          the client was blind: {ticket, token, remaining ms, since us}
--       11.. per ticket:
--          {'granted', token, remaining ms, since ms}  it holds the lock
--          {'waiting', place, position}  in line; the position (1 = next) if new or asked for,
--                                        else 0
--          {'returned', place, position}  the same; it had been passed over, swept or lost
--          {'held'}  try: somebody else has it, or comes first
--          {'full'}  as many wait as it allows
--          {'gone'}  it was retired
-- Errors: WRONGTYPE and OOM come before anything is written. WRONGTYPE is also of a token key that
--       holds no number, or one that no other can follow, and of a ticket's own record without a
--       token.

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

-- A full server refuses only a script's first write, and never this one: who waits goes on waiting.
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
if moved then stands = nil end
for k, state in ipairs(states) do
  if asked[k].told and state[3] == 0 then state[3] = position(asked[k].ticket, state[2]) end
end

-- A newcomer, or one of several, does not speak for those of its client who were passed over: only
-- with them the client is back.
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
  elseif try and states[1][1] == 'held' then
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

-- A record lives through the millisecond of its deadline. Held for no time would be no reason to
-- come back.
local remaining = math.min(MAX_LEASE, redis.call('PTTL', record))
if remaining == 0 then remaining = 1 end
if remaining < 0 then remaining = gathering and -tonumber(gathering) - ms or 0 end
return {us, last, holder.owner or '', holder.lease, remaining, line, is_heard and 1 or 0,
  forgot and 1 or 0, more, grant, unpack(states)}
