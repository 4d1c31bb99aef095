-- Tells which keys look like locks: hashes whose one field is the name of an owner. Writes nothing.
-- KEYS: any keys
-- Reply: their indices
local found = {}
for i, key in ipairs(KEYS) do
  if redis.call('TYPE', key).ok == 'hash' and redis.call('HLEN', key) == 1 and
    string.find(redis.call('HKEYS', key)[1], '^%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+$') then
    found[#found + 1] = i
  end
end
return found
