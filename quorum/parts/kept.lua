-- kept.lua: what this node keeps of itself, and for how long it will grant nothing (ms), as it has
-- lost what it granted before: it has another run id now, or no record of its own. By then what was
-- lost has ended. anew: that time begins with the next request for a lock. So it does again if the
-- clock was ahead, and has been set right. Included; needs now.lua, node and most.
local kept = redis.call('HMGET', node, 'run', 'from', 'set', 'most')
--#include parts/run.lua
--#include parts/rest.lua
local rests = kept[1] == run and (tonumber(kept[2]) or 0) - ms
local anew = not rests or rests > rest
local quarantine = anew and rest or math.max(0, rests)
