-- look.lua: what the set of waiters has of ticket and of its client. Included. Leaves a score, or
-- false, for the ticket's deadline and for each mark that concerns the ticket (see marks.lua).
local scores =
  redis.call('ZMSCORE', waiters, ticket, '!' .. ticket, '~' .. client, '?' .. client, '?')
local deadline, retired, blind, expected, gathering =
  scores[1], scores[2], scores[3], scores[4], scores[5]
