-- placeholder.lua: every enter tells of a token, seen. If the server has forgotten seen, nobody
-- takes the lock until its holder has had a lease's time to come back: the longest spare of all
-- enters that know the token. Included by enter.
local forgot = seen > last
do
  local present, token = holder.token, seen
  --#include parts/forget.lua
  if lost then holder = {owner = '', token = seen, lease = 0, since = ms} end
  local longer = holder.owner == '' and seen >= holder.token and spare > holder.lease
  if longer then holder.lease = spare end
  if forgot then last = math.max(seen, holder.token) end
  if forgot or longer then
    local token, lease = num(last), holder.lease
    --#include parts/remember.lua
  end
  if lost then
    redis.call('DEL', record)
    for _, one in ipairs(asked) do one.hold = 0 end
  end
  if longer then
    local owner, token, since, lease = '', holder.token, holder.since, spare
    local till = since + spare
    --#include parts/keep.lua
  end
  if forgot and line == 0 then mark('?', GATHERING) end
end
