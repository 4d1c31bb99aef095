-- rest.lua: for how long a node that forgot grants nothing (ms). What it forgot has ended by then,
-- and a clock that is a claim behind gives no smaller token. Included; needs most.
local rest = math.max(tonumber(most), CLAIM)
