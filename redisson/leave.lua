-- Ends whatever an owner has of a fair lock: the lock, or a place in line. The next in line is told
-- if the lock is free because of that.
-- KEYS: 1 lock, 2 queue, 3 deadlines, 4 mark of an owner that has left
-- ARGV: 1 owner, 2 time that an owner of ours stays in line unless refreshed, and adds to the
--       deadlines of those behind (ms),
--       3 how long a late request of the owner is to be refused (ms; 0: there is none),
--       4 PUBLISH or SPUBLISH, 5 what the channels of waiters begin with
-- Reply: held, waited or neither
-- Errors before a write: WRONGTYPE. A full server refuses nothing here.
local held = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
local waited = redis.call('ZSCORE', KEYS[3], ARGV[1])
local ours, verb, channels = tonumber(ARGV[2]), ARGV[4], ARGV[5]
--#include parts/now.lua
--#include parts/sweep.lua
redis.call('ZREM', KEYS[3], '') -- nothing; but a full server refuses no write of a script after this
if ARGV[3] ~= '0' then redis.call('SET', KEYS[4], 1, 'PX', ARGV[3]) end
local first = head == ARGV[1]
if waited then
  local behind = false
  for _, other in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
    if other == ARGV[1] then
      behind = true
    elseif behind and redis.call('ZSCORE', KEYS[3], other) then
      redis.call('ZINCRBY', KEYS[3], -ours, other)
    end
  end
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('LREM', KEYS[2], 0, ARGV[1])
  head = redis.call('LINDEX', KEYS[2], 0)
  if head then
    local ends = tonumber(redis.call('ZSCORE', KEYS[3], head) or 0) or 0
    --#include parts/lower.lua
  end
end
if held then redis.call('DEL', KEYS[1]) end
if head and (held or first or swept) and redis.call('EXISTS', KEYS[1]) == 0 then
  --#include parts/tell.lua
end
return held and 'held' or waited and 'waited' or 'neither'
