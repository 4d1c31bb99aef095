-- others.lua: until when the record is held already (ms). A record that has no end, or one beyond
-- any lease, as RESTORE or PERSIST leaves it, is held until the last of its holds ends. Included;
-- needs number.lua.
local others = redis.call('PEXPIRETIME', record)
if others == -1 or others > ms + MAX_LEASE then
  --#include parts/latest.lua
  others = latest
end
