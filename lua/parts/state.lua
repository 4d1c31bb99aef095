-- state.lua: what is asked, and what there is. The last checks before the first write are here.
-- Included by enter.

local asked, telling, returning = {}, 0, false
local fields = {'owner', 'token', 'lease', 'since', 'kept'}
for i = 9, #ARGV, 4 do
  local ticket, place, most = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local told = ARGV[i + 3] == '1'
  asked[#asked + 1] = {ticket = ticket, place = place, most = most, told = told}
  if told then telling = telling + 1 end
  returning = returning or place > 0
  fields[#fields + 1] = ticket
end

local held = redis.call('HMGET', record, unpack(fields))
local line = redis.call('LLEN', queue)
local with_deadline = redis.call('ZCOUNT', waiters, 0, '+inf')
if seen > last and seen > MAX_TOKEN then
  return redis.error_reply('WRONGTYPE no token can follow ' .. ARGV[2] .. ' in ' .. tokens)
end
local holder = {
  owner = held[1],
  token = number(held[2], MAX_TOKEN),
  lease = number(held[3], MAX_LEASE),
  since = number(held[4], MAX_TIME),
}
local kept = end_of(held[5])
for k, one in ipairs(asked) do
  local hold = held[5 + k]
  one.hold = end_of(hold)
  -- Others can wait until a record with a damaged token ends. Nobody can be told that it is theirs.
  if holder.token == 0
    and (hold or holder.owner and holder.owner == select(3, split(one.ticket))) then
    return redis.error_reply('WRONGTYPE the record ' .. record .. ' holds no token')
  end
end
if holder.owner == '' and (holder.since == 0 or holder.since > ms) then holder.since = ms end
