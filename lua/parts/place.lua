-- place.lua: finding and changing the places of tickets. Included by enter.

local moved = false -- somebody stands elsewhere than at first

-- A ticket that comes back: to the end if that is its place, else before the first one with a later
-- place.
local function back(ticket, at)
  local tail = redis.call('LINDEX', queue, -1)
  local element = num(at) .. ':' .. ticket
  if not tail or place_of(tail) <= at then
    redis.call('RPUSH', queue, element)
  else
    local low, high = 0, line - 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if place_of(redis.call('LINDEX', queue, middle)) > at then
        high = middle
      else
        low = middle + 1
      end
    end
    redis.call('LINSERT', queue, 'BEFORE', redis.call('LINDEX', queue, low), element)
  end
  moved = true
  redis.call('ZADD', waiters, num(ms + LIVENESS), ticket)
  line = line + 1
  return {'returned', at, 0}
end

-- The elements of the tickets in line whose client does not know their places, all found in one
-- walk.
local unplaced
local function standing(ticket)
  if not unplaced then
    local many = 0
    unplaced = {}
    for _, one in ipairs(asked) do
      if one.place == 0 and one.deadline then unplaced[one.ticket], many = '', many + 1 end
    end
    walk(line, false, function(element)
      local other = ticket_of(element)
      if unplaced[other] == '' then unplaced[other], many = element, many - 1 end
      return many == 0
    end)
  end
  return unplaced[ticket] or ''
end

-- Asked for by few, at most every 5 s; beyond LOOKS it is not looked for. Several are found in one
-- walk, which is out of date when somebody was moved.
local stands
local function position(ticket, at)
  local element = num(at) .. ':' .. ticket
  if telling == 1 then
    local index = redis.call('LPOS', queue, element, 'MAXLEN', LOOKS)
    return index and index + 1 or 0
  end
  if not stands then
    stands = {}
    walk(math.min(line, LOOKS), true, function(other, i) stands[other] = i + 1 end)
  end
  return stands[element] or 0
end

-- Overdue tickets do not fill a line. Only asked when it looks full.
local function sweep()
  if redis.call('ZCOUNT', waiters, 0, ms) == 0 then return end
  local overdue = redis.call('ZRANGEBYSCORE', waiters, 0, ms, 'LIMIT', 0, SWEEPS)
  local wanted = {}
  for _, ticket in ipairs(overdue) do wanted[ticket] = true end
  line = line - take_all(wanted, #overdue, line, true) -- they have waited for longest
  redis.call('ZREM', waiters, unpack(overdue))
  moved = true
end
