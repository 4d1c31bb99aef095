-- last.lua: the largest token given, as a number. Included before anything is written.
local last = tonumber(redis.call('GET', tokens) or 0)
if not (last and last >= 0 and last <= MAX_TOKEN and last % 1 == 0) then
  return redis.error_reply(
    'WRONGTYPE the token key ' .. tokens .. ' holds no number below 2^53 - 1')
end
