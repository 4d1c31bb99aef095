-- Lowers the deadline of the head, which ends then, if it is one of ours.
if string.sub(head, 15, 15) == '8' and ends > now + ours then
  redis.call('ZREM', KEYS[3], '') -- nothing; but a full server refuses no write of a script after this
  redis.call('ZADD', KEYS[3], 'XX', string.format('%.0f', now + ours), head)
end
