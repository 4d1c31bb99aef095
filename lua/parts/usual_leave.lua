-- usual_leave.lua: who comes next at an ordinary release. It is the first ticket in line behind
-- those that had a turn, if that ticket is alive, in reach and without marks, and there are as many
-- deadlines as places; or nobody, if no ticket is left. In all other cases this part writes nothing
-- and does not return. It leaves deaf: the client of that ticket, if nobody hears that client.
-- Included by leave.
local deaf
if usual and freed == '' then
  local reply, turns = {0, {}, 'held'}, {}
  for i = 9, #ARGV, 4 do turns[#turns + 1], reply[#reply + 1] = ARGV[i], 'waited' end
  local line = redis.call('LRANGE', queue, '0', #turns + 1)
  local ordinary = line[1]
    and redis.call('LLEN', queue) == redis.call('ZCOUNT', waiters, '0', '+inf')
  for k, turn in ipairs(turns) do
    ordinary = ordinary and string.sub(line[k] or '', -#turn - 1) == ':' .. turn
  end
  local ticket, client, lease, owner = string.match(
    line[#turns + 1] or '', '^%d+:(([!-9;-~]+):%d+:([1-9]%d*):([^:]*).*)$')
  local head
  if ordinary and ticket and #lease <= LEASE_DIGITS then
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
      local after = line[#turns + 2]
      if owner == '' then owner = string.match(ticket, '^[^:]+:%d+') end
      --#include parts/grant.lua
      if client == me then reply[2] = {ticket, tonumber(token), span, us, run} end
    else
      redis.call('DEL', record)
    end
    return reply
  end
end
