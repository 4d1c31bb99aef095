-- last.lua: the largest token given, as a number. Included; nothing is written yet. Lua counts to
-- 2^53, and another token must follow.
local last = tonumber(redis.call('GET', tokens) or 0)
if not (last and last >= 0 and last < 9007199254740991 and last % 1 == 0) then
  return redis.error_reply('WRONGTYPE the token key ' .. tokens .. ' holds no number below 2^53 - 1')
end
