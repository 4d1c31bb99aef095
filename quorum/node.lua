-- node: which server this node is, and what it keeps of itself. Writes nothing.
--
-- KEYS  1 node  ARGV  1 the longest lease of the quorum (ms)
-- Reply {now (us), run id, for how long it will grant nothing (ms), the set and the longest lease
--        that it keeps}
local node, most = KEYS[1], ARGV[1]
--#include parts/now.lua
--#include parts/kept.lua
if not run then return info end
return {us, run, quarantine, kept[3] or '', tonumber(kept[4]) or 0}
