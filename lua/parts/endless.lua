-- endless.lua: a record without an end, as RESTORE, PERSIST or a user without a right leaves it. It
-- ends with the last of its holds, by their own deadlines. Included by enter.
if remaining == -1 then
  local latest = 0
  local fields = redis.call('HGETALL', record)
  for i = 1, #fields, 2 do
    if fields[i] == 'kept' or string.find(fields[i], ':', 1, true) then
      latest = math.max(latest, end_of(fields[i + 1]))
    end
  end
  if latest > ms then
    redis.call('PEXPIREAT', record, num(latest))
    remaining = math.min(MAX_LEASE, latest - ms)
  else
    redis.call('DEL', record)
    more = 1
  end
end
