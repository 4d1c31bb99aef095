-- What the owners of a line will take off the deadlines of those behind them: each takes, when it
-- gets the lock, the time that it added. Clients like this one added `ours`. Java added `java`, or
-- what its deadline is later than that of the client in Java before it, if that is more. It may be
-- less, and mean nothing: one that stood between them has left. If Java took off less than we allow
-- for, those of ours behind it would keep their places for longer than a refresh allows, also when
-- they have died: so their deadlines are lowered to that.
local scores, list = {}, redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
for i = 1, #list, 2 do scores[list[i]] = tonumber(list[i + 1]) end
local ahead, before = 0, nil
local function pass(owner)
  if string.sub(owner, 15, 15) == '8' then -- a UUID of version 8; Java's are of version 4
    local most = now + ours + ahead
    if (scores[owner] or 0) > most then
      redis.call('ZADD', KEYS[3], 'XX', string.format('%.0f', most), owner)
    end
    ahead, before = ahead + ours, nil
  else
    ahead = ahead + math.max(java, before and scores[owner] and scores[owner] - before or 0)
    before = scores[owner]
  end
end
