-- rest.lua: for how long a node that forgot grants nothing (ms). What it forgot has ended by then,
-- and a clock that is 3 s behind gives no smaller token, also after a force, whose token is a claim
-- ahead. Included; needs most.
local rest = math.max(tonumber(most), CLAIM + math.min(CLAIM, tonumber(most)))
