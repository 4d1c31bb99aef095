-- What the owners of a line will take off the deadlines of those behind them: each takes, when it
-- gets the lock, the time that it added. Clients like this one added `ours`. Java added what its
-- deadline is later than that of the client in Java before it. If one that stood between them has
-- left, that lacks what was left of the lease when the first of them came: 30 s, unless the lease is
-- a long one. Where nothing is known, Java added `java`. If Java took off less than we allow for,
-- those of ours behind it would keep their places for longer than a refresh allows, also when they
-- have died: so their deadlines are lowered to that. Nobody drops one that died behind a live head;
-- but Java adds its own time to the deadline of the last in line, also if that is long past. So
-- those of ours are dropped here that have not been refreshed for `ours` after their deadlines.
local LEASE = 30000 -- Redisson's lockWatchdogTimeout
local scores, list = {}, redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
for i = 1, #list, 2 do scores[list[i]] = tonumber(list[i + 1]) end
local ahead, before = 0, nil
local function pass(owner)
  if string.sub(owner, 15, 15) == '8' then -- a UUID of version 8; Java's are of version 4
    if (scores[owner] or now) + ours < now then
      redis.call('LREM', KEYS[2], 0, owner)
      redis.call('ZREM', KEYS[3], owner)
      redis.pcall(verb, channels .. ':' .. owner, '0') -- a live one stands in line again
      return
    end
    local most = now + ours + ahead
    if (scores[owner] or 0) > most then
      redis.call('ZADD', KEYS[3], 'XX', string.format('%.0f', most), owner)
    end
    ahead, before = ahead + ours, nil
  else
    local added = before and scores[owner] and math.max(0, scores[owner] - before)
    ahead = ahead + (added and math.min(math.max(java, added), added + LEASE) or java)
    before = scores[owner]
  end
end
