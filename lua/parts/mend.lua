-- mend.lua: makes line and set agree, after somebody deleted one of them or the line has expired. A
-- place without a deadline gets one. A deadline without a place goes, and its client brings both
-- back. Included by enter; leaves mended.
local mended = line ~= with_deadline
if mended then
  local known = redis.call('ZRANGEBYSCORE', waiters, 0, '+inf', 'WITHSCORES')
  local deadlines, no_waiters, indices = {}, {}, {}
  for i = 1, #known, 2 do deadlines[known[i]] = number(known[i + 1], math.huge) end
  walk(line, true, function(element, i)
    local ticket = ticket_of(element)
    local deadline = deadlines[ticket]
    if not split(ticket) or deadline == false then -- no ticket, or one that stands there twice
      no_waiters[#no_waiters + 1], indices[#indices + 1] = element, i
    else
      if not deadline then redis.call('ZADD', waiters, num(ms + LIVENESS), ticket) end
      deadlines[ticket] = false
    end
  end)
  line = line - cut(no_waiters, indices)
  for ticket, deadline in pairs(deadlines) do
    if deadline then
      redis.call('ZREM', waiters, ticket)
      if deadline > ms then mark('?', GATHERING) end
    end
  end
end
