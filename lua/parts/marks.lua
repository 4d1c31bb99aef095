-- marks.lua: what the set of waiters has beside the deadlines of tickets. Included; needs
-- number.lua. A score below zero is no deadline but a mark, -(its own end):
--   !ticket  retired: a request of it that comes late is not executed
--   ~client  blind: it is reachable, though the server does not see its subscription
--   ?client  expected back: a ticket of it was passed over, and none of its later ones comes first
--   ?        all are expected back: places were lost, and nobody is granted the lock
--   #token   forced: nobody heard that this ownership was ended
-- look.lua looks with all that concerns one ticket.

-- No mark is written to end later than in MARK_TTL.
local function valid(score)
  local left = -(tonumber(score or nil) or 0) - ms
  return left > 0 and left <= MARK_TTL
end

-- Writes a mark that ends in so many ms. Those that have ended go: nobody else asks for them.
local function mark(member, span)
  redis.call('ZREMRANGEBYSCORE', waiters, '(' .. num(-ms), '(0')
  redis.call('ZADD', waiters, num(-(ms + span)), member)
  redis.call('PEXPIREAT', waiters, num(ms + MARK_TTL))
end
