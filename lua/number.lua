-- number.lua: what a script reads. Whoever has rights to the keys may have put anything there,
-- and no script may fail halfway. Included.

-- A number up to most; anything else is 0.
local function number(text, most)
  local n = tonumber(text or nil)
  return n and n >= 0 and n <= most and math.floor(n) or 0
end

-- When a hold ends, or what is kept for one: deadline:depth.
local function end_of(hold) return number(string.match(hold or '', '^%d+'), MAX_TIME) end
