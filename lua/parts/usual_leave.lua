-- usual_leave.lua: the lock passes to the first in line behind those that had a turn; it is alive
-- and in reach. Or there is none. Nothing is out of the ordinary: no marks that concern it, and as
-- many deadlines as places. Included by leave. If this part does not return, it has written
-- nothing. It leaves deaf: the client of the first in line, if nobody hears that client.
local deaf
if usual and freed == '' then
  local reply, turns = {0, {}, 'held'}, {}
  for i = 9, #ARGV, 4 do turns[#turns + 1], reply[#reply + 1] = ARGV[i], 'waited' end
  local line = redis.call('LRANGE', queue, '0', #turns)
  local ordinary = line[1]
    and redis.call('LLEN', queue) == redis.call('ZCOUNT', waiters, '0', '+inf')
  for k, turn in ipairs(turns) do
    ordinary = ordinary and string.sub(line[k] or '', -#turn - 1) == ':' .. turn
  end
  local ticket, client, lease, owner = string.match(
    line[#turns + 1] or '', '^%d+:(([!-9;-~]+):%d+:([1-9]%d*):([^:]*).*)$')
  local head
  if ordinary and ticket and #lease < 13 then
    --#include parts/look.lua
    head = not (retired or blind or expected or gathering) and (tonumber(deadline or 0) or 0) > ms
    if head and client ~= me then
      --#include parts/heard.lua
      if not heard then deaf, head = client, false end
    end
  end
  if ordinary and (head or #line == #turns) and redis.call('HDEL', record, ARGV[5]) == 1 then
    if #turns > 0 then
      redis.call('LPOP', queue, #turns)
      redis.call('ZREM', waiters, unpack(turns))
    end
    if head then
      if owner == '' then owner = string.match(ticket, '^[^:]+:%d+') end
      --#include parts/grant.lua
      if client == me then reply[2] = {ticket, tonumber(token), span, us, run} end
    else
      redis.call('DEL', record)
    end
    return reply
  end
end
