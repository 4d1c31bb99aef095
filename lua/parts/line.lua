-- line.lua: how tickets are found in the line and taken out of it. Included; needs ticket.lua.

-- Walks through a line of so many, from the head or from the end. Calls look with each element and
-- its index, until look returns true. No script walks through a line in another way.
local function walk(line, from_head, look)
  for chunk = 0, math.ceil(line / FETCHES) - 1 do
    local first = from_head and chunk * FETCHES or math.max(0, line - FETCHES * (chunk + 1))
    local last = from_head and first + FETCHES - 1 or line - FETCHES * chunk - 1
    local elements = redis.call('LRANGE', queue, first, last)
    for i = 1, #elements do
      local n = from_head and i or #elements + 1 - i
      if look(elements[n], first + n - 1) then return end
    end
  end
end

-- Takes out these elements, which stand at these indices, and returns how many went. Several are
-- first overwritten with what no element is; then all of those go at once.
local function cut(elements, indices)
  if #elements == 1 then return redis.call('LREM', queue, 1, elements[1]) end
  for _, i in ipairs(indices) do redis.call('LSET', queue, i, '') end
  return #indices > 0 and redis.call('LREM', queue, 0, '') or 0
end

-- Takes out the tickets that are the keys of wanted, so many, wherever they stand. Returns how many
-- elements went, and whose.
local function take_all(wanted, many, line, from_head)
  local found, elements, indices = {}, {}, {}
  walk(line, from_head, function(element, i)
    local ticket = ticket_of(element)
    if wanted[ticket] and not found[ticket] then
      found[ticket], elements[#elements + 1], indices[#indices + 1] = true, element, i
    end
    return #indices == many
  end)
  return cut(elements, indices), found
end

-- Takes out one ticket, wherever it stands: a late request may have put the ticket elsewhere than
-- its client knows. Returns how many elements went, 1 or 0.
local function take_out(ticket, at, line)
  if at > 0 and redis.call('LREM', queue, 1, num(at) .. ':' .. ticket) == 1 then return 1 end
  return (take_all({[ticket] = true}, 1, line))
end
