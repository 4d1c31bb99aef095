-- meet: whether this node belongs to the quorum, and which server it is. If it does, it is written
-- to: a node that cannot write, because its memory or its disk is full, cannot vote either.
--
-- KEYS  1 node
-- ARGV  1 which node of which set  2 its longest lease (ms)
--       3 1: nobody holds anything yet; -1: a node that keeps no set is left alone
-- Reply {run id, for how long it grants nothing (ms), the set and the longest lease that it keeps}
--       A node that is left alone grants nothing for that long from when a call first enters.
local node, set, most = KEYS[1], ARGV[1], ARGV[2]
--#include parts/now.lua
--#include parts/kept.lua
if not run then return info end
local ours = kept[3] == set and kept[4] == most
if ARGV[3] == '1' or anew and (ours or not kept[3] and ARGV[3] ~= '-1') then
  local from = string.format('%.0f', ARGV[3] == '1' and ms or ms + rest)
  redis.call('HSET', node, 'run', run, 'from', from, 'set', set, 'most', most)
  kept = {run, from, set, most}
elseif ours then
  redis.call('HSET', node, 'set', set)
end
local wait = kept[3] and math.max(0, (tonumber(kept[2]) or 0) - ms) or rest
return {run, wait, kept[3] or '', tonumber(kept[4]) or 0}
