-- marks.lua: what the set of waiters has beside the deadlines of tickets. Included; needs
-- number.lua. A score below zero is no deadline but a mark: -(the end of the mark).
--   !ticket  retired: a late request of the ticket is not executed
--   ~client  blind: the client is reachable, though the server does not see its subscription
--   ?client  expected back: a ticket of the client was passed over, and no later one comes first
--   ?        all are expected back: places were lost, and nobody is granted the lock
--   #ticket  forced: an administrator has ended its hold; the ticket is retired, too
-- look.lua reads those that concern one ticket.

-- No mark is written to end later than in MARK_TTL.
local function valid(score)
  local left = -(tonumber(score or nil) or 0) - ms
  return left > 0 and left <= MARK_TTL
end

-- Writes a mark that ends in so many ms, and removes the marks that have ended.
local function mark(member, span)
  redis.call('ZREMRANGEBYSCORE', waiters, '(' .. num(-ms), '(0')
  redis.call('ZADD', waiters, num(-(ms + span)), member)
  redis.call('PEXPIREAT', waiters, num(ms + MARK_TTL))
end
