-- number.lua: numbers as scripts write and read them. Whoever has rights to the keys may have put
-- anything there, and no script may fail halfway. Included.

local function num(n) return string.format('%d', n) end

-- The whole part of a number from 0 to most; anything else is 0.
local function number(text, most)
  local n = tonumber(text or nil)
  return n and n >= 0 and n <= most and math.floor(n) or 0
end

-- The deadline (ms) in deadline:depth, the value of a hold and of kept.
local function end_of(hold) return number(string.match(hold or '', '^%d+'), MAX_TIME) end
