-- run.lua: the run of a ticket that was just granted the lock: the counters of the tickets next in
-- line, as long as they are the same client's. They stay in line; but the client may give them
-- turns before it releases. The numbers between last and token are their tokens. A client whose id
-- does not end in + knows nothing of runs. Included by grant.lua.
local run, most = '', math.min(RUN, tonumber(token) - last - 1)
if last > 0 and most > 0 and string.find(ticket, '^[^:]*%+:%d+:%d+::') then
  local member = '^%d+:([!-9;-~]+):(%d+):[1-9]%d*::'
  local whose, counter = string.match(after or '', member)
  if whose == client then
    local counters = {}
    for _, element in ipairs(redis.call('LRANGE', queue, '0', most - 1)) do
      whose, counter = string.match(element, member)
      if whose ~= client then break end
      counters[#counters + 1] = counter
    end
    run = table.concat(counters, ',')
  end
end
