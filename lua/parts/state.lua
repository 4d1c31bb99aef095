-- state.lua: what is asked, and what there is; the last that comes before the first write. Included
-- by enter.

-- The values under their names.
local function named(names, values)
  local by_name = {}
  for i = 1, #names do by_name[names[i]] = values[i] end
  return by_name
end

local asked, telling, returning = {}, 0, false
local fields = {'owner', 'token', 'lease', 'since', 'kept'}
local members = {'?', '~' .. me, '^' .. me}
for i = 9, #ARGV, 4 do
  local ticket, place, most = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local told = ARGV[i + 3] == '1'
  asked[#asked + 1] = {ticket = ticket, place = place, most = most, told = told}
  if told then telling = telling + 1 end
  returning = returning or place > 0
  fields[#fields + 1] = ticket
  members[#members + 1] = ticket
  members[#members + 1] = '!' .. ticket
end

local held = named(fields, redis.call('HMGET', record, unpack(fields)))
local line = redis.call('LLEN', queue)
local live = redis.call('ZCOUNT', waiters, 0, '+inf')
if seen > last and seen > MAX_TOKEN then
  return redis.error_reply('WRONGTYPE no token can follow ' .. ARGV[2] .. ' in ' .. tokens)
end
local holder = {
  owner = held.owner,
  token = number(held.token, MAX_TOKEN),
  lease = number(held.lease, MAX_LEASE),
  since = number(held.since, MAX_TIME),
}

-- A record whose token is damaged can be waited for, and ends; nobody can be told that it is his.
for _, one in ipairs(holder.token == 0 and asked or {}) do
  if held[one.ticket] or held.owner and held.owner == select(3, split(one.ticket)) then
    return redis.error_reply('WRONGTYPE the record ' .. record .. ' holds no token')
  end
end
if holder.owner == '' and (holder.since == 0 or holder.since > ms) then holder.since = ms end
