-- Tells the first in line that the lock is free. If nobody hears it, a client like this one has
-- died, or subscribes and then asks by itself: the next is told, too. Java may listen on another
-- server.
local told, at = head, 0
while told do
  local heard = redis.pcall(verb, channels .. ':' .. told, '0')
  if heard ~= 0 or string.sub(told, 15, 15) ~= '8' then break end
  at = at + 1
  told = redis.call('LINDEX', KEYS[2], at)
end
