-- Gives back a plain lock, and tells all who wait for it.
-- KEYS: 1 lock, 2 mark of an owner that has left
-- ARGV: 1 owner, 2 how long a late request of the owner is to be refused (ms; 0: there is none),
--       3 PUBLISH or SPUBLISH, 4 the channel of the lock
-- Reply: held or neither
-- Errors before a write: WRONGTYPE. A full server refuses nothing here.
local held = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if ARGV[2] ~= '0' then
  redis.call('HDEL', KEYS[1], '') -- nothing; but a full server refuses no write of a script after this
  redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
end
if not held then return 'neither' end
redis.call('DEL', KEYS[1])
redis.pcall(ARGV[3], ARGV[4], '0') -- refused or not, the lock is given back
return 'held'
