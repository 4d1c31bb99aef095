-- heard.lua: whether the server sees a subscriber of exactly client's channel. Included; leaves
-- heard. PUBLISH's own count would include pattern subscribers, such as a monitor.
local numsub = verb == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
local heard = tonumber(redis.pcall('PUBSUB', numsub, channels .. client)[2] or 0) > 0
