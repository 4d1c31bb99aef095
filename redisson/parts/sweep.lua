-- Drops the waiters at the head of the line whose deadlines have passed, as every client does. A
-- head without a deadline is dropped, too: no client in Java ever does that (Redisson #4153). Who
-- is dropped is told: a live one asks, and stands in line again; else it would sleep beside a free
-- lock. Nobody ahead takes anything off the deadline of a head of ours: its place is kept for no
-- longer than a refresh would keep it (`ours`).
local head = redis.call('LINDEX', KEYS[2], 0)
local swept = false
while head do
  local ends = tonumber(redis.call('ZSCORE', KEYS[3], head) or 0) or 0
  if ends > now then
    --#include parts/lower.lua
    break
  end
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], head)
  swept = true
  redis.pcall(verb, channels .. ':' .. head, '0')
  head = redis.call('LINDEX', KEYS[2], 0)
end
