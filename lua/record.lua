-- record.lua: a fresh record for ticket, of owner, held until ms + span (or the lease). Included.
-- Leaves its token, a text; it is larger than last.
local token = string.format('%d', last >= us and last + 1 or us)
local deadline = string.format('%d', ms + span)
redis.call('SET', tokens, token, 'PXAT', string.format('%d', ms + math.max(TOKEN_TTL, 2 * lease)))
redis.call('HSET', record, 'owner', owner, 'token', token, 'since', string.format('%d', ms), 'lease', lease, ticket, deadline .. ':1')
redis.call('PEXPIREAT', record, deadline)
