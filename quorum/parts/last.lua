-- last.lua: the largest token that was given or told; nil if the key holds no number, or none that
-- another token can follow. Included; needs tokens.
local last = tonumber(redis.call('GET', tokens) or 0)
if not (last and last >= 0 and last <= MAX_TOKEN and last % 1 == 0) then last = nil end
