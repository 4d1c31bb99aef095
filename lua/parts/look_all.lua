-- look_all.lua: what look.lua does, for all tickets of the request. Included by enter.
local members = {'?', '~' .. me, '?' .. me}
for _, one in ipairs(asked) do
  members[#members + 1] = one.ticket
  members[#members + 1] = '!' .. one.ticket
end
local scores = redis.call('ZMSCORE', waiters, unpack(members))
local gathering, blind, expected = scores[1], scores[2], scores[3]
for k, one in ipairs(asked) do one.deadline, one.retired = scores[2 * k + 2], scores[2 * k + 3] end
if not valid(gathering) then gathering = false end
