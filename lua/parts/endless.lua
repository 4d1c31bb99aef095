-- endless.lua: a record without an end, or with one beyond any lease, as RESTORE, PERSIST or a user
-- without a right leaves it. It ends with the last of its holds, by their own deadlines. Included
-- by enter.
if remaining == -1 or remaining == MAX_LEASE then
  --#include parts/latest.lua
  if latest > 0 then
    redis.call('PEXPIREAT', record, num(latest))
    remaining = math.min(MAX_LEASE, latest - ms)
  else
    redis.call('DEL', record)
    remaining, more = -1, 1
  end
end
