-- leave: a call gives up whatever it has here. If that frees the vote, the next in line has it.
--
-- KEYS  1 record  2 line  3 waiters  4 token  5 node  6 mark
-- ARGV  1 ticket  2 which node of which set  3 its longest lease (ms)
--       4 token of the Lease (0: there was none); then nothing more, or
--       5 how long late requests of the ticket are refused (ms; 0: there are none)
--       6 1: by force: the holder is told, and no token is smaller than those it may have had
--         2: an eviction: who waits is told, and takes back a vote itself, if it has one
-- Reply {'held'}, {'waited'} or {'neither'}; 1 is {'held'} in short
--       {'forced'} a force has taken the vote: in a minute, or the longest lease if that is more
--       {'forgotten'} the node has lost data, and grants nothing since
-- Errors: WRONGTYPE of a key of the lock, and OTHERNODE; the ticket keeps its vote and its place.
local record, line, waiters, tokens, node = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ticket, set, most, token = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local late, by = ARGV[5] or '0', ARGV[6] or '0'
local force = by ~= '0'
--#include parts/other.lua
--#include parts/now.lua
local holder = redis.call('HMGET', record, 'ticket', 'token')
if by == '2' and holder[1] == ticket then -- it may have the lock by now
  --#include parts/channels.lua
  redis.pcall('PUBLISH', channels .. string.match(ticket, '^[^:]+'), 'evicted ' .. ticket .. ' ' .. record)
  return {'held'}
end
local last = tonumber(redis.call('GET', tokens) or 0) or 0
redis.call('ZREM', waiters, ticket)
local was = redis.call('ZREM', line, ticket) == 1 and 'waited' or 'neither'
if by == '2' then
  redis.call('SET', KEYS[6], 'evicted', 'PX', late, 'NX') -- no matter to a holder: see renew
else
  local forced = not force and token > 0 and was == 'neither' and holder[1] ~= ticket
    and redis.call('GET', KEYS[6]) == 'forced'
  if forced then was = 'forced' end
  if late ~= '0' then -- a mark says 'forced' to the next leave, too: an answer may be lost
    redis.call('SET', KEYS[6], (force or forced) and 'forced' or '', 'PX', late)
  end
end
if holder[1] == ticket then
  redis.call('DEL', record)
  was = 'held'
  if force then token = math.max(tonumber(holder[2]) or 0, us + math.min(CLAIM, tonumber(most)) * 1000) end
end
if was ~= 'held' and was ~= 'forced' and not force and token > 0 then -- a late request may have put it in line
  --#include parts/kept.lua
  if quarantine > 0 then was = 'forgotten' end
end
if token > last then -- else a smaller one could be given
  local till = math.max(ms, math.ceil(token / 1000)) + TOKEN_TTL
  redis.call('SET', tokens, string.format('%.0f', token), 'PXAT', string.format('%.0f', till))
end
if not force and redis.call('EXISTS', line) == 0 then return was == 'held' and 1 or {was} end -- the usual way
local me, asking = not force and string.match(ticket, '^[^:]+'), nil
--#include parts/advance.lua
if force and was ~= 'neither' then
  local client = string.match(ticket, '^[^:]+')
  local news = was == 'held' and 'forced ' .. holder[2] .. ' ' or 'evicted '
  tell(client, news .. ticket .. ' ' .. record)
end
advance()
return {was}
