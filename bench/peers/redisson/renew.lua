-- KEYS: locks. ARGV: lease (ms), then the owner of each lock.
local held = {}
for i, key in ipairs(KEYS) do
    if redis.call('HEXISTS', key, ARGV[i + 1]) == 1 then
        redis.call('PEXPIRE', key, ARGV[1])
        held[i] = 1
    else
        held[i] = 0
    end
end
return held
