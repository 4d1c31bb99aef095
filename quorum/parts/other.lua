-- other.lua: a node that keeps itself to be another one, of this quorum or of another, refuses:
-- under two names it would have two votes. Included; needs node, set and most.
local itself = redis.call('HMGET', node, 'set', 'most')
if itself[1] and (itself[1] ~= set or itself[2] ~= most) then
  return redis.error_reply('OTHERNODE it keeps itself to be another one')
end
