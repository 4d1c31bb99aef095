-- place.lua: finding and changing the places of tickets. Included by enter.

local moved = false -- positions that were found before are out of date

-- What newcomers and heartbeats write goes out once for all of them: at the end, or before the line
-- is changed otherwise. last_place is nil if it is not known.
local joining, deadlines, last_place = {}, {}, nil
local function write()
  if #joining > 0 then redis.call('RPUSH', queue, unpack(joining)) end
  if #deadlines > 0 then redis.call('ZADD', waiters, unpack(deadlines)) end
  joining, deadlines, last_place = {}, {}, nil
end

local function lives(ticket)
  deadlines[#deadlines + 1] = num(ms + LIVENESS)
  deadlines[#deadlines + 1] = ticket
end

-- Puts a ticket back in its place: at the end, or before the first ticket with a later place.
local function back(ticket, at)
  write()
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
  lives(ticket)
  line = line + 1
  return {'returned', at, 0}
end

-- The element of a ticket in line whose client does not know its place. One walk finds those of all
-- such tickets in the request.
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

-- The position of a ticket; 0 beyond the first LOOKS, since looking costs time. Few ask for it. If
-- several do, one walk finds all; what it found is out of date when somebody was moved.
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

-- Takes overdue tickets out of a line that looks full: they must not keep others out.
local function sweep()
  write()
  if redis.call('ZCOUNT', waiters, 0, ms) == 0 then return end
  local overdue = redis.call('ZRANGEBYSCORE', waiters, 0, ms, 'LIMIT', 0, SWEEPS)
  local wanted = {}
  for _, ticket in ipairs(overdue) do wanted[ticket] = true end
  line = line - take_all(wanted, #overdue, line, true) -- most stand near the head
  redis.call('ZREM', waiters, unpack(overdue))
  moved = true
end
