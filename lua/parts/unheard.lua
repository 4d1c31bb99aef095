-- unheard.lua: a client that was blind is told, when it asks, what it was granted meanwhile, even
-- to a ticket that it does not know any more. Included by enter.
if blind and not try and #grant == 0 then
  local fields = redis.call('HGETALL', record)
  for i = 1, #fields, 2 do
    local ticket = fields[i]
    local hold = split(ticket) == me and not mine[ticket] and end_of(fields[i + 1]) or 0
    if hold > ms and holder.token > 0 then
      grant = {ticket, holder.token, hold - ms, (holder.since or ms) * 1000}
    end
  end
end
