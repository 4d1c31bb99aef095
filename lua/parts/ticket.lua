-- ticket.lua: what tickets and elements of the line say. A ticket is
-- client:counter:lease:owner:note, an element is place:ticket. Included; needs number.lua.
-- usual_leave.lua and run.lua match the same without a function.

-- Client, lease, the owner's name, and whether others may own by that name too; nil for no ticket.
local function split(ticket)
  local client, counter, lease, owner =
    string.match(ticket, '^([!-9;-~]+):(%d+):([1-9]%d*):([^:]*)')
  if not client or #lease > LEASE_DIGITS then return end
  if owner == '' then return client, tonumber(lease), client .. ':' .. counter, false end
  return client, tonumber(lease), owner, true
end

-- What no script wrote may have place 0 or an empty ticket. An element without a ticket is dropped
-- when its turn comes.
local function place_of(element) return number(string.match(element, '^%d+'), MAX_PLACE) end
local function ticket_of(element) return string.match(element, ':(.*)$') or '' end
