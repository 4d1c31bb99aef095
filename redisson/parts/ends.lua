-- ends.lua: the lock ends with the lease. A user without the right to PEXPIRE does not get the
-- lock: it would never end. Included by scripts that have just given it.
local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
if type(set) == 'table' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return set
end
