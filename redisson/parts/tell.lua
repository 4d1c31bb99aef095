-- Tells the first in line that the lock is free. If it does not listen, a client like this one has
-- died, or subscribes and then asks by itself: the next is told, too. Java may listen on another
-- server. PUBLISH also counts who listens to patterns, as monitors do: so who listens to the
-- channel itself is asked for, where the user's rights allow it.
local told, at = head, 0
while told do
  local channel = channels .. ':' .. told
  local heard = redis.pcall(verb, channel, '0')
  if string.sub(told, 15, 15) ~= '8' then break end
  if verb == 'PUBLISH' then
    heard = tonumber(redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or heard)
  end
  if heard ~= 0 then break end
  at = at + 1
  told = redis.call('LINDEX', KEYS[2], at)
end
