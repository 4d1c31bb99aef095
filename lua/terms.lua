-- terms.lua: what all scripts mean by their times (ms). Included.
--
-- An included file is part of the script that includes it and sees its locals. What the usual paths need is included as it stands, not
-- called: to make one function costs a script as much as a command.

local LIVENESS, LINE_TTL, MARK_TTL, BLIND, GATHER, CLAIM, DROPS = 15000, 30000, 60000, 3000, 6000, 3000, 500
