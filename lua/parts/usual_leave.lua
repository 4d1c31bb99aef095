-- usual_leave.lua: the lock passes to the first in line, who is alive and in reach, and nothing is
-- out of the ordinary: no marks that concern it, and as many deadlines as places. Included by
-- leave. If this part does not return, it has written nothing. It leaves deaf: the client of the
-- first in line, if nobody hears that client.
local deaf
if usual and freed == '' then
  local ticket, client, lease, owner = string.match(
    redis.call('LINDEX', queue, '0') or '', '^%d+:(([!-9;-~]+):%d+:([1-9]%d*):([^:]*).*)$')
  if ticket and #lease < 13 then
    --#include parts/look.lua
    local ordinary = not (retired or blind or expected or gathering)
      and redis.call('LLEN', queue) == redis.call('ZCOUNT', waiters, '0', '+inf')
    if ordinary and deadline and (tonumber(deadline) or 0) > ms then
      if client ~= me then
        --#include parts/heard.lua
        if not heard then deaf = client end
      end
      if not deaf and redis.call('HDEL', record, ARGV[5]) == 1 then
        if owner == '' then owner = string.match(ticket, '^[^:]+:%d+') end
        --#include parts/grant.lua
        return {0, client == me and {ticket, tonumber(token), span, us} or {}, 'held'}
      end
    end
  end
end
