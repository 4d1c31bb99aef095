-- The one field of a lock. What has more fields is no lock.
local holder = ''
if redis.call('HLEN', KEYS[1]) == 1 then holder = redis.call('HKEYS', KEYS[1])[1] end
