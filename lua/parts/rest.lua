-- rest.lua: what is left of the record: holds of the same owner, each with its own deadline. The
-- latest deadline is the record's. If the record now ends sooner than the line knows, the next in
-- line is told. If nothing is left, the lock is free. Included by leave; leaves its grant and more.
--#include parts/latest.lua
local grant, more = {}, 0
if latest > 0 then
  local sooner = latest + SOONER < redis.call('PEXPIRETIME', record)
  redis.call('PEXPIREAT', record, num(latest))
  local head = sooner and ticket_of(redis.call('LINDEX', queue, 0) or '') or ''
  if split(head) then tell((split(head)), 'hint ' .. head .. ' ' .. record) end
else
  redis.call('DEL', record)
  if line < live then mark('?', GATHERING) end -- somebody deleted the line
  local given = advance()
  if given == false then more = 1 end
  if given and split(given[1]) == me then
    grant = {given[1], tonumber(given[2]), given[3], us, given[4]}
  end
end
