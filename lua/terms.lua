-- terms.lua: what all scripts mean by their times (ms). Included.
--
-- An included file is part of the script that includes it and sees its locals. What the usual paths need is included as it stands, not
-- called: to make one function costs a script as much as a command.

local LIVENESS, LINE_TTL, MARK_TTL, BLIND, GATHER, CLAIM, DROPS = 15000, 30000, 60000, 3000, 6000, 3000, 500

-- What is more than this was not written by a script: a place (us) and a time (ms) of the next
-- centuries, a lease (ms), a token.
local PLACES, TIMES, LEASES, TOKENS = 4503599627370495, 9007199254740, 316224000000, 9007199254740990
