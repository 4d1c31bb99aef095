-- kept.lua: what this node keeps of itself, and for how long it will grant nothing (ms), as advance
-- finds out. Included; needs now.lua, node and most.
local kept = redis.call('HMGET', node, 'run', 'from', 'set', 'most')
--#include parts/run.lua
--#include parts/rest.lua
local quarantine = kept[1] == run and math.max(0, (tonumber(kept[2]) or 0) - ms) or rest
