-- ask.lua: what becomes of one ticket. Included by enter.

-- An explicit owner's further hold: same ownership, same token, a deadline of its own.
local function join(ticket, at)
  local _, lease = split(ticket)
  --#include parts/others.lua
  local till = math.max(others, ms + lease)
  redis.call('PEXPIREAT', record, num(till))
  holder.lease = math.max(holder.lease, lease)
  redis.call('HSET', record, ticket, num(ms + lease) .. ':1', 'lease', holder.lease)
  last = math.max(last, holder.token)
  do
    local token, lease = num(last), holder.lease
    --#include parts/no_sooner.lua
    --#include parts/remember.lua
  end
  if redis.call('ZREM', waiters, ticket) == 1 then
    line, moved = line - take_out(ticket, at, line), true
  end
  return {'granted', holder.token, lease, ms}
end

-- The lock is free.
local function take(ticket)
  local _, lease, owner = split(ticket)
  local span = lease
  --#include parts/record.lua
  local before = last
  free, last = false, tonumber(token)
  holder = {owner = owner, token = last, lease = lease}
  return {'granted', last, lease, ms, before}
end

-- A newcomer goes to the end of the line.
local function queued(ticket, most)
  if most > 0 and line >= most then sweep() end
  if most > 0 and line >= most then return {'full'} end
  last_place = math.max(us, (last_place or place_of(redis.call('LINDEX', queue, -1) or '')) + 1)
  joining[#joining + 1] = num(last_place) .. ':' .. ticket
  lives(ticket)
  line = line + 1
  return {'waiting', last_place, line}
end

local function ask(one)
  local ticket, at = one.ticket, one.place
  if one.retired then
    return {redis.call('ZSCORE', waiters, '#' .. ticket) and 'forced' or 'gone'}
  end
  if one.hold > ms then return {'granted', holder.token, one.hold - ms, holder.since} end
  if free and line == 0 and (try or returning or not valid(expected)) then return take(ticket) end
  if holder.owner == select(3, split(ticket)) then return join(ticket, at) end
  if try then return {'taken'} end
  if one.deadline and at == 0 then at = place_of(standing(ticket)) end
  if one.deadline and at > 0 and one.told and line <= LOOKS and position(ticket, at) == 0 then
    line = line - take_out(ticket, at, line)
    return back(ticket, at)
  end
  if one.deadline and at > 0 then
    lives(ticket)
    return {'waiting', at, 0}
  end
  if at > 0 then return back(ticket, at) end
  return queued(ticket, one.most)
end
