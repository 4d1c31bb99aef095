-- ends.lua: a vote ends with its claim. A user without the right to PEXPIRE gives none: it would
-- never end. Included where record has just been written.
local set = redis.pcall('PEXPIRE', record, string.format('%.0f', claim))
if type(set) == 'table' then
  redis.call('DEL', record)
  error(set)
end
