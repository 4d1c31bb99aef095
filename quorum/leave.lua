-- leave: a call gives up whatever it has here. If that frees the vote, the next in line has it.
--
-- KEYS  1 record  2 line  3 waiters  4 token  5 node  6 mark
-- ARGV  1 ticket  2 client  3 token of the Lease (0: there was none)
--       4 how long late requests of the ticket are refused (ms; 0: there are none)
--       5 the channels' common start  6 the set of nodes  7 its longest lease (ms)
--       8 1: by force: the holder is told, and no token is smaller than those it may have had
--         2: an eviction: who waits is told, and takes back a vote itself, if it has one
-- Reply {'held'}, {'waited'} or {'neither'}; 1 is {'held'} in short
-- Errors: WRONGTYPE of a key of the lock; the ticket keeps its vote and its place.
local record, line, waiters, tokens, node = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ticket, me, token, force = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[8] ~= '0'
local channels, set, most = ARGV[5], ARGV[6], ARGV[7]
local asking
--#include parts/now.lua
local holder = redis.call('HMGET', record, 'ticket', 'token')
if ARGV[8] == '2' and holder[1] == ticket then -- it may have the lock by now
  redis.pcall('PUBLISH', channels .. string.match(ticket, '^[^:]+'), 'evicted ' .. ticket .. ' ' .. record)
  return {'held'}
end
local last = tonumber(redis.call('GET', tokens) or 0) or 0
redis.call('ZREM', waiters, ticket)
local was = redis.call('ZREM', line, ticket) == 1 and 'waited' or 'neither'
if ARGV[8] == '2' then
  redis.call('SET', KEYS[6], 'evicted', 'PX', ARGV[4], 'NX') -- no matter to a holder: see renew
elseif ARGV[4] ~= '0' then
  redis.call('SET', KEYS[6], '', 'PX', ARGV[4])
end
if holder[1] == ticket then
  redis.call('DEL', record)
  was = 'held'
  if force then token = math.max(tonumber(holder[2]) or 0, us + math.min(CLAIM, tonumber(most)) * 1000) end
end
if token > last then -- else a smaller one could be given
  local till = math.max(ms, math.ceil(token / 1000)) + TOKEN_TTL
  redis.call('SET', tokens, string.format('%.0f', token), 'PXAT', string.format('%.0f', till))
end
if not force and redis.call('EXISTS', line) == 0 then return was == 'held' and 1 or {was} end -- the usual way
--#include parts/advance.lua
if force and was ~= 'neither' then
  local client = string.match(ticket, '^[^:]+')
  local news = was == 'held' and 'forced ' .. holder[2] .. ' ' or 'evicted '
  tell(client, news .. ticket .. ' ' .. record)
end
advance()
return {was}
