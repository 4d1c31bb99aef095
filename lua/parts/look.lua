-- look.lua: what the set of waiters has of ticket, and of client, whose it is. Included. Leaves a
-- score, or false, for its deadline and for each mark, as marks.lua explains them.
local scores =
  redis.call('ZMSCORE', waiters, ticket, '!' .. ticket, '~' .. client, '?' .. client, '?')
local deadline, retired, blind, expected, gathering =
  scores[1], scores[2], scores[3], scores[4], scores[5]
