-- latest.lua: when the last hold of the record ends (ms); 0 if none is left. Holds that have ended
-- are dropped. Included by rest, endless and others.
local latest = 0
local fields = redis.call('HGETALL', record)
for i = 1, #fields, 2 do
  if fields[i] == 'kept' or string.find(fields[i], ':', 1, true) then
    local till = end_of(fields[i + 1])
    if till > ms then latest = math.max(latest, till) else redis.call('HDEL', record, fields[i]) end
  end
end
